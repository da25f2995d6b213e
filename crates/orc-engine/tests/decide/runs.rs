//! One run: its command, its ids, its timeout, its end, and answers that come late or twice.

use orc_domain::effect::{Change, Effect, EffectKind};
use orc_domain::event::Fact;
use orc_domain::ids::{EffectId, RunId};
use orc_domain::input::{Ending, Input};
use orc_domain::run::{ErrorFamily, RunOutcome, RunState, StopReason};
use orc_domain::time::Millis;
use orc_domain::transition::Transition;
use orc_domain::tree::Place;
use orc_domain::value::Value;
use orc_testkit::fixture::{flow_id, literal, read, step};

use crate::scene::{GRACE, Scene, process, secs, stops};

#[test]
fn a_start_carries_everything_and_its_ids_follow_from_flow_path_and_attempt() {
    let scene = Scene::begin(vec![step("a").env("NAME", literal("x y"))], vec![]);
    let run = RunId::derived(flow_id(1).uuid(), "a#1");
    let [Effect { id, kind }] = scene.last.effects.as_slice() else {
        panic!("{:?}", scene.last.effects);
    };
    assert_eq!(*id, EffectId::derived(run.uuid(), "start@0"));
    let EffectKind::StartRun { run: started, command } = kind else {
        panic!("{kind:?}");
    };
    assert_eq!(*started, run);
    assert_eq!(command.argv, ["sh", "-eu", "-c", "true"]);
    assert_eq!(command.place, Place::InPlace { directory: "/checkout".to_owned() });
    assert_eq!((command.path.as_str(), command.attempt), ("a", 1));
    let env: Vec<(&str, &str)> = command.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (flow, run, workspace) = (flow_id(1).to_string(), run.to_string(), scene.flow().spec.workspace.to_string());
    assert_eq!(
        env,
        [
            ("NAME", "x y"),
            ("ORC_ATTEMPT", "1"),
            ("ORC_FLOW_ID", &flow),
            ("ORC_RUN_ID", &run),
            ("ORC_STEP", "a"),
            ("ORC_WAKE_REASON", "pipelineStep"),
            ("ORC_WORKSPACE_ID", &workspace),
        ]
    );
}

#[test]
fn an_expression_without_a_value_fails_the_step_before_anything_starts() {
    let table = [
        (read("steps.nowhere.output"), "env.X: `steps` has no `nowhere` (it has: a)"),
        (literal("nul \0 byte"), "the value of `X` contains a NUL byte, which no environment variable can carry"),
    ];
    for (expr, text) in table {
        let scene = Scene::begin(vec![step("a").env("X", expr)], vec![]);
        assert_eq!(scene.picture(), [format!("a: failed: an expression has no value: {text}")]);
        assert_eq!(scene.last.effects, []);
        assert_eq!(scene.took(Transition::StepStartError), 1);
    }
    let long = Value::text("x".repeat(120 * 1024 + 1));
    let scene = Scene::begin(vec![step("a").env("X", literal(long))], vec![]);
    assert!(scene.picture()[0].ends_with("the value of `X` has 122881 bytes, an environment variable takes 122880"));
}

#[test]
fn a_run_that_takes_too_long_is_asked_then_told_to_end_and_fails_with_its_timeout() {
    let mut scene = Scene::begin(vec![step("a").timeout(secs(60))], vec![]);
    scene.wait(secs(5));
    scene.started("a");
    assert_eq!(scene.resident.wake_at(), Some(scene.now + secs(60)));
    assert_eq!(scene.wait(Millis::from_millis(59_999)).changes, []);
    assert_eq!(stops(&scene.wait(Millis::from_millis(1))), [(StopReason::Timeout, GRACE)]);
    // Ten seconds of grace and thirty to show it; then again, harder, until the end is confirmed.
    assert_eq!(scene.resident.wake_at(), Some(scene.now + secs(40)));
    for _ in 0..3 {
        assert_eq!(stops(&scene.ring()), [(StopReason::Timeout, Millis::ZERO)]);
        assert_eq!(scene.resident.wake_at(), Some(scene.now + secs(30)));
    }
    scene.fail("a");
    assert_eq!(scene.picture(), ["a: failed: took longer than its timeout of 1m"]);
    assert_eq!(scene.took(Transition::RunStopAgain), 3);
}

