//! Runs a program in a box: `boxed DIRECTORY PROGRAM ARGUMENT...`, with the directory writable at `/workspace`.
//!
//! As root the box user is 65534. The tests of boxes start it too, for the programs around and inside of a box.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use orc_ports::executor::{BoxLimits, Confinement, Exit, Mount, Source};
use orc_process::hands::{Floor, Hands, Use, Used};
use orc_process::sandbox::{BoxUser, BoxedCommand, Sandbox, SandboxSettings, Stdin, Stdout};

/// A tool that breaks down.
struct Clumsy;

impl Hands for Clumsy {
    fn names(&self) -> Vec<String> {
        vec!["Drop".to_owned()]
    }

    fn lift(&self, wanted: &Use, floor: &dyn Floor) -> Used {
        assert_eq!(wanted.name, "Drop", "there is no other");
        floor.progress("slipping");
        Used { text: "0123456789".to_owned(), ..Used::default() }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if let Some(code) = orc_process::inside::run(std::env::args_os().nth(1).as_deref(), &Clumsy) {
        return Ok(code);
    }
    let directory = PathBuf::from(arguments.next().context("boxed DIRECTORY PROGRAM ARGUMENT...")?);
    let argv: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let user = Some(BoxUser { uid: 65534, gid: 65534 });
    let settings = SandboxSettings { user, executable: std::env::current_exe()? };
    let sandbox = Sandbox::probe(&settings).map_err(|missing| anyhow::anyhow!("{}", missing[0]))?;
    let confinement = Confinement {
        mounts: vec![Mount { source: Source::Path(directory), at: "/workspace".into(), writable: true }],
        home: PathBuf::new(),
        masked: Vec::new(),
        network: BTreeSet::new(),
        doors: Vec::new(),
        limits: BoxLimits { processes: 256, memory_bytes: 1 << 30, disk_bytes: 1 << 30, open_files: 1024 },
    };
    let finished = sandbox.run(BoxedCommand {
        confinement: &confinement,
        argv: &argv,
        env: &BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
        directory: Path::new("/workspace"),
        stdin: Stdin::Bytes(b"read from standard input\n".to_vec()),
        stdout: Stdout::Kept { bytes: 1 << 20 },
        wall: Duration::from_secs(60),
    })?;
    std::io::stdout().write_all(&finished.stdout)?;
    std::io::stderr().write_all(finished.stderr_tail.as_bytes())?;
    Ok(match finished.exit {
        Exit::Code(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Exit::Signal(signal) => ExitCode::from(128 + u8::try_from(signal).unwrap_or(0)),
    })
}
