//! `pipeline:` and `with:`: another pipeline as a child, compiled with what calls it, so that its inputs and outputs are
//! checked here and its definition is pinned with that of its parent.
//!
//! A file is compiled once, whoever names it. Files that name each other are refused with the circle.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use orc_domain::action::PipelineAction;
use orc_domain::expr::{Expr, Template, TemplatePart};
use orc_domain::graph::{InputSpec, Pipeline, RepositorySpec};
use orc_domain::ids::ContentHash;
use orc_domain::profile::Profile;
use orc_domain::suggest::closest;
use orc_domain::value::Value;

use super::inputs;
use super::step::{Ahead, Draft};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Report, Severity};
use crate::expression::{Reader, Type};
use crate::profile::Texts;
use crate::read;
use crate::settings::Allowance;
use crate::source::{SourceFile, Span};
use crate::yaml::{Entry, Kind, Node};

/// Pipelines that call each other, one below the other.
const MAX_DEPTH: usize = 8;

/// What a pipeline may name beside itself. Nothing here reads files: texts come from whoever calls.
#[derive(Clone, Copy)]
pub struct Library<'a> {
    /// The text of a pipeline by its path: of the file that names it, in the terms of that file's name.
    pub pipelines: Texts<'a>,
    /// The text of a schema by its path from the repository's root.
    pub schemas: Texts<'a>,
    /// Profiles by name.
    pub agents: &'a BTreeMap<String, Profile>,
    /// Names of profiles that have mistakes, which are told elsewhere.
    pub broken_agents: &'a BTreeSet<String>,
    /// Names of people and groups of the settings; `None` when the settings are not known.
    pub people: Option<&'a BTreeSet<String>>,
    /// What boxes may be asked for; `None` when the settings are not known.
    pub allowance: Option<&'a Allowance>,
}

impl Library<'static> {
    /// A library with nothing in it.
    #[must_use]
    pub fn empty() -> Self {
        static NO_AGENTS: BTreeMap<String, Profile> = BTreeMap::new();
        static NO_NAMES: BTreeSet<String> = BTreeSet::new();
        let nothing: Texts<'static> = &|_| Err("there are no other files".to_owned());
        Self {
            pipelines: nothing,
            schemas: nothing,
            agents: &NO_AGENTS,
            broken_agents: &NO_NAMES,
            people: None,
            allowance: None,
        }
    }
}

/// A pipeline that another one calls.
#[derive(Clone, Debug)]
pub struct Child {
    /// Its file.
    pub source: SourceFile,
    /// Its definition and the hash that names it, when there is no error.
    pub pipeline: Option<(ContentHash, Pipeline)>,
    /// Everything to say about its file.
    pub diagnostics: Vec<Diagnostic>,
}

/// What a caller knows of a pipeline.
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) hash: ContentHash,
    pub(super) inputs: BTreeMap<String, InputSpec>,
    pub(super) repositories: Vec<RepositorySpec>,
    pub(super) outputs: Type,
}

/// A compiled file, and the types of its outputs.
pub(super) struct Product {
    pub(super) pipeline: Option<Pipeline>,
    pub(super) outputs: Type,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// The files of one compilation.
pub(super) struct Family<'a> {
    pub(super) library: &'a Library<'a>,
    /// Names of the files that are being compiled, the outermost first.
    open: Vec<String>,
    /// What came of those that are done; `None` for those with errors.
    known: BTreeMap<String, Option<Rc<Interface>>>,
    /// Callees before their callers.
    pub(super) children: Vec<Child>,
}

impl<'a> Family<'a> {
    pub(super) fn new(library: &'a Library<'a>, file: &SourceFile) -> Self {
        let open = vec![normal(&file.name)];
        Self { library, open, known: BTreeMap::new(), children: Vec::new() }
    }

