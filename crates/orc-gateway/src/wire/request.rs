//! A request: what the meter, scripted models and cassettes need to know of it, and the two edits that it may get.
//!
//! Invariant: [`Request::outgoing`] changes the value of the output limit and of `include_usage` (or inserts them) and no
//! other byte. What the text of a request does not bound is judged at its dearest: see [`Ask::refers`] and `dearer`.

use std::ops::Range;

use bytes::Bytes;
use orc_domain::meter::Ask;
use orc_domain::model::Protocol;
use orc_domain::script::Opening;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::node::{Node, Part};
use crate::provider::Want;

/// Uses of a tool of the provider, where the request does not bound them. Anthropic ends an answer after ten rounds of its
/// own tools (`pause_turn`); others tell no figure.
pub const SERVER_TOOL_USES: u64 = 10;

/// Tokens that an image in a request may have beyond its bytes: small files may hold large pictures. Anthropic bounds one
/// at 4,784 tokens; OpenAI's models with tiles stay below that, but for `gpt-4o-mini`.
pub const HELD_IMAGE_TOKENS: u64 = 5_000;

/// Why a request cannot be judged; in words for whoever sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// It is no JSON, or a key that is judged stands in it twice.
    #[error("the body of the request cannot be read: {why}")]
    Unreadable {
        /// What is wrong and where.
        why: String,
    },
    /// It is JSON, and no map.
    #[error("the body of the request is not a JSON object")]
    NoMap,
    /// It names no model.
    #[error("the request names no model: `model` has to be a text")]
    NoModel,
    /// Its model has a name that none has: every name is a row of the ledger, and is shown to people.
    #[error(
        "no model is called so: its name has more than {MODEL_BYTES} bytes, blanks around it or control characters"
    )]
    ModelName,
    /// A key has a value that it cannot have.
    #[error("`{key}` is {value}, and has to be {wanted}")]
    Value {
        /// Which.
        key: &'static str,
        /// What stands there, shortened.
        value: String,
        /// What could stand there.
        wanted: &'static str,
    },
    /// Its answer would come on another way than the request, so nobody could count it.
    #[error("`background: true` is not possible here: what such an answer uses cannot be counted")]
    Background,
}

/// Bytes of the name of a model at most.
const MODEL_BYTES: usize = 256;

/// What a request says of the conversation that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// The system text, one block a line.
    pub system: String,
    /// What the user said before the first answer, one block a line.
    pub prompt: String,
    /// Names of the tools that are offered, as they came; the kind of a tool that has no name.
    pub tools: Vec<String>,
    /// Answers that it already holds.
    pub turns: usize,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// How it talks.
    pub protocol: Protocol,
    /// What it wants.
    pub want: Want,
    /// The model; empty for [`Want::Models`].
    pub model: String,
    /// Whether the answer comes as a stream of events.
    pub stream: bool,
    /// What it could use; its price is not known here.
    pub ask: Ask,
    /// An option by which it may cost more than its model does (`service_tier: priority`): its price is not known.
    pub dearer: Option<String>,
    /// The conversation that it belongs to.
    pub track: Track,
    body: Bytes,
    places: Places,
}

/// Where the values stand that may be edited.
#[derive(Clone, Debug, Default)]
struct Places {
    /// After the `{` of the body.
    head: usize,
    /// Output limits that are there, with their figure; none for `null`.
    limits: Vec<(Range<usize>, Option<u64>)>,
    /// What has to be done for `include_usage`.
    usage: Option<(Range<usize>, &'static str)>,
}

/// What is read of a body. Values that are edited keep their place.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default, deserialize_with = "raw")]
    stream: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "raw")]
    max_tokens: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "raw")]
    max_output_tokens: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "raw")]
    max_completion_tokens: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "raw")]
    n: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "raw")]
    max_tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "raw")]
    stream_options: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Part<'a>,
    #[serde(borrow, default)]
    system: Part<'a>,
    #[serde(borrow, default)]
    instructions: Part<'a>,
    #[serde(borrow, default)]
    messages: Part<'a>,
    #[serde(borrow, default)]
    input: Part<'a>,
    #[serde(borrow, default)]
    tools: Part<'a>,
    #[serde(borrow, default)]
    thinking: Part<'a>,
    #[serde(borrow, default)]
    previous_response_id: Part<'a>,
    #[serde(borrow, default)]
    conversation: Part<'a>,
    #[serde(borrow, default)]
    prompt: Part<'a>,
    #[serde(borrow, default)]
    container: Part<'a>,
    #[serde(borrow, default)]
    mcp_servers: Part<'a>,
    #[serde(borrow, default)]
    web_search_options: Part<'a>,
    #[serde(borrow, default)]
    search_parameters: Part<'a>,
    #[serde(borrow, default)]
    plugins: Part<'a>,
    #[serde(borrow, default)]
    background: Part<'a>,
    #[serde(borrow, default)]
    service_tier: Part<'a>,
    #[serde(borrow, default)]
    speed: Part<'a>,
    #[serde(borrow, default)]
    inference_geo: Part<'a>,
}

