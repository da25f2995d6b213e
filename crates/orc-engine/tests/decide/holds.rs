//! Pause and resume: of a flow, of a step, with an end or without, and of the children below.

use orc_domain::flow::FlowOutcome;
use orc_domain::hold::HoldReason;
use orc_domain::input::Input;
use orc_domain::request::Answer;
use orc_domain::transition::Transition;
use orc_testkit::fixture::{approval, child, numbers, pause, pipeline, repeat, step};

use crate::scene::{Scene, secs, starts, tells};

#[test]
fn nothing_of_a_held_flow_starts_and_what_runs_goes_on() {
    let mut scene = Scene::begin(vec![step("a"), step("b").needs(&["a"]), step("c").retry(2, secs(5))], vec![]);
    scene.hold(None, None);
    assert_eq!(starts(&scene.deliver("a")), Vec::<String>::new());
    scene.fail("c");
    assert!(scene.wait(secs(60)).effects.is_empty(), "also when a back-off is over");
    assert_eq!(scene.picture(), ["a: succeeded", "b: ready", "c: ready"]);
    assert_eq!(starts(&scene.lift(None)), ["b", "c"]);
}

#[test]
fn the_same_hold_twice_is_one_and_a_lift_of_nothing_changes_nothing() {
    let mut scene = Scene::begin(vec![step("a"), step("b").needs(&["a"])], vec![]);
    assert!(scene.lift(None).is_empty());
    scene.hold(None, None);
    assert!(scene.hold(None, None).is_empty());
    scene.lift(None);
    assert!(scene.lift(None).is_empty());
    assert!(scene.flow().head.holds.is_empty());
    assert!(scene.hold(Some("nowhere"), None).is_empty());
}

#[test]
fn a_hold_with_an_end_lifts_itself_and_one_without_does_not() {
    for sticky in [false, true] {
        let mut scene = Scene::begin(vec![step("a"), step("b").needs(&["a"])], vec![]);
        let until = scene.now + secs(100);
        scene.hold(None, (!sticky).then_some(until));
        scene.deliver("a");
        if sticky {
            assert!(scene.wait(secs(1_000_000)).is_empty());
        } else {
            assert_eq!(scene.resident.wake_at(), Some(until));
            assert_eq!(starts(&scene.ring()), ["b"]);
        }
    }
}

#[test]
fn a_held_step_holds_what_is_below_it_and_nothing_else() {
    let body = vec![step("x"), step("y").needs(&["x"])];
    let main = vec![repeat("r", 2, None, body).foreach(numbers(2)), step("b")];
    let mut scene = Scene::begin(main, vec![]);
    scene.hold(Some("r[0]"), None);
    assert_eq!(starts(&scene.deliver("r[0]~1/x")), Vec::<String>::new());
    assert_eq!(starts(&scene.deliver("r[1]~1/x")), ["r[1]~1/y"]);
    scene.hold(Some("r"), None);
    scene.deliver("r[1]~1/y");
    assert_eq!(scene.picture().last().unwrap(), "r[1]~2/y: blocked");
    scene.lift(Some("r"));
    assert_eq!(starts(&scene.last), ["r[1]~2/x"], "one of two holds is left on the other");
    assert_eq!(starts(&scene.lift(Some("r[0]"))), ["r[0]~1/y"]);
}

#[test]
fn answers_and_times_still_count_while_it_is_held() {
    let main = vec![approval("gate", &["lead"]), pause("w", "1m"), step("b").needs(&["gate", "w"])];
    let mut scene = Scene::begin(main, vec![]);
    scene.hold(None, None);
    scene.answer("gate", Answer::Approved, "lead");
    scene.wait(secs(60));
    assert_eq!(scene.picture(), ["gate: succeeded", "w: succeeded", "b: ready"]);
    assert_eq!(starts(&scene.lift(None)), ["b"]);
}

