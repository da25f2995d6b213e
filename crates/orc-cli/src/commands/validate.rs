//! `validate`: every mistake of every file at once.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use orc_gateway::cassette::{Player, Strictness};
use orc_ports::executor::Secrets;
use orc_spec::SourceFile;
use orc_spec::diagnostic::{Code, Diagnostic, Severity, json_document};
use orc_spec::sarif;
use orc_spec::settings::{FileKind, FileOf, NamedFile, PartialSettings, named_files};

use crate::agents::{agent_files, compile_agents, is_agent_file};
use crate::args::{ProblemForm, ValidateArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, not_found};
use crate::host;
use crate::layers::WORKSPACE;
use crate::output::{self, Form, say};
use crate::shelf::Shelf;

/// A file and what is wrong with it.
struct Checked {
    source: SourceFile,
    diagnostics: Vec<Diagnostic>,
}

pub(crate) fn run(context: &Context, args: &ValidateArgs) -> CommandResult {
    let files = if args.files.is_empty() { all_files(context)? } else { args.files.clone() };
    let checked = check(context, &files)?;
    print(&checked, args.output)?;
    let count = |wanted: Severity| {
        let all = checked.iter().flat_map(|file| &file.diagnostics);
        all.filter(|diagnostic| diagnostic.severity == wanted).count()
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    say(&summary(checked.len(), errors, warnings));
    Ok(if errors == 0 { Exit::Success } else { Exit::Invalid })
}

/// Each file by itself, agents also together, in the order given.
fn check(context: &Context, files: &[PathBuf]) -> CommandResult<Vec<Checked>> {
    let shelf = Shelf::of(context, context.names())?;
    let mut checked = Vec::new();
    let mut agents = Vec::new();
    for file in files {
        let source = context.source(file)?;
        if is_agent_file(file) {
            agents.push((checked.len(), source));
            continue;
        }
        let is_settings = file.file_name().is_some_and(|name| name == WORKSPACE);
        if is_settings {
            checked.extend(settings(context, source));
        } else {
            let diagnostics = shelf.compile(&source).diagnostics;
            checked.push(Checked { source, diagnostics });
        }
    }
    let (places, sources): (Vec<usize>, Vec<SourceFile>) = agents.into_iter().unzip();
    for (before, (place, agent)) in places.into_iter().zip(compile_agents(context, sources)).enumerate() {
        checked.insert(place + before, Checked { source: agent.source, diagnostics: agent.compiled.diagnostics });
    }
    Ok(checked)
}

/// Settings, and the files that they name: a start reads them too.
fn settings(context: &Context, source: SourceFile) -> Vec<Checked> {
    let (mut diagnostics, mut named) = (PartialSettings::parse(&source, FileKind::Workspace).1, Vec::new());
    for NamedFile { of, path, span } in named_files(&source) {
        let read = context.root.join(&path);
        let unreadable = match of {
            FileOf::Cassette => {
                Player::open(&read, Strictness::Lenient, Secrets::default()).err().map(|error| told(&error))
            }
            FileOf::Script | FileOf::Prices => match context.source(&read) {
                Ok(source) => {
                    let diagnostics = match of {
                        FileOf::Prices => orc_spec::compile_prices(&source, &orc_spec::shipped_prices()).diagnostics,
                        _ => orc_spec::compile_script(&source).diagnostics,
                    };
                    named.push(Checked { source, diagnostics });
                    None
                }
                Err(failure) => Some(failure.line()),
            },
        };
        diagnostics.extend(unreadable.map(|message| {
            Diagnostic {
                code: Code::Unreadable,
                severity: Severity::Error,
                file: source.name.clone(),
                span,
                message,
                labels: Vec::new(),
                help: Some(
                    "paths are written from the root of the repository; nothing that calls a model begins without it"
                        .to_owned(),
                ),
                meant: None,
            }
        }));
    }
    std::iter::once(Checked { source, diagnostics }).chain(named).collect()
}

/// An error with its causes, in one line.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// All pipelines and agents of the repository, and its settings.
fn all_files(context: &Context) -> CommandResult<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = context.pipeline_files();
    files.extend(agent_files(context));
    if files.is_empty() {
        let what = format!("there are no pipelines: `{}` has no .yaml file", context.root.join("pipelines").display());
        return Err(not_found(what).hint("`orchestrator init` writes an example; or name the files to check"));
    }
    let settings = context.root.join(WORKSPACE);
    if settings.is_file() {
        files.push(settings);
    }
    Ok(files)
}

fn print(checked: &[Checked], form: ProblemForm) -> CommandResult<()> {
    let files = checked.iter().map(|file| (&file.source, file.diagnostics.as_slice()));
    let document = |form| output::document(form, &json_document(files.clone()), Some("diagnostics"));
    match form {
        ProblemForm::Table => print_text(checked),
        ProblemForm::Json => document(Form::Json),
        ProblemForm::Jsonl => document(Form::Jsonl),
        ProblemForm::Yaml => document(Form::Yaml),
        ProblemForm::Sarif => output::document(Form::Json, &sarif::document(files, env!("CARGO_PKG_VERSION")), None),
    }
}

fn print_text(checked: &[Checked]) -> CommandResult<()> {
    let colour = host::colour(std::io::stdout().is_terminal());
    for file in checked {
        for diagnostic in &file.diagnostics {
            output::text_line(&format!("{}\n", diagnostic.render(&file.source, colour)))?;
        }
    }
    Ok(())
}

/// `3 files, 10 errors, 1 warning`.
fn summary(files: usize, errors: usize, warnings: usize) -> String {
    let counted = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let files = counted(files, "file");
    match (errors, warnings) {
        (0, 0) => format!("{files}, no problems"),
        (errors, 0) => format!("{files}, {}", counted(errors, "error")),
        (errors, warnings) => format!("{files}, {}, {}", counted(errors, "error"), counted(warnings, "warning")),
    }
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn the_summary_counts_in_words() {
        assert_eq!(summary(1, 0, 0), "1 file, no problems");
        assert_eq!(summary(3, 10, 0), "3 files, 10 errors");
        assert_eq!(summary(2, 0, 1), "2 files, 0 errors, 1 warning");
    }
}
