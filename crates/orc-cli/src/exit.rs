//! Exit codes, all of them. Printed in the reference.

use std::process::ExitCode;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Success,
    /// The flow failed, or what was tried came out otherwise than it must.
    FlowFailed,
    /// The command line makes no sense.
    Usage,
    /// A pipeline, an input or a setting is wrong.
    Invalid,
    /// What was named does not exist.
    NotFound,
    /// A rule forbids it.
    Refused,
    /// A wall of money, tokens or calls was reached.
    Budget,
    /// It waits for a person.
    Waiting,
    /// The store, the data directory or the machine does not allow it now.
    Unavailable,
    /// Interrupted, or the flow was cancelled.
    Interrupted,
}

impl Exit {
    /// Every code, in order.
    pub(crate) const ALL: [Self; 10] = [
        Self::Success,
        Self::FlowFailed,
        Self::Usage,
        Self::Invalid,
        Self::NotFound,
        Self::Refused,
        Self::Budget,
        Self::Waiting,
        Self::Unavailable,
        Self::Interrupted,
    ];

    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::FlowFailed => 1,
            Self::Usage => 2,
            Self::Invalid => 3,
            Self::NotFound => 4,
            Self::Refused => 5,
            Self::Budget => 6,
            Self::Waiting => 7,
            Self::Unavailable => 8,
            Self::Interrupted => 130,
        }
    }

    /// What it means, for the reference.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::FlowFailed => "the flow failed, or what was tried came out otherwise than it must",
            Self::Usage => "the command line makes no sense",
            Self::Invalid => "a pipeline, an input or a setting is wrong",
            Self::NotFound => "what was named does not exist",
            Self::Refused => "refused by a rule",
            Self::Budget => "a wall of money, tokens or calls was reached",
            Self::Waiting => "it waits for a person",
            Self::Unavailable => "the store, the data directory or the machine does not allow it now",
            Self::Interrupted => "interrupted, or the flow was cancelled",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Prints what clap has to say; help and version are no errors.
pub(crate) fn of_usage(error: &clap::Error) -> ExitCode {
    // The stream may be closed; the exit code still says what happened.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Success.into() }
}
