//! The answer of `status`, as text and as the document `orc/status/1`.

use orc_domain::ids::{FlowId, RunId};
use orc_domain::path::StepPath;
use orc_domain::time::Timestamp;
use orc_ports::reader::Totals;
use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::evidence::{Carrier, Says};
use crate::explanation::as_text;
use crate::view::columns::{Columns, clean_line};
use crate::view::flow::ago;

/// Characters of a reason.
const REASON: usize = 120;
/// Characters of a pipeline's name in a row.
const NAME: usize = 30;
/// Characters of an id that are shown; enough to name it.
const SHORT_ID: usize = 8;

/// Everything that `status` says.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    data_directory: String,
    holder: Value,
    pub(crate) needs_you: Vec<Need>,
    pub(crate) running: Vec<Running>,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) recent: Vec<Recent>,
    totals: Totals,
    sandbox: &'static str,
    worktree: &'static str,
    flows_not_shown: u64,
    pub(crate) steps_not_shown: usize,
    #[serde(skip)]
    carrier: Carrier,
}

/// Something that a person must look at.
#[derive(Debug, Serialize)]
pub(crate) struct Need {
    pub(crate) flow: Option<FlowId>,
    pub(crate) step: Option<StepPath>,
    #[serde(serialize_with = "as_optional_text")]
    pub(crate) since: Option<Timestamp>,
    pub(crate) what: String,
    pub(crate) command: Option<String>,
}

impl Need {
    /// About the process that carries flows on.
    pub(crate) const fn holder(what: String) -> Self {
        Self { flow: None, step: None, since: None, what, command: None }
    }
}

/// A step that a run tries.
#[derive(Debug, Serialize)]
pub(crate) struct Running {
    pub(crate) flow: FlowId,
    pub(crate) pipeline: String,
    pub(crate) step: StepPath,
    pub(crate) run: RunId,
    pub(crate) attempt: u32,
    #[serde(serialize_with = "as_text")]
    pub(crate) since: Timestamp,
    pub(crate) pid: Option<i32>,
    pub(crate) process: Option<&'static str>,
    #[serde(serialize_with = "as_optional_text")]
    pub(crate) last_output_at: Option<Timestamp>,
}

/// A step that waits.
#[derive(Debug, Serialize)]
pub(crate) struct Waiting {
    pub(crate) flow: FlowId,
    pub(crate) pipeline: String,
    pub(crate) step: StepPath,
    #[serde(serialize_with = "as_text")]
    pub(crate) since: Timestamp,
    pub(crate) reason: String,
}

/// A flow that is over.
#[derive(Debug, Serialize)]
pub(crate) struct Recent {
    pub(crate) flow: FlowId,
    pub(crate) pipeline: String,
    pub(crate) outcome: &'static str,
    #[serde(serialize_with = "as_text")]
    pub(crate) created_at: Timestamp,
    #[serde(serialize_with = "as_text")]
    pub(crate) finished_at: Timestamp,
}

fn as_optional_text<S: serde::Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}

impl Report {
    pub(crate) fn new(context: &Context, carrier: &Carrier, totals: Totals, shown: usize) -> Self {
        Self {
            schema: "orc/status/1",
            data_directory: context.data.root().display().to_string(),
            holder: holder_document(carrier),
            needs_you: Vec::new(),
            running: Vec::new(),
            waiting: Vec::new(),
            recent: Vec::new(),
            flows_not_shown: totals.live_flows.saturating_sub(shown as u64),
            totals,
            sandbox: "off",
            worktree: "in_place",
            steps_not_shown: 0,
            carrier: carrier.clone(),
        }
    }

    pub(crate) fn document(&self) -> Value {
        json!(self)
    }

    /// For people.
    pub(crate) fn text(&self, now: Timestamp) -> String {
        // Whoever looks once is told of what needs them, and not that nothing does.
        let sections = self.sections(now).into_iter().skip(usize::from(self.needs_you.is_empty()));
        sections.map(|(_, text)| text).collect()
    }

