//! Runs of agents: what they owe, ask, hear, use; when they are silent, circle, or meet a bad moment.

use orc_domain::agent::{AgentStop, Statistics, Usage};
use orc_domain::effect::EffectKind;
use orc_domain::event::Fact;
use orc_domain::flow::{FlowOutcome, StepState};
use orc_domain::hold::HoldReason;
use orc_domain::ids::ContentHash;
use orc_domain::input::{Ending, Input};
use orc_domain::permission::{AskedCall, CallAnswer, Lasting, Scope};
use orc_domain::profile::{Adapter, BuiltIn};
use orc_domain::request::{Answer, RequestKind};
use orc_domain::run::{RunOutcome, RunState, StopReason, WakeReason};
use orc_domain::time::Millis;
use orc_domain::transition::Transition;
use orc_engine::{MAX_SILENCES, UPSTREAM_WAITS};
use orc_testkit::fixture::{self, agent, message_id, numbers, step};

use crate::scene::{GRACE, Scene, asks, owes, secs, starts, stops, upstream};

fn coder() -> Scene {
    Scene::begin(vec![agent("a", "coder").retry(2, secs(1)), step("b").needs(&["a"])], vec![])
}

/// Why the live run of a step was woken.
fn wake(scene: &Scene, path: &str) -> WakeReason {
    scene.flow().runs[&scene.run(path)].wake.clone()
}

#[test]
fn an_agent_that_owes_something_is_told_so_as_often_as_its_profile_says() {
    let mut scene = coder();
    for _ in 0..2 {
        assert_eq!(starts(&scene.end("a", owes())), ["a"]);
        let told = "Your last run ended without what it owes: `verdict`. Go on from there and submit it.";
        assert_eq!(scene.given("a"), [told]);
    }
    scene.end("a", owes());
    let expected = ["a: failed: it ended without what it owes: `verdict`", "b: skipped: `a` failed"];
    assert_eq!(scene.picture(), expected);
    let stop = |run: &orc_domain::run::Run| run.agent.as_ref().and_then(|agent| agent.stop);
    assert!(scene.runs.values().all(|run| stop(run) == Some(AgentStop::Contract)));
}

#[test]
fn a_question_is_put_to_people_and_its_answer_wakes_the_agent() {
    let mut scene = coder();
    let run = scene.run("a");
    assert_eq!(starts(&scene.end("a", asks())), Vec::<String>::new());
    assert_eq!(scene.picture()[0], "a: waits for request");
    let request = scene.request("a");
    let answer = Input::Answer {
        request: request.id,
        answer: Answer::Approved,
        scope: Scope::Call,
        subject: None,
        standing: orc_domain::request::Standing { names: [].into(), admin: true },
        reason: "The second.".to_owned(),
    };
    assert_eq!(starts(&scene.hear(answer.clone())), ["a"]);
    assert_eq!(scene.given("a"), ["The second."]);
    assert!(matches!(wake(&scene, "a"), WakeReason::UserMessage { .. }));
    assert!(scene.hear(answer).is_empty());
    assert!(matches!(scene.runs[&run].state, RunState::Finished { outcome: RunOutcome::Blocked { .. }, .. }));
}

/// A call that the agent of a step is asked about.
fn asked(id: &str) -> AskedCall {
    let lasting = Lasting::Rule { agent: "coder".to_owned(), rule: format!("Bash({id})") };
    AskedCall { id: id.to_owned(), tool: "Bash".to_owned(), subject: ContentHash::of(id.as_bytes()), lasting }
}

fn may_it(id: &str) -> Ending {
    Ending::Blocked { why: format!("may {id} run?"), call: Some(asked(id)) }
}

