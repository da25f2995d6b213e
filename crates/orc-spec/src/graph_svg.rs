//! A pipeline, or a flow with the states of its steps, as one SVG file that needs nothing else: no script, no font, no
//! network. It follows the light or dark scheme of whoever shows it, and every state is a word, not only a colour.

use std::fmt::Write as _;

use orc_domain::graph::{PhaseKind, Pipeline};

use crate::graph_layout::{Layout, Size, place};
use crate::graph_text::{Mark, edges, is_finally, label, ways_in};

/// Space around the drawing.
const MARGIN: i64 = 24;
/// Width of a character, of a font whose characters are equally wide.
const CHARACTER: i64 = 8;
/// The same for characters that such fonts may draw twice as wide.
const WIDE_CHARACTER: i64 = 16;
/// Height of a line.
const LINE: i64 = 18;
/// Space between the text and the edge of its box.
const PADDING: i64 = 12;
/// Characters of a line; what is longer is cut.
const LONGEST: usize = 44;
/// Space between a frame and the boxes in it; its title stands there.
const FRAME: i64 = 16;

const STYLE: &str = "\
svg{--ink:#1f2328;--paper:#fff;--line:#818b98;--box:#f6f8fa;--good:#1a7f37;--bad:#cf222e;--run:#0969da;--off:#59636e}\
@media(prefers-color-scheme:dark){svg{--ink:#f0f6fc;--paper:#0d1117;--line:#9198a1;--box:#151b23;--good:#3fb950;--bad:#f85149;--run:#4493f8;--off:#9198a1}}\
.paper{fill:var(--paper)}text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:var(--ink);text-anchor:middle}\
.name{font-weight:700}.frame text{text-anchor:start;fill:var(--off)}.frame rect{fill:none;stroke:var(--line);stroke-dasharray:4 4}\
.step rect{fill:var(--box);stroke:var(--line);stroke-width:1.5}.arrow{fill:none;stroke:var(--line);stroke-width:1.5}\
.after{stroke-dasharray:2 4}.tip{fill:var(--line)}.more{font-size:12px}.word{font-size:12px;font-weight:700}\
.runs rect{stroke:var(--run);stroke-width:2.5}.runs .word{fill:var(--run)}\
.succeeded rect{stroke:var(--good)}.succeeded .word{fill:var(--good)}\
.failed rect{stroke:var(--bad);stroke-width:2.5}.failed .word{fill:var(--bad)}\
.skipped rect{stroke-dasharray:5 3}.skipped .word,.waits .word{fill:var(--off)}";

