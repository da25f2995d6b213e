//! Keeps what runs left: commits in our own repository, held by references.
//!
//! A box reads the copy and writes a pack; here the pack is checked and taken. What a box says is data: commit ids are
//! parsed, the pack is checked object by object, and nothing is named by a reference before it is whole.

use std::path::{Path, PathBuf};

use orc_domain::identity::Author;
use orc_domain::time::{Millis, Timestamp};
use orc_domain::tree::{CommitId, Conflict, MAX_CONFLICT_FILES, Tree};
use orc_ports::executor::{Mount, Source};
use orc_ports::worktrees::{Conversation, Harvest, Harvested, SavedRef, WorktreeError};

use crate::inside::{self, Exchange, Fields, Script};
use crate::manifest::{Content, Manifest, Part};
use crate::store::{Store, date};
use crate::strategy::Strategy;
use crate::{Trees, files, names, store};

/// How long looking at a copy may take.
const WALL: Millis = Millis::from_secs(600);
const SCRIPT: &str = concat!(include_str!("scripts/large.sh"), include_str!("scripts/harvest.sh"));
/// Where the ground of a copy is, read-only, beside the copy.
const GROUND: &str = "/orc/ground";
/// The repository of ours that looks at a copy. Objects of others may come with a graph or an index that lies.
const CONFIGURATION: &str = "\
[core]
\trepositoryformatversion = @
\tbare = false
\tfileMode = true
\tlogAllRefUpdates = false
\tcommitGraph = false
\tmultiPackIndex = false
\tfsmonitor = false
\tuntrackedCache = false
\thooksPath = /dev/null
[index]
\tsparse = false
[gc]
\tauto = 0
";
/// Notes of one kind that are passed on.
const MOST_NOTES: usize = 20;

/// What is to be read out of a copy.
struct Wanted<'a> {
    author: &'a Author,
    message: String,
    at: Timestamp,
    /// Only a patch of at most so many bytes.
    diff: Option<u64>,
}

/// What was read out of the copy of one repository.
struct Taken {
    result: CommitId,
    /// Further commits, and where they were.
    left: Vec<(CommitId, String)>,
    /// What could not be kept.
    lost: Vec<String>,
    notes: Vec<String>,
    unresolved: Vec<String>,
    /// Files that are too large for a commit, with their bytes.
    large: Vec<(u64, String)>,
    diff: Vec<u8>,
}

impl Trees {
    pub(crate) fn harvest(&self, harvest: &Harvest) -> Result<Harvested, WorktreeError> {
        let directory = self.directory_of(&harvest.conversation);
        let lock = self.locks.of(&directory);
        let _held = crate::held(&lock);
        let found = self.known(&harvest.conversation)?;
        if found.run != harvest.run {
            let what = format!("the copy of `{}` belongs to {} now", harvest.conversation.path, found.run);
            return Err(WorktreeError::Box { what });
        }
        let prefix = names::references(&harvest.conversation);
        let name = format!("{prefix}/{}", harvest.attempt);
        let mut kept = Harvested { tree: Tree::default(), notes: Vec::new() };
        if self.is_untouched(&found)? {
            // Nothing lies in the layers of changes, so no box has to look.
            kept.tree = found.start();
            self.hold(&found, &kept.tree, &name)?;
            return self.close(&directory, found, Content::Saved, kept);
        }
        let mut message = format!("{}\n", harvest.conversation.path);
        if !harvest.trailers.is_empty() {
            message += &format!("\n{}\n", harvest.trailers.join("\n"));
        }
        let mut content = Content::Saved;
        let mut conflict = None;
        for part in found.parts.clone() {
            let wanted = Wanted { author: &harvest.author, message: message.clone(), at: harvest.at, diff: None };
            let taken = self.read_part(&found, &part, &wanted)?;
            let mut references = vec![(name.clone(), taken.result.clone())];
            let lefts = taken.left.iter().enumerate();
            references.extend(
                lefts.map(|(at, (commit, _))| (format!("{prefix}/left/{}-{at}", harvest.attempt), commit.clone())),
            );
            let store = self.store_of(&part.repository);
            references.extend(displaced(&store, &name, &taken.result, &format!("{prefix}/left/{}", harvest.attempt))?);
            store.set(&references)?;
            kept.notes.extend(notes(&part, &taken, &references[1..]));
            if !taken.lost.is_empty() {
                content = Content::Unsaved;
            }
            match result_of(&found, &part, taken) {
                Ok(result) => {
                    store.set(&[(name.clone(), result.clone())])?;
                    kept.tree.0.insert(part.repository.path.clone(), result);
                }
                Err(still) => conflict = conflict.or(Some(still)),
            }
        }
        let kept = self.close(&directory, found, content, kept)?;
        conflict.map_or(Ok(kept), |conflict| Err(WorktreeError::Conflict(conflict)))
    }

