//! What a process reads, and who hears what it prints.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use orc_domain::time::Millis;
use orc_ports::executor::{Executor, Exit, Launch, Stream, Tap};
use orc_ports::log::LogKind;

use crate::fixture::{Fixture, lives, log_of, texts, within};

/// Everything that a tap heard.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Pieces>>);

type Pieces = Vec<(Stream, Vec<u8>)>;

impl Heard {
    fn tap(&self) -> Tap {
        let heard = self.clone();
        Tap::new(move |stream, bytes, at| {
            assert!(at.as_millis() > 0);
            heard.0.lock().unwrap().push((stream, bytes.to_vec()));
        })
    }

    fn of(&self, stream: Stream) -> Vec<u8> {
        let heard = self.0.lock().unwrap();
        heard.iter().filter(|(from, _)| *from == stream).flat_map(|(_, bytes)| bytes.clone()).collect()
    }
}

type Counted = Arc<Mutex<(u64, Vec<u8>)>>;

/// A named pipe by which a script waits for somebody: `$GATE`.
fn gate(fixture: &Fixture, launch: &mut Launch) -> PathBuf {
    let gate = fixture.path("gate");
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    launch.env.insert("GATE".to_owned(), gate.display().to_string());
    gate
}

/// Ten million bytes in which no two parts are alike.
fn large() -> Vec<u8> {
    (0..10_000_000_u32).map(|at| u8::try_from((at ^ (at >> 8).wrapping_mul(31)) % 251).unwrap()).collect()
}

fn fed(fixture: &Fixture, script: &str, bytes: Vec<u8>) -> (Launch, Heard) {
    let heard = Heard::default();
    let launch = Launch { stdin: Some(bytes), tap: Some(heard.tap()), ..fixture.launch(script) };
    (launch, heard)
}

#[tokio::test]
async fn a_large_prompt_arrives_whole_and_ends() {
    let mut fixture = Fixture::new();
    let (launch, heard) = fed(&fixture, "cat; printf half >&2", large());
    let report = fixture.finish(&launch).await;
    assert_eq!((report.exit, report.last_line.as_str()), (Exit::Code(0), "half"));
    assert!(heard.of(Stream::Stdout) == large(), "what came back is what went in");
    assert_eq!(heard.of(Stream::Stderr), b"half");
    assert!(std::fs::metadata(&launch.log).unwrap().len() < 3 * launch.limits.log_bytes, "the log keeps its bound");
}

#[tokio::test]
async fn no_input_is_an_input_that_has_ended() {
    let mut fixture = Fixture::new();
    for stdin in [None, Some(Vec::new())] {
        let launch = Launch { stdin, ..fixture.launch("cat; readlink /proc/self/fd/0 >&2") };
        let report = fixture.finish(&launch).await;
        assert_eq!((report.exit, report.last_line.as_str()), (Exit::Code(0), "/dev/null"));
    }
}

#[tokio::test]
async fn a_program_that_takes_no_more_goes_on() {
    let mut fixture = Fixture::new();
    for script in ["head -c 5; exec <&-; echo; echo still here", "exec <&-; echo; echo still here"] {
        let (launch, heard) = fed(&fixture, script, large());
        let report = fixture.finish(&launch).await;
        assert_eq!((report.exit, report.last_line.as_str()), (Exit::Code(0), "still here"), "{script}");
        assert!(heard.of(Stream::Stdout).ends_with(b"\nstill here\n"));
        let lines = log_of(&launch);
        let told =
            texts(&lines, LogKind::Note).iter().any(|text| text.contains("of the 10000000 bytes of its standard"));
        assert!(told, "{lines:?}");
    }
}

#[tokio::test]
async fn a_program_that_never_reads_delays_nobody() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let (deaf, _) = fed(&fixture, "echo $$ > $SIGN; exec sleep 1000", large());
    fixture.start(&deaf).await;
    let pid = sign.pid().await;
    let (other, heard) = fed(&fixture, "cat", b"hello".to_vec());
    assert_eq!(fixture.finish(&other).await.exit, Exit::Code(0));
    assert_eq!(heard.of(Stream::Stdout), b"hello");
    assert!(lives(pid));
    fixture.executor.stop(deaf.run, Millis::ZERO);
    let report = fixture.report().await;
    assert_eq!((report.run, report.exit), (deaf.run, Exit::Signal(9)));
    let lines = log_of(&deaf);
    assert!(texts(&lines, LogKind::Note).iter().any(|text| text.starts_with("read at most ")), "{lines:?}");
}

