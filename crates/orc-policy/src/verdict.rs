//! What is said of a call: a decision with its reasons, and how it adds up.
//!
//! The sum of verdicts is their maximum, so an entry more never makes a call more allowed, with one exception that is no
//! entry: a grant, which only speaks where nothing else does.

use std::fmt;

pub use orc_domain::permission::{Class, Source};
use serde::{Deserialize, Serialize};

/// What becomes of a call. The greater one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allow,
    /// Somebody who may says whether it runs.
    Ask,
    /// It does not run.
    Deny,
}

impl Verdict {
    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.word())
    }
}

/// What settled a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Ground {
    /// A rule.
    Rule {
        /// As it was written.
        rule: String,
        /// Where.
        source: Source,
    },
    /// A rule of an agent above, or of a hop's `delegate:`.
    Above {
        /// As it was written.
        rule: String,
        /// Whose.
        who: String,
    },
    /// What no rule and no mode lifts: `removal`, `protected`, `unreadable`, `shared`, `depth`.
    Floor {
        /// Its name.
        floor: &'static str,
    },
    /// A ceiling of an agent above or of its flow.
    Ceiling,
    /// The mode of the run.
    Mode {
        /// Its word.
        mode: &'static str,
    },
    /// It only reads.
    ReadOnly,
    /// The box holds it, and the settings let that be enough.
    Boxed,
    /// A hook.
    Hook,
    /// An answer that somebody gave.
    Answer,
    /// Nothing was said about it.
    Nothing,
}

/// One reason, with the part of the call that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// What it comes to.
    pub verdict: Verdict,
    /// What settled it.
    #[serde(flatten)]
    pub ground: Ground,
    /// The part of the call: a command, or `write /path`.
    pub part: String,
    /// In a sentence.
    pub text: String,
}

/// What comes with an allowed call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Obligation {
    /// A search leaves out what these patterns cover.
    Exclude {
        /// As the rules say it.
        paths: Vec<String>,
        /// The same as lines of an ignore file at the root of the copy.
        lines: Vec<String>,
    },
    /// Each call inside of it is judged and written down as its own.
    RecordNested,
}

/// The sum of all that was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What becomes of the call.
    pub verdict: Verdict,
    /// Why; the first one settled it.
    pub reasons: Vec<Reason>,
    /// What comes with it.
    pub obligations: Vec<Obligation>,
    /// What it does at most.
    pub class: Class,
    /// Whether an answer may be remembered and given by something other than a person or a hook. Not so when a rule asked
    /// for the question.
    pub explicit: bool,
}

impl Decision {
    /// The reason that settled it, in a sentence.
    #[must_use]
    pub fn reason(&self) -> String {
        self.reasons.first().map_or_else(|| "nothing was said about it".to_owned(), |reason| reason.text.clone())
    }

    /// The word of the tables: `filter` is an allow that leaves something out.
    #[must_use]
    pub fn word(&self) -> &'static str {
        let excludes = self.obligations.iter().any(|obligation| matches!(obligation, Obligation::Exclude { .. }));
        if self.verdict == Verdict::Allow && excludes { "filter" } else { self.verdict.word() }
    }
}
