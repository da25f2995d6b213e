//! Writes: each as a script, and what its counts mean.
//!
//! Every script begins with the guarded statement that decides; a count that is wrong takes the whole write back. A
//! script is built by the caller, so that the writer only sends it.

use std::sync::Arc;

use orc_domain::claim::{Claim, Holder, Refusal};
use orc_domain::effect::{Change, EffectKind};
use orc_domain::event::{EVENT_VERSION, EventBody};
use orc_domain::flow::{FlowHead, FlowState, Step, StepNo, StepState};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{ContentHash, EffectId, FlowId, InstanceId, RunId};
use orc_domain::request::{Answer, Request, RequestState};
use orc_domain::run::{Run, RunState};
use orc_domain::time::Timestamp;
use orc_domain::wait::Wait;
use orc_ports::store::{Commit, Guarded, Instance, StoreError};
use serde::Serialize;

use crate::ledger::push_losses;
use crate::row::step_status;
use crate::statement::{
    Bind, CONSUMER_ADVANCE, CONSUMER_INSERT, COUNTER_ADD, EFFECT_DELETE, EFFECT_INSERT, EFFECTS_OF_FLOW_DELETE,
    EVENT_INSERT, EVENTS_DELETE, FLOW_DELETE, FLOW_FINISH, FLOW_INSERT, FLOW_UPDATE, INSTANCE_END, INSTANCE_EXISTS,
    INSTANCE_INSERT, LEDGER_CALL_EXISTS, LEDGER_CALL_INSERT, LEDGER_ENDS_LOSE, LEDGER_OPEN_INSERT, PIPELINE_INSERT,
    PLACE_DELETE, PLACE_INSERT, PLACES_OF_FLOW_DELETE, PLACES_OF_OTHERS, REQUEST_UPSERT, REQUESTS_OF_FLOW_DELETE,
    RUN_CLAIM, RUN_EXISTS, RUN_FINISH, RUN_UPSERT, RUNS_OF_FLOW_DELETE, Ran, SLOT_DELETE, SLOT_INSERT, STEP_UPSERT,
    STEPS_OF_FLOW_DELETE, Script, Statement,
};

/// What became of a write, for all kinds of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Written.
    Done,
    /// Its precondition does not hold.
    Stale,
    /// A claim was refused.
    Refused(Refusal),
    /// What became of each of its guarded updates, where it is made of such.
    Each(Vec<Guarded>),
    /// So many calls of models are lost.
    Lost(u64),
}

/// What to do with a write after its script ran.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Keep what was written.
    Keep(Outcome),
    /// Take it back.
    Undo(Result<Outcome, StoreError>),
}

/// How long a write must last before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    /// Survives the end of the process. A loss of power takes with it only what died with the machine.
    Process,
    /// Survives a loss of power: something outside the machine will know of it.
    #[cfg_attr(not(test), expect(dead_code, reason = "no effect leaves the machine yet"))]
    Power,
}

/// A write, ready to be sent.
pub(crate) struct Work {
    /// The method of the port.
    pub(crate) operation: &'static str,
    /// What it is about, for errors.
    pub(crate) id: String,
    /// What to send.
    pub(crate) script: Script,
    /// What it needs.
    pub(crate) durability: Durability,
}

impl Work {
    pub(crate) fn new(operation: &'static str, id: impl ToString) -> Self {
        Self { operation, id: id.to_string(), script: Script::default(), durability: Durability::Process }
    }

    pub(crate) fn broken(&self, what: &str) -> StoreError {
        broken(self.operation, &self.id, what)
    }

    pub(crate) fn json<T: Serialize>(&self, value: &T) -> Result<String, StoreError> {
        serde_json::to_string(value).map_err(|error| self.broken(&format!("it has no JSON form: {error}")))
    }

    /// See [`orc_ports::store::Store::pipeline_insert`].
    pub(crate) fn pipeline_insert(
        hash: &ContentHash,
        pipeline: &Arc<Pipeline>,
        source: String,
    ) -> Result<Self, StoreError> {
        let mut work = Self::new("pipeline_insert", hash);
        let body = work.json(pipeline.as_ref())?;
        work.script.push(PIPELINE_INSERT).bind(hash.to_string()).bind(pipeline.name.clone()).bind(body).bind(source);
        Ok(work)
    }

