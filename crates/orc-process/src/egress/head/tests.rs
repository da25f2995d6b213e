use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Request, BadRequest> {
    Request::parse(text.as_bytes())
}

fn forward(text: &str) -> Forward {
    match parse(text) {
        Ok(Request::Forward(forward)) => forward,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn target(text: &str) -> Target {
    Target::parse(text, None).unwrap()
}

#[test]
fn a_request_is_written_anew_for_the_origin() {
    let cases = [
        (
            "GET http://example.com/a?b=c HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n",
            "GET /a?b=c HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        ),
        // The URI counts.
        (
            "GET HTTP://EXAMPLE.com.:8080 HTTP/1.1\r\nHost: other.example\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: example.com:8080\r\nConnection: close\r\n\r\n",
        ),
        (
            "GET http://example.com?x HTTP/1.1\r\n\r\n",
            "GET /?x HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
        ),
        (
            "OPTIONS http://example.com HTTP/1.1\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
        ),
        (
            "GET http://[2606:4700:0::1]:81/ HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: [2606:4700::1]:81\r\nConnection: close\r\n\r\n",
        ),
        // Between neighbours, named ones included; framing cannot be dropped by naming it.
        (
            "POST http://example.com/ HTTP/1.1\r\nconnection: X-Own, Content-Length, keep-alive\r\nX-Own: 1\r\n\
             Keep-Alive: 5\r\nProxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\nTE: trailers\r\nCONTENT-LENGTH: 3\r\n\
             Authorization: Bearer y\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\nAuthorization: Bearer y\r\nConnection: close\r\n\r\n",
        ),
        (
            "POST http://example.com/ HTTP/1.1\r\nTransfer-Encoding: Chunked\r\nTrailer: X\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        ),
    ];
    for (given, wanted) in cases {
        assert_eq!(String::from_utf8_lossy(&forward(given).head), wanted);
    }
    assert_eq!(parse("CONNECT example.com:443 HTTP/1.1\r\n\r\n"), Ok(Request::Connect(target("example.com:443"))));
    assert_eq!(
        parse("CONNECT [::1]:443 HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
        Ok(Request::Connect(target("[::1]:443")))
    );
}

#[test]
fn what_can_be_read_in_two_ways_is_not_taken() {
    let absolute = |headers: &str| format!("POST http://example.com/ HTTP/1.1\r\n{headers}\r\n");
    let cases = [
        (absolute("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), BadRequest::TwoLengths),
        (absolute("Transfer-Encoding: chunked\r\ncontent-length: 3\r\n"), BadRequest::TwoLengths),
        (absolute("Content-Length: 3\r\nContent-Length: 3\r\n"), BadRequest::TwoLengths),
        (absolute("Content-Length: 3\r\nContent-Length: 4\r\n"), BadRequest::TwoLengths),
        (absolute("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), BadRequest::TwoLengths),
        (absolute("Content-Length: 3, 3\r\n"), BadRequest::Length),
        (absolute("Content-Length: +3\r\n"), BadRequest::Length),
        (absolute("Content-Length: 0x3\r\n"), BadRequest::Length),
        (absolute("Content-Length: \r\n"), BadRequest::Length),
        (absolute("Content-Length: 99999999999999999999\r\n"), BadRequest::Length),
        (absolute("Transfer-Encoding: gzip, chunked\r\n"), BadRequest::Encoding),
        (absolute("Transfer-Encoding: xchunked\r\n"), BadRequest::Encoding),
        (absolute("Transfer-Encoding: \x0bchunked\r\n"), BadRequest::Header),
        (absolute("Transfer-Encoding : chunked\r\n"), BadRequest::Header),
        (absolute("Transfer-Encoding:\r\n chunked\r\n"), BadRequest::Header),
        (absolute("X: a\rContent-Length: 3\r\n"), BadRequest::Header),
        (absolute("X: a\0b\r\n"), BadRequest::Header),
        (absolute(": a\r\n"), BadRequest::Header),
        (absolute("no colon\r\n"), BadRequest::Header),
        (absolute("Host: a\r\nHost: a\r\n"), BadRequest::TwoHosts),
        (absolute(&"X: y\r\n".repeat(201)), BadRequest::HeaderCount),
        ("POST http://e.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), BadRequest::Encoding),
        ("CONNECT e.com:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\n".to_owned(), BadRequest::ConnectBody),
        ("CONNECT e.com:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), BadRequest::ConnectBody),
        ("CONNECT e.com HTTP/1.1\r\n\r\n".to_owned(), BadRequest::Host(HostError::Port)),
        ("CONNECT a@e.com:443 HTTP/1.1\r\n\r\n".to_owned(), BadRequest::Host(HostError::Name)),
        ("CONNECT e.com:443/ HTTP/1.1\r\n\r\n".to_owned(), BadRequest::Host(HostError::Port)),
        ("GET / HTTP/1.1\r\nHost: e.com\r\n\r\n".to_owned(), BadRequest::NotForProxy),
        ("GET ftp://e.com/ HTTP/1.1\r\n\r\n".to_owned(), BadRequest::NotForProxy),
        ("GET https://e.com/ HTTP/1.1\r\n\r\n".to_owned(), BadRequest::Https),
        ("GET http://a:b@e.com/ HTTP/1.1\r\n\r\n".to_owned(), BadRequest::TargetParts),
        ("GET http://e.com\\@other.com/ HTTP/1.1\r\n\r\n".to_owned(), BadRequest::TargetParts),
        ("GET http://e.com/#x HTTP/1.1\r\n\r\n".to_owned(), BadRequest::TargetParts),
        ("GET http://e.com/\u{e9} HTTP/1.1\r\n\r\n".to_owned(), BadRequest::TargetParts),
        ("GET http:///path HTTP/1.1\r\n\r\n".to_owned(), BadRequest::Host(HostError::Empty)),
        ("GET http://e%2ecom/ HTTP/1.1\r\n\r\n".to_owned(), BadRequest::Host(HostError::Name)),
        ("GET http://127.1/ HTTP/1.1\r\n\r\n".to_owned(), BadRequest::Host(HostError::Number)),
        ("GET http://e.com/ HTTP/2.0\r\n\r\n".to_owned(), BadRequest::RequestLine),
        ("GET http://e.com/\r\n\r\n".to_owned(), BadRequest::RequestLine),
        ("GET  http://e.com/ HTTP/1.1\r\n\r\n".to_owned(), BadRequest::RequestLine),
        ("GET http://e.com/a b HTTP/1.1\r\n\r\n".to_owned(), BadRequest::RequestLine),
        ("G\u{7}T http://e.com/ HTTP/1.1\r\n\r\n".to_owned(), BadRequest::RequestLine),
        ("\r\n\r\n".to_owned(), BadRequest::RequestLine),
    ];
    for (text, wanted) in cases {
        assert_eq!(parse(&text), Err(wanted), "{text:?}");
    }
}

#[test]
fn an_answer_loses_what_is_between_neighbours_and_keeps_its_framing() {
    let head =
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Own\r\nX-Own: 1\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n";
    let answered = Answered::parse(head).unwrap();
    assert_eq!(answered.status, 200);
    let wanted = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\nConnection: close\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&answered.head), wanted);
    assert_eq!(Answered::parse(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap().head, b"HTTP/1.1 100 Continue\r\n\r\n");
    for head in [
        &b"HTTP/2 200\r\n\r\n"[..],
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 20\r\n\r\n",
        b"\r\n\r\n",
    ] {
        assert_eq!(Answered::parse(head), None, "{}", String::from_utf8_lossy(head));
    }
}

#[tokio::test]
async fn a_head_is_read_up_to_its_end_and_within_its_bound() {
    let mut from: &[u8] = b"GET http://e.com/ HTTP/1.1\r\n\r\nrest";
    assert_eq!(read(&mut from, 100).await.unwrap(), b"GET http://e.com/ HTTP/1.1\r\n\r\n");
    assert_eq!(from, b"rest");
    assert!(matches!(read(&mut &[b'a'; 101][..], 100).await, Err(Unread::TooLong)));
    assert!(matches!(read(&mut &[b'a'; 100][..], 100).await, Err(Unread::Ended)));
    assert!(matches!(read(&mut &b"GET / HTTP/1.1\n\n"[..], 100).await, Err(Unread::BareLine)));
}

const GOOD: &str =
    "POST http://example.com:81/a?b HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\nX-Own: b\r\n\r\n";

/// Whatever one byte becomes, the head is refused, or the origin is sent a head that has one host, the judged one.
#[test]
fn garbage_at_every_byte_is_refused_or_harmless() {
    for at in 0..GOOD.len() {
        for byte in 0..=u8::MAX {
            let mut head = GOOD.as_bytes().to_vec();
            head[at] = byte;
            if let Ok(Request::Forward(forward)) = Request::parse(&head) {
                check(&forward);
            }
        }
    }
}

/// What must hold for every head that an origin is sent.
fn check(forward: &Forward) {
    let head = forward.head.strip_suffix(b"\r\n\r\n").unwrap();
    let lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').collect();
    let (last, others) = lines.split_last().unwrap();
    assert!(others.iter().all(|line| line.len() > 1 && line.ends_with(b"\r")), "a bare line or an empty one");
    assert_eq!(*last, b"Connection: close");
    assert_eq!(head.iter().filter(|byte| **byte == b'\r').count(), others.len());
    let named = |name: &str| {
        lines.iter().filter(|line| line.to_ascii_lowercase().starts_with(format!("{name}:").as_bytes())).count()
    };
    assert_eq!((named("host"), named("connection")), (1, 1));
    let framed = named("content-length") + named("transfer-encoding");
    assert_eq!(framed, usize::from(forward.framing != Framing::None));
    let port = if forward.target.port == 80 { String::new() } else { format!(":{}", forward.target.port) };
    assert_eq!(String::from_utf8_lossy(lines[1]), format!("Host: {}{port}\r", forward.target.host));
}

proptest! {
    #[test]
    fn no_head_makes_it_panic(head in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Request::parse(&head), Answered::parse(&head));
    }

    #[test]
    fn no_header_gets_another_line_or_host_to_the_origin(
        uri in "http://[a-c.:0-9@%\r\n /?#\\[\\]]{0,12}",
        headers in prop::collection::vec(
            ("(?i)(host|connection|content-length|transfer-encoding|x|upgrade)[ \t\r\n]{0,1}", "[ a-z0-9,:\r\n\t]{0,16}"),
            0..5,
        ),
    ) {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        if let Ok(Request::Forward(forward)) = parse(&format!("GET {uri} HTTP/1.1\r\n{headers}\r\n")) {
            check(&forward);
        }
    }
}
