//! What the model gateway tells of a run: its calls meet a wall, or its provider takes none.

use orc_domain::budget::{Budget, OnExhausted, Wall};
use orc_domain::effect::{Decision, EffectKind};
use orc_domain::flow::{FlowOutcome, StepState};
use orc_domain::graph::Pipeline;
use orc_domain::input::{Ending, Input};
use orc_domain::meter::{Limits, Owner, Shortfall};
use orc_domain::money::UsdMicros;
use orc_domain::request::Answer;
use orc_domain::run::{StopReason, WakeReason};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::transition::Transition;
use orc_testkit::fixture::{agent, child, pipeline, step};

use crate::scene::{GRACE, Scene, children, exit, secs, starts, stops};

fn dollars(dollars: i64, on_exhausted: OnExhausted) -> Budget {
    Budget { usd: Some(UsdMicros::from_micros(dollars * 1_000_000)), on_exhausted, ..Budget::default() }
}

fn budgeted(on_exhausted: OnExhausted) -> Scene {
    let steps = vec![agent("a", "coder"), agent("b", "coder"), step("c").needs(&["a"])];
    let budget = Some(dollars(5, on_exhausted));
    Scene::begin_with(Pipeline { budget, ..pipeline(steps, vec![step("f")]) }, 10)
}

const FIGURES: &str = "$4.50 of $5.00 are used, and the next call needs $1.02 set aside: its input at most, and the 36095 tokens \
                       of output that it cannot do without";

fn refused(scene: &mut Scene, path: &str, whose: Option<Owner>) -> Decision {
    let run = scene.run(path);
    let whose = whose.unwrap_or(Owner::Run(run));
    let short = Shortfall { limit: 5_000_000, spent: 4_500_000, held: 0, needed: 1_020_000, output: 36_095 };
    scene.hear(Input::CallRefused { run, whose, wall: Wall::Usd, short })
}

fn parked(scene: &mut Scene, path: &str, until: Timestamp) -> Decision {
    let run = scene.run(path);
    scene.hear(Input::RunParked { run, provider: "one".to_owned(), until, why: "overloaded".to_owned() })
}

fn walls(decision: &Decision) -> Vec<(Owner, Limits)> {
    let call = decision.effects.iter().find_map(|effect| match &effect.kind {
        EffectKind::StartAgent { call, .. } => Some(call.walls.clone()),
        _ => None,
    });
    call.unwrap_or_default()
}

fn usd(dollars: i64) -> Limits {
    Limits { usd: Some(UsdMicros::from_micros(dollars * 1_000_000)), ..Limits::default() }
}

fn ends(scene: &mut Scene, path: &str) -> Decision {
    scene.end(path, Ending::Failed(exit(1)))
}

fn wake(scene: &Scene, path: &str) -> Option<(Timestamp, WakeReason)> {
    match &scene.step(path).state {
        StepState::Ready { not_before, wake, .. } => Some((*not_before, wake.clone())),
        _ => None,
    }
}

#[test]
fn a_call_refused_at_the_wall_of_its_step_ends_the_attempt_and_is_not_tried_again() {
    let step = agent("a", "coder").budget(dollars(1, OnExhausted::Fail)).retry(3, secs(1));
    let mut scene = Scene::begin(vec![step], vec![]);
    scene.started("a");
    assert_eq!(stops(&refused(&mut scene, "a", None)), [(StopReason::Wall(Wall::Usd), GRACE)]);
    assert!(refused(&mut scene, "a", None).is_empty(), "told again it is no news");
    ends(&mut scene, "a");
    assert_eq!(scene.picture(), [format!("a: failed: its budget of `usd` was reached: {FIGURES}")]);
}

#[test]
fn a_call_refused_at_the_wall_of_its_flow_ends_the_flow() {
    let mut scene = budgeted(OnExhausted::Fail);
    scene.started("a");
    scene.started("b");
    let flow = Some(Owner::Flow(scene.flow().spec.id));
    assert_eq!(stops(&refused(&mut scene, "a", flow)), [(StopReason::Cancel, GRACE); 2]);
    assert!(refused(&mut scene, "b", flow).is_empty());
    ends(&mut scene, "a");
    assert_eq!(starts(&ends(&mut scene, "b")), ["f"]);
    scene.deliver("f");
    assert_eq!(scene.outcome(), Some(FlowOutcome::BudgetExhausted));
    assert_eq!(scene.flow().head.detail, format!("its budget of `usd` was reached: {FIGURES}"));
}

