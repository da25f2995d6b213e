//! The loop of the built-in agent, as a machine without input or output: it hears what happened, and says what to do.
//!
//! Resolve once, ask the model, hand out its calls of tools, collect what comes of them, ask again or end. Everything that
//! comes from outside is a [`Heard`]; everything that is to be done outside is an [`Act`]. Equal settings and equal hearing
//! give equal acts, which is what lets a run be replayed and a conversation go on after a crash: its record is the list of
//! what it heard.
//!
//! What must hold: the conversation only grows; every call of a tool gets exactly one result, in the order of the calls; a
//! call that began is never begun again; nothing is acted on that was not heard.
//!
//! Where to go next: `turn` (what becomes of an answer), `calls` (which tools run when), `guard` (loops), `settings`.

mod answer;
mod calls;
mod guard;
mod settings;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::agent::AgentStop;
use orc_domain::json_schema::JsonSchema;
use orc_domain::model::Tokens;
use orc_domain::permission::{AskedCall, CallAnswer};
use orc_domain::run::ErrorFamily;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::talk::{Block, CallFailure, Message, Question, Said, Speaker, ToolCall, ToolInput};

use self::answer::Answer;
use self::calls::Calls;
use self::guard::Guard;
pub use self::settings::{Kind, Settings, Tool};

/// Something from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "heard", rename_all = "snake_case")]
pub enum Heard {
    /// A run begins, or goes on in a conversation that there is: why it wakes and what it is asked.
    Woken {
        /// In words, with what opens the conversation when it is the first.
        text: String,
        /// Ids of messages that stand in it: whoever has one of them unread has it twice.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        messages: Vec<String>,
    },
    /// The model said more.
    Said {
        /// What, in order.
        pieces: Vec<Said>,
    },
    /// There is no whole answer.
    Failed {
        /// Why.
        failure: CallFailure,
    },
    /// A tool is done.
    Result {
        /// Of which call.
        call: String,
        /// What the model is told.
        text: String,
        /// Whether it failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
        /// Stamps of files that it saw.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        seen: BTreeMap<String, String>,
    },
    /// Somebody has to say whether a call may run; nothing of it was done.
    Asked {
        /// Of which call of this conversation.
        call: String,
        /// What is asked about.
        asked: AskedCall,
        /// What would run and why it is asked, for people.
        text: String,
        /// An agent that the call started asks.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        below: bool,
    },
    /// A run goes on with what was answered.
    Answered {
        /// What.
        answer: CallAnswer,
        /// What the model is told when it may not run.
        text: String,
    },
    /// A tool could not be done, and none can: there is no place for them.
    Broke {
        /// Of which call.
        call: String,
        /// Why.
        why: String,
    },
    /// Messages for the running agent; read at the next turn boundary.
    Letters {
        /// They, as the model is to read them.
        texts: Vec<String>,
    },
    /// It is to end.
    Stop {
        /// Why.
        why: StopWord,
    },
}

impl Heard {
    /// A run begins, with no message in what it is told.
    #[must_use]
    pub fn woken(text: impl Into<String>) -> Self {
        Self::Woken { text: text.into(), messages: Vec::new() }
    }
}

/// A word of [`AgentStop`] in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopWord(pub AgentStop);

impl Serialize for StopWord {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.word())
    }
}

impl<'de> Deserialize<'de> for StopWord {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        AgentStop::parse(&word).map(Self).ok_or_else(|| serde::de::Error::custom(format!("`{word}` is no reason")))
    }
}

/// Something to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Ask the model.
    Ask(Box<Question>),
    /// Give the answer up that is on its way.
    HangUp,
    /// Have a tool done by the hands.
    Use {
        /// The call.
        call: ToolCall,
        /// Whether it changes nothing.
        reads_only: bool,
        /// Stamps of files that were seen.
        seen: BTreeMap<String, String>,
        /// What was answered about it.
        answer: Option<CallAnswer>,
    },
    /// Start another agent and wait for what it says in the end.
    Spawn {
        /// The call.
        call: ToolCall,
        /// Which agent.
        agent: String,
        /// What it is asked.
        prompt: String,
        /// What was answered about it, or about a call of that agent, which then goes on.
        answer: Option<CallAnswer>,
    },
    /// End what a call began; its result comes all the same.
    Cancel {
        /// Which call.
        call: String,
    },
    /// Tell whoever watches.
    Tell(Event),
    /// The run is over. Nothing follows.
    End(End),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Why; none: something failed.
    pub stop: Option<AgentStop>,
}

