//! The redactor for a text that comes in pieces. It shows each piece at once, but for an end that more text
//! could turn into a secret.

use std::ops::Range;

use crate::text::redact::{
    PREFIXES, Redactor, SHAPES, Shape, is_authority, is_bearer, is_dotted, longest_run,
    redact_shapes, scan_private_key, starts_word,
};

/// The maximum number of bytes that are held back for a token. No token is that long.
const MAX_HELD: usize = 16 * 1024;

/// The number of shown bytes that are kept where a word has no end: as many as decide whether a word starts.
const MAX_CONTEXT: usize = 64;

/// One text that comes in pieces, redacted. All that it returns is together what [`Redactor::redact`] returns
/// for the whole text.
///
/// As there, known values are replaced first, and shapes are found in the result.
#[derive(Clone, Debug, Default)]
pub struct RedactedPieces {
    values: ValuePieces,
    shapes: ShapePieces,
}

impl RedactedPieces {
    /// Adds the next piece. Returns what can be shown now; the rest comes with a later piece or the end.
    pub fn push(&mut self, redactor: &Redactor, piece: &str) -> String {
        let without_values = self.values.push(redactor, piece);
        self.shapes.push(&without_values)
    }

    /// Ends the text. Returns what was held back.
    pub fn finish(&mut self, redactor: &Redactor) -> String {
        let RedactedPieces { values, mut shapes } = std::mem::take(self);
        let mut rest = shapes.push(&redactor.redact_values(&values.held));
        rest += &shapes.show(shapes.text.len());
        rest
    }

    /// True if some text is held back.
    pub fn holds_back(&self) -> bool {
        !self.values.held.is_empty() || self.shapes.shown < self.shapes.text.len()
    }
}

/// The first stage: replaces known values. It holds back less than two of them.
#[derive(Clone, Debug, Default)]
struct ValuePieces {
    held: String,
}

impl ValuePieces {
    fn push(&mut self, redactor: &Redactor, piece: &str) -> String {
        self.held.push_str(piece);
        let mut settled = redactor.open_value(&self.held);
        // A value that was found may overlap the beginning of another one.
        for value in redactor.find_values(&self.held) {
            if value.start() < settled && settled < value.end() {
                settled = value.start();
            }
        }
        let ready = redactor.redact_values(&self.held[..settled]).into_owned();
        self.held.drain(..settled);
        ready
    }
}

/// The second stage: replaces tokens of known shapes.
#[derive(Clone, Debug, Default)]
struct ShapePieces {
    /// The text from a place on that no secret can span: some that was shown, then the held back.
    text: String,
    /// The number of bytes of `text` that were shown.
    shown: usize,
}

impl ShapePieces {
    fn push(&mut self, piece: &str) -> String {
        self.text.push_str(piece);
        let settled = settled_length(&self.text);
        let is_too_long = self.text.len() - settled > MAX_HELD;
        let to = if is_too_long { self.text.len() } else { settled.max(self.shown) };
        self.show(to)
    }

    fn show(&mut self, to: usize) -> String {
        let (before, now) = (&self.text[..self.shown], &self.text[self.shown..to]);
        let redacted = redact_shapes(&self.text[..to]);
        let ready = match redacted.strip_prefix(before) {
            Some(ready) => ready.to_owned(),
            // What was shown ends a secret, which was redacted then.
            None => redact_shapes(now).into_owned(),
        };
        let boundary = self.text[..to].char_indices().rev().find(|(_, char)| is_boundary(*char));
        let start = boundary.map_or(0, |(at, char)| at + char.len_utf8());
        let start = start.max(self.text.floor_char_boundary(to.saturating_sub(MAX_CONTEXT)));
        self.text.drain(..start);
        self.shown = to - start;
        ready
    }
}

/// True if what comes after this character is redacted as it would be without anything before it.
fn is_boundary(char: char) -> bool {
    char.is_whitespace() || !char.is_ascii() || ".,!?\"'(){}<>=*&#+~|`".contains(char)
}

