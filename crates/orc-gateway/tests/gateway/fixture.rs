//! A gateway with a ledger in memory, providers that are functions, and somebody who hears notices.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::ledger::{Account, EntryKind};
use orc_domain::meter::{Limits, Owner};
use orc_domain::model::{Protocol, Want};
use orc_domain::money::UsdMicros;
use orc_domain::price::{Price, PriceTable, Priced, Rates};
use orc_domain::time::{Millis, Timestamp};
use orc_gateway::provider::{Incoming, Outgoing, Provider, SendError};
use orc_gateway::{ModelGateway, ProviderKind, ProviderShape, RateLimits, Shape, Times, Unpriced};
use orc_ports::clock::Clock;
use orc_ports::gateway::{Answer, Broken, Door, Gateway, Notice, Notices, OpenError, Opening, Request};
use orc_ports::ledger::{CallRecord, CostFilter, CostReader, Ledger};
use orc_ports::store::{Instance, Store};
use orc_testkit::model::ModelStore;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// A clock that a paused runtime moves on; wall time begins somewhere.
pub(crate) struct TestClock(tokio::time::Instant);

impl TestClock {
    pub(crate) fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.0.elapsed().as_millis()).unwrap();
        Timestamp::parse("2026-12-01T10:00:00Z").unwrap() + Millis::from_millis(passed)
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        tokio::time::sleep(span.as_std()).boxed()
    }
}

/// A provider that is a function.
pub(crate) struct Fake<F>(pub(crate) F);

