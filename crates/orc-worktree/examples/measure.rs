//! Figures of private copies of a repository of many files, one JSON object a line:
//! `measure DIRECTORY STRATEGY FILES ROUNDS MANY`, with a directory that is empty or missing; MANY copies are made at once.
//! As root the user of boxes is 65534. `cargo xtask bench worktrees` makes a table of it.
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
use orc_domain::time::Timestamp;
use orc_domain::tree::{PrivateCopy, Repository};
use orc_ports::worktrees::{Conversation, Harvest, Prepared, Worktrees};
use orc_process::sandbox::Sandbox;
use orc_worktree::{Choice, GitWorktrees, Options, Strategy};
use tokio::time::Instant;
use uuid::Uuid;

/// New files that one run leaves.
const LEFT: u32 = 20_000;

fn main() -> anyhow::Result<ExitCode> {
    if let Some(code) = orc_process::inside::run(std::env::args_os().nth(1).as_deref(), &orc_process::hands::NoHands) {
        return Ok(code);
    }
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("measure DIRECTORY STRATEGY FILES ROUNDS MANY");
    let directory = PathBuf::from(next()?);
    let strategy: Strategy = serde_json::from_value(next()?.into())?;
    let (files, rounds, many) = (next()?.parse()?, next()?.parse()?, next()?.parse()?);
    let source = directory.join("source");
    boxes::repository_of(&source, files)?;
    let sandbox = boxes::sandbox(std::env::current_exe()?)?;
    let worktrees = open(&directory.join("trees"), strategy, sandbox.clone())?;
    let figures = Figures { worktrees, sandbox, source, many };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        for round in 0..rounds {
            figures.round(round).await?;
        }
        figures.harvest().await
    })?;
    Ok(ExitCode::SUCCESS)
}

fn open(root: &Path, strategy: Strategy, sandbox: Sandbox) -> anyhow::Result<GitWorktrees> {
    let options = Options {
        root: root.to_owned(),
        instance: InstanceId::from_uuid(Uuid::now_v7()),
        owner: boxes::owner(),
        choice: Choice::Fixed(strategy),
        author: Author::pipeline("orchestrator", "example.org")?,
        program_path: std::env::var("PATH")?,
        boxes: Arc::new(boxes::Real(sandbox)),
        clock: Arc::new(boxes::Counting::default()),
        max_file_bytes: 64 << 20,
    };
    Ok(GitWorktrees::open(options)?)
}

struct Figures {
    worktrees: GitWorktrees,
    sandbox: Sandbox,
    source: PathBuf,
    many: u32,
}

impl Figures {
    fn say(&self, what: &str, since: Begin) -> anyhow::Result<()> {
        let micros = u64::try_from(since.at.elapsed().as_micros())?;
        let worked = millis_of_work()?.saturating_sub(since.worked);
        say(what, micros, worked);
        Ok(())
    }

    /// Everything once; every round but the first has a commit that no ground has.
    async fn round(&self, round: u32) -> anyhow::Result<()> {
        if round > 0 {
            boxes::change(&self.source, &format!("later {round}"))?;
        }
        let pinned = self.worktrees.pin(self.source.clone(), Vec::new()).await?;
        let flow = FlowId::from_uuid(Uuid::now_v7());
        let at = begin()?;
        self.prepare(flow, "first", &pinned.repositories).await?;
        self.say(if round == 0 { "first base, with a copy" } else { "next base, with a copy" }, at)?;
        let at = begin()?;
        let copy = self.prepare(flow, "second", &pinned.repositories).await?;
        self.say("one copy", at)?;
        for what in ["first `git status` in it", "second `git status` in it"] {
            // Its time as the program inside has it; what a box costs is another figure.
            let script = "a=$(date +%s%N); git status --porcelain | wc -l; b=$(date +%s%N); echo $(((b - a) / 1000))";
            let at = begin()?;
            let said = boxes::in_box(&self.sandbox, &copy, script)?;
            let (changes, micros) = said.split_once('\n').context("no answer from a box")?;
            anyhow::ensure!(changes == "0", "a new copy is not clean: {said}");
            say(what, micros.trim().parse()?, millis_of_work()?.saturating_sub(at.worked));
        }
        let at = begin()?;
        self.keep(flow, "second", &pinned.repositories).await?;
        self.say("a run kept that changed nothing", at)?;
        let many: Vec<String> = (0..self.many).map(|number| format!("many{number}")).collect();
        let at = begin()?;
        try_join_all(many.iter().map(|step| self.prepare(flow, step, &pinned.repositories))).await?;
        self.say(&format!("{} copies at once", self.many), at)?;
        self.remove(flow, &format!("removal of {} copies", self.many + 2)).await?;
        let flow = FlowId::from_uuid(Uuid::now_v7());
        let copy = self.prepare(flow, "alone", &pinned.repositories).await?;
        boxes::in_box(&self.sandbox, &copy, "git status --porcelain")?;
        self.keep(flow, "alone", &pinned.repositories).await?;
        self.remove(flow, "removal of one copy").await
    }

