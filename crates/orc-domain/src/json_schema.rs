//! JSON Schema, behind one type: what an output must look like, and everything that is wrong with one that does not.
//!
//! A schema is whole in itself: a `$ref` to another document is refused and nothing is ever loaded, neither a file nor an
//! address. Without `$schema` it is draft 2020-12. `format` is a remark, not a check, as that draft has it.

use std::fmt;

use boon::{
    Compiler, Draft, ErrorKind, InstanceLocation, InstanceToken, SchemaIndex, Schemas, UrlLoader, ValidationError,
};
use serde_json::Value;

/// Problems that one check tells at most.
pub const MAX_PROBLEMS: usize = 20;
/// The name that a schema has while it is compiled; never looked up.
const NAME: &str = "orc:/schema";

/// A schema that can be checked against.
pub struct JsonSchema {
    schemas: Schemas,
    root: SchemaIndex,
}

/// One thing that is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where: `findings[0].file`; empty for the whole value.
    pub place: String,
    /// What.
    pub what: String,
}

/// Why something is no schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It says something that JSON Schema does not know or that cannot be.
    #[error("it is not a JSON Schema: {}", list(problems))]
    Invalid {
        /// What, with places in the schema.
        problems: Vec<Problem>,
    },
    /// It refers to another document.
    #[error("it refers to `{address}`, and a schema must be whole in itself")]
    Elsewhere {
        /// What it refers to.
        address: String,
    },
    /// It refers to a place that it does not have, or in another way that cannot be followed.
    #[error("it cannot be compiled: {why}")]
    Reference {
        /// Why.
        why: String,
    },
}

struct Refuse;

impl UrlLoader for Refuse {
    fn load(&self, _url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err("nothing is loaded".into())
    }
}

impl JsonSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// [`SchemaError`] when it is none.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.use_loader(Box::new(Refuse));
        compiler.add_resource(NAME, schema.clone()).map_err(|error| reason(&error))?;
        let root = compiler.compile(NAME, &mut schemas).map_err(|error| reason(&error))?;
        Ok(Self { schemas, root })
    }

    /// What is wrong with `value`, at most [`MAX_PROBLEMS`] in order of place; empty when it fits.
    #[must_use]
    pub fn problems(&self, value: &Value) -> Vec<Problem> {
        match self.schemas.validate(value, self.root) {
            Ok(()) => Vec::new(),
            Err(error) => sorted(&error),
        }
    }
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonSchema").finish_non_exhaustive()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() { f.write_str(&self.what) } else { write!(f, "`{}`: {}", self.place, self.what) }
    }
}

/// Problems as one line.
#[must_use]
pub fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn reason(error: &boon::CompileError) -> SchemaError {
    match error {
        boon::CompileError::ValidationError { src, .. } => SchemaError::Invalid { problems: sorted(src) },
        boon::CompileError::LoadUrlError { url, .. } => SchemaError::Elsewhere { address: url.clone() },
        other => SchemaError::Reference { why: other.to_string().replace(NAME, "") },
    }
}

fn sorted(error: &ValidationError<'_, '_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    collect(error, &mut problems);
    problems.sort();
    problems.dedup();
    problems.truncate(MAX_PROBLEMS);
    problems
}

/// The innermost errors, which say what is wrong; the others say in which keyword they were found.
fn collect(error: &ValidationError<'_, '_>, problems: &mut Vec<Problem>) {
    let mut push = |place: String, what: String| problems.push(Problem { place, what });
    match &error.kind {
        ErrorKind::Required { want } => {
            want.iter().for_each(|name| push(place(&error.instance_location, Some(name)), "is missing".to_owned()));
        }
        ErrorKind::AdditionalProperties { got } => {
            got.iter().for_each(|name| push(place(&error.instance_location, Some(name)), "is not expected".to_owned()));
        }
        _ if error.causes.is_empty() => push(place(&error.instance_location, None), error.kind.to_string()),
        _ => error.causes.iter().for_each(|cause| collect(cause, problems)),
    }
}

fn place(location: &InstanceLocation<'_>, member: Option<&str>) -> String {
    let mut text = String::new();
    let mut name = |name: &str| {
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(name);
    };
    for token in &location.tokens {
        match token {
            InstanceToken::Prop(prop) => name(prop),
            InstanceToken::Item(index) => name(&index.to_string()),
        }
    }
    if let Some(member) = member {
        name(member);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(schema: &Value, value: &Value) -> Vec<String> {
        JsonSchema::compile(schema).unwrap().problems(value).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn everything_that_is_wrong_is_told_with_its_place() {
        let schema = json!({
            "type": "object", "required": ["verdict", "findings"], "additionalProperties": false,
            "properties": {
                "verdict": { "enum": ["pass", "fail"] },
                "findings": { "type": "array", "items": { "type": "object", "required": ["file"] } },
            },
        });
        assert_eq!(problems(&schema, &json!({ "verdict": "pass", "findings": [{ "file": "a" }] })), [""; 0]);
        assert_eq!(
            problems(&schema, &json!({ "verdict": "maybe", "findings": [{}], "x": 1 })),
            ["`findings.0.file`: is missing", "`verdict`: value must be one of 'pass', 'fail'", "`x`: is not expected",]
        );
        assert_eq!(problems(&schema, &json!({})), ["`findings`: is missing", "`verdict`: is missing"]);
        assert_eq!(problems(&schema, &json!("x")), ["want object, but got string"]);
    }

    #[test]
    fn many_problems_are_cut() {
        let schema = json!({ "items": { "type": "string" } });
        let value: Value = (0..1000).collect();
        assert_eq!(problems(&schema, &value).len(), MAX_PROBLEMS);
    }

    #[test]
    fn what_is_no_schema_is_refused_with_the_reason() {
        let text = |schema: Value| JsonSchema::compile(&schema).unwrap_err().to_string();
        assert!(text(json!({ "type": "objekt" })).starts_with("it is not a JSON Schema: `type`: "));
        assert!(text(json!({ "pattern": "(" })).contains("`pattern`: '(' is not valid regex"));
        assert!(text(json!([])).starts_with("it is not a JSON Schema: "));
        assert_eq!(
            text(json!({ "$ref": "file:///etc/hostname" })),
            "it refers to `file:///etc/hostname`, and a schema must be whole in itself"
        );
        assert!(text(json!({ "$ref": "#/$defs/none" })).starts_with("it cannot be compiled: "));
    }

    #[test]
    fn references_within_a_schema_are_followed() {
        let schema = json!({ "$ref": "#/$defs/name", "$defs": { "name": { "type": "string" } } });
        assert_eq!(problems(&schema, &json!("a")), [""; 0]);
        assert_eq!(problems(&schema, &json!(1)), ["want string, but got number"]);
        assert_eq!(problems(&json!({ "$ref": "#" }), &json!(1)).len(), 1, "a circle ends");
    }
}
