//! A run on a terminal: one line per step, drawn again in place.
//!
//! Drawn at most ten times a second. When the terminal has fewer lines than the flow has steps, those that run, that
//! failed and that will go on are shown, and the others are counted.

use std::fmt::Write as _;
use std::io::Stderr;

use orc_domain::event::Event;
use orc_domain::flow::StepOutcome;
use orc_domain::time::{Millis, Timestamp};

use super::View;
use super::canvas::Canvas;
use super::progress::{Progress, Shown, StepProgress};

/// Shortest time between two drawings.
const FRAME: Millis = Millis::from_millis(100);

/// The drawing on standard error.
pub(crate) struct Live {
    progress: Progress,
    title: String,
    colour: bool,
    canvas: Canvas<Stderr>,
    drawn_at: Option<Timestamp>,
    stale: bool,
}

impl Live {
    pub(crate) fn new(progress: Progress, title: String, colour: bool) -> Self {
        Self { progress, title, colour, canvas: Canvas::new(std::io::stderr()), drawn_at: None, stale: true }
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
        let steps = self.progress.ordered();
        let width = self.progress.name_width();
        if steps.len() < room {
            lines.extend(steps.iter().map(|step| self.step(step, width, now)));
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

    fn tick(&mut self, now: Timestamp) {
        self.draw(now);
    }

    fn end(&mut self) {
        // The result says what the drawing said, and stays.
        let _ = self.canvas.wipe();
    }
}