impl Redactor {
    /// Returns the place from which the text's end is the beginning of a value.
    fn open_value(&self, text: &str) -> usize {
        let values = || self.secrets.iter().map(|secret| secret.value.as_str());
        let longest = values().map(str::len).max().unwrap_or(0);
        let from = (text.len() + 1).saturating_sub(longest);
        let mut places = (from..text.len()).filter(|at| text.is_char_boundary(*at));
        let is_open = |at: &usize| {
            let end = &text[*at..];
            values().any(|value| value.len() > end.len() && value.starts_with(end))
        };
        places.find(is_open).unwrap_or(text.len())
    }
}

/// Returns the length of the start of a text that further text cannot turn into a token of a known shape.
fn settled_length(text: &str) -> usize {
    let mut settled = open_shape(text).min(open_prefix(text));
    // A token that was found may overlap the beginning of another one.
    for secret in found_shapes(text) {
        if secret.start < settled && settled < secret.end {
            settled = secret.start;
        }
    }
    settled
}

/// Returns the places of tokens of known shapes, from their prefix on.
fn found_shapes(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let found = PREFIXES.find(aho_corasick::Input::new(text).range(at..))?;
            let (_, shape) = SHAPES[found.pattern().as_usize()];
            at = found.start() + 1;
            if let Some(secret) = shape.measure(text, found.range()) {
                at = secret.end;
                return Some(found.start()..secret.end);
            }
        }
    })
}

/// Returns the place of the first prefix whose secret may go on after the text's end.
fn open_shape(text: &str) -> usize {
    let mut at = 0;
    while let Some(found) = PREFIXES.find(aho_corasick::Input::new(text).range(at..)) {
        let (_, shape) = SHAPES[found.pattern().as_usize()];
        if shape.is_open(text, found.start(), found.end()) {
            return found.start();
        }
        at = found.start() + 1;
    }
    text.len()
}

/// Returns the place from which the text's end is the beginning of a prefix.
fn open_prefix(text: &str) -> usize {
    let longest = SHAPES.iter().map(|(prefix, _)| prefix.len()).max().unwrap_or(0);
    let from = (text.len() + 1).saturating_sub(longest);
    let is_open = |at: &usize| {
        let Some(end) = text.get(*at..) else { return false };
        SHAPES.iter().any(|(prefix, shape)| {
            let fits = prefix.len() > end.len() && prefix.starts_with(end);
            fits && shape.may_start(text, *at)
        })
    };
    (from..text.len()).find(is_open).unwrap_or(text.len())
}

impl Shape {
    /// True if a secret of this shape may have its prefix at `at`.
    fn may_start(self, text: &str, at: usize) -> bool {
        match self {
            Shape::PrivateKey => true,
            Shape::UrlPassword => text[..at].ends_with(|char: char| char.is_ascii_alphanumeric()),
            _ => starts_word(text.as_bytes(), at),
        }
    }

