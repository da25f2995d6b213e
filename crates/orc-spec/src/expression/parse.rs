//! A Pratt parser for expressions. It never panics, and the height of the tree is bounded, so that neither evaluation nor
//! storage can run out of stack.

use orc_domain::expr::{BinaryOp, Function, StatusFn, UnaryOp};
use orc_domain::value::{Finite, Value};

use super::token::{Token, tokens};
use crate::source::Span;

/// Operators within operators, also those in a row. Storage as JSON takes up to three levels for each, of the 128 that
/// its reader allows.
pub(super) const MAX_HEIGHT: usize = 32;

/// An expression with its places, relative to its own text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ast {
    pub(super) span: Span,
    pub(super) kind: AstKind,
    height: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum AstKind {
    Literal(Value),
    Ref { root: String, path: Vec<AstSegment> },
    Status(StatusFn),
    Unary(UnaryOp, Box<Ast>),
    Binary(BinaryOp, Box<Ast>, Box<Ast>),
    Call(Function, Vec<Ast>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum AstSegment {
    Member(String, Span),
    Index(Ast),
}

/// Why an expression cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) span: Span,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl SyntaxError {
    pub(super) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

pub(super) fn parse(text: &str) -> Result<Ast, SyntaxError> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Err(SyntaxError::new(Span::new(0, text.len()), "an expression is missing here"));
    }
    let mut parser = Parser { tokens, at: 0, end: text.len(), depth: 0 };
    let ast = parser.expression(0)?;
    match parser.peek() {
        None => Ok(ast),
        Some(Token::Name(word)) => {
            let error = SyntaxError::new(parser.span(), format!("`{word}` cannot follow here"));
            Err(match word.as_str() {
                "and" => error.help("write `&&`"),
                "or" => error.help("write `||`"),
                _ => error.help("an operator is missing before it, or the text should be quoted"),
            })
        }
        Some(_) => Err(SyntaxError::new(parser.span(), "the expression should have ended before this")),
    }
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    at: usize,
    end: usize,
    depth: usize,
}

