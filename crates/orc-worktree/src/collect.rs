//! Removes what nobody needs any more, after proof.
//!
//! A copy goes when references hold what is in it, or when it is proven that nothing is; what is unsaved is rescued first,
//! and one that cannot be rescued stays. It is moved aside at once and given back to the disk in the background. What has
//! no row that can be read is never touched.

use std::collections::BTreeSet;
use std::path::PathBuf;

use orc_domain::ids::FlowId;
use orc_domain::tree::{Repository, Tip};
use orc_ports::worktrees::{Freed, SavedRef, WorktreeError};

use crate::manifest::{Content, Manifest};
use crate::{Trees, files, held};

impl Trees {
    pub(crate) fn collect(&self, flow: FlowId) -> Result<Freed, WorktreeError> {
        let place = self.root.join("copies").join(flow.file_name());
        let mut freed = Freed::default();
        let mut failed = None;
        for (directory, _) in self.copies_below(&place)? {
            let lock = self.locks.of(&directory);
            let _held = held(&lock);
            let Some(found) = Manifest::read(&directory)? else { continue };
            if found.lease == Some(self.instance) {
                // A run that is still there will give it back; whoever looks next takes it.
                continue;
            }
            match self.collect_copy(&directory, &found) {
                Ok((rescued, bytes)) => {
                    freed.copies += 1;
                    freed.rescued += u32::from(rescued);
                    freed.bytes += bytes;
                }
                // One that cannot be proven to be saved stays, and keeps no other from going.
                Err(error) => failed = Some(error),
            }
        }
        // What is left in it keeps it.
        let _ = std::fs::remove_dir(&place);
        failed.map_or(Ok(freed), Err)
    }

    fn collect_copy(&self, directory: &std::path::Path, found: &Manifest) -> Result<(bool, u64), WorktreeError> {
        let rescued = found.content == Content::Unsaved && !self.is_untouched(found)?;
        if rescued {
            self.rescue_copy(found)?;
        }
        let gone = self.throw_copy(directory, found)?;
        let bytes = files::bytes_of(&gone);
        self.remove_later(gone);
        Ok((rescued, bytes))
    }

    /// Flows that have copies.
    pub(crate) fn flows(&self) -> Result<BTreeSet<FlowId>, WorktreeError> {
        Ok(self.copies()?.into_iter().map(|(_, found)| found.flow).collect())
    }

    /// Gives what was thrown away back to the disk.
    pub(crate) fn remove_later(&self, path: PathBuf) {
        let trash = self.root.join("trash");
        self.background.send(Box::new(move || {
            if let Err(error) = files::remove_tree(&path, &trash) {
                tracing::warn!(path = %path.display(), %error, "what was thrown away stays until the next start");
            }
        }));
    }

    /// Removes what earlier instances were about to remove.
    pub(crate) fn empty_trash(&self) {
        let trash = self.root.join("trash");
        for name in files::names_in(&trash).unwrap_or_default() {
            let path = trash.join(name);
            if let Err(error) = files::remove_tree(&path, &trash) {
                tracing::warn!(path = %path.display(), %error, "what was thrown away stays until the next start");
            }
        }
    }

    pub(crate) fn saved(&self, repositories: &[Repository], tips: &[Tip]) -> Vec<SavedRef> {
        let mut saved = Vec::new();
        for tip in tips {
            for repository in repositories {
                let Some(commit) = tip.tree.0.get(&repository.path).filter(|commit| **commit != repository.commit)
                else {
                    continue;
                };
                let store = self.store_of(repository);
                let names = store.names_of(commit).unwrap_or_default();
                // Several may name it; that of a result says more than that of a merge.
                let best = names.iter().find(|(name, _)| !name.ends_with("/joined")).or(names.first());
                saved.extend(best.map(|(name, _)| SavedRef {
                    repository: repository.path.clone(),
                    store: store.path.clone(),
                    name: name.clone(),
                }));
            }
        }
        saved
    }

    pub(crate) fn rescued(&self, flow: FlowId, repositories: &[Repository]) -> Vec<SavedRef> {
        let prefix = format!("refs/orc/rescue/{}", flow.file_name());
        let of = |repository: &Repository| {
            let store = self.store_of(repository);
            let names = store.list(&prefix).unwrap_or_default();
            let (repository, store) = (repository.path.clone(), store.path.clone());
            names.into_iter().map(move |(name, _)| SavedRef {
                repository: repository.clone(),
                store: store.clone(),
                name,
            })
        };
        repositories.iter().flat_map(of).collect()
    }
}
