//! JSON documents with comments, in which every value knows its location. This room parses text and reports
//! errors with file, line and JSON path. It gives no key a meaning.

pub mod location;
mod scan;

use std::{collections::HashMap, ops::RangeInclusive, path::Path, sync::Arc};

use jsonc_parser::{
    ParseOptions, ParseStringErrorKind, ast,
    common::Ranged,
    errors::{ParseError, ParseErrorKind},
};

use crate::document::location::{
    SettingsError, SourceLocation, SourceText, SourcedText, TextPosition,
};
use cotter::text;

/// The maximum size of a settings file in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// A parsed settings file. The document gives its keys no meaning.
///
/// Comments and trailing commas are allowed; everything else is strict JSON. A document is at most
/// [`MAX_BYTES`] long and 128 levels deep, and no object in it has a key twice.
pub struct Document {
    source: Arc<SourceText>,
    root: JsonValue,
}

impl Document {
    /// Parses text; errors name the file `file_name`.
    pub fn parse(file_name: &str, text: &str) -> Result<Document, SettingsError> {
        let file: Arc<str> = text::show_line(file_name).into();
        if text.len() > MAX_BYTES {
            return Err(too_large(&file));
        }
        // A byte order mark is not part of the first line.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        let source = Arc::new(SourceText { file, text });
        let root = parse_root(&source)?;
        Ok(Document { source, root })
    }

    /// Parses the bytes of a file, which must be UTF-8.
    pub fn parse_bytes(file_name: &str, bytes: &[u8]) -> Result<Document, SettingsError> {
        if bytes.len() > MAX_BYTES {
            return Err(too_large(&text::show_line(file_name).into()));
        }
        let valid = match std::str::from_utf8(bytes) {
            Ok(text) => return Document::parse(file_name, text),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&bytes[..valid]).into_owned();
        let source = Arc::new(SourceText { file: text::show_line(file_name).into(), text });
        let message = format!("byte 0x{:02x} is not UTF-8", bytes[valid]);
        Err(error_at(&source, valid, message).with_hint("save the file as UTF-8"))
    }

    /// The text that was parsed, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// The outermost value.
    pub fn root(&self) -> Node<'_> {
        Node { source: &self.source, value: &self.root }
    }
}

/// A value in a document. Each method returns the value as one type, or an error that names the location.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    source: &'a Arc<SourceText>,
    value: &'a JsonValue,
}

impl<'a> Node<'a> {
    /// Converts this value to a plain JSON value, whatever its type.
    pub fn to_json(&self) -> serde_json::Value {
        self.value.data.to_json()
    }

