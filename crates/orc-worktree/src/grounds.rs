//! Grounds: immutable clones at one commit, on which copies stand.
//!
//! Invariants: a ground is made under a temporary name, flushed and renamed; from then on nobody writes to it. It is
//! complete: no object lies elsewhere, and it has no remote and no hook. Two who need the same one at once make it once.
//! The next ground of a repository stands on the newest that there is, and at [`MOST_LAYERS`] it is made afresh.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orc_domain::time::{Millis, Timestamp};
use orc_domain::tree::{CommitId, Repository};
use orc_ports::executor::{Mount, Source};
use orc_ports::worktrees::WorktreeError;
use serde::{Deserialize, Serialize};

use crate::inside::{self, Exchange, Script};
use crate::strategy::Strategy;
use crate::{Trees, files, names};

/// Layers of a ground; each costs a look-up for every file that is not found above it.
pub(crate) const MOST_LAYERS: usize = 10;
/// How long a ground may take.
const WALL: Millis = Millis::from_secs(1800);
const FILE: &str = "ground.json";
const SCRIPT: &str = concat!(include_str!("scripts/large.sh"), include_str!("scripts/ground.sh"));

/// A ground. Paths are relative to the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ground {
    /// The source.
    pub(crate) source: String,
    /// The branch that `HEAD` names.
    pub(crate) branch: Option<String>,
    /// The commit.
    pub(crate) commit: CommitId,
    /// When it was made.
    pub(crate) made: Timestamp,
    /// Its own directory and, with overlays, those below it, the topmost first.
    pub(crate) layers: Vec<PathBuf>,
    /// Its submodules, by their paths.
    pub(crate) modules: BTreeMap<String, CommitId>,
}

impl Trees {
    /// Where the grounds of a source lie, relative to the root.
    fn shelf(&self, source: &str) -> PathBuf {
        Path::new("bases").join(names::digest(source)).join(self.strategy.word())
    }

    /// The ground at a commit, if there is one.
    pub(crate) fn known_ground(
        &self,
        repository: &Repository,
        commit: &CommitId,
    ) -> Result<Option<Ground>, WorktreeError> {
        self.read_ground(&self.shelf(&repository.source).join(names::ground(repository, commit.as_str())))
    }

    fn read_ground(&self, directory: &Path) -> Result<Option<Ground>, WorktreeError> {
        let path = self.root.join(directory).join(FILE);
        match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).map_err(|error| files::failed("read", &path)(error.into()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(files::failed("read", &path)(error)),
        }
    }

    /// All grounds of a source, the newest first.
    fn grounds_of(&self, source: &str) -> Result<Vec<Ground>, WorktreeError> {
        self.grounds_in(&self.shelf(source))
    }

    /// All grounds in a directory, the newest first.
    pub(crate) fn grounds_in(&self, shelf: &Path) -> Result<Vec<Ground>, WorktreeError> {
        let mut found = Vec::new();
        for name in files::names_in(&self.root.join(shelf))? {
            if !name.starts_with('.') {
                found.extend(self.read_ground(&shelf.join(name))?);
            }
        }
        found.sort_by_key(|ground| std::cmp::Reverse(ground.made));
        Ok(found)
    }

    /// The ground of a repository at the commit that it was pinned to, made if it is missing.
    pub(crate) fn ground(&self, repository: &Repository) -> Result<Ground, WorktreeError> {
        let name = names::ground(repository, repository.commit.as_str());
        let directory = self.shelf(&repository.source).join(name);
        let lock = self.locks.of(&directory);
        let _held = crate::held(&lock);
        if let Some(known) = self.read_ground(&directory)? {
            return Ok(known);
        }
        files::make_directory(&self.root.join(self.shelf(&repository.source)))?;
        let temporary = files::beside(&self.root.join(&directory));
        files::make_directory(&temporary)?;
        let made = self.make_ground(repository, &directory, &temporary);
        if made.is_err() {
            self.throw(&temporary)?;
        }
        made
    }

