//! Inputs of the tools. They were checked outside; here they are read again, because nothing outside is relied upon.

use orc_process::hands::Use;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Refusal, offers};

#[derive(Debug, Deserialize)]
pub(super) struct Read {
    pub(super) file_path: String,
    pub(super) offset: Option<u64>,
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
    #[serde(rename = "-A")]
    pub(super) after: Option<usize>,
    #[serde(rename = "-B")]
    pub(super) before: Option<usize>,
    #[serde(rename = "-C")]
    pub(super) around: Option<usize>,
    #[serde(rename = "-n")]
    pub(super) numbers: Option<bool>,
    #[serde(rename = "-i")]
    pub(super) any_case: Option<bool>,
    pub(super) head_limit: Option<usize>,
    pub(super) multiline: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Bash {
    pub(super) command: String,
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

/// The input of a use; says what the tool takes when it does not fit.
pub(super) fn parse<T: DeserializeOwned>(wanted: &Use) -> Result<T, Refusal> {
    T::deserialize(&wanted.input).map_err(|error| {
        let tools = offers::tools();
        let taken = tools.iter().find(|tool| tool.name == wanted.name).map(|tool| describe(&tool.schema));
        let taken = taken.unwrap_or_default();
        Refusal(format!("The input of {} does not fit: {error}. It takes {taken}.", wanted.name))
    })
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
