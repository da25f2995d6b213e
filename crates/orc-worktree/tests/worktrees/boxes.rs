//! Boxes, repositories and a clock, for tests and figures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures_util::future::BoxFuture;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock;
use orc_ports::executor::{BoxLimits, Confinement, Exit};
use orc_ports::worktrees::Prepared;
use orc_process::sandbox::{BoxUser, BoxedCommand, Sandbox, SandboxSettings, Stdin, Stdout};
use orc_worktree::{Boxes, Owner, Said};

const USER: BoxUser = BoxUser { uid: 65534, gid: 65534 };
const LIMITS: BoxLimits = BoxLimits { processes: 256, memory_bytes: 2 << 30, disk_bytes: 0, open_files: 4096 };
const SEARCHED: &str = "/usr/local/bin:/usr/bin:/bin";

/// Whose copies are.
pub(crate) fn owner() -> Option<Owner> {
    rustix::process::geteuid().is_root().then_some(Owner { uid: USER.uid, gid: USER.gid })
}

/// Boxes of this machine, with a program that knows what to do in one.
pub(crate) fn sandbox(executable: PathBuf) -> anyhow::Result<Sandbox> {
    let settings = SandboxSettings { user: Some(USER), executable };
    Sandbox::probe(&settings).map_err(|missing| anyhow::anyhow!("{missing:?}"))
}

/// Real boxes.
pub(crate) struct Real(pub(crate) Sandbox);

impl Boxes for Real {
    fn run(&self, command: orc_worktree::Command) -> Result<Said, String> {
        let orc_worktree::Command { argv, env, mounts, home, wall, output_bytes } = command;
        let (masked, network, doors) = (Vec::new(), BTreeSet::new(), Vec::new());
        let confinement = Confinement { mounts, home, masked, network, doors, limits: LIMITS };
        let finished = self.0.run(BoxedCommand {
            confinement: &confinement,
            argv: &argv,
            env: &env,
            directory: Path::new("/"),
            stdin: Stdin::None,
            stdout: Stdout::Kept { bytes: usize::try_from(output_bytes).unwrap_or(usize::MAX) },
            wall: Duration::from_millis(wall.as_millis()),
        });
        let finished = finished.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
        let code = if let Exit::Code(code) = finished.exit { Some(code) } else { None };
        Ok(Said { code, output: finished.stdout, error: finished.stderr_tail })
    }
}

/// Runs a script in the box of a copy, as an agent does; its output.
pub(crate) fn in_box(sandbox: &Sandbox, copy: &Prepared, script: &str) -> anyhow::Result<String> {
    let confinement = Confinement {
        mounts: copy.mounts.clone(),
        home: PathBuf::new(),
        masked: Vec::new(),
        network: BTreeSet::new(),
        doors: Vec::new(),
        limits: LIMITS,
    };
    let mut env: BTreeMap<String, String> = BTreeMap::from([("PATH".to_owned(), SEARCHED.to_owned())]);
    for who in ["AUTHOR", "COMMITTER"] {
        env.insert(format!("GIT_{who}_NAME"), "Agent".to_owned());
        env.insert(format!("GIT_{who}_EMAIL"), "agent@example.org".to_owned());
    }
    let finished = sandbox.run(BoxedCommand {
        confinement: &confinement,
        argv: &["/bin/sh", "-euc", script].map(str::to_owned),
        env: &env,
        directory: &copy.directory,
        stdin: Stdin::None,
        stdout: Stdout::Kept { bytes: 1 << 20 },
        wall: Duration::from_secs(120),
    })?;
    ensure!(finished.exit == Exit::Code(0), "{script}: {:?} {}", finished.exit, finished.stderr_tail);
    Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
}

/// A clock that is a second later each time it is looked at.
#[derive(Default)]
pub(crate) struct Counting(AtomicI64);

impl Clock for Counting {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + 1000 * self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn sleep(&self, _: Millis) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// A program on the machine itself, as the owner of a repository starts it; its output.
#[expect(clippy::disallowed_methods, reason = "looks at and changes what belongs to the test, as its owner does")]
pub(crate) fn run(directory: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ann").env(format!("GIT_{who}_EMAIL"), "ann@example.org");
    }
    let said = command.output().with_context(|| format!("start {program}"))?;
    if !said.status.success() {
        bail!("{program} {arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
    }
    Ok(String::from_utf8_lossy(&said.stdout).trim_end().to_owned())
}

/// Makes a repository of so many small files with one commit on `main`.
pub(crate) fn repository_of(source: &Path, files: u32) -> anyhow::Result<()> {
    std::fs::create_dir_all(source)?;
    run(source, "git", &["init", "-q", "-b", "main"])?;
    for number in 0..files {
        let directory = source.join(format!("d{}", number / 100));
        if number % 100 == 0 {
            std::fs::create_dir_all(&directory)?;
        }
        std::fs::write(directory.join(format!("f{number}.txt")), format!("file {number}\n"))?;
    }
    run(source, "git", &["add", "-A"])?;
    run(source, "git", &["commit", "-q", "--allow-empty", "-m", "first"])?;
    Ok(())
}

/// Adds a commit to a repository that changes one file.
pub(crate) fn change(source: &Path, text: &str) -> anyhow::Result<String> {
    std::fs::write(source.join("changed.txt"), format!("{text}\n"))?;
    run(source, "git", &["add", "-A"])?;
    run(source, "git", &["commit", "-q", "-m", text])?;
    run(source, "git", &["rev-parse", "HEAD"])
}