#[test]
fn whatever_is_answered_about_a_call_its_agent_goes_on_with_it_once() {
    for (answer, granted) in [(Some(Answer::Approved), true), (Some(Answer::Denied), false), (None, false)] {
        let mut scene = coder();
        let run = scene.run("a");
        scene.end("a", may_it("push"));
        let request = scene.request("a");
        assert_eq!(request.kind, RequestKind::Permission { run, call: asked("push") });
        assert_eq!((scene.picture()[0].as_str(), request.message.as_str()), ("a: waits for request", "may push run?"));
        let begun = match answer {
            Some(answer) => scene.answer("a", answer, "admin"),
            None => scene.ring(),
        };
        assert_eq!(starts(&begun), ["a"], "{answer:?}");
        let messages = scene.flow().runs[&scene.run("a")].agent.clone().unwrap().messages;
        assert_eq!(messages.len(), 1);
        let scope = if answer == Some(Answer::Denied) { Scope::Run } else { Scope::Call };
        assert_eq!(messages[0].answer, Some(CallAnswer { call: asked("push"), granted, scope }), "a no stays");
        assert!(answer.is_some() || messages[0].text.contains("nobody answered"), "{}", messages[0].text);
        assert!(scene.answer_to(request.id, Answer::Approved, "admin").is_empty(), "it has its answer");
        scene.deliver("a");
        assert_eq!(scene.picture()[0], "a: succeeded");
    }
}

#[test]
fn a_message_is_no_answer_to_whether_a_call_may_run() {
    let mut scene = coder();
    scene.write("a", 1);
    scene.end("a", may_it("push"));
    scene.write("a", 2);
    assert_eq!(scene.picture()[0], "a: waits for request");
    assert_eq!(starts(&scene.answer("a", Answer::Approved, "admin")), ["a"]);
    assert_eq!(scene.given("a"), ["message 1", "message 2", ""], "the last one is the answer");
    // Another call of the same step is another question.
    let first = scene.run("a");
    scene.end("a", may_it("tag"));
    assert_eq!(scene.request("a").kind, RequestKind::Permission { run: first, call: asked("tag") });
}

#[test]
fn a_question_that_is_denied_or_not_answered_fails_the_step() {
    for denied in [true, false] {
        let mut scene = coder();
        scene.end("a", asks());
        if denied {
            scene.answer("a", Answer::Denied, "admin");
        } else {
            scene.ring();
        }
        let picture = &scene.picture()[0];
        assert!(picture.starts_with("a: failed: denied"), "{picture}");
        assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    }
}

#[test]
fn a_message_answers_a_question_and_is_read_once() {
    let mut scene = coder();
    scene.end("a", asks());
    let request = scene.request("a").id;
    assert_eq!(starts(&scene.write("a", 1)), ["a"]);
    assert_eq!(scene.given("a"), ["message 1"]);
    assert!(scene.answer_to(request, Answer::Denied, "admin").is_empty(), "it has its answer");
    assert!(scene.write("a", 1).is_empty());
    scene.deliver("a");
    assert_eq!(scene.picture()[0], "a: succeeded");
}

#[test]
fn messages_wait_for_the_next_run_whatever_the_step_does() {
    let main = vec![step("p"), agent("a", "coder").needs(&["p"]).retry(2, secs(60))];
    let mut scene = Scene::begin(main, vec![]);
    scene.write("a", 1);
    scene.deliver("p");
    assert_eq!(scene.given("a"), ["message 1"], "a message to a step that was blocked");
    scene.write("a", 2);
    scene.fail("a");
    scene.write("a", 3);
    assert_eq!(scene.picture()[1], "a: ready", "a message does not shorten a back-off");
    scene.ring();
    assert_eq!(scene.given("a"), ["message 2", "message 3"]);
    scene.write("a", 4);
    assert_eq!(starts(&scene.deliver("a")), ["a"], "a message to a run that delivered wakes it again");
    assert_eq!(wake(&scene, "a"), WakeReason::UserMessage { message: message_id(4) });
    scene.deliver("a");
    let late = scene.write("a", 5);
    assert!(late.is_empty());
    assert_eq!(scene.outcome(), Some(FlowOutcome::Succeeded));
}

