//! Syntax errors with one obvious cause: told once, then read over, so that they do not hide the rest of the file.
//!
//! A repair replaces bytes of the text by as many others, so every place stays exact: an expression in a flow container
//! or a value with a second colon becomes a quoted filler, a tab in the indentation becomes a space. What was replaced is
//! `Broken` in the tree. Whatever has no such cause ends the reading.

use granit_parser::ErrorKind;

use crate::diagnostic::{Code, Report};
use crate::source::Span;

/// After so many repairs the file is something else than YAML with mistakes.
const MAX_REPAIRS: usize = 20;

pub(super) struct Repairs {
    text: String,
    broken: Vec<Span>,
    told: Vec<(Span, String, String)>,
}

impl Repairs {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), broken: Vec::new(), told: Vec::new() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The ranges that were replaced by fillers.
    pub(super) fn broken(&self) -> &[Span] {
        &self.broken
    }

    pub(super) fn report(&mut self, report: &mut Report) {
        for (span, message, help) in self.told.drain(..) {
            report.error(Code::Yaml, span, message).help(help);
        }
    }

    /// Repairs the cause of a syntax error at `at`; false when there is no obvious one.
    pub(super) fn attempt(&mut self, at: usize, kind: &ErrorKind, last_plain: Option<Span>) -> bool {
        self.told.len() < MAX_REPAIRS
            && (self.quote_expression(at, kind, last_plain)
                || self.replace_tabs(at, kind)
                || self.quote_value(at, kind))
    }

    /// `{ run: ${{ x }} }`: the inner `{` opens a map, and the reading ends after the `$`.
    fn quote_expression(&mut self, at: usize, kind: &ErrorKind, last_plain: Option<Span>) -> bool {
        let Some(plain) = last_plain else {
            return false;
        };
        if !matches!(kind, ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator)
            || !self.text[..at].ends_with('$')
            || !self.text[at..].starts_with("{{")
        {
            return false;
        }
        let rest = &self.text[at..];
        let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
        let Some(length) = end_of_value(line) else {
            return false;
        };
        let end = at + length;
        let span = Span::new(plain.start, end);
        let written = self.text[span.range()].to_owned();
        let quoted =
            if written.contains('"') { format!("'{}'", written.replace('\'', "''")) } else { format!("\"{written}\"") };
        self.fill(span);
        self.told.push((
            span,
            "an expression within `{ }` or `[ ]` must be quoted, because YAML reads its braces as a map".to_owned(),
            format!("quote it: `{quoted}`"),
        ));
        true
    }

    fn replace_tabs(&mut self, at: usize, kind: &ErrorKind) -> bool {
        if !is_tab(kind) {
            return false;
        }
        let start = line_start(&self.text, at);
        let indent_len = self.text[start..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let indent = Span::new(start, start + indent_len);
        let Some(first) = self.text[indent.range()].find('\t') else {
            return false;
        };
        let spaces = self.text[indent.range()].replace('\t', " ");
        self.text.replace_range(indent.range(), &spaces);
        self.told.push((
            Span::new(start + first, indent.end),
            "a tab stands in the indentation; YAML takes spaces only".to_owned(),
            "replace it with spaces".to_owned(),
        ));
        true
    }

    /// `description: a: b`, `if: @x`: the value of the line would be text if it were quoted.
    fn quote_value(&mut self, at: usize, kind: &ErrorKind) -> bool {
        let start = line_start(&self.text, at);
        let rest = &self.text[start..];
        let line = rest[..rest.find('\n').unwrap_or(rest.len())].trim_end();
        let Some(colon) = line.find(": ") else {
            return false;
        };
        let value_at = colon + 2 + (line[colon + 2..].len() - line[colon + 2..].trim_start().len());
        let value = &line[value_at..];
        let second_colon = value.contains(": ") || value.ends_with(':');
        let (message, fits) = match kind {
            ErrorKind::MappingValueNotAllowed => (
                "a second colon stands in this value, so YAML takes it for a map",
                second_colon && !value.starts_with(['"', '\'', '{', '[', '|', '>', '#']),
            ),
            _ => (
                "a value cannot begin with this character in YAML unless it is quoted",
                value.starts_with(['@', '`', '%', '!', '&', '*']),
            ),
        };
        // The error must be about this value, and the filler needs its two quotes.
        if !fits || value.len() < 2 || at < start + value_at {
            return false;
        }
        let quoted = format!("'{}'", value.replace('\'', "''"));
        let span = Span::new(start + value_at, start + line.len());
        let message = message.to_owned();
        self.fill(span);
        self.told.push((span, message, format!("quote it: `{quoted}`")));
        true
    }

    fn fill(&mut self, span: Span) {
        let filler = format!("'{}'", "x".repeat(span.end - span.start - 2));
        self.text.replace_range(span.range(), &filler);
        self.broken.push(span);
    }
}

/// Bytes of a flow value that begins within an expression: up to what ends the value outside of expressions.
fn end_of_value(line: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += line[at..].find("}}")? + 2;
        let rest = &line[at..];
        let end = rest.find([',', '}', ']']).unwrap_or(rest.len());
        match rest.find("${{") {
            Some(next) if next < end => at += next,
            _ => return Some(at + rest[..end].trim_end().len()),
        }
    }
}

fn is_tab(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::TabInBlockIndentation | ErrorKind::TabNotAllowed | ErrorKind::TabInIndentation)
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Says what ended the reading, in words of ours for the usual causes.
pub(super) fn report_syntax(text: &str, at: usize, kind: &ErrorKind, report: &mut Report) {
    let next = text[at..].chars().next().map_or(0, char::len_utf8);
    let span = Span::new(at, at + next);
    let (message, help) = match kind {
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::InvalidIndentation | ErrorKind::ExpectedBlockSequenceEntry => (
            "this line does not fit the lines above it: its indentation matches none of theirs, or a `:` is missing"
                .to_owned(),
            "keys of one map stand in one column; a `[` or `{` above may not be closed",
        ),
        ErrorKind::MappingValueNotAllowed => (
            "a `:` makes no sense here".to_owned(),
            "a value that contains `: ` must be quoted, and a map begins on a line of its own",
        ),
        ErrorKind::ExpectedFlowMappingSeparator => (
            "a `,` or `}` is missing here, or the value before must be quoted".to_owned(),
            "within `{ }` and `[ ]`, text with one of `,` `[` `]` `{` `}` or `: ` in it must be quoted",
        ),
        ErrorKind::ExpectedFlowSequenceSeparator => (
            "a `,` or `]` is missing here, or the value before must be quoted".to_owned(),
            "within `{ }` and `[ ]`, text with one of `,` `[` `]` `{` `}` or `: ` in it must be quoted",
        ),
        ErrorKind::UnclosedFlowCollection { open } => {
            (format!("a `{open}` is never closed"), "close it, or quote the value if it is text")
        }
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => {
            ("a quoted value is not closed on its line".to_owned(), "close the quote")
        }
        kind if is_tab(kind) => ("a tab cannot indent in YAML".to_owned(), "replace it with spaces"),
        ErrorKind::DirectiveDisallowed => {
            ("directives (`%...`) are not supported".to_owned(), "remove the line; YAML 1.2 is always read")
        }
        other => (format!("this is not YAML: {other}"), "quote the value if it is text"),
    };
    report.error(Code::Yaml, span, message).help(help);
}
