//! Where a run works: from what the flow decided to a copy that is there, a box that is described, and what is kept of
//! both when the run is over.
//!
//! A run in a box sees nothing of the environment but a list; a secret is read where it is used and never stored. What a
//! run changed in its copy is kept before its flow hears that it delivered; of one that did not deliver the copy stays as
//! it is, for whoever goes on in it or rescues it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orc_domain::confine::BoxRules;
use orc_domain::identity::Author;
use orc_domain::ids::{AgentId, FlowId, RunId};
use orc_domain::input::Ending;
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::run::{Cause, ErrorFamily, Failure};
use orc_domain::tree::{Place, PrivateCopy, Tree};
use orc_ports::executor::{BoxLimits, Confinement, Mount, Secrets, Source};
use orc_ports::reader::Reader;
use orc_ports::worktrees::{Conversation, Harvest, Prepared, WorktreeError, Worktrees};

use crate::data_dir::DataDir;
use crate::run_log;
use crate::shell::{Shell, chain};

/// Where an empty place to work is, inside a box.
const WORK: &str = "/workspace";
/// Variables of the machine that a box gets as they are: they say how people read, not what is where.
const PLAIN: &[&str] = &["LANG", "LANGUAGE", "TERM", "TZ", "NO_COLOR", "CI"];
/// Where programs of the system are, inside a box.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What boxes of this instance are like.
#[derive(Clone)]
pub struct BoxShape {
    /// The home of whoever runs this, which `~` in a rule means.
    pub home: PathBuf,
    /// Paths that no box may reach, even below one that it may read.
    pub hidden: Vec<PathBuf>,
    /// Bounds of each box.
    pub limits: BoxLimits,
    /// Variables of this process that rules may name.
    pub host_env: BTreeMap<String, String>,
    /// Secrets of the settings, by name; those that cannot be read say why.
    pub secrets: BTreeMap<String, Result<String, String>>,
    /// Variables that hold keys of providers of models: no box gets one, whatever a rule says.
    pub key_variables: BTreeSet<String>,
    /// Their values.
    pub keys: Vec<String>,
    /// The domain of the addresses of agents.
    pub domain: String,
    /// The line that names somebody as co-author, if they have an address.
    pub co_author: CoAuthors,
    /// What may be asked for at most.
    pub ceiling: Ceiling,
}

/// Says what of some rules is more than the settings of now allow, and what helps: a flow goes on with the definition that it
/// pinned, under settings that may be others by then.
#[derive(Clone)]
pub struct Ceiling(Arc<Judge>);

type Judge = dyn Fn(&BoxRules) -> Option<String> + Send + Sync;

impl Ceiling {
    /// Asks `of` each time.
    pub fn new(of: impl Fn(&BoxRules) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }
}

/// Says how somebody who asked for a flow is named in its commits.
#[derive(Clone)]
pub struct CoAuthors(Arc<Name>);

type Name = dyn Fn(&Principal) -> Option<String> + Send + Sync;

impl CoAuthors {
    /// Asks `of` each time.
    pub fn new(of: impl Fn(&Principal) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }
}

impl std::fmt::Debug for BoxShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoxShape").field("home", &self.home).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl BoxShape {
    /// Every value that no log may show.
    #[must_use]
    pub fn redacted(&self) -> Secrets {
        let named = self.secrets.values().filter_map(|value| value.as_ref().ok().cloned());
        Secrets::new(named.chain(self.keys.iter().cloned()))
    }

    /// A path of a rule, `~` resolved.
    fn resolve(&self, path: &str) -> PathBuf {
        match path.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => PathBuf::from(path),
        }
    }
}

/// What places are laid out with.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    pub(crate) worktrees: &'a dyn Worktrees,
    pub(crate) reader: &'a dyn Reader,
    pub(crate) data: &'a DataDir,
    pub(crate) boxes: &'a BoxShape,
}

/// Whose place it is.
pub(crate) struct Who<'a> {
    pub(crate) flow: FlowId,
    /// Under whose name copy and files lie: its flow's, but of a place that is like one that there was.
    pub(crate) lies: FlowId,
    pub(crate) run: RunId,
    pub(crate) path: &'a StepPath,
    pub(crate) attempt: u32,
    /// The agent's name; none: a command.
    pub(crate) agent: Option<&'a str>,
    /// What it is told beside its variables.
    pub(crate) told: Vec<&'a str>,
}

