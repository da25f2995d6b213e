//! An executor with its reports, scripts to run on it, and signs that the scripts give.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use orc_domain::ids::{InstanceId, RunId};
use orc_domain::run::Process;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock;
use orc_ports::executor::{Executor, Launch, Limits, Report, Secrets};
use orc_ports::log::{LogKind, LogLine};
use orc_process::ProcessExecutor;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Longer than anything here takes on a loaded machine; only a failing test gets there.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span.as_std()))
    }
}

pub(crate) struct Fixture {
    pub(crate) executor: ProcessExecutor,
    pub(crate) instance: InstanceId,
    pub(crate) directory: TempDir,
    reports: mpsc::UnboundedReceiver<Report>,
}

/// A named pipe through which scripts say something, a line at a time: `$SIGN`.
pub(crate) struct Sign(BufReader<pipe::Receiver>);

impl Sign {
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        within(self.0.read_line(&mut line)).await.unwrap();
        line.trim().to_owned()
    }

    pub(crate) async fn pid(&mut self) -> i32 {
        self.line().await.parse().unwrap()
    }
}

pub(crate) fn instance() -> InstanceId {
    InstanceId::from_uuid(Uuid::now_v7())
}

pub(crate) fn run() -> RunId {
    RunId::from_uuid(Uuid::now_v7())
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        let instance = instance();
        let report = Arc::new(move |report| drop(sender.send(report)));
        let executor = ProcessExecutor::new(instance, Arc::new(SystemClock), report).unwrap();
        Self { executor, instance, directory: tempfile::tempdir().unwrap(), reports }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn sign(&self) -> Sign {
        let path = self.path("sign");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        // Opened for both, so that it does not end when one script closes it.
        Sign(BufReader::new(pipe::OpenOptions::new().read_write(true).open_receiver(path).unwrap()))
    }

    /// `sh -c SCRIPT` in the directory of the test.
    pub(crate) fn launch(&self, script: &str) -> Launch {
        let run = run();
        let env = [("PATH", "/usr/bin:/bin".to_owned()), ("SIGN", self.path("sign").display().to_string())];
        Launch {
            run,
            argv: ["sh", "-c", script].map(str::to_owned).into(),
            directory: self.directory.path().to_owned(),
            env: BTreeMap::from(env.map(|(name, value)| (name.to_owned(), value))),
            log: self.path(&format!("logs/{run}.jsonl")),
            output: self.path(&format!("outputs/{run}")),
            temp: self.path(&format!("temp/{run}")),
            limits: Limits { log_bytes: 1024 * 1024, output_bytes: 1024 },
            stdin: None,
            tap: None,
            host: None,
            confinement: None,
            secrets: Secrets::default(),
        }
    }

    pub(crate) async fn start(&self, launch: &Launch) -> Process {
        self.executor.start(launch.clone()).await.unwrap()
    }

    pub(crate) async fn report(&mut self) -> Report {
        within(self.reports.recv()).await.expect("the executor ended without a report")
    }

    /// True when no further report came, once the executor is closed.
    pub(crate) async fn says_no_more(mut self) -> bool {
        self.executor.close().await;
        drop(self.executor);
        within(self.reports.recv()).await.is_none()
    }

    /// Drops the executor and hands over what it will still report.
    pub(crate) fn drop_executor(self) -> (TempDir, mpsc::UnboundedReceiver<Report>) {
        (self.directory, self.reports)
    }

    pub(crate) async fn finish(&mut self, launch: &Launch) -> Report {
        self.start(launch).await;
        let report = self.report().await;
        assert_eq!(report.run, launch.run);
        report
    }

    pub(crate) async fn run(&mut self, script: &str) -> (Report, Vec<LogLine>) {
        let launch = self.launch(script);
        let report = self.finish(&launch).await;
        let lines = log_of(&launch);
        assert_eq!(report.log_error, None);
        (report, lines)
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("took too long")
}

/// Looks until it is so; every look yields to the rest of the program.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    within(async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

pub(crate) fn log_of(launch: &Launch) -> Vec<LogLine> {
    let text = std::fs::read_to_string(&launch.log).unwrap_or_default();
    let lines: Vec<LogLine> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().zip(1..).all(|(line, seq)| line.seq == seq), "lines are counted from 1");
    lines
}

pub(crate) fn texts(lines: &[LogLine], kind: LogKind) -> Vec<&str> {
    lines.iter().filter(|line| line.kind == kind).map(|line| line.text.as_deref().unwrap_or("(bytes)")).collect()
}

/// Whether a process can still act; one that is only to be reaped cannot.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
}

/// Processes that lost their parent and are not reaped.
pub(crate) fn orphans() -> String {
    let pid = std::process::id();
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
}
