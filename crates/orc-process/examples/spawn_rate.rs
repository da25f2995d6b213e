//! Starts `sh -c true` again and again, 16 at a time, through the executor and through `xargs`, in turns, and prints how
//! many of each ran in a second. `cargo run --release -p orc-process --example spawn_rate [COUNT] [ROUNDS] [PROGRAM]`
//!
//! With a PROGRAM each is in a box: ours with PROGRAM (the orchestrator, or the example `boxed`) around and inside, theirs
//! with bubblewrap alone. As root the box user is 65534.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use orc_domain::ids::{InstanceId, RunId};
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock;
use orc_ports::executor::{BoxLimits, Confinement, Executor, Launch, Limits, Secrets};
use orc_process::ProcessExecutor;
use orc_process::sandbox::{BoxUser, Sandbox, SandboxSettings};
use tokio::sync::mpsc;
use uuid::Uuid;

const PARALLEL: usize = 16;

/// A box of bubblewrap alone that refuses about what ours does.
const BWRAP: &str = "bwrap --unshare-all --unshare-user --disable-userns --cap-drop ALL --new-session --die-with-parent \
    --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev \
    --tmpfs /tmp";

struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "an example has no clock of its own to take")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span.as_std()))
    }
}

fn launch(directory: &Path, boxed: bool) -> Launch {
    let run = RunId::from_uuid(Uuid::now_v7());
    let files = directory.join(run.file_name());
    let limits = BoxLimits { processes: 256, memory_bytes: 1 << 32, disk_bytes: 1 << 32, open_files: 4096 };
    let confinement = Confinement {
        mounts: Vec::new(),
        home: directory.join("home"),
        masked: Vec::new(),
        network: BTreeSet::new(),
        doors: Vec::new(),
        limits,
    };
    Launch {
        run,
        argv: ["sh", "-c", "true"].map(str::to_owned).into(),
        directory: if boxed { "/".into() } else { directory.to_owned() },
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        log: files.with_extension("jsonl"),
        output: files.with_extension("out"),
        temp: files,
        limits: Limits { log_bytes: 1 << 24, output_bytes: 1 << 20 },
        stdin: None,
        tap: None,
        host: None,
        confinement: boxed.then(|| Box::new(confinement)),
        secrets: Secrets::default(),
    }
}

async fn run_executor(count: usize, directory: &Path, program: Option<&Path>) -> anyhow::Result<Duration> {
    let (sender, mut reports) = mpsc::unbounded_channel();
    let report = Arc::new(move |report| drop(sender.send(report)));
    let executable = program.unwrap_or(Path::new("/nonexistent")).to_owned();
    let sandbox = Sandbox::probe(&SandboxSettings { user: Some(BoxUser { uid: 65534, gid: 65534 }), executable });
    let instance = InstanceId::from_uuid(Uuid::now_v7());
    let executor = ProcessExecutor::with_boxes(instance, Arc::new(SystemClock), report, sandbox)?;
    let begin = tokio::time::Instant::now();
    let mut started = 0;
    let mut starts = FuturesUnordered::new();
    for ended in 0..count {
        while started < count && started < ended + PARALLEL {
            starts.push(executor.start(launch(directory, program.is_some())));
            started += 1;
        }
        // A box answers once its program runs, and others are begun meanwhile.
        loop {
            tokio::select! {
                _ = reports.recv() => break,
                Some(process) = starts.next() => {
                    process?;
                }
            }
        }
    }
    let took = begin.elapsed();
    executor.close().await;
    Ok(took)
}

#[expect(clippy::disallowed_methods, reason = "the figure to compare with is made without the executor")]
fn run_xargs(count: usize, boxed: bool) -> anyhow::Result<Duration> {
    let begin = tokio::time::Instant::now();
    let mut xargs = std::process::Command::new("xargs")
        .args(["-P", "16", "-I{}"])
        .args(BWRAP.split_whitespace().filter(|_| boxed))
        .args(["sh", "-c", "true"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    if let Some(mut input) = xargs.stdin.take() {
        input.write_all("x\n".repeat(count).as_bytes())?;
    }
    anyhow::ensure!(xargs.wait()?.success(), "xargs failed");
    Ok(begin.elapsed())
}

#[expect(clippy::print_stdout, clippy::float_arithmetic, reason = "an example that prints figures")]
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut numbers = std::env::args().skip(1).take(2).map(|text| text.parse::<usize>());
    let count = numbers.next().transpose()?.unwrap_or(1000);
    let rounds = numbers.next().transpose()?.unwrap_or(5);
    let program = std::env::args_os().nth(3).map(PathBuf::from);
    println!("{:>12} {:>12} {:>8}", "executor/s", "xargs/s", "ratio");
    for _ in 0..rounds {
        let directory = tempfile::tempdir()?;
        let ours = count as f64 / run_executor(count, directory.path(), program.as_deref()).await?.as_secs_f64();
        let xargs = count as f64 / run_xargs(count, program.is_some())?.as_secs_f64();
        println!("{ours:>12.0} {xargs:>12.0} {:>8.2}", ours / xargs);
    }
    Ok(())
}
