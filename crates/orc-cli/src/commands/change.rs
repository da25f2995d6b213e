//! Changes of a flow that is there: an answer, a pause, words for an agent. Whoever carries the flow on is told; when
//! nobody does, it is carried on here, since what follows from the change must happen.

use serde_json::json;

use super::carry::{Work, carry};
use crate::args::LimitArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::feed::{Change, Line};
use crate::hold::{self, Access};
use crate::output::{self, Form};
use crate::view::result::state_word;

/// What is said about a change.
pub(crate) struct Said {
    /// The command, for the holder's name.
    pub(crate) command: &'static str,
    /// When it was done.
    pub(crate) done: String,
    /// When it changes nothing.
    pub(crate) vain: String,
}

/// Makes a change, and carries the flow on to its end if nobody does.
pub(crate) async fn make(context: &Context, change: Change, said: Said, form: Form) -> CommandResult {
    if context.data.is_held() {
        return tell(context, &Line::Holder(context.data.socket()), change, &said, form).await;
    }
    let shape = context.shape(said.command, &LimitArgs::default())?;
    carry(context, shape, vec![Work::Changed(context.user(), change)], form).await
}

/// Makes a change after which nothing follows: nobody need carry the flow on.
pub(crate) async fn write(context: &Context, change: Change, said: Said, form: Form) -> CommandResult {
    let shape = context.shape(said.command, &LimitArgs::default())?;
    match hold::open(context, shape).await? {
        Access::Ours(held) => {
            let line = Line::Own(held.dispatcher.clone());
            let told = tell(context, &line, change, &said, form).await;
            held.close().await?;
            told
        }
        Access::Theirs(_) => tell(context, &Line::Holder(context.data.socket()), change, &said, form).await,
    }
}

async fn tell(context: &Context, line: &Line, change: Change, said: &Said, form: Form) -> CommandResult {
    let flow = change.flow();
    let (changed, state) = line.send(context.user(), change).await?;
    if !changed {
        return Err(Failure::new(Exit::Refused, said.vain.clone()));
    }
    if form == Form::Table {
        output::text_line(&said.done)?;
    } else {
        let document =
            json!({ "schema": "orc/change/1", "flow": flow, "state": state_word(&state), "done": said.done });
        output::document(form, &document, None)?;
    }
    Ok(Exit::Success)
}
