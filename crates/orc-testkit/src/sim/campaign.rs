//! Many seeds: kept ones first, then a range, on several threads, bounded in number and time.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use orc_domain::transition::Transition;

use super::{Fault, Faults, Settings, Simulation, Violation, simulate};

/// Seeds that once broke an invariant, with what they found.
const KEPT: &str = include_str!("../../seeds.txt");

/// How far a campaign goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The first seed after the kept ones.
    pub from: u64,
    /// How many seeds after the kept ones.
    pub seeds: u64,
    /// How many simulations at a time.
    pub threads: NonZeroUsize,
}

/// What a campaign came to.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    /// Seeds that were simulated, kept ones included.
    pub seeds: u64,
    /// Steps of all simulations.
    pub steps: u64,
    /// Commits of all simulations.
    pub commits: u64,
    /// Flows of all simulations.
    pub flows: u64,
    /// Faults that took place, by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Transitions that were taken.
    pub taken: BTreeSet<Transition>,
    /// Seeds that broke an invariant, in order of seed.
    pub failures: Vec<Failure>,
}

/// A seed that broke an invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What it broke.
    pub violation: Violation,
}

/// The seeds of `seeds.txt`. A line is a number and, after `#`, what it found.
#[must_use]
pub fn kept_seeds() -> Vec<u64> {
    let numbers = KEPT.lines().filter_map(|line| line.split('#').next());
    numbers.filter_map(|number| number.trim().parse().ok()).collect()
}

/// Transitions that a campaign never took.
#[must_use]
pub fn missing_transitions(taken: &BTreeSet<Transition>) -> Vec<Transition> {
    let all = Transition::ALL.iter().copied();
    all.filter(|transition| !taken.contains(transition)).collect()
}

/// Simulates the kept seeds and a range of others. `go_on` is asked before each seed with the number of seeds done; it
/// ends the campaign by answering false.
#[must_use]
pub fn run_campaign(bounds: Bounds, settings: &Settings, go_on: &(dyn Fn(u64) -> bool + Sync)) -> Campaign {
    let kept = kept_seeds();
    let next = AtomicU64::new(0);
    let total = kept.len() as u64 + bounds.seeds;
    let campaign = Mutex::new(Campaign::default());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= total || !go_on(at) {
                return;
            }
            let index = usize::try_from(at).unwrap_or(usize::MAX);
            let seed = kept.get(index).copied().unwrap_or_else(|| bounds.from + (at - kept.len() as u64));
            let simulation = simulate(seed, settings);
            campaign.lock().unwrap_or_else(PoisonError::into_inner).add(simulation);
        }
    };
    std::thread::scope(|scope| {
        for number in 1..bounds.threads.get() {
            let thread = std::thread::Builder::new().name(format!("sim-{number}"));
            // Without a second thread the first does all the work.
            drop(thread.spawn_scoped(scope, work));
        }
        work();
    });
    let mut campaign = campaign.into_inner().unwrap_or_else(PoisonError::into_inner);
    campaign.failures.sort_by_key(|failure| failure.seed);
    campaign
}

impl Campaign {
    fn add(&mut self, simulation: Simulation) {
        self.seeds += 1;
        self.steps += simulation.steps;
        self.commits += simulation.commits;
        self.flows += simulation.flows;
        for (fault, count) in simulation.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        self.taken.extend(simulation.taken);
        if let Some(violation) = simulation.violation {
            let seed = simulation.seed;
            self.failures.push(Failure { seed, violation });
        }
    }
}

/// The fewest kinds of faults with which the seed still breaks the same rule.
#[must_use]
pub fn shrink(seed: u64, settings: &Settings) -> Faults {
    let rule = |faults: Faults| {
        let settings = Settings { faults, ..*settings };
        simulate(seed, &settings).violation.map(|violation| violation.rule)
    };
    let wanted = rule(settings.faults);
    let mut faults = settings.faults;
    for fault in Fault::ALL {
        let fewer = faults.without(fault);
        if faults.has(fault) && rule(fewer) == wanted {
            faults = fewer;
        }
    }
    faults
}
