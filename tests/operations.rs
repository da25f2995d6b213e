//! What an operator does day by day: follow logs, watch, back up, draw, plan, keep the data directory small.

#![expect(clippy::panic, reason = "what these functions cannot do fails the test")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use support::{Gate, World, lines, start_held, until};

/// `hold` runs until the gate opens, `other` beside it, `next` after it.
const HELD: &str = concat!(
    "steps:\n",
    "  hold:\n    run: |\n      echo first\n      echo up >> started\n      read x < gate\n      echo second\n",
    "  other: { run: 'echo beside; echo wrong >&2; exit 3', retry: { attempts: 2, backoff: 1ms }, continue_on_fail: true }\n",
    "  next: { needs: hold, run: 'printf no-newline' }\n",
);

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn logs_of_a_flow_are_followed_to_its_end() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship"]);
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    let (plain, events, lines) = (world.path().join("plain"), world.path().join("events"), world.path().join("lines"));
    let follow = |file: &std::path::Path, more: &[&str]| {
        world.start_into(file, &[&["logs", flow.as_str(), "--follow"][..], more].concat())
    };
    let followers = [follow(&plain, &[]), follow(&events, &["--events"]), follow(&lines, &["--output", "jsonl"])];
    until("what was printed so far is shown", || {
        [&plain, &events, &lines].iter().all(|file| read(file).contains("first"))
    });
    assert!(!read(&plain).contains("second"));
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    for follower in followers {
        let said = follower.wait();
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    }
    let said = read(&plain);
    // Columns grow with the labels that are known.
    let shown: Vec<String> = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in ["hold | first", "hold | second", "other | beside", "other #2 | wrong", "next | no-newline"] {
        assert!(shown.iter().any(|known| known == line), "{line:?} in {said}");
    }
    assert!(said.ends_with("\n") && said.contains("-- started as process"), "{said}");
    assert!(!said.contains(" ** "), "{said}");
    let said = read(&events);
    for words in ["started (ship)", "hold ", "attempt 1 failed: exit code 3", "tries again", "succeeded after"] {
        assert!(said.contains(words), "{words:?} in {said}");
    }
    let place = |words: &str| said.find(words).unwrap_or_else(|| panic!("no {words:?} in {said}"));
    assert!(place("started (ship)") < place("| first") && place("| second") < place("| no-newline"), "{said}");
    let documents: Vec<Value> = read(&lines).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(documents.iter().all(|line| text(&line["run"]).starts_with("run_")), "{documents:?}");
    let times: Vec<i64> = documents.iter().map(|line| line["at"].as_i64().unwrap()).collect();
    assert!(!times.is_empty());
}

#[test]
fn one_run_is_followed_as_it_prints_and_an_interrupt_ends_that() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship"]);
    let runs = world.json(&["runs", "list"]);
    let run = runs["runs"].as_array().unwrap().iter().find(|run| run["step"] == "hold").unwrap();
    let (id, log) = (text(&run["id"]), text(&run["log"]));
    let (file, left) = (world.path().join("followed"), world.path().join("left"));
    let follower = world.start_into(&file, &["logs", id, "-f"]);
    let other = world.start_into(&left, &["logs", id, "-f", "--since", "1h"]);
    until("both follow", || read(&file).contains("first\n") && read(&left).contains("first\n"));
    other.signal(Signal::INT);
    assert_eq!(other.wait().code, Some(130));
    // A log that is cut below what was read tells nothing twice.
    let whole = read(log.as_ref());
    std::fs::File::options().write(true).open(log).unwrap().set_len(10).unwrap();
    std::fs::write(log, &whole).unwrap();
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(follower.wait().code, Some(0));
    let said = read(&file);
    assert!(
        said.starts_with("-- started as process") && said.ends_with("\nfirst\nsecond\n-- ended with exit code 0\n"),
        "{said}"
    );
    assert_eq!(said.matches("first").count(), 1, "{said}");
}