    /// True if a secret with its prefix in `start..end` may go on after the text's end.
    fn is_open(self, text: &str, start: usize, end: usize) -> bool {
        let reaches_end = |from: usize, run: &str| from + run.len() == text.len();
        if !self.may_start(text, start) {
            return false;
        }
        match self {
            Shape::Token(alphabet, _) => reaches_end(end, longest_run(text, end, alphabet)),
            Shape::Fixed(alphabet, length) => {
                let run = longest_run(text, end, alphabet);
                run.len() <= length && reaches_end(end, run)
            }
            Shape::WebToken => reaches_end(start, longest_run(text, start, is_dotted)),
            Shape::Bearer => {
                let from = text.len() - text[end..].trim_start_matches(' ').len();
                reaches_end(from, longest_run(text, from, is_bearer))
            }
            Shape::UrlPassword => reaches_end(end, longest_run(text, end, is_authority)),
            Shape::PrivateKey => {
                let rest = &text[scan_private_key(text, start, end).1..];
                "-----".starts_with(rest) || rest == "\\"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    // The key is random letters and digits without a prefix, so that no secret scanner reports this file.
    const KEY: &str = "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4fGh7j";

    fn redactor() -> Redactor {
        Redactor::new().with_secret("A_KEY", "correct horse").with_secret("B_KEY", "horse.battery")
    }

    /// Shows what each piece returns, and after `|` what the end does.
    fn check(pieces: &[&str], expected: Expect) {
        let (redactor, mut text) = (redactor(), RedactedPieces::default());
        let shown: Vec<_> = pieces.iter().map(|piece| text.push(&redactor, piece)).collect();
        expected.assert_eq(&format!("{shown:?} | {:?}", text.finish(&redactor)));
    }

    #[test]
    fn words_are_shown_at_once() {
        check(
            &["One ", "two", " thre", "e, task-", "force"],
            expect![[r#"["One ", "two", " thre", "e, task", "-force"] | """#]],
        );
        check(
            &["\u{e9}", "\u{4e2d}\u{6587}", "http", "s:", "//x.y/z ", "Note:", " it"],
            expect![[r#"["é", "中文", "http", "s", "://x.y/z ", "Note", ": it"] | """#]],
        );
    }

    #[test]
    fn split_secrets_are_redacted() {
        check(
            &["it is corr", "ect ", "horse", " there"],
            expect![[r#"["it is ", "", "", "[redacted A_KEY] there"] | """#]],
        );
        check(
            &["correct ", "horse.", "batteries"],
            expect![[r#"["", "", "[redacted A_KEY].batteries"] | """#]],
        );
        check(
            &["correct ", "horse.", "battery"],
            expect![[r#"["", "", "[redacted A_KEY].battery"] | """#]],
        );
        check(
            &["sk-ant-", KEY, "correct ", "end"],
            expect![[r#"["", "", "", "[redacted] end"] | """#]],
        );
        check(
            &["correct ", "horse", "sk-ant-", KEY, " end"],
            expect![[r#"["", "", "[redacted A_KEY]", "", "[redacted] end"] | """#]],
        );
        check(&["g", "hp_", KEY, " end"], expect![[r#"["", "", "", "[redacted] end"] | """#]]);
        check(
            &["https", "://me:hush", "hush", "@host/ "],
            expect![[r#"["https", "", "", "://me:[redacted]@host/ "] | """#]],
        );
        check(
            &["Bear", "er ", &KEY[..20], &KEY[20..], "\nend"],
            expect![[r#"["", "", "", "", "Bearer [redacted]\nend"] | """#]],
        );
        check(
            &["\u{1b}[", "1", "msk-", KEY, "\u{1b}[0m"],
            expect![[r#"["\u{1b}[", "1", "m", "", "[redacted]\u{1b}[0m"] | """#]],
        );
        check(
            &[
                "a\n-----BEGIN RSA PRIV",
                "ATE KEY-----\n",
                KEY,
                "\n",
                KEY,
                "\n-----EN",
                "D RSA PRIVATE KEY--",
                "---\nb",
            ],
            expect![[r#"["a\n", "", "", "", "", "", "", "[redacted]\n"] | "b""#]],
        );
    }

    #[test]
    fn endless_token_is_not_held_back_forever() {
        let (redactor, mut text) = (redactor(), RedactedPieces::default());
        let piece = format!("sk-{KEY}-").repeat(100);
        let shown: Vec<_> = (0..50).map(|_| text.push(&redactor, &piece)).collect();
        assert!(shown.iter().any(|shown| !shown.is_empty()));
        assert!(text.shapes.text.len() <= MAX_HELD + MAX_CONTEXT);
    }

    proptest! {
        #[test]
        fn pieces_are_redacted_like_the_whole(
            parts in proptest::collection::vec(
                prop_oneof![
                    any::<String>(),
                    proptest::sample::select(SHAPES).prop_map(|(prefix, _)| prefix.to_owned()),
                    proptest::sample::select(&[
                        KEY, "\n", ":", "@", ".", " ", "a", "%20", "\u{1b}[1m", "-----", "PRIVATE KEY-----",
                        "-----END ", "\\n", "http", "correct ", "horse", ".battery", "/",
                    ][..]).prop_map(str::to_owned),
                ],
                0..16,
            ),
            size in 1..7_usize,
        ) {
            let (redactor, mut text) = (redactor(), RedactedPieces::default());
            let whole = parts.concat();
            let chars: Vec<char> = whole.chars().collect();
            let mut shown = String::new();
            for piece in chars.chunks(size) {
                shown += &text.push(&redactor, &piece.iter().collect::<String>());
            }
            shown += &text.finish(&redactor);
            prop_assert_eq!(shown, redactor.redact(&whole).into_owned());
        }
    }
}
