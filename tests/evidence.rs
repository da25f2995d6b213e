//! What an operator is told about flows that are live, left behind, or over: `status`, `explain`, `flows`, `runs`,
//! `logs`, `db`, each checked against what is really so.

#![expect(clippy::panic, reason = "what these functions cannot do fails the test")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use support::{Gate, World, start_held};

/// `hold` runs until the gate opens; `next` needs it, `other` finds no slot with `--slots 1`.
const HELD: &str = concat!(
    "steps:\n",
    "  hold:\n    run: |\n      printf 'to \\033[31mred\\033[0m and \\033[2J\\n'\n      echo up >> started\n      read x < gate\n",
    "  next: { needs: hold, run: 'true' }\n",
    "  other: { run: 'true' }\n",
    "finally:\n  last: { run: 'true' }\n",
);

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

#[test]
fn a_live_flow_is_shown_with_evidence() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship", "--slots", "1"]);

    let status = world.json(&["status"]);
    assert_eq!(status["schema"], "orc/status/1");
    assert_eq!(status["needs_you"], serde_json::json!([]));
    assert_eq!(status["holder"]["pid"], running.pid());
    assert_eq!((&status["holder"]["slots"], &status["holder"]["answers"]), (&1.into(), &true.into()));
    let run = &status["running"][0];
    assert_eq!((text(&run["step"]), text(&run["process"]), &run["attempt"]), ("hold", "alive", &1.into()));
    assert!(run["last_output_at"].is_string() && run["pid"].is_u64(), "{run}");
    let waiting = status["waiting"].as_array().unwrap();
    let reasons: Vec<_> = waiting.iter().map(|step| (text(&step["step"]), text(&step["reason"]))).collect();
    assert_eq!(reasons[0].0, "other");
    assert!(reasons[0].1.starts_with("no slot is free: `hold` for "), "{reasons:?}");
    assert_eq!(reasons[1].0, "next");
    assert!(reasons[1].1.starts_with("needs `hold` (runs for "), "{reasons:?}");
    let last = ("last", "`finally` begins when all other steps are over; open: `hold`, `next`, `other`");
    assert_eq!(reasons[2], last);
    assert_eq!((&status["totals"]["live_flows"], &status["totals"]["slots_used"]), (&1.into(), &1.into()));

    let said = world.run_to(0, &["status"]).out;
    assert!(
        said.starts_with("running\n") && said.contains("no slot is free") && said.contains("1 of 1 in use"),
        "{said}"
    );
    assert!(said.contains("sandbox   required (default)\n"), "{said}");
    assert!(said.contains("without a box, in place: `hold`, `next`, `other`, `last` of ship"), "{said}");
    assert_eq!((&status["sandbox"], &status["in_place"][0]["steps"][0]), (&"required".into(), &"hold".into()));

    let flow = text(&run["flow"]).to_owned();
    let explained = world.json(&["explain", &flow, "--step", "other"]);
    assert_eq!(explained["explanations"][0]["unblocked_by"], "a run that ends, or more slots (`--slots`, `slots:`)");
    let explained = world.run_to(0, &["explain", &flow[flow.len() - 8..]]).out;
    assert!(explained.contains("hold: active for ") && explained.contains("as process "), "{explained}");
    let shown = world.run_to(0, &["flows", "show", &flow]).out;
    assert!(shown.starts_with(&format!("{flow}  ship  live\n")) && shown.contains("sandbox: off"), "{shown}");
    assert!(world.run_to(0, &["flows", "list", "--live"]).out.contains(&flow));

    gate.open();
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(world.json(&["status"])["holder"], Value::Null);
    assert_eq!(world.json(&["status"])["recent"][0]["outcome"], "succeeded");
    assert_eq!(world.run_to(0, &["flows", "list", "--live"]).err, "no flow is unfinished\n");
}

