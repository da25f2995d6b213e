//! Models that answer badly or not at all, and how a run goes on or ends.

use serde_json::{Value, json};

use crate::provider::{Provider, broken, call, message, text, whole};
use crate::scene::{MODEL, Scene, bash, calls, says};

/// Why the loop asked again, question by question; null: it was a new turn.
fn again(scene: &Scene) -> Vec<Value> {
    let events = scene.events();
    let asked = events.iter().filter(|event| event["type"] == "request");
    asked.map(|event| event["again"].clone()).collect()
}

/// How the only run ended: the word of its outcome, why it stopped, and why in words.
fn end(scene: &Scene) -> (String, String, String) {
    let runs = scene.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    (word(&runs[0]["outcome"]), word(&runs[0]["agent"]["stop_reason"]), word(&runs[0]["reason"]))
}

/// One attempt, so that an end is one.
const ONCE: &str = "retry: { attempts: 1 }";

#[test]
fn an_answer_that_is_cut_gets_twice_the_room_three_times_and_then_goes_on_behind_what_it_said() {
    let cut = |text: &str| json!({ "text": text, "stop": "max_tokens" });
    let scene = Scene::new(&[cut("The first half"), cut("and the second"), says("and the end.")]);
    scene.run(0);
    let limits: Vec<u64> = scene.asked().iter().map(|one| one["max_output"].as_u64().unwrap()).collect();
    // This model says at most 64,000 tokens.
    assert_eq!(limits, [16_384, 32_768, 64_000, 64_000, 64_000]);
    let wider = json!("higher output limit");
    assert_eq!(again(&scene), [Value::Null, wider.clone(), wider, Value::Null, Value::Null]);
    let messages = scene.questions().last().unwrap()["messages"].clone();
    assert!(messages[1].to_string().contains("The first half"), "{messages:#}");
    assert!(messages[2].to_string().contains("Your answer was cut"), "{messages:#}");
    assert!(messages[3].to_string().contains("and the second"), "{messages:#}");
    assert_eq!(scene.runs()[0]["agent"]["answer"], "and the end.");
    let retracted = scene.events().iter().filter(|event| event["type"] == "retracted").count();
    assert_eq!(retracted, 2, "whoever watches is told that a text is replaced");
    scene.assert_replays();
}

#[test]
fn a_model_whose_every_answer_is_cut_is_given_up() {
    let scene =
        Scene::of(&json!({ "any": { "repeat": "last", "turns": [{ "text": "On and on", "stop": "max_tokens" }] } }));
    scene.step(ONCE);
    scene.run(1);
    assert_eq!(scene.asked().len(), 6);
    let (_, _, why) = end(&scene);
    assert!(why.contains("cut at the limit of their length 4 times in a row"), "{why}");
    scene.assert_replays();
}

