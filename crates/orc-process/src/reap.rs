//! Ends what dead instances left, on proof.
//!
//! The proof is the environment that a process was started with: `ORC_INSTANCE` names an instance, whose id is never used
//! again. It is read a second time after a process descriptor was opened, so that the signal can only reach the process
//! that carries it. What cleared its environment is not touched: nothing proves whose it is.
//!
//! What is in a box ends with the process outside of it, but not at the same moment, and an ordinary user cannot read the
//! environment of the first process inside. So whatever is in a deeper namespace of processes below what is killed is waited
//! for too.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, join_all, select};
use orc_domain::ids::{InstanceId, RunId};
use orc_domain::time::Millis;
use orc_ports::executor::{ReapError, Reaped};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;

use crate::proc::{self, Nonce};
use crate::supervisor::Shared;

/// How long all of it may take to go. KILL needs milliseconds; a process that is stuck in the kernel needs a person.
const PATIENCE: Millis = Millis::from_secs(10);

/// How long to wait before looking again at a process in the middle of `exec`.
const LOOK_AGAIN: Millis = Millis::from_millis(1);
/// How often: on a busy machine somebody is always in the middle of `exec`.
const MOST_LOOKS: u32 = 200;

/// A process that was killed and is not gone yet.
struct Dying {
    pid: i32,
    run: Option<RunId>,
    handle: AsyncFd<std::os::fd::OwnedFd>,
}

/// What one look at the table of processes found.
#[derive(Default)]
struct Found {
    dying: Vec<Dying>,
    /// Something was in the middle of `exec` or on its way out, or there were more than there are descriptors.
    is_partial: bool,
}

/// What was ended, by run.
type Ended = BTreeMap<(InstanceId, RunId), BTreeSet<i32>>;

/// See [`orc_ports::executor::Executor::reap`]. Our own instance is left alone even when it is named.
pub(crate) async fn reap(dead: &[InstanceId], shared: &Shared) -> Result<Vec<Reaped>, ReapError> {
    let others = dead.iter().filter(|instance| **instance != shared.instance);
    let dead: BTreeMap<String, InstanceId> = others.map(|instance| (instance.to_string(), *instance)).collect();
    let mut ended = Ended::new();
    let mut patience = shared.clock.sleep(PATIENCE);
    let mut looks = 0;
    // Again until nothing is found: what was killed may have started something while we looked.
    loop {
        let found = kill_marked(&dead, &mut ended)?;
        if !found.dying.is_empty() {
            patience = wait_for(&found.dying, patience).await?;
        } else if found.is_partial && looks < MOST_LOOKS {
            looks += 1;
            shared.clock.sleep(LOOK_AGAIN).await;
        } else {
            break;
        }
    }
    if let Ok(sandbox) = &shared.sandbox {
        sandbox.remove_left_groups();
    }
    let groups = ended.into_iter();
    Ok(groups.map(|((instance, run), pids)| Reaped { run, instance, pids: pids.into_iter().collect() }).collect())
}

/// Kills what is found, or as much of it as there are descriptors for.
fn kill_marked(dead: &BTreeMap<String, InstanceId>, ended: &mut Ended) -> Result<Found, ReapError> {
    let failed = |source| ReapError::Processes { source };
    // What we may not read is not ours, or has ended; whoever carries a mark keeps it over `exec`.
    let owner = |nonce: Option<Nonce>| {
        let nonce = nonce?;
        Some((*dead.get(&nonce.instance?)?, nonce.run))
    };
    let spared = lineage();
    let mut found = Found::default();
    for pid in proc::all().map_err(failed)?.into_iter().filter_map(Pid::from_raw) {
        let number = pid.as_raw_pid();
        let Ok(nonce) = proc::nonce(number) else { continue };
        found.is_partial |= nonce.is_none();
        if spared.contains(&number) || owner(nonce).is_none() {
            continue;
        }
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => continue,
            Err(Errno::MFILE | Errno::NFILE) if !found.dying.is_empty() => break,
            Err(error) => return Err(failed(error.into())),
        };
        let nonce = proc::nonce(number).unwrap_or_default();
        found.is_partial |= nonce.is_none();
        let Some((instance, run)) = owner(nonce) else { continue };
        let boxed = inner(number);
        match pidfd_send_signal(&handle, Signal::KILL) {
            Ok(()) => found.dying.extend(boxed.into_iter().map(|(pid, handle)| Dying { pid, run, handle })),
            Err(Errno::SRCH) => continue,
            Err(error) => return Err(failed(error.into())),
        }
        if let Some(run) = run {
            ended.entry((instance, run)).or_default().insert(number);
        } else {
            tracing::warn!(pid = number, %instance, "killed a process of a dead instance that does not name its run");
        }
        let handle = proc::watch(handle).map_err(failed)?;
        found.dying.push(Dying { pid: number, run, handle });
    }
    Ok(found)
}

/// What is in a box below a process, with what it can be waited for by.
fn inner(pid: i32) -> Vec<(i32, AsyncFd<std::os::fd::OwnedFd>)> {
    let depth = proc::depth(pid);
    let below = proc::descendants(pid).into_iter().map(|(seen, _)| seen.pid);
    let watched = below.filter(|pid| proc::depth(*pid) > depth).filter_map(|pid| {
        let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        Some((pid, proc::watch(handle).ok()?))
    });
    watched.collect()
}

/// Returns the rest of our patience.
async fn wait_for(dying: &[Dying], patience: BoxFuture<'static, ()>) -> Result<BoxFuture<'static, ()>, ReapError> {
    let gone = join_all(dying.iter().map(|process| process.handle.readable()));
    if let Either::Left((_, patience)) = select(gone, patience).await {
        return Ok(patience);
    }
    let survivor = dying.iter().find(|process| process.handle.readable().now_or_never().is_none());
    match survivor {
        Some(Dying { pid, run: Some(run), .. }) => Err(ReapError::Survivor { pid: *pid, run: *run }),
        Some(Dying { pid, run: None, .. }) => {
            let source = std::io::Error::other(format!("process {pid} was killed and does not go"));
            Err(ReapError::Processes { source })
        }
        // All went at the last moment; whatever is found next has no patience left.
        None => Ok(std::future::ready(()).boxed()),
    }
}

/// Ourselves and our ancestors: an orchestrator may run inside a step of another one.
fn lineage() -> BTreeSet<i32> {
    let mut lineage = BTreeSet::new();
    let mut pid = getpid().as_raw_pid();
    while pid > 0 && lineage.insert(pid) {
        pid = proc::stat(pid).map_or(0, |stat| stat.parent);
    }
    lineage
}
