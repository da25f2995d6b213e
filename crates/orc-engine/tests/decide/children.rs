//! Child flows: started once for each attempt, asked for when nothing is heard, ended with their parent.

use orc_domain::flow::{FlowOutcome, StepState};
use orc_domain::graph::Pipeline;
use orc_domain::hold::HoldReason;
use orc_domain::input::Input;
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_domain::wait::Wait;
use orc_engine::child_id;
use orc_testkit::fixture::{child, numbers, output, pipeline, read, step};

use crate::scene::{Scene, children, ended, secs, tells};

fn inner() -> Pipeline {
    let mut inner = pipeline(vec![step("x")], vec![]);
    inner.outputs.insert("n".to_owned(), read("steps.x.output.n"));
    inner
}

#[test]
fn a_child_is_started_with_its_inputs_and_hands_its_outputs_over() {
    let main = vec![
        step("a"),
        child("c", &inner()).needs(&["a"]).with("parts", read("steps.a.output.parts")).priority(3),
        step("b").needs(&["c"]).env("N", read("steps.c.output.n")),
    ];
    let mut scene = Scene::begin(main, vec![]);
    let decision = scene.deliver_with("a", output([("parts", Value::Int(7))]));
    let [spec] = children(&decision).try_into().unwrap();
    let path = scene.step("c").path.clone();
    assert_eq!(spec.id, child_id(scene.flow().spec.id, &path, 1));
    assert_eq!((spec.inputs["parts"].clone(), spec.priority), (Value::Int(7), 3));
    assert_eq!(spec.parent.map(|parent| (parent.flow, parent.path)), Some((scene.flow().spec.id, path)));
    assert_eq!(decision.claims, [], "it holds no slot");
    assert_eq!(scene.picture(), ["a: succeeded", "c: waits for flow", "b: blocked"]);
    let (flow, given) = (scene.child("c"), Some(output([("n", Value::Int(9))])));
    let ended = ended(flow, FlowOutcome::Succeeded, given.clone());
    scene.hear(ended.clone());
    assert_eq!(scene.step("c").output, given);
    assert_eq!(scene.picture()[2], "b: active");
    let twice = scene.hear(ended);
    assert_eq!((twice.changes, twice.transitions), (vec![], vec![Transition::ChildStray]));
}

#[test]
fn every_end_of_a_child_is_an_end_of_its_step() {
    let table = [
        (FlowOutcome::Succeeded, "c: succeeded"),
        (FlowOutcome::Failed, "c: failed: the child flow ended failed"),
        (FlowOutcome::Cancelled, "c: failed: the child flow ended cancelled"),
        (FlowOutcome::BudgetExhausted, "c: failed: the child flow ended budget_exhausted"),
    ];
    for (outcome, picture) in table {
        let mut scene = Scene::begin(vec![child("c", &inner())], vec![]);
        scene.child_ended("c", outcome);
        assert_eq!(scene.picture(), [picture]);
        assert!(scene.outcome().is_some());
    }
}

