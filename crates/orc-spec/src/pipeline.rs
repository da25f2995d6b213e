//! A pipeline file to a compiled [`Pipeline`], or every reason why not.
//!
//! In order: the tree ([`crate::yaml`]), the keys ([`crate::keys`]), the steps with the bodies of `repeat` ([`steps`]), who
//! waits for whom ([`order`]), where they work ([`trees`]), what results depend on (schemas, other pipelines: [`child`]), fan-outs and conditions, then
//! each step with its expressions ([`step`], [`action`]). Each part reports and goes on. What a later version builds is
//! refused by name and never ignored. A `Pipeline` exists only when there is no error.

mod action;
mod approval;
mod child;
mod fan;
mod inputs;
mod limits;
mod matrix;
mod order;
mod step;
mod steps;
mod trees;
mod view;

use std::collections::BTreeMap;

use orc_domain::expr::{Expr, Template};
use orc_domain::graph::{Concurrency, Condition, Pipeline, StepSpec};
use orc_domain::permission::Permissions;
use orc_domain::profile::{Adapter, Profile};

pub use self::child::{Child, Library};
use self::child::{Family, Product};
pub(crate) use self::inputs::is_identifier;
pub use self::inputs::{InputError, RawInput, check_inputs};
use self::order::Order;
use self::step::{Ahead, Draft, PartialRetry};
pub(crate) use self::step::{check_variable, is_variable};
use self::view::{Levels, Shared, Stand, View};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::expression::{Names, Reader, StepFacts, Taint, Type, is_never};
use crate::keys;
use crate::permissions::{self, Hands};
use crate::read::{self, Fields};
use crate::source::{SourceFile, Span};
use crate::yaml::{self, Kind, Node};

/// Steps of a pipeline, all parts and bodies together.
pub const MAX_STEPS: usize = 5_000;

/// What came of a file.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The pipeline, when there is no error in it or in those that it calls.
    pub pipeline: Option<Pipeline>,
    /// Everything to say about the file, in order of place; warnings also stand beside a pipeline.
    pub diagnostics: Vec<Diagnostic>,
    /// The pipelines that it calls, and those that they call: each file once, callees before their callers.
    pub children: Vec<Child>,
}

/// Compiles the text of one pipeline file. Pure: equal texts and libraries give equal results.
#[must_use]
pub fn compile(file: &SourceFile, library: &Library<'_>) -> Compiled {
    let mut family = Family::new(library, file);
    let Product { pipeline, diagnostics, .. } = compile_one(file, &mut family);
    Compiled { pipeline, diagnostics, children: family.children }
}

fn compile_one(file: &SourceFile, family: &mut Family<'_>) -> Product {
    let mut report = Report::new(&file.name);
    let read = yaml::parse(&file.text, &mut report).and_then(|root| read_pipeline(file, &root, family, &mut report));
    let (pipeline, outputs) = read.unzip();
    let pipeline = if report.has_errors() { None } else { pipeline };
    Product { pipeline, outputs: outputs.unwrap_or(Type::Any), diagnostics: report.finish() }
}

/// Programs are not judged, whatever stands above them.
fn warn_of_unjudged(
    (node, permissions): (&Node, &Permissions),
    agents: &BTreeMap<String, Profile>,
    report: &mut Report,
) {
    let programs: Vec<&str> = agents
        .values()
        .filter(|profile| !matches!(profile.adapter, Adapter::BuiltIn(_)))
        .map(|profile| profile.name.as_str())
        .collect();
    if !permissions.is_empty() && !programs.is_empty() {
        let message =
            format!("`permissions` does not hold for `{}`: no call of a program is judged", programs.join("`, `"));
        report.warning(Code::NotHonoured, node.span, message).help("what bounds a program is `box:`");
    }
}

