//! What a failed or lost run means for its step.
//!
//! A failure uses up the user's `retry:`. A loss is ours, not the user's: it has a cap of its own, so that a step that
//! kills its machine does not do so for ever.

use orc_domain::event::Fact;
use orc_domain::flow::{Losses, Step, StepNo, StepOutcome, StepState};
use orc_domain::graph::Retry;
use orc_domain::ids::RunId;
use orc_domain::run::{Cause, ErrorFamily, Failure, RunOutcome, StopReason, WakeReason};
use orc_domain::time::Millis;
use orc_domain::transition::Transition;

use crate::draft::Draft;

/// A step whose process was lost this often in a row, while nothing else of its flow got done, is quarantined (design:
/// poison steps).
pub const MAX_LOSSES: u32 = 3;

impl Draft<'_> {
    /// A run failed by itself: another attempt, or the end of the step.
    pub(crate) fn retry_or_fail(&mut self, no: StepNo, failure: Failure) {
        let retry = self.spec(no).retry;
        self.edit(no, |step| step.failures += 1);
        let step = self.step(no);
        if step.failures >= retry.attempts || !self.is_wanted(no) {
            self.take(Transition::StepFailed);
            self.finish(no, StepOutcome::Failed(failure));
            return;
        }
        let wait = backoff(retry, step.failures, jitter_of(self.resident.flow.spec.id.uuid(), step.path.as_str()));
        let (path, attempt, not_before) = (step.path.clone(), step.attempts + 1, self.now + wait);
        self.take(Transition::StepRetry);
        self.tell(Fact::RetryPlanned { path, attempt, not_before });
        self.make_ready(no, not_before, WakeReason::PipelineStep);
    }

    /// A run was lost with its instance.
    pub(crate) fn run_lost(&mut self, no: StepNo, id: RunId, claimed: bool, evidence: &str) {
        let unwanted = match self.stopping(id) {
            Some(reason @ (StopReason::Cancel | StopReason::FailFast | StopReason::FinallyDeadline)) => Some(reason),
            Some(
                StopReason::Timeout
                | StopReason::StartDeadline
                | StopReason::Silence
                | StopReason::Looping
                | StopReason::Wall(_)
                | StopReason::FlowWall(_)
                | StopReason::Parked(_)
                | StopReason::Paused,
            )
            | None => None,
        };
        self.keep_messages(no, id);
        if let Some(reason) = unwanted {
            self.take(Transition::RunLostStopping);
            self.finish_run(no, id, RunOutcome::Cancelled { reason });
            self.finish(no, StepOutcome::Cancelled);
            return;
        }
        self.take(Transition::RunLost);
        let run = self.resident.flow.runs.get(&id);
        let wake = run.map_or(WakeReason::PipelineStep, |run| run.wake.clone());
        let lost = |cause| Failure { family: ErrorFamily::ProcessLost, cause, detail: evidence.to_owned() };
        self.finish_run(no, id, RunOutcome::Failed(lost(Cause::Lost)));
        if !self.is_wanted(no) {
            self.take(Transition::StepStopped);
            self.finish(no, StepOutcome::Cancelled);
            return;
        }
        if !claimed {
            self.take(Transition::StepNeverBegan);
            // Nothing happened, so the next run is woken for the same reason: it may still have a loss to recover from.
            self.make_ready(no, self.now, wake);
            return;
        }
        let losses = self.count_loss(no);
        // A merge changes nothing outside, whatever the step itself does.
        let merges = self.joins(no) || self.step(no).merging.is_contradicting();
        if !self.spec(no).idempotent && !merges {
            self.take(Transition::StepLostNotIdempotent);
            self.finish(no, StepOutcome::Failed(lost(Cause::LostNotIdempotent)));
        } else if losses >= MAX_LOSSES {
            self.take(Transition::StepQuarantined);
            self.finish(no, StepOutcome::Failed(lost(Cause::Quarantined { losses })));
        } else {
            self.take(Transition::StepRecovered);
            self.make_ready(no, self.now, WakeReason::Recovery { lost: id });
        }
    }

    /// Counts a loss; gives how many there were in a row without the flow getting on in between.
    fn count_loss(&mut self, no: StepNo) -> u32 {
        let finished = |step: &&Step| matches!(step.state, StepState::Finished { .. });
        let finished = self.resident.flow.steps.iter().filter(finished).count();
        let finished_now = u32::try_from(finished).unwrap_or(u32::MAX);
        self.edit(no, |step| {
            let before = step.losses;
            let is_in_vain = before.total > 0 && before.finished_then == finished_now;
            let in_vain = if is_in_vain { before.in_vain + 1 } else { 1 };
            step.losses = Losses { total: before.total + 1, in_vain, finished_then: finished_now };
        });
        self.step(no).losses.in_vain
    }

    /// Whether a step may have another run: a run that was ended for its timeout can outlive the wish for its step, or for
    /// something above it.
    pub(crate) fn is_wanted(&self, no: StepNo) -> bool {
        let failed_fast = |step: &Step| {
            let Some(group) = step.origin.element().map(|element| element.group) else { return false };
            let fail_fast = self.resident.spec_of(step).fan.as_ref().is_some_and(|fan| fan.fail_fast);
            fail_fast && self.resident.index.groups.get(&group).is_some_and(|count| count.failed > 0)
        };
        self.resident.is_open() && !self.resident.ancestry(no).any(failed_fast)
    }

    /// Whether a failure would lead to another attempt.
    pub(crate) fn may_retry(&self, no: StepNo) -> bool {
        self.step(no).failures + 1 < self.spec(no).retry.attempts && self.is_wanted(no)
    }

    /// What a run that was lost or never began took from its inbox is there for the next one again.
    pub(crate) fn keep_messages(&mut self, no: StepNo, id: RunId) {
        let agent = self.resident.flow.runs.get(&id).and_then(|run| run.agent.as_ref());
        let taken = agent.map(|agent| agent.messages.clone()).unwrap_or_default();
        if !taken.is_empty() {
            self.edit(no, |step| {
                step.inbox.splice(0..0, taken);
            });
        }
    }

    /// Puts a step up for its next run.
    pub(crate) fn make_ready(&mut self, no: StepNo, not_before: orc_domain::time::Timestamp, wake: WakeReason) {
        let wake = match wake {
            WakeReason::PipelineStep if self.step(no).merging.is_contradicting() => WakeReason::Conflict,
            wake => wake,
        };
        self.leave_places(no);
        self.set_state(no, StepState::Ready { not_before, held_by: None, wake });
        self.fresh.insert(no);
    }
}

