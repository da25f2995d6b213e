//! How a run of an agent does, and what agents used, in words and documents.

use orc_domain::agent::{AgentOutcome, Usage};
use orc_domain::liveness::{Liveness, Observed, liveness};
use orc_domain::run::{AgentRun, Run, RunOutcome, RunState, StopReason};
use orc_domain::time::Timestamp;
use serde_json::{Value, json};

use crate::evidence::Seen;
use crate::explanation::RunEvidence;

/// How a run of an agent does. `None` for a command, and as long as there is no process to judge by.
pub(crate) fn liveness_of(run: &Run, evidence: Option<&RunEvidence>, now: Timestamp) -> Option<Liveness> {
    let agent = run.agent.as_ref()?;
    let mut statistics = agent.statistics;
    // What is stored is told now and then; the log itself knows the last output.
    statistics.last_output_at = statistics.last_output_at.max(evidence.and_then(|evidence| evidence.last_output_at));
    let observed = |run| Some(liveness(run, &statistics, agent.silence, now));
    match &run.state {
        RunState::Pending { .. } => None,
        RunState::Running { .. } if evidence.is_some_and(|evidence| evidence.process == Seen::Gone) => {
            observed(Observed::Gone)
        }
        RunState::Running { since, stop, .. } => {
            let is_looping = stop.as_ref().is_some_and(|stop| stop.reason == StopReason::Looping);
            observed(Observed::Running { since: *since, is_looping, says_blocked: false })
        }
        RunState::Finished { outcome, .. } => {
            let outcome = told(outcome);
            let has_produced = has_produced(agent);
            observed(Observed::Finished { outcome: &outcome, stop: agent.stop, has_produced })
        }
    }
}

fn has_produced(agent: &AgentRun) -> bool {
    agent.answer.is_some() || agent.statistics.last_progress_at.is_some()
}

/// The outcome of a run in the words of agents.
fn told(outcome: &RunOutcome) -> AgentOutcome {
    match outcome {
        RunOutcome::Delivered => AgentOutcome::Delivered,
        RunOutcome::NoDeliverable { missing } => AgentOutcome::NoDeliverable { missing: missing.clone() },
        RunOutcome::Blocked { why, call } => AgentOutcome::Blocked { why: why.clone(), asks: true, call: call.clone() },
        RunOutcome::Failed(failure) => AgentOutcome::Failed { family: failure.family, why: failure.to_string() },
        RunOutcome::Cancelled { .. } => AgentOutcome::Cancelled,
    }
}

/// `12.3k tokens, 4 calls, $0.42`; nothing for what used nothing.
pub(crate) fn usage_words(usage: &Usage) -> Option<String> {
    let parts = [
        counted(usage.tokens(), "token"),
        counted(usage.calls, "call"),
        counted(usage.tool_calls, "tool call"),
        (usage.cost.as_micros() > 0).then(|| usage.cost.to_string()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Every class of it, the sum of tokens, and money in millionths of a dollar.
pub(crate) fn usage_document(usage: &Usage) -> Value {
    json!({
        "tokens": usage.tokens(),
        "input": usage.input,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "calls": usage.calls,
        "tool_calls": usage.tool_calls,
        "cost_usd_micros": usage.cost.as_micros(),
    })
}

/// `1 call`, `2 calls`; nothing for none.
pub(crate) fn counted(number: u64, what: &str) -> Option<String> {
    let plural = if number == 1 { "" } else { "s" };
    (number > 0).then(|| format!("{} {what}{plural}", short_number(number)))
}

/// `950`, `12.3k`, `4.5M`.
pub(crate) fn short_number(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orc_domain::money::UsdMicros;

    #[test]
    fn usage_is_said_in_words() {
        let usage =
            Usage { input: 12_000, output: 345, calls: 4, cost: UsdMicros::from_micros(420_000), ..Usage::default() };
        assert_eq!(usage_words(&usage).as_deref(), Some("12.3k tokens, 4 calls, $0.42"));
        assert_eq!(usage_words(&Usage::default()), None);
        assert_eq!((short_number(999).as_str(), short_number(2_560_000).as_str()), ("999", "2.5M"));
        assert_eq!(usage_document(&usage)["tokens"], 12_345);
    }
}
