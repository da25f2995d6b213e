//! What an operator's commands read. Read-only, beside a writer in another process, in short reads.

use orc_domain::event::Event;
use orc_domain::flow::{Flow, FlowHead, FlowSpec, FlowState};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{ContentHash, FlowId, InstanceId, RequestId, RunId};
use orc_domain::principal::Principal;
use orc_domain::request::Request;
use orc_domain::run::{Process, Run};
use orc_domain::time::{Millis, Timestamp};
use serde::{Deserialize, Serialize};

use crate::store::{Instance, StoreResult};

/// A line of `flows list`.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowLine {
    /// What never changes about it.
    pub spec: FlowSpec,
    /// Where it stands.
    pub state: FlowState,
    /// When it was last decided about.
    pub updated_at: Timestamp,
    /// Its next alarm.
    pub wake_at: Option<Timestamp>,
    /// Step instances by state, in the order blocked, ready, active, waiting, finished.
    pub steps: StepCounts,
}

impl FlowLine {
    /// Whether all that it does is to wait for something that is not its own: a child flow, people, a time, an event.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        let steps = &self.steps;
        matches!(self.state, FlowState::Live { .. }) && steps.waiting_outside > 0 && steps.ready + steps.active == 0
    }
}

/// Step instances of a flow by coarse state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StepCounts {
    /// Wait for a parent.
    pub blocked: u32,
    /// May start.
    pub ready: u32,
    /// A run tries them.
    pub active: u32,
    /// Wait and have no run: for elements, a round, a child flow, people, a time, an event.
    pub waiting: u32,
    /// Of these, those that do not wait for steps of their own flow.
    pub waiting_outside: u32,
    /// Succeeded or had nothing to do.
    pub succeeded: u32,
    /// Failed.
    pub failed: u32,
    /// Skipped.
    pub skipped: u32,
    /// Cancelled.
    pub cancelled: u32,
}

/// A run with what its row knows beside its state.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The run.
    pub run: Run,
    /// Who claimed its start.
    pub claimed_by: Option<InstanceId>,
    /// When its process existed.
    pub started_at: Option<Timestamp>,
    /// Its process, also after the end.
    pub process: Option<Process>,
}

/// A request with what its row knows beside its state.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRecord {
    /// The request.
    pub request: Request,
    /// When people were asked.
    pub opened_at: Timestamp,
}

/// Which requests to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFilter {
    /// Those that wait for an answer, the one that waits longest first.
    Open,
    /// Those that have one, the newest answer first.
    Resolved,
}

/// What somebody answered so far. Requests that were withdrawn do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerCounts {
    /// Who; `system` for deadlines that passed.
    pub by: Principal,
    /// Answered yes.
    pub approved: u64,
    /// Answered no.
    pub denied: u64,
    /// Half of the answers came within this time after the request was opened.
    pub median: Millis,
}

/// Which flows to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowFilter {
    /// All.
    All,
    /// Those that are not finished.
    Live,
    /// Those that are.
    Finished,
}

/// Figures about the whole store.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Flows that are not finished, those in a queue included.
    pub live_flows: u64,
    /// Of these, those that wait for their concurrency group.
    pub queued_flows: u64,
    /// Of these, those that are in no queue and have no run: they wait for people, a time, an event, a slot.
    pub waiting_flows: u64,
    /// Flows that are.
    pub finished_flows: u64,
    /// Runs that are not finished.
    pub live_runs: u64,
    /// Slots in use.
    pub slots_used: u32,
    /// Requests that wait for an answer.
    pub open_requests: u64,
    /// Effects that are not delivered.
    pub pending_effects: u64,
    /// Position of the last event.
    pub last_event: u64,
    /// Bytes of the database file and its log.
    pub bytes: u64,
}

/// An id of any kind that a person may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnyId {
    /// A flow.
    Flow(FlowId),
    /// A run.
    Run(RunId),
    /// A request.
    Request(RequestId),
}

/// Reads for operators.
pub trait Reader: Send + Sync {
    /// Flows, newest first, older than `before`, at most `limit`.
    fn flows(&self, filter: FlowFilter, before: Option<FlowId>, limit: u32) -> StoreResult<'_, Vec<FlowLine>>;

    /// Flows that ended before a point in time, without their steps, in order of end and id, after `after`, at most `limit`.
    fn flows_finished(
        &self,
        before: Timestamp,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> StoreResult<'_, Vec<(FlowSpec, FlowHead)>>;

    /// A flow with all its steps, its live runs and its open requests.
    fn flow(&self, id: FlowId) -> StoreResult<'_, Option<Flow>>;

    /// A flow without its steps and runs: where it stands, in one short read.
    fn flow_head(&self, id: FlowId) -> StoreResult<'_, Option<(FlowSpec, FlowHead)>>;

    /// Runs of a flow (or of all), newest first, older than `before`, at most `limit`.
    fn runs(&self, flow: Option<FlowId>, before: Option<RunId>, limit: u32) -> StoreResult<'_, Vec<RunRecord>>;

    /// Runs of an agent, newest first, older than `before`, at most `limit`.
    fn runs_by_agent(&self, agent: String, before: Option<RunId>, limit: u32) -> StoreResult<'_, Vec<RunRecord>>;

    /// Runs of the last `flows` finished flows of the pipeline with that name, in no order, at most `limit`.
    fn runs_of_pipeline(&self, name: String, flows: u32, limit: u32) -> StoreResult<'_, Vec<RunRecord>>;

    /// One run.
    fn run(&self, id: RunId) -> StoreResult<'_, Option<RunRecord>>;

    /// Requests of all flows, at most `limit`.
    fn requests(&self, filter: RequestFilter, limit: u32) -> StoreResult<'_, Vec<RequestRecord>>;

    /// One request.
    fn request(&self, id: RequestId) -> StoreResult<'_, Option<RequestRecord>>;

    /// What people answered, in no particular order.
    fn answers(&self) -> StoreResult<'_, Vec<AnswerCounts>>;

    /// A definition by its hash, with its source text.
    fn pipeline(&self, hash: ContentHash) -> StoreResult<'_, Option<(Pipeline, String)>>;

    /// Events of a flow (or of all) after a position, at most `limit`.
    fn events(&self, flow: Option<FlowId>, after: u64, limit: u32) -> StoreResult<'_, Vec<Event>>;

    /// Where a consumer stands; 0 before its first event.
    fn consumer_cursor(&self, name: &'static str) -> StoreResult<'_, u64>;

    /// Flows, runs and requests whose id ends with `suffix` (six characters or more), at most `limit`.
    fn ids_ending(&self, suffix: String, limit: u32) -> StoreResult<'_, Vec<AnyId>>;

    /// Instances that did not write down their end.
    fn instances_open(&self) -> StoreResult<'_, Vec<Instance>>;

    /// Figures.
    fn totals(&self) -> StoreResult<'_, Totals>;
}
