//! Boxes and private copies, put together: from the settings and this machine to what an instance works with.
//!
//! Copies are opened when the first of them is wanted: a flow that works in place pays nothing for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use orc_domain::confine::BoxRules;
use orc_domain::confine::paths::HIDDEN;
use orc_domain::graph::RepositorySpec;
use orc_domain::identity::Author;
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::principal::Principal;
use orc_domain::tree::{CommitId, PrivateCopy, Repository, Tip, Tree};
use orc_ports::clock::Clock;
use orc_ports::executor::{BoxLimits, Confinement, Exit, Mount};
use orc_ports::worktrees::{
    Conversation, CopyEntry, ExtractError, Freed, Harvest, Harvested, Owners, Pinned, Prepared, SavedRef,
    WorktreeError, Worktrees,
};
use orc_process::sandbox::{BoxUser, BoxedCommand, Missing, Sandbox, SandboxSettings, Stdin, Stdout};
use orc_runtime::{BoxShape, Ceiling, CoAuthors};
use orc_spec::settings::{Allowance, BoxSettings, Person, SecretSource, Settings, Strategy};
use orc_worktree::{Choice, GitWorktrees, Options, Owner};

use crate::args::LimitArgs;
use crate::context::Context;
use crate::host;
use crate::models;

/// What boxes are made of here, or what is missing.
pub(crate) fn sandbox(settings: &Settings) -> Result<Sandbox, Vec<Missing>> {
    let executable = host::executable().map_err(|why| {
        vec![Missing {
            what: format!("our own program is not known: {why}"),
            install: "start it by its path".to_owned(),
        }]
    })?;
    let BoxSettings { uid, gid, .. } = &settings.boxes;
    let named = uid.value.map(|uid| BoxUser { uid, gid: gid.value.unwrap_or(uid) });
    Sandbox::probe(&SandboxSettings { user: named.or_else(box_user), executable })
}

/// The user that `doctor --fix` makes.
pub(crate) fn box_user() -> Option<BoxUser> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    BoxUser::find(&passwd, BoxUser::NAME)
}

impl Context {
    /// What boxes of an instance are like.
    pub(crate) fn box_shape(&self, settings: &Settings) -> BoxShape {
        let home = host::home();
        let kernel = ["/proc", "/sys", "/dev"].map(PathBuf::from);
        let mut hidden: Vec<PathBuf> = HIDDEN.iter().map(|(path, _)| below(&home, path)).chain(kernel).collect();
        hidden.push(self.data.root().to_owned());
        let mebibytes = |count: u32| u64::from(count) << 20;
        let BoxSettings { processes, memory_mb, disk_mb, open_files, .. } = &settings.boxes;
        let secrets = settings.secrets.value.iter();
        let (people, allowance) = (settings.people.value.clone(), settings.allowance());
        BoxShape {
            hidden,
            limits: BoxLimits {
                processes: processes.value,
                memory_bytes: mebibytes(memory_mb.value),
                disk_bytes: mebibytes(disk_mb.value),
                open_files: open_files.value,
            },
            host_env: host::variables(),
            secrets: secrets.map(|(name, source)| (name.clone(), read_secret(&home, source))).collect(),
            key_variables: settings.models.key_variables().into_iter().map(str::to_owned).collect(),
            keys: models::keys(&settings.models),
            domain: settings.agents_domain.value.clone(),
            co_author: CoAuthors::new(move |who| co_author(&people, who)),
            ceiling: Ceiling::new(move |rules| excess(&allowance, rules)),
            home,
        }
    }
}

/// What of the rules is too much, and what helps.
fn excess(allowance: &Allowance, rules: &BoxRules) -> Option<String> {
    // Whether there is such a secret is told where its value is read.
    let mut all = allowance.excess(rules).into_iter().filter(|excess| excess.key != "secrets");
    let first = all.next()?;
    let more = match all.count() {
        0 => String::new(),
        count => format!(", and {count} more"),
    };
    Some(format!("box: {}{more}; {}", first.message, first.help))
}