#[test]
fn several_logs_stand_in_the_order_of_time() {
    let world = World::new();
    world.pipeline("two", "steps:\n  a: { run: 'echo one' }\n  b: { needs: a, run: 'echo two' }\n");
    world.run_to(0, &["run", "two"]);
    world.run_to(0, &["run", "two"]);
    let flows = world.json(&["flows", "list"]);
    let ids: Vec<&str> = flows["flows"].as_array().unwrap().iter().map(|flow| text(&flow["id"])).collect();
    let short = |id: &str| id[id.len() - 6..].to_owned();
    let said = world.run_to(0, &["logs", ids[0], ids[1], "--events"]).out;
    let lines: Vec<String> =
        said.lines().filter(|line| line.contains(" | ")).map(|line| line.replace("  ", "")).collect();
    let wanted = [
        format!("{}/a | one", short(ids[1])),
        format!("{}/b | two", short(ids[1])),
        format!("{}/a | one", short(ids[0])),
        format!("{}/b | two", short(ids[0])),
    ];
    assert_eq!(lines, wanted);
    assert!(said.contains(&format!("{}   ** {} started (two)\n", short(ids[0]), ids[0])), "{said}");
    let runs = world.json(&["runs", "list", "--flow", ids[0]]);
    let (b, a) = (text(&runs["runs"][0]["id"]), text(&runs["runs"][1]["id"]));
    let said = world.run_to(0, &["logs", b, a]).out;
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(" | ")).collect();
    assert_eq!(lines, ["a | one", "b | two"]);
    // Only what belongs to the run, and nothing that is older than asked for.
    let said = world.run_to(0, &["logs", b, "--events"]).out;
    assert!(said.contains("\nb      ** runs\n") && !said.contains("\na "), "{said}");
    for since in ["1ms", "2100-01-01"] {
        assert_eq!(world.run_to(0, &["logs", ids[0], "--events", "--since", since]).out, "", "{since}");
    }
    assert!(world.run_to(0, &["logs", ids[0], "--since", "2020-01-01"]).out.contains("one"));
    let wrong: [&[&str]; 3] =
        [&["logs", b, "--since", "soon"], &["logs", b, "-f", "--output", "json"], &["logs", b, a, "--step", "a"]];
    for args in wrong {
        let said = world.run_to(2, args);
        assert_eq!(said.out, "", "{args:?}");
        assert!(said.err.starts_with("error: `"), "{args:?}: {}", said.err);
    }
}

#[test]
fn following_a_flow_that_was_left_says_so() {
    let world = World::new();
    let _gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship"]);
    running.signal(Signal::KILL);
    running.wait();
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    let file = world.path().join("followed");
    let follower = world.start_into(&file, &["logs", &flow, "--follow"]);
    until("it is shown", || read(&file).contains("first"));
    follower.signal(Signal::TERM);
    let said = follower.wait();
    assert_eq!(said.code, Some(130));
    assert_eq!(said.err, format!("nobody carries {flow} on; `orchestrator flows resume {flow}` does\n"));
}

#[test]
fn status_is_watched_and_says_only_what_is_new() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship"]);
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    until("the other step is over", || world.json(&["status"])["running"].as_array().unwrap().len() == 1);
    let files = ["all", "flow", "lines"].map(|name| world.path().join(name));
    let watch = |file: &std::path::Path, more: &[&str]| {
        world.start_into(file, &[&["status", "--watch", "--interval", "100ms"][..], more].concat())
    };
    let all = watch(&files[0], &[]);
    let of_flow = watch(&files[1], &[&flow]);
    let documents = watch(&files[2], &["--output", "jsonl"]);
    until("each shows it once", || files.iter().all(|file| read(file).contains("hold")));
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    // One flow ends by itself; everything never does.
    assert_eq!(of_flow.wait().code, Some(0));
    until("the end is told", || {
        read(&files[0]).contains("0 live, 1 finished") && read(&files[2]).contains("\"outcome\":\"succeeded\"")
    });
    for watching in [all, documents] {
        watching.signal(Signal::INT);
        assert_eq!(watching.wait().code, Some(130));
    }
    let said = read(&files[0]);
    assert!(said.starts_with("needs you: nothing\n\nrunning\n") && said.matches("totals\n").count() >= 2, "{said}");
    assert!(said.contains("\n-- 20") && said.contains("\nrecent\n"), "{said}");
    let said = read(&files[1]);
    assert!(said.starts_with(&format!("{flow}  ship  live\n")), "{said}");
    assert!(said.contains(&format!("{flow}  ship  succeeded\n")), "{said}");
    let documents: Vec<Value> = read(&files[2]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(documents.len() >= 2 && documents.len() <= 10, "only what is new: {}", documents.len());
    assert!(documents.iter().all(|document| document["schema"] == "orc/status/1"));
    for args in [&["status", "--watch", "--output", "json"][..], &["status", "--watch", "--interval", "1ms"]] {
        assert_eq!(world.run_to(2, args).out, "");
    }
}

