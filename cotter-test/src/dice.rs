//! Random numbers that repeat.

/// A pseudo-random number generator: equal seeds give equal numbers.
pub struct Dice(u64);

impl Dice {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// The next number, below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }
}
