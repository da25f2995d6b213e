//! Steps that wait without a run: a child flow, a time, an event of another flow.

use std::collections::BTreeMap;

use orc_domain::action::{PipelineAction, WaitAction, WaitEvent};
use orc_domain::effect::EffectKind;
use orc_domain::event::Fact;
use orc_domain::flow::{FlowOutcome, FlowSpec, Parent, StepNo, StepOutcome, StepState};
use orc_domain::hold::HoldReason;
use orc_domain::ids::FlowId;
use orc_domain::input::{Input, Signed};
use orc_domain::path::StepPath;
use orc_domain::run::{Cause, ErrorFamily, Failure, StopReason, Stopping};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::transition::Transition;
use orc_domain::tree::Tip;
use orc_domain::value::Value;
use orc_domain::wait::Wait;

use crate::alarm::STOP_MARGIN;
use crate::draft::Draft;
use crate::index::CHILD_LOOK;
use crate::inputs::failed;
use crate::scope::StepScope;

/// The id of the child flow of an attempt at a step.
#[must_use]
pub fn child_id(flow: FlowId, path: &StepPath, attempt: u32) -> FlowId {
    FlowId::derived(flow.uuid(), &format!("{path}#{attempt}"))
}

impl Draft<'_> {
    /// Starts a child flow, or carries on the one that the flow before had.
    pub(crate) fn begin_child(&mut self, no: StepNo, action: &PipelineAction) -> Result<(), String> {
        let inputs = self.child_inputs(no, action)?;
        let attempt = self.step(no).attempts + 1;
        let path = self.step(no).path.clone();
        let flow = child_id(self.flow_id(), &path, attempt);
        self.edit(no, |step| step.attempts = attempt);
        self.take(Transition::ChildStarted);
        self.tell(Fact::StepWaiting { path, on: "flow".to_owned(), what: flow.to_string() });
        let look_at = self.now + CHILD_LOOK;
        self.set_state(no, StepState::Waiting(Wait::Flow { flow, look_at, stop: None }));
        self.ask_for_child(no, flow, (action, inputs));
        Ok(())
    }

    fn child_inputs(&self, no: StepNo, action: &PipelineAction) -> Result<BTreeMap<String, Value>, String> {
        let scope = StepScope::of(&self.resident, no).with_env()?;
        let values = action.with.iter().map(|(name, template)| {
            let value = template.render(&scope).map_err(|error| format!("with.{name}: {error}"))?;
            Ok((name.clone(), value))
        });
        values.collect()
    }

    fn ask_for_child(
        &mut self,
        no: StepNo,
        flow: FlowId,
        (action, inputs): (&PipelineAction, BTreeMap<String, Value>),
    ) {
        let step = self.step(no);
        let above = &self.resident.flow;
        let first = step.attempts <= 1;
        let mut groups_above = above.spec.groups_above.clone();
        groups_above.extend(above.head.group.clone());
        groups_above.extend(self.resident.ancestry(no).flat_map(|step| step.places.iter().cloned()));
        let spec = FlowSpec {
            id: flow,
            workspace: above.spec.workspace,
            pipeline: action.pipeline.clone(),
            name: action.name.clone(),
            inputs,
            directory: above.spec.directory.clone(),
            repositories: above.spec.repositories.clone(),
            from: self.starts_from(no),
            requested_by: above.spec.requested_by.clone(),
            created_at: step.since,
            retry_of: above.spec.carried.get(&step.path).copied().filter(|_| first),
            taken_over: BTreeMap::new(),
            carried: BTreeMap::new(),
            parent: Some(Parent { flow: above.spec.id, no, path: step.path.clone() }),
            groups_above,
            priority: above.spec.priority.saturating_add(self.spec(no).priority),
            walls_above: self.walls_of_flow(),
            above: self.resident.above(None),
        };
        self.effect(flow.uuid(), "start", EffectKind::StartFlow { spec: Box::new(spec) });
    }

    /// A child flow is over.
    pub(crate) fn child_ended(
        &mut self,
        flow: FlowId,
        outcome: FlowOutcome,
        (output, tips): (Option<&Value>, &[Tip]),
        detail: &str,
    ) {
        let waits =
            |state: &StepState| matches!(state, StepState::Waiting(Wait::Flow { flow: child, .. }) if *child == flow);
        let Some(no) = self.resident.flow.steps.iter().find(|step| waits(&step.state)).map(|step| step.no) else {
            return self.take(Transition::ChildStray);
        };
        let stopped = matches!(&self.step(no).state, StepState::Waiting(Wait::Flow { stop: Some(_), .. }));
        match outcome {
            FlowOutcome::Succeeded => {
                self.take(Transition::ChildSucceeded);
                let output = output.cloned();
                let tips = self.tips_of_child(no, tips);
                self.edit(no, |step| {
                    step.output = output;
                    step.tips = tips;
                });
                self.finish(no, StepOutcome::Succeeded);
            }
            FlowOutcome::Failed | FlowOutcome::Cancelled | FlowOutcome::BudgetExhausted if stopped => {
                self.take(Transition::ChildStopped);
                self.finish(no, StepOutcome::Cancelled);
            }
            FlowOutcome::Failed | FlowOutcome::Cancelled | FlowOutcome::BudgetExhausted => {
                let family = match outcome {
                    FlowOutcome::BudgetExhausted => ErrorFamily::BudgetExceeded,
                    _ => ErrorFamily::Unknown,
                };
                let failure = Failure { family, cause: Cause::Child { outcome }, detail: detail.to_owned() };
                if outcome == FlowOutcome::Failed && self.may_retry(no) {
                    self.take(Transition::ChildRetried);
                } else {
                    self.take(Transition::ChildFailed);
                    return self.finish(no, StepOutcome::Failed(failure));
                }
                self.retry_or_fail(no, failure);
            }
        }
    }

    /// What a child flow made, with its step here in the names; what it was given keeps its own.
    fn tips_of_child(&self, no: StepNo, tips: &[Tip]) -> Vec<Tip> {
        let (given, path) = (self.starts_from(no), &self.step(no).path);
        let named = tips.iter().map(|tip| match given.contains(tip) {
            true => tip.clone(),
            false => Tip { by: format!("{path}/{}", tip.by), tree: tip.tree.clone() },
        });
        named.collect()
    }

    /// Asks a child flow to end. True when that is news.
    pub(crate) fn stop_child(&mut self, no: StepNo, reason: StopReason, forced: bool) -> bool {
        let StepState::Waiting(Wait::Flow { flow, look_at, stop }) = &self.step(no).state else {
            return false;
        };
        if stop.as_ref().is_some_and(|stop| stop.forced || !forced) {
            return false;
        }
        let (flow, look_at) = (*flow, *look_at);
        let kept = stop.as_ref().map_or(reason, |stop| stop.reason);
        let again_at = self.now + self.context.grace + STOP_MARGIN.saturating_mul(4);
        let stop = Some(Stopping { reason: kept, again_at, forced });
        self.take(Transition::ChildStop);
        self.edit(no, |step| step.state = StepState::Waiting(Wait::Flow { flow, look_at, stop }));
        let label = if forced { "kill" } else { "stop" };
        self.tell_flow(flow, label, Input::End { force: forced });
        true
    }

    /// Tells another flow something, in the name of whoever this decision is about.
    pub(crate) fn tell_flow(&mut self, flow: FlowId, label: &str, input: Input) {
        let signed = Box::new(Signed { by: self.by.clone(), input });
        // Others may tell it the same at the same version of theirs.
        let label = format!("{label} by {}", self.flow_id());
        self.effect(flow.uuid(), &label, EffectKind::Tell { flow, signed });
    }

    /// Begins to wait for a time or an event.
    pub(crate) fn begin_wait(&mut self, no: StepNo, action: &WaitAction) -> Result<(), String> {
        let scope = StepScope::of(&self.resident, no).with_env()?;
        let text = |name: &str, template: &orc_domain::expr::Template| {
            let value = template.render(&scope).map_err(|error| format!("wait.{name}: {error}"))?;
            Ok::<_, String>(value.to_text().text)
        };
        let (wait, what) = match action {
            WaitAction::For(template) => {
                let text = text("for", template)?;
                let length = Millis::parse(&text).ok_or_else(|| format!("wait.for: `{text}` is no length of time"))?;
                let at = self.now + length;
                (Wait::Until { at }, at.to_string())
            }
            WaitAction::Until(template) => {
                let text = text("until", template)?;
                let at = Timestamp::parse(&text)
                    .ok_or_else(|| format!("wait.until: `{text}` is no time as in 2026-12-24T18:00:00Z"))?;
                (Wait::Until { at }, at.to_string())
            }
            WaitAction::Event { event, pipeline, timeout } => {
                let pipeline = pipeline.as_ref().map(|name| text("pipeline", name)).transpose()?;
                let what = match &pipeline {
                    Some(name) => format!("{} of `{name}`", event.word()),
                    None => event.word().to_owned(),
                };
                (Wait::Event { event: *event, pipeline, deadline: self.now + *timeout }, what)
            }
        };
        self.take(Transition::WaitBegun);
        let path = self.step(no).path.clone();
        self.tell(Fact::StepWaiting { path, on: wait.word().to_owned(), what });
        self.set_state(no, StepState::Waiting(wait));
        Ok(())
    }

    /// Something happened in another flow.
    pub(crate) fn happened(
        &mut self,
        event: WaitEvent,
        (pipeline, flow): (&str, FlowId),
        at: Timestamp,
        outcome: &str,
    ) {
        let waits = |step: &orc_domain::flow::Step| match &step.state {
            StepState::Waiting(Wait::Event { event: wanted, pipeline: of, .. }) => {
                *wanted == event && of.as_deref().is_none_or(|of| of == pipeline) && at >= step.since
            }
            _ => false,
        };
        if flow == self.flow_id() {
            return;
        }
        let found: Vec<StepNo> =
            self.resident.flow.steps.iter().filter(|step| waits(step)).map(|step| step.no).collect();
        for no in found {
            self.take(Transition::WaitHappened);
            let fields = [
                ("flow", Value::text(flow.to_string())),
                ("pipeline", Value::text(pipeline)),
                ("outcome", Value::text(outcome)),
            ];
            let output = Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
            self.edit(no, |step| step.output = Some(output));
            self.finish(no, StepOutcome::Succeeded);
        }
    }

    /// A wait that is over, or that wants to be looked at.
    pub(crate) fn wait_alarm(&mut self, no: StepNo, wait: Wait) {
        match wait {
            Wait::Until { .. } => {
                self.take(Transition::WaitOver);
                self.finish(no, StepOutcome::Succeeded);
            }
            Wait::Event { deadline, .. } => {
                self.take(Transition::WaitInVain);
                let waited = deadline.since(self.step(no).since);
                self.finish(no, StepOutcome::Failed(failed(ErrorFamily::Unknown, Cause::NoEvent(waited))));
            }
            Wait::Flow { flow, stop, .. } => self.look_for_child(no, flow, stop),
            Wait::Request { request } => self.request_alarm(request),
            Wait::Elements(_) | Wait::Round(_) => {}
        }
    }

    /// A child that was not heard of for long: it is asked for again, and told again whether it is held or was to end.
    fn look_for_child(&mut self, no: StepNo, flow: FlowId, stop: Option<Stopping>) {
        let orc_domain::graph::Action::Pipeline(action) = self.spec(no).action.clone() else { return };
        self.take(Transition::ChildAgain);
        let look_at = self.now + CHILD_LOOK;
        let again = stop.clone().map(|stop| Stopping { again_at: look_at, ..stop });
        self.edit(no, |step| step.state = StepState::Waiting(Wait::Flow { flow, look_at, stop: again }));
        // What its inputs are was decided when it began; if that cannot be told any more, it is there or is lost.
        if let Ok(inputs) = self.child_inputs(no, &action) {
            self.ask_for_child(no, flow, (&action, inputs));
        }
        let input = if self.holds_child(no) {
            Input::Hold { step: None, reason: HoldReason::ParentHeld, note: String::new(), until: None }
        } else {
            Input::Lift { step: None, reason: HoldReason::ParentHeld }
        };
        self.tell_flow(flow, "hold again", input);
        if let Some(stop) = stop {
            self.tell_flow(flow, "stop again", Input::End { force: stop.forced });
        }
    }
}
