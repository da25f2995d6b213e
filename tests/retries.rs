//! Retrying a flow: what failed runs again, and everything that depends on it; what succeeded is taken over, and skipped or
//! failed is never taken for done.

#![expect(clippy::unwrap_used, reason = "a document without what it must have fails its test")]

mod support;

use std::collections::BTreeMap;

use rustix::process::Signal;
use support::{Gate, World, lines, until};

/// A step that leaves its path in the journal.
const MARK: &str = "echo \"$ORC_STEP\" >> journal";

/// A world whose pipeline `one` has these steps; `MARK` in them is [`MARK`].
fn world(steps: &str) -> World {
    let world = World::new();
    world.pipeline("one", &steps.replace("MARK", MARK));
    world
}

fn newest(world: &World) -> String {
    world.flow_of("one").unwrap()
}

/// What has run since it was asked last.
fn since(world: &World) -> Vec<String> {
    let path = world.repo().join("journal");
    let mut ran = lines(&path);
    let _ = std::fs::remove_file(path);
    ran.sort();
    ran
}

fn ends(world: &World) -> BTreeMap<String, String> {
    world.ends(&newest(world))
}

fn assert_ends(world: &World, wanted: &[(&str, &str)]) {
    let wanted: BTreeMap<String, String> =
        wanted.iter().map(|(path, word)| ((*path).to_owned(), (*word).to_owned())).collect();
    assert_eq!(ends(world), wanted);
}

#[test]
fn what_failed_and_what_depends_on_it_runs_again() {
    let world = world(concat!(
        "steps:\n",
        "  a: { run: 'MARK; echo x=1 >> \"$ORC_OUTPUT\"' }\n",
        "  b: { needs: a, run: 'MARK; test -e fixed' }\n",
        "  c: { needs: a, run: 'MARK' }\n",
        "  d: { needs: [b, c], run: 'MARK; echo ${{ steps.a.output.x }} > got' , if: \"steps.c.outcome == 'succeeded'\" }\n",
        "  e: { needs: d, run: 'MARK' }\n",
        "  sorry: { needs: b, if: failure(), run: 'MARK' }\n",
        "finally: { end: { run: 'MARK' } }\n",
    ).replace("needs: [b, c], run", "needs: [a, b, c], run").as_str());
    world.run_to(1, &["run", "one"]);
    let failed = newest(&world);
    assert_eq!(since(&world), ["a", "b", "c", "end", "sorry"]);
    let wanted = [
        ("a", "succeeded"),
        ("b", "failed"),
        ("c", "succeeded"),
        ("d", "skipped"),
        ("e", "skipped"),
        ("sorry", "succeeded"),
        ("end", "succeeded"),
    ];
    assert_ends(&world, &wanted);

    // Again without a repair: the same, and nothing that had succeeded.
    world.run_to(1, &["retry", &failed]);
    assert_eq!(since(&world), ["b", "end", "sorry"]);
    assert_ends(&world, &wanted);
    // A retry of a retry.
    world.write("fixed", "");
    world.run_to(0, &["retry", &newest(&world)]);
    assert_eq!(since(&world), ["b", "d", "e", "end"]);
    assert_eq!(lines(world.repo().join("got")), ["1"], "outputs are taken over too");
    let wanted = [
        ("a", "succeeded"),
        ("b", "succeeded"),
        ("c", "succeeded"),
        ("d", "succeeded"),
        ("e", "succeeded"),
        ("sorry", "skipped"),
        ("end", "succeeded"),
    ];
    assert_ends(&world, &wanted);
    assert_eq!(world.outcome(&failed), "failed", "the old one stays as it was");
    assert!(world.run_to(5, &["retry", &newest(&world)]).err.contains("nothing to retry"));
}

#[test]
fn from_a_step_runs_it_and_what_depends_on_it_although_it_succeeded() {
    let world = world(concat!(
        "steps:\n",
        "  a: { run: 'MARK' }\n",
        "  b: { needs: a, foreach: [1, 2], run: 'MARK' }\n",
        "  c: { needs: b, run: 'MARK' }\n",
        "  other: { run: 'MARK' }\n",
    ));
    world.run_to(0, &["run", "one"]);
    assert_eq!(since(&world), ["a", "b[0]", "b[1]", "c", "other"]);
    let flow = newest(&world);
    world.run_to(0, &["retry", &flow, "--from", "b"]);
    assert_eq!(since(&world), ["b[0]", "b[1]", "c"]);
    world.run_to(0, &["retry", &flow, "--from", "other"]);
    assert_eq!(since(&world), ["other"]);
    let unknown = world.run_to(5, &["retry", &flow, "--from", "othr"]);
    assert!(unknown.err.contains("no step `othr`") && unknown.err.contains("`other`"), "{}", unknown.err);
}

