//! Watches every commit and compares it with its own copy of what there was: what a flow may become, and what it may
//! not. The copy is made from the changes alone and never asks the engine anything.
//!
//! Next: [`super::oracle`], which judges a flow that is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orc_domain::claim::Holder;
use orc_domain::effect::{Change, Decision};
use orc_domain::event::Fact;
use orc_domain::flow::{FlowHead, FlowOutcome, FlowSpec, FlowState, Phase, Step, StepNo, StepOutcome, StepState, Stop};
use orc_domain::graph::PhaseKind;
use orc_domain::ids::{FlowId, RequestId, RunId};
use orc_domain::input::Ending;
use orc_domain::path::StepPath;
use orc_domain::request::Request;
use orc_domain::run::{Cause, ErrorFamily, Run, RunOutcome, RunState, StopReason};
use orc_domain::time::Timestamp;

use super::oracle;
use super::plan::{Plan, REMINDERS};
use super::rule::{Checked, Rule, hold};
use super::trees::Given;
use super::watch::has_begun;
use super::world::World;
use crate::model::Model;

/// Design 10: poison steps are quarantined after killing three workers.
const MAX_LOSSES: u32 = 3;
/// Design 10: a silent run is recovered at most 3 times, and a bad moment outside has four waits.
const MAX_SILENT: usize = 3;
const UPSTREAM_WAITS: usize = 4;

/// What the judge knows of all flows.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    pub(crate) flows: BTreeMap<FlowId, Shadow>,
    live: BTreeSet<RunId>,
    /// Places in concurrency groups, as flows and steps say that they are in them.
    pub(super) places: BTreeSet<(String, Holder)>,
    events: usize,
}

/// What the judge knows of one flow.
#[derive(Debug)]
pub(crate) struct Shadow {
    pub(crate) plan: Arc<Plan>,
    pub(crate) spec: FlowSpec,
    pub(crate) head: Option<FlowHead>,
    pub(crate) steps: Vec<Step>,
    /// All there ever were.
    pub(crate) runs: BTreeMap<RunId, Run>,
    /// All there ever were.
    pub(crate) requests: BTreeMap<RequestId, Request>,
    /// Facts told, by kind and subject.
    told: BTreeMap<(&'static str, String), u32>,
    /// Length of the list of each fan-out.
    pub(crate) totals: BTreeMap<StepPath, u32>,
    /// When `finally` had to be over.
    pub(crate) finally_deadline: Option<Timestamp>,
    /// A commit after that left it unfinished.
    pub(crate) finally_overran: bool,
    /// Reasons for which runs were asked to end.
    pub(crate) stops: BTreeSet<StopReason>,
    /// What runs were given to work in.
    pub(super) given: Given,
}

/// One commit and what is around it.
pub(crate) struct Evidence<'a> {
    pub(crate) flow: FlowId,
    pub(crate) decision: &'a Decision,
    /// The decision is several in one.
    pub(crate) joined: bool,
    pub(crate) model: &'a Model,
    pub(crate) world: &'a World,
    pub(crate) wall: Timestamp,
    pub(crate) capacity: usize,
}

/// What a commit did to steps and runs.
#[derive(Default)]
struct Seen {
    opened: Vec<StepNo>,
    begun: Vec<StepNo>,
    closed: Vec<StepNo>,
    born: Vec<RunId>,
}

impl Seen {
    fn note(&mut self, old: Option<&Step>, step: &Step) {
        if is_finished(step) && old.is_none_or(|old| !is_finished(old)) {
            self.closed.push(step.no);
        }
        if has_begun(old, step) {
            self.begun.push(step.no);
        }
        if old.is_none_or(|old| old.state == StepState::Blocked) {
            self.opened.push(step.no);
        }
    }
}

fn unknown(flow: FlowId) -> super::Violation {
    super::Violation { rule: Rule::Rows, flow: Some(flow), found: "nobody asked for it".to_owned() }
}

