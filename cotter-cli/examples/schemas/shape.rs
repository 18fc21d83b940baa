//! The common parts of all schemas: their construction, and the small types of values.

use std::borrow::Cow;

use schemars::{
    JsonSchema, Schema, SchemaGenerator,
    generate::{Contract, SchemaSettings},
    json_schema,
    transform::RecursiveTransform,
};
use serde_json::{Map, Value, json};

/// The schema of a value that cotter reads. Draft 7 is the draft that editors support best.
pub(crate) fn read<T: JsonSchema>() -> Schema {
    make_schema::<T>(Contract::Deserialize, without_null)
}

/// The schema of a value that cotter writes.
pub(crate) fn written<T: JsonSchema>() -> Schema {
    make_schema::<T>(Contract::Serialize, allow_absent)
}

fn make_schema<T: JsonSchema>(
    contract: Contract,
    first: impl Fn(&mut Schema) + Clone + Send + 'static,
) -> Schema {
    let mut settings = SchemaSettings::draft07();
    settings.contract = contract;
    settings.transforms.insert(0, Box::new(RecursiveTransform(tidy)));
    settings.transforms.insert(0, Box::new(RecursiveTransform(first)));
    settings.into_generator().into_root_schema_for::<T>()
}

/// Removes `null` from a schema: an absent value is left out.
fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(choices)) = object.get_mut("anyOf") else { return };
    choices.retain(|choice| *choice != json!({"type": "null"}));
    if let [Value::Object(only)] = choices.as_slice() {
        let only = only.clone();
        object.remove("anyOf");
        object.extend(only);
    }
}

/// Removes `null` from optional properties: an absent value is left out. A required property may be `null`.
fn allow_absent(schema: &mut Schema) {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(keys)) = schema.get_mut("properties") else { return };
    for (_, value) in keys.iter_mut().filter(|(key, _)| !required.iter().any(|name| name == *key)) {
        if let Ok(schema) = value.try_into() {
            without_null(schema);
        }
    }
}

/// Puts each description on one line, and removes the size of numbers in memory.
fn tidy(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("format");
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// The properties of an object's schema.
pub(crate) fn properties(schema: &mut Schema) -> &mut Map<String, Value> {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.expect("the schema of an object that has some")
}

/// Defines a type with an explicit schema, which is inlined wherever the type is used.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)*) => { $(
        $(#[$doc])*
        pub(crate) struct $name;

        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                $schema
            }
        }
    )* };
}

pub(crate) use plain;

plain! {
    /// A text that is not blank.
    Text = json_schema!({"type": "string", "pattern": r"\S"});
    /// The name of a variable.
    Variable = json_schema!({"type": "string", "pattern": "^[A-Za-z0-9_]+$"});
    /// `provider/model`.
    ModelName = json_schema!({"type": "string", "pattern": r"\S", "examples": ["anthropic/claude-sonnet-5-5"]});
    /// A folder: absolute, or below `~/`.
    Folder = json_schema!({"type": "string", "pattern": r"\S", "examples": ["~/notes"]});
}

/// One of the words of a table.
pub(crate) fn one_of<T>(words: &[(&str, T)]) -> Schema {
    let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    json_schema!({"type": "string", "enum": words})
}

/// Adds a schema to the definitions under a name, and returns a reference to it.
pub(crate) fn add_definition(
    generator: &mut SchemaGenerator,
    name: impl Into<Cow<'static, str>>,
    schema: Schema,
) -> Value {
    let name = name.into();
    let reference = json!({"$ref": format!("#/definitions/{name}")});
    generator.definitions_mut().insert(name.into_owned(), schema.into());
    reference
}
