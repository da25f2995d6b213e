//! Mistakes made on purpose, one for each important invariant: a simulation that makes one must say so, and name the
//! invariant. A rule that no mistake breaks proves nothing.

use std::sync::Arc;

use orc_domain::agent::Usage;
use orc_domain::claim::Claim;
use orc_domain::effect::{Change, Decision, Effect, EffectKind};
use orc_domain::event::Fact;
use orc_domain::flow::{Flow, FlowOutcome, FlowState, Step, StepOutcome, StepState, Stop};
use orc_domain::graph::{PhaseKind, Pipeline};
use orc_domain::hold::HoldScope;
use orc_domain::ids::{EffectId, RunId};
use orc_domain::input::{Ending, Input, Signed};
use orc_domain::run::{Run, RunState, WakeReason};
use orc_domain::tree::{Place, PrivateCopy};

use super::plan::{LEAD, delivered};
use super::rule::Rule;

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// None.
    None,
    /// A slot is not given back.
    DropRelease,
    /// A live flow has no alarm.
    ClearAlarm,
    /// A finished step becomes ready again.
    Reopen,
    /// A step is ready although a parent is not finished.
    StartEarly,
    /// A step that was cancelled is started.
    StartCancelled,
    /// A step has two live runs.
    RunTwice,
    /// The end of a step is not told.
    DropEvent,
    /// The end of a flow is told twice.
    TellTwice,
    /// A fan-out ends before its elements.
    JoinEarly,
    /// A failed flow says that it succeeded.
    Embellish,
    /// A failed process is taken for one that delivered.
    BelieveFailure,
    /// A step whose run was in flight is taken for one that never began.
    ForgetClaim,
    /// An input whose decision did not commit is not heard again.
    DropInput,
    /// A run is started without having been claimed.
    StartUnclaimed,
    /// A place in a concurrency group is not given back.
    KeepPlace,
    /// The answer of whoever may not answer counts.
    BelieveStranger,
    /// A child flow that failed is taken for one that succeeded.
    MishearChild,
    /// What agents used is forgotten.
    ForgetSpend,
    /// A step of a held flow is started.
    IgnoreHold,
    /// A step does not start from all that its parents made.
    ForgetTip,
    /// What a step made is not handed on.
    DropTips,
    /// One side of a conflict is dropped.
    TakeOurs,
    /// What a child flow made does not come back.
    LoseChild,
    /// A fan-out ends without having merged what its elements made.
    SkipJoin,
}

