use std::collections::BTreeMap;
use std::net::SocketAddr;

use orc_ports::executor::Door;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::*;
use crate::relay;

/// A proxy whose names resolve to what a test says.
struct Outside {
    folder: TempDir,
    proxies: Proxies,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Outside {
    fn new(names: &[(&str, &[&str])], limits: Limits) -> Self {
        let names: BTreeMap<String, Vec<IpAddr>> = names
            .iter()
            .map(|(name, addresses)| {
                ((*name).to_owned(), addresses.iter().map(|address| address.parse().unwrap()).collect())
            })
            .collect();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let resolve: Resolve = Arc::new({
            let asked = Arc::clone(&asked);
            move |name| {
                asked.lock().unwrap().push(name.clone());
                let found = names.get(&name).cloned();
                async move {
                    match found {
                        // A name server that never answers.
                        Some(addresses) if addresses.is_empty() => std::future::pending().await,
                        Some(addresses) => Ok(addresses),
                        None => Err(io::Error::other("no such name")),
                    }
                }
                .boxed()
            }
        });
        Self { folder: tempfile::tempdir().unwrap(), proxies: Proxies::new(resolve, limits), asked }
    }

    fn open(&self, network: &[String], allow_private: bool) -> Proxy {
        let rules = Rules::compile(&network.iter().cloned().collect(), allow_private).unwrap();
        self.proxies.open(&self.folder.path().join("egress.sock"), rules).unwrap()
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("egress.sock")).await.unwrap()
    }

    /// Everything that comes back for what is sent.
    async fn exchange(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_ref()).await.unwrap();
        read_all(&mut stream).await
    }
}

async fn read_all(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

async fn read_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn origin() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Accepts one connection, answers the first head, ends, and returns all that was sent to it.
async fn answer_once(listener: &TcpListener, answer: &str) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let head = read_head(&mut stream).await;
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    head + &read_all(&mut stream).await
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_tunnel_carries_both_directions_and_half_an_end() {
    let (listener, port) = origin().await;
    let outside = Outside::new(&[("a.test", &["127.0.0.1"])], Limits::default());
    let proxy = outside.open(&[format!("a.test:{port}")], true);
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // Only after the client has ended its half.
        let heard = read_all(&mut stream).await;
        stream.write_all(format!("heard {heard}").as_bytes()).await.unwrap();
    };
    let ask = async {
        let mut stream = outside.connect().await;
        // The first bytes of the tunnel come with the request.
        stream.write_all(format!("CONNECT A.test:{port} HTTP/1.1\r\n\r\nfirst ").as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        stream.write_all(b"second").await.unwrap();
        stream.shutdown().await.unwrap();
        read_all(&mut stream).await
    };
    let ((), answer) = tokio::join!(serve, ask);
    assert_eq!(answer, "heard first second");
    assert_eq!(proxy.close().await, []);
}

#[tokio::test]
async fn an_origin_gets_one_request_whatever_follows_it() {
    let (listener, port) = origin().await;
    let outside = Outside::new(&[("a.test", &["127.0.0.1"])], Limits::default());
    let _proxy = outside.open(&[format!("a.test:{port}")], true);
    let head = format!("Host: a.test:{port}\r\n");
    let smuggled = "GET /admin HTTP/1.1\r\nHost: other.test\r\n\r\n";
    let cases = [
        ("Host: other.test\r\n", "", head.clone(), ""),
        ("Content-Length: 5\r\n", "hello", format!("{head}Content-Length: 5\r\n"), "hello"),
        (
            "Transfer-Encoding: chunked\r\n",
            "5;x\r\nhello\r\n0\r\nA: b\r\n\r\n",
            format!("{head}Transfer-Encoding: chunked\r\n"),
            "5\r\nhello\r\n0\r\n\r\n",
        ),
    ];
    for (headers, body, wanted, wanted_body) in cases {
        let request = format!("POST http://a.test:{port}/x HTTP/1.1\r\n{headers}\r\n{body}{smuggled}");
        let (sent, answer) = tokio::join!(answer_once(&listener, OK), outside.exchange(request));
        assert_eq!(sent, format!("POST /x HTTP/1.1\r\n{wanted}Connection: close\r\n\r\n{wanted_body}"));
        assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    }
}

#[tokio::test]
async fn a_body_that_breaks_its_framing_ends_the_exchange() {
    let (listener, port) = origin().await;
    let outside = Outside::new(&[], Limits::default());
    let _proxy = outside.open(&[format!("127.0.0.1:{port}")], false);
    let request = format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_all(&mut stream).await
    };
    let (sent, answer) = tokio::join!(serve, outside.exchange(request));
    assert!(sent.ends_with("\r\n\r\n"), "{sent}");
    assert_eq!(answer, "");
}

