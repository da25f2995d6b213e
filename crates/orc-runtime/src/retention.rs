//! How long what is over is kept: files, rows and events that are older than somebody asked for are removed.
//!
//! A holder looks once when it begins and every hour. Each removal is a step of its own and safe to repeat, so one that
//! ends in the middle leaves nothing half done: the files of a flow go before its rows, because rows lead to files. Never
//! removed: a flow that is not over, one that such a flow was made from by `retry`, the children of both and of any other
//! that stays, files and commits that a flow which stays took over, and an event that a consumer has not read. Definitions
//! stay: a flow that is being started may refer to one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orc_domain::flow::{FlowHead, FlowSpec, FlowState};
use orc_domain::ids::FlowId;
use orc_domain::time::{Millis, Timestamp};
use orc_domain::tree::CommitId;
use orc_ports::reader::{FlowFilter, Reader};
use orc_ports::store::{Store, StoreError};
use orc_ports::worktrees::Worktrees;

use crate::consumers::CONSUMERS;
use crate::data_dir::DataDir;
use crate::shell::{Shell, chain};

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
    /// Flows with their steps, runs, logs and artifacts.
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
    /// Flows whose artifacts go, with their bytes.
    pub artifacts: Vec<(FlowId, u64)>,
    /// Events that go: the position before the first one, and of the last one.
    pub events: (u64, u64),
    /// Commits that flows which stay hand on or took over.
    needed: BTreeSet<CommitId>,
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
    /// When the store fails. Files that cannot be looked at are left out.
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
        let needed = Needed::find(reader).await?;
        let keeps: Vec<&Keep> = retention.runs.iter().chain(&retention.logs).collect();
        for (flow, directory) in if keeps.is_empty() { Vec::new() } else { of_flows(&data.logs()).await } {
            let known = reader.flow_head(flow).await?;
            let Some(known) = known.filter(|known| keeps.iter().any(|keep| keep.lets_go(known, now))) else { continue };
            if !needed.holds(reader, &known.0).await? {
                found.logs.push((flow, bytes_below(directory).await));
            }
        }
        if let Some(keep) = &retention.runs {
            found.runs_before = Some(keep.before(now));
            found.flows = flows(reader, keep, &needed, now).await?;
            (found.artifacts, found.needed) = artifacts(reader, data, &found.flows).await?;
        }
        if let Some(keep) = &retention.events {
            found.events = events(reader, keep, &needed, now).await?;
        }
        Ok(found)
    }

    /// Removes what was found, until `stop` says so. Gives back what could not be removed, and why; the rows of a flow stay
    /// when its files could not go.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remove(
        &self,
        store: &dyn Store,
        (data, worktrees): (&DataDir, &dyn Worktrees),
        stop: impl Fn() -> bool,
    ) -> Result<Vec<String>, StoreError> {
        let (mut stuck, mut failures) = (BTreeSet::new(), Vec::new());
        let logs = self.logs.iter().map(|(flow, _)| (flow, data.logs().join(flow.file_name())));
        // What agents said to each other and to models goes with what their runs said.
        let conversations = self.logs.iter().map(|(flow, _)| (flow, data.conversations().join(flow.file_name())));
        let artifacts = self.artifacts.iter().map(|(flow, _)| (flow, data.artifacts(*flow)));
        for (flow, directory) in logs.chain(conversations).chain(artifacts) {
            if stop() {
                return Ok(failures);
            }
            match tokio::fs::remove_dir_all(&directory).await {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    failures.push(format!("cannot remove `{}`: {error}", directory.display()));
                    stuck.insert(*flow);
                }
                _ => {}
            }
        }
        let going: BTreeSet<FlowId> = self.flows.iter().filter(|flow| !stuck.contains(flow)).copied().collect();
        if let Err(error) = worktrees.forget(going.clone(), self.needed.clone()).await {
            failures.push(format!("the references of what flows made stay: {}", chain(&error)));
            stuck.extend(going);
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

/// Flows that are not over, those that they were made from by `retry`, and so on.
struct Needed(BTreeSet<FlowId>);

impl Needed {
    async fn find(reader: &dyn Reader) -> Result<Self, StoreError> {
        let (mut needed, mut before) = (BTreeSet::new(), None);
        loop {
            let page = reader.flows(FlowFilter::Live, before, PAGE).await?;
            let Some(last) = page.last() else { return Ok(Self(needed)) };
            before = Some(last.spec.id);
            for line in page {
                needed.insert(line.spec.id);
                let mut origin = line.spec.retry_of;
                while let Some(flow) = origin.filter(|flow| needed.insert(*flow)) {
                    origin = reader.flow_head(flow).await?.and_then(|(spec, _)| spec.retry_of);
                }
            }
        }
    }

    /// Whether a flow, or one above it, is needed.
    async fn holds(&self, reader: &dyn Reader, spec: &FlowSpec) -> Result<bool, StoreError> {
        let (mut flow, mut above) = (spec.id, spec.parent.as_ref().map(|parent| parent.flow));
        loop {
            if self.0.contains(&flow) {
                return Ok(true);
            }
            let Some(parent) = above else { return Ok(false) };
            let known = reader.flow_head(parent).await?;
            (flow, above) = (parent, known.and_then(|(spec, _)| spec.parent).map(|parent| parent.flow));
        }
    }
}

async fn flows(reader: &dyn Reader, keep: &Keep, needed: &Needed, now: Timestamp) -> Result<Vec<FlowId>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = reader.flows_finished(keep.before(now), after, PAGE).await?;
        let Some(last) = page.last().and_then(end_of) else { break };
        after = Some(last);
        for (spec, _) in page.into_iter().filter(|known| keep.lets_go(known, now)) {
            if !needed.holds(reader, &spec).await? {
                found.push((spec.id, spec.parent.map(|parent| parent.flow)));
            }
        }
    }
    // A child ends before its parent, which hands on what it made: it goes with it.
    let (going, mut kept) = (found.iter().map(|(flow, _)| *flow).collect::<BTreeSet<_>>(), BTreeSet::new());
    for (flow, parent) in found.iter().rev() {
        if let Some(parent) = parent
            && (kept.contains(parent) || (!going.contains(parent) && reader.flow_head(*parent).await?.is_some()))
        {
            kept.insert(*flow);
        }
    }
    Ok(found.into_iter().map(|(flow, _)| flow).filter(|flow| !kept.contains(flow)).collect())
}

