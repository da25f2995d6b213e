//! Flags: which of them take a word of their own, and which turn a program into another one.

/// Flags of programs that take the next word, before the first operand where there are subcommands.
const WITH_VALUE: &[(&[&str], &[&str])] = &[
    (
        &["git"],
        &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source"],
    ),
    (&["docker", "podman"], &["-H", "--host", "--context", "-c", "-l", "--log-level", "--config"]),
    (
        &["kubectl", "helm"],
        &["-n", "--namespace", "--context", "--kubeconfig", "-s", "--server", "--cluster", "--user", "--kube-context"],
    ),
    (&["npm"], &["--prefix", "-C", "-w", "--workspace", "--userconfig", "--registry", "--loglevel"]),
    (&["pnpm"], &["-C", "--dir", "--filter", "-F"]),
    (&["yarn"], &["--cwd"]),
    (&["gh"], &["-R", "--repo", "--hostname"]),
    (&["cargo"], &["-C", "--config", "-Z", "--color"]),
    (&["aws"], &["--profile", "--region", "--output", "--endpoint-url", "--query"]),
    (&["make", "gmake"], &["-C", "-f", "-I", "-o", "-W", "--directory", "--file", "--makefile"]),
    (&["head", "tail"], &["-n", "-c", "--lines", "--bytes"]),
    (
        &["grep", "egrep", "fgrep", "rg"],
        &[
            "-A",
            "-B",
            "-C",
            "-m",
            "-e",
            "-f",
            "--regexp",
            "--file",
            "--max-count",
            "--include",
            "--exclude",
            "--exclude-dir",
            "-g",
            "--glob",
            "-t",
            "--type",
            "-T",
            "--type-not",
            "--color",
            "--pre",
        ],
    ),
    (&["sed"], &["-e", "-f", "--expression", "--file", "-l"]),
    (&["awk", "gawk", "mawk"], &["-F", "-v", "-f", "-i"]),
    (&["jq"], &["--arg", "--argjson", "-f", "--from-file", "--indent"]),
    (
        &["find"],
        &[
            "-name",
            "-iname",
            "-path",
            "-ipath",
            "-wholename",
            "-regex",
            "-iregex",
            "-type",
            "-maxdepth",
            "-mindepth",
            "-size",
            "-mtime",
            "-mmin",
            "-user",
            "-group",
            "-perm",
            "-newer",
            "-printf",
            "-empty",
        ],
    ),
    (&["sort"], &["-k", "-t", "-S", "-T", "-o", "--output", "--key", "--field-separator"]),
    (&["cut"], &["-d", "-f", "-c", "-b", "--delimiter", "--fields"]),
    (
        &["curl"],
        &[
            "-X",
            "--request",
            "-H",
            "--header",
            "-d",
            "--data",
            "--data-raw",
            "--data-binary",
            "--data-urlencode",
            "-o",
            "--output",
            "-u",
            "--user",
            "-A",
            "-e",
            "-F",
            "--form",
            "-T",
            "--upload-file",
            "-K",
            "--config",
            "-b",
            "-c",
            "-m",
            "--max-time",
            "--connect-timeout",
            "-x",
            "--proxy",
            "-w",
            "--cacert",
            "--cert",
            "--key",
        ],
    ),
    (&["wget"], &["-O", "-o", "-P", "-i", "--post-file", "--post-data", "--header", "-U"]),
    (&["mkdir"], &["-m", "--mode"]),
    (&["touch"], &["-d", "-t", "-r", "--date", "--reference"]),
    (&["cp", "mv", "ln", "install"], &["-t", "--target-directory", "-S", "--suffix", "-m", "-o", "-g"]),
    (
        &["xargs"],
        &[
            "-I",
            "-i",
            "-n",
            "-P",
            "-L",
            "-d",
            "-a",
            "-s",
            "-E",
            "--max-args",
            "--max-procs",
            "--replace",
            "--delimiter",
            "--arg-file",
            "--max-lines",
            "--max-chars",
        ],
    ),
    (&["base64"], &["-w", "--wrap", "-i", "-o", "--input", "--output"]),
    (&["tree"], &["-L", "-P", "-I", "-o", "--filelimit"]),
    (&["date"], &["-d", "-s", "-r", "--date", "--set", "--reference", "-f"]),
    (&["truncate"], &["-s", "--size", "-r"]),
    (&["tar"], &["-f", "--file", "-C", "--directory", "-T", "-X", "-I", "--use-compress-program"]),
];

/// Flags of a program that take the next word.
#[must_use]
pub fn with_value(program: &str) -> &'static [&'static str] {
    WITH_VALUE.iter().find(|(programs, _)| programs.contains(&program)).map_or(&[], |(_, flags)| flags)
}

