//! Files of our own: made whole or not at all, copied and removed without following a link.
//!
//! What is removed or copied may have been written by an agent, so every step goes through descriptors of directories and
//! never through a path that somebody could exchange. Depth costs neither stack nor descriptors.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use orc_ports::worktrees::WorktreeError;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// Whose files a box may write: user and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

pub(crate) fn failed(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> WorktreeError {
    let path = path.to_owned();
    move |source| WorktreeError::File { what, path, source }
}

/// Makes a directory with its parents; one that is there is fine.
pub(crate) fn make_directory(path: &Path) -> Result<(), WorktreeError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(failed("make", path))
}

/// Makes a directory with its parents that the box may write to.
pub(crate) fn make_open(path: &Path, owner: Option<Owner>) -> Result<(), WorktreeError> {
    make_directory(path)?;
    if let Some(Owner { uid, gid }) = owner {
        std::os::unix::fs::lchown(path, Some(uid), Some(gid)).map_err(failed("hand over", path))?;
    }
    Ok(())
}

/// Writes a file so that after a crash it is there whole, or as it was before.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WorktreeError> {
    let temporary = beside(path);
    let written = (|| {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written.map_err(failed("write", path))
}

/// A name in the same directory that nobody has.
pub(crate) fn beside(path: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let free = path.with_file_name(format!(".{name}.{}-{number}.new", std::process::id()));
        // An earlier process may have had our number.
        if !exists(&free) {
            return free;
        }
    }
}

/// Whether a path is there, not following a link at its end.
pub(crate) fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// Names in a directory, sorted; one that is not there has none.
pub(crate) fn names_in(path: &Path) -> Result<Vec<String>, WorktreeError> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", path)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(failed("read", path))?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Writes everything of the file system that `path` lies on to its disk.
pub(crate) fn settle(path: &Path) -> Result<(), WorktreeError> {
    let file = File::open(path).map_err(failed("open", path))?;
    rustix::fs::syncfs(&file).map_err(|error| failed("write", path)(error.into()))
}

/// Opens a file that a box left: nothing but a plain file, at most `bytes` long.
pub(crate) fn open_left(path: &Path, bytes: u64) -> Result<File, WorktreeError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed("read", path)(error.into()))?;
    let file = File::from(opened);
    let found = file.metadata().map_err(failed("read", path))?;
    let wrong = if found.is_file() && found.nlink() == 1 {
        (found.len() > bytes).then(|| format!("it has {} bytes, {bytes} are allowed", found.len()))
    } else {
        Some("it is no plain file".to_owned())
    };
    match wrong {
        Some(why) => Err(failed("take", path)(std::io::Error::other(why))),
        None => Ok(file),
    }
}

/// Copies a tree that nobody writes to: files, links, rights, times and, as root, owners.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<(), WorktreeError> {
    let mut open = vec![(from.to_owned(), to.to_owned())];
    let mut directories = Vec::new();
    while let Some((from, to)) = open.pop() {
        let found = std::fs::symlink_metadata(&from).map_err(failed("copy", &from))?;
        if found.is_dir() {
            if !exists(&to) {
                std::fs::create_dir(&to).map_err(failed("make", &to))?;
            }
            for entry in std::fs::read_dir(&from).map_err(failed("read", &from))? {
                let name = entry.map_err(failed("read", &from))?.file_name();
                open.push((from.join(&name), to.join(&name)));
            }
            directories.push((found, to));
        } else if found.is_symlink() {
            let target = std::fs::read_link(&from).map_err(failed("read", &from))?;
            std::os::unix::fs::symlink(target, &to).map_err(failed("make", &to))?;
            keep_attributes(&found, &to)?;
        } else {
            std::fs::copy(&from, &to).map_err(failed("copy", &from))?;
            keep_attributes(&found, &to)?;
        }
    }
    // Afterwards, since filling a directory changes its times.
    directories.iter().rev().try_for_each(|(found, to)| keep_attributes(found, to))
}

