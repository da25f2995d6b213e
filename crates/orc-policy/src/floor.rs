//! What no rule and no mode lifts. The lists are short, and shown by `orchestrator permissions lint --floors`.
//!
//! Removals of what nobody wants removed are found by the view of a command; here are files that change who decides what
//! runs later: of git, of agents, of shells, of the forge and of the system.

use crate::glob::{Glob, Token, fold};
use crate::path::PathOf;

/// What is removed by nobody but somebody who was asked, in words; [`crate::view`] finds it in commands.
pub const REMOVALS: [&str; 5] = [
    "the root, directories at the root of the machine, and all in them",
    "the home, what it lies in, and all in it",
    "the copy itself, and what it lies in",
    "`\"$NAME\"/*`, which is all of the root when the name is empty",
    "owners and rights of all that is below one of them",
];

/// Names of files and directories that are protected wherever they lie, with what they are.
pub const PROTECTED: [(&str, &str); 41] = [
    (".git", "git itself"),
    (".gitmodules", "git itself"),
    (".gitconfig", "git itself"),
    (".claude", "settings of agents"),
    (".codex", "settings of agents"),
    (".gemini", "settings of agents"),
    (".cursor", "settings of agents"),
    (".mcp.json", "settings of agents"),
    ("orchestrator.yaml", "settings of agents"),
    (".vscode", "settings of an editor that runs them"),
    (".idea", "settings of an editor that runs them"),
    (".devcontainer", "settings of an editor that runs them"),
    (".husky", "hooks"),
    (".pre-commit-config.yaml", "hooks"),
    (".cargo", "settings of a build"),
    (".npmrc", "settings of a build"),
    (".yarnrc", "settings of a build"),
    (".yarnrc.yml", "settings of a build"),
    (".envrc", "settings of a shell"),
    (".circleci", "what the forge runs"),
    (".gitlab-ci.yml", "what the forge runs"),
    ("jenkinsfile", "what the forge runs"),
    (".bashrc", "settings of a shell"),
    (".bash_profile", "settings of a shell"),
    (".bash_login", "settings of a shell"),
    (".bash_logout", "settings of a shell"),
    (".bash_aliases", "settings of a shell"),
    (".profile", "settings of a shell"),
    (".zshrc", "settings of a shell"),
    (".zshenv", "settings of a shell"),
    (".zprofile", "settings of a shell"),
    (".zlogin", "settings of a shell"),
    (".inputrc", "settings of a shell"),
    (".ssh", "keys"),
    (".gnupg", "keys"),
    (".aws", "keys"),
    (".kube", "keys"),
    (".docker", "keys"),
    (".netrc", "keys"),
    (".pypirc", "keys"),
    ("crontab", "what the system runs"),
];

/// Two names, one below the other.
pub const PROTECTED_PAIRS: [(&str, &str, &str); 4] = [
    (".github", "workflows", "what the forge runs"),
    (".github", "actions", "what the forge runs"),
    (".config", "fish", "settings of a shell"),
    (".config", "git", "git itself"),
];

/// Directories of the system.
pub const SYSTEM: [&str; 13] =
    ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr", "var/spool"];

/// Names of files that hold what must stay secret.
pub const SECRETS: [&str; 14] = [
    ".env",
    ".ssh",
    ".aws",
    ".gnupg",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".kube",
    ".docker",
    "credentials",
    "id_rsa",
    "id_ed25519",
    "shadow",
    ".git-credentials",
];

/// What a file is that may only be changed by somebody who was asked.
#[must_use]
pub fn protected(path: &PathOf) -> Option<&'static str> {
    if crate::rule::is_nothing(path) {
        return None;
    }
    ends(path).find_map(|end| {
        let names: Vec<&str> = end.split('/').filter(|name| !name.is_empty()).collect();
        let is = |name: &str, known: &str| name == known || (name.contains(WILD) && may_be(name, known));
        let one = PROTECTED.iter().find(|(known, _)| names.iter().any(|name| is(name, known))).map(|(_, what)| *what);
        let two = PROTECTED_PAIRS
            .iter()
            .find(|(first, second, _)| names.windows(2).any(|pair| is(pair[0], first) && is(pair[1], second)));
        let system = SYSTEM.iter().any(|known| {
            end.trim_start_matches('/').strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        one.or(two.map(|(_, _, what)| *what)).or(system.then_some("the system"))
    })
}

/// Whether what is in a file must stay secret.
#[must_use]
pub fn secret(path: &PathOf) -> bool {
    ends(path).any(|end| {
        end.split('/').any(|name| {
            SECRETS.iter().any(|known| {
                name == *known || name.starts_with(".env.") || (name.contains(WILD) && may_be(name, known))
            })
        })
    })
}

/// Stands for what is not known in a name.
const WILD: char = '\u{1e}';

/// Both ends of a path, folded, with a letter for what is not known in it. What may be anything is not taken for all.
fn ends(path: &PathOf) -> impl Iterator<Item = String> {
    let one = |glob: &Glob| {
        let letters = glob.tokens().iter().map(|token| match token {
            Token::Is(letter) => *letter,
            Token::One | Token::Some | Token::Any => WILD,
        });
        fold(&letters.collect::<String>())
    };
    [one(&path.place), one(&path.target)].into_iter()
}

/// Whether a name with something unknown in it may be a known one: never when nothing is known of it.
fn may_be(name: &str, known: &str) -> bool {
    if name.chars().all(|letter| letter == WILD) {
        return false;
    }
    let mut glob = Glob::default();
    name.chars().for_each(|letter| glob.push(if letter == WILD { Token::Some } else { Token::Is(letter) }));
    glob.matches(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Around;

    #[test]
    fn what_decides_what_runs_is_protected() {
        let around = Around { cwd: "/w".into(), home: "/home/dev".into(), worktree: "/w".into(), ..Around::default() };
        for (path, expected) in [
            (".git/config", true),
            ("a/.GIT/hooks/x", true),
            (".github/workflows/ci.yml", true),
            (".github/CODEOWNERS", false),
            ("~/.bashrc", true),
            ("/etc/cron.d/x", true),
            ("/dev/null", false),
            ("/dev/sda", true),
            ("src/etc/a", false),
            (".gitignore", false),
            ("a.git/x", false),
        ] {
            assert_eq!(protected(&around.path(path)).is_some(), expected, "{path}");
        }
        let wild = |text: &str| around.path_from("/w", &Glob::of_path(text), text);
        assert!(protected(&wild(".g?t/config")).is_some());
        assert!(protected(&wild("*.rs")).is_none());
        assert!(protected(&wild("*")).is_none());
        assert!(secret(&around.path("~/.ssh/id_rsa")) && !secret(&around.path("src/a")));
    }
}
