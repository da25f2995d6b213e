//! What the judge watches of the newer kinds of steps: places in concurrency groups, requests, holds, what agents used and
//! were told, child flows and their parents. As in [`super::judge`], from the changes alone.

use std::collections::BTreeSet;

use orc_domain::agent::Usage;
use orc_domain::claim::Holder;
use orc_domain::flow::{FlowHead, FlowOutcome, FlowState, Origin, Step, StepNo, StepOutcome, StepState};
use orc_domain::graph::Action;
use orc_domain::hold::{Hold, HoldScope};
use orc_domain::ids::{FlowId, RequestId};
use orc_domain::principal::Principal;
use orc_domain::request::{Answer, Request, RequestKind, RequestState};
use orc_domain::run::{Cause, Run, RunOutcome, RunState, StopReason};
use orc_domain::tree::Tip;
use orc_domain::wait::Wait;

use super::judge::{Evidence, Judge, Shadow, failure_of, is_finished};
use super::people::STRANGER;
use super::plan::{GROUPS, Kind};
use super::rule::{Checked, Rule, hold};

impl Judge {
    /// Keeps count of the places of a flow and of a step.
    pub(super) fn see_places(&mut self, holder: Holder, old: Vec<String>, new: Vec<String>) {
        for name in old {
            self.places.remove(&(name, holder));
        }
        self.places.extend(new.into_iter().map(|name| (name, holder)));
    }

    /// Places are held by what says that it is in them, and are not more than there are.
    pub(super) fn check_places(&self, evidence: &Evidence<'_>) -> Checked {
        let kept = evidence.model.places();
        let flat = kept.iter().flat_map(|(name, holders)| holders.iter().map(move |holder| (name.clone(), *holder)));
        let flat: BTreeSet<(String, Holder)> = flat.collect();
        hold(flat == self.places, Rule::Places, evidence.flow, || {
            let odd: Vec<_> = flat.symmetric_difference(&self.places).collect();
            format!("the store and the flows differ about {odd:?}")
        })?;
        for (name, limit) in GROUPS {
            let count = kept.get(name).map_or(0, BTreeSet::len);
            hold(count <= limit as usize, Rule::Places, evidence.flow, || {
                format!("{count} are in `{name}` of {limit}")
            })?;
        }
        Ok(())
    }

    /// A step that waited for a child flow ends as that did, and a flow ends only after its children.
    pub(super) fn check_kin(&self, flow: FlowId, closed: &[StepNo]) -> Checked {
        let shadow = &self.flows[&flow];
        for step in closed.iter().map(|no| &shadow.steps[no.0 as usize]) {
            let StepState::Finished { outcome } = &step.state else { continue };
            let is_child = shadow.plan.steps[step.spec.0 as usize].kind == Kind::Child && !shadow.is_fan_out(step);
            if !is_child || step.attempts == 0 {
                continue;
            }
            let child = self.flows.get(&orc_engine::child_id(flow, &step.path, step.attempts));
            let ended = child.and_then(|child| child.head.as_ref()).and_then(|head| match head.state {
                FlowState::Finished { outcome, .. } => Some((outcome, head.output.clone(), &head.tips)),
                _ => None,
            });
            let right = match (outcome, &ended) {
                (StepOutcome::Succeeded, Some((FlowOutcome::Succeeded, output, tips))) => {
                    let trees = |tips: &[Tip]| tips.iter().map(|tip| tip.tree.clone()).collect::<Vec<_>>();
                    *output == step.output && (tips.is_empty() || trees(tips) == trees(&step.tips))
                }
                (StepOutcome::Failed(failure), Some((outcome, ..))) => {
                    failure.cause == Cause::Child { outcome: *outcome }
                }
                // Between two attempts no child is under way.
                (StepOutcome::Cancelled, Some((outcome, ..))) => *outcome != FlowOutcome::Succeeded,
                _ => false,
            };
            hold(right, Rule::Kin, flow, || format!("`{}` is {outcome:?}, and its child flow {ended:?}", step.path))?;
        }
        if !shadow.is_finished() {
            return Ok(());
        }
        let of = |other: &&Shadow| other.spec.parent.as_ref().is_some_and(|parent| parent.flow == flow);
        let orphan = self.flows.values().filter(of).find(|child| !child.is_finished());
        hold(orphan.is_none(), Rule::Kin, flow, || {
            format!("it is over and its child {:?} is not", orphan.map(|child| child.spec.id))
        })
    }
}

