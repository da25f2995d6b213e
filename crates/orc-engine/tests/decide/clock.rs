//! Clocks that jump.

use orc_domain::run::StopReason;
use orc_domain::time::Millis;
use orc_testkit::fixture::{numbers, step};

use crate::scene::{GRACE, Scene, secs, starts, stops};

#[test]
fn a_clock_that_jumps_back_does_not_turn_the_flow_back_and_fires_nothing_twice() {
    let mut scene = Scene::begin(vec![step("a").timeout(secs(60)), step("b")], vec![]);
    scene.started("a");
    scene.started("b");
    let begun = scene.now;
    assert_eq!(stops(&scene.wait(secs(60))), [(StopReason::Timeout, GRACE)]);
    scene.now = begun;
    assert_eq!(scene.wait(Millis::ZERO).changes, []);
    scene.deliver("b");
    assert_eq!(scene.flow().head.seen, begun + secs(60), "the latest time that was seen");
    assert_eq!(scene.took(orc_domain::transition::Transition::RunTimeout), 1);
}

#[test]
fn a_clock_that_jumps_forward_fires_each_deadline_once() {
    let mut scene = Scene::begin(vec![step("a").timeout(secs(60)), step("b").retry(2, secs(40))], vec![]);
    scene.started("a");
    scene.fail("b");
    let decision = scene.wait(secs(1_000_000));
    assert_eq!((stops(&decision), starts(&decision)), (vec![(StopReason::Timeout, GRACE)], vec!["b".to_owned()]));
    assert_eq!(scene.wait(Millis::ZERO).changes, []);
}

#[test]
fn pages_and_slots_do_not_wait_for_a_clock_that_jumped_back() {
    let mut scene = Scene::begin(vec![step("a"), step("fan").needs(&["a"]).foreach(numbers(600)).limit(1)], vec![]);
    scene.now = scene.now + secs(7200);
    scene.started("a");
    scene.now = orc_testkit::fixture::BEGIN;
    scene.deliver("a");
    assert_eq!(scene.resident.wake_at(), Some(scene.now), "the next page is due by the clock there is");
    scene.ring();
    scene.ring();
    assert_eq!(scene.picture()[1], "fan: 600 of 600 elements");

    let mut scene = Scene::begin(vec![step("a").retry(2, secs(1)), step("b")], vec![]);
    scene.now = scene.now + secs(7200);
    scene.started("a");
    scene.now = orc_testkit::fixture::BEGIN;
    scene.slots = 0;
    scene.lose("b", true);
    assert_eq!(scene.resident.wake_at(), Some(scene.now + secs(5)), "it looks for a slot by the clock there is");
}

#[test]
fn an_alarm_rings_only_when_something_is_due() {
    let mut scene = Scene::begin(vec![step("a").retry(2, secs(40))], vec![]);
    scene.fail("a");
    let version = scene.flow().head.version;
    for _ in 0..5 {
        assert!(scene.wait(secs(1)).is_empty());
    }
    assert_eq!(scene.flow().head.version, version);
}
