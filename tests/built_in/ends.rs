//! Runs that somebody ends, pauses or writes to, in the middle of whatever they do.

use std::io::Write as _;
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::provider::{Provider, message};
use crate::scene::{Scene, bash, calls, says};
use crate::support::until;

/// What the loop heard of its end, and the results behind it.
fn stop(scene: &Scene) -> (Value, Vec<Value>) {
    let recorded = scene.recorded();
    let at = recorded.iter().position(|line| line["heard"] == "stop").unwrap();
    let results = recorded[at..].iter().filter(|line| line["heard"] == "result");
    (recorded[at]["why"].clone(), results.map(|line| line["text"].clone()).collect())
}

#[test]
fn cancelled_while_a_command_runs_everything_it_started_ends_and_the_record_is_whole() {
    let command = "(while :; do sleep 0.05; done) & echo begun >> $BOARD/journal; read x < $BOARD/gate; echo late >> $BOARD/journal";
    let scene =
        Scene::new(&[calls(&[("Bash", json!({ "command": command })), ("Bash", json!({ "command": "echo 2" }))])]);
    let board = scene.board(&[("worker", "")]);
    let mut gate = board.gate();
    let running = scene.start();
    board.until("begun");
    let flow = scene.flow();
    scene.world.run_to(0, &["cancel", &flow]);
    running.wait();
    assert_eq!(scene.world.outcome(&flow), "cancelled");
    gate.write_all(b"go\n").unwrap();
    let (why, results) = stop(&scene);
    assert_eq!(why, "abort");
    assert_eq!(results.len(), 1, "{results:?}");
    assert!(results[0].as_str().unwrap().contains("[cancelled; what it started was ended too]"), "{results:?}");
    assert_eq!(scene.recorded().last().unwrap()["kind"], "ended");
    assert_eq!(board.journal(), ["begun"]);
    scene.assert_replays();
}

#[test]
fn cancelled_while_a_model_speaks_the_answer_is_given_up_and_what_it_cost_is_known() {
    let scene = Scene::new(&[json!({ "text": "Word by word by word.", "delay_between": "1h" })]);
    let running = scene.start();
    let in_flight = || {
        let costs = scene.world.run(&["costs", "--by", "agent", "--output", "json"]);
        serde_json::from_str::<Value>(&costs.out).is_ok_and(|costs| costs["total"]["in_flight_calls"] == 1)
    };
    until("it speaks", in_flight);
    let flow = scene.flow();
    scene.world.run_to(0, &["cancel", &flow]);
    running.wait();
    assert_eq!(scene.world.outcome(&flow), "cancelled");
    let total = scene.world.json(&["costs", "--by", "agent"])["total"].clone();
    assert_eq!((&total["calls"], &total["in_flight_calls"], &total["lost_tokens"]), (&json!(1), &json!(0), &json!(0)));
    assert!(total["estimated_usd_micros"].as_u64().unwrap() > 0, "{total}");
    assert_eq!(stop(&scene).0, "abort");
    scene.assert_replays();
}

#[test]
fn cancelled_by_force_it_is_over_at_once() {
    let scene = Scene::new(&[bash("trap '' TERM; echo begun >> $BOARD/journal; while :; do sleep 1; done")]);
    let board = scene.board(&[("worker", "")]);
    let running = scene.start();
    board.until("begun");
    let flow = scene.flow();
    scene.world.run_to(0, &["cancel", "--force", &flow]);
    running.wait();
    assert_eq!(scene.world.outcome(&flow), "cancelled");
}

#[test]
fn cancelled_while_agents_of_an_agent_work_all_of_them_end() {
    let track =
        |name: &str, turns: Value| json!({ "match": { "system": format!("the agent `{name}`,") }, "turns": turns });
    let agent = ("Agent", json!({ "subagent_type": "helper", "prompt": "Go." }));
    let scene = Scene::of(&json!({
        "worker": track("worker", json!([calls(&vec![agent; 3])])),
        "helper": track("helper", json!([bash("echo begun >> $BOARD/journal; read x < $BOARD/gate")])),
    }));
    let board = scene.board(&[("worker", "workers: [helper]\n"), ("helper", "")]);
    let _gate = board.gate();
    let running = scene.start();
    until("all of them work", || board.journal().len() == 3);
    let flow = scene.flow();
    scene.world.run_to(0, &["cancel", &flow]);
    running.wait();
    assert_eq!(scene.world.outcome(&flow), "cancelled");
    let (_, results) = stop(&scene);
    assert_eq!(results.len(), 3, "{results:?}");
    assert!(results.iter().all(|text| text.as_str().unwrap().contains("did not come to its end")), "{results:?}");
    scene.assert_replays();
}

