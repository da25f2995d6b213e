//! No key and no token stands anywhere where it does not belong: rows, notices, errors, answers, logs, what is printed.

use std::io::Write;
use std::sync::{Arc, Mutex};

use orc_domain::time::Millis;
use orc_gateway::{Credential, HttpShape, Key, ProviderKind, Times};
use orc_ports::gateway::Gateway;

use crate::fixture::{Scene, asks, cut, provider, run};
use crate::server::{Act, Server, chunks, reply};

const KEY: &str = "sk-real-secret-0123456789abcdef";

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_value_of_a_credential_is_anywhere() {
    let log = Log::default();
    let kept = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || kept.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // A provider that shows the key wherever it can.
    let shown = format!(r#"{{"type":"error","error":{{"type":"{KEY}","message":"your key is {KEY}"}}}}"#);
    let header = format!("x-key: {KEY}\r\n");
    let server = Server::new(move |at| match at % 6 {
        0 => vec![reply(400, &header, &shown)],
        1 => vec![reply(401, &header, &shown)],
        2 => vec![chunks(&[&format!("data: {shown}\n\n"), &KEY[..5]]), Act::Close],
        3 => vec![Act::Send(format!("{KEY}\r\n\r\n")), Act::Close],
        4 => vec![reply(302, &format!("location: http://x/?{KEY}\r\n"), "")],
        _ => vec![reply(529, &header, &shown)],
    })
    .await;
    let times = Times {
        hold: Millis::from_millis(200),
        park: Millis::from_millis(1),
        park_most: Millis::from_millis(1),
        ..Times::default()
    };
    let kind = server.with_key(KEY);
    let mut said = format!("{kind:?} {:?}", Key::new(KEY));
    let scene = Scene::with(vec![provider("p", kind)], |shape| {
        shape.times = times;
        said.push_str(&format!("{shape:?}"));
    })
    .await;
    let door = scene.open(1, Vec::new()).await;
    said.push_str(&format!("{door:?}"));
    for _ in 0..12 {
        let mut request = asks(1, 5_000);
        request.headers.push(("x-api-key".to_owned(), door.token.clone()));
        let answer = scene.gateway.call(request).await;
        said.push_str(&format!("{answer:?} {:?}", answer.headers));
        said.push_str(&format!("{:?}", cut(answer).await));
    }
    said.push_str(&format!("{:?}", scene.gateway.close(run(1)).await));
    said.push_str(&format!("{:?} {:?}", scene.calls().await, scene.notices()));
    let bad =
        HttpShape { base_url: format!("http://u:{KEY}@x"), credential: Credential::Key(Key::new(format!("{KEY}\n"))) };
    for base_url in [bad.base_url.clone(), "http://x".to_owned()] {
        let kind = ProviderKind::Http(HttpShape { base_url, ..bad.clone() });
        let refused = orc_gateway::ModelGateway::new(
            orc_gateway::Shape { providers: vec![provider("p", kind)], ..scene.shape() },
            scene.ledger.clone(),
            Arc::new(crate::fixture::TestClock::new()),
        );
        said.push_str(&format!("{:?}", refused.err().unwrap()));
    }
    assert!(server.seen().len() >= 12 && said.contains("*****"), "{said}");
    // What the provider got is what nobody else gets.
    assert!(server.seen().iter().all(|seen| seen.header("x-api-key") == Some(KEY) && !seen.head.contains(&door.token)));
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("a call was not taken"), "nothing was logged: {logged}");
    for (place, text) in [("what is told", &said), ("the log", &logged)] {
        assert!(!text.contains(KEY), "the key is in {place}: {text}");
        assert!(!text.contains(&door.token), "the token is in {place}");
    }
}
