//! Requests: who may answer, how often, until when; and what withdraws them.

use orc_domain::action::OnTimeout;
use orc_domain::event::Fact;
use orc_domain::flow::FlowOutcome;
use orc_domain::ids::ContentHash;
use orc_domain::input::Input;
use orc_domain::permission::Scope;
use orc_domain::principal::Principal;
use orc_domain::request::{Answer, AnswerError, Standing};
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_testkit::fixture::{BEGIN, approval, numbers, repeat, step};

use crate::scene::{Scene, secs};

fn gate() -> Scene {
    Scene::begin(vec![approval("gate", &["lead"]), step("b").needs(&["gate"])], vec![])
}

#[test]
fn a_yes_lets_it_go_on_and_says_who_said_so() {
    let mut scene = gate();
    assert_eq!(
        (scene.last.claims.len(), scene.picture()),
        (0, vec!["gate: waits for request".to_owned(), "b: blocked".to_owned()])
    );
    scene.answer("gate", Answer::Approved, "lead");
    assert_eq!(scene.picture(), ["gate: succeeded", "b: active"]);
    let Some(Value::Map(fields)) = scene.step("gate").output.clone() else { panic!() };
    assert_eq!((&fields["answer"], &fields["by"]), (&Value::text("approved"), &Value::text("os:1000")));
}

#[test]
fn a_no_fails_the_step_and_nothing_said_later_changes_it() {
    let mut scene = gate();
    let request = scene.request("gate").id;
    scene.answer("gate", Answer::Denied, "lead");
    assert_eq!(scene.picture(), ["gate: failed: denied by os:1000", "b: skipped: `gate` failed"]);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    let late = scene.answer_to(request, Answer::Approved, "lead");
    assert_eq!((late.changes, late.transitions), (vec![], vec![Transition::FlowFinal]));
}

#[test]
fn an_answer_counts_once() {
    let mut scene = Scene::begin(vec![approval("gate", &["lead"]), step("b")], vec![]);
    let request = scene.request("gate").id;
    scene.answer("gate", Answer::Denied, "lead");
    for answer in [Answer::Denied, Answer::Approved, Answer::Withdrawn] {
        let late = scene.answer_to(request, answer, "lead");
        assert_eq!((late.changes, late.transitions), (vec![], vec![Transition::AnswerRefused]));
    }
    let resolved = scene.facts.iter().filter(|fact| matches!(fact, Fact::RequestResolved { .. }));
    assert_eq!(resolved.count(), 1);
}

#[test]
fn strangers_other_subjects_and_withdrawals_by_hand_do_not_count() {
    let mut scene = gate();
    let request = scene.request("gate");
    assert!(scene.answer("gate", Answer::Approved, "somebody").is_empty());
    assert!(scene.answer("gate", Answer::Approved, "admin").is_empty(), "who is named decides");
    assert!(scene.answer("gate", Answer::Withdrawn, "lead").is_empty());
    let standing = Standing { names: ["lead".to_owned()].into(), admin: false };
    let other = Some(ContentHash::of(b"something else"));
    let checked = scene.resident.check_answer(request.id, &scene.by, &standing, (other.as_ref(), Scope::Call));
    assert_eq!(checked, Err(Some(AnswerError::OtherSubject)));
    let answer = |subject| Input::Answer {
        request: request.id,
        answer: Answer::Approved,
        scope: Scope::Call,
        subject,
        standing: standing.clone(),
        reason: String::new(),
    };
    assert!(scene.hear(answer(other)).is_empty());
    scene.hear(answer(Some(request.subject.clone())));
    assert_eq!(scene.picture()[0], "gate: succeeded");
    assert_eq!(scene.took(Transition::AnswerRefused), 4);
}

