//! `box-enter`: from the outside to bwrap.
//!
//! As root it must be over quickly and trust nobody: it opens no file by a name that somebody in a box could have made,
//! but the sources that it was told, and from the moment it is the box user it is only a program like others.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::fs::{MemfdFlags, Mode, SeekFrom, memfd_create, seek};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change, unmount,
};
use rustix::process::{Gid, Uid, chdir, pivot_root};
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::inside::{masks, targets};
use crate::protocol::{self, Answer};
use crate::sandbox::{Argument, Content, Entrance, MERGED, Part};

/// Where the root for bwrap is put together, in a view of mounts that nobody else has.
const STAGING: &str = "/run/orchestrator-box";
/// The directory of the sources in it, by which the box user gets to each of them, wherever it lies.
const SOURCES: &str = "/sources";
/// The old root in the new one, for a moment.
const OLD: &str = "/old";

pub(super) fn run() -> ExitCode {
    // Only on failure does this return: else it has become bwrap.
    let message = match control().and_then(|mut control| {
        let error = enter(&mut control);
        let frame = protocol::encode(&Answer::Error { message: error.clone() }).map_err(|error| error.to_string())?;
        // Nobody listens: whoever started us is gone.
        let _ = control.write_all(&frame);
        Ok(error)
    }) {
        Ok(message) | Err(message) => message,
    };
    let _ = writeln!(io::stderr(), "box-enter: {message}");
    ExitCode::FAILURE
}

/// The socket of whoever started us.
fn control() -> Result<UnixStream, String> {
    let fd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
    fd.map(UnixStream::from).map_err(|error| format!("it has no standard input: {error}"))
}

fn enter(control: &mut UnixStream) -> String {
    match prepare(control) {
        Ok(mut bwrap) => {
            let error = bwrap.exec();
            format!("cannot start `{}`: {error}", bwrap.get_program().display())
        }
        Err(error) => error,
    }
}

fn prepare(control: &mut UnixStream) -> Result<Command, String> {
    let entrance: Option<Entrance> = protocol::read(control).map_err(|error| error.to_string())?;
    let Entrance { user, groups, line, masked, etc, marks } = entrance.ok_or("nothing was asked for")?;
    for group in groups {
        join(&group).map_err(|error| format!("cannot join the group `{}`: {error}", group.display()))?;
    }
    let mut staging = user.map(|_| Staging::new()).transpose()?;
    // Open until `exec` hands them on.
    let mut data: Vec<OwnedFd> = Vec::new();
    let mut words = Vec::with_capacity(line.len());
    for argument in line {
        words.push(match argument {
            Argument::Text(text) => text.into(),
            Argument::Path(path) => match &mut staging {
                Some(staging) => staging.bind(&path)?,
                None => path,
            },
            Argument::Layers { lower, upper, work } => match &mut staging {
                Some(staging) => staging.overlay(&lower, &upper, &work)?,
                None => return Err("layers can only be mounted by root".to_owned()),
            },
            Argument::Data(bytes) => {
                let fd = readable(&bytes.0).map_err(|error| format!("cannot hold a file in memory: {error}"))?;
                let number = fd.as_raw_fd().to_string();
                data.push(fd);
                number.into()
            }
        });
    }
    if let Some(mut staging) = staging {
        let made = staging.make_etc(&etc).and_then(|()| staging.enter());
        made.map_err(|error| format!("cannot make a root for bwrap: {error}"))?;
    }
    if let Some((uid, gid)) = user {
        become_user(uid, gid).map_err(|error| format!("cannot become the user {uid}: {error}"))?;
    }
    // As the box user: what it may not look at, bwrap and the program cannot reach either.
    let words = masks::put_on(&words, &masked, &mut || {
        let fd = readable(&[]).map_err(|error| format!("cannot hold a file in memory: {error}"))?;
        let number = fd.as_raw_fd();
        data.push(fd);
        Ok(number)
    })?;
    targets::check(&words)?;
    set_no_new_privs(true).map_err(|error| format!("cannot give up new privileges: {error}"))?;
    let (program, arguments) = words.split_first().ok_or("no program was named")?;
    #[expect(clippy::disallowed_methods, reason = "this process becomes that program; it starts no child")]
    let mut bwrap = Command::new(program);
    bwrap.args(arguments).env_clear().envs(marks);
    std::mem::forget(data);
    Ok(bwrap)
}

/// Joins a control group. Version 1 moves a single thread too, which this process is, and needs not wait for a moment in
/// which nothing on the machine begins or ends: that takes five milliseconds, most of a box on a machine at rest.
fn join(group: &Path) -> io::Result<()> {
    let open = |file| File::options().write(true).open(group.join(file));
    let mut file = match open("tasks") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => open("cgroup.procs"),
        opened => opened,
    }?;
    file.write_all(b"0")
}

/// A descriptor that stays open over `exec`, from which the bytes can be read.
fn readable(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("box", MemfdFlags::empty())?);
    file.write_all(bytes)?;
    seek(&file, SeekFrom::Start(0))?;
    Ok(file.into())
}

fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    if rustix::process::geteuid().is_root() || rustix::process::getegid().as_raw() == 0 {
        return Err(io::Error::other("it is root"));
    }
    Ok(())
}

