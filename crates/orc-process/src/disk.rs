//! How much a box has written where that outlives it: looked at from outside, now and then.
//!
//! Counted is the space of files that were changed since the box began, below its home, its temporary directory and
//! whatever else it may write to; a layer counts as a whole. The second bound is the machine's: a box is stopped when less
//! than a twentieth of a disk, or of the files that it can hold, is left. The kernel keeps a third for each file
//! (RLIMIT_FSIZE).
//!
//! Looking is done by a thread of its own, because it takes as long as there are files; after each look a box is left alone
//! for twenty times as long, but never for longer than half a minute: how long a look takes is up to the box. The tree belongs to a program that changes it meanwhile: no link is followed, no other file
//! system is entered, and what is moved away while it is looked at is left out.
//!
//! Limits: space of a file that is removed and still open is not seen; the machine's bound is then the one that holds.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::BoxFuture;
use orc_domain::confine::{Violation, ViolationKind};
use orc_domain::time::Millis;
use orc_ports::clock::Clock;
use orc_ports::executor::{Confinement, Source};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat, statvfs};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Time before the first look, and the shortest between two.
const SHORTEST: Millis = Millis::from_millis(250);
/// Longest time between two: a box that makes looks slow must not be left alone for it.
const LONGEST: Millis = Millis::from_millis(30_000);
/// How much longer a box is left alone than a look at it took.
const REST: u64 = 20;
/// The part of a disk that must stay free.
const FREE_PART: u64 = 20;

/// What a box may write to.
#[derive(Clone, Debug)]
struct Places {
    paths: Vec<PathBuf>,
    /// Most bytes; 0 is no bound.
    most: u64,
    /// Files changed before this are not its own: seconds and nanoseconds of the clock that files are stamped with.
    since: (i64, i64),
}

/// A look that somebody waits for.
struct Look {
    places: Places,
    seen: oneshot::Sender<Seen>,
}

/// What a look showed.
struct Seen {
    violation: Option<Violation>,
    took: Duration,
}

/// The thread that looks; started when the first box has run for a while.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<Option<Looker>>);

#[derive(Debug)]
struct Looker {
    /// `None` only while it ends.
    looks: Option<mpsc::UnboundedSender<Look>>,
    thread: Option<JoinHandle<()>>,
}

impl Disk {
    /// Asks for a look; `None` without a thread.
    fn ask(&self, places: &Places) -> Option<oneshot::Receiver<Seen>> {
        let mut looker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if looker.is_none() {
            // Unbounded, and each box waits for its look before it asks for another.
            let (looks, mut inbox) = mpsc::unbounded_channel::<Look>();
            let body = move || {
                while let Some(Look { places, seen }) = inbox.blocking_recv() {
                    // Whoever asked may be gone already.
                    if !seen.is_closed() {
                        let _ = seen.send(places.look());
                    }
                }
            };
            let started = std::thread::Builder::new().name("disk".to_owned()).spawn(body);
            let thread =
                started.inspect_err(|error| tracing::error!(%error, "nobody looks at what boxes write")).ok()?;
            *looker = Some(Looker { looks: Some(looks), thread: Some(thread) });
        }
        let (seen, answer) = oneshot::channel();
        let look = Look { places: places.clone(), seen };
        looker.as_ref()?.looks.as_ref()?.send(look).ok()?;
        Some(answer)
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.looks = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that looks at disks panicked");
        }
    }
}

/// Looks at one box as long as it is asked to.
pub(crate) struct DiskWatch {
    places: Places,
    state: State,
}

/// What it waits for.
enum State {
    Rest(BoxFuture<'static, ()>),
    Look(oneshot::Receiver<Seen>),
    /// It has told, or cannot look.
    Over,
}

impl std::fmt::Debug for DiskWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskWatch").field("places", &self.places).finish_non_exhaustive()
    }
}

impl DiskWatch {
    /// Of a box that is about to begin.
    pub(crate) fn new(confinement: &Confinement, temp: &Path, clock: &dyn Clock) -> Self {
        let mut paths = vec![confinement.home.clone(), temp.to_owned()];
        for mount in confinement.mounts.iter().filter(|mount| mount.writable) {
            paths.push(match &mount.source {
                Source::Path(path) => path.clone(),
                Source::Layers { upper, .. } => upper.clone(),
            });
        }
        // As coarse as the stamps of files, so that none of them is older than this.
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let places = Places { paths, most: confinement.limits.disk_bytes, since: (now.tv_sec, now.tv_nsec) };
        Self { places, state: State::Rest(clock.sleep(SHORTEST)) }
    }

