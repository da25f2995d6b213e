//! Evaluation of expressions and templates.
//!
//! Types are strict: `&&`, `||` and `!` take booleans, comparison takes two numbers or two texts; only `==` compares
//! anything (values of different types are unequal, taint does not count). Taint follows text into text.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{BinaryOp, EvalError, Expr, Function, Root, Scope, Segment, Template, TemplatePart, UnaryOp, missing_hint};
use crate::value::{Finite, Text, Value};

/// Bytes of text that one expression or template may build.
pub const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// The value of `expr` in `scope`.
///
/// # Errors
/// [`EvalError`]: a missing member, an operand of the wrong type, a number out of range, a text above
/// [`MAX_TEXT_BYTES`].
pub fn eval(expr: &Expr, scope: &dyn Scope) -> Result<Value, EvalError> {
    match expr {
        Expr::Literal(value) => Ok(value.clone()),
        Expr::Ref { root, path } => read(root, path, scope).map_err(|failed| failed.error),
        Expr::Status(function) => Ok(Value::Bool(scope.status(*function))),
        Expr::Unary(UnaryOp::Not, operand) => Ok(Value::Bool(!truth(operand, scope, "`!`")?)),
        Expr::Unary(UnaryOp::Negate, operand) => negate(eval(operand, scope)?),
        Expr::Binary(BinaryOp::Or, left, right) => {
            Ok(Value::Bool(truth(left, scope, "`||`")? || truth(right, scope, "`||`")?))
        }
        Expr::Binary(BinaryOp::And, left, right) => {
            Ok(Value::Bool(truth(left, scope, "`&&`")? && truth(right, scope, "`&&`")?))
        }
        Expr::Binary(operator, left, right) => binary(*operator, &eval(left, scope)?, &eval(right, scope)?),
        Expr::Call(function, arguments) => call(*function, arguments, scope),
    }
}

impl Template {
    /// The value of the template: of exactly one expression its value with its type, else text, tainted when any part
    /// is.
    ///
    /// # Errors
    /// As [`eval`].
    pub fn render(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        if let [TemplatePart::Expr(only)] = self.parts.as_slice() {
            return eval(only, scope);
        }
        let mut whole = Text::trusted("");
        for part in &self.parts {
            match part {
                TemplatePart::Literal(text) => append(&mut whole, text, false, "the text")?,
                TemplatePart::Expr(expr) => {
                    let part = eval(expr, scope)?.to_text();
                    append(&mut whole, &part.text, part.tainted, "the text")?;
                }
            }
        }
        Ok(Value::Text(whole))
    }

    /// The same as parts, so that what came from outside can be told apart: a prompt fences it.
    ///
    /// # Errors
    /// As [`eval`].
    pub fn render_parts(&self, scope: &dyn Scope) -> Result<Vec<Text>, EvalError> {
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut bytes = 0;
        for part in &self.parts {
            let part = match part {
                TemplatePart::Literal(text) => Text::trusted(text.clone()),
                TemplatePart::Expr(expr) => eval(expr, scope)?.to_text(),
            };
            bytes += part.text.len();
            if bytes > MAX_TEXT_BYTES {
                return Err(EvalError::TooLarge { what: "the text".to_owned(), limit: MAX_TEXT_BYTES });
            }
            parts.push(part);
        }
        Ok(parts)
    }
}

fn append(whole: &mut Text, text: &str, tainted: bool, what: &str) -> Result<(), EvalError> {
    if whole.text.len() + text.len() > MAX_TEXT_BYTES {
        return Err(EvalError::TooLarge { what: what.to_owned(), limit: MAX_TEXT_BYTES });
    }
    whole.text.push_str(text);
    whole.tainted |= tainted;
    Ok(())
}

/// A failed read; `default()` accepts one whose last member alone is missing.
struct FailedRead {
    error: EvalError,
    last_is_missing: bool,
}

impl From<EvalError> for FailedRead {
    fn from(error: EvalError) -> Self {
        Self { error, last_is_missing: false }
    }
}

