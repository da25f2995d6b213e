//! How work travels: what a step starts from, what it hands on, and who brings together what contradicts itself.
//!
//! Nothing is merged here. A step names the tips that it starts from, and whoever carries its run out merges them: equal
//! tips give equal commits, so that a run that is made again starts from the same. Only a fan-out has a run for the merge
//! alone, because nobody else would find out that its elements contradict each other.

use std::collections::BTreeSet;

use orc_domain::confine::BoxRules;
use orc_domain::effect::EffectKind;
use orc_domain::flow::{Merging, Origin, Step, StepNo, StepOutcome, StepState};
use orc_domain::graph::StartFrom;
use orc_domain::run::{Cause, ErrorFamily, Failure, WakeReason};
use orc_domain::transition::Transition;
use orc_domain::tree::{CommitId, Place, PrivateCopy, Repository, Tip, Tree, base_of, tip_of, without_repeats};
use orc_domain::wait::Wait;

use crate::draft::Draft;
use crate::inputs::failed;
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
        self.after_so_far(no, self.is_handed(no))
    }

    /// Tips behind what was brought together of them, which most of them are part of by now: merging them changes nothing.
    fn after_so_far(&self, no: StepNo, tips: Vec<Tip>) -> Vec<Tip> {
        let step = self.step(no);
        match step.merging.so_far() {
            Some(tree) => {
                let so_far = tip_of(&step.path, tree.clone());
                without_repeats([so_far].into_iter().chain(tips), &self.base())
            }
            None => tips,
        }
    }

    fn is_handed(&self, no: StepNo) -> Vec<Tip> {
        let spec = self.spec(no);
        match &self.step(no).origin {
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

    /// A tip of a step, and beside it what it was handed of repositories that it has no copy of.
    fn with_rest(&self, no: StepNo, own: Tip, handed: &[Tip]) -> Vec<Tip> {
        let (base, copied) = (self.base(), self.repositories_of(no));
        let is_rest = |path: &String, commit: &CommitId| {
            base.0.get(path) != Some(commit) && !copied.iter().any(|one| one.path == *path)
        };
        let rest = handed.iter().map(|tip| {
            let commits = tip.tree.0.iter().filter(|(path, commit)| is_rest(path, commit));
            let commits = commits.map(|(path, commit)| (path.clone(), commit.clone()));
            Tip { by: tip.by.clone(), tree: Tree(commits.collect()) }
        });
        let rest = rest.filter(|tip| !tip.tree.0.is_empty());
        // Whoever went back to the base hands on that, and not what it was handed.
        [own].into_iter().chain(without_repeats(rest, &base)).collect()
    }

    /// The commits that a step starts from, as lines: whoever approves them approves no others.
    pub(crate) fn commits_before(&self, no: StepNo) -> String {
        let trees = self.starts_from(no).into_iter().map(|tip| tip.tree);
        let commits = std::iter::once(self.base()).chain(trees).flat_map(|tree| tree.0);
        commits.map(|(path, commit)| format!("\n{commit} {path}")).collect()
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

    /// What the elements of a fan-out hand on. Of runs, those that made nothing new add nothing: what the others made is
    /// built on the same start. Of rounds and child flows nobody here knows what they are built on.
    pub(crate) fn results_of_elements(&self, no: StepNo) -> Vec<Tip> {
        let (start, base) = (self.starts_from(no), self.base());
        let is_old = |(path, commit): (&String, &CommitId)| {
            base.0.get(path) == Some(commit) || start.iter().any(|tip| tip.tree.0.get(path) == Some(commit))
        };
        let runs = self.spec(no).action.is_run();
        let made = |step: &&Step| !runs || step.tips.iter().any(|tip| !tip.tree.0.iter().all(is_old));
        let elements = || self.resident.below(no).filter(made);
        let tips = elements().flat_map(|step| step.tips.iter().cloned());
        let stayed = start.iter().filter(|_| elements().any(|step| step.tips.is_empty())).cloned();
        let tips = without_repeats(stayed.chain(tips), &base);
        if tips.is_empty() { start } else { tips }
    }

    /// Whether what the elements of a fan-out hand on is more than one commit for some repository that it has a copy of.
    pub(crate) fn elements_differ(&self, no: StepNo) -> bool {
        let tips = self.results_of_elements(no);
        let copied = self.repositories_of(no);
        // Elements without news hand on what they were given, which nobody has to merge yet.
        tips != self.starts_from(no) && copied.iter().any(|one| commits_of(&tips, one).len() > 1)
    }

    /// What a fan-out handed on in the flow that this one carries on, where its elements are all those of that one.
    pub(crate) fn joined_before(&self, no: StepNo) -> Option<Vec<Tip>> {
        let taken_over = &self.resident.flow.spec.taken_over;
        let before = taken_over.get(&self.step(no).path)?;
        let same = self.resident.below(no).all(|element| taken_over.contains_key(&element.path));
        Some(before.tips.clone()).filter(|tips| same && !tips.is_empty())
    }

    /// Notes the commits that a run ended with, as what its step hands on.
    pub(crate) fn note_tree(&mut self, no: StepNo, tree: Option<Tree>) {
        let Some(tree) = tree else { return };
        let start = self.starts_from(no);
        let is_start = |one: &Repository| match (tree.0.get(&one.path), commits_of(&start, one).as_slice()) {
            (Some(commit), []) => *commit == one.commit,
            (Some(commit), [only]) => commit == *only,
            // A merge is news.
            (Some(_), _) => false,
            (None, _) => true,
        };
        let unchanged = self.repositories_of(no).iter().all(is_start);
        let own = tip_of(&self.step(no).path, tree);
        let tips = if unchanged { Vec::new() } else { self.with_rest(no, own, &start) };
        self.edit(no, |step| step.tips = tips);
    }

    /// A step that is over and made no commits of its own hands on those of its elements or rounds, or what it was handed.
    pub(crate) fn hand_on(&mut self, no: StepNo, outcome: &StepOutcome) {
        if self.resident.flow.spec.repositories.is_empty() || !self.step(no).tips.is_empty() {
            return;
        }
        let given = self.resident.flow.spec.taken_over.contains_key(&self.step(no).path) && !self.joins(no);
        if given && matches!(outcome, StepOutcome::Succeeded | StepOutcome::NoChange) {
            // What was taken over was nothing but the base.
            return;
        }
        let step = self.step(no);
        let tips = match &step.state {
            StepState::Waiting(Wait::Elements(_)) => self.results_of_elements(no),
            StepState::Waiting(Wait::Round(round)) => self.tips_of_body(self.resident.repeat_body(no, round.first)),
            // What somebody brought together of it is not lost with the merge that failed.
            _ if self.joins(no) => self.to_join(no),
            // A thousand elements that made nothing do not each hand on what their fan-out was handed.
            _ if step.origin.element().is_some() && step.merging.so_far().is_none() => return,
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

    /// Those that a step has copies of.
    fn repositories_of(&self, no: StepNo) -> Vec<Repository> {
        // A child flow has those of its parent, of which its own definition may name some.
        let of_pipeline = &self.resident.pipeline.repositories;
        let wanted = self.spec(no).worktree.repositories.as_ref();
        let has = |one: &&Repository| {
            let named = of_pipeline.is_empty() || of_pipeline.iter().any(|spec| spec.path == one.path);
            named && wanted.is_none_or(|paths| paths.contains(&one.path))
        };
        self.resident.flow.spec.repositories.iter().filter(has).cloned().collect()
    }

    fn copy_from(&self, no: StepNo, from: Vec<Tip>) -> PrivateCopy {
        PrivateCopy { repositories: self.repositories_of(no), from, goes_on: false, holds_conflict: false }
    }

    /// Starts the merge of what the elements of a fan-out made.
    pub(crate) fn start_join(&mut self, no: StepNo) -> Result<(), String> {
        let (run, attempt, wake) = self.next_run(no);
        let copy = self.copy_from(no, self.to_join(no));
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
        let from = if self.joins(no) { self.to_join(no) } else { self.starts_from(no) };
        let copy = PrivateCopy { goes_on, holds_conflict: true, ..self.copy_from(no, from) };
        // The step's own commands may have secrets; an agent never has.
        let rules = BoxRules { secrets: BTreeSet::new(), ..self.spec(no).rules.with(more) };
        Place::Boxed { copy: Some(copy), rules }
    }

    /// What the run of a fan-out merges.
    fn to_join(&self, no: StepNo) -> Vec<Tip> {
        self.after_so_far(no, self.results_of_elements(no))
    }

    /// A run ended because its tips contradict each other.
    pub(crate) fn contradicts(&mut self, no: StepNo, failure: Failure) {
        if self.step(no).merging.is_contradicting() {
            // Whoever was to bring them together left contradictions in it.
            return self.retry_or_fail(no, failure);
        }
        // Each time one more tip is brought in; more runs than that bring nothing about.
        let tips = if self.joins(no) { self.to_join(no).len() } else { self.starts_from(no).len() };
        let most = u32::try_from(tips).unwrap_or(u32::MAX).saturating_mul(2 + self.spec(no).retry.attempts);
        let resolvable = self.spec(no).on_conflict.is_some() && self.step(no).attempts <= most;
        if !resolvable || !self.is_wanted(no) {
            // Whoever tries again gets the same: no `retry:` helps.
            self.take(Transition::StepFailed);
            return self.finish(no, StepOutcome::Failed(failure));
        }
        self.take(Transition::StepContradicts);
        let so_far = self.step(no).merging.so_far().cloned();
        self.set_merging(no, Merging::Contradicting(so_far));
        self.make_ready(no, self.now, WakeReason::Conflict);
    }

    /// Whoever resolves a conflict has the step's `retry:` for himself, and the step has all of it afterwards.
    fn set_merging(&mut self, no: StepNo, merging: Merging) {
        self.edit(no, |step| {
            step.merging = merging;
            (step.failures, step.silences, step.upstream, step.reminders) = (0, 0, 0, 0);
            step.losses.in_vain = 0;
        });
    }

    /// A run brought together what a step starts from, or what its elements made.
    pub(crate) fn brought_together(&mut self, no: StepNo, tree: Option<Tree>) {
        let Some(tree) = tree else {
            return self.retry_or_fail(no, failed(ErrorFamily::Unknown, Cause::Worktree));
        };
        let resolved = self.step(no).merging.is_contradicting();
        self.take(if resolved { Transition::StepResolved } else { Transition::StepJoined });
        if self.joins(no) && !resolved {
            let own = tip_of(&self.step(no).path, tree);
            let tips = self.with_rest(no, own, &self.results_of_elements(no));
            self.edit(no, |step| step.tips = tips);
            return self.finish(no, StepOutcome::Succeeded);
        }
        self.set_merging(no, Merging::Resolved(tree));
        if !self.is_wanted(no) {
            self.take(Transition::StepStopped);
            return self.finish(no, StepOutcome::Cancelled);
        }
        self.make_ready(no, self.now, WakeReason::PipelineStep);
    }
}

/// The commits that tips have for a repository, without the one that all of them build on.
fn commits_of<'a>(tips: &'a [Tip], repository: &Repository) -> Vec<&'a CommitId> {
    let commits = tips.iter().filter_map(|tip| tip.tree.0.get(&repository.path));
    let distinct: BTreeSet<&CommitId> = commits.filter(|commit| **commit != repository.commit).collect();
    distinct.into_iter().collect()
}
