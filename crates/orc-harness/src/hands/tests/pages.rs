//! `WebFetch` through a proxy of the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use proptest::prelude::*;

use super::*;

/// A proxy that answers each tunnel and each request in it in the same way, and remembers what it was asked for.
fn proxy(answers: Vec<(&'static str, Vec<u8>)>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let named = std::thread::Builder::new().name("proxy".to_owned());
    let thread = named.spawn(move || {
        let mut asked = Vec::new();
        for (tunnel, answer) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            asked.push(head(&mut stream));
            stream.write_all(tunnel.as_bytes()).unwrap();
            if !answer.is_empty() {
                asked.push(head(&mut stream));
                // Whoever has enough of it goes.
                let _ = stream.write_all(&answer);
            }
        }
        asked
    });
    (address, thread.unwrap())
}

fn head(stream: &mut TcpStream) -> String {
    let mut lines = BufReader::new(Read::by_ref(stream).take(10_000)).lines();
    let first = lines.next().unwrap().unwrap();
    for line in lines {
        if line.unwrap().is_empty() {
            break;
        }
    }
    first
}

const OPEN: &str = "HTTP/1.1 200 OK\r\n\r\n";

fn page(head: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    [head.as_bytes(), b"\r\nConnection: close\r\n\r\n", body.as_ref()].concat()
}

fn ground(address: &str) -> Ground {
    let mut ground = Ground::new();
    ground.env.insert("HTTP_PROXY".to_owned(), address.to_owned());
    ground.env.insert("HTTPS_PROXY".to_owned(), address.to_owned());
    ground
}

