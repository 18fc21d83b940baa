//! Models for an agent. For now there is one: [`Rehearsal`], which works offline.

mod rehearsal;

pub use self::rehearsal::Rehearsal;
