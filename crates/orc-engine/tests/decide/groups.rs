//! Concurrency groups: of flows, of steps, of agents.

use std::collections::BTreeMap;

use orc_domain::claim::{Claim, Holder};
use orc_domain::flow::{FlowOutcome, FlowState, StepNo};
use orc_domain::graph::{OnLimit, Pipeline};
use orc_domain::input::Input;
use orc_domain::run::StopReason;
use orc_domain::transition::Transition;
use orc_testkit::fixture::{
    agent, approval, child, flow_id, flow_spec, group, numbers, pipeline, profile, repeat, step, text,
};

use crate::scene::{GRACE, Scene, asks, children, secs, starts, stops, tells};

fn holder(flow: u32, step: Option<u32>) -> Holder {
    Holder { flow: flow_id(flow), step: step.map(StepNo) }
}

fn full(holders: &[Holder]) -> BTreeMap<String, Vec<Holder>> {
    BTreeMap::from([("g".to_owned(), holders.to_vec())])
}

fn grouped(on_limit: OnLimit) -> Pipeline {
    Pipeline { concurrency: Some(group("g", 1, on_limit)), ..pipeline(vec![step("a")], vec![step("f")]) }
}

fn begin(on_limit: OnLimit, full: BTreeMap<String, Vec<Holder>>) -> Scene {
    let pipeline = grouped(on_limit);
    Scene::begin_full(flow_spec(1, &pipeline), pipeline, 10, full)
}

