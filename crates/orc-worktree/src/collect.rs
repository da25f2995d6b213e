//! Removes what nobody needs any more, after proof.
//!
//! A copy goes when references hold what is in it, or when it is proven that nothing is; what is unsaved is rescued first,
//! and one that cannot be rescued stays. It is moved aside at once and given back to the disk in the background; the bytes
//! are counted before: the blocks of its own files, of a snapshot those that no other has. What has no row that can be
//! read is never touched, and said. Only a copy that somebody made to look at it is thrown away unseen. A ground goes when no copy stands on it, a reference of a result only when somebody
//! says that its flow is forgotten.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use orc_domain::ids::{FlowId, RunId};
use orc_domain::tree::{CommitId, Repository, Tip};
use orc_ports::worktrees::{Conversation, Freed, Owners, SavedRef, WorktreeError};

use crate::inside::with_cause;
use crate::manifest::{Content, Manifest};
use crate::store::Store;
use crate::strategy::Strategy;
use crate::{Trees, files, held};

/// Grounds of one source that may lie there unused before they are looked at without being asked.
const MOST_GROUNDS: usize = 12;

impl Trees {
    pub(crate) fn collect(&self, flow: FlowId) -> Result<Freed, WorktreeError> {
        let place = self.root.join("copies").join(flow.file_name());
        let mut freed = Freed::default();
        let mut failed = None;
        for name in files::names_in(&place)? {
            // One that cannot be proven to be saved stays, and keeps no other from going.
            if let Err(error) = self.collect_copy(&place.join(name), &mut freed) {
                tracing::warn!(%flow, error = %with_cause(&error), "a copy stays");
                failed = failed.or(Some(error));
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        // What is left in it keeps it: somebody still works there.
        if std::fs::remove_dir(&place).is_ok() || !files::exists(&place) {
            freed.bytes += self.remove(&self.root.join("homes").join(flow.file_name()))?;
        }
        Ok(freed)
    }

    fn collect_copy(&self, directory: &Path, freed: &mut Freed) -> Result<(), WorktreeError> {
        let lock = self.locks.of(directory);
        let _held = held(&lock);
        let Some(found) = Manifest::read(directory)? else {
            if !files::exists(directory) {
                // Somebody else was faster.
                return Ok(());
            }
            // An empty one is what a crash leaves between the directory and its row.
            let gone = std::fs::remove_dir(directory);
            return gone.map_err(|_| WorktreeError::Unknown { path: directory.to_owned() });
        };
        if found.lease == Some(self.instance) {
            // A run that is still there will give it back; whoever looks next takes it.
            return Ok(());
        }
        if found.content == Content::Unsaved && !self.is_untouched(&found)? {
            freed.rescued += u32::from(!self.rescue_copy(&found)?.is_empty());
        }
        freed.bytes += self.bytes_of(directory, &found);
        let gone = self.throw_copy(directory, &found)?;
        self.remove_later(gone);
        freed.copies += 1;
        Ok(())
    }

    /// Removes the copy and the caches of a run that only looked, without asking what is in them.
    pub(crate) fn discard(&self, conversation: &Conversation, run: RunId) -> Result<(), WorktreeError> {
        let directory = self.directory_of(conversation);
        let lock = self.locks.of(&directory);
        let _held = held(&lock);
        if let Some(found) = Manifest::read(&directory)? {
            if found.run != run {
                let what = format!("the copy of `{}` is in use by {}", conversation.path, found.run);
                return Err(WorktreeError::Box { what });
            }
            let gone = self.throw_copy(&directory, &found)?;
            self.remove_later(gone);
        }
        self.drop_caches(run)?;
        let flow = conversation.flow.file_name();
        // Another copy of it keeps its directory.
        drop(std::fs::remove_dir(self.root.join("copies").join(&flow)));
        self.remove(&self.root.join("homes").join(flow)).map(drop)
    }

    /// Bytes of disk that are a copy's own.
    pub(crate) fn bytes_of(&self, directory: &Path, found: &Manifest) -> u64 {
        match found.strategy {
            Strategy::Btrfs => {
                found.parts.iter().map(|part| self.snapshots.own_bytes(&self.root.join(&part.directory))).sum()
            }
            Strategy::Overlay | Strategy::Clone => files::bytes_of(directory),
        }
    }

    /// Flows that have copies or homes here.
    pub(crate) fn owners(&self) -> Result<Owners, WorktreeError> {
        let mut owners = Owners::default();
        for place in ["copies", "homes"].map(|name| self.root.join(name)) {
            for name in files::names_in(&place)? {
                match name.replacen('-', "_", 1).parse::<FlowId>() {
                    Ok(flow) => drop(owners.flows.insert(flow)),
                    Err(_) => owners.unknown.push(place.join(name)),
                }
            }
        }
        Ok(owners)
    }

    /// Removes grounds that no copy stands on; the newest of a repository stays for the next.
    pub(crate) fn tidy(&self) -> Result<u64, WorktreeError> {
        let gone = {
            let _nobody_builds = self.building.write().unwrap_or_else(PoisonError::into_inner);
            self.throw_grounds(&self.used_layers()?)?
        };
        let mut bytes = 0;
        for path in gone {
            bytes += files::bytes_of(&path);
            self.remove_later(path);
        }
        Ok(bytes)
    }

    /// What nobody asks for and somebody has to do now and then.
    pub(crate) fn keep_small(&self) {
        let done = self.tidy_many().and_then(|()| self.pack_many());
        if let Err(error) = done {
            tracing::warn!(error = %with_cause(&error), "what copies are made from could not be tidied up");
        }
    }

    fn tidy_many(&self) -> Result<(), WorktreeError> {
        let bases = self.root.join("bases");
        for source in files::names_in(&bases)? {
            for strategy in files::names_in(&bases.join(&source))? {
                if files::names_in(&bases.join(&source).join(strategy))?.len() > MOST_GROUNDS {
                    return self.tidy().map(drop);
                }
            }
        }
        Ok(())
    }

    /// Packs repositories of ours that have become many files. Not while anybody of this instance works with one.
    fn pack_many(&self) -> Result<(), WorktreeError> {
        for store in self.stores()? {
            let drops = self.forgot.load(Ordering::SeqCst);
            if !drops && !store.is_scattered()? {
                continue;
            }
            // Somebody who works now will be done; the next look finds it again.
            let Ok(_alone) = self.working.try_write() else { return Ok(()) };
            store.pack_all(drops)?;
        }
        self.forgot.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Removes the references of flows, but those of commits that are needed.
    pub(crate) fn forget(&self, flows: &BTreeSet<FlowId>, needed: &BTreeSet<CommitId>) -> Result<(), WorktreeError> {
        for store in self.stores()? {
            let mut going = Vec::new();
            for (name, commit) in store.list("refs/orc")? {
                let owner = name.trim_start_matches("refs/orc/").trim_start_matches("rescue/").split('/').next();
                let owner = owner.and_then(|name| name.replacen('-', "_", 1).parse::<FlowId>().ok());
                if owner.is_some_and(|flow| flows.contains(&flow)) && !needed.contains(&commit) {
                    going.push(name);
                }
            }
            if !going.is_empty() {
                store.drop_references(&going)?;
                self.forgot.store(true, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Layers that copies stand on. A row that cannot be read makes all of them used.
    fn used_layers(&self) -> Result<BTreeSet<PathBuf>, WorktreeError> {
        let copies = self.root.join("copies");
        let mut used = BTreeSet::new();
        for flow in files::names_in(&copies)? {
            for step in files::names_in(&copies.join(&flow))? {
                let found = Manifest::read(&copies.join(&flow).join(step))?;
                used.extend(found.into_iter().flat_map(|found| found.parts).flat_map(|part| part.layers));
            }
        }
        Ok(used)
    }

    /// Takes grounds that are not used out of the way; where they are now.
    fn throw_grounds(&self, used: &BTreeSet<PathBuf>) -> Result<Vec<PathBuf>, WorktreeError> {
        let mut gone = Vec::new();
        let bases = self.root.join("bases");
        for source in files::names_in(&bases)? {
            for strategy in files::names_in(&bases.join(&source))? {
                let grounds = self.grounds_in(&Path::new("bases").join(&source).join(strategy))?;
                let newest = grounds.first().map(|ground| ground.layers.clone()).unwrap_or_default();
                for layer in grounds.iter().filter_map(|ground| ground.layers.first()) {
                    if !used.contains(layer) && !newest.contains(layer) {
                        let tree = self.root.join(layer);
                        gone.push(self.throw(tree.parent().unwrap_or(&tree))?);
                    }
                }
            }
        }
        Ok(gone)
    }

    /// Takes a directory of ours away; its bytes.
    fn remove(&self, path: &Path) -> Result<u64, WorktreeError> {
        if !files::exists(path) {
            return Ok(0);
        }
        let bytes = files::bytes_of(path);
        let gone = self.throw(path)?;
        self.remove_later(gone);
        Ok(bytes)
    }

    /// Gives what was thrown away back to the disk.
    pub(crate) fn remove_later(&self, path: PathBuf) {
        let (trash, snapshots) = (self.root.join("trash"), self.snapshots.clone());
        self.background.send(Box::new(move || {
            snapshots.remove_if(&path.join("tree"));
            if let Err(error) = files::remove_tree(&path, &trash) {
                tracing::warn!(path = %path.display(), %error, "what was thrown away stays until the next start");
            }
        }));
    }

    /// What earlier instances were about to remove or had half made.
    pub(crate) fn leftovers(&self) -> Result<Vec<PathBuf>, WorktreeError> {
        let trash = self.root.join("trash");
        let mut found: Vec<PathBuf> = files::names_in(&trash)?.into_iter().map(|name| trash.join(name)).collect();
        let mut places = vec![self.root.join("repositories")];
        places.extend(self.stores()?.into_iter().map(|store| store.path));
        let bases = self.root.join("bases");
        for source in files::names_in(&bases)? {
            for strategy in files::names_in(&bases.join(&source))? {
                places.push(bases.join(&source).join(strategy));
            }
        }
        for place in places {
            let half = files::names_in(&place)?.into_iter().filter(|name| name.starts_with('.'));
            found.extend(half.map(|name| place.join(name)));
        }
        Ok(found)
    }

    /// All repositories of ours.
    fn stores(&self) -> Result<Vec<Store<'_>>, WorktreeError> {
        let directory = self.root.join("repositories");
        let mut stores = Vec::new();
        for name in files::names_in(&directory)?.into_iter().filter(|name| !name.starts_with('.')) {
            let path = directory.join(name).join("source");
            let source = std::fs::read_to_string(&path).map_err(files::failed("read", &path))?;
            stores.push(Store::known(&self.root, &self.git, &source));
        }
        Ok(stores)
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
