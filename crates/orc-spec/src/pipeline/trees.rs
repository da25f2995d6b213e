//! Where steps work and what their boxes let through: `worktree:`, `box:`, `on_conflict:`.
//!
//! A step starts from what its parents made, in a private copy, unless it says otherwise; `in_place` is never a default. A
//! key that could have no effect where it stands is refused: a box where there is none, a merge where nothing is merged.

use std::collections::BTreeMap;

use orc_domain::action::AgentAction;
use orc_domain::confine::BoxRules;
use orc_domain::expr::Template;
use orc_domain::graph::{RepositorySpec, StartFrom, Worktree};

use super::action::{agent_name, prompt};
use super::order::Order;
use super::step::Draft;
use super::view::View;
use crate::confine::{self, Owner};
use crate::diagnostic::{Code, Report};
use crate::expression::Taint;
use crate::keys;
use crate::read::{self, Fields};
use crate::settings::Allowance;
use crate::source::Span;
use crate::yaml::{Entry, Kind, Name, Node};

/// Bytes of the path of a repository.
const MAX_PATH: usize = 1024;
/// Bytes of a name that git takes.
const MAX_BASE: usize = 250;

/// What a pipeline says for all its steps.
#[derive(Default)]
pub(super) struct Trees {
    from: Option<StartFrom>,
    /// As `repositories:` has them; empty without the key.
    pub(super) repositories: Vec<RepositorySpec>,
    rules: BoxRules,
}

impl Trees {
    /// The paths of the repositories that there are.
    fn paths(&self) -> Vec<&str> {
        match self.repositories.as_slice() {
            [] => vec!["."],
            repositories => repositories.iter().map(|one| one.path.as_str()).collect(),
        }
    }

    /// Those of others that are not among them.
    pub(super) fn lacks<'r>(&self, others: &'r [RepositorySpec]) -> Vec<&'r str> {
        let paths = self.paths();
        others.iter().map(|one| one.path.as_str()).filter(|path| !paths.contains(path)).collect()
    }
}

/// `worktree:` of a step as far as it is written and can be read.
#[derive(Default)]
pub(super) struct Written {
    from: Option<StartFrom>,
    repositories: Option<Vec<Name>>,
}

/// `worktree:` and `box:` of the pipeline.
pub(super) fn read(
    fields: &Fields<'_>,
    drafts: &[Draft<'_>],
    allowance: Option<&Allowance>,
    report: &mut Report,
) -> Trees {
    let mut trees = Trees::default();
    if let Some(node) = fields.get("worktree") {
        trees.from = match &node.kind {
            Kind::Map(_) => read::fields(node, &keys::WORKTREE, report).and_then(|fields| {
                trees.repositories =
                    fields.get("repositories").map(|node| repositories(node, report)).unwrap_or_default();
                fields.get("from").and_then(|node| word(node, "`from`", report))
            }),
            _ => word(node, "`worktree`", report),
        };
        let has_copy = |draft: &Draft<'_>| match draft.kind {
            // What is not known, or stands in another file, may have one.
            None | Some("pipeline") => true,
            _ => draft.is_run() && matches!(draft.from(&trees), StartFrom::Fresh | StartFrom::Parents),
        };
        if !trees.repositories.is_empty() && !drafts.iter().any(has_copy) {
            report
                .warning(Code::Conflict, node.span, "no step of this pipeline gets a copy of these repositories")
                .help("remove `repositories`, or let a step begin with `worktree: parents`");
        }
    }
    if let Some(entry) = fields.entry("box") {
        trees.rules = confine::rules(&entry.value, Owner::Commands, allowance, report);
        check_box(entry, drafts, &trees, report);
    }
    trees
}

