//! What the life and the end of an agent's run mean for its step: reminders of what it owes, questions to people, silence,
//! bad moments of a service outside, messages that no run has read.

use orc_domain::agent::{Statistics, Usage};
use orc_domain::effect::EffectKind;
use orc_domain::event::Fact;
use orc_domain::flow::{StepNo, StepOutcome, StepState};
use orc_domain::graph::Action;
use orc_domain::ids::{MessageId, RunId};
use orc_domain::input::Told;
use orc_domain::path::StepPath;
use orc_domain::permission::{AskedCall, Scope};
use orc_domain::principal::Principal;
use orc_domain::profile::Adapter;
use orc_domain::request::{Answer, RequestKind};
use orc_domain::run::{
    AgentRun, AgentStop, Cause, ErrorFamily, Failure, Message, RunOutcome, RunState, StopReason, WakeReason,
};
use orc_domain::time::Millis;
use orc_domain::transition::Transition;
use orc_domain::wait::Wait;

use crate::draft::Draft;
use crate::inputs::failed;
use crate::retry::{jitter_of, spread};

/// A step whose agent fell silent this often fails.
pub const MAX_SILENCES: u32 = 3;
/// Waits before another attempt after a service outside had a bad moment, each plus up to a quarter; then the step's own
/// `retry:` decides.
pub const UPSTREAM_WAITS: [Millis; 4] =
    [Millis::from_secs(120), Millis::from_secs(600), Millis::from_secs(1800), Millis::from_secs(7200)];