#[test]
fn a_message_that_comes_again_after_it_was_read_is_not_read_again() {
    let mut scene = Scene::begin(vec![agent("a", "coder").retry(3, secs(1))], vec![]);
    scene.write("a", 1);
    scene.fail("a");
    scene.ring();
    assert_eq!(scene.given("a"), ["message 1"]);
    scene.fail("a");
    assert!(scene.write("a", 1).is_empty());
    scene.ring();
    assert_eq!(scene.given("a"), Vec::<String>::new());
}

#[test]
fn messages_to_what_has_no_conversation_are_late() {
    let mut scene = Scene::begin(vec![agent("fan", "coder").foreach(numbers(2)), step("b")], vec![]);
    for path in ["b", "fan", "nowhere"] {
        let decision = scene.write(path, 1);
        assert_eq!((decision.changes, decision.transitions), (vec![], vec![Transition::MessageLate]), "{path}");
    }
    assert_eq!(scene.write("fan[1]", 1).transitions, [Transition::MessageKept]);
    scene.cancel();
    assert_eq!(scene.write("fan[0]", 2).transitions, [Transition::MessageLate]);
}

#[test]
fn a_lost_run_and_one_that_could_not_start_keep_their_messages() {
    let mut scene = Scene::begin(vec![agent("a", "coder").retry(5, secs(1))], vec![]);
    scene.write("a", 1);
    scene.fail("a");
    scene.ring();
    scene.write("a", 2);
    scene.lose("a", true);
    assert_eq!(scene.given("a"), ["message 1", "message 2"]);
    assert!(matches!(wake(&scene, "a"), WakeReason::Recovery { .. }));
    let not_started = orc_domain::run::Failure {
        family: orc_domain::run::ErrorFamily::SandboxInfrastructure,
        cause: orc_domain::run::Cause::Start,
        detail: String::new(),
    };
    scene.end("a", orc_domain::input::Ending::Failed(not_started));
    scene.ring();
    assert_eq!(scene.given("a"), ["message 1", "message 2"]);
    scene.lose("a", false);
    assert_eq!(scene.given("a"), ["message 1", "message 2"]);
}

#[test]
fn the_built_in_agent_reads_while_it_works() {
    let mut pipeline = fixture::pipeline(vec![agent("a", "coder").retry(5, secs(1))], vec![]);
    for profile in pipeline.agents.values_mut() {
        profile.adapter = Adapter::BuiltIn(BuiltIn::default());
    }
    let mut scene = Scene::begin_with(pipeline, 4);
    assert_eq!(scene.write("a", 1).transitions, [Transition::MessageKept], "its run does not go on yet");
    scene.started("a");
    let written = scene.write("a", 2);
    assert_eq!(written.transitions, [Transition::MessageSteers]);
    let run = scene.run("a");
    let effects: Vec<&EffectKind> = written.effects.iter().map(|effect| &effect.kind).collect();
    assert!(
        matches!(effects[..], [EffectKind::WriteRun { run: to, message }] if *to == run && message.text == "message 2")
    );
    assert!(scene.write("a", 2).is_empty(), "it was heard before");
    // What a lost run read is there for the next one, and what nobody read is behind it.
    scene.lose("a", true);
    assert_eq!(scene.given("a"), ["message 2", "message 1"]);
    scene.started("a");
    scene.cancel();
    assert_eq!(scene.write("a", 3).transitions, [Transition::MessageLate]);
}