    fn hold(&self, found: &Manifest, tree: &Tree, name: &str) -> Result<(), WorktreeError> {
        for part in &found.parts {
            if let Some(commit) = tree.0.get(&part.repository.path) {
                self.store_of(&part.repository).set(&[(name.to_owned(), commit.clone())])?;
            }
        }
        Ok(())
    }

    fn close(
        &self,
        directory: &Path,
        found: Manifest,
        content: Content,
        kept: Harvested,
    ) -> Result<Harvested, WorktreeError> {
        Manifest { lease: None, content, notes: kept.notes.clone(), ..found }.write(directory)?;
        Ok(kept)
    }

    /// Reads one repository of a copy in a box, and takes its commits.
    fn read_part(&self, found: &Manifest, part: &Part, wanted: &Wanted<'_>) -> Result<Taken, WorktreeError> {
        let mut taken = self.read_in_mode(found, part, wanted, "full");
        if taken.is_err() {
            // Its own repository is in the way: its files are read without asking it anything.
            taken = self.read_in_mode(found, part, wanted, "files");
        }
        taken
    }

    fn read_in_mode(
        &self,
        found: &Manifest,
        part: &Part,
        wanted: &Wanted<'_>,
        mode: &str,
    ) -> Result<Taken, WorktreeError> {
        let store = self.store_of(&part.repository);
        let exchange = Exchange::new(&self.root, self.owner)?;
        self.lay_out(&exchange, &store, part, found.strategy)?;
        let message = exchange.path.join("message");
        std::fs::write(&message, &wanted.message).map_err(files::failed("write", &message))?;
        if part.start != part.ground {
            store.pack(&[&part.start], &[&part.ground], &exchange.path.join("in.pack"))?;
        }
        let script = Script {
            text: SCRIPT,
            env: self.variables(part, wanted, mode),
            mounts: self.mounts(found, part, &exchange)?,
            exchange: &exchange.path,
            wall: WALL,
        };
        let said = inside::run(self.boxes.as_ref(), "keep what is in a copy of", &part.repository.source, script)?;
        let mut taken = read(&said, &store)?;
        if let Some(bytes) = wanted.diff {
            let mut file = files::open_left(&exchange.path.join("diff"), bytes)?;
            std::io::Read::read_to_end(&mut file, &mut taken.diff)
                .map_err(files::failed("read", &exchange.path.join("diff")))?;
            return Ok(taken);
        }
        let pack = files::open_left(&exchange.path.join("out.pack"), store::PACK_BYTES)?;
        let all: Vec<&CommitId> = std::iter::once(&taken.result).chain(taken.left.iter().map(|(one, _)| one)).collect();
        store.take(pack, &all)?;
        self.take_large_files(&store, &exchange.path)?;
        Ok(taken)
    }

