//! Landlock: a second wall at the same places as the mounts, should one of those give way.
//!
//! What is mounted is read from the kernel, not told again: what is mounted read-only may be read and executed, what is
//! mounted writable may be changed, of the root only names may be listed. `/proc` may be read. Where the kernel can
//! (version 6 of its interface, Linux 6.12), signals and abstract sockets reach only what is in the box too.
//!
//! It takes what the kernel has, and no kernel without it is refused: everything here is kept by the mounts already. Version
//! 1 (before Linux 5.19) is left out, because under it no file can be moved to another directory, which programs do.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
    path_beneath_rules,
};

/// The newest version that is used.
const NEWEST: ABI = ABI::V6;
/// The oldest.
const OLDEST: i32 = 2;

/// A place where something is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mounted {
    at: PathBuf,
    rights: Rights,
}

/// What may be done below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rights {
    /// Names of what is there.
    List,
    Read,
    ReadAndExecute,
    All,
}

impl Rights {
    fn access(self) -> BitFlags<AccessFs> {
        match self {
            Self::List => AccessFs::ReadDir.into(),
            Self::Read => AccessFs::ReadDir | AccessFs::ReadFile,
            Self::ReadAndExecute => AccessFs::from_read(NEWEST),
            Self::All => AccessFs::from_all(NEWEST),
        }
    }
}

/// Restricts this thread and everything that it starts from now on.
pub(super) fn restrict() -> Result<(), String> {
    if orc_kernel::landlock_version() < OLDEST {
        return Ok(());
    }
    let file = "/proc/self/mountinfo";
    let text = fs::read(file).map_err(|error| format!("cannot read `{file}`: {error}"))?;
    let failed = |error: ::landlock::RulesetError| format!("cannot restrict what may be opened (Landlock): {error}");
    let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let rules = rules.handle_access(AccessFs::from_all(NEWEST)).and_then(|rules| rules.scope(Scope::from_all(NEWEST)));
    let mut rules = rules.and_then(Ruleset::create).map_err(failed)?;
    for Mounted { at, rights } in without_repetitions(mounted(&text)) {
        // What this user cannot walk to cannot be opened by the program either.
        rules = rules.add_rules(path_beneath_rules([at], rights.access())).map_err(failed)?;
    }
    rules.restrict_self().map(drop).map_err(failed)
}

/// Out of `/proc/self/mountinfo` (proc_pid_mountinfo(5)): place in column 5, options of the mount in 6, after a lone dash
/// the kind of file system.
fn mounted(text: &[u8]) -> Vec<Mounted> {
    let mut places = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let kind = words.iter().position(|word| *word == b"-").and_then(|dash| words.get(dash + 1));
        let (Some(at), Some(options), Some(kind)) = (words.get(4), words.get(5), kind) else { continue };
        let at = PathBuf::from(std::ffi::OsString::from_vec(unescape(at)));
        let is_writable = options.split(|byte| *byte == b',').any(|option| option == b"rw");
        let rights = match *kind {
            b"proc" => Rights::Read,
            _ if at.as_path() == Path::new("/") => Rights::List,
            _ if at.starts_with("/proc") => continue,
            _ if is_writable => Rights::All,
            _ => Rights::ReadAndExecute,
        };
        places.push(Mounted { at, rights });
    }
    // Where bwrap made it, it lies in the root.
    places.push(Mounted { at: "/etc".into(), rights: Rights::ReadAndExecute });
    places
}

/// A rule holds for everything below its place, so what lies below one that allows the same needs none.
fn without_repetitions(places: Vec<Mounted>) -> Vec<Mounted> {
    let is_said = |place: &Mounted| {
        let mut above = places.iter().filter(|above| above.at != place.at && place.at.starts_with(&above.at));
        above.any(|above| above.rights == place.rights)
    };
    places.iter().filter(|place| !is_said(place)).cloned().collect()
}

/// Spaces, tabs, line ends and backslashes are written as three digits of base 8.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *byte == b'\\');
        let value = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(value.unwrap_or(*byte));
        rest = if value.is_some() { &after[3..] } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_follow_the_mounts() {
        let text = b"1 0 0:1 / / ro,nosuid - tmpfs tmpfs rw\n\
            2 1 8:1 /usr /usr ro,nosuid,nodev - ext4 /dev/a rw\n\
            3 1 0:2 / /proc rw,nosuid - proc proc rw\n\
            4 3 0:2 /sys /proc/sys ro - proc proc rw\n\
            5 1 8:1 /x /tree/with\\040space\\134 rw,nosuid shared:7 master:2 - ext4 /dev/a rw,errors=ro\n\
            6 1 0:3 / /dev/shm rw - tmpfs tmpfs rw\n\
            broken\n";
        let found: Vec<(String, Rights)> =
            mounted(text).into_iter().map(|place| (place.at.display().to_string(), place.rights)).collect();
        let wanted = [
            ("/", Rights::List),
            ("/usr", Rights::ReadAndExecute),
            ("/proc", Rights::Read),
            ("/proc/sys", Rights::Read),
            ("/tree/with space\\", Rights::All),
            ("/dev/shm", Rights::All),
            ("/etc", Rights::ReadAndExecute),
        ];
        assert_eq!(found, wanted.map(|(at, rights)| (at.to_owned(), rights)));
    }

    #[test]
    fn a_place_below_one_that_allows_the_same_needs_no_rule() {
        let place = |(at, rights): (&str, Rights)| Mounted { at: at.into(), rights };
        let places = [
            ("/", Rights::List),
            ("/etc", Rights::ReadAndExecute),
            ("/etc/ssl", Rights::ReadAndExecute),
            ("/etcetera", Rights::ReadAndExecute),
            ("/etc/ssl/open", Rights::All),
            ("/proc", Rights::Read),
            ("/proc/sys", Rights::Read),
            ("/etc", Rights::ReadAndExecute),
        ];
        let kept = without_repetitions(places.map(place).to_vec());
        let wanted = [0, 1, 3, 4, 5, 7].map(|index| place(places[index]));
        assert_eq!(kept, wanted);
    }
}
