//! What boxes cost, beside bubblewrap alone.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{COLD, FAN, PAIRS, median, nanoseconds, quiet, row, timed, verdict};
use crate::command::{command, read};

/// Steps of a chain, each in a box of its own.
const CHAIN: usize = 100;
/// What a box of ours is made of, as short as it can be said.
const BWRAP: &str = "bwrap --unshare-all --unshare-user --disable-userns --cap-drop ALL --new-session --die-with-parent \
    --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev \
    --tmpfs /tmp true";

/// A repository of one file.
fn repository(place: &Path) -> Result<()> {
    fs::create_dir_all(place)?;
    fs::write(place.join("file"), "text\n")?;
    let git = "git init -q && git add . && git -c user.name=bench -c user.email=bench@example.com commit -q -m one";
    quiet(command("sh").args(["-c", git]).current_dir(place))
}

/// One step in a private copy and a box, whole process, with a base that is there.
pub(super) fn cold(program: &Path, place: &Path) -> Result<()> {
    let place = place.join("boxed-one");
    repository(&place)?;
    fs::write(place.join("one.yaml"), "name: one\nsteps:\n  one: { run: 'true' }\n")?;
    let mut took = Vec::new();
    for n in 0..=COLD {
        let mut orchestrator = command(program);
        orchestrator.args(["run", "one.yaml"]).current_dir(&place).env("ORC_DATA", place.join("data"));
        let time = timed(|| quiet(&mut orchestrator))?;
        if n > 0 {
            took.push(time);
        }
    }
    row("cold `run` of one step in a box, whole process", &mut took);
    let median = median(&took);
    verdict("cold boxed run, median", &format!("{median:.1?}"), "120 ms", median.as_millis() < 120);
    Ok(())
}

/// A thousand boxes, sixteen at a time, in turn with `xargs`; and the same with a private copy each.
pub(super) fn fan_out(program: &Path, place: &Path) -> Result<()> {
    let place = place.join("boxed-fan");
    repository(&place)?;
    let items: Vec<String> = (0..FAN).map(|n| n.to_string()).collect();
    let items = items.join(", ");
    for (file, from) in [("boxes.yaml", "none"), ("copies.yaml", "parents")] {
        let head = format!("name: fan\nworktree: {from}\nsteps:\n  all:\n    foreach: [{items}]\n");
        fs::write(place.join(file), head + "    limit: 16\n    run: 'true'\n")?;
    }
    let alone = format!("seq {FAN} | xargs -P16 -I_ {}", as_nobody()?);
    let (mut boxes, mut copies, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..PAIRS {
        let ours = |file: &str| {
            let mut orchestrator = command(program);
            orchestrator.args(["run", "--slots", "16", file]).current_dir(&place);
            timed(|| quiet(orchestrator.env("ORC_DATA", place.join(format!("{file}-{n}")))))
        };
        boxes.push(ours("boxes.yaml")?);
        copies.push(ours("copies.yaml")?);
        theirs.push(timed(|| quiet(command("sh").args(["-c", &alone])))?);
    }
    row("machine: 1,000 `bwrap true` by xargs -P16", &mut theirs);
    row("fan-out of 1,000 `run: true`, a box each", &mut boxes);
    row("the same, a private copy each", &mut copies);
    let ratio = |ours: Duration, theirs: Duration| 100 * theirs.as_micros() / ours.as_micros().max(1);
    let fastest = ratio(boxes[0], theirs[0]);
    let figure = format!("{fastest} % of the fastest, {} % of the median", ratio(median(&boxes), median(&theirs)));
    verdict("boxes, of the rate of xargs", &figure, "70 %", fastest >= 70);
    Ok(())
}

/// bubblewrap as a user that is not root, as our boxes have it.
fn as_nobody() -> Result<String> {
    Ok(if read(command("id").arg("-u"))?.trim() == "0" {
        format!("setpriv --reuid=65534 --regid=65534 --clear-groups {BWRAP}")
    } else {
        BWRAP.to_owned()
    })
}

/// From the end of a boxed step to the next one's process: the stamps of programs, less what `date` takes by itself.
pub(super) fn latency(program: &Path, place: &Path) -> Result<()> {
    let place = place.join("boxed-chain");
    repository(&place)?;
    let mut chain = "name: chain\nworktree: none\n".to_owned();
    chain += "steps:\n  s0: { run: 'echo at=$(date +%s%N) >> \"$ORC_OUTPUT\"' }\n";
    for n in 1..CHAIN {
        chain += &format!("  s{n}: {{ needs: s{}, run: 'echo at=$(date +%s%N) >> \"$ORC_OUTPUT\"' }}\n", n - 1);
    }
    fs::write(place.join("chain.yaml"), chain)?;
    let data = place.join("data");
    let mut orchestrator = command(program);
    quiet(orchestrator.args(["run", "chain.yaml"]).current_dir(&place).env("ORC_DATA", &data))?;
    let listed = read(command(program).args(["flows", "list", "-o", "json"]).env("ORC_DATA", &data))?;
    let listed: serde_json::Value = serde_json::from_str(&listed)?;
    let id = listed["flows"][0]["id"].as_str().context("there is no flow")?;
    let shown = read(command(program).args(["flows", "show", id, "-o", "json"]).env("ORC_DATA", &data))?;
    let shown: serde_json::Value = serde_json::from_str(&shown)?;
    let steps = shown["steps"].as_array().context("the flow has no steps")?;
    let mut stamps: Vec<u64> = steps.iter().filter_map(|step| step["output"]["at"].as_u64()).collect();
    ensure!(stamps.len() == CHAIN, "{} of {CHAIN} steps say when they ran", stamps.len());
    stamps.sort_unstable();
    let mut found: Vec<Duration> = stamps.windows(2).map(|two| Duration::from_nanos(two[1] - two[0])).collect();
    let began = nanoseconds()?;
    for _ in 0..20 {
        quiet(command("sh").args(["-c", "echo at=$(date +%s%N) > /dev/null"]))?;
    }
    let own = Duration::from_nanos(u64::try_from((nanoseconds()? - began) / 20).unwrap_or(u64::MAX));
    let alone = as_nobody()?;
    let mut theirs = Vec::new();
    for _ in 0..CHAIN {
        theirs.push(timed(|| quiet(command("sh").args(["-c", &alone])))?);
    }
    row("machine: `bwrap true`, one after the other", &mut theirs);
    row(&format!("{CHAIN} boxed steps in a chain, each"), &mut found);
    let at =
        |share: usize| found.get((found.len() * share / 100).min(found.len() - 1)).map(|one| one.saturating_sub(own));
    let (p50, p99) = (at(50).unwrap_or_default(), at(99).unwrap_or_default());
    let met = p99 < Duration::from_millis(40);
    verdict("ready to boxed process started", &format!("p50 {p50:.1?}, p99 {p99:.1?}"), "p99 40 ms", met);
    Ok(())
}
