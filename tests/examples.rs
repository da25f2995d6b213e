//! Every pipeline in `pipelines/`, run to its end through the binary, in a small repository of git, with the agents in
//! `agents/`; the test answers what people are asked.
#![expect(clippy::disallowed_methods, reason = "the tests make a repository with git, as a user does")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{Running, Said, World, until};

/// The repository of this project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn git(world: &World, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(args).current_dir(world.repo()).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A repository with our examples and something to work on: a program of two files, a test, a document.
fn world() -> World {
    let world = World::new();
    copy(&root().join("pipelines"), &world.repo().join("pipelines"));
    copy(&root().join("agents"), &world.repo().join("agents"));
    world.write("src/greet.sh", "salute() { echo \"salute, $1\"; }\n");
    world.write("src/main.sh", ". ./src/greet.sh\nsalute \"$1\"\n");
    // It knows the name, too: a change of the sources alone breaks it.
    world.write("test.sh", "grep -q 'salute()' src/greet.sh && sh src/main.sh x\n");
    world.write("README.md", "Call salute to say it.\n");
    let me = rustix::process::getuid().as_raw();
    let settings = format!("people: {{ me: {{ os: {me}, role: admin }} }}\ngroups: {{ release: [me], leads: [me] }}\n");
    world.write("orchestrator.yaml", &settings);
    git(&world, &["init", "--quiet"]);
    git(&world, &["config", "user.name", "Test"]);
    git(&world, &["config", "user.email", "test@example.com"]);
    commit(&world);
    world
}

fn commit(world: &World) {
    git(world, &["add", "--all"]);
    git(world, &["commit", "--quiet", "--message", "State"]);
}

fn read(world: &World, file: &str) -> String {
    std::fs::read_to_string(world.repo().join(file)).unwrap()
}

/// Files that git sees changed.
fn changed(world: &World) -> Vec<String> {
    git(world, &["diff", "--name-only"]).lines().map(str::to_owned).collect()
}

/// The request that is open, once there is one.
fn asked(world: &World) -> Value {
    let mut open = Value::Null;
    until("somebody is asked", || {
        let said = world.run(&["approvals", "list", "--output", "json"]);
        let document: Value = serde_json::from_str(&said.out).unwrap_or_default();
        open = document["requests"][0].clone();
        !open.is_null()
    });
    open
}

fn answer(world: &World, word: &str, reason: &str) -> Value {
    let request = asked(world);
    world.run_to(0, &["approvals", word, request["id"].as_str().unwrap(), "--reason", reason]);
    request
}

fn ends(running: Running, code: i32) -> Said {
    let said = running.wait();
    assert_eq!(said.code, Some(code), "--- stdout\n{}\n--- stderr\n{}", said.out, said.err);
    said
}

/// The newest flow of a pipeline.
fn flow(world: &World, pipeline: &str) -> Value {
    let flows = world.json(&["flows", "list"]);
    let found = flows["flows"].as_array().unwrap().iter().find(|flow| flow["pipeline"] == pipeline);
    world.json(&["flows", "show", found.unwrap()["id"].as_str().unwrap()])
}

fn step(flow: &Value, path: &str) -> Value {
    let found = flow["steps"].as_array().unwrap().iter().find(|step| step["path"] == path);
    found.unwrap_or(&Value::Null).clone()
}

fn output(flow: &Value, path: &str) -> Value {
    step(flow, path)["output"].clone()
}

#[test]
fn all_of_them_are_as_they_should_be() {
    let world = World::new();
    let output = world.command(&["validate"]).current_dir(root()).output().unwrap();
    let said = support::said(&output);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{}", said.err);
    assert!(said.err.ends_with("files, no problems\n"), "{}", said.err);
    let listed = world.command(&["agents", "list"]).current_dir(root()).output().unwrap();
    assert_eq!(support::said(&listed).err, "");
}

const CHANGE: [&str; 6] =
    ["run", "change", "--input", "request=Please replace salute by greet.", "--input", "test=sh test.sh"];

#[test]
fn a_request_becomes_a_change_that_was_reviewed_and_approved() {
    let world = world();
    let running = world.start(&CHANGE);
    let request = answer(&world, "approve", "as it should be");
    assert!(request["message"].as_str().unwrap().contains("reviewed in 2 rounds"), "{request}");
    ends(running, 0);
    assert_eq!(changed(&world), ["README.md", "src/greet.sh", "src/main.sh", "test.sh"]);
    assert_eq!(read(&world, "src/greet.sh"), "greet() { echo \"greet, $1\"; }\n");
    let flow = flow(&world, "change");
    assert_eq!(output(&flow, "plan")["parts"].as_array().unwrap().len(), 2);
    // The sources alone broke the test; the reviewer found what else there was to do.
    assert_eq!(step(&flow, "check~1/test")["outcome"], "failed");
    assert_eq!(output(&flow, "check~1/review")["findings"].as_array().unwrap().len(), 2);
    assert_eq!(step(&flow, "check~2/test")["outcome"], "succeeded");
    assert_eq!(step(&flow, "check~2/fix")["outcome"], "skipped");
    assert_eq!(output(&flow, "summary")["rounds"], 2);
    assert_eq!(output(&flow, "approve")["reason"], "as it should be");
}

