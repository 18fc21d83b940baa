//! The redactor: removes secrets from everything that leaves the data home.
//!
//! It finds two kinds of secrets. The first kind is the values of variables with secret names
//! ([`is_secret_name`]), anywhere in the text. The second kind is tokens of well-known shapes: API keys,
//! JSON web tokens, private keys, passwords in URLs. A shape is found by its prefix and then measured by
//! hand, so the time is linear in the text. Pass whole texts: a secret that is split over two calls is not
//! found. A text that comes in pieces goes through [`pieces::RedactedPieces`].

pub mod pieces;

use std::{borrow::Cow, fmt, ops::Range, sync::LazyLock, sync::OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Match, MatchKind};

use crate::text;
use serde_json::Value;

/// Removes secrets from text, by value and by shape.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<Secret>,
    // Built from `secrets` at the first use; cleared whenever `secrets` changes.
    values: OnceLock<AhoCorasick>,
}

#[derive(Clone)]
struct Secret {
    value: String,
    replacement: String,
}

impl Redactor {
    /// Creates a redactor that knows the shapes and no values.
    pub fn new() -> Redactor {
        Redactor::default()
    }

    /// Adds a value to redact, as `[redacted NAME]`, in plain text and as escaped in a JSON string.
    ///
    /// White space around the value is ignored. A value of fewer than 6 characters is skipped, because
    /// ordinary words would match it.
    #[must_use]
    pub fn with_secret(mut self, name: &str, value: &str) -> Redactor {
        const SHORTEST: usize = 6;
        let value = value.trim();
        if value.chars().count() < SHORTEST {
            return self;
        }
        let name = text::show_line(name);
        let replacement = format!("[redacted {}]", text::cut_chars(&name, 64));
        let in_json = escape_json(value);
        if in_json != value {
            self.secrets.push(Secret { value: in_json, replacement: replacement.clone() });
        }
        self.secrets.push(Secret { value: value.to_owned(), replacement });
        self.values = OnceLock::new();
        self
    }

    /// Replaces each secret by `[redacted]` or `[redacted NAME]`. Text without a secret is borrowed.
    ///
    /// Redacting a redacted text changes nothing.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.redact_values(text) {
            Cow::Borrowed(text) => redact_shapes(text),
            Cow::Owned(text) => Cow::Owned(redact_shapes(&text).into_owned()),
        }
    }

    /// Redacts every string, key and number in a JSON value.
    pub fn redact_json(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let digits = number.to_string();
                let redacted = self.redact(&digits);
                if redacted != digits {
                    *value = redacted.into_owned().into();
                }
            }
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.redact(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(members) => {
                let redacted = std::mem::take(members).into_iter().map(|(key, mut value)| {
                    self.redact_json(&mut value);
                    (self.redact(&key).into_owned(), value)
                });
                *members = redacted.collect();
            }
        }
    }

    fn redact_values<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut edit = Edit::new(text);
        for found in self.find_values(text) {
            let secret = &self.secrets[found.pattern().as_usize()];
            edit.replace(found.range(), &secret.replacement);
        }
        edit.finish()
    }

    /// Finds the known values in a text, from left to right.
    fn find_values<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Match> + 'a {
        let build = || build_finder(self.secrets.iter().map(|secret| secret.value.as_str()));
        let values = (!self.secrets.is_empty()).then(|| self.values.get_or_init(build));
        values.into_iter().flat_map(move |values| values.find_iter(text))
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.secrets.len()).finish_non_exhaustive()
    }
}

