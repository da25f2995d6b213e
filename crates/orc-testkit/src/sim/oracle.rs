//! Judges a flow that is over: a second, naive reading of the pipeline, from the [`super::plan::Plan`] and the final
//! outcomes only. It shares no code with the engine and evaluates no expression.

use orc_domain::expr::StatusFn;
use orc_domain::flow::{FlowOutcome, FlowState, Origin, SkipReason, Step, StepOutcome};
use orc_domain::graph::{OnLimit, PhaseKind, StepSpec};
use orc_domain::request::Answer;
use orc_domain::run::{Cause, Failure, Run, RunOutcome, RunState};
use orc_domain::value::Value;

use super::judge::{Shadow, ended_well, failure_of, has_failed, is_owing, outcome_of, used_up};
use super::plan::{Fan, Kind, Plan, REMINDERS, StepPlan, Until, When};
use super::rule::{Checked, Rule, hold};
use super::trees::Purpose;

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
    let expected = flow_outcome(shadow, *outcome);
    // The deadline passed and the last step ended in one commit: which came first is not known any more.
    let close = shadow.finally_deadline.is_some_and(|deadline| *at >= deadline) && !shadow.finally_overran;
    let either = close && *outcome == FlowOutcome::Failed && expected == FlowOutcome::Succeeded;
    hold(*outcome == expected || either, Rule::Outcome, flow, || {
        format!("the flow is {}, and should be {}", outcome.word(), expected.word())
    })?;
    if never_began(shadow) {
        return Ok(());
    }
    for step in &shadow.steps {
        let at = step.spec.0 as usize;
        let (spec, plan) = (&shadow.plan.pipeline.steps[at], shadow.plan.steps[at]);
        if step.origin.element().is_some() {
            judge_act(shadow, step, plan)?;
        } else {
            judge_step(shadow, step, (spec, plan))?;
        }
    }
    Ok(())
}

/// Its concurrency group was full, or had no name: every step was given up before anything began.
fn never_began(shadow: &Shadow) -> bool {
    let given_up = |step: &Step| outcome_of(step) == Some(&StepOutcome::Cancelled);
    shadow.plan.pipeline.concurrency.is_some() && shadow.runs.is_empty() && shadow.steps.iter().all(given_up)
}

fn flow_outcome(shadow: &Shadow, outcome: FlowOutcome) -> FlowOutcome {
    let roots = shadow.steps.iter().zip(&shadow.plan.pipeline.steps).take(shadow.roots());
    let failed = roots.into_iter().any(|(step, spec)| has_failed(step) && !spec.continue_on_fail);
    if shadow.cancels() > 0 {
        FlowOutcome::Cancelled
    } else if outcome == FlowOutcome::BudgetExhausted && shadow.was_told("WallReached") {
        outcome
    } else if never_began(shadow) {
        if shadow.plan.broken_group { FlowOutcome::Failed } else { FlowOutcome::Cancelled }
    } else if failed || finally_ran_out(shadow) || shadow.plan.broken_output {
        FlowOutcome::Failed
    } else {
        FlowOutcome::Succeeded
    }
}

/// The deadline of `finally` ended something.
fn finally_ran_out(shadow: &Shadow) -> bool {
    let mut finally = shadow.steps.iter().filter(|step| shadow.phase(step) == PhaseKind::Finally);
    let cancelled = finally.any(|step| outcome_of(step) == Some(&StepOutcome::Cancelled) && !shadow.fails_fast(step));
    shadow.finally_overran || (cancelled && shadow.cancels() == 0)
}

