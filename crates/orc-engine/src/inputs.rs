//! What a flow hears: its start, and facts and wishes about it.

use std::sync::Arc;

use orc_domain::effect::{Decision, EffectKind};
use orc_domain::event::Fact;
use orc_domain::flow::{Flow, FlowHead, FlowSpec, FlowState, Phase, Step, StepNo, StepState, Stop};
use orc_domain::graph::{PhaseKind, Pipeline};
use orc_domain::ids::RunId;
use orc_domain::input::{Ending, Input};
use orc_domain::path::StepPath;
use orc_domain::run::{Cause, ErrorFamily, Failure, Process, Run, RunOutcome, RunState, StopReason};
use orc_domain::time::Millis;
use orc_domain::transition::Transition;

use crate::Context;
use crate::draft::Draft;
use crate::resident::{Resident, spec_index};

/// Makes a flow and decides its beginning. The first commit of a flow writes every step instance of the definition.
#[must_use]
pub fn start(spec: FlowSpec, pipeline: Arc<Pipeline>, context: &Context) -> (Resident, Decision) {
    let by = spec.requested_by.clone();
    let now = context.now;
    let count = |phase| {
        let steps = pipeline.steps.iter().filter(|step| step.phase == phase).count();
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
    };
    let steps = pipeline.steps.iter().enumerate().map(|(at, step)| Step {
        no: StepNo(spec_index(at).0),
        path: StepPath::root(&step.key),
        spec: spec_index(at),
        element: None,
        state: StepState::Blocked,
        since: now,
        attempts: 0,
        failures: 0,
        losses: orc_domain::flow::Losses::default(),
        output: None,
    });
    let started = Fact::FlowStarted { pipeline: spec.name.clone(), retry_of: spec.retry_of };
    let flow = Flow { spec, head, steps: steps.collect(), runs: std::collections::BTreeMap::new() };
    let mut draft = Draft::begin(Resident::new(flow, pipeline), &by, context);
    draft.take(Transition::FlowStarted);
    draft.tell(started);
    draft.write_all_steps();
    draft.open_phase(PhaseKind::Main);
    draft.settle();
    draft.end()
}

impl Draft<'_> {
    /// Takes an input in. What follows from it is drawn by `settle`.
    pub(crate) fn hear(&mut self, input: &Input) {
        match input {
            Input::Alarm => {}
            Input::Cancel { force } => self.cancel(*force),
            Input::RunStarted { run, process } => self.on_live(*run, |draft, no| {
                draft.run_started(no, *run, process);
            }),
            Input::RunEnded { run, ending } => self.on_live(*run, |draft, no| match ending {
                Ending::Delivered { output } => draft.run_delivered(no, *run, output.clone()),
                Ending::Failed(failure) => draft.run_failed(no, *run, failure.clone()),
            }),
            Input::RunLost { run, claimed, evidence } => self.on_live(*run, |draft, no| {
                draft.run_lost(no, *run, *claimed, evidence);
            }),
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
        let state = RunState::Running {
            since: self.now,
            process: process.clone(),
            deadline: self.now + self.spec(no).timeout,
            stop: asked.clone(),
        };
        self.edit_run(no, id, |run| run.state = state);
        let step = self.step(no);
        let (path, attempt) = (step.path.clone(), step.attempts);
        self.tell(Fact::CommandRunStarted { path, run: id, attempt });
        match asked {
            None => self.take(Transition::RunStarted),
            Some(stop) => {
                self.take(Transition::RunStartedStopping);
                let grace = if stop.forced { Millis::ZERO } else { self.context.grace };
                self.effect(id, "stop", EffectKind::StopRun { run: id, reason: stop.reason, grace });
            }
        }
    }

    fn run_delivered(&mut self, no: StepNo, id: RunId, output: orc_domain::value::Value) {
        self.take(Transition::RunDelivered);
        self.finish_run(no, id, RunOutcome::Delivered);
        self.take(Transition::StepSucceeded);
        self.edit(no, |step| step.output = Some(output));
        self.finish(no, orc_domain::flow::StepOutcome::Succeeded);
    }

    fn run_failed(&mut self, no: StepNo, id: RunId, failure: Failure) {
        match self.stopping(id) {
            None => {
                self.take(Transition::RunFailed);
                self.finish_run(no, id, RunOutcome::Failed(failure.clone()));
                self.retry_or_fail(no, failure);
            }
            Some(StopReason::Timeout) => {
                let cause = Cause::Timeout(self.spec(no).timeout);
                let failure = Failure { family: ErrorFamily::Unknown, cause, detail: String::new() };
                self.take(Transition::RunTimedOut);
                self.finish_run(no, id, RunOutcome::Failed(failure.clone()));
                self.retry_or_fail(no, failure);
            }
            Some(StopReason::StartDeadline) => {
                self.take(Transition::RunFailed);
                self.finish_run(no, id, RunOutcome::Failed(failure.clone()));
                self.retry_or_fail(no, failure);
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
        self.edit_run(no, id, |run: &mut Run| run.state = finished);
        self.release(id);
        let step = self.step(no);
        let (path, attempt) = (step.path.clone(), step.attempts);
        self.tell(Fact::CommandRunCompleted { path, run: id, attempt, outcome });
    }
}
