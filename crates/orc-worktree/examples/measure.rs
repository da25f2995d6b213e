//! Figures of private copies of a repository of many files, one JSON object a line: `measure DIRECTORY [FILES]`, with a
//! directory that is empty or missing. As root the user of boxes is 65534.
//!
//! Tests start it too, for the programs around and inside of a box.

#![expect(clippy::print_stdout, reason = "what it says is its answer")]
#![expect(clippy::disallowed_methods, reason = "a program by itself: PATH is its setting")]

#[path = "../tests/worktrees/boxes.rs"]
mod boxes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use futures_util::future::try_join_all;
use orc_domain::identity::Author;
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::tree::{PrivateCopy, Repository};
use orc_ports::worktrees::{Conversation, Prepared, Worktrees};
use orc_worktree::{Choice, GitWorktrees, Options, Strategy};
use tokio::time::Instant;
use uuid::Uuid;

fn main() -> anyhow::Result<ExitCode> {
    if let Some(code) = orc_process::inside::run(std::env::args_os().nth(1).as_deref()) {
        return Ok(code);
    }
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().context("measure DIRECTORY [FILES]")?);
    let files = arguments.next().map_or(Ok(50_000), |text| text.parse()).context("how many files")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(measure(&directory, files))?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(directory: &Path, files: u32) -> anyhow::Result<()> {
    let source = directory.join("source");
    boxes::repository_of(&source, files)?;
    let sharing = open(&directory.join("shared"), Choice::Auto { allow_clone: false });
    match sharing {
        Ok(worktrees) => one(&worktrees, &source, files).await?,
        Err(error) => println!("{}", serde_json::json!({ "without_copying": format!("{error:#}") })),
    }
    boxes::change(&source, "later 0")?;
    one(&open(&directory.join("copied"), Choice::Fixed(Strategy::Clone))?, &source, files).await
}

fn open(root: &Path, choice: Choice) -> anyhow::Result<GitWorktrees> {
    let sandbox = boxes::sandbox(std::env::current_exe()?)?;
    let options = Options {
        root: root.to_owned(),
        instance: InstanceId::from_uuid(Uuid::now_v7()),
        owner: boxes::owner(),
        choice,
        author: Author::pipeline("orchestrator", "example.org")?,
        program_path: std::env::var("PATH")?,
        boxes: Arc::new(boxes::Real(sandbox)),
        clock: Arc::new(boxes::Counting::default()),
        max_file_bytes: 64 << 20,
    };
    Ok(GitWorktrees::open(options)?)
}

async fn one(worktrees: &GitWorktrees, source: &Path, files: u32) -> anyhow::Result<()> {
    let flow = FlowId::from_uuid(Uuid::now_v7());
    let at = Instant::now();
    let pinned = worktrees.pin(source.to_owned(), Vec::new()).await?;
    let say = |what: &str, at: Instant| {
        let millis = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        println!(
            "{}",
            serde_json::json!({ "strategy": worktrees.strategy().word(), "files": files, "what": what, "ms": millis })
        );
    };
    say("commits of the source taken", at);
    let at = Instant::now();
    prepare(worktrees, flow, "first", &pinned.repositories).await?;
    say("first copy, with its ground", at);
    let at = Instant::now();
    let copy = prepare(worktrees, flow, "second", &pinned.repositories).await?;
    say("copy", at);
    for what in ["first status", "second status"] {
        let at = Instant::now();
        let said = boxes::in_box(&boxes::sandbox(std::env::current_exe()?)?, &copy, "git status --porcelain | wc -l")?;
        anyhow::ensure!(said.trim() == "0", "a new copy is not clean: {said}");
        say(what, at);
    }
    let at = Instant::now();
    let many = (0..20).map(|number| format!("many{number}"));
    let many: Vec<String> = many.collect();
    try_join_all(many.iter().map(|step| prepare(worktrees, flow, step, &pinned.repositories))).await?;
    say("20 copies at once", at);
    boxes::change(source, "later 1")?;
    let pinned = worktrees.pin(source.to_owned(), Vec::new()).await?;
    let next = FlowId::from_uuid(Uuid::now_v7());
    let at = Instant::now();
    prepare(worktrees, next, "first", &pinned.repositories).await?;
    say("next ground, with a copy", at);
    let at = Instant::now();
    let changed = prepare(worktrees, next, "changed", &pinned.repositories).await?;
    boxes::in_box(&boxes::sandbox(std::env::current_exe()?)?, &changed, "echo x > new")?;
    say("copy, and a box that changes it", at);
    for (what, flow) in [("22 copies removed", flow), ("2 copies removed, one of them rescued", next)] {
        let runs: Vec<_> = worktrees.list().await?;
        for run in runs.iter().filter(|entry| entry.conversation.flow == flow).filter_map(|entry| entry.run) {
            worktrees.release(run).await?;
        }
        let at = Instant::now();
        let freed = worktrees.collect(flow).await?;
        say(&format!("{what}: {} bytes", freed.bytes), at);
    }
    Ok(())
}

async fn prepare(
    worktrees: &GitWorktrees,
    flow: FlowId,
    step: &str,
    repositories: &[Repository],
) -> anyhow::Result<Prepared> {
    let conversation = Conversation { flow, path: step.parse()? };
    let run = RunId::derived(flow.uuid(), step);
    let repositories = repositories.to_vec();
    let copy = PrivateCopy { repositories, from: Vec::new(), goes_on: false, holds_conflict: false };
    Ok(worktrees.prepare(conversation, run, copy).await?)
}
