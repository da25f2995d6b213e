//! Rules of the house that no compiler and no lint holds. All violations are reported at once, each with its place and
//! what to do about it.
//!
//! A check is a function from a [`Tree`] (or from `cargo metadata`) to violations and has a test with a sample that
//! breaks it. To add one: a module here, its function in [`CHECKS`], a sample in its tests.

mod arrows;
mod bans;
mod documents;
mod examples;
mod layout;
mod manifests;
mod modules;
mod names;
mod sizes;
pub(crate) mod sql;
mod tests_rules;

use std::fmt;

use anyhow::{Context, Result, bail};

use crate::command;
use crate::docs;
use crate::tree::Tree;

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// Path relative to the root.
    pub(crate) file: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: String,
}

impl Violation {
    pub(crate) fn new(file: &str, line: usize, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}\n    hint: {}", self.file, self.message, self.hint)
        } else {
            write!(f, "{}:{}: {}\n    hint: {}", self.file, self.line, self.message, self.hint)
        }
    }
}

type Check = fn(&Tree) -> Vec<Violation>;

const CHECKS: [Check; 11] = [
    unparsed,
    bans::check,
    documents::check,
    examples::check,
    layout::check,
    manifests::check,
    modules::check,
    names::check,
    sizes::check,
    sql::check,
    tests_rules::check,
];

/// Runs every check on the repository.
///
/// # Errors
/// When a rule is broken, or the repository can't be read.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read(&command::root())?;
    let mut violations: Vec<Violation> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    violations.extend(arrows::check(&metadata()?));
    violations.extend(docs::drift_without_binary(&tree));
    violations.sort();
    violations.dedup();
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => {
            println!("tidy: {} files, {} checks, every rule holds", tree.files().count(), CHECKS.len() + 2);
            Ok(())
        }
        count => bail!("tidy: {count} broken rules"),
    }
}

fn metadata() -> Result<serde_json::Value> {
    let mut cargo = command::command(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"]);
    serde_json::from_str(&command::read(&mut cargo)?).context("cargo metadata wrote something that is not JSON")
}

fn unparsed(tree: &Tree) -> Vec<Violation> {
    tree.broken()
        .iter()
        .map(|(path, line, message)| {
            Violation::new(path, *line, format!("does not parse: {message}"), "make it compile")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_parse_is_reported() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "\nfn (")]);
        let found = unparsed(&tree);
        assert_eq!((found.len(), found[0].line), (1, 2));
    }

    #[test]
    fn a_violation_shows_place_and_hint() {
        assert_eq!(Violation::new("a.rs", 3, "bad", "better").to_string(), "a.rs:3: bad\n    hint: better");
        assert_eq!(Violation::new("a.rs", 0, "bad", "better").to_string(), "a.rs: bad\n    hint: better");
    }
}
