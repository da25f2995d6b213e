//! What `status` says of a flow that is not over: what needs a person, what runs, what waits.

use orc_domain::flow::{Flow, FlowState, Held, Step, StepState};
use orc_domain::hold::{HoldReason, HoldScope};
use orc_domain::ids::RunId;
use orc_domain::run::RunState;

use super::report::{Need, Report, Running, Waiting};
use crate::evidence::Carrier;
use crate::explanation::{Facts, explain_flow, explain_step, words};
use crate::incident::{Incident, of_flow};
use crate::look::Look;
use crate::view::agent::{liveness_of, usage_document, usage_words};
use crate::view::place;
use crate::view::progress::stop_words;

/// Lines of one flow in a section.
const LINES: usize = 10;

/// Adds a flow that is live or queued.
pub(super) fn add(report: &mut Report, look: &Look, carrier: &Carrier) {
    let flow = &look.flow;
    let id = flow.spec.id;
    if carrier.carries(id) == Some(false) {
        report.needs_you.push(Need {
            kind: "left",
            flow: Some(id),
            since: Some(flow.head.seen),
            what: "nobody carries it on".to_owned(),
            command: Some(format!("orchestrator flows resume {id}")),
            ..Need::default()
        });
    }
    report.needs_you.extend(incidents(flow, false));
    let facts = look.facts(carrier);
    report.needs_you.extend(paused(&facts));
    report.needs_you.extend(behind_paused(&facts));
    report.add_usage(flow.head.usage);
    report.add_places(flow, place::of_flow(flow, &look.pipeline));
    if matches!(flow.head.state, FlowState::Queued { .. }) {
        report.waiting.push(Waiting::of(flow, None, explain_flow(&facts)));
        return;
    }
    let mut waiting = Vec::new();
    for step in &flow.steps {
        match &step.state {
            StepState::Active { run } => report.running.push(running(look, step, *run)),
            StepState::Finished { .. } => {}
            _ => waiting.push(step),
        }
    }
    // What may start first; what needs others last.
    waiting.sort_by_key(|step| matches!(step.state, StepState::Blocked));
    report.steps_not_shown += waiting.len().saturating_sub(LINES);
    let waiting = waiting.into_iter().take(LINES);
    report.waiting.extend(waiting.map(|step| Waiting::of(flow, Some(step), explain_step(&facts, step))));
}

fn running(look: &Look, step: &Step, id: RunId) -> Running {
    let (flow, evidence) = (&look.flow, look.evidence(id));
    let run = flow.runs.get(&id);
    let (since, pid, stop) = match run.map(|run| &run.state) {
        Some(RunState::Running { since, process, stop, .. }) => (*since, Some(process.pid), stop.as_ref()),
        Some(RunState::Pending { since, stop, .. }) => (*since, None, stop.as_ref()),
        Some(RunState::Finished { .. }) | None => (step.since, None, None),
    };
    let agent = run.and_then(|run| run.agent.as_ref());
    let told = agent.and_then(|agent| agent.statistics.last_output_at);
    Running {
        flow: flow.spec.id,
        pipeline: flow.spec.name.clone(),
        step: step.path.clone(),
        run: id,
        attempt: step.attempts,
        since,
        pid,
        process: evidence.map(|evidence| evidence.process.word()),
        last_output_at: evidence.and_then(|evidence| evidence.last_output_at).max(told),
        agent: agent.map(|agent| agent.agent.clone()),
        liveness: run.and_then(|run| liveness_of(run, evidence.as_ref(), look.now)).map(|liveness| liveness.word()),
        usage: agent.map(|agent| usage_document(&agent.usage)),
        usage_words: agent.and_then(|agent| usage_words(&agent.usage)),
        stopping: stop.map(|stop| stop_words(stop.reason)),
    }
}

/// What a person paused goes on only when a person wants it to.
fn paused(facts: &Facts<'_>) -> Vec<Need> {
    let id = facts.flow.spec.id;
    let holds = facts.flow.head.holds.iter().filter(|hold| hold.reason == HoldReason::Paused);
    let need = |hold: &orc_domain::hold::Hold| {
        let (step, command) = match &hold.scope {
            HoldScope::Flow => (None, format!("orchestrator resume {id}")),
            HoldScope::Step(path) => (Some(path.clone()), format!("orchestrator resume {id} --step '{path}'")),
        };
        Need {
            kind: "paused",
            flow: Some(id),
            step,
            since: None,
            what: words(hold, facts.now),
            deadline: hold.until,
            command: Some(command),
            ..Need::default()
        }
    };
    holds.map(need).collect()
}

/// A flow that waits for its concurrency group behind a paused one waits for whoever paused that.
fn behind_paused(facts: &Facts<'_>) -> Option<Need> {
    let flow: &Flow = facts.flow;
    let of_flow = match &flow.head.state {
        FlowState::Queued { group, behind, since } => Some((None, group, behind, *since)),
        FlowState::Live { .. } | FlowState::Finished { .. } => None,
    };
    let of_steps = flow.steps.iter().filter_map(|step| match &step.state {
        StepState::Ready { held_by: Some(Held::Group { name, behind }), .. } => {
            Some((Some(step.path.clone()), name, behind, step.since))
        }
        _ => None,
    });
    of_flow.into_iter().chain(of_steps).find_map(|(step, group, behind, since)| {
        let holder =
            behind.iter().find(|holder| facts.others.get(&holder.flow).is_some_and(|other| other.is_paused))?;
        Some(Need {
            kind: "behind_paused",
            flow: Some(flow.spec.id),
            step,
            since: Some(since),
            what: format!("waits for the concurrency group `{group}` behind {}, which is paused", holder.flow),
            command: Some(format!("orchestrator resume {}", holder.flow)),
            ..Need::default()
        })
    })
}

/// What went wrong in a flow and nobody has seen to.
pub(super) fn incidents(flow: &Flow, retried: bool) -> Vec<Need> {
    let open = of_flow(flow, retried).into_iter().filter(|incident| incident.open);
    open.map(need).collect()
}

/// An incident as something that a person must look at.
pub(super) fn need(incident: Incident) -> Need {
    Need {
        kind: "incident",
        flow: incident.flow,
        step: incident.step,
        since: Some(incident.since),
        what: incident.what,
        command: Some(incident.command),
        ..Need::default()
    }
}
