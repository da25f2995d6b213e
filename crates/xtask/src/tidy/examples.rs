//! Every pipeline that we show compiles, with the agents in `agents/` beside its folder: the files in `pipelines/`, those that
//! `init` and `demo` write, and the blocks in documents that have `steps:`.

use std::collections::BTreeMap;

use orc_domain::profile::Profile;
use orc_spec::diagnostic::{Diagnostic, Severity};
use orc_spec::{Library, SourceFile, compile, compile_profile};

use super::{Violation, documents};
use crate::tree::Tree;

const PIPELINES: &str = "pipelines/";
const AGENTS: &str = "agents/";
const FOLDERS: [&str; 2] = [PIPELINES, "crates/orc-cli/src/commands/init/"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let text_of = |path: &str| tree.text(path).map(str::to_owned).ok_or_else(|| "there is no such file".to_owned());
    let (agents, none) = (agents(tree, &mut violations), BTreeMap::new());
    let mut check_pipeline = |path: &str, above: usize, text: &str| {
        let agents = agents.get(workspace(path, PIPELINES)).unwrap_or(&none);
        let library = Library { pipelines: &text_of, schemas: &text_of, agents, ..Library::empty() };
        let source = SourceFile::new(path, text);
        tell((&source, above), &compile(&source, &library).diagnostics, &mut violations);
    };
    for (path, text) in tree.files() {
        let shown = FOLDERS.iter().any(|folder| path.starts_with(folder)) && path.ends_with(".yaml");
        if shown && is_pipeline(text) {
            check_pipeline(path, 0, text);
        } else if documents::is_document(path) {
            for (above, block) in blocks(text).into_iter().filter(|(_, block)| is_pipeline(block)) {
                check_pipeline(path, above, &block);
            }
        }
    }
    violations
}

/// The folder that has such a folder, with the `/` at its end: a workspace may stand inside of another one.
fn workspace<'a>(path: &'a str, folder: &str) -> &'a str {
    let is_whole = |at: &usize| *at == 0 || path[..*at].ends_with('/');
    path.rfind(folder).filter(is_whole).map_or("", |at| &path[..at])
}

fn is_pipeline(block: &str) -> bool {
    block.lines().any(|line| line == "steps:")
}

/// The YAML blocks of a document, each with the number of lines above it.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        match &mut open {
            None if line == "```yaml" => open = Some((index + 1, String::new())),
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some((_, block)) => {
                block.push_str(line);
                block.push('\n');
            }
            None => {}
        }
    }
    blocks
}

/// The profiles in each `agents/`, by workspace, which compile like everything that we show.
fn agents(tree: &Tree, violations: &mut Vec<Violation>) -> BTreeMap<String, BTreeMap<String, Profile>> {
    let schema = |path: &str| tree.text(path).map(str::to_owned).ok_or_else(|| "there is no such file".to_owned());
    let is_agent =
        |path: &str| path.starts_with(AGENTS) || (path.starts_with(PIPELINES) && path.contains(&format!("/{AGENTS}")));
    let mut agents: BTreeMap<String, BTreeMap<String, Profile>> = BTreeMap::new();
    for (path, text) in tree.files().filter(|(path, _)| is_agent(path) && path.ends_with(".md")) {
        let source = SourceFile::new(path, text);
        let compiled = compile_profile(&source, &schema, None);
        tell((&source, 0), &compiled.diagnostics, violations);
        let of_workspace = agents.entry(workspace(path, AGENTS).to_owned()).or_default();
        of_workspace.extend(compiled.profile.map(|profile| (profile.name.clone(), profile)));
    }
    agents
}

/// The errors of a file that stands below so many lines.
fn tell((source, above): (&SourceFile, usize), diagnostics: &[Diagnostic], violations: &mut Vec<Violation>) {
    for found in diagnostics.iter().filter(|found| found.severity == Severity::Error) {
        let line = above + source.position(found.span.start).line;
        let hint = found.help.clone().unwrap_or_else(|| "what we show must work".to_owned());
        violations.push(Violation::new(&source.name, line, &found.message, hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "worktree: in_place\nsteps:\n  a: { run: echo }\n";

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_pipeline_that_does_not_compile_is_reported_with_its_line() {
        assert_eq!(lines("pipelines/a.yaml", GOOD), [0; 0]);
        assert_eq!(lines("pipelines/a.yaml", &GOOD.replace("run", "rum")).first(), Some(&3));
    }

    #[test]
    fn agents_and_other_pipelines_of_the_tree_are_known() {
        let text = "worktree: in_place\nsteps:\n  a: { agent: coder, prompt: x }\n  b: { pipeline: b }\n";
        let coder = ("agents/coder.md", "---\nadapter: command\ncommand: [x]\n---\nWork.\n");
        let whole = [("pipelines/a.yaml", text), ("pipelines/b.yaml", GOOD), coder];
        assert_eq!(check(&Tree::of(&whole)).len(), 0);
        assert_eq!(lines("pipelines/a.yaml", text), [3, 4]);
        assert_eq!(lines("agents/coder.md", coder.1), [0; 0]);
        assert_eq!(lines("agents/coder.md", &coder.1.replace("adapter", "adaptor")).first(), Some(&2));
    }

    #[test]
    fn a_workspace_inside_of_another_has_agents_of_its_own() {
        let text = "worktree: in_place\nsteps:\n  a: { agent: fixer, prompt: x }\n";
        let fixer = |path| (path, "---\nadapter: command\ncommand: [x]\n---\nWork.\n");
        let inner = ("pipelines/demo/pipelines/a.yaml", text);
        assert_eq!(check(&Tree::of(&[inner, fixer("pipelines/demo/agents/fixer.md")])).len(), 0);
        assert_eq!(check(&Tree::of(&[inner, fixer("agents/fixer.md")])).len(), 1);
        assert_eq!(check(&Tree::of(&[("pipelines/a.yaml", text), fixer("pipelines/demo/agents/fixer.md")])).len(), 1);
    }

    #[test]
    fn so_is_one_in_a_document() {
        assert_eq!(lines("README.md", &format!("# A\n```yaml\n{GOOD}```\n")), [0; 0]);
        assert_eq!(lines("README.md", &format!("# A\n```yaml\n{}```\n", GOOD.replace("run", "rum"))).first(), Some(&5));
        assert_eq!(lines("README.md", "```yaml\non: { manual: maybe }\n```\n"), [0; 0]);
    }
}