#[test]
fn at_a_wall_that_may_be_raised_the_run_is_stopped_and_runs_again_when_it_is() {
    let mut scene = budgeted(OnExhausted::Wait(secs(600)));
    scene.started("a");
    scene.started("b");
    let flow = scene.flow().spec.id;
    let (first, whose) = (scene.run("a"), Some(Owner::Flow(flow)));
    assert_eq!(stops(&refused(&mut scene, "a", whose)), [(StopReason::FlowWall(Wall::Usd), GRACE)]);
    assert_eq!(starts(&ends(&mut scene, "a")), Vec::<String>::new());
    assert_eq!(
        stops(&refused(&mut scene, "b", whose)),
        [(StopReason::FlowWall(Wall::Usd), GRACE)],
        "one request is enough"
    );
    let asked: Vec<&str> = scene.flow().requests.values().map(|request| &*request.message).collect();
    assert_eq!(asked, [format!("The budget of `usd` is reached: {FIGURES}. Raise it by as much again?")]);
    assert_eq!(scene.flow().head.holds[0].note, FIGURES);
    scene.deliver("b");
    assert_eq!(scene.picture(), ["a: ready", "b: succeeded", "c: blocked", "f: blocked"], "what happened counts");
    assert_eq!(wake(&scene, "a").map(|(_, wake)| wake), Some(WakeReason::Recovery { lost: first }));
    let raised = scene.answer("", Answer::Approved, "admin");
    assert_eq!(starts(&raised), ["a"]);
    assert_eq!(walls(&raised), [(Owner::Flow(flow), usd(10))]);
    assert_eq!(scene.step("a").failures, 0);
    scene.deliver("a");
    assert_eq!(scene.took(Transition::StepAtWall), 1);
}

#[test]
fn a_wall_that_is_kept_ends_the_flow_with_what_waited_for_it() {
    let mut scene = budgeted(OnExhausted::Wait(secs(600)));
    scene.started("a");
    let whose = Some(Owner::Flow(scene.flow().spec.id));
    refused(&mut scene, "a", whose);
    ends(&mut scene, "a");
    assert_eq!(stops(&scene.answer("", Answer::Denied, "admin")), [(StopReason::Cancel, GRACE)]);
    assert_eq!(starts(&ends(&mut scene, "b")), ["f"]);
    scene.deliver("f");
    assert_eq!(scene.outcome(), Some(FlowOutcome::BudgetExhausted));
}

#[test]
fn a_call_refused_at_the_wall_of_a_flow_above_ends_the_flow_whatever_its_own_wall_does() {
    let inner = Pipeline {
        budget: Some(dollars(1, OnExhausted::Wait(secs(600)))),
        ..pipeline(vec![agent("x", "coder")], vec![])
    };
    let above = Pipeline { budget: Some(dollars(7, OnExhausted::Fail)), ..pipeline(vec![child("c", &inner)], vec![]) };
    let mut parent = Scene::begin_with(above, 10);
    let spec = children(&parent.last).pop().unwrap();
    let whose = Owner::Flow(parent.flow().spec.id);
    assert_eq!(spec.walls_above, [(whose, usd(7))]);
    let own = Owner::Flow(spec.id);
    let mut scene = Scene::begin_spec(spec, inner, 10);
    assert_eq!(walls(&scene.last), [(own, usd(1)), (whose, usd(7))]);
    scene.started("x");
    assert_eq!(stops(&refused(&mut scene, "x", Some(whose))), [(StopReason::Cancel, GRACE)]);
    ends(&mut scene, "x");
    assert_eq!(scene.outcome(), Some(FlowOutcome::BudgetExhausted));
    parent.child_ended("c", FlowOutcome::BudgetExhausted);
    assert_eq!(parent.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn a_run_whose_provider_takes_nothing_gives_its_slot_up_until_it_does() {
    let mut scene = Scene::begin(vec![agent("a", "coder").retry(1, secs(1)), step("b")], vec![]);
    scene.started("a");
    let (run, until) = (scene.run("a"), scene.now + Millis::from_secs(900));
    assert_eq!(stops(&parked(&mut scene, "a", until)), [(StopReason::Parked(until), GRACE)]);
    assert!(parked(&mut scene, "a", until).is_empty());
    ends(&mut scene, "a");
    assert_eq!(wake(&scene, "a"), Some((until, WakeReason::Recovery { lost: run })));
    scene.deliver("b");
    assert_eq!(starts(&scene.ring()), ["a"]);
    assert_eq!((scene.now, scene.step("a").failures), (until, 0));
    // A cancel ends the wait at once.
    let later = until + Millis::from_secs(900);
    parked(&mut scene, "a", later);
    ends(&mut scene, "a");
    scene.cancel();
    assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
}

#[test]
fn what_must_not_run_twice_fails_instead() {
    let mut scene = Scene::begin(vec![agent("a", "coder").not_idempotent()], vec![]);
    scene.started("a");
    let until = scene.now + Millis::from_secs(900);
    parked(&mut scene, "a", until);
    ends(&mut scene, "a");
    assert_eq!((scene.outcome(), scene.took(Transition::StepLostNotIdempotent)), (Some(FlowOutcome::Failed), 1));
}
