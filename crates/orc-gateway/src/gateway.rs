//! The gateway as a whole: who is open, who answers, and the way in from this process.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use orc_domain::ids::{InstanceId, RunId};
use orc_domain::meter::Owner;
use orc_domain::model::Protocol;
use orc_domain::price::PriceTable;
use orc_ports::clock::Clock;
use orc_ports::gateway::{Answer, Door, Gateway, Metered, OpenError, Opening, Request};
use orc_ports::ledger::Ledger;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::beside::Beside;
use crate::cassette::{Recorder, Tapes};
use crate::face;
use crate::http::{Upstream, UpstreamError};
use crate::lane::Lane;
use crate::provider::Provider;
use crate::shape::{Credential, ProviderKind, ProviderShape, RateLimits, Recording, Shape, Times, Unpriced};
use crate::till::Till;
use crate::token::Token;
use crate::way::Way;

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A provider cannot be reached by anybody.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The directory of sockets cannot be made, or closed to others.
    #[error("cannot make the directory of sockets `{}`", path.display())]
    Sockets {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// The gateway.
#[derive(Clone)]
pub struct ModelGateway {
    inner: Arc<Inner>,
}

/// What all calls share.
pub(crate) struct Inner {
    pub(crate) providers: Vec<Known>,
    pub(crate) prices: PriceTable,
    /// The name of these prices.
    pub(crate) prices_hash: Option<String>,
    pub(crate) unpriced: Unpriced,
    pub(crate) times: Times,
    pub(crate) instance: InstanceId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) till: Arc<Till>,
    pub(crate) beside: Beside,
    ledger: Arc<dyn Ledger>,
    sockets: PathBuf,
    ways: Mutex<BTreeMap<RunId, Arc<Way>>>,
    ending: CancellationToken,
}

/// A provider that is known.
pub(crate) struct Known {
    pub(crate) shape: ProviderShape,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) lane: Arc<Lane>,
}

