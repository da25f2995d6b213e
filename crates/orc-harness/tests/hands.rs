//! Conversations with a real tool host that has the tools of the built-in agent.

#![expect(clippy::disallowed_methods, reason = "tests start processes of their own")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use orc_ports::executor::{BoxLimits, Confinement, Exit, Mount, Source};
use orc_process::hands::{Use, Used};
use orc_process::protocol::{self, Answer, Call, CallLimits, Content, Outcome, Request, Tool};
use orc_process::sandbox::{BoxUser, BoxedCommand, Sandbox, SandboxSettings, Stdin, Stdout};
use serde_json::{Value, json};

fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.ancestors().nth(2).unwrap().join("examples/hands");
    assert!(program.is_file(), "{} is missing: build the examples of this crate", program.display());
    program
}

struct Talk {
    host: Option<Child>,
    answers: Box<dyn Read>,
    requests: Box<dyn Write>,
    next: u64,
    directory: tempfile::TempDir,
    /// What the host calls that.
    place: PathBuf,
    seen: BTreeMap<String, String>,
}

impl Talk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut host = Command::new(program());
        host.arg("tool-host")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env("ORC_TEMP", directory.path().join("temp"));
        let mut host = host.spawn().unwrap();
        let (answers, requests) = (host.stdout.take().unwrap(), host.stdin.take().unwrap());
        let place = directory.path().to_owned();
        let talk = Self::with(Box::new(answers), Box::new(requests), (directory, place));
        Self { host: Some(host), ..talk }
    }

    fn with(
        mut answers: Box<dyn Read>,
        requests: Box<dyn Write>,
        (directory, place): (tempfile::TempDir, PathBuf),
    ) -> Self {
        let Some(Answer::Hello { version, tools }) = protocol::read(&mut answers).unwrap() else { panic!("no hello") };
        assert_eq!(version, protocol::VERSION);
        let known =
            ["Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "Bash", "BashOutput", "KillShell", "WebFetch"];
        assert_eq!(tools, [&protocol::TOOLS[..], &known[..]].concat());
        Self { host: None, answers, requests, next: 0, directory, place, seen: BTreeMap::new() }
    }

    fn say(&mut self, request: &Request) {
        self.requests.write_all(&protocol::encode(request).unwrap()).unwrap();
    }

    fn call(&mut self, name: &str, input: Value, (deadline, bytes): (Option<u64>, u64)) -> u64 {
        self.next += 1;
        let (id, cwd) = (self.next, self.place.clone());
        let tool = Tool::Use(Use { name: name.to_owned(), input, seen: self.seen.clone(), without: Vec::new() });
        self.say(&Request::Call(Call { id, tool, cwd, deadline, limits: CallLimits { bytes } }));
        id
    }

    /// The next result, of whatever call.
    fn result(&mut self) -> (u64, Used) {
        loop {
            match protocol::read(&mut self.answers).unwrap().expect("the host ended") {
                Answer::Result { id, outcome: Outcome::Content(Content::Used(used)), .. } => {
                    self.seen.extend(used.seen.clone());
                    return (id, used);
                }
                Answer::Progress { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn lift(&mut self, name: &str, input: Value) -> Used {
        let id = self.call(name, input, (None, 0));
        let (answered, used) = self.result();
        assert_eq!(answered, id);
        used
    }

    fn end(mut self) {
        self.say(&Request::Bye);
        while protocol::read::<Answer>(&mut self.answers).unwrap().is_some() {}
        if let Some(mut host) = self.host {
            assert!(host.wait().unwrap().success());
        }
    }
}

fn is_alive(pid: &str) -> bool {
    PathBuf::from("/proc").join(pid).exists()
}

#[test]
fn files_are_read_changed_and_found_through_the_protocol() {
    let mut talk = Talk::new();
    std::fs::write(talk.directory.path().join("main.rs"), "fn main() {}\r\n").unwrap();
    let edit = json!({ "file_path": "main.rs", "old_string": "{}", "new_string": "{\n}" });
    let used = talk.lift("Edit", edit.clone());
    assert!(used.failed && used.text.contains("Read it first"), "{}", used.text);
    let used = talk.lift("Read", json!({ "file_path": "main.rs" }));
    assert_eq!(used.text, "[its lines end with CRLF]\n     1\tfn main() {}\n");
    assert!(!talk.lift("Edit", edit).failed);
    assert_eq!(std::fs::read(talk.directory.path().join("main.rs")).unwrap(), b"fn main() {\r\n}\r\n");
    assert_eq!(talk.lift("Grep", json!({ "pattern": "main" })).text, "main.rs\n");
    assert_eq!(talk.lift("Glob", json!({ "pattern": "*.rs" })).text, "main.rs\n");
    let used = talk.lift("Sing", json!({}));
    assert!(used.failed && used.text.starts_with("There is no tool `Sing`."), "{}", used.text);
    // The bound of the call holds.
    std::fs::write(talk.directory.path().join("long"), "0123456789\n".repeat(10_000)).unwrap();
    talk.call("Read", json!({ "file_path": "long" }), (None, 500));
    let (_, used) = talk.result();
    assert!(used.text.len() <= 500 && used.text.contains("the next is offset"), "{}", used.text);
    talk.end();
}

#[test]
fn what_hangs_is_ended_by_time_or_when_asked_and_tells_how_far_it_is() {
    let mut talk = Talk::new();
    talk.call("Bash", json!({ "command": "exec sleep 1000" }), (Some(500), 0));
    let (_, used) = talk.result();
    assert!(used.failed && used.text.contains("which is all the time it had"), "{}", used.text);
    // It says itself how far it is; then it is cancelled, and others are not.
    let slow = talk.call("Bash", json!({ "command": "echo $$; exec sleep 1000" }), (None, 0));
    let pid = loop {
        match protocol::read(&mut talk.answers).unwrap() {
            Some(Answer::Progress { id, text: Some(text) }) if id == slow => {
                let pid = text.split(": ").nth(1).unwrap_or_default();
                if !pid.is_empty() {
                    break pid.to_owned();
                }
            }
            other => panic!("{other:?}"),
        }
    };
    let quick = talk.call("Bash", json!({ "command": "echo quick" }), (None, 0));
    let (id, used) = talk.result();
    assert_eq!((id, used.text.as_str()), (quick, "quick\n"));
    assert!(is_alive(&pid));
    talk.say(&Request::Cancel { id: slow });
    let (id, used) = talk.result();
    assert!(
        id == slow && used.failed && used.text.ends_with("[cancelled; what it started was ended too]"),
        "{}",
        used.text
    );
    assert!(!is_alive(&pid));
    talk.end();
}

#[test]
fn shells_in_the_background_outlive_their_call_and_end_with_the_host() {
    let mut talk = Talk::new();
    let command = "mkfifo gate; echo $$ > gate; exec sleep 1000";
    let used = talk.lift("Bash", json!({ "command": command, "run_in_background": true }));
    assert_eq!((used.failed, used.shells), (false, 1), "{}", used.text);
    let used = talk.lift("Bash", json!({ "command": "until test -p gate; do :; done; cat gate" }));
    assert_eq!((used.failed, used.shells), (false, 1), "{}", used.text);
    let pid = used.text.trim().to_owned();
    // Those that lost their parents are collected after each call; this one has a parent.
    assert!(is_alive(&pid));
    assert_eq!(talk.lift("BashOutput", json!({ "bash_id": "1" })).text, "[nothing new; it runs]");
    talk.end();
    assert!(!is_alive(&pid));
}

#[test]
fn two_hundred_megabytes_of_output_are_a_short_result() {
    let mut talk = Talk::new();
    let used = talk.lift("Bash", json!({ "command": "head -c 209715200 /dev/zero | tr '\\0' 'a'" }));
    assert!(!used.failed && used.text.len() <= 30_000, "{}", used.text.len());
    assert_eq!(std::fs::metadata(used.file.unwrap()).unwrap().len(), 209_715_200);
    let status = std::fs::read_to_string(format!("/proc/{}/status", talk.host.as_ref().unwrap().id())).unwrap();
    let most = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = most.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 64 * 1_024, "{most}");
    talk.end();
}

#[test]
fn behind_the_walls_of_a_box_all_of_them_work_and_none_gets_out() {
    let directory = tempfile::tempdir().unwrap();
    let user = Some(BoxUser { uid: 65534, gid: 65534 });
    let sandbox = Sandbox::probe(&SandboxSettings { user, executable: program() }).expect("these tests need boxes");
    let BoxUser { uid, gid } = sandbox.user();
    std::os::unix::fs::chown(directory.path(), Some(uid), Some(gid)).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", directory.path().join("away")).unwrap();
    let confinement = Confinement {
        mounts: vec![Mount {
            source: Source::Path(directory.path().to_owned()),
            at: "/workspace".into(),
            writable: true,
        }],
        home: PathBuf::new(),
        masked: Vec::new(),
        network: BTreeSet::new(),
        doors: Vec::new(),
        limits: BoxLimits { processes: 64, memory_bytes: 4 << 30, disk_bytes: 64 << 20, open_files: 256 },
    };
    let (requests_out, requests) = std::io::pipe().unwrap();
    let (answers, answers_in) = std::io::pipe().unwrap();
    let env =
        [("PATH", "/usr/bin:/bin"), ("ORC_TEMP", "/tmp/kept")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let boxed = std::thread::spawn(move || {
        sandbox.run(BoxedCommand {
            confinement: &confinement,
            argv: &["/orc/orchestrator", "tool-host"].map(str::to_owned),
            env: &env.into(),
            directory: Path::new("/workspace"),
            stdin: Stdin::From(OwnedFd::from(requests_out)),
            stdout: Stdout::To(OwnedFd::from(answers_in)),
            wall: Duration::from_secs(120),
        })
    });
    let mut talk = Talk::with(Box::new(answers), Box::new(requests), (directory, "/workspace".into()));
    let rows = [
        ("Write", json!({ "file_path": "a/b.rs", "content": "fn one() {}\n" }), "Made `a/b.rs`: 1 lines"),
        (
            "Edit",
            json!({ "file_path": "/workspace/a/b.rs", "old_string": "one", "new_string": "two" }),
            "Changed `a/b.rs`",
        ),
        ("Read", json!({ "file_path": "a/b.rs" }), "     1\tfn two() {}\n"),
        ("Grep", json!({ "pattern": "two", "output_mode": "content" }), "a/b.rs:1:fn two() {}\n"),
        ("Glob", json!({ "pattern": "**/*.rs" }), "a/b.rs\n"),
        ("Bash", json!({ "command": "cat a/b.rs; id -u" }), "fn two() {}\n"),
        ("Bash", json!({ "command": "sleep 1000", "run_in_background": true }), "Runs in the background as `1`"),
        ("BashOutput", json!({ "bash_id": "1" }), "[nothing new; it runs]"),
        ("KillShell", json!({ "shell_id": "1" }), "Ended shell `1`."),
        ("Bash", json!({ "command": "seq 1 100000" }), "1\n2\n"),
        ("Read", json!({ "file_path": "/tmp/kept/output-2.txt", "limit": 1 }), "     1\t1\n"),
        ("WebFetch", json!({ "url": "https://docs.test/" }), "There is no network here"),
        ("Write", json!({ "file_path": "/usr/x", "content": "" }), "`/usr/x` cannot be written"),
        ("Read", json!({ "file_path": "/srv/key" }), "There is no file `/srv/key`"),
        (
            "Read",
            json!({ "file_path": "away" }),
            "There is no file `/etc/hostname`. `away` is, or leads through, a link to it.",
        ),
    ];
    for (name, input, text) in rows {
        let used = talk.lift(name, input.clone());
        assert!(used.text.starts_with(text), "{name} {input}: {}", used.text);
    }
    talk.end();
    assert_eq!(boxed.join().unwrap().unwrap().exit, Exit::Code(0));
}
