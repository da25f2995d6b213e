//! Names of expressions: what each root is at its place, and the types of what is read from it.

use std::collections::BTreeMap;

use orc_domain::expr::Root;
use orc_domain::suggest::closest;

use super::check::{Checker, ROOTS, STEP_OUTCOMES, StepFacts};
use super::parse::{AstSegment, status_function};
use super::types::Type;
use crate::diagnostic::Code;
use crate::source::Span;

const FLOW_OUTCOMES: &[&str] = &["succeeded", "failed", "cancelled", "budget_exhausted"];
const TICKET_FIELDS: &[&str] = &["key", "title", "body", "url", "repository", "labels", "author", "number"];

impl Checker<'_> {
    /// The root, the type after its first segments, and how many segments that took.
    pub(super) fn root(&mut self, name: &str, at: Span, path: &[AstSegment], whole: Span) -> (Root, Type, usize) {
        if let Some(item) = self.names.items.iter().find(|item| item.name == name) {
            return (Root::Item(name.to_owned()), item.ty.clone(), 0);
        }
        if self.names.only_inputs && !matches!(name, "inputs" | "ticket" | "event") && ROOTS.contains(&name) {
            let message = format!("{} cannot read `{name}`, only `inputs`", self.names.place);
            self.error(Code::Expression, at, message).help =
                Some("it is needed before anything of the flow exists; hand the value in as an input".to_owned());
            return (Root::Item(name.to_owned()), Type::Any, path.len());
        }
        match name {
            "inputs" => self.input(path),
            "env" => self.env(at, path),
            "steps" => self.step(at, path, whole),
            "flow" => {
                let fields = &[
                    ("id", Type::Text),
                    ("pipeline", Type::Text),
                    ("outcome", Type::Word(FLOW_OUTCOMES)),
                    ("summary", Type::Text),
                ];
                let ty = self.field("`flow`", path, fields);
                (Root::Flow, ty, 1)
            }
            "ticket" => {
                self.never_without(
                    self.names.has_ticket,
                    at,
                    "`ticket` is never there: this pipeline has no `on: ticket`",
                );
                let fields: Vec<(&str, Type)> =
                    TICKET_FIELDS.iter().map(|field| (*field, ticket_field(field))).collect();
                let ty = self.field("`ticket`", path, &fields);
                (Root::Ticket, ty, 1)
            }
            "event" => {
                let message = "`event` is never there: this pipeline has no `on: github` and no `on: event`";
                self.never_without(self.names.has_event, at, message);
                (Root::Event, Type::Any, 0)
            }
            "previous" => self.previous(at, path),
            "matrix" => (Root::Matrix, self.matrix(at), 0),
            _ => {
                self.unknown_root(name, at);
                (Root::Item(name.to_owned()), Type::Any, 0)
            }
        }
    }

    fn never_without(&mut self, has: bool, at: Span, message: &str) {
        if !has {
            self.error(Code::NeverProduced, at, message);
        }
    }

    fn unknown_root(&mut self, name: &str, at: Span) {
        let items = self.names.items.iter().map(|item| item.name);
        let help = match name {
            "github" => {
                Some("ask git in the script, for example `git rev-parse HEAD`; inputs are in `inputs`".to_owned())
            }
            "needs" => Some("write `steps.NAME.output`".to_owned()),
            "secrets" | "vars" => Some("pass a variable of the host with `pass_env:` in orchestrator.yaml".to_owned()),
            "runner" | "job" => Some("the flow itself is in `flow`".to_owned()),
            "item" => Some("`item` is the element of a `foreach:` on the same step, unless `as:` names it".to_owned()),
            _ if status_function(name).is_some() => Some(format!("write `{name}()`")),
            _ => closest(name, ROOTS.iter().copied().chain(items)).map(|close| format!("did you mean `{close}`?")),
        };
        let place = self.names.place;
        let problem = self.error(Code::UnknownName, at, format!("`{name}` is not a name that {place} can read"));
        problem.help = help.or_else(|| Some("text within an expression stands in quotes: `'text'`".to_owned()));
    }

    fn input(&mut self, path: &[AstSegment]) -> (Root, Type, usize) {
        let Some(AstSegment::Member(name, span)) = path.first() else {
            return (Root::Inputs, Type::Map, 0);
        };
        if let Some(ty) = self.names.inputs.get(name) {
            return (Root::Inputs, ty.clone(), 1);
        }
        let known: Vec<&str> = self.names.inputs.keys().map(String::as_str).collect();
        let help = hyphen_help(name, &known).or_else(|| suggestion(name, &known));
        let message = format!("this pipeline has no input `{name}`");
        self.error(Code::UnknownName, *span, message).help =
            help.or_else(|| Some("declare it under `inputs:`".to_owned()));
        (Root::Inputs, Type::Any, 1)
    }

    fn env(&mut self, at: Span, path: &[AstSegment]) -> (Root, Type, usize) {
        let Some(known) = &self.names.env else {
            let message = format!("`env` cannot be read in {}", self.names.place);
            self.error(Code::Expression, at, message).help =
                Some("variables exist for scripts and for `env:` of steps; read `inputs` or `steps` here".to_owned());
            return (Root::Env, Type::Any, path.len());
        };
        let Some(AstSegment::Member(name, span)) = path.first() else {
            return (Root::Env, Type::Map, 0);
        };
        if !known.contains_key(name.as_str()) {
            let names: Vec<&str> = known.keys().copied().collect();
            let help = suggestion(name, &names);
            let message = format!("no `env:` that {} can read has `{name}`", self.names.place);
            self.error(Code::UnknownName, *span, message).help =
                help.or_else(|| Some("variables of the host are not in `env`; a script reads them itself".to_owned()));
        }
        // A value that is one expression keeps its type, so this may be anything.
        (Root::Env, Type::Any, 1)
    }

    fn step(&mut self, at: Span, path: &[AstSegment], whole: Span) -> (Root, Type, usize) {
        let Some(steps) = self.names.steps.clone() else {
            let message = format!("`steps` cannot be read in {}, which holds for all steps", self.names.place);
            self.error(Code::Expression, at, message).help = Some("write it in the `env:` of the step".to_owned());
            return (Root::Steps, Type::Any, path.len());
        };
        let (name, span) = match path.first() {
            Some(AstSegment::Member(name, span)) => (name, *span),
            Some(AstSegment::Index(_)) | None => {
                let message = "`steps` is read by the name of a step: `steps.NAME.output`";
                self.error(Code::Expression, whole, message);
                return (Root::Steps, Type::Any, path.len());
            }
        };
        let Some(facts) = steps.levels.iter().find_map(|level| level.get(name)) else {
            let known = steps.levels.iter().flat_map(|level| level.keys().map(String::as_str)).collect::<Vec<_>>();
            let help = hyphen_help(name, &known).or_else(|| suggestion(name, &known));
            self.error(Code::UnknownStep, span, format!("there is no step `{name}`")).help = help;
            return (Root::Steps, Type::Any, path.len());
        };
        if !steps.sight.is_finished(facts.position) {
            let refusal = steps.sight.refusal(facts.position);
            let problem = self.error(Code::NotNeeded, span, refusal.message);
            problem.help = Some(refusal.help);
            problem.label = refusal.elsewhere.then(|| (facts.place, format!("`{name}` is here")));
        } else if facts.never_runs && matches!(path.get(1), Some(AstSegment::Member(field, _)) if field == "output") {
            let message = format!("`{name}` never runs, so it has no output");
            self.error(Code::NeverProduced, span, message).warning = true;
        }
        (Root::Steps, self.step_field(&format!("steps.{name}"), facts, path.get(1)), 2)
    }

    /// A step of the round before. In the first round there is none, so nothing is promised about its type.
    fn previous(&mut self, at: Span, path: &[AstSegment]) -> (Root, Type, usize) {
        let within = self.names.steps.clone().filter(|steps| steps.levels.len() > 1);
        let Some(body) = within.as_ref().and_then(|steps| steps.levels.first()) else {
            self.error(Code::NeverProduced, at, "`previous` is the round before, and this is not within a `repeat`");
            return (Root::Previous, Type::Any, path.len());
        };
        if let Some(AstSegment::Member(name, span)) = path.first() {
            if let Some(facts) = body.get(name) {
                self.step_field(&format!("previous.{name}"), facts, path.get(1));
            } else {
                let known: Vec<&str> = body.keys().map(String::as_str).collect();
                let help = suggestion(name, &known);
                self.error(Code::UnknownStep, *span, format!("this `repeat` has no step `{name}`")).help =
                    help.or_else(|| Some(format!("its steps are {}", known.join(", "))));
            }
        }
        (Root::Previous, Type::Any, path.len())
    }

    fn matrix(&mut self, at: Span) -> Type {
        if let Some(ty) = &self.names.matrix {
            return ty.clone();
        }
        let message = format!("{} has no `matrix` that it can read", self.names.place);
        self.error(Code::NeverProduced, at, message).help = Some(
            "`matrix` is the combination of a step with `matrix:`, once it runs; its `if` comes before".to_owned(),
        );
        Type::Any
    }

    /// The type of `steps.NAME.field`.
    fn step_field(&mut self, owner: &str, facts: &StepFacts, field: Option<&AstSegment>) -> Type {
        let fields: &[&str] = match facts {
            StepFacts { fans_out: true, .. } => &["outcome", "results", "error"],
            StepFacts { repeats: true, .. } => &["outcome", "output", "rounds", "error"],
            StepFacts { artifacts: Some(_), .. } => &["outcome", "output", "artifacts", "error"],
            _ => &["outcome", "output", "error"],
        };
        let (word, span) = match field {
            Some(AstSegment::Member(word, span)) => (word.as_str(), *span),
            Some(AstSegment::Index(index)) => {
                self.error(Code::Type, index.span, format!("`{owner}` has named fields: {}", fields.join(", ")));
                return Type::Any;
            }
            None => return Type::Map,
        };
        if !fields.contains(&word) {
            let help = match word {
                "output" | "outputs" if facts.fans_out => {
                    Some(format!("it runs once for each element: `{owner}.results[0].output`"))
                }
                "results" => {
                    Some(format!("only a step with `foreach:` or `matrix:` has results; read `{owner}.output`"))
                }
                "artifacts" => Some("only a step with `artifacts:` that does not fan out keeps files".to_owned()),
                "rounds" => Some("only a step with `repeat:` has rounds".to_owned()),
                "result" | "conclusion" | "status" => Some("did you mean `outcome`?".to_owned()),
                other => suggestion(other, fields),
            };
            let message = format!("`{owner}` has no `{word}`; it has {}", fields.join(", "));
            self.error(Code::UnknownName, span, message).help = help;
            return Type::Any;
        }
        match word {
            "outcome" => Type::Word(STEP_OUTCOMES),
            "output" => facts.output.clone(),
            "rounds" => Type::Number,
            "artifacts" => {
                let names = facts.artifacts.iter().flatten().map(|name| (name.clone(), Type::Text));
                Type::Object { fields: names.collect(), open: false }
            }
            "results" => Type::List(Box::new(element_result(&facts.output))),
            // Text when it failed, null otherwise.
            _ => Type::Any,
        }
    }

    /// The type of the first member among fixed ones.
    fn field(&mut self, owner: &str, path: &[AstSegment], fields: &[(&str, Type)]) -> Type {
        let Some(AstSegment::Member(name, span)) = path.first() else {
            return Type::Map;
        };
        if let Some((_, ty)) = fields.iter().find(|(field, _)| field == name) {
            return ty.clone();
        }
        let known: Vec<&str> = fields.iter().map(|(field, _)| *field).collect();
        let message = format!("{owner} has no `{name}`; it has {}", known.join(", "));
        self.error(Code::UnknownName, *span, message).help = suggestion(name, &known);
        Type::Any
    }

    /// The type after the segments from `known` on.
    pub(super) fn descend(&mut self, mut ty: Type, root: &str, path: &[AstSegment], known: usize) -> Type {
        for (at, segment) in path.iter().enumerate().skip(known) {
            ty = match (ty, segment) {
                (Type::Any | Type::Map, _) | (Type::Object { .. }, AstSegment::Index(_)) => Type::Any,
                (Type::List(item), AstSegment::Index(_)) => *item,
                (Type::Object { fields, open }, AstSegment::Member(name, span)) => {
                    self.member(&written(root, &path[..at]), (&fields, open), (name, *span))
                }
                (Type::List(_), AstSegment::Member(name, span)) => {
                    let message = format!("a list has no `{name}`");
                    self.error(Code::Type, *span, message).help =
                        Some("read an element by its position: `[0]`".to_owned());
                    Type::Any
                }
                (other, AstSegment::Member(name, span)) => {
                    let message = format!("{} has no `{name}`", other.name());
                    self.error(Code::Type, *span, message);
                    Type::Any
                }
                (other, AstSegment::Index(index)) => {
                    let message = format!("{} has no elements", other.name());
                    self.error(Code::Type, index.span, message);
                    Type::Any
                }
            };
        }
        ty
    }

    /// A member of a map whose members are known; an open map may have others, which nobody promises.
    fn member(&mut self, owner: &str, map: (&BTreeMap<String, Type>, bool), member: (&str, Span)) -> Type {
        let ((fields, open), (name, span)) = (map, member);
        if let Some(ty) = fields.get(name) {
            return ty.clone();
        }
        let known: Vec<&str> = fields.keys().map(String::as_str).collect();
        let has = if known.is_empty() { "it has nothing".to_owned() } else { format!("it has {}", known.join(", ")) };
        let problem = if open {
            let message = format!("nothing says that `{owner}` has `{name}`; {has}");
            let problem = self.error(Code::NeverProduced, span, message);
            problem.warning = true;
            problem
        } else {
            self.error(Code::UnknownName, span, format!("`{owner}` has no `{name}`; {has}"))
        };
        problem.help = suggestion(name, &known);
        Type::Any
    }
}

