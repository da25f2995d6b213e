//! Who waits for whom: names of `needs:` to steps, cycles by name, and what is finished when a step starts.
//!
//! A step needs steps of its own level only: of the pipeline, or of the body of a `repeat` that it belongs to.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use orc_domain::graph::PhaseKind;
use orc_domain::suggest::closest;
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::step::Draft;
use crate::diagnostic::{Code, Report};
use crate::source::Span;
use crate::yaml::Name;

/// One need: the step, and where its name stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) step: usize,
    pub(super) place: Span,
}

/// Where the steps are, by level and name.
type Positions<'a> = BTreeMap<(Option<usize>, &'a str), usize>;

/// The needs of all steps, by position; unknown names, repetitions and needs across phases are left out.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) needs: Vec<Vec<Need>>,
    /// What misspelt names and keys were meant to say; it only spares complaints that follow from the slip.
    meant: Vec<Vec<usize>>,
}

impl Order {
    pub(super) fn of(drafts: &[Draft<'_>], report: &mut Report) -> Self {
        let positions: Positions<'_> =
            drafts.iter().enumerate().map(|(at, draft)| ((draft.within, draft.key.text.as_str()), at)).collect();
        let needs = drafts.iter().map(|draft| resolve(draft, drafts, &positions, report)).collect();
        let meant = drafts.iter().map(|draft| meant(draft, &positions)).collect();
        let order = Self { needs, meant };
        order.report_cycles(drafts, report);
        order
    }

    /// Which steps are finished when the step at `at` starts, by position: what it needs, directly or not, what is
    /// finished before the `repeat` that it belongs to, and in `finally` the whole main part. In a cycle a step comes
    /// before itself; that was reported.
    pub(super) fn finished_before(&self, at: usize, drafts: &[Draft<'_>]) -> Vec<bool> {
        let in_finally = drafts[at].phase == PhaseKind::Finally;
        let mut finished: Vec<bool> = drafts.iter().map(|draft| in_finally && draft.phase == PhaseKind::Main).collect();
        let before =
            |step: usize| self.needs[step].iter().map(|need| need.step).chain(self.meant[step].iter().copied());
        let around = std::iter::successors(Some(at), |step| drafts[*step].within);
        let mut open: Vec<usize> = around.flat_map(before).collect();
        while let Some(next) = open.pop() {
            if !std::mem::replace(&mut finished[next], true) {
                open.extend(before(next));
            }
        }
        finished
    }

    fn report_cycles(&self, drafts: &[Draft<'_>], report: &mut Report) {
        let mut graph = DiGraph::<usize, ()>::new();
        for at in 0..drafts.len() {
            graph.add_node(at);
        }
        for (at, needs) in self.needs.iter().enumerate() {
            for need in needs {
                graph.update_edge(NodeIndex::new(at), NodeIndex::new(need.step), ());
            }
        }
        for component in tarjan_scc(&graph) {
            let members: BTreeSet<usize> = component.iter().map(|node| graph[*node]).collect();
            let cycle = self.cycle_within(&members);
            let Some(first) = cycle.first() else {
                continue;
            };
            if let [only] = cycle.as_slice() {
                let name = &drafts[only.step].key.text;
                report
                    .error(Code::Cycle, only.place, format!("`{name}` needs itself, so it can never start"))
                    .help("remove it from its own needs");
                continue;
            }
            let names = cycle.iter().map(|need| drafts[need.step].key.text.as_str());
            let path: Vec<&str> = names.chain(cycle.first().map(|need| drafts[need.step].key.text.as_str())).collect();
            let message = format!("these steps wait for each other: {}", path.join(" -> "));
            // `cycle[n].place` is where the step before names it, so the first step names the second.
            let start = cycle.get(1).unwrap_or(first);
            let problem = report.error(Code::Cycle, start.place, message).help("remove one of these needs");
            for need in cycle.iter().skip(2).chain([first]) {
                problem.label(need.place, "and here");
            }
        }
    }

    /// A cycle among the steps of one strongly connected component, from its first step; empty when there is none. Each
    /// entry carries the place where the entry before it (for the first: the last) names it.
    fn cycle_within(&self, members: &BTreeSet<usize>) -> Vec<Need> {
        let Some(start) = members.first().copied() else {
            return Vec::new();
        };
        // Breadth first from the first step back to it: the shortest cycle through it.
        let mut came_from: BTreeMap<usize, (usize, Need)> = BTreeMap::new();
        let mut open = VecDeque::from([start]);
        while let Some(at) = open.pop_front() {
            for need in self.needs[at].iter().filter(|need| members.contains(&need.step)) {
                if need.step == start {
                    let mut cycle = vec![*need];
                    let mut back = at;
                    let mut tail = Vec::new();
                    while let Some((before, need)) = came_from.get(&back) {
                        tail.push(*need);
                        back = *before;
                    }
                    cycle.extend(tail.into_iter().rev());
                    return cycle;
                }
                if let Entry::Vacant(unseen) = came_from.entry(need.step) {
                    unseen.insert((at, *need));
                    open.push_back(need.step);
                }
            }
        }
        Vec::new()
    }
}

fn meant(draft: &Draft<'_>, positions: &Positions<'_>) -> Vec<usize> {
    let here = || positions.keys().filter(|(level, _)| *level == draft.within).map(|(_, name)| *name);
    let find = |name: &str| positions.get(&(draft.within, name)).copied();
    let unknown = draft.needs.iter().filter(|name| find(&name.text).is_none());
    unknown.chain(&draft.meant_needs).filter_map(|name| closest(&name.text, here()).and_then(find)).collect()
}

fn resolve(draft: &Draft<'_>, drafts: &[Draft<'_>], positions: &Positions<'_>, report: &mut Report) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    for name in &draft.needs {
        let Some(step) = positions.get(&(draft.within, name.text.as_str())).copied() else {
            unknown_need(draft, name, drafts, report);
            continue;
        };
        let other = &drafts[step];
        match (draft.phase, other.phase) {
            (PhaseKind::Finally, PhaseKind::Main) => {
                report
                    .error(
                        Code::Conflict,
                        name.span,
                        format!("`{}` is in `finally` and cannot need `{}`", draft.key.text, name.text),
                    )
                    .help("every step of `finally` starts after all others; remove this need, and read its `outcome`");
            }
            (PhaseKind::Main, PhaseKind::Finally) => {
                report
                    .error(
                        Code::Conflict,
                        name.span,
                        format!("`{}` is in `finally`, which starts after all steps", name.text),
                    )
                    .help("move one of them, so that both are in the same part");
            }
            _ if needs.iter().any(|need| need.step == step) => {}
            _ => needs.push(Need { step, place: name.span }),
        }
    }
    needs
}

/// A need that is no step of the same level: of another one, or of none.
fn unknown_need(draft: &Draft<'_>, name: &Name, drafts: &[Draft<'_>], report: &mut Report) {
    let elsewhere = drafts.iter().find(|other| other.key.text == name.text);
    let Some(other) = elsewhere else {
        let known = drafts.iter().filter(|other| other.phase == draft.phase && other.within == draft.within);
        report
            .error(Code::UnknownStep, name.span, format!("there is no step `{}`", name.text))
            .did_you_mean(&name.text, known.map(|other| other.key.text.as_str()));
        return;
    };
    let owner = |draft: &Draft<'_>| draft.within.map(|at| drafts[at].key.text.as_str());
    let (message, help) = match (owner(draft), owner(other)) {
        (Some(body), None) => (
            format!("`{}` stands outside of the body of `{body}`, where steps need each other only", name.text),
            format!("add it to the needs of `{body}`; the steps of its body can read it then"),
        ),
        (_, Some(body)) => (
            format!("`{}` is a step of the body of `{body}`, which only steps of that body can need", name.text),
            format!("need `{body}` itself"),
        ),
        (None, None) => (format!("there is no step `{}`", name.text), "name a step of this pipeline".to_owned()),
    };
    report.error(Code::UnknownStep, name.span, message).label(other.key.span, "it is here").help(help);
}
