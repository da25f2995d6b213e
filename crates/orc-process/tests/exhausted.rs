//! The machine has no descriptors left. Alone in its process, because the limit holds for all of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use orc_domain::ids::{InstanceId, RunId};
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock;
use orc_ports::executor::{Executor, Exit, Launch, Limits, Secrets, StartError};
use orc_process::ProcessExecutor;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc;
use uuid::Uuid;

struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span.as_std()))
    }
}

/// Whatever step lacks a descriptor, the answer is the same, nothing is left behind, and the next start works.
#[tokio::test]
async fn a_start_without_descriptors_says_that_the_machine_is_exhausted() {
    let directory = tempfile::tempdir().unwrap();
    let (sender, mut reports) = mpsc::unbounded_channel();
    let report = Arc::new(move |report| drop(sender.send(report)));
    let executor = ProcessExecutor::new(InstanceId::from_uuid(Uuid::now_v7()), Arc::new(StillClock), report).unwrap();
    let launch = |name: &str| Launch {
        run: RunId::from_uuid(Uuid::now_v7()),
        argv: ["sh", "-c", "exit 5"].map(str::to_owned).into(),
        directory: directory.path().to_owned(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        log: directory.path().join(format!("{name}.jsonl")),
        output: directory.path().join(format!("{name}.out")),
        temp: directory.path().join(name),
        limits: Limits { log_bytes: 1 << 20, output_bytes: 1 << 20 },
        stdin: None,
        tap: None,
        host: None,
        confinement: None,
        secrets: Secrets::default(),
    };
    let limit = getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let mut refused = 0;
    for spare in 0..16 {
        setrlimit(Resource::Nofile, Rlimit { current: Some(open + spare), maximum: limit.maximum }).unwrap();
        let started = executor.start(launch(&format!("spare-{spare}"))).await;
        setrlimit(Resource::Nofile, limit).unwrap();
        match started {
            Err(StartError::Exhausted { .. }) => refused += 1,
            Err(error) => panic!("with {spare} spare descriptors: {error:?}"),
            Ok(_) => assert_eq!(reports.recv().await.unwrap().exit, Exit::Code(5)),
        }
    }
    // A start needs descriptors for two pipes, the process and, for a moment, `/proc`.
    assert!((3..16).contains(&refused), "{refused} of 16 starts were refused");
    executor.close().await;
    assert!(reports.try_recv().is_err(), "no report for what did not start");
    let pid = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    assert_eq!(children, "", "nothing is left behind");
}
