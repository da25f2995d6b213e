//! A run on a terminal: one line per step, drawn again in place.
//!
//! Drawn at most ten times a second. When the terminal has fewer lines than the flow has steps, those that run, that
//! failed and that will go on are shown, and the others are counted.
//!
//! Lines are written over, never cleared as a screen: a terminal may keep a screen that is cleared among the lines that
//! can be scrolled back to, and would keep every drawing.

use std::fmt::Write as _;
use std::io::Write as _;

use orc_domain::event::Event;
use orc_domain::flow::StepOutcome;
use orc_domain::time::{Millis, Timestamp};

use super::View;
use super::progress::{Progress, Shown, StepProgress};

/// Shortest time between two drawings.
const FRAME: Millis = Millis::from_millis(100);

/// The drawing on standard error.
pub(crate) struct Live {
    progress: Progress,
    title: String,
    colour: bool,
    drawn_lines: usize,
    drawn_at: Option<Timestamp>,
    stale: bool,
}

impl Live {
    pub(crate) fn new(progress: Progress, title: String, colour: bool) -> Self {
        Self { progress, title, colour, drawn_lines: 0, drawn_at: None, stale: true }
    }

    fn draw(&mut self, now: Timestamp) {
        let (width, height) = size();
        let lines = self.lines(now, height.saturating_sub(2).max(1));
        let mut frame = up(self.drawn_lines);
        for line in &lines {
            // A line that wraps would make the next drawing write over too little.
            let _ = writeln!(frame, "{}\x1b[K", cut(line, width));
        }
        frame.push_str("\x1b[J");
        self.drawn_lines = lines.len();
        self.drawn_at = Some(now);
        self.stale = false;
        let mut err = std::io::stderr().lock();
        // A terminal that is gone needs no drawing.
        let _ = err.write_all(frame.as_bytes()).and_then(|()| err.flush());
    }

    fn wipe(&mut self) -> String {
        let lines = std::mem::take(&mut self.drawn_lines);
        format!("{}{}{}", up(lines), "\x1b[K\n".repeat(lines), up(lines))
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
            matches!(step.state, Shown::Retrying { .. }) || (step.state == Shown::Waiting && step.elements.is_some())
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
        let wipe = self.wipe();
        let _ = write!(std::io::stderr(), "{wipe}");
        crate::output::say(text);
        self.stale = true;
        self.drawn_at = None;
    }

    fn tick(&mut self, now: Timestamp) {
        self.draw(now);
    }

    fn end(&mut self) {
        let wipe = self.wipe();
        // The result says what the drawing said, and stays.
        let _ = write!(std::io::stderr(), "{wipe}");
    }
}

/// Moves the cursor up.
fn up(lines: usize) -> String {
    // Zero would be read as one.
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A") }
}

/// Columns and lines of the terminal.
fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// The first `width` characters that show; escape sequences do not count.
fn cut(line: &str, width: usize) -> String {
    let (mut shown, mut escape, mut kept) = (0, false, String::with_capacity(line.len()));
    for c in line.chars() {
        match (escape, c) {
            (false, '\x1b') => escape = true,
            (true, 'm') => escape = false,
            (true, _) => {}
            (false, _) if c.is_control() => continue,
            (false, _) => {
                shown += 1;
                if shown > width.saturating_sub(1) {
                    break;
                }
            }
        }
        kept.push(c);
    }
    if kept.contains('\x1b') { kept + "\x1b[0m" } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_what_shows() {
        assert_eq!(cut("abcdef", 4), "abc");
        assert_eq!(cut("\x1b[32m✓\x1b[0m abc", 4), "\x1b[32m✓\x1b[0m a\x1b[0m");
        assert_eq!(cut("evil\rtext\x07", 80), "eviltext");
    }
}
