//! Private copies as people meet them: what a flow made and how it is taken over, `worktrees` with all of its
//! subcommands, conflicts, and `doctor`.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

mod support;

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use support::{World, as_ann, git, until};

/// A repository with one commit, and steps that work in copies of it.
fn repository() -> World {
    let world = World::new();
    world.write("a.txt", "one\n");
    world.commit();
    world
}

/// Carries out a command that the program printed.
#[expect(clippy::disallowed_methods, reason = "what a person would paste into a shell")]
fn shell(line: &str) {
    let output = as_ann(Command::new("sh").args(["-c", line])).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

fn pipeline(world: &World, name: &str, text: &str) {
    world.write(&format!("pipelines/{name}.yaml"), &format!("name: {name}\n{text}"));
}

/// A directory that boxes may write to: a step says there that it runs, and waits there for the word to go on.
struct BoxGate(PathBuf);

impl BoxGate {
    fn new(world: &World) -> Self {
        let path = world.path().join("gate");
        std::fs::create_dir(&path).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&path, open).unwrap();
        Self(path)
    }

    /// Lines of a script that wait here.
    fn wait(&self) -> String {
        let at = self.0.display();
        format!("touch {at}/up; until [ -e {at}/go ]; do sleep 0.02; done")
    }

    fn until_up(&self) {
        until("the step runs", || self.0.join("up").exists());
    }

    fn open(&self) {
        std::fs::write(self.0.join("go"), "").unwrap();
    }
}

fn held(world: &World, gate: &BoxGate) {
    let (at, wait) = (gate.0.display(), gate.wait());
    pipeline(
        world,
        "held",
        &format!("box: {{ write: ['{at}'] }}\nsteps:\n  fix:\n    run: |\n      echo two > b.txt\n      {wait}\n"),
    );
}

#[test]
fn what_a_flow_made_is_taken_over_with_the_commands_that_are_printed() {
    let world = repository();
    pipeline(&world, "fix", "steps:\n  fix: { run: 'echo two > b.txt' }\n");
    world.commit();
    let before = git(&world.repo(), &["rev-parse", "HEAD"]);
    let said = world.run_to(0, &["run", "fix"]);
    assert!(said.out.contains("made, and how to take it over\n"), "{}", said.out);
    assert!(said.out.contains(&format!("by `fix`, on top of {} (main)", &before[..10])), "{}", said.out);
    assert_eq!(git(&world.repo(), &["rev-parse", "HEAD"]), before, "the source stays as it was");
    assert_eq!(git(&world.repo(), &["status", "--porcelain"]), "");
    let flow = world.flow_of("fix").unwrap();
    for command in [&["flows", "show", &flow][..], &["status", &flow]] {
        assert!(world.run_to(0, command).out.contains(" fetch "), "{command:?}");
    }
    let document = world.json(&["flows", "show", &flow]);
    let made = &document["made"][0];
    assert_eq!((&document["sandbox"], &document["in_place"]), (&"on".into(), &serde_json::json!([])));
    assert_eq!((&made["repository"], &made["by"], &made["base"]), (&".".into(), &"fix".into(), &before.into()));
    assert_eq!(document["steps"][0]["tips"][0]["by"], "fix");
    // Fetch and merge; the third is what one may do instead.
    for command in made["take_over"].as_array().unwrap().iter().take(2) {
        shell(command.as_str().unwrap());
    }
    assert_eq!(std::fs::read_to_string(world.repo().join("b.txt")).unwrap(), "two\n");
}

#[test]
fn a_flow_that_changed_nothing_made_nothing() {
    let world = repository();
    pipeline(&world, "look", "steps:\n  look: { run: 'cat a.txt' }\n");
    let said = world.run_to(0, &["run", "look"]);
    assert!(!said.out.contains("made"), "{}", said.out);
    let flow = world.flow_of("look").unwrap();
    assert_eq!(world.json(&["flows", "show", &flow])["made"], serde_json::json!([]));
    let shown = world.run_to(0, &["worktrees", "show", &flow]);
    assert_eq!((shown.out.as_str(), shown.err.contains("changed nothing")), ("", true));
    let diff = world.run(&["worktrees", "diff", &flow]);
    assert_eq!(diff.code, Some(4), "{}{}", diff.out, diff.err);
}

