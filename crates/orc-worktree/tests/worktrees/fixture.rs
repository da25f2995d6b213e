//! A repository, a place for copies, and somebody who works in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use orc_domain::identity::Author;
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::time::Timestamp;
use orc_domain::tree::{CommitId, PrivateCopy, Repository, Tip, Tree};
use orc_ports::worktrees::{Conversation, Freed, Harvest, Harvested, Pinned, Prepared, WorktreeError, Worktrees};
use orc_process::sandbox::Sandbox;
use orc_worktree::{Choice, GitWorktrees, Options, Strategy};
use tempfile::TempDir;
use uuid::Uuid;

use crate::boxes;

/// An example of this crate, which lies beside its tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(program.is_file(), "{} is missing: build the examples of this crate", program.display());
    program
}

/// One place with copies of one repository.
pub(crate) struct Place {
    /// What is opened in it; another instance may take it over. None only in between.
    worktrees: Option<GitWorktrees>,
    pub(crate) sandbox: Sandbox,
    pub(crate) flow: FlowId,
    strategy: Strategy,
    source: PathBuf,
    root: PathBuf,
    // Unmounted before the directory goes: fields are dropped in their order.
    _disk: Option<Disk>,
    _directory: TempDir,
}

/// Every strategy that this machine has.
pub(crate) fn strategies() -> Vec<Strategy> {
    if rustix::process::geteuid().is_root() {
        vec![Strategy::Overlay, Strategy::Btrfs, Strategy::Clone]
    } else {
        vec![Strategy::Clone]
    }
}

/// Runs a test once for every strategy that this machine has.
pub(crate) fn check_each(test: impl Fn(&mut Place)) {
    for strategy in strategies() {
        test(&mut Place::new(strategy));
    }
}

/// The strategy that most tests need no other than.
pub(crate) fn first() -> Place {
    Place::new(strategies()[0])
}

