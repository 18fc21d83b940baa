//! The cost of checking an input against a schema, computed before the check.
//!
//! A schema can refer to itself, and to one part from many places. Forty definitions that each refer to the
//! next one twice make a million million paths, and a validator follows them all without a pause. So the
//! paths are counted first. Each pair of a schema part and an input part is computed once, whatever the
//! number of paths to it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::text;

/// The limit of applications of schema parts to input parts, each path counted.
const MOST: u64 = 1_000_000;
/// The limit of nested references.
const DEEPEST: usize = 512;

/// Keywords that can make more work than a schema and an input have parts.
pub(crate) const REPEATS: [&str; 5] =
    ["$ref", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"];

/// Keywords whose schemas apply to the same part of the input: a single schema, a list, or a map.
const ONE: [&str; 4] = ["not", "if", "then", "else"];
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const NAMED: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords whose schemas apply to every member of an object or to every element of a list.
const MEMBERS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
const ELEMENTS: [&str; 5] =
    ["items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"];

/// Checks that an input can be checked against a schema in bounded time; the error says why not.
pub(crate) fn bounded(schema: &Value, input: &Value) -> Result<(), String> {
    let mut wholes = vec![schema];
    named_within(schema, &mut wholes);
    let mut work = CheckCost { wholes, known: HashMap::new() };
    match work.of(schema, input, 0)? {
        steps if steps > MOST => Err(TOO_MUCH.into()),
        _ => Ok(()),
    }
}

const TOO_MUCH: &str = "it would take too long to check anything against it";

struct CheckCost<'a> {
    /// The bases of references: the schema, and the schemas within it that have names.
    wholes: Vec<&'a Value>,
    /// The computed costs; `None` while a cost is being computed.
    known: HashMap<(usize, usize), Option<u64>>,
}

impl<'a> CheckCost<'a> {
    fn of(&mut self, schema: &'a Value, input: &Value, depth: usize) -> Result<u64, String> {
        let Value::Object(members) = schema else { return Ok(1) };
        let address = |value: &Value| std::ptr::from_ref(value) as usize;
        let key = (address(schema), address(input));
        match self.known.get(&key) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => return Err("a part of it leads back to itself".into()),
            None => {}
        }
        if depth > DEEPEST || self.known.len() as u64 > MOST {
            return Err(TOO_MUCH.into());
        }
        self.known.insert(key, None);
        let mut here = 1u64;
        for part in self.in_place(members)? {
            here = here.saturating_add(self.of(part, input, depth + 1)?);
        }
        // To find unevaluated parts, a validator looks at everything a second time.
        if members.contains_key(REPEATS[3]) || members.contains_key(REPEATS[4]) {
            here = here.saturating_mul(2);
        }
        match input {
            Value::Object(given) => {
                for (name, value) in given {
                    for part in for_member(members, name) {
                        here = here.saturating_add(self.of(part, value, depth + 1)?);
                    }
                }
                if let Some(names) = members.get("propertyNames") {
                    let each = self.of(names, &Value::Null, depth + 1)?;
                    here = here.saturating_add(each.saturating_mul(given.len() as u64));
                }
            }
            Value::Array(given) => {
                for part in ELEMENTS.iter().filter_map(|word| members.get(*word)).flat_map(several)
                {
                    for value in given {
                        here = here.saturating_add(self.of(part, value, depth + 1)?);
                    }
                }
            }
            _ => {}
        }
        self.known.insert(key, Some(here));
        Ok(here)
    }

    /// Returns the subschemas that apply to the same input as the whole schema.
    fn in_place(&self, members: &'a Map<String, Value>) -> Result<Vec<&'a Value>, String> {
        let mut parts: Vec<_> = ONE.iter().filter_map(|word| members.get(*word)).collect();
        parts.extend(LISTS.iter().filter_map(|word| members.get(*word)).flat_map(several));
        let named = NAMED.iter().filter_map(|word| members.get(*word)?.as_object());
        parts.extend(named.flat_map(Map::values));
        for word in &REPEATS[..3] {
            if let Some(Value::String(reference)) = members.get(*word) {
                parts.extend(self.targets(reference)?);
            }
        }
        Ok(parts)
    }

    /// Returns every possible target of a reference, because a schema may contain schemas with their own
    /// names.
    fn targets(&self, reference: &str) -> Result<Vec<&'a Value>, String> {
        if reference.contains("://json-schema.org/") {
            return Ok(vec![]);
        }
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = decoded(fragment);
        let mut found = vec![];
        for whole in &self.wholes {
            let says = |word: &str| whole.get(word).and_then(Value::as_str).unwrap_or_default();
            let is_meant =
                name.is_empty() || ["$id", "id"].iter().any(|word| is_called(says(word), name));
            if is_meant && (fragment.is_empty() || fragment.starts_with('/')) {
                found.extend(whole.pointer(&fragment));
            }
            let anchors = NAMES.iter().map(|word| says(word).trim_start_matches('#'));
            if !fragment.is_empty() && { anchors }.any(|anchor| anchor == fragment) {
                found.push(*whole);
            }
        }
        if found.is_empty() {
            let shown = text::clip(reference, 80);
            return Err(format!("it refers to `{}`, which is not in it", text::show_line(&shown)));
        }
        Ok(found)
    }
}

/// Keywords that give a part of a schema a name.
const NAMES: [&str; 4] = ["$id", "id", "$anchor", "$dynamicAnchor"];

/// Adds the parts of a schema that have their own names.
fn named_within<'a>(schema: &'a Value, found: &mut Vec<&'a Value>) {
    let parts: Vec<&Value> = match schema {
        Value::Object(members) => members.values().collect(),
        Value::Array(values) => values.iter().collect(),
        _ => vec![],
    };
    for part in parts {
        if NAMES.iter().any(|word| part.get(word).is_some_and(Value::is_string)) {
            found.push(part);
        }
        named_within(part, found);
    }
}

/// True if one name may be short for the other: `b` and `https://example.com/b`.
fn is_called(id: &str, name: &str) -> bool {
    let last = |text: &str| text.trim_end_matches('#').rsplit('/').next().map(str::to_owned);
    !id.is_empty() && last(id) == last(name)
}

/// Returns the schemas that apply to a member named `name`.
fn for_member<'a>(schema: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    let own = schema.get("properties").and_then(|properties| properties.get(name));
    // Every pattern counts as a match.
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    let others = MEMBERS.iter().filter_map(|word| schema.get(*word));
    own.into_iter().chain(patterns.into_iter().flat_map(Map::values)).chain(others)
}

/// Returns the schemas of a list, or the single schema.
fn several(parts: &Value) -> &[Value] {
    match parts {
        Value::Array(parts) => parts,
        one => std::slice::from_ref(one),
    }
}

/// Decodes percent escapes in a fragment: `%24` becomes `$`.
fn decoded(fragment: &str) -> String {
    let mut bytes = fragment.as_bytes().iter();
    let mut out = vec![];
    while let Some(&byte) = bytes.next() {
        let escaped = (byte == b'%').then(|| bytes.as_slice().get(..2)).flatten();
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(meant) => {
                bytes.nth(1);
                out.push(meant);
            }
            None => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
