//! What becomes of an answer: its calls are handed out while it still comes, and when all of it is there the loop goes on,
//! tries again, or ends.

use orc_domain::agent::AgentStop;
use orc_domain::json_schema;
use orc_domain::permission::{AskedCall, CallAnswer};
use orc_domain::run::ErrorFamily;
use serde_json::Value;

use super::guard::Look;
use super::settings::Kind;
use super::{Act, Again, Brain, End, Event, Leave, Recovery, Stage, json_of};
use crate::talk::{Block, CallFailure, Ended, Message, Said, Speaker, ToolCall, ToolInput};

/// How often it may go on behind an answer that was cut at the highest limit.
const MOST_CUTS: u32 = 3;
/// Characters of the name of a tool that there is not, as its caller is told it.
const MOST_NAME: usize = 100;
/// What a model is told whose answer was cut.
const GO_ON: &str = "Your answer was cut at the limit of its length. Go on from where it ended, in smaller pieces.";
/// What a model is told that was to end and did not see it coming.
const NOTHING_SAID: &str = "Your answer was empty. Go on, or say that you are done and what you did.";

impl Brain {
    pub(super) fn said(&mut self, piece: Said, acts: &mut Vec<Act>) {
        if !matches!(self.state.stage, Stage::Asking(..)) {
            return;
        }
        if let Said::Ended(ended) = piece {
            return self.answered(ended, acts);
        }
        let own = match &piece {
            Said::Block(Block::Call(call)) => self.state.own_id(&call.id),
            _ => String::new(),
        };
        let Stage::Asking(answer, _) = &mut self.state.stage else { return };
        let mut told = Vec::new();
        let call = answer.take(piece, own, &mut |event| told.push(Act::Tell(event)));
        acts.append(&mut told);
        if let Some(call) = call {
            self.called(call, acts);
            self.begin_calls(acts);
        }
    }

    /// Takes a call in: what cannot be done has its result at once.
    fn called(&mut self, call: ToolCall, acts: &mut Vec<Act>) {
        let checked = self.check(&call);
        let Stage::Asking(_, calls) = &mut self.state.stage else { return };
        match checked {
            Ok(kind) => calls.add(call, kind),
            Err(why) => {
                acts.push(Act::Tell(Event::Begins { call: call.clone() }));
                acts.push(Act::Tell(done(&call, why.clone(), true)));
                calls.add_done(call, why, true);
            }
        }
    }

    /// Who does it, or why it cannot be done.
    fn check(&self, call: &ToolCall) -> Result<Kind, String> {
        let Some(tool) = self.settings.tool(&call.name) else {
            let names: Vec<&str> = self.settings.tools.iter().map(|tool| tool.offer.name.as_str()).collect();
            let name: String = call.name.chars().take(MOST_NAME).collect();
            return Err(format!("There is no tool `{name}` in this run. There are: {}.", names.join(", ")));
        };
        let input = match &call.input {
            ToolInput::Json(input) => input,
            ToolInput::Broken(text) => {
                let why = serde_json::from_str::<Value>(text).err().map_or_else(String::new, |e| format!(": {e}"));
                return Err(format!(
                    "The input of `{}` is no JSON{why}. Send the call again, with whole JSON.",
                    call.name
                ));
            }
        };
        // An output is what it is; of the rest, many models name what they leave out.
        let named = if matches!(tool.kind, Kind::Submit { .. }) { input.clone() } else { without_nulls(input) };
        let problems = self.schemas.get(&tool.offer.name).map(|schema| schema.problems(&named)).unwrap_or_default();
        if problems.is_empty() {
            return Ok(tool.kind);
        }
        Err(format!("The input of `{}` is not what it takes: {}.", call.name, json_schema::list(&problems)))
    }

