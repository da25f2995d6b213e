//! Writing a file whole: beside it first, then renamed. What was there keeps its mode.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};

use super::Refusal;
use super::place::{Place, kind_name};

/// Tells files apart that are written at the same time.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Writes a file, with the directories on the way to it.
pub(super) fn save(place: &Place, bytes: &[u8]) -> Result<(), Refusal> {
    try_save(place, bytes).map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                ": it may not be written from here; stay within the working directory"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ": remove what is not needed first",
            _ => "",
        };
        Refusal(format!("`{}` cannot be written: {error}{help}. It is as it was.", place.shown))
    })
}

fn try_save(place: &Place, bytes: &[u8]) -> io::Result<()> {
    let (Some(parent), Some(name)) = (place.path.parent(), place.path.file_name()) else {
        return Err(io::Error::other("it names no file"));
    };
    std::fs::create_dir_all(parent)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let mode = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Some(Mode::from_raw_mode(found.st_mode)),
            other => return Err(io::Error::other(format!("there is {} now", kind_name(other)))),
        },
        Err(rustix::io::Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let beside = format!(".orc-edit-{}-{number}", rustix::process::getpid().as_raw_pid());
    let written = write_beside(&directory, beside.as_ref(), name, (bytes, mode));
    if written.is_err() {
        // What is left of it is ours.
        let _ = rustix::fs::unlinkat(&directory, &beside, AtFlags::empty());
    }
    written
}

fn write_beside(
    directory: &OwnedFd,
    beside: &OsStr,
    name: &OsStr,
    (bytes, mode): (&[u8], Option<Mode>),
) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(directory, beside, flags, Mode::from_raw_mode(0o666))?);
    file.write_all(bytes)?;
    if let Some(mode) = mode {
        rustix::fs::fchmod(file.as_fd(), mode)?;
    }
    Ok(rustix::fs::renameat(directory, beside, directory, name)?)
}
