//! An agent profile: who an agent is and what runs it. Compiled from `agents/NAME.md` by `orc-spec`, pinned by its hash.
//!
//! `orc-spec` guarantees before a [`Profile`] exists: names that fit a file, a program that is named, a schema that
//! compiles, a silence limit from [`MIN_SILENCE`] to [`MAX_SILENCE`].

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::confine::BoxRules;
use crate::ids::ContentHash;
use crate::permission::{PermissionMode, Permissions};
use crate::time::Millis;

/// How long an agent may say nothing unless its profile says otherwise.
pub const DEFAULT_SILENCE: Millis = Millis::from_secs(15 * 60);
/// The same in modes that mostly read.
pub const DEFAULT_SILENCE_READING: Millis = Millis::from_secs(10 * 60);
/// Shortest `silence_timeout:`.
pub const MIN_SILENCE: Millis = Millis::from_secs(60);
/// Longest `silence_timeout:`.
pub const MAX_SILENCE: Millis = Millis::from_secs(240 * 60);
/// How often an agent that ended without what it owes is told so, unless its profile says otherwise.
pub const DEFAULT_MAX_MESSAGES: u32 = 2;
/// How deep agents may start agents that start agents.
pub const MAX_WORKER_DEPTH: u32 = 3;
/// Agents that agents of one run may have at work at once.
pub const MAX_WORKER_WIDTH: u32 = 8;
/// Agents that agents of one run may start in all.
pub const MAX_WORKER_SPAWNS: u32 = 50;

/// A profile, checked and with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// `name:`, which is also the name of the file; letters, digits, `_` and `-`.
    pub name: String,
    /// `description:`.
    pub description: Option<String>,
    /// What runs it.
    pub adapter: Adapter,
    /// `role:`, one line.
    pub role: Option<String>,
    /// `mode:`.
    pub mode: Mode,
    /// `silence_timeout:`: a run that says nothing for so long is stopped.
    pub silence_timeout: Millis,
    /// `max_concurrent:`: runs of this agent at the same time; `None` is no limit of its own.
    pub max_concurrent: Option<u32>,
    /// `max_messages:`: how often it is told what is missing before its run ends without a deliverable; 0 is never.
    pub max_messages: u32,
    /// `model:`: it has a way to the model gateway, and is told to ask for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `env:`, over that of pipeline and step.
    pub env: BTreeMap<String, String>,
    /// `box:`, added to that of pipeline and step.
    #[serde(default)]
    pub rules: BoxRules,
    /// `permissions:`, with what `tools:` and `disallowedTools:` say of parts of tools.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    /// `permissionMode:`; none: that of an agent that nobody watches, see ADR 0027.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// `output:`: the JSON Schema of what it must submit, when the step names none.
    pub output: Option<serde_json::Value>,
    /// The body: the system prompt, with `\n` as the only line end.
    pub system_prompt: String,
}

/// What runs an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// A program that reads its prompt from standard input and tells what happens on standard output.
    Command {
        /// Program and arguments; the program is not empty.
        argv: Vec<String>,
    },
    /// The agent that comes with the orchestrator.
    BuiltIn(BuiltIn),
}

/// What only the built-in agent understands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuiltIn {
    /// `tools:`: names of those that it has; none: all.
    pub tools: Option<BTreeSet<String>>,
    /// `disallowedTools:`: names of those that it has not, whatever `tools:` says.
    pub disallowed_tools: BTreeSet<String>,
    /// `maxTurns:`: answers of the model in one run at most; none: no bound.
    pub max_turns: Option<u32>,
    /// `fallback_models:`: those that take the place of a model that does not answer, in order.
    pub fallback_models: Vec<String>,
    /// `effort:`: how hard the model is to think.
    pub effort: Option<Effort>,
    /// `memory:`: whether it reads the memory files of the repository.
    pub memory: bool,
    /// `git:`: whether it is told the state of the repository.
    pub git: bool,
    /// `workers:`: names of profiles that it may start itself.
    pub workers: Vec<String>,
}

impl Default for BuiltIn {
    fn default() -> Self {
        Self {
            tools: None,
            disallowed_tools: BTreeSet::new(),
            max_turns: None,
            fallback_models: Vec::new(),
            effort: None,
            memory: true,
            git: true,
            workers: Vec::new(),
        }
    }
}

/// How hard a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// A little.
    Low,
    /// As most do.
    Medium,
    /// Much.
    High,
}

impl Effort {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// The word of `effort:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl Adapter {
    /// The word of `adapter:`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Command { .. } => "command",
            Self::BuiltIn(_) => "built-in",
        }
    }

    /// Names of profiles that it may start itself.
    #[must_use]
    pub fn workers(&self) -> &[String] {
        match self {
            Self::Command { .. } => &[],
            Self::BuiltIn(built_in) => &built_in.workers,
        }
    }
}

/// What an agent is there for; decides how long it may be silent, and is told to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It changes things.
    #[default]
    Work,
    /// It reads and plans.
    Plan,
    /// It reads and gives an opinion.
    Review,
    /// It reads and passes or fails the work of another.
    Check,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Work, Self::Plan, Self::Review, Self::Check];

    /// The word of `mode:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Plan => "plan",
            Self::Review => "review",
            Self::Check => "check",
        }
    }

    /// How long it may say nothing unless its profile says otherwise.
    #[must_use]
    pub const fn silence(self) -> Millis {
        match self {
            Self::Work => DEFAULT_SILENCE,
            Self::Plan | Self::Review | Self::Check => DEFAULT_SILENCE_READING,
        }
    }
}

impl Profile {
    /// The hash that names this definition: struct fields serialize in declared order and maps are ordered, so equal
    /// profiles have equal bytes.
    ///
    /// # Errors
    /// Never for a profile that was compiled: everything in it has a JSON form.
    pub fn content_hash(&self) -> Result<ContentHash, serde_json::Error> {
        Ok(ContentHash::of(&serde_json::to_vec(self)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        Profile {
            name: "coder".to_owned(),
            description: None,
            adapter: Adapter::Command { argv: vec!["agent".to_owned(), "--stdin".to_owned()] },
            role: None,
            mode: Mode::Work,
            silence_timeout: Mode::Work.silence(),
            max_concurrent: Some(2),
            max_messages: DEFAULT_MAX_MESSAGES,
            model: None,
            env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
            rules: BoxRules::default(),
            permissions: Permissions::default(),
            permission_mode: None,
            output: Some(serde_json::json!({ "type": "object" })),
            system_prompt: "You write code.\n".to_owned(),
        }
    }

    #[test]
    fn a_profile_reads_back_and_its_hash_names_it() {
        let text = serde_json::to_string(&profile()).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile());
        let hash = profile().content_hash().unwrap();
        assert_eq!(hash, profile().content_hash().unwrap());
        let other = Profile { system_prompt: "You review code.\n".to_owned(), ..profile() };
        assert_ne!(hash, other.content_hash().unwrap());
    }

    #[test]
    fn modes_that_read_may_be_silent_for_less_time() {
        let limits: Vec<_> = Mode::ALL.iter().map(|mode| (mode.word(), mode.silence().to_string())).collect();
        let reading = |word| (word, "10m".to_owned());
        assert_eq!(limits, [("work", "15m".to_owned()), reading("plan"), reading("review"), reading("check")]);
    }
}
