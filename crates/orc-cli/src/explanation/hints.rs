//! Commands that help, or that look closer where nothing but time helps: at least one for each state that is not final.
//!
//! What is written here can be typed as it stands; a test parses each with the real command line.

use orc_domain::flow::{Flow, FlowOutcome, FlowState, Held, Step, StepOutcome, StepState, Stop};
use orc_domain::hold::{Hold, HoldReason, HoldScope};
use orc_domain::ids::FlowId;
use orc_domain::request::{Request, RequestKind};
use orc_domain::run::{Cause, ErrorFamily, Failure, RunState};
use orc_domain::wait::Wait;

use super::{Facts, open_needs, siblings, waits};

/// What helps a flow as a whole on.
pub(super) fn of_flow(facts: &Facts<'_>) -> Vec<String> {
    let flow = facts.flow;
    let id = flow.spec.id;
    let mut hints: Vec<String> = Vec::new();
    for hold in flow.head.holds.iter().filter(|hold| hold.scope == HoldScope::Flow) {
        hints.extend(lift(hold, flow));
    }
    match &flow.head.state {
        FlowState::Finished { outcome: FlowOutcome::Succeeded, .. } => hints.clear(),
        FlowState::Finished { .. } => hints = vec![format!("orchestrator retry {id}")],
        FlowState::Queued { behind, .. } => hints.extend(into_group(facts, behind.iter().map(|holder| holder.flow))),
        FlowState::Live { stop, .. } => {
            let own = flow.requests.values().filter(|request| request.step.is_none());
            hints.extend(own.flat_map(answer));
            if matches!(stop, Stop::Cancel { .. } | Stop::Exhausted { .. }) {
                hints.push(format!("orchestrator cancel {id} --force"));
            }
        }
    }
    if hints.is_empty() && !flow.is_finished() {
        hints.push(format!("orchestrator status {id} --watch"));
    }
    let mut seen = std::collections::BTreeSet::new();
    hints.retain(|hint| seen.insert(hint.clone()));
    hints
}

/// What helps a step on.
pub(super) fn of_step(facts: &Facts<'_>, step: &Step) -> Vec<String> {
    let id = facts.flow.spec.id;
    match &step.state {
        StepState::Blocked => {
            let open = open_needs(facts, step).unwrap_or_default();
            vec![open.first().map_or_else(|| watch(id), |open| explain(id, open))]
        }
        StepState::Ready { .. } if waits::hold_on(facts.flow, step).is_some() => {
            waits::hold_on(facts.flow, step).map_or_else(Vec::new, |hold| lift(hold, facts.flow))
        }
        StepState::Ready { not_before, .. } if *not_before > facts.now => {
            vec![if step.attempts > 0 { logs(id, step) } else { watch(id) }]
        }
        StepState::Ready { held_by, .. } => match held_by {
            Some(Held::Slot) => vec!["orchestrator status".to_owned()],
            Some(Held::Limit) => {
                let group = step.origin.element().map(|element| element.group);
                let under_way = |other: &&Step| matches!(other.state, StepState::Active { .. } | StepState::Waiting(_));
                let other = siblings(facts, group).find(under_way);
                vec![other.map_or_else(|| watch(id), |other| explain(id, other))]
            }
            Some(Held::Group { behind, .. }) => into_group(facts, behind.iter().map(|holder| holder.flow)),
            None => vec![watch(id)],
        },
        StepState::Active { run } => {
            let mut hints = vec![format!("orchestrator logs {run}")];
            let stop = match facts.flow.runs.get(run).map(|run| &run.state) {
                Some(RunState::Pending { stop, .. } | RunState::Running { stop, .. }) => stop.as_ref(),
                Some(RunState::Finished { .. }) | None => None,
            };
            if stop.is_some_and(|stop| !stop.forced) {
                hints.push(format!("orchestrator cancel {id} --force"));
            }
            hints
        }
        StepState::Waiting(wait) => of_wait(facts, step, wait),
        StepState::Finished { outcome: StepOutcome::Failed(failure) } if is_conflict(failure) => {
            vec![format!("orchestrator worktrees show {id}")]
        }
        StepState::Finished { outcome: StepOutcome::Failed(failure) } if is_of_machine(failure) => {
            vec!["orchestrator doctor".to_owned()]
        }
        StepState::Finished { outcome: StepOutcome::Failed(_) } => {
            match facts.past.get(&step.path).and_then(|step| step.run) {
                Some(run) => vec![format!("orchestrator logs {run}")],
                None if step.attempts > 0 => vec![logs(id, step)],
                None => Vec::new(),
            }
        }
        StepState::Finished { .. } => Vec::new(),
    }
}

