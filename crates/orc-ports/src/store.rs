//! The one transactional store, as the runtime uses it.
//!
//! Contract: a [`Commit`] is applied whole or not at all, guarded by the version of its flow. Several commits may share
//! one transaction of the database (group commit), but each succeeds or fails alone, and a reply is given only after the
//! outer transaction is durable at the level it needs. Positions of events have no gaps and are never skipped by a reader.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use orc_domain::action::WaitEvent;
use orc_domain::claim::Refusal;
use orc_domain::effect::{Decision, Effect};
use orc_domain::event::Event;
use orc_domain::flow::{Flow, FlowSpec};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{ContentHash, EffectId, FlowId, InstanceId, RunId};
use orc_domain::time::Timestamp;

/// A decision to be made true.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The flow it is about.
    pub flow: FlowId,
    /// Present exactly for the first commit of a flow.
    pub create: Option<FlowSpec>,
    /// The version the decision was made on; 0 for the first commit.
    pub expected: u64,
    /// What was decided.
    pub decision: Decision,
    /// Slots of this instance; a slot claim beyond is refused.
    pub slots: u32,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is true now.
    Done,
    /// The flow has another version (or exists already, or does not exist): load it again.
    Stale,
    /// A claim was refused; nothing was written.
    Refused(Refusal),
}

/// What became of a guarded update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// Done.
    Updated,
    /// The row is there and its precondition does not hold.
    Stale,
    /// There is no such row.
    Missing,
}

/// A flow as loaded, with what the reconciler needs to know of its live runs.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedFlow {
    /// The flow.
    pub flow: Flow,
    /// For each live run that was claimed: by which instance.
    pub claimed: Vec<(RunId, InstanceId)>,
}

