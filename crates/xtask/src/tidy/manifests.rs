//! Manifests: versions, lints and dependencies are said once, in the root, and the lock file knows one registry.

use super::Violation;
use crate::tree::Tree;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// The crate whose system calls no safe library offers.
const UNSAFE: &str = "orc-kernel";
const SHARED: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for name in tree.crates() {
        check_crate(name, tree, &mut violations);
    }
    for (index, line) in tree.text("Cargo.lock").unwrap_or_default().lines().enumerate() {
        if let Some(source) = line.strip_prefix("source = ").filter(|source| source.trim_matches('"') != REGISTRY) {
            let message = format!("a package comes from {source}");
            violations.push(Violation::new("Cargo.lock", index + 1, message, "every dependency comes from crates.io"));
        }
    }
    violations
}

fn check_crate(name: &str, tree: &Tree, violations: &mut Vec<Violation>) {
    let path = format!("crates/{name}/Cargo.toml");
    let mut add = |message: String, hint: &str| violations.push(Violation::new(&path, 0, message, hint));
    let table = match tree.text(&path).unwrap_or_default().parse::<toml::Table>() {
        Ok(table) => table,
        Err(error) => return add(format!("is not TOML: {}", error.message()), "correct it"),
    };
    let get = |section: &str, key: &str| table.get(section).and_then(|section| section.get(key));
    let inherited = |value: Option<&toml::Value>| {
        value.and_then(|value| value.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
    };
    if get("package", "name").and_then(toml::Value::as_str) != Some(name) {
        add(format!("the crate in crates/{name} has another name"), "folder = crate name");
    }
    for key in SHARED {
        if !inherited(get("package", key)) {
            add(format!("`{key}` is not the workspace's"), &format!("write `{key}.workspace = true`"));
        }
    }
    // The one crate that may contain unsafe code has lints of its own, which ask more of it (docs/adr/0021-kernel-crate.md).
    let unsafe_is_judged = get("lints", "rust").and_then(|lints| lints.get("unsafe_op_in_unsafe_fn")).is_some();
    let has_own = name == UNSAFE && unsafe_is_judged;
    if get("lints", "workspace").and_then(toml::Value::as_bool) != Some(true) && !has_own {
        add("the shared lints are not on".to_owned(), "write `[lints] workspace = true`");
    }
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for (dependency, value) in table.get(section).and_then(toml::Value::as_table).into_iter().flatten() {
            if !inherited(Some(value)) {
                let hint = "declare it in the root's [workspace.dependencies] and write `.workspace = true`";
                add(format!("`{dependency}` in [{section}] is declared here"), hint);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\npublish.workspace = true\n[lints]\nworkspace = true\n\
        [dependencies]\nserde.workspace = true\n";

    fn found(manifest: &str, lock: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/a/Cargo.toml", manifest), ("Cargo.lock", lock)]);
        check(&tree).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn what_is_shared_is_inherited() {
        assert_eq!(found(GOOD, ""), [""; 0]);
        assert_eq!(
            found(&GOOD.replace("edition.workspace = true", "edition = \"2021\""), ""),
            ["`edition` is not the workspace's"]
        );
        assert_eq!(found(&GOOD.replace("[lints]", "[other]"), ""), ["the shared lints are not on"]);
        assert_eq!(
            found(&GOOD.replace("name = \"a\"", "name = \"b\""), ""),
            ["the crate in crates/a has another name"]
        );
        assert_eq!(
            found(&GOOD.replace("serde.workspace = true", "serde = \"1\""), ""),
            ["`serde` in [dependencies] is declared here"]
        );
    }

    #[test]
    fn the_lock_file_knows_one_registry() {
        assert_eq!(found(GOOD, &format!("source = \"{REGISTRY}\"\n")), [""; 0]);
        assert_eq!(found(GOOD, "source = \"git+https://example.com/a\"\n").len(), 1);
    }
}
