//! Private copies of repositories, with git.
//!
//! Below one root: `repositories/` has a bare repository of ours for each source, `bases/` immutable clones at a commit
//! (here called grounds), `copies/` what runs work on, each with its row, `caches/` named directories that outlive runs,
//! `homes/` the homes of conversations, `trash/` what is on its way out. All of it belongs to one instance at a time.
//!
//! - A copy is a layer over a ground ([`Strategy`]); nobody writes to a ground.
//! - git runs outside of a box only on our own bare repositories (`store.rs`) and to read a source (`pin.rs`); whatever
//!   touches a copy or a ground runs in one (`inside.rs`, `scripts/`).
//! - A copy goes only after what is in it is held by references (`harvest.rs`, `collect.rs`).
//!
//! Never here: to decide what a run starts from, or whether a result is good. The contract is `orc_ports::worktrees`.

mod caches;
mod collect;
mod copies;
mod files;
mod git;
mod grounds;
mod harvest;
mod inside;
mod join;
mod manifest;
mod modules;
mod names;
mod pin;
mod pool;
mod store;
mod strategy;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use futures_util::future::BoxFuture;
use orc_domain::graph::RepositorySpec;
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::tree::{CommitId, PrivateCopy, Repository, Tip, Tree};
use orc_ports::clock::Clock;
use orc_ports::executor::Mount;
use orc_ports::worktrees::{
    Author, Conversation, CopyEntry, ExtractError, Freed, Harvest, Harvested, Owners, Pinned, Prepared, SavedRef,
    WorktreeError, Worktrees,
};

pub use crate::files::Owner;
pub use crate::git::too_old;
pub use crate::inside::{Boxes, Command, Said};
pub use crate::strategy::{Choice, Probed, Strategy, StrategyError};

use crate::git::Git;
use crate::pool::Pool;
use crate::store::Store;
use crate::strategy::Snapshots;

/// Where a copy is in its box; several repositories lie below it.
pub const WORK: &str = "/workspace";

/// What [`GitWorktrees`] is made of.
pub struct Options {
    /// The directory that all of it lies in; made if missing.
    pub root: PathBuf,
    /// The instance that we are: leases of others are over.
    pub instance: InstanceId,
    /// Whose the files of copies are; none: ours.
    pub owner: Option<Owner>,
    /// How copies are to be made.
    pub choice: Choice,
    /// Who merges.
    pub author: Author,
    /// The `PATH` by which `git` and `btrfs` are found.
    pub program_path: String,
    /// Where git runs that touches a copy.
    pub boxes: Arc<dyn Boxes>,
    /// Wall time, for rows and rescue references.
    pub clock: Arc<dyn Clock>,
    /// Bytes of the largest file that is kept of a copy; 0 is no bound.
    pub max_file_bytes: u64,
}

/// Why private copies cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no way to make them.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The git of this machine cannot do what is needed.
    #[error("{why}; install a newer git")]
    Git {
        /// Which there is, and which is needed.
        why: String,
    },
    /// The directory cannot be used.
    #[error("cannot use `{}` for private copies", root.display())]
    Root {
        /// Which.
        root: PathBuf,
        /// Why.
        #[source]
        source: Box<WorktreeError>,
    },
    /// The machine gives no thread.
    #[error("no thread can be started for private copies")]
    Thread {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It panicked.
    #[error("opening private copies panicked; the log says where")]
    Panicked,
}

/// Private copies, made with git.
pub struct GitWorktrees {
    trees: Arc<Trees>,
    pool: Pool,
}

/// All that the parts share.
pub(crate) struct Trees {
    root: PathBuf,
    instance: InstanceId,
    owner: Option<Owner>,
    strategy: Strategy,
    probed: Probed,
    snapshots: Snapshots,
    author: Author,
    git: Git,
    boxes: Arc<dyn Boxes>,
    clock: Arc<dyn Clock>,
    max_file_bytes: u64,
    locks: Locks,
    background: pool::Background,
    /// Read while a copy is made, so that no ground goes between a look at it and the row that names it.
    building: RwLock<()>,
    /// Read by whoever works with our repositories, so that they are packed when nobody does.
    working: RwLock<()>,
    /// References were removed, and what only they reached may go.
    forgot: AtomicBool,
}

/// One lock for each directory.
#[derive(Default)]
pub(crate) struct Locks(Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>);

