//! Every pipeline in `pipelines/`, run to its end through the binary, in a small repository of git, with the agents in
//! `agents/`; the test answers what people are asked.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{Running, Said, World, git, until};

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
    world.commit();
    // `release` tags as whoever runs it.
    git(&world.repo(), &["config", "user.name", "Test"]);
    git(&world.repo(), &["config", "user.email", "test@example.com"]);
    world
}

fn read(world: &World, file: &str) -> String {
    std::fs::read_to_string(world.repo().join(file)).unwrap()
}

/// The checkout as it is, with all that git knows of it.
struct Checkout<'a> {
    world: &'a World,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl<'a> Checkout<'a> {
    fn of(world: &'a World) -> Self {
        let files = walk(&world.repo()).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap()));
        Self { world, files: files.collect() }
    }

    /// Fails unless every byte of every file is what it was, and no file came or went.
    fn is_untouched(&self) {
        let now = Self::of(self.world).files;
        let paths = self.files.keys().chain(now.keys());
        let touched: Vec<_> = paths.filter(|path| self.files.get(*path) != now.get(*path)).collect();
        assert!(self.files.len() > 20 && touched.is_empty(), "{touched:?}");
    }
}

/// What a flow made: the one commit that it hands on, in our store.
struct Made {
    store: PathBuf,
    base: String,
    reference: String,
}

impl Made {
    fn by(flow: &Value) -> Self {
        let [one] = flow["made"].as_array().unwrap().as_slice() else {
            unreachable!("one commit is made: {}", flow["made"])
        };
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        let made = Self { store: text("store").into(), base: text("base"), reference: text("reference") };
        assert_eq!(git(&made.store, &["rev-parse", &made.reference]), text("commit"));
        made
    }

    /// Files that differ from where the flow began.
    fn changed(&self) -> Vec<String> {
        let names = git(&self.store, &["diff", "--name-only", &self.base, &self.reference]);
        names.lines().map(str::to_owned).collect()
    }

    fn read(&self, file: &str) -> String {
        git(&self.store, &["show", &format!("{}:{file}", self.reference)])
    }
}

/// What is kept of a step as its artifact `report`.
fn report(flow: &Value) -> String {
    std::fs::read_to_string(step(flow, "report")["artifacts"]["report"]["file"].as_str().unwrap()).unwrap()
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
    let checkout = Checkout::of(&world);
    let running = world.start(&CHANGE);
    let request = answer(&world, "approve", "as it should be");
    assert!(request["message"].as_str().unwrap().contains("reviewed in 2 rounds"), "{request}");
    ends(running, 0);
    checkout.is_untouched();
    let flow = flow(&world, "change");
    let made = Made::by(&flow);
    assert_eq!(made.changed(), ["README.md", "src/greet.sh", "src/main.sh", "test.sh"]);
    assert_eq!(made.read("src/greet.sh"), "greet() { echo \"greet, $1\"; }");
    // Newest first: what the reviewer found, the merge of the two parts, the parts.
    let authors = git(&made.store, &["log", "--format=%an", &format!("{}..{}", made.base, made.reference)]);
    let authors: Vec<&str> = authors.lines().collect();
    assert_eq!(authors, ["coder (agent)", "orchestrator (pipeline)", "coder (agent)", "coder (agent)"]);
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
    let checkout = Checkout::of(&world);
    let running = world.start(&CHANGE);
    answer(&world, "deny", "not like this");
    let said = ends(running, 1);
    assert!(said.out.contains("not like this"), "{}", said.out);
    checkout.is_untouched();
    let flow = flow(&world, "change");
    assert_eq!(step(&flow, "summary")["outcome"], "skipped");
    assert_eq!(step(&flow, "report")["outcome"], "succeeded");
    assert_eq!(Made::by(&flow).changed().len(), 4);
}

