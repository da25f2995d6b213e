//! Agents that behave well and badly, as real processes through the binary: what comes of the run, of what family a failure
//! is, how it did in a word, why it stopped, and what its step does then.

#![expect(clippy::unwrap_used, reason = "a document without what it must have fails its test")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use support::{Gate, Running, Said, World, lines, runs, until};

/// It does what it owes.
const PASS: &str = "echo '{\"type\":\"output\",\"value\":{\"verdict\":\"pass\"}}'\n";
/// What it owes.
const OWES: &str = ", output: { schema: { type: object, required: [verdict] } }";

/// A world with one agent, which reads its prompt and then does `script`, and a pipeline `one` with one step for it.
fn world(script: &str, profile: &str, step: &str) -> World {
    let world = World::new();
    world.write("agents/coder.md", &format!("---\nadapter: command\ncommand: [sh, agent.sh]\n{profile}---\nWork.\n"));
    world.write("agent.sh", &format!("echo $$ >> pids\ncat > \"prompt$ORC_ATTEMPT\"\n{script}"));
    world.pipeline("one", &format!("steps: {{ it: {{ agent: coder, prompt: Do it.{step} }} }}\n"));
    world
}

fn flow_of(world: &World) -> String {
    world.json(&["flows", "list"])["flows"][0]["id"].as_str().unwrap().to_owned()
}

/// Whether nothing was started yet.
fn flow_is_new(world: &World) -> bool {
    let said = world.run(&["flows", "list", "--output", "json"]);
    said.code != Some(0) || !said.out.contains("flow_")
}

/// The runs of the flow that was started last, the first attempt first.
fn runs_of(world: &World) -> Vec<Value> {
    let flow = flow_of(world);
    let listed = world.json(&["runs", "list", "--flow", &flow, "--limit", "100"]);
    let mut runs: Vec<Value> = listed["runs"].as_array().unwrap().clone();
    runs.reverse();
    let show = |run: &Value| world.json(&["runs", "show", run["id"].as_str().unwrap()]);
    runs.iter().map(show).collect()
}

/// `outcome family liveness stop`, `-` for what is not there.
fn told(run: &Value) -> String {
    let agent = &run["agent"];
    let words = [&run["outcome"], &run["family"], &agent["liveness"], &agent["stop_reason"]];
    words.map(|word| word.as_str().unwrap_or("-")).join(" ")
}

fn all_told(world: &World) -> Vec<String> {
    runs_of(world).iter().map(told).collect()
}

/// Nothing of what ran is left.
fn assert_gone(world: &World) {
    for pid in lines(world.repo().join("pids")) {
        assert!(!runs(&pid), "process {pid} lives");
    }
    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
}

/// The only step of the flow that was started last.
fn step_of(world: &World) -> Value {
    world.json(&["flows", "show", &flow_of(world)])["steps"][0].clone()
}

