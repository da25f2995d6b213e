//! A pipeline file to a compiled [`Pipeline`], or every reason why not.
//!
//! In order: the tree ([`crate::yaml`]), the keys ([`crate::keys`]), who waits for whom ([`order`]), conditions, then each
//! step with its expressions and script ([`step`]). Each part reports and goes on. What a later version builds is refused
//! by name and never ignored. A `Pipeline` exists only when there is no error.

mod inputs;
mod order;
mod step;

use std::cell::LazyCell;
use std::collections::BTreeMap;

use orc_domain::expr::Template;
use orc_domain::graph::{Condition, PhaseKind, Pipeline};

pub(crate) use self::inputs::is_identifier;
pub use self::inputs::{InputError, RawInput, check_inputs};
use self::order::Order;
use self::step::{Draft, PartialRetry, Shared, Turn, Worktree};
pub(crate) use self::step::{check_variable, is_variable};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::expression::{Names, Reader, StepFacts, Taint, Type, is_never};
use crate::keys;
use crate::read::{self, Fields};
use crate::source::{SourceFile, Span};
use crate::yaml::{self, Kind, Node};

/// Steps of a pipeline, both parts together.
pub const MAX_STEPS: usize = 5_000;

/// What came of a file.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The pipeline, when there is no error.
    pub pipeline: Option<Pipeline>,
    /// Everything to say about the file, in order of place; warnings also stand beside a pipeline.
    pub diagnostics: Vec<Diagnostic>,
}

/// Compiles the text of one pipeline file. Pure: the same text gives the same result.
#[must_use]
pub fn compile(file: &SourceFile) -> Compiled {
    let mut report = Report::new(&file.name);
    let pipeline = yaml::parse(&file.text, &mut report).and_then(|root| read_pipeline(file, &root, &mut report));
    let pipeline = if report.has_errors() { None } else { pipeline };
    Compiled { pipeline, diagnostics: report.finish() }
}

fn read_pipeline(file: &SourceFile, root: &Node, report: &mut Report) -> Option<Pipeline> {
    let fields = read::fields(root, &keys::PIPELINE, report)?;
    let name = fields.get("name").map_or_else(|| Some(file.stem().to_owned()), |node| title(node, report));
    let description = fields.get("description").and_then(|node| read::text(node, "`description`", report));
    let triggers = triggers(&fields, report);
    let inputs = fields.get("inputs").map(|node| inputs::read(node, report)).unwrap_or_default();
    let input_types = inputs.iter().map(|(name, spec)| (name.clone(), Type::of_input(spec.kind))).collect();
    let (env, env_names) = pipeline_env(file, &fields, &input_types, triggers, report);
    let (timeout, retry) = fields.get("defaults").map(|node| defaults(node, report)).unwrap_or_default();
    let drafts = drafts(&fields, report);
    require_steps(&fields, root, report);
    require_worktree(&fields, &drafts, root, report);

    let order = Order::of(&drafts, report);
    let mut shared = Shared {
        source: &file.text,
        inputs: input_types,
        facts: facts(&drafts),
        env: env_names,
        has_ticket: triggers.ticket,
        has_event: triggers.event,
        timeout,
        retry,
    };
    let conditions: Vec<Condition> = drafts
        .iter()
        .enumerate()
        .map(|(at, draft)| {
            let finished = LazyCell::new(|| order.finished_before(at, &drafts));
            draft.condition(&shared, &|step| finished[step], report)
        })
        .collect();
    report_unreachable(&drafts, &order, &conditions, &mut shared, report);
    let compiled: Vec<_> = drafts
        .iter()
        .zip(conditions)
        .enumerate()
        .map(|(at, (draft, condition))| {
            let finished = LazyCell::new(|| order.finished_before(at, &drafts));
            let turn = Turn { condition, needs: &order.needs[at], is_finished: &|step| finished[step] };
            draft.compile(turn, &shared, report)
        })
        .collect();
    let steps = compiled.into_iter().collect::<Option<Vec<_>>>()?;
    Some(Pipeline {
        name: name?,
        description,
        inputs,
        env,
        steps,
        outputs: BTreeMap::new(),
        concurrency: None,
        budget: None,
        agents: BTreeMap::new(),
    })
}

