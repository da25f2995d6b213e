//! `inputs:` of a pipeline, and the check of what is given when it starts.

use std::collections::BTreeMap;

use orc_domain::graph::{InputKind, InputSpec, Pipeline};
use orc_domain::suggest::closest;
use orc_domain::value::Value;

use crate::diagnostic::{Code, Report};
use crate::keys;
use crate::read;
use crate::yaml::{Kind, Name, Node, Scalar};

/// A value for an input as it arrives.
#[derive(Clone, Debug, PartialEq)]
pub enum RawInput {
    /// Text of a command line (`--input name=text`), read by the input's type: lists and maps as JSON.
    Text(String),
    /// A value with a type of its own.
    Value(Value),
}

/// Why an input is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The pipeline has no such input.
    #[error("pipeline `{pipeline}` has no input `{name}`{hint}")]
    Unknown {
        /// The pipeline.
        pipeline: String,
        /// As given.
        name: String,
        /// `; did you mean ...` or `; it has ...`.
        hint: String,
    },
    /// No value and no default.
    #[error("pipeline `{pipeline}` needs the input `{name}`{description}; give it with --input {name}=VALUE")]
    Missing {
        /// The pipeline.
        pipeline: String,
        /// The input.
        name: String,
        /// Its description in brackets, or nothing.
        description: String,
    },
    /// A value of another type.
    #[error("the input `{name}` takes {wanted}, not {found}")]
    Type {
        /// The input.
        name: String,
        /// What it takes.
        wanted: &'static str,
        /// What was given.
        found: String,
    },
}

/// The inputs of a flow of `pipeline`: what is given, checked, and defaults for the rest.
///
/// # Errors
/// Every [`InputError`] at once.
pub fn check_inputs(
    pipeline: &Pipeline,
    given: BTreeMap<String, RawInput>,
) -> Result<BTreeMap<String, Value>, Vec<InputError>> {
    let mut values = BTreeMap::new();
    let mut errors = Vec::new();
    for (name, raw) in given {
        let Some(spec) = pipeline.inputs.get(&name) else {
            errors.push(unknown(pipeline, name));
            continue;
        };
        let (read, found) = match raw {
            RawInput::Text(text) => (from_text(spec.kind, &text), format!("`{}`", read::excerpt(&text))),
            RawInput::Value(value) => (spec.kind.takes(&value).then(|| value.clone()), value.type_name().to_owned()),
        };
        match read {
            Some(value) => {
                values.insert(name, value);
            }
            None => errors.push(InputError::Type { name, wanted: wanted(spec.kind), found }),
        }
    }
    for (name, spec) in &pipeline.inputs {
        if values.contains_key(name)
            || errors.iter().any(|error| matches!(error, InputError::Type { name: wrong, .. } if wrong == name))
        {
            continue;
        }
        match &spec.default {
            Some(value) => {
                values.insert(name.clone(), value.clone());
            }
            None => errors.push(InputError::Missing {
                pipeline: pipeline.name.clone(),
                name: name.clone(),
                description: spec.description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default(),
            }),
        }
    }
    if errors.is_empty() { Ok(values) } else { Err(errors) }
}

fn unknown(pipeline: &Pipeline, name: String) -> InputError {
    let known: Vec<&str> = pipeline.inputs.keys().map(String::as_str).collect();
    let hint = match closest(&name, known.iter().copied()) {
        Some(close) => format!("; did you mean `{close}`?"),
        None if known.is_empty() => "; it takes none".to_owned(),
        None => format!("; it takes {}", known.join(", ")),
    };
    InputError::Unknown { pipeline: pipeline.name.clone(), name, hint }
}

pub(super) const fn wanted(kind: InputKind) -> &'static str {
    match kind {
        InputKind::String => "text",
        InputKind::Number => "a number",
        InputKind::Boolean => "`true` or `false`",
        InputKind::List => "a list (as JSON: `[\"a\", \"b\"]`)",
        InputKind::Map => "a map (as JSON: `{\"a\": 1}`)",
    }
}

