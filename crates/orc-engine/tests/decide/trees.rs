//! Trees: what each kind of step starts from and hands on, joins of fan-outs, conflicts and who resolves them, rounds that
//! get nowhere, what boxes refuse.

use orc_domain::action::WaitEvent;
use orc_domain::claim::{Claim, Holder};
use orc_domain::confine::{Violation, ViolationKind};
use orc_domain::effect::{Decision, EffectKind};
use orc_domain::event::Fact;
use orc_domain::flow::{FlowOutcome, Merging, StepState};
use orc_domain::graph::{OnLimit, Pipeline, RepositorySpec, StartFrom};
use orc_domain::input::{Ending, Input};
use orc_domain::principal::Principal;
use orc_domain::request::Answer;
use orc_domain::run::{Cause, ErrorFamily, Failure, StopReason, WakeReason};
use orc_domain::time::Millis;
use orc_domain::transition::Transition;
use orc_domain::tree::{Conflict, Place, PrivateCopy, Tip, Tree, tip_of};
use orc_domain::value::Value;
use orc_engine::{Again, New, fork};
use orc_testkit::fixture::{
    StepFixture, agent, approval, child, event, flow_id, group, literal, numbers, output, pause, pipeline, read,
    repeat, step, tree,
};

use crate::scene::{Scene, asks, children, secs, starts};

/// Something that happens to a flow.
type Happens = fn(&mut Scene) -> Decision;

fn run(key: &str) -> StepFixture {
    step(key).parents()
}

fn one(number: u64) -> Tree {
    tree([(".", number)])
}

/// `a 1`: the commit of the only repository by its number, or `a .=1 ../docs=2`.
fn word(tip: &Tip) -> String {
    let number = |commit: &str| u64::from_str_radix(commit, 16).unwrap();
    let commits: Vec<_> = tip.tree.0.iter().map(|(path, commit)| (path.as_str(), number(commit.as_str()))).collect();
    match commits.as_slice() {
        [(".", only)] => format!("{} {only}", tip.by),
        commits => {
            let commits: Vec<String> = commits.iter().map(|(path, number)| format!("{path}={number}")).collect();
            format!("{} {}", tip.by, commits.join(" "))
        }
    }
}

fn words(tips: &[Tip]) -> Vec<String> {
    tips.iter().map(word).collect()
}

/// The copy that a decision gives to the run of a step.
fn copy(decision: &Decision, path: &str) -> PrivateCopy {
    let found = decision.effects.iter().find_map(|effect| match &effect.kind {
        EffectKind::StartRun { command, .. } if command.path.as_str() == path => Some(command.place.clone()),
        EffectKind::StartAgent { call, .. } if call.path.as_str() == path => Some(call.place.clone()),
        EffectKind::Join { path: joined, copy, .. } if joined.as_str() == path => {
            Some(Place::Boxed { copy: Some(copy.clone()), rules: Default::default() })
        }
        _ => None,
    });
    match found.unwrap_or_else(|| panic!("`{path}` is not started by {:?}", decision.effects)) {
        Place::Boxed { copy: Some(copy), .. } => copy,
        other => panic!("`{path}` has no copy: {other:?}"),
    }
}

fn from(decision: &Decision, path: &str) -> Vec<String> {
    words(&copy(decision, path).from)
}

fn is_join(decision: &Decision) -> bool {
    decision.effects.iter().any(|effect| matches!(effect.kind, EffectKind::Join { .. }))
}

fn clash() -> Failure {
    let conflict = Conflict {
        repository: ".".to_owned(),
        files: vec!["f".to_owned()],
        count: 1,
        ours: "a".to_owned(),
        theirs: "b".to_owned(),
    };
    Failure { family: ErrorFamily::Unknown, cause: Cause::Conflict(conflict), detail: String::new() }
}

impl Scene {
    /// The run of a step delivers, and its copy ended with this tree.
    fn make(&mut self, path: &str, tree: Tree) -> Decision {
        let kept = Input::RunKept { run: self.run(path), artifacts: [].into(), tree: Some(tree) };
        self.hear(kept);
        self.deliver(path)
    }

    /// The run of a step finds that what it starts from contradicts itself.
    fn clash(&mut self, path: &str) -> Decision {
        self.end(path, Ending::Failed(clash()))
    }

    fn tips(&self, path: &str) -> Vec<String> {
        words(&self.step(path).tips)
    }

    fn flow_tips(&self) -> Vec<String> {
        words(&self.flow().head.tips)
    }
}

fn begin(main: Vec<StepFixture>) -> Scene {
    Scene::begin(main, vec![])
}

#[test]
fn a_chain_goes_on_from_commit_to_commit() {
    let mut scene = begin(vec![run("a"), run("b").needs(&["a"]), run("c").needs(&["b"])]);
    let first = copy(&scene.last, "a");
    assert_eq!((words(&first.from), first.goes_on, first.holds_conflict), (vec![], false, false));
    assert_eq!(first.repositories, scene.flow().spec.repositories);
    assert_eq!(from(&scene.make("a", one(1)), "b"), ["a 1"]);
    // Nothing changed: the commits that it started from come back.
    assert_eq!(from(&scene.make("b", one(1)), "c"), ["a 1"]);
    scene.make("c", one(3));
    assert_eq!((scene.tips("b"), scene.flow_tips()), (vec!["a 1".to_owned()], vec!["c 3".to_owned()]));
}

