//! Slots: claims, waiting for one, and decisions that were refused or repeated.

use std::collections::BTreeMap;
use std::sync::Arc;

use orc_domain::claim::Claim;
use orc_domain::flow::{Held, StepState};
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_domain::transition::Transition;
use orc_engine::{Context, Resident, decide};
use orc_testkit::fixture::{BEGIN, pipeline, step};

use crate::scene::{GRACE, Scene, secs, starts};

#[test]
fn a_decision_claims_a_slot_for_each_start_and_gives_it_back_with_the_end() {
    let mut scene = Scene::begin_with(pipeline(vec![step("a"), step("b"), step("c")], vec![]), 2);
    let claimed = [scene.run("a"), scene.run("b")].map(|run| Claim::Slot { run });
    assert_eq!(scene.last.claims, claimed);
    assert_eq!(scene.picture(), ["a: active", "b: active", "c: held by slot"]);
    scene.slots = 0;
    assert_eq!(scene.deliver("a").releases, [claimed[0].clone()]);
    assert_eq!(scene.picture()[2], "c: held by slot");
    scene.slots = 1;
    assert_eq!(starts(&scene.wait(secs(1))), ["c"]);
}

#[test]
fn a_step_that_waits_for_a_slot_looks_again_every_five_seconds_without_a_commit() {
    let mut scene = Scene::begin_with(pipeline(vec![step("a")], vec![]), 0);
    let version = scene.flow().head.version;
    assert!(scene.resident.wants_slot().is_some());
    for _ in 0..3 {
        let at = scene.resident.wake_at();
        assert_eq!(at, Some(scene.now + secs(5)));
        assert!(scene.ring().is_empty());
    }
    assert_eq!(scene.flow().head.version, version);
}

#[test]
fn a_back_off_that_ends_without_a_free_slot_says_that_it_waits_for_one() {
    let mut scene = Scene::begin(vec![step("a").retry(2, secs(40))], vec![]);
    scene.slots = 0;
    scene.fail("a");
    assert_eq!(scene.picture(), ["a: ready"]);
    scene.ring();
    assert!(matches!(scene.step("a").state, StepState::Ready { held_by: Some(Held::Slot), .. }));
    assert_eq!(scene.took(Transition::StepHeldSlot), 1);
}

#[test]
fn steps_start_in_order_of_creation() {
    let mut scene = Scene::begin_with(pipeline(vec![step("a"), step("b"), step("c")], vec![]), 0);
    scene.slots = 1;
    for key in ["a", "b", "c"] {
        assert_eq!(starts(&scene.wait(secs(5))), [key]);
    }
}

#[test]
fn a_refused_decision_is_made_again_without_slots_and_loses_nothing() {
    let mut scene = Scene::begin_with(pipeline(vec![step("a"), step("b").needs(&["a"])], vec![]), 1);
    let before = scene.flow().clone();
    let run = scene.run("a");
    let input = Input::RunEnded {
        run,
        ending: orc_domain::input::Ending::Delivered { output: orc_testkit::fixture::output([]) },
        told: None,
    };
    let signed = Signed { by: Principal::System, input: input.clone() };
    let context = Context { now: BEGIN, slots: 1, grace: GRACE, full: BTreeMap::new() };
    let load = || Resident::new(before.clone(), Arc::clone(scene.resident.pipeline()));
    let (_, refused) = decide(load(), &signed, &context);
    assert_eq!(refused.claims.len(), 1);
    let (kept, decision) = decide(load(), &signed, &Context { slots: 0, ..context.clone() });
    assert_eq!((decision.claims.len(), decision.releases.len()), (0, 1));
    assert!(kept.wants_slot().is_some());
    // Asked once more with slots, the same run is started as in the decision that was refused.
    let alarm = Signed { by: Principal::System, input: Input::Alarm };
    let (_, started) = decide(kept, &alarm, &context);
    assert_eq!(started.claims, refused.claims);
    scene.hear(input);
}
