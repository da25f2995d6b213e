//! Paths: where they lead, and files opened exactly there.
//!
//! A path is made canonical first, and what that gives is opened without following any link, so that what is read or
//! written is what is named in results and stamps. A pipe or a device is never waited for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::Refusal;

/// Most bytes of a file that is read, edited or written.
pub(super) const MOST_BYTES: usize = 32 << 20;
/// Longest path that the system takes, in bytes (path_resolution(7)).
const LONGEST_PATH: usize = 4_096;
/// Names of a directory that are looked at for one that is like another.
const MOST_NAMES: usize = 10_000;

/// Where a path leads.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The path without links.
    pub(super) path: PathBuf,
    /// What it is called in results.
    pub(super) shown: String,
    /// What it was asked for by, if a link is on the way.
    pub(super) link: Option<String>,
    /// What there is; none: nothing.
    pub(super) kind: Option<FileType>,
}

impl Place {
    /// Finds out where a path leads. What there is at the end of it need not exist.
    pub(super) fn find(asked: &str, cwd: &Path) -> Result<Self, Refusal> {
        if asked.is_empty() || asked.contains('\0') {
            return Err("The path is empty or holds a NUL: it names no file.".into());
        }
        if asked.len() >= LONGEST_PATH {
            return Err(format!("A path of {} bytes names no file: it is too long.", asked.len()).into());
        }
        // Only shells know it; a directory of this name is what somebody removes together with their home.
        if asked == "~" || asked.starts_with("~/") {
            return Err(format!("`{asked}`: `~` stands for no directory here. Give the whole path.").into());
        }
        let base = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let straight = straighten(&base.join(asked));
        let (path, kind) = resolve(&base.join(asked), &straight).map_err(|error| explain(asked, &error))?;
        let shown = show(&path, &base);
        if kind.is_none() && asked.ends_with('/') {
            return Err(format!("`{asked}` names a directory, and there is none.").into());
        }
        let link = (path != straight).then(|| show(&straight, &base));
        Ok(Self { path, shown, link, kind })
    }

    /// A sentence for results about where the link leads that was asked for.
    pub(super) fn detour(&self) -> String {
        let told = |link: &String| format!("[`{link}` leads through a link to `{}`]\n", self.shown);
        self.link.as_ref().map(told).unwrap_or_default()
    }

    /// Its name in stamps.
    pub(super) fn key(&self) -> Result<String, Refusal> {
        let text = self.path.to_str().map(str::to_owned);
        text.ok_or_else(|| format!("`{}`: the path is no UTF-8. Rename the file in Bash first.", self.shown).into())
    }

    /// Reads the whole file.
    pub(super) fn read(&self) -> Result<Vec<u8>, Refusal> {
        let refused = |why: &str| Refusal(format!("`{}` {why}", self.shown));
        match self.kind {
            None => return Err(self.missing()),
            Some(FileType::RegularFile) => {}
            Some(FileType::Directory) => {
                return Err(refused("is a directory. Use Glob, or `ls` in Bash, to see what is in it."));
            }
            Some(other) => return Err(refused(&format!("is {}, not a file: it is not opened.", kind_name(other)))),
        }
        let broken = |error: io::Error| Refusal(format!("`{}` cannot be read: {error}.", self.shown));
        let file = open_file(&self.path).map_err(broken)?;
        let mut bytes = Vec::new();
        let length = file.metadata().map_or(0, |found| found.len());
        if length <= MOST_BYTES as u64 {
            file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(broken)?;
        }
        if length > MOST_BYTES as u64 || bytes.len() > MOST_BYTES {
            return Err(refused(&format!(
                "has {length} bytes; at most {MOST_BYTES} are read at once. Use Grep to find a place in it, or head, tail and sed \
                 in Bash to see parts."
            )));
        }
        Ok(bytes)
    }

    /// That there is nothing, with what may have been meant.
    fn missing(&self) -> Refusal {
        let mut text = format!("There is no file `{}`.", self.shown);
        match &self.link {
            Some(link) => text.push_str(&format!(" `{link}` is, or leads through, a link to it.")),
            None => match self.similar() {
                Some(name) => text.push_str(&format!(" There is `{name}` beside it.")),
                None => text.push_str(" Use Glob to find it."),
            },
        }
        text.into()
    }

