//! `status --watch`: the same again and again.
//!
//! A terminal is drawn over in place. Anything else gets each section when it says something new, so that the output of an
//! hour in which nothing happens is one page: ages, sizes and counts of events alone are nothing new.

use std::io::{IsTerminal as _, Stdout};

use orc_domain::ids::{FlowId, RunId};
use orc_domain::meter::Owner;
use orc_ports::clock::Clock as _;
use orc_ports::ledger::CostReader as _;
use orc_ports::reader::{AnyId, Reader as _};
use orc_runtime::clock::SystemClock;
use orc_store_sqlite::SqliteReader;
use serde_json::Value;

use crate::args::StatusArgs;
use crate::commands::flows;
use crate::context::Context;
use crate::evidence::Carrier;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found, unavailable};
use crate::hold::of_store;
use crate::look::Look;
use crate::output::{self, Form};
use crate::signals::Signals;
use crate::view;
use crate::view::canvas::Canvas;

/// Members of documents that change while nothing happens.
const RESTLESS: [&str; 6] = ["last_output_at", "bytes", "last_event", "pending_effects", "usage", "live_usage"];

pub(super) async fn run(context: &Context, args: &StatusArgs) -> CommandResult {
    let form = args.output.output;
    if matches!(form, Form::Json | Form::Yaml) {
        let what = "`--watch` gives one answer after another, and a document of JSON or YAML is one whole";
        return Err(Failure::new(Exit::Usage, what).hint("`--output jsonl` prints each answer on a line"));
    }
    let reader = context.reader().await?;
    let of = match &args.id {
        Some(id) => Some(context.any_of(&reader, id).await?),
        None => None,
    };
    let stdout = std::io::stdout();
    let mut screen = match form {
        Form::Table if stdout.is_terminal() => Screen::Terminal(Canvas::new(stdout)),
        Form::Table => Screen::Plain(Vec::new()),
        _ => Screen::Lines(String::new()),
    };
    let mut signals = Signals::new()?;
    loop {
        let answer = Answer::read(context, &reader, of).await?;
        if !screen.show(&answer, context)? || answer.is_over {
            return Ok(Exit::Success);
        }
        tokio::select! {
            () = SystemClock.sleep(args.interval) => {}
            _ = signals.next() => return Ok(Exit::Interrupted),
        }
    }
}

/// What there is to show.
struct Answer {
    document: Value,
    /// What each section is about, without what changes all the time, and its text.
    sections: Vec<(String, String)>,
    /// What was asked about will not change any more.
    is_over: bool,
}

impl Answer {
    async fn read(context: &Context, reader: &SqliteReader, of: Option<AnyId>) -> CommandResult<Self> {
        match of {
            None => Self::of_all(context, reader).await,
            Some(AnyId::Flow(flow)) => Self::of_flow(context, reader, flow).await,
            Some(AnyId::Run(run)) => Self::of_run(context, reader, run).await,
            Some(AnyId::Request(request)) => {
                let record = reader.request(request).await.map_err(of_store)?;
                let record = record.ok_or_else(|| not_found(format!("there is no request {request}")))?;
                Self::of_flow(context, reader, record.request.flow).await
            }
        }
    }

    async fn of_all(context: &Context, reader: &SqliteReader) -> CommandResult<Self> {
        let report = super::report(context, reader).await?;
        let document = report.document();
        let news = |members: &[&str]| members.iter().map(|member| news(&document[*member])).collect::<String>();
        let sections =
            report.sections(context.now()).into_iter().map(|(members, text)| (news(members), text)).collect();
        Ok(Self { document, sections, is_over: false })
    }

    async fn of_flow(context: &Context, reader: &SqliteReader, flow: FlowId) -> CommandResult<Self> {
        let carrier = Carrier::see(context).await;
        let look = Look::with_past(context, reader, flow).await?;
        let document = flows::document(&look, &carrier);
        let text = view::flow::text(&look, &carrier);
        Ok(Self { sections: vec![(news(&document), text)], document, is_over: look.flow.is_finished() })
    }

