//! What the gateway costs: `cargo run --release -p orc-cli --example overhead`.
//!
//! A provider, the gateway with the ledger that ships, the relay of a box and the programs are all here and speak through
//! real sockets. Each call is made twice, directly and through relay and gateway, in turn, so that a busy machine slows
//! both. Then five hundred streams run at once, each with fifty pieces a second. The machine carries programs and provider,
//! too: what is printed is more than what the gateway alone would cost.
#![expect(clippy::print_stdout, reason = "figures for people are the purpose")]

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::ledger::Account;
use orc_domain::meter::{Limits, Owner};
use orc_domain::model::Protocol;
use orc_domain::money::UsdMicros;
use orc_domain::price::{Price, PriceTable, Priced, Rates};
use orc_domain::time::Timestamp;
use orc_gateway::{
    Credential, HttpShape, Key, ModelGateway, ProviderKind, ProviderShape, RateLimits, Shape, Times, Unpriced,
};
use orc_ports::clock::Clock;
use orc_ports::executor::Door as Way;
use orc_ports::gateway::{Gateway, Notices, Opening};
use orc_ports::store::{Instance, Store};
use orc_process::relay;
use orc_runtime::clock::SystemClock;
use orc_store_sqlite::SqliteStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Calls of each kind, after some that are not counted.
const CALLS: usize = 2_000;
const WARM: usize = 200;
/// Runs of which each has so many streams at once.
const RUNS: u16 = 10;
const EACH: usize = 50;
/// Pieces of a stream, and the time between them.
const PIECES: usize = 500;
const BETWEEN: Duration = Duration::from_millis(20);

fn main() -> Fallible<()> {
    // The provider and the programs have threads of their own, as they would be processes of their own.
    let outside = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let inside = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let place = tempfile::tempdir()?;
    let provider = outside.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        TaskTracker::new().spawn(provide(listener));
        Fallible::Ok(address)
    })?;
    let gateway = inside.block_on(make(place.path(), provider))?;
    let mut doors = Vec::new();
    for number in 1..=RUNS {
        doors.push(inside.block_on(gateway.open(opening(number)))?);
    }
    let ways: Vec<Way> = doors.iter().map(|door| Way { socket: door.socket.clone(), port: 0 }).collect();
    let relay = relay::start(&ways, 0)?;
    let through = |run: usize| (SocketAddr::from(([127, 0, 0, 1], relay.ports()[run])), doors[run].token.clone());
    outside.block_on(calls(provider, through(0)))?;
    outside.block_on(streams("directly", vec![(provider, String::new()); doors.len()]))?;
    outside.block_on(streams("through relay and gateway", (0..doors.len()).map(through).collect()))?;
    inside.block_on(gateway.end());
    Ok(())
}

async fn make(place: &Path, provider: SocketAddr) -> Fallible<ModelGateway> {
    let store = Arc::new(SqliteStore::open(&place.join("orc.db")).await?);
    let instance = InstanceId::from_uuid(Uuid::now_v7());
    let clock = Arc::new(SystemClock);
    let begun = Instance { id: instance, pid: 1, command: "overhead".to_owned(), began_at: clock.now() };
    store.instance_begin(begun).await?;
    let price = Price { rates: Rates { input: 3_000_000, output: 15_000_000, ..Rates::default() }, ..Price::default() };
    let credential = Credential::Key(Key::new("sk-overhead-key"));
    let shape = Shape {
        providers: vec![ProviderShape {
            name: "p".to_owned(),
            protocols: vec![Protocol::AnthropicMessages],
            models: vec!["*".to_owned()],
            limits: RateLimits::default(),
            record: None,
            kind: ProviderKind::Http(HttpShape { base_url: format!("http://{provider}"), credential }),
        }],
        prices: PriceTable { rows: vec![Priced { pattern: "*".to_owned(), from: Timestamp::from_millis(0), price }] },
        unpriced: Unpriced::default(),
        times: Times::default(),
        sockets: place.join("doors"),
        instance,
    };
    Ok(ModelGateway::new(shape, store, clock)?)
}

fn opening(number: u16) -> Opening {
    let run = RunId::from_uuid(Uuid::from_u128(number.into()));
    let flow = FlowId::from_uuid(Uuid::from_u128(1));
    let agent = "a".to_owned();
    let account = Account { run: Some(run), flow: Some(flow), path: None, pipeline: None, agent, ticket: None };
    let usd = Some(UsdMicros::from_micros(1_000_000_000_000));
    let walls = vec![(Owner::Flow(flow), Limits { usd, ..Limits::default() })];
    Opening { run, account, walls, model: "m".to_owned(), notices: Notices::new(|_, _| {}) }
}

