//! What a person does while flows go on: answer, pause, write to agents, and see of each what it waits for.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a document without what it must have fails its test")]

mod support;

use serde_json::Value;
use support::{Gate, World, lines, start_held, until};

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// The needs of one kind.
fn needs(world: &World, kind: &str) -> Vec<Value> {
    let status = world.json(&["status"]);
    let needs = status["needs_you"].as_array().unwrap().clone();
    needs.into_iter().filter(|need| need["kind"] == kind).collect()
}

/// Waits until something waits for an answer. Before the first flow there is no database to look into.
fn until_asked(world: &World) {
    let asks = || world.run(&["approvals", "list", "--output", "jsonl"]);
    until("it asks", || asks().out.contains("\"state\":\"open\""));
}

/// Types what the program said that one can type.
fn type_in(world: &World, command: &str) -> support::Said {
    let words: Vec<&str> = command.strip_prefix("orchestrator ").unwrap().split(' ').collect();
    world.run_to(0, &words)
}

#[test]
fn what_waits_for_people_is_shown_and_answered() {
    let world = World::new();
    world.pipeline(
        "ship",
        "steps:\n  ask: { approval: { message: May it go?, timeout: 1h, on_timeout: approve } }\n  after: { needs: ask, run: 'true' }\n",
    );
    let running = world.start(&["run", "ship"]);
    until_asked(&world);
    let need = &needs(&world, "request")[0];
    assert_eq!((text(&need["what"]), text(&need["step"])), ("approval: May it go?", "ask"));
    assert_eq!((text(&need["who"]), text(&need["then"])), ("whoever has the role admin", "approved"));
    assert!(need["since"].is_string() && need["deadline"].is_string(), "{need}");
    let said = world.run_to(0, &["status"]).out;
    assert!(
        said.starts_with("needs you\n  ! flow_") && said.contains("is approved\n      orchestrator approvals"),
        "{said}"
    );
    assert!(said.contains("1 live (1 without a run)") && said.contains("1 wait for an answer"), "{said}");
    let waiting = &world.json(&["status"])["waiting"][0];
    assert!(text(&waiting["reason"]).starts_with("asked "), "{waiting}");
    assert_eq!((text(&waiting["state"]), text(&waiting["unblocked_by"])), ("waiting", "whoever has the role admin"));
    assert_eq!(waiting["command"], need["command"]);
    let flow = text(&need["flow"]).to_owned();
    assert_eq!(world.json(&["flows", "list", "--waiting"])["flows"][0]["id"], flow.as_str());
    assert_eq!(world.run_to(0, &["flows", "list", "--queued"]).err, "no flow is queued\n");
    assert!(world.run_to(0, &["flows", "list"]).out.contains("ship      waiting  "));

    type_in(&world, text(&need["command"]));
    let said = running.wait();
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = world.run_to(0, &["approvals", "list", "--resolved"]).out;
    assert!(said.contains("100 %") && said.contains("May it go?"), "{said}");
    assert_eq!(needs(&world, "request"), [Value::Null; 0]);
    let again = world.run(&["approvals", "approve", text(&need["command"]).rsplit(' ').next().unwrap()]);
    assert_eq!(again.code, Some(5), "{}", again.err);
    assert_eq!(world.run_to(0, &["flows", "list", "--waiting"]).err, "no flow only waits\n");
}

