//! tags

use crate::{hooks::notes::OPEN, text};

/// Text that cannot open or close a block: what tools and people say stays outside of it. A model
/// reads a tag however it is spelled, so case, blanks and hidden characters make no difference.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        out.push_str(if is_tag(&tag[1..]) { "&lt;" } else { "<" });
        rest = &tag[1..];
    }
    out.push_str(rest);
    out
}

/// Whether what follows a `<` is our tag's name, or its end's.
pub(crate) fn is_tag(text: &str) -> bool {
    let said = |c: &char| !c.is_whitespace() && !text::is_hidden(*c);
    let mut letters = text.chars().filter(said).peekable();
    letters.next_if_eq(&'/');
    let name = OPEN.trim_matches(['<', '>']).chars();
    name.zip(letters.by_ref().map(Some).chain(std::iter::repeat(None)))
        .all(|(wanted, found)| found.is_some_and(|c| c.eq_ignore_ascii_case(&wanted)))
}
