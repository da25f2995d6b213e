//! Private copies of flows that are over, which nobody removed: the consumer that does was killed, or failed. With them go
//! private files of flows that there never were, which somebody who only looked left when he was killed.
//!
//! First it is asked what is there, then what is known of each flow: a flow is written down before it has a copy, and one
//! that is over stays so. A flow that begins meanwhile is therefore never among those whose copies go.

use std::collections::BTreeSet;
use std::sync::Arc;

use orc_domain::flow::FlowState;
use orc_domain::ids::FlowId;
use orc_ports::reader::Reader;
use orc_ports::store::StoreError;
use orc_ports::worktrees::Freed;
use tokio_util::sync::CancellationToken;

use crate::retention::of_flows;
use crate::shell::{Shell, chain};

/// Which of these flows need no copies any more: they are over, or nobody knows them.
async fn over(reader: &dyn Reader, flows: BTreeSet<FlowId>) -> Result<BTreeSet<FlowId>, StoreError> {
    let mut over = BTreeSet::new();
    for flow in flows {
        match reader.flow_head(flow).await? {
            Some((_, head)) if !matches!(head.state, FlowState::Finished { .. }) => {}
            Some(_) | None => drop(over.insert(flow)),
        }
    }
    Ok(over)
}

/// Removes them once, in the background.
pub(crate) async fn run(shell: Arc<Shell>) {
    remove(&shell, &shell.tasks.ending()).await;
    if let Err(error) = remove_files(&shell).await {
        tracing::warn!(error = chain(&error), "private files of flows that there never were stay");
    }
}

/// A flow that there is was written down before it had files.
async fn remove_files(shell: &Shell) -> Result<(), StoreError> {
    for (flow, directory) in of_flows(&shell.data.temp()).await {
        if shell.reader.flow_head(flow).await?.is_some() {
            continue;
        }
        if let Err(error) = tokio::fs::remove_dir_all(&directory).await {
            tracing::warn!(%flow, %error, "private files of a flow that there never was stay");
        }
    }
    Ok(())
}

/// Removes them, until `stop` says so. Costs a look into a directory where there are none.
pub(crate) async fn remove(shell: &Shell, stop: &CancellationToken) {
    let owners = match shell.worktrees.owners().await {
        Ok(owners) => owners,
        // Whoever wants a copy hears why there is none.
        Err(error) => return tracing::debug!(error = chain(&error), "private copies cannot be looked at"),
    };
    for path in owners.unknown {
        tracing::warn!(path = %path.display(), "it lies where private copies do and belongs to none; it stays");
    }
    let over = match over(shell.reader.as_ref(), owners.flows).await {
        Ok(over) => over,
        Err(error) => return tracing::warn!(error = chain(&error), "copies of flows that are over stay"),
    };
    for flow in over {
        if stop.is_cancelled() {
            return;
        }
        match shell.worktrees.collect(flow).await {
            Ok(Freed { copies, rescued, bytes }) => {
                tracing::debug!(%flow, copies, rescued, bytes, "private copies that were left are removed");
            }
            Err(error) => tracing::warn!(%flow, error = chain(&error), "copies of a flow that is over stay"),
        }
    }
}
