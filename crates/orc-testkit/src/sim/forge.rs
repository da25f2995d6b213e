//! The simulated git. A commit is the set of changes that led to it, a merge is their union, and a file on which two changes
//! stand that neither knew of the other is a conflict. So equal merges are equal commits, and what a commit lacks is lost.
//!
//! Like repositories and copies on a disk it outlives every instance.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::ids::{ContentHash, FlowId};
use orc_domain::path::StepPath;
use orc_domain::tree::{CommitId, Conflict, PrivateCopy, Tip, Tree};

use super::dice::Dice;
use crate::fixture;

/// The changes behind a commit, by number.
pub(crate) type Changes = BTreeSet<u32>;

/// The changes behind trees, by the path of their repository; one without an entry stands at its base.
pub(crate) type Contents = BTreeMap<String, Changes>;

/// Files that anybody may change; any other is changed by one run only.
const SHARED: usize = 2;

/// A change of a file.
#[derive(Clone, Debug)]
struct Change {
    file: u32,
    /// Changes of the same file that it was made on top of.
    over: Vec<u32>,
}

/// All commits and all copies.
#[derive(Debug, Default)]
pub(crate) struct Forge {
    changes: Vec<Change>,
    commits: BTreeMap<CommitId, Changes>,
    copies: BTreeMap<(FlowId, StepPath), Contents>,
}

impl Forge {
    /// What is behind tips, all of them together.
    pub(crate) fn contents(&self, tips: &[Tip]) -> Contents {
        let mut contents = Contents::new();
        for (path, commit) in tips.iter().flat_map(|tip| &tip.tree.0) {
            if let Some(changes) = self.commits.get(commit) {
                contents.entry(path.clone()).or_default().extend(changes);
            }
        }
        contents
    }

    /// What is behind one tree.
    pub(crate) fn contents_of(&self, tree: &Tree) -> Contents {
        self.contents(&[Tip { by: String::new(), tree: tree.clone() }])
    }

    /// Makes a copy ready.
    pub(crate) fn prepare(&mut self, flow: FlowId, path: &StepPath, copy: &PrivateCopy) -> Result<(), Box<Conflict>> {
        let key = (flow, path.clone());
        if copy.goes_on && self.copies.contains_key(&key) {
            return Ok(());
        }
        let (start, conflict) = self.merge(copy);
        if let Some(conflict) = conflict.filter(|_| !copy.holds_conflict) {
            return Err(Box::new(conflict));
        }
        self.copies.insert(key, start);
        Ok(())
    }

    /// Merges without a copy.
    pub(crate) fn join(&mut self, copy: &PrivateCopy) -> Result<Tree, Box<Conflict>> {
        match self.merge(copy) {
            (_, Some(conflict)) => Err(Box::new(conflict)),
            (start, None) => Ok(self.commit(&start)),
        }
    }

    /// Merges tips in their order: with the first that clashes, without any other that does.
    fn merge(&self, copy: &PrivateCopy) -> (Contents, Option<Conflict>) {
        let mut found = None;
        let merged = copy.repositories.iter().map(|repository| {
            let path = &repository.path;
            let (mut whole, mut against) = (Changes::new(), None);
            for tip in &copy.from {
                let side = self.contents_of(&tip.tree).remove(path).unwrap_or_default();
                let both: Changes = whole.union(&side).copied().collect();
                match self.clashes(&both).as_slice() {
                    [] => whole = both,
                    files if against.is_none() => {
                        found.get_or_insert_with(|| conflict(path, files, tip));
                        against = Some(side);
                    }
                    _ => {}
                }
            }
            whole.extend(against.unwrap_or_default());
            (path.clone(), whole)
        });
        let merged = merged.collect();
        (merged, found)
    }

    /// Changes of a file that no other of them was made on top of.
    fn heads(&self, changes: &Changes, file: u32) -> Vec<u32> {
        let of_file = || changes.iter().copied().filter(|change| self.changes[*change as usize].file == file);
        let covered: Changes =
            of_file().flat_map(|change| self.changes[change as usize].over.iter().copied()).collect();
        of_file().filter(|change| !covered.contains(change)).collect()
    }

    /// Files on which more than one change stands. Nobody shares the others.
    fn clashes(&self, changes: &Changes) -> Vec<u32> {
        let shared = (0..SHARED).filter_map(|file| u32::try_from(file).ok());
        shared.filter(|file| self.heads(changes, *file).len() > 1).collect()
    }

    /// A run works in its copy: it resolves what clashes, most of the time, and changes something or nothing.
    pub(crate) fn work(&mut self, flow: FlowId, path: &StepPath, dice: &mut Dice) {
        let key = (flow, path.clone());
        let Some(mut copy) = self.copies.remove(&key) else { return };
        for changes in copy.values_mut() {
            for file in self.clashes(changes) {
                if dice.permille(900) {
                    self.change(changes, file);
                }
            }
        }
        let often = dice.weighted(&[(40, 0), (40, 1), (20, 2)]).unwrap_or(0);
        for _ in 0..often {
            let at = dice.below(copy.len());
            let own = u32::try_from(self.changes.len() + SHARED).unwrap_or(u32::MAX);
            let file = if dice.permille(450) { u32::try_from(dice.below(SHARED)).unwrap_or(0) } else { own };
            if let Some(changes) = copy.values_mut().nth(at) {
                self.change(changes, file);
            }
        }
        self.copies.insert(key, copy);
    }

    fn change(&mut self, changes: &mut Changes, file: u32) {
        let over = self.heads(changes, file);
        changes.insert(u32::try_from(self.changes.len()).unwrap_or(u32::MAX));
        self.changes.push(Change { file, over });
    }

    /// Keeps what is in a copy; nothing that still clashes is kept.
    pub(crate) fn harvest(&mut self, flow: FlowId, path: &StepPath) -> Option<Tree> {
        let copy = self.copies.get(&(flow, path.clone()))?.clone();
        let whole = copy.values().all(|changes| self.clashes(changes).is_empty());
        whole.then(|| self.commit(&copy))
    }

    fn commit(&mut self, contents: &Contents) -> Tree {
        let commits = contents.iter().map(|(path, changes)| {
            let commit = commit_of(changes);
            self.commits.insert(commit.clone(), changes.clone());
            (path.clone(), commit)
        });
        Tree(commits.collect())
    }
}

fn conflict(path: &str, files: &[u32], theirs: &Tip) -> Conflict {
    Conflict {
        repository: path.to_owned(),
        files: files.iter().map(ToString::to_string).collect(),
        count: u32::try_from(files.len()).unwrap_or(u32::MAX),
        ours: "those before".to_owned(),
        theirs: theirs.by.clone(),
    }
}

/// The commit with these changes behind it.
fn commit_of(changes: &Changes) -> CommitId {
    if changes.is_empty() {
        return fixture::commit(0);
    }
    let hash = ContentHash::of(format!("{changes:?}").as_bytes()).to_string();
    let digits = hash.get(hash.len().saturating_sub(16)..).unwrap_or_default();
    fixture::commit(u64::from_str_radix(digits, 16).unwrap_or(1))
}
