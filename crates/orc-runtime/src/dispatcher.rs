//! The loop, seen from outside: open it, submit flows, send inputs, wait, close it.

use std::sync::Arc;

use orc_domain::flow::{Flow, FlowSpec, FlowState};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{ContentHash, FlowId, InstanceId, RequestId};
use orc_domain::input::{Input, Signed};
use orc_domain::permission::Scope;
use orc_domain::principal::Principal;
use orc_domain::request::{Answer, AnswerError, RequestState};
use orc_ports::adapter::Adapter;
use orc_ports::clock::Clock;
use orc_ports::executor::{Executor, ReapError};
use orc_ports::gateway::Gateway;
use orc_ports::harness::Harness;
use orc_ports::ledger::Ledger;
use orc_ports::notifier::Notifier;
use orc_ports::reader::Reader;
use orc_ports::rulebook::Rulebook;
use orc_ports::store::{Instance, Store, StoreError};
use orc_ports::worktrees::Worktrees;
use serde::{Deserialize, Serialize};
use tokio::sync::{RwLock, watch};
use tokio_util::sync::CancellationToken;

use crate::children;
use crate::consumers::{self, CONSUMERS};
use crate::data_dir::DataDir;
use crate::flow_loop::load;
use crate::groups::Groups;
use crate::leftovers;
use crate::parked::{self, Parked};
use crate::places::Places;
use crate::recovery::{self, Recovered};
use crate::retention;
use crate::router::Router;
use crate::shell::{Known, Shape, Shell, Trouble};
use crate::slots::Slots;
use crate::tasks::Tasks;

/// What the loop is made of. The caller holds the lock of `data`.
pub struct Parts {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The same store, to read from.
    pub reader: Arc<dyn Reader>,
    /// Where runs become processes; reports into `router`.
    pub executor: Arc<dyn Executor>,
    /// Runs the built-in agent.
    pub harness: Arc<dyn Harness>,
    /// Makes private copies.
    pub worktrees: Arc<dyn Worktrees>,
    /// The way to models.
    pub gateway: Arc<dyn Gateway>,
    /// What calls of models used.
    pub ledger: Arc<dyn Ledger>,
    /// Knows agent programs.
    pub adapter: Arc<dyn Adapter>,
    /// Tells people.
    pub notifier: Arc<dyn Notifier>,
    /// Knows rules that hold beside those of pipelines and profiles.
    pub rulebook: Arc<dyn Rulebook>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Made before the executor.
    pub router: Arc<Router>,
    /// Where files lie.
    pub data: DataDir,
    /// Settings.
    pub shape: Shape,
    /// This process.
    pub instance: InstanceId,
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum DispatcherError {
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// What a dead instance left could not be ended.
    #[error("what a dead instance left running could not be ended")]
    Reap(#[from] ReapError),
    /// There is no such flow.
    #[error("there is no flow {0}")]
    Unknown(FlowId),
    /// The loop is ending.
    #[error("this orchestrator is ending")]
    Ending,
    /// The answer does not count.
    #[error(transparent)]
    Answer(AnswerError),
    /// The settings do not let them.
    #[error("{0} may not change anything: it needs the role operate or more")]
    MayNot(Principal),
    /// There is no such open request.
    #[error("there is no open request {0}: it was answered, withdrawn, or closed at its deadline")]
    NoRequest(RequestId),
}

/// A definition, under the hash that names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// Its name.
    pub hash: ContentHash,
    /// Itself.
    pub pipeline: Box<Pipeline>,
    /// Its text, for people.
    pub source: String,
}

/// What a new flow pins: its own definition, and those of its children.
#[derive(Clone, Debug, PartialEq)]
pub struct Definitions {
    /// Its own.
    pub pipeline: Arc<Pipeline>,
    /// Its text, for people.
    pub source: String,
    /// Those of its children, and of theirs.
    pub children: Vec<Definition>,
}

/// Somebody's answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The flow that asks.
    pub flow: FlowId,
    /// The request.
    pub request: RequestId,
    /// Yes or no.
    pub answer: Answer,
    /// For how long, where it is about a call.
    #[serde(default)]
    pub scope: Scope,
    /// What they saw; none: whatever it is now.
    pub subject: Option<ContentHash>,
    /// In their words; may be empty.
    pub reason: String,
}

/// What became of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// Whether it changed anything.
    pub changed: bool,
    /// Where the flow stands now.
    pub state: FlowState,
}

