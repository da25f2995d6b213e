//! `pause`: nothing more of a flow, or of one of its steps, starts. `resume` lets it go on.

use orc_domain::path::StepPath;

use super::change::{self, Said};
use crate::args::PauseArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::feed::Change;

pub(crate) async fn run(context: &Context, args: PauseArgs) -> CommandResult {
    let reader = context.reader().await?;
    let flow = context.flow_of(&reader, &args.id).await?;
    drop(reader);
    let step = args.step.as_deref().map(parse_step).transpose()?;
    let until = args.for_.map(|length| context.now() + length);
    let what = step.as_ref().map_or_else(|| flow.to_string(), |step| format!("`{step}` of {flow}"));
    let said = Said {
        command: "pause",
        done: format!(
            "{what} is paused: nothing new starts, what runs goes on; `orchestrator resume {flow}` lets it go on"
        ),
        vain: format!("{what} cannot be paused: it is over, is paused already, or there is no such step"),
    };
    let change = Change::Pause { flow, step, note: args.reason.unwrap_or_default(), until };
    change::write(context, change, said, args.output.output).await
}

/// A step's path as typed.
pub(crate) fn parse_step(text: &str) -> CommandResult<StepPath> {
    text.parse().map_err(|error: orc_domain::path::PathError| Failure::new(Exit::Usage, error.to_string()))
}
