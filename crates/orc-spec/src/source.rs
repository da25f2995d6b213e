//! Texts that users write, and places in them.

use std::ops::Range;

/// A file as it was read: its name for messages and its text. Nothing here reads files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path as the user knows it.
    pub name: String,
    /// The whole text.
    pub text: String,
}

impl SourceFile {
    /// A file from its name and text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// The file's name without folders and the last extension: `ship` of `pipelines/ship.yaml`.
    #[must_use]
    pub fn stem(&self) -> &str {
        let last = self.name.rsplit(['/', '\\']).next().unwrap_or_default();
        match last.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => last,
        }
    }

    /// Line and column of a byte offset; an offset beyond the end is the end.
    #[must_use]
    pub fn position(&self, offset: usize) -> Position {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Position {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// Line and column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// A range of bytes of a file, end exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// From first byte and the byte after the last.
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// From the start of the first to the end of the second.
    #[must_use]
    pub const fn to(self, end: Self) -> Self {
        Self { start: self.start, end: end.end }
    }

    /// As the standard library's range.
    #[must_use]
    pub const fn range(self) -> Range<usize> {
        self.start..self.end
    }
}
