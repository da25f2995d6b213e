//! The model of the store: what a store must do, in maps, in memory.
//!
//! [`Model`] is the synchronous core. A simulator owns one, calls it directly and clones it to look back. [`ModelStore`]
//! wraps it as a [`Store`](orc_ports::store::Store), with a hook that fails chosen calls before or after they took effect.
//! Both pass the suite in [`crate::conformance::store`], as every real store does. Methods are those of the port.
//!
//! Nothing here is ever half done: a call checks everything first and writes afterwards.

mod held;
mod ledger;
mod port;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orc_domain::action::WaitEvent;
use orc_domain::claim::{Claim, Holder, Refusal};
use orc_domain::effect::{Change, Effect};
use orc_domain::event::Event;
use orc_domain::flow::{Flow, FlowHead, FlowState, StepNo, StepState};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{CallId, ContentHash, EffectId, FlowId, InstanceId, RequestId, RunId};
use orc_domain::path::StepPath;
use orc_domain::request::{Request, RequestState};
use orc_domain::run::Run;
use orc_domain::time::Timestamp;
use orc_domain::wait::Wait;
use orc_ports::ledger::CallRecord;
use orc_ports::store::{Commit, Committed, Guarded, Instance, LoadedFlow, StoreError};

use self::held::Held;

pub use self::port::{Fault, FaultHook, ModelStore};

/// A run as the model keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptRun {
    /// The run.
    pub run: Run,
    /// Who claimed its start.
    pub claimed_by: Option<InstanceId>,
}

/// A store in memory; `Clone` is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pipelines: BTreeMap<ContentHash, (Arc<Pipeline>, String)>,
    /// [`Flow::runs`] and [`Flow::requests`] stay empty here: those that are live are found in `runs` and `requests`.
    flows: BTreeMap<FlowId, Flow>,
    runs: BTreeMap<RunId, KeptRun>,
    live: BTreeSet<(FlowId, RunId)>,
    paths: BTreeMap<(FlowId, StepPath), StepNo>,
    attempts: BTreeMap<(FlowId, StepPath, u32), RunId>,
    outbox: BTreeMap<FlowId, Vec<Effect>>,
    requests: BTreeMap<RequestId, Request>,
    held: Held,
    events: Vec<Event>,
    /// Events that were removed; all that is left has greater positions.
    removed_events: u64,
    instances: BTreeMap<InstanceId, (Instance, Option<Timestamp>)>,
    consumers: BTreeMap<String, u64>,
    calls: BTreeMap<CallId, CallRecord>,
}

impl Model {
    /// See [`orc_ports::store::Store::pipeline_insert`].
    pub fn pipeline_insert(&mut self, hash: ContentHash, pipeline: Arc<Pipeline>, source: String) {
        self.pipelines.entry(hash).or_insert((pipeline, source));
    }

    /// See [`orc_ports::store::Store::pipeline_get`].
    #[must_use]
    pub fn pipeline_get(&self, hash: &ContentHash) -> Option<Arc<Pipeline>> {
        self.pipelines.get(hash).map(|(pipeline, _)| Arc::clone(pipeline))
    }

    /// See [`orc_ports::store::Store::commit`].
    ///
    /// # Errors
    /// [`StoreError::Contract`] when the commit could not have come from a decision on the stored flow.
    pub fn commit(&mut self, commit: &Commit) -> Result<Committed, StoreError> {
        if commit.decision.is_empty() {
            return Ok(Committed::Done);
        }
        let current = self.flows.get(&commit.flow);
        let fits = match (current, &commit.create) {
            (None, Some(_)) => true,
            (Some(flow), None) => flow.head.version == commit.expected && !flow.is_finished(),
            _ => false,
        };
        if !fits {
            return Ok(Committed::Stale);
        }
        let head = self.check(commit)?.clone();
        if let Some(refused) = self.check_claims(commit)? {
            return Ok(Committed::Refused(refused));
        }
        self.apply(commit, head);
        Ok(Committed::Done)
    }

