//! Every pipeline that we show compiles: the files in `pipelines/`, those that `init` writes, and the blocks in documents
//! that have `steps:`.

use orc_spec::diagnostic::Severity;
use orc_spec::{SourceFile, compile};

use super::{Violation, documents};
use crate::tree::Tree;

const FOLDERS: [&str; 2] = ["pipelines/", "crates/orc-cli/src/commands/init/"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files() {
        let shown = FOLDERS.iter().any(|folder| path.starts_with(folder)) && path.ends_with(".yaml");
        if shown && is_pipeline(text) {
            check_pipeline(path, 0, text, &mut violations);
        } else if documents::is_document(path) {
            for (above, block) in blocks(text).into_iter().filter(|(_, block)| is_pipeline(block)) {
                check_pipeline(path, above, &block, &mut violations);
            }
        }
    }
    violations
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

fn check_pipeline(path: &str, above: usize, text: &str, violations: &mut Vec<Violation>) {
    let source = SourceFile::new(path, text);
    for found in compile(&source).diagnostics.iter().filter(|found| found.severity == Severity::Error) {
        let line = above + source.position(found.span.start).line;
        let hint = found.help.clone().unwrap_or_else(|| "what we show must work".to_owned());
        violations.push(Violation::new(path, line, &found.message, hint));
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
    fn so_is_one_in_a_document() {
        assert_eq!(lines("README.md", &format!("# A\n```yaml\n{GOOD}```\n")), [0; 0]);
        assert_eq!(lines("README.md", &format!("# A\n```yaml\n{}```\n", GOOD.replace("run", "rum"))).first(), Some(&5));
        assert_eq!(lines("README.md", "```yaml\non: { manual: maybe }\n```\n"), [0; 0]);
    }
}
