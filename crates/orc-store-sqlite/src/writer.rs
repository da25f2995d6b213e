//! The one writer, a thread of its own: takes what is waiting, makes one transaction of it, answers when that is durable.
//!
//! Every write of several stands behind a savepoint, so each succeeds or fails alone; a failure of the database itself (no
//! room, a read-only file) fails the whole batch, nothing of which was answered. The writer stays usable after any
//! failure. It never answers before the COMMIT, never opens a transaction that only reads, and ends when told to or when
//! every handle is gone. Between two statements there is nothing but a call: docs/adr/0010-writer-without-sqlx.md.

use std::path::Path;
use std::time::Duration;

use orc_ports::store::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;
use crate::schema::{cannot_open, open_writable};
use crate::statement::{Stopped, Texts};
use crate::work::{Durability, Outcome, Verdict, Work, judge};

/// Writes in one transaction. More would make the first of them wait too long.
const BATCH: usize = 256;
/// Writes that may wait: a few batches; whoever comes then waits for room, so memory stays bounded.
const QUEUE: usize = 4 * BATCH;
/// Quiet time after which the write-ahead log is copied back, so that it is short when somebody reads the file.
const IDLE: Duration = Duration::from_millis(500);

/// What the writer is sent.
pub(crate) enum Message {
    /// A write and where its answer goes.
    Write(Work, Answer),
    /// End after everything before.
    Close(oneshot::Sender<()>),
}

type Answer = oneshot::Sender<Result<Outcome, StoreError>>;

/// A write in the current batch.
struct Entry {
    operation: &'static str,
    id: String,
    answer: Answer,
    outcome: Result<Outcome, StoreError>,
}

/// See the module.
pub(crate) struct Writer {
    connection: Connection,
    texts: Texts,
    durability: Durability,
    unsaved: bool,
}

/// Opens the database on a thread that then writes what it is sent.
pub(crate) async fn start(path: &Path) -> Result<mpsc::Sender<Message>, StoreError> {
    let (inbox, messages) = mpsc::channel(QUEUE);
    let (ready, opened) = oneshot::channel();
    let place = path.to_owned();
    let body = move || {
        // The timer is all that is wanted of it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| cannot_open(&place, error));
        let (runtime, connection) = match runtime.and_then(|runtime| Ok((runtime, open_writable(&place)?))) {
            Ok(both) => both,
            Err(error) => {
                // Nobody hears it whose caller is gone.
                let _ = ready.send(Err(error));
                return;
            }
        };
        if ready.send(Ok(())).is_ok() {
            runtime.block_on(Writer::new(connection).run(messages));
        }
    };
    let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(body);
    thread.map_err(|error| cannot_open(path, error))?;
    opened.await.map_err(|_| StoreError::Closed)??;
    Ok(inbox)
}

impl Writer {
    /// `connection` was opened with `synchronous` NORMAL and is used by nobody else.
    fn new(connection: Connection) -> Self {
        Self { connection, texts: Texts::new(), durability: Durability::Process, unsaved: false }
    }

