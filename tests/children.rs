//! Flows that start flows: what goes down (inputs, cancel, retry), what comes back (outputs, failures), and what is left
//! when either was not carried on for a while.

#![expect(clippy::unwrap_used, reason = "a document without what it must have fails its test")]

mod support;

use std::collections::BTreeMap;

use rustix::process::Signal;
use support::{Gate, World, lines, until};

/// How often each word stands in the journal.
fn journal(world: &World) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines(world.repo().join("journal")) {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

fn counts(wanted: &[(&str, usize)]) -> BTreeMap<String, usize> {
    wanted.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
}

fn ends(wanted: &[(&str, &str)]) -> BTreeMap<String, String> {
    wanted.iter().map(|(path, word)| ((*path).to_owned(), (*word).to_owned())).collect()
}

/// `above` has a step before and one after its child; the second of the three steps of the child fails until `fixed` is
/// there.
fn world() -> World {
    let world = World::new();
    world.pipeline(
        "above",
        concat!(
            "steps:\n",
            "  before: { run: 'echo before >> journal; echo n=4 >> \"$ORC_OUTPUT\"' }\n",
            "  below: { needs: before, pipeline: child, with: { n: '${{ steps.before.output.n }}' } }\n",
            "  after: { needs: below, run: 'echo \"after ${{ steps.below.output.sum }}\" >> journal' }\n",
        ),
    );
    world.pipeline(
        "child",
        concat!(
            "inputs: { n: { type: number } }\n",
            "steps:\n",
            "  one: { run: 'echo one >> journal; n=${{ inputs.n }}; echo sum=$((n + 1)) >> \"$ORC_OUTPUT\"' }\n",
            "  two: { needs: one, run: 'echo two >> journal; test -e fixed || { echo broken >&2; exit 3; }' }\n",
            "  three: { needs: two, run: 'echo three >> journal' }\n",
            "finally:\n  end: { run: 'echo end >> journal' }\n",
            "outputs: { sum: '${{ steps.one.output.sum }}' }\n",
        ),
    );
    world
}

#[test]
fn a_child_that_fails_fails_its_step_and_a_retry_carries_it_on() {
    let world = world();
    let said = world.run_to(1, &["run", "above"]);
    let (above, child) = (world.flow_of("above").unwrap(), world.flow_of("child").unwrap());
    assert_eq!(
        world.ends(&child),
        ends(&[("one", "succeeded"), ("two", "failed"), ("three", "skipped"), ("end", "succeeded")])
    );
    assert_eq!(world.ends(&above), ends(&[("before", "succeeded"), ("below", "failed"), ("after", "skipped")]));
    let error = world.steps(&above)["below"]["error"]["message"].as_str().unwrap().to_owned();
    assert!(error.contains("the child flow ended failed") && error.contains("`two`"), "{error}");
    assert!(said.out.contains("skipped: `below` failed"), "{}", said.out);

    world.write("fixed", "");
    world.run_to(0, &["retry", &above]);
    let wanted = [("before", 1), ("one", 1), ("two", 2), ("three", 1), ("end", 2), ("after 5", 1)];
    assert_eq!(journal(&world), counts(&wanted), "what had succeeded, above and below, was not done again");
    let (again, below) = (world.flow_of("above").unwrap(), world.flow_of("child").unwrap());
    assert_ne!((&again, &below), (&above, &child));
    assert_eq!(world.json(&["flows", "show", &below])["retry_of"], child.as_str());
    assert!(world.ends(&again).values().chain(world.ends(&below).values()).all(|word| word == "succeeded"));
    let refused = world.run_to(5, &["retry", &again]);
    assert!(refused.err.contains("nothing to retry"), "{}", refused.err);
}

#[test]
fn a_retry_from_before_the_child_begins_it_anew() {
    let world = world();
    world.run_to(1, &["run", "above"]);
    world.write("fixed", "");
    world.run_to(0, &["retry", &world.flow_of("above").unwrap(), "--from", "before"]);
    let wanted = [("before", 2), ("one", 2), ("two", 2), ("three", 1), ("end", 2), ("after 5", 1)];
    assert_eq!(journal(&world), counts(&wanted), "what it was given may have changed");
    world.run_to(0, &["retry", &world.flow_of("above").unwrap(), "--from", "below"]);
    assert_eq!((journal(&world)["before"], journal(&world)["one"], journal(&world)["after 5"]), (2, 3, 2));
}

#[test]
fn a_retry_of_the_child_alone_is_a_flow_of_its_own() {
    let world = world();
    world.run_to(1, &["run", "above"]);
    world.write("fixed", "");
    world.run_to(0, &["retry", &world.flow_of("child").unwrap()]);
    assert_eq!((journal(&world)["one"], journal(&world)["two"], journal(&world)["three"]), (1, 2, 1));
    assert_eq!(journal(&world).get("after 5"), None, "the flow above is over and stays as it was");
    assert_eq!(world.outcome(&world.flow_of("above").unwrap()), "failed");
}

/// The first step of the child stands at the gate.
fn held() -> (World, Gate) {
    let world = world();
    let child = std::fs::read_to_string(world.repo().join("pipelines/child.yaml")).unwrap();
    world.write("pipelines/child.yaml", &child.replace("echo two >> journal", "echo two >> journal; read x < gate"));
    world.write("fixed", "");
    let gate = Gate::new(&world);
    (world, gate)
}

fn reach(world: &World) -> String {
    until("the child stands at the gate", || journal(world).contains_key("two"));
    let child = world.flow_of("child").unwrap();
    until("its process is written down", || {
        let runs = world.json(&["runs", "list", "--flow", &child]);
        runs["runs"].as_array().unwrap().iter().any(|run| run["state"] == "running")
    });
    child
}

#[test]
fn a_cancel_of_the_child_alone_fails_the_step_above() {
    let (world, mut gate) = held();
    let running = world.start(&["run", "above"]);
    let child = reach(&world);
    world.run_to(0, &["cancel", &child]);
    assert_eq!(running.wait().code, Some(1));
    let above = world.flow_of("above").unwrap();
    assert_eq!((world.outcome(&child), world.outcome(&above)), ("cancelled".to_owned(), "failed".to_owned()));
    assert_eq!(world.ends(&above), ends(&[("before", "succeeded"), ("below", "failed"), ("after", "skipped")]));
    let error = world.steps(&above)["below"]["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("the child flow ended cancelled"), "{error}");
    assert_eq!(journal(&world)["end"], 1);
    gate.open();
    world.run_to(0, &["retry", &above]);
    let wanted = [("before", 1), ("one", 1), ("two", 2), ("three", 1), ("end", 2), ("after 5", 1)];
    assert_eq!(journal(&world), counts(&wanted));
}

#[test]
fn a_child_that_is_carried_on_alone_tells_the_flow_above_which_goes_on() {
    let (world, mut gate) = held();
    let running = world.start(&["run", "above"]);
    let child = reach(&world);
    running.signal(Signal::KILL);
    running.wait();
    let above = world.flow_of("above").unwrap();
    // Nobody asks for the flow above; it learns of the end of its child, and then it has to be done too.
    let resumed = world.start(&["resume", &child]);
    until("the child tries again", || journal(&world)["two"] == 2);
    gate.open();
    let said = resumed.wait();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(world.outcome(&child), "succeeded");
    assert_eq!(world.outcome(&above), "succeeded");
    let wanted = [("before", 1), ("one", 1), ("two", 2), ("three", 1), ("end", 1), ("after 5", 1)];
    assert_eq!(journal(&world), counts(&wanted));
    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
}

#[test]
fn a_child_that_ended_while_nobody_carried_the_flow_above_on_is_heard_of_later() {
    let (world, mut gate) = held();
    let running = world.start(&["run", "above"]);
    let child = reach(&world);
    gate.open();
    // Somewhere between the end of the child's work and the end of the flow above.
    until("the child's last step began", || journal(&world).contains_key("end"));
    running.signal(Signal::KILL);
    running.wait();
    let above = world.flow_of("above").unwrap();
    let resumed = world.run(&["resume", "--all"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    assert_eq!((world.outcome(&child), world.outcome(&above)), ("succeeded".to_owned(), "succeeded".to_owned()));
    let journal = journal(&world);
    assert_eq!((journal["before"], journal["one"], journal["two"], journal["three"]), (1, 1, 1, 1), "{journal:?}");
}

#[test]
fn inputs_that_do_not_fit_are_refused_before_anything_starts() {
    let world = world();
    // Known from the files: nothing starts at all.
    let written =
        "steps:\n  below: { pipeline: child, with: { n: many } }\n  other: { pipeline: child, with: { m: 3 } }\n";
    world.pipeline("wrong", written);
    let said = world.run_to(3, &["run", "wrong"]);
    assert!(said.err.contains("pipelines/wrong.yaml:4:") && said.err.contains("has no input `m`"), "{}", said.err);
    assert!(said.err.contains("`n`") && !world.data().join("orchestrator.db").exists(), "{}", said.err);
    // Known when it is reached: the child does not start, and the step says why.
    let text = std::fs::read_to_string(world.repo().join("pipelines/above.yaml")).unwrap();
    world.write("pipelines/above.yaml", &text.replace("n=4", "n=many"));
    world.run_to(1, &["run", "above"]);
    let above = world.flow_of("above").unwrap();
    let error = world.steps(&above)["below"]["error"]["message"].as_str().unwrap().to_owned();
    assert!(error.contains("`n` needs a number, and this is "), "{error}");
    assert_eq!(world.flow_of("child"), None);
    assert_eq!(journal(&world), counts(&[("before", 1)]));
}

/// Three flows, one below the other, each with a `finally`.
fn three_deep() -> (World, Gate) {
    let world = World::new();
    let level = |name: &str, below: &str| {
        format!(
            "steps:\n  first-{name}: {{ run: 'echo first-{name} >> journal' }}\n  down-{name}: {{ needs: first-{name}, {below} }}\n  last-{name}: {{ needs: down-{name}, run: 'echo last-{name} >> journal' }}\nfinally:\n  end-{name}: {{ run: 'echo end-{name} >> journal' }}\n"
        )
    };
    world.pipeline("top", &level("top", "pipeline: middle"));
    world.pipeline("middle", &level("middle", "pipeline: bottom"));
    world.pipeline("bottom", &level("bottom", "run: 'echo hold >> journal; read x < gate'"));
    let gate = Gate::new(&world);
    (world, gate)
}

#[test]
fn a_cancel_at_the_top_ends_what_is_two_below_and_a_retry_goes_on_there() {
    let (world, mut gate) = three_deep();
    let running = world.start(&["run", "top"]);
    until("the deepest step runs", || journal(&world).contains_key("hold"));
    world.run_to(0, &["cancel", &world.flow_of("top").unwrap()]);
    assert_eq!(running.wait().code, Some(130));
    for name in ["top", "middle", "bottom"] {
        assert_eq!(world.outcome(&world.flow_of(name).unwrap()), "cancelled", "{name}");
        assert_eq!(journal(&world)[&format!("end-{name}")], 1, "each `finally` runs once");
        assert!(!journal(&world).contains_key(&format!("last-{name}")));
    }
    gate.open();
    world.run_to(0, &["retry", &world.flow_of("top").unwrap()]);
    for name in ["top", "middle", "bottom"] {
        let journal = journal(&world);
        assert_eq!((journal[&format!("first-{name}")], journal[&format!("last-{name}")]), (1, 1), "{name}");
    }
    assert_eq!(journal(&world)["hold"], 2);
    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
}

#[test]
fn a_fan_out_of_children_is_retried_where_it_failed() {
    let world = World::new();
    world.pipeline(
        "many",
        "steps:\n  each: { foreach: [1, 2, 3], limit: 2, pipeline: part, with: { n: '${{ item }}' } }\n  all: { needs: each, run: 'echo all >> journal' }\n",
    );
    world.pipeline(
        "part",
        "inputs: { n: { type: number } }\nsteps:\n  a: { run: 'echo \"a ${{ inputs.n }}\" >> journal' }\n  b: { needs: a, run: 'echo \"b ${{ inputs.n }}\" >> journal; test -e fixed || test ${{ inputs.n }} != 2' }\n",
    );
    world.run_to(1, &["run", "many"]);
    let many = world.flow_of("many").unwrap();
    let wanted = [
        ("each", "failed"),
        ("each[0]", "succeeded"),
        ("each[1]", "failed"),
        ("each[2]", "succeeded"),
        ("all", "skipped"),
    ];
    assert_eq!(world.ends(&many), ends(&wanted));
    world.write("fixed", "");
    world.run_to(0, &["retry", &many]);
    let wanted = [("a 1", 1), ("a 2", 1), ("a 3", 1), ("b 1", 1), ("b 2", 2), ("b 3", 1), ("all", 1)];
    assert_eq!(journal(&world), counts(&wanted));
}

#[test]
fn a_child_in_each_round_and_one_that_may_fail() {
    let world = World::new();
    world.pipeline(
        "rounds",
        concat!(
            "steps:\n",
            "  again:\n    repeat:\n      max: 5\n      until: steps.below.outcome == 'succeeded'\n",
            "      steps:\n        below: { pipeline: part, continue_on_fail: true }\n",
            "  after: { needs: again, run: 'echo after >> journal' }\n",
        ),
    );
    // The third is well.
    world.pipeline("part", "steps: { a: { run: 'echo a >> journal; test $(wc -l < journal) -ge 3' } }\n");
    world.run_to(0, &["run", "rounds"]);
    assert_eq!(journal(&world), counts(&[("a", 3), ("after", 1)]));
    let ends = world.ends(&world.flow_of("rounds").unwrap());
    assert_eq!((ends["again~1/below"].as_str(), ends["again~3/below"].as_str()), ("failed", "succeeded"));
    assert_eq!(world.json(&["flows", "list"])["flows"].as_array().unwrap().len(), 4, "a flow for each round");
}

#[test]
fn a_child_is_in_the_groups_of_the_flow_above() {
    let world = World::new();
    let group = "concurrency: { group: only-one, limit: 1 }\n";
    world.pipeline("above", &format!("{group}steps: {{ below: {{ pipeline: child }} }}\n"));
    world.pipeline("child", &format!("{group}steps: {{ a: {{ concurrency: only-one, run: 'echo a >> journal' }} }}\n"));
    world.run_to(0, &["run", "above"]);
    assert_eq!(journal(&world), counts(&[("a", 1)]), "it does not wait for itself");
}

#[test]
fn pipelines_that_call_each_other_are_refused_with_the_circle() {
    let world = World::new();
    world.pipeline("a", "steps: { below: { pipeline: b } }\n");
    world.pipeline("b", "steps: { below: { pipeline: a } }\n");
    let said = world.run_to(3, &["run", "a"]);
    assert!(said.err.contains("pipelines/a.yaml -> pipelines/b.yaml -> pipelines/a.yaml"), "{}", said.err);
}