/// A root that holds the system's programs and the sources, and nothing else of the machine: what bwrap cannot see cannot
/// get into a box by mistake, and it reads the table of all mounts for each that it makes.
struct Staging {
    places: usize,
}

impl Staging {
    fn new() -> Result<Self, String> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o711).create(STAGING);
        made.map_err(|error| format!("cannot make `{STAGING}`: {error}"))?;
        orc_kernel::unshare_mounts().map_err(|error| format!("cannot have a view of mounts of its own: {error}"))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).map_err(|error| format!("cannot make its view of mounts private: {error}"))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let memory = |error: io::Error| format!("cannot mount a directory in memory: {error}");
        mount("tmpfs", STAGING, "tmpfs", flags, Some(c"mode=0711")).map_err(|error| memory(error.into()))?;
        fs::DirBuilder::new().mode(0o711).create(below(SOURCES)).map_err(memory)?;
        Ok(Self { places: 0 })
    }

    /// Where the next source will be, once the root is entered.
    fn place(&mut self) -> PathBuf {
        self.places += 1;
        Path::new(SOURCES).join(self.places.to_string())
    }

    /// Puts `/etc` together. Nobody but us could have made a link in it.
    fn make_etc(&mut self, parts: &[Part]) -> io::Result<()> {
        // What is made here is for others to read, whatever the orchestrator was started with.
        let before = rustix::process::umask(Mode::from_raw_mode(0o022));
        let etc = below("/etc");
        fs::create_dir(&etc)?;
        for Part { at, content } in parts {
            let at = etc.join(at);
            match content {
                Content::Bound(source) => {
                    make_point(&at, fs::metadata(source)?.is_dir())?;
                    mount_bind_recursive(source, &at)?;
                }
                Content::File(bytes) => fs::write(at, &bytes.0)?,
                Content::Link(target) => std::os::unix::fs::symlink(target, at)?,
                Content::Hidden => {
                    let empty = below(self.place());
                    fs::create_dir(&empty)?;
                    mount_bind(empty, at)?;
                }
            }
        }
        rustix::process::umask(before);
        Ok(())
    }

    /// Makes it the root of this process, and lets go of the old one.
    fn enter(self) -> io::Result<()> {
        for name in ["usr", "dev", "proc"].into_iter().chain(MERGED) {
            let (path, at) = (Path::new("/").join(name), Path::new(STAGING).join(name));
            match fs::read_link(&path) {
                Ok(target) => std::os::unix::fs::symlink(target, at)?,
                Err(_) if !path.is_dir() => {}
                Err(_) => {
                    fs::create_dir(&at)?;
                    // Of the devices bwrap takes a few; what is mounted below them is the machine's.
                    if name == "dev" { mount_bind(&path, &at)? } else { mount_bind_recursive(&path, &at)? }
                }
            }
        }
        // bwrap works there.
        fs::create_dir(below("/tmp"))?;
        fs::create_dir(below(OLD))?;
        pivot_root(STAGING, below(OLD))?;
        chdir("/")?;
        unmount(OLD, UnmountFlags::DETACH)?;
        fs::remove_dir(OLD)
    }

    fn bind(&mut self, source: &Path) -> Result<PathBuf, String> {
        let failed = |error: io::Error| format!("cannot mount `{}`: {error}", source.display());
        let place = self.place();
        let at = below(&place);
        let made = fs::metadata(source).and_then(|found| make_point(&at, found.is_dir()));
        made.map_err(failed)?;
        mount_bind_recursive(source, &at).map_err(|error| failed(error.into()))?;
        Ok(place)
    }

    fn overlay(&mut self, lower: &[PathBuf], upper: &Path, work: &Path) -> Result<PathBuf, String> {
        let failed = |error: io::Error| format!("cannot mount layers over `{}`: {error}", upper.display());
        let place = self.place();
        let at = below(&place);
        fs::create_dir(&at).map_err(failed)?;
        let mut options = b"redirect_dir=on,lowerdir=".to_vec();
        for (index, layer) in lower.iter().enumerate() {
            if index > 0 {
                options.push(b':');
            }
            escape(layer, &mut options);
        }
        for (name, directory) in [(b",upperdir=", upper), (b",workdir=\0", work)] {
            options.extend(name.iter().filter(|byte| **byte != 0));
            escape(directory, &mut options);
        }
        let options = std::ffi::CString::new(options).map_err(|error| failed(error.into()))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("overlay", &at, "overlay", flags, Some(options.as_c_str())).map_err(|error| failed(error.into()))?;
        Ok(place)
    }
}

/// Something to mount over.
fn make_point(at: &Path, is_directory: bool) -> io::Result<()> {
    if is_directory { fs::create_dir(at) } else { File::create(at).map(drop) }
}

/// A path of the new root, as it is called while the old one is there.
fn below(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    Path::new(STAGING).join(path.strip_prefix("/").unwrap_or(path))
}

/// A path as overlayfs reads it (`Documentation/filesystems/overlayfs.rst`: colons and backslashes are escaped; commas too,
/// which end an option).
fn escape(path: &Path, into: &mut Vec<u8>) {
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b':' | b',' | b'\\') {
            into.push(b'\\');
        }
        into.push(*byte);
    }
}
