//! A tokenizer for JSON with comments that accepts any text. It finds text that must not reach the parser. It
//! also describes an offset: its JSON path, the expected token and the token found.

use cotter::text;

/// The maximum nesting depth of lists and objects.
pub(crate) const DEPTH: usize = 128;

/// Text that must not reach the parser.
pub(crate) struct ScanError {
    pub(crate) offset: usize,
    pub(crate) message: String,
    pub(crate) hint: Option<&'static str>,
}

/// Rejects control characters, strings that contain a line end or a tab, and nesting deeper than [`DEPTH`].
pub(crate) fn reject_unparsable(text: &str) -> Result<(), ScanError> {
    if let Some(offset) =
        text.bytes().position(|byte| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r'))
    {
        let message = format!("control character U+{:04X}", text.as_bytes()[offset]);
        return Err(ScanError {
            offset,
            message,
            hint: Some("in a string, write it as `\\u` and four digits"),
        });
    }
    let mut depth = 0_usize;
    for token in Tokens::new(text) {
        match token.kind {
            TokenKind::Open(_) => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            TokenKind::String => reject_control_in_string(&token)?,
            _ => {}
        }
        if depth > DEPTH {
            let message = format!("nested deeper than {DEPTH} levels");
            return Err(ScanError { offset: token.offset, message, hint: None });
        }
    }
    Ok(())
}

fn reject_control_in_string(token: &JsonToken<'_>) -> Result<(), ScanError> {
    let Some(at) = token.text.find(['\n', '\r', '\t']) else {
        return Ok(());
    };
    Err(if token.text[at..].starts_with('\t') {
        let offset = token.offset + at;
        ScanError { offset, message: "tab in a string".to_owned(), hint: Some("write it as `\\t`") }
    } else {
        // The error points at the opening quote: the missing quote belongs on that line.
        let message = "string is not closed on its line".to_owned();
        ScanError {
            offset: token.offset,
            message,
            hint: Some("a line break in a string is written `\\n`"),
        }
    })
}

/// The JSON path of the value that starts at `offset`, or of the value around `offset`.
pub(crate) fn path_at(text: &str, offset: usize) -> String {
    let mut path = String::from("$");
    for container in walk(text, offset).containers {
        match container {
            ScanContainer::Object(None) => {}
            ScanContainer::Object(Some(key)) if is_plain(key) => {
                path.push('.');
                path.push_str(key);
            }
            ScanContainer::Object(Some(key)) => {
                path.push_str("[\"");
                path.push_str(&text::cut_chars(&text::show_line(key), 60));
                path.push_str("\"]");
            }
            ScanContainer::List(index) => path.push_str(&format!("[{index}]")),
        }
    }
    text::cut_chars(&path, 100).into_owned()
}

/// Describes the token that the grammar expects at `offset`.
pub(crate) fn expected_at(text: &str, offset: usize) -> &'static str {
    let position = walk(text, offset);
    let container = position.containers.last();
    match (position.next, container) {
        (ExpectedToken::Key, _) => "a key in double quotes or `}`",
        (ExpectedToken::Colon, _) => "`:`",
        (ExpectedToken::Value, None) => "an object",
        (ExpectedToken::Value, Some(ScanContainer::List(_))) => "a value or `]`",
        (ExpectedToken::Value, Some(ScanContainer::Object(_))) => "a value",
        (ExpectedToken::Comma, None) => "the end of the file",
        (ExpectedToken::Comma, Some(ScanContainer::List(_))) => "`,` or `]`",
        (ExpectedToken::Comma, Some(ScanContainer::Object(_))) => "`,` or `}`",
    }
}

/// Describes the first token at or after `offset`.
pub(crate) fn found_at(text: &str, offset: usize) -> String {
    match Tokens::new(text.get(offset..).unwrap_or_default()).next() {
        Some(token) => format!("`{}`", text::cut_chars(&text::show_line(token.text), 40)),
        None => "the end of the file".to_owned(),
    }
}

/// True if a key needs no quotes in a path.
fn is_plain(key: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$');
    !key.is_empty()
        && key.len() <= 60
        && key.bytes().all(fits)
        && !key.starts_with(|char: char| char.is_ascii_digit() || char == '-')
}

/// The position of an offset in the tree: the containers around it, and the token expected next.
struct ScanPosition<'t> {
    containers: Vec<ScanContainer<'t>>,
    next: ExpectedToken,
}