impl<F> Provider for Fake<F>
where
    F: Fn(Outgoing) -> BoxFuture<'static, Result<Incoming, SendError>> + Send + Sync,
{
    fn send(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Incoming, SendError>> {
        (self.0)(outgoing)
    }
}

/// One that answers at once.
pub(crate) fn fake(answers: impl Fn(Outgoing) -> Result<Incoming, SendError> + Send + Sync + 'static) -> ProviderKind {
    ProviderKind::Made(Arc::new(Fake(move |outgoing| std::future::ready(answers(outgoing)).boxed())))
}

pub(crate) fn provider(name: &str, kind: ProviderKind) -> ProviderShape {
    ProviderShape {
        name: name.to_owned(),
        protocols: Protocol::ALL.to_vec(),
        models: vec!["m-*".to_owned()],
        limits: RateLimits::default(),
        kind,
        record: None,
    }
}

/// 3 and 15 dollars for a million.
pub(crate) fn price() -> Price {
    let rates = Rates {
        input: 3_000_000,
        cache_read: 300_000,
        cache_write: 3_750_000,
        cache_write_long: 6_000_000,
        output: 15_000_000,
    };
    Price { rates, ..Price::default() }
}

pub(crate) struct Scene {
    pub(crate) gateway: ModelGateway,
    pub(crate) ledger: Arc<ModelStore>,
    pub(crate) heard: watch::Sender<Vec<(RunId, Notice)>>,
    pub(crate) instance: InstanceId,
    pub(crate) sockets: PathBuf,
    shape: Shape,
    _place: TempDir,
}

pub(crate) fn run(number: u128) -> RunId {
    RunId::from_uuid(Uuid::from_u128(number))
}

pub(crate) fn flow(number: u128) -> Owner {
    Owner::Flow(FlowId::from_uuid(Uuid::from_u128(number)))
}

pub(crate) fn usd(micros: i64) -> Limits {
    Limits { usd: Some(UsdMicros::from_micros(micros)), ..Limits::default() }
}

impl Scene {
    pub(crate) async fn new(providers: Vec<ProviderShape>) -> Self {
        Self::with(providers, |_| {}).await
    }

    pub(crate) async fn with(providers: Vec<ProviderShape>, change: impl FnOnce(&mut Shape)) -> Self {
        let place = tempfile::tempdir().unwrap();
        let instance = InstanceId::from_uuid(Uuid::from_u128(77));
        let ledger = Arc::new(ModelStore::default());
        let clock = Arc::new(TestClock::new());
        let begun = Instance { id: instance, pid: 1, command: "test".to_owned(), began_at: clock.now() };
        ledger.instance_begin(begun).await.unwrap();
        let priced = Priced { pattern: "m-*".to_owned(), from: Timestamp::from_millis(0), price: price() };
        let mut shape = Shape {
            providers,
            prices: PriceTable { rows: vec![priced] },
            unpriced: Unpriced::default(),
            times: Times::default(),
            sockets: place.path().join("doors"),
            instance,
        };
        change(&mut shape);
        let (sockets, shaped) = (shape.sockets.clone(), shape.clone());
        let gateway = ModelGateway::new(shape, ledger.clone(), clock).unwrap();
        Self { gateway, ledger, heard: watch::Sender::default(), instance, sockets, shape: shaped, _place: place }
    }

    pub(crate) fn opening(&self, number: u128, walls: Vec<(Owner, Limits)>) -> Opening {
        let heard = self.heard.clone();
        let account = Account {
            run: Some(run(number)),
            flow: None,
            path: None,
            pipeline: Some("p".to_owned()),
            agent: "a".to_owned(),
            ticket: None,
        };
        let notices = Notices::new(move |run, notice| heard.send_modify(|heard| heard.push((run, notice))));
        Opening { run: run(number), account, walls, model: "m-1".to_owned(), notices }
    }

    pub(crate) async fn open(&self, number: u128, walls: Vec<(Owner, Limits)>) -> Door {
        self.gateway.open(self.opening(number, walls)).await.unwrap()
    }

    /// What it is made of.
    pub(crate) fn shape(&self) -> Shape {
        self.shape.clone()
    }

    /// Waits until so many calls were settled.
    pub(crate) async fn settles(&self, count: usize) {
        let is_used = |notice: &&(RunId, Notice)| matches!(notice.1, Notice::Used(_));
        self.heard.subscribe().wait_for(|heard| heard.iter().filter(is_used).count() >= count).await.unwrap();
    }

    pub(crate) async fn try_open(&self, model: &str) -> Result<Door, OpenError> {
        self.gateway.open(Opening { model: model.to_owned(), ..self.opening(1, Vec::new()) }).await
    }

    pub(crate) async fn calls(&self) -> Vec<CallRecord> {
        let mut calls = self.ledger.calls(CostFilter::default(), None, 100_000).await.unwrap();
        calls.reverse();
        calls
    }

    /// Kind, status, tokens of input and output, and money of each call, in their order.
    pub(crate) async fn ends(&self) -> Vec<(EntryKind, u16, u64, u64, i64)> {
        let end = |record: CallRecord| {
            let end = record.end.unwrap();
            let settlement = end.settlement.unwrap();
            let tokens = settlement.tokens;
            (end.kind, settlement.status, tokens.input, tokens.output, settlement.micros.as_micros())
        };
        self.calls().await.into_iter().map(end).collect()
    }

    pub(crate) fn notices(&self) -> Vec<Notice> {
        self.heard.borrow().iter().map(|(_, notice)| notice.clone()).collect()
    }

    /// Waits until a run was told that its provider is parked.
    pub(crate) async fn hears_of_parking(&self, number: u128) {
        let is_told = |(of, notice): &(RunId, Notice)| *of == run(number) && matches!(notice, Notice::Parked { .. });
        self.heard.subscribe().wait_for(|heard| heard.iter().any(is_told)).await.unwrap();
    }

    /// What is spent below a wall, and how many are in flight, by the ledger.
    pub(crate) async fn spent(&self, owner: Owner) -> (i64, u64) {
        let sum = self.ledger.spent(owner).await.unwrap();
        (sum.micros.as_micros(), sum.in_flight)
    }

    pub(crate) async fn lose(&self) -> u64 {
        self.ledger.lose(self.instance, Timestamp::from_millis(0)).await.unwrap()
    }
}

/// A request to a model, with an output limit.
pub(crate) fn asks(number: u128, max_tokens: u64) -> Request {
    let body = json!({
        "model": "m-1", "max_tokens": max_tokens, "stream": true, "messages": [{"role": "user", "content": "hi"}]
    });
    Request {
        run: run(number),
        protocol: Protocol::AnthropicMessages,
        want: Want::Answer,
        query: String::new(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.to_string().into(),
        agent: None,
        patient: true,
    }
}

/// The text of a stream of Anthropic.
pub(crate) fn messages(id: &str, input: u64, output: u64) -> String {
    let events = [
        json!({"type": "message_start", "message": {"id": id, "type": "message", "role": "assistant", "model": "m-1",
            "content": [], "usage": {"input_tokens": input, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": output}}),
        json!({"type": "message_stop"}),
    ];
    let event = |event: &serde_json::Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(event).collect()
}

pub(crate) fn streams(pieces: Vec<Result<Bytes, Broken>>) -> Incoming {
    Incoming {
        status: 200,
        headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
        body: stream::iter(pieces).boxed(),
    }
}

pub(crate) fn says(status: u16, headers: &[(&str, &str)], body: &str) -> Incoming {
    Incoming {
        status,
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: stream::iter([Ok(Bytes::copy_from_slice(body.as_bytes()))]).boxed(),
    }
}

pub(crate) fn overloaded() -> Incoming {
    says(529, &[], r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#)
}

/// Status and text of an answer that is whole.
pub(crate) async fn whole(answer: Answer) -> (u16, String) {
    let (status, text, broken) = cut(answer).await;
    assert_eq!(broken, None, "{text}");
    (status, text)
}

/// The same of one that may not be.
pub(crate) async fn cut(mut answer: Answer) -> (u16, String, Option<Broken>) {
    let mut all = Vec::new();
    let mut broken = None;
    while let Some(piece) = answer.body.next().await {
        match piece {
            Ok(bytes) => all.extend_from_slice(&bytes),
            Err(error) => broken = Some(error),
        }
    }
    (answer.status, String::from_utf8_lossy(&all).into_owned(), broken)
}

/// Runs beside the test.
pub(crate) fn beside<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    TaskTracker::new().spawn(future)
}
