//! Copies: a layer over a ground for each repository, with a row beside it.
//!
//! The row is written before anything that it speaks of is there, and goes last. A copy that is being made (`Making`) was
//! seen by no program of a run and may go; any other goes only when references hold what is in it.

use std::path::{Path, PathBuf};

use orc_domain::ids::RunId;
use orc_domain::time::Millis;
use orc_domain::tree::{CommitId, PrivateCopy, Repository};
use orc_ports::executor::{Mount, Source};
use orc_ports::worktrees::{Conversation, CopyEntry, CopyState, ExtractError, Prepared, SavedRef, WorktreeError};

use crate::inside::{self, Exchange, Script};
use crate::join::Start;
use crate::manifest::{Content, Manifest, Part};
use crate::strategy::Strategy;
use crate::{Trees, files, names};

/// How long a copy may take to be brought to where it starts, and a file to come out of one.
const WALL: Millis = Millis::from_secs(900);
const BRING: &str = concat!(include_str!("scripts/large.sh"), include_str!("scripts/copy.sh"));
const TAKE: &str = include_str!("scripts/extract.sh");

impl Trees {
    pub(crate) fn directory_of(&self, conversation: &Conversation) -> PathBuf {
        self.root.join("copies").join(names::conversation(conversation))
    }

    pub(crate) fn prepare(
        &self,
        conversation: &Conversation,
        run: RunId,
        copy: &PrivateCopy,
    ) -> Result<Prepared, WorktreeError> {
        let directory = self.directory_of(conversation);
        let lock = self.locks.of(&directory);
        let _held = crate::held(&lock);
        if let Some(mut found) = Manifest::read(&directory)? {
            if found.lease == Some(self.instance) && found.run != run {
                let what = format!("the copy of `{}` is in use by {}", conversation.path, found.run);
                return Err(WorktreeError::Box { what });
            }
            if copy.goes_on && found.content != Content::Making && is_of(&found, &copy.repositories) {
                found.run = run;
                found.lease = Some(self.instance);
                found.content = Content::Unsaved;
                found.write(&directory)?;
                return Ok(self.prepared(&found));
            }
            self.give_up(&directory, &found)?;
        }
        let starts = self.starts(copy)?;
        let conflict = starts.iter().find_map(|start| start.against.as_ref().map(|(_, conflict)| conflict.clone()));
        if let Some(conflict) = conflict.clone().filter(|_| !copy.holds_conflict) {
            return Err(WorktreeError::Conflict(conflict));
        }
        let _no_ground_goes = self.building.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut manifest = Manifest {
            flow: conversation.flow,
            path: conversation.path.clone(),
            run,
            lease: Some(self.instance),
            content: Content::Making,
            since: self.clock.now(),
            strategy: self.strategy,
            parts: Vec::new(),
            conflict,
            notes: Vec::new(),
        };
        files::make_directory(&directory)?;
        if let Err(error) = self.fill(&directory, &mut manifest, &copy.repositories, starts) {
            // No program saw it, and the next run that asks must not find it taken.
            let gone = self.throw_copy(&directory, &manifest)?;
            self.remove_later(gone);
            return Err(error);
        }
        Ok(self.prepared(&manifest))
    }

    fn fill(
        &self,
        directory: &Path,
        manifest: &mut Manifest,
        repositories: &[Repository],
        starts: Vec<Start>,
    ) -> Result<(), WorktreeError> {
        manifest.write(directory)?;
        let places = names::places(repositories);
        for ((repository, start), at) in repositories.iter().zip(starts).zip(places) {
            let number = manifest.parts.len();
            manifest.parts.push(self.make_part(directory, (number, at), repository, start)?);
        }
        manifest.content = Content::Unsaved;
        manifest.write(directory)
    }

    /// Lets a copy go that nobody goes on in; what is not saved of it is rescued first.
    pub(crate) fn give_up(&self, directory: &Path, found: &Manifest) -> Result<(), WorktreeError> {
        if found.content == Content::Unsaved && !self.is_untouched(found)? {
            self.rescue_copy(found)?;
        }
        let gone = self.throw_copy(directory, found)?;
        self.remove_later(gone);
        Ok(())
    }

