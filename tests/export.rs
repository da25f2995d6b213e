//! `export`: all that is known of a run, through the binary.
#![expect(clippy::unwrap_used, reason = "a world that cannot be made fails its test")]

mod support;

use orc_domain::ids::{FlowId, RunId};
use orc_ports::ledger::Ledger as _;
use orc_ports::store::Store as _;
use orc_store_sqlite::SqliteStore;
use orc_testkit::conformance::ledger::calls::{begin, reservation, settlement};
use serde_json::{Value, json};

use self::support::World;

const PIPELINE: &str = "steps:\n  write: { agent: coder, prompt: 'Write.' }\n";
/// Says what its environment does not tell it, as a program would that found the value elsewhere.
const AGENT: &str = "---\nadapter: command\ncommand: 'echo found hunter2-hunter2'\n---\nYou write code.\n";

const SETTINGS: &str = "secrets: { KEY: { env: HIDDEN } }\n\
                        providers: { fake: { script: models/fake.yaml, models: [m], record: cassettes } }\n";
const MODEL: &str = "tracks: { all: { turns: [{ text: Hello. }] } }\n";

/// A finished run of an agent, with two calls in the ledger; the flow and the run.
fn world() -> (World, String, RunId) {
    let world = World::new();
    world.pipeline("ship", PIPELINE);
    world.write("agents/coder.md", AGENT);
    world.write("orchestrator.yaml", SETTINGS);
    world.write("models/fake.yaml", MODEL);
    world.run_to(0, &["run", "ship"]);
    let flow = world.flow_of("ship").unwrap();
    let run = world.json(&["runs", "list", "--flow", &flow])["runs"][0]["id"].as_str().unwrap().parse().unwrap();
    let of_flow: FlowId = flow.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&world.data().join("orchestrator.db")).await.unwrap();
        begin(&store, 1).await;
        for (number, account) in [(1, Some(run)), (2, Some(run)), (3, None)] {
            let mut reserved = reservation(number, 9);
            if account.is_some() {
                (reserved.account.run, reserved.account.flow) = (account, Some(of_flow));
            }
            store.reserve(reserved).await.unwrap();
        }
        store.settle(settlement(1, 1_250_000)).await.unwrap();
        store.close().await.unwrap();
    });
    (world, flow, run)
}

fn exported(world: &World, run: RunId) -> Value {
    let output = world.command(&["export", &run.to_string()]).env("HIDDEN", "hunter2-hunter2").output().unwrap();
    let said = support::said(&output);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert!(!said.out.contains("hunter2"), "{}", said.out);
    serde_json::from_str(&said.out).unwrap()
}

#[test]
fn a_run_is_exported_with_all_that_is_known_of_it() {
    let (world, flow, run) = world();
    let document = exported(&world, run);
    assert_eq!(document["schema"], "orc/export/1");
    let shown = world.json(&["runs", "show", &run.to_string()]);
    for key in ["id", "step", "outcome", "log"] {
        assert_eq!(document["run"][key], shown[key], "{key}");
    }
    assert_eq!(document["run"]["agent"]["answer"], "found ***");
    assert_eq!((&document["flow"]["id"], &document["flow"]["name"]), (&json!(flow), &json!("ship")));
    assert_eq!(document["pipeline"]["hash"], document["flow"]["pipeline"]);
    assert!(document["pipeline"]["source"].as_str().unwrap().contains(PIPELINE), "{}", document["pipeline"]);
    assert_eq!(document["profile"]["hash"], shown["agent"]["profile"]);
    assert_eq!(document["profile"]["definition"]["system_prompt"], "You write code.");
    let log: Vec<_> = document["log"].as_array().unwrap().iter().filter(|line| line["kind"] == "stdout").collect();
    assert_eq!(log.iter().map(|line| line["text"].as_str().unwrap()).collect::<Vec<_>>(), ["found ***"]);
    let calls = document["calls"].as_array().unwrap();
    let states: Vec<_> = calls.iter().map(|call| call["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["settled", "in_flight"], "the oldest first, and only its own");
    assert_eq!((&calls[0]["micros"], &calls[0]["tokens"]["reasoning"]), (&json!(1_250_000), &json!(6)));
    assert_eq!(document["cassette"], Value::Null);
}

#[test]
fn a_cassette_is_in_it_up_to_its_last_whole_line() {
    let (world, _, run) = world();
    let cassettes = world.repo().join("cassettes");
    std::fs::create_dir_all(&cassettes).unwrap();
    let lines = "{\"schema\":\"orc/cassette/1\"}\n{\"call\":28,\"end\":\"whole\"}\n{\"call\":7";
    std::fs::write(cassettes.join(run.file_name() + ".jsonl"), lines).unwrap();
    let wanted = json!([{ "schema": "orc/cassette/1" }, { "call": 28, "end": "whole" }]);
    assert_eq!(exported(&world, run)["cassette"], wanted);
}

#[test]
fn what_is_no_run_is_refused_with_what_helps() {
    let (world, flow, _) = world();
    let said = world.run_to(2, &["export", &flow]);
    assert!(said.err.contains("is a flow, not a run") && said.err.contains("runs list --flow"), "{}", said.err);
    assert_eq!(said.out, "");
    let said = world.run(&["export", "zzzzzz"]);
    assert!(said.code != Some(0) && said.out.is_empty() && said.err.contains("zzzzzz"), "{}", said.err);
}
