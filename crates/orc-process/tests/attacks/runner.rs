//! Makes a box for an attempt, runs it to its end, and judges what is seen inside, in the report, and outside.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orc_domain::ids::{InstanceId, RunId};
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock;
use orc_ports::executor::{Confinement, Executor as _, Exit, Launch, Limits, Report, Secrets, Stream, Tap};
use orc_process::ProcessExecutor;
use orc_process::sandbox::{LimitKind, Sandbox, SandboxSettings};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::attempt::{self, Attempt, End};
use crate::world::{BOX_USER, Place, World};

/// An ordinary user, whom no machine has.
const ORDINARY: u32 = 61_234;
/// Longer than any attempt may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The program around and inside of boxes.
const PROGRAM: &str = "boxed";

pub(crate) struct Runner {
    pub(crate) world: World,
    pub(crate) executor: ProcessExecutor,
    reports: mpsc::UnboundedReceiver<Report>,
    wrong: Vec<String>,
    count: usize,
    /// Limits hold for all of a box together.
    together: bool,
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
    }

    fn sleep(&self, span: Millis) -> futures_util::future::BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span.as_std()))
    }
}

/// Runs a test as root; who is not root has to become it.
pub(crate) fn check_as_root(test: impl AsyncFnOnce(&mut Runner)) {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test starts boxes as root does: run it with sudo, or in a container"
    );
    run(test);
}

/// Runs a test as an ordinary user: as root, by starting itself again.
pub(crate) fn check_as_ordinary_user(name: &str, test: impl AsyncFnOnce(&mut Runner)) {
    if !rustix::process::geteuid().is_root() {
        return run(test);
    }
    // The directory of the build may be closed to others.
    let place = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let program = place.path().join("attacks");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::copy(box_program(), place.path().join(PROGRAM)).unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).uid(ORDINARY).gid(ORDINARY).current_dir("/");
    command.env_clear().env("PATH", "/usr/bin:/bin").env("RUST_BACKTRACE", "0");
    let output = command.output().unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    assert!(output.status.success() && said.contains("1 passed"), "as an ordinary user:\n{said}");
}

fn run(test: impl AsyncFnOnce(&mut Runner)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut runner = Runner::new();
        test(&mut runner).await;
        runner.executor.close().await;
        assert!(runner.wrong.is_empty(), "{} of {}:\n{}", runner.wrong.len(), runner.count, runner.wrong.join("\n"));
        assert!(runner.count > 0);
    });
}

/// Beside us when we were copied for somebody else, else where cargo builds examples.
fn box_program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let beside = own.with_file_name(PROGRAM);
    let built = own.parent().and_then(Path::parent).unwrap().join("examples").join(PROGRAM);
    let found = if beside.is_file() { beside } else { built };
    assert!(found.is_file(), "`{}` is missing: cargo build --package orc-process --example {PROGRAM}", found.display());
    found
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, future).await.ok()
}

impl Runner {
    fn new() -> Self {
        let world = World::new();
        let (sender, reports) = mpsc::unbounded_channel();
        let instance = InstanceId::from_uuid(Uuid::now_v7());
        let settings = SandboxSettings { user: Some(BOX_USER), executable: box_program() };
        let sandbox = Sandbox::probe(&settings).unwrap();
        let together = sandbox.limits() != LimitKind::EachProcess;
        let report = Arc::new(move |report| drop(sender.send(report)));
        let executor = ProcessExecutor::with_boxes(instance, Arc::new(SystemClock), report, Ok(sandbox)).unwrap();
        Self { world, executor, reports, wrong: Vec::new(), count: 0, together }
    }

    /// One more proof was given; `wrong` is what did not hold.
    pub(crate) fn proved(&mut self, name: &str, wrong: Vec<String>) {
        self.count += 1;
        self.wrong.extend(wrong.into_iter().map(|wrong| format!("- {name}: {wrong}")));
    }