impl Shadow {
    /// The definition of a step.
    pub(super) fn spec_of(&self, step: &Step) -> &orc_domain::graph::StepSpec {
        &self.plan.pipeline.steps[step.spec.0 as usize]
    }

    /// A step and what it is below of.
    pub(super) fn ancestry<'a>(&'a self, step: &'a Step) -> impl Iterator<Item = &'a Step> {
        std::iter::successors(Some(step), |step| self.steps.get(step.origin.above()?.0 as usize))
    }

    /// The instance of a definition in the body that a step belongs to.
    pub(super) fn instance<'a>(&'a self, step: &'a Step, spec: usize) -> Option<&'a Step> {
        let around = self.ancestry(step).find(|step| !matches!(step.origin, Origin::Element(_)))?;
        match &around.origin {
            Origin::Round { of, first, .. } => match &self.spec_of(&self.steps[of.0 as usize]).action {
                Action::Repeat(repeat) => self.steps.get(first.0 as usize + spec - repeat.first.0 as usize),
                _ => None,
            },
            Origin::Root | Origin::Element(_) => self.steps.get(spec),
        }
    }

    /// The end of a sibling may end it.
    pub(super) fn fails_fast(&self, step: &Step) -> bool {
        let fast = |step: &Step| {
            step.origin.element().is_some() && self.spec_of(step).fan.as_ref().is_some_and(|fan| fan.fail_fast)
        };
        self.ancestry(step).any(fast)
    }

    /// What is said of a request is said once.
    pub(super) fn see_request(&mut self, flow: FlowId, request: &Request) -> Checked {
        let old = self.requests.insert(request.id, request.clone());
        let was_resolved = old.as_ref().is_some_and(|old| matches!(old.state, RequestState::Resolved { .. }));
        hold(!was_resolved || old.as_ref() == Some(request), Rule::Requests, flow, || {
            format!("a request was {:?} and is {:?}", old.map(|old| old.state), request.state)
        })?;
        let RequestState::Resolved { by, answer, .. } = &request.state else { return Ok(()) };
        let by_stranger = *by == Principal::Person(STRANGER.to_owned()) && *answer != Answer::Withdrawn;
        hold(!by_stranger, Rule::Requests, flow, || format!("{by} may not answer and has {answer:?}"))
    }

    /// The answer to what a step asked, or to what this run of it did.
    pub(super) fn answer_of(&self, no: StepNo, run: Option<&Run>) -> Option<Answer> {
        let asked = |request: &&Request| match request.kind {
            RequestKind::Question { run: by } => run.is_some_and(|run| run.id == by),
            RequestKind::Approval => request.step.as_ref().is_some_and(|(step, _)| *step == no),
            // A no to a call ends no step.
            RequestKind::Permission { .. } | RequestKind::Wall(_) => false,
        };
        match self.requests.values().find(asked)?.state {
            RequestState::Resolved { answer, .. } => Some(answer),
            RequestState::Open { .. } => None,
        }
    }

    /// Nothing starts that is held before the decision and after it. A hold that was lifted and placed anew has another id.
    pub(super) fn check_holds(&self, evidence: &Evidence<'_>, before: Option<&FlowHead>, began: &[StepNo]) -> Checked {
        let (Some(before), Some(after)) = (before, &self.head) else { return Ok(()) };
        let kept: Vec<&Hold> = before.holds.iter().filter(|hold| after.holds.contains(hold)).collect();
        for step in began.iter().map(|no| &self.steps[no.0 as usize]) {
            let covers = |hold: &&&Hold| match &hold.scope {
                HoldScope::Flow => true,
                HoldScope::Step(path) => self.ancestry(step).any(|above| above.path == *path),
            };
            let held = kept.iter().find(covers);
            hold(held.is_none(), Rule::Held, evidence.flow, || format!("`{}` began under {held:?}", step.path))?;
        }
        Ok(())
    }