/// A path of a rule, `~` resolved.
fn below(home: &Path, path: &str) -> PathBuf {
    path.strip_prefix("~/").map_or_else(|| PathBuf::from(path), |rest| home.join(rest))
}

/// The value of a secret, or why there is none. Read once, when somebody begins to carry flows on.
pub(crate) fn read_secret(home: &Path, source: &SecretSource) -> Result<String, String> {
    let value = match source {
        SecretSource::Variable(name) => {
            host::variable(name).ok_or_else(|| format!("the variable {name} is not set"))?
        }
        SecretSource::File(path) => {
            let text = std::fs::read_to_string(below(home, path)).map_err(|error| format!("`{path}`: {error}"))?;
            text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text).to_owned()
        }
    };
    if value.is_empty() { Err("it is empty".to_owned()) } else { Ok(value) }
}

/// The line that names somebody of the settings who has an account of GitHub with a login.
fn co_author(people: &BTreeMap<String, Person>, who: &Principal) -> Option<String> {
    let is = |name: &str, person: &Person| match who {
        Principal::Os(uid) => person.os == Some(*uid),
        Principal::Github(id) => person.github == Some(*id),
        Principal::Person(known) => known == name,
        Principal::Token(_) | Principal::Agent(_) | Principal::System => false,
    };
    let (name, person) = people.iter().find(|(name, person)| is(name, person))?;
    // Their name in the settings is their login, as far as anybody has said.
    Some(Author::github(person.github?, name).ok()?.co_authored_by())
}

impl Context {
    /// Private copies of this data directory, for an instance that may hold it or not.
    pub(crate) fn worktrees(&self, instance: InstanceId) -> Arc<dyn Worktrees> {
        // Mistakes in settings end whoever starts something; here they only keep copies closed.
        let settings = self.settings(&LimitArgs::default()).map_err(|error| error.to_string());
        let root = self.data.worktrees();
        let at = root.clone();
        let clock = host::clock();
        let data = self.data.clone();
        let open = move || {
            // First, so that what lies in it is closed to others from the beginning.
            data.make().map_err(|error| Closed::Other(format!("{:#}", anyhow::Error::from(error))))?;
            let settings = settings.as_ref().map_err(|error| Closed::Other(error.clone()))?;
            open_worktrees(at.clone(), (instance, Arc::clone(&clock)), settings)
        };
        Arc::new(OnDemand { open: Box::new(open), opened: OnceLock::new(), root })
    }
}

/// How the settings want copies to be made. Without a word of theirs, a plain copy will do where a command is only to run
/// a pipeline: that it is one is shown by `doctor` and `worktrees list`.
const fn choice(strategy: Strategy) -> Choice {
    match strategy {
        Strategy::Auto => Choice::Auto { allow_clone: true },
        Strategy::Overlay => Choice::Fixed(orc_worktree::Strategy::Overlay),
        Strategy::Btrfs => Choice::Fixed(orc_worktree::Strategy::Btrfs),
        Strategy::Clone => Choice::Fixed(orc_worktree::Strategy::Clone),
    }
}

fn open_worktrees(
    root: PathBuf,
    (instance, clock): (InstanceId, Arc<dyn Clock>),
    settings: &Settings,
) -> Result<Arc<dyn Worktrees>, Closed> {
    let sandbox = sandbox(settings).map_err(|missing| {
        let lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
        Closed::NoBox(lines.join("; "))
    })?;
    let owner = sandbox.user();
    let author = Author::pipeline("orchestrator", &settings.agents_domain.value);
    let author = author.map_err(|error| Closed::Other(error.to_string()))?;
    let options = Options {
        root,
        instance,
        owner: (host::user() == 0).then_some(Owner { uid: owner.uid, gid: owner.gid }),
        choice: choice(settings.strategy.value),
        author,
        program_path: host::variable("PATH").unwrap_or_default(),
        boxes: Arc::new(InBox(sandbox)),
        clock,
        max_file_bytes: u64::from(settings.max_file_mb.value) << 20,
    };
    let opened = GitWorktrees::open(options).map_err(anyhow::Error::from);
    let opened = opened.map_err(|error| Closed::Other(format!("{error:#}")))?;
    Ok(Arc::new(opened))
}

