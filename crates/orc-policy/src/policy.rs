//! All that a call is judged by: rules by what they say, a mode, and who is above.

pub use orc_domain::permission::PermissionMode as Mode;

use crate::rule::{Complaint, Rule};
use crate::verdict::{Class, Source, Verdict};

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
    /// Questions of others below it that it answers with yes: who asks, and about what.
    pub delegate: Vec<(String, Vec<Rule>)>,
}

/// What passes because a box holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boxed {
    /// Nothing.
    #[default]
    Nothing,
    /// Commands.
    Commands,
    /// Commands, and files that tools read and change.
    Files,
}

/// All that a call is judged by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whose calls are judged, by its name.
    pub agent: String,
    /// The run's own rules.
    pub rules: Rules,
    /// Its mode.
    pub mode: Mode,
    /// What its box holds and passes for that, unless something is said about it.
    pub boxed: Boxed,
    /// The repository's own settings may not name programs that git runs.
    pub trusted: bool,
    /// Servers of tools that it has.
    pub servers: Vec<String>,
    /// Everybody above it, the nearest last.
    pub above: Vec<Above>,
    /// What it may do itself at most.
    pub ceiling: Option<Class>,
}
