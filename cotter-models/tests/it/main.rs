//! What a user of the crate sees.

mod chat;
mod rehearsal;
mod responses;
