//! The type check: names against what the pipeline has, operators against the types they take, and the taint of text.
//!
//! It accepts what can work: a value whose type is not known before the flow runs fits everywhere and is checked when it
//! is used. Each problem is told at its own place; what was reported counts as `Any` afterwards.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::expr::{BinaryOp, Expr, Function, Root, Segment, UnaryOp};
use orc_domain::suggest::closest;
use orc_domain::value::Value;

use super::parse::{Ast, AstKind, AstSegment};
use super::types::Type;
use crate::diagnostic::Code;
use crate::source::Span;

/// The words of `steps.X.outcome`.
pub(crate) const STEP_OUTCOMES: &[&str] = &["succeeded", "no_change", "failed", "skipped", "cancelled"];
pub(crate) const ROOTS: &[&str] = &["inputs", "ticket", "event", "steps", "previous", "env", "flow", "matrix"];

/// What an expression may name at its place.
pub(crate) struct Names<'a> {
    /// The place, for messages: `` `if` ``.
    pub(crate) place: &'static str,
    pub(crate) inputs: &'a BTreeMap<String, Type>,
    /// Nothing can be read that the flow does not have before it begins.
    pub(crate) only_inputs: bool,
    /// The steps that are in sight; none where steps cannot be read at all.
    pub(crate) steps: Option<Steps<'a>>,
    /// Names of variables, where `env` can be read.
    pub(crate) env: Option<BTreeMap<&'a str, Taint>>,
    /// The elements of fan-outs: the step's own, and those of each `repeat` around it.
    pub(crate) items: Vec<Item<'a>>,
    /// The combination of a matrix, of the step or of a `repeat` around it.
    pub(crate) matrix: Option<Type>,
    /// Status functions make sense.
    pub(crate) status: bool,
    /// `on: ticket` is written; without it no flow has a ticket.
    pub(crate) has_ticket: bool,
    /// `on: github` or `on: event` is written.
    pub(crate) has_event: bool,
}

impl<'a> Names<'a> {
    /// Inputs and the flow itself.
    pub(crate) fn of_inputs(inputs: &'a BTreeMap<String, Type>) -> Self {
        Self {
            place: "this place",
            inputs,
            only_inputs: false,
            steps: None,
            env: None,
            items: Vec::new(),
            matrix: None,
            status: false,
            has_ticket: false,
            has_event: false,
        }
    }
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
    /// The steps in sight, by name: those of the innermost body first, those of the pipeline last.
    pub(crate) levels: Vec<&'a BTreeMap<String, StepFacts>>,
    pub(crate) sight: &'a dyn Sight,
}

/// What a place knows of the steps in sight, by their position.
pub(crate) trait Sight {
    /// Whether it is finished when the expression is evaluated.
    fn is_finished(&self, step: usize) -> bool;

    /// Why it cannot be read, when it is not.
    fn refusal(&self, step: usize) -> Refusal;
}

/// Why a step cannot be read.
pub(crate) struct Refusal {
    pub(crate) message: String,
    pub(crate) help: String,
    /// The step stands elsewhere, which is worth showing.
    pub(crate) elsewhere: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct StepFacts {
    pub(crate) position: usize,
    pub(crate) fans_out: bool,
    /// It has `rounds`.
    pub(crate) repeats: bool,
    /// Names of the files that are kept of it.
    pub(crate) artifacts: Option<BTreeSet<String>>,
    /// What `output` is; of a fan-out, that of an element.
    pub(crate) output: Type,
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
    pub(super) names: &'a Names<'a>,
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

    pub(super) fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Problem {
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
            Root::Item(name) => self.names.items.iter().any(|item| item.name == name && item.tainted),
            Root::Env => match (path.first(), &self.names.env) {
                (Some(AstSegment::Member(name, _)), Some(known)) => known.get(name.as_str()).copied().unwrap_or(false),
                (_, Some(known)) => known.values().any(|tainted| *tainted),
                (_, None) => false,
            },
            _ => false,
        };
        let ty = self.descend(ty, root_name, path, known.min(path.len()));
        Checked { expr: Expr::Ref { root, path: segments }, ty, tainted }
    }
}
