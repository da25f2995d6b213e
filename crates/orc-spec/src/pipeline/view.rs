//! What an expression can see from where it stands: which steps, whether they are finished by then, which elements.
//!
//! Steps form levels: those of the pipeline, and one for each body of a `repeat`. From within a body one sees the steps of
//! the round, and of the levels around it what is finished before the `repeat` begins.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use orc_domain::graph::PhaseKind;
use orc_domain::time::Millis;

use super::child::Library;
use super::fan::FanDraft;
use super::order::Order;
use super::step::{Draft, PartialRetry};
use super::trees::Trees;
use crate::expression::{Item, Names, Reader, Refusal, Sight, StepFacts, Steps, Taint, Type};

/// The facts of each level, by the `repeat` whose body it is.
pub(super) type Levels = BTreeMap<Option<usize>, BTreeMap<String, StepFacts>>;

/// What all steps share.
pub(super) struct Shared<'a> {
    pub(super) source: &'a str,
    pub(super) drafts: &'a [Draft<'a>],
    pub(super) order: &'a Order,
    pub(super) inputs: BTreeMap<String, Type>,
    pub(super) levels: Levels,
    /// Fan-outs by position, as far as they are read.
    pub(super) fans: Vec<Option<FanDraft>>,
    pub(super) env: BTreeMap<&'a str, Taint>,
    pub(super) has_ticket: bool,
    pub(super) has_event: bool,
    pub(super) timeout: Option<Millis>,
    pub(super) retry: PartialRetry,
    pub(super) budget: Option<orc_domain::budget::Budget>,
    pub(super) trees: Trees,
    pub(super) library: &'a Library<'a>,
}

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// In the step at a position.
    Step(usize),
    /// In the `until:` of the `repeat` at a position: its round is over.
    Until(usize),
    /// In the `outputs:` of the pipeline: all steps are over.
    Outputs,
}

/// What is seen from there.
pub(super) struct View<'a> {
    pub(super) shared: &'a Shared<'a>,
    stand: Stand,
    /// Computed when an expression reads a step.
    finished: OnceCell<Vec<bool>>,
}

impl<'a> View<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, stand: Stand) -> Self {
        Self { shared, stand, finished: OnceCell::new() }
    }

    /// The step that it belongs to.
    pub(super) const fn at(&self) -> Option<usize> {
        match self.stand {
            Stand::Step(at) | Stand::Until(at) => Some(at),
            Stand::Outputs => None,
        }
    }

    /// Names that an expression may use; `own` when the step's own element is there by then.
    pub(super) fn names(&'a self, place: &'static str, own: bool) -> Names<'a> {
        let fans = || self.fans(own);
        let items = fans().filter_map(|fan| fan.item.as_ref());
        Names {
            place,
            inputs: &self.shared.inputs,
            only_inputs: false,
            steps: Some(Steps { levels: self.levels(), sight: self }),
            env: None,
            items: items.map(|(name, ty, tainted)| Item { name, ty: ty.clone(), tainted: *tainted }).collect(),
            matrix: fans().find_map(|fan| fan.matrix.clone()),
            status: false,
            has_ticket: self.shared.has_ticket,
            has_event: self.shared.has_event,
        }
    }

    pub(super) fn reader(&self, names: &'a Names<'a>) -> Reader<'a> {
        Reader { source: self.shared.source, names }
    }

    /// The innermost first.
    fn fans(&self, own: bool) -> impl Iterator<Item = &'a FanDraft> {
        let (from, own) = match self.stand {
            Stand::Step(at) => (Some(at), own),
            Stand::Until(at) => (Some(at), true),
            Stand::Outputs => (None, false),
        };
        let shared = self.shared;
        let chain = std::iter::successors(from, move |at| shared.drafts[*at].within);
        chain.skip(usize::from(!own)).filter_map(move |at| shared.fans.get(at).and_then(Option::as_ref))
    }

    fn levels(&self) -> Vec<&'a BTreeMap<String, StepFacts>> {
        let first = match self.stand {
            Stand::Step(at) => self.shared.drafts[at].within,
            Stand::Until(at) => Some(at),
            Stand::Outputs => None,
        };
        let chain = std::iter::successors(Some(first), |level| level.map(|at| self.shared.drafts[at].within));
        chain.filter_map(|level| self.shared.levels.get(&level)).collect()
    }

    fn finished(&self) -> Vec<bool> {
        let Shared { drafts, order, .. } = self.shared;
        match self.stand {
            Stand::Step(at) => order.finished_before(at, drafts),
            Stand::Until(at) => {
                let mut finished = order.finished_before(at, drafts);
                for (step, draft) in drafts.iter().enumerate() {
                    finished[step] |= draft.within == Some(at);
                }
                finished
            }
            Stand::Outputs => drafts.iter().map(|draft| draft.phase == PhaseKind::Main).collect(),
        }
    }

    /// The step at the level of `other` that the expression stands in or below.
    fn waiter(&self, at: usize, other: usize) -> usize {
        let level = self.shared.drafts[other].within;
        let chain = std::iter::successors(Some(at), |step| self.shared.drafts[*step].within);
        let mut chain = chain.filter(|step| self.shared.drafts[*step].within == level);
        chain.next().unwrap_or(at)
    }
}

impl Sight for View<'_> {
    fn is_finished(&self, step: usize) -> bool {
        self.finished.get_or_init(|| self.finished())[step]
    }

    fn refusal(&self, step: usize) -> Refusal {
        let drafts = self.shared.drafts;
        let name = &drafts[step].key.text;
        let told = |message: String, help: String, elsewhere| Refusal { message, help, elsewhere };
        let at = match self.stand {
            Stand::Step(at) | Stand::Until(at) => at,
            Stand::Outputs => {
                let message = format!("`outputs` cannot read `{name}`, which is in `finally`");
                return told(message, "read a step of `steps`".to_owned(), true);
            }
        };
        let waiter = self.waiter(at, step);
        let reader = &drafts[waiter].key.text;
        if waiter == step && step == at {
            let help = "a step can read only steps that are finished before it".to_owned();
            return told(format!("`{name}` reads its own result"), help, false);
        }
        if waiter == step {
            let message = format!("`{name}` is not finished while its steps run");
            return told(
                message,
                "read steps of this round, or `previous` for those of the one before".to_owned(),
                true,
            );
        }
        let message = format!("`{reader}` does not wait for `{name}`");
        if drafts[step].phase != drafts[at].phase {
            return told(message, "every step of `finally` starts after all others".to_owned(), true);
        }
        let whose = if waiter == at { "its needs".to_owned() } else { format!("the needs of `{reader}`") };
        told(message, format!("add it to {whose}: `needs: [{name}]`"), true)
    }
}
