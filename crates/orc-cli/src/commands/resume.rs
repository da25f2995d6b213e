//! `resume`: carry on what a crash left, to its end.

use super::carry::{Work, carry};
use crate::args::ResumeArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::feed::Change;
use crate::output::say;

/// Unfinished flows that are read at once.
const PAGE: u32 = 1000;

pub(crate) async fn run(context: &Context, args: ResumeArgs) -> CommandResult {
    let shape = context.shape("flows resume", &args.limits)?;
    let reader = context.reader().await?;
    let flows = if args.all {
        context.unfinished_flows(&reader, PAGE).await?
    } else {
        let mut flows = Vec::new();
        for id in &args.ids {
            flows.push(context.flow_of(&reader, id).await?);
        }
        flows
    };
    drop(reader);
    if flows.is_empty() {
        say("nothing to resume: no flow is unfinished");
        return Ok(Exit::Success);
    }
    // What was paused goes on too: that is what was asked for.
    let lifted = |flow| Work::Changed(context.user(), Change::Unpause { flow, step: None });
    carry(context, shape, flows.into_iter().map(lifted).collect(), args.output.output).await
}
