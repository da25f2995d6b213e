//! Starting a program inside a box.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;

use crate::launch::{self, Wanted};
use crate::protocol::{Blame, Failure};

/// Standard input, output and error output.
pub(crate) type Stdios = [Stdio; 3];

/// Starts the program as the leader of a group of its own.
pub(crate) fn start(
    argv: &[String],
    env: &BTreeMap<String, String>,
    cwd: &Path,
    streams: Stdios,
) -> Result<Child, Failure> {
    let wanted = Wanted { argv, env, directory: cwd };
    let path = launch::find_program(&wanted).map_err(|error| failure(Blame::Program, &error))?;
    let [stdin, stdout, stderr] = streams;
    #[expect(clippy::disallowed_methods, reason = "the only child of a box's first process, or of a tool host")]
    let mut command = Command::new(&path);
    command.args(argv.iter().skip(1)).current_dir(cwd).env_clear().envs(env);
    command.process_group(0).stdin(stdin).stdout(stdout).stderr(stderr);
    if let Some(name) = argv.first() {
        command.arg0(name);
    }
    command.spawn().map_err(|source| {
        let (blame, source) = match launch::explain(&wanted, &path, source) {
            launch::Cause::Directory(source) => (Blame::Directory, source),
            launch::Cause::Program(source) => (Blame::Program, source),
            launch::Cause::Exhausted(source) => (Blame::Exhausted, source),
        };
        failure(blame, &source)
    })
}

/// A failure as it goes over the wire.
pub(crate) fn failure(what: Blame, error: &io::Error) -> Failure {
    Failure { what, errno: Errno::from_io_error(error).map(Errno::raw_os_error), why: error.to_string() }
}