/// A place that is ready for a process.
pub(crate) struct Settled {
    pub(crate) directory: PathBuf,
    pub(crate) confinement: Option<Box<Confinement>>,
    /// All of its variables but those that the executor adds.
    pub(crate) env: BTreeMap<String, String>,
    /// What it is told of a conflict that its copy holds.
    pub(crate) conflict: Option<String>,
}

/// What is kept of a place when its run is over.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    conversation: Conversation,
    run: RunId,
    attempt: u32,
    copy: Option<PrivateCopy>,
    /// Where it worked, where that is a directory of the machine.
    directory: Option<PathBuf>,
    caches: bool,
    has_door: bool,
    author: Author,
    trailers: Vec<String>,
}

/// Makes the place ready; `own` are the variables of the step. Else says how the run ends without having begun.
pub(crate) async fn settle(
    shell: &Shell,
    who: &Who<'_>,
    place: Place,
    own: BTreeMap<String, String>,
) -> Result<Settled, Ending> {
    let means = shell.means();
    let (settled, left) = match place {
        Place::InPlace { directory } => {
            let mut env = shell.shape.host_env.clone();
            env.extend(own);
            let directory = PathBuf::from(directory);
            let left = left(means, who, None, Some(directory.clone())).await.map_err(|detail| not_started(&detail))?;
            (Settled { directory, confinement: None, env, conflict: None }, left)
        }
        Place::Boxed { copy, rules } => lay_out(means, who, (copy, rules), own).await?,
    };
    shell.places.enter(who.run, left);
    Ok(settled)
}

/// The same of a place in a box, whoever it is for; with what is to be kept of it.
pub(crate) async fn lay_out(
    means: Means<'_>,
    who: &Who<'_>,
    (copy, rules): (Option<PrivateCopy>, BoxRules),
    own: BTreeMap<String, String>,
) -> Result<(Settled, Left), Ending> {
    let Means { worktrees, data, boxes, .. } = means;
    if let Some(excess) = (boxes.ceiling.0)(&rules) {
        return Err(not_allowed(excess));
    }
    let conversation = Conversation { flow: who.lies, path: who.path.clone() };
    let prepared = match copy.clone() {
        Some(copy) => worktrees.prepare(conversation, who.run, copy).await.map_err(|error| not_prepared(&error))?,
        None => empty(data, who).map_err(|detail| not_started(&detail))?,
    };
    let directory = prepared.mounts.iter().find_map(|mount| match &mount.source {
        Source::Path(path) if copy.is_none() => Some(path.clone()),
        Source::Path(_) | Source::Layers { .. } => None,
    });
    let mut left = left(means, who, copy.clone(), directory).await.map_err(|detail| not_started(&detail))?;
    left.caches = !rules.cache.is_empty();
    let mut env = environment(boxes, &rules, own).map_err(|detail| not_started(&detail))?;
    name_author(&mut env, &left);
    let mut mounts = prepared.mounts;
    let repositories = copy.map(|copy| copy.repositories).unwrap_or_default();
    let names: Vec<String> = rules.cache.iter().cloned().collect();
    if !names.is_empty() {
        for name in &names {
            env.insert(format!("ORC_CACHE_{}", variable_name(name)), format!("/cache/{name}"));
        }
        let caches = worktrees.caches(who.run, repositories, names).await;
        mounts.extend(caches.map_err(|error| not_prepared(&error))?);
    }
    mounts.extend(ruled(boxes, &rules).map_err(|detail| not_started(&detail))?);
    let texts = env.values().map(String::as_str).chain(who.told.iter().copied());
    for path in handed(&data.kept(), texts) {
        if is_kin(means.reader, who.flow, &path).await {
            mounts.push(Mount { source: Source::Path(path.clone()), at: path, writable: false });
        }
    }
    let confinement = Confinement {
        masked: masked(boxes, &mounts),
        mounts,
        home: data.home(who.lies, who.path),
        network: rules.network,
        doors: Vec::new(),
        limits: boxes.limits,
    };
    let conflict = prepared.conflict.map(|conflict| conflict.to_string());
    Ok((Settled { directory: prepared.directory, confinement: Some(Box::new(confinement)), env, conflict }, left))
}

