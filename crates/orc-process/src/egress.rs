//! The one way out of a box that has a network: a forward proxy for HTTP/1.1, with one unix socket for each box.
//!
//! A box has no network at all but for this socket, so what the proxy refuses cannot be reached. It speaks `CONNECT` and
//! plain HTTP in absolute form; there is no SOCKS and no UDP. Hosts are judged by [`orc_domain::confine::network`] twice,
//! by name before they are looked up and by address afterwards, and a connection goes to an address that was judged, so a
//! second answer of a name server changes nothing.
//!
//! All proxies live on one thread of their own, started with the first of them, so that traffic never delays the thread
//! that owns the processes. On it, proxies and connections are futures of one loop: none is detached, dropping a
//! [`Proxy`] drops all that it holds. What one box can take is bounded: connections, bytes of heads, look-ups at once,
//! time for a head, a look-up, a connection, and time without traffic; bytes are not.
//!
//! What it must never do: look up a name that is not allowed (that alone carries data out), connect to an address that
//! was not judged, read what goes through a tunnel, send bytes of a box to an origin as a second request.
//!
//! Limits: what is inside a tunnel is not seen, so an allowed host that serves other hosts on the same address (a content
//! network) can be asked for them. A look-up that was given up may occupy its thread until the system gives it up too.
//!
//! Where to go next: `connection` (one connection from its first byte to its last), `head` (what is taken as a request).

mod body;
mod connection;
mod head;
mod tally;

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::{BoxFuture, LocalBoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use orc_domain::confine::Violation;
use orc_domain::confine::network::Rules;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc, oneshot};

use self::connection::Context;
use self::tally::Tally;

/// How long no connection is accepted after the machine had no descriptor for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Looks up the addresses of a name.
pub type Resolve = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Bounds of one proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; further ones wait.
    pub connections: usize,
    /// Look-ups at once; further ones wait.
    pub lookups: usize,
    /// Bytes of a request's or an answer's head.
    pub head_bytes: usize,
    /// Time for the head of a request.
    pub head: Duration,
    /// Time for a look-up, the waiting for it included.
    pub lookup: Duration,
    /// Time until one of a host's addresses answers.
    pub connect: Duration,
    /// Time without a byte in either direction.
    pub idle: Duration,
}