impl Draft<'_> {
    /// A run says that it lives, and what it used.
    pub(crate) fn run_heard(&mut self, no: StepNo, id: RunId, (statistics, usage): (Statistics, Usage), looping: bool) {
        self.take(Transition::RunHeard);
        self.note_usage(no, id, usage);
        self.edit_run(no, id, |run| {
            // Told out of order, what was known before is no news.
            if let Some(agent) = run.agent.as_mut().filter(|agent| agent.statistics.bytes <= statistics.bytes) {
                agent.statistics = statistics;
            }
        });
        if looping && self.stopping(id).is_none() {
            self.take(Transition::RunLooping);
            self.ask_to_stop(no, id, StopReason::Looping, false);
        }
        self.check_step_wall(no, id);
    }

    /// What is known of an agent at the end of its run.
    pub(crate) fn note_told(&mut self, no: StepNo, id: RunId, told: &Told) {
        self.note_usage(no, id, told.usage);
        let told = told.clone();
        self.edit_run(no, id, |run| {
            if let Some(agent) = &mut run.agent {
                agent.answer = told.answer;
                agent.stop = told.stop;
                agent.statistics = told.statistics;
            }
        });
    }

    /// Adds what a run used since it was heard last to what the flow used. Counts that go back are not believed.
    fn note_usage(&mut self, no: StepNo, id: RunId, usage: Usage) {
        let Some(before) = self.resident.flow.runs.get(&id).and_then(|run| run.agent.as_ref()).map(|agent| agent.usage)
        else {
            return;
        };
        let (usage, more) = grown(before, usage);
        if more == Usage::default() {
            return;
        }
        self.edit_run(no, id, |run| {
            if let Some(agent) = &mut run.agent {
                agent.usage = usage;
            }
        });
        self.edit_head(|head| head.usage = head.usage.plus(more));
    }

    /// The end of an agent's run, its last message with it.
    pub(crate) fn tell_agent_end(
        &mut self,
        path: StepPath,
        run: RunId,
        (attempt, agent): (u32, AgentRun),
        outcome: RunOutcome,
    ) {
        let AgentRun { agent, usage, answer, .. } = agent;
        if let Some(text) = answer {
            let (message, from) = (MessageId::derived(run.uuid(), "answer"), Principal::Agent(agent.clone()));
            self.tell(Fact::MessageReceived { path: path.clone(), message, from, text });
        }
        self.tell(Fact::AgentRunCompleted { path, run, attempt, agent, outcome, usage });
    }

    /// It ended well and owes something: it is told so, as often as its profile says.
    pub(crate) fn run_owes(&mut self, no: StepNo, id: RunId, missing: &str) {
        if self.is_unwanted_run(id) {
            return self.run_failed(no, id, failed(ErrorFamily::Unknown, Cause::Missing));
        }
        self.take(Transition::RunNoDeliverable);
        let outcome = RunOutcome::NoDeliverable { missing: missing.to_owned() };
        self.note_stop(no, id, AgentStop::Contract);
        self.finish_run(no, id, outcome);
        let reminders = self.profile(no).map_or(0, |profile| profile.max_messages);
        if self.step(no).reminders >= reminders || !self.is_wanted(no) {
            let failure = Failure { family: ErrorFamily::Unknown, cause: Cause::Missing, detail: missing.to_owned() };
            self.take(Transition::StepFailed);
            self.finish(no, StepOutcome::Failed(failure));
            return;
        }
        self.take(Transition::StepReminded);
        let message = Message {
            id: MessageId::derived(id.uuid(), "owes"),
            from: Principal::System,
            at: self.now,
            text: format!("Your last run ended without what it owes: {missing}. Go on from there and submit it."),
            answer: None,
        };
        self.edit(no, |step| {
            step.reminders += 1;
            step.inbox.push(message);
        });
        self.make_ready(no, self.now, WakeReason::PipelineStep);
    }

    /// Whether a run was asked to end. One whose start was only not heard of in time ended as it did.
    fn is_unwanted_run(&self, id: RunId) -> bool {
        self.stopping(id).is_some_and(|reason| reason != StopReason::StartDeadline)
    }

    /// It says that it cannot go on: its question is put to people.
    pub(crate) fn run_blocked(&mut self, no: StepNo, id: RunId, why: &str, call: Option<&AskedCall>) {
        if self.is_unwanted_run(id) {
            return self.run_failed(no, id, failed(ErrorFamily::Unknown, Cause::Blocked));
        }
        self.take(Transition::RunBlocked);
        self.finish_run(no, id, RunOutcome::Blocked { why: why.to_owned(), call: call.cloned() });
        if !self.is_wanted(no) {
            self.take(Transition::StepStopped);
            return self.finish(no, StepOutcome::Cancelled);
        }
        // A message is no answer to whether a call may run: it is read with that.
        if call.is_none() && self.wakes_again(no) {
            return;
        }
        self.take(Transition::RequestAsked);
        let kind = match call {
            Some(call) => RequestKind::Permission { run: id, call: call.clone() },
            None => RequestKind::Question { run: id },
        };
        self.open_question(no, id, (kind, why));
    }

    /// A run ended after it was asked to for a reason of its own.
    pub(crate) fn stopped_for(&mut self, no: StepNo, id: RunId, reason: StopReason) {
        let agent = self.resident.flow.runs.get(&id).and_then(|run| run.agent.as_ref());
        let (silence, short) = (agent.map(|agent| agent.silence), agent.and_then(|agent| agent.short));
        let (family, cause, stop) = match reason {
            StopReason::Silence => {
                let cause = Cause::Silent(silence.unwrap_or(Millis::ZERO));
                (ErrorFamily::SilentRun, cause, AgentStop::Silence)
            }
            StopReason::Wall(wall) => (ErrorFamily::BudgetExceeded, Cause::Wall(wall), AgentStop::Spend),
            _ => (ErrorFamily::Unknown, Cause::Looping, AgentStop::Looping),
        };
        let detail = match reason {
            StopReason::Wall(wall) => short.map_or_else(String::new, |short| short.told(wall)),
            _ => String::new(),
        };
        let failure = Failure { detail, ..failed(family, cause) };
        self.take(Transition::RunStoppedFailed);
        self.note_stop(no, id, stop);
        self.finish_run(no, id, RunOutcome::Failed(failure.clone()));
        self.after_failure(no, id, failure);
    }

    fn note_stop(&mut self, no: StepNo, id: RunId, stop: AgentStop) {
        self.edit_run(no, id, |run| {
            if let Some(agent) = &mut run.agent {
                agent.stop = Some(stop);
            }
        });
    }

    /// What a failed run means: the family alone decides.
    pub(crate) fn after_failure(&mut self, no: StepNo, id: RunId, failure: Failure) {
        let wanted = self.is_wanted(no);
        if matches!(failure.cause, Cause::Conflict(_)) {
            return self.contradicts(no, failure);
        }
        match failure.family {
            ErrorFamily::SilentRun if wanted => {
                self.edit(no, |step| step.silences += 1);
                if self.step(no).silences >= MAX_SILENCES {
                    self.take(Transition::StepSilentTooOften);
                    return self.finish(no, StepOutcome::Failed(failure));
                }
                self.take(Transition::StepSilentAgain);
                self.make_ready(no, self.now, WakeReason::Recovery { lost: id });
            }
            ErrorFamily::TransientUpstream if wanted => {
                let wait = UPSTREAM_WAITS.get(self.step(no).upstream as usize).copied();
                let Some(wait) = wait else {
                    return self.retry_or_fail(no, failure);
                };
                self.edit(no, |step| step.upstream += 1);
                self.take(Transition::StepUpstream);
                let step = self.step(no);
                let jitter = jitter_of(self.resident.flow.spec.id.uuid(), step.path.as_str());
                let not_before = self.now + spread(wait, step.upstream, jitter);
                let (path, attempt) = (step.path.clone(), step.attempts + 1);
                self.tell(Fact::RetryPlanned { path, attempt, not_before });
                self.make_ready(no, not_before, WakeReason::PipelineStep);
            }
            ErrorFamily::BudgetExceeded => {
                self.take(Transition::StepFailed);
                self.finish(no, StepOutcome::Failed(failure));
            }
            ErrorFamily::SilentRun
            | ErrorFamily::TransientUpstream
            | ErrorFamily::SandboxInfrastructure
            | ErrorFamily::ProcessLost
            | ErrorFamily::PolicyDenied
            | ErrorFamily::Unknown => self.retry_or_fail(no, failure),
        }
    }

    /// Messages that came while it ran are read by another run. True when there is one.
    pub(crate) fn wakes_again(&mut self, no: StepNo) -> bool {
        let Some(message) = self.step(no).inbox.first().map(|message| message.id) else {
            return false;
        };
        if !self.is_wanted(no) {
            return false;
        }
        self.take(Transition::StepWoken);
        self.make_ready(no, self.now, WakeReason::UserMessage { message });
        true
    }

    /// Somebody writes to the agent of a step.
    pub(crate) fn message(&mut self, path: &StepPath, id: MessageId, text: &str) {
        let found = self.resident.flow.steps.iter().find(|step| step.path == *path);
        // A fan-out has no conversation, each of its elements has one; but who resolves a conflict has one in any case.
        let wanted = |no: &StepNo| {
            let is_agent = matches!(self.spec(*no).action, Action::Agent(_)) && !self.joins(*no);
            (is_agent || self.step(*no).merging.is_contradicting()) && self.resident.is_open()
        };
        let open = found.filter(|step| !matches!(step.state, StepState::Finished { .. })).map(|step| step.no);
        let Some(no) = open.filter(wanted) else {
            return self.take(Transition::MessageLate);
        };
        if self.step(no).heard.contains(&id) {
            return;
        }
        let message = Message { id, from: self.by.clone(), at: self.now, text: text.to_owned(), answer: None };
        let (from, text) = (message.from.clone(), message.text.clone());
        self.tell(Fact::MessageReceived { path: path.clone(), message: id, from, text });
        self.edit(no, |step| {
            step.heard.insert(id);
        });
        if let Some(run) = self.steerable(no) {
            // A run that is lost gives back what it took.
            let copy = message.clone();
            self.edit_run(no, run, |run| run.agent.iter_mut().for_each(|agent| agent.messages.push(copy.clone())));
            self.effect(run.uuid(), &format!("write {id}"), EffectKind::WriteRun { run, message });
            return self.take(Transition::MessageSteers);
        }
        self.edit(no, |step| step.inbox.push(message));
        match self.step(no).state {
            StepState::Waiting(Wait::Request { request }) => {
                if let Some(question) = self.open_request(request, |kind| matches!(kind, RequestKind::Question { .. }))
                {
                    self.resolve(question, (Answer::Approved, Scope::Call), "answered by a message");
                    self.take(Transition::StepWoken);
                    self.make_ready(no, self.now, WakeReason::UserMessage { message: id });
                }
            }
            _ => self.take(Transition::MessageKept),
        }
    }

    /// The run of a step that can be written to while it goes on.
    pub(crate) fn steerable(&self, no: StepNo) -> Option<RunId> {
        let StepState::Active { run } = self.step(no).state else { return None };
        let goes_on = matches!(self.resident.flow.runs.get(&run)?.state, RunState::Running { stop: None, .. });
        let reads = self.profile(no).is_some_and(|profile| matches!(profile.adapter, Adapter::BuiltIn(_)));
        (goes_on && reads).then_some(run)
    }

    /// A run was heard too long ago. True when it was asked to end.
    pub(crate) fn fell_silent(&mut self, no: StepNo, id: RunId) -> bool {
        let Some(run) = self.resident.flow.runs.get(&id) else { return false };
        let silent = crate::index::silent_at(run).is_some_and(|at| at <= self.now);
        if !silent || !matches!(run.state, RunState::Running { .. }) {
            return false;
        }
        self.take(Transition::RunSilence);
        self.ask_to_stop(no, id, StopReason::Silence, false);
        true
    }
}

/// The later of two counts that only grow, and what is new in it.
fn grown(before: Usage, now: Usage) -> (Usage, Usage) {
    use orc_domain::money::UsdMicros;
    let cost = now.cost.max(before.cost);
    let usage = Usage {
        calls: now.calls.max(before.calls),
        tool_calls: now.tool_calls.max(before.tool_calls),
        input: now.input.max(before.input),
        output: now.output.max(before.output),
        reasoning: now.reasoning.max(before.reasoning),
        cache_read: now.cache_read.max(before.cache_read),
        cache_write: now.cache_write.max(before.cache_write),
        cost,
    };
    let more = Usage {
        calls: usage.calls - before.calls,
        tool_calls: usage.tool_calls - before.tool_calls,
        input: usage.input - before.input,
        output: usage.output - before.output,
        reasoning: usage.reasoning - before.reasoning,
        cache_read: usage.cache_read - before.cache_read,
        cache_write: usage.cache_write - before.cache_write,
        cost: UsdMicros::from_micros(cost.as_micros() - before.cost.as_micros()),
    };
    (usage, more)
}
