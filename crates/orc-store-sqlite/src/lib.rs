//! The store on SQLite; ring 3.
//!
//! One [`writer`] owns the only connection that writes and makes one transaction of whatever waits (group commit). Reads
//! go through a pool of connections that cannot write. [`work`] turns each write into a script, [`row`] turns rows back
//! into the vocabulary; SQL itself is in files below `sql/`, listed by [`STATEMENTS`].
//!
//! Never here: a decision, a row that is skipped because it cannot be read, a check that is not part of the write it
//! guards.

mod check;
mod costs;
mod failure;
mod ledger;
mod read;
mod reader;
mod row;
mod schema;
mod statement;
mod work;
mod writer;

use std::path::Path;
use std::sync::Arc;

use orc_domain::action::WaitEvent;
use orc_domain::effect::Effect;
use orc_domain::event::Event;
use orc_domain::graph::Pipeline;
use orc_domain::ids::{ContentHash, EffectId, FlowId, InstanceId, RunId};
use orc_domain::time::Timestamp;
use orc_ports::store::{Commit, Committed, Guarded, Instance, LoadedFlow, Store, StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot};

pub use self::check::{Facts, Findings, backup, check, check_sums, facts, vacuum};
pub use self::reader::SqliteReader;
pub use self::schema::{MIGRATIONS, Migration, SCHEMA_VERSION, put_earlier_aside, write_empty};
pub use self::statement::{STATEMENTS, Statement};

use self::read::Reads;
use self::work::{Outcome, Work};
use self::writer::Message;

/// The store of one database file. Dropped without [`Store::close`] it ends as in a crash: what was answered is kept.
pub struct SqliteStore {
    inbox: mpsc::Sender<Message>,
    reads: Reads,
}

impl SqliteStore {
    /// Opens the database at `path`, which is made if it is missing and migrated if it is old. Needs a running tokio
    /// runtime; the caller holds the lock of the data directory.
    ///
    /// # Errors
    /// [`StoreError::Newer`] for a database of a later program; [`StoreError::Open`], [`StoreError::ReadOnly`] or
    /// [`StoreError::Full`] when the file cannot be used.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { inbox: writer::start(path).await?, reads: Reads::new(path) })
    }

    async fn write(&self, work: Work) -> Result<Outcome, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.inbox.send(Message::Write(work, answer)).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    fn reads(&self) -> Result<&Reads, StoreError> {
        if self.inbox.is_closed() { Err(StoreError::Closed) } else { Ok(&self.reads) }
    }
}

/// Brings the database at `path` to the schema of this program and closes it again.
///
/// # Errors
/// As [`SqliteStore::open`].
pub async fn migrate(path: &Path) -> Result<(), StoreError> {
    SqliteStore::open(path).await?.close().await
}

fn guarded(outcome: Outcome) -> Guarded {
    match outcome {
        Outcome::Done | Outcome::Lost(_) => Guarded::Updated,
        Outcome::Stale | Outcome::Refused(_) => Guarded::Stale,
        Outcome::Each(each) => each.first().copied().unwrap_or(Guarded::Missing),
    }
}

fn committed(outcome: Outcome) -> Committed {
    match outcome {
        Outcome::Done | Outcome::Each(_) | Outcome::Lost(_) => Committed::Done,
        Outcome::Stale => Committed::Stale,
        Outcome::Refused(refusal) => Committed::Refused(refusal),
    }
}

