//! `db`: check, backup, migrate, vacuum, retention. What changes the file takes the lock of the data directory.

use std::path::Path;

use orc_domain::ids::{FlowId, InstanceId};
use orc_ports::store::Store as _;
use orc_runtime::data_dir::{DataLock, Holder, Taken};
use orc_runtime::retention::Removable;
use orc_store_sqlite::{self as store, SqliteStore};
use serde_json::json;

use super::status::report::bytes as size;
use crate::args::{LimitArgs, RemoveArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found, unavailable};
use crate::hold::{self, of_data_dir, of_store};
use crate::output::{self, Form, OutputArgs, say};
use crate::view::columns::Columns;

pub(crate) async fn check(context: &Context, args: OutputArgs) -> CommandResult {
    need_database(context)?;
    let findings = store::check(&context.data.database()).await.map_err(of_store)?;
    let number = findings.listed.len() as u64 + findings.further;
    if args.output == Form::Table {
        for finding in &findings.listed {
            output::text_line(&crate::view::columns::clean(finding))?;
        }
        if findings.further > 0 {
            output::text_line(&format!("... and {} more", findings.further))?;
        }
        if number == 0 {
            output::text_line("the database is as it should be")?;
        }
    } else {
        let document = json!({
            "schema": "orc/db-check/1", "findings": findings.listed, "further": findings.further,
        });
        output::document(args.output, &document, None)?;
    }
    if number == 0 {
        return Ok(Exit::Success);
    }
    Err(unavailable(format!("the database has {number} problems"))
        .hint("keep a copy of the file as it is; a backup, made by `orchestrator db backup`, may be the way back"))
}

pub(crate) async fn backup(context: &Context, file: &Path, force: bool) -> CommandResult {
    need_database(context)?;
    let to = context.cwd.join(file);
    if to.exists() && !force {
        let what = format!("`{}` is there already", file.display());
        return Err(Failure::new(Exit::Refused, what).hint("name a new file, or replace this one with --force"));
    }
    store::backup(&context.data.database(), &to, force)
        .await
        .map_err(|error| unavailable(format!("cannot write the backup `{}`", file.display())).because(error))?;
    let bytes = std::fs::metadata(&to).map_or(0, |file| file.len());
    say(&format!("wrote {} ({bytes} bytes), and it is whole", file.display()));
    Ok(Exit::Success)
}

pub(crate) async fn migrate(context: &Context) -> CommandResult {
    need_database(context)?;
    let _lock = lock(context, "db migrate")?;
    let before = store::facts(&context.data.database()).await.map_err(of_store)?;
    store::migrate(&context.data.database()).await.map_err(of_store)?;
    if before.schema == before.known {
        say(&format!("the database has schema version {} already", before.known));
    } else {
        say(&format!("the database went from schema version {} to {}", before.schema, before.known));
    }
    Ok(Exit::Success)
}

pub(crate) async fn vacuum(context: &Context) -> CommandResult {
    need_database(context)?;
    let _lock = lock(context, "db vacuum")?;
    let database = context.data.database();
    let before = store::facts(&database).await.map_err(of_store)?;
    store::vacuum(&database).await.map_err(of_store)?;
    let after = store::facts(&database).await.map_err(of_store)?;
    let sum = |facts: &store::Facts| facts.bytes + facts.log_bytes;
    say(&format!("the database has {} bytes, {} before", sum(&after), sum(&before)));
    Ok(Exit::Success)
}

pub(crate) async fn retention(context: &Context, args: &RemoveArgs) -> CommandResult {
    let retention = context.retention(&context.settings(&LimitArgs::default())?);
    need_database(context)?;
    let _lock = if args.apply { Some(lock(context, "db retention")?) } else { None };
    let reader = context.reader().await?;
    let found = Removable::find(&reader, &context.data, &retention, context.now()).await.map_err(of_store)?;
    reader.close().await;
    if retention.is_for_ever() {
        say("everything is kept for ever: no `retention` is set");
    }
    if !args.apply {
        print_removable(&found, &[], args)?;
        return Ok(Exit::Success);
    }
    let store = SqliteStore::open(&context.data.database()).await.map_err(of_store)?;
    let failures =
        found.remove(&store, (&context.data, context.copies().as_ref()), || false).await.map_err(of_store)?;
    store.close().await.map_err(of_store)?;
    print_removable(&found, &failures, args)?;
    if failures.is_empty() {
        return Ok(Exit::Success);
    }
    failures.iter().for_each(|failure| say(failure));
    Err(unavailable("not everything could be removed: see above").hint("what stays is tried again the next time"))
}

/// Prints what would go, or went but for `failures`.
fn print_removable(found: &Removable, failures: &[String], args: &RemoveArgs) -> CommandResult<()> {
    let sum = |files: &[(FlowId, u64)]| files.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let (before, last) = found.events;
    let events = last.saturating_sub(before);
    if args.output.output != Form::Table {
        let list = |files: &[(FlowId, u64)]| -> Vec<_> {
            files.iter().map(|(flow, bytes)| json!({ "flow": flow, "bytes": bytes })).collect()
        };
        let document = json!({
            "schema": "orc/retention/1", "removed": args.apply, "failures": failures,
            "flows": found.flows, "logs": list(&found.logs), "artifacts": list(&found.artifacts), "events": events,
        });
        return output::document(args.output.output, &document, None);
    }
    let mut figures = Columns::new();
    figures.row(["flows", &format!("{} with their steps and runs", found.flows.len())]);
    for (name, files) in [("logs", &found.logs), ("artifacts", &found.artifacts)] {
        figures.row([name, &format!("of {} flows, {}", files.len(), size(sum(files)))]);
    }
    figures.row(["events", &events.to_string()]);
    let title = if args.apply { "removed" } else { "would be removed" };
    output::text(&format!("{title}\n{}", figures.text("  ")))
}

fn need_database(context: &Context) -> CommandResult<()> {
    let database = context.data.database();
    if database.is_file() {
        return Ok(());
    }
    Err(not_found(format!("there is no database `{}`", database.display()))
        .hint("`orchestrator run PIPELINE` makes one; --data or ORC_DATA names another place"))
}

/// The lock, or who has it.
pub(super) fn lock(context: &Context, command: &str) -> CommandResult<DataLock> {
    let instance = InstanceId::from_uuid(uuid::Uuid::now_v7());
    let holder = Holder { pid: std::process::id(), instance, command: command.to_owned(), since: context.now() };
    match context.data.lock(&holder).map_err(of_data_dir)? {
        Taken::Ours(lock) => Ok(lock),
        Taken::Held(who) => {
            let what = format!("the data directory is in use by {}", hold::describe(who.as_ref(), context));
            Err(unavailable(what).hint("wait for its end, or cancel its flows, then run the command again"))
        }
    }
}
