//! Submodules, and large files that are kept beside the objects (git-lfs): what of them the machine has is part of a
//! ground, so that a copy is complete without a network. What it has not is said when a flow starts.
//!
//! A submodule is looked for where the source keeps it, then where its address leads when that is on this machine. Its
//! commits come into a repository of ours like those of any source. Names and addresses come from a commit, which an agent
//! may have written: none of them leads out of the place that it is for.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use orc_domain::tree::CommitId;
use orc_ports::worktrees::WorktreeError;

use crate::store::Store;
use crate::{Trees, files, names};

/// How deep submodules of submodules are followed.
const DEEPEST: usize = 5;

/// A submodule at one commit of its superproject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// From the root of the outermost.
    pub(crate) path: String,
    /// Its repository, from the root of the outermost.
    pub(crate) git: String,
    /// The path of the superproject, from the root of the outermost; empty: that itself.
    pub(crate) above: String,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) commit: CommitId,
    /// Where its commits came from; none: this machine has them nowhere.
    pub(crate) source: Option<String>,
}

/// A level of submodules that is being looked through.
struct Level {
    source: String,
    commit: CommitId,
    path: String,
    git: String,
    depth: usize,
}

impl Trees {
    /// All submodules of a commit, those above before those below them. Takes their commits where the machine has them.
    pub(crate) fn modules(&self, source: &str, commit: &CommitId) -> Result<Vec<Module>, WorktreeError> {
        let first = Level {
            source: source.to_owned(),
            commit: commit.clone(),
            path: String::new(),
            git: ".git".to_owned(),
            depth: 0,
        };
        let mut open = vec![first];
        let mut found = Vec::new();
        while let Some(level) = open.pop() {
            let store = Store::known(&self.root, &self.git, &level.source);
            for (inner, commit) in store.links(&level.commit)? {
                let Some((name, url)) = store.module_at(&level.commit, &inner)? else { continue };
                if !is_plain(&name) || !is_plain(&inner) {
                    continue;
                }
                let module = Module {
                    path: below(&level.path, &inner),
                    git: format!("{}/modules/{name}", level.git),
                    above: level.path.clone(),
                    source: self.take_module(&level.source, (&name, &url), &commit)?,
                    name,
                    url,
                    commit,
                };
                if let Some(source) = module.source.clone().filter(|_| level.depth < DEEPEST) {
                    open.push(Level {
                        source,
                        commit: module.commit.clone(),
                        path: module.path.clone(),
                        git: module.git.clone(),
                        depth: level.depth + 1,
                    });
                }
                found.push(module);
            }
        }
        Ok(found)
    }

    /// Takes the commit of a submodule from wherever this machine has it, and says where that was.
    fn take_module(
        &self,
        above: &str,
        (name, url): (&str, &str),
        commit: &CommitId,
    ) -> Result<Option<String>, WorktreeError> {
        for candidate in self.candidates(Path::new(above), name, url) {
            let source = candidate.display().to_string();
            let known = Store::known(&self.root, &self.git, &source);
            if known.has(commit)? {
                return Ok(Some(source));
            }
            if !candidate.is_dir() {
                continue;
            }
            let lock = self.locks.of(&candidate);
            let _held = crate::held(&lock);
            let format = || {
                let said = self.git.at(&candidate, &source).args(["rev-parse", "--show-object-format"]);
                Ok(said.done("read")?.line())
            };
            // One that cannot give it is none: another may, and that nobody can is said.
            let taken =
                Store::open(&self.root, &self.git, &source, format).and_then(|store| store.fetch(&candidate, commit));
            match taken {
                Ok(()) => return Ok(Some(source)),
                Err(error) => tracing::debug!(%source, %error, "a submodule is not to be had here"),
            }
        }
        Ok(None)
    }

    fn candidates(&self, above: &Path, name: &str, url: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        found.extend(self.git_directory(above).map(|git| git.join("modules").join(name)));
        let local = url.strip_prefix("file://").unwrap_or(url);
        if local.starts_with("./") || local.starts_with("../") || Path::new(local).is_absolute() {
            found.extend(flat(&above.join(local)));
        }
        found
    }

