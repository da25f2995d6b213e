//! Priorities: rank among ready steps, worth some time each, never for ever.

use orc_domain::graph::PRIORITY_AGE;
use orc_testkit::fixture::{flow_spec, numbers, pipeline, step};

use crate::scene::{Scene, secs, starts};

#[test]
fn of_steps_that_are_ready_the_highest_priority_starts_first() {
    let main = vec![step("low").priority(-1), step("a"), step("b").priority(2), step("c").priority(2)];
    let mut scene = Scene::begin_with(pipeline(main, vec![]), 0);
    scene.slots = 1;
    for key in ["b", "c", "a", "low"] {
        assert_eq!(starts(&scene.wait(secs(1))), [key]);
    }
}

#[test]
fn a_step_that_waited_long_enough_goes_before_a_higher_priority() {
    let main = [step("old"), step("p"), step("new").needs(&["p"]).priority(1)];
    for (waited, first) in [(PRIORITY_AGE.as_millis() / 1000 - 1, "new"), (PRIORITY_AGE.as_millis() / 1000 + 1, "old")]
    {
        let mut scene = Scene::begin_with(pipeline(vec![main[1].clone(), main[0].clone(), main[2].clone()], vec![]), 1);
        assert_eq!(starts(&scene.last), ["p"]);
        scene.now = scene.now + secs(waited);
        scene.slots = 1;
        assert_eq!(starts(&scene.deliver("p")), [first], "after {waited} s");
    }
}

#[test]
fn the_priority_of_a_flow_counts_for_all_of_its_steps() {
    let pipeline = pipeline(vec![step("a").priority(1)], vec![]);
    let spec = orc_domain::flow::FlowSpec { priority: 2, ..flow_spec(1, &pipeline) };
    let scene = Scene::begin_spec(spec, pipeline, 0);
    assert_eq!(scene.resident.wants_slot(), Some(3));
}

#[test]
fn an_element_that_has_no_room_lets_others_pass() {
    let main = vec![step("fan").foreach(numbers(3)).limit(1).priority(5), step("a")];
    let mut scene = Scene::begin_with(pipeline(main, vec![]), 2);
    assert_eq!(starts(&scene.last), ["fan[0]", "a"]);
    scene.slots = 1;
    assert_eq!(starts(&scene.deliver("fan[0]")), ["fan[1]"]);
}