#[test]
fn logs_and_runs_work_while_a_run_is_on() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship", "--slots", "1"]);
    let runs = world.json(&["runs", "list"]);
    let run = &runs["runs"][0];
    assert_eq!(
        (&run["schema"], &run["status"], &run["step"]),
        (&"orc/run/1".into(), &"running".into(), &"hold".into())
    );
    assert_eq!((&run["process"]["seen"], &run["wake_reason"]), (&"alive".into(), &"pipelineStep".into()));
    let (id, flow) = (text(&run["id"]), text(&run["flow"]));

    let log = world.run_to(0, &["logs", id]).out;
    let mut printed = log.lines();
    assert!(printed.next().unwrap().starts_with("-- started as process "), "{log}");
    assert_eq!(printed.next(), Some("to red and \\u{1b}[2J"), "nothing that a terminal obeys: {log}");
    let raw = world.run_to(0, &["logs", id, "--output", "jsonl"]).out;
    let line: Value = serde_json::from_str(raw.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&line["kind"], text(&line["text"])), (&"stdout".into(), "to \x1b[31mred\x1b[0m and \x1b[2J"));
    let of_flow = world.run_to(0, &["logs", flow, "--step", "hold"]).out;
    assert!(of_flow.starts_with(&format!("== hold attempt 1 ({id})\n-- started")), "{of_flow}");
    assert_eq!(world.run_to(0, &["logs", flow, "--step", "next"]).err, "nothing has run yet\n");
    let document = world.json(&["logs", id]);
    assert_eq!((&document["schema"], &document["runs"][0]["run"]), (&"orc/logs/1".into(), &run["id"]));

    let shown = world.run_to(0, &["runs", "show", id]).out;
    assert!(shown.starts_with(&format!("{id}  hold  running\n")) && shown.contains(" (alive), of inst_"), "{shown}");
    let wrong = world.run_to(2, &["runs", "show", flow]);
    assert!(wrong.err.contains("is a flow, not a run"), "{}", wrong.err);
    let step = world.run_to(4, &["logs", flow, "--step", "hodl"]);
    assert!(step.err.contains("has no step `hodl`") && step.err.contains("did you mean `hold`"), "{}", step.err);

    gate.open();
    assert_eq!(running.wait().code, Some(0));
    std::fs::remove_dir_all(world.data().join("logs")).unwrap();
    let gone = world.run_to(0, &["logs", id]).out;
    assert_eq!(gone, "-- it printed nothing, or its log was removed\n");
    let gone = world.run_to(0, &["logs", flow]).out;
    assert!(gone.starts_with(&format!("== hold attempt 1 ({id})\n-- it printed nothing")), "{gone}");
    let log = text(&run["log"]);
    std::fs::create_dir_all(log).unwrap();
    let closed = world.run_to(8, &["logs", id]);
    assert!(closed.err.contains(&format!("cannot read the log of {id}")), "{}", closed.err);
    std::fs::remove_dir(log).unwrap();
    std::fs::write(log, "{\"v\":1,\"seq\":1,\"at\":0,\"kind\":\"stdout\",\"text\":\"whole\"}\nnot JSON\n{\"v\":1")
        .unwrap();
    let damaged = world.run_to(0, &["logs", id]);
    assert_eq!(damaged.out, "whole\n");
    assert!(damaged.err.starts_with("line 2 of `") && damaged.err.contains("is damaged"), "{}", damaged.err);
}

#[test]
fn a_holder_that_is_gone_is_said_loudly() {
    let world = World::new();
    let gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship", "--slots", "1"]);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, None, "killed");

    let status = world.json(&["status"]);
    let need = &status["needs_you"][0];
    let flow = text(&need["flow"]).to_owned();
    assert_eq!(text(&need["what"]), "nobody carries it on");
    assert_eq!(text(&need["command"]), format!("orchestrator flows resume {flow}"));
    assert_eq!(status["holder"], Value::Null);
    let said = world.run_to(0, &["status"]).out;
    assert!(said.starts_with("needs you\n  ! flow_") && said.contains("NOBODY, and flows are unfinished"), "{said}");
    let explained = world.json(&["explain", &flow]);
    for explanation in explained["explanations"].as_array().unwrap() {
        assert_eq!(text(&explanation["alarm"]), "nobody carries the flow on", "{explanation}");
        assert_eq!(text(&explanation["unblocked_by"]), "you", "{explanation}");
    }
    assert_eq!(world.json(&["flows", "show", &flow])["carried_on"], false);

    // Another flow has a holder; the one that was left still has none.
    drop(gate);
    std::fs::remove_file(world.repo().join("gate")).unwrap();
    let mut gate = Gate::new(&world);
    let other = start_held(&world, &["run", "ship", "--slots", "1"]);
    let status = world.json(&["status"]);
    let needs = status["needs_you"].as_array().unwrap();
    assert_eq!(needs.len(), 1, "{needs:?}");
    assert_eq!(text(&needs[0]["flow"]), flow);
    assert!(world.run_to(0, &["explain", &flow]).out.contains("is busy with others"));
    gate.open();
    assert_eq!(other.wait().code, Some(0));
}

