//! Agents that an agent starts: each under its own profile, in the same place, on the account of the same run.
//!
//! Nothing is inherited but the place: tools, model and words are those of its own profile. How deep, how many at once and
//! how many in all is bounded for the whole tree of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use orc_domain::agent::AgentStop;
use orc_domain::profile::{self, MAX_WORKER_DEPTH, MAX_WORKER_SPAWNS, MAX_WORKER_WIDTH, Profile};
use orc_ports::adapter::AgentStart;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::{Shared, record_of_call, settings_of};
use crate::ask::Asker;
use crate::brain::{Brain, Heard};
use crate::context::{self, Facts};
use crate::drive::{Driver, Ended, Order, Say, Spawn, Spawned, Spawns};
use crate::gate::{Answers, Gate, Grounds, Over};
use crate::place::Place;
use crate::record::{Entry, Record};
use crate::talk::ToolCall;

/// What the agents of a run share.
struct Tree {
    shared: Arc<Shared>,
    /// The run's own agent, whose ids all of them have.
    start: AgentStart,
    workers: Vec<Profile>,
    facts: Facts,
    place: Arc<dyn Place>,
    width: Arc<Semaphore>,
    left: AtomicU32,
    grounds: Grounds,
    answers: Answers,
}

/// What agents of agents are judged by beside their own profiles.
pub(super) struct Below {
    /// Everybody above them, and what holds for all.
    pub(super) over: Over,
    /// Where they work.
    pub(super) grounds: Grounds,
    /// What was answered.
    pub(super) answers: Answers,
}

/// One level of the tree.
#[derive(Clone)]
pub(super) struct Family {
    tree: Arc<Tree>,
    say: Say,
    record: PathBuf,
    depth: u32,
    over: Over,
    /// The turn that the agent of this level has itself. It lends it to those that it starts and waits for: if all turns
    /// were had by agents that wait, nobody would ever work.
    own: Arc<Semaphore>,
}

impl Family {
    pub(super) fn new(
        shared: &Arc<Shared>,
        start: &AgentStart,
        workers: Vec<Profile>,
        (facts, place, say): (Facts, Arc<dyn Place>, Say),
        (record, below): (&Path, Below),
    ) -> Self {
        let tree = Tree {
            shared: Arc::clone(shared),
            start: start.clone(),
            workers,
            facts,
            place,
            width: Arc::new(Semaphore::new(MAX_WORKER_WIDTH as usize)),
            left: AtomicU32::new(MAX_WORKER_SPAWNS),
            grounds: below.grounds,
            answers: below.answers,
        };
        // The run's own agent has no turn, and needs none.
        let own = Arc::new(Semaphore::new(0));
        Self { tree: Arc::new(tree), say, record: record.to_owned(), depth: 0, over: below.over, own }
    }

    async fn run(self, wanted: Spawn, cancel: CancellationToken) -> Spawned {
        let not_done = |text: String| Spawned::Ended { text, failed: true };
        if self.depth >= MAX_WORKER_DEPTH {
            return not_done(format!(
                "Not done: agents may start agents {MAX_WORKER_DEPTH} levels deep, and this one is at the last. Do it yourself."
            ));
        }
        let left = self.tree.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_err() {
            return not_done(format!(
                "Not done: {MAX_WORKER_SPAWNS} agents were started in this run, which is all there may be. Do it yourself."
            ));
        }
        // It waits for its turn: others of this tree are at work.
        let permit = tokio::select! {
            biased;
            permit = Arc::clone(&self.own).acquire_owned() => permit,
            permit = Arc::clone(&self.tree.width).acquire_owned() => permit,
            () = cancel.cancelled() => return not_done("Not done: the run was asked to end before this began.".to_owned()),
        };
        let told = match self.prepare(&wanted) {
            Ok((driver, first)) => told(drive(driver, first, cancel).await),
            Err(why) => not_done(format!("The agent `{}` could not be started: {why}", wanted.agent)),
        };
        drop(permit);
        told
    }