#[test]
fn a_flow_takes_its_place_and_gives_it_back_with_its_end() {
    let mut scene = begin(OnLimit::Queue, BTreeMap::new());
    let place = Claim::Group { name: "g".to_owned(), limit: 1, holder: holder(1, None) };
    assert!(scene.last.claims.contains(&place));
    scene.deliver("a");
    let decision = scene.deliver("f");
    assert!(decision.releases.iter().any(|released| released.is_same_place(&place)), "{decision:?}");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn a_queued_flow_begins_nothing_and_begins_when_there_is_a_place() {
    let mut scene = begin(OnLimit::Queue, full(&[holder(2, None)]));
    assert_eq!(scene.picture(), ["a: blocked", "f: blocked"]);
    assert!(scene.resident.wants_groups().contains("g"));
    for _ in 0..3 {
        assert!(scene.ring().is_empty(), "the same holders are no news");
    }
    scene.full = full(&[holder(3, None)]);
    assert_eq!(scene.ring().transitions, [Transition::FlowQueuedAgain]);
    scene.full.clear();
    assert_eq!(starts(&scene.ring()), ["a"]);
    assert_eq!(scene.took(Transition::FlowUnqueued), 1);
}

#[test]
fn a_queued_flow_that_is_cancelled_is_over_and_held_no_place() {
    for force in [false, true] {
        let mut scene = begin(OnLimit::Queue, full(&[holder(2, None)]));
        let decision = if force { scene.hear(Input::End { force }) } else { scene.cancel() };
        assert_eq!((decision.claims, decision.releases), (vec![], vec![]));
        assert_eq!(scene.picture(), ["a: cancelled", "f: cancelled"]);
        assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
    }
}

#[test]
fn skip_ends_the_flow_and_says_why() {
    let scene = begin(OnLimit::Skip, full(&[holder(2, None)]));
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
    assert_eq!(scene.flow().head.detail, "skipped: the concurrency group `g` was full");
}

#[test]
fn cancel_running_asks_each_that_is_in_it_once_and_takes_the_place() {
    let mut scene = begin(OnLimit::CancelRunning, full(&[holder(2, None), holder(3, Some(0))]));
    assert_eq!(tells(&scene.last), [(flow_id(2), Input::End { force: false })], "steps of flows are not asked");
    assert!(scene.ring().is_empty());
    scene.full = full(&[holder(4, None), holder(3, Some(0))]);
    assert_eq!(tells(&scene.ring()), [(flow_id(4), Input::End { force: false })]);
    scene.full.clear();
    assert_eq!(starts(&scene.ring()), ["a"]);
}

#[test]
fn a_name_without_a_value_fails_the_flow_before_anything_begins() {
    let empty = orc_domain::graph::Concurrency { group: text(""), limit: 1, on_limit: OnLimit::Queue };
    let pipeline = Pipeline { concurrency: Some(empty), ..grouped(OnLimit::Queue) };
    let scene = Scene::begin_with(pipeline, 10);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    assert_eq!(scene.flow().head.detail, "concurrency: a group's name is one line of 1 to 200 bytes, and this has 0");
    assert_eq!(scene.picture(), ["a: cancelled", "f: cancelled"]);
}

#[test]
fn steps_of_a_group_take_turns_within_one_flow() {
    let main = vec![step("fan").foreach(numbers(3)).concurrency(group("g", 1, OnLimit::Queue))];
    let mut scene = Scene::begin(main, vec![]);
    assert_eq!(starts(&scene.last), ["fan[0]"]);
    assert!(scene.picture()[2].starts_with("fan[1]: held by group"), "{:?}", scene.picture());
    for (done, next) in [("fan[0]", vec!["fan[1]"]), ("fan[1]", vec!["fan[2]"]), ("fan[2]", vec![])] {
        assert_eq!(starts(&scene.deliver(done)), next);
    }
}

#[test]
fn a_decision_that_was_refused_a_place_still_takes_those_that_are_free() {
    // Of two places one is free. The store refuses the second claim and names whoever was in it by then, the first
    // claimant too; made again, the decision starts one of them.
    let main = || {
        vec![step("a").concurrency(group("g", 2, OnLimit::Queue)), step("b").concurrency(group("g", 2, OnLimit::Queue))]
    };
    let pipeline = pipeline(main(), vec![]);
    let known = full(&[holder(2, Some(7)), holder(1, Some(0))]);
    let mut scene = Scene::begin_full(flow_spec(1, &pipeline), pipeline, 10, known);
    assert_eq!(starts(&scene.last), ["a"]);
    assert!(scene.picture()[1].starts_with("b: held by group"));
    scene.full = full(&[holder(2, Some(7)), holder(1, Some(0))]);
    assert_eq!(starts(&scene.deliver("a")), ["b"], "its own place is free, whatever was known of it");
}

#[test]
fn a_step_that_skips_a_full_group_says_which() {
    let pipeline = pipeline(vec![step("a").concurrency(group("g", 1, OnLimit::Skip)), step("b").needs(&["a"])], vec![]);
    let scene = Scene::begin_full(flow_spec(1, &pipeline), pipeline, 10, full(&[holder(2, None)]));
    assert_eq!(scene.picture(), ["a: skipped: the concurrency group `g` was full", "b: skipped: `a` skipped"]);
}

#[test]
fn a_step_between_attempts_gives_its_place_to_others() {
    let one = |key| step(key).concurrency(group("g", 1, OnLimit::Queue));
    let mut scene = Scene::begin(vec![one("a").retry(2, secs(60)), one("b")], vec![]);
    assert_eq!(starts(&scene.fail("a")), ["b"]);
    scene.started("b");
    scene.wait(secs(80));
    assert!(scene.picture()[0].starts_with("a: held by group"), "{:?}", scene.picture());
    assert_eq!(starts(&scene.lose("b", true)), ["a"], "the first by rank has been ready longer");
    assert_eq!(starts(&scene.deliver("a")), ["b"]);
}

#[test]
fn what_is_below_a_place_needs_none() {
    let g = || group("g", 1, OnLimit::Queue);
    let body = vec![step("x").concurrency(g()), step("y").concurrency(g())];
    let inner = pipeline(vec![step("z").concurrency(g())], vec![]);
    let main = vec![repeat("r", 2, None, body).concurrency(g()), child("c", &inner).concurrency(g()).needs(&["r"])];
    let mut scene = Scene::begin(main, vec![]);
    assert_eq!(starts(&scene.last), ["r~1/x", "r~1/y"]);
    for path in ["r~1/x", "r~1/y", "r~2/x", "r~2/y"] {
        scene.deliver(path);
    }
    let [spec] = children(&scene.last).try_into().unwrap();
    assert!(spec.groups_above.contains("g"));
    let inside = Scene::begin_full(spec, inner, 10, full(&[Holder { flow: flow_id(1), step: Some(StepNo(1)) }]));
    assert_eq!(starts(&inside.last), ["z"]);
    assert_eq!(inside.last.claims.len(), 1, "a slot and no place");
}

#[test]
fn a_cancel_gives_every_place_back_when_what_was_in_it_is_gone() {
    let main = vec![
        step("a").concurrency(group("g", 1, OnLimit::Queue)),
        approval("b", &["x"]).concurrency(group("h", 1, OnLimit::Queue)),
    ];
    let mut scene = Scene::begin(main, vec![]);
    let decision = scene.cancel();
    let released = |decision: &orc_domain::effect::Decision| -> Vec<String> {
        let names = decision.releases.iter().filter_map(|claim| match claim {
            Claim::Group { name, .. } => Some(name.clone()),
            Claim::Slot { .. } => None,
        });
        names.collect()
    };
    assert_eq!((stops(&decision), released(&decision)), (vec![(StopReason::Cancel, GRACE)], vec!["h".to_owned()]));
    assert_eq!(released(&scene.fail("a")), ["g"]);
}

fn coders(limit: u32) -> Pipeline {
    let mut pipeline = pipeline(vec![agent("a", "coder"), agent("b", "coder")], vec![]);
    let mut coder = profile("coder");
    coder.max_concurrent = Some(limit);
    pipeline.agents.insert("coder".to_owned(), coder);
    pipeline
}

#[test]
fn an_agent_runs_only_so_often_at_once_and_one_that_waits_for_people_does_not_count() {
    let mut scene = Scene::begin_with(coders(1), 10);
    assert_eq!(starts(&scene.last), ["a"]);
    assert_eq!(starts(&scene.end("a", asks())), ["b"], "a question may take a week");
    scene.answer("a", orc_domain::request::Answer::Approved, "admin");
    assert!(scene.picture()[0].starts_with("a: held by group"));
    assert_eq!(starts(&scene.deliver("b")), ["a"]);
}

#[test]
fn a_step_that_waits_for_its_group_is_in_the_line_for_slots_when_the_group_may_have_room() {
    let pipeline = pipeline(vec![step("a").concurrency(group("g", 1, OnLimit::Queue))], vec![]);
    let mut scene = Scene::begin_full(flow_spec(1, &pipeline), pipeline, 10, full(&[holder(2, None)]));
    assert_eq!(scene.resident.wants_slot(), None);
    scene.full.clear();
    scene.slots = 0;
    scene.ring();
    assert!(scene.resident.wants_slot().is_some(), "{:?}", scene.picture());
    scene.slots = 1;
    assert_eq!(starts(&scene.ring()), ["a"]);
}

#[test]
fn a_held_flow_stays_in_the_queue_and_takes_no_place() {
    let mut scene = begin(OnLimit::Queue, full(&[holder(2, None)]));
    scene.hold(None, None);
    scene.full.clear();
    assert!(scene.ring().is_empty());
    assert!(matches!(scene.flow().head.state, FlowState::Queued { .. }));
    assert_eq!(starts(&scene.lift(None)), ["a"]);
}

#[test]
fn two_flows_that_ask_the_same_one_to_end_have_each_an_effect_of_their_own() {
    let pipeline = grouped(OnLimit::CancelRunning);
    let begin = |number| {
        let full = full(&[holder(9, None)]);
        Scene::begin_full(flow_spec(number, &pipeline), pipeline.clone(), 10, full).last.effects[0].id
    };
    assert_ne!(begin(1), begin(2), "an effect is decided once, whoever decides it");
}