#[test]
fn a_backup_in_the_place_of_the_database_carries_a_flow_on() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship"]);
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    until("the other step is over", || world.json(&["status"])["running"].as_array().unwrap().len() == 1);
    world.run_to(0, &["db", "backup", "copy.db"]);
    running.signal(Signal::KILL);
    running.wait();
    // The machine is gone with its data directory; what is left is the copy.
    std::fs::remove_dir_all(world.data()).unwrap();
    std::fs::create_dir(world.data()).unwrap();
    std::fs::rename(world.repo().join("copy.db"), world.data().join("orchestrator.db")).unwrap();
    let before = world.json(&["flows", "show", &flow]);
    assert_eq!((&before["state"], &before["carried_on"]), (&"live".into(), &false.into()));
    let resumed = world.start(&["resume", "--all"]);
    until("the step is tried again", || lines(world.repo().join("started")).len() == 2);
    gate.open();
    let said = resumed.wait();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("1 run(s) of an earlier process were lost"), "{}", said.err);
    let after = world.json(&["flows", "show", &flow]);
    assert_eq!(after["outcome"], "succeeded");
    let attempts: Vec<_> = after["steps"].as_array().unwrap().iter().map(|step| step["attempts"].clone()).collect();
    assert_eq!(attempts, [2, 2, 1], "what was over is not done again");
    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
}

#[test]
fn a_flow_is_drawn_with_the_states_of_its_steps() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship"]);
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    until("the other step is over", || world.json(&["status"])["running"].as_array().unwrap().len() == 1);
    let svg = world.run_to(0, &["graph", &flow, "--output", "svg"]).out;
    assert!(svg.contains(&format!("<title id=\"title\">ship {flow}</title>")), "{svg}");
    assert!(svg.contains("hold: runs; other: failed, attempt 2; next after hold: blocked</desc>"), "{svg}");
    for class in ["runs", "failed", "waits"] {
        assert_eq!(svg.matches(&format!("<g class=\"step {class}\">")).count(), 1, "{class}: {svg}");
    }
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    // By the end of its id; the file may have changed or gone since.
    std::fs::remove_file(world.repo().join("pipelines/ship.yaml")).unwrap();
    let mermaid = world.run_to(0, &["graph", &flow[flow.len() - 8..]]).out;
    assert!(mermaid.contains("s0[\"hold<br>succeeded\"]:::succeeded"), "{mermaid}");
    let dot = world.run_to(0, &["graph", &flow, "--output", "dot"]).out;
    assert!(dot.contains("next\\nsucceeded") && dot.contains("color="), "{dot}");
    let unknown = world.run_to(4, &["graph", "flow_01m8pyns4geg6s7xcb5ehsj88w"]);
    assert!(unknown.err.contains("there is no flow flow_01m8"), "{}", unknown.err);
    let unknown = world.run_to(4, &["graph", "shipping"]);
    assert!(unknown.err.contains("there is no pipeline `shipping`"), "{}", unknown.err);
}

