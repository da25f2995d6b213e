//! What boxes are made of on this machine, and what can be seen from inside of one.
//!
//! A box is made and a script looks around in it: what it prints is the evidence, not what was asked for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orc_ports::executor::{BoxLimits, Confinement, Exit};
use orc_process::sandbox::{BoxedCommand, LimitKind, Sandbox, Stdin, Stdout};
use orc_spec::settings::Settings;

use super::Finding;
use crate::boxes;

/// A box in which nothing happens for this long does not work.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of what is seen from inside.
const SEEN_BYTES: usize = 64 * 1024;
/// Looks around: facts of the kernel about this process, and the programs that work on copies.
const LOOK: &str = "cat /proc/self/status
printf 'git:\\t'; git --version 2>/dev/null || echo none
printf 'lfs:\\t'; git lfs version 2>/dev/null | head -n 1 || :
printf 'net:\\t'; sed -n 's/^ *\\([^:]*\\):.*/\\1/p' /proc/net/dev | tr '\\n' ' '; echo
printf 'nested:\\t'; unshare -U true 2>/dev/null && echo yes || echo no
";

/// What was found out about boxes.
pub(super) struct Seen {
    /// Makes them, if they can be had.
    pub(super) sandbox: Option<Sandbox>,
    pub(super) findings: Vec<Finding>,
}

/// Looks for what boxes need, makes one, and looks around in it. Blocks for as long as that takes.
pub(super) fn look(settings: &Settings, bubblewrap: Option<&str>) -> Seen {
    const NAME: &str = "box";
    let sandbox = match boxes::sandbox(settings) {
        Ok(sandbox) => sandbox,
        Err(missing) => {
            let finding = |one: orc_process::sandbox::Missing| Finding::fail(NAME, one.what, one.install);
            return Seen { sandbox: None, findings: missing.into_iter().map(finding).collect() };
        }
    };
    let mut findings = Vec::new();
    match inside(&sandbox) {
        Ok(seen) => findings.extend(judge(&seen, &sandbox, bubblewrap)),
        Err(why) => {
            let hint =
                "the kernel or a sandbox around this program forbids it: look at its log, or ask who runs this machine";
            findings.push(Finding::fail(NAME, format!("cannot be made: {why}"), hint));
            return Seen { sandbox: None, findings };
        }
    }
    findings.extend([landlock(sandbox.landlock_version()), limits(sandbox.limits())]);
    Seen { sandbox: Some(sandbox), findings }
}

/// What a script sees in a box: each line is a name, a colon, a tab and a value.
fn inside(sandbox: &Sandbox) -> Result<BTreeMap<String, String>, String> {
    let confinement = Confinement {
        mounts: Vec::new(),
        home: PathBuf::new(),
        masked: Vec::new(),
        network: std::collections::BTreeSet::new(),
        doors: Vec::new(),
        limits: BoxLimits { processes: 64, memory_bytes: 0, disk_bytes: 0, open_files: 256 },
    };
    let argv = ["/bin/sh", "-c", LOOK].map(str::to_owned);
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    let finished = sandbox.run(BoxedCommand {
        confinement: &confinement,
        argv: &argv,
        env: &env,
        directory: Path::new("/tmp"),
        stdin: Stdin::None,
        stdout: Stdout::Kept { bytes: SEEN_BYTES },
        wall: PATIENCE,
    });
    let finished = finished.map_err(|error| chain(&error))?;
    if finished.exit != Exit::Code(0) {
        return Err(format!("its shell ended with {:?}: {}", finished.exit, finished.stderr_tail.trim()));
    }
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    let facts = text.lines().filter_map(|line| line.split_once(':'));
    Ok(facts.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
}

/// An error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {}", chain(cause)))
}

/// What is to be said of what was seen.
fn judge(seen: &BTreeMap<String, String>, sandbox: &Sandbox, bubblewrap: Option<&str>) -> Vec<Finding> {
    let fact = |name: &str| seen.get(name).map_or("", String::as_str);
    let user = sandbox.user();
    let mut findings = vec![
        confined(&fact, user.uid, bubblewrap.unwrap_or("bubblewrap of an unknown version")),
        closed(&fact),
        seccomp(&fact),
    ];
    findings.push(match fact("git") {
        "" | "none" => {
            Finding::fail("git in boxes", "is not there", "install git for the whole machine: `apt install git`")
        }
        version => match orc_worktree::too_old(version) {
            Some(why) => Finding::fail("git in boxes", why, "install a newer git for the whole machine"),
            None => Finding::ok("git in boxes", version.to_owned()),
        },
    });
    findings.push(match fact("lfs") {
        "" => Finding::warn(
            "git-lfs",
            "is not there",
            "`apt install git-lfs`, if a repository keeps large files that way",
        ),
        version => Finding::ok("git-lfs", version.to_owned()),
    });
    findings
}