    /// Begins whatever may begin now.
    pub(super) fn begin_calls(&mut self, acts: &mut Vec<Act>) {
        loop {
            let (Stage::Asking(_, calls) | Stage::Working(calls)) = &mut self.state.stage else { return };
            let Some((call, kind, answer)) = calls.begin_next() else { return };
            acts.push(Act::Tell(Event::Begins { call: call.clone() }));
            match kind {
                Kind::Reads | Kind::Changes | Kind::Shell => {
                    let seen = if kind == Kind::Changes { self.state.seen.clone() } else { Default::default() };
                    acts.push(Act::Use { call, reads_only: kind == Kind::Reads, seen, answer });
                }
                Kind::Agent => {
                    let word = |name: &str| json_of(&call.input)[name].as_str().unwrap_or_default().to_owned();
                    let (agent, prompt) = (word("subagent_type"), word("prompt"));
                    acts.push(Act::Spawn { call, agent, prompt, answer });
                }
                Kind::Todo => {
                    self.state.todos = json_of(&call.input)["todos"].clone();
                    self.result_of(
                        &call.id,
                        "The list is kept. Go on with what is in progress.".to_owned(),
                        false,
                        acts,
                    );
                }
                Kind::Blocked => {
                    let why = json_of(&call.input)["why"].as_str().unwrap_or_default().to_owned();
                    self.state.is_blocked = true;
                    acts.push(Act::Tell(Event::Blocked { why }));
                    self.result_of(&call.id, "Taken.".to_owned(), false, acts);
                }
                Kind::Submit { wrapped } => {
                    let mut output = json_of(&call.input);
                    if wrapped {
                        output = output["output"].take();
                    }
                    self.state.output = Some(output.clone());
                    acts.push(Act::Tell(Event::Output { value: output }));
                    self.result_of(&call.id, "Taken.".to_owned(), false, acts);
                }
            }
        }
    }

    /// A tool is done.
    pub(super) fn result(&mut self, call: &str, text: String, failed: bool, acts: &mut Vec<Act>) {
        self.result_of(call, text, failed, acts);
        if self.state.stop.is_none() {
            self.begin_calls(acts);
        }
        self.close_turn_if_done(acts);
    }

    /// Somebody has to say whether a call may run: what runs beside it comes to its end, and the run with it.
    pub(super) fn asked(&mut self, call: &str, (asked, below): (AskedCall, bool), text: String, acts: &mut Vec<Act>) {
        let (Stage::Asking(_, calls) | Stage::Working(calls)) = &mut self.state.stage else { return };
        if calls.ask(call, asked, below) {
            self.state.question = Some(text);
        }
        if let (Some(_), Stage::Asking(_, calls) | Stage::Working(calls)) = (self.state.stop, &mut self.state.stage) {
            calls.cancel_all(acts);
        }
        self.close_turn_if_done(acts);
    }

    /// A run goes on where the one before it asked.
    pub(super) fn answered_call(&mut self, answer: &CallAnswer, text: &str, acts: &mut Vec<Act>) {
        let Stage::Working(calls) = &mut self.state.stage else { return };
        let Some(refused) = calls.answer(answer, text) else { return };
        acts.extend(refused.map(|call| Act::Tell(done(&call, text.to_owned(), true))));
        self.begin_run();
        self.state.question = None;
        self.begin_calls(acts);
        self.close_turn_if_done(acts);
    }

    /// There is no place for tools any more: what runs ends, and the run with it.
    pub(super) fn broke(&mut self, call: &str, why: String, acts: &mut Vec<Act>) {
        self.result_of(call, format!("Not done: {why}"), true, acts);
        if self.state.stop.is_some() {
            return self.close_turn_if_done(acts);
        }
        if matches!(self.state.stage, Stage::Asking(..)) {
            acts.push(Act::HangUp);
            return self.fail_after(ErrorFamily::SandboxInfrastructure, why, None, acts);
        }
        acts.push(Act::Tell(Event::Error { family: ErrorFamily::SandboxInfrastructure, message: why }));
        self.state.stop = Some(Leave::Failed(None));
        if let Stage::Working(calls) = &mut self.state.stage {
            calls.cancel_all(acts);
        }
        self.close_turn_if_done(acts);
    }

    fn result_of(&mut self, id: &str, text: String, failed: bool, acts: &mut Vec<Act>) {
        let (Stage::Asking(_, calls) | Stage::Working(calls)) = &mut self.state.stage else { return };
        let Some((name, left_out)) = calls.finish(id, text.clone(), failed) else { return };
        acts.push(Act::Tell(Event::Done { call: id.to_owned(), name, text, failed }));
        for (call, why) in left_out {
            acts.push(Act::Tell(Event::Begins { call: call.clone() }));
            acts.push(Act::Tell(done(&call, why, true)));
        }
    }

