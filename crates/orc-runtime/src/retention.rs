//! How long what is over is kept: logs, rows and events that are older than somebody asked for are removed.
//!
//! A holder looks once when it begins and every hour. Each removal is a step of its own and safe to repeat, so one that
//! ends in the middle leaves nothing half done: the logs of a flow go before its rows, because rows lead to logs. Never
//! removed: a flow that is not over, one that such a flow was made from by `retry`, and an event that a consumer has not
//! read. Definitions stay: a flow that is being started may refer to one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

use orc_domain::flow::{FlowHead, FlowSpec, FlowState};
use orc_domain::ids::FlowId;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::reader::{FlowFilter, Reader};
use orc_ports::store::{Store, StoreError};

use crate::consumers::CONSUMERS;
use crate::data_dir::DataDir;
use crate::shell::Shell;

/// Time between two looks of a holder.
const PAUSE: Millis = Millis::from_secs(3600);
/// Rows that are read at once.
const PAGE: u32 = 500;
/// Events that are removed at once: others write between.
const EVENTS: u64 = 5_000;

/// How long one kind of thing is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Counted from the end of its flow.
    pub age: Millis,
    /// Only what belongs to flows that work in this directory; `None` for all.
    pub only: Option<String>,
}

/// How long what is over is kept; `None` for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Flows with their steps, runs and logs.
    pub runs: Option<Keep>,
    /// Logs.
    pub logs: Option<Keep>,
    /// Events.
    pub events: Option<Keep>,
}

/// What is older than it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removable {
    /// Flows whose rows go, what ended first before all others.
    pub flows: Vec<FlowId>,
    /// Flows whose logs go, with their bytes.
    pub logs: Vec<(FlowId, u64)>,
    /// Events that go: the position before the first one, and of the last one.
    pub events: (u64, u64),
    /// A flow that ended before then may go.
    runs_before: Option<Timestamp>,
}

impl Retention {
    /// Whether everything is kept for ever.
    #[must_use]
    pub const fn is_for_ever(&self) -> bool {
        self.runs.is_none() && self.logs.is_none() && self.events.is_none()
    }
}

impl Keep {
    /// When a flow must have ended to be too old.
    fn before(&self, now: Timestamp) -> Timestamp {
        now - self.age
    }

    fn lets_go(&self, (spec, head): &(FlowSpec, FlowHead), now: Timestamp) -> bool {
        let is_old = matches!(head.state, FlowState::Finished { at, .. } if at < self.before(now));
        is_old && self.only.as_ref().is_none_or(|only| *only == spec.directory)
    }
}

impl Removable {
    /// Looks what could go; changes nothing.
    ///
    /// # Errors
    /// When the store fails. Logs that cannot be looked at are left out.
    pub async fn find(
        reader: &dyn Reader,
        data: &DataDir,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut found = Self::default();
        if retention.is_for_ever() {
            return Ok(found);
        }
        let needed = made_from(reader).await?;
        if let Some(keep) = &retention.runs {
            found.runs_before = Some(keep.before(now));
            found.flows = flows(reader, keep, &needed, now).await?;
        }
        let keeps: Vec<&Keep> = retention.runs.iter().chain(&retention.logs).collect();
        for (flow, bytes) in if keeps.is_empty() { Vec::new() } else { logs(data).await } {
            let known = if needed.contains(&flow) { None } else { reader.flow_head(flow).await? };
            if known.is_some_and(|known| keeps.iter().any(|keep| keep.lets_go(&known, now))) {
                found.logs.push((flow, bytes));
            }
        }
        if let Some(keep) = &retention.events {
            found.events = events(reader, keep, &needed, now).await?;
        }
        Ok(found)
    }

    /// Removes what was found, until `stop` says so. Gives back what could not be removed, and why; the rows of a flow stay
    /// when its logs do.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remove(
        &self,
        store: &dyn Store,
        data: &DataDir,
        stop: impl Fn() -> bool,
    ) -> Result<Vec<String>, StoreError> {
        let (mut stuck, mut failures) = (BTreeSet::new(), Vec::new());
        for (flow, _) in &self.logs {
            if stop() {
                return Ok(failures);
            }
            let directory = data.logs().join(flow.file_name());
            match tokio::fs::remove_dir_all(&directory).await {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    failures.push(format!("cannot remove `{}`: {error}", directory.display()));
                    stuck.insert(*flow);
                }
                _ => {}
            }
        }
        // Before the rows, which say of which flow an event is.
        let (mut at, last) = self.events;
        while at < last && !stop() {
            at = last.min(at + EVENTS);
            store.events_remove(at).await?;
        }
        for flow in self.flows.iter().filter(|flow| !stuck.contains(flow)) {
            if stop() {
                break;
            }
            if let Some(before) = self.runs_before {
                // False: somebody else was faster.
                store.flow_remove(*flow, before).await?;
            }
        }
        Ok(failures)
    }
}