    fn prepare(&self, wanted: &Spawn) -> Result<(Driver, Vec<Heard>), String> {
        let (tree, Spawn { call, agent, prompt, answer }) = (&self.tree, wanted);
        let Some(profile) = tree.workers.iter().find(|worker| worker.name == *agent) else {
            let names: Vec<&str> = tree.workers.iter().map(|worker| worker.name.as_str()).collect();
            return Err(format!("there is none of this name; there are: {}", names.join(", ")));
        };
        let profile::Adapter::BuiltIn(built_in) = &profile.adapter else {
            return Err("only agents of the built-in adapter can be started by another".to_owned());
        };
        let start = AgentStart { profile: profile.clone(), schema: profile.output.clone(), ..tree.start.clone() };
        let path = record_of_call(&self.record, &call.id);
        let now = tree.shared.clock.now();
        let (mut record, lines) = Record::open(&path).map_err(|error| error.to_string())?;
        let known = lines.iter().find_map(|line| match &line.entry {
            Entry::Began { settings } if answer.is_some() => Some((**settings).clone()),
            _ => None,
        });
        let settings = known.unwrap_or_else(|| settings_of(&start, built_in, &tree.workers, &tree.facts));
        let mut brain = Brain::new(settings.clone()).map_err(|error| format!("{error}: {}", error.source))?;
        let gate = Gate::of(profile, &self.over, &tree.grounds, tree.answers.clone())?;
        let first = match answer {
            // It goes on where it asked.
            Some(answer) => {
                for line in &lines {
                    if let Entry::Heard { heard } = &line.entry {
                        brain.hear(heard.clone());
                    }
                }
                let text =
                    "Permission denied. Do it another way, or go on without it; exactly this stays denied.".to_owned();
                vec![Heard::Answered { answer: answer.clone(), text }]
            }
            None => {
                let began = Entry::Began { settings: Box::new(settings) };
                record.append(now, began).map_err(|error| error.to_string())?;
                vec![Heard::woken(format!("{}\n\n{prompt}", context::opening(&tree.facts)))]
            }
        };
        let run = Entry::Run { run: tree.start.names.run, outset: None };
        record.append(now, run).map_err(|error| error.to_string())?;
        let say = shown_below(&self.say, call, agent);
        let over = self.over.handed_down(profile);
        let (depth, own) = (self.depth + 1, Arc::new(Semaphore::new(1)));
        let family = Self { say: Arc::clone(&say), record: path, depth, over, own, ..self.clone() };
        let gateway = Arc::clone(&tree.shared.gateway);
        let driver = Driver {
            brain,
            record,
            clock: Arc::clone(&tree.shared.clock),
            asker: Asker { gateway, run: tree.start.names.run, agent: Some(agent.to_owned()) },
            place: Arc::clone(&tree.place),
            gate: Arc::new(gate),
            spawns: Arc::new(family),
            say,
        };
        Ok((driver, first))
    }
}

impl Spawns for Family {
    fn spawn(&self, wanted: Spawn, cancel: CancellationToken) -> BoxFuture<'static, Spawned> {
        self.clone().run(wanted, cancel).boxed()
    }
}

/// Its lines, as progress of the call that started it: only the run's own agent speaks for the run.
fn shown_below(say: &Say, call: &ToolCall, agent: &str) -> Say {
    let (say, id, agent) = (Arc::clone(say), call.id.clone(), agent.to_owned());
    Arc::new(move |at, line| {
        let inner: Value = serde_json::from_str(line).unwrap_or_default();
        let line =
            json!({ "type": "tool", "name": "Agent", "state": "progress", "id": id, "agent": agent, "event": inner });
        say(at, &line.to_string());
    })
}

async fn drive(driver: Driver, first: Vec<Heard>, cancel: CancellationToken) -> Ended {
    let (orders, inbox) = mpsc::unbounded_channel();
    let mut running = std::pin::pin!(driver.run(first, inbox));
    tokio::select! {
        ended = &mut running => ended,
        () = cancel.cancelled() => {
            // It lives in the future beside this one.
            let _ = orders.send(Order::Stop(AgentStop::Abort));
            running.await
        }
    }
}

/// What whoever started it is told.
fn told(ended: Ended) -> Spawned {
    let Ended { stop, said, output, trouble, asked } = ended;
    if let (Some(AgentStop::Permission), Some((asked, text))) = (stop, asked) {
        return Spawned::Asks { asked, text };
    }
    let said = output.map(|output| output.to_string()).or(said);
    match (stop, trouble) {
        (Some(AgentStop::NoToolUse), None) => {
            Spawned::Ended { text: said.unwrap_or_else(|| "It said nothing.".to_owned()), failed: false }
        }
        (stop, trouble) => {
            let why = trouble.or_else(|| stop.map(|stop| stop.word().to_owned())).unwrap_or_default();
            let said = said.map(|said| format!("\nIts last words:\n{said}")).unwrap_or_default();
            Spawned::Ended { text: format!("The agent did not come to its end: {why}.{said}"), failed: true }
        }
    }
}
