//! Calls that somebody is asked about: the run ends, and goes on with the answer, whoever died in between.

use serde_json::{Value, json};

use crate::scene::{Scene, bash, calls, says};
use crate::support::until;

/// A file that no agent changes without being asked for.
pub(crate) const WORKFLOW: &str = ".github/workflows/ci.yml";

pub(crate) fn writes(path: &str) -> Value {
    calls(&[("Write", json!({ "file_path": path, "content": "on: push\n" }))])
}

/// What is asked now.
pub(crate) fn open(scene: &Scene) -> Vec<Value> {
    // At first there is no database.
    let said = scene.world.run(&["approvals", "list", "--output", "json"]);
    let open: Value = serde_json::from_str(&said.out).unwrap_or_default();
    open["requests"].as_array().cloned().unwrap_or_default()
}

/// Runs it until somebody is asked, ends everything, and says what is asked.
pub(crate) fn ask(scene: &Scene) -> Value {
    let running = scene.start();
    until("somebody is asked", || !open(scene).is_empty());
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    open(scene).remove(0)
}

pub(crate) fn answer(scene: &Scene, request: &Value, words: &[&str]) {
    let (id, [verb, rest @ ..]) = (request["id"].as_str().unwrap(), words) else { panic!("no word") };
    let mut said = vec!["approvals", verb, id];
    said.extend(rest);
    scene.world.run_to(0, &said);
}

pub(crate) fn resume(scene: &Scene) {
    scene.world.run_to(0, &["resume", "--all"]);
    assert_eq!(scene.world.outcome(&scene.flow()), "succeeded");
    scene.assert_valid();
    scene.assert_replays();
}

#[test]
fn a_yes_is_good_for_exactly_that_call_once_also_after_a_death() {
    let scene = Scene::new(&[bash("echo one >> count; cat count"), writes(WORKFLOW), bash("cat count"), says("Done.")]);
    let request = ask(&scene);
    assert_eq!(request["kind"], "permission");
    let message = request["message"].as_str().unwrap();
    assert!(message.starts_with("`worker` wants to run Write("), "{message}");
    assert!(message.contains(WORKFLOW) && message.contains("what the forge runs"), "{message}");
    let runs = scene.runs();
    assert_eq!((runs.len(), runs[0]["state"].as_str()), (1, Some("finished")), "nothing runs while it waits");
    answer(&scene, &request, &["approve"]);
    resume(&scene);
    assert_eq!(scene.made(WORKFLOW), b"on: push\n");
    let done = scene.results();
    assert_eq!(
        done.iter().map(|done| (done.tool.as_str(), done.failed)).collect::<Vec<_>>(),
        [("Bash", false), ("Write", false), ("Bash", false)]
    );
    assert_eq!(done[2].text.trim(), "one", "what was done before was not done again");
    assert_eq!(scene.questions().len(), 4);
}

#[test]
fn a_no_is_told_and_stays_and_the_agent_goes_on() {
    let scene = Scene::new(&[writes(WORKFLOW), writes(WORKFLOW), writes("plain.txt"), says("Done.")]);
    let request = ask(&scene);
    answer(&scene, &request, &["deny", "--reason", "Not before the release."]);
    resume(&scene);
    let done = scene.results();
    assert!(done[0].failed && done[0].text.contains("Not before the release."), "{done:?}");
    assert!(done[1].failed && done[1].text.contains("said no to exactly this before"), "{done:?}");
    assert!(!done[2].failed, "{done:?}");
    assert_eq!(scene.made("plain.txt"), b"on: push\n");
    assert!(open(&scene).is_empty());
}

#[test]
fn an_agent_of_an_agent_of_an_agent_asks_people_and_goes_on_with_that_call() {
    let start = |agent: &str| calls(&[("Agent", json!({ "subagent_type": agent, "prompt": "Go." }))]);
    let track =
        |name: &str, turns: &[Value]| json!({ "match": { "system": format!("the agent `{name}`") }, "turns": turns });
    let last = [bash("echo began >> began"), writes(WORKFLOW), bash("cat began"), says("Last is done.")];
    let scene = Scene::of(&json!({
        "lead": track("lead", &[start("middle"), says("Lead is done.")]),
        "middle": track("middle", &[start("last"), says("Middle is done.")]),
        "last": track("last", &last),
    }));
    scene.world.write("pipelines/p.yaml", "name: p\nsteps:\n  work: { agent: lead, prompt: Do it. }\n");
    scene.agent("lead", "workers: [middle]\n");
    scene.agent("middle", "workers: [last]\n");
    scene.agent("last", "");
    let request = ask(&scene);
    assert!(request["message"].as_str().unwrap().starts_with("`last` wants to run Write("), "{request}");
    answer(&scene, &request, &["approve"]);
    resume(&scene);
    assert_eq!(scene.made(WORKFLOW), b"on: push\n");
    assert_eq!(scene.made("began"), b"began\n");
    assert!(scene.told().contains("Middle is done."), "{}", scene.told());
}

#[test]
fn rules_of_a_profile_its_pipeline_and_its_step_are_obeyed() {
    let read = |path: &str| calls(&[("Read", json!({ "file_path": path }))]);
    let turns = [
        bash("echo kept > kept && timeout 5 r''m -f kept"),
        read("sub/../secret.txt"),
        bash("curl -s http://127.0.0.1:9/"),
        calls(&[("Grep", json!({ "pattern": "word" }))]),
        bash("cat kept.txt"),
        says("Done."),
    ];
    let scene = Scene::new(&turns);
    scene.agent("worker", "disallowedTools: ['Bash(rm *)']\n");
    scene.world.write("secret.txt", "word\n");
    scene.world.write("kept.txt", "word\n");
    let step = "{ agent: worker, prompt: Do it., permissions: { ceiling: run } }";
    let above = "permissions: { deny: [Read(secret.txt)] }";
    scene.world.write("pipelines/p.yaml", &format!("name: p\n{above}\nsteps:\n  work: {step}\n"));
    scene.run(0);
    let done = scene.results();
    for (at, why) in [
        (0, "`Bash(rm *)` (profile) denies"),
        (1, "`Read(secret.txt)` of the pipeline `p` denies read"),
        (2, "the ceiling of its step is `run`"),
    ] {
        assert!(done[at].failed && done[at].text.contains(why), "{at}: {done:?}");
    }
    assert!(!done[3].failed && done[3].text.contains("kept.txt") && !done[3].text.contains("secret.txt"), "{done:?}");
    assert_eq!((done[4].failed, done[4].text.trim()), (false, "word"));
    scene.assert_replays();
}
