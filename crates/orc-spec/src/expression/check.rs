//! The type check: names against what the pipeline has, operators against the types they take, and the taint of text.
//!
//! It accepts what can work: a value whose type is not known before the flow runs fits everywhere and is checked when it
//! is used. Each problem is told at its own place; what was reported counts as `Any` afterwards.

use std::collections::BTreeMap;

use orc_domain::expr::{BinaryOp, Expr, Function, Root, Segment, UnaryOp};
use orc_domain::suggest::closest;
use orc_domain::value::Value;

use super::parse::{Ast, AstKind, AstSegment, status_function};
use super::types::Type;
use crate::diagnostic::Code;
use crate::source::Span;

/// The words of `steps.X.outcome`.
pub(crate) const STEP_OUTCOMES: &[&str] = &["succeeded", "no_change", "failed", "skipped", "cancelled"];
const FLOW_OUTCOMES: &[&str] = &["succeeded", "failed", "cancelled"];
const TICKET_FIELDS: &[&str] = &["key", "title", "body", "url", "repository", "labels", "author", "number"];
const STEP_FIELDS: &[&str] = &["outcome", "output", "error"];
const FAN_OUT_FIELDS: &[&str] = &["outcome", "results", "error"];
pub(crate) const ROOTS: &[&str] = &["inputs", "ticket", "event", "steps", "previous", "env", "flow", "matrix"];

/// What an expression may name at its place.
pub(crate) struct Names<'a> {
    /// The place, for messages: `` `if` ``.
    pub(crate) place: &'static str,
    pub(crate) inputs: &'a BTreeMap<String, Type>,
    /// Every step of the pipeline; none where steps cannot be read at all.
    pub(crate) steps: Option<Steps<'a>>,
    /// Names of variables, where `env` can be read.
    pub(crate) env: Option<BTreeMap<&'a str, Taint>>,
    /// The element of a fan-out.
    pub(crate) item: Option<Item<'a>>,
    /// Status functions make sense.
    pub(crate) status: bool,
    /// `on: ticket` is written; without it no flow has a ticket.
    pub(crate) has_ticket: bool,
    /// `on: github` or `on: event` is written.
    pub(crate) has_event: bool,
}

/// Whether text from outside may be in a value.
pub(crate) type Taint = bool;

/// The element of a fan-out: its name in expressions, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) name: &'a str,
    pub(crate) ty: Type,
    pub(crate) tainted: Taint,
}

#[derive(Clone)]
pub(crate) struct Steps<'a> {
    /// The step that reads, `None` for none.
    pub(crate) reader: &'a str,
    pub(crate) known: &'a BTreeMap<String, StepFacts>,
    /// Whether the step at a position is finished when the reader starts.
    pub(crate) is_finished: &'a dyn Fn(usize) -> bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StepFacts {
    pub(crate) position: usize,
    pub(crate) fans_out: bool,
    pub(crate) never_runs: bool,
    /// Where its name stands.
    pub(crate) place: Span,
}

/// A problem at a place relative to the expression's text.
pub(super) struct Problem {
    pub(super) code: Code,
    pub(super) warning: bool,
    pub(super) span: Span,
    pub(super) message: String,
    pub(super) help: Option<String>,
    /// A place in the file.
    pub(super) label: Option<(Span, String)>,
}

/// An expression, what it gives, and whether text from outside may be in it.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) expr: Expr,
    pub(crate) ty: Type,
    pub(crate) tainted: bool,
}

