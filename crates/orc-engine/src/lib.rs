//! How the orchestrator decides.
//!
//! [`start`] makes a flow, [`decide`] carries it on: a flow, an input and a point in time go in, the next flow and a
//! [`Decision`] come out. Both are pure and total: no clock, no random source, no files; the same arguments give the same
//! result, ids included. The caller commits the decision in one transaction and then delivers its effects; if the commit
//! is refused it throws the returned flow away and loads the old one again.
//!
//! Invariants that the simulator in `orc-testkit` holds after every step: final is final; a step starts only after its
//! parents; at most one live run per step; one slot claim per live run; a flow that is not finished has an alarm; the
//! index equals one built anew from the flow.
//!
//! The files, in the order a decision runs through them: `draft` (the flow being changed), `inputs` (what was heard),
//! `alarm` (what has come due), `settle` (what follows: joins, skips, phases, the end), `expand` (fan-out), `repeat`
//! (rounds), `launch` (what starts now), `waits` (child flows, times, events), `ask` (requests), `group` (concurrency),
//! `hold` (pause), `wall` (budgets), `retry` (what a failure means), `agent` (what an agent's end means), `cancel`.

mod agent;
mod alarm;
mod ask;
mod cancel;
mod draft;
mod expand;
mod fork;
mod group;
mod hold;
mod index;
mod inputs;
mod launch;
mod repeat;
mod resident;
mod retry;
mod scope;
mod settle;
mod trees;
mod waits;
mod wall;

use std::collections::BTreeMap;

use orc_domain::claim::Holder;
use orc_domain::effect::Decision;
use orc_domain::input::Signed;
use orc_domain::time::{Millis, Timestamp};

pub use agent::{MAX_SILENCES, UPSTREAM_WAITS};
pub use fork::{Again, ForkError, New, fork};
pub use inputs::start;
pub use resident::Resident;
pub use retry::MAX_LOSSES;
pub use waits::child_id;

/// Everything a decision takes from outside apart from its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Wall time. May jump: a flow never goes back behind the latest time it saw.
    pub now: Timestamp,
    /// How many slots the decision may try to claim, as far as the caller knows. The store has the last word.
    pub slots: u32,
    /// Time between TERM and KILL for runs that are asked to end.
    pub grace: Millis,
    /// Concurrency groups that the caller knows to be full, with who is in them. The store has the last word.
    pub full: BTreeMap<String, Vec<Holder>>,
}

/// Decides about one input. A decision without changes means that nothing happened and nothing needs to be committed.
#[must_use]
pub fn decide(resident: Resident, signed: &Signed, context: &Context) -> (Resident, Decision) {
    let mut draft = draft::Draft::begin(resident, &signed.by, context);
    if draft.is_over() {
        draft.take(orc_domain::transition::Transition::FlowFinal);
        return draft.end();
    }
    draft.hear(&signed.input);
    draft.fire_alarms();
    draft.settle();
    draft.end()
}
