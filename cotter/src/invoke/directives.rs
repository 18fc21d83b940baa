//! What a person's text asks for by name: `/name` tokens, leading commands and leading mentions.
//!
//! All of it is pure: callers say which names are bound and do what is asked. Only text that a person
//! typed is to be parsed; what was piped, pasted or attached is data ([`ContentPart::data`]).
//!
//! In a turn, a leading `/name args` that is a [command](crate::invoke::command)'s is the command's alone. Else
//! every bound `/name` is taken out of the text, the hooks of that name run in text order
//! ([`Registry::define_hook`]), and then the [skills](crate::invoke::skill). A name that is both a hook's and a
//! skill's is the hook's. `@name` stays in the text, for the model to see
//! ([`MentionMode`](crate::invoke::subagent::MentionMode)).
//!
//! [`ContentPart::data`]: crate::history::message::ContentPart::data
//! [`Registry::define_hook`]: crate::registry::Registry::define_hook
//!
//! Whitespace is ECMAScript's here: U+FEFF and every space separator count, U+0085 does not. A blank is a
//! space or a tab. A line ends at LF, CR, CR LF, U+2028 or U+2029.

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
    /// What is left of the token's line once all bound tokens are gone, without whitespace at its ends.
    ///
    /// Tokens of one line share one allocation: a line of many tokens costs no more than itself.
    pub args: SmolStr,
}

/// A text without its bound tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedPrompt<'a> {
    /// What is left of the text. It is borrowed where it is all there.
    pub text: Cow<'a, str>,
    /// The tokens, in text order; a name that was written twice is there twice.
    pub tokens: Vec<DirectiveToken>,
}

/// Takes the bound tokens out of a text.
///
/// A token is a `/name` with whitespace or an end of the text on both sides, the name an ASCII letter
/// followed by ASCII letters, digits, `_` and `-`. `is_bound` is asked once for each, in text order; case
/// counts. Names that are not bound stay as they are, and so does every byte of a text without bound ones.
///
/// At the start of its line a token goes with the blanks on both sides, at the end of its line with the
/// blanks before it, inside a line with the blanks after it. No line break goes, except those that are then
/// at the very start or end of the text.
///
/// Nothing binds inside of a fenced code block or a code span. `\/name` says `/name` without meaning it: the
/// backslash goes where the name is bound, and is kept elsewhere.
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
        leave_out_code(text, &mut bound);
    }
    if bound.is_empty() {
        return ParsedPrompt { text: Cow::Borrowed(text), tokens: vec![] };
    }
    remove(text, &bound)
}

/// The message that brings a skill's text to the model.
///
/// The text cannot end its own block: the `<` of every closing tag in it becomes `&lt;`, however the tag is
/// spelled, because a model reads it whatever its case and whatever blanks or hidden characters it has.
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

/// Text in which no skill begins or ends.
pub(crate) fn escape_skill_tags(text: &str) -> String {
    escape_tags_of(text, "skill")
}

fn leave_out_code(text: &str, bound: &mut Vec<Candidate<'_>>) {
    let mut ranges = crate::invoke::directives::code::ranges(text).into_iter().peekable();
    bound.retain(|candidate| {
        while ranges.next_if(|range| range.end <= candidate.slash).is_some() {}
        ranges.peek().is_none_or(|range| candidate.slash < range.start)
    });
}

fn remove<'a>(text: &'a str, bound: &[Candidate<'a>]) -> ParsedPrompt<'a> {
    let mut rest = TokenRemover::new(text);
    for candidate in bound {
        match candidate.form {
            Form::Escaped => rest.unescape(candidate.slash),
            Form::Token => rest.remove(candidate),
        }
    }
    rest.finish()
}

/// What is left of a text while tokens are taken out of it, from the front to the back.
struct TokenRemover<'a> {
    text: &'a str,
    /// How much of the text has been copied or left out.
    done: usize,
    out: String,
    /// Where the last line of `out` starts.
    line: usize,
    /// Where the blanks at the end of `out` start. Kept, not searched: the blanks before a token that
    /// stay would be searched again for each token that follows.
    blanks: usize,
    tokens: Vec<DirectiveToken>,
    /// How many tokens have their arguments. The others stand in the last line of `out`.
    complete: usize,
}

impl<'a> TokenRemover<'a> {
    fn new(text: &'a str) -> Self {
        let out = String::with_capacity(text.len());
        TokenRemover { text, done: 0, out, line: 0, blanks: 0, tokens: vec![], complete: 0 }
    }

    /// Takes away the backslash before a slash.
    fn unescape(&mut self, slash: usize) {
        self.copy(slash - 1);
        self.done = slash;
    }

    fn remove(&mut self, token: &Candidate<'_>) {
        self.copy(token.slash);
        let after = self.text[token.end()..].trim_start_matches(is_blank);
        let at_start = self.blanks == self.line;
        let at_end = after.is_empty() || after.starts_with(is_line_break);
        if at_start || at_end {
            self.out.truncate(self.blanks);
        }
        let keeps_blanks_after = at_end && !at_start;
        self.done = if keeps_blanks_after { token.end() } else { self.text.len() - after.len() };
        self.tokens.push(DirectiveToken { name: token.name.into(), args: SmolStr::default() });
    }

    /// Copies the text up to there.
    fn copy(&mut self, end: usize) {
        let part = &self.text[self.done..end];
        self.done = end;
        if let Some(last) = part.rfind(is_line_break) {
            let first = part.find(is_line_break).unwrap_or(last);
            let (ended, more) = part.split_at(first);
            self.out.push_str(ended);
            self.complete_tokens();
            let last_line = part[last..].trim_start_matches(is_line_break);
            self.out.push_str(more);
            self.line = self.out.len() - last_line.len();
            self.blanks = self.line;
            self.mark_blanks(last_line);
        } else {
            self.out.push_str(part);
            self.mark_blanks(part);
        }
    }

    /// Notes where the blanks at the end are, after something within a line was copied.
    fn mark_blanks(&mut self, copied: &str) {
        let said = copied.trim_end_matches(is_blank);
        if !said.is_empty() {
            self.blanks = self.out.len() - (copied.len() - said.len());
        }
    }

    /// Gives the tokens of the last line, which has ended, their arguments.
    fn complete_tokens(&mut self) {
        if self.complete < self.tokens.len() {
            let args = SmolStr::new(self.out[self.line..].trim_matches(is_space));
            for token in &mut self.tokens[self.complete..] {
                token.args = args.clone();
            }
            self.complete = self.tokens.len();
        }
    }

    fn finish(mut self) -> ParsedPrompt<'a> {
        self.copy(self.text.len());
        self.complete_tokens();
        if !self.tokens.is_empty() {
            self.out.truncate(self.out.trim_end_matches(is_line_break).len());
            let left = self.out.trim_start_matches(is_line_break).len();
            self.out.drain(..self.out.len() - left);
        }
        ParsedPrompt { text: Cow::Owned(self.out), tokens: self.tokens }
    }
}

/// Whitespace as ECMAScript has it.
fn is_space(char: char) -> bool {
    char == '\u{feff}' || char.is_whitespace() && char != '\u{85}'
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}

fn is_line_break(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// How many bytes of the start are a name: a letter, then letters, digits, `_`, `-` and what `also` takes.
fn name_length(bytes: &[u8], also: impl Fn(u8) -> bool) -> usize {
    let in_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || also(*byte);
    match bytes.first() {
        Some(first) if first.is_ascii_alphabetic() => {
            bytes.iter().position(|byte| !in_name(byte)).unwrap_or(bytes.len())
        }
        _ => 0,
    }
}
