//! Lost runs: recovery, runs that never began, quarantine, and steps that must not be repeated.

use orc_domain::effect::EffectKind;
use orc_domain::flow::FlowOutcome;
use orc_domain::transition::Transition;
use orc_engine::MAX_LOSSES;
use orc_testkit::fixture::{numbers, step};

use crate::scene::{Scene, secs, starts};

/// `ORC_WAKE_REASON` of the start in the last decision.
fn wake(scene: &Scene) -> String {
    let wake = scene.last.effects.iter().find_map(|effect| match &effect.kind {
        EffectKind::StartRun { command, .. } => command.env.get("ORC_WAKE_REASON").cloned(),
        _ => None,
    });
    wake.unwrap()
}

#[test]
fn a_lost_run_is_recovered_at_once_and_uses_up_no_retry() {
    let mut scene = Scene::begin(vec![step("a").retry(2, secs(40))], vec![]);
    let first = scene.run("a");
    scene.started("a");
    assert_eq!(starts(&scene.lose("a", true)), ["a"]);
    assert_ne!(scene.run("a"), first);
    assert_eq!(wake(&scene), "recovery");
    let step = scene.step("a");
    assert_eq!((step.attempts, step.failures, step.losses.total), (2, 0, 1));
    scene.fail("a");
    scene.ring();
    assert_eq!(wake(&scene), "pipelineStep");
    scene.fail("a");
    assert_eq!(scene.picture(), ["a: failed: exit code 1"]);
}

#[test]
fn a_run_that_never_began_counts_as_nothing() {
    let mut scene = Scene::begin(vec![step("a").not_idempotent()], vec![]);
    for _ in 0..10 {
        assert_eq!(starts(&scene.lose("a", false)), ["a"]);
    }
    let step = scene.step("a");
    assert_eq!((step.attempts, step.failures, step.losses.total), (11, 0, 0));
    assert_eq!(scene.took(Transition::StepNeverBegan), 10);
}

#[test]
fn a_recovery_that_never_began_is_still_a_recovery() {
    let mut scene = Scene::begin(vec![step("a")], vec![]);
    scene.lose("a", true);
    scene.lose("a", false);
    assert_eq!(wake(&scene), "recovery");
}

#[test]
fn a_step_that_loses_its_process_again_and_again_is_quarantined() {
    let mut scene = Scene::begin(vec![step("a").retry(10, secs(1))], vec![]);
    for _ in 1..MAX_LOSSES {
        assert_eq!(starts(&scene.lose("a", true)), ["a"]);
    }
    scene.lose("a", true);
    assert_eq!(
        scene.picture(),
        [
            "a: failed: quarantined: its process was lost 3 times in a row while nothing else got done: its instance ended"
        ]
    );
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn a_step_that_is_lost_while_others_get_on_is_not_to_blame() {
    let mut scene = Scene::begin(vec![step("a"), step("fan").foreach(numbers(8))], vec![]);
    for element in 0..8 {
        assert_eq!(starts(&scene.lose("a", true)), ["a"]);
        scene.deliver(&format!("fan[{element}]"));
    }
    assert_eq!((scene.step("a").losses.total, scene.step("a").losses.in_vain), (8, 1));
}

#[test]
fn a_step_that_must_not_be_repeated_fails_when_it_was_in_flight() {
    let mut scene = Scene::begin(vec![step("a").not_idempotent(), step("b").needs(&["a"])], vec![]);
    scene.started("a");
    assert_eq!(starts(&scene.lose("a", true)), Vec::<String>::new());
    assert_eq!(
        scene.picture(),
        [
            "a: failed: its process was lost while it ran, and it is `idempotent: false`: a person must decide: its \
             instance ended",
            "b: skipped: `a` failed",
        ]
    );
}

#[test]
fn all_runs_of_an_instance_are_recovered_and_what_was_done_stays_done() {
    let mut scene = Scene::begin(vec![step("fan").foreach(numbers(3)), step("b")], vec![]);
    scene.deliver("fan[1]");
    for path in ["fan[0]", "fan[2]", "b"] {
        assert_eq!(starts(&scene.lose(path, true)), [path]);
    }
    assert_eq!(
        scene.picture(),
        ["fan: 3 of 3 elements", "b: active", "fan[0]: active", "fan[1]: succeeded", "fan[2]: active"]
    );
    assert_eq!(scene.step("fan[1]").attempts, 1);
}

#[test]
fn a_lost_run_that_nobody_wants_any_more_is_cancelled() {
    let mut scene = Scene::begin(vec![step("a")], vec![]);
    scene.cancel();
    scene.lose("a", true);
    assert_eq!((scene.picture(), scene.outcome()), (vec!["a: cancelled".to_owned()], Some(FlowOutcome::Cancelled)));
    assert_eq!(scene.took(Transition::RunLostStopping), 1);
}

#[test]
fn a_run_that_was_ended_for_its_timeout_is_not_recovered_in_a_cancelled_flow() {
    for claimed in [true, false] {
        let mut scene = Scene::begin(vec![step("a").timeout(secs(60)).retry(5, secs(1))], vec![]);
        scene.started("a");
        scene.wait(secs(60));
        scene.cancel();
        assert_eq!(starts(&scene.lose("a", claimed)), Vec::<String>::new());
        assert_eq!(scene.picture(), ["a: cancelled"]);
        assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
    }
}

#[test]
fn a_lost_run_waits_for_a_slot_like_any_other() {
    let mut scene = Scene::begin(vec![step("a")], vec![]);
    scene.slots = 0;
    let decision = scene.lose("a", true);
    assert_eq!((decision.releases.len(), decision.claims.len()), (1, 0));
    assert_eq!(scene.picture(), ["a: held by slot"]);
    scene.slots = 1;
    assert_eq!(starts(&scene.ring()), ["a"]);
    assert_eq!(wake(&scene), "recovery");
}
