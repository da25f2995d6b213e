//! What spans flows: a counted slot, a unique key. `decide` proposes a claim, the store tries it by a guarded update in
//! the transaction of the decision; a refused claim fails that transaction by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::RunId;

/// Something that a decision wants and that another flow may have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// One of the instance's counted slots, held by a run until it is finished or parked.
    Slot {
        /// Who holds it.
        run: RunId,
    },
}

/// The name under which a claim is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// No slot is free.
    Slot,
}

impl Claim {
    /// What to call it when it is refused.
    #[must_use]
    pub const fn kind(&self) -> ClaimKind {
        match self {
            Self::Slot { .. } => ClaimKind::Slot,
        }
    }
}

impl fmt::Display for ClaimKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot => f.write_str("a free slot"),
        }
    }
}
