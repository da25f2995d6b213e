//! `graph`: a pipeline as a drawing.

use orc_spec::graph_text::{to_dot, to_mermaid};

use super::run::compile_file;
use crate::args::{GraphArgs, GraphForm};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::output;

pub(crate) fn run(context: &Context, args: &GraphArgs) -> CommandResult {
    let (pipeline, _) = compile_file(context, &args.pipeline)?;
    let drawing = match args.output {
        GraphForm::Mermaid => to_mermaid(&pipeline),
        GraphForm::Dot => to_dot(&pipeline),
    };
    output::text(&drawing)?;
    Ok(Exit::Success)
}
