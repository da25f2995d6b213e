//! `retry:`: attempts and back-off. Retry of a whole flow: what is taken over and what runs again.

use orc_domain::event::Fact;
use orc_domain::flow::FlowOutcome;
use orc_domain::graph::Pipeline;
use orc_domain::principal::Principal;
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_engine::{Again, ForkError, New, fork};
use orc_testkit::fixture::{self, flow_id, literal, numbers, output, pipeline, read, step};

use crate::scene::{Scene, secs, starts};

#[test]
fn failures_are_tried_again_after_a_wait_that_doubles_until_attempts_are_used_up() {
    let mut scene = Scene::begin(vec![step("a").retry(3, secs(40))], vec![]);
    for (failures, wait) in [(1, 40_000), (2, 80_000)] {
        scene.fail("a");
        assert_eq!(scene.step("a").failures, failures);
        let planned = scene.resident.wake_at().unwrap().since(scene.now).as_millis();
        assert!((wait..=wait + wait / 4).contains(&planned), "{planned}");
        assert_eq!(starts(&scene.wait(secs(39))), Vec::<String>::new());
        assert_eq!(starts(&scene.ring()), ["a"]);
    }
    scene.fail("a");
    assert_eq!(scene.picture(), ["a: failed: exit code 1"]);
    assert_eq!((scene.step("a").attempts, scene.step("a").failures), (3, 3));
    assert_eq!(scene.took(Transition::StepRetry), 2);
}

#[test]
fn the_planned_attempt_is_told_with_its_time() {
    let mut scene = Scene::begin(vec![step("a").retry(2, secs(40))], vec![]);
    scene.fail("a");
    let not_before = scene.resident.wake_at().unwrap();
    let path = scene.step("a").path.clone();
    assert_eq!(scene.facts.last(), Some(&Fact::RetryPlanned { path, attempt: 2, not_before }));
}

#[test]
fn a_step_in_back_off_holds_no_slot() {
    let mut scene = Scene::begin_with(pipeline(vec![step("a").retry(2, secs(40)), step("b")], vec![]), 1);
    assert_eq!(scene.picture(), ["a: active", "b: held by slot"]);
    let failed = scene.fail("a");
    assert_eq!((starts(&failed), failed.releases.len()), (vec!["b".to_owned()], 1));
}

/// The flow that carries `scene` on, begun.
fn retried(scene: &Scene, pipeline: &Pipeline) -> Scene {
    let spec = fork(
        scene.flow(),
        pipeline,
        &Again::Unfinished,
        New { id: flow_id(2), by: Principal::Os(1000), now: scene.now },
    )
    .unwrap();
    assert_eq!(spec.retry_of, Some(flow_id(1)));
    Scene::begin_spec(spec, pipeline.clone(), 1_000)
}

