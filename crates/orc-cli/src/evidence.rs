//! What can be seen outside of the store: who carries flows on, whether a process lives, when it last said something.
//!
//! The store says what was decided. Here is the evidence beside it, and "unknown" is an answer.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use orc_domain::ids::{FlowId, RunId};
use orc_domain::run::Process;
use orc_domain::time::Timestamp;
use orc_runtime::control::{Client, Request, Response};
use orc_runtime::data_dir::Holder;

use crate::context::Context;

/// A holder that does not answer in this time is shown as silent.
const PATIENCE: Duration = Duration::from_millis(500);

/// Who carries flows on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Carrier {
    /// Nobody holds the data directory.
    Nobody,
    /// A process does.
    Process {
        /// Who wrote itself down; `None` when it has just begun.
        holder: Option<Holder>,
        /// What it says about itself.
        says: Says,
    },
}

/// What the holder of a data directory answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Says {
    /// This.
    Carries {
        /// Flows that it carries on.
        flows: BTreeSet<FlowId>,
        /// Runs that it may have at the same time.
        slots: u32,
        /// What keeps it from going on.
        trouble: Option<String>,
    },
    /// Nothing that we understand; why.
    Nothing(String),
}

impl Carrier {
    /// Looks at the lock, and asks whoever holds it. To be seen before a flow is read: a flow that ends in between is then
    /// over, while the other way round it would seem to be live and left by its holder.
    pub(crate) async fn see(context: &Context) -> Self {
        if !context.data.is_held() {
            return Self::Nobody;
        }
        let answer = tokio::time::timeout(PATIENCE, ask(context)).await;
        let says = answer.unwrap_or_else(|_| Says::Nothing(format!("no answer in {} ms", PATIENCE.as_millis())));
        Self::Process { holder: context.data.holder(), says }
    }

    /// Whether a flow is carried on; `None` when that cannot be known.
    pub(crate) fn carries(&self, flow: FlowId) -> Option<bool> {
        match self {
            Self::Nobody => Some(false),
            Self::Process { says: Says::Carries { flows, .. }, .. } => Some(flows.contains(&flow)),
            Self::Process { says: Says::Nothing(_), .. } => None,
        }
    }

    /// `process 4711 (`run`)`, or `nobody`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Nobody => "nobody".to_owned(),
            Self::Process { holder: Some(holder), .. } => format!("process {} (`{}`)", holder.pid, holder.command),
            Self::Process { holder: None, .. } => "a process that has just begun".to_owned(),
        }
    }
}

async fn ask(context: &Context) -> Says {
    let answer = async {
        let mut client = Client::ask(&context.data.socket(), &Request::Status).await?;
        client.next().await
    };
    match answer.await {
        Ok(Response::Status { flows, slots, trouble }) => {
            Says::Carries { flows: flows.into_iter().collect(), slots, trouble }
        }
        Ok(_) => Says::Nothing("it answered something else than was asked".to_owned()),
        Err(error) => Says::Nothing(error.to_string()),
    }
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It does.
    Alive,
    /// It has ended.
    Gone,
    /// The system does not tell.
    Unknown,
}

impl Seen {
    /// The word in documents.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Gone => "gone",
            Self::Unknown => "unknown",
        }
    }

    /// Looks for a process; one with the same number that began at another time is another one.
    pub(crate) fn of(process: &Process) -> Self {
        match std::fs::read(format!("/proc/{}/stat", process.pid)) {
            Ok(stat) => parse_stat(&stat).map_or(Self::Unknown, |(state, start_ticks)| {
                let ended = matches!(state, b'Z' | b'X');
                if ended || start_ticks != process.start_ticks { Self::Gone } else { Self::Alive }
            }),
            Err(_) if std::path::Path::new("/proc/self/stat").exists() => Self::Gone,
            Err(_) => Self::Unknown,
        }
    }
}

/// State and start time, fields 3 and 22 of `/proc/PID/stat` (proc(5)). The name in parentheses may hold anything.
fn parse_stat(stat: &[u8]) -> Option<(u8, u64)> {
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[close + 1..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?.bytes().next()?;
    // State is field 3, so eighteen fields lie between it and field 22.
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// When a run's log was last written to; `None` when there is no log.
pub(crate) fn last_output_at(context: &Context, flow: FlowId, run: RunId) -> Option<Timestamp> {
    let changed = std::fs::metadata(context.data.log(flow, run)).ok()?.modified().ok()?;
    let since_epoch = changed.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orc_domain::ids::InstanceId;

    fn own() -> Process {
        let stat = std::fs::read("/proc/self/stat").unwrap();
        let (_, start_ticks) = parse_stat(&stat).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        Process { pid, start_ticks, instance: InstanceId::from_uuid(uuid::Uuid::nil()) }
    }

    #[test]
    fn a_process_is_known_by_number_and_start() {
        let own = own();
        assert_eq!(Seen::of(&own), Seen::Alive);
        assert_eq!(Seen::of(&Process { start_ticks: own.start_ticks + 1, ..own.clone() }), Seen::Gone);
        assert_eq!(Seen::of(&Process { pid: i32::MAX, ..own }), Seen::Gone);
    }

    #[test]
    fn names_with_blanks_and_parentheses_do_not_confuse() {
        let line = b"7 (a) b (c) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert_eq!(parse_stat(line), Some((b'R', 4242)));
        assert_eq!(parse_stat(b"7 (a"), None);
    }
}
