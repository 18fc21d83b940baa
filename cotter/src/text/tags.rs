//! The runtime's own tags in text for the model. Foreign text can neither open nor close such a block.
//!
//! A model recognizes a tag in any spelling, so case, whitespace and hidden characters are ignored.

use crate::text::is_hidden;

/// The tag name of the blocks that deliver notes to the model.
pub(crate) const NOTE_TAG: &str = "system-reminder";

/// Escapes the tags of note blocks.
pub(crate) fn escape(text: &str) -> String {
    escape_tags_of(text, NOTE_TAG)
}

/// Escapes the tags of one name: the `<` of every opening and closing tag becomes `&lt;`.
pub fn escape_tags_of(text: &str, name: &str) -> String {
    escape_where(text, |rest| is_tag(rest, name) || is_closing_tag(rest, name))
}

/// Escapes the closing tags of one name, for text inside a block of that name.
pub(crate) fn escape_closing_tags_of(text: &str, name: &str) -> String {
    escape_where(text, |rest| is_closing_tag(rest, name))
}

/// Escapes each `<` for which `is_tag` holds for the text after it.
fn escape_where(text: &str, is_tag: impl Fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        out.push_str(if is_tag(after) { "&lt;" } else { "<" });
        rest = after;
    }
    out.push_str(rest);
    out
}

fn is_tag(after: &str, name: &str) -> bool {
    begins_with(after, name.chars())
}

fn is_closing_tag(after: &str, name: &str) -> bool {
    begins_with(after, std::iter::once('/').chain(name.chars()))
}

/// True if the visible characters of a text begin with `wanted`. Case is ignored.
fn begins_with(text: &str, mut wanted: impl Iterator<Item = char>) -> bool {
    let mut visible = text.chars().filter(|c| !c.is_whitespace() && !is_hidden(*c));
    wanted.all(|wanted| visible.next().is_some_and(|c| c.eq_ignore_ascii_case(&wanted)))
}
