//! Somebody who works with private copies and is killed: `killed ROOT SOURCE FLOW STRATEGY COUNTER POINT`. At the call of
//! git or of a box that has the number POINT in the file COUNTER it ends itself with SIGKILL. What it wrote into a copy it
//! says first. Tests start it.

#![expect(clippy::print_stdout, reason = "what it says is its answer")]
#![expect(clippy::disallowed_methods, reason = "a program by itself: PATH is its setting")]

#[path = "../tests/worktrees/boxes.rs"]
#[expect(dead_code, reason = "tests and figures need more of it")]
mod boxes;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use orc_domain::identity::Author;
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::time::Timestamp;
use orc_domain::tree::PrivateCopy;
use orc_ports::worktrees::{Conversation, Harvest, Prepared, Worktrees};
use orc_process::sandbox::Sandbox;
use orc_worktree::{Boxes, Choice, GitWorktrees, Options, Said, Strategy};
use rustix::process::{Signal, getpid, kill_process};
use uuid::Uuid;

fn main() -> anyhow::Result<ExitCode> {
    if let Some(code) = orc_process::inside::run(std::env::args_os().nth(1).as_deref(), &orc_process::hands::NoHands) {
        return Ok(code);
    }
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("killed ROOT SOURCE FLOW STRATEGY COUNTER POINT");
    let (root, source) = (PathBuf::from(next()?), PathBuf::from(next()?));
    let flow: FlowId = next()?.parse()?;
    let strategy: Strategy = serde_json::from_str(&format!("\"{}\"", next()?))?;
    let counter = Counter { file: PathBuf::from(next()?), point: next()?.parse()? };
    let sandbox = boxes::sandbox(std::env::current_exe()?)?;
    let worktrees = GitWorktrees::open(Options {
        root,
        instance: InstanceId::from_uuid(Uuid::now_v7()),
        owner: boxes::owner(),
        choice: Choice::Fixed(strategy),
        author: Author::pipeline("orchestrator", "example.org")?,
        program_path: std::env::var("PATH")?,
        boxes: Arc::new(Counted(boxes::Real(sandbox.clone()), counter)),
        clock: Arc::new(boxes::Counting::default()),
        max_file_bytes: 64 << 20,
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(work(&worktrees, &sandbox, source, flow))?;
    Ok(ExitCode::SUCCESS)
}

struct Counter {
    file: PathBuf,
    point: u32,
}

impl Counter {
    fn pass(&self) {
        let passed = std::fs::read_to_string(&self.file).unwrap_or_default().trim().parse::<u32>().unwrap_or(0) + 1;
        let _ = std::fs::write(&self.file, passed.to_string());
        if passed == self.point {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}

/// Boxes before and after each of which the end may come.
struct Counted(boxes::Real, Counter);

impl Boxes for Counted {
    fn run(&self, command: orc_worktree::Command) -> Result<Said, String> {
        self.1.pass();
        let said = self.0.run(command);
        self.1.pass();
        said
    }
}

/// Two steps, one of which goes on in its copy and is never harvested again, and the end of their flow.
async fn work(worktrees: &GitWorktrees, sandbox: &Sandbox, source: PathBuf, flow: FlowId) -> anyhow::Result<()> {
    let repositories = worktrees.pin(source, Vec::new()).await?.repositories;
    let fresh = PrivateCopy { repositories, from: Vec::new(), goes_on: false, holds_conflict: false };
    let conversation = |step: &str| anyhow::Ok(Conversation { flow, path: step.parse()? });
    let run = |number: u32| RunId::derived(flow.uuid(), &number.to_string());
    let one = worktrees.prepare(conversation("one")?, run(1), fresh.clone()).await?;
    write(sandbox, &one, "committed", "git add -A; git commit -q -m c")?;
    write(sandbox, &one, "left", "")?;
    let harvest = |step: &str, number: u32| {
        anyhow::Ok(Harvest {
            conversation: conversation(step)?,
            run: run(number),
            attempt: number,
            copy: fresh.clone(),
            author: Author::new("Coder", "coder@example.org")?,
            trailers: Vec::new(),
            at: Timestamp::from_millis(0),
        })
    };
    let tree = worktrees.harvest(harvest("one", 1)?).await?.tree;
    let from = vec![orc_domain::tree::Tip { by: "one".to_owned(), tree }];
    let next = PrivateCopy { from, ..fresh.clone() };
    let two = worktrees.prepare(conversation("two")?, run(2), next).await?;
    write(sandbox, &two, "second", "")?;
    let again = worktrees.prepare(conversation("one")?, run(3), PrivateCopy { goes_on: true, ..fresh.clone() }).await?;
    write(sandbox, &again, "stashed", "git add stashed; git stash -q")?;
    write(sandbox, &again, "later", "")?;
    // Not on: what is in it has to be rescued first.
    worktrees.release(run(3)).await?;
    let anew = worktrees.prepare(conversation("one")?, run(4), fresh.clone()).await?;
    write(sandbox, &anew, "anew", "")?;
    for number in [2, 4] {
        worktrees.release(run(number)).await?;
    }
    worktrees.collect(flow).await?;
    Ok(())
}

/// Writes a file that must not be lost from then on.
fn write(sandbox: &Sandbox, copy: &Prepared, name: &str, then: &str) -> anyhow::Result<()> {
    boxes::in_box(sandbox, copy, &format!("echo {name} >{name}"))?;
    println!("{name}");
    std::io::stdout().flush()?;
    boxes::in_box(sandbox, copy, if then.is_empty() { ":" } else { then })?;
    Ok(())
}