/// The running orchestrator of one data directory.
#[derive(Clone)]
pub struct Dispatcher {
    shell: Arc<Shell>,
}

impl Dispatcher {
    /// Opens the loop: writes down this instance, makes the store tell the truth about dead ones, starts the consumers.
    /// No flow is carried on yet.
    ///
    /// # Errors
    /// When the store fails or a left process does not go.
    pub async fn open(parts: Parts) -> Result<(Self, Recovered), DispatcherError> {
        let Parts { store, reader, executor, harness, worktrees, gateway, ledger, .. } = parts;
        let Parts { adapter, notifier, rulebook, clock, router, data, shape, instance, .. } = parts;
        let slots = Slots::new(shape.slots);
        let (commits, live, trouble) = (watch::Sender::new(0), watch::Sender::new(0), watch::Sender::new(None));
        let tasks = Tasks::default();
        let shell = Shell {
            store,
            reader,
            executor,
            harness,
            worktrees,
            gateway,
            ledger,
            places: Places::default(),
            adapter,
            notifier,
            rulebook,
            clock,
            router,
            data,
            shape,
            instance,
            slots,
            groups: Groups::default(),
            parked: Parked::default(),
            tasks,
            commits,
            live,
            trouble,
            left: RwLock::new(false),
        };
        let shell = Arc::new(shell);
        let began_at = shell.clock.now();
        let pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let command = shell.shape.command.clone();
        shell.store.instance_begin(Instance { id: instance, pid, command, began_at }).await?;
        let recovered = recovery::recover(&shell).await?;
        shell.tasks.spawn("alarms", parked::run(Arc::clone(&shell)));
        for row in CONSUMERS {
            shell.tasks.spawn("consumer", consumers::run(Arc::clone(&shell), row));
        }
        shell.tasks.spawn("leftovers", leftovers::run(Arc::clone(&shell)));
        if !shell.shape.retention.is_for_ever() {
            shell.tasks.spawn("retention", retention::run(Arc::clone(&shell)));
        }
        Ok((Self { shell }, recovered))
    }

