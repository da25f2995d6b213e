//! `validate`: every mistake of every file at once.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use orc_spec::SourceFile;
use orc_spec::diagnostic::{Diagnostic, Severity, json_document};
use orc_spec::sarif;
use orc_spec::settings::{FileKind, PartialSettings};

use crate::args::{ProblemForm, ValidateArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, invalid, not_found};
use crate::host;
use crate::layers::WORKSPACE;
use crate::output::{self, Form, say};

/// A file and what is wrong with it.
struct Checked {
    source: SourceFile,
    diagnostics: Vec<Diagnostic>,
}

pub(crate) fn run(context: &Context, args: &ValidateArgs) -> CommandResult {
    let files = if args.files.is_empty() { all_files(context)? } else { args.files.clone() };
    let checked = files.iter().map(|file| check(context, file)).collect::<CommandResult<Vec<Checked>>>()?;
    print(&checked, args.output)?;
    let count = |wanted: Severity| {
        let all = checked.iter().flat_map(|file| &file.diagnostics);
        all.filter(|diagnostic| diagnostic.severity == wanted).count()
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    say(&summary(checked.len(), errors, warnings));
    Ok(if errors == 0 { Exit::Success } else { Exit::Invalid })
}

fn check(context: &Context, file: &Path) -> CommandResult<Checked> {
    let path = context.cwd.join(file);
    let shown = path.strip_prefix(&context.cwd).unwrap_or(&path).display().to_string();
    let bytes = std::fs::read(&path).map_err(|error| {
        let failure = not_found(format!("cannot read `{shown}`")).because(error);
        if path.is_dir() { failure.hint(format!("name the files in it: {shown}/*.yaml")) } else { failure }
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        invalid(format!("`{shown}` is not UTF-8 text: byte {at} begins no character"))
    })?;
    let source = SourceFile::new(shown, text);
    let is_settings = path.file_name().is_some_and(|name| name == WORKSPACE);
    let diagnostics = if is_settings {
        PartialSettings::parse(&source, FileKind::Workspace).1
    } else {
        orc_spec::compile(&source).diagnostics
    };
    Ok(Checked { source, diagnostics })
}

/// All pipelines of the repository, and its settings.
fn all_files(context: &Context) -> CommandResult<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = context.pipeline_files();
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
