//! Reads, for the runtime and for operators: short, on connections that cannot write, one snapshot per call.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use orc_domain::action::WaitEvent;
use orc_domain::effect::Effect;
use orc_domain::event::Event;
use orc_domain::flow::{Flow, FlowHead, FlowSpec};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{ContentHash, FlowId, InstanceId, RequestId, RunId};
use orc_domain::time::{Millis, Timestamp};
use orc_ports::reader::{
    AnswerCounts, AnyId, FlowFilter, FlowLine, RequestFilter, RequestRecord, RunRecord, StepCounts, Totals,
};
use orc_ports::store::{Instance, LoadedFlow, StoreError};
use sqlx::sqlite::{SqliteConnection, SqlitePool, SqlitePoolOptions, SqliteRow};
use sqlx::{Row as _, query};

use crate::failure::failed;
use crate::row::{self, Place};
use crate::schema::{beside, read_options};
use crate::statement::{
    ANSWER_TIME_AT, ANSWERS, CONSUMER_GET, COUNTER_GET, EFFECTS_COUNT, EFFECTS_OF_FLOW, EVENTS_AFTER, EVENTS_LAST,
    EVENTS_OF_FLOW, FLOW_GET, FLOWS_ALL, FLOWS_DUE, FLOWS_ENDING, FLOWS_FINISHED, FLOWS_FINISHED_BEFORE, FLOWS_LIVE,
    FLOWS_LIVE_COUNT, FLOWS_QUEUED_COUNT, FLOWS_UNFINISHED, FLOWS_WAITING_FOR, FLOWS_WITH_EFFECTS,
    FLOWS_WITH_LIVE_RUNS, INSTANCES_OPEN, PIPELINE_GET, REQUEST_GET, REQUESTS_ENDING, REQUESTS_OPEN,
    REQUESTS_OPEN_COUNT, REQUESTS_OPEN_OF_FLOW, REQUESTS_RESOLVED, RUN_GET, RUN_POSITION, RUNS_ALL, RUNS_BY_AGENT,
    RUNS_ENDING, RUNS_LIVE_COUNTS, RUNS_LIVE_OF_FLOW, RUNS_OF_FLOW, RUNS_OF_PIPELINE, SLOTS_COUNT, STEPS_COUNTS,
    STEPS_OF_FLOW, Statement,
};
use crate::work::{self, signed};

/// Connections that read at the same time; each is a thread.
const CONNECTIONS: u32 = 4;
/// Characters at the end of an id that its index holds.
const ENDING: usize = 6;
/// Greater than every printed id.
pub(crate) const AFTER_ALL_IDS: &str = "~";

/// Reads of one database.
#[derive(Clone)]
pub(crate) struct Reads {
    pool: SqlitePool,
    path: Arc<Path>,
}

type Answer<T> = Result<T, StoreError>;

impl Reads {
    /// Opens nothing yet: connections are made when they are needed, and kept.
    pub(crate) fn new(path: &Path) -> Self {
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .min_connections(0)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_lazy_with(read_options(path));
        Self { pool, path: path.into() }
    }

    /// A connection, for checks that belong to no call.
    pub(crate) const fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    pub(crate) async fn pipeline(&self, hash: &ContentHash) -> Answer<Option<(Pipeline, String)>> {
        let found = query(PIPELINE_GET.text)
            .bind(hash.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("pipeline_get"))?;
        let Some(found) = found else { return Ok(None) };
        let place = Place { table: "pipelines", id: hash.as_str() };
        Ok(Some((place.json(&found, "body")?, place.column(&found, "source")?)))
    }

