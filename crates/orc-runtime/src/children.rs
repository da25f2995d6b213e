//! What one flow does to another: starts it as its child, tells it something.
//!
//! Both are safe to repeat. A child that is there is not started again; one that is over tells its parent again, so that
//! no end is lost. The futures have a written type because a flow's delivery starts flows, which have deliveries.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use orc_domain::flow::{FlowOutcome, FlowSpec};
use orc_domain::graph::Pipeline;
use orc_domain::ids::FlowId;
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_engine::{Again, Context, New, fork, start as begin};
use orc_ports::store::{Commit, Committed, StoreError};
use tokio::sync::oneshot;

use crate::dispatcher::{DispatcherError, Heard};
use crate::flow_loop::{FlowLoop, load, slots_in};
use crate::router::What;
use crate::shell::Shell;

type Done<'a, T> = BoxFuture<'a, Result<T, DispatcherError>>;

/// Starts a child flow.
pub(crate) fn start<'a>(shell: &'a Arc<Shell>, spec: &'a FlowSpec) -> Done<'a, ()> {
    async move {
        let pipeline = shell.store.pipeline_get(spec.pipeline.clone()).await?;
        let pipeline = pipeline.ok_or_else(|| not_stored(spec))?;
        let mut spec = spec.clone();
        match pipeline.take_inputs(std::mem::take(&mut spec.inputs)) {
            Ok(inputs) => spec.inputs = inputs,
            Err(problems) => return refuse(shell, &spec, problems).await,
        }
        let spec = carried(shell, &spec).await?;
        if create(shell, spec.clone(), pipeline).await? {
            return Ok(());
        }
        let Some(resident) = load(shell, spec.id).await? else { return Ok(()) };
        match resident.ended() {
            Some(ended) => match &spec.parent {
                Some(parent) => tell(shell, parent.flow, &Signed { by: Principal::System, input: ended }).await,
                None => Ok(()),
            },
            None => carry_on(shell, spec.id).await,
        }
    }
    .boxed()
}

/// A child that cannot start has failed: its parent hears why.
async fn refuse(shell: &Arc<Shell>, spec: &FlowSpec, problems: Vec<String>) -> Result<(), DispatcherError> {
    let Some(parent) = &spec.parent else { return Ok(()) };
    let detail = format!("its inputs do not fit: {}", problems.join("; "));
    let input =
        Input::ChildEnded { flow: spec.id, outcome: FlowOutcome::Failed, output: None, tips: Vec::new(), detail };
    tell(shell, parent.flow, &Signed { by: Principal::System, input }).await
}

/// The start of a child that carries on the child of the flow that its parent carries on.
async fn carried(shell: &Arc<Shell>, spec: &FlowSpec) -> Result<FlowSpec, StoreError> {
    let Some(before) = spec.retry_of else { return Ok(spec.clone()) };
    let fresh = FlowSpec { retry_of: None, ..spec.clone() };
    let Some(before) = load(shell, before).await? else { return Ok(fresh) };
    // What it pinned or was given may have changed: then nothing of it counts any more.
    let was = &before.flow().spec;
    if was.pipeline != spec.pipeline || was.inputs != spec.inputs || was.from != spec.from {
        return Ok(fresh);
    }
    let new = New { id: spec.id, by: spec.requested_by.clone(), now: spec.created_at };
    match fork(before.flow(), before.pipeline(), &Again::Unfinished, new) {
        Ok(forked) => Ok(FlowSpec { taken_over: forked.taken_over, carried: forked.carried, ..spec.clone() }),
        Err(_) => Ok(fresh),
    }
}

fn not_stored(spec: &FlowSpec) -> StoreError {
    let what = format!("it pins pipeline {}, which is not stored", spec.pipeline);
    StoreError::Corrupt { table: "flows", id: spec.id.to_string(), what }
}

/// Makes a flow and carries it on. False when it is there already.
pub(crate) fn create(shell: &Arc<Shell>, spec: FlowSpec, pipeline: Arc<Pipeline>) -> Done<'_, bool> {
    async move {
        let flow = spec.id;
        let mut slots = shell.slots.hint(flow, 0);
        loop {
            let (full, freed) = shell.groups.full();
            let context = Context { now: shell.clock.now(), slots, grace: shell.shape.grace, full };
            let (resident, decision) = begin(spec.clone(), Arc::clone(&pipeline), &context);
            let (claimed, effects) = (slots_in(&decision.claims), decision.effects.clone());
            let capacity = shell.slots.capacity();
            let commit = Commit { flow, create: Some(spec.clone()), expected: 0, decision, slots: capacity };
            match shell.store.commit(commit).await? {
                Committed::Done => {
                    shell.slots.settle(flow, claimed, 0);
                    shell.commits.send_modify(|count| *count += 1);
                    FlowLoop::spawn(shell, flow, Some(resident), effects, None);
                    return Ok(true);
                }
                Committed::Refused(orc_domain::claim::Refusal::Slot) => slots = 0,
                Committed::Refused(orc_domain::claim::Refusal::Group { name, holders }) => {
                    shell.groups.refused(&name, &holders, freed);
                }
                Committed::Stale => return Ok(false),
            }
        }
    }
    .boxed()
}

/// Carries a flow on, effects first that were decided and not delivered, and its children with it.
pub(crate) fn carry_on(shell: &Arc<Shell>, flow: FlowId) -> Done<'_, ()> {
    async move {
        let resident = load(shell, flow).await?.ok_or(DispatcherError::Unknown(flow))?;
        let effects = shell.store.effects_pending(flow).await?;
        if resident.flow().is_finished() {
            // It has nothing left to do but to say so.
            let outlet = crate::delivery::open(shell, flow);
            for effect in effects {
                outlet.send(effect);
            }
            return Ok(());
        }
        let children = resident.children();
        FlowLoop::spawn(shell, flow, None, effects, None);
        for child in children {
            match carry_on(shell, child).await {
                // Its start is among the effects.
                Ok(()) | Err(DispatcherError::Unknown(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
    .boxed()
}

/// Tells a flow something, and waits until it is decided and committed.
pub(crate) fn tell<'a>(shell: &'a Arc<Shell>, flow: FlowId, signed: &'a Signed) -> Done<'a, ()> {
    async move { send(shell, flow, signed.clone()).await.map(|_| ()) }.boxed()
}

/// Sends an input to a flow, carrying it on if it was not, and waits until it is decided and committed.
pub(crate) async fn send(shell: &Arc<Shell>, flow: FlowId, signed: Signed) -> Result<Heard, DispatcherError> {
    let (reply, mut answer) = oneshot::channel();
    if !shell.router.send(flow, What::Input(Box::new(signed.clone()), Some(reply))) {
        let resident = load(shell, flow).await?.ok_or(DispatcherError::Unknown(flow))?;
        if resident.flow().is_finished() {
            return Ok(Heard { changed: false, state: resident.flow().head.state.clone() });
        }
        let _entry = shell.enter().await?;
        let effects = shell.store.effects_pending(flow).await?;
        let (reply, second) = oneshot::channel();
        answer = second;
        FlowLoop::spawn(shell, flow, None, effects, Some(What::Input(Box::new(signed), Some(reply))));
    }
    match answer.await {
        Ok(heard) => Ok(heard),
        // The flow ended before it read the message.
        Err(_) => {
            let resident = load(shell, flow).await?.ok_or(DispatcherError::Unknown(flow))?;
            if resident.flow().is_finished() {
                Ok(Heard { changed: false, state: resident.flow().head.state.clone() })
            } else {
                Err(DispatcherError::Ending)
            }
        }
    }
}
