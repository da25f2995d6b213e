//! The model of the store: what a store must do, in maps, in memory.
//!
//! [`Model`] is the synchronous core. A simulator owns one, calls it directly and clones it to look back. [`ModelStore`]
//! wraps it as a [`Store`], with a hook that fails chosen calls before or after they took effect. Both pass the suite in
//! [`crate::conformance::store`], as every real store does.
//!
//! Nothing here is ever half done: a call checks everything first and writes afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, ready};
use orc_domain::claim::{Claim, ClaimKind};
use orc_domain::effect::{Change, Effect};
use orc_domain::event::Event;
use orc_domain::flow::{Flow, FlowHead, FlowState, StepNo};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{ContentHash, EffectId, FlowId, InstanceId, RunId};
use orc_domain::path::StepPath;
use orc_domain::run::Run;
use orc_domain::time::Timestamp;
use orc_ports::store::{Commit, Committed, Guarded, Instance, LoadedFlow, Store, StoreError, StoreResult};

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
    /// [`Flow::runs`] stays empty here: live runs are found in `runs` by `live`.
    flows: BTreeMap<FlowId, Flow>,
    runs: BTreeMap<RunId, KeptRun>,
    live: BTreeSet<(FlowId, RunId)>,
    paths: BTreeMap<(FlowId, StepPath), StepNo>,
    attempts: BTreeMap<(FlowId, StepPath, u32), RunId>,
    outbox: BTreeMap<FlowId, Vec<Effect>>,
    slots: BTreeSet<RunId>,
    events: Vec<Event>,
    /// Events that were removed; all that is left has greater positions.
    removed_events: u64,
    instances: BTreeMap<InstanceId, (Instance, Option<Timestamp>)>,
    consumers: BTreeMap<String, u64>,
}

impl Model {
    /// See [`Store::pipeline_insert`].
    pub fn pipeline_insert(&mut self, hash: ContentHash, pipeline: Arc<Pipeline>, source: String) {
        self.pipelines.entry(hash).or_insert((pipeline, source));
    }

    /// See [`Store::pipeline_get`].
    #[must_use]
    pub fn pipeline_get(&self, hash: &ContentHash) -> Option<Arc<Pipeline>> {
        self.pipelines.get(hash).map(|(pipeline, _)| Arc::clone(pipeline))
    }

    /// See [`Store::commit`].
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

    /// See [`Store::flow_load`].
    #[must_use]
    pub fn flow_load(&self, id: FlowId) -> Option<LoadedFlow> {
        let mut flow = self.flows.get(&id)?.clone();
        let mut claimed = Vec::new();
        for kept in self.live_runs(id) {
            claimed.extend(kept.claimed_by.map(|instance| (kept.run.id, instance)));
            flow.runs.insert(kept.run.id, kept.run.clone());
        }
        Some(LoadedFlow { flow, claimed })
    }

    /// See [`Store::flows_unfinished`].
    #[must_use]
    pub fn flows_unfinished(&self, after: Option<FlowId>, limit: u32) -> Vec<FlowId> {
        self.flows
            .values()
            .filter(|flow| !flow.is_finished() && after.is_none_or(|after| flow.spec.id > after))
            .map(|flow| flow.spec.id)
            .take(limit as usize)
            .collect()
    }

    /// One of those of [`Store::runs_claim`].
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

    /// See [`Store::effects_pending`].
    #[must_use]
    pub fn effects_pending(&self, flow: FlowId) -> Vec<Effect> {
        self.outbox.get(&flow).cloned().unwrap_or_default()
    }

    /// See [`Store::effect_delivered`].
    pub fn effect_delivered(&mut self, effect: EffectId) {
        self.outbox.retain(|_, pending| {
            pending.retain(|kept| kept.id != effect);
            !pending.is_empty()
        });
    }

    /// See [`Store::instance_begin`].
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