#[test]
fn a_dry_run_shows_what_would_run_and_starts_nothing() {
    let world = World::new();
    let steps = concat!(
        "inputs: { count: { type: number } }\n",
        "env: { COLOUR: red }\n",
        "steps:\n",
        "  last: { needs: [each, touch], if: 'inputs.count > 1', run: 'true' }\n",
        "  touch: { run: 'echo ran >> ran', env: { MORE: x }, timeout: 5m }\n",
        "  each: { foreach: [1, 2], run: 'true', retry: { attempts: 3, backoff: 1ms } }\n",
        "finally:\n  bye: { run: 'exit 3' }\n",
    );
    world.pipeline("plan", steps);
    let first = world.run_to(0, &["run", "plan", "--dry-run", "--input", "count=2", "--slots", "3"]);
    assert_eq!(first.err, "");
    assert!(first.out.starts_with("plan would run 4 steps; nothing was started\n"), "{}", first.out);
    let rows: Vec<Vec<&str>> = first.out.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    for row in [["1", "touch", "-"], ["1", "each", "-"], ["2", "last", "each,"], ["3", "bye", "all"]] {
        assert!(rows.iter().any(|known| known == &row), "{row:?} in {}", first.out);
    }
    for words in
        ["no history", "only if inputs.count > 1", "once for each of [1,2]", "env of touch", "at most 3 of them"]
    {
        assert!(first.out.contains(words), "{words:?} in {}", first.out);
    }
    assert!(first.out.contains("PATH") && first.out.contains("COLOUR") && first.out.contains("your own checkout"));
    assert!(first.out.ends_with("takes nobody knows how long: there is no finished flow of `plan`\n"), "{}", first.out);
    assert!(!world.data().exists() && !world.repo().join("ran").exists(), "it makes nothing");
    assert!(world.run_to(3, &["run", "plan", "--dry-run"]).err.contains("count"), "inputs are checked");

    world.run_to(1, &["run", "plan", "--input", "count=2"]);
    world.run_to(1, &["run", "plan", "--input", "count=1"]);
    let plan = world.json(&["run", "plan", "--dry-run", "--input", "count=2"]);
    assert_eq!(plan["schema"], "orc/plan/1");
    let takes = |step: &str| {
        let steps = plan["steps"].as_array().unwrap();
        steps.iter().find(|known| known["step"] == step).unwrap()["takes"].clone()
    };
    assert_eq!((&takes("touch")["flows"], &takes("each")["flows"]), (&2.into(), &2.into()));
    assert_eq!(takes("last")["flows"], 1, "it was skipped once");
    assert_eq!(takes("bye"), Value::Null, "what failed tells nothing");
    assert!(takes("touch")["p25_ms"].as_u64() <= takes("touch")["p75_ms"].as_u64());
    assert_eq!((&plan["steps_without_history"], plan["takes"]["p25_ms"].is_u64()), (&1.into(), true));
    assert_eq!(lines(world.repo().join("ran")).len(), 2, "only the two real ones");
    assert_eq!(world.json(&["flows", "list"])["flows"].as_array().unwrap().len(), 2);
}

/// `retention` in the file of the workspace.
fn keep(world: &World, retention: &str) {
    world.write("orchestrator.yaml", &format!("retention: {retention}\n"));
}

