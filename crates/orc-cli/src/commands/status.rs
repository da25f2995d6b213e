//! `status`: what needs a person, what runs, what waits and why, what happened last, and the figures.
//!
//! Every line comes from the store or from what can be seen of a process now; what is not known is said to be unknown.
//! Reads are bounded: live flows beyond [`FLOWS`] are counted, not loaded.

mod live;
pub(crate) mod report;
mod watch;

use orc_domain::flow::{FlowOutcome, FlowState};
use orc_domain::ids::FlowId;
use orc_ports::reader::{AnyId, FlowFilter, FlowLine, Reader as _, RequestFilter};
use orc_runtime::notifications::{self, Undelivered};
use orc_store_sqlite::SqliteReader;

use self::report::{Need, Recent, Report};
use super::approvals;
use super::{flows, runs};
use crate::args::StatusArgs;
use crate::context::Context;
use crate::evidence::{Carrier, Says};
use crate::exit::Exit;
use crate::failure::{CommandResult, not_found};
use crate::hold::of_store;
use crate::incident::Refused;
use crate::look::{Look, slot_holders};
use crate::output::{self, Form};
use crate::view::agent::{usage_document, usage_words};

/// Live flows that are shown with their steps.
const FLOWS: u32 = 20;
/// Requests that are shown, those that wait longest.
const REQUESTS: u32 = 20;
/// Thousands of events that are looked through for what boxes refused.
const EVENT_PAGES: u32 = 3;
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
        AnyId::Request(request) => return approvals::show_one(&reader, request, context.now(), form).await,
        AnyId::Run(run) => {
            let record = reader.run(run).await.map_err(of_store)?;
            let record = record.ok_or_else(|| not_found(format!("there is no run {run}")))?;
            runs::print(&reader, &record, context, form).await?;
        }
    }
    Ok(Exit::Success)
}

async fn report(context: &Context, reader: &SqliteReader) -> CommandResult<Report> {
    let totals = reader.totals().await.map_err(of_store)?;
    let live = reader.flows(FlowFilter::Live, None, FLOWS).await.map_err(of_store)?;
    let recent = reader.flows(FlowFilter::Finished, None, RECENT).await.map_err(of_store)?;
    let requests = reader.requests(RequestFilter::Open, REQUESTS).await.map_err(of_store)?;
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
    report.needs_you.extend(undelivered(context));
    report.needs_you.extend(requests.iter().map(|record| Need::request(&record.request)));
    let mut looks = Vec::with_capacity(live.len());
    for line in &live {
        looks.push(Look::at_present(context, reader, line.spec.id).await?);
    }
    let slots = slot_holders(looks.iter().map(|look| &look.flow));
    for look in &mut looks {
        look.slots.clone_from(&slots);
        // It may have ended between two reads.
        if !look.flow.is_finished() {
            live::add(&mut report, look, &carrier);
        }
    }
    report.needs_you.extend(refused(reader, &looks).await?);
    let retried: Vec<FlowId> = live.iter().chain(&recent).filter_map(|line| line.spec.retry_of).collect();
    for line in &recent {
        add_finished(&mut report, reader, line, retried.contains(&line.spec.id)).await?;
    }
    Ok(report)
}

async fn add_finished(report: &mut Report, reader: &SqliteReader, line: &FlowLine, retried: bool) -> CommandResult<()> {
    let FlowState::Finished { at, outcome } = &line.state else { return Ok(()) };
    let id = line.spec.id;
    if matches!(outcome, FlowOutcome::Failed | FlowOutcome::BudgetExhausted) && !retried {
        let flow = reader.flow(id).await.map_err(of_store)?;
        report.needs_you.extend(flow.iter().flat_map(|flow| live::incidents(flow, retried)));
    }
    let usage = reader.flow_head(id).await.map_err(of_store)?.map(|(_, head)| head.usage).unwrap_or_default();
    let (created_at, finished_at) = (line.spec.created_at, *at);
    report.recent.push(Recent {
        flow: id,
        pipeline: line.spec.name.clone(),
        outcome: outcome.word(),
        created_at,
        finished_at,
        usage: usage_document(&usage),
        usage_words: usage_words(&usage),
    });
    Ok(())
}

/// What boxes of live flows refused lately.
async fn refused(reader: &SqliteReader, looks: &[Look]) -> CommandResult<Vec<Need>> {
    let Some(oldest) = looks.iter().map(|look| look.flow.spec.created_at).min() else { return Ok(Vec::new()) };
    let (found, _) = Refused::find(reader, oldest, EVENT_PAGES).await?;
    let of_live = found.into_iter().filter_map(|refused| {
        let look = looks.iter().find(|look| look.flow.spec.id == refused.flow && !look.flow.is_finished())?;
        Some(live::need(refused.incident(Some(look.flow.spec.name.clone()), true)))
    });
    Ok(of_live.collect())
}

/// Who was not told of something, by target.
fn undelivered(context: &Context) -> Vec<Need> {
    let mut targets: Vec<(Undelivered, usize)> = Vec::new();
    for one in notifications::undelivered(&context.data) {
        match targets.iter_mut().find(|(known, _)| known.to == one.to) {
            Some((known, count)) => (*known, *count) = (Undelivered { at: known.at, ..one }, *count + 1),
            None => targets.push((one, 1)),
        }
    }
    let need = |(last, count): (Undelivered, usize)| {
        let notices = if count == 1 { "1 notice".to_owned() } else { format!("{count} notices") };
        Need {
            kind: "undelivered",
            since: Some(last.at),
            what: format!("{notices} could not be delivered to {}: {}", last.to, last.why),
            command: Some("orchestrator config show --origin".to_owned()),
            ..Need::default()
        }
    };
    targets.into_iter().map(need).collect()
}
