//! The tool host of a run: our own executable in the run's box, started by the first call, ended when nothing was asked for
//! a while, and started again by the next call.
//!
//! Nothing that it says is trusted: an answer is taken for what was asked or the host is ended. A host that dies in the
//! middle loses the calls that it had, which is told to whoever made them; one that dies again and again is no place to
//! work, and that is told too.
//!
//! Where to go next: `talk` (one host from its start to its report), [`crate::place`].

mod talk;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use orc_domain::confine::{Violation, ViolationKind};
use orc_domain::time::Millis;
use orc_ports::clock::Clock;
use orc_ports::executor::{Executor, Launch, Report};
use orc_process::hands::{Use, Used};
use orc_process::protocol::{Bytes, CallLimits, Content, Ended, Failure, Outcome, Spawn, Streams, Tool};
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::talk::{Answering, Asked, Talk};
use crate::place::{Bounds, Place, PlaceError, Progress, Ran, Seen};
use crate::run::Places;

/// How long a host lives without calls and background shells.
const IDLE: Millis = Millis::from_secs(60);
/// The same before its first tool was used: what the loop itself wanted to know is known, and a model may think for long.
const IDLE_AT_FIRST: Millis = Millis::from_secs(5);
/// How often in a row a host may be lost before there is none any more.
const MOST_LOSSES: u32 = 3;
/// What the loop wants to know by itself must not take longer.
const SHORT_MILLIS: u64 = 15_000;
/// Most bytes of that.
const SHORT_BYTES: u64 = 256 * 1024;
/// Tools that are used at once in one place, whoever of a run's agents calls them; others wait for their turn. A host takes
/// four times as many.
const MOST_AT_ONCE: usize = 16;
/// How often a call is made that no host takes.
const MOST_TRIES: u32 = 3;
const NO_ENTRY: i32 = rustix::io::Errno::NOENT.raw_os_error();
const NO_DIRECTORY: i32 = rustix::io::Errno::NOTDIR.raw_os_error();
const LINK: i32 = rustix::io::Errno::LOOP.raw_os_error();
/// How long a call that was cancelled may take to end before it is ended.
const CANCEL_GRACE: Millis = Millis::from_secs(5);
/// How long a host that was let go may take to leave.
const LEAVE_WITHIN: Millis = Millis::from_secs(5);
/// How much longer than its bound a call may take before its host counts as gone.
const BACKSTOP: Millis = Millis::from_secs(30);

/// Makes hosts.
pub struct Hosts {
    executor: Arc<dyn Executor>,
    clock: Arc<dyn Clock>,
    tracker: TaskTracker,
}

impl Hosts {
    /// With the executor that starts them.
    #[must_use]
    pub fn new(executor: Arc<dyn Executor>, clock: Arc<dyn Clock>) -> Self {
        Self { executor, clock, tracker: TaskTracker::new() }
    }
}

impl Places for Hosts {
    fn place(&self, launch: Launch) -> Arc<dyn Place> {
        Arc::new(HostPlace {
            launch,
            executor: Arc::clone(&self.executor),
            clock: Arc::clone(&self.clock),
            tracker: self.tracker.clone(),
            state: AsyncMutex::default(),
            refused: Mutex::default(),
            turns: Semaphore::new(MOST_AT_ONCE),
        })
    }
}

/// The place of one run.
struct HostPlace {
    launch: Launch,
    executor: Arc<dyn Executor>,
    clock: Arc<dyn Clock>,
    tracker: TaskTracker,
    state: AsyncMutex<State>,
    refused: Mutex<BTreeMap<(ViolationKind, String), u32>>,
    turns: Semaphore,
}

#[derive(Default)]
struct State {
    talk: Option<Talk>,
    losses: u32,
    is_closed: bool,
}

impl HostPlace {
    /// The host that lives, or a new one.
    async fn talk(&self) -> Result<Talk, PlaceError> {
        let mut state = self.state.lock().await;
        if let Some(talk) = state.talk.take() {
            if talk.is_alive() {
                state.talk = Some(talk.clone());
                return Ok(talk);
            }
            self.note(&talk.over().await);
        }
        if state.is_closed {
            return Err(PlaceError::Broken { why: "the run is over".to_owned() });
        }
        if state.losses >= MOST_LOSSES {
            let why = format!("what does its tools ended {MOST_LOSSES} times in a row");
            return Err(PlaceError::Broken { why });
        }
        let begun = Talk::begin(&self.launch, &self.executor, &self.clock, &self.tracker).await;
        let talk = begun.map_err(|why| PlaceError::Broken { why })?;
        state.talk = Some(talk.clone());
        Ok(talk)
    }

