//! What is known about programs: what their words mean, which files they touch, what they start, and which of them only
//! look. The lists are shown by `orchestrator permissions lint --programs`; what is in none is unknown, and an unknown
//! program may read every file that it is told of.

pub mod flags;
pub mod looks;
mod operands;
pub mod wrappers;

pub use operands::{OPERANDS, operands};

/// Directories whose programs are what their names say.
pub const TRUSTED: [&str; 6] = ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// Letters that nobody sees, or that turn the order of what is read: a name with one is no name that a rule can mean.
#[must_use]
pub fn is_odd(name: &str) -> bool {
    name.is_empty()
        || name.chars().any(|letter| {
            letter.is_control()
                || letter.is_whitespace()
                || matches!(letter, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
                    | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
                    | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
        })
}

/// What the operands of a program are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// Text: no file.
    Text,
    /// Files that it reads.
    Reads,
    /// The first is a pattern or a script, the others are files that it reads.
    PatternThenReads,
    /// Files that it makes or changes.
    Writes,
    /// The first is a mode or an owner, the others are files that it changes.
    ModeThenWrites,
    /// Files that it removes.
    Deletes,
    /// The last is written, the others are read.
    Copies,
    /// The last is written, the others are removed.
    Moves,
    /// The first is where a link leads, the last is the link.
    Links,
    /// The first is read, the second is written.
    ReadsThenWrites,
    /// A directory to go to.
    Directory,
    /// Anything: files that it reads at least.
    Unknown,
}

/// Programs that read every file below a directory that they are given.
#[must_use]
pub fn reads_below(program: &str, has: impl Fn(&[&str]) -> bool) -> bool {
    match program {
        "rg" | "ag" | "ack" | "rsync" | "tar" | "zip" => true,
        "grep" | "egrep" | "fgrep" | "zgrep" => has(&["-r", "-R", "--recursive", "--dereference-recursive"]),
        "cp" | "scp" | "diff" => has(&["-r", "-R", "-a", "--recursive", "--archive"]),
        _ => false,
    }
}

/// Programs whose operands are addresses.
pub const NETWORK: [&str; 26] = [
    "aria2c", "aws", "az", "curl", "dig", "ftp", "gcloud", "gh", "helm", "host", "http", "https", "kubectl", "nc",
    "ncat", "netcat", "nslookup", "ping", "rsync", "scp", "sftp", "socat", "ssh", "telnet", "wget", "xh",
];

/// Whether it is one of [`NETWORK`].
#[must_use]
pub fn is_network(program: &str) -> bool {
    NETWORK.binary_search(&program).is_ok()
}

/// Programs that run text that they are given as a program of their own.
pub const INTERPRETERS: [&str; 23] = [
    "Rscript",
    "bun",
    "deno",
    "elixir",
    "erl",
    "expect",
    "ghci",
    "groovy",
    "irb",
    "julia",
    "lua",
    "node",
    "nodejs",
    "osascript",
    "perl",
    "php",
    "powershell",
    "pwsh",
    "pypy",
    "python",
    "ruby",
    "scala",
    "tclsh",
];

/// Whether it is a shell, or one of [`INTERPRETERS`] in any version.
#[must_use]
pub fn is_interpreter(program: &str) -> bool {
    let plain = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    is_shell(program) || INTERPRETERS.binary_search(&plain).is_ok()
}

/// Programs whose words are no commands, though they may have the names of some: `git rm`, `docker kill`.
pub const SETTLED: [&str; 79] = [
    "ansible",
    "ansible-playbook",
    "apk",
    "apt",
    "apt-cache",
    "apt-get",
    "black",
    "brew",
    "buf",
    "bun",
    "bundle",
    "cargo",
    "cc",
    "clang",
    "cmake",
    "composer",
    "conda",
    "ctest",
    "deno",
    "dnf",
    "docker",
    "docker-compose",
    "dotnet",
    "dpkg",
    "eslint",
    "ffmpeg",
    "g++",
    "gcc",
    "gem",
    "git",
    "go",
    "gofmt",
    "gradle",
    "helm",
    "hg",
    "jest",
    "jj",
    "journalctl",
    "just",
    "kubectl",
    "ld",
    "make",
    "mix",
    "mvn",
    "mypy",
    "mysql",
    "ninja",
    "npm",
    "openssl",
    "pacman",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "poetry",
    "pre-commit",
    "prettier",
    "psql",
    "pytest",
    "redis-cli",
    "ruff",
    "rustc",
    "rustfmt",
    "rustup",
    "service",
    "shellcheck",
    "sqlite3",
    "svn",
    "systemctl",
    "tar",
    "terraform",
    "tofu",
    "tox",
    "tsc",
    "uv",
    "vitest",
    "yarn",
    "yum",
    "zip",
];

