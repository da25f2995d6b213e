//! What comes into a box and what stays out: secrets, caches, the network, artifacts; and all of it without being root.
#![expect(clippy::disallowed_methods, reason = "these tests start the program as a user does")]
#![expect(clippy::panic, reason = "a document that cannot be read fails its test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{World, as_ann, git, said, until};
use crate::{Board, agent, assert_no_copies, files, pipeline, repository, result, run};

const SECRETS: [&str; 2] = ["open-sesame-4711", "kept-in-a-file-0815"];

/// Files below a directory that hold a text.
fn holding(path: &Path, text: &str, into: &mut Vec<PathBuf>) {
    let about = path.symlink_metadata().unwrap();
    if about.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| holding(&entry.unwrap().path(), text, into));
    } else if about.is_file() && fs::read(path).unwrap().windows(text.len()).any(|bytes| bytes == text.as_bytes()) {
        into.push(path.to_owned());
    }
}

#[test]
fn a_command_has_its_secrets_and_nothing_holds_them() {
    let world = repository();
    let file = world.path().join("token");
    fs::write(&file, format!("{}\n", SECRETS[1])).unwrap();
    let settings = format!("secrets: {{ ONE: {{ env: THE_TOKEN }}, TWO: {{ file: '{}' }} }}\n", file.display());
    world.write("orchestrator.yaml", &settings);
    agent(&world, "coder", "[ -z \"${ONE-}${TWO-}${THE_TOKEN-}\" ]; ! env | grep -q 4711; echo \"it has <${ONE-}>\"\n");
    let script = "echo $ONE $TWO; echo said=$ONE >> $ORC_OUTPUT; echo $TWO >&2; printf %s%s $ONE $TWO | sha256sum; echo ${#ONE} ${#TWO} > lengths";
    let steps = format!(
        "steps:\n  it: {{ box: {{ secrets: [ONE, TWO] }}, run: '{script}' }}\n  other: {{ run: 'test -z \"${{ONE-}}$(env | grep TWO)\"' }}\n  agent: {{ needs: it, agent: coder, prompt: Look. }}\n"
    );
    pipeline(&world, "quiet", &steps);
    let output = world.command(&["run", "quiet"]).env("THE_TOKEN", SECRETS[0]).output().unwrap();
    let told = said(&output);
    assert_eq!(told.code, Some(0), "{}{}", told.out, told.err);
    let flow = world.flow_of("quiet").unwrap();
    assert_eq!(result(&world, &flow), files(&[("lengths", "16 19")]), "it had both");
    let mut all = vec![told.out, told.err];
    for args in [
        &["logs", &flow][..],
        &["logs", &flow, "--events", "--output", "jsonl"],
        &["flows", "show", &flow, "--output", "json"],
    ] {
        let told = world.run_to(0, args);
        all.extend([told.out, told.err]);
    }
    for secret in SECRETS {
        assert!(all.iter().all(|told| !told.contains(secret)), "{all:#?}");
        let mut found = Vec::new();
        holding(&world.data(), secret, &mut found);
        assert_eq!(found, [""; 0].map(PathBuf::from), "files of the data directory");
    }
    assert!(all[2].contains("***"), "{}", all[2]);
}

#[test]
fn a_cache_holds_what_the_last_delivered_run_left() {
    let world = repository();
    let board = Board::new(&world);
    let script = r#"
      ls "$ORC_CACHE_STORE" >> "$BOARD/journal"; echo -- >> "$BOARD/journal"
      touch "/cache/store/$(ls "$BOARD" | tr '\n' _)"
      test ! -e "$BOARD/fail""#;
    let rules = format!("box: {{ write: ['{0}'], cache: [store] }}\nenv: {{ BOARD: '{0}' }}\n", board.0.display());
    pipeline(&world, "cached", &format!("{rules}steps:\n  it:\n    run: |{script}\n"));
    run(&world, 0, "cached");
    board.put("fail");
    run(&world, 1, "cached");
    fs::remove_file(board.0.join("fail")).unwrap();
    run(&world, 0, "cached");
    assert_eq!(board.journal(), ["--", "journal_", "--", "journal_", "--"], "nothing of the one that failed");
    assert_no_copies(&world);
}