    /// The pipeline that `node` names in the file that is being compiled.
    fn find(&mut self, node: &Node, report: &mut Report) -> Option<Rc<Interface>> {
        let written = read::text(node, "`pipeline`", report)?;
        if written.contains("${{") {
            report
                .error(Code::Expression, node.span, "an expression cannot choose the pipeline")
                .help("a flow pins what it runs when it starts; write a step for each, with `if:`");
            return None;
        }
        let here = self.open.last().map(String::as_str).unwrap_or_default();
        let Some(path) = path_of(here, &written) else {
            let message = format!("`{}` is not the name or the path of a pipeline", read::excerpt(&written));
            report
                .error(Code::BadValue, node.span, message)
                .help("`NAME` is the file `NAME.yaml` beside this one; a path counts from this file's folder");
            return None;
        };
        if let Some(known) = self.known.get(&path) {
            let known = known.clone();
            if known.is_none() {
                note(&path, None, node.span, report);
            }
            return known;
        }
        if let Some(start) = self.open.iter().position(|open| *open == path) {
            let circle = self.open[start..].iter().chain([&path]).map(String::as_str).collect::<Vec<_>>().join(" -> ");
            report
                .error(Code::Cycle, node.span, format!("these pipelines call each other: {circle}"))
                .help("a flow would never end; remove one of these calls");
            return None;
        }
        if self.open.len() > MAX_DEPTH {
            let message = format!("pipelines call each other at most {MAX_DEPTH} deep");
            report.error(Code::Limit, node.span, message).help("call fewer of them one below the other");
            return None;
        }
        let text = match (self.library.pipelines)(&path) {
            Ok(text) => text,
            Err(why) => {
                let message = format!("cannot read the pipeline `{path}`: {why}");
                report
                    .error(Code::UnknownName, node.span, message)
                    .help("`NAME` is the file `NAME.yaml` beside this one; a path counts from this file's folder");
                return None;
            }
        };
        let interface = self.compile(SourceFile::new(path.clone(), text), node.span, report);
        self.known.insert(path, interface.clone());
        interface
    }

    fn compile(&mut self, source: SourceFile, place: Span, report: &mut Report) -> Option<Rc<Interface>> {
        self.open.push(source.name.clone());
        let product = super::compile_one(&source, self);
        self.open.pop();
        let errors = product.diagnostics.iter().filter(|problem| problem.severity == Severity::Error).count();
        if errors > 0 {
            note(&source.name, Some(errors), place, report);
        }
        // Everything in a pipeline has a stored form: keys are texts, numbers are finite.
        let pipeline = product.pipeline.and_then(|pipeline| Some((pipeline.content_hash().ok()?, pipeline)));
        let interface = pipeline.as_ref().map(|(hash, pipeline)| Interface {
            name: pipeline.name.clone(),
            hash: hash.clone(),
            inputs: pipeline.inputs.clone(),
            repositories: pipeline.repositories.clone(),
            outputs: product.outputs,
        });
        self.children.push(Child { source, pipeline, diagnostics: product.diagnostics });
        interface.map(Rc::new)
    }
}

/// Says at the caller that the callee cannot be used; what is wrong with it stands with its own file.
fn note(path: &str, errors: Option<usize>, place: Span, report: &mut Report) {
    let counted = errors
        .map_or_else(String::new, |errors| format!(": it has {errors} error{}", if errors == 1 { "" } else { "s" }));
    report
        .error(Code::BadValue, place, format!("the pipeline `{path}` cannot be used{counted}"))
        .help("what is wrong is said at its own place");
}

/// The file that `written` names in the file `here`.
fn path_of(here: &str, written: &str) -> Option<String> {
    let is_path = written.contains('/') || written.ends_with(".yaml") || written.ends_with(".yml");
    if written.starts_with('/') || written.contains(['\\', '\0']) || written.trim().is_empty() {
        return None;
    }
    let file = if is_path { written.to_owned() } else { format!("{written}.yaml") };
    let folder = here.rsplit_once('/').map_or("", |(folder, _)| folder);
    Some(normal(&if folder.is_empty() && !here.starts_with('/') { file } else { format!("{folder}/{file}") }))
}

/// A path without `.` and, as far as it can be known, without `..`, so that one file has one name.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

