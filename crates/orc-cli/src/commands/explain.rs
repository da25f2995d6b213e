//! `explain`: why something is not running, or why it ended as it did.

use orc_domain::flow::{Flow, Step, StepOutcome, StepState};
use orc_domain::ids::FlowId;
use orc_domain::ledger::Sum;
use orc_domain::meter::Owner;
use orc_domain::path::StepPath;
use orc_domain::time::Timestamp;
use orc_ports::ledger::CostReader as _;
use orc_ports::reader::AnyId;
use orc_store_sqlite::SqliteReader;
use serde_json::json;

use crate::args::ExplainArgs;
use crate::context::Context;
use crate::evidence::Carrier;
use crate::exit::Exit;
use crate::explanation::{Explanation, explain_flow, explain_step};
use crate::failure::{CommandResult, Failure, not_found};
use crate::hold::of_store;
use crate::look::Look;
use crate::output::{self, Form};
use crate::view::cost;

/// Steps that are explained when a whole flow is asked about.
const MOST_STEPS: usize = 20;

pub(crate) async fn run(context: &Context, args: &ExplainArgs) -> CommandResult {
    let reader = context.reader().await?;
    let (flow, of_run) = context.step_of(&reader, &args.id).await?;
    let carrier = Carrier::see(context).await;
    let look = Look::with_past(context, &reader, flow).await?;
    let facts = look.facts(&carrier);
    let spent = spent(context, &reader, flow, &args.id).await?;
    let path = match &args.step {
        Some(step) => Some(parse_step(&look.flow, step)?),
        None => of_run,
    };
    let (explanations, hidden) = match path {
        Some(path) => {
            let step = look.flow.step_at(&path);
            let step = step.ok_or_else(|| not_found(format!("{flow} has no step `{path}`")))?;
            (vec![explain_step(&facts, step)], 0)
        }
        None => {
            let mut steps = interesting(&look.flow);
            let hidden = steps.len().saturating_sub(MOST_STEPS);
            steps.truncate(MOST_STEPS);
            let steps = steps.into_iter().map(|step| explain_step(&facts, step));
            (std::iter::once(explain_flow(&facts)).chain(steps).collect(), hidden)
        }
    };
    if args.output.output == Form::Table {
        output::text(&text(&explanations, hidden, look.now))?;
        if let Some(cost) = cost::words(&spent) {
            output::text_line(&format!("through the gateway: {cost}"))?;
        }
    } else {
        let document = json!({
            "schema": "orc/explanation/1", "flow": flow, "explanations": explanations, "not_shown": hidden,
            "ledger": cost::document(&spent),
        });
        output::document(args.output.output, &document, Some("explanations"))?;
    }
    Ok(Exit::Success)
}

/// What calls of models used below what an id means: the run, else the flow with its children.
async fn spent(context: &Context, reader: &SqliteReader, flow: FlowId, id: &str) -> CommandResult<Sum> {
    let owner = match context.any_of(reader, id).await? {
        AnyId::Run(run) => Owner::Run(run),
        AnyId::Flow(_) | AnyId::Request(_) => Owner::Flow(flow),
    };
    reader.spent(owner).await.map_err(of_store)
}

/// A path that a person wrote, which must be one of the flow's.
pub(crate) fn parse_step(flow: &Flow, text: &str) -> CommandResult<StepPath> {
    let path = text.parse::<StepPath>();
    let path = path.map_err(|error| Failure::new(Exit::Usage, format!("`{text}` is no step")).because(error))?;
    if flow.step_at(&path).is_some() {
        return Ok(path);
    }
    let failure = not_found(format!("{} has no step `{path}`", flow.spec.id));
    let close = orc_domain::suggest::closest(text, flow.steps.iter().map(|step| step.path.as_str()));
    Err(match close {
        Some(close) => failure.hint(format!("did you mean `{close}`?")),
        None => failure.hint(format!("`orchestrator flows show {}` lists its steps", flow.spec.id)),
    })
}

/// What is worth explaining: of a live flow what is not over, of a finished one what did not succeed.
fn interesting(flow: &Flow) -> Vec<&Step> {
    let wanted = |step: &&Step| match &step.state {
        StepState::Finished { outcome } => {
            flow.is_finished() && !matches!(outcome, StepOutcome::Succeeded | StepOutcome::NoChange)
        }
        _ => !flow.is_finished(),
    };
    flow.steps.iter().filter(wanted).collect()
}

fn text(explanations: &[Explanation], hidden: usize, now: Timestamp) -> String {
    let mut text = String::new();
    for explanation in explanations {
        let Explanation { of, state, since, reason, unblocked_by, alarm, hints } = explanation;
        text.push_str(&format!("{of}: {state} for {}\n", now.since(*since)));
        if let Some(alarm) = alarm {
            text.push_str(&format!("  ! {alarm}\n"));
        }
        text.push_str(&format!("  why:    {reason}\n  change: {unblocked_by}\n"));
        for hint in hints {
            text.push_str(&format!("  try:    {hint}\n"));
        }
    }
    if hidden > 0 {
        text.push_str(&format!("... and {hidden} more steps; `--step PATH` explains one\n"));
    }
    text
}
