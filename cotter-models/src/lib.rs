//! Models for an agent. For now there is one: [`Rehearsal`], which works offline.

mod rehearsal;

pub use self::rehearsal::Rehearsal;

/// The README's snippets, compiled and run with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
