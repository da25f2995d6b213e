//! JSON Schema (draft 2020-12) of the files that users write, for editors; made from the tables of [`crate::keys`].
//!
//! It describes the form of values. What only the compiler sees (names of steps, expressions, cycles) is not in it, and
//! whatever it refuses the compiler refuses too.

use serde_json::{Map, Value, json};

use crate::keys::{self, Shape, Table};

/// Text with digits between which `_` may stand.
const COUNT_PATTERN: &str = "^[0-9]+(_[0-9]+)*$";
/// Dollars, with at most six decimals.
const MONEY_PATTERN: &str = "^[0-9]+(_[0-9]+)*(\\.[0-9]{1,6})?$";
const DATE_PATTERN: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$";
const DURATION_PATTERN: &str = "^([0-9]+(ms|s|m|h|d))+$";
const SIZE_PATTERN: &str = "^[0-9]+(_[0-9]+)* ?(B|kB|KB|MB|GB|KiB|MiB|GiB)?$";
const STEP_NAME_PATTERN: &str = "^[A-Za-z][A-Za-z0-9_-]{0,63}$";
const VARIABLE_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
const RESERVED_PATTERN: &str = "^ORC_";

/// The schema of pipeline files.
#[must_use]
pub fn pipeline_schema() -> Value {
    document("A pipeline of the orchestrator", &keys::PIPELINE)
}

/// The schema of the front matter of agent profiles.
#[must_use]
pub fn profile_schema() -> Value {
    document("An agent profile of the orchestrator", &keys::PROFILE)
}

/// The schema of scripted models.
#[must_use]
pub fn script_schema() -> Value {
    document("A scripted model of the orchestrator", &keys::SCRIPT)
}

/// The schema of files of prices.
#[must_use]
pub fn prices_schema() -> Value {
    document("Prices of models for the orchestrator", &keys::PRICES)
}

/// The schema of `orchestrator.yaml`.
#[must_use]
pub fn settings_schema() -> Value {
    document("Settings of the orchestrator", &keys::SETTINGS)
}

fn document(title: &str, root: &'static Table) -> Value {
    let mut schema = table(root);
    if let Some(members) = schema.as_object_mut() {
        members.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        members.insert("title".to_owned(), json!(title));
        if std::ptr::eq(root, &raw const keys::PIPELINE) {
            // Bodies of steps have steps, so a step has a name in the document.
            members.insert("$defs".to_owned(), json!({ "step": table(&keys::STEP) }));
        }
    }
    schema
}

fn table(table: &'static Table) -> Value {
    let properties: Map<String, Value> = table
        .keys
        .iter()
        .map(|key| {
            let mut schema = shape(key.shape);
            if let Some(members) = schema.as_object_mut() {
                let note = match key.shape {
                    Shape::Later => " Not available yet.",
                    Shape::BuiltIn(..) => " Only with `adapter: built-in`.",
                    _ => "",
                };
                members.insert("description".to_owned(), json!(format!("{}{note}", key.doc)));
            }
            (key.name.to_owned(), schema)
        })
        .collect();
    let mut schema = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if let (Some(members), false) = (schema.as_object_mut(), table.required.is_empty()) {
        members.insert("required".to_owned(), json!(table.required));
    }
    schema
}

fn shape(takes: Shape) -> Value {
    match takes {
        Shape::Text | Shape::Template => text(),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Count(most) => number(json!({ "type": "integer", "minimum": 1, "maximum": most }), COUNT_PATTERN),
        Shape::CountOrZero(most) => number(json!({ "type": "integer", "minimum": 0, "maximum": most }), COUNT_PATTERN),
        Shape::Tally => number(json!({ "type": "integer", "minimum": 1 }), COUNT_PATTERN),
        Shape::Size => number(json!({ "type": "integer", "minimum": 1 }), SIZE_PATTERN),
        Shape::Price => number(json!({ "type": "number", "minimum": 0 }), MONEY_PATTERN),
        Shape::Date => json!({ "type": "string", "pattern": DATE_PATTERN }),
        Shape::Money => number(json!({ "type": "number" }), MONEY_PATTERN),
        Shape::Integer(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Shape::Duration => json!({ "type": "string", "pattern": DURATION_PATTERN }),
        Shape::Words(words) => json!({ "enum": words }),
        Shape::WordList(words) => one_or_list(&json!({ "enum": words })),
        Shape::NameOrNames => one_or_list(&json!({ "type": "string" })),
        Shape::EnvNames => json!({ "type": "array", "items": { "type": "string" } }),
        Shape::Condition => json!({ "type": ["string", "boolean"] }),
        Shape::List => json!({ "type": ["string", "array"] }),
        Shape::Script => json!({ "type": "string", "minLength": 1 }),
        Shape::Shell => json!({
            "anyOf": [
                { "enum": ["sh", "bash", "python"] },
                { "type": "array", "minItems": 1, "items": { "type": "string" } },
            ],
        }),
        Shape::Argv => json!({ "type": "array", "minItems": 1, "items": text() }),
        Shape::Command => json!({ "anyOf": [{ "type": "string", "minLength": 1 }, shape(Shape::Argv)] }),
        Shape::Schema => json!({ "type": ["string", "object"] }),
        Shape::Value | Shape::Literal => json!({}),
        Shape::Env => map_of(&variable_names(), &json!({ "type": ["string", "number", "boolean", "null"] })),
        Shape::Variables => map_of(&variable_names(), &text()),
        Shape::Templates => json!({ "type": "object" }),
        Shape::Expressions => map_of(&names(), &text()),
        Shape::NameLists => map_of(&names(), &shape(Shape::NameOrNames)),
        Shape::Steps => map_of(&names(), &json!({ "$ref": "#/$defs/step" })),
        // A name with nothing after it: an input that is a text and must be given.
        Shape::Named(inner) => map_of(&names(), &json!({ "anyOf": [table(inner), { "type": "null" }] })),
        Shape::Matrix => {
            let mut matrix = map_of(&names(), &json!({ "type": "array", "minItems": 1 }));
            let maps = json!({ "type": "array", "items": { "type": "object" } });
            matrix["properties"] = json!({ "include": maps, "exclude": maps });
            matrix
        }
        Shape::Either(shapes) => json!({ "anyOf": shapes.iter().map(|one| shape(*one)).collect::<Vec<_>>() }),
        Shape::Patterns(inner) => {
            json!({ "type": "object", "additionalProperties": one_or_list(&table(inner)) })
        }
        Shape::ListOf(inner) => json!({ "type": "array", "items": shape(*inner) }),
        Shape::Table(inner) => table(inner),
        Shape::BuiltIn(inner, _) => shape(*inner),
        Shape::Later => json!({ "not": {} }),
    }
}

/// Text, where YAML may read what is written as a number or a truth value.
fn text() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

/// A number, or one in a form that YAML takes for text.
fn number(number: Value, pattern: &str) -> Value {
    json!({ "anyOf": [number, { "type": "string", "pattern": pattern }] })
}

fn one_or_list(one: &Value) -> Value {
    json!({ "anyOf": [one, { "type": "array", "items": one }] })
}

fn map_of(names: &Value, values: &Value) -> Value {
    json!({ "type": "object", "propertyNames": names, "additionalProperties": values })
}

fn names() -> Value {
    json!({ "pattern": STEP_NAME_PATTERN })
}

fn variable_names() -> Value {
    json!({ "pattern": VARIABLE_PATTERN, "not": { "pattern": RESERVED_PATTERN } })
}

#[cfg(test)]
mod tests;
