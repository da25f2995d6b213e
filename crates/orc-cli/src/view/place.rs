//! Where the steps of a flow work: in boxes with private copies, or in the user's own checkout without either.

use orc_domain::flow::Flow;
use orc_domain::graph::{Action, Pipeline, StartFrom};

/// Names that are listed before the rest is counted.
const LISTED: usize = 5;

/// The places of all steps that start a process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Steps that work in the checkout, without a box.
    pub(crate) in_place: Vec<String>,
    /// How many work in a box.
    boxed: usize,
    /// The private copies, for people.
    copies: Vec<String>,
}

/// The places of a flow.
pub(crate) fn of_flow(flow: &Flow, pipeline: &Pipeline) -> Places {
    let copies = flow.spec.repositories.iter().map(|one| {
        let branch = one.branch.as_ref().map_or_else(String::new, |branch| format!(" ({branch})"));
        format!("{} at {}{branch}", one.source, one.commit.short())
    });
    Places { copies: copies.collect(), ..of_pipeline(pipeline) }
}

/// The places of a definition.
pub(crate) fn of_pipeline(pipeline: &Pipeline) -> Places {
    let mut places = Places::default();
    for step in pipeline.steps.iter().filter(|step| matches!(step.action, Action::Run(_) | Action::Agent(_))) {
        match step.worktree.from {
            StartFrom::InPlace => places.in_place.push(step.key.clone()),
            StartFrom::None | StartFrom::Fresh | StartFrom::Parents => places.boxed += 1,
        }
    }
    places
}

impl Places {
    /// `on`, `partly` or `off`: whether what it starts runs in boxes. Nothing to start is `on`.
    pub(crate) const fn word(&self) -> &'static str {
        match (self.in_place.is_empty(), self.boxed) {
            (true, _) => "on",
            (false, 0) => "off",
            (false, _) => "partly",
        }
    }

    /// Rows for people: a name and what is said. `directory` is the user's checkout.
    pub(crate) fn rows(&self, directory: &str) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if self.boxed > 0 && self.copies.is_empty() {
            rows.push(("works in", "boxes, without a copy of a repository".to_owned()));
        } else if self.boxed > 0 {
            rows.push(("works in", "boxes, on private copies".to_owned()));
        }
        rows.extend(self.copies.iter().map(|copy| ("copy of", copy.clone())));
        if self.in_place.is_empty() {
            return rows;
        }
        let who = if self.boxed == 0 { String::new() } else { format!("{}: ", listed(&self.in_place)) };
        rows.push(("works in", format!("{who}{directory} (in place: no copy, sandbox: off)")));
        rows
    }
}

/// Some names of steps, and how many more there are.
pub(crate) fn listed(keys: &[String]) -> String {
    let names: Vec<String> = keys.iter().take(LISTED).map(|key| format!("`{key}`")).collect();
    match keys.len().saturating_sub(LISTED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(in_place: &[&str], boxed: usize, copies: &[&str]) -> Places {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Places { in_place: owned(in_place), boxed, copies: owned(copies) }
    }

    #[test]
    fn what_has_no_box_is_always_said() {
        let said = |places: &Places| places.rows("/repo").into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        let all = places(&[], 2, &["/repo at 0123456789 (main)"]);
        assert_eq!((all.word(), said(&all)[0].as_str()), ("on", "boxes, on private copies"));
        assert_eq!(said(&all)[1], "/repo at 0123456789 (main)");
        let none = places(&["a"], 0, &[]);
        assert_eq!((none.word(), said(&none)), ("off", vec!["/repo (in place: no copy, sandbox: off)".to_owned()]));
        let some = places(&["a", "b"], 1, &[]);
        assert_eq!((some.word(), said(&some).len()), ("partly", 2));
        assert!(said(&some)[1].starts_with("`a`, `b`: /repo (in place"), "{:?}", said(&some));
        let many = places(&["a", "b", "c", "d", "e", "f", "g"], 1, &[]);
        assert!(listed(&many.in_place).ends_with("`e` and 2 more"), "{many:?}");
    }
}
