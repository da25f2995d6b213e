//! What the system tells about processes: who one is, what it carries, whom it started, when it ends.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use orc_domain::ids::RunId;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bit of field 9 that marks threads of the kernel (`include/linux/sched.h`).
const PF_KTHREAD: u64 = 0x0020_0000;

/// What `/proc/PID/stat` tells (proc(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// True once it has ended and only waits to be reaped.
    pub(crate) ended: bool,
    /// Parent.
    pub(crate) parent: i32,
    /// Process group.
    pub(crate) group: i32,
    /// Length of its environment; `None` while it has no memory: in the middle of `exec`, or on its way out and not ended
    /// yet. Only right for processes that we may look into.
    pub(crate) environ: Option<u64>,
    /// Field 22: clock ticks since boot at which it started; with the number it names a process for good.
    pub(crate) start_ticks: u64,
}

/// A process that was seen, named so that a number used again is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    /// Its number.
    pub(crate) pid: i32,
    /// When it started.
    pub(crate) start_ticks: u64,
}

/// The marks that an executor puts into the environment of what it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nonce {
    /// `ORC_INSTANCE`.
    pub(crate) instance: Option<String>,
    /// `ORC_RUN_ID`, if it is one.
    pub(crate) run: Option<RunId>,
}

/// Watches what can be read from a pipe, or the end of the process behind a descriptor, on the event loop of the caller.
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    watch_for(fd, Interest::READABLE)
}

/// Watches a descriptor for one thing.
#[expect(
    deprecated,
    reason = "unsound only for types that change their descriptor, which `OwnedFd` does not; its successor is `unsafe`"
)]
pub(crate) fn watch_for(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}

pub(crate) fn stat(pid: i32) -> io::Result<Stat> {
    // Longer than the line can be; it comes with one read.
    let mut text = [0_u8; 1024];
    let count = File::open(format!("/proc/{pid}/stat"))?.read(&mut text)?;
    parse_stat(&text[..count]).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat has an unknown form")))
}

/// The name of the program stands in parentheses and may hold blanks and parentheses itself: the last one counts.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&text[close + 1..]).ok()?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // The first of them is field 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let pid = |field: usize| fields.get(field - 3)?.parse::<i32>().ok();
    let ended = matches!(*fields.first()?, "Z" | "X" | "x");
    let is_without = ended || number(9)? & PF_KTHREAD != 0;
    // Fields 50 and 51 are where the environment begins and ends. `exec` sets them step by step, and only after them field
    // 27, where the code ends (`load_elf_binary` in `fs/binfmt_elf.c`).
    let environ = match number(27)? {
        _ if is_without => Some(0),
        0 => None,
        _ => Some(number(51)?.saturating_sub(number(50)?)),
    };
    Some(Stat { ended, parent: pid(4)?, group: pid(5)?, environ, start_ticks: number(22)? })
}

/// What the environment that the process was started with says: nothing for one that has ended or that cleared it, `None`
/// when it cannot be told now. An `exec` in between tears what is read, so the absence of marks needs a second witness:
/// the length that the environment has afterwards.
pub(crate) fn nonce(pid: i32) -> io::Result<Option<Nonce>> {
    let environ = match fs::read(format!("/proc/{pid}/environ")) {
        // No memory, says the kernel.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Vec::new(),
        read => read?,
    };
    let nonce = parse_nonce(&environ);
    let has_both = nonce.instance.is_some() && nonce.run.is_some();
    let is_whole = has_both || stat(pid)?.environ == Some(environ.len() as u64);
    Ok(is_whole.then_some(nonce))
}

fn parse_nonce(environ: &[u8]) -> Nonce {
    let mut nonce = Nonce::default();
    for variable in environ.split(|byte| *byte == 0) {
        let Ok(variable) = std::str::from_utf8(variable) else { continue };
        if let Some(instance) = variable.strip_prefix("ORC_INSTANCE=") {
            nonce.instance = Some(instance.to_owned());
        } else if let Some(run) = variable.strip_prefix("ORC_RUN_ID=") {
            nonce.run = run.parse().ok();
        }
    }
    nonce
}