impl Sabotage {
    /// Every mistake, and the rules of which one must be found broken.
    pub const ALL: [(Self, &'static [Rule]); 24] = [
        (Self::DropRelease, &[Rule::Slots]),
        (Self::ClearAlarm, &[Rule::Alarm]),
        (Self::Reopen, &[Rule::Final]),
        (Self::StartEarly, &[Rule::Parents]),
        (Self::StartCancelled, &[Rule::Stopped]),
        (Self::RunTwice, &[Rule::OneRun]),
        (Self::DropEvent, &[Rule::Events]),
        (Self::TellTwice, &[Rule::Events]),
        (Self::JoinEarly, &[Rule::Join]),
        (Self::Embellish, &[Rule::Outcome]),
        (Self::BelieveFailure, &[Rule::Truth]),
        (Self::ForgetClaim, &[Rule::NotIdempotent, Rule::Losses]),
        (Self::DropInput, &[Rule::Ends]),
        (Self::StartUnclaimed, &[Rule::OneRun]),
        (Self::KeepPlace, &[Rule::Places]),
        (Self::BelieveStranger, &[Rule::Requests]),
        (Self::MishearChild, &[Rule::Kin]),
        (Self::ForgetSpend, &[Rule::Spend]),
        // What was started shows either at once, or by the alarm that its flow does not have for it.
        (Self::IgnoreHold, &[Rule::Held, Rule::Alarm]),
        (Self::ForgetTip, &[Rule::Trees]),
        (Self::DropTips, &[Rule::Trees]),
        (Self::TakeOurs, &[Rule::Trees]),
        (Self::LoseChild, &[Rule::Kin]),
        // It has a run that was never told of, or none where it needs one.
        (Self::SkipJoin, &[Rule::Join, Rule::Rows]),
    ];

    /// Changes an input before it is decided about.
    pub(super) fn twist(self, signed: &Signed, flow: &Flow) -> Signed {
        let mut signed = signed.clone();
        match (self, &mut signed.input) {
            (Self::ForgetClaim, Input::RunLost { claimed, .. }) => *claimed = false,
            (Self::BelieveFailure, Input::RunEnded { run, ending, .. }) if flow.runs.contains_key(run) => {
                *ending = Ending::Delivered { output: delivered() };
            }
            (Self::BelieveStranger, Input::Answer { standing, .. }) => {
                standing.names.insert(LEAD.to_owned());
            }
            (Self::MishearChild, Input::ChildEnded { outcome: outcome @ FlowOutcome::Failed, .. }) => {
                *outcome = FlowOutcome::Succeeded;
            }
            (Self::LoseChild, Input::ChildEnded { tips, .. }) => tips.clear(),
            _ => {}
        }
        signed
    }

    /// Changes a decision before it is committed; true when there was something to change.
    pub(super) fn spoil(self, spoil: &Spoil<'_>, decision: &mut Decision) -> bool {
        match self {
            Self::None
            | Self::ForgetClaim
            | Self::BelieveFailure
            | Self::DropInput
            | Self::StartUnclaimed
            | Self::BelieveStranger
            | Self::MishearChild
            | Self::LoseChild => false,
            Self::ForgetTip => forget_tip(decision),
            Self::DropTips => drop_tips(decision),
            Self::TakeOurs => take_ours(decision),
            Self::SkipJoin => skip_join(decision),
            Self::KeepPlace => keep_place(decision),
            Self::ForgetSpend => forget_spend(decision),
            Self::IgnoreHold => ignore_hold(spoil, decision),
            Self::DropRelease => decision.releases.pop().is_some(),
            Self::ClearAlarm => clear_alarm(decision),
            Self::Reopen => !decision.is_empty() && reopen(spoil, decision),
            Self::StartEarly => start_early(spoil, decision),
            Self::StartCancelled => start_cancelled(spoil, decision),
            Self::RunTwice => run_twice(decision),
            Self::DropEvent => drop_event(decision),
            Self::TellTwice => tell_twice(decision),
            Self::JoinEarly => join_early(spoil, decision),
            Self::Embellish => embellish(decision),
        }
    }
}

/// A decision's surroundings.
pub(super) struct Spoil<'a> {
    pub(super) old: &'a Flow,
    pub(super) next: &'a Flow,
    pub(super) pipeline: &'a Arc<Pipeline>,
}

fn clear_alarm(decision: &mut Decision) -> bool {
    let Some(Change::Head(head)) = decision.changes.last_mut() else {
        return false;
    };
    head.wake_at.take().is_some()
}

fn is_live(decision: &Decision) -> bool {
    matches!(decision.changes.last(), Some(Change::Head(head)) if matches!(head.state, FlowState::Live { .. }))
}

fn keep_place(decision: &mut Decision) -> bool {
    let place = decision.releases.iter().position(|claim| matches!(claim, Claim::Group { .. }));
    place.map(|at| decision.releases.remove(at)).is_some()
}

fn forget_spend(decision: &mut Decision) -> bool {
    let Some(Change::Head(head)) = decision.changes.last_mut() else {
        return false;
    };
    std::mem::take(&mut head.usage) != Usage::default()
}

fn ignore_hold(spoil: &Spoil<'_>, decision: &mut Decision) -> bool {
    let held = |flow: &Flow| flow.head.holds.iter().any(|hold| hold.scope == HoldScope::Flow);
    let ready = |step: &&Step| matches!(step.state, StepState::Ready { .. });
    let step = spoil.next.steps.iter().find(ready).filter(|_| held(spoil.old) && held(spoil.next));
    let Some(step) = step.cloned().filter(|_| !decision.is_empty() && is_live(decision)) else { return false };
    let run = begun(&step, step.attempts + 1, spoil);
    put(decision, Step { state: StepState::Active { run: run.id }, ..step });
    let head = decision.changes.len() - 1;
    decision.changes.insert(head, Change::Run(run));
    true
}

