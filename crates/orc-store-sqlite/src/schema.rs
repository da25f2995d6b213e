//! The schema: its versions, the template of an empty database, and opening a file.
//!
//! The version is SQLite's `user_version`, which even a database of a later program can be asked for; `application_id`
//! tells our files from others. An empty database is a copy of [`TEMPLATE`], which a test compares with [`MIGRATIONS`]
//! applied one after the other; `cargo run -p orc-store-sqlite --example template` makes it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use orc_ports::store::StoreError;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Row as _};

use crate::failure::{Failure, failed};

/// A change of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// The version it leads to; versions count from 1 without gaps.
    pub version: i64,
    /// For people.
    pub name: &'static str,
    /// Statements.
    pub text: &'static str,
}

macro_rules! migration {
    ($version:literal, $file:literal) => {
        Migration {
            version: $version,
            name: $file,
            text: include_str!(concat!("../../../migrations/sqlite/", $file, ".sql")),
        }
    };
}

/// All of them, in order.
pub const MIGRATIONS: &[Migration] =
    &[migration!(1, "0001_begin"), migration!(2, "0002_finished_flows"), migration!(3, "0003_ledger")];

/// The version this program writes.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// `orc2` in ASCII: the layout of rows since steps work in private copies.
pub(crate) const APPLICATION_ID: i64 = 0x6f72_6332;
/// `orch` and `orc1` in ASCII: layouts before version 0.1 was complete, of which this program reads neither flows nor runs.
const EARLIER_LAYOUTS: [i64; 2] = [0x6f72_6368, 0x6f72_6331];

/// An empty database in write-ahead mode, with every migration applied.
pub(crate) const TEMPLATE: &[u8] = include_bytes!("../../../migrations/sqlite/template.db");

/// How long SQLite waits for another process (a migration, a backup) before it says that it is busy.
const BUSY: Duration = Duration::from_secs(10);
/// Statements whose prepared form the writer keeps: all that it has, and those that begin and end transactions.
const STATEMENT_CACHE: usize = 128;
/// What the writing connection is set to. The cache is 32 MiB of pages (negative: KiB), the parts of the indexes that live
/// flows touch; after 16000 pages of the log (4 KiB each) a commit copies it back, idle time does it earlier; the log is cut
/// to 64 MiB when it starts over.
const WRITER: &str = "PRAGMA foreign_keys = ON;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -32768;
PRAGMA wal_autocheckpoint = 16000;
PRAGMA journal_size_limit = 67108864;";

/// A connection that writes; `more` is added to how the file is opened.
fn connect(path: &Path, more: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    connection.execute_batch(WRITER)?;
    Ok(connection)
}

/// Whether there is a file to read; SQLite's own words for it ("unable to open database file") do not say so.
pub(crate) fn require_file(path: &Path) -> Result<(), StoreError> {
    if path.exists() {
        return Ok(());
    }
    Err(cannot_open(
        path,
        io::Error::new(io::ErrorKind::NotFound, "there is no database yet; the first `run` makes it"),
    ))
}

/// Options of connections that only read.
pub(crate) fn read_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .busy_timeout(BUSY)
        .thread_name(|number| format!("store-reader-{number}"))
        .disable_statement_logging()
}

/// Opens a database for writing: makes it if it is missing, and migrates it if it is old. Waits for others that write, so
/// this is for threads that may wait.
pub(crate) fn open_writable(path: &Path) -> Result<Connection, StoreError> {
    create(path).map_err(|error| cannot_open(path, error))?;
    if let Some(layout) = application_of(path).filter(|found| EARLIER_LAYOUTS.contains(found)) {
        // Before anything is set: it stays as it is, byte for byte.
        judge_version(layout, 0, path)?;
    }
    let mut connection = connect(path, OpenFlags::empty()).map_err(|error| unreadable(path, error))?;
    let number = |name: &str| {
        let found = connection.pragma_query_value(None, name, |row| row.get(0));
        found.map_err(|error| unreadable(path, error))
    };
    let found = judge_version(number("application_id")?, number("user_version")?, path)?;
    require_write(&connection, found)?;
    if found < SCHEMA_VERSION {
        migrate(&mut connection, found)?;
    }
    Ok(connection)
}