/// Opens private copies.
type Open = dyn Fn() -> Result<Arc<dyn Worktrees>, Closed> + Send + Sync;

/// Why private copies cannot be opened.
#[derive(Clone)]
enum Closed {
    /// There is no box for git to work in.
    NoBox(String),
    /// Something else.
    Other(String),
}

/// Private copies that are opened when somebody wants one.
struct OnDemand {
    open: Box<Open>,
    opened: OnceLock<Result<Arc<dyn Worktrees>, Closed>>,
    /// Where they lie.
    root: PathBuf,
}

impl OnDemand {
    /// There can be copies only if this is there.
    fn copies(&self) -> PathBuf {
        self.root.join("copies")
    }

    fn get(&self) -> Result<&Arc<dyn Worktrees>, WorktreeError> {
        let opened = self.opened.get_or_init(|| (self.open)());
        opened.as_ref().map_err(|closed| match closed.clone() {
            Closed::NoBox(what) => WorktreeError::Box { what },
            Closed::Other(what) => WorktreeError::Unavailable { what },
        })
    }

    /// Calls what is opened, or gives why it cannot be.
    fn call<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&'a dyn Worktrees) -> BoxFuture<'a, Result<T, WorktreeError>>,
    ) -> BoxFuture<'a, Result<T, WorktreeError>> {
        match self.get() {
            Ok(worktrees) => work(worktrees.as_ref()),
            Err(error) => async { Err(error) }.boxed(),
        }
    }
}

