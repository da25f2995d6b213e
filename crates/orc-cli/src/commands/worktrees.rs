//! `worktrees`: the private copies that there are, what steps made in them, and how a person gets at it.
//!
//! To look never changes anything. What writes (`rescue`, `gc --apply`) takes the data directory, and leaves a copy alone
//! that a run has. `gc` is in a module of its own.

mod gc;

use orc_domain::flow::{Flow, Step};
use orc_domain::ids::FlowId;
use orc_domain::path::StepPath;
use orc_domain::tree::{Repository, Tip};
use orc_ports::reader::Reader as _;
use orc_ports::worktrees::{Conversation, CopyEntry, CopyState, SavedRef, WorktreeError, Worktrees};
use serde_json::{Value, json};

pub(crate) use self::gc::run as gc;
use super::db::lock;
use super::status::report::bytes;
use crate::args::{WorktreeArgs, WorktreeShowArgs, WorktreesListArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found, unavailable};
use crate::hold::of_store;
use crate::output::{self, Form, say};
use crate::view::columns::{Columns, clean};
use crate::view::flow::ago;
use crate::view::made::{Made, maker_of, own_tip, quoted, take_over};

/// Bytes of a patch that are printed.
const PATCH_BYTES: u64 = 64 << 20;
/// Names of steps that are certainly whole in references.
const LONGEST_NAME: usize = 100;

pub(crate) async fn list(context: &Context, args: &WorktreesListArgs) -> CommandResult {
    let flow = match &args.flow {
        Some(id) => Some(context.step_of(&context.reader().await?, id).await?.0),
        None => None,
    };
    let mut copies = context.copies().list().await.map_err(of_worktrees)?;
    copies.retain(|copy| flow.is_none_or(|flow| copy.conversation.flow == flow));
    copies.sort_by(|one, two| (two.since, &one.conversation).cmp(&(one.since, &two.conversation)));
    if args.output.output != Form::Table {
        let copies: Vec<Value> = copies.iter().map(copy_document).collect();
        let document = json!({ "schema": "orc/worktrees/1", "worktrees": copies });
        output::document(args.output.output, &document, Some("worktrees"))?;
        return Ok(Exit::Success);
    }
    if copies.is_empty() {
        say(match flow {
            Some(_) => "it has no private copies; `orchestrator worktrees show` has what its steps made",
            None => "there are no private copies",
        });
        return Ok(Exit::Success);
    }
    let mut table = Columns::titled(&["FLOW", "STEP", "STATE", "SINCE", "STRATEGY", "SIZE", "RUN"]);
    for copy in &copies {
        let run = copy.run.map_or_else(|| "-".to_owned(), |run| run.to_string());
        table.row([
            copy.conversation.flow.to_string().as_str(),
            copy.conversation.path.as_str(),
            copy.state.word(),
            &ago(copy.since, context.now()),
            copy.strategy,
            &bytes(copy.bytes),
            &run,
        ]);
    }
    output::text(&table.text(""))?;
    Ok(Exit::Success)
}

/// What an id of the command line means: a flow that may be known only by its copies, and a step of it.
struct Target {
    id: FlowId,
    flow: Option<Flow>,
    step: Option<StepPath>,
    /// Its copies, or that of the step.
    copies: Vec<CopyEntry>,
}

impl Target {
    async fn find(context: &Context, worktrees: &dyn Worktrees, args: &WorktreeArgs) -> CommandResult<Self> {
        let (id, of_run, flow) = match args.id.parse::<FlowId>() {
            // A database that was put aside leaves copies whose flows are known by nothing else.
            Ok(id) if !context.data.database().is_file() => (id, None, None),
            _ => {
                let reader = context.reader().await?;
                let (id, of_run) = context.step_of(&reader, &args.id).await?;
                (id, of_run, reader.flow(id).await.map_err(of_store)?)
            }
        };
        let step = match &args.step {
            Some(text) => {
                let path = text.parse::<StepPath>();
                Some(path.map_err(|error| Failure::new(Exit::Usage, format!("`{text}` is no step")).because(error))?)
            }
            None => of_run,
        };
        let mut copies = worktrees.list().await.map_err(of_worktrees)?;
        copies.retain(|copy| copy.conversation.flow == id);
        if flow.is_none() && copies.is_empty() {
            return Err(not_found(format!("there is no flow {id}, and no copy of one"))
                .hint("`orchestrator worktrees list` shows all copies"));
        }
        if let (Some(flow), Some(path)) = (&flow, &step)
            && !copies.iter().any(|copy| copy.conversation.path == *path)
        {
            super::explain::parse_step(flow, path.as_str())?;
        }
        copies.retain(|copy| step.as_ref().is_none_or(|path| copy.conversation.path == *path));
        Ok(Self { id, flow, step, copies })
    }

