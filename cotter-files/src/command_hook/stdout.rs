//! The standard output of a hook as every dialect reads it: one JSON object, or text in which a refusal still
//! counts.

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use cotter::{
    host::{find_refusal, text_has_refusal},
    text,
};

/// The standard output of a hook.
#[derive(Debug, PartialEq)]
pub(crate) enum HookStdout {
    /// The whole output is one JSON object.
    Object(Map<String, Value>),
    /// Any other text, without white space around it; it may be empty.
    Text(String),
    /// Text with a refusal in it, and the reason of the refusal.
    Refusal(String),
    /// The output begins with `{` and is neither one object nor objects line by line. It may have been a
    /// refusal.
    Broken(String),
}

/// The reason of a refusal that gives none and is not the whole output.
const IN_TEXT: &str = "its output contains a refusal, although it is not valid as a whole";

impl HookStdout {
    /// Reads the output. In text that is not one object, each object that begins and ends at a line border is
    /// read, and only for a refusal.
    pub(crate) fn read(stdout: &[u8]) -> Self {
        let cleaned = clean(stdout);
        let trimmed = cleaned.trim_ascii();
        let cause = match trimmed.first() {
            Some(b'{') => match read_object(trimmed) {
                Ok(object) => return HookStdout::Object(object),
                Err(cause) => Some(cause),
            },
            _ => None,
        };
        let text = String::from_utf8_lossy(trimmed);
        let lines = read_objects_in_lines(&text);
        let is_broken = lines.has_broken || std::str::from_utf8(trimmed).is_err();
        let refusal = lines.objects.iter().find_map(find_refusal);
        let has_refusal = || text_has_refusal(&text);
        match (refusal, cause) {
            (Some(reason), _) if !reason.is_empty() => HookStdout::Refusal(reason),
            (Some(_), _) => HookStdout::Refusal(IN_TEXT.into()),
            (None, _) if has_refusal() => HookStdout::Refusal(IN_TEXT.into()),
            (None, Some(cause)) if is_broken => {
                HookStdout::Broken(format!("its output begins with `{{` and is not JSON: {cause}"))
            }
            (None, _) => HookStdout::Text(text.into_owned()),
        }
    }
}

/// The output without a byte order mark and control characters, which no JSON has outside its texts. A carriage
/// return ends a line.
fn clean(stdout: &[u8]) -> Vec<u8> {
    let stdout = stdout.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stdout);
    let is_kept = |byte: &u8| !byte.is_ascii_control() || matches!(byte, b'\n' | b'\t');
    let bytes = stdout.iter().map(|byte| if *byte == b'\r' { b'\n' } else { *byte });
    bytes.filter(is_kept).collect()
}

/// The objects that begin and end at line borders.
struct ObjectsInLines {
    objects: Vec<Map<String, Value>>,
    /// True if a line begins with `{` and no such object begins there.
    has_broken: bool,
}

fn read_objects_in_lines(text: &str) -> ObjectsInLines {
    let mut found = ObjectsInLines { objects: vec![], has_broken: false };
    let mut rest = text;
    while !rest.is_empty() {
        let line_end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let length = match rest.trim_start_matches([' ', '\t']).starts_with('{') {
            true => read_first_object(rest).map(|(object, length)| {
                found.objects.push(object);
                length
            }),
            false => Some(line_end),
        };
        found.has_broken |= length.is_none();
        rest = &rest[length.unwrap_or(line_end)..];
    }
    found
}

/// The object at the beginning of a text, if its line ends with it, and the length up to the next line.
fn read_first_object(text: &str) -> Option<(Map<String, Value>, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let end = values.byte_offset();
    let line_end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
    // Read again: an object with a duplicate key is not an object.
    let object = read_object(text[..end].trim().as_bytes()).ok()?;
    (value.is_object() && text[end..line_end].trim().is_empty()).then_some((object, line_end))
}