fn judge_step(shadow: &Shadow, step: &Step, (spec, plan): (&StepSpec, StepPlan)) -> Checked {
    let flow = shadow.spec.id;
    let Some(outcome) = outcome_of(step) else { return Ok(()) };
    let wrong = |right: &str| {
        let text = format!("`{}` is {outcome:?}, and should be {right}", step.path);
        hold(false, Rule::Outcome, flow, || text)
    };
    // A fan-out is expanded again, and may find elements that were not done.
    let kept = shadow.spec.taken_over.get(&step.path).filter(|_| !shadow.is_fan_out(step));
    // A cancel may come before the flow gets to what it was given.
    if let Some(kept) = kept.filter(|_| *outcome != StepOutcome::Cancelled) {
        return if kept.outcome == *outcome { Ok(()) } else { wrong("taken over") };
    }
    if *outcome == StepOutcome::Cancelled {
        let asked = match spec.phase {
            PhaseKind::Main => shadow.was_unwanted(),
            PhaseKind::Finally => shadow.cancels() > 0 || finally_ran_out(shadow),
        };
        let asked = asked || shadow.fails_fast(step);
        return if asked { Ok(()) } else { wrong("anything but cancelled") };
    }
    let expected = expect(shadow, step, plan);
    // Whether the flow was stopped when `finally` looked at it is not known any more.
    let stopped_since = spec.phase == PhaseKind::Finally && shadow.was_unwanted();
    if stopped_since && matches!(plan.when, When::Status(StatusFn::Success | StatusFn::Cancelled)) {
        return Ok(());
    }
    let right = match expected {
        Expected::SkippedByParent => matches!(outcome, StepOutcome::Skipped(SkipReason::Parent { .. })),
        Expected::SkippedByCondition => matches!(outcome, StepOutcome::Skipped(SkipReason::Condition)),
        Expected::ConditionFails => failed_by(step, &Cause::Expression),
        Expected::Acts => return judge_action(shadow, step, plan),
    };
    if right { Ok(()) } else { wrong(&format!("{expected:?}")) }
}

