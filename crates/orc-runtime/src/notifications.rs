//! Telling people outside of this program: the consumer of requests, incidents and failures.
//!
//! At least once, each notice with a key that stays the same. A target that does not take a notice is tried a few times,
//! then the notice is written down as undelivered, which `status` shows until the target takes one again. Nobody is told of
//! a request that was answered in the meantime, nor of what is older than [`STALE`]: a cursor that begins, or that stood
//! still for long, must not flood people with what is over.

use std::io::ErrorKind;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use orc_domain::event::{Event, Fact};
use orc_domain::flow::{FlowOutcome, StepOutcome};
use orc_domain::path::StepPath;
use orc_domain::request::RequestState;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::notifier::{Moment, Notice};
use serde::{Deserialize, Serialize};

use crate::data_dir::DataDir;
use crate::shell::{Shell, chain};

/// Waits between attempts.
const AGAIN: [Millis; 3] = [Millis::from_secs(1), Millis::from_secs(5), Millis::from_secs(25)];
/// What happened longer ago is not told any more.
const STALE: Millis = Millis::from_secs(24 * 3600);
/// Undelivered notices that are remembered.
const REMEMBERED: usize = 100;

/// A notice that somebody did not get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undelivered {
    /// When it was given up.
    pub at: Timestamp,
    /// The target's name.
    pub to: String,
    /// The notice's key.
    pub key: String,
    /// What it said.
    pub what: String,
    /// Why it did not arrive.
    pub why: String,
}

/// Notices that targets did not take since they took one last, the oldest first. A line that means nothing is left out.
#[must_use]
pub fn undelivered(data: &DataDir) -> Vec<Undelivered> {
    let text = std::fs::read_to_string(file(data)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn file(data: &DataDir) -> std::path::PathBuf {
    data.root().join("undelivered.jsonl")
}

/// Tells everybody who wants to know of an event.
pub(crate) fn tell(shell: Arc<Shell>, event: Event) -> BoxFuture<'static, Result<(), String>> {
    async move {
        let Some(moment) = moment(&event.body.fact) else { return Ok(()) };
        let targets = shell.notifier.targets().iter().enumerate().filter(|(_, target)| target.on.contains(&moment));
        let targets: Vec<(usize, String)> = targets.map(|(at, target)| (at, target.name.clone())).collect();
        if targets.is_empty() || shell.clock.now().since(event.body.at) > STALE {
            return Ok(());
        }
        let Some(notice) = notice(&shell, &event, moment).await? else { return Ok(()) };
        let known = undelivered(&shell.data);
        let told = targets.into_iter().map(|(at, to)| {
            // Whoever did not take the last one is asked once, so that others need not wait for it each time.
            let again = if known.iter().any(|one| one.to == to) { &[][..] } else { &AGAIN[..] };
            let (shell, notice) = (&shell, &notice);
            async move {
                let failure = attempt(shell, at, notice, again).await.err();
                (to, failure)
            }
        });
        let told = join_all(told).await;
        remember(&shell, known, &notice, told)
    }
    .boxed()
}

/// What an event is to people; `None` when it needs nobody.
fn moment(fact: &Fact) -> Option<Moment> {
    match fact {
        Fact::RequestOpened { .. } | Fact::RequestReminded { .. } => Some(Moment::Request),
        Fact::StepFinished { outcome: StepOutcome::Failed(failure), .. } if failure.is_incident() => {
            Some(Moment::Incident)
        }
        Fact::FlowFinished { outcome: FlowOutcome::Failed | FlowOutcome::BudgetExhausted, .. } => {
            Some(Moment::FlowFailed)
        }
        _ => None,
    }
}

async fn notice(shell: &Shell, event: &Event, moment: Moment) -> Result<Option<Notice>, String> {
    let Some((spec, _)) = shell.reader.flow_head(event.flow).await.map_err(|error| chain(&error))? else {
        return Ok(None);
    };
    let flow = event.flow;
    let mut notice = Notice {
        schema: "orc/notice/1",
        key: format!("{flow}/{}", event.position),
        moment,
        at: event.body.at,
        flow,
        pipeline: spec.name.clone(),
        step: event.body.fact.path().cloned(),
        what: String::new(),
        who: Vec::new(),
        deadline: None,
        command: format!("orchestrator explain {flow}"),
    };
    match &event.body.fact {
        Fact::RequestOpened { request, .. } | Fact::RequestReminded { request, .. } => {
            let record = shell.reader.request(*request).await.map_err(|error| chain(&error))?;
            let Some(request) = record.map(|record| record.request) else { return Ok(None) };
            let RequestState::Open { deadline, .. } = request.state else { return Ok(None) };
            (notice.who, notice.deadline) = (request.may_answer(), Some(deadline));
            notice.command = format!("orchestrator approvals show {}", request.id);
            notice.what = request.message;
        }
        Fact::StepFinished { path, outcome: StepOutcome::Failed(failure) } => {
            notice.what = failure.to_string();
            notice.command = explain_step(&notice.command, path);
        }
        Fact::FlowFinished { outcome, detail } => {
            let why = if detail.is_empty() { String::new() } else { format!(": {detail}") };
            notice.what = format!("`{}` ended {}{why}", spec.name, outcome.word());
        }
        _ => return Ok(None),
    }
    Ok(Some(notice))
}

fn explain_step(command: &str, path: &StepPath) -> String {
    format!("{command} --step '{path}'")
}

/// Tells one target, again after each of these waits; once more at most when the program is asked to end.
async fn attempt(shell: &Shell, target: usize, notice: &Notice, again: &[Millis]) -> Result<(), String> {
    let ending = shell.tasks.ending();
    let mut again = again.iter();
    loop {
        let Err(error) = shell.notifier.deliver(target, notice).await else { return Ok(()) };
        let wait = again.next().filter(|_| error.may_pass() && !ending.is_cancelled());
        let Some(wait) = wait else { return Err(chain(&error)) };
        tokio::select! {
            () = shell.clock.sleep(*wait) => {}
            () = ending.cancelled() => {}
        }
    }
}

/// Writes down who did not get it, and forgets it of those who took it.
fn remember(
    shell: &Shell,
    known: Vec<Undelivered>,
    notice: &Notice,
    told: Vec<(String, Option<String>)>,
) -> Result<(), String> {
    let mut next = known.clone();
    for (to, failure) in told {
        match failure {
            None => next.retain(|one| one.to != to),
            Some(why) => {
                tracing::warn!(to, why, key = notice.key, "a notice could not be delivered");
                next.retain(|one| one.key != notice.key || one.to != to);
                let (key, what) = (notice.key.clone(), notice.what.clone());
                next.push(Undelivered { at: shell.clock.now(), to, key, what, why });
            }
        }
    }
    if next == known {
        return Ok(());
    }
    let kept = next.iter().skip(next.len().saturating_sub(REMEMBERED));
    let text = kept.filter_map(|one| serde_json::to_string(one).ok()).map(|line| line + "\n").collect::<String>();
    let (path, new) = (file(&shell.data), shell.data.root().join("undelivered.new"));
    let written = if text.is_empty() {
        std::fs::remove_file(&path)
            .or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
    } else {
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path))
    };
    written.map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}