impl Worktrees for OnDemand {
    fn pin(&self, directory: PathBuf, wanted: Vec<RepositorySpec>) -> BoxFuture<'_, Result<Pinned, WorktreeError>> {
        self.call(|worktrees| worktrees.pin(directory, wanted))
    }

    fn prepare(
        &self,
        conversation: Conversation,
        run: RunId,
        copy: PrivateCopy,
    ) -> BoxFuture<'_, Result<Prepared, WorktreeError>> {
        self.call(|worktrees| worktrees.prepare(conversation, run, copy))
    }

    fn harvest(&self, harvest: Harvest) -> BoxFuture<'_, Result<Harvested, WorktreeError>> {
        self.call(|worktrees| worktrees.harvest(harvest))
    }

    fn extract(
        &self,
        conversation: Conversation,
        path: String,
        to: PathBuf,
        bytes: u64,
    ) -> BoxFuture<'_, Result<(), ExtractError>> {
        match self.get() {
            Ok(worktrees) => worktrees.extract(conversation, path, to, bytes),
            Err(error) => async { Err(ExtractError::Copy(error)) }.boxed(),
        }
    }

    fn caches(
        &self,
        run: RunId,
        repositories: Vec<Repository>,
        names: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<Mount>, WorktreeError>> {
        self.call(|worktrees| worktrees.caches(run, repositories, names))
    }

    fn promote(&self, run: RunId) -> BoxFuture<'_, Result<(), WorktreeError>> {
        self.call(|worktrees| worktrees.promote(run))
    }

    fn release(&self, run: RunId) -> BoxFuture<'_, Result<(), WorktreeError>> {
        self.call(|worktrees| worktrees.release(run))
    }

    fn discard(&self, conversation: Conversation, run: RunId) -> BoxFuture<'_, Result<(), WorktreeError>> {
        self.call(|worktrees| worktrees.discard(conversation, run))
    }

    fn join(&self, conversation: Conversation, copy: PrivateCopy) -> BoxFuture<'_, Result<Tree, WorktreeError>> {
        self.call(|worktrees| worktrees.join(conversation, copy))
    }

    fn collect(&self, flow: FlowId) -> BoxFuture<'_, Result<Freed, WorktreeError>> {
        if self.opened.get().is_none() && !self.copies().exists() {
            return async { Ok(Freed::default()) }.boxed();
        }
        self.call(|worktrees| worktrees.collect(flow))
    }

    fn owners(&self) -> BoxFuture<'_, Result<Owners, WorktreeError>> {
        let is_empty = |name| std::fs::read_dir(self.root.join(name)).is_ok_and(|mut all| all.next().is_none());
        if self.opened.get().is_none() && (!self.copies().exists() || ["copies", "homes"].into_iter().all(is_empty)) {
            return async { Ok(Owners::default()) }.boxed();
        }
        self.call(|worktrees| worktrees.owners())
    }

    fn tidy(&self) -> BoxFuture<'_, Result<u64, WorktreeError>> {
        if self.opened.get().is_none() && !self.copies().exists() {
            return async { Ok(0) }.boxed();
        }
        self.call(|worktrees| worktrees.tidy())
    }

    fn forget(&self, flows: BTreeSet<FlowId>, needed: BTreeSet<CommitId>) -> BoxFuture<'_, Result<(), WorktreeError>> {
        if flows.is_empty() || (self.opened.get().is_none() && !self.copies().exists()) {
            return async { Ok(()) }.boxed();
        }
        self.call(|worktrees| worktrees.forget(flows, needed))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<CopyEntry>, WorktreeError>> {
        if self.opened.get().is_none() && !self.copies().exists() {
            return async { Ok(Vec::new()) }.boxed();
        }
        self.call(|worktrees| worktrees.list())
    }

    fn diff(&self, conversation: Conversation, bytes: u64) -> BoxFuture<'_, Result<String, WorktreeError>> {
        self.call(|worktrees| worktrees.diff(conversation, bytes))
    }

    fn rescue(&self, conversation: Conversation) -> BoxFuture<'_, Result<Vec<SavedRef>, WorktreeError>> {
        self.call(|worktrees| worktrees.rescue(conversation))
    }

    fn saved(&self, repositories: &[Repository], tips: &[Tip]) -> Vec<SavedRef> {
        if tips.is_empty() {
            return Vec::new();
        }
        self.get().map(|worktrees| worktrees.saved(repositories, tips)).unwrap_or_default()
    }

    fn rescued(&self, flow: FlowId, repositories: &[Repository]) -> Vec<SavedRef> {
        if repositories.is_empty() || !self.copies().exists() {
            return Vec::new();
        }
        self.get().map(|worktrees| worktrees.rescued(flow, repositories)).unwrap_or_default()
    }
}

/// Bounds of a box in which git looks at a copy: it must manage any repository, and an agent's leftovers must not eat the
/// machine.
const GIT_LIMITS: BoxLimits = BoxLimits { processes: 256, memory_bytes: 8 << 30, disk_bytes: 0, open_files: 4096 };

/// Boxes for git.
pub(crate) struct InBox(pub(crate) Sandbox);

impl orc_worktree::Boxes for InBox {
    fn run(&self, command: orc_worktree::Command) -> Result<orc_worktree::Said, String> {
        let orc_worktree::Command { argv, env, mounts, home, wall, output_bytes } = command;
        let (masked, network, doors) = (Vec::new(), BTreeSet::new(), Vec::new());
        let confinement = Confinement { mounts, home, masked, network, doors, limits: GIT_LIMITS };
        let finished = self.0.run(BoxedCommand {
            confinement: &confinement,
            argv: &argv,
            env: &env,
            directory: Path::new("/"),
            stdin: Stdin::None,
            stdout: Stdout::Kept { bytes: usize::try_from(output_bytes).unwrap_or(usize::MAX) },
            wall: Duration::from_millis(wall.as_millis()),
        });
        let finished = finished.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
        let code = match finished.exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) => None,
        };
        Ok(orc_worktree::Said { code, output: finished.stdout, error: finished.stderr_tail })
    }
}
