//! Carries the effects of one flow out, in order. Starts are claimed and started together as they come, since nothing
//! orders them among themselves, and later ones do not wait for them; a stop waits for the starts before it.
//!
//! An effect leaves the outbox when it is done. If the program dies in between it is delivered again: a start that was
//! claimed is not started again, a stop of a run that is over does nothing.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use orc_domain::effect::{Command, Effect, EffectKind};
use orc_domain::graph::MAX_OUTPUT_BYTES;
use orc_domain::ids::{EffectId, FlowId, RunId};
use orc_domain::input::Input;
use orc_ports::executor::{Launch, Limits};
use orc_ports::store::Guarded;
use tokio::sync::mpsc;

use crate::endings::ending_of_start;
use crate::shell::Shell;

/// A run to be started.
struct Start {
    effect: EffectId,
    run: RunId,
    command: Command,
}

pub(crate) async fn run(shell: Arc<Shell>, flow: FlowId, mut queue: mpsc::UnboundedReceiver<Effect>) {
    let mut under_way = FuturesUnordered::new();
    loop {
        let first = tokio::select! {
            effect = queue.recv() => match effect {
                Some(effect) => effect,
                None => break,
            },
            Some(()) = under_way.next() => continue,
        };
        let mut starts = Vec::new();
        let mut next = Some(first);
        while let Some(Effect { id: effect, kind }) = next {
            match kind {
                EffectKind::StartRun { run, command } => starts.push(Start { effect, run, command }),
                EffectKind::StopRun { run, grace, .. } => {
                    under_way.push(start(&shell, flow, std::mem::take(&mut starts)));
                    while under_way.next().await.is_some() {}
                    shell.executor.stop(run, grace);
                    done(&shell, effect).await;
                }
            }
            next = queue.try_recv().ok();
        }
        under_way.push(start(&shell, flow, starts));
    }
    while under_way.next().await.is_some() {}
}

async fn start(shell: &Shell, flow: FlowId, starts: Vec<Start>) {
    let Some(claimed) = claim(shell, &starts).await else { return };
    let mine = starts.into_iter().zip(claimed).filter(|(_, claimed)| *claimed == Guarded::Updated);
    join_all(mine.map(|(Start { run, command, .. }, _)| start_one(shell, flow, run, command))).await;
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

async fn start_one(shell: &Shell, flow: FlowId, run: RunId, command: Command) {
    let launch = launch_of(shell, flow, run, command);
    shell.router.expect_report(run, flow);
    match shell.executor.start(launch).await {
        Ok(process) => shell.router.started(run, Input::RunStarted { run, process }),
        Err(error) => shell.router.not_started(run, Input::RunEnded { run, ending: ending_of_start(&error) }),
    }
}

fn launch_of(shell: &Shell, flow: FlowId, run: RunId, command: Command) -> Launch {
    let mut env = shell.shape.host_env.clone();
    env.extend(command.env);
    Launch {
        run,
        argv: command.argv,
        directory: command.directory.into(),
        env,
        log: shell.data.log(flow, run),
        output: shell.data.output(flow, run),
        temp: shell.data.step_temp(flow, &command.path),
        limits: Limits { log_bytes: shell.shape.log_bytes, output_bytes: MAX_OUTPUT_BYTES as u64 },
        stdin: None,
        tap: None,
    }
}

async fn done(shell: &Shell, effect: EffectId) {
    while let Err(error) = shell.store.effect_delivered(effect).await {
        if !shell.wait_out(&error).await {
            return;
        }
    }
}