impl Judge {
    /// A flow that is about to begin.
    pub(crate) fn expect(&mut self, spec: FlowSpec, plan: Arc<Plan>) {
        let shadow = Shadow {
            plan,
            spec: spec.clone(),
            head: None,
            steps: Vec::new(),
            runs: BTreeMap::new(),
            requests: BTreeMap::new(),
            told: BTreeMap::new(),
            totals: BTreeMap::new(),
            finally_deadline: None,
            finally_overran: false,
            stops: BTreeSet::new(),
            given: Given::default(),
        };
        self.flows.insert(spec.id, shadow);
    }

    /// Takes in a commit that the store accepted.
    pub(crate) fn see(&mut self, evidence: &Evidence<'_>) -> Checked {
        let flow = evidence.flow;
        let Some(shadow) = self.flows.get(&flow) else {
            return Ok(());
        };
        let before = shadow.head.clone();
        let seen = self.take_in(evidence)?;
        let shadow = self.flows.get_mut(&flow).ok_or_else(|| unknown(flow))?;
        shadow.check_births(evidence, before.as_ref(), &seen.born)?;
        for no in seen.opened {
            shadow.check_parents(flow, no)?;
        }
        shadow.check_facts(evidence, before.as_ref(), &seen.closed)?;
        shadow.check_starts(evidence)?;
        shadow.check_runs(evidence)?;
        let runs = evidence.decision.changes.iter().filter_map(|change| match change {
            Change::Run(run) => Some(run),
            _ => None,
        });
        shadow.check_agents(evidence, &runs.collect::<Vec<_>>())?;
        shadow.check_holds(evidence, before.as_ref(), &seen.begun)?;
        for no in &seen.closed {
            shadow.check_join(evidence, *no)?;
            shadow.check_handed_on(evidence, *no)?;
            shadow.check_rounds(flow, *no)?;
        }
        for change in &evidence.decision.changes {
            if let Change::Step(step) = change {
                shadow.check_wait(flow, step)?;
            }
        }
        shadow.check_alarm(evidence)?;
        self.check_kin(flow, &seen.closed)?;
        self.check_slots(evidence)?;
        self.check_places(evidence)?;
        self.check_positions(evidence)?;
        let shadow = &self.flows[&flow];
        if !shadow.is_finished() {
            return Ok(());
        }
        shadow.check_flow(evidence)?;
        oracle::judge(shadow)
    }

    /// Copies the changes of a commit.
    fn take_in(&mut self, evidence: &Evidence<'_>) -> Result<Seen, super::Violation> {
        let flow = evidence.flow;
        let mut seen = Seen::default();
        let own = |head: Option<&FlowHead>| head.and_then(|head| head.group.clone()).into_iter().collect();
        for change in &evidence.decision.changes {
            let shadow = self.flows.get_mut(&flow).ok_or_else(|| unknown(flow))?;
            match change {
                Change::Head(head) => {
                    let old = own(shadow.head.as_ref());
                    shadow.see_head(flow, head, evidence.joined)?;
                    self.see_places(Holder { flow, step: None }, old, own(Some(head)));
                }
                Change::Request(request) => shadow.see_request(flow, request)?,
                Change::Step(step) => {
                    let old = shadow.see_step(flow, step)?;
                    seen.note(old.as_ref(), step);
                    let places = old.map(|old| old.places).unwrap_or_default();
                    self.see_places(Holder { flow, step: Some(step.no) }, places, step.places.clone());
                }
                Change::Run(run) => {
                    if !shadow.see_run(flow, run)? {
                        seen.born.push(run.id);
                    }
                    if run.state.is_final() {
                        self.live.remove(&run.id);
                    } else {
                        self.live.insert(run.id);
                    }
                }
            }
        }
        Ok(seen)
    }

    /// Whether every flow that was expected has begun and is over.
    pub(crate) fn all_finished(&self) -> bool {
        self.flows.values().all(Shadow::is_finished)
    }

    fn check_slots(&self, evidence: &Evidence<'_>) -> Checked {
        let slots = evidence.model.slots();
        let found = || format!("{} slots are taken, {} runs live", slots.len(), self.live.len());
        hold(*slots == self.live, Rule::Slots, evidence.flow, found)?;
        hold(slots.len() <= evidence.capacity, Rule::Slots, evidence.flow, || {
            format!("{} slots are taken of {}", slots.len(), evidence.capacity)
        })
    }

