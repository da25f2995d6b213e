//! Standard input of one run: bytes that are written as the program takes them, beside everything else.
//!
//! A program that reads nothing holds its bytes in memory until it ends and delays nobody; one that closes its end early
//! gets no more. Runs without input have no pipe at all.

use std::future::pending;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// What is still to be written, and where.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// `None` once it has ended, or when there is none.
    fd: Option<AsyncFd<OwnedFd>>,
    bytes: Bytes,
}

#[derive(Debug, Default)]
struct Bytes {
    all: Vec<u8>,
    written: usize,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is more.
    More,
    /// All of it is written.
    Through,
    /// The program takes no more.
    Refused,
}

impl Input {
    pub(crate) fn new(fd: Option<AsyncFd<OwnedFd>>, bytes: Vec<u8>) -> Self {
        Self { fd, bytes: Bytes { all: bytes, written: 0 } }
    }

    /// Bytes that were written, and all bytes.
    pub(crate) const fn counts(&self) -> (usize, usize) {
        (self.bytes.written, self.bytes.all.len())
    }

    /// Ends when the program takes more, never when there is nothing to write; then writes what fits.
    pub(crate) async fn write(&mut self) -> Turn {
        let Some(fd) = &self.fd else {
            return pending().await;
        };
        // Whatever cannot be waited for cannot be written to either.
        let turn = match fd.writable().await {
            Ok(guard) => self.bytes.write(guard),
            Err(_) => Turn::Refused,
        };
        if turn != Turn::More {
            self.fd = None;
        }
        turn
    }

    /// Closes it, whatever is left.
    pub(crate) fn close(&mut self) {
        *self = Self::default();
    }
}

impl Bytes {
    fn write(&mut self, mut guard: AsyncFdReadyGuard<'_, OwnedFd>) -> Turn {
        let rest = &self.all[self.written..];
        match rustix::io::retry_on_intr(|| rustix::io::write(guard.get_inner(), rest)) {
            Ok(count) => {
                self.written += count;
                if self.written == self.all.len() { Turn::Through } else { Turn::More }
            }
            Err(Errno::AGAIN) => {
                guard.clear_ready();
                Turn::More
            }
            Err(_) => Turn::Refused,
        }
    }
}
