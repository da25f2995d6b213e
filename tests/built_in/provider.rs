//! A provider on this machine that answers over the wire as its test wants it to.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::scene::{Scene, check};

/// What it answers, given how many it answered before and the question; an answer that is not finished is what has come of
/// it when the connection ends.
type Answers = dyn Fn(usize, &Value) -> String + Send + Sync;

pub(crate) struct Provider {
    port: u16,
    asked: Arc<Mutex<Vec<Value>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    pub(crate) fn new(answers: impl Fn(usize, &Value) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, ends) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (kept, ended) = (Arc::clone(&asked), Arc::clone(&ends));
        let serve = move || {
            std::thread::scope(|scope| {
                for stream in listener.incoming().flatten().take_while(|_| !ended.load(Ordering::SeqCst)) {
                    let (kept, answers): (_, &Answers) = (&kept, &answers);
                    let thread = std::thread::Builder::new().name("a connection of a provider".to_owned());
                    thread.spawn_scoped(scope, move || answer(stream, kept, answers)).unwrap();
                }
            });
        };
        let thread = std::thread::Builder::new().name("a provider".to_owned()).spawn(serve).unwrap();
        Self { port, asked, ends, thread: Some(thread) }
    }

    /// A scene whose models are this provider's.
    pub(crate) fn scene(&self) -> Scene {
        let scene = Scene::of(&json!({ "none": { "turns": [{ "text": "Nobody asks." }] } }));
        let address = format!("http://127.0.0.1:{}", self.port);
        scene.settings(&format!(
            "providers: {{ own: {{ protocols: [anthropic-messages], models: ['claude-*'], base_url: '{address}' }} }}\n"
        ));
        scene
    }

    /// Everything that it was asked. Each is a question that a provider takes.
    pub(crate) fn asked(&self) -> Vec<Value> {
        let asked = self.asked.lock().unwrap().clone();
        for question in &asked {
            assert_eq!(check(question), Ok(()), "{:#}", question["messages"]);
        }
        asked
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// One connection, of one question.
fn answer(mut stream: TcpStream, kept: &Mutex<Vec<Value>>, answers: &Answers) -> Option<()> {
    let (mut request, mut piece) = (Vec::new(), [0; 65_536]);
    let body: Value = loop {
        let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&piece[..read]);
        let end = request.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(body) = end.and_then(|end| serde_json::from_slice(&request[end + 4..]).ok()) {
            break body;
        }
    };
    let before = {
        let mut kept = kept.lock().unwrap();
        kept.push(body.clone());
        kept.len() - 1
    };
    stream.write_all(answers(before, &body).as_bytes()).ok()
}

/// A whole answer with this status.
pub(crate) fn whole(status: &str, body: &Value) -> String {
    let body = body.to_string();
    let head = "content-type: application/json\r\nconnection: close\r\ncontent-length";
    format!("HTTP/1.1 {status}\r\n{head}: {}\r\n\r\n{body}", body.len())
}

/// A whole answer of a model, in one piece.
pub(crate) fn message(content: &Value, stop: &str) -> String {
    let usage = json!({ "input_tokens": 100, "output_tokens": 10 });
    let body = json!({ "type": "message", "id": "m", "role": "assistant", "model": "m", "content": content,
                       "stop_reason": stop, "usage": usage });
    whole("200 OK", &body)
}

/// A stream with these events that breaks off.
pub(crate) fn broken(events: &[Value]) -> String {
    let mut text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000000\r\n\r\n".to_owned();
    let start = json!({ "type": "message_start", "message": { "id": "m", "type": "message", "role": "assistant",
        "model": "m", "content": [], "usage": { "input_tokens": 100, "output_tokens": 0 } } });
    for event in std::iter::once(&start).chain(events) {
        text.push_str(&format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    }
    text
}

/// The events of a text.
pub(crate) fn text(index: u32, text: &str) -> Vec<Value> {
    vec![
        json!({ "type": "content_block_start", "index": index, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": index, "delta": { "type": "text_delta", "text": text } }),
    ]
}

/// The events of a whole call.
pub(crate) fn call(index: u32, name: &str, input: &Value) -> Vec<Value> {
    let block = json!({ "type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {} });
    let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
    vec![
        json!({ "type": "content_block_start", "index": index, "content_block": block }),
        json!({ "type": "content_block_delta", "index": index, "delta": delta }),
        json!({ "type": "content_block_stop", "index": index }),
    ]
}
