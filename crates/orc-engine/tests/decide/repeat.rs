//! Rounds: bodies that are written again and again, what they read of the round before, and what ends them.

use orc_domain::flow::FlowOutcome;
use orc_domain::run::StopReason;
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_testkit::fixture::{StepFixture, equal, literal, numbers, output, read, repeat, step};

use crate::scene::{GRACE, Scene, secs, starts, stops};

fn passes() -> orc_domain::expr::Expr {
    equal(read("steps.test.output.verdict"), literal("pass"))
}

fn verdict(word: &str) -> Value {
    output([("verdict", Value::text(word))])
}

/// `check`, three rounds at most of `test`, then `fix`; and `after`.
fn check() -> Vec<StepFixture> {
    let body = vec![step("test"), step("fix").needs(&["test"]).when(equal(passes(), literal(false)))];
    vec![repeat("check", 3, Some(passes()), body), step("after").needs(&["check"]).env("N", read("steps.check.rounds"))]
}

#[test]
fn rounds_are_made_until_it_holds_and_each_keeps_its_own_steps() {
    let mut scene = Scene::begin(check(), vec![]);
    assert_eq!(starts(&scene.last), ["check~1/test"]);
    scene.deliver_with("check~1/test", verdict("fail"));
    assert_eq!(starts(&scene.deliver("check~1/fix")), ["check~2/test"]);
    let decision = scene.deliver_with("check~2/test", verdict("pass"));
    let orc_domain::effect::EffectKind::StartRun { command, .. } = &decision.effects[0].kind else {
        panic!("{decision:?}")
    };
    assert_eq!((command.path.as_str(), command.env["N"].as_str()), ("after", "2"));
    let expected = [
        "check: succeeded",
        "after: active",
        "check~1/test: succeeded",
        "check~1/fix: succeeded",
        "check~2/test: succeeded",
        "check~2/fix: skipped: its `if` is false",
    ];
    assert_eq!(scene.picture(), expected);
    let last = scene.step("check").output.clone();
    assert_eq!(last, Some(output([("test", verdict("pass")), ("fix", output([]))])));
}

#[test]
fn the_last_round_that_does_not_pass_fails_it_and_without_until_succeeds() {
    let body = || vec![step("test")];
    for (until, outcome, picture) in [
        (Some(passes()), FlowOutcome::Failed, "check: failed: `until` did not hold after 2 rounds"),
        (None, FlowOutcome::Succeeded, "check: succeeded"),
    ] {
        let mut scene = Scene::begin(vec![repeat("check", 2, until, body())], vec![]);
        scene.deliver_with("check~1/test", verdict("fail"));
        scene.deliver_with("check~2/test", verdict("fail"));
        assert_eq!(scene.picture()[0], picture);
        assert_eq!(scene.outcome(), Some(outcome));
    }
}

