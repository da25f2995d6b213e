//! Runs in which nothing goes wrong but what an agent's agents do.

use serde_json::{Value, json};

use crate::scene::{Scene, bash, calls, says};
use crate::support::{git, lines};

#[test]
fn a_plain_run_uses_every_tool_and_its_figures_are_those_of_its_model() {
    let turn = |mut turn: Value, input: u64, output: u64| {
        turn["usage"] = json!({ "input": input, "output": output, "cache_read": 1_000 });
        turn
    };
    let edits = json!([{ "old_string": "one", "new_string": "1" }, { "old_string": "two", "new_string": "2" }]);
    let todos = json!([{ "content": "Count", "status": "in_progress" }]);
    let scene = Scene::new(&[
        turn(calls(&[("TodoWrite", json!({ "todos": todos })), ("Glob", json!({ "pattern": "**/*.txt" }))]), 100, 10),
        turn(calls(&[("Grep", json!({ "pattern": "tw[o]" })), ("Read", json!({ "file_path": "src/a.txt" }))]), 200, 20),
        turn(calls(&[("MultiEdit", json!({ "file_path": "src/a.txt", "edits": edits }))]), 300, 30),
        turn(
            calls(&[
                ("Edit", json!({ "file_path": "src/a.txt", "old_string": "three", "new_string": "3" })),
                ("Write", json!({ "file_path": "new/b.txt", "content": "four\n" })),
                ("Bash", json!({ "command": "cat src/a.txt new/b.txt" })),
            ]),
            400,
            40,
        ),
        turn(says("All are numbers."), 500, 50),
    ]);
    scene.world.write("src/a.txt", "one\ntwo\nthree\n");
    scene.run(0);
    let done = scene.results();
    let failed: Vec<_> = done.iter().filter(|done| done.failed).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let tools: Vec<&str> = done.iter().map(|done| done.tool.as_str()).collect();
    assert_eq!(tools, ["TodoWrite", "Glob", "Grep", "Read", "MultiEdit", "Edit", "Write", "Bash"]);
    assert!(done[1].text.contains("src/a.txt") && done[2].text.contains("src/a.txt"), "{done:?}");
    assert!(done[3].text.contains("1\tone\n"), "{done:?}");
    assert_eq!(done[7].text, "1\n2\n3\nfour\n");
    assert_eq!((scene.made("src/a.txt"), scene.made("new/b.txt")), (b"1\n2\n3\n".to_vec(), b"four\n".to_vec()));
    assert_eq!(git(&scene.world.repo(), &["status", "--porcelain"]), "", "the checkout is as it was");
    // 3 dollars for a million tokens of input, 15 of output, 0.30 out of the cache.
    assert_eq!(scene.costs()["worker"], (5, 1_500 * 3 + 150 * 15 + 5_000 * 3 / 10));
    let run = &scene.runs()[0];
    assert_eq!(run["agent"]["usage"], run_usage(), "{run}");
    assert_eq!(run["agent"]["answer"], "All are numbers.");
    assert_eq!(scene.asked().len(), 5);
    scene.assert_replays();
}

fn run_usage() -> Value {
    json!({ "calls": 5, "input": 1_500, "output": 150, "reasoning": 0, "cache_read": 5_000, "cache_write": 0,
            "tokens": 6_650, "tool_calls": 8, "cost_usd_micros": 8_250 })
}

#[test]
fn a_conversation_is_shown_as_it_was_recorded() {
    let scene = Scene::new(&[
        json!({ "text": "I look.", "tool_calls": [
            { "name": "Bash", "input": { "command": "seq 40" } }, { "name": "Launch", "input": {} },
        ] }),
        says("All seen."),
    ]);
    scene.run(0);
    let said = scene.world.run_to(0, &["conversations", "show", &scene.flow()]).out;
    let wanted = [
        "worker begins",
        "is told: Today's date",
        "Do it.",
        "says: I look.",
        "Bash: seq 40",
        "Launch {}",
        "> Launch failed: There is no tool `Launch`",
        "> Bash: 1\n",
        "... 28 more lines",
        "says: All seen.",
        "worker ends: delivered",
    ];
    let places: Vec<Option<usize>> = wanted.iter().map(|wanted| said.find(wanted)).collect();
    assert!(places.iter().all(Option::is_some), "{places:?}\n{said}");
    assert_eq!(said.matches("All seen.").count(), 1, "{said}");
    let (first, last) = (places[..4].is_sorted(), places[8..].is_sorted());
    assert!(first && last, "{said}");
    let shown = scene.world.json(&["conversations", "show", &scene.flow()]);
    let entries = shown["conversations"][0]["entries"].as_array().unwrap();
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["run_started", "told", "says"], "{kinds:?}");
    let result = entries.iter().find(|entry| entry["kind"] == "result" && entry["tool"] == "Bash").unwrap();
    assert!(result["text"].as_str().unwrap().ends_with("39\n40\n"), "{result}");
}

