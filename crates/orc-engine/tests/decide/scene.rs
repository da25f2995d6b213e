//! One flow, played by hand. After every decision the scene checks what must always hold: the same arguments give the
//! same decision, the rows that were written are the flow, the index is true, and what lives has an alarm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orc_domain::agent::{Statistics, Usage};
use orc_domain::claim::{Claim, Holder};
use orc_domain::effect::{Change, Decision, EffectKind};
use orc_domain::event::Fact;
use orc_domain::flow::{Flow, FlowOutcome, FlowSpec, FlowState, Step, StepOutcome, StepState};
use orc_domain::graph::Pipeline;
use orc_domain::hold::HoldReason;
use orc_domain::ids::{EffectId, FlowId, RequestId, RunId};
use orc_domain::input::{Ending, Input, Signed, Told};
use orc_domain::path::StepPath;
use orc_domain::permission::Scope;
use orc_domain::principal::Principal;
use orc_domain::request::{Answer, Request, RequestState, Standing};
use orc_domain::run::{Cause, ErrorFamily, Failure, Process, Run, RunOutcome, RunState, StopReason};
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
    /// Groups that are known to be full, with who is in them.
    pub(crate) full: BTreeMap<String, Vec<Holder>>,
    /// Who speaks.
    pub(crate) by: Principal,
    rows: Flow,
    /// All there ever were.
    pub(crate) runs: BTreeMap<RunId, Run>,
    places: BTreeSet<(String, Holder)>,
    effects: BTreeSet<EffectId>,
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
        Self::begin_full(spec, pipeline, slots, BTreeMap::new())
    }

    pub(crate) fn begin_full(
        spec: FlowSpec,
        pipeline: Pipeline,
        slots: u32,
        full: BTreeMap<String, Vec<Holder>>,
    ) -> Self {
        let context = Context { now: BEGIN, slots, grace: GRACE, full: full.clone() };
        let pipeline = Arc::new(pipeline);
        let (resident, decision) = start(spec.clone(), Arc::clone(&pipeline), &context);
        assert_eq!(start(spec, pipeline, &context).1, decision);
        let mut rows = resident.flow().clone();
        rows.steps.clear();
        rows.runs.clear();
        rows.requests.clear();
        let mut scene = Self {
            resident,
            now: BEGIN,
            slots,
            last: Decision::default(),
            facts: Vec::new(),
            taken: Vec::new(),
            full,
            by: Principal::Os(1000),
            rows,
            runs: BTreeMap::new(),
            places: BTreeSet::new(),
            effects: BTreeSet::new(),
        };
        scene.keep(decision);
        scene
    }

    pub(crate) fn flow(&self) -> &Flow {
        self.resident.flow()
    }

    /// Decides about an input at the time that it is.
    pub(crate) fn hear(&mut self, input: Input) -> Decision {
        let signed = Signed { by: self.by.clone(), input };
        let context = Context { now: self.now, slots: self.slots, grace: GRACE, full: self.full.clone() };
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
            if let Change::Run(run) = change {
                self.runs.insert(run.id, run.clone());
            }
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
        self.check_places(&decision);
        self.check_agents();
        for effect in &decision.effects {
            assert!(self.effects.insert(effect.id), "an effect is decided once: {effect:?}");
        }
        self.facts.extend(decision.events.iter().map(|event| event.fact.clone()));
        self.taken.extend(&decision.transitions);
        self.last = decision;
    }

    /// Places that were claimed and not given back are those that the flow and its steps say they have.
    fn check_places(&mut self, decision: &Decision) {
        let place = |claim: &Claim| match claim {
            Claim::Group { name, holder, .. } => Some((name.clone(), *holder)),
            Claim::Slot { .. } => None,
        };
        for released in decision.releases.iter().filter_map(place) {
            assert!(self.places.remove(&released), "{released:?} was not held");
        }
        self.places.extend(decision.claims.iter().filter_map(place));
        let flow = self.flow();
        let own = flow.head.group.iter().map(|name| (name.clone(), Holder { flow: flow.spec.id, step: None }));
        let steps = flow.steps.iter().flat_map(|step| {
            let holder = Holder { flow: flow.spec.id, step: Some(step.no) };
            step.places.iter().map(move |name| (name.clone(), holder))
        });
        assert_eq!(own.chain(steps).collect::<BTreeSet<_>>(), self.places, "places are what lives in them");
    }

    /// Nothing that was used is lost, and no message is read twice unless its reader was lost or never began.
    fn check_agents(&self) {
        let agents = self.runs.values().filter_map(|run| run.agent.as_ref());
        let used = agents.fold(Usage::default(), |sum, agent| sum.plus(agent.usage));
        assert_eq!(self.flow().head.usage, used, "what the flow used is what its runs used");
        let unread = |run: &&Run| {
            let RunState::Finished { outcome: RunOutcome::Failed(failure), .. } = &run.state else { return false };
            matches!(failure.cause, Cause::Lost | Cause::Start)
        };
        let readers = self.runs.values().filter(|run| !unread(run)).filter_map(|run| run.agent.as_ref());
        let mut read = BTreeSet::new();
        for message in readers.flat_map(|agent| &agent.messages) {
            assert!(read.insert(message.id), "{message:?} was read twice");
        }
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

    /// The run of a step ends so.
    pub(crate) fn end(&mut self, path: &str, ending: Ending) -> Decision {
        let run = self.run(path);
        self.hear(Input::RunEnded { run, ending, told: None })
    }

    /// The agent of a step said something, and used so many calls so far.
    pub(crate) fn heard(&mut self, path: &str, calls: u64) -> Decision {
        let (run, now) = (self.run(path), self.now);
        let statistics = Statistics { bytes: calls, last_output_at: Some(now), ..Statistics::default() };
        let usage = Usage { calls, ..Usage::default() };
        self.hear(Input::RunHeard { run, statistics, usage, looping: false })
    }

    /// The run of an agent ends so, after so many calls in all.
    pub(crate) fn end_after(&mut self, path: &str, ending: Ending, calls: u64) -> Decision {
        let run = self.run(path);
        let (usage, statistics) = (Usage { calls, ..Usage::default() }, Statistics::default());
        let told = Some(Told { answer: Some("Done.".to_owned()), usage, stop: None, statistics });
        self.hear(Input::RunEnded { run, ending, told })
    }

    /// Somebody writes to the agent of a step.
    pub(crate) fn write(&mut self, path: &str, number: u32) -> Decision {
        let path = path.parse().expect("a path");
        self.hear(Input::Message { path, id: fixture::message_id(number), text: format!("message {number}") })
    }

    /// Messages that the live run of a step was given.
    pub(crate) fn given(&self, path: &str) -> Vec<String> {
        let agent = self.flow().runs[&self.run(path)].agent.clone().expect("an agent");
        agent.messages.into_iter().map(|message| message.text).collect()
    }

    /// The open request of a step; an empty path is the flow.
    pub(crate) fn request(&self, path: &str) -> Request {
        let of = |request: &&Request| request.step.as_ref().map_or("", |(_, path)| path.as_str()) == path;
        self.flow().requests.values().find(of).cloned().unwrap_or_else(|| panic!("no request of `{path}`"))
    }

    /// Somebody who answers to this name answers the request of a step.
    pub(crate) fn answer(&mut self, path: &str, answer: Answer, name: &str) -> Decision {
        let request = self.request(path).id;
        self.answer_to(request, answer, name)
    }

    pub(crate) fn answer_to(&mut self, request: RequestId, answer: Answer, name: &str) -> Decision {
        let standing = Standing { names: [name.to_owned()].into(), admin: name == "admin" };
        self.hear(Input::Answer { request, answer, scope: Scope::Call, subject: None, standing, reason: String::new() })
    }

    /// The child flow that a step waits for.
    pub(crate) fn child(&self, path: &str) -> FlowId {
        match self.step(path).state {
            StepState::Waiting(Wait::Flow { flow, .. }) => flow,
            ref other => panic!("`{path}` is {other:?}"),
        }
    }

    pub(crate) fn child_ended(&mut self, path: &str, outcome: FlowOutcome) -> Decision {
        let flow = self.child(path);
        self.hear(ended(flow, outcome, None))
    }

    /// Somebody pauses the flow, or a step.
    pub(crate) fn hold(&mut self, path: Option<&str>, until: Option<Timestamp>) -> Decision {
        let step = path.map(|path| path.parse().expect("a path"));
        self.hear(Input::Hold { step, reason: HoldReason::Paused, note: String::new(), until })
    }

    pub(crate) fn lift(&mut self, path: Option<&str>) -> Decision {
        let step = path.map(|path| path.parse().expect("a path"));
        self.hear(Input::Lift { step, reason: HoldReason::Paused })
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
        EffectKind::Join { path, .. } => Some(path.to_string()),
        EffectKind::StopRun { .. }
        | EffectKind::WriteRun { .. }
        | EffectKind::StartFlow { .. }
        | EffectKind::Tell { .. }
        | EffectKind::KeepRule { .. } => None,
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

/// What a decision tells other flows.
pub(crate) fn tells(decision: &Decision) -> Vec<(FlowId, Input)> {
    let tells = decision.effects.iter().filter_map(|effect| match &effect.kind {
        EffectKind::Tell { flow, signed } => Some((*flow, signed.input.clone())),
        _ => None,
    });
    tells.collect()
}

/// Child flows that a decision starts.
pub(crate) fn children(decision: &Decision) -> Vec<FlowSpec> {
    let specs = decision.effects.iter().filter_map(|effect| match &effect.kind {
        EffectKind::StartFlow { spec } => Some((**spec).clone()),
        _ => None,
    });
    specs.collect()
}

/// A child flow ended so, and made no commits.
pub(crate) fn ended(flow: FlowId, outcome: FlowOutcome, output: Option<Value>) -> Input {
    Input::ChildEnded { flow, outcome, output, tips: Vec::new(), detail: String::new() }
}

pub(crate) fn owes() -> Ending {
    Ending::NoDeliverable { missing: "`verdict`".to_owned() }
}

pub(crate) fn asks() -> Ending {
    Ending::Blocked { why: "Which one?".to_owned(), call: None }
}

/// A service outside had a bad moment.
pub(crate) fn upstream() -> Ending {
    Ending::Failed(Failure {
        family: ErrorFamily::TransientUpstream,
        cause: Cause::Reported,
        detail: "overloaded".to_owned(),
    })
}

pub(crate) const fn secs(secs: u64) -> Millis {
    Millis::from_secs(secs)
}
