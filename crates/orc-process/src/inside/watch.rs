//! Bounds of processes and memory where no control group keeps them: what all inside have together, looked at now and then.
//!
//! Processes and threads are bounded by the kernel (RLIMIT_NPROC), which tells nobody; that the bound is reached is seen here
//! if it lasts until the next look. (To ask before each fork is no way: a call that waits for an answer can be interrupted,
//! and no program expects that of `fork`.)
//!
//! Of memory each process has the bound from the kernel (RLIMIT_DATA) and cannot leap over it; many together can, until the
//! next look, and then must go. Counted is what only memory holds: pages of processes that come from no file, files in
//! directories in memory, and open files that have no name (memfd).

use std::collections::BTreeSet;
use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use orc_domain::confine::{Violation, ViolationKind};
use tokio::time::Instant;

use crate::sandbox::{HOME, RUN, TEMP};

/// Shortest time between two looks; else twenty times as long as a look takes.
const SHORTEST: Duration = Duration::from_millis(200);
const REST: u32 = 20;
/// Directories that may be in memory.
const IN_MEMORY: [&str; 5] = ["/tmp", "/dev/shm", RUN, TEMP, HOME];
/// Kind of a file system in memory (`include/uapi/linux/magic.h`).
const TMPFS: i64 = 0x0102_1994;

/// Bounds of all together; 0 is no bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) processes: u64,
    pub(super) memory_bytes: u64,
}

/// A thread that looks; ends when this is dropped.
pub(super) struct Watch {
    _open: Sender<()>,
}

impl Watch {
    /// `tell` is called for each bound once, when it is reached.
    pub(super) fn start(most: Most, tell: impl Fn(Violation) + Send + 'static) -> Result<Self, String> {
        let (open, dropped) = channel();
        let named = std::thread::Builder::new().name("watch".to_owned());
        let thread = named.spawn(move || look(most, &dropped, &tell));
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { _open: open })
    }
}

/// Until nobody wants to know any more.
fn look(mut most: Most, dropped: &Receiver<()>, tell: &impl Fn(Violation)) {
    let mut rest = SHORTEST;
    while dropped.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
        let begun = Instant::now();
        let pids = others();
        if most.processes > 0 && threads(&pids) >= most.processes {
            let what = format!("more than {}", most.processes);
            tell(Violation { kind: ViolationKind::Processes, what, count: 1 });
            most.processes = 0;
        }
        if most.memory_bytes > 0 && held(&pids, most.memory_bytes) > most.memory_bytes {
            let what = format!("more than {} MiB", most.memory_bytes >> 20);
            tell(Violation { kind: ViolationKind::Memory, what, count: 1 });
            most.memory_bytes = 0;
        }
        rest = (begun.elapsed() * REST).max(SHORTEST);
    }
}

/// Numbers of everything inside but us.
fn others() -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| *name != own && name.bytes().all(|byte| byte.is_ascii_digit())).collect()
}

/// Processes and threads; those that have ended and are not collected count, as they do for the kernel.
fn threads(pids: &[String]) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    // Two links and one for each thread; what has ended has none.
    let of = |pid: &String| {
        fs::metadata(format!("/proc/{pid}/task")).map_or(1, |found| found.nlink().saturating_sub(2).max(1))
    };
    pids.iter().map(of).sum()
}

/// Bytes that are held; exact only when they may be more than `most`.
fn held(pids: &[String], most: u64) -> u64 {
    let files = IN_MEMORY.iter().map(|path| bytes_in_memory(path)).sum::<u64>();
    let rest = files + nameless(pids);
    // What children share with their parent is counted for each of them here.
    let at_most: u64 = pids.iter().map(|pid| own_pages(&read(pid, "statm"))).sum();
    if rest + at_most <= most {
        return rest + at_most;
    }
    rest + pids.iter().map(|pid| own_share(&read(pid, "smaps_rollup"))).sum::<u64>()
}

fn read(pid: &str, file: &str) -> String {
    // It may have ended.
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// Resident pages without those of files and shared memory: fields 2 and 3 of `statm` (proc_pid_statm(5)).
fn own_pages(statm: &str) -> u64 {
    let mut fields = statm.split_ascii_whitespace().skip(1).filter_map(|field| field.parse::<u64>().ok());
    let (resident, shared) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
    resident.saturating_sub(shared) * rustix::param::page_size() as u64
}

/// The same, with each shared page divided among those that share it (proc_pid_smaps(5)).
fn own_share(rollup: &str) -> u64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    let kibibytes = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

fn bytes_in_memory(path: &str) -> u64 {
    let is_in_memory = rustix::fs::statfs(path).is_ok_and(|found| found.f_type == TMPFS);
    let used = |found: rustix::fs::StatVfs| found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize;
    if is_in_memory { rustix::fs::statvfs(path).map_or(0, used) } else { 0 }
}

/// Bytes of open files in memory that have no name, each once.
fn nameless(pids: &[String]) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    for entry in pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok()).flatten().flatten() {
        let is_nameless =
            fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str().as_encoded_bytes().starts_with(b"/memfd:"));
        if is_nameless
            && let Ok(found) = fs::metadata(entry.path())
            && seen.insert((found.dev(), found.ino()))
        {
            bytes += found.blocks() * 512;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn pages_of_a_process() {
        assert_eq!(own_pages("900 30 10 5 0 600 0\n"), 20 * rustix::param::page_size() as u64);
        assert_eq!(own_pages("0 0 0 0 0 0 0\n"), 0);
        assert_eq!(own_pages(""), 0);
        let rollup = "00400000-7fff [rollup]\nRss: 900 kB\nPss: 500 kB\nPss_Anon:   300 kB\n";
        assert_eq!(own_share(rollup), 300 * 1024);
        assert_eq!(own_share(""), 0);
    }

    #[test]
    fn threads_count() {
        let own = std::process::id().to_string();
        let counted = fs::read_dir("/proc/self/task").unwrap().count() as u64;
        assert!(threads(&[own, "1".to_owned()]) > 1, "{counted}");
        assert!(!others().contains(&std::process::id().to_string()));
    }

    #[test]
    fn files_without_a_name_count_once() {
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = fs::File::from(file);
        file.write_all(&vec![1; 3 << 20]).unwrap();
        let _again = file.try_clone().unwrap();
        let bytes = nameless(&[std::process::id().to_string()]);
        assert!((3 << 20..6 << 20).contains(&bytes), "{bytes}");
    }
}
