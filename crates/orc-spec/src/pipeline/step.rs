//! One step: from its keys to a [`StepSpec`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use orc_domain::expr::{Expr, Template, TemplatePart};
use orc_domain::graph::{Condition, DEFAULT_MAX_BACKOFF, DEFAULT_TIMEOUT, PhaseKind, Retry, SpecIndex, StepSpec};
use orc_domain::time::Millis;

use super::child::Interface;
use super::order::Need;
use super::trees::Written;
use super::view::View;
use crate::diagnostic::{Code, Report};
use crate::expression::{Reader, Taint};
use crate::keys;
use crate::read::{self, Fields};
use crate::shell::RESERVED_PREFIX;
use crate::yaml::{Kind, Name, Node};

/// Wait before the second attempt when `backoff:` is not written.
const DEFAULT_BACKOFF: Millis = Millis::from_secs(10);

/// A step while it is read.
pub(super) struct Draft<'a> {
    pub(super) key: &'a Name,
    pub(super) phase: PhaseKind,
    /// The `repeat` whose body it belongs to.
    pub(super) within: Option<usize>,
    /// Where the steps of its own body are.
    pub(super) body: Option<Range<usize>>,
    /// The key that says what it does; `None` when that is not known or not available, which was reported.
    pub(super) kind: Option<&'static str>,
    pub(super) needs: Vec<Name>,
    /// What stands under a misspelt `needs`; it only spares the reader complaints that follow from the slip.
    pub(super) meant_needs: Vec<Name>,
    /// `None` when the step is not a map; that was reported.
    pub(super) fields: Option<Fields<'a>>,
    /// The keys of `repeat:`.
    pub(super) repeat: Option<Fields<'a>>,
    /// `worktree:`.
    pub(super) written: Written,
    /// What was found out before any step is compiled.
    pub(super) ahead: Ahead,
}

/// Where a step stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) phase: PhaseKind,
    pub(super) within: Option<usize>,
}

/// What the results of a step depend on, so that it is found out before expressions are read.
pub(super) enum Ahead {
    Nothing,
    /// The schema of an agent's output.
    Schema(serde_json::Value),
    /// The pipeline that is called.
    Child(Rc<Interface>),
}

/// `retry:` as far as it is written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartialRetry {
    attempts: Option<u32>,
    backoff: Option<Millis>,
    max_backoff: Option<Millis>,
}