#[test]
fn a_held_flow_times_out_its_runs() {
    let mut scene = Scene::begin(vec![step("a").timeout(secs(60))], vec![]);
    scene.started("a");
    scene.hold(None, None);
    assert_eq!(scene.resident.wake_at(), Some(scene.now + secs(60)));
    scene.ring();
    assert_eq!(scene.took(Transition::RunTimeout), 1);
}

#[test]
fn children_are_held_with_their_parent_and_go_on_only_when_nothing_holds_them() {
    let inner = pipeline(vec![step("x")], vec![]);
    let mut scene = Scene::begin(vec![child("c", &inner), child("d", &inner)], vec![]);
    let (c, d) = (scene.child("c"), scene.child("d"));
    let held = |flow| {
        let reason = HoldReason::ParentHeld;
        (flow, Input::Hold { step: None, reason, note: String::new(), until: None })
    };
    let lifted = |flow| (flow, Input::Lift { step: None, reason: HoldReason::ParentHeld });
    assert_eq!(tells(&scene.hold(Some("c"), None)), [held(c)]);
    assert_eq!(tells(&scene.hold(None, None)), [held(c), held(d)]);
    assert_eq!(tells(&scene.lift(None)), [lifted(d)]);
    assert_eq!(tells(&scene.lift(Some("c"))), [lifted(c)]);
}

#[test]
fn a_cancel_ends_a_held_flow_and_its_finally_runs() {
    let mut scene = Scene::begin(vec![step("a"), step("b").needs(&["a"])], vec![step("f")]);
    scene.hold(None, None);
    scene.deliver("a");
    assert_eq!(starts(&scene.cancel()), ["f"]);
    assert!(scene.flow().head.holds.is_empty());
    scene.deliver("f");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn the_clock_of_finally_does_not_begin_while_the_flow_is_held() {
    let mut scene = Scene::begin(vec![step("a")], vec![step("f")]);
    scene.hold(None, None);
    scene.deliver("a");
    assert_eq!(scene.outcome(), None);
    scene.wait(secs(10_000));
    assert_eq!(scene.picture(), ["a: succeeded", "f: blocked"]);
    assert_eq!(starts(&scene.lift(None)), ["f"]);
    scene.deliver("f");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn a_held_flow_that_has_nothing_left_to_start_ends() {
    let mut scene = Scene::begin(vec![step("a")], vec![]);
    scene.hold(None, None);
    scene.deliver("a");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
    assert!(scene.flow().head.holds.is_empty());
}

#[test]
fn what_became_ready_under_a_hold_says_what_it_waits_for_once_it_is_lifted() {
    let mut scene = Scene::begin(vec![step("a"), step("b").needs(&["a"])], vec![]);
    scene.hold(None, None);
    scene.deliver("a");
    scene.slots = 0;
    scene.lift(None);
    assert_eq!(scene.picture()[1], "b: held by slot");
}

#[test]
fn a_back_off_that_was_over_under_a_hold_is_over_also_when_the_clock_jumps_back() {
    let mut scene = Scene::begin(vec![step("a").retry(2, secs(5))], vec![]);
    scene.hold(None, None);
    scene.fail("a");
    let begun = scene.now;
    scene.wait(secs(60));
    scene.now = begun;
    assert_eq!(starts(&scene.lift(None)), ["a"]);
}

#[test]
fn a_held_flow_whose_time_is_over_with_only_finally_left_does_not_ring_on() {
    let budget = orc_domain::budget::Budget { time: Some(secs(100)), ..orc_domain::budget::Budget::default() };
    let pipeline = pipeline(vec![step("a")], vec![step("f")]);
    let mut scene = Scene::begin_with(orc_domain::graph::Pipeline { budget: Some(budget), ..pipeline }, 10);
    scene.hold(None, None);
    scene.deliver("a");
    scene.wait(secs(200));
    assert!(scene.resident.wake_at() > Some(scene.now));
    assert_eq!(starts(&scene.lift(None)), ["f"]);
}
