//! `run`: compile, start, follow.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::sync::Arc;

use orc_domain::flow::FlowSpec;
use orc_domain::graph::{Pipeline, RepositorySpec, StartFrom, StepSpec};
use orc_domain::ids::{FlowId, WorkspaceId};
use orc_domain::permission::{Above, Permissions};
use orc_domain::tree::Repository;
use orc_policy::rule::Rule;
use orc_policy::verdict::{Source, Verdict};
use orc_ports::worktrees::WorktreeError;
use orc_runtime::{Definition, Definitions};
use orc_spec::{RawInput, SourceFile};

use super::carry::{Manner, Work, carry};
use super::plan;
use crate::args::{LimitArgs, RuleArgs, RunArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, invalid, unavailable};
use crate::host;
use crate::output::{Form, say};
use crate::shelf::Shelf;
use crate::view::columns::clean_line;

pub(crate) async fn run(context: &Context, args: RunArgs) -> CommandResult {
    let source = context.source(&context.pipeline_file(&args.pipeline)?)?;
    start(context, args, source).await
}

/// Compiles a text, starts a flow of it, and follows that.
pub(crate) async fn start(context: &Context, args: RunArgs, source: SourceFile) -> CommandResult {
    if args.logs && args.output.output != Form::Table {
        let what = "`--logs` shows people what steps print, and `--output` gives programs the result";
        return Err(Failure::new(Exit::Usage, what).hint("`orchestrator logs FLOW --output jsonl` prints logs as JSON"));
    }
    let shape = context.shape("run", &args.limits)?;
    let definitions = compile(context, source, &args.limits)?;
    let pipeline = &definitions.pipeline;
    let inputs = inputs_of(pipeline, &args.inputs)?;
    if args.dry_run {
        return plan::print(context, pipeline, &shape, args.output.output).await;
    }
    let hash =
        pipeline.content_hash().map_err(|error| unavailable("the pipeline has no stored form").because(error))?;
    let directory = context
        .root
        .to_str()
        .ok_or_else(|| invalid(format!("the directory `{}` has a name that is not UTF-8", context.root.display())))?;
    let repositories = pin(context, &definitions).await?;
    let spec = FlowSpec {
        id: FlowId::from_uuid(uuid::Uuid::now_v7()),
        workspace: WorkspaceId::default_workspace(),
        pipeline: hash,
        name: pipeline.name.clone(),
        inputs,
        directory: directory.to_owned(),
        repositories,
        from: Vec::new(),
        requested_by: context.user(),
        created_at: context.now(),
        retry_of: None,
        taken_over: BTreeMap::new(),
        carried: BTreeMap::new(),
        parent: None,
        groups_above: BTreeSet::new(),
        priority: args.priority,
        walls_above: Vec::new(),
        above: typed_rules(&args.rules)?.into_iter().collect(),
    };
    let work = Work::New { spec: Box::new(spec), definitions: Box::new(definitions) };
    carry(context, shape, vec![work], Manner { form: args.output.output, logs: args.logs }).await
}

/// Rules that were typed: they hold for all agents of the flow, those that others start included.
fn typed_rules(rules: &RuleArgs) -> CommandResult<Option<Above>> {
    let RuleArgs { allow, ask, deny } = rules;
    for (verdict, texts) in [(Verdict::Allow, allow), (Verdict::Ask, ask), (Verdict::Deny, deny)] {
        for text in texts {
            Rule::parse(text, verdict, Source::CommandLine, "/").map_err(|complaint| {
                let what = format!("--{}: `{}`: {}", verdict.word(), clean_line(text, 80), complaint.what);
                Failure::new(Exit::Usage, what).hint(complaint.hint)
            })?;
        }
    }
    let (allow, ask, deny) = (allow.clone(), ask.clone(), deny.clone());
    let permissions = Permissions { allow, ask, deny, ..Permissions::default() };
    Ok((!permissions.is_empty()).then(|| Above { who: Above::COMMAND_LINE.to_owned(), permissions }))
}

