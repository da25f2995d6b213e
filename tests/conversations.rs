//! Conversations of the built-in agent through the binary: agents that start agents, deaths in the middle, replays, what a
//! run owes. Models are scripts, tools and boxes are real.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::PathBuf;

use serde_json::Value;

use self::support::{World, lines, until};

/// A repository with one agent, whose model is this script, and a pipeline that asks it once.
fn world(keys: &str, script: &str) -> World {
    let world = World::new();
    world.write("orchestrator.yaml", "providers: { scripted: { script: models/tests.yaml } }\n");
    world.write("models/tests.yaml", script);
    agent(&world, "worker", keys);
    world.write("pipelines/p.yaml", "name: p\nsteps:\n  work: { agent: worker, prompt: Do it. }\n");
    world
}

fn agent(world: &World, name: &str, keys: &str) {
    world.write(&format!("agents/{name}.md"), &format!("---\nmodel: claude-sonnet-4-5\n{keys}---\nYou work.\n"));
}

/// The record of the conversation of a step.
fn record(world: &World, flow: &str, step: &str) -> PathBuf {
    world.data().join("conversations").join(flow.replace('_', "-")).join(format!("{step}.jsonl"))
}

/// What was told to a model that is no answer of its own, as one text.
fn told(world: &World, flow: &str) -> String {
    lines(record(world, flow, "work")).join("\n")
}

