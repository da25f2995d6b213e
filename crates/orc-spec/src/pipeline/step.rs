//! One step: from its keys to a [`StepSpec`].

use std::collections::BTreeMap;

use orc_domain::expr::{Expr, Template, TemplatePart};
use orc_domain::graph::{
    Action, Condition, DEFAULT_MAX_BACKOFF, DEFAULT_TIMEOUT, Elements, Fan, MAX_ELEMENTS, MAX_ITEM_BYTES, PhaseKind,
    Retry, RunAction, SpecIndex, StepSpec, WorktreeMode,
};
use orc_domain::time::Millis;
use orc_domain::value::Value;

use super::order::Need;
use crate::diagnostic::{Code, Report};
use crate::expression::{Checked, Item, Names, ROOTS, Reader, StepFacts, Steps, Taint, Type};
use crate::keys;
use crate::read::{self, Fields};
use crate::shell::{self, RESERVED_PREFIX, Shell};
use crate::yaml::{Kind, Name, Node};

/// Wait before the second attempt when `backoff:` is not written.
const DEFAULT_BACKOFF: Millis = Millis::from_secs(10);

/// A step while it is read.
pub(super) struct Draft<'a> {
    pub(super) key: &'a Name,
    pub(super) phase: PhaseKind,
    pub(super) needs: Vec<Name>,
    /// What stands under a misspelt `needs`; it only spares the reader complaints that follow from the slip.
    pub(super) meant_needs: Vec<Name>,
    /// `None` when the step is not a map; that was reported.
    pub(super) fields: Option<Fields<'a>>,
    pub(super) worktree: Worktree,
}

/// What `worktree:` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worktree {
    Absent,
    InPlace,
    /// Reported.
    Refused,
}

/// `retry:` as far as it is written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartialRetry {
    attempts: Option<u32>,
    backoff: Option<Millis>,
    max_backoff: Option<Millis>,
}

/// Answers for a position among the steps; asked only when an expression reads one.
type IsFinished<'a> = &'a dyn Fn(usize) -> bool;

/// When a step has its turn.
pub(super) struct Turn<'a> {
    pub(super) condition: Condition,
    pub(super) needs: &'a [Need],
    /// Whether the step at a position is finished by then.
    pub(super) is_finished: IsFinished<'a>,
}

/// What all steps share.
pub(super) struct Shared<'a> {
    pub(super) source: &'a str,
    pub(super) inputs: BTreeMap<String, Type>,
    pub(super) facts: BTreeMap<String, StepFacts>,
    pub(super) env: BTreeMap<&'a str, Taint>,
    pub(super) has_ticket: bool,
    pub(super) has_event: bool,
    pub(super) timeout: Option<Millis>,
    pub(super) retry: PartialRetry,
}

impl<'a> Draft<'a> {
    pub(super) fn read(key: &'a Name, node: &'a Node, phase: PhaseKind, report: &mut Report) -> Self {
        if !super::inputs::is_identifier(&key.text) {
            let message = format!("`{}` cannot be the name of a step", read::excerpt(&key.text));
            report
                .error(Code::BadValue, key.span, message)
                .help("letters, digits, `_` and `-`, beginning with a letter, at most 64");
        }
        let fields = read::fields(node, &keys::STEP, report);
        let field = |name| fields.as_ref().and_then(|fields| fields.get(name));
        let needs = field("needs").map(|node| read::names(node, "`needs`", report)).unwrap_or_default();
        let misspelt = fields.as_ref().and_then(|fields| fields.misspelt("needs"));
        let meant_needs = misspelt.map(|node| read::names(node, "`needs`", &mut Report::new(""))).unwrap_or_default();
        let worktree = worktree(fields.as_ref(), report);
        let draft = Self { key, phase, needs, meant_needs, fields, worktree };
        draft.check_kind(report);
        draft
    }

