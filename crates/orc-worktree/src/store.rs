//! Our own bare repository of each source: all commits that flows start from, and all that runs left.
//!
//! Invariants: a reference is set only once everything that it reaches has been checked and is on disk. Objects that come
//! from a box are checked in a directory of their own, where nothing else sees them. No configuration of a source or of an
//! agent is ever read here; attributes come from the commits that are merged, and drivers would have to be in our own
//! configuration, which has none.

use std::fs::File;
use std::path::{Path, PathBuf};

use orc_domain::time::Timestamp;
use orc_domain::tree::CommitId;
use orc_ports::worktrees::{Author, WorktreeError};

use crate::files;
use crate::git::{Call, Git, Said, reason};
use crate::names;

/// Bytes of a pack that a box may hand out.
pub(crate) const PACK_BYTES: u64 = 8 << 30;

/// Packs that a repository may have before they are put together: each is looked into for each object.
const MOST_PACKS: usize = 50;
/// Loose objects in one of their 256 folders, and flows with loose references, at which they are packed; the first figure
/// is that of git (6,700 in all).
const MOST_LOOSE: usize = 27;
const MOST_LOOSE_FLOWS: usize = 200;

/// A bare repository of ours.
#[derive(Clone, Debug)]
pub(crate) struct Store<'a> {
    git: &'a Git,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The source, for messages.
    pub(crate) source: String,
}

/// How two commits go together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Merged {
    /// A commit that has both.
    Clean(CommitId),
    /// Files that both changed, in alphabetical order.
    Conflict(Vec<String>),
}

/// Who merges, and what the commit says.
#[derive(Clone, Debug)]
pub(crate) struct MergeWords<'a> {
    /// Author and committer.
    pub(crate) author: &'a Author,
    /// The message.
    pub(crate) message: String,
}

impl<'a> Store<'a> {
    /// The one of a source, made if it is missing; `format` is asked for only then.
    pub(crate) fn open(
        root: &Path,
        git: &'a Git,
        source: &str,
        format: impl FnOnce() -> Result<String, WorktreeError>,
    ) -> Result<Self, WorktreeError> {
        let store = Self::known(root, git, source);
        if files::exists(&store.path) {
            return Ok(store);
        }
        let format = format()?;
        let parent = root.join("repositories");
        files::make_directory(&parent)?;
        let temporary = files::beside(&store.path);
        git.at(&parent, source)
            .args(["init", "-q", "--bare", "--template=", "-b", "none", &format!("--object-format={format}")])
            .args([&temporary])
            .done("make a repository for")?;
        files::write_whole(&temporary.join("source"), source.as_bytes())?;
        match std::fs::rename(&temporary, &store.path) {
            Ok(()) => Ok(store),
            Err(_) if files::exists(&store.path) => {
                files::remove_tree(&temporary, &parent)?;
                Ok(store)
            }
            Err(error) => Err(files::failed("make", &store.path)(error)),
        }
    }

    /// The one of a source, which may not exist.
    pub(crate) fn known(root: &Path, git: &'a Git, source: &str) -> Self {
        let path = root.join("repositories").join(format!("{}.git", names::digest(source)));
        Self { git, path, source: source.to_owned() }
    }