/// True if a variable of this name holds a secret: `*_KEY`, `*_TOKEN`, `*SECRET*`, `*PASSWORD*` and similar
/// names.
///
/// Case is ignored and camel case is split into words. `PUBLIC_KEY`, `MAX_TOKENS`, `PWD` and
/// `SSH_AUTH_SOCK` are not secret.
pub fn is_secret_name(name: &str) -> bool {
    const ANYWHERE: &[&str] =
        &["PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "CREDENTIAL", "APIKEY", "PRIVATEKEY"];
    const LAST_WORD: &[&str] =
        &["KEY", "TOKEN", "PWD", "PASS", "PAT", "AUTH", "COOKIE", "ACCESSKEY", "AUTHTOKEN", "JWT"];

    let words = split_words(name);
    let joined = words.concat();
    if ANYWHERE.iter().any(|part| joined.contains(part)) {
        return true;
    }
    let is_public = words.iter().any(|word| word == "PUBLIC");
    // `PWD` alone is the working folder. `PATH` and similar names never get here.
    let is_harmless_alone =
        matches!(words.as_slice(), [only] if only == "PWD" || only == "PASS" || only == "PAT");
    !is_public
        && !is_harmless_alone
        && words.last().is_some_and(|last| LAST_WORD.contains(&last.as_str()))
}

/// Splits a variable's name into words in upper case: `apiKey` and `API_KEY` both give `API`, `KEY`.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for char in name.chars() {
        let starts_word = !char.is_alphanumeric() || (after_lower && char.is_uppercase());
        if starts_word {
            words.push(String::new());
        }
        after_lower = char.is_lowercase();
        if let Some(word) = words.last_mut()
            && char.is_alphanumeric()
        {
            word.extend(char.to_uppercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The form of a secret: how its end is found after its prefix.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Characters of this alphabet, at least this many.
    Token(fn(u8) -> bool, usize),
    /// Characters of this alphabet, exactly this many.
    Fixed(fn(u8) -> bool, usize),
    WebToken,
    Bearer,
    PrivateKey,
    UrlPassword,
}

/// Every known shape, by its prefix. To add a shape, add a line.
const SHAPES: &[(&str, Shape)] = &[
    ("sk-ant-", Shape::Token(is_base64url, 16)),
    ("sk-", Shape::Token(is_base64url, 20)),
    ("sk_live_", Shape::Token(is_alphanumeric, 16)),
    ("sk_test_", Shape::Token(is_alphanumeric, 16)),
    ("rk_live_", Shape::Token(is_alphanumeric, 16)),
    ("ghp_", Shape::Token(is_alphanumeric, 30)),
    ("gho_", Shape::Token(is_alphanumeric, 30)),
    ("ghu_", Shape::Token(is_alphanumeric, 30)),
    ("ghs_", Shape::Token(is_dotted, 30)),
    ("ghr_", Shape::Token(is_alphanumeric, 30)),
    ("github_pat_", Shape::Token(is_base64url, 22)),
    ("glpat-", Shape::Token(is_dotted, 20)),
    ("npm_", Shape::Token(is_alphanumeric, 30)),
    ("hf_", Shape::Token(is_alphanumeric, 30)),
    ("xoxa-", Shape::Token(is_base64url, 10)),
    ("xoxb-", Shape::Token(is_base64url, 10)),
    ("xoxe-", Shape::Token(is_base64url, 10)),
    ("xoxp-", Shape::Token(is_base64url, 10)),
    ("xoxr-", Shape::Token(is_base64url, 10)),
    ("xoxs-", Shape::Token(is_base64url, 10)),
    ("xapp-", Shape::Token(is_base64url, 20)),
    ("AIza", Shape::Fixed(is_base64url, 35)),
    ("ya29.", Shape::Token(is_dotted, 20)),
    ("AKIA", Shape::Fixed(is_capital_or_digit, 16)),
    ("ASIA", Shape::Fixed(is_capital_or_digit, 16)),
    ("eyJ", Shape::WebToken),
    ("Bearer ", Shape::Bearer),
    ("bearer ", Shape::Bearer),
    ("BEARER ", Shape::Bearer),
    ("-----BEGIN ", Shape::PrivateKey),
    ("://", Shape::UrlPassword),
];

static PREFIXES: LazyLock<AhoCorasick> =
    LazyLock::new(|| build_finder(SHAPES.iter().map(|(prefix, _)| *prefix)));

fn redact_shapes(text: &str) -> Cow<'_, str> {
    let mut edit = Edit::new(text);
    let mut at = 0;
    while let Some(found) = PREFIXES.find(aho_corasick::Input::new(text).range(at..)) {
        let (_, shape) = SHAPES[found.pattern().as_usize()];
        match shape.measure(text, found.range()) {
            Some(secret) => {
                // The user name before a password may be a token too. It contains no further `://`.
                let between = redact_shapes(&text[found.end().min(secret.start)..secret.start]);
                if let Cow::Owned(between) = between {
                    edit.replace(found.end()..secret.start, &between);
                }
                at = secret.end;
                edit.replace(secret, "[redacted]");
            }
            // Prefixes are ASCII, so the byte after the first one starts a character.
            None => at = found.start() + 1,
        }
    }
    edit.finish()
}

fn build_finder<'a>(patterns: impl Iterator<Item = &'a str>) -> AhoCorasick {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(patterns)
        .expect("secrets and prefixes have fewer than two billion bytes together")
}

