//! The driver of the simulator: many seeds on all cores, or one with its trace.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::Args;
use orc_testkit::sim::{
    Bounds, Campaign, Fault, Faults, Settings, kept_seeds, missing_transitions, run_campaign, shrink, simulate,
};

/// From so many seeds on, every transition must have been taken.
const ENOUGH: u64 = 2_000;
/// Lines of a trace that are shown of a seed that fails, and failing seeds that are listed.
const SHOWN: usize = 40;
/// Between two lines that say how far it is.
const PROGRESS: Duration = Duration::from_secs(5);

/// What `sim` takes.
#[derive(Args)]
pub(crate) struct SimArgs {
    /// Simulate so many seeds after the kept ones.
    #[arg(long, default_value_t = ENOUGH)]
    seeds: u64,
    /// Begin no further seed after so many seconds.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// The first of these seeds.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Simulate this seed only.
    #[arg(long, conflicts_with_all = ["seeds", "seconds", "from"])]
    seed: Option<u64>,
    /// Print what happens, line by line.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Kinds of faults that do not happen.
    #[arg(long, value_delimiter = ',', value_parser = parse_fault)]
    without: Vec<Fault>,
}

fn parse_fault(name: &str) -> Result<Fault, String> {
    let names = Fault::ALL.map(Fault::name).join(", ");
    Fault::parse(name).ok_or_else(|| format!("there are: {names}"))
}

pub(crate) fn run(args: &SimArgs) -> anyhow::Result<()> {
    let faults = args.without.iter().fold(Faults::ALL, |faults, fault| faults.without(*fault));
    let settings = Settings { faults, trace: args.trace, ..Settings::default() };
    match args.seed {
        Some(seed) => run_one(seed, &settings),
        None => run_many(args, &settings),
    }
}

fn run_one(seed: u64, settings: &Settings) -> anyhow::Result<()> {
    let simulation = simulate(seed, settings);
    for line in &simulation.trace {
        println!("{line}");
    }
    println!("{simulation}");
    ensure!(simulation.violation.is_none(), "seed {seed} breaks an invariant");
    Ok(())
}

fn run_many(args: &SimArgs, settings: &Settings) -> anyhow::Result<()> {
    let bounds = Bounds {
        from: args.from,
        seeds: args.seeds,
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    };
    let begun = now();
    let end = begun + Duration::from_secs(args.seconds);
    let told = Mutex::new(begun);
    let go_on = |done: u64| {
        let at = now();
        if let Ok(mut told) = told.try_lock()
            && at.duration_since(*told) >= PROGRESS
        {
            *told = at;
            eprintln!("{done} seeds in {} s", at.duration_since(begun).as_secs());
        }
        at < end
    };
    let campaign = run_campaign(bounds, settings, &go_on);
    print_summary(&campaign, now().duration_since(begun));
    for failure in campaign.failures.iter().take(SHOWN) {
        println!("  seed {}: {}", failure.seed, failure.violation);
    }
    for failure in campaign.failures.iter().take(3) {
        print_failure(failure.seed, settings);
    }
    let missing = missing_transitions(&campaign.taken);
    if !missing.is_empty() {
        println!("never taken: {missing:?}");
    }
    let failed = campaign.failures.len();
    ensure!(failed == 0, "{failed} of {} seeds break an invariant", campaign.seeds);
    if campaign.seeds >= ENOUGH && !missing.is_empty() {
        bail!("{} transitions were never taken in {} seeds", missing.len(), campaign.seeds);
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a campaign is bounded by real time; no simulation sees it")]
fn now() -> Instant {
    Instant::now()
}

fn print_summary(campaign: &Campaign, took: Duration) {
    let Campaign { seeds, steps, commits, flows, .. } = campaign;
    let all = orc_domain::transition::Transition::ALL.len();
    println!("{seeds} seeds ({} kept) in {} s", kept_seeds().len(), took.as_secs());
    println!("{flows} flows, {steps} steps, {commits} commits");
    let faults: Vec<String> = campaign.faults.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
    println!("faults: {}", faults.join(", "));
    println!("transitions: {} of {all} taken", campaign.taken.len());
    println!("violations: {}", campaign.failures.len());
}

/// A failing seed with as few kinds of faults as still break the same rule, and the command that shows it.
fn print_failure(seed: u64, settings: &Settings) {
    let faults = shrink(seed, settings);
    let traced = Settings { faults, trace: true, ..*settings };
    let simulation = simulate(seed, &traced);
    println!("\n{simulation}");
    let from = simulation.trace.len().saturating_sub(SHOWN);
    for line in &simulation.trace[from..] {
        println!("{line}");
    }
    let without: Vec<&str> = faults.missing().map(Fault::name).collect();
    let without = if without.is_empty() { String::new() } else { format!(" --without {}", without.join(",")) };
    println!("cargo xtask sim --seed {seed} --trace{without}");
}
