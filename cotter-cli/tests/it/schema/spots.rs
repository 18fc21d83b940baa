//! Walks through a schema: every position of a document that it describes, with a function that puts a value
//! there.

use std::rc::Rc;

use serde_json::{Value, json};

/// A position in a document, as a schema describes it.
pub(super) struct Spot<'s> {
    /// The path of the position: `$.permissions.deny[]`.
    pub(super) path: String,
    /// The schema of the position, with references resolved.
    pub(super) schema: &'s Value,
    /// Returns a document with this value at the position, and otherwise only required keys.
    pub(super) whole: Rc<dyn Fn(Value) -> Value + 's>,
}

/// Returns every position, the outermost first.
pub(super) fn spots(root: &Value) -> Vec<Spot<'_>> {
    let mut found = vec![];
    let whole: Rc<dyn Fn(Value) -> Value> = Rc::new(|value| value);
    visit(root, root, "$".into(), &whole, &mut found);
    found
}

fn visit<'s>(
    root: &'s Value,
    schema: &'s Value,
    path: String,
    whole: &Rc<dyn Fn(Value) -> Value + 's>,
    found: &mut Vec<Spot<'s>>,
) {
    let schema = resolved(root, schema);
    if let Some(choices) = schema["anyOf"].as_array() {
        for (number, choice) in choices.iter().enumerate() {
            visit(root, choice, format!("{path}|{number}"), whole, found);
        }
        return;
    }
    found.push(Spot { path: path.clone(), schema, whole: whole.clone() });
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let (whole, least) = (whole.clone(), least(root, schema));
        let put = move |value: Value| {
            let mut object = least.clone();
            object[key] = value;
            whole(object)
        };
        let put: Rc<dyn Fn(Value) -> Value + 's> = Rc::new(put);
        visit(root, value, format!("{path}.{key}"), &put, found);
    }
    let named = &schema["additionalProperties"];
    if named.is_object() {
        let example = schema["examples"][0].as_object();
        let name = example.and_then(|object| object.keys().next().cloned());
        let (whole, name) = (whole.clone(), name.unwrap_or_else(|| "x".into()));
        let put: Rc<dyn Fn(Value) -> Value + 's> =
            Rc::new(move |value| whole(json!({ name.as_str(): value })));
        visit(root, named, format!("{path}.*"), &put, found);
    }
    if schema["items"].is_object() {
        let whole = whole.clone();
        let put: Rc<dyn Fn(Value) -> Value + 's> = Rc::new(move |value| whole(json!([value])));
        visit(root, &schema["items"], format!("{path}[]"), &put, found);
    }
}

/// Resolves references.
fn resolved<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    match reference {
        None => schema,
        Some(reference) => {
            let pointer = reference.strip_prefix('#').expect("a reference within the file");
            resolved(root, root.pointer(pointer).expect("what is referred to"))
        }
    }
}

/// Returns the smallest object that a schema allows.
fn least(root: &Value, schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let required = required.map(|key| {
        let key = key.as_str().expect("a key");
        (key.to_owned(), sample(root, &schema["properties"][key]))
    });
    Value::Object(required.collect())
}

/// Returns a value that a schema allows.
pub(super) fn sample(root: &Value, schema: &Value) -> Value {
    let example = &schema["examples"][0];
    let schema = resolved(root, schema);
    let known = [example, &schema["examples"][0], &schema["const"], &schema["enum"][0]];
    if let Some(value) = known.into_iter().find(|value| !value.is_null()) {
        return value.clone();
    }
    if let Some(first) = schema["anyOf"].get(0) {
        return sample(root, first);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind.unwrap_or_default() {
        "string" => json!("x"),
        "integer" | "number" => json!(1),
        "boolean" => json!(true),
        "array" if schema["maxItems"] == 0 => json!([]),
        "array" => json!([sample(root, &schema["items"])]),
        "object" if schema["additionalProperties"].is_object() => {
            json!({"x": sample(root, &schema["additionalProperties"])})
        }
        "object" => least(root, schema),
        _ => json!("x"),
    }
}
