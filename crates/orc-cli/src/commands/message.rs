//! `message`: words for an agent. Its next run reads them; one that asked something goes on with them.

use orc_domain::ids::MessageId;
use orc_domain::path::StepPath;
use orc_ports::reader::Reader as _;
use orc_store_sqlite::SqliteReader;

use super::change::{self, Said};
use super::explain::parse_step;
use crate::args::MessageArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found};
use crate::feed::Change;
use crate::hold::of_store;

/// Bytes of a message.
const MOST: usize = 64 * 1024;

pub(crate) async fn run(context: &Context, args: MessageArgs) -> CommandResult {
    if args.text.trim().is_empty() || args.text.len() > MOST {
        let what = format!("a message has 1 to {MOST} bytes, and this has {}", args.text.len());
        return Err(Failure::new(Exit::Usage, what));
    }
    let reader = context.reader().await?;
    let (flow, path) = addressee(context, &reader, &args).await?;
    drop(reader);
    let id = MessageId::from_uuid(uuid::Uuid::now_v7());
    let said = Said {
        command: "message",
        done: format!("{id} is in the inbox of `{path}` of {flow}"),
        vain: format!("`{path}` of {flow} reads no messages: it is over, or no step of an agent"),
    };
    let change = Change::Message { flow, path, id, text: args.text };
    change::make(context, change, said, args.output.output).await
}

/// The conversation that is meant: a run's, a request's, or a step's of a flow.
async fn addressee(
    context: &Context,
    reader: &SqliteReader,
    args: &MessageArgs,
) -> CommandResult<(orc_domain::ids::FlowId, StepPath)> {
    match (context.step_of(reader, &args.id).await?, &args.step) {
        ((flow, _), Some(step)) => {
            let known = reader.flow(flow).await.map_err(of_store)?;
            let known = known.ok_or_else(|| not_found(format!("there is no flow {flow}")))?;
            Ok((flow, parse_step(&known, step)?))
        }
        ((flow, Some(path)), None) => Ok((flow, path)),
        ((flow, None), None) => {
            let what = format!("{flow} is a flow: say which of its steps is meant");
            Err(Failure::new(Exit::Usage, what).hint("`--step PATH` names it, or give the id of a run"))
        }
    }
}