#[test]
fn a_copy_that_a_run_has_is_shown_and_left_alone() {
    let world = repository();
    let gate = BoxGate::new(&world);
    held(&world, &gate);
    let running = world.start(&["run", "held"]);
    gate.until_up();
    let flow = world.flow_of("held").unwrap();
    let document = world.json(&["worktrees", "list"]);
    assert_eq!(document["schema"], "orc/worktrees/1");
    let copy = &document["worktrees"][0];
    assert_eq!(
        (&copy["flow"], &copy["step"], &copy["state"]),
        (&flow.as_str().into(), &"fix".into(), &"leased".into())
    );
    let run = copy["run"].as_str().unwrap().to_owned();
    let listed = world.run_to(0, &["worktrees", "list", &flow]).out;
    assert!(listed.contains("leased") && listed.contains(&run), "{listed}");
    for command in [&["worktrees", "rescue", &flow][..], &["worktrees", "diff", &run]] {
        let said = world.run_to(5, command);
        assert!(said.err.contains(&format!("{run} works in the copy of `fix`")), "{}", said.err);
        assert!(said.err.contains(&format!("orchestrator status {run} --watch")), "{}", said.err);
    }
    let gc = world.run_to(8, &["worktrees", "gc", "--apply"]);
    assert!(gc.err.contains("is in use by process"), "{}", gc.err);
    assert_eq!(world.run_to(0, &["worktrees", "gc"]).out, "nothing to remove\n", "its flow is not over");
    gate.open();
    assert_eq!(running.wait().code, Some(0));
    let shown = world.run_to(0, &["worktrees", "show", &flow, "--step", "fix"]).out;
    assert!(shown.contains("by `fix`, on top of ") && shown.contains("refs/orc/"), "{shown}");
    let wrong = world.run_to(4, &["worktrees", "show", &flow, "--step", "fxi"]);
    assert!(wrong.err.contains("did you mean `fix`?"), "{}", wrong.err);
}

/// A flow whose holder was killed while a step had uncommitted work in its copy.
fn left_behind(world: &World) -> String {
    let gate = BoxGate::new(world);
    held(world, &gate);
    let running = world.start(&["run", "held"]);
    gate.until_up();
    let flow = world.flow_of("held").unwrap();
    running.signal(Signal::KILL);
    drop(running.wait());
    flow
}

#[test]
fn what_a_crash_left_in_a_copy_is_shown_and_rescued() {
    let world = repository();
    let flow = left_behind(&world);
    let document = world.json(&["worktrees", "show", &flow]);
    assert_eq!(document["worktrees"][0]["state"], "unsaved", "{document}");
    let shown = world.run_to(0, &["worktrees", "show", &flow]).out;
    assert!(shown.contains(&format!("try: orchestrator worktrees rescue {flow} --step 'fix'")), "{shown}");
    let patch = world.run_to(0, &["worktrees", "diff", &flow]).out;
    assert!(patch.contains("b.txt") && patch.contains("+two"), "{patch}");
    let rescued = world.json(&["worktrees", "rescue", &flow]);
    let held = &rescued["rescued"][0]["references"][0];
    let store = PathBuf::from(held["store"].as_str().unwrap());
    let reference = held["reference"].as_str().unwrap();
    assert_eq!(git(&store, &["show", &format!("{reference}:b.txt")]), "two");
    let again = world.run_to(0, &["worktrees", "rescue", &flow]).out;
    assert!(again.contains("refs/orc/") && again.contains(" fetch "), "{again}");
}

#[test]
fn work_of_a_step_that_failed_is_found_when_its_copy_is_gone() {
    let world = repository();
    pipeline(&world, "half", "steps:\n  half: { run: 'echo half > h.txt; exit 3' }\n");
    let said = world.run_to(1, &["run", "half"]);
    let flow = world.flow_of("half").unwrap();
    assert!(said.out.contains(&format!("orchestrator worktrees show {flow}")), "{}", said.out);
    let document = world.json(&["worktrees", "show", &flow, "--step", "half"]);
    assert_eq!(document["worktrees"], serde_json::json!([]), "its flow is over");
    let held = &document["rescued"][0];
    let store = PathBuf::from(held["store"].as_str().unwrap());
    let reference = held["reference"].as_str().unwrap();
    assert_eq!(git(&store, &["show", &format!("{reference}:h.txt")]), "half");
    let shown = world.run_to(0, &["worktrees", "show", &flow]).out;
    assert!(shown.starts_with("rescued: ") && shown.contains(" fetch "), "{shown}");
}

#[test]
fn what_is_secret_is_shown_nowhere() {
    let world = repository();
    world.write("orchestrator.yaml", "secrets: { TOKEN: { env: THE_TOKEN } }\n");
    let script = "echo it is $TOKEN; echo said=$TOKEN >> $ORC_OUTPUT; echo $TOKEN >&2; exit 3";
    pipeline(&world, "quiet", &format!("steps:\n  quiet: {{ box: {{ secrets: [TOKEN] }}, run: '{script}' }}\n"));
    let say = |args: &[&str]| {
        let said = support::said(&world.command(args).env("THE_TOKEN", "open-sesame-4711").output().unwrap());
        format!("{}{}", said.out, said.err)
    };
    let mut all = vec![say(&["run", "quiet"])];
    let flow = world.flow_of("quiet").unwrap();
    let commands: [&[&str]; 8] = [
        &["logs", &flow],
        &["logs", &flow, "--events", "--output", "jsonl"],
        &["flows", "show", &flow, "--output", "json"],
        &["explain", &flow],
        &["status"],
        &["incidents"],
        &["config", "show", "--origin"],
        &["run", "quiet", "--dry-run"],
    ];
    all.extend(commands.iter().map(|args| say(args)));
    assert!(all[1].contains("it is ***"), "{}", all[1]);
    for said in &all {
        assert!(!said.contains("open-sesame-4711"), "{said}");
    }
    assert!(all[7].contains("the variable THE_TOKEN"), "{}", all[7]);
    let database = std::fs::read(world.data().join("orchestrator.db")).unwrap();
    assert!(!String::from_utf8_lossy(&database).contains("open-sesame-4711"), "not in the store either");
}

