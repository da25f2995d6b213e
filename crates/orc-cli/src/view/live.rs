//! A run on a terminal: one line per step, drawn again in place.
//!
//! Drawn at most ten times a second. When the terminal has fewer lines than the flow has steps, those that run, that
//! failed and that will go on are shown, and the others are counted.

use std::fmt::Write as _;
use std::io::Stderr;

use orc_domain::event::Event;
use orc_domain::flow::StepOutcome;
use orc_domain::path::StepPath;
use orc_domain::time::{Millis, Timestamp};

use super::View;
use super::canvas::Canvas;
use super::columns::clean_line;
use super::progress::{Progress, Shown, StepProgress};
use crate::typed::Typed;

/// Characters of a question.
const MESSAGE: usize = 200;
/// Shortest time between two drawings.
const FRAME: Millis = Millis::from_millis(100);

/// The drawing on standard error.
pub(crate) struct Live {
    progress: Progress,
    title: String,
    colour: bool,
    /// A person may answer here.
    can_type: bool,
    canvas: Canvas<Stderr>,
    drawn_at: Option<Timestamp>,
    stale: bool,
}

impl Live {
    pub(crate) fn new(progress: Progress, title: String, colour: bool) -> Self {
        let (can_type, canvas) = (Typed::is_possible(), Canvas::new(std::io::stderr()));
        Self { progress, title, colour, can_type, canvas, drawn_at: None, stale: true }
    }

    fn draw(&mut self, now: Timestamp) {
        let lines = self.lines(now, self.canvas.room());
        self.drawn_at = Some(now);
        self.stale = false;
        // A terminal that is gone needs no drawing.
        let _ = self.canvas.draw(&lines);
    }

    fn lines(&self, now: Timestamp, room: usize) -> Vec<String> {
        let (running, finished, all) = self.progress.counts();
        let age = self.progress.began_at.map_or(Millis::ZERO, |began| now.since(began));
        let mut head = format!("{}  {finished}/{all} steps done, {running} running, {age}", self.title);
        if let Some((by, force)) = &self.progress.cancel {
            let _ = write!(head, "  (cancelled by {by}{})", if *force { ", at once" } else { "" });
        }
        let mut lines = vec![head];
        let asked = self.asked(now);
        let room = room.saturating_sub(asked.len()).max(2);
        let steps = self.progress.ordered();
        let width = self.progress.name_width();
        if steps.len() < room {
            lines.extend(steps.iter().map(|step| self.step(step, width, now)));
            lines.extend(asked);
            return lines;
        }
        let runs = |step: &&StepProgress| matches!(step.state, Shown::Running { .. } | Shown::Stopping { .. });
        let failed = |step: &&StepProgress| matches!(step.state, Shown::Finished(StepOutcome::Failed(_)));
        let goes_on = |step: &&StepProgress| {
            matches!(step.state, Shown::Retrying { .. } | Shown::Waits { .. })
                || (step.state == Shown::Waiting && step.elements.is_some())
        };
        let all = || steps.iter().copied();
        let shown = all().filter(runs).chain(all().filter(failed)).chain(all().filter(goes_on));
        lines.extend(shown.take(room.saturating_sub(2)).map(|step| self.step(step, width, now)));
        let hidden = steps.len() - (lines.len() - 1);
        lines.push(format!("  ... and {hidden} more"));
        lines.extend(asked);
        lines
    }

    /// What waits for an answer, and how to give it.
    fn asked(&self, now: Timestamp) -> Vec<String> {
        let Some(asked) = self.progress.asked.first() else { return Vec::new() };
        let who = if asked.by.is_empty() { "an admin".to_owned() } else { asked.by.join(", ") };
        let of = asked.path.as_ref().map_or("the flow", StepPath::as_str);
        let (message, left) = (clean_line(&asked.message, MESSAGE), asked.deadline.since(now));
        let more = match self.progress.asked.len() {
            1 => String::new(),
            several => format!(", and {} more", several - 1),
        };
        let mark = if self.colour { "\x1b[33m?\x1b[0m" } else { "?" };
        let id = asked.request;
        let command = if asked.is_question {
            format!("orchestrator message {id} TEXT")
        } else {
            format!("orchestrator approvals approve {id}")
        };
        let mut lines = vec![format!("  {mark} {of}: {message} (for {who}, for {left} more{more})")];
        if self.can_type {
            let here = if asked.is_question { "type the answer (/deny: none)" } else { "type y or n (and why)" };
            lines.push(format!("    {here}, then Enter; or elsewhere:"));
        }
        lines.push(format!("    {command}"));
        lines
    }

