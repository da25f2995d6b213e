//! kill -9 at random moments: nothing recorded is repeated, nothing is lost, and the flow ends as it would have.
//!
//! A step leaves marks in a journal when it begins and when it ends; what the store had recorded as finished when the
//! program was killed must leave no further mark, ever.

#![expect(clippy::unwrap_used, reason = "a document without what it must have fails its test")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use rustix::process::Signal;
use support::{World, lines, runs, until};

/// How often the suite kills; `ORC_TEST_KILLS=100 ORC_TEST_STEPS=200` makes the whole proof.
fn parameter(name: &str, default: usize) -> usize {
    #[expect(clippy::disallowed_methods, reason = "a longer proof is asked for from outside")]
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A fan-out of a third of the steps between two chains, one retry that succeeds the second time, outputs passed on.
fn long_flow(steps: usize) -> String {
    let mark = |body: &str| {
        format!(
            "      echo begin >> \"journal/$ORC_STEP\"\n{body}      sleep 0.0$((ORC_ATTEMPT % 2 * 3 + 4))\n      echo end >> \"journal/$ORC_STEP\"\n"
        )
    };
    let elements = steps / 3;
    let chain = (steps - elements - 2) / 2;
    let mut text = String::from("defaults: { retry: { attempts: 3, backoff: 10ms } }\nsteps:\n");
    for n in 0..chain {
        let needs = if n == 0 { String::new() } else { format!("    needs: [before{}]\n", n - 1) };
        let _ = writeln!(text, "  before{n}:\n{needs}    run: |\n{}", mark(""));
    }
    let items: Vec<String> = (0..elements).map(|n| n.to_string()).collect();
    let _ = writeln!(
        text,
        "  many:\n    needs: [before{}]\n    foreach: [{}]\n    limit: 8\n    run: |\n{}",
        chain - 1,
        items.join(", "),
        mark("      n=${{ item }}\n      echo \"square=$((n * n))\" >> \"$ORC_OUTPUT\"\n")
    );
    let flaky = "      if [ ! -e \"$ORC_TEMP/tried\" ]; then touch \"$ORC_TEMP/tried\"; exit 1; fi\n";
    let _ = writeln!(text, "  flaky:\n    needs: [many]\n    run: |\n{}", mark(flaky));
    for n in 0..chain {
        let needs = if n == 0 { "flaky".to_owned() } else { format!("after{}", n - 1) };
        let _ = writeln!(text, "  after{n}:\n    needs: [{needs}]\n    run: |\n{}", mark(""));
    }
    text
}

/// Marks in the journal, by step.
fn marks(journal: &Path) -> BTreeMap<String, Vec<String>> {
    let entries = std::fs::read_dir(journal).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), lines(entry.path()))).collect()
}

/// Marks in all.
fn total(journal: &Path) -> usize {
    marks(journal).values().map(Vec::len).sum()
}

/// Steps of a flow as `flows show` tells them: path to state.
fn steps_of(world: &World, flow: &str) -> BTreeMap<String, serde_json::Value> {
    let document = world.json(&["flows", "show", flow]);
    let steps = document["steps"].as_array().unwrap().iter();
    steps.map(|step| (step["path"].as_str().unwrap().to_owned(), step.clone())).collect()
}

fn only_flow(world: &World) -> String {
    let document = world.json(&["flows", "list"]);
    document["flows"][0]["id"].as_str().unwrap().to_owned()
}