    /// Ends when the box has written too much, for which it is to be stopped. Can be given up and asked again.
    pub(crate) async fn next(&mut self, disk: &Disk, clock: &dyn Clock) -> Violation {
        loop {
            self.state = match &mut self.state {
                State::Rest(rest) => {
                    rest.await;
                    disk.ask(&self.places).map_or(State::Over, State::Look)
                }
                State::Look(look) => match look.await {
                    Ok(Seen { violation: Some(violation), .. }) => {
                        self.state = State::Over;
                        return violation;
                    }
                    Ok(Seen { violation: None, took }) => State::Rest(clock.sleep(rest_after(took))),
                    Err(_) => State::Over,
                },
                State::Over => return std::future::pending().await,
            };
        }
    }
}

impl Places {
    fn look(&self) -> Seen {
        let begun = Instant::now();
        let violation = self.full().or_else(|| self.too_much());
        Seen { violation, took: begun.elapsed() }
    }

    /// A disk that has nothing left for others.
    fn full(&self) -> Option<Violation> {
        let of = |path: &PathBuf| {
            let disk = statvfs(path).ok()?;
            let what = if is_full(disk.f_blocks, disk.f_bfree, disk.f_bavail) {
                "the disk"
            } else if is_full(disk.f_files, disk.f_ffree, disk.f_favail) {
                "the files that the disk can hold"
            } else {
                return None;
            };
            Some(violation(format!("less than {} % of {what} is free", 100 / FREE_PART)))
        };
        self.paths.iter().find_map(of)
    }

    fn too_much(&self) -> Option<Violation> {
        let mut sum = 0_u64;
        for path in &self.paths {
            if self.most > 0 {
                sum = sum.saturating_add(space_below(path, self.since, self.most));
            }
            if self.most > 0 && sum > self.most {
                return Some(violation(format!("more than {} MiB", self.most >> 20)));
            }
        }
        None
    }
}

/// How long a box is left alone after a look that took so long.
fn rest_after(took: Duration) -> Millis {
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    Millis::from_millis(took.saturating_mul(REST)).clamp(SHORTEST, LONGEST)
}

/// Of blocks or files: all, free, and free for anybody; what is kept for others is no part of the disk that we could have.
/// Where there is no bound all is 0.
const fn is_full(all: u64, free: u64, ours: u64) -> bool {
    let reachable = all.saturating_sub(free).saturating_add(ours);
    reachable > 0 && ours < reachable / FREE_PART
}

fn violation(what: String) -> Violation {
    Violation { kind: ViolationKind::Disk, what, count: 1 }
}

/// Bytes on disk of what was changed since then, counted until there are more than `enough`.
fn space_below(root: &Path, since: (i64, i64), enough: u64) -> u64 {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(found) = statat(rustix::fs::CWD, root, AtFlags::SYMLINK_NOFOLLOW) else { return 0 };
    if !is_directory(&found) {
        return space_of(&found, since);
    }
    let Ok(root) = openat(rustix::fs::CWD, root, flags, Mode::empty()) else { return 0 };
    let mut walk = Walk { since, enough, device: found.st_dev, bytes: 0 };
    let mut current = root;
    // Directories on the way down: their names that are still to be entered, and which they are.
    let mut levels = vec![(walk.list(&current), identity(&found))];
    while let Some((names, _)) = levels.last_mut() {
        if walk.bytes > enough {
            break;
        }
        if let Some(name) = names.pop() {
            let entered = openat(&current, name.as_c_str(), flags, Mode::empty());
            if let Ok(below) = entered
                && let Ok(found) = rustix::fs::fstat(&below)
                && found.st_dev == walk.device
            {
                levels.push((walk.list(&below), identity(&found)));
                current = below;
            }
            continue;
        }
        levels.pop();
        let Some((_, wanted)) = levels.last() else { break };
        // By the name that leads up, so that a deep tree takes no more descriptors than a flat one.
        match openat(&current, c"..", flags, Mode::empty()).map(|above| (rustix::fs::fstat(&above), above)) {
            Ok((Ok(found), above)) if identity(&found) == *wanted => current = above,
            // Somebody has moved it.
            _ => break,
        }
    }
    walk.bytes
}

struct Walk {
    since: (i64, i64),
    enough: u64,
    device: u64,
    bytes: u64,
}