/// A directory of the step's own with nothing in it.
fn empty(data: &DataDir, who: &Who<'_>) -> Result<Prepared, String> {
    let directory = data.work(who.lies, who.path);
    // A command begins anew each time, as it would in a copy; an agent finds what it left.
    let emptied = if who.agent.is_some() { Ok(()) } else { std::fs::remove_dir_all(&directory) };
    let emptied =
        emptied.or_else(|error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) });
    let made = emptied.and_then(|()| std::fs::create_dir_all(&directory));
    // Who works in the box is another user than we, when we are root; others do not get as far as here.
    let open = || std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777));
    made.and_then(|()| open()).map_err(|error| format!("cannot make `{}`: {error}", directory.display()))?;
    let mount = Mount { source: Source::Path(directory), at: WORK.into(), writable: true };
    Ok(Prepared { mounts: vec![mount], directory: WORK.into(), start: Tree::default(), conflict: None })
}

async fn left(
    means: Means<'_>,
    who: &Who<'_>,
    copy: Option<PrivateCopy>,
    directory: Option<PathBuf>,
) -> Result<Left, String> {
    let boxes = means.boxes;
    let spec = match &copy {
        Some(_) => means.reader.flow_head(who.flow).await.ok().flatten().map(|(spec, _)| spec),
        None => None,
    };
    let (workspace, name) = match &spec {
        Some(spec) => (spec.workspace, spec.name.as_str()),
        None => (orc_domain::ids::WorkspaceId::default_workspace(), "orchestrator"),
    };
    let author = match who.agent {
        Some(agent) => Author::agent(agent, AgentId::of(workspace, agent), &boxes.domain),
        None => Author::pipeline(name, &boxes.domain),
    };
    let author = author.map_err(|error| format!("nobody can be named as author of commits: {error}"))?;
    let trailers = spec.and_then(|spec| (boxes.co_author.0)(&spec.requested_by)).into_iter().collect();
    Ok(Left {
        conversation: Conversation { flow: who.lies, path: who.path.clone() },
        run: who.run,
        attempt: who.attempt,
        copy,
        directory,
        caches: false,
        has_door: false,
        author,
        trailers,
    })
}

/// git takes author and committer from these; whoever names one himself wins.
fn name_author(env: &mut BTreeMap<String, String>, left: &Left) {
    for (key, value) in left.author.environment() {
        env.entry(key.to_owned()).or_insert(value);
    }
    if !left.trailers.is_empty() {
        env.entry("ORC_TRAILERS".to_owned()).or_insert_with(|| left.trailers.join("\n"));
    }
}

/// The variables of a run in a box: what people set for reading, what the rules name, secrets, and the step's own over all.
fn environment(
    boxes: &BoxShape,
    rules: &BoxRules,
    own: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    if let Some(name) = rules.env.intersection(&boxes.key_variables).next() {
        return Err(format!(
            "box: `env: [{name}]` would bring the key of a provider into the box; an agent with `model:` in its profile has a way to the model gateway instead"
        ));
    }
    let host = |name: &str| boxes.host_env.get(name).cloned();
    let plain = PLAIN.iter().copied().chain(rules.env.iter().map(String::as_str));
    let mut env: BTreeMap<String, String> =
        plain.filter_map(|name| host(name).map(|value| (name.to_owned(), value))).collect();
    env.extend(boxes.host_env.iter().filter(|(name, _)| name.starts_with("LC_")).map(|(k, v)| (k.clone(), v.clone())));
    env.insert("PATH".to_owned(), path_of(boxes, rules));
    for name in &rules.secrets {
        let value = match boxes.secrets.get(name) {
            Some(Ok(value)) => value.clone(),
            Some(Err(why)) => return Err(format!("box: the secret `{name}` cannot be read: {why}")),
            None => return Err(format!("box: the settings have no secret `{name}`; add it under `secrets:`")),
        };
        if boxes.keys.contains(&value) {
            return Err(format!("box: the secret `{name}` is the key of a provider of models, which no box gets"));
        }
        env.insert(name.clone(), value);
    }
    env.extend(own);
    Ok(env)
}

