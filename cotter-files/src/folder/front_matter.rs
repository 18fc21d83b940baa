//! Front matter: the lines between two `---` at the top of a file, before the body.
//!
//! The reader is lenient and tries three ways. The first is strict YAML. If strict YAML fails, the reader
//! quotes values that YAML misreads (`a: b` within a value, a leading `*` or `@`, tabs) and parses again. If
//! this fails too, it reads line by line: `key: value` and lists, but nothing nested. The second and the
//! third way add a [`Diagnostic`] that names the line.
//!
//! Some errors always reject the file: a duplicate key, more than [`MAX_BYTES`], too many aliases or levels,
//! bytes that are not UTF-8, no second `---`. A byte order mark and blank lines before the first `---` are
//! skipped; line ends may be CR LF. Without a first `---` the whole file is the body.

mod repair;
#[cfg(test)]
mod tests;

use std::{fmt, path::Path};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::folder::diagnostic::{Diagnostic, Severity};
use cotter::text;

/// The maximum size of a front matter in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// The maximum nesting depth of lists and mappings.
const MAX_DEPTH: usize = 12;

const TOO_COMPLEX: &str = "it is too long, too deeply nested, or has too many aliases";

/// The fields of a front matter, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct YamlFields(Vec<YamlField>);

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlField {
    /// The key.
    pub key: String,
    /// The line of the key in the file, from 1.
    pub line: usize,
    /// The value.
    pub value: YamlValue,
}

/// A value of a field. A number is stored as text; the reader of the field parses it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum YamlValue {
    /// The key has no value.
    Empty,
    /// `true` or `false`.
    Flag(bool),
    /// Text.
    Text(String),
    /// A list; each element has its line.
    List(Vec<(usize, YamlValue)>),
    /// A mapping.
    Fields(YamlFields),
    /// A value that could not be read.
    Unread,
}

impl YamlFields {
    /// The field with this key.
    pub fn get(&self, key: &str) -> Option<&YamlField> {
        self.0.iter().find(|field| field.key == key)
    }

    /// Every field, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &YamlField> {
        self.0.iter()
    }

    /// The text of a key; `None` if the key is missing or its value is empty.
    pub fn text(&self, key: &str) -> Result<Option<&str>, FieldError> {
        let Some(field) = self.get(key) else { return Ok(None) };
        match &field.value {
            YamlValue::Text(text) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            YamlValue::Empty => Ok(None),
            YamlValue::Flag(true) => Ok(Some("true")),
            YamlValue::Flag(false) => Ok(Some("false")),
            YamlValue::List(_) | YamlValue::Fields(_) | YamlValue::Unread => {
                Err(field.error("a text"))
            }
        }
    }

    /// The boolean of a key: `true`, `yes` and `on` are true. `None` if the key is missing or its value is
    /// empty.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, FieldError> {
        let Some(field) = self.get(key) else { return Ok(None) };
        match &field.value {
            YamlValue::Flag(flag) => Ok(Some(*flag)),
            YamlValue::Empty => Ok(None),
            YamlValue::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => Ok(Some(true)),
                "false" | "no" | "off" => Ok(Some(false)),
                _ => Err(field.error("`true` or `false`")),
            },
            YamlValue::List(_) | YamlValue::Fields(_) | YamlValue::Unread => {
                Err(field.error("`true` or `false`"))
            }
        }
    }

    /// The words of a key: a list, or a text split at commas, or at white space if the text has no comma.
    /// Text in parentheses is not split. `None` if the key is missing.
    pub fn words(&self, key: &str) -> Result<Option<Vec<String>>, FieldError> {
        let Some(field) = self.get(key) else { return Ok(None) };
        match &field.value {
            YamlValue::Empty => Ok(Some(vec![])),
            YamlValue::Flag(flag) => Ok(Some(vec![flag.to_string()])),
            YamlValue::Text(text) => Ok(Some(words(text))),
            YamlValue::List(list) => {
                let word = |(line, value): &(usize, YamlValue)| match value {
                    YamlValue::Text(text) => Ok(text.trim().to_owned()),
                    YamlValue::Flag(flag) => Ok(flag.to_string()),
                    _ => Err(FieldError { line: *line, ..field.error("a list of texts") }),
                };
                list.iter().map(word).collect::<Result<_, _>>().map(Some)
            }
            YamlValue::Fields(_) | YamlValue::Unread => Err(field.error("a list of texts")),
        }
    }
}