#[tokio::test]
async fn nobody_else_holds_the_other_end_of_an_input() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let first = "echo ready > $SIGN; read -r line < $GATE; cat | wc -c";
    let (mut reader, heard) = fed(&fixture, first, large());
    let gate = gate(&fixture, &mut reader);
    fixture.start(&reader).await;
    assert_eq!(sign.line().await, "ready");
    // Started while the input of the first is open.
    let (sleeper, _) = fed(&fixture, "echo ready > $SIGN; exec sleep 1000", b"x".to_vec());
    fixture.start(&sleeper).await;
    assert_eq!(sign.line().await, "ready");
    // Opening it waits for the reader, and the reader for this.
    std::fs::OpenOptions::new().write(true).open(&gate).unwrap();
    let report = fixture.report().await;
    assert_eq!((report.run, report.exit), (reader.run, Exit::Code(0)));
    assert_eq!(String::from_utf8(heard.of(Stream::Stdout)).unwrap().trim(), "10000000");
    fixture.executor.stop(sleeper.run, Millis::ZERO);
    fixture.report().await;
}

#[tokio::test]
async fn a_flood_is_heard_to_its_end() {
    let mut fixture = Fixture::new();
    let counted = Counted::default();
    let tap = {
        let counted = Arc::clone(&counted);
        Tap::new(move |_, bytes, _| {
            let (count, last) = &mut *counted.lock().unwrap();
            *count += bytes.len() as u64;
            *last = bytes.to_vec();
        })
    };
    let launch = Launch { tap: Some(tap), ..fixture.launch("yes | head -c 100000000; printf 'the end'") };
    let report = fixture.finish(&launch).await;
    assert_eq!((report.exit, report.last_line.as_str()), (Exit::Code(0), "the end"));
    let (count, last) = &*counted.lock().unwrap();
    assert_eq!(*count, 100_000_007);
    assert!(last.ends_with(b"the end"), "a half line is heard too");
    assert!(std::fs::metadata(&launch.log).unwrap().len() < launch.limits.log_bytes + 3 * 1024 * 1024);
}

/// Bytes come faster than they are heard, so that there is always more; the stop must be heard all the same, and another
/// run must get its turn.
#[tokio::test]
async fn a_flood_that_never_ends_can_be_stopped() {
    let mut fixture = Fixture::new();
    let (first, begun) = tokio::sync::oneshot::channel();
    let first = Mutex::new(Some(first));
    let tap = Tap::new(move |_, bytes, _| {
        for _ in 0..20 {
            std::hint::black_box(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        }
        if let Some(first) = first.lock().unwrap().take() {
            first.send(()).unwrap();
        }
    });
    let flood = Launch { tap: Some(tap), ..fixture.launch("yes") };
    fixture.start(&flood).await;
    within(begun).await.unwrap();
    let (other, _) = fed(&fixture, "cat", b"hello".to_vec());
    assert_eq!(fixture.finish(&other).await.exit, Exit::Code(0));
    fixture.executor.stop(flood.run, Millis::ZERO);
    let report = fixture.report().await;
    assert_eq!((report.run, report.exit), (flood.run, Exit::Signal(9)));
}

#[tokio::test]
async fn who_holds_the_pipes_after_the_end_holds_up_nothing() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let daemon = "setsid sh -c 'echo $$ > $SIGN; echo > $GATE; exec sleep 1000' &";
    let script = format!("{daemon} read -r line; echo \"$line\"; read -r line < $GATE");
    let (mut launch, heard) = fed(&fixture, &script, [b"first\n".as_slice(), &large()].concat());
    gate(&fixture, &mut launch);
    fixture.start(&launch).await;
    let daemon = sign.pid().await;
    let report = fixture.report().await;
    assert_eq!((report.exit, report.escaped), (Exit::Code(0), 1));
    assert_eq!(heard.of(Stream::Stdout), b"first\n");
    assert!(!lives(daemon));
    assert!(fixture.says_no_more().await);
    assert_eq!(heard.of(Stream::Stdout), b"first\n", "after the report nothing is heard");
}
