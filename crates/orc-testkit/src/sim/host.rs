//! An instance of the orchestrator as the runtime behaves: it hears inputs in order, decides, commits, delivers effects,
//! rings alarms, and on boot reconciles what the instance before it left.
//!
//! The rules it keeps, and the runtime with it: a decision that did not commit is thrown away with its flow; a run is
//! started only after its claim was `Updated`, or after a look that shows this instance as its owner when the answer
//! was lost; lost runs are heard before any effect of their flow is delivered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use orc_domain::claim::{Claim, Holder, Refusal};
use orc_domain::effect::{Decision, Effect, EffectKind};
use orc_domain::flow::FlowSpec;
use orc_domain::ids::{EffectId, FlowId, InstanceId, RunId};
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_domain::time::Millis;
use orc_domain::tree::Place;
use orc_engine::{Context, Resident};
use orc_ports::store::{Commit, Committed, Guarded, Instance};

use super::disturb::{Call, Fault};
use super::judge::Evidence;
use super::rule::{Rule, Violation, hold};
use super::sabotage::{Sabotage, Spoil};
use super::world::{Started, not_started};
use super::{Halt, MEMORY, Moved, Sim};
use crate::fixture;

/// Between TERM and KILL.
const GRACE: Millis = Millis::from_secs(10);
/// Flows up to this many steps are compared as a whole after each commit, larger ones now and then.
const SMALL: usize = 40;

/// The memory of an instance.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) id: InstanceId,
    pub(super) residents: BTreeMap<FlowId, Resident>,
    pub(super) inbox: BTreeMap<FlowId, VecDeque<Signed>>,
    /// Runs that it started, or tried to.
    tried: BTreeSet<RunId>,
    /// Concurrency groups that it knows to be full.
    full: BTreeMap<String, Vec<Holder>>,
}

impl Host {
    pub(super) const fn new(id: InstanceId) -> Self {
        Self { id, residents: BTreeMap::new(), inbox: BTreeMap::new(), tried: BTreeSet::new(), full: BTreeMap::new() }
    }
}

/// What became of a commit, as far as the instance knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Done,
    Stale,
    Refused(Refusal),
    Unknown,
}

/// What can be done next.
#[derive(Clone, Copy, Debug)]
enum Act {
    Begin(usize),
    Hear(FlowId),
    Deliver(FlowId),
    Ring(FlowId),
}