#[test]
fn what_must_not_run_twice_waits_for_a_person_until_it_is_retried() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    let once = "steps:\n  once:\n    idempotent: false\n    run: |\n      echo up >> started\n      read x < gate\n";
    world.pipeline("pay", once);
    let running = start_held(&world, &["run", "pay"]);
    running.signal(Signal::KILL);
    running.wait();
    world.run_to(1, &["flows", "resume", "--all"]);

    let status = world.json(&["status"]);
    let need = &status["needs_you"][0];
    let flow = text(&need["flow"]).to_owned();
    assert_eq!(text(&need["step"]), "once");
    assert!(text(&need["what"]).contains("a person must decide"), "{need}");
    assert!(text(&need["command"]).starts_with("orchestrator explain "), "{need}");
    let explained = world.run_to(0, &["explain", &flow, "--step", "once"]).out;
    assert!(explained.contains("change: you: look what it did, then decide"), "{explained}");
    let shown = world.json(&["flows", "show", &flow]);
    assert_eq!(
        (&shown["schema"], &shown["steps"][0]["error"]["family"]),
        (&"orc/flow/1".into(), &"processLost".into())
    );

    gate.open();
    world.run_to(0, &["retry", &flow]);
    assert_eq!(world.json(&["status"])["needs_you"], serde_json::json!([]));
}

