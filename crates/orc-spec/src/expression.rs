//! Expressions in values: `${{ ... }}` in texts, bare ones in `if:` and `foreach:`, each with its exact place.
//!
//! Three parts: [`parse`] makes a tree with places, [`check`] with [`lookup`] checks types and names and gives the
//! [`orc_domain::expr::Expr`] that flows store and evaluate, and this module finds expressions within values of the file.
//! Nothing here evaluates.

mod check;
mod lookup;
mod parse;
mod token;
mod types;

use orc_domain::expr::{Expr, Template, TemplatePart};
use orc_domain::value::Value;

pub(crate) use self::check::{Checked, Item, Names, ROOTS, Refusal, Sight, StepFacts, Steps, Taint};
use self::check::{Checker, Problem};
pub(crate) use self::types::Type;
use crate::diagnostic::{Code, Report};
use crate::read;
use crate::source::Span;
use crate::yaml::{Kind, Node, Scalar};

const OPEN: &str = "${{";

/// A piece of a text with expressions in it.
pub(crate) enum Piece<'a> {
    Text(&'a str),
    /// An expression and its place in the file.
    Expr {
        checked: Checked,
        place: Span,
    },
}

/// Where an expression's text stands in the file: exactly, or only which value it is part of.
#[derive(Clone, Copy)]
struct Place {
    exact: Option<usize>,
    whole: Span,
}

impl Place {
    fn span(self, relative: Span) -> Span {
        self.exact.map_or(self.whole, |start| Span::new(start + relative.start, start + relative.end))
    }
}

/// What reading an expression needs besides its text.
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a str,
    pub(crate) names: &'a Names<'a>,
}

