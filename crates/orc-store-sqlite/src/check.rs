//! Looking after a database: `db check`, `db backup`, and the facts that `doctor` prints.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use futures_util::TryStreamExt as _;
use orc_domain::graph::Pipeline;
use orc_domain::ledger::Day;
use orc_ports::store::StoreError;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection as _, Row as _, query};

use crate::costs;
use crate::failure::failed;
use crate::read::size;
use crate::row::{self, Place};
use crate::schema::{
    SCHEMA_VERSION, beside, cannot_open, check_readable, open_writable, read_options, require_file, version,
};
use crate::statement::{
    CHECK_EVENT_GAPS, CHECK_FINISHED_COUNT, CHECK_LEDGER_OPEN, CHECK_LEDGER_OPEN_OF_ENDED, CHECK_LEDGER_SUMS,
    CHECK_LIVE_RUNS_OF_FINISHED_FLOWS, CHECK_LIVE_RUNS_WITHOUT_SLOT, CHECK_OPEN_REQUESTS_OF_FINISHED_FLOWS,
    CHECK_PLACES_OF_FINISHED_FLOWS, CHECK_SLOTS_WITHOUT_LIVE_RUN, CHECK_UNFINISHED_WITHOUT_ALARM, SCAN_EFFECTS,
    SCAN_EVENTS, SCAN_FLOWS, SCAN_LEDGER_ACCOUNTS, SCAN_LEDGER_CALLS, SCAN_PIPELINES, SCAN_REQUESTS, SCAN_RUNS,
    SCAN_STEPS, Statement,
};

/// Findings listed; what is beyond is counted.
const LISTED: usize = 100;

/// What [`check`] found. Nothing found is an empty list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Sentences, each naming a row where there is one; at most 100.
    pub listed: Vec<String>,
    /// Findings beyond those.
    pub further: u64,
}

/// Facts about a database file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its schema version.
    pub schema: i64,
    /// The version of this program.
    pub known: i64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of its write-ahead log.
    pub log_bytes: u64,
    /// `wal` unless somebody changed it.
    pub journal_mode: String,
    /// SQLite's own version.
    pub sqlite: String,
}

impl Findings {
    fn add(&mut self, finding: String) {
        if self.listed.len() < LISTED { self.listed.push(finding) } else { self.further += 1 }
    }
}

/// Invariants that SQL can ask for: the statement lists what breaks them, the text says what that means.
const INVARIANTS: &[(Statement, &str)] = &[
    (CHECK_SLOTS_WITHOUT_LIVE_RUN, "holds a slot and is not live"),
    (CHECK_LIVE_RUNS_WITHOUT_SLOT, "is live and holds no slot"),
    (CHECK_LIVE_RUNS_OF_FINISHED_FLOWS, "is live and its flow is over"),
    (CHECK_OPEN_REQUESTS_OF_FINISHED_FLOWS, "waits for an answer and its flow is over"),
    (CHECK_PLACES_OF_FINISHED_FLOWS, "is over and has a place in a concurrency group"),
    (CHECK_UNFINISHED_WITHOUT_ALARM, "is not finished and has no alarm"),
    (CHECK_EVENT_GAPS, "is the position of an event after a gap"),
    (CHECK_FINISHED_COUNT, "is a counter that does not agree with its rows"),
    (CHECK_LEDGER_OPEN, "is a call whose entries and place among the calls in flight contradict each other"),
    (CHECK_LEDGER_OPEN_OF_ENDED, "is a call in flight of an instance that is over"),
];

