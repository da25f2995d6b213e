//! Commands that need no running flow: what they print on both streams, and how they end when something is wrong.

mod support;

use std::process::Stdio;

use support::{World, said};

#[test]
fn init_writes_an_example_that_validates_and_runs() {
    let world = World::new();
    world.commit();
    let first = world.run_to(0, &["init"]);
    assert!(first.out.contains("wrote pipelines/hello.yaml\nwrote orchestrator.yaml\n"), "{}", first.out);
    assert!(first.out.contains("orchestrator run hello"), "{}", first.out);
    assert!(!first.out.contains("no git repository"), "{}", first.out);
    world.commit();
    let valid = world.run_to(0, &["validate"]);
    assert_eq!((valid.out.as_str(), valid.err.as_str()), ("", "2 files, no problems\n"));
    let ran = world.run_to(0, &["run", "hello", "--input", "greeting=Salut"]);
    assert!(ran.out.starts_with("hello succeeded in "), "{}", ran.out);
    assert!(ran.out.contains("text = Salut, this repository has been counted"), "{}", ran.out);
    assert!(ran.out.contains("attempt 2"), "{}", ran.out);
}

#[test]
fn init_keeps_what_is_there_and_makes_directories() {
    let world = World::new();
    world.write("new/orchestrator.yaml", "slots: 3\n");
    let said = world.run_to(0, &["init", "new"]);
    assert!(said.out.contains("wrote new/pipelines/hello.yaml\nkept  new/orchestrator.yaml (it was there already)"));
    assert!(said.out.contains("note: this is no git repository") && said.out.contains("  cd new\n"), "{}", said.out);
    assert_eq!(std::fs::read_to_string(world.repo().join("new/orchestrator.yaml")).unwrap(), "slots: 3\n");
}

#[test]
fn init_outside_of_a_git_repository_says_what_makes_one_and_then_its_example_runs() {
    let world = World::new();
    let said = world.run_to(0, &["init"]);
    assert!(said.out.contains("  git init && git add . && git commit -m "), "{}", said.out);
    let refused = world.run_to(8, &["run", "hello"]);
    assert!(refused.err.contains("is not in a git repository") && refused.err.contains("`git init` and commit"));
    world.commit();
    assert!(!world.run_to(0, &["init"]).out.contains("git init"), "there is one now");
    assert!(world.run_to(0, &["run", "hello"]).out.starts_with("hello succeeded in "));
}

#[test]
fn init_says_where_it_may_not_write() {
    let world = World::new();
    world.write("file", "");
    let said = world.run_to(8, &["init", "file/below"]);
    assert_eq!(said.out, "");
    assert!(said.err.starts_with("error: cannot write `") && said.err.contains("file/below/pipelines/hello.yaml"));
    assert!(said.err.contains("because: ") && said.err.contains("hint: name a directory"), "{}", said.err);
}

#[test]
fn without_a_database_every_reader_says_so() {
    let world = World::new();
    let id = "flow_01m8pyns4geg6s7xcb5ehsj88w";
    let commands: [&[&str]; 9] = [
        &["status"],
        &["status", id],
        &["explain", id],
        &["flows", "list"],
        &["flows", "show", id],
        &["runs", "list"],
        &["logs", id],
        &["db", "check"],
        &["db", "backup", "copy.db"],
    ];
    for command in commands {
        let said = world.run_to(4, command);
        assert_eq!(said.out, "", "{command:?}");
        assert!(said.err.contains("there is no database"), "{command:?}: {}", said.err);
        assert!(said.err.contains("hint: `orchestrator run PIPELINE` makes one"), "{command:?}: {}", said.err);
    }
    assert!(!world.data().exists(), "looking makes nothing");
}

#[test]
fn a_file_that_is_no_database_is_named_and_doctor_fails() {
    let world = World::new();
    std::fs::create_dir_all(world.data()).unwrap();
    std::fs::write(world.data().join("orchestrator.db"), "this is no database, and it is long enough to look at")
        .unwrap();
    for command in [&["status"][..], &["flows", "list"], &["db", "check"], &["db", "migrate"]] {
        let said = world.run_to(8, command);
        assert!(said.err.contains("orchestrator.db"), "{command:?}: {}", said.err);
        assert!(said.err.contains("because: "), "{command:?}: {}", said.err);
    }
    let doctor = world.run_to(8, &["doctor"]);
    let line = doctor.out.lines().find(|line| line.contains("database")).unwrap();
    assert!(line.starts_with("FAIL"), "{}", doctor.out);
}

