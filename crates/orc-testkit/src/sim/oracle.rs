//! Judges a flow that is over: a second, naive reading of the pipeline, from the [`super::plan::Plan`] and the final
//! outcomes only. It shares no code with the engine and evaluates no expression.

use orc_domain::expr::StatusFn;
use orc_domain::flow::{FlowOutcome, FlowState, SkipReason, Step, StepOutcome};
use orc_domain::graph::{PhaseKind, StepSpec};
use orc_domain::run::{Cause, RunOutcome, RunState};
use orc_domain::value::Value;

use super::judge::{Shadow, ended_well, failure_of, has_failed, outcome_of};
use super::plan::{Fan, Plan, StepPlan, When};
use super::rule::{Checked, Rule, hold};

/// What a step must have come to before its action was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Acts,
    SkippedByParent,
    SkippedByCondition,
    ConditionFails,
}

/// Compares every outcome of a finished flow with the naive reading.
pub(crate) fn judge(shadow: &Shadow) -> Checked {
    let flow = shadow.spec.id;
    let Some(FlowState::Finished { outcome, at }) = shadow.head.as_ref().map(|head| &head.state) else {
        return Ok(());
    };
    let expected = flow_outcome(shadow);
    // The deadline passed and the last step ended in one commit: which came first is not known any more.
    let close = shadow.finally_deadline.is_some_and(|deadline| *at >= deadline) && !shadow.finally_overran;
    let either = close && *outcome == FlowOutcome::Failed && expected == FlowOutcome::Succeeded;
    hold(*outcome == expected || either, Rule::Outcome, flow, || {
        format!("the flow is {}, and should be {}", outcome.word(), expected.word())
    })?;
    let definitions = shadow.plan.pipeline.steps.iter().zip(&shadow.plan.steps);
    for (step, (spec, plan)) in shadow.steps.iter().zip(definitions) {
        judge_step(shadow, step, spec, *plan)?;
    }
    for element in shadow.steps.iter().skip(shadow.plan.steps.len()) {
        let plan = shadow.plan.steps[element.spec.0 as usize];
        judge_leaf(shadow, element, plan)?;
    }
    Ok(())
}

fn flow_outcome(shadow: &Shadow) -> FlowOutcome {
    let roots = shadow.steps.iter().zip(&shadow.plan.pipeline.steps);
    let failed = roots.into_iter().any(|(step, spec)| has_failed(step) && !spec.continue_on_fail);
    if shadow.cancels() > 0 {
        FlowOutcome::Cancelled
    } else if failed || finally_ran_out(shadow) {
        FlowOutcome::Failed
    } else {
        FlowOutcome::Succeeded
    }
}

/// The deadline of `finally` ended something.
fn finally_ran_out(shadow: &Shadow) -> bool {
    let by_sibling = |step: &Step| {
        let spec = &shadow.plan.pipeline.steps[step.spec.0 as usize];
        step.origin.element().is_some() && spec.fan.as_ref().is_some_and(|fan| fan.fail_fast)
    };
    let mut finally = shadow.steps.iter().filter(|step| shadow.phase(step) == PhaseKind::Finally);
    let cancelled = finally.any(|step| outcome_of(step) == Some(&StepOutcome::Cancelled) && !by_sibling(step));
    shadow.finally_overran || (cancelled && shadow.cancels() == 0)
}

