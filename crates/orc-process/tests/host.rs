//! Conversations with a tool host: one that runs as we do, and one behind the walls of a box.

#![expect(clippy::disallowed_methods, reason = "tests start processes of their own and read the clock")]
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
use orc_process::protocol::{
    self, Answer, Blame, Bytes, Call, CallLimits, Content, Ended, Failure, Outcome, PathKind, Request, Spawn, Streams,
    Tool,
};
use orc_process::sandbox::{BoxUser, BoxedCommand, Sandbox, SandboxSettings, Stdin, Stdout};

fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.ancestors().nth(2).unwrap().join("examples/boxed");
    assert!(path.is_file(), "{} is missing: build the examples of this crate", path.display());
    path
}

/// The end of whoever asks.
struct Talk<R, W> {
    answers: R,
    requests: W,
    next: u64,
    directory: PathBuf,
}

impl<R: Read, W: Write> Talk<R, W> {
    fn new(answers: R, requests: W, directory: &Path) -> Self {
        let mut talk = Self { answers, requests, next: 0, directory: directory.to_owned() };
        assert!(matches!(talk.hear(), Some(Answer::Hello { version: protocol::VERSION, .. })));
        talk
    }

    fn say(&mut self, request: &Request) {
        self.requests.write_all(&protocol::encode(request).unwrap()).unwrap();
    }

    fn hear(&mut self) -> Option<Answer> {
        protocol::read(&mut self.answers).unwrap()
    }

    fn call(&mut self, tool: Tool, deadline: Option<u64>, bytes: u64) -> u64 {
        self.next += 1;
        let (id, cwd) = (self.next, self.directory.clone());
        self.say(&Request::Call(Call { id, tool, cwd, deadline, limits: CallLimits { bytes } }));
        id
    }