/// A segment with its index evaluated.
enum Step {
    Member(String),
    Position(i64),
}

fn read(root: &Root, path: &[Segment], scope: &dyn Scope) -> Result<Value, FailedRead> {
    let mut what = root.to_string();
    let mut value = None;
    for (position, segment) in path.iter().enumerate() {
        let step = match segment {
            Segment::Member(name) => Step::Member(name.clone()),
            Segment::Index(index) => match eval(index, scope)? {
                Value::Text(text) => Step::Member(text.text),
                Value::Int(number) => Step::Position(number),
                other => {
                    return Err(
                        wrong_type(format!("an index into `{what}`"), "a whole number or a name", &other).into()
                    );
                }
            },
        };
        let read = match (value.take(), &step) {
            (None, Step::Member(name)) => scope.resolve(root, Some(name)),
            (None, Step::Position(_)) => scope.resolve(root, None).and_then(|whole| descend(whole, &step, &what)),
            (Some(owner), _) => descend(owner, &step, &what),
        };
        match read {
            Ok(found) => value = Some(found),
            Err(error) => {
                let last = position + 1 == path.len();
                return Err(FailedRead { last_is_missing: last && matches!(error, EvalError::Missing { .. }), error });
            }
        }
        match step {
            Step::Member(name) => what = format!("{what}.{name}"),
            Step::Position(number) => what = format!("{what}[{number}]"),
        }
    }
    match value {
        Some(value) => Ok(value),
        None => Ok(scope.resolve(root, None)?),
    }
}

fn descend(owner: Value, step: &Step, what: &str) -> Result<Value, EvalError> {
    let missing = |member: String, hint: String| EvalError::Missing { what: what.to_owned(), member, hint };
    match (owner, step) {
        (Value::Map(mut members), Step::Member(name)) => match members.remove(name) {
            Some(found) => Ok(found),
            None => Err(missing(name.clone(), missing_hint(name, members.keys().map(String::as_str)))),
        },
        (Value::List(mut items), Step::Position(number)) => match usize::try_from(*number) {
            Ok(index) if index < items.len() => Ok(items.swap_remove(index)),
            _ => Err(missing(format!("[{number}]"), format!(" (it has {} elements, counted from 0)", items.len()))),
        },
        (Value::Null, Step::Member(name)) => Err(missing(name.clone(), " (it is null)".to_owned())),
        (Value::Null, Step::Position(number)) => Err(missing(format!("[{number}]"), " (it is null)".to_owned())),
        (other, Step::Member(name)) => Err(wrong_type(format!("reading `{name}` of `{what}`"), "a map", &other)),
        (other, Step::Position(number)) => Err(wrong_type(format!("reading [{number}] of `{what}`"), "a list", &other)),
    }
}

fn wrong_type(what: impl Into<String>, wanted: &'static str, found: &Value) -> EvalError {
    EvalError::Type { what: what.into(), wanted, found: found.type_name() }
}

fn truth(expr: &Expr, scope: &dyn Scope, what: &str) -> Result<bool, EvalError> {
    match eval(expr, scope)? {
        Value::Bool(truth) => Ok(truth),
        other => Err(wrong_type(what, "a boolean", &other)),
    }
}

fn negate(value: Value) -> Result<Value, EvalError> {
    match value {
        Value::Int(number) => {
            number.checked_neg().map(Value::Int).ok_or_else(|| EvalError::Range { what: "`-`".to_owned() })
        }
        Value::Float(number) => Ok(Value::Float(number.negated())),
        other => Err(wrong_type("`-`", "a number", &other)),
    }
}

fn finite(number: f64, what: &str) -> Result<Value, EvalError> {
    Finite::new(number).map(Value::Float).ok_or_else(|| EvalError::Range { what: what.to_owned() })
}