    /// See [`orc_ports::store::Store::runs_claim`].
    pub(crate) fn runs_claim(starts: &[(RunId, EffectId)], instance: InstanceId) -> Self {
        let mut work = Self::new("runs_claim", instance);
        for (run, effect) in starts {
            work.script.push(RUN_CLAIM).bind(run.to_string()).bind(instance.to_string());
            work.script.push(RUN_EXISTS).bind(run.to_string());
            work.script.push(EFFECT_DELETE).bind(effect.to_string());
        }
        work
    }

    /// See [`orc_ports::store::Store::effect_delivered`].
    pub(crate) fn effect_delivered(effect: EffectId) -> Self {
        let mut work = Self::new("effect_delivered", effect);
        work.script.push(EFFECT_DELETE).bind(effect.to_string());
        work
    }

    /// See [`orc_ports::store::Store::instance_begin`].
    pub(crate) fn instance_begin(instance: &Instance) -> Self {
        let mut work = Self::new("instance_begin", instance.id);
        work.script
            .push(INSTANCE_INSERT)
            .bind(instance.id.to_string())
            .bind(i64::from(instance.pid))
            .bind(instance.command.clone())
            .bind(instance.began_at.as_millis());
        work
    }

    /// See [`orc_ports::store::Store::instance_end`].
    pub(crate) fn instance_end(id: InstanceId, at: Timestamp) -> Self {
        let mut work = Self::new("instance_end", id);
        work.script.push(INSTANCE_END).bind(id.to_string()).bind(at.as_millis());
        work.script.push(INSTANCE_EXISTS).bind(id.to_string());
        push_losses(&mut work.script, id, at);
        work
    }

    /// See [`orc_ports::store::Store::consumer_advance`].
    pub(crate) fn consumer_advance(name: &'static str, from: u64, to: u64) -> Self {
        let mut work = Self::new("consumer_advance", name);
        for statement in [CONSUMER_ADVANCE, CONSUMER_INSERT] {
            work.script.push(statement).bind(name.to_owned()).bind(signed(from)).bind(signed(to));
        }
        work
    }

    /// See [`orc_ports::store::Store::flow_remove`].
    pub(crate) fn flow_remove(id: FlowId, finished_before: Timestamp) -> Self {
        let mut work = Self::new("flow_remove", id);
        // What refers to the flow goes first; if the flow may not go, all of it is taken back.
        for statement in [
            EFFECTS_OF_FLOW_DELETE,
            PLACES_OF_FLOW_DELETE,
            REQUESTS_OF_FLOW_DELETE,
            RUNS_OF_FLOW_DELETE,
            STEPS_OF_FLOW_DELETE,
        ] {
            work.script.push(statement).bind(id.to_string());
        }
        work.script.push(FLOW_DELETE).bind(id.to_string()).bind(finished_before.as_millis());
        work.script.push(COUNTER_ADD).bind(FLOWS_FINISHED.to_owned()).bind(-1_i64);
        work
    }

    /// See [`orc_ports::store::Store::events_remove`].
    pub(crate) fn events_remove(up_to: u64) -> Self {
        let mut work = Self::new("events_remove", up_to);
        work.script.push(EVENTS_DELETE).bind(signed(up_to));
        work
    }

    /// See [`orc_ports::store::Store::commit`].
    pub(crate) fn commit(commit: &Commit) -> Result<Self, StoreError> {
        let mut work = Self::new("commit", commit.flow);
        let Some((Change::Head(head), rows)) = commit.decision.changes.split_last() else {
            return Err(work.broken("the last change is the head"));
        };
        if head.version <= commit.expected {
            return Err(work.broken("a commit raises the version"));
        }
        work.push_head(commit, head)?;
        for row in rows {
            match row {
                Change::Head(_) => return Err(work.broken("there is one head")),
                Change::Step(step) => work.push_step(commit.flow, step)?,
                Change::Run(run) if run.flow != commit.flow => {
                    return Err(work.broken("a run belongs to the flow that decides about it"));
                }
                Change::Run(run) => work.push_run(run)?,
                Change::Request(request) if request.flow != commit.flow => {
                    return Err(work.broken("a request belongs to the flow that decides about it"));
                }
                Change::Request(request) => work.push_request(request)?,
            }
        }
        for claim in &commit.decision.releases {
            work.push_release(commit.flow, claim)?;
        }
        for claim in &commit.decision.claims {
            work.push_claim(commit, claim)?;
        }
        for event in &commit.decision.events {
            work.push_event(commit.flow, event)?;
        }
        for effect in &commit.decision.effects {
            let data = work.json(&effect.kind)?;
            work.script.push(EFFECT_INSERT).bind(commit.flow.to_string()).bind(effect.id.to_string()).bind(data);
            work.durability = work.durability.max(durability(&effect.kind));
        }
        Ok(work)
    }

