//! The repository as the checks see it: the files that git tracks or would add, as text, and the parsed Rust among them.
//!
//! Checks are functions from a [`Tree`] to violations, so a test gives them a tree made of a few strings.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result};
use syn::spanned::Spanned;

use crate::command;

/// Files by path relative to the root, with `/` between the parts. What is not UTF-8 text is left out.
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    rust: Vec<RustFile>,
    broken: Vec<(String, usize, String)>,
}

/// A Rust file that parses.
pub(crate) struct RustFile {
    /// Relative path.
    pub(crate) path: String,
    /// Number of lines.
    pub(crate) lines: usize,
    /// The syntax tree, with places.
    pub(crate) syntax: syn::File,
    /// True when the whole file is compiled for tests only.
    pub(crate) test_only: bool,
    test_spans: Vec<RangeInclusive<usize>>,
}

impl Tree {
    /// Reads the files that git tracks and those it would add.
    ///
    /// # Errors
    /// When git can't list them or a file can't be read.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut list = command::command("git");
        list.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = command::read(&mut list)?;
        let mut files = BTreeMap::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            let full = root.join(path);
            if !full.is_file() {
                continue; // removed, but not yet in the index
            }
            let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.insert(path.to_owned(), text);
            }
        }
        Ok(Self::from_files(files))
    }

    /// A tree made of paths and texts.
    pub(crate) fn from_files(files: BTreeMap<String, String>) -> Self {
        let mut parsed = Vec::new();
        let mut broken = Vec::new();
        for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
            match syn::parse_file(text) {
                Ok(syntax) => parsed.push((path.clone(), text.lines().count(), syntax)),
                Err(error) => broken.push((path.clone(), error.span().start().line, error.to_string())),
            }
        }
        let test_modules: BTreeSet<String> =
            parsed.iter().flat_map(|(path, _, file)| test_module_files(path, file)).collect();
        let rust = parsed
            .into_iter()
            .map(|(path, lines, syntax)| RustFile {
                test_only: test_modules.contains(&path) || in_test_folder(&path),
                test_spans: test_spans(&syntax),
                path,
                lines,
                syntax,
            })
            .collect();
        Self { files, rust, broken }
    }

    /// All files, by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// True when the path is a file or a folder with a file in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        self.files.contains_key(path)
            || self.files.range(below.clone()..).next().is_some_and(|(found, _)| found.starts_with(&below))
    }

    /// The Rust files that parse.
    pub(crate) fn rust(&self) -> &[RustFile] {
        &self.rust
    }

    /// Rust files that do not parse: path, line, message.
    pub(crate) fn broken(&self) -> &[(String, usize, String)] {
        &self.broken
    }

    /// Names of the workspace's crates: the folders under `crates/` with a manifest.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        self.files
            .keys()
            .filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .filter(|name| !name.contains('/'))
    }
}

#[cfg(test)]
impl Tree {
    /// A tree for a test.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self::from_files(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }
}

impl RustFile {
    /// True when the line belongs to code that is compiled for tests only.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.test_only || self.test_spans.iter().any(|span| span.contains(&line))
    }

    /// Lines outside of test code.
    pub(crate) fn lines_without_tests(&self) -> usize {
        if self.test_only {
            0
        } else {
            self.lines - self.test_spans.iter().map(|span| span.clone().count()).sum::<usize>()
        }
    }
}

/// True for a target that cargo builds for tests only.
fn in_test_folder(path: &str) -> bool {
    path.starts_with("tests/") || path.split('/').nth(2).is_some_and(|part| part == "tests" || part == "benches")
}

/// True when the attributes keep an item out of a normal build: `#[cfg(test)]`, `#[test]`, `#[tokio::test]`.
pub(crate) fn is_test_item(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("cfg") {
            return attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"));
        }
        is_test_attribute(attribute)
    })
}

/// True for `#[test]` and its relatives such as `#[tokio::test]`.
pub(crate) fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
}

fn test_spans(file: &syn::File) -> Vec<RangeInclusive<usize>> {
    file.items
        .iter()
        .filter(|item| is_test_item(item_attributes(item)))
        .map(|item| item.span().start().line..=item.span().end().line)
        .collect()
}

/// The attributes of an item at the top of a file.
fn item_attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The files that `#[cfg(test)] mod name;` declares, both spellings.
fn test_module_files(path: &str, file: &syn::File) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
    };
    file.items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Mod(module) if module.content.is_none() && is_test_item(&module.attrs) => Some(&module.ident),
            _ => None,
        })
        .flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_code_is_told_from_the_rest() {
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", "fn a() {}\n#[cfg(test)]\nmod checks;\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n"),
            ("crates/a/src/checks.rs", "fn c() {}\n"),
            ("crates/a/tests/it.rs", "fn d() {}\n"),
        ]);
        let seen: Vec<_> =
            tree.rust().iter().map(|file| (file.path.as_str(), file.test_only, file.lines_without_tests())).collect();
        assert_eq!(
            seen,
            [("crates/a/src/checks.rs", true, 0), ("crates/a/src/lib.rs", false, 1), ("crates/a/tests/it.rs", true, 0)]
        );
        let lib = &tree.rust()[1];
        assert!(!lib.is_test(1) && lib.is_test(6));
        assert_eq!(tree.crates().collect::<Vec<_>>(), ["a"]);
        assert!(tree.has("crates/a/src") && !tree.has("crates/a/sr"));
    }
}
