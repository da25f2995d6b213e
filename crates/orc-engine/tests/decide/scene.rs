//! One flow, played by hand. After every decision the scene checks what must always hold: the same arguments give the
//! same decision, the rows that were written are the flow, the index is true, and what lives has an alarm.

use std::collections::BTreeMap;
use std::sync::Arc;

use orc_domain::effect::{Change, Decision, EffectKind};
use orc_domain::event::Fact;
use orc_domain::flow::{Flow, FlowOutcome, FlowSpec, FlowState, Step, StepOutcome, StepState};
use orc_domain::graph::Pipeline;
use orc_domain::ids::RunId;
use orc_domain::input::{Ending, Input, Signed};
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::request::RequestState;
use orc_domain::run::{Cause, ErrorFamily, Failure, Process, StopReason};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_domain::wait::Wait;
use orc_engine::{Context, Resident, decide, start};
use orc_testkit::fixture::{self, BEGIN, StepFixture};

pub(crate) const GRACE: Millis = Millis::from_secs(10);

pub(crate) struct Scene {
    pub(crate) resident: Resident,
    pub(crate) now: Timestamp,
    pub(crate) slots: u32,
    pub(crate) last: Decision,
    pub(crate) facts: Vec<Fact>,
    pub(crate) taken: Vec<Transition>,
    rows: Flow,
}

impl Scene {
    /// A flow of these steps with more slots than it needs.
    pub(crate) fn begin(main: Vec<StepFixture>, finally: Vec<StepFixture>) -> Self {
        Self::begin_with(fixture::pipeline(main, finally), 1_000)
    }

    pub(crate) fn begin_with(pipeline: Pipeline, slots: u32) -> Self {
        let spec = fixture::flow_spec(1, &pipeline);
        Self::begin_spec(spec, pipeline, slots)
    }

    pub(crate) fn begin_spec(spec: FlowSpec, pipeline: Pipeline, slots: u32) -> Self {
        let context = Context { now: BEGIN, slots, grace: GRACE, full: BTreeMap::new() };
        let pipeline = Arc::new(pipeline);
        let (resident, decision) = start(spec.clone(), Arc::clone(&pipeline), &context);
        assert_eq!(start(spec, pipeline, &context).1, decision);
        let mut rows = resident.flow().clone();
        rows.steps.clear();
        rows.runs.clear();
        let mut scene =
            Self { resident, now: BEGIN, slots, last: Decision::default(), facts: Vec::new(), taken: Vec::new(), rows };
        scene.keep(decision);
        scene
    }

    pub(crate) fn flow(&self) -> &Flow {
        self.resident.flow()
    }

    /// Decides about an input at the time that it is.
    pub(crate) fn hear(&mut self, input: Input) -> Decision {
        let signed = Signed { by: Principal::Os(1000), input };
        let context = Context { now: self.now, slots: self.slots, grace: GRACE, full: BTreeMap::new() };
        let loaded = Resident::new(self.flow().clone(), Arc::clone(self.resident.pipeline()));
        let (next, decision) = decide(self.resident.clone(), &signed, &context);
        let (again, repeated) = decide(loaded, &signed, &context);
        assert_eq!(repeated, decision, "a flow that was loaded anew decides otherwise");
        assert_eq!(again.flow(), next.flow());
        self.resident = next;
        self.keep(decision.clone());
        decision
    }

    fn keep(&mut self, decision: Decision) {
        for change in &decision.changes {
            match change {
                Change::Head(head) => self.rows.head = head.clone(),
                Change::Step(step) => match self.rows.steps.get_mut(step.no.0 as usize) {
                    Some(row) => *row = step.clone(),
                    None => self.rows.steps.push(step.clone()),
                },
                Change::Run(run) if run.state.is_final() => {
                    self.rows.runs.remove(&run.id);
                }
                Change::Run(run) => {
                    self.rows.runs.insert(run.id, run.clone());
                }
                Change::Request(request) if matches!(request.state, RequestState::Resolved { .. }) => {
                    self.rows.requests.remove(&request.id);
                }
                Change::Request(request) => {
                    self.rows.requests.insert(request.id, request.clone());
                }
            }
        }
        assert_eq!(&self.rows, self.flow(), "the rows are not the flow");
        assert!(self.resident.index_is_true(), "the index is not true");
        assert_eq!(self.resident.wake_at().is_some(), !self.flow().is_finished(), "what lives has an alarm");
        let live: Vec<RunId> = self.flow().runs.keys().copied().collect();
        let active = self.flow().steps.iter().filter(|step| matches!(step.state, StepState::Active { .. }));
        assert_eq!(active.count(), live.len(), "an active step has one live run");
        self.facts.extend(decision.events.iter().map(|event| event.fact.clone()));
        self.taken.extend(&decision.transitions);
        self.last = decision;
    }

