//! What answers of all protocols have in common: pieces in their order, ids of calls, and calls that may be cut.

use std::collections::BTreeSet;

use orc_domain::model::{Protocol, Tokens};
use serde_json::{Value, json};

use super::usage;
use crate::talk::{Block, Ended, Said, ToolCall, ToolInput};

/// What an answer says, as it is understood.
pub(super) struct Voice {
    protocol: Protocol,
    said: Vec<Said>,
    /// The text that was said last.
    text: Option<(u64, u64)>,
    /// Figures as they were told.
    told: Option<Tokens>,
    ids: BTreeSet<String>,
    calls: usize,
    /// A call that may be cut: what comes next tells.
    held: Option<ToolCall>,
    is_over: bool,
}

impl Voice {
    pub(super) const fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            said: Vec::new(),
            text: None,
            told: None,
            ids: BTreeSet::new(),
            calls: 0,
            held: None,
            is_over: false,
        }
    }

    pub(super) const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether everything is said.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// What was said since it was taken last.
    pub(super) fn take(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.said)
    }

    /// More of the text at a place of the answer.
    pub(super) fn text(&mut self, place: (u64, u64), text: &str) {
        if text.is_empty() {
            return;
        }
        self.settle();
        let begins = self.text != Some(place);
        self.text = Some(place);
        self.said.push(Said::Text { text: text.to_owned(), begins });
    }

    pub(super) fn thinking(&mut self, text: &str) {
        if !text.is_empty() {
            self.said.push(Said::Thinking { text: text.to_owned() });
        }
    }

    /// A whole thought; one that neither says nor seals anything is none.
    pub(super) fn thought(&mut self, thought: Block) {
        let Block::Thought { text, seal, .. } = &thought else { return };
        if !text.is_empty() || !seal.is_empty() {
            self.settle();
            self.text = None;
            self.said.push(Said::Block(thought));
        }
    }

    pub(super) fn call_begins(&mut self, name: &str) {
        self.settle();
        self.said.push(Said::CallBegins { name: name.to_owned() });
    }

    /// A call as far as it came; `input` is a text that should be JSON. One that could be the beginning of a longer one is
    /// held until something follows it.
    pub(super) fn call(&mut self, id: &str, name: &str, input: &str) {
        self.settle();
        self.text = None;
        let id = self.own_id(id);
        let (input, is_sure) = read_input(input);
        let call = ToolCall { id, name: name.to_owned(), input };
        if is_sure { self.emit(call) } else { self.held = Some(call) }
    }

    fn emit(&mut self, call: ToolCall) {
        self.calls += 1;
        self.said.push(Said::Block(Block::Call(call)));
    }

    /// What was held is whole: something followed.
    fn settle(&mut self) {
        if let Some(call) = self.held.take() {
            self.emit(call);
        }
    }

    /// An id that no other call of the answer has: what is missing, or stands twice, is made from the place of the call. Nine
    /// letters and figures, which all servers take.
    fn own_id(&mut self, given: &str) -> String {
        let made = (self.ids.len() + 1..).map(|number| format!("call{number:05}"));
        let given = (!given.is_empty()).then(|| given.to_owned());
        let id = given.into_iter().chain(made).find(|id| !self.ids.contains(id)).unwrap_or_default();
        self.ids.insert(id.clone());
        id
    }

    /// What a `usage` says. At the beginning, output is only a sign that there will be some.
    pub(super) fn learn(&mut self, usage: &Value, is_start: bool) {
        if !usage.is_object() {
            return;
        }
        let mut told = usage::told(self.protocol, usage);
        if is_start {
            told.output = 0;
        }
        let told = usage::most(told, self.told.unwrap_or_default());
        if self.told.replace(told) != Some(told) {
            self.said.push(Said::Used(usage::classes(told)));
        }
    }

    /// Everything is said. Where an answer was cut, so was the call that is held.
    pub(super) fn end(&mut self, ended: Ended) {
        match ended {
            Ended::Said | Ended::Calls => self.settle(),
            Ended::OutputLimit | Ended::Refused | Ended::Overflow => self.held = None,
        }
        let ended = match ended {
            Ended::Said | Ended::Calls if self.calls > 0 => Ended::Calls,
            Ended::Calls => Ended::Said,
            other => other,
        };
        self.said.push(Said::Ended(ended));
        self.is_over = true;
    }
}

/// An input, and whether it is surely all of it: no beginning of an object is JSON.
fn read_input(text: &str) -> (ToolInput, bool) {
    if text.trim().is_empty() {
        return (ToolInput::Json(json!({})), false);
    }
    match serde_json::from_str(text) {
        Ok(Value::Null) => (ToolInput::Json(json!({})), true),
        Ok(input) => (ToolInput::Json(input), true),
        Err(_) => (ToolInput::Broken(text.to_owned()), false),
    }
}

/// A text of JSON; empty where there is none.
pub(super) fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
