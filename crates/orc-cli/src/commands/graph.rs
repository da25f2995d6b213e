//! `graph`: a pipeline as a drawing, or a flow with the states of its steps.

use orc_domain::flow::{Flow, Origin, Step, StepOutcome, StepState};
use orc_domain::graph::{Pipeline, SpecIndex};
use orc_domain::ids::FlowId;
use orc_runtime::Definitions;
use orc_spec::graph_svg::to_svg;
use orc_spec::graph_text::{Mark, Tone, to_dot, to_mermaid};

use super::run::compile_file;
use crate::args::LimitArgs;
use crate::args::{GraphArgs, GraphForm};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::look::Look;
use crate::output;
use crate::view::result::step_state_word;

pub(crate) async fn run(context: &Context, args: &GraphArgs) -> CommandResult {
    let (pipeline, marks, title) = match flow_meant(context, &args.of).await? {
        Some(look) => {
            let marks = marks(&look.flow, &look.pipeline);
            let title = format!("{} {}", look.flow.spec.name, look.flow.spec.id);
            (look.pipeline, marks, title)
        }
        None => {
            let Definitions { pipeline, .. } = compile_file(context, &args.of, &LimitArgs::default())?;
            let title = pipeline.name.clone();
            (std::sync::Arc::unwrap_or_clone(pipeline), Vec::new(), title)
        }
    };
    let drawing = match args.output {
        GraphForm::Mermaid => to_mermaid(&pipeline, &marks),
        GraphForm::Dot => to_dot(&pipeline, &marks),
        GraphForm::Svg => to_svg(&pipeline, &marks, &title),
    };
    output::text(&drawing)?;
    Ok(Exit::Success)
}

/// The flow that a text means: its id, or the end of one when no pipeline has that name.
async fn flow_meant(context: &Context, text: &str) -> CommandResult<Option<Look>> {
    let is_id = text.parse::<FlowId>().is_ok() || text.parse::<orc_domain::ids::RunId>().is_ok();
    if !is_id && (context.pipeline_file(text).is_ok() || !context.data.database().is_file()) {
        return Ok(None);
    }
    let reader = context.reader().await?;
    match context.flow_of(&reader, text).await {
        Ok(flow) => Ok(Some(Look::at_present(context, &reader, flow).await?)),
        Err(failure) if is_id => Err(failure),
        // What is said about a pipeline that does not exist helps more than what is said about an id.
        Err(_) => Ok(None),
    }
}

/// How each step of the pipeline stands in the flow.
fn marks(flow: &Flow, pipeline: &Pipeline) -> Vec<Mark> {
    let mark = |at: usize| {
        let of_step = |step: &&Step| step.spec == SpecIndex(u32::try_from(at).unwrap_or(u32::MAX));
        let (elements, own): (Vec<&Step>, Vec<&Step>) =
            flow.steps.iter().filter(of_step).partition(|step| step.origin != Origin::Root);
        own.first()
            .map_or_else(|| Mark { tone: Tone::Waits, words: "not begun".to_owned() }, |step| mark_of(step, &elements))
    };
    (0..pipeline.steps.len()).map(mark).collect()
}

fn mark_of(step: &Step, elements: &[&Step]) -> Mark {
    let (tone, word) = match &step.state {
        StepState::Finished { outcome } => (tone_of(outcome), outcome.word()),
        StepState::Active { .. } => (Tone::Runs, "runs"),
        StepState::Waiting(_) => (Tone::Runs, step_state_word(&step.state)),
        state => (Tone::Waits, step_state_word(state)),
    };
    let mut words = word.to_owned();
    if !elements.is_empty() {
        let over = elements.iter().filter(|step| matches!(step.state, StepState::Finished { .. })).count();
        words.push_str(&format!(", {over} of {}", elements.len()));
    }
    if step.attempts > 1 {
        words.push_str(&format!(", attempt {}", step.attempts));
    }
    Mark { tone, words }
}

const fn tone_of(outcome: &StepOutcome) -> Tone {
    match outcome {
        StepOutcome::Succeeded | StepOutcome::NoChange => Tone::Succeeded,
        StepOutcome::Failed(_) => Tone::Failed,
        StepOutcome::Skipped(_) | StepOutcome::Cancelled => Tone::Skipped,
    }
}
