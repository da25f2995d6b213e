//! Every SQL statement of the store, and scripts made of them.
//!
//! A statement is one file below `sql/`, in the subset that SQLite and PostgreSQL both speak; [`STATEMENTS`] lists them
//! all, and a test prepares each on both. Parameters are `$1`, `$2` ... and a literal `$` occurs nowhere else.
//!
//! A [`Script`] is the statements of one write. Nothing in it depends on what an earlier statement of it found; whoever
//! made it judges the counts afterwards and takes everything back if they are wrong.

use std::collections::BTreeMap;

use rusqlite::Connection;
use rusqlite::types::Value;

/// One statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The name of its file without `.sql`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) const $name: Statement =
            Statement { name: $file, text: include_str!(concat!("../sql/", $file, ".sql")) };)*

        /// All of them, in order of name.
        pub const STATEMENTS: &[Statement] = &[$($name,)*];
    };
}

statements! {
    ANSWER_TIME_AT = "answer_time_at";
    ANSWERS = "answers";
    CHECK_EVENT_GAPS = "check_event_gaps";
    CHECK_FINISHED_COUNT = "check_finished_count";
    CHECK_LEDGER_OPEN = "check_ledger_open";
    CHECK_LEDGER_OPEN_OF_ENDED = "check_ledger_open_of_ended";
    CHECK_LEDGER_SUMS = "check_ledger_sums";
    CHECK_LIVE_RUNS_OF_FINISHED_FLOWS = "check_live_runs_of_finished_flows";
    CHECK_LIVE_RUNS_WITHOUT_SLOT = "check_live_runs_without_slot";
    CHECK_OPEN_REQUESTS_OF_FINISHED_FLOWS = "check_open_requests_of_finished_flows";
    CHECK_PLACES_OF_FINISHED_FLOWS = "check_places_of_finished_flows";
    CHECK_SLOTS_WITHOUT_LIVE_RUN = "check_slots_without_live_run";
    CHECK_UNFINISHED_WITHOUT_ALARM = "check_unfinished_without_alarm";
    CONSUMER_ADVANCE = "consumer_advance";
    CONSUMER_GET = "consumer_get";
    CONSUMER_INSERT = "consumer_insert";
    COUNTER_ADD = "counter_add";
    COUNTER_GET = "counter_get";
    EFFECT_DELETE = "effect_delete";
    EFFECT_INSERT = "effect_insert";
    EFFECTS_COUNT = "effects_count";
    EFFECTS_OF_FLOW = "effects_of_flow";
    EFFECTS_OF_FLOW_DELETE = "effects_of_flow_delete";
    EVENT_INSERT = "event_insert";
    EVENTS_AFTER = "events_after";
    EVENTS_DELETE = "events_delete";
    EVENTS_LAST = "events_last";
    EVENTS_OF_FLOW = "events_of_flow";
    FLOW_DELETE = "flow_delete";
    FLOW_FINISH = "flow_finish";
    FLOW_GET = "flow_get";
    FLOW_INSERT = "flow_insert";
    FLOW_UPDATE = "flow_update";
    FLOWS_ALL = "flows_all";
    FLOWS_DUE = "flows_due";
    FLOWS_ENDING = "flows_ending";
    FLOWS_FINISHED = "flows_finished";
    FLOWS_FINISHED_BEFORE = "flows_finished_before";
    FLOWS_LIVE = "flows_live";
    FLOWS_LIVE_COUNT = "flows_live_count";
    FLOWS_QUEUED_COUNT = "flows_queued_count";
    FLOWS_UNFINISHED = "flows_unfinished";
    FLOWS_WAITING_FOR = "flows_waiting_for";
    FLOWS_WITH_EFFECTS = "flows_with_effects";
    FLOWS_WITH_LIVE_RUNS = "flows_with_live_runs";
    INSTANCE_END = "instance_end";
    INSTANCE_EXISTS = "instance_exists";
    INSTANCE_INSERT = "instance_insert";
    INSTANCES_OPEN = "instances_open";
    LEDGER_ACCOUNT_INSERT = "ledger_account_insert";
    LEDGER_CALL_EXISTS = "ledger_call_exists";
    LEDGER_CALL_INSERT = "ledger_call_insert";
    LEDGER_CALLS = "ledger_calls";
    LEDGER_CALLS_OF_OWNER = "ledger_calls_of_owner";
    LEDGER_COSTS = "ledger_costs";
    LEDGER_END_INSERT = "ledger_end_insert";
    LEDGER_ENDS_LOSE = "ledger_ends_lose";
    LEDGER_OPEN_DELETE = "ledger_open_delete";
    LEDGER_OPEN_INSERT = "ledger_open_insert";
    LEDGER_OPEN_LOSE = "ledger_open_lose";
    LEDGER_OWNER_INSERT = "ledger_owner_insert";
    LEDGER_SPENT = "ledger_spent";
    LEDGER_SUM_RESERVE = "ledger_sum_reserve";
    LEDGER_SUM_SETTLE = "ledger_sum_settle";
    LEDGER_SUMS_LOSE = "ledger_sums_lose";
    PIPELINE_GET = "pipeline_get";
    PIPELINE_INSERT = "pipeline_insert";
    PLACE_DELETE = "place_delete";
    PLACE_INSERT = "place_insert";
    PLACES_OF_FLOW_DELETE = "places_of_flow_delete";
    PLACES_OF_OTHERS = "places_of_others";
    REQUEST_GET = "request_get";
    REQUEST_UPSERT = "request_upsert";
    REQUESTS_ENDING = "requests_ending";
    REQUESTS_OF_FLOW_DELETE = "requests_of_flow_delete";
    REQUESTS_OPEN = "requests_open";
    REQUESTS_OPEN_COUNT = "requests_open_count";
    REQUESTS_OPEN_OF_FLOW = "requests_open_of_flow";
    REQUESTS_RESOLVED = "requests_resolved";
    RUN_CLAIM = "run_claim";
    RUN_EXISTS = "run_exists";
    RUN_FINISH = "run_finish";
    RUN_GET = "run_get";
    RUN_POSITION = "run_position";
    RUN_UPSERT = "run_upsert";
    RUNS_ALL = "runs_all";
    RUNS_BY_AGENT = "runs_by_agent";
    RUNS_ENDING = "runs_ending";
    RUNS_LIVE_COUNTS = "runs_live_counts";
    RUNS_LIVE_OF_FLOW = "runs_live_of_flow";
    RUNS_OF_FLOW = "runs_of_flow";
    RUNS_OF_FLOW_DELETE = "runs_of_flow_delete";
    RUNS_OF_PIPELINE = "runs_of_pipeline";
    SCAN_EFFECTS = "scan_effects";
    SCAN_EVENTS = "scan_events";
    SCAN_FLOWS = "scan_flows";
    SCAN_LEDGER_ACCOUNTS = "scan_ledger_accounts";
    SCAN_LEDGER_CALLS = "scan_ledger_calls";
    SCAN_PIPELINES = "scan_pipelines";
    SCAN_REQUESTS = "scan_requests";
    SCAN_RUNS = "scan_runs";
    SCAN_STEPS = "scan_steps";
    SLOT_DELETE = "slot_delete";
    SLOT_INSERT = "slot_insert";
    SLOTS_COUNT = "slots_count";
    STEP_UPSERT = "step_upsert";
    STEPS_COUNTS = "steps_counts";
    STEPS_OF_FLOW = "steps_of_flow";
    STEPS_OF_FLOW_DELETE = "steps_of_flow_delete";
}

