//! What a user of the crate sees.

mod rehearsal;