    /// See [`Store::instances_open`].
    #[must_use]
    pub fn instances_open(&self) -> Vec<Instance> {
        self.instances.values().filter(|(_, ended)| ended.is_none()).map(|(instance, _)| instance.clone()).collect()
    }

    /// See [`Store::instance_end`].
    pub fn instance_end(&mut self, id: InstanceId, at: Timestamp) -> Guarded {
        match self.instances.get_mut(&id) {
            None => Guarded::Missing,
            Some((_, Some(_))) => Guarded::Stale,
            Some((_, ended)) => {
                *ended = Some(at);
                Guarded::Updated
            }
        }
    }

    /// See [`Store::events_after`].
    #[must_use]
    pub fn events_after(&self, position: u64, limit: u32) -> Vec<Event> {
        let from = usize::try_from(position.saturating_sub(self.removed_events)).unwrap_or(usize::MAX);
        self.events.iter().skip(from).take(limit as usize).cloned().collect()
    }

    /// See [`Store::consumer_cursor`].
    #[must_use]
    pub fn consumer_cursor(&self, name: &str) -> u64 {
        self.consumers.get(name).copied().unwrap_or(0)
    }

    /// See [`Store::consumer_advance`].
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
        &self.slots
    }

    /// Every event that is kept, in order of position.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
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
            }
        }
        Ok(())
    }

    /// Claims after releases, then effects; `Some` when a claim is refused.
    fn check_claims(&self, commit: &Commit) -> Result<Option<ClaimKind>, StoreError> {
        let fail = |what: &str| broken("commit", commit.flow, what);
        let mut held = self.slots.clone();
        for Claim::Slot { run } in &commit.decision.releases {
            held.remove(run);
        }
        for Claim::Slot { run } in &commit.decision.claims {
            if held.len() >= commit.slots as usize {
                return Ok(Some(ClaimKind::Slot));
            }
            let decided =
                commit.decision.changes.iter().any(|change| matches!(change, Change::Run(new) if new.id == *run));
            if !decided && !self.runs.contains_key(run) {
                return Err(fail("a slot is held by a run"));
            }
            if !held.insert(*run) {
                return Err(fail("a run holds one slot"));
            }
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
            let flow = Flow { spec, head: head.clone(), steps: Vec::new(), runs: BTreeMap::new() };
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
            }
        }
        let workspace = flow.spec.workspace;
        for Claim::Slot { run } in &commit.decision.releases {
            self.slots.remove(run);
        }
        for Claim::Slot { run } in &commit.decision.claims {
            self.slots.insert(*run);
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

fn broken(operation: &'static str, id: impl ToString, what: &str) -> StoreError {
    StoreError::Contract { operation, id: id.to_string(), what: what.to_owned() }
}

/// What a hook does to a call.
#[derive(Debug, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The call fails and nothing was written.
    Before(StoreError),
    /// The call took effect and its answer is lost.
    After(StoreError),
}

