//! A scripted model, `models/NAME.yaml`, to a [`Script`], or every reason why not.
//!
//! Nothing in a script is an expression: texts and inputs of tools are said as they stand.

use orc_domain::model::Tokens;
use orc_domain::script::{Answer, Beyond, Call, Failure, Figures, Fits, Script, Stop, Track, Turn};
use orc_domain::time::Millis;

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::keys;
use crate::pipeline::is_identifier;
use crate::read::{self, Fields};
use crate::source::{SourceFile, Span};
use crate::yaml::{self, Kind, Node};

/// What came of a file.
#[derive(Clone, Debug)]
pub struct CompiledScript {
    /// The script, when there is no error.
    pub script: Option<Script>,
    /// Everything to say about the file, in order of place.
    pub diagnostics: Vec<Diagnostic>,
}

/// Compiles one file. Pure: equal texts give equal results.
#[must_use]
pub fn compile_script(file: &SourceFile) -> CompiledScript {
    let mut report = Report::new(&file.name);
    let tracks = yaml::parse(&file.text, &mut report).and_then(|root| tracks(&root, &mut report));
    let script = match tracks {
        Some(tracks) if !report.has_errors() => Some(Script { file: file.name.clone(), tracks }),
        _ => None,
    };
    CompiledScript { script, diagnostics: report.finish() }
}

fn tracks(root: &Node, report: &mut Report) -> Option<Vec<Track>> {
    let fields = read::fields(root, &keys::SCRIPT, report)?;
    fields.get("description").and_then(|node| read::text(node, "`description`", report));
    let Some(node) = fields.get("tracks") else {
        if fields.lacks("tracks") {
            report
                .error(Code::MissingKey, first_key(root), "this model knows no conversation")
                .help("add `tracks: { main: { turns: [{ text: Hello. }] } }`");
        }
        return None;
    };
    let entries = read::map(node, "`tracks`", report)?;
    if entries.is_empty() {
        report.error(Code::BadValue, node.span, "this model knows no conversation").help("add a track with `turns:`");
    }
    let mut tracks = Vec::new();
    let mut fits_all: Option<(&str, Span)> = None;
    for entry in entries {
        let name = &entry.key;
        if !is_identifier(&name.text) {
            report
                .error(
                    Code::BadValue,
                    name.span,
                    format!("`{}` cannot be the name of a track", read::excerpt(&name.text)),
                )
                .help("letters, digits, `_` and `-`, beginning with a letter, at most 64");
        }
        if let Some((above, span)) = fits_all {
            report
                .error(
                    Code::Unreachable,
                    name.span,
                    format!("nothing gets to `{}`: the track `{above}` fits all", name.text),
                )
                .label(span, "fits every conversation")
                .help(format!("write `{above}` last, or give it a `match:`"));
        }
        let Some(track) = track(&name.text, &entry.value, report) else { continue };
        if track.fits == Fits::default() {
            fits_all.get_or_insert((&name.text, name.span));
        }
        tracks.push(track);
    }
    Some(tracks)
}

fn track(name: &str, node: &Node, report: &mut Report) -> Option<Track> {
    let fields = read::fields(node, &keys::TRACK, report)?;
    let fits = fields.get("match").map(|node| fits(node, report));
    let beyond = fields.get("repeat").map(|node| read::word(node, "`repeat`", keys::BEYOND, report));
    let Some(turns) = fields.get("turns") else {
        if fields.lacks("turns") {
            report
                .error(Code::MissingKey, first_key(node), format!("the track `{name}` says nothing"))
                .help("add `turns: [{ text: Hello. }]`");
        }
        return None;
    };
    let items = items(turns, "`turns`", report)?;
    if items.is_empty() {
        report
            .error(Code::BadValue, turns.span, format!("the track `{name}` says nothing"))
            .help("add `turns: [{ text: Hello. }]`");
        return None;
    }
    let turns: Vec<_> = items.iter().map(|item| turn(item, report)).collect();
    Some(Track {
        name: name.to_owned(),
        fits: fits.unwrap_or_else(|| Some(Fits::default()))?,
        turns: turns.into_iter().collect::<Option<_>>()?,
        beyond: match beyond {
            None | Some(Some("error")) => Beyond::Error,
            Some(Some(_)) => Beyond::Last,
            Some(None) => return None,
        },
    })
}

