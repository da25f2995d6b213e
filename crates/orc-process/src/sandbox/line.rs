//! From a [`Confinement`] to the line that bwrap is started with.
//!
//! The order of arguments is the order in which bwrap mounts: system, private directories, what is mounted; last, what may
//! not be written to. Masks are added by `box-enter`, which sees what they are to hide. Whatever the line says about a file of the machine stands in it as [`Argument::Source`],
//! because only `box-enter` knows where the box user finds it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use orc_ports::executor::{BoxLimits, Confinement, Door, Source, StartError};
use serde::{Deserialize, Serialize};

use crate::protocol::{self, Bytes, Call, CallLimits, FrameError, Spawn, Streams, Tool};
use crate::sandbox::{BoxUser, Sandbox};

/// The home inside.
pub(crate) const HOME: &str = "/orc/home";
/// The name of the user inside.
pub(crate) const USER: &str = "agent";
/// The directory of `$ORC_OUTPUT` inside.
pub(crate) const RUN: &str = "/orc/run";
/// `$ORC_OUTPUT` inside.
pub(crate) const OUTPUT: &str = "/orc/run/output";
/// `$ORC_TEMP` inside.
pub(crate) const TEMP: &str = "/orc/temp";
/// The directory of the sockets of its doors inside, each called by its port.
const DOORS: &str = "/orc/doors";
/// Our own program inside.
pub(crate) const EXECUTABLE: &str = "/orc/orchestrator";
/// Bytes beside `$ORC_OUTPUT` in its directory.
const RUN_SLACK: u64 = 1024 * 1024;
/// Size of each of the directories in memory where a box has no bound on disk space, in bytes.
const UNBOUNDED_TMP: u64 = 1024 * 1024 * 1024;
/// Files and directories of `/etc` that programs need to find libraries, certificates and alternatives, read-only.
const ETC: [&str; 9] = [
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "pki",
    "protocols",
    "ssl",
];
/// Private keys among them: a group of ours could read them, and nobody inside needs them.
const PRIVATE: [&str; 2] = ["ssl/private", "pki/tls/private"];
/// Directories that are links into `/usr` where that is merged.
pub(crate) const MERGED: [&str; 5] = ["bin", "lib", "lib32", "lib64", "sbin"];

/// What `box-enter` is told: the first frame on its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entrance {
    /// Whom to become after having mounted every source; none: we are that already, and nothing needs mounting.
    pub(crate) user: Option<(u32, u32)>,
    /// Groups of the limits, as directories.
    pub(crate) groups: Vec<PathBuf>,
    /// Program and arguments.
    pub(crate) line: Vec<Argument>,
    /// Paths inside that are to be empty: `box-enter` sees what is there and adds what that takes to the line.
    pub(crate) masked: Vec<PathBuf>,
    /// What `/etc` is put together from, for bwrap and the box; nothing where the line says it.
    pub(crate) etc: Vec<Part>,
    /// The environment of bwrap.
    pub(crate) marks: Marks,
}

/// Something in `/etc` of a box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Its name below `/etc`.
    pub(crate) at: PathBuf,
    pub(crate) content: Content,
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Content {
    /// A file or directory of the machine.
    Bound(PathBuf),
    /// A file of our making.
    File(Bytes),
    /// A link.
    Link(String),
    /// An empty directory over one that is there.
    Hidden,
}

/// What `box-init` is told, as its argument: nothing here is a secret of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inside {
    /// Ports of its doors, whose sockets are at [`door_at`].
    pub(crate) doors: Vec<u16>,
    /// Bounds of each process inside.
    pub(crate) bounds: Bounds,
}

/// What a box has beside its program that counts as a process: the first thread of `box-init`, its ears and its answers, and
/// where a control group counts the process outside, else the watch. The relay of doors counts as the program's.
pub(crate) const OWN_PROCESSES: u64 = 4;

