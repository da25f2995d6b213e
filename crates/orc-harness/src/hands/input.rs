//! Inputs of the tools. They were checked outside; here they are read again, because nothing outside is relied upon.

use orc_process::hands::Use;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::{Refusal, offers};

#[derive(Debug, Deserialize)]
pub(super) struct Read {
    pub(super) file_path: String,
    #[serde(default, deserialize_with = "count")]
    pub(super) offset: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub(super) limit: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Write {
    pub(super) file_path: String,
    pub(super) content: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Edit {
    pub(super) file_path: String,
    #[serde(flatten)]
    pub(super) edit: Replacement,
}

#[derive(Debug, Deserialize)]
pub(super) struct MultiEdit {
    pub(super) file_path: String,
    pub(super) edits: Vec<Replacement>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Replacement {
    pub(super) old_string: String,
    pub(super) new_string: String,
    #[serde(default)]
    pub(super) replace_all: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Resolve {
    pub(super) paths: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Glob {
    pub(super) pattern: String,
    pub(super) path: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputMode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

#[derive(Debug, Deserialize)]
pub(super) struct Grep {
    pub(super) pattern: String,
    pub(super) path: Option<String>,
    pub(super) glob: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) output_mode: Option<OutputMode>,
    #[serde(rename = "-A", default, deserialize_with = "count")]
    pub(super) after: Option<usize>,
    #[serde(rename = "-B", default, deserialize_with = "count")]
    pub(super) before: Option<usize>,
    #[serde(rename = "-C", default, deserialize_with = "count")]
    pub(super) around: Option<usize>,
    #[serde(rename = "-n")]
    pub(super) numbers: Option<bool>,
    #[serde(rename = "-i")]
    pub(super) any_case: Option<bool>,
    #[serde(default, deserialize_with = "count")]
    pub(super) head_limit: Option<usize>,
    pub(super) multiline: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Bash {
    pub(super) command: String,
    #[serde(default, deserialize_with = "count")]
    pub(super) timeout: Option<u64>,
    pub(super) run_in_background: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BashOutput {
    pub(super) bash_id: String,
    pub(super) filter: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct KillShell {
    pub(super) shell_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct WebFetch {
    pub(super) url: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Keep {
    pub(super) text: String,
}

/// Longest pattern, in bytes. To make something of a longer one takes longer than any use may.
const LONGEST_PATTERN: usize = 10_000;

/// Refuses a pattern that is too long.
pub(super) fn check_pattern(name: &str, pattern: &str) -> Result<(), Refusal> {
    match pattern.len() {
        0..=LONGEST_PATTERN => Ok(()),
        length => Err(format!("`{name}` has {length} bytes; a pattern has at most {LONGEST_PATTERN}.").into()),
    }
}

/// The input of a use; says what the tool takes when it does not fit.
pub(super) fn parse<T: DeserializeOwned>(wanted: &Use) -> Result<T, Refusal> {
    T::deserialize(&wanted.input).map_err(|error| {
        let tools = offers::tools();
        let taken = tools.iter().find(|tool| tool.name == wanted.name).map(|tool| describe(&tool.schema));
        let taken = taken.unwrap_or_default();
        Refusal(format!("The input of {} does not fit: {error}. It takes {taken}.", wanted.name))
    })
}

/// A number of something. A whole one is whole however a model writes it: `5.0` is 5, for JSON and for JSON Schema.
fn count<'de, T: TryFrom<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    let written_out = || number.as_f64().filter(|number| number.fract() == 0.0).map(|number| format!("{number:.0}"));
    let whole = number.as_u64().or_else(|| written_out()?.parse().ok());
    let count = whole.and_then(|whole| T::try_from(whole).ok());
    count
        .map(Some)
        .ok_or_else(|| D::Error::custom(format_args!("`{number}` is no whole number from 0 on, or too large")))
}

fn describe(schema: &serde_json::Value) -> String {
    let required: Vec<_> =
        schema["required"].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let told = properties.map(|(name, shape)| {
        let kind = shape["type"].as_str().unwrap_or("value");
        let optional = if required.contains(&name.as_str()) { "" } else { ", optional" };
        format!("`{name}` ({kind}{optional})")
    });
    told.collect::<Vec<_>>().join(", ")
}