fn binary(operator: BinaryOp, left: &Value, right: &Value) -> Result<Value, EvalError> {
    let ordered = |accept: fn(Ordering) -> bool| Ok(Value::Bool(accept(order(operator, left, right)?)));
    match operator {
        BinaryOp::Equal => Ok(Value::Bool(same(left, right))),
        BinaryOp::NotEqual => Ok(Value::Bool(!same(left, right))),
        BinaryOp::Less => ordered(Ordering::is_lt),
        BinaryOp::LessOrEqual => ordered(Ordering::is_le),
        BinaryOp::Greater => ordered(Ordering::is_gt),
        BinaryOp::GreaterOrEqual => ordered(Ordering::is_ge),
        BinaryOp::Add | BinaryOp::Subtract => arithmetic(operator, left, right),
        // `eval` takes these itself, because the right side may not be looked at.
        BinaryOp::Or | BinaryOp::And => Err(wrong_type(format!("`{operator}`"), "a boolean", left)),
    }
}

fn arithmetic(operator: BinaryOp, left: &Value, right: &Value) -> Result<Value, EvalError> {
    let what = format!("`{operator}`");
    let add = operator == BinaryOp::Add;
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        let result = if add { left.checked_add(*right) } else { left.checked_sub(*right) };
        return result.map(Value::Int).ok_or(EvalError::Range { what });
    }
    let operand = |value: &Value| number(value).ok_or_else(|| wrong_type(what.clone(), "two numbers", value));
    let (left, right) = (operand(left)?, operand(right)?);
    #[expect(clippy::float_arithmetic, reason = "numbers of users; money never is a Value")]
    finite(if add { left + right } else { left - right }, &what)
}

#[expect(clippy::cast_precision_loss, reason = "only meets a floating-point number, which is rounded already")]
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(number.get()),
        _ => None,
    }
}

/// Equality as expressions see it: taint does not count, `1 == 1.0`, other types never mix.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => left.text == right.text,
        (Value::Int(int), Value::Float(float)) | (Value::Float(float), Value::Int(int)) => {
            int_with_float(*int, *float) == Ordering::Equal
        }
        (Value::List(left), Value::List(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Map(left), Value::Map(right)) => same_members(left, right),
        _ => left == right,
    }
}

fn same_members(left: &BTreeMap<String, Value>, right: &BTreeMap<String, Value>) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .all(|((left_key, left), (right_key, right))| left_key == right_key && same(left, right))
}

fn order(operator: BinaryOp, left: &Value, right: &Value) -> Result<Ordering, EvalError> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Ok(left.text.cmp(&right.text)),
        (Value::Int(left), Value::Int(right)) => Ok(left.cmp(right)),
        (Value::Int(int), Value::Float(float)) => Ok(int_with_float(*int, *float)),
        (Value::Float(float), Value::Int(int)) => Ok(int_with_float(*int, *float).reverse()),
        // Finite numbers are always ordered.
        (Value::Float(left), Value::Float(right)) => Ok(left.partial_cmp(right).unwrap_or(Ordering::Equal)),
        (Value::Int(_) | Value::Float(_) | Value::Text(_), other) | (other, _) => {
            Err(wrong_type(format!("`{operator}`"), "two numbers or two texts", other))
        }
    }
}

