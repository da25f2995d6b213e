//! The flow while a decision changes it, and what the decision has gathered so far.
//!
//! Every change of a step goes through [`Draft::edit`], of a run through [`Draft::edit_run`], of a request through
//! [`Draft::edit_request`], so that the index stays true and the row is written. Nothing here decides anything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use orc_domain::claim::{Claim, Holder};
use orc_domain::effect::{Change, Decision, Effect, EffectKind};
use orc_domain::event::{EventBody, Fact};
use orc_domain::flow::{FlowHead, FlowState, Phase, Step, StepNo, StepState, Stop};
use orc_domain::graph::StepSpec;
use orc_domain::ids::{EffectId, FlowId, RequestId, RunId};
use orc_domain::principal::Principal;
use orc_domain::request::Request;
use orc_domain::run::{Run, RunState, StopReason};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::transition::Transition;

use crate::Context;
use crate::index::{alarm_of, request_alarm};
use crate::resident::Resident;

/// A step that waits for a slot is looked at again after this time even if nobody says that one is free.
pub(crate) const HELD_RETRY: Millis = Millis::from_secs(5);
/// The same for a place in a concurrency group.
const GROUP_RETRY: Millis = Millis::from_secs(60);
/// What waits for a person who may never come is looked at now and then all the same.
const LONGEST_WAIT: Millis = Millis::from_secs(3600);

pub(crate) struct Draft<'a> {
    pub(crate) resident: Resident,
    pub(crate) context: &'a Context,
    pub(crate) by: &'a Principal,
    /// The context's time, or the latest the flow saw if the clock jumped back.
    pub(crate) now: Timestamp,
    /// Finished steps whose consequences are not drawn yet.
    pub(crate) open: VecDeque<StepNo>,
    /// Steps that became ready in this decision.
    pub(crate) fresh: BTreeSet<StepNo>,
    /// Slots that may still be tried.
    pub(crate) slots: u32,
    head_changed: bool,
    steps: BTreeSet<StepNo>,
    runs: BTreeMap<RunId, Run>,
    requests: BTreeMap<RequestId, Request>,
    decision: Decision,
}

impl<'a> Draft<'a> {
    pub(crate) fn begin(resident: Resident, by: &'a Principal, context: &'a Context) -> Self {
        let now = context.now.max(resident.flow.head.seen);
        Self {
            resident,
            context,
            by,
            now,
            open: VecDeque::new(),
            fresh: BTreeSet::new(),
            slots: context.slots,
            head_changed: false,
            steps: BTreeSet::new(),
            runs: BTreeMap::new(),
            requests: BTreeMap::new(),
            decision: Decision::default(),
        }
    }

    /// Closes the decision: the rows that changed, the head last, with its version and its next alarm.
    pub(crate) fn end(mut self) -> (Resident, Decision) {
        let steps = self.steps.iter().filter_map(|no| self.resident.flow.step(*no).cloned());
        let mut changes: Vec<Change> = steps.map(Change::Step).collect();
        changes.extend(self.runs.into_values().map(Change::Run));
        changes.extend(self.requests.into_values().map(Change::Request));
        let wake_at = next_alarm(&self.resident, self.now, self.context.now);
        self.resident.wake_at = wake_at;
        if changes.is_empty() && !self.head_changed {
            return (self.resident, self.decision);
        }
        let head = &mut self.resident.flow.head;
        head.version += 1;
        head.seen = self.now;
        head.wake_at = wake_at;
        changes.push(Change::Head(head.clone()));
        self.decision.changes = changes;
        (self.resident, self.decision)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.resident.flow.is_finished()
    }

    /// The phase and stop of a live flow; one that is queued or finished is nowhere.
    pub(crate) fn live(&self) -> Option<(Phase, &Stop)> {
        match &self.resident.flow.head.state {
            FlowState::Live { phase, stop } => Some((*phase, stop)),
            FlowState::Queued { .. } | FlowState::Finished { .. } => None,
        }
    }

    pub(crate) fn flow_id(&self) -> FlowId {
        self.resident.flow.spec.id
    }

    pub(crate) fn take(&mut self, transition: Transition) {
        self.decision.transitions.push(transition);
    }

    pub(crate) fn tell(&mut self, fact: Fact) {
        self.decision.events.push(EventBody { at: self.now, actor: self.by.clone(), fact });
    }

    pub(crate) fn claim(&mut self, run: RunId) {
        self.decision.claims.push(Claim::Slot { run });
    }