fn fetch(answers: Vec<(&'static str, Vec<u8>)>) -> Used {
    let (address, thread) = proxy(answers);
    let used = ground(&address).lift("WebFetch", json!({ "url": "http://docs.test/a/b" }));
    thread.join().unwrap();
    used
}

#[test]
fn a_page_is_told_as_text() {
    let html = "<html><head><title>A &amp; B</title><style>x{}</style><script>if (1<2) {}</script></head><body>\
        <nav><a href='/home'>Home</a> <a href='#top'>up</a></nav><h1>Head\n ing</h1>\
        <p>Some <b>bold</b> text,&nbsp;a <a href=\"c?d=e\">link</a> and <code>code</code>.<p>Next<br>line\
        <pre>fn main() {\n    x &lt; 1;\n}</pre><ul><li>one<li>two<ol><li>first</li><li>second</li></ol></ul>\
        <table><tr><th>a<th>b<tr><td>1<td>2</table><img src=x alt='a picture'><svg><text>not</text></svg>";
    let used = fetch(vec![(OPEN, page("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8", html))]);
    assert!(!used.failed, "{}", used.text);
    let expected = "http://docs.test/a/b (status 200)\n\
        A & B\n\n[Home](http://docs.test/home) up\n\n# Head ing\n\nSome bold text, a [link](http://docs.test/a/c?d=e) and `code`.\n\n\
        Next\nline\n\n```\nfn main() {\n    x < 1;\n}\n```\n\n* one\n* two\n  1. first\n  2. second\n\na | b\n1 | 2\n\n[a picture]";
    assert_eq!(used.text, expected);
}

#[test]
fn other_kinds_are_told_as_they_are_or_named() {
    let rows: [(&str, &[u8], &str, bool); 9] = [
        ("Content-Type: application/json", b"{\"a\": 1}", "(status 200)\n{\"a\": 1}", false),
        ("Content-Type: text/plain; charset=iso-8859-1", b"caf\xe9", "\ncaf\u{e9}", false),
        ("Content-Type: text/html", b"<meta charset=\"windows-1252\"><p>\x80", "\n\u{20ac}", false),
        (
            "Content-Type: text/plain",
            b"caf\xe9",
            "(status 200, with characters that cannot be read)\ncaf\u{fffd}",
            false,
        ),
        ("X-None: x", b"just words", "\njust words", false),
        ("Content-Type: text/html", b"<script>only()</script>", "[there is no text in it]", false),
        ("Content-Type: image/png", b"\x89PNG\r\n\x1a\n\0", "is a PNG picture, 9 bytes: it is not shown as text", true),
        ("Content-Type: application/pdf\r\nContent-Length: 5", b"%PDF-", "is a PDF document, 5 bytes", true),
        ("Content-Type: application/wasm", b"\xff\xfe\xfd", "is application/wasm, 3 bytes", true),
    ];
    for (kind, body, told, failed) in rows {
        let used = fetch(vec![(OPEN, page(&format!("HTTP/1.1 200 OK\r\n{kind}"), body))]);
        assert!(used.text.contains(told), "{kind}: {}", used.text);
        assert_eq!(used.failed, failed, "{kind}: {}", used.text);
    }
}

#[test]
fn redirects_are_followed_within_a_host_only() {
    let to = |place: &str| page(&format!("HTTP/1.1 302 Found\r\nLocation: {place}"), "");
    let (address, thread) =
        proxy(vec![(OPEN, to("/next")), (OPEN, page("HTTP/1.1 200 OK\r\nContent-Type: text/plain", "there"))]);
    let told = ground(&address).good("WebFetch", json!({ "url": "http://docs.test/a" }));
    assert_eq!(told, "http://docs.test/next (status 200)\nthere");
    let asked = thread.join().unwrap();
    assert_eq!(asked[0], "CONNECT docs.test:80 HTTP/1.1", "names are not looked up here");
    assert_eq!((asked[1].as_str(), asked[3].as_str()), ("GET /a HTTP/1.1", "GET /next HTTP/1.1"));

    let used = fetch(vec![(OPEN, to("https://other.test/x"))]);
    assert!(
        !used.failed && used.text.contains("leads to another host (status 302): https://other.test/x"),
        "{}",
        used.text
    );
    let used = fetch(vec![(OPEN, to("file:///etc/passwd"))]);
    assert!(used.failed && used.text.contains("`file:` is not fetched"), "{}", used.text);
    let used = fetch((0..6).map(|_| (OPEN, to("/again"))).collect());
    assert!(used.failed && used.text.contains("after 5 redirects there is no page"), "{}", used.text);
}

#[test]
fn failures_say_what_is_wrong_and_what_helps() {
    let used = fetch(vec![("HTTP/1.1 403 Not allowed by the network of the box\r\n\r\n", Vec::new())]);
    assert!(used.failed && used.text.contains("has to add `docs.test` to `box.network`"), "{}", used.text);
    let used = fetch(vec![("HTTP/1.1 502 No such name\r\n\r\n", Vec::new())]);
    assert!(used.failed && used.text.contains("the proxy of the box cannot reach `docs.test`"), "{}", used.text);
    let missing = page("HTTP/1.1 404 Not Found\r\nContent-Type: text/html", "<h1>Not here</h1>");
    let used = fetch(vec![(OPEN, missing)]);
    assert!(used.failed && used.text == "http://docs.test/a/b (status 404)\n# Not here", "{}", used.text);
    let used = fetch(vec![(OPEN, b"nonsense\r\n\r\n".to_vec())]);
    assert!(used.failed && used.text.contains("was not fetched"), "{}", used.text);

    let ground = Ground::new();
    let rows = [
        (
            "https://docs.test/",
            "There is no network here: the profile of this agent grants no host. To allow it, somebody has to add `docs.test`",
        ),
        ("ftp://docs.test/", "`ftp:` is not fetched"),
        ("/etc/passwd", "is no address"),
        ("https://me:secret@docs.test/", "holds a name or a password"),
    ];
    for (url, why) in rows {
        let told = ground.bad("WebFetch", json!({ "url": url }));
        assert!(told.contains(why), "{url}: {told}");
    }
}

#[test]
fn long_pages_are_cut_and_kept_and_nothing_is_without_end() {
    let long = "a line of words\n".repeat(10_000);
    let used = fetch(vec![(OPEN, page("HTTP/1.1 200 OK\r\nContent-Type: text/plain", &long))]);
    assert!(used.text.len() <= 30_000 && used.text.contains("of 160000 bytes; all of it is in"), "{}", used.text);
    let used = fetch(vec![(OPEN, page("HTTP/1.1 200 OK\r\nContent-Type: text/plain", vec![b'x'; 6 << 20]))]);
    assert!(used.text.contains("[it broke off after 5242880 bytes; there was more]"), "{}", &used.text[..200]);
    let torn = page("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100", "only this");
    let used = fetch(vec![(OPEN, torn)]);
    assert!(
        !used.failed && used.text.contains("[it broke off after 9 bytes; there was more]\nonly this"),
        "{}",
        used.text
    );
    for tag in ["div", "ul><li", "table><tr><td", "a href=x", "b", "svg", "pre", "h1"] {
        let deep = format!("<{tag}>").repeat(100_000);
        let used = fetch(vec![(OPEN, page("HTTP/1.1 200 OK\r\nContent-Type: text/html", format!("{deep}the end")))]);
        assert!(!used.failed, "{tag}: {}", used.text);
    }
}

proptest! {
    #[test]
    fn no_page_panics(
        page in "(</?(a|pre|ul|ol|li|td|tr|h1|svg|script|title|code|img alt='x'|a href='y')[ />]{0,2}|[ a<&;\n\u{e9}\0]){0,60}",
    ) {
        let url = url::Url::parse("http://docs.test/").unwrap();
        super::super::web::to_text(&page, &url);
    }
}
