//! Where agents become processes, and what they tell becomes a result.
//!
//! An adapter knows one kind of agent program. It is pure: it says what to start and reads what comes back; the executor
//! starts it, and the runtime decides. Contract: [`Adapter::prepare`] gives equal starts for equal arguments; a
//! [`Listener`] hears the bytes of one run in order, in any pieces, and its memory is bounded whatever it hears.

use std::collections::BTreeMap;

use crate::executor::{Exit, Stream};
use orc_domain::agent::{AgentResult, AgentStop, Statistics, Usage};
use orc_domain::ids::{FlowId, RunId, WorkspaceId};
use orc_domain::json_schema::SchemaError;
use orc_domain::path::StepPath;
use orc_domain::permission::CallAnswer;
use orc_domain::profile::Profile;
use orc_domain::time::Timestamp;
use orc_domain::value::Text;

/// Bytes of a prompt at most, everything in it counted.
pub const MAX_PROMPT_BYTES: usize = 16 * 1024 * 1024;

/// Everything that an adapter needs to know of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentStart {
    /// Who the agent is.
    pub profile: Profile,
    /// What it must submit, as a JSON Schema: the step's, or else the profile's.
    pub schema: Option<serde_json::Value>,
    /// What it is asked, in pieces; tainted ones are shown as data.
    pub prompt: Vec<Text>,
    /// Why it wakes.
    pub wake: Wake,
    /// Which run of what it is.
    pub names: Names,
}

/// The ids of a run; as text where their nouns have no type of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The run.
    pub run: RunId,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The flow.
    pub flow: FlowId,
    /// The step.
    pub step: StepPath,
    /// The agent's id.
    pub agent: String,
    /// The tenant.
    pub workspace: WorkspaceId,
    /// The history that this run continues, for programs that keep one.
    pub conversation: Option<String>,
    /// The thread that people see.
    pub space: Option<String>,
    /// The message that woke it.
    pub message: Option<String>,
    /// The ticket.
    pub ticket: Option<String>,
}

/// Why an agent wakes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// Every reason with its ids as name and value; the first is the one in the environment.
    pub reasons: Vec<(&'static str, Vec<(&'static str, String)>)>,
    /// What is in its inbox, oldest first.
    pub messages: Vec<Letter>,
    /// What was missing when it ended the last time.
    pub missing: Option<String>,
    /// What the run before did, when it was lost.
    pub continuation: Option<Text>,
}

/// A message in an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its id.
    pub id: String,
    /// Who wrote it.
    pub from: String,
    /// When.
    pub at: Timestamp,
    /// What.
    pub text: Text,
    /// What it answers, when it answers whether a call may run.
    pub answer: Option<CallAnswer>,
}

/// What to start and who listens.
pub struct Prepared {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables, over those of the step.
    pub env: BTreeMap<String, String>,
    /// What it reads from standard input, at most [`MAX_PROMPT_BYTES`].
    pub stdin: Vec<u8>,
    /// Hears what it tells.
    pub listener: Box<dyn Listener>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { argv, env, stdin, .. } = self;
        f.debug_struct("Prepared").field("argv", argv).field("env", env).field("stdin", &stdin.len()).finish()
    }
}

/// Why a run of an agent cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// Its prompt is too large; the run ends as `prompt_too_long`.
    #[error("its prompt has {bytes} bytes, and an agent takes {MAX_PROMPT_BYTES}")]
    PromptTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Nothing can be checked against its schema.
    #[error("the schema of its output cannot be used")]
    Schema {
        /// Why.
        #[source]
        source: SchemaError,
    },
}

/// Knows one kind of agent program.
pub trait Adapter: Send + Sync {
    /// What to start for a run, and who listens to it.
    ///
    /// # Errors
    /// [`PrepareError`]; nothing was started then.
    fn prepare(&self, start: &AgentStart) -> Result<Prepared, PrepareError>;
}

/// Something that cannot wait for the end of the process. Each is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It repeats itself; stop it as [`AgentStop::Looping`].
    Looping {
        /// What, one line.
        what: String,
    },
    /// It said that it is done; what does not end now by itself may be ended.
    Done,
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its exit status.
    pub exit: Exit,
    /// Why we asked it to end, if we did for a reason of the agent's.
    pub stopped: Option<AgentStop>,
}

/// Hears one run.
pub trait Listener: Send {
    /// Takes bytes as they come. Must not block.
    fn hear(&mut self, stream: Stream, bytes: &[u8], at: Timestamp) -> Option<Finding>;

    /// What is known so far.
    fn statistics(&self) -> Statistics;

    /// What it says that it used so far.
    fn usage(&self) -> Usage;

    /// Whether its last word is that it cannot go on.
    fn says_blocked(&self) -> bool;

    /// What came of the run; its process is gone and all of its output was heard.
    fn finish(self: Box<Self>, end: End) -> AgentResult;
}