    pub(crate) fn release(&mut self, run: RunId) {
        self.decision.releases.push(Claim::Slot { run });
    }

    /// Wants a place in a concurrency group: for a step, or for the flow.
    pub(crate) fn claim_group(&mut self, name: &str, limit: u32, step: Option<StepNo>) {
        let holder = Holder { flow: self.flow_id(), step };
        self.decision.claims.push(Claim::Group { name: name.to_owned(), limit, holder });
    }

    /// Gives it back.
    pub(crate) fn release_group(&mut self, name: &str, step: Option<StepNo>) {
        let holder = Holder { flow: self.flow_id(), step };
        let release = Claim::Group { name: name.to_owned(), limit: 0, holder };
        // A place that is only claimed in this decision is given back by not claiming it.
        match self.decision.claims.iter().position(|claim| claim.is_same_place(&release)) {
            Some(at) => drop(self.decision.claims.remove(at)),
            None => self.decision.releases.push(release),
        }
    }

    /// Adds an effect. `about` and `label` tell apart the effects of one decision.
    pub(crate) fn effect(&mut self, about: uuid::Uuid, label: &str, kind: EffectKind) {
        let version = self.resident.flow.head.version;
        let id = EffectId::derived(about, &format!("{label}@{version}"));
        self.decision.effects.push(Effect { id, kind });
    }

    pub(crate) fn step(&self, no: StepNo) -> &Step {
        &self.resident.flow.steps[no.0 as usize]
    }

    pub(crate) fn spec(&self, no: StepNo) -> &StepSpec {
        self.resident.spec_of(self.step(no))
    }

    pub(crate) fn edit_head(&mut self, change: impl FnOnce(&mut FlowHead)) {
        change(&mut self.resident.flow.head);
        self.head_changed = true;
    }

    /// Changes a step and keeps the index true.
    pub(crate) fn edit(&mut self, no: StepNo, change: impl FnOnce(&mut Step)) {
        self.unindex(no);
        change(&mut self.resident.flow.steps[no.0 as usize]);
        self.index(no);
        self.steps.insert(no);
    }

    /// Puts a step into another state.
    pub(crate) fn set_state(&mut self, no: StepNo, state: StepState) {
        let now = self.now;
        self.edit(no, |step| {
            step.state = state;
            step.since = now;
        });
    }

    /// The time of a ready step has come. `fresh`: it was not held before, so that it must say why if it does not start.
    pub(crate) fn come_due(&mut self, no: StepNo, fresh: bool) {
        if let StepState::Ready { not_before, .. } = &self.step(no).state {
            // The flow must remember that it saw this time, also when a hold lets nothing follow from it: a clock that jumps
            // back would not have the step wait again, but for a flow that was loaded anew.
            self.head_changed |= *not_before > self.resident.flow.head.seen;
        }
        self.unindex(no);
        self.index(no);
        if fresh {
            self.fresh.insert(no);
        }
    }

    /// Marks every step as changed: the first commit of a flow.
    pub(crate) fn write_all_steps(&mut self) {
        self.steps.extend(self.resident.flow.steps.iter().map(|step| step.no));
        self.head_changed = true;
    }

    /// Adds step instances that belong together: all are there before what they wait for is counted.
    pub(crate) fn add_steps(&mut self, steps: Vec<Step>) {
        let numbers: Vec<StepNo> = steps.iter().map(|step| step.no).collect();
        for step in steps {
            if let Some(above) = step.origin.above() {
                self.resident.index.below.entry(above).or_default().push(step.no);
            }
            self.resident.flow.steps.push(step);
        }
        for no in numbers {
            let blockers = self.resident.count_blockers(self.step(no));
            self.resident.index.blockers.push(blockers);
            self.index(no);
            self.steps.insert(no);
        }
    }

    /// The position of the next step instance.
    pub(crate) fn next_no(&self) -> StepNo {
        StepNo(u32::try_from(self.resident.flow.steps.len()).unwrap_or(u32::MAX))
    }

    /// Changes a live run, and the index of the step it tries. A finished run leaves memory but its row is written.
    pub(crate) fn edit_run(&mut self, no: StepNo, id: RunId, change: impl FnOnce(&mut Run)) {
        self.unindex(no);
        if let Some(run) = self.resident.flow.runs.get_mut(&id) {
            change(run);
            self.runs.insert(id, run.clone());
            if run.state.is_final() {
                self.resident.flow.runs.remove(&id);
            }
        }
        self.index(no);
    }