/// How many namespaces of processes somebody is in, as far as we see; 0 when it is gone (proc_pid_status(5), `NSpid`).
pub(crate) fn depth(pid: i32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.map_or(0, |numbers| numbers.split_ascii_whitespace().count())
}

/// Numbers of all processes.
pub(crate) fn all() -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(pids)
}

/// The file that lists the children of one thread.
pub(crate) fn children_file(pid: i32, thread: &str) -> String {
    format!("/proc/{pid}/task/{thread}/children")
}

/// Children from a file that stays open; one system call when there are none.
pub(crate) fn read_children(file: &File) -> io::Result<Vec<i32>> {
    let mut text = Vec::new();
    let mut chunk = [0_u8; 1024];
    loop {
        let count = file.read_at(&mut chunk, text.len() as u64)?;
        if count == 0 {
            return Ok(parse_children(&text));
        }
        text.extend_from_slice(&chunk[..count]);
    }
}

fn parse_children(text: &[u8]) -> Vec<i32> {
    let text = String::from_utf8_lossy(text);
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Everything below a process, itself not included. Whoever ends meanwhile may be missing, with what it started.
pub(crate) fn descendants(pid: i32) -> Vec<(Seen, Stat)> {
    let mut found: Vec<(Seen, Stat)> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else {
            continue;
        };
        for thread in threads.flatten() {
            let file = children_file(parent, &thread.file_name().to_string_lossy());
            for pid in fs::read(file).map_or_else(|_| Vec::new(), |text| parse_children(&text)) {
                let Ok(stat) = stat(pid) else { continue };
                let seen = Seen { pid, start_ticks: stat.start_ticks };
                if !found.iter().any(|(known, _)| *known == seen) {
                    found.push((seen, stat));
                    parents.push(pid);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_cannot_forge_its_fields() {
        let line = |state: &str, flags: u64, memory: [u64; 3]| {
            let (later, [code, begin, end]) = ("0 ".repeat(22), memory);
            format!(
                "77 (x) R 1 1 (a b)) {state} 41 76 75 0 -1 {flags} 1 2 3 4 5 6 7 8 20 0 1 0 987654 0 0 0 0 {code} {later}{begin} {end} 0\n"
            )
        };
        let plain = Stat { ended: false, parent: 41, group: 76, environ: Some(0), start_ticks: 987_654 };
        let cases = [
            (line("S", 0x0040_0000, [9, 700, 900]), Stat { environ: Some(200), ..plain }),
            (line("S", 0x0040_0000, [9, 700, 700]), plain),
            (line("R", 0x0040_0000, [0, 0, 0]), Stat { environ: None, ..plain }),
            (line("R", 0x0040_0000, [0, 700, 700]), Stat { environ: None, ..plain }),
            (line("R", 0x0040_0004, [0, 0, 0]), Stat { environ: None, ..plain }),
            (line("I", 0x0020_8040, [0, 0, 0]), plain),
            (line("Z", 0, [0, 0, 0]), Stat { ended: true, ..plain }),
        ];
        for (line, wanted) in cases {
            assert_eq!(parse_stat(line.as_bytes()), Some(wanted), "{line}");
        }
        assert_eq!(parse_stat(b"77 (sh) S 41"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn only_whole_variables_are_marks() {
        let run = "run_01h455vb4pex5vsknk084sn02q";
        let environ = format!("A=ORC_INSTANCE=inst_no\0ORC_INSTANCE=inst_1\0\u{e4}=\u{e4}\0ORC_RUN_ID={run}\0");
        let wanted = Nonce { instance: Some("inst_1".to_owned()), run: run.parse().ok() };
        assert_eq!(parse_nonce(environ.as_bytes()), wanted);
        let broken = b"X=\xff\0ORC_RUN_ID=nothing\0".as_slice();
        assert_eq!(parse_nonce(broken), Nonce::default());
    }

    #[test]
    fn we_are_in_the_table() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = stat(pid).unwrap();
        assert!(!own.ended && own.start_ticks > 0 && own.environ > Some(0), "{own:?}");
        assert!(all().unwrap().contains(&pid));
    }
}
