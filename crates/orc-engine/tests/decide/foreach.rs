//! Fan-out: lists, pages, `limit`, `fail_fast`, and the join.

use orc_domain::effect::Change;
use orc_domain::flow::FlowOutcome;
use orc_domain::graph::{EXPANSION_PAGE, MAX_ELEMENTS, MAX_ITEM_BYTES};
use orc_domain::run::StopReason;
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_testkit::fixture::{literal, numbers, output, read, step};

use crate::scene::{GRACE, Scene, secs, starts, stops};

#[test]
fn an_empty_list_makes_no_change_and_what_needs_it_goes_on() {
    let scene = Scene::begin(vec![step("fan").foreach(numbers(0)), step("after").needs(&["fan"])], vec![]);
    assert_eq!(scene.picture(), ["fan: no_change", "after: active"]);
}

#[test]
fn what_is_no_list_or_too_much_of_one_fails_the_step_by_name() {
    let big = Value::List(vec![Value::text("x".repeat(MAX_ITEM_BYTES))]);
    let table = [
        (literal("text"), "`foreach` needs a list, and this is text".to_owned()),
        (
            numbers(u32::try_from(MAX_ELEMENTS).unwrap() + 1),
            "`foreach` takes at most 1000 elements, and this list has 1001".to_owned(),
        ),
        (literal(big), format!("element 0 has {} bytes, at most 262144 are allowed", MAX_ITEM_BYTES + 2)),
        (read("steps.nowhere.output"), "foreach: `steps` has no `nowhere` (it has: fan)".to_owned()),
    ];
    for (list, text) in table {
        let scene = Scene::begin(vec![step("fan").foreach(list)], vec![]);
        assert_eq!(scene.picture(), [format!("fan: failed: its list cannot be expanded: {text}")]);
        assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    }
}

#[test]
fn a_list_of_more_than_eight_mebibytes_is_refused() {
    let item = Value::text("x".repeat(250 * 1024));
    let scene = Scene::begin(vec![step("fan").foreach(literal(Value::List(vec![item; 33])))], vec![]);
    assert!(scene.picture()[0].ends_with("at most 8388608 are allowed"), "{:?}", scene.picture());
}

