//! How work travels from step to step: commits, one for each repository (design: pipelines, trees).
//!
//! A step hands on its *tips*: the trees that whoever comes after it starts from, merged in their order. A run hands on one
//! tip, the commits that it ended with, and beside it what it was handed of repositories that it had no copy of; a step
//! without a run hands on those of its parents. Nothing is merged before somebody needs it, and no tip at all means the
//! flow's own base.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::confine::BoxRules;
use crate::path::StepPath;

/// A commit: 40 hexadecimal digits, or 64 in repositories that use SHA-256; lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitId(String);

/// A text that names no commit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no commit id: 40 or 64 hexadecimal digits")]
pub struct CommitIdError(String);

impl CommitId {
    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..10).unwrap_or(&self.0)
    }
}

impl FromStr for CommitId {
    type Err = CommitIdError;

    fn from_str(text: &str) -> Result<Self, CommitIdError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if matches!(text.len(), 40 | 64) && text.bytes().all(is_digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(CommitIdError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for CommitId {
    type Error = CommitIdError;

    fn try_from(text: String) -> Result<Self, CommitIdError> {
        text.parse()
    }
}

impl From<CommitId> for String {
    fn from(id: CommitId) -> Self {
        id.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A commit for each repository, by the path under which the pipeline knows it (`.` for the first).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tree(pub BTreeMap<String, CommitId>);

/// What somebody hands on, and who.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tip {
    /// The step whose run made it; with the flow where it is another one's.
    pub by: String,
    /// The commits.
    pub tree: Tree,
}

/// A repository as a flow pinned it when it started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Repository {
    /// The path under which the pipeline knows it, relative to the first, without `..` behind a name: `.`, `../docs`.
    pub path: String,
    /// Where it was found: the absolute path of its checkout or bare repository.
    pub source: String,
    /// The branch whose commit was taken, when it was one.
    #[serde(default)]
    pub branch: Option<String>,
    /// The commit that the flow starts from.
    pub commit: CommitId,
}

/// The tree that a set of repositories was pinned at.
#[must_use]
pub fn base_of(repositories: &[Repository]) -> Tree {
    Tree(repositories.iter().map(|one| (one.path.clone(), one.commit.clone())).collect())
}

/// Tips in order without those that add nothing: what was there before, and the base where others build on it.
#[must_use]
pub fn without_repeats(tips: impl IntoIterator<Item = Tip>, base: &Tree) -> Vec<Tip> {
    let mut kept: Vec<Tip> = Vec::new();
    for tip in tips {
        if tip.tree != *base && !kept.iter().any(|known| known.tree == tip.tree) {
            kept.push(tip);
        }
    }
    kept
}

/// Where a run works, with every choice already made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The user's own checkout: no copy, no box.
    InPlace {
        /// An absolute path.
        directory: String,
    },
    /// A box.
    Boxed {
        /// The private copy that it works on; none: an empty directory of its own.
        copy: Option<PrivateCopy>,
        /// What it may reach beside that.
        rules: BoxRules,
    },
}

/// A private copy of repositories, for one conversation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PrivateCopy {
    /// Of which.
    pub repositories: Vec<Repository>,
    /// What it starts from, merged in this order; none: the commits of the repositories themselves.
    pub from: Vec<Tip>,
    /// Whether it goes on in the copy as an earlier run of the step left it, where there is one.
    pub goes_on: bool,
    /// Whether tips that contradict each other are left in it for an agent to resolve, instead of failing the run.
    pub holds_conflict: bool,
}

/// What two sides changed in ways that no merge can bring together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Conflict {
    /// In which repository, by its path.
    pub repository: String,
    /// The files, at most [`MAX_CONFLICT_FILES`]; the first ones in alphabetical order.
    pub files: Vec<String>,
    /// How many there are.
    pub count: u32,
    /// Who stood on one side: the steps that were merged before.
    pub ours: String,
    /// Who stood on the other.
    pub theirs: String,
}

/// Files of a conflict that are named.
pub const MAX_CONFLICT_FILES: usize = 20;

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { repository, files, count, ours, theirs } = self;
        write!(f, "`{ours}` and `{theirs}` both changed {}", files.join(", "))?;
        if *count as usize > files.len() {
            write!(f, " and {} more", *count as usize - files.len())?;
        }
        if repository == "." { Ok(()) } else { write!(f, " in {repository}") }
    }
}

/// The name of a step as the side of a merge.
#[must_use]
pub fn tip_of(path: &StepPath, tree: Tree) -> Tip {
    Tip { by: path.to_string(), tree }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(digit: char) -> Tree {
        Tree(BTreeMap::from([(".".to_owned(), digit.to_string().repeat(40).parse().unwrap())]))
    }

    fn tip(by: &str, digit: char) -> Tip {
        Tip { by: by.to_owned(), tree: tree(digit) }
    }

    #[test]
    fn commit_ids_are_whole_and_in_lower_case() {
        let refused = ["", "abc", &"g".repeat(40), &"A".repeat(40), &"a".repeat(41), "HEAD", "--all"];
        for text in refused {
            assert!(text.parse::<CommitId>().is_err(), "{text}");
        }
        assert!("0123456789".repeat(4).parse::<CommitId>().is_ok());
        assert!(serde_json::from_str::<CommitId>("\"-x\"").is_err());
    }

    #[test]
    fn what_adds_nothing_is_no_tip() {
        let base = tree('0');
        let tips = [tip("a", '0'), tip("b", '1'), tip("c", '1'), tip("d", '2')];
        assert_eq!(without_repeats(tips, &base), [tip("b", '1'), tip("d", '2')]);
        assert_eq!(without_repeats([tip("a", '0'), tip("b", '0')], &base), []);
    }

    #[test]
    fn a_conflict_names_both_sides_and_the_files() {
        let conflict = Conflict {
            repository: ".".to_owned(),
            files: vec!["a.txt".to_owned(), "b.txt".to_owned()],
            count: 5,
            ours: "edit[0]".to_owned(),
            theirs: "edit[1]".to_owned(),
        };
        assert_eq!(conflict.to_string(), "`edit[0]` and `edit[1]` both changed a.txt, b.txt and 3 more");
    }
}