#[test]
fn copies_of_flows_that_nobody_knows_go_after_a_rescue() {
    let world = repository();
    let flow = left_behind(&world);
    for name in ["orchestrator.db", "orchestrator.db-wal", "orchestrator.db-shm"] {
        let _ = std::fs::remove_file(world.data().join(name));
    }
    let dry = world.run_to(0, &["worktrees", "gc"]).out;
    assert!(dry.contains(&flow) && dry.contains("nobody knows its flow") && dry.contains("`--apply` does it"), "{dry}");
    assert_eq!(world.json(&["worktrees", "list"])["worktrees"].as_array().map(Vec::len), Some(1), "only shown");
    let gone = world.json(&["worktrees", "gc", "--apply"]);
    assert_eq!(
        (&gone["removed"], &gone["freed"]["copies"], &gone["freed"]["rescued"]),
        (&true.into(), &1.into(), &1.into())
    );
    assert!(gone["freed"]["bytes"].as_u64().unwrap() > 0, "{gone}");
    let list = world.run_to(0, &["worktrees", "list"]);
    assert_eq!((list.out.as_str(), list.err.as_str()), ("", "there are no private copies\n"));
}

#[test]
fn a_conflict_names_both_sides_wherever_it_is_told() {
    let world = repository();
    pipeline(
        &world,
        "both",
        concat!(
            "steps:\n",
            "  left: { run: 'echo left > a.txt' }\n",
            "  right: { run: 'echo right > a.txt' }\n",
            "  test: { needs: [left, right], run: cat a.txt }\n",
        ),
    );
    let said = world.run_to(1, &["run", "both"]);
    let sides = "`left` and `right` both changed a.txt";
    assert!(said.err.contains(&format!("test: conflict: {sides}")), "{}", said.err);
    let flow = world.flow_of("both").unwrap();
    let explained = world.json(&["explain", &flow, "--step", "test"]);
    let said = &explained["explanations"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    assert!(text(&said["reason"]).contains(sides), "{said}");
    assert!(text(&said["unblocked_by"]).contains("`on_conflict`"), "{said}");
    assert!(text(&said["hints"][0]).starts_with("orchestrator worktrees show"), "{said}");
    let incidents = world.json(&["incidents", "--open"]);
    assert_eq!(incidents["incidents"][0]["kind"], "conflict", "{incidents}");
    let shown = world.run_to(0, &["worktrees", "show", &flow]).out;
    assert!(shown.contains("by `left`") && shown.contains("by `right`"), "{shown}");
    let several = world.run_to(2, &["worktrees", "diff", &flow]);
    assert!(several.err.contains("`left`, `right`") && several.err.contains("--step PATH"), "{}", several.err);
}

#[test]
fn what_a_box_refuses_is_told_while_it_happens_and_afterwards() {
    let world = repository();
    let script = "curl -s -m 5 http://not-allowed.example/ || true";
    pipeline(
        &world,
        "reach",
        &format!("box: {{ network: [allowed.example] }}\nsteps:\n  reach: {{ run: '{script}' }}\n"),
    );
    let said = world.run_to(0, &["run", "reach"]);
    assert!(said.err.contains("reach: its box refused the network: not-allowed.example"), "{}", said.err);
    let incidents = world.json(&["incidents"]);
    let incident = &incidents["incidents"][0];
    assert_eq!((&incident["kind"], &incident["open"]), (&"sandbox_violation".into(), &false.into()), "{incidents}");
    let flow = world.flow_of("reach").unwrap();
    let logs = world.run_to(0, &["logs", &flow, "--events"]).out;
    assert!(logs.contains("its box refused the network"), "{logs}");
}

#[test]
fn ids_that_mean_nothing_and_flows_without_copies_are_said() {
    let world = World::new();
    assert_eq!(world.run_to(0, &["worktrees", "list"]).err, "there are no private copies\n");
    assert_eq!(world.run_to(0, &["worktrees", "gc"]).out, "nothing to remove\n");
    assert!(!world.data().exists(), "looking makes nothing");
    world.pipeline("plain", "steps:\n  a: { run: 'true' }\n");
    world.run_to(0, &["run", "plain"]);
    let flow = world.flow_of("plain").unwrap();
    let none = world.run_to(4, &["worktrees", "rescue", &flow]);
    assert!(none.err.contains("nothing to rescue"), "{}", none.err);
    assert!(world.run_to(4, &["worktrees", "show", "zzzzzz"]).err.contains("zzzzzz"));
    let document = world.json(&["flows", "show", &flow]);
    assert_eq!((&document["sandbox"], &document["in_place"]), (&"off".into(), &serde_json::json!(["a"])));
    assert!(world.run_to(0, &["flows", "show", &flow]).out.contains("(in place: no copy, sandbox: off)"));
}