#[test]
fn a_paused_flow_and_who_waits_behind_it_need_a_person() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline(
        "ship",
        concat!(
            "concurrency: one-at-a-time\nsteps:\n  hold:\n    run: |\n      echo up >> started\n      read x < gate\n",
            "  after: { needs: hold, run: 'true' }\n",
        ),
    );
    let first = start_held(&world, &["run", "ship"]);
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    let second = world.start(&["run", "ship"]);
    until("it is queued", || !world.json(&["flows", "list", "--queued"])["flows"].as_array().unwrap().is_empty());
    let queued = text(&world.json(&["flows", "list", "--queued"])["flows"][0]["id"]).to_owned();
    assert_eq!(world.json(&["status"])["totals"]["queued_flows"], 1);
    let line = |of: &str| {
        let status = world.json(&["status"]);
        let waiting = status["waiting"].as_array().unwrap().clone();
        waiting.into_iter().find(|line| line["flow"] == of).unwrap()
    };
    assert!(text(&line(&queued)["reason"]).contains(&format!("`one-at-a-time` is full: {flow} (`ship`, live)")));

    let said = world.run_to(0, &["pause", &flow, "--reason", "lunch", "--for", "1h"]).out;
    assert!(
        said.contains("it goes on by itself at ") && said.contains(&format!("orchestrator resume {flow}")),
        "{said}"
    );
    let said = world.run_to(5, &["pause", &flow]);
    assert!(said.err.contains("paused it already\nhint: `orchestrator resume "), "{}", said.err);
    let need = &needs(&world, "paused")[0];
    assert!(text(&need["what"]).contains(": lunch, for ") && need["deadline"].is_string(), "{need}");
    let resume = format!("orchestrator resume {flow}");
    assert_eq!((text(&need["flow"]), text(&need["command"])), (flow.as_str(), resume.as_str()));
    let need = &needs(&world, "behind_paused")[0];
    assert_eq!((text(&need["flow"]), text(&need["command"])), (queued.as_str(), resume.as_str()));
    let explained = world.json(&["explain", &queued]);
    assert_eq!(explained["explanations"][0]["hints"][0], resume.as_str());
    assert!(text(&line(&queued)["unblocked_by"]).starts_with(&format!("you: `{resume}`")));

    gate.open();
    until("what ran is over", || world.json(&["status"])["running"] == serde_json::json!([]));
    assert!(text(&line(&flow)["reason"]).contains("lunch"), "it does not go on");
    let resumed = world.start(&["resume", &flow]);
    until("the other one has the place", || lines(world.repo().join("started")).len() == 2);
    gate.open();
    for running in [first, second, resumed] {
        let said = running.wait();
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
    let said = world.run_to(5, &["resume", &flow]);
    assert!(said.err.contains("is over already: it succeeded"), "{}", said.err);
    let said = world.run_to(5, &["pause", &flow]);
    assert!(said.err.contains("the flow is over, succeeded"), "{}", said.err);
}

#[test]
fn a_paused_step_is_resumed_by_its_name() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline(
        "ship",
        concat!(
            "steps:\n  hold:\n    run: |\n      echo up >> started\n      read x < gate\n",
            "  after: { needs: hold, run: 'true' }\n",
        ),
    );
    let first = start_held(&world, &["run", "ship"]);
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    let said = world.run_to(4, &["pause", &flow, "--step", "aftr"]);
    assert!(said.err.contains("did you mean `after`?"), "{}", said.err);
    world.run_to(0, &["pause", &flow, "--step", "after"]);
    gate.open();
    let reason = || {
        let status = world.json(&["status"]);
        let waiting = status["waiting"].as_array().unwrap().clone();
        waiting.first().map(|line| text(&line["reason"]).to_owned()).unwrap_or_default()
    };
    until("the step is held", || reason().starts_with("paused by "));
    let command = text(&needs(&world, "paused")[0]["command"]).to_owned();
    assert_eq!(command, format!("orchestrator resume {flow} --step 'after'"));
    world.run_to(0, &["resume", &flow, "--step", "after"]);
    assert_eq!(first.wait().code, Some(0));
}

/// Asks when it has heard nothing; with an answer it waits at the gate and delivers.
const AGENT: &str = r#"
prompt=$(cat)
echo '{"type":"usage","input":1200,"output":34,"calls":2,"cost_usd_micros":30000}'
echo '{"type":"tool","name":"look","state":"finished"}'
case $prompt in
*Blue*)
  echo up >> started
  read x < gate
  echo '{"type":"message","text":"It is blue now."}'
  echo '{"type":"output","value":{"colour":"blue"}}' ;;
*) echo '{"type":"ask","text":"Which colour?"}' ;;
esac
"#;

