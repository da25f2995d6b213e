//! The face: sockets, tokens, paths, bodies; programs that are slow, that hang up, that send garbage.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use orc_domain::ledger::EntryKind::{Estimated, Settled};
use orc_gateway::ProviderKind;
use orc_gateway::provider::Incoming;
use orc_ports::gateway::{Door, Gateway};
use reqwest::{Client, ClientBuilder, RequestBuilder, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Notify;

use crate::fixture::{Scene, asks, fake, messages, provider, run, streams};

fn hello() -> ProviderKind {
    fake(|_| Ok(streams(vec![Ok(Bytes::from(messages("m", 10, 20)))])))
}

fn plain() -> ClientBuilder {
    // There is one already when this is not the first test of its process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy()
}

fn client(socket: &Path) -> Client {
    plain().unix_socket(socket).build().unwrap()
}

/// A request at a door, with its token.
fn post(door: &Door, path: &str) -> RequestBuilder {
    let body = asks(1, 5_000).body;
    client(&door.socket).post(format!("http://gateway{path}")).header("x-api-key", &door.token).body(body)
}

async fn told(response: Response) -> (u16, String) {
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn a_socket_is_for_its_owner_and_gone_when_its_run_is() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    let door = scene.open(1, Vec::new()).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&scene.sockets), mode(&door.socket)), (0o700, 0o600));
    assert_eq!(told(post(&door, "/v1/messages").send().await.unwrap()).await, (200, messages("m", 10, 20)));
    scene.gateway.close(run(1)).await;
    assert!(!door.socket.exists());
    assert!(post(&door, "/v1/messages").send().await.is_err());
    // One that a dead instance left is taken over.
    std::fs::write(&door.socket, "").unwrap();
    let door = scene.open(1, Vec::new()).await;
    assert_eq!(told(post(&door, "/v1/messages").send().await.unwrap()).await.0, 200);
    scene.gateway.end().await;
    assert!(!scene.sockets.exists(), "the place of sockets goes with its instance");
}

#[tokio::test]
async fn only_the_token_of_the_run_opens_its_door() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    let (door, other) = (scene.open(1, Vec::new()).await, scene.open(2, Vec::new()).await);
    assert_ne!(door.token, other.token);
    let bearer = |token: &str| ("authorization", format!("Bearer {token}"));
    for (headers, wanted) in [
        (vec![("x-api-key", door.token.clone())], 200),
        (vec![bearer(&door.token)], 200),
        (vec![("authorization", format!("bearer  {}", door.token))], 200),
        // Programs that have both send what they have.
        (vec![("x-api-key", "sk-old".to_owned()), bearer(&door.token)], 200),
        (vec![], 401),
        (vec![("x-api-key", String::new())], 401),
        (vec![("x-api-key", other.token.clone())], 401),
        (vec![bearer(&door.token[1..])], 401),
        (vec![("authorization", format!("Basic {}", door.token))], 401),
        (vec![("cookie", door.token.clone())], 401),
    ] {
        let mut request = client(&door.socket).post("http://gateway/v1/messages").body(asks(1, 5_000).body);
        for (name, value) in &headers {
            request = request.header(*name, value);
        }
        let (status, text) = told(request.send().await.unwrap()).await;
        assert_eq!(status, wanted, "{headers:?}: {text}");
        assert!(status == 200 || text.contains("authentication_error"), "{text}");
    }
    let response = client(&door.socket).post("http://gateway/v1/responses").send().await.unwrap();
    assert!(told(response).await.1.contains("invalid_api_key"));
}