#[test]
fn a_diamond_brings_its_sides_together_in_the_order_of_needs() {
    let steps = || vec![run("a"), run("b").needs(&["a"]), run("c").needs(&["a"]), run("d").needs(&["c", "b"])];
    let table = [
        // What b and c end with; what d starts from.
        (2, 3, vec!["c 3", "b 2"]),
        (1, 3, vec!["c 3", "a 1"]),
        (1, 1, vec!["a 1"]),
        (2, 2, vec!["c 2"]),
    ];
    for (b, c, wanted) in table {
        let mut scene = begin(steps());
        scene.make("a", one(1));
        scene.make("b", one(b));
        assert_eq!(from(&scene.make("c", one(c)), "d"), wanted, "{b} {c}");
        // A merge of several is a commit of its own, whatever it changes.
        scene.make("d", one(9));
        assert_eq!(scene.flow_tips(), ["d 9"]);
    }
}

#[test]
fn what_has_no_copy_of_its_own_hands_on_what_it_was_handed() {
    let between: Vec<(StepFixture, Happens)> = vec![
        (step("b").when(literal(false)), |scene| scene.last.clone()),
        (run("b").when(literal(false)), |scene| scene.last.clone()),
        (step("b"), |scene| scene.deliver("b")),
        (step("b").starting(StartFrom::None), |scene| scene.deliver("b")),
        (run("b").continue_on_fail(), |scene| scene.fail("b")),
        (approval("b", &["lead"]), |scene| scene.answer("b", Answer::Approved, "lead")),
        (pause("b", "1s"), |scene| scene.wait(secs(1))),
        (event("b", WaitEvent::FlowFinished, None, secs(9)).continue_on_fail(), |scene| scene.wait(secs(9))),
        (run("b").foreach(numbers(0)), |scene| scene.last.clone()),
        (child("b", &pipeline(vec![step("x")], vec![])).continue_on_fail(), |scene| {
            scene.child_ended("b", FlowOutcome::Failed)
        }),
    ];
    for (between, go_on) in between {
        let last = run("c").needs(&["b"]).when(orc_testkit::fixture::status(orc_domain::expr::StatusFn::Always));
        let mut scene = begin(vec![run("a"), between.needs(&["a"]), last]);
        scene.make("a", one(1));
        let decision = go_on(&mut scene);
        assert_eq!(from(&decision, "c"), ["a 1"], "{:?}", scene.picture());
        assert_eq!(scene.tips("b"), ["a 1"]);
    }
}

#[test]
fn a_fresh_step_starts_from_the_base_and_its_result_is_all_it_hands_on() {
    let mut scene = begin(vec![run("a"), run("b").fresh().needs(&["a"]), run("c").needs(&["b", "a"])]);
    assert_eq!(from(&scene.make("a", one(1)), "b"), Vec::<String>::new());
    assert_eq!(from(&scene.make("b", one(2)), "c"), ["b 2", "a 1"]);
    let mut idle = begin(vec![run("a"), run("b").fresh().needs(&["a"]), run("c").needs(&["b"])]);
    idle.make("a", one(1));
    assert_eq!(from(&idle.make("b", one(0)), "c"), Vec::<String>::new(), "the base is no tip");
}

#[test]
fn the_last_delivery_of_a_step_counts_also_when_it_took_everything_back() {
    let mut scene = begin(vec![agent("a", "coder").parents(), run("b").needs(&["a"])]);
    scene.write("a", 1);
    let decision = scene.make("a", one(1));
    assert!(copy(&decision, "a").goes_on, "it goes on in its copy");
    assert_eq!(from(&scene.make("a", one(0)), "b"), Vec::<String>::new());
    assert_eq!(scene.tips("a"), Vec::<String>::new());
}

#[test]
fn a_step_that_goes_back_to_the_base_hands_on_the_base() {
    let mut scene = begin(vec![run("a"), run("b").needs(&["a"]), run("c").needs(&["b"])]);
    scene.make("a", one(1));
    assert_eq!(from(&scene.make("b", one(0)), "c"), Vec::<String>::new());
}

#[test]
fn a_lost_agent_goes_on_in_its_copy_and_a_retry_starts_again() {
    let mut scene = begin(vec![agent("a", "coder").parents().retry(2, secs(1))]);
    assert!(copy(&scene.lose("a", true), "a").goes_on);
    scene.fail("a");
    assert!(!copy(&scene.ring(), "a").goes_on);
    let mut scene = begin(vec![run("a")]);
    assert!(!copy(&scene.lose("a", true), "a").goes_on, "a command begins anew");
}

fn fan(count: u32) -> Vec<StepFixture> {
    vec![run("a"), run("f").needs(&["a"]).foreach(numbers(count)), run("c").needs(&["f"])]
}

