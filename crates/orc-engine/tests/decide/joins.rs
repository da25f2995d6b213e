//! Who waits for whom, what is skipped, and what a condition sees.

use orc_domain::expr::StatusFn;
use orc_domain::flow::FlowOutcome;
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_testkit::fixture::{equal, literal, output, read, status, step};

use crate::scene::{Scene, starts};

#[test]
fn a_step_starts_when_its_last_direct_parent_is_finished() {
    let mut scene =
        Scene::begin(vec![step("a"), step("b"), step("join").needs(&["a", "b"]), step("end").needs(&["join"])], vec![]);
    assert_eq!(starts(&scene.last), ["a", "b"]);
    assert_eq!(starts(&scene.deliver("a")), Vec::<String>::new());
    assert_eq!(scene.picture(), ["a: succeeded", "b: active", "join: blocked", "end: blocked"]);
    assert_eq!(starts(&scene.deliver("b")), ["join"]);
    assert_eq!(starts(&scene.deliver("join")), ["end"]);
    assert_eq!(scene.outcome(), None);
    scene.deliver("end");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn a_diamond_joins_once_in_whatever_order_its_sides_end() {
    for order in [["l", "r"], ["r", "l"]] {
        let mut scene = Scene::begin(
            vec![
                step("top"),
                step("l").needs(&["top"]),
                step("r").needs(&["top"]),
                step("join").needs(&["l", "r", "top"]),
            ],
            vec![],
        );
        scene.deliver("top");
        scene.deliver(order[0]);
        assert_eq!(starts(&scene.deliver(order[1])), ["join"]);
        scene.deliver("join");
        assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
        assert_eq!(scene.took(Transition::StepReady), 4);
    }
}

#[test]
fn a_failure_skips_what_depends_on_it_and_says_why() {
    let mut scene =
        Scene::begin(vec![step("a"), step("b").needs(&["a"]), step("c").needs(&["b"]), step("other")], vec![]);
    scene.fail("a");
    scene.deliver("other");
    assert_eq!(
        scene.picture(),
        ["a: failed: exit code 1", "b: skipped: `a` failed", "c: skipped: `b` skipped", "other: succeeded"]
    );
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn a_skip_reaches_only_direct_dependents_that_do_not_accept_it() {
    let mut scene = Scene::begin(
        vec![
            step("skipped").when(literal(false)),
            step("accepts").needs(&["skipped"]).when(status(StatusFn::Always)),
            step("behind").needs(&["accepts"]),
        ],
        vec![],
    );
    assert_eq!(scene.picture(), ["skipped: skipped: its `if` is false", "accepts: active", "behind: blocked"]);
    assert_eq!(starts(&scene.deliver("accepts")), ["behind"]);
    scene.deliver("behind");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn a_last_step_with_always_runs_although_some_needs_were_skipped_or_failed() {
    let mut scene = Scene::begin(
        vec![
            step("a"),
            step("b").needs(&["a"]),
            step("off").when(literal(false)),
            step("last").needs(&["a", "b", "off"]).when(status(StatusFn::Always)),
        ],
        vec![],
    );
    assert_eq!(starts(&scene.fail("a")), ["last"]);
    scene.deliver("last");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn every_status_function_against_every_end_of_a_parent() {
    let functions = [StatusFn::Success, StatusFn::Failure, StatusFn::Always, StatusFn::Cancelled, StatusFn::Skipped];
    // In the order of `functions`: whether a step with that condition runs.
    let table: [(&str, [bool; 5]); 5] = [
        ("succeeds", [true, false, true, false, false]),
        ("fails", [false, true, true, false, false]),
        ("fails, accepted", [true, true, true, false, false]),
        ("is skipped", [false, false, true, false, true]),
        ("makes no change", [true, false, true, false, false]),
    ];
    for (parent, expected) in table {
        let runs = functions.map(|function| {
            let parent_step = match parent {
                "fails, accepted" => step("parent").continue_on_fail(),
                "is skipped" => step("parent").when(literal(false)),
                "makes no change" => step("parent").foreach(literal(Value::List(vec![]))),
                _ => step("parent"),
            };
            let child = step("child").needs(&["parent"]).when(status(function));
            // Something else lives, so that a skipped child does not end the flow.
            let mut scene = Scene::begin(vec![parent_step, child, step("other")], vec![]);
            match parent {
                "succeeds" => drop(scene.deliver("parent")),
                "fails" | "fails, accepted" => drop(scene.fail("parent")),
                _ => {}
            }
            scene.picture()[1] == "child: active"
        });
        assert_eq!(runs, expected, "{parent}");
    }
}

#[test]
fn without_a_status_function_a_condition_also_needs_accepted_parents() {
    let mut scene = Scene::begin(
        vec![
            step("a"),
            step("and_true").needs(&["a"]).when(literal(true)),
            step("with_status").needs(&["a"]).when(equal(read("steps.a.outcome"), literal("failed"))),
        ],
        vec![],
    );
    scene.fail("a");
    assert_eq!(scene.picture()[1..], ["and_true: skipped: `a` failed", "with_status: skipped: `a` failed"]);
}

#[test]
fn a_failure_under_continue_on_fail_is_accepted_and_does_not_fail_the_flow() {
    let mut scene = Scene::begin(vec![step("a").continue_on_fail(), step("b").needs(&["a"])], vec![]);
    assert_eq!(starts(&scene.fail("a")), ["b"]);
    scene.deliver("b");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
    assert_eq!(scene.picture(), ["a: failed: exit code 1", "b: succeeded"]);
}

#[test]
fn conditions_read_outputs_and_a_mistake_fails_the_step_by_name() {
    let table = [
        (equal(read("steps.a.output.verdict"), literal("pass")), "b: active"),
        (equal(read("steps.a.output.verdict"), literal("no")), "b: skipped: its `if` is false"),
        (
            read("steps.a.output.verdict"),
            "b: failed: an expression has no value: `if` needs true or false, and this is text",
        ),
        (
            read("steps.a.output.verdct"),
            "b: failed: an expression has no value: if: `steps.a.output` has no `verdct` (did you mean `verdict`? it \
             has: verdict)",
        ),
    ];
    for (condition, expected) in table {
        let mut scene = Scene::begin(vec![step("a"), step("b").needs(&["a"]).when(condition), step("c")], vec![]);
        scene.deliver_with("a", output([("verdict", Value::text("pass"))]));
        assert_eq!(scene.picture()[1], expected);
    }
}

#[test]
fn a_flow_is_not_over_while_a_branch_runs_and_another_is_skipped() {
    let mut scene =
        Scene::begin(vec![step("a"), step("off").when(literal(false)), step("last").needs(&["off"])], vec![]);
    assert_eq!(scene.outcome(), None);
    assert_eq!(scene.picture(), ["a: active", "off: skipped: its `if` is false", "last: skipped: `off` skipped"]);
    scene.lose("a", true);
    assert_eq!(scene.outcome(), None);
    scene.deliver("a");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn a_pipeline_whose_every_step_is_skipped_ends_at_once() {
    let scene = Scene::begin(vec![step("a").when(literal(false))], vec![]);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
    assert_eq!(scene.resident.wake_at(), None);
}
