//! Retry of a flow from a step, and of the children below it.

use orc_domain::flow::{FlowOutcome, FlowSpec};
use orc_domain::value::Value;
use orc_engine::{Again, ForkError, New, fork};
use orc_testkit::fixture::{StepFixture, child, flow_id, literal, numbers, output, pipeline, repeat, step};

use crate::scene::{Scene, children, starts};

fn again(scene: &Scene, number: u32, from: &str) -> Result<FlowSpec, ForkError> {
    let new = New { id: flow_id(number), by: scene.by.clone(), now: scene.now };
    let again = if from.is_empty() { Again::Unfinished } else { Again::From(from.to_owned()) };
    fork(scene.flow(), scene.resident.pipeline(), &again, new)
}

fn retry(scene: &Scene, number: u32, from: &str) -> Scene {
    let spec = again(scene, number, from).unwrap();
    Scene::begin_spec(spec, (**scene.resident.pipeline()).clone(), 1_000)
}

fn kept(spec: &FlowSpec) -> Vec<String> {
    spec.taken_over.keys().map(ToString::to_string).collect()
}

fn line() -> Vec<StepFixture> {
    vec![step("a"), step("b").needs(&["a"]), step("c").needs(&["b"]), step("d")]
}

#[test]
fn a_retry_from_a_step_runs_it_and_what_depends_on_it_and_nothing_else() {
    let mut scene = Scene::begin(line(), vec![step("f")]);
    for key in ["a", "b", "c", "d", "f"] {
        scene.deliver_with(key, output([("n", Value::text(key))]));
    }
    assert_eq!(again(&scene, 2, "").unwrap_err(), ForkError::Nothing(flow_id(1)));
    let next = retry(&scene, 2, "b");
    assert_eq!(kept(&next.flow().spec), ["a", "d"]);
    assert_eq!(starts(&next.last), ["b"]);
    assert_eq!(next.step("a").output, Some(output([("n", Value::text("a"))])));
    assert_eq!(next.picture(), ["a: succeeded", "b: active", "c: blocked", "d: succeeded", "f: blocked"]);
}

#[test]
fn a_retry_from_a_step_runs_also_what_failed_elsewhere() {
    let mut scene = Scene::begin(line(), vec![]);
    for key in ["a", "b", "c"] {
        scene.deliver(key);
    }
    scene.fail("d");
    assert_eq!(starts(&retry(&scene, 2, "c").last), ["c", "d"]);
}

#[test]
fn a_step_that_is_not_there_is_refused_with_a_hint_and_so_is_a_live_flow() {
    let mut scene = Scene::begin(vec![step("build"), repeat("check", 1, None, vec![step("test")])], vec![]);
    assert_eq!(again(&scene, 2, "build").unwrap_err(), ForkError::Live(flow_id(1)));
    scene.deliver("build");
    scene.deliver("check~1/test");
    let error = again(&scene, 2, "biuld").unwrap_err().to_string();
    assert!(error.contains("has no step `biuld`") && error.contains("build"), "{error}");
    assert!(matches!(again(&scene, 2, "test"), Err(ForkError::NoStep { .. })), "a body is not entered from outside");
}

#[test]
fn a_retry_counts_neither_skipped_nor_failed_nor_cancelled_as_done() {
    let main =
        vec![step("a"), step("b").needs(&["a"]), step("c").when(literal(false)), step("d").needs(&["c"]), step("e")];
    let mut scene = Scene::begin(main, vec![]);
    scene.fail("a");
    scene.deliver("e");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    let next = retry(&scene, 2, "");
    assert_eq!(kept(&next.flow().spec), ["e"]);
    let expected =
        ["a: active", "b: blocked", "c: skipped: its `if` is false", "d: skipped: `c` skipped", "e: succeeded"];
    assert_eq!(next.picture(), expected);
}

#[test]
fn a_named_fan_out_begins_anew_and_a_failed_one_keeps_its_elements() {
    let main = || vec![step("fan").foreach(numbers(3)), step("b").needs(&["fan"])];
    let mut scene = Scene::begin(main(), vec![]);
    scene.deliver("fan[0]");
    scene.fail("fan[1]");
    scene.deliver("fan[2]");
    assert_eq!(starts(&retry(&scene, 2, "").last), ["fan[1]"]);
    assert_eq!(starts(&retry(&scene, 2, "fan").last), ["fan[0]", "fan[1]", "fan[2]"]);
}

#[test]
fn elements_that_a_cancelled_retry_did_not_write_are_stale_when_the_fan_out_is_named() {
    let main = vec![step("g"), step("fan").needs(&["g"]).foreach(numbers(2))];
    let mut first = Scene::begin(main, vec![]);
    first.deliver("g");
    first.deliver("fan[0]");
    first.fail("fan[1]");
    // The retry is cancelled before it gets to its elements.
    let spec = again(&first, 2, "").unwrap();
    let mut second = Scene::begin_spec(spec, (**first.resident.pipeline()).clone(), 0);
    second.cancel();
    assert_eq!(second.outcome(), Some(FlowOutcome::Cancelled));
    assert_eq!(kept(&again(&second, 3, "fan").unwrap()), ["g"]);
}

#[test]
fn rounds_begin_again_unless_all_of_them_succeeded() {
    let main = vec![repeat("r", 2, None, vec![step("x"), step("y").needs(&["x"])]), step("z")];
    let mut scene = Scene::begin(main, vec![]);
    scene.deliver("z");
    scene.deliver("r~1/x");
    scene.deliver("r~1/y");
    scene.fail("r~2/x");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    let mut next = retry(&scene, 2, "");
    assert_eq!(starts(&next.last), ["r~1/x"]);
    for path in ["r~1/x", "r~1/y", "r~2/x", "r~2/y"] {
        next.deliver(path);
    }
    assert_eq!(kept(&again(&next, 3, "z").unwrap()), ["r"]);
}

#[test]
fn a_child_that_did_not_succeed_is_carried_on_unless_its_step_is_named_or_its_inputs_may_differ() {
    let inner = pipeline(vec![step("x"), step("y")], vec![]);
    let main = vec![step("a"), child("c", &inner).needs(&["a"])];
    let mut scene = Scene::begin(main, vec![]);
    scene.deliver("a");
    let first = scene.child("c");
    scene.child_ended("c", FlowOutcome::Failed);
    let [carried] = children(&retry(&scene, 2, "").last).try_into().unwrap();
    assert_eq!(carried.retry_of, Some(first));
    for from in ["a", "c"] {
        let mut next = retry(&scene, 2, from);
        if from == "a" {
            next.deliver("a");
        }
        let [fresh] = children(&next.last).try_into().unwrap();
        assert_eq!(fresh.retry_of, None, "from {from}");
    }
}