    fn check_positions(&mut self, evidence: &Evidence<'_>) -> Checked {
        self.events += evidence.decision.events.len();
        let stored = evidence.model.events();
        let last = stored.last().map_or(0, |event| event.position);
        let whole = stored.len() == self.events && last == self.events as u64;
        hold(whole, Rule::Events, evidence.flow, || {
            format!("{} events were decided, {} are stored", self.events, stored.len())
        })
    }
}

impl Shadow {
    pub(crate) fn is_finished(&self) -> bool {
        self.head.as_ref().is_some_and(|head| matches!(head.state, FlowState::Finished { .. }))
    }

    /// How often people asked it to end.
    pub(crate) fn cancels(&self) -> u32 {
        self.told.iter().filter(|((kind, _), _)| *kind == "FlowCancelRequested").map(|(_, count)| count).sum()
    }

    /// Whether it was ended, or never begun, for reasons that are none of its steps'.
    pub(crate) fn was_unwanted(&self) -> bool {
        let ended = |state: &FlowState| {
            let outcome = match state {
                FlowState::Finished { outcome, .. } => *outcome,
                FlowState::Live { stop: Stop::Exhausted { .. }, .. } => return true,
                FlowState::Live { .. } | FlowState::Queued { .. } => return false,
            };
            matches!(outcome, FlowOutcome::Cancelled | FlowOutcome::BudgetExhausted)
        };
        self.cancels() > 0 || self.head.as_ref().is_some_and(|head| ended(&head.state))
    }

    /// Whether this was told of the flow as a whole.
    pub(crate) fn was_told(&self, kind: &'static str) -> bool {
        self.told.contains_key(&(kind, "flow".to_owned()))
    }

    /// Steps that the flow has from its start.
    pub(crate) fn roots(&self) -> usize {
        self.plan.pipeline.roots()
    }

    /// The runs of a step, in order of attempt.
    pub(crate) fn runs_of(&self, no: StepNo) -> Vec<&Run> {
        let mut runs: Vec<&Run> = self.runs.values().filter(|run| run.no == no).collect();
        runs.sort_by_key(|run| run.attempt);
        runs
    }

    /// The written elements of a fan-out.
    pub(crate) fn elements(&self, group: StepNo) -> impl Iterator<Item = &Step> {
        let of = move |step: &&Step| step.origin.element().is_some_and(|element| element.group == group);
        self.steps.iter().filter(of)
    }

    pub(crate) fn phase(&self, step: &Step) -> PhaseKind {
        self.plan.pipeline.steps[step.spec.0 as usize].phase
    }

    fn see_head(&mut self, flow: FlowId, head: &FlowHead, joined: bool) -> Checked {
        let over = self.is_finished();
        hold(!over, Rule::Final, flow, || "a finished flow changed".to_owned())?;
        let version = self.head.as_ref().map_or(0, |old| old.version);
        let next = if joined { head.version > version } else { head.version == version + 1 };
        hold(next, Rule::Rows, flow, || format!("version {} after {version}", head.version))?;
        if let FlowState::Live { phase: Phase::Finally { deadline }, .. } = head.state {
            self.finally_deadline = Some(deadline);
            self.finally_overran |= head.seen >= deadline;
        }
        self.head = Some(head.clone());
        Ok(())
    }

    fn see_step(&mut self, flow: FlowId, step: &Step) -> Result<Option<Step>, super::Violation> {
        let at = step.no.0 as usize;
        let old = self.steps.get(at).cloned();
        if let Some(old) = &old {
            hold(!is_finished(old) || old == step, Rule::Final, flow, || {
                format!("`{}` was {:?} and is {:?}", step.path, old.state, step.state)
            })?;
        }
        match self.steps.get_mut(at) {
            Some(kept) => *kept = step.clone(),
            None => self.steps.push(step.clone()),
        }
        Ok(old)
    }