    /// All of an answer is there.
    fn answered(&mut self, ended: Ended, acts: &mut Vec<Act>) {
        let Stage::Asking(mut answer, calls) = std::mem::replace(&mut self.state.stage, Stage::Idle) else { return };
        answer.rest(&mut |event| acts.push(Act::Tell(event)));
        if let Some(tokens) = answer.used() {
            acts.push(Act::Tell(Event::Used { tokens }));
        }
        match ended {
            Ended::Overflow if calls.is_empty() => {
                let why = "the model says that the conversation is longer than what it can read".to_owned();
                return self.fail(ErrorFamily::Unknown, why, Some(AgentStop::PromptTooLong), acts);
            }
            Ended::OutputLimit
                if calls.is_empty() && self.settings.may_raise(self.state.model, self.state.recovery.raises) =>
            {
                self.state.recovery.raises += 1;
                if answer.says_something() {
                    acts.push(Act::Tell(Event::Retracted));
                }
                return self.ask(Some(Again::OutputLimit), acts);
            }
            _ => {}
        }
        let (text, says_something) = (answer.text(), answer.says_something());
        let blocks = answer.into_blocks();
        if !blocks.is_empty() {
            self.state.messages.push(Message { by: Speaker::Model, blocks });
        }
        self.state.turn += 1;
        if !calls.is_empty() {
            self.state.recovery = Recovery::default();
            self.state.stage = Stage::Working(calls);
            return self.close_turn_if_done(acts);
        }
        match ended {
            Ended::OutputLimit if self.state.recovery.cuts < MOST_CUTS => {
                self.state.recovery.cuts += 1;
                self.go_on(Vec::new(), Some(GO_ON.to_owned()), acts);
            }
            Ended::OutputLimit => {
                let why = format!("its answers were cut at the limit of their length {} times in a row", MOST_CUTS + 1);
                self.fail(ErrorFamily::Unknown, why, None, acts);
            }
            Ended::Refused => {
                let why = "the model refuses to go on".to_owned();
                self.fail(ErrorFamily::PolicyDenied, why, None, acts);
            }
            Ended::Said | Ended::Calls | Ended::Overflow => self.quiet(&text, says_something, acts),
        }
    }

    /// It calls no tool: it is done, unless somebody wrote to it meanwhile, or it said nothing at all.
    fn quiet(&mut self, text: &str, says_something: bool, acts: &mut Vec<Act>) {
        if self.state.letters.is_empty() && (says_something || self.state.recovery.cuts >= MOST_CUTS) {
            self.state.recovery = Recovery::default();
            return self.end(Some(AgentStop::NoToolUse), acts);
        }
        if !says_something {
            self.state.recovery.cuts += 1;
            return self.go_on(Vec::new(), Some(NOTHING_SAID.to_owned()), acts);
        }
        match self.state.guard.look(text, &[]) {
            Look::Over(why) => self.looping(why, acts),
            Look::Steer(_) | Look::Fine => self.go_on(Vec::new(), None, acts),
        }
    }

    /// Closes a turn all of whose calls have their result.
    pub(super) fn close_turn_if_done(&mut self, acts: &mut Vec<Act>) {
        match &self.state.stage {
            Stage::Working(calls) if calls.all_done() => {}
            Stage::Working(calls) if calls.is_asking() => {
                let (asked, text) = (calls.asked().cloned(), self.state.question.clone().unwrap_or_default());
                // The stage stays: the next run goes on from it.
                acts.extend(asked.map(|asked| Act::Tell(Event::Permission { asked, text })));
                acts.push(Act::End(End { stop: Some(AgentStop::Permission) }));
                return;
            }
            _ => return,
        }
        let Stage::Working(calls) = std::mem::replace(&mut self.state.stage, Stage::Idle) else { return };
        let trace = calls.trace();
        let results = calls.into_results();
        if let Some(why) = self.state.stop {
            self.state.messages.push(Message { by: Speaker::User, blocks: results });
            return self.leave(why, acts);
        }
        if self.state.output.is_some() || self.state.is_blocked {
            self.state.messages.push(Message { by: Speaker::User, blocks: results });
            return self.end(Some(AgentStop::NoToolUse), acts);
        }
        match self.state.guard.look("", &trace) {
            Look::Fine => self.go_on(results, None, acts),
            Look::Steer(why) => {
                acts.push(Act::Tell(Event::Steered { why: why.clone() }));
                let text = format!("You repeat yourself: {why}. Try another way, or say what keeps you from going on.");
                self.go_on(results, Some(text), acts);
            }
            Look::Over(why) => {
                self.state.messages.push(Message { by: Speaker::User, blocks: results });
                self.looping(why, acts);
            }
        }
    }

