//! The data of a session and its storage: messages, entries, records of runs and decisions, stores.
//!
//! This room is data and its format. It decides nothing and runs nothing.

pub mod message;
pub mod message_list;
pub mod outcome;
pub mod entry;
pub(crate) mod tree;
pub mod ledger;
pub mod ledger_row;
pub mod store;
mod memory_store;
#[cfg(feature = "jsonl")]
pub mod jsonl;
pub(crate) mod line_format;
mod chunked_vec;
pub(crate) mod memo;
