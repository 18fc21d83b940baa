//! The input of a call, after streaming.

use serde_json::{Map, Value};

/// Parses the input of a call. Empty input is an empty object. Invalid JSON stays a text; the
/// pipeline refuses it with a message to the model.
pub(crate) fn parse(text: String) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}
