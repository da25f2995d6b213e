//! Following a flow to its end, the same for `run`, `retry` and `resume`: show it, turn Ctrl-C into cancel, print the
//! result, and give the exit code.

use std::io::IsTerminal as _;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use orc_domain::event::{Event, Fact};
use orc_domain::flow::{FlowOutcome, FlowSpec, FlowState, Origin};
use orc_domain::ids::FlowId;
use orc_domain::meter::Owner;
use orc_domain::permission::Scope;
use orc_domain::principal::Principal;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::ledger::CostReader as _;
use orc_ports::reader::Reader;
use orc_runtime::{Definitions, Recovered, Reply, Seen, Shape, Trouble};
use orc_store_sqlite::SqliteReader;

use super::logs::Transcript;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, unavailable};
use crate::feed::{Change, Feed, Line};
use crate::hold::{self, Access, Held};
use crate::host;
use crate::output::{self, Form, say};
use crate::signals::Signals;
use crate::typed::{self, Typed};
use crate::view::columns::clean_line;
use crate::view::live::Live;
use crate::view::made::Made;
use crate::view::plain::Plain;
use crate::view::progress::Progress;
use crate::view::{Silent, View, result};

/// How often ages are drawn anew.
const TICK: Millis = Millis::from_millis(200);

/// What to carry on.
pub(crate) enum Work {
    /// A flow that does not exist yet.
    New { spec: Box<FlowSpec>, definitions: Box<Definitions> },
    /// An unfinished one.
    Unfinished(FlowId),
    /// One of all that are unfinished, which are carried on together.
    OneOfAll(FlowId),
    /// An unfinished one, of which somebody wants something first.
    Changed(Principal, Change),
}

impl Work {
    const fn flow(&self) -> FlowId {
        match self {
            Self::New { spec, .. } => spec.id,
            Self::Unfinished(flow) | Self::OneOfAll(flow) => *flow,
            Self::Changed(_, change) => change.flow(),
        }
    }
}

/// How a flow is shown while it runs and when it is over.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// The form of its result.
    pub(crate) form: Form,
    /// While it runs, all that its runs print is shown too. Without use in forms for programs.
    pub(crate) logs: bool,
}

impl From<Form> for Manner {
    fn from(form: Form) -> Self {
        Self { form, logs: false }
    }
}

/// What is heard of whoever started us.
struct Ears {
    signals: Signals,
    typed: Typed,
}

impl Ears {
    fn new() -> CommandResult<Self> {
        Ok(Self { signals: Signals::new()?, typed: Typed::default() })
    }
}

/// A flow that was followed to its end.
struct Followed {
    outcome: FlowOutcome,
    interrupted: bool,
}

/// Carries work on to its end, here or at the holder of the data directory, and prints the result of each flow.
pub(crate) async fn carry(context: &Context, shape: Shape, work: Vec<Work>, manner: Manner) -> CommandResult {
    loop {
        match hold::open(context, shape.clone()).await? {
            Access::Ours(held) => {
                tell_recovered(&held.recovered);
                return carry_here(context, *held, &work, manner).await;
            }
            Access::Theirs(who) => {
                let who = hold::describe(who.as_ref(), context);
                say(&format!("{} is held by {who}; it carries this on", context.data.root().display()));
                let line = Line::Holder(context.data.socket());
                let mut ears = Ears::new()?;
                if hand_over(&line, &work).await? {
                    return follow_all(context, &line, &work, manner, &mut ears).await;
                }
                say("that process has just ended");
            }
        }
    }
}

/// Cancels an unfinished flow that nobody carries on, and carries it to its end.
pub(crate) async fn carry_cancelled(
    context: &Context,
    shape: Shape,
    work: Work,
    force: bool,
    manner: Manner,
) -> CommandResult {
    let flow = work.flow();
    match hold::open(context, shape).await? {
        Access::Ours(held) => {
            tell_recovered(&held.recovered);
            let line = Line::Own(held.dispatcher.clone());
            let (changed, state) = line.cancel(flow, context.user(), force).await?;
            if !changed && let FlowState::Finished { outcome, .. } = state {
                held.close().await?;
                let what = format!("{flow} is over already: {}", outcome.word());
                return Err(Failure::new(Exit::Refused, what));
            }
            let exit = carry_here(context, *held, &[work], manner).await;
            // That it ended cancelled is what was asked for.
            exit.map(|exit| if exit == Exit::Interrupted { Exit::Success } else { exit })
        }
        // Somebody took the directory since we looked.
        Access::Theirs(_) => {
            Line::Holder(context.data.socket()).cancel(flow, context.user(), force).await?;
            Ok(Exit::Success)
        }
    }
}