#[test]
fn a_fan_out_joins_what_more_than_one_element_made() {
    // What the elements end with; what c starts from. More than one: a run merges them first.
    let table = [
        ([1, 1, 1], vec!["a 1"], false),
        ([1, 5, 1], vec!["f[1] 5"], false),
        ([5, 5, 1], vec!["f[0] 5"], false),
        ([4, 1, 6], vec!["f[0] 4", "f[2] 6"], true),
        ([4, 5, 6], vec!["f[0] 4", "f[1] 5", "f[2] 6"], true),
    ];
    for (made, wanted, joins) in table {
        let mut scene = begin(fan(3));
        let decision = scene.make("a", one(1));
        assert_eq!(from(&decision, "f[2]"), ["a 1"], "elements start where their fan-out does");
        for (at, number) in made.into_iter().enumerate() {
            scene.make(&format!("f[{at}]"), one(number));
        }
        let decision = scene.last.clone();
        assert_eq!(is_join(&decision), joins, "{made:?}");
        if !joins {
            assert_eq!(from(&decision, "c"), wanted);
            continue;
        }
        assert_eq!(from(&decision, "f"), wanted);
        assert_eq!(scene.picture()[1], "f: active");
        assert!(decision.claims.iter().any(|claim| matches!(claim, Claim::Slot { .. })), "a merge takes a slot");
        assert_eq!(from(&scene.make("f", one(9)), "c"), ["f 9"]);
        assert_eq!(scene.step("f").output, None);
        assert_eq!((scene.took(Transition::StepJoins), scene.took(Transition::StepJoined)), (1, 1));
    }
}

#[test]
fn a_fan_out_of_steps_without_copies_merges_nothing() {
    for from_where in [StartFrom::None, StartFrom::InPlace] {
        let fan = step("f").starting(from_where).needs(&["a", "b"]).foreach(numbers(2));
        let mut scene = begin(vec![run("a"), run("b"), fan, run("c").needs(&["f"])]);
        scene.make("a", one(1));
        scene.make("b", one(2));
        scene.deliver("f[0]");
        assert_eq!(from(&scene.deliver("f[1]"), "c"), ["a 1", "b 2"]);
        assert_eq!(scene.tips("f[0]"), Vec::<String>::new(), "a thousand of them would repeat it a thousand times");
    }
}

#[test]
fn a_fan_out_of_child_flows_keeps_what_those_that_failed_were_handed() {
    let inner = pipeline(vec![run("x").fresh()], vec![]);
    let fan = child("f", &inner).foreach(numbers(2)).needs(&["a"]).continue_on_fail();
    let mut scene = begin(vec![run("a"), fan, run("c").needs(&["f"])]);
    scene.make("a", one(1));
    let flow = scene.child("f[0]");
    let (outcome, tips) = (FlowOutcome::Succeeded, vec![tip_of(&"x".parse().unwrap(), one(4))]);
    scene.hear(Input::ChildEnded { flow, outcome, output: None, tips, detail: String::new() });
    assert_eq!(from(&scene.child_ended("f[1]", FlowOutcome::Failed), "c"), ["a 1", "f[0]/x 4"]);
}

#[test]
fn a_failed_fan_out_hands_on_what_its_elements_made_unmerged() {
    let fan = run("f").foreach(numbers(3)).continue_on_fail();
    let mut scene = begin(vec![fan, run("c").needs(&["f"])]);
    scene.make("f[0]", one(4));
    scene.make("f[1]", one(5));
    assert_eq!(from(&scene.fail("f[2]"), "c"), ["f[0] 4", "f[1] 5"]);
}

#[test]
fn a_merge_waits_for_a_slot_like_any_run_and_takes_no_place_of_its_elements() {
    let fan = agent("f", "coder").parents().foreach(numbers(2)).not_idempotent();
    let fan = fan.concurrency(group("g", 2, OnLimit::Skip)).env("N", read("item"));
    let mut pipeline = pipeline(vec![fan, run("c").needs(&["f"])], vec![]);
    pipeline.agents.get_mut("coder").unwrap().max_concurrent = Some(2);
    let mut scene = Scene::begin_with(pipeline, 2);
    scene.make("f[0]", one(4));
    scene.slots = 0;
    // Everybody else is in its groups by now.
    let other = |number| Holder { flow: flow_id(number), step: None };
    for name in ["g", "agent:coder"] {
        scene.full.insert(name.to_owned(), vec![other(7), other(8)]);
    }
    scene.make("f[1]", one(5));
    assert_eq!(scene.picture()[0], "f: held by slot");
    assert!(scene.resident.wants_slot().is_some() && scene.resident.wants_groups().is_empty());
    assert!(!scene.resident.only_waits());
    scene.slots = 1;
    let decision = scene.hear(Input::Alarm);
    assert_eq!((starts(&decision), is_join(&decision)), (vec!["f".to_owned()], true));
    assert!(decision.claims.iter().all(|claim| matches!(claim, Claim::Slot { .. })));
    // A merge changes nothing outside: lost, it is made again.
    assert!(is_join(&scene.lose("f", true)));
    assert!(is_join(&scene.lose("f", false)));
    assert_eq!(from(&scene.make("f", one(9)), "c"), ["f 9"]);
}

#[test]
fn a_merge_that_is_cancelled_ends_as_it_ends() {
    let ends: [(Happens, &str); 3] = [
        (|scene| scene.make("f", one(9)), "f: succeeded"),
        (|scene| scene.clash("f"), "f: cancelled"),
        (|scene| scene.lose("f", true), "f: cancelled"),
    ];
    for (end, wanted) in ends {
        let mut scene = begin(vec![run("f").foreach(numbers(2)).on_conflict("mender")]);
        scene.make("f[0]", one(4));
        scene.make("f[1]", one(5));
        scene.cancel();
        end(&mut scene);
        assert_eq!((scene.picture()[0].as_str(), scene.outcome()), (wanted, Some(FlowOutcome::Cancelled)));
    }
    let mut scene = begin(vec![run("f").foreach(numbers(2))]);
    scene.make("f[0]", one(4));
    scene.cancel();
    scene.make("f[1]", one(5));
    assert_eq!(scene.picture()[0], "f: succeeded", "nobody merges for a flow that is cancelled");
    assert_eq!(scene.flow_tips(), ["f[0] 4", "f[1] 5"]);
}

