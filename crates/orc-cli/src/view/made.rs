//! What a flow made: the commits that it hands on, where they are held, and the commands that take them over.
//!
//! Nothing is taken over by itself: the user's checkout and its references stay as they are. A flow that changed nothing
//! made nothing.

use std::path::Path;

use orc_domain::flow::{Flow, Step};
use orc_domain::tree::{CommitId, Repository, Tip};
use orc_ports::worktrees::{SavedRef, Worktrees};
use serde_json::{Value, json};

use crate::context::Context;

/// Results that are shown with their commands; the others are counted.
const SHOWN: usize = 5;

/// All that a flow hands on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    results: Vec<MadeCommit>,
}

/// A commit that is not the flow's own base.
#[derive(Clone, Debug)]
struct MadeCommit {
    /// Who made it.
    by: String,
    repository: Repository,
    commit: CommitId,
    held: Option<SavedRef>,
}

impl Made {
    /// What a flow that is over hands on. One that changed nothing, or goes on, costs no look at the repositories.
    pub(crate) fn of_flow(context: &Context, flow: &Flow) -> Self {
        if flow.head.tips.is_empty() {
            return Self::default();
        }
        let worktrees = context.copies();
        let (repositories, tips) = (flow.spec.repositories.as_slice(), flow.head.tips.as_slice());
        // Whoever carries the flow on is often this process, whose executor takes every child of the main thread for
        // something that a run left: git would be reaped, or killed, before its answer is heard.
        let found = std::thread::scope(|scope| {
            let look = || Self::of_tips(repositories, tips, Some(worktrees.as_ref()));
            let thread = std::thread::Builder::new().name("results".to_owned()).spawn_scoped(scope, look);
            thread.ok().and_then(|thread| thread.join().ok())
        });
        let mut made = found.unwrap_or_else(|| Self::of_tips(repositories, tips, None));
        for one in &mut made.results {
            // A step that only merged hands on the commit of whoever made it, when that has all of the others.
            if let Some(maker) = maker_of(flow, &one.repository.path, &one.commit) {
                maker.path.as_str().clone_into(&mut one.by);
            }
        }
        made
    }

    /// The commits of tips that differ from where the flow began, each once.
    pub(crate) fn of_tips(repositories: &[Repository], tips: &[Tip], worktrees: Option<&dyn Worktrees>) -> Self {
        let mut results: Vec<MadeCommit> = Vec::new();
        for tip in tips {
            let held = worktrees.map(|worktrees| worktrees.saved(repositories, std::slice::from_ref(tip)));
            for repository in repositories {
                let Some(commit) = tip.tree.0.get(&repository.path).filter(|commit| **commit != repository.commit)
                else {
                    continue;
                };
                if results.iter().any(|one| one.repository.path == repository.path && one.commit == *commit) {
                    continue;
                }
                let held = held.iter().flatten().find(|held| held.repository == repository.path).cloned();
                let (repository, commit) = (repository.clone(), commit.clone());
                results.push(MadeCommit { by: tip.by.clone(), repository, commit, held });
            }
        }
        Self { results }
    }

    /// The member `made` of documents.
    pub(crate) fn document(&self) -> Value {
        let results = self.results.iter().map(|one| {
            json!({
                "repository": one.repository.path,
                "source": one.repository.source,
                "by": one.by,
                "base": one.repository.commit,
                "commit": one.commit,
                "store": one.held.as_ref().map(|held| &held.store),
                "reference": one.held.as_ref().map(|held| &held.name),
                "take_over": one.commands(),
            })
        });
        results.collect()
    }

    /// For people, the first few; empty when nothing changed.
    pub(crate) fn text(&self) -> String {
        let mut text = self.first(SHOWN);
        if self.results.len() > SHOWN {
            let more = self.results.len() - SHOWN;
            text.push_str(&format!("  ... and {more} more: `orchestrator worktrees show` with the flow lists all\n"));
        }
        text
    }

    /// The same with all of it.
    pub(crate) fn whole_text(&self) -> String {
        self.first(usize::MAX)
    }

    fn first(&self, most: usize) -> String {
        if self.results.is_empty() {
            return String::new();
        }
        let mut text = String::from("made, and how to take it over\n");
        for one in self.results.iter().take(most) {
            let MadeCommit { by, repository, commit, .. } = one;
            let on = repository.branch.as_ref().map_or_else(String::new, |branch| format!(" ({branch})"));
            let base = repository.commit.short();
            let path = if repository.path == "." { String::new() } else { format!("{}: ", repository.path) };
            text.push_str(&format!("  {path}{} by `{by}`, on top of {base}{on}\n", commit.short()));
            text.extend(one.commands().iter().map(|command| format!("    {command}\n")));
        }
        if self.results.iter().any(|one| one.held.is_none()) {
            text.push_str(
                "  no reference of ours is found for a commit without commands; `orchestrator doctor` looks why\n",
            );
        }
        text
    }
}

