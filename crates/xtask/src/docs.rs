//! Reference documents that are generated from the code: `docs/reference/`.
//!
//! Two sources: what xtask can see itself (the transition table, the SQL files), and what only the binary knows, printed
//! by its hidden command `reference` and by `schema`. `--check` writes nothing and names each document that differs.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use orc_domain::transition::Transition;

use crate::command;
use crate::tidy::{Violation, sql};
use crate::tree::Tree;

const FOLDER: &str = "docs/reference/";
const MARK: &str = "<!-- Written by `cargo xtask docs`; changes by hand are lost. -->\n\n";
const HINT: &str = "run `cargo xtask docs` and commit what it writes";

/// A document with its path and what it must hold.
struct Document {
    path: String,
    text: String,
}

/// Which build of the binary is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// The one that tests use.
    Dev,
    /// The one that is shipped; for where it is built anyway.
    Release,
}

impl Document {
    fn new(name: &str, text: String) -> Self {
        Self { path: format!("{FOLDER}{name}"), text }
    }
}

/// Writes the documents.
///
/// # Errors
/// When the binary can't be built or a file can't be written; what comes from the tree is written first.
pub(crate) fn write(build: Build) -> Result<()> {
    let tree = Tree::read(&command::root())?;
    write_all(&documents_of_tree(&tree))?;
    write_all(&documents_of_binary(build)?)
}

fn write_all(documents: &[Document]) -> Result<()> {
    let root = command::root();
    std::fs::create_dir_all(root.join(FOLDER)).with_context(|| format!("cannot create {FOLDER}"))?;
    for document in documents {
        let path = &document.path;
        std::fs::write(root.join(path), &document.text).with_context(|| format!("cannot write {path}"))?;
        println!("docs: wrote {path}");
    }
    Ok(())
}

/// Compares the documents with the code and names every one that differs.
///
/// # Errors
/// When the binary can't be built, or a document differs.
pub(crate) fn check(build: Build) -> Result<()> {
    let tree = Tree::read(&command::root())?;
    let mut documents = documents_of_tree(&tree);
    documents.extend(documents_of_binary(build)?);
    let mut violations = differences(&tree, &documents);
    violations.extend(strangers(&tree, &documents));
    violations.iter().for_each(|violation| println!("{violation}"));
    if !violations.is_empty() {
        bail!("docs: {} documents differ from the code", violations.len());
    }
    println!("docs: {} documents agree with the code", documents.len());
    Ok(())
}

/// Documents that differ, of those that need no build of the binary.
pub(crate) fn drift_without_binary(tree: &Tree) -> Vec<Violation> {
    differences(tree, &documents_of_tree(tree))
}

fn differences(tree: &Tree, documents: &[Document]) -> Vec<Violation> {
    let differs = |document: &&Document| tree.text(&document.path) != Some(document.text.as_str());
    documents
        .iter()
        .filter(differs)
        .map(|document| Violation::new(&document.path, 0, "differs from the code", HINT))
        .collect()
}

/// Files in the folder that nobody writes.
fn strangers(tree: &Tree, documents: &[Document]) -> Vec<Violation> {
    tree.files()
        .filter(|(path, _)| path.starts_with(FOLDER) && documents.iter().all(|document| document.path != *path))
        .map(|(path, _)| Violation::new(path, 0, "is not a generated document", "move it out of docs/reference/"))
        .collect()
}

fn documents_of_tree(tree: &Tree) -> Vec<Document> {
    vec![Document::new("state-machines.md", state_machines()), Document::new("statements.md", statements(tree))]
}

/// What the binary prints, by file name and arguments.
const BINARY: [(&str, [&str; 2]); 9] = [
    ("cli.md", ["reference", "cli"]),
    ("consumers.md", ["reference", "consumers"]),
    ("environment.md", ["reference", "environment"]),
    ("exit-codes.md", ["reference", "exit-codes"]),
    ("keys.md", ["reference", "keys"]),
    ("pipeline.schema.json", ["schema", "pipeline"]),
    ("profile.schema.json", ["schema", "profile"]),
    ("model.schema.json", ["schema", "model"]),
    ("settings.schema.json", ["schema", "settings"]),
];

fn documents_of_binary(build: Build) -> Result<Vec<Document>> {
    let document = |(name, arguments): &(&str, [&str; 2])| {
        let mut cargo = command::command(env!("CARGO"));
        cargo.args(["run", "--quiet", "--package", "orc-cli", "--bin", "orchestrator"]);
        cargo.args((build == Build::Release).then_some("--release")).arg("--").args(arguments);
        let mark = if name.ends_with(".md") { MARK } else { "" };
        Ok(Document::new(name, format!("{mark}{}", command::read(&mut cargo)?)))
    };
    BINARY.iter().map(document).collect()
}

fn state_machines() -> String {
    let mut text = format!(
        "{MARK}# State machines\n\nEvery (state, input) pair that `decide` treats specially, from \
         `crates/orc-domain/src/transition.rs`. The simulator must have taken all of them.\n"
    );
    let mut machine = "";
    for transition in Transition::ALL {
        let row = transition.row();
        if row.machine != machine {
            machine = row.machine;
            let title = machine[..1].to_uppercase() + &machine[1..];
            let _ = write!(text, "\n## {title}\n\n| transition | from | on | to | note |\n|---|---|---|---|---|\n");
        }
        let _ = writeln!(text, "| {transition:?} | {} | {} | {} | {} |", row.from, row.on, row.to, row.note);
    }
    text
}

fn statements(tree: &Tree) -> String {
    let mut text = format!(
        "{MARK}# Statements of the store\n\nEvery statement is a file of its own, and a test prepares each on every database.\n"
    );
    let mut folder = "";
    for (path, text_of_file) in tree.files().filter(|(path, _)| path.starts_with("crates/") && path.ends_with(".sql")) {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if parent != folder {
            folder = parent;
            let _ = write!(text, "\n## {folder}\n\n| file | statement |\n|---|---|\n");
        }
        let lines: Vec<String> =
            sql::statements(text_of_file).iter().flat_map(|one| one.split_whitespace()).map(str::to_owned).collect();
        let _ = writeln!(text, "| {name} | `{}` |", lines.join(" ").replace('|', "\\|"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_transitions_is_complete() {
        let text = state_machines();
        assert!(Transition::ALL.iter().all(|transition| text.contains(&format!("| {transition:?} |"))));
        let headings = text.matches("\n## ").count();
        let machines: std::collections::BTreeSet<_> = Transition::ALL.iter().map(|one| one.row().machine).collect();
        assert_eq!(headings, machines.len(), "rows of a machine stand together");
    }

    #[test]
    fn a_changed_a_missing_and_a_strange_document_are_found() {
        let documents = [Document::new("a.md", "a".to_owned()), Document::new("b.md", "b".to_owned())];
        let tree = Tree::of(&[("docs/reference/a.md", "x"), ("docs/reference/c.md", "c")]);
        let files = |found: Vec<Violation>| found.into_iter().map(|violation| violation.file).collect::<Vec<_>>();
        assert_eq!(files(differences(&tree, &documents)), ["docs/reference/a.md", "docs/reference/b.md"]);
        assert_eq!(files(strangers(&tree, &documents)), ["docs/reference/c.md"]);
    }

    #[test]
    fn a_statement_is_shown_in_one_line() {
        let tree = Tree::of(&[("crates/orc-store-x/sql/a.sql", "-- why\nSELECT a || b\n  FROM t;\n")]);
        assert!(statements(&tree).ends_with("| a.sql | `SELECT a \\|\\| b FROM t` |\n"));
    }
}