#[test]
fn a_host_that_is_not_listed_is_refused_and_told() {
    let world = repository();
    let script = "! curl -fsS -m 5 http://other.example/";
    pipeline(&world, "reach", &format!("box: {{ network: [allowed.example] }}\nsteps:\n  it: {{ run: '{script}' }}\n"));
    let flow = run(&world, 0, "reach");
    let events = world.run_to(0, &["logs", &flow, "--events", "--output", "jsonl"]).out;
    let told: Vec<&str> = events.lines().filter(|line| line.contains("\"SandboxViolation\"")).collect();
    assert!(!told.is_empty() && told.iter().all(|line| line.contains("other.example")), "{events}");
    let log = world.run_to(0, &["logs", &flow]).out;
    assert!(log.lines().any(|line| line.contains("SandboxViolation: network: other.example")), "{log}");
}

/// A flow goes on with the definition that it pinned; what it may reach is what the settings say by then.
#[test]
fn a_ceiling_that_came_later_holds_for_flows_that_began_before() {
    let world = repository();
    pipeline(
        &world,
        "later",
        "box: { network: [allowed.example] }\nsteps:\n  ask: { approval: { message: Go? } }\n  \
         it: { needs: ask, run: echo it > it }\n",
    );
    let running = world.start(&["run", "later"]);
    let asked = || {
        let said = world.run(&["approvals", "list", "--output", "json"]);
        let open = serde_json::from_str::<serde_json::Value>(&said.out).unwrap_or_default();
        Some(open["requests"].as_array()?.first()?["id"].as_str()?.to_owned())
    };
    until("somebody is asked", || asked().is_some());
    running.signal(rustix::process::Signal::KILL);
    drop(running.wait());
    world.write("orchestrator.yaml", "box: { network: [other.example] }\n");
    let request = asked().unwrap();
    let running = world.start(&["flows", "resume", "--all"]);
    let flow = world.flow_of("later").unwrap();
    until("it is over", || {
        world.run(&["approvals", "approve", &request]);
        world.json(&["flows", "show", &flow])["state"] == "finished"
    });
    drop(running.wait());
    let failure = world.steps(&flow)["it"].to_string();
    let told = "`allowed.example` is more than the setting `box.network` allows";
    assert!(failure.contains(told) && failure.contains("ask whoever owns the settings"), "{failure}");
    let incidents = world.json(&["incidents"]);
    assert_eq!(incidents["incidents"][0]["kind"], "policy", "{incidents}");
}

