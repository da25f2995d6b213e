//! The simulator run as a test: the kept seeds, some more, and the proof that it finds mistakes.

use std::num::NonZeroUsize;

use orc_testkit::sim::{Bounds, Sabotage, Settings, kept_seeds, missing_transitions, run_campaign, shrink, simulate};

/// Enough to take every transition; `cargo xtask sim` goes further.
const SEEDS: u64 = 1_000;

fn bounds(seeds: u64) -> Bounds {
    Bounds { from: 0, seeds, threads: NonZeroUsize::MIN.saturating_add(1) }
}

#[test]
fn no_seed_breaks_an_invariant_and_together_they_take_every_transition() {
    let settings = Settings::default();
    let campaign = run_campaign(bounds(SEEDS), &settings, &|_| true);
    if let Some(failure) = campaign.failures.first() {
        let faults = shrink(failure.seed, &settings);
        let traced = Settings { faults, trace: true, ..settings };
        let trace = simulate(failure.seed, &traced).trace;
        let last = trace.iter().rev().take(40).rev().cloned().collect::<Vec<_>>().join("\n");
        let without: Vec<_> = faults.missing().map(|fault| fault.name()).collect();
        panic!(
            "{} of {} seeds fail; seed {}: {}\nwithout {without:?}:\n{last}",
            campaign.failures.len(),
            campaign.seeds,
            failure.seed,
            failure.violation
        );
    }
    assert_eq!(campaign.seeds, SEEDS + kept_seeds().len() as u64);
    assert_eq!(missing_transitions(&campaign.taken), []);
}

#[test]
fn a_seed_gives_the_same_simulation_every_time() {
    let settings = Settings { trace: true, ..Settings::default() };
    let mut lines = 0;
    for seed in 0..20 {
        let (one, two) = (simulate(seed, &settings), simulate(seed, &settings));
        assert_eq!(one.trace, two.trace, "seed {seed}");
        lines += one.trace.len();
    }
    assert!(lines > 1_000, "{lines}");
}

#[test]
fn every_mistake_is_found_and_named() {
    for (sabotage, rules) in Sabotage::ALL {
        let settings = Settings { sabotage, ..Settings::default() };
        let found = (0..200).find_map(|seed| simulate(seed, &settings).violation.map(|violation| (seed, violation)));
        let (seed, violation) = found.unwrap_or_else(|| panic!("{sabotage:?} was not found"));
        assert!(rules.contains(&violation.rule), "seed {seed}: {sabotage:?} was taken for {violation}");
    }
}
