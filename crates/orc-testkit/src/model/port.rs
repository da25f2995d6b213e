//! The model behind the port, with a hook that fails chosen calls before or after they took effect.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, ready};
use orc_domain::action::WaitEvent;
use orc_domain::effect::Effect;
use orc_domain::event::Event;
use orc_domain::graph::Pipeline;
use orc_domain::ids::{CallId, ContentHash, EffectId, FlowId, InstanceId, RunId};
use orc_domain::ledger::{CostsBy, Reservation, Settlement, Sum};
use orc_domain::meter::Owner;
use orc_domain::time::Timestamp;
use orc_ports::ledger::{CallRecord, CostFilter, CostLine, CostReader, Ledger};
use orc_ports::store::{Commit, Committed, Guarded, Instance, LoadedFlow, Store, StoreError, StoreResult};

use super::Model;

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

/// Decides about each call, by the name of its method in [`Store`], [`Ledger`] or [`CostReader`].
pub type FaultHook = Box<dyn FnMut(&'static str) -> Fault + Send>;

/// The model as a [`Store`] and as a [`Ledger`].
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

    fn flows_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> StoreResult<'_, Vec<(Timestamp, FlowId)>> {
        self.call("flows_due", |model| Ok(model.flows_due(now, after, limit)))
    }

    fn flows_with_live_runs(&self, after: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowId>> {
        self.call("flows_with_live_runs", |model| Ok(model.flows_with_live_runs(after, limit)))
    }

    fn flows_with_effects(&self, after: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowId>> {
        self.call("flows_with_effects", |model| Ok(model.flows_with_effects(after, limit)))
    }

    fn flows_waiting_for(&self, event: WaitEvent) -> StoreResult<'_, Vec<FlowId>> {
        self.call("flows_waiting_for", |model| Ok(model.flows_waiting_for(event)))
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

impl CostReader for ModelStore {
    fn spent(&self, owner: Owner) -> StoreResult<'_, Sum> {
        self.call("spent", |model| Ok(model.spent(owner)))
    }

    fn costs(&self, by: Vec<CostsBy>, filter: CostFilter, limit: u32) -> StoreResult<'_, (Vec<CostLine>, Sum)> {
        self.call("costs", |model| Ok(model.costs(&by, &filter, limit)))
    }

    fn calls(&self, filter: CostFilter, before: Option<CallId>, limit: u32) -> StoreResult<'_, Vec<CallRecord>> {
        self.call("calls", |model| Ok(model.calls(&filter, before, limit)))
    }
}

impl Ledger for ModelStore {
    fn reserve(&self, reservation: Reservation) -> StoreResult<'_, Guarded> {
        self.call("reserve", |model| model.reserve(reservation))
    }

    fn settle(&self, settlement: Settlement) -> StoreResult<'_, Guarded> {
        self.call("settle", |model| model.settle(settlement))
    }

    fn lose(&self, instance: InstanceId, at: Timestamp) -> StoreResult<'_, u64> {
        self.call("lose", |model| Ok(model.lose(instance, at)))
    }
}