#[test]
fn what_is_older_than_it_is_kept_is_shown_and_removed() {
    let world = World::new();
    world.pipeline("two", "steps:\n  a: { run: 'echo one' }\n  b: { needs: a, run: 'echo two' }\n");
    for _ in 0..2 {
        world.run_to(0, &["run", "two"]);
    }
    let everything = world.run_to(0, &["db", "retention"]);
    assert!(everything.err.contains("kept for ever"), "{}", everything.err);
    assert!(everything.out.contains("0 with their steps"), "{}", everything.out);

    keep(&world, "{ runs: 1h, logs: 1ms, events: 1h }");
    let shown = world.json(&["db", "retention", "--dry-run"]);
    assert_eq!((&shown["schema"], &shown["removed"]), (&"orc/retention/1".into(), &false.into()));
    assert_eq!((&shown["flows"], &shown["events"]), (&serde_json::json!([]), &0.into()));
    assert_eq!(shown["logs"].as_array().unwrap().len(), 2);
    assert!(shown["logs"][0]["bytes"].as_u64() > Some(0), "{shown}");
    let logs = || std::fs::read_dir(world.data().join("logs")).unwrap().count();
    assert_eq!(logs(), 2, "looking removes nothing");
    world.run_to(0, &["db", "retention", "--apply"]);
    assert_eq!(logs(), 0);
    assert_eq!(world.json(&["flows", "list"])["flows"].as_array().unwrap().len(), 2);

    // Logs that cannot be removed keep their flow: its rows are what leads to them.
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    let stuck = world.data().join("logs").join(flow.replacen('_', "-", 1));
    std::fs::write(&stuck, "no directory").unwrap();
    keep(&world, "{ runs: 1ms }");
    let said = world.run_to(8, &["db", "retention", "--apply", "--output", "json"]);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert!(text(&document["failures"][0]).starts_with("cannot remove `"), "{document}");
    assert!(said.err.contains("error: not everything could be removed"), "{}", said.err);
    assert_eq!(world.json(&["flows", "list"])["flows"].as_array().unwrap().len(), 1);
    std::fs::remove_file(&stuck).unwrap();
    std::fs::remove_file(world.repo().join("orchestrator.yaml")).unwrap();
    world.run_to(0, &["run", "two"]);

    keep(&world, "{ runs: 1ms, events: 1ms }");
    let applied = world.json(&["db", "retention", "--apply"]);
    assert_eq!(applied["flows"].as_array().unwrap().len(), 2, "{applied}");
    assert!(applied["events"].as_u64() > Some(4), "{applied}");
    assert_eq!(world.json(&["flows", "list"])["flows"], serde_json::json!([]));
    assert_eq!(world.json(&["runs", "list"])["runs"], serde_json::json!([]));
    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
    let again = world.json(&["db", "retention", "--apply"]);
    assert_eq!(
        (&again["flows"], &again["logs"], &again["events"]),
        (&serde_json::json!([]), &serde_json::json!([]), &0.into())
    );
    // What comes next is numbered on, and nobody is confused.
    keep(&world, "{ runs: 1h }");
    world.run_to(0, &["run", "two"]);
    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
    assert_eq!(world.json(&["status"])["totals"]["finished_flows"], 1);
}

#[test]
fn a_holder_removes_what_is_too_old_but_never_what_is_needed() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("quick", "steps: { a: { run: 'echo one' } }\n");
    world.pipeline("again", "steps: { a: { run: 'exit 3' } }\n");
    world.run_to(1, &["run", "again"]);
    world.run_to(0, &["run", "quick"]);
    let flows = world.json(&["flows", "list"]);
    let of = |name: &str| {
        let found = flows["flows"].as_array().unwrap().iter().find(|flow| flow["pipeline"] == name);
        text(&found.unwrap()["id"]).to_owned()
    };
    let (failed, quick) = (of("again"), of("quick"));
    // Another workspace shares the data directory; what ours says about ours is not about it.
    let other = world.path().join("other");
    std::fs::create_dir_all(other.join("pipelines")).unwrap();
    std::fs::copy(world.repo().join("pipelines/quick.yaml"), other.join("pipelines/quick.yaml")).unwrap();
    assert!(world.command(&["run", "quick"]).current_dir(&other).output().unwrap().status.success());
    let stranger = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();

    world.pipeline("wait", "steps: { hold: { run: 'echo up >> started; read x < gate' } }\n");
    keep(&world, "{ runs: 1ms, events: 1ms }");
    let running = start_held(&world, &["run", "wait"]);
    let known = |id: &str| world.run(&["flows", "show", id]).code == Some(0);
    until("what is too old is removed", || !known(&quick) && !known(&failed));
    assert!(known(&stranger), "it belongs to somebody else");
    let log = |id: &str| world.data().join("logs").join(id.replacen('_', "-", 1)).exists();
    assert!(!log(&quick) && log(&stranger));
    let live = text(&world.json(&["flows", "list", "--live"])["flows"][0]["id"]).to_owned();
    assert!(known(&live), "what is not over stays");
    let refused = world.run_to(8, &["db", "retention", "--apply"]);
    assert!(refused.err.contains("in use by process"), "{}", refused.err);
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
}