#[test]
fn every_way_to_end_is_told_for_what_it_is() {
    let garbage = format!(
        "printf '\\377\\000\\001{{\"type\":\\n{{\"ty\\000pe\":1}}\\r\\n'; head -c 5000000 /dev/zero | tr '\\0' y; echo\n{PASS}printf '{{\"half'\n"
    );
    let daemon =
        format!("setsid sh -c 'echo $$ >> pids; exec sleep 983' &\nuntil test $(wc -l < pids) = 2; do :; done\n{PASS}");
    let error =
        |family: &str| format!("echo '{{\"type\":\"error\",\"family\":\"{family}\",\"message\":\"no\"}}'; exit 1\n");
    let (sandbox, budget) = (error("sandboxInfrastructure"), error("budgetExceeded"));
    let (policy, unknown) = (error("policyDenied"), error("unknown"));
    let cases = [
        ("it does as it should", PASS, 0, "delivered - completed no_tool_use", ""),
        (
            "it lies",
            "echo 'All done, all tests pass!'\n",
            1,
            "no_deliverable - empty contract",
            "`verdict`: is missing",
        ),
        ("it says nothing", "exit 0\n", 1, "no_deliverable - empty contract", "submitted no output"),
        (
            "its output does not fit",
            "echo '{\"type\":\"output\",\"value\":7}'\n",
            1,
            "no_deliverable - empty contract",
            "does not fit the schema",
        ),
        ("it prints garbage", &garbage, 0, "delivered - completed no_tool_use", ""),
        ("it dies", "echo here >&2; kill -9 $$\n", 1, "failed unknown failed -", "ended by signal 9: here"),
        (
            "it exits with 3",
            "echo 'no such model' >&2; exit 3\n",
            1,
            "failed unknown failed -",
            "exit code 3: no such model",
        ),
        (
            "it talks of a bad moment",
            "echo '529 overloaded, which model?'; exit 1\n",
            1,
            "failed unknown failed -",
            "exit code 1: 529 overloaded",
        ),
        (
            "it goes in circles",
            "while :; do echo again; done\n",
            1,
            "failed unknown looping looping",
            "again and again",
        ),
        ("it leaves a daemon", &daemon, 0, "delivered - completed no_tool_use", ""),
        ("it has no place", &sandbox, 1, "failed sandboxInfrastructure failed -", "no"),
        ("it has no money", &budget, 1, "failed budgetExceeded failed -", "no"),
        ("it was not allowed to", &policy, 1, "failed policyDenied failed -", "no"),
        ("it failed", &unknown, 1, "failed unknown failed -", "no"),
    ];
    for (name, script, code, wanted, reason) in cases {
        let world = world(script, "max_messages: 0\n", OWES);
        let said = world.run(&["run", "one"]);
        assert_eq!(said.code, Some(code), "{name}: {}{}", said.out, said.err);
        assert_eq!(all_told(&world), [wanted], "{name}");
        let run = &runs_of(&world)[0];
        assert!(run["reason"].as_str().unwrap_or_default().contains(reason), "{name}: {run}");
        assert_eq!(step_of(&world)["outcome"], if code == 0 { "succeeded" } else { "failed" }, "{name}");
        assert_gone(&world);
    }
}

#[test]
fn what_it_submits_is_what_the_next_step_reads() {
    let script = "echo '{\"type\":\"message\",\"text\":\"half\"}'\necho '{\"type\":\"usage\",\"input\":100,\"output\":7}'\necho '{\"type\":\"output\",\"value\":{\"verdict\":\"fail\"}}'\necho '{\"type\":\"output\",\"value\":{\"verdict\":\"$(touch pwned)\"}}'\n";
    let world = world(script, "", "");
    world.pipeline(
        "one",
        &format!("steps:\n  it: {{ agent: coder, prompt: Do it.{OWES} }}\n  next: {{ needs: it, run: 'echo ${{{{ steps.it.output.verdict }}}} > next' }}\n"),
    );
    world.run_to(0, &["run", "one"]);
    assert_eq!(lines(world.repo().join("next")), ["$(touch pwned)"], "the last one counts, and it is never code");
    assert!(!world.repo().join("pwned").exists());
    let run = &runs_of(&world)[0];
    assert_eq!((&run["agent"]["answer"], &run["agent"]["usage"]["tokens"]), (&"half".into(), &107.into()), "{run}");
}

#[test]
fn it_is_reminded_of_what_it_owes_and_delivers() {
    let script = format!("if grep -q 'ended without what it owes' prompt$ORC_ATTEMPT; then {PASS}fi\n");
    let world = world(&script, "", OWES);
    world.run_to(0, &["run", "one"]);
    assert_eq!(all_told(&world), ["no_deliverable - empty contract", "delivered - completed no_tool_use"]);
    let prompt = lines(world.repo().join("prompt2")).join("\n");
    assert!(prompt.contains("`verdict`: is missing"), "{prompt}");
    assert!(!lines(world.repo().join("prompt1")).join("\n").contains("`verdict`: is missing"));
}

