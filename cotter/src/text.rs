//! Makes foreign text safe to show to a person or a model. This module is the only place that makes hidden
//! characters visible. [`tags`] escapes the runtime's own tags, [`redact`] removes secrets. Nothing here
//! does I/O.
//!
//! Text from a model, a tool, a file or a hook is foreign. Before a person sees it, it goes through [`show`]
//! (many lines), [`show_line`] (one line) or [`show_bytes`]. A character that is hidden, or that moves its
//! neighbours, becomes `\u{…}` with its code point in lower-case hex without leading zeros (`\u{1b}`,
//! `\u{202e}`). A byte that is not UTF-8 becomes `\xff`. A backslash stays as it is, so the result cannot be
//! converted back.

pub mod tags;
pub mod redact;

use std::{borrow::Cow, fmt::Write};

/// Shows text of many lines: newlines and tabs stay, every other hidden character becomes `\u{…}`.
///
/// Hidden are these characters:
/// - C0 controls (carriage return and ESC among them), DEL and C1 controls;
/// - bidi controls, zero-width and tag characters, the byte order mark;
/// - line and paragraph separators, fillers, variation selectors, noncharacters;
/// - every other default-ignorable or invisible format character.
///
/// One presentation selector directly after an emoji or a symbol stays, because pairs such as `⚠️` are
/// common and harmless.
///
/// Text without hidden characters is borrowed. The scan skips plain ASCII in blocks.
pub fn show(text: &str) -> Cow<'_, str> {
    escape(text, Lines::Keep)
}

/// Shows text on one line: like [`show`], with newlines and tabs written as `\n` and `\t` too.
pub fn show_line(text: &str) -> Cow<'_, str> {
    escape(text, Lines::Escape)
}

/// Shows bytes that should be text: like [`show`], with each byte that is not UTF-8 written as `\xff`.
pub fn show_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return show(text);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        out.push_str(&show(chunk.valid()));
        for byte in chunk.invalid() {
            push(&mut out, format_args!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(out)
}

/// Escapes the tags of note blocks, in any spelling: every `<` of such a tag becomes `&lt;`. Tool output is
/// always escaped; call this for other foreign text that reaches the model.
pub fn escape_note_tags(text: &str) -> String {
    crate::text::tags::escape(text)
}

/// Cuts text to at most `max_bytes` bytes and appends the number of bytes left out. The appended text is
/// not counted.
pub fn cut_bytes(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max_bytes);
    format!("{}… [{} bytes left out]", &text[..end], text.len() - end)
}

/// Cuts text to at most `max_chars` characters. Cut text ends in `…`, which counts as one character.
pub fn cut_chars(text: &str, max_chars: usize) -> Cow<'_, str> {
    // Text of at most `max_chars` bytes has at most `max_chars` characters.
    if text.len() <= max_chars || text.chars().nth(max_chars).is_none() {
        return Cow::Borrowed(text);
    }
    let Some(kept_chars) = max_chars.checked_sub(1) else {
        return Cow::Borrowed("");
    };
    let end = text.char_indices().nth(kept_chars).map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{}…", &text[..end]))
}

/// Cuts the start of a text so that at most `max_chars` characters remain. Cut text begins with `…`, which
/// counts as one character.
pub(crate) fn cut_start(text: &str, max_chars: usize) -> Cow<'_, str> {
    if text.len() <= max_chars || text.chars().nth(max_chars).is_none() {
        return Cow::Borrowed(text);
    }
    let kept_chars = max_chars.saturating_sub(2);
    let at = text.char_indices().rev().nth(kept_chars).map_or(0, |(at, _)| at);
    Cow::Owned(format!("…{}", &text[at..]))
}

/// Returns the last 5 lines of a text, at most 500 characters.
pub fn take_last_lines(text: &str) -> String {
    const LINES: usize = 5;
    const CHARS: usize = 500;
    let text = text.trim();
    let at = text.rmatch_indices('\n').nth(LINES - 1).map_or(0, |(at, _)| at + 1);
    cut_start(&text[at..], CHARS).into_owned()
}

/// Cuts a line from [`show_line`] into pieces of at most `columns` columns, at spaces if there are any.
/// Callers print a bar before each piece. A character that is not ASCII counts as two columns.
pub fn wrap(line: &str, columns: usize) -> Vec<&str> {
    let (mut pieces, mut start) = (vec![], 0);
    let (mut width, mut space) = (0, None);
    for (at, char) in line.char_indices() {
        let char_width = if char.is_ascii() { 1 } else { 2 };
        if width + char_width > columns && at > start {
            let end = space.take().filter(|space| *space > start).unwrap_or(at);
            pieces.push(&line[start..end]);
            start = end;
            width = line[start..at].chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
        }
        width += char_width;
        if char == ' ' {
            space = Some(at + 1);
        }
    }
    pieces.push(&line[start..]);
    pieces
}

