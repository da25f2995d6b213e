//! `doctor`: whether this machine, this data directory and this repository can carry flows out.
//!
//! What can be tried is tried: programs are started the same way as steps, a box is made and looked at from inside.
//! Nothing is left behind, and nothing is changed without `--fix`.

mod boxes;
mod fix;
mod models;
mod toolchains;
mod trees;
mod trial;

use std::path::Path;

use orc_spec::settings::Settings;
use orc_store_sqlite as store;
use orc_worktree::Choice;
use rustix::fs::Access;
use serde::Serialize;
use serde_json::json;

use self::trial::Trial;
use super::status::report::bytes;
use crate::args::{DoctorArgs, LimitArgs};
use crate::context::Context;
use crate::evidence::{Carrier, Says};
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::host;
use crate::output::{self, Form};
use crate::view::columns::Columns;

/// Below this much free space a run of many steps with long output may not end well.
const LITTLE_SPACE: u64 = 1 << 30;
/// Below this much nothing goes.
const NO_SPACE: u64 = 64 << 20;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    /// It was mended just now.
    Fixed,
    Warn,
    Fail,
}

/// One line of the answer.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    name: &'static str,
    level: Level,
    what: String,
    hint: Option<String>,
}

impl Finding {
    pub(super) fn ok(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, what: what.into(), hint: None }
    }

    pub(super) fn fixed(name: &'static str, what: impl Into<String>) -> Self {
        Self { level: Level::Fixed, ..Self::ok(name, what) }
    }

    pub(super) fn warn(name: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, level: Level::Warn, what: what.into(), hint: Some(hint.into()) }
    }

    pub(super) fn fail(name: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, level: Level::Fail, what: what.into(), hint: Some(hint.into()) }
    }
}

pub(crate) async fn run(context: &Context, args: DoctorArgs) -> CommandResult {
    let mut findings = Vec::new();
    let trial = Trial::new();
    if args.fix {
        findings = fix::mend(context, trial.as_ref().ok()).await;
    }
    findings.extend([data_directory(context), free_space(context), holder(context).await, database(context).await]);
    findings.extend(ledger(context).await);
    let (settings, choice) = settings(context);
    findings.extend(settings);
    findings.push(trial::kernel());
    let mut bubblewrap = None;
    match trial {
        Ok(trial) => {
            findings.extend([trial.shell().await, trial.git().await]);
            bubblewrap = trial.bubblewrap().await;
            trial.end().await;
        }
        Err(finding) => findings.push(finding),
    }
    findings.push(user());
    findings.extend(confinement(context, choice, bubblewrap.as_deref()));
    findings.push(toolchains::look(&host::home(), &host::variable("PATH").unwrap_or_default()));
    let failed = findings.iter().any(|finding| finding.level == Level::Fail);
    if args.quiet {
        findings.retain(|finding| matches!(finding.level, Level::Fixed | Level::Fail));
    }
    if args.output.output == Form::Table {
        output::text(&text(&findings))?;
    } else {
        let document = json!({ "schema": "orc/doctor/1", "findings": findings });
        output::document(args.output.output, &document, Some("findings"))?;
    }
    Ok(if failed { Exit::Unavailable } else { Exit::Success })
}

/// Boxes and private copies. A box dies with the thread that made it, and this one waits.
fn confinement(context: &Context, choice: Choice, bubblewrap: Option<&str>) -> Vec<Finding> {
    tokio::task::block_in_place(|| {
        // Settings with mistakes are told above; then boxes are looked at as without any.
        let settings = context.settings(&LimitArgs::default()).unwrap_or_else(|_| Settings::resolve(&[]));
        let seen = boxes::look(&settings, bubblewrap);
        let mut findings = seen.findings;
        findings.push(trees::look(context, seen.sandbox.as_ref(), choice));
        findings.push(models::look(context, &settings));
        findings
    })
}

fn text(findings: &[Finding]) -> String {
    let mut columns = Columns::new();
    for finding in findings {
        let mark = match finding.level {
            Level::Ok => "ok  ",
            Level::Fixed => "done",
            Level::Warn => "warn",
            Level::Fail => "FAIL",
        };
        columns.row([mark, finding.name, &finding.what]);
        if let Some(hint) = &finding.hint {
            columns.row(["", "", &format!("→ {hint}")]);
        }
    }
    columns.text("")
}

/// The nearest directory that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"))
}

fn data_directory(context: &Context) -> Finding {
    const NAME: &str = "data directory";
    const HINT: &str = "make it writable, or name another one with --data or ORC_DATA";
    let root = context.data.root();
    let there = existing(root);
    let shown = root.display();
    if !there.is_dir() {
        return Finding::fail(NAME, format!("`{}` is no directory, so `{shown}` cannot be one", there.display()), HINT);
    }
    if let Err(error) = rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        return Finding::fail(NAME, format!("`{}` cannot be written: {error}", there.display()), HINT);
    }
    if there != root {
        return Finding::ok(NAME, format!("{shown}, made by the first run"));
    }
    match rustix::fs::stat(root) {
        Ok(stat) if stat.st_mode & 0o077 != 0 => {
            let hint = format!("chmod 700 '{shown}'");
            Finding::warn(NAME, format!("{shown} is open to other users, and logs hold what steps print"), hint)
        }
        Ok(_) => Finding::ok(NAME, shown.to_string()),
        Err(error) => Finding::fail(NAME, format!("`{shown}` cannot be looked at: {error}"), HINT),
    }
}