    /// Starts a flow and carries it on. A flow that exists already is not started again.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn submit(&self, spec: FlowSpec, definitions: Definitions) -> Result<(), DispatcherError> {
        let shell = &self.shell;
        let _entry = shell.enter().await?;
        let spec = FlowSpec { requested_by: self.operator(&spec.requested_by)?, ..spec };
        let Definitions { pipeline, source, children } = definitions;
        for Definition { hash, pipeline, source } in children {
            shell.store.pipeline_insert(hash, Arc::from(pipeline), source).await?;
        }
        shell.store.pipeline_insert(spec.pipeline.clone(), Arc::clone(&pipeline), source).await?;
        let flow = spec.id;
        if children::create(shell, spec, pipeline).await? {
            return Ok(());
        }
        children::carry_on(shell, flow).await
    }

    /// Carries an unfinished flow on, effects first that were decided and not delivered.
    ///
    /// # Errors
    /// When there is no such flow or the store fails.
    pub async fn resume(&self, flow: FlowId) -> Result<(), DispatcherError> {
        let _entry = self.shell.enter().await?;
        children::carry_on(&self.shell, flow).await
    }

    /// Carries every unfinished flow on. Those that only wait are not read until something of theirs is due.
    ///
    /// # Errors
    /// When the store fails or the loop is ending.
    pub async fn resume_all(&self) -> Result<(), DispatcherError> {
        recovery::resume_all(&self.shell).await
    }

    /// Sends an input to a flow, carrying it on if it was not, and waits until it is decided and committed.
    ///
    /// # Errors
    /// When there is no such flow, the store fails or the loop is ending.
    pub async fn send(&self, flow: FlowId, signed: Signed) -> Result<Heard, DispatcherError> {
        let by = self.operator(&signed.by)?;
        children::send(&self.shell, flow, Signed { by, ..signed }).await
    }

    /// Answers a request in the name of somebody.
    ///
    /// # Errors
    /// When there is no such request, they may not answer, or as [`Dispatcher::send`].
    pub async fn answer(&self, by: Principal, reply: Reply) -> Result<Heard, DispatcherError> {
        let Reply { flow, request, answer, scope, subject, reason } = reply;
        let Known { who: by, standing, .. } = self.shell.shape.standing.of(&by);
        let resident = load(&self.shell, flow).await?.ok_or(DispatcherError::Unknown(flow))?;
        self.check_four_eyes(resident.flow(), request, &by)?;
        match resident.check_answer(request, &by, &standing, (subject.as_ref(), scope)) {
            Ok(()) => {}
            Err(Some(error)) => return Err(DispatcherError::Answer(error)),
            Err(None) => return Err(self.answered_before(request).await?),
        }
        let input = Input::Answer { request, answer, scope, subject, standing, reason };
        let heard = children::send(&self.shell, flow, Signed { by, input }).await?;
        // Somebody else may have been faster, between the look and the answer.
        if heard.changed { Ok(heard) } else { Err(self.answered_before(request).await?) }
    }

    /// Why a request is not open any more: who was first, if anybody was.
    async fn answered_before(&self, request: RequestId) -> Result<DispatcherError, StoreError> {
        let known = self.shell.reader.request(request).await?.map(|record| record.request.state);
        Ok(match known {
            Some(RequestState::Resolved { by, answer, .. }) => {
                DispatcherError::Answer(AnswerError::Resolved { by, answer })
            }
            Some(RequestState::Open { .. }) | None => DispatcherError::NoRequest(request),
        })
    }

    /// Whoever asked may have another account than the one they answer with.
    fn check_four_eyes(&self, flow: &Flow, request: RequestId, by: &Principal) -> Result<(), DispatcherError> {
        let request = flow.requests.get(&request).filter(|request| request.four_eyes);
        let own = request.is_some_and(|request| self.shell.shape.standing.of(&request.asked_by).who == *by);
        if own { Err(DispatcherError::Answer(AnswerError::OwnRequest { by: by.clone() })) } else { Ok(()) }
    }

    /// Who somebody is that wants to change something, if the settings of now let them.
    fn operator(&self, who: &Principal) -> Result<Principal, DispatcherError> {
        let known = self.shell.shape.standing.of(who);
        if known.operates { Ok(known.who) } else { Err(DispatcherError::MayNot(known.who)) }
    }

    pub(crate) fn reader(&self) -> &Arc<dyn Reader> {
        &self.shell.reader
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shell.clock
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.shell.tasks
    }

    /// Removes the private copies of flows that are over, and returns when that is done.
    pub async fn remove_leftovers(&self) {
        leftovers::remove(&self.shell, &CancellationToken::new()).await;
    }

    /// Changes after each commit.
    #[must_use]
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.shell.commits.subscribe()
    }

    /// What keeps the instance from going on, if anything does.
    #[must_use]
    pub fn trouble(&self) -> watch::Receiver<Option<Trouble>> {
        self.shell.trouble.subscribe()
    }

    /// Which flows are being carried on, in order.
    pub(crate) fn flows(&self) -> Vec<FlowId> {
        let mut flows = self.shell.router.flows();
        flows.extend(self.shell.parked.flows());
        flows.sort_unstable();
        flows
    }

    /// Runs that this instance may have at the same time.
    pub(crate) fn slots(&self) -> u32 {
        self.shell.shape.slots
    }

    /// How many flows are being carried on.
    #[must_use]
    pub fn live(&self) -> usize {
        *self.shell.live.borrow()
    }

    pub(crate) fn live_flows(&self) -> watch::Receiver<usize> {
        self.shell.live.subscribe()
    }

    /// Waits until no flow is being carried on.
    pub async fn idle(&self) {
        // The sender lives in the shell, which this handle holds.
        let _ = self.shell.live.subscribe().wait_for(|live| *live == 0).await;
    }

    /// Takes no flow any more, if none is being carried on. False when one is.
    pub async fn leave(&self) -> bool {
        let mut left = self.shell.left.write().await;
        *left = self.live() == 0;
        *left
    }

    /// Whether a part of the loop panicked: a flow may be left behind.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.shell.tasks.panicked()
    }

    /// Ends the loop: flows stop where they are, what still runs is killed without its flow hearing of it (the next holder
    /// tells it that the run was lost), everything accepted is made durable, the instance writes down its end.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn close(self) -> Result<(), DispatcherError> {
        self.shell.tasks.end().await;
        self.shell.harness.close().await;
        self.shell.executor.close().await;
        self.shell.gateway.end().await;
        self.shell.store.instance_end(self.shell.instance, self.shell.clock.now()).await?;
        self.shell.store.close().await?;
        Ok(())
    }
}
