//! What a database can do to us, and what an operator reads then.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use futures_util::future::join;
use orc_domain::effect::Change;
use orc_domain::flow::StepState;
use orc_ports::reader::Reader as _;
use orc_ports::store::{Store as _, StoreError};
use orc_store_sqlite::{
    MIGRATIONS, SCHEMA_VERSION, SqliteReader, SqliteStore, backup, check, facts, migrate, put_earlier_aside,
};
use orc_testkit::conformance::store::scene::{
    carry_on, create, done, flow_id, launch, open, place as group_place, prepare, request_id, step,
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection, raw_sql};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orc.db");
    (directory, path)
}

/// A database with flow 1 of two steps, the first of which runs, closed again. It has an open request and is in a group.
async fn filled() -> (TempDir, PathBuf) {
    let (directory, path) = place();
    let store = SqliteStore::open(&path).await.unwrap();
    prepare(&store).await;
    done(&store, create(flow_id(1))).await;
    done(&store, launch(flow_id(1), 1, 0)).await;
    let asked = vec![Change::Step(step(1, StepState::Blocked)), Change::Request(open(flow_id(1), 0, 1))];
    let mut waiting = carry_on(flow_id(1), 2, asked);
    waiting.decision.claims = vec![group_place(flow_id(1), None, 1)];
    done(&store, waiting).await;
    store.close().await.unwrap();
    (directory, path)
}

/// Does to the file what no code of ours does.
async fn tamper(path: &Path, sql: &str) {
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}?mode=rwc", path.display())).await.unwrap();
    connection.execute(raw_sql(AssertSqlSafe(sql.to_owned()))).await.unwrap();
    connection.close().await.unwrap();
}

/// An error and everything behind it, as it is printed.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[tokio::test]
async fn a_newer_database_is_refused_by_everything_but_its_facts() {
    let (_directory, path) = filled().await;
    let found = SCHEMA_VERSION + 1;
    tamper(&path, &format!("PRAGMA user_version = {found}")).await;
    let before = fs::read(&path).unwrap();
    let errors = [
        SqliteStore::open(&path).await.err(),
        SqliteReader::open(&path).await.err(),
        check(&path).await.err(),
        migrate(&path).await.err(),
        backup(&path, &path.with_extension("copy"), false).await.err(),
    ];
    for error in errors {
        let error = error.unwrap();
        assert!(matches!(error, StoreError::Newer { known: SCHEMA_VERSION, .. }), "{error:?}");
        assert!(error.to_string().contains("newer orchestrator"), "{error}");
    }
    assert_eq!(facts(&path).await.unwrap().schema, found);
    assert_eq!(fs::read(&path).unwrap(), before, "nothing was written");
}

#[tokio::test]
async fn an_older_database_is_migrated_by_a_writer_and_named_by_a_reader() {
    let (_directory, path) = place();
    // A file that SQLite made and nobody filled has version 0.
    tamper(&path, "VACUUM").await;
    let error = chain(&SqliteReader::open(&path).await.err().unwrap());
    assert!(error.contains("orchestrator db migrate"), "{error}");
    migrate(&path).await.unwrap();
    let reader = SqliteReader::open(&path).await.unwrap();
    assert_eq!(reader.totals().await.unwrap().last_event, 0);
    assert_eq!(facts(&path).await.unwrap().schema, SCHEMA_VERSION);
    assert_eq!(facts(&path).await.unwrap().journal_mode, "wal");
}