/// Gives a database of a layout before version 0.1 was complete another name, with its log: nothing of it is lost, and
/// whoever only wants to go on can. The caller holds the data directory, so nobody uses it. The new name, if there was one.
///
/// # Errors
/// When it cannot be renamed.
pub fn put_earlier_aside(path: &Path) -> Result<Option<PathBuf>, StoreError> {
    if !application_of(path).is_some_and(|found| EARLIER_LAYOUTS.contains(&found)) {
        return Ok(None);
    }
    let name = |turn: u32| beside(path, &format!(".before-0.1-{turn}"));
    let Some(aside) = (1..1000).map(name).find(|aside| !aside.exists()) else {
        return Err(cannot_open(path, io::Error::other("there is no free name to put an earlier database aside")));
    };
    // The log first: without it the database lacks its latest writes, with it under the new name nothing is missing.
    for suffix in ["-wal", "-shm", ""] {
        match fs::rename(beside(path, suffix), beside(&aside, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot_open(path, error)),
            _ => {}
        }
    }
    Ok(Some(aside))
}

/// The four bytes at offset 68 of a SQLite file, big endian (sqlite.org/fileformat.html); `None`: no file, or not one.
fn application_of(path: &Path) -> Option<i64> {
    use std::os::unix::fs::FileExt as _;
    let file = File::open(path).ok()?;
    let mut header = [0_u8; 72];
    file.read_exact_at(&mut header, 0).ok()?;
    if !header.starts_with(b"SQLite format 3\0") {
        return None;
    }
    let id: [u8; 4] = header[68..72].try_into().ok()?;
    Some(i64::from(u32::from_be_bytes(id)))
}

/// SQLite opens a file that it may not write without a word, and even begins to write; this asks, and changes nothing.
fn require_write(connection: &Connection, found: i64) -> Result<(), StoreError> {
    let text = format!("BEGIN IMMEDIATE; PRAGMA user_version = {found}; ROLLBACK");
    connection.execute_batch(&text).map_err(failed("open"))
}

/// Makes sure that a connection which only reads sees the schema of this program.
pub(crate) async fn check_readable(connection: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    let found = version(connection, path).await?;
    if found < SCHEMA_VERSION {
        let why = format!(
            "it has schema version {found} and this program reads {SCHEMA_VERSION}; `orchestrator db migrate` brings it there"
        );
        return Err(cannot_open(path, io::Error::other(why)));
    }
    Ok(())
}

/// The version of a database of ours. Refuses files of others and versions from the future.
pub(crate) async fn version(connection: &mut SqliteConnection, path: &Path) -> Result<i64, StoreError> {
    let number = |error| unreadable(path, error);
    let application: i64 = pragma(connection, "PRAGMA application_id").await.map_err(number)?;
    let found: i64 = pragma(connection, "PRAGMA user_version").await.map_err(number)?;
    judge_version(application, found, path)
}

fn judge_version(application: i64, found: i64, path: &Path) -> Result<i64, StoreError> {
    if EARLIER_LAYOUTS.contains(&application) {
        let why = "it was written before version 0.1 was complete, and this program cannot read its flows; the next `run` \
                   puts it aside and begins anew, or name another data directory with --data";
        return Err(cannot_open(path, io::Error::other(why)));
    }
    // Zero and zero is a file that SQLite made and nobody filled.
    if application != APPLICATION_ID && (application, found) != (0, 0) {
        return Err(cannot_open(path, io::Error::other("it is a database of another program")));
    }
    if found > SCHEMA_VERSION {
        return Err(StoreError::Newer { found, known: SCHEMA_VERSION });
    }
    Ok(found)
}

async fn pragma(connection: &mut SqliteConnection, text: &'static str) -> Result<i64, sqlx::Error> {
    let row = sqlx::query(text).fetch_one(connection).await?;
    // `application_id` and `user_version` are 32 bits wide.
    row.try_get::<i32, _>(0).map(i64::from)
}

/// Applies what is missing, each migration in its own transaction.
fn migrate(connection: &mut Connection, found: i64) -> Result<(), StoreError> {
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        let text = format!(
            "{}\nPRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {};",
            migration.text, migration.version
        );
        // Dropped without its commit, the transaction is taken back.
        let applied = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .and_then(|transaction| transaction.execute_batch(&text).and_then(|()| transaction.commit()));
        applied.map_err(|error| {
            tracing::error!(migration = migration.name, "a migration failed and was taken back");
            failed("migrate")(error)
        })?;
        tracing::info!(migration = migration.name, "the database was migrated");
    }
    Ok(())
}

/// Tells files apart that one process makes at the same time.
static TURN: AtomicU32 = AtomicU32::new(0);

/// Makes an empty database at `path` unless there is a file. It appears whole or not at all, also after a loss of power.
fn create(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        return Ok(());
    }
    let log = beside(path, "-wal");
    if log.exists() {
        return Err(io::Error::other(format!(
            "the database is missing and its log `{}` is there: put the database back, or remove the log",
            log.display()
        )));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    let fresh = beside(path, &format!("-new-{}-{turn}", std::process::id()));
    let made = write_template(&fresh).and_then(|()| install(&fresh, path));
    // After a hard link, or a failure, the first name is no longer wanted; after a rename it is gone.
    if let Err(error) = fs::remove_file(&fresh)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(file = %fresh.display(), %error, "a left-over file could not be removed");
    }
    made?;
    File::open(directory)?.sync_all()
}