/// Flows whose artifacts go with them, or were left when they went, with their bytes; and commits that stay needed.
async fn artifacts(
    reader: &dyn Reader,
    data: &DataDir,
    going: &[FlowId],
) -> Result<(Vec<(FlowId, u64)>, BTreeSet<CommitId>), StoreError> {
    let going: BTreeSet<FlowId> = going.iter().copied().collect();
    let mut candidates = Vec::new();
    for (flow, directory) in of_flows(&data.kept()).await {
        if going.contains(&flow) || reader.flow_head(flow).await?.is_none() {
            candidates.push((flow, directory));
        }
    }
    if candidates.is_empty() && going.is_empty() {
        return Ok((Vec::new(), BTreeSet::new()));
    }
    let (taken, needed) = taken_over(reader, &going).await?;
    let mut found = Vec::new();
    for (flow, directory) in candidates.into_iter().filter(|(flow, _)| !taken.contains(flow)) {
        found.push((flow, bytes_below(directory).await));
    }
    Ok((found, needed))
}

/// Flows whose artifacts one that is over and stays took over, and the commits that it took over or hands on. What one that
/// is not over took over, the flow that it was made from has or took over, and that one stays.
async fn taken_over(
    reader: &dyn Reader,
    going: &BTreeSet<FlowId>,
) -> Result<(BTreeSet<FlowId>, BTreeSet<CommitId>), StoreError> {
    let (mut found, mut commits, mut after) = (BTreeSet::new(), BTreeSet::new(), None);
    loop {
        let page = reader.flows_finished(Timestamp::from_millis(i64::MAX), after, PAGE).await?;
        let Some(last) = page.last().and_then(end_of) else { return Ok((found, commits)) };
        after = Some(last);
        for (spec, head) in page.iter().filter(|(spec, _)| !going.contains(&spec.id)) {
            let files = spec.taken_over.values().flat_map(|result| result.artifacts.values());
            // Its directory has one for each run, which has the files.
            let owners = files.filter_map(|artifact| Path::new(&artifact.file).parent()?.parent()?.file_name());
            found.extend(owners.filter_map(flow_of));
            let tips = spec.taken_over.values().flat_map(|result| &result.tips).chain(&head.tips);
            commits.extend(tips.flat_map(|tip| tip.tree.0.values().cloned()));
        }
    }
}

fn end_of((spec, head): &(FlowSpec, FlowHead)) -> Option<(Timestamp, FlowId)> {
    match head.state {
        FlowState::Finished { at, .. } => Some((at, spec.id)),
        FlowState::Queued { .. } | FlowState::Live { .. } => None,
    }
}

/// The flow whose directory has this name.
pub(crate) fn flow_of(name: &OsStr) -> Option<FlowId> {
    name.to_str()?.replacen('-', "_", 1).parse().ok()
}

/// Directories of flows, in order of flow.
pub(crate) async fn of_flows(place: &Path) -> Vec<(FlowId, PathBuf)> {
    let mut found = Vec::new();
    if let Ok(mut directories) = tokio::fs::read_dir(place).await {
        while let Ok(Some(directory)) = directories.next_entry().await {
            found.extend(flow_of(&directory.file_name()).map(|flow| (flow, directory.path())));
        }
    }
    found.sort_unstable();
    found
}

async fn bytes_below(directory: PathBuf) -> u64 {
    let (mut bytes, mut open) = (0, vec![directory]);
    while let Some(place) = open.pop() {
        let Ok(mut entries) = tokio::fs::read_dir(place).await else { continue };
        while let Ok(Some(entry)) = entries.next_entry().await {
            match entry.metadata().await {
                Ok(about) if about.is_dir() => open.push(entry.path()),
                about => bytes += about.map_or(0, |file| file.len()),
            }
        }
    }
    bytes
}

/// The oldest events, up to the first that must stay.
async fn events(reader: &dyn Reader, keep: &Keep, needed: &Needed, now: Timestamp) -> Result<(u64, u64), StoreError> {
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
                    let goes = match reader.flow_head(event.flow).await? {
                        Some(flow) => keep.lets_go(&flow, now) && !needed.holds(reader, &flow.0).await?,
                        // The rows of a flow may have gone before its events.
                        None => true,
                    };
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
    found.remove(shell.store.as_ref(), (&shell.data, shell.worktrees.as_ref()), || ending.is_cancelled()).await
}
