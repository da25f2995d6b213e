//! Forms of data. Data goes to standard output, talk to standard error.

use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::failure::{CommandResult, unavailable};

/// `--output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people.
    #[default]
    #[value(alias = "text")]
    Table,
    /// One JSON document with a `schema`.
    Json,
    /// One JSON document per line.
    Jsonl,
    /// The JSON document as YAML.
    Yaml,
}

/// The option, for every command that gives data.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Form of the data on standard output
    #[arg(long, short = 'o', value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: Form,
}

/// Prints a document in a form other than the table. `rows` names the member that `jsonl` prints line by line.
pub(crate) fn document(form: Form, document: &Value, rows: Option<&str>) -> CommandResult<()> {
    match form {
        Form::Table | Form::Json => {
            let text = serde_json::to_string_pretty(document);
            text_line(&text.map_err(|error| unavailable("cannot print the answer").because(error))?)
        }
        Form::Jsonl => {
            let lines = rows.and_then(|name| document.get(name)).and_then(Value::as_array);
            match lines {
                Some(lines) => lines.iter().try_for_each(|line| text_line(&line.to_string())),
                None => text_line(&document.to_string()),
            }
        }
        Form::Yaml => text(&yaml(document)),
    }
}

/// Prints text and a newline to standard output.
pub(crate) fn text_line(line: &str) -> CommandResult<()> {
    text(&format!("{line}\n"))
}

/// Prints text to standard output. A reader that went away (`| head`) ends the program quietly.
pub(crate) fn text(text: &str) -> CommandResult<()> {
    text_if_read(text).map(drop)
}

/// Prints text to standard output; false when its reader went away.
pub(crate) fn text_if_read(text: &str) -> CommandResult<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(unavailable("cannot write to standard output").because(error)),
        Ok(()) => Ok(true),
    }
}

/// Says something to a person on standard error.
pub(crate) fn say(line: &str) {
    // Whoever closed standard error does not want to hear it.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A document as YAML in block style. Scalars are written as JSON, which every version of YAML reads the same way.
fn yaml(document: &Value) -> String {
    let mut text = String::new();
    write_yaml(&mut text, document, 0);
    text
}

fn write_yaml(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                text.push_str(&format!("{indent}{}:", Value::from(name.as_str())));
                write_below(text, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&format!("{indent}-"));
                write_below(text, item, depth);
            }
        }
        scalar => text.push_str(&format!("{indent}{scalar}\n")),
    }
}

fn write_below(text: &mut String, value: &Value, depth: usize) {
    let is_block = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        write_yaml(text, value, depth + 1);
    } else {
        text.push_str(&format!(" {value}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_holds_what_the_document_holds() {
        let document = serde_json::json!({"a": {"no": "no", "list": [1, {"x": "1.10"}, []]}, "b": null});
        let wanted = concat!(
            "\"a\":\n  \"list\":\n    - 1\n    -\n      \"x\": \"1.10\"\n    - []\n",
            "  \"no\": \"no\"\n\"b\": null\n"
        );
        assert_eq!(yaml(&document), wanted);
    }
}