fn fits(node: &Node, report: &mut Report) -> Option<Fits> {
    let fields = read::fields(node, &keys::MATCH, report)?;
    let mut texts = |key: &str| {
        let Some(node) = fields.get(key) else { return Vec::new() };
        let found = read::names(node, &format!("`{key}`"), report);
        for name in found.iter().filter(|name| name.text.is_empty()) {
            report.error(Code::BadValue, name.span, "an empty text is in every text").help("remove it");
        }
        found.into_iter().map(|name| name.text).collect()
    };
    let [system, prompt, tools] = ["system", "prompt", "tools"].map(&mut texts);
    let model = fields.get("model").map(|node| read::text(node, "`model`", report));
    Some(Fits { model: model.unwrap_or_default(), system, prompt, tools })
}

fn turn(node: &Node, report: &mut Report) -> Option<Turn> {
    let fields = read::fields(node, &keys::TURN, report)?;
    let mut span = |key: &str| {
        let time = fields.get(key).map(|node| read::duration(node, &format!("`{key}`"), report));
        time.unwrap_or(Some(Millis::ZERO))
    };
    let (delay, between) = (span("delay"), span("delay_between"));
    let cut_after =
        fields.get("cut_after").and_then(|node| read::number_within(node, "`cut_after`", 0..=keys::MAX_EVENTS, report));
    let answer = answer(&fields, report);
    let failure = fields.get("error").map(|node| failure(node, report));
    let said = SAID.iter().find_map(|key| fields.entry(key));
    let fails_always = matches!(&failure, Some(Some(failure)) if failure.times.is_none());
    match (&said, fields.entry("error")) {
        (None, None) if !fields.has_unknown() => {
            report
                .error(Code::MissingKey, first_key(node), "this turn says nothing")
                .help("add `text:`, `tool_calls:` or `error:`; an answer without content is `text: \"\"`");
        }
        (None, Some(error)) if matches!(&failure, Some(Some(failure)) if failure.times.is_some()) => {
            report
                .error(Code::MissingKey, error.key.span, "after so many failures this turn has no answer")
                .help("add `text:` or `tool_calls:`, or remove `times:`");
        }
        (Some(said), Some(error)) if fails_always => {
            report
                .error(
                    Code::Conflict,
                    said.key.span,
                    format!("this turn always fails, so `{}` is never said", said.key.text),
                )
                .label(error.key.span, "fails every request")
                .help("add `times:` to the error, or write the answer into the next turn");
        }
        _ => {}
    }
    let failure = match failure {
        Some(failure) => Some(failure?),
        None => None,
    };
    Some(Turn {
        failure,
        answer: if said.is_some() { Some(answer?) } else { None },
        delay: delay?,
        between: between?,
        cut_after,
    })
}

/// Keys of a turn that make it have an answer.
const SAID: [&str; 5] = ["thinking", "text", "tool_calls", "stop", "usage"];

