//! Named directories that outlive runs: each run changes its own layer over what the last delivered run left.
//!
//! Layout: `caches/<source>/<name>/now.json` says which layers hold now; `caches/<source>/<name>/<run>/` is the layer of a
//! run, gone at its end unless it is promoted. Whoever is promoted first wins: a layer over something that is no longer the
//! newest is dropped, since nobody can merge caches.

use std::path::{Path, PathBuf};

use orc_domain::ids::RunId;
use orc_domain::tree::Repository;
use orc_ports::executor::{Mount, Source};
use orc_ports::worktrees::WorktreeError;
use serde::{Deserialize, Serialize};

use crate::grounds::MOST_LAYERS;
use crate::{Trees, files, held, names};

const NOW: &str = "now.json";
const OF_RUN: &str = "run.json";

/// Which layers hold, the topmost first. Paths are relative to the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Layers(Vec<PathBuf>);

impl Trees {
    fn cache(&self, repositories: &[Repository], name: &str) -> PathBuf {
        let source = repositories.first().map_or("", |repository| repository.source.as_str());
        Path::new("caches").join(names::digest(source)).join(name)
    }

    pub(crate) fn caches(
        &self,
        run: RunId,
        repositories: &[Repository],
        wanted: &[String],
    ) -> Result<Vec<Mount>, WorktreeError> {
        wanted.iter().map(|name| self.open_cache(run, &self.cache(repositories, name), name)).collect()
    }

    fn open_cache(&self, run: RunId, cache: &Path, name: &str) -> Result<Mount, WorktreeError> {
        let place = self.root.join(cache);
        let lock = self.locks.of(&place);
        let _held = held(&lock);
        let own = place.join(run.file_name());
        files::make_directory(&own)?;
        let below = read(&place.join(NOW))?;
        let tree = own.join("tree");
        let at = Path::new("/cache").join(name);
        write(&own.join(OF_RUN), &below)?;
        // A stack that has grown too deep is begun anew: a cache may always be empty.
        let source = if below.0.is_empty() || below.0.len() >= MOST_LAYERS {
            if self.strategy == crate::Strategy::Btrfs {
                self.snapshots.make(&tree).map_err(|what| WorktreeError::Box { what })?;
            }
            files::make_open(&tree, self.owner)?;
            Source::Path(tree)
        } else {
            self.begin_over(&tree, &below.0)?
        };
        Ok(Mount { source, at, writable: true })
    }

    /// Makes what a run left in its caches what the next one finds.
    pub(crate) fn promote(&self, run: RunId) -> Result<(), WorktreeError> {
        let all = self.root.join("caches");
        for source in files::names_in(&all)? {
            for name in files::names_in(&all.join(&source))? {
                self.promote_one(run, &Path::new("caches").join(&source).join(name))?;
            }
        }
        Ok(())
    }

    fn promote_one(&self, run: RunId, cache: &Path) -> Result<(), WorktreeError> {
        let place = self.root.join(cache);
        let own = place.join(run.file_name());
        if !files::exists(&own) {
            return Ok(());
        }
        let lock = self.locks.of(&place);
        let _held = held(&lock);
        let (now, before) = (read(&place.join(NOW))?, read(&own.join(OF_RUN))?);
        if now != before {
            return self.drop_layer(&own);
        }
        let mut layers = vec![cache.join(run.file_name()).join("tree")];
        let stands_on = before.0.len() < MOST_LAYERS && self.strategy == crate::Strategy::Overlay;
        if stands_on {
            layers.extend(before.0.iter().cloned());
        }
        write(&place.join(NOW), &Layers(layers))?;
        if !stands_on {
            for layer in &before.0 {
                if let Some(of_run) = self.root.join(layer).parent() {
                    self.drop_layer(of_run)?;
                }
            }
        }
        Ok(())
    }

    /// Drops the layers of a run that were not promoted.
    pub(crate) fn drop_caches(&self, run: RunId) -> Result<(), WorktreeError> {
        let all = self.root.join("caches");
        for source in files::names_in(&all)? {
            for name in files::names_in(&all.join(&source))? {
                let place = all.join(&source).join(name);
                let own = place.join(run.file_name());
                if !files::exists(&own) {
                    continue;
                }
                let lock = self.locks.of(&place);
                let _held = held(&lock);
                let promoted = read(&place.join(NOW))?.0.iter().any(|layer| self.root.join(layer).starts_with(&own));
                if !promoted {
                    self.drop_layer(&own)?;
                }
            }
        }
        Ok(())
    }

    fn drop_layer(&self, own: &Path) -> Result<(), WorktreeError> {
        if self.strategy == crate::Strategy::Btrfs {
            self.snapshots.remove(&own.join("tree"));
        }
        let gone = self.throw(own)?;
        self.remove_later(gone);
        Ok(())
    }
}

fn read(path: &Path) -> Result<Layers, WorktreeError> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| files::failed("read", path)(error.into())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Layers::default()),
        Err(error) => Err(files::failed("read", path)(error)),
    }
}

fn write(path: &Path, layers: &Layers) -> Result<(), WorktreeError> {
    let bytes = serde_json::to_vec(layers).map_err(|error| files::failed("write", path)(error.into()))?;
    files::write_whole(path, &bytes)
}