fn expect(shadow: &Shadow, step: &Step, plan: StepPlan) -> Expected {
    let spec = shadow.spec_of(step);
    let parents = spec.needs.iter().filter_map(|need| shadow.instance(step, need.0 as usize));
    let parents: Vec<(&Step, &StepSpec)> = parents.map(|parent| (parent, shadow.spec_of(parent))).collect();
    // In the rounds of `finally` a step looks at its parents, as in those of the main part.
    let phase = if step.origin == Origin::Root { spec.phase } else { PhaseKind::Main };
    let accepted = |(step, spec): &(&Step, &StepSpec)| ended_well(step) || (has_failed(step) && spec.continue_on_fail);
    let by_condition = |truth: bool| if truth { Expected::Acts } else { Expected::SkippedByCondition };
    match plan.when {
        When::Status(function) => by_condition(match (function, phase) {
            (StatusFn::Always, _) => true,
            (StatusFn::Success, PhaseKind::Main) => parents.iter().all(accepted),
            (StatusFn::Failure, PhaseKind::Main) => parents.iter().any(|(step, _)| has_failed(step)),
            (StatusFn::Cancelled, PhaseKind::Main) => parents.iter().any(|(step, _)| was_cancelled(step)),
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
    let roots = shadow.steps.iter().zip(&shadow.plan.pipeline.steps).take(shadow.roots());
    roots
        .filter(|(_, spec)| spec.phase == PhaseKind::Main)
        .any(|(step, spec)| has_failed(step) && !spec.continue_on_fail)
}

fn was_cancelled(step: &Step) -> bool {
    outcome_of(step) == Some(&StepOutcome::Cancelled)
}

fn was_skipped(step: &Step) -> bool {
    matches!(outcome_of(step), Some(StepOutcome::Skipped(_)))
}

fn failed_by(step: &Step, cause: &Cause) -> bool {
    matches!(outcome_of(step), Some(StepOutcome::Failed(failure)) if failure.cause == *cause)
}

fn judge_action(shadow: &Shadow, step: &Step, plan: StepPlan) -> Checked {
    let Some(fan) = plan.fan else {
        return judge_act(shadow, step, plan);
    };
    if !shadow.runs_of(step.no).is_empty() {
        let unwanted = is_unwanted(shadow, step);
        return judge_leaf(shadow, step, (Kind::Agent, unwanted));
    }
    let written = shadow.totals.get(&step.path).copied();
    let right = match list_of(shadow, step, fan) {
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
fn list_of(shadow: &Shadow, step: &Step, fan: Fan) -> Option<u32> {
    if fan == Fan::Parent {
        let parent = shadow.instance(step, shadow.spec_of(step).needs.first()?.0 as usize)?;
        let plan = shadow.plan.steps[parent.spec.0 as usize];
        let puts_out = plan.fan.is_none() && matches!(plan.kind, Kind::Run | Kind::Agent);
        // An agent that delivered was woken again and then ended otherwise.
        let delivered = outcome_of(parent) == Some(&StepOutcome::Succeeded) || parent.output.is_some();
        if !puts_out || !delivered {
            return None;
        }
    }
    Plan::elements(fan)
}

/// A step that acts: how it ended follows from its runs, or from what it waited for.
fn judge_act(shadow: &Shadow, step: &Step, plan: StepPlan) -> Checked {
    let flow = shadow.spec.id;
    let Some(outcome) = outcome_of(step) else { return Ok(()) };
    let runs = shadow.runs_of(step.no);
    if shadow.spec.taken_over.contains_key(&step.path) {
        return hold(runs.is_empty(), Rule::TakenOver, flow, || format!("`{}` was taken over and ran", step.path));
    }
    let spec = shadow.spec_of(step);
    let may_skip = spec.concurrency.as_ref().is_some_and(|group| group.on_limit == OnLimit::Skip);
    let unwanted = is_unwanted(shadow, step);
    let right = match outcome {
        StepOutcome::Skipped(SkipReason::Group { .. }) => may_skip && step.attempts as usize == runs.len(),
        StepOutcome::Cancelled => unwanted,
        StepOutcome::Failed(failure) if failure.cause == Cause::Expression && plan.broken_env => runs.is_empty(),
        _ => match plan.kind {
            Kind::Run | Kind::Agent => return judge_leaf(shadow, step, (plan.kind, unwanted)),
            Kind::Approval => judge_answer(shadow, step, outcome),
            Kind::Pause => *outcome == StepOutcome::Succeeded,
            Kind::Event => {
                let in_vain = |failure: &Failure| matches!(failure.cause, Cause::NoEvent(_));
                matches!(outcome, StepOutcome::Failed(failure) if in_vain(failure))
                    || *outcome == StepOutcome::Succeeded
            }
            // The judge compares it with its child flow when it ends.
            Kind::Child => match outcome {
                StepOutcome::Failed(failure) => matches!(failure.cause, Cause::Child { .. }),
                other => *other == StepOutcome::Succeeded,
            },
            Kind::Repeat(most, until) => judge_rounds(shadow, step, (most, until)),
        },
    };
    hold(right, Rule::Outcome, flow, || format!("`{}` is {outcome:?}, and it is {plan:?}", step.path))
}

fn is_unwanted(shadow: &Shadow, step: &Step) -> bool {
    let ran_out = shadow.spec_of(step).phase == PhaseKind::Finally && finally_ran_out(shadow);
    ran_out || shadow.was_unwanted() || shadow.fails_fast(step)
}

fn judge_answer(shadow: &Shadow, step: &Step, outcome: &StepOutcome) -> bool {
    match (outcome, shadow.answer_of(step.no, None)) {
        (StepOutcome::Succeeded, Some(Answer::Approved)) => true,
        (StepOutcome::Failed(failure), Some(Answer::Denied)) => matches!(failure.cause, Cause::Answer { .. }),
        _ => false,
    }
}

fn judge_rounds(shadow: &Shadow, step: &Step, (most, until): (u32, Until)) -> bool {
    let made = step.attempts;
    let of_round = |other: &&Step, round: u32| matches!(other.origin, Origin::Round { of, number, .. } if of == step.no && number == round);
    let failed = |round: u32| {
        let mut steps = shadow.steps.iter().filter(|other| of_round(other, round));
        steps.any(|other| has_failed(other) && !shadow.spec_of(other).continue_on_fail)
    };
    let earlier = (1..made).any(failed);
    // Whoever stands still makes no further round.
    let still = |round: u32| shadow.stood_still(step, round);
    let earlier = earlier || (1..made).any(still);
    let right = match outcome_of(step) {
        Some(StepOutcome::Succeeded) => match until {
            Until::All => made == most && !failed(made),
            Until::Yes => made == 1 && !failed(made),
            Until::No | Until::Broken => false,
        },
        Some(StepOutcome::Failed(failure)) => match &failure.cause {
            Cause::Round { number } => *number == made && failed(made),
            Cause::Rounds { made: said } => {
                until == Until::No && *said == made && made == most && !failed(made) && !still(made)
            }
            Cause::NoProgress { made: said } => until == Until::No && *said == made && !failed(made) && still(made),
            Cause::Expression => until == Until::Broken && made == 1 && !failed(made),
            _ => false,
        },
        _ => false,
    };
    right && !earlier && made >= 1
}

/// A step that runs: how it ended follows from its runs.
fn judge_leaf(shadow: &Shadow, step: &Step, (kind, unwanted): (Kind, bool)) -> Checked {
    let flow = shadow.spec.id;
    let Some(outcome) = outcome_of(step) else { return Ok(()) };
    let runs = shadow.runs_of(step.no);
    let numbered = runs.iter().zip(1..).all(|(run, attempt)| run.attempt == attempt);
    hold(numbered && step.attempts as usize == runs.len(), Rule::Attempts, flow, || {
        format!("`{}` counts {} attempts of {}", step.path, step.attempts, runs.len())
    })?;
    let spec = shadow.spec_of(step);
    let ended = |run: &Run, wanted: &RunOutcome| matches!(&run.state, RunState::Finished { outcome, .. } if std::mem::discriminant(outcome) == std::mem::discriminant(wanted));
    let delivered = |run: &Run| ended(run, &RunOutcome::Delivered);
    let last = runs.last().copied();
    // A message that came while it ran has an agent woken again that delivered.
    let own = runs.iter().rev().skip(1).filter(|run| shadow.purpose(run) == Purpose::Own);
    let early = kind == Kind::Run && own.into_iter().any(|run| delivered(run));
    let resolves = last.is_some_and(|run| shadow.purpose(run) == Purpose::Resolves);
    let merges = shadow.is_fan_out(step) || resolves;
    let runs = shadow.latest(&runs);
    let gave_up = used_up(&runs) >= spec.retry.attempts as usize;
    let blocked = RunOutcome::Blocked { why: String::new(), call: None };
    let right = match outcome {
        StepOutcome::Succeeded => last.is_some_and(|run| delivered(run) && shadow.purpose(run) == Purpose::Own),
        StepOutcome::Failed(failure) => match &failure.cause {
            Cause::Conflict(_) => {
                // With two tips; whoever starts from more is given more runs.
                let too_often = step.attempts > 2 * (2 + spec.retry.attempts);
                let given_up = spec.on_conflict.is_none() || unwanted || too_often || (resolves && gave_up);
                given_up && last.and_then(failure_of) == Some(&failure.cause)
            }
            Cause::LostNotIdempotent => !spec.idempotent && !merges && last.and_then(failure_of) == Some(&Cause::Lost),
            Cause::Quarantined { .. } => (spec.idempotent || merges) && last.and_then(failure_of) == Some(&Cause::Lost),
            Cause::Missing => {
                let owed = runs.iter().filter(|run| is_owing(run)).count();
                last.is_some_and(is_owing) && (owed > REMINDERS || unwanted)
            }
            Cause::Answer { .. } => {
                last.is_some_and(|run| ended(run, &blocked)) && shadow.answer_of(step.no, last) == Some(Answer::Denied)
            }
            Cause::Silent(_) | Cause::Wall(_) => last.and_then(failure_of) == Some(&failure.cause),
            Cause::Expansion | Cause::Elements { .. } | Cause::Lost | Cause::Expression => false,
            cause => last.and_then(failure_of) == Some(cause) && (gave_up || unwanted),
        },
        StepOutcome::Cancelled | StepOutcome::NoChange | StepOutcome::Skipped(_) => false,
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
    for (at, spec) in specs.iter().enumerate().take(shadow.roots()) {
        let step = &shadow.steps[at];
        let cancelled = outcome_of(step) == Some(&StepOutcome::Cancelled);
        let given = shadow.spec.taken_over.get(&step.path).filter(|_| cancelled);
        // Whoever found a group full may find room in it the next time.
        let full = |step: &Step| matches!(outcome_of(step), Some(StepOutcome::Skipped(SkipReason::Group { .. })));
        let was_full = full(step) || shadow.elements(step.no).any(full);
        let own = has_failed(step) || (cancelled && given.is_none()) || was_full;
        redone[at] = own || spec.needs.iter().any(|need| redone[need.0 as usize]);
        let leaf = shadow.plan.steps[at].fan.is_none();
        if spec.phase == PhaseKind::Main && leaf && !redone[at] && (ended_well(step) || given.is_some()) {
            kept.push((at, given.map_or(step.output.as_ref(), |given| given.output.as_ref())));
        }
    }
    kept
}
