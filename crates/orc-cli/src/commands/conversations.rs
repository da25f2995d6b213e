//! `conversations`: what was said to agents and by them. A conversation is a step of an agent with all its runs; its lines are
//! the events of the flow and, of the built-in agent, its record, so that nothing is shown here that was not recorded.

mod heard;

use std::collections::BTreeMap;

use orc_domain::event::{Event, Fact};
use orc_domain::ids::{FlowId, RunId};
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::run::RunOutcome;
use orc_domain::time::Timestamp;
use orc_ports::reader::{Reader as _, RunRecord};
use orc_store_sqlite::SqliteReader;
use serde_json::{Value, json};

use self::heard::Moment;
use super::explain::parse_step;
use crate::args::{ConversationArgs, ConversationsListArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, not_found};
use crate::hold::of_store;
use crate::look::evidence;
use crate::output::{self, Form, say};
use crate::view::agent::{liveness_of, usage_document, usage_words};
use crate::view::columns::{Columns, clean, clean_line};
use crate::view::flow::ago;
use crate::view::run;

/// Runs and events that are read at once.
const PAGE: u32 = 500;
/// Runs that are looked through for conversations.
const MOST_RUNS: usize = 5_000;
/// Characters of the last words in a table.
const WORDS: usize = 60;

/// A conversation as its runs tell it.
struct Conversation {
    last: RunRecord,
    runs: usize,
}

pub(crate) async fn list(context: &Context, args: &ConversationsListArgs) -> CommandResult {
    let reader = context.reader().await?;
    let flow = match &args.flow {
        Some(id) => Some(context.flow_of(&reader, id).await?),
        None => None,
    };
    let conversations = conversations(&reader, flow, args.limit as usize).await?;
    let now = context.now();
    if args.output.output != Form::Table {
        let rows: Vec<Value> = conversations.iter().map(|talk| line_document(talk, context)).collect();
        let document = json!({ "schema": "orc/conversations/1", "conversations": rows });
        output::document(args.output.output, &document, Some("conversations"))?;
        return Ok(Exit::Success);
    }
    if conversations.is_empty() {
        say("no agent was asked anything yet");
        return Ok(Exit::Success);
    }
    let mut table = Columns::titled(&["FLOW", "STEP", "AGENT", "RUNS", "LAST RUN", "LAST", "LAST WORDS"]);
    for Conversation { last, runs } in &conversations {
        let Some(agent) = &last.run.agent else { continue };
        let liveness = liveness_of(&last.run, Some(&evidence(context, &last.run)), now);
        table.row([
            last.run.flow.to_string().as_str(),
            last.run.path.as_str(),
            &agent.agent,
            &runs.to_string(),
            liveness.map_or_else(|| run::word(&last.run.state), |liveness| liveness.word()),
            &ago(last.run.created_at, now),
            &agent.answer.as_deref().map_or_else(|| "-".to_owned(), |answer| clean_line(answer, WORDS)),
        ]);
    }
    output::text(&table.text(""))?;
    Ok(Exit::Success)
}

/// Conversations by their newest run.
async fn conversations(reader: &SqliteReader, flow: Option<FlowId>, most: usize) -> CommandResult<Vec<Conversation>> {
    let (mut found, mut places) = (Vec::<Conversation>::new(), BTreeMap::new());
    let (mut before, mut looked) = (None, 0);
    while looked < MOST_RUNS {
        let page = reader.runs(flow, before, PAGE).await.map_err(of_store)?;
        let Some(oldest) = page.last() else { break };
        before = Some(oldest.run.id);
        looked += page.len();
        for record in page.into_iter().filter(|record| record.run.agent.is_some()) {
            let key = (record.run.flow, record.run.path.clone());
            match places.get(&key) {
                Some(place) => {
                    let known: &mut Conversation = &mut found[*place];
                    known.runs += 1;
                    if record.run.attempt > known.last.run.attempt {
                        known.last = record;
                    }
                }
                // One that is not listed any more has no later run: runs come newest first.
                None if found.len() >= most => {}
                None => {
                    places.insert(key, found.len());
                    found.push(Conversation { last: record, runs: 1 });
                }
            }
        }
    }
    Ok(found)
}

fn line_document(talk: &Conversation, context: &Context) -> Value {
    let Conversation { last, runs } = talk;
    let agent = last.run.agent.as_ref();
    let liveness = liveness_of(&last.run, Some(&evidence(context, &last.run)), context.now());
    json!({
        "flow": last.run.flow,
        "step": last.run.path,
        "agent": agent.map(|agent| &agent.agent),
        "runs": runs,
        "last_run": last.run.id,
        "state": run::word(&last.run.state),
        "liveness": liveness.map(|liveness| liveness.word()),
        "since": last.run.created_at.to_string(),
        "answer": agent.and_then(|agent| agent.answer.as_ref()),
    })
}