pub(super) struct Checker<'a> {
    names: &'a Names<'a>,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(names: &'a Names<'a>) -> Self {
        Self { names, problems: Vec::new() }
    }

    pub(super) fn check(&mut self, ast: &Ast) -> Checked {
        match &ast.kind {
            AstKind::Literal(value) => {
                Checked { expr: Expr::Literal(value.clone()), ty: Type::of_value(value), tainted: false }
            }
            AstKind::Status(function) => {
                if !self.names.status {
                    self.error(Code::Expression, ast.span, format!("`{function}()` has a meaning in `if` only"));
                }
                Checked { expr: Expr::Status(*function), ty: Type::Bool, tainted: false }
            }
            AstKind::Unary(operator, operand) => self.unary(*operator, operand),
            AstKind::Binary(operator, left, right) => self.binary(*operator, left, right),
            AstKind::Call(function, arguments) => self.call(*function, arguments),
            AstKind::Ref { root, path } => self.reference(root, path, ast.span),
        }
    }

    fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Problem {
        let message = message.into();
        self.problems.push(Problem { code, warning: false, span, message, help: None, label: None });
        let last = self.problems.len() - 1;
        &mut self.problems[last]
    }

    fn unary(&mut self, operator: UnaryOp, operand: &Ast) -> Checked {
        let inner = self.check(operand);
        let (fits, wanted, ty) = match operator {
            UnaryOp::Not => (inner.ty.is_bool(), "a boolean", Type::Bool),
            UnaryOp::Negate => (inner.ty.is_number(), "a number", Type::Number),
        };
        if !fits {
            let message = format!("`{operator}` needs {wanted}, not {}", inner.ty.name());
            self.error(Code::Type, operand.span, message);
        }
        Checked { expr: Expr::Unary(operator, Box::new(inner.expr)), ty, tainted: false }
    }

    fn binary(&mut self, operator: BinaryOp, left_ast: &Ast, right_ast: &Ast) -> Checked {
        let (left, right) = (self.check(left_ast), self.check(right_ast));
        let sides = [(&left, left_ast), (&right, right_ast)];
        match operator {
            BinaryOp::Or | BinaryOp::And => self.sides(operator, "a boolean", sides, Type::is_bool),
            BinaryOp::Add | BinaryOp::Subtract => {
                self.sides(operator, "numbers", sides, Type::is_number);
            }
            BinaryOp::Equal | BinaryOp::NotEqual => self.equality(operator, sides),
            BinaryOp::Less | BinaryOp::LessOrEqual | BinaryOp::Greater | BinaryOp::GreaterOrEqual => {
                let fits = (left.ty.is_number() && right.ty.is_number()) || (left.ty.is_text() && right.ty.is_text());
                if !fits {
                    let (left, right) = (left.ty.name(), right.ty.name());
                    let message = format!("`{operator}` compares two numbers or two texts, not {left} with {right}");
                    self.error(Code::Type, left_ast.span.to(right_ast.span), message);
                }
            }
        }
        let ty = match operator {
            BinaryOp::Add | BinaryOp::Subtract => Type::Number,
            _ => Type::Bool,
        };
        Checked { expr: Expr::Binary(operator, Box::new(left.expr), Box::new(right.expr)), ty, tainted: false }
    }

    fn sides(&mut self, operator: BinaryOp, wanted: &str, sides: [(&Checked, &Ast); 2], fits: impl Fn(&Type) -> bool) {
        for (side, ast) in sides {
            if !fits(&side.ty) {
                let message = format!("`{operator}` needs {wanted}, not {}", side.ty.name());
                let problem = self.error(Code::Type, ast.span, message);
                if operator == BinaryOp::Add && side.ty.is_text() {
                    problem.help = Some("texts are joined by writing them side by side: `${{ a }}${{ b }}`".to_owned());
                }
            }
        }
    }

    /// Values of different types are never equal, so a comparison of them is a mistake.
    fn equality(&mut self, operator: BinaryOp, sides: [(&Checked, &Ast); 2]) {
        let [(left, left_ast), (right, right_ast)] = sides;
        let can_be_equal = match (&left.ty, &right.ty) {
            (Type::Any | Type::Null, _) | (_, Type::Any | Type::Null) => true,
            (left, right) if left.is_text() => right.is_text(),
            (left, right) if left.is_map() => right.is_map(),
            (left, right) if left.is_list() => right.is_list(),
            (left, right) => left == right,
        };
        if !can_be_equal {
            let always = if operator == BinaryOp::Equal { "false" } else { "true" };
            let message = format!(
                "`{operator}` is always {always} here: {} is compared with {}",
                left.ty.name(),
                right.ty.name()
            );
            self.error(Code::Type, left_ast.span.to(right_ast.span), message);
        }
        for ((word, literal), ast) in [((left, right), right_ast), ((right, left), left_ast)] {
            let (Type::Word(words), Expr::Literal(Value::Text(text))) = (&word.ty, &literal.expr) else {
                continue;
            };
            if words.contains(&text.text.as_str()) {
                continue;
            }
            let message = format!("the outcome is never `{}`; it is one of {}", text.text, words.join(", "));
            let meant = match text.text.as_str() {
                "success" | "ok" | "passed" => Some("succeeded"),
                "failure" | "error" => Some("failed"),
                "canceled" => Some("cancelled"),
                other => closest(other, words.iter().copied()),
            };
            self.error(Code::Type, ast.span, message).help = meant.map(|meant| format!("did you mean `{meant}`?"));
        }
    }

    fn call(&mut self, function: Function, arguments: &[Ast]) -> Checked {
        let checked: Vec<Checked> = arguments.iter().map(|argument| self.check(argument)).collect();
        let types: Vec<&Type> = checked.iter().map(|argument| &argument.ty).collect();
        let mut wrong = None;
        let mut want = |at: usize, fits: bool, wanted: &'static str| {
            if !fits && wrong.is_none() {
                wrong = Some((at, wanted));
            }
        };
        let ty = match (function, types.as_slice()) {
            (Function::Contains, [whole, part]) => {
                want(0, whole.is_list() || whole.is_text(), "a list or text");
                want(1, !whole.is_text() || part.is_text() || **whole == Type::Any, "text, because the first is text");
                Type::Bool
            }
            (Function::StartsWith | Function::EndsWith, [whole, part]) => {
                want(0, whole.is_text(), "text");
                want(1, part.is_text(), "text");
                Type::Bool
            }
            (Function::Join, [list, separator]) => {
                want(0, list.is_list(), "a list");
                want(1, separator.is_text(), "text");
                Type::Text
            }
            (Function::Length, [value]) => {
                want(0, value.is_list() || value.is_text() || value.is_map(), "a list, a map or text");
                Type::Number
            }
            (Function::ToJson, _) => Type::Text,
            (Function::FromJson, [text]) => {
                want(0, text.is_text(), "text");
                Type::Any
            }
            (Function::Default, [value, fallback]) if value == fallback => (*value).clone(),
            _ => Type::Any,
        };
        if let Some((at, wanted)) = wrong {
            let found = types[at].name();
            self.error(Code::Type, arguments[at].span, format!("`{function}` needs {wanted}, not {found}"));
        }
        let gives_text =
            !matches!(function, Function::Contains | Function::StartsWith | Function::EndsWith | Function::Length);
        let tainted = gives_text && checked.iter().any(|argument| argument.tainted);
        Checked { expr: Expr::Call(function, checked.into_iter().map(|argument| argument.expr).collect()), ty, tainted }
    }

    fn reference(&mut self, root_name: &str, path: &[AstSegment], span: Span) -> Checked {
        let mut segments = Vec::new();
        for segment in path {
            segments.push(match segment {
                AstSegment::Member(name, _) => Segment::Member(name.clone()),
                AstSegment::Index(index) => {
                    let checked = self.check(index);
                    if !checked.ty.is_number() && !checked.ty.is_text() {
                        let message = format!("an index is a whole number or a name, not {}", checked.ty.name());
                        self.error(Code::Type, index.span, message);
                    }
                    Segment::Index(Box::new(checked.expr))
                }
            });
        }
        let root_span = Span::new(span.start, span.start + root_name.len());
        let (root, ty, known) = self.root(root_name, root_span, path, span);
        let tainted = match &root {
            Root::Ticket | Root::Event => true,
            Root::Item(name) => self.names.item.as_ref().is_some_and(|item| item.name == name && item.tainted),
            Root::Env => match (path.first(), &self.names.env) {
                (Some(AstSegment::Member(name, _)), Some(known)) => known.get(name.as_str()).copied().unwrap_or(false),
                (_, Some(known)) => known.values().any(|tainted| *tainted),
                (_, None) => false,
            },
            _ => false,
        };
        let ty = self.descend(ty, &path[known.min(path.len())..]);
        Checked { expr: Expr::Ref { root, path: segments }, ty, tainted }
    }

    /// The root, the type after its first segments, and how many segments that took.
    fn root(&mut self, name: &str, at: Span, path: &[AstSegment], whole: Span) -> (Root, Type, usize) {
        if let Some(item) = &self.names.item
            && item.name == name
        {
            return (Root::Item(name.to_owned()), item.ty.clone(), 0);
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
            "previous" | "matrix" => {
                self.error(Code::NotAvailable, at, format!("`{name}` is not available yet"));
                (if name == "matrix" { Root::Matrix } else { Root::Previous }, Type::Any, 0)
            }
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
        let item = self.names.item.as_ref().map(|item| item.name);
        let help = match name {
            "github" => {
                Some("ask git in the script, for example `git rev-parse HEAD`; inputs are in `inputs`".to_owned())
            }
            "needs" => Some("write `steps.NAME.output`".to_owned()),
            "secrets" | "vars" => Some("pass a variable of the host with `pass_env:` in orchestrator.yaml".to_owned()),
            "runner" | "job" => Some("the flow itself is in `flow`".to_owned()),
            "item" => Some("`item` is the element of a `foreach:` on the same step, unless `as:` names it".to_owned()),
            _ if status_function(name).is_some() => Some(format!("write `{name}()`")),
            _ => closest(name, ROOTS.iter().copied().chain(item)).map(|close| format!("did you mean `{close}`?")),
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
        let Some(facts) = steps.known.get(name) else {
            let known: Vec<&str> = steps.known.keys().map(String::as_str).collect();
            let help = hyphen_help(name, &known).or_else(|| suggestion(name, &known));
            self.error(Code::UnknownStep, span, format!("there is no step `{name}`")).help = help;
            return (Root::Steps, Type::Any, path.len());
        };
        if !(steps.is_finished)(facts.position) {
            self.not_finished(&steps, name, span);
        } else if facts.never_runs && matches!(path.get(1), Some(AstSegment::Member(field, _)) if field == "output") {
            let message = format!("`{name}` never runs, so it has no output");
            self.error(Code::NeverProduced, span, message).warning = true;
        }
        (Root::Steps, self.step_field(name, *facts, path.get(1)), 2)
    }

    fn not_finished(&mut self, steps: &Steps<'_>, name: &str, span: Span) {
        let place = steps.known.get(name).map(|facts| (facts.place, format!("`{name}` is here")));
        let reader = steps.reader;
        let (message, help) = if name == reader {
            (
                format!("`{name}` reads its own result"),
                "a step can read only steps that are finished before it".to_owned(),
            )
        } else {
            (format!("`{reader}` does not wait for `{name}`"), format!("add it to its needs: `needs: [{name}]`"))
        };
        let problem = self.error(Code::NotNeeded, span, message);
        problem.help = Some(help);
        problem.label = place.filter(|_| name != reader);
    }

    fn step_field(&mut self, name: &str, facts: StepFacts, field: Option<&AstSegment>) -> Type {
        let fields = if facts.fans_out { FAN_OUT_FIELDS } else { STEP_FIELDS };
        let (word, span) = match field {
            Some(AstSegment::Member(word, span)) => (word.as_str(), *span),
            Some(AstSegment::Index(index)) => {
                let message = format!("`steps.{name}` has named fields: {}", fields.join(", "));
                self.error(Code::Type, index.span, message);
                return Type::Any;
            }
            None => return Type::Map,
        };
        match word {
            "outcome" => Type::Word(STEP_OUTCOMES),
            // Text when it failed, null otherwise.
            "error" => Type::Any,
            "output" if !facts.fans_out => Type::Any,
            "results" if facts.fans_out => Type::List(Box::new(Type::ElementResult)),
            _ => {
                let help = match word {
                    "output" | "outputs" if facts.fans_out => {
                        Some(format!("it runs once for each element: `steps.{name}.results[0].output`"))
                    }
                    "results" => Some(format!("only a step with `foreach:` has results; read `steps.{name}.output`")),
                    "result" | "conclusion" | "status" => Some("did you mean `outcome`?".to_owned()),
                    other => suggestion(other, fields),
                };
                let message = format!("`steps.{name}` has no `{word}`; it has {}", fields.join(", "));
                self.error(Code::UnknownName, span, message).help = help;
                Type::Any
            }
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

    /// The type after the remaining segments.
    fn descend(&mut self, mut ty: Type, path: &[AstSegment]) -> Type {
        for segment in path {
            ty = match (&ty, segment) {
                (Type::Any | Type::Map, _) => Type::Any,
                (Type::List(item), AstSegment::Index(_)) => (**item).clone(),
                (Type::ElementResult, AstSegment::Member(..)) => {
                    let fields = [("outcome", Type::Word(STEP_OUTCOMES)), ("output", Type::Any), ("error", Type::Any)];
                    self.field("an element's result", std::slice::from_ref(segment), &fields)
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
