//! The face: HTTP/1.1 as the providers speak it, at one unix socket for each run, and at a port for all when it runs alone.
//!
//! It finds out whose a call is and what is wanted, and carries bytes; everything else is in `call`. Requests are read whole,
//! because they are judged before they leave, within a bound for each and for each run; answers are passed on as they come,
//! as fast as the program reads. A run has so many connections and no more, so what one does is no matter to another.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use orc_domain::model::{Protocol, Want};
use orc_ports::gateway::{self, Answer, Broken};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::call::told;
use crate::gateway::Inner;
use crate::way::{BODY_UNIT, Way};
use crate::wire::{BadRequest, Trouble};

/// Bytes of a request at most. Providers take 32 MB.
pub(crate) const BODY_BYTES: usize = 64 << 20;
/// Connections at one door at once; further ones wait.
const CONNECTIONS: usize = 256;
/// How long a connection may say nothing while a request is expected of it: its head as a whole, and each piece of its body.
/// Connections are few, so one that only occupies its place would keep others out.
const SILENCE: Duration = Duration::from_secs(30);
/// How long nobody is let in after there was no descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a program has, once its run is closed, to take what it was answered.
const FAREWELL: Duration = Duration::from_secs(2);

type Reply = Response<UnsyncBoxBody<Bytes, Broken>>;

/// Whose calls come in at a door.
#[derive(Clone)]
enum Whose {
    /// Of this run.
    Run(Arc<Way>),
    /// Of every open run.
    Anybody,
}

/// Serves a run until it is closed.
pub(crate) async fn serve_run(inner: Arc<Inner>, way: Arc<Way>, listener: UnixListener) {
    let (closed, rooms) = (way.closed.clone(), Arc::new(Semaphore::new(CONNECTIONS)));
    while let Some(room) = next(&closed, rooms.clone().acquire_owned()).await.and_then(Result::ok) {
        match next(&closed, listener.accept()).await {
            None => return,
            Some(Ok((stream, _))) => {
                let served = serve(inner.clone(), Whose::Run(way.clone()), stream, (closed.clone(), room));
                inner.beside.spawn("connection of a run", served);
            }
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves all who know the token of an open run, until the end.
pub(crate) async fn serve_machine(inner: Arc<Inner>, listener: TcpListener, ending: CancellationToken) {
    let rooms = Arc::new(Semaphore::new(CONNECTIONS));
    while let Some(room) = next(&ending, rooms.clone().acquire_owned()).await.and_then(Result::ok) {
        match next(&ending, listener.accept()).await {
            None => return,
            Some(Ok((stream, _))) => {
                // It is slower without, and that is all.
                let _ = stream.set_nodelay(true);
                let served = serve(inner.clone(), Whose::Anybody, stream, (ending.clone(), room));
                inner.beside.spawn("connection of the machine", served);
            }
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// What comes first: something, or the end.
async fn next<T>(closed: &CancellationToken, something: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        () = closed.cancelled() => None,
        something = something => Some(something),
    }
}

async fn serve<S>(inner: Arc<Inner>, whose: Whose, stream: S, (closed, room): (CancellationToken, OwnedSemaphorePermit))
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        let (inner, whose) = (inner.clone(), whose.clone());
        async move { Ok::<_, Infallible>(answer(inner, &whose, request).await) }
    });
    // `half_close` stays off: a program that hangs up is seen while its answer is waited for.
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(SILENCE);
    let connection = server.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // How a connection ends is the program's business: what it cost is settled by whoever held its call.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = closed.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(FAREWELL, connection).await;
        }
    }
    drop(room);
}

/// What is at a path.
enum Place {
    /// Programs look whether somebody is there.
    Door,
    /// A call.
    Call(Protocol, Want),
    /// Nothing.
    Nothing(Protocol),
}