/// Bounds inside (getrlimit(2) for each process); 0 is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    /// Its descriptors.
    pub(crate) open_files: u64,
    /// Bytes of a file that it writes.
    pub(crate) file_bytes: u64,
    /// Processes and threads of the program together. Where a control group bounds them this is 0.
    pub(crate) processes: u64,
    /// Bytes of memory, of each process by the kernel, of all together by `box-init`. Likewise.
    pub(crate) memory_bytes: u64,
}

/// An argument of bwrap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Argument {
    /// As it stands.
    Text(String),
    /// The place where this is found.
    Path(PathBuf),
    /// The place where these layers are found as one.
    Layers { lower: Vec<PathBuf>, upper: PathBuf, work: PathBuf },
    /// The number of a descriptor from which this can be read.
    Data(Bytes),
}

/// The marks by which a left process is recognised, as its environment has them.
pub(crate) type Marks = Vec<(String, String)>;

/// A box to be made.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) confinement: &'a Confinement,
    /// A directory of the machine for `$ORC_TEMP`; none: one in memory.
    pub(crate) temp: Option<&'a Path>,
    /// Bytes of `$ORC_OUTPUT`.
    pub(crate) output_bytes: u64,
    /// The socket of its proxy, when it has a network.
    pub(crate) egress: Option<&'a Path>,
    /// Groups of its limits, as directories.
    pub(crate) groups: &'a [PathBuf],
    /// What it is recognised by.
    pub(crate) marks: Marks,
}

impl Request<'_> {
    /// Every way out of it; that to its proxy is one like others.
    fn doors(&self) -> Vec<Door> {
        let proxy = self.egress.map(|socket| Door { socket: socket.to_owned(), port: crate::relay::PORT });
        proxy.into_iter().chain(self.confinement.doors.iter().cloned()).collect()
    }

    fn bounds(&self) -> Bounds {
        let limits = &self.confinement.limits;
        let (open_files, file_bytes) = (limits.open_files.into(), limits.disk_bytes);
        let (processes, memory_bytes) =
            if self.groups.is_empty() { (limits.processes.into(), limits.memory_bytes) } else { (0, 0) };
        Bounds { open_files, file_bytes, processes, memory_bytes }
    }
}

/// Size of each directory in memory: as much as may be written, and at most a quarter of the memory, because there are up
/// to four and they count as memory.
fn memory_for_files(limits: &BoxLimits) -> u64 {
    let bounds = [limits.disk_bytes, limits.memory_bytes / 4];
    bounds.into_iter().filter(|bytes| *bytes > 0).min().unwrap_or(UNBOUNDED_TMP)
}

/// Where the socket of a door is inside.
pub(crate) fn door_at(port: u16) -> PathBuf {
    Path::new(DOORS).join(port.to_string())
}

/// What every box sees of the machine.
#[derive(Debug)]
pub(crate) struct SystemView {
    arguments: Vec<Argument>,
    /// Parts of `/etc`, where `box-enter` puts it together: each mount costs bwrap far more than the kernel, because it
    /// reads the table of all mounts for it.
    etc: Vec<Part>,
}

impl SystemView {
    /// As it is below `root`, which is `/`; `staged` if `box-enter` makes a root for bwrap, that has `/usr` and its like.
    pub(crate) fn of(root: &Path, user: BoxUser, staged: bool) -> Self {
        let mut line = Line::default();
        let mut bind = |path: PathBuf, at: &Path| {
            line.words(["--ro-bind"]);
            line.path(&if staged { at.to_owned() } else { path });
            line.path(at);
        };
        bind(root.join("usr"), Path::new("/usr"));
        let (links, directories): (Vec<_>, Vec<_>) =
            MERGED.into_iter().map(|name| (name, fs::read_link(root.join(name)))).partition(|(_, link)| link.is_ok());
        for (name, _) in directories {
            if root.join(name).is_dir() {
                bind(root.join(name), &Path::new("/").join(name));
            }
        }
        if staged {
            bind(PathBuf::new(), Path::new("/etc"));
        }
        for (name, target) in links {
            line.words(["--symlink", &target.unwrap_or_default().to_string_lossy(), &format!("/{name}")]);
        }
        let mut etc = parts_of_etc(root, user);
        if !staged {
            etc.drain(..).for_each(|part| line.part(part));
        }
        Self { arguments: line.0, etc }
    }
}