#[tokio::test]
async fn a_database_of_every_earlier_version_keeps_what_is_in_it() {
    for known in 1..MIGRATIONS.len() {
        // As the program of that version left it: filled, without what later ones add.
        let (_directory, path) = filled().await;
        let (_other, old) = place();
        for migration in &MIGRATIONS[..known] {
            tamper(&old, migration.text).await;
        }
        // Each after those that it refers to.
        let tables = "pipelines flows steps runs slots requests places events effects instances consumers";
        let copies = tables.split(' ').map(|table| format!("INSERT INTO {table} SELECT * FROM filled.{table};"));
        let copies: String = copies.collect();
        let attach = format!("ATTACH '{}' AS filled", path.display());
        let version = format!("PRAGMA application_id = 0x6f726332; PRAGMA user_version = {known}");
        tamper(&old, &format!("{attach}; {copies} {version}")).await;
        assert_eq!(facts(&old).await.unwrap().schema, i64::try_from(known).unwrap());
        migrate(&old).await.unwrap();
        assert_eq!(facts(&old).await.unwrap().schema, SCHEMA_VERSION);
        assert_eq!(check(&old).await.unwrap().listed, [""; 0]);
        let (before, after) = (SqliteReader::open(&path).await.unwrap(), SqliteReader::open(&old).await.unwrap());
        assert_eq!(after.flow(flow_id(1)).await.unwrap(), before.flow(flow_id(1)).await.unwrap());
        assert_eq!(after.events(None, 0, 99).await.unwrap(), before.events(None, 0, 99).await.unwrap());
    }
}

#[tokio::test]
async fn a_database_of_a_layout_before_is_put_aside_whole_and_another_begins() {
    let (directory, path) = place();
    for (turn, layout) in ["0x6f726368", "0x6f726331"].into_iter().enumerate() {
        let _ = fs::remove_file(&path);
        tamper(&path, &format!("CREATE TABLE flows (id); INSERT INTO flows VALUES ({turn}); PRAGMA application_id = {layout}; PRAGMA user_version = 1")).await;
        let before = fs::read(&path).unwrap();
        // Whoever only reads changes nothing, and learns what will.
        let error = chain(&SqliteReader::open(&path).await.err().unwrap());
        assert!(error.contains("puts it aside"), "{error}");
        let error = chain(&SqliteStore::open(&path).await.err().unwrap());
        assert!(error.contains("puts it aside"), "{error}");
        let named = put_earlier_aside(&path).unwrap();
        let store = SqliteStore::open(&path).await.unwrap();
        store.close().await.unwrap();
        assert_eq!(put_earlier_aside(&path).unwrap(), None);
        let aside = directory.path().join(format!("{}.before-0.1-{}", path.file_name().unwrap().display(), turn + 1));
        assert_eq!((named, fs::read(&aside).unwrap()), (Some(aside.clone()), before));
        assert_eq!(facts(&path).await.unwrap().schema, SCHEMA_VERSION);
    }
}

#[tokio::test]
async fn a_file_that_is_not_ours_is_refused_and_left_alone() {
    let (directory, path) = place();
    tamper(&path, "CREATE TABLE theirs (a); PRAGMA application_id = 7; PRAGMA user_version = 1").await;
    let error = chain(&SqliteStore::open(&path).await.err().unwrap());
    assert!(error.contains("another program") && error.contains("orc.db"), "{error}");

    let text = directory.path().join("notes.txt");
    fs::write(&text, "no database at all, but longer than the header of one, which has a hundred bytes. ".repeat(3))
        .unwrap();
    let error = chain(&SqliteStore::open(&text).await.err().unwrap());
    assert!(error.contains("notes.txt") && error.contains("not a database"), "{error}");
    assert!(fs::read_to_string(&text).unwrap().starts_with("no database"));
}

