//! What every part of the running program shares.

use std::collections::BTreeMap;
use std::sync::Arc;

use orc_domain::agent::AgentStop;
use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::principal::Principal;
use orc_domain::request::Standing;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::adapter::Adapter;
use orc_ports::clock::Clock;
use orc_ports::executor::Executor;
use orc_ports::gateway::Gateway;
use orc_ports::harness::Harness;
use orc_ports::ledger::Ledger;
use orc_ports::notifier::Notifier;
use orc_ports::reader::Reader;
use orc_ports::rulebook::Rulebook;
use orc_ports::store::{Store, StoreError};
use orc_ports::worktrees::Worktrees;
use tokio::sync::{RwLock, RwLockReadGuard, watch};

use crate::data_dir::DataDir;
use crate::dispatcher::DispatcherError;
use crate::flow_loop::{FlowLoop, load};
use crate::groups::Groups;
use crate::parked::Parked;
use crate::places::{BoxShape, Means, Places};
use crate::retention::Retention;
use crate::router::{Router, What};
use crate::slots::Slots;
use crate::tasks::Tasks;

/// Settings of one running instance.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Runs at the same time.
    pub slots: u32,
    /// Time between TERM and KILL.
    pub grace: Millis,
    /// Bytes of output kept per run.
    pub log_bytes: u64,
    /// The host's variables that every step gets; already reduced to the allow-list.
    pub host_env: BTreeMap<String, String>,
    /// The subcommand, for people.
    pub command: String,
    /// How long what is over is kept.
    pub retention: Retention,
    /// What boxes are like.
    pub boxes: BoxShape,
    /// What somebody is, by the settings of now.
    pub standing: Standings,
}

/// What the settings say about somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Who they are: a person of the settings, whichever account they come with.
    pub who: Principal,
    /// What they are as far as requests ask.
    pub standing: Standing,
    /// Whether they may start, pause, cancel and retry.
    pub operates: bool,
}

/// Asks the settings about somebody.
#[derive(Clone)]
pub struct Standings(Arc<dyn Fn(&Principal) -> Known + Send + Sync>);

impl Standings {
    /// Asks `of` each time.
    pub fn new(of: impl Fn(&Principal) -> Known + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }

    /// What is known of somebody.
    #[must_use]
    pub fn of(&self, who: &Principal) -> Known {
        (self.0)(who)
    }
}

impl std::fmt::Debug for Standings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standings").finish_non_exhaustive()
    }
}

/// Something outside keeps the instance from going on; it tries again by itself where that can help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Since when.
    pub since: Timestamp,
    /// What and why, as one line.
    pub what: String,
    /// No later attempt can succeed, so there is none: whoever carries flows on ends.
    pub is_final: bool,
}

/// Shared by all loops.
pub(crate) struct Shell {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) harness: Arc<dyn Harness>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) router: Arc<Router>,
    pub(crate) data: DataDir,
    pub(crate) shape: Shape,
    pub(crate) instance: InstanceId,
    pub(crate) slots: Slots,
    pub(crate) groups: Groups,
    pub(crate) parked: Parked,
    pub(crate) worktrees: Arc<dyn Worktrees>,
    pub(crate) places: Places,
    pub(crate) gateway: Arc<dyn Gateway>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) adapter: Arc<dyn Adapter>,
    pub(crate) notifier: Arc<dyn Notifier>,
    pub(crate) rulebook: Arc<dyn Rulebook>,
    pub(crate) tasks: Tasks,
    /// Counts commits, so that readers of the event log know when to look.
    pub(crate) commits: watch::Sender<u64>,
    /// Flows that are being carried on.
    pub(crate) live: watch::Sender<usize>,
    /// What keeps us from going on.
    pub(crate) trouble: watch::Sender<Option<Trouble>>,
    /// No flow is taken any more. Read while one is taken, so that none comes in between the last look and the end.
    pub(crate) left: RwLock<bool>,
}

impl Shell {
    /// Asks a run to end, whatever carries it.
    pub(crate) fn stop(&self, run: RunId, why: AgentStop, grace: Millis) {
        if self.harness.has(run) { self.harness.stop(run, why, grace) } else { self.executor.stop(run, grace) }
    }

    /// What places of runs are laid out with.
    pub(crate) fn means(&self) -> Means<'_> {
        let (worktrees, reader) = (self.worktrees.as_ref(), self.reader.as_ref());
        Means { worktrees, reader, data: &self.data, boxes: &self.shape.boxes }
    }

    /// To be held while a flow is taken.
    pub(crate) async fn enter(&self) -> Result<RwLockReadGuard<'_, bool>, DispatcherError> {
        let left = self.left.read().await;
        if *left { Err(DispatcherError::Ending) } else { Ok(left) }
    }

    /// Wakes flows that wait for a slot, as long as slots are free.
    pub(crate) fn offer_slots(&self) {
        while let Some(flow) = self.slots.next() {
            if self.router.send(flow, What::Look) {
                return;
            }
            // It has ended; the next one may try.
            self.slots.wait(flow, None, self.clock.now());
        }
    }

    /// Says what the store refused, and waits before the next attempt. False when there is none.
    pub(crate) async fn wait_out(&self, error: &StoreError) -> bool {
        let what = chain(error);
        let is_final = matches!(error, StoreError::Damaged { .. });
        let now = self.clock.now();
        self.trouble.send_if_modified(|trouble| {
            // What does not pass by itself is not hidden by what does.
            let news = trouble.as_ref().is_none_or(|known| known.what != what && !known.is_final);
            if news {
                tracing::warn!(what, is_final, "the store cannot be written");
                *trouble = Some(Trouble { since: now, what, is_final });
            }
            news
        });
        if is_final {
            return false;
        }
        tokio::select! {
            () = self.clock.sleep(Millis::from_secs(1)) => true,
            () = self.tasks.ending().cancelled_owned() => false,
        }
    }

    /// Sends something to a flow, carrying it on if nobody does. A flow that is over, or that there is none of, needs nothing.
    pub(crate) async fn wake(self: &Arc<Self>, flow: FlowId, what: What) {
        while let Err(error) = self.try_wake(flow, &what).await {
            if !self.wait_out(&error).await {
                return;
            }
        }
    }

    async fn try_wake(self: &Arc<Self>, flow: FlowId, what: &What) -> Result<(), StoreError> {
        if self.router.send(flow, what.unanswered()) {
            return Ok(());
        }
        if self.parked.holds(flow) {
            // It is known to live and to have nothing left to deliver.
            FlowLoop::spawn(self, flow, None, Vec::new(), Some(what.unanswered()));
            return Ok(());
        }
        let Some(resident) = load(self, flow).await? else { return Ok(()) };
        if !resident.flow().is_finished() {
            let effects = self.store.effects_pending(flow).await?;
            FlowLoop::spawn(self, flow, None, effects, Some(what.unanswered()));
        }
        Ok(())
    }

    pub(crate) fn all_is_well(&self) {
        self.trouble.send_if_modified(|trouble| trouble.take_if(|known| !known.is_final).is_some());
    }
}

/// An error with its causes, as one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
