//! Random numbers from a seed, the same on every machine: SplitMix64 (Steele, Lea, Flood 2014).

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to, but without, `bound`; 0 when that is 0.
    pub(crate) const fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        (self.next() % bound as u64) as usize
    }

    /// True this often in a thousand.
    pub(crate) const fn permille(&mut self, often: usize) -> bool {
        self.below(1000) < often
    }

    /// A number of milliseconds from `low` up to, but without, `high`.
    pub(crate) const fn millis(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low)
    }

    /// One of them.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let at = self.below(from.len());
        from.get(at).copied()
    }

    /// One of them, each as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, from: &[(usize, T)]) -> Option<T> {
        let mut at = self.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, value) in from {
            if at < *weight {
                return Some(*value);
            }
            at -= weight;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_fixed() {
        let mut dice = Dice::of(0);
        // The first values of the published reference for seed 0.
        assert_eq!(dice.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(dice.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn weights_are_kept() {
        let mut dice = Dice::of(7);
        let rare = (0..10_000).filter(|_| dice.weighted(&[(9, false), (1, true)]) == Some(true)).count();
        assert!((800..1200).contains(&rare), "{rare}");
    }
}