    /// Where a source keeps what all of its checkouts share.
    pub(crate) fn git_directory(&self, source: &Path) -> Option<PathBuf> {
        let name = source.display().to_string();
        let call = self.git.at(source, &name).args(["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        let said = call.run("find").ok().filter(|said| said.code == 0)?;
        Some(PathBuf::from(said.line()))
    }

    /// What of submodules will be missing, for people.
    pub(crate) fn missing_modules(&self, source: &str, commit: &CommitId) -> Result<Vec<String>, WorktreeError> {
        let modules = self.modules(source, commit)?;
        let missing = modules.into_iter().filter(|module| module.source.is_none());
        Ok(missing
            .map(|module| {
                let short = module.commit.short().to_owned();
                format!(
                    "the submodule `{}` is empty in the copies: this machine does not have its commit {short} (`git submodule \
                     update --init` brings it)",
                    module.path
                )
            })
            .collect())
    }

    /// Writes packs of submodules into an exchange, and the list that the script reads.
    pub(crate) fn lay_modules(
        &self,
        modules: &[Module],
        known: &BTreeMap<String, CommitId>,
        exchange: &Path,
    ) -> Result<(), WorktreeError> {
        let mut lines = String::new();
        for (number, module) in modules.iter().enumerate() {
            let Some(source) = &module.source else { continue };
            let before = known.get(&module.path);
            if before != Some(&module.commit) {
                let store = Store::known(&self.root, &self.git, source);
                let before = before.filter(|before| store.has(before).unwrap_or(false));
                let known: Vec<&CommitId> = before.into_iter().collect();
                store.pack(&[&module.commit], &known, &exchange.join(format!("module-{number}.pack")))?;
            }
            let above = if module.above.is_empty() { "." } else { &module.above };
            let fields = [&module.path, &module.git, above, &module.name, &module.url, module.commit.as_str()];
            lines.push_str(&format!("{number}\t{}\n", fields.join("\t")));
        }
        let path = exchange.join("modules");
        std::fs::write(&path, lines).map_err(files::failed("write", &path))
    }

    /// Where large files of a repository may lie: ours, then the source's own.
    pub(crate) fn large_files(&self, source: &str) -> Vec<PathBuf> {
        let ours = Store::known(&self.root, &self.git, source).path.join("lfs/objects");
        let theirs = self.git_directory(Path::new(source)).map(|git| git.join("lfs/objects"));
        std::iter::once(ours).chain(theirs).filter(|path| path.is_dir()).collect()
    }

    /// Takes large files that a box left into our own repository. Each is called by its hash, which is checked.
    pub(crate) fn take_large_files(&self, store: &Store<'_>, exchange: &Path) -> Result<(), WorktreeError> {
        let left = exchange.join("large");
        for name in files::names_in(&left)? {
            if name.len() != 64 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                continue;
            }
            let to = store.path.join("lfs/objects").join(&name[..2]).join(&name[2..4]).join(&name);
            if files::exists(&to) {
                continue;
            }
            let mut from = files::open_left(&left.join(&name), crate::store::PACK_BYTES)?;
            files::make_directory(to.parent().unwrap_or(&to))?;
            let temporary = files::beside(&to);
            let copied = names::copy_hashed(&mut from, &temporary).map_err(files::failed("write", &temporary))?;
            if copied == name {
                std::fs::rename(&temporary, &to).map_err(files::failed("write", &to))?;
            } else {
                std::fs::remove_file(&temporary).map_err(files::failed("remove", &temporary))?;
            }
        }
        Ok(())
    }
}

fn below(above: &str, inner: &str) -> String {
    if above.is_empty() { inner.to_owned() } else { format!("{above}/{inner}") }
}

/// Whether a name or path stays where it is put, and in one field of one line.
fn is_plain(text: &str) -> bool {
    let parts = Path::new(text).components().all(|part| matches!(part, Component::Normal(name) if name != ".git"));
    parts && !text.is_empty() && !text.contains(['\t', '\n', '\0'])
}

/// A path without `..`, as far as that can be said without looking at links.
fn flat(path: &Path) -> Option<PathBuf> {
    let mut flat = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !flat.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            other => flat.push(other),
        }
    }
    Some(flat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_submodules_lead_nowhere_else() {
        for text in ["lib", "third/party", "a.b"] {
            assert!(is_plain(text), "{text}");
        }
        for text in ["", "../x", "a/../../x", "/etc", "a\tb", "a\nb", ".git", "x/.git/hooks", "./x"] {
            assert!(!is_plain(text), "{text:?}");
        }
        assert_eq!(flat(Path::new("/a/b/../c/./d")), Some(PathBuf::from("/a/c/d")));
        assert_eq!(flat(Path::new("a/../../c")), None);
    }
}
