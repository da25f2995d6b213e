//! Private copies of repositories: made before a run, harvested after it, kept until what is in them is saved.
//!
//! A copy belongs to one conversation (a step of a flow). Contract:
//! - The source of a repository is only read: never a file of it, of its `.git` or of its configuration changes.
//! - What a run left becomes commits that a reference in our own repository holds, before its copy may go. A copy is
//!   removed only when it is proven that nothing in it is unsaved; what cannot be proven counts as unsaved and is first
//!   written to a rescue reference.
//! - Equal merges give equal commits: whoever asks again after a crash gets the same.
//! - No git that runs outside a box reads anything that an agent could have written, but objects that it checked.
//! - Everything is safe to ask again: an instance may have died at any point of the time before.

use std::collections::BTreeSet;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use orc_domain::graph::RepositorySpec;
pub use orc_domain::identity::Author;
use orc_domain::ids::{FlowId, RunId};
use orc_domain::path::StepPath;
use orc_domain::time::Timestamp;
use orc_domain::tree::{CommitId, Conflict, PrivateCopy, Repository, Tip, Tree};

use crate::executor::Mount;

/// Whose copy it is: a step of a flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conversation {
    /// The flow.
    pub flow: FlowId,
    /// The step.
    pub path: StepPath,
}

/// What a flow starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Its repositories, in the order asked for.
    pub repositories: Vec<Repository>,
    /// What people should know: files of the checkout that are not committed, and so not in any copy.
    pub notes: Vec<String>,
}

/// A copy that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The copies, as they are mounted in the box.
    pub mounts: Vec<Mount>,
    /// Where the run works, inside the box.
    pub directory: PathBuf,
    /// The commits that it starts from. With a conflict in it: those of the first side.
    pub start: Tree,
    /// The conflict that it holds for somebody to resolve.
    pub conflict: Option<Conflict>,
}

/// What a run left in its copy, about to be kept.
#[derive(Clone, Debug)]
pub struct Harvest {
    /// Whose.
    pub conversation: Conversation,
    /// The run.
    pub run: RunId,
    /// Its attempt, for the name of the reference.
    pub attempt: u32,
    /// The copy, as it was asked for.
    pub copy: PrivateCopy,
    /// Who is author and committer of what was left uncommitted.
    pub author: Author,
    /// Lines at the end of the message of that commit: `Key: value`, checked.
    pub trailers: Vec<String>,
    /// When the run ended.
    pub at: Timestamp,
}

/// What was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Harvested {
    /// The commits; where nothing changed, those that it started from.
    pub tree: Tree,
    /// What people should know: what could not be kept.
    pub notes: Vec<String>,
}

/// Why there is no copy, or nothing can be kept of it.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// Where a pipeline was started is no repository.
    #[error("`{path}` is not in a git repository")]
    NoRepository {
        /// Where.
        path: String,
    },
    /// A repository has no commit at all.
    #[error("the repository `{repository}` has no commit yet, and a private copy starts from one")]
    Empty {
        /// Which repository.
        repository: String,
    },
    /// A repository has no such branch, tag or commit.
    #[error("the repository `{repository}` has no commit `{wanted}`")]
    NoCommit {
        /// Which repository.
        repository: String,
        /// What was asked for.
        wanted: String,
    },
    /// There is no copy of a step: none was made yet, or it went with its flow.
    #[error("there is no copy of `{path}`: none was made, or it went when its flow was over")]
    NoCopy {
        /// The step.
        path: StepPath,
    },
    /// Tips contradict each other.
    #[error("{0}")]
    Conflict(Conflict),
    /// There is no box for git to run in.
    #[error("cannot make the box: {what}")]
    Box {
        /// What is missing, and what helps.
        what: String,
    },
    /// Private copies cannot be made here at all.
    #[error("{what}")]
    Unavailable {
        /// Why, and what helps.
        what: String,
    },
    /// git refused.
    #[error("git cannot {what} in `{repository}`: {why}")]
    Git {
        /// What was to be done.
        what: &'static str,
        /// Which repository.
        repository: String,
        /// What it said.
        why: String,
    },
    /// Something lies where copies do that nothing says anything about.
    #[error("`{}` is no copy that is known, and stays; look into it, and remove it by hand", path.display())]
    Unknown {
        /// Where.
        path: PathBuf,
    },
    /// A file or directory of ours cannot be made, read or removed.
    #[error("cannot {what} `{}`", path.display())]
    File {
        /// What was to be done.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Why a file of a copy cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// It is not there, no file, too large, or leads out of the copy.
    #[error("{why}")]
    NoFile {
        /// Why.
        why: String,
    },
    /// The copy cannot be looked into.
    #[error("the copy cannot be looked into")]
    Copy(#[source] WorktreeError),
}

/// Where a copy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// A run has it.
    Leased,
    /// No run has it, and what is in it is saved.
    Saved,
    /// No run has it, and something in it is not saved, or that is not known.
    Unsaved,
}

impl CopyState {
    /// The word in lists.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Saved => "saved",
            Self::Unsaved => "unsaved",
        }
    }
}

