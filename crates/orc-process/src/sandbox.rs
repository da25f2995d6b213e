//! Boxes: what a program may see and use, made by bubblewrap and by our own small programs around and inside of it.
//!
//! The processes of a box, from the outside in:
//! 1. `box-enter` ([`crate::inside`]), started by us, or copied from a process of ours that waits for it. It joins the groups of the limits; as root it makes a view of mounts
//!    of its own, puts a root together there that has the system's programs and what the box is to hold and nothing else,
//!    lets go of the machine's root, and becomes the box user for good. It turns into
//! 2. `bwrap`, which makes the namespaces and waits outside of them. Inside it starts
//! 3. `box-init`, the first process inside: it puts Landlock, seccomp and limits on, starts the program, collects whatever
//!    loses its parent, and tells how the program ended. With it everything inside ends.
//!
//! What holds:
//! - No process inside, and not bwrap either, has the number 0 as user outside, or any capability there.
//! - Nothing is mounted where others see it; all mounts go with the last process of the box.
//! - What the box is told goes through a socket that is the standard input of the first two processes, so that no
//!   descriptor is ever inherited by accident; the program's own standard input is handed over through it.
//! - `ORC_INSTANCE` and `ORC_RUN_ID` stay in the environment of these processes: that is how a left box is found.
//!
//! What it must never do: make a weaker box than was asked for. What is missing is an error that says what helps.
//!
//! Where to go next: `line` (the arguments of bwrap), `blocking` (a program in a box from beginning to end).

mod blocking;
pub(crate) mod line;
mod porter;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orc_ports::executor::{BoxLimits, StartError};

pub(crate) use blocking::refusal_of;
pub use blocking::{BoxError, BoxedCommand, Finished, Stdin, Stdout};
pub(crate) use line::{
    Argument, Bounds, Content, Entrance, HOME, Inside, MERGED, Marks, OUTPUT, OWN_PROCESSES, Part, RUN, Request, TEMP,
    door_at,
};
pub(crate) use porter::Porter;

pub use crate::groups::LimitKind;
use crate::groups::{Group, Groups};
use crate::sandbox::line::SystemView;

/// Where bubblewrap is looked for. Not `PATH`: whoever may set that must not choose the program that makes the wall.
const DIRECTORIES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/bin"];

/// What boxes are made of on this machine.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// Who everything inside is when the orchestrator runs as root. Not used otherwise: inside it is who we are.
    pub user: Option<BoxUser>,
    /// Our own program, which is started again around and in the box.
    pub executable: PathBuf,
}

/// A user of the machine that owns nothing but what boxes work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxUser {
    /// Its number.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
}

impl BoxUser {
    /// The name of the user that `doctor --fix` makes.
    pub const NAME: &str = "orchestrator-box";

    /// The user of that name, as the text of `/etc/passwd` has it.
    #[must_use]
    pub fn find(passwd: &str, name: &str) -> Option<Self> {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map(str::parse::<u32>);
        Some(Self { uid: numbers.next()?.ok()?, gid: numbers.next()?.ok()? })
    }

    /// Us, unless we are root.
    fn ourselves() -> Option<Self> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        (!uid.is_root()).then(|| Self { uid: uid.as_raw(), gid: gid.as_raw() })
    }
}

/// Something without which there is no box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What is missing.
    pub what: String,
    /// What to do about it.
    pub install: String,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.what, self.install)
    }
}

/// Makes boxes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bwrap: PathBuf,
    executable: PathBuf,
    /// Who everything inside is.
    user: BoxUser,
    /// We are root: sources are mounted for the box user first.
    staged: bool,
    system: SystemView,
    groups: Groups,
}

impl Sandbox {
    /// Looks whether boxes can be made here, without starting anything: microseconds.
    ///
    /// # Errors
    /// Everything that is missing.
    pub fn probe(settings: &SandboxSettings) -> Result<Self, Vec<Missing>> {
        let mut missing = Vec::new();
        let mut lacks = |what: String, install: &str| missing.push(Missing { what, install: install.to_owned() });
        let bwrap = DIRECTORIES.iter().map(|directory| Path::new(directory).join("bwrap")).find(|path| path.is_file());
        if bwrap.is_none() {
            lacks(
                format!("bubblewrap is not installed (looked for `bwrap` in {})", DIRECTORIES.join(", ")),
                "install it: `apt install bubblewrap` (version 0.8 or newer)",
            );
        }
        if !settings.executable.is_file() {
            let what = format!("our own program is not at `{}`", settings.executable.display());
            lacks(what, "it was moved or removed: start the orchestrator again");
        }
        let user = BoxUser::ourselves().or(settings.user.filter(|user| user.uid != 0));
        if user.is_none() {
            lacks(
                "started as root, and there is no user for boxes".to_owned(),
                "run `orchestrator doctor --fix`, which makes the user `orchestrator-box`, or set `box.uid`",
            );
        }
        for (file, refusing) in [("user/max_user_namespaces", "0"), ("kernel/unprivileged_userns_clone", "0")] {
            if std::fs::read_to_string(Path::new("/proc/sys").join(file)).is_ok_and(|text| text.trim() == refusing) {
                let name = file.replace('/', ".");
                let value = if name.starts_with("user") { 65536 } else { 1 };
                lacks(format!("`{name}` is 0: no user namespaces"), &format!("`sysctl -w {name}={value}`"));
            }
        }
        let (Some(bwrap), Some(user), true) = (bwrap, user, missing.is_empty()) else { return Err(missing) };
        let executable = settings.executable.clone();
        let staged = rustix::process::geteuid().is_root();
        let system = SystemView::of(Path::new("/"), user, staged);
        Ok(Self { inner: Arc::new(Inner { bwrap, executable, user, staged, system, groups: Groups::default() }) })
    }

    /// Version of the kernel's Landlock, the wall behind the mounts; 0: there is none.
    #[must_use]
    pub fn landlock_version(&self) -> i32 {
        orc_kernel::landlock_version()
    }

    /// How processes and memory of a box are bounded here. Under control groups of version 2 the first call may move this
    /// process into a group of its own.
    #[must_use]
    pub fn limits(&self) -> LimitKind {
        self.inner.groups.kind()
    }

    /// The control group of a box, by a name that no other box of this process has.
    pub(crate) fn group(&self, name: &str, limits: &BoxLimits) -> Result<Option<Group>, StartError> {
        let made = self.inner.groups.make(name, limits);
        made.map_err(|error| StartError::Box { what: format!("no control group for its limits: {error}") })
    }

    /// Removes the control groups of holders that are gone, as far as nothing is in them.
    pub(crate) fn remove_left_groups(&self) {
        self.inner.groups.remove_left();
    }

    /// Who everything in a box is, and owns what is mounted writable.
    #[must_use]
    pub fn user(&self) -> BoxUser {
        self.inner.user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\norchestrator-boxes:x:7:8::/:/bin/false\nbroken:x\n\
            orchestrator-box:x:998:997:boxes:/nonexistent:/usr/sbin/nologin\n";
        assert_eq!(BoxUser::find(passwd, BoxUser::NAME), Some(BoxUser { uid: 998, gid: 997 }));
        assert_eq!(BoxUser::find(passwd, "broken"), None);
        assert_eq!(BoxUser::find(passwd, "nobody"), None);
    }
}
