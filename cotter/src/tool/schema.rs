//! The schema of a tool. It is compiled at the first call, because most tools of a session are never called.

mod cost;

use std::sync::OnceLock;

use jsonschema::{Draft, Validator};
use serde_json::Value;

use crate::{history::line_format::is_too_deep, text};

/// The greatest number of faults in one message.
const MAX_FAULTS: usize = 4;

/// The schema of a tool's input.
pub(crate) struct ToolSchema {
    schema: Value,
    compiled: OnceLock<Result<CompiledSchema, String>>,
}

struct CompiledSchema {
    validator: Validator,
    /// True if a check may take more time than the size of schema and input suggests.
    needs_cost_check: bool,
}

impl ToolSchema {
    /// Makes a schema from a value that must have the type `object`. Nothing else is checked yet.
    pub(crate) fn new(schema: &Value) -> Result<Self, &'static str> {
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Ok(ToolSchema::from_object(schema)),
            _ => Err("its schema must have \"type\": \"object\""),
        }
    }

    /// Makes the schema of a tool of this library, which is known to have the type `object`.
    pub(crate) fn from_object(schema: &Value) -> Self {
        ToolSchema { schema: schema.clone(), compiled: OnceLock::new() }
    }

    /// Checks an input; the error is a text for the model. A schema that does not compile refuses every
    /// input.
    pub(crate) fn check(&self, input: &Value) -> Result<(), String> {
        if !input.is_object() {
            return Err(
                "not a JSON object; send complete arguments, smaller if they were cut off".into()
            );
        }
        if is_too_deep(input) {
            return Err("nested too deep".into());
        }
        let invalid = |cause: &String| format!("the schema of the tool is invalid: {cause}");
        let compiled = self.compiled.get_or_init(|| compile(&self.schema));
        let CompiledSchema { validator, needs_cost_check } = compiled.as_ref().map_err(invalid)?;
        if *needs_cost_check {
            cost::check_cost(&self.schema, input).map_err(|cause| invalid(&cause))?;
        }
        if validator.is_valid(input) {
            return Ok(());
        }
        let faults = validator.iter_errors(input).take(MAX_FAULTS).map(|error| {
            let path = error.instance_path().to_string();
            let message = text::cut_chars(&error.to_string(), 300).into_owned();
            if path.is_empty() { message } else { format!("{path}: {message}") }
        });
        Err(faults.chain(self.suggest_keys(input)).collect::<Vec<_>>().join("; "))
    }

    /// Returns hints for input keys that are not in the schema but similar to a missing key.
    fn suggest_keys(&self, input: &Value) -> impl Iterator<Item = String> {
        let names = |value: &Value| -> Vec<String> {
            value.as_object().into_iter().flat_map(|members| members.keys().cloned()).collect()
        };
        let (given, known) = (names(input), names(&self.schema["properties"]));
        let free: Vec<_> = known.iter().filter(|name| !given.contains(name)).cloned().collect();
        let unknown = given.into_iter().filter(move |name| !known.contains(name)).take(MAX_FAULTS);
        unknown.filter_map(move |name| {
            let near = text::nearest(&name, free.iter().map(String::as_str))?;
            let shown = text::show_line(&name);
            Some(format!("`{}` may be meant for `{near}`", text::cut_chars(&shown, 80)))
        })
    }
}

