//! One pipeline with everything that can wait, run or nest, met in each of its phases by a cancel, by a second cancel, by
//! `kill -9` of whoever carries it on, and by a pause: it ends as the design says, nothing that was recorded is done
//! again, and nothing is left behind.
//!
//! Steps leave marks in a journal. A phase is reached when its step stands at the gate, or when the store says that the
//! flow waits; nothing here depends on time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a document without what it must have fails its test")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use serde_json::Value;
use support::{Gate, Running, World, lines, until};

/// The pipeline: a matrix, rounds within rounds with a fan-out in them, a child with a wait and a `finally` of its own, an
/// approval with a deadline, an agent, a wait, a `finally`, all in a concurrency group.
const WHOLE: &str = r"
inputs: { ring: { type: boolean, default: false } }
concurrency: the-group
steps:
  start: { run: exec sh step.sh }
  cells: { needs: start, matrix: { os: [linux, mac], level: [1, 2] }, run: exec sh step.sh }
  rounds:
    needs: cells
    repeat:
      max: 2
      steps:
        inner:
          repeat:
            max: 2
            steps:
              each: { foreach: [a, b], run: exec sh step.sh }
              after: { needs: each, run: exec sh step.sh }
  below: { needs: rounds, pipeline: child, with: { ring: '${{ inputs.ring }}' } }
  ask: { needs: below, approval: { message: Go on?, timeout: 1h } }
  think: { needs: ask, agent: thinker, prompt: Think., output: { schema: { type: object, required: [verdict] } } }
  nap: { needs: think, wait: 5ms }
finally:
  tidy: { run: exec sh step.sh }
";

const CHILD: &str = r"
inputs: { ring: { type: boolean } }
steps:
  dig: { run: exec sh step.sh }
  rest: { needs: dig, if: inputs.ring, wait: { event: FlowFinished, pipeline: bell, timeout: 1h } }
  close: { needs: rest, if: always(), run: exec sh step.sh }
finally:
  sweep: { run: exec sh step.sh }
";

/// Marks its begin and its end; between them it stands at the gate if its path is among those that block.
const STEP: &str = r#"
echo "begin $ORC_STEP" >> journal
if grep -qxF "$ORC_STEP" deaf; then trap '' TERM INT; fi
if grep -qxF "$ORC_STEP" block; then echo "at $ORC_STEP" >> journal; read x < gate; fi
echo "end $ORC_STEP" >> journal
"#;

/// Steps of the definition, in order.
const ROOTS: [&str; 7] = ["start", "cells", "rounds", "below", "ask", "think", "nap"];
const CELL: &str = "cells{level=2,os=mac}";
const ELEMENT: &str = "rounds~1/inner~2/each[1]";

