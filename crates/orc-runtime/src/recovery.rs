//! At the start: make the store tell the truth about what a dead instance left.
//!
//! Holding the lock proves that every other instance is dead. Their processes are ended on proof, their runs are lost,
//! and every unfinished flow hears so, whether this command goes on with it or not: a slot held by the dead would starve
//! the living. Flows are carried on only where somebody asked for it; what only waits is not read for that, its alarm is
//! enough.

use std::collections::BTreeSet;
use std::sync::Arc;

use orc_domain::effect::Decision;
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_domain::time::{Millis, Timestamp};
use orc_engine::{Context, Resident, decide};
use orc_ports::executor::Reaped;
use orc_ports::store::{Commit, Committed, Instance, StoreError};

use crate::children;
use crate::dispatcher::DispatcherError;
use crate::flow_loop::{Claims, load_with_claims};
use crate::models;
use crate::shell::Shell;

/// Flows that are looked at in one read.
const PAGE: u32 = 500;
/// A flow that wants to start something has an alarm no later than this: it looks again for a slot every five seconds, for
/// a place in a group every minute.
const SOON: Millis = Millis::from_secs(60);

/// What was found and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Instances that ended without saying so.
    pub dead: Vec<Instance>,
    /// Their processes that were still there.
    pub reaped: Vec<Reaped>,
    /// Runs that were lost with them.
    pub lost: Vec<RunId>,
}

pub(crate) async fn recover(shell: &Shell) -> Result<Recovered, DispatcherError> {
    let open = shell.store.instances_open().await?;
    let dead: Vec<Instance> = open.into_iter().filter(|instance| instance.id != shell.instance).collect();
    let ids: Vec<InstanceId> = dead.iter().map(|instance| instance.id).collect();
    let reaped = if ids.is_empty() { Vec::new() } else { shell.executor.reap(ids.clone()).await? };
    for instance in &ids {
        models::lose(shell, *instance, shell.clock.now()).await;
    }
    let found: BTreeSet<RunId> = reaped.iter().map(|reaped| reaped.run).collect();
    let mut recovered = Recovered { dead, reaped, ..Recovered::default() };
    let mut after = None;
    loop {
        let page = shell.store.flows_with_live_runs(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(*last);
        for flow in page {
            recovered.lost.extend(tell_losses(shell, flow, &found).await?);
        }
    }
    for id in ids {
        shell.store.instance_end(id, shell.clock.now()).await?;
    }
    Ok(recovered)
}

/// Carries all on that is not over. A flow that has nothing to deliver, no live run and an alarm that is far away only
/// waits: it stays out of memory.
pub(crate) async fn resume_all(shell: &Arc<Shell>) -> Result<(), DispatcherError> {
    let mut busy = BTreeSet::new();
    {
        // Nobody carries a flow on meanwhile, so none ends between the look and its place among those that wait.
        let left = shell.left.write().await;
        if *left {
            return Err(DispatcherError::Ending);
        }
        for with_effects in [true, false] {
            let mut after = None;
            loop {
                let page = if with_effects {
                    shell.store.flows_with_effects(after, PAGE).await?
                } else {
                    shell.store.flows_with_live_runs(after, PAGE).await?
                };
                let Some(last) = page.last() else { break };
                after = Some(*last);
                busy.extend(page);
            }
        }
        let (soon, mut after) = (shell.clock.now() + SOON, None);
        loop {
            let page = shell.store.flows_due(Timestamp::from_millis(i64::MAX), after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(*last);
            for (alarm, flow) in page {
                if alarm <= soon {
                    busy.insert(flow);
                } else if !busy.contains(&flow) && !shell.router.carries(flow) && !shell.parked.holds(flow) {
                    shell.live.send_modify(|live| *live += 1);
                    shell.parked.park(flow, alarm);
                }
            }
        }
    }
    for flow in busy {
        let _entry = shell.enter().await?;
        children::carry_on(shell, flow).await?;
    }
    Ok(())
}

/// Tells one flow which of its runs are lost. Nothing starts: no slot is offered.
async fn tell_losses(shell: &Shell, id: FlowId, found: &BTreeSet<RunId>) -> Result<Vec<RunId>, StoreError> {
    loop {
        let Some((resident, claims)) = load_with_claims(shell, id).await? else { return Ok(Vec::new()) };
        let lost: Vec<RunId> = resident.flow().runs.keys().copied().collect();
        if lost.is_empty() {
            return Ok(lost);
        }
        let mut inputs: Vec<Signed> = Vec::new();
        for run in &lost {
            if resident.flow().runs.get(run).is_some_and(|record| record.agent.is_some()) {
                let used = models::of_lost(shell, *run).await;
                inputs.extend(used.map(|input| Signed { by: Principal::System, input }));
            }
            inputs.push(loss(*run, &claims, shell, found));
        }
        let expected = resident.flow().head.version;
        let full = std::collections::BTreeMap::new();
        let context = Context { now: shell.clock.now(), slots: 0, grace: shell.shape.grace, full };
        let decision = decide_all(resident, &inputs, &context);
        let commit = Commit { flow: id, create: None, expected, decision, slots: shell.shape.slots };
        match shell.store.commit(commit).await? {
            Committed::Done => return Ok(lost),
            Committed::Stale | Committed::Refused(_) => {}
        }
    }
}

fn loss(run: RunId, claims: &Claims, shell: &Shell, found: &BTreeSet<RunId>) -> Signed {
    let owner = claims.iter().find(|(claimed, _)| *claimed == run).map(|(_, instance)| *instance);
    let evidence = match owner {
        Some(instance) if found.contains(&run) => format!("{instance} ended; its process was found and killed"),
        Some(instance) => format!("{instance} ended, and no process of the run is left"),
        None => "the instance ended before the run was started".to_owned(),
    };
    let claimed = owner.is_some_and(|owner| owner != shell.instance);
    Signed { by: Principal::System, input: Input::RunLost { run, claimed, evidence } }
}

fn decide_all(mut resident: Resident, inputs: &[Signed], context: &Context) -> Decision {
    let mut all = Decision::default();
    for signed in inputs {
        let (next, decision) = decide(resident, signed, context);
        resident = next;
        all = all.then(decision);
    }
    all
}