/// Carries work on to its end as the holder of the data directory.
pub(crate) async fn carry_here(context: &Context, held: Held, work: &[Work], manner: Manner) -> CommandResult {
    let line = Line::Own(held.dispatcher.clone());
    let followed = async {
        let mut ears = Ears::new()?;
        hand_over(&line, work).await?;
        follow_all(context, &line, work, manner, &mut ears).await
    };
    match followed.await {
        Ok(exit) => wait_for_others(held, exit).await,
        Err(failure) => {
            held.close().await?;
            Err(failure)
        }
    }
}

/// False when the holder ended before it had everything. What it had is not started again by whoever gets it next.
async fn hand_over(line: &Line, work: &[Work]) -> CommandResult<bool> {
    for item in work {
        let has_it = match item {
            Work::New { spec, definitions } => line.submit(spec, definitions).await?,
            Work::Unfinished(flow) => line.resume(*flow).await?,
            Work::OneOfAll(_) => true,
            Work::Changed(by, change) => {
                line.send(by.clone(), change.clone()).await?.is_some() && line.resume(change.flow()).await?
            }
        };
        if !has_it {
            return Ok(false);
        }
    }
    let all = work.iter().filter(|item| matches!(item, Work::OneOfAll(_))).map(Work::flow).collect::<Vec<_>>();
    if all.is_empty() { Ok(true) } else { line.resume_all(&all).await }
}

async fn follow_all(context: &Context, line: &Line, work: &[Work], manner: Manner, ears: &mut Ears) -> CommandResult {
    let reader = SqliteReader::open(&context.data.database()).await.map_err(hold::of_store)?;
    let mut exit = Exit::Success;
    for flow in work.iter().map(Work::flow) {
        let (view, progress) = view_of(context, &reader, flow, manner).await?;
        let followed = follow(context, line, flow, Shown { view, progress }, ears).await?;
        print_result(context, &reader, (flow, &followed.1), manner.form).await?;
        exit = worse(exit, exit_of(&followed.0));
    }
    Ok(exit)
}

/// A view and what it knows.
struct Shown {
    view: Box<dyn View>,
    progress: Progress,
}

async fn view_of(
    context: &Context,
    reader: &dyn Reader,
    flow: FlowId,
    manner: Manner,
) -> CommandResult<(Box<dyn View>, Progress)> {
    let known = reader.flow(flow).await.map_err(hold::of_store)?;
    let steps = known.as_ref().map(|flow| flow.steps.as_slice()).unwrap_or_default();
    let keys = steps.iter().filter(|step| step.origin == Origin::Root).map(|step| step.path.as_str());
    let progress = Progress::of_steps(keys);
    let name = known.as_ref().map_or_else(String::new, |flow| flow.spec.name.clone());
    let terminal = std::io::stderr().is_terminal();
    let view: Box<dyn View> = match manner.form {
        Form::Table if manner.logs => {
            Box::new(Transcript::new(context.data.clone(), name, progress.clone(), host::colour(terminal)))
        }
        Form::Table if terminal => Box::new(Live::new(progress.clone(), name, host::colour(true))),
        Form::Table => Box::new(Plain::new(progress.clone())),
        Form::Jsonl => Box::new(Events),
        Form::Json | Form::Yaml => Box::new(Silent),
    };
    Ok((view, progress))
}