impl Locks {
    pub(crate) fn of(&self, directory: &Path) -> Arc<Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody holds are made again when they are needed.
        all.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(all.entry(directory.to_owned()).or_default())
    }
}

/// Takes a lock; a thread that panicked with it left files, which are checked whenever they are read.
pub(crate) fn held(lock: &Mutex<()>) -> MutexGuard<'_, ()> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Trees {
    pub(crate) fn store_of(&self, repository: &Repository) -> Store<'_> {
        Store::known(&self.root, &self.git, &repository.source)
    }

    /// Takes a directory out of the way at once; its bytes are given back in the background.
    pub(crate) fn throw(&self, path: &Path) -> Result<PathBuf, WorktreeError> {
        let name = path.file_name().unwrap_or_default();
        let to = files::beside(&self.root.join("trash").join(name));
        match std::fs::rename(path, &to) {
            Ok(()) => Ok(to),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(to),
            Err(error) => Err(files::failed("remove", path)(error)),
        }
    }
}

/// What this machine can do in `root`, for people. `root` is made if missing.
///
/// # Errors
/// When the directory cannot be made.
pub fn probe(
    root: &Path,
    boxes: &dyn Boxes,
    owner: Option<Owner>,
    program_path: &str,
) -> Result<Probed, WorktreeError> {
    files::make_directory(&root.join("trash"))?;
    Ok(strategy::probe(root, boxes, owner, &Snapshots::new(program_path.to_owned())))
}

impl GitWorktrees {
    /// Opens the root, and decides how copies are made. What an earlier instance was about to remove is removed.
    ///
    /// # Errors
    /// When nothing that was allowed works here, or the directory cannot be used.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        // On a thread of its own, as everything else here: what the main thread starts is taken for an orphan by whoever
        // collects those, and its exit status would be gone.
        std::thread::scope(|scope| {
            let opening = std::thread::Builder::new().name("trees-open".to_owned());
            let opening = opening.spawn_scoped(scope, || Self::open_here(options));
            let opening = opening.map_err(|source| OpenError::Thread { source })?;
            opening.join().unwrap_or(Err(OpenError::Panicked))
        })
    }

    fn open_here(options: Options) -> Result<Self, OpenError> {
        let Options { root, instance, owner, choice, author, program_path, boxes, clock, max_file_bytes } = options;
        let failed = |source| OpenError::Root { root: root.clone(), source: Box::new(source) };
        for directory in ["repositories", "bases", "copies", "caches", "homes", "trash"] {
            files::make_directory(&root.join(directory)).map_err(failed)?;
        }
        let root = std::path::absolute(&root).map_err(|error| failed(files::failed("find", &root)(error)))?;
        let failed = |source| OpenError::Root { root: root.clone(), source: Box::new(source) };
        let git = Git::new(&root, program_path).map_err(failed)?;
        let version = git.at(&root, "").args(["--version"]).done("tell its version").map_err(failed)?.line();
        if let Some(why) = too_old(&version) {
            return Err(OpenError::Git { why });
        }
        let snapshots = Snapshots::new(git.program_path().to_owned());
        let probed = strategy::probe(&root, boxes.as_ref(), owner, &snapshots);
        let strategy = probed.choose(choice, &root)?;
        let locks = Locks::default();
        let pool = Pool::new().map_err(|error| failed(files::failed("start a thread for", &root)(error)))?;
        let trees = Arc::new(Trees {
            root: root.clone(),
            instance,
            owner,
            strategy,
            probed,
            snapshots,
            author,
            git,
            boxes,
            clock,
            max_file_bytes,
            locks,
            background: pool.background(),
            building: RwLock::default(),
            working: RwLock::default(),
            forgot: AtomicBool::default(),
        });
        let worktrees = Self { trees, pool };
        for left in worktrees.trees.leftovers().map_err(failed)? {
            worktrees.trees.remove_later(left);
        }
        Ok(worktrees)
    }

    /// How copies are made.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.trees.strategy
    }

    /// What this machine can do.
    #[must_use]
    pub fn probed(&self) -> &Probed {
        &self.trees.probed
    }

    /// The home of a conversation: made by whoever mounts it, gone with its flow.
    #[must_use]
    pub fn home(&self, conversation: &Conversation) -> PathBuf {
        self.trees.root.join("homes").join(names::conversation(conversation))
    }

    /// Looks in the background whether something has become large or many.
    fn keep_small_later(&self) {
        let trees = Arc::clone(&self.trees);
        self.trees.background.send(Box::new(move || trees.keep_small()));
    }

    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Trees) -> Result<T, WorktreeError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, WorktreeError>> {
        let trees = Arc::clone(&self.trees);
        self.pool.run(move || {
            let _working = trees.working.read().unwrap_or_else(PoisonError::into_inner);
            work(&trees)
        })
    }
}