#[test]
fn effects_of_one_run_have_distinct_ids() {
    let mut scene = Scene::begin(vec![step("a").timeout(secs(60))], vec![]);
    let mut ids: Vec<EffectId> = scene.last.effects.iter().map(|effect| effect.id).collect();
    scene.started("a");
    for _ in 0..4 {
        ids.extend(scene.ring().effects.iter().map(|effect| effect.id));
    }
    ids.extend(scene.cancel().effects.iter().map(|effect| effect.id));
    ids.extend(scene.force().effects.iter().map(|effect| effect.id));
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), all), (5, 5));
}

#[test]
fn a_run_whose_start_is_not_confirmed_is_given_up_and_tried_again() {
    let mut scene = Scene::begin(vec![step("a").retry(2, secs(1))], vec![]);
    assert_eq!(scene.resident.wake_at(), Some(scene.now + secs(60)));
    assert_eq!(stops(&scene.ring()), [(StopReason::StartDeadline, Millis::ZERO)]);
    // The start comes after all: it is ended again, now that there is something to end.
    assert_eq!(stops(&scene.started("a")), [(StopReason::StartDeadline, Millis::ZERO)]);
    assert_eq!(scene.took(Transition::RunStartedStopping), 1);
    scene.fail("a");
    assert_eq!(scene.picture(), ["a: ready"]);
}

#[test]
fn a_result_that_comes_after_a_stop_counts() {
    let mut scene = Scene::begin(vec![step("a").timeout(secs(60))], vec![]);
    scene.started("a");
    scene.wait(secs(60));
    scene.deliver("a");
    assert_eq!(scene.picture(), ["a: succeeded"]);
}

#[test]
fn an_end_may_come_before_its_start_and_the_start_changes_nothing_then() {
    let mut scene = Scene::begin(vec![step("a"), step("b")], vec![]);
    let run = scene.run("a");
    scene.deliver("a");
    let late = scene.hear(Input::RunStarted { run, process: process() });
    assert_eq!((late.changes, late.transitions), (vec![], vec![Transition::RunFenced]));
}

#[test]
fn answers_that_come_twice_change_nothing() {
    let mut scene = Scene::begin(vec![step("a").retry(3, secs(1)), step("b")], vec![]);
    let run = scene.run("a");
    scene.started("a");
    let again = scene.started("a");
    assert_eq!((again.changes, again.events), (vec![], vec![]));
    scene.fail("a");
    let version = scene.flow().head.version;
    let late = [
        Input::RunEnded { run, ending: Ending::Delivered { output: Value::Map([].into()) }, told: None },
        Input::RunLost { run, claimed: true, evidence: String::new() },
        Input::RunStarted { run, process: process() },
    ];
    for input in late {
        let decision = scene.hear(input);
        assert!(decision.is_empty() && decision.events.is_empty() && decision.effects.is_empty());
        assert_eq!(decision.transitions, [Transition::RunFenced]);
    }
    assert_eq!(scene.flow().head.version, version);
    assert_eq!(scene.step("a").failures, 1);
}

#[test]
fn a_run_of_another_flow_is_not_known_here() {
    let mut scene = Scene::begin(vec![step("a")], vec![]);
    let run = RunId::derived(flow_id(2).uuid(), "a#1");
    let decision = scene.hear(Input::RunLost { run, claimed: true, evidence: String::new() });
    assert_eq!(decision.transitions, [Transition::RunFenced]);
    assert_eq!(scene.picture(), ["a: active"]);
}

#[test]
fn a_completion_writes_run_event_step_and_slot_in_one_decision() {
    let mut scene = Scene::begin(vec![step("a"), step("b").needs(&["a"])], vec![]);
    scene.started("a");
    let run = scene.run("a");
    let decision = scene.deliver("a");
    let over = decision.changes.iter().any(|change| {
        matches!(change, Change::Run(row) if row.id == run
            && matches!(row.state, RunState::Finished { outcome: RunOutcome::Delivered, .. }))
    });
    assert!(over);
    let facts: Vec<&str> = decision.events.iter().map(|event| event.fact.kind()).collect();
    assert_eq!(facts, ["CommandRunCompleted", "StepFinished"]);
    assert_eq!((decision.releases.len(), decision.claims.len()), (1, 1));
    assert!(matches!(decision.changes.last(), Some(Change::Head(_))));
}

#[test]
fn a_failure_keeps_its_family_and_detail() {
    let mut scene = Scene::begin(vec![step("a")], vec![]);
    scene.lose("a", true);
    let lost = scene.facts.iter().find_map(|fact| match fact {
        Fact::CommandRunCompleted { outcome: RunOutcome::Failed(failure), .. } => Some(failure.clone()),
        _ => None,
    });
    let lost = lost.unwrap();
    assert_eq!((lost.family, lost.detail.as_str()), (ErrorFamily::ProcessLost, "its instance ended"));
}