    /// Writes until it is told to close, or until nobody is left who could.
    async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        let mut waiting = Vec::with_capacity(BATCH);
        loop {
            let received = if self.unsaved {
                match tokio::time::timeout(IDLE, inbox.recv_many(&mut waiting, BATCH)).await {
                    Ok(received) => received,
                    Err(_) => {
                        self.checkpoint();
                        continue;
                    }
                }
            } else {
                inbox.recv_many(&mut waiting, BATCH).await
            };
            let mut writes = Vec::with_capacity(received);
            let mut close = None;
            for message in waiting.drain(..) {
                match message {
                    Message::Write(work, answer) if close.is_none() => writes.push((work, answer)),
                    // Dropping the sender answers `Closed`.
                    Message::Write(..) => {}
                    Message::Close(done) => close = Some(done),
                }
            }
            self.write(writes);
            if received == 0 || close.is_some() {
                inbox.close();
                if let Err((_, error)) = self.connection.close() {
                    tracing::warn!(%error, "the database did not close cleanly");
                }
                if let Some(done) = close
                    && done.send(()).is_err()
                {
                    tracing::debug!("nobody waits for the end of the writer");
                }
                return;
            }
        }
    }

    /// One transaction over `writes`, then their answers.
    fn write(&mut self, writes: Vec<(Work, Answer)>) {
        if writes.is_empty() {
            return;
        }
        let is_lone = writes.len() == 1;
        let needed = writes.iter().map(|(work, _)| work.durability).max().unwrap_or(Durability::Process);
        let mut entries = Vec::with_capacity(writes.len());
        let mut broken = self.set_durability(needed).and_then(|()| self.execute("BEGIN IMMEDIATE")).err();
        for (work, answer) in writes {
            let (operation, id) = (work.operation, work.id.clone());
            let outcome = if broken.is_some() {
                Ok(Outcome::Done)
            } else {
                let result = self.write_one(work, is_lone);
                result.unwrap_or_else(|failure| {
                    broken = Some(failure);
                    Ok(Outcome::Done)
                })
            };
            entries.push(Entry { operation, id, answer, outcome });
        }
        // A lone write that was taken back has ended the transaction.
        if broken.is_none() && !self.connection.is_autocommit() {
            broken = self.execute("COMMIT").err();
        }
        if let Some(failure) = &broken {
            // SQLite may have rolled back by itself, then there is no transaction.
            let undone = if self.connection.is_autocommit() { Ok(()) } else { self.execute("ROLLBACK") };
            tracing::error!(error = %failure, ?undone, writes = entries.len(), "writes failed");
        }
        self.unsaved = true;
        for entry in entries {
            let answer = match &broken {
                Some(failure) => Err(failure.clone().into_error(entry.operation)),
                None => entry.outcome,
            };
            if entry.answer.send(answer).is_err() {
                tracing::debug!(operation = entry.operation, id = entry.id, "nobody waits for this answer");
            }
        }
    }

    /// Runs one write, behind a savepoint unless it is the only one; `Err` fails the batch.
    fn write_one(&self, work: Work, is_lone: bool) -> Result<Result<Outcome, StoreError>, Failure> {
        if !is_lone {
            self.execute("SAVEPOINT w")?;
        }
        let Work { operation, id, script, .. } = work;
        let verdict = match script.run(&self.connection, &self.texts) {
            Ok(ran) => judge(operation, &id, &ran),
            Err(Stopped { ran, source }) => {
                let failure = Failure::from(source);
                if !failure.is_constraint() {
                    return Err(failure);
                }
                // A write on an old version may run into anything; that it was old is the reason then.
                match judge(operation, &id, &ran) {
                    Verdict::Keep(_) => Verdict::Undo(Err(failure.into_contract(operation, id))),
                    undo @ Verdict::Undo(_) => undo,
                }
            }
        };
        match verdict {
            Verdict::Undo(outcome) if is_lone => self.execute("ROLLBACK").map(|()| outcome),
            Verdict::Undo(outcome) => {
                self.execute("ROLLBACK TO w")?;
                self.execute("RELEASE w").map(|()| outcome)
            }
            Verdict::Keep(outcome) if is_lone => Ok(Ok(outcome)),
            Verdict::Keep(outcome) => self.execute("RELEASE w").map(|()| Ok(outcome)),
        }
    }

    fn set_durability(&mut self, needed: Durability) -> Result<(), Failure> {
        if needed == self.durability {
            return Ok(());
        }
        self.execute(match needed {
            Durability::Process => "PRAGMA synchronous = NORMAL",
            Durability::Power => "PRAGMA synchronous = FULL",
        })?;
        self.durability = needed;
        Ok(())
    }

    /// A statement without arguments and rows.
    fn execute(&self, text: &'static str) -> Result<(), Failure> {
        self.connection.prepare_cached(text)?.execute([])?;
        Ok(())
    }

    /// Copies the log back as far as readers allow; that it cannot now is no failure.
    fn checkpoint(&mut self) {
        self.unsaved = false;
        if let Err(error) = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(%error, "the write-ahead log was not copied back");
        }
    }
}