/// A process of the orchestrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its id.
    pub id: InstanceId,
    /// Its process id.
    pub pid: i32,
    /// The subcommand, for people.
    pub command: String,
    /// When it began.
    pub began_at: Timestamp,
}

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The data directory or database cannot be opened.
    #[error("cannot open the database `{path}`")]
    Open {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database was written by a newer version of this program.
    #[error(
        "the database has schema version {found}, and this program knows only {known}: it was written by a newer orchestrator"
    )]
    Newer {
        /// Version of the database.
        found: i64,
        /// Version of this program.
        known: i64,
    },
    /// There is no room left.
    #[error("no space left for the database ({operation})")]
    Full {
        /// What was tried.
        operation: &'static str,
        /// The database's words.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database may not be written.
    #[error("the database is read-only ({operation})")]
    ReadOnly {
        /// What was tried.
        operation: &'static str,
        /// The database's words.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is not what the database wrote: it was cut, overwritten, or its disk fails. No later attempt succeeds.
    #[error("the database file is damaged ({operation})")]
    Damaged {
        /// What was tried.
        operation: &'static str,
        /// The database's words.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A row does not mean anything to this program.
    #[error("row `{id}` of table `{table}` cannot be read: {what}")]
    Corrupt {
        /// Which table.
        table: &'static str,
        /// Which row.
        id: String,
        /// Which column, and what is wrong with it.
        what: String,
    },
    /// A caller broke the contract of this port; nothing was written. A bug of this program, never a state of the world.
    #[error("{operation} of `{id}` breaks the contract of the store: {what}")]
    Contract {
        /// What was tried.
        operation: &'static str,
        /// About what.
        id: String,
        /// Which rule.
        what: String,
    },
    /// Any other failure of the database.
    #[error("the database failed ({operation})")]
    Database {
        /// What was tried.
        operation: &'static str,
        /// The database's words.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The writer has ended.
    #[error("the store is closed")]
    Closed,
}

/// Shorthand for answers of the store.
pub type StoreResult<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// The store.
pub trait Store: Send + Sync {
    /// Keeps a definition with its source text; the same hash twice is no error.
    fn pipeline_insert(&self, hash: ContentHash, pipeline: Arc<Pipeline>, source: String) -> StoreResult<'_, ()>;

    /// A definition by its hash.
    fn pipeline_get(&self, hash: ContentHash) -> StoreResult<'_, Option<Arc<Pipeline>>>;

    /// Makes a decision true.
    fn commit(&self, commit: Commit) -> StoreResult<'_, Committed>;

    /// A flow with all its steps, its live runs and its open requests.
    fn flow_load(&self, id: FlowId) -> StoreResult<'_, Option<LoadedFlow>>;

    /// Ids of flows that are not finished, in order of id, after `after`, at most `limit`.
    fn flows_unfinished(&self, after: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowId>>;

    /// Flows that are not finished and whose `wake_at` is `now` or before, with that time, in order of it and then of id,
    /// after `after`, at most `limit`.
    fn flows_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> StoreResult<'_, Vec<(Timestamp, FlowId)>>;

    /// Ids of flows that have a run which is not finished, in order of id, after `after`, at most `limit`.
    fn flows_with_live_runs(&self, after: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowId>>;

    /// Ids of flows that have an effect which is not delivered, in order of id, after `after`, at most `limit`.
    fn flows_with_effects(&self, after: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowId>>;

    /// Ids of flows that have a step which waits for an event of this kind, each once, in order of id. Of which pipeline
    /// it must be, the step knows.
    fn flows_waiting_for(&self, event: WaitEvent) -> StoreResult<'_, Vec<FlowId>>;

    /// Claims live, unclaimed runs for an instance and takes what starts each (`StartRun`, `StartAgent`) out of the outbox,
    /// all in one transaction; answers in the same order. `Stale`: it is over or claimed; its effect is taken out all the
    /// same.
    fn runs_claim(&self, starts: Vec<(RunId, EffectId)>, instance: InstanceId) -> StoreResult<'_, Vec<Guarded>>;

    /// Effects of a flow that are not delivered, in order.
    fn effects_pending(&self, flow: FlowId) -> StoreResult<'_, Vec<Effect>>;

    /// Takes a delivered effect out of the outbox. One that is not there is no error.
    fn effect_delivered(&self, effect: EffectId) -> StoreResult<'_, ()>;

    /// Writes down a new instance.
    fn instance_begin(&self, instance: Instance) -> StoreResult<'_, ()>;

    /// Instances that did not write down their end.
    fn instances_open(&self) -> StoreResult<'_, Vec<Instance>>;

    /// Writes down the end of an instance: its own, or one that was found dead and whose processes are gone. Its calls of
    /// models that are in flight are lost with it ([`crate::ledger::Ledger::lose`]), in the same transaction.
    fn instance_end(&self, id: InstanceId, at: Timestamp) -> StoreResult<'_, Guarded>;

    /// Events after a position, in order, at most `limit`.
    fn events_after(&self, position: u64, limit: u32) -> StoreResult<'_, Vec<Event>>;

    /// Where a consumer stands; 0 before its first event.
    fn consumer_cursor(&self, name: &'static str) -> StoreResult<'_, u64>;

    /// Moves a consumer from `from` to `to`; `Stale` when it does not stand at `from`.
    fn consumer_advance(&self, name: &'static str, from: u64, to: u64) -> StoreResult<'_, Guarded>;

    /// Forgets a flow that was over before then, with its steps and runs; its events and its definition stay. False when
    /// there is no such flow, or it was not over.
    fn flow_remove(&self, id: FlowId, finished_before: Timestamp) -> StoreResult<'_, bool>;

    /// Forgets events from the oldest up to a position, but none that a consumer has not passed, and never the newest:
    /// later positions count on from it.
    fn events_remove(&self, up_to: u64) -> StoreResult<'_, ()>;

    /// Waits until everything accepted is durable, then ends the writer. Later calls answer [`StoreError::Closed`].
    fn close(&self) -> StoreResult<'_, ()>;
}
