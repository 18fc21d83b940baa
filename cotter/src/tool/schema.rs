//! A tool's schema, compiled when its first call comes: most tools of a session are never called.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

use crate::{session::wire::is_too_deep, text};

/// The most faults one message names.
const FAULTS: usize = 4;

/// The schema of a tool's input.
pub(crate) struct Schema {
    schema: Value,
    compiled: OnceLock<Result<Validator, String>>,
}

impl Schema {
    /// A schema that is not yet looked at, but for its kind: tools take objects.
    pub(crate) fn new(schema: &Value) -> Result<Self, &'static str> {
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Ok(Schema { schema: schema.clone(), compiled: OnceLock::new() }),
            _ => Err("its schema must have \"type\": \"object\""),
        }
    }

    /// What is wrong with an input, in words for the model. A schema that cannot be compiled refuses
    /// every input.
    pub(crate) fn check(&self, input: &Value) -> Result<(), String> {
        if !input.is_object() {
            return Err(
                "not a JSON object; send complete arguments, smaller if they were cut off".into()
            );
        }
        if is_too_deep(input) {
            return Err("nested too deep".into());
        }
        let compile = || jsonschema::validator_for(&self.schema).map_err(|cause| cause.to_string());
        let validator = match self.compiled.get_or_init(compile) {
            Ok(validator) => validator,
            Err(cause) => return Err(format!("the tool's own schema is broken: {cause}")),
        };
        if validator.is_valid(input) {
            return Ok(());
        }
        let faults = validator.iter_errors(input).take(FAULTS).map(|error| {
            let place = error.instance_path().to_string();
            let what = text::clip(&error.to_string(), 300).into_owned();
            if place.is_empty() { what } else { format!("{place}: {what}") }
        });
        Err(faults.collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(schema: Value, input: Value, expected: Expect) {
        let schema = Schema::new(&schema).unwrap();
        expected.assert_eq(&schema.check(&input).err().unwrap_or_default());
    }

    #[test]
    fn faults_are_named_with_their_place() {
        let schema = || json!({"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]});
        check(schema(), json!({"n": 1}), expect![""]);
        check(schema(), json!({"n": "x"}), expect![[r#"/n: "x" is not of type "number""#]]);
        check(schema(), json!({}), expect![[r#""n" is a required property"#]]);
        check(
            schema(),
            json!("cut o"),
            expect!["not a JSON object; send complete arguments, smaller if they were cut off"],
        );
    }

    #[test]
    fn a_broken_schema_lets_nothing_pass() {
        let broken = json!({"type": "object", "properties": {"n": {"type": "numbr"}}});
        let fault = Schema::new(&broken).unwrap().check(&json!({"n": 1})).unwrap_err();
        assert!(fault.starts_with("the tool's own schema is broken: "), "{fault}");
        assert!(Schema::new(&json!({"type": "string"})).is_err());
    }
}
