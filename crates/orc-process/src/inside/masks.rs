//! Paths inside that are empty and cannot be written, whether something is there or not.
//!
//! A directory is hidden by an empty one in memory, a file by an empty one; both cannot be written. What is not there, in
//! a directory that the program may write to, is made first, as an empty directory: git sees no empty directories, so a
//! copy shows no change. It stays in the copy.
//!
//! A mount point cannot be renamed or removed, but a directory above it can, and then somebody could make the path anew.
//! So every directory between what is mounted writable and the masked path becomes a mount point too, of itself. A file
//! that is moved out of such a directory is copied (as between two disks); nothing else changes.
//!
//! What it must never do: follow a link. One on the way to a masked path is refused.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::inside::targets::{self, Target, What};

/// Bytes of a directory in memory that only keeps its place.
const PLACE_BYTES: &str = "67108864";

/// Makes an empty file and tells the number of its descriptor; bwrap closes each after use.
type MakeEmpty<'a> = &'a mut dyn FnMut() -> Result<i32, String>;

/// Adds masks to a line for bwrap.
pub(super) fn put_on(line: &[PathBuf], masked: &[PathBuf], empty: MakeEmpty<'_>) -> Result<Vec<PathBuf>, String> {
    let targets = targets::targets(line)?;
    let mut found = Found::default();
    let sorted: BTreeSet<&Path> = masked.iter().map(PathBuf::as_path).collect();
    let mut last: Option<&Path> = None;
    for path in sorted {
        targets::refuse_odd(path)?;
        // What is below another one is as empty as that.
        if !last.is_some_and(|last| path.starts_with(last)) {
            found.look(path, &targets)?;
            last = Some(path);
        }
    }
    found.write(line, empty)
}

/// What the masks take.
#[derive(Debug, Default)]
struct Found {
    /// Directories that become mount points, each after which word of the line: before what is mounted below them. Those
    /// in memory have no place.
    kept: BTreeSet<(usize, PathBuf, Option<PathBuf>)>,
    /// What is hidden, and whether it is a directory.
    hidden: Vec<(PathBuf, bool)>,
}

