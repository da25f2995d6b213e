//! `schema`: the JSON Schema of a file, for editors.

use orc_spec::schema::{pipeline_schema, profile_schema, script_schema, settings_schema};

use crate::args::SchemaOf;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::output::{self, Form};

pub(crate) fn run(of: SchemaOf) -> CommandResult {
    let schema = match of {
        SchemaOf::Pipeline => pipeline_schema(),
        SchemaOf::Profile => profile_schema(),
        SchemaOf::Model => script_schema(),
        SchemaOf::Settings => settings_schema(),
    };
    output::document(Form::Json, &schema, None)?;
    Ok(Exit::Success)
}