/// Draws a pipeline; `marks` are the states of its steps by their position, or nothing. `title` names the drawing.
#[must_use]
pub fn to_svg(pipeline: &Pipeline, marks: &[Mark], title: &str) -> String {
    let texts: Vec<Vec<String>> =
        pipeline.steps.iter().map(|step| label(step).map(|line| cut(&line)).collect()).collect();
    let sizes: Vec<Size> = pipeline
        .steps
        .iter()
        .enumerate()
        .map(|(at, step)| {
            let words = marks.get(at).map(|mark| mark.words.as_str());
            let lines = || texts[at].iter().map(String::as_str).chain(words);
            Size {
                width: lines().map(width).max().unwrap_or(0).max(6 * CHARACTER) + 2 * PADDING,
                height: i64::try_from(lines().count()).unwrap_or(1) * LINE + PADDING,
                part: usize::from(step.phase == PhaseKind::Finally),
            }
        })
        .collect();
    let own = edges(pipeline).map(|(from, to)| (from as usize, to));
    let arrows: Vec<(usize, usize)> = own.chain(ways_in(pipeline).map(|(from, to)| (from as usize, to))).collect();
    let layout = place(&sizes, &arrows);
    let into_body = |to: usize| pipeline.steps[to].within.is_some() && pipeline.steps[to].needs.is_empty();
    let mut svg = head(&layout, title, &description(pipeline, marks));
    frame(&mut svg, pipeline, &layout);
    for ((_, to), points) in arrows.iter().zip(&layout.arrows) {
        arrow(&mut svg, points, into_body(*to));
    }
    for (at, (texts, place)) in texts.iter().zip(&layout.boxes).enumerate() {
        let mark = marks.get(at);
        let class = mark.map_or(String::new(), |mark| format!(" {}", mark.tone.word()));
        let (x, y) = (place.x + MARGIN, place.y + MARGIN);
        let _ = write!(
            svg,
            "<g class=\"step{class}\"><rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"6\"/>",
            place.width, place.height
        );
        let names = std::iter::once("name").chain(std::iter::repeat("more"));
        let lines = names.zip(texts.iter().map(String::as_str)).chain(mark.map(|mark| ("word", mark.words.as_str())));
        for (line, (class, text)) in (1..).zip(lines) {
            let (x, y) = (x + place.width / 2, y + line * LINE);
            let _ = write!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(text));
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn head(layout: &Layout, title: &str, description: &str) -> String {
    let (width, height) = (layout.width + 2 * MARGIN, layout.height + 2 * MARGIN + FRAME);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"title desc\">\n<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n\
         <style>{STYLE}</style>\n<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path class=\"tip\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n",
        escaped(title),
        escaped(description),
    )
}

/// The drawing in words, for those who do not see it.
fn description(pipeline: &Pipeline, marks: &[Mark]) -> String {
    let step = |(at, step): (usize, &orc_domain::graph::StepSpec)| {
        let needs: Vec<&str> = step
            .needs
            .iter()
            .filter_map(|need| pipeline.steps.get(need.0 as usize))
            .map(|need| need.key.as_str())
            .collect();
        let after = if needs.is_empty() { String::new() } else { format!(" after {}", needs.join(", ")) };
        let part = match step.within.and_then(|within| pipeline.steps.get(within.0 as usize)) {
            Some(repeat) => format!(" (each round of {})", repeat.key),
            None if is_finally(step) => " (finally)".to_owned(),
            None => String::new(),
        };
        let words = marks.get(at).map_or_else(String::new, |mark| format!(": {}", mark.words));
        format!("{}{part}{after}{words}", step.key)
    };
    pipeline.steps.iter().enumerate().map(step).collect::<Vec<_>>().join("; ")
}

/// The frame around `finally`, and the arrow that leads from all other steps to it.
fn frame(svg: &mut String, pipeline: &Pipeline, layout: &Layout) {
    let in_frame = |wanted: bool| {
        let boxes = pipeline.steps.iter().zip(&layout.boxes);
        boxes.filter(move |(step, _)| is_finally(step) == wanted).map(|(_, place)| place)
    };
    let Some(top) = in_frame(true).map(|place| place.y).min() else { return };
    let (top, bottom) = (top + MARGIN - FRAME - LINE, layout.height + MARGIN + FRAME);
    let (left, width) = (MARGIN - FRAME, layout.width + 2 * FRAME);
    let _ = writeln!(
        svg,
        "<g class=\"frame\"><rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{}\" rx=\"8\"/>\
         <text x=\"{}\" y=\"{}\">finally</text></g>",
        bottom - top,
        left + 8,
        top + LINE - 4,
    );
    if let Some(above) = in_frame(false).map(|place| place.y + place.height).max() {
        let x = MARGIN + layout.width / 2;
        let _ = writeln!(
            svg,
            "<path class=\"arrow after\" marker-end=\"url(#tip)\" d=\"M{x} {}L{x} {top}\"/>",
            above + MARGIN + 6
        );
    }
}

/// Dotted when it leads into a body.
fn arrow(svg: &mut String, points: &[(i64, i64)], is_dotted: bool) {
    let mut path = String::new();
    for (at, (x, y)) in points.iter().map(|(x, y)| (x + MARGIN, y + MARGIN)).enumerate() {
        let _ = match at.checked_sub(1).map(|before| (before, points[before])) {
            None => write!(path, "M{x} {y}"),
            Some((before, _)) if before % 2 == 0 => write!(path, "L{x} {y}"),
            Some((_, (from_x, from_y))) => {
                let (from_x, from_y) = (from_x + MARGIN, from_y + MARGIN);
                let middle = from_y + (y - from_y) / 2;
                write!(path, "C{from_x} {middle} {x} {middle} {x} {y}")
            }
        };
    }
    let class = if is_dotted { "arrow after" } else { "arrow" };
    let _ = writeln!(svg, "<path class=\"{class}\" marker-end=\"url(#tip)\" d=\"{path}\"/>");
}

fn width(text: &str) -> i64 {
    text.chars().map(|c| if c.is_ascii() { CHARACTER } else { WIDE_CHARACTER }).sum()
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// Text for XML 1.0, which has no way to write most control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            char if char.is_control() => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
