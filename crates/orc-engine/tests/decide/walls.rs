//! Walls: of a step's attempt, of a flow; raised, kept, lifted by nobody.

use orc_domain::budget::{Budget, OnExhausted, Wall};
use orc_domain::flow::FlowOutcome;
use orc_domain::graph::Pipeline;
use orc_domain::hold::HoldReason;
use orc_domain::input::{Ending, Input};
use orc_domain::request::Answer;
use orc_domain::run::StopReason;
use orc_domain::transition::Transition;
use orc_testkit::fixture::{agent, child, numbers, output, pipeline, step};

use crate::scene::{GRACE, Scene, exit, secs, starts, stops, tells};

fn calls(limit: u64, on_exhausted: OnExhausted) -> Budget {
    Budget { model_calls: Some(limit), on_exhausted, ..Budget::default() }
}

fn budgeted(budget: Budget) -> Scene {
    let steps = vec![agent("a", "coder"), agent("b", "coder").needs(&["a"]), step("c")];
    let pipeline = Pipeline { budget: Some(budget), ..pipeline(steps, vec![step("f")]) };
    Scene::begin_with(pipeline, 10)
}

fn done() -> Ending {
    Ending::Delivered { output: output([]) }
}

#[test]
fn a_wall_that_fails_ends_what_runs_and_finally_still_runs() {
    let mut scene = budgeted(calls(5, OnExhausted::Fail));
    scene.started("a");
    scene.heard("a", 4);
    assert_eq!(stops(&scene.heard("a", 5)), [(StopReason::Cancel, GRACE); 2]);
    scene.end("a", Ending::Failed(exit(1)));
    assert_eq!(starts(&scene.end("c", Ending::Failed(exit(1)))), ["f"]);
    scene.deliver("f");
    assert_eq!(scene.outcome(), Some(FlowOutcome::BudgetExhausted));
    assert_eq!(scene.flow().head.detail, "its budget of `model_calls` was reached: 5 of 5 calls of models are used");
}

#[test]
fn a_wall_that_waits_holds_the_flow_until_it_is_raised_by_what_it_was() {
    let mut scene = budgeted(calls(5, OnExhausted::Wait(secs(3600))));
    scene.started("a");
    assert_eq!(stops(&scene.heard("a", 6)), [], "what runs goes on");
    assert!(scene.heard("a", 7).events.is_empty(), "the wall is reached once");
    assert_eq!(starts(&scene.end_after("a", done(), 8)), Vec::<String>::new());
    assert_eq!(scene.picture(), ["a: succeeded", "b: ready", "c: active", "f: blocked"]);
    assert_eq!(starts(&scene.answer("", Answer::Approved, "admin")), ["b"]);
    assert_eq!((scene.flow().head.raised, scene.flow().head.holds.len()), (2, 0));
    scene.started("b");
    scene.heard("b", 2);
    assert_eq!(scene.took(Transition::FlowWallWaits), 2, "ten calls are the second wall");
    scene.answer("", Answer::Approved, "admin");
    assert_eq!(scene.flow().head.raised, 3);
}

#[test]
fn a_wall_that_nobody_raises_ends_the_flow() {
    for by_hand in [true, false] {
        let mut scene = budgeted(calls(5, OnExhausted::Wait(secs(600))));
        scene.started("a");
        scene.heard("a", 5);
        scene.deliver("c");
        let request = scene.request("").id;
        if by_hand {
            scene.answer("", Answer::Denied, "admin");
        } else {
            while scene.took(Transition::FlowWallKept) == 0 {
                scene.ring();
            }
        }
        assert!(scene.answer_to(request, Answer::Approved, "admin").is_empty(), "a no stays a no");
        assert_eq!(starts(&scene.end("a", Ending::Failed(exit(1)))), ["f"]);
        scene.deliver("f");
        assert_eq!(scene.outcome(), Some(FlowOutcome::BudgetExhausted));
    }
}

#[test]
fn a_hold_of_a_wall_is_placed_and_lifted_by_the_wall_alone() {
    let mut scene = budgeted(calls(5, OnExhausted::Wait(secs(600))));
    let wall = HoldReason::Wall(Wall::ModelCalls);
    assert!(scene.hear(Input::Hold { step: None, reason: wall, note: String::new(), until: None }).is_empty());
    scene.heard("a", 5);
    assert!(scene.hear(Input::Lift { step: None, reason: wall }).is_empty());
    scene.answer("", Answer::Approved, "admin");
    assert_eq!(scene.flow().head.raised, 2);
}