    pub(crate) async fn flow_load(&self, id: FlowId) -> Answer<Option<LoadedFlow>> {
        const OPERATION: &str = "flow_load";
        let mut snapshot = self.pool.begin().await.map_err(failed(OPERATION))?;
        let text = id.to_string();
        let found = query(FLOW_GET.text).bind(&text).fetch_optional(&mut *snapshot).await.map_err(failed(OPERATION))?;
        let Some(found) = found else { return Ok(None) };
        let (spec, head) = row::flow(&found, &text)?;
        let rows = all(&mut snapshot, OPERATION, STEPS_OF_FLOW, &text).await?;
        let mut steps = Vec::with_capacity(rows.len());
        for (no, found) in rows.iter().enumerate() {
            let step = row::step(found, &text)?;
            if step.no.0 as usize != no {
                let id = format!("{text} no {no}");
                return Err(Place { table: "steps", id: &id }.corrupt("no", &"the row is missing"));
            }
            steps.push(step);
        }
        let mut runs = BTreeMap::new();
        let mut claimed: Vec<(RunId, InstanceId)> = Vec::new();
        for found in &all(&mut snapshot, OPERATION, RUNS_LIVE_OF_FLOW, &text).await? {
            let record = row::run(found)?;
            claimed.extend(record.claimed_by.map(|instance| (record.run.id, instance)));
            runs.insert(record.run.id, record.run);
        }
        claimed.sort_unstable();
        let mut requests = BTreeMap::new();
        for found in &all(&mut snapshot, OPERATION, REQUESTS_OPEN_OF_FLOW, &text).await? {
            let record = row::request(found)?;
            requests.insert(record.request.id, record.request);
        }
        Ok(Some(LoadedFlow { flow: Flow { spec, head, steps, runs, requests }, claimed }))
    }

    pub(crate) async fn flow_head(&self, id: FlowId) -> Answer<Option<(FlowSpec, FlowHead)>> {
        let text = id.to_string();
        let found = query(FLOW_GET.text).bind(&text).fetch_optional(&self.pool).await.map_err(failed("flow_head"))?;
        found.map(|found| row::flow(&found, &text)).transpose()
    }

