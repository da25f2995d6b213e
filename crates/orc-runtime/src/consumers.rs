//! Consumers of the event log, each with its own durable cursor. They never change a flow; one that wants to sends an
//! input. A consumer sees every event at least once, so what it does must be safe to repeat.
//!
//! [`CONSUMERS`] is the whole list: what is not in it does not run, and what is in it is printed in the reference.

use std::io::ErrorKind;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use orc_domain::action::WaitEvent;
use orc_domain::event::{Event, Fact};
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_domain::time::Millis;
use orc_ports::store::{Guarded, StoreError};
use orc_ports::worktrees::Freed;

use crate::router::What;
use crate::shell::{Shell, chain};

/// Events read at once.
const PAGE: u32 = 1024;
/// Pause between two looks at the log.
const REST: Millis = Millis::from_millis(500);

/// A row of the table.
pub struct ConsumerRow {
    /// Its name, which is also the name of its cursor.
    pub name: &'static str,
    /// The kinds of events it acts on.
    pub kinds: &'static [&'static str],
    /// What it does.
    pub what: &'static str,
    act: fn(Arc<Shell>, Event) -> BoxFuture<'static, Result<(), String>>,
}

/// All consumers.
pub const CONSUMERS: &[ConsumerRow] = &[
    ConsumerRow {
        name: "temp-files",
        kinds: &["FlowFinished"],
        what: "removes the private files of the flow's steps ($ORC_TEMP, $ORC_OUTPUT)",
        act: remove_temp_files,
    },
    ConsumerRow {
        name: "worktrees",
        kinds: &["FlowFinished"],
        what: "removes the private copies of the flow; unsaved work in one goes to a rescue reference first",
        act: collect_copies,
    },
    ConsumerRow {
        name: "event-waits",
        kinds: &["FlowFinished", "AgentRunCompleted"],
        what: "tells flows whose steps wait for such an event of another flow",
        act: tell_waiting,
    },
    ConsumerRow {
        name: "notifications",
        kinds: &["RequestOpened", "RequestReminded", "StepFinished", "FlowFinished"],
        what: "tells people of requests, incidents and failed flows, as `notifications` of the settings says",
        act: crate::notifications::tell,
    },
];

/// A step that began to wait before this event is found, because its wait was committed before; whether it is meant, its
/// flow decides. Heard twice, the second time finds nobody waiting.
fn tell_waiting(shell: Arc<Shell>, event: Event) -> BoxFuture<'static, Result<(), String>> {
    async move {
        let (kind, outcome) = match &event.body.fact {
            Fact::FlowFinished { outcome, .. } => (WaitEvent::FlowFinished, outcome.word().to_owned()),
            Fact::AgentRunCompleted { outcome, .. } => (WaitEvent::AgentRunCompleted, outcome.word().to_owned()),
            _ => return Ok(()),
        };
        let waiting = shell.store.flows_waiting_for(kind).await.map_err(|error| chain(&error))?;
        if waiting.is_empty() {
            return Ok(());
        }
        let head = shell.reader.flow_head(event.flow).await.map_err(|error| chain(&error))?;
        let Some((spec, _)) = head else { return Ok(()) };
        for flow in waiting {
            let input = Input::Happened {
                event: kind,
                flow: event.flow,
                pipeline: spec.name.clone(),
                at: event.body.at,
                outcome: outcome.clone(),
            };
            shell.wake(flow, What::Input(Box::new(Signed { by: Principal::System, input }), None)).await;
        }
        Ok(())
    }
    .boxed()
}

fn remove_temp_files(shell: Arc<Shell>, event: Event) -> BoxFuture<'static, Result<(), String>> {
    async move {
        let Fact::FlowFinished { .. } = event.body.fact else {
            return Ok(());
        };
        let directory = shell.data.flow_temp(event.flow);
        match tokio::fs::remove_dir_all(&directory).await {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(format!("cannot remove `{}`: {error}", directory.display()))
            }
            _ => Ok(()),
        }
    }
    .boxed()
}

fn collect_copies(shell: Arc<Shell>, event: Event) -> BoxFuture<'static, Result<(), String>> {
    async move {
        let Fact::FlowFinished { .. } = event.body.fact else {
            return Ok(());
        };
        let freed = shell.worktrees.collect(event.flow).await.map_err(|error| chain(&error))?;
        if freed.copies > 0 {
            let Freed { copies, rescued, bytes } = freed;
            tracing::debug!(flow = %event.flow, copies, rescued, bytes, "private copies were removed");
        }
        Ok(())
    }
    .boxed()
}

/// Feeds one consumer until the program ends, and then what is left.
pub(crate) async fn run(shell: Arc<Shell>, row: &'static ConsumerRow) {
    let mut commits = shell.commits.subscribe();
    let ending = shell.tasks.ending();
    loop {
        let last_round = ending.is_cancelled();
        if let Err(error) = catch_up(&shell, row).await
            && !shell.wait_out(&error).await
        {
            return;
        }
        if last_round {
            return;
        }
        tokio::select! {
            changed = commits.changed() => if changed.is_err() { return },
            () = ending.cancelled() => continue,
        }
        // Nobody waits for a consumer, and each look at the log costs the store as much as a commit.
        tokio::select! {
            () = shell.clock.sleep(REST) => {}
            () = ending.cancelled() => {}
        }
    }
}

async fn catch_up(shell: &Arc<Shell>, row: &'static ConsumerRow) -> Result<(), StoreError> {
    loop {
        let cursor = shell.store.consumer_cursor(row.name).await?;
        let events = shell.store.events_after(cursor, PAGE).await?;
        let Some(last) = events.last().map(|event| event.position) else {
            return Ok(());
        };
        for event in events {
            if !row.kinds.contains(&event.body.fact.kind()) {
                continue;
            }
            let position = event.position;
            if let Err(what) = (row.act)(Arc::clone(shell), event).await {
                // One event that cannot be acted on must not stop the others: it is said, and the cursor moves on.
                tracing::warn!(consumer = row.name, position, what, "an event could not be acted on");
            }
        }
        if shell.store.consumer_advance(row.name, cursor, last).await? != Guarded::Updated {
            return Ok(());
        }
    }
}
