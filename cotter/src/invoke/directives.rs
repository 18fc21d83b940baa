//! The parser of names in a person's text: `/name` tokens, leading commands and leading mentions.
//!
//! All functions are pure: the caller decides which names are bound, and acts on the result. Parse only
//! text that a person typed; piped, pasted or attached text is data ([`ContentPart::data`]).
//!
//! In a turn, a leading `/name args` that names a [command](crate::invoke::command) runs that command only.
//! Otherwise every bound `/name` is removed from the text, the hooks with these names run in text order
//! ([`Registry::define_hook`]), and then the [skills](crate::invoke::skill). If a name is both a hook's and
//! a skill's, it means the hook. `@name` stays in the text, for the model to see
//! ([`MentionMode`](crate::invoke::subagent::MentionMode)).
//!
//! [`ContentPart::data`]: crate::history::message::ContentPart::data
//! [`Registry::define_hook`]: crate::registry::Registry::define_hook
//!
//! Whitespace is defined as in ECMAScript: U+FEFF and every space separator count, U+0085 does not. A blank
//! is a space or a tab. A line ends at LF, CR, CR LF, U+2028 or U+2029.

pub(crate) mod code;
pub(crate) mod leading;
pub(crate) mod scan;

use std::borrow::Cow;

use smol_str::SmolStr;

pub use crate::invoke::directives::leading::{
    LeadingCommand, leading_command, leading_mention, split_args,
};
use crate::{
    invoke::directives::scan::{Candidate, Form, each_candidate},
    text::tags::{escape_closing_tags_of, escape_tags_of},
};

/// A bound token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectiveToken {
    /// The name, without the slash.
    pub name: SmolStr,
    /// The rest of the token's line without bound tokens, trimmed.
    ///
    /// Tokens of one line share one allocation: a line with many tokens costs no more than its own length.
    pub args: SmolStr,
}

/// A text without its bound tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedPrompt<'a> {
    /// The rest of the text; borrowed if nothing was removed.
    pub text: Cow<'a, str>,
    /// The tokens, in text order; a repeated name is repeated here.
    pub tokens: Vec<DirectiveToken>,
}

/// Removes the bound tokens from a text.
///
/// A token is a `/name` with whitespace or an end of the text on both sides. The name is an ASCII letter
/// followed by ASCII letters, digits, `_` and `-`. `is_bound` is called once for each token, in text order;
/// case counts. Unbound names stay unchanged, and a text without bound names stays unchanged in every byte.
///
/// A token is removed with the blanks next to it: at the start of its line those on both sides, at the end
/// of its line those before it, inside a line those after it. Line breaks stay, except those that are then
/// at the very start or end of the text.
///
/// Nothing binds inside a fenced code block or a code span. `\/name` is an escaped `/name`: the backslash
/// is removed if the name is bound, and kept otherwise.
///
/// ```
/// use cotter::invoke::directives::parse_tokens;
///
/// let parsed = parse_tokens("please /brief explain /usr/local", |name| name == "brief");
/// assert_eq!(parsed.text, "please explain /usr/local");
/// assert_eq!(parsed.tokens[0].name, "brief");
/// assert_eq!(parsed.tokens[0].args, "please explain /usr/local");
/// ```
pub fn parse_tokens(text: &str, mut is_bound: impl FnMut(&str) -> bool) -> ParsedPrompt<'_> {
    let mut bound = vec![];
    each_candidate(text, |candidate| {
        if is_bound(candidate.name) {
            bound.push(candidate);
        }
    });
    if !bound.is_empty() {
        remove_code_candidates(text, &mut bound);
    }
    if bound.is_empty() {
        return ParsedPrompt { text: Cow::Borrowed(text), tokens: vec![] };
    }
    remove(text, &bound)
}

/// Formats the message that contains a skill's text for the model.
///
/// The text cannot end its own block: the `<` of every closing tag in it becomes `&lt;`. This holds for any
/// case, blanks and hidden characters in the tag, because a model would still read it as a tag.
///
/// ```
/// use cotter::invoke::directives::format_skill_message;
///
/// assert_eq!(
///     format_skill_message("brief", "Say it in one line."),
///     "<skill name=\"brief\">\nSay it in one line.\n</skill>",
/// );
/// ```
pub fn format_skill_message(name: &str, text: &str) -> String {
    let mut out = String::with_capacity(name.len() + text.len() + 32);
    out.push_str("<skill name=\"");
    for char in name.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            _ => out.push(char),
        }
    }
    out.push_str("\">\n");
    out.push_str(&escape_closing_tags_of(text, "skill"));
    out.push_str("\n</skill>");
    out
}

/// Escapes a text, so that no skill begins or ends in it.
pub(crate) fn escape_skill_tags(text: &str) -> String {
    escape_tags_of(text, "skill")
}

