//! How runs are ended, and what they leave.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use orc_domain::time::Millis;
use orc_ports::executor::{Executor, Exit, StartError};
use orc_ports::log::LogKind;

use crate::fixture::{Fixture, lives, log_of, orphans, run, texts, until, within};

const HOUR: Millis = Millis::from_secs(3600);
const SHORT: Millis = Millis::from_millis(50);

#[tokio::test]
async fn term_lets_a_program_end_by_itself() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let launch = fixture.launch("trap 'echo bye; exit 7' TERM; echo up > $SIGN; sleep 1000 & wait");
    fixture.start(&launch).await;
    sign.line().await;
    fixture.executor.stop(launch.run, HOUR);
    let report = fixture.report().await;
    assert_eq!((report.exit, report.last_line.as_str()), (Exit::Code(7), "bye"));
    let lines = log_of(&launch);
    assert_eq!(texts(&lines, LogKind::Note)[1..], ["asked to end (TERM); killed after 1h", "ended with exit code 7"]);
}

#[tokio::test]
async fn a_program_that_ignores_term_is_killed() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let launch = fixture.launch("trap '' TERM; echo up > $SIGN; while :; do sleep 1000; done");
    fixture.start(&launch).await;
    sign.line().await;
    fixture.executor.stop(launch.run, SHORT);
    assert_eq!(fixture.report().await.exit, Exit::Signal(9));
    let lines = log_of(&launch);
    assert_eq!(texts(&lines, LogKind::Note)[2..], ["killed (KILL)", "ended by signal 9"]);
}

#[tokio::test]
async fn asking_again_with_less_grace_hurries_it() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    for hurry in [SHORT, Millis::ZERO] {
        let launch =
            fixture.launch("trap 'echo termed > $SIGN' TERM; echo up > $SIGN; while :; do sleep 1000 & wait; done");
        fixture.start(&launch).await;
        sign.line().await;
        fixture.executor.stop(launch.run, HOUR);
        assert_eq!(sign.line().await, "termed");
        fixture.executor.stop(launch.run, HOUR);
        fixture.executor.stop(launch.run, hurry);
        assert_eq!(fixture.report().await.exit, Exit::Signal(9));
    }
    assert!(fixture.says_no_more().await);
}

#[tokio::test]
async fn a_stopped_program_hears_term() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let launch = fixture.launch("echo up > $SIGN; kill -STOP $$; sleep 1000");
    let process = fixture.start(&launch).await;
    sign.line().await;
    until(|| std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap().contains(") T ")).await;
    fixture.executor.stop(launch.run, HOUR);
    assert_eq!(fixture.report().await.exit, Exit::Signal(15));
}

#[tokio::test]
async fn a_stop_during_the_start_is_not_lost() {
    let mut fixture = Fixture::new();
    for grace in [Millis::ZERO, HOUR] {
        let launch = fixture.launch("sleep 1000");
        let starting = fixture.executor.start(launch.clone());
        fixture.executor.stop(launch.run, grace);
        starting.await.unwrap();
        assert!(matches!(fixture.report().await.exit, Exit::Signal(9 | 15)));
    }
    fixture.executor.stop(run(), Millis::ZERO);
    let (report, _) = fixture.run("true").await;
    assert_eq!(report.exit, Exit::Code(0), "stopping an unknown run concerns nobody");
}

/// Scripts that leave something behind; each writes its number to `$SIGN` first and lets the leader go then.
const IN_GROUP: &str = "sh -c 'echo $$ > $SIGN; exec sleep 1000' & sleep 1000 & read x < $ORC_TEMP/go";
const SETSID: &str = "setsid sh -c 'echo $$ > $SIGN; exec sleep 1000' <&- >&- 2>&- & read x < $ORC_TEMP/go";
const HOLDS_OUTPUT: &str = "setsid sh -c 'echo held; echo $$ > $SIGN; exec sleep 1000' & read x < $ORC_TEMP/go";
const DOUBLE_FORK: &str =
    "(setsid sh -c 'sh -c \"echo \\$\\$ > $SIGN; exec sleep 1000\" <&- >&- 2>&- & exit' &); read x < $ORC_TEMP/go";
const SUBTREE: &str =
    "setsid sh -c 'setsid sleep 1000 & (sleep 1000 & wait) & echo $$ > $SIGN; wait' & read x < $ORC_TEMP/go";
const DEAF: &str =
    "setsid sh -c 'trap \"\" TERM HUP; echo $$ > $SIGN; while :; do sleep 1000; done' & read x < $ORC_TEMP/go";
const CLEARED: &str =
    "env -i SIGN=$SIGN setsid /bin/sh -c 'echo $$ > $SIGN; exec /bin/sleep 1000' & read x < $ORC_TEMP/go";

