//! Incidents: what went wrong in a way that a person should look at, derived from what the store knows and never stored
//! beside it. One is open until its flow was retried, or for as long as what it tells of goes on.

pub(crate) mod billed;
mod refused;

use orc_domain::flow::{Flow, FlowOutcome, FlowState, Step, StepOutcome, StepState};
use orc_domain::ids::FlowId;
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::request::{Request, RequestKind, RequestState};
use orc_domain::run::{Cause, ErrorFamily, Failure};
use orc_domain::time::Timestamp;
use serde::Serialize;

pub(crate) use self::refused::Refused;
use crate::explanation::as_text;
use crate::view::columns::clean_line;

/// Characters of what happened.
const WHAT: usize = 240;

/// One incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Incident {
    /// `quarantined`, `lost_not_idempotent`, `silent`, `looping`, `wall`, `deadline`, `conflict`, `worktree`,
    /// `infrastructure`, `policy`, `sandbox_violation`, `box_limit`, `billed`, `flow_failed`, `holder`, `undelivered`.
    pub(crate) kind: &'static str,
    #[serde(serialize_with = "as_text")]
    pub(crate) since: Timestamp,
    pub(crate) flow: Option<FlowId>,
    pub(crate) pipeline: Option<String>,
    pub(crate) step: Option<StepPath>,
    pub(crate) what: String,
    /// Who can do something about it.
    pub(crate) who: &'static str,
    pub(crate) command: String,
    /// Nobody did so far.
    pub(crate) open: bool,
}

/// The incidents of a flow. `retried`: a later flow carries it on, so that somebody has seen to it.
pub(crate) fn of_flow(flow: &Flow, retried: bool) -> Vec<Incident> {
    let mut incidents: Vec<Incident> = flow.steps.iter().filter_map(|step| of_step(flow, step, retried)).collect();
    let id = flow.spec.id;
    // Failures without a step to blame: what the flow was made of could not be used, or a wall ended it.
    if let FlowState::Finished { at, outcome } = &flow.head.state
        && matches!(outcome, FlowOutcome::Failed | FlowOutcome::BudgetExhausted)
        && !flow.head.detail.is_empty()
    {
        let kind = if *outcome == FlowOutcome::BudgetExhausted { "wall" } else { "flow_failed" };
        let command = format!("orchestrator explain {id}");
        let what = clean_line(&flow.head.detail, WHAT);
        incidents.push(Incident { kind, since: *at, what, command, open: !retried, ..blank(flow) });
    }
    incidents
}

/// A wall that holds a flow, by the request to raise it.
pub(crate) fn of_request(request: &Request) -> Option<Incident> {
    let (RequestKind::Wall(wall), RequestState::Open { since, .. }) = (&request.kind, &request.state) else {
        return None;
    };
    Some(Incident {
        kind: "wall",
        since: *since,
        flow: Some(request.flow),
        pipeline: None,
        step: None,
        what: format!("its budget of `{}` is reached, and nothing more of it starts", wall.word()),
        who: "whoever may raise it",
        command: format!("orchestrator approvals show {}", request.id),
        open: true,
    })
}

fn of_step(flow: &Flow, step: &Step, retried: bool) -> Option<Incident> {
    let StepState::Finished { outcome: StepOutcome::Failed(failure) } = &step.state else { return None };
    // What a fan-out, a round or a step with a child flow only repeats is none: it is told where it happened.
    let (kind, who) = kind_of(failure)?;
    Some(Incident {
        kind,
        since: step.since,
        step: Some(step.path.clone()),
        what: clean_line(&failure.to_string(), WHAT),
        who,
        command: format!("orchestrator explain {} --step '{}'", flow.spec.id, step.path),
        open: !retried && !succeeded(flow),
        ..blank(flow)
    })
}

/// What kind of incident a failure is, and who can do something about it.
fn kind_of(failure: &Failure) -> Option<(&'static str, &'static str)> {
    if !failure.is_incident() {
        return None;
    }
    Some(match &failure.cause {
        Cause::Quarantined { .. } => ("quarantined", "you: find out why its process is lost each time, then retry"),
        Cause::LostNotIdempotent => ("lost_not_idempotent", "you: look what it did, then retry or leave it"),
        Cause::Silent(_) => ("silent", "you: look at its log; a longer `silence_timeout`, or a retry"),
        Cause::Looping => ("looping", "you: look at its log, then change what it is asked, or retry"),
        Cause::Wall(_) => ("wall", "you: a larger budget, or a retry"),
        Cause::Conflict(_) => {
            ("conflict", "you: let one side need the other, or let an agent bring them together (`on_conflict`)")
        }
        Cause::Worktree => ("worktree", "whoever looks after this machine"),
        Cause::Answer { by: Principal::System, .. } => ("deadline", "you: nobody answered in time; a retry asks again"),
        _ if failure.family == ErrorFamily::PolicyDenied => ("policy", "whoever writes the rules"),
        _ => ("infrastructure", "whoever looks after this machine"),
    })
}

fn succeeded(flow: &Flow) -> bool {
    matches!(flow.head.state, FlowState::Finished { outcome: FlowOutcome::Succeeded, .. })
}

fn blank(flow: &Flow) -> Incident {
    Incident {
        kind: "",
        since: flow.head.seen,
        flow: Some(flow.spec.id),
        pipeline: Some(flow.spec.name.clone()),
        step: None,
        what: String::new(),
        who: "you",
        command: String::new(),
        open: true,
    }
}

#[cfg(test)]
mod tests {
    use orc_domain::budget::Wall;
    use orc_domain::request::Answer;
    use orc_domain::time::Millis;

    use super::*;

    #[test]
    fn what_a_person_should_look_at_has_a_kind_and_somebody() {
        let by_nobody = Cause::Answer { by: Principal::System, answer: Answer::Denied };
        let by_person = Cause::Answer { by: Principal::Os(5), answer: Answer::Denied };
        let cases = [
            (Cause::Quarantined { losses: 3 }, ErrorFamily::ProcessLost, Some("quarantined")),
            (Cause::LostNotIdempotent, ErrorFamily::ProcessLost, Some("lost_not_idempotent")),
            (Cause::Silent(Millis::ZERO), ErrorFamily::SilentRun, Some("silent")),
            (Cause::Looping, ErrorFamily::Unknown, Some("looping")),
            (Cause::Wall(Wall::Usd), ErrorFamily::BudgetExceeded, Some("wall")),
            (by_nobody, ErrorFamily::Unknown, Some("deadline")),
            (Cause::Start, ErrorFamily::SandboxInfrastructure, Some("infrastructure")),
            (Cause::Reported, ErrorFamily::PolicyDenied, Some("policy")),
            (by_person, ErrorFamily::Unknown, None),
            (Cause::Exit(1), ErrorFamily::Unknown, None),
            (Cause::Child { outcome: FlowOutcome::Failed }, ErrorFamily::Unknown, None),
            (Cause::Elements { failed: 1, total: 2 }, ErrorFamily::Unknown, None),
        ];
        for (cause, family, wanted) in cases {
            let failure = Failure { family, cause, detail: String::new() };
            let kind = kind_of(&failure);
            assert_eq!(kind.map(|(kind, _)| kind), wanted, "{failure}");
            assert!(kind.is_none_or(|(_, who)| !who.is_empty()));
        }
    }
}