/// A copy, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyEntry {
    /// Whose.
    pub conversation: Conversation,
    /// Where it stands.
    pub state: CopyState,
    /// The run that has it, or had it last.
    pub run: Option<RunId>,
    /// When it was made.
    pub since: Timestamp,
    /// What it started from.
    pub start: Tree,
    /// `overlay`, `btrfs` or `clone`.
    pub strategy: &'static str,
    /// Bytes on disk that are its own.
    pub bytes: u64,
    /// References that hold what was saved of it, in the repository of ours that is named beside.
    pub references: Vec<SavedRef>,
    /// What people should know of what was saved last: what is in no commit.
    pub notes: Vec<String>,
}

/// A reference of our own repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRef {
    /// Path of the repository in the pipeline.
    pub repository: String,
    /// Our bare repository, an absolute path.
    pub store: PathBuf,
    /// The name.
    pub name: String,
}

/// What a removal freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Copies that are gone.
    pub copies: u32,
    /// Copies whose unsaved content was written to a rescue reference before.
    pub rescued: u32,
    /// Bytes of disk, measured.
    pub bytes: u64,
}

/// Whose copies and homes there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// Flows.
    pub flows: BTreeSet<FlowId>,
    /// What lies where copies do and belongs to nobody; it stays.
    pub unknown: Vec<PathBuf>,
}

/// Makes, keeps and removes private copies.
pub trait Worktrees: Send + Sync {
    /// The commits that a flow starts from: what is asked for, seen from `directory`; nothing asked: the repository that
    /// `directory` is in.
    fn pin(&self, directory: PathBuf, wanted: Vec<RepositorySpec>) -> BoxFuture<'_, Result<Pinned, WorktreeError>>;

    /// Makes the copy of a conversation ready for a run, which then has its lease. A copy that is not to go on is made
    /// anew; unsaved work in it is rescued first.
    fn prepare(
        &self,
        conversation: Conversation,
        run: RunId,
        copy: PrivateCopy,
    ) -> BoxFuture<'_, Result<Prepared, WorktreeError>>;

    /// Keeps what a run left, as commits held by references; the copy stays, saved.
    fn harvest(&self, harvest: Harvest) -> BoxFuture<'_, Result<Harvested, WorktreeError>>;

    /// Copies one file of a copy out to `to`, which does not exist: at most `bytes`. `path` is relative to where the run
    /// worked; one that leads out of there is refused.
    fn extract(
        &self,
        conversation: Conversation,
        path: String,
        to: PathBuf,
        bytes: u64,
    ) -> BoxFuture<'_, Result<(), ExtractError>>;

    /// Named directories that outlive runs, for the box of one: each over the last one that a delivered run left.
    fn caches(
        &self,
        run: RunId,
        repositories: Vec<Repository>,
        names: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<Mount>, WorktreeError>>;

    /// What a run left in its caches becomes what the next one finds, unless another did so first.
    fn promote(&self, run: RunId) -> BoxFuture<'_, Result<(), WorktreeError>>;

    /// Gives the lease of a run back without keeping anything: its copy stays as it is, unsaved.
    fn release(&self, run: RunId) -> BoxFuture<'_, Result<(), WorktreeError>>;

    /// Removes the copy and the caches of a run with whatever is in them: it only looked, under a flow that there never was, so
    /// that nobody can want any of it. A copy that another run had last stays.
    fn discard(&self, conversation: Conversation, run: RunId) -> BoxFuture<'_, Result<(), WorktreeError>>;

    /// Merges without a copy, and holds the result by a reference of the conversation.
    fn join(&self, conversation: Conversation, copy: PrivateCopy) -> BoxFuture<'_, Result<Tree, WorktreeError>>;

    /// Removes the copies, homes and references that nobody needs of a flow that is over: copies with unsaved work are
    /// rescued first; references of results stay.
    fn collect(&self, flow: FlowId) -> BoxFuture<'_, Result<Freed, WorktreeError>>;

    /// Flows of which something is there that [`collect`](Worktrees::collect) removes.
    fn owners(&self) -> BoxFuture<'_, Result<Owners, WorktreeError>>;

    /// Removes what copies are made from and none stands on; its bytes. What is made from it next is made anew.
    fn tidy(&self) -> BoxFuture<'_, Result<u64, WorktreeError>>;

    /// Removes the references of flows that nobody asks for any more, but those of commits that others need. What only
    /// they held goes from the disk a day later at the earliest.
    fn forget(&self, flows: BTreeSet<FlowId>, needed: BTreeSet<CommitId>) -> BoxFuture<'_, Result<(), WorktreeError>>;

    /// All copies there are.
    fn list(&self) -> BoxFuture<'_, Result<Vec<CopyEntry>, WorktreeError>>;

    /// What a copy changes against what it started from, as a patch of at most `bytes`.
    fn diff(&self, conversation: Conversation, bytes: u64) -> BoxFuture<'_, Result<String, WorktreeError>>;

    /// Writes what is in a copy, uncommitted and untracked work included, to a rescue reference for each repository.
    fn rescue(&self, conversation: Conversation) -> BoxFuture<'_, Result<Vec<SavedRef>, WorktreeError>>;

    /// Where the commits of a tip are held, for people.
    fn saved(&self, repositories: &[Repository], tips: &[Tip]) -> Vec<SavedRef>;

    /// References that hold what was rescued of the copies of a flow, the copies being there or not; for people.
    fn rescued(&self, flow: FlowId, repositories: &[Repository]) -> Vec<SavedRef>;
}