    /// Steps that made commits of their own, one or all.
    fn results(&self) -> Vec<(&Step, &Tip)> {
        let steps = self.flow.iter().flat_map(|flow| &flow.steps);
        let wanted = steps.filter(|step| self.step.as_ref().is_none_or(|path| step.path == *path));
        // A step that only merged may hand on what another made.
        let is_own = |step: &Step, tip: &Tip| {
            tip.tree.0.iter().any(|(repository, commit)| {
                let maker = self.flow.as_ref().and_then(|flow| maker_of(flow, repository, commit));
                maker.is_none_or(|maker| maker.no == step.no)
            })
        };
        wanted.filter_map(|step| Some((step, own_tip(step).filter(|tip| is_own(step, tip))?))).collect()
    }

    /// The one conversation that is meant, or why it is not one.
    fn conversation(&self) -> CommandResult<Conversation> {
        let id = self.id;
        if let Some(path) = &self.step {
            return Ok(Conversation { flow: id, path: path.clone() });
        }
        let of_copies = self.copies.iter().map(|copy| &copy.conversation.path);
        let mut paths: Vec<&StepPath> =
            of_copies.chain(self.results().into_iter().map(|(step, _)| &step.path)).collect();
        paths.sort_unstable();
        paths.dedup();
        match paths.as_slice() {
            [path] => Ok(Conversation { flow: id, path: (*path).clone() }),
            [] => Err(not_found(format!("no step of {id} has a copy, and none changed anything"))
                .hint(format!("`orchestrator flows show {id}` says how its steps ended"))),
            several => {
                let names: Vec<String> = several.iter().take(9).map(|path| format!("`{path}`")).collect();
                let what = format!("several steps of {id} have a copy or made commits: {}", names.join(", "));
                Err(Failure::new(Exit::Usage, what).hint("name one with --step PATH"))
            }
        }
    }

    /// What was rescued of its copies, or of that of the step.
    fn rescued(&self, worktrees: &dyn Worktrees) -> Vec<SavedRef> {
        let mut rescued = worktrees.rescued(self.id, self.repositories());
        // A reference has the step's name, with its dots encoded and its length bounded: one that may be cut is not judged.
        let name = self.step.as_ref().map(|path| path.file_name().replace('.', "%2e"));
        if let Some(name) = name.filter(|name| name.len() < LONGEST_NAME) {
            rescued.retain(|held| held.name.contains(&format!("/{name}/")));
        }
        rescued
    }

    fn repositories(&self) -> &[Repository] {
        self.flow.as_ref().map(|flow| flow.spec.repositories.as_slice()).unwrap_or_default()
    }
}

pub(crate) async fn show(context: &Context, args: &WorktreeShowArgs) -> CommandResult {
    let worktrees = context.copies();
    let target = Target::find(context, worktrees.as_ref(), &args.of).await?;
    let results = target.results();
    let rescued = target.rescued(worktrees.as_ref());
    let made = |tips: &[Tip]| Made::of_tips(target.repositories(), tips, Some(worktrees.as_ref()));
    if args.output.output != Form::Table {
        let result = |(step, tip): &(&Step, &Tip)| json!({ "step": step.path, "made": made(std::slice::from_ref(*tip)).document() });
        let document = json!({
            "schema": "orc/worktree/1",
            "flow": target.id,
            "worktrees": target.copies.iter().map(copy_document).collect::<Vec<_>>(),
            "results": results.iter().map(result).collect::<Vec<_>>(),
            "rescued": references_document(&rescued),
        });
        output::document(args.output.output, &document, Some("results"))?;
        return Ok(Exit::Success);
    }
    let mut text = String::new();
    for copy in &target.copies {
        copy_text(context, &target, copy, &mut text);
    }
    let tips: Vec<Tip> = results.into_iter().map(|(_, tip)| tip.clone()).collect();
    text.push_str(&made(&tips).whole_text());
    if !rescued.is_empty() {
        text.push_str("rescued: in a copy, and in no result\n");
        text.extend(commands_of(&target, &rescued).iter().map(|command| format!("    {command}\n")));
    }
    if text.is_empty() {
        say("no private copy is left of it, it changed nothing, and nothing was rescued");
        return Ok(Exit::Success);
    }
    output::text(&text)?;
    Ok(Exit::Success)
}