#[test]
fn a_failed_child_is_tried_again_as_another_flow_and_a_cancelled_one_is_not() {
    let mut scene = Scene::begin(vec![child("c", &inner()).retry(2, secs(1))], vec![]);
    let first = scene.child("c");
    scene.child_ended("c", FlowOutcome::Failed);
    assert_eq!(scene.picture(), ["c: ready"]);
    scene.ring();
    assert_ne!(scene.child("c"), first);
    let stale = ended(first, FlowOutcome::Succeeded, None);
    assert_eq!(scene.hear(stale).transitions, [Transition::ChildStray], "the end of an earlier attempt");
    scene.child_ended("c", FlowOutcome::Cancelled);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn a_child_that_is_not_heard_of_is_asked_for_again_and_never_given_up() {
    let mut scene = Scene::begin(vec![child("c", &inner())], vec![]);
    let first = children(&scene.last);
    for _ in 0..3 {
        assert_eq!(scene.resident.wake_at(), Some(scene.now + secs(600)));
        assert_eq!(children(&scene.ring()), first, "the same start, so that it is one flow");
    }
    assert_eq!(scene.took(Transition::ChildAgain), 3);
}

#[test]
fn a_cancel_reaches_the_child_a_second_forces_it_and_neither_ends_the_step() {
    let mut scene = Scene::begin(vec![child("c", &inner())], vec![step("f")]);
    let flow = scene.child("c");
    assert_eq!(tells(&scene.cancel()), [(flow, Input::End { force: false })]);
    assert_eq!(scene.picture(), ["c: waits for flow", "f: blocked"]);
    let again = scene.ring();
    assert!(tells(&again).contains(&(flow, Input::End { force: false })), "{again:?}");
    assert_eq!(tells(&scene.cancel()), [(flow, Input::End { force: true })]);
    assert_eq!(tells(&scene.cancel()), []);
    scene.child_ended("c", FlowOutcome::Cancelled);
    assert_eq!(scene.picture(), ["c: cancelled", "f: cancelled"]);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn a_child_that_succeeded_before_it_heard_of_the_cancel_has_succeeded() {
    let mut scene = Scene::begin(vec![child("c", &inner()), step("d").needs(&["c"])], vec![]);
    scene.cancel();
    scene.child_ended("c", FlowOutcome::Succeeded);
    assert_eq!(scene.picture(), ["c: succeeded", "d: cancelled"]);
}

#[test]
fn fail_fast_ends_the_children_of_siblings() {
    let main = vec![child("c", &inner()).foreach(numbers(3)).fail_fast()];
    let mut scene = Scene::begin(main, vec![]);
    let [first, last] = [scene.child("c[0]"), scene.child("c[2]")];
    let decision = scene.child_ended("c[1]", FlowOutcome::Failed);
    assert_eq!(tells(&decision), [last, first].map(|flow| (flow, Input::End { force: false })));
    scene.child_ended("c[0]", FlowOutcome::Cancelled);
    scene.child_ended("c[2]", FlowOutcome::Succeeded);
    assert_eq!(
        scene.picture()[1..],
        ["c[0]: cancelled", "c[1]: failed: the child flow ended failed", "c[2]: succeeded"]
    );
}

#[test]
fn a_child_tells_its_parent_its_end_once() {
    let inner = inner();
    let mut parent = Scene::begin(vec![child("c", &inner)], vec![]);
    let [spec] = children(&parent.last).try_into().unwrap();
    let mut scene = Scene::begin_spec(spec, inner, 10);
    let decision = scene.deliver_with("x", output([("n", Value::Int(1))]));
    let [(flow, ended)] = tells(&decision).try_into().unwrap();
    assert_eq!(flow, parent.flow().spec.id);
    parent.hear(ended);
    assert_eq!(parent.outcome(), Some(FlowOutcome::Succeeded));
    assert_eq!(scene.hear(Input::End { force: false }).effects, []);
}

#[test]
fn an_end_that_another_flow_wants_means_the_same_however_often_it_is_heard() {
    let mut scene = Scene::begin(vec![step("a")], vec![step("f")]);
    scene.hear(Input::End { force: false });
    assert_eq!(scene.hear(Input::End { force: false }).transitions, [Transition::FlowCancelRepeated]);
    scene.fail("a");
    assert_eq!(scene.picture()[1], "f: active", "`finally` runs as after one cancel");
    scene.hear(Input::End { force: true });
    scene.fail("f");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn a_child_that_missed_that_its_parent_goes_on_hears_it_again() {
    let mut scene = Scene::begin(vec![child("c", &inner())], vec![]);
    let flow = scene.child("c");
    scene.hold(None, None);
    let held = |decision| tells(decision).into_iter().filter(|(_, input)| matches!(input, Input::Hold { .. })).count();
    assert_eq!(held(&scene.ring()), 1);
    scene.lift(None);
    let lift = Input::Lift { step: None, reason: HoldReason::ParentHeld };
    assert_eq!(tells(&scene.ring()), [(flow, lift)]);
}

#[test]
fn a_start_whose_inputs_have_no_value_fails_the_step_and_starts_nothing() {
    let scene = Scene::begin(vec![child("c", &inner()).with("x", read("steps.nowhere.output"))], vec![]);
    assert_eq!(children(&scene.last), []);
    assert!(scene.picture()[0].starts_with("c: failed: an expression has no value: with.x: "), "{:?}", scene.picture());
}

#[test]
fn the_clock_of_a_waiting_parent_that_jumps_back_asks_for_nothing_twice() {
    let mut scene = Scene::begin(vec![child("c", &inner())], vec![]);
    let begun = scene.now;
    scene.wait(secs(600));
    scene.now = begun;
    assert_eq!(scene.wait(secs(0)).effects, []);
    let StepState::Waiting(Wait::Flow { look_at, .. }) = scene.step("c").state else { panic!() };
    assert_eq!(look_at, begun + secs(1200));
}
