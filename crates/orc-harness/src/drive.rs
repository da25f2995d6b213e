//! Carries a brain: what it wants done is done, what comes of it is written down and heard.
//!
//! Thin: nothing is decided here. Of each thing that is heard the order is: the brain says what to do, the record has what
//! was heard (and the disk, before anything that changes something begins), then it is done.

pub(crate) mod room;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::FuturesUnordered;
use orc_domain::agent::AgentStop;
use orc_domain::permission::{AskedCall, CallAnswer};
use orc_domain::run::ErrorFamily;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock;
use orc_process::hands::{Use, Used};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::room::Room;
use crate::ask::{self, Asker, Saying};
use crate::brain::{Act, Brain, End, Event, Heard, StopWord};
use crate::events;
use crate::gate::{self, Gate, Says};
use crate::hands::RESOLVE;
use crate::place::{Place, PlaceError, Progress};
use crate::record::{Entry, Print, Record, RecordError};
use crate::talk::{CallFailure, Question, Said, ToolCall, ToolInput};
use crate::tools;

/// How often whoever watches hears that a model still answers.
const ALIVE_EVERY: Millis = Millis::from_secs(10);

/// Something for a running agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Messages.
    Letters(Vec<String>),
    /// It is to end.
    Stop(AgentStop),
}

/// Where lines of the vocabulary go.
pub(crate) type Say = Arc<dyn Fn(Timestamp, &str) + Send + Sync>;

/// What came of another agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spawned {
    /// It came to its end.
    Ended {
        /// What it said in the end.
        text: String,
        /// Whether it failed.
        failed: bool,
    },
    /// It waits until somebody says whether a call of it may run.
    Asks {
        /// Which.
        asked: AskedCall,
        /// For people.
        text: String,
    },
}

/// An agent to start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spawn {
    /// The call that starts it.
    pub(crate) call: ToolCall,
    /// Which agent.
    pub(crate) agent: String,
    /// What it is asked.
    pub(crate) prompt: String,
    /// What was answered about a call of it: it goes on where it was.
    pub(crate) answer: Option<CallAnswer>,
}

/// A tool to have done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lift {
    /// The call.
    pub(crate) call: ToolCall,
    /// Stamps of files that were seen.
    pub(crate) seen: BTreeMap<String, String>,
    /// What was answered about it.
    pub(crate) answer: Option<CallAnswer>,
}

/// Starts another agent.
pub(crate) trait Spawns: Send + Sync {
    /// Runs it to its end. Cancelled, it ends soon and answers all the same.
    fn spawn(&self, wanted: Spawn, cancel: CancellationToken) -> BoxFuture<'static, Spawned>;
}

/// How a brain came to its end, and its last words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ended {
    /// Why; none: something failed.
    pub(crate) stop: Option<AgentStop>,
    /// What it said last.
    pub(crate) said: Option<String>,
    /// What it submitted.
    pub(crate) output: Option<Value>,
    /// Why it could not go on, or what failed.
    pub(crate) trouble: Option<String>,
    /// The call that somebody is asked about, and what for people.
    pub(crate) asked: Option<(AskedCall, String)>,
}

/// What a brain works with.
pub(crate) struct Driver {
    pub(crate) brain: Brain,
    pub(crate) record: Record,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) asker: Asker,
    pub(crate) place: Arc<dyn Place>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) spawns: Arc<dyn Spawns>,
    pub(crate) say: Say,
}

type Doing = BoxFuture<'static, Heard>;

/// What is under way.
#[derive(Default)]
struct UnderWay {
    saying: Option<Saying>,
    doing: FuturesUnordered<Doing>,
    cancels: BTreeMap<String, CancellationToken>,
    told_at: Option<Timestamp>,
    /// For the results of this turn.
    room: Room,
    /// Messages that the question before this one had.
    known: usize,
    events: events::Stream,
    ended: Ended,
}

impl Driver {
    /// Runs it from what it hears first to its end.
    pub(crate) async fn run(mut self, first: Vec<Heard>, mut orders: mpsc::UnboundedReceiver<Order>) -> Ended {
        let mut way = UnderWay { known: self.brain.messages().len(), ..UnderWay::default() };
        let mut queue = VecDeque::from(first);
        loop {
            while let Some(heard) = queue.pop_front() {
                match self.hear(heard, &mut way) {
                    Ok(None) => {}
                    Ok(Some(End { stop })) => return Ended { stop, ..way.ended },
                    Err(error) => return self.unrecorded(&error, way.ended),
                }
            }
            tokio::select! {
                said = next(&mut way.saying) => queue.push_back(self.said(said, &mut way)),
                Some(done) = way.doing.next() => queue.push_back(done),
                order = orders.recv() => queue.push_back(match order {
                    Some(Order::Letters(texts)) => Heard::Letters { texts },
                    Some(Order::Stop(why)) => Heard::Stop { why: StopWord(why) },
                    // Nobody is there any more who could want anything.
                    None => Heard::Stop { why: StopWord(AgentStop::Abort) },
                }),
            }
        }
    }