/// Exact: a whole number above 2^53 is not rounded first.
fn int_with_float(int: i64, float: Finite) -> Ordering {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    const LOWEST: f64 = -9_223_372_036_854_775_808.0;
    let float = float.get();
    if float >= BEYOND {
        return Ordering::Less;
    }
    if float < LOWEST {
        return Ordering::Greater;
    }
    #[expect(clippy::cast_possible_truncation, reason = "within the range of i64, checked above")]
    let whole = float.trunc() as i64;
    int.cmp(&whole).then_with(|| 0.0_f64.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}

fn call(function: Function, arguments: &[Expr], scope: &dyn Scope) -> Result<Value, EvalError> {
    match (function, arguments) {
        (Function::Default, [value, fallback]) => match optional(value, scope)? {
            None | Some(Value::Null) => eval(fallback, scope),
            Some(found) => Ok(found),
        },
        (Function::Contains, [whole, part]) => contains(&eval(whole, scope)?, &eval(part, scope)?),
        (Function::StartsWith, [text, prefix]) => {
            let (text, prefix) = two_texts(function, text, prefix, scope)?;
            Ok(Value::Bool(text.text.starts_with(&prefix.text)))
        }
        (Function::EndsWith, [text, suffix]) => {
            let (text, suffix) = two_texts(function, text, suffix, scope)?;
            Ok(Value::Bool(text.text.ends_with(&suffix.text)))
        }
        (Function::Join, [list, separator]) => join(&eval(list, scope)?, &eval(separator, scope)?),
        (Function::Length, [value]) => length(&eval(value, scope)?),
        (Function::ToJson, [value]) => to_json(&eval(value, scope)?),
        (Function::FromJson, [text]) => from_json(&eval(text, scope)?),
        _ => Err(EvalError::Arguments { function: function.to_string(), found: arguments.len() }),
    }
}

/// `None` when `expr` is a reference whose last member alone is missing.
fn optional(expr: &Expr, scope: &dyn Scope) -> Result<Option<Value>, EvalError> {
    let Expr::Ref { root, path } = expr else {
        return eval(expr, scope).map(Some);
    };
    match read(root, path, scope) {
        Ok(found) => Ok(Some(found)),
        Err(failed) if failed.last_is_missing => Ok(None),
        Err(failed) => Err(failed.error),
    }
}

fn two_texts(function: Function, left: &Expr, right: &Expr, scope: &dyn Scope) -> Result<(Text, Text), EvalError> {
    match (eval(left, scope)?, eval(right, scope)?) {
        (Value::Text(left), Value::Text(right)) => Ok((left, right)),
        (Value::Text(_), other) | (other, _) => Err(wrong_type(format!("`{function}`"), "two texts", &other)),
    }
}

fn contains(whole: &Value, part: &Value) -> Result<Value, EvalError> {
    match (whole, part) {
        (Value::List(items), part) => Ok(Value::Bool(items.iter().any(|item| same(item, part)))),
        (Value::Text(text), Value::Text(part)) => Ok(Value::Bool(text.text.contains(&part.text))),
        (Value::Text(_), other) => Err(wrong_type("`contains` in a text", "text", other)),
        (other, _) => Err(wrong_type("`contains`", "a list or text", other)),
    }
}

fn join(list: &Value, separator: &Value) -> Result<Value, EvalError> {
    let (Value::List(items), Value::Text(separator)) = (list, separator) else {
        let wrong = if matches!(list, Value::List(_)) { separator } else { list };
        return Err(wrong_type("`join`", "a list and a text", wrong));
    };
    let mut whole = Text::trusted("");
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            append(&mut whole, &separator.text, separator.tainted, "`join`")?;
        }
        let item = item.to_text();
        append(&mut whole, &item.text, item.tainted, "`join`")?;
    }
    Ok(Value::Text(whole))
}

fn length(value: &Value) -> Result<Value, EvalError> {
    let length = match value {
        Value::Text(text) => text.text.chars().count(),
        Value::List(items) => items.len(),
        Value::Map(members) => members.len(),
        other => return Err(wrong_type("`length`", "a list, a map or text", other)),
    };
    i64::try_from(length).map(Value::Int).map_err(|_| EvalError::Range { what: "`length`".to_owned() })
}

fn to_json(value: &Value) -> Result<Value, EvalError> {
    if value.json_len() > MAX_TEXT_BYTES {
        return Err(EvalError::TooLarge { what: "`to_json`".to_owned(), limit: MAX_TEXT_BYTES });
    }
    Ok(Value::Text(Text { text: value.json_text(), tainted: value.is_tainted() }))
}

fn from_json(value: &Value) -> Result<Value, EvalError> {
    let Value::Text(text) = value else {
        return Err(wrong_type("`from_json`", "text", value));
    };
    match Value::parse_json(&text.text) {
        Some(value) if text.tainted => Ok(value.tainted()),
        Some(value) => Ok(value),
        None => Err(EvalError::Type {
            what: "`from_json`".to_owned(),
            wanted: "a JSON document",
            found: "text that is none",
        }),
    }
}
