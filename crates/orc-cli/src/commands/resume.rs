//! `resume`: carry on what a crash left, or what was paused, to its end.

use orc_domain::flow::FlowState;
use orc_domain::hold::{HoldReason, HoldScope};
use orc_domain::ids::FlowId;
use orc_ports::reader::Reader as _;
use orc_runtime::Shape;
use orc_store_sqlite::SqliteReader;

use super::carry::{Work, carry};
use super::explain::parse_step;
use crate::args::ResumeArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found};
use crate::feed::Change;
use crate::hold::{self, Access, of_store};
use crate::output::say;

/// Unfinished flows that are read at once.
const PAGE: u32 = 1000;

pub(crate) async fn run(context: &Context, args: ResumeArgs) -> CommandResult {
    let shape = context.shape("flows resume", &args.limits)?;
    let reader = context.reader().await?;
    let work = if args.all { everything(context, &reader).await? } else { named(context, &reader, &args).await? };
    drop(reader);
    if work.is_empty() {
        remove_leftovers(context, shape).await?;
        say("nothing to resume: no flow is unfinished");
        return Ok(Exit::Success);
    }
    carry(context, shape, work, args.output.output.into()).await
}

/// Copies of flows that are over, which whoever carried them on had no time to remove. A holder that is there does it.
async fn remove_leftovers(context: &Context, shape: Shape) -> CommandResult<()> {
    if context.copies().owners().await.is_ok_and(|owners| owners.flows.is_empty()) {
        return Ok(());
    }
    match hold::open(context, shape).await? {
        Access::Ours(held) => {
            held.dispatcher.remove_leftovers().await;
            held.close().await
        }
        Access::Theirs(_) => Ok(()),
    }
}

/// What a person paused stays paused: whoever resumes all of it thinks of a crash, not of each flow.
async fn everything(context: &Context, reader: &SqliteReader) -> CommandResult<Vec<Work>> {
    let flows = context.unfinished_flows(reader, PAGE).await?;
    for flow in &flows {
        if let Some((_, head)) = reader.flow_head(*flow).await.map_err(of_store)?
            && head.holds.iter().any(|hold| hold.reason == HoldReason::Paused && hold.scope == HoldScope::Flow)
        {
            say(&format!("{flow} stays paused; `orchestrator resume {flow}` lets it go on"));
        }
    }
    Ok(flows.into_iter().map(Work::OneOfAll).collect())
}

/// Flows that were named go on even when they were paused: that is what was asked for.
async fn named(context: &Context, reader: &SqliteReader, args: &ResumeArgs) -> CommandResult<Vec<Work>> {
    let mut work = Vec::with_capacity(args.ids.len());
    for id in &args.ids {
        let flow = context.flow_of(reader, id).await?;
        let step = match &args.step {
            Some(step) => {
                let known = reader.flow(flow).await.map_err(of_store)?;
                Some(parse_step(&known.ok_or_else(|| not_found(format!("there is no flow {flow}")))?, step)?)
            }
            None => None,
        };
        refuse_finished(reader, flow).await?;
        work.push(Work::Changed(context.user(), Change::Unpause { flow, step }));
    }
    Ok(work)
}

async fn refuse_finished(reader: &SqliteReader, flow: FlowId) -> CommandResult<()> {
    match reader.flow_head(flow).await.map_err(of_store)? {
        Some((_, head)) => match head.state {
            FlowState::Finished { outcome, .. } if outcome != orc_domain::flow::FlowOutcome::Succeeded => {
                Err(Failure::new(Exit::Refused, format!("{flow} is over already: {}", outcome.word()))
                    .hint(format!("`orchestrator retry {flow}` runs what did not succeed again")))
            }
            FlowState::Finished { .. } => {
                Err(Failure::new(Exit::Refused, format!("{flow} is over already: it succeeded")))
            }
            FlowState::Live { .. } | FlowState::Queued { .. } => Ok(()),
        },
        None => Err(not_found(format!("there is no flow {flow}"))),
    }
}