/// `box:` of a pipeline, none of whose steps has a box, or could have its secrets.
fn check_box(entry: &Entry, drafts: &[Draft<'_>], trees: &Trees, report: &mut Report) {
    let runs = || drafts.iter().filter(|draft| draft.is_run());
    let mut boxed = runs().filter(|draft| draft.from(trees) != StartFrom::InPlace).peekable();
    if boxed.peek().is_none() && runs().next().is_some() {
        refuse_box(entry.key.span, "all steps of this pipeline work in your own checkout", report);
        return;
    }
    // A step of which nobody knows what it does may be one with a script.
    let has_script = boxed.any(|draft| draft.kind == Some("run")) || drafts.iter().any(|draft| draft.kind.is_none());
    if !trees.rules.secrets.is_empty() && !has_script {
        report
            .error(
                Code::Conflict,
                entry.key.span,
                "secrets exist in `run:` steps only, and no such step has a box here",
            )
            .help("remove `secrets`, or name them in the pipeline whose steps need them");
    }
}

fn refuse_box(place: Span, why: &str, report: &mut Report) {
    report
        .error(Code::Conflict, place, format!("`box` has no effect: {why}, where there is no box"))
        .help("remove `worktree: in_place`, so that it works in a private copy in a box; or remove this key");
}

fn word(node: &Node, what: &str, report: &mut Report) -> Option<StartFrom> {
    let word = read::word(node, what, keys::WORKTREES, report);
    StartFrom::ALL.into_iter().find(|from| Some(from.word()) == word)
}

/// `repositories:` of the pipeline: paths, or maps of path and base.
fn repositories(node: &Node, report: &mut Report) -> Vec<RepositorySpec> {
    let Kind::List(items) = &node.kind else {
        read::wrong_type(node, "`repositories`", "a list such as `[{ path: ., base: main }]`", report);
        return Vec::new();
    };
    if items.is_empty() {
        report
            .error(Code::BadValue, node.span, "`repositories` names none")
            .help("remove it for the one that the pipeline is started in; steps without any are `worktree: none`");
    }
    let mut places: BTreeMap<String, Span> = BTreeMap::new();
    let mut repositories = Vec::new();
    for item in items {
        let (path, base) = match &item.kind {
            Kind::Map(_) => {
                let Some(fields) = read::fields(item, &keys::REPOSITORY, report) else { continue };
                if fields.lacks("path") {
                    report
                        .error(Code::MissingKey, item.span, "this repository has no `path`")
                        .help("write `{ path: . }` for the one that the pipeline is started in");
                }
                let base = fields.get("base").and_then(|node| base(node, report));
                (fields.get("path").and_then(|node| path(node, report)), base)
            }
            _ => (path(item, report), None),
        };
        let Some(path) = path else { continue };
        if let Some(first) = places.insert(path.clone(), item.span) {
            report
                .error(Code::DuplicateName, item.span, format!("the repository `{path}` stands here a second time"))
                .label(first, "it stands here first")
                .help("remove one of them");
            continue;
        }
        repositories.push(RepositorySpec { path, base });
    }
    repositories
}

fn path(node: &Node, report: &mut Report) -> Option<String> {
    let text = &read::scalar(node, "a repository", "its path", report)?.text;
    match normal_path(text) {
        Ok(path) => Some(path),
        Err(why) => {
            report
                .error(Code::BadValue, node.span, format!("`{}` {why}", read::excerpt(text)))
                .help("write `.` for the repository that the pipeline is started in, `../docs` for one beside it");
            None
        }
    }
}

/// Relative, without `.` but for the first repository itself, and with `..` at its front only; or why that cannot be.
fn normal_path(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() || text.len() > MAX_PATH || text.chars().any(char::is_control) {
        return Err("is not a path");
    }
    if text.contains("${{") {
        return Err("has an expression in it, and which repositories there are is known before a flow starts");
    }
    if text.starts_with(['/', '~']) {
        return Err("is not relative to the repository that the pipeline is started in");
    }
    if text.contains('\\') {
        return Err("has a `\\` in it, and folders are separated by `/`");
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let up = parts.iter().take_while(|part| **part == "..").count();
    if parts[up..].contains(&"..") {
        return Err("goes up again after a name");
    }
    Ok(if parts.is_empty() { ".".to_owned() } else { parts.join("/") })
}

/// The name of a branch or tag, or a commit, as git takes one.
fn base(node: &Node, report: &mut Report) -> Option<String> {
    let text = read::text(node, "`base`", report)?;
    if text.contains("${{") {
        report
            .error(Code::Expression, node.span, "an expression cannot choose the base")
            .help("a flow pins its commits when it starts; write a branch, a tag or a commit");
        return None;
    }
    let forbidden = |char: char| char.is_control() || matches!(char, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let is_name = text.len() <= MAX_BASE
        && !text.contains(forbidden)
        && !text.contains("..")
        && !text.contains("@{")
        && !text.starts_with('-')
        && !text.ends_with('.')
        && !text.split('/').any(bad_part);
    if is_name {
        return Some(text);
    }
    let message = format!("`{}` cannot be the name of a branch, a tag or a commit", read::excerpt(&text));
    report.error(Code::BadValue, node.span, message).help("write `main`, `v1.2.0`, or the digits of a commit");
    None
}

impl Written {
    pub(super) fn read(fields: Option<&Fields<'_>>, report: &mut Report) -> Self {
        let Some(node) = fields.and_then(|fields| fields.get("worktree")) else {
            return Self::default();
        };
        let Kind::Map(_) = &node.kind else {
            return Self { from: word(node, "`worktree`", report), repositories: None };
        };
        let Some(fields) = read::fields(node, &keys::STEP_WORKTREE, report) else {
            return Self::default();
        };
        let from = fields.get("from").and_then(|node| word(node, "`from`", report));
        let repositories = fields.get("repositories").map(|node| read::names(node, "`repositories`", report));
        Self { from, repositories }
    }
}

impl Draft<'_> {
    /// What it starts from; a step that is no run of its own hands on what its parents made.
    pub(super) fn from(&self, trees: &Trees) -> StartFrom {
        if self.is_run() { self.written.from.or(trees.from).unwrap_or_default() } else { StartFrom::Parents }
    }

    pub(super) fn worktree(&self, trees: &Trees, report: &mut Report) -> Worktree {
        let from = self.from(trees);
        let Some(names) = &self.written.repositories else {
            return Worktree { from, repositories: None };
        };
        let place = self.field("worktree").map_or(self.key.span, |node| node.span);
        if let StartFrom::None | StartFrom::InPlace = from {
            let message = format!("`repositories` has no effect beside `worktree: {}`: there is no copy", from.word());
            report.error(Code::Conflict, place, message).help("remove it, or write `from: parents` beside it");
            return Worktree { from, repositories: None };
        }
        if names.is_empty() {
            report
                .error(Code::BadValue, place, "`repositories` names none")
                .help("for a step without a copy write `worktree: none`");
        }
        let known = trees.paths();
        let mut paths: Vec<String> = Vec::new();
        for Name { text, span } in names {
            let normal = normal_path(text).unwrap_or_else(|_| text.clone());
            if known.contains(&normal.as_str()) {
                if !paths.contains(&normal) {
                    paths.push(normal);
                }
                continue;
            }
            let message = format!("this pipeline has no repository `{}`", read::excerpt(text));
            let problem = report.error(Code::UnknownName, *span, message);
            match orc_domain::suggest::closest(&normal, known.iter().copied()) {
                Some(close) => problem.help(format!("did you mean `{close}`?")),
                None => problem.help("name it for the pipeline first: `worktree: { repositories: [., ...] }`"),
            };
        }
        Worktree { from, repositories: Some(paths) }
    }

    /// What its box lets through: what the pipeline says, and the step. Only commands get secrets.
    pub(super) fn rules(&self, view: &View<'_>, report: &mut Report) -> BoxRules {
        let owner = if self.kind == Some("run") { Owner::Commands } else { Owner::Agent };
        let entry = self.fields.as_ref().and_then(|fields| fields.entry("box"));
        let own = entry.map(|entry| confine::rules(&entry.value, owner, view.shared.library.allowance, report));
        let trees = &view.shared.trees;
        if self.from(trees) == StartFrom::InPlace {
            if let (Some(entry), true) = (entry, self.is_run()) {
                refuse_box(entry.key.span, "this step works in your own checkout", report);
            }
            return BoxRules::default();
        }
        if !self.is_run() && self.field("on_conflict").is_none() {
            return BoxRules::default();
        }
        let mut rules = trees.rules.with(&own.unwrap_or_default());
        if owner == Owner::Agent {
            rules.secrets.clear();
        }
        self.check_variables(&rules, view, report);
        rules
    }

    /// Refuses a secret and a variable of the same name.
    fn check_variables(&self, rules: &BoxRules, view: &View<'_>, report: &mut Report) {
        let own = self.field("env").and_then(|node| match &node.kind {
            Kind::Map(entries) => Some(entries.iter().map(|entry| &entry.key)),
            _ => None,
        });
        let own: Vec<&Name> = own.into_iter().flatten().collect();
        for name in &rules.secrets {
            let place = match own.iter().find(|key| key.text == *name) {
                Some(key) => key.span,
                None if view.shared.env.contains_key(name.as_str()) => self.key.span,
                None => continue,
            };
            report
                .error(Code::Conflict, place, format!("`{name}` is a variable of `env` and a secret"))
                .help("give the variable another name; it would hide the secret");
        }
    }

    /// `on_conflict:`; `env` are the variables that the prompt can read.
    pub(super) fn on_conflict(
        &self,
        view: &View<'_>,
        env: &BTreeMap<&str, Taint>,
        report: &mut Report,
    ) -> Option<AgentAction> {
        let entry = self.fields.as_ref().and_then(|fields| fields.entry("on_conflict"))?;
        if let Some(kind) = self.kind {
            self.refuse_mergeless(kind, entry.key.span, view, report);
        }
        if let Kind::Scalar(scalar) = &entry.value.kind
            && !scalar.is_null()
        {
            let agent = read::excerpt(&scalar.text);
            report
                .error(Code::WrongType, entry.value.span, format!("`on_conflict` needs a map, not `{agent}`"))
                .help(format!("write `on_conflict: {{ agent: {agent} }}`"));
            return None;
        }
        let fields = read::fields(&entry.value, &keys::ON_CONFLICT, report)?;
        if fields.lacks("agent") {
            report
                .error(Code::MissingKey, entry.value.span, "`on_conflict` does not say who resolves it")
                .help("write `on_conflict: { agent: NAME }`");
        }
        let agent = fields.get("agent").and_then(|node| agent_name(node, view.shared.library, report));
        let prompt = match fields.get("prompt") {
            Some(node) => {
                // What the elements of a fan-out made is brought together when none of them is current any more.
                let mut names = view.names("the prompt of `on_conflict`", false);
                names.env = Some(if self.fans_out() { view.shared.env.clone() } else { env.clone() });
                let profile = agent.as_ref().and_then(|name| view.shared.library.agents.get(name));
                prompt(node, profile, &view.reader(&names), report)
            }
            None => Some(self.default_prompt(view)),
        };
        Some(AgentAction {
            agent: agent?,
            prompt: prompt?,
            schema: None,
            permissions: orc_domain::permission::Permissions::default(),
        })
    }

    /// Says when nothing is ever merged for this step.
    fn refuse_mergeless(&self, kind: &str, place: Span, view: &View<'_>, report: &mut Report) {
        let from = self.from(&view.shared.trees);
        let (why, help) = match (from, kind) {
            (StartFrom::None | StartFrom::InPlace, _) => {
                (format!("`worktree: {}` has no copy to merge into", from.word()), "remove it, or the `worktree`")
            }
            _ if self.fans_out() => return,
            (_, "repeat" | "pipeline") => (
                format!("a `{kind}` hands on what it was given, and its first steps merge it"),
                "write it on those steps; here it is for what the elements of a `foreach` or `matrix` made",
            ),
            (StartFrom::Fresh, _) => {
                ("`worktree: fresh` takes nothing of what its parents made".to_owned(), "remove it, or the `worktree`")
            }
            (StartFrom::Parents, _) => {
                let Some(at) = view.at().filter(|at| !starts_from_several(*at, view.shared.drafts, view.shared.order))
                else {
                    return;
                };
                let [need] = view.shared.order.needs[at].as_slice() else { return };
                let parent = &view.shared.drafts[need.step].key.text;
                report
                    .warning(
                        Code::Conflict,
                        place,
                        format!("`on_conflict` is never needed: `{parent}` hands on one result, and nothing is merged"),
                    )
                    .help("remove it");
                return;
            }
        };
        report.error(Code::Conflict, place, format!("`on_conflict` has no effect: {why}")).help(help);
    }

    /// What is asked unless the pipeline says otherwise.
    fn default_prompt(&self, view: &View<'_>) -> Template {
        let name = &self.key.text;
        let parents = view.at().map(|at| view.shared.order.needs[at].as_slice()).unwrap_or_default();
        let parents: Vec<String> =
            parents.iter().map(|need| format!("`{}`", view.shared.drafts[need.step].key.text)).collect();
        let mut sides: Vec<String> = Vec::new();
        if self.fans_out() {
            sides.push(format!("what the elements of the step `{name}` made, one after another"));
        }
        if !self.fans_out() || parents.len() > 1 {
            sides.push(match parents.as_slice() {
                [] => format!("the results that the step `{name}` starts from"),
                parents => format!("what the steps before `{name}` made: {}", parents.join(", ")),
            });
        }
        Template::literal(format!(
            "Your copy holds a merge that git could not finish. It brings together {}. They changed the same places in \
             different ways.\n\n\
             The two sides are `HEAD`, which is what was brought together so far, and `MERGE_HEAD`, which comes to it. \
             `git status` names the files; the marks in each show both sides; `git log --merge -p` shows the commits \
             behind them.\n\n\
             1. Find out what each side wanted, before you change anything.\n\
             2. Resolve every conflict so that both intents hold. Do not simply take one side. Where both cannot hold, \
             keep what breaks least and say in your last message what was given up, and why.\n\
             3. Look for what merged without a conflict and still does not fit together, such as a name that one side \
             changed and the other began to use.\n\
             4. Run the tests that there are, and repair what the merge broke. Do nothing else.\n\n\
             Leave no marks of a conflict in any file. Commit the merge, or leave it in the work tree: what is there when \
             you end is what goes on.\n",
            sides.join(", or "),
        ))
    }
}

/// Whether a step may start from more than one result, as far as the pipeline tells.
fn starts_from_several(at: usize, drafts: &[Draft<'_>], order: &Order) -> bool {
    let mut at = at;
    // A cycle, which was reported, ends too.
    for _ in 0..drafts.len() {
        // Without needs it starts from what the flow or the round was given.
        let [need] = order.needs[at].as_slice() else {
            return true;
        };
        match drafts[need.step].kind {
            // Its elements are brought together by itself.
            _ if drafts[need.step].fans_out() => return false,
            // They hand on the results of all their last steps.
            Some("repeat" | "pipeline") => return true,
            // It hands on one result, or, when it was skipped or runs nothing, what it was given.
            _ => at = need.step,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_vocabulary() {
        let mut words = StartFrom::ALL.map(StartFrom::word);
        words.sort_unstable();
        let mut keys = keys::WORKTREES.to_vec();
        keys.sort_unstable();
        assert_eq!(words.as_slice(), keys);
    }
}