    fn field(&self, name: &str) -> Option<&'a Node> {
        self.fields.as_ref().and_then(|fields| fields.get(name))
    }

    /// Runs a command; false also for steps that are not available yet.
    pub(super) fn is_run(&self) -> bool {
        self.field("run").is_some()
    }

    pub(super) fn fans_out(&self) -> bool {
        self.field("foreach").is_some()
    }

    fn check_kind(&self, report: &mut Report) {
        let Some(fields) = &self.fields else {
            return;
        };
        let is_kind = |key: &&str| fields.later.contains(key) || fields.get(key).is_some();
        let kinds: Vec<&str> = keys::STEP_KINDS.iter().copied().filter(is_kind).collect();
        let name = &self.key.text;
        match kinds.as_slice() {
            // A misspelt or unavailable key may be what it does.
            [] if fields.later.is_empty() && !fields.has_unknown() => {
                report
                    .error(Code::StepKind, self.key.span, format!("`{name}` does nothing"))
                    .help("say what it does, for example `run: make`");
            }
            [] | [_] => {}
            several => {
                let listed = several.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(" and ");
                report
                    .error(Code::StepKind, self.key.span, format!("`{name}` does several things: {listed}"))
                    .help("make a step of each, with `needs:` between them");
            }
        }
    }

    /// `if:`, with a condition of its own or the default one.
    pub(super) fn condition(&self, shared: &Shared<'_>, is_finished: IsFinished<'_>, report: &mut Report) -> Condition {
        let mut names = self.names("`if`", shared, is_finished);
        names.status = true;
        let reader = Reader { source: shared.source, names: &names };
        let expr = self.field("if").and_then(|node| reader.condition(node, report));
        let implicit_success = !expr.as_ref().is_some_and(Expr::uses_status);
        Condition { implicit_success, expr }
    }

    fn names<'n>(&'n self, place: &'static str, shared: &'n Shared<'_>, is_finished: IsFinished<'n>) -> Names<'n> {
        Names {
            place,
            inputs: &shared.inputs,
            steps: Some(Steps { reader: &self.key.text, known: &shared.facts, is_finished }),
            env: None,
            item: None,
            status: false,
            has_ticket: shared.has_ticket,
            has_event: shared.has_event,
        }
    }

    /// The compiled step; `None` when something of it is missing, which was reported.
    pub(super) fn compile(&self, turn: Turn<'_>, shared: &Shared<'_>, report: &mut Report) -> Option<StepSpec> {
        let Turn { condition, needs, is_finished } = turn;
        let (foreach, list) = self.foreach(shared, is_finished, report).unzip();
        let item = foreach.as_ref().zip(list.as_ref()).map(|((_, binding), list): (&(Fan, String), &Checked)| Item {
            name: binding.as_str(),
            ty: if let Type::List(item) = &list.ty { (**item).clone() } else { Type::Any },
            tainted: list.tainted,
        });
        let (env, env_names) = self.env(item.clone(), shared, is_finished, report);
        let script = {
            let mut names = self.names("this script", shared, is_finished);
            names.env = Some(env_names);
            names.item = item;
            self.script(&Reader { source: shared.source, names: &names }, report)
        };
        let retry = self.field("retry").map(|node| PartialRetry::read(node, report)).unwrap_or_default();
        let retry = retry.over(shared.retry);
        let flag = |name: &str, what: &str, report: &mut Report| {
            self.field(name).and_then(|node| read::boolean(node, what, report))
        };
        let continue_on_fail = flag("continue_on_fail", "`continue_on_fail`", report).unwrap_or(false);
        let idempotent = flag("idempotent", "`idempotent`", report).unwrap_or(true);
        if !idempotent && retry.attempts > 1 {
            self.refuse_retry(retry.attempts, report);
        }
        let timeout = self.field("timeout").and_then(|node| read::duration(node, "`timeout`", report));
        Some(StepSpec {
            key: self.key.text.clone(),
            phase: self.phase,
            needs: needs.iter().map(|need| SpecIndex(u32::try_from(need.step).unwrap_or(u32::MAX))).collect(),
            condition,
            action: Action::Run(script?),
            env,
            within: None,
            fan: foreach.map(|(fan, _)| fan),
            concurrency: None,
            priority: 0,
            budget: None,
            artifacts: BTreeMap::new(),
            retry,
            timeout: timeout.or(shared.timeout).unwrap_or(DEFAULT_TIMEOUT),
            continue_on_fail,
            idempotent,
            worktree: WorktreeMode::InPlace,
        })
    }

    fn refuse_retry(&self, attempts: u32, report: &mut Report) {
        let place = |name: &str| self.fields.as_ref().and_then(|fields| fields.entry(name)).map(|entry| entry.key.span);
        let at = place("idempotent").unwrap_or(self.key.span);
        let message = format!("`idempotent: false` forbids a second attempt, and `retry` allows {attempts}");
        let problem = report.error(Code::Conflict, at, message);
        match place("retry") {
            Some(retry) => problem.label(retry, "retried here").help("remove one of them"),
            None => problem.help("the attempts come from `defaults:`; add `retry: { attempts: 1 }` to this step"),
        };
    }

    fn script(&self, reader: &Reader<'_>, report: &mut Report) -> Option<RunAction> {
        let shell = match self.field("shell") {
            Some(node) => Shell::read(node, report),
            None => Some(Shell::sh()),
        };
        if let (Some(fields), false) = (&self.fields, self.is_run())
            && fields.later.is_empty()
            && let Some(entry) = fields.entry("shell")
        {
            report.error(Code::Conflict, entry.key.span, "`shell` has a meaning beside `run` only");
        }
        let node = self.field("run")?;
        let scalar = read::scalar(node, "`run`", "a script", report)?;
        if scalar.text.trim().is_empty() {
            report
                .error(Code::BadValue, node.span, "this script is empty")
                .help("a step that does nothing is `run: ':'`");
            return None;
        }
        let pieces = reader.pieces(scalar, node.span, report);
        let shell = shell?;
        let script = shell::bind(pieces?, &shell, node.span, report)?;
        Some(RunAction { script: script.text, shell: shell.argv, bindings: script.bindings })
    }

    /// `foreach:` and its companions.
    fn foreach(
        &self,
        shared: &Shared<'_>,
        is_finished: IsFinished<'_>,
        report: &mut Report,
    ) -> Option<((Fan, String), Checked)> {
        let fields = self.fields.as_ref()?;
        let Some(node) = fields.get("foreach") else {
            for name in ["as", "limit", "fail_fast"] {
                if let Some(entry) = fields.entry(name) {
                    report
                        .error(Code::Conflict, entry.key.span, format!("`{name}` has a meaning beside `foreach` only"))
                        .help("add `foreach:` with a list, or remove this key");
                }
            }
            return None;
        };
        let binding = fields.get("as").and_then(|node| binding(node, report)).unwrap_or_else(|| "item".to_owned());
        let limit = fields.get("limit").and_then(|node| read::count(node, "`limit`", keys::MAX_SLOTS, report));
        let fail_fast = fields.get("fail_fast").and_then(|node| read::boolean(node, "`fail_fast`", report));
        let names = self.names("`foreach`", shared, is_finished);
        let reader = Reader { source: shared.source, names: &names };
        // A list that cannot be read still gives its element a name, so that the script is checked.
        let list = reader.list(node, report).unwrap_or(Checked {
            expr: Expr::Literal(Value::Null),
            ty: Type::Any,
            tainted: false,
        });
        check_elements(&list.expr, node, report);
        let fail_fast = fail_fast.unwrap_or(false);
        let elements = Elements::List { list: list.expr.clone(), binding: binding.clone() };
        Some(((Fan { elements, limit, fail_fast }, binding), list))
    }

    /// `env:` of the step, and the names that its script can read.
    fn env<'n>(
        &self,
        item: Option<Item<'_>>,
        shared: &'n Shared<'a>,
        is_finished: IsFinished<'_>,
        report: &mut Report,
    ) -> (BTreeMap<String, Template>, BTreeMap<&'n str, Taint>)
    where
        'a: 'n,
    {
        let mut names = self.names("`env`", shared, is_finished);
        names.env = Some(shared.env.clone());
        names.item = item;
        let (own, own_names) = match self.field("env") {
            Some(node) => env(node, &Reader { source: shared.source, names: &names }, report),
            None => Default::default(),
        };
        let mut readable: BTreeMap<&'n str, Taint> = shared.env.iter().map(|(name, taint)| (*name, *taint)).collect();
        readable.extend(own_names);
        (own, readable)
    }
}

