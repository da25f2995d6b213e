//! What an agent may do, as it is written in profiles, pipelines and steps. The rules are text here; `orc-policy` knows
//! what they mean, and `orc-spec` lets none through that it cannot read.

use serde::{Deserialize, Serialize};

use crate::ids::{ContentHash, RequestId};
use crate::principal::Principal;
use crate::time::Timestamp;

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
    /// `delegate:`; questions of others further down that are answered with yes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delegate: Vec<Delegate>,
}

/// Calls of an agent further down that its questions are answered about, with yes. A question that a rule asks for goes past
/// it, to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegate {
    /// The agent that asks, by its name.
    pub to: String,
    /// Rules like those of `allow:`.
    pub allow: Vec<String>,
}

/// Where a rule was written. Earlier ones are nearer to whoever runs the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An administrator's file.
    Managed,
    /// The command line.
    CommandLine,
    /// The pipeline.
    Pipeline,
    /// The agent's profile.
    Profile,
    /// An answer that was given for ever.
    Answers,
    /// An answer that was given during this run.
    Run,
    /// `.claude/settings.local.json`.
    Local,
    /// `.claude/settings.json`, and `orchestrator.yaml`.
    Project,
    /// `~/.claude/settings.json`.
    User,
}

impl Source {
    /// Every one, in the order of their weight.
    pub const ALL: [Self; 9] = [
        Self::Managed,
        Self::CommandLine,
        Self::Pipeline,
        Self::Profile,
        Self::Answers,
        Self::Run,
        Self::Local,
        Self::Project,
        Self::User,
    ];

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::CommandLine => "command line",
            Self::Pipeline => "pipeline",
            Self::Profile => "profile",
            Self::Answers => "answered for ever",
            Self::Run => "run",
            Self::Local => "local",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// Rules that hold beside those of pipelines and profiles, from one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruleset {
    /// Which.
    pub source: Source,
    /// The file, for people.
    pub file: String,
    /// The one agent that it is for; none: every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it says.
    pub permissions: Permissions,
}

/// A rule that an answer left for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRule {
    /// The agent that it is for.
    pub agent: String,
    /// The rule.
    pub rule: String,
    /// Whether its calls run, or never do.
    pub granted: bool,
    /// Who answered.
    pub by: Principal,
    /// When.
    pub at: Timestamp,
    /// What was answered; one request leaves one rule.
    pub request: RequestId,
    /// In their words; may be empty.
    pub reason: String,
}

impl Permissions {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Above {
    /// [`Above::who`] of rules that were typed: the only ones above that grant.
    pub const COMMAND_LINE: &str = "the command line";
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
    /// For how long an answer may hold.
    #[serde(default)]
    pub lasting: Lasting,
}

/// For how long an answer to a question may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasting {
    /// For this call: a rule asks for the question each time.
    #[default]
    Once,
    /// As long as its conversation: no rule could say exactly this.
    Run,
    /// For ever, as this rule of this agent.
    Rule {
        /// The agent.
        agent: String,
        /// The rule, which covers exactly this.
        rule: String,
    },
}

impl Lasting {
    /// Whether an answer may hold for so long.
    #[must_use]
    pub const fn covers(&self, scope: Scope) -> bool {
        match scope {
            Scope::Call => true,
            Scope::Run => !matches!(self, Self::Once),
            Scope::Forever => matches!(self, Self::Rule { .. }),
        }
    }
}

/// For how long an answer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For this call.
    #[default]
    Call,
    /// For exactly this, as long as the conversation of its run and of all below it.
    Run,
    /// As a rule.
    Forever,
}

impl Scope {
    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Run => "run",
            Self::Forever => "forever",
        }
    }
}

/// What was answered about a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallAnswer {
    /// The call.
    pub call: AskedCall,
    /// Whether it may run.
    pub granted: bool,
    /// For how long that holds. A no of somebody holds for the run at least; one for want of an answer, for this call.
    #[serde(default)]
    pub scope: Scope,
}