fn copy_text(context: &Context, target: &Target, copy: &CopyEntry, text: &mut String) {
    let Conversation { flow, path } = &copy.conversation;
    text.push_str(&format!("{path}: a copy, {}, made {}\n", copy.state.word(), ago(copy.since, context.now())));
    let mut about = Columns::new();
    if let Some(run) = copy.run {
        about.row([if copy.state == CopyState::Leased { "run" } else { "last run" }, &run.to_string()]);
    }
    about.row(["kept as", &format!("{}, {} of its own", copy.strategy, bytes(copy.bytes))]);
    for (repository, commit) in &copy.start.0 {
        about.row(["from", &format!("{repository} at {}", commit.short())]);
    }
    for held in &copy.references {
        about.row(["held by", &format!("{} in {}", held.name, held.store.display())]);
    }
    for note in &copy.notes {
        about.row(["note", &clean(note)]);
    }
    text.push_str(&about.text("  "));
    text.extend(commands_of(target, &copy.references).iter().map(|command| format!("    {command}\n")));
    match copy.state {
        CopyState::Unsaved => text.push_str(&format!("  try: orchestrator worktrees rescue {flow} --step '{path}'\n")),
        CopyState::Saved => text.push_str(&format!("  try: orchestrator worktrees diff {flow} --step '{path}'\n")),
        CopyState::Leased => {}
    }
}

/// How to take references over; without the flow it is not known which repository they came from.
fn commands_of(target: &Target, references: &[SavedRef]) -> Vec<String> {
    let of = |held: &SavedRef| match target.repositories().iter().find(|one| one.path == held.repository) {
        Some(repository) => take_over(repository, &held.store, &held.name),
        None => vec![format!("git fetch {} {}", quoted(&held.store.display().to_string()), quoted(&held.name))],
    };
    references.iter().flat_map(of).collect()
}

fn copy_document(copy: &CopyEntry) -> Value {
    json!({
        "flow": copy.conversation.flow,
        "step": copy.conversation.path,
        "state": copy.state.word(),
        "run": copy.run,
        "since": copy.since.to_string(),
        "start": copy.start,
        "strategy": copy.strategy,
        "bytes": copy.bytes,
        "references": references_document(&copy.references),
        "notes": copy.notes,
    })
}

fn references_document(references: &[SavedRef]) -> Vec<Value> {
    let document =
        |held: &SavedRef| json!({ "repository": held.repository, "store": held.store, "reference": held.name });
    references.iter().map(document).collect()
}

pub(crate) async fn diff(context: &Context, args: &WorktreeArgs) -> CommandResult {
    let worktrees = context.copies();
    let target = Target::find(context, worktrees.as_ref(), args).await?;
    let conversation = target.conversation()?;
    if let Some(copy) = target.copies.iter().find(|copy| copy.conversation == conversation) {
        refuse_leased(copy)?;
    }
    let patch = match worktrees.diff(conversation.clone(), PATCH_BYTES).await {
        Ok(patch) => patch,
        Err(error) if target.copies.iter().any(|copy| copy.conversation == conversation) => {
            return Err(of_worktrees(error));
        }
        Err(_) => return Err(without_copy(&target, worktrees.as_ref(), &conversation)),
    };
    if patch.is_empty() {
        say("it changed nothing");
    } else if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        // What an agent wrote must not steer a terminal; a pipe gets it as it is.
        output::text(&patch.split_inclusive('\n').map(clean_kept).collect::<String>())?;
    } else {
        output::text(&patch)?;
    }
    if patch.len() as u64 >= PATCH_BYTES {
        say(&format!("the patch is longer than {} and was cut: it cannot be applied", bytes(PATCH_BYTES)));
    }
    Ok(Exit::Success)
}