/// Binding strength and meaning of an operator between two operands; all bind to the left.
fn infix(sign: &str) -> Option<(u8, BinaryOp)> {
    Some(match sign {
        "||" => (1, BinaryOp::Or),
        "&&" => (2, BinaryOp::And),
        "==" => (3, BinaryOp::Equal),
        "!=" => (3, BinaryOp::NotEqual),
        "<" => (4, BinaryOp::Less),
        "<=" => (4, BinaryOp::LessOrEqual),
        ">" => (4, BinaryOp::Greater),
        ">=" => (4, BinaryOp::GreaterOrEqual),
        "+" => (5, BinaryOp::Add),
        "-" => (5, BinaryOp::Subtract),
        _ => return None,
    })
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    /// Place of the next token, or of the end.
    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or(Span::new(self.end, self.end), |(_, span)| *span)
    }

    fn before(&self) -> Span {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(Span::new(0, 0), |(_, span)| *span)
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(next)) if *next == sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str, after: &str) -> Result<(), SyntaxError> {
        if self.take(sign) {
            return Ok(());
        }
        Err(SyntaxError::new(self.span(), format!("`{sign}` is missing after {after}")))
    }

    fn expression(&mut self, strength: u8) -> Result<Ast, SyntaxError> {
        self.depth += 1;
        // The recursion is bounded here, the tree in `node`: operators in a row build height without recursion.
        if self.depth > MAX_HEIGHT {
            return Err(too_deep(self.span()));
        }
        let mut left = self.operand()?;
        while let Some((own, operator)) = match self.peek() {
            Some(Token::Sign(sign)) => infix(sign),
            _ => None,
        } {
            if own <= strength {
                break;
            }
            self.at += 1;
            let right = self.expression(own)?;
            let span = left.span.to(right.span);
            let height = left.height.max(right.height);
            left = node(span, AstKind::Binary(operator, Box::new(left), Box::new(right)), height)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Ast, SyntaxError> {
        let span = self.span();
        let Some(token) = self.peek().cloned() else {
            return Err(SyntaxError::new(span, "the expression ends too early"));
        };
        self.at += 1;
        match token {
            Token::Literal(value) => node(span, AstKind::Literal(value), 0),
            Token::Sign("!") => self.unary(UnaryOp::Not, span),
            Token::Sign("-") => self.unary(UnaryOp::Negate, span),
            Token::Sign("(") => {
                let inner = self.expression(0)?;
                self.expect(")", "this expression")?;
                Ok(Ast { span: span.to(self.before()), ..inner })
            }
            Token::Name(word) if matches!(self.peek(), Some(Token::Sign("("))) => self.call(&word, span),
            Token::Name(word) => self.reference(word, span),
            Token::Sign(sign) => Err(SyntaxError::new(span, format!("a value is missing before `{sign}`"))),
        }
    }

    fn unary(&mut self, operator: UnaryOp, start: Span) -> Result<Ast, SyntaxError> {
        // Stronger than every operator between two operands.
        let operand = self.expression(6)?;
        let span = start.to(operand.span);
        let height = operand.height;
        match (operator, &operand.kind) {
            (UnaryOp::Negate, AstKind::Literal(Value::Int(number))) if *number > 0 => {
                node(span, AstKind::Literal(Value::Int(-number)), 0)
            }
            (UnaryOp::Negate, AstKind::Literal(Value::Float(number))) if *number > Finite::ZERO => {
                node(span, AstKind::Literal(Value::Float(number.negated())), 0)
            }
            _ => node(span, AstKind::Unary(operator, Box::new(operand)), height),
        }
    }

    fn call(&mut self, word: &str, start: Span) -> Result<Ast, SyntaxError> {
        self.expect("(", "the function")?;
        let mut arguments = Vec::new();
        if !self.take(")") {
            loop {
                arguments.push(self.expression(0)?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")", "the arguments")?;
        }
        let span = start.to(self.before());
        if let Some(status) = status_function(word) {
            if !arguments.is_empty() {
                return Err(SyntaxError::new(span, format!("`{word}()` takes no arguments")));
            }
            return node(span, AstKind::Status(status), 0);
        }
        let Some((function, takes)) = function(word) else {
            return Err(unknown_function(word, start));
        };
        if arguments.len() != takes {
            let message = format!(
                "`{word}` takes {takes} argument{}, not {}",
                if takes == 1 { "" } else { "s" },
                arguments.len()
            );
            return Err(SyntaxError::new(span, message));
        }
        // A call takes one level of storage more than an operator.
        let height = arguments.iter().map(|argument| argument.height).max().unwrap_or(0) + 1;
        node(span, AstKind::Call(function, arguments), height)
    }

    fn reference(&mut self, root: String, start: Span) -> Result<Ast, SyntaxError> {
        let mut path = Vec::new();
        let mut height = 0;
        loop {
            if self.take(".") {
                let span = self.span();
                match self.peek().cloned() {
                    Some(Token::Name(member)) => {
                        self.at += 1;
                        path.push(AstSegment::Member(member, span));
                    }
                    _ => return Err(SyntaxError::new(span, "a name is missing after `.`")),
                }
            } else if self.take("[") {
                let index = self.expression(0)?;
                self.expect("]", "the index")?;
                // An index takes two levels of storage more than an operator.
                height = height.max(index.height + 2);
                path.push(match index.kind {
                    AstKind::Literal(Value::Text(text)) => AstSegment::Member(text.text, index.span),
                    _ => AstSegment::Index(index),
                });
            } else {
                let span = start.to(self.before());
                return node(span, AstKind::Ref { root, path }, height);
            }
        }
    }
}

fn node(span: Span, kind: AstKind, below: usize) -> Result<Ast, SyntaxError> {
    if below >= MAX_HEIGHT {
        return Err(too_deep(span));
    }
    Ok(Ast { span, kind, height: below + 1 })
}

fn too_deep(span: Span) -> SyntaxError {
    SyntaxError::new(span, format!("this expression is nested or chained more than {MAX_HEIGHT} levels deep"))
        .help("compute parts of it in a step and read the step's output")
}

pub(super) fn status_function(word: &str) -> Option<StatusFn> {
    Some(match word {
        "success" => StatusFn::Success,
        "failure" => StatusFn::Failure,
        "always" => StatusFn::Always,
        "cancelled" => StatusFn::Cancelled,
        "skipped" => StatusFn::Skipped,
        _ => return None,
    })
}

/// The functions of expressions, and how many arguments each takes.
const FUNCTIONS: [(&str, Function, usize); 8] = [
    ("contains", Function::Contains, 2),
    ("starts_with", Function::StartsWith, 2),
    ("ends_with", Function::EndsWith, 2),
    ("join", Function::Join, 2),
    ("length", Function::Length, 1),
    ("to_json", Function::ToJson, 1),
    ("from_json", Function::FromJson, 1),
    ("default", Function::Default, 2),
];

fn function(word: &str) -> Option<(Function, usize)> {
    FUNCTIONS.iter().find(|(name, ..)| *name == word).map(|(_, function, takes)| (*function, *takes))
}

fn unknown_function(word: &str, span: Span) -> SyntaxError {
    let error = SyntaxError::new(span, format!("there is no function `{word}`"));
    let known =
        FUNCTIONS.map(|(name, ..)| name).into_iter().chain(["success", "failure", "always", "cancelled", "skipped"]);
    let help = match word.to_lowercase().as_str() {
        "format" => Some("write text with several expressions in it".to_owned()),
        "len" | "size" | "count" => Some("did you mean `length`?".to_owned()),
        "canceled" => Some("did you mean `cancelled`?".to_owned()),
        "hashfiles" => Some("compute it in a step".to_owned()),
        other => {
            let bare = other.replace('_', "");
            let same = known.clone().find(|name| name.replace('_', "") == bare);
            let close = same.or_else(|| orc_domain::suggest::closest(word, known));
            close.map(|close| format!("did you mean `{close}`?"))
        }
    };
    SyntaxError { help, ..error }
}
