//! One connection from a box: its head, the judgement, the origin, and the bytes between them until one side has enough.
//!
//! There is one request for each connection; a second one on it is never read, so that nothing reaches an origin that was
//! not judged. Whatever goes wrong before an origin has answered is told as plain text: what, why, and what would help.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orc_domain::confine::network::{Host, Refusal, Rules, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::body::{Activity, Broken, carry, pump};
use super::head::{Answered, Forward, Request, Unread, read};
use super::tally::Tally;
use super::{Limits, Resolve};

/// Bytes on their way in one direction.
const BUFFER: usize = 16 * 1024;
/// Programs that open a tunnel show of a refusal at most this line, so it says more than the number.
const REFUSED: &str = "403 Not allowed by the network of the box";
/// Addresses of one host that are tried.
const ADDRESSES: usize = 8;
/// Bytes that are read and forgotten after an answer of ours, so that closing does not cut it off.
const DRAINED: u64 = 256 * 1024;

/// What the connections of one box share.
pub(super) struct Context {
    pub(super) rules: Rules,
    pub(super) tally: Arc<Mutex<Tally>>,
    pub(super) resolve: Resolve,
    pub(super) limits: Limits,
    pub(super) lookups: Semaphore,
}

type Reader<'a> = BufReader<ReadHalf<'a>>;

/// An answer of the proxy itself.
struct Answer {
    status: &'static str,
    text: String,
    /// Whether its body is left out.
    bare: bool,
}

impl Answer {
    fn new(status: &'static str, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), bare: false }
    }

    fn bytes(&self) -> Vec<u8> {
        let (status, text) = (self.status, &self.text);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            text.len() + 1,
        );
        if self.bare { head.into_bytes() } else { format!("{head}{text}\n").into_bytes() }
    }
}

/// From the first byte to the last; never fails, because whoever would hear of it is on the other end.
pub(super) async fn run(mut client: UnixStream, context: Rc<Context>) {
    let (reader, mut writer) = client.split();
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    if let Err(answer) = exchange(&mut reader, &mut writer, &context).await {
        // Both fail only when the other side has gone.
        let drained = async {
            writer.write_all(&answer.bytes()).await?;
            writer.shutdown().await?;
            tokio::io::copy(&mut reader.take(DRAINED), &mut tokio::io::sink()).await
        };
        let _ = timeout(context.limits.head, drained).await;
    }
}

/// An error is an answer that is still to be given; when something was passed on already there is none.
async fn exchange(reader: &mut Reader<'_>, writer: &mut WriteHalf<'_>, context: &Context) -> Result<(), Answer> {
    let limits = &context.limits;
    let head = match timeout(limits.head, read(reader, limits.head_bytes)).await {
        Ok(Ok(head)) => head,
        Ok(Err(Unread::Ended)) => return Ok(()),
        Ok(Err(Unread::TooLong)) => {
            let text = format!("The head of the request is longer than {} bytes.", limits.head_bytes);
            return Err(Answer::new("431 Request Header Fields Too Large", text));
        }
        Ok(Err(Unread::BareLine)) => {
            return Err(Answer::new("400 Bad Request", "Not taken: a line does not end in CR LF."));
        }
        Err(_) => return Err(Answer::new("408 Request Timeout", "The head of the request did not come in time.")),
    };
    let request =
        Request::parse(&head).map_err(|error| Answer::new("400 Bad Request", format!("Not taken: {error}.")))?;
    drop(head);
    match request {
        Request::Connect(target) => {
            let origin = reach(&target, context).await?;
            tunnel((reader, writer), origin, context).await;
            Ok(())
        }
        Request::Forward(forward) => {
            let bare = forward.is_head;
            let exchanged = async {
                let origin = reach(&forward.target, context).await?;
                self::forward(&forward, (reader, writer), origin, context).await
            };
            exchanged.await.map_err(|answer| Answer { bare, ..answer })
        }
    }
}

/// A connection to an address of the target that was judged.
async fn reach(target: &Target, context: &Context) -> Result<TcpStream, Answer> {
    let Context { rules, limits, .. } = context;
    rules.admit(target).map_err(|refusal| refuse(target, refusal, context))?;
    let addresses = addresses(target, context).await?;
    let mut refused = None;
    let mut admitted = Vec::new();
    for address in addresses.into_iter().take(ADDRESSES) {
        match rules.admit_address(address, target.port) {
            Ok(()) => admitted.push(SocketAddr::new(address, target.port)),
            Err(refusal) => refused = Some(refused.unwrap_or(refusal)),
        }
    }
    match (&admitted[..], refused) {
        ([], Some(refusal)) => Err(refuse(target, refusal, context)),
        ([], None) => Err(Answer::new("502 Bad Gateway", format!("{} has no address.", target.host))),
        _ => connect(&admitted, limits.connect)
            .await
            .map_err(|error| Answer::new("502 Bad Gateway", format!("{target} cannot be reached: {error}."))),
    }
}