impl Walk {
    /// Counts what is in a directory; returns the directories in it.
    fn list(&mut self, directory: &OwnedFd) -> Vec<CString> {
        let mut below = Vec::new();
        let Ok(entries) = Dir::read_from(directory) else { return below };
        for entry in entries.flatten() {
            let name: &CStr = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Ok(found) = statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            self.bytes = self.bytes.saturating_add(space_of(&found, self.since));
            if is_directory(&found) && found.st_dev == self.device {
                below.push(name.to_owned());
            }
            if self.bytes > self.enough {
                break;
            }
        }
        below
    }
}

fn is_directory(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
}

fn identity(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

/// Space in blocks of 512 bytes (stat(2)); a file with several names is counted for each, as a program that wants to hide
/// its files gains nothing by it.
fn space_of(found: &Stat, since: (i64, i64)) -> u64 {
    let changed = (found.st_ctime, i64::try_from(found.st_ctime_nsec).unwrap_or(0));
    if changed < since { 0 } else { u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_changed_is_counted_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/old"), vec![1; 300_000]).unwrap();
        let old = space_below(root, (0, 0), u64::MAX);
        assert!((300_000..400_000).contains(&old), "{old}");
        let stamp = fs::metadata(root.join("a/old")).unwrap();
        let since = {
            use std::os::unix::fs::MetadataExt as _;
            (stamp.ctime(), stamp.ctime_nsec() + 1)
        };
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("big"), vec![1; 3_000_000]).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("a/link")).unwrap();
        fs::write(root.join("a/b/new"), vec![1; 1_000_000]).unwrap();
        let hole = fs::File::create(root.join("hole")).unwrap();
        hole.set_len(1 << 40).unwrap();
        let new = space_below(root, since, u64::MAX);
        assert!((1_000_000..1_100_000).contains(&new), "{new}");
        assert!(space_below(root, since, 1000) > 1000, "enough is enough");
        assert_eq!(space_below(&root.join("missing"), (0, 0), 1), 0);
    }

    #[test]
    fn a_tree_deeper_than_paths_are_long_is_seen_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut deep = openat(rustix::fs::CWD, directory.path(), flags, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&deep, "deep", Mode::RWXU).unwrap();
            deep = openat(&deep, "deep", flags, Mode::empty()).unwrap();
        }
        let file = openat(&deep, "file", OFlags::WRONLY | OFlags::CREATE, Mode::RWXU).unwrap();
        rustix::io::write(&file, &[1; 100_000]).unwrap();
        let without = u64::from(3000_u32) * 4096;
        let all = space_below(directory.path(), (0, 0), u64::MAX);
        assert!(all >= 100_000 && all <= without + 200_000, "{all}");
        // What made it removes it: whoever takes paths cannot.
        while let Ok(above) = openat(&deep, "..", flags, Mode::empty()) {
            let _ = rustix::fs::unlinkat(&above, "file", AtFlags::empty());
            let _ = rustix::fs::unlinkat(&deep, "file", AtFlags::empty());
            if rustix::fs::unlinkat(&above, "deep", AtFlags::REMOVEDIR).is_err() {
                break;
            }
            deep = above;
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn slow_looks_are_rare_and_never_given_up() {
        let rests = [(0, 250), (12, 250), (13, 260), (400, 8000), (1500, 30_000), (1501, 30_000), (3_600_000, 30_000)];
        for (took, rest) in rests {
            assert_eq!(rest_after(Duration::from_millis(took)), Millis::from_millis(rest), "{took}");
        }
        assert_eq!(rest_after(Duration::MAX), LONGEST);
    }

    #[test]
    fn too_much_and_full_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let paths = vec![directory.path().to_owned()];
        let places = |most| Places { paths: paths.clone(), most, since: (0, 0) };
        fs::write(directory.path().join("x"), vec![1; 2_000_000]).unwrap();
        let what = |most| places(most).too_much().map(|violation| violation.what);
        assert_eq!(what(1 << 20).as_deref(), Some("more than 1 MiB"));
        assert_eq!(what(64 << 20), None);
        assert_eq!(what(0), None);
        let cases = [((1000, 60, 60), false), ((1000, 40, 40), true), ((1000, 300, 0), true), ((0, 0, 0), false)];
        for ((all, free, ours), full) in cases {
            assert_eq!(is_full(all, free, ours), full, "{all} {free} {ours}");
        }
        // Much is kept for others: of the 100 that we could have a tenth is left.
        assert!(!is_full(1000, 910, 10));
    }
}