    /// A repository of ours in the exchange, which looks at the copy's files and at all objects there are.
    fn lay_out(
        &self,
        exchange: &Exchange,
        store: &Store<'_>,
        part: &Part,
        strategy: Strategy,
    ) -> Result<(), WorktreeError> {
        let format = store.format()?;
        let (version, extension) = match format.as_str() {
            "sha1" => ("0", String::new()),
            other => ("1", format!("[extensions]\n\tobjectFormat = {other}\n")),
        };
        let stat =
            if strategy == Strategy::Clone { "[core]\n\tcheckStat = minimal\n\ttrustctime = false\n" } else { "" };
        let config = CONFIGURATION.replace('@', version) + stat + &extension;
        let mut modules = String::new();
        for layer in &part.layers {
            modules += &modules_in(&self.root.join(layer).join(".git/modules"))?;
        }
        for name in ["git", "known"] {
            let git = exchange.path.join(name);
            for directory in ["", "objects", "objects/info", "objects/pack", "refs", "info"] {
                files::make_open(&git.join(directory), self.owner)?;
            }
            let own = [("HEAD", "ref: refs/heads/none\n"), ("config", config.as_str())];
            // What the ground has of submodules is known; what else a copy has of them is not.
            let alternates = if name == "git" { format!("{GROUND}/.git/objects\n{modules}") } else { modules.clone() };
            for (file, text) in own.into_iter().chain([("objects/info/alternates", alternates.as_str())]) {
                self.give(&git.join(file), text.as_bytes())?;
            }
        }
        // The index of the ground knows the times of all files that nobody touched. With layers, the topmost one holds.
        let mut indexes = part.layers.iter().map(|layer| self.root.join(layer).join(".git/index"));
        if let Some(index) = indexes.find(|index| files::exists(index)) {
            let bytes = std::fs::read(&index).map_err(files::failed("read", &index))?;
            self.give(&exchange.path.join("git/index"), &bytes)?;
        }
        Ok(())
    }

    /// Writes a file that the box may change.
    fn give(&self, path: &Path, bytes: &[u8]) -> Result<(), WorktreeError> {
        std::fs::write(path, bytes).map_err(files::failed("write", path))?;
        if let Some(owner) = self.owner {
            std::os::unix::fs::lchown(path, Some(owner.uid), Some(owner.gid))
                .map_err(files::failed("hand over", path))?;
        }
        Ok(())
    }

    fn mounts(&self, found: &Manifest, part: &Part, exchange: &Exchange) -> Result<Vec<Mount>, WorktreeError> {
        let lower: Vec<PathBuf> = part.layers.iter().map(|layer| self.root.join(layer)).collect();
        let ground = match (found.strategy, lower.as_slice()) {
            (Strategy::Overlay, [_, _, ..]) => {
                let (upper, work) = (exchange.path.join("ground"), exchange.path.join("ground-work"));
                files::make_open(&upper, self.owner)?;
                files::make_directory(&work)?;
                Source::Layers { lower, upper, work }
            }
            (_, [one, ..]) => Source::Path(one.clone()),
            (_, []) => Source::Path(self.root.join(&part.directory)),
        };
        Ok(vec![
            Mount { source: self.source_of(found.strategy, part), at: PathBuf::from(crate::WORK), writable: true },
            Mount { source: ground, at: PathBuf::from(GROUND), writable: false },
        ])
    }

    fn variables(&self, part: &Part, wanted: &Wanted<'_>, mode: &str) -> Vec<(&'static str, String)> {
        let Wanted { author, at, diff, .. } = wanted;
        let mut env = vec![
            ("W", crate::WORK.to_owned()),
            ("MODE", mode.to_owned()),
            ("START", part.start.to_string()),
            ("GROUND", part.ground.to_string()),
            ("MOST", self.max_file_bytes.to_string()),
            ("GIT_AUTHOR_NAME", author.name().to_owned()),
            ("GIT_AUTHOR_EMAIL", author.email().to_owned()),
            ("GIT_AUTHOR_DATE", date(*at)),
            ("GIT_COMMITTER_NAME", author.name().to_owned()),
            ("GIT_COMMITTER_EMAIL", author.email().to_owned()),
            ("GIT_COMMITTER_DATE", date(*at)),
        ];
        env.extend(diff.map(|bytes| ("DIFF", bytes.to_string())));
        env
    }

    pub(crate) fn diff(&self, conversation: &Conversation, bytes: u64) -> Result<String, WorktreeError> {
        let directory = self.directory_of(conversation);
        let lock = self.locks.of(&directory);
        let _held = crate::held(&lock);
        let found = self.known(conversation)?;
        self.refuse_leased(&found)?;
        let mut text = String::new();
        for part in &found.parts {
            let author = self.author.clone();
            let wanted = Wanted { author: &author, message: String::new(), at: self.clock.now(), diff: Some(bytes) };
            let taken = self.read_part(&found, part, &wanted)?;
            if found.parts.len() > 1 && !taken.diff.is_empty() {
                text += &format!("# {}\n", part.repository.path);
            }
            text += &String::from_utf8_lossy(&taken.diff);
        }
        Ok(text)
    }

