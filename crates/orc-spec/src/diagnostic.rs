//! What is wrong with a file: place, cause, suggestion; as text with the source line underlined, and as JSON.
//!
//! Checks push into a [`Report`], which keeps going: one mistake never hides another. A [`Diagnostic`] holds byte
//! offsets; lines and columns are made when it is shown.

use std::fmt;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde_json::json;

use crate::source::{SourceFile, Span};

/// A file with more problems than this is shown the first of them.
const MAX_DIAGNOSTICS: usize = 200;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, and probably does not do what was meant.
    Warning,
}

impl Severity {
    /// The word in text and JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal,)+) => {
        /// The kind of a problem; its word is stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $($(#[doc = $doc])+ $name,)+ }

        impl Code {
            /// Every code, for the reference.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, concat!($($doc),+)),)+];

            /// The word in text and JSON.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }
        }
    };
}

codes! {
    /// The text is not YAML, or uses a part of YAML that is refused (tags, several documents).
    Yaml = "yaml",
    /// The text is larger, deeper or more entangled than any pipeline needs to be.
    Limit = "limit",
    /// A key stands twice in one map.
    DuplicateKey = "duplicate_key",
    /// A key that does not exist here.
    UnknownKey = "unknown_key",
    /// A key or value whose part of the program is not built yet.
    NotAvailable = "not_available",
    /// A key that must be there.
    MissingKey = "missing_key",
    /// A value of another type than the key takes.
    WrongType = "wrong_type",
    /// A value of the right type that the key does not take.
    BadValue = "bad_value",
    /// A step does nothing, or several things.
    StepKind = "step_kind",
    /// Keys that do not go together.
    Conflict = "conflict",
    /// A name of a step that does not exist.
    UnknownStep = "unknown_step",
    /// Steps that wait for each other.
    Cycle = "cycle",
    /// A step that can never run.
    Unreachable = "unreachable",
    /// An expression that cannot be read.
    Expression = "expression",
    /// A name in an expression that does not exist.
    UnknownName = "unknown_name",
    /// A step that an expression reads without waiting for it.
    NotNeeded = "not_needed",
    /// Values of the wrong type in an expression.
    Type = "type",
    /// Something that nothing can produce in this pipeline.
    NeverProduced = "never_produced",
    /// An expression at a place of a script where no variable can stand.
    Quoting = "quoting",
    /// Text from outside reaches a command.
    Tainted = "tainted",
    /// A script that runs its own text again.
    Reevaluated = "reevaluated",
    /// A profile that is not front matter between two lines of `---` with a text below.
    FrontMatter = "front_matter",
    /// Two files give the same name.
    DuplicateName = "duplicate_name",
    /// A key that the chosen adapter cannot honour.
    NotHonoured = "not_honoured",
    /// A rule about calls of tools that cannot be read.
    BadRule = "bad_rule",
    /// More than the settings allow.
    NotAllowed = "not_allowed",
    /// A file that is named here and cannot be read.
    Unreadable = "unreadable",
    /// Further problems are not shown.
    TooMany = "too_many",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// Name of the file.
    pub file: String,
    /// Where.
    pub span: Span,
    /// What is wrong, one line.
    pub message: String,
    /// Further places that explain it.
    pub labels: Vec<Label>,
    /// What to do.
    pub help: Option<String>,
    /// The word that is wrong and the one that was probably meant.
    pub meant: Option<(String, String)>,
}

/// A further place of a [`Diagnostic`], in the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is there.
    pub text: String,
}

