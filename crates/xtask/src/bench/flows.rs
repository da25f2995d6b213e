//! What flows cost: from one step to the next, a list that becomes steps, an answer, ten thousand that wait, a crash.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use orc_domain::time::Timestamp;
use serde_json::{Value, json};

use super::holder::{Definition, Holder, until};
use super::{nanoseconds, quiet, row, timed, verdict};
use crate::command::{command, read};

/// Steps of a chain.
const CHAIN: usize = 400;
/// Elements of a list.
const ELEMENTS: usize = 1_000;
/// Flows that wait.
const WAITING: usize = 10_000;
/// Runs that live when the holder is killed.
const LIVE: usize = 16;
/// Looks at a store with a million runs.
const LOOKS: usize = 20;

/// What each link of a chain does: `date` is a process of its own, by xargs as well.
const STAMP: &str = "date +%s%N >> stamps";

/// From the end of a step to the next one's process: what programs print of their clock, less what the same programs take
/// when `xargs` starts one after the other. So a bit of exit, decision, commit and spawn is in it, and nothing else.
pub(super) fn latency(program: &Path, place: &Path) -> Result<()> {
    let mut chain = "name: chain\nworktree: in_place\nsteps:\n  s0: { run: 'STAMP' }\n".to_owned();
    for n in 1..CHAIN {
        chain += &format!("  s{n}: {{ needs: s{}, run: 'STAMP' }}\n", n - 1);
    }
    let (ours, theirs) = (place.join("chain"), place.join("chain-xargs"));
    fs::create_dir_all(&ours)?;
    fs::create_dir_all(&theirs)?;
    fs::write(ours.join("chain.yaml"), chain.replace("STAMP", STAMP))?;
    let mut xargs = command("sh");
    quiet(xargs.args(["-c", &format!("seq {CHAIN} | xargs -I_ sh -c '{STAMP}'")]).current_dir(&theirs))?;
    let mut orchestrator = command(program);
    quiet(orchestrator.args(["run", "chain.yaml"]).current_dir(&ours).env("ORC_DATA", ours.join("data")))?;
    let (mut theirs, mut ours) = (intervals(&theirs.join("stamps"))?, intervals(&ours.join("stamps"))?);
    row("machine: `sh -c date`, one after the other", &mut theirs);
    row(&format!("the same as {CHAIN} steps in a chain"), &mut ours);
    let own = theirs.get(theirs.len() / 2).copied().unwrap_or_default();
    let at = |share: usize| ours.get((ours.len() * share / 100).min(ours.len() - 1)).map(|one| one.saturating_sub(own));
    let (p50, p99) = (at(50).unwrap_or_default(), at(99).unwrap_or_default());
    let met = p99 < Duration::from_millis(10);
    verdict("ready to process started", &format!("p50 {p50:.1?}, p99 {p99:.1?}"), "p99 10 ms", met);
    Ok(())
}

/// Sorted times between the stamps in a file.
fn intervals(stamps: &Path) -> Result<Vec<Duration>> {
    let text = fs::read_to_string(stamps)?;
    let stamps: Vec<u64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
    let mut found: Vec<Duration> = stamps.windows(2).map(|two| Duration::from_nanos(two[1] - two[0])).collect();
    found.sort_unstable();
    Ok(found)
}

/// A list of a thousand elements that wait for a day: from the start of the flow to its last decision, which is the one
/// that writes the last of them. Both times are the store's, in milliseconds.
pub(super) fn expansion(program: &Path, place: &Path) -> Result<()> {
    let items: Vec<String> = (0..ELEMENTS).map(|n| n.to_string()).collect();
    let text = "name: wide\nworktree: in_place\nsteps:\n  all: { foreach: [ITEMS], wait: 1d }\n";
    let file = place.join("wide.yaml");
    fs::write(&file, text.replace("ITEMS", &items.join(", ")))?;
    let mut took = Vec::new();
    for n in 0..10 {
        let data = place.join(format!("wide-{n}"));
        let holder = Holder::start(program, &data, &["run", &file.display().to_string()])?;
        holder.wait_for(1)?;
        let flow = || -> Result<Value> {
            let mut list = command(program);
            list.args(["flows", "list", "--output", "json"]).env("ORC_DATA", &data);
            let listed: Value = serde_json::from_str(&read(&mut list)?)?;
            Ok(listed["flows"][0].clone())
        };
        // The step itself waits too.
        until("all elements are there", || flow().is_ok_and(|flow| flow["steps"]["waiting"] == ELEMENTS + 1))?;
        let flow = flow()?;
        let at = |name: &str| -> Result<Timestamp> {
            flow[name].as_str().and_then(Timestamp::parse).context("a flow has times")
        };
        took.push(Duration::from_millis(at("updated_at")?.since(at("created_at")?).as_millis()));
        holder.kill()?;
    }
    row("start of a flow to its 1,000th element", &mut took);
    let median = took[took.len() / 2];
    verdict("expansion of 1,000 elements", &format!("{median:.1?}"), "100 ms", median.as_millis() < 100);
    Ok(())
}

