//! `wait`: a length of time, a point in time, an event of another flow.

use orc_domain::action::WaitEvent;
use orc_domain::flow::FlowOutcome;
use orc_domain::input::Input;
use orc_domain::time::Timestamp;
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_testkit::fixture::{BEGIN, event, flow_id, numbers, output, pause, step, until};

use crate::scene::{Scene, secs};

fn happened(number: u32, pipeline: &str, at: Timestamp) -> Input {
    let (event, outcome) = (WaitEvent::FlowFinished, "failed".to_owned());
    Input::Happened { event, flow: flow_id(number), pipeline: pipeline.to_owned(), at, outcome }
}

#[test]
fn a_wait_is_over_at_its_time_and_holds_no_slot() {
    for wait in [pause("w", "1h"), until("w", &(BEGIN + secs(3600)).to_string())] {
        let mut scene = Scene::begin(vec![wait, step("b").needs(&["w"])], vec![]);
        assert_eq!((scene.last.claims.len(), scene.resident.wake_at()), (0, Some(BEGIN + secs(3600))));
        assert!(scene.wait(secs(3599)).is_empty());
        scene.wait(secs(1));
        assert_eq!(scene.picture(), ["w: succeeded", "b: active"]);
    }
}

#[test]
fn a_time_that_is_past_is_over_at_once_and_nonsense_fails_by_name() {
    let table = [
        (until("w", "2020-01-01T00:00:00Z"), "w: succeeded"),
        (pause("w", "0s"), "w: succeeded"),
        (pause("w", "soon"), "w: failed: an expression has no value: wait.for: `soon` is no length of time"),
        (
            until("w", "tomorrow"),
            "w: failed: an expression has no value: wait.until: `tomorrow` is no time as in 2026-12-24T18:00:00Z",
        ),
    ];
    for (wait, picture) in table {
        let mut scene = Scene::begin(vec![wait], vec![]);
        if scene.outcome().is_none() {
            scene.ring();
        }
        assert_eq!(scene.picture(), [picture]);
    }
}

#[test]
fn an_event_counts_when_it_is_of_the_kind_and_pipeline_and_not_older_than_the_wait() {
    let wait = event("w", WaitEvent::FlowFinished, Some("deploy"), secs(100));
    let mut scene = Scene::begin(vec![step("a"), wait.needs(&["a"])], vec![]);
    scene.now = scene.now + secs(10);
    scene.deliver("a");
    let now = scene.now;
    let own = Input::Happened {
        event: WaitEvent::FlowFinished,
        flow: flow_id(1),
        pipeline: "deploy".to_owned(),
        at: now,
        outcome: "failed".to_owned(),
    };
    let other_kind = Input::Happened {
        event: WaitEvent::AgentRunCompleted,
        flow: flow_id(2),
        pipeline: "deploy".to_owned(),
        at: now,
        outcome: "delivered".to_owned(),
    };
    for input in [happened(2, "other", now), happened(2, "deploy", BEGIN), own, other_kind] {
        assert!(scene.hear(input.clone()).is_empty(), "{input:?}");
    }
    scene.hear(happened(2, "deploy", now));
    let expected = [
        ("flow", Value::text(flow_id(2).to_string())),
        ("pipeline", Value::text("deploy")),
        ("outcome", Value::text("failed")),
    ];
    assert_eq!(scene.step("w").output, Some(output(expected)));
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn one_event_ends_every_wait_for_it_once() {
    let main = vec![event("w", WaitEvent::FlowFinished, None, secs(100)).foreach(numbers(3)).limit(1), step("b")];
    let mut scene = Scene::begin(main, vec![]);
    let now = scene.now;
    scene.hear(happened(2, "any", now));
    assert_eq!(scene.picture()[0], "w: succeeded", "what waits takes no room of `limit`");
    assert!(scene.hear(happened(2, "any", now)).is_empty());
    assert_eq!(scene.took(Transition::WaitHappened), 3);
}

#[test]
fn an_event_that_does_not_come_fails_the_step_at_its_deadline() {
    let mut scene = Scene::begin(vec![event("w", WaitEvent::FlowFinished, None, secs(100))], vec![]);
    scene.ring();
    assert_eq!(scene.picture(), ["w: failed: the event did not come within 1m40s"]);
}

#[test]
fn a_cancel_and_a_second_one_end_every_wait_at_once() {
    for wait in [pause("w", "1h"), event("w", WaitEvent::FlowFinished, None, secs(100))] {
        let mut scene = Scene::begin(vec![wait], vec![step("f")]);
        scene.cancel();
        assert_eq!(scene.picture(), ["w: cancelled", "f: active"]);
        scene.cancel();
        scene.fail("f");
        assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
    }
}

#[test]
fn a_wait_of_a_clock_that_jumps_back_is_as_long_as_it_was() {
    let mut scene = Scene::begin(vec![pause("w", "1m")], vec![]);
    scene.wait(secs(30));
    scene.now = BEGIN - secs(3600);
    assert!(scene.wait(secs(30)).is_empty());
    assert_eq!(scene.resident.wake_at(), Some(BEGIN + secs(60)));
    scene.ring();
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}