#[test]
fn what_copies_need_of_git_is_said_before_a_flow_begins() {
    let world = repository();
    pipeline(&world, "plain", "steps: { it: { run: 'true' } }\n");
    let programs = world.path().join("programs");
    fs::create_dir(&programs).unwrap();
    fs::write(programs.join("git"), "#!/bin/sh\necho 'git version 2.40.9'\n").unwrap();
    fs::set_permissions(programs.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let with_old = |args: &[&str]| said(&world.command(args).env("PATH", &path).output().unwrap());
    let run = with_old(&["run", "plain"]);
    assert_eq!(run.code, Some(8), "{}", run.err);
    assert!(run.err.contains("git 2.40.9 is too old: private copies need 2.41 or later; install"), "{}", run.err);
    assert!(with_old(&["doctor"]).out.contains("git 2.40.9 is too old"));
    assert_eq!(world.flow_of("plain"), None);
}

#[test]
fn a_repository_without_a_commit_says_what_helps() {
    let world = World::new();
    pipeline(&world, "plain", "steps: { it: { run: 'true' } }\n");
    git(&world.repo(), &["init", "-q"]);
    let told = world.run_to(8, &["run", "plain"]).err;
    assert!(told.contains("has no commit yet, and a private copy starts from one"), "{told}");
    assert!(told.contains("git add . && git commit") && told.contains("worktree: none"), "{told}");
}

/// A step whose parents were built on each other merges them without a commit of its own.
#[test]
fn a_step_that_only_merges_is_not_named_as_the_maker() {
    let world = repository();
    let steps =
        "  a: { run: echo a > a }\n  b: { needs: a, run: echo b > b }\n  c: { needs: [a, b], run: 'test -e b' }\n";
    pipeline(&world, "line", &format!("steps:\n{steps}"));
    let flow = run(&world, 0, "line");
    let document = world.json(&["flows", "show", &flow]);
    assert_eq!(document["made"][0]["by"], "b", "{document}");
    let shown = world.json(&["worktrees", "show", &flow]);
    let steps: Vec<&str> = shown["results"].as_array().unwrap().iter().filter_map(|one| one["step"].as_str()).collect();
    assert_eq!(steps, ["a", "b"], "{shown}");
}

#[test]
fn artifacts_come_out_of_copies_and_into_boxes() {
    let world = repository();
    pipeline(
        &world,
        "hand",
        r"
steps:
  make: { run: 'echo out > .gitignore; mkdir out; echo report > out/report', artifacts: { report: out/report } }
  read:
    needs: make
    run: |
      test ! -e out
      ! echo more >> ${{ steps.make.artifacts.report }}
      cp ${{ steps.make.artifacts.report }} copy
",
    );
    let flow = run(&world, 0, "hand");
    assert_eq!(result(&world, &flow), files(&[(".gitignore", "out"), ("copy", "report")]));
    assert_no_copies(&world);
}

/// Somebody that no machine has.
const ORDINARY: u32 = 61_236;

/// The program as somebody who is not root, with all that they need.
struct Ordinary {
    directory: tempfile::TempDir,
    /// None: whoever runs this test is no root anyway.
    user: Option<u32>,
}

impl Ordinary {
    fn new() -> Self {
        let mode = fs::Permissions::from_mode(0o755);
        let directory = tempfile::Builder::new().permissions(mode).tempdir().unwrap();
        let user = rustix::process::geteuid().is_root().then_some(ORDINARY);
        fs::copy(env!("CARGO_BIN_EXE_orchestrator"), directory.path().join("orchestrator")).unwrap();
        for name in ["repo", "home", "data"] {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            chown(&path, user, user).unwrap();
        }
        Self { directory, user }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory.path().join("repo"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.directory.path().join("home")).env("ORC_DATA", self.directory.path().join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    fn shell(&self, script: &str) -> String {
        let output = as_ann(self.command(Path::new("sh")).args(["-ec", script])).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        let mut command = self.command(&self.directory.path().join("orchestrator"));
        let told = said(&command.args(args).args(["--output", "json"]).output().unwrap());
        serde_json::from_str(&told.out).unwrap_or_else(|error| panic!("{args:?}: {error}\n{}{}", told.out, told.err))
    }
}

#[test]
fn an_ordinary_user_works_in_clones() {
    let who = Ordinary::new();
    who.shell(
        r#"
git init -q -b main; echo one > a.txt; mkdir pipelines
echo 'worktree: { strategy: clone }' > orchestrator.yaml
cat > pipelines/chain.yaml <<'END'
name: chain
steps:
  first: { run: 'test "$(id -u)" != 0; echo first > first' }
  each: { needs: first, foreach: [p, q], run: 'test -e first; echo ${{ item }} > ${{ item }}' }
  last: { needs: each, run: 'cat first p q > all' }
END
git add .; git commit -qm one
"#,
    );
    let told = said(&who.command(&who.directory.path().join("orchestrator")).args(["run", "chain"]).output().unwrap());
    assert_eq!(told.code, Some(0), "{}{}", told.out, told.err);
    let flows = who.json(&["flows", "list"]);
    let shown = who.json(&["flows", "show", flows["flows"][0]["id"].as_str().unwrap()]);
    let made = &shown["made"][0];
    let at = |key: &str| made[key].as_str().unwrap().to_owned();
    assert_eq!(who.shell(&format!("git -C '{}' show {}:all", at("store"), at("commit"))), "first\np\nq");
    assert_eq!(who.json(&["worktrees", "list"])["worktrees"], serde_json::json!([]));
    assert_eq!(who.shell("git status --porcelain"), "");
}
