//! What every test through the binary needs: a place of its own and an emptied environment.
#![allow(dead_code, reason = "each test target uses a part of it")]
#![expect(clippy::disallowed_methods, reason = "these tests start the program as a user does")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a world that cannot be made fails its test")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// A repository and a data directory of a test's own.
pub(crate) struct World {
    dir: tempfile::TempDir,
}

/// What a command said and how it ended.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("repo/pipelines")).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Writes a file into the repository.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.repo().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes `pipelines/NAME.yaml`, with the key that every pipeline must have until private worktrees exist.
    pub(crate) fn pipeline(&self, name: &str, text: &str) -> PathBuf {
        self.write(&format!("pipelines/{name}.yaml"), &format!("name: {name}\nworktree: in_place\n{text}"))
    }

    /// Makes it a git repository if it is none, and commits everything in it.
    pub(crate) fn commit(&self) {
        if !self.repo().join(".git").exists() {
            git(&self.repo(), &["init", "-q", "-b", "main"]);
        }
        git(&self.repo(), &["add", "."]);
        git(&self.repo(), &["commit", "-q", "--allow-empty", "-m", "all of it"]);
    }

    /// The program with these arguments, in the repository, with nothing of the caller's environment but `PATH`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orchestrator"));
        command.args(args).current_dir(self.repo()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.dir.path().join("home")).env("ORC_DATA", self.data());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        said(&self.command(args).output().unwrap())
    }

    /// Runs it, and fails the test with everything it said unless it ends with `code`.
    pub(crate) fn run_to(&self, code: i32, args: &[&str]) -> Said {
        let said = self.run(args);
        assert_eq!(said.code, Some(code), "{args:?}\n--- stdout\n{}\n--- stderr\n{}", said.out, said.err);
        said
    }

    /// Starts the program and leaves it running.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running { child: Some(self.command(args).spawn().unwrap()) }
    }

    /// Starts the program and lets it write to a file, so that a test sees what it said so far.
    pub(crate) fn start_into(&self, file: &Path, args: &[&str]) -> Running {
        let out = File::create(file).unwrap();
        Running { child: Some(self.command(args).stdout(out).spawn().unwrap()) }
    }

    /// The newest flow of a pipeline.
    pub(crate) fn flow_of(&self, pipeline: &str) -> Option<String> {
        let said = self.run(&["flows", "list", "--limit", "100", "--output", "json"]);
        let document: Value = serde_json::from_str(&said.out).ok()?;
        let found = document["flows"].as_array()?.iter().find(|flow| flow["pipeline"] == pipeline)?;
        Some(found["id"].as_str()?.to_owned())
    }

    /// The steps of a flow by their paths.
    pub(crate) fn steps(&self, flow: &str) -> BTreeMap<String, Value> {
        let document = self.json(&["flows", "show", flow]);
        let steps = document["steps"].as_array().unwrap().iter();
        steps.map(|step| (step["path"].as_str().unwrap().to_owned(), step.clone())).collect()
    }

    /// How each step of a flow ended, or its state while it has not.
    pub(crate) fn ends(&self, flow: &str) -> BTreeMap<String, String> {
        let word = |step: &Value| {
            let word = if step["outcome"].is_null() { &step["state"] } else { &step["outcome"] };
            word.as_str().unwrap().to_owned()
        };
        self.steps(flow).into_iter().map(|(path, step)| (path, word(&step))).collect()
    }

    /// How a flow ended; its state while it has not.
    pub(crate) fn outcome(&self, flow: &str) -> String {
        let flow = self.json(&["flows", "show", flow]);
        let word = if flow["outcome"].is_null() { &flow["state"] } else { &flow["outcome"] };
        word.as_str().unwrap().to_owned()
    }

    /// A JSON document of the program.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.extend(["--output", "json"]);
        let said = self.run(&args);
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{args:?}: {error}\n{}\n{}", said.out, said.err))
    }
}

/// What git prints; a user's own configuration has no say.
pub(crate) fn git(directory: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(args).current_dir(directory);
    let output = as_ann(&mut command).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A command whose git commits as somebody.
pub(crate) fn as_ann(command: &mut Command) -> &mut Command {
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ann").env(format!("GIT_{who}_EMAIL"), "ann@example.org");
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1")
}

pub(crate) fn said(output: &Output) -> Said {
    Said {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The program, running; killed when the test ends.
pub(crate) struct Running {
    child: Option<Child>,
}

impl Running {
    /// A program that a test started by itself.
    pub(crate) fn of(child: Child) -> Self {
        Self { child: Some(child) }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.as_ref().unwrap().id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// Waits for the end, at most two minutes.
    pub(crate) fn wait(mut self) -> Said {
        let child = self.child.take().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let (done, expired) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::Builder::new().spawn(move || {
            if expired.recv_timeout(Duration::from_secs(120)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        });
        let said = said(&child.wait_with_output().unwrap());
        drop(done);
        watchdog.unwrap().join().unwrap();
        said
    }
}

impl Drop for Running {
    /// Only a test that failed comes here: what it started must not outlive it.
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let pid = rustix::process::Pid::from_child(&child);
        // The second signal ends every run at once; only then is nothing left behind.
        for _ in 0..2 {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            std::thread::park_timeout(Duration::from_millis(300));
        }
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while matches!(child.try_wait(), Ok(None)) && std::time::Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Waits until a condition holds, looking often; fails the test after two minutes, which a busy machine may need for what
/// takes seconds. The thing waited for happens in another process, so there is nothing to be woken by.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "did not happen in two minutes: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Lines of a file, none if it is missing.
pub(crate) fn lines(path: impl AsRef<Path>) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Whether a process runs. One that has ended and that nobody has waited for yet does not.
pub(crate) fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A pipe on which steps wait. Held open by the test, so that what is written waits for its reader.
pub(crate) struct Gate(File);

impl Gate {
    pub(crate) fn new(world: &World) -> Self {
        Self::named(world, "gate")
    }

    /// A further one, by the name of its file in the repository.
    pub(crate) fn named(world: &World, name: &str) -> Self {
        let path = world.repo().join(name);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        Self(File::options().read(true).write(true).open(path).unwrap())
    }

    pub(crate) fn open(&mut self) {
        self.0.write_all(b"go\n").unwrap();
    }
}

/// Starts a pipeline whose first step waits at the gate, and waits until it does.
pub(crate) fn start_held(world: &World, args: &[&str]) -> Running {
    let before = lines(world.repo().join("started")).len();
    let running = world.start(args);
    until("the step runs", || lines(world.repo().join("started")).len() > before);
    until("its process is written down", || {
        let runs = world.json(&["runs", "list"]);
        runs["runs"].as_array().unwrap().iter().any(|run| run["state"] == "running")
    });
    running
}