    /// Ids in the first column of `statement`, a page of `limit` after `after`.
    async fn flow_ids(&self, statement: Statement, after: Option<FlowId>, limit: u32) -> Answer<Vec<FlowId>> {
        let rows = query(statement.text)
            .bind(after.map(|id| id.to_string()).unwrap_or_default())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed(statement.name))?;
        rows.iter().map(|found| flow_id(found, 0)).collect()
    }

    pub(crate) async fn flows_unfinished(&self, after: Option<FlowId>, limit: u32) -> Answer<Vec<FlowId>> {
        self.flow_ids(FLOWS_UNFINISHED, after, limit).await
    }

    pub(crate) async fn flows_with_live_runs(&self, after: Option<FlowId>, limit: u32) -> Answer<Vec<FlowId>> {
        self.flow_ids(FLOWS_WITH_LIVE_RUNS, after, limit).await
    }

    pub(crate) async fn flows_with_effects(&self, after: Option<FlowId>, limit: u32) -> Answer<Vec<FlowId>> {
        self.flow_ids(FLOWS_WITH_EFFECTS, after, limit).await
    }

    pub(crate) async fn flows_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Answer<Vec<(Timestamp, FlowId)>> {
        const OPERATION: &str = "flows_due";
        let (wake_at, id) = after.map_or((i64::MIN, String::new()), |(at, id)| (at.as_millis(), id.to_string()));
        let rows = query(FLOWS_DUE.text)
            .bind(now.as_millis())
            .bind(wake_at)
            .bind(id)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed(OPERATION))?;
        rows.iter()
            .map(|found| {
                let wake_at = found.try_get(0).map_err(failed(OPERATION))?;
                Ok((Timestamp::from_millis(wake_at), flow_id(found, 1)?))
            })
            .collect()
    }

    pub(crate) async fn flows_waiting_for(&self, event: WaitEvent) -> Answer<Vec<FlowId>> {
        let rows = query(FLOWS_WAITING_FOR.text)
            .bind(event.word())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("flows_waiting_for"))?;
        rows.iter().map(|found| flow_id(found, 0)).collect()
    }

    pub(crate) async fn flows_finished(
        &self,
        before: Timestamp,
        after: Option<(Timestamp, FlowId)>,
        limit: u32,
    ) -> Answer<Vec<(FlowSpec, FlowHead)>> {
        let (at, id) = after.map_or((i64::MIN, String::new()), |(at, id)| (at.as_millis(), id.to_string()));
        let rows = query(FLOWS_FINISHED_BEFORE.text)
            .bind(before.as_millis())
            .bind(at)
            .bind(id)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("flows_finished"))?;
        rows.iter().map(|found| row::flow(found, row::id_of(found, "flows", "id")?)).collect()
    }

    pub(crate) async fn effects_pending(&self, flow: FlowId) -> Answer<Vec<Effect>> {
        let rows = query(EFFECTS_OF_FLOW.text)
            .bind(flow.to_string())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("effects_pending"))?;
        rows.iter().map(row::effect).collect()
    }

    pub(crate) async fn instances_open(&self) -> Answer<Vec<Instance>> {
        let rows = query(INSTANCES_OPEN.text).fetch_all(&self.pool).await.map_err(failed("instances_open"))?;
        rows.iter().map(row::instance).collect()
    }

    pub(crate) async fn events(&self, flow: Option<FlowId>, after: u64, limit: u32) -> Answer<Vec<Event>> {
        let rows = match flow {
            None => query(EVENTS_AFTER.text),
            Some(flow) => query(EVENTS_OF_FLOW.text).bind(flow.to_string()),
        }
        .bind(signed(after))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await
        .map_err(failed("events_after"))?;
        rows.iter().map(row::event).collect()
    }

    pub(crate) async fn consumer_cursor(&self, name: &'static str) -> Answer<u64> {
        let found =
            query(CONSUMER_GET.text).bind(name).fetch_optional(&self.pool).await.map_err(failed("consumer_cursor"))?;
        found.map_or(Ok(0), |found| Place { table: "consumers", id: name }.count(&found, "position"))
    }

    pub(crate) async fn flows(&self, filter: FlowFilter, before: Option<FlowId>, limit: u32) -> Answer<Vec<FlowLine>> {
        const OPERATION: &str = "flows";
        let statement = match filter {
            FlowFilter::All => FLOWS_ALL,
            FlowFilter::Live => FLOWS_LIVE,
            FlowFilter::Finished => FLOWS_FINISHED,
        };
        let mut snapshot = self.pool.begin().await.map_err(failed(OPERATION))?;
        let rows = query(statement.text)
            .bind(before.map_or_else(|| AFTER_ALL_IDS.to_owned(), |id| id.to_string()))
            .bind(i64::from(limit))
            .fetch_all(&mut *snapshot)
            .await
            .map_err(failed(OPERATION))?;
        let mut lines = Vec::with_capacity(rows.len());
        for found in &rows {
            let id = row::id_of(found, "flows", "id")?;
            let (spec, head) = row::flow(found, id)?;
            let steps = step_counts(&mut snapshot, id).await?;
            lines.push(FlowLine { spec, state: head.state, updated_at: head.seen, wake_at: head.wake_at, steps });
        }
        Ok(lines)
    }

    pub(crate) async fn runs(&self, flow: Option<FlowId>, before: Option<RunId>, limit: u32) -> Answer<Vec<RunRecord>> {
        match flow {
            None => self.runs_page(RUNS_ALL, None, before, limit).await,
            Some(flow) => self.runs_page(RUNS_OF_FLOW, Some(flow.to_string()), before, limit).await,
        }
    }

    pub(crate) async fn runs_by_agent(
        &self,
        agent: String,
        before: Option<RunId>,
        limit: u32,
    ) -> Answer<Vec<RunRecord>> {
        self.runs_page(RUNS_BY_AGENT, Some(agent), before, limit).await
    }

    /// A page of `statement`, whose first argument is `of` if there is one.
    async fn runs_page(
        &self,
        statement: Statement,
        of: Option<String>,
        before: Option<RunId>,
        limit: u32,
    ) -> Answer<Vec<RunRecord>> {
        const OPERATION: &str = "runs";
        let mut snapshot = self.pool.begin().await.map_err(failed(OPERATION))?;
        let position = match before {
            None => i64::MAX,
            Some(before) => {
                let found = query(RUN_POSITION.text)
                    .bind(before.to_string())
                    .fetch_optional(&mut *snapshot)
                    .await
                    .map_err(failed(OPERATION))?;
                let Some(found) = found else { return Ok(Vec::new()) };
                found.try_get(0).map_err(failed(OPERATION))?
            }
        };
        let page = query(statement.text);
        let rows = match of {
            None => page,
            Some(of) => page.bind(of),
        }
        .bind(position)
        .bind(i64::from(limit))
        .fetch_all(&mut *snapshot)
        .await
        .map_err(failed(OPERATION))?;
        rows.iter().map(row::run).collect()
    }

    pub(crate) async fn runs_of_pipeline(&self, name: &str, flows: u32, limit: u32) -> Answer<Vec<RunRecord>> {
        let rows = query(RUNS_OF_PIPELINE.text)
            .bind(name)
            .bind(i64::from(flows))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("runs_of_pipeline"))?;
        rows.iter().map(row::run).collect()
    }

    pub(crate) async fn run(&self, id: RunId) -> Answer<Option<RunRecord>> {
        let found = query(RUN_GET.text).bind(id.to_string()).fetch_optional(&self.pool).await.map_err(failed("run"))?;
        found.as_ref().map(row::run).transpose()
    }

    pub(crate) async fn requests(&self, filter: RequestFilter, limit: u32) -> Answer<Vec<RequestRecord>> {
        let statement = match filter {
            RequestFilter::Open => REQUESTS_OPEN,
            RequestFilter::Resolved => REQUESTS_RESOLVED,
        };
        let rows =
            query(statement.text).bind(i64::from(limit)).fetch_all(&self.pool).await.map_err(failed(statement.name))?;
        rows.iter().map(row::request).collect()
    }

    pub(crate) async fn request(&self, id: RequestId) -> Answer<Option<RequestRecord>> {
        let found =
            query(REQUEST_GET.text).bind(id.to_string()).fetch_optional(&self.pool).await.map_err(failed("request"))?;
        found.as_ref().map(row::request).transpose()
    }

    pub(crate) async fn answers(&self) -> Answer<Vec<AnswerCounts>> {
        const OPERATION: &str = "answers";
        let mut snapshot = self.pool.begin().await.map_err(failed(OPERATION))?;
        let rows = query(ANSWERS.text).fetch_all(&mut *snapshot).await.map_err(failed(OPERATION))?;
        let mut counts = Vec::with_capacity(rows.len());
        for found in &rows {
            let by = row::id_of(found, "requests", "answered_by")?;
            let place = Place { table: "requests", id: by };
            let (approved, denied) = (place.count(found, "approved")?, place.count(found, "denied")?);
            let middle = query(ANSWER_TIME_AT.text)
                .bind(by)
                .bind(signed((approved + denied).saturating_sub(1) / 2))
                .fetch_one(&mut *snapshot)
                .await
                .map_err(failed(OPERATION))?;
            let median = Millis::from_millis(place.count(&middle, "answer_time")?);
            counts.push(AnswerCounts { by: place.json(found, "answered_by")?, approved, denied, median });
        }
        Ok(counts)
    }

    pub(crate) async fn ids_ending(&self, suffix: &str, limit: u32) -> Answer<Vec<AnyId>> {
        // Ids hold nothing that LIKE reads as a pattern but `_`, which is looked at once more below.
        let is_id = suffix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_id || suffix.len() < ENDING {
            return Ok(Vec::new());
        }
        let mut ids = Vec::new();
        for (statement, table) in [(FLOWS_ENDING, "flows"), (RUNS_ENDING, "runs"), (REQUESTS_ENDING, "requests")] {
            let rows = query(statement.text)
                .bind(&suffix[suffix.len() - ENDING..])
                .bind(format!("%{suffix}"))
                .bind(i64::from(limit))
                .fetch_all(&self.pool)
                .await
                .map_err(failed("ids_ending"))?;
            for found in rows.iter() {
                let place = Place { table, id: row::id_of(found, table, "id")? };
                if place.id.ends_with(suffix) {
                    ids.push(match table {
                        "flows" => AnyId::Flow(place.parsed(found, "id")?),
                        "runs" => AnyId::Run(place.parsed(found, "id")?),
                        _ => AnyId::Request(place.parsed(found, "id")?),
                    });
                }
            }
        }
        ids.truncate(limit as usize);
        Ok(ids)
    }

    pub(crate) async fn totals(&self) -> Answer<Totals> {
        let mut snapshot = self.pool.begin().await.map_err(failed("totals"))?;
        let finished = query(COUNTER_GET.text)
            .bind(work::FLOWS_FINISHED)
            .fetch_one(&mut *snapshot)
            .await
            .map_err(failed("totals"))?;
        let finished_flows = Place { table: "counters", id: work::FLOWS_FINISHED }.count(&finished, "value")?;
        let [live_flows] = numbers(&mut snapshot, FLOWS_LIVE_COUNT).await?;
        let [queued_flows] = numbers(&mut snapshot, FLOWS_QUEUED_COUNT).await?;
        let [live_runs, working_flows] = numbers(&mut snapshot, RUNS_LIVE_COUNTS).await?;
        let [slots] = numbers(&mut snapshot, SLOTS_COUNT).await?;
        let [open_requests] = numbers(&mut snapshot, REQUESTS_OPEN_COUNT).await?;
        let [pending_effects] = numbers(&mut snapshot, EFFECTS_COUNT).await?;
        let [last_event] = numbers(&mut snapshot, EVENTS_LAST).await?;
        Ok(Totals {
            live_flows,
            queued_flows,
            waiting_flows: live_flows.saturating_sub(queued_flows).saturating_sub(working_flows),
            finished_flows,
            live_runs,
            slots_used: u32::try_from(slots).unwrap_or(u32::MAX),
            open_requests,
            pending_effects,
            last_event,
            bytes: size(&self.path) + size(&beside(&self.path, "-wal")),
        })
    }
}

