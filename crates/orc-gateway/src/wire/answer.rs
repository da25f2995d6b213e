//! An answer, followed while it passes: what it used, how it ended, and what to count when nobody told that.
//!
//! [`Answer::feed`] gets the bytes as they come and keeps at most one event of them; [`Answer::finish`] tells the outcome.
//! Whether an answer is a stream is seen in its first byte: what the header says of it is not asked.
//!
//! It must never fail: garbage, an empty body and a stream that was cut anywhere all have an outcome, and that outcome
//! uses at most what was reserved, unless the provider itself told more.

use orc_domain::ledger::EntryKind;
use orc_domain::meter::Amount;
use orc_domain::model::{Protocol, Tokens};
use orc_domain::money::UsdMicros;
use orc_domain::price::Price;
use serde_json::Value;

use super::sse::{Event, Events};
use super::usage::Figures;

/// Bytes of an event that are kept; a larger one passes and is not read. The last event of Responses repeats the whole
/// answer: 128,000 tokens are about half a megabyte, with all the marks around them a few.
pub const EVENT_BYTES: usize = 8 << 20;

/// Bytes of an answer that is no stream and that are kept; a larger one passes and is not read.
pub const JSON_BYTES: usize = 16 << 20;

/// Bytes of text or code that make a token, where nobody told. Mostly they are about four; three is the dearer guess.
pub const BYTES_PER_TOKEN: u64 = 3;

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is whole.
    Complete,
    /// The provider said that it failed: before an answer, instead of one, or in its middle.
    Failed {
        /// Its word for it.
        kind: String,
        /// What it says, shortened.
        text: String,
    },
    /// Its bytes ended, or made no sense, before it was whole.
    Cut,
}

/// The outcome of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// What it used.
    pub tokens: Tokens,
    /// [`EntryKind::Settled`] with the provider's own figures, or [`EntryKind::Estimated`].
    pub kind: EntryKind,
    /// The provider's name for it.
    pub message: Option<String>,
    /// Why it ended, in the provider's word.
    pub stop: Option<String>,
    /// How it ended.
    pub end: End,
    /// Whether the model would not.
    pub refusal: bool,
    /// Events that were too large, or no JSON, and that were passed on unread.
    pub unread: u64,
}

impl Folded {
    /// What it cost; an estimate costs at most what was reserved.
    #[must_use]
    pub fn cost(&self, price: Option<&Price>, reserved: Amount) -> UsdMicros {
        let cost = price.map_or(UsdMicros::default(), |price| price.cost(self.tokens));
        let most = UsdMicros::from_micros(i64::try_from(reserved.micros).unwrap_or(i64::MAX));
        if self.kind == EntryKind::Estimated { cost.min(most) } else { cost }
    }
}

/// An answer on its way.
#[derive(Debug)]
pub struct Answer {
    status: u16,
    form: Form,
    seen: Seen,
}

/// What its bytes are.
#[derive(Debug)]
enum Form {
    /// Nothing but white space so far.
    Unknown,
    /// One JSON value, kept; none once it is too large.
    Json(Option<Vec<u8>>),
    /// Events.
    Events(Events),
}

/// What was seen of an answer.
#[derive(Debug)]
struct Seen {
    protocol: Protocol,
    figures: Figures,
    /// Output that was told at the beginning: there is at least so much.
    least: u64,
    message: Option<String>,
    stop: Option<String>,
    is_over: bool,
    failure: Option<(String, String)>,
    refusal: bool,
    unread: u64,
    /// Bytes of text that came, and pieces in which they came: a piece is at least a token.
    bytes: u64,
    pieces: u64,
    /// Uses of the provider's tools.
    server_tools: u64,
}

impl Answer {
    /// An answer whose head came with this status. One without a head has the status 0.
    #[must_use]
    pub fn new(protocol: Protocol, status: u16) -> Self {
        let seen = Seen {
            protocol,
            figures: Figures::default(),
            least: 0,
            message: None,
            stop: None,
            is_over: false,
            failure: None,
            refusal: false,
            unread: 0,
            bytes: 0,
            pieces: 0,
            server_tools: 0,
        };
        Self { status, form: Form::Unknown, seen }
    }

