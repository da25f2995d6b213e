//! What flows do to each other, as the runtime does it: starting a child or finding that it is there, telling what
//! happened to those that wait for it, carrying on one that is over.

use std::sync::Arc;

use orc_domain::action::WaitEvent;
use orc_domain::event::Fact;
use orc_domain::flow::{FlowSpec, FlowState};
use orc_domain::ids::FlowId;
use orc_domain::input::Input;
use orc_domain::principal::Principal;
use orc_engine::{Again, New};
use orc_ports::store::Commit;

use super::host::by_system;
use super::judge::ended_well;
use super::rule::{Rule, hold};
use super::{Moved, Sim, oracle};
use crate::fixture;

impl Sim<'_> {
    /// Starts a child flow. One that is over tells its parent again.
    pub(super) fn start_child(&mut self, spec: &FlowSpec) -> Moved<()> {
        self.may_crash("before a child is started")?;
        if let Some(flow) = self.model.flow(spec.id) {
            let FlowState::Finished { outcome, .. } = flow.head.state else { return Ok(()) };
            let Some(parent) = &spec.parent else { return Ok(()) };
            let (output, detail) = (flow.head.output.clone(), flow.head.detail.clone());
            let tips = flow.head.tips.clone();
            let ended = Input::ChildEnded { flow: spec.id, outcome, output, tips, detail };
            return self.hear(parent.flow, &by_system(ended));
        }
        let Some(plan) = self.plans.get(&spec.pipeline).map(Arc::clone) else { return Ok(()) };
        let spec = self.carried(spec);
        if !self.judge.flows.contains_key(&spec.id) {
            self.judge.expect(spec.clone(), plan);
            self.result.flows += 1;
        }
        self.begin(spec)?;
        self.may_crash("after a child was started")
    }

    /// The start of a child that carries on the child of the flow that its parent carries on.
    fn carried(&self, spec: &FlowSpec) -> FlowSpec {
        let fresh = FlowSpec { retry_of: None, ..spec.clone() };
        let before = spec.retry_of.and_then(|before| self.model.flow_load(before)).map(|loaded| loaded.flow);
        let same = |old: &FlowSpec| old.pipeline == spec.pipeline && old.from == spec.from;
        let Some(before) = before.filter(|before| same(&before.spec)) else { return fresh };
        let Some(pipeline) = self.model.pipeline_get(&spec.pipeline) else { return fresh };
        let new = New { id: spec.id, by: spec.requested_by.clone(), now: spec.created_at };
        match orc_engine::fork(&before, &pipeline, &Again::Unfinished, new) {
            Ok(forked) => FlowSpec { taken_over: forked.taken_over, carried: forked.carried, ..spec.clone() },
            Err(_) => fresh,
        }
    }

    /// Tells the ends of flows and of agents' runs to flows that wait for one.
    pub(super) fn spread(&mut self, flow: FlowId, commit: &Commit) {
        for body in &commit.decision.events {
            let (event, outcome) = match &body.fact {
                Fact::FlowFinished { outcome, .. } => (WaitEvent::FlowFinished, outcome.word().to_owned()),
                Fact::AgentRunCompleted { outcome, .. } => (WaitEvent::AgentRunCompleted, outcome.status().to_owned()),
                _ => continue,
            };
            let pipeline = self.judge.flows.get(&flow).map(|shadow| shadow.spec.name.clone()).unwrap_or_default();
            for waiting in self.model.flows_waiting_for(event) {
                let (pipeline, outcome) = (pipeline.clone(), outcome.clone());
                self.post(waiting, by_system(Input::Happened { event, flow, pipeline, at: body.at, outcome }));
            }
        }
    }
    /// Deals with flows that are over: compares a retry with what it carries on, and now and then retries.
    pub(super) fn bury(&mut self) -> Moved<()> {
        let over = self.judge.flows.iter();
        let over = over.filter(|(flow, shadow)| shadow.is_finished() && !self.buried.contains(flow));
        let over: Vec<FlowId> = over.map(|(flow, _)| *flow).collect();
        for flow in over {
            self.buried.insert(flow);
            self.check_retry(flow)?;
            let plan = Arc::clone(&self.judge.flows[&flow].plan);
            let Some(old) = self.model.flow_load(flow) else { continue };
            if self.buried.len() > 5 || !self.dice.permille(500) {
                continue;
            }
            let id = fixture::flow_id(self.next_flow_number());
            let by = Principal::Os(1000);
            if let Ok(spec) =
                orc_engine::fork(&old.flow, &plan.pipeline, &Again::Unfinished, New { id, by, now: self.wall() })
            {
                self.note(|| format!("retries {flow} as {id}"));
                self.expect(self.now, spec, plan);
            }
        }
        Ok(())
    }

    fn check_retry(&self, flow: FlowId) -> Moved<()> {
        let new = &self.judge.flows[&flow];
        let old = new.spec.retry_of.and_then(|old| self.judge.flows.get(&old));
        let Some(old) = old else { return Ok(()) };
        for (at, output) in oracle::kept_by_retry(old) {
            let (before, after) = (&old.steps[at], &new.steps[at]);
            let given = old.spec.taken_over.get(&before.path).filter(|_| !ended_well(before));
            let handed = given.map_or(&before.tips, |given| &given.tips);
            let same = ended_well(after) && after.output.as_ref() == output && after.tips == *handed;
            hold(same || new.was_unwanted(), Rule::TakenOver, flow, || {
                let (before_tips, after_tips) = (handed, &after.tips);
                format!(
                    "`{}` was {:?} with {before_tips:?} and is {:?} with {after_tips:?}",
                    before.path, before.state, after.state
                )
            })?;
            let starts = self.world.step_starts.get(&(flow, before.path.clone()));
            hold(starts.is_none(), Rule::TakenOver, flow, || format!("`{}` had succeeded and ran again", before.path))?;
        }
        Ok(())
    }
}