    /// A name beside it that is the same but for case or ending.
    fn similar(&self) -> Option<String> {
        let wanted = self.path.file_name()?.to_str()?.to_lowercase();
        let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let names = std::fs::read_dir(self.path.parent()?).ok()?.take(MOST_NAMES).flatten();
        let mut names: Vec<_> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        let is_same = |name: &&String| name.to_lowercase() == wanted;
        let is_like = |name: &&String| !stem(name).is_empty() && stem(&name.to_lowercase()) == stem(&wanted);
        names.iter().find(is_same).or_else(|| names.iter().find(is_like)).cloned()
    }
}

/// Says of each path where it leads. What leads nowhere leads where it stands.
pub(super) fn resolve_all(wanted: &super::input::Resolve, floor: &dyn orc_process::hands::Floor) -> super::Outcome {
    let found: BTreeMap<&String, String> = wanted
        .paths
        .iter()
        .map(|path| {
            let led = Place::find(path, floor.cwd()).ok().and_then(|place| place.path.to_str().map(str::to_owned));
            (path, led.unwrap_or_else(|| path.clone()))
        })
        .collect();
    let text = serde_json::to_string(&found).map_err(|error| Refusal(error.to_string()))?;
    Ok(super::told(text))
}

/// Opens a regular file for reading, through no link and without waiting for anybody.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)?);
    let found = rustix::fs::fstat(file.as_fd())?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(file),
        other => Err(io::Error::other(format!("it is {}", kind_name(other)))),
    }
}

/// What a conversation remembers of a file that it saw: its content, in short. Times say less, since copies are made anew.
pub(super) fn stamp(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Stamps of one file.
pub(super) fn stamped(place: &Place, bytes: &[u8]) -> Result<BTreeMap<String, String>, Refusal> {
    Ok(BTreeMap::from([(place.key()?, stamp(bytes))]))
}

/// A path as results show it: from the working directory if it is below that.
pub(super) fn show(path: &Path, base: &Path) -> String {
    let short = path.strip_prefix(base).unwrap_or(path);
    if short.as_os_str().is_empty() { ".".to_owned() } else { short.to_string_lossy().into_owned() }
}

pub(super) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    }
}

/// Without `.` and `..`, as if there were no links.
fn straighten(path: &Path) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                straight.pop();
            }
            other => straight.push(other),
        }
    }
    straight
}

/// The path without links, also where the last parts of it do not exist.
fn resolve<'a>(mut path: &'a Path, mut straight: &'a Path) -> io::Result<(PathBuf, Option<FileType>)> {
    let mut missing = Vec::new();
    let (mut found, kind) = loop {
        match path.canonicalize() {
            Ok(found) => {
                let kind = rustix::fs::lstat(&found)?.st_mode;
                break (found, Some(FileType::from_raw_mode(kind)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (Some(parent), Some(name)) = (straight.parent(), straight.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        // A link that leads to nothing: what it leads to is what does not exist.
        if let Ok(target) = std::fs::read_link(straight) {
            break (straighten(&parent.canonicalize()?.join(target)), None);
        }
        missing.push(name);
        (path, straight) = (parent, parent);
    };
    match kind {
        _ if missing.is_empty() => return Ok((found, kind)),
        None | Some(FileType::Directory) => {}
        Some(_) => return Err(io::ErrorKind::NotADirectory.into()),
    }
    found.extend(missing.iter().rev());
    Ok((found, None))
}

fn explain(asked: &str, error: &io::Error) -> Refusal {
    let why = match error.kind() {
        io::ErrorKind::NotADirectory => "a part of the path is a file, not a directory".to_owned(),
        io::ErrorKind::PermissionDenied => "it may not be looked at from here".to_owned(),
        _ if Errno::from_io_error(error) == Some(Errno::LOOP) => "its links lead in a circle".to_owned(),
        _ => error.to_string(),
    };
    Refusal(format!("`{asked}` leads nowhere: {why}."))
}