#[cfg(test)]
mod tests {
    use orc_ports::reader::{FlowFilter, Reader as _};
    use orc_ports::store::{Commit, Store as _};
    use orc_testkit::conformance::store::scene;
    use tempfile::TempDir;

    use super::*;
    use crate::{SqliteStore, check, schema};

    struct Bench {
        directory: TempDir,
        writer: Writer,
    }

    impl Bench {
        /// A database with a definition and flow 1.
        async fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("orc.db");
            let store = SqliteStore::open(&path).await.unwrap();
            scene::prepare(&store).await;
            scene::done(&store, scene::create(scene::flow_id(1))).await;
            store.close().await.unwrap();
            let writer = Writer::new(open_writable(&path).unwrap());
            Self { directory, writer }
        }

        fn pragma(&self, text: &'static str) -> i64 {
            self.writer.connection.query_row(text, [], |row| row.get(0)).unwrap()
        }

        /// One batch.
        async fn write(&mut self, commits: &[Commit]) -> Vec<Result<Outcome, StoreError>> {
            let mut writes = Vec::new();
            let mut answers = Vec::new();
            for commit in commits {
                let (answer, answered) = oneshot::channel();
                writes.push((Work::commit(commit).unwrap(), answer));
                answers.push(answered);
            }
            self.writer.write(writes);
            let mut said = Vec::new();
            for answer in answers {
                said.push(answer.await.unwrap());
            }
            said
        }