/// What whoever watches is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The model is asked.
    Asks {
        /// Which.
        model: String,
        /// Answers that it gave in this run before.
        turn: u32,
        /// Why it is asked again, if that is no new turn.
        again: Option<Again>,
    },
    /// It thought.
    Thought {
        /// What.
        text: String,
    },
    /// It said something.
    Says {
        /// What.
        text: String,
    },
    /// What it said last is replaced by what it says next.
    Retracted,
    /// A tool begins.
    Begins {
        /// The call.
        call: ToolCall,
    },
    /// A tool is done.
    Done {
        /// Of which call.
        call: String,
        /// Of which tool.
        name: String,
        /// What the model is told.
        text: String,
        /// Whether it failed.
        failed: bool,
    },
    /// What an answer used.
    Used {
        /// By class.
        tokens: Tokens,
    },
    /// It submitted its output.
    Output {
        /// What.
        value: Value,
    },
    /// It says that it cannot go on.
    Blocked {
        /// Why.
        why: String,
    },
    /// It waits until somebody says whether a call may run.
    Permission {
        /// Which.
        asked: AskedCall,
        /// What would run and why it is asked.
        text: String,
    },
    /// It was steered to another way.
    Steered {
        /// Why.
        why: String,
    },
    /// Something failed for good.
    Error {
        /// What follows from it.
        family: ErrorFamily,
        /// What, for people.
        message: String,
    },
    /// The run is over.
    Stops {
        /// Why.
        stop: AgentStop,
    },
}

/// Why a model is asked again without a new turn: the continue points of the loop beside the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// With a higher limit of its output.
    OutputLimit,
    /// In one piece, after a stream broke.
    Plain,
    /// Another model.
    Fallback,
}

impl Again {
    /// The word for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OutputLimit => "higher output limit",
            Self::Plain => "without a stream",
            Self::Fallback => "fallback model",
        }
    }
}

/// The loop of one conversation.
#[derive(Debug)]
pub struct Brain {
    settings: Settings,
    /// Schemas of the inputs, by tool.
    schemas: BTreeMap<String, JsonSchema>,
    state: State,
}

/// Everything that changes; replaced as a whole at each continue point by what it becomes.
#[derive(Clone, Debug, PartialEq)]
struct State {
    messages: Vec<Message>,
    /// Ids of calls so far.
    ids: BTreeSet<String>,
    /// Stamps of files.
    seen: BTreeMap<String, String>,
    todos: Value,
    letters: Vec<String>,
    output: Option<Value>,
    /// It said that it cannot go on.
    is_blocked: bool,
    /// It is to end at the end of this turn.
    is_paused: bool,
    /// What people are asked, while a call waits for their answer.
    question: Option<String>,
    /// Answers in this run.
    turn: u32,
    /// Which model: 0 is the first, others are its fallbacks.
    model: usize,
    recovery: Recovery,
    guard: Guard,
    stage: Stage,
    /// It ends as soon as what runs has ended.
    stop: Option<Leave>,
}

/// Why a run ends that has something running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    /// Somebody wants it, who knows why.
    Asked(AgentStop),
    /// Something failed, which was told.
    Failed(Option<AgentStop>),
}

/// What was tried since the last whole answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Recovery {
    /// How often the limit of the output was raised.
    raises: u32,
    /// How often it went on after an answer that was cut.
    cuts: u32,
    /// Whether the next question asks for an answer in one piece.
    plain: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    /// Nothing runs.
    Idle,
    /// The model answers; calls of that answer may run already.
    Asking(Answer, Calls),
    /// The answer is whole, and calls of it have no result yet.
    Working(Calls),
}

/// Why a brain cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("the schema of the tool `{tool}` cannot be used")]
pub struct SchemaUnusable {
    /// Which.
    pub tool: String,
    /// Why.
    #[source]
    pub source: orc_domain::json_schema::SchemaError,
}

