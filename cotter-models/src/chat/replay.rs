//! Parts of a reply that must be sent back with it, only to the model that gave it. They are stored
//! as signatures of thinking, which only this dialect understands.

use std::fmt;

use serde_json::Value;

/// One part to send back.
#[derive(Debug, PartialEq)]
pub(super) enum ReplayItem {
    /// The field in which the thinking before it came.
    Thinking(&'static str),
    /// The thinking in OpenRouter's form, which covers many makers.
    Details(Value),
    /// Extra content beside the text.
    Extra(Value),
    /// Extra content of the call that follows.
    CallExtra(Value),
}

/// The fields in which thinking comes. If a delta has both, they are equal and the first is used.
pub(super) const THINKING: [&str; 2] = ["reasoning_content", "reasoning"];

const DETAILS: &str = "reasoning_details";
const EXTRA: &str = "extra_content";
const CALL_EXTRA: &str = "tool_calls.extra_content";

impl ReplayItem {
    /// Parses a signature; `None` if it is not one of ours.
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
