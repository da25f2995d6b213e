//! Control groups of boxes: how many processes and how much memory all of a box may take together (cgroups(7)).
//!
//! Version 2 where the controllers are there and ours to use, else version 1, else none: then the kernel bounds each process
//! by itself, and `box-init` watches their sum. Each box has a group named after its run, beside those of other boxes below
//! the group that we are in, and with our own number and time of start in its name: whoever finds the group of a holder
//! that is gone removes it.
//!
//! Under version 2 a group that hands controllers on may hold no process itself. So before the first box we move into a
//! group of our own below the one that we were started in. Where others are in that one too, it cannot be done.
//!
//! What it must never do: end a process. A group that is not empty is left for the next look.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use orc_domain::confine::{Violation, ViolationKind};
use orc_ports::executor::BoxLimits;
use rustix::fs::Access;

use crate::proc;
use crate::sandbox::OWN_PROCESSES;

/// Begins the name of every group of ours.
const PREFIX: &str = "orchestrator-";
/// The group that we move into.
const SELF: &str = "self";

/// How the processes and the memory of a box are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// All of a box together, by control groups of version 2.
    GroupsV2,
    /// All of a box together, by control groups of version 1.
    GroupsV1,
    /// Each process by itself, their sum watched.
    EachProcess,
}

/// Where groups are made.
#[derive(Debug, PartialEq, Eq)]
enum Parents {
    V2(PathBuf),
    V1 { pids: PathBuf, memory: PathBuf },
    None,
}

/// Makes groups; looks where they can be made when the first is wanted.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    parents: OnceLock<Parents>,
    /// Could not be removed yet.
    later: Later,
}

/// Directories of groups that something was still in when their box was over: what was killed takes a moment to go.
type Later = Arc<Mutex<Vec<PathBuf>>>;

