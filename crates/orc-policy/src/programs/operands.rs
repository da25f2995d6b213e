//! Of which kind the operands of known programs are.

use super::Operands;

/// Programs by what their operands are, each list in the order of the alphabet.
pub const OPERANDS: &[(Operands, &[&str])] = &[
    (
        Operands::Text,
        &[
            ":", "alias", "arch", "basename", "bg", "break", "clear", "continue", "date", "declare", "dirname", "echo",
            "exit", "export", "expr", "false", "fg", "groups", "hash", "history", "hostname", "id", "jobs", "kill",
            "killall", "local", "man", "nproc", "pkill", "printenv", "printf", "pwd", "read", "readonly", "return",
            "seq", "set", "shift", "sleep", "tput", "tr", "true", "type", "ulimit", "umask", "unalias", "uname",
            "unset", "uptime", "wait", "which", "whoami", "yes",
        ],
    ),
    (
        Operands::Reads,
        &[
            ".",
            "[",
            "[[",
            "b2sum",
            "base32",
            "base64",
            "bat",
            "batcat",
            "bzcat",
            "cat",
            "cksum",
            "cmp",
            "column",
            "comm",
            "cut",
            "df",
            "diff",
            "dir",
            "du",
            "file",
            "find",
            "fold",
            "gunzip",
            "head",
            "hexdump",
            "join",
            "less",
            "ls",
            "md5sum",
            "more",
            "nl",
            "od",
            "paste",
            "readlink",
            "realpath",
            "rev",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
            "sort",
            "source",
            "stat",
            "strings",
            "tac",
            "tail",
            "test",
            "tree",
            "vdir",
            "view",
            "wc",
            "xxd",
            "xzcat",
            "zcat",
        ],
    ),
    (
        Operands::PatternThenReads,
        &[
            "ack", "ag", "awk", "egrep", "fd", "fdfind", "fgrep", "gawk", "grep", "jq", "mawk", "rg", "sed", "yq",
            "zgrep",
        ],
    ),
    (Operands::Writes, &["mkdir", "mkfifo", "mknod", "mktemp", "tee", "touch", "truncate"]),
    (Operands::ModeThenWrites, &["chattr", "chgrp", "chmod", "chown", "setfacl"]),
    (Operands::Deletes, &["rm", "rmdir", "shred", "unlink"]),
    (Operands::Copies, &["cp", "install", "rsync", "scp"]),
    (Operands::Moves, &["mv"]),
    (Operands::Links, &["link", "ln"]),
    (Operands::ReadsThenWrites, &["uniq"]),
    (Operands::Directory, &["cd", "chdir", "pushd"]),
];

/// What the operands of a program are.
#[must_use]
pub fn operands(program: &str) -> Operands {
    let row = OPERANDS.iter().find(|(_, programs)| programs.binary_search(&program).is_ok());
    row.map_or(Operands::Unknown, |(operands, _)| *operands)
}