fn free_space(context: &Context) -> Finding {
    const NAME: &str = "free space";
    let there = existing(context.data.root());
    match rustix::fs::statvfs(there) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let what = format!("{} where the data directory lies", bytes(free));
            match free {
                ..NO_SPACE => Finding::fail(NAME, what, "make room, or name another data directory with --data"),
                NO_SPACE..LITTLE_SPACE => Finding::warn(NAME, what, "make room before a run with much output"),
                _ => Finding::ok(NAME, what),
            }
        }
        Err(error) => Finding::warn(NAME, format!("is not known: {error}"), format!("df '{}'", there.display())),
    }
}

async fn holder(context: &Context) -> Finding {
    const NAME: &str = "holder";
    let carrier = Carrier::see(context).await;
    match &carrier {
        Carrier::Nobody => Finding::ok(NAME, "nobody holds the data directory"),
        Carrier::Process { says: Says::Carries { trouble: None, flows, .. }, .. } => {
            Finding::ok(NAME, format!("{} carries {} flow(s) on", carrier.name(), flows.len()))
        }
        Carrier::Process { says: Says::Carries { trouble: Some(trouble), .. }, .. } => Finding::fail(
            NAME,
            format!("{} cannot go on: {trouble}", carrier.name()),
            "it goes on by itself once that is over",
        ),
        Carrier::Process { says: Says::Nothing(why), .. } => {
            let hint = "look whether that process still works; once it has ended, `orchestrator flows resume --all` carries on";
            Finding::warn(NAME, format!("{} does not answer: {why}", carrier.name()), hint)
        }
    }
}

async fn database(context: &Context) -> Finding {
    const NAME: &str = "database";
    let path = context.data.database();
    if !path.exists() {
        return Finding::ok(NAME, "none yet; the first run makes it");
    }
    let facts = match store::facts(&path).await {
        Ok(facts) => facts,
        Err(error) => {
            let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            return Finding::fail(
                NAME,
                format!("{error}{cause}"),
                "put a backup in its place, or name another with --data",
            );
        }
    };
    let size = bytes(facts.bytes + facts.log_bytes);
    let what = format!("schema version {} ({size}, SQLite {}, {})", facts.schema, facts.sqlite, facts.journal_mode);
    match facts.schema.cmp(&facts.known) {
        std::cmp::Ordering::Equal => Finding::ok(NAME, what),
        std::cmp::Ordering::Less => {
            let what = format!("{what}, and this program writes version {}", facts.known);
            Finding::warn(NAME, what, "orchestrator db migrate")
        }
        std::cmp::Ordering::Greater => {
            let what = format!("{what}, and this program knows only {}", facts.known);
            Finding::fail(NAME, what, "use the newer program, or name another data directory with --data")
        }
    }
}

/// Whether the sums by which budgets are judged are what the entries of the ledger add up to. Nothing about a database that
/// this program cannot read: that is told as such.
async fn ledger(context: &Context) -> Option<Finding> {
    const NAME: &str = "ledger";
    let path = context.data.database();
    if !path.exists() || !store::facts(&path).await.is_ok_and(|facts| facts.schema == facts.known) {
        return None;
    }
    let findings = store::check_sums(&path).await.ok()?;
    Some(match findings.listed.first() {
        None => Finding::ok(NAME, "its sums are what its entries add up to"),
        Some(first) => {
            let more = findings.listed.len() as u64 - 1 + findings.further;
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            let hint = "`orchestrator db check` lists all; a backup may be the way back";
            Finding::fail(NAME, format!("{first}{more}"), hint)
        }
    })
}

/// The settings, and how they want copies to be made. With mistakes in them: as without any.
fn settings(context: &Context) -> (Vec<Finding>, Choice) {
    const NAME: &str = "settings";
    let Ok(settings) = context.settings(&LimitArgs::default()) else {
        let what = "orchestrator.yaml or a variable is wrong";
        let finding = Finding::fail(NAME, what, "orchestrator config show --origin");
        return (vec![finding], Choice::Auto { allow_clone: false });
    };
    let file = context.root.join("orchestrator.yaml");
    let from = if file.is_file() { file.display().to_string() } else { "no orchestrator.yaml".to_owned() };
    let mut findings = vec![Finding::ok(NAME, format!("{} slots ({from})", settings.slots.value))];
    findings.push(Finding::ok(
        "sandbox",
        format!("required ({}): only steps with `worktree: in_place` run without a box", settings.sandbox.origin),
    ));
    (findings, trees::choice(settings.strategy.value))
}

fn user() -> Finding {
    const NAME: &str = "user";
    match host::user() {
        0 => {
            let what = "root: what runs in a box is the box user, what works in place may do everything";
            Finding::ok(NAME, what)
        }
        user => Finding::ok(NAME, format!("{user}")),
    }
}
