//! The agents of a repository: `agents/*.md` beside `pipelines/`, read and compiled together, so that names that stand
//! twice are found.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use orc_domain::profile::Profile;
use orc_spec::diagnostic::Severity;
use orc_spec::{CompiledProfile, SourceFile, compile_profiles};

use crate::context::Context;
use crate::failure::CommandResult;

/// Bytes of a schema that a profile may name.
const MAX_SCHEMA_BYTES: u64 = 1024 * 1024;

/// A profile's file and what came of it.
pub(crate) struct AgentFile {
    pub(crate) source: SourceFile,
    pub(crate) compiled: CompiledProfile,
}

impl AgentFile {
    /// The profile with its name; without one, the name of the file.
    pub(crate) fn name(&self) -> &str {
        self.profile().map_or_else(|| self.source.stem(), |profile| profile.name.as_str())
    }

    pub(crate) fn profile(&self) -> Option<&Profile> {
        self.compiled.profile.as_ref()
    }

    pub(crate) fn errors(&self) -> usize {
        self.compiled.diagnostics.iter().filter(|problem| problem.severity == Severity::Error).count()
    }
}

/// Whether a file is an agent's: by its extension, and but for the folder's own description.
pub(crate) fn is_agent_file(path: &Path) -> bool {
    let is_readme = path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("readme"));
    path.extension().is_some_and(|extension| extension == "md") && !is_readme
}

/// The files in `agents/`, in order.
pub(crate) fn agent_files(context: &Context) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(context.root.join("agents")) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| is_agent_file(file) && !file.is_dir());
    files.sort();
    files
}

/// Every agent of the repository, those with mistakes included.
pub(crate) fn read_agents(context: &Context) -> CommandResult<Vec<AgentFile>> {
    let sources = agent_files(context).iter().map(|file| context.source(file)).collect::<CommandResult<_>>()?;
    Ok(compile_agents(context, sources))
}

/// Compiles files together.
pub(crate) fn compile_agents(context: &Context, sources: Vec<SourceFile>) -> Vec<AgentFile> {
    let allowance = context.known_settings().map(|settings| settings.allowance());
    let compiled = compile_profiles(&sources, &|path| text_of(&context.root.join(path)), allowance.as_ref());
    sources.into_iter().zip(compiled).map(|(source, compiled)| AgentFile { source, compiled }).collect()
}

/// The text of a file that a profile or pipeline names.
pub(crate) fn text_of(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let length = file.take(MAX_SCHEMA_BYTES + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if length as u64 > MAX_SCHEMA_BYTES {
        return Err(format!("it has more than {MAX_SCHEMA_BYTES} bytes"));
    }
    Ok(text)
}
