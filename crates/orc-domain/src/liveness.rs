//! Liveness: how a run of an agent does, in one word; a pure function of its state, what is known of its output, and now.
//!
//! Derived wherever it is shown and never stored, so that it cannot contradict what it is made of.

use crate::agent::{AgentOutcome, AgentStop, Statistics};
use crate::run::ErrorFamily;
use crate::time::{Millis, Timestamp};

/// How recent a change must be for a run to count as productive.
pub const PRODUCTIVE_WITHIN: Millis = Millis::from_secs(5 * 60);

/// How a run does; fixed words that status and filters use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Liveness {
    /// It said something within half of its silence limit.
    Alive,
    /// The same, and something came of it within [`PRODUCTIVE_WITHIN`].
    Productive,
    /// It ended well.
    Completed,
    /// It waits for somebody, or says that it cannot go on.
    Blocked,
    /// It ended and nothing came of it.
    Empty,
    /// It repeats itself.
    Looping,
    /// It failed, or was stopped.
    Failed,
    /// It has been silent for more than half of its limit.
    Stalled,
    /// Its process is gone.
    Dead,
}

impl Liveness {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Alive,
        Self::Productive,
        Self::Completed,
        Self::Blocked,
        Self::Empty,
        Self::Looping,
        Self::Failed,
        Self::Stalled,
        Self::Dead,
    ];

    /// The word in status and filters.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Productive => "productive",
            Self::Completed => "completed",
            Self::Blocked => "blocked",
            Self::Empty => "empty",
            Self::Looping => "looping",
            Self::Failed => "failed",
            Self::Stalled => "stalled",
            Self::Dead => "dead",
        }
    }
}

/// A run as liveness sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observed<'a> {
    /// Its process lives.
    Running {
        /// When it was started.
        since: Timestamp,
        /// It was asked to end because it repeats itself.
        is_looping: bool,
        /// Its last word is that it cannot go on.
        says_blocked: bool,
    },
    /// It waits without a process, for a person or for what it needs.
    Parked,
    /// Its process is gone and its end not told yet.
    Gone,
    /// Over.
    Finished {
        /// How it ended.
        outcome: &'a AgentOutcome,
        /// Why.
        stop: Option<AgentStop>,
        /// It left something: an output, a message, a change.
        has_produced: bool,
    },
}

/// How a run does. `silence` is its silence limit.
#[must_use]
pub fn liveness(run: Observed<'_>, statistics: &Statistics, silence: Millis, now: Timestamp) -> Liveness {
    match run {
        Observed::Running { is_looping: true, .. } => Liveness::Looping,
        Observed::Running { says_blocked: true, .. } | Observed::Parked => Liveness::Blocked,
        Observed::Running { since, .. } => {
            let quiet = now.since(statistics.last_output_at.unwrap_or(since));
            let is_recent = |at: Timestamp| now.since(at) <= PRODUCTIVE_WITHIN;
            if quiet > Millis::from_millis(silence.as_millis() / 2) {
                Liveness::Stalled
            } else if statistics.last_progress_at.is_some_and(is_recent) {
                Liveness::Productive
            } else {
                Liveness::Alive
            }
        }
        Observed::Gone => Liveness::Dead,
        Observed::Finished { stop: Some(AgentStop::Looping), .. } => Liveness::Looping,
        Observed::Finished { outcome, has_produced, .. } => match outcome {
            AgentOutcome::Delivered if has_produced => Liveness::Completed,
            AgentOutcome::Delivered | AgentOutcome::NoDeliverable { .. } => Liveness::Empty,
            AgentOutcome::Blocked { .. } => Liveness::Blocked,
            AgentOutcome::Failed { family: ErrorFamily::ProcessLost, .. } => Liveness::Dead,
            AgentOutcome::Failed { .. } | AgentOutcome::Cancelled => Liveness::Failed,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Millis = Millis::from_secs(900);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn running(output: Option<i64>, progress: Option<i64>, now: i64) -> &'static str {
        let statistics =
            Statistics { last_output_at: output.map(at), last_progress_at: progress.map(at), ..Statistics::default() };
        let run = Observed::Running { since: at(0), is_looping: false, says_blocked: false };
        liveness(run, &statistics, SILENCE, at(now)).word()
    }

    #[test]
    fn a_run_that_lives() {
        // (last output, last progress, now)
        let cases = [
            (None, None, 0, "alive"),
            (None, None, 450, "alive"),
            (None, None, 451, "stalled"),
            (Some(400), None, 850, "alive"),
            (Some(400), None, 851, "stalled"),
            (Some(400), Some(100), 400, "productive"),
            (Some(401), Some(100), 401, "alive"),
            (Some(100), Some(500), 551, "stalled"),
            // A clock that jumped back.
            (Some(400), Some(400), 10, "productive"),
        ];
        for (output, progress, now, wanted) in cases {
            assert_eq!(running(output, progress, now), wanted, "{output:?} {progress:?} {now}");
        }
        let told = |is_looping, says_blocked| {
            let run = Observed::Running { since: at(0), is_looping, says_blocked };
            liveness(run, &Statistics::default(), SILENCE, at(9999)).word()
        };
        assert_eq!((told(true, true), told(false, true)), ("looping", "blocked"));
    }

    #[test]
    fn a_run_without_a_process() {
        fn word(run: Observed<'_>) -> &'static str {
            liveness(run, &Statistics::default(), SILENCE, at(0)).word()
        }
        assert_eq!((word(Observed::Parked), word(Observed::Gone)), ("blocked", "dead"));
        let finished =
            |outcome: &AgentOutcome, stop, has_produced| word(Observed::Finished { outcome, stop, has_produced });
        let failed = |family| AgentOutcome::Failed { family, why: String::new() };
        let missing = AgentOutcome::NoDeliverable { missing: "verdict".to_owned() };
        let blocked = AgentOutcome::Blocked { why: "no key".to_owned(), asks: true, call: None };
        assert_eq!(finished(&AgentOutcome::Delivered, None, true), "completed");
        assert_eq!(finished(&AgentOutcome::Delivered, None, false), "empty");
        assert_eq!(finished(&missing, None, true), "empty");
        assert_eq!(finished(&blocked, None, true), "blocked");
        assert_eq!(finished(&failed(ErrorFamily::Unknown), None, true), "failed");
        assert_eq!(finished(&failed(ErrorFamily::ProcessLost), None, true), "dead");
        assert_eq!(finished(&failed(ErrorFamily::Unknown), Some(AgentStop::Looping), true), "looping");
        assert_eq!(finished(&AgentOutcome::Cancelled, Some(AgentStop::Abort), true), "failed");
    }
}