    /// True when the run was known before.
    fn see_run(&mut self, flow: FlowId, run: &Run) -> Result<bool, super::Violation> {
        let old = self.runs.insert(run.id, run.clone());
        if let Some(old) = &old {
            hold(!old.state.is_final() || old == run, Rule::Final, flow, || {
                format!("run {} of `{}` was over and changed", run.attempt, run.path)
            })?;
        }
        Ok(old.is_some())
    }

    fn check_births(&self, evidence: &Evidence<'_>, before: Option<&FlowHead>, born: &[RunId]) -> Checked {
        let after = if evidence.joined { before } else { self.head.as_ref() };
        let Some(FlowState::Live { stop, .. }) = after.map(|head| &head.state) else {
            return Ok(());
        };
        for run in born.iter().filter_map(|run| self.runs.get(run)) {
            let live = self.runs.values().filter(|other| other.no == run.no && !other.state.is_final());
            let live = live.count();
            hold(live <= 1, Rule::OneRun, evidence.flow, || format!("`{}` has {live} live runs", run.path))?;
            let step = &self.steps[run.no.0 as usize];
            let late = !evidence.joined && self.failed_fast(step);
            hold(!late, Rule::Stopped, evidence.flow, || {
                format!("`{}` was started after a sibling failed under `fail_fast`", run.path)
            })?;
            let phase = self.phase(step);
            let allowed = match stop {
                Stop::None => true,
                Stop::Cancel { .. } | Stop::Exhausted { .. } => phase == PhaseKind::Finally,
                Stop::Force { .. } => false,
            };
            hold(allowed, Rule::Stopped, evidence.flow, || format!("`{}` was started after {stop:?}", run.path))?;
        }
        Ok(())
    }

    /// A sibling of this element failed, and that is the end of all.
    fn failed_fast(&self, step: &Step) -> bool {
        let foreach = self.plan.pipeline.steps[step.spec.0 as usize].fan.as_ref();
        let fail_fast = foreach.is_some_and(|foreach| foreach.fail_fast);
        let group = step.origin.element().map(|element| element.group).filter(|_| fail_fast);
        group.is_some_and(|group| self.elements(group).any(has_failed))
    }

    fn check_parents(&self, flow: FlowId, no: StepNo) -> Checked {
        let step = &self.steps[no.0 as usize];
        let never = matches!(step.state, StepState::Blocked | StepState::Finished { outcome: StepOutcome::Cancelled });
        if never {
            return Ok(());
        }
        let spec = &self.plan.pipeline.steps[step.spec.0 as usize];
        let parents = spec.needs.iter().filter_map(|need| self.instance(step, need.0 as usize));
        let open = if step.origin.element().is_some() { None } else { parents.into_iter().find(|p| !is_finished(p)) };
        let open_main = || self.steps.iter().find(|s| self.phase(s) == PhaseKind::Main && !is_finished(s));
        let open = match spec.phase {
            PhaseKind::Main => open,
            PhaseKind::Finally => open.or_else(open_main),
        };
        hold(open.is_none(), Rule::Parents, flow, || {
            let parent = open.map(|parent| parent.path.as_str()).unwrap_or_default();
            format!("`{}` is {:?} before `{parent}` is finished", step.path, step.state)
        })
    }

    fn check_facts(&mut self, evidence: &Evidence<'_>, before: Option<&FlowHead>, closed: &[StepNo]) -> Checked {
        let flow = evidence.flow;
        for event in &evidence.decision.events {
            let subject = self.subject(flow, &event.fact)?;
            let often = self.told.entry((event.fact.kind(), subject.clone())).or_default();
            *often += 1;
            let once = !matches!(
                event.fact,
                Fact::RetryPlanned { .. }
                    | Fact::RunStopRequested { .. }
                    | Fact::FlowCancelRequested { .. }
                    | Fact::HoldPlaced { .. }
                    | Fact::HoldLifted { .. }
                    | Fact::RequestReminded { .. }
                    | Fact::WallReached { .. }
            );
            let often = *often;
            hold(!once || often == 1, Rule::Events, flow, || {
                format!("{} of {subject} was told {often} times", event.fact.kind())
            })?;
        }
        let told = |kind: &'static str, subject: &str| self.told.contains_key(&(kind, subject.to_owned()));
        for step in closed.iter().map(|no| &self.steps[no.0 as usize]) {
            let copied = step.origin.element().is_some() && self.spec.taken_over.contains_key(&step.path);
            hold(copied || told("StepFinished", step.path.as_str()), Rule::Events, flow, || {
                format!("the end of `{}` was not told", step.path)
            })?;
        }
        let ended = self.is_finished();
        hold(told("FlowFinished", "flow") == ended, Rule::Events, flow, || {
            format!("the flow is finished: {ended}, and that was not what was told")
        })?;
        hold(told("FlowStarted", "flow") || before.is_some(), Rule::Events, flow, || {
            "the start was not told".to_owned()
        })
    }

