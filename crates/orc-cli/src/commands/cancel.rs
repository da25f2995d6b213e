//! `cancel`: end a flow, wherever it is carried on. When nobody does, this command takes the directory and carries the
//! flow to its end itself, because its `finally` must still run.

use orc_domain::flow::FlowState;
use orc_domain::ids::FlowId;
use serde_json::json;

use super::carry::{Work, carry_cancelled};
use crate::args::CancelArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::feed::Line;
use crate::output::{self, Form};
use crate::view::result::state_word;

pub(crate) async fn run(context: &Context, args: CancelArgs) -> CommandResult {
    let reader = context.reader().await?;
    let flow = context.flow_of(&reader, &args.id).await?;
    drop(reader);
    if context.data.is_held() {
        let line = Line::Holder(context.data.socket());
        let (changed, state) = line.cancel(flow, context.user(), args.force).await?;
        return tell(flow, changed, &state, args.output.output);
    }
    let shape = context.shape("cancel", &crate::args::LimitArgs::default())?;
    carry_cancelled(context, shape, Work::Unfinished(flow), args.force, args.output.output.into()).await
}

/// Says what became of it.
fn tell(flow: FlowId, changed: bool, state: &FlowState, form: Form) -> CommandResult {
    if !changed {
        let what = match state {
            FlowState::Finished { outcome, .. } => format!("{flow} is over already: {}", outcome.word()),
            FlowState::Live { .. } | FlowState::Queued { .. } => format!("{flow} is being ended at once already"),
        };
        return Err(Failure::new(Exit::Refused, what));
    }
    if form == Form::Table {
        let line = format!("{flow} is being cancelled; `orchestrator status {flow}` shows what is left of it");
        output::text_line(&line)?;
    } else {
        let document = json!({ "schema": "orc/cancel/1", "flow": flow, "state": state_word(state) });
        output::document(form, &document, None)?;
    }
    Ok(Exit::Success)
}