#[test]
fn the_built_in_agent_is_paused_at_its_next_turn_and_goes_on_when_it_may() {
    let own = |name: &str| {
        let mut pipeline =
            fixture::pipeline(vec![agent("a", "coder"), agent("b", "coder").not_idempotent(), step("c")], vec![]);
        for profile in pipeline.agents.values_mut().filter(|profile| profile.name == name) {
            profile.adapter = Adapter::BuiltIn(BuiltIn::default());
        }
        pipeline
    };
    let mut scene = Scene::begin_with(own("coder"), 4);
    for path in ["a", "b", "c"] {
        scene.started(path);
    }
    let (hold, lift) = (
        Input::Hold { step: None, reason: HoldReason::Paused, note: String::new(), until: None },
        Input::Lift { step: None, reason: HoldReason::Paused },
    );
    let run = scene.run("a");
    // What must not run twice, and what is no agent of ours, comes to its end.
    let stops = stops(&scene.hear(hold));
    assert_eq!(stops.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(), [StopReason::Paused]);
    assert!(stops[0].1 > GRACE, "nobody is in a hurry: {stops:?}");
    let ended = scene.hear(Input::RunEnded { run, ending: killed(), told: None });
    assert_eq!(starts(&ended), Vec::<String>::new());
    assert!(ended.transitions.contains(&Transition::StepPaused));
    assert_eq!(starts(&scene.hear(lift)), ["a"]);
    assert_eq!(wake(&scene, "a"), WakeReason::Recovery { lost: run });
}

fn killed() -> orc_domain::input::Ending {
    orc_domain::input::Ending::Failed(orc_domain::run::Failure {
        family: orc_domain::run::ErrorFamily::Unknown,
        cause: orc_domain::run::Cause::Exit(0),
        detail: String::new(),
    })
}

#[test]
fn an_agent_that_falls_silent_is_ended_and_recovered_twice() {
    let mut scene = coder();
    for silence in 1..=MAX_SILENCES {
        scene.started("a");
        scene.now = scene.now + secs(300);
        scene.heard("a", u64::from(silence));
        assert_eq!(scene.resident.wake_at(), Some(scene.now + secs(600)));
        assert_eq!(stops(&scene.ring()), [(StopReason::Silence, GRACE)]);
        scene.end_after("a", orc_domain::input::Ending::Failed(crate::scene::exit(143)), 3);
        if silence < MAX_SILENCES {
            assert!(matches!(wake(&scene, "a"), WakeReason::Recovery { .. }));
        }
    }
    assert_eq!(scene.picture()[0], "a: failed: it said nothing for 10m and was ended");
    assert_eq!((scene.step("a").failures, scene.step("a").silences), (0, 3), "its retries are not used up");
}

#[test]
fn a_silent_agent_that_delivers_in_the_end_has_delivered() {
    let mut scene = coder();
    scene.started("a");
    scene.ring();
    scene.deliver("a");
    assert_eq!(scene.picture(), ["a: succeeded", "b: active"]);
}

#[test]
fn what_was_heard_out_of_order_makes_nobody_silent() {
    let mut scene = coder();
    scene.started("a");
    let (run, begun) = (scene.run("a"), scene.now);
    scene.now = scene.now + secs(500);
    scene.heard("a", 9);
    let old = Statistics { bytes: 2, last_output_at: Some(begun + secs(10)), ..Statistics::default() };
    scene.hear(Input::RunHeard { run, statistics: old, usage: Usage::default(), looping: false });
    assert_eq!(scene.resident.wake_at(), Some(begun + secs(1100)));
}

#[test]
fn an_agent_that_circles_is_ended_once_and_its_retry_decides() {
    let mut scene = coder();
    scene.started("a");
    let circles = |scene: &mut Scene| {
        let run = scene.run("a");
        scene.hear(Input::RunHeard { run, statistics: Statistics::default(), usage: Usage::default(), looping: true })
    };
    assert_eq!(stops(&circles(&mut scene)), [(StopReason::Looping, GRACE)]);
    assert_eq!(stops(&circles(&mut scene)), []);
    scene.fail("a");
    scene.ring();
    scene.started("a");
    circles(&mut scene);
    scene.fail("a");
    assert_eq!(scene.picture()[0], "a: failed: it did the same again and again and was ended");
}