/// An edit of a text: pieces are replaced from left to right. Nothing is copied before the first
/// replacement.
struct Edit<'t> {
    text: &'t str,
    out: String,
    copied: usize,
}

impl<'t> Edit<'t> {
    fn new(text: &'t str) -> Edit<'t> {
        Edit { text, out: String::new(), copied: 0 }
    }

    fn replace(&mut self, range: Range<usize>, with: &str) {
        self.out.push_str(&self.text[self.copied..range.start]);
        self.out.push_str(with);
        self.copied = range.end;
    }

    fn finish(mut self) -> Cow<'t, str> {
        if self.copied == 0 {
            return Cow::Borrowed(self.text);
        }
        self.out.push_str(&self.text[self.copied..]);
        Cow::Owned(self.out)
    }
}

impl Shape {
    /// Returns the range of the secret if the prefix in this range begins one.
    fn measure(self, text: &str, prefix: Range<usize>) -> Option<Range<usize>> {
        let Range { start, end } = prefix;
        match self {
            Shape::Token(alphabet, min) => match_token(text, start, end, alphabet, min),
            Shape::Fixed(alphabet, length) => match_fixed(text, start, end, alphabet, length),
            Shape::WebToken => match_web_token(text, start),
            Shape::Bearer => match_bearer(text, start, end),
            Shape::PrivateKey => match_private_key(text, start, end),
            Shape::UrlPassword => match_url_password(text, start, end),
        }
    }
}

/// Matches a prefix at a word's start and at least `min` characters of its alphabet that look random.
fn match_token(
    text: &str,
    start: usize,
    end: usize,
    alphabet: fn(u8) -> bool,
    min: usize,
) -> Option<Range<usize>> {
    // Only a word's start counts, so a run of characters with many prefixes is measured once.
    if !starts_word(text.as_bytes(), start) {
        return None;
    }
    let mut body = longest_run(text, end, alphabet);
    // A full stop after the token ends the sentence and is not part of the token.
    while body.ends_with(['.', '-']) {
        body = &body[..body.len() - 1];
    }
    (body.len() >= min && looks_random(body.as_bytes())).then(|| start..end + body.len())
}

/// Matches a prefix at a word's start and exactly `length` characters of its alphabet.
fn match_fixed(
    text: &str,
    start: usize,
    end: usize,
    alphabet: fn(u8) -> bool,
    length: usize,
) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let close = end + length;
    let fits = starts_word(bytes, start)
        && bytes.get(end..close)?.iter().all(|byte| alphabet(*byte))
        && !bytes.get(close).is_some_and(|byte| is_base64url(*byte));
    fits.then_some(start..close)
}

/// Matches three or more base64url parts with dots between; the first part is a JSON object.
fn match_web_token(text: &str, start: usize) -> Option<Range<usize>> {
    if !starts_word(text.as_bytes(), start) {
        return None;
    }
    let mut body = longest_run(text, start, is_dotted);
    while body.ends_with(['.', '-']) {
        body = &body[..body.len() - 1];
    }
    let mut parts = body.split('.');
    let is_long = |part: Option<&str>| part.is_some_and(|part| part.len() >= 8);
    let fits = is_long(parts.next()) && is_long(parts.next()) && is_long(parts.next());
    fits.then(|| start..start + body.len())
}

