//! `incidents`: what went wrong in a way that a person should look at, newest first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use orc_domain::flow::{FlowOutcome, FlowState};
use orc_domain::ids::FlowId;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::reader::{FlowFilter, FlowLine, Reader as _, RequestFilter};
use orc_runtime::notifications;
use orc_store_sqlite::SqliteReader;
use serde_json::json;

use crate::args::IncidentsArgs;
use crate::context::Context;
use crate::evidence::{Carrier, Says};
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::hold::of_store;
use crate::incident::{Incident, Refused, billed, of_flow, of_request};
use crate::moment;
use crate::output::{self, Form, say};
use crate::view::columns::{Columns, clean_line};
use crate::view::flow::ago;

/// How far back one looks unless it is said.
const USUAL: Millis = Millis::from_secs(7 * 24 * 3600);
/// Flows that are read at once.
const PAGE: u32 = 200;
/// Flows that are looked through.
const MOST: usize = 5_000;
/// Thousands of events that are looked through for what boxes refused.
const EVENT_PAGES: u32 = 50;
/// Thousands of calls that are looked through for what providers count.
const CALL_PAGES: u32 = 50;
/// Open requests that are looked through for walls.
const REQUESTS: u32 = 1_000;
/// Characters of what happened.
const WHAT: usize = 100;

pub(crate) async fn run(context: &Context, args: &IncidentsArgs) -> CommandResult {
    let now = context.now();
    let since = match &args.since {
        Some(text) => moment::parse("--since", text, now)?,
        None => Timestamp::from_millis(now.as_millis() - i64::try_from(USUAL.as_millis()).unwrap_or(i64::MAX)),
    };
    let reader = context.reader().await?;
    let (mut incidents, looked_at_all) = of_store_flows(&reader, since).await?;
    let asked = reader.requests(RequestFilter::Open, REQUESTS).await.map_err(of_store)?;
    incidents.extend(asked.iter().filter_map(|record| of_request(&record.request)));
    let (refused, looked_at_events) = of_boxes(&reader, since).await?;
    incidents.extend(refused);
    let (billed, looked_at_calls) = billed::find(&reader, since, CALL_PAGES).await?;
    incidents.extend(billed);
    incidents.extend(of_holder(&Carrier::see(context).await, now));
    incidents.extend(undelivered(context));
    incidents.retain(|incident| incident.since >= since && (incident.open || !args.open));
    incidents.sort_by_key(|incident| std::cmp::Reverse(incident.since));
    if args.output.output != Form::Table {
        let document = json!({
            "schema": "orc/incidents/1", "since": since.to_string(), "complete": looked_at_all && looked_at_events && looked_at_calls,
            "incidents": incidents,
        });
        output::document(args.output.output, &document, Some("incidents"))?;
        return Ok(Exit::Success);
    }
    if incidents.is_empty() {
        say(&format!("no incident since {since}"));
    } else {
        output::text(&text(&incidents, now))?;
    }
    if !looked_at_events {
        let most = EVENT_PAGES * 1000;
        say(&format!(
            "only the newest {most} events were looked at for what boxes refused; `--since` with a later time sees all"
        ));
    }
    if !looked_at_calls {
        let most = CALL_PAGES * 1000;
        say(&format!(
            "only the newest {most} calls of models were looked at; `--since` with a later time sees all of them"
        ));
    }
    if !looked_at_all {
        say(&format!("only the newest {MOST} flows were looked at; `--since` with a later time sees all of them"));
    }
    Ok(Exit::Success)
}

/// Incidents of flows that began since then or are not over; false when there were too many to look at all of them.
async fn of_store_flows(reader: &SqliteReader, since: Timestamp) -> CommandResult<(Vec<Incident>, bool)> {
    let (mut incidents, mut retried) = (Vec::new(), BTreeSet::<FlowId>::new());
    for filter in [FlowFilter::Live, FlowFilter::Finished] {
        let (mut before, mut looked) = (None, 0);
        loop {
            let page = reader.flows(filter, before, PAGE).await.map_err(of_store)?;
            let Some(last) = page.last() else { break };
            before = Some(last.spec.id);
            looked += page.len();
            // What carries a flow on is newer than that flow, and so comes before it.
            retried.extend(page.iter().filter_map(|line| line.spec.retry_of));
            for line in page.iter().filter(|line| may_have_any(line, since)) {
                if let Some(flow) = reader.flow(line.spec.id).await.map_err(of_store)? {
                    incidents.extend(of_flow(&flow, retried.contains(&flow.spec.id)));
                }
            }
            let is_old = |line: &FlowLine| filter == FlowFilter::Finished && line.updated_at < since;
            if page.iter().all(is_old) {
                break;
            }
            if looked >= MOST {
                return Ok((incidents, false));
            }
        }
    }
    Ok((incidents, true))
}