/// Of the machine only what is listed; the rest says who lives in the box, and that names are looked up nowhere.
fn parts_of_etc(root: &Path, user: BoxUser) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut add = |at: &str, content| parts.push(Part { at: at.into(), content });
    for name in ETC {
        let path = root.join("etc").join(name);
        if path.exists() {
            add(name, Content::Bound(path));
        }
    }
    for private in PRIVATE {
        let path = root.join("etc").join(private);
        // What is no plain directory leads elsewhere, where nothing is mounted.
        if fs::canonicalize(&path).is_ok_and(|found| found == path && found.is_dir()) {
            add(private, Content::Hidden);
        }
    }
    if let Ok(target) = fs::read_link(root.join("etc/localtime")) {
        add("localtime", Content::Link(target.to_string_lossy().into_owned()));
    }
    let BoxUser { uid, gid } = user;
    let passwd = format!(
        "root:x:0:0:root:/:/bin/false\n{USER}:x:{uid}:{gid}:{USER}:{HOME}:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
    );
    let group = format!("root:x:0:\n{USER}:x:{gid}:\nnogroup:x:65534:\n");
    for (name, text) in [
        ("passwd", passwd.as_str()),
        ("group", &group),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
        ("resolv.conf", ""),
    ] {
        add(name, Content::File(Bytes(text.into())));
    }
    parts
}

/// Arguments on their way.
#[derive(Debug, Default)]
struct Line(Vec<Argument>);

impl Line {
    fn words<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) {
        self.0.extend(words.into_iter().map(|word| Argument::Text(word.to_owned())));
    }

    fn path(&mut self, path: &Path) {
        self.0.push(Argument::Text(path.to_string_lossy().into_owned()));
    }

    fn bind(&mut self, how: &str, source: PathBuf, at: &Path) {
        self.words([how]);
        self.0.push(Argument::Path(source));
        self.path(at);
    }

    /// Lets bwrap make a part of `/etc`.
    fn part(&mut self, Part { at, content }: Part) {
        let at = Path::new("/etc").join(at);
        match content {
            Content::Bound(path) => self.bind("--ro-bind", path, &at),
            Content::File(bytes) => {
                self.words(["--file"]);
                self.0.push(Argument::Data(bytes));
                self.path(&at);
            }
            Content::Link(target) => {
                self.words(["--symlink", &target]);
                self.path(&at);
            }
            Content::Hidden => {
                self.words(["--perms", "0555", "--tmpfs"]);
                self.path(&at);
                self.words(["--remount-ro"]);
                self.path(&at);
            }
        }
    }

    fn memory(&mut self, at: &str, bytes: u64, mode: &str) {
        self.words(["--perms", mode, "--size", &bytes.to_string(), "--tmpfs", at]);
    }
}

/// The one call that `box-init` gets: the program, with what the box adds to its environment.
pub(crate) fn first_call(
    argv: &[String],
    mut env: BTreeMap<String, String>,
    directory: &Path,
    network: bool,
) -> Result<Vec<u8>, FrameError> {
    if network {
        let own = crate::relay::environment(crate::relay::PORT).into_iter();
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
    }
    for (name, value) in [("HOME", HOME), ("TMPDIR", "/tmp"), ("USER", USER), ("LOGNAME", USER)] {
        env.insert(name.to_owned(), value.to_owned());
    }
    let spawn = Spawn { argv: argv.to_vec(), env, streams: Streams::Inherited };
    let (cwd, limits) = (directory.to_owned(), CallLimits::default());
    protocol::encode(&protocol::Request::Call(Call { id: 1, tool: Tool::Spawn(spawn), cwd, deadline: None, limits }))
}

