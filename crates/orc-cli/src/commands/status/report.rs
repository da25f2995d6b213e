//! The answer of `status`, as text and as the document `orc/status/1`.

use orc_domain::action::OnTimeout;
use orc_domain::agent::Usage;
use orc_domain::flow::{Flow, Step};
use orc_domain::ids::{FlowId, RunId};
use orc_domain::path::StepPath;
use orc_domain::request::{Request, RequestState};
use orc_domain::time::Timestamp;
use orc_ports::reader::Totals;
use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::evidence::{Carrier, Says};
use crate::explanation::{Explanation, answer, as_text, closing, who_may};
use crate::view::agent::{usage_document, usage_words};
use crate::view::columns::{Columns, clean_line};
use crate::view::flow::ago;
use crate::view::place::{Places, listed};

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
    /// What the agents of the live flows that are shown have used.
    live_usage: Value,
    #[serde(skip)]
    used: Usage,
    /// `required` or `off`; `unknown` while the settings have mistakes.
    sandbox: &'static str,
    /// Who said so.
    sandbox_origin: Option<String>,
    /// Steps of live flows that work in the user's checkout, without a box.
    in_place: Vec<InPlace>,
    flows_not_shown: u64,
    pub(crate) steps_not_shown: usize,
    #[serde(skip)]
    carrier: Carrier,
}

/// Something that a person must look at.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Need {
    /// `holder`, `left`, `request`, `incident`, `paused`, `behind_paused`, `undelivered`.
    pub(crate) kind: &'static str,
    pub(crate) flow: Option<FlowId>,
    pub(crate) step: Option<StepPath>,
    #[serde(serialize_with = "as_optional_text")]
    pub(crate) since: Option<Timestamp>,
    pub(crate) what: String,
    /// Who can do something about it, where that is not everybody.
    pub(crate) who: Option<String>,
    /// When it ends by itself, and how.
    #[serde(serialize_with = "as_optional_text")]
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) then: Option<&'static str>,
    #[serde(skip)]
    pub(crate) on_timeout: Option<OnTimeout>,
    pub(crate) command: Option<String>,
}

impl Need {
    /// About the process that carries flows on.
    pub(crate) fn holder(what: String) -> Self {
        Self { kind: "holder", what, command: Some("orchestrator doctor".to_owned()), ..Self::default() }
    }

    /// What waits for people.
    pub(crate) fn request(request: &Request) -> Self {
        let (since, deadline) = match request.state {
            RequestState::Open { since, deadline, .. } => (Some(since), Some(deadline)),
            RequestState::Resolved { .. } => (None, None),
        };
        let then = match request.on_timeout {
            OnTimeout::Deny => "denied",
            OnTimeout::Approve => "approved",
        };
        Self {
            kind: "request",
            flow: Some(request.flow),
            step: request.step.as_ref().map(|(_, path)| path.clone()),
            since,
            what: format!("{}: {}", request.kind.word(), clean_line(&request.message, REASON)),
            who: Some(who_may(request)),
            deadline,
            then: Some(then),
            on_timeout: Some(request.on_timeout),
            command: answer(request).into_iter().next(),
        }
    }

    fn text(&self, now: Timestamp) -> String {
        let flow = self.flow.map_or_else(String::new, |flow| format!("{flow}  "));
        let step = self.step.as_ref().map_or_else(String::new, |step| format!("{step}  "));
        let since = self.since.map_or_else(String::new, |since| format!(", for {}", now.since(since)));
        let who = self.who.as_ref().map_or_else(String::new, |who| format!("; for {}", clean_line(who, NAME)));
        let then = match (self.deadline, self.on_timeout) {
            (Some(deadline), Some(on_timeout)) => format!("; {}", closing(on_timeout, deadline, now)),
            (Some(deadline), None) => format!("; until {deadline}"),
            (None, _) => String::new(),
        };
        let mut text = format!("  ! {flow}{step}{}{since}{who}{then}\n", clean_line(&self.what, 2 * REASON));
        if let Some(command) = &self.command {
            text.push_str(&format!("      {command}\n"));
        }
        text
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
    /// The agent; none: a command.
    pub(crate) agent: Option<String>,
    /// How the agent does; none: a command, or nothing to judge by yet.
    pub(crate) liveness: Option<&'static str>,
    /// What the agent has used so far, as it told.
    pub(crate) usage: Option<Value>,
    #[serde(skip)]
    pub(crate) usage_words: Option<String>,
    /// Why it was asked to end, if it was.
    pub(crate) stopping: Option<&'static str>,
}

/// Steps of a flow that work without a box.
#[derive(Debug, Serialize)]
struct InPlace {
    flow: FlowId,
    pipeline: String,
    steps: Vec<String>,
}

/// A step that waits, or a flow as a whole.
#[derive(Debug, Serialize)]
pub(crate) struct Waiting {
    pub(crate) flow: FlowId,
    pub(crate) pipeline: String,
    pub(crate) step: Option<StepPath>,
    pub(crate) state: &'static str,
    #[serde(serialize_with = "as_text")]
    pub(crate) since: Timestamp,
    pub(crate) reason: String,
    pub(crate) unblocked_by: String,
    pub(crate) command: Option<String>,
}

impl Waiting {
    /// A step, or none for the whole flow, with its explanation.
    pub(crate) fn of(flow: &Flow, step: Option<&Step>, said: Explanation) -> Self {
        Self {
            flow: flow.spec.id,
            pipeline: flow.spec.name.clone(),
            step: step.map(|step| step.path.clone()),
            state: said.state,
            since: said.since,
            reason: said.reason,
            unblocked_by: said.unblocked_by,
            command: said.hints.into_iter().next(),
        }
    }
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
    /// What its agents used.
    pub(crate) usage: Value,
    #[serde(skip)]
    pub(crate) usage_words: Option<String>,
}

fn as_optional_text<S: serde::Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}

