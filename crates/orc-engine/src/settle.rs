//! What follows: a finished step frees its dependents, skips them or joins its fan-out; a finished phase opens the next;
//! the last one ends the flow. Loops until nothing follows any more, then starts what may start.

use orc_domain::event::Fact;
use orc_domain::flow::{FlowOutcome, FlowState, Origin, Phase, SkipReason, StepNo, StepOutcome, StepState, Stop};
use orc_domain::graph::{FINALLY_DEADLINE, PhaseKind, SpecIndex, StepSpec};
use orc_domain::run::{Cause, ErrorFamily, Failure, WakeReason};
use orc_domain::transition::Transition;
use orc_domain::value::Value;

use crate::draft::Draft;
use crate::resident::Body;
use crate::scope::{FlowScope, StepScope};

/// What the direct parents of a step and its `if:` say.
enum Verdict {
    Go,
    Skip(SkipReason),
    Error(String),
}

impl Draft<'_> {
    /// Draws every consequence of what happened so far.
    pub(crate) fn settle(&mut self) {
        let mut page_written = false;
        loop {
            while let Some(no) = self.open.pop_front() {
                self.propagate(no);
            }
            if self.end_phase() || !self.open.is_empty() || self.check_walls() {
                continue;
            }
            page_written = page_written || self.write_page();
            self.start_due_steps();
            // A round that has just begun may have begun a fan-out.
            let page_to_write = !page_written && !self.resident.index.expanding.is_empty();
            if self.open.is_empty() && !page_to_write {
                return;
            }
        }
    }

    /// Ends a step and puts it up for `propagate`.
    pub(crate) fn finish(&mut self, no: StepNo, outcome: StepOutcome) {
        let failed = matches!(outcome, StepOutcome::Failed(_));
        let spec = self.spec(no);
        let (phase, counts) = (spec.phase, failed && !spec.continue_on_fail);
        self.leave_places(no);
        self.hand_on(no, &outcome);
        let step = self.step(no);
        let (path, is_root) = (step.path.clone(), step.origin == Origin::Root);
        self.tell(Fact::StepFinished { path, outcome: outcome.clone() });
        self.set_state(no, StepState::Finished { outcome });
        if is_root {
            self.edit_head(|head| match phase {
                PhaseKind::Main => {
                    head.open_main -= 1;
                    head.main_failed |= counts;
                }
                PhaseKind::Finally => {
                    head.open_finally -= 1;
                    head.finally_failed |= counts;
                }
            });
        }
        self.fresh.remove(&no);
        self.open.push_back(no);
    }

    /// The consequences of one finished step.
    fn propagate(&mut self, no: StepNo) {
        let step = self.step(no);
        let failed = matches!(step.state, StepState::Finished { outcome: StepOutcome::Failed(_) });
        let repeat = match &step.origin {
            Origin::Element(element) => {
                let group = element.group;
                if failed && self.spec(no).fan.as_ref().is_some_and(|fan| fan.fail_fast) {
                    self.fail_fast(group);
                }
                return self.join_group(group);
            }
            Origin::Round { of, .. } => Some(*of),
            Origin::Root => None,
        };
        let body = self.resident.body_of(no);
        let dependents = self.resident.dependents.clone();
        for dependent in &dependents[step_spec(self, no)] {
            let instance = body.instance(*dependent);
            let blockers = &mut self.resident.index.blockers[instance.0 as usize];
            *blockers = blockers.saturating_sub(1);
            if *blockers == 0 {
                self.unblock(instance);
            }
        }
        if let Some(repeat) = repeat {
            self.join_round(repeat);
        }
    }

    /// Looks at every step of a phase that waits for no parent.
    pub(crate) fn open_phase(&mut self, phase: PhaseKind) {
        for no in self.resident.root_body().instances() {
            if self.spec(no).phase == phase {
                self.open_if_free(no);
            }
        }
    }

    /// The same for the body of a round.
    pub(crate) fn open_body(&mut self, body: Body) {
        for no in body.instances() {
            self.open_if_free(no);
        }
    }

    fn open_if_free(&mut self, no: StepNo) {
        if self.resident.index.blockers[no.0 as usize] == 0 {
            self.unblock(no);
        }
    }

    /// The last direct parent is finished: the step becomes ready, expands, is skipped or fails.
    fn unblock(&mut self, no: StepNo) {
        let current = match self.live() {
            Some((Phase::Finally { .. }, _)) => PhaseKind::Finally,
            Some((Phase::Main, _)) | None => PhaseKind::Main,
        };
        let opens = self.resident.is_open() && self.spec(no).phase == current;
        if !opens || !matches!(self.step(no).state, StepState::Blocked) {
            return;
        }
        let path = self.step(no).path.clone();
        let given = self.resident.flow.spec.taken_over.get(&path).filter(|_| !self.joins(no));
        if let Some(result) = given.cloned() {
            self.take(Transition::StepTakenOver);
            self.edit(no, |step| {
                step.output = result.output;
                step.artifacts = result.artifacts;
                step.tips = result.tips;
            });
            self.finish(no, result.outcome);
            return;
        }
        match self.verdict(no) {
            Verdict::Skip(reason) => {
                let by_parent = matches!(reason, SkipReason::Parent { .. });
                self.take(if by_parent { Transition::StepSkippedParent } else { Transition::StepSkippedCondition });
                self.finish(no, StepOutcome::Skipped(reason));
            }
            Verdict::Error(detail) => {
                self.take(Transition::StepConditionError);
                let failure = Failure { family: ErrorFamily::Unknown, cause: Cause::Expression, detail };
                self.finish(no, StepOutcome::Failed(failure));
            }
            Verdict::Go => self.open_step(no),
        }
    }

    fn open_step(&mut self, no: StepNo) {
        match self.fan_list(no) {
            Some(list) => self.begin_expansion(no, list),
            None => {
                self.take(Transition::StepReady);
                self.make_ready(no, self.now, WakeReason::PipelineStep);
            }
        }
    }

    fn verdict(&self, no: StepNo) -> Verdict {
        let spec = self.spec(no);
        if spec.condition.implicit_success
            && let Some(reason) = self.refusing_parent(no, spec)
        {
            return Verdict::Skip(reason);
        }
        let Some(expr) = &spec.condition.expr else {
            return Verdict::Go;
        };
        let scope = StepScope::of(&self.resident, no);
        match orc_domain::expr::eval(expr, &scope) {
            Ok(Value::Bool(true)) => Verdict::Go,
            Ok(Value::Bool(false)) => Verdict::Skip(SkipReason::Condition),
            Ok(other) => Verdict::Error(format!("`if` needs true or false, and this is {}", other.type_name())),
            Err(error) => Verdict::Error(format!("if: {error}")),
        }
    }

    /// The first direct parent, in file order, whose end the step does not accept.
    fn refusing_parent(&self, no: StepNo, spec: &StepSpec) -> Option<SkipReason> {
        let body = self.resident.body_of(no);
        spec.needs.iter().find_map(|need| {
            let parent = self.step(body.instance(*need));
            let StepState::Finished { outcome } = &parent.state else {
                return None;
            };
            let accepted = accepts(outcome, self.resident.spec_of(parent).continue_on_fail);
            let reason = SkipReason::Parent { path: parent.path.clone(), outcome: outcome.word().to_owned() };
            (!accepted).then_some(reason)
        })
    }

    /// Opens `finally` when the main part is over, ends the flow when that is. True when something changed.
    fn end_phase(&mut self) -> bool {
        let head = &self.resident.flow.head;
        let FlowState::Live { phase, stop } = &head.state else {
            return false;
        };
        let (phase, stop) = (*phase, stop.clone());
        match phase {
            // The clock of `finally` does not begin while nothing of it may start.
            Phase::Main if head.open_main == 0 && head.open_finally > 0 && !matches!(stop, Stop::Force { .. }) => {
                if self.resident.is_held() {
                    return false;
                }
                self.take(Transition::FlowFinally);
                let phase = Phase::Finally { deadline: self.now + FINALLY_DEADLINE };
                self.edit_head(|head| head.state = FlowState::Live { phase, stop });
                self.open_phase(PhaseKind::Finally);
                true
            }
            Phase::Main | Phase::Finally { .. } if head.open_main == 0 && head.open_finally == 0 => {
                let outcome = Self::ended_by(&stop, head.main_failed || head.finally_failed);
                self.end_flow(outcome);
                true
            }
            Phase::Main | Phase::Finally { .. } => false,
        }
    }

    fn end_flow(&mut self, outcome: FlowOutcome) {
        let outcome = match self.flow_output(outcome) {
            Ok(output) => {
                self.edit_head(|head| head.output = output);
                outcome
            }
            Err(detail) => {
                self.take(Transition::FlowOutputError);
                self.edit_head(|head| head.detail = detail);
                FlowOutcome::Failed
            }
        };
        self.take(match outcome {
            FlowOutcome::Succeeded => Transition::FlowSucceeded,
            FlowOutcome::Failed => Transition::FlowFailed,
            FlowOutcome::BudgetExhausted => Transition::FlowExhausted,
            FlowOutcome::Cancelled => Transition::FlowCancelledFinished,
        });
        self.withdraw_own_requests();
        self.leave_group();
        let (at, tips) = (self.now, self.tips_of_flow());
        self.edit_head(|head| {
            head.state = FlowState::Finished { at, outcome };
            head.tips = tips;
            head.holds.clear();
        });
        let detail = self.resident.flow.head.detail.clone();
        self.tell(Fact::FlowFinished { outcome, detail });
        if let (Some(parent), Some(ended)) = (self.resident.flow.spec.parent.clone(), self.resident.ended()) {
            self.tell_flow(parent.flow, "ended", ended);
        }
    }

    /// What a flow that succeeded hands to its parent.
    fn flow_output(&self, outcome: FlowOutcome) -> Result<Option<Value>, String> {
        if outcome != FlowOutcome::Succeeded {
            return Ok(None);
        }
        let scope = FlowScope(&self.resident);
        let values = self.resident.pipeline.outputs.iter().map(|(name, expr)| {
            let value = orc_domain::expr::eval(expr, &scope).map_err(|error| format!("outputs.{name}: {error}"))?;
            Ok((name.clone(), value))
        });
        Ok(Some(Value::Map(values.collect::<Result<_, String>>()?)))
    }
}

/// Whether a dependent without `if:` goes on after a parent that ended so.
pub(crate) fn accepts(outcome: &StepOutcome, continue_on_fail: bool) -> bool {
    match outcome {
        StepOutcome::Succeeded | StepOutcome::NoChange => true,
        StepOutcome::Failed(_) => continue_on_fail,
        StepOutcome::Skipped(_) | StepOutcome::Cancelled => false,
    }
}

fn step_spec(draft: &Draft<'_>, no: StepNo) -> usize {
    let SpecIndex(at) = draft.step(no).spec;
    at as usize
}
