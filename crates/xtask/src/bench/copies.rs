//! What private copies of a repository of many files cost, with each way to make them.
//!
//! The figures are made by the example `measure` of `orc-worktree`, in a program of its own. For btrfs there is a file
//! system in a file, mounted where only this module knows and unmounted before it is removed, whatever happens.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{median, quiet, row, verdict};
use crate::command::{self, command, find_program, read, run};

const FILES: &str = "50000";
/// Rounds, and copies that are made at once.
const SHARING: [&str; 2] = ["5", "20"];
/// The same of whole copies, each of which takes seconds.
const WHOLE: [&str; 2] = ["2", "2"];
/// Of the file system in a file. It takes as much disk as is written to it.
const IMAGE_BYTES: u64 = 8 << 30;

/// What must be reached by those that share what is not changed.
const TARGETS: [(&str, u64); 6] = [
    ("one copy", 25),
    ("20 copies at once", 250),
    ("first `git status` in it", 500),
    ("next base, with a copy", 1_000),
    ("removal of one copy", 300),
    ("removal of 22 copies", 300),
];

pub(super) fn worktrees(place: &Path) -> Result<()> {
    run(command("cargo").args(["build", "--release", "--quiet", "--package", "orc-worktree", "--example", "measure"]))?;
    let measure = command::target()?.join("release/examples/measure");
    let is_root = read(command("id").arg("-u"))?.trim() == "0";
    if is_root {
        strategy(&measure, &place.join("overlay"), "overlay", SHARING)?;
    } else {
        println!("private copies by overlay: not measured, it takes root");
    }
    if is_root && find_program("mkfs.btrfs").is_some() {
        let mounted = Mounted::new(place)?;
        strategy(&measure, &mounted.at.join("copies"), "btrfs", SHARING)?;
        mounted.unmount()?;
    } else {
        println!("private copies by btrfs: not measured, it takes root and mkfs.btrfs (`apt install btrfs-progs`)");
    }
    strategy(&measure, &place.join("clone"), "clone", WHOLE)
}

/// Times of the same thing, and the processor time of each, which a busy machine does not change much.
#[derive(Default)]
struct Figures {
    times: Vec<Duration>,
    worked: Vec<Duration>,
}

/// One way to make them; the figures of a plain copy have no target.
fn strategy(measure: &Path, directory: &Path, word: &str, [rounds, many]: [&str; 2]) -> Result<()> {
    println!("private copies of {FILES} files by {word}:");
    let lines = read(command(measure).arg(directory).args([word, FILES, rounds, many]))?;
    let mut order: Vec<String> = Vec::new();
    let mut found: BTreeMap<String, Figures> = BTreeMap::new();
    for line in lines.lines() {
        let figure: Value = serde_json::from_str(line)?;
        let what = figure["what"].as_str().context("a figure of nothing")?;
        let number = |name: &str| figure[name].as_u64().with_context(|| format!("no `{name}` in `{line}`"));
        if !found.contains_key(what) {
            order.push(what.to_owned());
        }
        let figures = found.entry(what.to_owned()).or_default();
        figures.times.push(Duration::from_micros(number("micros")?));
        figures.worked.push(Duration::from_millis(number("cpu_millis")?));
    }
    for what in &order {
        let Some(Figures { times, worked }) = found.get_mut(what) else { continue };
        row(what, times);
        worked.sort_unstable();
        let target = TARGETS.iter().find(|(named, _)| named == what).filter(|_| word != "clone");
        if let Some((_, millis)) = target {
            let (time, worked) = (median(times), median(worked));
            let figure = format!("{time:.1?}, {} ms of processor time", worked.as_millis());
            let met = time.as_millis() < u128::from(*millis);
            verdict(&format!("{word}, {what}, median"), &figure, &format!("{millis} ms"), met);
        }
    }
    Ok(())
}

/// A btrfs file system in a file. Dropped, it is unmounted.
struct Mounted {
    at: PathBuf,
}

impl Mounted {
    fn new(place: &Path) -> Result<Self> {
        let (image, at) = (place.join("btrfs.image"), place.join("btrfs"));
        File::create(&image)?.set_len(IMAGE_BYTES)?;
        quiet(command("mkfs.btrfs").arg("-q").arg(&image))?;
        fs::create_dir(&at)?;
        quiet(command("mount").args(["-o", "loop"]).args([&image, &at]))?;
        Ok(Self { at })
    }

    fn unmount(self) -> Result<()> {
        quiet(command("umount").arg(&self.at))?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What still works in it keeps the files, but nobody else finds them.
        if let Err(error) = quiet(command("umount").arg("--lazy").arg(&self.at)) {
            eprintln!("`{}` stays mounted: {error}", self.at.display());
        }
    }
}
