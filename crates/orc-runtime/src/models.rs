//! The way of a run to models: opened before its process starts, closed before its flow hears of its end.
//!
//! What the gateway measured is what a run used, whatever its program says of itself. What the gateway tells while a run
//! lives (a wall, a provider that takes nothing) goes to the flow, which decides.

use std::sync::Arc;

use orc_domain::agent::Usage;
use orc_domain::effect::AgentCall;
use orc_domain::ids::{FlowId, RunId};
use orc_domain::input::{Ending, Input, Told};
use orc_domain::ledger::Account;
use orc_domain::meter::{Owner, Refusal};
use orc_domain::run::{Cause, ErrorFamily, Failure};
use orc_domain::time::Timestamp;
use orc_ports::executor::{Confinement, Door, Secrets};
use orc_ports::gateway::{Notice, Notices, OpenError, Opening};

use crate::agents;
use crate::places::Settled;
use crate::shell::{Shell, chain};

/// Where programs in a box find the gateway: this port of 127.0.0.1.
const PORT: u16 = 3129;

/// Opens the way of a run whose profile names a model, and puts it into the place where the run will be. The token belongs
/// to what no log may show. Else says how the run ends without having begun.
pub(crate) async fn open(
    shell: &Arc<Shell>,
    (flow, run): (FlowId, RunId),
    call: &AgentCall,
    settled: &mut Settled,
    secrets: Secrets,
) -> Result<Secrets, Ending> {
    let Some(model) = &call.profile.model else { return Ok(secrets) };
    let Some(confinement) = settled.confinement.as_deref_mut() else {
        let detail = "`model:` of its profile needs a box, and this run has none: without one nothing keeps it from other ways \
                      to a model; remove `worktree: in_place` from the step";
        return Err(not_opened(ErrorFamily::PolicyDenied, detail.to_owned()));
    };
    let opening = Opening {
        run,
        account: Account {
            run: Some(run),
            flow: Some(flow),
            path: Some(call.path.clone()),
            pipeline: Some(call.pipeline.clone()),
            agent: call.profile.name.clone(),
            ticket: None,
        },
        walls: call.walls.clone(),
        model: model.clone(),
        notices: notices(shell, flow),
    };
    let door = shell.gateway.open(opening).await.map_err(|error| not_opened(family_of(&error), chain(&error)))?;
    shell.places.note_door(run);
    let values = secrets.values().iter().cloned().chain([door.token.clone()]);
    let secrets = Secrets::new(values);
    if agents::is_built_in(call) {
        // Its loop calls from this process; nothing in its box has a way to a model.
        return Ok(secrets);
    }
    settled.env.extend(door.environment(PORT, model));
    enter(confinement, door.socket);
    Ok(secrets)
}

fn enter(confinement: &mut Confinement, socket: std::path::PathBuf) {
    confinement.doors.push(Door { socket, port: PORT });
}

fn notices(shell: &Arc<Shell>, flow: FlowId) -> Notices {
    let (router, clock) = (Arc::clone(&shell.router), Arc::clone(&shell.clock));
    Notices::new(move |run, notice| {
        let input = match notice {
            // It is heard with what else the run says.
            Notice::Used(_) => return,
            // Nothing that could be raised: the program has been told, and ends.
            Notice::Refused(Refusal::Unpriced { .. }) => return,
            Notice::Refused(Refusal::Wall { owner, wall, short }) => {
                Input::CallRefused { run, whose: owner, wall, short }
            }
            Notice::Parked { provider, until, why } => Input::RunParked { run, provider, until, why },
        };
        router.deliver(flow, clock.now(), input);
    })
}

fn family_of(error: &OpenError) -> ErrorFamily {
    match error {
        OpenError::Model { .. } | OpenError::Credential { .. } => ErrorFamily::PolicyDenied,
        OpenError::Ledger { .. } | OpenError::Socket { .. } => ErrorFamily::SandboxInfrastructure,
    }
}

fn not_opened(family: ErrorFamily, detail: String) -> Ending {
    Ending::Failed(Failure { family, cause: Cause::Start, detail })
}

/// Closes the way of a run whose process is gone: what it used is what was measured.
pub(crate) async fn close(shell: &Shell, run: RunId, told: &mut Option<Told>) {
    let metered = shell.gateway.close(run).await;
    if let Some(told) = told {
        told.usage = measured(metered.usage, told.usage);
    }
}

/// What the gateway measured, with what only the program knows.
pub(crate) fn measured(metered: Usage, told: Usage) -> Usage {
    Usage { tool_calls: told.tool_calls, ..metered }
}

/// What the ledger knows of a run that was lost with its instance; nothing when it made no call.
pub(crate) async fn of_lost(shell: &Shell, run: RunId) -> Option<Input> {
    let sum = match shell.ledger.spent(Owner::Run(run)).await {
        Ok(sum) => sum,
        Err(error) => {
            tracing::warn!(%run, error = chain(&error), "the ledger cannot be read: what a lost run used is not in its flow");
            return None;
        }
    };
    let mut tokens = sum.tokens;
    // Of what was lost nobody knows the class.
    tokens.input = tokens.input.saturating_add(sum.lost_tokens);
    let usage = tokens.as_usage(sum.calls, sum.micros);
    let statistics = orc_domain::agent::Statistics::default();
    (usage.calls > 0).then_some(Input::RunHeard { run, statistics, usage, looping: false })
}

/// Ends what a dead instance had in flight.
pub(crate) async fn lose(shell: &Shell, instance: orc_domain::ids::InstanceId, at: Timestamp) {
    if let Err(error) = shell.ledger.lose(instance, at).await {
        tracing::warn!(%instance, error = chain(&error), "calls of a dead instance are still in flight in the ledger");
    }
}