/// Flows that an unfinished flow was made from by `retry`, and those that they were made from.
async fn made_from(reader: &dyn Reader) -> Result<BTreeSet<FlowId>, StoreError> {
    let (mut needed, mut before) = (BTreeSet::new(), None);
    loop {
        let page = reader.flows(FlowFilter::Live, before, PAGE).await?;
        let Some(last) = page.last() else { return Ok(needed) };
        before = Some(last.spec.id);
        for line in page {
            let mut origin = line.spec.retry_of;
            while let Some(flow) = origin.filter(|flow| needed.insert(*flow)) {
                origin = reader.flow_head(flow).await?.and_then(|(spec, _)| spec.retry_of);
            }
        }
    }
}

async fn flows(
    reader: &dyn Reader,
    keep: &Keep,
    needed: &BTreeSet<FlowId>,
    now: Timestamp,
) -> Result<Vec<FlowId>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = reader.flows_finished(keep.before(now), after, PAGE).await?;
        let last = page.last().and_then(|(spec, head)| match head.state {
            FlowState::Finished { at, .. } => Some((at, spec.id)),
            FlowState::Queued { .. } | FlowState::Live { .. } => None,
        });
        if last.is_none() {
            return Ok(found);
        }
        after = last;
        let old = page.iter().filter(|known| keep.lets_go(known, now) && !needed.contains(&known.0.id));
        found.extend(old.map(|(spec, _)| spec.id));
    }
}

/// Flows that have logs, with their bytes.
async fn logs(data: &DataDir) -> Vec<(FlowId, u64)> {
    let mut found = Vec::new();
    let Ok(mut directories) = tokio::fs::read_dir(data.logs()).await else { return found };
    while let Ok(Some(directory)) = directories.next_entry().await {
        let name = directory.file_name();
        let Some(flow) = name.to_str().and_then(|name| name.replacen('-', "_", 1).parse::<FlowId>().ok()) else {
            continue;
        };
        let mut bytes = 0;
        if let Ok(mut files) = tokio::fs::read_dir(directory.path()).await {
            while let Ok(Some(file)) = files.next_entry().await {
                bytes += file.metadata().await.map_or(0, |file| file.len());
            }
        }
        found.push((flow, bytes));
    }
    found.sort_unstable();
    found
}

/// The oldest events, up to the first that must stay.
async fn events(
    reader: &dyn Reader,
    keep: &Keep,
    needed: &BTreeSet<FlowId>,
    now: Timestamp,
) -> Result<(u64, u64), StoreError> {
    // The newest stays: later positions count on from it.
    let mut most = reader.totals().await?.last_event.saturating_sub(1);
    for row in CONSUMERS {
        most = most.min(reader.consumer_cursor(row.name).await?);
    }
    let mut known: BTreeMap<FlowId, bool> = BTreeMap::new();
    let (mut first, mut last) = (None, 0);
    loop {
        let page = reader.events(None, last, PAGE).await?;
        for event in &page {
            let goes = match known.get(&event.flow) {
                Some(goes) => *goes,
                None => {
                    let flow = reader.flow_head(event.flow).await?;
                    // The rows of a flow may have gone before its events.
                    let goes = flow.is_none_or(|flow| keep.lets_go(&flow, now)) && !needed.contains(&event.flow);
                    *known.entry(event.flow).or_insert(goes)
                }
            };
            let first = *first.get_or_insert(event.position - 1);
            if !goes || event.position > most || event.body.at >= keep.before(now) {
                return Ok((first, last.max(first)));
            }
            last = event.position;
        }
        if page.is_empty() {
            return Ok((first.unwrap_or(0), last));
        }
    }
}

/// Keeps the data directory of a holder small until the program ends.
pub(crate) async fn run(shell: Arc<Shell>) {
    let ending = shell.tasks.ending();
    while !ending.is_cancelled() {
        match pass(&shell).await {
            Ok(failures) => failures.iter().for_each(|what| tracing::warn!(what, "what is too old stays")),
            Err(error) => {
                if !shell.wait_out(&error).await {
                    return;
                }
                continue;
            }
        }
        tokio::select! {
            () = shell.clock.sleep(PAUSE) => {}
            () = ending.cancelled() => {}
        }
    }
}

async fn pass(shell: &Shell) -> Result<Vec<String>, StoreError> {
    let ending = shell.tasks.ending();
    let now = shell.clock.now();
    let found = Removable::find(shell.reader.as_ref(), &shell.data, &shell.shape.retention, now).await?;
    found.remove(shell.store.as_ref(), &shell.data, || ending.is_cancelled()).await
}
