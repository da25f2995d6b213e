//! How work travels: what a step starts from, what it hands on, and who brings together what contradicts itself.
//!
//! Nothing is merged here. A step names the tips that it starts from, and whoever carries its run out merges them: equal
//! tips give equal commits, so that a run that is made again starts from the same. Only a fan-out has a run for the merge
//! alone, because nobody else would find out that its elements contradict each other.

use std::collections::BTreeSet;

use orc_domain::confine::BoxRules;
use orc_domain::effect::EffectKind;
use orc_domain::flow::{Merging, Origin, StepNo, StepOutcome, StepState};
use orc_domain::graph::StartFrom;
use orc_domain::run::{Failure, WakeReason};
use orc_domain::transition::Transition;
use orc_domain::tree::{Place, PrivateCopy, Repository, Tip, Tree, base_of, tip_of, without_repeats};
use orc_domain::wait::Wait;

use crate::draft::Draft;
use crate::resident::Body;

impl Draft<'_> {
    /// Whether a run of this step is the merge of what its elements made.
    pub(crate) fn joins(&self, no: StepNo) -> bool {
        self.spec(no).fan.is_some() && self.step(no).origin.element().is_none()
    }

    fn base(&self) -> Tree {
        base_of(&self.resident.flow.spec.repositories)
    }

    /// The tips that a step starts from; none: the flow's own commits.
    pub(crate) fn starts_from(&self, no: StepNo) -> Vec<Tip> {
        let step = self.step(no);
        if let Merging::Resolved(tree) = &step.merging {
            return vec![tip_of(&step.path, tree.clone())];
        }
        let spec = self.spec(no);
        match &step.origin {
            _ if spec.worktree.from == StartFrom::Fresh => Vec::new(),
            Origin::Element(element) => self.starts_from(element.group),
            Origin::Root if spec.needs.is_empty() => self.resident.flow.spec.from.clone(),
            Origin::Round { of, number, first } if spec.needs.is_empty() => {
                self.round_starts_from(*of, *number, *first)
            }
            Origin::Root | Origin::Round { .. } => {
                let body = self.resident.body_of(no);
                let parents = spec.needs.iter().map(|need| self.step(body.instance(*need)));
                without_repeats(parents.flat_map(|parent| parent.tips.iter().cloned()), &self.base())
            }
        }
    }

    /// The tips that the first steps of a round start from: those of the round before.
    pub(crate) fn round_starts_from(&self, of: StepNo, number: u32, first: StepNo) -> Vec<Tip> {
        if number <= 1 {
            return self.starts_from(of);
        }
        let before = self.resident.below(of).filter_map(|step| match step.origin {
            Origin::Round { number: round, first, .. } if round == number - 1 => Some(first),
            _ => None,
        });
        let before = before.min().unwrap_or(first);
        self.tips_of_body(self.resident.repeat_body(of, before))
    }

    /// What the last steps of a body hand on: those that no other step of it needs.
    pub(crate) fn tips_of_body(&self, body: Body) -> Vec<Tip> {
        let specs = body.specs();
        let needed = |at: usize| {
            let of_body = &self.resident.pipeline.steps[specs.clone()];
            of_body.iter().any(|spec| spec.needs.iter().any(|need| need.0 as usize == at))
        };
        let last = specs.clone().zip(body.instances()).filter(|(at, _)| !needed(*at));
        without_repeats(last.flat_map(|(_, no)| self.step(no).tips.iter().cloned()), &self.base())
    }

    /// What the flow hands on: the tips of the last steps of its main part.
    pub(crate) fn tips_of_flow(&self) -> Vec<Tip> {
        let main = |at: &usize| self.resident.pipeline.steps[*at].phase == orc_domain::graph::PhaseKind::Main;
        let count = (0..self.resident.pipeline.roots()).take_while(main).count();
        let body = Body { count: u32::try_from(count).unwrap_or(u32::MAX), ..self.resident.root_body() };
        let tips = self.tips_of_body(body);
        if tips.is_empty() { self.resident.flow.spec.from.clone() } else { tips }
    }

    /// What the elements of a fan-out made, without what they all started from.
    pub(crate) fn results_of_elements(&self, no: StepNo) -> Vec<Tip> {
        let start = self.starts_from(no);
        let tips = without_repeats(self.resident.below(no).flat_map(|step| step.tips.iter().cloned()), &self.base());
        if tips.is_empty() {
            // An empty list, or a fan-out that was skipped.
            return start;
        }
        let news = |tip: &Tip| !start.iter().any(|old| old.tree == tip.tree);
        if tips.iter().any(news) { tips.into_iter().filter(|tip| news(tip)).collect() } else { tips }
    }

    /// Notes the commits that a run ended with, as what its step hands on.
    pub(crate) fn note_tree(&mut self, no: StepNo, tree: Option<Tree>) {
        let Some(tree) = tree else { return };
        let start = self.starts_from(no);
        let unchanged = match start.as_slice() {
            [] => tree == self.base(),
            [one] => tree == one.tree,
            _ => false,
        };
        if !unchanged {
            let tip = tip_of(&self.step(no).path, tree);
            self.edit(no, |step| step.tips = vec![tip]);
        }
    }

    /// A step that is over and made no commits of its own hands on those of its elements or rounds, or what it was handed.
    pub(crate) fn hand_on(&mut self, no: StepNo) {
        if self.resident.flow.spec.repositories.is_empty() || !self.step(no).tips.is_empty() {
            return;
        }
        let step = self.step(no);
        let tips = match &step.state {
            StepState::Waiting(Wait::Elements(_)) => self.results_of_elements(no),
            StepState::Waiting(Wait::Round(round)) => self.tips_of_body(self.resident.repeat_body(no, round.first)),
            _ if self.joins(no) => self.results_of_elements(no),
            _ => self.starts_from(no),
        };
        if !tips.is_empty() {
            self.edit(no, |step| step.tips = tips);
        }
    }

    /// Where a run of the step works.
    pub(crate) fn place_of(&self, no: StepNo, more: &BoxRules, goes_on: bool) -> Place {
        let spec = self.spec(no);
        let rules = spec.rules.with(more);
        match spec.worktree.from {
            StartFrom::InPlace => Place::InPlace { directory: self.resident.flow.spec.directory.clone() },
            StartFrom::None => Place::Boxed { copy: None, rules },
            StartFrom::Fresh | StartFrom::Parents => {
                let copy = self.copy_from(no, self.starts_from(no));
                Place::Boxed { copy: Some(PrivateCopy { goes_on, ..copy }), rules }
            }
        }
    }

    fn copy_from(&self, no: StepNo, from: Vec<Tip>) -> PrivateCopy {
        // A child flow has those of its parent, of which its own definition may name some.
        let of_pipeline = &self.resident.pipeline.repositories;
        let wanted = self.spec(no).worktree.repositories.as_ref();
        let has = |one: &&Repository| {
            let named = of_pipeline.is_empty() || of_pipeline.iter().any(|spec| spec.path == one.path);
            named && wanted.is_none_or(|paths| paths.contains(&one.path))
        };
        let repositories = self.resident.flow.spec.repositories.iter().filter(has).cloned().collect();
        PrivateCopy { repositories, from, goes_on: false, holds_conflict: false }
    }

    /// Starts the merge of what the elements of a fan-out made.
    pub(crate) fn start_join(&mut self, no: StepNo) -> Result<(), String> {
        let (run, attempt, wake) = self.next_run(no);
        let copy = self.copy_from(no, self.results_of_elements(no));
        self.begin_run(no, (run, attempt, wake), None, std::collections::BTreeMap::new());
        let path = self.step(no).path.clone();
        self.effect(run.uuid(), "start", EffectKind::Join { run, path, copy });
        Ok(())
    }

    /// Starts the agent of `on_conflict` in a copy that holds the conflict.
    pub(crate) fn start_resolving(&mut self, no: StepNo) -> Result<(), String> {
        let Some(action) = self.spec(no).on_conflict.clone() else {
            return Err("on_conflict: the definition has none".to_owned());
        };
        self.start_agent(no, &action)
    }

    /// The place of the agent of `on_conflict`.
    pub(crate) fn conflict_place(&self, no: StepNo, more: &BoxRules, goes_on: bool) -> Place {
        let from = if self.joins(no) { self.results_of_elements(no) } else { self.starts_from(no) };
        let copy = PrivateCopy { goes_on, holds_conflict: true, ..self.copy_from(no, from) };
        // The step's own commands may have secrets; an agent never has.
        let rules = BoxRules { secrets: BTreeSet::new(), ..self.spec(no).rules.with(more) };
        Place::Boxed { copy: Some(copy), rules }
    }

    /// A run ended because its tips contradict each other.
    pub(crate) fn contradicts(&mut self, no: StepNo, failure: Failure) {
        if self.spec(no).on_conflict.is_none() || !self.is_wanted(no) {
            // Whoever tries again gets the same: no `retry:` helps.
            self.take(Transition::StepFailed);
            return self.finish(no, StepOutcome::Failed(failure));
        }
        self.take(Transition::StepContradicts);
        self.edit(no, |step| step.merging = Merging::Contradicting);
        self.make_ready(no, self.now, WakeReason::Conflict);
    }

    /// A run brought together what a step starts from, or what its elements made.
    pub(crate) fn brought_together(&mut self, no: StepNo, tree: Option<Tree>) {
        let resolved = self.step(no).merging == Merging::Contradicting;
        self.take(if resolved { Transition::StepResolved } else { Transition::StepJoined });
        if self.joins(no) {
            let tip = tree.map(|tree| tip_of(&self.step(no).path, tree));
            self.edit(no, |step| step.tips = tip.into_iter().collect());
            return self.finish(no, StepOutcome::Succeeded);
        }
        if let Some(tree) = tree {
            self.edit(no, |step| step.merging = Merging::Resolved(tree));
        }
        if !self.is_wanted(no) {
            self.take(Transition::StepStopped);
            return self.finish(no, StepOutcome::Cancelled);
        }
        self.make_ready(no, self.now, WakeReason::PipelineStep);
    }
}