    pub(crate) fn rescue(&self, conversation: &Conversation) -> Result<Vec<SavedRef>, WorktreeError> {
        let directory = self.directory_of(conversation);
        let lock = self.locks.of(&directory);
        let _held = crate::held(&lock);
        let found = self.known(conversation)?;
        self.refuse_leased(&found)?;
        let saved = self.rescue_copy(&found)?;
        Manifest { lease: None, content: Content::Saved, ..found }.write(&directory)?;
        Ok(saved)
    }

    fn refuse_leased(&self, found: &Manifest) -> Result<(), WorktreeError> {
        match found.lease {
            Some(lease) if lease == self.instance => {
                let what = format!("{} works in the copy of `{}`; look again when it is over", found.run, found.path);
                Err(WorktreeError::Box { what })
            }
            _ => Ok(()),
        }
    }

    /// Writes what is in a copy and what nothing holds yet to rescue references.
    pub(crate) fn rescue_copy(&self, found: &Manifest) -> Result<Vec<SavedRef>, WorktreeError> {
        let now = self.clock.now();
        let prefix = format!("refs/orc/rescue/{}/{}", names::conversation(&found.conversation()), now.as_millis());
        let mut saved = Vec::new();
        for part in &found.parts {
            let author = self.author.clone();
            let message = format!("Rescue what was left in {}\n", found.path);
            let taken = self.read_part(found, part, &Wanted { author: &author, message, at: now, diff: None })?;
            if let Some(lost) = taken.lost.first() {
                let why = format!("{lost} cannot be read");
                let repository = part.repository.source.clone();
                return Err(WorktreeError::Git { what: "rescue everything", repository, why });
            }
            for note in left_out(&taken.large) {
                tracing::warn!(flow = %found.flow, step = %found.path, note, "not everything of a copy is rescued");
            }
            let store = self.store_of(&part.repository);
            let named = taken.left.into_iter().enumerate().map(|(at, (commit, _))| (format!("left-{at}"), commit));
            let mut references = Vec::new();
            for (name, commit) in std::iter::once(("work".to_owned(), taken.result)).chain(named) {
                if commit != part.start && !self.is_saved(&store, &found.conversation(), &commit)? {
                    references.push((format!("{prefix}/{name}"), commit));
                }
            }
            store.set(&references)?;
            saved.extend(references.into_iter().map(|(name, _)| SavedRef {
                repository: part.repository.path.clone(),
                store: store.path.clone(),
                name,
            }));
        }
        Ok(saved)
    }

