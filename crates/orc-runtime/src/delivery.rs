//! Carries the effects of one flow out, in order. Starts are claimed and started together as they come, since nothing
//! orders them among themselves, and later ones do not wait for them; a stop waits for the starts before it.
//!
//! An effect leaves the outbox when it is done. If the program dies in between it is delivered again: a start that was
//! claimed is not started again, a stop of a run that is over does nothing.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use orc_domain::effect::{AgentCall, Command, Effect, EffectKind};
use orc_domain::graph::MAX_OUTPUT_BYTES;
use orc_domain::ids::{EffectId, FlowId, RunId};
use orc_domain::input::{Ending, Input};
use orc_domain::path::StepPath;
use orc_domain::permission::KeptRule;
use orc_domain::time::Millis;
use orc_domain::tree::PrivateCopy;
use orc_domain::value::Value;
use orc_ports::executor::{Launch, Limits};
use orc_ports::store::Guarded;
use orc_ports::worktrees::Conversation;
use tokio::sync::{mpsc, watch};

use crate::agents::{self, Work};
use crate::children;
use crate::dispatcher::DispatcherError;
use crate::ears;
use crate::endings::ending_of_start;
use crate::places::{self, Settled, Who};
use crate::shell::Shell;

/// Time between two attempts to keep a rule.
const KEEP_AGAIN: Millis = Millis::from_secs(5);

/// A run to be started.
struct Start {
    effect: EffectId,
    run: RunId,
    what: StartWhat,
}

enum StartWhat {
    Command(Command),
    Agent(Box<AgentCall>),
    Join(StepPath, PrivateCopy),
}

/// Where a flow puts its effects.
pub(crate) struct Outlet {
    // Unbounded: an effect is the answer to a decision, and a flow decides only as fast as its effects come back.
    sender: mpsc::UnboundedSender<Effect>,
    under_way: Arc<watch::Sender<usize>>,
}

impl Outlet {
    /// Hands an effect over.
    pub(crate) fn send(&self, effect: Effect) {
        self.under_way.send_modify(|count| *count += 1);
        // The receiver lives as long as the delivery, which ends after its flow.
        let _ = self.sender.send(effect);
    }

    /// Whether all of them are delivered.
    pub(crate) fn is_drained(&self) -> bool {
        *self.under_way.borrow() == 0
    }