/// Flags of a program that are paths which it reads (`<`) or writes (`>`), as `<-f` or `>--output`.
#[must_use]
pub fn paths(program: &str) -> &'static [&'static str] {
    match program {
        "grep" | "egrep" | "fgrep" | "rg" => &["<-f", "<--file", "<--pre"],
        "sed" | "awk" | "gawk" | "mawk" | "jq" => &["<-f", "<--file", "<--from-file"],
        "sort" => &[">-o", ">--output"],
        "base64" => &[">-o", ">--output", "<-i", "<--input"],
        "tree" => &[">-o"],
        "curl" => &[
            ">-o",
            ">--output",
            "<-T",
            "<--upload-file",
            "<-K",
            "<--config",
            "<-b",
            ">-c",
            "<--cert",
            "<--key",
            "<--cacert",
        ],
        "wget" => &[">-O", ">-o", ">-P", "<-i", "<--post-file"],
        "find" => &[">-fprint", ">-fprint0", ">-fprintf", ">-fls", "<-newer"],
        "tar" => &["<-f", ">-f", "<--file", ">--file", ">-C", ">--directory", "<-T"],
        "xargs" => &["<-a", "<--arg-file"],
        "git" => &[">--output", "<-F", "<--file"],
        "touch" | "truncate" => &["<-r", "<--reference"],
        "cp" | "mv" | "ln" | "install" => &[">-t", ">--target-directory"],
        "dd" => &["<if", ">of"],
        _ => &[],
    }
}

/// Flags that make more of a program than its name says: they run, or write, something. A rule that grants the program
/// grants them only when it names them.
pub const TURNING: &[(&[&str], &[&str])] = &[
    (&["find"], &["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"]),
    (&["fd", "fdfind"], &["-x", "-X", "--exec", "--exec-batch"]),
    (&["rg"], &["--pre", "--hostname-bin", "--search-zip", "-z"]),
    (
        &["git"],
        &[
            "-c",
            "--config-env",
            "--exec-path",
            "--git-dir",
            "--work-tree",
            "--output",
            "--ext-diff",
            "--textconv",
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "-x",
            "--extcmd",
            "--open-files-in-pager",
            "-O",
            "--paginate",
            "-u",
            "--template",
        ],
    ),
    (&["sort"], &["-o", "--output", "--compress-program", "-T", "--temporary-directory"]),
    (
        &["tar"],
        &[
            "--to-command",
            "--checkpoint-action",
            "-I",
            "--use-compress-program",
            "--rsh-command",
            "--rmt-command",
            "-F",
            "--info-script",
            "--new-volume-script",
        ],
    ),
    (&["man"], &["-P", "--pager", "-H", "--html", "-C", "--config-file"]),
    (&["sed"], &["-i", "--in-place", "-f", "--file", "-s"]),
    (&["base64"], &["-o", "--output"]),
    (&["tree"], &["-o", "-R"]),
    (&["date"], &["-s", "--set", "-f"]),
    (&["yq"], &["-i", "--inplace"]),
    (&["awk", "gawk", "mawk"], &["-f", "-i", "-l", "--load", "--include", "--file"]),
    (&["ssh", "scp", "sftp"], &["-o", "-F", "-S", "-D", "-L", "-R", "-J"]),
    (&["rsync"], &["-e", "--rsh", "--rsync-path"]),
    (&["zip"], &["-T", "-TT", "--unzip-command"]),
    (&["less", "more"], &["-o", "-O", "--log-file"]),
    (&["file"], &["-C", "--compile"]),
    (&["curl"], &["-o", "--output", "-O", "--remote-name", "-K", "--config", "-T", "--upload-file"]),
];

/// The flags of [`TURNING`] that a program has.
#[must_use]
pub fn turning(program: &str) -> &'static [&'static str] {
    TURNING.iter().find(|(programs, _)| programs.contains(&program)).map_or(&[], |(_, flags)| flags)
}

/// The git flags that only mean something for some of its words: `-x` runs a program for `difftool`, and nothing for `log`.
#[must_use]
pub fn turns(program: &str, subcommand: Option<&str>, flag: &str) -> bool {
    if program != "git" {
        return true;
    }
    match flag {
        "-x" | "--extcmd" => subcommand == Some("difftool"),
        "-O" | "--open-files-in-pager" => subcommand == Some("grep"),
        "-u" => matches!(subcommand, Some("fetch" | "clone" | "ls-remote" | "pull" | "archive")),
        "--exec" => matches!(subcommand, Some("rebase" | "archive" | "ls-remote" | "fetch" | "push")),
        "--template" => matches!(subcommand, Some("init" | "clone")),
        // Before the word only: `git commit -c HEAD` takes a message.
        "-c" => subcommand.is_none(),
        _ => true,
    }
}

/// Programs whose long flags begin with one dash: their letters are no flags of their own.
#[must_use]
pub fn is_long_by_one(program: &str) -> bool {
    matches!(
        program,
        "find"
            | "java"
            | "javac"
            | "go"
            | "openssl"
            | "terraform"
            | "gcc"
            | "g++"
            | "clang"
            | "cc"
            | "ffmpeg"
            | "convert"
            | "xset"
            | "qemu-img"
    )
}