/// Parses a JSON object and rejects duplicate keys at any depth: the reader could not know which value is
/// meant.
pub(crate) fn read_object(text: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    match serde_json::from_slice(text)? {
        UniqueKeys(Value::Object(object)) => Ok(object),
        UniqueKeys(_) => Err(serde::de::Error::custom("it is not an object")),
    }
}

/// A value without duplicate keys.
struct UniqueKeys(Value);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UniqueKeysVisitor).map(UniqueKeys)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, UniqueKeys(value))) = entries.next_entry::<String, UniqueKeys>()? {
            if object.contains_key(&key) {
                let duplicate = format!("duplicate key `{}`", text::show_line(&key));
                return Err(serde::de::Error::custom(duplicate));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = vec![];
        while let Some(UniqueKeys(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(stdout: &str, expected: Expect) {
        expected.assert_eq(&match HookStdout::read(stdout.as_bytes()) {
            HookStdout::Object(object) => format!("object {}", Value::Object(object)),
            HookStdout::Text(text) => format!("text {text:?}"),
            HookStdout::Refusal(reason) => format!("refusal: {reason}"),
            HookStdout::Broken(why) => format!("broken: {why}"),
        });
    }

    #[test]
    fn l8_whole_output_is_one_object_or_text() {
        check("", expect![[r#"text """#]]);
        check(" \n", expect![[r#"text """#]]);
        check("{}\n", expect!["object {}"]);
        check("{\n  \"continue\": false\n}\n", expect![[r#"object {"continue":false}"#]]);
        check("checked 3 files\n", expect![[r#"text "checked 3 files""#]]);
        check("[1]", expect![[r#"text "[1]""#]]);
    }

    #[test]
    fn l8_refusal_between_lines_of_text_counts() {
        check("log\n{\"continue\": false, \"reason\": \"no\"}\n", expect!["refusal: no"]);
        check(
            "log\n{\n\"blocked\": true\n}\nmore",
            expect!["refusal: its output contains a refusal, although it is not valid as a whole"],
        );
        check("{}\n{\"decision\": \"block\", \"reason\": \"second\"}", expect!["refusal: second"]);
        check(
            "log\n{\"decision\": \"block\"",
            expect!["refusal: its output contains a refusal, although it is not valid as a whole"],
        );
        for text in [
            "log {\"continue\": false}",
            "[{\"decision\": \"block\"}]",
            "INFO: {\"decision\": \"block\"}",
            "log\r{\"decision\": \"block\"}\rmore",
        ] {
            check(
                text,
                expect![
                    "refusal: its output contains a refusal, although it is not valid as a whole"
                ],
            );
        }
        check("\u{feff}{\"decision\": \"block\"}", expect![[r#"object {"decision":"block"}"#]]);
        check("\0\u{1b}{\"decision\": \"block\"}", expect![[r#"object {"decision":"block"}"#]]);
        check(
            "{\"continue\": false, \"continue\": true}",
            expect!["refusal: its output contains a refusal, although it is not valid as a whole"],
        );
    }

    #[test]
    fn l8_permission_between_lines_of_text_is_only_text() {
        check("log\n{\"continue\": true}", expect![[r#"text "log\n{\"continue\": true}""#]]);
        check("{}\n{}", expect![[r#"text "{}\n{}""#]]);
    }

    #[test]
    fn l8_output_that_begins_like_an_object_must_be_one() {
        check(
            "{\"a\": ",
            expect![[
                r#"broken: its output begins with `{` and is not JSON: EOF while parsing a value at line 1 column 5"#
            ]],
        );
        check(
            "{\"a\": 1, \"a\": 2}",
            expect![
                "broken: its output begins with `{` and is not JSON: duplicate key `a` at line 1 column 16"
            ],
        );
        check(
            "{} trailing",
            expect![[
                r#"broken: its output begins with `{` and is not JSON: trailing characters at line 1 column 4"#
            ]],
        );
    }
}
