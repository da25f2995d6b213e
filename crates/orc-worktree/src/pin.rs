//! What a flow starts from: finds repositories, resolves what was asked for, and takes the commits.
//!
//! A source is only read: git is told to take no lock that it could do without, hooks and monitors are off.

use std::path::{Path, PathBuf};

use orc_domain::graph::RepositorySpec;
use orc_domain::tree::{CommitId, Repository};
use orc_ports::worktrees::{Pinned, WorktreeError};

use crate::Trees;
use crate::git::{Call, reason};
use crate::store::Store;

/// A repository as it was found.
struct Found {
    /// Its checkout; of a bare repository the repository itself.
    directory: PathBuf,
    bare: bool,
}

impl Trees {
    pub(crate) fn pin(&self, directory: &Path, wanted: &[RepositorySpec]) -> Result<Pinned, WorktreeError> {
        let first = self.find(directory, directory)?;
        let only = [RepositorySpec { path: ".".to_owned(), base: None }];
        let wanted = if wanted.is_empty() { &only } else { wanted };
        let mut pinned = Pinned { repositories: Vec::new(), notes: Vec::new() };
        for spec in wanted {
            let found = if spec.path == "." {
                Found { directory: first.directory.clone(), bare: first.bare }
            } else {
                self.find(&first.directory.join(&spec.path), Path::new(&spec.path))?
            };
            let repository = self.resolve(&found, spec)?;
            if !found.bare {
                pinned.notes.extend(self.uncommitted(&found.directory, spec)?);
            }
            pinned.notes.extend(self.missing_modules(&repository.source, &repository.commit)?);
            pinned.repositories.push(repository);
        }
        Ok(pinned)
    }

    fn read<'a>(&'a self, directory: &'a Path, name: &'a str) -> Call<'a> {
        // Before the subcommand, since the repository's own configuration would win over the global one.
        self.git.at(directory, name).args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
    }

    /// The repository that a directory is in.
    fn find(&self, directory: &Path, called: &Path) -> Result<Found, WorktreeError> {
        let name = called.display().to_string();
        let nowhere = || WorktreeError::NoRepository { path: name.clone() };
        let directory = directory.canonicalize().map_err(|_| nowhere())?;
        if !directory.is_dir() {
            return Err(nowhere());
        }
        let said = self
            .read(&directory, &name)
            .args(["rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--is-shallow-repository"])
            .run("find")?;
        if said.code != 0 {
            let why = reason(&said);
            return Err(if why.contains("not a git repository") {
                nowhere()
            } else {
                WorktreeError::Git { what: "find", repository: name, why }
            });
        }
        let answers = said.line();
        let mut answers = answers.lines().map(|line| line == "true");
        let mut next = || answers.next().unwrap_or(false);
        let (bare, inside, shallow) = (next(), next(), next());
        if shallow {
            let why = "it is a shallow clone, of which commits are missing; complete it with `git fetch --unshallow`";
            return Err(WorktreeError::Git { what: "start from what is", repository: name, why: why.to_owned() });
        }
        if !bare && !inside {
            return Err(nowhere());
        }
        let which = if bare { "--absolute-git-dir" } else { "--show-toplevel" };
        let said = self.read(&directory, &name).args(["rev-parse", which]).done("find")?;
        Ok(Found { directory: PathBuf::from(said.line()), bare })
    }

    fn resolve(&self, found: &Found, spec: &RepositorySpec) -> Result<Repository, WorktreeError> {
        let source = found.directory.display().to_string();
        let branch = self.branch(found, spec)?;
        let wanted = spec.base.as_deref().unwrap_or("HEAD");
        let full = branch.as_ref().map_or_else(|| wanted.to_owned(), |branch| format!("refs/heads/{branch}"));
        let commit = self.commit(found, &full)?.ok_or_else(|| {
            if spec.base.is_none() {
                WorktreeError::Empty { repository: source.clone() }
            } else {
                WorktreeError::NoCommit { repository: source.clone(), wanted: wanted.to_owned() }
            }
        })?;
        let lock = self.locks.of(Path::new(&source));
        let _held = crate::held(&lock);
        let store = Store::open(&self.root, &self.git, &source, || {
            let said = self.read(&found.directory, &source).args(["rev-parse", "--show-object-format"]);
            Ok(said.done("read")?.line())
        })?;
        store.fetch(&found.directory, &commit)?;
        Ok(Repository { path: spec.path.clone(), source, branch, commit })
    }

    /// The branch that is meant: the one checked out, or the one that was named.
    fn branch(&self, found: &Found, spec: &RepositorySpec) -> Result<Option<String>, WorktreeError> {
        let name = found.directory.display().to_string();
        let Some(wanted) = &spec.base else {
            let said = self
                .read(&found.directory, &name)
                .args(["symbolic-ref", "-q", "--short", "HEAD"])
                .run("read HEAD of")?;
            return Ok((said.code == 0).then(|| said.line()));
        };
        let known = self.commit(found, &format!("refs/heads/{wanted}"))?;
        Ok(known.map(|_| wanted.clone()))
    }

    fn commit(&self, found: &Found, what: &str) -> Result<Option<CommitId>, WorktreeError> {
        let name = found.directory.display().to_string();
        let said = self
            .read(&found.directory, &name)
            .args(["rev-parse", "-q", "--verify", "--end-of-options", &format!("{what}^{{commit}}")])
            .run("resolve a commit of")?;
        Ok(if said.code == 0 { said.line().parse().ok() } else { None })
    }

    /// What of a checkout is in no commit.
    fn uncommitted(&self, directory: &Path, spec: &RepositorySpec) -> Result<Option<String>, WorktreeError> {
        let name = directory.display().to_string();
        let said = self
            .read(directory, &name)
            .args(["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=dirty"])
            .done("compare the checkout of")?;
        let files = said.output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).count();
        let of = if spec.path == "." { "the checkout".to_owned() } else { format!("the checkout of {}", spec.path) };
        Ok(match files {
            0 => None,
            1 => Some(format!("1 file of {of} is not committed; it is not in the copies")),
            many => Some(format!("{many} files of {of} are not committed; they are not in the copies")),
        })
    }
}