/// The commits that a step made itself; those that it only hands on are its parents'.
pub(crate) fn own_tip(step: &Step) -> Option<&Tip> {
    step.tips.iter().find(|tip| tip.by == step.path.as_str())
}

/// Whoever made a commit: of the steps that call it their own the one that was done first.
pub(crate) fn maker_of<'a>(flow: &'a Flow, repository: &str, commit: &CommitId) -> Option<&'a Step> {
    let has = |step: &&Step| own_tip(step).is_some_and(|tip| tip.tree.0.get(repository) == Some(commit));
    flow.steps.iter().filter(has).min_by_key(|step| (step.since, step.no))
}

impl MadeCommit {
    fn commands(&self) -> Vec<String> {
        self.held.as_ref().map_or_else(Vec::new, |held| take_over(&self.repository, &held.store, &held.name))
    }
}

/// How to take a reference over into the repository that it came from: fetch, then merge or pick.
pub(crate) fn take_over(repository: &Repository, store: &Path, reference: &str) -> Vec<String> {
    let git = format!("git -C {}", quoted(&repository.source));
    let base = &repository.commit;
    vec![
        format!("{git} fetch {} {}", quoted(&store.display().to_string()), quoted(reference)),
        format!("{git} merge FETCH_HEAD"),
        format!("{git} cherry-pick --no-merges {}..FETCH_HEAD   # instead of the merge", base.short()),
    ]
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use orc_domain::tree::Tree;

    use super::*;

    fn commit(digit: char) -> CommitId {
        digit.to_string().repeat(40).parse().unwrap()
    }

    fn repository(path: &str) -> Repository {
        let source = format!("/src/{path}");
        Repository { path: path.to_owned(), source, branch: Some("main".to_owned()), commit: commit('0') }
    }

    fn tip(by: &str, commits: &[(&str, char)]) -> Tip {
        let tree = commits.iter().map(|(path, digit)| ((*path).to_owned(), commit(*digit)));
        Tip { by: by.to_owned(), tree: Tree(tree.collect::<BTreeMap<_, _>>()) }
    }

    #[test]
    fn only_what_changed_is_made_and_each_commit_once() {
        let repositories = [repository("."), repository("../docs")];
        let tips = [
            tip("a", &[(".", '1'), ("../docs", '0')]),
            tip("b", &[(".", '1'), ("../docs", '2')]),
            tip("c", &[(".", '0'), ("../docs", '0')]),
        ];
        let made = Made::of_tips(&repositories, &tips, None);
        let known: Vec<_> =
            made.results.iter().map(|one| (one.by.as_str(), one.repository.path.as_str(), &one.commit)).collect();
        assert_eq!(known, [("a", ".", &commit('1')), ("b", "../docs", &commit('2'))]);
        assert_eq!(Made::of_tips(&repositories, &tips[2..], None).text(), "");
    }

    #[test]
    fn what_is_held_has_commands_and_what_is_not_says_so() {
        let mut made = Made::of_tips(&[repository(".")], &[tip("fix", &[(".", '1')])], None);
        assert!(made.text().contains("no reference of ours is found"), "{}", made.text());
        assert_eq!(made.document()[0]["take_over"], json!([]));
        made.results[0].held = Some(SavedRef {
            repository: ".".to_owned(),
            store: "/data/it's.git".into(),
            name: "refs/orc/f/fix".to_owned(),
        });
        let text = made.text();
        assert!(text.contains("1111111111 by `fix`, on top of 0000000000 (main)"), "{text}");
        assert!(text.contains("git -C '/src/.' fetch '/data/it'\\''s.git' 'refs/orc/f/fix'\n"), "{text}");
        assert!(text.contains("git -C '/src/.' merge FETCH_HEAD\n"), "{text}");
        assert_eq!(made.document()[0]["take_over"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn results_beyond_the_first_are_counted() {
        let tips: Vec<Tip> = "123456789".chars().map(|digit| tip("x", &[(".", digit)])).collect();
        let text = Made::of_tips(&[repository(".")], &tips, None).text();
        assert!(text.contains("... and 4 more"), "{text}");
    }
}