    /// Moves a copy to what is removed.
    pub(crate) fn throw_copy(&self, directory: &Path, found: &Manifest) -> Result<PathBuf, WorktreeError> {
        if found.strategy == Strategy::Btrfs {
            for part in &found.parts {
                self.snapshots.remove(&self.root.join(&part.directory));
            }
        }
        self.throw(directory)
    }

    fn make_part(
        &self,
        directory: &Path,
        (number, at): (usize, PathBuf),
        repository: &Repository,
        start: Start,
    ) -> Result<Part, WorktreeError> {
        let ground = match self.known_ground(repository, &start.commit)? {
            Some(ground) => ground,
            None => self.ground(repository)?,
        };
        let place = directory.join(number.to_string());
        files::make_directory(&place)?;
        let tree = place.join("tree");
        let source = self.begin_over(&tree, &ground.layers)?;
        let theirs = start.against.map(|(theirs, _)| theirs);
        if start.commit != ground.commit || theirs.is_some() {
            self.bring(repository, (&start.commit, theirs.as_ref()), (&ground.commit, source))?;
        }
        let relative = |path: &Path| path.strip_prefix(&self.root).unwrap_or(path).to_owned();
        Ok(Part {
            repository: repository.clone(),
            at,
            start: start.commit,
            theirs,
            ground: ground.commit,
            layers: ground.layers,
            directory: relative(&tree),
        })
    }

    /// Brings a new copy from the commit of its ground to where it starts.
    fn bring(
        &self,
        repository: &Repository,
        (start, theirs): (&CommitId, Option<&CommitId>),
        (ground, source): (&CommitId, Source),
    ) -> Result<(), WorktreeError> {
        let exchange = Exchange::new(&self.root, self.owner)?;
        let wanted: Vec<&CommitId> = [Some(start), theirs].into_iter().flatten().collect();
        self.store_of(repository).pack(&wanted, &[ground], &exchange.path.join("in.pack"))?;
        let author = &self.author;
        let mut mounts = vec![Mount { source, at: PathBuf::from(crate::WORK), writable: true }];
        mounts.extend(self.large_mounts(&repository.source));
        let script = Script {
            text: BRING,
            env: vec![
                ("W", crate::WORK.to_owned()),
                ("START", start.to_string()),
                ("THEIRS", theirs.map(ToString::to_string).unwrap_or_default()),
                ("MESSAGE", "Bring both sides together".to_owned()),
                ("GIT_AUTHOR_NAME", author.name().to_owned()),
                ("GIT_AUTHOR_EMAIL", author.email().to_owned()),
                ("GIT_COMMITTER_NAME", author.name().to_owned()),
                ("GIT_COMMITTER_EMAIL", author.email().to_owned()),
            ],
            mounts,
            exchange: &exchange.path,
            wall: WALL,
        };
        inside::run(self.boxes.as_ref(), "bring a copy to where it starts", &repository.source, script)?;
        Ok(())
    }

    /// How a part of a copy is mounted.
    pub(crate) fn source_of(&self, strategy: Strategy, part: &Part) -> Source {
        let directory = self.root.join(&part.directory);
        match strategy {
            Strategy::Overlay => Source::Layers {
                lower: part.layers.iter().map(|layer| self.root.join(layer)).collect(),
                work: directory.with_file_name("work"),
                upper: directory,
            },
            Strategy::Btrfs | Strategy::Clone => Source::Path(directory),
        }
    }