/// Who somebody inside is, for the kernel. Inside a user namespace the numbers are those that it shows there.
fn confined<'a>(fact: &impl Fn(&str) -> &'a str, user: u32, made_by: &str) -> Finding {
    const NAME: &str = "box";
    let capabilities = ["CapEff", "CapPrm", "CapBnd"].map(fact);
    let has_none = capabilities.iter().all(|set| !set.is_empty() && set.bytes().all(|digit| digit == b'0'));
    let first = fact("Uid").split_whitespace().next().unwrap_or_default();
    let is_user = first.parse() == Ok(user) && user != 0;
    let may_gain = fact("NoNewPrivs") != "1";
    if has_none && is_user && !may_gain {
        return Finding::ok(NAME, format!("made by {made_by}, as user {user}, without any capability"));
    }
    let what = format!(
        "is weaker than it must be: user {first}, capabilities {}, NoNewPrivs {}",
        capabilities[0],
        fact("NoNewPrivs")
    );
    Finding::fail(NAME, what, "do not run agents here; a newer bubblewrap (0.8 or later) may help")
}

/// Whether there is a way out that no proxy watches, and a way to what a user namespace would give.
fn closed<'a>(fact: &impl Fn(&str) -> &'a str) -> Finding {
    const NAME: &str = "ways out";
    match (fact("net"), fact("nested")) {
        ("lo", "no") => Finding::ok(NAME, "no network but the proxy of a box that names hosts, no namespaces inside"),
        ("lo", _) => Finding::fail(
            NAME,
            "a program inside can make namespaces",
            "a bubblewrap with --disable-userns is needed (0.8 or later)",
        ),
        (interfaces, _) => {
            Finding::fail(NAME, format!("network interfaces are seen inside: {interfaces}"), "do not run agents here")
        }
    }
}

fn seccomp<'a>(fact: &impl Fn(&str) -> &'a str) -> Finding {
    const NAME: &str = "seccomp";
    match fact("Seccomp") {
        "2" => Finding::ok(NAME, format!("{} filter(s) inside", fact("Seccomp_filters"))),
        _ => {
            Finding::warn(NAME, "no filter inside", "a kernel with CONFIG_SECCOMP_FILTER is needed for the second wall")
        }
    }
}

/// The second wall around files, by the version that the kernel gives.
fn landlock(version: i32) -> Finding {
    const NAME: &str = "landlock";
    if version > 0 {
        return Finding::ok(NAME, format!("version {version}"));
    }
    let hint = "Linux 5.13 or later is needed, with `landlock` in `lsm=` of the kernel's command line";
    Finding::warn(NAME, "the kernel does not have it, or does not use it: what is not mounted is the only wall", hint)
}

/// How processes and memory of boxes are bounded.
fn limits(kind: LimitKind) -> Finding {
    const NAME: &str = "limits";
    match kind {
        LimitKind::GroupsV2 => Finding::ok(NAME, "control groups, version 2"),
        LimitKind::GroupsV1 => Finding::ok(NAME, "control groups, version 1 (pids, memory)"),
        LimitKind::EachProcess => {
            let hint =
                "start as root, or where a control group is delegated (`systemd-run --user --scope -p Delegate=yes`)";
            Finding::warn(NAME, "limits of single processes only: no control group is ours to write", hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Level;

    fn facts(uid: &'static str, capabilities: &'static str, gains: &'static str) -> impl Fn(&str) -> &'static str {
        move |name| match name {
            "Uid" => uid,
            "CapEff" | "CapPrm" | "CapBnd" => capabilities,
            "NoNewPrivs" => gains,
            _ => "",
        }
    }

    #[test]
    fn a_box_is_judged_by_what_is_seen_in_it() {
        let good = facts("998\t998\t998\t998", "0000000000000000", "1");
        assert_eq!(confined(&good, 998, "bwrap").level, Level::Ok);
        let weak = [
            facts("0\t0\t0\t0", "0000000000000000", "1"),
            facts("998\t998", "0000000000000400", "1"),
            facts("998\t998", "0000000000000000", "0"),
            facts("", "", ""),
        ];
        for facts in weak {
            assert_eq!(confined(&facts, 998, "bwrap").level, Level::Fail);
        }
        assert_eq!(confined(&facts("0", "0000000000000000", "1"), 0, "bwrap").level, Level::Fail, "never the number 0");
    }

    #[test]
    fn a_way_out_fails() {
        let seen = |net: &'static str, nested: &'static str| move |name: &str| if name == "net" { net } else { nested };
        assert_eq!(closed(&seen("lo", "no")).level, Level::Ok);
        for (net, nested) in [("lo eth0", "no"), ("", "no"), ("lo", "yes")] {
            assert_eq!(closed(&seen(net, nested)).level, Level::Fail, "{net} {nested}");
        }
    }

    #[test]
    fn what_is_not_there_is_said_with_what_helps() {
        assert_eq!((landlock(6).level, landlock(6).what.as_str()), (Level::Ok, "version 6"));
        assert!(landlock(0).hint.unwrap().contains("5.13"));
        assert!(limits(LimitKind::GroupsV2).what.contains("version 2"));
        assert!(limits(LimitKind::GroupsV1).what.contains("version 1"));
        assert_eq!(limits(LimitKind::EachProcess).level, Level::Warn);
    }
}
