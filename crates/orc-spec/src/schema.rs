//! JSON Schema (draft 2020-12) of pipeline and settings files, for editors; made from the tables of [`crate::keys`].
//!
//! It describes the form of values. What only the compiler sees (names of steps, expressions, cycles) is not in it, and
//! whatever it refuses the compiler refuses too.

use serde_json::{Map, Value, json};

use crate::keys::{self, Shape, Table};

/// Text with digits between which `_` may stand.
const COUNT_PATTERN: &str = "^[0-9]+(_[0-9]+)*$";
/// Dollars, with at most six decimals.
const MONEY_PATTERN: &str = "^[0-9]+(_[0-9]+)*(\\.[0-9]{1,6})?$";
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
                    Shape::OtherAdapter(_) => " Not with `adapter: command`.",
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
    const SCALAR: [&str; 4] = ["string", "number", "boolean", "null"];
    match takes {
        Shape::Text => json!({ "type": ["string", "number", "boolean"] }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Count(most) => json!({
            "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": most },
                { "type": "string", "pattern": COUNT_PATTERN },
            ],
        }),
        Shape::Duration => json!({ "type": "string", "pattern": DURATION_PATTERN }),
        Shape::Size => json!({
            "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string", "pattern": SIZE_PATTERN }],
        }),
        Shape::Worktree => json!({ "enum": ["in_place"] }),
        Shape::Words(words) => json!({ "enum": words }),
        Shape::NameOrNames => json!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
        }),
        Shape::Condition => json!({ "type": ["string", "boolean"] }),
        Shape::List => json!({ "type": ["string", "array"] }),
        Shape::Env => json!({
            "type": "object",
            "propertyNames": { "pattern": VARIABLE_PATTERN, "not": { "pattern": RESERVED_PATTERN } },
            "additionalProperties": { "type": SCALAR },
        }),
        Shape::EnvNames => json!({ "type": "array", "items": { "type": "string" } }),
        Shape::Script => json!({ "type": "string", "minLength": 1 }),
        Shape::Shell => json!({
            "anyOf": [
                { "enum": ["sh", "bash", "python"] },
                { "type": "array", "minItems": 1, "items": { "type": "string" } },
            ],
        }),
        Shape::Value => json!({}),
        Shape::Template => json!({ "type": ["string", "number", "boolean"] }),
        Shape::Templates => json!({ "type": "object" }),
        Shape::Expressions => json!({
            "type": "object",
            "propertyNames": { "pattern": STEP_NAME_PATTERN },
            "additionalProperties": { "type": ["string", "number", "boolean"] },
        }),
        Shape::NameLists => json!({
            "type": "object",
            "propertyNames": { "pattern": STEP_NAME_PATTERN },
            "additionalProperties": shape(Shape::NameOrNames),
        }),
        Shape::Matrix => {
            let maps = json!({ "type": "array", "items": { "type": "object" } });
            json!({
                "type": "object",
                "properties": { "include": maps, "exclude": maps },
                "propertyNames": { "pattern": STEP_NAME_PATTERN },
                "additionalProperties": { "type": "array", "minItems": 1 },
            })
        }
        Shape::Tally => json!({
            "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string", "pattern": COUNT_PATTERN }],
        }),
        Shape::Integer(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Shape::Money => json!({ "anyOf": [{ "type": "number" }, { "type": "string", "pattern": MONEY_PATTERN }] }),
        Shape::Either(shapes) => json!({ "anyOf": shapes.iter().map(|one| shape(*one)).collect::<Vec<_>>() }),
        Shape::ListOf(inner) => json!({ "type": "array", "items": table(inner) }),
        Shape::WordList(words) => {
            json!({ "anyOf": [{ "enum": words }, { "type": "array", "minItems": 1, "items": { "enum": words } }] })
        }
        Shape::Steps => json!({
            "type": "object",
            "propertyNames": { "pattern": STEP_NAME_PATTERN },
            "additionalProperties": { "$ref": "#/$defs/step" },
        }),
        Shape::Argv => json!({
            "type": "array", "minItems": 1, "items": { "type": ["string", "number", "boolean"] },
        }),
        Shape::Table(inner) => table(inner),
        Shape::Named(inner) => json!({
            "type": "object",
            "propertyNames": { "pattern": STEP_NAME_PATTERN },
            // A name with nothing after it: an input that is a text and must be given.
            "additionalProperties": { "anyOf": [table(inner), { "type": "null" }] },
        }),
        Shape::Command => json!({
            "anyOf": [
                { "type": "string", "minLength": 1 },
                { "type": "array", "minItems": 1, "items": { "type": ["string", "number", "boolean"] } },
            ],
        }),
        Shape::CountOrZero(most) => json!({
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": most },
                { "type": "string", "pattern": COUNT_PATTERN },
            ],
        }),
        Shape::Variables => json!({
            "type": "object",
            "propertyNames": { "pattern": VARIABLE_PATTERN, "not": { "pattern": RESERVED_PATTERN } },
            "additionalProperties": { "type": ["string", "number", "boolean"] },
        }),
        Shape::Schema => json!({ "type": ["string", "object"] }),
        Shape::Later | Shape::OtherAdapter(_) => json!({ "not": {} }),
    }
}

#[cfg(test)]
mod tests;