    pub(crate) fn launch(&self, argv: Vec<String>, place: &Place, confinement: Option<Confinement>) -> Launch {
        let (work, reference) = match confinement {
            Some(_) => (attempt::WORK.into(), "/reference".into()),
            None => (place.path("copy"), place.path("reference")),
        };
        let mut env: BTreeMap<String, String> = self.world.known();
        env.insert("WORK".to_owned(), work.display().to_string());
        env.insert("REFERENCE".to_owned(), reference.display().to_string());
        if confinement.is_some() {
            env.insert("BOXED".to_owned(), "1".to_owned());
        } else {
            env.insert("HOME".to_owned(), place.path("home").display().to_string());
        }
        Launch {
            run: RunId::from_uuid(Uuid::now_v7()),
            argv,
            directory: work,
            confinement: confinement.map(Box::new),
            secrets: Secrets::default(),
            env,
            log: place.path("run/log.jsonl"),
            output: place.path("run/output"),
            temp: place.path("run/temp"),
            limits: Limits { log_bytes: 1 << 20, output_bytes: 1 << 16 },
            stdin: None,
            tap: None,
            host: None,
        }
    }

    /// Its report; none when it did not end in time, or did not start: then why.
    pub(crate) async fn finish(&mut self, launch: Launch) -> Result<Report, String> {
        let run = launch.run;
        if let Err(error) = self.executor.start(launch).await {
            return Err(format!("did not start: {error}"));
        }
        self.report(run).await
    }

    pub(crate) async fn report(&mut self, run: RunId) -> Result<Report, String> {
        if let Some(report) = within(self.reports.recv()).await {
            return report.ok_or_else(|| "the executor has ended".to_owned());
        }
        self.executor.stop(run, Millis::ZERO);
        let report = within(self.reports.recv()).await;
        Err(format!("did not end by itself; then {report:?}"))
    }

    /// Runs an attempt without a box, where it must succeed.
    pub(crate) async fn try_outside(&mut self, attempt: &Attempt) {
        let place = self.world.place(attempt.name);
        let before = self.world.files(&place);
        let launch = self.launch(attempt.argv(), &place, None);
        let (launch, said) = listen(launch);
        let ended = self.finish(launch).await;
        let said = said.text();
        let mut wrong = Vec::new();
        for refused in attempt.refused.iter().map(|line| what(line)) {
            if !said.lines().any(|line| line.starts_with(&format!("BREACH {refused}"))) {
                wrong.push(format!("{refused} is refused without a box too"));
            }
        }
        if !wrong.is_empty() {
            wrong.push(format!("{ended:?}, said\n{said}"));
        }
        let _ = self.world.knocks();
        self.world.restore(&before);
        self.proved(attempt.name, wrong);
    }