/// Decides about each call, by the name of its method in [`Store`].
pub type FaultHook = Box<dyn FnMut(&'static str) -> Fault + Send>;

/// The model as a [`Store`].
#[derive(Default)]
pub struct ModelStore {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    model: Model,
    closed: bool,
    hook: Option<FaultHook>,
}

impl ModelStore {
    /// A store that begins as this model: after a crash, with what had been committed.
    #[must_use]
    pub fn of(model: Model) -> Self {
        Self { inner: Mutex::new(Inner { model, closed: false, hook: None }) }
    }

    /// A copy of everything stored.
    #[must_use]
    pub fn snapshot(&self) -> Model {
        self.lock().model.clone()
    }

    /// Asks `hook` about every later call.
    pub fn set_faults(&self, hook: FaultHook) {
        self.lock().hook = Some(hook);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A panic inside a call cannot leave the model half written, see the module's invariant.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        act: impl FnOnce(&mut Model) -> Result<T, StoreError>,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        let mut inner = self.lock();
        if inner.closed {
            return Box::pin(ready(Err(StoreError::Closed)));
        }
        let fault = inner.hook.as_mut().map_or(Fault::None, |hook| hook(name));
        let answer = match fault {
            Fault::None => act(&mut inner.model),
            Fault::Before(error) => Err(error),
            Fault::After(error) => act(&mut inner.model).and(Err(error)),
        };
        Box::pin(ready(answer))
    }
}

impl Store for ModelStore {
    fn pipeline_insert(&self, hash: ContentHash, pipeline: Arc<Pipeline>, source: String) -> StoreResult<'_, ()> {
        self.call("pipeline_insert", |model| {
            model.pipeline_insert(hash, pipeline, source);
            Ok(())
        })
    }

    fn pipeline_get(&self, hash: ContentHash) -> StoreResult<'_, Option<Arc<Pipeline>>> {
        self.call("pipeline_get", |model| Ok(model.pipeline_get(&hash)))
    }

    fn commit(&self, commit: Commit) -> StoreResult<'_, Committed> {
        self.call("commit", |model| model.commit(&commit))
    }

    fn flow_load(&self, id: FlowId) -> StoreResult<'_, Option<LoadedFlow>> {
        self.call("flow_load", |model| Ok(model.flow_load(id)))
    }

    fn flows_unfinished(&self, after: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowId>> {
        self.call("flows_unfinished", |model| Ok(model.flows_unfinished(after, limit)))
    }

    fn runs_claim(&self, starts: Vec<(RunId, EffectId)>, instance: InstanceId) -> StoreResult<'_, Vec<Guarded>> {
        let claim = |model: &mut Model, (run, effect)| model.run_claim(run, effect, instance);
        self.call("runs_claim", |model| Ok(starts.into_iter().map(|start| claim(model, start)).collect()))
    }

    fn effects_pending(&self, flow: FlowId) -> StoreResult<'_, Vec<Effect>> {
        self.call("effects_pending", |model| Ok(model.effects_pending(flow)))
    }

    fn effect_delivered(&self, effect: EffectId) -> StoreResult<'_, ()> {
        self.call("effect_delivered", |model| {
            model.effect_delivered(effect);
            Ok(())
        })
    }

    fn instance_begin(&self, instance: Instance) -> StoreResult<'_, ()> {
        self.call("instance_begin", |model| model.instance_begin(instance))
    }

    fn instances_open(&self) -> StoreResult<'_, Vec<Instance>> {
        self.call("instances_open", |model| Ok(model.instances_open()))
    }

    fn instance_end(&self, id: InstanceId, at: Timestamp) -> StoreResult<'_, Guarded> {
        self.call("instance_end", |model| Ok(model.instance_end(id, at)))
    }

    fn events_after(&self, position: u64, limit: u32) -> StoreResult<'_, Vec<Event>> {
        self.call("events_after", |model| Ok(model.events_after(position, limit)))
    }

    fn consumer_cursor(&self, name: &'static str) -> StoreResult<'_, u64> {
        self.call("consumer_cursor", |model| Ok(model.consumer_cursor(name)))
    }

    fn consumer_advance(&self, name: &'static str, from: u64, to: u64) -> StoreResult<'_, Guarded> {
        self.call("consumer_advance", |model| Ok(model.consumer_advance(name, from, to)))
    }

    fn flow_remove(&self, id: FlowId, finished_before: Timestamp) -> StoreResult<'_, bool> {
        self.call("flow_remove", |model| Ok(model.flow_remove(id, finished_before)))
    }

    fn events_remove(&self, up_to: u64) -> StoreResult<'_, ()> {
        self.call("events_remove", |model| {
            model.events_remove(up_to);
            Ok(())
        })
    }

    fn close(&self) -> StoreResult<'_, ()> {
        let answer = self.call("close", |_| Ok(()));
        self.lock().closed = true;
        answer
    }
}