#[test]
fn four_eyes_keeps_whoever_asked_from_answering() {
    let mut scene =
        Scene::begin(vec![approval("gate", &["lead"]).asking(|approval| approval.four_eyes = true)], vec![]);
    assert!(scene.answer("gate", Answer::Approved, "lead").is_empty());
    scene.by = Principal::Person("ada".to_owned());
    scene.answer("gate", Answer::Approved, "lead");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn silence_is_the_answer_that_was_said_and_is_given_once() {
    for (on_timeout, picture) in [
        (OnTimeout::Deny, "gate: failed: denied at its deadline: nobody answered within 1h"),
        (OnTimeout::Approve, "gate: succeeded"),
    ] {
        let main = vec![approval("gate", &["lead"]).asking(|approval| approval.on_timeout = on_timeout), step("b")];
        let mut scene = Scene::begin(main, vec![]);
        let request = scene.request("gate").id;
        scene.started("b");
        assert_eq!(scene.resident.wake_at(), Some(BEGIN + secs(3600)));
        let decision = scene.ring();
        assert!(
            decision
                .events
                .iter()
                .all(|event| event.actor == Principal::System || event.fact.kind() != "RequestResolved")
        );
        assert_eq!(scene.picture()[0], picture);
        assert!(scene.answer_to(request, Answer::Approved, "lead").is_empty());
    }
}

#[test]
fn people_are_reminded_and_later_tiers_may_answer_too() {
    let gate = approval("gate", &["lead"]).asking(|approval| approval.remind = Some(secs(600)));
    let mut scene = Scene::begin(vec![gate.tier(secs(900), "boss").tier(secs(1800), "ceo")], vec![]);
    assert!(scene.answer("gate", Answer::Approved, "boss").is_empty());
    let mut asked = Vec::new();
    for _ in 0..4 {
        let decision = scene.ring();
        asked.extend(decision.events.iter().filter_map(|event| match &event.fact {
            Fact::RequestReminded { by, .. } => Some((event.at.since(BEGIN), by.len())),
            _ => None,
        }));
    }
    assert_eq!(asked, [(secs(600), 1), (secs(900), 2), (secs(1500), 2), (secs(1800), 3)]);
    scene.answer("gate", Answer::Approved, "ceo");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn a_tier_adds_people_and_takes_the_right_of_none() {
    let mut scene = Scene::begin(vec![approval("gate", &[]).tier(secs(900), "boss")], vec![]);
    scene.ring();
    scene.answer("gate", Answer::Approved, "admin");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded), "an admin might before the tier");
}

#[test]
fn a_clock_that_jumps_closes_a_request_once_and_reminds_once() {
    let gate = approval("gate", &["lead"]).asking(|approval| approval.remind = Some(secs(600)));
    let mut scene = Scene::begin(vec![gate], vec![]);
    scene.wait(secs(3000));
    assert_eq!(scene.took(Transition::RequestReminded), 1, "five reminders were missed, one is given");
    scene.now = BEGIN;
    assert!(scene.wait(secs(0)).is_empty());
    scene.wait(secs(3600));
    assert_eq!(scene.took(Transition::RequestDeadline), 1);
}

#[test]
fn a_cancel_withdraws_the_request() {
    for force in [false, true] {
        let mut scene = Scene::begin(vec![approval("gate", &["lead"])], vec![approval("last", &["lead"])]);
        let request = scene.request("gate").id;
        if force {
            scene.force()
        } else {
            scene.cancel()
        };
        assert_eq!(scene.picture()[0], "gate: cancelled");
        assert!(scene.answer_to(request, Answer::Approved, "lead").is_empty());
        if !force {
            assert_eq!(scene.picture()[1], "last: waits for request");
            scene.cancel();
        }
        assert_eq!(scene.picture()[1], "last: cancelled");
        assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
    }
}

#[test]
fn each_round_and_each_element_asks_for_itself() {
    let body = vec![approval("gate", &["lead"]).foreach(numbers(2)).fail_fast()];
    let mut scene = Scene::begin(vec![repeat("check", 2, None, body)], vec![]);
    assert_eq!(scene.flow().requests.len(), 2);
    let first = scene.request("check~1/gate[0]").id;
    for element in ["check~1/gate[0]", "check~1/gate[1]"] {
        scene.answer(element, Answer::Approved, "lead");
    }
    assert_ne!(scene.request("check~2/gate[0]").id, first);
    scene.answer("check~2/gate[1]", Answer::Denied, "lead");
    assert_eq!(scene.flow().requests.len(), 0, "`fail_fast` withdraws what the sibling asks");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn an_approval_in_finally_is_withdrawn_at_the_deadline() {
    let mut scene = Scene::begin(vec![step("a")], vec![approval("last", &["lead"])]);
    scene.deliver("a");
    scene.ring();
    assert_eq!(scene.picture()[1], "last: cancelled");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn a_request_that_nobody_knows_is_refused() {
    let mut scene = gate();
    let unknown = orc_domain::ids::RequestId::derived(scene.flow().spec.id.uuid(), "nothing");
    assert!(scene.answer_to(unknown, Answer::Approved, "lead").is_empty());
}