    /// What a model said, or that its answer broke off.
    fn said(&self, said: Option<Result<Vec<Said>, CallFailure>>, way: &mut UnderWay) -> Heard {
        let now = self.clock.now();
        if way.told_at.is_none_or(|told| now.since(told) >= ALIVE_EVERY) {
            way.told_at = Some(now);
            (self.say)(now, &json!({ "type": "progress" }).to_string());
        }
        match said {
            Some(Ok(pieces)) => Heard::Said { pieces },
            Some(Err(failure)) => Heard::Failed { failure },
            None => Heard::Failed { failure: CallFailure::Broken { why: "it ended without an end".to_owned() } },
        }
    }

    fn hear(&mut self, heard: Heard, way: &mut UnderWay) -> Result<Option<End>, RecordError> {
        let at = self.clock.now();
        if let Heard::Result { call, .. } = &heard {
            way.cancels.remove(call);
        }
        self.record.hear(at, &heard)?;
        let acts = self.brain.hear(heard);
        let is_told_only = acts.iter().all(|act| matches!(act, Act::Tell(_)));
        if !is_told_only {
            self.record.flush(at)?;
        }
        if acts.iter().any(|act| matches!(act, Act::Use { reads_only: false, .. } | Act::Spawn { .. })) {
            self.record.sync()?;
        }
        for act in acts {
            if let Some(end) = self.act(act, way)? {
                self.ended(end.stop, way)?;
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn act(&mut self, act: Act, way: &mut UnderWay) -> Result<Option<End>, RecordError> {
        match act {
            Act::Ask(question) => self.ask(*question, way)?,
            Act::HangUp => way.saying = None,
            Act::Use { call, seen, answer, .. } => {
                let cancel = way.cancels.entry(call.id.clone()).or_default().clone();
                way.doing.push(self.fit(self.lift(Lift { call, seen, answer }, cancel), &way.room));
            }
            Act::Spawn { call, agent, prompt, answer } => {
                let cancel = way.cancels.entry(call.id.clone()).or_default().clone();
                way.doing.push(self.fit(self.start(Spawn { call, agent, prompt, answer }, cancel), &way.room));
            }
            Act::Cancel { call } => way.cancels.get(&call).into_iter().for_each(CancellationToken::cancel),
            Act::Tell(event) => self.tell(&event, way),
            Act::End(end) => return Ok(Some(end)),
        }
        Ok(None)
    }

    fn ask(&mut self, question: Question, way: &mut UnderWay) -> Result<(), RecordError> {
        let print = Print::of(&question, way.known);
        (way.known, way.room) = (question.messages.len(), Room::default());
        self.record.append(self.clock.now(), Entry::Asked { question: print })?;
        let patient = self.brain.is_last_model();
        way.told_at = Some(self.clock.now());
        way.saying = Some(ask::ask(self.asker.clone(), question, patient));
        Ok(())
    }

    fn tell(&self, event: &Event, way: &mut UnderWay) {
        match event {
            Event::Says { text } => way.ended.said = Some(text.clone()),
            Event::Output { value } => way.ended.output = Some(value.clone()),
            Event::Permission { asked, text } => way.ended.asked = Some((asked.clone(), text.clone())),
            Event::Blocked { why } => way.ended.trouble = Some(why.clone()),
            Event::Error { message, .. } => way.ended.trouble = Some(message.clone()),
            _ => {}
        }
        way.events.push(event);
        (self.say)(self.clock.now(), &events::line(event).to_string());
    }

    /// Has its result fit beside those of the same turn.
    fn fit(&self, doing: Doing, room: &Room) -> Doing {
        let (place, room) = (Arc::clone(&self.place), room.clone());
        async move {
            match doing.await {
                Heard::Result { call, text, failed, seen } => {
                    Heard::Result { call, text: room.fit(&*place, text).await, failed, seen }
                }
                other => other,
            }
        }
        .boxed()
    }

    /// Starts another agent, if it may be started. An answer that is not about that is for the agent.
    fn start(&self, wanted: Spawn, cancel: CancellationToken) -> Doing {
        let (gate, spawns) = (Arc::clone(&self.gate), Arc::clone(&self.spawns));
        async move {
            let call = wanted.call.id.clone();
            let says = gate.judge(&wanted.call, BTreeMap::new(), wanted.answer.as_ref());
            let ended = match says {
                Says::Pass { .. } => {
                    let below = wanted
                        .answer
                        .clone()
                        .filter(|answer| answer.call.id != call || answer.call.tool != wanted.call.name);
                    spawns.spawn(Spawn { answer: below, ..wanted }, cancel).await
                }
                Says::Refuse { text } => Spawned::Ended { text, failed: true },
                Says::Ask { asked, text } => return Heard::Asked { call, asked, text, below: false },
            };
            match ended {
                Spawned::Ended { text, failed } => Heard::Result { call, text, failed, seen: BTreeMap::new() },
                Spawned::Asks { asked, text } => Heard::Asked { call, asked, text, below: true },
            }
        }
        .boxed()
    }

    fn lift(&self, wanted: Lift, cancel: CancellationToken) -> Doing {
        let gate = Arc::clone(&self.gate);
        let (place, say, clock) = (Arc::clone(&self.place), Arc::clone(&self.say), Arc::clone(&self.clock));
        let shown = (wanted.call.name.clone(), wanted.call.id.clone());
        let progress = Arc::new(move |text: String| {
            let line = json!({ "type": "tool", "name": shown.0, "state": "progress", "id": shown.1, "text": text });
            say(clock.now(), &line.to_string());
        });
        async move { lift(&*place, &gate, wanted, progress, cancel).await }.boxed()
    }

    fn ended(&mut self, stop: Option<AgentStop>, way: &UnderWay) -> Result<(), RecordError> {
        let stop = stop.map(|stop| stop.word().to_owned());
        self.record.append(self.clock.now(), Entry::Ended { stop, events: way.events.digests().to_vec() })?;
        self.record.sync()
    }

    /// What cannot be written down must not be done: the run ends here.
    fn unrecorded(&self, error: &RecordError, ended: Ended) -> Ended {
        let mut message = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        let event = Event::Error { family: ErrorFamily::SandboxInfrastructure, message: message.clone() };
        (self.say)(self.clock.now(), &events::line(&event).to_string());
        Ended { trouble: Some(message), ..ended }
    }
}

/// Has a tool done, if it may be; what is heard of it.
pub(crate) async fn lift(
    place: &dyn Place,
    gate: &Gate,
    Lift { call, seen, answer }: Lift,
    progress: Progress,
    cancel: CancellationToken,
) -> Heard {
    let bounds = tools::bounds(&call.name);
    let done = async {
        let without = match says(gate, &call, answer.as_ref(), place).await? {
            Says::Pass { without } => without,
            Says::Refuse { text } => return Ok(Used { text, failed: true, ..Used::default() }),
            Says::Ask { asked, text } => return Err(NotDone::Asked(asked, text)),
        };
        let input = match call.input.clone() {
            ToolInput::Json(input) => input,
            ToolInput::Broken(text) => Value::String(text),
        };
        let wanted = Use { name: call.name.clone(), input, seen, without };
        Ok(place.lift(wanted, bounds, progress, cancel).await?)
    };
    let (done, call) = (done.await, call.id.clone());
    match done {
        Ok(Used { text, failed, seen, .. }) => Heard::Result { call, text, failed, seen },
        Err(NotDone::Asked(asked, text)) => Heard::Asked { call, asked, text, below: false },
        Err(NotDone::Place(PlaceError::Lost { why })) => {
            let text = format!(
                "Interrupted: what does the tools ended in the middle ({why}). Look at what is there before you do it again."
            );
            Heard::Result { call, text, failed: true, seen: BTreeMap::new() }
        }
        Err(NotDone::Place(PlaceError::Broken { why })) => Heard::Broke { call, why },
    }
}

/// Why a call has no result.
enum NotDone {
    /// Somebody is asked first.
    Asked(AskedCall, String),
    /// Nobody could do it.
    Place(PlaceError),
}

impl From<PlaceError> for NotDone {
    fn from(error: PlaceError) -> Self {
        Self::Place(error)
    }
}

/// What is said of a call, once it is known where its paths lead.
async fn says(
    gate: &Gate,
    call: &ToolCall,
    answer: Option<&CallAnswer>,
    place: &dyn Place,
) -> Result<Says, PlaceError> {
    let paths = gate.paths(call);
    let mut links = BTreeMap::new();
    if !paths.is_empty() {
        let wanted = Use {
            name: RESOLVE.to_owned(),
            input: json!({ "paths": paths }),
            seen: BTreeMap::new(),
            without: Vec::new(),
        };
        let led = place.lift(wanted, tools::bounds(RESOLVE), Arc::new(|_| {}), CancellationToken::new()).await?;
        links = gate::links(&led.text);
    }
    Ok(gate.judge(call, links, answer))
}

/// The next thing that a model says; for ever nothing while none is asked.
async fn next(saying: &mut Option<Saying>) -> Option<Result<Vec<Said>, CallFailure>> {
    let Some(stream) = saying else { return std::future::pending().await };
    let said = stream.next().await;
    let is_over = match &said {
        Some(Ok(pieces)) => matches!(pieces.last(), Some(Said::Ended(_))),
        Some(Err(_)) | None => true,
    };
    if is_over {
        *saying = None;
    }
    said
}
