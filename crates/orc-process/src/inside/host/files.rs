//! Files for a tool host: only what is a file, and never through a link.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::inside::programs;
use crate::protocol::{Blame, Bytes, Content, Failure, MAX_FILE_BYTES, Outcome, PathFacts, PathKind};

/// Links that are followed for one path: as many as the kernel does (path_resolution(7)).
const MOST_LINKS: usize = 40;

fn failed(error: &io::Error, path: &Path) -> Outcome {
    let failure = programs::failure(Blame::File, error);
    let hint = match failure.errno {
        Some(libc::ELOOP) => " (it leads through a link: ask where to, and name that)",
        _ => "",
    };
    Outcome::Failed(Failure { why: format!("`{}`: {}{hint}", path.display(), failure.why), ..failure })
}

fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

/// Reads a file of at most so many bytes.
pub(super) fn read(path: &Path, most: usize) -> Outcome {
    match try_read(path, most.min(MAX_FILE_BYTES)) {
        Ok(bytes) => Outcome::File(Bytes(bytes)),
        Err(error) => failed(&error, path),
    }
}

fn try_read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    // Whoever made a pipe of it is not waited for.
    let file = File::from(open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other(if found.is_dir() { "it is a directory" } else { "it is no file" }));
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes, which is all that can be read at once")));
    }
    Ok(bytes)
}

/// Writes a file in a directory that is there; one that was there keeps its mode.
pub(super) fn write(path: &Path, bytes: &[u8], id: u64) -> Outcome {
    match try_write(path, bytes, id) {
        Ok(()) => Outcome::Content(Content::Written),
        Err(error) => failed(&error, path),
    }
}

fn try_write(path: &Path, bytes: &[u8], id: u64) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("it names no file"));
    };
    let directory = open(directory, OFlags::PATH | OFlags::DIRECTORY)?;
    let mode = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Some(Mode::from_raw_mode(found.st_mode)),
            FileType::Symlink => return Err(Errno::LOOP.into()),
            _ => return Err(io::Error::other("something is there that is no file")),
        },
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    let beside = format!(".orc-write-{}-{id}", rustix::process::getpid().as_raw_pid());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(&directory, &beside, flags, Mode::from_raw_mode(0o666))?);
    let written = (|| {
        file.write_all(bytes)?;
        if let Some(mode) = mode {
            rustix::fs::fchmod(file.as_fd(), mode)?;
        }
        Ok(rustix::fs::renameat(&directory, &beside, &directory, name)?)
    })();
    if written.is_err() {
        // What is left of it is ours.
        let _ = rustix::fs::unlinkat(&directory, &beside, AtFlags::empty());
    }
    written
}

/// Where paths lead; relative ones count from the root.
pub(super) fn look(paths: &[PathBuf]) -> Outcome {
    let mut facts = Vec::with_capacity(paths.len());
    for path in paths {
        match resolve(path) {
            Ok(found) => facts.push(found),
            Err(error) => return failed(&error, path),
        }
    }
    Outcome::Content(Content::Paths(facts))
}

/// Follows links also where they lead to nothing, which is where a file would be made.
fn resolve(path: &Path) -> io::Result<PathFacts> {
    let mut ahead: VecDeque<OsString> = VecDeque::new();
    let queue = |path: &Path| -> Vec<OsString> {
        let parts = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    ahead.extend(queue(path));
    let mut canonical = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            canonical.pop();
            continue;
        }
        let next = canonical.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                if target.is_absolute() {
                    canonical = PathBuf::from("/");
                }
                for part in queue(&target).into_iter().rev() {
                    ahead.push_front(part);
                }
            }
            // No link, or nothing.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOENT | Errno::NOTDIR)) => {
                canonical = next;
            }
            Err(error) => return Err(error),
        }
    }
    let found = std::fs::symlink_metadata(&canonical).ok();
    let kind = found.as_ref().map(|found| match (found.is_file(), found.is_dir()) {
        (true, _) => PathKind::File,
        (_, true) => PathKind::Directory,
        _ => PathKind::Other,
    });
    let bytes = found.filter(std::fs::Metadata::is_file).map_or(0, |found| found.len());
    Ok(PathFacts { canonical, kind, bytes })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn why(outcome: Outcome) -> String {
        match outcome {
            Outcome::Failed(failure) => failure.why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_files_are_read_and_never_through_links() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().canonicalize().unwrap().join(name);
        std::fs::write(at("file"), "0123456789").unwrap();
        std::fs::create_dir(at("sub")).unwrap();
        symlink("file", at("link")).unwrap();
        symlink(".", at("here")).unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(read(&at("file"), 10), Outcome::File(Bytes(b"0123456789".to_vec())));
        assert!(why(read(&at("file"), 9)).contains("longer than 9 bytes"));
        assert!(why(read(&at("sub"), 9)).contains("a directory"));
        assert!(why(read(&at("pipe"), 9)).contains("no file"));
        for name in ["link", "here/file"] {
            assert!(why(read(&at(name), 100)).contains("through a link"));
            assert!(why(write(&at(name), b"x", 1)).contains("through a link"));
        }
        assert!(why(write(&at("sub"), b"x", 1)).contains("no file"));
        assert!(why(write(&at("none/file"), b"x", 1)).contains("No such file"));
        std::fs::set_permissions(at("file"), PermissionsExt::from_mode(0o751)).unwrap();
        assert_eq!(write(&at("file"), b"new", 1), Outcome::Content(Content::Written));
        assert_eq!(std::fs::read(at("file")).unwrap(), b"new");
        assert_eq!(std::fs::metadata(at("file")).unwrap().permissions().mode() & 0o7777, 0o751);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 5, "nothing is left beside it");
    }

    #[test]
    fn paths_are_told_as_they_lead() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::write(root.join("file"), "four").unwrap();
        symlink("/nowhere/at/all", root.join("away")).unwrap();
        symlink("turn", root.join("turn")).unwrap();
        symlink("..", root.join("up")).unwrap();
        let rows = [
            ("file", root.join("file"), Some(PathKind::File), 4),
            ("new/../new/deep", root.join("new/deep"), None, 0),
            ("away/x", "/nowhere/at/all/x".into(), None, 0),
            ("up", root.parent().unwrap().to_owned(), Some(PathKind::Directory), 0),
        ];
        for (path, canonical, kind, bytes) in rows {
            assert_eq!(resolve(&root.join(path)).unwrap(), PathFacts { canonical, kind, bytes }, "{path}");
        }
        assert!(why(look(&[root.join("turn")])).contains("link"));
    }
}
