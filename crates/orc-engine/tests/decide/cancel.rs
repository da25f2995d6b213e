//! Cancel in every phase, a second cancel, and what comes after.

use orc_domain::flow::FlowOutcome;
use orc_domain::input::Input;
use orc_domain::run::StopReason;
use orc_domain::time::Millis;
use orc_domain::transition::Transition;
use orc_testkit::fixture::{numbers, step};

use crate::scene::{GRACE, Scene, secs, starts, stops};

#[test]
fn a_cancel_ends_what_runs_and_starts_nothing() {
    let mut scene = Scene::begin(
        vec![step("a"), step("b").needs(&["a"]), step("c").retry(3, secs(40)), step("d").needs(&["c"])],
        vec![],
    );
    scene.fail("c");
    assert_eq!(stops(&scene.cancel()), [(StopReason::Cancel, GRACE)]);
    assert_eq!(scene.picture(), ["a: active", "b: cancelled", "c: cancelled", "d: cancelled"]);
    assert_eq!(scene.outcome(), None);
    scene.fail("a");
    assert_eq!(scene.picture()[0], "a: cancelled");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn a_result_that_came_before_the_signal_counts_but_nothing_follows_from_it() {
    let mut scene = Scene::begin(vec![step("a"), step("b").needs(&["a"])], vec![]);
    scene.cancel();
    assert_eq!(starts(&scene.deliver("a")), Vec::<String>::new());
    assert_eq!(scene.picture(), ["a: succeeded", "b: cancelled"]);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn a_cancel_that_is_not_confirmed_is_repeated_as_a_kill() {
    let mut scene = Scene::begin(vec![step("a")], vec![]);
    scene.started("a");
    scene.cancel();
    for _ in 0..5 {
        assert_eq!(stops(&scene.ring()), [(StopReason::Cancel, Millis::ZERO)]);
    }
    assert_eq!(scene.outcome(), None, "a run that may still live is not over");
    scene.lose("a", true);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn a_cancel_before_the_process_exists_ends_it_when_it_does() {
    let mut scene = Scene::begin(vec![step("a")], vec![]);
    assert_eq!(stops(&scene.cancel()), [(StopReason::Cancel, GRACE)]);
    assert_eq!(stops(&scene.started("a")), [(StopReason::Cancel, GRACE)]);
    scene.fail("a");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn finally_runs_after_a_cancel_with_its_retries() {
    let mut scene = Scene::begin(vec![step("a")], vec![step("f").retry(2, secs(1))]);
    scene.cancel();
    assert_eq!(starts(&scene.fail("a")), ["f"]);
    scene.fail("f");
    assert_eq!(starts(&scene.ring()), ["f"]);
    scene.deliver("f");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn a_second_cancel_kills_everything_and_finally_does_not_run() {
    let mut scene = Scene::begin(vec![step("a")], vec![step("f"), step("g").needs(&["f"])]);
    scene.started("a");
    scene.cancel();
    assert_eq!(stops(&scene.cancel()), [(StopReason::Cancel, Millis::ZERO)]);
    assert_eq!(scene.picture(), ["a: active", "f: cancelled", "g: cancelled"]);
    assert_eq!(scene.cancel().transitions, [Transition::FlowCancelRepeated]);
    scene.fail("a");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
    assert_eq!(scene.took(Transition::RunStopForced), 1);
}

#[test]
fn a_cancel_during_finally_lets_it_go_on_and_a_second_one_does_not() {
    let mut scene = Scene::begin(vec![step("a")], vec![step("f"), step("g").needs(&["f"])]);
    scene.deliver("a");
    assert_eq!(stops(&scene.cancel()), []);
    assert_eq!(starts(&scene.deliver("f")), ["g"]);
    assert_eq!(stops(&scene.cancel()), [(StopReason::Cancel, Millis::ZERO)]);
    scene.fail("g");
    assert_eq!(scene.picture(), ["a: succeeded", "f: succeeded", "g: cancelled"]);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn force_at_once_is_as_good_as_a_second_cancel() {
    let mut scene = Scene::begin(vec![step("a"), step("b").needs(&["a"])], vec![step("f")]);
    assert_eq!(stops(&scene.force()), [(StopReason::Cancel, Millis::ZERO)]);
    assert_eq!(scene.picture(), ["a: active", "b: cancelled", "f: cancelled"]);
    assert_eq!(scene.took(Transition::FlowForcedAtOnce), 1);
    scene.lose("a", true);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn a_flow_that_runs_nothing_ends_with_its_cancel() {
    let mut scene = Scene::begin(vec![step("a").retry(2, secs(40))], vec![]);
    scene.fail("a");
    scene.cancel();
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn a_cancel_while_elements_are_still_being_written_gives_up_the_rest() {
    let mut scene =
        Scene::begin(vec![step("fan").foreach(numbers(450)).limit(2), step("after").needs(&["fan"])], vec![]);
    assert_eq!(scene.picture()[0], "fan: 200 of 450 elements");
    scene.deliver("fan[0]");
    assert_eq!(scene.picture()[0], "fan: 400 of 450 elements");
    let decision = scene.cancel();
    assert_eq!(stops(&decision).len(), 2);
    assert_eq!(scene.picture()[..3], ["fan: 400 of 400 elements", "after: cancelled", "fan[0]: succeeded"]);
    scene.deliver("fan[1]");
    assert_eq!(scene.outcome(), None);
    scene.fail("fan[2]");
    assert_eq!(scene.picture()[0], "fan: cancelled");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
    assert_eq!(scene.flow().steps.len(), 402);
}

#[test]
fn a_fan_out_of_which_all_that_was_written_succeeded_is_still_cancelled() {
    let mut scene = Scene::begin(vec![step("fan").foreach(numbers(450))], vec![]);
    scene.deliver("fan[0]");
    assert_eq!(scene.picture()[0], "fan: 400 of 450 elements");
    scene.cancel();
    for element in 1..400 {
        scene.deliver(&format!("fan[{element}]"));
    }
    assert_eq!(scene.picture()[0], "fan: cancelled");
}

#[test]
fn final_is_final() {
    let mut scene = Scene::begin(vec![step("a")], vec![]);
    let run = scene.run("a");
    scene.deliver("a");
    let over = scene.flow().clone();
    let late =
        [Input::Alarm, Input::Cancel { force: true }, Input::RunLost { run, claimed: true, evidence: String::new() }];
    for input in late {
        let decision = scene.hear(input);
        assert_eq!((decision.changes, decision.transitions), (vec![], vec![Transition::FlowFinal]));
    }
    assert_eq!(scene.flow(), &over);
}