/// Keywords whose meaning depends on the draft, or that only some drafts have.
const DRAFT_KEYWORDS: [&str; 10] = [
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

/// Compiles a schema. A schema that means the same in every draft is compiled as draft 7. The check of the
/// schema itself is several times faster then; it takes most of the time of a short run.
fn compile(schema: &Value) -> Result<CompiledSchema, String> {
    let options = jsonschema::options().should_validate_formats(false);
    let options =
        if mentions(schema, &DRAFT_KEYWORDS) { options } else { options.with_draft(Draft::Draft7) };
    let validator = options.build(schema).map_err(|cause| cause.to_string())?;
    Ok(CompiledSchema { validator, needs_cost_check: mentions(schema, &cost::REPEATING_KEYWORDS) })
}

/// True if a schema has one of these keywords at any depth.
fn mentions(schema: &Value, keywords: &[&str]) -> bool {
    match schema {
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| keywords.contains(&key.as_str()) || mentions(value, keywords)),
        Value::Array(values) => values.iter().any(|value| mentions(value, keywords)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(schema: Value, input: Value, expected: Expect) {
        let schema = ToolSchema::new(&schema).unwrap();
        expected.assert_eq(&schema.check(&input).err().unwrap_or_default());
    }

    #[test]
    fn schema_errors_name_their_place() {
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
    fn keywords_of_the_newest_schema_draft_are_supported() {
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

    /// A chain of forty definitions. Each one is `step` of the next one's address.
    fn chain(step: impl Fn(Value) -> Value, last: Value) -> Value {
        let next = |number: usize| json!({"$ref": format!("#/$defs/d{number}")});
        let defs = (0..40).map(|number| (format!("d{number}"), step(next(number + 1))));
        let defs: serde_json::Map<_, _> = defs.chain([("d40".into(), last)]).collect();
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs})
    }

    #[test]
    fn s17_exponential_schema_is_refused() {
        let refused = |schema: Value, input: Value| {
            let expected = "checking an input against it would take too long";
            let error = ToolSchema::new(&schema).unwrap().check(&input).unwrap_err();
            assert_eq!(error, format!("the schema of the tool is invalid: {expected}"));
        };
        let twice = |next: Value| json!({"anyOf": [next, next]});
        let never = json!({"type": "boolean"});
        refused(chain(twice, never), json!({"x": 1}));
        let all = |next: Value| json!({"allOf": [next, next]});
        refused(chain(all, json!(true)), json!({"x": 1}));
        // Repetition through the input.
        let through = json!({"type": "object", "$ref": "#/$defs/a", "$defs": {"a": {
            "anyOf": [{"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["y"]},
                      {"properties": {"x": {"$ref": "#/%24defs/a"}}, "required": ["z"]}]}}});
        let deep = (0..40).fold(json!({}), |inner, _| json!({"x": inner}));
        refused(through.clone(), deep);
        check(through, json!({"x": {"z": 1}, "y": 1}), expect![""]);
        // Repetition through other names.
        let id = |number: usize| format!("https://h/a{number}");
        let part = |number: usize| {
            let next = json!({"$ref": id(number + 1)});
            (format!("d{number}"), json!({"$id": id(number), "anyOf": [next, next]}))
        };
        let parts =
            (0..40).map(part).chain([("d40".into(), json!({"$id": id(40), "type": "null"}))]);
        let named = json!({"type": "object", "properties": {"x": {"$ref": "https://h/a0"}},
            "definitions": parts.collect::<serde_json::Map<_, _>>()});
        refused(named, json!({"x": 1}));
        // A very long chain.
        let long = (0..3000).map(|number| {
            (format!("d{number}"), json!({"$ref": format!("#/$defs/d{}", number + 1)}))
        });
        let long = long.chain([("d3000".into(), json!({}))]).collect::<serde_json::Map<_, _>>();
        let long = json!({"type": "object", "allOf": [{"$ref": "#/$defs/d0"}], "$defs": long});
        refused(long, json!({"x": 1}));
    }

    #[test]
    fn s17_deep_and_recursive_schemas_are_supported() {
        let once = |next: Value| json!({"anyOf": [{"type": "null"}, next]});
        check(chain(once, json!({"type": "number"})), json!({"x": 1}), expect![""]);
        let tree = json!({"type": "object", "$ref": "#/definitions/node", "definitions": {"node": {
            "properties": {"children": {"type": "array", "items": {"$ref": "#/definitions/node"}}},
        }}});
        let deep = (0..30).fold(json!({}), |inner, _| json!({"children": [inner, {}]}));
        check(tree, deep, expect![""]);
        let itself = json!({"type": "object", "properties": {"x": {"$ref": "#"}}});
        check(itself, json!({"x": {"x": {}}}), expect![""]);
        let round = json!({"type": "object", "allOf": [{"$ref": "#"}]});
        let fault = ToolSchema::new(&round).unwrap().check(&json!({})).unwrap_err();
        assert!(fault.starts_with("the schema of the tool is invalid: "), "{fault}");
    }

    #[test]
    fn broken_schema_refuses_every_input() {
        let broken = json!({"type": "object", "properties": {"n": {"type": "numbr"}}});
        let fault = ToolSchema::new(&broken).unwrap().check(&json!({"n": 1})).unwrap_err();
        assert!(fault.starts_with("the schema of the tool is invalid: "), "{fault}");
        assert!(ToolSchema::new(&json!({"type": "string"})).is_err());
    }
}
