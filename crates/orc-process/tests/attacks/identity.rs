//! Who is inside: asked there, and looked at from outside.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use orc_ports::executor::{Executor as _, Exit, Tap};
use orc_process::sandbox::BoxUser;
use tokio::sync::oneshot;

use crate::attempt;
use crate::runner::{Runner, within};

/// Tells of the first process, of itself, of a child and of a grandchild; then waits until somebody has looked at it.
const SCRIPT: &str = r#"
tell() { grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp):' "$2" | sed "s/^/$1 /"; }
tell first /proc/1/status; tell own /proc/$$/status
(sh -c 'grep -E "^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp):" /proc/self/status | sed "s/^/child /"' )
setsid sh -c 'grep -E "^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp):" /proc/self/status | sed "s/^/other /"'
for one in uid gid; do sed "s/^/$one-map /" /proc/self/${one}_map; sed "s/^/$one-map-first /" /proc/1/${one}_map; done
echo "id $(id -u) $(id -g) $(id -G)"
sleep 1000 & setsid sleep 1000 & echo ready; read line <$WORK/gate; kill $! 2>/dev/null; exit 0
"#;

pub(crate) async fn prove(runner: &mut Runner) {
    let place = runner.world.place("identity");
    let gate = place.path("copy/gate");
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let user = runner.world.user;
    std::os::unix::fs::chown(&gate, Some(user.uid), Some(user.gid)).unwrap();
    let argv = ["sh", "-c", SCRIPT].map(str::to_owned).into();
    let mut launch = runner.launch(argv, &place, Some(attempt::confinement(&place)));
    let (ready, is_ready) = oneshot::channel();
    let heard = Arc::new(std::sync::Mutex::new((String::new(), Some(ready))));
    let into = Arc::clone(&heard);
    launch.tap = Some(Tap::new(move |_, bytes, _| {
        let mut heard = into.lock().unwrap();
        heard.0.push_str(&String::from_utf8_lossy(bytes));
        if heard.0.contains("ready\n") {
            let _ = heard.1.take().map(|ready| ready.send(()));
        }
    }));
    let run = launch.run;
    let process = runner.executor.start(launch).await.unwrap();
    let answer = within(is_ready).await;
    let seen = descendants(process.pid);
    // Whoever reads has been waiting since it was ready; opened for both, so that this does not wait for it.
    let opened = fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    std::io::Write::write_all(&mut &opened, b"go\n").unwrap();
    let report = runner.report(run).await;
    let said = heard.lock().unwrap().0.clone();
    assert!(answer.is_some_and(|answer| answer.is_ok()), "it never got ready: {report:?}\n{said}");
    assert_eq!(report.unwrap().exit, Exit::Code(0), "{said}");

    let mut wrong = judge_inside(&said, &user);
    // bwrap, the first process, the program, and two that sleep.
    if seen.len() < 5 {
        wrong.push(format!("only {} processes are seen from outside", seen.len()));
    }
    for (pid, Seen { status, maps }) in &seen {
        let who = format!("process {pid} from outside");
        let is_bwrap = *pid == process.pid;
        wrong.extend(judge_status(&who, status, &user, is_bwrap));
        // Numbers of the machine: the only one that it can ever be is the user of the box.
        let expected = [user.uid, user.gid].map(|number| format!("{number} {number} 1"));
        if !is_bwrap && *maps != expected {
            wrong.push(format!("{who}: maps {maps:?}"));
        }
    }
    runner.proved("identity", wrong);
}

fn judge_inside(said: &str, user: &BoxUser) -> Vec<String> {
    let mut wrong = Vec::new();
    for who in ["first", "own", "child", "other"] {
        let lines = said.lines().filter_map(|line| line.strip_prefix(who));
        let status: String = lines.map(|line| format!("{}\n", line.trim())).collect();
        wrong.extend(judge_status(who, &status, user, false));
        if value_of(&status, "Seccomp").as_deref() != Some("2") {
            wrong.push(format!("{who}: there is no filter of system calls"));
        }
    }
    for (map, number) in
        [("uid-map", user.uid), ("gid-map", user.gid), ("uid-map-first", user.uid), ("gid-map-first", user.gid)]
    {
        let maps: Vec<Vec<&str>> = said
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("{map} ")))
            .map(|line| line.split_whitespace().collect())
            .collect();
        // What the middle number means depends on who reads it.
        if maps.len() != 1 || maps[0].len() != 3 || maps[0][0] != number.to_string() || maps[0][2] != "1" {
            wrong.push(format!("{map}: {maps:?}"));
        }
    }
    let BoxUser { uid, gid } = user;
    if !said.contains(&format!("id {uid} {gid} {gid}\n")) {
        wrong.push("`id` says somebody else".to_owned());
    }
    wrong
}

/// No root, no group beside its own, no capability and no way to one. bwrap itself, which is outside, has the bounding set
/// of any process of its user: it has no capability, and without new privileges it gets none.
fn judge_status(who: &str, status: &str, user: &BoxUser, is_bwrap: bool) -> Vec<String> {
    let four = |number: u32| vec![number.to_string(); 4].join(" ");
    let none = || "0000000000000000".to_owned();
    let expected = [
        ("Uid", four(user.uid)),
        ("Gid", four(user.gid)),
        ("Groups", String::new()),
        ("CapInh", none()),
        ("CapPrm", none()),
        ("CapEff", none()),
        ("CapBnd", none()),
        ("CapAmb", none()),
        ("NoNewPrivs", "1".to_owned()),
    ];
    let judged = expected.into_iter().filter(|(key, _)| !is_bwrap || *key != "CapBnd");
    judged
        .filter_map(|(key, expected)| {
            let found = value_of(status, key);
            (found.as_deref() != Some(&expected)).then(|| format!("{who}: {key} is {found:?}, not {expected:?}"))
        })
        .collect()
}

fn value_of(status: &str, key: &str) -> Option<String> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A process as the machine sees it.
struct Seen {
    status: String,
    /// Its users and groups: inside, outside, how many.
    maps: [String; 2],
}

/// A process and all that come from it, by number.
fn descendants(pid: i32) -> BTreeMap<i32, Seen> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let read = |name: &str| fs::read_to_string(entry.path().join(name));
        let map = |name: &str| read(name).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        if let Ok(status) = read("status") {
            all.insert(number, Seen { status, maps: [map("uid_map"), map("gid_map")] });
        }
    }
    let parent = |seen: &Seen| value_of(&seen.status, "PPid").and_then(|parent| parent.parse::<i32>().ok());
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(current) = family.get(next).copied() {
        family.extend(all.iter().filter(|(_, seen)| parent(seen) == Some(current)).map(|(number, _)| *number));
        next += 1;
    }
    all.retain(|number, _| family.contains(number));
    all
}
