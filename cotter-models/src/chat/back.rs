//! What a reply brought along that has to go back with it, to the model that gave it and to no other.
//! It is kept as the signature of thinking, which only this dialect understands.

use std::fmt;

use serde_json::Value;

/// One thing to go back.
#[derive(Debug, PartialEq)]
pub(super) enum ReplayItem {
    /// The thinking before it came in this field.
    Thinking(&'static str),
    /// The thinking as one who passes it on from many makers wants it.
    Details(Value),
    /// What came beside the text.
    Extra(Value),
    /// What came with the call that follows.
    CallExtra(Value),
}

/// The fields that thinking comes in. Of two in one piece the first counts; both say the same.
pub(super) const THINKING: [&str; 2] = ["reasoning_content", "reasoning"];

const DETAILS: &str = "reasoning_details";
const EXTRA: &str = "extra_content";
const CALL_EXTRA: &str = "tool_calls.extra_content";

impl ReplayItem {
    /// What a signature says, where it is one of ours.
    pub(super) fn parse(signature: &str) -> Option<Self> {
        let field = THINKING.into_iter().find(|field| *field == signature);
        if let Some(field) = field {
            return Some(ReplayItem::Thinking(field));
        }
        let (name, value) = signature.split_once(' ')?;
        let value = serde_json::from_str(value).ok()?;
        match name {
            DETAILS => Some(ReplayItem::Details(value)),
            EXTRA => Some(ReplayItem::Extra(value)),
            CALL_EXTRA => Some(ReplayItem::CallExtra(value)),
            _ => None,
        }
    }
}

impl fmt::Display for ReplayItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayItem::Thinking(field) => f.write_str(field),
            ReplayItem::Details(value) => write!(f, "{DETAILS} {value}"),
            ReplayItem::Extra(value) => write!(f, "{EXTRA} {value}"),
            ReplayItem::CallExtra(value) => write!(f, "{CALL_EXTRA} {value}"),
        }
    }
}
