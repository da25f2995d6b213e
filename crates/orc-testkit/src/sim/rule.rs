//! What must hold after every step of a simulation, by name.

use std::fmt;

use orc_domain::ids::FlowId;

/// An invariant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// At most one live run, and one process, of a step at any time; a run is started at most once.
    OneRun,
    /// What is finished stays as it is, in flows, steps and runs.
    Final,
    /// A step starts only after its parents, `finally` only after the main part.
    Parents,
    /// A retry of a flow does not run again what succeeded.
    TakenOver,
    /// A step with `idempotent: false` is started once.
    NotIdempotent,
    /// The slots taken are those of the live runs, and not more than there are.
    Slots,
    /// What is not finished has an alarm, early enough for everything that waits for one, and no alarm rings in vain.
    Alarm,
    /// The index of a resident flow is the one that would be built now.
    Index,
    /// The rows are the state that was decided.
    Rows,
    /// Events tell what happened, each thing once, at positions without gaps.
    Events,
    /// A fan-out ends only after all its elements, and as they did.
    Join,
    /// Failures of a step stay within its `retry:`, and a step does not give up before.
    Attempts,
    /// Losses of a step stay within their cap.
    Losses,
    /// The outcome of a flow and of its steps is the one that a naive reading of the pipeline gives.
    Outcome,
    /// What was accepted as the end of a run is what its process did.
    Truth,
    /// Nothing new starts after a cancel except `finally`, nothing at all after it was forced, and no element after a
    /// sibling failed under `fail_fast`.
    Stopped,
    /// Equal arguments give equal decisions, also after the flow was loaded anew.
    Repeatable,
    /// A decision keeps the contract of the store.
    Contract,
    /// Places in a concurrency group are held by what is in them, and are not more than its limit.
    Places,
    /// A request is resolved once, and only by whom it is for.
    Requests,
    /// Nothing starts while it is held.
    Held,
    /// What a flow used is what its runs used, and nothing that an agent told of at its end is lost.
    Spend,
    /// A message is read by one run, unless that was lost or never began.
    Messages,
    /// A step ends as its child flow did, and a flow after its children.
    Kin,
    /// Work goes on from step to step: a run starts from what comes before it, and no change and no conflict is lost.
    Trees,
    /// Every flow ends within a bounded number of steps once nothing disturbs it.
    Ends,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::OneRun => "at most one live run of a step",
            Self::Final => "final is final",
            Self::Parents => "no step before its parents",
            Self::TakenOver => "what succeeded is not run again",
            Self::NotIdempotent => "`idempotent: false` runs once",
            Self::Slots => "slots are live runs",
            Self::Alarm => "nothing unfinished without an alarm",
            Self::Index => "the index is true",
            Self::Rows => "rows are the state",
            Self::Events => "events tell what happened once",
            Self::Join => "a join waits for all elements",
            Self::Attempts => "attempts keep to `retry:`",
            Self::Losses => "losses keep to their cap",
            Self::Outcome => "outcomes follow from the pipeline",
            Self::Truth => "an accepted end is what happened",
            Self::Stopped => "nothing starts after a cancel",
            Self::Repeatable => "equal arguments give equal decisions",
            Self::Contract => "decisions keep the store's contract",
            Self::Places => "places are what is in them",
            Self::Requests => "a request is resolved once, by whom it is for",
            Self::Held => "nothing starts while it is held",
            Self::Spend => "spend is never lost",
            Self::Messages => "a message is read once",
            Self::Kin => "children end before their parents",
            Self::Trees => "no change is lost from step to step",
            Self::Ends => "every flow ends",
        };
        f.write_str(text)
    }
}

/// A broken invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// In which flow, if in one.
    pub flow: Option<FlowId>,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.found)?;
        match self.flow {
            Some(flow) => write!(f, " ({flow})"),
            None => Ok(()),
        }
    }
}

/// What a check says.
pub(crate) type Checked = Result<(), Violation>;

/// Fails with the text when the condition does not hold.
pub(crate) fn hold(condition: bool, rule: Rule, flow: FlowId, found: impl FnOnce() -> String) -> Checked {
    if condition {
        return Ok(());
    }
    Err(Violation { rule, flow: Some(flow), found: found() })
}
