//! What an agent may do, as it is written in profiles, pipelines and steps. The rules are text here; `orc-policy` knows
//! what they mean, and `orc-spec` lets none through that it cannot read.

use serde::{Deserialize, Serialize};

use crate::ids::ContentHash;

/// What a call may do at most, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It looks.
    Read,
    /// It changes files of its copy.
    Edit,
    /// It runs programs.
    Run,
    /// It reaches others.
    Network,
    /// It publishes.
    Push,
}

impl Class {
    /// Every one, from the least.
    pub const ALL: [Self; 5] = [Self::Read, Self::Edit, Self::Run, Self::Network, Self::Push];

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Run => "run",
            Self::Network => "network",
            Self::Push => "push",
        }
    }
}

/// How a run treats calls that no rule settles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
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

impl PermissionMode {
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

/// `permissions:`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Permissions {
    /// `allow:`; calls that run without a question. Only a profile has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// `ask:`; calls that somebody is asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// `deny:`; calls that never run, whoever makes them further down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// `ceiling:`; what calls may do at most, whoever makes them further down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Class>,
}

impl Permissions {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Somebody above a run, and what holds for everybody below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Above {
    /// Its name, for people: ``the pipeline `ship` ``, ``the agent `lead` ``.
    pub who: String,
    /// What it says.
    pub permissions: Permissions,
}

/// A call of a tool that somebody is asked about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AskedCall {
    /// Its id in the conversation.
    pub id: String,
    /// Which tool.
    pub tool: String,
    /// Hash of exactly what would run: who, which tool, its input, where its paths lead. An answer is to nothing else.
    pub subject: ContentHash,
}

/// What was answered about a call; good for this call, once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallAnswer {
    /// The call.
    pub call: AskedCall,
    /// Whether it may run.
    pub granted: bool,
}
