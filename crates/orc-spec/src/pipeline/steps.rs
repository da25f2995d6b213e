//! The steps of a file in one order: those of `steps:`, those of `finally:`, then the bodies of `repeat`, each without
//! gaps and after the step that it belongs to.

use std::collections::{BTreeMap, VecDeque};

use orc_domain::graph::PhaseKind;

use super::MAX_STEPS;
use super::step::{Draft, Place};
use crate::diagnostic::{Code, Report};
use crate::read::{self, Fields};
use crate::source::Span;
use crate::yaml::{Entry, Kind, Node};

/// Steps while they are collected.
#[derive(Default)]
struct Collected<'a> {
    drafts: Vec<Draft<'a>>,
    /// Where each name stands, by level.
    taken: BTreeMap<(Option<usize>, &'a str), Span>,
    full: bool,
}

/// All steps, bodies included.
pub(super) fn drafts<'a>(fields: &Fields<'a>, report: &mut Report) -> Vec<Draft<'a>> {
    let mut collected = Collected::default();
    for (key, what, phase) in [("steps", "`steps`", PhaseKind::Main), ("finally", "`finally`", PhaseKind::Finally)] {
        if let Some(node) = fields.get(key) {
            collected.add(node, what, Place { phase, within: None }, report);
        }
    }
    let mut open: VecDeque<usize> = (0..collected.drafts.len()).collect();
    while let Some(at) = open.pop_front() {
        let draft = &collected.drafts[at];
        let place = Place { phase: draft.phase, within: Some(at) };
        let Some(entry) = draft.repeat.as_ref().and_then(|fields| fields.entry("steps")) else {
            continue;
        };
        let first = collected.drafts.len();
        collected.add(&entry.value, "`steps`", place, report);
        let body = first..collected.drafts.len();
        if matches!(&entry.value.kind, Kind::Map(steps) if steps.is_empty()) {
            report
                .error(Code::BadValue, entry.key.span, "the body of a `repeat` needs at least one step")
                .help("add a step: `steps: { test: { run: make test } }`");
        }
        open.extend(body.clone());
        collected.drafts[at].body = (!body.is_empty()).then_some(body);
    }
    collected.drafts
}

impl<'a> Collected<'a> {
    fn add(&mut self, node: &'a Node, what: &str, place: Place, report: &mut Report) {
        if let Kind::List(_) = &node.kind {
            report
                .error(Code::WrongType, node.span, format!("{what} needs a map of steps by name, not a list"))
                .help("give each step a name: `build: { run: make }`");
            return;
        }
        for Entry { key, value } in read::map(node, what, report).unwrap_or_default() {
            if self.full {
                return;
            }
            if let Some((level, first)) = self.twin(place.within, &key.text) {
                let message = match level {
                    None if place.within.is_none() => format!("a step `{}` stands under `steps` already", key.text),
                    _ => format!("a step `{}` is in sight of this one already", key.text),
                };
                report
                    .error(Code::DuplicateKey, key.span, message)
                    .label(first, "it stands here first")
                    .help("choose another name");
                continue;
            }
            if self.drafts.len() == MAX_STEPS {
                self.full = true;
                let message = format!("a pipeline has at most {MAX_STEPS} steps");
                report.error(Code::Limit, key.span, message).help("run one step over a list with `foreach:`");
                return;
            }
            self.taken.insert((place.within, key.text.as_str()), key.span);
            self.drafts.push(Draft::read(key, value, place, report));
        }
    }

    /// A step of this name at the same level or at one around it: a body sees both, and each name means one step.
    fn twin(&self, within: Option<usize>, name: &str) -> Option<(Option<usize>, Span)> {
        let around = std::iter::successors(Some(within), |level| level.map(|at| self.drafts[at].within));
        around.into_iter().find_map(|level| self.taken.get(&(level, name)).map(|span| (level, *span)))
    }
}
