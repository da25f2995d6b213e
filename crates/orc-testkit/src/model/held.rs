//! What claims hold: slots of the instance, places in concurrency groups.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::claim::{Claim, Holder, Refusal};
use orc_domain::ids::{FlowId, RunId};

/// What is held, and by whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Runs that hold a slot.
    pub(super) slots: BTreeSet<RunId>,
    /// Who is in which concurrency group; a group that is empty is not there.
    pub(super) places: BTreeMap<String, BTreeSet<Holder>>,
}

impl Held {
    /// Why a claim cannot be had when there are `slots` slots in all. Whoever is in a group stays in it, however full it is.
    pub(super) fn refuse(&self, claim: &Claim, slots: u32) -> Option<Refusal> {
        match claim {
            Claim::Slot { .. } => (self.slots.len() >= slots as usize).then_some(Refusal::Slot),
            Claim::Group { name, limit, holder } => {
                let holders = self.places.get(name)?;
                let is_full = holders.len() >= *limit as usize && !holders.contains(holder);
                is_full.then(|| Refusal::Group { name: name.clone(), holders: holders.iter().copied().collect() })
            }
        }
    }

    pub(super) fn take(&mut self, claim: &Claim) {
        match claim {
            Claim::Slot { run } => self.slots.insert(*run),
            Claim::Group { name, holder, .. } => self.places.entry(name.clone()).or_default().insert(*holder),
        };
    }

    /// What nobody holds is given back without a word.
    pub(super) fn give_back(&mut self, claim: &Claim) {
        match claim {
            Claim::Slot { run } => {
                self.slots.remove(run);
            }
            Claim::Group { name, holder, .. } => {
                if let Some(holders) = self.places.get_mut(name) {
                    holders.remove(holder);
                }
                self.places.retain(|_, holders| !holders.is_empty());
            }
        }
    }

    /// A flow that is removed is in no group.
    pub(super) fn forget(&mut self, flow: FlowId) {
        self.places.values_mut().for_each(|holders| holders.retain(|holder| holder.flow != flow));
        self.places.retain(|_, holders| !holders.is_empty());
    }
}