/// Looks at everything in the database at `path`, read-only: the file itself, references, counts, and whether each row
/// can be read.
///
/// # Errors
/// When the database cannot be opened or reading stops; what is wrong *in* it is a finding.
pub async fn check(path: &Path) -> Result<Findings, StoreError> {
    let mut connection = connect(path).await?;
    check_readable(&mut connection, path).await?;
    let mut findings = Findings::default();
    for text in rows(&mut connection, "PRAGMA integrity_check").await? {
        let said: String = text.try_get(0).map_err(failed("integrity_check"))?;
        if said != "ok" {
            findings.add(format!("the file is damaged: {said}"));
        }
    }
    for broken in rows(&mut connection, "PRAGMA foreign_key_check").await? {
        let table: String = broken.try_get(0).map_err(failed("foreign_key_check"))?;
        let row: Option<i64> = broken.try_get(1).map_err(failed("foreign_key_check"))?;
        let parent: String = broken.try_get(2).map_err(failed("foreign_key_check"))?;
        findings.add(format!("row {} of `{table}` refers to no row of `{parent}`", row.unwrap_or_default()));
    }
    for (statement, meaning) in INVARIANTS {
        for found in rows(&mut connection, statement.text).await? {
            let id: String = match found.try_get::<String, _>(0) {
                Ok(id) => id,
                Err(_) => found.try_get::<i64, _>(0).map_err(failed(statement.name))?.to_string(),
            };
            findings.add(format!("{id} {meaning}"));
        }
    }
    scan(&mut connection, SCAN_PIPELINES, pipeline, &mut findings).await?;
    scan(&mut connection, SCAN_FLOWS, flow, &mut findings).await?;
    scan(&mut connection, SCAN_STEPS, step, &mut findings).await?;
    scan(&mut connection, SCAN_RUNS, |found| row::run(found).map(drop), &mut findings).await?;
    scan(&mut connection, SCAN_REQUESTS, |found| row::request(found).map(drop), &mut findings).await?;
    scan(&mut connection, SCAN_EVENTS, |found| row::event(found).map(drop), &mut findings).await?;
    scan(&mut connection, SCAN_EFFECTS, |found| row::effect(found).map(drop), &mut findings).await?;
    scan(&mut connection, SCAN_LEDGER_ACCOUNTS, costs::account, &mut findings).await?;
    scan(&mut connection, SCAN_LEDGER_CALLS, |found| costs::call(found).map(drop), &mut findings).await?;
    compare_sums(&mut connection, &mut findings).await?;
    connection.close().await.map_err(failed("close"))?;
    Ok(findings)
}

/// Compares the maintained sums of the ledger with a fold of its entries, and nothing else: a part of [`check`].
///
/// # Errors
/// As [`check`].
pub async fn check_sums(path: &Path) -> Result<Findings, StoreError> {
    let mut connection = connect(path).await?;
    check_readable(&mut connection, path).await?;
    let mut findings = Findings::default();
    compare_sums(&mut connection, &mut findings).await?;
    connection.close().await.map_err(failed("close"))?;
    Ok(findings)
}

/// Figures of a sum; a fold has the same ones with `folded_` before them.
const FIGURES: [&str; 13] = [
    "calls",
    "input",
    "cache_read",
    "cache_write",
    "cache_write_long",
    "output",
    "reasoning",
    "server_tools",
    "lost_tokens",
    "micros",
    "unsure",
    "reserved",
    "in_flight",
];

async fn compare_sums(connection: &mut SqliteConnection, findings: &mut Findings) -> Result<(), StoreError> {
    let what = failed::<sqlx::Error>(CHECK_LEDGER_SUMS.name);
    let found = query(CHECK_LEDGER_SUMS.text).fetch_all(connection).await.map_err(what)?;
    for found in &found {
        let place = Place { table: "ledger_sums", id: row::id_of(found, "ledger_sums", "account")? };
        let mut wrong = Vec::new();
        for figure in FIGURES {
            let kept: i64 = place.column(found, figure)?;
            let folded: i64 =
                found.try_get(format!("folded_{figure}").as_str()).map_err(failed(CHECK_LEDGER_SUMS.name))?;
            if kept != folded {
                wrong.push(format!("{figure} {kept} instead of {folded}"));
            }
        }
        let (agent, model): (&str, &str) = (place.column(found, "agent")?, place.column(found, "model")?);
        let day = Day::from_number(place.column(found, "day")?);
        findings.add(format!(
            "the ledger's sum of {day}, agent `{agent}`, model `{model}` (account {}) is not what its entries add up to: {}",
            place.id,
            wrong.join(", ")
        ));
    }
    Ok(())
}

/// Copies the database at `path` to the file `to`, also while somebody writes. The copy is looked at before it gets its
/// name, which it gets whole or not at all; a file that is there is replaced only if `replace` says so.
///
/// # Errors
/// When `to` is there and may not be replaced, when it is a database in use, or when either file cannot be used.
pub async fn backup(path: &Path, to: &Path, replace: bool) -> Result<(), StoreError> {
    may_become_backup(path, to, replace).map_err(|error| cannot_open(to, error))?;
    let half = beside(to, &format!("-half-{}", std::process::id()));
    let written = async {
        write_copy(path, &half).await?;
        name_copy(&half, to, replace).map_err(|error| cannot_open(to, error))
    };
    let written = written.await;
    // After a failure, or a hard link, the first name is no longer wanted; after a rename it is gone.
    if let Err(error) = fs::remove_file(&half)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(file = %half.display(), %error, "a left-over file could not be removed");
    }
    written
}

