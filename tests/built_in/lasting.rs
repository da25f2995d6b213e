//! Answers that hold for longer than a call, answers of whoever is above, and rules that hold for every agent.

use serde_json::{Value, json};

use crate::asked::{WORKFLOW, answer, ask, open, resume, writes};
use crate::scene::{Done, Scene, bash, calls, says};
use crate::support::{self, until};

/// Calls that ask each time: the agent says itself that it wants to be asked.
fn asking(turns: &[Value]) -> Scene {
    let scene = Scene::new(turns);
    scene.agent("worker", "permissionMode: default\n");
    scene
}

fn failed(done: &[Done]) -> Vec<bool> {
    done.iter().map(|done| done.failed).collect()
}

/// The same command in other words.
fn told(command: &str, why: &str) -> Value {
    calls(&[("Bash", json!({ "command": command, "description": why }))])
}

#[test]
fn a_yes_for_the_run_is_good_for_the_same_again_in_any_words() {
    let turns =
        [told("make one", "Build it"), told("make one", "Once more"), told("make two", "Build it"), says("Done.")];
    let scene = asking(&turns);
    let request = ask(&scene);
    let message = request["message"].as_str().unwrap();
    assert!(message.ends_with("(an answer may hold for the run, or for ever as `Bash(make one)`)"), "{message}");
    // Whoever answers carries it on. The third is another command.
    let again = scene.world.start(&["approvals", "approve", request["id"].as_str().unwrap(), "--scope", "run"]);
    let is_other = |request: &Value| request["message"].as_str().is_some_and(|message| message.contains("make two"));
    until("it asks about the other", || open(&scene).iter().any(is_other));
    let other = open(&scene).remove(0);
    scene.world.run_to(0, &["approvals", "deny", other["id"].as_str().unwrap()]);
    assert_eq!(again.wait().code, Some(0));
    let done = scene.results();
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|done| done.failed), "there is no Makefile, and the last is denied: {done:?}");
    assert!(!done[1].text.contains("Permission"), "{done:?}");
    assert!(done[2].text.contains("Permission denied by"), "{done:?}");
    let shown = scene.world.run_to(0, &["approvals", "show", request["id"].as_str().unwrap()]).out;
    assert!(shown.contains(", for the run"), "{shown}");
    scene.assert_replays();
}

#[test]
fn a_yes_for_ever_leaves_a_rule_with_its_author_until_it_is_taken_back() {
    let scene = asking(&[bash("touch made"), says("Done.")]);
    scene.agent("worker", "permissionMode: default\npermissions: { ask: ['Bash(git *)'] }\n");
    let request = ask(&scene);
    answer(&scene, &request, &["approve", "--scope", "forever", "--reason", "harmless"]);
    resume(&scene);
    let rules = scene.world.run_to(0, &["permissions", "rules", "--output", "json"]).out;
    let rules: Value = serde_json::from_str(&rules).unwrap();
    let (row, kept) = (&rules["rules"][0], &rules["answers"][0]);
    assert_eq!((row["says"].as_str(), row["rule"].as_str()), (Some("allow"), Some("Bash(touch made)")));
    assert_eq!((row["agent"].as_str(), row["source"].as_str()), (Some("worker"), Some("answered for ever")));
    assert_eq!((kept["reason"].as_str(), kept["request"] == request["id"]), (Some("harmless"), true), "{kept}");
    // A flow that begins now is not asked.
    scene.run(0);
    assert!(open(&scene).is_empty());
    scene.world.run_to(0, &["permissions", "forget", request["id"].as_str().unwrap()]);
    let gone = scene.world.run_to(4, &["permissions", "forget", request["id"].as_str().unwrap()]);
    assert!(gone.err.contains("left a rule"), "{}", gone.err);
    let again = scene.start();
    until("it asks again", || !open(&scene).is_empty());
    scene.world.run_to(0, &["approvals", "deny", open(&scene)[0]["id"].as_str().unwrap()]);
    again.wait();
}

#[test]
fn what_a_rule_asks_about_is_answered_for_once_only() {
    let scene = Scene::new(&[bash("touch made"), says("Done.")]);
    scene.agent("worker", "permissions: { ask: ['Bash(touch *)'] }\n");
    let request = ask(&scene);
    let id = request["id"].as_str().unwrap();
    let said = scene.world.run(&["approvals", "approve", id, "--scope", "run"]);
    assert_ne!(said.code, Some(0));
    assert!(said.err.contains("a rule asks about each such call"), "{}", said.err);
    answer(&scene, &request, &["approve"]);
    resume(&scene);
    assert_eq!(scene.made("made"), b"");
}

