//! A `clippy.toml` inside a crate replaces the one at the root, so it must repeat everything that the root says. The pure
//! crates must have one, and every ban must give its reason.

use super::Violation;
use crate::tree::Tree;

const ROOT: &str = "clippy.toml";
const PURE: [&str; 3] = ["orc-domain", "orc-engine", "orc-spec"];
const LISTS: [&str; 3] = ["disallowed-macros", "disallowed-methods", "disallowed-types"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let root = read(tree, ROOT, &mut violations);
    for name in tree.crates() {
        let path = format!("crates/{name}/clippy.toml");
        if tree.has(&path) {
            let own = read(tree, &path, &mut violations);
            compare(&path, &root, &own, &mut violations);
        } else if PURE.contains(&name) {
            let hint = "copy the root's bans into it and add what a pure crate may not do";
            violations.push(Violation::new(&path, 0, "a pure crate needs its own clippy.toml", hint));
        }
    }
    violations
}

fn read(tree: &Tree, path: &str, violations: &mut Vec<Violation>) -> toml::Table {
    let table = match tree.text(path).unwrap_or_default().parse::<toml::Table>() {
        Ok(table) => table,
        Err(error) => {
            violations.push(Violation::new(path, 0, format!("is not TOML: {}", error.message()), "correct it"));
            return toml::Table::new();
        }
    };
    for list in LISTS {
        for entry in entries(&table, list) {
            if entry.get("reason").and_then(toml::Value::as_str).is_none_or(str::is_empty) {
                let message = format!("{list}: {} has no reason", name(entry));
                violations.push(Violation::new(path, 0, message, "say where the thing is done instead"));
            }
        }
    }
    table
}

fn compare(path: &str, root: &toml::Table, own: &toml::Table, violations: &mut Vec<Violation>) {
    for (key, value) in root {
        if LISTS.contains(&key.as_str()) {
            let missing = entries(root, key).filter(|ban| entries(own, key).all(|other| name(other) != name(ban)));
            for ban in missing {
                let message = format!("{key}: {} of the root is missing", name(ban));
                violations.push(Violation::new(
                    path,
                    0,
                    message,
                    "repeat it: this file replaces the root's for this crate",
                ));
            }
        } else if own.get(key) != Some(value) {
            let message = format!("`{key} = {value}` of the root is missing");
            violations.push(Violation::new(
                path,
                0,
                message,
                "repeat it: this file replaces the root's for this crate",
            ));
        }
    }
}

fn entries<'a>(table: &'a toml::Table, list: &str) -> impl Iterator<Item = &'a toml::Value> {
    table.get(list).and_then(toml::Value::as_array).into_iter().flatten()
}

/// The banned path of an entry, which is a string or a table.
fn name(entry: &toml::Value) -> &str {
    entry.as_str().or_else(|| entry.get("path")?.as_str()).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(root: &str, own: Option<&str>) -> Vec<String> {
        let mut files = vec![("clippy.toml", root), ("crates/orc-spec/Cargo.toml", "")];
        files.extend(own.map(|text| ("crates/orc-spec/clippy.toml", text)));
        check(&Tree::of(&files)).into_iter().map(|violation| violation.message).collect()
    }

    const BAN: &str = "a = 1\ndisallowed-methods = [{ path = \"x::y\", reason = \"z\" }]";

    #[test]
    fn a_pure_crate_repeats_the_root() {
        assert_eq!(found(BAN, Some(BAN)), [""; 0]);
        assert_eq!(found(BAN, None), ["a pure crate needs its own clippy.toml"]);
        assert_eq!(
            found(BAN, Some("a = 2")),
            ["`a = 1` of the root is missing", "disallowed-methods: x::y of the root is missing"]
        );
    }

    #[test]
    fn a_ban_gives_its_reason() {
        let bare = "disallowed-types = [\"x::Y\"]";
        assert_eq!(found("", Some(bare)), ["disallowed-types: x::Y has no reason"]);
        assert_eq!(found("a = ", Some("")).len(), 1);
    }
}
