//! Killed at any point, the next instance finds everything that was ever written.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use orc_domain::tree::PrivateCopy;
use orc_ports::worktrees::{Prepared, Worktrees};
use orc_worktree::Strategy;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::fixture::{Place, example, first, git, strategies, wait};

/// Every file of every commit that a reference of ours holds.
fn held(place: &Place) -> BTreeSet<String> {
    place.references("refs/orc").iter().flat_map(|reference| place.files(reference)).collect()
}

/// After a crash: all of `written` can be saved, and nothing is left over that is not.
fn check_saved(place: &mut Place, written: &[String]) {
    place.restart();
    place.collect();
    // Killed while it is made, it does not know its source yet, and holds nothing: whatever was written would be lost.
    let held = if place.known_store().is_some() { held(place) } else { BTreeSet::new() };
    for name in written {
        assert!(held.contains(name), "{name} of {written:?} is lost: {held:?}");
    }
    let copies = place.root().join("copies");
    assert_eq!(std::fs::read_dir(copies).unwrap().count(), 0);
    if !written.is_empty() {
        assert_eq!(git(&place.store(), &["fsck", "--no-dangling", "--no-progress", "--connectivity-only"]), "");
    }
    let prepared = place.prepare("after", &place.copy(&[]));
    assert_eq!(place.work(&prepared, "git status --porcelain; ls"), "d0\n");
}

/// A git that passes the counter as well, and at its point ends whoever called it.
fn counting_git(directory: &Path, counter: &Path, point: u32) {
    let path = directory.join("git");
    let text = format!(
        "#!/bin/sh\nPATH=${{PATH#*:}}\nn=$(($(cat {0} 2>/dev/null || echo 0) + 1))\necho $n >{0}\n\
         [ $n = {point} ] && kill -9 $PPID\nexec git \"$@\"\n",
        counter.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the process that is to be killed is the test's own")]
fn run_until(place: &Place, directory: &Path, point: u32) -> (bool, Vec<String>) {
    let counter = directory.join("counter");
    std::fs::write(&counter, "0").unwrap();
    counting_git(directory, &counter, point);
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let said = Command::new(example("killed"))
        .args([place.root(), place.source()])
        .args([place.flow.to_string(), place.strategy().word().to_owned()])
        .arg(&counter)
        .arg(point.to_string())
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let written = String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect();
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success() || said.status.code().is_none(), "{errors}");
    (said.status.success(), written)
}

/// Kills at every `step`th point from `from` on, until the work is through.
fn check_killed(strategy: Strategy, from: u32, step: usize) {
    let mut points = 0;
    for point in (from..).step_by(step) {
        let mut place = Place::new(strategy);
        let directory = tempfile::tempdir().unwrap();
        let (is_through, written) = run_until(&place, directory.path(), point);
        check_saved(&mut place, &written);
        if is_through {
            assert_eq!(written, ["committed", "left", "second", "stashed", "later", "anew"]);
            break;
        }
        points += 1;
    }
    assert!(points >= 8, "{points}");
}

#[test]
fn killed_at_any_call_nothing_is_lost() {
    check_killed(strategies()[0], 1, 8);
}

#[test]
fn killed_at_other_calls_nothing_is_lost() {
    check_killed(strategies()[0], 5, 8);
}

#[test]
fn killed_with_plain_copies_nothing_is_lost() {
    check_killed(Strategy::Clone, 3, 10);
}

#[derive(Clone, Debug)]
enum Deed {
    Prepare { goes_on: bool },
    Write,
    Commit,
    Stash,
    Branch,
    Amend,
    Ruin,
    Harvest,
    Release,
    Crash,
    Collect,
}

fn deeds() -> impl proptest::strategy::Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        2 => Just(Deed::Prepare { goes_on: true }),
        1 => Just(Deed::Prepare { goes_on: false }),
        5 => Just(Deed::Write),
        2 => Just(Deed::Commit),
        1 => Just(Deed::Stash),
        1 => Just(Deed::Branch),
        1 => Just(Deed::Amend),
        1 => Just(Deed::Ruin),
        2 => Just(Deed::Harvest),
        1 => Just(Deed::Release),
        1 => Just(Deed::Crash),
        1 => Just(Deed::Collect),
    ];
    proptest::collection::vec(deed, 1..14)
}

/// One step that somebody works on, and all that they ever wrote.
struct Story {
    place: Place,
    copy: PrivateCopy,
    prepared: Option<Prepared>,
    written: Vec<String>,
}

impl Story {
    fn work(&self, script: &str) {
        if let Some(prepared) = &self.prepared {
            // Its repository may be ruined: then git fails, and nothing is lost by it.
            self.place.work(prepared, &format!("{{ {script}; }} >/dev/null 2>&1 || :"));
        }
    }

    fn tell(&mut self, deed: &Deed) {
        match deed {
            Deed::Prepare { goes_on } => {
                let copy = PrivateCopy { goes_on: *goes_on, ..self.copy.clone() };
                self.prepared = Some(self.place.prepare("edit", &copy));
            }
            Deed::Write if self.prepared.is_some() => {
                let name = format!("w{}", self.written.len());
                self.work(&format!("echo {name} >{name}"));
                self.written.push(name);
            }
            Deed::Commit => self.work("git add -A && git commit -q -m c"),
            Deed::Stash => self.work("git add -A && git stash -q"),
            Deed::Branch => self.work("git checkout -q -b b$(git for-each-ref | wc -l)"),
            Deed::Amend => self.work("git add -A && git commit -q --amend -m a"),
            Deed::Ruin => {
                self.work("rm -f .git/index; echo '[' >.git/config.worktree; git config extensions.worktreeConfig true")
            }
            Deed::Harvest if self.prepared.take().is_some() => {
                self.place.harvest("edit", &self.copy);
            }
            Deed::Release if self.prepared.take().is_some() => {
                wait(self.place.trees().release(self.place.run("edit"))).unwrap();
            }
            Deed::Crash => {
                self.prepared = None;
                self.place.restart();
            }
            Deed::Collect => {
                self.place.collect();
            }
            Deed::Write | Deed::Harvest | Deed::Release => {}
        }
    }
}

#[test]
fn whatever_happens_in_whatever_order_no_work_is_lost() {
    let mut runner = TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
    let told = runner.run(&deeds(), |deeds| {
        let place = first();
        let copy = place.copy(&[]);
        let mut story = Story { place, copy, prepared: None, written: Vec::new() };
        for deed in &deeds {
            story.tell(deed);
        }
        story.place.restart();
        story.place.collect();
        let held = held(&story.place);
        for name in &story.written {
            prop_assert!(held.contains(name), "{} is lost: {:?}", name, held);
        }
        Ok(())
    });
    told.unwrap();
}