fn place(method: &Method, path: &str, headers: &HeaderMap) -> Place {
    let claude = headers.contains_key("anthropic-version") || path.starts_with("/v1/messages");
    let (models, nothing) = match claude {
        true => (Protocol::AnthropicMessages, Protocol::AnthropicMessages),
        false => (Protocol::OpenaiResponses, Protocol::OpenaiResponses),
    };
    match (method, path) {
        (&Method::GET | &Method::HEAD, "/") => Place::Door,
        (&Method::POST, "/v1/messages") => Place::Call(Protocol::AnthropicMessages, Want::Answer),
        (&Method::POST, "/v1/messages/count_tokens") => Place::Call(Protocol::AnthropicMessages, Want::Count),
        (&Method::POST, "/v1/responses") => Place::Call(Protocol::OpenaiResponses, Want::Answer),
        (&Method::POST, "/v1/chat/completions") => Place::Call(Protocol::OpenaiChat, Want::Answer),
        (&Method::GET, "/v1/models") => Place::Call(models, Want::Models),
        _ => Place::Nothing(nothing),
    }
}

async fn answer(inner: Arc<Inner>, whose: &Whose, request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    let (protocol, want) = match place(&head.method, head.uri.path(), &head.headers) {
        Place::Door => return Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync()),
        Place::Nothing(protocol) => {
            let path = head.uri.path().chars().take(200).collect();
            return reply(told(Trouble::Path { path }.answer(protocol)));
        }
        Place::Call(protocol, want) => (protocol, want),
    };
    let refuse = |trouble: Trouble| reply(told(trouble.answer(protocol)));
    let Some(way) = find(&inner, whose, &head.headers) else { return refuse(Trouble::Token) };
    let read = tokio::select! {
        read = gather(&way, body) => read,
        () = way.closed.cancelled() => Err(Trouble::Token),
    };
    let (body, room) = match read {
        Ok(read) => read,
        Err(trouble) => return refuse(trouble),
    };
    let headers = head
        .headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())));
    let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let request = gateway::Request {
        run: way.run,
        protocol,
        want,
        query,
        headers: headers.collect(),
        body,
        agent: None,
        patient: true,
    };
    let answer = inner.call(request).await;
    // Its request is not needed any more.
    drop(room);
    reply(answer)
}

/// Whose call it is, by the key that it shows. Both keys may be there; one that is right is enough.
fn find(inner: &Inner, whose: &Whose, headers: &HeaderMap) -> Option<Arc<Way>> {
    let bearer = headers.get("authorization").and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let key = headers.get("x-api-key").and_then(|value| value.to_str().ok());
    key.into_iter().chain(bearer).find_map(|token| match whose {
        Whose::Run(way) => way.token.is(token).then(|| way.clone()),
        Whose::Anybody => inner.way_of(token),
    })
}

/// Reads a request whole, as soon as the run has room for it.
async fn gather(way: &Way, mut body: Incoming) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Trouble> {
    let most = u64::try_from(BODY_BYTES).unwrap_or(u64::MAX);
    let too_large = || Trouble::TooLarge { most };
    let told = body.size_hint().upper().map_or(BODY_BYTES, |told| usize::try_from(told).unwrap_or(usize::MAX));
    if told > BODY_BYTES {
        return Err(too_large());
    }
    let units = u32::try_from(told.div_ceil(BODY_UNIT)).unwrap_or(u32::MAX);
    // None is never: the semaphore is not closed.
    let room = way.bodies.clone().acquire_many_owned(units).await.ok();
    let mut all = BytesMut::with_capacity(told.min(1 << 20));
    let broken = |why: &str| Trouble::Request(BadRequest::Unreadable { why: why.to_owned() });
    while let Some(frame) =
        tokio::time::timeout(SILENCE, body.frame()).await.map_err(|_| broken("nothing more of it came"))?
    {
        let Ok(frame) = frame else { return Err(broken("it broke off, or its chunks are none")) };
        if let Ok(data) = frame.into_data() {
            if all.len() + data.len() > BODY_BYTES {
                return Err(too_large());
            }
            all.extend_from_slice(&data);
        }
    }
    Ok((all.freeze(), room))
}

fn reply(answer: Answer) -> Reply {
    let Answer { status, headers, body } = answer;
    let mut reply = Response::new(BodyExt::boxed_unsync(StreamBody::new(body.map(|piece| piece.map(Frame::data)))));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            reply.headers_mut().append(name, value);
        }
    }
    reply
}