    fn call(&self) -> Call<'_> {
        self.git.at(&self.path, &self.source)
    }

    /// `sha1` or `sha256`.
    pub(crate) fn format(&self) -> Result<String, WorktreeError> {
        Ok(self.call().args(["rev-parse", "--show-object-format"]).done("read")?.line())
    }

    /// Whether a commit is there.
    pub(crate) fn has(&self, commit: &CommitId) -> Result<bool, WorktreeError> {
        if !files::exists(&self.path) {
            return Ok(false);
        }
        let said = self.call().args(["cat-file", "-e", &format!("{commit}^{{commit}}")]).run("look into")?;
        Ok(said.code == 0)
    }

    /// Takes a commit with all that it reaches from the directory of a source.
    pub(crate) fn fetch(&self, directory: &Path, commit: &CommitId) -> Result<(), WorktreeError> {
        let reference = format!("refs/orc/base/{commit}");
        let known = self.call().args(["rev-parse", "-q", "--verify", &reference]).run("look into")?;
        if known.code == 0 {
            return Ok(());
        }
        if !self.has(commit)? || !self.is_held(commit)? {
            self.call()
                .var("GIT_ALLOW_PROTOCOL", "file")
                .args(["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"])
                .args(["--no-auto-maintenance", "--end-of-options"])
                .args([directory])
                .args([format!("+{commit}:{reference}")])
                .done("read the commits of")?;
        }
        self.set(&[(reference, commit.clone())])
    }

    /// Whether a reference reaches a commit.
    pub(crate) fn is_held(&self, commit: &CommitId) -> Result<bool, WorktreeError> {
        let said = self
            .call()
            .args(["for-each-ref", "--count=1", "--format=%(refname)", &format!("--contains={commit}")])
            .run("look into")?;
        Ok(said.code == 0 && !said.output.is_empty())
    }

    /// Writes everything that `wanted` reach and `known` do not as a pack, which the box may read.
    pub(crate) fn pack(&self, wanted: &[&CommitId], known: &[&CommitId], into: &Path) -> Result<(), WorktreeError> {
        let file = File::create(into).map_err(files::failed("make", into))?;
        let lines: Vec<String> =
            wanted.iter().map(|one| one.to_string()).chain(known.iter().map(|one| format!("^{one}"))).collect();
        self.call()
            .args(["pack-objects", "--revs", "--thin", "--stdout", "-q", "--delta-base-offset"])
            .input(lines.join("\n") + "\n")
            .output_file(file)
            .done("write a pack of")?;
        Ok(())
    }

    /// Takes a pack that came out of a box, in quarantine: nothing of it is in the repository before each object has been
    /// checked and everything that `wanted` reach is there.
    pub(crate) fn take(&self, pack: File, wanted: &[&CommitId]) -> Result<(), WorktreeError> {
        let quarantine = files::beside(&self.path.join("quarantine"));
        files::make_directory(&quarantine.join("pack"))?;
        let taken = self.check_and_move(pack, wanted, &quarantine);
        files::remove_tree(&quarantine, &self.path)?;
        taken
    }

    fn check_and_move(&self, pack: File, wanted: &[&CommitId], quarantine: &Path) -> Result<(), WorktreeError> {
        let objects = self.path.join("objects");
        let quarantined =
            || self.call().var("GIT_OBJECT_DIRECTORY", quarantine).var("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects);
        quarantined()
            .args(["index-pack", "--stdin", "--strict", "--fix-thin", &format!("--max-input-size={PACK_BYTES}")])
            .input_file(pack)
            .done("take what came out of the box into")?;
        let tips: String = wanted.iter().map(|commit| format!("{commit}\n")).collect();
        quarantined()
            .args(["rev-list", "--objects", "--quiet", "--stdin", "--not", "--all"])
            .input(tips)
            .done("find everything that came out of the box in")?;
        let from = quarantine.join("pack");
        let to = objects.join("pack");
        files::make_directory(&to)?;
        let mut names = files::names_in(&from)?;
        // The index last: with it the pack begins to exist for others.
        names.sort_by_key(|name| name.ends_with(".idx"));
        for name in names {
            std::fs::rename(from.join(&name), to.join(&name)).map_err(files::failed("move", &to))?;
        }
        File::open(&to).and_then(|directory| directory.sync_all()).map_err(files::failed("write", &to))
    }

    /// Sets references, all or none.
    pub(crate) fn set(&self, references: &[(String, CommitId)]) -> Result<(), WorktreeError> {
        let lines: String = references.iter().map(|(name, commit)| format!("update {name} {commit}\n")).collect();
        self.call().args(["update-ref", "--stdin"]).input(lines).done("set references in")?;
        Ok(())
    }

    /// Removes references, all or none.
    pub(crate) fn drop_references(&self, names: &[String]) -> Result<(), WorktreeError> {
        let lines: String = names.iter().map(|name| format!("delete {name}\n")).collect();
        self.call().args(["update-ref", "--stdin"]).input(lines).done("remove references of")?;
        Ok(())
    }

    /// Whether it has become so many files that each look into it takes longer.
    pub(crate) fn is_scattered(&self) -> Result<bool, WorktreeError> {
        let packs = files::names_in(&self.path.join("objects/pack"))?;
        Ok(packs.iter().filter(|name| name.ends_with(".pack")).count() > MOST_PACKS
            || files::names_in(&self.path.join("objects/17"))?.len() >= MOST_LOOSE
            || files::names_in(&self.path.join("refs/orc"))?.len() > MOST_LOOSE_FLOWS)
    }

    /// Puts objects and references into few files. With `drops`, what no reference has reached for a day goes; else
    /// nothing does, and large packs stay as they are.
    pub(crate) fn pack_all(&self, drops: bool) -> Result<(), WorktreeError> {
        self.call().args(["pack-refs", "--all"]).done("pack the references of")?;
        let how: &[&str] = if drops { &["-a", "--cruft", "--cruft-expiration=1.day.ago"] } else { &["--geometric=2"] };
        let call = self.call().args(["-c", "repack.writeBitmaps=false", "repack", "-q", "-d"]).args(how);
        call.done("pack the objects of").map(drop)
    }

    /// References below a prefix, or that are it, with their commits, sorted.
    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<(String, CommitId)>, WorktreeError> {
        self.references(&[prefix.to_owned()])
    }

    /// References that name exactly this commit.
    pub(crate) fn names_of(&self, commit: &CommitId) -> Result<Vec<(String, CommitId)>, WorktreeError> {
        self.references(&[format!("--points-at={commit}")])
    }

    fn references(&self, which: &[String]) -> Result<Vec<(String, CommitId)>, WorktreeError> {
        if !files::exists(&self.path) {
            return Ok(Vec::new());
        }
        let said = self
            .call()
            .args(["for-each-ref", "--format=%(objectname) %(refname)"])
            .args(which)
            .done("read the references of")?;
        let lines = String::from_utf8_lossy(&said.output).into_owned();
        let read = |line: &str| {
            let (commit, name) = line.split_once(' ')?;
            Some((name.to_owned(), commit.parse().ok()?))
        };
        Ok(lines.lines().filter_map(read).collect())
    }

    /// Submodules of a commit: where, and at which commit.
    pub(crate) fn links(&self, commit: &CommitId) -> Result<Vec<(String, CommitId)>, WorktreeError> {
        let declared = self.call().args(["cat-file", "-e", &format!("{commit}:.gitmodules")]).run("look into")?;
        if declared.code != 0 {
            return Ok(Vec::new());
        }
        let said = self.call().args(["ls-tree", "-r", "-z", commit.as_str()]).done("read a tree of")?;
        let text = String::from_utf8_lossy(&said.output);
        let read = |entry: &str| {
            let (about, path) = entry.split_once('\t')?;
            Some((path.to_owned(), about.strip_prefix("160000 commit ")?.trim().parse().ok()?))
        };
        Ok(text.split('\0').filter_map(read).collect())
    }

    /// Name and address of the submodule at a path, as a commit declares them.
    pub(crate) fn module_at(&self, commit: &CommitId, path: &str) -> Result<Option<(String, String)>, WorktreeError> {
        let declared = format!("--blob={commit}:.gitmodules");
        let said = self
            .call()
            .args(["config", &declared, "-z", "--get-regexp", r"^submodule\..*\.(path|url)$"])
            .run("read the submodules of")?;
        let text = String::from_utf8_lossy(&said.output).into_owned();
        let pairs: Vec<(&str, &str)> = text.split('\0').filter_map(|entry| entry.split_once('\n')).collect();
        let named = pairs.iter().filter(|(_, found)| *found == path);
        let mut names = named.filter_map(|(key, _)| key.strip_prefix("submodule.")?.strip_suffix(".path"));
        let Some(name) = names.next() else { return Ok(None) };
        let key = format!("submodule.{name}.url");
        let url = pairs.iter().find(|(found, _)| *found == key).map(|(_, url)| (*url).to_owned());
        Ok(Some((name.to_owned(), url.unwrap_or_default())))
    }

    /// Files and parents of a commit, whoever made it and when.
    pub(crate) fn content_of(&self, commit: &CommitId) -> Result<String, WorktreeError> {
        Ok(self.call().args(["show", "-s", "--format=%T %P", commit.as_str()]).done("read a commit of")?.line())
    }

    /// Whether everything of `old` is in `new`.
    pub(crate) fn contains(&self, new: &CommitId, old: &CommitId) -> Result<bool, WorktreeError> {
        let said =
            self.call().args(["merge-base", "--is-ancestor", old.as_str(), new.as_str()]).run("compare commits of")?;
        match said.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(self.refused("compare commits of", &said)),
        }
    }

    /// Merges two commits. Equal arguments give equal commits: names and message are given, and the time is the later
    /// one of the two sides.
    pub(crate) fn merge(
        &self,
        ours: &CommitId,
        theirs: &CommitId,
        words: MergeWords<'_>,
    ) -> Result<Merged, WorktreeError> {
        if self.contains(ours, theirs)? {
            return Ok(Merged::Clean(ours.clone()));
        }
        if self.contains(theirs, ours)? {
            return Ok(Merged::Clean(theirs.clone()));
        }
        let said = self
            .call()
            .args([&format!("--attr-source={ours}"), "merge-tree", "--write-tree", "-z", "--name-only"])
            .args(["--no-messages", ours.as_str(), theirs.as_str()])
            .run("merge in")?;
        if said.code > 1 || said.code < 0 {
            return Err(self.refused("merge in", &said));
        }
        let text = String::from_utf8_lossy(&said.output).into_owned();
        let mut fields = text.split('\0').filter(|field| !field.is_empty());
        let tree = fields.next().unwrap_or_default().to_owned();
        if said.code == 1 {
            let mut files: Vec<String> = fields.map(str::to_owned).collect();
            files.sort();
            files.dedup();
            return Ok(Merged::Conflict(files));
        }
        let date = format!("@{} +0000", self.seconds_of(ours)?.max(self.seconds_of(theirs)?));
        let said = signed(self.call(), words.author, &date)
            .args(["commit-tree", &tree, "-p", ours.as_str(), "-p", theirs.as_str()])
            .input(words.message)
            .done("merge in")?;
        self.commit_in(&said.line()).map(Merged::Clean)
    }

    fn seconds_of(&self, commit: &CommitId) -> Result<i64, WorktreeError> {
        let said = self.call().args(["show", "-s", "--format=%ct", commit.as_str()]).done("read a commit of")?;
        Ok(said.line().parse().unwrap_or(0))
    }

    /// Reads a commit id that git printed.
    pub(crate) fn commit_in(&self, text: &str) -> Result<CommitId, WorktreeError> {
        text.trim().parse().map_err(|_| WorktreeError::Git {
            what: "name a commit",
            repository: self.source.clone(),
            why: format!("it says `{text}`"),
        })
    }

    fn refused(&self, what: &'static str, said: &Said) -> WorktreeError {
        let mut why = reason(said);
        if why.contains("unrelated histories") {
            "the two sides have no commit in common, so that nothing says what each of them changed"
                .clone_into(&mut why);
        }
        WorktreeError::Git { what, repository: self.source.clone(), why }
    }
}

/// Author, committer and date of commits that a call makes.
fn signed<'a>(call: Call<'a>, author: &Author, date: &str) -> Call<'a> {
    call.var("GIT_AUTHOR_NAME", author.name())
        .var("GIT_AUTHOR_EMAIL", author.email())
        .var("GIT_AUTHOR_DATE", date)
        .var("GIT_COMMITTER_NAME", author.name())
        .var("GIT_COMMITTER_EMAIL", author.email())
        .var("GIT_COMMITTER_DATE", date)
}

/// A point in time as git takes it.
pub(crate) fn date(at: Timestamp) -> String {
    format!("@{} +0000", at.as_millis().div_euclid(1000))
}
