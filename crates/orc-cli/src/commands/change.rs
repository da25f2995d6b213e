//! Changes of a flow that is there: an answer, a pause, words for an agent. Whoever carries the flow on is told; when
//! nobody does, it is carried on here, since what follows from the change must happen.

use orc_domain::flow::FlowState;
use orc_domain::hold::HoldScope;
use orc_domain::request::RequestState;
use orc_ports::reader::Reader as _;
use serde_json::json;

use super::carry::{Work, carry_here, tell_recovered};
use crate::args::LimitArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::feed::{Change, Line};
use crate::hold::{self, Access, Held, of_store};
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
    loop {
        if !context.data.is_held() {
            let shape = context.shape(said.command, &LimitArgs::default())?;
            if let Access::Ours(held) = hold::open(context, shape).await? {
                tell_recovered(&held.recovered);
                return make_here(context, *held, change, said, form).await;
            }
        }
        if let Some(exit) = tell_holder(context, &change, &said, form).await? {
            return Ok(exit);
        }
    }
}

async fn make_here(context: &Context, held: Held, change: Change, said: Said, form: Form) -> CommandResult {
    let flow = change.flow();
    let sent = Line::Own(held.dispatcher.clone()).send(context.user(), change).await;
    let refused = match sent {
        Ok(Some((true, _))) => return carry_here(context, held, &[Work::Unfinished(flow)], form.into()).await,
        Ok(Some((false, _)) | None) => Failure::new(Exit::Refused, said.vain),
        Err(failure) => failure,
    };
    held.close().await?;
    Err(refused)
}

/// Makes a change after which nothing follows: nobody need carry the flow on.
pub(crate) async fn write(context: &Context, change: Change, said: Said, form: Form) -> CommandResult {
    loop {
        let shape = context.shape(said.command, &LimitArgs::default())?;
        if let Access::Ours(held) = hold::open(context, shape).await? {
            let line = Line::Own(held.dispatcher.clone());
            let told = tell(context, &line, &change, &said, form).await;
            held.close().await?;
            if let Some(exit) = told? {
                return Ok(exit);
            }
        } else if let Some(exit) = tell_holder(context, &change, &said, form).await? {
            return Ok(exit);
        }
    }
}

/// Nothing when the holder ended and the change is not made: it may be made anew.
async fn tell_holder(context: &Context, change: &Change, said: &Said, form: Form) -> CommandResult<Option<Exit>> {
    let line = Line::Holder(context.data.socket());
    if let Some(exit) = tell(context, &line, change, said, form).await? {
        return Ok(Some(exit));
    }
    // It ended before it answered, perhaps because this was the last that its flow waited for.
    match made(context, change).await? {
        Some(state) => print(change, &state, said, form).map(Some),
        None => Ok(None),
    }
}

/// Nothing when the holder ended before it answered.
async fn tell(context: &Context, line: &Line, change: &Change, said: &Said, form: Form) -> CommandResult<Option<Exit>> {
    match line.send(context.user(), change.clone()).await? {
        Some((true, state)) => print(change, &state, said, form).map(Some),
        Some((false, _)) => Err(Failure::new(Exit::Refused, said.vain.clone())),
        None => Ok(None),
    }
}

/// Where the flow stands, if a change was made of which nobody told us.
async fn made(context: &Context, change: &Change) -> CommandResult<Option<FlowState>> {
    let reader = context.reader().await?;
    let Some((_, head)) = reader.flow_head(change.flow()).await.map_err(of_store)? else { return Ok(None) };
    let is_made = match change {
        Change::Answer(reply) => {
            let record = reader.request(reply.request).await.map_err(of_store)?;
            record.is_some_and(|record| match record.request.state {
                RequestState::Resolved { answer, scope, reason, .. } => {
                    answer == reply.answer && scope == reply.scope && reason == reply.reason
                }
                RequestState::Open { .. } => false,
            })
        }
        Change::Pause { step, note, .. } => {
            let scope = step.as_ref().map_or(HoldScope::Flow, |path| HoldScope::Step(path.clone()));
            head.holds.iter().any(|hold| hold.scope == scope && hold.note == *note)
        }
        // The same once more changes nothing.
        Change::Unpause { .. } | Change::Message { .. } => false,
    };
    Ok(is_made.then_some(head.state))
}

fn print(change: &Change, state: &FlowState, said: &Said, form: Form) -> CommandResult {
    if form == Form::Table {
        output::text_line(&said.done)?;
    } else {
        let (flow, state) = (change.flow(), state_word(state));
        let document = json!({ "schema": "orc/change/1", "flow": flow, "state": state, "done": said.done });
        output::document(form, &document, None)?;
    }
    Ok(Exit::Success)
}