impl Sim<'_> {
    /// One thing happens.
    pub(super) fn step(&mut self) -> Moved<()> {
        self.bury()?;
        if self.is_over() {
            return Ok(());
        }
        self.disturb()?;
        self.live()?;
        for (flow, inputs) in self.world.end_due(self.now) {
            self.post_all(flow, inputs.into_iter().map(by_system).collect());
        }
        let acts = self.acts();
        match self.dice.pick(&acts) {
            Some(Act::Begin(at)) => {
                let (_, spec) = self.coming[at].clone();
                self.begin(spec)?;
                self.coming.remove(at);
            }
            Some(Act::Hear(flow)) => self.hear_next(flow)?,
            Some(Act::Deliver(flow)) => {
                let pending = self.model.effects_pending(flow);
                if let Some(effect) = pending.first() {
                    self.deliver(flow, effect)?;
                }
            }
            Some(Act::Ring(flow)) => {
                self.forget_groups(flow);
                self.hear(flow, &by_system(Input::Alarm))?;
            }
            None if self.reload_stale() || self.people_act() => {}
            None => self.pass_time()?,
        }
        Ok(())
    }

    fn acts(&self) -> Vec<Act> {
        let begin = self.coming.iter().enumerate().filter(|(_, (at, _))| *at <= self.now);
        let mut acts: Vec<Act> = begin.map(|(at, _)| Act::Begin(at)).collect();
        let waiting = self.host.inbox.iter().filter(|(_, inbox)| !inbox.is_empty());
        acts.extend(waiting.map(|(flow, _)| Act::Hear(*flow)));
        let pending = self.model.flow_ids().filter(|flow| !self.model.effects_pending(*flow).is_empty());
        acts.extend(pending.map(Act::Deliver));
        let wall = self.wall();
        let due = self.host.residents.iter();
        let due = due.filter(|(_, resident)| resident.wake_at().is_some_and(|at| at <= wall));
        acts.extend(due.map(|(flow, _)| Act::Ring(*flow)));
        acts
    }

    /// A flow that has waited long for a group tries again whatever is known of it.
    fn forget_groups(&mut self, flow: FlowId) {
        let wanted = self.host.residents.get(&flow).map(Resident::wants_groups).unwrap_or_default();
        self.host.full.retain(|name, _| !wanted.contains(name));
    }

    /// Nothing can be done now: the next moment at which something can.
    fn pass_time(&mut self) -> Moved<()> {
        let alarms = self.host.residents.values().filter_map(Resident::wake_at);
        let alarms = alarms.map(|at| at.as_millis() - self.skew);
        let coming = self.coming.iter().map(|(at, _)| *at);
        let next = alarms.chain(coming).chain(self.world.next_end()).min();
        let Some(next) = next else {
            // A disturbance may have ended the last flow.
            if self.judge.all_finished() {
                return Ok(());
            }
            return Err(Halt::Broken(Violation {
                rule: Rule::Ends,
                flow: None,
                found: "nothing will ever happen again".to_owned(),
            }));
        };
        self.now = self.now.max(next);
        self.vain += 1;
        Ok(())
    }

    /// Puts an input into a flow's inbox.
    pub(super) fn post(&mut self, flow: FlowId, signed: Signed) {
        self.post_all(flow, vec![signed]);
    }

    /// The same for inputs whose order is never another.
    fn post_all(&mut self, flow: FlowId, all: Vec<Signed>) {
        let again = self.strikes(Fault::Repeat, 30);
        let early = self.strikes(Fault::Reorder, 100);
        let length = self.host.inbox.get(&flow).map_or(0, VecDeque::len);
        let at = if early { self.dice.below(length + 1) } else { length };
        let inbox = self.host.inbox.entry(flow).or_default();
        if again {
            inbox.extend(all.iter().cloned());
        }
        for signed in all.into_iter().rev() {
            inbox.insert(at, signed);
        }
    }

    fn hear_next(&mut self, flow: FlowId) -> Moved<()> {
        let Some(signed) = self.host.inbox.get_mut(&flow).and_then(VecDeque::pop_front) else {
            return Ok(());
        };
        let together = self.dice.permille(200);
        let rest = self.host.inbox.get_mut(&flow).filter(|_| together);
        let mut inputs = vec![signed];
        inputs.extend(rest.map(std::mem::take).unwrap_or_default());
        if let [only] = inputs.as_slice() {
            return self.hear(flow, only);
        }
        let slots = self.offer(&inputs);
        self.hear_all(flow, &inputs, slots)
    }

    /// Decides about an input and makes the decision true, however often that takes.
    pub(super) fn hear(&mut self, flow: FlowId, signed: &Signed) -> Moved<()> {
        self.note(|| format!("hears {:?}", signed.input));
        self.remember(flow, signed);
        let mut slots = self.offer(std::slice::from_ref(signed));
        loop {
            let Some(resident) = self.resident(flow) else {
                return Ok(());
            };
            let expected = resident.flow().head.version;
            let context = self.context(slots);
            let signed = self.settings.sabotage.twist(signed, resident.flow());
            let (next, decision) = self.decide(resident, &signed, &context)?;
            if decision.is_empty() {
                self.vain += u64::from(signed.input == Input::Alarm);
                self.result.taken.extend(&decision.transitions);
                self.host.residents.insert(flow, next);
                return Ok(());
            }
            let commit = self.commit_of(flow, expected, decision);
            match self.commit(&commit, &next, false)? {
                Answer::Done => return self.keep(flow, next, &commit),
                Answer::Refused(refusal) => self.note_refusal(refusal, &mut slots),
                Answer::Unknown if self.settings.sabotage == Sabotage::DropInput => return Ok(()),
                Answer::Stale | Answer::Unknown => {}
            }
        }
    }

    /// Decides about inputs one right after the other and commits all together; if that does not work, one by one.
    fn hear_all(&mut self, flow: FlowId, inputs: &[Signed], mut slots: u32) -> Moved<()> {
        let Some(mut resident) = self.resident(flow) else {
            return Ok(());
        };
        let expected = resident.flow().head.version;
        let mut all = Decision::default();
        for signed in inputs {
            let context = self.context(slots);
            let (next, decision) = self.decide(resident, signed, &context)?;
            let claimed = decision.claims.iter().filter(|claim| matches!(claim, Claim::Slot { .. })).count();
            slots = slots.saturating_sub(u32::try_from(claimed).unwrap_or(u32::MAX));
            resident = next;
            all = all.then(decision);
        }
        if !all.is_empty() {
            self.note(|| format!("hears {} inputs together", inputs.len()));
            let commit = self.commit_of(flow, expected, all);
            if self.commit(&commit, &resident, true)? == Answer::Done {
                return self.keep(flow, resident, &commit);
            }
        }
        inputs.iter().try_for_each(|signed| self.hear(flow, signed))
    }

    fn note_refusal(&mut self, refusal: Refusal, slots: &mut u32) {
        match refusal {
            Refusal::Slot => *slots = 0,
            Refusal::Group { name, holders } => drop(self.host.full.insert(name, holders)),
        }
    }

    pub(super) fn begin(&mut self, spec: FlowSpec) -> Moved<()> {
        self.note(|| format!("begins {}", spec.id));
        let Some(pipeline) = self.model.pipeline_get(&spec.pipeline) else {
            return Ok(());
        };
        let mut slots = self.offer(&[]);
        loop {
            let context = self.context(slots);
            let (resident, decision) = orc_engine::start(spec.clone(), Arc::clone(&pipeline), &context);
            let mut commit = self.commit_of(spec.id, 0, decision);
            commit.create = Some(spec.clone());
            match self.commit(&commit, &resident, false)? {
                Answer::Done => return self.keep(spec.id, resident, &commit),
                // It exists already: the first try was not in vain.
                Answer::Stale => {
                    let loaded = self.load(spec.id);
                    self.host.residents.extend(loaded.map(|resident| (spec.id, resident)));
                    return Ok(());
                }
                Answer::Refused(refusal) => self.note_refusal(refusal, &mut slots),
                Answer::Unknown => {}
            }
        }
    }

    /// Slots as far as this instance knows: those that are free, and those that the inputs may give back.
    fn offer(&mut self, inputs: &[Signed]) -> u32 {
        let ends = |signed: &&Signed| matches!(signed.input, Input::RunEnded { .. } | Input::RunLost { .. });
        let given_back = inputs.iter().filter(ends).count();
        let free = self.capacity.saturating_sub(self.model.slots().len()) + given_back;
        let believed = if self.strikes(Fault::Refuse, 60) { free + 1 } else { free };
        u32::try_from(believed).unwrap_or(0)
    }

    pub(super) fn context(&self, slots: u32) -> Context {
        Context { now: self.wall(), slots, grace: GRACE, full: self.host.full.clone() }
    }

    pub(super) fn commit_of(&self, flow: FlowId, expected: u64, decision: Decision) -> Commit {
        Commit { flow, create: None, expected, decision, slots: u32::try_from(self.capacity).unwrap_or(u32::MAX) }
    }

    /// Decides, and checks that the decision follows from its arguments alone.
    pub(super) fn decide(
        &mut self,
        resident: Resident,
        signed: &Signed,
        context: &Context,
    ) -> Moved<(Resident, Decision)> {
        let flow = resident.flow().spec.id;
        let whole = self.looks_closely(&resident);
        let before = whole.then(|| Resident::new(resident.flow().clone(), Arc::clone(resident.pipeline())));
        let old = (self.settings.sabotage != Sabotage::None).then(|| resident.flow().clone());
        let (next, mut decision) = orc_engine::decide(resident, signed, context);
        if let Some(before) = before {
            let (other, again) = orc_engine::decide(before, signed, context);
            let same = again == decision && other.flow() == next.flow();
            hold(same, Rule::Repeatable, flow, || {
                format!("loaded anew, {:?} leads to {again:?} instead of {decision:?}", signed.input)
            })?;
            hold(next.index_is_true(), Rule::Index, flow, || {
                format!("after {:?} the index is not the one built anew", signed.input)
            })?;
        }
        let vain = decision.is_empty() && next.wake_at().is_some_and(|at| at <= context.now);
        hold(!vain, Rule::Alarm, flow, || {
            format!("after {:?} nothing changed and the alarm still rings", signed.input)
        })?;
        if let Some(old) = old.as_ref().filter(|_| !self.spoiled) {
            let spoil = Spoil { old, next: next.flow(), pipeline: next.pipeline() };
            self.spoiled |= self.settings.sabotage.spoil(&spoil, &mut decision);
        }
        Ok((next, decision))
    }

    fn looks_closely(&mut self, resident: &Resident) -> bool {
        resident.flow().steps.len() <= SMALL || self.dice.permille(60)
    }

    /// Commits, with everything that can go wrong around it.
    pub(super) fn commit(&mut self, commit: &Commit, next: &Resident, joined: bool) -> Moved<Answer> {
        self.may_crash("before a commit")?;
        let call = self.call();
        if call == Call::FailsBefore {
            self.note(|| "the commit fails".to_owned());
            return Ok(Answer::Unknown);
        }
        let answer = self.write(commit, joined)?;
        if answer == Answer::Done && self.looks_closely(next) {
            let stored = self.model.flow_load(commit.flow).map(|loaded| loaded.flow);
            hold(stored.as_ref() == Some(next.flow()), Rule::Rows, commit.flow, || {
                "what was stored is not what was decided".to_owned()
            })?;
        }
        if call == Call::FailsAfter {
            self.note(|| "the answer of the commit is lost".to_owned());
            return Ok(Answer::Unknown);
        }
        self.may_crash("after a commit")?;
        Ok(answer)
    }

    /// Commits and lets the judge look.
    pub(super) fn write(&mut self, commit: &Commit, joined: bool) -> Moved<Answer> {
        let committed = self.model.commit(commit).map_err(|error| Violation {
            rule: Rule::Contract,
            flow: Some(commit.flow),
            found: error.to_string(),
        })?;
        let answer = match committed {
            Committed::Done => Answer::Done,
            Committed::Stale => Answer::Stale,
            Committed::Refused(refusal) => Answer::Refused(refusal),
        };
        self.note(|| format!("  {answer:?} {:?}", commit.decision.transitions));
        if answer == Answer::Done {
            self.result.commits += 1;
            self.result.taken.extend(&commit.decision.transitions);
            self.judge.see(&Evidence {
                flow: commit.flow,
                decision: &commit.decision,
                joined,
                model: &self.model,
                world: &self.world,
                wall: self.wall(),
                capacity: self.capacity,
            })?;
        }
        Ok(answer)
    }

    /// Keeps a flow whose decision is true now, and tells others that a slot is free.
    fn keep(&mut self, flow: FlowId, next: Resident, commit: &Commit) -> Moved<()> {
        self.host.residents.insert(flow, next);
        self.spread(flow, commit);
        let mut free = BTreeSet::new();
        for claim in &commit.decision.releases {
            if let Claim::Group { name, .. } = claim {
                self.host.full.remove(name);
                free.insert(name.clone());
            }
        }
        if !commit.decision.releases.is_empty() && self.dice.permille(700) {
            let wants = |other: &Resident| other.wants_slot().is_some() || !other.wants_groups().is_disjoint(&free);
            let wanting = self.host.residents.iter().filter(|(_, other)| wants(other));
            let wanting: Vec<FlowId> = wanting.map(|(flow, _)| *flow).collect();
            for other in wanting {
                self.post(other, by_system(Input::Alarm));
            }
        }
        Ok(())
    }

    fn remember(&mut self, flow: FlowId, signed: &Signed) {
        if self.heard.len() == MEMORY {
            self.heard.remove(0);
        }
        self.heard.push((flow, signed.clone()));
    }

    /// Takes a flow out of memory, or loads it.
    fn resident(&mut self, flow: FlowId) -> Option<Resident> {
        if !self.host.residents.contains_key(&flow) {
            let loaded = self.load(flow)?;
            self.host.residents.insert(flow, loaded);
        }
        self.host.residents.remove(&flow)
    }

    pub(super) fn load(&self, flow: FlowId) -> Option<Resident> {
        let loaded = self.model.flow_load(flow)?;
        let pipeline = self.model.pipeline_get(&loaded.flow.spec.pipeline)?;
        Some(Resident::new(loaded.flow, pipeline))
    }

    /// Delivers an effect, perhaps not for the first time.
    pub(super) fn deliver(&mut self, flow: FlowId, effect: &Effect) -> Moved<()> {
        if self.done.len() == MEMORY {
            self.done.remove(0);
        }
        self.done.push((flow, effect.clone()));
        match &effect.kind {
            EffectKind::StartRun { run, .. } | EffectKind::StartAgent { run, .. } | EffectKind::Join { run, .. } => {
                self.start_run(flow, effect, *run)
            }
            EffectKind::StartFlow { spec } => {
                self.start_child(spec)?;
                self.mark_delivered(effect.id)
            }
            EffectKind::Tell { flow, signed } => {
                self.may_crash("before another flow is told")?;
                self.hear(*flow, signed)?;
                self.mark_delivered(effect.id)
            }
            EffectKind::KeepRule { rule } => {
                self.note(|| format!("keeps `{}`", rule.rule));
                self.mark_delivered(effect.id)
            }
            EffectKind::WriteRun { run, message } => {
                self.note(|| format!("writes {} to {run}", message.id));
                self.mark_delivered(effect.id)
            }
            EffectKind::StopRun { run, grace, .. } => {
                self.note(|| format!("stops {run} with {grace}"));
                self.world.stop(*run, grace.as_millis(), self.now, &mut self.dice);
                self.mark_delivered(effect.id)
            }
        }
    }

    fn mark_delivered(&mut self, effect: EffectId) -> Moved<()> {
        self.may_crash("after an effect")?;
        if self.call() != Call::FailsBefore {
            self.model.effect_delivered(effect);
        }
        self.may_crash("after an effect was marked")
    }

    fn start_run(&mut self, flow: FlowId, effect: &Effect, run: RunId) -> Moved<()> {
        self.may_crash("before a claim")?;
        let call = self.call();
        if call == Call::FailsBefore {
            return Ok(());
        }
        let mut mine = self.model.run_claim(run, effect.id, self.host.id) == Guarded::Updated;
        if call == Call::FailsAfter {
            let kept = self.model.run(run);
            mine |= kept.is_some_and(|kept| kept.claimed_by == Some(self.host.id)) && !self.host.tried.contains(&run);
        }
        if !mine && self.settings.sabotage != Sabotage::StartUnclaimed {
            self.note(|| format!("{run} is not to be started"));
            return Ok(());
        }
        self.may_crash("between claim and start")?;
        self.host.tried.insert(run);
        if self.dice.permille(40) {
            self.note(|| format!("{run} cannot be started"));
            let ending = not_started();
            self.post(flow, by_system(Input::RunEnded { run, ending, told: None }));
            return Ok(());
        }
        if !self.check_start(flow, effect, run)? {
            return Ok(());
        }
        self.may_crash("between start and its report")?;
        let process = self.world.process(self.host.id);
        self.post(flow, by_system(Input::RunStarted { run, process }));
        Ok(())
    }

    /// Starts the process of a run, or its merge, which has none. True when there is a process.
    fn check_start(&mut self, flow: FlowId, effect: &Effect, run: RunId) -> Moved<bool> {
        let (path, place, is_agent) = match &effect.kind {
            EffectKind::StartRun { command, .. } => (&command.path, Some(&command.place), false),
            EffectKind::StartAgent { call, .. } => (&call.path, Some(&call.place), true),
            EffectKind::Join { path, .. } => (path, None, false),
            EffectKind::StopRun { .. }
            | EffectKind::WriteRun { .. }
            | EffectKind::StartFlow { .. }
            | EffectKind::Tell { .. }
            | EffectKind::KeepRule { .. } => return Ok(false),
        };
        let copy = place.and_then(|place| match place {
            Place::Boxed { copy, .. } => copy.as_ref(),
            Place::InPlace { .. } => None,
        });
        self.note(|| format!("starts {path}, {run}"));
        let started = Started { flow, path, run, instance: self.host.id, now: self.now, is_agent, copy };
        if let Some(ending) = self.world.prepare(&started) {
            self.note(|| format!("{ending:?}"));
            self.post(flow, by_system(Input::RunEnded { run, ending, told: None }));
            return Ok(false);
        }
        let twin = match &effect.kind {
            EffectKind::Join { copy, .. } => self.world.join(started, copy, &mut self.dice),
            _ => self.world.start(started, &mut self.dice),
        };
        let often = self.world.starts.get(&run).copied().unwrap_or_default();
        hold(!twin && often == 1, Rule::OneRun, flow, || {
            format!("`{path}` has two processes, or one run two: {often} starts")
        })?;
        let idempotent = self.judge.flows.get(&flow).is_none_or(|shadow| shadow.is_idempotent(path));
        let starts = self.world.step_starts.get(&(flow, path.clone())).copied().unwrap_or(0);
        hold(idempotent || starts <= 1, Rule::NotIdempotent, flow, || format!("`{path}` was started {starts} times"))?;
        Ok(place.is_some())
    }

    /// The instance is gone: so are its memory and its processes. A new one takes over.
    pub(super) fn crash(&mut self) -> Moved<()> {
        self.next_instance += 1;
        self.host = Host::new(fixture::instance_id(self.next_instance));
        self.boot()
    }

    /// Reconciles what the store says with what is there: nothing of another instance is.
    pub(super) fn boot(&mut self) -> Moved<()> {
        let id = self.host.id;
        let instance = Instance { id, pid: 1, command: "serve".to_owned(), began_at: self.wall() };
        self.model.instance_begin(instance).map_err(|error| Violation {
            rule: Rule::Contract,
            flow: None,
            found: error.to_string(),
        })?;
        self.world.reap(id);
        for dead in self.model.instances_open() {
            if dead.id != id {
                self.model.instance_end(dead.id, self.wall());
            }
        }
        for flow in self.model.flows_unfinished(None, u32::MAX) {
            let Some(loaded) = self.model.flow_load(flow) else { continue };
            let lost = |run: &RunId| {
                let run = *run;
                let claimed = loaded.claimed.iter().any(|(other, _)| *other == run);
                let evidence = "its instance ended".to_owned();
                let input = by_system(Input::RunLost { run, claimed, evidence });
                self.settings.sabotage.twist(&input, &loaded.flow)
            };
            let lost: Vec<Signed> = loaded.flow.runs.keys().map(lost).collect();
            self.hear_all(flow, &lost, 0)?;
            self.post(flow, by_system(Input::Alarm));
        }
        Ok(())
    }
}

/// An input of the orchestrator itself.
pub(super) fn by_system(input: Input) -> Signed {
    Signed { by: Principal::System, input }
}