fn raw<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Request {
    /// Reads a request. The body is kept as it is; [`Want::Models`] has none that counts.
    ///
    /// # Errors
    /// When it cannot be judged what the call could use.
    pub fn read(protocol: Protocol, want: Want, body: Bytes) -> Result<Self, BadRequest> {
        let mut request = Self {
            protocol,
            want,
            model: String::new(),
            stream: false,
            ask: Ask::default(),
            dearer: None,
            track: Track::default(),
            body: Bytes::new(),
            places: Places::default(),
        };
        if want != Want::Models {
            request.judge(&body)?;
        }
        request.body = body;
        Ok(request)
    }

    fn judge(&mut self, bytes: &[u8]) -> Result<(), BadRequest> {
        let text =
            std::str::from_utf8(bytes).map_err(|error| BadRequest::Unreadable { why: format!("no UTF-8: {error}") })?;
        // A list would be taken for the values of the keys in their order.
        if text.trim_ascii_start().starts_with('[') {
            return Err(BadRequest::NoMap);
        }
        let body: Body<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data if text.trim_ascii_start().starts_with('{') => {
                BadRequest::Unreadable { why: error.to_string() }
            }
            serde_json::error::Category::Data => BadRequest::NoMap,
            _ => BadRequest::Unreadable { why: error.to_string() },
        })?;
        self.model = body.model.as_text().filter(|model| !model.is_empty()).ok_or(BadRequest::NoModel)?.to_owned();
        let is_name = |name: &str| name.len() <= MODEL_BYTES && name.trim() == name && !name.contains(char::is_control);
        if !is_name(&self.model) {
            return Err(BadRequest::ModelName);
        }
        self.stream = flag("stream", body.stream)?;
        if matches!(body.background, Part::Flag(true)) {
            return Err(BadRequest::Background);
        }
        self.places = places(self.protocol, text, &body, self.stream)?;
        self.ask = ask(self.protocol, bytes.len(), &body, &self.places)?;
        self.dearer = dearer(&body);
        self.track = track(&body);
        Ok(())
    }

    /// The body as it goes out: with an output limit of at most `output` for each answer, and, where the usage of a
    /// stream is told on demand only, with that demand. Every other byte is as it came.
    #[must_use]
    pub fn outgoing(&self, output: Option<u64>) -> Bytes {
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        if let Some(limit) = output {
            let told = self.places.limits.iter().any(|(_, figure)| figure.is_some());
            for (place, figure) in &self.places.limits {
                if figure.map_or(!told, |figure| figure > limit) {
                    edits.push((place.clone(), limit.to_string()));
                }
            }
            if self.places.limits.is_empty() {
                let key = match self.protocol {
                    Protocol::AnthropicMessages => "max_tokens",
                    Protocol::OpenaiResponses => "max_output_tokens",
                    Protocol::OpenaiChat => "max_completion_tokens",
                };
                edits.push((self.places.head..self.places.head, format!("\"{key}\":{limit},")));
            }
        }
        edits.extend(self.places.usage.as_ref().map(|(place, text)| (place.clone(), (*text).to_owned())));
        splice(&self.body, edits)
    }

    /// The conversation, as scripts know it.
    #[must_use]
    pub fn opening(&self) -> Opening<'_> {
        Opening { model: &self.model, system: &self.track.system, prompt: &self.track.prompt, tools: &self.track.tools }
    }
}

