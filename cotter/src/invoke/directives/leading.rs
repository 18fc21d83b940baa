//! The start of a text: a leading command or a leading mention.

use std::{iter::Peekable, str::Chars};

use crate::invoke::directives::{is_space, name_length};

/// The command at the start of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadingCommand<'a> {
    /// The name, without the slash.
    pub name: &'a str,
    /// The rest after the name, trimmed.
    pub args_raw: &'a str,
}

/// Returns the command at the start of a text, if there is one. The caller checks that the command exists.
///
/// Whitespace is allowed before the slash. The name is an ASCII letter followed by ASCII letters, digits,
/// `_`, `:` and `-`. Any whitespace ends it, including a line break.
pub fn leading_command(text: &str) -> Option<LeadingCommand<'_>> {
    let (name, args_raw) = split_leading(text, '/', |byte| byte == b':')?;
    Some(LeadingCommand { name, args_raw })
}

/// Returns the `@name` at the start of a text and the rest, trimmed.
///
/// Whitespace is allowed before the `@`. Names are as in tokens; any whitespace ends them.
pub fn leading_mention(text: &str) -> Option<(&str, &str)> {
    split_leading(text, '@', |_| false)
}

/// Splits the arguments of a command as a shell does.
///
/// Whitespace separates arguments. Between single quotes everything is literal. A backslash escapes the
/// next character; between double quotes only before `"`, `\`, `$` and a backtick, otherwise it is literal.
/// A backslash at the end of a line joins the line with the next; at the very end it is literal. Nothing is
/// expanded, and `#` begins no comment. If a quote stays open, quotes and backslashes are literal and only
/// whitespace separates: `it's late` has two arguments.
pub fn split_args(raw: &str) -> Vec<String> {
    let by_whitespace = || raw.split(is_space).filter(|arg| !arg.is_empty()).map(Into::into);
    split_quoted(raw).unwrap_or_else(|| by_whitespace().collect())
}

/// Returns the name after `mark` at the start of a text, and the rest, trimmed.
fn split_leading(text: &str, mark: char, is_allowed: impl Fn(u8) -> bool) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(is_space).strip_prefix(mark)?;
    let (name, rest) = text.split_at(name_length(text.as_bytes(), is_allowed));
    let is_complete = rest.is_empty() || rest.starts_with(is_space);
    (!name.is_empty() && is_complete).then(|| (name, rest.trim_matches(is_space)))
}

/// Splits the arguments; `None` if a quote stays open.
fn split_quoted(raw: &str) -> Option<Vec<String>> {
    let mut args = vec![];
    let mut chars = raw.chars().peekable();
    loop {
        while chars.next_if(|char| is_space(*char)).is_some() {}
        if chars.peek().is_none() {
            return Some(args);
        }
        args.extend(next_argument(&mut chars)?);
    }
}

/// Returns the next argument; `None` if a quote stays open. The inner `None` means that only joined lines are
/// left.
fn next_argument(chars: &mut Peekable<Chars<'_>>) -> Option<Option<String>> {
    let mut arg = String::new();
    let mut is_quoted = false;
    while let Some(char) = chars.next_if(|char| !is_space(*char)) {
        match char {
            '\'' => {
                is_quoted = true;
                loop {
                    match chars.next()? {
                        '\'' => break,
                        char => arg.push(char),
                    }
                }
            }
            '"' => {
                is_quoted = true;
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => push_escaped(chars, |char| "\"\\$`".contains(char), &mut arg),
                        char => arg.push(char),
                    }
                }
            }
            '\\' => push_escaped(chars, |_| true, &mut arg),
            char => arg.push(char),
        }
    }
    Some((is_quoted || !arg.is_empty()).then_some(arg))
}

/// Appends the meaning of a backslash and the character after it.
fn push_escaped(chars: &mut Peekable<Chars<'_>>, is_special: fn(char) -> bool, arg: &mut String) {
    let joins_lines = chars.next_if_eq(&'\r').is_some() | chars.next_if_eq(&'\n').is_some();
    if joins_lines {
        return;
    }
    match chars.next_if(|char| is_special(*char)) {
        Some(char) => arg.push(char),
        None => arg.push('\\'),
    }
}
