//! What may stand at the top of the repository, and that no file names a folder of somebody's machine.

use std::collections::BTreeSet;

use super::Violation;
use crate::tree::Tree;

const TOP: [&str; 19] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "agents",
    "clippy.toml",
    "crates",
    "deny.toml",
    "deploy",
    "docs",
    "justfile",
    "migrations",
    "orchestrator.yaml",
    "pipelines",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "tests",
];

/// Roots of folders that exist on one machine only; each means something when a name follows.
const MACHINE: [&str; 4] = ["/home/", "/root/", "/work/", "/Users/"];

/// The home of nobody: that of the cases, where homes matter.
const NOBODYS: &str = "/home/dev";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let top: BTreeSet<&str> = tree.files().filter_map(|(path, _)| path.split('/').next()).collect();
    for name in top.into_iter().filter(|name| !name.starts_with('.') && !TOP.contains(name)) {
        let hint = "put it below one of the folders there; the list is in crates/xtask/src/tidy/layout.rs";
        violations.push(Violation::new(name, 0, "does not belong at the top", hint));
    }
    for (path, text) in tree.files() {
        for (index, line) in text.lines().enumerate() {
            if let Some(found) = machine_path(line).filter(|found| *found != NOBODYS) {
                let message = format!("`{found}` is a path of somebody's machine");
                violations.push(Violation::new(
                    path,
                    index + 1,
                    message,
                    "use a relative path, or `~`, or a temporary folder",
                ));
            }
        }
    }
    violations
}

/// The first path of a machine in a line: it begins a path (no letter, digit, `~`, `.` or `/` before it) and has a name.
fn machine_path(line: &str) -> Option<&str> {
    MACHINE.iter().find_map(|root| {
        line.match_indices(root).find_map(|(start, _)| {
            let before = line[..start].chars().next_back();
            let inside = before.is_some_and(|letter| letter.is_alphanumeric() || "~./_-}$".contains(letter));
            let rest = &line[start + root.len()..];
            let name =
                rest.find(|letter: char| !letter.is_alphanumeric() && !"._-".contains(letter)).unwrap_or(rest.len());
            (!inside && name > 0).then(|| &line[start..start + root.len() + name])
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_at_the_top_are_reported() {
        let tree = Tree::of(&[("scripts/a.sh", ""), (".ci/run", ""), ("README.md", ""), ("crates/a/src/lib.rs", "")]);
        let found: Vec<_> = check(&tree).into_iter().map(|violation| violation.file).collect();
        assert_eq!(found, ["scripts"]);
    }

    #[test]
    fn paths_of_a_machine_are_found_where_they_begin() {
        let path = |root: &str| format!("see \"{root}somebody/x\"");
        for root in MACHINE {
            assert_eq!(machine_path(&path(root)), Some(format!("{root}somebody").as_str()));
        }
        assert_eq!(machine_path(&path("~/home/")), None);
        assert_eq!(machine_path(&path("target/work/")), None);
        assert_eq!(machine_path("list [\"/home/\", \"/root/\"]"), None);
        let tree = Tree::of(&[("docs/a.md", &format!("x\n{}", path(MACHINE[0])))]);
        assert_eq!(check(&tree)[0].line, 2);
    }
}