fn judge_step(shadow: &Shadow, step: &Step, spec: &StepSpec, plan: StepPlan) -> Checked {
    let flow = shadow.spec.id;
    let Some(outcome) = outcome_of(step) else { return Ok(()) };
    let wrong = |right: &str| {
        let text = format!("`{}` is {outcome:?}, and should be {right}", step.path);
        hold(false, Rule::Outcome, flow, || text)
    };
    let kept = shadow.spec.taken_over.get(&step.path);
    // A cancel may come before the flow gets to what it was given.
    if let Some(kept) = kept.filter(|_| *outcome != StepOutcome::Cancelled) {
        return if kept.outcome == *outcome { Ok(()) } else { wrong("taken over") };
    }
    if *outcome == StepOutcome::Cancelled {
        let asked = shadow.cancels() > 0 || (spec.phase == PhaseKind::Finally && finally_ran_out(shadow));
        return if asked { Ok(()) } else { wrong("anything but cancelled") };
    }
    let expected = expect(shadow, spec, plan);
    // Whether the flow was stopped when `finally` looked at it is not known any more.
    let stopped_since = spec.phase == PhaseKind::Finally && shadow.cancels() > 0;
    if stopped_since && matches!(plan.when, When::Status(StatusFn::Success | StatusFn::Cancelled)) {
        return Ok(());
    }
    let right = match expected {
        Expected::SkippedByParent => matches!(outcome, StepOutcome::Skipped(SkipReason::Parent { .. })),
        Expected::SkippedByCondition => matches!(outcome, StepOutcome::Skipped(SkipReason::Condition)),
        Expected::ConditionFails => failed_by(step, &Cause::Expression),
        Expected::Acts => return judge_action(shadow, step, spec, plan),
    };
    if right { Ok(()) } else { wrong(&format!("{expected:?}")) }
}

fn expect(shadow: &Shadow, spec: &StepSpec, plan: StepPlan) -> Expected {
    let parents: Vec<(&Step, &StepSpec)> = spec
        .needs
        .iter()
        .map(|need| need.0 as usize)
        .map(|at| (&shadow.steps[at], &shadow.plan.pipeline.steps[at]))
        .collect();
    let accepted = |(step, spec): &(&Step, &StepSpec)| ended_well(step) || (has_failed(step) && spec.continue_on_fail);
    let by_condition = |truth: bool| if truth { Expected::Acts } else { Expected::SkippedByCondition };
    match plan.when {
        When::Status(function) => by_condition(match (function, spec.phase) {
            (StatusFn::Always, _) => true,
            (StatusFn::Success, PhaseKind::Main) => parents.iter().all(accepted),
            (StatusFn::Failure, PhaseKind::Main) => parents.iter().any(|(step, _)| has_failed(step)),
            (StatusFn::Cancelled, PhaseKind::Main) => false,
            (StatusFn::Skipped, PhaseKind::Main) => parents.iter().any(|(step, _)| was_skipped(step)),
            (StatusFn::Success, PhaseKind::Finally) => !main_failed(shadow),
            (StatusFn::Failure, PhaseKind::Finally) => main_failed(shadow),
            (StatusFn::Cancelled | StatusFn::Skipped, PhaseKind::Finally) => false,
        }),
        _ if !parents.iter().all(accepted) => Expected::SkippedByParent,
        When::Default | When::True => Expected::Acts,
        When::False => Expected::SkippedByCondition,
        When::Broken => Expected::ConditionFails,
    }
}

fn main_failed(shadow: &Shadow) -> bool {
    let roots = shadow.steps.iter().zip(&shadow.plan.pipeline.steps);
    roots
        .filter(|(_, spec)| spec.phase == PhaseKind::Main)
        .any(|(step, spec)| has_failed(step) && !spec.continue_on_fail)
}

fn was_skipped(step: &Step) -> bool {
    matches!(outcome_of(step), Some(StepOutcome::Skipped(_)))
}

fn failed_by(step: &Step, cause: &Cause) -> bool {
    matches!(outcome_of(step), Some(StepOutcome::Failed(failure)) if failure.cause == *cause)
}

fn judge_action(shadow: &Shadow, step: &Step, spec: &StepSpec, plan: StepPlan) -> Checked {
    let Some(fan) = plan.fan else {
        return judge_leaf(shadow, step, plan);
    };
    let written = shadow.totals.get(&step.path).copied();
    let right = match list_of(shadow, spec, fan) {
        None => failed_by(step, &Cause::Expansion) && written.is_none(),
        Some(0) => outcome_of(step) == Some(&StepOutcome::NoChange),
        // How it ended follows from its elements and is judged when it ends.
        Some(length) => written == Some(length),
    };
    hold(right, Rule::Outcome, shadow.spec.id, || {
        format!("`{}` is {:?} with {written:?} elements, and its list is {fan:?}", step.path, step.state)
    })
}

