//! The table of the state machines: every (state, input) pair that is treated specially, by name.
//!
//! `decide` names each one it takes. The simulator must have taken all of them, and the reference in `docs/` is this
//! table printed.

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransitionRow {
    /// `flow`, `step` or `run`.
    pub machine: &'static str,
    /// The state before.
    pub from: &'static str,
    /// What was heard.
    pub on: &'static str,
    /// The state after.
    pub to: &'static str,
    /// Why, or what else happens.
    pub note: &'static str,
}

macro_rules! transitions {
    ($($name:ident: $machine:literal, $from:literal, $on:literal => $to:literal, $note:literal;)*) => {
        /// A transition that `decide` treats specially.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum Transition {
            $(#[doc = concat!($machine, ": ", $from, " on ", $on, " -> ", $to)] $name,)*
        }

        impl Transition {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The row of the table.
            #[must_use]
            pub const fn row(self) -> TransitionRow {
                match self {
                    $(Self::$name => TransitionRow {
                        machine: $machine, from: $from, on: $on, to: $to, note: $note,
                    },)*
                }
            }
        }
    };
}

transitions! {
    FlowStarted: "flow", "-", "start" => "Live(Main)", "every step instance of the definition is written";
    FlowQueued: "flow", "-", "start, its concurrency group is full" => "Queued", "tried again when a place is free";
    FlowQueuedAgain: "flow", "Queued", "Alarm, the group is still full" => "Queued", "with who is in it now";
    FlowUnqueued: "flow", "Queued", "Alarm, the group has a place" => "Live(Main)", "";
    FlowSkippedGroup: "flow", "-", "start, the group is full, `on_limit: skip`" => "Finished(Cancelled)", "";
    FlowCancelsGroup: "flow", "- or Queued", "the group is full, `on_limit: cancel_running`" => "Queued", "those in it are asked to end";
    FlowUnqueuedCancelled: "flow", "Queued", "Cancel" => "Finished(Cancelled)", "nothing of it had begun";
    FlowGroupError: "flow", "-", "start, the group's name has no value" => "Finished(Failed)", "";
    FlowHeld: "flow", "Live", "Hold" => "Live(held)", "nothing new starts, also in its child flows; what runs goes on";
    FlowLifted: "flow", "Live(held)", "Lift, or Alarm at the end of the hold" => "Live", "";
    FlowWallEnds: "flow", "Live", "a wall is reached, `on_exhausted: fail`" => "Live(stop: Exhausted)", "as a cancel; `finally` still runs";
    FlowWallWaits: "flow", "Live", "a wall is reached, `on_exhausted: wait`" => "Live(held)", "a request to raise it is opened";
    FlowWallRaised: "flow", "Live(held)", "Answer(Approved) to a wall" => "Live", "each limit counts once more";
    FlowWallKept: "flow", "Live(held)", "Answer(Denied) to a wall, or its deadline" => "Live(stop: Exhausted)", "";
    FlowExhausted: "flow", "Live(stop: Exhausted)", "last step finished" => "Finished(BudgetExhausted)", "";
    FlowOutputError: "flow", "Live", "last step finished, an output has no value" => "Finished(Failed)", "the parent would get less than it was promised";
    FlowCancelled: "flow", "Live(stop: None)", "Cancel" => "Live(stop: Cancel)", "nothing new starts, runs get TERM, grace, KILL; `finally` still runs";
    FlowForced: "flow", "Live(stop: Cancel)", "Cancel" => "Live(stop: Force)", "everything is killed, `finally` too";
    FlowForcedAtOnce: "flow", "Live(stop: None)", "Cancel(force)" => "Live(stop: Force)", "as a second cancel";
    FlowCancelRepeated: "flow", "Live(stop: Force)", "Cancel" => "Live(stop: Force)", "nothing left to ask for";
    FlowFinally: "flow", "Live(Main)", "last main step finished" => "Live(Finally)", "with its own deadline, also after a cancel";
    FlowFinallyDeadline: "flow", "Live(Finally)", "Alarm at its deadline" => "Live(Finally)", "what is left of `finally` is ended";
    FlowSucceeded: "flow", "Live", "last step finished" => "Finished(Succeeded)", "";
    FlowFailed: "flow", "Live", "last step finished, one failed" => "Finished(Failed)", "a step failed without `continue_on_fail`";
    FlowCancelledFinished: "flow", "Live(stop: Cancel or Force)", "last step finished" => "Finished(Cancelled)", "";
    FlowFinal: "flow", "Finished", "anything" => "Finished", "final is final";
    StepReady: "step", "Blocked", "last direct parent finished, `if` holds" => "Ready", "";
    StepSkippedCondition: "step", "Blocked", "last direct parent finished, `if` is false" => "Finished(Skipped)", "";
    StepSkippedParent: "step", "Blocked", "last direct parent finished, one not accepted" => "Finished(Skipped)", "the parent is named";
    StepConditionError: "step", "Blocked", "`if` has no value" => "Finished(Failed)", "";
    StepExpanded: "step", "Blocked", "`foreach` gave a list" => "Waiting(Children)", "elements are written by pages";
    StepExpandedEmpty: "step", "Blocked", "`foreach` gave an empty list" => "Finished(NoChange)", "";
    StepExpansionFailed: "step", "Blocked", "`foreach` gave no list, or one too large" => "Finished(Failed)", "";
    StepPage: "step", "Waiting(Children)", "more elements to write" => "Waiting(Children)", "a join waits until all are written";
    StepTakenOver: "step", "-", "start of a retry" => "Finished", "its result is taken over from the flow before";
    StepStarted: "step", "Ready", "a slot is free" => "Active", "";
    StepStartError: "step", "Ready", "an expression of its command has no value" => "Finished(Failed)", "";
    StepHeldSlot: "step", "Ready", "no slot is free" => "Ready(held by slot)", "";
    StepHeldGroup: "step", "Ready", "its concurrency group is full" => "Ready(held by group)", "";
    StepSkippedGroup: "step", "Ready", "its group is full, `on_limit: skip`" => "Finished(Skipped)", "";
    StepHeld: "step", "any", "Hold" => "(held)", "it does not start, nor what is below it";
    StepLifted: "step", "(held)", "Lift, or Alarm at the end of the hold" => "any", "";
    RoundStarted: "step", "Ready", "`repeat`" => "Waiting(Round)", "the steps of the body are written";
    RoundAgain: "step", "Waiting(Round)", "last step of the round finished, `until` is false" => "Waiting(Round)", "the next round is written";
    RepeatSucceeded: "step", "Waiting(Round)", "last step of the round finished, `until` holds" => "Finished(Succeeded)", "also after the last round, without `until`";
    RepeatFailed: "step", "Waiting(Round)", "last step of the round finished, one failed" => "Finished(Failed)", "";
    RepeatOver: "step", "Waiting(Round)", "last step of the last round finished, `until` is false" => "Finished(Failed)", "";
    RepeatNoProgress: "step", "Waiting(Round)", "last step of the round finished, `until` is false, trees and outputs are those of the round before" => "Finished(Failed)", "";
    StepJoins: "step", "Waiting(Children)", "last element finished, their trees differ" => "Ready", "its next run merges them";
    StepJoined: "step", "Active", "its run merged the trees of its elements" => "Finished(Succeeded)", "";
    StepContradicts: "step", "Active", "run failed (conflict), `on_conflict`" => "Ready", "its next run is that agent's, in a copy that holds the conflict";
    StepResolved: "step", "Active", "the run of `on_conflict` delivered" => "Ready or Finished(Succeeded)", "a fan-out is over, any other step starts from what was brought together";
    RepeatUntilError: "step", "Waiting(Round)", "`until` has no value" => "Finished(Failed)", "";
    RepeatCancelled: "step", "Waiting(Round)", "last step of the round finished, no longer wanted" => "Finished(Cancelled)", "";
    ChildStarted: "step", "Ready", "`pipeline`" => "Waiting(Flow)", "StartFlow";
    ChildAgain: "step", "Waiting(Flow)", "Alarm" => "Waiting(Flow)", "its child is asked for again: it is there, is started, or has ended";
    ChildSucceeded: "step", "Waiting(Flow)", "ChildEnded(Succeeded)" => "Finished(Succeeded)", "with the outputs of the child";
    ChildRetried: "step", "Waiting(Flow)", "ChildEnded(not Succeeded), attempts left" => "Ready(not before)", "";
    ChildFailed: "step", "Waiting(Flow)", "ChildEnded(not Succeeded), no attempt left" => "Finished(Failed)", "";
    ChildStop: "step", "Waiting(Flow)", "it is no longer wanted" => "Waiting(Flow)", "Tell(Cancel)";
    ChildStopped: "step", "Waiting(Flow)", "ChildEnded after it was no longer wanted" => "Finished(Cancelled)", "";
    ChildStray: "step", "any other", "ChildEnded" => "the same", "it waits for no such child";
    RequestOpened: "step", "Ready", "`approval`" => "Waiting(Request)", "";
    RequestAsked: "step", "Active", "run says that it is blocked" => "Waiting(Request)", "its question is put to people";
    RequestApproved: "step", "Waiting(Request)", "Answer(Approved)" => "Finished(Succeeded) or Ready", "a question: the next run is woken with the answer";
    RequestDenied: "step", "Waiting(Request)", "Answer(Denied)" => "Finished(Failed)", "";
    PermissionGranted: "step", "Waiting(Request)", "Answer(Approved) to a call" => "Ready", "the next run makes that call";
    PermissionRefused: "step", "Waiting(Request)", "Answer(Denied) to a call" => "Ready", "the next run is told why";
    RequestDeadline: "step", "Waiting(Request)", "Alarm at its deadline" => "Finished", "as `on_timeout` says";
    RequestReminded: "step", "Waiting(Request)", "Alarm at a reminder or tier" => "Waiting(Request)", "people are told again";
    RequestWithdrawn: "step", "Waiting(Request)", "it is no longer wanted" => "Finished(Cancelled)", "";
    AnswerRefused: "step", "any", "Answer that does not count" => "the same", "of a stranger, twice, or to something else";
    WaitBegun: "step", "Ready", "`wait`" => "Waiting(Until or Event)", "";
    WaitOver: "step", "Waiting(Until)", "Alarm at its time" => "Finished(Succeeded)", "";
    WaitHappened: "step", "Waiting(Event)", "Happened" => "Finished(Succeeded)", "";
    WaitInVain: "step", "Waiting(Event)", "Alarm at its deadline" => "Finished(Failed)", "";
    WaitEnded: "step", "Waiting(Until or Event)", "it is no longer wanted" => "Finished(Cancelled)", "";
    StepReminded: "step", "Active", "run ended without what it owes, reminders left" => "Ready", "it is told what is missing";
    StepUpstream: "step", "Active", "run failed (transientUpstream), waits left" => "Ready(not before)", "2 min, 10 min, 30 min, 2 h; holds no slot";
    StepPaused: "step", "Active", "its paused run ended" => "Ready", "wake reason recovery; held until it is lifted, uses up no attempt";
    StepParked: "step", "Active", "its parked run ended" => "Ready(not before)", "wake reason recovery; holds no slot, uses up no attempt";
    StepAtWall: "step", "Active", "its run ended at a wall of its flow that may be raised" => "Ready", "wake reason recovery; held until it is raised";
    StepSilentAgain: "step", "Active", "run fell silent, fewer than 3 times" => "Ready", "wake reason recovery";
    StepSilentTooOften: "step", "Active", "run fell silent for the third time" => "Finished(Failed)", "";
    StepWoken: "step", "Waiting(Request)", "Message" => "Ready", "an answer to its question, in a conversation";
    MessageSteers: "step", "Active, run Running of the built-in agent", "Message" => "the same", "its run reads it at its next turn";
    MessageKept: "step", "any but Finished", "Message" => "the same", "its next run takes it";
    MessageLate: "step", "Finished, or no agent's", "Message" => "the same", "nobody will read it";
    StepHeldLimit: "step", "Ready", "`limit` of its fan-out is reached" => "Ready(held by limit)", "";
    StepSucceeded: "step", "Active", "run delivered" => "Finished(Succeeded)", "";
    StepRetry: "step", "Active", "run failed, attempts left" => "Ready(not before)", "back-off doubles, plus jitter";
    StepFailed: "step", "Active", "run failed, no attempt left" => "Finished(Failed)", "";
    StepRecovered: "step", "Active", "run lost" => "Ready", "wake reason recovery; the user's retries are not used up";
    StepNeverBegan: "step", "Active", "run lost before its start was claimed" => "Ready", "nothing was started, so nothing is counted";
    StepQuarantined: "step", "Active", "run lost too often" => "Finished(Failed)", "";
    StepLostNotIdempotent: "step", "Active", "run lost, `idempotent: false`" => "Finished(Failed)", "a person must decide";
    StepCancelled: "step", "Blocked or Ready", "flow cancelled" => "Finished(Cancelled)", "";
    StepStopped: "step", "Active", "run ended after it was asked to" => "Finished(Cancelled)", "";
    ElementFailFast: "step", "Ready", "a sibling failed under `fail_fast`" => "Finished(Cancelled)", "";
    GroupSucceeded: "step", "Waiting(Children)", "last element finished" => "Finished(Succeeded)", "";
    GroupFailed: "step", "Waiting(Children)", "last element finished, one failed" => "Finished(Failed)", "";
    GroupCancelled: "step", "Waiting(Children)", "last element finished, cancelled" => "Finished(Cancelled)", "";
    RunStarted: "run", "Pending", "RunStarted" => "Running", "";
    RunStartedStopping: "run", "Pending(stop)", "RunStarted" => "Running(stop)", "the stop is asked again";
    RunStop: "run", "Pending or Running", "it is no longer wanted" => "(stop)", "StopRun with grace";
    RunStopForced: "run", "(stop)", "second cancel" => "(stop, forced)", "StopRun without grace";
    RunStopAgain: "run", "(stop)", "Alarm" => "(stop, forced)", "the end was not confirmed in time";
    RunTimeout: "run", "Running", "Alarm at its deadline" => "Running(stop)", "";
    RunStartDeadline: "run", "Pending", "Alarm at its deadline" => "Pending(stop)", "no start was confirmed";
    RunViolated: "run", "Pending or Running", "RunViolated" => "the same", "what its box refused is told";
    RunDelivered: "run", "Pending or Running", "RunEnded(Delivered)" => "Finished(Delivered)", "also when a stop came too late: what happened counts";
    RunFailed: "run", "Pending or Running", "RunEnded(Failed)" => "Finished(Failed)", "";
    RunTimedOut: "run", "(stop: Timeout)", "RunEnded(Failed)" => "Finished(Failed(timeout))", "";
    RunCancelled: "run", "(stop)", "RunEnded(Failed)" => "Finished(Cancelled)", "";
    RunSilence: "run", "Running", "Alarm, it said nothing for too long" => "Running(stop)", "";
    RunLooping: "run", "Running", "RunHeard, it does the same again and again" => "Running(stop)", "";
    RunHeard: "run", "Running", "RunHeard" => "Running", "when it spoke last, what it used";
    RunWall: "run", "Running", "a wall is reached" => "Running(stop)", "";
    RunFlowWall: "run", "Running", "CallRefused at a wall of its flow, `on_exhausted: wait`" => "Running(stop)", "";
    RunPaused: "run", "Running of the built-in agent", "Hold" => "Running(stop)", "it ends at its next turn";
    RunParked: "run", "Running", "RunParked" => "Running(stop)", "its provider takes no calls";
    RunNoDeliverable: "run", "Pending or Running", "RunEnded(NoDeliverable)" => "Finished(NoDeliverable)", "";
    RunBlocked: "run", "Pending or Running", "RunEnded(Blocked)" => "Finished(Blocked)", "";
    RunStoppedFailed: "run", "(stop: Silence, Looping or Wall)", "RunEnded" => "Finished(Failed)", "with the family of the reason";
    RunLost: "run", "Pending or Running", "RunLost" => "Finished(Failed(processLost))", "";
    RunLostStopping: "run", "(stop)", "RunLost" => "Finished(Cancelled)", "nobody wanted it any more";
    RunFenced: "run", "Finished or unknown", "anything" => "Finished", "an answer of a run that is over changes nothing";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_rows_are_distinct() {
        let mut rows: Vec<_> = Transition::ALL
            .iter()
            .map(|t| {
                let row = t.row();
                (row.machine, row.from, row.on)
            })
            .collect();
        rows.sort_unstable();
        let before = rows.len();
        rows.dedup();
        assert_eq!(rows.len(), before);
    }
}