impl Groups {
    fn parents(&self) -> &Parents {
        self.parents.get_or_init(|| {
            let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
            let parents = find(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"), &["pids", "memory"]);
            remove_left(&parents);
            parents
        })
    }

    /// What they are made of.
    pub(crate) fn kind(&self) -> LimitKind {
        match self.parents() {
            Parents::V2(_) => LimitKind::GroupsV2,
            Parents::V1 { .. } => LimitKind::GroupsV1,
            Parents::None => LimitKind::EachProcess,
        }
    }

    /// Makes the group of a box; `None` where there are none, or nothing is bounded.
    pub(crate) fn make(&self, name: &str, limits: &BoxLimits) -> io::Result<Option<Group>> {
        if limits.processes == 0 && limits.memory_bytes == 0 {
            return Ok(None);
        }
        let name = format!("{}{name}", own_prefix()?);
        let directories = match self.parents() {
            Parents::V2(parent) => vec![parent.join(name)],
            Parents::V1 { pids, memory } => vec![pids.join(&name), memory.join(&name)],
            Parents::None => return Ok(None),
        };
        // Dropping it removes what is there already.
        let group = Group { directories, limits: *limits, later: Arc::clone(&self.later) };
        for directory in &group.directories {
            fs::create_dir(directory).map_err(|error| told(directory, &error))?;
        }
        let is_two = self.kind() == LimitKind::GroupsV2;
        let (first, last) = (&group.directories[0], &group.directories[group.directories.len() - 1]);
        if limits.processes > 0 {
            set(first, "pids.max", u64::from(limits.processes) + OWN_PROCESSES)?;
        }
        if limits.memory_bytes > 0 {
            let (name, swap, swap_bytes) = if is_two {
                ("memory.max", "memory.swap.max", 0)
            } else {
                ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", limits.memory_bytes)
            };
            set(last, name, limits.memory_bytes)?;
            if is_two {
                end_together(last);
            }
            // A kernel without swap has no such file.
            if last.join(swap).exists() {
                set(last, swap, swap_bytes)?;
            }
        }
        Ok(Some(group))
    }

    /// Removes the groups of holders that are gone, as far as they are empty.
    pub(crate) fn remove_left(&self) {
        remove_all(&self.later, Vec::new());
        remove_left(self.parents());
    }
}

/// A box that has used up its memory goes as a whole, and not the one of its processes that has most: what is left of it then
/// would wait for somebody who is gone. Not every kernel and not every delegation has this file.
fn end_together(directory: &Path) {
    let file = directory.join("memory.oom.group");
    if let Err(error) = File::options().write(true).open(&file).and_then(|mut file| file.write_all(b"1")) {
        tracing::debug!(file = %file.display(), %error, "out of memory, processes of a box end one by one");
    }
}

fn set(directory: &Path, name: &str, value: u64) -> io::Result<()> {
    let file = directory.join(name);
    fs::write(&file, value.to_string()).map_err(|error| told(&file, &error))
}

fn told(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

/// The group of a box. Dropping it removes it, as soon as nothing is in it.
#[derive(Debug)]
pub(crate) struct Group {
    directories: Vec<PathBuf>,
    limits: BoxLimits,
    later: Later,
}

impl Group {
    /// What `box-enter` is to join.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// What the kernel has refused or ended so far.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        let count = |files: [&str; 2], field: &str| {
            let read = |directory: &PathBuf, file: &str| fs::read_to_string(directory.join(file)).ok();
            let texts = self.directories.iter().flat_map(|directory| files.map(|file| read(directory, file)));
            texts.flatten().map(|text| field_of(&text, field)).sum::<u64>()
        };
        let BoxLimits { processes, memory_bytes, .. } = self.limits;
        let seen = [
            (ViolationKind::Processes, count(["pids.events", ""], "max"), format!("more than {processes}")),
            (
                ViolationKind::Memory,
                count(["memory.events", "memory.oom_control"], "oom_kill"),
                format!("more than {} MiB", memory_bytes >> 20),
            ),
        ];
        let violation = |(kind, count, what)| Violation { kind, what, count: u32::try_from(count).unwrap_or(u32::MAX) };
        seen.into_iter().filter(|(_, count, _)| *count > 0).map(violation).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove_all(&self.later, std::mem::take(&mut self.directories));
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        remove_all(&self.later, Vec::new());
    }
}

/// Removes these and what was left before, as far as nothing is in them.
fn remove_all(later: &Later, more: Vec<PathBuf>) {
    let mut later = later.lock().unwrap_or_else(PoisonError::into_inner);
    later.extend(more);
    later.retain(|directory| !is_removed(directory));
}

/// The number after the name, in lines of names and numbers.
fn field_of(text: &str, name: &str) -> u64 {
    let value = |line: &str| line.split_once(' ').filter(|(known, _)| *known == name)?.1.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

fn is_removed(directory: &Path) -> bool {
    fs::remove_dir(directory).map_or_else(|error| error.kind() == ErrorKind::NotFound, |()| true)
}

/// What the names of our groups begin with.
fn own_prefix() -> io::Result<String> {
    let pid = std::process::id().cast_signed();
    Ok(format!("{PREFIX}{pid}-{}-", proc::stat(pid)?.start_ticks))
}

/// Whether this is the name of a group whose holder is gone.
fn is_left(name: &str) -> bool {
    let mut numbers = name.strip_prefix(PREFIX).into_iter().flat_map(|rest| rest.splitn(3, '-'));
    let (pid, ticks) = (numbers.next().and_then(|word| word.parse().ok()), numbers.next());
    let (Some(pid), Some(Ok(ticks))) = (pid, ticks.map(str::parse::<u64>)) else { return false };
    numbers.next().is_some() && !proc::stat(pid).is_ok_and(|stat| stat.start_ticks == ticks && !stat.ended)
}

fn remove_left(parents: &Parents) {
    let parents: Vec<&PathBuf> = match parents {
        Parents::V2(parent) => vec![parent],
        Parents::V1 { pids, memory } => vec![pids, memory],
        Parents::None => Vec::new(),
    };
    for entry in parents.into_iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_left) {
            // What is still in it is ended by whoever looks for left processes.
            is_removed(&entry.path());
        }
    }
}

