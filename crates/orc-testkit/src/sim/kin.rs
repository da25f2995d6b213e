//! What flows do to each other, as the runtime does it: starting a child or finding that it is there, telling what
//! happened to those that wait for it.

use std::sync::Arc;

use orc_domain::action::WaitEvent;
use orc_domain::event::Fact;
use orc_domain::flow::{FlowSpec, FlowState};
use orc_domain::ids::FlowId;
use orc_domain::input::Input;
use orc_engine::{Again, New};
use orc_ports::store::Commit;

use super::host::by_system;
use super::{Moved, Sim};

impl Sim<'_> {
    /// Starts a child flow. One that is over tells its parent again.
    pub(super) fn start_child(&mut self, spec: &FlowSpec) -> Moved<()> {
        self.may_crash("before a child is started")?;
        if let Some(flow) = self.model.flow(spec.id) {
            let FlowState::Finished { outcome, .. } = flow.head.state else { return Ok(()) };
            let Some(parent) = &spec.parent else { return Ok(()) };
            let (output, detail) = (flow.head.output.clone(), flow.head.detail.clone());
            let tips = Vec::new();
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
        let Some(before) = before.filter(|before| before.spec.pipeline == spec.pipeline) else { return fresh };
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
}
