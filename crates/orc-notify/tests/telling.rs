//! Real programs and a server on the loopback: what arrives, what is signed, what is said when it does not arrive.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use orc_domain::ids::FlowId;
use orc_domain::time::Timestamp;
use orc_notify::{Channel, Channels, SIGNATURE, Way, signature};
use orc_ports::notifier::{Moment, Notice, Notifier as _, NotifyError};

fn notice() -> Notice {
    let flow = FlowId::from_uuid(uuid::Uuid::nil());
    Notice {
        schema: "orc/notice/1",
        key: format!("{flow}/7"),
        moment: Moment::Request,
        at: Timestamp::from_millis(0),
        flow,
        pipeline: "ship".to_owned(),
        step: None,
        what: "May it go?".to_owned(),
        who: vec!["ann".to_owned()],
        deadline: None,
        command: "orchestrator approvals list".to_owned(),
    }
}

fn channels(way: Way, patience: Duration) -> Channels {
    let on = BTreeSet::from([Moment::Request]);
    Channels::with_patience(vec![Channel { name: "x".to_owned(), on, way }], patience)
}

fn program(directory: &std::path::Path, script: &str) -> Way {
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("ONLY".to_owned(), "this".to_owned())]);
    Way::Command { argv, directory: directory.to_owned(), env }
}

/// Much longer than anything here takes; only a failing test gets there.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_program_gets_the_notice_and_nothing_of_our_environment() {
    let dir = tempfile::tempdir().unwrap();
    let told = channels(program(dir.path(), "cat > notice.json; env > env.txt"), LONG);
    told.deliver(0, &notice()).await.unwrap();
    let text = std::fs::read_to_string(dir.path().join("notice.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&document["schema"], &document["moment"]), (&"orc/notice/1".into(), &"request".into()));
    assert_eq!(document["key"], notice().key);
    let env = std::fs::read_to_string(dir.path().join("env.txt")).unwrap();
    assert!(env.contains("ONLY=this") && !env.contains("CARGO"), "{env}");
}

#[tokio::test]
async fn a_program_that_fails_hangs_or_is_not_there_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let failed = channels(program(dir.path(), "echo first >&2; echo no mail >&2; exit 3"), LONG);
    let error = failed.deliver(0, &notice()).await.unwrap_err();
    assert_eq!(error.to_string(), "`/bin/sh` ended with exit status: 3: no mail");
    assert!(error.may_pass());
    let deaf = channels(program(dir.path(), "exec 0<&-; exit 0"), LONG);
    deaf.deliver(0, &notice()).await.unwrap();
    // It and what it started would write the file once the pipe is opened for writing.
    let hangs = channels(
        program(dir.path(), "mkfifo gate; (cat gate > late) & cat gate > late2; wait"),
        Duration::from_millis(300),
    );
    let error = hangs.deliver(0, &notice()).await.unwrap_err();
    assert!(matches!(error, NotifyError::Silent { .. }) && error.may_pass(), "{error}");
    let missing =
        Way::Command { argv: vec!["/no/such".to_owned()], directory: dir.path().to_owned(), env: BTreeMap::new() };
    let error = channels(missing, LONG).deliver(0, &notice()).await.unwrap_err();
    assert!(matches!(error, NotifyError::Start { .. }) && !error.may_pass(), "{error}");
    let unset = Way::Missing { variable: "HOOK".to_owned() };
    let error = channels(unset, LONG).deliver(0, &notice()).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.may_pass()), ("the variable `HOOK` is not set", false));
}

/// Serves one request with this status, and gives its headers and body.
fn serve(listener: TcpListener, status: &str) -> (Vec<String>, String) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => headers.push(line.to_owned()),
        }
    }
    let length = headers.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap()];
    reader.read_exact(&mut body).unwrap();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    (headers, String::from_utf8(body).unwrap())
}

async fn posted(status: &'static str, secret: Option<&str>) -> (Result<(), NotifyError>, Vec<String>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let server = tokio::task::spawn_blocking(move || serve(listener, status));
    let way = Way::Webhook { url, secret: secret.map(str::to_owned) };
    let told = channels(way, LONG).deliver(0, &notice()).await;
    let (headers, body) = server.await.unwrap();
    (told, headers, body)
}

#[tokio::test]
async fn a_webhook_is_posted_and_signed() {
    let (told, headers, body) = posted("204 No Content", Some("key")).await;
    told.unwrap();
    assert_eq!(headers[0], "POST /hook HTTP/1.1");
    let has = |wanted: &str| headers.iter().any(|line| line.eq_ignore_ascii_case(wanted));
    assert!(has("content-type: application/json"), "{headers:?}");
    assert!(has(&format!("idempotency-key: {}", notice().key)), "{headers:?}");
    assert!(has(&format!("{SIGNATURE}: {}", signature("key", &body))), "{headers:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap()["what"], "May it go?");
    let (told, headers, _) = posted("200 OK", None).await;
    told.unwrap();
    assert!(!headers.iter().any(|line| line.to_lowercase().starts_with(SIGNATURE)), "{headers:?}");
}

#[tokio::test]
async fn an_answer_that_is_no_success_is_told_and_nobody_is_followed() {
    for (status, code, may_pass) in [("500 Oops", 500, true), ("404 Not Found", 404, false), ("302 Found", 302, false)]
    {
        let (told, _, _) = posted(status, None).await;
        let error = told.unwrap_err();
        assert_eq!((error.to_string(), error.may_pass()), (format!("answered with status {code}"), may_pass));
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let way = Way::Webhook { url: format!("http://{closed}/"), secret: None };
    let error = channels(way, LONG).deliver(0, &notice()).await.unwrap_err();
    assert!(matches!(error, NotifyError::Reach { .. }) && error.may_pass(), "{error}");
}

#[tokio::test]
async fn an_address_that_is_none_is_not_repeated() {
    for url in ["nonsense secret", "http://", "ftp://example.com/secret"] {
        let way = Way::Webhook { url: url.to_owned(), secret: None };
        let error = channels(way, LONG).deliver(0, &notice()).await.unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(!format!("{error}: {source}").contains("secret"), "{error}: {source}");
    }
}

#[test]
fn the_signature_is_that_of_the_standard() {
    // RFC 4231, test case 2.
    let wanted = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(signature("Jefe", "what do ya want for nothing?"), wanted);
}
