//! Programs and the kernel, tried in the way that steps are run.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orc_domain::ids::{InstanceId, RunId};
use orc_domain::time::Millis;
use orc_ports::executor::{Executor as _, Exit, Launch, Limits, Report, Secrets};
use orc_process::ProcessExecutor;
use orc_runtime::clock::SystemClock;
use orc_worktree::too_old;
use tokio::sync::mpsc;

use super::Finding;
use crate::host;

/// A program that does not answer in this time does not work.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts programs in a private directory.
pub(super) struct Trial {
    executor: ProcessExecutor,
    reports: tokio::sync::Mutex<mpsc::UnboundedReceiver<Report>>,
    directory: PathBuf,
}

impl Trial {
    /// Makes the executor, which proves what it needs of the kernel.
    pub(super) fn new() -> Result<Self, Finding> {
        const NAME: &str = "processes";
        let instance = InstanceId::from_uuid(uuid::Uuid::now_v7());
        let (sender, reports) = mpsc::unbounded_channel();
        let report = Arc::new(move |report| {
            // Nobody waits any more for a report that comes after the patience is over.
            let _ = sender.send(report);
        });
        let executor = ProcessExecutor::new(instance, Arc::new(SystemClock), report);
        let executor = executor.map_err(|error| {
            let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            Finding::fail(NAME, format!("{error}{cause}"), "Linux 5.4 or later with /proc mounted is needed")
        })?;
        let directory = std::env::temp_dir().join(format!("orchestrator-{}", instance.file_name()));
        std::fs::DirBuilder::new().mode(0o700).create(&directory).map_err(|error| {
            let what = format!("cannot make `{}`: {error}", directory.display());
            Finding::fail(NAME, what, "make that folder writable, or name another one with TMPDIR")
        })?;
        Ok(Self { executor, reports: tokio::sync::Mutex::new(reports), directory })
    }

    /// `sh`, which reads scripts.
    pub(super) async fn shell(&self) -> Finding {
        const NAME: &str = "sh";
        match self.last_line("echo works").await {
            Ok(line) if line == "works" => Finding::ok(NAME, "works, started as a step is"),
            Ok(line) => Finding::fail(NAME, format!("said `{line}` instead of `works`"), "put a POSIX shell into PATH"),
            Err(why) => Finding::fail(NAME, why, "put a POSIX shell into PATH"),
        }
    }

    /// `git`, which makes private copies and merges them.
    pub(super) async fn git(&self) -> Finding {
        const NAME: &str = "git";
        match self.last_line("git --version").await {
            Ok(line) => match too_old(&line) {
                Some(why) => Finding::fail(NAME, why, "install a newer git"),
                None => Finding::ok(NAME, line),
            },
            Err(why) => Finding::warn(NAME, why, "install git; steps that use it or a private copy fail without"),
        }
    }

    /// What bubblewrap calls itself; it is looked for where boxes look for it.
    pub(super) async fn bubblewrap(&self) -> Option<String> {
        self.last_line("PATH=/usr/bin:/usr/local/bin:/bin bwrap --version").await.ok()
    }

    /// Ends what is left and removes the directory.
    pub(super) async fn end(self) {
        self.executor.close().await;
        // What is left of it is of no use and does no harm.
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// The last line that a script prints, if it ends well.
    pub(super) async fn last_line(&self, script: &str) -> Result<String, String> {
        let run = RunId::from_uuid(uuid::Uuid::now_v7());
        let file = |extension: &str| self.directory.join(format!("{}.{extension}", run.file_name()));
        let launch = Launch {
            run,
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            directory: std::env::temp_dir(),
            confinement: None,
            secrets: Secrets::default(),
            env: host::passed_variables(&[]),
            log: file("jsonl"),
            output: file("out"),
            temp: file("tmp"),
            limits: Limits { log_bytes: 64 * 1024, output_bytes: 1024 },
            stdin: None,
            tap: None,
            host: None,
        };
        self.executor.start(launch).await.map_err(|error| {
            let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            format!("{error}{cause}")
        })?;
        let mut reports = self.reports.lock().await;
        let Ok(Some(report)) = tokio::time::timeout(PATIENCE, reports.recv()).await else {
            self.executor.stop(run, Millis::ZERO);
            return Err(format!("did not end in {} s", PATIENCE.as_secs()));
        };
        match report.exit {
            Exit::Code(0) => Ok(report.last_line),
            Exit::Code(127) => Err("is not in PATH".to_owned()),
            Exit::Code(code) => Err(format!("exit code {code}: {}", report.last_line)),
            Exit::Signal(signal) => Err(format!("ended by signal {signal}")),
        }
    }
}

/// What steps and their proof of death need of the kernel.
pub(super) fn kernel() -> Finding {
    const NAME: &str = "kernel";
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    let release = release.map_or_else(|_| "of an unknown version".to_owned(), |release| release.trim().to_owned());
    let own = rustix::process::getpid();
    let descriptor = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty());
    let hint = "Linux 5.4 or later is needed, and a sandbox around this program must not forbid it";
    match descriptor {
        Ok(_) => Finding::ok(NAME, format!("Linux {release}, with process descriptors")),
        Err(error) => Finding::fail(NAME, format!("Linux {release} gives no process descriptors: {error}"), hint),
    }
}
