//! A conversation of the built-in agent, from its record: the real loop hears it again, and what it told then is told.

use std::path::{Path, PathBuf};

use orc_domain::time::Timestamp;
use orc_harness::brain::{Act, Brain, Event, Heard};
use orc_harness::events;
use orc_harness::record::{self, Entry, Line};
use orc_harness::talk::{ToolCall, ToolInput};
use serde_json::{Value, json};

use crate::commands::logs::{event_in_words, first_lines};
use crate::output::say;

/// Something that was said, done or heard.
pub(super) struct Moment {
    pub(super) at: Timestamp,
    pub(super) words: String,
    pub(super) document: Value,
}

/// All of a conversation, with those that were begun anew in its place before it; nothing where none was recorded.
pub(super) fn moments(path: &Path) -> Vec<Moment> {
    let aside = (1_u32..).map(|number| path.with_extension(format!("{number}.jsonl")));
    let records: Vec<PathBuf> = aside.take_while(|path| path.exists()).chain([path.to_owned()]).collect();
    let mut moments = Vec::new();
    for path in records {
        match record::read(&path) {
            Ok(lines) => moments.extend(of_lines(&lines)),
            Err(error) => say(&format!("{error}: it is left out")),
        }
    }
    moments
}

fn of_lines(lines: &[Line]) -> Vec<Moment> {
    let (mut brain, mut moments) = (None, Vec::new());
    for Line { at, entry, .. } in lines {
        match entry {
            // What cannot be made any more has not been made then either.
            Entry::Began { settings } => brain = Brain::new((**settings).clone()).ok(),
            Entry::Heard { heard } => {
                moments.extend(received(heard).map(|(words, document)| moment(*at, words, document)));
                let acts = brain.as_mut().map(|brain| brain.hear(heard.clone())).unwrap_or_default();
                moments.extend(acts.iter().filter_map(|act| match act {
                    Act::Tell(event) => told(event).map(|(words, document)| moment(*at, words, document)),
                    _ => None,
                }));
            }
            Entry::Run { .. } | Entry::Asked { .. } | Entry::Ended { .. } => {}
        }
    }
    moments
}

fn moment(at: Timestamp, words: String, mut document: Value) -> Moment {
    document["at"] = json!(at.to_string());
    Moment { at, words, document }
}

/// What came to the loop and is no answer of the model and no result.
fn received(heard: &Heard) -> Option<(String, Value)> {
    match heard {
        Heard::Woken { text, .. } => {
            Some((format!("is told: {}", first_lines(text)), json!({ "kind": "told", "text": text })))
        }
        Heard::Letters { texts } => {
            let words = format!("reads: {}", first_lines(&texts.join("\n")));
            Some((words, json!({ "kind": "read", "texts": texts })))
        }
        Heard::Failed { failure } => {
            let why = failure.to_string();
            Some((format!("gets no answer: {}", first_lines(&why)), json!({ "kind": "no_answer", "why": why })))
        }
        _ => None,
    }
}

/// What the loop told; in a document with the whole of it.
fn told(event: &Event) -> Option<(String, Value)> {
    let document = match event {
        // Those are figures, and the end of the run says its end.
        Event::Asks { .. } | Event::Used { .. } | Event::Stops { .. } => return None,
        Event::Says { text } => json!({ "kind": "says", "text": text }),
        Event::Thought { text } => json!({ "kind": "thinks", "text": text }),
        Event::Begins { call: ToolCall { id, name, input } } => {
            let input = match input {
                ToolInput::Json(input) => input.clone(),
                ToolInput::Broken(text) => json!(text),
            };
            json!({ "kind": "call", "id": id, "tool": name, "input": input })
        }
        Event::Done { call, name, text, failed } => {
            json!({ "kind": "result", "id": call, "tool": name, "failed": failed, "text": text })
        }
        other => json!({ "kind": "event", "event": events::line(other) }),
    };
    event_in_words(&events::line(event).to_string()).map(|words| (words, document))
}
