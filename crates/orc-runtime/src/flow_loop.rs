//! The owner of one flow: hears its inputs in order of arrival, has them decided, commits, hands the effects over.
//!
//! Inputs that have arrived together are decided one after the other and committed together. A decision whose commit does
//! not happen is thrown away with the flow it made; the old flow is loaded again and the inputs are heard again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orc_domain::claim::{Claim, Holder, Refusal};
use orc_domain::effect::{Decision, Effect};
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_domain::time::{Millis, Timestamp};
use orc_engine::{Context, Resident, decide};
use orc_ports::store::{Commit, Committed, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::artifacts::{self, Ended};
use crate::delivery::{self, Outlet};
use crate::dispatcher::Heard;
use crate::router::{Message, What};
use crate::shell::Shell;

/// Inputs that are committed together at most; more than that only makes the wait for the first longer.
const BATCH: usize = 64;
/// How long news that nobody waits for may be kept to be committed with other news.
const PATIENCE: Millis = Millis::from_millis(5);
/// Longest sleep: a wall clock that was set forward is noticed within this time.
const LONGEST_SLEEP: Millis = Millis::from_secs(60);

pub(crate) struct FlowLoop {
    shell: Arc<Shell>,
    id: FlowId,
    inbox: mpsc::UnboundedReceiver<Message>,
    effects: Outlet,
    /// `None` after a commit that did not happen: the rows are the truth then.
    resident: Option<Resident>,
    /// It left memory: whatever the shell knows of the flow is no longer this loop's.
    is_parked: bool,
}

/// The flow cannot be carried on here.
enum Stopped {
    /// The program is ending, or can no longer do anything.
    Ending,
    /// Its rows are gone.
    Missing,
}

impl FlowLoop {
    /// Begins to carry a flow on. `effects`: what its last decision wants delivered. `first` is heard before anything is
    /// started: the cancel of a flow that a crash left must not start again what it ends. A flow that is carried on
    /// already only hears `first`. A flow that another loop may have changed since it was read comes without `resident`:
    /// it is loaded once nobody else carries it on.
    pub(crate) fn spawn(
        shell: &Arc<Shell>,
        id: FlowId,
        resident: Option<Resident>,
        effects: Vec<Effect>,
        first: Option<What>,
    ) {
        let Some(inbox) = shell.router.open(id) else {
            if let Some(first) = first {
                shell.router.send(id, first);
            }
            return;
        };
        shell.live.send_modify(|live| *live += 1);
        if shell.parked.unpark(id) {
            shell.live.send_modify(|live| *live -= 1);
        }
        let outlet = delivery::open(shell, id);
        for effect in effects {
            outlet.send(effect);
        }
        let this = Self { shell: Arc::clone(shell), id, inbox, effects: outlet, resident, is_parked: false };
        let at = shell.clock.now();
        let batch = first.into_iter().chain([What::Look]).map(|what| Message { at, what }).collect();
        shell.tasks.spawn("flow", this.run(batch));
    }

    async fn run(mut self, mut batch: Vec<Message>) {
        let ending = self.shell.tasks.ending();
        loop {
            if self.hear(std::mem::take(&mut batch)).await.is_err() {
                break;
            }
            if self.resident.as_ref().is_some_and(|resident| resident.flow().is_finished()) {
                break;
            }
            match self.park() {
                Some(message) => batch.push(message),
                None if self.is_parked => break,
                None => {
                    let alarm = self.time_to_alarm();
                    tokio::select! {
                        biased;
                        () = ending.cancelled() => break,
                        message = self.inbox.recv() => match message {
                            Some(message) => batch.push(message),
                            None => break,
                        },
                        () = self.effects.drained() => continue,
                        () = self.shell.clock.sleep(alarm) => {
                            self.shell.groups.forget(self.id);
                            batch.push(Message { at: self.shell.clock.now(), what: What::Look });
                        }
                    }
                }
            }
            self.gather(&mut batch).await;
        }
    }

    /// Leaves memory if the flow only waits and nothing of it is under way. Gives what arrived in between.
    fn park(&mut self) -> Option<Message> {
        let resident = self.resident.as_ref().filter(|resident| resident.only_waits())?;
        let alarm = resident.wake_at().filter(|_| self.effects.is_drained())?;
        // First, so that whoever finds no inbox finds the alarm.
        self.shell.live.send_modify(|live| *live += 1);
        self.shell.parked.park(self.id, alarm);
        let message = self.shell.router.close_if_empty(self.id, &mut self.inbox);
        self.is_parked = message.is_none();
        if !self.is_parked && self.shell.parked.unpark(self.id) {
            self.shell.live.send_modify(|live| *live -= 1);
        }
        message
    }

    /// Adds what has arrived while the last commit was under way, and waits a moment for more where that costs nobody
    /// anything: that a process began frees nothing, so alone it is not worth a commit, and a short step has ended before
    /// the patience has. Nothing else waits: a slot that is free and not known to be is a part of the machine unused.
    async fn gather(&mut self, batch: &mut Vec<Message>) {
        let mut patience = self.shell.clock.sleep(PATIENCE);
        while batch.len() < BATCH && batch.iter().all(Message::is_patient) {
            tokio::select! {
                biased;
                message = self.inbox.recv() => match message {
                    Some(message) => batch.push(message),
                    None => return,
                },
                () = &mut patience => break,
            }
        }
        while batch.len() < BATCH
            && let Ok(message) = self.inbox.try_recv()
        {
            batch.push(message);
        }
    }

    fn time_to_alarm(&self) -> Millis {
        let wake_at = self.resident.as_ref().and_then(Resident::wake_at);
        wake_at.map_or(LONGEST_SLEEP, |at| at.since(self.shell.clock.now()).min(LONGEST_SLEEP))
    }

    /// Hears a batch, to the end: it is committed, or the program is ending.
    async fn hear(&mut self, batch: Vec<Message>) -> Result<(), Stopped> {
        let (mut inputs, replies) = unpack(batch);
        let resident = self.take_resident().await?;
        inputs = inputs.into_iter().filter_map(|(at, signed)| self.keep_first(&resident, at, signed)).collect();
        self.resident = Some(resident);
        if inputs.is_empty() {
            return Ok(());
        }
        let mut slots_refused = false;
        let changed = loop {
            let resident = self.take_resident().await?;
            let expected = resident.flow().head.version;
            let (full, freed) = self.shell.groups.full();
            let (next, decision) = self.decide_all(resident, &inputs, (slots_refused, full));
            if decision.is_empty() {
                self.resident = Some(next);
                break false;
            }
            let (claimed, released) = (slots_in(&decision.claims), slots_in(&decision.releases));
            let (effects, releases) = (decision.effects.clone(), decision.releases.clone());
            let slots = self.shell.slots.capacity();
            let commit = Commit { flow: self.id, create: None, expected, decision, slots };
            match self.shell.store.commit(commit).await {
                Ok(Committed::Done) => {
                    self.shell.slots.settle(self.id, claimed, released);
                    self.resident = Some(next);
                    for effect in effects {
                        self.effects.send(effect);
                    }
                    for flow in self.shell.groups.settle(&releases) {
                        self.shell.wake(flow, What::Look).await;
                    }
                    self.shell.all_is_well();
                    self.shell.commits.send_modify(|count| *count += 1);
                    break true;
                }
                Ok(Committed::Stale) => {}
                Ok(Committed::Refused(Refusal::Slot)) => slots_refused = true,
                Ok(Committed::Refused(Refusal::Group { name, holders })) => {
                    self.shell.groups.refused(&name, &holders, freed);
                }
                Err(error) => self.wait_out(&error).await?,
            }
        };
        if let Some(resident) = &self.resident {
            self.shell.slots.wait(self.id, resident.wants_slot(), self.shell.clock.now());
            self.shell.groups.wait(self.id, resident.wants_groups());
        }
        self.shell.offer_slots();
        self.reply(replies, changed);
        Ok(())
    }

    /// Sets the end of a run aside until what it left is kept; it comes again then, after what was kept.
    fn keep_first(&self, resident: &Resident, at: Timestamp, signed: Signed) -> Option<(Timestamp, Signed)> {
        let Input::RunEnded { run, .. } = &signed.input else { return Some((at, signed)) };
        let Some(left) = self.shell.places.leave(*run) else { return Some((at, signed)) };
        let wanted = resident.flow().runs.get(run).map(|record| record.artifacts.clone()).unwrap_or_default();
        if wanted.is_empty() && !left.has_copy() && !left.has_door() {
            return Some((at, signed));
        }
        let Input::RunEnded { run, ending, told } = signed.input else { return None };
        let ended = Ended { flow: self.id, run, at, ending, told };
        let shell = Arc::clone(&self.shell);
        self.shell.tasks.spawn("keep", artifacts::keep_and_tell(shell, wanted, left, ended));
        None
    }

    /// Decides the inputs one after the other, each on the flow that the one before left and as of the time it arrived.
    fn decide_all(
        &self,
        resident: Resident,
        inputs: &[(Timestamp, Signed)],
        (slots_refused, full): (bool, BTreeMap<String, Vec<Holder>>),
    ) -> (Resident, Decision) {
        let ends = |heard: &&(_, Signed)| matches!(heard.1.input, Input::RunEnded { .. } | Input::RunLost { .. });
        let released = u32::try_from(inputs.iter().filter(ends).count()).unwrap_or(u32::MAX);
        let hint = if slots_refused { 0 } else { self.shell.slots.hint(self.id, released) };
        let grace = self.shell.shape.grace;
        let mut all = (resident, Decision::default());
        let mut context = Context { now: self.shell.clock.now(), slots: hint, grace, full };
        for (at, signed) in inputs {
            let claimed = u32::try_from(slots_in(&all.1.claims)).unwrap_or(u32::MAX);
            context.now = *at;
            context.slots = hint.saturating_sub(claimed);
            let (next, decision) = decide(all.0, signed, &context);
            all = (next, all.1.then(decision));
        }
        all
    }

    async fn take_resident(&mut self) -> Result<Resident, Stopped> {
        loop {
            if let Some(resident) = self.resident.take() {
                return Ok(resident);
            }
            match load(&self.shell, self.id).await {
                Ok(found) => self.resident = Some(found.ok_or(Stopped::Missing)?),
                Err(error) => self.wait_out(&error).await?,
            }
        }
    }

    async fn wait_out(&self, error: &StoreError) -> Result<(), Stopped> {
        if self.shell.wait_out(error).await { Ok(()) } else { Err(Stopped::Ending) }
    }

    fn reply(&self, replies: Vec<oneshot::Sender<Heard>>, changed: bool) {
        let Some(resident) = &self.resident else { return };
        for reply in replies {
            // Whoever asked may have gone.
            let _ = reply.send(Heard { changed, state: resident.flow().head.state.clone() });
        }
    }
}

impl Drop for FlowLoop {
    /// Also after a panic: whoever waits for the flow or for its slots must not wait for ever.
    fn drop(&mut self) {
        if !self.is_parked {
            self.shell.slots.wait(self.id, None, self.shell.clock.now());
            self.shell.groups.wait(self.id, BTreeSet::new());
            self.shell.router.close(self.id);
        }
        self.shell.offer_slots();
        self.shell.live.send_modify(|live| *live -= 1);
    }
}

/// Slots among claims.
pub(crate) fn slots_in(claims: &[Claim]) -> usize {
    claims.iter().filter(|claim| matches!(claim, Claim::Slot { .. })).count()
}

fn unpack(batch: Vec<Message>) -> (Vec<(Timestamp, Signed)>, Vec<oneshot::Sender<Heard>>) {
    let mut inputs = Vec::with_capacity(batch.len());
    let mut replies = Vec::new();
    let mut look = None;
    for Message { at, what } in batch {
        match what {
            What::Input(signed, reply) => {
                inputs.push((at, *signed));
                replies.extend(reply);
            }
            What::Look => look = Some(at),
        }
    }
    if let Some(at) = look {
        inputs.push((at, Signed { by: Principal::System, input: Input::Alarm }));
    }
    (inputs, replies)
}

/// A flow with its definition, from the rows.
pub(crate) async fn load(shell: &Shell, id: FlowId) -> Result<Option<Resident>, StoreError> {
    Ok(load_with_claims(shell, id).await?.map(|(resident, _)| resident))
}

/// The same, with who claimed which of its live runs.
pub(crate) async fn load_with_claims(shell: &Shell, id: FlowId) -> Result<Option<(Resident, Claims)>, StoreError> {
    let Some(loaded) = shell.store.flow_load(id).await? else { return Ok(None) };
    let hash = loaded.flow.spec.pipeline.clone();
    let corrupt = || StoreError::Corrupt {
        table: "flows",
        id: id.to_string(),
        what: format!("it pins pipeline {hash}, which is not stored"),
    };
    let pipeline = shell.store.pipeline_get(hash.clone()).await?.ok_or_else(corrupt)?;
    Ok(Some((Resident::new(loaded.flow, pipeline), loaded.claimed)))
}

/// Runs that were claimed, and by which instance.
pub(crate) type Claims = Vec<(RunId, InstanceId)>;
