//! What a user of the crate sees.

mod rehearsal;
mod responses;
