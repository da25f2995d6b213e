//! What the type check knows of values before the flow runs.

use orc_domain::graph::InputKind;
use orc_domain::value::Value;

/// What is known of a value before the flow runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    Any,
    Null,
    Bool,
    Number,
    Text,
    /// Text that is one of some words.
    Word(&'static [&'static str]),
    List(Box<Type>),
    Map,
    /// `{outcome, output, error}` of an element of a fan-out.
    ElementResult,
}

impl Type {
    pub(crate) fn of_input(kind: InputKind) -> Self {
        match kind {
            InputKind::String => Self::Text,
            InputKind::Number => Self::Number,
            InputKind::Boolean => Self::Bool,
            InputKind::List => Self::List(Box::new(Self::Any)),
            InputKind::Map => Self::Map,
        }
    }

    pub(super) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Int(_) | Value::Float(_) => Self::Number,
            Value::Text(_) => Self::Text,
            Value::List(_) => Self::List(Box::new(Self::Any)),
            Value::Map(_) => Self::Map,
        }
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Any => "a value",
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::Text | Self::Word(_) => "text",
            Self::List(_) => "a list",
            Self::Map | Self::ElementResult => "a map",
        }
    }

    pub(super) const fn is_text(&self) -> bool {
        matches!(self, Self::Any | Self::Text | Self::Word(_))
    }

    pub(super) const fn is_number(&self) -> bool {
        matches!(self, Self::Any | Self::Number)
    }

    pub(crate) const fn is_bool(&self) -> bool {
        matches!(self, Self::Any | Self::Bool)
    }

    pub(crate) const fn is_list(&self) -> bool {
        matches!(self, Self::Any | Self::List(_))
    }

    pub(super) const fn is_map(&self) -> bool {
        matches!(self, Self::Any | Self::Map | Self::ElementResult)
    }
}