    /// Runs an attempt in a box, where it must fail.
    pub(crate) async fn try_inside(&mut self, attempt: &Attempt) {
        let place = self.world.place(attempt.name);
        let mut confinement = attempt::confinement(&place);
        (attempt.shape)(&mut confinement, &place);
        let before = self.world.files(&place);
        let mut launch = self.launch(attempt.argv(), &place, Some(confinement));
        launch.env.extend(attempt.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let (launch, heard) = listen(launch);
        let (run, log) = (launch.run, launch.log.clone());
        let ended = self.finish(launch).await;
        let said = heard.text();
        let mut wrong = Vec::new();
        match &ended {
            Err(error) if attempt.or_no_box && error.contains("cannot make the box: ") => {}
            Err(error) => wrong.push(error.clone()),
            Ok(report) => {
                judge_report(attempt, report, self.together, &mut wrong);
                judge_said(attempt, &said, &mut wrong);
            }
        }
        let log = fs::read_to_string(log).unwrap_or_default();
        if said.contains(&self.world.canary) || log.contains(&self.world.canary) {
            wrong.push("saw what it must not see".to_owned());
        }
        if log.len() > 3 << 20 {
            wrong.push(format!("its log has {} bytes", log.len()));
        }
        self.judge_outside(run, &place, &before, &mut wrong);
        if !wrong.is_empty() {
            wrong.push(format!("said\n{}", said.chars().take(4000).collect::<String>()));
        }
        self.proved(attempt.name, wrong);
    }

    fn judge_outside(&mut self, run: RunId, place: &Place, before: &crate::world::Files, wrong: &mut Vec<String>) {
        let after = self.world.files(place);
        for (path, file) in &after {
            if before.get(path) != Some(file) {
                wrong.push(format!("`{}` was changed or made", path.display()));
            }
        }
        wrong.extend(
            before.keys().filter(|path| !after.contains_key(*path)).map(|path| format!("`{}` is gone", path.display())),
        );
        wrong.extend(self.world.knocks().into_iter().map(|what| format!("was heard outside: {what}")));
        if !self.world.victim_lives() {
            wrong.push("a process outside was ended".to_owned());
        }
        let left = processes_of(run);
        if !left.is_empty() {
            wrong.push(format!("processes outlived it: {left:?}"));
        }
    }
}

fn judge_report(attempt: &Attempt, report: &Report, together: bool, wrong: &mut Vec<String>) {
    if attempt.end == End::Itself && report.exit != Exit::Code(0) {
        wrong.push(format!("ended with {:?}: {}", report.exit, report.last_line));
    }
    if !attempt.output.holds(&report.output) {
        wrong.push(format!("its output is {:?}", report.output));
    }
    if let Some(error) = &report.log_error {
        wrong.push(format!("its log: {error}"));
    }
    let matches = |(kind, text): &(_, &str), found: &orc_domain::confine::Violation| {
        *kind == found.kind && found.what.contains(text)
    };
    let seen = attempt.seen.iter().chain(attempt.seen_together.iter().filter(|_| together));
    for (kind, text) in seen {
        if !report.violations.iter().any(|found| matches(&(*kind, text), found)) {
            wrong.push(format!("no event tells of {kind:?} {text:?}"));
        }
    }
    for found in &report.violations {
        if !attempt.seen.iter().chain(attempt.seen_together).any(|expected| matches(expected, found)) {
            wrong.push(format!("an event tells of {found:?}"));
        }
        if found.count == 0 || found.what.is_empty() || found.what.contains('\n') || found.what.chars().count() > 200 {
            wrong.push(format!("an event is not as it should be: {found:?}"));
        }
    }
}

fn judge_said(attempt: &Attempt, said: &str, wrong: &mut Vec<String>) {
    // The loader of each program that is told to load what is not there says so: the shell's, and no other.
    let loaders = said.matches("from LD_PRELOAD cannot be preloaded").count();
    if loaders != usize::from(attempt.env.iter().any(|(name, _)| *name == "LD_PRELOAD")) {
        wrong.push(format!("{loaders} programs heard of LD_PRELOAD"));
    }
    wrong.extend(said.lines().filter(|line| line.starts_with("BREACH")).map(str::to_owned));
    for expected in attempt.refused {
        let (start, whys) = (format!("refused {}: ", what(expected)), &expected[what(expected).len() + 2..]);
        let line = said.lines().find_map(|line| line.strip_prefix(&start));
        if !line.is_some_and(|line| whys.split('|').any(|why| line.contains(why))) {
            wrong.push(format!("`{}` was not refused as expected ({whys}) but {line:?}", what(expected)));
        }
    }
}

/// What is refused, of `WHAT: WHY|WHY`.
fn what(line: &str) -> &str {
    line.rsplit_once(": ").map_or(line, |(what, _)| what)
}

/// Everything that a program says: what it prints, then its errors, which come in no order that means anything.
pub(crate) struct Heard(Arc<Mutex<[Vec<u8>; 2]>>);

impl Heard {
    pub(crate) fn text(&self) -> String {
        let streams = self.0.lock().unwrap();
        format!("{}\n{}", String::from_utf8_lossy(&streams[0]), String::from_utf8_lossy(&streams[1]))
    }
}

/// The most that is kept of what a program says on one stream.
const HEARD: usize = 1 << 20;

fn listen(mut launch: Launch) -> (Launch, Heard) {
    let heard: Arc<Mutex<[Vec<u8>; 2]>> = Arc::default();
    let into = Arc::clone(&heard);
    launch.tap = Some(Tap::new(move |stream, bytes, _| {
        let mut heard = into.lock().unwrap();
        let heard = &mut heard[usize::from(stream == Stream::Stderr)];
        let room = HEARD.saturating_sub(heard.len()).min(bytes.len());
        heard.extend_from_slice(&bytes[..room]);
    }));
    (launch, Heard(heard))
}

/// Processes of the machine whose environment names the run.
fn processes_of(run: RunId) -> Vec<String> {
    let mark = format!("ORC_RUN_ID={run}");
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_of = |path: &PathBuf| {
        fs::read(path.join("environ"))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|name| name == mark.as_bytes()))
    };
    entries.filter(is_of).map(|path| path.display().to_string()).collect()
}