/// From an answer that is sent to the program of the next step, which prints its clock.
pub(super) fn answer(program: &Path, place: &Path) -> Result<()> {
    let (data, stamp) = (place.join("answer-data"), place.join("answer-stamp"));
    let text = format!(
        "name: ask\nworktree: in_place\nsteps:\n  ask: {{ approval: {{ message: Go on? }} }}\n  next: {{ needs: ask, run: 'date +%s%N > {0}.new; mv {0}.new {0}' }}\n",
        stamp.display()
    );
    fs::write(place.join("ask.yaml"), text)?;
    let mut took = Vec::new();
    for _ in 0..10 {
        let holder = Holder::start(program, &data, &["run", &place.join("ask.yaml").display().to_string()])?;
        holder.wait_for(1)?;
        let mut list = command(program);
        list.args(["approvals", "list", "--output", "json"]).env("ORC_DATA", &data);
        let listed: Value = serde_json::from_str(&read(&mut list)?)?;
        let request = listed["requests"].get(0).context("nothing waits for an answer")?;
        let reply = json!({
            "flow": request["flow"], "request": request["id"], "answer": "approved", "subject": null, "reason": "",
        });
        let sent = nanoseconds()?;
        holder.ask(&json!({ "answer": reply }))?;
        until("the next step ran", || stamp.is_file())?;
        let began: u128 = fs::read_to_string(&stamp)?.trim().parse()?;
        took.push(Duration::from_nanos(u64::try_from(began.saturating_sub(sent))?));
        fs::remove_file(&stamp)?;
        until("the holder has ended", || holder.ask(&json!("status")).is_err())?;
    }
    row("an answer sent to the next step's program", &mut took);
    let most = took.last().copied().unwrap_or_default();
    verdict("approval answered to run going on", &format!("{most:.1?}"), "200 ms", most.as_millis() < 200);
    Ok(())
}

/// Ten thousand flows that wait, and the holder killed with a few more that run.
pub(super) fn waiting(program: &Path, place: &Path) -> Result<()> {
    let data = place.join("waiting-data");
    let ask = "name: wait\nworktree: in_place\nsteps:\n  ask: { approval: { message: Go on? } }\n  then: { needs: ask, run: 'true' }\n";
    fs::write(place.join("wait.yaml"), ask)?;
    let file = place.join("wait.yaml").display().to_string();
    let holder = Holder::start(program, &data, &["run", &file, "--slots", "16"])?;
    holder.wait_for(1)?;
    let idle = holder.memory()?;
    let asking = Definition::compile(ask, place)?;
    let took = timed(|| (1..WAITING).try_for_each(|_| holder.submit(&asking)))?;
    holder.wait_for(WAITING)?;
    let busy = holder.memory()?;
    println!("  {WAITING} flows submitted in {took:.1?}; the holder has {idle} KiB with one flow, {busy} KiB with all");
    let above = busy.saturating_sub(idle) / 1024;
    verdict("10,000 waiting flows, above idle", &format!("{above} MB"), "64 MB", above < 64);
    verdict("idle holder", &format!("{} MB", idle / 1024), "40 MB", idle / 1024 < 40);
    // They outlive the last holder, but not for long.
    let running = "name: run\nworktree: in_place\nsteps:\n  live: { run: exec sleep 60 }\n";
    let running = Definition::compile(running, place)?;
    (0..LIVE).try_for_each(|_| holder.submit(&running))?;
    let live = || {
        let mut list = command(program);
        list.args(["runs", "list", "--output", "json"]).env("ORC_DATA", &data);
        let listed = read(&mut list).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let runs = listed.and_then(|listed| listed["runs"].as_array().cloned()).unwrap_or_default();
        runs.iter().filter(|run| run["state"] == "running").count() == LIVE
    };
    until("the runs live", live)?;
    holder.kill()?;
    let mut holder = None;
    let took = timed(|| {
        let started = holder.insert(Holder::start(program, &data, &["resume", "--all", "--slots", "16"])?);
        started.wait_for(WAITING + LIVE)
    })?;
    let what = "kill -9, then 10,000 waiting and 16 live flows resumed";
    verdict(what, &format!("{took:.1?}"), "2 s", took.as_secs() < 2);
    let back = holder.as_ref().map(Holder::memory).transpose()?.unwrap_or_default();
    println!("  after that the holder has {back} KiB");
    Ok(())
}

/// `status` with a million runs in the store.
pub(super) fn million(program: &Path, place: &Path) -> Result<()> {
    let data = place.join("million");
    fs::create_dir_all(&data)?;
    let example = ["run", "--release", "--quiet", "--package", "orc-store-sqlite", "--example", "million", "--"];
    read(command("cargo").args(example).arg(data.join("orchestrator.db")))?;
    let mut took = Vec::new();
    for _ in 0..LOOKS {
        let mut status = command(program);
        status.arg("status").env("ORC_DATA", &data);
        took.push(timed(|| quiet(&mut status))?);
    }
    row("`status` with a million runs, whole process", &mut took);
    let median = took[took.len() / 2];
    verdict("status with a million runs", &format!("{median:.1?}"), "50 ms", median.as_millis() < 50);
    Ok(())
}