#[test]
fn elements_get_their_value_and_the_join_sees_every_result() {
    let steps = vec![
        step("plan"),
        step("fan")
            .needs(&["plan"])
            .foreach(read("steps.plan.output.parts"))
            .env("PART", read("item"))
            .continue_on_fail(),
        step("after").needs(&["fan"]).env("RESULTS", read("steps.fan.results")),
    ];
    let mut scene = Scene::begin(steps, vec![]);
    let parts = Value::List(vec![Value::text("api"), Value::text("docs")]);
    let decision = scene.deliver_with("plan", output([("parts", parts)]));
    assert_eq!(starts(&decision), ["fan[0]", "fan[1]"]);
    let part = |at: usize| match &decision.effects[at].kind {
        orc_domain::effect::EffectKind::StartRun { command, .. } => command.env["PART"].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!([part(0), part(1)], ["api", "docs"]);
    scene.fail("fan[0]");
    let decision = scene.deliver_with("fan[1]", output([("n", Value::Int(1))]));
    assert_eq!(starts(&decision), ["after"]);
    let orc_domain::effect::EffectKind::StartRun { command, .. } = &decision.effects[0].kind else {
        panic!("{decision:?}");
    };
    assert_eq!(
        command.env["RESULTS"],
        r#"[{"error":"exit code 1","outcome":"failed","output":{}},{"error":null,"outcome":"succeeded","output":{"n":1}}]"#
    );
    scene.deliver("after");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn a_failure_does_not_cancel_siblings_and_fails_the_group_at_its_end() {
    let mut scene = Scene::begin(vec![step("fan").foreach(numbers(3)), step("after").needs(&["fan"])], vec![]);
    scene.fail("fan[1]");
    assert_eq!(scene.picture()[0], "fan: 3 of 3 elements");
    scene.deliver("fan[0]");
    scene.deliver("fan[2]");
    assert_eq!(
        scene.picture()[..2],
        ["fan: failed: 1 of 3 elements failed: first `fan[1]`, exit code 1", "after: skipped: `fan` failed",]
    );
}

#[test]
fn limit_counts_the_elements_that_hold_a_slot() {
    let mut scene = Scene::begin(vec![step("fan").foreach(numbers(5)).limit(2).retry(2, secs(40))], vec![]);
    assert_eq!(starts(&scene.last), ["fan[0]", "fan[1]"]);
    assert_eq!(scene.picture()[3], "fan[2]: held by limit");
    // An element in back-off holds none.
    assert_eq!(starts(&scene.fail("fan[0]")), ["fan[2]"]);
    assert_eq!(starts(&scene.deliver("fan[1]")), ["fan[3]"]);
    assert!(scene.resident.wants_slot().is_none());
    assert_eq!(starts(&scene.deliver("fan[2]")), ["fan[4]"]);
    assert_eq!(starts(&scene.deliver("fan[3]")), Vec::<String>::new());
    assert_eq!(starts(&scene.ring()), ["fan[0]"]);
}

#[test]
fn fail_fast_ends_the_siblings() {
    let steps = vec![step("fan").foreach(numbers(5)).limit(2).fail_fast().retry(1, secs(1))];
    let mut scene = Scene::begin(steps, vec![]);
    let decision = scene.fail("fan[0]");
    assert_eq!(stops(&decision), [(StopReason::FailFast, GRACE)]);
    assert_eq!(starts(&decision), Vec::<String>::new());
    scene.fail("fan[1]");
    assert_eq!(
        scene.picture(),
        [
            "fan: failed: 1 of 5 elements failed: first `fan[0]`, exit code 1",
            "fan[0]: failed: exit code 1",
            "fan[1]: cancelled",
            "fan[2]: cancelled",
            "fan[3]: cancelled",
            "fan[4]: cancelled",
        ]
    );
    assert_eq!(scene.took(Transition::ElementFailFast), 3);
}

#[test]
fn fail_fast_waits_for_the_retries_of_an_element() {
    let steps = vec![step("fan").foreach(numbers(2)).fail_fast().retry(2, secs(1))];
    let mut scene = Scene::begin(steps, vec![]);
    assert_eq!(stops(&scene.fail("fan[0]")), []);
    scene.ring();
    assert_eq!(stops(&scene.fail("fan[0]")), [(StopReason::FailFast, GRACE)]);
}

#[test]
fn an_element_that_timed_out_is_not_tried_again_after_fail_fast() {
    for lost in [false, true] {
        let steps = vec![step("fan").foreach(numbers(2)).fail_fast().retry(2, secs(1)).timeout(secs(60))];
        let mut scene = Scene::begin(steps, vec![]);
        scene.started("fan[0]");
        scene.wait(secs(60));
        scene.fail("fan[1]");
        scene.ring();
        scene.fail("fan[1]");
        let decision = if lost { scene.lose("fan[0]", true) } else { scene.fail("fan[0]") };
        assert_eq!(starts(&decision), Vec::<String>::new());
        assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    }
}

#[test]
fn an_element_that_cannot_start_ends_its_siblings_before_they_do() {
    let steps = vec![step("fan").foreach(numbers(3)).fail_fast().env("X", read("steps.nowhere.output"))];
    let scene = Scene::begin(steps, vec![]);
    assert_eq!(scene.picture()[2..], ["fan[1]: cancelled", "fan[2]: cancelled"]);
    assert_eq!(scene.took(Transition::StepStartError), 1);
}

#[test]
fn a_thousand_elements_are_written_by_pages_and_joined_once() {
    let count = u32::try_from(MAX_ELEMENTS).unwrap();
    let mut scene =
        Scene::begin(vec![step("fan").foreach(numbers(count)).limit(1), step("after").needs(&["fan"])], vec![]);
    for page in 1..=5 {
        let steps = scene.last.changes.iter().filter(|change| matches!(change, Change::Step(_))).count();
        assert!(steps <= EXPANSION_PAGE + 2, "{steps} steps in one commit");
        assert_eq!(scene.picture()[0], format!("fan: {} of 1000 elements", page * EXPANSION_PAGE));
        if page < 5 {
            assert_eq!(scene.resident.wake_at(), Some(scene.now), "the next page is due at once");
            scene.ring();
        }
    }
    assert_eq!(scene.took(Transition::StepPage), 4);
    for element in 0..count {
        assert_eq!(scene.picture()[1], "after: blocked");
        scene.deliver(&format!("fan[{element}]"));
    }
    assert_eq!(scene.picture()[..2], ["fan: succeeded", "after: active"]);
}

#[test]
fn a_join_waits_for_elements_that_are_not_written_yet() {
    let mut scene = Scene::begin(vec![step("fan").foreach(numbers(201)), step("after").needs(&["fan"])], vec![]);
    // Every decision writes a page, so the first of them completes the list before it can be joined.
    for element in 0..200 {
        scene.deliver(&format!("fan[{element}]"));
        assert_eq!(scene.picture()[1], "after: blocked");
    }
    assert_eq!(scene.picture()[0], "fan: 201 of 201 elements");
    scene.deliver("fan[200]");
    assert_eq!(scene.picture()[1], "after: active");
}

#[test]
fn a_fan_out_that_has_begun_is_written_to_its_end_before_another_begins() {
    let steps = vec![
        step("gate"),
        step("early").needs(&["gate"]).foreach(numbers(3)),
        step("wide").foreach(numbers(450)).limit(1).fail_fast(),
    ];
    let mut scene = Scene::begin(steps, vec![]);
    scene.deliver("gate");
    scene.ring();
    let numbers: Vec<&str> = scene.flow().steps.iter().map(|step| step.path.as_str()).collect();
    assert_eq!(numbers[452..], ["wide[449]", "early[0]", "early[1]", "early[2]"]);
    // So its elements are neighbours, and all of them end with the first that fails.
    scene.fail("wide[0]");
    assert!(scene.picture()[2].starts_with("wide: failed: 1 of 450"), "{}", scene.picture()[2]);
    for element in 0..3 {
        scene.deliver(&format!("early[{element}]"));
    }
    assert_eq!(scene.picture()[1], "early: succeeded");
}

#[test]
fn decisions_that_commit_together_keep_new_steps_in_the_order_of_their_numbers() {
    let steps = vec![step("gate"), step("fan").needs(&["gate"]).foreach(numbers(3))];
    let mut scene = Scene::begin(steps, vec![]);
    scene.slots = 0;
    let first = scene.deliver("gate");
    scene.slots = 1;
    let second = scene.wait(secs(5));
    assert_eq!(starts(&second), ["fan[0]"]);
    let joined = first.then(second.clone());
    let numbers: Vec<u32> = joined
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Step(step) => Some(step.no.0),
            Change::Head(_) | Change::Run(_) | Change::Request(_) => None,
        })
        .collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(joined.changes.last(), second.changes.last());
}

#[test]
fn a_fan_out_after_a_failed_one_expands_only_when_it_accepts_it() {
    let steps =
        vec![step("one").foreach(numbers(2)).continue_on_fail(), step("two").needs(&["one"]).foreach(numbers(2))];
    let mut scene = Scene::begin(steps, vec![]);
    scene.fail("one[0]");
    assert_eq!(starts(&scene.deliver("one[1]")), ["two[0]", "two[1]"]);
    assert_eq!(scene.took(Transition::GroupFailed), 1);
}
