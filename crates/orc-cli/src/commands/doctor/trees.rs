//! How private copies are made where the data directory lies, and why so.

use std::path::{Path, PathBuf};

use orc_process::sandbox::Sandbox;
use orc_spec::settings::Strategy as Wanted;
use orc_worktree::{Choice, Owner, Probed, Strategy};

use super::{Finding, existing};
use crate::boxes;
use crate::context::Context;
use crate::host;

/// Tries every way in a directory beside the data directory's own, which is left as it is. Blocks.
pub(super) fn look(context: &Context, sandbox: Option<&Sandbox>, choice: Choice) -> Finding {
    const NAME: &str = "private copies";
    let Some(sandbox) = sandbox else {
        return Finding::warn(NAME, "not tried: git works on them in a box", "see `box` above");
    };
    let there = existing(context.data.root());
    let trial = there.join(format!(".orchestrator-doctor-{}", uuid::Uuid::now_v7().simple()));
    let user = sandbox.user();
    let owner = (host::user() == 0).then_some(Owner { uid: user.uid, gid: user.gid });
    let path = host::variable("PATH").unwrap_or_default();
    let probed = orc_worktree::probe(&trial, &boxes::InBox(sandbox.clone()), owner, &path);
    // What is left of it is of no use, and a mistake here is one of the next run as well.
    let _ = std::fs::remove_dir_all(&trial);
    match probed {
        Ok(probed) => judge(&probed, choice, there, &mounts()),
        Err(error) => Finding::fail(NAME, super::boxes::chain(&error), "see `data directory` and `box` above"),
    }
}

/// What the settings want. A plain copy is tried as well, and said to be slow.
pub(super) const fn choice(strategy: Wanted) -> Choice {
    match strategy {
        Wanted::Auto => Choice::Auto { allow_clone: true },
        Wanted::Overlay => Choice::Fixed(Strategy::Overlay),
        Wanted::Btrfs => Choice::Fixed(Strategy::Btrfs),
        Wanted::Clone => Choice::Fixed(Strategy::Clone),
    }
}

fn judge(probed: &Probed, choice: Choice, there: &Path, volumes: &[PathBuf]) -> Finding {
    const NAME: &str = "private copies";
    let others = |chosen: Strategy| {
        let ways = [("overlay", &probed.overlay), ("btrfs", &probed.btrfs)];
        let ways = ways.into_iter().filter(|(word, _)| *word != chosen.word());
        let words = ways.map(|(word, way)| match way {
            Ok(()) => format!("{word} works too"),
            Err(why) => format!("no {word}: {why}"),
        });
        words.collect::<Vec<_>>().join("; ")
    };
    match probed.choose(choice, there) {
        Ok(Strategy::Clone) => {
            let what = format!("clone: every copy is a whole one ({})", others(Strategy::Clone));
            Finding::warn(NAME, what, better(volumes))
        }
        Ok(chosen) => Finding::ok(NAME, format!("{}, made in milliseconds ({})", chosen.word(), others(chosen))),
        Err(error) => Finding::fail(NAME, error.to_string(), better(volumes)),
    }
}

/// What would make copies cheap.
fn better(volumes: &[PathBuf]) -> String {
    match volumes.first() {
        Some(volume) => {
            format!(
                "`{}` is btrfs: a data directory there (--data or ORC_DATA) shares what is not changed",
                volume.display()
            )
        }
        None => "start as root for overlays, or put the data directory on btrfs".to_owned(),
    }
}

/// Writable btrfs file systems of this machine.
fn mounts() -> Vec<PathBuf> {
    btrfs_in(&std::fs::read_to_string("/proc/self/mounts").unwrap_or_default())
}

/// Lines of `proc_pid_mounts(5)`: device, directory with `\040` for a blank, type, options.
fn btrfs_in(mounts: &str) -> Vec<PathBuf> {
    let of_line = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (directory, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let is_writable = options.split(',').any(|option| option == "rw");
        (kind == "btrfs" && is_writable).then(|| PathBuf::from(directory.replace("\\040", " ")))
    };
    mounts.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Level;

    fn probed(overlay: bool, btrfs: bool) -> Probed {
        let way = |works: bool, why: &str| if works { Ok(()) } else { Err(why.to_owned()) };
        Probed { overlay: way(overlay, "it needs root"), btrfs: way(btrfs, "the file system is not btrfs") }
    }

    #[test]
    fn the_way_is_named_with_why_not_the_others() {
        let auto = Choice::Auto { allow_clone: false };
        let found = judge(&probed(true, false), auto, Path::new("/data"), &[]);
        assert_eq!(
            (found.level, found.what.as_str()),
            (Level::Ok, "overlay, made in milliseconds (no btrfs: the file system is not btrfs)")
        );
        let volumes = [PathBuf::from("/fast disk")];
        let none = judge(&probed(false, false), auto, Path::new("/data"), &volumes);
        assert_eq!(none.level, Level::Fail);
        assert!(none.hint.unwrap().starts_with("`/fast disk` is btrfs"));
        let clone = judge(&probed(false, false), Choice::Auto { allow_clone: true }, Path::new("/data"), &[]);
        assert_eq!(clone.level, Level::Warn);
        assert!(clone.what.contains("no overlay: it needs root; no btrfs"), "{}", clone.what);
    }

    #[test]
    fn only_volumes_that_can_be_written_are_offered() {
        let mounts =
            "/dev/a /fast\\040disk btrfs rw,relatime 0 0\n/dev/b /old btrfs ro 0 0\n/dev/c /home ext4 rw 0 0\nx\n";
        assert_eq!(btrfs_in(mounts), [PathBuf::from("/fast disk")]);
    }
}
