//! `kill -9` of whoever carries a flow on, at each point between the making of a copy and the end of it, and at moments
//! that nobody chose: the flow ends as without it, and no work is lost.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::support::{self, Running, World, git, until};
use crate::{Board, agent, assert_no_copies, files, pipeline, repository, result};

/// Leaves something half done, waits while it is told to, and does the rest: many files, so that keeping them takes a
/// while. From its begin to its end there is unsaved work.
const STEP: &str = r#"
set -eu
echo half > "half-$ORC_STEP"
echo "begin $ORC_STEP" >> "$BOARD/journal"
touch "$BOARD/at-$ORC_STEP"
while [ -e "$BOARD/block-$ORC_STEP" ]; do sleep 0.02; done
mkdir -p "many-$ORC_STEP"
i=0; while [ $i -lt 200 ]; do echo $i > "many-$ORC_STEP/$i"; i=$((i+1)); done
echo "$ORC_STEP" > "done-$ORC_STEP"
rm "half-$ORC_STEP"
echo "end $ORC_STEP" >> "$BOARD/journal"
"#;

const LONG: &str = r"
steps:
  first: { run: sh step.sh }
  each: { needs: first, foreach: [p, q], run: sh step.sh }
  think: { needs: each, agent: coder, prompt: Think. }
  ask: { needs: think, approval: { message: Go on?, timeout: 1h } }
  last: { needs: ask, run: sh step.sh }
";