impl Worktrees for GitWorktrees {
    fn pin(&self, directory: PathBuf, wanted: Vec<RepositorySpec>) -> BoxFuture<'_, Result<Pinned, WorktreeError>> {
        self.call(move |trees| trees.pin(&directory, &wanted))
    }

    fn prepare(
        &self,
        conversation: Conversation,
        run: RunId,
        copy: PrivateCopy,
    ) -> BoxFuture<'_, Result<Prepared, WorktreeError>> {
        self.call(move |trees| trees.prepare(&conversation, run, &copy))
    }

    fn harvest(&self, harvest: Harvest) -> BoxFuture<'_, Result<Harvested, WorktreeError>> {
        self.call(move |trees| trees.harvest(&harvest))
    }

    fn extract(
        &self,
        conversation: Conversation,
        path: String,
        to: PathBuf,
        bytes: u64,
    ) -> BoxFuture<'_, Result<(), ExtractError>> {
        let answer = self.call(move |trees| Ok(trees.extract(&conversation, &path, &to, bytes)));
        Box::pin(async move { answer.await.unwrap_or_else(|error| Err(ExtractError::Copy(error))) })
    }

    fn caches(
        &self,
        run: RunId,
        repositories: Vec<Repository>,
        names: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<Mount>, WorktreeError>> {
        self.call(move |trees| trees.caches(run, &repositories, &names))
    }

    fn promote(&self, run: RunId) -> BoxFuture<'_, Result<(), WorktreeError>> {
        self.call(move |trees| trees.promote(run))
    }

    fn release(&self, run: RunId) -> BoxFuture<'_, Result<(), WorktreeError>> {
        self.call(move |trees| trees.drop_caches(run).and(trees.release(run)))
    }

    fn discard(&self, conversation: Conversation, run: RunId) -> BoxFuture<'_, Result<(), WorktreeError>> {
        self.call(move |trees| trees.discard(&conversation, run))
    }

    fn join(&self, conversation: Conversation, copy: PrivateCopy) -> BoxFuture<'_, Result<Tree, WorktreeError>> {
        self.call(move |trees| trees.join(&conversation, &copy))
    }

    fn collect(&self, flow: FlowId) -> BoxFuture<'_, Result<Freed, WorktreeError>> {
        let answer = self.call(move |trees| trees.collect(flow));
        Box::pin(async move {
            let freed = answer.await;
            self.keep_small_later();
            freed
        })
    }

    fn owners(&self) -> BoxFuture<'_, Result<Owners, WorktreeError>> {
        self.call(Trees::owners)
    }

    fn tidy(&self) -> BoxFuture<'_, Result<u64, WorktreeError>> {
        self.call(Trees::tidy)
    }

    fn forget(&self, flows: BTreeSet<FlowId>, needed: BTreeSet<CommitId>) -> BoxFuture<'_, Result<(), WorktreeError>> {
        let answer = self.call(move |trees| trees.forget(&flows, &needed));
        Box::pin(async move {
            let forgotten = answer.await;
            self.keep_small_later();
            forgotten
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<CopyEntry>, WorktreeError>> {
        self.call(Trees::list)
    }

    fn diff(&self, conversation: Conversation, bytes: u64) -> BoxFuture<'_, Result<String, WorktreeError>> {
        self.call(move |trees| trees.diff(&conversation, bytes))
    }

    fn rescue(&self, conversation: Conversation) -> BoxFuture<'_, Result<Vec<SavedRef>, WorktreeError>> {
        self.call(move |trees| trees.rescue(&conversation))
    }

    fn saved(&self, repositories: &[Repository], tips: &[Tip]) -> Vec<SavedRef> {
        self.trees.saved(repositories, tips)
    }

    fn rescued(&self, flow: FlowId, repositories: &[Repository]) -> Vec<SavedRef> {
        self.trees.rescued(flow, repositories)
    }
}
