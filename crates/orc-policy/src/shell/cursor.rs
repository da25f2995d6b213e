//! Where the reader of a shell's text stands, and single steps from there.

use super::Trouble;
use super::parse::Parser;

type Done<T> = Result<T, Trouble>;

impl Parser {
    pub(super) fn unexpected(&self, what: &'static str) -> Trouble {
        self.letters.get(self.at).map_or(Trouble::Unfinished(what), |letter| Trouble::Unexpected(*letter))
    }

    /// The next letter, with lines that go on joined.
    pub(super) fn peek(&mut self) -> Option<char> {
        while self.letters.get(self.at) == Some(&'\\') && self.letters.get(self.at + 1) == Some(&'\n') {
            self.at += 2;
        }
        self.letters.get(self.at).copied()
    }

    pub(super) fn peek_raw(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<char> {
        let mut at = self.at;
        for _ in 0..ahead {
            at += 1;
            while self.letters.get(at) == Some(&'\\') && self.letters.get(at + 1) == Some(&'\n') {
                at += 2;
            }
        }
        self.letters.get(at).copied()
    }

    pub(super) fn raw(&mut self) -> Option<char> {
        let letter = self.peek_raw()?;
        self.at += 1;
        Some(letter)
    }

    pub(super) fn raw_until(&mut self, end: char, what: &'static str) -> Done<String> {
        let length = self.rest().iter().position(|letter| *letter == end).ok_or(Trouble::Unfinished(what))?;
        let text = self.rest()[..length].iter().collect();
        self.at += length + 1;
        Ok(text)
    }

    pub(super) fn rest(&self) -> &[char] {
        self.letters.get(self.at..).unwrap_or_default()
    }

    pub(super) fn text_between(&self, from: usize, to: usize) -> String {
        self.letters.get(from..to).unwrap_or_default().iter().collect()
    }

    pub(super) fn eat(&mut self, letter: char) -> bool {
        let there = self.peek() == Some(letter);
        if there {
            self.at += 1;
        }
        there
    }

    pub(super) fn skip_blank(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('#')
                    if self.at == 0
                        || self.letters.get(self.at - 1).is_some_and(|before| " \t\n;&|()".contains(*before)) =>
                {
                    let length = self.rest().iter().position(|letter| *letter == '\n').unwrap_or(self.rest().len());
                    self.at += length;
                }
                _ => return,
            }
        }
    }

    pub(super) fn peek_blank(&mut self) -> Option<char> {
        let from = self.at;
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        let letter = self.peek();
        self.at = from;
        letter
    }

    /// Blanks, comments and ends of lines, with the here-documents that begin there.
    pub(super) fn skip_lines(&mut self) -> Done<()> {
        loop {
            self.skip_blank();
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.at += 1;
            self.here_documents()?;
        }
    }

    /// The word that stands here, when it is one of letters that may be reserved. It is not read.
    pub(super) fn peek_reserved(&self) -> Option<String> {
        let rest: Vec<char> = self.joined(10);
        let end = rest.iter().position(|letter| " \t\n;&|()<>".contains(*letter)).unwrap_or(rest.len());
        (end > 0 && end <= 8).then(|| rest[..end].iter().collect())
    }

    /// The next letters, with lines that go on joined.
    pub(super) fn joined(&self, count: usize) -> Vec<char> {
        (0..count).map_while(|ahead| self.peek_at(ahead)).collect()
    }

    /// Reads the word that [`Self::peek_reserved`] sees.
    pub(super) fn reserved(&mut self) -> Option<String> {
        let word = self.peek_reserved()?;
        for _ in word.chars() {
            self.peek()?;
            self.at += 1;
        }
        Some(word)
    }

    pub(super) fn expect(&mut self, word: &'static str) -> Done<()> {
        if self.reserved().as_deref() == Some(word) { Ok(()) } else { Err(self.unexpected(word)) }
    }
}