    /// The members of the document that a section shows, and the section for people.
    pub(crate) fn sections(&self, now: Timestamp) -> [(&'static [&'static str], String); 5] {
        [
            (&["needs_you"], self.needs_text(now)),
            (&["running"], self.running_text(now)),
            (&["waiting", "flows_not_shown", "steps_not_shown"], self.waiting_text(now)),
            (&["recent"], self.recent_text(now)),
            (&["holder", "totals"], format!("totals\n{}", self.figures(now).text("  "))),
        ]
    }

    fn recent_text(&self, now: Timestamp) -> String {
        let mut recent = Columns::new();
        for flow in &self.recent {
            let took = format!("took {}", flow.finished_at.since(flow.created_at));
            recent.row([&flow.flow.to_string(), &flow.pipeline, flow.outcome, &ago(flow.finished_at, now), &took]);
        }
        let mut text = String::new();
        section(&mut text, "recent", &recent);
        text
    }

    fn needs_text(&self, now: Timestamp) -> String {
        if self.needs_you.is_empty() {
            return "needs you: nothing\n\n".to_owned();
        }
        let mut text = String::from("needs you\n");
        for need in &self.needs_you {
            let flow = need.flow.map_or_else(String::new, |flow| format!("{flow}  "));
            let step = need.step.as_ref().map_or_else(String::new, |step| format!("{step}  "));
            let since = need.since.map_or_else(String::new, |since| format!(", for {}", now.since(since)));
            text.push_str(&format!("  ! {flow}{step}{}{since}\n", clean_line(&need.what, 2 * REASON)));
            if let Some(command) = &need.command {
                text.push_str(&format!("      {command}\n"));
            }
        }
        text.push('\n');
        text
    }

    fn running_text(&self, now: Timestamp) -> String {
        let mut rows = Columns::new();
        for run in &self.running {
            let attempt = if run.attempt > 1 { format!("attempt {}", run.attempt) } else { String::new() };
            let process = match (run.pid, run.process) {
                (None, _) => "is being started".to_owned(),
                (Some(pid), Some("alive")) => format!("process {pid}"),
                (Some(pid), Some("gone")) => format!("process {pid} IS GONE"),
                (Some(pid), _) => format!("process {pid}, alive or not: unknown"),
            };
            let output = match run.last_output_at {
                Some(at) => format!("last output {}", ago(at, now)),
                None => "no output yet".to_owned(),
            };
            let age = format!("for {}", now.since(run.since));
            rows.row([
                &short(run.flow),
                &clean_line(&run.pipeline, NAME),
                run.step.as_str(),
                &age,
                &process,
                &output,
                &attempt,
            ]);
        }
        let mut text = String::new();
        section(&mut text, "running", &rows);
        text
    }

    fn waiting_text(&self, now: Timestamp) -> String {
        let mut rows = Columns::new();
        for step in &self.waiting {
            let age = format!("for {}", now.since(step.since));
            rows.row([
                &short(step.flow),
                &clean_line(&step.pipeline, NAME),
                step.step.as_str(),
                &age,
                &clean_line(&step.reason, REASON),
            ]);
        }
        let mut text = String::new();
        section(&mut text, "waiting", &rows);
        if self.steps_not_shown > 0 || self.flows_not_shown > 0 {
            // Replaces the empty line after the section.
            text.truncate(text.trim_end_matches('\n').len());
            let counted =
                [(self.steps_not_shown as u64, "more waiting step"), (self.flows_not_shown, "more live flow")];
            let counted = counted.iter().filter(|(count, _)| *count > 0);
            let counted = counted.map(|(count, what)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" }));
            text.push_str(&format!("\n  ... and {}\n\n", counted.collect::<Vec<_>>().join(", ")));
        }
        text
    }

    fn figures(&self, now: Timestamp) -> Columns {
        let totals = &self.totals;
        let mut figures = Columns::new();
        let (held, slots) = match &self.carrier {
            Carrier::Nobody if totals.live_flows > 0 => ("NOBODY, and flows are unfinished".to_owned(), None),
            Carrier::Nobody => ("nobody, and nothing is unfinished".to_owned(), None),
            Carrier::Process { holder, says } => {
                let age =
                    holder.as_ref().map_or_else(String::new, |holder| format!(", for {}", now.since(holder.since)));
                let slots = match says {
                    Says::Carries { slots, .. } => Some(*slots),
                    Says::Nothing(_) => None,
                };
                (format!("{}{age}", self.carrier.name()), slots)
            }
        };
        figures.row(["held by", &held]);
        let slots = match slots {
            Some(slots) => format!("{} of {slots} in use", totals.slots_used),
            None => format!("{} in use", totals.slots_used),
        };
        figures.row(["slots", &slots]);
        figures.row(["flows", &format!("{} live, {} finished", totals.live_flows, totals.finished_flows)]);
        figures.row(["runs", &format!("{} live", totals.live_runs)]);
        figures.row(["effects", &format!("{} to be delivered", totals.pending_effects)]);
        figures.row(["events", &format!("{}", totals.last_event)]);
        figures.row(["store", &format!("{} in {}", bytes(totals.bytes), self.data_directory)]);
        figures.row(["sandbox", "off (worktree: in_place)"]);
        figures
    }
}

/// A title, its rows, and an empty line; an empty section says so.
fn section(text: &mut String, title: &str, rows: &Columns) {
    if rows.is_empty() {
        text.push_str(&format!("{title}: nothing\n\n"));
    } else {
        text.push_str(&format!("{title}\n{}\n", rows.text("  ")));
    }
}

fn holder_document(carrier: &Carrier) -> Value {
    match carrier {
        Carrier::Nobody => json!(null),
        Carrier::Process { holder, says } => {
            let mut document = json!({
                "pid": holder.as_ref().map(|holder| holder.pid),
                "command": holder.as_ref().map(|holder| &holder.command),
                "since": holder.as_ref().map(|holder| holder.since.to_string()),
                "answers": matches!(says, Says::Carries { .. }),
            });
            if let Says::Carries { flows, slots, trouble } = says {
                document["flows"] = json!(flows);
                document["slots"] = json!(slots);
                document["trouble"] = json!(trouble);
            }
            document
        }
    }
}

/// The end of an id, which names it.
fn short(id: FlowId) -> String {
    let text = id.to_string();
    format!("…{}", &text[text.len().saturating_sub(SHORT_ID)..])
}

/// A size for people.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{}.{} {unit}", bytes / size, bytes % size * 10 / size),
        None => format!("{bytes} bytes"),
    }
}