/// The length of the list that a fan-out had to find; `None` when it had to find none.
fn list_of(shadow: &Shadow, spec: &StepSpec, fan: Fan) -> Option<u32> {
    if fan == Fan::Parent {
        let parent = spec.needs.first().map(|need| need.0 as usize)?;
        let leaf = shadow.plan.steps[parent].fan.is_none();
        let delivered = outcome_of(&shadow.steps[parent]) == Some(&StepOutcome::Succeeded);
        if !leaf || !delivered {
            return None;
        }
    }
    Plan::elements(fan)
}

/// A step that runs: how it ended follows from its runs.
fn judge_leaf(shadow: &Shadow, step: &Step, plan: StepPlan) -> Checked {
    let flow = shadow.spec.id;
    let Some(outcome) = outcome_of(step) else { return Ok(()) };
    let runs = shadow.runs_of(step.no);
    if shadow.spec.taken_over.contains_key(&step.path) {
        return hold(runs.is_empty(), Rule::TakenOver, flow, || format!("`{}` was taken over and ran", step.path));
    }
    let numbered = runs.iter().zip(1..).all(|(run, attempt)| run.attempt == attempt);
    hold(numbered && step.attempts as usize == runs.len(), Rule::Attempts, flow, || {
        format!("`{}` counts {} attempts of {}", step.path, step.attempts, runs.len())
    })?;
    let spec = &shadow.plan.pipeline.steps[step.spec.0 as usize];
    let delivered =
        |run: &orc_domain::run::Run| matches!(run.state, RunState::Finished { outcome: RunOutcome::Delivered, .. });
    let last = runs.last().copied();
    let early = runs.iter().rev().skip(1).any(|run| delivered(run));
    let failures = runs.iter().filter(|run| failure_of(run).is_some_and(|cause| *cause != Cause::Lost));
    let used_up = failures.count() >= spec.retry.attempts as usize;
    let ran_out = spec.phase == PhaseKind::Finally && finally_ran_out(shadow);
    let unwanted = ran_out || shadow.cancels() > 0 || spec.fan.as_ref().is_some_and(|fan| fan.fail_fast);
    let right = match outcome {
        StepOutcome::Succeeded => last.is_some_and(delivered),
        StepOutcome::Failed(failure) => match &failure.cause {
            Cause::Expression => plan.broken_env && runs.is_empty(),
            Cause::LostNotIdempotent => !spec.idempotent && last.and_then(failure_of) == Some(&Cause::Lost),
            Cause::Quarantined { .. } => spec.idempotent && last.and_then(failure_of) == Some(&Cause::Lost),
            Cause::Expansion | Cause::Elements { .. } | Cause::Lost => false,
            cause => last.and_then(failure_of) == Some(cause) && (used_up || unwanted),
        },
        StepOutcome::Cancelled => unwanted,
        StepOutcome::NoChange | StepOutcome::Skipped(_) => false,
    };
    hold(right && !early, Rule::Outcome, flow, || {
        let ends: Vec<_> = runs.iter().map(|run| &run.state).collect();
        format!("`{}` is {outcome:?} after {ends:?}", step.path)
    })
}

/// Steps of a finished flow that a retry must not run again, with what they put out: they ended well, or were given as
/// done to a retry that was cancelled before it got to them, and so did everything they build upon.
pub(crate) fn kept_by_retry(shadow: &Shadow) -> Vec<(usize, Option<&Value>)> {
    let specs = &shadow.plan.pipeline.steps;
    let mut redone = vec![false; specs.len()];
    let mut kept = Vec::new();
    // Needs always name earlier steps in simulated pipelines, so one pass is enough.
    for (at, spec) in specs.iter().enumerate() {
        let step = &shadow.steps[at];
        let cancelled = outcome_of(step) == Some(&StepOutcome::Cancelled);
        let given = shadow.spec.taken_over.get(&step.path).filter(|_| cancelled);
        let own = has_failed(step) || (cancelled && given.is_none());
        redone[at] = own || spec.needs.iter().any(|need| redone[need.0 as usize]);
        let leaf = shadow.plan.steps[at].fan.is_none();
        if spec.phase == PhaseKind::Main && leaf && !redone[at] && (ended_well(step) || given.is_some()) {
            kept.push((at, given.map_or(step.output.as_ref(), |given| given.output.as_ref())));
        }
    }
    kept
}