/// `name:`: one line that fits a table.
fn title(node: &Node, report: &mut Report) -> Option<String> {
    let name = read::text(node, "`name`", report)?;
    if name.trim().is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
        report.error(Code::BadValue, node.span, "a name is one line of 1 to 100 characters");
        return None;
    }
    Some(name)
}

/// Which triggers are written, available or not.
#[derive(Clone, Copy, Default)]
struct Triggers {
    ticket: bool,
    event: bool,
}

fn triggers(fields: &Fields<'_>, report: &mut Report) -> Triggers {
    let Some(node) = fields.get("on") else {
        return Triggers::default();
    };
    if let Kind::Scalar(_) | Kind::List(_) = &node.kind {
        report.error(Code::WrongType, node.span, "`on` needs a map of triggers").help("write `on: { manual: true }`");
        // Nothing is known of its triggers, so nothing is said about `ticket` and `event`.
        return Triggers { ticket: true, event: true };
    }
    let Some(on) = read::fields(node, &keys::ON, report) else {
        return Triggers { ticket: true, event: true };
    };
    if let Some(node) = on.get("manual")
        && read::boolean(node, "`manual`", report) == Some(false)
    {
        report
            .error(
                Code::NotAvailable,
                node.span,
                "`manual: false` is not available yet, because nothing else starts a pipeline",
            )
            .help("write `manual: true`");
    }
    Triggers {
        ticket: on.later.contains(&"ticket") || on.has_unknown(),
        event: on.later.contains(&"github") || on.later.contains(&"event") || on.has_unknown(),
    }
}

fn pipeline_env<'a>(
    file: &SourceFile,
    fields: &Fields<'a>,
    inputs: &BTreeMap<String, Type>,
    triggers: Triggers,
    report: &mut Report,
) -> (BTreeMap<String, Template>, BTreeMap<&'a str, Taint>) {
    let names = Names {
        place: "`env` of the pipeline",
        inputs,
        steps: None,
        env: None,
        item: None,
        status: false,
        has_ticket: triggers.ticket,
        has_event: triggers.event,
    };
    match fields.get("env") {
        Some(node) => step::env(node, &Reader { source: &file.text, names: &names }, report),
        None => Default::default(),
    }
}

fn defaults(node: &Node, report: &mut Report) -> (Option<orc_domain::time::Millis>, PartialRetry) {
    let Some(fields) = read::fields(node, &keys::DEFAULTS, report) else {
        return Default::default();
    };
    let timeout = fields.get("timeout").and_then(|node| read::duration(node, "`timeout`", report));
    let retry = fields.get("retry").map(|node| PartialRetry::read(node, report)).unwrap_or_default();
    (timeout, retry)
}

/// The steps of both parts in file order.
fn drafts<'a>(fields: &Fields<'a>, report: &mut Report) -> Vec<Draft<'a>> {
    let mut drafts: Vec<Draft<'a>> = Vec::new();
    for (key, what, phase) in [("steps", "`steps`", PhaseKind::Main), ("finally", "`finally`", PhaseKind::Finally)] {
        let Some(node) = fields.get(key) else {
            continue;
        };
        if let Kind::List(_) = &node.kind {
            report
                .error(Code::WrongType, node.span, format!("{what} needs a map of steps by name, not a list"))
                .help("give each step a name: `build: { run: make }`");
            continue;
        }
        for entry in read::map(node, what, report).unwrap_or_default() {
            let twin = drafts.iter().find(|draft| draft.phase != phase && draft.key.text == entry.key.text);
            if let Some(first) = twin {
                let message = format!("a step `{}` stands under `steps` already", entry.key.text);
                report
                    .error(Code::DuplicateKey, entry.key.span, message)
                    .label(first.key.span, "it stands here first")
                    .help("choose another name");
                continue;
            }
            if drafts.len() == MAX_STEPS {
                let message = format!("a pipeline has at most {MAX_STEPS} steps");
                report.error(Code::Limit, entry.key.span, message).help("run one step over a list with `foreach:`");
                return drafts;
            }
            drafts.push(Draft::read(&entry.key, &entry.value, phase, report));
        }
    }
    drafts
}