/// Small numbers that differ; the same in every run of the test.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn kill_minus_nine_repeats_nothing_and_loses_nothing() {
    let (kills, steps) = (parameter("ORC_TEST_KILLS", 6), parameter("ORC_TEST_STEPS", 60));
    let world = World::new();
    world.pipeline("long", &long_flow(steps));
    world.run_to(0, &["validate"]);
    let journal = world.repo().join("journal");
    std::fs::create_dir(&journal).unwrap();
    let mut numbers = Numbers(7);
    let mut recorded: BTreeMap<String, usize> = BTreeMap::new();
    let mut killed = 0;
    let mut args = vec!["run", "long", "--slots", "8"];
    while killed < kills {
        let before = succeeded(&world);
        let running = world.start(&args);
        // A life that gets nothing done, three times in a row, is a step that kills its instance: that is another test.
        until("the flow goes on", || succeeded(&world) > before || flow_is_over(&world));
        let goal = total(&journal) + usize::try_from(numbers.below(3)).unwrap();
        until("a random moment", || total(&journal) >= goal || flow_is_over(&world));
        if flow_is_over(&world) {
            assert_eq!(running.wait().code, Some(0), "it ended before the next kill");
            break;
        }
        running.signal(Signal::KILL);
        running.wait();
        killed += 1;
        args = vec!["resume", "--all", "--slots", "8"];
        if !world.data().join("orchestrator.db").exists() || world.json(&["flows", "list"])["flows"][0].is_null() {
            args = vec!["run", "long", "--slots", "8"];
            continue;
        }
        let flow = only_flow(&world);
        let now = marks(&journal);
        for (path, step) in steps_of(&world, &flow) {
            let made = now.get(&path).map_or(0, Vec::len);
            match recorded.get(&path) {
                Some(before) => assert_eq!(made, *before, "`{path}` was recorded as finished and ran again"),
                None if step["state"] == "finished" => {
                    recorded.insert(path, made);
                }
                None => {}
            }
        }
    }
    eprintln!("{killed} times killed, {} steps recorded before the last", recorded.len());
    assert!(killed * 4 >= kills * 3, "only {killed} of {kills} kills found it running");
    let flow = only_flow(&world);
    world.run_to(0, &["resume", "--all", "--slots", "8"]);
    let finished = steps_of(&world, &flow);
    let now = marks(&journal);
    for (path, before) in recorded {
        assert_eq!(now.get(&path).map_or(0, Vec::len), before, "`{path}` was recorded as finished and ran again");
    }
    let document = world.json(&["flows", "show", &flow]);
    assert_eq!(document["outcome"], "succeeded");
    assert_eq!(world.json(&["flows", "list"])["flows"].as_array().unwrap().len(), 1);
    for (path, step) in &finished {
        assert_eq!(step["outcome"], "succeeded", "{path}: {step}");
        if let Some(index) = path.strip_prefix("many[").and_then(|rest| rest.strip_suffix(']')) {
            let n: i64 = index.parse().unwrap();
            assert_eq!(step["output"]["square"], n * n, "{path}");
        }
        if path != "many" {
            assert!(now[path].iter().any(|mark| mark == "end"), "{path} is recorded as done and left no mark");
        }
    }
}

/// Steps that are recorded as succeeded.
fn succeeded(world: &World) -> u64 {
    let said = world.run(&["flows", "list", "--output", "json"]);
    let document: serde_json::Value = serde_json::from_str(&said.out).unwrap_or_default();
    document["flows"][0]["steps"]["succeeded"].as_u64().unwrap_or_default()
}

fn flow_is_over(world: &World) -> bool {
    let said = world.run(&["flows", "list", "--output", "json"]);
    let document: serde_json::Value = serde_json::from_str(&said.out).unwrap_or_default();
    document["flows"][0]["state"] == "finished"
}

#[test]
fn a_step_that_is_not_idempotent_and_was_in_flight_waits_for_a_person() {
    let world = World::new();
    world.pipeline(
        "pay",
        "steps:\n  pay:\n    idempotent: false\n    run: |\n      echo paid >> paid\n      sleep 1000\n  after:\n    needs: [pay]\n    run: echo after >> after\nfinally:\n  tidy: { run: echo tidy >> tidy }\n",
    );
    let running = world.start(&["run", "pay"]);
    until("the step runs", || !lines(world.repo().join("paid")).is_empty());
    running.signal(Signal::KILL);
    running.wait();
    let said = world.run_to(1, &["resume", "--all"]);
    assert!(said.out.contains("a person must decide"), "{}", said.out);
    let flow = only_flow(&world);
    let steps = steps_of(&world, &flow);
    assert_eq!(steps["pay"]["outcome"], "failed");
    assert_eq!(steps["pay"]["error"]["family"], "processLost");
    assert_eq!(steps["after"]["outcome"], "skipped");
    assert_eq!(steps["tidy"]["outcome"], "succeeded");
    assert_eq!(lines(world.repo().join("paid")), ["paid"], "it was never run again");
    let explained = world.run_to(0, &["explain", &flow]);
    assert!(explained.out.contains("pay"), "{}", explained.out);
}

#[test]
fn a_process_that_a_dead_instance_left_is_killed_before_its_step_runs_again() {
    let world = World::new();
    world.pipeline(
        "left",
        "steps:\n  left:\n    run: |\n      echo $$ >> pids\n      if [ \"$ORC_WAKE_REASON\" = recovery ]; then exit 0; fi\n      setsid sleep 987 &\n      sleep 987\n",
    );
    let running = world.start(&["run", "left"]);
    until("the step runs", || !lines(world.repo().join("pids")).is_empty());
    running.signal(Signal::KILL);
    running.wait();
    let first = lines(world.repo().join("pids"))[0].clone();
    assert!(runs(&first), "kill -9 of the program leaves its children");
    let said = world.run_to(0, &["resume", "--all"]);
    assert!(said.err.contains("were killed"), "{}", said.err);
    assert!(!runs(&first));
    assert_eq!(lines(world.repo().join("pids")).len(), 2);
    let steps = steps_of(&world, &only_flow(&world));
    assert_eq!((&steps["left"]["attempts"], &steps["left"]["losses"]), (&2.into(), &1.into()));
}
