//! Names that say nothing (`Manager`, `Helper`, ...) and names that mean something else here (`job`, `task`, ...).
//!
//! Only names that we give are looked at: types, modules, files, functions, fields, parameters, variants, constants, and
//! the words of SQL files. Paths into other crates (`tokio::task::JoinHandle`) are theirs. Exceptions are listed with their
//! reason and are themselves violations once nobody needs them.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Violation;
use super::sql;
use crate::tree::Tree;

/// Say nothing; not in names of types, traits, modules and files.
const EMPTY: [&str; 9] = ["manager", "helper", "helpers", "util", "utils", "common", "misc", "service", "base"];
/// Words that are not ours, with the words that are; in no name that we give.
const FOREIGN: [(&str, &str); 4] = [
    ("job", "run or step"),
    ("task", "run, step or ticket"),
    ("session", "conversation"),
    ("execution", "flow or run"),
];
/// Types of the async runtime whose values may be called what they are.
const RUNTIME_TYPES: [&str; 5] = ["TaskTracker", "JoinHandle", "JoinSet", "JoinError", "AbortHandle"];

/// Where a foreign word is the right one: path prefix, word, reason.
type Exception = (&'static str, &'static str, &'static str);

const EXCEPTIONS: [Exception; 1] =
    [("crates/orc-runtime/", "task", "tasks of the async runtime, which the task tracker names and watches")];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    check_with(tree, &EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[Exception]) -> Vec<Violation> {
    let mut names = Names { path: "", exceptions, used: BTreeSet::new(), violations: Vec::new() };
    for (path, text) in tree.files() {
        names.path = path;
        names.file(path);
        if path.ends_with(".sql") {
            for (line, word) in sql::words(text) {
                names.foreign(&word, line);
            }
        }
    }
    for file in tree.rust() {
        names.path = &file.path;
        names.visit_file(&file.syntax);
    }
    for (index, (prefix, word, _)) in exceptions.iter().enumerate() {
        if tree.has(prefix) && !names.used.contains(&index) {
            let message = format!("the exception for `{word}` in {prefix} is not needed");
            names.violations.push(Violation::new("crates/xtask/src/tidy/names.rs", 0, message, "remove it"));
        }
    }
    names.violations
}

struct Names<'a> {
    path: &'a str,
    exceptions: &'a [Exception],
    used: BTreeSet<usize>,
    violations: Vec<Violation>,
}

impl Names<'_> {
    fn file(&mut self, path: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some(stem) = name.strip_suffix(".rs").or_else(|| name.strip_suffix(".sql")) {
            self.noun(stem, 0);
        }
    }

    /// A type, trait, module or file.
    fn noun(&mut self, name: &str, line: usize) {
        for word in words(name).into_iter().filter(|word| EMPTY.contains(&word.as_str())) {
            self.violations.push(Violation::new(
                self.path,
                line,
                format!("`{name}`: the word `{word}` says nothing"),
                "name it after what it is or knows",
            ));
        }
        self.foreign(name, line);
    }

    /// Any name that we give.
    fn foreign(&mut self, name: &str, line: usize) {
        for word in words(name) {
            let singular = word.strip_suffix('s').unwrap_or(&word);
            let Some((word, ours)) = FOREIGN.iter().find(|(foreign, _)| *foreign == singular) else {
                continue;
            };
            let path = self.path;
            match self.exceptions.iter().position(|(prefix, exempt, _)| path.starts_with(prefix) && exempt == word) {
                Some(index) => {
                    self.used.insert(index);
                }
                None => self.violations.push(Violation::new(
                    path,
                    line,
                    format!("`{name}`: `{word}` is not a word of this project"),
                    format!("say {ours}; docs/GLOSSARY.md has the words"),
                )),
            }
        }
    }

    fn ident_noun(&mut self, ident: &syn::Ident) {
        self.noun(&ident.to_string(), ident.span().start().line);
    }

    fn ident_foreign(&mut self, ident: &syn::Ident) {
        self.foreign(&ident.to_string(), ident.span().start().line);
    }
}