    /// Waits until all that are under way are delivered; for ever when none is.
    pub(crate) async fn drained(&self) {
        if self.is_drained() {
            std::future::pending::<()>().await;
        }
        // The sender lives in this outlet.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Begins to deliver for a flow. Ends when the outlet is dropped and everything is delivered.
pub(crate) fn open(shell: &Arc<Shell>, flow: FlowId) -> Outlet {
    let (sender, queue) = mpsc::unbounded_channel();
    let under_way = Arc::new(watch::Sender::new(0));
    shell.tasks.spawn("delivery", run(Arc::clone(shell), flow, queue, Arc::clone(&under_way)));
    Outlet { sender, under_way }
}

async fn run(
    shell: Arc<Shell>,
    flow: FlowId,
    mut queue: mpsc::UnboundedReceiver<Effect>,
    open: Arc<watch::Sender<usize>>,
) {
    let mut under_way = FuturesUnordered::new();
    let delivered = |count: usize| {
        if count > 0 {
            open.send_modify(|open| *open -= count);
        }
    };
    loop {
        let first = tokio::select! {
            effect = queue.recv() => match effect {
                Some(effect) => effect,
                None => break,
            },
            Some(count) = under_way.next() => {
                delivered(count);
                continue;
            }
        };
        let mut starts = Vec::new();
        let mut next = Some(first);
        while let Some(Effect { id: effect, kind }) = next {
            match kind {
                EffectKind::StartRun { run, command } => {
                    starts.push(Start { effect, run, what: StartWhat::Command(command) });
                }
                EffectKind::StartAgent { run, call } => {
                    starts.push(Start { effect, run, what: StartWhat::Agent(call) });
                }
                EffectKind::Join { run, path, copy } => {
                    starts.push(Start { effect, run, what: StartWhat::Join(path, copy) });
                }
                // Whatever is not a start waits for the starts before it.
                other => {
                    under_way.push(start(&shell, flow, std::mem::take(&mut starts)));
                    while let Some(count) = under_way.next().await {
                        delivered(count);
                    }
                    carry_out(&shell, effect, other).await;
                    delivered(1);
                }
            }
            next = queue.try_recv().ok();
        }
        under_way.push(start(&shell, flow, starts));
    }
    while let Some(count) = under_way.next().await {
        delivered(count);
    }
}

/// Delivers an effect that is no start of a run.
async fn carry_out(shell: &Arc<Shell>, effect: EffectId, kind: EffectKind) {
    match kind {
        EffectKind::StopRun { run, reason, grace } => {
            let why = ears::word_of(reason);
            if let Some(ear) = shell.router.ear(run) {
                ear.stopped(why);
            }
            shell.stop(run, why, grace);
        }
        EffectKind::WriteRun { run, message } => {
            // One that is over reads nothing: whoever wrote is told by what it did.
            shell.harness.write(run, vec![agents::as_read(message)]);
        }
        EffectKind::StartFlow { spec } => {
            if !until_done(shell, || children::start(shell, &spec)).await {
                return;
            }
        }
        EffectKind::Tell { flow, signed } => {
            if !until_done(shell, || children::tell(shell, flow, &signed)).await {
                return;
            }
        }
        EffectKind::KeepRule { rule } => {
            if !keep(shell, &rule).await {
                return;
            }
        }
        // Starts are delivered together.
        EffectKind::StartRun { .. } | EffectKind::StartAgent { .. } | EffectKind::Join { .. } => return,
    }
    done(shell, effect).await;
}

/// Keeps a rule, until that works. False when the program is ending.
async fn keep(shell: &Arc<Shell>, rule: &KeptRule) -> bool {
    while let Err(error) = shell.rulebook.keep(rule) {
        tracing::error!(%error, rule = rule.rule, "a rule that was answered for ever cannot be kept; trying again");
        tokio::select! {
            () = shell.clock.sleep(KEEP_AGAIN) => {}
            () = shell.tasks.ending().cancelled_owned() => return false,
        }
    }
    true
}

/// Tries until the store takes it. False when the program is ending: the effect stays in the outbox.
async fn until_done<'a>(
    shell: &'a Arc<Shell>,
    mut attempt: impl FnMut() -> BoxFuture<'a, Result<(), DispatcherError>>,
) -> bool {
    loop {
        match attempt().await {
            Ok(()) => return true,
            Err(DispatcherError::Store(error)) => {
                if !shell.wait_out(&error).await {
                    return false;
                }
            }
            // Nobody is there to hear it any more, and nobody will be.
            Err(DispatcherError::Unknown(flow)) => {
                tracing::warn!(%flow, "a flow that should have been told something is not there");
                return true;
            }
            Err(
                DispatcherError::Reap(_)
                | DispatcherError::Ending
                | DispatcherError::Answer(_)
                | DispatcherError::MayNot(_)
                | DispatcherError::NoRequest(_),
            ) => return false,
        }
    }
}

/// Claims and starts; gives how many effects are delivered.
async fn start(shell: &Arc<Shell>, flow: FlowId, starts: Vec<Start>) -> usize {
    let count = starts.len();
    let Some(claimed) = claim(shell, &starts).await else { return count };
    let mine = starts.into_iter().zip(claimed).filter(|(_, claimed)| *claimed == Guarded::Updated);
    join_all(mine.map(|(Start { run, what, .. }, _)| start_one(shell, flow, run, what))).await;
    count
}

/// What became of each claim; `None` when the program is ending.
async fn claim(shell: &Shell, starts: &[Start]) -> Option<Vec<Guarded>> {
    if starts.is_empty() {
        return Some(Vec::new());
    }
    loop {
        let wanted = starts.iter().map(|start| (start.run, start.effect)).collect();
        match shell.store.runs_claim(wanted, shell.instance).await {
            Ok(claimed) => return Some(claimed),
            Err(error) => {
                if !shell.wait_out(&error).await {
                    return None;
                }
            }
        }
    }
}

async fn start_one(shell: &Arc<Shell>, flow: FlowId, run: RunId, what: StartWhat) {
    let started = match what {
        StartWhat::Command(command) => {
            launch_of(shell, flow, run, command).await.map(|launch| (Work::Program(Box::new(launch)), None))
        }
        StartWhat::Agent(call) => agents::launch(shell, flow, run, *call).await.map(|(work, ear)| (work, Some(ear))),
        StartWhat::Join(path, copy) => return join(shell, flow, run, (path, copy)).await,
    };
    let (work, ear) = match started {
        Ok(started) => started,
        Err(ended) => {
            shell.router.expect_report(run, flow, None);
            return shell.router.not_started(run, ended);
        }
    };
    shell.router.expect_report(run, flow, ear.clone());
    let started = match work {
        Work::Program(launch) => shell.executor.start(*launch).await.map_err(|error| {
            let ending = ending_of_start(&error);
            Input::RunEnded { run, ending, told: None }
        }),
        Work::BuiltIn(begin) => shell.harness.start(*begin).await.map_err(|error| agents::not_begun(run, &error)),
    };
    match started {
        Ok(process) => {
            if let Some(ear) = ear {
                shell.tasks.spawn("ear", ear.watch(Arc::clone(shell)));
            }
            shell.router.started(run, Input::RunStarted { run, process });
        }
        Err(ended) => shell.router.not_started(run, ended),
    }
}

/// Merges what the elements of a fan-out made, without a process.
async fn join(shell: &Arc<Shell>, flow: FlowId, run: RunId, (path, copy): (StepPath, PrivateCopy)) {
    let merged = shell.worktrees.join(Conversation { flow, path }, copy).await;
    let at = shell.clock.now();
    let ending = match merged {
        Ok(tree) => {
            let artifacts = std::collections::BTreeMap::new();
            shell.router.deliver(flow, at, Input::RunKept { run, artifacts, tree: Some(tree) });
            Ending::Delivered { output: Value::Map(std::collections::BTreeMap::new()) }
        }
        Err(error) => places::not_prepared(&error),
    };
    shell.router.deliver(flow, at, Input::RunEnded { run, ending, told: None });
}

async fn launch_of(shell: &Shell, flow: FlowId, run: RunId, command: Command) -> Result<Launch, Input> {
    let Command { argv, place, env, path, attempt } = command;
    let who = Who { flow, lies: flow, run, path: &path, attempt, agent: None, told: Vec::new() };
    let settled = places::settle(shell, &who, place, env).await;
    let settled = settled.map_err(|ending| Input::RunEnded { run, ending, told: None })?;
    let Settled { directory, confinement, env, .. } = settled;
    Ok(Launch {
        run,
        argv,
        directory,
        confinement,
        secrets: shell.shape.boxes.redacted(),
        env,
        log: shell.data.log(flow, run),
        output: shell.data.output(flow, run),
        temp: shell.data.step_temp(flow, &path),
        limits: Limits { log_bytes: shell.shape.log_bytes, output_bytes: MAX_OUTPUT_BYTES as u64 },
        stdin: None,
        tap: None,
        host: None,
    })
}

async fn done(shell: &Shell, effect: EffectId) {
    while let Err(error) = shell.store.effect_delivered(effect).await {
        if !shell.wait_out(&error).await {
            return;
        }
    }
}