#[test]
fn a_change_that_nobody_wants_is_reported_and_left_to_look_at() {
    let world = world();
    let running = world.start(&CHANGE);
    answer(&world, "deny", "not like this");
    let said = ends(running, 1);
    assert!(said.out.contains("not like this"), "{}", said.out);
    let flow = flow(&world, "change");
    assert_eq!(step(&flow, "summary")["outcome"], "skipped");
    assert_eq!(step(&flow, "report")["outcome"], "succeeded");
    assert_eq!(changed(&world).len(), 4);
}

#[test]
fn a_request_that_the_planner_does_not_understand_is_put_to_people() {
    let world = world();
    let running = world.start(&["run", "change", "--input", "request=Make it nicer."]);
    let request = answer(&world, "deny", "it was not meant seriously");
    assert_eq!(request["kind"], "question");
    assert!(request["message"].as_str().unwrap().contains("I only understand"), "{request}");
    ends(running, 1);
    assert_eq!(changed(&world), [""; 0]);
}

#[test]
fn the_tests_run_in_every_environment_and_one_report_tells_of_all() {
    let world = world();
    world.write("zone.sh", "test \"$TZ\" != Asia/Kathmandu\n");
    let run = |test: &str| world.start(&["run", "test-matrix", "--input", &format!("test={test}")]);
    ends(run("sh test.sh"), 0);
    let green = flow(&world, "test-matrix");
    assert_eq!(output(&green, "report")["failed"], 0);
    assert_eq!(step(&green, "verdict")["outcome"], "skipped");
    let said = ends(run("sh zone.sh"), 1);
    assert!(said.out.contains("combinations that failed: 1, see test-report.md"), "{}", said.out);
    let report = read(&world, "test-report.md");
    let lines: Vec<&str> = report.lines().skip(1).collect();
    let wanted = [
        "- passed: UTC C",
        "- passed: UTC C.UTF-8",
        "- FAILED: Asia/Kathmandu C.UTF-8",
        "- passed: Pacific/Kiritimati C",
    ];
    assert_eq!(lines, wanted);
    let red = flow(&world, "test-matrix");
    assert_eq!(step(&red, "test{locale=C.UTF-8,zone=Asia%2fKathmandu}")["outcome"], "failed");
    // Each flow has kept its own report.
    let artifacts = walk(&world.data().join("artifacts"));
    assert_eq!(artifacts.len(), 2, "{artifacts:?}");
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else {
            found.push(path);
        }
    }
    found
}

const MIGRATE: [&str; 8] = [
    "run",
    "migrate",
    "--input",
    "word=salute",
    "--input",
    "instruction=replace salute by greet",
    "--input",
    "test=sh test.sh",
];

#[test]
fn files_that_can_not_be_migrated_keep_no_others_from_it_and_are_tried_again_alone() {
    let world = world();
    world.write("src/made.txt", "made by a program, do not edit: salute\n");
    commit(&world);
    ends(world.start(&MIGRATE), 0);
    assert_eq!(changed(&world), ["README.md", "src/greet.sh", "src/main.sh", "test.sh"]);
    let first = flow(&world, "migrate");
    assert_eq!((&output(&first, "summary")["done"], &output(&first, "summary")["failed"]), (&4.into(), &1.into()));
    assert_eq!(
        (&step(&first, "migrate[2]")["attempts"], &step(&first, "migrate[2]")["outcome"]),
        (&2.into(), &"failed".into())
    );

    world.write("src/made.txt", "salute\n");
    ends(world.start(&["retry", first["id"].as_str().unwrap()]), 0);
    assert_eq!(read(&world, "src/made.txt"), "greet\n");
    let second = flow(&world, "migrate");
    assert_eq!(second["retry_of"], first["id"]);
    assert_eq!(output(&second, "summary")["failed"], 0);
    let attempts = |path: &str| step(&second, path)["attempts"].clone();
    assert_eq!(
        (attempts("migrate[0]"), attempts("migrate[2]")),
        (0.into(), 1.into()),
        "what is done is not done again"
    );
}

