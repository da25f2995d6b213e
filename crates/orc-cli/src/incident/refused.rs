//! What boxes refused, from the events that tell of it: the store keeps it nowhere else.
//!
//! Events are read from the newest back, and not without a bound: with many of them, the oldest are not seen.

use orc_domain::confine::{Violation, ViolationKind};
use orc_domain::event::{Event, Fact};
use orc_domain::flow::{FlowHead, FlowOutcome, FlowState};
use orc_domain::ids::{FlowId, RunId};
use orc_domain::path::StepPath;
use orc_domain::time::Timestamp;
use orc_ports::reader::Reader;

use super::{Incident, WHAT};
use crate::failure::CommandResult;
use crate::hold::of_store;
use crate::view::columns::clean_line;
use crate::view::progress::refused;

/// Events that are read at once.
const PAGE: u32 = 1000;

/// What the box of a step refused: one for each step and part of the box.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) flow: FlowId,
    pub(crate) step: StepPath,
    pub(crate) run: RunId,
    /// The last one, with how often the box refused the like.
    pub(crate) last: Violation,
    /// When it refused last.
    pub(crate) at: Timestamp,
}

impl Refused {
    /// All of the newest `pages` thousand events, as far as they are not older than `since`; false when older ones were
    /// not looked at.
    pub(crate) async fn find(reader: &dyn Reader, since: Timestamp, pages: u32) -> CommandResult<(Vec<Self>, bool)> {
        let last = reader.totals().await.map_err(of_store)?.last_event;
        let (mut all, mut before) = (Vec::new(), last);
        for _ in 0..pages {
            let after = before.saturating_sub(u64::from(PAGE));
            let count = u32::try_from(before - after).unwrap_or(PAGE);
            let events = reader.events(None, after, count).await.map_err(of_store)?;
            let is_old = events.first().is_none_or(|event| event.body.at < since);
            for event in events.iter().rev().filter(|event| event.body.at >= since) {
                Self::note(&mut all, event);
            }
            if is_old || after == 0 {
                return Ok((all, true));
            }
            before = after;
        }
        Ok((all, false))
    }

    /// Takes an event in; older ones come later.
    fn note(all: &mut Vec<Self>, event: &Event) {
        let Fact::SandboxViolation { path, run, violation } = &event.body.fact else { return };
        let (flow, at) = (event.flow, event.body.at);
        let same = |one: &&mut Self| one.flow == flow && one.step == *path && one.last.kind == violation.kind;
        match all.iter_mut().find(same) {
            Some(known) => known.last.count = known.last.count.saturating_add(violation.count),
            None => all.push(Self { flow, step: path.clone(), run: *run, last: violation.clone(), at }),
        }
    }

    /// Whether nobody has seen to it: its flow goes on, or failed and was not carried on.
    pub(crate) fn is_open(head: &FlowHead, retried: bool) -> bool {
        match &head.state {
            FlowState::Queued { .. } | FlowState::Live { .. } => true,
            FlowState::Finished { outcome: FlowOutcome::Succeeded | FlowOutcome::Cancelled, .. } => false,
            FlowState::Finished { .. } => !retried,
        }
    }

    /// As an incident.
    pub(crate) fn incident(&self, pipeline: Option<String>, open: bool) -> Incident {
        let (kind, who) = match self.last.kind {
            ViolationKind::Network => {
                ("sandbox_violation", "you: allow the host (`box: { network }`), or ask who wanted it")
            }
            ViolationKind::Syscall => ("sandbox_violation", "you: look at its log, and ask what wanted it"),
            ViolationKind::Processes | ViolationKind::Memory | ViolationKind::Disk => {
                ("box_limit", "you: look at its log; a higher limit in the settings, or less work at once")
            }
        };
        Incident {
            kind,
            since: self.at,
            flow: Some(self.flow),
            pipeline,
            step: Some(self.step.clone()),
            what: clean_line(&format!("its box refused {}", refused(&self.last)), WHAT),
            who,
            command: format!("orchestrator logs {}", self.run),
            open,
        }
    }
}

#[cfg(test)]
mod tests {
    use orc_domain::event::EventBody;
    use orc_domain::ids::WorkspaceId;
    use orc_domain::principal::Principal;
    use uuid::Uuid;

    use super::*;

    fn event(step: &str, kind: ViolationKind, what: &str, count: u32) -> Event {
        let violation = Violation { kind, what: what.to_owned(), count };
        let run = RunId::from_uuid(Uuid::from_u128(7));
        let fact = Fact::SandboxViolation { path: StepPath::root(step), run, violation };
        let body = EventBody { at: Timestamp::from_millis(5), actor: Principal::System, fact };
        let flow = FlowId::from_uuid(Uuid::from_u128(1));
        Event { position: 1, flow, workspace: WorkspaceId::default_workspace(), body }
    }

    #[test]
    fn what_is_refused_again_and_again_is_one_incident_with_a_count() {
        let mut all = Vec::new();
        let (network, disk) = (ViolationKind::Network, ViolationKind::Disk);
        let events = [
            event("a", network, "evil.example:443", 2),
            event("a", network, "169.254.169.254:80", 3),
            event("a", disk, "10 MiB", 1),
            event("b", network, "evil.example:443", 1),
        ];
        events.iter().for_each(|event| Refused::note(&mut all, event));
        assert_eq!(all.len(), 3);
        let incident = all[0].incident(Some("ship".to_owned()), true);
        assert_eq!((incident.kind, incident.open), ("sandbox_violation", true));
        assert_eq!(incident.what, "its box refused the network: evil.example:443 (5 times)");
        assert!(incident.command.starts_with("orchestrator logs run_"), "{}", incident.command);
        assert_eq!(all[1].incident(None, false).kind, "box_limit");
        assert!(all.iter().all(|one| !one.incident(None, true).who.is_empty()));
    }
}