/// `outcome`, `output` and `error` of an element of a fan-out.
fn element_result(output: &Type) -> Type {
    let fields = [("outcome", Type::Word(STEP_OUTCOMES)), ("output", output.clone()), ("error", Type::Any)];
    Type::Object { fields: fields.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect(), open: false }
}

/// A reference as it reads, as far as it is made of names.
fn written(root: &str, path: &[AstSegment]) -> String {
    let mut text = root.to_owned();
    for segment in path {
        match segment {
            AstSegment::Member(name, _) => {
                text.push('.');
                text.push_str(name);
            }
            AstSegment::Index(_) => text.push_str("[...]"),
        }
    }
    text
}

fn ticket_field(field: &str) -> Type {
    match field {
        "labels" => Type::List(Box::new(Type::Text)),
        "number" => Type::Number,
        _ => Type::Text,
    }
}

fn suggestion(word: &str, known: &[&str]) -> Option<String> {
    closest(word, known.iter().copied()).map(|close| format!("did you mean `{close}`?"))
}

/// `inputs.count-1` reads the input `count-1`.
fn hyphen_help(name: &str, known: &[&str]) -> Option<String> {
    let (first, _) = name.split_once('-')?;
    known.contains(&first).then(|| format!("a hyphen belongs to the name; put blanks around a minus: `{first} - ...`"))
}
