//! How work must travel, read naively: what a step starts from and hands on, as sets of changes. A set that lacks one has
//! lost it. As in [`super::judge`] from the rows and effects alone; the engine's own rules about tips are not asked.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::effect::EffectKind;
use orc_domain::flow::{Merging, Origin, SkipReason, Step, StepNo, StepOutcome, StepState};
use orc_domain::graph::{Action, PhaseKind, StartFrom, StepSpec};
use orc_domain::ids::{FlowId, RunId};
use orc_domain::run::{Cause, Run, RunOutcome, RunState};
use orc_domain::tree::{Place, PrivateCopy, Tip, Tree};

use super::forge::{Contents, Forge};
use super::judge::{Evidence, Shadow, ended_well, failure_of, has_failed, is_finished, outcome_of};
use super::rule::{Checked, Rule, hold};

/// What runs were given to work in.
#[derive(Debug, Default)]
pub(crate) struct Given {
    copies: BTreeMap<RunId, PrivateCopy>,
}

/// What a run is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// What its step does, or a merge of elements.
    Own,
    /// A conflict.
    Resolves,
}

impl Shadow {
    /// Whether a lost run of this step may be followed by another.
    pub(super) fn is_idempotent(&self, path: &orc_domain::path::StepPath) -> bool {
        let step = self.steps.iter().find(|step| step.path == *path);
        step.is_none_or(|step| self.spec_of(step).idempotent)
    }

    pub(super) fn purpose(&self, run: &Run) -> Purpose {
        let resolves = self.given.copies.get(&run.id).is_some_and(|copy| copy.holds_conflict);
        if resolves { Purpose::Resolves } else { Purpose::Own }
    }