#[test]
fn a_wall_in_the_middle_of_a_migration_waits_for_somebody_who_raises_it() {
    let world = world();
    let text = read(&world, "pipelines/migrate.yaml");
    world.write(
        "pipelines/migrate.yaml",
        &text.replace("model_calls: 1_000", "model_calls: 3").replace("model_calls: 50", "model_calls: 2"),
    );
    let running = world.start(&MIGRATE);
    let request = answer(&world, "approve", "go on");
    assert_eq!(request["kind"], "wall");
    ends(running, 0);
    assert_eq!(output(&flow(&world, "migrate"), "summary")["done"], 4);
}

#[test]
fn releases_come_one_after_another_are_tagged_once_and_cleaned_up_after() {
    let world = world();
    let release = |version: &str| {
        let version = format!("version={version}");
        world.start(&["run", "release", "--input", &version, "--input", "soak=1ms"])
    };
    let first = release("1.0.0");
    asked(&world);
    let second = release("1.1.0");
    until("the second one queues", || {
        let flows = world.json(&["flows", "list"]);
        flows["flows"].as_array().unwrap().iter().any(|flow| flow["state"] == "queued")
    });
    let request = answer(&world, "approve", "tried it");
    assert!(request["message"].as_str().unwrap().starts_with("Release 1.0.0 of "), "{request}");
    until("the first is tagged", || git(&world, &["tag"]) == "v1.0.0\n");
    let request = answer(&world, "deny", "not today");
    assert!(request["message"].as_str().unwrap().starts_with("Release 1.1.0 of "), "{request}");
    ends(first, 0);
    ends(second, 1);
    assert_eq!(git(&world, &["tag"]), "v1.0.0\n");
    assert!(git(&world, &["tag", "--list", "--format=%(contents)"]).starts_with("1.0.0, approved by "));
    assert!(world.repo().join("dist/release-1.0.0.tar").exists());
    assert!(!world.repo().join("dist/release-1.1.0.tar").exists());
    let built = flow(&world, "build");
    assert_eq!(built["outcome"], "succeeded");
    let denied = flow(&world, "release");
    assert_eq!(step(&denied, "clean")["outcome"], "succeeded");
    assert_eq!(output(&denied, "build")["checksum"], output(&built, "checksum")["sum"]);

    let said = ends(release("1.0.0"), 1);
    assert!(said.out.contains("the tag v1.0.0 exists already"), "{}", said.out);
}

#[test]
fn a_test_that_fails_sometimes_is_found_and_looked_at() {
    let world = world();
    world.write("sometimes.sh", "test $((SEED % 3)) -ne 0\n");
    commit(&world);
    ends(world.start(&["run", "flaky", "--input", "test=sh sometimes.sh"]), 0);
    let found = flow(&world, "flaky");
    let verdict = output(&found, "verdict");
    assert_eq!((&verdict["flaky"], &verdict["rounds"]), (&true.into(), &3.into()));
    assert_eq!(verdict["suspects"], serde_json::json!(["sometimes.sh:1"]));
    assert_eq!(step(&found, "hunt~3/try")["outcome"], "failed");

    ends(world.start(&["run", "flaky", "--input", "test=true"]), 0);
    let calm = flow(&world, "flaky");
    let verdict = output(&calm, "verdict");
    assert_eq!((&verdict["flaky"], &verdict["rounds"]), (&false.into(), &20.into()));
    assert_eq!(step(&calm, "investigate")["outcome"], "skipped");
}

#[test]
fn dependencies_that_can_not_wait_make_the_night_red() {
    let world = world();
    world.write("outdated.sh", "echo 'serde 1.0.1 1.0.9'; echo 'tls 0.3.0 1.2.0'\n");
    let run = |list: &str, start: &str| {
        let (list, start) = (format!("list={list}"), format!("start_in={start}"));
        world.start(&["run", "dependencies", "--input", &list, "--input", &start])
    };
    let said = ends(run("sh outdated.sh", "1ms"), 1);
    assert!(said.out.contains("these dependencies can't wait: tls"), "{}", said.out);
    assert_eq!(read(&world, "dependencies.md"), "# Dependencies\n\n- can not wait: tls\n- can wait: serde\n");
    ends(run("true", "1ms"), 0);
    assert_eq!(step(&flow(&world, "dependencies"), "judge")["outcome"], "skipped");

    // One waits for the night, so that a second one has nothing to do.
    let waiting = run("true", "1h");
    until("it waits", || step(&flow(&world, "dependencies"), "night")["state"] == "waiting");
    let id = flow(&world, "dependencies")["id"].as_str().unwrap().to_owned();
    ends(run("true", "1ms"), 130);
    let skipped = flow(&world, "dependencies")["id"].as_str().unwrap().to_owned();
    let why = world.run_to(0, &["explain", &skipped]).out;
    assert!(why.contains("skipped: the concurrency group `dependencies` was full"), "{why}");
    world.run_to(0, &["cancel", &id]);
    ends(waiting, 130);
}
