//! What is known of concurrency groups: which are full, and which flows wait for a place. The store has the last word;
//! this book only keeps flows from trying in vain, and wakes one when a place becomes free.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orc_domain::claim::{Claim, Holder};
use orc_domain::ids::FlowId;

/// The book of groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    full: BTreeMap<String, Vec<Holder>>,
    waiting: BTreeMap<String, VecDeque<FlowId>>,
    wanted: BTreeMap<FlowId, BTreeSet<String>>,
    /// Counts places that became free, so that news of a full group that are older than one are not believed.
    freed: u64,
}

impl Groups {
    /// The groups that are full, and how many places have become free so far.
    pub(crate) fn full(&self) -> (BTreeMap<String, Vec<Holder>>, u64) {
        let book = self.book();
        (book.full.clone(), book.freed)
    }

    /// The store refused a place, as of `freed`. False when a place has become free since: try again.
    pub(crate) fn refused(&self, name: &str, holders: &[Holder], freed: u64) -> bool {
        let mut book = self.book();
        let still = book.freed == freed;
        if still {
            book.full.insert(name.to_owned(), holders.to_vec());
        }
        still
    }

    /// Writes down what a commit gave back; the flows that may try now, one for each place.
    pub(crate) fn settle(&self, releases: &[Claim]) -> Vec<FlowId> {
        let mut woken = Vec::new();
        let names = releases.iter().filter_map(|claim| match claim {
            Claim::Group { name, .. } => Some(name),
            Claim::Slot { .. } => None,
        });
        let mut book = self.book();
        for name in names {
            book.freed += 1;
            book.full.remove(name);
            woken.extend(book.waiting.get(name).and_then(VecDeque::front));
        }
        woken
    }

    /// What a flow waits for. It keeps its place in the lines that it stands in already.
    pub(crate) fn wait(&self, flow: FlowId, wants: BTreeSet<String>) {
        let mut book = self.book();
        let before = book.wanted.remove(&flow).unwrap_or_default();
        for gone in before.difference(&wants) {
            if let Some(line) = book.waiting.get_mut(gone) {
                line.retain(|other| *other != flow);
                if line.is_empty() {
                    book.waiting.remove(gone);
                }
            }
        }
        for new in wants.difference(&before) {
            book.waiting.entry(new.clone()).or_default().push_back(flow);
        }
        if !wants.is_empty() {
            book.wanted.insert(flow, wants);
        }
    }

    /// A flow that has waited long tries again whatever is known.
    pub(crate) fn forget(&self, flow: FlowId) {
        let mut book = self.book();
        for name in book.wanted.get(&flow).cloned().unwrap_or_default() {
            book.full.remove(&name);
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn flow(n: u128) -> FlowId {
        FlowId::from_uuid(Uuid::from_u128(n))
    }

    fn place(name: &str, n: u128) -> Claim {
        Claim::Group { name: name.to_owned(), limit: 1, holder: Holder { flow: flow(n), step: None } }
    }

    fn wants(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_place_that_becomes_free_wakes_the_first_in_line() {
        let groups = Groups::default();
        let (_, freed) = groups.full();
        assert!(groups.refused("g", &[Holder { flow: flow(1), step: None }], freed));
        groups.wait(flow(2), wants(&["g"]));
        groups.wait(flow(3), wants(&["g"]));
        groups.wait(flow(2), wants(&["g", "h"]));
        assert_eq!(groups.settle(&[place("g", 1)]), [flow(2)], "it kept its place in line");
        assert!(groups.full().0.is_empty());
        groups.wait(flow(2), wants(&[]));
        assert_eq!(groups.settle(&[place("g", 2), place("h", 2)]), [flow(3)]);
    }

    #[test]
    fn news_that_are_older_than_a_free_place_are_not_believed() {
        let groups = Groups::default();
        let (_, freed) = groups.full();
        groups.settle(&[place("g", 1)]);
        assert!(!groups.refused("g", &[], freed));
        assert!(groups.full().0.is_empty());
    }
}