fn may_become_backup(path: &Path, to: &Path, replace: bool) -> io::Result<()> {
    let taken = |why: &str| Err(io::Error::new(io::ErrorKind::AlreadyExists, why.to_owned()));
    if let (Ok(from), Ok(to)) = (fs::canonicalize(path), fs::canonicalize(to))
        && from == to
    {
        return taken("it is the database itself");
    }
    // Whoever opens the copy would read this log as its own.
    if beside(to, "-wal").exists() {
        return taken("it is a database in use, or the log of one lies beside it");
    }
    if to.exists() && !replace { taken("the file is there already; name a new one") } else { Ok(()) }
}

async fn write_copy(path: &Path, half: &Path) -> Result<(), StoreError> {
    let mut connection = connect(path).await?;
    version(&mut connection, path).await?;
    let Some(name) = half.to_str() else {
        return Err(cannot_open(half, io::Error::other("its name is not UTF-8")));
    };
    query("VACUUM INTO $1").bind(name).execute(&mut connection).await.map_err(failed("backup"))?;
    connection.close().await.map_err(failed("close"))?;
    let mut copy = connect(half).await?;
    version(&mut copy, half).await?;
    let found = text(&mut copy, "PRAGMA integrity_check").await?;
    copy.close().await.map_err(failed("close"))?;
    if found == "ok" {
        Ok(())
    } else {
        Err(cannot_open(half, io::Error::other(format!("the copy is damaged: {found}"))))
    }
}

fn name_copy(half: &Path, to: &Path, replace: bool) -> io::Result<()> {
    File::open(half)?.sync_all()?;
    match fs::hard_link(half, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !replace => return Err(error),
        // Some file systems have no hard links.
        Err(_) => fs::rename(half, to)?,
        Ok(()) => {}
    }
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

/// Gives the unused space of the database at `path` back to the disk; the caller holds the lock of the data directory.
///
/// # Errors
/// As [`crate::SqliteStore::open`], and when there is no room for the copy that this needs.
pub async fn vacuum(path: &Path) -> Result<(), StoreError> {
    require_file(path)?;
    let path = path.to_owned();
    let work = move || {
        let connection = open_writable(&path)?;
        connection.execute_batch("VACUUM").map_err(failed("vacuum"))?;
        connection.close().map_err(|(_, error)| failed("close")(error))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)?
}

/// Facts about the database at `path`, also of one that is too new.
///
/// # Errors
/// When there is none, or it is not ours.
pub async fn facts(path: &Path) -> Result<Facts, StoreError> {
    let mut connection = connect(path).await?;
    let schema = match version(&mut connection, path).await {
        Ok(found) | Err(StoreError::Newer { found, .. }) => found,
        Err(error) => return Err(error),
    };
    let journal_mode = text(&mut connection, "PRAGMA journal_mode").await?;
    let sqlite = text(&mut connection, "SELECT sqlite_version()").await?;
    connection.close().await.map_err(failed("close"))?;
    Ok(Facts {
        schema,
        known: SCHEMA_VERSION,
        bytes: size(path),
        log_bytes: size(&beside(path, "-wal")),
        journal_mode,
        sqlite,
    })
}

async fn connect(path: &Path) -> Result<SqliteConnection, StoreError> {
    require_file(path)?;
    SqliteConnection::connect_with(&read_options(path)).await.map_err(|error| cannot_open(path, error))
}

async fn rows(connection: &mut SqliteConnection, text: &'static str) -> Result<Vec<SqliteRow>, StoreError> {
    query(text).fetch_all(connection).await.map_err(failed("check"))
}

async fn text(connection: &mut SqliteConnection, text: &'static str) -> Result<String, StoreError> {
    let found = query(text).fetch_one(connection).await.map_err(failed("facts"))?;
    found.try_get(0).map_err(failed("facts"))
}

async fn scan(
    connection: &mut SqliteConnection,
    statement: Statement,
    read: impl Fn(&SqliteRow) -> Result<(), StoreError>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut found = query(statement.text).fetch(connection);
    while let Some(found) = found.try_next().await.map_err(failed(statement.name))? {
        if let Err(error) = read(&found) {
            findings.add(error.to_string());
        }
    }
    Ok(())
}

fn pipeline(found: &SqliteRow) -> Result<(), StoreError> {
    let place = Place { table: "pipelines", id: row::id_of(found, "pipelines", "hash")? };
    place.json::<Pipeline>(found, "body").map(drop)
}

fn flow(found: &SqliteRow) -> Result<(), StoreError> {
    row::flow(found, row::id_of(found, "flows", "id")?).map(drop)
}

fn step(found: &SqliteRow) -> Result<(), StoreError> {
    row::step(found, row::id_of(found, "steps", "flow")?).map(drop)
}