#[test]
fn it_owes_for_ever_and_is_told_twice() {
    let world = world("echo 'I have done it.'\n", "", OWES);
    let said = world.run_to(1, &["run", "one"]);
    assert_eq!(all_told(&world), ["no_deliverable - empty contract"; 3]);
    assert!(said.out.contains("it ended without what it owes"), "{}", said.out);
}

#[test]
fn a_flood_fills_neither_disk_nor_memory() {
    let world = world(&format!("head -c 200000000 /dev/zero | tr '\\0' x\necho\n{PASS}"), "", OWES);
    world.write("orchestrator.yaml", "log_limit: 1MiB\n");
    world.run_to(0, &["run", "one"]);
    assert_eq!(all_told(&world), ["delivered - completed no_tool_use"]);
    let log = world.run_to(0, &["logs", &flow_of(&world)]).out;
    assert!(log.len() < 4 << 20 && log.contains("bytes of output dropped"), "{}", log.len());
    assert!(log.contains("\"verdict\""), "the end is kept");
    assert_gone(&world);
}

#[test]
fn a_silent_one_is_stopped_three_times_and_told_that_it_was() {
    let script = "echo hello\nread x < gate\n";
    let world = world(script, "silence_timeout: 1m\n", OWES);
    let _gate = Gate::new(&world);
    // A minute passes in two seconds.
    let said = support::said(&world.command(&["run", "one"]).env("ORC_CLOCK_RATE", "30").output().unwrap());
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert_eq!(all_told(&world), ["failed silentRun failed silence"; 3]);
    assert!(said.out.contains("it said nothing for 1m and was ended"), "{}", said.out);
    let again: Vec<Value> = runs_of(&world).iter().map(|run| run["wake_reason"].clone()).collect();
    assert_eq!(again, ["pipelineStep", "recovery", "recovery"]);
    let prompt = lines(world.repo().join("prompt2")).join("\n");
    assert!(prompt.contains("What it did:") && prompt.contains("hello"), "{prompt}");
    assert_gone(&world);
}

#[test]
fn a_cancelled_one_that_does_not_hear_is_killed() {
    let world = world("trap '' TERM INT\necho up >> up\nread x < gate\n", "", OWES);
    let _gate = Gate::new(&world);
    let running = world.start(&["run", "one", "--cancel-grace", "50ms"]);
    until("it runs", || !lines(world.repo().join("up")).is_empty());
    world.run_to(0, &["cancel", &flow_of(&world)]);
    assert_eq!(running.wait().code, Some(130));
    assert_eq!(all_told(&world), ["cancelled - failed abort"]);
    assert_eq!(step_of(&world)["outcome"], "cancelled");
    assert_gone(&world);
}

/// Starts a flow whose agent asks, and waits for its question.
fn asking(world: &World) -> (Running, String) {
    let running = world.start(&["run", "one"]);
    let mut asked = String::new();
    until("it asks", || {
        if flow_is_new(world) {
            return false;
        }
        let open = world.json(&["approvals", "list"]);
        asked = open["requests"][0]["id"].as_str().unwrap_or_default().to_owned();
        !asked.is_empty()
    });
    (running, asked)
}

const ASKS: &str = "if grep -q 'Message msg_' prompt$ORC_ATTEMPT; then\necho '{\"type\":\"output\",\"value\":{\"verdict\":\"pass\"}}'\nelse echo '{\"type\":\"ask\",\"text\":\"which colour?\"}'; fi\n";

