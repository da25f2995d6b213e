//! Signals that ask the program to end, for commands that go on until somebody does.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{CommandResult, unavailable};

/// The signals that ask us to end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn new() -> CommandResult<Self> {
        let open = |kind| signal(kind).map_err(|error| unavailable("cannot listen to signals").because(error));
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
            hangup: open(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one and gives its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}