    fn push_head(&mut self, commit: &Commit, head: &FlowHead) -> Result<(), StoreError> {
        let finished_at = match head.state {
            FlowState::Finished { at, .. } => Some(at.as_millis()),
            FlowState::Queued { .. } | FlowState::Live { .. } => None,
        };
        let queued_at = match head.state {
            FlowState::Queued { since, .. } => Some(since.as_millis()),
            FlowState::Live { .. } | FlowState::Finished { .. } => None,
        };
        let wake_at = head.wake_at.map(Timestamp::as_millis);
        let text = self.json(head)?;
        if let Some(spec) = &commit.create {
            if spec.id != commit.flow {
                return Err(self.broken("a flow is created under its own id"));
            }
            let spec_text = self.json(spec)?;
            self.script
                .push(FLOW_INSERT)
                .bind(commit.flow.to_string())
                .bind(spec.workspace.to_string())
                .bind(spec.pipeline.to_string())
                .bind(spec.name.clone())
                .bind(signed(head.version))
                .bind(wake_at)
                .bind(queued_at)
                .bind(head.seen.as_millis())
                .bind(finished_at)
                .bind(spec_text)
                .bind(text);
        } else {
            // A statement that does not name `finished_at` leaves the indexes on it alone.
            let (statement, since) =
                if finished_at.is_some() { (FLOW_FINISH, finished_at) } else { (FLOW_UPDATE, queued_at) };
            self.script
                .push(statement)
                .bind(commit.flow.to_string())
                .bind(signed(commit.expected))
                .bind(text)
                .bind(signed(head.version))
                .bind(wake_at)
                .bind(head.seen.as_millis())
                .bind(since);
        }
        if finished_at.is_some() {
            self.script.push(COUNTER_ADD).bind(FLOWS_FINISHED.to_owned()).bind(1_i64);
        }
        Ok(())
    }

    fn push_step(&mut self, flow: FlowId, step: &Step) -> Result<(), StoreError> {
        let data = self.json(step)?;
        self.script
            .push(STEP_UPSERT)
            .bind(flow.to_string())
            .bind(i64::from(step.no.0))
            .bind(step.path.to_string())
            .bind(step_status(&step.state).to_owned())
            .bind(waits_for(&step.state).map(str::to_owned))
            .bind(data);
        Ok(())
    }

    fn push_run(&mut self, run: &Run) -> Result<(), StoreError> {
        let data = self.json(run)?;
        let (started_at, process) = match &run.state {
            RunState::Pending { .. } => (None, None),
            RunState::Running { since, process, .. } => (Some(since.as_millis()), Some(self.json(process)?)),
            RunState::Finished { at, .. } => {
                self.push_run_keys(RUN_FINISH, run).bind(at.as_millis()).bind(data);
                return Ok(());
            }
        };
        self.push_run_keys(RUN_UPSERT, run).bind(started_at).bind(process).bind(data);
        Ok(())
    }