    fn result(&mut self, wanted: u64) -> Outcome {
        loop {
            match self.hear().expect("the host ended") {
                Answer::Result { id, outcome, .. } if id == wanted => return outcome,
                Answer::Progress { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn wait_for_start(&mut self, id: u64) {
        assert_eq!(self.hear(), Some(Answer::Progress { id, text: None }));
    }

    fn sh(&mut self, script: &str) -> (Ended, String, String) {
        let id = self.call(sh(script), None, 0);
        ended(self.result(id))
    }
}

fn sh(script: &str) -> Tool {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    Tool::Spawn(Spawn { argv, env, streams: Streams::Captured { stdin: Bytes(b"from stdin".to_vec()) } })
}

fn ended(outcome: Outcome) -> (Ended, String, String) {
    let Outcome::Content(Content::Ended { exit, stdout, stderr, .. }) = outcome else { panic!("{outcome:?}") };
    (exit, String::from_utf8(stdout.0).unwrap(), String::from_utf8(stderr.0).unwrap())
}

fn blamed(outcome: Outcome) -> Blame {
    let Outcome::Failed(Failure { what, .. }) = outcome else { panic!("{outcome:?}") };
    what
}

/// Everything that a host can do, whatever it runs in.
fn converse<R: Read, W: Write>(talk: &mut Talk<R, W>) {
    let said = talk.sh("cat; echo to stderr >&2; exit 3");
    assert_eq!(said, (Ended::Code(3), "from stdin".to_owned(), "to stderr\n".to_owned()));

    // Files, and bytes that are no text.
    let bytes = Bytes(vec![0, 255, b'"', 10]);
    let id = talk.call(Tool::Write { path: "file".into(), bytes: bytes.clone() }, None, 0);
    assert_eq!(talk.result(id), Outcome::Content(Content::Written));
    let id = talk.call(Tool::Read { path: "file".into() }, None, 0);
    assert_eq!(talk.result(id), Outcome::File(bytes));
    let id = talk.call(Tool::Read { path: "file".into() }, None, 3);
    assert_eq!(blamed(talk.result(id)), Blame::File);
    talk.sh("ln -s file link");
    let paths = vec![talk.directory.join("link"), talk.directory.join("new/file")];
    talk.say(&Request::Stat { id: 1000, paths });
    let Outcome::Content(Content::Paths(facts)) = talk.result(1000) else { panic!("no facts") };
    assert_eq!((facts[0].canonical.clone(), facts[0].kind), (talk.directory.join("file"), Some(PathKind::File)));
    assert_eq!((facts[0].bytes, facts[1].kind), (4, None));

    // Ends: asked, asked twice, too late, and what stays behind.
    let id = talk.call(sh("exec sleep 1000"), None, 0);
    talk.wait_for_start(id);
    talk.say(&Request::Cancel { id });
    assert_eq!(ended(talk.result(id)).0, Ended::Signal(15));
    talk.sh("mkfifo gate");
    let id = talk.call(sh("trap '' TERM; echo deaf > gate; while :; do sleep 1000; done"), None, 0);
    // Before that it hears.
    assert_eq!(talk.sh("read how < gate; echo $how").1, "deaf\n");
    talk.say(&Request::Cancel { id });
    talk.say(&Request::Cancel { id });
    assert_eq!(ended(talk.result(id)).0, Ended::Signal(9));
    let id = talk.call(sh("echo before; sleep 1000"), Some(300), 0);
    assert_eq!(ended(talk.result(id)).0, Ended::Signal(9));
    let (exit, out, _) = talk.sh("sleep 1000 & setsid sleep 1001 & echo $!");
    assert_eq!((exit, out.trim().parse::<i32>().is_ok()), (Ended::Code(0), true));

    // Bounds.
    let id = talk.call(sh("head -c 1000000 /dev/zero; head -c 9 /dev/zero >&2"), None, 1000);
    let Outcome::Content(Content::Ended { stdout, stderr, dropped, .. }) = talk.result(id) else { panic!("no end") };
    assert_eq!((stdout.0.len(), stderr.0.len(), dropped), (1000, 9, 999_000));
    let id = talk.call(sh("head -c 20000000 /dev/zero | tee /dev/stderr"), None, 0);
    let Outcome::Content(Content::Ended { stdout, stderr, .. }) = talk.result(id) else { panic!("no end") };
    let most = protocol::MAX_STREAM_BYTES;
    assert_eq!((stdout.0.len(), stderr.0.len()), (most, most), "what fits into a frame");

    // What cannot be done fails alone, and at once while others run.
    let slow = talk.call(sh("exec sleep 1000"), None, 0);
    talk.wait_for_start(slow);
    for (argv, streams, what) in [
        ("no-such-program", Streams::Captured { stdin: Bytes::default() }, Blame::Program),
        ("true", Streams::Inherited, Blame::Call),
    ] {
        let spawn = Spawn { argv: vec![argv.to_owned()], env: BTreeMap::new(), streams };
        let id = talk.call(Tool::Spawn(spawn), None, 0);
        assert_eq!(blamed(talk.result(id)), what);
    }
    talk.next = slow - 1;
    let again = talk.call(sh("true"), None, 0);
    assert_eq!((again, blamed(talk.result(again))), (slow, Blame::Call));
    talk.next += 10;
    let directory = std::mem::replace(&mut talk.directory, "/no/such/directory".into());
    let id = talk.call(sh("true"), None, 0);
    assert_eq!(blamed(talk.result(id)), Blame::Directory);
    talk.directory = directory;
}

fn start() -> Child {
    let mut command = Command::new(program());
    command.arg("tool-host").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[test]
fn as_we_are() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().canonicalize().unwrap();
    let mut host = start();
    let mut talk = Talk::new(host.stdout.take().unwrap(), host.stdin.take().unwrap(), &place);
    converse(&mut talk);
    // It says itself that it left: until then it is of the group, and ends with it.
    let (_, pid, _) = talk.sh("mkfifo left; setsid sh -c 'echo $$ > left; exec sleep 1000' >/dev/null 2>&1 & cat left");
    assert!(is_alive(pid.trim()), "what left its group stays while the host does");
    talk.say(&Request::Bye);
    // The slow call of before is ended too.
    while talk.hear().is_some() {}
    assert!(host.wait().unwrap().success());
    assert!(!is_alive(pid.trim()), "with the host everything is ended");
}

#[test]
fn tools_that_were_brought_are_used_and_may_break() {
    let mut host = start();
    let mut talk = Talk::new(host.stdout.take().unwrap(), host.stdin.take().unwrap(), Path::new("/"));
    let wanted = |name: &str| {
        Tool::Use(Use {
            name: name.to_owned(),
            input: serde_json::Value::Null,
            seen: BTreeMap::new(),
            without: Vec::new(),
        })
    };
    for (bytes, text) in [(0, "0123456789"), (4, "0123")] {
        let id = talk.call(wanted("Drop"), None, bytes);
        assert_eq!(talk.hear(), Some(Answer::Progress { id, text: Some("slipping".to_owned()) }));
        let used = Used { text: text.to_owned(), ..Used::default() };
        assert_eq!(talk.result(id), Outcome::Content(Content::Used(used)));
    }
    let id = talk.call(wanted("Throw"), None, 0);
    let Outcome::Content(Content::Used(used)) = talk.result(id) else { panic!("it was not used") };
    assert!(used.failed && used.text.starts_with("`Throw` broke down"), "{}", used.text);
    assert_eq!(talk.sh("echo on it goes").1, "on it goes\n");
    talk.say(&Request::Bye);
    while talk.hear().is_some() {}
    assert!(host.wait().unwrap().success());
}

#[test]
fn what_is_no_frame_ends_it() {
    let torn = [0, 0, 0, 9, b'{'];
    let rows: [(&[u8], &str); 3] = [
        (&[0xff; 4], "at most 16777216 are allowed"),
        (&[0, 0, 0, 2, b'{', b'}'], "cannot be read"),
        (&torn, "in the middle of a frame"),
    ];
    for (bytes, why) in rows {
        let mut host = start();
        let mut talk = Talk::new(host.stdout.take().unwrap(), host.stdin.take().unwrap(), Path::new("/"));
        let slow = talk.call(sh("exec sleep 1000"), None, 0);
        talk.wait_for_start(slow);
        talk.requests.write_all(bytes).unwrap();
        let Talk { mut answers, requests, .. } = talk;
        drop(requests);
        let mut last = None;
        while let Some(answer) = protocol::read::<Answer>(&mut answers).unwrap() {
            last = Some(answer);
        }
        assert!(matches!(&last, Some(Answer::Error { message }) if message.contains(why)), "{last:?}");
        assert!(!host.wait().unwrap().success());
    }
}

#[test]
fn behind_the_walls_of_a_box() {
    let directory = tempfile::tempdir().unwrap();
    let user = Some(BoxUser { uid: 65534, gid: 65534 });
    let sandbox = Sandbox::probe(&SandboxSettings { user, executable: program() }).expect("these tests need boxes");
    let BoxUser { uid, gid } = sandbox.user();
    std::os::unix::fs::chown(directory.path(), Some(uid), Some(gid)).unwrap();
    let copy = Source::Path(directory.path().to_owned());
    let confinement = Confinement {
        mounts: vec![Mount { source: copy, at: "/workspace".into(), writable: true }],
        home: PathBuf::new(),
        masked: Vec::new(),
        network: BTreeSet::new(),
        doors: Vec::new(),
        limits: BoxLimits { processes: 64, memory_bytes: 4 << 30, disk_bytes: 64 << 20, open_files: 256 },
    };
    let (requests_out, requests) = std::io::pipe().unwrap();
    let (answers, answers_in) = std::io::pipe().unwrap();
    let boxed = std::thread::spawn(move || {
        sandbox.run(BoxedCommand {
            confinement: &confinement,
            argv: &["/orc/orchestrator", "tool-host"].map(str::to_owned),
            env: &BTreeMap::new(),
            directory: Path::new("/workspace"),
            stdin: Stdin::From(OwnedFd::from(requests_out)),
            stdout: Stdout::To(OwnedFd::from(answers_in)),
            wall: Duration::from_secs(120),
        })
    });
    let mut talk = Talk::new(answers, requests, Path::new("/workspace"));
    converse(&mut talk);
    let (exit, out, error) = talk.sh("grep Seccomp: /proc/self/status; unshare -r true; echo x > /usr/x");
    assert_eq!((exit, out.as_str()), (Ended::Code(2), "Seccomp:\t2\n"));
    assert!(error.contains("Operation not permitted"), "{error}");
    talk.say(&Request::Bye);
    while talk.hear().is_some() {}
    assert_eq!(boxed.join().unwrap().unwrap().exit, Exit::Code(0));
}