/// Looks for a place, given the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn find(own: &str, mounts: &str, controllers: &[&str; 2]) -> Parents {
    let may_write = |path: &Path| rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    if let Some(parent) = directory_of(own, mounts, None).filter(|path| may_write(path))
        && hand_on(&parent, controllers)
    {
        return Parents::V2(parent);
    }
    let version_1 = |controller| directory_of(own, mounts, Some(controller)).filter(|path| may_write(path));
    match (version_1(controllers[0]), version_1(controllers[1])) {
        (Some(pids), Some(memory)) => Parents::V1 { pids, memory },
        _ => Parents::None,
    }
}

/// Where the group is that we are in: of a controller of version 1, or of version 2.
fn directory_of(own: &str, mounts: &str, controller: Option<&str>) -> Option<PathBuf> {
    let has = |words: &str, wanted: &str| words.split(',').any(|word| word == wanted);
    // Number, controllers, path.
    let path = own.lines().find_map(|line| {
        let mut words = line.splitn(3, ':');
        let (number, controllers, path) = (words.next()?, words.next()?, words.next()?);
        let is_it = controller.map_or(number == "0", |wanted| has(controllers, wanted));
        is_it.then_some(path)
    })?;
    // proc_pid_mountinfo(5): what of the file system is mounted in column 4, where in 5, after a lone dash its kind, its
    // source and its options.
    let (root, at) = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1)?);
        let is_it = controller.map_or(name == "cgroup2", |wanted| name == "cgroup" && has(options, wanted));
        let mut place = place.split(' ').skip(3);
        is_it.then_some((place.next()?, place.next()?))
    })?;
    // In a container the path may be one that is not visible; what is mounted is then its own.
    let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or("").trim_start_matches('/');
    let found = Path::new(at).join(below);
    if found.is_dir() { Some(found) } else { Some(PathBuf::from(at)).filter(|at| at.is_dir()) }
}