/// Whether it is known what the words of a program are. Those of any other may be a command that it starts.
#[must_use]
pub fn is_settled(program: &str) -> bool {
    SETTLED.binary_search(&program).is_ok() || is_program(program)
}

/// Whether a word is the name of a program that something is known about.
#[must_use]
pub fn is_program(word: &str) -> bool {
    operands(word) != Operands::Unknown
        || is_interpreter(word)
        || is_network(word)
        || wrappers::WRAPPERS.iter().any(|wrapper| wrapper.words[0] == word)
}

/// Shells.
pub const SHELLS: [&str; 11] = ["ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"];

/// Whether it is one of [`SHELLS`].
#[must_use]
pub fn is_shell(program: &str) -> bool {
    SHELLS.binary_search(&program).is_ok()
}

/// Variables that change nothing but how a program speaks or what it builds, and all that begin with `LC_`: a grant passes
/// them.
pub const HARMLESS: [&str; 33] = [
    "APP_ENV",
    "CARGO_INCREMENTAL",
    "CARGO_TERM_COLOR",
    "CGO_ENABLED",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBUG",
    "DJANGO_ENV",
    "FLASK_ENV",
    "FORCE_COLOR",
    "GO111MODULE",
    "GOARCH",
    "GOOS",
    "GO_ENV",
    "LANG",
    "LANGUAGE",
    "LINES",
    "LOG_LEVEL",
    "MIX_ENV",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RACK_ENV",
    "RAILS_ENV",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
    "VERBOSE",
];

/// Whether it is one of [`HARMLESS`].
#[must_use]
pub fn is_harmless(variable: &str) -> bool {
    variable.starts_with("LC_") || HARMLESS.binary_search(&variable).is_ok()
}

/// Variables of a shell that only name something to say later: set alone, they change nothing that runs.
#[must_use]
pub fn is_own(variable: &str) -> bool {
    let start = [
        "LD_", "DYLD_", "GIT_", "BASH_", "NPM_", "npm_", "PYTHON", "PERL", "RUBY", "NODE_", "JAVA_", "SSH_", "AWS_",
        "DOCKER_", "KUBE",
    ];
    let name = [
        "PATH",
        "HOME",
        "IFS",
        "ENV",
        "SHELL",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "BROWSER",
        "CDPATH",
        "PS4",
        "PROMPT_COMMAND",
        "SHELLOPTS",
        "TMPDIR",
        "USER",
        "LOGNAME",
        "PWD",
        "OLDPWD",
        "OPTIND",
        "CC",
        "CXX",
        "LDFLAGS",
        "CFLAGS",
        "RUSTC_WRAPPER",
        "RUSTFLAGS",
        "MAKEFLAGS",
    ];
    !start.iter().any(|start| variable.starts_with(start)) && !name.contains(&variable)
}

/// Groups of words that mean the same flag of a program.
#[must_use]
pub fn same_flags(program: &str) -> &'static [&'static [&'static str]] {
    match program {
        "rm" => &[&["-r", "-R", "--recursive"], &["-f", "--force"], &["-d", "--dir"], &["-i", "--interactive"]],
        "cp" => &[&["-r", "-R", "--recursive"], &["-f", "--force"], &["-a", "--archive"]],
        "mv" | "ln" => &[&["-f", "--force"], &["-s", "--symbolic"]],
        "chmod" | "chown" | "chgrp" => &[&["-R", "--recursive"]],
        "git" => &[
            &["-f", "--force"],
            &["-d", "--delete"],
            &["-D", "--delete --force"],
            &["-n", "--no-verify"],
            &["-a", "--all"],
            &["-m", "--message"],
        ],
        "curl" => &[
            &["-X", "--request"],
            &["-o", "--output"],
            &["-d", "--data"],
            &["-F", "--form"],
            &["-T", "--upload-file"],
            &["-H", "--header"],
        ],
        "docker" | "podman" => &[&["-v", "--volume"], &["-f", "--force"], &["-e", "--env"]],
        "kubectl" => &[&["-n", "--namespace"], &["-f", "--filename"]],
        "npm" | "pnpm" | "yarn" => &[&["-g", "--global"], &["-f", "--force"]],
        "sed" => &[&["-i", "--in-place"], &["-n", "--quiet", "--silent"]],
        "tar" => &[&["-x", "--extract", "--get"], &["-c", "--create"], &["-f", "--file"]],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_are_searched_are_in_order() {
        let ordered = |list: &[&str]| list.is_sorted_by(|before, after| before < after);
        for (operands, list) in OPERANDS {
            assert!(ordered(list), "{operands:?}");
        }
        assert!(ordered(&NETWORK) && ordered(&INTERPRETERS) && ordered(&SHELLS) && ordered(&HARMLESS));
        assert!(ordered(&SETTLED));
    }
}