fn runs(world: &World, flow: &str) -> Vec<String> {
    let runs = world.json(&["runs", "list", "--flow", flow])["runs"].as_array().unwrap().clone();
    runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

/// Every run of a flow goes as it was recorded.
fn assert_replays(world: &World, flow: &str) {
    for run in runs(world, flow) {
        let said = world.run(&["replay", &run]);
        assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    }
}

#[test]
fn agents_that_an_agent_starts_cost_what_the_script_says_to_the_micro_dollar() {
    let script = "\
tracks:
  lead:
    match: { system: 'the agent `worker`' }
    turns:
      - tool_calls:
          - { name: Agent, input: { subagent_type: helper, prompt: Part one. } }
          - { name: Task, input: { subagent_type: helper, prompt: Part two. } }
          - { name: Agent, input: { subagent_type: helper, prompt: Part three. } }
        usage: { input: 1000, output: 100 }
      - { text: All three are done., usage: { input: 1000, output: 100 } }
  helper:
    match: { system: 'the agent `helper`' }
    turns:
      - { tool_calls: [{ name: Bash, input: { command: 'echo one' } }], usage: { input: 2000, output: 50 } }
      - { text: My part is done., usage: { input: 2000, output: 50 } }
";
    let world = world("workers: [helper]\n", script);
    agent(&world, "helper", "tools: [Bash]\n");
    world.commit();
    world.run_to(0, &["run", "p"]);
    let flow = world.flow_of("p").unwrap();
    // Of this model a million tokens of input cost 3 dollars, of output 15.
    let costs = world.json(&["costs", "--by", "agent"])["lines"].as_array().unwrap().clone();
    let line = |agent: &str| costs.iter().find(|line| line["agent"] == agent).unwrap();
    let (lead, helper) = (2 * (1000 * 3 + 100 * 15), 6 * (2000 * 3 + 50 * 15));
    assert_eq!((&line("worker")["calls"], &line("worker")["cost_usd_micros"]), (&2.into(), &lead.into()), "{costs:?}");
    assert_eq!(
        (&line("helper")["calls"], &line("helper")["cost_usd_micros"]),
        (&6.into(), &helper.into()),
        "{costs:?}"
    );
    let run = world.json(&["runs", "show", &runs(&world, &flow)[0]]);
    assert_eq!(run["agent"]["usage"]["cost_usd_micros"], Value::from(lead + helper), "{run}");
    assert!(told(&world, &flow).contains("My part is done."));
    assert_replays(&world, &flow);
}

/// Five turns, each a command that says in a place outside of the box's copy that it began and that it ended.
fn journal_script() -> String {
    let turn = |number: u32| {
        format!(
            "      - {{ tool_calls: [{{ name: Bash, input: {{ command: 'echo begin {number} >> $JOURNAL; sleep 0.2; echo end {number} >> $JOURNAL' }} }}], delay_between: 20ms }}\n"
        )
    };
    let turns: String = (1..=5).map(turn).collect();
    format!("tracks:\n  any:\n    turns:\n{turns}      - {{ text: All is done. }}\n")
}

/// Kills the orchestrator once the record has so many lines, and carries on.
fn killed_at(count: usize) {
    let world = World::new();
    let journal = world.path().join("outside");
    std::fs::create_dir(&journal).unwrap();
    std::fs::set_permissions(&journal, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let file = journal.join("journal");
    world.write(
        "orchestrator.yaml",
        &format!(
            "providers: {{ scripted: {{ script: models/tests.yaml }} }}\nbox: {{ write: ['{}'] }}\n",
            journal.display()
        ),
    );
    world.write("models/tests.yaml", &journal_script());
    agent(
        &world,
        "worker",
        &format!("box: {{ write: ['{}'] }}\nenv: {{ JOURNAL: '{}' }}\n", journal.display(), file.display()),
    );
    world.write("pipelines/p.yaml", "name: p\nsteps:\n  work: { agent: worker, prompt: Do it. }\n");
    world.commit();
    let running = world.start(&["run", "p"]);
    until("the record is long enough", || {
        world.flow_of("p").is_some_and(|flow| {
            let path = record(&world, &flow, "work");
            path.exists() && lines(&path).len() >= count
        })
    });
    running.signal(rustix::process::Signal::KILL);
    drop(running.wait());
    let flow = world.flow_of("p").unwrap();
    world.run_to(0, &["flows", "resume", "--all"]);
    assert_eq!(world.outcome(&flow), "succeeded", "killed at line {count}");
    let done = if file.exists() { lines(&file) } else { Vec::new() };
    for number in 1..=5 {
        let times = |word: &str| done.iter().filter(|line| **line == format!("{word} {number}")).count();
        assert!(times("begin") <= 1 && times("end") <= times("begin"), "killed at line {count}: {done:?}");
        // Whatever is not there was cut off, and its agent was told so.
        let told = told(&world, &flow);
        assert!(times("end") == 1 || told.contains("\"kind\":\"run\""), "killed at line {count}: {done:?}");
    }
    let attempts = runs(&world, &flow).len();
    assert!((1..=2).contains(&attempts), "{attempts}");
    if attempts == 2 {
        assert!(told(&world, &flow).contains("recovery: flow"), "{}", told(&world, &flow));
    }
    assert_replays(&world, &flow);
}

macro_rules! kills {
    ($($name:ident: $count:expr;)*) => { $(#[test] fn $name() { killed_at($count); })* };
}

kills! {
    killed_when_the_conversation_has_begun: 1;
    killed_when_the_run_has_begun: 2;
    killed_when_the_model_was_asked: 4;
    killed_while_the_first_command_runs: 5;
    killed_when_its_result_is_there: 6;
    killed_when_the_model_was_asked_again: 7;
    killed_while_the_second_command_runs: 8;
    killed_in_the_middle_of_the_conversation: 11;
    killed_while_the_fourth_command_runs: 14;
    killed_near_the_end: 17;
}

#[test]
fn a_result_that_was_changed_makes_a_replay_fail_and_is_named() {
    let script = "\
tracks:
  any:
    turns:
      - { tool_calls: [{ name: Bash, input: { command: 'echo sesame' } }] }
      - { tool_calls: [{ name: Bash, input: { command: 'echo other' } }] }
      - { text: Done. }
";
    let world = world("", script);
    world.commit();
    world.run_to(0, &["run", "p"]);
    let flow = world.flow_of("p").unwrap();
    let run = runs(&world, &flow).remove(0);
    assert!(world.run_to(0, &["replay", &run]).out.contains("3 questions"));
    let path = record(&world, &flow, "work");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"text\":\"sesame\\n\"", "\"text\":\"barley\\n\"")).unwrap();
    let said = world.run(&["replay", &run]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.err.contains("question 2 is not the recorded one"), "{}", said.err);
    assert!(said.err.contains("`barley `"), "{}", said.err);
    std::fs::write(&path, text.replace("{\"v\":1,\"seq\":5", "{\"v\":1,\"sequel\":5")).unwrap();
    let said = world.run(&["replay", &run]);
    assert!(said.err.contains("line 5 of the record"), "{}", said.err);
}

#[test]
fn memory_files_are_read_through_the_box_and_links_lead_nowhere() {
    let script = "tracks: { any: { repeat: last, turns: [{ text: Done. }] } }\n";
    let world = world("", script);
    let outside = world.path().join("outside.txt");
    std::fs::write(&outside, "the password is hunter2\n").unwrap();
    std::os::unix::fs::symlink(&outside, world.repo().join("AGENTS.md")).unwrap();
    world.write("CLAUDE.md", "Indent with tabs.\n");
    world.commit();
    world.run_to(0, &["run", "p"]);
    let flow = world.flow_of("p").unwrap();
    let told = told(&world, &flow);
    assert!(told.contains("Indent with tabs.") && !told.contains("hunter2"), "{told}");
    assert!(told.contains("Branch: "), "{told}");
    agent(&world, "worker", "memory: false\ngit: false\n");
    world.commit();
    world.run_to(0, &["run", "p"]);
    let flow = world.flow_of("p").unwrap();
    let plain = self::told(&world, &flow);
    assert!(!plain.contains("Indent with tabs.") && !plain.contains("Branch: "), "{plain}");
}

#[test]
fn who_owes_an_output_is_told_what_is_wrong_with_it_and_that_it_is_missing() {
    let owes =
        "output: { schema: { type: object, required: [verdict], properties: { verdict: { enum: [pass, fail] } } } }\n";
    let script = "\
tracks:
  any:
    turns:
      - { text: I forgot it. }
      - { tool_calls: [{ name: submit_output, input: { verdict: maybe } }] }
      - { tool_calls: [{ name: submit_output, input: { verdict: pass } }] }
";
    let world = world(owes, script);
    world.commit();
    world.run_to(0, &["run", "p"]);
    let flow = world.flow_of("p").unwrap();
    assert_eq!(world.steps(&flow)["work"]["output"]["verdict"], "pass", "{:?}", world.steps(&flow));
    let told = told(&world, &flow);
    assert!(told.contains("ended without what it owes"), "{told}");
    let shown = world.run_to(0, &["logs", &flow]).out;
    assert!(shown.contains("is not what it takes"), "{shown}");
    assert_eq!(runs(&world, &flow).len(), 2, "the second run goes on in the conversation of the first");
    assert_replays(&world, &flow);
}

#[test]
fn who_cannot_go_on_says_so_and_goes_on_in_its_conversation_when_it_was_answered() {
    let owes = "output: { schema: { type: object, required: [verdict] } }\n";
    let script = "\
tracks:
  any:
    turns:
      - { tool_calls: [{ name: report_blocked, input: { why: Which of the two? } }] }
      - { tool_calls: [{ name: submit_output, input: { verdict: second } }] }
";
    let world = world(owes, script);
    world.commit();
    let running = world.start(&["run", "p"]);
    let open = || {
        let said = world.run(&["approvals", "list", "--output", "json"]);
        // Before the first flow is written down there is nothing to read.
        let Ok(open) = serde_json::from_str::<Value>(&said.out) else { return Vec::new() };
        open["requests"].as_array().unwrap().clone()
    };
    until("it asks", || !open().is_empty());
    let id = open()[0]["id"].as_str().unwrap().to_owned();
    world.run_to(0, &["approvals", "approve", &id, "--reason", "The second."]);
    assert_eq!(running.wait().code, Some(0));
    let flow = world.flow_of("p").unwrap();
    assert_eq!(world.steps(&flow)["work"]["output"]["verdict"], "second");
    assert!(told(&world, &flow).contains("The second."));
    assert_replays(&world, &flow);
}
