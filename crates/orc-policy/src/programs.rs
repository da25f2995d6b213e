//! What is known about programs: what their words mean, which files they touch, what they start, and which of them only
//! look. The lists are shown by `orchestrator permissions lint --programs`; what is in none is unknown, and an unknown
//! program may read every file that it is told of.

pub mod flags;
pub mod looks;
pub mod wrappers;

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

/// What the operands of a program are.
#[must_use]
pub fn operands(program: &str) -> Operands {
    match program {
        "echo" | "printf" | "true" | "false" | ":" | "exit" | "return" | "break" | "continue" | "shift" | "sleep"
        | "kill" | "pkill" | "killall" | "wait" | "seq" | "expr" | "date" | "whoami" | "id" | "groups" | "uname"
        | "hostname" | "arch" | "nproc" | "uptime" | "which" | "type" | "basename" | "dirname" | "printenv" | "tr"
        | "export" | "unset" | "set" | "local" | "declare" | "readonly" | "umask" | "ulimit" | "hash" | "alias"
        | "unalias" | "read" | "jobs" | "fg" | "bg" | "pwd" | "tput" | "clear" | "history" | "yes" | "man" => {
            Operands::Text
        }
        "cat" | "head" | "tail" | "less" | "more" | "wc" | "sort" | "cut" | "nl" | "tac" | "rev" | "fold"
        | "column" | "paste" | "join" | "comm" | "diff" | "cmp" | "od" | "xxd" | "hexdump" | "strings" | "base64"
        | "base32" | "md5sum" | "sha1sum" | "sha224sum" | "sha256sum" | "sha384sum" | "sha512sum" | "cksum"
        | "b2sum" | "file" | "stat" | "ls" | "dir" | "vdir" | "tree" | "du" | "df" | "find" | "realpath"
        | "readlink" | "test" | "[" | "[[" | "source" | "." | "zcat" | "bzcat" | "xzcat" | "gunzip" | "bat"
        | "batcat" | "view" => Operands::Reads,
        "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" | "sed" | "awk" | "gawk" | "mawk" | "jq" | "yq" | "fd"
        | "fdfind" | "zgrep" => Operands::PatternThenReads,
        "touch" | "mkdir" | "tee" | "truncate" | "mkfifo" | "mknod" | "mktemp" => Operands::Writes,
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" => Operands::ModeThenWrites,
        "rm" | "rmdir" | "unlink" | "shred" => Operands::Deletes,
        "cp" | "install" | "rsync" | "scp" => Operands::Copies,
        "mv" => Operands::Moves,
        "ln" | "link" => Operands::Links,
        "uniq" => Operands::ReadsThenWrites,
        "cd" | "pushd" | "chdir" => Operands::Directory,
        _ => Operands::Unknown,
    }
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
#[must_use]
pub fn is_network(program: &str) -> bool {
    matches!(
        program,
        "curl"
            | "wget"
            | "http"
            | "https"
            | "xh"
            | "aria2c"
            | "nc"
            | "ncat"
            | "netcat"
            | "telnet"
            | "ftp"
            | "sftp"
            | "ssh"
            | "scp"
            | "rsync"
            | "ping"
            | "dig"
            | "nslookup"
            | "host"
            | "socat"
            | "gh"
            | "aws"
            | "gcloud"
            | "az"
            | "kubectl"
            | "helm"
    )
}

/// Programs that run text that they are given as a program of their own.
#[must_use]
pub fn is_interpreter(program: &str) -> bool {
    let plain = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    is_shell(program)
        || matches!(
            plain,
            "python"
                | "pypy"
                | "node"
                | "nodejs"
                | "deno"
                | "bun"
                | "ruby"
                | "perl"
                | "php"
                | "lua"
                | "osascript"
                | "Rscript"
                | "julia"
                | "tclsh"
                | "expect"
                | "groovy"
                | "scala"
                | "elixir"
                | "erl"
                | "ghci"
                | "irb"
                | "pwsh"
                | "powershell"
        )
}

/// Shells.
#[must_use]
pub fn is_shell(program: &str) -> bool {
    matches!(program, "sh" | "bash" | "dash" | "zsh" | "ksh" | "mksh" | "ash" | "fish" | "rbash" | "csh" | "tcsh")
}

/// Variables that change nothing but how a program speaks or what it builds: a grant passes them.
#[must_use]
pub fn is_harmless(variable: &str) -> bool {
    variable.starts_with("LC_")
        || matches!(
            variable,
            "CI" | "NODE_ENV"
                | "RAILS_ENV"
                | "RACK_ENV"
                | "APP_ENV"
                | "FLASK_ENV"
                | "DJANGO_ENV"
                | "MIX_ENV"
                | "GO_ENV"
                | "DEBUG"
                | "VERBOSE"
                | "LOG_LEVEL"
                | "RUST_LOG"
                | "RUST_BACKTRACE"
                | "RUST_LIB_BACKTRACE"
                | "CARGO_TERM_COLOR"
                | "CARGO_INCREMENTAL"
                | "NO_COLOR"
                | "FORCE_COLOR"
                | "CLICOLOR"
                | "CLICOLOR_FORCE"
                | "TERM"
                | "COLUMNS"
                | "LINES"
                | "TZ"
                | "LANG"
                | "LANGUAGE"
                | "PYTHONUNBUFFERED"
                | "PYTHONDONTWRITEBYTECODE"
                | "GOOS"
                | "GOARCH"
                | "CGO_ENABLED"
                | "GO111MODULE"
        )
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