    /// Returns this value as an object; any other type is an error.
    pub fn object(&self) -> Result<Object<'a>, SettingsError> {
        match &self.value.data {
            JsonData::Object(members) => Ok(Object { node: *self, members }),
            _ => Err(self.expected("an object")),
        }
    }

    /// Returns the elements of this list; any other type is an error.
    pub fn list(&self) -> Result<impl ExactSizeIterator<Item = Node<'a>> + use<'a>, SettingsError> {
        let source = self.source;
        match &self.value.data {
            JsonData::List(values) => Ok(values.iter().map(move |value| Node { source, value })),
            _ => Err(self.expected("a list")),
        }
    }

    /// Returns this string, which may be empty; any other type is an error.
    pub fn string(&self) -> Result<&'a str, SettingsError> {
        match &self.value.data {
            JsonData::String(string) => Ok(string),
            _ => Err(self.expected("a string")),
        }
    }

    /// Returns this string; an empty string, or one of white space only, is an error.
    pub fn non_empty_string(&self) -> Result<&'a str, SettingsError> {
        match self.string()? {
            string if string.trim().is_empty() => Err(self.expected("a string that is not empty")),
            string => Ok(string),
        }
    }

    /// Returns this `true` or `false`; any other type is an error.
    pub fn bool(&self) -> Result<bool, SettingsError> {
        match self.value.data {
            JsonData::Bool(bool) => Ok(bool),
            _ => Err(self.expected("`true` or `false`")),
        }
    }

    /// Returns this whole number. A fraction, an exponent or any other type is an error.
    pub fn u64(&self) -> Result<u64, SettingsError> {
        self.u64_in(0..=u64::MAX)
    }

    /// Returns this whole number; a number outside `bounds` or any other type is an error.
    pub fn u64_in(&self, bounds: RangeInclusive<u64>) -> Result<u64, SettingsError> {
        let number = match &self.value.data {
            JsonData::Number(number) => number.parse().ok(),
            _ => None,
        };
        number.filter(|number| bounds.contains(number)).ok_or_else(|| {
            self.expected(&format!("a whole number from {} to {}", bounds.start(), bounds.end()))
        })
    }

    /// Returns this number, which is always finite; any other type is an error.
    pub fn f64(&self) -> Result<f64, SettingsError> {
        let JsonData::Number(number) = &self.value.data else {
            return Err(self.expected("a number"));
        };
        number
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| self.expected("a number that a 64-bit float can hold"))
    }

    /// Looks up this word in a table of words and values. An unknown word is an error with the nearest word
    /// as a hint.
    pub fn one_of<T: Copy>(&self, table: &[(&str, T)]) -> Result<T, SettingsError> {
        if let JsonData::String(word) = &self.value.data
            && let Some((_, meaning)) = table.iter().find(|(known, _)| known == word)
        {
            return Ok(*meaning);
        }
        let words = quoted(table.iter().map(|(word, _)| *word));
        let error = self.expected(&format!("one of {words}"));
        Err(match &self.value.data {
            JsonData::String(word) => error.suggest(word, table.iter().map(|(word, _)| *word)),
            _ => error,
        })
    }

    /// The location of this value in its file.
    pub fn location(&self) -> SourceLocation {
        SourceLocation::new(self.source, self.value.position)
    }

    /// Creates an error about this value.
    pub fn error(&self, message: impl Into<String>) -> SettingsError {
        self.location().error(message)
    }

    /// Creates an error that says what was expected here and what was found.
    pub fn expected(&self, what: &str) -> SettingsError {
        self.error(format!("expected {what}, found {}", self.value.data.describe()))
    }
}

/// An object in a document.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    node: Node<'a>,
    members: &'a [Member],
}

impl<'a> Object<'a> {
    /// Returns the object if every key is in `known`; else an error about the first unknown key, with a hint.
    pub fn keys(self, known: &[&str]) -> Result<Object<'a>, SettingsError> {
        let Some(member) = self.members.iter().find(|member| !known.contains(&&*member.key)) else {
            return Ok(self);
        };
        let hint = text::did_you_mean(&member.key, known.iter().copied());
        let hint =
            hint.unwrap_or_else(|| format!("known keys are {}", quoted(known.iter().copied())));
        Err(self
            .key_error(member, format!("unknown key {}", quote_clipped(&member.key)))
            .with_hint(hint))
    }

    /// The value of a key, if the object has the key.
    pub fn get(&self, key: &str) -> Option<Node<'a>> {
        let member = self.members.iter().find(|member| member.key == key)?;
        Some(self.node_of(member))
    }

    /// The value of a key; a missing key is an error.
    pub fn require(&self, key: &str) -> Result<Node<'a>, SettingsError> {
        self.get(key).ok_or_else(|| self.node.error(format!("missing key `{key}`")))
    }

    /// Every key, with its location and its value, in the order of the file. For objects whose keys are
    /// names.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (SourcedText, Node<'a>)> + use<'a> {
        let object = *self;
        self.members.iter().map(move |member| {
            let location = SourceLocation::new(object.node.source, member.position);
            (SourcedText { text: member.key.clone(), location }, object.node_of(member))
        })
    }

    /// Every key with its value, in the order of the file.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&'a str, Node<'a>)> + use<'a> {
        let object = *self;
        self.members.iter().map(move |member| (member.key.as_str(), object.node_of(member)))
    }

    /// The object as a value, for its location.
    pub fn node(&self) -> Node<'a> {
        self.node
    }

    fn node_of(&self, member: &'a Member) -> Node<'a> {
        Node { source: self.node.source, value: &member.value }
    }

    fn key_error(&self, member: &Member, message: String) -> SettingsError {
        SourceLocation::new(self.node.source, member.position).error(message)
    }
}