#[tokio::test]
async fn interim_and_early_answers_reach_the_box() {
    let (listener, port) = origin().await;
    let outside = Outside::new(&[], Limits::default());
    let _proxy = outside.open(&[format!("127.0.0.1:{port}")], false);
    let request = format!("PUT http://127.0.0.1:{port}/ HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(read_head(&mut stream).await.contains("Expect: 100-continue\r\n"));
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        let mut body = [0; 4];
        stream.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"body");
        stream.write_all(OK.as_bytes()).await.unwrap();
    };
    let ask = async {
        let mut stream = outside.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(read_head(&mut stream).await, "HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"body").await.unwrap();
        read_all(&mut stream).await
    };
    let ((), answer) = tokio::join!(serve, ask);
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");

    // The origin answers without the body, of which nothing has been sent.
    let full = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
    let request = format!("PUT http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 4\r\n\r\n");
    let (_, answer) = tokio::join!(answer_once(&listener, full), outside.exchange(request));
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn what_is_refused_says_why_and_is_counted_and_never_looked_up() {
    let outside = Outside::new(
        &[("rebound.test", &["127.0.0.1"]), ("keys.test", &["169.254.169.254", "::ffff:10.0.0.1"])],
        Limits::default(),
    );
    let proxy = outside.open(&["rebound.test".to_owned(), "keys.test".to_owned(), "a.test:8443".to_owned()], false);
    let cases = [
        ("CONNECT b.test:443 HTTP/1.1", "no entry of `network` names it.\nTo allow it, add `b.test` to `network`"),
        ("CONNECT b.test:443 HTTP/1.1", "no entry of `network` names it.\nTo allow it, add `b.test` to `network`"),
        ("GET http://c.test:81/ HTTP/1.1", "To allow it, add `c.test:81` to"),
        ("CONNECT a.test:443 HTTP/1.1", "`network` names it for other ports.\nTo allow it, add `a.test:443` to"),
        (
            "CONNECT 169.254.169.254:80 HTTP/1.1",
            "a link-local address, where machines have their metadata.\nIt cannot be",
        ),
        ("GET http://metadata.google.internal/ HTTP/1.1", "the metadata of a cloud"),
        (
            "CONNECT rebound.test:443 HTTP/1.1",
            "127.0.0.1 is an address of this machine.\nTo allow it, add `127.0.0.1` to",
        ),
        ("CONNECT keys.test:443 HTTP/1.1", "a link-local address"),
    ];
    for (line, wanted) in cases {
        let answer = outside.exchange(format!("{line}\r\n\r\n")).await;
        assert!(
            answer.starts_with("HTTP/1.1 403 Not allowed by the network of the box\r\n") && answer.contains(wanted),
            "{line}: {answer}"
        );
    }
    let head = outside.exchange("HEAD http://b.test/ HTTP/1.1\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 403 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(*outside.asked.lock().unwrap(), ["rebound.test", "keys.test"]);
    let violations = proxy.close().await;
    let told: Vec<_> = violations.iter().map(|violation| (violation.what.as_str(), violation.count)).collect();
    assert_eq!(told.len(), 8);
    assert!(told.contains(&("b.test:443 (no entry of `network` names it)", 2)), "{told:?}");
    assert!(told.contains(&("rebound.test:443 (127.0.0.1 is an address of this machine)", 1)), "{told:?}");
}

#[tokio::test]
async fn a_connection_goes_only_to_an_address_that_was_judged() {
    let (listener, port) = origin().await;
    let outside = Outside::new(&[("a.test", &["169.254.169.254", "0.0.0.0", "127.0.0.1"])], Limits::default());
    let proxy = outside.open(&[format!("a.test:{port}")], true);
    let request = format!("GET http://a.test:{port}/ HTTP/1.1\r\n\r\n");
    let (_, answer) = tokio::join!(answer_once(&listener, OK), outside.exchange(request));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(outside.asked.lock().unwrap().len(), 1);
    assert_eq!(proxy.violations(), []);
}

#[tokio::test]
async fn what_cannot_be_reached_or_read_is_told() {
    let (listener, port) = origin().await;
    let (closed, closed_port) = origin().await;
    drop(closed);
    let outside = Outside::new(&[], Limits { head_bytes: 200, ..Limits::default() });
    let proxy =
        outside.open(&[format!("127.0.0.1:{port}"), format!("127.0.0.1:{closed_port}"), "*.a.test".to_owned()], false);
    let serve = answer_once(&listener, "SSH-2.0-x\r\n\r\n");
    let (_, answer) = tokio::join!(serve, outside.exchange(format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n")));
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("did not answer in HTTP/1.1"), "{answer}");
    let cases = [
        (format!("CONNECT 127.0.0.1:{closed_port} HTTP/1.1\r\n\r\n"), "HTTP/1.1 502 ", "cannot be reached"),
        ("CONNECT b.a.test:443 HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 502 ", "no such name"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 400 ", "this is a proxy"),
        ("GET / HTTP/1.1\n\n".to_owned(), "HTTP/1.1 400 ", "CR LF"),
        ("a".repeat(201), "HTTP/1.1 431 ", "longer than 200 bytes"),
        ("a".repeat(100_000), "HTTP/1.1 431 ", "longer than 200 bytes"),
    ];
    for (request, status, wanted) in cases {
        let answer = outside.exchange(&request).await;
        assert!(answer.starts_with(status) && answer.contains(wanted), "{answer}");
    }
    // None of this is a violation.
    assert_eq!(proxy.close().await, []);
}

#[tokio::test]
async fn further_connections_wait_for_one_to_end_and_boxes_do_not_share_the_bound() {
    let (listener, port) = origin().await;
    let outside = Outside::new(&[], Limits { connections: 2, ..Limits::default() });
    let _proxy = outside.open(&[format!("127.0.0.1:{port}")], false);
    let (mut first, _second) = (outside.connect().await, outside.connect().await);
    first.write_all(b"\x16\x03\x01").await.unwrap();
    let request = format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n");
    let mut third = outside.connect().await;
    third.write_all(request.as_bytes()).await.unwrap();
    // Another box is heard while the third of this one waits.
    let other = outside.folder.path().join("other.sock");
    let _other_proxy = outside.proxies.open(&other, Rules::default()).unwrap();
    let mut theirs = UnixStream::connect(&other).await.unwrap();
    theirs.write_all(request.as_bytes()).await.unwrap();
    assert!(read_all(&mut theirs).await.starts_with("HTTP/1.1 403 "));
    drop(first);
    let (_, answer) = tokio::join!(answer_once(&listener, OK), read_all(&mut third));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn what_takes_too_long_is_given_up() {
    let soon = Duration::from_millis(20);
    let outside = Outside::new(&[("silent.test", &[])], Limits { lookup: soon, ..Limits::default() });
    let proxy = outside.open(&["silent.test".to_owned()], false);
    let answer = outside.exchange("CONNECT silent.test:443 HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("took too long"), "{answer}");
    drop(proxy);
    let outside = Outside::new(&[], Limits { head: soon, ..Limits::default() });
    let _proxy = outside.open(&[], false);
    assert!(outside.exchange("GET ").await.starts_with("HTTP/1.1 408 "));
    assert!(outside.exchange("").await.starts_with("HTTP/1.1 408 "));
}

#[tokio::test]
async fn a_tunnel_without_traffic_is_ended() {
    let (listener, port) = origin().await;
    let limits = Limits { idle: Duration::from_millis(50), ..Limits::default() };
    let outside = Outside::new(&[], limits);
    let _proxy = outside.open(&[format!("127.0.0.1:{port}")], false);
    let mut stream = outside.connect().await;
    stream.write_all(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let (mut theirs, _) = listener.accept().await.unwrap();
    read_head(&mut stream).await;
    assert_eq!(read_all(&mut stream).await, "");
    assert_eq!(read_all(&mut theirs).await, "");
}

#[tokio::test]
async fn the_end_of_a_proxy_ends_its_connections_and_no_others() {
    let (listener, port) = origin().await;
    let outside = Outside::new(&[], Limits::default());
    let proxy = outside.open(&[format!("127.0.0.1:{port}")], false);
    let other = outside.folder.path().join("other.sock");
    let rules = Rules::compile(&[format!("127.0.0.1:{port}")].into(), false).unwrap();
    let other_proxy = outside.proxies.open(&other, rules).unwrap();
    let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n");
    let mut tunnels = Vec::new();
    for mut stream in [outside.connect().await, UnixStream::connect(&other).await.unwrap()] {
        stream.write_all(connect.as_bytes()).await.unwrap();
        let (theirs, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        tunnels.push((stream, theirs));
    }
    let (mut kept, mut kept_theirs) = tunnels.pop().unwrap();
    let (mut ended, mut ended_theirs) = tunnels.pop().unwrap();
    // Something of a request that never ends, and a connection that nobody has accepted yet.
    let mut half = outside.connect().await;
    half.write_all(b"GET ").await.unwrap();
    proxy.close().await;
    assert!(!outside.folder.path().join("egress.sock").exists());
    assert_eq!(read_all(&mut ended).await, "");
    assert_eq!(read_all(&mut ended_theirs).await, "");
    // Closing with unread bytes is an error for who wrote them; either way it is the end.
    assert_eq!(half.read_to_end(&mut Vec::new()).await.unwrap_or(0), 0);
    kept.write_all(b"still").await.unwrap();
    let mut heard = [0; 5];
    kept_theirs.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"still");
    // The thread ends with its owner, and with it what is left.
    drop(outside.proxies);
    assert_eq!(read_all(&mut kept).await, "");
    assert_eq!(other_proxy.close().await, []);
}

#[tokio::test]
async fn a_socket_that_cannot_be_made_is_an_error_with_its_path() {
    let outside = Outside::new(&[], Limits::default());
    let _proxy = outside.open(&[], false);
    for socket in ["egress.sock", "missing/egress.sock", &"long".repeat(40)] {
        let error = outside.proxies.open(&outside.folder.path().join(socket), Rules::default()).unwrap_err();
        assert!(matches!(&error, EgressError::Socket { .. }), "{error}");
        assert!(error.to_string().contains(socket), "{error}");
    }
    // What another proxy listens at is still there.
    assert!(outside.exchange("GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
}

fn door(port: u16, socket: &std::path::Path) -> Door {
    Door { socket: socket.to_owned(), port }
}

/// All of them at once, from a program's side of the relay to the origin and back.
#[tokio::test]
async fn a_hundred_connections_at_once_go_through_the_relay() {
    const MANY: usize = 100;
    let (listener, port) = origin().await;
    let outside = Outside::new(&[("a.test", &["127.0.0.1"])], Limits::default());
    let _proxy = outside.open(&[format!("a.test:{port}")], true);
    let relay = relay::start(&[door(0, &outside.folder.path().join("egress.sock"))], 0).unwrap();
    let serve = async {
        let mut streams = Vec::new();
        for _ in 0..MANY {
            streams.push(listener.accept().await.unwrap().0);
        }
        // Nobody is answered before all have arrived.
        let answers = streams.into_iter().map(|mut stream| async move {
            let heard = read_all(&mut stream).await;
            stream.write_all(heard.as_bytes()).await.unwrap();
        });
        futures_util::future::join_all(answers).await;
    };
    let address = SocketAddr::from(([127, 0, 0, 1], relay.ports()[0]));
    let ask = (0..MANY).map(|number| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200 "));
        // More than all buffers on the way hold.
        let sent = format!("{number},").repeat(50_000);
        let (mut reader, mut writer) = stream.split();
        let write = async {
            writer.write_all(sent.as_bytes()).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let ((), answer) = tokio::join!(write, read_all(&mut reader));
        assert!(answer == sent, "{} bytes came back of {}", answer.len(), sent.len());
    });
    tokio::join!(serve, futures_util::future::join_all(ask));
}

#[tokio::test]
async fn a_relay_without_a_proxy_closes_and_its_end_frees_the_port() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = folder.path().join("nobody.sock");
    let relay = relay::start(&[door(0, &nobody)], 0).unwrap();
    let port = relay.ports()[0];
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    assert_eq!(read_all(&mut stream).await, "");
    let error = relay::start(&[door(0, &nobody), door(port, &nobody)], 0).unwrap_err();
    assert!(error.to_string().contains(&format!("port {port} ")), "{error}");
    drop(relay);
    drop(relay::start(&[door(port, &nobody)], 0).unwrap());
}