/// Statements in order, with their arguments.
#[derive(Default)]
pub(crate) struct Script {
    /// Each with the number of its arguments.
    statements: Vec<(Statement, usize)>,
    arguments: Vec<Value>,
}

/// What one statement did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// [`Statement::name`].
    pub(crate) statement: &'static str,
    /// Rows inserted, updated or deleted; 0 for a query.
    pub(crate) changed: usize,
    /// Rows returned: the first column of each, empty where that is no text.
    pub(crate) returned: Vec<String>,
}

/// A script that stopped at an error.
pub(crate) struct Stopped {
    /// What ran before.
    pub(crate) ran: Vec<Ran>,
    /// Why it stopped.
    pub(crate) source: rusqlite::Error,
}

/// Takes the arguments of a statement in order.
pub(crate) struct Bind<'s> {
    arguments: &'s mut Vec<Value>,
    count: &'s mut usize,
}

impl Bind<'_> {
    /// The next argument.
    pub(crate) fn bind(self, value: impl Into<Value>) -> Self {
        self.arguments.push(value.into());
        *self.count += 1;
        self
    }
}

impl Script {
    /// Adds a statement; its arguments follow.
    pub(crate) fn push(&mut self, statement: Statement) -> Bind<'_> {
        let Self { statements, arguments } = self;
        let (_, count) = statements.push_mut((statement, 0));
        Bind { arguments, count }
    }

    /// Runs everything in order.
    pub(crate) fn run(self, connection: &Connection, texts: &Texts) -> Result<Vec<Ran>, Stopped> {
        let mut ran = Vec::with_capacity(self.statements.len());
        let mut arguments = self.arguments.into_iter();
        for (statement, count) in self.statements {
            match run_one(connection, texts.of(statement), arguments.by_ref().take(count)) {
                Ok((changed, returned)) => ran.push(Ran { statement: statement.name, changed, returned }),
                Err(source) => return Err(Stopped { ran, source }),
            }
        }
        Ok(ran)
    }
}

fn run_one(
    connection: &Connection,
    text: &str,
    arguments: impl Iterator<Item = Value>,
) -> Result<(usize, Vec<String>), rusqlite::Error> {
    let mut prepared = connection.prepare_cached(text)?;
    for (index, argument) in arguments.enumerate() {
        prepared.raw_bind_parameter(index + 1, argument)?;
    }
    if prepared.column_count() == 0 {
        return Ok((prepared.raw_execute()?, Vec::new()));
    }
    let mut rows = prepared.raw_query();
    let mut returned = Vec::new();
    while let Some(row) = rows.next()? {
        returned.push(row.get_ref(0)?.as_str().unwrap_or_default().to_owned());
    }
    Ok((0, returned))
}

/// The statements as SQLite numbers parameters: to it `$2` is a name, whose number is that of its first place, and `?2`
/// is the second.
pub(crate) struct Texts(BTreeMap<&'static str, String>);

impl Texts {
    pub(crate) fn new() -> Self {
        Self(STATEMENTS.iter().map(|statement| (statement.name, statement.text.replace('$', "?"))).collect())
    }

    fn of(&self, statement: Statement) -> &str {
        self.0.get(statement.name).map_or(statement.text, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_listed_once_and_holds_one_statement() {
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let listed: Vec<String> = STATEMENTS.iter().map(|statement| format!("{}.sql", statement.name)).collect();
        assert_eq!(files, listed);
        for statement in STATEMENTS {
            assert!(!statement.text.contains(';'), "{} holds more than one statement", statement.name);
        }
    }
}