impl Found {
    fn look(&mut self, path: &Path, targets: &[Target<'_>]) -> Result<(), String> {
        // Nothing is there, and the root cannot be written.
        let Some(target) = targets::above(targets, path) else { return Ok(()) };
        for above in path.ancestors().skip(1) {
            self.keep(above, targets);
        }
        let rest = path.strip_prefix(target.at).unwrap_or(Path::new(""));
        // The first is the target itself, the last the masked path.
        let steps = rest.ancestors().collect::<Vec<_>>().into_iter().rev();
        match target.what {
            What::Other => {}
            What::Memory => self.hidden.push((path.to_owned(), true)),
            What::Bound { place, writable } => {
                for step in steps {
                    match see(&place.join(step), writable) {
                        Ok(Some(found)) if found.is_symlink() => {
                            let (path, link) = (path.display(), target.at.join(step));
                            return Err(format!("`{path}` cannot be hidden: `{}` is a link", link.display()));
                        }
                        Ok(Some(found)) if step == rest => self.hidden.push((path.to_owned(), found.is_dir())),
                        // A file in the place of a directory: as a mount point it keeps that place.
                        Ok(Some(found)) if !found.is_dir() => {
                            let above = target.at.join(step);
                            self.kept.retain(|(_, at, _)| *at == above || !at.starts_with(&above));
                            break;
                        }
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(error) => {
                            return Err(format!("`{}` cannot be hidden: {error}", path.display()));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes a directory a mount point, if it can be moved and is none.
    fn keep(&mut self, directory: &Path, targets: &[Target<'_>]) {
        let Some(Target { at, what, end }) = targets::above(targets, directory) else { return };
        let below = directory.strip_prefix(at).unwrap_or(Path::new(""));
        let place = match what {
            _ if below.as_os_str().is_empty() => return,
            What::Bound { place, writable: true } => Some(place.join(below)),
            What::Memory => None,
            What::Bound { .. } | What::Other => return,
        };
        self.kept.insert((*end, directory.to_owned(), place));
    }

    fn write(self, line: &[PathBuf], empty: MakeEmpty<'_>) -> Result<Vec<PathBuf>, String> {
        let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
        let mut words = Vec::with_capacity(line.len() + 8 * (self.kept.len() + self.hidden.len()));
        let mut kept = self.kept.into_iter().peekable();
        for number in 0..=line.len() {
            while let Some((_, at, place)) = kept.next_if(|(after, ..)| *after == number) {
                match place {
                    Some(place) => words.extend(["--bind".into(), place, at]),
                    None => words.extend([
                        "--perms".into(),
                        "0755".into(),
                        "--size".into(),
                        PLACE_BYTES.into(),
                        "--tmpfs".into(),
                        at,
                    ]),
                }
            }
            if number == end {
                for (at, is_directory) in &self.hidden {
                    let at = at.clone();
                    if *is_directory {
                        let how = ["--perms", "0555", "--tmpfs"].map(PathBuf::from);
                        words.extend(how.into_iter().chain([at.clone(), "--remount-ro".into(), at]));
                    } else {
                        let how = ["--perms", "0444", "--ro-bind-data"].map(PathBuf::from);
                        words.extend(how.into_iter().chain([empty()?.to_string().into(), at]));
                    }
                }
            }
            words.extend(line.get(number).cloned());
        }
        Ok(words)
    }
}

/// What is at a place of the machine; where it can be written, nothing there becomes an empty directory. `None`: nobody
/// inside can have anything there.
fn see(place: &Path, writable: bool) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(place) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && writable => {
            fs::create_dir(place)?;
            fs::symlink_metadata(place).map(Some)
        }
        // Whoever may write there may open what is closed to us now.
        Err(error) if writable => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(line: &[&str], masked: &[&str]) -> Result<Vec<String>, String> {
        let line: Vec<PathBuf> = line.iter().map(PathBuf::from).collect();
        let masked: Vec<PathBuf> = masked.iter().map(PathBuf::from).collect();
        let words = put_on(&line, &masked, &mut || Ok(7))?;
        Ok(words.iter().map(|word| word.to_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn what_is_there_is_hidden_and_what_is_above_keeps_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join("copy");
        fs::create_dir_all(copy.join("a/b/c")).unwrap();
        fs::write(copy.join("a/file"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", copy.join("link")).unwrap();
        let place = copy.to_str().unwrap();
        let line = ["bwrap", "--bind", place, "/tree", "--ro-bind", "/x", "/tree/a/b/x", "--chdir", "/", "--", "init"];
        let words = expand(&line, &["/tree/a/b/c", "/tree/a/b/c/below", "/tree/a/file", "/elsewhere"]).unwrap();
        let wanted = format!(
            "bwrap --bind {place} /tree --bind {place}/a /tree/a --bind {place}/a/b /tree/a/b --ro-bind /x /tree/a/b/x \
             --chdir / --perms 0555 --tmpfs /tree/a/b/c --remount-ro /tree/a/b/c \
             --perms 0444 --ro-bind-data 7 /tree/a/file -- init"
        );
        assert_eq!(words.join(" "), wanted);
        // What is missing is made, unless it cannot be written anyway.
        assert!(expand(&line, &["/tree/new/deep"]).unwrap().join(" ").contains("--tmpfs /tree/new/deep"));
        assert!(copy.join("new/deep").is_dir());
        let closed = ["bwrap", "--ro-bind", place, "/tree", "--", "init"];
        assert_eq!(expand(&closed, &["/tree/other/deep"]).unwrap(), closed);
        assert!(!copy.join("other").exists());
        // What is above a mount on the way can be moved too.
        let nested = ["bwrap", "--bind", place, "/tree", "--ro-bind", place, "/tree/a/b", "--", "init"];
        let words = expand(&nested, &["/tree/a/b/a/file"]).unwrap().join(" ");
        let wanted = format!(
            "bwrap --bind {place} /tree --bind {place}/a /tree/a --ro-bind {place} /tree/a/b \
             --perms 0444 --ro-bind-data 7 /tree/a/b/a/file -- init"
        );
        assert_eq!(words, wanted);
        // A file where a directory would be keeps that place.
        let kept = expand(&line, &["/tree/a/file/below/deep"]).unwrap().join(" ");
        assert!(kept.contains(&format!("--bind {place}/a/file /tree/a/file ")) && !kept.contains("below"), "{kept}");
        for bad in ["/tree/link", "/tree/link/below", "relative", "/tree/../etc"] {
            assert!(expand(&line, &[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn in_memory_directories_are_made_for_it() {
        let line = ["bwrap", "--tmpfs", "/orc/home", "--", "init"];
        let words = expand(&line, &["/orc/home/.config/keys"]).unwrap().join(" ");
        let wanted = "bwrap --tmpfs /orc/home --perms 0755 --size 67108864 --tmpfs /orc/home/.config \
             --perms 0555 --tmpfs /orc/home/.config/keys --remount-ro /orc/home/.config/keys -- init";
        assert_eq!(words, wanted);
    }
}
