//! `box-porter`: waits outside, and is copied into a `box-enter` for each box.
//!
//! To start our executable takes longer than all that `box-enter` does: a sixth of a box. A copy of one that has started
//! has that behind it. The copy is a child of whoever started the porter, as if they had started it themselves.
//!
//! What it must never do: open, mount or join anything itself, since each box would inherit it; have a second thread; stay
//! when whoever started it is gone.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use crate::inside::enter;
use crate::passing;

pub(super) fn run() -> ExitCode {
    serve().unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "box-porter: {error}");
        ExitCode::FAILURE
    })
}

/// Until nobody asks any more. Comes back in each copy too, once that could not become a box.
fn serve() -> io::Result<ExitCode> {
    let mut socket = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    while let Some(streams) = passing::receive_streams(&socket)? {
        let answer = match orc_kernel::fork_beside() {
            Ok(None) => {
                drop(socket);
                take(streams)?;
                return Ok(enter::run());
            }
            Ok(Some(pid)) => pid,
            Err(error) => -error.raw_os_error().unwrap_or(libc::EAGAIN),
        };
        socket.write_all(&answer.to_ne_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a process has that was started for a box: a group of its own, and its standard streams.
fn take([stdin, stdout, stderr]: [OwnedFd; 3]) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    rustix::stdio::dup2_stdin(stdin)?;
    rustix::stdio::dup2_stdout(stdout)?;
    Ok(rustix::stdio::dup2_stderr(stderr)?)
}
