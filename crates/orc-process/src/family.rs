//! Who belongs to whom: leaders of runs, and the processes that lost their parent and came to us.
//!
//! The kernel re-parents what lost its parent to the first live thread of the nearest subreaper, which is our main
//! thread; the leaders are children of the executor's own thread. So the children of the main thread are exactly the
//! orphans, and reading one file answers "did anything leave?" in one system call.
//!
//! An orphan is attributed when it is first seen, to
//! 1. the run whose group it is in,
//! 2. the run under whose leader it was seen when that was stopped or ended,
//! 3. the run in its environment (`ORC_INSTANCE`, `ORC_RUN_ID`),
//! 4. else to nobody; it is a stray once no run is live that started before it.
//!
//! Orphans are our children and only this thread reaps them: their numbers cannot be used again while they are listed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use orc_domain::ids::RunId;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::proc::{self, Nonce, Seen};

/// The first process of a run; its number is the number of its group.
#[derive(Clone, Copy, Debug)]
struct Leader {
    seen: Seen,
    /// Reaped; what it left is being ended.
    ended: bool,
}

/// A process that lost its parent.
#[derive(Clone, Copy, Debug)]
struct Orphan {
    start_ticks: u64,
    group: i32,
    owner: Owner,
}

/// Whose an orphan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Run(RunId),
    /// Nothing tells.
    Unknown,
    /// It is in the middle of `exec` and its environment will tell, or it is on its way out and what it started will come
    /// to us and tell. How often that was seen.
    Unsettled(u16),
}

impl Owner {
    /// Whether a child of ours is to be taken in. One in our own group is, unless a run is named, what another part of this
    /// program started and waits for: to collect it would take its exit status away. While it is in the middle of `exec`
    /// nothing is named.
    const fn is_ours(self, in_own_group: bool) -> bool {
        match self {
            Self::Run(_) => true,
            Self::Unknown | Self::Unsettled(_) => !in_own_group,
        }
    }
}

/// Looks at an unsettled orphan, at least a millisecond each while a run waits for it, before nobody believes any more
/// that it will tell: its memory is closed to us for good, or it is stuck on its way out.
const MOST_LOOKS: u16 = 1000;

/// A process that is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Which.
    pub(crate) seen: Seen,
    /// Its process group.
    pub(crate) group: i32,
}

/// Everything that is ours.
#[derive(Debug)]
pub(crate) struct Family {
    instance: String,
    own_group: i32,
    /// Children of the main thread.
    arrivals: File,
    leaders: BTreeMap<RunId, Leader>,
    orphans: BTreeMap<i32, Orphan>,
    /// Processes seen below a run, which keep their owner when they lose parent and environment.
    marks: BTreeMap<Seen, RunId>,
}

impl Family {
    /// `instance` is the mark that our own children carry.
    pub(crate) fn new(instance: String, arrivals: File) -> Self {
        let own_group = rustix::process::getpgrp().as_raw_pid();
        let (leaders, orphans, marks) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { instance, own_group, arrivals, leaders, orphans, marks }
    }

    /// A run begins.
    pub(crate) fn insert(&mut self, run: RunId, leader: Seen) {
        self.leaders.insert(run, Leader { seen: leader, ended: false });
    }

    /// The leader is reaped: what is still attributed to the run must go.
    pub(crate) fn mark_ended(&mut self, run: RunId) {
        if let Some(leader) = self.leaders.get_mut(&run) {
            leader.ended = true;
        }
    }

    /// Nothing of the run is left.
    pub(crate) fn remove(&mut self, run: RunId) {
        self.leaders.remove(&run);
        self.marks.retain(|_, owner| *owner != run);
    }

    /// Marks everything below a live run's leader, and everything attributed to it, as the run's. Returns those outside
    /// its group.
    pub(crate) fn mark(&mut self, run: RunId) -> Vec<Target> {
        self.adopt();
        let Some(leader) = self.leaders.get(&run).map(|leader| leader.seen) else {
            return Vec::new();
        };
        let mut escaped = Vec::new();
        let mut roots = vec![leader.pid];
        for (pid, orphan) in self.orphans.iter().filter(|(_, orphan)| orphan.owner == Owner::Run(run)) {
            roots.push(*pid);
            escaped.push(Target::of(*pid, orphan));
        }
        for (seen, stat) in roots.into_iter().flat_map(proc::descendants) {
            self.marks.insert(seen, run);
            escaped.push(Target { seen, group: stat.group });
        }
        escaped.retain(|target| target.group != leader.pid);
        escaped
    }

    /// Takes in what was re-parented to us since the last time; returns whether there was anything.
    pub(crate) fn adopt(&mut self) -> bool {
        let before = self.orphans.len();
        let listed = proc::read_children(&self.arrivals).unwrap_or_else(|error| {
            tracing::error!(%error, "the list of orphaned processes cannot be read");
            Vec::new()
        });
        for pid in listed {
            let looks = match self.orphans.get(&pid).map(|orphan| orphan.owner) {
                None => 0,
                Some(Owner::Unsettled(looks)) => looks + 1,
                Some(Owner::Run(_) | Owner::Unknown) => continue,
            };
            if let Some(orphan) = self.look_at(pid, looks) {
                self.orphans.insert(pid, orphan);
            }
        }
        self.orphans.len() > before
    }