impl Report {
    pub(crate) fn new(context: &Context, carrier: &Carrier, totals: Totals, shown: usize) -> Self {
        // Mistakes in them are no reason to show nothing; `doctor` tells of them.
        let settings = context.known_settings();
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
            live_usage: usage_document(&Usage::default()),
            used: Usage::default(),
            sandbox: settings.as_ref().map_or("unknown", |settings| settings.sandbox.value.word()),
            sandbox_origin: settings.map(|settings| settings.sandbox.origin.to_string()),
            in_place: Vec::new(),
            steps_not_shown: 0,
            carrier: carrier.clone(),
        }
    }

    /// Adds the steps of a live flow that work without a box.
    pub(crate) fn add_places(&mut self, flow: &Flow, places: Places) {
        if !places.in_place.is_empty() {
            let (flow, pipeline) = (flow.spec.id, flow.spec.name.clone());
            self.in_place.push(InPlace { flow, pipeline, steps: places.in_place });
        }
    }

    /// Adds what the agents of a live flow have used.
    pub(crate) fn add_usage(&mut self, usage: Usage) {
        self.used = self.used.plus(usage);
        self.live_usage = usage_document(&self.used);
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
            (
                &["holder", "totals", "live_usage", "sandbox", "in_place"],
                format!("totals\n{}", self.figures(now).text("  ")),
            ),
        ]
    }

    fn recent_text(&self, now: Timestamp) -> String {
        let mut recent = Columns::new();
        for flow in &self.recent {
            let took = format!("took {}", flow.finished_at.since(flow.created_at));
            let used = flow.usage_words.as_deref().unwrap_or_default();
            recent.row([
                &flow.flow.to_string(),
                &flow.pipeline,
                flow.outcome,
                &ago(flow.finished_at, now),
                &took,
                used,
            ]);
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
        text.extend(self.needs_you.iter().map(|need| need.text(now)));
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
            let mut output = match run.last_output_at {
                Some(at) => format!("last output {}", ago(at, now)),
                None => "no output yet".to_owned(),
            };
            if let Some(stopping) = run.stopping {
                output = format!("{output}, was asked to end: {stopping}");
            }
            let agent = match (&run.agent, run.liveness) {
                (None, _) => String::new(),
                (Some(agent), Some(liveness)) => format!("{agent}: {liveness}"),
                (Some(agent), None) => format!("{agent}: not known yet"),
            };
            let age = format!("for {}", now.since(run.since));
            rows.row([
                &short(run.flow),
                &clean_line(&run.pipeline, NAME),
                run.step.as_str(),
                &age,
                &process,
                &output,
                &clean_line(&agent, NAME),
                run.usage_words.as_deref().unwrap_or_default(),
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
                short(step.flow).as_str(),
                &clean_line(&step.pipeline, NAME),
                &step.step.as_ref().map_or_else(|| "(the flow)".to_owned(), ToString::to_string),
                &age,
                &clean_line(&step.reason, REASON),
                &format!("by: {}", clean_line(&step.unblocked_by, REASON)),
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
        let (live, over) = (totals.live_flows, totals.finished_flows);
        let (queued, waiting) = (totals.queued_flows, totals.waiting_flows);
        let idle = [(waiting, "without a run"), (queued, "queued")].into_iter().filter(|(count, _)| *count > 0);
        let idle: Vec<String> = idle.map(|(count, what)| format!("{count} {what}")).collect();
        let idle = if idle.is_empty() { String::new() } else { format!(" ({})", idle.join(", ")) };
        let flows = format!("{live} live{idle}, {over} finished");
        figures.row(["flows", &flows]);
        figures.row(["requests", &format!("{} wait for an answer", totals.open_requests)]);
        let used = usage_words(&self.used).unwrap_or_else(|| "nothing that was told".to_owned());
        figures.row(["usage", &format!("{used} (agents of the live flows above)")]);
        figures.row(["runs", &format!("{} live", totals.live_runs)]);
        figures.row(["effects", &format!("{} to be delivered", totals.pending_effects)]);
        figures.row(["events", &format!("{}", totals.last_event)]);
        figures.row(["store", &format!("{} in {}", bytes(totals.bytes), self.data_directory)]);
        let origin = self.sandbox_origin.as_deref().unwrap_or("the settings have mistakes");
        figures.row(["sandbox", &format!("{} ({origin})", self.sandbox)]);
        for one in &self.in_place {
            let places = format!("{} of {} {}", listed(&one.steps), clean_line(&one.pipeline, NAME), short(one.flow));
            figures.row(["", &format!("without a box, in place: {places}")]);
        }
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
