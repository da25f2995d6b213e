//! The machine around the box of a test: files that nobody may read or change, doors where nobody may knock, a process that
//! must live on.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use orc_process::sandbox::BoxUser;
use tempfile::TempDir;
use uuid::Uuid;

/// A user that no machine has; nothing but what a test hands over belongs to it.
pub(crate) const BOX_USER: BoxUser = BoxUser { uid: 61_235, gid: 61_236 };

/// What a script may know of the machine, by the names of its environment.
pub(crate) struct World {
    directory: TempDir,
    /// Text that must never be seen in a box.
    pub(crate) canary: String,
    doors: Doors,
    victim: Child,
    /// Who is inside.
    pub(crate) user: BoxUser,
}

/// Directories of one attempt.
pub(crate) struct Place {
    root: PathBuf,
}

/// What listens outside.
struct Doors {
    tcp: TcpListener,
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    unix: UnixListener,
    named: UnixListener,
    name: String,
}

/// A file as it is: mode and content, or where a link leads.
pub(crate) type Files = BTreeMap<PathBuf, (u32, Vec<u8>)>;

impl Place {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
        let ours = BoxUser { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
        let user = if ours.uid == 0 { BOX_USER } else { ours };
        let canary = format!("canary-{}", Uuid::now_v7().simple());
        let root = directory.path();
        // Open to everybody: what keeps a box away is the box, not the modes of files.
        for name in ["outside", "outside/.ssh", "others", "others/copy", "store", "attempts"] {
            fs::create_dir(root.join(name)).unwrap();
            open_to_all(&root.join(name), 0o777);
        }
        for name in ["outside/canary", "outside/.ssh/id_ed25519", "others/copy/canary", "store/orchestrator.db"] {
            fs::write(root.join(name), &canary).unwrap();
            open_to_all(&root.join(name), 0o666);
        }
        let doors = Doors::new(root);
        #[expect(clippy::disallowed_methods, reason = "somebody outside, whom nobody inside may reach")]
        let mut victim = Command::new("cat");
        victim.env_clear().env("VICTIM", &canary).stdin(Stdio::piped()).stdout(Stdio::null());
        if ours.uid == 0 {
            victim.uid(user.uid).gid(user.gid);
        }
        let victim = victim.spawn().unwrap();
        Self { canary, doors, victim, user, directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// New directories of an attempt, owned by who is inside.
    pub(crate) fn place(&self, name: &str) -> Place {
        let root = self.path("attempts").join(name);
        for directory in ["", "copy", "copy/kept", "reference", "run", "home"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        fs::write(root.join("copy/kept/file"), "kept").unwrap();
        fs::write(root.join("reference/file"), "referred to").unwrap();
        for owned in ["copy", "copy/kept", "copy/kept/file", "reference", "reference/file", "home"] {
            chown(root.join(owned), Some(self.user.uid), Some(self.user.gid)).unwrap();
        }
        Place { root }
    }

    /// What scripts know: where things are outside, as a curious program would find out.
    pub(crate) fn known(&self) -> BTreeMap<String, String> {
        let text = |path: PathBuf| path.display().to_string();
        let doors = &self.doors;
        [
            ("PATH", "/usr/bin:/bin:/usr/sbin:/sbin".to_owned()),
            ("OUTSIDE", text(self.path("outside"))),
            ("OTHERS", text(self.path("others"))),
            ("STORE", text(self.path("store"))),
            ("SOCKET", text(self.path("others/socket"))),
            ("NAME", doors.name.clone()),
            ("PORT", doors.tcp.local_addr().unwrap().port().to_string()),
            ("UDP_PORT", doors.udp.local_addr().unwrap().port().to_string()),
            ("ADDRESS", own_address().to_string()),
            ("VICTIM_PID", self.victim.id().to_string()),
            ("OUTER_PID", std::process::id().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Everything outside that must stay as it is.
    pub(crate) fn files(&self, place: &Place) -> Files {
        let mut files = Files::new();
        for root in
            ["outside", "others", "store"].map(|name| self.path(name)).into_iter().chain([place.path("reference")])
        {
            look(&root, &mut files);
        }
        files
    }

    /// Puts everything outside back as it was.
    pub(crate) fn restore(&self, before: &Files) {
        for root in ["outside", "others", "store"].map(|name| self.path(name)) {
            let mut now = Files::new();
            look(&root, &mut now);
            for made in now.keys().filter(|path| !before.contains_key(*path)) {
                fs::remove_file(made).unwrap();
            }
            for (path, (mode, content)) in before.iter().filter(|(path, _)| path.starts_with(&root) && path.is_file()) {
                fs::write(path, content).unwrap();
                open_to_all(path, *mode);
            }
        }
    }

    /// Who knocked since the last time.
    pub(crate) fn knocks(&self) -> Vec<&'static str> {
        self.doors.knocks()
    }

    pub(crate) fn victim_lives(&mut self) -> bool {
        self.victim.try_wait().unwrap().is_none()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

impl Doors {
    fn new(root: &Path) -> Self {
        // On all addresses, so that the machine's own address is a door too.
        let tcp = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = tcp.local_addr().unwrap().port();
        let tcp6 = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).ok();
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let unix = UnixListener::bind(root.join("others/socket")).unwrap();
        open_to_all(&root.join("others/socket"), 0o777);
        let name = format!("door-{}", Uuid::now_v7().simple());
        let named = UnixListener::bind_addr(&UnixAddress::from_abstract_name(&name).unwrap()).unwrap();
        tcp.set_nonblocking(true).unwrap();
        tcp6.iter().for_each(|door| door.set_nonblocking(true).unwrap());
        udp.set_nonblocking(true).unwrap();
        unix.set_nonblocking(true).unwrap();
        named.set_nonblocking(true).unwrap();
        Self { tcp, tcp6, udp, unix, named, name }
    }

    fn knocks(&self) -> Vec<&'static str> {
        let mut knocks = Vec::new();
        let is_quiet = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        while self.tcp.accept().map_or_else(|error| !is_quiet(error), |_| true) {
            knocks.push("TCP");
        }
        while self.tcp6.as_ref().is_some_and(|door| door.accept().map_or_else(|error| !is_quiet(error), |_| true)) {
            knocks.push("TCP over IPv6");
        }
        while self.udp.recv(&mut [0; 64]).map_or_else(|error| !is_quiet(error), |_| true) {
            knocks.push("UDP");
        }
        for (door, what) in [(&self.unix, "unix socket"), (&self.named, "abstract unix socket")] {
            while door.accept().map_or_else(|error| !is_quiet(error), |_| true) {
                knocks.push(what);
            }
        }
        knocks
    }
}

/// The address by which others know this machine, or a loopback one if it has none. Nothing is sent.
fn own_address() -> std::net::IpAddr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    // An address of documentation (RFC 5737): only the route to it is looked up.
    let found = socket.connect(SocketAddr::from(([192, 0, 2, 1], 9))).and_then(|()| socket.local_addr());
    found.map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
}

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn look(path: &Path, into: &mut Files) {
    let found = fs::symlink_metadata(path).unwrap();
    let content = if found.is_file() {
        fs::read(path).unwrap()
    } else if found.is_symlink() {
        fs::read_link(path).unwrap().display().to_string().into_bytes()
    } else {
        Vec::new()
    };
    into.insert(path.to_owned(), (found.mode(), content));
    if found.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            look(&entry.unwrap().path(), into);
        }
    }
}
