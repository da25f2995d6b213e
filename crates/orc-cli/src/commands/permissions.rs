//! `permissions`: rules tried out, without a run.

mod explain;
mod kept;
mod known;
mod links;
mod lint;
mod test;

pub(crate) use explain::run as explain;
pub(crate) use kept::{forget, rules};
pub(crate) use lint::run as lint;
use orc_policy::verdict::Verdict;
pub(crate) use test::run as test;

use crate::args::RuleArgs;

/// Rules that were typed, by what they say.
fn typed(rules: &RuleArgs) -> [(Verdict, &[String]); 3] {
    [(Verdict::Deny, &rules.deny), (Verdict::Ask, &rules.ask), (Verdict::Allow, &rules.allow)]
}
