//! Brings what several steps left together, without a copy.
//!
//! Tips are merged in their order. Names, times and messages of the commits come from what is merged, so that whoever asks
//! again gets the same commit.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::tree::{CommitId, Conflict, MAX_CONFLICT_FILES, PrivateCopy, Repository, Tip, Tree};
use orc_ports::worktrees::{Conversation, WorktreeError};

use crate::store::{MergeWords, Merged, Store};
use crate::{Trees, names};

/// Where a repository of a copy starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// The commit; with a conflict that of its first side.
    pub(crate) commit: CommitId,
    /// The second side, where the two cannot be merged.
    pub(crate) against: Option<(CommitId, Conflict)>,
}

impl Trees {
    pub(crate) fn join(&self, conversation: &Conversation, copy: &PrivateCopy) -> Result<Tree, WorktreeError> {
        let starts = self.starts(copy)?;
        if let Some((_, conflict)) = starts.iter().find_map(|start| start.against.clone()) {
            return Err(WorktreeError::Conflict(conflict));
        }
        let mut tree = BTreeMap::new();
        for (repository, start) in copy.repositories.iter().zip(starts) {
            let name = format!("{}/joined", names::references(conversation));
            self.store_of(repository).set(&[(name, start.commit.clone())])?;
            tree.insert(repository.path.clone(), start.commit);
        }
        Ok(Tree(tree))
    }

    /// Where each repository of a copy starts, in their order.
    pub(crate) fn starts(&self, copy: &PrivateCopy) -> Result<Vec<Start>, WorktreeError> {
        copy.repositories.iter().map(|one| self.start_of(one, &copy.from, copy.holds_conflict)).collect()
    }

    fn start_of(&self, repository: &Repository, from: &[Tip], one_at_a_time: bool) -> Result<Start, WorktreeError> {
        let store = self.store_of(repository);
        let mut sides = from.iter().filter_map(|tip| Some((tip.by.as_str(), tip.tree.0.get(&repository.path)?)));
        let Some((by, first)) = sides.next() else {
            present(&store, &repository.commit)?;
            return Ok(Start { commit: repository.commit.clone(), against: None });
        };
        present(&store, first)?;
        let mut start = Start { commit: first.clone(), against: None };
        let (mut merged, mut against) = (vec![by], Vec::new());
        for (by, theirs) in sides {
            present(&store, theirs)?;
            let ours = merged.join(", ");
            match self.merge(&store, &start.commit, theirs, (&ours, by))? {
                Merged::Clean(commit) => {
                    start.commit = commit;
                    merged.push(by);
                }
                // What merges in spite of it comes first, so that whoever resolves the conflict has seen it.
                Merged::Conflict(files) => against.push((ours, by, theirs, files)),
            }
        }
        // A copy holds one conflict after another; a step that fails for them names all.
        against.truncate(if one_at_a_time { 1 } else { against.len() });
        let who = against.iter().map(|(_, by, ..)| *by).collect::<Vec<&str>>().join(", ");
        let files: BTreeSet<String> = against.iter_mut().flat_map(|(.., files)| std::mem::take(files)).collect();
        if let Some((ours, _, theirs, _)) = against.into_iter().next() {
            let conflict = conflict(repository, files.into_iter().collect(), ours, &who);
            start.against = Some((theirs.clone(), conflict));
        }
        Ok(start)
    }

    fn merge(
        &self,
        store: &Store<'_>,
        ours: &CommitId,
        theirs: &CommitId,
        (our_name, their_name): (&str, &str),
    ) -> Result<Merged, WorktreeError> {
        let message = format!("Merge {their_name} into {our_name}\n");
        store.merge(ours, theirs, MergeWords { author: &self.author, message })
    }
}

fn conflict(repository: &Repository, mut files: Vec<String>, ours: String, theirs: &str) -> Conflict {
    let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
    files.truncate(MAX_CONFLICT_FILES);
    Conflict { repository: repository.path.clone(), files, count, ours, theirs: theirs.to_owned() }
}

fn present(store: &Store<'_>, commit: &CommitId) -> Result<(), WorktreeError> {
    if store.has(commit)? {
        return Ok(());
    }
    Err(WorktreeError::NoCommit { repository: store.source.clone(), wanted: commit.to_string() })
}