    /// What a fact is about, after comparing it with the rows.
    fn subject(&mut self, flow: FlowId, fact: &Fact) -> Result<String, super::Violation> {
        let mut lie = None;
        let subject = match fact {
            Fact::FlowStarted { .. } | Fact::FlowCancelRequested { .. } => "flow".to_owned(),
            Fact::FlowFinished { outcome, .. } => {
                let state = self.head.as_ref().map(|head| head.state.clone());
                let same = matches!(&state, Some(FlowState::Finished { outcome: row, .. }) if row == outcome);
                lie = (!same).then(|| format!("{state:?}"));
                "flow".to_owned()
            }
            Fact::StepExpanded { path, total } => {
                self.totals.insert(path.clone(), *total);
                path.to_string()
            }
            Fact::StepFinished { path, outcome } => {
                let step = self.steps.iter().find(|step| step.path == *path);
                let state = step.map(|step| step.state.clone());
                let same = matches!(&state, Some(StepState::Finished { outcome: row }) if row == outcome);
                lie = (!same).then(|| format!("{state:?}"));
                path.to_string()
            }
            Fact::CommandRunStarted { run, .. } | Fact::AgentRunStarted { run, .. } => run.to_string(),
            Fact::CommandRunCompleted { run, outcome, .. } | Fact::AgentRunCompleted { run, outcome, .. } => {
                let state = self.runs.get(run).map(|run| run.state.clone());
                let same = matches!(&state, Some(RunState::Finished { outcome: row, .. }) if row == outcome);
                lie = (!same).then(|| format!("{state:?}"));
                run.to_string()
            }
            Fact::RunParked { run, .. } => run.to_string(),
            Fact::SandboxViolation { run, violation, .. } => format!("{run} tried {}", violation.what),
            Fact::RetryPlanned { path, .. } => path.to_string(),
            Fact::RunStopRequested { run, reason, .. } => {
                self.stops.insert(*reason);
                run.to_string()
            }
            Fact::RoundStarted { path, number } => format!("{path}~{number}"),
            Fact::StepWaiting { path, what, .. } => format!("{path} for {what}"),
            Fact::RequestOpened { request, .. }
            | Fact::RequestReminded { request, .. }
            | Fact::RequestResolved { request, .. } => request.to_string(),
            Fact::MessageReceived { message, .. } => message.to_string(),
            Fact::FlowQueued { .. } | Fact::HoldPlaced { .. } | Fact::HoldLifted { .. } | Fact::WallReached { .. } => {
                fact.path().map_or_else(|| "flow".to_owned(), ToString::to_string)
            }
        };
        hold(lie.is_none(), Rule::Events, flow, || {
            format!("{} of {subject} was told of {}", fact.kind(), lie.unwrap_or_default())
        })?;
        Ok(subject)
    }