#[test]
fn a_stream_that_breaks_before_a_call_is_asked_for_in_one_piece() {
    let provider = Provider::new(|before, _| match before {
        0 => broken(&text(0, "I will now")),
        1 => message(
            &json!([{ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": { "command": "echo once >> marks" } }]),
            "tool_use",
        ),
        _ => message(&json!([{ "type": "text", "text": "Whole." }]), "end_turn"),
    });
    let scene = provider.scene();
    scene.run(0);
    let streams: Vec<bool> = provider.asked().iter().map(|one| one["stream"] == true).collect();
    assert_eq!(streams, [true, false, true], "the next turn comes as a stream again");
    assert_eq!(again(&scene), [Value::Null, json!("without a stream"), Value::Null]);
    assert_eq!(scene.made("marks"), b"once\n");
    assert!(!provider.asked()[2]["messages"].to_string().contains("I will now"));
    // What broke off was paid for, and counts.
    assert_eq!(scene.costs()["worker"].0, 3);
    scene.assert_replays();
}

#[test]
fn a_stream_that_breaks_behind_a_call_keeps_the_call_and_does_it_once() {
    let provider = Provider::new(|before, _| {
        let mut events = call(0, "Bash", &json!({ "command": "echo once >> marks" }));
        events.extend(text(1, "and then"));
        match before {
            0 => broken(&events),
            _ => message(&json!([{ "type": "text", "text": "Whole." }]), "end_turn"),
        }
    });
    let scene = provider.scene();
    scene.run(0);
    let asked = provider.asked();
    assert_eq!(asked.len(), 2);
    assert!(!asked[1]["messages"].to_string().contains("and then"), "{:#}", asked[1]["messages"]);
    assert_eq!(scene.made("marks"), b"once\n");
    scene.assert_replays();
}

#[test]
fn a_stream_that_breaks_within_a_call_does_nothing_of_it() {
    let provider = Provider::new(|before, _| match before {
        0 => broken(&call(0, "Bash", &json!({ "command": "echo half >> marks" }))[..2]),
        _ => message(&json!([{ "type": "text", "text": "Whole." }]), "end_turn"),
    });
    let scene = provider.scene();
    scene.run(0);
    assert_eq!(provider.asked().len(), 2);
    assert!(scene.world.json(&["flows", "show", &scene.flow()])["made"].as_array().unwrap().is_empty());
    scene.assert_replays();
}

#[test]
fn a_model_that_does_not_answer_has_another_take_its_place_for_the_rest_of_the_run() {
    let first = json!({ "match": { "model": MODEL }, "turns": [
        bash("echo first >> marks"),
        { "text": "Half of", "cut_after": 3 },
    ] });
    let second = json!({ "turns": [says("Not asked for this."), bash("echo second >> marks"), says("Done.")] });
    let scene = Scene::of(&json!({ "first": first, "second": second }));
    scene.agent("worker", "fallback_models: [claude-haiku-4-5]\n");
    scene.run(0);
    let models: Vec<String> = scene.asked().iter().map(|one| one["model"].as_str().unwrap().to_owned()).collect();
    assert_eq!(models, [MODEL, MODEL, MODEL, "claude-haiku-4-5", "claude-haiku-4-5"]);
    let (plain, fallback) = (json!("without a stream"), json!("fallback model"));
    assert_eq!(again(&scene), [Value::Null, Value::Null, plain, fallback, Value::Null]);
    assert_eq!(scene.made("marks"), b"first\nsecond\n");
    scene.assert_replays();
}

#[test]
fn a_model_that_is_not_there_has_another_take_its_place_at_once_and_without_one_says_what_is_missing() {
    let script = json!({
        "first": { "match": { "model": MODEL }, "turns": [{ "error": { "status": 404, "message": "no such model" } }] },
        "second": { "turns": [says("Done.")] },
    });
    let scene = Scene::of(&script);
    scene.agent("worker", "fallback_models: [claude-haiku-4-5]\n");
    scene.run(0);
    assert_eq!(again(&scene), [Value::Null, json!("fallback model")]);
    let alone = Scene::of(&script);
    alone.step(ONCE);
    alone.run(1);
    let (_, _, why) = end(&alone);
    assert!(why.contains("no such model"), "{why}");
}

#[test]
fn at_a_wall_the_run_ends_with_the_words_of_the_wall() {
    let scene = Scene::new(&[
        json!({ "tool_calls": [{ "name": "Bash", "input": { "command": "echo kept >> marks" } }],
        "usage": { "input": 1_000, "output": 8_000 } }),
        says("Done."),
    ]);
    scene.step(&format!("budget: {{ usd: 0.26 }}\n{ONCE}"));
    scene.run(1);
    let (_, stop, why) = end(&scene);
    assert_eq!(stop, "spend", "{why}");
    assert!(why.contains("of $0.26 are used"), "{why}");
    assert_eq!(scene.costs()["worker"], (1, 1_000 * 3 + 8_000 * 15));
    scene.assert_replays();
}

#[test]
fn a_conversation_that_is_too_long_ends_and_is_not_sent_again() {
    let scene = Scene::new(&[
        bash("echo some"),
        json!({ "error": { "status": 400, "message": "prompt is too long: 208310 tokens > 200000 maximum" } }),
    ]);
    scene.step(ONCE);
    scene.run(1);
    let (_, stop, why) = end(&scene);
    assert_eq!((stop.as_str(), scene.asked().len()), ("prompt_too_long", 2));
    assert!(why.contains("208310 tokens"), "{why}");
    scene.assert_replays();
}

#[test]
fn a_model_that_refuses_ends_the_run_and_says_so() {
    let scene = Scene::new(&[json!({ "text": "I will not do that.", "stop": "refusal" })]);
    scene.step(ONCE);
    scene.run(1);
    let (_, _, why) = end(&scene);
    assert!(why.contains("the model refuses to go on"), "{why}");
    scene.assert_replays();
}

#[test]
fn an_empty_answer_is_asked_about_and_one_who_says_nothing_again_and_again_is_done() {
    let provider = Provider::new(|before, _| match before {
        0 => message(&json!([]), "end_turn"),
        1 => message(&json!([{ "type": "text", "text": "  \n" }]), "end_turn"),
        _ => message(&json!([{ "type": "text", "text": "It works." }]), "end_turn"),
    });
    let scene = provider.scene();
    scene.run(0);
    assert_eq!(provider.asked()[2].to_string().matches("Your answer was empty.").count(), 2);
    assert_eq!(scene.runs()[0]["agent"]["answer"], "It works.");
    scene.assert_replays();
    let mute = Scene::of(&json!({ "any": { "repeat": "last", "turns": [{ "text": "" }] } }));
    mute.agent("worker", "max_messages: 0\n");
    mute.step(ONCE);
    mute.run(1);
    let (_, _, why) = end(&mute);
    assert!(why.contains("said nothing"), "{why}");
    assert_eq!(mute.asked().len(), 4);
    mute.assert_replays();
}

#[test]
fn a_model_that_goes_in_circles_is_told_so_three_times_and_then_ends() {
    let scene = Scene::of(&json!({ "any": { "repeat": "last", "turns": [bash("cat missing; true")] } }));
    scene.step(ONCE);
    scene.run(1);
    let (_, stop, why) = end(&scene);
    assert_eq!(stop, "looping", "{why}");
    assert_eq!(scene.told().matches("You repeat yourself: ").count(), 3);
    assert_eq!(scene.asked().len(), 12);
    assert!(why.contains("the last 3 turns were the same"), "{why}");
    scene.assert_replays();
    // Whoever takes the hint goes on.
    let turns = [vec![bash("cat missing; true"); 3], vec![bash("ls"), says("It is missing.")]].concat();
    let scene = Scene::new(&turns);
    scene.run(0);
    assert_eq!(scene.told().matches("You repeat yourself: ").count(), 1);
}

#[test]
fn turns_are_counted_where_a_profile_bounds_them() {
    let scene = Scene::new(&[bash("echo 1 >> marks"), bash("echo 2 >> marks"), bash("echo 3 >> marks")]);
    scene.agent("worker", "maxTurns: 2\n");
    scene.step(ONCE);
    scene.run(1);
    let (_, stop, why) = end(&scene);
    assert_eq!((stop.as_str(), scene.asked().len()), ("max_turns", 2), "{why}");
    scene.assert_replays();
}

#[test]
fn modes_that_change_nothing_have_no_tool_that_changes_files() {
    for (mode, word) in [("plan", "the plan"), ("review", "an opinion"), ("check", "with evidence")] {
        let edit = json!({ "file_path": "a", "old_string": "", "new_string": "b" });
        let scene = Scene::new(&[calls(&[("Edit", edit), ("Read", json!({ "file_path": "a.txt" }))]), says("Seen.")]);
        scene.world.write("a.txt", "text\n");
        scene.agent("worker", &format!("mode: {mode}\n"));
        scene.run(0);
        let question = scene.questions()[0].clone();
        let tools: Vec<&str> =
            question["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert!(tools.contains(&"Bash") && tools.contains(&"Read"), "{tools:?}");
        assert!(!tools.iter().any(|tool| ["Edit", "MultiEdit", "Write"].contains(tool)), "{mode}: {tools:?}");
        assert!(question["system"].to_string().contains(word), "{}", question["system"]);
        let done = scene.results();
        assert!(done[0].failed && done[0].text.contains("There is no tool `Edit`") && !done[1].failed, "{done:?}");
    }
}

#[test]
fn an_overloaded_provider_is_waited_for_and_a_run_does_not_notice() {
    let provider = Provider::new(|before, _| match before {
        0 => whole(
            "529 Overloaded",
            &json!({ "type": "error", "error": { "type": "overloaded_error", "message": "later" } }),
        ),
        _ => message(&json!([{ "type": "text", "text": "Here." }]), "end_turn"),
    });
    let scene = provider.scene();
    scene.run(0);
    assert_eq!((provider.asked().len(), scene.asked().len()), (2, 1));
}