/// Matches the credentials after `Bearer`: 12 characters with a digit among them, or 24 of any kind.
fn match_bearer(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    let rest = text[end..].trim_start_matches(' ');
    let from = text.len() - rest.len();
    let body = longest_run(text, from, is_bearer);
    let has_digit = body.bytes().any(|byte| byte.is_ascii_digit());
    let fits = body.len() >= 24 || (body.len() >= 12 && has_digit);
    (fits && starts_word(text.as_bytes(), start)).then(|| from..from + body.len())
}

/// Matches the password in `scheme://name:password@host`.
fn match_url_password(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    let after_scheme = text[..start].ends_with(|char: char| char.is_ascii_alphanumeric());
    let authority = longest_run(text, end, is_authority);
    let (userinfo, host) = authority.rsplit_once('@')?;
    let (name, password) = userinfo.split_once(':')?;
    let from = end + name.len() + 1;
    let fits = after_scheme && !password.is_empty() && !host.is_empty();
    fits.then(|| from..from + password.len())
}

/// Matches a PEM or PGP private key, also if it is truncated, quoted, in a diff or inside a JSON string.
fn match_private_key(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    scan_private_key(text, start, end).0
}

/// Matches a private key, and returns the place at which that was decided.
fn scan_private_key(text: &str, start: usize, end: usize) -> (Option<Range<usize>>, usize) {
    let label = longest_run(text, end, |byte| byte == b' ' || is_alphanumeric(byte));
    let is_private = label.ends_with("PRIVATE KEY") || label.ends_with("PRIVATE KEY BLOCK");
    let mut at = end + label.len();
    if !is_private || !text[at..].starts_with("-----") {
        return (None, at);
    }
    at += 5;
    let (mut secret_end, mut short_lines, mut header_lines) = (None, 0, 0);
    loop {
        at = skip_line_break(text, at);
        if let Some(close) = find_closing_line_end(text, at) {
            return (secret_end.map(|_| start..close), close);
        }
        let line = longest_run(text, at, |byte| {
            is_alphanumeric(byte) || matches!(byte, b'+' | b'/' | b'=')
        });
        at += line.len();
        match line.len() {
            16.. => secret_end = Some(at),
            // A header such as `Proc-Type: 4,ENCRYPTED` comes before the key itself.
            1.. if header_lines < 4
                && secret_end.is_none()
                && text[at..].starts_with(['-', ':']) =>
            {
                header_lines += 1;
                at += header_line_length(text, at);
            }
            // The key's last line and its checksum are short. They count only before the closing line.
            1.. if short_lines < 2 => short_lines += 1,
            _ => return (secret_end.map(|secret_end| start..secret_end), at),
        }
    }
}

/// Returns the length of the rest of a header line, at most 120. The limit keeps the time linear in the
/// text.
fn header_line_length(text: &str, at: usize) -> usize {
    let rest = &text.as_bytes()[at..];
    let printable = |byte: &&u8| matches!(**byte, b' '..=b'~') && **byte != b'\\';
    rest.iter().take(120).take_while(printable).count()
}

/// Skips a line break and its surroundings in quoted text: `\n` in JSON, a diff's `-`, a mail's `>`.
fn skip_line_break(text: &str, from: usize) -> usize {
    let mut at = from;
    for _ in 0..24 {
        let rest = &text[at..];
        if rest.starts_with("-----END ") {
            break;
        }
        if rest.starts_with("\\n") || rest.starts_with("\\r") {
            at += 2;
        } else if rest.starts_with([' ', '\t', '\r', '\n', '"', '\'', ',', '>', '|', '-']) {
            at += 1;
        } else {
            break;
        }
    }
    at
}

