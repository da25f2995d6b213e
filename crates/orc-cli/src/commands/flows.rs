//! `flows list` and `flows show`.

use orc_domain::flow::FlowState;
use orc_ports::reader::{FlowFilter, FlowLine, Reader as _};
use orc_store_sqlite::SqliteReader;
use serde_json::{Value, json};

use crate::args::{FlowsListArgs, IdArgs};
use crate::context::Context;
use crate::evidence::Carrier;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::hold::of_store;
use crate::look::Look;
use crate::output::{self, Form, say};
use crate::view::columns::Columns;
use crate::view::flow::{ago, text, words};
use crate::view::result::{self, state_word};

/// Unfinished flows that are read at once.
const PAGE: u32 = 500;

pub(crate) async fn list(context: &Context, args: &FlowsListArgs) -> CommandResult {
    let reader = context.reader().await?;
    let lines = lines(&reader, args).await?;
    if args.output.output == Form::Table {
        if lines.is_empty() {
            say(match args {
                FlowsListArgs { queued: true, .. } => "no flow is queued",
                FlowsListArgs { waiting: true, .. } => "no flow only waits",
                FlowsListArgs { live: true, .. } => "no flow is unfinished",
                _ => "there are no flows yet",
            });
            return Ok(Exit::Success);
        }
        let mut table = Columns::titled(&["FLOW", "PIPELINE", "STATE", "STEPS", "STARTED", "TOOK"]);
        let now = context.now();
        for line in &lines {
            let ended = match &line.state {
                FlowState::Finished { at, .. } => *at,
                FlowState::Live { .. } | FlowState::Queued { .. } => now,
            };
            let took = ended.since(line.spec.created_at).to_string();
            let (done, all) = counts(line);
            table.row([
                line.spec.id.to_string().as_str(),
                &line.spec.name,
                line_words(line),
                &format!("{done}/{all}"),
                &ago(line.spec.created_at, now),
                &took,
            ]);
        }
        output::text(&table.text(""))?;
    } else {
        let lines: Vec<Value> = lines.iter().map(line_document).collect();
        output::document(args.output.output, &json!({ "schema": "orc/flows/1", "flows": lines }), Some("flows"))?;
    }
    Ok(Exit::Success)
}

/// The flows that were asked for, newest first.
async fn lines(reader: &SqliteReader, args: &FlowsListArgs) -> CommandResult<Vec<FlowLine>> {
    if !args.waiting && !args.queued {
        let filter = if args.live { FlowFilter::Live } else { FlowFilter::All };
        return reader.flows(filter, None, args.limit).await.map_err(of_store);
    }
    let is_wanted = |line: &FlowLine| {
        if args.queued { matches!(line.state, FlowState::Queued { .. }) } else { line.is_waiting() }
    };
    let (most, mut found, mut before) = (args.limit as usize, Vec::new(), None);
    while found.len() < most {
        let page = reader.flows(FlowFilter::Live, before, PAGE).await.map_err(of_store)?;
        let Some(last) = page.last() else { break };
        before = Some(last.spec.id);
        found.extend(page.into_iter().filter(is_wanted).take(most - found.len()));
    }
    Ok(found)
}

/// Where a flow stands, in a few words.
fn line_words(line: &FlowLine) -> &'static str {
    if line.is_waiting() { "waiting" } else { words(&line.state) }
}

pub(crate) async fn show(context: &Context, args: &IdArgs) -> CommandResult {
    let reader = context.reader().await?;
    let flow = context.flow_of(&reader, &args.id).await?;
    let carrier = Carrier::see(context).await;
    let look = Look::with_past(context, &reader, flow).await?;
    print(&look, &carrier, args.output.output)?;
    Ok(Exit::Success)
}

/// Prints a flow in any form.
pub(crate) fn print(look: &Look, carrier: &Carrier, form: Form) -> CommandResult<()> {
    if form == Form::Table {
        return output::text(&text(look, carrier));
    }
    output::document(form, &document(look, carrier), None)
}

/// `orc/flow/1` with whether it is carried on.
pub(crate) fn document(look: &Look, carrier: &Carrier) -> Value {
    let mut document = result::document(&look.flow, &look.pipeline, &look.made);
    document["carried_on"] = json!(carrier.carries(look.flow.spec.id));
    document
}

/// Steps that are over, and all that exist.
pub(crate) fn counts(line: &FlowLine) -> (u32, u32) {
    let steps = &line.steps;
    let done = steps.succeeded + steps.failed + steps.skipped + steps.cancelled;
    (done, done + steps.blocked + steps.ready + steps.active + steps.waiting)
}

/// A flow without its steps.
pub(crate) fn line_document(line: &FlowLine) -> Value {
    let mut document = json!({
        "id": line.spec.id,
        "pipeline": line.spec.name,
        "directory": line.spec.directory,
        "requested_by": line.spec.requested_by.to_string(),
        "created_at": line.spec.created_at.to_string(),
        "updated_at": line.updated_at.to_string(),
        "wake_at": line.wake_at.map(|at| at.to_string()),
        "retry_of": line.spec.retry_of,
        "state": state_word(&line.state),
        "waiting": line.is_waiting(),
        "steps": line.steps,
    });
    if let FlowState::Finished { at, outcome } = &line.state {
        document["finished_at"] = json!(at.to_string());
        document["outcome"] = json!(outcome.word());
    }
    document
}
