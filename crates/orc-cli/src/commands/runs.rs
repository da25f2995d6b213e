//! `runs list` and `runs show`.

use orc_domain::meter::Owner;
use orc_ports::ledger::CostReader as _;
use orc_ports::reader::{AnyId, Reader as _, RunRecord};
use orc_store_sqlite::SqliteReader;
use serde_json::{Value, json};

use crate::args::{IdArgs, RunsListArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found};
use crate::hold::of_store;
use crate::look::evidence;
use crate::output::{self, Form, say};
use crate::view::agent::{liveness_of, usage_words};
use crate::view::columns::Columns;
use crate::view::flow::ago;
use crate::view::run::{document, document_with, text, took, word};

pub(crate) async fn list(context: &Context, args: &RunsListArgs) -> CommandResult {
    let reader = context.reader().await?;
    let flow = match &args.flow {
        Some(id) => Some(context.flow_of(&reader, id).await?),
        None => None,
    };
    let records = match &args.agent {
        Some(agent) => reader.runs_by_agent(agent.clone(), None, args.limit).await,
        None => reader.runs(flow, None, args.limit).await,
    };
    let records = records.map_err(of_store)?;
    if args.output.output == Form::Table {
        if records.is_empty() {
            say(&match &args.agent {
                Some(agent) => format!("agent {agent} has no runs"),
                None => "there are no runs yet".to_owned(),
            });
            return Ok(Exit::Success);
        }
        let mut table =
            Columns::titled(&["RUN", "STEP", "ATTEMPT", "STATE", "CREATED", "TOOK", "AGENT", "USED", "FLOW"]);
        let now = context.now();
        for record in &records {
            let run = &record.run;
            let agent = run.agent.as_ref();
            let liveness = liveness_of(run, Some(&evidence(context, run)), now);
            let name = agent.map_or_else(
                || "-".to_owned(),
                |agent| match liveness {
                    Some(liveness) => format!("{} ({})", agent.agent, liveness.word()),
                    None => agent.agent.clone(),
                },
            );
            table.row([
                run.id.to_string().as_str(),
                run.path.as_str(),
                &run.attempt.to_string(),
                word(&run.state),
                &ago(run.created_at, now),
                took(record, now).as_deref().unwrap_or("-"),
                &name,
                agent.and_then(|agent| usage_words(&agent.usage)).as_deref().unwrap_or("-"),
                &run.flow.to_string(),
            ]);
        }
        output::text(&table.text(""))?;
    } else {
        let records: Vec<Value> = records.iter().map(|record| document(record, context)).collect();
        output::document(args.output.output, &json!({ "schema": "orc/runs/1", "runs": records }), Some("runs"))?;
    }
    Ok(Exit::Success)
}

pub(crate) async fn show(context: &Context, args: &IdArgs) -> CommandResult {
    let reader = context.reader().await?;
    let record = run_of(context, &reader, &args.id).await?;
    print(&reader, &record, context, args.output.output).await?;
    Ok(Exit::Success)
}

/// Prints a run in any form.
pub(crate) async fn print(
    reader: &SqliteReader,
    record: &RunRecord,
    context: &Context,
    form: Form,
) -> CommandResult<()> {
    let spent = reader.spent(Owner::Run(record.run.id)).await.map_err(of_store)?;
    if form == Form::Table {
        return output::text(&text(record, context, &spent));
    }
    output::document(form, &document_with(record, context, &spent), None)
}

/// The run that an id means; a flow's id is refused.
pub(super) async fn run_of(context: &Context, reader: &SqliteReader, id: &str) -> CommandResult<RunRecord> {
    match context.any_of(reader, id).await? {
        AnyId::Run(run) => {
            let record = reader.run(run).await.map_err(of_store)?;
            record.ok_or_else(|| not_found(format!("there is no run {run}")))
        }
        AnyId::Request(request) => Err(Failure::new(Exit::Usage, format!("{request} is a request, not a run"))),
        AnyId::Flow(flow) => Err(Failure::new(Exit::Usage, format!("{flow} is a flow, not a run"))
            .hint(format!("`orchestrator runs list --flow {flow}` lists its runs"))),
    }
}