impl PartialRetry {
    pub(super) fn read(node: &Node, report: &mut Report) -> Self {
        if let Kind::Scalar(scalar) = &node.kind
            && scalar.plain
            && scalar.text.bytes().all(|byte| byte.is_ascii_digit())
            && !scalar.is_null()
        {
            let message = format!("`retry` needs a map, not `{}`", scalar.text);
            report
                .error(Code::WrongType, node.span, message)
                .help(format!("write `retry: {{ attempts: {} }}`", scalar.text));
            return Self::default();
        }
        let Some(fields) = read::fields(node, &keys::RETRY, report) else {
            return Self::default();
        };
        let attempts =
            fields.get("attempts").and_then(|node| read::count(node, "`attempts`", keys::MAX_ATTEMPTS, report));
        let backoff = fields.get("backoff").and_then(|node| read::duration(node, "`backoff`", report));
        let max_backoff = fields.get("max_backoff").and_then(|node| read::duration(node, "`max_backoff`", report));
        if let (Some(backoff), Some(max), Some(node)) = (backoff, max_backoff, fields.get("max_backoff"))
            && max < backoff
        {
            report.error(
                Code::Conflict,
                node.span,
                format!("`max_backoff` is shorter than `backoff`, which is {backoff}"),
            );
        }
        Self { attempts, backoff, max_backoff }
    }

    /// What is written here over what is written there over the defaults.
    fn over(self, below: Self) -> Retry {
        let backoff = self.backoff.or(below.backoff).unwrap_or(DEFAULT_BACKOFF);
        let max_backoff = self.max_backoff.or(below.max_backoff).unwrap_or(DEFAULT_MAX_BACKOFF);
        // A longer first wait that was written beats a limit that was not written with it.
        let max_backoff = max_backoff.max(backoff);
        Retry { attempts: self.attempts.or(below.attempts).unwrap_or(1), backoff, max_backoff }
    }
}

