//! SQL lives in `.sql` files, one statement each; a file that nobody embeds is dead, and an `UPDATE` of rows has its
//! precondition. Migrations hold several statements and count their numbers without a gap.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use super::Violation;
use crate::tree::{RustFile, Tree};

/// How a text begins that is a statement, and what it has when it touches tables (`SELECT sqlite_version()` does not).
const VERBS: [&str; 6] = ["select ", "insert ", "update ", "delete ", "create ", "alter "];
const TOUCHES: [&str; 5] = [" from ", " into ", " set ", " table ", " index "];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut embedded = Embedded::default();
    for file in tree.rust() {
        let mut literals = Literals { file, embedded: &mut embedded, violations: &mut violations };
        literals.visit_file(&file.syntax);
    }
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".sql")) {
        if !embedded.has(path) {
            let hint = "name it in the list of statements or migrations with include_str!, or remove it";
            violations.push(Violation::new(path, 0, "no code embeds this file", hint));
        }
        if !path.starts_with("migrations/") {
            check_statement(path, text, &mut violations);
        }
    }
    check_migrations(tree, &mut violations);
    violations
}

/// What the code embeds: a relative path in `include_str!`, or a name from which a macro builds the path.
#[derive(Default)]
struct Embedded {
    paths: BTreeSet<String>,
    /// Crate and text.
    names: BTreeSet<(String, String)>,
}

impl Embedded {
    fn has(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".sql");
        let owner = crate_of(path);
        let named = |from: &str| from == owner || (path.starts_with("migrations/") && from.starts_with("orc-store-"));
        self.paths.contains(path) || self.names.iter().any(|(from, text)| text == name && named(from))
    }
}

/// The crate that a file belongs to; nothing for files outside of `crates/`.
fn crate_of(path: &str) -> &str {
    let below = path.strip_prefix("crates/").unwrap_or_default();
    below.split('/').next().unwrap_or_default()
}

fn check_statement(path: &str, text: &str, violations: &mut Vec<Violation>) {
    let statements = statements(text);
    if statements.len() != 1 {
        let message = format!("{} statements in one file", statements.len());
        violations.push(Violation::new(path, 0, message, "one file, one statement"));
    }
    for statement in statements {
        let words: Vec<String> = words(&statement).into_iter().map(|(_, word)| word.to_lowercase()).collect();
        let changes = matches!(words.first().map(String::as_str), Some("update" | "delete"));
        if changes && !words.iter().any(|word| word == "where") {
            violations.push(Violation::new(path, 1, "changes every row", "write the precondition into WHERE"));
        }
    }
}

fn check_migrations(tree: &Tree, violations: &mut Vec<Violation>) {
    let mut expected: (&str, u32) = ("", 0);
    for (path, _) in tree.files().filter(|(path, _)| path.starts_with("migrations/") && path.ends_with(".sql")) {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        expected = if folder == expected.0 { (folder, expected.1 + 1) } else { (folder, 1) };
        let number = name.split_once('_').and_then(|(digits, _)| digits.parse::<u32>().ok());
        if number != Some(expected.1) {
            let message = format!("migration {} of {folder} expected here", expected.1);
            violations.push(Violation::new(path, 0, message, "name it NNNN_title.sql, numbered from 1 without a gap"));
        }
    }
}

/// The statements of a text, without comments; empty ones are left out.
pub(crate) fn statements(text: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    for (_, piece) in pieces(text) {
        match piece {
            Piece::End => statements.push(String::new()),
            Piece::Word(text) | Piece::Other(text) => statements.last_mut().into_iter().for_each(|s| s.push_str(&text)),
        }
    }
    statements
        .into_iter()
        .map(|statement| statement.trim().to_owned())
        .filter(|statement| !statement.is_empty())
        .collect()
}

/// The bare and quoted words of a text with their lines; neither strings nor comments.
pub(super) fn words(text: &str) -> Vec<(usize, String)> {
    pieces(text)
        .into_iter()
        .filter_map(|(line, piece)| match piece {
            Piece::Word(word) => Some((line, word)),
            _ => None,
        })
        .collect()
}

enum Piece {
    Word(String),
    Other(String),
    End,
}

fn pieces(text: &str) -> Vec<(usize, Piece)> {
    let mut pieces = Vec::new();
    let mut line = 1;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => {
                pieces.push((line, Piece::Other("\n".to_owned())));
                line += 1;
            }
            '-' if letters.peek() == Some(&'-') => while letters.next_if(|next| *next != '\n').is_some() {},
            '\'' => {
                let mut string = String::from(letter);
                for next in letters.by_ref() {
                    string.push(next);
                    line += usize::from(next == '\n');
                    if next == '\'' {
                        break;
                    }
                }
                pieces.push((line, Piece::Other(string)));
            }
            ';' => pieces.push((line, Piece::End)),
            _ if letter.is_alphabetic() || letter == '_' => {
                let mut word = String::from(letter);
                while let Some(next) = letters.next_if(|next| next.is_alphanumeric() || *next == '_') {
                    word.push(next);
                }
                pieces.push((line, Piece::Word(word)));
            }
            _ => pieces.push((line, Piece::Other(letter.to_string()))),
        }
    }
    pieces
}

