//! Ids and names in letters and lengths that providers take. What another provider gave, or a model
//! made up, is changed the same way wherever it stands, and what was two stays two.

use std::borrow::Cow;

use cotter::{ToolSpec, model::tools::ToolList};
use smol_str::SmolStr;

/// The longest name of a tool that all of them take.
const LONGEST_NAME: usize = 64;

/// An id of a call, at most `longest` letters of it.
pub(crate) fn id(id: &str, longest: usize) -> Cow<'_, str> {
    match fits(id, longest) {
        true => Cow::Borrowed(id),
        false => Cow::Owned(marked(id, longest, &format!("_{:016x}", hash(id)))),
    }
}

/// The name of a tool. A model may call what there is not, and ours may have dots.
pub(crate) fn name(name: &str) -> Cow<'_, str> {
    match fits(name, LONGEST_NAME) {
        true => Cow::Borrowed(name),
        false => {
            let mark = format!("_{:08x}", hash(name) & 0xffff_ffff);
            Cow::Owned(marked(name, LONGEST_NAME, &mark))
        }
    }
}

/// The tool of that name: what a request showed under another name has its own again.
pub(crate) fn own_name(name: SmolStr, tools: &ToolList) -> SmolStr {
    let shown = |spec: &&ToolSpec| spec.name != name && self::name(&spec.name) == name.as_str();
    match tools.specs().find(shown) {
        Some(spec) => spec.name.clone(),
        None => name,
    }
}

/// Whether a text says nothing: such are left out, since some providers refuse them.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn marked(text: &str, longest: usize, mark: &str) -> String {
    text.chars().map(allowed).take(longest - mark.len()).chain(mark.chars()).collect()
}

fn fits(text: &str, longest: usize) -> bool {
    !text.is_empty() && text.len() <= longest && text.chars().all(|char| char == allowed(char))
}

/// The letter, or what stands for it where only few may be used.
fn allowed(char: char) -> char {
    let is_allowed = char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if is_allowed { char } else { '_' }
}

/// FNV-1a: the same in every build, because what is made of it is sent again by whoever resumes.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::{id, name};

    #[test]
    fn what_fits_stays_and_what_does_not_is_made_to() {
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