/// Replaces the row of a step, or adds it before the rows of runs.
fn put(decision: &mut Decision, step: Step) {
    decision.changes.retain(|change| !matches!(change, Change::Step(other) if other.no == step.no));
    decision.changes.insert(0, Change::Step(step));
}

fn ready(step: &Step, spoil: &Spoil<'_>) -> Step {
    Step {
        state: StepState::Ready { not_before: spoil.next.head.seen, held_by: None, wake: WakeReason::PipelineStep },
        ..step.clone()
    }
}

fn reopen(spoil: &Spoil<'_>, decision: &mut Decision) -> bool {
    let finished = |step: &&Step| matches!(step.state, StepState::Finished { .. });
    let Some(step) = spoil.old.steps.iter().find(finished).filter(|_| is_live(decision)) else {
        return false;
    };
    put(decision, ready(step, spoil));
    true
}

fn start_early(spoil: &Spoil<'_>, decision: &mut Decision) -> bool {
    if decision.is_empty() || !is_live(decision) {
        return false;
    }
    let blocked = |step: &&Step| step.state == StepState::Blocked;
    let Some(step) = spoil.next.steps.iter().find(blocked) else {
        return false;
    };
    put(decision, ready(step, spoil));
    true
}

fn begun(step: &Step, attempt: u32, spoil: &Spoil<'_>) -> Run {
    let flow = spoil.next.spec.id;
    let now = spoil.next.head.seen;
    Run {
        id: RunId::derived(flow.uuid(), &format!("{}#{attempt}", step.path)),
        flow,
        no: step.no,
        path: step.path.clone(),
        attempt,
        wake: WakeReason::PipelineStep,
        created_at: now,
        artifacts: std::collections::BTreeMap::new(),
        tree: None,
        violations: Vec::new(),
        agent: None,
        state: RunState::Pending { since: now, deadline: now, stop: None },
    }
}

fn start_cancelled(spoil: &Spoil<'_>, decision: &mut Decision) -> bool {
    let stopped = matches!(&spoil.next.head.state, FlowState::Live { stop, .. } if *stop != Stop::None);
    if !stopped || !is_live(decision) {
        return false;
    }
    let cancelled = decision.changes.iter().find_map(|change| match change {
        Change::Step(step)
            if matches!(step.state, StepState::Finished { outcome: StepOutcome::Cancelled })
                && spoil.pipeline.steps[step.spec.0 as usize].phase == PhaseKind::Main =>
        {
            Some(step.clone())
        }
        _ => None,
    });
    let Some(step) = cancelled else { return false };
    let run = begun(&step, step.attempts + 1, spoil);
    put(decision, Step { state: StepState::Active { run: run.id }, ..step });
    let head = decision.changes.len() - 1;
    decision.changes.insert(head, Change::Run(run));
    true
}

/// Starts a further run of a step that was just started, under another number.
fn run_twice(decision: &mut Decision) -> bool {
    let born = decision.changes.iter().find_map(|change| match change {
        Change::Run(run) if matches!(run.state, RunState::Pending { stop: None, .. }) => Some(run.clone()),
        _ => None,
    });
    let Some(run) = born else { return false };
    let twin = Run { id: RunId::derived(run.id.uuid(), "twin"), attempt: run.attempt + 1, ..run.clone() };
    let effect = decision.effects.iter().find_map(|effect| match &effect.kind {
        EffectKind::StartRun { command, .. } => Some(Effect {
            id: EffectId::derived(twin.id.uuid(), "start"),
            kind: EffectKind::StartRun { run: twin.id, command: command.clone() },
        }),
        _ => None,
    });
    decision.effects.extend(effect);
    let head = decision.changes.len() - 1;
    decision.changes.insert(head, Change::Run(twin));
    true
}

fn drop_event(decision: &mut Decision) -> bool {
    let before = decision.events.len();
    let mut dropped = false;
    decision.events.retain(|event| {
        let drop = !dropped && matches!(event.fact, Fact::StepFinished { .. });
        dropped |= drop;
        !drop
    });
    decision.events.len() < before
}

fn tell_twice(decision: &mut Decision) -> bool {
    let end = decision.events.iter().find(|event| matches!(event.fact, Fact::FlowFinished { .. })).cloned();
    let found = end.is_some();
    decision.events.extend(end);
    found
}

