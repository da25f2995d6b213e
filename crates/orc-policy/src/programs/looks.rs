//! Which commands only look. They pass in every mode unless a rule says otherwise.

use super::flags;

/// Programs that only look, whatever they are told, but for the flags that [`flags::turning`] knows.
pub const LOOKS: [&str; 64] = [
    ":",
    "[",
    "[[",
    "arch",
    "b2sum",
    "base32",
    "base64",
    "basename",
    "break",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "column",
    "comm",
    "continue",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "exit",
    "expr",
    "false",
    "fgrep",
    "file",
    "find",
    "fold",
    "grep",
    "groups",
    "head",
    "id",
    "join",
    "ls",
    "man",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "return",
    "rev",
    "rg",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "shift",
    "sleep",
    "sort",
    "stat",
    "tac",
    "tail",
    "test",
    "tr",
    "true",
    "tree",
];

/// More that need a look at their words.
pub const LOOKS_AT_TIMES: [&str; 11] =
    ["git", "hostname", "jq", "sed", "strings", "type", "uname", "uniq", "uptime", "wc", "which"];

/// Words of git that only look, and what may follow them.
pub const GIT: [&str; 21] = [
    "blame",
    "cat-file",
    "count-objects",
    "describe",
    "diff",
    "diff-tree",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
    "version",
    "whatchanged",
];

/// Whether a command only looks: its program, its words, and its flags as they are written.
#[must_use]
pub fn only_looks(program: &str, operands: &[&str], written: &[&str]) -> bool {
    if !LOOKS.contains(&program) && !LOOKS_AT_TIMES.contains(&program) {
        return false;
    }
    let turned = turned(program, operands.first().copied(), written).is_some();
    if turned {
        return false;
    }
    match program {
        "sed" => only_prints(operands, written),
        "uniq" | "tree" => operands.len() <= 1,
        "hostname" => operands.is_empty() && written.is_empty(),
        "git" => git_looks(operands, written),
        "date" => operands.iter().all(|operand| operand.starts_with('+')),
        _ => true,
    }
}

/// The flag that makes more of it, if one is there.
#[must_use]
pub fn turned(program: &str, subcommand: Option<&str>, written: &[&str]) -> Option<&'static str> {
    let in_bundle = |flag: &str, word: &str| {
        let single = flag.len() == 2 && flag.starts_with('-');
        single
            && !super::flags::is_long_by_one(program)
            && word.starts_with('-')
            && !word.starts_with("--")
            && word[1..].contains(&flag[1..])
    };
    flags::turning(program).iter().copied().find(|flag| {
        written.iter().any(|word| {
            let name = word.split_once('=').map_or(*word, |(name, _)| name);
            let abbreviated =
                flag.starts_with("--") && name.len() > 3 && name.starts_with("--") && flag.starts_with(name);
            let same = name == *flag || abbreviated || in_bundle(flag, word);
            same && flags::turns(program, subcommand, flag)
        })
    })
}

/// `sed -n 3,5p`: nothing but lines that are printed.
fn only_prints(operands: &[&str], written: &[&str]) -> bool {
    let quiet = written.iter().all(|word| matches!(*word, "-n" | "--quiet" | "--silent" | "-E" | "-r"));
    let script = operands.first().is_some_and(|script| {
        let script = script.trim();
        let lines = script.strip_suffix('p').unwrap_or("!");
        !lines.is_empty() && lines.chars().all(|letter| letter.is_ascii_digit() || matches!(letter, ',' | '$' | ' '))
    });
    quiet && !written.is_empty() && script
}

fn git_looks(operands: &[&str], written: &[&str]) -> bool {
    let Some((word, rest)) = operands.split_first() else {
        return written.iter().all(|flag| matches!(*flag, "--version" | "-v" | "--help" | "-h"));
    };
    let only = |flags: &[&str]| {
        written.iter().all(|flag| flags.contains(flag) || flag.starts_with("--format=") || flag.starts_with("--sort="))
    };
    match *word {
        word if GIT.contains(&word) => true,
        "branch" => {
            rest.is_empty()
                && only(&[
                    "-a",
                    "-r",
                    "-v",
                    "-vv",
                    "--list",
                    "--all",
                    "--remotes",
                    "--show-current",
                    "--no-color",
                    "--merged",
                    "--no-merged",
                ])
        }
        "tag" => rest.is_empty() && only(&["-l", "--list", "-n"]),
        "remote" => matches!(rest, [] | ["show"]) && only(&["-v", "--verbose"]) || matches!(rest, ["get-url", _]),
        "stash" => matches!(rest, ["list" | "show", ..]),
        "reflog" => matches!(rest, [] | ["show", ..]),
        "worktree" | "notes" => matches!(rest, ["list", ..]),
        "config" => {
            written.iter().any(|flag| matches!(*flag, "--get" | "--list" | "-l" | "--get-all" | "--get-regexp"))
        }
        _ => false,
    }
}
