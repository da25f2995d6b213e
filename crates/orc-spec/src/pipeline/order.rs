//! Who waits for whom: names of `needs:` to steps, cycles by name, and what is finished when a step starts.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::graph::PhaseKind;
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::step::Draft;
use crate::diagnostic::{Code, Report};
use crate::source::Span;

/// One need: the step, and where its name stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) step: usize,
    pub(super) place: Span,
}

/// The needs of all steps, by position; unknown names, repetitions and needs across phases are left out.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) needs: Vec<Vec<Need>>,
}

impl Order {
    pub(super) fn of(drafts: &[Draft<'_>], report: &mut Report) -> Self {
        let positions: BTreeMap<&str, usize> =
            drafts.iter().enumerate().map(|(at, draft)| (draft.key.text.as_str(), at)).collect();
        let needs = drafts.iter().map(|draft| resolve(draft, drafts, &positions, report)).collect();
        let order = Self { needs };
        order.report_cycles(drafts, report);
        order
    }

    /// Every step that is finished when the step at `at` starts: what it needs, directly or not, and in `finally` the
    /// whole main part.
    pub(super) fn finished_before(&self, at: usize, drafts: &[Draft<'_>]) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<usize> = self.needs[at].iter().map(|need| need.step).collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(self.needs[next].iter().map(|need| need.step));
            }
        }
        if drafts[at].phase == PhaseKind::Finally {
            seen.extend((0..drafts.len()).filter(|other| drafts[*other].phase == PhaseKind::Main));
        }
        // In a cycle a step comes before itself; that was reported.
        seen.into_iter().map(|step| drafts[step].key.text.clone()).collect()
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
        let mut open = std::collections::VecDeque::from([start]);
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
                if !came_from.contains_key(&need.step) {
                    came_from.insert(need.step, (at, *need));
                    open.push_back(need.step);
                }
            }
        }
        Vec::new()
    }
}

fn resolve(
    draft: &Draft<'_>,
    drafts: &[Draft<'_>],
    positions: &BTreeMap<&str, usize>,
    report: &mut Report,
) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    for name in &draft.needs {
        let Some(step) = positions.get(name.text.as_str()).copied() else {
            let known = drafts.iter().filter(|other| other.phase == draft.phase).map(|other| other.key.text.as_str());
            report
                .error(Code::UnknownStep, name.span, format!("there is no step `{}`", name.text))
                .did_you_mean(&name.text, known);
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