#[test]
fn a_cancel_at_the_wall_withdraws_the_request_and_finally_runs() {
    let mut scene = budgeted(calls(5, OnExhausted::Wait(secs(600))));
    scene.heard("a", 5);
    scene.deliver("c");
    scene.cancel();
    assert_eq!((scene.flow().requests.len(), scene.flow().head.holds.len()), (0, 0));
    assert_eq!(starts(&scene.fail("a")), ["f"]);
}

#[test]
fn a_pause_and_a_wall_hold_each_for_themselves() {
    let inner = pipeline(vec![step("x")], vec![]);
    let steps = vec![agent("a", "coder"), child("c", &inner), step("b").needs(&["a"])];
    let budget = Some(calls(5, OnExhausted::Wait(secs(600))));
    let mut scene = Scene::begin_with(Pipeline { budget, ..pipeline(steps, vec![]) }, 10);
    let flow = scene.child("c");
    scene.hold(None, None);
    scene.heard("a", 5);
    let lift = Input::Lift { step: None, reason: HoldReason::ParentHeld };
    assert_eq!(tells(&scene.lift(None)), [(flow, lift)], "the wall of the parent is not the child's");
    scene.deliver("a");
    assert_eq!(scene.picture()[2], "b: ready");
    assert_eq!(starts(&scene.answer("", Answer::Approved, "admin")), ["b"]);
}

#[test]
fn a_flow_that_reached_its_wall_with_its_last_step_has_done_its_work() {
    for on_exhausted in [OnExhausted::Fail, OnExhausted::Wait(secs(600))] {
        let steps = vec![agent("a", "coder").foreach(numbers(1))];
        let budget = Some(calls(5, on_exhausted));
        let mut scene = Scene::begin_with(Pipeline { budget, ..pipeline(steps, vec![]) }, 10);
        scene.end_after("a[0]", done(), 9);
        assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
    }
}

#[test]
fn the_time_of_a_flow_is_a_wall_and_begins_anew_when_it_is_raised() {
    let time = Budget { time: Some(secs(100)), on_exhausted: OnExhausted::Wait(secs(50)), ..Budget::default() };
    let mut scene = budgeted(time);
    scene.started("a");
    scene.started("c");
    let begun = scene.now;
    scene.ring();
    assert_eq!(scene.took(Transition::FlowWallWaits), 1);
    scene.now = begun;
    assert!(scene.wait(secs(0)).is_empty(), "a clock that jumps back reaches nothing again");
    scene.now = begun + secs(120);
    scene.answer("", Answer::Approved, "admin");
    assert_eq!(scene.flow().head.time_over, Some(begun + secs(220)));
    scene.ring();
    assert_eq!(scene.took(Transition::FlowWallWaits), 2);
    scene.ring();
    assert_eq!(scene.took(Transition::FlowWallKept), 1);
}

#[test]
fn a_step_at_its_wall_fails_and_is_not_tried_again() {
    let budget = calls(3, OnExhausted::Fail);
    let mut scene = Scene::begin(vec![agent("a", "coder").budget(budget).retry(3, secs(1))], vec![]);
    scene.started("a");
    assert_eq!(stops(&scene.heard("a", 3)), [(StopReason::Wall(Wall::ModelCalls), GRACE)]);
    assert_eq!(stops(&scene.heard("a", 4)), []);
    scene.end_after("a", Ending::Failed(exit(143)), 4);
    assert_eq!(
        scene.picture(),
        ["a: failed: its budget of `model_calls` was reached: 3 of 3 calls of models are used"]
    );
    assert_eq!(scene.flow().head.usage.calls, 4);
    let time = Budget { time: Some(secs(30)), ..Budget::default() };
    let mut scene = Scene::begin(vec![step("a").budget(time).retry(3, secs(1))], vec![]);
    scene.started("a");
    scene.wait(secs(30));
    scene.fail("a");
    assert_eq!(scene.picture(), ["a: failed: its budget of `time` was reached"]);
}

#[test]
fn counts_that_go_back_are_not_believed() {
    let mut scene = budgeted(calls(100, OnExhausted::Fail));
    scene.started("a");
    for (told, used) in [(5, 5), (3, 5), (5, 5), (9, 9)] {
        scene.heard("a", told);
        assert_eq!(scene.flow().head.usage.calls, used);
    }
    scene.end_after("a", done(), 7);
    assert_eq!(scene.flow().head.usage.calls, 9);
}
