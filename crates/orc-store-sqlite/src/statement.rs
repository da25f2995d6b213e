//! Every SQL statement of the store, and scripts made of them.
//!
//! A statement is one file below `sql/`, in the subset that SQLite and PostgreSQL both speak; [`STATEMENTS`] lists them
//! all, and a test prepares each on both. Parameters are `$1`, `$2` ... and a literal `$` occurs nowhere else.
//!
//! A [`Script`] is several statements sent to the database at once: each call to the driver crosses to the thread of its
//! connection and back, which costs more than a small statement does. Nothing in a script depends on what an earlier
//! statement of it found; whoever made it judges the counts afterwards and takes everything back if they are wrong.

use std::fmt::Write as _;

use futures_util::TryStreamExt as _;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments as _, AssertSqlSafe, Either, Encode, Executor as _, Row as _, SqlSafeStr as _, Sqlite, Type};

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
    EVENT_INSERT = "event_insert";
    EVENTS_AFTER = "events_after";
    EVENTS_LAST = "events_last";
    EVENTS_OF_FLOW = "events_of_flow";
    FLOW_FINISH = "flow_finish";
    FLOW_GET = "flow_get";
    FLOW_INSERT = "flow_insert";
    FLOW_UPDATE = "flow_update";
    FLOWS_ALL = "flows_all";
    FLOWS_DUE = "flows_due";
    FLOWS_ENDING = "flows_ending";
    FLOWS_FINISHED = "flows_finished";
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
    PIPELINE_GET = "pipeline_get";
    PIPELINE_INSERT = "pipeline_insert";
    PLACE_DELETE = "place_delete";
    PLACE_INSERT = "place_insert";
    PLACES_OF_OTHERS = "places_of_others";
    REQUEST_GET = "request_get";
    REQUEST_UPSERT = "request_upsert";
    REQUESTS_ENDING = "requests_ending";
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
    SCAN_EFFECTS = "scan_effects";
    SCAN_EVENTS = "scan_events";
    SCAN_FLOWS = "scan_flows";
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
}

/// Statements sent at once: texts of that length are prepared and kept by the connection, by their text.
const STATEMENTS_PER_CALL: usize = 48;

/// Statements in order, with their arguments.
#[derive(Default)]
pub(crate) struct Script {
    calls: Vec<Call>,
}

#[derive(Default)]
struct Call {
    text: String,
    arguments: SqliteArguments,
    statements: Vec<&'static str>,
}

/// What one statement did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// [`Statement::name`].
    pub(crate) statement: &'static str,
    /// Rows inserted, updated or deleted; meaningless for a query.
    pub(crate) changed: u64,
    /// Rows returned: the first column of each, empty where that is no text.
    pub(crate) returned: Vec<String>,
}

/// A script that stopped at an error.
pub(crate) struct Stopped {
    /// What ran before.
    pub(crate) ran: Vec<Ran>,
    /// Why it stopped.
    pub(crate) source: sqlx::Error,
}

/// Takes the arguments of a statement in order.
pub(crate) struct Bind<'s> {
    arguments: &'s mut SqliteArguments,
}

impl Bind<'_> {
    /// The next argument. Integers and text cannot fail to encode, and an argument that is missing would be NULL, which
    /// no guarded column takes.
    pub(crate) fn bind<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(self, value: T) -> Self {
        if let Err(error) = self.arguments.add(value) {
            tracing::error!(%error, "an argument could not be encoded");
        }
        self
    }
}

impl Script {
    /// Adds a statement; its arguments follow.
    pub(crate) fn push(&mut self, statement: Statement) -> Bind<'_> {
        let full = self.calls.last().is_none_or(|call| call.statements.len() >= STATEMENTS_PER_CALL);
        if full {
            self.calls.push(Call::default());
        }
        let last = self.calls.len() - 1;
        let call = &mut self.calls[last];
        call.statements.push(statement.name);
        renumber(statement.text, call.arguments.len(), &mut call.text);
        call.text.push_str(";\n");
        Bind { arguments: &mut call.arguments }
    }

    /// Runs everything, `prefix` (statements without arguments, `count` of them) before it.
    pub(crate) async fn run(
        self,
        connection: &mut SqliteConnection,
        prefix: &'static str,
        count: usize,
    ) -> Result<Vec<Ran>, Stopped> {
        let mut ran = Vec::new();
        let mut skip = count;
        for (index, call) in self.calls.into_iter().enumerate() {
            let text = if index == 0 { format!("{prefix}{}", call.text) } else { call.text };
            let query = sqlx::query_with(AssertSqlSafe(text).into_sql_str(), call.arguments);
            let mut answers = connection.fetch_many(query);
            let mut names = call.statements.into_iter();
            let mut returned = Vec::new();
            loop {
                match answers.try_next().await {
                    Ok(None) => break,
                    Ok(Some(Either::Right(row))) => returned.push(row.try_get(0).unwrap_or_default()),
                    Ok(Some(Either::Left(_))) if skip > 0 => skip -= 1,
                    Ok(Some(Either::Left(done))) => {
                        let statement = names.next().unwrap_or("?");
                        let returned = std::mem::take(&mut returned);
                        ran.push(Ran { statement, changed: done.rows_affected(), returned });
                    }
                    Err(source) => return Err(Stopped { ran, source }),
                }
            }
        }
        Ok(ran)
    }
}

/// Appends `text` with `before` added to the number of each parameter.
fn renumber(text: &str, before: usize, into: &mut String) {
    let mut pieces = text.trim_end().split('$');
    into.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = piece[..digits].parse().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(into, "${}{}", number + before, &piece[digits..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_later_statements_are_renumbered() {
        let mut text = String::new();
        renumber("UPDATE t SET a = $2, b = $12 WHERE c = $1\n", 3, &mut text);
        assert_eq!(text, "UPDATE t SET a = $5, b = $15 WHERE c = $4");
    }

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
