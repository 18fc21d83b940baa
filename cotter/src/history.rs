//! history

pub(crate) mod outcome;
pub mod message_change;
pub(crate) mod ask;
pub mod tool_error_kind;
pub(crate) mod end_reason;
pub mod header;
pub(crate) mod chunked_vec;
pub mod entry;
#[cfg(feature = "jsonl")]
pub mod jsonl;
pub mod ledger;
pub(crate) mod line_format;
pub(crate) mod memo;
pub mod message;
pub(crate) mod message_list;
pub mod store;
pub(crate) mod tree;