#[test]
fn no_merge_begins_after_the_deadline_of_finally() {
    let fan = run("f").foreach(numbers(2)).timeout(secs(890));
    let mut scene = Scene::begin(vec![step("a")], vec![fan]);
    scene.deliver("a");
    scene.started("f[1]");
    scene.make("f[0]", one(4));
    scene.wait(secs(890));
    scene.wait(secs(20));
    let kept = Input::RunKept { run: scene.run("f[1]"), artifacts: [].into(), tree: Some(one(5)) };
    scene.hear(kept);
    assert!(!is_join(&scene.deliver("f[1]")));
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn a_merge_that_no_git_can_make_is_tried_as_often_as_retry_says() {
    let broken = || Failure {
        family: ErrorFamily::SandboxInfrastructure,
        cause: Cause::Worktree,
        detail: "disk full".to_owned(),
    };
    let mut scene = begin(vec![run("f").foreach(numbers(2)).retry(2, secs(1))]);
    scene.make("f[0]", one(4));
    scene.make("f[1]", one(5));
    scene.end("f", Ending::Failed(broken()));
    assert!(is_join(&scene.ring()));
    scene.end("f", Ending::Failed(broken()));
    let text = "f: failed: its private copy cannot be made or kept: disk full";
    assert_eq!(
        (scene.picture()[0].as_str(), scene.flow_tips()),
        (text, vec!["f[0] 4".to_owned(), "f[1] 5".to_owned()])
    );
}

#[test]
fn a_conflict_that_nobody_resolves_fails_the_step_at_once_and_both_sides_go_on() {
    let join = run("c").needs(&["a", "b"]).retry(5, secs(1)).continue_on_fail();
    let mut scene = begin(vec![run("a"), run("b"), join, run("d").needs(&["c"])]);
    scene.make("a", one(1));
    scene.make("b", one(2));
    let decision = scene.clash("c");
    assert_eq!(scene.picture()[2], "c: failed: conflict: `a` and `b` both changed f");
    assert_eq!(from(&decision, "d"), ["a 1", "b 2"], "a contradiction is never dropped");
    let mut scene = begin(vec![run("f").foreach(numbers(2)).retry(5, secs(1)), run("d").needs(&["f"])]);
    scene.make("f[0]", one(4));
    scene.make("f[1]", one(5));
    scene.clash("f");
    assert_eq!(scene.picture()[0], "f: failed: conflict: `a` and `b` both changed f");
    assert_eq!(scene.tips("f"), ["f[0] 4", "f[1] 5"]);
}

/// Two steps that contradict each other, and one that needs both.
fn mended(join: StepFixture) -> Scene {
    let mut scene = begin(vec![run("a"), run("b"), join.needs(&["a", "b"]).on_conflict("mender")]);
    scene.make("a", one(1));
    scene.make("b", one(2));
    scene
}

#[test]
fn the_agent_of_on_conflict_resolves_and_then_the_step_itself_runs() {
    let mut scene = mended(run("c").retry(2, secs(1)).not_idempotent());
    let decision = scene.clash("c");
    let given = copy(&decision, "c");
    assert_eq!(words(&given.from), ["a 1", "b 2"]);
    assert_eq!((given.holds_conflict, given.goes_on), (true, false));
    assert_eq!(scene.flow().runs[&scene.run("c")].wake, WakeReason::Conflict);
    assert_eq!(scene.step("c").merging, Merging::Contradicting(None));
    // Lost, it goes on; `idempotent: false` speaks of the step's own command.
    let decision = scene.lose("c", true);
    assert_eq!((copy(&decision, "c").holds_conflict, copy(&decision, "c").goes_on), (true, true));
    // It failed: the same conflict again, in a new copy.
    scene.fail("c");
    let decision = scene.ring();
    assert_eq!((copy(&decision, "c").holds_conflict, copy(&decision, "c").goes_on), (true, false));
    assert_eq!(scene.flow().runs[&scene.run("c")].wake, WakeReason::Conflict);
    let decision = scene.make("c", one(7));
    assert_eq!(scene.step("c").merging, Merging::Resolved(one(7)));
    assert_eq!(scene.step("c").failures, 0, "the step has all of its `retry:`");
    let given = copy(&decision, "c");
    // What the others made stands behind what was brought together, of which it is a part by now.
    let tips = ["c 7", "a 1", "b 2"].map(str::to_owned);
    assert_eq!((words(&given.from), given.holds_conflict, given.goes_on), (tips.to_vec(), false, false));
    assert!(matches!(decision.effects[0].kind, EffectKind::StartRun { .. }));
    // It failed once: one attempt is left, from what was resolved.
    scene.fail("c");
    assert_eq!(from(&scene.ring(), "c"), tips);
    scene.make("c", one(7));
    assert_eq!(scene.flow_tips(), ["c 7"], "what was resolved goes on although the step changed nothing");
    let attempts: Vec<u32> =
        scene.runs.values().filter(|run| run.path.as_str() == "c").map(|run| run.attempt).collect();
    assert_eq!(attempts.len(), 6);
}

#[test]
fn whoever_resolves_is_an_agent_like_any_other() {
    // It asks, is answered, and goes on in its copy.
    let mut scene = mended(run("c"));
    scene.clash("c");
    scene.end("c", asks());
    assert_eq!(scene.picture()[2], "c: waits for request");
    let decision = scene.answer("c", Answer::Approved, "admin");
    assert_eq!((copy(&decision, "c").holds_conflict, copy(&decision, "c").goes_on), (true, true));
    scene.make("c", one(7));
    // It is told something while it works: read before the conflict counts as resolved.
    let mut scene = mended(run("c"));
    scene.clash("c");
    scene.write("c", 1);
    let decision = scene.make("c", one(7));
    assert_eq!((scene.given("c"), copy(&decision, "c").goes_on), (vec!["message 1".to_owned()], true));
    assert_eq!(from(&scene.make("c", one(8)), "c"), ["c 8", "a 1", "b 2"]);
    scene.write("c", 2);
    assert_eq!(scene.last.transitions, [Transition::MessageLate], "a command reads nothing");
    // Denied, failed, cancelled: the step ends, and both sides go on.
    let ends: [(Happens, &str); 4] = [
        (
            |scene| {
                scene.end("c", asks());
                scene.answer("c", Answer::Denied, "admin")
            },
            "c: failed: denied by os:1000",
        ),
        (|scene| scene.fail("c"), "c: failed: exit code 1"),
        (
            |scene| {
                scene.cancel();
                scene.fail("c")
            },
            "c: cancelled",
        ),
        (|scene| scene.deliver("c"), "c: failed: its private copy cannot be made or kept"),
    ];
    for (end, wanted) in ends {
        let mut scene = mended(run("c"));
        scene.clash("c");
        end(&mut scene);
        assert_eq!(
            (scene.picture()[2].as_str(), scene.flow_tips()),
            (wanted, vec!["a 1".to_owned(), "b 2".to_owned()])
        );
    }
}

#[test]
fn a_cancel_between_the_resolution_and_the_step_keeps_what_was_resolved() {
    let mut scene = mended(run("c"));
    scene.clash("c");
    scene.cancel();
    scene.make("c", one(7));
    let tips = ["c 7", "a 1", "b 2"].map(str::to_owned).to_vec();
    assert_eq!((scene.picture()[2].as_str(), scene.flow_tips()), ("c: cancelled", tips));
}

#[test]
fn a_conflict_of_elements_is_resolved_for_the_fan_out() {
    let fan = run("f").foreach(numbers(2)).on_conflict("mender").not_idempotent().env("N", read("item"));
    let fan = fan.concurrency(group("g", 2, OnLimit::Skip));
    let mut drawn = pipeline(vec![fan, run("c").needs(&["f"])], vec![]);
    drawn.agents.get_mut("mender").unwrap().max_concurrent = Some(1);
    let mut scene = Scene::begin_with(drawn, 9);
    scene.make("f[0]", one(4));
    scene.make("f[1]", one(5));
    let decision = scene.clash("f");
    assert_eq!(words(&copy(&decision, "f").from), ["f[0] 4", "f[1] 5"]);
    assert!(copy(&decision, "f").holds_conflict);
    assert_eq!(scene.step("f").places, ["agent:mender"], "the agent's own place, and none of the elements'");
    let decision = scene.lose("f", true);
    assert!(copy(&decision, "f").goes_on);
    // Perhaps not all of them contradicted each other only once: the merge is tried again.
    assert_eq!(from(&scene.make("f", one(9)), "f"), ["f 9", "f[0] 4", "f[1] 5"]);
    let decision = scene.clash("f");
    assert_eq!(words(&copy(&decision, "f").from), ["f 9", "f[0] 4", "f[1] 5"]);
    assert_eq!(from(&scene.make("f", one(10)), "f"), ["f 10", "f[0] 4", "f[1] 5"]);
    assert_eq!(from(&scene.make("f", one(11)), "c"), ["f 11"]);
    assert_eq!((scene.took(Transition::StepContradicts), scene.took(Transition::StepResolved)), (2, 2));
}

#[test]
fn contradictions_that_never_end_do_end() {
    let mut scene = mended(run("c"));
    for made in 10..40 {
        scene.clash("c");
        if scene.picture()[2].starts_with("c: failed") {
            break;
        }
        scene.make("c", one(made));
    }
    assert_eq!(scene.picture()[2], "c: failed: conflict: `a` and `b` both changed f");
}

#[test]
fn a_conflict_is_resolved_once() {
    let mut scene = mended(run("c"));
    scene.clash("c");
    scene.clash("c");
    assert_eq!(scene.picture()[2], "c: failed: conflict: `a` and `b` both changed f", "the agent's copy holds it");
}

#[test]
fn a_fan_out_in_a_repeat_goes_on_from_round_to_round() {
    let body = vec![run("f").foreach(numbers(2)), run("g").needs(&["f"])];
    let mut scene = begin(vec![run("a"), repeat("r", 2, None, body).needs(&["a"]), run("z").needs(&["r"])]);
    assert_eq!(from(&scene.make("a", one(1)), "r~1/f[1]"), ["a 1"]);
    scene.make("r~1/f[0]", one(2));
    assert_eq!(from(&scene.make("r~1/f[1]", one(3)), "r~1/f"), ["r~1/f[0] 2", "r~1/f[1] 3"]);
    assert_eq!(from(&scene.make("r~1/f", one(4)), "r~1/g"), ["r~1/f 4"]);
    assert_eq!(from(&scene.make("r~1/g", one(5)), "r~2/f[0]"), ["r~1/g 5"]);
    scene.make("r~2/f[0]", one(5));
    assert_eq!(from(&scene.make("r~2/f[1]", one(6)), "r~2/g"), ["r~2/f[1] 6"]);
    assert_eq!(from(&scene.make("r~2/g", one(6)), "z"), ["r~2/f[1] 6"]);
}

#[test]
fn a_round_without_progress_is_the_last_one() {
    let until = || Some(literal(false));
    let text = "r: failed: `until` did not hold after round 2, which changed nothing that the one before had not";
    // The body, what x ends with in each round and puts out; how it ends.
    type Round = (u64, i64);
    let table: [(Vec<StepFixture>, Option<_>, Vec<Round>, &str); 7] = [
        (vec![run("x")], until(), vec![(1, 1), (1, 1)], text),
        (vec![run("x")], until(), vec![(1, 1), (1, 2), (1, 1)], "r: failed: `until` did not hold after 3 rounds"),
        (vec![run("x")], until(), vec![(1, 1), (2, 1), (3, 1)], "r: failed: `until` did not hold after 3 rounds"),
        (vec![run("x")], None, vec![(1, 1), (1, 1), (1, 1)], "r: succeeded"),
        (vec![step("x")], until(), vec![(0, 1), (0, 1), (0, 1)], "r: failed: `until` did not hold after 3 rounds"),
        (
            vec![run("x"), repeat("q", 1, None, vec![step("y").when(literal(false))])],
            until(),
            vec![(1, 1), (1, 1), (1, 1)],
            "r: failed: `until` did not hold after 3 rounds",
        ),
        (
            vec![pause("w", "0s"), run("x").needs(&["w"])],
            until(),
            vec![(1, 1), (1, 1), (1, 1)],
            "r: failed: `until` did not hold after 3 rounds",
        ),
    ];
    for (body, until, rounds, wanted) in table {
        let mut scene = begin(vec![run("z").when(literal(false)), repeat("r", 3, until, body)]);
        for (round, (number, n)) in rounds.into_iter().enumerate() {
            scene.hear(Input::Alarm);
            let path = format!("r~{}/x", round + 1);
            let kept = Input::RunKept { run: scene.run(&path), artifacts: [].into(), tree: Some(one(number)) };
            scene.hear(kept);
            scene.deliver_with(&path, output([("n", Value::Int(n))]));
        }
        assert_eq!(scene.picture()[1], wanted);
    }
}

#[test]
fn rounds_that_only_merge_the_same_again_stand_still() {
    let body = vec![run("x"), run("y").when(literal(false))];
    let main = vec![run("a"), run("b"), repeat("r", 5, Some(literal(false)), body).needs(&["a", "b"])];
    let mut scene = begin(main);
    scene.make("a", one(1));
    scene.make("b", one(2));
    assert_eq!(from(&scene.make("r~1/x", one(3)), "r~2/x"), ["r~1/x 3", "a 1", "b 2"]);
    scene.make("r~2/x", one(3));
    assert_eq!(scene.took(Transition::RepeatNoProgress), 1);
}

#[test]
fn a_child_flow_starts_where_its_step_does_and_hands_its_tips_back() {
    let inner = pipeline(vec![run("x"), run("y")], vec![]);
    let mut scene = begin(vec![run("a"), child("c", &inner).needs(&["a"]), run("z").needs(&["c"])]);
    let decision = scene.make("a", one(1));
    let [spec] = children(&decision).try_into().unwrap();
    assert_eq!(words(&spec.from), ["a 1"]);
    assert_eq!(spec.repositories, scene.flow().spec.repositories);
    let mut inside = Scene::begin_spec(spec, inner, 9);
    assert_eq!((from(&inside.last, "x"), from(&inside.last, "y")), (vec!["a 1".to_owned()], vec!["a 1".to_owned()]));
    inside.make("x", one(2));
    inside.make("y", one(1));
    assert_eq!(inside.flow_tips(), ["x 2", "a 1"]);
    let Some(Input::ChildEnded { flow, outcome, output, tips, detail }) = inside.resident.ended() else { panic!() };
    let decision = scene.hear(Input::ChildEnded { flow, outcome, output, tips, detail });
    assert_eq!(from(&decision, "z"), ["c/x 2", "a 1"], "what the child made bears the name of its step here");
}

/// A flow of two repositories.
fn both(main: Vec<StepFixture>) -> Scene {
    let spec = |path: &str| RepositorySpec { path: path.to_owned(), base: None };
    let drawn = Pipeline { repositories: vec![spec("."), spec("../docs")], ..pipeline(main, vec![]) };
    Scene::begin_with(drawn, 9)
}

#[test]
fn what_a_step_has_no_copy_of_goes_past_it() {
    let two = |here, docs| tree([(".", here), ("../docs", docs)]);
    let mut scene = both(vec![run("a"), run("b").needs(&["a"]).only(&["."]), run("c").needs(&["b"])]);
    let decision = scene.make("a", two(1, 2));
    assert_eq!(copy(&decision, "b").repositories.len(), 1);
    assert_eq!(from(&scene.make("b", one(3)), "c"), ["b 3", "a ../docs=2"]);
    let mut idle = both(vec![run("a"), run("b").needs(&["a"]).only(&["."]), run("c").needs(&["b"])]);
    idle.make("a", two(1, 2));
    assert_eq!(from(&idle.make("b", one(1)), "c"), ["a .=1 ../docs=2"]);
    // Two that changed one repository each: whoever needs both starts from both, and changes nothing.
    let mut apart = both(vec![run("a"), run("b"), run("c").needs(&["a", "b"]), run("d").needs(&["c"])]);
    apart.make("a", two(1, 0));
    apart.make("b", two(0, 2));
    assert_eq!(from(&apart.make("c", two(1, 2)), "d"), ["a .=1 ../docs=0", "b .=0 ../docs=2"]);
    // A fan-out over one of them.
    let fan = || vec![run("a"), run("f").needs(&["a"]).only(&["."]).foreach(numbers(2)), run("c").needs(&["f"])];
    let mut scene = both(fan());
    scene.make("a", two(1, 2));
    scene.make("f[0]", one(1));
    assert_eq!(from(&scene.make("f[1]", one(5)), "c"), ["f[1] 5", "a ../docs=2"]);
    let mut scene = both(fan());
    scene.make("a", two(1, 2));
    scene.make("f[0]", one(4));
    let decision = scene.make("f[1]", one(5));
    assert_eq!((copy(&decision, "f").repositories.len(), from(&decision, "f").len()), (1, 3));
    assert_eq!(from(&scene.make("f", one(6)), "c"), ["f 6", "a ../docs=2"]);
    // And a conflict in it.
    let join = run("c").needs(&["a", "b"]).only(&["."]).on_conflict("mender");
    let mut scene = both(vec![run("a"), run("b"), join, run("d").needs(&["c"])]);
    scene.make("a", two(1, 2));
    scene.make("b", two(3, 0));
    scene.clash("c");
    assert_eq!(from(&scene.make("c", one(7)), "c"), ["c 7", "a .=1 ../docs=2", "b .=3 ../docs=0"]);
    assert_eq!(from(&scene.make("c", one(7)), "d"), ["c 7", "a ../docs=2"]);
}

#[test]
fn a_child_flow_with_fewer_repositories_loses_none() {
    let inner = pipeline(vec![run("x")], vec![]);
    let spec = |path: &str| RepositorySpec { path: path.to_owned(), base: None };
    let inner = Pipeline { repositories: vec![spec(".")], ..inner };
    let mut scene = both(vec![run("a"), child("c", &inner).needs(&["a"])]);
    let decision = scene.make("a", tree([(".", 1), ("../docs", 2)]));
    let [spec] = children(&decision).try_into().unwrap();
    let mut inside = Scene::begin_spec(spec, inner, 9);
    assert_eq!(copy(&inside.last, "x").repositories.len(), 1);
    inside.make("x", one(3));
    assert_eq!(inside.flow_tips(), ["x 3", "a ../docs=2"]);
}

fn carry_on(scene: &Scene, again: &Again) -> Scene {
    let new = New { id: flow_id(2), by: Principal::Os(1000), now: scene.now };
    let pipeline = scene.resident.pipeline();
    let spec = fork(scene.flow(), pipeline, again, new).unwrap();
    Scene::begin_spec(spec, Pipeline::clone(pipeline), 9)
}

#[test]
fn a_retry_of_a_flow_starts_from_what_was_made_before() {
    let mut scene = begin(vec![run("a"), run("b").needs(&["a"])]);
    scene.make("a", one(1));
    scene.fail("b");
    let retried = carry_on(&scene, &Again::Unfinished);
    assert_eq!((retried.tips("a"), from(&retried.last, "b")), (vec!["a 1".to_owned()], vec!["a 1".to_owned()]));
    let from_a = carry_on(&scene, &Again::From("a".to_owned()));
    assert_eq!(from(&from_a.last, "a"), Vec::<String>::new());
}

#[test]
fn a_result_that_is_the_base_is_taken_over_as_such() {
    let body = vec![run("x").fresh()];
    let main = vec![run("a"), repeat("r", 1, None, body).needs(&["a"]), run("z").needs(&["r"])];
    let mut scene = begin(main);
    scene.make("a", one(1));
    assert_eq!(from(&scene.make("r~1/x", one(0)), "z"), Vec::<String>::new());
    scene.fail("z");
    assert_eq!(from(&carry_on(&scene, &Again::Unfinished).last, "z"), Vec::<String>::new());
}

#[test]
fn whoever_found_a_group_full_runs_in_a_retry_and_what_depends_on_it_too() {
    let fan = run("f").foreach(numbers(2)).concurrency(group("g", 1, OnLimit::Skip));
    let mut scene = begin(vec![fan, run("c").needs(&["f"]), run("d").needs(&["c"])]);
    assert_eq!(scene.picture()[4], "f[1]: skipped: the concurrency group `g` was full");
    scene.make("f[0]", one(4));
    scene.make("c", one(5));
    scene.fail("d");
    let mut retried = carry_on(&scene, &Again::Unfinished);
    assert_eq!(starts(&retried.last), ["f[1]"]);
    assert_eq!(from(&retried.make("f[1]", one(6)), "f"), ["f[0] 4", "f[1] 6"]);
    assert_eq!(from(&retried.make("f", one(7)), "c"), ["f 7"], "what was made without it is made again");
}

#[test]
fn a_retry_takes_over_what_was_made_of_elements_together() {
    let fan = || run("f").foreach(numbers(2)).on_conflict("mender");
    let mut scene = begin(vec![fan(), run("c").needs(&["f"])]);
    scene.make("f[0]", one(4));
    scene.make("f[1]", one(5));
    scene.clash("f");
    scene.make("f", one(9));
    // What was brought together is merged with the rest, which it has all of.
    scene.make("f", one(9));
    scene.fail("c");
    let retried = carry_on(&scene, &Again::Unfinished);
    assert_eq!(starts(&retried.last), ["c"], "nobody resolves the same conflict twice");
    assert_eq!((from(&retried.last, "c"), retried.tips("f")), (vec!["f 9".to_owned()], vec!["f 9".to_owned()]));
    let again = carry_on(&scene, &Again::From("f".to_owned()));
    assert_eq!(starts(&again.last), ["f[0]", "f[1]"]);
    // An element ran again: what was made of the others is no longer all.
    let mut scene = begin(vec![run("f").foreach(numbers(2)), run("c").needs(&["f"])]);
    scene.make("f[0]", one(4));
    scene.fail("f[1]");
    let mut retried = carry_on(&scene, &Again::Unfinished);
    assert_eq!(starts(&retried.last), ["f[1]"]);
    assert_eq!(from(&retried.make("f[1]", one(6)), "f"), ["f[0] 4", "f[1] 6"]);
}

#[test]
fn an_approval_is_bound_to_the_commits_that_it_starts_from() {
    let subject = |number| {
        let mut scene = begin(vec![run("a"), approval("ok", &["lead"]).needs(&["a"])]);
        scene.make("a", one(number));
        scene.request("ok").subject
    };
    assert_eq!(subject(1), subject(1));
    assert_ne!(subject(1), subject(2));
}

#[test]
fn a_flow_without_repositories_hands_nothing_on() {
    let main = vec![step("a"), step("f").needs(&["a"]).foreach(numbers(2)), step("c").needs(&["f"])];
    let mut scene = begin(main);
    assert_eq!(scene.flow().spec.repositories, []);
    for path in ["a", "f[0]", "f[1]", "c"] {
        scene.deliver(path);
    }
    assert!(scene.flow().steps.iter().all(|step| step.tips.is_empty()));
    assert_eq!((scene.outcome(), scene.took(Transition::StepJoins)), (Some(FlowOutcome::Succeeded), 0));
}

#[test]
fn finally_starts_from_the_base() {
    let mut scene = Scene::begin(vec![run("a")], vec![run("z"), run("y").needs(&["z"])]);
    assert_eq!(from(&scene.make("a", one(1)), "z"), Vec::<String>::new());
    assert_eq!(from(&scene.make("z", one(2)), "y"), ["z 2"]);
    scene.make("y", one(3));
    assert_eq!(scene.flow_tips(), ["a 1"], "a flow hands on what its main part made");
}

#[test]
fn what_a_box_refuses_is_told_once() {
    let refused = |what: &str| Violation { kind: ViolationKind::Network, what: what.to_owned(), count: 2 };
    let mut scene = begin(vec![run("a")]);
    let (id, path) = (scene.run("a"), scene.step("a").path.clone());
    let input = |violations| Input::RunViolated { run: id, violations };
    let decision = scene.hear(input(vec![refused("x:80")]));
    let fact = |what| Fact::SandboxViolation { path: path.clone(), run: id, violation: refused(what) };
    let told: Vec<Fact> = decision.events.into_iter().map(|event| event.fact).collect();
    assert_eq!((told, decision.changes.is_empty()), (vec![fact("x:80")], false), "what is told is committed");
    assert!(scene.hear(input(vec![refused("x:80")])).is_empty(), "heard again it is no news");
    assert_eq!(scene.hear(input(vec![refused("x:80"), refused("y:80")])).events.len(), 1);
    scene.deliver("a");
    assert!(scene.hear(input(vec![refused("z:80")])).is_empty());
}

#[test]
fn copies_may_take_longer_to_be_made_than_processes_to_start() {
    for (fixture, deadline) in [(step("a"), 60), (step("a").starting(StartFrom::None), 60), (run("a"), 1800)] {
        let scene = begin(vec![fixture]);
        assert_eq!(scene.resident.wake_at(), Some(scene.now + secs(deadline)));
    }
    let mut scene = begin(vec![run("a"), child("f", &pipeline(vec![run("x")], vec![])).foreach(numbers(2))]);
    scene.make("a", one(0));
    for (at, number) in [(0, 4), (1, 5)] {
        let flow = scene.child(&format!("f[{at}]"));
        let tips = vec![tip_of(&"x".parse().unwrap(), one(number))];
        let outcome = FlowOutcome::Succeeded;
        scene.hear(Input::ChildEnded { flow, outcome, output: None, tips, detail: String::new() });
    }
    assert_eq!(from(&scene.last, "f"), ["f[0]/x 4", "f[1]/x 5"]);
    assert_eq!(scene.resident.wake_at(), Some(scene.now + secs(1800)));
    let decision = scene.wait(secs(1800));
    assert_eq!(crate::scene::stops(&decision), [(StopReason::StartDeadline, Millis::ZERO)]);
    scene.make("f", one(9));
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded), "what happened counts");
}

#[test]
fn a_merge_is_held_like_any_step() {
    let mut scene = begin(vec![run("f").foreach(numbers(2))]);
    scene.make("f[0]", one(4));
    scene.hold(None, None);
    scene.make("f[1]", one(5));
    assert!(matches!(scene.step("f").state, StepState::Ready { .. }));
    assert!(is_join(&scene.lift(None)));
}