/// Removes the candidates that are inside code.
fn remove_code_candidates(text: &str, bound: &mut Vec<Candidate<'_>>) {
    let mut ranges = crate::invoke::directives::code::ranges(text).into_iter().peekable();
    bound.retain(|candidate| {
        while ranges.next_if(|range| range.end <= candidate.slash).is_some() {}
        ranges.peek().is_none_or(|range| candidate.slash < range.start)
    });
}

fn remove<'a>(text: &'a str, bound: &[Candidate<'a>]) -> ParsedPrompt<'a> {
    let mut remover = TokenRemover::new(text);
    for candidate in bound {
        match candidate.form {
            Form::Escaped => remover.unescape(candidate.slash),
            Form::Token => remover.remove(candidate),
        }
    }
    remover.finish()
}

/// The state of removing tokens from a text, from front to back.
struct TokenRemover<'a> {
    text: &'a str,
    /// The number of bytes of the text that have been copied or skipped.
    position: usize,
    out: String,
    /// The start of the last line of `out`.
    line_start: usize,
    /// The start of the blanks at the end of `out`. It is tracked and not searched: a search would repeat
    /// for each following token.
    blanks_start: usize,
    tokens: Vec<DirectiveToken>,
    /// The number of tokens that have their arguments. The others are in the last line of `out`.
    complete_count: usize,
}

impl<'a> TokenRemover<'a> {
    fn new(text: &'a str) -> Self {
        let out = String::with_capacity(text.len());
        TokenRemover {
            text,
            position: 0,
            out,
            line_start: 0,
            blanks_start: 0,
            tokens: vec![],
            complete_count: 0,
        }
    }

    /// Removes the backslash before a slash.
    fn unescape(&mut self, slash: usize) {
        self.copy(slash - 1);
        self.position = slash;
    }

    /// Removes a token and the blanks next to it.
    fn remove(&mut self, token: &Candidate<'_>) {
        self.copy(token.slash);
        let after = self.text[token.end()..].trim_start_matches(is_blank);
        let at_start = self.blanks_start == self.line_start;
        let at_end = after.is_empty() || after.starts_with(is_line_break);
        if at_start || at_end {
            self.out.truncate(self.blanks_start);
        }
        let keeps_blanks_after = at_end && !at_start;
        self.position =
            if keeps_blanks_after { token.end() } else { self.text.len() - after.len() };
        self.tokens.push(DirectiveToken { name: token.name.into(), args: SmolStr::default() });
    }

    /// Copies the text up to `end`.
    fn copy(&mut self, end: usize) {
        let part = &self.text[self.position..end];
        self.position = end;
        if let Some(last) = part.rfind(is_line_break) {
            let first = part.find(is_line_break).unwrap_or(last);
            let (line_end, lines) = part.split_at(first);
            self.out.push_str(line_end);
            self.complete_tokens();
            let last_line = part[last..].trim_start_matches(is_line_break);
            self.out.push_str(lines);
            self.line_start = self.out.len() - last_line.len();
            self.blanks_start = self.line_start;
            self.mark_blanks(last_line);
        } else {
            self.out.push_str(part);
            self.mark_blanks(part);
        }
    }

    /// Updates `blanks_start` after a part of a line was copied.
    fn mark_blanks(&mut self, copied: &str) {
        let trimmed = copied.trim_end_matches(is_blank);
        if !trimmed.is_empty() {
            self.blanks_start = self.out.len() - (copied.len() - trimmed.len());
        }
    }

    /// Sets the arguments of the tokens in the last line, which has ended.
    fn complete_tokens(&mut self) {
        if self.complete_count < self.tokens.len() {
            let args = SmolStr::new(self.out[self.line_start..].trim_matches(is_space));
            for token in &mut self.tokens[self.complete_count..] {
                token.args = args.clone();
            }
            self.complete_count = self.tokens.len();
        }
    }

    fn finish(mut self) -> ParsedPrompt<'a> {
        self.copy(self.text.len());
        self.complete_tokens();
        if !self.tokens.is_empty() {
            self.out.truncate(self.out.trim_end_matches(is_line_break).len());
            let length = self.out.trim_start_matches(is_line_break).len();
            self.out.drain(..self.out.len() - length);
        }
        ParsedPrompt { text: Cow::Owned(self.out), tokens: self.tokens }
    }
}

/// True for whitespace as ECMAScript defines it.
fn is_space(char: char) -> bool {
    char == '\u{feff}' || char.is_whitespace() && char != '\u{85}'
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}

fn is_line_break(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// The length of the name at the start, in bytes: a letter, then letters, digits, `_`, `-` and the bytes
/// that `is_allowed` accepts.
fn name_length(bytes: &[u8], is_allowed: impl Fn(u8) -> bool) -> usize {
    let in_name = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || is_allowed(*byte)
    };
    match bytes.first() {
        Some(first) if first.is_ascii_alphabetic() => {
            bytes.iter().position(|byte| !in_name(byte)).unwrap_or(bytes.len())
        }
        _ => 0,
    }
}