/// The pipeline and the types of its outputs.
fn read_pipeline(
    file: &SourceFile,
    root: &Node,
    family: &mut Family<'_>,
    report: &mut Report,
) -> Option<(Pipeline, Type)> {
    let fields = read::fields(root, &keys::PIPELINE, report)?;
    let name = fields.get("name").map_or_else(|| Some(file.stem().to_owned()), |node| title(node, report));
    let description = fields.get("description").and_then(|node| read::text(node, "`description`", report));
    let triggers = triggers(&fields, report);
    let inputs = fields.get("inputs").map(|node| inputs::read(node, report)).unwrap_or_default();
    let input_types = inputs.iter().map(|(name, spec)| (name.clone(), Type::of_input(spec.kind))).collect();
    let (env, env_names) = pipeline_env(file, &fields, &input_types, triggers, report);
    let concurrency =
        fields.get("concurrency").and_then(|node| flow_group(file, node, (&input_types, triggers), report));
    let budget = fields.get("budget").and_then(|node| limits::pipeline_budget(node, report));
    let permissions = fields.get("permissions");
    let permissions =
        permissions.map(|node| permissions::permissions(node, &keys::PERMISSIONS_ABOVE, &Hands::any(), report));
    let (timeout, retry) = fields.get("defaults").map(|node| defaults(node, report)).unwrap_or_default();
    let mut drafts = steps::drafts(&fields, report);
    require_steps(&fields, root, report);
    let trees = trees::read(&fields, &drafts, family.library.allowance, report);
    look_ahead(&mut drafts, family, report);

    let order = Order::of(&drafts, report);
    let shared = Shared {
        source: &file.text,
        drafts: &drafts,
        order: &order,
        inputs: input_types,
        levels: levels(&drafts),
        fans: Vec::new(),
        env: env_names,
        has_ticket: triggers.ticket,
        has_event: triggers.event,
        timeout,
        retry,
        budget,
        trees,
        library: family.library,
    };
    let (steps, shared) = compile_steps(shared, report);
    let (outputs, output_types) = outputs(&fields, &shared, report);
    let used = drafts.iter().flat_map(|draft| draft.profiles(family.library.agents));
    let agents = with_workers(used, family.library.agents);
    if let (Some(node), Some(permissions)) = (fields.get("permissions"), &permissions) {
        warn_of_unjudged((node, permissions), &agents, report);
    }
    let repositories = shared.trees.repositories;
    let (name, steps) = (name?, steps?);
    let pipeline = Pipeline {
        name,
        description,
        inputs,
        env,
        steps,
        outputs,
        repositories,
        concurrency,
        budget,
        agents,
        permissions: permissions.unwrap_or_default(),
    };
    Some((pipeline, output_types))
}

/// Agents of steps, and those that they may start themselves, which a flow pins with them.
fn with_workers<'a>(
    used: impl Iterator<Item = (&'a String, &'a Profile)>,
    known: &'a BTreeMap<String, Profile>,
) -> BTreeMap<String, Profile> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(&String, &Profile)> = used.collect();
    while let Some((name, profile)) = open.pop() {
        if found.insert(name.clone(), profile.clone()).is_none() {
            open.extend(profile.adapter.workers().iter().filter_map(|worker| known.get_key_value(worker)));
        }
    }
    found
}

/// What the results of steps depend on: schemas of outputs, pipelines that are called.
fn look_ahead(drafts: &mut [Draft<'_>], family: &mut Family<'_>, report: &mut Report) {
    for draft in drafts {
        let library = family.library;
        draft.ahead = match draft.schema_ahead(library.agents, library.schemas, report) {
            Ahead::Nothing => draft.child_ahead(family, report),
            schema => schema,
        };
    }
}

/// All steps in order; `None` when something of one is missing, which was reported.
fn compile_steps<'a>(mut shared: Shared<'a>, report: &mut Report) -> (Option<Vec<StepSpec>>, Shared<'a>) {
    let drafts = shared.drafts;
    let mut conditions = Vec::with_capacity(drafts.len());
    // Bodies come after their `repeat`, whose elements they can read.
    for (at, draft) in drafts.iter().enumerate() {
        let view = View::new(&shared, Stand::Step(at));
        let fan = draft.fan(&view, report);
        conditions.push(draft.condition(&view, report));
        shared.fans.push(fan);
    }
    report_unreachable(drafts, &conditions, &mut shared, report);
    let compiled: Vec<Option<StepSpec>> = conditions
        .into_iter()
        .enumerate()
        .map(|(at, condition)| {
            let view = View::new(&shared, Stand::Step(at));
            let mut step = drafts[at].compile(condition, &view, &shared.order.needs[at], report)?;
            step.fan = shared.fans[at].as_ref().map(|draft| draft.fan.clone());
            Some(step)
        })
        .collect();
    (compiled.into_iter().collect(), shared)
}

