//! What a shell would run, read from its text without running it: bash's grammar, down to every simple command with its
//! words, its assignments and its redirects, wherever it stands: in lists, pipes, subshells, loops, functions,
//! substitutions, here-documents.
//!
//! The result is flat, because a gate asks which commands may run, not in what order. What cannot be read is
//! [`Script::trouble`]: what was read until then still counts, and the text is then looked through as well. The reader is
//! bounded in depth and takes time by the length of the text only; it never panics.
//!
//! It must never take for text what a shell would run. In doubt it gives up.

mod cursor;
mod here;
mod parse;
#[cfg(test)]
mod tests;
mod word;

use std::collections::BTreeSet;

pub use parse::parse;

/// Levels of nesting at most.
pub(crate) const MAX_DEPTH: usize = 64;
/// Words that one word with braces becomes at most.
pub(crate) const MAX_BRACES: usize = 64;

/// All that a text runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Every simple command, in the order of the text; those of substitutions before the command that they stand in.
    pub commands: Vec<Simple>,
    /// Names of functions that it defines.
    pub functions: BTreeSet<String>,
    /// Why it could not be read to its end.
    pub trouble: Option<Trouble>,
}

/// Why a text could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It ends inside of something, which is named.
    Unfinished(&'static str),
    /// Something stands where a shell does not take it, or we do not.
    Unexpected(char),
    /// A form that is not looked into, which is named.
    Form(&'static str),
    /// It nests too deeply.
    Deep,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unfinished(what) => write!(to, "it ends inside of {what}"),
            Self::Unexpected(letter) => write!(to, "`{}` stands where it cannot be read", letter.escape_debug()),
            Self::Form(what) => write!(to, "{what} is not looked into"),
            Self::Deep => write!(to, "it nests deeper than {MAX_DEPTH} levels"),
        }
    }
}

/// One command with what belongs to it. All of it may be empty but one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// `NAME=value` before it, or alone.
    pub assigns: Vec<Assign>,
    /// Its words; the first is what runs.
    pub words: Vec<Word>,
    /// Where its input comes from and its output goes.
    pub redirects: Vec<Redirect>,
    /// The command whose output it reads, by its place in the script.
    pub reads_from: Option<usize>,
    /// It runs only after the one before it succeeded, in the same shell.
    pub after_success: bool,
    /// It runs in a shell of its own: in parentheses, a pipe, a substitution, or in the background.
    pub subshell: bool,
    /// Where it stands in the text: characters from, to.
    pub span: (usize, usize),
}

/// `NAME=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assign {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Word,
}

/// A redirect of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// What it does.
    pub kind: RedirectKind,
    /// Where to, where from; the text of a here-document.
    pub target: Word,
}

/// What a redirect does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectKind {
    /// It reads a file.
    Read,
    /// It writes a file.
    Write,
    /// Both.
    ReadWrite,
    /// It is text: here-documents and here-strings.
    Here,
    /// It names a descriptor that is open.
    Descriptor,
}

/// A word before the shell expands it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Its pieces in order.
    pub pieces: Vec<Piece>,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text as it is; whether it stood in quotes.
    Text(String, bool),
    /// `*`, `?` and sets: a wildcard of file names.
    Wild(crate::glob::Token),
    /// `~`, with the name behind it.
    Home(String),
    /// A plain variable; whether it stood in quotes.
    Variable(String, bool),
    /// What is known only when it runs; whether it stood in quotes.
    Unknown(bool),
    /// `{`, `,` and `}` outside of quotes, until braces are expanded.
    Brace(char),
}

impl Word {
    /// A word of plain text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self { pieces: vec![Piece::Text(text.to_owned(), true)] }
    }

    /// Its text, when all of it is known as it stands.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(part, _) => text.push_str(part),
                Piece::Brace(letter) => text.push(*letter),
                _ => return None,
            }
        }
        Some(text)
    }

    /// Its text, when nothing of it was quoted: what a reserved word must be.
    #[must_use]
    pub fn plain(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Text(text, false)] => Some(text),
            _ => None,
        }
    }
}