/// Where the flow is when something happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Before the first step: another flow has the only slot.
    Slot,
    /// Another flow has the only place of the group.
    Group,
    /// This step of the flow stands at the gate.
    At(&'static str),
    /// This step of its child does.
    InChild(&'static str),
    /// Its child waits for an event.
    ChildWaits,
    /// It waits for people.
    Asks,
}

/// One flow in one phase.
struct Scene {
    world: World,
    phase: Phase,
    gate: Gate,
    /// Where the flow beside it stands, if there is one.
    other: Gate,
    /// Who carries the flow on.
    holder: Option<Running>,
    /// Who started the flow and follows it, when that is not the holder.
    follower: Option<Running>,
    flow: String,
}

impl Scene {
    /// Brings a flow into a phase; `deaf` steps do not hear TERM, and also `blocks` stand at the gate.
    fn at(phase: Phase, blocks: &[&str], deaf: &[&str]) -> Self {
        let world = World::new();
        world.pipeline("whole", WHOLE);
        world.pipeline("child", CHILD);
        world.pipeline("bell", "steps: { ring: { run: 'true' } }\n");
        let group = if phase == Phase::Group { "concurrency: the-group\n" } else { "" };
        world
            .pipeline("other", &format!("{group}steps: {{ hold: {{ run: 'echo up >> started; read x < other' }} }}\n"));
        world.pipeline("probe", "concurrency: { group: the-group, on_limit: skip }\nsteps: { in: { run: 'true' } }\n");
        world.write("agents/thinker.md", "---\nadapter: command\ncommand: [sh, agent.sh]\n---\nThink.\n");
        world.write("step.sh", STEP);
        world.write("agent.sh", ". ./step.sh\necho '{\"type\":\"output\",\"value\":{\"verdict\":\"pass\"}}'\n");
        let own: &[&str] = match &phase {
            Phase::At(step) | Phase::InChild(step) => &[step],
            _ => &[],
        };
        let file = |paths: &[&[&str]]| paths.concat().iter().map(|path| format!("{path}\n")).collect::<String>();
        world.write("block", &file(&[own, blocks]));
        world.write("deaf", &file(&[deaf]));
        let (gate, other) = (Gate::new(&world), Gate::named(&world, "other"));
        let ring = format!("ring={}", phase == Phase::ChildWaits);
        let grace = if deaf.is_empty() { "10s" } else { "1h" };
        let beside = matches!(phase, Phase::Slot | Phase::Group);
        let run = ["run", "whole", "--input", &ring, "--slots", "4", "--cancel-grace", grace];
        let (holder, follower) = if beside {
            let slots = if phase == Phase::Slot { "1" } else { "4" };
            let holder = world.start(&["run", "other", "--slots", slots, "--cancel-grace", grace]);
            until("the other flow runs", || !lines(world.repo().join("started")).is_empty());
            (holder, Some(world.start(&run)))
        } else {
            (world.start(&run), None)
        };
        let mut scene = Self { world, phase, gate, other, holder: Some(holder), follower, flow: String::new() };
        until("the flow is there", || scene.id_of("whole").is_some());
        scene.flow = scene.id_of("whole").unwrap();
        scene.reach();
        scene
    }

    fn id_of(&self, pipeline: &str) -> Option<String> {
        let said = self.world.run(&["flows", "list", "--limit", "100", "--output", "json"]);
        let document: Value = serde_json::from_str(&said.out).ok()?;
        let found = document["flows"].as_array()?.iter().find(|flow| flow["pipeline"] == pipeline)?;
        Some(found["id"].as_str()?.to_owned())
    }

    /// Waits until the flow is in its phase; answers what it asks on the way there.
    fn reach(&self) {
        let (phase, flow) = (self.phase, self.flow.as_str());
        until("the phase is reached", || {
            if phase != Phase::Asks {
                self.answer();
            }
            match phase {
                Phase::Slot => self.state_of(flow, "start").as_deref() == Some("ready"),
                Phase::Group => self.world.json(&["flows", "show", flow])["state"] == "queued",
                Phase::At(step) => self.stands(step, 1) && self.lives(flow, step),
                Phase::InChild(step) => self.stands(step, 1) && self.lives(&self.child(), step),
                Phase::ChildWaits => {
                    self.id_of("child").and_then(|child| self.state_of(&child, "rest")).as_deref() == Some("waiting")
                }
                Phase::Asks => self.state_of(flow, "ask").as_deref() == Some("waiting"),
            }
        });
    }

    fn child(&self) -> String {
        self.id_of("child").unwrap()
    }

    /// Whether a step has stood at the gate this often.
    fn stands(&self, step: &str, times: usize) -> bool {
        self.marks("at", step) >= times
    }

    /// Whether the store knows the process of a step.
    fn lives(&self, flow: &str, step: &str) -> bool {
        let runs = self.world.json(&["runs", "list", "--flow", flow, "--limit", "100"]);
        runs["runs"].as_array().unwrap().iter().any(|run| run["step"] == step && run["state"] == "running")
    }

    fn marks(&self, mark: &str, step: &str) -> usize {
        let wanted = format!("{mark} {step}");
        lines(self.world.repo().join("journal")).iter().filter(|line| **line == wanted).count()
    }

    fn steps(&self, flow: &str) -> BTreeMap<String, Value> {
        let document = self.world.json(&["flows", "show", flow]);
        let steps = document["steps"].as_array().unwrap().iter();
        steps.map(|step| (step["path"].as_str().unwrap().to_owned(), step.clone())).collect()
    }

    /// `ready`, `active`, ... or `None` for a step that is not there.
    fn state_of(&self, flow: &str, step: &str) -> Option<String> {
        Some(self.steps(flow).get(step)?["state"].as_str().unwrap().to_owned())
    }

    fn is_over(&self, flow: &str) -> bool {
        self.world.json(&["flows", "show", flow])["state"] == "finished"
    }

    /// Says yes to what is asked.
    fn answer(&self) {
        let open = self.world.json(&["approvals", "list"]);
        for request in open["requests"].as_array().unwrap() {
            self.world.run_to(0, &["approvals", "approve", request["id"].as_str().unwrap()]);
        }
    }

    /// Lets everything go on, and answers what is asked, until the flow is over.
    fn let_go(&mut self) {
        match self.phase {
            Phase::Slot | Phase::Group => self.other.open(),
            Phase::At(_) | Phase::InChild(_) => self.gate.open(),
            Phase::ChildWaits => drop(self.world.run_to(0, &["run", "bell"])),
            Phase::Asks => {}
        }
        until("the flow is over", || {
            self.answer();
            self.is_over(&self.flow)
        });
    }

    fn cancel(&self) {
        self.world.run_to(0, &["cancel", &self.flow]);
    }

    /// Waits for the processes of the scene, of which the one that follows the flow ends with `code`.
    fn close(&mut self, code: i32) {
        if matches!(self.phase, Phase::Slot | Phase::Group) {
            // If the other flow is over already, nobody reads this.
            self.other.open();
        }
        let is_followed = self.follower.is_some();
        for (running, wanted) in
            [(self.follower.take(), code), (self.holder.take(), if is_followed { 0 } else { code })]
        {
            let Some(said) = running.map(Running::wait) else { continue };
            assert_eq!(said.code, Some(wanted), "{}\n{}", said.out, said.err);
        }
    }

    /// Steps of a flow by how they ended.
    fn ended(&self, flow: &str, outcome: &str) -> BTreeSet<String> {
        let steps = self.steps(flow).into_iter();
        steps.filter(|(_, step)| step["outcome"] == outcome).map(|(path, _)| path).collect()
    }

    /// How flow and steps ended: `cancelled` were, `skipped` was, all others succeeded.
    fn assert_ended(&self, flow: &str, outcome: &str, cancelled: &[&str]) {
        let document = self.world.json(&["flows", "show", flow]);
        assert_eq!(document["outcome"], outcome, "{document}");
        let wanted: BTreeSet<String> = cancelled.iter().map(|path| (*path).to_owned()).collect();
        assert_eq!(self.ended(flow, "cancelled"), wanted);
        let is_asked_to_wait = self.phase == Phase::ChildWaits;
        for (path, step) in self.steps(flow) {
            let skips = path == "rest" && !is_asked_to_wait;
            let fine = if skips { ["skipped", "cancelled"] } else { ["succeeded", "cancelled"] };
            assert!(fine.contains(&step["outcome"].as_str().unwrap()), "{path}: {step}");
        }
    }

    /// No step was begun twice but `again`, what succeeded came to its end, and what was cancelled did not.
    fn assert_marks(&self, again: Option<&str>) {
        let mut begun: BTreeMap<String, usize> = BTreeMap::new();
        for line in lines(self.world.repo().join("journal")) {
            if let Some(path) = line.strip_prefix("begin ") {
                *begun.entry(path.to_owned()).or_default() += 1;
            }
        }
        let flows = [Some(self.flow.clone()), self.id_of("child")];
        let succeeded: BTreeSet<String> =
            flows.iter().flatten().flat_map(|flow| self.ended(flow, "succeeded")).collect();
        for (path, times) in begun {
            assert_eq!(times, if again == Some(path.as_str()) { 2 } else { 1 }, "{path} began");
            assert_eq!(self.marks("end", &path), usize::from(succeeded.contains(&path)), "{path} came to its end");
        }
    }

    /// No process, no slot, no place, no question, no live flow or run.
    fn assert_nothing_is_left(&self) {
        assert_eq!(processes_in(&self.world), [""; 0]);
        assert_eq!(self.world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
        assert_eq!(self.world.run_to(0, &["flows", "list", "--live"]).err, "no flow is unfinished\n");
        assert_eq!(self.world.json(&["approvals", "list"])["requests"], serde_json::json!([]));
        let runs = self.world.json(&["runs", "list", "--limit", "100"]);
        assert!(runs["runs"].as_array().unwrap().iter().all(|run| run["state"] == "finished"), "{runs}");
        // A flow that is not run when the group is full is run.
        self.world.run_to(0, &["run", "probe"]);
    }

    /// The whole of it was done, each step once but `again`.
    fn assert_whole(&self, again: Option<&str>) {
        self.assert_ended(&self.flow, "succeeded", &[]);
        self.assert_ended(&self.child(), "succeeded", &[]);
        self.assert_marks(again);
        let journal = lines(self.world.repo().join("journal"));
        assert_eq!(journal.iter().filter(|line| line.starts_with("end ")).count(), 22, "{journal:#?}");
        self.assert_nothing_is_left();
    }
}

/// What works in the repository of a world: its steps and what they left.
fn processes_in(world: &World) -> Vec<String> {
    let repo = world.repo().canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let inside = processes.filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == repo));
    inside.map(|process| std::fs::read_to_string(process.join("cmdline")).unwrap_or_default()).collect()
}