/// Fixes the commits that private copies start from; nothing when no step of the pipeline, or of those it calls, gets one.
async fn pin(context: &Context, definitions: &Definitions) -> CommandResult<Vec<Repository>> {
    let children = definitions.children.iter().map(|child| child.pipeline.as_ref());
    let family: Vec<&Pipeline> = std::iter::once(definitions.pipeline.as_ref()).chain(children).collect();
    let copies = |pipeline: &&Pipeline| {
        let from = |step: &StepSpec| matches!(step.worktree.from, StartFrom::Fresh | StartFrom::Parents);
        pipeline.steps.iter().any(|step| (step.action.is_run() || step.on_conflict.is_some()) && from(step))
    };
    if !family.iter().any(copies) {
        return Ok(Vec::new());
    }
    let mut wanted: Vec<RepositorySpec> = Vec::new();
    for spec in family.iter().flat_map(|pipeline| &pipeline.repositories) {
        if !wanted.iter().any(|known| known.path == spec.path) {
            wanted.push(spec.clone());
        }
    }
    let worktrees = context.copies_before_holding();
    let pinned = worktrees.pin(context.root.clone(), wanted).await.map_err(not_pinned)?;
    for note in &pinned.notes {
        say(&format!("note: {note}"));
    }
    Ok(pinned.repositories)
}

fn not_pinned(error: WorktreeError) -> Failure {
    let hint = match &error {
        WorktreeError::NoRepository { .. } => {
            "steps work in private copies of a git repository: `git init` and commit, or write `worktree: none` (an empty \
             directory) or `worktree: in_place` (your own files, without a box)"
        }
        WorktreeError::Empty { .. } => {
            "commit what is there (`git add . && git commit`), or write `worktree: none` (an empty directory) or `worktree: \
             in_place` (your own files, without a box)"
        }
        WorktreeError::NoCommit { .. } => {
            "commit something first, or name another `base:` under `worktree: { repositories }`"
        }
        WorktreeError::Box { .. } => {
            "`orchestrator doctor` says what this machine has, `orchestrator doctor --fix` makes the box user"
        }
        WorktreeError::NoCopy { .. }
        | WorktreeError::Unknown { .. }
        | WorktreeError::Conflict(_)
        | WorktreeError::Git { .. }
        | WorktreeError::Unavailable { .. }
        | WorktreeError::File { .. } => "`orchestrator doctor` says what this machine can do",
    };
    unavailable("private copies cannot be made").because(error).hint(hint)
}

/// Reads and compiles a pipeline with those that it calls; mistakes are printed, and errors end the command.
pub(crate) fn compile_file(context: &Context, name: &str, limits: &LimitArgs) -> CommandResult<Definitions> {
    let source = context.source(&context.pipeline_file(name)?)?;
    compile(context, source, limits)
}

fn compile(context: &Context, source: SourceFile, limits: &LimitArgs) -> CommandResult<Definitions> {
    let shelf = Shelf::of(context, Some(context.settings(limits)?.names()))?;
    let compiled = shelf.compile(&source);
    let colour = host::colour(std::io::stderr().is_terminal());
    for diagnostic in &compiled.diagnostics {
        say(&diagnostic.render(&source, colour));
    }
    for child in &compiled.children {
        for diagnostic in &child.diagnostics {
            say(&diagnostic.render(&child.source, colour));
        }
    }
    let shown = &source.name;
    let pipeline =
        compiled.pipeline.ok_or_else(|| invalid(format!("`{shown}` cannot be run: see the errors above")))?;
    let children = compiled.children.into_iter().filter_map(|child| {
        let (hash, pipeline) = child.pipeline?;
        Some(Definition { hash, pipeline: Box::new(pipeline), source: child.source.text })
    });
    Ok(Definitions { pipeline: Arc::new(pipeline), source: source.text, children: children.collect() })
}

/// `--input NAME=VALUE`, checked against the pipeline's inputs.
fn inputs_of(pipeline: &Pipeline, given: &[String]) -> CommandResult<BTreeMap<String, orc_domain::value::Value>> {
    let mut raw = BTreeMap::new();
    for text in given {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failure::new(Exit::Usage, format!("`--input {text}` has no `=`")).hint("write --input NAME=VALUE")
        })?;
        raw.insert(name.to_owned(), RawInput::Text(value.to_owned()));
    }
    orc_spec::check_inputs(pipeline, raw).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        invalid(format!("the inputs do not fit `{}`:\n  {}", pipeline.name, lines.join("\n  ")))
    })
}