    /// See [`orc_ports::store::Store::flow_load`].
    #[must_use]
    pub fn flow_load(&self, id: FlowId) -> Option<LoadedFlow> {
        let mut flow = self.flows.get(&id)?.clone();
        let mut claimed = Vec::new();
        for kept in self.live_runs(id) {
            claimed.extend(kept.claimed_by.map(|instance| (kept.run.id, instance)));
            flow.runs.insert(kept.run.id, kept.run.clone());
        }
        let open = self.requests.values().filter(|request| request.flow == id && is_open(request));
        flow.requests = open.map(|request| (request.id, request.clone())).collect();
        Some(LoadedFlow { flow, claimed })
    }

    /// See [`orc_ports::store::Store::flows_unfinished`].
    #[must_use]
    pub fn flows_unfinished(&self, after: Option<FlowId>, limit: u32) -> Vec<FlowId> {
        self.flows
            .values()
            .filter(|flow| !flow.is_finished() && after.is_none_or(|after| flow.spec.id > after))
            .map(|flow| flow.spec.id)
            .take(limit as usize)
            .collect()
    }

    /// See [`orc_ports::store::Store::flows_due`].
    #[must_use]
    pub fn flows_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Vec<(Timestamp, FlowId)> {
        let unfinished = self.flows.values().filter(|flow| !flow.is_finished());
        let mut due: Vec<_> = unfinished
            .filter_map(|flow| Some((flow.head.wake_at?, flow.spec.id)))
            .filter(|entry| entry.0 <= now && after.is_none_or(|after| *entry > after))
            .collect();
        due.sort_unstable();
        due.truncate(limit as usize);
        due
    }

    /// See [`orc_ports::store::Store::flows_with_live_runs`].
    #[must_use]
    pub fn flows_with_live_runs(&self, after: Option<FlowId>, limit: u32) -> Vec<FlowId> {
        page(self.live.iter().map(|(flow, _)| *flow), after, limit)
    }

    /// See [`orc_ports::store::Store::flows_with_effects`].
    #[must_use]
    pub fn flows_with_effects(&self, after: Option<FlowId>, limit: u32) -> Vec<FlowId> {
        page(self.outbox.keys().copied(), after, limit)
    }

    /// See [`orc_ports::store::Store::flows_waiting_for`].
    #[must_use]
    pub fn flows_waiting_for(&self, wanted: WaitEvent) -> Vec<FlowId> {
        let waits =
            |state: &StepState| matches!(state, StepState::Waiting(Wait::Event { event, .. }) if *event == wanted);
        let flows = self.flows.values().filter(|flow| flow.steps.iter().any(|step| waits(&step.state)));
        flows.map(|flow| flow.spec.id).collect()
    }

    /// One of those of [`orc_ports::store::Store::runs_claim`].
    pub fn run_claim(&mut self, run: RunId, effect: EffectId, instance: InstanceId) -> Guarded {
        self.effect_delivered(effect);
        match self.runs.get_mut(&run) {
            None => Guarded::Missing,
            Some(kept) if kept.claimed_by.is_some() || kept.run.state.is_final() => Guarded::Stale,
            Some(kept) => {
                kept.claimed_by = Some(instance);
                Guarded::Updated
            }
        }
    }

    /// See [`orc_ports::store::Store::effects_pending`].
    #[must_use]
    pub fn effects_pending(&self, flow: FlowId) -> Vec<Effect> {
        self.outbox.get(&flow).cloned().unwrap_or_default()
    }

    /// See [`orc_ports::store::Store::effect_delivered`].
    pub fn effect_delivered(&mut self, effect: EffectId) {
        self.outbox.retain(|_, pending| {
            pending.retain(|kept| kept.id != effect);
            !pending.is_empty()
        });
    }