struct Literals<'a> {
    file: &'a RustFile,
    embedded: &'a mut Embedded,
    violations: &'a mut Vec<Violation>,
}

impl<'ast> Visit<'ast> for Literals<'_> {
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        for token in item.tokens.clone() {
            self.tokens(&token, item.path.is_ident("include_str"));
        }
        visit::visit_macro(self, item);
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.text(&literal.value(), literal.span().start().line);
    }
}

impl Literals<'_> {
    /// Literals inside of macros, where syn sees only tokens: `include_str!` may stand inside another macro.
    fn tokens(&mut self, token: &proc_macro2::TokenTree, embeds: bool) {
        match token {
            proc_macro2::TokenTree::Group(group) => {
                group.stream().into_iter().for_each(|token| self.tokens(&token, embeds))
            }
            proc_macro2::TokenTree::Literal(literal) => {
                if let Ok(string) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    self.embed(&string.value());
                    if !embeds {
                        self.text(&string.value(), literal.span().start().line);
                    }
                }
            }
            _ => {}
        }
    }

    fn embed(&mut self, text: &str) {
        let from = &self.file.path;
        if text.ends_with(".sql") {
            self.embedded.paths.insert(resolve(from, text));
        } else {
            self.embedded.names.insert((crate_of(from).to_owned(), text.to_owned()));
        }
    }

    fn text(&mut self, text: &str, line: usize) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let statement =
            VERBS.iter().any(|verb| text.starts_with(verb)) && TOUCHES.iter().any(|word| text.contains(word));
        let store = self.file.path.starts_with("crates/orc-store-") && self.file.path.contains("/src/");
        if store && statement && !self.file.is_test(line) {
            let hint = "move the statement into a .sql file, where the test prepares it on every database";
            self.violations.push(Violation::new(&self.file.path, line, "SQL inside Rust", hint));
        }
    }
}

/// The path that `include_str!` means, seen from the file that says it.
fn resolve(from: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "crates/orc-store-x/src/lib.rs";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|violation| violation.message).collect()
    }

    fn statement(text: &str) -> Vec<String> {
        found(&[(LIB, "const A: &str = include_str!(\"../sql/a.sql\");"), ("crates/orc-store-x/sql/a.sql", text)])
    }

    #[test]
    fn one_statement_a_file() {
        assert_eq!(statement("-- a; b\nSELECT ';' FROM t;\n"), [""; 0]);
        assert_eq!(statement("SELECT 1; SELECT 2"), ["2 statements in one file"]);
        assert_eq!(statement("-- nothing"), ["0 statements in one file"]);
    }

    #[test]
    fn a_change_has_a_precondition() {
        assert_eq!(statement("UPDATE t SET a = 1"), ["changes every row"]);
        assert_eq!(statement("DELETE FROM t"), ["changes every row"]);
        assert_eq!(statement("UPDATE t SET a = 1 WHERE b = 2"), [""; 0]);
    }

    #[test]
    fn a_file_that_nobody_embeds_is_dead() {
        assert_eq!(found(&[(LIB, ""), ("crates/orc-store-x/sql/a.sql", "SELECT 1")]), ["no code embeds this file"]);
        let listed = "statements! { A => include_str!(\"../sql/a.sql\") }";
        assert_eq!(found(&[(LIB, listed), ("crates/orc-store-x/sql/a.sql", "SELECT 1")]), [""; 0]);
    }

    #[test]
    fn migrations_are_listed_and_numbered() {
        let listed = "const A: &str = include_str!(\"../../../migrations/sqlite/0002_a.sql\");";
        let files = [(LIB, listed), ("migrations/sqlite/0002_a.sql", "CREATE TABLE a (b); CREATE TABLE c (d)")];
        assert_eq!(found(&files), ["migration 1 of migrations/sqlite expected here"]);
        assert_eq!(found(&[("migrations/sqlite/0001_a.sql", "")]), ["no code embeds this file"]);
    }

    #[test]
    fn sql_in_rust_is_refused_outside_tests() {
        let sql = "fn a() { query(\"SELECT a\\n FROM t\"); }";
        assert_eq!(found(&[(LIB, sql)]), ["SQL inside Rust"]);
        assert_eq!(found(&[(LIB, &format!("#[cfg(test)]\nmod tests {{ {sql} }}"))]), [""; 0]);
        assert_eq!(found(&[("crates/a/src/lib.rs", sql)]), [""; 0]);
        assert_eq!(found(&[(LIB, "fn a() { query(\"SELECT version()\"); }")]), [""; 0]);
    }
}