    /// The last runs of a step that were for the same, and no conflicts: `retry:` counts these.
    pub(super) fn latest<'a>(&self, runs: &[&'a Run]) -> Vec<&'a Run> {
        let Some(last) = runs.last() else { return Vec::new() };
        let purpose = self.purpose(last);
        let same = runs.iter().rev().take_while(|run| self.purpose(run) == purpose);
        let plain = |run: &&&Run| purpose == Purpose::Resolves || !matches!(failure_of(run), Some(Cause::Conflict(_)));
        same.filter(plain).copied().collect()
    }

    pub(super) fn is_fan_out(&self, step: &Step) -> bool {
        self.spec_of(step).fan.is_some() && step.origin.element().is_none()
    }

    /// Takes in what runs are given, and compares it with what they must be given.
    pub(super) fn check_starts(&mut self, evidence: &Evidence<'_>) -> Checked {
        for effect in &evidence.decision.effects {
            let (run, path, place) = match &effect.kind {
                EffectKind::StartRun { run, command } => (*run, &command.path, command.place.clone()),
                EffectKind::StartAgent { run, call } => (*run, &call.path, call.place.clone()),
                EffectKind::Join { run, path, copy } => {
                    (*run, path, Place::Boxed { copy: Some(copy.clone()), rules: Default::default() })
                }
                EffectKind::StartFlow { spec } => {
                    let parent = spec.parent.as_ref().and_then(|parent| self.steps.get(parent.no.0 as usize));
                    let Some(step) = parent else { continue };
                    let wanted = self.starts(&evidence.world.forge, step);
                    same(evidence, &step.path, (evidence.world.forge.contents(&spec.from), wanted), "gives its child")?;
                    continue;
                }
                EffectKind::StopRun { .. }
                | EffectKind::WriteRun { .. }
                | EffectKind::Tell { .. }
                | EffectKind::KeepRule { .. } => continue,
            };
            let copy = match place {
                Place::Boxed { copy, .. } => copy,
                Place::InPlace { .. } => None,
            };
            if let Some(copy) = &copy {
                self.given.copies.insert(run, copy.clone());
            }
            let Some(step) = self.steps.iter().find(|step| step.path == *path) else { continue };
            let merges = self.is_fan_out(step) || copy.as_ref().is_some_and(|copy| copy.holds_conflict);
            let wants = matches!(self.spec_of(step).worktree.from, StartFrom::Parents | StartFrom::Fresh);
            hold(copy.is_some() == (wants || merges), Rule::Trees, evidence.flow, || {
                format!("`{path}` has a copy: {}", copy.is_some())
            })?;
            if let Some(copy) = copy {
                self.check_copy(evidence, step, &copy)?;
            }
        }
        Ok(())
    }

    fn check_copy(&self, evidence: &Evidence<'_>, step: &Step, copy: &PrivateCopy) -> Checked {
        let forge = &evidence.world.forge;
        let paths: Vec<String> = copy.repositories.iter().map(|one| one.path.clone()).collect();
        hold(paths == self.copied(step), Rule::Trees, evidence.flow, || {
            format!("`{}` has copies of {paths:?}", step.path)
        })?;
        let wanted = if self.is_fan_out(step) {
            with_so_far(forge, step, self.of_elements(forge, step))
        } else {
            self.starts(forge, step)
        };
        let of_copy = |contents: Contents| contents.into_iter().filter(|(path, _)| paths.contains(path)).collect();
        same(evidence, &step.path, (of_copy(forge.contents(&copy.from)), of_copy(wanted)), "starts from")?;
        // In the order of `needs`, so that the same is merged in the same way.
        let Some(parents) = self.parents_of(step) else { return Ok(()) };
        let tips = parents.into_iter().flat_map(|parent| parent.tips.iter());
        let place = |tip: &Tip| tips.clone().position(|other| other.tree == tip.tree);
        let plain = step.merging.so_far().is_none() && !self.is_fan_out(step);
        let places: Vec<Option<usize>> = copy.from.iter().map(place).collect();
        hold(!plain || (places.is_sorted() && !places.contains(&None)), Rule::Trees, evidence.flow, || {
            format!("`{}` starts from {:?}, out of order", step.path, copy.from)
        })
    }

    /// The steps that a step needs; `None`: it starts from something else.
    fn parents_of<'a>(&'a self, step: &'a Step) -> Option<Vec<&'a Step>> {
        let spec = self.spec_of(step);
        let fresh = spec.worktree.from == StartFrom::Fresh;
        if fresh || spec.needs.is_empty() || step.origin.element().is_some() {
            return None;
        }
        Some(spec.needs.iter().filter_map(|need| self.instance(step, need.0 as usize)).collect())
    }

    /// Paths of the repositories that a step has copies of.
    fn copied(&self, step: &Step) -> Vec<String> {
        let named = &self.plan.pipeline.repositories;
        let wanted = self.spec_of(step).worktree.repositories.as_ref();
        let has = |path: &String| {
            let of_flow = named.is_empty() || named.iter().any(|one| one.path == *path);
            of_flow && wanted.is_none_or(|wanted| wanted.contains(path))
        };
        self.spec.repositories.iter().map(|one| one.path.clone()).filter(has).collect()
    }

    /// What a step is handed by what comes before it.
    fn handed(&self, forge: &Forge, step: &Step) -> Contents {
        let spec = self.spec_of(step);
        if spec.worktree.from == StartFrom::Fresh {
            return Contents::new();
        }
        if let Origin::Element(element) = &step.origin {
            return self.starts(forge, &self.steps[element.group.0 as usize]);
        }
        if let Some(parents) = self.parents_of(step) {
            return united(parents.into_iter().map(|parent| forge.contents(&parent.tips)));
        }
        match &step.origin {
            Origin::Round { of, number, .. } if *number > 1 => self.of_round(forge, *of, *number - 1),
            Origin::Round { of, .. } => self.starts(forge, &self.steps[of.0 as usize]),
            Origin::Root | Origin::Element(_) => forge.contents(&self.spec.from),
        }
    }

    /// What it starts from: that, with what somebody brought together of it.
    fn starts(&self, forge: &Forge, step: &Step) -> Contents {
        with_so_far(forge, step, self.handed(forge, step))
    }

    /// What it made of what it has copies of, beside the rest.
    fn over(&self, handed: Contents, step: &Step, made: Contents) -> Contents {
        let copied = self.copied(step);
        let rest = handed.into_iter().filter(|(path, _)| !copied.contains(path));
        rest.chain(made).collect()
    }

    fn of_elements(&self, forge: &Forge, group: &Step) -> Contents {
        let mut elements = self.elements(group.no).peekable();
        if elements.peek().is_none() {
            return self.starts(forge, group);
        }
        united(elements.map(|element| self.of_element(forge, element)))
    }

    /// One that made nothing hands on what its fan-out was handed, and does not say so.
    fn of_element(&self, forge: &Forge, element: &Step) -> Contents {
        if element.tips.is_empty() { self.starts(forge, element) } else { forge.contents(&element.tips) }
    }

    /// What the steps of a round hand on that no other step of it needs.
    fn of_round(&self, forge: &Forge, of: StepNo, round: u32) -> Contents {
        let body = self.round(of, round);
        united(self.last_of(&body).map(|step| forge.contents(&step.tips)))
    }

    fn last_of<'a, 'b>(&'b self, body: &'b [&'a Step]) -> impl Iterator<Item = &'a Step> + 'b
    where
        'a: 'b,
    {
        let needed = |step: &Step| body.iter().any(|other| self.spec_of(other).needs.contains(&step.spec));
        body.iter().copied().filter(move |step| !needed(step))
    }

    /// What a step that is over hands on.
    pub(super) fn check_handed_on(&self, evidence: &Evidence<'_>, no: StepNo) -> Checked {
        let (flow, forge, step) = (evidence.flow, &evidence.world.forge, &self.steps[no.0 as usize]);
        let runs = self.runs_of(no);
        self.check_conflicts(flow, step, &runs)?;
        // Nobody waits any more for what comes before a step that is cancelled, and nobody builds on it.
        if self.spec.repositories.is_empty() || outcome_of(step) == Some(&StepOutcome::Cancelled) {
            return Ok(());
        }
        let given = self.spec.taken_over.get(&step.path);
        // Whoever resolves a conflict makes only what the step starts from.
        let delivered = runs.iter().rev().find(|run| is_delivered(run) && self.purpose(run) == Purpose::Own);
        let made = delivered.and_then(|run| run.tree.as_ref()).map(|tree| forge.contents_of(tree));
        let wanted = if self.is_fan_out(step) {
            let elements = self.of_elements(forge, step);
            // Whoever carries a flow on does not bring together again what that brought together.
            let all_given = self.elements(no).all(|element| self.spec.taken_over.contains_key(&element.path));
            match (made, given) {
                (Some(made), _) if ended_well(step) => self.over(elements, step, made),
                (None, Some(given)) if all_given && !given.tips.is_empty() => forge.contents(&given.tips),
                _ => with_so_far(forge, step, elements),
            }
        } else if let Some(given) = given {
            forge.contents(&given.tips)
        } else {
            match &self.spec_of(step).action {
                // Compared with the child flow itself.
                Action::Pipeline(_) if ended_well(step) => return Ok(()),
                Action::Repeat(_) if step.attempts > 0 => self.of_round(forge, no, step.attempts),
                _ => match made {
                    Some(made) => self.over(self.starts(forge, step), step, made),
                    None => self.starts(forge, step),
                },
            }
        };
        let nothing = step.origin.element().is_some() && step.tips.is_empty();
        // Nothing of its own: what it would be without its fan-out is the base.
        let found = if nothing && !wanted.is_empty() { self.starts(forge, step) } else { forge.contents(&step.tips) };
        same(evidence, &step.path, (found, wanted), "hands on")
    }

    /// A conflict becomes a run that resolves it, or the end of its step. What was resolved is what somebody made of it.
    fn check_conflicts(&self, flow: FlowId, step: &Step, runs: &[&Run]) -> Checked {
        for pair in runs.windows(2) {
            let [run, next] = pair else { continue };
            let conflict = matches!(failure_of(run), Some(Cause::Conflict(_)));
            let begun = self.given.copies.contains_key(&next.id);
            hold(!conflict || !begun || self.purpose(next) == Purpose::Resolves, Rule::Trees, flow, || {
                format!("`{}` went on after a conflict as if there was none", step.path)
            })?;
        }
        let Merging::Resolved(tree) = &step.merging else { return Ok(()) };
        let resolved = runs.iter().rev().find(|run| is_delivered(run) && self.purpose(run) == Purpose::Resolves);
        hold(resolved.and_then(|run| run.tree.as_ref()) == Some(tree), Rule::Trees, flow, || {
            format!("`{}` starts from something that nobody resolved", step.path)
        })
    }

    /// What a flow that is over hands on, and that nothing of it is lost.
    pub(super) fn check_flow(&self, evidence: &Evidence<'_>) -> Checked {
        let (flow, forge) = (evidence.flow, &evidence.world.forge);
        let Some(head) = self.head.as_ref().filter(|_| self.is_finished()) else { return Ok(()) };
        let is_main = |step: &&Step| self.phase(step) == PhaseKind::Main;
        let roots: Vec<&Step> = self.steps.iter().take(self.roots()).filter(is_main).collect();
        let mut wanted = united(self.last_of(&roots).map(|step| forge.contents(&step.tips)));
        if wanted.is_empty() {
            wanted = forge.contents(&self.spec.from);
        }
        let found = forge.contents(&head.tips);
        hold(found == wanted, Rule::Trees, flow, || format!("it hands on {found:?} instead of {wanted:?}"))?;
        // Where nothing starts anew and nothing was given up, all that anybody made is there.
        let anew =
            |spec: &StepSpec| spec.worktree.from == StartFrom::Fresh || matches!(spec.action, Action::Pipeline(_));
        let cancelled = |step: &Step| outcome_of(step) == Some(&StepOutcome::Cancelled);
        if self.plan.pipeline.steps.iter().any(anew) || self.steps.iter().any(cancelled) {
            return Ok(());
        }
        for step in self.steps.iter().filter(is_main) {
            let made = forge.contents(&step.tips);
            let lost = made.iter().find(|(path, changes)| {
                !changes.is_empty() && !found.get(*path).is_some_and(|all| all.is_superset(changes))
            });
            hold(lost.is_none(), Rule::Trees, flow, || format!("{lost:?} of `{}` is lost", step.path))?;
        }
        Ok(())
    }

    /// Whether elements made commits that somebody must merge: no one of them has all of it.
    fn must_join(&self, forge: &Forge, group: &Step) -> bool {
        let (start, whole) = (self.starts(forge, group), self.of_elements(forge, group));
        let tips = self.elements(group.no).flat_map(|element| &element.tips);
        let alone: Vec<Contents> = tips.map(|tip| forge.contents_of(&tip.tree)).chain([start]).collect();
        let has_all = |path: &String| alone.iter().any(|one| one.get(path) == whole.get(path));
        self.copied(group).iter().any(|path| !has_all(path))
    }

    /// A fan-out ends after all its elements, and as they did.
    pub(super) fn check_join(&self, evidence: &Evidence<'_>, no: StepNo) -> Checked {
        let (flow, group) = (evidence.flow, &self.steps[no.0 as usize]);
        let Some(total) = self.totals.get(&group.path).copied() else {
            return Ok(());
        };
        let StepState::Finished { outcome } = &group.state else {
            return Ok(());
        };
        let elements: Vec<&Step> = self.elements(no).collect();
        let open = elements.iter().find(|element| !is_finished(element));
        hold(open.is_none(), Rule::Join, flow, || {
            let element = open.map(|element| element.path.as_str()).unwrap_or_default();
            format!("`{}` ended before `{element}`", group.path)
        })?;
        let numbered = elements
            .iter()
            .enumerate()
            .all(|(at, step)| step.origin.element().is_some_and(|element| element.index as usize == at));
        let neighbours = elements.windows(2).all(|pair| pair[1].no.0 == pair[0].no.0 + 1);
        let rounds = self.steps.iter().any(|step| matches!(step.origin, Origin::Round { .. }));
        hold(numbered && (neighbours || rounds), Rule::Join, flow, || {
            format!("elements of `{}` are out of order", group.path)
        })?;
        let whole = elements.len() == total as usize;
        let skipped = |step: &Step| matches!(outcome_of(step), Some(StepOutcome::Skipped(SkipReason::Group { .. })));
        let well = whole && elements.iter().all(|step| ended_well(step) || skipped(step));
        let failed = elements.iter().any(|step| has_failed(step));
        // Whatever else a merge came to is judged at the end of the flow, from its runs.
        let merged = !self.runs_of(no).is_empty();
        let wait = well && self.must_join(&evidence.world.forge, group);
        let given = self.spec.taken_over.contains_key(&group.path);
        let unwanted = self.was_unwanted() || self.fails_fast(group) || self.finally_overran;
        let right = match outcome {
            StepOutcome::Succeeded => well && (merged || !wait || given || unwanted),
            StepOutcome::Failed(_) => failed || (well && merged),
            StepOutcome::Cancelled => !failed && (!well || merged || wait),
            StepOutcome::NoChange => total == 0,
            StepOutcome::Skipped(_) => false,
        };
        hold(right, Rule::Join, flow, || {
            format!("`{}` is {} with {} of {total} elements", group.path, outcome.word(), elements.len())
        })
    }

    /// Whether a round changed nothing that the one before had not. A merge is a change, whatever it changes.
    pub(super) fn stood_still(&self, of: &Step, round: u32) -> bool {
        let Action::Repeat(repeat) = &self.spec_of(of).action else { return false };
        if round < 2 || repeat.until.is_none() || self.is_open(repeat.first.0, repeat.count) {
            return false;
        }
        let results = |round: u32| {
            let body = self.round(of.no, round);
            let trees: BTreeSet<Tree> =
                self.last_of(&body).flat_map(|step| &step.tips).map(|tip| tip.tree.clone()).collect();
            let said: Vec<_> = body.iter().map(|step| (step.output.clone(), said(step))).collect();
            (trees, said)
        };
        results(round) == results(round - 1)
    }

    fn round(&self, of: StepNo, round: u32) -> Vec<&Step> {
        let is_of = |step: &&Step| match step.origin {
            Origin::Round { of: above, number, .. } => above == of && number == round,
            Origin::Root | Origin::Element(_) => false,
        };
        self.steps.iter().filter(is_of).collect()
    }

    fn is_open(&self, first: u32, count: u32) -> bool {
        let specs = &self.plan.pipeline.steps[first as usize..(first + count) as usize];
        specs.iter().any(|spec| match &spec.action {
            Action::Run(_) | Action::Agent(_) => spec.worktree.from == StartFrom::InPlace,
            Action::Repeat(inner) => self.is_open(inner.first.0, inner.count),
            Action::Pipeline(_) | Action::Wait(_) | Action::Approval(_) => true,
        })
    }
}

fn with_so_far(forge: &Forge, step: &Step, handed: Contents) -> Contents {
    let so_far = step.merging.so_far().map(|tree| forge.contents_of(tree)).unwrap_or_default();
    united([handed, so_far].into_iter())
}

/// What expressions read of an end.
fn said(step: &Step) -> Option<(&'static str, Option<String>)> {
    let outcome = outcome_of(step)?;
    let error = match outcome {
        StepOutcome::Failed(failure) => Some(failure.to_string()),
        _ => None,
    };
    Some((outcome.word(), error))
}

fn is_delivered(run: &Run) -> bool {
    matches!(run.state, RunState::Finished { outcome: RunOutcome::Delivered, .. })
}

fn united(all: impl Iterator<Item = Contents>) -> Contents {
    let mut whole = Contents::new();
    for (path, changes) in all.flatten() {
        whole.entry(path).or_default().extend(changes);
    }
    whole
}

/// Compares what was found with what should be; a repository at its base is as good as none.
fn same(
    evidence: &Evidence<'_>,
    path: &orc_domain::path::StepPath,
    (found, wanted): (Contents, Contents),
    what: &str,
) -> Checked {
    let plain = |contents: Contents| -> Contents { contents.into_iter().filter(|(_, all)| !all.is_empty()).collect() };
    let (found, wanted) = (plain(found), plain(wanted));
    hold(found == wanted, Rule::Trees, evidence.flow, || format!("`{path}` {what} {found:?} instead of {wanted:?}"))
}