pub(crate) async fn show(context: &Context, args: &ConversationArgs) -> CommandResult {
    let reader = context.reader().await?;
    let (id, of_run) = context.step_of(&reader, &args.id).await?;
    let flow = reader.flow(id).await.map_err(of_store)?.ok_or_else(|| not_found(format!("there is no flow {id}")))?;
    let step = match &args.step {
        Some(step) => Some(parse_step(&flow, step)?),
        None => of_run,
    };
    let talks = spoken(&reader, id, step.as_ref()).await?;
    let form = args.output.output;
    let heard = |path: &StepPath| heard::moments(&context.data.conversation(id, path));
    if form != Form::Table {
        let talks: Vec<Value> = talks.iter().map(|(path, events)| document(path, events, heard(path))).collect();
        let document = json!({ "schema": "orc/conversation/1", "flow": id, "conversations": talks });
        output::document(form, &document, Some("conversations"))?;
        return Ok(Exit::Success);
    }
    if talks.is_empty() {
        say("nobody said anything there");
    }
    for (path, events) in &talks {
        let title = if talks.len() > 1 { format!("== {path}\n") } else { String::new() };
        output::text(&(title + &text(events, heard(path))))?;
    }
    Ok(Exit::Success)
}

/// What was said in a flow, by conversation, those first that began first.
async fn spoken(
    reader: &SqliteReader,
    flow: FlowId,
    step: Option<&StepPath>,
) -> CommandResult<Vec<(StepPath, Vec<Event>)>> {
    let (mut talks, mut after) = (Vec::<(StepPath, Vec<Event>)>::new(), 0);
    loop {
        let events = reader.events(Some(flow), after, PAGE).await.map_err(of_store)?;
        let Some(last) = events.last() else { return Ok(talks) };
        after = last.position;
        for event in events {
            let path = match &event.body.fact {
                Fact::AgentRunStarted { path, .. }
                | Fact::AgentRunCompleted { path, .. }
                | Fact::MessageReceived { path, .. } => path.clone(),
                _ => continue,
            };
            if step.is_some_and(|step| *step != path) {
                continue;
            }
            match talks.iter_mut().find(|(known, _)| *known == path) {
                Some((_, events)) => events.push(event),
                None => talks.push((path, vec![event])),
            }
        }
    }
}

/// Both in the order of time.
fn text(events: &[Event], heard: Vec<Moment>) -> String {
    // What it said stands in its record.
    let is_told =
        |fact: &Fact| heard.is_empty() || !matches!(fact, Fact::MessageReceived { from: Principal::Agent(_), .. });
    let told = events.iter().filter(|event| is_told(&event.body.fact));
    let mut lines: Vec<(Timestamp, String)> =
        told.map(|event| (event.body.at, line(event.body.at, &event.body.fact))).collect();
    lines.extend(heard.iter().map(|moment| (moment.at, format!("{}  {}\n", moment.at, below(&moment.words)))));
    lines.sort_by_key(|(at, _)| *at);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// A text of several lines, those behind the first one further in.
fn below(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n    ")
}

fn line(at: Timestamp, fact: &Fact) -> String {
    match fact {
        Fact::AgentRunStarted { run, attempt, agent, wake, .. } => {
            format!("{at}  -- {agent} begins, attempt {attempt} ({run}), woken by {}\n", wake.word())
        }
        Fact::AgentRunCompleted { agent, outcome, usage, .. } => {
            let used = usage_words(usage).map_or_else(String::new, |used| format!("; used {used}"));
            format!("{at}  -- {agent} ends: {}{used}\n", ending(outcome))
        }
        Fact::MessageReceived { from, text, .. } => {
            format!("{at}  {from}: {}\n", below(text))
        }
        _ => String::new(),
    }
}

fn ending(outcome: &RunOutcome) -> String {
    match run::why(outcome) {
        Some(why) => format!("{}: {}", run::outcome_word(outcome), clean_line(&why, 4 * WORDS)),
        None => run::outcome_word(outcome).to_owned(),
    }
}

fn document(path: &StepPath, events: &[Event], heard: Vec<Moment>) -> Value {
    let told = events.iter().filter_map(|event| Some((event.body.at, entry(event.body.at, &event.body.fact)?)));
    let mut entries: Vec<(Timestamp, Value)> = told.collect();
    entries.extend(heard.into_iter().map(|moment| (moment.at, moment.document)));
    entries.sort_by_key(|(at, _)| *at);
    let entries: Vec<Value> = entries.into_iter().map(|(_, entry)| entry).collect();
    json!({ "step": path, "entries": entries })
}

fn entry(at: Timestamp, fact: &Fact) -> Option<Value> {
    let begun = |run: &RunId, attempt: u32| json!({ "at": at.to_string(), "run": run, "attempt": attempt });
    match fact {
        Fact::AgentRunStarted { run, attempt, agent, wake, .. } => {
            let mut entry = begun(run, *attempt);
            entry["kind"] = json!("run_started");
            entry["agent"] = json!(agent);
            entry["wake_reason"] = json!(wake.word());
            Some(entry)
        }
        Fact::AgentRunCompleted { run, attempt, agent, outcome, usage, .. } => {
            let mut entry = begun(run, *attempt);
            entry["kind"] = json!("run_completed");
            entry["agent"] = json!(agent);
            entry["outcome"] = json!(run::outcome_word(outcome));
            entry["reason"] = json!(run::why(outcome));
            entry["usage"] = usage_document(usage);
            Some(entry)
        }
        Fact::MessageReceived { message, from, text, .. } => Some(json!({
            "at": at.to_string(), "kind": "message", "id": message, "from": from.to_string(), "text": text,
        })),
        _ => None,
    }
}