impl Inner {
    fn ways(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<Way>>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An open run.
    pub(crate) fn way(&self, run: RunId) -> Option<Arc<Way>> {
        self.ways().get(&run).cloned()
    }

    /// The open run that a token is for. All of them are looked at, whichever it is.
    pub(crate) fn way_of(&self, token: &str) -> Option<Arc<Way>> {
        let mut found = None;
        for way in self.ways().values() {
            if way.token.is(token) {
                found = Some(way.clone());
            }
        }
        found
    }

    fn check_model(&self, model: &str) -> Result<(), OpenError> {
        if model.is_empty() {
            return Ok(());
        }
        let mut missing = None;
        for known in self.providers.iter().filter(|known| known.shape.has_model(model)) {
            match &known.shape.kind {
                ProviderKind::Http(http) => match &http.credential {
                    Credential::Missing { hint } => {
                        missing.get_or_insert_with(|| (known.shape.name.clone(), hint.clone()));
                    }
                    Credential::Key(_) | Credential::Needless => return Ok(()),
                },
                ProviderKind::Made(_) => return Ok(()),
            }
        }
        Err(match missing {
            Some((provider, hint)) => OpenError::Credential { provider, hint },
            None => OpenError::Model { model: model.to_owned() },
        })
    }

    async fn open(self: Arc<Self>, opening: Opening) -> Result<Door, OpenError> {
        let (run, socket) = (opening.run, self.sockets.join(format!("{}.sock", opening.run.file_name())));
        if let Some(way) = self.way(run) {
            return Ok(Door { socket, token: way.token.expose().to_owned() });
        }
        self.check_model(&opening.model)?;
        let watched = self.till.watch(&opening.walls).await.map_err(|source| OpenError::Ledger { source })?;
        let before = self.ledger.spent(Owner::Run(run)).await.map_err(|source| OpenError::Ledger { source })?;
        let unheard = |source| OpenError::Socket { socket: socket.clone(), source };
        let token = Token::draw().ok_or_else(|| unheard(std::io::Error::other("the system has no random bits")))?;
        let listener = listen(&socket).map_err(unheard)?;
        let way = Way::new(opening, token.clone(), watched, before.tokens.as_usage(before.calls, before.micros));
        self.ways().insert(run, way.clone());
        self.beside.spawn("door of a run", face::serve_run(self.clone(), way, listener));
        Ok(Door { socket, token: token.expose().to_owned() })
    }

    async fn close(&self, run: RunId) -> Metered {
        let way = self.ways().remove(&run);
        let Some(way) = way else { return Metered::default() };
        // What is not there any more is gone, whoever took it away.
        let _ = std::fs::remove_file(self.sockets.join(format!("{}.sock", run.file_name())));
        way.close().await
    }
}

/// Listens at a path, which its owner alone may connect to.
fn listen(socket: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        // One that an earlier instance left: nobody listens there.
        _ => {}
    }
    // Nobody else gets into the directory, so it does not matter that it is open for a moment.
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl ModelGateway {
    /// Prepares a gateway. Called within a runtime, on which its calls run.
    ///
    /// # Errors
    /// When a provider's address or key cannot be used, or there is no place for sockets.
    pub fn new(shape: Shape, ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Result<Self, BuildError> {
        let Shape { providers, prices, unpriced, times, sockets, instance } = shape;
        let place = |source| BuildError::Sockets { path: sockets.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&sockets).map_err(place)?;
        std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o700)).map_err(place)?;
        let beside = Beside::new(Handle::current());
        let till = Till::new(ledger.clone(), clock.clone(), beside.clone());
        let providers = know(providers, times, &clock)?;
        let prices_hash = prices.content_hash().ok().map(|hash| hash.to_string());
        let (ways, ending) = (Mutex::default(), CancellationToken::new());
        let inner = Inner {
            providers,
            prices,
            prices_hash,
            unpriced,
            times,
            instance,
            clock,
            till,
            beside,
            ledger,
            sockets,
            ways,
            ending,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Takes calls of every open run at a port of this machine, until the end of the gateway.
    pub fn listen(&self, listener: TcpListener) {
        let serving = face::serve_machine(self.inner.clone(), listener, self.inner.ending.clone());
        self.inner.beside.spawn("door of the machine", serving);
    }
}

/// Makes providers; those with one key share a lane, and the lowest of their limits.
fn know(shapes: Vec<ProviderShape>, times: Times, clock: &Arc<dyn Clock>) -> Result<Vec<Known>, UpstreamError> {
    let key = |shape: &ProviderShape| match &shape.kind {
        ProviderKind::Http(http) => match &http.credential {
            Credential::Key(key) => Some(key.clone()),
            Credential::Needless | Credential::Missing { .. } => None,
        },
        ProviderKind::Made(_) => None,
    };
    let (mut all, tapes): (Vec<Known>, Tapes) = Default::default();
    for shape in &shapes {
        let own = key(shape);
        let shares = |other: &&ProviderShape| own.is_some() && key(other) == own;
        let before = all.iter().find(|known| shares(&&known.shape)).map(|known| known.lane.clone());
        let lane = before.unwrap_or_else(|| {
            let limits = shapes.iter().filter(shares).fold(shape.limits, |limits, other| lowest(limits, other.limits));
            Lane::new(limits, times, clock.clone())
        });
        let provider: Arc<dyn Provider> = match &shape.kind {
            ProviderKind::Http(http) => Arc::new(Upstream::new(&shape.name, http, times, clock.clone())?),
            ProviderKind::Made(provider) => provider.clone(),
        };
        let provider: Arc<dyn Provider> = match &shape.record {
            Some(Recording { place, secrets }) => {
                Arc::new(Recorder::new(provider, place.clone(), secrets.clone(), tapes.clone()))
            }
            None => provider,
        };
        all.push(Known { shape: shape.clone(), provider, lane });
    }
    Ok(all)
}

fn lowest(one: RateLimits, other: RateLimits) -> RateLimits {
    fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
        one.into_iter().chain(other).min()
    }
    RateLimits {
        concurrency: least(one.concurrency, other.concurrency),
        requests: least(one.requests, other.requests),
        tokens: least(one.tokens, other.tokens),
    }
}

impl Gateway for ModelGateway {
    fn open(&self, opening: Opening) -> BoxFuture<'_, Result<Door, OpenError>> {
        self.inner.clone().open(opening).boxed()
    }

    fn speaks(&self, model: &str) -> Option<Protocol> {
        let known = self.inner.providers.iter().find(|known| known.shape.has_model(model))?;
        // In this order the whole of a thought comes back, its encrypted form, or nothing.
        Protocol::ALL.into_iter().find(|protocol| known.shape.protocols.contains(protocol))
    }

    fn call(&self, request: Request) -> BoxFuture<'static, Answer> {
        self.inner.clone().call(request).boxed()
    }

    fn metered(&self, run: RunId) -> Metered {
        self.inner.way(run).map_or_else(Metered::default, |way| way.metered())
    }

    fn close(&self, run: RunId) -> BoxFuture<'_, Metered> {
        self.inner.close(run).boxed()
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        async {
            self.inner.ending.cancel();
            let runs: Vec<RunId> = self.inner.ways().keys().copied().collect();
            join_all(runs.into_iter().map(|run| self.inner.close(run))).await;
            self.inner.beside.end().await;
            // Each instance has one of its own: without this they would gather. One that is not empty stays.
            let _ = std::fs::remove_dir(&self.inner.sockets);
        }
        .boxed()
    }
}
