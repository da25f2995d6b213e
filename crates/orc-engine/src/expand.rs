//! Fan-out: a list becomes elements. The list is evaluated once; elements are written a page at a time, and a join waits
//! until all are written.

use orc_domain::event::Fact;
use orc_domain::flow::{Element, Origin, Step, StepNo, StepOutcome, StepState, TakenOver};
use orc_domain::graph::{EXPANSION_PAGE, Elements, MAX_ELEMENTS, MAX_ITEM_BYTES, MAX_LIST_BYTES};
use orc_domain::path::StepPath;
use orc_domain::run::{Cause, ErrorFamily, Failure, StopReason, WakeReason};
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_domain::wait::{FanOut, Wait};

use crate::draft::Draft;
use crate::inputs::new_step;
use crate::scope::StepScope;

impl Draft<'_> {
    /// The list of a fan-out whose time has come; `None`: the step is none.
    pub(crate) fn fan_list(&self, no: StepNo) -> Option<Result<Value, String>> {
        if self.step(no).origin.element().is_some() {
            return None;
        }
        match &self.spec(no).fan.as_ref()?.elements {
            Elements::List { list, .. } => {
                let scope = StepScope::of(&self.resident, no);
                Some(orc_domain::expr::eval(list, &scope).map_err(|error| format!("foreach: {error}")))
            }
            Elements::Matrix(cells) => Some(Ok(Value::List(cells.iter().cloned().map(Value::Map).collect()))),
        }
    }

    /// Begins a fan-out over a list.
    pub(crate) fn begin_expansion(&mut self, no: StepNo, list: Result<Value, String>) {
        match list.and_then(check_list) {
            Ok(list) if list.is_empty() => {
                self.take(Transition::StepExpandedEmpty);
                self.finish(no, StepOutcome::NoChange);
            }
            Ok(list) => {
                let total = u32::try_from(list.len()).unwrap_or(u32::MAX);
                let path = self.step(no).path.clone();
                self.take(Transition::StepExpanded);
                self.tell(Fact::StepExpanded { path, total });
                let fan = FanOut { list, total, expanded: 0, cut: false };
                self.set_state(no, StepState::Waiting(Wait::Elements(fan)));
            }
            Err(detail) => {
                self.take(Transition::StepExpansionFailed);
                let failure = Failure { family: ErrorFamily::Unknown, cause: Cause::Expansion, detail };
                self.finish(no, StepOutcome::Failed(failure));
            }
        }
    }

    /// Writes at most one page of elements. True when it wrote any.
    pub(crate) fn write_page(&mut self) -> bool {
        let mut room = EXPANSION_PAGE;
        while let Some(no) = self.next_to_expand() {
            if room == 0 {
                break;
            }
            let StepState::Waiting(Wait::Elements(fan)) = &self.step(no).state else {
                break;
            };
            let mut fan = fan.clone();
            if fan.expanded > 0 {
                self.take(Transition::StepPage);
            }
            let page: Vec<Value> = fan.list.drain(..room.min(fan.list.len())).collect();
            room -= page.len();
            let from = fan.expanded;
            fan.expanded += u32::try_from(page.len()).unwrap_or(u32::MAX);
            self.edit(no, |step| step.state = StepState::Waiting(Wait::Elements(fan)));
            for (index, value) in (from..).zip(page) {
                self.write_element(no, index, value);
            }
            // Elements that a retry took over may all be finished already.
            self.join_group(no);
        }
        room < EXPANSION_PAGE
    }

    /// A fan-out that has begun goes on before another begins, whatever their order in the file.
    fn next_to_expand(&self) -> Option<StepNo> {
        let begun =
            |no: &StepNo| matches!(&self.step(*no).state, StepState::Waiting(Wait::Elements(fan)) if fan.expanded > 0);
        let expanding = &self.resident.index.expanding;
        expanding.iter().copied().find(begun).or_else(|| expanding.first().copied())
    }

    fn write_element(&mut self, group: StepNo, index: u32, value: Value) {
        let no = self.next_no();
        let path = self.element_path(group, index, &value);
        let taken_over = self.resident.flow.spec.taken_over.get(&path).cloned();
        let origin = Origin::Element(Element { group, index, value });
        let spec = self.step(group).spec;
        let ready = taken_over.is_none();
        let step = match taken_over {
            Some(TakenOver { outcome, output, artifacts, tips }) => {
                let state = StepState::Finished { outcome };
                Step { output, artifacts, tips, ..new_step(no, path, (spec, origin), state, self.now) }
            }
            None => new_step(no, path, (spec, origin), self.element_state(), self.now),
        };
        self.add_steps(vec![step]);
        if ready {
            self.fresh.insert(no);
        }
    }

    /// `implement[3]`, or `build{os=linux}`.
    fn element_path(&self, group: StepNo, index: u32, value: &Value) -> StepPath {
        let is_matrix = matches!(self.spec(group).fan.as_ref().map(|fan| &fan.elements), Some(Elements::Matrix(_)));
        match value {
            Value::Map(cell) if is_matrix => {
                let axes = cell.iter().map(|(axis, value)| (axis.as_str(), value.to_text().text));
                self.step(group).path.cell(axes)
            }
            _ => self.step(group).path.element(index),
        }
    }

    fn element_state(&self) -> StepState {
        StepState::Ready { not_before: self.now, held_by: None, wake: WakeReason::PipelineStep }
    }

    /// Elements that are not written yet never will be: the flow or a sibling ended it. True when there were any.
    pub(crate) fn stop_expanding(&mut self, no: StepNo) -> bool {
        let StepState::Waiting(Wait::Elements(fan)) = &self.step(no).state else {
            return false;
        };
        if fan.expanded == fan.total {
            return false;
        }
        let mut fan = fan.clone();
        fan.list.clear();
        fan.total = fan.expanded;
        fan.cut = true;
        self.edit(no, |step| step.state = StepState::Waiting(Wait::Elements(fan)));
        self.join_group(no);
        true
    }

    /// An element of a `fail_fast` fan-out failed: its siblings are no longer wanted.
    pub(crate) fn fail_fast(&mut self, group: StepNo) {
        if matches!(self.step(group).state, StepState::Waiting(Wait::Elements(_))) {
            self.cancel_step(group, StopReason::FailFast, false);
        }
    }

    /// Ends a fan-out whose elements are all written and finished.
    pub(crate) fn join_group(&mut self, no: StepNo) {
        let StepState::Waiting(Wait::Elements(fan)) = &self.step(no).state else {
            return;
        };
        let (total, cut) = (fan.total, fan.cut);
        let count = self.resident.index.groups.get(&no).copied().unwrap_or_default();
        if fan.expanded < total || count.finished < total {
            return;
        }
        let outcome = if count.failed > 0 {
            self.take(Transition::GroupFailed);
            let cause = Cause::Elements { failed: count.failed, total };
            let detail = self.first_failure(no).unwrap_or_default();
            StepOutcome::Failed(Failure { family: ErrorFamily::Unknown, cause, detail })
        } else if count.cancelled > 0 || cut {
            self.take(Transition::GroupCancelled);
            StepOutcome::Cancelled
        } else {
            let before = self.joined_before(no);
            let may_run = self.is_wanted(no) && !self.resident.is_late(self.now);
            if before.is_none() && may_run && self.elements_differ(no) {
                self.take(Transition::StepJoins);
                return self.make_ready(no, self.now, WakeReason::PipelineStep);
            }
            self.edit(no, |step| step.tips = before.unwrap_or_default());
            self.take(Transition::GroupSucceeded);
            StepOutcome::Succeeded
        };
        self.finish(no, outcome);
    }

    /// `first `implement[3]`, exit code 1`, of the first step below that counts as failed.
    pub(crate) fn first_failure(&self, above: StepNo) -> Option<String> {
        let forgiven =
            |step: &Step| matches!(step.origin, Origin::Round { .. }) && self.resident.spec_of(step).continue_on_fail;
        self.resident.below(above).find_map(|step| match &step.state {
            StepState::Finished { outcome: StepOutcome::Failed(failure) } if !forgiven(step) => {
                Some(format!("first `{}`, {}", step.path, failure.cause))
            }
            _ => None,
        })
    }
}

/// Checks what `foreach:` gave against the bounds of an expansion.
fn check_list(value: Value) -> Result<Vec<Value>, String> {
    let Value::List(list) = value else {
        return Err(format!("`foreach` needs a list, and this is {}", value.type_name()));
    };
    if list.len() > MAX_ELEMENTS {
        return Err(format!("`foreach` takes at most {MAX_ELEMENTS} elements, and this list has {}", list.len()));
    }
    let mut bytes = 0_usize;
    for (index, item) in list.iter().enumerate() {
        let size = item.json_len();
        if size > MAX_ITEM_BYTES {
            return Err(format!("element {index} has {size} bytes, at most {MAX_ITEM_BYTES} are allowed"));
        }
        bytes += size;
    }
    if bytes > MAX_LIST_BYTES {
        return Err(format!("the list has {bytes} bytes, at most {MAX_LIST_BYTES} are allowed"));
    }
    Ok(list)
}