impl<'a> Draft<'a> {
    pub(super) fn read(key: &'a Name, node: &'a Node, place: Place, report: &mut Report) -> Self {
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
        let repeat = field("repeat").and_then(|node| read::fields(node, &keys::REPEAT, report));
        let kind = fields.as_ref().and_then(|fields| kind(fields, key, report));
        let written = Written::read(fields.as_ref(), report);
        let Place { phase, within } = place;
        Self {
            key,
            phase,
            within,
            body: None,
            kind,
            needs,
            meant_needs,
            fields,
            repeat,
            written,
            ahead: Ahead::Nothing,
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&'a Node> {
        self.fields.as_ref().and_then(|fields| fields.get(name))
    }

    /// It becomes a run, which needs a place to work at.
    pub(super) fn is_run(&self) -> bool {
        matches!(self.kind, Some("run" | "agent"))
    }

    pub(super) fn fans_out(&self) -> bool {
        self.field("foreach").is_some() || self.field("matrix").is_some()
    }

    /// `if:`, with a condition of its own or the default one.
    pub(super) fn condition(&self, view: &View<'_>, report: &mut Report) -> Condition {
        let mut names = view.names("`if`", false);
        names.status = true;
        let expr = self.field("if").and_then(|node| view.reader(&names).condition(node, "`if`", report));
        let implicit_success = !expr.as_ref().is_some_and(Expr::uses_status);
        Condition { implicit_success, expr }
    }

    /// The compiled step; `None` when something of it is missing, which was reported.
    pub(super) fn compile(
        &self,
        condition: Condition,
        view: &View<'_>,
        needs: &[Need],
        report: &mut Report,
    ) -> Option<StepSpec> {
        let (env, env_names) = self.env(view, report);
        let on_conflict = self.on_conflict(view, &env_names, report);
        let action = self.action(view, env_names, report);
        let retry = self.field("retry").map(|node| PartialRetry::read(node, report)).unwrap_or_default();
        let retry = if self.is_run() { retry.over(view.shared.retry) } else { retry.over(PartialRetry::default()) };
        let flag = |name: &str, what: &str, report: &mut Report| {
            self.field(name).and_then(|node| read::boolean(node, what, report))
        };
        let continue_on_fail = flag("continue_on_fail", "`continue_on_fail`", report).unwrap_or(false);
        let idempotent = flag("idempotent", "`idempotent`", report).unwrap_or(true);
        if !idempotent && retry.attempts > 1 {
            self.refuse_retry(retry.attempts, report);
        }
        let timeout = self.field("timeout").and_then(|node| read::duration(node, "`timeout`", report));
        let priority = self
            .field("priority")
            .and_then(|node| read::integer(node, "`priority`", -keys::MAX_PRIORITY..=keys::MAX_PRIORITY, report));
        Some(StepSpec {
            key: self.key.text.clone(),
            phase: self.phase,
            needs: needs.iter().map(|need| index(need.step)).collect(),
            condition,
            env,
            within: self.within.map(index),
            fan: None,
            concurrency: self.concurrency(view, report),
            priority: priority.unwrap_or(0),
            budget: self.budget(view, report),
            artifacts: self.artifacts(view, report),
            retry,
            timeout: timeout.or(view.shared.timeout).unwrap_or(DEFAULT_TIMEOUT),
            continue_on_fail,
            idempotent,
            worktree: self.worktree(&view.shared.trees, report),
            rules: self.rules(view, report),
            on_conflict,
            action: action?,
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

    /// `env:` of the step, and the names that what it runs can read.
    fn env<'v>(&self, view: &'v View<'a>, report: &mut Report) -> (BTreeMap<String, Template>, BTreeMap<&'v str, Taint>)
    where
        'a: 'v,
    {
        let mut names = view.names("`env`", true);
        names.env = Some(view.shared.env.clone());
        let (own, own_names) = match self.field("env") {
            Some(node) => env(node, &view.reader(&names), report),
            None => Default::default(),
        };
        let mut readable: BTreeMap<&'v str, Taint> =
            view.shared.env.iter().map(|(name, taint)| (*name, *taint)).collect();
        readable.extend(own_names);
        (own, readable)
    }
}

/// The kind of a step: what it does. `None` when it is not known, which was reported.
fn kind(fields: &Fields<'_>, key: &Name, report: &mut Report) -> Option<&'static str> {
    let is_kind = |key: &&str| fields.later.contains(key) || fields.entry(key).is_some();
    let kinds: Vec<&str> = keys::STEP_KINDS.iter().copied().filter(is_kind).collect();
    let name = &key.text;
    match kinds.as_slice() {
        // A misspelt or unavailable key may be what it does.
        [] => {
            if fields.later.is_empty() && !fields.has_unknown() {
                report
                    .error(Code::StepKind, key.span, format!("`{name}` does nothing"))
                    .help("say what it does, for example `run: make`");
            }
            None
        }
        [kind] => {
            refuse_misplaced(fields, kind, report);
            (!fields.later.contains(kind)).then_some(*kind)
        }
        several => {
            let listed = several.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(" and ");
            report
                .error(Code::StepKind, key.span, format!("`{name}` does several things: {listed}"))
                .help("make a step of each, with `needs:` between them");
            None
        }
    }
}

/// Keys that mean nothing beside what the step does.
fn refuse_misplaced(fields: &Fields<'_>, kind: &str, report: &mut Report) {
    if fields.later.contains(&kind) {
        return;
    }
    for key in keys::STEP.keys {
        let (Some(entry), Some(kinds)) = (fields.entry(key.name), keys::misplaced(key.name, kind)) else {
            continue;
        };
        let listed = kinds.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
        let help = match (kind, key.name) {
            ("approval" | "wait", "timeout") => format!("write it within: `{kind}: {{ timeout: ... }}`"),
            ("repeat", _) => "write it on the steps of its body".to_owned(),
            ("pipeline", "env" | "prompt") => "hand the value in as an input: `with:`".to_owned(),
            ("pipeline", _) => "write it in the other pipeline".to_owned(),
            _ => "remove it".to_owned(),
        };
        let message = format!("`{}` has a meaning beside {listed} only, not beside `{kind}`", key.name);
        report.error(Code::Conflict, entry.key.span, message).help(help);
    }
}

/// A position as it is stored.
pub(super) fn index(at: usize) -> SpecIndex {
    SpecIndex(u32::try_from(at).unwrap_or(u32::MAX))
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