    fn looping(&mut self, why: String, acts: &mut Vec<Act>) {
        self.fail(ErrorFamily::Unknown, why, Some(AgentStop::Looping), acts);
    }

    /// The next turn: results first, then what it is told, then what somebody wrote.
    fn go_on(&mut self, mut blocks: Vec<Block>, told: Option<String>, acts: &mut Vec<Act>) {
        let letters = std::mem::take(&mut self.state.letters);
        blocks.extend(told.into_iter().chain(letters).map(|text| Block::Text { text }));
        if !blocks.is_empty() {
            self.state.messages.push(Message { by: Speaker::User, blocks });
        }
        if let Some(most) = self.settings.max_turns.filter(|most| self.state.turn >= *most) {
            let message = format!("it took {most} turns, which is all that its profile allows (`maxTurns`)");
            return self.fail(ErrorFamily::Unknown, message, Some(AgentStop::MaxTurns), acts);
        }
        if self.state.is_paused {
            return self.leave(Leave::Asked(AgentStop::Paused), acts);
        }
        self.ask(None, acts);
    }

    /// There is no whole answer.
    pub(super) fn failed(&mut self, failure: CallFailure, acts: &mut Vec<Act>) {
        let Stage::Asking(answer, calls) = &self.state.stage else { return };
        let begun = calls.any_begun();
        if answer.says_something() && !begun {
            acts.push(Act::Tell(Event::Retracted));
        }
        let message = failure.to_string();
        match failure {
            // What began is part of what happened, and goes on with what is whole of the answer.
            CallFailure::Broken { .. } if begun => self.answer_broke_off(acts),
            CallFailure::Broken { .. } if !self.state.recovery.plain => {
                self.state.recovery.plain = true;
                self.ask(Some(Again::Plain), acts);
            }
            CallFailure::Denied { .. } => {
                self.fail_after(ErrorFamily::BudgetExceeded, message, Some(AgentStop::Spend), acts)
            }
            CallFailure::Overflow { .. } => {
                self.fail_after(ErrorFamily::Unknown, message, Some(AgentStop::PromptTooLong), acts);
            }
            CallFailure::Broken { .. } | CallFailure::Busy { .. } | CallFailure::Refused { .. } => {
                if self.settings.has_fallback(self.state.model) && !begun {
                    self.state.model += 1;
                    self.state.recovery = Recovery::default();
                    return self.ask(Some(Again::Fallback), acts);
                }
                let family = match failure {
                    CallFailure::Refused { .. } => ErrorFamily::Unknown,
                    _ => ErrorFamily::TransientUpstream,
                };
                self.fail_after(family, message, None, acts);
            }
        }
    }

    /// Fails once what began has ended.
    fn fail_after(&mut self, family: ErrorFamily, message: String, stop: Option<AgentStop>, acts: &mut Vec<Act>) {
        let begun = matches!(&self.state.stage, Stage::Asking(_, calls) if calls.any_begun());
        if !begun {
            return self.fail(family, message, stop, acts);
        }
        acts.push(Act::Tell(Event::Error { family, message }));
        self.state.stop = Some(Leave::Failed(stop));
        if let Stage::Asking(_, calls) = &mut self.state.stage {
            calls.cancel_all(acts);
        }
        self.answer_broke_off(acts);
    }

    /// The rest of an answer will not come: what is whole of it stays if any of it began.
    pub(super) fn answer_broke_off(&mut self, acts: &mut Vec<Act>) {
        let Stage::Asking(answer, calls) = std::mem::replace(&mut self.state.stage, Stage::Idle) else { return };
        if calls.any_begun() {
            self.state.messages.push(Message { by: Speaker::Model, blocks: answer.into_whole_blocks() });
            self.state.turn += 1;
            self.state.stage = Stage::Working(calls);
            return self.close_turn_if_done(acts);
        }
        if let Some(why) = self.state.stop {
            self.leave(why, acts);
        }
    }
}

/// The same without members that are null.
fn without_nulls(input: &Value) -> Value {
    match input {
        Value::Object(members) => {
            let named = members.iter().filter(|(_, value)| !value.is_null());
            named.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn done(call: &ToolCall, text: String, failed: bool) -> Event {
    Event::Done { call: call.id.clone(), name: call.name.clone(), text, failed }
}
