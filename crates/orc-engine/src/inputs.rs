//! What a flow hears: its start, and facts and wishes about it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orc_domain::budget::Usage;
use orc_domain::confine::Violation;
use orc_domain::effect::{Decision, EffectKind};
use orc_domain::event::Fact;
use orc_domain::flow::{
    Flow, FlowHead, FlowSpec, FlowState, Losses, Merging, Origin, Phase, Step, StepNo, StepState, Stop,
};
use orc_domain::graph::{PhaseKind, Pipeline, SpecIndex};
use orc_domain::hold::HoldReason;
use orc_domain::ids::RunId;
use orc_domain::input::{Ending, Input, Told};
use orc_domain::path::StepPath;
use orc_domain::run::{Cause, ErrorFamily, Failure, Process, RunOutcome, RunState, StopReason};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::transition::Transition;
use orc_domain::value::Value;

use crate::Context;
use crate::draft::Draft;
use crate::resident::{Resident, spec_index};

/// Makes a flow and decides its beginning. The first commit of a flow writes every step instance of the definition.
#[must_use]
pub fn start(spec: FlowSpec, pipeline: Arc<Pipeline>, context: &Context) -> (Resident, Decision) {
    let by = spec.requested_by.clone();
    let now = context.now;
    let roots = pipeline.roots();
    let count = |phase| {
        let steps = pipeline.steps[..roots].iter().filter(|step| step.phase == phase).count();
        u32::try_from(steps).unwrap_or(u32::MAX)
    };
    let head = FlowHead {
        state: FlowState::Live { phase: Phase::Main, stop: Stop::None },
        version: 0,
        wake_at: Some(now),
        seen: now,
        open_main: count(PhaseKind::Main),
        open_finally: count(PhaseKind::Finally),
        main_failed: false,
        finally_failed: false,
        holds: Vec::new(),
        group: None,
        usage: Usage::default(),
        raised: 1,
        time_over: None,
        output: None,
        detail: String::new(),
        tips: Vec::new(),
    };
    let steps = pipeline.steps[..roots].iter().enumerate().map(|(at, step)| {
        let state = StepState::Blocked;
        new_step(StepNo(spec_index(at).0), StepPath::root(&step.key), (spec_index(at), Origin::Root), state, now)
    });
    let started = Fact::FlowStarted { pipeline: spec.name.clone(), retry_of: spec.retry_of };
    let (runs, requests) = (BTreeMap::new(), BTreeMap::new());
    let flow = Flow { spec, head, steps: steps.collect(), runs, requests };
    let mut draft = Draft::begin(Resident::new(flow, pipeline), &by, context);
    draft.take(Transition::FlowStarted);
    draft.tell(started);
    draft.write_all_steps();
    if draft.enter_group() {
        draft.begin_work();
    }
    draft.settle();
    draft.end()
}

/// A step instance that has done nothing yet.
pub(crate) fn new_step(
    no: StepNo,
    path: StepPath,
    (spec, origin): (SpecIndex, Origin),
    state: StepState,
    since: Timestamp,
) -> Step {
    Step {
        no,
        path,
        spec,
        origin,
        state,
        since,
        attempts: 0,
        failures: 0,
        losses: Losses::default(),
        silences: 0,
        upstream: 0,
        places: Vec::new(),
        reminders: 0,
        inbox: Vec::new(),
        heard: BTreeSet::new(),
        output: None,
        artifacts: BTreeMap::new(),
        merging: Merging::Plain,
        tips: Vec::new(),
    }
}