/// Both sides of it are held by references that can be looked at.
const fn is_conflict(failure: &Failure) -> bool {
    matches!(failure.cause, Cause::Conflict(_))
}

/// No place could be made for it: a log has nothing about that.
pub(crate) const fn is_of_machine(failure: &Failure) -> bool {
    matches!(failure.family, ErrorFamily::SandboxInfrastructure)
        && matches!(failure.cause, Cause::Worktree | Cause::Start)
}

fn of_wait(facts: &Facts<'_>, step: &Step, wait: &Wait) -> Vec<String> {
    let id = facts.flow.spec.id;
    match wait {
        Wait::Elements(_) | Wait::Round(_) => {
            let below = facts.flow.steps.iter().filter(|other| other.origin.above() == Some(step.no));
            let open = below.filter(|other| !matches!(other.state, StepState::Finished { .. }));
            // What is under way says more than what waits for it.
            let first = open.min_by_key(|other| (matches!(other.state, StepState::Blocked), other.no));
            vec![first.map_or_else(|| watch(id), |open| explain(id, open))]
        }
        Wait::Flow { flow, stop, .. } => {
            let force = stop.as_ref().is_some_and(|stop| !stop.forced);
            let force = force.then(|| format!("orchestrator cancel {flow} --force"));
            [format!("orchestrator explain {flow}")].into_iter().chain(force).collect()
        }
        Wait::Request { request } => match facts.flow.requests.get(request) {
            Some(request) => answer(request),
            None => vec![format!("orchestrator approvals show {request}")],
        },
        Wait::Until { .. } => vec![watch(id)],
        Wait::Event { .. } => vec!["orchestrator flows list --live".to_owned()],
    }
}

/// How to answer a request.
pub(crate) fn answer(request: &Request) -> Vec<String> {
    let id = request.id;
    let mut hints = vec![format!("orchestrator approvals approve {id}")];
    if matches!(request.kind, RequestKind::Question { .. }) {
        hints = vec![format!("orchestrator message {id} 'ANSWER'")];
    }
    hints.push(format!("orchestrator approvals deny {id}"));
    hints
}

/// How to lift a hold.
fn lift(hold: &Hold, flow: &Flow) -> Vec<String> {
    match hold.reason {
        HoldReason::Paused => vec![resume(flow.spec.id, &hold.scope)],
        HoldReason::ParentHeld => match &flow.spec.parent {
            Some(parent) => vec![format!("orchestrator explain {}", parent.flow)],
            None => vec![watch(flow.spec.id)],
        },
        HoldReason::Wall(_) => {
            let walls = flow.requests.values().filter(|request| matches!(request.kind, RequestKind::Wall(_)));
            let hints: Vec<String> = walls.flat_map(answer).collect();
            if hints.is_empty() { vec!["orchestrator approvals list".to_owned()] } else { hints }
        }
    }
}

/// How a paused flow or step goes on.
pub(super) fn resume(flow: FlowId, scope: &HoldScope) -> String {
    match scope {
        HoldScope::Flow => format!("orchestrator resume {flow}"),
        HoldScope::Step(path) => format!("orchestrator resume {flow} --step '{path}'"),
    }
}

/// How a place in a concurrency group becomes free: somebody paused it, or one looks at who is in it.
fn into_group(facts: &Facts<'_>, behind: impl Iterator<Item = FlowId>) -> Vec<String> {
    let mut behind: Vec<FlowId> = behind.collect();
    behind.sort_by_key(|flow| !facts.others.get(flow).is_some_and(|other| other.is_paused));
    match behind.first() {
        Some(flow) if facts.others.get(flow).is_some_and(|other| other.is_paused) => {
            vec![resume(*flow, &HoldScope::Flow)]
        }
        Some(flow) => vec![format!("orchestrator explain {flow}")],
        None => vec!["orchestrator flows list --live".to_owned()],
    }
}

fn explain(flow: FlowId, step: &Step) -> String {
    format!("orchestrator explain {flow} --step '{}'", step.path)
}

fn logs(flow: FlowId, step: &Step) -> String {
    format!("orchestrator logs {flow} --step '{}'", step.path)
}

fn watch(flow: FlowId) -> String {
    format!("orchestrator status {flow} --watch")
}