/// A provider that answers at once; one whose request says `slow` gets its pieces one after the other.
async fn provide(listener: TcpListener) {
    let connections = TaskTracker::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(async move {
            // A connection that breaks is the business of whoever made it.
            let _ = answer(stream).await;
        });
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn chunk(event: &str, data: &str) -> String {
    let text = format!("event: {event}\ndata: {data}\n\n");
    format!("{:x}\r\n{text}\r\n", text.len())
}

async fn answer(mut stream: TcpStream) -> Fallible<()> {
    stream.set_nodelay(true)?;
    let start = r#"{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":10,"output_tokens":1}}}"#;
    let piece = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"token "}}"#;
    let last = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":500}}"#;
    let start = format!("{HEAD}{}", chunk("message_start", start));
    let piece = chunk("content_block_delta", piece);
    let last = format!("{}0\r\n\r\n", chunk("message_delta", last));
    let mut bytes = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut bytes).await? {
        stream.write_all(start.as_bytes()).await?;
        if request.windows(6).any(|six| six == b"\"slow\"") {
            let mut next = tokio::time::interval(BETWEEN);
            for _ in 0..PIECES {
                next.tick().await;
                stream.write_all(piece.as_bytes()).await?;
            }
        }
        stream.write_all(last.as_bytes()).await?;
    }
    Ok(())
}

async fn read_request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Fallible<Option<Vec<u8>>> {
    let mut piece = [0; 65_536];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            let whole = end + 4 + length.parse::<usize>()?;
            if bytes.len() >= whole {
                return Ok(Some(bytes.drain(..whole).collect()));
            }
        }
        match stream.read(&mut piece).await? {
            0 => return Ok(None),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

fn request(token: &str, prompt: &str) -> String {
    // As large as the first request of a real program.
    let system = "x".repeat(40_000);
    let messages = format!(r#"[{{"role":"user","content":"{prompt}"}}]"#);
    let body = format!(r#"{{"model":"m","max_tokens":32000,"stream":true,"system":"{system}","messages":{messages}}}"#);
    let length = body.len();
    format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// One call on a connection: until its first byte, and until its last.
async fn call(stream: &mut TcpStream, request: &str) -> Fallible<(Duration, Duration)> {
    let began = Instant::now();
    stream.write_all(request.as_bytes()).await?;
    let (mut first, mut all) = (None, Vec::new());
    let mut piece = [0; 16_384];
    while !all.ends_with(b"0\r\n\r\n") {
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Err("a connection ended".into());
        }
        first.get_or_insert_with(|| began.elapsed());
        all.extend_from_slice(&piece[..count]);
    }
    if !all.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&all).into_owned().into());
    }
    Ok((first.unwrap_or_default(), began.elapsed()))
}

async fn calls(provider: SocketAddr, (door, token): (SocketAddr, String)) -> Fallible<()> {
    let (mut direct, mut through) = (TcpStream::connect(provider).await?, TcpStream::connect(door).await?);
    direct.set_nodelay(true)?;
    through.set_nodelay(true)?;
    let request = request(&token, "quick");
    let [mut first, mut whole, mut first_through, mut whole_through] = [const { Vec::new() }; 4];
    for number in 0..WARM + CALLS {
        let (one, other) = (call(&mut direct, &request).await?, call(&mut through, &request).await?);
        if number >= WARM {
            first.push(one.0);
            whole.push(one.1);
            first_through.push(other.0);
            whole_through.push(other.1);
        }
    }
    for (what, direct, through) in
        [("first byte", &mut first, &mut first_through), ("whole call", &mut whole, &mut whole_through)]
    {
        for part in [50, 99] {
            let (direct, through) = (percentile(direct, part), percentile(through, part));
            let added = through.saturating_sub(direct);
            println!("{what}, p{part}: directly {direct:?}, through relay and gateway {through:?}, added {added:?}");
        }
    }
    Ok(())
}

fn percentile(times: &mut [Duration], part: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * part / 100).min(times.len() - 1)]
}

/// Many streams at once: how long it takes from one piece to the next.
async fn streams(how: &str, ways: Vec<(SocketAddr, String)>) -> Fallible<()> {
    let count = ways.len() * EACH;
    let all = ways.iter().flat_map(|way| std::iter::repeat_n(way, EACH)).enumerate();
    let begun = all.map(|(number, (address, token))| {
        let (address, request) = (*address, request(token, "slow"));
        // Not all at the same moment.
        let wait = BETWEEN * u32::try_from(number % 50).unwrap_or(0);
        TaskTracker::new().spawn(async move {
            tokio::time::sleep(wait).await;
            gaps(address, &request).await
        })
    });
    let mut all = Vec::new();
    for gaps in try_join_all(begun).await? {
        all.extend(gaps?);
    }
    let (half, most, longest) = (percentile(&mut all, 50), percentile(&mut all, 99), percentile(&mut all, 100));
    println!("{count} streams, {how}: from piece to piece p50 {half:?}, p99 {most:?}, longest {longest:?}");
    Ok(())
}

async fn gaps(address: SocketAddr, request: &str) -> Fallible<Vec<Duration>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(request.as_bytes()).await?;
    let (mut gaps, mut piece, mut tail) = (Vec::with_capacity(PIECES), [0; 16_384], Vec::new());
    let (mut before, mut came) = (None, 0);
    while !tail.ends_with(b"0\r\n\r\n") {
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Err("a stream ended".into());
        }
        came += count;
        let now = Instant::now();
        gaps.extend(before.replace(now).map(|before: Instant| now - before));
        tail.extend_from_slice(&piece[..count]);
        tail.drain(..tail.len().saturating_sub(16));
    }
    // Pieces that came together were read together.
    if came < PIECES * 64 {
        return Err(format!("only {came} bytes came").into());
    }
    Ok(gaps)
}
