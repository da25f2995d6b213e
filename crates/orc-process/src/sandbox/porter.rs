//! The porter of a thread that makes boxes, as that thread sees it: see `inside::porter`.
//!
//! It is started with the first box. One that does not answer is given up, the box is made without it, and the next box gets
//! another: it saves time and nothing else.

use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;

use crate::passing;

/// How long it may take to answer, which takes less than a millisecond on a machine at rest.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the outermost processes of boxes, as children of the thread that has it.
#[derive(Debug, Default)]
pub(crate) struct Porter(Option<AtWork>);

#[derive(Debug)]
struct AtWork {
    socket: UnixStream,
    child: Child,
}

impl Porter {
    /// A process that is a `box-enter` with these standard streams; `None`: it has to be started.
    pub(crate) fn let_in(&mut self, executable: &Path, instance: &str, streams: [BorrowedFd<'_>; 3]) -> Option<Pid> {
        let begun = match &mut self.0 {
            Some(_) => Ok(()),
            nobody => AtWork::start(executable, instance).map(|porter| *nobody = Some(porter)),
        };
        let made =
            begun.and_then(|()| self.0.as_mut().map_or(Err(io::ErrorKind::NotFound.into()), |it| it.ask(streams)));
        made.inspect_err(|error| {
            tracing::warn!(%error, "a box is started without its porter");
            self.0 = None;
        })
        .ok()
    }
}

impl AtWork {
    #[expect(clippy::disallowed_methods, reason = "one of the places that start children")]
    fn start(executable: &Path, instance: &str) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut command = Command::new(executable);
        // What it is copied into can be found by this until it has the marks of its run.
        command.arg("box-porter").env_clear().env("ORC_INSTANCE", instance).current_dir("/").process_group(0);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { socket, child: command.spawn()? })
    }

    fn ask(&mut self, streams: [BorrowedFd<'_>; 3]) -> io::Result<Pid> {
        passing::send_streams(&self.socket, streams)?;
        let mut answer = [0; 4];
        self.socket.read_exact(&mut answer)?;
        let answer = i32::from_ne_bytes(answer);
        let pid = Pid::from_raw(answer.max(0)).ok_or_else(|| io::Error::from_raw_os_error(-answer))?;
        // It does so too. It may have become bwrap, or be gone, by now.
        let _ = rustix::process::setpgid(Some(pid), Some(pid));
        Ok(pid)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        // It has nothing to finish, and may be what does not answer.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
