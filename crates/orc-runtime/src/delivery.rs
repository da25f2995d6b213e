//! Carries the effects of one flow out, in order. Starts that follow each other go out together, since nothing orders
//! them among themselves; a stop waits for the starts before it.
//!
//! An effect leaves the outbox when it is done. If the program dies in between it is delivered again: a start that was
//! claimed is not started again, a stop of a run that is over does nothing.

use std::sync::Arc;

use futures_util::future::join_all;
use orc_domain::effect::{Command, Effect, EffectKind};
use orc_domain::graph::MAX_OUTPUT_BYTES;
use orc_domain::ids::{EffectId, FlowId, RunId};
use orc_domain::input::Input;
use orc_ports::executor::{Launch, Limits};
use orc_ports::store::Guarded;
use tokio::sync::mpsc;

use crate::endings::ending_of_start;
use crate::shell::Shell;

pub(crate) async fn run(shell: Arc<Shell>, flow: FlowId, mut queue: mpsc::UnboundedReceiver<Effect>) {
    while let Some(first) = queue.recv().await {
        let mut batch = vec![first];
        while let Ok(effect) = queue.try_recv() {
            batch.push(effect);
        }
        let mut starts = Vec::new();
        for effect in batch {
            match effect.kind {
                EffectKind::StartRun { run, command } => starts.push(start(&shell, flow, effect.id, run, command)),
                EffectKind::StopRun { run, grace, .. } => {
                    join_all(starts.drain(..)).await;
                    shell.executor.stop(run, grace);
                    done(&shell, effect.id).await;
                }
            }
        }
        join_all(starts).await;
    }
}

async fn start(shell: &Shell, flow: FlowId, effect: EffectId, run: RunId, command: Command) {
    let claimed = loop {
        match shell.store.run_claim(run, effect, shell.instance).await {
            Ok(claimed) => break claimed,
            Err(error) => {
                if !shell.wait_out(&error).await {
                    return;
                }
            }
        }
    };
    if claimed != Guarded::Updated {
        return;
    }
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
