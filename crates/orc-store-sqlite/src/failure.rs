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

/// An error of the driver that several callers are told about.
#[derive(Clone, Debug)]
pub(crate) struct Failure(Arc<sqlx::Error>);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.0)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl Failure {
    fn code(&self) -> i32 {
        let sqlx::Error::Database(error) = &*self.0 else {
            return 0;
        };
        error.code().and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// Whether one write is to blame, so that others of its batch may go on.
    pub(crate) fn is_constraint(&self) -> bool {
        self.code() & 0xff == CONSTRAINT
    }

    /// For the caller of `operation`.
    pub(crate) fn into_error(self, operation: &'static str) -> StoreError {
        let code = self.code();
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
        let what = if self.code() == CONSTRAINT_FOREIGNKEY {
            "it refers to a row that is not there".to_owned()
        } else {
            self.to_string()
        };
        StoreError::Contract { operation, id, what }
    }
}

/// For reads, where there is one caller.
pub(crate) fn failed(operation: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |error| Failure::from(error).into_error(operation)
}
