//! What the type check knows of values before the flow runs.

use std::collections::BTreeMap;

use orc_domain::graph::InputKind;
use orc_domain::value::Value;
use serde_json::Value as Json;

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
    /// A map whose members are known; when open, it may have others.
    Object {
        fields: BTreeMap<String, Type>,
        open: bool,
    },
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

    pub(crate) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Int(_) | Value::Float(_) => Self::Number,
            Value::Text(_) => Self::Text,
            Value::List(_) => Self::List(Box::new(Self::Any)),
            Value::Map(_) => Self::Map,
        }
    }

    /// What a JSON Schema says, where it says it plainly; `Any` else.
    pub(crate) fn of_schema(schema: &Json) -> Self {
        const ELSEWHERE: [&str; 7] = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties"];
        if ELSEWHERE.iter().any(|keyword| schema.get(keyword).is_some()) {
            return Self::Any;
        }
        match schema.get("type").and_then(Json::as_str) {
            Some("string") => Self::Text,
            Some("number" | "integer") => Self::Number,
            Some("boolean") => Self::Bool,
            Some("array") => Self::List(Box::new(schema.get("items").map_or(Self::Any, Self::of_schema))),
            Some("object") => match schema.get("properties").and_then(Json::as_object) {
                Some(members) => Self::Object {
                    fields: members.iter().map(|(name, schema)| (name.clone(), Self::of_schema(schema))).collect(),
                    open: schema.get("additionalProperties") != Some(&Json::Bool(false)),
                },
                None => Self::Map,
            },
            _ => Self::Any,
        }
    }

    /// The type of a value that is of one of several types.
    pub(crate) fn of_all(types: impl IntoIterator<Item = Self>) -> Self {
        let mut types = types.into_iter();
        let first = types.next().unwrap_or(Self::Any);
        if types.all(|ty| ty == first) { first } else { Self::Any }
    }

    /// Whether a value of this type can be an input of that kind.
    pub(crate) const fn fits(&self, kind: InputKind) -> bool {
        match kind {
            InputKind::String => self.is_text(),
            InputKind::Number => self.is_number(),
            InputKind::Boolean => self.is_bool(),
            InputKind::List => self.is_list(),
            InputKind::Map => self.is_map(),
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
            Self::Map | Self::Object { .. } => "a map",
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
        matches!(self, Self::Any | Self::Map | Self::Object { .. })
    }
}
