//! What nobody wants removed, and what a command reaches beyond its copy.

use super::{Arg, Shape};
use crate::glob::{Glob, Token};
use crate::path::{Around, below};
use crate::programs::{self, looks};
use crate::verdict::Class;

/// What a command removes that no rule lets it: the root, directories at the top, a home, the copy or what it lies in,
/// everything below one of them, and `"$NAME"/*`, which is `/*` when the name is empty.
pub(super) fn removal(name: &str, shape: &Shape, words: &[Arg], around: &Around, cwds: &[String]) -> Option<String> {
    let removes = matches!(name, "rm" | "rmdir" | "unlink" | "shred" | "trash" | "rimraf")
        || (name == "find"
            && (shape.has(name, &["-delete"]) || words.iter().any(|word| word.exact().as_deref() == Some("rm"))))
        || (name == "chmod" || name == "chown") && shape.has(name, &["-R", "--recursive"]);
    if !removes {
        return None;
    }
    let operands = shape.operands.iter().filter(|(_, optional)| !optional || name != "find").map(|(word, _)| word);
    operands.filter(|word| is_critical(word, around, cwds)).map(Arg::shown).next()
}

fn is_critical(word: &Arg, around: &Around, cwds: &[String]) -> bool {
    let tokens = word.glob.tokens();
    let rest_is_nothing =
        |rest: &[Token]| rest.iter().all(|token| !matches!(token, Token::Is(letter) if !matches!(letter, '/' | '.')));
    // Something that may be empty, and then the root or all in it.
    if let Some((Token::Any, rest)) = tokens.split_first() {
        return rest.first() == Some(&Token::Is('/')) && rest_is_nothing(rest);
    }
    // What is before the last wildcards is the directory that is emptied.
    let kept =
        tokens.iter().rposition(|token| matches!(token, Token::Is(letter) if *letter != '/')).map_or(0, |at| at + 1);
    let (directory, behind) = tokens.split_at(kept);
    let emptied = behind.iter().any(|token| !matches!(token, Token::Is(_)));
    let mut glob = Glob::default();
    directory.iter().for_each(|token| glob.push(*token));
    let Some(text) = glob.text() else { return false };
    if directory.is_empty() {
        // `/`, `//*`; but `*` alone is what is here.
        return tokens.first() == Some(&Token::Is('/'));
    }
    cwds.iter().any(|cwd| {
        let path = around.path_from(cwd, &Glob::literal(&text), &text);
        [path.place, path.target].iter().filter_map(Glob::text).any(|path| {
            let copy = around.resolve(&around.worktree);
            let top = path == "/" || (path.matches('/').count() == 1 && path != "/tmp");
            let home = !around.home.is_empty() && below(&around.home, &path);
            let lies_in = [&around.worktree, &copy].into_iter().any(|copy| below(copy, &path));
            let is_copy = path == around.worktree || path == copy;
            top || home || (lies_in && !(emptied && is_copy))
        })
    })
}

/// What a command does at most.
pub(super) fn class(name: &str, shape: &Shape) -> Class {
    let operands: Vec<String> = shape.operands.iter().filter_map(|(word, _)| word.exact()).collect();
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let written = shape.written();
    let written: Vec<&str> = written.iter().map(String::as_str).collect();
    let first = shape.subcommand().unwrap_or_default();
    let second = operands.get(1).copied().unwrap_or_default();
    match (name, first.as_str(), second) {
        ("git", "push", _)
        | ("gh", "pr", "create" | "merge" | "ready" | "edit" | "comment" | "review" | "close" | "reopen")
        | ("gh", "release" | "issue", "create" | "edit" | "comment" | "close" | "delete" | "upload")
        | ("npm" | "pnpm" | "yarn" | "cargo" | "poetry" | "gem" | "flit" | "hatch" | "uv", "publish" | "push", _)
        | ("twine", "upload", _)
        | ("docker" | "podman" | "helm", "push", _) => Class::Push,
        ("git", "fetch" | "pull" | "clone" | "ls-remote" | "submodule", _)
        | (
            "npm" | "pnpm" | "yarn" | "bun" | "pip" | "pip3" | "gem" | "bundle" | "composer" | "cargo" | "apt"
            | "apt-get" | "brew" | "go" | "uv" | "poetry",
            "install" | "i" | "ci" | "add" | "update" | "upgrade" | "get" | "fetch" | "sync",
            _,
        ) => Class::Network,
        _ if programs::is_network(name) => Class::Network,
        _ if looks::only_looks(name, &operands, &written) => Class::Read,
        ("mkdir" | "rmdir" | "touch" | "mv" | "cp" | "rm" | "sed" | "ln" | "tee" | "truncate", ..) => Class::Edit,
        _ => Class::Run,
    }
}

/// Classes of effects, as `Effect(...)` of a rule names them.
#[must_use]
pub fn effects(name: &str, shape: &Shape) -> Vec<&'static str> {
    let first = shape.subcommand().unwrap_or_default();
    let second = shape
        .operands
        .iter()
        .filter(|(_, optional)| !optional)
        .nth(1)
        .and_then(|(word, _)| word.exact())
        .unwrap_or_default();
    let mut effects = vec!["processSpawn"];
    match (name, first.as_str(), second.as_str()) {
        ("git", "push", _) => effects.extend(["gitPush", "networkEgress"]),
        ("git", "commit" | "merge" | "rebase" | "cherry-pick" | "revert" | "am", _) => effects.push("gitCommit"),
        ("gh", "pr", "create") => effects.extend(["prCreate", "networkEgress"]),
        ("gh", "pr", "merge" | "ready" | "review") => effects.extend(["prPublish", "networkEgress"]),
        ("gh", "issue", "create" | "edit" | "close" | "comment") => effects.extend(["ticketWrite", "networkEgress"]),
        ("rm" | "rmdir" | "unlink" | "shred", ..) => effects.push("fileDelete"),
        (
            "npm" | "pnpm" | "yarn" | "bun" | "pip" | "pip3" | "gem" | "bundle" | "composer" | "apt" | "apt-get"
            | "brew" | "uv" | "poetry",
            "install" | "i" | "ci" | "add",
            _,
        )
        | ("cargo", "install" | "add", _)
        | ("go", "install" | "get", _) => effects.extend(["packageInstall", "networkEgress"]),
        _ => {}
    }
    if class(name, shape) >= Class::Network && !effects.contains(&"networkEgress") {
        effects.push("networkEgress");
    }
    effects
}