    /// The next bytes of its body.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        if matches!(self.form, Form::Unknown) {
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0xEF | 0xBB | 0xBF);
            let Some(start) = bytes.iter().position(|byte| !is_blank(byte)) else { return };
            bytes = &bytes[start..];
            self.form = if matches!(bytes[0], b'{' | b'[') {
                Form::Json(Some(Vec::new()))
            } else {
                Form::Events(Events::new(EVENT_BYTES))
            };
        }
        match &mut self.form {
            Form::Unknown => {}
            Form::Json(kept) => {
                self.seen.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                match kept {
                    Some(all) if all.len() + bytes.len() <= JSON_BYTES => all.extend_from_slice(bytes),
                    _ => *kept = None,
                }
            }
            Form::Events(events) => events.feed(bytes, &mut |event| self.seen.hear(event)),
        }
    }

    /// Its bytes are over, in whichever way. `request` are the bytes of its request, `reserved` is what was set aside.
    #[must_use]
    pub fn finish(mut self, request: u64, reserved: Amount) -> Folded {
        match &mut self.form {
            Form::Unknown => {}
            Form::Json(kept) => self.seen.read_whole(kept.as_deref()),
            Form::Events(events) => events.end(&mut |event| self.seen.hear(event)),
        }
        let seen = self.seen;
        let is_error = self.status >= 300;
        let end = match seen.failure.clone() {
            Some((kind, text)) => End::Failed { kind, text },
            None if is_error => End::Failed { kind: format!("status {}", self.status), text: String::new() },
            None if seen.is_over => End::Complete,
            None => End::Cut,
        };
        let (kind, tokens) = if is_error {
            // Nothing was answered, so nothing is billed.
            (EntryKind::Settled, Tokens::default())
        } else if seen.is_over && seen.figures.is_whole() {
            (EntryKind::Settled, seen.told())
        } else {
            (EntryKind::Estimated, seen.estimate(request, reserved.tokens))
        };
        Folded { tokens, kind, message: seen.message, stop: seen.stop, end, refusal: seen.refusal, unread: seen.unread }
    }
}

impl Seen {
    fn told(&self) -> Tokens {
        let tokens = self.figures.tokens();
        Tokens { server_tools: tokens.server_tools.max(self.server_tools), ..tokens }
    }

    /// What was told counts. Of the rest, input is guessed by the bytes of the request and output by what came, and all
    /// together is at most `most`.
    fn estimate(&self, request: u64, most: u64) -> Tokens {
        let told = self.told();
        let cached = told.context() - told.input;
        let guess = request.div_ceil(BYTES_PER_TOKEN).min(most.saturating_sub(cached));
        let input = if self.figures.input.is_some() { told.input } else { guess };
        let room = most.saturating_sub(cached).saturating_sub(input);
        let came = self.bytes.div_ceil(BYTES_PER_TOKEN).max(self.pieces);
        let output = came.min(room).max(self.least).max(told.output + told.reasoning);
        Tokens { input, output: output - told.reasoning, ..told }
    }

    fn hear(&mut self, event: Event<'_>) {
        match event {
            Event::Skipped { name } => {
                self.unread += 1;
                // The last event of Responses: what it says is lost, that it came is not.
                self.is_over |= name == "response.completed";
            }
            Event::Data { data, .. } if data.trim_ascii() == b"[DONE]" => self.is_over = true,
            Event::Data { name, data } => match serde_json::from_slice(data) {
                Ok(value) => self.read(name, &value),
                Err(_) => self.unread += 1,
            },
        }
    }

    fn read(&mut self, name: &str, value: &Value) {
        let kind = value["type"].as_str().unwrap_or(name);
        match self.protocol {
            Protocol::AnthropicMessages => self.read_anthropic(kind, value),
            Protocol::OpenaiResponses => self.read_responses(kind, value),
            Protocol::OpenaiChat => self.read_chat(value),
        }
    }

    fn read_anthropic(&mut self, kind: &str, value: &Value) {
        match kind {
            "message_start" => {
                self.name(&value["message"]["id"]);
                self.figures.learn(self.protocol, &value["message"]["usage"]);
                self.least = self.figures.output.take().unwrap_or(0);
            }
            "content_block_delta" => {
                for key in ["text", "thinking", "partial_json", "signature"] {
                    self.add(&value["delta"][key]);
                }
            }
            "message_delta" => {
                self.figures.learn(self.protocol, &value["usage"]);
                self.stop(&value["delta"]["stop_reason"]);
            }
            "message_stop" => self.is_over = true,
            "error" => self.fail(&value["error"]),
            _ => {}
        }
    }

