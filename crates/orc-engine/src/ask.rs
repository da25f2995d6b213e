//! Requests: an approval step, a question of an agent, a wall that was reached. Opened here, answered once, reminded of,
//! and closed at their deadline.

use std::collections::BTreeMap;

use orc_domain::action::{ApprovalAction, DEFAULT_APPROVAL_TIMEOUT, OnTimeout};
use orc_domain::budget::Wall;
use orc_domain::effect::EffectKind;
use orc_domain::event::Fact;
use orc_domain::flow::{StepNo, StepOutcome, StepState};
use orc_domain::ids::{ContentHash, MessageId, RequestId, RunId};
use orc_domain::meter::Shortfall;
use orc_domain::permission::{AskedCall, CallAnswer, KeptRule, Lasting, Scope};
use orc_domain::principal::Principal;
use orc_domain::request::{Answer, Request, RequestKind, RequestState, Standing};
use orc_domain::run::{Cause, ErrorFamily, Failure, Message, WakeReason};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_domain::wait::Wait;

use crate::draft::Draft;
use crate::scope::StepScope;

/// What of a request is not the same for all of them.
pub(crate) struct Question {
    pub(crate) label: String,
    pub(crate) step: Option<StepNo>,
    pub(crate) kind: RequestKind,
    pub(crate) message: String,
    pub(crate) timeout: Millis,
}