#[test]
fn previous_is_empty_in_the_first_round_and_the_round_before_in_the_second() {
    let test = step("test")
        .env("OUTCOME", read("previous.test.outcome"))
        .env("ALL", read("previous.test.output"))
        .env("OTHER", read("steps.plan.outcome"));
    let main = vec![step("plan"), repeat("check", 2, None, vec![test]).needs(&["plan"])];
    let mut scene = Scene::begin(main, vec![]);
    let env = |decision: &orc_domain::effect::Decision| match &decision.effects[0].kind {
        orc_domain::effect::EffectKind::StartRun { command, .. } => {
            ["OUTCOME", "ALL", "OTHER"].map(|name| command.env[name].clone())
        }
        other => panic!("{other:?}"),
    };
    let first = scene.deliver("plan");
    assert_eq!(env(&first), ["", "{}", "succeeded"]);
    let second = scene.deliver_with("check~1/test", verdict("fail"));
    assert_eq!(env(&second), ["succeeded", r#"{"verdict":"fail"}"#, "succeeded"]);
}

#[test]
fn an_until_without_a_value_fails_the_step_and_says_where() {
    for (until, detail) in [
        (read("steps.test.output.verdict"), "until: `steps.test.output` has no `verdict`"),
        (literal("yes"), "`until` needs true or false, and this is text"),
    ] {
        let mut scene = Scene::begin(vec![repeat("check", 2, Some(until), vec![step("test")])], vec![]);
        scene.deliver("check~1/test");
        let picture = scene.picture()[0].clone();
        assert!(picture.starts_with(&format!("check: failed: an expression has no value: {detail}")), "{picture}");
    }
}

#[test]
fn a_failed_step_ends_its_round_and_the_rounds_unless_it_goes_on() {
    let body = |test: StepFixture| vec![test, step("b")];
    let mut scene = Scene::begin(vec![repeat("check", 3, None, body(step("test")))], vec![]);
    scene.fail("check~1/test");
    assert_eq!(scene.picture()[0], "check: round 1", "what else is in the round goes on");
    scene.deliver("check~1/b");
    assert_eq!(scene.picture()[0], "check: failed: round 1 failed: first `check~1/test`, exit code 1");
    let mut scene = Scene::begin(vec![repeat("check", 2, None, body(step("test").continue_on_fail()))], vec![]);
    scene.fail("check~1/test");
    scene.deliver("check~1/b");
    assert_eq!(scene.picture()[0], "check: round 2");
}

#[test]
fn a_step_of_a_round_is_tried_again_within_its_round() {
    let mut scene = Scene::begin(vec![repeat("check", 2, None, vec![step("test").retry(2, secs(1))])], vec![]);
    scene.fail("check~1/test");
    assert_eq!(scene.picture(), ["check: round 1", "check~1/test: ready"]);
    assert_eq!(starts(&scene.ring()), ["check~1/test"]);
    scene.lose("check~1/test", true);
    scene.deliver("check~1/test");
    assert_eq!(scene.picture()[2], "check~2/test: active");
    scene.fail("check~2/test");
    assert_eq!(scene.picture()[2], "check~2/test: ready", "a new round has its retries");
}

#[test]
fn a_cancel_ends_the_round_and_no_other_begins() {
    for delivers in [true, false] {
        let mut scene = Scene::begin(vec![repeat("check", 3, None, vec![step("a"), step("b").needs(&["a"])])], vec![]);
        assert_eq!(stops(&scene.cancel()), [(StopReason::Cancel, GRACE)]);
        assert_eq!(scene.picture(), ["check: round 1", "check~1/a: active", "check~1/b: cancelled"]);
        assert_eq!(stops(&scene.cancel()).len(), 1);
        if delivers {
            scene.deliver("check~1/a");
        } else {
            scene.fail("check~1/a");
        }
        assert_eq!(scene.picture()[0], "check: cancelled");
        assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
    }
}

#[test]
fn a_last_step_that_delivers_into_a_cancel_does_not_begin_another_round() {
    let mut scene = Scene::begin(vec![repeat("check", 3, None, vec![step("a")])], vec![]);
    scene.cancel();
    assert_eq!(starts(&scene.deliver("check~1/a")), Vec::<String>::new());
    assert_eq!(scene.picture(), ["check: cancelled", "check~1/a: succeeded"]);
    assert_eq!(scene.took(Transition::RepeatCancelled), 1);
}

#[test]
fn rounds_whose_steps_are_all_skipped_end_in_one_decision() {
    let body = vec![step("a").when(literal(false)), step("b").needs(&["a"])];
    let scene = Scene::begin(vec![repeat("check", 100, Some(literal(false)), body)], vec![]);
    assert_eq!(scene.picture()[0], "check: failed: `until` did not hold after 100 rounds");
    assert_eq!(scene.flow().steps.len(), 201);
}

/// A fan-out in a round, of rounds, in a fan-out.
fn nested() -> Vec<StepFixture> {
    let inner = repeat("try", 2, Some(equal(read("steps.go.output.verdict"), literal("pass"))), vec![step("go")]);
    let body = vec![step("plan"), inner.needs(&["plan"]).foreach(numbers(2)), step("sum").needs(&["try"])];
    vec![repeat("outer", 2, None, body).foreach(numbers(2)).fail_fast()]
}

#[test]
fn rounds_nest_in_elements_and_elements_in_rounds() {
    let mut scene = Scene::begin(nested(), vec![]);
    assert_eq!(starts(&scene.last), ["outer[0]~1/plan", "outer[1]~1/plan"]);
    let decision = scene.deliver("outer[0]~1/plan");
    assert_eq!(starts(&decision), ["outer[0]~1/try[0]~1/go", "outer[0]~1/try[1]~1/go"]);
    scene.deliver_with("outer[0]~1/try[0]~1/go", verdict("fail"));
    scene.deliver_with("outer[0]~1/try[1]~1/go", verdict("pass"));
    assert_eq!(starts(&scene.deliver_with("outer[0]~1/try[0]~2/go", verdict("pass"))), ["outer[0]~1/sum"]);
    assert_eq!(starts(&scene.deliver("outer[0]~1/sum")), ["outer[0]~2/plan"]);
    scene.deliver("outer[0]~2/plan");
    for element in ["outer[0]~2/try[0]~1/go", "outer[0]~2/try[1]~1/go"] {
        scene.deliver_with(element, verdict("pass"));
    }
    scene.deliver("outer[0]~2/sum");
    let picture = scene.picture();
    assert_eq!(picture[..3], ["outer: 2 of 2 elements", "outer[0]: succeeded", "outer[1]: round 1"]);
}

#[test]
fn fail_fast_reaches_through_rounds_and_elements() {
    let mut scene = Scene::begin(nested(), vec![]);
    scene.deliver("outer[0]~1/plan");
    let decision = scene.fail("outer[1]~1/plan");
    assert_eq!(stops(&decision), [(StopReason::FailFast, GRACE); 2]);
    let failed = "outer[1]: failed: round 1 failed: first `outer[1]~1/plan`, exit code 1";
    assert_eq!(scene.picture()[1..3], ["outer[0]: round 1", failed]);
    scene.deliver_with("outer[0]~1/try[0]~1/go", verdict("fail"));
    scene.fail("outer[0]~1/try[1]~1/go");
    assert_eq!(
        scene.picture()[..2],
        ["outer: failed: 1 of 2 elements failed: first `outer[1]`, round 1 failed", "outer[0]: cancelled"]
    );
    assert_eq!(scene.step("outer[0]~1/try").attempts, 0);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn a_run_of_a_round_that_ends_twice_ends_it_once() {
    let mut scene = Scene::begin(check(), vec![]);
    let run = scene.run("check~1/test");
    scene.deliver_with("check~1/test", verdict("fail"));
    let ending = orc_domain::input::Ending::Delivered { output: verdict("pass") };
    let decision = scene.hear(orc_domain::input::Input::RunEnded { run, ending, told: None });
    assert_eq!((decision.changes, decision.transitions), (vec![], vec![Transition::RunFenced]));
}

#[test]
fn rounds_in_finally_are_ended_at_its_deadline() {
    let mut scene = Scene::begin(vec![step("a")], vec![repeat("f", 9, None, vec![step("g"), step("h").needs(&["g"])])]);
    assert_eq!(scene.picture()[1], "f: blocked");
    assert_eq!(starts(&scene.deliver("a")), ["f~1/g"]);
    scene.started("f~1/g");
    assert_eq!(stops(&scene.wait(orc_domain::graph::FINALLY_DEADLINE)), [(StopReason::FinallyDeadline, GRACE)]);
    scene.fail("f~1/g");
    assert_eq!(scene.picture(), ["a: succeeded", "f: cancelled", "f~1/g: cancelled", "f~1/h: cancelled"]);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn a_round_that_ends_after_the_deadline_of_finally_is_the_last() {
    for asked_before in [true, false] {
        let mut scene = Scene::begin(vec![step("a")], vec![repeat("f", 9, None, vec![step("g")])]);
        scene.deliver("a");
        scene.started("f~1/g");
        if asked_before {
            scene.wait(orc_domain::graph::FINALLY_DEADLINE);
        } else {
            scene.now = scene.now + orc_domain::graph::FINALLY_DEADLINE;
        }
        scene.deliver("f~1/g");
        assert_eq!(scene.picture(), ["a: succeeded", "f: cancelled", "f~1/g: succeeded"]);
        assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    }
}