        /// Closes, opens as a store and looks at everything.
        async fn version_of(self, flow: u32) -> u64 {
            self.writer.connection.close().unwrap();
            let path = self.directory.path().join("orc.db");
            assert_eq!(check(&path).await.unwrap(), crate::Findings::default());
            let store = SqliteStore::open(&path).await.unwrap();
            let loaded = store.flow_load(scene::flow_id(flow)).await.unwrap().unwrap();
            store.close().await.unwrap();
            loaded.flow.head.version
        }
    }

    /// Commits with a step of 100 kB each, so that they need room.
    fn large(expected: u64) -> Commit {
        use orc_domain::effect::Change;
        use orc_domain::flow::StepState;
        use orc_domain::value::Value;
        let mut step = scene::step(0, StepState::Blocked);
        step.output = Some(Value::text("x".repeat(100_000 * usize::try_from(expected).unwrap())));
        scene::carry_on(scene::flow_id(1), expected, vec![Change::Step(step)])
    }

    #[tokio::test]
    async fn a_full_disk_fails_the_batch_and_the_writer_goes_on_when_there_is_room() {
        let mut bench = Bench::new().await;
        let pages = bench.pragma("PRAGMA page_count");
        assert!(pages < 60, "{pages}");
        bench.pragma("PRAGMA max_page_count = 100");
        assert!(matches!(bench.write(&[large(1)]).await[..], [Ok(Outcome::Done)]), "there is room for one");
        // The first of the batch would fit, but nothing of a batch is true before all of it is.
        let said = bench.write(&[scene::carry_on(scene::flow_id(1), 2, Vec::new()), large(3)]).await;
        assert!(
            matches!(said[..], [Err(StoreError::Full { operation: "commit", .. }), Err(StoreError::Full { .. })]),
            "{said:?}"
        );
        bench.pragma("PRAGMA max_page_count = 1000000");
        let said = bench.write(&[scene::carry_on(scene::flow_id(1), 2, Vec::new()), large(3)]).await;
        assert!(matches!(said[..], [Ok(Outcome::Done), Ok(Outcome::Done)]), "{said:?}");
        assert_eq!(bench.version_of(1).await, 4);
    }

    #[tokio::test]
    async fn a_read_only_database_says_so_and_the_writer_goes_on_afterwards() {
        let mut bench = Bench::new().await;
        bench.writer.connection.execute_batch("PRAGMA query_only = ON").unwrap();
        let said = bench.write(&[large(1)]).await;
        assert!(matches!(said[..], [Err(StoreError::ReadOnly { .. })]), "{said:?}");
        bench.writer.connection.execute_batch("PRAGMA query_only = OFF").unwrap();
        assert!(matches!(bench.write(&[large(1)]).await[..], [Ok(Outcome::Done)]));
        assert_eq!(bench.version_of(1).await, 2);
    }

    #[tokio::test]
    async fn each_write_of_a_batch_succeeds_or_fails_alone() {
        let mut bench = Bench::new().await;
        let flow = |number| scene::flow_id(number);
        let mut refused = scene::launch(flow(1), 2, 0);
        refused.slots = 0;
        let mut twice = scene::launch(flow(2), 1, 0);
        twice.decision.effects.push(scene::start_run(flow(2), 0));
        let batch = [
            scene::carry_on(flow(1), 1, Vec::new()),
            refused,
            scene::create(flow(2)),
            scene::create(flow(2)),
            twice,
            scene::carry_on(flow(1), 1, Vec::new()),
            scene::launch(flow(1), 2, 0),
        ];
        let said = bench.write(&batch).await;
        assert!(
            matches!(
                said[..],
                [
                    Ok(Outcome::Done),
                    Ok(Outcome::Refused(_)),
                    Ok(Outcome::Done),
                    Ok(Outcome::Stale),
                    Err(StoreError::Contract { .. }),
                    Ok(Outcome::Stale),
                    Ok(Outcome::Done),
                ]
            ),
            "{said:?}"
        );
        assert_eq!(bench.version_of(1).await, 3);
    }

    #[tokio::test]
    async fn a_log_that_was_copied_back_is_not_needed_any_more() {
        let mut bench = Bench::new().await;
        assert!(matches!(bench.write(&[large(1)]).await[..], [Ok(Outcome::Done)]));
        let path = bench.directory.path().join("orc.db");
        let alone = bench.directory.path().join("alone.db");
        bench.writer.checkpoint();
        assert!(!bench.writer.unsaved);
        std::fs::copy(&path, &alone).unwrap();
        let store = SqliteStore::open(&alone).await.unwrap();
        assert_eq!(store.flow_load(scene::flow_id(1)).await.unwrap().unwrap().flow.head.version, 2);
    }

    #[tokio::test]
    async fn readers_hold_nothing_open_between_their_calls() {
        let mut bench = Bench::new().await;
        let path = bench.directory.path().join("orc.db");
        let reader = crate::SqliteReader::open(&path).await.unwrap();
        for expected in 1..20 {
            assert!(matches!(bench.write(&[large(expected)]).await[..], [Ok(Outcome::Done)]));
            reader.flow(scene::flow_id(1)).await.unwrap().unwrap();
            reader.flow(scene::flow_id(9)).await.unwrap();
            reader.flows(FlowFilter::All, None, 9).await.unwrap();
            reader.runs(None, Some(scene::run_id(scene::flow_id(9), &scene::path(0), 1)), 9).await.unwrap();
        }
        // With a snapshot left open the log could not start over, and would grow for ever.
        assert_eq!(bench.pragma("PRAGMA wal_checkpoint(TRUNCATE)"), 0, "nobody was in the way");
        assert_eq!(std::fs::metadata(schema::beside(&path, "-wal")).unwrap().len(), 0);
    }

    #[tokio::test]
    async fn a_batch_with_an_effect_that_leaves_the_machine_is_synced() {
        let mut bench = Bench::new().await;
        let mut levels = Vec::new();
        for durability in [Durability::Process, Durability::Power, Durability::Process] {
            let (answer, answered) = oneshot::channel();
            let mut work = Work::consumer_advance("one", 0, 0);
            work.durability = durability;
            bench.writer.write(vec![(work, answer)]);
            assert!(answered.await.unwrap().is_ok());
            levels.push(bench.pragma("PRAGMA synchronous"));
        }
        assert_eq!(levels, [1, 2, 1], "NORMAL, FULL, NORMAL");
    }
}