impl Store for SqliteStore {
    fn pipeline_insert(&self, hash: ContentHash, pipeline: Arc<Pipeline>, source: String) -> StoreResult<'_, ()> {
        Box::pin(async move { self.write(Work::pipeline_insert(&hash, &pipeline, source)?).await.map(drop) })
    }

    fn pipeline_get(&self, hash: ContentHash) -> StoreResult<'_, Option<Arc<Pipeline>>> {
        Box::pin(async move { Ok(self.reads()?.pipeline(&hash).await?.map(|(pipeline, _)| Arc::new(pipeline))) })
    }

    fn commit(&self, commit: Commit) -> StoreResult<'_, Committed> {
        Box::pin(async move {
            // A decision that changes nothing is not written.
            if commit.decision.is_empty() {
                return if self.inbox.is_closed() { Err(StoreError::Closed) } else { Ok(Committed::Done) };
            }
            self.write(Work::commit(&commit)?).await.map(committed)
        })
    }

    fn flow_load(&self, id: FlowId) -> StoreResult<'_, Option<LoadedFlow>> {
        Box::pin(async move { self.reads()?.flow_load(id).await })
    }

    fn flows_unfinished(&self, after: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowId>> {
        Box::pin(async move { self.reads()?.flows_unfinished(after, limit).await })
    }

    fn flows_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> StoreResult<'_, Vec<(Timestamp, FlowId)>> {
        Box::pin(async move { self.reads()?.flows_due(now, after, limit).await })
    }

    fn flows_with_live_runs(&self, after: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowId>> {
        Box::pin(async move { self.reads()?.flows_with_live_runs(after, limit).await })
    }

    fn flows_with_effects(&self, after: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowId>> {
        Box::pin(async move { self.reads()?.flows_with_effects(after, limit).await })
    }

    fn flows_waiting_for(&self, event: WaitEvent) -> StoreResult<'_, Vec<FlowId>> {
        Box::pin(async move { self.reads()?.flows_waiting_for(event).await })
    }

    fn runs_claim(&self, starts: Vec<(RunId, EffectId)>, instance: InstanceId) -> StoreResult<'_, Vec<Guarded>> {
        Box::pin(async move {
            match self.write(Work::runs_claim(&starts, instance)).await? {
                Outcome::Each(each) => Ok(each),
                // There was none to claim.
                Outcome::Done | Outcome::Stale | Outcome::Refused(_) | Outcome::Lost(_) => Ok(Vec::new()),
            }
        })
    }

    fn effects_pending(&self, flow: FlowId) -> StoreResult<'_, Vec<Effect>> {
        Box::pin(async move { self.reads()?.effects_pending(flow).await })
    }

    fn effect_delivered(&self, effect: EffectId) -> StoreResult<'_, ()> {
        Box::pin(async move { self.write(Work::effect_delivered(effect)).await.map(drop) })
    }

    fn instance_begin(&self, instance: Instance) -> StoreResult<'_, ()> {
        Box::pin(async move { self.write(Work::instance_begin(&instance)).await.map(drop) })
    }

    fn instances_open(&self) -> StoreResult<'_, Vec<Instance>> {
        Box::pin(async move { self.reads()?.instances_open().await })
    }

    fn instance_end(&self, id: InstanceId, at: Timestamp) -> StoreResult<'_, Guarded> {
        Box::pin(async move { self.write(Work::instance_end(id, at)).await.map(guarded) })
    }

    fn events_after(&self, position: u64, limit: u32) -> StoreResult<'_, Vec<Event>> {
        Box::pin(async move { self.reads()?.events(None, position, limit).await })
    }

    fn consumer_cursor(&self, name: &'static str) -> StoreResult<'_, u64> {
        Box::pin(async move { self.reads()?.consumer_cursor(name).await })
    }

    fn consumer_advance(&self, name: &'static str, from: u64, to: u64) -> StoreResult<'_, Guarded> {
        Box::pin(async move { self.write(Work::consumer_advance(name, from, to)).await.map(guarded) })
    }

    fn flow_remove(&self, id: FlowId, finished_before: Timestamp) -> StoreResult<'_, bool> {
        Box::pin(async move { Ok(self.write(Work::flow_remove(id, finished_before)).await? == Outcome::Done) })
    }

    fn events_remove(&self, up_to: u64) -> StoreResult<'_, ()> {
        Box::pin(async move { self.write(Work::events_remove(up_to)).await.map(drop) })
    }

    fn close(&self) -> StoreResult<'_, ()> {
        Box::pin(async move {
            // Readers first: the last connection that goes copies the log back and removes it.
            self.reads.close().await;
            let (done, ended) = oneshot::channel();
            self.inbox.send(Message::Close(done)).await.map_err(|_| StoreError::Closed)?;
            ended.await.map_err(|_| StoreError::Closed)
        })
    }
}
