//! `approvals`: what waits for people, and their answers.

use orc_domain::ids::RequestId;
use orc_domain::permission::Scope;
use orc_domain::principal::Principal;
use orc_domain::request::{Answer, Request, RequestState};
use orc_domain::time::Timestamp;
use orc_ports::reader::{AnswerCounts, AnyId, Reader as _, RequestFilter, RequestRecord};
use orc_runtime::Reply;
use orc_store_sqlite::SqliteReader;
use serde_json::{Value, json};

use super::change::{self, Said};
use crate::args::{AnswerArgs, ApprovalsListArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::explanation::{closing, who_may};
use crate::failure::{CommandResult, Failure, not_found};
use crate::feed::Change;
use crate::hold::of_store;
use crate::output::{self, Form, say};
use crate::view::columns::{Columns, clean, clean_line};
use crate::view::flow::ago;

/// Characters of a question in a table.
const QUESTION: usize = 60;

pub(crate) async fn list(context: &Context, args: &ApprovalsListArgs) -> CommandResult {
    let reader = context.reader().await?;
    let filter = if args.resolved { RequestFilter::Resolved } else { RequestFilter::Open };
    let requests = reader.requests(filter, args.limit).await.map_err(of_store)?;
    let answers = reader.answers().await.map_err(of_store)?;
    let now = context.now();
    let form = args.output.output;
    if form != Form::Table {
        let requests: Vec<Value> = requests.iter().map(|record| document(&record.request, now)).collect();
        let document = json!({ "schema": "orc/approvals/1", "requests": requests, "answers": answers });
        output::document(form, &document, Some("requests"))?;
        return Ok(Exit::Success);
    }
    if requests.is_empty() {
        say(if args.resolved { "nothing was answered yet" } else { "nothing waits for an answer" });
    } else {
        output::text(&table(&requests, now).text(""))?;
    }
    if args.resolved && !answers.is_empty() {
        output::text(&format!("\n{}", rates(&answers).text("")))?;
    }
    Ok(Exit::Success)
}

fn table(requests: &[RequestRecord], now: Timestamp) -> Columns {
    let mut table = Columns::titled(&["REQUEST", "KIND", "ASKED", "STATE", "WHO", "FLOW", "STEP", "QUESTION"]);
    for RequestRecord { request, opened_at } in requests {
        let state = match &request.state {
            RequestState::Open { deadline, .. } => closing(request.on_timeout, *deadline, now),
            RequestState::Resolved { answer, .. } => answer.word().to_owned(),
        };
        let who = match &request.state {
            RequestState::Open { .. } => who_may(request),
            RequestState::Resolved { by, .. } => by.to_string(),
        };
        table.row([
            request.id.to_string().as_str(),
            request.kind.word(),
            &ago(*opened_at, now),
            &state,
            &who,
            &request.flow.to_string(),
            request.step.as_ref().map_or("-", |(_, path)| path.as_str()),
            &clean_line(&request.message, QUESTION),
        ]);
    }
    table
}

/// People tire: who says yes to everything, and how fast, is shown.
fn rates(answers: &[AnswerCounts]) -> Columns {
    let mut table = Columns::titled(&["ANSWERED BY", "YES", "NO", "RATE", "HALF WITHIN"]);
    for AnswerCounts { by, approved, denied, median, .. } in answers {
        let all = (approved + denied).max(1);
        table.row([
            by.to_string().as_str(),
            &approved.to_string(),
            &denied.to_string(),
            &format!("{} %", approved * 100 / all),
            &median.to_string(),
        ]);
    }
    table
}

pub(crate) async fn show(context: &Context, id: &str, form: Form) -> CommandResult {
    let reader = context.reader().await?;
    let request = request_of(context, &reader, id).await?;
    print(&request, context.now(), form)
}

/// One request, by its id.
pub(crate) async fn show_one(reader: &SqliteReader, id: RequestId, now: Timestamp, form: Form) -> CommandResult {
    let record = reader.request(id).await.map_err(of_store)?;
    let request = record.ok_or_else(|| not_found(format!("there is no request {id}")))?.request;
    print(&request, now, form)
}

fn print(request: &Request, now: Timestamp, form: Form) -> CommandResult {
    if form != Form::Table {
        output::document(form, &document(request, now), None)?;
        return Ok(Exit::Success);
    }
    let mut table = Columns::new();
    let mut row = |name: &str, value: &str| table.row([name, value]);
    row("request", &request.id.to_string());
    row("kind", request.kind.word());
    row("flow", &request.flow.to_string());
    row("step", request.step.as_ref().map_or("-", |(_, path)| path.as_str()));
    row("asked for", &request.asked_by.to_string());
    match &request.state {
        RequestState::Open { since, deadline, .. } => {
            row("asked", &ago(*since, now));
            row("may answer", &who_may(request));
            for tier in &request.tiers {
                row("later", &format!("{} after {}", tier.by.join(", "), tier.after));
            }
            row("closes", &closing(request.on_timeout, *deadline, now));
        }
        RequestState::Resolved { at, by, answer, scope, reason } => {
            let long = match scope {
                Scope::Call => "",
                Scope::Run => ", for the run",
                Scope::Forever => ", for ever",
            };
            row("answer", &format!("{} by {by} {}{long}", answer.word(), ago(*at, now)));
            if !reason.is_empty() {
                row("reason", &clean_line(reason, 1000));
            }
        }
    }
    row("subject", &request.subject.to_string());
    let question: Vec<String> = request.message.lines().map(clean).collect();
    output::text(&format!("{}\n{}\n", table.text(""), question.join("\n")))?;
    Ok(Exit::Success)
}

fn document(request: &Request, now: Timestamp) -> Value {
    let mut document = json!({
        "schema": "orc/request/1",
        "id": request.id,
        "kind": request.kind.word(),
        "flow": request.flow,
        "step": request.step.as_ref().map(|(_, path)| path),
        "message": request.message,
        "subject": request.subject,
        "asked_by": request.asked_by.to_string(),
        "four_eyes": request.four_eyes,
    });
    match &request.state {
        RequestState::Open { since, deadline, .. } => {
            document["state"] = json!("open");
            document["since"] = json!(since.to_string());
            document["deadline"] = json!(deadline.to_string());
            document["age_ms"] = json!(now.since(*since).as_millis());
            document["may_answer"] = json!(request.may_answer());
        }
        RequestState::Resolved { at, by, answer, scope, reason } => {
            document["state"] = json!("resolved");
            document["at"] = json!(at.to_string());
            document["by"] = json!(by.to_string());
            document["answer"] = json!(answer.word());
            document["scope"] = json!(scope.word());
            document["reason"] = json!(reason);
        }
    }
    document
}

pub(crate) async fn answer(context: &Context, args: AnswerArgs, answer: Answer) -> CommandResult {
    let reader = context.reader().await?;
    let request = request_of(context, &reader, &args.id).await?;
    drop(reader);
    if let RequestState::Resolved { by, answer, .. } = &request.state {
        let what = match by {
            Principal::System => format!("{} is {} already, at its deadline", request.id, answer.word()),
            by => format!("{} is {} already, by {by}", request.id, answer.word()),
        };
        return Err(Failure::new(Exit::Refused, what));
    }
    let said = Said {
        command: "approvals",
        done: format!("{} is {}", request.id, answer.word()),
        vain: format!("{} was answered in the meantime", request.id),
    };
    let reply = Reply {
        flow: request.flow,
        request: request.id,
        answer,
        scope: args.scope.unwrap_or_default(),
        // What was read is what is answered: should it have changed since, the answer does not count.
        subject: Some(request.subject),
        reason: args.reason.unwrap_or_default(),
    };
    change::make(context, Change::Answer(reply), said, args.output.output).await
}

async fn request_of(context: &Context, reader: &SqliteReader, id: &str) -> CommandResult<Request> {
    let request = match context.any_of(reader, id).await? {
        AnyId::Request(request) => request,
        AnyId::Flow(_) | AnyId::Run(_) => {
            return Err(Failure::new(Exit::Usage, format!("`{id}` is not a request"))
                .hint("`orchestrator approvals list` shows what waits for an answer"));
        }
    };
    let record = reader.request(request).await.map_err(of_store)?;
    Ok(record.ok_or_else(|| not_found(format!("there is no request {request}")))?.request)
}
