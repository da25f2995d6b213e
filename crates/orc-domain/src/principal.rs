//! Who asked: every input carries one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The author of an input. Printed as `person:NAME`, `github:ID`, `token:NAME`, `os:UID`, `agent:ID`, `system`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Principal {
    /// Somebody named in the settings' `people:`.
    Person(String),
    /// A GitHub account by its number, which survives a rename.
    Github(u64),
    /// A token of the API.
    Token(String),
    /// A local user, by user id; role admin.
    Os(u32),
    /// An agent.
    Agent(String),
    /// The orchestrator itself: timers, reconcilers, recovery.
    System,
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => write!(f, "person:{name}"),
            Self::Github(id) => write!(f, "github:{id}"),
            Self::Token(name) => write!(f, "token:{name}"),
            Self::Os(uid) => write!(f, "os:{uid}"),
            Self::Agent(id) => write!(f, "agent:{id}"),
            Self::System => f.write_str("system"),
        }
    }
}