impl Brain {
    /// A conversation that has not begun.
    ///
    /// # Errors
    /// When nothing can be checked against the schema of a tool.
    pub fn new(settings: Settings) -> Result<Self, SchemaUnusable> {
        let mut schemas = BTreeMap::new();
        for tool in &settings.tools {
            let compiled = JsonSchema::compile(&tool.offer.schema);
            let compiled = compiled.map_err(|source| SchemaUnusable { tool: tool.offer.name.clone(), source })?;
            schemas.insert(tool.offer.name.clone(), compiled);
        }
        Ok(Self { settings, schemas, state: State::new() })
    }

    /// What it works with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The conversation so far.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.state.messages
    }

    /// Whether no other model would be asked if this one did not answer.
    #[must_use]
    pub const fn is_last_model(&self) -> bool {
        !self.settings.has_fallback(self.state.model)
    }

    /// What it submitted in this run.
    #[must_use]
    pub const fn output(&self) -> Option<&Value> {
        self.state.output.as_ref()
    }

    /// Its list of what is to be done.
    #[must_use]
    pub const fn todos(&self) -> &Value {
        &self.state.todos
    }

    /// Whether nothing runs.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.state.stage, Stage::Idle)
    }

    /// Takes in what happened; what is to be done now, in order.
    pub fn hear(&mut self, heard: Heard) -> Vec<Act> {
        let mut acts = Vec::new();
        match heard {
            Heard::Woken { text, messages } => self.wake(text, &messages, &mut acts),
            Heard::Said { pieces } => {
                for piece in pieces {
                    self.said(piece, &mut acts);
                }
            }
            Heard::Failed { failure } => self.failed(failure, &mut acts),
            Heard::Result { call, text, failed, seen } => {
                self.state.seen.extend(seen);
                self.result(&call, text, failed, &mut acts);
            }
            Heard::Asked { call, asked, text, below } => self.asked(&call, (asked, below), text, &mut acts),
            Heard::Answered { answer, text } => self.answered_call(&answer, &text, &mut acts),
            Heard::Broke { call, why } => self.broke(&call, why, &mut acts),
            Heard::Letters { texts } => self.state.letters.extend(texts),
            Heard::Stop { why: StopWord(why) } => self.stopped(why, &mut acts),
        }
        acts
    }

    /// A run begins: whatever an earlier one left open gets its results first, so that the history is whole.
    fn wake(&mut self, text: String, messages: &[String], acts: &mut Vec<Act>) {
        let mut blocks = self.close_open();
        blocks.push(Block::Text { text });
        let state = &mut self.state;
        let mut letters = std::mem::take(&mut state.letters);
        letters.retain(|letter| !messages.iter().any(|id| letter.contains(id)));
        blocks.extend(letters.into_iter().map(|text| Block::Text { text }));
        state.messages.push(Message { by: Speaker::User, blocks });
        self.begin_run();
        self.ask(None, acts);
    }

    /// What counts for one run begins anew.
    fn begin_run(&mut self) {
        let state = &mut self.state;
        (state.turn, state.model, state.stop, state.output) = (0, 0, None, None);
        (state.is_blocked, state.is_paused) = (false, false);
        state.recovery = Recovery::default();
        state.guard = Guard::default();
    }

    /// The call that somebody was asked about when the last run ended.
    #[must_use]
    pub fn asks(&self) -> Option<&AskedCall> {
        match &self.state.stage {
            Stage::Working(calls) => calls.asked(),
            Stage::Idle | Stage::Asking(..) => None,
        }
    }

    /// Ends what an earlier run left in the middle: what began and has no result may have been done, or half of it.
    fn close_open(&mut self) -> Vec<Block> {
        let stage = std::mem::replace(&mut self.state.stage, Stage::Idle);
        let (answer, calls) = match stage {
            Stage::Idle => return Vec::new(),
            Stage::Asking(answer, calls) => (calls.any_begun().then_some(answer), calls),
            Stage::Working(calls) => (None, calls),
        };
        if let Some(answer) = answer {
            self.state.messages.push(Message { by: Speaker::Model, blocks: answer.into_whole_blocks() });
        } else if !matches!(self.state.messages.last(), Some(Message { by: Speaker::Model, .. })) {
            // An answer of which nothing had begun is not part of the conversation.
            return Vec::new();
        }
        calls.into_results()
    }

    /// Asks the model.
    fn ask(&mut self, again: Option<Again>, acts: &mut Vec<Act>) {
        let question = self.question();
        let (model, turn) = (question.model.clone(), self.state.turn);
        self.state.stage = Stage::Asking(Answer::default(), Calls::default());
        acts.push(Act::Tell(Event::Asks { model, turn, again }));
        acts.push(Act::Ask(Box::new(question)));
    }

    fn question(&self) -> Question {
        let (settings, state) = (&self.settings, &self.state);
        Question {
            model: settings.model_at(state.model).to_owned(),
            system: settings.system.clone(),
            tools: settings.tools.iter().map(|tool| tool.offer.clone()).collect(),
            messages: state.messages.clone(),
            max_output: Some(settings.output_limit(state.model, state.recovery.raises)),
            effort: settings.effort,
            stream: !state.recovery.plain,
        }
    }

    /// Somebody wants it to end: the answer is given up, tools are ended, and their results are waited for.
    fn stopped(&mut self, why: AgentStop, acts: &mut Vec<Act>) {
        if why == AgentStop::Paused && !self.is_idle() && self.state.stop.is_none() {
            // It ends when this turn has.
            self.state.is_paused = true;
            return;
        }
        if self.state.stop.is_some() {
            return;
        }
        self.state.stop = Some(Leave::Asked(why));
        match &mut self.state.stage {
            Stage::Idle => self.leave(Leave::Asked(why), acts),
            Stage::Asking(_, calls) => {
                acts.push(Act::HangUp);
                calls.cancel_all(acts);
                self.answer_broke_off(acts);
            }
            Stage::Working(calls) => {
                calls.cancel_all(acts);
                self.close_turn_if_done(acts);
            }
        }
    }

    /// Ends the run for a reason of its own; none: something failed, which was told.
    fn end(&mut self, stop: Option<AgentStop>, acts: &mut Vec<Act>) {
        self.state.stage = Stage::Idle;
        acts.extend(stop.map(|stop| Act::Tell(Event::Stops { stop })));
        acts.push(Act::End(End { stop }));
    }

    /// Ends it now that nothing runs.
    fn leave(&mut self, why: Leave, acts: &mut Vec<Act>) {
        match why {
            Leave::Failed(stop) => self.end(stop, acts),
            Leave::Asked(stop) => {
                self.state.stage = Stage::Idle;
                acts.push(Act::End(End { stop: Some(stop) }));
            }
        }
    }

    /// Ends the run because of something that failed.
    fn fail(&mut self, family: ErrorFamily, message: String, stop: Option<AgentStop>, acts: &mut Vec<Act>) {
        acts.push(Act::Tell(Event::Error { family, message }));
        self.end(stop, acts);
    }
}

impl State {
    fn new() -> Self {
        Self {
            messages: Vec::new(),
            ids: BTreeSet::new(),
            seen: BTreeMap::new(),
            todos: Value::Array(Vec::new()),
            letters: Vec::new(),
            output: None,
            is_blocked: false,
            is_paused: false,
            question: None,
            turn: 0,
            model: 0,
            recovery: Recovery::default(),
            guard: Guard::default(),
            stage: Stage::Idle,
            stop: None,
        }
    }

    /// An id that no call of the conversation has.
    fn own_id(&mut self, wanted: &str) -> String {
        let wanted = if wanted.is_empty() { "call" } else { wanted };
        let mut id = wanted.to_owned();
        let mut number = 2;
        while !self.ids.insert(id.clone()) {
            id = format!("{wanted}-{number}");
            number += 1;
        }
        id
    }
}

/// An input as JSON; what is none as text.
fn json_of(input: &ToolInput) -> Value {
    match input {
        ToolInput::Json(value) => value.clone(),
        ToolInput::Broken(text) => Value::String(text.clone()),
    }
}
