//! The owner of one flow: hears its inputs in order of arrival, has them decided, commits, hands the effects over.
//!
//! Inputs that have arrived together are decided one after the other and committed together. A decision whose commit does
//! not happen is thrown away with the flow it made; the old flow is loaded again and the inputs are heard again.

use std::sync::Arc;

use orc_domain::effect::{Decision, Effect};
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_domain::time::{Millis, Timestamp};
use orc_engine::{Context, Resident, decide};
use orc_ports::store::{Commit, Committed, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::delivery;
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
    effects: mpsc::UnboundedSender<Effect>,
    /// `None` after a commit that did not happen: the rows are the truth then.
    resident: Option<Resident>,
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
        // Unbounded: an effect is the answer to a decision, and a flow decides only as fast as its effects come back.
        let (sender, queue) = mpsc::unbounded_channel();
        for effect in effects {
            // The receiver lives as long as the delivery below, which ends after this loop.
            let _ = sender.send(effect);
        }
        shell.tasks.spawn("delivery", delivery::run(Arc::clone(shell), id, queue));
        let this = Self { shell: Arc::clone(shell), id, inbox, effects: sender, resident };
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
            let alarm = self.time_to_alarm();
            tokio::select! {
                biased;
                () = ending.cancelled() => break,
                message = self.inbox.recv() => match message {
                    Some(message) => batch.push(message),
                    None => break,
                },
                () = self.shell.clock.sleep(alarm) => {
                    batch.push(Message { at: self.shell.clock.now(), what: What::Look });
                }
            }
            self.gather(&mut batch).await;
        }
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
        let (inputs, replies) = unpack(batch);
        let mut slots_refused = false;
        let changed = loop {
            let resident = self.take_resident().await?;
            let expected = resident.flow().head.version;
            let (next, decision) = self.decide_all(resident, &inputs, slots_refused);
            if decision.is_empty() {
                self.resident = Some(next);
                break false;
            }
            let (claimed, released) = (decision.claims.len(), decision.releases.len());
            let effects = decision.effects.clone();
            let slots = self.shell.slots.capacity();
            let commit = Commit { flow: self.id, create: None, expected, decision, slots };
            match self.shell.store.commit(commit).await {
                Ok(Committed::Done) => {
                    self.shell.slots.settle(self.id, claimed, released);
                    self.resident = Some(next);
                    for effect in effects {
                        let _ = self.effects.send(effect);
                    }
                    self.shell.all_is_well();
                    self.shell.commits.send_modify(|count| *count += 1);
                    break true;
                }
                Ok(Committed::Stale) => {}
                Ok(Committed::Refused(_)) => slots_refused = true,
                Err(error) => self.wait_out(&error).await?,
            }
        };
        let wants = self.resident.as_ref().is_some_and(Resident::wants_slot);
        self.shell.slots.wait(self.id, wants);
        self.shell.offer_slots();
        self.reply(replies, changed);
        Ok(())
    }

    /// Decides the inputs one after the other, each on the flow that the one before left and as of the time it arrived.
    fn decide_all(
        &self,
        resident: Resident,
        inputs: &[(Timestamp, Signed)],
        slots_refused: bool,
    ) -> (Resident, Decision) {
        let ends = |heard: &&(_, Signed)| matches!(heard.1.input, Input::RunEnded { .. } | Input::RunLost { .. });
        let released = u32::try_from(inputs.iter().filter(ends).count()).unwrap_or(u32::MAX);
        let hint = if slots_refused { 0 } else { self.shell.slots.hint(self.id, released) };
        let grace = self.shell.shape.grace;
        let mut all = (resident, Decision::default());
        for (at, signed) in inputs {
            let claimed = u32::try_from(all.1.claims.len()).unwrap_or(u32::MAX);
            let context = Context { now: *at, slots: hint.saturating_sub(claimed), grace };
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
        self.shell.slots.wait(self.id, false);
        self.shell.router.close(self.id);
        self.shell.offer_slots();
        self.shell.live.send_modify(|live| *live -= 1);
    }
}

fn unpack(batch: Vec<Message>) -> (Vec<(Timestamp, Signed)>, Vec<oneshot::Sender<Heard>>) {
    let mut inputs = Vec::with_capacity(batch.len());
    let mut replies = Vec::new();
    let mut look = None;
    for Message { at, what } in batch {
        match what {
            What::Input(signed, reply) => {
                inputs.push((at, signed));
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
