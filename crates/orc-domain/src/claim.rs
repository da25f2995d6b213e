//! What spans flows: a counted slot, a unique key. `decide` proposes a claim, the store tries it by a guarded update in
//! the transaction of the decision; a refused claim fails that transaction by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::flow::StepNo;
use crate::ids::{FlowId, RunId};

/// Something that a decision wants and that another flow may have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// One of the instance's counted slots, held by a run until it is finished or parked.
    Slot {
        /// Who holds it.
        run: RunId,
    },
    /// A place in a concurrency group, held until the flow or step is over.
    Group {
        /// The group's name.
        name: String,
        /// Places in all, as whoever claims one counts them.
        limit: u32,
        /// Who holds it.
        holder: Holder,
    },
}

impl Claim {
    /// Whether both are about the same place of the same holder, whatever limit they count.
    #[must_use]
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Slot { run: one }, Self::Slot { run: two }) => one == two,
            (Self::Group { name: one, holder: by, .. }, Self::Group { name: two, holder, .. }) => {
                one == two && by == holder
            }
            (Self::Slot { .. } | Self::Group { .. }, _) => false,
        }
    }
}

/// Who holds a place in a concurrency group: a flow as a whole, or a step of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// The flow.
    pub flow: FlowId,
    /// The step.
    pub step: Option<StepNo>,
}

/// Why a claim was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// No slot is free.
    Slot,
    /// The concurrency group is full.
    Group {
        /// Which.
        name: String,
        /// Who is in it, in no particular order.
        holders: Vec<Holder>,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot => f.write_str("no slot is free"),
            Self::Group { name, .. } => write!(f, "the concurrency group `{name}` is full"),
        }
    }
}