    /// The arguments that both statements about a run begin with.
    fn push_run_keys(&mut self, statement: Statement, run: &Run) -> Bind<'_> {
        self.script
            .push(statement)
            .bind(run.id.to_string())
            .bind(run.flow.to_string())
            .bind(run.path.to_string())
            .bind(i64::from(run.attempt))
            .bind(run.agent.as_ref().map(|agent| agent.agent.clone()))
    }

    fn push_request(&mut self, request: &Request) -> Result<(), StoreError> {
        let data = self.json(request)?;
        // What was never stored as open was opened when it was resolved.
        let (opened_at, resolved) = match &request.state {
            RequestState::Open { since, .. } => (since, None),
            RequestState::Resolved { at, by, answer, .. } => (at, Some((at.as_millis(), self.json(by)?, *answer))),
        };
        let bound = self
            .script
            .push(REQUEST_UPSERT)
            .bind(request.id.to_string())
            .bind(request.flow.to_string())
            .bind(opened_at.as_millis());
        let (at, by, answer) = match resolved {
            None => (None, None, None),
            Some((at, by, answer)) => (Some(at), Some(by), Some(answer)),
        };
        // The statement adds the time since it was opened.
        let answer_time = answer.filter(|answer| *answer != Answer::Withdrawn).map(|_| 0_i64);
        bound.bind(at).bind(answer.map(|answer| answer.word().to_owned())).bind(by).bind(answer_time).bind(data);
        Ok(())
    }

    fn push_release(&mut self, flow: FlowId, claim: &Claim) -> Result<(), StoreError> {
        match claim {
            Claim::Slot { run } => {
                self.script.push(SLOT_DELETE).bind(run.to_string());
            }
            Claim::Group { name, holder, .. } => {
                self.push_place(PLACE_DELETE, flow, name, *holder)?;
            }
        }
        Ok(())
    }

    fn push_claim(&mut self, commit: &Commit, claim: &Claim) -> Result<(), StoreError> {
        match claim {
            Claim::Slot { run } => {
                self.script.push(SLOT_INSERT).bind(run.to_string()).bind(i64::from(commit.slots));
            }
            Claim::Group { limit: 0, .. } => return Err(self.broken("a concurrency group has a place")),
            Claim::Group { name, limit, holder } => {
                self.push_place(PLACE_INSERT, commit.flow, name, *holder)?.bind(i64::from(*limit));
                self.push_place(PLACES_OF_OTHERS, commit.flow, name, *holder)?;
            }
        }
        Ok(())
    }

    /// The arguments that all statements about a place begin with.
    fn push_place(
        &mut self,
        statement: Statement,
        flow: FlowId,
        name: &str,
        holder: Holder,
    ) -> Result<Bind<'_>, StoreError> {
        if holder.flow != flow {
            return Err(self.broken("a place belongs to the flow that decides about it"));
        }
        let step = holder.step.map_or(WHOLE_FLOW, |no| i64::from(no.0));
        Ok(self.script.push(statement).bind(name.to_owned()).bind(flow.to_string()).bind(step))
    }

    fn push_event(&mut self, flow: FlowId, event: &EventBody) -> Result<(), StoreError> {
        let actor = self.json(&event.actor)?;
        let data = self.json(&event.fact)?;
        self.script
            .push(EVENT_INSERT)
            .bind(flow.to_string())
            .bind(event.fact.kind().to_owned())
            .bind(i64::from(EVENT_VERSION))
            .bind(event.at.as_millis())
            .bind(actor)
            .bind(data);
        Ok(())
    }
}

/// In `places.step`: the flow as a whole holds it.
const WHOLE_FLOW: i64 = -1;

/// What `steps.waits_for` says.
const fn waits_for(state: &StepState) -> Option<&'static str> {
    match state {
        StepState::Waiting(Wait::Event { event, .. }) => Some(event.word()),
        StepState::Waiting(_)
        | StepState::Blocked
        | StepState::Ready { .. }
        | StepState::Active { .. }
        | StepState::Finished { .. } => None,
    }
}

/// A row of [`PLACES_OF_OTHERS`]: flow, step and name of the group, with a space between. None if it is none of ours.
fn place(row: &str) -> Option<(Holder, &str)> {
    let mut parts = row.splitn(3, ' ');
    let flow = parts.next()?.parse().ok()?;
    let step: i64 = parts.next()?.parse().ok()?;
    let step = if step == WHOLE_FLOW { None } else { Some(StepNo(u32::try_from(step).ok()?)) };
    Some((Holder { flow, step }, parts.next()?))
}

/// The counter of flows that are over.
pub(crate) const FLOWS_FINISHED: &str = "flows_finished";

