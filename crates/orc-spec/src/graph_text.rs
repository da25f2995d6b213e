//! Pictures of a pipeline as text: Mermaid and DOT. Arrows lead from a step to those that wait for it.

use std::fmt::Write as _;

use orc_domain::graph::{Elements, PhaseKind, Pipeline, StepSpec};

/// As a Mermaid flowchart. Steps of `finally` stand in a box of their own, reached by a dotted arrow.
#[must_use]
pub fn to_mermaid(pipeline: &Pipeline) -> String {
    let mut text = String::from("flowchart TD\n");
    let has_finally = pipeline.steps.iter().any(is_finally);
    for (phase, title) in [(PhaseKind::Main, "steps"), (PhaseKind::Finally, "finally")] {
        let steps = pipeline.steps.iter().enumerate().filter(|(_, step)| step.phase == phase);
        let indent = if has_finally { "    " } else { "  " };
        if has_finally {
            line(&mut text, format_args!("  subgraph {title}"));
        }
        for (at, step) in steps {
            let label = label(step).map(|part| mermaid_text(&part)).collect::<Vec<_>>().join("<br>");
            line(&mut text, format_args!("{indent}s{at}[\"{label}\"]"));
        }
        if has_finally {
            line(&mut text, format_args!("  end"));
        }
    }
    for (from, to) in edges(pipeline) {
        line(&mut text, format_args!("  s{from} --> s{to}"));
    }
    if has_finally {
        line(&mut text, format_args!("  steps -.-> finally"));
    }
    text
}

/// As a DOT digraph for Graphviz.
#[must_use]
pub fn to_dot(pipeline: &Pipeline) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("digraph {} {{", dot_text(&pipeline.name)));
    line(&mut text, format_args!("  node [shape=box];"));
    for (at, step) in pipeline.steps.iter().enumerate() {
        let label = label(step).collect::<Vec<_>>().join("\n");
        let style = if is_finally(step) { ", style=dashed" } else { "" };
        line(&mut text, format_args!("  s{at} [label={}{style}];", dot_text(&label)));
    }
    for (from, to) in edges(pipeline) {
        line(&mut text, format_args!("  s{from} -> s{to};"));
    }
    line(&mut text, format_args!("}}"));
    text
}

fn is_finally(step: &StepSpec) -> bool {
    step.phase == PhaseKind::Finally
}

/// Name, fan-out and condition, a line each.
fn label(step: &StepSpec) -> impl Iterator<Item = String> {
    let foreach = step.fan.as_ref().map(|fan| match &fan.elements {
        Elements::List { binding, .. } => format!("for each {binding}"),
        Elements::Matrix(cells) => format!("matrix of {}", cells.len()),
    });
    let condition = step.condition.expr.as_ref().map(|expr| format!("if {expr}"));
    std::iter::once(step.key.clone()).chain(foreach).chain(condition)
}

fn edges(pipeline: &Pipeline) -> impl Iterator<Item = (u32, usize)> {
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
