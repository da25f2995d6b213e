//! Typed, side-effect-free expressions: the tree, and its evaluation against a [`Scope`].
//!
//! The parser and the type check live in `orc-spec`; evaluation is [`eval`] and [`Template::render`]. It is total:
//! bounded by the size of the tree and of the values it meets, no loops, no calls out.

mod eval;
mod print;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use self::eval::{MAX_TEXT_BYTES, eval};
use crate::value::Value;

/// An expression as compiled; stored in the compiled pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expr {
    /// A constant.
    Literal(Value),
    /// A name and the members read from it: `steps.plan.output.parts[0]`.
    Ref {
        /// The first name.
        root: Root,
        /// What follows.
        path: Vec<Segment>,
    },
    /// `success()` and its siblings.
    Status(StatusFn),
    /// `!x`, `-x`.
    Unary(UnaryOp, Box<Expr>),
    /// `a && b`, `a == b`, `a + b` ...
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// A pure function: `contains(list, x)`, `join(list, ", ")` ...
    Call(Function, Vec<Expr>),
}

/// The names an expression may start with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// Inputs of the flow.
    Inputs,
    /// The ticket that started the flow.
    Ticket,
    /// The event that started the flow.
    Event,
    /// Outcome and output of earlier steps.
    Steps,
    /// The round before, inside `repeat`.
    Previous,
    /// Environment declared in the pipeline and the step, never the host's.
    Env,
    /// The flow itself: `id`, `pipeline`, `outcome`, `summary`.
    Flow,
    /// The combination of a `matrix` element.
    Matrix,
    /// The element of a `foreach`, under its `as:` name.
    Item(String),
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Segment {
    /// `.name` or `["name"]`.
    Member(String),
    /// `[expression]`.
    Index(Box<Expr>),
}

/// `success() failure() always() cancelled() skipped()`: they look at the direct parents; in `finally` at the main phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusFn {
    /// Every direct parent succeeded, made no change, or failed under `continue_on_fail`.
    Success,
    /// At least one direct parent failed.
    Failure,
    /// Always true.
    Always,
    /// At least one direct parent was cancelled.
    Cancelled,
    /// At least one direct parent was skipped.
    Skipped,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnaryOp {
    /// `!`
    Not,
    /// `-`
    Negate,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BinaryOp {
    /// `||`, gives a boolean.
    Or,
    /// `&&`, gives a boolean.
    And,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `+` on numbers.
    Add,
    /// `-` on numbers.
    Subtract,
}

/// Pure functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// `contains(list or text, value)`
    Contains,
    /// `starts_with(text, prefix)`
    StartsWith,
    /// `ends_with(text, suffix)`
    EndsWith,
    /// `join(list, separator)`
    Join,
    /// `length(list, map or text)`
    Length,
    /// `to_json(value)`
    ToJson,
    /// `from_json(text)`
    FromJson,
    /// `default(value, fallback)`: the fallback when the value is null or its last member is missing.
    Default,
}

/// Text with expressions in it: `prefix ${{ expr }} suffix`. A template of exactly one expression keeps its type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template {
    /// In order; neighbouring literals are joined.
    pub parts: Vec<TemplatePart>,
}

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplatePart {
    /// Characters as written.
    Literal(String),
    /// The value of an expression as text.
    Expr(Expr),
}

/// What an expression reads: a root and the members after it, as far as they are written as names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference<'a> {
    /// The first name.
    pub root: &'a Root,
    /// What follows.
    pub path: &'a [Segment],
}

impl<'a> Reference<'a> {
    /// The first member when it is a name: the step of `steps.plan.output`.
    #[must_use]
    pub fn member(&self) -> Option<&'a str> {
        match self.path.first() {
            Some(Segment::Member(name)) => Some(name),
            Some(Segment::Index(_)) | None => None,
        }
    }
}

