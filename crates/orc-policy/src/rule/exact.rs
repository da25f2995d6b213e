//! The rule that says one call, for an answer that is to hold for ever.

use crate::path::Around;
use crate::view::{Family, View};

/// The rule that grants this call, as near to exactly this as rules can say; none where no rule says it. Whoever uses it
/// sees by judging that it grants what it should.
#[must_use]
pub fn exactly(view: &View, around: &Around) -> Option<String> {
    let plain =
        |text: &str| !text.chars().any(|letter| matches!(letter, '*' | '?' | '[' | '\\') || letter.is_control());
    match view.family {
        Family::Shell => {
            let text = view.text.as_deref()?.trim();
            (plain(text) && view.parts.iter().filter(|part| part.outer).count() == 1).then(|| format!("Bash({text})"))
        }
        Family::Web => {
            let [reach] = view.reaches.as_slice() else { return None };
            reach.host.as_ref().map(|host| format!("WebFetch(domain:{host})"))
        }
        Family::Looks | Family::Edits => {
            let [touch] = view.touches.as_slice() else { return None };
            let place = touch.path.exact.then(|| touch.path.place.text()).flatten()?;
            let word = if view.family == Family::Looks { "Read" } else { "Edit" };
            let inside = place.strip_prefix(&format!("{}/", around.worktree)).map(str::to_owned);
            let path = inside.unwrap_or_else(|| format!("/{place}"));
            plain(&path).then(|| format!("{word}({path})"))
        }
        Family::Agent => {
            view.scalars.get("subagent_type").filter(|name| plain(name)).map(|name| format!("Agent({name})"))
        }
        Family::Server => Some(view.tool.clone()),
        _ => None,
    }
}