/// What boxes refused; false when there are more events than are looked at.
async fn of_boxes(reader: &SqliteReader, since: Timestamp) -> CommandResult<(Vec<Incident>, bool)> {
    let (found, complete) = Refused::find(reader, since, EVENT_PAGES).await?;
    let (mut incidents, mut heads) = (Vec::new(), BTreeMap::new());
    let retried: BTreeSet<FlowId> = match found.first() {
        Some(_) => {
            let newest = reader.flows(FlowFilter::All, None, PAGE).await.map_err(of_store)?;
            newest.iter().filter_map(|line| line.spec.retry_of).collect()
        }
        None => BTreeSet::new(),
    };
    for refused in found {
        if let Entry::Vacant(entry) = heads.entry(refused.flow) {
            entry.insert(reader.flow_head(refused.flow).await.map_err(of_store)?);
        }
        let known = heads.get(&refused.flow).and_then(Option::as_ref);
        let open = known.is_some_and(|(_, head)| Refused::is_open(head, retried.contains(&refused.flow)));
        incidents.push(refused.incident(known.map(|(spec, _)| spec.name.clone()), open));
    }
    Ok((incidents, complete))
}

fn may_have_any(line: &FlowLine, since: Timestamp) -> bool {
    match &line.state {
        FlowState::Finished { outcome: FlowOutcome::Succeeded | FlowOutcome::Cancelled, at } => {
            line.steps.failed > 0 && *at >= since
        }
        FlowState::Finished { at, .. } => *at >= since,
        FlowState::Live { .. } | FlowState::Queued { .. } => line.steps.failed > 0,
    }
}

/// What keeps the holder of the data directory from going on.
fn of_holder(carrier: &Carrier, now: Timestamp) -> Option<Incident> {
    let Carrier::Process { holder, says } = carrier else { return None };
    let what = match says {
        Says::Carries { trouble: Some(trouble), .. } => format!("{} cannot go on: {trouble}", carrier.name()),
        _ => return None,
    };
    Some(Incident {
        kind: "holder",
        since: holder.as_ref().map_or(now, |holder| holder.since),
        flow: None,
        pipeline: None,
        step: None,
        what,
        who: "whoever looks after this machine",
        command: "orchestrator doctor".to_owned(),
        open: true,
    })
}

fn undelivered(context: &Context) -> Vec<Incident> {
    let notices = notifications::undelivered(&context.data).into_iter();
    let incident = |one: notifications::Undelivered| Incident {
        kind: "undelivered",
        since: one.at,
        flow: None,
        pipeline: None,
        step: None,
        what: clean_line(&format!("a notice could not be delivered to {}: {}", one.to, one.why), 2 * WHAT),
        who: "whoever looks after `notifications` in the settings",
        command: "orchestrator config show --origin".to_owned(),
        open: true,
    };
    notices.map(incident).collect()
}

fn text(incidents: &[Incident], now: Timestamp) -> String {
    let mut table = Columns::titled(&["SINCE", "STATE", "KIND", "FLOW", "STEP", "WHAT"]);
    for incident in incidents {
        let flow = incident.flow.map_or_else(|| "-".to_owned(), |flow| flow.to_string());
        table.row([
            ago(incident.since, now).as_str(),
            if incident.open { "open" } else { "seen to" },
            incident.kind,
            &flow,
            incident.step.as_ref().map_or("-", orc_domain::path::StepPath::as_str),
            &clean_line(&incident.what, WHAT),
        ]);
    }
    let mut text = table.text("");
    let open: Vec<&Incident> = incidents.iter().filter(|incident| incident.open).collect();
    if !open.is_empty() {
        text.push_str("\nwhat can be done\n");
    }
    for incident in open {
        text.push_str(&format!("  {}: {}\n      {}\n", incident.kind, incident.who, incident.command));
    }
    text
}