/// `bytes` with texts in the place of ranges, none of which overlap.
fn splice(bytes: &Bytes, mut edits: Vec<(Range<usize>, String)>) -> Bytes {
    if edits.is_empty() {
        return bytes.clone();
    }
    edits.sort_by_key(|(place, _)| place.start);
    let mut all = Vec::with_capacity(bytes.len() + edits.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut from = 0;
    for (place, text) in edits {
        all.extend_from_slice(&bytes[from..place.start]);
        all.extend_from_slice(text.as_bytes());
        from = place.end;
    }
    all.extend_from_slice(&bytes[from..]);
    all.into()
}

/// Where a piece of a text stands in it.
fn place(text: &str, piece: &str) -> Range<usize> {
    let start = piece.as_ptr().addr() - text.as_ptr().addr();
    start..start + piece.len()
}

fn value(key: &'static str, raw: &str, wanted: &'static str) -> BadRequest {
    let value = if raw.chars().count() > 40 { raw.chars().take(40).chain(['…']).collect() } else { raw.to_owned() };
    BadRequest::Value { key, value, wanted }
}

fn flag(key: &'static str, raw: Option<&RawValue>) -> Result<bool, BadRequest> {
    match raw.map_or("null", RawValue::get) {
        "true" => Ok(true),
        "false" | "null" => Ok(false),
        other => Err(value(key, other, "`true` or `false`")),
    }
}

/// A figure; none for `null` or where nothing stands.
fn figure(key: &'static str, raw: Option<&RawValue>) -> Result<Option<u64>, BadRequest> {
    match raw.map_or("null", RawValue::get) {
        "null" => Ok(None),
        other => other.parse().map(Some).map_err(|_| value(key, other, "a whole number that is not negative")),
    }
}

fn places(protocol: Protocol, text: &str, body: &Body<'_>, stream: bool) -> Result<Places, BadRequest> {
    let keys: &[(&'static str, Option<&RawValue>)] = match protocol {
        Protocol::AnthropicMessages => &[("max_tokens", body.max_tokens)],
        Protocol::OpenaiResponses => &[("max_output_tokens", body.max_output_tokens)],
        // The newer one and the older one: servers know one of them or both.
        Protocol::OpenaiChat => {
            &[("max_completion_tokens", body.max_completion_tokens), ("max_tokens", body.max_tokens)]
        }
    };
    let mut limits = Vec::new();
    for (key, raw) in keys {
        if let Some(raw) = raw {
            limits.push((place(text, raw.get()), figure(key, Some(raw))?));
        }
    }
    let head = text.find('{').map_or(0, |at| at + 1);
    let usage =
        if protocol == Protocol::OpenaiChat && stream { include_usage(text, body.stream_options, head)? } else { None };
    Ok(Places { head, limits, usage })
}

/// What has to be done so that a stream of Chat Completions tells its usage.
fn include_usage(
    text: &str,
    options: Option<&RawValue>,
    head: usize,
) -> Result<Option<(Range<usize>, &'static str)>, BadRequest> {
    #[derive(Deserialize)]
    struct Options<'a> {
        #[serde(borrow, default, deserialize_with = "raw")]
        include_usage: Option<&'a RawValue>,
    }
    let Some(options) = options else {
        return Ok(Some((head..head, "\"stream_options\":{\"include_usage\":true},")));
    };
    if options.get() == "null" {
        return Ok(Some((place(text, options.get()), "{\"include_usage\":true}")));
    }
    let bad = || value("stream_options", options.get(), "a map");
    let inside = options.get().strip_prefix('{').ok_or_else(bad)?;
    let read: Options<'_> = serde_json::from_str(options.get())
        .map_err(|error| BadRequest::Unreadable { why: format!("`stream_options`: {error}") })?;
    let start = place(text, inside).start;
    let first = if inside.trim_ascii_start() == "}" { "\"include_usage\":true" } else { "\"include_usage\":true," };
    Ok(match read.include_usage {
        None => Some((start..start, first)),
        Some(raw) if flag("include_usage", Some(raw))? => None,
        Some(raw) => Some((place(text, raw.get()), "true")),
    })
}

fn ask(protocol: Protocol, bytes: usize, body: &Body<'_>, places: &Places) -> Result<Ask, BadRequest> {
    let mut seen = Seen::default();
    for part in [&body.system, &body.instructions, &body.messages, &body.input] {
        seen.look(part);
    }
    for tool in body.tools.maps() {
        seen.look_at_tool(tool);
    }
    let elsewhere =
        [&body.previous_response_id, &body.conversation, &body.prompt, &body.container, &body.search_parameters];
    seen.refers |= elsewhere.into_iter().any(Part::is_there);
    for part in [&body.mcp_servers, &body.plugins, &body.web_search_options, &body.search_parameters] {
        let entries = if let Part::List(parts) = part { parts.len() } else { usize::from(part.is_there()) };
        seen.uses_server_tools(count(entries).saturating_mul(SERVER_TOOL_USES));
    }
    if let (Some(most), true) = (figure("max_tool_calls", body.max_tool_calls)?, seen.server_tools > 0) {
        seen.server_tools = most;
    }
    let answers = if protocol == Protocol::OpenaiChat { figure("n", body.n)?.unwrap_or(1) } else { 1 };
    Ok(Ask {
        bytes: count(bytes).saturating_add(seen.images.saturating_mul(HELD_IMAGE_TOKENS)),
        refers: seen.refers,
        output: places.limits.iter().filter_map(|(_, figure)| *figure).max(),
        least: least(&body.thinking),
        answers,
        server_tools: seen.server_tools,
        price: None,
    })
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Anthropic refuses an output limit that is not above the tokens for thinking.
fn least(thinking: &Part<'_>) -> u64 {
    match thinking.as_map() {
        Some(Node { kind, budget_tokens: Part::Figure(budget), .. }) if kind.as_text() == Some("enabled") => {
            budget.saturating_add(1)
        }
        _ => 0,
    }
}

/// What was seen in a request that its bytes do not bound.
#[derive(Debug, Default)]
struct Seen {
    refers: bool,
    images: u64,
    server_tools: u64,
}

impl Seen {
    fn look(&mut self, part: &Part<'_>) {
        for node in part.maps() {
            let kind = node.kind.as_text().unwrap_or_default();
            self.images += u64::from(kind.contains("image") || kind.contains("screenshot"));
            self.refers |= node.file_id.is_there() || node.file_url.is_there() || node.file_data.is_there();
            self.refers |= node.file.is_there() || kind == "item_reference";
            // Its text stays at the provider.
            self.refers |= kind == "reasoning" && !node.encrypted_content.is_there();
            self.refers |= is_link(&node.image_url);
            if let Some(source) = node.source.as_map() {
                self.look_at_source(source);
            }
            self.look(&node.content);
            self.look(&node.output);
        }
    }

    fn look_at_source(&mut self, source: &Node<'_>) {
        match source.kind.as_text() {
            Some("text") => {}
            Some("content") => self.look(&source.content),
            // A document is compressed: its text may be longer than its bytes.
            Some("base64") => {
                self.refers |= !source.media_type.as_text().is_some_and(|media| media.starts_with("image/"));
            }
            _ => self.refers = true,
        }
    }

    fn look_at_tool(&mut self, tool: &Node<'_>) {
        let kind = tool.kind.as_text().unwrap_or("custom");
        if !is_of_program(kind, tool) {
            let uses = if let Part::Figure(uses) = tool.max_uses { uses } else { SERVER_TOOL_USES };
            self.uses_server_tools(uses);
        }
    }

    fn uses_server_tools(&mut self, uses: u64) {
        self.refers |= uses > 0;
        self.server_tools = self.server_tools.saturating_add(uses);
    }
}

/// Whether an image stands elsewhere. It is told as a text, or as a map with `url`.
fn is_link(image: &Part<'_>) -> bool {
    let url = image.as_map().map_or(image, |node| &node.url);
    url.is_there() && !url.as_text().is_some_and(|url| url.starts_with("data:"))
}

/// Whether a tool is carried out by the program that asks. What nobody knows may be a tool of the provider.
fn is_of_program(kind: &str, tool: &Node<'_>) -> bool {
    const KINDS: [&str; 7] =
        ["custom", "function", "local_shell", "apply_patch", "computer", "computer_use_preview", "namespace"];
    const DATED: [&str; 4] = ["bash_", "text_editor_", "computer_2", "memory_"];
    let is_local = |environment: &Part<'_>| environment.as_map().and_then(|node| node.kind.as_text()) == Some("local");
    KINDS.contains(&kind)
        || DATED.iter().any(|start| kind.starts_with(start))
        || (kind == "shell" && is_local(&tool.environment))
}

/// Options that change a price: another tier, another speed, another place. Cheaper and usual ones do not count.
fn dearer(body: &Body<'_>) -> Option<String> {
    const USUAL: [&str; 6] = ["auto", "default", "standard", "standard_only", "flex", "global"];
    [("service_tier", &body.service_tier), ("speed", &body.speed), ("inference_geo", &body.inference_geo)]
        .into_iter()
        .filter(|(_, part)| part.is_there() && !part.as_text().is_some_and(|text| USUAL.contains(&text)))
        .map(|(key, part)| format!("{key}: {}", part.as_text().unwrap_or("?")))
        .next()
}

fn track(body: &Body<'_>) -> Track {
    let mut track = Track::default();
    body.system.add_text(&mut track.system);
    body.instructions.add_text(&mut track.system);
    // `input` may be a text alone.
    track.prompt.push_str(body.input.as_text().unwrap_or_default());
    let mut was_answer = false;
    for node in body.messages.maps().chain(body.input.maps()) {
        let kind = node.kind.as_text().unwrap_or_default();
        let role = node.role.as_text().unwrap_or_default();
        // Of Responses, an answer is several items in a row.
        let is_answer = role == "assistant" || kind == "reasoning" || kind.ends_with("_call");
        track.turns += usize::from(is_answer && !was_answer);
        was_answer = is_answer;
        match role {
            "system" | "developer" => node.content.add_text(&mut track.system),
            "user" if track.turns == 0 => node.content.add_text(&mut track.prompt),
            _ => {}
        }
    }
    let name = |tool: &Node<'_>| {
        let function = tool.function.as_map().and_then(|function| function.name.as_text());
        tool.name.as_text().or(function).or(tool.kind.as_text()).map(str::to_owned)
    };
    track.tools = body.tools.maps().filter_map(name).collect();
    track
}

#[cfg(test)]
mod tests;