/// What a cancel in a phase ends.
struct Case {
    phase: Phase,
    /// The first of [`ROOTS`] that does not succeed.
    first: usize,
    /// Steps below it that were there and did not succeed.
    below: &'static [&'static str],
    /// Steps of the child likewise; `None` if it was not started, or had succeeded.
    child: Option<&'static [&'static str]>,
}

impl Case {
    fn cancelled(&self, more: &[&'static str]) -> Vec<&'static str> {
        [&ROOTS[self.first..], self.below, more].concat()
    }
}

const SLOT: Case = Case { phase: Phase::Slot, first: 0, below: &[], child: None };
const GROUP: Case = Case { phase: Phase::Group, first: 0, below: &[], child: None };
const MATRIX: Case = Case { phase: Phase::At(CELL), first: 1, below: &[CELL], child: None };
const ROUND: Case = Case {
    phase: Phase::At(ELEMENT),
    first: 2,
    below: &["rounds~1/inner", "rounds~1/inner~2/each", ELEMENT, "rounds~1/inner~2/after"],
    child: None,
};
const IN_CHILD: Case =
    Case { phase: Phase::InChild("dig"), first: 3, below: &[], child: Some(&["dig", "rest", "close"]) };
const CHILD_WAITS: Case = Case { phase: Phase::ChildWaits, first: 3, below: &[], child: Some(&["rest", "close"]) };
const ASKS: Case = Case { phase: Phase::Asks, first: 4, below: &[], child: None };
const AFTER: Case = Case { phase: Phase::At("think"), first: 5, below: &[], child: None };
const FINALLY: Case = Case { phase: Phase::At("tidy"), first: 7, below: &[], child: None };

/// Runs get TERM, nothing new starts, the child is ended too, and each `finally` runs once.
fn cancel_once(case: &Case) {
    let mut scene = Scene::at(case.phase, &[], &[]);
    scene.cancel();
    if case.phase == FINALLY.phase {
        assert!(!scene.is_over(&scene.flow), "what runs in `finally` goes on");
        scene.gate.open();
    }
    scene.close(130);
    let queued = case.phase == Phase::Group;
    scene.assert_ended(&scene.flow, "cancelled", &case.cancelled(if queued { &["tidy"] } else { &[] }));
    assert_eq!(scene.marks("end", "tidy"), usize::from(!queued), "of a flow that never began nothing runs");
    if let Some(cancelled) = case.child {
        scene.assert_ended(&scene.child(), "cancelled", cancelled);
        assert_eq!(scene.marks("end", "sweep"), 1, "the child's `finally` runs");
    }
    scene.assert_marks(None);
    scene.assert_nothing_is_left();
}

/// The second cancel ends at once what does not hear the first, `finally` too.
fn cancel_twice(case: &Case) {
    let own: &[&str] = match &case.phase {
        Phase::At(step) | Phase::InChild(step) => &[step],
        // What waits ends with the first cancel; then it is `finally` that does not hear.
        Phase::ChildWaits => &["sweep"],
        Phase::Asks => &["tidy"],
        Phase::Slot | Phase::Group => &[],
    };
    let mut scene = Scene::at(case.phase, own, own);
    scene.cancel();
    if case.phase == Phase::Group {
        let twice = scene.world.run_to(5, &["cancel", &scene.flow]);
        assert!(twice.err.contains("is over already: cancelled"), "{}", twice.err);
    } else {
        if let [last] = own {
            until("it does not hear the first", || scene.stands(last, 1));
        }
        assert!(!scene.is_over(&scene.flow));
        scene.cancel();
    }
    scene.close(130);
    scene.assert_ended(&scene.flow, "cancelled", &case.cancelled(&["tidy"]));
    let began = usize::from(own == ["tidy"]);
    assert_eq!((scene.marks("begin", "tidy"), scene.marks("end", "tidy")), (began, 0));
    if let Some(cancelled) = case.child {
        scene.assert_ended(&scene.child(), "cancelled", &[cancelled, &["sweep"]].concat());
    }
    scene.assert_marks(None);
    scene.assert_nothing_is_left();
}

/// Whoever carries it on next goes on where it was: only what was in flight is done again.
fn killed_and_resumed(case: &Case) {
    let mut scene = Scene::at(case.phase, &[], &[]);
    let holder = scene.holder.take().unwrap();
    holder.signal(Signal::KILL);
    holder.wait();
    if let Some(follower) = scene.follower.take() {
        assert_eq!(follower.wait().code, Some(8), "it says that nobody carries the flow on");
    }
    let beside = matches!(case.phase, Phase::Slot | Phase::Group);
    let which = if beside { "--all" } else { &scene.flow };
    scene.holder = Some(scene.world.start(&["resume", which, "--slots", "4"]));
    let in_flight = match case.phase {
        Phase::At(step) | Phase::InChild(step) => Some(step),
        Phase::Slot | Phase::Group | Phase::ChildWaits | Phase::Asks => None,
    };
    if let Some(step) = in_flight {
        until("it is done again", || scene.stands(step, 2));
    }
    until("somebody carries it on", || scene.world.json(&["flows", "show", &scene.flow])["carried_on"] == true);
    scene.let_go();
    scene.close(0);
    scene.assert_whole(in_flight);
}

/// While it is paused what runs comes to its end, answers and events count, and nothing starts; then it goes on.
fn paused_and_resumed(case: &Case) {
    let mut scene = Scene::at(case.phase, &[], &[]);
    scene.world.run_to(0, &["pause", &scene.flow, "--reason", "lunch"]);
    let flow = scene.flow.clone();
    let (of, step) = match case.phase {
        Phase::At(step) => (flow.clone(), step),
        Phase::InChild(step) => (scene.child(), step),
        Phase::ChildWaits => (scene.child(), "rest"),
        Phase::Asks => (flow.clone(), "ask"),
        Phase::Slot | Phase::Group => (flow.clone(), ""),
    };
    let told = || scene.world.json(&["explain", &of])["explanations"].to_string();
    // A child hears of it a moment later.
    until("it is told that it is held, and why", || told().contains("lunch"));
    match case.phase {
        Phase::Slot | Phase::Group => scene.other.open(),
        Phase::At(_) | Phase::InChild(_) => scene.gate.open(),
        Phase::ChildWaits => drop(scene.world.run_to(0, &["run", "bell"])),
        Phase::Asks => scene.answer(),
    }
    if step.is_empty() {
        let other = scene.id_of("other").unwrap();
        until("the other flow is over", || scene.is_over(&other));
    } else {
        until("what it was at is over", || scene.state_of(&of, step).as_deref() == Some("finished"));
    }
    if case.phase != FINALLY.phase {
        let begun = lines(scene.world.repo().join("journal"));
        let status = scene.world.json(&["status"]);
        assert_eq!(status["running"], serde_json::json!([]), "nothing starts");
        let resumed = scene.world.start(&["resume", &flow]);
        scene.phase = Phase::Asks;
        scene.let_go();
        let said = resumed.wait();
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(lines(scene.world.repo().join("journal")).starts_with(&begun));
    }
    scene.phase = case.phase;
    scene.close(0);
    scene.assert_whole(None);
}

/// One test for each thing that happens in each phase.
macro_rules! phases {
    ($($name:ident: $case:expr;)*) => {$(
        mod $name {
            #[test]
            fn cancel_once() {
                super::cancel_once(&$case);
            }

            #[test]
            fn cancel_twice() {
                super::cancel_twice(&$case);
            }

            #[test]
            fn killed_and_resumed() {
                super::killed_and_resumed(&$case);
            }

            #[test]
            fn paused_and_resumed() {
                super::paused_and_resumed(&$case);
            }
        }
    )*};
}

phases! {
    before_the_first_step: super::SLOT;
    queued_for_the_group: super::GROUP;
    in_the_matrix: super::MATRIX;
    in_round_two_of_the_inner_repeat: super::ROUND;
    in_the_child: super::IN_CHILD;
    while_the_child_waits: super::CHILD_WAITS;
    waiting_for_approval: super::ASKS;
    after_the_approval: super::AFTER;
    in_finally: super::FINALLY;
}