    /// Lets time pass, then rings the alarm.
    pub(crate) fn wait(&mut self, span: Millis) -> Decision {
        self.now = self.now + span;
        self.hear(Input::Alarm)
    }

    /// Goes to the next alarm and rings it.
    pub(crate) fn ring(&mut self) -> Decision {
        self.now = self.now.max(self.resident.wake_at().expect("a live flow"));
        self.hear(Input::Alarm)
    }

    pub(crate) fn cancel(&mut self) -> Decision {
        self.hear(Input::Cancel { force: false })
    }

    pub(crate) fn force(&mut self) -> Decision {
        self.hear(Input::Cancel { force: true })
    }

    pub(crate) fn step(&self, path: &str) -> &Step {
        let path: StepPath = path.parse().expect("a path");
        self.flow().step_at(&path).unwrap_or_else(|| panic!("no step `{path}`"))
    }

    /// The run that tries a step now.
    pub(crate) fn run(&self, path: &str) -> RunId {
        match self.step(path).state {
            StepState::Active { run } => run,
            ref other => panic!("`{path}` is {other:?}"),
        }
    }

    /// The process of a step exists.
    pub(crate) fn started(&mut self, path: &str) -> Decision {
        let run = self.run(path);
        self.hear(Input::RunStarted { run, process: process() })
    }

    pub(crate) fn deliver(&mut self, path: &str) -> Decision {
        self.deliver_with(path, fixture::output([]))
    }

    pub(crate) fn deliver_with(&mut self, path: &str, output: Value) -> Decision {
        let run = self.run(path);
        let ending = Ending::Delivered { output };
        self.hear(Input::RunEnded { run, ending, told: None })
    }

    /// The process of a step ends with exit code 1.
    pub(crate) fn fail(&mut self, path: &str) -> Decision {
        let run = self.run(path);
        let ending = Ending::Failed(exit(1));
        self.hear(Input::RunEnded { run, ending, told: None })
    }

    /// The instance of a step ends.
    pub(crate) fn lose(&mut self, path: &str, claimed: bool) -> Decision {
        let run = self.run(path);
        let evidence = "its instance ended".to_owned();
        self.hear(Input::RunLost { run, claimed, evidence })
    }

    pub(crate) fn outcome(&self) -> Option<FlowOutcome> {
        match self.flow().head.state {
            FlowState::Finished { outcome, .. } => Some(outcome),
            FlowState::Queued { .. } | FlowState::Live { .. } => None,
        }
    }

    /// `path: state` of every step, in order of creation.
    pub(crate) fn picture(&self) -> Vec<String> {
        self.flow().steps.iter().map(describe).collect()
    }

    pub(crate) fn took(&self, transition: Transition) -> usize {
        self.taken.iter().filter(|taken| **taken == transition).count()
    }
}

pub(crate) fn describe(step: &Step) -> String {
    let state = match &step.state {
        StepState::Blocked => "blocked".to_owned(),
        StepState::Ready { held_by: None, .. } => "ready".to_owned(),
        StepState::Ready { held_by: Some(held), .. } => format!("held by {held:?}").to_lowercase(),
        StepState::Active { .. } => "active".to_owned(),
        StepState::Waiting(Wait::Elements(fan)) => format!("{} of {} elements", fan.expanded, fan.total),
        StepState::Waiting(Wait::Round(round)) => format!("round {}", round.number),
        StepState::Waiting(wait) => format!("waits for {}", wait.word()),
        StepState::Finished { outcome } => match outcome {
            StepOutcome::Failed(failure) => format!("failed: {failure}"),
            StepOutcome::Skipped(reason) => format!("skipped: {reason}"),
            other => other.word().to_owned(),
        },
    };
    format!("{}: {state}", step.path)
}

pub(crate) fn exit(code: i32) -> Failure {
    Failure { family: ErrorFamily::Unknown, cause: Cause::Exit(code), detail: String::new() }
}

pub(crate) fn process() -> Process {
    Process { pid: 42, start_ticks: 4_200, instance: fixture::instance_id(1) }
}

/// Starts of a decision, by path.
pub(crate) fn starts(decision: &Decision) -> Vec<String> {
    let paths = decision.effects.iter().filter_map(|effect| match &effect.kind {
        EffectKind::StartRun { command, .. } => Some(command.path.to_string()),
        EffectKind::StartAgent { call, .. } => Some(call.path.to_string()),
        EffectKind::StopRun { .. } | EffectKind::StartFlow { .. } | EffectKind::Tell { .. } => None,
    });
    paths.collect()
}

/// Stops of a decision: reason and grace.
pub(crate) fn stops(decision: &Decision) -> Vec<(StopReason, Millis)> {
    let stops = decision.effects.iter().filter_map(|effect| match effect.kind {
        EffectKind::StopRun { reason, grace, .. } => Some((reason, grace)),
        _ => None,
    });
    stops.collect()
}

pub(crate) const fn secs(secs: u64) -> Millis {
    Millis::from_secs(secs)
}