struct JsonValue {
    position: TextPosition,
    data: JsonData,
}

enum JsonData {
    Null,
    Bool(bool),
    /// The number as the file spells it.
    Number(Box<str>),
    String(String),
    List(Vec<JsonValue>),
    Object(Vec<Member>),
}

struct Member {
    key: String,
    position: TextPosition,
    value: JsonValue,
}

impl JsonData {
    fn to_json(&self) -> serde_json::Value {
        match self {
            JsonData::Null => serde_json::Value::Null,
            JsonData::Bool(bool) => (*bool).into(),
            JsonData::Number(number) => serde_json::from_str(number).unwrap_or_default(),
            JsonData::String(string) => string.as_str().into(),
            JsonData::List(values) => values.iter().map(|value| value.data.to_json()).collect(),
            JsonData::Object(members) => members
                .iter()
                .map(|member| (member.key.clone(), member.value.data.to_json()))
                .collect(),
        }
    }

    fn describe(&self) -> String {
        match self {
            JsonData::Null => "`null`".to_owned(),
            JsonData::Bool(bool) => format!("`{bool}`"),
            JsonData::Number(number) => format!("the number {}", text::cut_chars(number, 40)),
            JsonData::String(string) if string.is_empty() => "an empty string".to_owned(),
            JsonData::String(string) => format!("the string {}", quote_clipped(string)),
            JsonData::List(_) => "a list".to_owned(),
            JsonData::Object(_) => "an object".to_owned(),
        }
    }
}

fn parse_root(source: &Arc<SourceText>) -> Result<JsonValue, SettingsError> {
    let text = source.text.as_str();
    scan::reject_unparsable(text).map_err(|scan_error| {
        let error = error_at(source, scan_error.offset, scan_error.message);
        scan_error.hint.into_iter().fold(error, SettingsError::with_hint)
    })?;
    let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &strict())
        .map_err(|error| syntax_error(source, &error))?;
    match parsed.value {
        Some(root) => DocumentBuilder { source, position: TextPosition::START }.value(root),
        None => Err(error_at(source, text.len(), "expected an object, found the end of the file")
            .with_hint("an empty settings file is `{}`")),
    }
}

/// The parser's options: JSON with comments and trailing commas, and no other extension.
fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Converts the parser's tree into a [`JsonValue`], which owns its text and knows lines and columns.
///
/// The recursion is at most [`scan::DEPTH`] deep.
struct DocumentBuilder<'s> {
    source: &'s Arc<SourceText>,
    position: TextPosition,
}

impl DocumentBuilder<'_> {
    fn value(&mut self, value: ast::Value<'_>) -> Result<JsonValue, SettingsError> {
        let position = self.advance(value.start());
        let data = match value {
            ast::Value::NullKeyword(_) => JsonData::Null,
            ast::Value::BooleanLit(literal) => JsonData::Bool(literal.value),
            ast::Value::NumberLit(literal) => JsonData::Number(literal.value.into()),
            ast::Value::StringLit(literal) => JsonData::String(literal.value.into_owned()),
            ast::Value::Array(array) => {
                let values = array.elements.into_iter().map(|value| self.value(value));
                JsonData::List(values.collect::<Result<_, _>>()?)
            }
            ast::Value::Object(object) => JsonData::Object(self.members(object)?),
        };
        Ok(JsonValue { position, data })
    }

    fn members(&mut self, object: ast::Object<'_>) -> Result<Vec<Member>, SettingsError> {
        let mut members = Vec::with_capacity(object.properties.len());
        let mut first_positions = HashMap::with_capacity(object.properties.len());
        for property in object.properties {
            let position = self.advance(property.name.start());
            let key = property.name.into_string();
            if let Some(first) = first_positions.insert(key.clone(), position) {
                let first = SourceLocation::new(self.source, first);
                return Err(SourceLocation::new(self.source, position)
                    .error(format!("duplicate key {}", quote_clipped(&key)))
                    .with_hint(format!("it is already at {first}; keep one of the two")));
            }
            members.push(Member { key, position, value: self.value(property.value)? });
        }
        Ok(members)
    }

    fn advance(&mut self, offset: usize) -> TextPosition {
        self.position = self.position.advance(&self.source.text, offset);
        self.position
    }
}

