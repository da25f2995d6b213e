//! Whether output goes in circles: the same line, or the same few lines in turn, over and over.
//!
//! A program cannot be told to try something else, so the limit is high: an honest one may say `waiting ...` for a while.
//! Blank lines, progress (of a tool too) and usage do not count.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Longest circle that is noticed, in lines.
const MAX_PERIOD: usize = 4;
/// This often in a row is a loop.
pub(crate) const MAX_REPEATS: u32 = 100;

/// Watches one stream.
#[derive(Debug, Default)]
pub(crate) struct Looping {
    /// The last lines, newest last.
    last: [u64; MAX_PERIOD],
    /// How many of the last lines were what stood `period` lines before, by `period - 1`.
    same: [u32; MAX_PERIOD],
    seen: usize,
}

impl Looping {
    /// Takes a line; returns how often the end of the output now says the same.
    pub(crate) fn push(&mut self, line: &[u8]) -> u32 {
        // The same keys every time: the same output gives the same answer.
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        let hash = hasher.finish();
        let mut repeats = 1;
        for period in 1..=MAX_PERIOD {
            let same = &mut self.same[period - 1];
            let is_same = self.seen >= period && self.last[MAX_PERIOD - period] == hash;
            *same = if is_same { same.saturating_add(1) } else { 0 };
            repeats = repeats.max(1 + *same / u32::try_from(period).unwrap_or(u32::MAX));
        }
        self.last.rotate_left(1);
        self.last[MAX_PERIOD - 1] = hash;
        self.seen = self.seen.saturating_add(1);
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(lines: impl IntoIterator<Item = String>) -> u32 {
        let mut looping = Looping::default();
        lines.into_iter().map(|line| looping.push(line.as_bytes())).last().unwrap()
    }

    #[test]
    fn circles_of_every_size_are_counted() {
        for period in 1..=MAX_PERIOD {
            let circle = (0..period * 7).map(|line| format!("line {}", line % period));
            assert_eq!(repeats(circle), 7, "period {period}");
        }
        assert_eq!(repeats((0..500).map(|line| format!("line {line}"))), 1);
        assert_eq!(repeats((0..500).map(|line| format!("line {}", line % (MAX_PERIOD + 1)))), 1);
    }

    #[test]
    fn anything_else_begins_anew() {
        let lines = ["a"; 50].into_iter().chain(["b"]).chain(["a"; 3]).map(str::to_owned);
        assert_eq!(repeats(lines), 3);
        assert_eq!(repeats(["a".to_owned()]), 1);
    }
}