    /// Of copies that were kept, as those of runs that ended are.
    async fn remove(&self, flow: FlowId, what: &str) -> anyhow::Result<()> {
        let entries = self.worktrees.list().await?;
        for run in entries.iter().filter(|entry| entry.conversation.flow == flow).filter_map(|entry| entry.run) {
            self.worktrees.release(run).await?;
        }
        let at = begin()?;
        self.worktrees.collect(flow).await?;
        self.say(what, at)
    }

    /// What a run costs that leaves many new files.
    async fn harvest(&self) -> anyhow::Result<()> {
        let pinned = self.worktrees.pin(self.source.clone(), Vec::new()).await?;
        let flow = FlowId::from_uuid(Uuid::now_v7());
        let copy = self.prepare(flow, "leaves", &pinned.repositories).await?;
        let script = format!("mkdir left; cd left; seq {LEFT} | split -l 1 -a 5 -d - file");
        boxes::in_box(&self.sandbox, &copy, &script)?;
        let at = begin()?;
        self.keep(flow, "leaves", &pinned.repositories).await?;
        self.say(&format!("{LEFT} new files kept"), at)
    }

    async fn keep(&self, flow: FlowId, step: &str, repositories: &[Repository]) -> anyhow::Result<()> {
        let harvested = self.worktrees.harvest(Harvest {
            conversation: Conversation { flow, path: step.parse()? },
            run: RunId::derived(flow.uuid(), step),
            attempt: 1,
            copy: private_copy(repositories),
            author: Author::pipeline("orchestrator", "example.org")?,
            trailers: Vec::new(),
            at: Timestamp::from_millis(1_700_000_000_000),
        });
        let harvested = harvested.await?;
        anyhow::ensure!(harvested.notes.is_empty(), "something was not kept: {:?}", harvested.notes);
        Ok(())
    }

    async fn prepare(&self, flow: FlowId, step: &str, repositories: &[Repository]) -> anyhow::Result<Prepared> {
        let conversation = Conversation { flow, path: step.parse()? };
        let run = RunId::derived(flow.uuid(), step);
        Ok(self.worktrees.prepare(conversation, run, private_copy(repositories)).await?)
    }
}

fn say(what: &str, micros: u64, cpu_millis: u64) {
    println!("{}", serde_json::json!({ "what": what, "micros": micros, "cpu_millis": cpu_millis }));
}

/// When something began, and the processor time that was used before.
#[derive(Clone, Copy)]
struct Begin {
    at: Instant,
    worked: u64,
}

fn begin() -> anyhow::Result<Begin> {
    Ok(Begin { at: Instant::now(), worked: millis_of_work()? })
}

/// Processor time of this process and of all that it has waited for, in steps of ten milliseconds (proc_pid_stat(5):
/// fields 14 to 17, a hundred in a second).
fn millis_of_work() -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(4);
    let ticks = fields.map(|field| Ok(field.parse::<u64>()?)).sum::<anyhow::Result<u64>>()?;
    Ok(ticks * 10)
}

fn private_copy(repositories: &[Repository]) -> PrivateCopy {
    PrivateCopy { repositories: repositories.to_vec(), from: Vec::new(), goes_on: false, holds_conflict: false }
}
