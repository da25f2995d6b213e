//! What the built-in agent costs beside its model: a turn of its loop, and runs that wait.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::holder::{Holder, until};
use super::{median, quiet, row, timed, verdict};
use crate::command::command;

/// Turns of the loop that is measured.
const TURNS: usize = 200;
/// How often.
const TIMES: usize = 5;
/// Runs that wait for a model at the same time.
const WAITING: usize = 100;

/// A repository with an agent that has nothing but its list, and whose model is a script.
fn repository(place: &Path) -> Result<()> {
    fs::create_dir_all(place.join("agents"))?;
    let write = |name: &str, text: &str| fs::write(place.join(name), text);
    write("orchestrator.yaml", "providers: { scripted: { script: models.yaml } }\n")?;
    let profile = "model: claude-sonnet-4-5\ntools: [TodoWrite]\ngit: false\nmemory: false";
    write("agents/lister.md", &format!("---\n{profile}\n---\nYou keep a list.\n"))?;
    let all = "model: claude-sonnet-4-5";
    write("agents/thinker.md", &format!("---\n{all}\n---\nYou think for long.\n"))?;
    let turn = |number: usize| {
        format!(
            "      - tool_calls: [{{ name: TodoWrite, input: {{ todos: [{{ content: part {number}, status: pending }}] }} }}]\n"
        )
    };
    let turns: String = (0..TURNS).map(turn).collect();
    let script = format!(
        "tracks:\n  slow:\n    match: {{ prompt: Think. }}\n    turns: [{{ delay: 1h, text: Late. }}]\n  short:\n    match: {{ prompt: \
         Nothing. }}\n    turns: [{{ text: Done. }}]\n  long:\n    turns:\n{turns}      - text: Done.\n"
    );
    write("models.yaml", &script)?;
    let pipeline = |name: &str, prompt: &str| {
        write(
            &format!("{name}.yaml"),
            &format!("name: {name}\nworktree: none\nsteps:\n  only: {{ agent: lister, prompt: {prompt} }}\n"),
        )
    };
    pipeline("short", "Nothing.")?;
    pipeline("long", "List.")?;
    let items: Vec<String> = (0..WAITING).map(|number| number.to_string()).collect();
    let wait = format!(
        "name: wait\nsteps:\n  all:\n    foreach: [{}]\n    agent: thinker\n    prompt: Think.\n",
        items.join(", ")
    );
    write("wait.yaml", &wait)?;
    write("idle.yaml", "name: idle\nsteps:\n  ask: { approval: { message: Go on? } }\n")?;
    let git = "git init -q && git add . && git -c user.name=bench -c user.email=bench@example.com commit -q -m one";
    quiet(command("sh").args(["-c", git]).current_dir(place))
}

pub(super) fn harness(program: &Path, place: &Path) -> Result<()> {
    let place = place.join("harness");
    repository(&place)?;
    let mut turns = Vec::new();
    for _ in 0..TIMES {
        let run = |name: &str| {
            let mut orchestrator = command(program);
            orchestrator.args(["run", name]).current_dir(&place).env("ORC_DATA", place.join("data"));
            timed(|| quiet(&mut orchestrator))
        };
        let (short, long) = (run("short.yaml")?, run("long.yaml")?);
        turns.push(long.saturating_sub(short) / u32::try_from(TURNS).context("too many turns")?);
    }
    row("a turn of the loop, with gateway, ledger and record", &mut turns);
    let each = median(&turns);
    verdict("loop overhead of a turn", &format!("{each:.1?}"), "3 ms", each.as_micros() < 3_000);
    waiting(program, &place)
}

fn waiting(program: &Path, place: &Path) -> Result<()> {
    let idle = Holder::start_in(program, (&place.join("idle-data"), place), &["run", "idle.yaml"])?;
    idle.wait_for(1)?;
    let with_one = idle.memory()?;
    drop(idle);
    let data = place.join("waiting-data");
    let slots = WAITING.to_string();
    let holder = Holder::start_in(program, (&data, place), &["run", "wait.yaml", "--slots", &slots])?;
    until("all of them wait for their model", || asked(&data) == WAITING)?;
    until("nobody holds a tool host", || hosts() == 0)?;
    let with_all = holder.memory()?;
    println!("  the holder has {with_one} KiB idle, {with_all} KiB with {WAITING} runs that wait");
    let above = with_all.saturating_sub(with_one) / 1024;
    verdict("100 runs that wait for a slow model, above idle", &format!("{above} MB"), "100 MB", above < 100);
    verdict("tool hosts that they hold", &hosts().to_string(), "1", hosts() == 0);
    Ok(())
}

/// Conversations whose model was asked.
fn asked(data: &Path) -> usize {
    let flows = fs::read_dir(data.join("conversations")).into_iter().flatten().flatten();
    let records = flows.flat_map(|flow| fs::read_dir(flow.path()).into_iter().flatten().flatten());
    let asked = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains("\"kind\":\"asked\""));
    records.filter(|record| asked(&record.path())).count()
}

/// Tool hosts on this machine.
fn hosts() -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| line.ends_with(b"\0tool-host\0")).count()
}