#[test]
fn parts_that_change_the_same_line_are_brought_together_with_both_changes() {
    let world = world();
    world.write("src/greet.sh", "salute() { echo \"salute, dear $1\"; }\n");
    world.commit();
    let checkout = Checkout::of(&world);
    let request = "request=replace salute by greet, and replace dear by good";
    let running = world.start(&["run", "change", "--input", request, "--input", "test=sh test.sh"]);
    answer(&world, "approve", "both are there");
    let said = ends(running, 0);
    assert!(said.err.contains("implement: conflict: "), "{}", said.err);
    checkout.is_untouched();
    let flow = flow(&world, "change");
    assert_eq!(output(&flow, "plan")["parts"].as_array().unwrap().len(), 3);
    assert_eq!(Made::by(&flow).read("src/greet.sh"), "greet() { echo \"greet, good $1\"; }");
}

#[test]
fn a_request_that_the_planner_does_not_understand_is_put_to_people() {
    let world = world();
    let running = world.start(&["run", "change", "--input", "request=Make it nicer."]);
    let request = answer(&world, "deny", "it was not meant seriously");
    assert_eq!(request["kind"], "question");
    assert!(request["message"].as_str().unwrap().contains("I only understand"), "{request}");
    ends(running, 1);
    assert_eq!(flow(&world, "change")["made"], serde_json::json!([]));
}