#[test]
fn at_the_time_limit_of_its_step_a_command_ends_and_the_step_says_why() {
    let scene = Scene::new(&[bash("echo begun >> $BOARD/journal; read x < $BOARD/gate; echo late >> $BOARD/journal")]);
    let board = scene.board(&[("worker", "")]);
    let mut gate = board.gate();
    scene.step("timeout: 5s\nretry: { attempts: 1 }");
    let said = scene.run(1);
    assert!(said.out.contains("took longer than its timeout of 5s"), "{}", said.out);
    gate.write_all(b"go\n").unwrap();
    let (why, results) = stop(&scene);
    assert_eq!((why.as_str(), results.len()), (Some("abort"), 1));
    assert!(results[0].as_str().unwrap().contains("[cancelled"), "{results:?}");
    assert_eq!(board.journal(), ["begun"]);
    scene.assert_replays();
}

#[test]
fn a_long_command_tells_how_far_it_is_so_nobody_takes_it_for_dead() {
    let scene = Scene::new(&[bash("echo working; sleep 4"), says("Done.")]);
    scene.run(0);
    let events = scene.events();
    let told = events.iter().find(|event| event["type"] == "tool" && event["state"] == "progress");
    assert_eq!(told.unwrap()["text"], "3 s: working", "{events:?}");
}

#[test]
fn a_message_that_comes_in_the_middle_of_an_answer_is_read_behind_its_results() {
    let (asked, is_asked) = sync_channel(1);
    let (answer, may_answer) = channel::<()>();
    let (asked, may_answer) = (Mutex::new(asked), Arc::new(Mutex::new(may_answer)));
    let provider = Provider::new(move |before, _| {
        if before == 0 {
            asked.lock().unwrap().send(()).unwrap();
            // Whoever tests has failed if this does not come.
            let _ = may_answer.lock().unwrap().recv();
            let call =
                json!({ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": { "command": "echo here" } });
            return message(&json!([call]), "tool_use");
        }
        message(&json!([{ "type": "text", "text": "Read." }]), "end_turn")
    });
    let scene = provider.scene();
    let running = scene.start();
    is_asked.recv().unwrap();
    let flow = scene.flow();
    scene.world.run_to(0, &["message", &flow, "Use the blue one.", "--step", "work"]);
    until("the loop has it", || scene.recorded().iter().any(|line| line["heard"] == "letters"));
    answer.send(()).unwrap();
    assert_eq!(running.wait().code, Some(0));
    let asked = provider.asked();
    assert_eq!(asked.len(), 2);
    let last = asked[1]["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["content"][0]["type"], "tool_result", "{last}");
    assert!(last["content"][1]["text"].as_str().unwrap().contains("Use the blue one."), "{last}");
    scene.assert_replays();
}

#[test]
fn paused_while_a_command_runs_the_turn_ends_first_and_it_goes_on_where_it_was() {
    let command = "echo begun >> $BOARD/journal; read x < $BOARD/gate; echo ended >> $BOARD/journal";
    let scene = Scene::new(&[bash(command), bash("echo next >> $BOARD/journal"), says("Done.")]);
    let board = scene.board(&[("worker", "")]);
    let mut gate = board.gate();
    let running = scene.start();
    board.until("begun");
    let flow = scene.flow();
    scene.world.run_to(0, &["pause", &flow]);
    until("the loop has heard it", || scene.recorded().iter().any(|line| line["heard"] == "stop"));
    gate.write_all(b"go\n").unwrap();
    until("it has paused", || scene.recorded().last().unwrap()["kind"] == "ended");
    assert_eq!(board.journal(), ["begun", "ended"]);
    scene.world.run_to(0, &["resume", &flow]);
    running.wait();
    assert_eq!(scene.world.outcome(&flow), "succeeded");
    assert_eq!(board.journal(), ["begun", "ended", "next"]);
    assert_eq!(scene.runs().len(), 2);
    scene.assert_valid();
    scene.assert_replays();
}