    async fn of_run(context: &Context, reader: &SqliteReader, run: RunId) -> CommandResult<Self> {
        let record = reader.run(run).await.map_err(of_store)?;
        let record = record.ok_or_else(|| not_found(format!("there is no run {run}")))?;
        let spent = reader.spent(Owner::Run(run)).await.map_err(of_store)?;
        let document = view::run::document_with(&record, context, &spent);
        let text = view::run::text(&record, context, &spent);
        Ok(Self { sections: vec![(news(&document), text)], document, is_over: record.run.state.is_final() })
    }
}

/// Where answers go.
enum Screen {
    Terminal(Canvas<Stdout>),
    /// With what each section said last.
    Plain(Vec<String>),
    /// With what the answer said last.
    Lines(String),
}

impl Screen {
    /// False when nobody reads any more.
    fn show(&mut self, answer: &Answer, context: &Context) -> CommandResult<bool> {
        match self {
            Self::Terminal(canvas) => {
                let text: String = answer.sections.iter().map(|(_, text)| text.as_str()).collect();
                let room = canvas.room();
                let mut lines: Vec<&str> = text.lines().collect();
                let hidden = (lines.len() + 1).saturating_sub(room);
                let more = format!("... and {hidden} more lines");
                if lines.len() > room {
                    lines.truncate(room - 1);
                    lines.push(&more);
                }
                canvas.draw(&lines).map_err(|error| unavailable("cannot write to the terminal").because(error))?;
                Ok(true)
            }
            Self::Plain(known) => {
                let is_new = |at: usize| known.get(at) != answer.sections.get(at).map(|(news, _)| news);
                let new: String = answer
                    .sections
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| is_new(*at))
                    .map(|(_, (_, text))| text.as_str())
                    .collect();
                if new.is_empty() {
                    return Ok(true);
                }
                let begins = known.is_empty();
                *known = answer.sections.iter().map(|(news, _)| news.clone()).collect();
                let title = if begins { String::new() } else { format!("\n-- {}\n", context.now()) };
                output::text_if_read(&format!("{title}{new}"))
            }
            Self::Lines(known) => {
                let news: String = answer.sections.iter().map(|(news, _)| news.as_str()).collect();
                if *known == news {
                    return Ok(true);
                }
                *known = news;
                output::text_if_read(&format!("{}\n", answer.document))
            }
        }
    }
}

/// What a document says, without ages and what else changes while nothing happens.
fn news(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let lasting = members.iter().filter(|(name, _)| !RESTLESS.contains(&name.as_str()));
            lasting.map(|(name, value)| format!("{name}={};", news(value))).collect()
        }
        Value::Array(items) => items.iter().map(|item| format!("[{}]", news(item))).collect(),
        Value::String(text) => without_ages(text),
        other => other.to_string(),
    }
}

/// A text without lengths of time (`3m20s`), which grow by themselves.
fn without_ages(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        kept.push_str(before);
        let digits = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        let unit = number[digits..]
            .find(|c: char| !c.is_ascii_lowercase())
            .map_or(&number[digits..], |end| &number[digits..digits + end]);
        if matches!(unit, "ms" | "s" | "m" | "h" | "d") {
            rest = &number[digits + unit.len()..];
        } else {
            kept.push_str(&number[..digits]);
            rest = &number[digits..];
        }
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_grows_by_itself_is_nothing_new() {
        let cases = [
            ("needs `hold` (runs for 3m20s)", "needs `hold` (runs for )"),
            ("no answer in 500ms: 2 tries, 1.5s", "no answer in : 2 tries, "),
            ("`test[3]` failed, exit code 4d3", "`test[3]` failed, exit code 3"),
            ("2026-03-01T12:30:05.123Z", "2026-03-01T12:30:05.123Z"),
            ("7", "7"),
        ];
        for (text, wanted) in cases {
            assert_eq!(without_ages(text), wanted);
        }
        let one = json!({ "a": [{ "since": "2026", "last_output_at": 1 }], "bytes": 7 });
        let two = json!({ "a": [{ "since": "2026", "last_output_at": 2 }], "bytes": 8 });
        assert_eq!(news(&one), news(&two));
        assert_ne!(news(&one), news(&json!({ "a": [{ "since": "2027" }] })));
    }
}
