//! Reading a flow together with the evidence about it, for the commands that show and explain.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::claim::Holder;
use orc_domain::flow::{Flow, FlowState, Held, StepState};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{FlowId, RunId};
use orc_domain::run::{Run, RunState};
use orc_domain::time::Timestamp;
use orc_domain::wait::Wait;
use orc_ports::reader::{FlowFilter, Reader as _};
use orc_store_sqlite::SqliteReader;

use crate::context::Context;
use crate::evidence::{Carrier, Seen, last_output_at};
use crate::explanation::{Facts, Other, RunEvidence, SlotHolder, other};
use crate::failure::{CommandResult, not_found};
use crate::hold::of_store;
use crate::view::made::Made;
use crate::view::progress::Progress;

/// Live flows that are looked through for holders of slots.
const FLOWS_WITH_SLOTS: u32 = 50;
/// Flows that a flow waits for and that are looked at.
const OTHERS: usize = 20;
/// Events that are read at once.
const PAGE: u32 = 1000;

/// A flow, its definition, and the evidence.
pub(crate) struct Look {
    pub(crate) flow: Flow,
    pub(crate) pipeline: Pipeline,
    pub(crate) now: Timestamp,
    runs: BTreeMap<RunId, RunEvidence>,
    /// Who holds slots, as far as it was looked at.
    pub(crate) slots: Vec<SlotHolder>,
    /// Where flows stand that it waits for.
    others: BTreeMap<FlowId, Other>,
    /// What its events say; empty unless it was asked for.
    pub(crate) past: Progress,
    /// What it made; empty unless it was asked for.
    pub(crate) made: Made,
}

impl Look {
    /// The flow as it stands, without its past and without who holds slots.
    pub(crate) async fn at_present(context: &Context, reader: &SqliteReader, id: FlowId) -> CommandResult<Self> {
        let flow = reader.flow(id).await.map_err(of_store)?;
        let flow = flow.ok_or_else(|| not_found(format!("there is no flow {id}")))?;
        let pipeline = reader.pipeline(flow.spec.pipeline.clone()).await.map_err(of_store)?;
        let (pipeline, _) = pipeline.ok_or_else(|| not_found(format!("the definition that {id} pinned is gone")))?;
        let runs = flow.runs.values().map(|run| (run.id, evidence(context, run))).collect();
        let (now, mut others) = (context.now(), BTreeMap::new());
        for id in waited_for(&flow) {
            if let Some((spec, head)) = reader.flow_head(id).await.map_err(of_store)? {
                others.insert(id, other(&spec, &head, now));
            }
        }
        Ok(Self {
            flow,
            pipeline,
            now,
            runs,
            slots: Vec::new(),
            others,
            past: Progress::default(),
            made: Made::default(),
        })
    }

    /// The same with who holds slots, if it waits for one, and with what its events say: who cancelled it, how long steps
    /// took, which run was the last of each; and with what it made.
    pub(crate) async fn with_past(context: &Context, reader: &SqliteReader, id: FlowId) -> CommandResult<Self> {
        let mut look = Self::at_present(context, reader, id).await?;
        if waits_for_slot(&look.flow) {
            look.slots = slot_holders(&active_flows(reader).await?);
        }
        let mut after = 0;
        loop {
            let events = reader.events(Some(id), after, PAGE).await.map_err(of_store)?;
            let Some(last) = events.last() else { break };
            after = last.position;
            events.iter().for_each(|event| look.past.apply(event));
        }
        look.made = Made::of_flow(context, &look.flow);
        Ok(look)
    }

    /// As explanations take it.
    pub(crate) fn facts<'a>(&'a self, carrier: &'a Carrier) -> Facts<'a> {
        Facts {
            flow: &self.flow,
            pipeline: &self.pipeline,
            now: self.now,
            carrier,
            runs: self.runs.clone(),
            slots: &self.slots,
            others: &self.others,
            past: &self.past,
        }
    }

    /// Evidence about a live run.
    pub(crate) fn evidence(&self, run: RunId) -> Option<RunEvidence> {
        self.runs.get(&run).copied()
    }
}

/// What can be seen of a run.
pub(crate) fn evidence(context: &Context, run: &Run) -> RunEvidence {
    let process = match &run.state {
        RunState::Running { process, .. } => Seen::of(process),
        RunState::Pending { .. } | RunState::Finished { .. } => Seen::Unknown,
    };
    RunEvidence { process, last_output_at: last_output_at(context, run.flow, run.id) }
}

/// Who holds slots, among these flows.
pub(crate) fn slot_holders<'a>(flows: impl IntoIterator<Item = &'a Flow>) -> Vec<SlotHolder> {
    let runs = flows.into_iter().flat_map(|flow| flow.runs.values());
    let holder = |run: &Run| match run.state {
        RunState::Pending { since, .. } | RunState::Running { since, .. } => {
            Some(SlotHolder { flow: run.flow, path: run.path.clone(), since })
        }
        RunState::Finished { .. } => None,
    };
    runs.filter_map(holder).collect()
}

/// Flows that this one waits for: its children, and who is in its concurrency groups. Some of them, where they are many.
fn waited_for(flow: &Flow) -> BTreeSet<FlowId> {
    let mut behind: Vec<FlowId> = Vec::new();
    let group = |holders: &[Holder]| holders.iter().map(|holder| holder.flow).take(OTHERS).collect::<Vec<_>>();
    if let FlowState::Queued { behind: holders, .. } = &flow.head.state {
        behind.extend(group(holders));
    }
    for step in &flow.steps {
        match &step.state {
            StepState::Ready { held_by: Some(Held::Group { behind: holders, .. }), .. } => {
                behind.extend(group(holders))
            }
            StepState::Waiting(Wait::Flow { flow, .. }) => behind.push(*flow),
            _ => {}
        }
    }
    behind.into_iter().filter(|other| *other != flow.spec.id).take(OTHERS).collect()
}

fn waits_for_slot(flow: &Flow) -> bool {
    flow.steps.iter().any(|step| matches!(step.state, StepState::Ready { held_by: Some(Held::Slot), .. }))
}

async fn active_flows(reader: &SqliteReader) -> CommandResult<Vec<Flow>> {
    let lines = reader.flows(FlowFilter::Live, None, FLOWS_WITH_SLOTS).await.map_err(of_store)?;
    let mut flows = Vec::new();
    for line in lines.iter().filter(|line| line.steps.active > 0) {
        flows.extend(reader.flow(line.spec.id).await.map_err(of_store)?);
    }
    Ok(flows)
}