fn syntax_error(source: &Arc<SourceText>, error: &ParseError) -> SettingsError {
    let offset = error.range().start;
    let (message, hint) = match error.kind() {
        ParseErrorKind::UnterminatedObject => {
            ("object is not closed".to_owned(), Some("add a `}`"))
        }
        ParseErrorKind::UnterminatedArray => ("list is not closed".to_owned(), Some("add a `]`")),
        ParseErrorKind::UnterminatedCommentBlock => {
            ("comment is not closed".to_owned(), Some("add a `*/`"))
        }
        ParseErrorKind::String(kind) => {
            let (message, hint) = string_error(kind);
            (message.to_owned(), hint)
        }
        kind => {
            let expected = scan::expected_at(&source.text, offset);
            let found = scan::found_at(&source.text, offset);
            (format!("expected {expected}, found {found}"), syntax_hint(kind))
        }
    };
    hint.into_iter().fold(error_at(source, offset, message), SettingsError::with_hint)
}

fn string_error(kind: &ParseStringErrorKind) -> (&'static str, Option<&'static str>) {
    use ParseStringErrorKind as Kind;
    match kind {
        Kind::UnterminatedStringLiteral => ("string is not closed", Some("add a `\"`")),
        Kind::ExpectedFourHexDigits => ("expected four hex digits after `\\u`", None),
        Kind::InvalidUnicodeEscapeSequence(_) => (
            "half of a surrogate pair",
            Some("write the character itself, or both halves as `\\ud83d\\ude42`"),
        ),
        _ => ("unknown escape in a string", Some("a backslash is written `\\\\`")),
    }
}

fn syntax_hint(kind: &ParseErrorKind) -> Option<&'static str> {
    match kind {
        ParseErrorKind::SingleQuotedStringsNotAllowed => Some("write strings in double quotes"),
        ParseErrorKind::ExpectedStringObjectProperty => Some("write keys in double quotes"),
        ParseErrorKind::HexadecimalNumbersNotAllowed => Some("write the number in decimal"),
        ParseErrorKind::UnaryPlusNumbersNotAllowed => Some("write the number without `+`"),
        ParseErrorKind::BareDecimalPointNumbersNotAllowed => {
            Some("write a digit on both sides of the decimal point")
        }
        _ => None,
    }
}

fn error_at(source: &Arc<SourceText>, offset: usize, message: impl Into<String>) -> SettingsError {
    SourceLocation::new(source, TextPosition::START.advance(&source.text, offset)).error(message)
}

pub(crate) fn too_large(file: &Arc<str>) -> SettingsError {
    SettingsError::of_file(file, "file is larger than 1 MiB, the maximum for a settings file")
}

/// The name that errors use for the file at this path.
pub(crate) fn file_name(path: &Path) -> Arc<str> {
    text::show_line(&text::show_bytes(path.as_os_str().as_encoded_bytes())).into()
}

/// Quotes untrusted text for a message: in backticks, on one line, at most 60 characters.
fn quote_clipped(text: &str) -> String {
    format!("`{}`", text::cut_chars(&text::show_line(text), 60))
}

fn quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
