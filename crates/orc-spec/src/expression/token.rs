//! Words and signs of expressions, with their places in bytes.

use orc_domain::value::{Finite, Value};

use super::parse::SyntaxError;
use crate::source::Span;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    Literal(Value),
    /// One of `|| && == != <= >= < > + - ! ( ) [ ] . ,`.
    Sign(&'static str),
}

/// Longer signs first, so that `<=` is not `<` and something.
const SIGNS: [&str; 16] = ["||", "&&", "==", "!=", "<=", ">=", "<", ">", "+", "-", "!", "(", ")", "[", "]", "."];
const COMMA: &str = ",";

pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Span)>, SyntaxError> {
    let mut found: Vec<(Token, Span)> = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let after_dot = found.last().is_some_and(|(token, _)| *token == Token::Sign("."));
        let (token, length) = match first {
            '\'' | '"' => string(text, at, first)?,
            '0'..='9' => number(text, at)?,
            _ if first.is_ascii_alphabetic() || first == '_' => name(&text[at..], after_dot),
            _ => sign(text, at)?,
        };
        found.push((token, Span::new(at, at + length)));
        at += length;
    }
    Ok(found)
}

/// The bytes of an expression up to the `}}` that ends it, strings skipped; `None` when nothing ends it.
pub(super) fn end_of_expression(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match (quote, char) {
            (None, '\'' | '"') => quote = Some(char),
            (Some('"'), '\\') => {
                chars.next();
            }
            (Some(open), _) if open == char => quote = None,
            (None, '}') if text[at..].starts_with("}}") => return Some(at),
            _ => {}
        }
    }
    None
}

/// A hyphen belongs to a name only after a dot: `steps.my-step`; elsewhere it is a minus.
fn name(rest: &str, after_dot: bool) -> (Token, usize) {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_' || (after_dot && char == '-');
    let length = rest.find(|char| !is_part(char)).unwrap_or(rest.len());
    let word = &rest[..length];
    let token = match word {
        _ if after_dot => Token::Name(word.to_owned()),
        "true" => Token::Literal(Value::Bool(true)),
        "false" => Token::Literal(Value::Bool(false)),
        "null" => Token::Literal(Value::Null),
        _ => Token::Name(word.to_owned()),
    };
    (token, length)
}

fn number(text: &str, at: usize) -> Result<(Token, usize), SyntaxError> {
    let rest = &text[at..];
    let bytes = rest.as_bytes();
    let digits = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = digits(0);
    if bytes.get(length) == Some(&b'.') && bytes.get(length + 1).is_some_and(u8::is_ascii_digit) {
        length = digits(length + 1);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        if bytes.get(length + 1 + sign).is_some_and(u8::is_ascii_digit) {
            length = digits(length + 1 + sign);
        }
    }
    let span = Span::new(at, at + length);
    if rest[length..].starts_with(|next: char| next.is_alphanumeric() || next == '_') {
        return Err(SyntaxError::new(span, "a number ends in letters here").help("quote it if it is text"));
    }
    let written = &rest[..length];
    let value = match written.parse::<i64>() {
        Ok(whole) => Some(Value::Int(whole)),
        Err(_) if written.contains(['.', 'e', 'E']) => written.parse().ok().and_then(Finite::new).map(Value::Float),
        Err(_) => None,
    };
    match value {
        Some(value) => Ok((Token::Literal(value), length)),
        None => Err(SyntaxError::new(span, "this number is too large")),
    }
}

/// `'it''s'` or `"a \"b\"\n"`.
fn string(text: &str, at: usize, quote: char) -> Result<(Token, usize), SyntaxError> {
    let mut value = String::new();
    let mut chars = text[at + 1..].char_indices().peekable();
    while let Some((offset, char)) = chars.next() {
        if char == quote {
            if chars.peek().is_some_and(|(_, next)| *next == quote) {
                chars.next();
                value.push(quote);
                continue;
            }
            return Ok((Token::Literal(Value::text(value)), offset + 2));
        }
        if char == '\\' && quote == '"' {
            let escaped = match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, 't')) => '\t',
                Some((_, 'r')) => '\r',
                Some((_, same @ ('"' | '\\'))) => same,
                Some((_, other)) => {
                    let start = at + 1 + offset;
                    let span = Span::new(start, start + 1 + other.len_utf8());
                    return Err(SyntaxError::new(span, format!("`\\{other}` means nothing in a text"))
                        .help("the escapes are \\n, \\t, \\r, \\\" and \\\\; within '...' a backslash is itself"));
                }
                None => break,
            };
            value.push(escaped);
            continue;
        }
        value.push(char);
    }
    Err(SyntaxError::new(Span::new(at, text.len()), "this text is not closed").help(format!("close it with {quote}")))
}

fn sign(text: &str, at: usize) -> Result<(Token, usize), SyntaxError> {
    let rest = &text[at..];
    if let Some(sign) = SIGNS.into_iter().chain([COMMA]).find(|sign| rest.starts_with(sign)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    let char = rest.chars().next().unwrap_or(' ');
    let span = Span::new(at, at + char.len_utf8());
    let error = SyntaxError::new(span, format!("`{char}` means nothing in an expression"));
    Err(match char {
        '=' => error.help("write `==` to compare"),
        '&' => error.help("write `&&`"),
        '|' => error.help("write `||`"),
        '$' => error.help("within an expression, names stand without `$`: `env.NAME`"),
        '?' => error.help("there is no `? :`; give a step an `if:`, or use `default(value, fallback)`"),
        '*' | '/' | '%' => error.help("expressions add and subtract only; compute it in a step"),
        _ => error,
    })
}