    /// Whether a reference reaches a commit, or the conversation has one with the same files and parents: what was
    /// uncommitted becomes another commit each time it is read.
    fn is_saved(
        &self,
        store: &Store<'_>,
        conversation: &Conversation,
        commit: &CommitId,
    ) -> Result<bool, WorktreeError> {
        if store.is_held(commit)? {
            return Ok(true);
        }
        let wanted = store.content_of(commit)?;
        let whose = names::conversation(conversation);
        for prefix in [format!("refs/orc/{whose}"), format!("refs/orc/rescue/{whose}")] {
            for (_, known) in store.list(&prefix)? {
                if store.content_of(&known)? == wanted {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

fn read(said: &Fields, store: &Store<'_>) -> Result<Taken, WorktreeError> {
    let result = store.commit_in(said.get("result").unwrap_or_default())?;
    let mut left = Vec::new();
    for line in said.all("left") {
        let (commit, what) = line.split_once(' ').unwrap_or((line, ""));
        left.push((store.commit_in(commit)?, what.to_owned()));
    }
    let all = |key: &'static str| said.all(key).map(str::to_owned).collect::<Vec<String>>();
    let large = said.all("large").filter_map(|line| {
        let (bytes, path) = line.split_once(' ')?;
        Some((bytes.parse().ok()?, path.to_owned()))
    });
    Ok(Taken {
        result,
        left,
        lost: all("lost"),
        notes: all("note"),
        unresolved: all("unresolved"),
        large: large.collect(),
        diff: Vec::new(),
    })
}

/// What a reference held that its new commit does not reach, under a name of its own: whoever asks twice with the same
/// attempt must not lose what was kept first.
fn displaced(
    store: &Store<'_>,
    name: &str,
    by: &CommitId,
    beside: &str,
) -> Result<Option<(String, CommitId)>, WorktreeError> {
    let before = store.list(name)?.into_iter().find(|(found, _)| found == name).map(|(_, commit)| commit);
    let Some(before) = before else { return Ok(None) };
    let name = format!("{beside}-before-{}", before.short());
    Ok((!store.contains(by, &before)?).then_some((name, before)))
}

/// What a part hands on, or the conflict that is still in it. Other tips that contradict it too are merged with it next, and
/// may need somebody once more.
fn result_of(found: &Manifest, part: &Part, taken: Taken) -> Result<CommitId, Conflict> {
    match (&part.theirs, &found.conflict) {
        (Some(_), Some(conflict)) if !taken.unresolved.is_empty() => Err(still(conflict, part, taken.unresolved)),
        _ => Ok(taken.result),
    }
}

/// The conflict that a copy still holds.
fn still(conflict: &Conflict, part: &Part, mut unresolved: Vec<String>) -> Conflict {
    let count = u32::try_from(unresolved.len()).unwrap_or(u32::MAX);
    unresolved.truncate(MAX_CONFLICT_FILES);
    Conflict { repository: part.repository.path.clone(), files: unresolved, count, ..conflict.clone() }
}

/// What people should know about what was kept of a part.
fn notes(part: &Part, taken: &Taken, beside: &[(String, CommitId)]) -> Vec<String> {
    let mut notes: Vec<String> = taken.notes.iter().take(MOST_NOTES).cloned().collect();
    for ((_, what), (reference, _)) in taken.left.iter().zip(beside).take(MOST_NOTES) {
        let what = match what.split_once(' ') {
            Some(("nested", path)) => format!("the repository `{path}` inside of it"),
            Some(("submodule", path)) => format!("what was changed in the submodule `{path}`"),
            _ if what == "stash" => "a stash".to_owned(),
            _ => format!("`{}`", what.trim_start_matches("refs/heads/")),
        };
        notes.push(format!("{what} is not part of the result; `{reference}` holds it"));
    }
    notes.extend(taken.lost.iter().take(MOST_NOTES).map(|what| format!("cannot be kept: {what}")));
    notes.extend(left_out(&taken.large));
    if part.theirs.is_none() && !taken.unresolved.is_empty() {
        let files = taken.unresolved.iter().take(MOST_NOTES).cloned().collect::<Vec<_>>().join(", ");
        notes.push(format!("conflicts that nobody resolved: {files}"));
    }
    match part.repository.path.as_str() {
        "." => notes,
        path => notes.into_iter().map(|note| format!("{path}: {note}")).collect(),
    }
}

/// Files that are no part of any commit because of their size.
fn left_out(large: &[(u64, String)]) -> Vec<String> {
    let one = |(bytes, path): &(u64, String)| {
        format!(
            "`{path}` has {} MiB, more than `worktree.max_file_mb` of the settings: it is in no commit, and goes with the \
             copy; ignore it, keep it by `artifacts:`, or raise the bound",
            bytes >> 20
        )
    };
    let mut notes: Vec<String> = large.iter().take(MOST_NOTES).map(one).collect();
    if large.len() > MOST_NOTES {
        notes.push(format!("and {} more such files", large.len() - MOST_NOTES));
    }
    notes
}

/// Directories of objects of submodules in a layer of a ground, as they are called in the box, one a line.
fn modules_in(directory: &Path) -> Result<String, WorktreeError> {
    let mut lines = String::new();
    let mut open = vec![(directory.to_owned(), format!("{GROUND}/.git/modules"))];
    while let Some((directory, called)) = open.pop() {
        for name in files::names_in(&directory)? {
            let (path, called) = (directory.join(&name), format!("{called}/{name}"));
            if path.join("objects").is_dir() {
                lines += &format!("{called}/objects\n");
                open.push((path.join("modules"), format!("{called}/modules")));
            } else if path.is_dir() {
                open.push((path, called));
            }
        }
    }
    Ok(lines)
}
