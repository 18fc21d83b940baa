//! A tool's schema, compiled when its first call comes: most tools of a session are never called.

use std::sync::OnceLock;

use jsonschema::{Draft, Validator};
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
            Some("object") => Ok(Schema::of_our_own(schema)),
            _ => Err("its schema must have \"type\": \"object\""),
        }
    }

    /// The schema of a tool of our own making, known to be an object's.
    pub(crate) fn of_our_own(schema: &Value) -> Self {
        Schema { schema: schema.clone(), compiled: OnceLock::new() }
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
        let validator = match self.compiled.get_or_init(|| compile(&self.schema)) {
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
        Err(faults.chain(self.misspelt(input)).collect::<Vec<_>>().join("; "))
    }

    /// The names of the input that are none of the schema's, but near one that is not given.
    fn misspelt(&self, input: &Value) -> impl Iterator<Item = String> {
        let names = |value: &Value| -> Vec<String> {
            value.as_object().into_iter().flat_map(|members| members.keys().cloned()).collect()
        };
        let (given, known) = (names(input), names(&self.schema["properties"]));
        let free: Vec<_> = known.iter().filter(|name| !given.contains(name)).cloned().collect();
        let unknown = given.into_iter().filter(move |name| !known.contains(name)).take(FAULTS);
        unknown.filter_map(move |name| {
            let near = text::nearest(&name, free.iter().map(String::as_str))?;
            let shown = text::show_line(&name);
            Some(format!("`{}` may be meant for `{near}`", text::clip(&shown, 80)))
        })
    }
}

/// Words whose meaning, or very existence, depends on the draft.
const NEWER: [&str; 10] = [
    "$schema",
    "$dynamicRef",
    "$recursiveRef",
    "dependentRequired",
    "dependentSchemas",
    "maxContains",
    "minContains",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// A schema that says the same in every draft is read as draft 7, whose own schema is checked several
/// times faster than the newest one's: that is most of a short run's time.
fn compile(schema: &Value) -> Result<Validator, String> {
    let options = jsonschema::options().should_validate_formats(false);
    let options =
        if mentions(schema, &NEWER) { options } else { options.with_draft(Draft::Draft7) };
    options.build(schema).map_err(|cause| cause.to_string())
}

fn mentions(schema: &Value, words: &[&str]) -> bool {
    match schema {
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| words.contains(&key.as_str()) || mentions(value, words)),
        Value::Array(values) => values.iter().any(|value| mentions(value, words)),
        _ => false,
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
    fn words_of_the_newest_draft_are_understood() {
        let pair = json!({"type": "object", "properties": {
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}
        }});
        check(pair.clone(), json!({"pair": ["a", 1]}), expect![""]);
        check(
            pair,
            json!({"pair": [1, "a"]}),
            expect![[
                r#"/pair/0: 1 is not of type "string"; /pair/1: "a" is not of type "number""#
            ]],
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