/// A lead that starts an agent, which starts one that wants to change what the forge runs.
fn three_levels(last: &[Value]) -> Scene {
    let start = |agent: &str| calls(&[("Agent", json!({ "subagent_type": agent, "prompt": "Go." }))]);
    let track =
        |name: &str, turns: &[Value]| json!({ "match": { "system": format!("the agent `{name}`") }, "turns": turns });
    let scene = Scene::of(&json!({
        "lead": track("lead", &[start("middle"), says("Lead is done.")]),
        "middle": track("middle", &[start("last"), says("Middle is done.")]),
        "last": track("last", last),
    }));
    scene.world.write("pipelines/p.yaml", "name: p\nsteps:\n  work: { agent: lead, prompt: Do it. }\n");
    scene.agent("lead", "workers: [middle]\n");
    scene.agent("middle", "workers: [last]\n");
    scene.agent("last", "permissionMode: default\n");
    scene
}

#[test]
fn two_hours_later_after_a_restart_the_agent_of_an_agent_goes_on_with_exactly_that_call() {
    let scene = three_levels(&[bash("touch made"), says("Last is done.")]);
    let request = ask(&scene);
    let mut later = scene.world.command(&["approvals", "approve", request["id"].as_str().unwrap()]);
    let said = support::said(&later.env("ORC_CLOCK_AHEAD", "7200").output().unwrap());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(scene.world.outcome(&scene.flow()), "succeeded");
    let shown = scene.world.json(&["approvals", "show", request["id"].as_str().unwrap()]);
    assert!(shown["age_ms"].is_null() && shown["answer"] == "approved", "{shown}");
    let runs = scene.runs();
    let hours = |run: &Value| run["created_at"].as_str().unwrap_or_default().to_owned();
    assert_ne!(hours(&runs[0])[..13], hours(&runs[1])[..13], "{runs:?}");
    assert_eq!(scene.made("made"), b"");
    assert!(scene.told().contains("Middle is done."), "{}", scene.told());
}

#[test]
fn where_nobody_answers_it_is_denied_at_the_deadline_and_the_flow_goes_on() {
    let scene = three_levels(&[bash("touch made"), says("Last is done.")]);
    let request = ask(&scene);
    let mut resumed = scene.world.command(&["resume", "--all"]);
    let said = support::said(&resumed.env("ORC_CLOCK_AHEAD", "691200").output().unwrap());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(scene.world.outcome(&scene.flow()), "succeeded");
    assert!(scene.world.json(&["flows", "show", &scene.flow()])["made"].as_array().is_none_or(Vec::is_empty));
    let shown = scene.world.run_to(0, &["approvals", "show", request["id"].as_str().unwrap()]).out;
    assert!(shown.contains("denied by system") && shown.contains("nobody answered within 7d"), "{shown}");
}

#[test]
fn whoever_is_above_answers_what_it_delegates() {
    let scene = three_levels(&[bash("touch made"), writes(WORKFLOW), says("Last is done.")]);
    let delegate = "permissions: { delegate: [{ to: last, allow: ['Bash(touch *)', 'Edit(.github/**)'] }] }\n";
    scene.agent("middle", &format!("workers: [last]\n{delegate}"));
    // What is protected is asked about whoever delegates it.
    let request = ask(&scene);
    assert!(request["message"].as_str().unwrap().contains(WORKFLOW), "{request}");
    answer(&scene, &request, &["approve"]);
    resume(&scene);
    assert_eq!((scene.made("made"), scene.made(WORKFLOW)), (b"".to_vec(), b"on: push\n".to_vec()));
}

#[test]
fn rules_of_settings_and_of_the_command_line_hold_for_every_agent() {
    let turns = [bash("touch a"), bash("mkdir b"), bash("rmdir b"), bash("date"), says("Done.")];
    let scene = asking(&turns);
    let settings = std::fs::read_to_string(scene.world.repo().join("orchestrator.yaml")).unwrap();
    scene.settings(&format!("{settings}permissions: {{ allow: ['Bash(touch *)'] }}\n"));
    let theirs = json!({ "permissions": { "allow": ["Bash(rmdir *)"], "deny": ["Bash(mkdir *)"] } });
    scene.world.write(".claude/settings.json", &theirs.to_string());
    scene.world.commit();
    // What a repository grants is no grant: it is asked about, and denied here.
    let running = scene.world.start(&["run", "p", "--deny", "Bash(date *)"]);
    until("somebody is asked", || !open(&scene).is_empty());
    let request = open(&scene).remove(0);
    assert!(request["message"].as_str().unwrap().contains("rmdir b"), "{request}");
    scene.world.run_to(0, &["approvals", "deny", request["id"].as_str().unwrap()]);
    running.wait();
    let done = scene.results();
    assert_eq!(failed(&done), [false, true, true, true], "{done:?}");
    assert!(done[1].text.contains("`Bash(mkdir *)` (project) denies"), "{done:?}");
    assert!(done[3].text.contains("`Bash(date *)` of the command line denies"), "{done:?}");
    // A file that may hold a deny and cannot be read holds up the run.
    scene.world.write(".claude/settings.json", "{ \"permissions\": { \"deny\": [\"Bash(\"] } }");
    let said = scene.run(1);
    assert!(said.err.contains(".claude/settings.json") && said.err.contains("`deny`: `Bash(`"), "{}", said.err);
    let rules = scene.world.run(&["permissions", "rules"]);
    assert!(rules.err.contains("`deny`: `Bash(`"), "{}", rules.err);
}