fn clean_kept(line: &str) -> String {
    match line.strip_suffix('\n') {
        Some(line) => format!("{}\n", clean(line)),
        None => clean(line),
    }
}

/// The copy of a step is gone: where its commits are, and how git shows what they change.
fn without_copy(target: &Target, worktrees: &dyn Worktrees, of: &Conversation) -> Failure {
    let failure = not_found(format!("the copy of `{}` is gone", of.path));
    let result = target.results().into_iter().find(|(step, _)| step.path == of.path);
    let Some((_, tip)) = result else {
        return failure.hint("it changed nothing that was kept");
    };
    let held = worktrees.saved(target.repositories(), std::slice::from_ref(tip));
    let show = held.iter().filter_map(|held| {
        let base = &target.repositories().iter().find(|one| one.path == held.repository)?.commit;
        let store = quoted(&held.store.display().to_string());
        Some(format!("git --git-dir={store} diff {base} {}", quoted(&held.name)))
    });
    let show: Vec<String> = show.collect();
    if show.is_empty() {
        failure
    } else {
        failure.hint(format!("against what its flow began with: {}", show.join("; ")))
    }
}

/// A copy that a run has belongs to that run.
fn refuse_leased(copy: &CopyEntry) -> CommandResult<()> {
    if copy.state != CopyState::Leased {
        return Ok(());
    }
    let path = &copy.conversation.path;
    let (who, hint) = match copy.run {
        Some(run) => (run.to_string(), format!("wait for its end: `orchestrator status {run} --watch`")),
        None => ("a run".to_owned(), format!("wait for its end: `orchestrator status {}`", copy.conversation.flow)),
    };
    Err(Failure::new(Exit::Refused, format!("{who} works in the copy of `{path}`")).hint(hint))
}

pub(crate) async fn rescue(context: &Context, args: &WorktreeShowArgs) -> CommandResult {
    let worktrees = context.copies();
    let target = Target::find(context, worktrees.as_ref(), &args.of).await?;
    if target.copies.is_empty() {
        let id = target.id;
        return Err(not_found("no private copy is left of it, so that there is nothing to rescue")
            .hint(format!("`orchestrator worktrees show {id}` has what was saved")));
    }
    if let [copy] = target.copies.as_slice() {
        refuse_leased(copy)?;
    }
    let _lock = lock(context, "worktrees rescue")?;
    let (mut rescued, mut leased) = (Vec::new(), Vec::new());
    for copy in &target.copies {
        if copy.state == CopyState::Leased {
            leased.push(copy);
            continue;
        }
        let mut references = worktrees.rescue(copy.conversation.clone()).await.map_err(of_worktrees)?;
        if references.is_empty() {
            // All of it was held before.
            references.clone_from(&copy.references);
        }
        rescued.push((&copy.conversation, references));
    }
    if args.output.output == Form::Table {
        let mut text = String::new();
        for (conversation, references) in &rescued {
            text.push_str(&format!("{}\n", conversation.path));
            text.extend(references.iter().map(|held| format!("  {} in {}\n", held.name, held.store.display())));
            text.extend(commands_of(&target, references).iter().map(|command| format!("    {command}\n")));
        }
        output::text(&text)?;
    } else {
        let rescued = rescued.iter().map(|(conversation, references)| {
            json!({ "step": conversation.path, "references": references_document(references) })
        });
        let document = json!({ "schema": "orc/rescue/1", "flow": target.id, "rescued": rescued.collect::<Vec<_>>() });
        output::document(args.output.output, &document, Some("rescued"))?;
    }
    match leased.first() {
        Some(copy) => refuse_leased(copy).map(|()| Exit::Success),
        None => Ok(Exit::Success),
    }
}

/// Copies that cannot be looked at or written.
pub(super) fn of_worktrees(error: WorktreeError) -> Failure {
    let hint = match &error {
        WorktreeError::Box { .. } => "`orchestrator doctor` says what boxes need",
        WorktreeError::NoCopy { .. } => "`orchestrator worktrees list` shows the copies there are",
        WorktreeError::File { .. } => "`orchestrator doctor` checks the data directory",
        _ => "`orchestrator worktrees list` shows how the copies stand, `orchestrator doctor` checks git",
    };
    unavailable("the private copies cannot be used").because(error).hint(hint)
}
