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
use crate::drive::{Driver, Ended, Order, Say, Spawns};
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
}

/// One level of the tree.
#[derive(Clone)]
pub(super) struct Family {
    tree: Arc<Tree>,
    say: Say,
    record: PathBuf,
    depth: u32,
}

impl Family {
    pub(super) fn new(
        shared: &Arc<Shared>,
        start: &AgentStart,
        workers: Vec<Profile>,
        (facts, place, say): (Facts, Arc<dyn Place>, Say),
        record: &Path,
    ) -> Self {
        let tree = Tree {
            shared: Arc::clone(shared),
            start: start.clone(),
            workers,
            facts,
            place,
            width: Arc::new(Semaphore::new(MAX_WORKER_WIDTH as usize)),
            left: AtomicU32::new(MAX_WORKER_SPAWNS),
        };
        Self { tree: Arc::new(tree), say, record: record.to_owned(), depth: 0 }
    }

    async fn run(self, call: ToolCall, agent: String, prompt: String, cancel: CancellationToken) -> (String, bool) {
        if self.depth >= MAX_WORKER_DEPTH {
            let text = format!(
                "Not done: agents may start agents {MAX_WORKER_DEPTH} levels deep, and this one is at the last. Do it yourself."
            );
            return (text, true);
        }
        let left = self.tree.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_err() {
            let text = format!(
                "Not done: {MAX_WORKER_SPAWNS} agents were started in this run, which is all there may be. Do it yourself."
            );
            return (text, true);
        }
        // It waits for its turn: others of this tree are at work.
        let permit = tokio::select! {
            permit = Arc::clone(&self.tree.width).acquire_owned() => permit,
            () = cancel.cancelled() => return ("Not done: the run was asked to end before this began.".to_owned(), true),
        };
        let told = match self.prepare(&call, &agent) {
            Ok(driver) => told(drive(driver, &prompt, &self.tree.facts, cancel).await),
            Err(why) => (format!("The agent `{agent}` could not be started: {why}"), true),
        };
        drop(permit);
        told
    }

    fn prepare(&self, call: &ToolCall, agent: &str) -> Result<Driver, String> {
        let tree = &self.tree;
        let Some(profile) = tree.workers.iter().find(|worker| worker.name == agent) else {
            let names: Vec<&str> = tree.workers.iter().map(|worker| worker.name.as_str()).collect();
            return Err(format!("there is none of this name; there are: {}", names.join(", ")));
        };
        let profile::Adapter::BuiltIn(built_in) = &profile.adapter else {
            return Err("only agents of the built-in adapter can be started by another".to_owned());
        };
        let start = AgentStart { profile: profile.clone(), schema: profile.output.clone(), ..tree.start.clone() };
        let settings = settings_of(&start, built_in, &tree.workers, &tree.facts);
        let brain = Brain::new(settings.clone()).map_err(|error| format!("{error}: {}", error.source))?;
        let path = record_of_call(&self.record, &call.id);
        let now = tree.shared.clock.now();
        let (mut record, _) = Record::open(&path).map_err(|error| error.to_string())?;
        let began = Entry::Began { settings: Box::new(settings) };
        record.append(now, began).map_err(|error| error.to_string())?;
        record.append(now, Entry::Run { run: tree.start.names.run }).map_err(|error| error.to_string())?;
        let say = shown_below(&self.say, call, agent);
        let family = Self { say: Arc::clone(&say), record: path, depth: self.depth + 1, ..self.clone() };
        let gateway = Arc::clone(&tree.shared.gateway);
        Ok(Driver {
            brain,
            record,
            clock: Arc::clone(&tree.shared.clock),
            asker: Asker { gateway, run: tree.start.names.run, agent: Some(agent.to_owned()) },
            place: Arc::clone(&tree.place),
            spawns: Arc::new(family),
            say,
        })
    }
}

impl Spawns for Family {
    fn spawn(
        &self,
        call: ToolCall,
        agent: String,
        prompt: String,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, (String, bool)> {
        self.clone().run(call, agent, prompt, cancel).boxed()
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

async fn drive(driver: Driver, prompt: &str, facts: &Facts, cancel: CancellationToken) -> Ended {
    let (orders, inbox) = mpsc::unbounded_channel();
    let text = format!("{}\n\n{prompt}", context::opening(facts));
    let mut running = std::pin::pin!(driver.run(Heard::woken(text), inbox));
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
fn told(ended: Ended) -> (String, bool) {
    let Ended { stop, said, output, trouble } = ended;
    let said = output.map(|output| output.to_string()).or(said);
    match (stop, trouble) {
        (Some(AgentStop::NoToolUse), None) => (said.unwrap_or_else(|| "It said nothing.".to_owned()), false),
        (stop, trouble) => {
            let why = trouble.or_else(|| stop.map(|stop| stop.word().to_owned())).unwrap_or_default();
            let said = said.map(|said| format!("\nIts last words:\n{said}")).unwrap_or_default();
            (format!("The agent did not come to its end: {why}.{said}"), true)
        }
    }
}