impl Diagnostic {
    /// Adds what to do.
    pub(crate) fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(printable(help.into()));
        self
    }

    /// Adds `did you mean` when there is a close name.
    pub(crate) fn did_you_mean<'a>(&mut self, word: &str, known: impl IntoIterator<Item = &'a str>) -> &mut Self {
        if let Some(close) = orc_domain::suggest::closest(word, known) {
            self.help(format!("did you mean `{close}`?"));
            self.meant = Some((word.to_owned(), close.to_owned()));
        }
        self
    }

    /// Adds a further place.
    pub(crate) fn label(&mut self, span: Span, text: impl Into<String>) -> &mut Self {
        self.labels.push(Label { span, text: printable(text.into()) });
        self
    }

    /// As text with the source underlined; `source` is the file it was found in. Colour is ANSI escapes.
    #[must_use]
    pub fn render(&self, source: &SourceFile, colour: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let fit = |span: Span| {
            let end = span.end.min(source.text.len());
            span.start.min(end)..end
        };
        let snippet = Snippet::source(source.text.as_str())
            .path(self.file.as_str())
            .annotation(AnnotationKind::Primary.span(fit(self.span)))
            .annotations(
                self.labels
                    .iter()
                    .map(|label| AnnotationKind::Context.span(fit(label.span)).label(label.text.as_str())),
            );
        let mut group = level.primary_title(self.message.as_str()).id(self.code.word()).element(snippet);
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.decor_style(DecorStyle::Ascii).render(&[group])
    }

    fn to_json(&self, source: &SourceFile) -> serde_json::Value {
        let place = |span: Span| (source.position(span.start), source.position(span.end));
        let (start, end) = place(self.span);
        let labels = self.labels.iter().map(|label| {
            let (start, end) = place(label.span);
            json!({
                "line": start.line, "column": start.column, "end_line": end.line, "end_column": end.column,
                "text": label.text,
            })
        });
        json!({
            "code": self.code.word(),
            "severity": self.severity.word(),
            "file": self.file,
            "line": start.line,
            "column": start.column,
            "end_line": end.line,
            "end_column": end.column,
            "message": self.message,
            "labels": labels.collect::<Vec<_>>(),
            "help": self.help,
        })
    }
}

/// The problems of several files as one JSON document, `schema: orc/diagnostics/1`. Lines and columns count from 1, ends
/// are exclusive.
#[must_use]
pub fn json_document<'a>(files: impl IntoIterator<Item = (&'a SourceFile, &'a [Diagnostic])>) -> serde_json::Value {
    let all = files
        .into_iter()
        .flat_map(|(source, diagnostics)| diagnostics.iter().map(|diagnostic| diagnostic.to_json(source)));
    json!({ "schema": "orc/diagnostics/1", "diagnostics": all.collect::<Vec<_>>() })
}

/// Collects the problems of one file.
pub(crate) struct Report {
    file: String,
    found: Vec<Diagnostic>,
}

impl Report {
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), found: Vec::new() }
    }

    pub(crate) fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.push(code, Severity::Error, span, message.into())
    }

    pub(crate) fn warning(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.push(code, Severity::Warning, span, message.into())
    }

    fn push(&mut self, code: Code, severity: Severity, span: Span, message: String) -> &mut Diagnostic {
        let file = self.file.clone();
        let message = printable(message);
        self.found.push(Diagnostic {
            code,
            severity,
            file,
            span,
            message,
            labels: Vec::new(),
            help: None,
            meant: None,
        });
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.found.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// In order of place; at most [`MAX_DIAGNOSTICS`], and one more that says so.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.found.sort_by(|left, right| {
            (left.span, left.code, &left.message).cmp(&(right.span, right.code, &right.message))
        });
        self.found.dedup();
        let hidden = self.found.len().saturating_sub(MAX_DIAGNOSTICS);
        if hidden > 0 {
            self.found.truncate(MAX_DIAGNOSTICS);
            let span = self.found.last().map_or(Span::default(), |last| last.span);
            self.error(Code::TooMany, span, format!("{hidden} more problems of this file are not shown"));
        }
        self.found
    }
}

/// Messages repeat pieces of files; a terminal gets none of their control characters.
fn printable(text: String) -> String {
    if text.contains(char::is_control) { text.replace(char::is_control, "\u{fffd}") } else { text }
}

#[cfg(test)]
mod tests;