fn keep_attributes(found: &std::fs::Metadata, to: &Path) -> Result<(), WorktreeError> {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(to, Some(found.uid()), Some(found.gid())).map_err(failed("hand over", to))?;
    }
    if !found.is_symlink() {
        std::fs::set_permissions(to, std::fs::Permissions::from_mode(found.mode())).map_err(failed("change", to))?;
    }
    let time = |seconds: i64, nanos: i64| rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanos as _ };
    let times = rustix::fs::Timestamps {
        last_access: time(found.atime(), found.atime_nsec()),
        last_modification: time(found.mtime(), found.mtime_nsec()),
    };
    rustix::fs::utimensat(rustix::fs::CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| failed("change", to)(error.into()))
}

/// Bytes of disk of a tree. What cannot be read counts as nothing.
pub(crate) fn bytes_of(path: &Path) -> u64 {
    let mut open = vec![path.to_owned()];
    let mut bytes = 0;
    while let Some(path) = open.pop() {
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        // A file with several names is counted by its share, so that the sum stays true.
        bytes += found.blocks() * 512 / if found.is_dir() { 1 } else { found.nlink().max(1) };
        if found.is_dir() {
            let Ok(entries) = std::fs::read_dir(&path) else { continue };
            open.extend(entries.flatten().map(|entry| entry.path()));
        }
    }
    bytes
}

/// Removes a tree. A directory that is not empty is first moved to `aside`, a directory of the same file system, so that
/// however deep it is only two directories are ever open.
pub(crate) fn remove_tree(path: &Path, aside: &Path) -> Result<(), WorktreeError> {
    let error = |error: Errno| failed("remove", path)(error.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let parent = path.parent().unwrap_or(path);
    let parent = rustix::fs::open(parent, flags, Mode::empty()).map_err(error)?;
    let aside_fd = rustix::fs::open(aside, flags, Mode::empty()).map_err(error)?;
    let name = path.file_name().unwrap_or_default().to_owned();
    match rustix::fs::unlinkat(&parent, &*name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(other) => return Err(error(other)),
    }
    let first = beside(&aside.join(&name));
    let mut open = vec![first.file_name().unwrap_or_default().to_owned()];
    rustix::fs::renameat_with(&parent, &*name, &aside_fd, &*open[0], RenameFlags::NOREPLACE).map_err(error)?;
    while let Some(name) = open.pop() {
        let directory = match rustix::fs::openat(&aside_fd, &*name, flags, Mode::empty()) {
            Err(Errno::ACCESS) => {
                rustix::fs::chmodat(&aside_fd, &*name, Mode::RWXU, AtFlags::empty()).map_err(error)?;
                rustix::fs::openat(&aside_fd, &*name, flags, Mode::empty()).map_err(error)?
            }
            other => other.map_err(error)?,
        };
        // Without it nothing in a directory that its owner closed could be removed.
        let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
        let entries = Dir::read_from(&directory).map_err(error)?;
        for entry in entries {
            let entry = entry.map_err(error)?;
            let inner = entry.file_name();
            if matches!(inner.to_bytes(), b"." | b"..") {
                continue;
            }
            if entry.file_type() != FileType::Directory {
                match rustix::fs::unlinkat(&directory, inner, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => continue,
                    Err(Errno::ISDIR) => {}
                    Err(other) => return Err(error(other)),
                }
            }
            if rustix::fs::unlinkat(&directory, inner, AtFlags::REMOVEDIR).is_ok() {
                continue;
            }
            let moved = beside(&aside.join("inner")).file_name().unwrap_or_default().to_owned();
            if rustix::fs::renameat(&directory, inner, &aside_fd, &*moved) == Err(Errno::ACCESS) {
                // Moving a directory writes its `..`, which its own rights may forbid.
                rustix::fs::chmodat(&directory, inner, Mode::RWXU, AtFlags::empty()).map_err(error)?;
                rustix::fs::renameat(&directory, inner, &aside_fd, &*moved).map_err(error)?;
            }
            open.push(moved);
        }
        rustix::fs::unlinkat(&aside_fd, &*name, AtFlags::REMOVEDIR).map_err(error)?;
    }
    Ok(())
}
