//! history

pub(crate) mod outcome;
pub(crate) mod message_change;
pub(crate) mod ask;
pub(crate) mod tool_error_kind;
pub(crate) mod end_reason;
pub(crate) mod header;
pub(crate) mod chunked_vec;
pub(crate) mod entry;
#[cfg(feature = "jsonl")]
pub(crate) mod jsonl;
pub(crate) mod ledger;
pub(crate) mod line_format;
pub(crate) mod memo;
pub(crate) mod message;
pub(crate) mod message_list;
pub(crate) mod store;
pub(crate) mod tree;