#[test]
fn a_question_waits_for_people_and_a_message_wakes_it() {
    for by_message in [true, false] {
        let world = world(ASKS, "", OWES);
        let (running, request) = asking(&world);
        assert_eq!(all_told(&world), ["blocked - blocked no_tool_use"]);
        let status = world.json(&["status"]);
        assert!(status["needs_you"].to_string().contains("which colour?"), "{status}");
        assert_eq!(status["totals"]["slots_used"], 0, "a question holds no slot");
        if by_message {
            world.run_to(0, &["message", &request, "blue; $(touch pwned)"]);
        } else {
            world.run_to(0, &["approvals", "approve", &request, "--reason", "blue; $(touch pwned)"]);
        }
        assert_eq!(running.wait().code, Some(0));
        assert_eq!(all_told(&world)[1], "delivered - completed no_tool_use");
        assert_eq!(runs_of(&world)[1]["wake_reason"], "userMessage");
        let prompt = lines(world.repo().join("prompt2"));
        let at = prompt.iter().position(|line| line == "blue; $(touch pwned)").unwrap();
        assert!(prompt[at - 1].starts_with("## Message msg_") && prompt[at - 1].contains(" from os:"), "{prompt:#?}");
        assert_eq!(world.json(&["approvals", "list"])["requests"], serde_json::json!([]));
    }
}

#[test]
fn a_question_that_is_denied_fails_its_step() {
    let world = world(ASKS, "", OWES);
    let (running, request) = asking(&world);
    world.run_to(0, &["approvals", "deny", &request, "--reason", "ask nobody"]);
    assert_eq!(running.wait().code, Some(1));
    let step = step_of(&world);
    assert_eq!(step["error"]["family"], "policyDenied");
    assert!(step["error"]["message"].as_str().unwrap().contains("ask nobody"), "{step}");
    let again = world.run_to(5, &["approvals", "approve", &request]);
    assert!(again.err.contains("is denied already"), "{}", again.err);
}

#[test]
fn a_message_to_one_that_runs_is_read_by_another_run() {
    let script = format!("echo up >> up\nif test $ORC_ATTEMPT = 1; then read x < gate; fi\n{PASS}");
    let world = world(&script, "", OWES);
    let mut gate = Gate::new(&world);
    let running = world.start(&["run", "one"]);
    until("it runs", || !lines(world.repo().join("up")).is_empty());
    world.run_to(0, &["message", &flow_of(&world), "--step", "it", "be quick"]);
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(all_told(&world), ["delivered - completed no_tool_use"; 2]);
    assert!(!lines(world.repo().join("prompt1")).contains(&"be quick".to_owned()));
    assert!(lines(world.repo().join("prompt2")).contains(&"be quick".to_owned()));
    let late = world.run_to(5, &["message", &flow_of(&world), "--step", "it", "hello"]);
    assert!(late.err.contains("reads no messages"), "{}", late.err);
}

#[test]
fn a_bad_moment_upstream_waits_two_minutes_without_a_slot() {
    let script =
        "echo '{\"type\":\"error\",\"family\":\"transientUpstream\",\"message\":\"529 overloaded\"}'; exit 1\n";
    let world = world(script, "", OWES);
    world.pipeline(
        "one",
        &format!("steps:\n  it: {{ agent: coder, prompt: Do it.{OWES} }}\n  other: {{ run: 'echo other > other' }}\n"),
    );
    let running = world.start(&["run", "one", "--slots", "1"]);
    until("it waits", || !flow_is_new(&world) && step_of(&world)["state"] == "ready");
    until("another step runs meanwhile", || !lines(world.repo().join("other")).is_empty());
    let of_it = |run: &Value| run["step"] == "it";
    let told: Vec<String> = runs_of(&world).iter().filter(|run| of_it(run)).map(told).collect();
    assert_eq!(told, ["failed transientUpstream failed -"]);
    let explained = world.json(&["explain", &flow_of(&world), "--step", "it"]);
    let reason = explained["explanations"][0]["reason"].as_str().unwrap();
    // Two minutes and up to half of one more, less what has passed meanwhile.
    assert!(reason.starts_with("waits 2m") || reason.starts_with("waits 1m5"), "{reason}");
    until("no slot is held", || world.json(&["status"])["totals"]["slots_used"] == 0);
    world.run_to(0, &["cancel", &flow_of(&world)]);
    assert_eq!(running.wait().code, Some(130));
}