/// Tracks of agents by their names.
fn tracks(each: &[(&str, &[Value])]) -> Value {
    let each = each.iter().map(|(name, turns)| {
        (name.to_string(), json!({ "match": { "system": format!("the agent `{name}`,") }, "turns": turns }))
    });
    each.collect::<serde_json::Map<String, Value>>().into()
}

fn agent(name: &str) -> (&'static str, Value) {
    ("Agent", json!({ "subagent_type": name, "prompt": "Your part." }))
}

#[test]
fn agents_start_agents_three_levels_deep_and_no_deeper() {
    let deep = [calls(&[agent("deep")]), says("My part is done.")];
    let scene = Scene::of(&tracks(&[("worker", &deep), ("deep", &deep)]));
    scene.agent("worker", "workers: [deep]\n");
    scene.agent("deep", "workers: [deep]\n");
    scene.run(0);
    let costs = scene.costs();
    assert_eq!((costs["worker"].0, costs["deep"].0), (2, 6), "two calls of each of four");
    let refused = "agents may start agents 3 levels deep";
    let told: Vec<Value> = scene.questions().into_iter().filter(|one| one.to_string().contains(refused)).collect();
    assert_eq!(told.len(), 1, "only the last is told so: {told:?}");
    assert!(scene.told().contains("My part is done."));
    scene.assert_replays();
}

#[test]
fn agents_that_all_wait_for_agents_of_their_own_are_no_dead_end() {
    let own = [calls(&[agent("helper"), agent("helper")]), says("My part is done.")];
    let scene = Scene::of(&tracks(&[
        // More than may be at work at once, and all of them start others.
        ("worker", &[calls(&vec![agent("deep"); 10]), says("Done.")]),
        ("deep", &own),
        ("helper", &[bash("echo helped"), says("Helped.")]),
    ]));
    scene.agent("worker", "workers: [deep]\n");
    scene.agent("deep", "workers: [helper]\n");
    scene.agent("helper", "");
    scene.run(0);
    let costs = scene.costs();
    assert_eq!((costs["deep"].0, costs["helper"].0), (20, 40));
    scene.assert_replays();
}

#[test]
fn whoever_starts_an_agent_hears_how_it_failed() {
    let workers = "workers: [lost, mute, cut, gone]\n";
    let each = ["lost", "mute", "cut", "gone", "nobody"].map(agent);
    let scene = Scene::of(&tracks(&[
        ("worker", &[calls(&each), says("Understood.")]),
        ("lost", &[calls(&[("Read", json!({ "file_path": "none" }))]), says("Still looking."), says("No.")]),
        ("mute", &[json!({ "text": "", "stop": "refusal" })]),
        ("cut", &[json!({ "error": { "status": 400, "message": "prompt is too long: 9 tokens" } })]),
    ]));
    scene.agent("worker", workers);
    scene.agent("lost", "maxTurns: 1\n");
    for name in ["mute", "cut", "gone"] {
        scene.agent(name, "");
    }
    scene.run(0);
    let done = scene.results();
    let wanted = [
        "The agent did not come to its end: it took 1 turns",
        "The agent did not come to its end: the model refuses",
        "too long",
        "no track of `models/tests.yaml` fits",
        "`subagent_type`: value must be one of",
    ];
    assert_eq!(done.len(), wanted.len());
    for (done, wanted) in done.iter().zip(wanted) {
        assert!(done.failed && done.text.contains(wanted), "`{wanted}` is not in {done:?}");
    }
    assert_eq!(scene.runs().len(), 1, "its own run is not over because of them");
}

#[test]
fn agents_of_an_agent_work_in_its_copy_and_have_records_and_lines_of_their_own() {
    let scene = Scene::of(&tracks(&[
        ("worker", &[bash("echo by worker >> notes"), calls(&[agent("helper")]), bash("cat notes"), says("Done.")]),
        ("helper", &[bash("cat notes; echo by helper >> notes"), says("I was here.")]),
    ]));
    scene.agent("worker", "workers: [helper]\ntools: [Bash, Agent]\n");
    scene.agent("helper", "tools: [Bash]\n");
    scene.run(0);
    assert_eq!(scene.made("notes"), b"by worker\nby helper\n");
    let records = scene.record().with_extension("agents");
    let records: Vec<_> = std::fs::read_dir(records).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(records.len(), 1);
    assert!(lines(&records[0]).join("\n").contains("I was here."));
    let shown = scene.world.run_to(0, &["logs", &scene.flow()]).out;
    assert!(shown.contains("helper") && shown.contains("I was here."), "{shown}");
    assert!(!scene.told().contains("echo by helper"), "what another does is not part of its conversation");
}
