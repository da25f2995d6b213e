//! The loop, seen from outside: open it, submit flows, send inputs, wait, close it.

use std::sync::Arc;

use orc_domain::flow::{FlowSpec, FlowState};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{FlowId, InstanceId};
use orc_domain::input::Signed;
use orc_engine::{Context, start};
use orc_ports::clock::Clock;
use orc_ports::executor::{Executor, ReapError};
use orc_ports::reader::Reader;
use orc_ports::store::{Commit, Committed, Instance, Store, StoreError};
use tokio::sync::{RwLock, oneshot, watch};

use crate::consumers::{self, CONSUMERS};
use crate::data_dir::DataDir;
use crate::flow_loop::{FlowLoop, load};
use crate::recovery::{self, Recovered};
use crate::retention;
use crate::router::{Router, What};
use crate::shell::{Shape, Shell, Trouble};
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
        let Parts { store, reader, executor, clock, router, data, shape, instance } = parts;
        let slots = Slots::new(shape.slots);
        let (commits, live, trouble) = (watch::Sender::new(0), watch::Sender::new(0), watch::Sender::new(None));
        let tasks = Tasks::default();
        let shell = Shell {
            store,
            reader,
            executor,
            clock,
            router,
            data,
            shape,
            instance,
            slots,
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
        for row in CONSUMERS {
            shell.tasks.spawn("consumer", consumers::run(Arc::clone(&shell), row));
        }
        if !shell.shape.retention.is_for_ever() {
            shell.tasks.spawn("retention", retention::run(Arc::clone(&shell)));
        }
        Ok((Self { shell }, recovered))
    }

    /// Starts a flow and carries it on. A flow that exists already is not started again.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn submit(&self, spec: FlowSpec, pipeline: Arc<Pipeline>, source: String) -> Result<(), DispatcherError> {
        let shell = &self.shell;
        let _entry = shell.enter().await?;
        shell.store.pipeline_insert(spec.pipeline.clone(), Arc::clone(&pipeline), source).await?;
        let flow = spec.id;
        let mut slots = shell.slots.hint(flow, 0);
        loop {
            let context = Context { now: shell.clock.now(), slots, grace: shell.shape.grace };
            let (resident, decision) = start(spec.clone(), Arc::clone(&pipeline), &context);
            let (claimed, effects) = (decision.claims.len(), decision.effects.clone());
            let capacity = shell.slots.capacity();
            let commit = Commit { flow, create: Some(spec.clone()), expected: 0, decision, slots: capacity };
            match shell.store.commit(commit).await? {
                Committed::Done => {
                    shell.slots.settle(flow, claimed, 0);
                    shell.commits.send_modify(|count| *count += 1);
                    FlowLoop::spawn(shell, flow, Some(resident), effects, None);
                    return Ok(());
                }
                Committed::Refused(_) => slots = 0,
                Committed::Stale => return self.carry_on(flow).await,
            }
        }
    }

    /// Carries an unfinished flow on, effects first that were decided and not delivered.
    ///
    /// # Errors
    /// When there is no such flow or the store fails.
    pub async fn resume(&self, flow: FlowId) -> Result<(), DispatcherError> {
        let _entry = self.shell.enter().await?;
        self.carry_on(flow).await
    }

    async fn carry_on(&self, flow: FlowId) -> Result<(), DispatcherError> {
        let resident = load(&self.shell, flow).await?.ok_or(DispatcherError::Unknown(flow))?;
        if resident.flow().is_finished() {
            return Ok(());
        }
        let effects = self.shell.store.effects_pending(flow).await?;
        FlowLoop::spawn(&self.shell, flow, None, effects, None);
        Ok(())
    }

    /// Sends an input to a flow, carrying it on if it was not, and waits until it is decided and committed.
    ///
    /// # Errors
    /// When there is no such flow, the store fails or the loop is ending.
    pub async fn send(&self, flow: FlowId, signed: Signed) -> Result<Heard, DispatcherError> {
        let (reply, mut answer) = oneshot::channel();
        if !self.shell.router.send(flow, What::Input(signed.clone(), Some(reply))) {
            let resident = load(&self.shell, flow).await?.ok_or(DispatcherError::Unknown(flow))?;
            if resident.flow().is_finished() {
                return Ok(Heard { changed: false, state: resident.flow().head.state.clone() });
            }
            let _entry = self.shell.enter().await?;
            let effects = self.shell.store.effects_pending(flow).await?;
            let (reply, second) = oneshot::channel();
            answer = second;
            FlowLoop::spawn(&self.shell, flow, None, effects, Some(What::Input(signed, Some(reply))));
        }
        match answer.await {
            Ok(heard) => Ok(heard),
            // The flow ended before it read the message.
            Err(_) => {
                let resident = load(&self.shell, flow).await?.ok_or(DispatcherError::Unknown(flow))?;
                if resident.flow().is_finished() {
                    Ok(Heard { changed: false, state: resident.flow().head.state.clone() })
                } else {
                    Err(DispatcherError::Ending)
                }
            }
        }
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
        self.shell.router.flows()
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
        self.shell.executor.close().await;
        self.shell.store.instance_end(self.shell.instance, self.shell.clock.now()).await?;
        self.shell.store.close().await?;
        Ok(())
    }
}