#[test]
fn a_step_that_used_up_its_budget_of_tool_calls_is_stopped() {
    let script = "for n in 1 2 3 4; do echo '{\"type\":\"tool\",\"name\":\"read\",\"state\":\"finished\",\"input\":'$n'}'; done\necho up >> up\nread x < gate\n";
    let world = world(script, "", &format!("{OWES}, budget: {{ tool_calls: 3 }}"));
    let _gate = Gate::new(&world);
    let said: Said = support::said(&world.command(&["run", "one"]).env("ORC_CLOCK_RATE", "20").output().unwrap());
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert_eq!(all_told(&world), ["failed budgetExceeded failed spend"]);
    assert_eq!(runs_of(&world)[0]["agent"]["usage"]["tool_calls"], 4);
    assert!(said.out.contains("its budget of `tool_calls` was reached"), "{}", said.out);
    assert_gone(&world);
}

#[test]
fn two_steps_of_an_agent_that_may_run_once_take_turns() {
    let world = world(
        &format!("echo in >> turns\necho up >> up\nread x < gate\necho out >> turns\n{PASS}"),
        "max_concurrent: 1\n",
        "",
    );
    world.pipeline(
        "one",
        "steps:\n  a: { agent: coder, prompt: Do it. }\n  b: { agent: coder, prompt: Do it. }\n  c: { run: echo up >> other }\n",
    );
    let mut gate = Gate::new(&world);
    let running = world.start(&["run", "one", "--slots", "4"]);
    until("one of them runs and another step beside it", || {
        !lines(world.repo().join("up")).is_empty() && !lines(world.repo().join("other")).is_empty()
    });
    let explained = world.json(&["explain", &flow_of(&world)])["explanations"].to_string();
    assert!(explained.contains("`agent:coder` is full"), "{explained}");
    gate.open();
    until("the other one runs", || lines(world.repo().join("up")).len() == 2);
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(lines(world.repo().join("turns")), ["in", "out", "in", "out"]);
}

#[test]
fn one_whose_holder_is_killed_goes_on_from_what_it_said() {
    let script = format!(
        "if test $ORC_ATTEMPT = 1; then echo 'I have read half of it.'; echo up >> up; read x < gate; fi\n{PASS}"
    );
    let world = world(&script, "", OWES);
    let _gate = Gate::new(&world);
    let running = world.start(&["run", "one"]);
    until("it runs", || !lines(world.repo().join("up")).is_empty() && runs_of(&world)[0]["state"] == "running");
    running.signal(Signal::KILL);
    running.wait();
    assert_eq!(runs_of(&world)[0]["state"], "running", "nobody has said otherwise yet");
    world.run_to(0, &["resume", "--all"]);
    assert_eq!(all_told(&world), ["failed processLost dead -", "delivered - completed no_tool_use"]);
    let prompt = lines(world.repo().join("prompt2")).join("\n");
    assert!(prompt.contains("I have read half of it.") && prompt.contains("recovery: flow"), "{prompt}");
    assert_gone(&world);
}

#[test]
fn one_that_fails_or_takes_too_long_is_tried_as_often_as_the_step_says() {
    let script =
        format!("case $ORC_ATTEMPT in 1) exit 3;; 2) read x < gate;; *) {PASS};; esac\n").replace("\n;;", ";;");
    let world = world(&script, "", &format!("{OWES}, timeout: 300ms, retry: {{ attempts: 3, backoff: 1ms }}"));
    let _gate = Gate::new(&world);
    let said = world.run_to(0, &["run", "one", "--cancel-grace", "10ms"]);
    let told = all_told(&world);
    assert_eq!((told[0].as_str(), told[2].as_str()), ("failed unknown failed -", "delivered - completed no_tool_use"));
    assert!(told[1].starts_with("failed unknown failed"), "{told:?}");
    assert!(said.err.contains("took longer than its timeout of 300ms"), "{}", said.err);
    assert_gone(&world);
}