impl Default for Limits {
    /// 256 connections, 8 look-ups, heads of 32 KiB, 30 s for a head, 15 s for a look-up, 20 s for a connection, 10 min
    /// without traffic: a model that thinks sends nothing for minutes.
    fn default() -> Self {
        Self {
            connections: 256,
            lookups: 8,
            head_bytes: 32 * 1024,
            head: Duration::from_secs(30),
            lookup: Duration::from_secs(15),
            connect: Duration::from_secs(20),
            idle: Duration::from_secs(600),
        }
    }
}

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// No thread or event loop for it.
    #[error("cannot start the thread of the proxies")]
    Thread {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its socket cannot be made: the path exists, is too long (107 bytes), or its directory is missing.
    #[error("cannot listen at `{}`", socket.display())]
    Socket {
        /// Where.
        socket: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The thread of the proxies has ended.
    #[error("the thread of the proxies has ended")]
    Ended,
}

/// All proxies of this process, and their thread. Dropping it ends them.
pub struct Proxies {
    resolve: Resolve,
    limits: Limits,
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    /// `None` only while it is ended.
    openings: Option<mpsc::UnboundedSender<Opening>>,
    handle: Option<JoinHandle<()>>,
}

/// A proxy on its way to the thread.
struct Opening {
    listener: StdUnixListener,
    rules: Rules,
    tally: Arc<Mutex<Tally>>,
    /// Its other end is the [`Proxy`].
    dropped: oneshot::Receiver<()>,
    closed: oneshot::Sender<()>,
}

impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxies").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Default for Proxies {
    /// Asks the system's resolver, with the bounds of [`Limits::default`].
    fn default() -> Self {
        let system = |name: String| {
            let lookup = async move {
                let found = tokio::net::lookup_host((name, 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            };
            lookup.boxed()
        };
        Self::new(Arc::new(system), Limits::default())
    }
}

impl Proxies {
    /// Starts nothing yet. `resolve` is called on the thread of the proxies and must not block it.
    #[must_use]
    pub fn new(resolve: Resolve, limits: Limits) -> Self {
        Self { resolve, limits, thread: Mutex::new(None) }
    }

    /// Listens at `socket`, which must not exist, for one box. It is there when this returns, with mode 0600 and our owner:
    /// whoever else is to connect must be given it.
    ///
    /// # Errors
    /// When there is no thread or no socket.
    pub fn open(&self, socket: &Path, rules: Rules) -> Result<Proxy, EgressError> {
        let failed = |source| EgressError::Socket { socket: socket.to_owned(), source };
        let openings = self.started()?;
        let listener = StdUnixListener::bind(socket).map_err(failed)?;
        // From here on, dropping it removes the file.
        let (dropped, closed) = (oneshot::channel(), oneshot::channel());
        let tally = Arc::new(Mutex::new(Tally::default()));
        let proxy =
            Proxy { socket: socket.to_owned(), tally: Arc::clone(&tally), _open: dropped.0, closed: Some(closed.1) };
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let opening = Opening { listener, rules, tally, dropped: dropped.1, closed: closed.0 };
        openings.send(opening).map_err(|_| EgressError::Ended)?;
        Ok(proxy)
    }

    fn started(&self) -> Result<mpsc::UnboundedSender<Opening>, EgressError> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(openings) = thread.as_ref().and_then(|thread| thread.openings.as_ref()) {
            return Ok(openings.clone());
        }
        let failed = |source| EgressError::Thread { source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        // Unbounded, and bounded by the runs that are admitted.
        let (openings, inbox) = mpsc::unbounded_channel();
        let (resolve, limits) = (Arc::clone(&self.resolve), self.limits);
        let handle = std::thread::Builder::new()
            .name("egress".to_owned())
            .spawn(move || {
                runtime.block_on(run(inbox, resolve, limits));
                // Look-ups cannot be interrupted, and nobody hears their answers any more.
                runtime.shutdown_background();
            })
            .map_err(failed)?;
        *thread = Some(Thread { openings: Some(openings.clone()), handle: Some(handle) });
        Ok(openings)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.openings = None;
        if self.handle.take().is_some_and(|handle| handle.join().is_err()) {
            tracing::error!("the thread of the proxies panicked");
        }
    }
}

/// The proxy of one box. Dropping it ends every connection at once and removes the socket.
#[derive(Debug)]
pub struct Proxy {
    socket: PathBuf,
    tally: Arc<Mutex<Tally>>,
    /// Dropping it is what ends the proxy.
    _open: oneshot::Sender<()>,
    closed: Option<oneshot::Receiver<()>>,
}

impl Proxy {
    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What it has refused until now, each host once with how often, in a fixed order; bounded in number.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).violations()
    }

    /// Ends it, waits until every connection is closed, and tells what it has refused.
    pub async fn close(mut self) -> Vec<Violation> {
        let (closed, tally) = (self.closed.take(), Arc::clone(&self.tally));
        drop(self);
        if let Some(closed) = closed {
            // An error means that the thread has ended, and all connections with it.
            let _ = closed.await;
        }
        tally.lock().unwrap_or_else(PoisonError::into_inner).violations()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It lies in a directory of the run, which is removed as a whole if this fails.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// The body of the thread: until [`Proxies`] is dropped.
async fn run(mut inbox: mpsc::UnboundedReceiver<Opening>, resolve: Resolve, limits: Limits) {
    let mut proxies: FuturesUnordered<LocalBoxFuture<'static, ()>> = FuturesUnordered::new();
    loop {
        tokio::select! {
            opening = inbox.recv() => match opening {
                Some(opening) => proxies.push(serve(opening, Arc::clone(&resolve), limits).boxed_local()),
                None => break,
            },
            Some(()) = proxies.next() => {}
        }
    }
}

/// One proxy, until its [`Proxy`] is dropped.
async fn serve(opening: Opening, resolve: Resolve, limits: Limits) {
    let Opening { listener, rules, tally, dropped, closed } = opening;
    match UnixListener::from_std(listener) {
        Ok(listener) => {
            let lookups = Semaphore::new(limits.lookups);
            let context = Rc::new(Context { rules, tally, resolve, limits, lookups });
            tokio::select! {
                _ = dropped => {}
                () = accept(listener, &context) => {}
            }
        }
        Err(error) => tracing::error!(%error, "a proxy cannot listen"),
    }
    // Nobody waits when it was only dropped.
    let _ = closed.send(());
}

async fn accept(listener: UnixListener, context: &Rc<Context>) {
    let mut connections = FuturesUnordered::new();
    let mut pause = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
    loop {
        let rests = !pause.is_elapsed();
        tokio::select! {
            accepted = listener.accept(), if !rests && connections.len() < context.limits.connections => match accepted {
                Ok((client, _)) => connections.push(connection::run(client, Rc::clone(context))),
                Err(error) => {
                    tracing::warn!(%error, "a proxy cannot accept a connection");
                    pause.as_mut().reset(tokio::time::Instant::now() + ACCEPT_PAUSE);
                }
            },
            Some(()) = connections.next() => {}
            () = &mut pause, if rests => {}
        }
    }
}

#[cfg(test)]
mod tests;