#[tokio::test]
async fn paths_are_known_or_refused_in_the_form_of_their_protocol() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    let door = scene.open(1, Vec::new()).await;
    let client = client(&door.socket);
    for method in [reqwest::Method::HEAD, reqwest::Method::GET] {
        assert_eq!(client.request(method, "http://gateway/").send().await.unwrap().status(), 200);
    }
    for path in ["/v1/messages?beta=true", "/v1/messages/count_tokens", "/v1/responses", "/v1/chat/completions"] {
        assert_eq!(told(post(&door, path).send().await.unwrap()).await.0, 200, "{path}");
    }
    let models = client.get("http://gateway/v1/models").header("x-api-key", &door.token);
    assert_eq!(models.send().await.unwrap().status(), 200);
    for (path, wanted) in [
        ("/v1/messages/batches", "not_found_error"),
        ("/v1/files", "unknown_url"),
        ("/v1/responses/resp_1", "unknown_url"),
        ("/", "unknown_url"),
        ("/v1/../etc/passwd", "unknown_url"),
    ] {
        let (status, text) = told(post(&door, path).send().await.unwrap()).await;
        assert!(status == 404 && text.contains(wanted), "{path}: {status} {text}");
    }
    let named = post(&door, "/v1/files").header("anthropic-version", "2023-06-01");
    assert!(told(named.send().await.unwrap()).await.1.contains("not_found_error"));
    assert_eq!(client.get("http://gateway/v1/messages").send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn an_answer_is_passed_on_before_it_is_whole() {
    let go = Arc::new(Notify::new());
    let told = go.clone();
    let text = messages("m", 10, 20);
    let (begun, rest) = text.split_at(text.find("event: message_delta").unwrap());
    let (begun, rest) = (begun.to_owned(), rest.to_owned());
    let first = begun.clone();
    let kind = fake(move |_| {
        let (begun, rest, go) = (begun.clone(), rest.clone(), told.clone());
        let later = stream::once(async move {
            go.notified().await;
            Ok(Bytes::from(rest))
        });
        let body = stream::iter([Ok(Bytes::from(begun))]).chain(later).boxed();
        Ok(Incoming { status: 200, headers: Vec::new(), body })
    });
    let scene = Scene::new(vec![provider("p", kind)]).await;
    let door = scene.open(1, Vec::new()).await;
    let mut response = post(&door, "/v1/messages").send().await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), first);
    go.notify_one();
    let mut all = first;
    while let Some(piece) = response.chunk().await.unwrap() {
        all.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert_eq!(all, text);
}

