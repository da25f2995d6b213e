//! Tests run, always: none is ignored, and each has something in it that can fail.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Violation;
use crate::tree::{Tree, is_test_attribute};

/// Parts of names of macros and functions that can fail a test.
const FAILING: [&str; 8] = ["assert", "prop_", "panic", "unwrap", "expect", "check", "verify", "conformance"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust() {
        Tests { path: &file.path, violations: &mut violations }.visit_file(&file.syntax);
    }
    violations
}

struct Tests<'a> {
    path: &'a str,
    violations: &'a mut Vec<Violation>,
}

impl<'ast> Visit<'ast> for Tests<'_> {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("ignore") {
            let line = attribute.span().start().line;
            let hint = "make it pass everywhere; a missing tool fails with the command that installs it";
            self.violations.push(Violation::new(self.path, line, "an ignored test", hint));
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.attrs.iter().any(is_test_attribute) {
            let mut search = Search { found: false };
            search.visit_block(&item.block);
            let fallible = matches!(item.sig.output, syn::ReturnType::Type(..));
            if !search.found && !fallible {
                let message = format!("test `{}` has nothing that can fail", item.sig.ident);
                self.violations.push(Violation::new(
                    self.path,
                    item.sig.span().start().line,
                    message,
                    "assert in it, or call something whose name says that it checks",
                ));
            }
        }
        visit::visit_item_fn(self, item);
    }
}

struct Search {
    found: bool,
}

impl Search {
    fn name(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        self.found |= FAILING.iter().any(|part| name.contains(part));
    }
}

impl<'ast> Visit<'ast> for Search {
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        item.path.segments.iter().for_each(|segment| self.name(&segment.ident));
        for token in item.tokens.clone() {
            tokens(self, token);
        }
    }

    fn visit_ident(&mut self, ident: &'ast syn::Ident) {
        self.name(ident);
    }
}

/// What stands inside a macro's brackets is only tokens for syn.
fn tokens(search: &mut Search, token: proc_macro2::TokenTree) {
    match token {
        proc_macro2::TokenTree::Ident(ident) => search.name(&ident),
        proc_macro2::TokenTree::Group(group) => group.stream().into_iter().for_each(|token| tokens(search, token)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/a/src/lib.rs", text)]);
        check(&tree).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn ignored_and_empty_tests_are_reported() {
        assert_eq!(found("#[test]\n#[ignore]\nfn a() { assert!(b()); }"), ["an ignored test"]);
        assert_eq!(found("#[test]\nfn a() { b(); }"), ["test `a` has nothing that can fail"]);
        assert_eq!(found("#[tokio::test]\nasync fn a() {}"), ["test `a` has nothing that can fail"]);
    }

    #[test]
    fn tests_that_can_fail_pass() {
        assert_eq!(found("#[test]\nfn a() { b().unwrap(); }"), [""; 0]);
        assert_eq!(found("#[test]\nfn a() -> R { b()?; Ok(()) }"), [""; 0]);
        assert_eq!(found("proptest! { #[test] fn a(x in 0..1) { prop_assert!(x == 0); } }"), [""; 0]);
        assert_eq!(found("fn a() {}"), [""; 0]);
    }
}
