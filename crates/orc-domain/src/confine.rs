//! What a box lets through, and what it saw somebody try.

pub mod network;
pub mod paths;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// `box:` of pipeline, step and profile together: what a run may reach beside its own copy and the system's programs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BoxRules {
    /// Paths of the machine that it may read, absolute or below `~/`; they are at the same place inside, `~` being the home
    /// of whoever runs the orchestrator.
    pub read: BTreeSet<String>,
    /// The same, and it may change them.
    pub write: BTreeSet<String>,
    /// Named directories of the repository that outlive a run: `/cache/NAME` inside, its path in `ORC_CACHE_NAME`.
    pub cache: BTreeSet<String>,
    /// Hosts that it may reach through the proxy: `example.com`, `*.example.com`, `example.com:8443`.
    pub network: BTreeSet<String>,
    /// Variables of the orchestrator's own environment that it is given.
    pub env: BTreeSet<String>,
    /// Secrets of the settings, as variables of the same name; for `run:` steps only.
    pub secrets: BTreeSet<String>,
}

impl BoxRules {
    /// What both allow together.
    #[must_use]
    pub fn with(&self, more: &Self) -> Self {
        let both = |one: &BTreeSet<String>, two: &BTreeSet<String>| one | two;
        Self {
            read: both(&self.read, &more.read),
            write: both(&self.write, &more.write),
            cache: both(&self.cache, &more.cache),
            network: both(&self.network, &more.network),
            env: both(&self.env, &more.env),
            secrets: both(&self.secrets, &more.secrets),
        }
    }

    /// Whether it allows nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Something that a box refused, where the orchestrator can see it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Violation {
    /// Which part of the box refused.
    pub kind: ViolationKind,
    /// What was tried: a host and port, a system call, a limit. One line, at most 200 characters.
    pub what: String,
    /// How often.
    pub count: u32,
}

/// Parts of a box that refuse where the orchestrator can see it. A path that is hidden or read-only is only refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationKind {
    /// The proxy: a host that is not allowed.
    Network,
    /// seccomp: a system call.
    Syscall,
    /// The limit of processes.
    Processes,
    /// The limit of memory.
    Memory,
    /// The limit of disk space.
    Disk,
}

impl ViolationKind {
    /// The word in rows, events and logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Syscall => "syscall",
            Self::Processes => "processes",
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}