    /// Nothing that an agent used is lost, and nobody reads what another has read.
    pub(super) fn check_agents(&self, evidence: &Evidence<'_>, changed: &[&Run]) -> Checked {
        let flow = evidence.flow;
        let used = self.runs.values().filter_map(|run| run.agent.as_ref());
        let used = used.fold(Usage::default(), |sum, agent| sum.plus(agent.usage));
        let said = self.head.as_ref().map(|head| head.usage).unwrap_or_default();
        hold(said == used, Rule::Spend, flow, || format!("the flow used {said:?}, its runs {used:?}"))?;
        for run in changed {
            let Some(agent) = &run.agent else { continue };
            let told = evidence.world.used.get(&run.id).copied().unwrap_or(0);
            let heard = !matches!(
                &run.state,
                RunState::Finished {
                    outcome: RunOutcome::Delivered | RunOutcome::NoDeliverable { .. } | RunOutcome::Blocked { .. },
                    ..
                }
            );
            hold(heard || agent.usage.calls >= told, Rule::Spend, flow, || {
                format!("a run of `{}` used {told} calls and is said to have used {}", run.path, agent.usage.calls)
            })?;
            let read =
                |other: &&&Run| !matches!(failure_of(other), Some(Cause::Lost | Cause::Start)) && !goes_on_later(other);
            let runs = self.runs_of(run.no);
            let readers = runs.iter().filter(read).filter_map(|run| run.agent.as_ref());
            let mut seen = BTreeSet::new();
            let twice = readers.flat_map(|agent| &agent.messages).find(|message| !seen.insert(message.id));
            hold(twice.is_none(), Rule::Messages, flow, || format!("{twice:?} was read twice at `{}`", run.path))?;
        }
        Ok(())
    }

    /// Every round of a step that is over is over.
    pub(super) fn check_rounds(&self, flow: FlowId, no: StepNo) -> Checked {
        let of = |step: &&Step| matches!(step.origin, Origin::Round { of, .. } if of == no);
        let open = self.steps.iter().filter(of).find(|step| !is_finished(step));
        hold(open.is_none(), Rule::Join, flow, || {
            let path = &self.steps[no.0 as usize].path;
            format!("`{path}` ended before `{}`", open.map(|step| step.path.as_str()).unwrap_or_default())
        })
    }

    /// What a step waits for must be there.
    pub(super) fn check_wait(&self, flow: FlowId, step: &Step) -> Checked {
        let open = |id: &RequestId| {
            self.requests.get(id).is_some_and(|request| matches!(request.state, RequestState::Open { .. }))
        };
        let right = match &step.state {
            StepState::Waiting(Wait::Request { request }) => open(request),
            StepState::Waiting(Wait::Flow { flow: child, .. }) => {
                *child == orc_engine::child_id(flow, &step.path, step.attempts)
            }
            _ => true,
        };
        hold(right, Rule::Kin, flow, || format!("`{}` waits for nothing: {:?}", step.path, step.state))
    }
}

/// Whether a step went from waiting for its start to something that takes time.
pub(super) fn has_begun(old: Option<&Step>, new: &Step) -> bool {
    let before = old.is_none_or(|old| matches!(old.state, StepState::Blocked | StepState::Ready { .. }));
    let after = match &new.state {
        StepState::Active { .. } => true,
        StepState::Waiting(wait) => !matches!(wait, Wait::Elements(_)),
        StepState::Blocked | StepState::Ready { .. } | StepState::Finished { .. } => false,
    };
    before && after
}

/// A run that was stopped in the middle and whose step goes on with another one.
fn goes_on_later(run: &Run) -> bool {
    let RunState::Finished { outcome: RunOutcome::Cancelled { reason }, .. } = &run.state else { return false };
    matches!(reason, StopReason::FlowWall(_) | StopReason::Parked(_) | StopReason::Paused)
}
