//! Notices a model that repeats itself, and says so to it; after three times without a change somebody else must look.
//!
//! A turn is the same as another when it calls the same with the same input and gets the same back: who asks a running
//! build for news does not repeat itself as long as there are any. Calls alone count too, when they are many.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Equal turns in a row that are too many.
const SAME: usize = 3;
/// Equal calls in a row that are too many, whatever comes back.
const SAME_CALLS: usize = 6;
/// Longest period that is noticed.
const LONGEST_PERIOD: usize = 3;
/// Turns that are remembered: as many as the longest pattern takes.
const REMEMBERED: usize = 9;
/// How often it is told before the run ends.
const MOST_STEERS: u32 = 3;

/// What it remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Guard {
    /// Digests of (calls, calls with results) of the last turns.
    turns: VecDeque<(u64, u64)>,
    /// Turns since it was told the last time: only among those is looked for patterns.
    fresh: usize,
    steers: u32,
}

/// What follows from a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing.
    Fine,
    /// The model is told this.
    Steer(String),
    /// It was told often enough.
    Over(String),
}

impl Guard {
    /// Looks at a turn: its words where it calls nothing, else its calls with what came of them.
    pub(super) fn look(&mut self, text: &str, trace: &[(String, String)]) -> Look {
        let calls = digest(trace.iter().map(|(call, _)| call.as_str()).chain(trace.is_empty().then_some(text)));
        let whole = trace.iter().flat_map(|(call, result)| [call.as_str(), result.as_str()]);
        let whole = digest(whole.chain(trace.is_empty().then_some(text)));
        if !self.turns.iter().any(|(_, known)| *known == whole) && !self.repeats_calls(calls) {
            self.steers = 0;
        }
        self.turns.push_back((calls, whole));
        if self.turns.len() > REMEMBERED {
            self.turns.pop_front();
        }
        self.fresh = (self.fresh + 1).min(self.turns.len());
        let Some(what) = self.finds() else { return Look::Fine };
        self.fresh = 0;
        self.steers += 1;
        if self.steers > MOST_STEERS {
            return Look::Over(format!("{what}, and being told so {MOST_STEERS} times changed nothing"));
        }
        Look::Steer(what)
    }

    fn repeats_calls(&self, calls: u64) -> bool {
        self.turns.back().is_some_and(|(known, _)| *known == calls)
    }

    fn finds(&self) -> Option<String> {
        let fresh = || self.turns.iter().skip(self.turns.len() - self.fresh);
        let wholes: Vec<u64> = fresh().map(|(_, whole)| *whole).collect();
        for period in 1..=LONGEST_PERIOD {
            // One turn three times, two turns twice and once more begun would be late: A B A B is enough.
            let times = if period == 1 { SAME } else { 2 };
            let Some(from) = wholes.len().checked_sub(period * times) else { continue };
            let last = &wholes[from..];
            if last.iter().zip(&last[period..]).all(|(one, other)| one == other) {
                return Some(match period {
                    1 => format!("the last {SAME} turns were the same, with the same result"),
                    _ => format!("the last {} turns repeat each other, with the same results", period * times),
                });
            }
        }
        let calls: Vec<u64> = fresh().map(|(calls, _)| *calls).collect();
        let from = calls.len().checked_sub(SAME_CALLS)?;
        let same = calls[from..].iter().all(|call| *call == calls[from]);
        same.then(|| format!("the last {SAME_CALLS} turns made the same call"))
    }
}

fn digest<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part.as_bytes());
    }
    let digest = sha.finalize();
    digest[..8].iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(guard: &mut Guard, call: &str, result: &str) -> Look {
        guard.look("", &[(call.to_owned(), result.to_owned())])
    }

    #[test]
    fn repetition_is_told_three_times_and_then_ends() {
        let mut guard = Guard::default();
        let mut seen = Vec::new();
        for _ in 0..12 {
            seen.push(turn(&mut guard, "Bash ls", "a"));
        }
        let steers = seen.iter().filter(|look| matches!(look, Look::Steer(_))).count();
        assert_eq!(steers, 3, "{seen:?}");
        assert!(matches!(seen.last(), Some(Look::Over(_))), "{seen:?}");
    }

    #[test]
    fn patterns_are_seen_and_news_is_none() {
        let mut guard = Guard::default();
        for (call, result) in [("A", "1"), ("B", "1"), ("A", "1")] {
            assert_eq!(turn(&mut guard, call, result), Look::Fine);
        }
        assert!(matches!(turn(&mut guard, "B", "1"), Look::Steer(_)));
        let mut polls = Guard::default();
        for round in 0..5 {
            assert_eq!(turn(&mut polls, "BashOutput", &round.to_string()), Look::Fine, "{round}");
        }
        assert!(matches!(turn(&mut polls, "BashOutput", "5"), Look::Steer(_)));
        let mut texts = Guard::default();
        for _ in 0..2 {
            assert_eq!(texts.look("I will now begin.", &[]), Look::Fine);
        }
        assert!(matches!(texts.look("I will now begin.", &[]), Look::Steer(_)));
    }

    #[test]
    fn a_change_forgives() {
        let mut guard = Guard::default();
        for round in 0..20 {
            for _ in 0..2 {
                turn(&mut guard, "A", "1");
            }
            assert!(matches!(turn(&mut guard, "A", "1"), Look::Steer(_)), "{round}");
            for new in 0..3 {
                assert_eq!(turn(&mut guard, "C", &format!("{round} {new}")), Look::Fine);
            }
        }
    }
}