    /// See [`orc_ports::store::Store::instance_begin`].
    ///
    /// # Errors
    /// [`StoreError::Contract`] when the id was used before.
    pub fn instance_begin(&mut self, instance: Instance) -> Result<(), StoreError> {
        let id = instance.id;
        if self.instances.contains_key(&id) {
            return Err(broken("instance_begin", id, "an instance begins once"));
        }
        self.instances.insert(id, (instance, None));
        Ok(())
    }

    /// See [`orc_ports::store::Store::instances_open`].
    #[must_use]
    pub fn instances_open(&self) -> Vec<Instance> {
        self.instances.values().filter(|(_, ended)| ended.is_none()).map(|(instance, _)| instance.clone()).collect()
    }

    /// See [`orc_ports::store::Store::instance_end`].
    pub fn instance_end(&mut self, id: InstanceId, at: Timestamp) -> Guarded {
        match self.instances.get_mut(&id) {
            None => Guarded::Missing,
            Some((_, Some(_))) => Guarded::Stale,
            Some((_, ended)) => {
                *ended = Some(at);
                self.lose(id, at);
                Guarded::Updated
            }
        }
    }

    /// See [`orc_ports::store::Store::events_after`].
    #[must_use]
    pub fn events_after(&self, position: u64, limit: u32) -> Vec<Event> {
        let from = usize::try_from(position.saturating_sub(self.removed_events)).unwrap_or(usize::MAX);
        self.events.iter().skip(from).take(limit as usize).cloned().collect()
    }

    /// See [`orc_ports::store::Store::consumer_cursor`].
    #[must_use]
    pub fn consumer_cursor(&self, name: &str) -> u64 {
        self.consumers.get(name).copied().unwrap_or(0)
    }

    /// See [`orc_ports::store::Store::consumer_advance`].
    pub fn consumer_advance(&mut self, name: &str, from: u64, to: u64) -> Guarded {
        if self.consumer_cursor(name) != from {
            return Guarded::Stale;
        }
        self.consumers.insert(name.to_owned(), to);
        Guarded::Updated
    }

    /// See [`Store::flow_remove`].
    pub fn flow_remove(&mut self, id: FlowId, finished_before: Timestamp) -> bool {
        let is_over = |flow: &Flow| matches!(flow.head.state, FlowState::Finished { at, .. } if at < finished_before);
        if !self.flows.get(&id).is_some_and(is_over) {
            return false;
        }
        self.flows.remove(&id);
        self.runs.retain(|_, kept| kept.run.flow != id);
        self.paths.retain(|(flow, _), _| *flow != id);
        self.attempts.retain(|(flow, _, _), _| *flow != id);
        self.outbox.remove(&id);
        self.requests.retain(|_, request| request.flow != id);
        self.held.forget(id);
        true
    }

    /// See [`Store::events_remove`].
    pub fn events_remove(&mut self, up_to: u64) {
        let passed = self.consumers.values().min().copied().unwrap_or(0);
        let newest = self.events.last().map_or(0, |event| event.position);
        let up_to = up_to.min(passed).min(newest.saturating_sub(1));
        self.events.retain(|event| event.position > up_to);
        self.removed_events = self.removed_events.max(up_to);
    }