#[test]
fn a_retry_of_a_flow_runs_again_what_failed_and_what_depends_on_it() {
    let steps = vec![
        step("good"),
        step("bad"),
        step("behind").needs(&["bad"]),
        step("off").when(literal(false)),
        step("reads").needs(&["good"]),
    ];
    let pipeline = pipeline(steps, vec![step("cleanup")]);
    let mut scene = Scene::begin_with(pipeline.clone(), 1_000);
    scene.deliver_with("good", output([("n", Value::Int(7))]));
    scene.fail("bad");
    scene.deliver("reads");
    scene.deliver("cleanup");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));

    let mut second = retried(&scene, &pipeline);
    assert_eq!(
        second.picture(),
        [
            "good: succeeded",
            "bad: active",
            "behind: blocked",
            "off: skipped: its `if` is false",
            "reads: succeeded",
            "cleanup: blocked",
        ]
    );
    assert_eq!(second.step("good").output, scene.step("good").output);
    assert_eq!(second.took(Transition::StepTakenOver), 2);
    second.deliver("bad");
    second.deliver("behind");
    // `finally` always runs again.
    second.deliver("cleanup");
    assert_eq!(second.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn a_retry_runs_only_the_failed_elements_again_and_all_results_are_there() {
    let steps =
        vec![step("fan").foreach(numbers(3)), step("after").needs(&["fan"]).env("RESULTS", read("steps.fan.results"))];
    let pipeline = pipeline(steps, vec![]);
    let mut scene = Scene::begin_with(pipeline.clone(), 1_000);
    scene.deliver_with("fan[0]", output([("n", Value::Int(0))]));
    scene.fail("fan[1]");
    scene.deliver_with("fan[2]", output([("n", Value::Int(2))]));

    let mut second = retried(&scene, &pipeline);
    assert_eq!(
        second.picture(),
        ["fan: 3 of 3 elements", "after: blocked", "fan[0]: succeeded", "fan[1]: active", "fan[2]: succeeded"]
    );
    second.deliver_with("fan[1]", output([("n", Value::Int(1))]));
    assert_eq!(results_of(&second), [0, 1, 2]);
}

#[test]
fn results_of_a_fan_out_that_was_taken_over_are_there_for_what_runs_again() {
    let steps =
        vec![step("fan").foreach(numbers(3)), step("after").needs(&["fan"]).env("RESULTS", read("steps.fan.results"))];
    let pipeline = pipeline(steps, vec![]);
    let mut scene = Scene::begin_with(pipeline.clone(), 1_000);
    for n in 0..3 {
        scene.deliver_with(&format!("fan[{n}]"), output([("n", Value::Int(n))]));
    }
    scene.fail("after");
    let second = retried(&scene, &pipeline);
    assert_eq!(starts(&second.last), ["after"]);
    assert_eq!(results_of(&second), [0, 1, 2]);
}

/// The outputs that `after` was given to read.
fn results_of(scene: &Scene) -> Vec<i64> {
    let env = scene.last.effects.iter().find_map(|effect| match &effect.kind {
        orc_domain::effect::EffectKind::StartRun { command, .. } => command.env.get("RESULTS"),
        _ => None,
    });
    let Some(Value::List(results)) = Value::parse_json(env.unwrap()) else {
        panic!("{env:?}");
    };
    let number = |result: &Value| match result {
        Value::Map(fields) => match &fields["output"] {
            Value::Map(output) => match output.get("n") {
                Some(Value::Int(n)) => *n,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    results.iter().map(number).collect()
}

#[test]
fn elements_run_again_when_something_before_the_fan_out_does() {
    let steps = vec![step("before").continue_on_fail(), step("fan").needs(&["before"]).foreach(numbers(2))];
    let pipeline = pipeline(steps, vec![]);
    let mut scene = Scene::begin_with(pipeline.clone(), 1_000);
    scene.fail("before");
    scene.deliver("fan[0]");
    scene.fail("fan[1]");
    let mut second = retried(&scene, &pipeline);
    assert_eq!(starts(&second.deliver("before")), ["fan[0]", "fan[1]"]);
}

#[test]
fn a_flow_that_failed_only_in_finally_repeats_finally() {
    let pipeline = pipeline(vec![step("a")], vec![step("cleanup")]);
    let mut scene = Scene::begin_with(pipeline.clone(), 1_000);
    scene.deliver("a");
    scene.fail("cleanup");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    assert_eq!(starts(&retried(&scene, &pipeline).last), ["cleanup"]);
}

#[test]
fn a_retry_that_was_cancelled_early_hands_on_what_it_was_given() {
    let steps = vec![
        step("first"),
        step("fan").needs(&["first"]).foreach(numbers(2)),
        step("late").needs(&["first"]).when(read("steps.first.output.go")),
        step("bad"),
    ];
    let pipeline = pipeline(steps, vec![]);
    let mut scene = Scene::begin_with(pipeline.clone(), 1_000);
    scene.deliver_with("first", output([("go", Value::Bool(true))]));
    scene.deliver("fan[0]");
    scene.fail("fan[1]");
    scene.deliver_with("late", output([("n", Value::Int(1))]));
    scene.fail("bad");
    // The second flow is given `first`, `late` and `fan[0]`; without `first` it has not got to the others when it is
    // cancelled.
    let mut spec = fork(
        scene.flow(),
        &pipeline,
        &Again::Unfinished,
        New { id: flow_id(2), by: Principal::System, now: scene.now },
    )
    .unwrap();
    let given: Vec<String> = spec.taken_over.keys().map(ToString::to_string).collect();
    assert_eq!(given, ["fan[0]", "first", "late"]);
    let first = "first".parse().unwrap();
    let result = spec.taken_over.remove(&first).unwrap();
    let mut second = Scene::begin_spec(spec, pipeline.clone(), 1_000);
    second.cancel();
    second.deliver_with("first", result.output.unwrap());
    second.fail("bad");
    assert_eq!(second.picture(), ["first: succeeded", "fan: cancelled", "late: cancelled", "bad: cancelled"]);

    let spec = fork(
        second.flow(),
        &pipeline,
        &Again::Unfinished,
        New { id: flow_id(3), by: Principal::System, now: second.now },
    )
    .unwrap();
    let given: Vec<String> = spec.taken_over.keys().map(ToString::to_string).collect();
    assert_eq!(given, ["fan[0]", "first", "late"]);
    let third = Scene::begin_spec(spec, pipeline, 1_000);
    assert_eq!(starts(&third.last), ["bad", "fan[1]"]);
    assert_eq!(third.step("late").output, scene.step("late").output);
}

#[test]
fn a_live_flow_and_one_with_nothing_to_do_are_not_retried() {
    let pipeline = pipeline(vec![step("a"), step("off").when(literal(false))], vec![]);
    let mut scene = Scene::begin_with(pipeline.clone(), 1_000);
    let again = |scene: &Scene| {
        fork(
            scene.flow(),
            &pipeline,
            &Again::Unfinished,
            New { id: flow_id(2), by: Principal::System, now: fixture::BEGIN },
        )
    };
    assert_eq!(again(&scene), Err(ForkError::Live(flow_id(1))));
    scene.deliver("a");
    assert_eq!(again(&scene), Err(ForkError::Nothing(flow_id(1))));
}

#[test]
fn a_cancelled_flow_is_carried_on_by_a_retry() {
    let pipeline = pipeline(vec![step("a"), step("b").needs(&["a"]), step("c").needs(&["b"])], vec![]);
    let mut scene = Scene::begin_with(pipeline.clone(), 1_000);
    scene.deliver("a");
    scene.cancel();
    scene.fail("b");
    assert_eq!(scene.picture(), ["a: succeeded", "b: cancelled", "c: cancelled"]);
    assert_eq!(retried(&scene, &pipeline).picture(), ["a: succeeded", "b: active", "c: blocked"]);
}