/// `worktree:` of a pipeline or a step.
pub(super) fn worktree(fields: Option<&Fields<'_>>, report: &mut Report) -> Worktree {
    const HELP: &str = "until private worktrees exist, the one value is `worktree: in_place`: the user's own checkout";
    let Some(entry) = fields.and_then(|fields| fields.entry("worktree")) else {
        return Worktree::Absent;
    };
    match &entry.value.kind {
        Kind::Scalar(scalar) if scalar.text == "in_place" => return Worktree::InPlace,
        Kind::Scalar(scalar) if keys::WORKTREES.contains(&scalar.text.as_str()) => {
            let message = format!("`worktree: {}` is not available yet", scalar.text);
            report.error(Code::NotAvailable, entry.value.span, message).help(HELP);
        }
        Kind::Map(_) => {
            let message = "`worktree` with repositories or a source is not available yet";
            report.error(Code::NotAvailable, entry.key.span, message).help(HELP);
        }
        _ => {
            read::word(&entry.value, "`worktree`", keys::WORKTREES, report);
        }
    }
    Worktree::Refused
}

/// `as:`.
fn binding(node: &Node, report: &mut Report) -> Option<String> {
    let name = read::text(node, "`as`", report)?;
    let (problem, help) = if !is_variable(&name) {
        ("is no name", "letters, digits and `_`, beginning with a letter; a hyphen would be a minus")
    } else if ROOTS.contains(&name.as_str()) || matches!(name.as_str(), "true" | "false" | "null") {
        ("has a meaning of its own in expressions", "choose another name")
    } else {
        return Some(name);
    };
    report.error(Code::BadValue, node.span, format!("`{}` {problem}", read::excerpt(&name))).help(help);
    None
}

fn check_elements(list: &Expr, node: &Node, report: &mut Report) {
    let Expr::Literal(Value::List(items)) = list else {
        return;
    };
    if items.len() > MAX_ELEMENTS {
        let message = format!("this list has {} elements, a fan-out takes {MAX_ELEMENTS}", items.len());
        report.error(Code::Limit, node.span, message).help("split it over several steps, or over flows");
    }
    if let Some(size) = items.iter().map(Value::json_len).find(|size| *size > MAX_ITEM_BYTES) {
        let message = format!("an element of this list has {size} bytes, a fan-out takes {MAX_ITEM_BYTES}");
        report.error(Code::Limit, node.span, message).help("put it into a file and list the names of files");
    }
}

/// `env:`: templates by name, and the names with their taint.
pub(super) fn env<'a>(
    node: &'a Node,
    reader: &Reader<'_>,
    report: &mut Report,
) -> (BTreeMap<String, Template>, BTreeMap<&'a str, Taint>) {
    let mut templates = BTreeMap::new();
    let mut names = BTreeMap::new();
    for entry in read::map(node, "`env`", report).unwrap_or_default() {
        let name = entry.key.text.as_str();
        if !check_variable(&entry.key, report) {
            continue;
        }
        // A name that was written is known, even when its value is wrong.
        names.insert(name, false);
        let Some((template, tainted)) = reader.template(&entry.value, &format!("`{name}`"), report) else {
            continue;
        };
        if template.parts.iter().any(|part| matches!(part, TemplatePart::Literal(text) if text.contains('\0'))) {
            report.error(Code::BadValue, entry.value.span, "a NUL character cannot stand in an environment variable");
        }
        if tainted {
            report
                .warning(Code::Tainted, entry.value.span, format!("text from outside reaches commands in `{name}`"))
                .help("it arrives as a variable and cannot become code; check what the commands do with it");
        }
        names.insert(name, tainted);
        templates.insert(name.to_owned(), template);
    }
    (templates, names)
}

pub(crate) fn check_variable(name: &Name, report: &mut Report) -> bool {
    if !is_variable(&name.text) {
        let message = format!("`{}` cannot be the name of an environment variable", read::excerpt(&name.text));
        report
            .error(Code::BadValue, name.span, message)
            .help("letters, digits and `_`, beginning with a letter or `_`");
        return false;
    }
    if name.text.starts_with(RESERVED_PREFIX) {
        let message =
            format!("`{}` begins with `{RESERVED_PREFIX}`, which is kept for variables of the orchestrator", name.text);
        report.error(Code::BadValue, name.span, message).help("choose another name");
        return false;
    }
    true
}

/// Letters, digits and `_`, beginning with a letter or `_`.
pub(crate) fn is_variable(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
