//! How a failure looks: what failed, why (the chain of causes), and what to do.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::exit::Exit;

/// A command that could not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Decides the exit code.
    pub(crate) exit: Exit,
    what: String,
    why: Vec<String>,
    hint: Option<String>,
}

/// Shorthand for results of commands.
pub(crate) type CommandResult<T = Exit> = Result<T, Failure>;

impl Failure {
    /// What and why, as one line.
    pub(crate) fn line(&self) -> String {
        std::iter::once(&self.what).chain(&self.why).map(String::as_str).collect::<Vec<_>>().join(": ")
    }

    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), why: Vec::new(), hint: None }
    }

    /// Adds a cause and its own causes.
    pub(crate) fn because(mut self, error: impl std::error::Error) -> Self {
        self.why.push(error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if self.why.last() != Some(&text) {
                self.why.push(text);
            }
            source = cause.source();
        }
        self
    }

    /// Says what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The machine, the store or the data directory does not allow it now.
pub(crate) fn unavailable(what: impl Into<String>) -> Failure {
    Failure::new(Exit::Unavailable, what)
}

/// What was named does not exist.
pub(crate) fn not_found(what: impl Into<String>) -> Failure {
    Failure::new(Exit::NotFound, what)
}

/// A pipeline, an input or a setting is wrong.
pub(crate) fn invalid(what: impl Into<String>) -> Failure {
    Failure::new(Exit::Invalid, what)
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = format!("error: {}", self.what);
        for cause in &self.why {
            write!(text, "\n  because: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(text, "\nhint: {hint}")?;
        }
        f.write_str(&text)
    }
}

/// Prints a failure to standard error.
pub(crate) fn print(failure: &Failure) {
    // Nothing is left to say it to if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{failure}");
}