/// Returns the hint "did you mean `…`?" with the candidate that is [`nearest`] to a mistyped word.
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(word, candidates).map(|near| format!("did you mean `{near}`?"))
}

/// Returns the candidate that a mistyped word most likely means.
///
/// Case is ignored. An inserted, missing, changed or swapped character is one mistake. At most a third of
/// the characters may be wrong, one in short words, and never all of them. Of equally near candidates the
/// first wins. A word of more than 64 characters has no candidate.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    if word.len() > LONGEST * 4 {
        return None;
    }
    let word = word.to_lowercase();
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let allowed = (length / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= allowed)
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(mistakes, _)| *mistakes <= allowed && *mistakes < length)
        .min_by_key(|(mistakes, _)| *mistakes)
        .map(|(_, candidate)| candidate)
}

/// The treatment of newlines and tabs.
#[derive(Clone, Copy, PartialEq)]
enum Lines {
    Keep,
    Escape,
}

fn escape(text: &str, lines: Lines) -> Cow<'_, str> {
    let Some(first) = next_hidden(text, 0, lines) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len() + 16);
    let (mut copied, mut hidden) = (0, Some(first));
    while let Some((at, char)) = hidden {
        out.push_str(&text[copied..at]);
        match char {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            _ => push(&mut out, format_args!("\\u{{{:x}}}", u32::from(char))),
        }
        copied = at + char.len_utf8();
        hidden = next_hidden(text, copied, lines);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("writing to a string does not fail");
}

/// Finds the first character at or after `from` that must be escaped. Returns its byte offset and the
/// character.
fn next_hidden(text: &str, from: usize, lines: Lines) -> Option<(usize, char)> {
    let mut at = from;
    loop {
        at += plain_ascii(&text.as_bytes()[at..]);
        // This loop handles a run of characters that are not plain ASCII, such as Chinese prose.
        let mut previous = text[..at].chars().next_back();
        for char in text[at..].chars() {
            if is_plain(char) {
                break;
            }
            let is_shown = match char {
                '\n' | '\t' => lines == Lines::Keep,
                '\u{fe0e}' | '\u{fe0f}' => previous.is_some_and(is_pictograph),
                _ => !is_hidden(char),
            };
            if !is_shown {
                return Some((at, char));
            }
            at += char.len_utf8();
            previous = Some(char);
        }
        if at == text.len() {
            return None;
        }
    }
}

/// Counts the printable ASCII bytes at the start, in blocks first.
fn plain_ascii(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let plain = |byte: &u8| matches!(byte, b' '..=b'~');
    let blocks = bytes
        .chunks_exact(BLOCK)
        // A block has no early exit, so the loop compiles to a few vector instructions.
        .take_while(|block| block.iter().fold(true, |all, byte| all & plain(byte)))
        .count();
    let start = blocks * BLOCK;
    start + bytes[start..].iter().take_while(|byte| plain(byte)).count()
}

fn is_plain(char: char) -> bool {
    matches!(char, ' '..='~')
}

/// True for symbols and emoji that a presentation selector may follow.
fn is_pictograph(char: char) -> bool {
    matches!(char, '©' | '®' | '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}')
        && !is_hidden(char)
}

/// True if a character is invisible or moves its neighbours. Newline and tab count too; the caller exempts
/// them.
pub fn is_hidden(char: char) -> bool {
    matches!(char,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'       // C0, DEL, C1
        | '\u{ad}' | '\u{34f}'                      // soft hyphen, grapheme joiner
        | '\u{61c}'                                 // Arabic letter mark
        | '\u{115f}' | '\u{1160}'                   // Hangul fillers
        | '\u{17b4}' | '\u{17b5}'                   // Khmer inherent vowels
        | '\u{180b}'..='\u{180f}'                   // Mongolian selectors and separator
        | '\u{200b}'..='\u{200f}'                   // zero-width, direction marks
        | '\u{2028}'..='\u{202e}'                   // line and paragraph separator, bidi embeddings
        | '\u{2060}'..='\u{206f}'                   // word joiner, invisible operators, bidi isolates
        | '\u{3164}' | '\u{ffa0}'                   // Hangul fillers
        | '\u{fdd0}'..='\u{fdef}'                   // noncharacters
        | '\u{fe00}'..='\u{fe0f}'                   // variation selectors
        | '\u{feff}'                                // byte order mark
        | '\u{fff0}'..='\u{fffb}'                   // reserved, interlinear annotation
        | '\u{13430}'..='\u{1343f}'                 // hieroglyph format controls
        | '\u{1bca0}'..='\u{1bca3}'                 // shorthand format controls
        | '\u{1d173}'..='\u{1d17a}'                 // musical format controls
        | '\u{e0000}'..='\u{e0fff}'                 // tags, more variation selectors
    ) || u32::from(char) & 0xfffe == 0xfffe // the last two of every plane are noncharacters
}

