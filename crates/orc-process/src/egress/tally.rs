//! What a proxy refused: each host once, with how often. A box that tries many hosts makes it no longer.

use std::collections::BTreeMap;

use orc_domain::confine::network::{Refusal, Target};
use orc_domain::confine::{Violation, ViolationKind};

/// Different refusals that are told apart.
const KINDS: usize = 50;
/// Characters of one, as [`Violation::what`] promises.
const CHARS: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: BTreeMap<String, u32>,
    /// Those beyond [`KINDS`].
    others: u32,
}

impl Tally {
    pub(super) fn count(&mut self, target: &Target, refusal: &Refusal) {
        let reason = format!(" ({})", refusal.reason());
        let room = CHARS.saturating_sub(reason.chars().count());
        // The end of a long name is what its owner is known by.
        let name = target.to_string();
        let skipped = name.chars().count().saturating_sub(room);
        let shown: String = name.chars().skip(skipped).collect();
        let what = shown + &reason;
        if self.counts.len() < KINDS || self.counts.contains_key(&what) {
            let count = self.counts.entry(what).or_default();
            *count = count.saturating_add(1);
        } else {
            self.others = self.others.saturating_add(1);
        }
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        let others = (self.others > 0).then(|| ("other hosts".to_owned(), self.others));
        let counts = self.counts.iter().map(|(what, count)| (what.clone(), *count));
        counts.chain(others).map(|(what, count)| Violation { kind: ViolationKind::Network, what, count }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        Target::parse(text, None).unwrap()
    }

    #[test]
    fn a_refusal_is_counted_once_and_many_are_bounded() {
        let mut tally = Tally::default();
        for _ in 0..3 {
            tally.count(&target("example.com:443"), &Refusal::NotListed);
        }
        for number in 0..200 {
            tally.count(&target(&format!("h{number}.example.com:443")), &Refusal::NotListed);
        }
        let violations = tally.violations();
        assert_eq!(violations.len(), KINDS + 1);
        assert_eq!(violations[0].what, "example.com:443 (no entry of `network` names it)");
        assert_eq!(violations[0].count, 3);
        let last = violations.last().unwrap();
        assert_eq!((last.what.as_str(), last.count), ("other hosts", 200 - (KINDS as u32 - 1)));
    }

    #[test]
    fn a_long_name_keeps_its_end_and_the_reason() {
        let mut tally = Tally::default();
        let long = format!("{}.example.com:443", vec!["a".repeat(60); 3].join("."));
        tally.count(&target(&long), &Refusal::NotListed);
        let what = &tally.violations()[0].what;
        assert_eq!(what.chars().count(), CHARS);
        assert!(what.ends_with(".example.com:443 (no entry of `network` names it)"), "{what}");
    }
}
