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
const MAX_STEPS: u64 = 1_000_000;
/// The limit of nested references.
const MAX_DEPTH: usize = 512;

/// Keywords with which a check can take more steps than the schema and the input have parts.
pub(crate) const REPEATING_KEYWORDS: [&str; 5] =
    ["$ref", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"];

/// Keywords whose schemas apply to the same part of the input: a single schema, a list, or a map.
const SINGLE_KEYWORDS: [&str; 4] = ["not", "if", "then", "else"];
const LIST_KEYWORDS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const MAP_KEYWORDS: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords whose schemas apply to every member of an object or to every element of a list.
const MEMBER_KEYWORDS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
const ELEMENT_KEYWORDS: [&str; 5] =
    ["items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"];

/// Checks that an input can be checked against a schema in bounded time; the error says why not.
pub(crate) fn check_cost(schema: &Value, input: &Value) -> Result<(), String> {
    let mut bases = vec![schema];
    collect_named(schema, &mut bases);
    let mut cost = CheckCost { bases, counts: HashMap::new() };
    match cost.count(schema, input, 0)? {
        steps if steps > MAX_STEPS => Err(TOO_EXPENSIVE.into()),
        _ => Ok(()),
    }
}

const TOO_EXPENSIVE: &str = "checking an input against it would take too long";

/// The cost of one check, with the costs of its parts.
struct CheckCost<'a> {
    /// The bases of references: the schema, and the schemas within it that have names.
    bases: Vec<&'a Value>,
    /// The computed costs; `None` while a cost is being computed.
    counts: HashMap<(usize, usize), Option<u64>>,
}

impl<'a> CheckCost<'a> {
    /// Returns the number of applications of schema parts to input parts.
    fn count(&mut self, schema: &'a Value, input: &Value, depth: usize) -> Result<u64, String> {
        let Value::Object(members) = schema else { return Ok(1) };
        let address = |value: &Value| std::ptr::from_ref(value) as usize;
        let key = (address(schema), address(input));
        match self.counts.get(&key) {
            Some(Some(count)) => return Ok(*count),
            Some(None) => return Err("a part of it refers to itself".into()),
            None => {}
        }
        if depth > MAX_DEPTH || self.counts.len() as u64 > MAX_STEPS {
            return Err(TOO_EXPENSIVE.into());
        }
        self.counts.insert(key, None);
        let mut total = 1u64;
        for part in self.find_subschemas(members)? {
            total = total.saturating_add(self.count(part, input, depth + 1)?);
        }
        // To find unevaluated parts, a validator looks at everything a second time.
        if members.contains_key(REPEATING_KEYWORDS[3])
            || members.contains_key(REPEATING_KEYWORDS[4])
        {
            total = total.saturating_mul(2);
        }
        match input {
            Value::Object(properties) => {
                for (name, value) in properties {
                    for part in find_member_schemas(members, name) {
                        total = total.saturating_add(self.count(part, value, depth + 1)?);
                    }
                }
                if let Some(names) = members.get("propertyNames") {
                    let each = self.count(names, &Value::Null, depth + 1)?;
                    total = total.saturating_add(each.saturating_mul(properties.len() as u64));
                }
            }
            Value::Array(elements) => {
                for part in
                    ELEMENT_KEYWORDS.iter().filter_map(|word| members.get(*word)).flat_map(as_list)
                {
                    for value in elements {
                        total = total.saturating_add(self.count(part, value, depth + 1)?);
                    }
                }
            }
            _ => {}
        }
        self.counts.insert(key, Some(total));
        Ok(total)
    }

    /// Returns the subschemas that apply to the same input as the whole schema.
    fn find_subschemas(&self, members: &'a Map<String, Value>) -> Result<Vec<&'a Value>, String> {
        let mut parts: Vec<_> =
            SINGLE_KEYWORDS.iter().filter_map(|word| members.get(*word)).collect();
        parts.extend(LIST_KEYWORDS.iter().filter_map(|word| members.get(*word)).flat_map(as_list));
        let named = MAP_KEYWORDS.iter().filter_map(|word| members.get(*word)?.as_object());
        parts.extend(named.flat_map(Map::values));
        for word in &REPEATING_KEYWORDS[..3] {
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
        let fragment = decode_fragment(fragment);
        let mut found = vec![];
        for base in &self.bases {
            let text_of = |word: &str| base.get(word).and_then(Value::as_str).unwrap_or_default();
            let is_target = name.is_empty()
                || ["$id", "id"].iter().any(|word| may_be_short_for(text_of(word), name));
            if is_target && (fragment.is_empty() || fragment.starts_with('/')) {
                found.extend(base.pointer(&fragment));
            }
            let anchors = NAME_KEYWORDS.iter().map(|word| text_of(word).trim_start_matches('#'));
            if !fragment.is_empty() && { anchors }.any(|anchor| anchor == fragment) {
                found.push(*base);
            }
        }
        if found.is_empty() {
            let shown = text::cut_chars(reference, 80);
            return Err(format!(
                "it refers to `{}`, which it does not define",
                text::show_line(&shown)
            ));
        }
        Ok(found)
    }
}

/// Keywords that give a part of a schema a name.
const NAME_KEYWORDS: [&str; 4] = ["$id", "id", "$anchor", "$dynamicAnchor"];

/// Adds the parts of a schema that have their own names.
fn collect_named<'a>(schema: &'a Value, found: &mut Vec<&'a Value>) {
    let parts: Vec<&Value> = match schema {
        Value::Object(members) => members.values().collect(),
        Value::Array(values) => values.iter().collect(),
        _ => vec![],
    };
    for part in parts {
        if NAME_KEYWORDS.iter().any(|word| part.get(word).is_some_and(Value::is_string)) {
            found.push(part);
        }
        collect_named(part, found);
    }
}

/// True if one name may be short for the other: `b` and `https://example.com/b`.
fn may_be_short_for(id: &str, name: &str) -> bool {
    let last = |text: &str| text.trim_end_matches('#').rsplit('/').next().map(str::to_owned);
    !id.is_empty() && last(id) == last(name)
}

/// Returns the schemas that apply to a member named `name`.
fn find_member_schemas<'a>(
    schema: &'a Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a Value> {
    let own = schema.get("properties").and_then(|properties| properties.get(name));
    // Every pattern counts as a match.
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    let others = MEMBER_KEYWORDS.iter().filter_map(|word| schema.get(*word));
    own.into_iter().chain(patterns.into_iter().flat_map(Map::values)).chain(others)
}

/// Returns the schemas of a list, or the single schema.
fn as_list(parts: &Value) -> &[Value] {
    match parts {
        Value::Array(parts) => parts,
        single => std::slice::from_ref(single),
    }
}

/// Decodes percent escapes in a fragment: `%24` becomes `$`.
fn decode_fragment(fragment: &str) -> String {
    let mut bytes = fragment.as_bytes().iter();
    let mut out = vec![];
    while let Some(&byte) = bytes.next() {
        let escaped = (byte == b'%').then(|| bytes.as_slice().get(..2)).flatten();
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                bytes.nth(1);
                out.push(decoded);
            }
            None => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
