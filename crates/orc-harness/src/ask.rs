//! One question to a model, through the gateway, as a stream of what it says.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use orc_domain::ids::RunId;
use orc_domain::model::{Protocol, Want};
use orc_ports::gateway::{Answer, Broken, Gateway, Request};

use crate::talk::{CallFailure, Ended, Question, Said};
use crate::wire::{self, Reader};

/// Most bytes of what a provider says when it does not answer.
const FAILURE_BYTES: usize = 64 * 1024;

/// Whose question it is.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) gateway: Arc<dyn Gateway>,
    pub(crate) run: RunId,
    /// The agent, where it is not the run's own.
    pub(crate) agent: Option<String>,
}

/// What a model says, or why it does not; ends after the first failure, or after [`Said::Ended`].
pub(crate) type Saying = BoxStream<'static, Result<Vec<Said>, CallFailure>>;

enum Stage {
    Begin(Box<(Asker, Question)>),
    Reading(BoxStream<'static, Result<Bytes, Broken>>, Box<Reader>),
    Over,
}

/// Asks. `patient`: nobody else can be asked, so the gateway may hold the call while the provider takes nothing.
pub(crate) fn ask(asker: Asker, question: Question, patient: bool) -> Saying {
    let steps = stream::unfold(Stage::Begin(Box::new((asker, question))), move |stage| async move {
        match stage {
            Stage::Begin(asked) => {
                let (asker, question) = *asked;
                Some(match begin(&asker, &question, patient).await {
                    Ok((body, reader)) => (Ok(Vec::new()), Stage::Reading(body, Box::new(reader))),
                    Err(failure) => (Err(failure), Stage::Over),
                })
            }
            Stage::Reading(mut body, mut reader) => Some(match body.next().await {
                Some(Ok(bytes)) => match reader.push(&bytes) {
                    Ok(said) if is_over(&said) => (Ok(said), Stage::Over),
                    Ok(said) => (Ok(said), Stage::Reading(body, reader)),
                    Err(failure) => (Err(failure), Stage::Over),
                },
                Some(Err(broken)) => (Err(CallFailure::Broken { why: broken.to_string() }), Stage::Over),
                None => (reader.end(), Stage::Over),
            }),
            Stage::Over => None,
        }
    });
    steps.filter(|said| std::future::ready(!matches!(said, Ok(said) if said.is_empty()))).boxed()
}

fn is_over(said: &[Said]) -> bool {
    matches!(
        said.last(),
        Some(Said::Ended(Ended::Said | Ended::Calls | Ended::OutputLimit | Ended::Refused | Ended::Overflow))
    )
}

async fn begin(
    asker: &Asker,
    question: &Question,
    patient: bool,
) -> Result<(BoxStream<'static, Result<Bytes, Broken>>, Reader), CallFailure> {
    let Some(protocol) = asker.gateway.speaks(&question.model) else {
        let why = format!("no provider has the model `{}`", question.model);
        return Err(CallFailure::Refused { status: 404, why });
    };
    let wire::Outgoing { headers, body } = wire::request(protocol, question);
    let request = Request {
        run: asker.run,
        protocol,
        want: Want::Answer,
        query: String::new(),
        headers,
        body,
        agent: asker.agent.clone(),
        patient,
    };
    let answer = asker.gateway.call(request).await;
    if (200..300).contains(&answer.status) {
        return Ok((answer.body, Reader::new(protocol)));
    }
    Err(failed(protocol, answer).await)
}

async fn failed(protocol: Protocol, answer: Answer) -> CallFailure {
    let (mut body, mut bytes) = (answer.body, Vec::new());
    while let Some(Ok(piece)) = body.next().await {
        let room = FAILURE_BYTES - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        if bytes.len() == FAILURE_BYTES {
            break;
        }
    }
    wire::failure(protocol, answer.status, &bytes)
}