/// Directories of programs: those of ours that the box can see, then the system's.
fn path_of(boxes: &BoxShape, rules: &BoxRules) -> String {
    let seen: Vec<PathBuf> = rules.read.iter().chain(&rules.write).map(|path| boxes.resolve(path)).collect();
    let ours = boxes.host_env.get("PATH").map(String::as_str).unwrap_or_default();
    let visible = |directory: &&str| seen.iter().any(|path| Path::new(directory).starts_with(path));
    let mut parts: Vec<&str> = ours.split(':').filter(visible).collect();
    parts.extend(SYSTEM_PATH.split(':'));
    let mut known = BTreeSet::new();
    parts.retain(|part| known.insert(*part));
    parts.join(":")
}

/// Paths of the machine that the rules name. One that is not there is an error: a program would only miss it later.
fn ruled(boxes: &BoxShape, rules: &BoxRules) -> Result<Vec<Mount>, String> {
    let reads = rules.read.difference(&rules.write).map(|path| (path, false));
    let all = reads.chain(rules.write.iter().map(|path| (path, true)));
    let mut mounts = all
        .map(|(path, writable)| {
            let resolved = boxes.resolve(path);
            let real = resolved.canonicalize().map_err(|error| format!("box: `{path}` cannot be reached: {error}"))?;
            if let Some(hidden) = boxes.hidden.iter().find(|hidden| real.starts_with(hidden)) {
                return Err(format!("box: `{path}` lies in `{}`, which no box may reach", hidden.display()));
            }
            Ok(Mount { source: Source::Path(real), at: resolved, writable })
        })
        .collect::<Result<Vec<Mount>, String>>()?;
    // What lies deeper is mounted later, so that nothing hides it.
    mounts.sort_by(|one, two| one.at.cmp(&two.at));
    Ok(mounts)
}

/// Artifacts that a run was told of: files that are named below `kept`. They are at the same place inside, read-only.
fn handed<'a>(kept: &Path, texts: impl Iterator<Item = &'a str>) -> BTreeSet<PathBuf> {
    let Some(prefix) = kept.to_str() else { return BTreeSet::new() };
    let mut found = BTreeSet::new();
    for text in texts {
        for (at, _) in text.match_indices(prefix) {
            let rest = &text[at..];
            let end = rest.find(|letter: char| letter.is_whitespace() || "\"'`,;:()[]{}<>".contains(letter));
            let path = Path::new(&rest[..end.unwrap_or(rest.len())]);
            let below = path
                .strip_prefix(kept)
                .is_ok_and(|inner| inner.components().all(|part| matches!(part, std::path::Component::Normal(_))));
            // A file of ours, found without following a link: what else a text may name is not handed over.
            if below && path.symlink_metadata().is_ok_and(|about| about.is_file()) {
                found.insert(path.to_owned());
            }
        }
    }
    found
}

/// Whether an artifact belongs to a flow, to one below it, or to one that it carries on: a text from elsewhere may name any.
async fn is_kin(reader: &dyn Reader, flow: FlowId, artifact: &Path) -> bool {
    let owner = artifact.parent().and_then(Path::parent).and_then(Path::file_name);
    let Some(owner) = owner.and_then(crate::retention::flow_of) else { return false };
    let spec = async |flow| reader.flow_head(flow).await.ok().flatten().map(|(spec, _)| spec);
    let (mut below, mut above) = (Some(owner), Some(flow));
    while let Some(one) = below {
        if one == flow {
            return true;
        }
        below = spec(one).await.and_then(|spec| spec.parent).map(|parent| parent.flow);
    }
    while let Some(one) = above {
        if one == owner {
            return true;
        }
        above = spec(one).await.and_then(|spec| spec.retry_of);
    }
    false
}

/// Hidden paths that would show below what a box may reach.
fn masked(boxes: &BoxShape, mounts: &[Mount]) -> Vec<PathBuf> {
    let shown = mounts.iter().filter_map(|mount| match &mount.source {
        Source::Path(path) => Some((path, &mount.at)),
        Source::Layers { .. } => None,
    });
    let below = shown.flat_map(|(path, at)| {
        boxes.hidden.iter().filter_map(move |hidden| Some(at.join(hidden.strip_prefix(path).ok()?)))
    });
    below.collect()
}