#[test]
fn an_agent_is_shown_with_what_it_does_says_and_used() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.write("agents/painter.md", "---\nadapter: command\ncommand: [sh, agent.sh]\n---\nYou paint.\n");
    world.write("agent.sh", AGENT);
    world.pipeline("paint", "steps:\n  wall: { agent: painter, prompt: Paint it. }\n");
    let running = world.start(&["run", "paint"]);
    until_asked(&world);
    let need = &needs(&world, "request")[0];
    assert!(text(&need["what"]).starts_with("question: "), "{need}");
    let command = text(&need["command"]);
    assert!(command.starts_with("orchestrator message req"), "{command}");
    let request = command.split(' ').nth(2).unwrap();
    world.start(&["message", request, "Blue."]).wait();
    until("it works", || !lines(world.repo().join("started")).is_empty());

    until("what it used is told", || world.json(&["status"])["running"][0]["usage"]["tokens"] == 1234);
    let run = &world.json(&["status"])["running"][0];
    assert_eq!((text(&run["agent"]), text(&run["liveness"])), ("painter", "productive"));
    assert!(run["last_output_at"].is_string(), "{run}");
    let said = world.run_to(0, &["status"]).out;
    assert!(said.contains("painter: productive  1.2k tokens, 2 calls, 1 tool call, $0.03"), "{said}");
    assert!(said.contains("2.4k tokens, 4 calls, 2 tool calls, $0.06 (agents"), "{said}");
    let (id, flow) = (text(&run["run"]).to_owned(), text(&run["flow"]).to_owned());
    let reason = text(&world.json(&["explain", &id])["explanations"][0]["reason"]).to_owned();
    assert!(reason.contains("of agent `painter` runs for ") && reason.contains(": productive;"), "{reason}");
    gate.open();
    let said = running.wait();
    assert_eq!(said.code, Some(0), "{}", said.err);

    let shown = world.json(&["runs", "show", &id]);
    assert_eq!((text(&shown["wake_reason"]), text(&shown["outcome"])), ("userMessage", "delivered"));
    let agent = &shown["agent"];
    assert_eq!((text(&agent["name"]), text(&agent["liveness"])), ("painter", "completed"));
    assert_eq!((text(&agent["messages"][0]["text"]), text(&agent["answer"])), ("Blue.", "It is blue now."));
    assert_eq!(agent["usage"]["cost_usd_micros"], 30_000);
    assert!(shown["previous_run"].is_string(), "{shown}");
    let said = world.run_to(0, &["runs", "show", &id]).out;
    for part in ["painter (may be silent for 15m)", "liveness    completed", "answer      It is blue now.", "Blue."] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = world.run_to(0, &["runs", "list", "--agent", "painter"]).out;
    assert!(said.contains("painter (completed)") && said.contains("painter (blocked)"), "{said}");
    assert_eq!(world.run_to(0, &["runs", "list", "--agent", "nobody"]).err, "agent nobody has no runs\n");

    let talk = world.json(&["conversations", "show", &flow]);
    let entries = talk["conversations"][0]["entries"].as_array().unwrap();
    let kinds: Vec<&str> = entries.iter().map(|entry| text(&entry["kind"])).collect();
    let wanted = ["run_started", "run_completed", "message", "run_started", "message", "run_completed"];
    assert_eq!(kinds.iter().filter(|kind| **kind != "message").count(), 4, "{kinds:?}");
    assert!(kinds.len() >= wanted.len() && kinds[0] == wanted[0] && kinds[kinds.len() - 1] == wanted[5], "{kinds:?}");
    let said = world.run_to(0, &["conversations", "show", &id]).out;
    assert!(said.contains(": Blue.\n") && said.contains("agent:painter: It is blue now.\n"), "{said}");
    assert!(said.contains("painter ends: delivered; used 1.2k tokens"), "{said}");
    let listed = &world.json(&["conversations", "list"])["conversations"];
    assert_eq!((text(&listed[0]["step"]), &listed[0]["runs"]), ("wall", &2.into()));
    assert!(world.run_to(0, &["conversations", "list"]).out.contains("It is blue now."));

    let said = world.run_to(0, &["logs", &id]).out;
    assert!(said.contains("says: It is blue now.\nsubmits: {\"colour\":\"blue\"}\n"), "{said}");
    let raw = world.run_to(0, &["logs", &id, "--raw"]).out;
    assert!(raw.contains(r#"{"type":"message","text":"It is blue now."}"#) && !raw.contains("says: "), "{raw}");
    let said = world.run_to(0, &["logs", &flow, "--events"]).out;
    assert!(said.contains("| asks: Which colour?") && said.contains("** agent painter runs"), "{said}");
}

#[test]
fn a_retry_from_a_step_runs_it_and_what_needs_it() {
    let world = World::new();
    let step = |name: &str| format!("run: 'echo {name} >> done'");
    let (one, two, three) = (step("one"), step("two"), step("three"));
    let steps =
        format!("steps:\n  one: {{ {one} }}\n  two: {{ needs: one, {two} }}\n  three: {{ needs: two, {three} }}\n");
    world.pipeline("ship", &steps);
    world.run_to(0, &["run", "ship"]);
    let flow = text(&world.json(&["flows", "list"])["flows"][0]["id"]).to_owned();
    let said = world.run(&["retry", &flow]);
    assert_eq!(said.code, Some(5), "{}", said.err);
    assert!(said.err.contains("--from"), "{}", said.err);
    world.run_to(0, &["retry", &flow, "--from", "two"]);
    assert_eq!(lines(world.repo().join("done")), ["one", "two", "three", "two", "three"]);
    let said = world.run(&["flows", "retry", &flow, "--from", "tow"]);
    assert_eq!(said.code, Some(4), "{}", said.err);
    assert!(said.err.contains("did you mean `two`?"), "{}", said.err);
}

/// A program that gets notices: appends each to a file, and fails as long as `broken` is there.
const TELLER: &str = "#!/bin/sh\nif [ -e broken ]; then echo no mail >&2; exit 1; fi\n{ cat; echo; } >> told\n";

fn told(world: &World) -> Vec<Value> {
    lines(world.repo().join("told")).iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn people_are_told_of_requests_incidents_and_failures() {
    let world = World::new();
    world.write("teller.sh", TELLER);
    let settings = "notifications:\n  - { command: [sh, teller.sh], on: [request, incident, flow_failed] }\n";
    world.write("orchestrator.yaml", settings);
    world.pipeline("ship", "steps:\n  ask: { approval: { message: May it go?, timeout: 1s } }\n");
    let said = world.run_to(1, &["run", "ship"]);
    assert!(said.err.contains("denied"), "{}", said.err);
    let notices = told(&world);
    let moments: Vec<&str> = notices.iter().map(|notice| text(&notice["moment"])).collect();
    assert_eq!(moments, ["request", "incident", "flow_failed"], "{notices:?}");
    assert_eq!((text(&notices[0]["what"]), text(&notices[0]["step"])), ("May it go?", "ask"));
    let flow = text(&notices[0]["flow"]);
    assert!(text(&notices[0]["key"]).starts_with(&format!("{flow}/")) && notices[0]["deadline"].is_string());
    for notice in &notices {
        type_in(&world, &text(&notice["command"]).replace('\'', ""));
    }
    // The same is known to who asks.
    let incidents = world.json(&["incidents"]);
    let incident = &incidents["incidents"][0];
    assert_eq!((text(&incident["kind"]), &incident["open"], text(&incident["flow"])), ("deadline", &true.into(), flow));
    assert_eq!(text(&needs(&world, "incident")[0]["flow"]), flow);
    assert!(world.run_to(0, &["incidents"]).out.contains("a retry asks again"));
    world.run_to(1, &["retry", flow]);
    let incidents = world.json(&["incidents"]);
    let of_first = incidents["incidents"].as_array().unwrap().iter().find(|one| one["flow"] == flow).unwrap();
    assert_eq!(of_first["open"], false, "somebody has seen to it");
    assert_eq!(world.json(&["incidents", "--open"])["incidents"].as_array().unwrap().len(), 1);
}

#[test]
fn what_nobody_could_be_told_is_said_until_it_arrives_again() {
    let world = World::new();
    world.write("teller.sh", TELLER);
    world.write("broken", "");
    world.write("orchestrator.yaml", "notifications:\n  - { command: [sh, teller.sh], on: flow_failed }\n");
    world.pipeline("ship", "steps:\n  it: { run: exit 3 }\n");
    assert_eq!(world.start(&["run", "ship"]).wait().code, Some(1));
    let need = &needs(&world, "undelivered")[0];
    assert!(text(&need["what"]).starts_with("1 notice could not be delivered to command `sh`: "), "{need}");
    assert!(text(&need["what"]).ends_with(": no mail") && need["since"].is_string(), "{need}");
    assert_eq!(world.json(&["incidents"])["incidents"][0]["kind"], "undelivered");
    std::fs::remove_file(world.repo().join("broken")).unwrap();
    world.run_to(1, &["run", "ship"]);
    assert_eq!(told(&world).len(), 1);
    assert_eq!(needs(&world, "undelivered"), [Value::Null; 0]);
}