/// Follows one flow until it is over. The first signal cancels it, the second ends it at once, the third ends us.
async fn follow(
    context: &Context,
    line: &Line,
    flow: FlowId,
    shown: Shown,
    ears: &mut Ears,
) -> CommandResult<(Followed, Progress)> {
    let Shown { mut view, mut progress } = shown;
    let mut feed: Feed = line.follow(flow, 0).await;
    let (mut asked, mut asking, mut replying) = (0_u32, FuturesUnordered::new(), FuturesUnordered::new());
    let (mut position, is_interactive) = (0, view.takes_answers());
    loop {
        let seen = tokio::select! {
            seen = feed.next(TICK) => seen,
            name = ears.signals.next() => {
                asked += 1;
                if asked > 2 {
                    view.end();
                    return Err(left(flow, name));
                }
                view.note(stopping(asked));
                asking.push(line.cancel(flow, context.user(), asked > 1));
                continue;
            }
            typed = ears.typed.next() => {
                view.typed();
                replying.extend(reply_of(flow, &progress, &typed, view.as_mut()).map(|reply| {
                    line.send(context.user(), Change::Answer(reply))
                }));
                continue;
            }
            // Not waited for above: with a full disk, or a holder that was stopped, it takes long, and signals are heard.
            Some(answer) = asking.next() => {
                answer.inspect_err(|_| view.end())?;
                continue;
            }
            Some(answer) = replying.next() => {
                tell_reply(&answer, view.as_mut());
                continue;
            }
        };
        let seen = match seen {
            Ok(seen) => seen,
            Err(failure) => {
                last_of(context, flow, &progress, position).await?.ok_or(failure).inspect_err(|_| view.end())?
            }
        };
        match seen {
            Seen::Events(events) => {
                for event in &events {
                    position = event.position;
                    progress.apply(event);
                }
                view.events(&events, context.now());
                if is_interactive && !progress.asked.is_empty() {
                    ears.typed.begin();
                }
            }
            Seen::Trouble(trouble) => tell_trouble(trouble, view.as_mut())?,
            Seen::Quiet => view.tick(context.now()),
            Seen::End => break,
        }
    }
    view.end();
    let outcome = progress.ended.map(|(_, outcome)| outcome).ok_or_else(|| {
        unavailable(format!("{flow} is not over, but the process that carried it on has ended"))
            .hint("`orchestrator flows resume --all` carries it on")
    })?;
    Ok((Followed { outcome, interrupted: asked > 0 }, progress))
}

const fn stopping(asked: u32) -> &'static str {
    if asked == 1 {
        "stopping: TERM, grace, KILL, then `finally`; again ends everything at once"
    } else {
        "ending everything at once"
    }
}

/// What keeps the loop from going on; an error when it never will.
fn tell_trouble(trouble: Option<Trouble>, view: &mut dyn View) -> CommandResult<()> {
    match trouble {
        Some(trouble) if trouble.is_final => {
            view.end();
            return Err(unavailable(format!("cannot go on: {}", trouble.what)).hint(hold::PUT_BACKUP));
        }
        Some(trouble) => view.note(&format!("cannot go on for now: {}; trying again", trouble.what)),
        None => view.note("going on again"),
    }
    Ok(())
}

fn left(flow: FlowId, signal: &str) -> Failure {
    let hint = format!("`orchestrator flows resume {flow}` carries it on");
    Failure::new(Exit::Interrupted, format!("{signal} a third time: left {flow} as it is")).hint(hint)
}

/// The answer that a line means to what was asked first.
fn reply_of(flow: FlowId, progress: &Progress, line: &str, view: &mut dyn View) -> Option<Reply> {
    let asked = progress.asked.first()?;
    let reply = typed::reply(asked.is_question, line);
    if reply.is_none() && !line.trim().is_empty() {
        view.note(&format!("`{}` is no answer: y or n, and why", clean_line(line, 40)));
    }
    let (answer, reason) = reply?;
    Some(Reply { flow, request: asked.request, answer, scope: Scope::Call, subject: None, reason })
}

/// That it was heard, the events say.
fn tell_reply(answer: &CommandResult<Option<(bool, FlowState)>>, view: &mut dyn View) {
    match answer {
        Ok(Some((true, _)) | None) => {}
        Ok(Some((false, _))) => view.note("that was answered in the meantime"),
        Err(failure) => view.note(&failure.to_string()),
    }
}

