//! `retry`: run what did not succeed again, as a new flow that carries the old one on.

use std::sync::Arc;

use orc_domain::flow::Flow;
use orc_domain::graph::Pipeline;
use orc_domain::ids::FlowId;
use orc_engine::{Again, ForkError, New, fork};
use orc_ports::reader::Reader as _;
use orc_runtime::Definitions;

use super::carry::{Work, carry};
use crate::args::RetryArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found};
use crate::hold::of_store;

pub(crate) async fn run(context: &Context, args: RetryArgs) -> CommandResult {
    let shape = context.shape("retry", &args.limits)?;
    let reader = context.reader().await?;
    let id = context.flow_of(&reader, &args.id).await?;
    let flow = reader.flow(id).await.map_err(of_store)?;
    let flow = flow.ok_or_else(|| not_found(format!("there is no flow {id}")))?;
    let stored = reader.pipeline(flow.spec.pipeline.clone()).await.map_err(of_store)?;
    let (pipeline, source) = stored.ok_or_else(|| not_found(format!("the definition that {id} pinned is gone")))?;
    let new = FlowId::from_uuid(uuid::Uuid::now_v7());
    let again = args.from.map_or(Again::Unfinished, Again::From);
    let new = New { id: new, by: context.user(), now: context.now() };
    let spec = fork(&flow, &pipeline, &again, new).map_err(|error| refused(&flow, &pipeline, error))?;
    drop(reader);
    // Definitions of its children were stored with those of the flow that it carries on.
    let definitions = Definitions { pipeline: Arc::new(pipeline), source, children: Vec::new() };
    let work = Work::New { spec: Box::new(spec), definitions: Box::new(definitions) };
    carry(context, shape, vec![work], args.output.output.into()).await
}

fn refused(flow: &Flow, pipeline: &Pipeline, error: ForkError) -> Failure {
    let id = flow.spec.id;
    match error {
        ForkError::Live(_) => {
            Failure::new(Exit::Refused, format!("{id} is not over, so there is nothing to retry yet")).hint(format!(
                "`orchestrator cancel {id}` ends it, `orchestrator status {id} --watch` shows it until it is over"
            ))
        }
        ForkError::Nothing(_) => {
            let what = format!("nothing to retry in {id}: every step succeeded, or was skipped by its own condition");
            Failure::new(Exit::Refused, what).hint("`--from STEP` runs a step again with everything that needs it")
        }
        ForkError::NoStep { key, .. } => {
            let names: Vec<&str> = pipeline.steps.iter().take(pipeline.roots()).map(|step| step.key.as_str()).collect();
            let failure = not_found(format!("`{}` has no step `{key}` to retry from", flow.spec.name));
            match orc_domain::suggest::closest(&key, names.iter().copied()) {
                Some(close) => failure.hint(format!("did you mean `{close}`?")),
                None => failure.hint(format!("its steps: {}", names.join(", "))),
            }
        }
    }
}
