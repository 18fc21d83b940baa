//! The input of a call, as it was streamed.

use serde_json::{Map, Value};

/// What a model gave as input: nothing is an empty object, and what cannot be parsed stays a text, for
/// the pipeline to refuse with a word to the model.
pub(crate) fn parse(text: String) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}