enum ScanContainer<'t> {
    /// An object, with the current key as the file spells it between its quotes.
    Object(Option<&'t str>),
    List(usize),
}

#[derive(Clone, Copy)]
enum ExpectedToken {
    Key,
    Colon,
    Value,
    Comma,
}

fn walk(text: &str, offset: usize) -> ScanPosition<'_> {
    let mut position = ScanPosition { containers: Vec::new(), next: ExpectedToken::Value };
    for token in Tokens::new(text) {
        let is_key = token.kind == TokenKind::String && matches!(position.next, ExpectedToken::Key);
        if token.offset > offset || (token.offset == offset && !is_key) {
            break;
        }
        position.advance(&token);
        // A path includes the key that starts at the offset.
        if token.offset == offset {
            break;
        }
    }
    position
}

impl<'t> ScanPosition<'t> {
    fn advance(&mut self, token: &JsonToken<'t>) {
        self.next = match (token.kind, self.containers.last_mut()) {
            (TokenKind::Open(b'{'), _) => {
                self.containers.push(ScanContainer::Object(None));
                ExpectedToken::Key
            }
            (TokenKind::Open(_), _) => {
                self.containers.push(ScanContainer::List(0));
                ExpectedToken::Value
            }
            (TokenKind::Close, _) => {
                self.containers.pop();
                ExpectedToken::Comma
            }
            (TokenKind::Comma, Some(ScanContainer::Object(key))) => {
                *key = None;
                ExpectedToken::Key
            }
            (TokenKind::Comma, Some(ScanContainer::List(index))) => {
                *index += 1;
                ExpectedToken::Value
            }
            (TokenKind::Colon, _) => ExpectedToken::Value,
            (TokenKind::String | TokenKind::Word, Some(ScanContainer::Object(key)))
                if matches!(self.next, ExpectedToken::Key) =>
            {
                *key = Some(token.inside());
                ExpectedToken::Colon
            }
            (TokenKind::Comma | TokenKind::String | TokenKind::Word, _) => ExpectedToken::Comma,
        };
    }
}

#[derive(Clone, Copy, PartialEq)]
enum TokenKind {
    Open(u8),
    Close,
    Comma,
    Colon,
    String,
    Word,
}

struct JsonToken<'t> {
    kind: TokenKind,
    offset: usize,
    /// The token as the file spells it, with quotes.
    text: &'t str,
}

impl<'t> JsonToken<'t> {
    /// The text without its quotes.
    fn inside(&self) -> &'t str {
        let inside = self.text.strip_prefix('"').unwrap_or(self.text);
        inside.strip_suffix('"').unwrap_or(inside)
    }
}

/// The tokens of a text, without comments and white space.
struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    fn new(text: &'t str) -> Tokens<'t> {
        Tokens { text, at: 0 }
    }

    fn skip_blank(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start().len();
            self.at += if blank > 0 {
                blank
            } else if rest.starts_with("//") {
                rest.find(['\n', '\r']).unwrap_or(rest.len())
            } else if let Some(comment) = rest.strip_prefix("/*") {
                // The search starts after the opening `/*`, or `/*/` would close itself.
                comment.find("*/").map_or(rest.len(), |end| end + 4)
            } else {
                return;
            };
        }
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = JsonToken<'t>;

    fn next(&mut self) -> Option<JsonToken<'t>> {
        self.skip_blank();
        let offset = self.at;
        let rest = &self.text[offset..];
        let (kind, length) = match rest.bytes().next()? {
            bracket @ (b'{' | b'[') => (TokenKind::Open(bracket), 1),
            b'}' | b']' => (TokenKind::Close, 1),
            b',' => (TokenKind::Comma, 1),
            b':' => (TokenKind::Colon, 1),
            b'"' => (TokenKind::String, string_length(rest)),
            _ => (TokenKind::Word, word_length(rest)),
        };
        self.at += length;
        Some(JsonToken { kind, offset, text: &rest[..length] })
    }
}

/// The length of the string at the start of `rest`, to its closing quote or the end of the text.
fn string_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of any other token: up to white space, punctuation or a comment.
fn word_length(rest: &str) -> usize {
    let ends = |char: char| {
        char.is_whitespace() || matches!(char, '{' | '}' | '[' | ']' | ',' | ':' | '"' | '/')
    };
    let first = rest.chars().next().map_or(0, char::len_utf8);
    first + rest[first..].find(ends).unwrap_or(rest.len() - first)
}
