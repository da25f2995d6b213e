//! What a pipeline may name beside itself: other pipelines, schemas, agents, people. Read from the repository for the
//! compiler, which reads nothing itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use orc_domain::profile::Profile;
use orc_spec::settings::Allowance;
use orc_spec::{Compiled, Library, SourceFile, compile};

use crate::agents::{read_agents, text_of};
use crate::context::Context;
use crate::failure::CommandResult;

/// The shelf of a repository.
pub(crate) struct Shelf<'a> {
    context: &'a Context,
    agents: BTreeMap<String, Profile>,
    broken_agents: BTreeSet<String>,
    people: Option<BTreeSet<String>>,
    allowance: Option<Allowance>,
}

impl<'a> Shelf<'a> {
    /// Reads the agents. An agent that has mistakes is not on it: who names it is told so. `people` are the names of the
    /// settings; none: they are not known, and no name is called a wrong one.
    pub(crate) fn of(context: &'a Context, people: Option<BTreeSet<String>>) -> CommandResult<Self> {
        let (mut agents, mut broken_agents) = (BTreeMap::new(), BTreeSet::new());
        for agent in read_agents(context)? {
            let name = agent.name().to_owned();
            match agent.compiled.profile {
                Some(profile) => drop(agents.insert(name, profile)),
                None => drop(broken_agents.insert(name)),
            }
        }
        let allowance = context.known_settings().map(|settings| settings.allowance());
        Ok(Self { context, agents, broken_agents, people, allowance })
    }

    /// Compiles a pipeline with all that it names. Paths are those of the file, as the user knows it.
    pub(crate) fn compile(&self, source: &SourceFile) -> Compiled {
        let cwd = &self.context.cwd;
        let root = &self.context.root;
        let pipelines = |path: &str| text_of(&cwd.join(path));
        let schemas = |path: &str| text_of(&inside(root, path)?);
        let library = Library {
            pipelines: &pipelines,
            schemas: &schemas,
            agents: &self.agents,
            broken_agents: &self.broken_agents,
            people: self.people.as_ref(),
            allowance: self.allowance.as_ref(),
        };
        compile(source, &library)
    }
}

/// A path below the repository.
fn inside(root: &Path, path: &str) -> Result<std::path::PathBuf, String> {
    let path = Path::new(path);
    let stays =
        path.components().all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
    if stays { Ok(root.join(path)) } else { Err("it must be a path below the repository's root".to_owned()) }
}