/// What the holder did not tell any more: it goes when nothing is live, and a flow that has ended is not. `None` when the
/// flow is not over.
async fn last_of(context: &Context, flow: FlowId, known: &Progress, position: u64) -> CommandResult<Option<Seen>> {
    if known.ended.is_some() {
        return Ok(Some(Seen::End));
    }
    let reader = SqliteReader::open(&context.data.database()).await.map_err(hold::of_store)?;
    let events = reader.events(Some(flow), position, u32::MAX).await.map_err(hold::of_store)?;
    let is_over = events.iter().any(|event| matches!(event.body.fact, Fact::FlowFinished { .. }));
    Ok(is_over.then_some(Seen::Events(events)))
}

async fn print_result(
    context: &Context,
    reader: &SqliteReader,
    (flow, progress): (FlowId, &Progress),
    form: Form,
) -> CommandResult<()> {
    if form == Form::Jsonl {
        // Every event was printed as it came.
        return Ok(());
    }
    let stored = reader.flow(flow).await.map_err(hold::of_store)?;
    let pipeline = match &stored {
        Some(flow) => reader.pipeline(flow.spec.pipeline.clone()).await.map_err(hold::of_store)?,
        None => None,
    };
    let known = stored.as_ref().zip(pipeline.as_ref().map(|(pipeline, _)| pipeline));
    let made = match &stored {
        Some(flow) => Made::of_flow(context, flow),
        None => Made::default(),
    };
    match (form, known) {
        (Form::Table, _) => {
            let spent = reader.spent(Owner::Flow(flow)).await.map_err(hold::of_store)?;
            output::text(&result::text(flow, progress, known, &made, &spent))
        }
        (_, Some((flow, pipeline))) => output::document(form, &result::document(flow, pipeline, &made), None),
        (_, None) => Ok(()),
    }
}

fn exit_of(followed: &Followed) -> Exit {
    match followed.outcome {
        FlowOutcome::Succeeded => Exit::Success,
        FlowOutcome::Cancelled => Exit::Interrupted,
        FlowOutcome::Failed if followed.interrupted => Exit::Interrupted,
        FlowOutcome::Failed => Exit::FlowFailed,
        FlowOutcome::BudgetExhausted => Exit::Budget,
    }
}

fn worse(one: Exit, two: Exit) -> Exit {
    if two == Exit::Success { one } else { two }
}

/// The holder goes only when nothing that it carries on is live.
async fn wait_for_others(held: Held, exit: Exit) -> CommandResult {
    while !held.dispatcher.leave().await {
        let others = held.dispatcher.live();
        say(&format!("{others} more flow(s) of others are carried on here; Ctrl-C leaves them for `flows resume`"));
        let mut signals = Signals::new()?;
        tokio::select! {
            () = held.dispatcher.idle() => {}
            name = signals.next() => {
                say(&format!("{name}: left {others} flow(s) as they are"));
                break;
            }
        }
    }
    held.close().await?;
    Ok(exit)
}

/// Says what a dead instance left.
pub(crate) fn tell_recovered(recovered: &Recovered) {
    for dead in &recovered.dead {
        say(&format!("an earlier process {} (`{}`) ended without an end of its own", dead.pid, dead.command));
    }
    let killed: usize = recovered.reaped.iter().map(|reaped| reaped.pids.len()).sum();
    if killed > 0 {
        say(&format!("  {killed} process(es) that it had started were still there and were killed"));
    }
    if !recovered.lost.is_empty() {
        say(&format!("{} run(s) of an earlier process were lost", recovered.lost.len()));
    }
}

/// Prints events as JSON lines on standard output.
struct Events;

impl View for Events {
    fn events(&mut self, events: &[Event], _: Timestamp) {
        for event in events {
            if let Ok(line) = serde_json::to_string(event) {
                // A reader that went away does not stop the flow.
                let _ = output::text_line(&line);
            }
        }
    }

    fn note(&mut self, text: &str) {
        say(text);
    }

    fn tick(&mut self, _: Timestamp) {}

    fn end(&mut self) {}
}
