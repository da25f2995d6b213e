//! Links of this machine, as far as a call comes by them.

use std::collections::BTreeSet;
use std::path::Path;

use orc_policy::path::Around;
use orc_policy::view::{Call, View};

/// Looks at the directories on the way to every file that a call names, and to where their links lead.
const ROUNDS: usize = 40;

/// Reads a call with the links that lie on its way.
pub(super) fn view(call: &Call, around: &mut Around) -> View {
    let mut looked_at = BTreeSet::new();
    for _ in 0..ROUNDS {
        let view = View::of(call, around);
        let mut paths: Vec<String> = [&around.cwd, &around.home, &around.worktree].map(String::clone).into();
        named(&view, &mut paths);
        let known = around.links.len();
        for path in paths {
            follow(&path, around, &mut looked_at);
        }
        if around.links.len() == known {
            return view;
        }
    }
    View::of(call, around)
}

fn named(view: &View, paths: &mut Vec<String>) {
    for touch in view.all_touches() {
        paths.extend([&touch.path.place, &touch.path.target].map(|end| end.start()));
    }
    view.nested.iter().for_each(|nested| named(nested, paths));
}

fn follow(path: &str, around: &mut Around, looked_at: &mut BTreeSet<String>) {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([path.len()]);
    for part in ends.map(|end| &path[..end]).filter(|part| part.starts_with('/')) {
        if !looked_at.insert(part.to_owned()) {
            continue;
        }
        let leads_to = std::fs::read_link(Path::new(part)).ok();
        if let Some(leads_to) = leads_to.as_ref().and_then(|leads_to| leads_to.to_str()) {
            around.links.insert(part.to_owned(), leads_to.to_owned());
        }
    }
}
