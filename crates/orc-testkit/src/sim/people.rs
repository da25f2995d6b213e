//! People: they answer requests or try to, write to agents, pause and resume; and agents say that they live.

use std::collections::BTreeSet;

use orc_domain::flow::FlowState;
use orc_domain::hold::HoldReason;
use orc_domain::ids::{ContentHash, FlowId};
use orc_domain::input::{Input, Signed};
use orc_domain::path::StepPath;
use orc_domain::permission::Scope;
use orc_domain::principal::Principal;
use orc_domain::request::{Answer, Request, RequestState, Standing};
use orc_domain::time::Timestamp;

use super::disturb::by_person;
use super::host::by_system;
use super::plan::LEAD;
use super::{Moved, Sim};
use crate::fixture;

/// Answers and is never heard: whose answer counts has asked the wrong one.
pub(crate) const STRANGER: &str = "eve";

impl Sim<'_> {
    /// What happens in any case, with faults and without.
    pub(super) fn live(&mut self) -> Moved<()> {
        if self.dice.permille(150)
            && let Some((flow, input)) = self.world.say(self.now + self.skew, &mut self.dice)
        {
            self.post(flow, by_system(input));
        }
        if self.dice.permille(15) {
            self.somebody_answers();
        }
        if !self.calm && self.dice.permille(15) {
            self.somebody_writes();
        }
        Ok(())
    }

    /// A flow that another process changed and that changes nothing itself would never find out; in calm times it does.
    pub(super) fn reload_stale(&mut self) -> bool {
        let stored = |flow: &FlowId| self.model.flow(*flow).map(|flow| flow.head.version);
        let is_stale = |(flow, resident): &(&FlowId, &orc_engine::Resident)| {
            self.calm && stored(flow).is_some_and(|version| version != resident.flow().head.version)
        };
        let Some(flow) = self.host.residents.iter().find(is_stale).map(|(flow, _)| *flow) else { return false };
        let loaded = self.load(flow);
        self.host.residents.extend(loaded.map(|resident| (flow, resident)));
        true
    }

    /// Nothing else can be done now: perhaps somebody does something. In calm times pauses end, and most answers come.
    pub(super) fn people_act(&mut self) -> bool {
        let paused = |flow: &FlowId| {
            let flow = self.model.flow(*flow).filter(|flow| !flow.is_finished())?;
            let hold = flow.head.holds.iter().find(|hold| hold.reason == HoldReason::Paused)?;
            Some((flow.spec.id, hold.scope.clone()))
        };
        let held = self.model.flow_ids().find_map(|flow| paused(&flow));
        if self.calm
            && let Some((flow, scope)) = held
        {
            let step = match scope {
                orc_domain::hold::HoldScope::Flow => None,
                orc_domain::hold::HoldScope::Step(path) => Some(path),
            };
            self.post(flow, by_person(Input::Lift { step, reason: HoldReason::Paused }));
            return true;
        }
        let often = if self.calm { 700 } else { 150 };
        self.dice.permille(often) && self.somebody_answers()
    }

    /// True when there was something to answer.
    fn somebody_answers(&mut self) -> bool {
        let open = |request: &&Request| matches!(request.state, RequestState::Open { .. });
        let requests: Vec<_> = self
            .model
            .requests()
            .filter(open)
            .map(|request| (request.flow, request.id, request.subject.clone()))
            .collect();
        let at = self.dice.below(requests.len());
        let Some((flow, request, subject)) = requests.get(at).cloned() else { return false };
        let answer = if self.dice.permille(700) { Answer::Approved } else { Answer::Denied };
        let (name, names, admin) = match self.dice.below(10) {
            0 => (STRANGER, BTreeSet::from(["nobody".to_owned()]), false),
            1 => ("bob", BTreeSet::from(["boss".to_owned()]), false),
            _ => ("ada", BTreeSet::from([LEAD.to_owned()]), true),
        };
        let subject = match self.dice.below(8) {
            0 => Some(ContentHash::of(b"something else")),
            1 => Some(subject),
            _ => None,
        };
        let by = Principal::Person(name.to_owned());
        let standing = Standing { names, admin };
        let scope = [Scope::Call, Scope::Run, Scope::Forever][self.dice.below(20).saturating_sub(17)];
        let input = Input::Answer { request, answer, scope, subject, standing, reason: String::new() };
        self.post(flow, Signed { by, input });
        true
    }

    fn somebody_writes(&mut self) {
        let Some((flow, path)) = self.some_step() else { return };
        self.next_message += 1;
        let id = fixture::message_id(self.next_message);
        let text = format!("message {}", self.next_message);
        self.post(flow, by_person(Input::Message { path, id, text }));
    }

    /// Also what was held before may be held, and what was not lifted.
    pub(super) fn somebody_pauses(&mut self, flow: FlowId) {
        let step = if self.dice.permille(500) { self.some_step_of(flow) } else { None };
        let reason = HoldReason::Paused;
        let length = i64::try_from(self.dice.millis(1_000, 400_000)).unwrap_or(0);
        let until = self.dice.permille(500).then(|| Timestamp::from_millis(self.now + self.skew + length));
        let input = if self.dice.permille(600) {
            Input::Hold { step, reason, note: String::new(), until }
        } else {
            Input::Lift { step, reason }
        };
        self.post(flow, by_person(input));
    }

    fn some_step(&mut self) -> Option<(FlowId, StepPath)> {
        let live = |flow: &FlowId| {
            self.model.flow(*flow).is_some_and(|flow| matches!(flow.head.state, FlowState::Live { .. }))
        };
        let flows: Vec<FlowId> = self.model.flow_ids().filter(live).collect();
        let flow = self.dice.pick(&flows)?;
        Some((flow, self.some_step_of(flow)?))
    }

    fn some_step_of(&mut self, flow: FlowId) -> Option<StepPath> {
        let steps = &self.model.flow(flow)?.steps;
        let at = self.dice.below(steps.len());
        steps.get(at).map(|step| step.path.clone())
    }
}
