//! `status`: what needs a person, what runs, what waits and why, what happened last, and the figures.
//!
//! Every line comes from the store or from what can be seen of a process now; what is not known is said to be unknown.
//! Reads are bounded: live flows beyond [`FLOWS`] are counted, not loaded.

pub(crate) mod report;
mod watch;

use orc_domain::flow::{FlowOutcome, FlowState, Step, StepOutcome, StepState};
use orc_domain::ids::FlowId;
use orc_domain::run::{Cause, RunState};
use orc_ports::reader::{AnyId, FlowFilter, FlowLine, Reader as _};
use orc_store_sqlite::SqliteReader;

use self::report::{Need, Recent, Report, Running, Waiting};
use super::{flows, runs};
use crate::args::StatusArgs;
use crate::context::Context;
use crate::evidence::{Carrier, Says};
use crate::exit::Exit;
use crate::explanation::explain_step;
use crate::failure::{CommandResult, not_found};
use crate::hold::of_store;
use crate::look::{Look, slot_holders};
use crate::output::{self, Form};
use crate::view::progress::outcome_words;

/// Live flows that are shown with their steps.
const FLOWS: u32 = 20;
/// Lines of one flow in a section.
const LINES: usize = 10;
/// Finished flows that are shown.
const RECENT: u32 = 10;

pub(crate) async fn run(context: &Context, args: &StatusArgs) -> CommandResult {
    if args.watch {
        return watch::run(context, args).await;
    }
    let reader = context.reader().await?;
    let form = args.output.output;
    let Some(id) = &args.id else {
        let report = report(context, &reader).await?;
        match form {
            Form::Table => output::text(&report.text(context.now()))?,
            form => output::document(form, &report.document(), None)?,
        }
        return Ok(Exit::Success);
    };
    match context.any_of(&reader, id).await? {
        AnyId::Flow(flow) => {
            let carrier = Carrier::see(context).await;
            let look = Look::with_past(context, &reader, flow).await?;
            flows::print(&look, &carrier, form)?;
        }
        AnyId::Run(run) => {
            let record = reader.run(run).await.map_err(of_store)?;
            let record = record.ok_or_else(|| not_found(format!("there is no run {run}")))?;
            runs::print(&record, context, form)?;
        }
    }
    Ok(Exit::Success)
}

async fn report(context: &Context, reader: &SqliteReader) -> CommandResult<Report> {
    let totals = reader.totals().await.map_err(of_store)?;
    let live = reader.flows(FlowFilter::Live, None, FLOWS).await.map_err(of_store)?;
    let recent = reader.flows(FlowFilter::Finished, None, RECENT).await.map_err(of_store)?;
    let carrier = Carrier::see(context).await;
    let mut report = Report::new(context, &carrier, totals, live.len());
    // One that begins or ends is silent for a moment; without flows that needs nobody.
    if let Carrier::Process { says: Says::Nothing(why), .. } = &carrier
        && !live.is_empty()
    {
        report.needs_you.push(Need::holder(format!("{} does not answer: {why}", carrier.name())));
    }
    if let Carrier::Process { says: Says::Carries { trouble: Some(trouble), .. }, .. } = &carrier {
        report.needs_you.push(Need::holder(format!("{} cannot go on: {trouble}", carrier.name())));
    }
    let mut looks = Vec::with_capacity(live.len());
    for line in &live {
        looks.push(Look::at_present(context, reader, line.spec.id).await?);
    }
    let slots = slot_holders(looks.iter().map(|look| &look.flow));
    for look in &mut looks {
        look.slots.clone_from(&slots);
        add_live(&mut report, look, &carrier);
    }
    let retried: Vec<FlowId> = live.iter().chain(&recent).filter_map(|line| line.spec.retry_of).collect();
    for line in &recent {
        add_finished(&mut report, reader, line, retried.contains(&line.spec.id)).await?;
    }
    Ok(report)
}

fn add_live(report: &mut Report, look: &Look, carrier: &Carrier) {
    let flow = &look.flow;
    if flow.is_finished() {
        // It ended between two reads.
        return;
    }
    let id = flow.spec.id;
    if carrier.carries(id) == Some(false) {
        let what = "nobody carries it on".to_owned();
        let command = format!("orchestrator flows resume {id}");
        report.needs_you.push(Need {
            flow: Some(id),
            step: None,
            since: flow.head.seen.into(),
            what,
            command: Some(command),
        });
    }
    report.needs_you.extend(lost_for_good(&flow.steps, id));
    let facts = look.facts(carrier);
    let mut waiting = Vec::new();
    for step in &flow.steps {
        match &step.state {
            StepState::Active { run } => {
                let evidence = look.evidence(*run);
                let (since, pid) = match flow.runs.get(run).map(|run| &run.state) {
                    Some(RunState::Running { since, process, .. }) => (*since, Some(process.pid)),
                    Some(RunState::Pending { since, .. }) => (*since, None),
                    _ => (step.since, None),
                };
                report.running.push(Running {
                    flow: id,
                    pipeline: flow.spec.name.clone(),
                    step: step.path.clone(),
                    run: *run,
                    attempt: step.attempts,
                    since,
                    pid,
                    process: evidence.map(|evidence| evidence.process.word()),
                    last_output_at: evidence.and_then(|evidence| evidence.last_output_at),
                });
            }
            StepState::Finished { .. } => {}
            _ => waiting.push(step),
        }
    }
    // What may start first; what needs others last.
    waiting.sort_by_key(|step| matches!(step.state, StepState::Blocked));
    report.steps_not_shown += waiting.len().saturating_sub(LINES);
    report.waiting.extend(waiting.into_iter().take(LINES).map(|step| Waiting {
        flow: id,
        pipeline: flow.spec.name.clone(),
        step: step.path.clone(),
        since: step.since,
        reason: explain_step(&facts, step).reason,
    }));
}

async fn add_finished(report: &mut Report, reader: &SqliteReader, line: &FlowLine, retried: bool) -> CommandResult<()> {
    let FlowState::Finished { at, outcome } = &line.state else { return Ok(()) };
    let id = line.spec.id;
    if *outcome == FlowOutcome::Failed && !retried && line.steps.failed > 0 {
        let flow = reader.flow(id).await.map_err(of_store)?;
        report.needs_you.extend(flow.iter().flat_map(|flow| lost_for_good(&flow.steps, id)));
    }
    let (created_at, finished_at) = (line.spec.created_at, *at);
    report.recent.push(Recent {
        flow: id,
        pipeline: line.spec.name.clone(),
        outcome: outcome.word(),
        created_at,
        finished_at,
    });
    Ok(())
}

/// Steps that a person must decide about: what was in flight when its process was lost, and must not be done twice.
fn lost_for_good(steps: &[Step], flow: FlowId) -> Vec<Need> {
    let needs = steps.iter().filter_map(|step| match &step.state {
        StepState::Finished { outcome: outcome @ StepOutcome::Failed(failure) }
            if failure.cause == Cause::LostNotIdempotent =>
        {
            Some(Need {
                flow: Some(flow),
                step: Some(step.path.clone()),
                since: Some(step.since),
                what: outcome_words(outcome),
                command: Some(format!("orchestrator explain {flow} --step '{}'", step.path)),
            })
        }
        _ => None,
    });
    needs.collect()
}