    /// Whether no program can have changed anything that is kept of a copy, seen without looking into it.
    pub(crate) fn is_untouched(&self, found: &Manifest) -> Result<bool, WorktreeError> {
        if found.strategy != Strategy::Overlay || found.conflict.is_some() {
            return Ok(false);
        }
        for part in &found.parts {
            if part.start != part.ground || !has_no_changes(&self.root.join(&part.directory))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn prepared(&self, found: &Manifest) -> Prepared {
        let mounts = found.parts.iter().map(|part| Mount {
            source: self.source_of(found.strategy, part),
            at: part.at.clone(),
            writable: true,
        });
        let directory = match found.parts.as_slice() {
            [one] => one.at.clone(),
            _ => PathBuf::from(crate::WORK),
        };
        Prepared { mounts: mounts.collect(), directory, start: found.start(), conflict: found.conflict.clone() }
    }

    pub(crate) fn release(&self, run: RunId) -> Result<(), WorktreeError> {
        for (directory, found) in self.copies()? {
            if found.run == run && found.lease.is_some() {
                let lock = self.locks.of(&directory);
                let _held = crate::held(&lock);
                Manifest { lease: None, ..found }.write(&directory)?;
            }
        }
        Ok(())
    }

    /// All copies whose rows can be read, with where they are.
    pub(crate) fn copies(&self) -> Result<Vec<(PathBuf, Manifest)>, WorktreeError> {
        let all = self.root.join("copies");
        let mut found = Vec::new();
        for flow in files::names_in(&all)? {
            found.extend(self.copies_below(&all.join(flow))?);
        }
        Ok(found)
    }

    /// Those of one flow.
    pub(crate) fn copies_below(&self, flow: &Path) -> Result<Vec<(PathBuf, Manifest)>, WorktreeError> {
        let mut found = Vec::new();
        for step in files::names_in(flow)? {
            let directory = flow.join(step);
            match Manifest::read(&directory) {
                Ok(Some(manifest)) => found.push((directory, manifest)),
                Ok(None) => {}
                Err(error) => {
                    // One whose row cannot be read is not ours to touch, and keeps no other from being looked at.
                    tracing::warn!(copy = %directory.display(), %error, "the row of a copy cannot be read; it stays");
                }
            }
        }
        Ok(found)
    }

    pub(crate) fn list(&self) -> Result<Vec<CopyEntry>, WorktreeError> {
        let copies = self.copies()?;
        copies.into_iter().map(|(directory, found)| self.entry(&directory, found)).collect()
    }

    fn entry(&self, directory: &Path, found: Manifest) -> Result<CopyEntry, WorktreeError> {
        let state = match (found.lease, found.content) {
            (Some(lease), _) if lease == self.instance => CopyState::Leased,
            (_, Content::Saved) => CopyState::Saved,
            (_, Content::Making | Content::Unsaved) => CopyState::Unsaved,
        };
        let conversation = found.conversation();
        let mut references = Vec::new();
        for part in &found.parts {
            let store = self.store_of(&part.repository);
            for prefix in
                [names::references(&conversation), format!("refs/orc/rescue/{}", names::conversation(&conversation))]
            {
                references.extend(store.list(&prefix)?.into_iter().map(|(name, _)| SavedRef {
                    repository: part.repository.path.clone(),
                    store: store.path.clone(),
                    name,
                }));
            }
        }
        let bytes = self.bytes_of(directory, &found);
        Ok(CopyEntry {
            conversation,
            state,
            run: Some(found.run),
            since: found.since,
            start: found.start(),
            strategy: found.strategy.word(),
            bytes,
            references,
            notes: found.notes,
        })
    }

    /// The row of a copy that somebody asks for by name.
    pub(crate) fn known(&self, conversation: &Conversation) -> Result<Manifest, WorktreeError> {
        let directory = self.directory_of(conversation);
        let found = Manifest::read(&directory)?.filter(|found| found.content != Content::Making);
        found.ok_or_else(|| WorktreeError::NoCopy { path: conversation.path.clone() })
    }

    pub(crate) fn extract(
        &self,
        conversation: &Conversation,
        path: &str,
        to: &Path,
        bytes: u64,
    ) -> Result<(), ExtractError> {
        let found = self.known(conversation).map_err(ExtractError::Copy)?;
        let exchange = Exchange::new(&self.root, self.owner).map_err(ExtractError::Copy)?;
        let mounts = found.parts.iter().map(|part| Mount {
            source: self.source_of(found.strategy, part),
            at: part.at.clone(),
            writable: true,
        });
        let root = match found.parts.as_slice() {
            [one] => one.at.clone(),
            _ => PathBuf::from(crate::WORK),
        };
        let script = Script {
            text: TAKE,
            env: vec![("W", root.display().to_string()), ("FILE", path.to_owned()), ("BYTES", (bytes + 1).to_string())],
            mounts: mounts.collect(),
            exchange: &exchange.path,
            wall: WALL,
        };
        let said = inside::run(self.boxes.as_ref(), "take a file out of", &conversation.path.to_string(), script);
        let said = said.map_err(ExtractError::Copy)?;
        if let Some(why) = said.get("no") {
            return Err(ExtractError::NoFile { why: why.to_owned() });
        }
        let taken = exchange.path.join("out");
        let mut from = files::open_left(&taken, bytes).map_err(|error| match error {
            WorktreeError::File { source, .. } if source.kind() == std::io::ErrorKind::FileTooLarge => {
                ExtractError::NoFile { why: format!("it has more than {bytes} bytes") }
            }
            other => ExtractError::Copy(other),
        })?;
        let copied = std::fs::File::create_new(to).and_then(|mut into| std::io::copy(&mut from, &mut into));
        copied.map_err(files::failed("write", to)).map_err(ExtractError::Copy)?;
        Ok(())
    }
}

/// Whether a copy is of these repositories, at the commits that they were pinned to.
fn is_of(found: &Manifest, repositories: &[Repository]) -> bool {
    found.parts.len() == repositories.len()
        && found.parts.iter().zip(repositories).all(|(part, repository)| part.repository == *repository)
}

/// Whether a layer of changes changes nothing: it is empty, or has git's index alone. Every `git status` writes that anew,
/// and what is kept of a copy does not follow from it: the files do, and objects and references, which would lie beside it.
fn has_no_changes(layer: &Path) -> Result<bool, WorktreeError> {
    match files::names_in(layer)?.as_slice() {
        [] => return Ok(true),
        [git] if git == ".git" => {}
        _ => return Ok(false),
    }
    let git = layer.join(".git");
    let found = std::fs::symlink_metadata(&git).map_err(files::failed("look at", &git))?;
    // A directory that hides the one below it, or comes from elsewhere.
    let is_another = ["trusted.overlay.opaque", "trusted.overlay.redirect"]
        .into_iter()
        .any(|name| rustix::fs::lgetxattr(&git, name, &mut [0_u8; 0]) != Err(rustix::io::Errno::NODATA));
    if !found.is_dir() || is_another {
        return Ok(false);
    }
    match files::names_in(&git)?.as_slice() {
        // Its lock was made there, and went.
        [] => return Ok(true),
        [index] if index == "index" => {}
        _ => return Ok(false),
    }
    let index = git.join("index");
    let found = std::fs::symlink_metadata(&index).map_err(files::failed("look at", &index))?;
    Ok(found.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_index_alone_is_no_change_and_everything_else_is_one() {
        let place = tempfile::tempdir().unwrap();
        let layer = place.path();
        assert!(has_no_changes(layer).unwrap());
        fs::create_dir(layer.join(".git")).unwrap();
        assert!(has_no_changes(layer).unwrap());
        fs::write(layer.join(".git/index"), "DIRC").unwrap();
        assert!(has_no_changes(layer).unwrap());
        for more in [".git/HEAD", "file"] {
            fs::write(layer.join(more), "x").unwrap();
            assert!(!has_no_changes(layer).unwrap(), "{more}");
            fs::remove_file(layer.join(more)).unwrap();
        }
        fs::rename(layer.join(".git/index"), layer.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", layer.join(".git/index")).unwrap();
        assert!(!has_no_changes(layer).unwrap(), "with a file beside it");
        fs::rename(layer.join("elsewhere"), place.path().with_extension("moved")).unwrap();
        assert!(!has_no_changes(layer).unwrap(), "a link");
        fs::rename(place.path().with_extension("moved"), layer.join(".git/index")).unwrap();
        assert!(has_no_changes(layer).unwrap());
        // Only root may set them, and only root has layers.
        if rustix::process::geteuid().is_root() {
            for name in ["trusted.overlay.opaque", "trusted.overlay.redirect"] {
                rustix::fs::lsetxattr(layer.join(".git"), name, b"y", rustix::fs::XattrFlags::empty()).unwrap();
                assert!(!has_no_changes(layer).unwrap(), "{name}");
                rustix::fs::lremovexattr(layer.join(".git"), name).unwrap();
            }
            assert!(has_no_changes(layer).unwrap());
        }
    }
}
