//! `pause`: nothing more of a flow, or of one of its steps, starts. `resume` lets it go on.

use orc_domain::flow::{Flow, FlowState, StepState};
use orc_domain::hold::{HoldReason, HoldScope};
use orc_domain::path::StepPath;
use orc_ports::reader::Reader as _;

use super::change::{self, Said};
use super::explain::parse_step;
use crate::args::PauseArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found};
use crate::feed::Change;
use crate::hold::of_store;

pub(crate) async fn run(context: &Context, args: PauseArgs) -> CommandResult {
    let reader = context.reader().await?;
    let id = context.flow_of(&reader, &args.id).await?;
    let flow = reader.flow(id).await.map_err(of_store)?.ok_or_else(|| not_found(format!("there is no flow {id}")))?;
    drop(reader);
    let step = args.step.as_deref().map(|step| parse_step(&flow, step)).transpose()?;
    let what = step.as_ref().map_or_else(|| id.to_string(), |step| format!("`{step}` of {id}"));
    let resume = step.as_ref().map_or_else(
        || format!("orchestrator resume {id}"),
        |step| format!("orchestrator resume {id} --step '{step}'"),
    );
    if let Some(why) = in_vain(&flow, step.as_ref()) {
        let failure = Failure::new(Exit::Refused, format!("{what} cannot be paused: {why}"));
        return Err(if flow.is_finished() { failure } else { failure.hint(format!("`{resume}` lets it go on")) });
    }
    let until = args.for_.map(|length| context.now() + length);
    let lasts = until.map_or_else(
        || format!("`{resume}` lets it go on"),
        |until| format!("it goes on by itself at {until}, or with `{resume}`"),
    );
    let said = Said {
        command: "pause",
        done: format!(
            "{what} is paused: nothing new starts, what runs goes on, built-in agents to the end of their turn; {lasts}"
        ),
        vain: format!("{what} cannot be paused: it ended or was paused in the meantime"),
    };
    let change = Change::Pause { flow: id, step, note: args.reason.unwrap_or_default(), until };
    change::write(context, change, said, args.output.output).await
}

/// Why pausing would change nothing.
fn in_vain(flow: &Flow, step: Option<&StepPath>) -> Option<String> {
    if let FlowState::Finished { outcome, .. } = &flow.head.state {
        return Some(format!("the flow is over, {}", outcome.word()));
    }
    if let Some(path) = step
        && let Some(StepState::Finished { outcome }) = flow.step_at(path).map(|step| &step.state)
    {
        return Some(format!("it is over, {}", outcome.word()));
    }
    let scope = step.map_or(HoldScope::Flow, |path| HoldScope::Step(path.clone()));
    let hold = flow.head.holds.iter().find(|hold| hold.scope == scope && hold.reason == HoldReason::Paused)?;
    Some(format!("{} paused it already", hold.by))
}
