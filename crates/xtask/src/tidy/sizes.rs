//! Sizes of files and functions, with a ratchet that may only fall.
//!
//! A file has at most 600 lines without tests, a function 70. What was longer when the rule came is listed in
//! `crates/xtask/ratchet.txt` with its exact size: when it shrinks, the line must follow, and it must never grow.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Violation;
use crate::tree::{RustFile, Tree, is_test_item};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const RATCHET: &str = "crates/xtask/ratchet.txt";

/// Lines by subject: a path, or `path::function`; with the line where the subject begins.
type Sizes = BTreeMap<String, (String, usize, usize)>;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let allowed = read_ratchet(tree, &mut violations);
    let mut sizes = Sizes::new();
    for file in tree.rust() {
        measure(file, &mut sizes);
    }
    for (subject, (path, line, lines)) in &sizes {
        let limit = if *line == 0 { FILE_LINES } else { FUNCTION_LINES };
        match allowed.get(subject) {
            None if *lines > limit => violations.push(Violation::new(
                path,
                *line,
                format!("{subject} has {lines} lines, at most {limit} are allowed"),
                "split it where a reader would",
            )),
            Some((_, allowed)) if *allowed < *lines => violations.push(Violation::new(
                path,
                *line,
                format!("{subject} grew to {lines} lines; the ratchet allows {allowed}"),
                "split it; the ratchet only falls",
            )),
            _ => {}
        }
    }
    for (subject, (place, allowed)) in &allowed {
        let size = sizes.get(subject).map_or(0, |(_, _, lines)| *lines);
        if size < *allowed {
            violations.push(Violation::new(
                RATCHET,
                *place,
                format!("{subject} is listed with {allowed} lines and has {size}"),
                "write the new size, or remove the line when it is within the limit",
            ));
        }
    }
    violations
}

fn read_ratchet(tree: &Tree, violations: &mut Vec<Violation>) -> BTreeMap<String, (usize, usize)> {
    let mut allowed = BTreeMap::new();
    for (index, line) in tree.text(RATCHET).unwrap_or_default().lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.rsplit_once(' ').map(|(subject, lines)| (subject, lines.parse())) {
            Some((subject, Ok(lines))) => {
                allowed.insert(subject.to_owned(), (index + 1, lines));
            }
            _ => violations.push(Violation::new(RATCHET, index + 1, "not a ratchet line", "write `SUBJECT LINES`")),
        }
    }
    allowed
}

fn measure(file: &RustFile, sizes: &mut Sizes) {
    sizes.insert(file.path.clone(), (file.path.clone(), 0, file.lines_without_tests()));
    if !file.test_only {
        Functions { path: &file.path, sizes }.visit_file(&file.syntax);
    }
}

struct Functions<'a> {
    path: &'a str,
    sizes: &'a mut Sizes,
}

impl Functions<'_> {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let lines = block.span().end().line - first + 1;
        let subject = format!("{}::{}", self.path, signature.ident);
        let entry = self.sizes.entry(subject).or_insert((self.path.to_owned(), first, lines));
        if entry.2 < lines {
            *entry = (self.path.to_owned(), first, lines); // of functions with one name, the longest counts
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_item(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test_item(&item.attrs) {
            self.add(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test_item(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    let _ = 1;\n".repeat(lines - 2))
    }

    fn messages(ratchet: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/a/src/lib.rs", text), (RATCHET, ratchet)]);
        check(&tree).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn a_long_function_and_a_long_file_are_reported() {
        assert_eq!(messages("", &function("a", 70)), [""; 0]);
        assert_eq!(messages("", &function("a", 71)), ["crates/a/src/lib.rs::a has 71 lines, at most 70 are allowed"]);
        assert_eq!(messages("", &"\n".repeat(600)), [""; 0]);
        assert_eq!(messages("", &"\n".repeat(601)), ["crates/a/src/lib.rs has 601 lines, at most 600 are allowed"]);
    }

    #[test]
    fn methods_count_and_tests_do_not() {
        let method = format!("struct S;\nimpl S {{\n{}}}\n", function("m", 71));
        assert_eq!(messages("", &method), ["crates/a/src/lib.rs::m has 71 lines, at most 70 are allowed"]);
        let test = format!("#[cfg(test)]\nmod tests {{\n{}{}}}\n", function("t", 99), "\n".repeat(600));
        assert_eq!(messages("", &test), [""; 0]);
    }

    #[test]
    fn the_ratchet_only_falls() {
        let line = "crates/a/src/lib.rs::a 80\n";
        assert_eq!(messages(line, &function("a", 80)), [""; 0]);
        assert_eq!(
            messages(line, &function("a", 81)),
            ["crates/a/src/lib.rs::a grew to 81 lines; the ratchet allows 80"]
        );
        assert_eq!(messages(line, &function("a", 79)), ["crates/a/src/lib.rs::a is listed with 80 lines and has 79"]);
        assert_eq!(messages("a b c", ""), ["not a ratchet line"]);
    }
}