impl Draft<'_> {
    pub(super) fn child_ahead(&self, family: &mut Family<'_>, report: &mut Report) -> Ahead {
        if self.kind != Some("pipeline") {
            return Ahead::Nothing;
        }
        let child = self.field("pipeline").and_then(|node| family.find(node, report));
        child.map_or(Ahead::Nothing, Ahead::Child)
    }

    pub(super) fn child(&self, view: &View<'_>, report: &mut Report) -> Option<PipelineAction> {
        let names = view.names("`with`", true);
        let reader = view.reader(&names);
        let written = self.field("with").and_then(|node| read::map(node, "`with`", report)).unwrap_or_default();
        let Ahead::Child(child) = &self.ahead else {
            // Nothing is known of its inputs, and the expressions are still checked.
            for Entry { key, value } in written.iter().filter(|entry| matches!(entry.value.kind, Kind::Scalar(_))) {
                reader.template(value, &format!("`{}`", key.text), report);
            }
            return None;
        };
        let mut with = BTreeMap::new();
        for Entry { key, value } in written {
            let known = child.inputs.keys().map(String::as_str);
            let Some(spec) = child.inputs.get(&key.text) else {
                let message = format!("the pipeline `{}` has no input `{}`", child.name, read::excerpt(&key.text));
                let problem = report.error(Code::UnknownName, key.span, message);
                match closest(&key.text, known.clone()) {
                    Some(close) => problem.help(format!("did you mean `{close}`?")),
                    None if child.inputs.is_empty() => problem.help("it takes none"),
                    None => problem.help(format!("it takes {}", known.collect::<Vec<_>>().join(", "))),
                };
                continue;
            };
            if let Some(template) = argument(value, &key.text, spec, &reader, report) {
                with.insert(key.text.clone(), template);
            }
        }
        let strange = view.shared.trees.lacks(&child.repositories);
        let place = self.field("pipeline").map_or(self.key.span, |node| node.span);
        if !strange.is_empty() {
            let message = format!(
                "`{}` works in repositories that this pipeline does not have: {}",
                child.name,
                strange.join(", ")
            );
            report
                .error(Code::UnknownName, place, message)
                .help("a flow hands its own copies on; name them here too: `worktree: { repositories: [., ...] }`");
        }
        let given = |name: &String| written.iter().any(|entry| entry.key.text == *name);
        let missing = child.inputs.iter().filter(|(name, spec)| spec.default.is_none() && !given(name));
        let missing: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
        if !missing.is_empty() {
            let message = format!("the pipeline `{}` needs inputs: {}", child.name, missing.join(", "));
            report
                .error(Code::MissingKey, place, message)
                .help(format!("add `with: {{ {}: ... }}`", missing.join(": ..., ")));
        }
        Some(PipelineAction { name: child.name.clone(), pipeline: child.hash.clone(), with })
    }
}

/// A value for an input of another pipeline: of the input's type where it is written out or its type is known.
fn argument(node: &Node, name: &str, spec: &InputSpec, reader: &Reader<'_>, report: &mut Report) -> Option<Template> {
    let what = format!("the input `{name}`");
    if read::find_expression(node).is_none() {
        let value = inputs::value_of(spec.kind, node, &what, report)?;
        return Some(match value {
            Value::Text(text) if !text.text.is_empty() => Template::literal(text.text),
            value => Template { parts: vec![TemplatePart::Expr(Expr::Literal(value))] },
        });
    }
    if let Kind::List(_) | Kind::Map(_) = &node.kind {
        report
            .error(Code::Expression, node.span, "an expression cannot stand within a value that is written out")
            .help("write the whole value as one expression, or make it in a step and read its output");
        return None;
    }
    let (template, ty, tainted) = reader.typed_template(node, &what, report)?;
    if tainted {
        report
            .warning(Code::Tainted, node.span, format!("text from outside reaches another pipeline in {what}"))
            .help("it stays marked there; look at what that pipeline does with it");
    }
    if ty.fits(spec.kind) {
        return Some(template);
    }
    report.error(Code::Type, node.span, format!("{what} takes {}, not {}", inputs::wanted(spec.kind), ty.name()));
    None
}
