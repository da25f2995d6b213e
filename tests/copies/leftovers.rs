//! What is left of flows that are over goes, and nothing that anybody needs.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Gate, World, git, start_held, until};
use crate::{made, pipeline, repository, run};

/// References in all repositories of ours, but those of what flows start from.
fn references(world: &World) -> Vec<String> {
    let stores = fs::read_dir(world.data().join("worktrees/repositories")).unwrap();
    let names = stores.map(|store| git(&store.unwrap().path(), &["for-each-ref", "--format=%(refname)"]));
    let names: Vec<String> = names.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    names.into_iter().filter(|name| !name.starts_with("refs/orc/base/")).collect()
}

fn copies(world: &World) -> usize {
    world.json(&["worktrees", "list"])["worktrees"].as_array().unwrap().len()
}

/// A database that was lost takes no work with it: who comes next saves what is in copies, and they go.
#[test]
fn copies_of_flows_that_nobody_knows_go_and_what_is_in_them_is_kept() {
    let world = repository();
    let mut gate = Gate::new(&world);
    pipeline(
        &world,
        "asks",
        "steps:\n  it: { run: echo lost > work }\n  ask: { needs: it, approval: { message: Go? } }\n",
    );
    world.pipeline("wait", "steps: { hold: { run: 'echo up >> started; read x < gate' } }\n");
    let running = world.start(&["run", "asks"]);
    until("somebody is asked", || {
        let said = world.run(&["approvals", "list", "--output", "json"]);
        let open = serde_json::from_str::<Value>(&said.out).unwrap_or_default();
        open["requests"].as_array().is_some_and(|all| !all.is_empty())
    });
    running.signal(Signal::KILL);
    drop(running.wait());
    assert_eq!(copies(&world), 1);
    for entry in fs::read_dir(world.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("orchestrator.db") {
            fs::remove_file(path).unwrap();
        }
    }
    let running = start_held(&world, &["run", "wait"]);
    until("the copy is gone", || copies(&world) == 0);
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    let kept = references(&world);
    assert!(kept.iter().any(|name| name.ends_with("/it/1")), "{kept:?}");
}

#[test]
fn what_flows_made_is_forgotten_with_them_but_not_what_others_took_over() {
    let world = repository();
    pipeline(&world, "fix", "steps:\n  it: { run: echo made > work }\n  bad: { needs: it, run: 'test -e /ok' }\n");
    let first = run(&world, 1, "fix");
    pipeline(&world, "other", "steps: { it: { run: echo other > other } }\n");
    let other = run(&world, 0, "other");
    let (store, commit) = made(&world, &other);
    let of = |flow: &str| references(&world).iter().filter(|name| name.contains(&flow.replacen('_', "-", 1))).count();
    world.write("orchestrator.yaml", "retention: { runs: 1h }\n");
    world.run_to(0, &["db", "retention", "--apply"]);
    assert!(of(&first) > 0 && of(&other) > 0, "{:?}", references(&world));
    // Minutes go by, so that the retry is not too old when the others are.
    std::fs::remove_file(world.repo().join("orchestrator.yaml")).unwrap();
    let retried = world.command(&["retry", &first]).env("ORC_CLOCK_RATE", "1000").output().unwrap();
    assert_eq!(retried.status.code(), Some(1), "{retried:?}");
    world.write("orchestrator.yaml", "retention: { runs: 1ms }\n");
    world.run_to(0, &["db", "retention", "--apply"]);
    assert_eq!(world.json(&["flows", "list"])["flows"].as_array().unwrap().len(), 1, "the retry");
    assert_eq!(of(&other), 0, "{:?}", references(&world));
    assert_eq!(of(&first), 1, "what the retry took over: {:?}", references(&world));
    // Objects stay a day longer.
    assert_eq!(git(&store, &["show", &format!("{commit}:other")]), "other");
}