    fn step(&self, step: &StepProgress, width: usize, now: Timestamp) -> String {
        let (mark, code) = match &step.state {
            Shown::Waiting if step.elements.is_some() => ("▸", "36"),
            Shown::Waiting => ("·", "2"),
            Shown::Waits { .. } => ("◦", "36"),
            Shown::Running { .. } => ("▸", "36"),
            Shown::Retrying { .. } => ("↻", "33"),
            Shown::Stopping { .. } => ("■", "33"),
            Shown::Finished(StepOutcome::Succeeded | StepOutcome::NoChange) => ("✓", "32"),
            Shown::Finished(StepOutcome::Failed(_)) => ("✗", "31"),
            Shown::Finished(StepOutcome::Skipped(_) | StepOutcome::Cancelled) => ("-", "2"),
        };
        let mark = if self.colour { format!("\x1b[{code}m{mark}\x1b[0m") } else { mark.to_owned() };
        step.line(&mark, width, now)
    }
}

impl View for Live {
    fn events(&mut self, events: &[Event], now: Timestamp) {
        for event in events {
            self.progress.apply(event);
        }
        self.stale = true;
        if self.drawn_at.is_none_or(|at| now.since(at) >= FRAME) {
            self.draw(now);
        }
    }

    fn note(&mut self, text: &str) {
        let _ = self.canvas.wipe();
        crate::output::say(text);
        self.stale = true;
        self.drawn_at = None;
    }

    fn takes_answers(&self) -> bool {
        self.can_type
    }

    fn typed(&mut self) {
        self.canvas.typed(1);
        self.stale = true;
    }

    fn tick(&mut self, now: Timestamp) {
        // What is being typed would be drawn over.
        if self.stale || self.progress.asked.is_empty() || !self.can_type {
            self.draw(now);
        }
    }

    fn end(&mut self) {
        // The result says what the drawing said, and stays.
        let _ = self.canvas.wipe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::progress::Asked;
    use orc_domain::ids::RequestId;

    #[test]
    fn what_is_asked_stands_below_the_steps_with_how_to_answer() {
        let mut progress = Progress::of_steps(["build", "ask"]);
        let request = RequestId::from_uuid(uuid::Uuid::nil());
        progress.asked.push(Asked {
            request,
            path: Some(StepPath::root("ask")),
            is_question: false,
            message: "May it\x1b[2J go?".to_owned(),
            by: vec!["ann".to_owned()],
            deadline: Timestamp::from_millis(90_000),
        });
        let mut live = Live::new(progress, "ship".to_owned(), false);
        live.can_type = true;
        let now = Timestamp::from_millis(0);
        let command = format!("    orchestrator approvals approve {request}");
        let asked = [
            "  ? ask: May it\\u{1b}[2J go? (for ann, for 1m30s more)",
            "    type y or n (and why), then Enter; or elsewhere:",
        ];
        let lines = live.lines(now, 20);
        assert_eq!(lines[lines.len() - 3..], [asked[0], asked[1], &command]);
        assert_eq!(live.lines(now, 5).last(), Some(&command), "a small terminal shows it too");
        (live.can_type, live.progress.asked[0].is_question) = (false, true);
        let lines = live.lines(now, 20);
        assert_eq!(lines.last(), Some(&format!("    orchestrator message {request} TEXT")));
        live.progress.asked.clear();
        assert_eq!(live.lines(now, 20).len(), 3);
    }
}
