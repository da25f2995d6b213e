//! YAML text to a tree of nodes with exact places; the only module that knows the YAML library.
//!
//! The tree keeps what was written: a scalar is its text and whether it was plain, and the typed readers decide what it
//! means, so `no` and `on` are text, `1.10` is `1.10`, and a count may be `5_000_000`. Repeated keys, tags, unknown
//! anchors and keys that are not text become diagnostics and do not stop the reading; syntax errors that have one obvious
//! cause are reported and read over ([`repair`]), any other one ends the reading. Aliases and merge keys (`<<`) are
//! resolved here, within a budget of nodes, bytes and depth. Why this library: docs/adr/0001-yaml.md.

mod repair;

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle, Tag, options};

use self::repair::Repairs;
use crate::diagnostic::{Code, Report};
use crate::source::Span;

/// Bytes of a file.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;
/// Nodes of the tree, aliases written out.
const MAX_NODES: usize = 50_000;
/// Bytes of all scalars, aliases written out.
const MAX_SCALAR_BYTES: usize = 4 * 1024 * 1024;
/// Containers within containers.
const MAX_DEPTH: usize = 32;

/// A value and where it stands. Of a block container the span is that of its first content.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Something that was reported already; readers say nothing more about it.
    Broken,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Neither quoted nor a block; only plain scalars can be null, numbers or truth values.
    pub(crate) plain: bool,
}

impl Scalar {
    pub(crate) fn is_null(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Name,
    pub(crate) value: Node,
}

/// A key and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Node {
    /// Nodes and scalar bytes of the tree.
    fn size(&self) -> (usize, usize) {
        let sum = |(nodes, bytes): (usize, usize), node: &Self| {
            let (more_nodes, more_bytes) = node.size();
            (nodes + more_nodes, bytes + more_bytes)
        };
        match &self.kind {
            Kind::Scalar(scalar) => (1, scalar.text.len()),
            Kind::List(items) => items.iter().fold((1, 0), sum),
            Kind::Map(entries) => {
                let keys: usize = entries.iter().map(|entry| entry.key.text.len()).sum();
                entries.iter().map(|entry| &entry.value).fold((1 + entries.len(), keys), sum)
            }
            Kind::Broken => (1, 0),
        }
    }

    fn depth(&self) -> usize {
        match &self.kind {
            Kind::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Kind::Map(entries) => 1 + entries.iter().map(|entry| entry.value.depth()).max().unwrap_or(0),
            Kind::Scalar(_) | Kind::Broken => 0,
        }
    }
}

/// The tree of `text`, or `None` when it cannot be read or is empty; every reason is in `report`.
pub(crate) fn parse(text: &str, report: &mut Report) -> Option<Node> {
    if text.len() > MAX_BYTES {
        let message = format!("this file has {} bytes, at most {MAX_BYTES} are read", text.len());
        report.error(Code::Limit, Span::new(0, 0), message).help("split it into several pipelines");
        return None;
    }
    let mut repairs = Repairs::new(text);
    loop {
        let mut builder = Builder::new(repairs.broken().to_vec());
        match builder.run(repairs.text()) {
            Ok(()) => {
                repairs.report(report);
                builder.report(report);
                if builder.root.is_none() {
                    report.error(Code::Yaml, Span::new(0, 0), "this file is empty");
                }
                return builder.root;
            }
            Err(Stop::Syntax { at, kind, last_plain }) => {
                if repairs.attempt(at, &kind, last_plain) {
                    continue;
                }
                repairs.report(report);
                builder.report(report);
                repair::report_syntax(text, at, &kind, report);
                return None;
            }
            Err(Stop::Limit { span, message }) => {
                repairs.report(report);
                report.error(Code::Limit, span, message);
                return None;
            }
            Err(Stop::SecondDocument(span)) => {
                repairs.report(report);
                builder.report(report);
                report
                    .error(Code::Yaml, span, "a second document begins here; a file holds one")
                    .help("move it into a file of its own");
                return None;
            }
        }
    }
}

enum Stop {
    Syntax { at: usize, kind: granit_parser::ErrorKind, last_plain: Option<Span> },
    Limit { span: Span, message: String },
    SecondDocument(Span),
}

/// A container that is not closed yet.
struct Frame {
    start: Span,
    anchor: usize,
    content: Open,
}

enum Open {
    List(Vec<Node>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    entries: Vec<Entry>,
    /// The keys of `entries` and where they stand.
    seen: BTreeMap<String, Span>,
    /// Values of `<<`.
    merged: Vec<Node>,
    /// A `<<` failed, so nothing may be concluded from what is absent.
    incomplete: bool,
    key: Option<PendingKey>,
}

enum PendingKey {
    Name(Name),
    Merge,
    /// Reported; its value is read and dropped.
    Refused,
}

/// A problem found while building; told only when the text was read to its end or to its last repair.
struct Problem {
    code: Code,
    span: Span,
    message: String,
    help: String,
    label: Option<(Span, &'static str)>,
}

struct Builder {
    broken: Vec<Span>,
    frames: Vec<Frame>,
    anchors: BTreeMap<usize, Node>,
    root: Option<Node>,
    problems: Vec<Problem>,
    nodes: usize,
    bytes: usize,
}

impl Builder {
    fn new(broken: Vec<Span>) -> Self {
        Self {
            broken,
            frames: Vec::new(),
            anchors: BTreeMap::new(),
            root: None,
            problems: Vec::new(),
            nodes: 0,
            bytes: 0,
        }
    }

