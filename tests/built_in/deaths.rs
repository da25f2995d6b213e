//! `kill -9` of the orchestrator at moments of a run that are known exactly: the agent goes on in the same conversation, is
//! told what was interrupted, and nothing is done a second time.

use std::io::Write as _;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scene::{Board, Scene, bash, calls, says};
use crate::support::{Running, lines, until};

/// Writes down that it begins, waits, writes down that it ends.
fn waits(name: &str) -> String {
    format!("echo begin {name} >> $BOARD/journal; read x < $BOARD/gate; echo end {name} >> $BOARD/journal")
}

/// Writes down that it was done.
fn notes(name: &str) -> Value {
    bash(&format!("echo {name} >> $BOARD/journal"))
}

fn kill(running: Running) {
    running.signal(Signal::KILL);
    running.wait();
}

/// Carries on to the end. Whoever was killed is not there any more, so what it waited at may be opened.
fn resume(scene: &Scene) {
    scene.world.run_to(0, &["resume", "--all"]);
    assert_eq!(scene.world.outcome(&scene.flow()), "succeeded");
    assert_eq!(scene.wakes(), ["pipelineStep", "recovery"]);
    scene.assert_valid();
    scene.assert_replays();
}

/// How often each line is in the journal.
fn assert_journal(board: &Board, wanted: &[&str]) {
    assert_eq!(board.journal(), wanted);
}

fn in_flight(scene: &Scene) -> u64 {
    let costs = scene.world.run(&["costs", "--by", "agent", "--output", "json"]);
    let costs: Value = serde_json::from_str(&costs.out).unwrap_or_default();
    costs["total"]["in_flight_calls"].as_u64().unwrap_or_default()
}

#[test]
fn while_a_command_runs() {
    let scene = Scene::new(&[notes("first"), bash(&waits("it")), notes("last"), says("Done.")]);
    let board = scene.board(&[("worker", "")]);
    let mut gate = board.gate();
    let running = scene.start();
    board.until("begin it");
    kill(running);
    gate.write_all(b"go\n").unwrap();
    resume(&scene);
    assert_journal(&board, &["first", "begin it", "last"]);
    let done = scene.results();
    assert!(
        done[1].failed && done[1].text.starts_with("Interrupted: the orchestrator ended while this ran."),
        "{done:?}"
    );
    assert!(!done[0].failed && !done[2].failed, "{done:?}");
    assert!(scene.told().contains("recovery: "), "{}", scene.told());
}

#[test]
fn while_a_command_runs_with_others_before_and_behind_it_in_the_same_answer() {
    let each = [
        ("Read", json!({ "file_path": "a.txt" })),
        ("Bash", json!({ "command": "echo before >> $BOARD/journal" })),
        ("Bash", json!({ "command": waits("it") })),
        ("Bash", json!({ "command": "echo behind >> $BOARD/journal" })),
        ("Read", json!({ "file_path": "a.txt" })),
    ];
    let scene = Scene::new(&[calls(&each), notes("last"), says("Done.")]);
    let board = scene.board(&[("worker", "")]);
    scene.world.write("a.txt", "text\n");
    let _gate = board.gate();
    let running = scene.start();
    board.until("begin it");
    kill(running);
    resume(&scene);
    assert_journal(&board, &["before", "begin it", "last"]);
    let done = scene.results();
    let failed: Vec<bool> = done.iter().map(|done| done.failed).collect();
    assert_eq!(failed, [false, false, true, true, true, false], "{done:#?}");
    assert!(done[3].text.starts_with("Not done: the orchestrator ended before this began."), "{done:#?}");
    assert!(done[0].text.contains("text"), "{done:#?}");
}

#[test]
fn while_a_model_says_something() {
    let slow = json!({ "text": "This takes its time, word by word by word.", "delay_between": "1h" });
    let other = json!({ "match": { "prompt": "Do it." }, "turns": [notes("first"), slow] });
    let scene = Scene::of(&json!({ "any": other }));
    let board = scene.board(&[("worker", "")]);
    let running = scene.start();
    board.until("first");
    until("the model is asked again", || in_flight(&scene) == 1);
    kill(running);
    // The flow keeps its agent; its model is another when it is asked again.
    let turns = json!({ "tracks": { "any": { "turns": [says("Never."), notes("last"), says("Done.")] } } });
    scene.world.write("models/tests.yaml", &turns.to_string());
    resume(&scene);
    assert_journal(&board, &["first", "last"]);
    assert!(!scene.told().contains("This takes"), "what broke off is no part of the conversation");
    // What was asked when everything died counts.
    assert_eq!(scene.costs()["worker"].0, 4);
}