impl Draft<'_> {
    /// The first steps of a flow that has its place.
    pub(crate) fn begin_work(&mut self) {
        self.begin_time();
        self.open_phase(PhaseKind::Main);
    }

    /// Takes an input in. What follows from it is drawn by `settle`.
    pub(crate) fn hear(&mut self, input: &Input) {
        match input {
            Input::Alarm => {}
            Input::Cancel { force } => self.cancel(*force),
            Input::End { force } => self.end_for_another(*force),
            Input::RunStarted { run, process } => self.on_live(*run, |draft, no| {
                draft.run_started(no, *run, process);
            }),
            Input::RunHeard { run, statistics, usage, looping } => self.on_live(*run, |draft, no| {
                draft.run_heard(no, *run, (*statistics, *usage), *looping);
            }),
            Input::RunKept { run, artifacts, tree } => self.on_live(*run, |draft, no| {
                draft.edit(no, |step| step.artifacts = artifacts.clone());
                draft.edit_run(no, *run, |run| run.tree = tree.clone());
            }),
            Input::RunViolated { run, violations } => self.on_live(*run, |draft, no| {
                draft.run_violated(no, *run, violations);
            }),
            Input::RunEnded { run, ending, told } => self.on_live(*run, |draft, no| {
                draft.run_ended(no, *run, ending, told.as_ref());
            }),
            Input::CallRefused { run, whose, wall, short } => self.on_live(*run, |draft, no| {
                draft.call_refused(no, *run, (*whose, *wall), *short);
            }),
            Input::RunParked { run, provider, until, why } => self.on_live(*run, |draft, no| {
                draft.run_parked(no, *run, (provider, *until), why);
            }),
            Input::RunLost { run, claimed, evidence } => self.on_live(*run, |draft, no| {
                draft.run_lost(no, *run, *claimed, evidence);
            }),
            Input::ChildEnded { flow, outcome, output, tips, detail } => {
                self.child_ended(*flow, *outcome, (output.as_ref(), tips), detail);
            }
            Input::Answer { request, answer, scope, subject, standing, reason } => {
                self.answered(*request, (*answer, *scope), (standing, subject.as_ref()), reason);
            }
            // The answer to its request lifts it.
            Input::Hold { reason: HoldReason::Wall(_), .. } | Input::Lift { reason: HoldReason::Wall(_), .. } => {}
            Input::Hold { step, reason, note, until } => self.hold(step.as_ref(), *reason, note, *until),
            Input::Lift { step, reason } => self.lift(step.as_ref(), *reason),
            Input::Message { path, id, text } => self.message(path, *id, text),
            Input::Happened { event, pipeline, at, flow, outcome } => {
                self.happened(*event, (pipeline, *flow), *at, outcome);
            }
        }
    }

    /// An answer of a run that is over, or that this flow never had, changes nothing.
    fn on_live(&mut self, run: RunId, then: impl FnOnce(&mut Self, StepNo)) {
        match self.step_of_run(run) {
            Some(no) => then(self, no),
            None => self.take(Transition::RunFenced),
        }
    }

    fn run_started(&mut self, no: StepNo, id: RunId, process: &Process) {
        let run = self.resident.flow.runs.get(&id);
        let Some(RunState::Pending { stop: asked, .. }) = run.map(|run| &run.state) else {
            // Told before.
            return;
        };
        let asked = asked.clone();
        let since = self.now;
        let (deadline, process) = (since + self.time_limit(no).0, process.clone());
        let state = RunState::Running { since, process, deadline, stop: asked.clone() };
        self.edit_run(no, id, |run| run.state = state);
        self.tell_start(no, id);
        match asked {
            None => self.take(Transition::RunStarted),
            Some(stop) => {
                self.take(Transition::RunStartedStopping);
                let grace = if stop.forced { Millis::ZERO } else { self.context.grace };
                self.effect(id.uuid(), "stop", EffectKind::StopRun { run: id, reason: stop.reason, grace });
            }
        }
    }

    /// Its box refused something. Heard again it is no news.
    fn run_violated(&mut self, no: StepNo, id: RunId, violations: &[Violation]) {
        let known = self.resident.flow.runs.get(&id).map(|run| run.violations.as_slice()).unwrap_or_default();
        let news: Vec<Violation> = violations.iter().filter(|one| !known.contains(one)).cloned().collect();
        if news.is_empty() {
            return;
        }
        self.take(Transition::RunViolated);
        for violation in news.clone() {
            let path = self.step(no).path.clone();
            self.tell(Fact::SandboxViolation { path, run: id, violation });
        }
        self.edit_run(no, id, |run| run.violations.extend(news));
    }

    fn tell_start(&mut self, no: StepNo, run: RunId) {
        let step = self.step(no);
        let (path, attempt) = (step.path.clone(), step.attempts);
        let record = self.resident.flow.runs.get(&run);
        let fact = match record.and_then(|record| record.agent.as_ref().map(|agent| (agent, record.wake.clone()))) {
            Some((agent, wake)) => Fact::AgentRunStarted { path, run, attempt, agent: agent.agent.clone(), wake },
            None => Fact::CommandRunStarted { path, run, attempt },
        };
        self.tell(fact);
    }

    fn run_ended(&mut self, no: StepNo, id: RunId, ending: &Ending, told: Option<&Told>) {
        if let Some(told) = told {
            self.note_told(no, id, told);
        }
        match ending {
            Ending::Delivered { output } => self.run_delivered(no, id, output.clone()),
            Ending::NoDeliverable { missing } => self.run_owes(no, id, missing),
            Ending::Blocked { why, call } => self.run_blocked(no, id, why, call.as_ref()),
            Ending::Failed(failure) => self.run_failed(no, id, failure.clone()),
        }
    }

    fn run_delivered(&mut self, no: StepNo, id: RunId, output: Value) {
        self.take(Transition::RunDelivered);
        let tree = self.resident.flow.runs.get(&id).and_then(|run| run.tree.clone());
        self.finish_run(no, id, RunOutcome::Delivered);
        if self.joins(no) || self.step(no).merging.is_contradicting() {
            // Who writes to whoever resolves a conflict wants that heard before it is resolved.
            if !self.wakes_again(no) {
                self.brought_together(no, tree);
            }
            return;
        }
        self.note_tree(no, tree);
        self.edit(no, |step| step.output = Some(output));
        if self.wakes_again(no) {
            return;
        }
        self.take(Transition::StepSucceeded);
        self.finish(no, orc_domain::flow::StepOutcome::Succeeded);
    }

    pub(crate) fn run_failed(&mut self, no: StepNo, id: RunId, failure: Failure) {
        if failure.cause == Cause::Start {
            // Nobody read them.
            self.keep_messages(no, id);
        }
        match self.stopping(id) {
            None | Some(StopReason::StartDeadline) => {
                self.take(Transition::RunFailed);
                self.finish_run(no, id, RunOutcome::Failed(failure.clone()));
                self.after_failure(no, id, failure);
            }
            Some(StopReason::Timeout) => {
                let (limit, wall) = self.time_limit(no);
                let failure = match wall {
                    Some(wall) => failed(ErrorFamily::BudgetExceeded, Cause::Wall(wall)),
                    None => failed(ErrorFamily::Unknown, Cause::Timeout(limit)),
                };
                self.take(Transition::RunTimedOut);
                self.finish_run(no, id, RunOutcome::Failed(failure.clone()));
                self.after_failure(no, id, failure);
            }
            Some(reason @ (StopReason::Silence | StopReason::Looping | StopReason::Wall(_))) => {
                self.stopped_for(no, id, reason);
            }
            Some(reason @ (StopReason::FlowWall(_) | StopReason::Parked(_) | StopReason::Paused)) => {
                self.runs_later(no, id, reason);
            }
            Some(reason @ (StopReason::Cancel | StopReason::FailFast | StopReason::FinallyDeadline)) => {
                self.take(Transition::RunCancelled);
                self.finish_run(no, id, RunOutcome::Cancelled { reason });
                self.take(Transition::StepStopped);
                self.finish(no, orc_domain::flow::StepOutcome::Cancelled);
            }
        }
    }

    /// Writes the end of a run, gives its slot back and tells it.
    pub(crate) fn finish_run(&mut self, no: StepNo, id: RunId, outcome: RunOutcome) {
        let now = self.now;
        let finished = RunState::Finished { at: now, outcome: outcome.clone() };
        let agent = self.resident.flow.runs.get(&id).and_then(|run| run.agent.clone());
        self.edit_run(no, id, |run| run.state = finished);
        self.release(id);
        let step = self.step(no);
        let (path, attempt, run) = (step.path.clone(), step.attempts, id);
        match agent {
            Some(agent) => self.tell_agent_end(path, run, (attempt, agent), outcome),
            None => self.tell(Fact::CommandRunCompleted { path, run, attempt, outcome }),
        }
    }
}

/// A failure without further words.
pub(crate) const fn failed(family: ErrorFamily, cause: Cause) -> Failure {
    Failure { family, cause, detail: String::new() }
}