#[test]
fn a_router_is_asked_again_when_what_it_decides_by_runs_again() {
    let world = world(concat!(
        "steps:\n",
        "  route: { run: 'MARK; echo to=$(cat way) >> \"$ORC_OUTPUT\"' }\n",
        "  left: { needs: route, if: \"steps.route.output.to == 'left'\", run: 'MARK; test -e fixed' }\n",
        "  right: { needs: route, if: \"steps.route.output.to == 'right'\", run: 'MARK' }\n",
        "  join: { needs: [left, right], if: \"steps.left.outcome == 'succeeded' || steps.right.outcome == 'succeeded' || failure()\", run: 'MARK' }\n",
    ));
    world.write("way", "left\n");
    world.run_to(1, &["run", "one"]);
    assert_eq!(since(&world), ["join", "left", "route"]);
    assert_ends(&world, &[("route", "succeeded"), ("left", "failed"), ("right", "skipped"), ("join", "succeeded")]);
    let failed = newest(&world);
    world.write("fixed", "");
    world.run_to(0, &["retry", &failed]);
    assert_eq!(since(&world), ["join", "left"], "the way that was not taken is not taken now");
    assert_eq!(ends(&world)["right"], "skipped");
    // The other way: what ran before does not count any more.
    world.write("way", "right\n");
    world.run_to(0, &["retry", &newest(&world), "--from", "route"]);
    assert_eq!(since(&world), ["join", "right", "route"]);
    assert_eq!((ends(&world)["left"].as_str(), ends(&world)["right"].as_str()), ("skipped", "succeeded"));
}

#[test]
fn elements_and_cells_that_succeeded_are_taken_over() {
    let world = world(concat!(
        "steps:\n",
        "  cells: { matrix: { os: [linux, mac], level: [1, 2] }, run: 'MARK; test -e fixed || test \"${{ matrix.os }}${{ matrix.level }}\" != mac1' }\n",
        "  list: { run: 'MARK; echo \"parts=[1,2,3]\" >> \"$ORC_OUTPUT\"' }\n",
        "  each: { needs: list, foreach: '${{ steps.list.output.parts }}', fail_fast: true, limit: 1, run: 'MARK; n=${{ item }}; test -e fixed || test $n != 2; echo n=$n >> \"$ORC_OUTPUT\"' }\n",
        "  sum: { needs: [each, cells], run: 'MARK; echo ${{ to_json(steps.each.results) }} > got' }\n",
    ));
    world.run_to(1, &["run", "one"]);
    let first = since(&world);
    assert_eq!(first.len(), 4 + 1 + 2, "{first:?}");
    assert_eq!((ends(&world)["each[1]"].as_str(), ends(&world)["each[2]"].as_str()), ("failed", "cancelled"));
    world.write("fixed", "");
    world.run_to(0, &["retry", &newest(&world)]);
    assert_eq!(since(&world), ["cells{level=1,os=mac}", "each[1]", "each[2]", "sum"]);
    let results: serde_json::Value = serde_json::from_str(&lines(world.repo().join("got"))[0]).unwrap();
    let numbers: Vec<_> = results.as_array().unwrap().iter().map(|result| result["output"]["n"].clone()).collect();
    assert_eq!(numbers, [1, 2, 3], "also of those that were taken over");
}

#[test]
fn rounds_begin_again_and_what_was_before_them_does_not() {
    let world = world(concat!(
        "steps:\n",
        "  before: { run: 'MARK' }\n",
        "  again:\n    needs: before\n    repeat:\n      max: 3\n      until: steps.look.output.good\n",
        "      steps:\n",
        "        work: { run: 'MARK' }\n",
        "        look: { needs: work, run: 'MARK; good=false; test \"$ORC_STEP\" != again~2/look || test -e fixed; test \"$ORC_STEP\" != again~2/look || good=true; echo good=$good >> \"$ORC_OUTPUT\"' }\n",
        "  after: { needs: again, run: 'MARK' }\n",
    ));
    world.run_to(1, &["run", "one"]);
    let rounds = ["again~1/look", "again~1/work", "again~2/look", "again~2/work"];
    assert_eq!(since(&world), [&rounds[..], &["before"]].concat());
    world.write("fixed", "");
    world.run_to(0, &["retry", &newest(&world)]);
    assert_eq!(since(&world), [&["after"][..], &rounds].concat());
}