/// The wait before the attempt after `failures` failures: doubled each time, bounded, spread.
fn backoff(retry: Retry, failures: u32, jitter: u64) -> Millis {
    let doublings = failures.saturating_sub(1).min(63);
    spread(retry.backoff.saturating_mul(1_u64 << doublings).min(retry.max_backoff), failures, jitter)
}

/// A wait plus up to a quarter, so that steps that failed together do not come back together. `jitter` is any number that
/// differs between steps, `count` how often they waited.
pub(crate) fn spread(wait: Millis, count: u32, jitter: u64) -> Millis {
    let most = wait.as_millis() / 4;
    let extra = if most == 0 { 0 } else { jitter.wrapping_mul(u64::from(count) | 1) % (most + 1) };
    Millis::from_millis(wait.as_millis().saturating_add(extra))
}

/// 64 bits that differ from step to step and are the same for the same step.
pub(crate) fn jitter_of(flow: uuid::Uuid, path: &str) -> u64 {
    let derived = RunId::derived(flow, path).uuid();
    derived.as_u64_pair().1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(backoff_s: u64, max_s: u64) -> Retry {
        let (backoff, max_backoff) = (Millis::from_secs(backoff_s), Millis::from_secs(max_s));
        Retry { attempts: 100, backoff, max_backoff }
    }

    #[test]
    fn back_off_doubles_up_to_its_bound() {
        let waits: Vec<u64> = (1..=6).map(|n| backoff(retry(30, 300), n, 0).as_millis() / 1000).collect();
        assert_eq!(waits, [30, 60, 120, 240, 300, 300]);
        assert_eq!(backoff(retry(1, u64::MAX / 1000), 100, 0), Millis::from_secs(u64::MAX / 1000));
    }

    #[test]
    fn jitter_only_adds_and_at_most_a_quarter() {
        for jitter in [1, 7, 4_999, u64::MAX] {
            for failures in 1..10 {
                let plain = backoff(retry(30, 300), failures, 0).as_millis();
                let with = backoff(retry(30, 300), failures, jitter).as_millis();
                assert!(with >= plain && with <= plain + plain / 4, "{plain} {with}");
            }
        }
    }
}
