//! A word of a command after the shell's own work, as far as it is known.

use crate::glob::{Glob, Token};
use crate::shell::{Piece, Word};

/// A word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arg {
    /// What it may be.
    pub glob: Glob,
    /// It may become several words, or none.
    pub splits: bool,
    /// It has the shell's own wildcards: names of files come in its place.
    pub wild: bool,
    /// Something stands for a home or a directory: known to us, but only as it is now.
    pub soft: bool,
    /// It begins with `~`.
    pub tilde: bool,
}

impl Arg {
    /// A word that is known.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self { glob: Glob::literal(text), ..Self::default() }
    }

    /// Its text, if it is this one and no other.
    #[must_use]
    pub fn exact(&self) -> Option<String> {
        if self.splits || self.wild { None } else { self.glob.text() }
    }

    /// Whether some of it is known only when it runs.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.glob.tokens().contains(&Token::Any)
    }

    /// Whether it may be a flag.
    #[must_use]
    pub fn may_be_flag(&self) -> bool {
        match self.glob.tokens().first() {
            Some(Token::Is(letter)) => *letter == '-',
            Some(_) => true,
            None => false,
        }
    }

    /// Its text with `*` for what is not known.
    #[must_use]
    pub fn shown(&self) -> String {
        self.glob
            .tokens()
            .iter()
            .map(|token| match token {
                Token::Is(letter) => *letter,
                Token::One => '?',
                Token::Some | Token::Any => '*',
            })
            .collect()
    }

    /// The same behind a prefix of so many letters.
    #[must_use]
    pub fn behind(&self, count: usize) -> Self {
        let mut glob = Glob::default();
        for token in self.glob.tokens().iter().skip(count) {
            glob.push(*token);
        }
        Self { glob, ..self.clone() }
    }

    /// From a word of the shell.
    #[must_use]
    pub fn from_word(word: &Word, home: &str, cwd: Option<&str>) -> Self {
        let mut arg = Self::default();
        for piece in &word.pieces {
            match piece {
                Piece::Text(text, _) => arg.glob.extend(&Glob::literal(text)),
                Piece::Brace(letter) => arg.glob.push(Token::Is(*letter)),
                Piece::Wild(token) => {
                    arg.glob.push(*token);
                    arg.wild = true;
                }
                // The home of whoever runs it, also by name.
                Piece::Home(name) if name.is_empty() || home.rsplit('/').next() == Some(name) => {
                    arg.tilde = true;
                    arg.soft = true;
                    arg.glob.extend(&Glob::literal(home));
                }
                Piece::Variable(name, quoted) if name == "HOME" => arg.known(home, *quoted),
                Piece::Variable(name, quoted) if name == "PWD" && cwd.is_some() => {
                    arg.known(cwd.unwrap_or_default(), *quoted)
                }
                Piece::Home(_) => {
                    arg.tilde = true;
                    arg.glob.push(Token::Any);
                }
                Piece::Variable(_, quoted) | Piece::Unknown(quoted) => {
                    arg.splits |= !quoted;
                    arg.glob.push(Token::Any);
                }
            }
        }
        arg
    }

    fn known(&mut self, text: &str, quoted: bool) {
        self.soft = true;
        self.splits |= !quoted && text.contains(char::is_whitespace);
        self.glob.extend(&Glob::literal(text));
    }
}