#[test]
fn doctor_tries_the_machine() {
    let world = World::new();
    let said = world.run_to(0, &["doctor"]);
    let level = |name: &str| {
        let line = said.out.lines().find(|line| line.get(6..).is_some_and(|rest| rest.starts_with(name)));
        line.unwrap_or_else(|| panic!("no {name} in {}", said.out)).split_whitespace().next().unwrap().to_owned()
    };
    for name in
        ["data directory", "holder", "database", "settings", "kernel", "sh", "git", "sandbox", "box", "ways out"]
    {
        assert_eq!(level(name), "ok", "{name}: {}", said.out);
    }
    assert!(said.out.contains("git version") && said.out.contains("made by bubblewrap "), "{}", said.out);
    for name in ["seccomp", "landlock", "limits", "git in boxes", "git-lfs", "private copies", "toolchains"] {
        assert_ne!(level(name), "FAIL", "{name}: {}", said.out);
    }
    assert!(!world.data().exists(), "doctor makes nothing");
    let document = world.json(&["doctor"]);
    assert_eq!(document["schema"], "orc/doctor/1");
    assert_eq!(document["findings"][0]["level"], "ok");
}

#[test]
fn doctor_says_what_is_missing_and_what_to_do() {
    let world = World::new();
    world.write("file", "");
    world.write("orchestrator.yaml", "slots: many\n");
    let bin = world.repo().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let mut command = world.command(&["doctor", "--data", "file/data"]);
    let said = said(&command.env("PATH", &bin).output().unwrap());
    assert_eq!(said.code, Some(8), "{}", said.out);
    let hint_after = |start: &str| {
        let mut lines = said.out.lines().skip_while(|line| !line.starts_with(start));
        lines.nth(1).unwrap_or_default().trim().to_owned()
    };
    assert_eq!(hint_after("FAIL  data directory"), "→ make it writable, or name another one with --data or ORC_DATA");
    assert_eq!(hint_after("FAIL  settings"), "→ orchestrator config show --origin");
    assert_eq!(hint_after("FAIL  sh"), "→ put a POSIX shell into PATH");
    assert!(hint_after("warn  git").starts_with("→ install git"), "{}", said.out);
}

#[test]
fn settings_show_their_origin() {
    let world = World::new();
    world.write("orchestrator.yaml", "# ours\nslots: 7\n");
    let row = |said: &str, key: &str| {
        let line = said.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let said = world.run_to(0, &["config", "show", "--origin"]);
    assert_eq!(row(&said.out, "slots"), ["slots", "7", "orchestrator.yaml:2"]);
    assert_eq!(row(&said.out, "cancel_grace"), ["cancel_grace", "10s", "default"]);
    assert!(said.out.contains("--data or ORC_DATA"), "{}", said.out);
    let output = world.command(&["config", "show", "--output", "json"]).env("ORC_SLOTS", "3").output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["settings"]["slots"], serde_json::json!({ "value": "3", "origin": "environment ORC_SLOTS" }));
    assert_eq!(row(&world.run_to(0, &["config", "show"]).out, "slots"), ["slots", "7"]);
    world.write("orchestrator.yaml", "slosts: 7\n");
    let wrong = world.run_to(3, &["config", "show"]);
    assert!(wrong.err.contains("orchestrator.yaml:1:1") && wrong.err.contains("did you mean `slots`"), "{}", wrong.err);
}