/// `outputs:`, and their types as a caller sees them.
fn outputs(fields: &Fields<'_>, shared: &Shared<'_>, report: &mut Report) -> (BTreeMap<String, Expr>, Type) {
    let (mut outputs, mut types) = (BTreeMap::new(), BTreeMap::new());
    let entries = fields.get("outputs").and_then(|node| read::map(node, "`outputs`", report)).unwrap_or_default();
    let view = View::new(shared, Stand::Outputs);
    let names = view.names("`outputs`", false);
    for entry in entries {
        let name = &entry.key.text;
        if !is_identifier(name) {
            let message = format!("`{}` cannot be the name of an output", read::excerpt(name));
            report
                .error(Code::BadValue, entry.key.span, message)
                .help("letters, digits, `_` and `-`, beginning with a letter");
        }
        let checked = view.reader(&names).any(&entry.value, &format!("the output `{name}`"), report);
        // A name that was written is known, even when its value is wrong.
        types.insert(name.clone(), checked.as_ref().map_or(Type::Any, |checked| checked.ty.clone()));
        outputs.extend(checked.map(|checked| (name.clone(), checked.expr)));
    }
    (outputs, Type::Object { fields: types, open: false })
}

/// `concurrency:` of the pipeline. It is needed before the flow begins, so that there is nothing but inputs to read.
fn flow_group(
    file: &SourceFile,
    node: &Node,
    (inputs, triggers): (&BTreeMap<String, Type>, Triggers),
    report: &mut Report,
) -> Option<Concurrency> {
    let names = Names {
        place: "the group of a pipeline",
        only_inputs: true,
        has_ticket: triggers.ticket,
        has_event: triggers.event,
        ..Names::of_inputs(inputs)
    };
    limits::concurrency(node, &Reader { source: &file.text, names: &names }, report)
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
                "`manual: false` is not available yet: a person can start every pipeline",
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
        has_ticket: triggers.ticket,
        has_event: triggers.event,
        ..Names::of_inputs(inputs)
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

/// What is known of the steps before any is compiled.
fn levels(drafts: &[Draft<'_>]) -> Levels {
    let mut levels = Levels::from([(None, BTreeMap::new())]);
    // Bodies come after their `repeat`, whose output is made of theirs.
    for (position, draft) in drafts.iter().enumerate().rev() {
        let repeats = draft.kind == Some("repeat");
        let body = levels.get(&Some(position)).into_iter().flatten();
        let body: Vec<(&str, Type)> = body
            .map(|(name, facts): (&String, &StepFacts)| {
                (name.as_str(), if facts.fans_out { Type::Any } else { facts.output.clone() })
            })
            .collect();
        let output = draft.output_type(&body);
        let facts = StepFacts {
            position,
            fans_out: draft.fans_out(),
            repeats,
            artifacts: draft.artifact_names(),
            output,
            never_runs: false,
            place: draft.key.span,
        };
        levels.entry(draft.within).or_default().insert(draft.key.text.clone(), facts);
    }
    levels
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

/// The first key of the file, for what is missing from all of it.
fn first_line(root: &Node) -> Span {
    match &root.kind {
        Kind::Map(entries) => entries.first().map_or(root.span, |entry| entry.key.span),
        _ => root.span,
    }
}

/// Steps whose `if` is `false`, and those that only run after one of them.
fn report_unreachable(drafts: &[Draft<'_>], conditions: &[Condition], shared: &mut Shared<'_>, report: &mut Report) {
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); drafts.len()];
    for (at, needs) in shared.order.needs.iter().enumerate() {
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
        let level = shared.levels.get_mut(&drafts[at].within);
        if let Some(facts) = level.and_then(|level| level.get_mut(&key.text)) {
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