    fn run(&mut self, text: &str) -> Result<(), Stop> {
        let options = options! {
            strict_indentation: true,
            disallow_directives: true,
            emit_unresolved_aliases: true,
        };
        let mut last_plain = None;
        let mut documents = 0;
        for next in Parser::new_from_str_with_options(text, options) {
            let (event, place) = next.map_err(|error| Stop::Syntax {
                at: error.marker().byte_offset().unwrap_or(text.len()).min(text.len()),
                kind: error.kind().clone(),
                last_plain,
            })?;
            let span = place.byte_range().map_or(Span::default(), |range| Span::new(range.start, range.end));
            match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(Stop::SecondDocument(span));
                    }
                }
                Event::Scalar(value, style, anchor, tag) => {
                    let plain = style == ScalarStyle::Plain;
                    let span = if matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
                        // The library counts blank lines and the next line's indentation to a block.
                        Span::new(span.start, span.start + text[span.range()].trim_end().len())
                    } else {
                        span
                    };
                    last_plain = plain.then_some(span);
                    // The library writes `~` for a value that is not there.
                    let value = if plain && span.start == span.end { String::new() } else { value.into_owned() };
                    let tag_span = place.tag_span().and_then(|tag| tag.byte_range());
                    let at = tag_span.map_or(span, |range| Span::new(range.start, range.end));
                    let node = self.scalar(value, plain, span, tag.as_deref().map(|tag| (tag, at)));
                    self.finish_node(node, anchor)?;
                }
                Event::SequenceStart(_, anchor, tag) => {
                    self.open(Open::List(Vec::new()), span, anchor, tag.as_deref())?
                }
                Event::MappingStart(_, anchor, tag) => {
                    self.open(Open::Map(OpenMap::default()), span, anchor, tag.as_deref())?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.close(span)?,
                Event::Alias(anchor) => self.alias(anchor, span)?,
                Event::UnresolvedAlias(name) => {
                    self.problem(
                        Code::Yaml,
                        span,
                        format!("no anchor `&{name}` stands before this `*{name}`"),
                        "a value that begins with `*` is a YAML alias; quote it if it is text",
                    );
                    self.finish_node(Node { span, kind: Kind::Broken }, 0)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn scalar(&mut self, text: String, plain: bool, span: Span, tag: Option<(&Tag, Span)>) -> Node {
        let is_text = tag.is_some_and(|(tag, _)| tag.is_yaml_core_schema_tag("str"));
        if let Some((tag, at)) = tag
            && !is_text
        {
            self.refuse_tag(tag, at);
            return Node { span: at, kind: Kind::Broken };
        }
        if self.broken.iter().any(|broken| broken.start <= span.start && span.end <= broken.end) {
            return Node { span, kind: Kind::Broken };
        }
        Node { span, kind: Kind::Scalar(Scalar { text, plain: plain && !is_text }) }
    }

    fn refuse_tag(&mut self, tag: &Tag, span: Span) {
        let name = format!("{}{}", tag.handle(), tag.suffix());
        self.problem(
            Code::Yaml,
            span,
            format!("the YAML tag `{name}` is not supported"),
            "a value that begins with `!` is a YAML tag; quote the whole value if it is text or an expression",
        );
    }

    fn open(&mut self, content: Open, span: Span, anchor: usize, tag: Option<&Tag>) -> Result<(), Stop> {
        let own_tag = if matches!(content, Open::List(_)) { "seq" } else { "map" };
        if let Some(tag) = tag
            && !tag.is_yaml_core_schema_tag(own_tag)
        {
            self.refuse_tag(tag, span);
        }
        if self.frames.len() >= MAX_DEPTH {
            let message = format!("values are nested deeper than {MAX_DEPTH} levels here");
            return Err(Stop::Limit { span, message });
        }
        self.frames.push(Frame { start: span, anchor, content });
        Ok(())
    }

    fn close(&mut self, end: Span) -> Result<(), Stop> {
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        let (kind, last) = match frame.content {
            Open::List(items) => {
                let last = items.last().map(|node| node.span);
                (Kind::List(items), last)
            }
            Open::Map(mut map) => {
                for node in std::mem::take(&mut map.merged) {
                    self.merge(&mut map, node);
                }
                let last = map.entries.last().map(|entry| entry.value.span);
                (if map.incomplete { Kind::Broken } else { Kind::Map(map.entries) }, last)
            }
        };
        // A block container ends without a character of its own; its last value is a better end than the next token.
        let end = if end.start == end.end {
            last.map_or(frame.start, |last| frame.start.to(last))
        } else {
            frame.start.to(end)
        };
        self.finish_node(Node { span: end, kind }, frame.anchor)
    }

    /// Keys of the map itself win over merged ones, and earlier merged ones over later.
    fn merge(&mut self, map: &mut OpenMap, from: Node) {
        match from.kind {
            Kind::Map(merged) => {
                for entry in merged {
                    if !map.seen.contains_key(&entry.key.text) {
                        map.seen.insert(entry.key.text.clone(), entry.key.span);
                        map.entries.push(entry);
                    }
                }
            }
            Kind::List(maps) if maps.iter().all(|node| matches!(node.kind, Kind::Map(_) | Kind::Broken)) => {
                for node in maps {
                    self.merge(map, node);
                }
            }
            Kind::Broken => map.incomplete = true,
            Kind::List(_) | Kind::Scalar(_) => {
                map.incomplete = true;
                self.problem(
                    Code::Yaml,
                    from.span,
                    "`<<` merges a map or a list of maps".to_owned(),
                    "write `<<: *name`, where `&name` marks a map",
                );
            }
        }
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Stop> {
        // One copy more than the budget allows at most: the next line counts it.
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            self.problem(
                Code::Yaml,
                span,
                "this alias stands within the value that it refers to".to_owned(),
                "write the value out",
            );
            return self.finish_node(Node { span, kind: Kind::Broken }, 0);
        };
        if self.frames.len() + node.depth() > MAX_DEPTH {
            let message = format!("with this alias, values are nested deeper than {MAX_DEPTH} levels");
            return Err(Stop::Limit { span, message });
        }
        let (nodes, bytes) = node.size();
        self.spend(nodes, bytes, span)?;
        self.place(node)
    }

    fn spend(&mut self, nodes: usize, bytes: usize, span: Span) -> Result<(), Stop> {
        self.nodes += nodes;
        self.bytes += bytes;
        let message = if self.nodes > MAX_NODES {
            format!("this file has more than {MAX_NODES} values, aliases written out")
        } else if self.bytes > MAX_SCALAR_BYTES {
            format!("this file has more than {MAX_SCALAR_BYTES} bytes of text, aliases written out")
        } else {
            return Ok(());
        };
        Err(Stop::Limit { span, message })
    }

    fn finish_node(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        if let Kind::Scalar(scalar) = &node.kind {
            self.spend(1, scalar.text.len(), node.span)?;
        } else {
            self.spend(1, 0, node.span)?;
        }
        if anchor != 0 {
            // A copy for later aliases counts as well: anchors within anchors would multiply.
            let (nodes, bytes) = node.size();
            self.spend(nodes, bytes, node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node)
    }

    /// Puts a finished node where it belongs: as item, key or value.
    fn place(&mut self, node: Node) -> Result<(), Stop> {
        let Some(frame) = self.frames.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut frame.content {
            Open::List(items) => items.push(node),
            Open::Map(map) => match map.key.take() {
                Some(PendingKey::Name(name)) => map.entries.push(Entry { key: name, value: node }),
                Some(PendingKey::Merge) => map.merged.push(node),
                Some(PendingKey::Refused) => {}
                None => {
                    let pending = pending_key(map, node);
                    map.key = Some(pending.unwrap_or_else(|problem| {
                        self.problems.extend(problem);
                        PendingKey::Refused
                    }));
                }
            },
        }
        Ok(())
    }

    fn problem(&mut self, code: Code, span: Span, message: String, help: &str) {
        self.problems.push(Problem { code, span, message, help: help.to_owned(), label: None });
    }

    fn report(&mut self, report: &mut Report) {
        for problem in self.problems.drain(..) {
            let diagnostic = report.error(problem.code, problem.span, problem.message).help(problem.help);
            if let Some((span, text)) = problem.label {
                diagnostic.label(span, text);
            }
        }
    }
}

/// A node as the key of a map, or why it cannot be one; nothing when that was said already.
fn pending_key(map: &mut OpenMap, node: Node) -> Result<PendingKey, Option<Problem>> {
    match node.kind {
        Kind::Scalar(scalar) if scalar.plain && scalar.text == "<<" => Ok(PendingKey::Merge),
        Kind::Scalar(scalar) => {
            let name = Name { text: scalar.text, span: node.span };
            if let Some(first) = map.seen.get(&name.text) {
                return Err(Some(duplicate(&name, *first)));
            }
            map.seen.insert(name.text.clone(), name.span);
            Ok(PendingKey::Name(name))
        }
        Kind::Broken => Err(None),
        Kind::List(_) | Kind::Map(_) => Err(Some(Problem {
            code: Code::Yaml,
            span: node.span,
            message: "a key must be a word, not a list or a map".to_owned(),
            help: "an expression within `{ }` must be quoted: `\"${{ ... }}\"`".to_owned(),
            label: None,
        })),
    }
}

fn duplicate(name: &Name, first: Span) -> Problem {
    Problem {
        code: Code::DuplicateKey,
        span: name.span,
        message: format!("the key `{}` stands here a second time", name.text),
        help: "keep one of them; which one YAML readers use differs".to_owned(),
        label: Some((first, "it stands here first")),
    }
}

#[cfg(test)]
mod tests;
