//! The text of expressions: what a reason of a skip or a plan shows, and what the parser of `orc-spec` reads back.

use std::fmt::{self, Display, Formatter, Write as _};

use super::{BinaryOp, Expr, Function, Root, Segment, StatusFn, Template, TemplatePart, UnaryOp};
use crate::value::Value;

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(value) => print_literal(value, f),
            Self::Ref { root, path } => {
                write!(f, "{root}")?;
                for segment in path {
                    match segment {
                        Segment::Member(name) if is_name(name) => write!(f, ".{name}")?,
                        Segment::Member(name) => {
                            f.write_char('[')?;
                            print_text(name, f)?;
                            f.write_char(']')?;
                        }
                        Segment::Index(index) => write!(f, "[{index}]")?,
                    }
                }
                Ok(())
            }
            Self::Status(function) => write!(f, "{function}()"),
            Self::Unary(operator, operand) => {
                write!(f, "{operator}")?;
                print_operand(operand, f)
            }
            Self::Binary(operator, left, right) => {
                print_operand(left, f)?;
                write!(f, " {operator} ")?;
                print_operand(right, f)
            }
            Self::Call(function, arguments) => {
                write!(f, "{function}(")?;
                for (position, argument) in arguments.iter().enumerate() {
                    let comma = if position == 0 { "" } else { ", " };
                    write!(f, "{comma}{argument}")?;
                }
                f.write_char(')')
            }
        }
    }
}

impl Display for Template {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                TemplatePart::Literal(text) => f.write_str(text)?,
                TemplatePart::Expr(expr) => write!(f, "${{{{ {expr} }}}}")?,
            }
        }
        Ok(())
    }
}

/// True for what may follow a dot: letters, digits, `_` and `-`, beginning with a letter or `_`.
fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-')
}

fn print_operand(operand: &Expr, f: &mut Formatter<'_>) -> fmt::Result {
    let negative = matches!(operand, Expr::Literal(Value::Int(number)) if *number < 0)
        || matches!(operand, Expr::Literal(Value::Float(number)) if number.get().is_sign_negative());
    if negative || matches!(operand, Expr::Binary(..) | Expr::Unary(..)) {
        write!(f, "({operand})")
    } else {
        write!(f, "{operand}")
    }
}

fn print_literal(value: &Value, f: &mut Formatter<'_>) -> fmt::Result {
    match value {
        Value::Text(text) => print_text(&text.text, f),
        Value::Null => f.write_str("null"),
        other => f.write_str(&other.json_text()),
    }
}

/// Single quotes, a quote within doubled.
fn print_text(text: &str, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

impl Display for Root {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inputs => "inputs",
            Self::Ticket => "ticket",
            Self::Event => "event",
            Self::Steps => "steps",
            Self::Previous => "previous",
            Self::Env => "env",
            Self::Flow => "flow",
            Self::Matrix => "matrix",
            Self::Item(name) => name,
        })
    }
}

impl Display for StatusFn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Always => "always",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        })
    }
}

impl Display for UnaryOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Not => "!",
            Self::Negate => "-",
        })
    }
}

impl Display for BinaryOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
        })
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contains => "contains",
            Self::StartsWith => "starts_with",
            Self::EndsWith => "ends_with",
            Self::Join => "join",
            Self::Length => "length",
            Self::ToJson => "to_json",
            Self::FromJson => "from_json",
            Self::Default => "default",
        })
    }
}
