//! A tokenizer for JSON with comments that accepts anything: it finds what must not reach the parser, and tells
//! where in a document an offset is and what could have stood there.

use cotter::text;

/// How deep lists and objects may be nested.
pub(crate) const DEPTH: usize = 128;

/// Something the parser must not see.
pub(crate) struct Refusal {
    pub(crate) offset: usize,
    pub(crate) message: String,
    pub(crate) hint: Option<&'static str>,
}

/// Looks for control characters, strings over a line's end and nesting deeper than [`DEPTH`].
pub(crate) fn refuse(text: &str) -> Result<(), Refusal> {
    if let Some(offset) =
        text.bytes().position(|byte| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r'))
    {
        let message = format!("control character U+{:04X}", text.as_bytes()[offset]);
        return Err(Refusal {
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
            TokenKind::String => refuse_control_in_string(&token)?,
            _ => {}
        }
        if depth > DEPTH {
            let message = format!("nested deeper than {DEPTH} levels");
            return Err(Refusal { offset: token.offset, message, hint: None });
        }
    }
    Ok(())
}

fn refuse_control_in_string(token: &Token<'_>) -> Result<(), Refusal> {
    let Some(at) = token.text.find(['\n', '\r', '\t']) else {
        return Ok(());
    };
    Err(if token.text[at..].starts_with('\t') {
        let offset = token.offset + at;
        Refusal { offset, message: "tab in a string".to_owned(), hint: Some("write it as `\\t`") }
    } else {
        // Where it opens is where the missing quote is to be sought.
        let message = "string is not closed on its line".to_owned();
        Refusal {
            offset: token.offset,
            message,
            hint: Some("a line break in a string is written `\\n`"),
        }
    })
}

/// The JSON path of what starts at `offset`, or of what it is part of.
pub(crate) fn path_at(text: &str, offset: usize) -> String {
    let mut path = String::from("$");
    for within in walk(text, offset).around {
        match within {
            Within::Object(None) => {}
            Within::Object(Some(key)) if is_plain(key) => {
                path.push('.');
                path.push_str(key);
            }
            Within::Object(Some(key)) => {
                path.push_str("[\"");
                path.push_str(&text::clip(&text::show_line(key), 60));
                path.push_str("\"]");
            }
            Within::List(index) => path.push_str(&format!("[{index}]")),
        }
    }
    text::clip(&path, 100).into_owned()
}

/// What the grammar asks for at `offset`.
pub(crate) fn expected_at(text: &str, offset: usize) -> &'static str {
    let position = walk(text, offset);
    let within = position.around.last();
    match (position.next, within) {
        (Next::Key, _) => "a key in double quotes or `}`",
        (Next::Colon, _) => "`:`",
        (Next::Value, None) => "an object",
        (Next::Value, Some(Within::List(_))) => "a value or `]`",
        (Next::Value, Some(Within::Object(_))) => "a value",
        (Next::Comma, None) => "the end of the file",
        (Next::Comma, Some(Within::List(_))) => "`,` or `]`",
        (Next::Comma, Some(Within::Object(_))) => "`,` or `}`",
    }
}

/// What stands at `offset` or after the white space there, in words.
pub(crate) fn found_at(text: &str, offset: usize) -> String {
    match Tokens::new(text.get(offset..).unwrap_or_default()).next() {
        Some(token) => format!("`{}`", text::clip(&text::show_line(token.text), 40)),
        None => "the end of the file".to_owned(),
    }
}

/// Whether a key can stand in a path without quotes.
fn is_plain(key: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$');
    !key.is_empty()
        && key.len() <= 60
        && key.bytes().all(fits)
        && !key.starts_with(|char: char| char.is_ascii_digit() || char == '-')
}

/// Where in the tree an offset is: the containers around it, and what may come next.
struct Position<'t> {
    around: Vec<Within<'t>>,
    next: Next,
}

enum Within<'t> {
    /// In an object, at this key as it is spelled between its quotes.
    Object(Option<&'t str>),
    List(usize),
}

#[derive(Clone, Copy)]
enum Next {
    Key,
    Colon,
    Value,
    Comma,
}

fn walk(text: &str, offset: usize) -> Position<'_> {
    let mut position = Position { around: Vec::new(), next: Next::Value };
    for token in Tokens::new(text) {
        let is_key = token.kind == TokenKind::String && matches!(position.next, Next::Key);
        if token.offset > offset || (token.offset == offset && !is_key) {
            break;
        }
        position.step(&token);
        // A key is part of its own path.
        if token.offset == offset {
            break;
        }
    }
    position
}

impl<'t> Position<'t> {
    fn step(&mut self, token: &Token<'t>) {
        self.next = match (token.kind, self.around.last_mut()) {
            (TokenKind::Open(b'{'), _) => {
                self.around.push(Within::Object(None));
                Next::Key
            }
            (TokenKind::Open(_), _) => {
                self.around.push(Within::List(0));
                Next::Value
            }
            (TokenKind::Close, _) => {
                self.around.pop();
                Next::Comma
            }
            (TokenKind::Comma, Some(Within::Object(key))) => {
                *key = None;
                Next::Key
            }
            (TokenKind::Comma, Some(Within::List(index))) => {
                *index += 1;
                Next::Value
            }
            (TokenKind::Colon, _) => Next::Value,
            (TokenKind::String | TokenKind::Word, Some(Within::Object(key)))
                if matches!(self.next, Next::Key) =>
            {
                *key = Some(token.inside());
                Next::Colon
            }
            (TokenKind::Comma | TokenKind::String | TokenKind::Word, _) => Next::Comma,
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

struct Token<'t> {
    kind: TokenKind,
    offset: usize,
    /// As it stands in the file, quotes included.
    text: &'t str,
}

impl<'t> Token<'t> {
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
                // The search begins behind the opening, or `/*/` would close itself.
                comment.find("*/").map_or(rest.len(), |end| end + 4)
            } else {
                return;
            };
        }
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
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
        Some(Token { kind, offset, text: &rest[..length] })
    }
}

/// The length of the string that starts here, to its closing quote or the end of the text.
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

/// The length of anything else: up to white space, punctuation or a comment.
fn word_length(rest: &str) -> usize {
    let ends = |char: char| {
        char.is_whitespace() || matches!(char, '{' | '}' | '[' | ']' | ',' | ':' | '"' | '/')
    };
    let first = rest.chars().next().map_or(0, char::len_utf8);
    first + rest[first..].find(ends).unwrap_or(rest.len() - first)
}