#[test]
fn bad_moments_outside_wait_longer_each_time_and_then_use_up_the_retries() {
    let mut scene = coder();
    for wait in UPSTREAM_WAITS {
        let ended = scene.now;
        assert_eq!(starts(&scene.end("a", upstream())), Vec::<String>::new());
        // Agents that met the same bad moment do not all come back at once.
        let at = scene.resident.wake_at().unwrap();
        assert!(at >= ended + wait && at <= ended + wait + Millis::from_millis(wait.as_millis() / 4), "{at}");
        assert!(scene.flow().runs.is_empty(), "it holds no slot");
        scene.ring();
    }
    assert_eq!(UPSTREAM_WAITS, [120, 600, 1800, 7200].map(Millis::from_secs));
    scene.end("a", upstream());
    assert_eq!(scene.step("a").failures, 1);
    scene.ring();
    scene.end("a", upstream());
    assert_eq!(scene.picture()[0], "a: failed: it says that it failed: overloaded");
}

#[test]
fn every_end_of_an_agent_that_was_asked_to_end_by_a_cancel_is_cancelled_or_delivered() {
    for ending in [owes(), asks(), upstream()] {
        let mut scene = coder();
        scene.started("a");
        scene.cancel();
        scene.end("a", ending);
        assert_eq!(scene.picture(), ["a: cancelled", "b: cancelled"]);
        assert_eq!(scene.flow().requests.len(), 0);
        assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
    }
}

#[test]
fn a_cancel_in_every_wait_of_an_agent_ends_it() {
    let prepare: [fn(&mut Scene); 4] = [
        |scene| drop(scene.end("a", asks())),
        |scene| drop(scene.end("a", upstream())),
        |scene| drop(scene.fail("a")),
        |scene| {
            scene.slots = 0;
            scene.lose("a", true);
        },
    ];
    for prepare in prepare {
        let mut scene = coder();
        prepare(&mut scene);
        scene.cancel();
        assert_eq!(scene.picture(), ["a: cancelled", "b: cancelled"]);
        assert_eq!(scene.outcome(), Some(FlowOutcome::Cancelled));
    }
}

#[test]
fn the_end_of_an_agent_tells_its_message_and_what_it_used_once() {
    let mut scene = coder();
    scene.started("a");
    let run = scene.run("a");
    scene.end_after("a", orc_domain::input::Ending::Delivered { output: orc_testkit::fixture::output([]) }, 7);
    let told: Vec<&str> = scene.last.events.iter().map(|event| event.fact.kind()).collect();
    assert_eq!(told, ["MessageReceived", "AgentRunCompleted", "StepFinished"]);
    let used = scene.facts.iter().find_map(|fact| match fact {
        Fact::AgentRunCompleted { usage, .. } => Some(usage.calls),
        _ => None,
    });
    assert_eq!(used, Some(7));
    let twice = Input::RunEnded { run, ending: owes(), told: None };
    assert_eq!(scene.hear(twice).transitions, [Transition::RunFenced]);
}

#[test]
fn an_agent_without_a_profile_cannot_start_and_says_so() {
    let mut pipeline = orc_testkit::fixture::pipeline(vec![agent("a", "coder")], vec![]);
    pipeline.agents.clear();
    let scene = Scene::begin_with(pipeline, 1);
    assert_eq!(scene.picture(), ["a: failed: an expression has no value: agent: there is no profile `coder`"]);
    assert!(matches!(scene.step("a").state, StepState::Finished { .. }));
}

#[test]
fn an_agent_whose_start_was_heard_of_too_late_still_asks_and_owes() {
    for (ending, picture) in [(asks(), "a: waits for request"), (owes(), "a: active")] {
        let mut scene = coder();
        assert_eq!(stops(&scene.ring()), [(StopReason::StartDeadline, Millis::ZERO)]);
        scene.end("a", ending);
        assert_eq!(scene.picture()[0], picture);
    }
}