fn write_template(fresh: &Path) -> io::Result<()> {
    let mut file = File::create(fresh)?;
    file.write_all(TEMPLATE)?;
    file.sync_all()
}

/// Gives the file its name without ever replacing a database that somebody else made meanwhile.
fn install(fresh: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(fresh, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // An empty file is what SQLite leaves when it was opened and never written.
            if fs::metadata(path)?.len() == 0 { fs::rename(fresh, path) } else { Ok(()) }
        }
        // Some file systems have no hard links.
        Err(_) => fs::rename(fresh, path),
        Ok(()) => Ok(()),
    }
}

/// The path with `suffix` after its last character, as SQLite names its companions.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The database cannot be opened.
pub(crate) fn cannot_open(path: &Path, source: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Open { path: path.display().to_string(), source: Box::new(source) }
}

/// The database was opened and its first page cannot be read. One that was cut is damaged; a file of another kind is not ours.
fn unreadable<E>(path: &Path, error: E) -> StoreError
where
    E: Into<Failure> + std::error::Error + Send + Sync + 'static,
{
    let failure = error.into();
    if failure.is_corruption() { failure.into_error("open") } else { cannot_open(path, failure) }
}

/// Writes the template of an empty database to `path`, which must not exist: every migration applied to nothing.
///
/// # Errors
/// When the file cannot be made.
pub fn write_empty(path: &Path) -> Result<(), StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE);
    let mut connection = connection.map_err(|error| cannot_open(path, error))?;
    migrate(&mut connection, 0)?;
    // Closing copies the log back and removes it, so that the file alone is the database.
    connection.close().map_err(|(_, error)| failed("close")(error))
}

#[cfg(test)]
mod tests {
    use sqlx::Connection as _;

    use super::*;

    /// Everything a database says about itself.
    async fn description(path: &Path) -> Vec<String> {
        let mut connection = SqliteConnection::connect_with(&read_options(path)).await.unwrap();
        let mut lines = Vec::new();
        for text in [
            "SELECT type || ' ' || name || ' on ' || tbl_name || ': ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1",
            "SELECT name || ' = ' || value FROM counters ORDER BY 1",
            "SELECT 'application ' || application_id FROM pragma_application_id",
            "SELECT 'version ' || user_version FROM pragma_user_version",
            "SELECT 'journal ' || journal_mode FROM pragma_journal_mode",
            "SELECT 'rows ' || (SELECT count(*) FROM pipelines) || ' ' || (SELECT count(*) FROM flows)",
        ] {
            for row in sqlx::query(text).fetch_all(&mut connection).await.unwrap() {
                lines.push(row.try_get::<String, _>(0).unwrap());
            }
        }
        connection.close().await.unwrap();
        lines
    }

    #[tokio::test]
    async fn the_template_is_every_migration_applied_to_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (copied, made) = (directory.path().join("copied.db"), directory.path().join("made.db"));
        create(&copied).unwrap();
        write_empty(&made).unwrap();
        let hint = "run `cargo run -p orc-store-sqlite --example template` after a change of the migrations";
        assert_eq!(description(&copied).await, description(&made).await, "{hint}");
    }

    #[test]
    fn migrations_count_from_one() {
        let versions: Vec<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=SCHEMA_VERSION).collect::<Vec<_>>());
        assert!(MIGRATIONS.iter().all(|migration| migration.name.starts_with(&format!("{:04}_", migration.version))));
    }

    #[test]
    fn a_database_appears_whole_and_is_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/orc.db");
        create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), TEMPLATE);
        fs::write(&path, "mine").unwrap();
        create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        // Somebody made it between the look and the link.
        let fresh = directory.path().join("fresh");
        fs::write(&fresh, "other").unwrap();
        install(&fresh, &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_log_without_its_database_is_not_mixed_with_a_new_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orc.db");
        fs::write(beside(&path, "-wal"), "frames").unwrap();
        let error = create(&path).unwrap_err().to_string();
        assert!(error.contains("orc.db-wal") && error.contains("put the database back"), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_may_not_be_written_is_refused_when_it_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orc.db");
        create(&path).unwrap();
        // The mode that SQLite falls back to when the permissions say no, which they never do to root.
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let error = require_write(&connection, SCHEMA_VERSION).unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { operation: "open", .. }), "{error:?}");
    }
}
