//! A module of 40 lines or more opens with `//!`: purpose, invariants, what it must never do, where to go next.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Violation;
use crate::tree::{Tree, is_test_item};

const LINES: usize = 40;
const HINT: &str = "open it with `//!`: purpose, invariants, what it must never do, where to go next";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust() {
        if file.test_only && file.path.contains("/src/") {
            continue; // the tests of a module, which is documented itself
        }
        let lines = if file.test_only { file.lines } else { file.lines_without_tests() };
        if lines >= LINES && !has_inner_docs(&file.syntax.attrs) {
            let message = format!("module of {lines} lines without documentation");
            violations.push(Violation::new(&file.path, 1, message, HINT));
        }
        Modules { path: &file.path, violations: &mut violations }.visit_file(&file.syntax);
    }
    violations
}

fn has_inner_docs(attributes: &[syn::Attribute]) -> bool {
    attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("doc") && matches!(attribute.style, syn::AttrStyle::Inner(_)))
}

struct Modules<'a> {
    path: &'a str,
    violations: &'a mut Vec<Violation>,
}

impl<'ast> Visit<'ast> for Modules<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_test_item(&item.attrs) {
            return;
        }
        let (first, last) = (item.span().start().line, item.span().end().line);
        let lines = last - first + 1;
        if item.content.is_some()
            && lines >= LINES
            && !item.attrs.iter().any(|attribute| attribute.path().is_ident("doc"))
        {
            let message = format!("module `{}` of {lines} lines without documentation", item.ident);
            self.violations.push(Violation::new(self.path, first, message, HINT));
        }
        visit::visit_item_mod(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Tree::of(&[("crates/a/src/lib.rs", text)])).len()
    }

    #[test]
    fn long_modules_need_documentation() {
        assert_eq!(count(&"\n".repeat(39)), 0);
        assert_eq!(count(&"\n".repeat(40)), 1);
        assert_eq!(count(&format!("//! Words.\n{}", "\n".repeat(40))), 0);
        assert_eq!(count(&format!("/// Words about `A`.\nstruct A;\n{}", "\n".repeat(40))), 1);
    }

    #[test]
    fn test_targets_need_it_and_the_tests_of_a_module_do_not() {
        let lines = "\n".repeat(40);
        assert_eq!(check(&Tree::of(&[("tests/it.rs", &lines)])).len(), 1);
        let lib = "#[cfg(test)]\nmod tests;";
        assert_eq!(check(&Tree::of(&[("crates/a/src/lib.rs", lib), ("crates/a/src/tests.rs", &lines)])), []);
    }

    #[test]
    fn so_do_modules_inside_a_file_unless_they_are_tests() {
        let lines = "\n".repeat(40);
        assert_eq!(count(&format!("//! Words.\nmod a {{{lines}}}")), 1);
        assert_eq!(count(&format!("//! Words.\nmod a {{ //! More.\n{lines}}}")), 0);
        assert_eq!(count(&format!("//! Words.\n#[cfg(test)]\nmod a {{{lines}}}")), 0);
    }
}