/// Starts a script, and waits until what it leaves is there; returns its number.
async fn leave(fixture: &Fixture, sign: &mut crate::fixture::Sign, launch: &orc_ports::executor::Launch) -> i32 {
    std::fs::create_dir_all(&launch.temp).unwrap();
    let go = launch.temp.join("go");
    rustix::fs::mknodat(rustix::fs::CWD, go, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    fixture.start(launch).await;
    let pid = sign.pid().await;
    assert!(lives(pid));
    pid
}

async fn let_go(launch: &orc_ports::executor::Launch) {
    let go = launch.temp.join("go");
    let mut options = std::fs::File::options();
    options.write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    // Refused as long as the shell has not opened its end.
    let mut file = None;
    until(|| {
        file = options.open(&go).ok();
        file.is_some()
    })
    .await;
    file.unwrap().write_all(b"go\n").unwrap();
}

#[tokio::test]
async fn the_end_of_the_leader_is_the_end_of_all() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let scripts = [
        (IN_GROUP, 0..=0),
        (SETSID, 1..=1),
        (HOLDS_OUTPUT, 1..=1),
        (DOUBLE_FORK, 1..=2),
        (SUBTREE, 2..=4),
        (DEAF, 1..=2),
        (CLEARED, 1..=1),
    ];
    for (script, escaped) in scripts {
        let launch = fixture.launch(script);
        let pid = leave(&fixture, &mut sign, &launch).await;
        let_go(&launch).await;
        let report = fixture.report().await;
        assert!(!lives(pid), "{script}");
        assert_eq!(orphans(), "", "{script}");
        assert_eq!(report.exit, Exit::Code(0), "{script}");
        assert!(escaped.contains(&report.escaped), "{script}: {}", report.escaped);
        if script == HOLDS_OUTPUT {
            assert_eq!(report.last_line, "held");
        }
    }
    assert!(fixture.says_no_more().await);
}

#[tokio::test]
async fn what_left_the_group_is_stopped_with_the_run() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    // Another run is live all the time, so that nothing can be attributed by elimination.
    let other = fixture.launch("sleep 1000");
    fixture.start(&other).await;
    for script in [IN_GROUP, SETSID, HOLDS_OUTPUT, DOUBLE_FORK, SUBTREE, DEAF, CLEARED] {
        for grace in [Millis::ZERO, SHORT, HOUR] {
            let launch = fixture.launch(script);
            let pid = leave(&fixture, &mut sign, &launch).await;
            fixture.executor.stop(launch.run, grace);
            let report = fixture.report().await;
            assert_eq!(report.run, launch.run);
            assert!(!lives(pid), "{script} {grace}");
            assert_eq!(orphans(), "", "{script} {grace}");
        }
    }
    fixture.executor.stop(other.run, Millis::ZERO);
    fixture.report().await;
}

#[tokio::test]
async fn what_hides_from_its_run_goes_with_the_last_that_could_own_it() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let older = fixture.launch("sleep 1000");
    fixture.start(&older).await;
    let launch = fixture.launch(CLEARED);
    let pid = leave(&fixture, &mut sign, &launch).await;
    let_go(&launch).await;
    assert_eq!(fixture.report().await.escaped, 0);
    assert!(lives(pid), "nothing proves that it is not the older run's");
    fixture.executor.stop(older.run, Millis::ZERO);
    let report = fixture.report().await;
    assert_eq!((report.run, report.escaped), (older.run, 1));
    assert!(!lives(pid));
}

#[tokio::test]
async fn what_ends_without_a_parent_is_reaped_while_the_run_lives() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let script = "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do (setsid true &); done; echo up > $SIGN; sleep 1000";
    let launch = fixture.launch(script);
    fixture.start(&launch).await;
    sign.line().await;
    until(|| orphans().is_empty()).await;
    fixture.executor.stop(launch.run, Millis::ZERO);
    assert_eq!(fixture.report().await.escaped, 0);
}

#[tokio::test]
async fn background_work_of_other_runs_is_left_alone() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let keeper = fixture.launch(SETSID);
    let pid = leave(&fixture, &mut sign, &keeper).await;
    let double = fixture.launch(DOUBLE_FORK);
    let orphan = leave(&fixture, &mut sign, &double).await;
    for _ in 0..20 {
        assert_eq!(fixture.run("setsid true & true").await.0.exit, Exit::Code(0));
    }
    assert!(lives(pid) && lives(orphan));
    let_go(&keeper).await;
    assert_eq!(fixture.report().await.run, keeper.run);
    assert!(!lives(pid) && lives(orphan));
    let_go(&double).await;
    assert_eq!(fixture.report().await.run, double.run);
    assert!(!lives(orphan));
}

#[tokio::test]
async fn closing_ends_everything_and_says_so() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let launches: Vec<_> = (0..3).map(|_| fixture.launch("trap '' TERM; echo $$ > $SIGN; sleep 1000")).collect();
    let mut pids = Vec::new();
    for launch in &launches {
        fixture.start(launch).await;
        pids.push(sign.pid().await);
    }
    within(fixture.executor.close()).await;
    assert!(!pids.into_iter().any(lives));
    let mut reported = Vec::new();
    for _ in &launches {
        let report = fixture.report().await;
        assert_eq!(report.exit, Exit::Signal(9));
        reported.push(report.run);
    }
    reported.sort_unstable();
    let mut wanted: Vec<_> = launches.iter().map(|launch| launch.run).collect();
    wanted.sort_unstable();
    assert_eq!(reported, wanted);
    let refused = fixture.executor.start(fixture.launch("true")).await;
    assert!(matches!(refused, Err(StartError::Closed)), "{refused:?}");
    fixture.executor.stop(launches[0].run, Millis::ZERO);
    within(fixture.executor.close()).await;
    assert!(fixture.says_no_more().await);
}

#[tokio::test]
async fn dropping_the_executor_ends_its_runs_too() {
    let fixture = Fixture::new();
    let mut sign = fixture.sign();
    let launch = fixture.launch("echo $$ > $SIGN; sleep 1000");
    fixture.start(&launch).await;
    let pid = sign.pid().await;
    let (_directory, mut reports) = fixture.drop_executor();
    let report = within(reports.recv()).await.unwrap();
    assert_eq!((report.run, report.exit), (launch.run, Exit::Signal(9)));
    assert!(!lives(pid));
    assert!(within(reports.recv()).await.is_none(), "the thread has ended");
}
