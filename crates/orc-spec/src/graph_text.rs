//! Pictures of a pipeline as text: Mermaid and DOT, with the states of a flow's steps if there are any. Arrows lead from a
//! step to those that wait for it.

use std::fmt::Write as _;

use orc_domain::graph::{Action, Elements, PhaseKind, Pipeline, RepeatAction, SpecIndex, StepSpec, WaitAction};

/// How a step of a flow stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its colour.
    pub tone: Tone,
    /// The same in words, which may say more.
    pub words: String,
}

/// What a state means to whoever looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Not begun.
    Waits,
    /// Going on.
    Runs,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Will not be done.
    Skipped,
}

impl Tone {
    const ALL: [Self; 5] = [Self::Waits, Self::Runs, Self::Succeeded, Self::Failed, Self::Skipped];

    /// The name of its class.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Runs => "runs",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// A colour that can be told from black and white and from each other.
    const fn colour(self) -> &'static str {
        match self {
            Self::Waits => "#59636e",
            Self::Runs => "#0969da",
            Self::Succeeded => "#1a7f37",
            Self::Failed => "#cf222e",
            Self::Skipped => "#818b98",
        }
    }
}

/// As a Mermaid flowchart. Steps of `finally` stand in a box of their own, reached by a dotted arrow, and so does each body
/// of a `repeat`. `marks` are the states of the steps by their position, or nothing.
#[must_use]
pub fn to_mermaid(pipeline: &Pipeline, marks: &[Mark]) -> String {
    let mut text = String::from("flowchart TD\n");
    let has_finally = pipeline.steps.iter().any(is_finally);
    for (phase, title) in [(PhaseKind::Main, "steps"), (PhaseKind::Finally, "finally")] {
        let indent = if has_finally { "    " } else { "  " };
        if has_finally {
            line(&mut text, format_args!("  subgraph {title}"));
        }
        mermaid_level(&mut text, pipeline, marks, Level { within: None, phase, indent });
        if has_finally {
            line(&mut text, format_args!("  end"));
        }
    }
    for (from, to) in edges(pipeline) {
        line(&mut text, format_args!("  s{from} --> s{to}"));
    }
    for (from, to) in ways_in(pipeline) {
        line(&mut text, format_args!("  s{from} -.-> s{to}"));
    }
    if has_finally {
        line(&mut text, format_args!("  steps -.-> finally"));
    }
    for tone in Tone::ALL.into_iter().filter(|tone| marks.iter().any(|mark| mark.tone == *tone)) {
        line(&mut text, format_args!("  classDef {} stroke:{},stroke-width:2px", tone.word(), tone.colour()));
    }
    text
}

/// Steps that stand beside each other, and how far in they are written.
#[derive(Clone, Copy)]
struct Level<'a> {
    within: Option<SpecIndex>,
    phase: PhaseKind,
    indent: &'a str,
}

impl Level<'_> {
    fn steps<'p>(&self, pipeline: &'p Pipeline) -> Vec<(usize, &'p StepSpec)> {
        let here = |(_, step): &(usize, &StepSpec)| step.within == self.within && step.phase == self.phase;
        pipeline.steps.iter().enumerate().filter(here).collect()
    }

    /// The body of one of its steps.
    fn body<'a>(&self, at: usize, indent: &'a str) -> Level<'a> {
        Level { within: Some(SpecIndex(u32::try_from(at).unwrap_or(u32::MAX))), phase: self.phase, indent }
    }
}

fn mermaid_level(text: &mut String, pipeline: &Pipeline, marks: &[Mark], level: Level<'_>) {
    let indent = level.indent;
    for (at, step) in level.steps(pipeline) {
        let mark = marks.get(at);
        let parts = label(step).chain(mark.map(|mark| mark.words.clone()));
        let label = parts.map(|part| mermaid_text(&part)).collect::<Vec<_>>().join("<br>");
        let class = mark.map_or_else(String::new, |mark| format!(":::{}", mark.tone.word()));
        line(text, format_args!("{indent}s{at}[\"{label}\"]{class}"));
        if let Action::Repeat(_) = step.action {
            line(text, format_args!("{indent}subgraph b{at}[\"{}\"]", mermaid_text(&body_title(step))));
            mermaid_level(text, pipeline, marks, level.body(at, &format!("{indent}  ")));
            line(text, format_args!("{indent}end"));
        }
    }
}

