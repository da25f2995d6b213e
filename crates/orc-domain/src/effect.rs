//! All that a decision can do: changes of rows, claims, and effects on the world.
//!
//! Effects are intents in an outbox: each has an id derived from what it is about, is delivered at least once, in order
//! for one flow, and carries every choice already made. Changes, events, claims and effects of a decision commit together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::claim::Claim;
use crate::event::EventBody;
use crate::flow::{FlowHead, FlowSpec, Step};
use crate::ids::{EffectId, FlowId, RunId};
use crate::input::Signed;
use crate::meter::{Limits, Owner};
use crate::path::StepPath;
use crate::permission::{Above, KeptRule};
use crate::profile::Profile;
use crate::request::Request;
use crate::run::{Message, Run, StopReason, WakeReason};
use crate::time::Millis;
use crate::transition::Transition;
use crate::tree::{Place, PrivateCopy};
use crate::value::Text;

/// An effect on the world.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Effect {
    /// Derived: the same decision gives the same id.
    pub id: EffectId,
    /// What to do.
    pub kind: EffectKind,
}

/// What to do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Claim the run, then start its process. A run that is already claimed is not started again.
    StartRun {
        /// Which run.
        run: RunId,
        /// What to start.
        command: Command,
    },
    /// The same for a run of an agent.
    StartAgent {
        /// Which run.
        run: RunId,
        /// What to start.
        call: Box<AgentCall>,
    },
    /// Claim the run, then merge what its copy starts from, without a process. The result comes back as `RunKept` and
    /// `RunEnded`.
    Join {
        /// Which run.
        run: RunId,
        /// The step.
        path: StepPath,
        /// What to merge.
        copy: PrivateCopy,
    },
    /// End the run's process group and prove that it is gone. The result comes back as `RunEnded`.
    StopRun {
        /// Which run.
        run: RunId,
        /// Why, for the log.
        reason: StopReason,
        /// Time between TERM and KILL; zero kills at once.
        grace: Millis,
    },
    /// Hand a message to a run that goes on, which reads it at its next turn. One that is over reads nothing.
    WriteRun {
        /// Which run.
        run: RunId,
        /// What.
        message: Message,
    },
    /// Start a child flow, or find that it is there. One that is over tells its parent again.
    StartFlow {
        /// What to start.
        spec: Box<FlowSpec>,
    },
    /// Tell another flow something.
    Tell {
        /// Which.
        flow: FlowId,
        /// What, and in whose name.
        signed: Box<Signed>,
    },
    /// Keep a rule that an answer left. One of the same request is there already when it is delivered again.
    KeepRule {
        /// The rule.
        rule: Box<KeptRule>,
    },
}

/// An agent to start, with every choice already made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentCall {
    /// The agent.
    pub profile: Profile,
    /// Where it works.
    pub place: Place,
    /// Variables of the step; the host's allow-listed ones and those of the adapter are added where it is started.
    pub env: BTreeMap<String, String>,
    /// The step instance, which is also its conversation.
    pub path: StepPath,
    /// 1 for the first.
    pub attempt: u32,
    /// Why it is woken.
    pub wake: WakeReason,
    /// What it has been told in this conversation and no run has taken yet.
    pub messages: Vec<Message>,
    /// What it is asked, in parts: what came from outside is told apart.
    pub prompt: Vec<Text>,
    /// JSON Schema that its output must meet; with one, an end without output is no delivery.
    pub schema: Option<serde_json::Value>,
    /// The pipeline's name, for the ledger.
    #[serde(default)]
    pub pipeline: String,
    /// Walls above its calls of models: of its run, its flow, and the flows above that.
    #[serde(default)]
    pub walls: Vec<(Owner, Limits)>,
    /// Whether it goes on in its conversation, and not in a new one.
    #[serde(default)]
    pub goes_on: bool,
    /// Agents that it, or one that it starts, may start itself; by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Profile>,
    /// Who is above it, and what they let it do: flows above, its pipeline, its step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<Above>,
}

/// A process to start, with every choice already made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where it works.
    pub place: Place,
    /// Variables of the step; the host's allow-listed ones and `ORC_OUTPUT`, `ORC_TEMP` are added where it is started.
    pub env: BTreeMap<String, String>,
    /// The step instance, for logs and the private directory.
    pub path: StepPath,
    /// 1 for the first.
    pub attempt: u32,
}

/// A row that a decision wants to be different.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// The flow's head, always the last change of a decision.
    Head(FlowHead),
    /// A step instance, new or changed.
    Step(Step),
    /// A run, new or changed.
    Run(Run),
    /// A request, new or changed.
    Request(Request),
}

/// What `decide` says: commit this in one transaction, then do the effects.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decision {
    /// Rows to write. Empty means that nothing happened: nothing is committed.
    pub changes: Vec<Change>,
    /// Facts for others.
    pub events: Vec<EventBody>,
    /// Intents for the outbox.
    pub effects: Vec<Effect>,
    /// Tried in the same transaction; a refused one fails it.
    pub claims: Vec<Claim>,
    /// Given back in the same transaction.
    pub releases: Vec<Claim>,
    /// Transitions that were taken, for coverage and the log.
    pub transitions: Vec<Transition>,
}

impl Decision {
    /// Whether there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Joins a decision with the one made right after it, so that both commit together. Of a row that both change only
    /// the later state is written, at the earlier place, so that new steps keep the order of their numbers; the head is
    /// last again. Events, effects and claims keep their order.
    #[must_use]
    pub fn then(mut self, later: Self) -> Self {
        if !later.changes.is_empty() {
            self.changes.retain(|old| !matches!(old, Change::Head(_)));
            for new in later.changes {
                match self.changes.iter_mut().find(|old| old.is_same_row(&new)) {
                    Some(old) => *old = new,
                    None => self.changes.push(new),
                }
            }
        }
        self.events.extend(later.events);
        self.effects.extend(later.effects);
        for release in later.releases {
            // What was only claimed here is given back by not claiming it.
            match self.claims.iter().position(|claim| claim.is_same_place(&release)) {
                Some(at) => drop(self.claims.remove(at)),
                None => self.releases.push(release),
            }
        }
        self.claims.extend(later.claims);
        self.transitions.extend(later.transitions);
        self
    }
}

impl Change {
    fn is_same_row(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Head(_), Self::Head(_)) => true,
            (Self::Step(one), Self::Step(two)) => one.no == two.no,
            (Self::Run(one), Self::Run(two)) => one.id == two.id,
            (Self::Request(one), Self::Request(two)) => one.id == two.id,
            (Self::Head(_) | Self::Step(_) | Self::Run(_) | Self::Request(_), _) => false,
        }
    }
}