    pub(crate) fn add_run(&mut self, run: Run) {
        self.runs.insert(run.id, run.clone());
        self.resident.flow.runs.insert(run.id, run);
    }

    /// Adds or changes a request, and the index of the step that waits for it. One that is resolved leaves memory but its row
    /// is written.
    pub(crate) fn put_request(&mut self, request: Request) {
        let step = request.step.as_ref().map(|(no, _)| *no);
        if let Some(no) = step {
            self.unindex(no);
        }
        self.requests.insert(request.id, request.clone());
        if request_alarm(&request).is_some() {
            self.resident.flow.requests.insert(request.id, request);
        } else {
            self.resident.flow.requests.remove(&request.id);
        }
        if let Some(no) = step {
            self.index(no);
        }
    }

    /// The step that a live run tries.
    pub(crate) fn step_of_run(&self, id: RunId) -> Option<StepNo> {
        self.resident.flow.runs.get(&id).map(|run| run.no)
    }

    fn unindex(&mut self, no: StepNo) {
        let step = &self.resident.flow.steps[no.0 as usize];
        if let Some(at) = alarm_of(step, &self.resident.flow) {
            self.resident.index.alarms.remove(&(at, no));
        }
        if let StepState::Ready { not_before, .. } = &step.state {
            let (lane, rank) = (self.resident.lane_of(step), self.resident.rank(step, *not_before));
            if let Some(due) = self.resident.index.due.get_mut(&lane) {
                due.remove(&(rank, no));
                if due.is_empty() {
                    self.resident.index.due.remove(&lane);
                }
            }
        }
        let spec = &self.resident.pipeline.steps[step.spec.0 as usize];
        self.resident.index.uncount(step, spec);
    }

    fn index(&mut self, no: StepNo) {
        let step = &self.resident.flow.steps[no.0 as usize];
        match &step.state {
            StepState::Ready { not_before, .. } if *not_before <= self.now => {
                let (lane, rank) = (self.resident.lane_of(step), self.resident.rank(step, *not_before));
                self.resident.index.due.entry(lane).or_default().insert((rank, no));
            }
            _ => {
                if let Some(at) = alarm_of(step, &self.resident.flow) {
                    self.resident.index.alarms.insert((at, no));
                }
            }
        }
        self.resident.index.add_group(step);
        let spec = &self.resident.pipeline.steps[step.spec.0 as usize];
        self.resident.index.count(step, spec);
    }

    /// Whether a live run was asked to end.
    pub(crate) fn stopping(&self, id: RunId) -> Option<StopReason> {
        match &self.resident.flow.runs.get(&id)?.state {
            RunState::Pending { stop, .. } | RunState::Running { stop, .. } => stop.as_ref().map(|stop| stop.reason),
            RunState::Finished { .. } => None,
        }
    }
}

/// When the flow wants to be looked at again. `None` only for a finished flow. Deadlines follow the flow's own time `now`;
/// what only wants another look follows the clock, which may stand behind it after a jump.
fn next_alarm(resident: &Resident, now: Timestamp, clock: Timestamp) -> Option<Timestamp> {
    let head = &resident.flow.head;
    let phase = match &head.state {
        FlowState::Queued { .. } => return Some(clock + GROUP_RETRY),
        FlowState::Live { phase, .. } => *phase,
        FlowState::Finished { .. } => return None,
    };
    let step = resident.index.alarms.first().map(|(at, _)| *at);
    let page = (!resident.index.expanding.is_empty()).then_some(clock);
    let held = resident.wants_slot().map(|_| clock + HELD_RETRY);
    let group = (!resident.wants_groups().is_empty()).then_some(clock + GROUP_RETRY);
    let own = match phase {
        Phase::Finally { deadline } if deadline > now => Some(deadline),
        Phase::Finally { .. } => None,
        Phase::Main => head.time_over.filter(|_| resident.is_open() && head.open_main > 0),
    };
    let holds = head.holds.iter().filter(|hold| !hold.sticky).filter_map(|hold| hold.until).min();
    let requests = resident.flow.requests.values().filter(|request| request.step.is_none());
    let asked = requests.filter_map(request_alarm).min();
    let alarms = [step, page, held, group, own, holds, asked];
    Some(alarms.into_iter().flatten().min().unwrap_or(clock + LONGEST_WAIT))
}