impl Expr {
    /// Everything it reads, in the order written, those within an index included.
    #[must_use]
    pub fn references(&self) -> Vec<Reference<'_>> {
        let mut found = Vec::new();
        self.walk(&mut |expr| {
            if let Self::Ref { root, path } = expr {
                found.push(Reference { root, path });
            }
        });
        found
    }

    /// The roots it reads.
    #[must_use]
    pub fn roots(&self) -> BTreeSet<&Root> {
        self.references().into_iter().map(|reference| reference.root).collect()
    }

    /// True when it asks for a status function; then a step has no implicit `success()`.
    #[must_use]
    pub fn uses_status(&self) -> bool {
        let mut found = false;
        self.walk(&mut |expr| found |= matches!(expr, Self::Status(_)));
        found
    }

    fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        visit(self);
        match self {
            Self::Literal(_) | Self::Status(_) => {}
            Self::Ref { path, .. } => {
                for segment in path {
                    if let Segment::Index(index) = segment {
                        index.walk(visit);
                    }
                }
            }
            Self::Unary(_, operand) => operand.walk(visit),
            Self::Binary(_, left, right) => {
                left.walk(visit);
                right.walk(visit);
            }
            Self::Call(_, arguments) => {
                for argument in arguments {
                    argument.walk(visit);
                }
            }
        }
    }
}

impl Template {
    /// A template without expressions.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Self {
        Self { parts: vec![TemplatePart::Literal(text.into())] }
    }

    /// Its expressions, in the order written.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Expr(expr) => Some(expr),
            TemplatePart::Literal(_) => None,
        })
    }

    /// Everything it reads, in the order written.
    #[must_use]
    pub fn references(&self) -> Vec<Reference<'_>> {
        self.expressions().flat_map(Expr::references).collect()
    }
}

/// The hint of [`EvalError::Missing`]: a close name and what there is, at most ten names.
#[must_use]
pub fn missing_hint<'a>(member: &str, existing: impl IntoIterator<Item = &'a str> + Clone) -> String {
    const SHOWN: usize = 10;
    let names: Vec<&str> = existing.clone().into_iter().take(SHOWN + 1).collect();
    if names.is_empty() {
        return " (it has nothing)".to_owned();
    }
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    let listed = names[..names.len().min(SHOWN)].join(", ");
    match crate::suggest::closest(member, existing) {
        Some(close) => format!(" (did you mean `{close}`? it has: {listed}{more})"),
        None => format!(" (it has: {listed}{more})"),
    }
}

/// Where names get their values during evaluation.
pub trait Scope {
    /// The value of `root`, or with `member` of that member of it; `steps` is only ever asked with a member, so that a
    /// scope of a thousand steps need not be built as one value. `Err` names what is missing and from whom.
    ///
    /// # Errors
    /// [`EvalError`] when there is no such value.
    fn resolve(&self, root: &Root, member: Option<&str>) -> Result<Value, EvalError>;

    /// The value of a status function here.
    fn status(&self, function: StatusFn) -> bool;
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A member that is not there: names what was read and who should have produced it.
    #[error("`{what}` has no `{member}`{hint}")]
    Missing {
        /// The part of the reference that exists, `steps.plan.output`.
        what: String,
        /// The part that does not.
        member: String,
        /// ` (it has: a, b)` or empty; [`missing_hint`] makes it.
        hint: String,
    },
    /// An operand of the wrong type.
    #[error("{what} needs {wanted}, not {found}")]
    Type {
        /// The operator or function.
        what: String,
        /// What it takes.
        wanted: &'static str,
        /// What it got.
        found: &'static str,
    },
    /// A function with the wrong number of arguments; the type check lets none through.
    #[error("`{function}` does not take {found} arguments")]
    Arguments {
        /// The function.
        function: String,
        /// How many it got.
        found: usize,
    },
    /// A number that does not fit.
    #[error("{what} is out of range")]
    Range {
        /// The operation.
        what: String,
    },
    /// A value larger than an expression may build.
    #[error("{what} would be larger than {limit} bytes")]
    TooLarge {
        /// The operation.
        what: String,
        /// The limit in bytes.
        limit: usize,
    },
}

#[cfg(test)]
mod tests;