/// Where a flow is when it is left without anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// It was just written down.
    Begun,
    /// The copy of this step is being made, or was made just now.
    Copied(&'static str),
    /// This step runs and has unsaved work.
    Works(&'static str),
    /// This step did all it had to do.
    Done(&'static str),
    /// What this step left is being read out of its copy.
    Read(&'static str),
    /// A reference holds what this step left, whether its flow knows it or not.
    Kept(&'static str),
    /// What the elements left was brought together.
    Joined,
    /// It waits for people.
    Asks,
    /// Something of the flow is on its way out.
    Collected,
}

/// One flow.
struct Scene {
    world: World,
    board: Board,
}

impl Scene {
    fn new() -> Self {
        let world = repository();
        let board = Board::new(&world);
        world.write("step.sh", STEP);
        agent(&world, "coder", ". ./step.sh\necho done\n");
        pipeline(&world, "long", &format!("{}{LONG}", board.open()));
        Self { world, board }
    }

    fn trees(&self) -> PathBuf {
        self.world.data().join("worktrees")
    }

    /// What is asked, by id.
    fn asked(&self) -> Vec<String> {
        let said = self.world.run(&["approvals", "list", "--output", "json"]);
        // Before the first flow is written down there is nothing to read.
        let Ok(open) = serde_json::from_str::<serde_json::Value>(&said.out) else { return Vec::new() };
        let requests = open["requests"].as_array().unwrap().iter();
        requests.map(|request| request["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Says yes to whatever is asked.
    fn answer(&self) {
        for id in self.asked() {
            self.world.run(&["approvals", "approve", &id]);
        }
    }

    fn has_copy(&self, step: &str) -> bool {
        names(&self.trees().join("copies")).iter().any(|flow| {
            let copies = names(&self.trees().join("copies").join(flow));
            copies.iter().any(|copy| copy.starts_with(step))
        })
    }

    /// References of the flow, without `refs/orc/`.
    fn references(&self) -> Vec<String> {
        let mut found = Vec::new();
        for store in names(&self.trees().join("repositories")) {
            below(&self.trees().join("repositories").join(store).join("refs/orc"), "", &mut found);
        }
        found
    }

    fn holds(&self, what: &str) -> bool {
        self.references().iter().any(|name| name.starts_with("flow-") && name.contains(what))
    }

    fn is_at(&self, point: Point) -> bool {
        let board = |name: String| self.board.0.join(name).exists();
        match point {
            Point::Begun => self.world.data().join("orchestrator.db").exists() && self.world.flow_of("long").is_some(),
            Point::Copied(step) => self.has_copy(step),
            Point::Works(step) => board(format!("at-{step}")),
            Point::Done(step) => self.board.journal().contains(&format!("end {step}")),
            Point::Read(step) => self.board.journal().contains(&format!("end {step}")) && self.reads(),
            Point::Kept(step) => self.holds(&format!("/{step}/")),
            Point::Joined => self.holds("/joined"),
            Point::Asks => !self.asked().is_empty(),
            Point::Collected => self.holds("/last/") && !self.has_copy("first"),
        }
    }

    /// Whether a box or we are at reading a copy: what is read goes through a directory of exchange.
    fn reads(&self) -> bool {
        let trash = names(&self.trees().join("trash"));
        let quarantines = names(&self.trees().join("repositories"));
        trash.iter().any(|name| name.contains("exchange"))
            || quarantines.iter().any(|store| {
                names(&self.trees().join("repositories").join(store)).iter().any(|name| name.contains("quarantine"))
            })
    }

    /// Carries the flow on until it is over, and says what was told meanwhile.
    fn resume(&self) -> String {
        let flow = self.world.flow_of("long").unwrap();
        if self.is_over(&flow) {
            // Nothing is left to be done but to remove what is left of it.
            let mut resume = self.world.command(&["flows", "resume", "--all"]);
            let said = support::said(&resume.env("ORC_LOG", "debug").output().unwrap());
            assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
            return format!("{}{}", said.out, said.err);
        }
        let running = self.world.start(&["flows", "resume", "--all"]);
        until("the flow is over", || {
            self.answer();
            self.is_over(&flow)
        });
        let said = running.wait();
        assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
        format!("{}{}", said.out, said.err)
    }

    fn is_over(&self, flow: &str) -> bool {
        self.world.json(&["flows", "show", flow])["state"] == "finished"
    }

    /// The flow ended as without a kill, and what was unsaved is found.
    fn assert_whole(&self, why: &str) {
        let flow = self.world.flow_of("long").unwrap();
        assert_eq!(self.world.outcome(&flow), "succeeded", "{why}");
        let made = result(&self.world, &flow);
        let (many, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            made.into_iter().partition(|(name, _)| name.starts_with("many-"));
        let steps = ["each[0]", "each[1]", "first", "last", "think"];
        let wanted: Vec<(String, &str)> = steps.iter().map(|step| (format!("done-{step}"), *step)).collect();
        let wanted: Vec<(&str, &str)> = wanted.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        assert_eq!(rest, files(&wanted), "{why}");
        assert_eq!(many.len(), 200 * steps.len(), "{why}");
        assert_eq!(self.world.json(&["worktrees", "list"])["worktrees"], serde_json::json!([]), "{why}");
        assert_no_copies(&self.world);
        // A command that was killed begins anew: what it had left was kept as its result, or rescued. An agent goes on.
        let references = self.references();
        let journal = self.board.journal();
        for step in steps {
            let count = |word: &str| journal.iter().filter(|line| **line == format!("{word} {step}")).count();
            assert!((1..=2).contains(&count("begin")), "{why}: {step}: {journal:?}");
            let name = step.replace('[', "%5b").replace(']', "%5d");
            let is_kept = |reference: &String| {
                let rescued = reference.starts_with("rescue/") && reference.contains(&format!("/{name}/"));
                rescued || reference.ends_with(&format!("/{name}/1"))
            };
            let begins_anew = count("begin") > 1 && step != "think";
            assert!(!begins_anew || references.iter().any(is_kept), "{why}: work of {step} is nowhere: {references:?}");
        }
    }
}

/// Names in a directory; none if it is missing.
fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect()
}

/// Files below a directory, by their paths in it.
fn below(directory: &Path, prefix: &str, into: &mut Vec<String>) {
    for name in names(directory) {
        let path = directory.join(&name);
        let name = format!("{prefix}{name}");
        if path.is_dir() { below(&path, &format!("{name}/"), into) } else { into.push(name) }
    }
}

fn kill(running: Running) {
    running.signal(Signal::KILL);
    drop(running.wait());
}

/// A flow that is killed at this point, carried on, and looked at.
fn killed_at(point: Point) {
    let scene = Scene::new();
    if let Point::Works(step) = point {
        scene.board.put(&format!("block-{step}"));
    }
    let running = scene.world.start(&["run", "long"]);
    let answers = matches!(point, Point::Kept("last") | Point::Done("last") | Point::Collected);
    until(&format!("{point:?}"), || {
        if answers && scene.board.journal().contains(&"end think".to_owned()) && !scene.has_copy("last") {
            scene.answer();
        }
        scene.is_at(point)
    });
    kill(running);
    if let Point::Works(step) = point {
        let flow = scene.world.flow_of("long").unwrap();
        let copies = scene.world.json(&["worktrees", "list", &flow]);
        let unsaved = copies["worktrees"]
            .as_array()
            .unwrap()
            .iter()
            .any(|copy| copy["step"] == step && copy["state"] == "unsaved");
        assert!(unsaved, "{copies}");
        std::fs::remove_file(scene.board.0.join(format!("block-{step}"))).unwrap();
    }
    let told = scene.resume();
    scene.assert_whole(&format!("{point:?}: {told}"));
    if let Point::Works("first") = point {
        // What was rescued is what was there.
        let rescue = scene.references().into_iter().find(|name| name.starts_with("rescue/")).unwrap();
        let store = names(&scene.trees().join("repositories")).remove(0);
        let store = scene.trees().join("repositories").join(store);
        assert_eq!(git(&store, &["show", &format!("refs/orc/{rescue}:half-first")]), "half");
    }
}

macro_rules! points {
    ($($name:ident: $point:expr;)*) => { $(#[test] fn $name() { killed_at($point); })* };
}

points! {
    killed_right_after_its_start: Point::Begun;
    killed_while_the_first_copy_is_made: Point::Copied("first");
    killed_with_unsaved_work_of_a_command: Point::Works("first");
    killed_with_unsaved_work_of_an_element: Point::Works("each[1]");
    killed_with_unsaved_work_of_an_agent: Point::Works("think");
    killed_right_after_a_process_ended: Point::Done("first");
    killed_while_its_work_is_read: Point::Read("first");
    killed_between_keeping_and_the_next_step: Point::Kept("first");
    killed_after_elements_were_joined: Point::Joined;
    killed_while_it_asks: Point::Asks;
    killed_when_its_last_work_is_kept: Point::Kept("last");
    killed_while_copies_are_collected: Point::Collected;
}

/// What can be seen of a flow from outside; it changes whenever something happens.
fn sight(scene: &Scene) -> (u64, usize, Vec<String>) {
    let length = |name: &str| std::fs::metadata(scene.world.data().join(name)).map_or(0, |about| about.len());
    let mut seen = scene.references();
    below(&scene.trees().join("trash"), "", &mut seen);
    for flow in names(&scene.trees().join("copies")) {
        seen.extend(names(&scene.trees().join("copies").join(flow)));
    }
    seen.sort();
    (length("orchestrator.db") + length("orchestrator.db-wal"), scene.board.journal().len(), seen)
}

/// Five moments of which nobody knows what is under way in them.
fn assert_whole_after_any_moments() {
    let drawn = std::hash::RandomState::new().hash_one("moments");
    let mut random = drawn;
    for round in 0..5 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = (random >> 33) % 60;
        let scene = Scene::new();
        let running = scene.world.start(&["run", "long"]);
        let (mut before, mut changes) = (sight(&scene), 0);
        // A moment is counted by what changes: how often depends on who looks when, which is why it is any moment.
        until("the moment has come, or it asks", || {
            let now = sight(&scene);
            changes += u64::from(now != before);
            before = now;
            let thought = scene.board.journal().contains(&"end think".to_owned());
            changes > moment || thought && scene.is_at(Point::Asks)
        });
        kill(running);
        let why = format!("round {round}, drawn {drawn}, moment {moment}");
        if !scene.world.data().join("orchestrator.db").exists() || scene.world.flow_of("long").is_none() {
            assert_eq!(scene.board.journal(), [""; 0], "{why}: nothing begins that is not written down");
            continue;
        }
        let told = scene.resume();
        scene.assert_whole(&format!("{why}: {told}"));
    }
}

#[test]
fn killed_at_five_moments_that_nobody_chose() {
    assert_whole_after_any_moments();
}

#[test]
fn killed_at_five_other_moments() {
    assert_whole_after_any_moments();
}