impl YamlField {
    /// Creates the error that this field has the wrong type or value; `wanted` says what is expected.
    pub fn error(&self, wanted: &str) -> FieldError {
        let key = text::cut_chars(&text::show_line(&self.key), 40).into_owned();
        FieldError { line: self.line, message: format!("`{key}` has to be {wanted}") }
    }
}

fn words(text: &str) -> Vec<String> {
    let by_commas = text.contains(',');
    let (mut words, mut word, mut depth) = (vec![], String::new(), 0_u32);
    for char in text.chars() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends = if by_commas { char == ',' } else { char.is_whitespace() };
        if ends && depth == 0 {
            words.push(std::mem::take(&mut word));
        } else {
            word.push(char);
        }
    }
    words.push(word);
    words.retain(|word| !word.trim().is_empty());
    words.iter().map(|word| word.trim().to_owned()).collect()
}

/// An error about a field with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The line of the file, from 1.
    pub line: usize,
    /// The description of the error.
    pub message: String,
}

impl FieldError {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        FieldError { line, message: message.into() }
    }

    /// Converts the error into the diagnostic of a rejected file.
    pub fn into_diagnostic(self, path: &Path) -> Diagnostic {
        Diagnostic::new(path, Some(self.line), Severity::Rejected, self.message)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for FieldError {}

/// The result of reading a file's front matter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FrontMatter {
    /// The fields; empty if the file has no front matter.
    pub fields: YamlFields,
    /// True if the file has a front matter.
    pub is_present: bool,
    /// The byte offset at which the body begins.
    pub body: usize,
    /// Diagnostics about a front matter that was not read as written.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the front matter of a file from its first bytes: more than [`MAX_BYTES`], or the whole file.
pub fn read(path: &Path, bytes: &[u8]) -> Result<FrontMatter, Diagnostic> {
    let rejected = |line, message: String| Diagnostic::new(path, line, Severity::Rejected, message);
    let FrontMatterSplit { front, line, body } = split(bytes).map_err(|line| {
        let message = if bytes.len() > MAX_BYTES {
            format!("the front matter does not end within {MAX_BYTES} bytes")
        } else {
            "the front matter has no end: a second line `---` is missing".to_owned()
        };
        rejected(Some(line), message)
    })?;
    let Some(front) = front else {
        let fields = YamlFields::default();
        return Ok(FrontMatter { fields, is_present: false, body, diagnostics: vec![] });
    };
    if front.len() > MAX_BYTES {
        let message = format!("the front matter does not end within {MAX_BYTES} bytes");
        return Err(rejected(Some(line), message));
    }
    let front = std::str::from_utf8(front).map_err(|error| {
        let at = line + 1 + count_lines(&front[..error.valid_up_to()]);
        rejected(Some(at), "a byte in the front matter is not UTF-8".into())
    })?;
    let (fields, diagnostic) = fields(path, front, line)?;
    Ok(FrontMatter {
        fields,
        is_present: true,
        body,
        diagnostics: diagnostic.into_iter().collect(),
    })
}

/// Reads a file that is one mapping, leniently like a front matter.
pub fn read_mapping(path: &Path, bytes: &[u8]) -> Result<FrontMatter, Diagnostic> {
    let (fields, diagnostic) = fields(path, mapping(path, bytes)?, 0)?;
    let diagnostics = diagnostic.into_iter().collect();
    Ok(FrontMatter { fields, is_present: true, body: bytes.len(), diagnostics })
}

/// Reads a file that is one mapping, strictly: a file that is not YAML is rejected.
pub fn read_exact(path: &Path, bytes: &[u8]) -> Result<YamlFields, Diagnostic> {
    let text = mapping(path, bytes)?;
    parse_strict(text, 0).map_err(|YamlError { line, why, is_final }| {
        let quoted = || repair::quote(text).filter(|quoted| parse_strict(quoted, 0).is_ok());
        let hint = match !is_final && quoted().is_some() {
            true => "; with its values in quotes it would be YAML",
            false => "",
        };
        Diagnostic::new(path, Some(line), Severity::Rejected, format!("{why}{hint}"))
    })
}

/// Decodes the text of a file that is one mapping, without a byte order mark.
fn mapping<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, Diagnostic> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + count_lines(&bytes[..error.valid_up_to()]);
        let message = "a byte in the file is not UTF-8".to_owned();
        Diagnostic::new(path, Some(line), Severity::Rejected, message)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// A file split into front matter and body.
struct FrontMatterSplit<'a> {
    front: Option<&'a [u8]>,
    /// The line of the first `---`.
    line: usize,
    /// The byte offset at which the body begins.
    body: usize,
}