    fn make_ground(
        &self,
        repository: &Repository,
        directory: &Path,
        temporary: &Path,
    ) -> Result<Ground, WorktreeError> {
        let below = self.grounds_of(&repository.source)?.into_iter().next();
        let below = below.filter(|ground| ground.layers.len() < MOST_LAYERS);
        let tree = temporary.join("tree");
        let exchange = Exchange::new(&self.root, self.owner)?;
        let store = self.store_of(repository);
        let known: Vec<&CommitId> = below.iter().map(|ground| &ground.commit).collect();
        if below.as_ref().is_none_or(|ground| ground.commit != repository.commit) {
            store.pack(&[&repository.commit], &known, &exchange.path.join("in.pack"))?;
        }
        let modules = self.modules(&repository.source, &repository.commit)?;
        let before = below.as_ref().map(|ground| ground.modules.clone()).unwrap_or_default();
        self.lay_modules(&modules, &before, &exchange.path)?;
        let source = self.begin_tree(&tree, below.as_ref())?;
        let mut mounts = vec![Mount { source, at: PathBuf::from(crate::WORK), writable: true }];
        mounts.extend(self.large_mounts(&repository.source));
        let script = Script {
            text: SCRIPT,
            env: vec![
                ("W", crate::WORK.to_owned()),
                ("FRESH", if below.is_none() { "1" } else { "0" }.to_owned()),
                ("STAT", if self.strategy == Strategy::Clone { "minimal" } else { "default" }.to_owned()),
                ("FORMAT", store.format()?),
                ("BRANCH", repository.branch.clone().unwrap_or_default()),
                ("COMMIT", repository.commit.to_string()),
            ],
            mounts,
            exchange: &exchange.path,
            wall: WALL,
        };
        let said = inside::run(self.boxes.as_ref(), "make a copy to stand on", &repository.source, script)?;
        for note in said.all("note") {
            tracing::warn!(source = %repository.source, commit = %repository.commit, note, "a copy is not complete");
        }
        let mut layers = vec![directory.join("tree")];
        if self.strategy == Strategy::Overlay {
            files::remove_tree(&temporary.join("work"), &self.root.join("trash"))?;
            layers.extend(below.into_iter().flat_map(|ground| ground.layers));
        }
        let ground = Ground {
            source: repository.source.clone(),
            branch: repository.branch.clone(),
            commit: repository.commit.clone(),
            made: self.clock.now(),
            layers,
            modules: modules
                .into_iter()
                .filter(|module| module.source.is_some())
                .map(|module| (module.path, module.commit))
                .collect(),
        };
        let bytes =
            serde_json::to_vec_pretty(&ground).map_err(|error| files::failed("write", temporary)(error.into()))?;
        files::write_whole(&temporary.join(FILE), &bytes)?;
        if self.strategy == Strategy::Btrfs {
            self.snapshots.seal(&tree).map_err(|what| WorktreeError::Box { what })?;
        }
        files::settle(temporary)?;
        let to = self.root.join(directory);
        std::fs::rename(temporary, &to).map_err(files::failed("make", &to))?;
        files::settle(&to)?;
        Ok(ground)
    }

    /// Where a box finds large files of a source.
    pub(crate) fn large_mounts(&self, source: &str) -> Vec<Mount> {
        let places = self.large_files(source).into_iter().enumerate();
        places
            .map(|(number, path)| Mount {
                source: Source::Path(path),
                at: Path::new("/orc/large").join(number.to_string()),
                writable: false,
            })
            .collect()
    }

    /// Makes the directory of a ground that is to be, with what is below it.
    fn begin_tree(&self, tree: &Path, below: Option<&Ground>) -> Result<Source, WorktreeError> {
        let Some(below) = below else {
            if self.strategy == Strategy::Btrfs {
                self.snapshots.make(tree).map_err(|what| WorktreeError::Box { what })?;
            }
            files::make_open(tree, self.owner)?;
            return Ok(Source::Path(tree.to_owned()));
        };
        self.begin_over(tree, &below.layers)
    }

    /// Makes a directory that holds what `layers` hold and that only its own changes change.
    pub(crate) fn begin_over(&self, tree: &Path, layers: &[PathBuf]) -> Result<Source, WorktreeError> {
        let lower: Vec<PathBuf> = layers.iter().map(|layer| self.root.join(layer)).collect();
        let top = lower.first().map(PathBuf::as_path).unwrap_or(tree);
        match self.strategy {
            Strategy::Overlay => {
                files::make_open(tree, self.owner)?;
                let work = tree.with_file_name("work");
                files::make_directory(&work)?;
                Ok(Source::Layers { lower, upper: tree.to_owned(), work })
            }
            Strategy::Btrfs => {
                self.snapshots.snapshot(top, tree).map_err(|what| WorktreeError::Box { what })?;
                Ok(Source::Path(tree.to_owned()))
            }
            Strategy::Clone => {
                files::copy_tree(top, tree)?;
                Ok(Source::Path(tree.to_owned()))
            }
        }
    }
}