#[test]
fn the_tests_run_in_every_environment_and_one_report_tells_of_all() {
    let world = world();
    world.write("zone.sh", "test \"$TZ\" != Asia/Kathmandu\n");
    world.commit();
    let checkout = Checkout::of(&world);
    let run = |test: &str| world.start(&["run", "test-matrix", "--input", &format!("test={test}")]);
    ends(run("sh test.sh"), 0);
    let green = flow(&world, "test-matrix");
    assert_eq!(output(&green, "report")["failed"], 0);
    assert_eq!(step(&green, "verdict")["outcome"], "skipped");
    let said = ends(run("sh zone.sh"), 1);
    assert!(said.out.contains("combinations that failed: 1, see "), "{}", said.out);
    let red = flow(&world, "test-matrix");
    let text = report(&red);
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let wanted = [
        "- passed: UTC C",
        "- passed: UTC C.UTF-8",
        "- FAILED: Asia/Kathmandu C.UTF-8",
        "- passed: Pacific/Kiritimati C",
    ];
    assert_eq!(lines, wanted);
    assert_eq!(step(&red, "test{locale=C.UTF-8,zone=Asia%2fKathmandu}")["outcome"], "failed");
    // Each flow has kept its own report, and none is part of a commit.
    assert!(!report(&green).contains("FAILED"), "{}", report(&green));
    assert_eq!((&green["made"], &red["made"]), (&serde_json::json!([]), &serde_json::json!([])));
    checkout.is_untouched();
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

/// An agent to whom one file is closed until a file outside of the repository is there.
fn thawing(world: &World) -> PathBuf {
    let outside = world.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let at = outside.display();
    let frozen = r#"{"type":"error","family":"unknown","message":"src/frozen.txt is frozen"}"#;
    let script = format!(
        "prompt=$(cat)\n\
         case $prompt in *'src/frozen.txt: replace'*) test -e '{at}/thawed' || {{ echo '{frozen}'; exit 1; }} ;; esac\n\
         printf '%s\\n' \"$prompt\" | sh agents/bin/scripted.sh\n"
    );
    world.write("agents/bin/agent.sh", &script);
    let text = read(world, "pipelines/migrate.yaml");
    world.write("pipelines/migrate.yaml", &format!("{text}box: {{ read: ['{at}'] }}\n"));
    outside.join("thawed")
}

#[test]
fn files_that_can_not_be_migrated_keep_no_others_from_it_and_are_tried_again_alone() {
    let world = world();
    let thawed = thawing(&world);
    world.write("src/frozen.txt", "salute\n");
    world.write("src/made.txt", "made by a program, do not edit: salute\n");
    world.commit();
    let checkout = Checkout::of(&world);
    ends(world.start(&MIGRATE), 0);
    let first = flow(&world, "migrate");
    assert_eq!(Made::by(&first).changed(), ["README.md", "src/greet.sh", "src/main.sh", "test.sh"]);
    assert_eq!((&output(&first, "summary")["done"], &output(&first, "summary")["failed"]), (&4.into(), &2.into()));
    let ended = |flow: &Value, path: &str| (step(flow, path)["attempts"].clone(), step(flow, path)["outcome"].clone());
    for path in ["migrate[1]", "migrate[3]"] {
        assert_eq!(ended(&first, path), (2.into(), "failed".into()), "{path}");
    }

    std::fs::write(thawed, "").unwrap();
    ends(world.start(&["retry", first["id"].as_str().unwrap()]), 0);
    let second = flow(&world, "migrate");
    assert_eq!(second["retry_of"], first["id"]);
    assert_eq!(output(&second, "summary")["failed"], 1);
    let made = Made::by(&second);
    assert_eq!(made.read("src/frozen.txt"), "greet");
    assert_eq!(made.changed().len(), 5, "what was made before is in it: {:?}", made.changed());
    assert_eq!(ended(&second, "migrate[0]").0, 0, "what is done is not done again");
    assert_eq!(ended(&second, "migrate[1]"), (1.into(), "succeeded".into()));
    assert_eq!(ended(&second, "migrate[3]"), (2.into(), "failed".into()));
    checkout.is_untouched();
}

#[test]
fn a_wall_in_the_middle_of_a_migration_waits_for_somebody_who_raises_it() {
    let world = world();
    let text = read(&world, "pipelines/migrate.yaml");
    world.write(
        "pipelines/migrate.yaml",
        &text.replace("model_calls: 1_000", "model_calls: 3").replace("model_calls: 50", "model_calls: 2"),
    );
    world.commit();
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
    until("the first is tagged", || git(&world.repo(), &["tag"]) == "v1.0.0");
    let request = answer(&world, "deny", "not today");
    assert!(request["message"].as_str().unwrap().starts_with("Release 1.1.0 of "), "{request}");
    ends(first, 0);
    ends(second, 1);
    assert_eq!(git(&world.repo(), &["tag"]), "v1.0.0");
    assert!(git(&world.repo(), &["tag", "--list", "--format=%(contents)"]).starts_with("1.0.0, approved by "));
    assert!(world.repo().join("dist/release-1.0.0.tar").exists());
    assert!(!world.repo().join("dist/release-1.1.0.tar").exists());
    assert_eq!(git(&world.repo(), &["status", "--porcelain"]), "?? dist/", "nothing else is in the checkout");
    let built = flow(&world, "build");
    assert_eq!(built["made"], serde_json::json!([]), "an archive is no change of the repository");
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
    world.commit();
    let checkout = Checkout::of(&world);
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
    checkout.is_untouched();
}

#[test]
fn dependencies_that_can_not_wait_make_the_night_red() {
    let world = world();
    world.write("outdated.sh", "echo 'serde 1.0.1 1.0.9'; echo 'tls 0.3.0 1.2.0'\n");
    world.commit();
    let checkout = Checkout::of(&world);
    let run = |list: &str, start: &str| {
        let (list, start) = (format!("list={list}"), format!("start_in={start}"));
        world.start(&["run", "dependencies", "--input", &list, "--input", &start])
    };
    let said = ends(run("sh outdated.sh", "1ms"), 1);
    assert!(said.out.contains("these dependencies can't wait: tls"), "{}", said.out);
    let night = flow(&world, "dependencies");
    assert_eq!(report(&night), "# Dependencies\n\n- can not wait: tls\n- can wait: serde\n");
    assert_eq!(night["made"], serde_json::json!([]));
    checkout.is_untouched();
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