fn from_text(kind: InputKind, text: &str) -> Option<Value> {
    match kind {
        InputKind::String => Some(Value::text(text)),
        InputKind::Number => read::parse_number(text.trim()),
        InputKind::Boolean => match text.trim() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        InputKind::List | InputKind::Map => Value::parse_json(text).filter(|value| kind.takes(value)),
    }
}

/// `inputs:`.
pub(super) fn read(node: &Node, report: &mut Report) -> BTreeMap<String, InputSpec> {
    let mut inputs = BTreeMap::new();
    for entry in read::map(node, "`inputs`", report).unwrap_or_default() {
        let name = &entry.key;
        if !is_identifier(&name.text) {
            let message = format!("`{}` cannot be the name of an input", name.text);
            report
                .error(Code::BadValue, name.span, message)
                .help("letters, digits, `_` and `-`, beginning with a letter");
            continue;
        }
        inputs.insert(name.text.clone(), read_one(name, &entry.value, report));
    }
    inputs
}

fn read_one(name: &Name, node: &Node, report: &mut Report) -> InputSpec {
    let mut spec = InputSpec { kind: InputKind::String, description: None, default: None };
    // `area:` alone is a required text.
    if matches!(&node.kind, Kind::Scalar(scalar) if scalar.is_null()) {
        return spec;
    }
    if let Kind::Scalar(_) | Kind::List(_) = &node.kind {
        report
            .error(Code::WrongType, node.span, format!("the input `{}` needs a map of its properties", name.text))
            .help(format!("write `{}: {{ type: string, default: ... }}`", name.text));
        return spec;
    }
    let Some(fields) = read::fields(node, &keys::INPUT, report) else {
        return spec;
    };
    spec.description = fields.get("description").and_then(|node| read::text(node, "`description`", report));
    let kind = fields.get("type").map_or(Some(InputKind::String), |node| input_kind(node, report));
    let Some(kind) = kind else {
        return spec;
    };
    spec.kind = kind;
    spec.default = fields.get("default").and_then(|node| default(kind, node, report));
    spec
}

fn input_kind(node: &Node, report: &mut Report) -> Option<InputKind> {
    Some(match read::word(node, "`type`", keys::INPUT_TYPES, report)? {
        "number" => InputKind::Number,
        "boolean" => InputKind::Boolean,
        "list" => InputKind::List,
        "map" => InputKind::Map,
        _ => InputKind::String,
    })
}

fn default(kind: InputKind, node: &Node, report: &mut Report) -> Option<Value> {
    if let Some(span) = read::find_expression(node) {
        report
            .error(Code::Expression, span, "the default of an input cannot have an expression")
            .help("inputs are known before anything else; use the expression where the input is read");
        return None;
    }
    value_of(kind, node, "the default of this input", report)
}

/// A value that is written out for an input.
pub(super) fn value_of(kind: InputKind, node: &Node, what: &str, report: &mut Report) -> Option<Value> {
    match (kind, &node.kind) {
        (InputKind::String, Kind::Scalar(Scalar { text, .. })) if !is_null(node) => return Some(Value::text(text)),
        (InputKind::Number, Kind::Scalar(scalar)) if scalar.plain => {
            if let Some(number) = read::parse_number(&scalar.text) {
                return Some(number);
            }
        }
        (InputKind::Boolean, Kind::Scalar(_)) => {
            return read::boolean(node, what, report).map(Value::Bool);
        }
        (InputKind::List, Kind::List(_)) | (InputKind::Map, Kind::Map(_)) => return read::value(node),
        _ => {}
    }
    read::wrong_type(node, what, wanted(kind), report);
    None
}

fn is_null(node: &Node) -> bool {
    matches!(&node.kind, Kind::Scalar(scalar) if scalar.is_null())
}

/// Letters, digits, `_` and `-`, beginning with a letter, at most 64.
pub(crate) fn is_identifier(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