    /// Accepted ends are what the processes did, and nobody is tried too often.
    fn check_runs(&self, evidence: &Evidence<'_>) -> Checked {
        let flow = evidence.flow;
        for change in &evidence.decision.changes {
            let Change::Run(run) = change else { continue };
            let RunState::Finished { outcome, .. } = &run.state else {
                continue;
            };
            let really = evidence.world.endings.get(&run.id);
            let true_end = match outcome {
                RunOutcome::Delivered => matches!(really, Some(Ending::Delivered { .. })),
                RunOutcome::NoDeliverable { .. } => matches!(really, Some(Ending::NoDeliverable { .. })),
                RunOutcome::Blocked { .. } => matches!(really, Some(Ending::Blocked { .. })),
                RunOutcome::Failed(failure) => match &failure.cause {
                    Cause::Lost | Cause::Timeout(_) | Cause::Silent(_) | Cause::Looping | Cause::Wall(_) => {
                        !evidence.world.lives(run.id)
                    }
                    // An agent that was given up before its start was heard of may have ended in any way.
                    Cause::Missing | Cause::Blocked => !evidence.world.lives(run.id),
                    Cause::Start => !evidence.world.starts.contains_key(&run.id),
                    _ => really == Some(&Ending::Failed(failure.clone())),
                },
                _ => !evidence.world.lives(run.id),
            };
            hold(true_end, Rule::Truth, flow, || {
                format!("`{}` ended as {outcome:?}, and really {really:?}", run.path)
            })?;
            self.check_counts(evidence, run)?;
        }
        Ok(())
    }

    fn check_counts(&self, evidence: &Evidence<'_>, run: &Run) -> Checked {
        let runs = self.latest(&self.runs_of(run.no));
        let step = &self.steps[run.no.0 as usize];
        let failures = used_up(&runs);
        let attempts = self.plan.pipeline.steps[step.spec.0 as usize].retry.attempts as usize;
        hold(failures <= attempts, Rule::Attempts, evidence.flow, || {
            format!("`{}` failed {failures} times of {attempts}", run.path)
        })?;
        let owed = runs.iter().filter(|run| is_owing(run)).count();
        let silent = runs.iter().filter(|run| matches!(failure_of(run), Some(Cause::Silent(_)))).count();
        hold(owed <= REMINDERS + 1 && silent <= MAX_SILENT, Rule::Attempts, evidence.flow, || {
            format!("`{}` owed something {owed} times and was silent {silent} times", run.path)
        })?;
        let losses = step.losses.in_vain;
        hold(losses <= MAX_LOSSES, Rule::Losses, evidence.flow, || {
            format!("`{}` was lost {losses} times in vain", run.path)
        })
    }
}

pub(crate) const fn is_finished(step: &Step) -> bool {
    matches!(step.state, StepState::Finished { .. })
}

pub(crate) const fn outcome_of(step: &Step) -> Option<&StepOutcome> {
    match &step.state {
        StepState::Finished { outcome } => Some(outcome),
        _ => None,
    }
}

pub(crate) const fn ended_well(step: &Step) -> bool {
    matches!(outcome_of(step), Some(StepOutcome::Succeeded | StepOutcome::NoChange))
}

pub(crate) const fn has_failed(step: &Step) -> bool {
    matches!(outcome_of(step), Some(StepOutcome::Failed(_)))
}

/// Why a run that is over failed.
pub(crate) const fn failure_of(run: &Run) -> Option<&Cause> {
    match &run.state {
        RunState::Finished { outcome: RunOutcome::Failed(failure), .. } => Some(&failure.cause),
        _ => None,
    }
}

/// Failures that count against `retry:`: not losses, not silence, and of bad moments outside those that had no wait.
pub(crate) fn used_up(runs: &[&Run]) -> usize {
    let family = |run: &&&Run| match &run.state {
        RunState::Finished { outcome: RunOutcome::Failed(failure), .. } => Some(failure.family),
        _ => None,
    };
    let upstream = runs.iter().filter(|run| family(run) == Some(ErrorFamily::TransientUpstream)).count();
    let free = [ErrorFamily::ProcessLost, ErrorFamily::SilentRun, ErrorFamily::TransientUpstream];
    let others = runs.iter().filter(|run| family(run).is_some_and(|family| !free.contains(&family))).count();
    others + upstream.saturating_sub(UPSTREAM_WAITS)
}

/// A run that ended without what it owed.
pub(crate) const fn is_owing(run: &Run) -> bool {
    matches!(run.state, RunState::Finished { outcome: RunOutcome::NoDeliverable { .. }, .. })
}
