//! Answers: bytes become what was said. `Reader` knows streams and plain answers, one module each the three protocols, and
//! `Voice` what all of them have in common.

mod anthropic;
mod chat;
mod responses;
mod sse;
mod usage;
mod voice;

use orc_domain::model::Protocol;
use serde_json::Value;

use self::sse::{Events, TooLong};
use self::voice::Voice;
use super::failure::failure_within;
use super::one_line;
use crate::talk::{CallFailure, Said};

/// Bytes of an answer at most: the longest ones of today, with all the marks around each token, are a quarter of it.
pub const MOST_BYTES: usize = 256 << 20;

/// Bytes of one event, or of an answer that is no stream, at most.
const MOST_EVENT: usize = 16 << 20;

/// What a protocol understands of an answer.
trait Follow: Send {
    /// An event of a stream.
    fn event(&mut self, name: &str, event: &Value, voice: &mut Voice) -> Result<(), CallFailure>;

    /// An answer that is no stream.
    fn whole(&mut self, answer: &Value, voice: &mut Voice) -> Result<(), CallFailure>;

    /// Nothing follows, by a mark of the stream (`[DONE]`) or because its bytes are over: an answer that is whole without
    /// more ends here.
    fn over(&mut self, marked: bool, voice: &mut Voice);
}

/// Reads an answer of status 200. What it gives, in which order, and where it fails depend on the bytes alone, not on how they
/// were cut. Whether it is a stream, the bytes tell: some servers answer otherwise than they were asked to.
pub struct Reader {
    form: Form,
    follow: Box<dyn Follow>,
    voice: Voice,
    came: usize,
    failed: Option<CallFailure>,
}

/// What its bytes are.
enum Form {
    /// Nothing but white space so far.
    Unknown,
    /// One JSON value.
    Json(Vec<u8>),
    /// Events.
    Events(Events),
}

impl Reader {
    /// One that has read nothing.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        let follow: Box<dyn Follow> = match protocol {
            Protocol::AnthropicMessages => Box::<anthropic::Answer>::default(),
            Protocol::OpenaiResponses => Box::<responses::Answer>::default(),
            Protocol::OpenaiChat => Box::<chat::Answer>::default(),
        };
        Self { form: Form::Unknown, follow, voice: Voice::new(protocol), came: 0, failed: None }
    }

    /// The next bytes: what they say. After [`Said::Ended`] nothing comes.
    ///
    /// # Errors
    /// When the provider says that it failed, or what it says cannot be read. What was said before comes first: then the
    /// failure is told with the next bytes, or at the end.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Said>, CallFailure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        let (taken, rest) = bytes.split_at(bytes.len().min(MOST_BYTES - self.came));
        self.came += taken.len();
        let read = self.read(taken).and_then(|()| if rest.is_empty() { Ok(()) } else { Err(too_long(MOST_BYTES)) });
        let said = self.voice.take();
        self.failed = read.err();
        match &self.failed {
            Some(failure) if said.is_empty() => Err(failure.clone()),
            _ => Ok(said),
        }
    }

    /// The bytes are over: what they say at last.
    ///
    /// # Errors
    /// As with [`Reader::push`], and when the answer is not whole.
    pub fn end(mut self) -> Result<Vec<Said>, CallFailure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        let why = match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => "it is empty".to_owned(),
            Form::Json(body) => {
                self.read_whole(&body)?;
                format!("it is JSON, and no answer: {}", one_line(&String::from_utf8_lossy(&body)))
            }
            Form::Events(mut events) => {
                let mut result = Ok(());
                let (follow, voice) = (self.follow.as_mut(), &mut self.voice);
                events.end(&mut |name, data| hear(follow, voice, &mut result, name, data));
                result?;
                "the last event of its stream is missing".to_owned()
            }
        };
        if !self.voice.is_over() {
            self.follow.over(false, &mut self.voice);
        }
        if self.voice.is_over() { Ok(self.voice.take()) } else { Err(CallFailure::Broken { why }) }
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), CallFailure> {
        if matches!(self.form, Form::Unknown) {
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0xEF | 0xBB | 0xBF);
            let Some(start) = bytes.iter().position(|byte| !is_blank(byte)) else { return Ok(()) };
            bytes = &bytes[start..];
            let is_json = matches!(bytes.first(), Some(b'{' | b'['));
            self.form = if is_json { Form::Json(Vec::new()) } else { Form::Events(Events::new(MOST_EVENT)) };
        }
        match &mut self.form {
            Form::Unknown => Ok(()),
            Form::Json(body) if body.len() + bytes.len() > MOST_EVENT => Err(too_long(MOST_EVENT)),
            Form::Json(body) => {
                body.extend_from_slice(bytes);
                Ok(())
            }
            Form::Events(events) => {
                let mut result = Ok(());
                let (follow, voice) = (self.follow.as_mut(), &mut self.voice);
                let fed = events.feed(bytes, &mut |name, data| hear(follow, voice, &mut result, name, data));
                result.and(fed.map_err(|TooLong| too_long(MOST_EVENT)))
            }
        }
    }

    fn read_whole(&mut self, body: &[u8]) -> Result<(), CallFailure> {
        let answer: Value = serde_json::from_slice(body)
            .map_err(|error| CallFailure::Broken { why: format!("it is no whole JSON: {error}") })?;
        // Some servers put their error into a list.
        let answer = answer.get(0).unwrap_or(&answer);
        if !answer["error"].is_null() {
            return Err(failure_within(self.voice.protocol(), &answer["error"]));
        }
        self.follow.whole(answer, &mut self.voice)
    }
}

fn too_long(most: usize) -> CallFailure {
    CallFailure::Broken { why: format!("more than {most} bytes came at once") }
}

/// Takes an event in, unless it failed before or everything is said. What is no JSON object is a sign of life of a server.
fn hear(follow: &mut dyn Follow, voice: &mut Voice, result: &mut Result<(), CallFailure>, name: &str, data: &[u8]) {
    let data = data.trim_ascii();
    if result.is_err() || voice.is_over() {
        return;
    }
    if data == b"[DONE]" {
        follow.over(true, voice);
    } else if data.starts_with(b"{") {
        *result = match serde_json::from_slice::<Value>(data) {
            Ok(event) => follow.event(event["type"].as_str().unwrap_or(name), &event, voice),
            Err(error) => Err(CallFailure::Broken { why: format!("an event is no JSON: {error}") }),
        };
    }
}

#[cfg(test)]
mod tests;
