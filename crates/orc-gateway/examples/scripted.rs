//! A scripted model at a port of this machine, to see what a program makes of it:
//! `cargo run -p orc-gateway --example scripted -- models/NAME.yaml 8080 [CASSETTE.jsonl]`, then
//! `ANTHROPIC_BASE_URL=http://127.0.0.1:8080` or `OPENAI_BASE_URL=.../v1`. With a cassette it is recorded; a cassette in the
//! place of the script is played. Every request is told on standard error; nothing is metered.
#![expect(clippy::print_stderr, reason = "an example talks to whoever started it")]

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use orc_domain::model::Protocol;
use orc_gateway::Scripted;
use orc_gateway::cassette::{Place, Player, Recorder, Strictness, Tapes};
use orc_gateway::provider::{Outgoing, Provider, Want};
use orc_gateway::wire::Request;
use orc_ports::executor::Secrets;
use orc_spec::{SourceFile, compile_script};

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, port, cassette @ ..] = arguments.as_slice() else { return Err("usage: scripted SCRIPT PORT".into()) };
    let mut scripted: Arc<dyn Provider> = if path.ends_with(".jsonl") {
        Arc::new(Player::open(Path::new(path), Strictness::Lenient, Secrets::default())?)
    } else {
        let source = SourceFile::new(path.as_str(), std::fs::read_to_string(path)?);
        let compiled = compile_script(&source);
        for problem in &compiled.diagnostics {
            eprintln!("{}", problem.render(&source, false));
        }
        Arc::new(Scripted::new(Arc::new(compiled.script.ok_or("this script has errors")?)))
    };
    if let Some(cassette) = cassette.first() {
        scripted =
            Arc::new(Recorder::new(scripted, Place::File(cassette.into()), Secrets::default(), Tapes::default()));
    }
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port.parse::<u16>()?)).await?;
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            loop {
                let (stream, _) = listener.accept().await?;
                let scripted = scripted.clone();
                let service = service_fn(move |request| answer(scripted.clone(), request));
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                #[expect(clippy::disallowed_methods, reason = "an example has no task tracker")]
                tokio::task::spawn_local(async move {
                    if let Err(error) = connection.await {
                        eprintln!("connection: {error}");
                    }
                });
            }
        })
        .await
}

async fn answer(
    scripted: Arc<dyn Provider>,
    request: http::Request<Incoming>,
) -> Result<http::Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let path = head.uri.path().trim_start_matches("/v1");
    let known = match path {
        "/messages" => Some((Protocol::AnthropicMessages, Want::Answer)),
        "/messages/count_tokens" => Some((Protocol::AnthropicMessages, Want::Count)),
        "/responses" => Some((Protocol::OpenaiResponses, Want::Answer)),
        "/chat/completions" => Some((Protocol::OpenaiChat, Want::Answer)),
        "/models" if head.headers.contains_key("anthropic-version") => {
            Some((Protocol::AnthropicMessages, Want::Models))
        }
        "/models" => Some((Protocol::OpenaiResponses, Want::Models)),
        _ => None,
    };
    let Some((protocol, want)) = known else {
        eprintln!("{} {}: unknown", head.method, head.uri);
        return Ok(plain(404, format!("nothing at {path}")));
    };
    if let Ok(request) = Request::read(protocol, want, body.clone()) {
        let track = &request.track;
        let first: String = track.prompt.chars().take(200).collect();
        eprintln!(
            "{} {}: {} turn {} stream {} system {} bytes, prompt {first:?}, tools {:?}",
            head.method,
            head.uri,
            request.model,
            track.turns,
            request.stream,
            track.system.len(),
            track.tools,
        );
    }
    let model = Request::read(protocol, want, body.clone()).map(|request| request.model).unwrap_or_default();
    let outgoing = Outgoing { protocol, want, query: String::new(), model, headers: Vec::new(), body, run: None };
    Ok(match scripted.send(outgoing).await {
        Err(error) => {
            eprintln!("  {error}");
            plain(
                400,
                format!(
                    r#"{{"type":"error","error":{{"type":"invalid_request_error","message":{:?}}}}}"#,
                    error.to_string()
                ),
            )
        }
        Ok(incoming) => {
            let mut response = http::Response::builder().status(incoming.status);
            for (name, value) in incoming.headers {
                response = response.header(name, value);
            }
            let frames = incoming.body.map(|piece| piece.map(Frame::data).map_err(std::io::Error::other));
            response.body(StreamBody::new(frames).boxed_unsync()).unwrap_or_else(|error| plain(500, error.to_string()))
        }
    })
}

fn plain(status: u16, text: String) -> http::Response<Body> {
    let body = http_body_util::Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    let mut response = http::Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
}