/// Judges counts in the order in which they were made: the guard that comes first names the reason.
pub(crate) fn judge(operation: &'static str, id: &str, ran: &[Ran]) -> Verdict {
    let mut outcome = Outcome::Done;
    let mut each = Vec::new();
    for (index, one) in ran.iter().enumerate() {
        let untouched = one.changed == 0;
        let contract = |what| Verdict::Undo(Err(broken(operation, id, what)));
        match one.statement {
            name if [FLOW_INSERT, FLOW_UPDATE, FLOW_FINISH, FLOW_DELETE].iter().any(|guard| guard.name == name)
                && untouched =>
            {
                return Verdict::Undo(Ok(Outcome::Stale));
            }
            name if name == STEP_UPSERT.name && untouched => return contract("a step keeps its path"),
            name if [RUN_UPSERT.name, RUN_FINISH.name].contains(&name) && untouched => {
                return contract("a run that is over does not change");
            }
            name if name == SLOT_INSERT.name && untouched => {
                return Verdict::Undo(Ok(Outcome::Refused(Refusal::Slot)));
            }
            name if name == REQUEST_UPSERT.name && untouched => {
                return contract("a request that is resolved does not change");
            }
            // The query after the insert names nobody when the claim holds.
            name if name == PLACES_OF_OTHERS.name && !one.returned.is_empty() => {
                return refused(&one.returned);
            }
            // The query after a guarded update tells why it found nothing.
            name if name == RUN_EXISTS.name || name == INSTANCE_EXISTS.name => {
                let updated = index > 0 && ran[index - 1].changed > 0;
                each.push(match (updated, one.returned.is_empty()) {
                    (true, _) => Guarded::Updated,
                    (false, true) => Guarded::Missing,
                    (false, false) => Guarded::Stale,
                });
            }
            name if name == LEDGER_CALL_INSERT.name && untouched => return Verdict::Undo(Ok(Outcome::Stale)),
            name if name == LEDGER_OPEN_INSERT.name && untouched => {
                return contract("a call belongs to an instance that has begun and is not over");
            }
            // The sums that follow change only with an entry.
            name if name == LEDGER_CALL_EXISTS.name && ran[index - 1].changed == 0 => {
                let missing = || Outcome::Each(vec![Guarded::Missing]);
                return Verdict::Undo(Ok(if one.returned.is_empty() { missing() } else { Outcome::Stale }));
            }
            name if name == LEDGER_ENDS_LOSE.name => outcome = Outcome::Lost(one.changed as u64),
            name if name == CONSUMER_INSERT.name => {
                let updated = index > 0 && ran[index - 1].changed > 0;
                outcome = if updated || !untouched { Outcome::Done } else { Outcome::Stale };
            }
            _ => {}
        }
    }
    Verdict::Keep(if each.is_empty() { outcome } else { Outcome::Each(each) })
}

/// The refusal that these rows of [`PLACES_OF_OTHERS`] tell of.
fn refused(rows: &[String]) -> Verdict {
    let mut holders = Vec::with_capacity(rows.len());
    let mut group = "";
    for row in rows {
        let Some((holder, name)) = place(row) else {
            let what = "it does not say which flow and step it is for".to_owned();
            return Verdict::Undo(Err(StoreError::Corrupt { table: "places", id: row.clone(), what }));
        };
        holders.push(holder);
        group = name;
    }
    Verdict::Undo(Ok(Outcome::Refused(Refusal::Group { name: group.to_owned(), holders })))
}

/// What an effect needs before it may be delivered. A new kind that leaves the machine (comment, push, notification) is
/// [`Durability::Power`].
const fn durability(kind: &EffectKind) -> Durability {
    match kind {
        EffectKind::StartRun { .. }
        | EffectKind::StartAgent { .. }
        | EffectKind::Join { .. }
        | EffectKind::StopRun { .. }
        | EffectKind::WriteRun { .. }
        | EffectKind::StartFlow { .. }
        | EffectKind::Tell { .. }
        | EffectKind::KeepRule { .. } => Durability::Process,
    }
}

fn broken(operation: &'static str, id: &str, what: &str) -> StoreError {
    StoreError::Contract { operation, id: id.to_owned(), what: what.to_owned() }
}

/// Integers of SQLite are signed; versions and positions count single events and stay far below the limit.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