/// Returns the end of `-----END …-----` if it starts at `at`.
fn find_closing_line_end(text: &str, at: usize) -> Option<usize> {
    let label = text[at..].strip_prefix("-----END ")?;
    let from = text.len() - label.len();
    let end = from + longest_run(text, from, |byte| byte == b' ' || is_alphanumeric(byte)).len();
    Some(if text[end..].starts_with("-----") { end + 5 } else { end })
}

fn is_bearer(byte: u8) -> bool {
    is_dotted(byte) || matches!(byte, b'~' | b'+' | b'/' | b'=')
}

fn is_authority(byte: u8) -> bool {
    byte > b' ' && !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`')
}

/// Returns the longest run of bytes from `from` that `alphabet` accepts. `alphabet` must give the same
/// result for all bytes of a character.
fn longest_run(text: &str, from: usize, alphabet: impl Fn(u8) -> bool) -> &str {
    let rest = &text[from..];
    let length = rest.bytes().position(|byte| !alphabet(byte)).unwrap_or(rest.len());
    &rest[..length]
}

/// True if a word starts at `at`. A word starts after `\n` in JSON, after `%20` in a URL and after a
/// terminal's colour sequence, but not inside `task-force`.
fn starts_word(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    match before {
        [.., last] if !is_base64url(*last) => true,
        [] | [.., b'\\', b'n' | b't' | b'r' | b'b' | b'f'] => true,
        [.., b'%', high, low] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        [sequence @ .., b'm'] => {
            let tail = &sequence[sequence.len().saturating_sub(24)..];
            let digits =
                tail.iter().rev().take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
            let digits = digits.count();
            digits < tail.len() && tail[tail.len() - digits - 1] == b'['
        }
        _ => false,
    }
}

/// True if `body` looks like a key and not like words: mixed kinds of characters, overall or in one long
/// piece.
fn looks_random(body: &[u8]) -> bool {
    fn kinds(bytes: &[u8]) -> usize {
        [u8::is_ascii_digit, u8::is_ascii_uppercase, u8::is_ascii_lowercase]
            .into_iter()
            .filter(|is_kind| bytes.iter().any(is_kind))
            .count()
    }
    let pieces = || body.split(|byte| !is_alphanumeric(*byte));
    kinds(body) == 3 || pieces().any(|piece| piece.len() >= 16 && kinds(piece) >= 2)
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_capital_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_dotted(byte: u8) -> bool {
    is_base64url(byte) || byte == b'.'
}

/// Escapes a value as JSON does inside a string, for values with quotes, backslashes or line breaks.
fn escape_json(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for char in value.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    // The key is random letters and digits without a prefix, so that no secret scanner reports this file.
    const KEY: &str = "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7j";

    fn check(input: &str, expected: Expect) {
        let redacted = Redactor::new().redact(input).into_owned();
        assert_eq!(Redactor::new().redact(&redacted), redacted, "redacting again changes nothing");
        expected.assert_eq(&redacted);
    }

    fn check_token(prefix: &str) {
        check(&format!("x={prefix}{KEY}, y"), expect!["x=[redacted], y"]);
    }

    fn check_unchanged(input: &str) {
        assert!(matches!(Redactor::new().redact(input), Cow::Borrowed(_)), "changed: {input}");
    }

    fn check_value(value: &str, input: &str, expected: Expect) {
        expected.assert_eq(&Redactor::new().with_secret("DB_PASSWORD", value).redact(input));
    }

    fn check_key(around: impl Fn(&str) -> String, expected: Expect) {
        let body = format!("{KEY}{KEY}\n{KEY}+/{KEY}\n{KEY}\nAb3=");
        let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----");
        check(&around(&key), expected);
    }

    #[test]
    fn tokens_with_known_prefixes_are_redacted() {
        for (prefix, _) in SHAPES.iter().filter(|(_, shape)| matches!(shape, Shape::Token(..))) {
            check_token(prefix);
        }
        check_token("sk-ant-api03-");
        check_token("sk-proj-");
        check_token("sk-or-v1-");
    }

    #[test]
    fn lower_case_hex_key_is_redacted() {
        check("key sk-0123456789abcdef0123456789abcdef.", expect!["key [redacted]."]);
    }

    #[test]
    fn keys_of_fixed_length_are_redacted() {
        check(&format!("?key=AIza{}&x", &KEY[..35]), expect!["?key=[redacted]&x"]);
        check("id=AKIAIOSFODNN7EXAMPLE;", expect!["id=[redacted];"]);
        check_unchanged("AKIAIOSFODNN7EXAMPLETOOLONG");
        check_unchanged("ASIA AND AFRICA, ASIAPACIFICREGION");
    }

    #[test]
    fn web_tokens_are_redacted() {
        let header = "eyJhbGciOiJIUzI1NiJ9";
        check(
            &format!("cookie: {header}.eyJzdWIiOiIxIn0.c2lnbmF0dXJl-x_y."),
            expect!["cookie: [redacted]."],
        );
        check_unchanged(&format!("{header} and {header}.eyJzdWIiOiIxIn0"));
    }

    #[test]
    fn bearer_credentials_are_redacted() {
        check("Authorization: Bearer abc123def456", expect!["Authorization: Bearer [redacted]"]);
        check(
            "authorization: bearer  aaaaaaaaaaaaaaaaaaaaaaaa==",
            expect!["authorization: bearer  [redacted]"],
        );
        check_unchanged(
            "the bearer of bad news, a Bearer authentication scheme, Bearer $TOKEN, Bearer <token>",
        );
    }

    #[test]
    fn passwords_in_urls_are_redacted() {
        check("postgres://me:hunter2@db/x", expect!["postgres://me:[redacted]@db/x"]);
        check("https://u:p@ss:word@host", expect!["https://u:[redacted]@host"]);
        check("https://:secret@host", expect!["https://:[redacted]@host"]);
        check(
            &format!("https://ghp_{KEY}:x-oauth-basic@github.com"),
            expect!["https://[redacted]:[redacted]@github.com"],
        );
        check(&format!("https://ghp_{KEY}@github.com"), expect!["https://[redacted]@github.com"]);
        check_unchanged(
            "ssh://git@github.com:22/x http://[::1]:80/a@b https://host:8080/?mail=me@x.org",
        );
    }

    #[test]
    fn private_keys_are_redacted() {
        check_key(
            |key| format!("before\n{key}\nafter"),
            expect![[r#"
            before
            [redacted]
            after"#]],
        );
    }

    #[test]
    fn private_keys_in_json_diffs_and_quotes_are_redacted() {
        check_key(
            |key| format!("{{\"key\":\"{}\\n\"}}", key.replace('\n', "\\n")),
            expect![[r#"{"key":"[redacted]\n"}"#]],
        );
        check_key(
            |key| format!("-{}\n+x", key.replace('\n', "\n-")),
            expect![[r#"
            -[redacted]
            +x"#]],
        );
        check_key(
            |key| format!("> {}\n> x", key.replace('\n', "\n> ")),
            expect![[r#"
            > [redacted]
            > x"#]],
        );
    }

    #[test]
    fn encrypted_and_truncated_private_keys_are_redacted() {
        check_key(
            |key| {
                key.replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,12\n\n")
            },
            expect!["[redacted]"],
        );
        check_key(
            |key| format!("{}\n[output cut]", &key[..150]),
            expect![[r#"
                [redacted]
                [output cut]"#]],
        );
    }

    #[test]
    fn text_about_keys_is_not_redacted() {
        for text in [
            "a file with `-----BEGIN RSA PRIVATE KEY-----` at its top is a key file",
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
            "-----BEGIN CERTIFICATE-----\nAb3dEf6hIj9lMn2pQr5tUv8xYz1b\n-----END CERTIFICATE-----",
            "-----BEGIN PRIVATE KEY-----",
        ] {
            check_unchanged(text);
        }
    }

    #[test]
    fn ordinary_text_is_not_redacted() {
        for text in [
            "",
            "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
            "550e8400-e29b-41d4-a716-446655440000",
            "a task-force for risk-assessment of desk-research-2024-and-beyond-Q3",
            "class=\"sk-toggleable__label-arrow sk-estimator-doc-link sk-top-container\"",
            "set sk-ant-your-key-here or xoxb-your-token-here; npm_config_registry, ghp_example",
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUA+AIzaGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNby",
            "see https://example.org/a:b@c and mail me@example.org",
            "schöne Grüße, 世界",
        ] {
            check_unchanged(text);
        }
    }

    #[test]
    fn tokens_after_escapes_and_colours_are_redacted() {
        for before in ["\n", r"\n", "%20", "\x1b[32m", r"\u001b[1;32m", "\"", "/", "世"] {
            let redacted = Redactor::new().redact(&format!("{before}ghp_{KEY}")).into_owned();
            assert_eq!(redacted, format!("{before}[redacted]"));
        }
    }

    #[test]
    fn known_values_are_redacted_anywhere() {
        check_value("hunter2!", "xhunter2!x hunter2", expect!["x[redacted DB_PASSWORD]x hunter2"]);
        check_value(
            " two\nlines\n",
            "two\nlines two\\nlines",
            expect!["[redacted DB_PASSWORD] [redacted DB_PASSWORD]"],
        );
        check_value("short", "a short word", expect!["a short word"]);
    }

    #[test]
    fn known_value_is_named_even_if_a_pattern_matches() {
        let key = format!("sk-ant-{KEY}");
        check_value(&key, &format!("Bearer {key}"), expect!["Bearer [redacted DB_PASSWORD]"]);
        check_value(
            "p$w:abc",
            "https://u:p$w:abc@host",
            expect!["https://u:[redacted DB_PASSWORD]@host"],
        );
    }

    #[test]
    fn debug_output_has_no_secret() {
        let redactor = Redactor::new().with_secret("A_KEY", "correct horse");
        expect!["Redactor { secrets: 1, .. }"].assert_eq(&format!("{redactor:?}"));
    }

    #[test]
    fn names_of_secret_variables_are_recognised() {
        for name in [
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "TOKEN",
            "apiKey",
            "clientSecret",
            "access-token",
            "DB_PASSWORD",
            "MYSQL_PWD",
            "PGPASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "GH_PAT",
            "OPENAIAPIKEY",
            "KEY_PASSPHRASE",
            "GOOGLE_CREDENTIALS",
            "SESSION_COOKIE",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "",
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "SSH_AUTH_SOCK",
            "MAX_TOKENS",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD",
            "MONKEY",
            "SSH_PUBLIC_KEY",
            "GITHUB_TOKEN_FILE",
            "COMPASS",
            "AUTHOR",
            "PATTERN",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        for piece in [
            "sk-",
            "eyJ",
            "_eyJ_",
            "eyJ-AKIAIOSFODNN7EXAMPLE-",
            "-----BEGIN RSA PRIVATE KEY-----",
            "://",
            "a://b:",
            "Bearer ",
            "-----BEGIN PRIVATE KEY-----Proc-Type:",
            "[0msk-",
            "ghp_ghs_",
            "%20sk-",
        ] {
            // The test measures no time; quadratic time would be noticed.
            Redactor::new().redact(&piece.repeat(300_000 / piece.len()));
        }
    }

    proptest! {
        #[test]
        fn redaction_is_idempotent(
            pieces in proptest::collection::vec(
                prop_oneof![
                    any::<String>(),
                    proptest::sample::select(SHAPES).prop_map(|(prefix, _)| prefix.to_owned()),
                    proptest::sample::select(&[KEY, "\n", ":", "@", ".", "PRIVATE KEY-----", "\\n"][..])
                        .prop_map(str::to_owned),
                ],
                0..12,
            )
        ) {
            let redactor = Redactor::new().with_secret("A_KEY", "\u{e9}t\u{e9} 24");
            let once = redactor.redact(&pieces.concat()).into_owned();
            prop_assert_eq!(redactor.redact(&once), once.as_str());
        }
    }
}
