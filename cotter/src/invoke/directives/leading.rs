//! What a text begins with: a command, or the name of whom it is for.

use std::{iter::Peekable, str::Chars};

use crate::invoke::directives::{is_space, name_length};

/// The command a text begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadingCommand<'a> {
    /// The name, without the slash.
    pub name: &'a str,
    /// What follows the name, without whitespace at its ends.
    pub args_raw: &'a str,
}

/// The command a text begins with, if it does; whether there is such a command is the caller's to know.
///
/// Whitespace may stand before the slash. The name is an ASCII letter followed by ASCII letters, digits, `_`,
/// `:` and `-`; any whitespace ends it, a line break too.
pub fn leading_command(text: &str) -> Option<LeadingCommand<'_>> {
    let (name, args_raw) = leading(text, '/', |byte| byte == b':')?;
    Some(LeadingCommand { name, args_raw })
}

/// The `@name` a text begins with and the rest, without whitespace at its ends.
///
/// Whitespace may stand before the `@`. Names are those of tokens, and any whitespace ends them.
pub fn leading_mention(text: &str) -> Option<(&str, &str)> {
    leading(text, '@', |_| false)
}

/// The arguments of a command, taken apart as a shell does.
///
/// Whitespace parts them. Between single quotes all is literal. A backslash takes the next character as it
/// is; between double quotes it does so only before `"`, `\`, `$` and a backtick, and is literal elsewhere. A
/// backslash at the end of a line joins it with the next; at the very end it is literal. Nothing is expanded and
/// `#` begins no comment. Where a quote stays open, quotes and backslashes mean nothing and whitespace parts:
/// `it's late` has two arguments.
pub fn split_args(raw: &str) -> Vec<String> {
    let by_whitespace = || raw.split(is_space).filter(|arg| !arg.is_empty()).map(Into::into);
    split_quoted(raw).unwrap_or_else(|| by_whitespace().collect())
}

fn leading(text: &str, mark: char, also: impl Fn(u8) -> bool) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(is_space).strip_prefix(mark)?;
    let (name, rest) = text.split_at(name_length(text.as_bytes(), also));
    let ended = rest.is_empty() || rest.starts_with(is_space);
    (!name.is_empty() && ended).then(|| (name, rest.trim_matches(is_space)))
}

/// The arguments, or nothing where a quote stays open.
fn split_quoted(raw: &str) -> Option<Vec<String>> {
    let mut args = vec![];
    let mut chars = raw.chars().peekable();
    loop {
        while chars.next_if(|char| is_space(*char)).is_some() {}
        if chars.peek().is_none() {
            return Some(args);
        }
        args.extend(argument(&mut chars)?);
    }
}

/// The next argument. There is none where only joined lines are left.
fn argument(chars: &mut Peekable<Chars<'_>>) -> Option<Option<String>> {
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
                        '\\' => escaped(chars, |char| "\"\\$`".contains(char), &mut arg),
                        char => arg.push(char),
                    }
                }
            }
            '\\' => escaped(chars, |_| true, &mut arg),
            char => arg.push(char),
        }
    }
    Some((is_quoted || !arg.is_empty()).then_some(arg))
}

/// What a backslash and the character after it say.
fn escaped(chars: &mut Peekable<Chars<'_>>, is_special: fn(char) -> bool, arg: &mut String) {
    let joins_lines = chars.next_if_eq(&'\r').is_some() | chars.next_if_eq(&'\n').is_some();
    if joins_lines {
        return;
    }
    match chars.next_if(|char| is_special(*char)) {
        Some(char) => arg.push(char),
        None => arg.push('\\'),
    }
}