#[test]
fn a_flow_that_a_live_one_was_made_from_is_kept() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("again", "steps: { a: { run: 'test -e ok || exit 3; echo up >> started; read x < gate' } }\n");
    world.run_to(1, &["run", "again"]);
    let failed = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    world.write("ok", "");
    let running = start_held(&world, &["retry", &failed]);
    keep(&world, "{ runs: 1ms, logs: 1ms, events: 1ms }");
    let shown = world.json(&["db", "retention"]);
    assert_eq!(
        (&shown["flows"], &shown["logs"], &shown["events"]),
        (&serde_json::json!([]), &serde_json::json!([]), &0.into())
    );
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(world.json(&["db", "retention"])["flows"].as_array().unwrap().len(), 2);
}

#[test]
fn children_of_a_live_flow_are_kept_although_they_are_over() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("child", "steps: { a: { run: 'echo one' } }\n");
    let hold = "hold: { needs: below, run: 'echo up >> started; read x < gate' }";
    world.pipeline("above", &format!("steps:\n  below: {{ pipeline: child }}\n  {hold}\n"));
    let running = start_held(&world, &["run", "above"]);
    keep(&world, "{ runs: 1ms, logs: 1ms, events: 1ms }");
    let nothing = serde_json::json!([]);
    let shown = world.json(&["db", "retention"]);
    assert_eq!((&shown["flows"], &shown["logs"], &shown["events"]), (&nothing, &nothing, &0.into()));
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(world.json(&["db", "retention"])["flows"].as_array().unwrap().len(), 2);
}

#[test]
fn artifacts_go_with_their_flow_unless_one_that_stays_took_them_over() {
    let world = World::new();
    let made = "make: { run: 'echo whole > report', artifacts: { report: report } }";
    world.pipeline("keeps", &format!("steps:\n  {made}\n  use: {{ needs: make, run: test -e ok }}\n"));
    world.run_to(1, &["run", "keeps"]);
    let first = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    let artifacts = || std::fs::read_dir(world.data().join("artifacts")).unwrap().count();
    assert_eq!(artifacts(), 1);
    world.write("ok", "");
    keep(&world, "{ runs: 1ms }");
    let shown = world.json(&["db", "retention"]);
    assert_eq!((&shown["flows"][0], &shown["artifacts"][0]["bytes"]), (&first.as_str().into(), &6.into()), "{shown}");
    std::fs::remove_file(world.repo().join("orchestrator.yaml")).unwrap();
    // Minutes go by, so that the retry is not too old when what it was made from is.
    let retried = world.command(&["retry", &first]).env("ORC_CLOCK_RATE", "1000").output().unwrap();
    assert!(retried.status.success(), "{retried:?}");
    keep(&world, "{ runs: 1ms }");
    let applied = world.json(&["db", "retention", "--apply"]);
    assert_eq!((&applied["flows"], &applied["artifacts"]), (&serde_json::json!([first]), &serde_json::json!([])));
    assert_eq!(artifacts(), 1, "the retry took them over");
}

#[test]
fn flows_that_only_wait_hear_their_answers_after_a_crash() {
    let world = World::new();
    let ask = "ask: { approval: { message: Go on? } }\n  next: { needs: ask, run: 'echo went >> went' }";
    world.pipeline("asks", &format!("steps:\n  {ask}\n"));
    let open = || -> Vec<Value> {
        // At first there is no database.
        let said = world.run(&["approvals", "list", "--output", "json"]);
        let listed: Value = serde_json::from_str(&said.out).unwrap_or_default();
        listed["requests"].as_array().cloned().unwrap_or_default()
    };
    for asked in 1..=2 {
        let holder = world.start(&["run", "asks"]);
        until("it asks", || open().len() == asked);
        holder.signal(Signal::KILL);
        holder.wait();
    }
    let holder = world.start(&["resume", "--all"]);
    until("both are carried on", || {
        world.json(&["status"])["holder"]["flows"].as_array().is_some_and(|all| all.len() == 2)
    });
    for request in open() {
        world.run_to(0, &["approvals", "approve", text(&request["id"])]);
    }
    assert_eq!(holder.wait().code, Some(0));
    assert_eq!(lines(world.repo().join("went")).len(), 2);
}
