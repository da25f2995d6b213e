//! `config show`: the settings in force, and where each comes from.

use orc_spec::settings::SecretSource;
use serde_json::{Map, Value, json};

use crate::args::LimitArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::output::{self, Form, OutputArgs};
use crate::view::columns::Columns;

pub(crate) fn show(context: &Context, origin: bool, args: OutputArgs) -> CommandResult {
    let settings = context.settings(&LimitArgs::default())?;
    let data = context.data.root().display().to_string();
    let rows = settings.rows();
    let rows = rows.iter().map(|(key, value, from)| (*key, value.clone(), from.to_string()));
    let rows = rows.map(|(key, value, from)| (key.to_owned(), value, from));
    let data = std::iter::once(("data".to_owned(), data, context.data_origin.to_owned()));
    // Where each is found; what it is, nothing shows.
    let secrets = settings.secrets.value.iter().map(|(name, source)| {
        let source = match source {
            SecretSource::Variable(variable) => format!("the variable {variable}"),
            SecretSource::File(file) => format!("the file {file}"),
        };
        (format!("secrets.{name}"), source, settings.secrets.origin.to_string())
    });
    let rows: Vec<(String, String, String)> = data.chain(rows).chain(secrets).collect();
    if args.output == Form::Table {
        let mut table = Columns::new();
        for (key, value, from) in &rows {
            if origin {
                table.row([key, value, from]);
            } else {
                table.row([key, value]);
            }
        }
        output::text(&table.text(""))?;
        return Ok(Exit::Success);
    }
    let settings: Map<String, Value> =
        rows.into_iter().map(|(key, value, from)| (key, json!({ "value": value, "origin": from }))).collect();
    output::document(args.output, &json!({ "schema": "orc/settings/1", "settings": settings }), None)?;
    Ok(Exit::Success)
}
