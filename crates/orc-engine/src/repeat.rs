//! Rounds: a body of steps is written again and again, each round as new instances below the step that repeats, until
//! `until` holds or the last round is over. What ran in a round before is never changed.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::event::Fact;
use orc_domain::flow::{Origin, StepNo, StepOutcome, StepState};
use orc_domain::graph::{Action, RepeatAction, StartFrom};
use orc_domain::run::{Cause, ErrorFamily, Failure};
use orc_domain::transition::Transition;
use orc_domain::tree::{Tip, Tree};
use orc_domain::value::Value;
use orc_domain::wait::{Round, Wait};

use crate::draft::Draft;
use crate::inputs::{failed, new_step};
use crate::resident::spec_index;
use crate::scope::{StepScope, result_of};

impl Draft<'_> {
    /// Begins the first round of a step that repeats.
    pub(crate) fn begin_rounds(&mut self, no: StepNo) {
        self.take(Transition::RoundStarted);
        self.write_round(no, 1, BTreeMap::new());
    }

    fn repeat(&self, no: StepNo) -> Option<&RepeatAction> {
        match &self.spec(no).action {
            Action::Repeat(repeat) => Some(repeat),
            _ => None,
        }
    }

    fn write_round(&mut self, no: StepNo, number: u32, previous: BTreeMap<String, Value>) {
        let first = self.next_no();
        let body = self.resident.repeat_body(no, first);
        let path = self.step(no).path.clone();
        self.tell(Fact::RoundStarted { path: path.clone(), number });
        self.edit(no, |step| step.attempts = number);
        self.set_state(no, StepState::Waiting(Wait::Round(Round { number, first, previous })));
        let steps = body.specs().zip(body.instances()).map(|(at, instance)| {
            let below = path.in_round(number, &self.resident.pipeline.steps[at].key);
            let origin = Origin::Round { of: no, number, first };
            new_step(instance, below, (spec_index(at), origin), StepState::Blocked, self.now)
        });
        let steps = steps.collect();
        self.add_steps(steps);
        self.open_body(body);
    }

    /// A step of a round is finished: the last one ends the round.
    pub(crate) fn join_round(&mut self, no: StepNo) {
        let StepState::Waiting(Wait::Round(round)) = &self.step(no).state else {
            return;
        };
        let (number, first) = (round.number, round.first);
        let Some(repeat) = self.repeat(no).cloned() else { return };
        let count = self.resident.index.groups.get(&no).copied().unwrap_or_default();
        if count.finished < number.saturating_mul(repeat.count) {
            return;
        }
        let outcome = if count.failed > 0 {
            self.take(Transition::RepeatFailed);
            let detail = self.first_failure(no).unwrap_or_default();
            let cause = Cause::Round { number };
            StepOutcome::Failed(Failure { family: ErrorFamily::Unknown, cause, detail })
        } else if count.cancelled > 0 || !self.is_wanted(no) || self.resident.is_late(self.now) {
            self.take(Transition::RepeatCancelled);
            StepOutcome::Cancelled
        } else {
            match self.until(no, first, &repeat) {
                Ok(true) => {
                    self.take(Transition::RepeatSucceeded);
                    StepOutcome::Succeeded
                }
                Ok(false) if self.stands_still(no, first) => {
                    self.take(Transition::RepeatNoProgress);
                    StepOutcome::Failed(failed(ErrorFamily::Unknown, Cause::NoProgress { made: number }))
                }
                Ok(false) if number < repeat.max => {
                    self.take(Transition::RoundAgain);
                    let previous = self.results_of_round(no, first);
                    return self.write_round(no, number + 1, previous);
                }
                Ok(false) => {
                    self.take(Transition::RepeatOver);
                    StepOutcome::Failed(failed(ErrorFamily::Unknown, Cause::Rounds { made: number }))
                }
                Err(detail) => {
                    self.take(Transition::RepeatUntilError);
                    StepOutcome::Failed(Failure { family: ErrorFamily::Unknown, cause: Cause::Expression, detail })
                }
            }
        };
        let outputs = self.resident.repeat_body(no, first).instances().map(|instance| {
            let step = self.step(instance);
            let key = self.resident.spec_of(step).key.clone();
            (key, step.output.clone().unwrap_or_else(|| Value::Map(BTreeMap::new())))
        });
        let outputs = Value::Map(outputs.collect());
        self.edit(no, |step| step.output = Some(outputs));
        self.finish(no, outcome);
    }

    /// Whether the rounds are over: `until` holds, or without one the last round was made.
    fn until(&self, no: StepNo, first: StepNo, repeat: &RepeatAction) -> Result<bool, String> {
        let Some(until) = &repeat.until else {
            return Ok(self.step(no).attempts >= repeat.max);
        };
        let scope = StepScope::of_round(&self.resident, no, first);
        match orc_domain::expr::eval(until, &scope) {
            Ok(Value::Bool(is_over)) => Ok(is_over),
            Ok(other) => Err(format!("`until` needs true or false, and this is {}", other.type_name())),
            Err(error) => Err(format!("until: {error}")),
        }
    }

    /// Whether a round changed nothing that the one before had not: neither a tree nor an output.
    fn stands_still(&self, no: StepNo, first: StepNo) -> bool {
        let Some(repeat) = self.repeat(no) else { return false };
        let StepState::Waiting(Wait::Round(round)) = &self.step(no).state else { return false };
        if repeat.until.is_none() || round.number < 2 || self.is_open_to_the_world(repeat) {
            return false;
        }
        // What a round starts from is what the one before handed on; who made it is no matter.
        let trees = |tips: Vec<Tip>| tips.into_iter().map(|tip| tip.tree).collect::<BTreeSet<Tree>>();
        let made = trees(self.tips_of_body(self.resident.repeat_body(no, first)));
        made == trees(self.round_starts_from(no, round.number, first))
            && self.results_of_round(no, first) == round.previous
    }

    /// Whether a body has steps of which nobody here knows what they changed, or that wait for something outside to change.
    fn is_open_to_the_world(&self, repeat: &RepeatAction) -> bool {
        let from = repeat.first.0 as usize;
        self.resident.pipeline.steps[from..from + repeat.count as usize].iter().any(|spec| match &spec.action {
            Action::Run(_) | Action::Agent(_) => spec.worktree.from == StartFrom::InPlace,
            Action::Repeat(inner) => self.is_open_to_the_world(inner),
            // A child flow may have steps that work in place.
            Action::Pipeline(_) | Action::Wait(_) | Action::Approval(_) => true,
        })
    }

    fn results_of_round(&self, no: StepNo, first: StepNo) -> BTreeMap<String, Value> {
        let instances = self.resident.repeat_body(no, first).instances();
        let results = instances.map(|instance| {
            let step = self.step(instance);
            (self.resident.spec_of(step).key.clone(), Value::Map(result_of(step)))
        });
        results.collect()
    }
}