#[test]
fn while_a_model_speaks_on_behind_a_call_that_was_done() {
    let first = bash("echo first >> $BOARD/journal");
    let slow = json!({ "tool_calls": [first["tool_calls"][0], { "name": "Bash", "input": { "command": "echo 2" } }],
                       "delay_between": "400ms" });
    let scene = Scene::new(&[slow, notes("last"), says("Done.")]);
    let board = scene.board(&[("worker", "")]);
    let running = scene.start();
    board.until("first");
    kill(running);
    resume(&scene);
    assert_journal(&board, &["first", "last"]);
}

#[test]
fn while_files_are_read() {
    let look = ("Grep", json!({ "pattern": "(a|b|c)*needle(x|y)*z", "output_mode": "content" }));
    let scene = Scene::new(&[notes("first"), calls(&[look.clone(), look]), notes("last"), says("Done.")]);
    let board = scene.board(&[("worker", "")]);
    for number in 0..40 {
        scene.world.write(&format!("many/{number}.txt"), &"abcabcabc needl\n".repeat(60_000));
    }
    let running = scene.start();
    until("it looks", || {
        scene.world.flow_of("p").is_some() && lines(scene.record()).iter().any(|line| line.contains("needle"))
    });
    kill(running);
    resume(&scene);
    assert_journal(&board, &["first", "last"]);
}

#[test]
fn while_an_agent_of_an_agent_runs_a_command() {
    let track =
        |name: &str, turns: Value| json!({ "match": { "system": format!("the agent `{name}`,") }, "turns": turns });
    let agent = ("Agent", json!({ "subagent_type": "helper", "prompt": "Go." }));
    let scene = Scene::of(&json!({
        "worker": track("worker", json!([notes("first"), calls(&[agent.clone(), agent]), notes("last"), says("Done.")])),
        "helper": track("helper", json!([bash(&waits("it")), says("Mine is done.")])),
    }));
    let board = scene.board(&[("worker", "workers: [helper]\n"), ("helper", "")]);
    let _gate = board.gate();
    let running = scene.start();
    until("both of them work", || board.journal() == ["first", "begin it", "begin it"]);
    kill(running);
    resume(&scene);
    assert_journal(&board, &["first", "begin it", "begin it", "last"]);
    let done = scene.results();
    assert!(done[1].failed && done[1].text.starts_with("Interrupted") && done[2].failed, "{done:#?}");
    assert_eq!(scene.costs()["helper"].0, 2, "none of them is asked again");
}

#[test]
fn twice_in_a_row_while_commands_run() {
    let scene = Scene::new(&[bash(&waits("one")), bash(&waits("two")), notes("last"), says("Done.")]);
    let board = scene.board(&[("worker", "")]);
    let _gate = board.gate();
    let running = scene.start();
    board.until("begin one");
    kill(running);
    let running = scene.world.start(&["resume", "--all"]);
    board.until("begin two");
    kill(running);
    scene.world.run_to(0, &["resume", "--all"]);
    assert_eq!(scene.world.outcome(&scene.flow()), "succeeded");
    assert_eq!(scene.wakes(), ["pipelineStep", "recovery", "recovery"]);
    assert_journal(&board, &["begin one", "begin two", "last"]);
    let done = scene.results();
    assert_eq!(done.iter().filter(|done| done.text.starts_with("Interrupted")).count(), 2, "{done:#?}");
    scene.assert_valid();
    scene.assert_replays();
}

#[test]
fn while_a_shell_runs_in_the_background_which_is_gone_then() {
    let begin = json!({ "command": "echo up >> $BOARD/journal; read x < $BOARD/gate; echo late >> $BOARD/journal",
                        "run_in_background": true });
    let look = ("BashOutput", json!({ "bash_id": "1" }));
    let scene = Scene::new(&[calls(&[("Bash", begin)]), bash(&waits("it")), calls(&[look]), says("Done.")]);
    let board = scene.board(&[("worker", "")]);
    let mut gate = board.gate();
    let running = scene.start();
    until("both of them run", || board.journal().len() == 2);
    kill(running);
    gate.write_all(b"go\ngo\n").unwrap();
    resume(&scene);
    let mut journal = board.journal();
    journal.sort();
    assert_eq!(journal, ["begin it", "up"]);
    let done = scene.results();
    assert!(done[2].failed && done[2].text.contains("They end with the run that started them"), "{done:#?}");
}

#[test]
fn when_a_message_was_written_that_nobody_had_read() {
    let scene = Scene::new(&[bash(&waits("it")), notes("last"), says("Done.")]);
    let board = scene.board(&[("worker", "")]);
    let _gate = board.gate();
    let running = scene.start();
    board.until("begin it");
    let flow = scene.flow();
    scene.world.run_to(0, &["message", &flow, "Mind the gap.", "--step", "work"]);
    until("the loop has it", || scene.recorded().iter().any(|line| line["heard"] == "letters"));
    kill(running);
    resume(&scene);
    assert_eq!(scene.told().matches("Mind the gap.").count(), 1, "{}", scene.told());
    assert_journal(&board, &["begin it", "last"]);
}
