//! What a session holds and where it is stored: messages, entries, records of runs and decisions, stores.
//!
//! Everything here is data and its format. Nothing decides or runs anything.

pub mod message;
pub mod message_list;
pub mod outcome;
pub mod entry;
pub(crate) mod tree;
pub mod ledger;
pub mod store;
mod memory_store;
#[cfg(feature = "jsonl")]
pub mod jsonl;
pub(crate) mod line_format;
mod chunked_vec;
pub(crate) mod memo;
