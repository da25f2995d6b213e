//! Rows and how they are read back. A row that means nothing is named by table, id and column, never skipped.

use orc_domain::effect::{Effect, EffectKind};
use orc_domain::event::{EVENT_VERSION, Event, EventBody, Fact};
use orc_domain::flow::{FlowHead, FlowSpec, Step, StepOutcome, StepState};
use orc_domain::principal::Principal;
use orc_domain::request::Request;
use orc_domain::run::Run;
use orc_domain::time::Timestamp;
use orc_domain::wait::Wait;
use orc_ports::reader::{RequestRecord, RunRecord};
use orc_ports::store::{Instance, StoreError};
use serde::de::DeserializeOwned;
use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{Decode, Row as _, Type};

/// Where a value stands, for errors.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) table: &'static str,
    pub(crate) id: &'a str,
}

impl Place<'_> {
    /// The row cannot be read because of `column`.
    pub(crate) fn corrupt(&self, column: &str, why: &dyn std::fmt::Display) -> StoreError {
        StoreError::Corrupt { table: self.table, id: self.id.to_owned(), what: format!("column `{column}`: {why}") }
    }

    /// A column as the driver gives it.
    pub(crate) fn column<'r, T>(&self, row: &'r SqliteRow, column: &'static str) -> Result<T, StoreError>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite>,
    {
        row.try_get(column).map_err(|error| self.corrupt(column, &error))
    }

    /// A column that holds JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, row: &SqliteRow, column: &'static str) -> Result<T, StoreError> {
        let text: &str = self.column(row, column)?;
        serde_json::from_str(text).map_err(|error| self.corrupt(column, &error))
    }

    /// A column that holds text of a form of its own.
    pub(crate) fn parsed<T>(&self, row: &SqliteRow, column: &'static str) -> Result<T, StoreError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let text: &str = self.column(row, column)?;
        text.parse().map_err(|error: T::Err| self.corrupt(column, &error))
    }

    /// A column that holds a count, a position or a number of a row.
    pub(crate) fn count(&self, row: &SqliteRow, column: &'static str) -> Result<u64, StoreError> {
        let number: i64 = self.column(row, column)?;
        u64::try_from(number).map_err(|error| self.corrupt(column, &error))
    }
}

/// The id of a row that is keyed by one, for errors about its other columns.
pub(crate) fn id_of<'r>(row: &'r SqliteRow, table: &'static str, column: &'static str) -> Result<&'r str, StoreError> {
    Place { table, id: "?" }.column(row, column)
}

/// `spec, head` of a flow; both must speak of the flow that was asked for.
pub(crate) fn flow(row: &SqliteRow, id: &str) -> Result<(FlowSpec, FlowHead), StoreError> {
    let place = Place { table: "flows", id };
    let spec: FlowSpec = place.json(row, "spec")?;
    if spec.id.to_string() != id {
        return Err(place.corrupt("spec", &format_args!("it is about {}", spec.id)));
    }
    Ok((spec, place.json(row, "head")?))
}

/// `no, data` of a step.
pub(crate) fn step(row: &SqliteRow, flow: &str) -> Result<Step, StoreError> {
    let no: i64 = Place { table: "steps", id: flow }.column(row, "no")?;
    let id = format!("{flow} no {no}");
    let place = Place { table: "steps", id: &id };
    let step: Step = place.json(row, "data")?;
    if i64::from(step.no.0) != no {
        return Err(place.corrupt("data", &format_args!("it is about step {}", step.no.0)));
    }
    Ok(step)
}

/// `id, claimed_by, started_at, process, data` of a run.
pub(crate) fn run(row: &SqliteRow) -> Result<RunRecord, StoreError> {
    let id = id_of(row, "runs", "id")?;
    let place = Place { table: "runs", id };
    let run: Run = place.json(row, "data")?;
    if run.id.to_string() != id {
        return Err(place.corrupt("data", &format_args!("it is about {}", run.id)));
    }
    let claimed_by: Option<&str> = place.column(row, "claimed_by")?;
    let claimed_by = claimed_by.map(str::parse).transpose().map_err(|error| place.corrupt("claimed_by", &error))?;
    let process: Option<&str> = place.column(row, "process")?;
    let process = process.map(serde_json::from_str).transpose().map_err(|error| place.corrupt("process", &error))?;
    let started_at: Option<i64> = place.column(row, "started_at")?;
    Ok(RunRecord { run, claimed_by, started_at: started_at.map(Timestamp::from_millis), process })
}

/// `id, opened_at, data` of a request.
pub(crate) fn request(row: &SqliteRow) -> Result<RequestRecord, StoreError> {
    let id = id_of(row, "requests", "id")?;
    let place = Place { table: "requests", id };
    let request: Request = place.json(row, "data")?;
    if request.id.to_string() != id {
        return Err(place.corrupt("data", &format_args!("it is about {}", request.id)));
    }
    let opened_at: i64 = place.column(row, "opened_at")?;
    Ok(RequestRecord { request, opened_at: Timestamp::from_millis(opened_at) })
}

/// All columns of an event.
pub(crate) fn event(row: &SqliteRow) -> Result<Event, StoreError> {
    let position: i64 = Place { table: "events", id: "?" }.column(row, "position")?;
    let id = position.to_string();
    let place = Place { table: "events", id: &id };
    let version = place.count(row, "v")?;
    if version != u64::from(EVENT_VERSION) {
        return Err(place.corrupt("v", &format_args!("version {version} of an event is not known")));
    }
    let at: i64 = place.column(row, "at")?;
    let fact: Fact = place.json(row, "data")?;
    let actor: Principal = place.json(row, "actor")?;
    Ok(Event {
        position: place.count(row, "position")?,
        flow: place.parsed(row, "flow")?,
        workspace: place.parsed(row, "workspace")?,
        body: EventBody { at: Timestamp::from_millis(at), actor, fact },
    })
}

/// `id, data` of an effect.
pub(crate) fn effect(row: &SqliteRow) -> Result<Effect, StoreError> {
    let place = Place { table: "effects", id: id_of(row, "effects", "id")? };
    let kind: EffectKind = place.json(row, "data")?;
    Ok(Effect { id: place.parsed(row, "id")?, kind })
}

/// An instance.
pub(crate) fn instance(row: &SqliteRow) -> Result<Instance, StoreError> {
    let place = Place { table: "instances", id: id_of(row, "instances", "id")? };
    let began_at: i64 = place.column(row, "began_at")?;
    Ok(Instance {
        id: place.parsed(row, "id")?,
        pid: place.column(row, "pid")?,
        command: place.column(row, "command")?,
        began_at: Timestamp::from_millis(began_at),
    })
}

/// The word in `steps.status`; [`orc_ports::reader::StepCounts`] counts by it.
pub(crate) const fn step_status(state: &StepState) -> &'static str {
    match state {
        StepState::Blocked => "blocked",
        StepState::Ready { .. } => "ready",
        StepState::Active { .. } => "active",
        StepState::Waiting(Wait::Elements(_) | Wait::Round(_)) => "waiting",
        StepState::Waiting(Wait::Flow { .. } | Wait::Request { .. } | Wait::Until { .. } | Wait::Event { .. }) => {
            "waiting_outside"
        }
        StepState::Finished { outcome } => match outcome {
            StepOutcome::Succeeded | StepOutcome::NoChange => "succeeded",
            StepOutcome::Failed(_) => "failed",
            StepOutcome::Skipped(_) => "skipped",
            StepOutcome::Cancelled => "cancelled",
        },
    }
}