/// Reads from a raw connection until what came ends with a text, or it ends.
async fn read_until(stream: &mut UnixStream, end: &str) -> String {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    while !all.ends_with(end.as_bytes()) || all.is_empty() {
        match stream.read(&mut piece).await {
            Ok(count) if count > 0 => all.extend_from_slice(&piece[..count]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn raw(door: &Door, body: &[u8]) -> String {
    let (token, length, body) = (&door.token, body.len(), String::from_utf8_lossy(body));
    format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn a_connection_carries_many_calls_one_after_the_other() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    let door = scene.open(1, Vec::new()).await;
    let mut stream = UnixStream::connect(&door.socket).await.unwrap();
    for _ in 0..5 {
        stream.write_all(raw(&door, &asks(1, 5_000).body).as_bytes()).await.unwrap();
        let answer = read_until(&mut stream, "0\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("message_stop"), "{answer}");
    }
    // Two at once, and garbage.
    let two = raw(&door, &asks(1, 5_000).body).repeat(2);
    stream.write_all(two.as_bytes()).await.unwrap();
    assert!(read_until(&mut stream, "0\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    let mut other = UnixStream::connect(&door.socket).await.unwrap();
    other.write_all(b"\0\x01\x02 garbage\r\n\r\n").await.unwrap();
    assert!(read_until(&mut other, "never").await.starts_with("HTTP/1.1 400"));
    scene.gateway.close(run(1)).await;
    assert!(scene.ends().await.iter().all(|end| *end == (Settled, 200, 10, 20, 330)));
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_before_it_is_read() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    let door = scene.open(1, Vec::new()).await;
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n",
        door.token,
        (64 << 20) + 1
    );
    let mut stream = UnixStream::connect(&door.socket).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = read_until(&mut stream, "}").await;
    assert!(answer.starts_with("HTTP/1.1 413") || answer.contains("413"), "{answer}");
    // One that does not say how large it is, and never ends: only as much of it is read.
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ntransfer-encoding: chunked\r\n\r\n",
        door.token
    );
    let mut stream = UnixStream::connect(&door.socket).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let mut sent = 0;
    while sent < 200 && stream.write_all(chunk.as_bytes()).await.is_ok() {
        sent += 1;
    }
    assert!((64..80).contains(&sent), "{sent}");
    assert!(scene.calls().await.is_empty());
}

#[tokio::test]
async fn a_program_that_goes_before_its_request_is_whole_makes_no_call() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    let door = scene.open(1, Vec::new()).await;
    let text = raw(&door, &asks(1, 5_000).body);
    for at in [1, 30, text.len() / 2, text.len() - 1] {
        let mut stream = UnixStream::connect(&door.socket).await.unwrap();
        stream.write_all(&text.as_bytes()[..at]).await.unwrap();
        drop(stream);
    }
    assert_eq!(told(post(&door, "/v1/messages").send().await.unwrap()).await.0, 200);
    scene.gateway.close(run(1)).await;
    assert_eq!(scene.calls().await.len(), 1);
}

/// Streams without an end, and counts what was taken of it.
#[tokio::test]
async fn a_connection_that_only_occupies_its_place_is_closed() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    let door = scene.open(1, Vec::new()).await;
    let head = format!("POST /v1/messages HTTP/1.1\r\nx-api-key: {}\r\n", door.token);
    let rows = [
        ("POST /v1/mess".to_owned(), ""),
        (format!("{head}content-length: 900\r\n\r\n{{"), "400 Bad Request"),
        (format!("{head}transfer-encoding: chunked\r\n\r\nnone\r\n"), "400 Bad Request"),
    ];
    tokio::time::pause();
    for (sent, wanted) in rows {
        let mut stream = UnixStream::connect(&door.socket).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // Time passes while everybody waits for the program, which goes on waiting itself.
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains(wanted), "{sent}: {answer}");
    }
    tokio::time::resume();
    assert_eq!(told(post(&door, "/v1/messages").send().await.unwrap()).await.0, 200);
    scene.gateway.close(run(1)).await;
    assert_eq!(scene.calls().await.len(), 1);
}

fn endless(taken: Arc<AtomicUsize>, gone: Arc<Notify>) -> ProviderKind {
    struct Gone(Arc<Notify>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    fake(move |_| {
        let taken = taken.clone();
        let gone = Gone(gone.clone());
        let piece = Bytes::from(vec![b'x'; 64 << 10]);
        let body = stream::repeat_with(move || {
            let _held = &gone;
            taken.fetch_add(1, Ordering::SeqCst);
            Ok(piece.clone())
        });
        Ok(Incoming { status: 200, headers: Vec::new(), body: body.boxed() })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_does_not_read_stops_its_own_stream_and_no_other() {
    let (taken, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let mut first = provider("one", endless(taken.clone(), gone.clone()));
    first.models = vec!["m-1".to_owned()];
    let scene = Scene::new(vec![first, provider("two", hello())]).await;
    let (slow, quick) = (scene.open(1, Vec::new()).await, scene.open(2, Vec::new()).await);
    let mut stream = UnixStream::connect(&slow.socket).await.unwrap();
    stream.write_all(raw(&slow, &asks(1, 5_000).body).as_bytes()).await.unwrap();
    // The head came: it streams into whatever buffers there are.
    assert!(stream.read(&mut [0; 16]).await.unwrap() > 0);
    let body = String::from_utf8(asks(2, 5_000).body.to_vec()).unwrap().replace("m-1", "m-2");
    for _ in 0..50 {
        assert_eq!(told(post(&quick, "/v1/messages").body(body.clone()).send().await.unwrap()).await.0, 200);
    }
    let count = taken.load(Ordering::SeqCst);
    assert!(count < 200, "{count} pieces of 64 KiB were taken for a program that reads nothing");
    // It is closed all the same, and its stream with it.
    scene.gateway.close(run(1)).await;
    drop(stream);
    gone.notified().await;
    let ends = scene.ends().await;
    assert!(matches!(ends[0], (Estimated, 200, ..)), "{ends:?}");
}

#[tokio::test]
async fn a_program_that_hangs_up_ends_its_call() {
    let (taken, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let scene = Scene::new(vec![provider("p", endless(taken, gone.clone()))]).await;
    let door = scene.open(1, Vec::new()).await;
    let mut response = post(&door, "/v1/messages").send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    gone.notified().await;
    scene.gateway.close(run(1)).await;
    assert!(matches!(scene.ends().await[..], [(Estimated, 200, ..)]));
    // The same before there is any answer.
    let asked = Arc::new(Notify::new());
    let heard = asked.clone();
    let waits = crate::fixture::Fake(move |_| {
        heard.notify_one();
        let pending = std::future::pending();
        Box::pin(pending) as futures_util::future::BoxFuture<'static, _>
    });
    let scene = Scene::new(vec![provider("p", ProviderKind::Made(Arc::new(waits)))]).await;
    let door = scene.open(1, Vec::new()).await;
    let mut stream = UnixStream::connect(&door.socket).await.unwrap();
    stream.write_all(raw(&door, &asks(1, 5_000).body).as_bytes()).await.unwrap();
    asked.notified().await;
    drop(stream);
    scene.settles(1).await;
    assert!(matches!(scene.ends().await[..], [(Estimated, 0, ..)]));
}

#[tokio::test]
async fn one_port_of_the_machine_serves_every_open_run_by_its_token() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/messages", listener.local_addr().unwrap());
    scene.gateway.listen(listener);
    let (one, two) = (scene.open(1, Vec::new()).await, scene.open(2, Vec::new()).await);
    let client = plain().build().unwrap();
    let post = |token: &str| client.post(&url).bearer_auth(token).body(asks(1, 5_000).body).send();
    for door in [&one, &two, &two] {
        assert_eq!(post(&door.token).await.unwrap().status(), 200);
    }
    assert_eq!(post("sk-orc-nobody").await.unwrap().status(), 401);
    assert_eq!(scene.gateway.close(run(1)).await.usage.calls, 1);
    assert_eq!(post(&one.token).await.unwrap().status(), 401);
    assert_eq!(scene.gateway.close(run(2)).await.usage.calls, 2);
    scene.gateway.end().await;
    assert!(post(&two.token).await.is_err());
}