#[tokio::test]
async fn a_missing_database_is_said_to_be_missing_and_not_made_by_readers() {
    let (directory, path) = place();
    let errors = [SqliteReader::open(&path).await.err(), check(&path).await.err(), facts(&path).await.err()];
    for error in errors {
        let error = chain(&error.unwrap());
        assert!(error.contains("orc.db") && error.contains("no database yet"), "{error}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = chain(&SqliteStore::open(&file.join("orc.db")).await.err().unwrap());
    assert!(error.contains("cannot open the database"), "{error}");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_names_table_row_and_column() {
    let id = flow_id(1);
    let broken = [
        ("UPDATE steps SET data = '{' WHERE no = 0", "steps", format!("{id} no 0"), "data"),
        ("DELETE FROM steps WHERE no = 0", "steps", format!("{id} no 0"), "no"),
        ("UPDATE steps SET no = 7 WHERE no = 1", "steps", format!("{id} no 7"), "data"),
        ("UPDATE flows SET head = '{\"state\": 1}'", "flows", id.to_string(), "head"),
        ("UPDATE flows SET spec = replace(spec, 'flow_', 'flaw_')", "flows", id.to_string(), "spec"),
        ("UPDATE runs SET claimed_by = 'me'", "runs", String::new(), "claimed_by"),
        ("UPDATE runs SET data = 'null'", "runs", String::new(), "data"),
        ("UPDATE requests SET data = 'null'", "requests", request_id(id, 0).to_string(), "data"),
    ];
    for (sql, wanted_table, wanted_id, column) in broken {
        let (_directory, path) = filled().await;
        tamper(&path, sql).await;
        let store = SqliteStore::open(&path).await.unwrap();
        match store.flow_load(id).await {
            Err(StoreError::Corrupt { table, id, what }) => {
                assert_eq!(table, wanted_table, "{sql}");
                assert!(wanted_id.is_empty() && id.starts_with("run_") || id == wanted_id, "{sql}: {id}");
                assert!(what.starts_with(&format!("column `{column}`: ")), "{sql}: {what}");
            }
            other => panic!("{sql}: {other:?}"),
        }
        store.close().await.unwrap();
    }
    for (sql, column) in [
        ("UPDATE events SET data = '{\"Unheard\": {}}' WHERE position = 2", "data"),
        ("UPDATE events SET v = 2 WHERE position = 2", "v"),
        ("UPDATE events SET actor = '' WHERE position = 2", "actor"),
    ] {
        let (_directory, path) = filled().await;
        tamper(&path, sql).await;
        let reader = SqliteReader::open(&path).await.unwrap();
        let error = reader.events(None, 0, 9).await.unwrap_err().to_string();
        assert!(
            error.contains("row `2` of table `events`") && error.contains(&format!("column `{column}`")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_place_that_means_nothing_is_named_when_it_is_in_the_way() {
    let (_directory, path) = filled().await;
    tamper(&path, "UPDATE places SET step = -7").await;
    let store = SqliteStore::open(&path).await.unwrap();
    let mut late = create(flow_id(2));
    late.decision.claims = vec![group_place(flow_id(2), None, 1)];
    let error = store.commit(late).await.unwrap_err();
    let named = format!("row `{} -7 deploy` of table `places`", flow_id(1));
    assert!(matches!(error, StoreError::Corrupt { .. }) && error.to_string().contains(&named), "{error}");
    assert_eq!(store.flow_load(flow_id(2)).await.unwrap(), None);
}

#[tokio::test]
async fn check_finds_what_is_wrong_and_nothing_else() {
    let (_directory, path) = filled().await;
    assert_eq!(check(&path).await.unwrap().listed, [""; 0]);
    for (sql, wanted) in [
        ("DELETE FROM slots", "is live and holds no slot"),
        ("UPDATE runs SET finished_at = 1", "holds a slot and is not live"),
        ("UPDATE flows SET finished_at = 1", "is live and its flow is over"),
        ("UPDATE flows SET finished_at = 1", "does not agree"),
        ("UPDATE flows SET finished_at = 1", "waits for an answer and its flow is over"),
        ("UPDATE flows SET finished_at = 1", "is over and has a place in a concurrency group"),
        ("UPDATE flows SET wake_at = NULL", "has no alarm"),
        ("DELETE FROM events WHERE position = 2", "after a gap"),
        ("PRAGMA foreign_keys = OFF; DELETE FROM pipelines", "refers to no row of `pipelines`"),
        ("UPDATE requests SET data = '[]'", "of table `requests` cannot be read"),
        ("UPDATE effects SET data = '[]'", "of table `effects` cannot be read"),
        ("UPDATE pipelines SET body = '[]'", "of table `pipelines` cannot be read"),
    ] {
        let (_directory, path) = filled().await;
        tamper(&path, sql).await;
        let findings = check(&path).await.unwrap();
        assert!(findings.listed.iter().any(|finding| finding.contains(wanted)), "{sql}: {findings:?}");
        assert_eq!(findings.further, 0);
    }
}

#[tokio::test]
async fn a_damaged_page_is_found_or_refused() {
    let (_directory, path) = filled().await;
    let mut bytes = fs::read(&path).unwrap();
    // The first pages of tables and indexes, behind the one that holds the schema.
    bytes[8192..40960].fill(0x5a);
    fs::write(&path, bytes).unwrap();
    match check(&path).await {
        Ok(findings) => assert!(findings.listed.iter().any(|finding| finding.contains("damaged")), "{findings:?}"),
        Err(error) => assert!(chain(&error).contains("malformed"), "{error:?}"),
    }
}

#[tokio::test]
async fn what_was_answered_survives_the_death_of_the_process() {
    let (directory, path) = place();
    let store = SqliteStore::open(&path).await.unwrap();
    prepare(&store).await;
    for number in 0..20 {
        done(&store, create(flow_id(number))).await;
        done(&store, carry_on(flow_id(number), 1, Vec::new())).await;
        // The files as a kill would leave them now: no checkpoint, no goodbye.
        let left = directory.path().join(format!("left-{number}.db"));
        for suffix in ["", "-wal"] {
            let from = format!("{}{suffix}", path.display());
            fs::copy(from, format!("{}{suffix}", left.display())).unwrap();
        }
        let after = SqliteStore::open(&left).await.unwrap();
        assert_eq!(after.flows_unfinished(None, 99).await.unwrap().len() as u32, number + 1);
        let loaded = after.flow_load(flow_id(number)).await.unwrap().unwrap();
        assert_eq!(loaded.flow.head.version, 2);
        assert_eq!(after.events_after(0, 99).await.unwrap().len() as u32, 2 * (number + 1));
        drop(after);
    }
    drop(store);
    let again = SqliteStore::open(&path).await.unwrap();
    assert_eq!(again.flows_unfinished(None, 99).await.unwrap().len(), 20);
}

#[tokio::test]
async fn two_that_open_a_new_database_at_once_share_it() {
    let (directory, path) = place();
    let (one, two) = join(SqliteStore::open(&path), SqliteStore::open(&path)).await;
    let (one, two) = (one.unwrap(), two.unwrap());
    prepare(&one).await;
    done(&one, create(flow_id(1))).await;
    done(&two, create(flow_id(2))).await;
    // Even two writers make positions without gaps: the statement that appends an event finds the last one.
    let positions: Vec<u64> = two.events_after(0, 9).await.unwrap().iter().map(|event| event.position).collect();
    assert_eq!(positions, [1, 2]);
    one.close().await.unwrap();
    two.close().await.unwrap();
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["orc.db"]);
}

#[tokio::test]
async fn a_backup_is_whole_also_beside_a_writer_and_replaces_nothing() {
    let (_directory, path) = filled().await;
    let store = SqliteStore::open(&path).await.unwrap();
    done(&store, carry_on(flow_id(1), 3, Vec::new())).await;
    let copy = path.with_extension("copy");
    let (made, next) = join(backup(&path, &copy, false), store.commit(carry_on(flow_id(1), 4, Vec::new()))).await;
    made.unwrap();
    next.unwrap();
    assert_eq!(check(&copy).await.unwrap().listed, [""; 0]);
    let error = chain(&backup(&path, &copy, false).await.unwrap_err());
    assert!(error.contains("orc.copy") && error.contains("there already"), "{error}");
    backup(&path, &copy, true).await.unwrap();
    assert_eq!(check(&copy).await.unwrap().listed, [""; 0]);
    // What would destroy the database, or make a copy that reads somebody's log, is refused even then.
    let error = chain(&backup(&path, &path, true).await.unwrap_err());
    assert!(error.contains("it is the database itself"), "{error}");
    let used = path.with_extension("used");
    fs::write(format!("{}-wal", used.display()), "frames").unwrap();
    let error = chain(&backup(&path, &used, true).await.unwrap_err());
    assert!(error.contains("database in use"), "{error}");
    fs::remove_file(format!("{}-wal", used.display())).unwrap();
    let mut left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|one| one.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["orc.copy", "orc.db", "orc.db-shm", "orc.db-wal"], "no half of a copy is left");
    let restored = SqliteStore::open(&copy).await.unwrap();
    assert!(restored.flow_load(flow_id(1)).await.unwrap().unwrap().flow.head.version >= 4);
    done(&restored, create(flow_id(2))).await;
    assert_eq!(facts(&copy).await.unwrap().journal_mode, "wal");
    store.close().await.unwrap();
}
