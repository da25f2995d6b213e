//! Here-documents: text behind the line that a command stands on.

use super::parse::Parser;
use super::{Piece, Trouble, Word};

/// One that was announced and not read yet.
pub(super) struct Pending {
    end: String,
    /// Nothing in it is expanded.
    literal: bool,
    /// Tabs before its lines do not count.
    tabs: bool,
    /// The command, once it is known, and which of its redirects.
    command: Option<usize>,
    redirect: usize,
}

impl Pending {
    pub(super) fn new(end: &Word, tabs: bool, redirect: usize) -> Result<Self, Trouble> {
        let text = end.text().ok_or(Trouble::Form("a here-document whose end is not plain"))?;
        let literal = end.pieces.iter().any(|piece| matches!(piece, Piece::Text(_, true)));
        Ok(Self { end: text, literal, tabs, command: None, redirect })
    }

    pub(super) fn settle(&mut self, command: usize) {
        self.command.get_or_insert(command);
    }
}

impl Parser {
    /// Reads those that begin here, at the start of a line.
    pub(super) fn here_documents(&mut self) -> Result<(), Trouble> {
        for pending in std::mem::take(&mut self.pending) {
            let text = self.lines_until(&pending);
            let word = if pending.literal { Word::of(&text) } else { self.expanded_text(&text)? };
            let command = pending.command.and_then(|command| self.commands.get_mut(command));
            if let Some(redirect) = command.and_then(|command| command.redirects.get_mut(pending.redirect)) {
                redirect.target = word;
            }
        }
        Ok(())
    }

    /// Lines up to its end, or all that there are: a shell takes that too.
    fn lines_until(&mut self, pending: &Pending) -> String {
        let mut text = String::new();
        loop {
            let rest = self.rest();
            if rest.is_empty() {
                return text;
            }
            let mut length = rest.iter().position(|letter| *letter == '\n').unwrap_or(rest.len());
            let mut line: String = rest[..length].iter().collect();
            while !pending.literal && goes_on(&line) && length < rest.len() {
                line.pop();
                let from = length + 1;
                length = rest[from..].iter().position(|letter| *letter == '\n').map_or(rest.len(), |at| from + at);
                line.extend(&rest[from..length]);
            }
            self.at += (length + 1).min(self.rest().len());
            let line = if pending.tabs { line.trim_start_matches('\t') } else { &line };
            if line == pending.end {
                return text;
            }
            text.push_str(line);
            text.push('\n');
        }
    }

    /// What is substituted in text that is not quoted.
    fn expanded_text(&mut self, text: &str) -> Result<Word, Trouble> {
        if !text.contains(['$', '`']) {
            return Ok(Word::of(text));
        }
        let known = self.commands.len();
        if self.depth >= super::MAX_DEPTH {
            return Err(Trouble::Deep);
        }
        let mut inner = Self::new(text, self.depth + 1);
        let mut word = Word::default();
        while let Some(letter) = inner.peek_raw() {
            match letter {
                '\\' => {
                    inner.at += 2;
                }
                '$' => inner.dollar(&mut word, true)?,
                '`' => inner.backtick(&mut word, true)?,
                _ => inner.at += 1,
            }
        }
        self.functions.append(&mut inner.functions);
        let known_text = inner.commands.is_empty() && word.pieces.iter().all(|piece| matches!(piece, Piece::Text(..)));
        for mut command in std::mem::take(&mut inner.commands) {
            command.reads_from = command.reads_from.map(|at| at + known);
            command.subshell = true;
            command.span = (self.at, self.at);
            self.commands.push(command);
        }
        if known_text {
            return Ok(Word::of(text));
        }
        Ok(Word { pieces: vec![Piece::Text(text.to_owned(), true), Piece::Unknown(true)] })
    }
}

/// Whether it ends in a backslash that is not itself escaped.
fn goes_on(line: &str) -> bool {
    line.chars().rev().take_while(|letter| *letter == '\\').count() % 2 == 1
}
