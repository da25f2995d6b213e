//! The part of a box's network that is inside: programs speak TCP to a port of 127.0.0.1, the proxy outside listens at a
//! unix socket, and this carries bytes between them, judging nothing.
//!
//! bubblewrap brings the loopback interface of a new network namespace up by itself. The relay is one thread of
//! `box-init` with an event loop of its own; connections are futures of that loop and bounded in number, so it costs the
//! box one process of its limit, whatever its programs do. It must be started before seccomp and Landlock apply to the
//! thread that starts it, and before the program does.
//!
//! Where to go next: [`crate::egress`], the other end.

use std::io;
use std::net::{Ipv4Addr, TcpListener as StdTcpListener};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::oneshot;

/// Where programs in a box find the proxy.
pub const PORT: u16 = 3128;
/// Connections at once, further ones wait: what the proxy takes by default.
const CONNECTIONS: usize = 256;
/// How long no connection is accepted after there was no descriptor for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A relay that runs; dropping it ends it with all its connections.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    /// Dropping it is what ends the thread.
    open: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Listens on 127.0.0.1 at `port` (0: one that is free) and carries every connection to the unix socket at `socket`. One
/// for which nobody answers there is closed.
///
/// # Errors
/// When the port is taken, or there is no thread or event loop.
pub fn start(port: u16, socket: &Path) -> io::Result<Relay> {
    let listener = StdTcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _context = runtime.enter();
        TcpListener::from_std(listener)?
    };
    let (open, dropped) = oneshot::channel();
    let socket = socket.to_owned();
    let thread = std::thread::Builder::new().name("relay".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                // An error means that the relay was dropped.
                _ = dropped => {}
                () = accept(listener, &socket) => {}
            }
        });
    })?;
    Ok(Relay { port, open: Some(open), thread: Some(thread) })
}

impl Relay {
    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.open = None;
        // A panic has been printed, and what is left to do is to end.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn accept(listener: TcpListener, socket: &Path) {
    let mut connections = FuturesUnordered::new();
    let mut pause = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
    loop {
        let rests = !pause.is_elapsed();
        tokio::select! {
            accepted = listener.accept(), if !rests && connections.len() < CONNECTIONS => match accepted {
                Ok((program, _)) => connections.push(carry(program, socket)),
                Err(_) => pause.as_mut().reset(tokio::time::Instant::now() + ACCEPT_PAUSE),
            },
            Some(()) = connections.next() => {}
            () = &mut pause, if rests => {}
        }
    }
}

/// Until both sides have ended, or one has failed; the program then sees its connection end.
async fn carry(mut program: TcpStream, socket: &Path) {
    if let Ok(mut proxy) = UnixStream::connect(socket).await {
        let _ = program.set_nodelay(true);
        let _ = tokio::io::copy_bidirectional(&mut program, &mut proxy).await;
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
