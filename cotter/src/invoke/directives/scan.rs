//! Finds the candidates for tokens, a block of bytes at a time.
//!
//! A text has many slashes and few tokens. A slash counts only after whitespace, the start or a backslash,
//! so both bytes are checked together. A text full of paths costs little more than a text without slashes.

use crate::invoke::directives::{is_space, name_length};

/// A `/name` with valid borders on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'a str,
    /// The position of the slash.
    pub(crate) slash: usize,
    pub(crate) form: Form,
}

impl Candidate<'_> {
    /// The position after the name.
    pub(crate) fn end(&self) -> usize {
        self.slash + 1 + self.name.len()
    }
}

/// The form of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `/name`
    Token,
    /// `\/name`
    Escaped,
}

/// Calls `found` with each candidate of a text, in text order.
pub(crate) fn each_candidate<'a>(text: &'a str, mut found: impl FnMut(Candidate<'a>)) {
    let (blocks, rest) = text.as_bytes().as_chunks::<BLOCK>();
    // The start of the text counts as whitespace, and so do the zeros after its end.
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    let mut before = true;
    for (index, block) in blocks.iter().chain([&last]).enumerate() {
        if block.iter().fold(false, |any, byte| any | (*byte == b'/')) {
            each_likely(block, before, |at| {
                if let Some(candidate) = parse_candidate(text, index * BLOCK + at) {
                    found(candidate);
                }
            });
        }
        before = may_be_border(block[BLOCK - 1]);
    }
}

const BLOCK: usize = 64;

/// Calls `found` with the position of each slash that is likely to begin a candidate: a possible border is
/// before it, and another after it, before the next slash. `before` is true if a border precedes the block. A
/// slash is also likely if its name reaches the end of the block.
///
/// A block has 64 bytes, one for each bit of a word.
fn each_likely(block: &[u8; BLOCK], before: bool, mut found: impl FnMut(usize)) {
    let slashes = bits(block.map(|byte| byte == b'/'));
    let borders = bits(block.map(may_be_border));
    let others = !(slashes | borders);
    let starts = slashes & (borders << 1 | u64::from(before));
    // Adding the first byte of a name carries over its other bytes, to the byte that ends it.
    let (carried, is_cut) = others.overflowing_add(starts << 1 & others);
    let mut ends = carried & !others & borders;
    while ends != 0 {
        let till_end = ends ^ (ends - 1);
        found(last_bit(starts & till_end));
        ends &= ends - 1;
    }
    if is_cut || starts >> (BLOCK - 1) == 1 {
        found(last_bit(starts));
    }
}

/// True if a byte may be the border of a token: ASCII up to the space, every non-ASCII byte, and the
/// backslash.
fn may_be_border(byte: u8) -> bool {
    (byte.cast_signed() <= b' '.cast_signed()) | (byte == b'\\')
}

/// Packs the flags into bits, the first flag into the lowest bit.
fn bits(flags: [bool; BLOCK]) -> u64 {
    // Each of the eight bytes is 0 or 1; the product has them adjacent in its highest byte.
    const SIDE_BY_SIDE: u64 = 0x0102_0408_1020_4080;
    let bytes = flags.map(u8::from);
    bytes.as_chunks::<8>().0.iter().rev().fold(0, |bits, eight| {
        bits << 8 | u64::from_le_bytes(*eight).wrapping_mul(SIDE_BY_SIDE) >> 56
    })
}

/// The position of the highest set bit; at least one bit must be set.
fn last_bit(bits: u64) -> usize {
    bits.ilog2() as usize
}

/// Returns the candidate whose slash is at `slash`, if there is one.
fn parse_candidate(text: &str, slash: usize) -> Option<Candidate<'_>> {
    let start = slash + 1;
    let length = name_length(&text.as_bytes()[start..], |_| false);
    let end = start + length;
    if length == 0 || !is_border(text[end..].chars().next()) {
        return None;
    }
    let before = &text[..slash];
    let form = match before.strip_suffix('\\') {
        Some(before) if is_border(before.chars().next_back()) => Form::Escaped,
        None if is_border(before.chars().next_back()) => Form::Token,
        _ => return None,
    };
    Some(Candidate { name: &text[start..end], slash, form })
}

/// True if a token may be next to this character, or next to an end of the text.
fn is_border(char: Option<char>) -> bool {
    char.is_none_or(is_space)
}