#[cfg(test)]
mod tests {
    use super::*;

    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(input: &str, expected: Expect) {
        expected.assert_eq(&show(input));
    }

    fn check_line(input: &str, expected: Expect) {
        expected.assert_eq(&show_line(input));
    }

    fn check_bytes(input: &[u8], expected: Expect) {
        expected.assert_eq(&show_bytes(input));
    }

    fn check_clip(input: &str, max_chars: usize, expected: Expect) {
        expected.assert_eq(&cut_chars(input, max_chars));
    }

    fn check_nearest(word: &str, expected: Option<&str>) {
        let candidates = ["allow", "ask", "deny", "level", "mode", "permissions", "accept-edits"];
        assert_eq!(nearest(word, candidates), expected, "for {word:?}");
    }

    #[test]
    fn show_borrows_ordinary_text() {
        for text in [
            "",
            "plain",
            "two lines\n\tand a tab that go well beyond one block of thirty-two bytes",
            "Grüße, 世界, \u{5e9}\u{5dc}\u{5d5}\u{5dd}, 🙂, e\u{301}, ½, non\u{a0}breaking",
            "⚠\u{fe0f} careful, ❤\u{fe0f}",
            r"a back\slash and \u{1b}",
        ] {
            assert!(matches!(show(text), Cow::Borrowed(same) if same == text), "{text:?}");
        }
    }

    #[test]
    fn show_escapes_control_characters() {
        check(
            "\x1b[31mred\x1b[0m\rover\x07\0\x7f\u{9b}2J",
            expect![[r"\u{1b}[31mred\u{1b}[0m\u{d}over\u{7}\u{0}\u{7f}\u{9b}2J"]],
        );
    }

    #[test]
    fn show_escapes_bidi_and_zero_width_characters() {
        check(
            "a\u{202e}b\u{2066}c\u{200b}d\u{200d}e\u{2060}f\u{feff}g\u{ad}h\u{2028}i\u{61c}",
            expect![[
                r"a\u{202e}b\u{2066}c\u{200b}d\u{200d}e\u{2060}f\u{feff}g\u{ad}h\u{2028}i\u{61c}"
            ]],
        );
    }

    #[test]
    fn show_escapes_tags_fillers_and_selectors() {
        check(
            "\u{e0041}x\u{3164}y\u{e0100}z\u{ffff}⚠\u{fe0f}\u{fe0f}a\u{fe0f}",
            expect![[r"\u{e0041}x\u{3164}y\u{e0100}z\u{ffff}⚠️\u{fe0f}a\u{fe0f}"]],
        );
    }

    #[test]
    fn show_escapes_a_hidden_character_after_long_plain_text() {
        let text = format!("{}\u{200b}{}", "x".repeat(100), "世".repeat(50));
        assert_eq!(show(&text), text.replace('\u{200b}', r"\u{200b}"));
    }

    #[test]
    fn show_line_escapes_line_breaks() {
        check_line("a\n\tb\r\nc", expect![[r"a\n\tb\u{d}\nc"]]);
    }

    #[test]
    fn show_bytes_escapes_invalid_utf8() {
        check_bytes(
            b"ok \xff\xfe \xf0\x9f\x99 \x1b",
            expect![[r"ok \xff\xfe \xf0\x9f\x99 \u{1b}"]],
        );
        check_bytes("schön".as_bytes(), expect!["schön"]);
    }

    #[test]
    fn clip_counts_characters() {
        check_clip("short", 5, expect!["short"]);
        check_clip("longer", 5, expect!["long…"]);
        check_clip("äöüß", 4, expect!["äöüß"]);
        check_clip("äöüßx", 4, expect!["äöü…"]);
        check_clip("ab", 1, expect!["…"]);
        check_clip("ab", 0, expect![""]);
    }

    #[test]
    fn nearest_finds_a_mistyped_word() {
        check_nearest("alow", Some("allow"));
        check_nearest("Allow", Some("allow"));
        check_nearest("dney", Some("deny"));
        check_nearest("permisions", Some("permissions"));
        check_nearest("acceptEdits", Some("accept-edits"));
    }

    #[test]
    fn nearest_finds_nothing_for_a_different_word() {
        check_nearest("", None);
        check_nearest("x", None);
        check_nearest("theme", None);
        check_nearest("models of thought", None);
        check_nearest(&"a".repeat(100_000), None);
    }

    proptest! {
        #[test]
        fn show_line_leaves_no_hidden_character(text in any::<String>()) {
            let shown = show_line(&text);
            prop_assert!(next_hidden(&shown, 0, Lines::Escape).is_none());
        }

        #[test]
        fn show_is_idempotent(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let shown = show_bytes(&bytes);
            prop_assert_eq!(show(&shown), shown.as_ref());
        }

        #[test]
        fn clip_is_never_longer_than_its_limit(text in any::<String>(), max in 0usize..40) {
            prop_assert!(cut_chars(&text, max).chars().count() <= max);
        }
    }
}