fn refuse(target: &Target, refusal: Refusal, context: &Context) -> Answer {
    context.tally.lock().unwrap_or_else(PoisonError::into_inner).count(target, &refusal);
    let text = format!("The box does not reach {target}: {}.\n{}", refusal.reason(), refusal.remedy(target));
    Answer::new(REFUSED, text)
}

async fn addresses(target: &Target, context: &Context) -> Result<Vec<IpAddr>, Answer> {
    let name = match &target.host {
        Host::Address(address) => return Ok(vec![*address]),
        Host::Name(name) => name.clone(),
    };
    let lookup = async {
        let _turn = context.lookups.acquire().await.map_err(io::Error::other)?;
        (context.resolve)(name).await
    };
    match timeout(context.limits.lookup, lookup).await {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(Answer::new("502 Bad Gateway", format!("{} cannot be looked up: {error}.", target.host))),
        Err(_) => Err(Answer::new("504 Gateway Timeout", format!("The look-up of {} took too long.", target.host))),
    }
}

/// The first address that answers, in their order. Each has the same share of the time, so that one which is silent (a
/// machine without IPv6) does not use up that of the others.
async fn connect(addresses: &[SocketAddr], time: Duration) -> io::Result<TcpStream> {
    let share = time / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(origin)) => {
                origin.set_nodelay(true)?;
                return Ok(origin);
            }
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}

/// Both directions until both have ended, one has failed, or nothing passes any more.
async fn tunnel(client: (&mut Reader<'_>, &mut WriteHalf<'_>), mut origin: TcpStream, context: &Context) {
    let (reader, writer) = client;
    let activity = Activity::new();
    let (from_origin, mut to_origin) = origin.split();
    let mut from_origin = BufReader::with_capacity(BUFFER, from_origin);
    let both = async {
        writer.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        tokio::try_join!(pump(reader, &mut to_origin, &activity), pump(&mut from_origin, writer, &activity))
    };
    tokio::select! {
        // An end by error or for lack of traffic is an end: the streams are dropped, and both sides see it.
        _ = both => {}
        () = activity.lapse(context.limits.idle) => {}
    }
}

/// One request, one answer. What the client sends after its request is not read.
async fn forward(
    request: &Forward,
    client: (&mut Reader<'_>, &mut WriteHalf<'_>),
    mut origin: TcpStream,
    context: &Context,
) -> Result<(), Answer> {
    let (reader, writer) = client;
    let activity = Activity::new();
    let (from_origin, mut to_origin) = origin.split();
    let mut from_origin = BufReader::with_capacity(BUFFER, from_origin);
    let send = async {
        to_origin.write_all(&request.head).await.map_err(|_| Broken::Sink)?;
        carry(request.framing, reader, &mut to_origin, &activity).await
    };
    let broken = async {
        // An origin that stops reading may have answered all the same.
        if !matches!(send.await, Err(Broken::Source)) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        answered = answer(&mut from_origin, writer, &activity, context) => answered,
        () = broken => Ok(()),
        () = activity.lapse(context.limits.idle) => Ok(()),
    }
}

/// Interim answers, then the answer, then its body up to where the origin closes.
async fn answer(
    origin: &mut BufReader<tokio::net::tcp::ReadHalf<'_>>,
    writer: &mut WriteHalf<'_>,
    activity: &Activity,
    context: &Context,
) -> Result<(), Answer> {
    let unclear = || Answer::new("502 Bad Gateway", "The origin did not answer in HTTP/1.1.");
    let mut passed = false;
    loop {
        let head = read(origin, context.limits.head_bytes).await;
        let answered = head.ok().and_then(|head| Answered::parse(&head)).filter(|answered| answered.status != 101);
        let Some(answered) = answered else {
            return if passed { Ok(()) } else { Err(unclear()) };
        };
        passed = true;
        if writer.write_all(&answered.head).await.is_err() {
            return Ok(());
        }
        if answered.status >= 200 {
            break;
        }
    }
    // The client has gone or the origin has failed: either way both see the end.
    let _ = pump(origin, writer, activity).await;
    Ok(())
}
