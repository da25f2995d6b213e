//! Who hears of system calls that the filter of a box does not allow.
//!
//! A thread that the filter is not on answers each with its error, counts it, and tells it through the control socket: the
//! first time at once, then each at most once a second, and all that is left before the result ([`Refusals::tell_rest`]).
//! A program that is killed while it waits for an answer holds nothing up; the thread ends with `box-init`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orc_domain::confine::{Violation, ViolationKind};
use orc_kernel::seccomp::{self, Listener};
use tokio::time::Instant;

use super::seccomp::{Attempt, filter, judge};
use crate::protocol::Answer;

/// How long the same refusal is only counted after it was told.
const PAUSE: Duration = Duration::from_secs(1);

/// What was refused so far. The names are of a bounded number ([`super::seccomp`]).
#[derive(Debug, Default)]
struct Counts(BTreeMap<Cow<'static, str>, Count>);

#[derive(Debug)]
struct Count {
    all: u32,
    told: u32,
    at: Instant,
}

impl Counts {
    /// Counts one; what is to be told now.
    fn note(&mut self, what: Cow<'static, str>, now: Instant) -> Option<Violation> {
        let name = what.to_string();
        let count = self.0.entry(what).or_insert(Count { all: 0, told: 0, at: now });
        count.all = count.all.saturating_add(1);
        let is_due = count.told == 0 || now.duration_since(count.at) >= PAUSE;
        is_due.then(|| count.tell(name, now))
    }

    fn rest(&mut self, now: Instant) -> Vec<Violation> {
        let untold = self.0.iter_mut().filter(|(_, count)| count.told < count.all);
        untold.map(|(what, count)| count.tell(what.to_string(), now)).collect()
    }
}

impl Count {
    const fn tell(&mut self, what: String, now: Instant) -> Violation {
        self.told = self.all;
        self.at = now;
        Violation { kind: ViolationKind::Syscall, what, count: self.all }
    }
}

/// Says something through the control socket.
type Say = Arc<dyn Fn(&Answer) + Send + Sync>;

/// The thread that answers, waiting for its filter.
pub(super) struct Refusals {
    counts: Arc<Mutex<Counts>>,
    say: Say,
    listener: SyncSender<Listener>,
}

impl Refusals {
    /// Starts the thread; before [`Self::put_filter_on`], so that the filter is not on it.
    pub(super) fn start(say: Say) -> Result<Self, String> {
        let (listener, installed) = sync_channel(1);
        let counts = Arc::new(Mutex::new(Counts::default()));
        let (counting, saying) = (Arc::clone(&counts), Arc::clone(&say));
        let named = std::thread::Builder::new().name("refusals".to_owned());
        let thread = named.spawn(move || answer(&installed, &counting, &saying));
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { counts, say, listener })
    }

    /// Puts the filter on this thread and everything that it starts from now on.
    pub(super) fn put_filter_on(&self) -> Result<(), String> {
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return Err("no list of system calls for this processor; boxes need x86_64 or aarch64".to_owned());
        }
        let listener = seccomp::install(&filter()).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::ENOSYS) => format!(
                "the kernel hands no refused system calls over (seccomp with a listener): {error}; it needs Linux 5.0 or newer \
                 with CONFIG_SECCOMP_FILTER"
            ),
            Some(libc::EBUSY) => format!(
                "a seccomp filter with a listener is on us already: {error}; the container that the orchestrator runs in has \
                 put it on, and the kernel allows one"
            ),
            _ => format!("cannot put a filter of system calls on: {error}"),
        })?;
        self.listener.send(listener).map_err(|_| "who answers refused system calls has ended".to_owned())
    }

    /// Tells what was counted and not told yet.
    pub(super) fn tell_rest(&self) {
        let rest = lock(&self.counts).rest(Instant::now());
        for violation in rest {
            (self.say)(&Answer::Violation(violation));
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> std::sync::MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(installed: &Receiver<Listener>, counts: &Mutex<Counts>, say: &Say) {
    // An error: there was no filter, and the box ends.
    let Ok(listener) = installed.recv() else { return };
    loop {
        let notification = match listener.receive() {
            Ok(Some(notification)) => notification,
            Ok(None) => continue,
            // Nobody is left who could make a call; whoever came now would find that it does not exist.
            Err(_) => return,
        };
        let attempt = Attempt { call: notification.call.into(), arguments: notification.arguments };
        let refusal = judge(&attempt);
        let error = refusal.as_ref().map_or(rustix::io::Errno::PERM, |refusal| refusal.error);
        let due = refusal.and_then(|refusal| lock(counts).note(refusal.what, Instant::now()));
        // First told, then answered: the answer may be the last thing that the program waits for.
        if let Some(violation) = due {
            say(&Answer::Violation(violation));
        }
        // Whoever made the call may have been killed.
        let _ = listener.refuse(&notification, error.raw_os_error());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_at_once_then_once_a_second_and_its_sum_at_the_end() {
        let mut counts = Counts::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let told = |count| Some(Violation { kind: ViolationKind::Syscall, what: "bpf".to_owned(), count });
        assert_eq!(counts.note("bpf".into(), at(0)), told(1));
        assert_eq!(counts.note("bpf".into(), at(1)), None);
        assert!(counts.note("mount".into(), at(2)).is_some());
        assert_eq!(counts.note("bpf".into(), at(999)), None);
        assert_eq!(counts.note("bpf".into(), at(1000)), told(4));
        assert_eq!(counts.note("bpf".into(), at(1001)), None);
        assert_eq!(counts.rest(at(1002)), Vec::from_iter(told(5)));
        assert_eq!(counts.rest(at(1003)), []);
    }
}