fn answer(fields: &Fields<'_>, report: &mut Report) -> Option<Answer> {
    let mut text = |key: &str| match fields.get(key) {
        Some(node) => read::text(node, &format!("`{key}`"), report).map(Some),
        None => Some(None),
    };
    let (thinking, text) = (text("thinking"), text("text"));
    let calls = match fields.get("tool_calls") {
        Some(node) => items(node, "`tool_calls`", report)
            .map(|items| items.iter().map(|item| call(item, report)).collect::<Vec<_>>())
            .and_then(|calls| calls.into_iter().collect::<Option<Vec<_>>>()),
        None => Some(Vec::new()),
    };
    let stop = fields.get("stop").map(|node| read::word(node, "`stop`", keys::STOPS, report));
    let figures = match fields.get("usage") {
        Some(node) => figures(node, report),
        None => Some(Figures::default()),
    };
    let calls = calls?;
    let stop = match stop {
        Some(word) => word.and_then(|word| Stop::ALL.into_iter().find(|stop| stop.word() == word))?,
        None if calls.is_empty() => Stop::EndTurn,
        None => Stop::ToolUse,
    };
    Some(Answer { thinking: thinking?, text: text?, calls, stop, figures: figures? })
}

fn call(node: &Node, report: &mut Report) -> Option<Call> {
    let fields = read::fields(node, &keys::TOOL_CALL, report)?;
    let Some(name) = fields.get("name") else {
        if fields.lacks("name") {
            report.error(Code::MissingKey, first_key(node), "this call names no tool").help("add `name:`");
        }
        return None;
    };
    let name = read::text(name, "`name`", report);
    let input = match fields.get("input") {
        None => serde_json::json!({}),
        Some(node) => match &node.kind {
            Kind::Map(_) => read::value(node)?.to_json(),
            _ => read::scalar(node, "`input`", "a map, or a text", report)?.text.clone().into(),
        },
    };
    Some(Call { name: name?, input })
}

fn figures(node: &Node, report: &mut Report) -> Option<Figures> {
    if matches!(node.kind, Kind::Scalar(_)) {
        return read::word(node, "`usage`", &["none"], report).map(|_| Figures::Untold);
    }
    let fields = read::fields(node, &keys::FIGURES, report)?;
    let mut figure = |key: &str| {
        let node = fields.get(key)?;
        read::number_within(node, &format!("`{key}`"), 0..=keys::MAX_FIGURE, report).map(u64::from)
    };
    let [input, output, reasoning] = ["input", "output", "reasoning"].map(&mut figure);
    let [cache_read, cache_write, cache_write_long, server_tools] =
        ["cache_read", "cache_write", "cache_write_long", "server_tools"].map(|key| figure(key).unwrap_or(0));
    let others = Tokens { cache_read, cache_write, cache_write_long, server_tools, ..Tokens::default() };
    Some(Figures::Told { input, output, reasoning, others })
}

fn failure(node: &Node, report: &mut Report) -> Option<Failure> {
    let fields = read::fields(node, &keys::FAILURE, report)?;
    let status = match fields.get("status") {
        Some(node) => read::integer(node, "`status`", 400..=599, report).and_then(|status| u16::try_from(status).ok()),
        None => {
            if fields.lacks("status") {
                report.error(Code::MissingKey, first_key(node), "this error has no status").help("add `status: 529`");
            }
            None
        }
    };
    let mut text = |key: &str| fields.get(key).and_then(|node| read::text(node, &format!("`{key}`"), report));
    let (kind, message) = (text("type"), text("message"));
    let retry_after = fields.get("retry_after").and_then(|node| read::duration(node, "`retry_after`", report));
    let times = fields.get("times").and_then(|node| read::number_within(node, "`times`", 1..=keys::MAX_EVENTS, report));
    let message = message.unwrap_or_else(|| "the script wants this request to fail".to_owned());
    Some(Failure { status: status?, kind, message, retry_after, times })
}

/// The items of a list.
fn items<'a>(node: &'a Node, what: &str, report: &mut Report) -> Option<&'a [Node]> {
    match &node.kind {
        Kind::List(items) => Some(items),
        _ => {
            read::wrong_type(node, what, "a list of maps", report);
            None
        }
    }
}

/// For what is missing from a whole map.
fn first_key(node: &Node) -> Span {
    match &node.kind {
        Kind::Map(entries) => entries.first().map_or(node.span, |entry| entry.key.span),
        _ => node.span,
    }
}

#[cfg(test)]
mod tests;