impl Draft<'_> {
    /// Puts an approval step to people.
    pub(crate) fn begin_approval(&mut self, no: StepNo, action: &ApprovalAction) -> Result<(), String> {
        let scope = StepScope::of(&self.resident, no).with_env()?;
        let message = match &action.message {
            Some(message) => {
                message.render(&scope).map_err(|error| format!("approval.message: {error}"))?.to_text().text
            }
            None => format!("May `{}` of `{}` go on?", self.step(no).path, self.resident.flow.spec.name),
        };
        let (label, kind) = (format!("{}#approval", self.step(no).path), RequestKind::Approval);
        let asked = self.request(Question { label, step: Some(no), kind, message, timeout: action.timeout });
        let mut request = Request {
            by: action.by.clone(),
            tiers: action.tiers.clone(),
            remind: action.remind,
            on_timeout: action.on_timeout,
            four_eyes: action.four_eyes,
            ..asked
        };
        let tell_at = next_telling(&request, self.now, 0);
        if let RequestState::Open { tell_at: at, .. } = &mut request.state {
            *at = tell_at;
        }
        self.take(Transition::RequestOpened);
        self.wait_for_request(no, request);
        Ok(())
    }

    /// Puts the question of an agent to people, or whether a call of it may run.
    pub(crate) fn open_question(&mut self, no: StepNo, run: RunId, (kind, why): (RequestKind, &str)) {
        let label = format!("{}#{run}", self.step(no).path);
        let (message, timeout) = (why.to_owned(), DEFAULT_APPROVAL_TIMEOUT);
        let request = self.request(Question { label, step: Some(no), kind, message, timeout });
        // People may take their time: nobody else waits for its places meanwhile.
        self.leave_places(no);
        self.wait_for_request(no, request);
    }

    fn wait_for_request(&mut self, no: StepNo, request: Request) {
        let id = request.id;
        self.open(request);
        self.set_state(no, StepState::Waiting(Wait::Request { request: id }));
    }

    /// A request that the role admin may answer and that is denied at its deadline.
    pub(crate) fn request(&self, question: Question) -> Request {
        let Question { label, step, kind, message, timeout } = question;
        let deadline = self.now + timeout;
        let mut subject = format!("{label}\n{}\n{message}", kind.word());
        if let RequestKind::Permission { call, .. } = &kind {
            subject.push_str(&format!("\n{}", call.subject));
        }
        if let (Some(no), RequestKind::Approval) = (step, &kind) {
            subject.push_str(&self.commits_before(no));
        }
        let subject = ContentHash::of(subject.as_bytes());
        Request {
            id: RequestId::derived(self.flow_id().uuid(), &label),
            flow: self.flow_id(),
            step: step.map(|no| (no, self.step(no).path.clone())),
            kind,
            message,
            subject,
            asked_by: self.resident.flow.spec.requested_by.clone(),
            four_eyes: false,
            by: Vec::new(),
            tiers: Vec::new(),
            remind: None,
            on_timeout: OnTimeout::Deny,
            state: RequestState::Open { since: self.now, deadline, tell_at: None, tier: 0 },
        }
    }

    pub(crate) fn open(&mut self, request: Request) {
        let RequestState::Open { deadline, .. } = request.state else { return };
        self.tell(Fact::RequestOpened {
            path: request.step.as_ref().map(|(_, path)| path.clone()),
            request: request.id,
            kind: request.kind.word().to_owned(),
            message: request.message.clone(),
            by: request.by.clone(),
            deadline,
        });
        self.put_request(request);
    }

    /// An open request of a kind that is meant.
    pub(crate) fn open_request(&self, id: RequestId, is_meant: impl Fn(&RequestKind) -> bool) -> Option<Request> {
        self.resident.flow.requests.get(&id).filter(|request| is_meant(&request.kind)).cloned()
    }

    /// Writes an answer down.
    pub(crate) fn resolve(&mut self, request: Request, (answer, scope): (Answer, Scope), reason: &str) {
        let path = request.step.as_ref().map(|(_, path)| path.clone());
        let (by, reason) = (self.by.clone(), reason.to_owned());
        self.tell(Fact::RequestResolved { path, request: request.id, answer, scope, reason: reason.clone() });
        let state = RequestState::Resolved { at: self.now, by, answer, scope, reason };
        self.put_request(Request { state, ..request });
    }

    /// Somebody answers.
    pub(crate) fn answered(
        &mut self,
        id: RequestId,
        (answer, scope): (Answer, Scope),
        (standing, subject): (&Standing, Option<&ContentHash>),
        reason: &str,
    ) {
        let counts = self.resident.check_answer(id, self.by, standing, (subject, scope)).is_ok();
        let Some(request) = self.open_request(id, |_| counts && answer != Answer::Withdrawn) else {
            return self.take(Transition::AnswerRefused);
        };
        self.resolve(request.clone(), (answer, scope), reason);
        self.follow_answer(&request, (answer, scope), reason);
    }

    /// What follows from an answer, or from the deadline.
    fn follow_answer(&mut self, request: &Request, (answer, scope): (Answer, Scope), reason: &str) {
        let yes = answer == Answer::Approved;
        let Some((no, _)) = &request.step else {
            return self.wall_answered(yes);
        };
        let no = *no;
        if !matches!(&self.step(no).state, StepState::Waiting(Wait::Request { request: id }) if *id == request.id) {
            return;
        }
        let cause = Cause::Answer { by: self.by.clone(), answer };
        let denied = Failure { family: ErrorFamily::PolicyDenied, cause, detail: reason.to_owned() };
        match (&request.kind, yes) {
            (RequestKind::Question { run }, true) => {
                self.take(Transition::RequestApproved);
                let id = MessageId::derived(run.uuid(), "answered");
                let text = if reason.is_empty() { "Go on.".to_owned() } else { reason.to_owned() };
                self.wake_with(no, Message { id, from: self.by.clone(), at: self.now, text, answer: None });
            }
            // A no is an answer, too: the agent is told why, and goes on without that call.
            (RequestKind::Permission { run, call }, granted) => {
                self.take(if granted { Transition::PermissionGranted } else { Transition::PermissionRefused });
                let id = MessageId::derived(run.uuid(), "answered");
                // A no of somebody stays; that nobody was there does not.
                let scope = if granted || *self.by == Principal::System { scope } else { scope.max(Scope::Run) };
                let answer = Some(CallAnswer { call: call.clone(), granted, scope });
                self.keep_rule(request.id, call, (granted, scope), reason);
                let text = reason.to_owned();
                self.wake_with(no, Message { id, from: self.by.clone(), at: self.now, text, answer });
            }
            (_, true) => {
                self.take(Transition::RequestApproved);
                let output = self.answer_output(answer, reason);
                self.edit(no, |step| step.output = Some(output));
                self.finish(no, StepOutcome::Succeeded);
            }
            (_, false) => {
                self.take(Transition::RequestDenied);
                self.finish(no, StepOutcome::Failed(denied));
            }
        }
    }

    /// An answer for ever leaves a rule.
    fn keep_rule(&mut self, request: RequestId, call: &AskedCall, (granted, scope): (bool, Scope), reason: &str) {
        let (Scope::Forever, Lasting::Rule { agent, rule }) = (scope, &call.lasting) else { return };
        let (agent, rule, by) = (agent.clone(), rule.clone(), self.by.clone());
        let kept = KeptRule { agent, rule, granted, by, at: self.now, request, reason: reason.to_owned() };
        self.effect(request.uuid(), "rule", EffectKind::KeepRule { rule: Box::new(kept) });
    }

    /// Its agent goes on with this message.
    fn wake_with(&mut self, no: StepNo, message: Message) {
        let (path, id, from) = (self.step(no).path.clone(), message.id, message.from.clone());
        self.tell(Fact::MessageReceived { path, message: id, from, text: message.text.clone() });
        self.edit(no, |step| step.inbox.push(message));
        self.make_ready(no, self.now, WakeReason::UserMessage { message: id });
    }

    /// `steps.approve.output`: what was answered, by whom, why.
    fn answer_output(&self, answer: Answer, reason: &str) -> Value {
        let fields = [
            ("answer", Value::text(answer.word())),
            ("by", Value::text(self.by.to_string())),
            ("at", Value::text(self.now.to_string())),
            ("reason", Value::text(reason).tainted()),
        ];
        Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<BTreeMap<_, _>>())
    }

    /// The alarm of a request: people are told again, or it closes.
    pub(crate) fn request_alarm(&mut self, id: RequestId) {
        let Some(request) = self.open_request(id, |_| true) else { return };
        let RequestState::Open { since, deadline, tier, .. } = request.state else { return };
        if deadline <= self.now {
            self.take(Transition::RequestDeadline);
            let answer = match request.on_timeout {
                OnTimeout::Deny => Answer::Denied,
                OnTimeout::Approve => Answer::Approved,
            };
            let system = Principal::System;
            let by = std::mem::replace(&mut self.by, &SYSTEM);
            debug_assert_eq!(*self.by, system);
            let reason = format!("nobody answered within {}", deadline.since(since));
            self.resolve(request.clone(), (answer, Scope::Call), &reason);
            self.follow_answer(&request, (answer, Scope::Call), &reason);
            self.by = by;
            return;
        }
        let passed = request.tiers.iter().filter(|tier| since + tier.after <= self.now).count();
        let tier = tier.max(u32::try_from(passed).unwrap_or(u32::MAX));
        let tell_at = next_telling(&request, self.now, passed);
        let mut later = request;
        later.state = RequestState::Open { since, deadline, tell_at, tier };
        self.take(Transition::RequestReminded);
        let path = later.step.as_ref().map(|(_, path)| path.clone());
        let by = later.may_answer();
        self.tell(Fact::RequestReminded { path, request: id, by });
        self.put_request(later);
    }

    /// Requests of the flow as a whole that want to be looked at.
    pub(crate) fn fire_requests(&mut self) {
        let own = self.resident.flow.requests.values().filter(|request| request.step.is_none());
        let due = own.filter(|request| crate::index::request_alarm(request).is_some_and(|at| at <= self.now));
        let due: Vec<RequestId> = due.map(|request| request.id).collect();
        for id in due {
            self.request_alarm(id);
        }
    }

    /// Requests of the flow as a whole are no longer wanted.
    pub(crate) fn withdraw_own_requests(&mut self) {
        let own = self.resident.flow.requests.values().filter(|request| request.step.is_none());
        for request in own.cloned().collect::<Vec<_>>() {
            self.resolve(request, (Answer::Withdrawn, Scope::Call), "");
        }
    }

    /// The request about a wall, if one is open.
    pub(crate) fn wall_request(&self) -> Option<&Request> {
        self.resident.flow.requests.values().find(|request| matches!(request.kind, RequestKind::Wall(_)))
    }

    /// Asks whether a wall may be raised.
    pub(crate) fn open_wall_request(
        &mut self,
        (wall, short): (Wall, Option<Shortfall>),
        figures: &str,
        timeout: Millis,
    ) {
        let raised = self.resident.flow.head.raised;
        let figures = if figures.is_empty() { String::new() } else { format!(": {figures}") };
        let raises = match short.map_or(1, |short| short.raises(raised)) {
            1 => String::new(),
            several => format!(" That call needs it {several} times."),
        };
        let message =
            format!("The budget of `{}` is reached{figures}. Raise it by as much again?{raises}", wall.word());
        let (label, kind) = (format!("wall {}#{raised}", wall.word()), RequestKind::Wall(wall));
        let request = self.request(Question { label, step: None, kind, message, timeout });
        self.open(request);
    }
}

static SYSTEM: Principal = Principal::System;

/// When people are told next: the next reminder or the next tier, whichever is first.
fn next_telling(request: &Request, now: Timestamp, passed: usize) -> Option<Timestamp> {
    let RequestState::Open { since, .. } = request.state else { return None };
    let reminder = request.remind.map(|every| now + every);
    let tier = request.tiers.get(passed).map(|tier| since + tier.after);
    [reminder, tier].into_iter().flatten().min()
}
