//! Documents say only what is there: paths and links lead somewhere, decisions are numbered and indexed, every crate is on
//! the map, and every fault in `docs/faults.md` names a test that exists.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use super::Violation;
use crate::tree::{Tree, is_test_attribute};

const ADR: &str = "docs/adr/";
const INDEX: &str = "docs/adr/README.md";
const FAULTS: &str = "docs/faults.md";
const MAP: &str = "docs/ARCHITECTURE.md";
/// Folders whose paths, written in backticks, must exist.
const FOLDERS: [&str; 8] =
    ["crates/", "docs/", "migrations/", "pipelines/", "agents/", "tests/", "deploy/", ".config/"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| is_document(path)) {
        check_paths(tree, path, text, &mut violations);
    }
    check_decisions(tree, &mut violations);
    check_faults(tree, &mut violations);
    let map = tree.text(MAP).unwrap_or_default();
    for name in tree.crates().filter(|name| !map.contains(&format!("`{name}`"))) {
        violations.push(Violation::new(
            MAP,
            0,
            format!("crate `{name}` is not on the map"),
            "say in a line what it is for",
        ));
    }
    violations
}

pub(super) fn is_document(path: &str) -> bool {
    path.ends_with(".md") && (path.starts_with("docs/") || ["README.md", "CONTRIBUTING.md"].contains(&path))
}

/// Links and paths outside of code blocks.
fn check_paths(tree: &Tree, path: &str, text: &str, violations: &mut Vec<Violation>) {
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        let spans = code_spans(line);
        let named = spans.iter().copied().filter(|span| is_plain_path(span)).map(str::to_owned);
        let linked = links(line).into_iter().filter_map(|target| resolve(path, target));
        for target in named.chain(linked) {
            if !tree.has(&target) {
                let message = format!("`{target}` does not exist");
                violations.push(Violation::new(
                    path,
                    index + 1,
                    message,
                    "correct the path, or do not speak of it yet",
                ));
            }
        }
    }
}

/// True for text that means exactly one path of this repository.
fn is_plain_path(text: &str) -> bool {
    FOLDERS.iter().any(|folder| text.starts_with(folder))
        && text.chars().all(|letter| letter.is_alphanumeric() || "/._-".contains(letter))
        && !text.contains("NNNN")
}

/// What stands between single backticks.
fn code_spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Targets of `[text](target)`.
fn links(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// The file a relative link means; nothing for other sites and places in the same document.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() || target.contains("://") {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." | "" => {}
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn check_decisions(tree: &Tree, violations: &mut Vec<Violation>) {
    let index = tree.text(INDEX).unwrap_or_default();
    let mut numbers = BTreeMap::new();
    for (path, _) in tree.files().filter(|(path, _)| path.starts_with(ADR) && *path != INDEX) {
        let name = &path[ADR.len()..];
        let number = name.split_once('-').map(|(number, _)| number);
        let Some(number) =
            number.filter(|number| number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()))
        else {
            violations.push(Violation::new(path, 0, "a decision without a number", "name it NNNN-title.md"));
            continue;
        };
        if let Some(other) = numbers.insert(number, name) {
            let message = format!("number {number} is also that of {other}");
            violations.push(Violation::new(path, 0, message, "take the next free number"));
        }
        if !links(index).contains(&name) {
            violations.push(Violation::new(
                INDEX,
                0,
                format!("{name} is not in the index"),
                "add a row that links to it",
            ));
        }
    }
}

fn check_faults(tree: &Tree, violations: &mut Vec<Violation>) {
    let Some(text) = tree.text(FAULTS) else { return };
    let tests = tests(tree);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let last = cells.last().copied().unwrap_or_default();
        let ruler = last.trim_matches(|letter| letter == '-' || letter == ':').is_empty() && !last.is_empty();
        let header = text.lines().nth(index + 1).is_some_and(|next| next.starts_with("|-") || next.starts_with("| -"));
        if ruler || header {
            continue;
        }
        let names = code_spans(last);
        if names.is_empty() {
            let hint = "write the name of its test, in backticks, into the last column";
            violations.push(Violation::new(FAULTS, index + 1, "a fault without a test", hint));
        }
        for name in names {
            // As nextest prints it, `crate::binary module::name`, or any ending of that.
            let short = name.rsplit([':', ' ']).next().unwrap_or(name);
            if !tests.contains(short) {
                let message = format!("there is no test `{name}`");
                violations.push(Violation::new(FAULTS, index + 1, message, "name a test that exists"));
            }
        }
    }
}

/// Names of all test functions, also those inside of macros such as `proptest!`, and of the properties of a conformance
/// suite, from which a macro makes a test for each implementation.
fn tests(tree: &Tree) -> BTreeSet<String> {
    #[derive(Default)]
    struct Names(BTreeSet<String>, bool);
    impl<'ast> Visit<'ast> for Names {
        fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
            if self.1 || item.attrs.iter().any(is_test_attribute) {
                self.0.insert(item.sig.ident.to_string());
            }
            visit::visit_item_fn(self, item);
        }

        fn visit_macro(&mut self, item: &'ast syn::Macro) {
            let tokens: Vec<_> = item.tokens.clone().into_iter().collect();
            for pair in tokens.windows(2) {
                if let [proc_macro2::TokenTree::Ident(word), proc_macro2::TokenTree::Ident(name)] = pair
                    && word == "fn"
                {
                    self.0.insert(name.to_string());
                }
            }
        }
    }
    let mut names = Names::default();
    for file in tree.rust() {
        names.1 = file.path.contains("/conformance");
        names.visit_file(&file.syntax);
    }
    names.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn paths_and_links_lead_somewhere() {
        let text =
            "[a](docs/a.md) [b](docs/b.md#x) `docs/c.md` `docs/NNNN.md` `docs/<x>` https://x\n```\n`docs/d.md`\n```";
        let found = found(&[("README.md", text), ("docs/a.md", "[up](../README.md) [no](x.md)")]);
        assert_eq!(found, ["`docs/c.md` does not exist", "`docs/b.md` does not exist", "`docs/x.md` does not exist"]);
    }

    #[test]
    fn decisions_are_numbered_and_indexed() {
        let files = [
            (INDEX, "[one](0001-a.md)"),
            ("docs/adr/0001-a.md", ""),
            ("docs/adr/0001-b.md", ""),
            ("docs/adr/c.md", ""),
        ];
        let expected =
            ["number 0001 is also that of 0001-a.md", "0001-b.md is not in the index", "a decision without a number"];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn a_fault_names_a_test_that_exists() {
        let faults = "| case | test |\n|---|---|\n| a | `one` |\n| b | `it::two` |\n| b | `crate::it it::two` |\n| c | none |\n| d | `three` |\n";
        let code = "#[test]\nfn one() {}\nproptest! { #[test] fn two(x in 0..1) {} }\nfn three() {}";
        let found = found(&[(FAULTS, faults), ("tests/it.rs", code)]);
        assert_eq!(found, ["a fault without a test", "there is no test `three`"]);
    }

    #[test]
    fn every_crate_is_on_the_map() {
        assert_eq!(found(&[("crates/a/Cargo.toml", ""), (MAP, "`b`")]), ["crate `a` is not on the map"]);
        assert_eq!(found(&[("crates/a/Cargo.toml", ""), (MAP, "`a`")]), [""; 0]);
    }
}