#[test]
fn what_was_cancelled_is_not_done() {
    let world = world(concat!(
        "steps:\n",
        "  a: { run: 'MARK' }\n",
        "  b: { needs: a, run: 'MARK; read x < gate' }\n",
        "  c: { needs: b, run: 'MARK' }\n",
        "finally: { end: { run: 'MARK' } }\n",
    ));
    let mut gate = Gate::new(&world);
    let running = world.start(&["run", "one"]);
    until("it runs", || lines(world.repo().join("journal")).contains(&"b".to_owned()));
    let live = world.run_to(8, &["db", "vacuum"]);
    assert!(live.err.contains("in use by process"), "{}", live.err);
    let refused = world.run_to(5, &["retry", &newest(&world)]);
    assert!(refused.err.contains("is still live"), "{}", refused.err);
    world.run_to(0, &["cancel", &newest(&world)]);
    assert_eq!(running.wait().code, Some(130));
    assert_eq!(since(&world), ["a", "b", "end"]);
    gate.open();
    world.run_to(0, &["retry", &newest(&world)]);
    assert_eq!(since(&world), ["b", "c", "end"]);
}

#[test]
fn a_retry_that_is_cancelled_before_it_came_far_loses_nothing_that_was_done() {
    let world = world(concat!(
        "steps:\n",
        "  each: { foreach: [1, 2, 3], limit: 1, run: 'MARK; test -e fixed || test ${{ item }} != 3' }\n",
        "  gate: { run: 'MARK; if test -e fixed && ! test -e open; then read x < gate; fi; test -e fixed' }\n",
        "  last: { needs: [each, gate], run: 'MARK' }\n",
    ));
    let _gate = Gate::new(&world);
    world.run_to(1, &["run", "one"]);
    let first = since(&world);
    assert_eq!(first, ["each[0]", "each[1]", "each[2]", "gate"]);
    world.write("fixed", "");
    let retried = world.start(&["retry", &newest(&world), "--slots", "1"]);
    until("the retry stands at the gate", || lines(world.repo().join("journal")).contains(&"gate".to_owned()));
    let flow = newest(&world);
    world.run_to(0, &["cancel", &flow]);
    assert_eq!(retried.wait().code, Some(130));
    let again = since(&world);
    world.write("open", "");
    world.run_to(0, &["retry", &flow]);
    let all = [again, since(&world)].concat();
    for done in ["each[0]", "each[1]"] {
        assert!(!all.contains(&done.to_owned()), "{done} had succeeded in the first flow: {all:?}");
    }
    assert!(all.contains(&"last".to_owned()));
}

#[test]
fn answers_are_taken_over_and_a_denial_is_asked_again() {
    let world = world(concat!(
        "steps:\n",
        "  first: { approval: { message: First? } }\n",
        "  second: { needs: first, approval: { message: Second? } }\n",
        "  last: { needs: second, run: 'MARK' }\n",
    ));
    let answer = |what: &str, wanted: &str| {
        let mut request = serde_json::Value::Null;
        until("it asks", || {
            let said = world.run(&["approvals", "list", "--output", "json"]);
            let open: serde_json::Value = serde_json::from_str(&said.out).unwrap_or_default();
            request = open["requests"][0].clone();
            request["message"] == wanted
        });
        world.run_to(0, &["approvals", what, request["id"].as_str().unwrap()]);
    };
    let running = world.start(&["run", "one"]);
    answer("approve", "First?");
    answer("deny", "Second?");
    assert_eq!(running.wait().code, Some(1));
    assert_ends(&world, &[("first", "succeeded"), ("second", "failed"), ("last", "skipped")]);
    let retried = world.start(&["retry", &newest(&world)]);
    answer("approve", "Second?");
    assert_eq!(retried.wait().code, Some(0));
    assert_eq!(since(&world), ["last"]);
}

#[test]
fn attempts_and_losses_begin_anew() {
    let world = world(
        "steps: { a: { retry: { attempts: 2, backoff: 1ms }, run: 'MARK; echo up >> up; read x < gate; test -e fixed' } }\n",
    );
    let mut gate = Gate::new(&world);
    let running = world.start(&["run", "one"]);
    until("it runs", || lines(world.repo().join("up")).len() == 1);
    running.signal(Signal::KILL);
    running.wait();
    let resumed = world.start(&["resume", "--all"]);
    for attempt in 2..=3 {
        until("it runs again", || lines(world.repo().join("up")).len() == attempt);
        gate.open();
    }
    assert_eq!(resumed.wait().code, Some(1), "the loss used up none of its two attempts");
    let lost = world.steps(&newest(&world))["a"].clone();
    assert_eq!((&lost["attempts"], &lost["losses"]), (&3.into(), &1.into()));
    // The first attempt of the retry fails too; it has another.
    let retried = world.start(&["retry", &newest(&world)]);
    until("it runs again", || lines(world.repo().join("up")).len() == 4);
    gate.open();
    until("it has another attempt", || lines(world.repo().join("up")).len() == 5);
    world.write("fixed", "");
    gate.open();
    assert_eq!(retried.wait().code, Some(0));
    let step = world.steps(&newest(&world))["a"].clone();
    assert_eq!((&step["attempts"], &step["losses"]), (&2.into(), &0.into()));
}