/// Splits a file into front matter and body. The error is the line of a first `---` without a second one.
fn split(bytes: &[u8]) -> Result<FrontMatterSplit<'_>, usize> {
    let start = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let is_mark = |line: &[u8]| line.trim_ascii_end() == b"---";
    let (mut at, mut number) = (start, 0);
    let mut opened = None;
    for line in bytes[start..].split_inclusive(|byte| *byte == b'\n') {
        number += 1;
        match opened {
            None if is_mark(line) => opened = Some((at + line.len(), number)),
            None if line.trim_ascii().is_empty() => {}
            None => break,
            Some((from, opening)) if is_mark(line) => {
                let body = at + line.len();
                return Ok(FrontMatterSplit { front: Some(&bytes[from..at]), line: opening, body });
            }
            Some(_) => {}
        }
        at += line.len();
    }
    match opened {
        Some((_, opening)) => Err(opening),
        None => Ok(FrontMatterSplit { front: None, line: 0, body: start }),
    }
}

fn count_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Reads the fields of a front matter that begins after line `after` of the file.
fn fields(
    path: &Path,
    front: &str,
    after: usize,
) -> Result<(YamlFields, Option<Diagnostic>), Diagnostic> {
    let diagnostic = |line: usize, severity, message: String| {
        Diagnostic::new(path, Some(after + line), severity, message)
    };
    let YamlError { line, why, is_final } = match parse_strict(front, after) {
        Ok(fields) => return Ok((fields, None)),
        Err(error) => error,
    };
    if is_final {
        return Err(diagnostic(line, Severity::Rejected, why));
    }
    let repaired = |how: &str| diagnostic(line, Severity::Repaired, format!("{why}; {how}"));
    if let Some(quoted) = repair::quote(front)
        && let Ok(fields) = parse_strict(&quoted, after)
    {
        return Ok((fields, Some(repaired("read with its values in quotes"))));
    }
    match repair::read_lines(front, after) {
        Ok(fields) => Ok((fields, Some(repaired("read line by line")))),
        Err(error) => Err(error.into_diagnostic(path)),
    }
}

/// The reason why a text is not strict YAML.
struct YamlError {
    line: usize,
    why: String,
    /// True if the file is rejected and no lenient way is tried.
    is_final: bool,
}

fn parse_strict(front: &str, after: usize) -> Result<YamlFields, YamlError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000,
            max_aliases: 16,
            max_anchors: 16,
            max_recorded_anchor_events: 1_000,
            max_depth: MAX_DEPTH,
            max_documents: 1,
            max_nodes: 10_000,
            max_total_scalar_bytes: 1024 * 1024,
            max_merge_keys: 0,
        },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    let read = serde_saphyr::from_str_with_options::<Spanned<RawYaml>>(front, options);
    let read = read.map_err(|error| describe_yaml_error(&error))?;
    match value(read.value, after) {
        YamlValue::Fields(fields) => Ok(fields),
        YamlValue::Empty => Ok(YamlFields::default()),
        _ => Err(YamlError {
            line: 1,
            why: "it is not a mapping of keys to values".into(),
            is_final: false,
        }),
    }
}

fn describe_yaml_error(error: &serde_saphyr::Error) -> YamlError {
    use serde_saphyr::Error;
    let error = error.without_snippet();
    let line = error.location().map_or(1, |at| usize::try_from(at.line()).unwrap_or(1)).max(1);
    let (why, is_final) = match error {
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("?");
            let key = text::cut_chars(&text::show_line(key), 40).into_owned();
            (format!("duplicate key `{key}`"), true)
        }
        // Text behind an alias was already parsed once without error: only the number of aliases is wrong.
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasError { .. } => (TOO_COMPLEX.to_owned(), true),
        // The parser of flow lists and mappings has its own depth limit, without an error variant.
        error if error.to_string().contains("recursion limit") => (TOO_COMPLEX.to_owned(), true),
        _ => ("it is not YAML".to_owned(), false),
    };
    YamlError { line, why, is_final }
}