    /// Every flow that is kept, in order of id.
    pub fn flow_ids(&self) -> impl Iterator<Item = FlowId> + '_ {
        self.flows.keys().copied()
    }

    /// A flow without its runs.
    #[must_use]
    pub fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id)
    }

    /// A run, also one that is over.
    #[must_use]
    pub fn run(&self, id: RunId) -> Option<&KeptRun> {
        self.runs.get(&id)
    }

    /// Every run that is kept, in order of id.
    pub fn runs(&self) -> impl Iterator<Item = &KeptRun> {
        self.runs.values()
    }

    /// Runs that hold a slot.
    #[must_use]
    pub const fn slots(&self) -> &BTreeSet<RunId> {
        &self.held.slots
    }

    /// Every event that is kept, in order of position.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Every request there ever was, in order of id.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.values()
    }

    /// Who is in which concurrency group, by its name; a group that is empty is not there.
    #[must_use]
    pub const fn places(&self) -> &BTreeMap<String, BTreeSet<Holder>> {
        &self.held.places
    }

    fn live_runs(&self, flow: FlowId) -> impl Iterator<Item = &KeptRun> {
        self.live.iter().filter(move |(of, _)| *of == flow).filter_map(|(_, run)| self.runs.get(run))
    }

    /// What must hold of every commit, whatever the state of other flows.
    fn check<'a>(&self, commit: &'a Commit) -> Result<&'a FlowHead, StoreError> {
        let fail = |what: &str| broken("commit", commit.flow, what);
        let Some(Change::Head(head)) = commit.decision.changes.last() else {
            return Err(fail("the last change is the head"));
        };
        if head.version <= commit.expected {
            return Err(fail("a commit raises the version"));
        }
        if let Some(spec) = &commit.create {
            if spec.id != commit.flow {
                return Err(fail("a flow is created under its own id"));
            }
            if !self.pipelines.contains_key(&spec.pipeline) {
                return Err(fail("the definition of a flow is kept before the flow"));
            }
        }
        self.check_rows(commit)?;
        Ok(head)
    }

    fn check_rows(&self, commit: &Commit) -> Result<(), StoreError> {
        let fail = |what: &str| broken("commit", commit.flow, what);
        let mut next_step = self.flows.get(&commit.flow).map_or(0, |flow| flow.steps.len());
        let mut fresh: BTreeMap<&StepPath, StepNo> = BTreeMap::new();
        let mut finals: BTreeSet<RunId> = BTreeSet::new();
        let mut resolved: BTreeSet<RequestId> = BTreeSet::new();
        let before_head = commit.decision.changes.len().saturating_sub(1);
        for change in &commit.decision.changes[..before_head] {
            match change {
                Change::Head(_) => return Err(fail("there is one head")),
                Change::Step(step) => {
                    let no = step.no.0 as usize;
                    if no > next_step {
                        return Err(fail("numbers of steps have no gap"));
                    }
                    next_step = next_step.max(no + 1);
                    let current = self.flows.get(&commit.flow).and_then(|flow| flow.step(step.no));
                    if current.is_some_and(|current| current.path != step.path) {
                        return Err(fail("a step keeps its path"));
                    }
                    let kept = self.paths.get(&(commit.flow, step.path.clone()));
                    if *kept.unwrap_or(fresh.entry(&step.path).or_insert(step.no)) != step.no {
                        return Err(fail("a path names one step"));
                    }
                }
                Change::Run(run) => {
                    let over = finals.contains(&run.id)
                        || self.runs.get(&run.id).is_some_and(|kept| kept.run.state.is_final());
                    if over {
                        return Err(fail("a run that is over does not change"));
                    }
                    if run.flow != commit.flow {
                        return Err(fail("a run belongs to the flow that decides about it"));
                    }
                    let attempt = (run.flow, run.path.clone(), run.attempt);
                    if self.attempts.get(&attempt).is_some_and(|other| *other != run.id) {
                        return Err(fail("an attempt is one run"));
                    }
                    if run.state.is_final() {
                        finals.insert(run.id);
                    }
                }
                Change::Request(request) => {
                    let over = resolved.contains(&request.id)
                        || self.requests.get(&request.id).is_some_and(|kept| !is_open(kept));
                    if over {
                        return Err(fail("a request that is resolved does not change"));
                    }
                    if request.flow != commit.flow {
                        return Err(fail("a request belongs to the flow that decides about it"));
                    }
                    if !is_open(request) {
                        resolved.insert(request.id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Claims after releases, then effects; `Some` when a claim is refused.
    fn check_claims(&self, commit: &Commit) -> Result<Option<Refusal>, StoreError> {
        let fail = |what: &str| broken("commit", commit.flow, what);
        let mut held = self.held.clone();
        // What is wrong with a commit is wrong whoever else holds what it claims.
        for claim in commit.decision.releases.iter().chain(&commit.decision.claims) {
            match claim {
                Claim::Group { holder, .. } if holder.flow != commit.flow => {
                    return Err(fail("a place belongs to the flow that decides about it"));
                }
                Claim::Slot { .. } | Claim::Group { .. } => {}
            }
        }
        if commit.decision.claims.iter().any(|claim| matches!(claim, Claim::Group { limit: 0, .. })) {
            return Err(fail("a concurrency group has a place"));
        }
        for claim in &commit.decision.releases {
            held.give_back(claim);
        }
        for claim in &commit.decision.claims {
            if let Some(refusal) = held.refuse(claim, commit.slots) {
                return Ok(Some(refusal));
            }
            if let Claim::Slot { run } = claim {
                let changes = &commit.decision.changes;
                let decided = changes.iter().any(|change| matches!(change, Change::Run(new) if new.id == *run));
                if !decided && !self.runs.contains_key(run) {
                    return Err(fail("a slot is held by a run"));
                }
                if held.slots.contains(run) {
                    return Err(fail("a run holds one slot"));
                }
            }
            held.take(claim);
        }
        let pending: BTreeSet<EffectId> = self.outbox.values().flatten().map(|effect| effect.id).collect();
        let mut fresh = BTreeSet::new();
        for effect in &commit.decision.effects {
            if pending.contains(&effect.id) || !fresh.insert(effect.id) {
                return Err(fail("an effect is decided once"));
            }
        }
        Ok(None)
    }

    fn apply(&mut self, commit: &Commit, head: FlowHead) {
        if let Some(spec) = commit.create.clone() {
            let flow =
                Flow { spec, head: head.clone(), steps: Vec::new(), runs: BTreeMap::new(), requests: BTreeMap::new() };
            self.flows.insert(commit.flow, flow);
        }
        let Some(flow) = self.flows.get_mut(&commit.flow) else {
            return;
        };
        flow.head = head;
        for change in &commit.decision.changes {
            match change {
                Change::Head(_) => {}
                Change::Step(step) => {
                    self.paths.insert((commit.flow, step.path.clone()), step.no);
                    match flow.steps.get_mut(step.no.0 as usize) {
                        Some(kept) => *kept = step.clone(),
                        None => flow.steps.push(step.clone()),
                    }
                }
                Change::Run(run) => {
                    let entry = (commit.flow, run.id);
                    if run.state.is_final() {
                        self.live.remove(&entry)
                    } else {
                        self.live.insert(entry)
                    };
                    self.attempts.insert((run.flow, run.path.clone(), run.attempt), run.id);
                    self.runs.entry(run.id).or_insert_with(|| KeptRun { run: run.clone(), claimed_by: None }).run =
                        run.clone();
                }
                Change::Request(request) => {
                    self.requests.insert(request.id, request.clone());
                }
            }
        }
        let workspace = flow.spec.workspace;
        for claim in &commit.decision.releases {
            self.held.give_back(claim);
        }
        for claim in &commit.decision.claims {
            self.held.take(claim);
        }
        for body in &commit.decision.events {
            self.events.push(Event {
                position: self.removed_events + self.events.len() as u64 + 1,
                flow: commit.flow,
                workspace,
                body: body.clone(),
            });
        }
        if !commit.decision.effects.is_empty() {
            let pending = self.outbox.entry(commit.flow).or_default();
            pending.extend(commit.decision.effects.iter().cloned());
        }
    }
}

const fn is_open(request: &Request) -> bool {
    matches!(request.state, RequestState::Open { .. })
}

/// Each of `flows`, which are in order, once: the first `limit` after `after`.
fn page(flows: impl Iterator<Item = FlowId>, after: Option<FlowId>, limit: u32) -> Vec<FlowId> {
    let mut ids: Vec<FlowId> = flows.filter(|id| after.is_none_or(|after| *id > after)).collect();
    ids.dedup();
    ids.truncate(limit as usize);
    ids
}

fn broken(operation: &'static str, id: impl ToString, what: &str) -> StoreError {
    StoreError::Contract { operation, id: id.to_string(), what: what.to_owned() }
}