    /// `None` for what is none of our business: a child that another part of the program started.
    fn look_at(&self, pid: i32, looks: u16) -> Option<Orphan> {
        let stat = proc::stat(pid).ok()?;
        let seen = Seen { pid, start_ticks: stat.start_ticks };
        let in_group = || self.leaders.iter().find(|(_, leader)| leader.seen.pid == stat.group).map(|(run, _)| *run);
        let marked = || self.marks.get(&seen).copied();
        let owner = match in_group().or_else(marked) {
            Some(run) => Owner::Run(run),
            None => self.named_owner(pid, looks),
        };
        owner.is_ours(stat.group == self.own_group).then_some(Orphan {
            start_ticks: stat.start_ticks,
            group: stat.group,
            owner,
        })
    }

    fn named_owner(&self, pid: i32, looks: u16) -> Owner {
        match proc::nonce(pid) {
            Ok(Some(Nonce { instance: Some(instance), run: Some(run) })) if instance == self.instance => {
                Owner::Run(run)
            }
            Ok(Some(_)) => Owner::Unknown,
            Ok(None) | Err(_) if looks < MOST_LOOKS => Owner::Unsettled(looks),
            Ok(None) | Err(_) => Owner::Unknown,
        }
    }

    /// Reaps orphans that have ended; returns whether there were any.
    pub(crate) fn reap(&mut self) -> bool {
        let before = self.orphans.len();
        self.orphans.retain(|pid, _| !is_reaped(*pid));
        self.orphans.len() < before
    }

    /// Orphans that must go because this run has ended; those that only it can still own are attributed to it. What is
    /// below them is marked as its own, since it will come to us when they go.
    pub(crate) fn claim_strays(&mut self, run: RunId) -> Vec<Target> {
        let mut strays = Vec::new();
        let live = || self.leaders.values().filter(|leader| !leader.ended);
        for (pid, orphan) in &mut self.orphans {
            if orphan.owner == Owner::Unknown && live().all(|leader| leader.seen.start_ticks > orphan.start_ticks) {
                orphan.owner = Owner::Run(run);
            }
            if orphan.owner == Owner::Run(run) {
                strays.push(Target::of(*pid, orphan));
            }
        }
        for (seen, _) in strays.iter().flat_map(|stray| proc::descendants(stray.seen.pid)) {
            self.marks.insert(seen, run);
        }
        strays
    }

    /// Whether some orphan may still turn out to be this run's.
    pub(crate) fn is_unsettled(&self, run: RunId) -> bool {
        let since = self.leaders.get(&run).map_or(0, |leader| leader.seen.start_ticks);
        let mut younger = self.orphans.values().filter(|orphan| orphan.start_ticks >= since);
        younger.any(|orphan| matches!(orphan.owner, Owner::Unsettled(_)))
    }

    /// Orphans whose run has been reported, or that appeared when no run could have started them.
    fn late(&self) -> impl Iterator<Item = Pid> {
        let owned = |orphan: &Orphan| match orphan.owner {
            Owner::Run(run) => self.leaders.contains_key(&run),
            Owner::Unsettled(_) => true,
            Owner::Unknown => self.leaders.values().any(|leader| leader.seen.start_ticks <= orphan.start_ticks),
        };
        let late = self.orphans.iter().filter(move |(_, orphan)| !owned(orphan));
        late.filter_map(|(pid, _)| Pid::from_raw(*pid))
    }

    /// Members of a process group that can still act, or that we have to reap. A member that has ended and waits for
    /// another parent is gone.
    pub(crate) fn members(&self, group: i32) -> Vec<Target> {
        let mut members = Vec::new();
        for (pid, orphan) in &self.orphans {
            if orphan.group == group {
                members.push(Target::of(*pid, orphan));
            }
            let below = proc::descendants(*pid).into_iter().filter(|(_, stat)| stat.group == group && !stat.ended);
            members.extend(below.map(|(seen, stat)| Target { seen, group: stat.group }));
        }
        members
    }

    /// After some child ended: takes in orphans, reaps those that have ended, kills those that nobody will ask about.
    pub(crate) fn sweep(&mut self) {
        self.adopt();
        self.reap();
        for pid in self.late() {
            // It is our child and not reaped, so the number is still its own; it may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Target {
    const fn of(pid: i32, orphan: &Orphan) -> Self {
        Self { seen: Seen { pid, start_ticks: orphan.start_ticks }, group: orphan.group }
    }
}

fn is_reaped(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return true };
    match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
        Ok(status) => status.is_some(),
        Err(error) => error == Errno::CHILD,
    }
}

/// Opens the list of what is re-parented to this process.
pub(crate) fn open_arrivals() -> Result<File, (String, io::Error)> {
    let pid = std::process::id();
    let file = format!("/proc/{pid}/task/{pid}/children");
    File::open(&file).map_err(|error| (file, error))
}