fn variable_name(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' }).collect()
}

/// What a copy that cannot be made means.
pub(crate) fn not_prepared(error: &WorktreeError) -> Ending {
    let family = match error {
        WorktreeError::Conflict(conflict) => {
            let cause = Cause::Conflict(conflict.clone());
            return Ending::Failed(Failure { family: ErrorFamily::Unknown, cause, detail: String::new() });
        }
        WorktreeError::Box { .. }
        | WorktreeError::Git { .. }
        | WorktreeError::File { .. }
        | WorktreeError::Unavailable { .. }
        | WorktreeError::Unknown { .. } => ErrorFamily::SandboxInfrastructure,
        WorktreeError::NoRepository { .. }
        | WorktreeError::Empty { .. }
        | WorktreeError::NoCommit { .. }
        | WorktreeError::NoCopy { .. } => ErrorFamily::Unknown,
    };
    Ending::Failed(Failure { family, cause: Cause::Worktree, detail: chain(error) })
}

fn not_started(detail: &str) -> Ending {
    let family = ErrorFamily::SandboxInfrastructure;
    Ending::Failed(Failure { family, cause: Cause::Start, detail: detail.to_owned() })
}

/// A rule of the owner of the settings, which no other attempt gets past.
fn not_allowed(detail: String) -> Ending {
    Ending::Failed(Failure { family: ErrorFamily::PolicyDenied, cause: Cause::Start, detail })
}

/// Keeps what a run that delivered left in its copy; of any other the copy stays as it is.
pub(crate) async fn keep(shell: &Shell, left: &Left, delivered: bool) -> Result<Option<Tree>, WorktreeError> {
    let Some(copy) = left.copy.clone() else { return Ok(None) };
    if !delivered {
        shell.worktrees.release(left.run).await?;
        return Ok(None);
    }
    let harvest = Harvest {
        conversation: left.conversation.clone(),
        run: left.run,
        attempt: left.attempt,
        copy,
        author: left.author.clone(),
        trailers: left.trailers.clone(),
        at: shell.clock.now(),
    };
    let harvested = shell.worktrees.harvest(harvest).await?;
    if !harvested.notes.is_empty() {
        let log = shell.data.log(left.conversation.flow, left.run);
        if let Err(error) = run_log::note(&log, shell.clock.now(), &harvested.notes).await {
            let notes = harvested.notes.join("; ");
            tracing::warn!(run = %left.run, notes, %error, "the log of a run does not say what was not kept of its copy");
        }
    }
    if left.caches
        && let Err(error) = shell.worktrees.promote(left.run).await
    {
        tracing::warn!(run = %left.run, error = chain(&error), "a cache was not taken over");
    }
    Ok(Some(harvested.tree))
}

impl Left {
    /// Whether there is a copy to give back.
    pub(crate) const fn has_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Whether there is a way to models to be closed.
    pub(crate) const fn has_door(&self) -> bool {
        self.has_door
    }

    /// Where a file that is to be kept lies: in a copy, or below a directory of the machine.
    pub(crate) fn files(&self) -> Files<'_> {
        match (&self.copy, &self.directory) {
            (None, Some(directory)) => Files::Directory(directory),
            (Some(_), _) | (None, None) => Files::Copy(&self.conversation),
        }
    }
}

/// Where files of a run lie.
pub(crate) enum Files<'a> {
    Directory(&'a Path),
    Copy(&'a Conversation),
}

/// Places in use.
#[derive(Default)]
pub(crate) struct Places(std::sync::Mutex<BTreeMap<RunId, Left>>);

impl Places {
    fn enter(&self, run: RunId, left: Left) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(run, left);
    }

    /// The run has a way to models.
    pub(crate) fn note_door(&self, run: RunId) {
        let mut places = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(left) = places.get_mut(&run) {
            left.has_door = true;
        }
    }

    /// The place of a run that is over; once.
    pub(crate) fn leave(&self, run: RunId) -> Option<Left> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&run)
    }
}