/// Makes a group of version 2 hand its controllers on to those below it; moves us out of it if need be.
fn hand_on(group: &Path, controllers: &[&str; 2]) -> bool {
    let read = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    let all_in = |text: &str| controllers.iter().all(|wanted| text.split_whitespace().any(|word| word == *wanted));
    if !all_in(&read("cgroup.controllers")) {
        return false;
    }
    if all_in(&read("cgroup.subtree_control")) {
        return true;
    }
    let wanted = controllers.map(|controller| format!("+{controller}")).join(" ");
    let ask = || fs::write(group.join("cgroup.subtree_control"), &wanted);
    if ask().is_ok() {
        return true;
    }
    let Ok(prefix) = own_prefix() else { return false };
    let own = group.join(prefix + SELF);
    let moved = fs::create_dir(&own).and_then(|()| fs::write(own.join("cgroup.procs"), "0")).and_then(|()| ask());
    if let Err(error) = moved {
        // Others are in it too, or it is not ours to move in.
        tracing::debug!(group = %group.display(), %error, "no control groups of version 2");
        let _ = fs::write(group.join("cgroup.procs"), "0");
        is_removed(&own);
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Child, Command, Stdio};

    use super::*;

    const OWN: &str = "8:pids:/a/b\n4:memory:/a/b\n3:cpu,cpuacct:/\n0::/user.slice/x:y\n";

    fn mounts(root: &Path) -> String {
        let root = root.display();
        format!(
            "30 29 0:26 / {root}/pids rw,relatime shared:9 - cgroup cgroup rw,pids\n\
             31 29 0:27 /a {root}/memory rw,relatime - cgroup cgroup rw,memory\n\
             32 29 0:28 / {root}/unified rw,nosuid shared:3 master:1 - cgroup2 cgroup2 rw,nsdelegate\n"
        )
    }

    #[test]
    fn our_own_group_is_found_where_it_is_mounted() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for path in ["pids/a/b", "memory/b", "unified/user.slice/x:y"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let mounts = mounts(root);
        assert_eq!(directory_of(OWN, &mounts, Some("pids")), Some(root.join("pids/a/b")));
        assert_eq!(directory_of(OWN, &mounts, Some("memory")), Some(root.join("memory/b")));
        assert_eq!(directory_of(OWN, &mounts, None), Some(root.join("unified/user.slice/x:y")));
        assert_eq!(directory_of(OWN, &mounts, Some("cpu")), None, "not mounted");
        assert_eq!(directory_of("8:pids:/hidden\n", &mounts, Some("pids")), Some(root.join("pids")));
        assert_eq!(directory_of("", &mounts, None), None);
    }

    #[test]
    fn version_2_is_taken_with_its_controllers_only() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for path in ["pids/a/b", "memory/b", "unified/user.slice/x:y"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let unified = root.join("unified/user.slice/x:y");
        let mounts = mounts(root);
        let found = || find(OWN, &mounts, &["pids", "memory"]);
        let version_1 = Parents::V1 { pids: root.join("pids/a/b"), memory: root.join("memory/b") };
        assert_eq!(found(), version_1);
        fs::write(unified.join("cgroup.controllers"), "cpu pids\n").unwrap();
        assert_eq!(found(), version_1);
        fs::write(unified.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        assert_eq!(found(), Parents::V2(unified.clone()));
        assert_eq!(fs::read_to_string(unified.join("cgroup.subtree_control")).unwrap(), "+pids +memory");
        fs::remove_dir_all(root.join("memory")).unwrap();
        fs::remove_file(unified.join("cgroup.controllers")).unwrap();
        assert_eq!(found(), Parents::None);
    }

    #[test]
    fn only_groups_of_holders_that_are_gone_are_left() {
        let own = own_prefix().unwrap();
        assert!(!is_left(&format!("{own}run_1")));
        let pid = std::process::id();
        assert!(is_left(&format!("{PREFIX}{pid}-1-run_1")), "another process had the number");
        for other in ["orchestrator-boxes", "orchestrator-1", "user.slice", "orchestrator-x-1-run_1", "cgroup.procs"] {
            assert!(!is_left(other), "{other}");
        }
    }

    /// A program in a group of its own, as `box-enter` would have put it there. What it starts is bounded by itself.
    fn start_in(group: &Group, program: &str) -> Child {
        let join =
            group.directories().iter().map(|directory| format!("echo $$ >'{}/cgroup.procs'; ", directory.display()));
        let line = join.collect::<String>() + "exec perl -e \"$1\"";
        #[expect(clippy::disallowed_methods, reason = "a test of what bounds a program needs one")]
        let mut command = Command::new("/bin/sh");
        command.args(["-ec", &line, "sh", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    /// The group of a test, where there are any: nobody but who may write to them has them.
    fn group_for_a_test(groups: &Groups, name: &str, limits: &BoxLimits) -> Option<Group> {
        let group = groups.make(name, limits).unwrap();
        assert_eq!(group.is_some(), groups.kind() != LimitKind::EachProcess);
        if let Some(group) = &group {
            assert!(group.directories().iter().all(|directory| directory.is_dir()));
        }
        group
    }

    const NO_LIMITS: BoxLimits = BoxLimits { processes: 0, memory_bytes: 0, disk_bytes: 0, open_files: 0 };

    #[test]
    fn all_processes_of_a_group_are_bounded_together() {
        let groups = Groups::default();
        let Some(group) = group_for_a_test(&groups, "processes", &BoxLimits { processes: 8, ..NO_LIMITS }) else {
            return;
        };
        // Each waits until the first has counted; never more than 40.
        let program = "pipe(my $wait, my $go); my $count = 1; while ($count < 40) { my $pid = fork; last unless defined $pid; \
            if (!$pid) { close $go; sysread $wait, my $byte, 1; exit } $count++ } print $count; close $go; 1 while wait > 0;";
        let output = start_in(&group, program).wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), (8 + OWN_PROCESSES).to_string());
        let seen = group.violations();
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!((seen[0].kind, seen[0].what.as_str()), (ViolationKind::Processes, "more than 8"));
        let directories = group.directories().to_vec();
        drop(group);
        assert!(directories.iter().all(|directory| !directory.exists()));
    }

    #[test]
    fn memory_of_a_group_is_bounded() {
        use std::os::unix::process::ExitStatusExt as _;

        let groups = Groups::default();
        let Some(group) = group_for_a_test(&groups, "memory", &BoxLimits { memory_bytes: 32 << 20, ..NO_LIMITS })
        else {
            return;
        };
        let within = start_in(&group, "my $held = 'x' x (4 << 20); print 'had';").wait_with_output().unwrap();
        assert_eq!((within.status.code(), within.stdout), (Some(0), b"had".to_vec()));
        assert_eq!(group.violations(), []);
        let beyond = "my @held; for (1 .. 16) { push @held, 'x' x (8 << 20) } print 'had';";
        let output = start_in(&group, beyond).wait_with_output().unwrap();
        assert_eq!((output.status.signal(), output.stdout), (Some(9), Vec::new()));
        let seen = group.violations();
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!((seen[0].kind, seen[0].what.as_str()), (ViolationKind::Memory, "more than 32 MiB"));
    }

    #[test]
    fn a_group_goes_when_the_last_in_it_has_gone() {
        let groups = Groups::default();
        let Some(group) = group_for_a_test(&groups, "busy", &BoxLimits { processes: 8, ..NO_LIMITS }) else { return };
        let mut child = start_in(&group, "$| = 1; print 'in'; <STDIN>");
        let mut said = [0; 2];
        child.stdout.take().unwrap().read_exact(&mut said).unwrap();
        let directories = group.directories().to_vec();
        drop(group);
        assert!(directories.iter().all(|directory| directory.is_dir()), "somebody is in it, and is not ended for that");
        groups.remove_left();
        assert!(directories.iter().all(|directory| directory.is_dir()));
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "it was left alone");
        groups.remove_left();
        assert!(directories.iter().all(|directory| !directory.exists()));
    }

    #[test]
    fn groups_of_holders_that_are_gone_are_removed() {
        let groups = Groups::default();
        let Some(group) = group_for_a_test(&groups, "left", &BoxLimits { processes: 8, ..NO_LIMITS }) else { return };
        // Our number, at a time when another process had it.
        let left = format!("{PREFIX}{}-1-run", std::process::id());
        let left: Vec<PathBuf> = group.directories().iter().map(|directory| directory.with_file_name(&left)).collect();
        for directory in &left {
            fs::create_dir(directory).unwrap();
        }
        groups.remove_left();
        assert!(left.iter().all(|directory| !directory.exists()));
        assert!(group.directories().iter().all(|directory| directory.is_dir()), "its holder lives");
    }

    #[test]
    fn a_group_of_version_2_ends_as_a_whole_where_it_can() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("memory.oom.group");
        end_together(directory.path());
        assert!(!file.exists(), "nothing is made that the kernel does not have");
        fs::write(&file, "0").unwrap();
        end_together(directory.path());
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
    }

    #[test]
    fn counts_of_the_kernel() {
        assert_eq!(field_of("low 0\noom 3\noom_kill 2\n", "oom_kill"), 2);
        assert_eq!(field_of("max 7\n", "max"), 7);
        assert_eq!(field_of("oom_kill_disable 0\nunder_oom 0\n", "oom_kill"), 0);
    }
}
