//! Conversations with a real tool host that has the tools of the built-in agent.

#![expect(clippy::disallowed_methods, reason = "tests start processes of their own")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use orc_process::hands::{Use, Used};
use orc_process::protocol::{self, Answer, Call, CallLimits, Content, Outcome, Request, Tool};
use serde_json::{Value, json};

struct Talk {
    host: Child,
    answers: ChildStdout,
    requests: ChildStdin,
    next: u64,
    directory: tempfile::TempDir,
    seen: BTreeMap<String, String>,
}

impl Talk {
    fn new() -> Self {
        let own = std::env::current_exe().unwrap();
        let program = own.ancestors().nth(2).unwrap().join("examples/hands");
        assert!(program.is_file(), "{} is missing: build the examples of this crate", program.display());
        let directory = tempfile::tempdir().unwrap();
        let mut host = Command::new(program);
        host.arg("tool-host")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env("ORC_TEMP", directory.path().join("temp"));
        let mut host = host.spawn().unwrap();
        let (mut answers, requests) = (host.stdout.take().unwrap(), host.stdin.take().unwrap());
        let Some(Answer::Hello { version, tools }) = protocol::read(&mut answers).unwrap() else { panic!("no hello") };
        assert_eq!(version, protocol::VERSION);
        let known =
            ["Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "Bash", "BashOutput", "KillShell", "WebFetch"];
        assert_eq!(tools, [&protocol::TOOLS[..], &known[..]].concat());
        Self { host, answers, requests, next: 0, directory, seen: BTreeMap::new() }
    }

    fn say(&mut self, request: &Request) {
        self.requests.write_all(&protocol::encode(request).unwrap()).unwrap();
    }

    fn call(&mut self, name: &str, input: Value, (deadline, bytes): (Option<u64>, u64)) -> u64 {
        self.next += 1;
        let (id, cwd) = (self.next, self.directory.path().to_owned());
        let tool = Tool::Use(Use { name: name.to_owned(), input, seen: self.seen.clone() });
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
        assert!(self.host.wait().unwrap().success());
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
    let status = std::fs::read_to_string(format!("/proc/{}/status", talk.host.id())).unwrap();
    let most = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = most.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 64 * 1_024, "{most}");
    talk.end();
}