/// As a DOT digraph for Graphviz. `marks` are the states of the steps by their position, or nothing.
#[must_use]
pub fn to_dot(pipeline: &Pipeline, marks: &[Mark]) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("digraph {} {{", dot_text(&pipeline.name)));
    line(&mut text, format_args!("  node [shape=box];"));
    for phase in [PhaseKind::Main, PhaseKind::Finally] {
        dot_level(&mut text, pipeline, marks, Level { within: None, phase, indent: "  " });
    }
    for (from, to) in edges(pipeline) {
        line(&mut text, format_args!("  s{from} -> s{to};"));
    }
    for (from, to) in ways_in(pipeline) {
        line(&mut text, format_args!("  s{from} -> s{to} [style=dotted];"));
    }
    line(&mut text, format_args!("}}"));
    text
}

fn dot_level(text: &mut String, pipeline: &Pipeline, marks: &[Mark], level: Level<'_>) {
    let indent = level.indent;
    for (at, step) in level.steps(pipeline) {
        let mark = marks.get(at);
        let label = label(step).chain(mark.map(|mark| mark.words.clone())).collect::<Vec<_>>().join("\n");
        let style = if is_finally(step) { ", style=dashed" } else { "" };
        let colour = mark.map_or_else(String::new, |mark| format!(", color={}", dot_text(mark.tone.colour())));
        line(text, format_args!("{indent}s{at} [label={}{style}{colour}];", dot_text(&label)));
        if let Action::Repeat(_) = step.action {
            line(text, format_args!("{indent}subgraph cluster_{at} {{"));
            line(text, format_args!("{indent}  label={};", dot_text(&body_title(step))));
            dot_level(text, pipeline, marks, level.body(at, &format!("{indent}  ")));
            line(text, format_args!("{indent}}}"));
        }
    }
}

fn body_title(step: &StepSpec) -> String {
    format!("each round of {}", step.key)
}

pub(crate) fn is_finally(step: &StepSpec) -> bool {
    step.phase == PhaseKind::Finally
}

/// Name, what it does where that is no command, fan-out and condition, a line each.
pub(crate) fn label(step: &StepSpec) -> impl Iterator<Item = String> {
    let fan = step.fan.as_ref().map(|fan| match &fan.elements {
        Elements::List { binding, .. } => format!("for each {binding}"),
        Elements::Matrix(cells) => format!("matrix of {}", cells.len()),
    });
    let condition = step.condition.expr.as_ref().map(|expr| format!("if {expr}"));
    std::iter::once(step.key.clone()).chain(what(&step.action)).chain(fan).chain(condition)
}

fn what(action: &Action) -> Option<String> {
    Some(match action {
        Action::Run(_) => return None,
        Action::Agent(agent) => format!("agent {}", agent.agent),
        Action::Repeat(RepeatAction { max, until: Some(until), .. }) => format!("at most {max} rounds, until {until}"),
        Action::Repeat(RepeatAction { max, .. }) => format!("{max} rounds"),
        Action::Pipeline(child) => format!("pipeline {}", child.name),
        Action::Approval(approval) if approval.by.is_empty() => "approval".to_owned(),
        Action::Approval(approval) => format!("approval by {}", approval.by.join(", ")),
        Action::Wait(WaitAction::For(length)) => format!("wait {length}"),
        Action::Wait(WaitAction::Until(time)) => format!("wait until {time}"),
        Action::Wait(WaitAction::Event { event, pipeline: None, .. }) => format!("wait for {}", event.word()),
        Action::Wait(WaitAction::Event { event, pipeline: Some(name), .. }) => {
            format!("wait for {} of {name}", event.word())
        }
    })
}

/// From each `repeat` to the steps that begin its body.
pub(crate) fn ways_in(pipeline: &Pipeline) -> impl Iterator<Item = (u32, usize)> {
    let beginnings = pipeline.steps.iter().enumerate().filter(|(_, step)| step.needs.is_empty());
    beginnings.filter_map(|(at, step)| step.within.map(|within| (within.0, at)))
}

pub(crate) fn edges(pipeline: &Pipeline) -> impl Iterator<Item = (u32, usize)> {
    pipeline.steps.iter().enumerate().flat_map(|(to, step)| step.needs.iter().map(move |need| (need.0, to)))
}

/// Mermaid reads `#code;` in a quoted label as a character.
fn mermaid_text(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        if char.is_alphanumeric() || matches!(char, ' ' | '_' | '-' | '.' | ',' | '(' | ')' | '=' | '!' | '\'' | '/') {
            escaped.push(char);
        } else {
            let _ = write!(escaped, "#{};", u32::from(char));
        }
    }
    escaped
}

fn dot_text(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(arguments);
    text.push('\n');
}

#[cfg(test)]
mod tests;
