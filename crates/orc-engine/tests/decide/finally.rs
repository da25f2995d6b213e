//! `finally`: after every end of the main part, with its own conditions and its own deadline.

use orc_domain::expr::StatusFn;
use orc_domain::flow::FlowOutcome;
use orc_domain::graph::FINALLY_DEADLINE;
use orc_domain::run::StopReason;
use orc_domain::time::Millis;
use orc_domain::transition::Transition;
use orc_testkit::fixture::{equal, literal, read, status, step};

use crate::scene::{GRACE, Scene, secs, starts, stops};

#[test]
fn finally_runs_after_success_failure_and_cancel_and_does_not_change_the_outcome() {
    let table = [
        ("succeeds", FlowOutcome::Succeeded),
        ("fails", FlowOutcome::Failed),
        ("is cancelled", FlowOutcome::Cancelled),
    ];
    for (main, outcome) in table {
        let mut scene = Scene::begin(vec![step("a"), step("b").needs(&["a"])], vec![step("f")]);
        let decision = match main {
            "succeeds" => {
                scene.deliver("a");
                scene.deliver("b")
            }
            "fails" => scene.fail("a"),
            _ => {
                scene.cancel();
                scene.fail("a")
            }
        };
        assert_eq!(starts(&decision), ["f"], "{main}");
        scene.deliver("f");
        assert_eq!(scene.outcome(), Some(outcome), "{main}");
    }
}

#[test]
fn conditions_in_finally_look_at_the_main_part() {
    // Which of `success()`, `failure()`, `cancelled()`, `always()` runs.
    let table = [("succeeds", "f_success"), ("fails", "f_failure"), ("is cancelled", "f_cancelled")];
    for (main, expected) in table {
        let finally = [
            ("f_success", StatusFn::Success),
            ("f_failure", StatusFn::Failure),
            ("f_cancelled", StatusFn::Cancelled),
            ("f_always", StatusFn::Always),
        ];
        let finally = finally.map(|(key, function)| step(key).when(status(function)));
        let mut scene = Scene::begin(vec![step("a")], finally.to_vec());
        let decision = match main {
            "succeeds" => scene.deliver("a"),
            "fails" => scene.fail("a"),
            _ => {
                scene.cancel();
                scene.fail("a")
            }
        };
        assert_eq!(starts(&decision), [expected, "f_always"], "{main}");
    }
}

#[test]
fn finally_reads_the_outcome_of_the_flow() {
    let condition = equal(read("flow.outcome"), literal("failed"));
    let mut scene = Scene::begin(vec![step("a")], vec![step("f").when(condition).env("SUMMARY", read("flow.summary"))]);
    let decision = scene.fail("a");
    assert_eq!(starts(&decision), ["f"]);
    let orc_domain::effect::EffectKind::StartRun { command, .. } = &decision.effects[0].kind else {
        panic!("{decision:?}");
    };
    assert_eq!(command.env["SUMMARY"], "a: failed: exit code 1");
}

#[test]
fn a_failure_in_finally_fails_the_flow_and_skips_what_needs_it() {
    let mut scene = Scene::begin(vec![step("a")], vec![step("f"), step("g").needs(&["f"]), step("h")]);
    scene.deliver("a");
    scene.fail("f");
    scene.deliver("h");
    assert_eq!(scene.picture(), ["a: succeeded", "f: failed: exit code 1", "g: skipped: `f` failed", "h: succeeded"]);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn what_is_left_of_finally_at_its_deadline_is_ended() {
    let mut scene =
        Scene::begin(vec![step("a")], vec![step("f"), step("g").needs(&["f"]), step("h").retry(9, secs(3600))]);
    scene.deliver("a");
    scene.started("f");
    scene.fail("h");
    assert_eq!(scene.resident.wake_at(), Some(scene.now + FINALLY_DEADLINE));
    assert_eq!(stops(&scene.ring()), [(StopReason::FinallyDeadline, GRACE)]);
    assert_eq!(scene.picture(), ["a: succeeded", "f: active", "g: cancelled", "h: cancelled"]);
    assert_eq!(stops(&scene.ring()), [(StopReason::FinallyDeadline, Millis::ZERO)]);
    scene.fail("f");
    assert_eq!(scene.picture()[1], "f: cancelled");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    assert_eq!(scene.took(Transition::FlowFinallyDeadline), 1);
}

#[test]
fn a_finally_that_overran_has_failed_also_when_its_last_run_was_already_asked_to_end() {
    for lost in [false, true] {
        let mut scene = Scene::begin(vec![step("a")], vec![step("f").timeout(secs(880)).retry(5, secs(1))]);
        scene.deliver("a");
        scene.started("f");
        scene.wait(secs(880));
        assert_eq!(scene.took(Transition::RunTimeout), 1);
        scene.wait(secs(20));
        let decision = if lost { scene.lose("f", true) } else { scene.fail("f") };
        assert_eq!(starts(&decision), Vec::<String>::new());
        assert_eq!(scene.picture()[1], "f: cancelled");
        assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    }
}

#[test]
fn a_pipeline_of_skipped_steps_still_runs_finally() {
    let scene = Scene::begin(vec![step("a").when(literal(false))], vec![step("f")]);
    assert_eq!(starts(&scene.last), ["f"]);
}

#[test]
fn a_lost_run_in_finally_is_recovered_after_a_cancel_and_not_after_a_second() {
    let mut scene = Scene::begin(vec![step("a")], vec![step("f")]);
    scene.cancel();
    scene.fail("a");
    assert_eq!(starts(&scene.lose("f", true)), ["f"]);
    scene.cancel();
    assert_eq!(starts(&scene.lose("f", true)), Vec::<String>::new());
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}