fn join_early(spoil: &Spoil<'_>, decision: &mut Decision) -> bool {
    let waiting = |step: &&Step| matches!(step.state, StepState::Waiting(_));
    let Some(group) = spoil.next.steps.iter().find(waiting) else {
        return false;
    };
    if decision.is_empty() {
        return false;
    }
    let outcome = StepOutcome::Succeeded;
    let told = Fact::StepFinished { path: group.path.clone(), outcome: outcome.clone() };
    if let Some(event) = decision.events.first().cloned() {
        decision.events.push(orc_domain::event::EventBody { fact: told, ..event });
    } else {
        return false;
    }
    let state = StepState::Finished { outcome };
    put(decision, Step { state, ..group.clone() });
    true
}

/// The copies that a decision gives to runs.
fn copies(decision: &mut Decision) -> impl Iterator<Item = &mut PrivateCopy> {
    decision.effects.iter_mut().filter_map(|effect| match &mut effect.kind {
        EffectKind::StartRun { command, .. } => copy_of(&mut command.place),
        EffectKind::StartAgent { call, .. } => copy_of(&mut call.place),
        EffectKind::Join { copy, .. } => Some(copy),
        EffectKind::StopRun { .. }
        | EffectKind::WriteRun { .. }
        | EffectKind::StartFlow { .. }
        | EffectKind::Tell { .. }
        | EffectKind::KeepRule { .. } => None,
    })
}

const fn copy_of(place: &mut Place) -> Option<&mut PrivateCopy> {
    match place {
        Place::Boxed { copy, .. } => copy.as_mut(),
        Place::InPlace { .. } => None,
    }
}

fn forget_tip(decision: &mut Decision) -> bool {
    copies(decision).any(|copy| copy.from.pop().is_some())
}

fn take_ours(decision: &mut Decision) -> bool {
    let mut conflicts = copies(decision).filter(|copy| copy.holds_conflict);
    let Some(copy) = conflicts.next() else { return false };
    copy.holds_conflict = false;
    copy.from.truncate(1);
    true
}

fn drop_tips(decision: &mut Decision) -> bool {
    let ended = |step: &&mut Step| matches!(step.state, StepState::Finished { outcome: StepOutcome::Succeeded });
    let mut steps = decision.changes.iter_mut().filter_map(|change| match change {
        Change::Step(step) => Some(step),
        _ => None,
    });
    let step = steps.find(|step| ended(step) && step.tips.iter().any(|tip| tip.by == step.path.as_str()));
    step.map(|step| step.tips.clear()).is_some()
}

/// Ends a fan-out whose merge has just begun.
fn skip_join(decision: &mut Decision) -> bool {
    let join = decision.effects.iter().position(|effect| matches!(effect.kind, EffectKind::Join { .. }));
    let Some(at) = join else { return false };
    let EffectKind::Join { run, path, .. } = decision.effects.remove(at).kind else { return false };
    let outcome = StepOutcome::Succeeded;
    decision.changes.retain(|change| !matches!(change, Change::Run(born) if born.id == run));
    decision.claims.retain(|claim| !matches!(claim, Claim::Slot { run: claimed } if *claimed == run));
    for change in &mut decision.changes {
        if let Change::Step(step) = change
            && step.path == path
        {
            step.state = StepState::Finished { outcome: outcome.clone() };
        }
    }
    if let Some(event) = decision.events.first().cloned() {
        let told = Fact::StepFinished { path, outcome };
        decision.events.push(orc_domain::event::EventBody { fact: told, ..event });
    }
    true
}

fn embellish(decision: &mut Decision) -> bool {
    let Some(Change::Head(head)) = decision.changes.last_mut() else {
        return false;
    };
    let FlowState::Finished { outcome, .. } = &mut head.state else {
        return false;
    };
    if *outcome != FlowOutcome::Failed {
        return false;
    }
    *outcome = FlowOutcome::Succeeded;
    for event in &mut decision.events {
        if let Fact::FlowFinished { outcome, .. } = &mut event.fact {
            *outcome = FlowOutcome::Succeeded;
        }
    }
    true
}