pub(crate) fn wait<T>(future: BoxFuture<'_, T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

pub(crate) fn git(directory: &Path, arguments: &[&str]) -> String {
    boxes::run(directory, "git", arguments).unwrap()
}

impl Place {
    pub(crate) fn new(strategy: Strategy) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("app");
        boxes::repository_of(&source, 3).unwrap();
        let root = directory.path().join("trees");
        std::fs::create_dir(&root).unwrap();
        let disk = (strategy == Strategy::Btrfs).then(|| Disk::new(directory.path(), &root));
        let sandbox = boxes::sandbox(example("measure")).unwrap();
        let worktrees = Some(open(&root, strategy, &sandbox).unwrap());
        let flow = FlowId::from_uuid(Uuid::now_v7());
        Self { worktrees, sandbox, flow, strategy, source, root, _disk: disk, _directory: directory }
    }

    /// Another instance, which finds what the last one left.
    pub(crate) fn restart(&mut self) {
        // There is one at a time: the last one ends first, with what it was about to remove.
        self.worktrees = None;
        self.worktrees = Some(open(&self.root, self.strategy, &self.sandbox).unwrap());
    }

    pub(crate) fn trees(&self) -> &GitWorktrees {
        self.worktrees.as_ref().unwrap()
    }

    pub(crate) fn source(&self) -> &Path {
        &self.source
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn strategy(&self) -> Strategy {
        self.strategy
    }

    pub(crate) fn pin(&self) -> Pinned {
        wait(self.trees().pin(self.source.clone(), Vec::new())).unwrap()
    }

    pub(crate) fn repositories(&self) -> Vec<Repository> {
        self.pin().repositories
    }

    /// A copy that starts from these tips.
    pub(crate) fn copy(&self, from: &[(&str, &Tree)]) -> PrivateCopy {
        let from = from.iter().map(|(by, tree)| Tip { by: (*by).to_owned(), tree: (*tree).clone() }).collect();
        PrivateCopy { repositories: self.repositories(), from, goes_on: false, holds_conflict: false }
    }

    /// What a copy of nothing but the source starts from.
    pub(crate) fn start(&self) -> Tree {
        orc_domain::tree::base_of(&self.repositories())
    }

    pub(crate) fn conversation(&self, step: &str) -> Conversation {
        Conversation { flow: self.flow, path: step.parse().unwrap() }
    }

    pub(crate) fn run(&self, step: &str) -> RunId {
        RunId::derived(self.flow.uuid(), step)
    }

    pub(crate) fn try_prepare(&self, step: &str, copy: &PrivateCopy) -> Result<Prepared, WorktreeError> {
        wait(self.trees().prepare(self.conversation(step), self.run(step), copy.clone()))
    }

    pub(crate) fn prepare(&self, step: &str, copy: &PrivateCopy) -> Prepared {
        self.try_prepare(step, copy).unwrap()
    }

    /// Works in a copy, as an agent does; what the script prints.
    pub(crate) fn work(&self, copy: &Prepared, script: &str) -> String {
        boxes::in_box(&self.sandbox, copy, script).unwrap()
    }

    pub(crate) fn harvest_of(&self, step: &str, attempt: u32, copy: &PrivateCopy) -> Harvest {
        Harvest {
            conversation: self.conversation(step),
            run: self.run(step),
            attempt,
            copy: copy.clone(),
            author: Author::new("Coder (agent)", "coder@agents.example.org").unwrap(),
            trailers: vec!["Orc-Run: run_1".to_owned()],
            at: Timestamp::from_millis(1_700_000_100_000),
        }
    }

    pub(crate) fn try_harvest(&self, step: &str, copy: &PrivateCopy) -> Result<Harvested, WorktreeError> {
        wait(self.trees().harvest(self.harvest_of(step, 1, copy)))
    }

    pub(crate) fn harvest(&self, step: &str, copy: &PrivateCopy) -> Harvested {
        self.try_harvest(step, copy).unwrap()
    }

    /// Prepares, works and harvests: a whole step.
    pub(crate) fn step(&self, step: &str, from: &[(&str, &Tree)], script: &str) -> Tree {
        let copy = self.copy(from);
        let prepared = self.prepare(step, &copy);
        self.work(&prepared, script);
        self.harvest(step, &copy).tree
    }

    pub(crate) fn collect(&self) -> Freed {
        wait(self.trees().collect(self.flow)).unwrap()
    }

    /// Our own repository of the source.
    pub(crate) fn store(&self) -> PathBuf {
        self.known_store().unwrap()
    }

    /// The same, if there is one that knows its source.
    pub(crate) fn known_store(&self) -> Option<PathBuf> {
        let repositories = self.root.join("repositories");
        let mut found = std::fs::read_dir(&repositories).unwrap().map(|entry| entry.unwrap().path());
        found
            .find(|path| std::fs::read_to_string(path.join("source")).is_ok_and(|text| Path::new(&text) == self.source))
    }

    /// A file of a commit that was kept.
    pub(crate) fn file(&self, commit: &str, path: &str) -> Option<String> {
        let arguments = ["-c", "safe.directory=*", "show", &format!("{commit}:{path}")];
        boxes::run(&self.store(), "git", &arguments).ok()
    }

    /// All files of a commit.
    pub(crate) fn files(&self, commit: &str) -> Vec<String> {
        git(&self.store(), &["ls-tree", "-r", "--name-only", commit]).lines().map(str::to_owned).collect()
    }

    /// References below a prefix, without it.
    pub(crate) fn references(&self, prefix: &str) -> Vec<String> {
        let all = git(&self.store(), &["for-each-ref", "--format=%(refname)", prefix]);
        all.lines().map(str::to_owned).collect()
    }
}

/// The one commit of a tree.
pub(crate) fn only(tree: &Tree) -> &str {
    tree.0.get(".").map(CommitId::as_str).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the PATH of the tests is that of the programs they start")]
pub(crate) fn open(root: &Path, strategy: Strategy, sandbox: &Sandbox) -> anyhow::Result<GitWorktrees> {
    Ok(GitWorktrees::open(Options {
        root: root.to_owned(),
        instance: InstanceId::from_uuid(Uuid::now_v7()),
        owner: boxes::owner(),
        choice: Choice::Fixed(strategy),
        author: Author::pipeline("orchestrator", "example.org")?,
        program_path: std::env::var("PATH")?,
        boxes: Arc::new(boxes::Real(sandbox.clone())),
        clock: Arc::new(boxes::Counting::default()),
        max_file_bytes: 64 << 20,
    })?)
}

/// A btrfs file system in a file, mounted as long as it lives.
struct Disk(PathBuf);

impl Disk {
    fn new(directory: &Path, at: &Path) -> Self {
        let image = directory.join("disk");
        std::fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let image = image.to_str().unwrap();
        boxes::run(directory, "mkfs.btrfs", &["-q", image]).unwrap();
        boxes::run(directory, "mount", &["-o", "loop", image, at.to_str().unwrap()]).unwrap();
        Self(at.to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: whatever a failed test left open must not keep it.
        let _ = boxes::run(Path::new("/"), "umount", &["-l", self.0.to_str().unwrap_or_default()]);
    }
}