/// What is known of the steps before any is compiled.
fn facts(drafts: &[Draft<'_>]) -> BTreeMap<String, StepFacts> {
    let known = drafts.iter().enumerate().map(|(position, draft)| {
        let facts = StepFacts { position, fans_out: draft.fans_out(), never_runs: false, place: draft.key.span };
        (draft.key.text.clone(), facts)
    });
    known.collect()
}

fn require_steps(fields: &Fields<'_>, root: &Node, report: &mut Report) {
    const HELP: &str = "add a step: `steps: { hello: { run: echo hello } }`";
    match fields.entry("steps") {
        None if fields.lacks("steps") => {
            report.error(Code::MissingKey, first_line(root), "this pipeline has no `steps`").help(HELP);
        }
        Some(entry) if matches!(&entry.value.kind, Kind::Map(steps) if steps.is_empty()) => {
            report.error(Code::BadValue, entry.key.span, "a pipeline needs at least one step").help(HELP);
        }
        _ => {}
    }
}

/// Until private worktrees exist, every step must say that it works in the user's own checkout.
fn require_worktree(fields: &Fields<'_>, drafts: &[Draft<'_>], root: &Node, report: &mut Report) {
    if step::worktree(Some(fields), report) != Worktree::Absent {
        return;
    }
    let silent: Vec<&str> = drafts
        .iter()
        .filter(|draft| draft.is_run() && draft.worktree == Worktree::Absent)
        .map(|draft| draft.key.text.as_str())
        .collect();
    if silent.is_empty() || !fields.lacks("worktree") {
        return;
    }
    let message = if silent.len() == drafts.len() {
        "this pipeline does not say where its steps work".to_owned()
    } else {
        format!("nothing says where these steps work: {}", silent.join(", "))
    };
    report.error(Code::MissingKey, first_line(root), message).help(
        "add `worktree: in_place`: until private worktrees exist, steps work in your own checkout, and a pipeline must say so",
    );
}

/// The first key of the file, for what is missing from all of it.
fn first_line(root: &Node) -> Span {
    match &root.kind {
        Kind::Map(entries) => entries.first().map_or(root.span, |entry| entry.key.span),
        _ => root.span,
    }
}

/// Steps whose `if` is `false`, and those that only run after one of them.
fn report_unreachable(
    drafts: &[Draft<'_>],
    order: &Order,
    conditions: &[Condition],
    shared: &mut Shared<'_>,
    report: &mut Report,
) {
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); drafts.len()];
    for (at, needs) in order.needs.iter().enumerate() {
        for need in needs {
            dependents[need.step].push(at);
        }
    }
    let is_dead = |at: &usize| conditions[*at].expr.as_ref().is_some_and(is_never);
    let mut open: Vec<usize> = (0..drafts.len()).filter(is_dead).collect();
    let mut dead: BTreeMap<usize, Option<usize>> = open.iter().map(|at| (*at, None)).collect();
    while let Some(cause) = open.pop() {
        for at in &dependents[cause] {
            if conditions[*at].implicit_success && !dead.contains_key(at) {
                dead.insert(*at, Some(cause));
                open.push(*at);
            }
        }
    }
    for (at, cause) in dead {
        let key = drafts[at].key;
        if let Some(facts) = shared.facts.get_mut(&key.text) {
            facts.never_runs = true;
        }
        let (message, help) = match cause {
            None => (format!("`{}` never runs: its `if` is always false", key.text), "remove the step, or its `if`"),
            Some(cause) => (
                format!("`{}` never runs, because it needs `{}`, which never runs", key.text, drafts[cause].key.text),
                "remove that need, or write an `if` with a status function, such as `always()`",
            ),
        };
        report.warning(Code::Unreachable, key.span, message).help(help);
    }
}

#[cfg(test)]
mod tests;
