//! The ways out of a box, inside of it: programs speak TCP to a port of 127.0.0.1, somebody outside listens at a unix socket,
//! and this carries bytes between them as they come, judging nothing. The proxy of a network is one of them.
//!
//! bubblewrap brings the loopback interface of a new network namespace up by itself. The relay is one thread of
//! `box-init` with an event loop of its own; connections are futures of that loop and bounded in number, for each door by
//! itself, so it costs the box one process of its limit, whatever its programs do, and no door is shut by what happens at
//! another. It must be started before seccomp and Landlock apply to the thread that starts it, and before the program does.
//!
//! Where to go next: [`crate::egress`], the other end of a network's door.

use std::io;
use std::net::{Ipv4Addr, TcpListener as StdTcpListener};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use orc_ports::executor::Door;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Where programs in a box find the proxy.
pub const PORT: u16 = 3128;
/// Connections through one door at once, further ones wait: what the proxy takes by default.
const CONNECTIONS: usize = 256;
/// Descriptors that the process of the relay needs for other things.
const SPARED: usize = 32;
/// How long no connection is accepted after there was no descriptor for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// When a listener that has as many unaccepted connections as it can hold is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(2);
/// How long it is tried.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes on the way in each direction of a connection: with a twelfth of it a megabyte takes twice as long.
const BUFFER: usize = 32 * 1024;

/// A relay that runs; dropping it ends it with all its connections.
#[derive(Debug)]
pub struct Relay {
    ports: Vec<u16>,
    /// Dropping it is what ends the thread.
    open: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Listens on 127.0.0.1 at the port of each door (0: one that is free) and carries every connection to its socket. One for
/// which nobody answers there is closed. `descriptors` is how many this process may have (0: no bound).
///
/// # Errors
/// When a port is taken or not for everybody (the message says which), or there is no thread or event loop.
pub fn start(doors: &[Door], descriptors: usize) -> io::Result<Relay> {
    let bound = doors.iter().map(|door| Ok((listen(door.port)?, door.socket.clone())));
    let bound = bound.collect::<io::Result<Vec<_>>>()?;
    let ports = bound.iter().map(|(listener, _)| Ok(listener.local_addr()?.port())).collect::<io::Result<_>>()?;
    let most = connections(descriptors, doors.len());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listeners = {
        let _context = runtime.enter();
        let listeners = bound.into_iter().map(|(listener, socket)| Ok((TcpListener::from_std(listener)?, socket)));
        listeners.collect::<io::Result<Vec<_>>>()?
    };
    let (open, dropped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("relay".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                // An error means that the relay was dropped.
                _ = dropped => {}
                () = accept_all(listeners, most) => {}
            }
        });
    })?;
    Ok(Relay { ports, open: Some(open), thread: Some(thread) })
}

fn listen(port: u16) -> io::Result<StdTcpListener> {
    let listener = StdTcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let unblocked = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    let why = |error: io::Error| format!("cannot listen at port {port} of 127.0.0.1: {error}");
    unblocked.map_err(|error| io::Error::new(error.kind(), why(error)))
}

/// How many each of the doors has at once: two descriptors are needed for each.
fn connections(descriptors: usize, doors: usize) -> usize {
    match descriptors {
        0 => CONNECTIONS,
        some => (some.saturating_sub(SPARED) / 2 / doors.max(1)).clamp(1, CONNECTIONS),
    }
}

impl Relay {
    /// Where it listens, in the order of the doors.
    #[must_use]
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.open = None;
        // A panic has been printed, and what is left to do is to end.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn accept_all(listeners: Vec<(TcpListener, PathBuf)>, most: usize) {
    let accepting = listeners.iter().map(|(listener, socket)| accept(listener, socket, most));
    accepting.collect::<FuturesUnordered<_>>().collect::<()>().await;
}

async fn accept(listener: &TcpListener, socket: &Path, most: usize) {
    let mut connections = FuturesUnordered::new();
    let mut pause = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
    loop {
        let rests = !pause.is_elapsed();
        tokio::select! {
            accepted = listener.accept(), if !rests && connections.len() < most => match accepted {
                Ok((program, _)) => connections.push(carry(program, socket)),
                Err(_) => pause.as_mut().reset(Instant::now() + ACCEPT_PAUSE),
            },
            Some(()) = connections.next() => {}
            () = &mut pause, if rests => {}
        }
    }
}

/// Until both sides have ended, or one has failed; the program then sees its connection end.
async fn carry(mut program: TcpStream, socket: &Path) {
    if let Ok(mut outside) = connect(socket).await {
        let _ = program.set_nodelay(true);
        let _ = tokio::io::copy_bidirectional_with_sizes(&mut program, &mut outside, BUFFER, BUFFER).await;
    }
}

/// A unix socket refuses at once what it cannot queue, where one of TCP would let it wait.
async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let end = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                tokio::time::sleep(FULL_PAUSE).await;
            }
            ended => return ended,
        }
    }
}

/// The variables by which programs find a proxy at `port` of 127.0.0.1.
///
/// curl, git and cargo (libcurl), pip, npm, Go and Python read the common ones, in one case or the other. Node's own `fetch`
/// reads them only when asked to (`NODE_USE_ENV_PROXY`, since 22.21 and 24.0), and Yarn since 2 reads settings of its own (it refuses
/// variables that it does not know, so there is no `YARN_NO_PROXY`). There is no `ALL_PROXY`: what reads it alone would
/// send other protocols to a proxy of HTTP. Java reads none; it has to be told by its own options.
#[must_use]
pub fn environment(port: u16) -> Vec<(&'static str, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let direct = "localhost,127.0.0.1,::1".to_owned();
    let names =
        ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"].into_iter();
    names
        .map(|name| (name, proxy.clone()))
        .chain([("NO_PROXY", direct.clone()), ("no_proxy", direct), ("NODE_USE_ENV_PROXY", "1".to_owned())])
        .collect()
}
