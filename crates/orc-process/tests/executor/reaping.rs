//! What dead instances left is ended on proof, and nothing else is.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use orc_domain::ids::{InstanceId, RunId};
use orc_domain::time::Millis;
use orc_ports::executor::{Executor, Exit, Reaped};

use crate::fixture::{Fixture, instance, lives, run, within};

/// A process that nobody started through the executor; ended with its owner.
struct Stranger(Child);

impl Stranger {
    fn new(script: &str, env: &[(&str, String)]) -> Self {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", script]).env_clear().env("PATH", "/usr/bin:/bin").envs(env.iter().cloned());
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// The next number that it prints.
    fn printed(&mut self, count: usize) -> Vec<i32> {
        let output = BufReader::new(self.0.stdout.take().unwrap());
        output.lines().take(count).map(|line| line.unwrap().parse().unwrap()).collect()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn marks(instance: InstanceId, run: RunId) -> [(&'static str, String); 2] {
    [("ORC_INSTANCE", instance.to_string()), ("ORC_RUN_ID", run.to_string())]
}

#[tokio::test]
async fn only_what_carries_the_mark_of_a_dead_instance_is_ended() {
    let fixture = Fixture::new();
    let (dead, alive, lost) = (instance(), instance(), run());
    let mut left = Stranger::new("trap '' TERM; sleep 1000 & echo $!; echo $$; wait", &marks(dead, lost));
    let mut wanted = left.printed(2);
    wanted.sort_unstable();
    let other_instance = Stranger::new("exec sleep 1000", &marks(alive, lost));
    let no_marks = Stranger::new("exec sleep 1000", &[]);
    let only_in_text = Stranger::new("exec sleep 1000", &[("NOTE", format!("ORC_INSTANCE={dead}"))]);
    let no_run = Stranger::new("exec sleep 1000", &marks(dead, lost)[..1]);

    let reaped = within(fixture.executor.reap(vec![dead, instance()])).await.unwrap();
    assert_eq!(reaped, [Reaped { run: lost, instance: dead, pids: wanted.clone() }]);
    assert!(!wanted.into_iter().any(lives));
    assert!(!lives(no_run.pid()));
    for stranger in [&other_instance, &no_marks, &only_in_text] {
        assert!(lives(stranger.pid()));
    }
    assert_eq!(within(fixture.executor.reap(vec![dead])).await.unwrap(), []);
}

#[tokio::test]
async fn what_a_killed_parent_left_is_found_by_run() {
    let dead = instance();
    let mut runs = [run(), run()];
    runs.sort_unstable();
    let [one, two] = runs;
    // Stands for the dead instance: two groups below it, one of them deaf and with a child of its own.
    let script = format!(
        "ORC_RUN_ID={one} setsid sh -c 'echo $$; exec sleep 1000' &
         ORC_RUN_ID={two} setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & echo $$; echo $!; wait' & wait"
    );
    let mut parent = Stranger::new(&script, &[("ORC_INSTANCE", dead.to_string())]);
    let pids = parent.printed(3);
    parent.0.kill().unwrap();
    parent.0.wait().unwrap();
    assert!(pids.iter().all(|pid| lives(*pid)));

    // Made only now: an instance is not yet there when what it finds loses its parent.
    let fixture = Fixture::new();
    let reaped = within(fixture.executor.reap(vec![dead])).await.unwrap();
    assert_eq!(reaped.iter().map(|reaped| reaped.run).collect::<Vec<_>>(), runs);
    assert_eq!(reaped.iter().map(|reaped| reaped.pids.len()).collect::<Vec<_>>(), [1, 2]);
    assert!(!pids.into_iter().any(lives));
}

#[tokio::test]
async fn an_instance_never_reaps_itself() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let launch = fixture.launch("echo $$ > $SIGN; sleep 1000");
    fixture.start(&launch).await;
    let pid = sign.pid().await;
    assert_eq!(within(fixture.executor.reap(vec![fixture.instance])).await.unwrap(), []);
    assert!(lives(pid));
    fixture.executor.stop(launch.run, Millis::ZERO);
    assert_eq!(fixture.report().await.exit, Exit::Signal(9));
    fixture.executor.close().await;
    assert!(fixture.executor.reap(vec![instance()]).await.is_err(), "a closed executor does not say that all is gone");
}

#[tokio::test]
async fn a_child_of_another_part_of_the_program_keeps_its_exit_status() {
    let mut fixture = Fixture::new();
    // What a thread started that is over counts as a child of the main thread, as orphans do. In the middle of `exec`
    // nothing says who a process belongs to, so this one is mostly there.
    let script = r#"test "$1" = 500 && exit 7; exec /bin/sh -c "$0" "$0" $(($1 + 1))"#;
    let start = move || Command::new("/bin/sh").args(["-c", script, script, "0"]).spawn().unwrap();
    let mut child = std::thread::spawn(start).join().unwrap();
    let pid = child.id().cast_signed();
    while lives(pid) {
        // Each end of a run looks for orphans.
        assert_eq!(fixture.run("exit 0").await.0.exit, Exit::Code(0));
    }
    fixture.run("exit 0").await;
    assert_eq!(child.wait().unwrap().code(), Some(7));
}