/// The words of a snake_case, SCREAMING_CASE or CamelCase name, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = '_';
    for letter in name.chars() {
        let starts = letter.is_uppercase() && (previous.is_lowercase() || previous.is_ascii_digit());
        if !letter.is_alphanumeric() || starts {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().into_iter().for_each(|word| word.extend(letter.to_lowercase()));
        }
        previous = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_runtime_type(kind: &syn::Type) -> bool {
    struct Search(bool);
    impl<'ast> Visit<'ast> for Search {
        fn visit_ident(&mut self, ident: &'ast syn::Ident) {
            self.0 |= RUNTIME_TYPES.iter().any(|name| ident == name);
        }
    }
    let mut search = Search(false);
    search.visit_type(kind);
    search.0
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.ident_noun(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.ident_noun(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.ident_noun(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.ident_noun(&item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.ident_noun(&item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.ident_foreign(&item.ident);
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.ident_foreign(&item.ident);
        visit::visit_item_static(self, item);
    }

    fn visit_variant(&mut self, item: &'ast syn::Variant) {
        self.ident_foreign(&item.ident);
        visit::visit_variant(self, item);
    }

    fn visit_signature(&mut self, item: &'ast syn::Signature) {
        self.ident_foreign(&item.ident);
        visit::visit_signature(self, item);
    }

    fn visit_field(&mut self, item: &'ast syn::Field) {
        if let Some(ident) = item.ident.as_ref().filter(|_| !is_runtime_type(&item.ty)) {
            self.ident_foreign(ident);
        }
        visit::visit_field(self, item);
    }

    fn visit_pat_type(&mut self, item: &'ast syn::PatType) {
        if let syn::Pat::Ident(pattern) = &*item.pat
            && !is_runtime_type(&item.ty)
        {
            self.foreign(&pattern.ident.to_string(), pattern.span().start().line);
        }
        visit::visit_pat_type(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str, exceptions: &[Exception]) -> Vec<String> {
        check_with(&Tree::of(&[(path, text)]), exceptions).into_iter().map(|violation| violation.message).collect()
    }

    fn in_rust(text: &str) -> usize {
        found("crates/a/src/lib.rs", text, &[]).len()
    }

    #[test]
    fn words_are_split_as_people_read_them() {
        assert_eq!(words("HttpTaskURL2Base"), ["http", "task", "url2", "base"]);
        assert_eq!(words("MAX_JOBS"), ["max", "jobs"]);
        assert_eq!(words("Database"), ["database"]);
    }

    #[test]
    fn empty_words_are_refused_in_types_modules_and_files() {
        for text in ["struct RunManager;", "enum StepHelper {}", "trait Service {}", "mod utils {}", "type Base = u8;"]
        {
            assert_eq!(in_rust(text), 1, "{text}");
        }
        assert_eq!(found("crates/a/src/common.rs", "", &[]).len(), 1);
        assert_eq!(in_rust("struct Database { base_commit: u8 }"), 0);
    }

    #[test]
    fn foreign_words_are_refused_in_every_name_we_give() {
        for text in [
            "struct TaskRow;",
            "struct A { job: u8 }",
            "fn list_sessions() {}",
            "fn a(execution: u8) {}",
            "enum A { Job }",
            "const MAX_TASKS: u8 = 1;",
        ] {
            assert_eq!(in_rust(text), 1, "{text}");
        }
        assert_eq!(found("crates/a/sql/a.sql", "SELECT session FROM a -- a job\n", &[]).len(), 1);
    }

    #[test]
    fn words_of_the_async_runtime_stay_theirs() {
        for text in [
            "use tokio::task::JoinHandle;",
            "struct A { tasks: tokio_util::task::TaskTracker }",
            "fn a(task: &JoinHandle<()>) {}",
            "fn a() { tokio::task::yield_now(); }",
        ] {
            assert_eq!(in_rust(text), 0, "{text}");
        }
    }

    #[test]
    fn an_exception_holds_for_its_place_and_must_be_used() {
        let exceptions = [("crates/p/", "session", "because")];
        assert_eq!(found("crates/p/src/lib.rs", "fn session() {}", &exceptions), [""; 0]);
        assert_eq!(found("crates/q/src/lib.rs", "fn session() {}", &exceptions).len(), 1);
        assert_eq!(
            found("crates/p/src/lib.rs", "", &exceptions),
            ["the exception for `session` in crates/p/ is not needed"]
        );
    }
}
