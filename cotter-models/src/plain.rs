//! Ids and names in letters and lengths that providers take. What another provider gave, or a model
//! made up, is changed the same way wherever it stands, and what was two stays two.

use std::borrow::Cow;

/// An id of a call, at most `longest` letters of it.
pub(crate) fn id(id: &str, longest: usize) -> Cow<'_, str> {
    if fits(id, longest) {
        return Cow::Borrowed(id);
    }
    let mark = format!("_{:016x}", hash(id));
    let mut short: String = id.chars().map(allowed).take(longest - mark.len()).collect();
    short.push_str(&mark);
    Cow::Owned(short)
}

/// The name of a tool, at most `longest` letters of it. A model may call what there is not.
pub(crate) fn name(name: &str, longest: usize) -> Cow<'_, str> {
    if fits(name, longest) {
        return Cow::Borrowed(name);
    }
    let plain: String = name.chars().map(allowed).take(longest).collect();
    Cow::Owned(if plain.is_empty() { "_".into() } else { plain })
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
        let cases = [
            (id("call_1", 40), "call_1"),
            (id("", 40), "_cbf29ce484222325"),
            (id("a|b", 40), "a_b_e726b11905478f76"),
            (id(&long, 40), "aaaaaaaaaaaaaaaaaaaaaaa_78f03ca8db5a7124"),
            (name("read", 64), "read"),
            (name("functions.read", 64), "functions_read"),
            (name("", 64), "_"),
            (name(&long, 8), "aaaaaaaa"),
        ];
        for (made, expected) in cases {
            assert_eq!(made, expected);
        }
        assert_ne!(id("a|b", 40), id("a:b", 40));
    }
}