/// A value as the YAML library returns it.
enum RawYaml {
    Empty,
    Flag(bool),
    Text(String),
    List(Vec<Spanned<RawYaml>>),
    Map(Vec<(Spanned<String>, Spanned<RawYaml>)>),
}

/// Converts a raw value; lines become lines of the file.
fn value(raw: RawYaml, after: usize) -> YamlValue {
    let line = |at: serde_saphyr::Location| after + usize::try_from(at.line()).unwrap_or(0);
    match raw {
        RawYaml::Empty => YamlValue::Empty,
        RawYaml::Flag(flag) => YamlValue::Flag(flag),
        RawYaml::Text(text) => YamlValue::Text(text),
        RawYaml::List(list) => {
            let item =
                |spanned: Spanned<RawYaml>| (line(spanned.referenced), value(spanned.value, after));
            YamlValue::List(list.into_iter().map(item).collect())
        }
        RawYaml::Map(map) => {
            let field = |(key, spanned): (Spanned<String>, Spanned<RawYaml>)| YamlField {
                line: line(key.referenced),
                key: key.value,
                value: value(spanned.value, after),
            };
            YamlValue::Fields(YamlFields(map.into_iter().map(field).collect()))
        }
    }
}

impl<'de> Deserialize<'de> for RawYaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawYaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawYaml, E> {
        Ok(RawYaml::Empty)
    }

    fn visit_none<E>(self) -> Result<RawYaml, E> {
        Ok(RawYaml::Empty)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawYaml, D::Error> {
        RawYaml::deserialize(deserializer)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<RawYaml, E> {
        Ok(RawYaml::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<RawYaml, E> {
        Ok(RawYaml::Text(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<RawYaml, E> {
        Ok(RawYaml::Text(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<RawYaml, E> {
        Ok(RawYaml::Text(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<RawYaml, E> {
        Ok(RawYaml::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawYaml, A::Error> {
        let mut list = vec![];
        while let Some(element) = seq.next_element()? {
            list.push(element);
        }
        Ok(RawYaml::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawYaml, A::Error> {
        let mut fields = vec![];
        while let Some(pair) = map.next_entry()? {
            fields.push(pair);
        }
        Ok(RawYaml::Map(fields))
    }
}

/// Checks invariants of the reader on arbitrary bytes. A test and the fuzzer call it.
#[doc(hidden)]
pub fn check_invariants(bytes: &[u8]) {
    let path = Path::new("f.md");
    let exact = read_exact(path, bytes);
    let lenient = read_mapping(path, bytes).ok().filter(|read| read.diagnostics.is_empty());
    assert_eq!(exact.ok(), lenient.map(|read| read.fields), "both readers agree on strict YAML");
    for read in [read(path, bytes), read_mapping(path, bytes)] {
        let lines = 1 + count_lines(bytes);
        match read {
            Ok(read) => {
                assert!(read.body <= bytes.len());
                let diagnostic_lines =
                    read.diagnostics.iter().filter_map(|diagnostic| diagnostic.line);
                let field_lines = read.fields.iter().map(|field| field.line);
                assert!(
                    field_lines.chain(diagnostic_lines).all(|line| (1..=lines).contains(&line))
                );
                let keys: std::collections::BTreeSet<_> =
                    read.fields.iter().map(|field| &field.key).collect();
                assert_eq!(keys.len(), read.fields.iter().count(), "no key is duplicate");
                for field in read.fields.iter() {
                    let _ = read.fields.text(&field.key);
                    let _ = read.fields.flag(&field.key);
                    let _ = read.fields.words(&field.key);
                }
            }
            Err(diagnostic) => {
                assert_eq!(diagnostic.severity, Severity::Rejected);
                assert!(diagnostic.line.is_none_or(|line| (1..=lines).contains(&line)));
            }
        }
    }
}
