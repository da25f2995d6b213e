//! `config show`: the settings in force, and where each comes from.

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
    let rows: Vec<(&str, String, String)> =
        std::iter::once(("data", data, context.data_origin.to_owned())).chain(rows).collect();
    if args.output == Form::Table {
        let mut table = Columns::new();
        for (key, value, from) in &rows {
            if origin {
                table.row([key, value.as_str(), from.as_str()]);
            } else {
                table.row([key, value.as_str()]);
            }
        }
        output::text(&table.text(""))?;
        return Ok(Exit::Success);
    }
    let settings: Map<String, Value> = rows
        .into_iter()
        .map(|(key, value, from)| (key.to_owned(), json!({ "value": value, "origin": from })))
        .collect();
    output::document(args.output, &json!({ "schema": "orc/settings/1", "settings": settings }), None)?;
    Ok(Exit::Success)
}