    fn read_responses(&mut self, kind: &str, value: &Value) {
        match kind {
            "error" => self.fail(if value["error"].is_object() { &value["error"] } else { value }),
            "response.output_item.done" => self.take_item(&value["item"]),
            "response.refusal.delta" | "response.refusal.done" => {
                self.refusal = true;
                self.add(&value["delta"]);
            }
            _ if kind.ends_with(".delta") => self.add(&value["delta"]),
            _ if value["response"].is_object() => self.read_response(&value["response"]),
            _ => {}
        }
    }

    /// The whole of a response, or as much of it as there is.
    fn read_response(&mut self, response: &Value) {
        self.name(&response["id"]);
        self.figures.learn(self.protocol, &response["usage"]);
        match response["status"].as_str() {
            Some("failed" | "cancelled") => {
                self.fail(&response["error"]);
                self.is_over = true;
            }
            Some("incomplete") => {
                self.stop(&response["incomplete_details"]["reason"]);
                self.is_over = true;
            }
            Some("completed") => {
                self.stop(&response["status"]);
                self.is_over = true;
            }
            _ => {}
        }
    }

    fn take_item(&mut self, item: &Value) {
        self.add(&item["encrypted_content"]);
        let is_use = match item["type"].as_str() {
            // Pages that are opened afterwards are no searches.
            Some("web_search_call") => item["action"]["type"].as_str().is_none_or(|action| action == "search"),
            Some("file_search_call" | "code_interpreter_call") => true,
            _ => false,
        };
        self.server_tools += u64::from(is_use);
    }

    fn read_chat(&mut self, value: &Value) {
        if value["error"].is_object() || value["error"].is_string() {
            self.fail(&value["error"]);
        }
        self.name(&value["id"]);
        self.figures.learn(self.protocol, &value["usage"]);
        for choice in value["choices"].as_array().into_iter().flatten() {
            // `message` where it is no stream.
            for said in [&choice["delta"], &choice["message"]] {
                for key in ["content", "reasoning_content", "reasoning"] {
                    self.add(&said[key]);
                }
                self.refusal |= said["refusal"].as_str().is_some_and(|text| !text.is_empty());
                self.add(&said["refusal"]);
                for call in said["tool_calls"].as_array().into_iter().flatten() {
                    self.add(&call["function"]["name"]);
                    self.add(&call["function"]["arguments"]);
                }
            }
            self.stop(&choice["finish_reason"]);
        }
    }

    /// A body that is no stream.
    fn read_whole(&mut self, body: Option<&[u8]>) {
        let Some(value) = body.and_then(|body| serde_json::from_slice::<Value>(body).ok()) else {
            self.unread += 1;
            return;
        };
        // Some servers put their error into a list.
        let value = value.get(0).unwrap_or(&value);
        if value["error"].is_object() || value["error"].is_string() {
            self.fail(&value["error"]);
        }
        match self.protocol {
            Protocol::AnthropicMessages => {
                self.name(&value["id"]);
                self.figures.learn(self.protocol, &value["usage"]);
                self.stop(&value["stop_reason"]);
                self.is_over |= value["type"] == "message";
            }
            Protocol::OpenaiResponses => {
                self.read_response(value);
                for item in value["output"].as_array().into_iter().flatten() {
                    self.take_item(item);
                    let mut parts = item["content"].as_array().into_iter().flatten();
                    self.refusal |= parts.any(|part| part["type"] == "refusal");
                }
            }
            Protocol::OpenaiChat => self.read_chat(value),
        }
    }

    fn name(&mut self, id: &Value) {
        if let (None, Some(id)) = (&self.message, id.as_str().filter(|id| !id.is_empty())) {
            self.message = Some(shortened(id));
        }
    }

    /// A reason to stop is the end for the figures of Anthropic and of Chat Completions, with or without what follows.
    fn stop(&mut self, reason: &Value) {
        let Some(reason) = reason.as_str() else { return };
        self.refusal |= matches!(reason, "refusal" | "content_filter");
        self.is_over = true;
        self.stop = Some(shortened(reason));
    }

    fn fail(&mut self, error: &Value) {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(shortened);
        let kind = text(&error["code"]).or_else(|| text(&error["type"])).unwrap_or_else(|| "error".to_owned());
        let says = text(&error["message"]).or_else(|| text(error)).unwrap_or_default();
        self.failure = Some((kind, says));
    }

    fn add(&mut self, text: &Value) {
        if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
            self.bytes += u64::try_from(text.len()).unwrap_or(u64::MAX);
            self.pieces += 1;
        }
    }
}

/// What a provider says goes into rows and logs: one line, and no long one.
fn shortened(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

#[cfg(test)]
mod tests;