    fn note(&self, report: &Option<Report>) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        for Violation { kind, what, count } in report.iter().flat_map(|report| report.violations.clone()) {
            *refused.entry((kind, what)).or_default() += count;
        }
    }

    async fn call(
        &self,
        tool: Tool,
        (bytes, millis): (u64, u64),
        progress: Progress,
        cancel: CancellationToken,
    ) -> Result<Outcome, PlaceError> {
        // A host that is just being let go does not take a call any more; the next one does.
        for _ in 0..MOST_TRIES {
            let talk = self.talk().await?;
            let asked = Asked {
                tool: tool.clone(),
                cwd: self.launch.directory.clone(),
                deadline: Some(millis),
                limits: CallLimits { bytes },
                progress: Arc::clone(&progress),
            };
            match self.answer(&talk, talk.call(asked), millis, &cancel).await {
                Ok(Ok(outcome)) => {
                    self.state.lock().await.losses = 0;
                    return Ok(outcome);
                }
                Ok(Err(why)) => return Err(self.lost(why).await),
                Err(_) => {}
            }
        }
        Err(self.lost("it took no call".to_owned()).await)
    }

    /// The answer to a call, within its bound; none when it was not taken.
    async fn answer(
        &self,
        talk: &Talk,
        mut answer: Answering,
        millis: u64,
        cancel: &CancellationToken,
    ) -> Result<Result<Outcome, String>, RecvError> {
        let bound = Millis::from_millis(millis.saturating_add(BACKSTOP.as_millis()));
        tokio::select! {
            answered = &mut answer.reply => return answered,
            () = self.clock.sleep(bound) => talk.kill(),
            () = cancel.cancelled() => {
                talk.cancel(answer.id);
                tokio::select! {
                    answered = &mut answer.reply => return answered,
                    () = self.clock.sleep(CANCEL_GRACE) => talk.cancel(answer.id),
                }
                tokio::select! {
                    answered = &mut answer.reply => return answered,
                    () = self.clock.sleep(CANCEL_GRACE) => talk.kill(),
                }
            }
        }
        answer.reply.await
    }

    async fn lost(&self, why: String) -> PlaceError {
        let mut state = self.state.lock().await;
        // Of several calls that one host lost the first counts.
        if let Some(talk) = state.talk.take() {
            if talk.is_alive() {
                state.talk = Some(talk);
            } else {
                self.note(&talk.over().await);
                state.losses += 1;
            }
        }
        PlaceError::Lost { why }
    }

    async fn close_all(&self, now: bool) -> Vec<Violation> {
        let mut state = self.state.lock().await;
        state.is_closed = true;
        if let Some(talk) = state.talk.take() {
            if now {
                talk.kill()
            } else {
                talk.leave()
            }
            let over = tokio::select! {
                over = talk.over() => over,
                () = self.clock.sleep(LEAVE_WITHIN) => {
                    talk.kill();
                    talk.over().await
                }
            };
            self.note(&over);
        }
        let refused = std::mem::take(&mut *self.refused.lock().unwrap_or_else(PoisonError::into_inner));
        refused.into_iter().map(|((kind, what), count)| Violation { kind, what, count }).collect()
    }
}

impl Place for HostPlace {
    fn lift<'a>(
        &'a self,
        wanted: Use,
        bounds: Bounds,
        progress: Progress,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<Used, PlaceError>> {
        async move {
            let bytes = u64::try_from(bounds.bytes).unwrap_or(u64::MAX);
            let _turn = tokio::select! {
                turn = self.turns.acquire() => turn,
                () = cancel.cancelled() => {
                    let text = "Not done: the run was asked to end before this began.".to_owned();
                    return Ok(Used { text, failed: true, ..Used::default() });
                }
            };
            match self.call(Tool::Use(wanted), (bytes, bounds.millis), progress, cancel).await? {
                Outcome::Content(Content::Used(used)) => Ok(used),
                Outcome::Failed(failure) => Ok(Used { text: failure.why, failed: true, ..Used::default() }),
                _ => Err(PlaceError::Lost { why: "it answered something else than what was asked".to_owned() }),
            }
        }
        .boxed()
    }

    fn read<'a>(&'a self, path: PathBuf) -> BoxFuture<'a, Result<Seen, PlaceError>> {
        async move {
            let tool = Tool::Read { path };
            match self.call(tool, (SHORT_BYTES, SHORT_MILLIS), Arc::new(|_| {}), CancellationToken::new()).await? {
                Outcome::File(Bytes(bytes)) => Ok(Seen::File(bytes)),
                Outcome::Failed(Failure { errno: Some(NO_ENTRY | NO_DIRECTORY | LINK), .. }) => Ok(Seen::Nothing),
                Outcome::Failed(failure) => Ok(Seen::Unread(failure.why)),
                Outcome::Content(_) => Ok(Seen::Nothing),
            }
        }
        .boxed()
    }

    fn run<'a>(&'a self, argv: &'a [&'a str]) -> BoxFuture<'a, Result<Ran, PlaceError>> {
        async move {
            let argv = argv.iter().map(|word| (*word).to_owned()).collect();
            let streams = Streams::Captured { stdin: Bytes::default() };
            let tool = Tool::Spawn(Spawn { argv, env: self.launch.env.clone(), streams });
            match self.call(tool, (SHORT_BYTES, SHORT_MILLIS), Arc::new(|_| {}), CancellationToken::new()).await? {
                Outcome::Content(Content::Ended { exit, stdout, .. }) => {
                    let stdout = String::from_utf8_lossy(&stdout.0).into_owned();
                    Ok(Ran { ok: exit == Ended::Code(0), stdout })
                }
                _ => Ok(Ran { ok: false, stdout: String::new() }),
            }
        }
        .boxed()
    }

    fn close<'a>(&'a self, now: bool) -> BoxFuture<'a, Vec<Violation>> {
        self.close_all(now).boxed()
    }
}