#[test]
fn a_failure_is_explained_with_the_way_to_its_log() {
    let world = World::new();
    let steps = concat!(
        "steps:\n  build: { run: 'echo out of cheese >&2; exit 7', retry: { attempts: 2, backoff: 1ms } }\n",
        "  test: { needs: build, run: 'true' }\n",
        "  maybe: { if: '${{ 1 == 2 }}', run: 'true' }\n",
    );
    world.pipeline("broken", steps);
    world.run_to(1, &["run", "broken"]);
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    let document = world.json(&["explain", &flow]);
    let of = |name: &str| {
        let found = document["explanations"].as_array().unwrap().iter().find(|one| one["of"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {document}")).clone()
    };
    assert_eq!(text(&of(&flow)["reason"]), "failed: `build`");
    assert_eq!(text(&of("build")["reason"]), "failed after 2 attempts: exit code 7: out of cheese");
    assert_eq!(text(&of("test")["reason"]), "skipped: `build` failed");
    assert_eq!(text(&of("maybe")["reason"]), "skipped: its `if` is false");
    let runs = world.json(&["runs", "list", "--flow", &flow]);
    let (last, first) = (&runs["runs"][0], &runs["runs"][1]);
    assert_eq!(text(&of("build")["hints"][0]), format!("orchestrator logs {}", text(&last["id"])));
    assert_eq!((&last["attempt"], &last["previous_run"]), (&2.into(), &first["id"]));
    assert_eq!(
        (&last["outcome"], &last["family"], &last["status"]),
        (&"failed".into(), &"unknown".into(), &"error".into())
    );
    let explained = world.run_to(0, &["explain", text(&last["id"])]).out;
    assert!(explained.starts_with("build: finished for ") && explained.contains("try:    orchestrator logs run_"));
    let shown = world.run_to(0, &["status", text(&last["id"])]).out;
    assert!(shown.contains("why       exit code 7: out of cheese"), "{shown}");
    assert_eq!(world.run_to(0, &["runs", "list", "--limit", "1"]).out.lines().count(), 2);
}

#[test]
fn who_cancelled_is_told() {
    let world = World::new();
    let _gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship", "--slots", "1"]);
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    world.run_to(0, &["cancel", &flow]);
    assert_eq!(running.wait().code, Some(130));
    let explained = world.json(&["explain", &flow, "--step", "next"]);
    let user = rustix::process::getuid().as_raw();
    assert_eq!(text(&explained["explanations"][0]["reason"]), format!("the flow was cancelled by os:{user}"));
}

#[test]
fn the_database_is_looked_after() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship", "--slots", "1"]);
    world.run_to(0, &["db", "backup", "copy.db"]);
    assert!(world.repo().join("copy.db").is_file());
    let again = world.run_to(5, &["db", "backup", "copy.db"]);
    assert!(again.err.contains("`copy.db` is there already") && again.err.contains("--force"), "{}", again.err);
    world.run_to(0, &["db", "backup", "copy.db", "--force"]);
    let itself = world.data().join("orchestrator.db");
    let itself = world.run_to(8, &["db", "backup", "--force", itself.to_str().unwrap()]);
    assert!(itself.err.contains("it is the database itself"), "{}", itself.err);
    let nowhere = world.run_to(8, &["db", "backup", "missing/copy.db"]);
    assert!(nowhere.err.contains("cannot write the backup `missing/copy.db`"), "{}", nowhere.err);
    for command in ["vacuum", "migrate"] {
        let held = world.run_to(8, &["db", command]);
        let who = format!("the data directory is in use by process {} (`run`, for ", running.pid());
        assert!(held.err.contains(&who), "{}", held.err);
    }
    gate.open();
    assert_eq!(running.wait().code, Some(0));

    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
    assert_eq!(world.json(&["db", "check"])["findings"], serde_json::json!([]));
    assert!(world.run_to(0, &["db", "vacuum"]).err.starts_with("the database has "));
    assert!(world.run_to(0, &["db", "migrate"]).err.contains("already"));
    // A copy that was made in the middle is whole: its flow is simply not over.
    let elsewhere = world.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::rename(world.repo().join("copy.db"), elsewhere.join("orchestrator.db")).unwrap();
    let elsewhere = elsewhere.to_str().unwrap();
    assert_eq!(world.json(&["--data", elsewhere, "db", "check"])["findings"], serde_json::json!([]));
    assert_eq!(world.json(&["--data", elsewhere, "status"])["totals"]["live_flows"], 1);
}

#[test]
fn ids_that_mean_nothing_are_told_apart() {
    let world = World::new();
    world.run_to(0, &["init"]);
    world.commit();
    world.run_to(0, &["run", "hello"]);
    let unknown = "flow_01m8pyns4geg6s7xcb5ehsj88w";
    let cases: [(&[&str], i32, &str); 7] = [
        (&["status", unknown], 4, "there is no flow flow_"),
        (&["explain", unknown], 4, "there is no flow flow_"),
        (&["logs", unknown], 4, "there is no flow flow_"),
        (&["runs", "show", "run_01m8pyns4ggw897r310tr1cs0m"], 4, "there is no run run_"),
        (&["status", "zzzzzz"], 4, "no flow, run or request has an id that ends with `zzzzzz`"),
        (&["explain", "abc"], 2, "too short for an id"),
        (&["flows", "show", "%%%%%%%"], 4, "ends with `%%%%%%%`"),
    ];
    for (args, code, message) in cases {
        let said = world.run_to(code, args);
        assert_eq!(said.out, "", "{args:?}");
        assert!(said.err.contains(message), "{args:?}: {}", said.err);
    }
    for form in ["json", "jsonl", "yaml"] {
        for args in [&["status"][..], &["flows", "list"], &["runs", "list"]] {
            let mut args = args.to_vec();
            args.extend(["--output", form]);
            assert!(!world.run_to(0, &args).out.is_empty(), "{args:?}");
        }
    }
}