impl Reader<'_> {
    fn expression(&self, text: &str, place: Place, report: &mut Report) -> Option<Checked> {
        let ast = match parse::parse(text) {
            Ok(ast) => ast,
            Err(error) => {
                let problem = report.error(Code::Expression, place.span(error.span), error.message);
                if let Some(help) = error.help {
                    problem.help(help);
                }
                return None;
            }
        };
        let mut checker = Checker::new(self.names);
        let checked = checker.check(&ast);
        let mut sound = true;
        for problem in checker.problems {
            sound &= problem.warning;
            tell(problem, place, report);
        }
        sound.then_some(checked)
    }

    /// A text cut at its expressions; `None` when one of them is wrong.
    pub(crate) fn pieces<'t>(&self, scalar: &'t Scalar, whole: Span, report: &mut Report) -> Option<Vec<Piece<'t>>> {
        let text = scalar.text.as_str();
        let mut pieces = Vec::new();
        let mut sound = true;
        let mut at = 0;
        let mut nth = 0;
        while let Some(found) = text[at..].find(OPEN) {
            let open = at + found;
            if open > at {
                pieces.push(Piece::Text(&text[at..open]));
            }
            let inner_at = open + OPEN.len();
            let Some(length) = token::end_of_expression(&text[inner_at..]) else {
                let place = self.place(scalar, whole, nth, OPEN);
                report
                    .error(Code::Expression, place.span(Span::new(0, OPEN.len())), "this `${{` is never closed")
                    .help("close it with `}}`");
                return None;
            };
            let end = inner_at + length + 2;
            let place = self.place(scalar, whole, nth, &text[open..end]);
            let inner = Place { exact: place.exact.map(|start| start + OPEN.len()), whole };
            match self.expression(&text[inner_at..inner_at + length], inner, report) {
                Some(checked) => {
                    let place = place.span(Span::new(0, end - open));
                    pieces.push(Piece::Expr { checked, place });
                }
                None => sound = false,
            }
            at = end;
            nth += text[open..end].matches(OPEN).count();
        }
        if at < text.len() {
            pieces.push(Piece::Text(&text[at..]));
        }
        sound.then_some(pieces)
    }

    /// The place of the `nth` expression of a value, which reads `written`: exact when the file has those very
    /// characters there, which escapes and folded lines can prevent.
    fn place(&self, scalar: &Scalar, whole: Span, nth: usize, written: &str) -> Place {
        let source = &self.source[whole.range()];
        let same_number = source.matches(OPEN).count() == scalar.text.matches(OPEN).count();
        let start = source.match_indices(OPEN).nth(nth).map(|(start, _)| start).filter(|_| same_number);
        let exact = start.filter(|start| source[*start..].starts_with(written)).map(|start| whole.start + start);
        Place { exact, whole }
    }

    /// A text with expressions as a template; `true` when text from outside may be in it.
    pub(crate) fn template(&self, node: &Node, what: &str, report: &mut Report) -> Option<(Template, Taint)> {
        self.typed_template(node, what, report).map(|(template, _, tainted)| (template, tainted))
    }

    /// The same with its type: a template of exactly one expression keeps that of its value.
    pub(crate) fn typed_template(
        &self,
        node: &Node,
        what: &str,
        report: &mut Report,
    ) -> Option<(Template, Type, Taint)> {
        let scalar = match &node.kind {
            // `NAME:` with nothing after it is an empty text.
            Kind::Scalar(scalar) if scalar.is_null() => {
                return Some((Template { parts: Vec::new() }, Type::Text, false));
            }
            Kind::Scalar(scalar) => scalar,
            _ => {
                read::wrong_type(node, what, "text", report);
                return None;
            }
        };
        let mut tainted = false;
        let mut ty = Type::Text;
        let pieces = self.pieces(scalar, node.span, report)?;
        let is_alone = pieces.len() == 1;
        let parts = pieces.into_iter().map(|piece| match piece {
            Piece::Text(text) => TemplatePart::Literal(text.to_owned()),
            Piece::Expr { checked, .. } => {
                tainted |= checked.tainted;
                if is_alone {
                    ty = checked.ty;
                }
                TemplatePart::Expr(checked.expr)
            }
        });
        let parts = parts.collect();
        Some((Template { parts }, ty, tainted))
    }

    /// The whole value as one expression, with or without `${{ }}`.
    fn single(&self, node: &Node, scalar: &Scalar, report: &mut Report) -> Option<Checked> {
        let text = scalar.text.as_str();
        let trimmed = text.trim();
        if !text.contains(OPEN) {
            let written = &self.source[node.span.range()];
            let exact = written.find(trimmed).map(|start| node.span.start + start);
            return self.expression(trimmed, Place { exact, whole: node.span }, report);
        }
        let length = trimmed.strip_prefix(OPEN).and_then(token::end_of_expression);
        if length.map(|length| OPEN.len() + length + 2) != Some(trimmed.len()) {
            report
                .error(Code::Expression, node.span, "this must be one expression, not text with expressions in it")
                .help("put everything into one `${{ ... }}`, or leave the `${{ }}` out");
            return None;
        }
        let alone = Scalar { text: trimmed.to_owned(), plain: scalar.plain };
        let pieces = self.pieces(&alone, node.span, report)?;
        pieces.into_iter().find_map(|piece| match piece {
            Piece::Expr { checked, .. } => Some(checked),
            Piece::Text(_) => None,
        })
    }

    /// The whole value as one expression of any type, with or without `${{ }}`.
    pub(crate) fn any(&self, node: &Node, what: &str, report: &mut Report) -> Option<Checked> {
        let scalar = read::scalar(node, what, "an expression", report)?;
        self.single(node, scalar, report)
    }

    /// An expression that gives true or false.
    pub(crate) fn condition(&self, node: &Node, what: &str, report: &mut Report) -> Option<Expr> {
        const WANTED: &str = "an expression that gives true or false";
        let scalar = read::scalar(node, what, WANTED, report)?;
        let checked = self.single(node, scalar, report)?;
        if checked.ty.is_bool() {
            return Some(checked.expr);
        }
        let problem = report.error(Code::Type, node.span, format!("{what} needs {WANTED}, not {}", checked.ty.name()));
        if matches!(checked.ty, Type::Text | Type::Number | Type::Word(_)) {
            problem.help("compare it: `... == 'value'`");
        }
        None
    }

    /// `foreach:`: an expression that gives a list, or the list itself.
    pub(crate) fn list(&self, node: &Node, report: &mut Report) -> Option<Checked> {
        const WANTED: &str = "a list, or an expression that gives one";
        if let Kind::List(_) = &node.kind {
            if let Some(span) = read::find_expression(node) {
                report
                    .error(Code::Expression, span, "an expression cannot stand within a list that is written out")
                    .help("write the whole list as one expression, or make it in a step and read its output");
                return None;
            }
            let value = read::value(node)?;
            return Some(Checked { expr: Expr::Literal(value), ty: Type::List(Box::new(Type::Any)), tainted: false });
        }
        let scalar = read::scalar(node, "`foreach`", WANTED, report)?;
        let checked = self.single(node, scalar, report)?;
        if checked.ty.is_list() {
            return Some(checked);
        }
        report
            .error(Code::Type, node.span, format!("`foreach` needs {WANTED}, not {}", checked.ty.name()))
            .help("write `[a, b]`, or make the list in a step: `echo 'parts=[\"a\",\"b\"]' >> \"$ORC_OUTPUT\"`");
        None
    }
}

/// True for an expression that is `false` whatever happens.
pub(crate) fn is_never(expr: &Expr) -> bool {
    *expr == Expr::Literal(Value::Bool(false))
}

fn tell(problem: Problem, place: Place, report: &mut Report) {
    let span = place.span(problem.span);
    let told = if problem.warning {
        report.warning(problem.code, span, problem.message)
    } else {
        report.error(problem.code, span, problem.message)
    };
    if let Some(help) = problem.help {
        told.help(help);
    }
    if let Some((span, text)) = problem.label {
        told.label(span, text);
    }
}

#[cfg(test)]
mod tests;
