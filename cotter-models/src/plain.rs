//! Call ids and tool names in the characters and lengths that providers take. A value that does not
//! fit is changed in the same way everywhere, and two different values stay different.

use std::borrow::Cow;

use cotter::{ToolSpec, model::tools::ToolList};
use smol_str::SmolStr;

/// The longest tool name that all providers take.
const LONGEST_NAME: usize = 64;

/// A call id in at most `longest` allowed characters.
pub(crate) fn id(id: &str, longest: usize) -> Cow<'_, str> {
    match fits(id, longest) {
        true => Cow::Borrowed(id),
        false => Cow::Owned(with_suffix(id, longest, &format!("_{:016x}", hash(id)))),
    }
}

/// A tool name in allowed characters. Our names may have dots, and a model may invent names.
pub(crate) fn name(name: &str) -> Cow<'_, str> {
    match fits(name, LONGEST_NAME) {
        true => Cow::Borrowed(name),
        false => {
            let suffix = format!("_{:08x}", hash(name) & 0xffff_ffff);
            Cow::Owned(with_suffix(name, LONGEST_NAME, &suffix))
        }
    }
}

/// The tool's own name, if the request showed it under a changed name.
pub(crate) fn own_name(name: SmolStr, tools: &ToolList) -> SmolStr {
    let is_alias = |spec: &&ToolSpec| spec.name != name && self::name(&spec.name) == name.as_str();
    match tools.specs().find(is_alias) {
        Some(spec) => spec.name.clone(),
        None => name,
    }
}

/// True for a blank text. Blank texts are left out, since some providers refuse them.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn with_suffix(text: &str, longest: usize, suffix: &str) -> String {
    text.chars().map(to_allowed).take(longest - suffix.len()).chain(suffix.chars()).collect()
}

fn fits(text: &str, longest: usize) -> bool {
    !text.is_empty() && text.len() <= longest && text.chars().all(|char| char == to_allowed(char))
}

/// The character, or `_` if it is not allowed.
fn to_allowed(char: char) -> char {
    let is_allowed = char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if is_allowed { char } else { '_' }
}

/// FNV-1a. It must be the same in every build: a resumed session sends the same ids again.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::{id, name};

    #[test]
    fn long_or_odd_ids_and_names_get_a_hash() {
        let long = "a".repeat(41);
        let long_name = "a".repeat(65);
        let cases = [
            (id("call_1", 40), "call_1"),
            (id("", 40), "_cbf29ce484222325"),
            (id("a|b", 40), "a_b_e726b11905478f76"),
            (id(&long, 40), "aaaaaaaaaaaaaaaaaaaaaaa_78f03ca8db5a7124"),
            (name("read"), "read"),
            (name("functions.read"), "functions_read_8f4a7af4"),
            (name(""), "_84222325"),
            (
                name(&long_name),
                concat!("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "_89f8a14c"),
            ),
        ];
        for (made, expected) in cases {
            assert_eq!(made, expected);
        }
        assert_ne!(id("a|b", 40), id("a:b", 40));
    }
}