/// Bytes of a file, zero if it is not there.
pub(crate) fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

async fn all(
    connection: &mut SqliteConnection,
    operation: &'static str,
    statement: Statement,
    id: &str,
) -> Answer<Vec<SqliteRow>> {
    query(statement.text).bind(id).fetch_all(connection).await.map_err(failed(operation))
}

/// The one row of counts that a statement returns.
async fn numbers<const N: usize>(connection: &mut SqliteConnection, statement: Statement) -> Answer<[u64; N]> {
    let found = query(statement.text).fetch_one(connection).await.map_err(failed(statement.name))?;
    let mut numbers = [0; N];
    for (column, number) in numbers.iter_mut().enumerate() {
        *number = found.try_get::<i64, _>(column).map_err(failed(statement.name))?.unsigned_abs();
    }
    Ok(numbers)
}

/// The id of a flow in a row that is keyed by it.
fn flow_id(found: &SqliteRow, column: usize) -> Answer<FlowId> {
    let text: &str = found.try_get(column).map_err(failed("flow_id"))?;
    text.parse().map_err(|error| Place { table: "flows", id: text }.corrupt("id", &error))
}

async fn step_counts(connection: &mut SqliteConnection, flow: &str) -> Answer<StepCounts> {
    let mut counts = StepCounts::default();
    for found in &all(connection, "flows", STEPS_COUNTS, flow).await? {
        let place = Place { table: "steps", id: flow };
        let status: &str = place.column(found, "status")?;
        let number: i64 = found.try_get(1).map_err(failed("flows"))?;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let counter = match status {
            "blocked" => &mut counts.blocked,
            "ready" => &mut counts.ready,
            "active" => &mut counts.active,
            "waiting" => &mut counts.waiting,
            "waiting_outside" => {
                counts.waiting_outside = number;
                &mut counts.waiting
            }
            "succeeded" => &mut counts.succeeded,
            "failed" => &mut counts.failed,
            "skipped" => &mut counts.skipped,
            "cancelled" => &mut counts.cancelled,
            other => return Err(place.corrupt("status", &format_args!("`{other}` is no status of a step"))),
        };
        *counter = counter.saturating_add(number);
    }
    Ok(counts)
}