#[test]
fn schemas_and_completions_are_printed_whole() {
    let world = World::new();
    for of in ["pipeline", "settings"] {
        let schema: serde_json::Value = serde_json::from_str(&world.run_to(0, &["schema", of]).out).unwrap();
        assert!(schema["$schema"].as_str().unwrap().contains("json-schema.org"), "{of}");
        assert!(schema["properties"].is_object(), "{of}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = world.run_to(0, &["completions", shell]);
        assert!(said.out.contains("orchestrator") && said.out.contains("doctor"), "{shell}");
    }
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let world = World::new();
    let main = world.run_to(0, &["man"]).out;
    assert!(main.contains(".TH orchestrator 1 ") && main.contains("orchestrator\\-flows(1)"), "{main}");
    assert!(main.contains(".SH \"EXIT STATUS\"") && main.contains("\\fB130\\fR\ninterrupted"), "{main}");
    assert!(!main.contains("reference"), "hidden things stay hidden");
    let said = world.run_to(0, &["man", "--dir", "deep/man1"]);
    let pages: Vec<_> = std::fs::read_dir(world.repo().join("deep/man1")).unwrap().collect();
    assert_eq!(said.err, format!("wrote {} manual pages to deep/man1\n", pages.len()));
    let page = |name: &str| std::fs::read_to_string(world.repo().join("deep/man1").join(name)).unwrap();
    assert_eq!(page("orchestrator.1"), main);
    assert!(page("orchestrator-flows-list.1").contains("Only flows that are not finished"));
    world.write("file", "");
    assert!(world.run_to(8, &["man", "--dir", "file/below"]).err.contains("cannot write manual pages to `file/below`"));
}

#[test]
fn the_reference_describes_every_command() {
    let world = World::new();
    let cli = world.run_to(0, &["reference", "cli"]).out;
    for heading in ["run", "status", "explain", "flows resume", "runs show", "db vacuum", "config show", "completions"]
    {
        assert!(cli.contains(&format!("\n## `orchestrator {heading}`\n")), "{heading}");
    }
    assert!(!cli.contains("orchestrator reference") && !cli.contains("--help"), "hidden things stay hidden");
    assert_eq!(cli, world.run_to(0, &["reference", "cli"]).out, "the same text each time");
    let codes = world.run_to(0, &["reference", "exit-codes"]).out;
    assert!(codes.contains("| 0 | success |") && codes.contains("| 130 | "), "{codes}");
    let environment = world.run_to(0, &["reference", "environment"]).out;
    assert!(environment.contains("| `ORC_DATA` |") && environment.contains("- `PATH`"), "{environment}");
    assert!(world.run_to(0, &["reference", "consumers"]).out.contains("| `temp-files` | `FlowFinished` |"));
    let keys = world.run_to(0, &["reference", "keys"]).out;
    assert!(
        keys.contains("| `needs` | a name, or a list of names |")
            && keys.contains("| `orchestrate` | not available yet |")
    );
}

#[test]
fn a_command_line_that_makes_no_sense_is_explained() {
    let world = World::new();
    let cases: [(&[&str], &str); 7] = [
        (&[], "Usage: orchestrator"),
        (&["doctr"], "a similar subcommand exists: 'doctor'"),
        (&["status", "--outptu", "json"], "a similar argument exists: '--output'"),
        (&["status", "--output", "xml"], "possible values: table, json, jsonl, yaml"),
        (&["resume"], "<IDS>"),
        (&["flows", "list", "--limit", "many"], "invalid value 'many'"),
        (&["schema", "flow"], "possible values: pipeline, profile, model, settings"),
    ];
    for (args, message) in cases {
        let said = world.run_to(2, args);
        assert_eq!(said.out, "", "{args:?}");
        assert!(said.err.contains(message), "{args:?}: {}", said.err);
    }
    assert!(world.run_to(0, &["--version"]).out.starts_with("orchestrator "));
    assert!(world.run_to(0, &["--help"]).out.contains("explain"));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let world = World::new();
    world.run_to(0, &["init"]);
    world.commit();
    world.run_to(0, &["run", "hello"]);
    let flow = world.json(&["flows", "list"])["flows"][0]["id"].as_str().unwrap().to_owned();
    let commands: [&[&str]; 8] = [
        &["man"],
        &["reference", "cli"],
        &["completions", "bash"],
        &["status"],
        &["flows", "show", &flow],
        &["logs", &flow],
        &["logs", &flow, "--output", "jsonl"],
        &["--help"],
    ];
    for args in commands {
        let mut child = world.command(args).stdin(Stdio::null()).spawn().unwrap();
        // Closed before it writes: the program is slower to start than this is to drop.
        drop(child.stdout.take());
        let said = said(&child.wait_with_output().unwrap());
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{args:?}");
    }
}
