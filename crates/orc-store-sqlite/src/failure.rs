//! From errors of the driver to [`StoreError`].
//!
//! Codes are SQLite's extended result codes (<https://www.sqlite.org/rescode.html>); the low byte is the family.

use std::fmt;
use std::sync::Arc;

use orc_ports::store::StoreError;

const FULL: i32 = 13;
const READONLY: i32 = 8;
const CORRUPT: i32 = 11;
const NOTADB: i32 = 26;
const CONSTRAINT: i32 = 19;
/// The shared-memory index could not grow: on a local disk that means that there is no room.
const IOERR_SHMSIZE: i32 = 10 | (19 << 8);
const CONSTRAINT_FOREIGNKEY: i32 = 19 | (3 << 8);

/// An error of a driver that several callers are told about: sqlx's for what reads, rusqlite's for the writer.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    source: Arc<dyn std::error::Error + Send + Sync>,
    code: i32,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.source)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|error| error.code()?.parse().ok()).unwrap_or(0);
        Self { source: Arc::new(error), code }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error().map_or(0, |error| error.extended_code);
        Self { source: Arc::new(error), code }
    }
}

impl Failure {
    /// Whether one write is to blame, so that others of its batch may go on.
    pub(crate) fn is_constraint(&self) -> bool {
        self.code & 0xff == CONSTRAINT
    }

    /// Whether the file is a database and not as SQLite wrote it.
    pub(crate) fn is_corruption(&self) -> bool {
        self.code & 0xff == CORRUPT
    }

    /// For the caller of `operation`.
    pub(crate) fn into_error(self, operation: &'static str) -> StoreError {
        let code = self.code;
        let source = Box::new(self);
        match (code, code & 0xff) {
            (IOERR_SHMSIZE, _) | (_, FULL) => StoreError::Full { operation, source },
            (_, READONLY) => StoreError::ReadOnly { operation, source },
            (_, CORRUPT | NOTADB) => StoreError::Damaged { operation, source },
            _ => StoreError::Database { operation, source },
        }
    }

    /// For the caller of `operation` about `id`, whose write broke a constraint of the schema.
    pub(crate) fn into_contract(self, operation: &'static str, id: String) -> StoreError {
        let what = if self.code == CONSTRAINT_FOREIGNKEY {
            "it refers to a row that is not there".to_owned()
        } else {
            self.to_string()
        };
        StoreError::Contract { operation, id, what }
    }
}

/// Where there is one caller.
pub(crate) fn failed<E: Into<Failure>>(operation: &'static str) -> impl FnOnce(E) -> StoreError {
    move |error| error.into().into_error(operation)
}
