//! `cargo xtask bench`: how fast it is, as a table, beside what the machine itself can do.
//!
//! Whole processes are timed, each several times; a ratio compares two things that were measured in turn in the same run,
//! so that a busy machine slows both. Nothing here fails because something is slow: it prints figures, targets and whether
//! they are met. `flows` has what needs a holder, `holder` how one is asked.

mod agents;
mod boxes;
mod copies;
mod flows;
mod holder;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command::{self, command, read, run};

/// Cold runs of one step.
const COLD: usize = 20;
/// Pairs of fan-outs, ours and that of `xargs`.
const PAIRS: usize = 5;
/// Steps of a fan-out.
const FAN: usize = 1_000;

const ONE: &str = "name: one\nworktree: in_place\nsteps:\n  one: { run: 'true' }\n";

/// What can be measured, by name.
type Row = (&'static str, fn(&Path, &Path) -> Result<()>);
const ROWS: [Row; 15] = [
    ("machine", |_, place| machine(place)),
    ("cold", cold),
    ("fan-out", fan_out),
    ("boxed-cold", boxes::cold),
    ("boxed-fan-out", boxes::fan_out),
    ("boxed-latency", boxes::latency),
    ("worktrees", |_, place| copies::worktrees(place)),
    ("latency", flows::latency),
    ("expansion", flows::expansion),
    ("answer", flows::answer),
    ("waiting", flows::waiting),
    ("million", flows::million),
    ("store", |_, _| store()),
    ("gateway", |_, _| gateway()),
    ("harness", agents::harness),
];

/// Measures what is named, or everything, and prints the table. Nothing is removed before the end: for a minute after many
/// files were removed, ext4 looks for a place for each new one forty times as long, and that is what would be measured.
pub(crate) fn bench(named: &[String]) -> Result<()> {
    let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = named.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("`{unknown}` is no measurement; there are {}", names.join(", "));
    }
    run(command("cargo").args(["build", "--release", "--quiet", "--package", "orc-cli"]))?;
    let program = command::target()?.join("release/orchestrator");
    let place = tempfile::tempdir()?;
    println!("load of the machine: {}", fs::read_to_string("/proc/loadavg")?.trim());
    println!("{:<52} {:>12} {:>12} {:>12}", "what", "min", "median", "max");
    for (name, measure) in ROWS {
        if named.is_empty() || named.iter().any(|one| one == name) {
            measure(&program, place.path()).with_context(|| format!("cannot measure `{name}`"))?;
        }
    }
    Ok(())
}

fn store() -> Result<()> {
    println!("store, in one process (a transition is a step that ends and the next that starts, three commits):");
    let example = ["run", "--release", "--quiet", "--package", "orc-store-sqlite", "--example", "transitions"];
    for line in read(command("cargo").args(example))?.lines() {
        println!("  {line}");
    }
    println!("  targets: under 0.3 ms for each commit, 5,000 commits a second with 32 flows");
    Ok(())
}

fn gateway() -> Result<()> {
    println!("model gateway, with the relay of a box, programs and provider on the same machine:");
    let example = ["run", "--release", "--quiet", "--package", "orc-cli", "--example", "overhead"];
    for line in read(command("cargo").args(example))?.lines() {
        println!("  {line}");
    }
    println!(
        "  targets: added to a first byte p50 1 ms, p99 3 ms; to a whole call 2 ms; no piece of a stream later than 100 ms"
    );
    Ok(())
}

/// A list of a thousand elements, written out so that nothing but the fan-out is measured.
fn fan() -> String {
    let items: Vec<String> = (0..FAN).map(|n| n.to_string()).collect();
    let items = items.join(", ");
    format!("name: fan\nworktree: in_place\nsteps:\n  all:\n    foreach: [{items}]\n    limit: 16\n    run: 'true'\n")
}

/// What the machine can do without us.
fn machine(place: &Path) -> Result<()> {
    let mut spawned = Vec::new();
    for _ in 0..COLD {
        spawned.push(timed(|| quiet(command("sh").args(["-c", "true"])))?);
    }
    row("machine: `sh -c true`, one process", &mut spawned);
    let mut synced = Vec::new();
    let mut file = fs::File::create(place.join("sync"))?;
    for _ in 0..50 {
        synced.push(timed(|| {
            file.write_all(&[0; 4096])?;
            Ok(file.sync_data()?)
        })?);
    }
    row("machine: write and sync 4 KiB", &mut synced);
    Ok(())
}

/// One step, whole process, empty data directory.
fn cold(program: &Path, place: &Path) -> Result<()> {
    fs::write(place.join("one.yaml"), ONE)?;
    let mut took = Vec::new();
    for n in 0..COLD {
        let data = place.join(format!("cold-{n}"));
        let mut orchestrator = command(program);
        orchestrator.arg("run").arg(place.join("one.yaml")).env("ORC_DATA", &data);
        took.push(timed(|| quiet(&mut orchestrator))?);
    }
    row("cold `run` of one step, whole process", &mut took);
    let median = median(&took);
    verdict("cold run, median", &format!("{median:.1?}"), "50 ms", median.as_millis() < 50);
    Ok(())
}

/// A thousand steps, sixteen at a time, in turn with `xargs`.
fn fan_out(program: &Path, place: &Path) -> Result<()> {
    fs::write(place.join("fan.yaml"), fan())?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for n in 0..PAIRS {
        let data = place.join(format!("fan-{n}"));
        let mut orchestrator = command(program);
        orchestrator.args(["run", "--slots", "16"]).arg(place.join("fan.yaml")).env("ORC_DATA", &data);
        ours.push(timed(|| quiet(&mut orchestrator))?);
        let mut xargs = command("sh");
        xargs.args(["-c", &format!("seq {FAN} | xargs -P16 -I_ sh -c true")]);
        theirs.push(timed(|| quiet(&mut xargs))?);
    }
    row("machine: 1,000 `sh -c true` by xargs -P16", &mut theirs);
    row("fan-out of 1,000 `run: true`, 16 at a time", &mut ours);
    let ratio = |ours: Duration, theirs: Duration| 100 * theirs.as_micros() / ours.as_micros().max(1);
    let (fastest, middle) = (ratio(ours[0], theirs[0]), ratio(median(&ours), median(&theirs)));
    let figure = format!("{fastest} % of the fastest, {middle} % of the median");
    verdict("fan-out, of the rate of xargs", &figure, "80 %", fastest >= 80);
    Ok(())
}

fn quiet(program: &mut std::process::Command) -> Result<()> {
    let output = program.stdin(Stdio::null()).output().context("cannot start the program to measure")?;
    if !output.status.success() {
        bail!("{program:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "measuring is what this module is for")]
fn timed(action: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let began = std::time::Instant::now();
    action()?;
    Ok(began.elapsed())
}

/// Of sorted figures.
fn median(figures: &[Duration]) -> Duration {
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn row(what: &str, figures: &mut [Duration]) {
    figures.sort_unstable();
    let text = |figure: Option<&Duration>| figure.map_or_else(String::new, |figure| format!("{figure:.1?}"));
    let (min, max) = (text(figures.first()), text(figures.last()));
    println!("{what:<52} {min:>12} {:>12} {max:>12}", format!("{:.1?}", median(figures)));
}

/// A figure beside what it should be.
fn verdict(what: &str, figure: &str, target: &str, met: bool) {
    println!("  => {what}: {figure}; target {target}: {}", if met { "met" } else { "NOT MET" });
}

/// What `date +%s%N` prints.
#[expect(clippy::disallowed_methods, reason = "measuring is what this module is for")]
fn nanoseconds() -> Result<u128> {
    Ok(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos())
}