impl Sandbox {
    /// What `box-enter` is told.
    pub(crate) fn entrance(&self, request: &Request<'_>) -> Entrance {
        let inner = &self.inner;
        let confinement = request.confinement;
        let mut line = Line::default();
        line.path(&inner.bwrap);
        line.words(["--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session"]);
        line.words(["--die-with-parent", "--as-pid-1", "--hostname", "box"]);
        line.0.extend(inner.system.arguments.iter().cloned());
        let tmp_bytes = memory_for_files(&confinement.limits);
        line.words(["--proc", "/proc", "--dev", "/dev"]);
        line.memory("/dev/shm", tmp_bytes, "1777");
        line.memory("/tmp", tmp_bytes, "1777");
        line.memory(RUN, 2 * request.output_bytes + RUN_SLACK, "0755");
        line.bind("--ro-bind", inner.executable.clone(), Path::new(EXECUTABLE));
        match request.temp {
            Some(temp) => line.bind("--bind", temp.to_owned(), Path::new(TEMP)),
            None => line.memory(TEMP, tmp_bytes, "0700"),
        }
        if confinement.home.as_os_str().is_empty() {
            line.memory(HOME, tmp_bytes, "0700");
        } else {
            line.bind("--bind", confinement.home.clone(), Path::new(HOME));
        }
        let doors = request.doors();
        for Door { socket, port } in &doors {
            // Connecting needs no right to change it, and nobody inside has that.
            line.bind("--ro-bind", socket.clone(), &door_at(*port));
        }
        for mount in &confinement.mounts {
            line.words([if mount.writable { "--bind" } else { "--ro-bind" }]);
            line.0.push(match mount.source.clone() {
                Source::Path(path) => Argument::Path(path),
                Source::Layers { lower, upper, work } => Argument::Layers { lower, upper, work },
            });
            line.path(&mount.at);
        }
        let inside = Inside { doors: doors.iter().map(|door| door.port).collect(), bounds: request.bounds() };
        let inside = serde_json::to_string(&inside).unwrap_or_default();
        line.words([
            "--remount-ro",
            "/dev",
            "--remount-ro",
            "/",
            "--chdir",
            "/",
            "--",
            EXECUTABLE,
            "box-init",
            &inside,
        ]);
        let user = inner.staged.then_some((inner.user.uid, inner.user.gid));
        Entrance {
            user,
            groups: request.groups.to_vec(),
            line: line.0,
            masked: confinement.masked.clone(),
            etc: inner.system.etc.clone(),
            marks: request.marks.clone(),
        }
    }

    /// Gives the sockets of its doors to whom everything inside is.
    pub(crate) fn hand_doors_over(&self, request: &Request<'_>) -> Result<(), StartError> {
        let BoxUser { uid, gid } = self.inner.user;
        for Door { socket, port } in request.doors() {
            let found = fs::symlink_metadata(&socket).and_then(|found| match found.file_type().is_socket() {
                false => Err(io::Error::other("it is no socket")),
                true if self.inner.staged => std::os::unix::fs::lchown(&socket, Some(uid), Some(gid)),
                true => Ok(()),
            });
            found.map_err(|error| {
                let what = format!("its door at port {port} cannot lead to `{}`: {error}", socket.display());
                StartError::Box { what }
            })?;
        }
        Ok(())
    }

    /// Makes a directory that is bound into a box, private to whom everything inside is.
    pub(crate) fn make_private(&self, directory: &Path) -> io::Result<()> {
        use std::os::unix::fs::{DirBuilderExt, MetadataExt};
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let BoxUser { uid, gid } = self.inner.user;
        let found = fs::symlink_metadata(directory)?;
        if self.inner.staged && (found.uid(), found.gid()) != (uid, gid) {
            std::os::unix::fs::lchown(directory, Some(uid), Some(gid))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn limits(memory_bytes: u64, disk_bytes: u64) -> BoxLimits {
        BoxLimits { processes: 5, memory_bytes, disk_bytes, open_files: 6 }
    }

    #[test]
    fn directories_in_memory_take_a_part_of_it() {
        for (memory, disk, wanted) in
            [(0, 0, UNBOUNDED_TMP), (0, 7, 7), (8 * GIB, 0, 2 * GIB), (8 * GIB, GIB, GIB), (GIB, GIB, GIB / 4)]
        {
            assert_eq!(memory_for_files(&limits(memory, disk)), wanted, "{memory} {disk}");
        }
    }
}
