//! All that a call is judged by: rules by what they say, a mode, and who is above.

use crate::rule::{Complaint, Rule};
use crate::verdict::{Class, Source, Verdict};

/// How a run treats what no rule settles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// It only looks.
    Plan,
    /// It asks.
    #[default]
    Default,
    /// Edits inside of its copy pass.
    AcceptEdits,
    /// A classifier answers first.
    Auto,
    /// What would be asked is denied.
    DontAsk,
    /// It passes.
    BypassPermissions,
}

impl Mode {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::Plan, Self::Default, Self::AcceptEdits, Self::Auto, Self::DontAsk, Self::BypassPermissions];

    /// The word of `permissionMode:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Auto => "auto",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

/// Rules by what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// What never runs.
    pub deny: Vec<Rule>,
    /// What is asked about.
    pub ask: Vec<Rule>,
    /// What runs.
    pub allow: Vec<Rule>,
}

impl Rules {
    /// Adds rules of one list of a file; those that are broken come back.
    pub fn add(&mut self, verdict: Verdict, texts: &[String], source: Source, base: &str) -> Vec<(String, Complaint)> {
        let mut broken = Vec::new();
        for text in texts {
            match Rule::parse(text, verdict, source, base) {
                Ok(rule) => self.list_mut(verdict).push(rule),
                Err(complaint) => broken.push((text.clone(), complaint)),
            }
        }
        broken
    }

    /// The rules that say this.
    #[must_use]
    pub const fn list(&self, verdict: Verdict) -> &Vec<Rule> {
        match verdict {
            Verdict::Deny => &self.deny,
            Verdict::Ask => &self.ask,
            Verdict::Allow => &self.allow,
        }
    }

    const fn list_mut(&mut self, verdict: Verdict) -> &mut Vec<Rule> {
        match verdict {
            Verdict::Deny => &mut self.deny,
            Verdict::Ask => &mut self.ask,
            Verdict::Allow => &mut self.allow,
        }
    }
}

/// Somebody above a run: the agent that started it, and those above that, and its flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Above {
    /// Its name.
    pub who: String,
    /// Its denies, which hold for all below it.
    pub deny: Vec<Rule>,
    /// What anybody below it may do at most.
    pub ceiling: Option<Class>,
    /// Calls that anybody below it may make at most, where they are named.
    pub within: Option<Vec<Rule>>,
}

/// All that a call is judged by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The run's own rules.
    pub rules: Rules,
    /// Its mode.
    pub mode: Mode,
    /// What its box holds passes, unless something is said about it.
    pub boxed: bool,
    /// The repository's own settings may not name programs that git runs.
    pub trusted: bool,
    /// Servers of tools that it has.
    pub servers: Vec<String>,
    /// Everybody above it.
    pub above: Vec<Above>,
    /// What it may do itself at most.
    pub ceiling: Option<Class>,
}
