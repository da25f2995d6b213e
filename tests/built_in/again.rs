//! `replay --tools`: what the tools of a run do where it began, held against what they did then.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::scene::{Scene, bash, calls, says};
use crate::support::{Gate, Running, World, start_held, until};

/// A run of a step.
fn run_of(world: &World, flow: &str, step: &str) -> String {
    let runs = world.json(&["runs", "list", "--flow", flow])["runs"].as_array().unwrap().clone();
    runs.iter().find(|run| run["step"] == step).unwrap()["id"].as_str().unwrap().to_owned()
}

/// Every file and directory that whoever only looks leaves as it is: all but the lock, what copies are made from and what is on
/// its way out.
fn kept(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    let passing = ["lock", "worktrees/repositories", "worktrees/bases", "worktrees/trash"];
    let passing = passing.map(|name| world.data().join(name));
    let (mut found, mut open) = (BTreeMap::new(), vec![world.data()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if passing.contains(&path) || path.is_symlink() {
                continue;
            }
            let bytes = if path.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            found.insert(path.clone(), bytes);
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

/// Uses the tools of a run again; the calls.
fn tools(world: &World, run: &str, code: i32) -> Vec<Value> {
    let before = kept(world);
    let said = world.run_to(code, &["replay", run, "--tools", "--output", "json"]);
    let after = kept(world);
    let changed: Vec<_> = after.iter().filter(|(path, bytes)| before.get(*path) != Some(*bytes)).collect();
    assert!(changed.is_empty() && before.len() == after.len(), "{changed:?}");
    assert_eq!(world.json(&["worktrees", "list"])["worktrees"], json!([]));
    let document: Value = serde_json::from_str(&said.out).unwrap();
    document["records"][0]["tools"]["calls"].as_array().unwrap().clone()
}

fn came_out(calls: &[Value]) -> Vec<(&str, &str)> {
    calls.iter().map(|call| (call["tool"].as_str().unwrap(), call["came_out"].as_str().unwrap())).collect()
}

#[test]
fn the_tools_of_the_demonstration_say_the_same_again() {
    let world = World::new();
    world.run_to(0, &["demo"]);
    let run = run_of(&world, &world.flow_of("demo").unwrap(), "fix");
    let calls = tools(&world, &run, 0);
    assert_eq!(came_out(&calls), ["Glob", "Bash", "Grep", "Read", "Edit", "Bash"].map(|tool| (tool, "same")));
    let said = world.run_to(0, &["replay", &run, "--tools"]);
    assert!(said.out.contains("6 questions"), "{}", said.out);
    let wanted = "\ntools: of 6 calls 6 came out as recorded, 0 otherwise, 0 were not compared\n";
    assert!(said.out.ends_with(wanted), "{}", said.out);
}

#[test]
fn a_step_begins_with_what_the_steps_before_it_made_whatever_became_of_the_source() {
    let look =
        "cat made.txt source.txt; git log --format=%an; git var GIT_AUTHOR_IDENT | cut -d'>' -f1; date; env | sort";
    let scene = Scene::new(&[
        calls(&[("Read", json!({ "file_path": "made.txt" })), ("Grep", json!({ "pattern": "line" }))]),
        calls(&[("Edit", json!({ "file_path": "made.txt", "old_string": "one", "new_string": "1" }))]),
        bash(look),
        calls(&[
            ("Write", json!({ "file_path": "late/new.txt", "content": "new\n" })),
            ("Bash", json!({ "command": "git status --short; exit 3" })),
        ]),
        says("Done."),
    ]);
    scene.world.write("source.txt", "a line of the source\n");
    let first = "  first: { run: 'printf \"line one\\nline two\\n\" > made.txt' }\n";
    let work = "  work: { agent: worker, prompt: Do it., needs: first }\n";
    scene.world.write("pipelines/p.yaml", &format!("name: p\nsteps:\n{first}{work}"));
    scene.run(0);
    scene.world.write("source.txt", "another line\n");
    scene.world.write("made.txt", "not what the step made\n");
    scene.world.commit();
    let calls = tools(&scene.world, &run_of(&scene.world, &scene.flow(), "work"), 0);
    let wanted = ["Read", "Grep", "Edit", "Bash", "Write", "Bash"].map(|tool| (tool, "same"));
    assert_eq!(came_out(&calls), wanted, "{calls:#?}");
}

#[test]
fn a_result_that_differs_is_named_with_both_sides_and_what_is_chance_is_left_out() {
    let scene = Scene::new(&[
        bash("echo before; date +%N; echo after"),
        calls(&[("Bash", json!({ "command": "echo one; sleep 5", "run_in_background": true }))]),
        calls(&[("BashOutput", json!({ "bash_id": "1" }))]),
        calls(&[("WebFetch", json!({ "url": "https://example.invalid/" }))]),
        says("Done."),
    ]);
    let open = "box: { network: [example.invalid] }\n";
    scene.agent("worker", open);
    scene.settings(&(std::fs::read_to_string(scene.world.repo().join("orchestrator.yaml")).unwrap() + open));
    scene.run(0);
    let run = run_of(&scene.world, &scene.flow(), "work");
    let calls = tools(&scene.world, &run, 1);
    let wanted =
        [("Bash", "otherwise"), ("Bash", "same"), ("BashOutput", "not_compared"), ("WebFetch", "not_compared")];
    assert_eq!(came_out(&calls), wanted, "{calls:#?}");
    let text = |side: &str| calls[0][side]["text"].as_str().unwrap().to_owned();
    assert_eq!(format!("before\n{}", text("recorded")), scene.results()[0].text);
    assert!(text("recorded") != text("now") && text("now").ends_with("\nafter\n"), "{calls:#?}");
    let said = scene.world.run_to(1, &["replay", &run, "--tools"]);
    for part in [
        "of 4 calls 1 came out as recorded, 1 otherwise, 2 were not compared",
        "  event 4, Bash {\"command\":\"echo before; date +%N; echo after\"}: it came out otherwise\n    recorded:\n",
        "WebFetch {\"url\":\"https://example.invalid/\"}: not done: what the network answers",
        "note: its box could reach example.invalid; this one has no network",
    ] {
        assert!(said.out.contains(part), "`{part}`\n{}", said.out);
    }
    // Without its tools it goes as it was recorded.
    scene.assert_replays();
}

fn refuse(world: &World, run: &str, code: i32, wanted: &str) {
    let said = world.run_to(code, &["replay", run, "--tools"]);
    assert!(said.err.contains(wanted) && said.err.contains("\nhint: "), "`{wanted}`\n{}", said.err);
    assert_eq!(said.out, "");
}

#[test]
fn runs_of_others_runs_without_a_box_and_records_that_say_too_little_are_refused() {
    let scene = Scene::new(&[bash("echo one"), says("Done.")]);
    scene.world.write("agents/foreign.md", "---\nadapter: command\ncommand: [echo, done]\n---\nYou work.\n");
    let work = "  work: { agent: worker, prompt: Do it. }\n";
    let others = "  foreign: { agent: foreign, prompt: Do it. }\n  unboxed: { run: 'true', worktree: in_place }\n";
    scene.world.write("pipelines/p.yaml", &format!("name: p\nsteps:\n{work}{others}"));
    scene.run(0);
    let (world, flow, record) = (&scene.world, scene.flow(), scene.record());
    for step in ["foreign", "unboxed"] {
        refuse(world, &run_of(world, &flow, step), 4, "is recorded that could be replayed");
    }
    let (run, text) = (run_of(world, &flow, "work"), std::fs::read_to_string(&record).unwrap());
    let mut second: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    let with = |second: &Value| text.replace(text.lines().nth(1).unwrap(), &second.to_string());
    second["outset"]["place"]["boxed"]["rules"]["write"] = json!(["~/notes"]);
    std::fs::write(&record, with(&second)).unwrap();
    refuse(world, &run, 5, "its box may change `~/notes` of this machine");
    second["outset"]["place"] = json!({ "in_place": { "directory": "/srv/app" } });
    std::fs::write(&record, with(&second)).unwrap();
    refuse(world, &run, 5, "it worked in `/srv/app` itself");
    second.as_object_mut().unwrap().remove("outset");
    std::fs::write(&record, with(&second)).unwrap();
    refuse(world, &run, 5, "its record does not say where it began");
    world.run_to(0, &["replay", &run]);
    std::fs::write(&record, text.replace("\"text\":\"one\\n\"", "\"text\":\"two\\n\"")).unwrap();
    refuse(world, &run, 1, "question 2 is not the recorded one");
    std::fs::remove_file(&record).unwrap();
    refuse(world, &run, 4, "is recorded that could be replayed");
}

#[test]
fn runs_that_go_on_and_runs_with_agents_of_their_own_are_refused() {
    let scene = Scene::new(&[says("I forgot it."), calls(&[("submit_output", json!({ "verdict": "pass" }))])]);
    scene.agent("worker", "output: { schema: { type: object, required: [verdict] } }\n");
    scene.run(0);
    let runs: Vec<String> = scene.runs().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect();
    scene.world.run_to(0, &["replay", &runs[0], "--tools"]);
    refuse(&scene.world, &runs[1], 5, "it went on in an older conversation");

    let track =
        |name: &str, turns: &[Value]| json!({ "match": { "system": format!("the agent `{name}`,") }, "turns": turns });
    let agent = ("Agent", json!({ "subagent_type": "helper", "prompt": "Your part." }));
    let worker = track("worker", &[calls(&[agent]), says("Done.")]);
    let scene = Scene::of(&json!({ "worker": worker, "helper": track("helper", &[says("Done.")]) }));
    scene.agent("worker", "workers: [helper]\n");
    scene.agent("helper", "");
    scene.run(0);
    refuse(&scene.world, &run_of(&scene.world, &scene.flow(), "work"), 5, "it started the agent `helper`");
}

/// A run whose tools, used again, are in the middle of it; with what there was before.
fn in_the_middle(scene: &Scene) -> (String, Running, BTreeMap<PathBuf, Vec<u8>>) {
    scene.agent("worker", "env: { FOR: '0' }\n");
    scene.run(0);
    let (world, run, record) = (&scene.world, run_of(&scene.world, &scene.flow(), "work"), scene.record());
    // This time it sleeps for long.
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace("\"FOR\":\"0\"", "\"FOR\":\"1000\"")).unwrap();
    let before = kept(world);
    let running = world.start(&["replay", &run, "--tools"]);
    until("it sleeps", || sleeps(running.pid()));
    (run, running, before)
}

fn sleeper() -> Scene {
    Scene::new(&[bash("echo x > left.txt; sleep $FOR"), says("Done.")])
}

#[test]
fn what_is_left_when_it_is_killed_goes_when_somebody_carries_flows_on() {
    let scene = sleeper();
    let world = &scene.world;
    let (_, running, before) = in_the_middle(&scene);
    running.signal(rustix::process::Signal::KILL);
    drop(running.wait());
    assert_ne!(kept(world).keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    world.pipeline("long", "steps:\n  wait: { run: 'echo >> started; read line < gate' }\n");
    let mut gate = Gate::new(world);
    let holder = start_held(world, &["run", "long"]);
    let flow = world.flow_of("long").unwrap().replace('_', "-");
    let places = ["temp", "worktrees/copies"].map(|name| world.data().join(name));
    let left = |place: &PathBuf| {
        let names = std::fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| *name != *flow).count()
    };
    until("it is gone", || places.iter().all(|place| left(place) == 0));
    gate.open();
    assert_eq!(holder.wait().code, Some(0));
}

#[test]
fn whoever_interrupts_it_leaves_nothing_behind_and_who_is_at_work_is_not_disturbed() {
    let scene = sleeper();
    let world = &scene.world;
    let (run, running, before) = in_the_middle(&scene);
    running.signal(rustix::process::Signal::INT);
    let said = running.wait();
    assert_eq!(said.code, Some(130), "{}{}", said.out, said.err);
    assert!(said.err.contains("Ctrl-C: not all of its tools were used again"), "{}", said.err);
    assert_eq!(kept(world).keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    // Somebody carries flows on in this data directory.
    world.pipeline("long", "steps:\n  wait: { run: 'echo >> started; read line < gate' }\n");
    let mut gate = Gate::new(world);
    let holder = start_held(world, &["run", "long"]);
    refuse(world, &run, 8, "the data directory is in use by");
    world.run_to(0, &["replay", &run]);
    gate.open();
    assert_eq!(holder.wait().code, Some(0));
}

/// Whether something below a process sleeps for long.
fn sleeps(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let is_sleep =
        |pid: i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"sleep\x001000\0");
    let children: Vec<i32> =
        children.flat_map(|all| all.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()).collect();
    children.into_iter().any(|child| is_sleep(child) || sleeps(child))
}
