//! Programs that start another one: where it stands in their words.

/// Where the inner command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// After the flags and so many words.
    After(usize),
    /// All that is left is text that a shell reads, after so many words.
    Text(usize),
    /// The word behind one of the flags is text that a shell reads.
    FlagText,
    /// Behind one of the flags, up to `;` or `+`, or to the end.
    FlagWords,
    /// All words are text that a shell reads.
    AllText,
}

/// One that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// Words that lead to it: the program, and its subcommand where it has one.
    pub words: &'static [&'static str],
    /// Where the inner command stands.
    pub inner: Inner,
    /// Its flags that take the next word; for [`Inner::FlagText`] and [`Inner::FlagWords`] those that lead inside.
    pub flags: &'static [&'static str],
    /// It adds nothing to what the inner command may do: a grant of that is enough.
    pub harmless: bool,
}

const fn wrapper(
    words: &'static [&'static str],
    inner: Inner,
    flags: &'static [&'static str],
    harmless: bool,
) -> Wrapper {
    Wrapper { words, inner, flags, harmless }
}

const DOCKER: &[&str] = &[
    "-e",
    "--env",
    "-u",
    "--user",
    "-w",
    "--workdir",
    "-v",
    "--volume",
    "-p",
    "--publish",
    "--name",
    "--network",
    "--entrypoint",
    "--mount",
    "-m",
    "--env-file",
    "--platform",
];
const NIX: &[&str] = &["--run", "--command", "-c"];
const SHELL_TEXT: &[&str] = &["-c"];

/// All that are known, the longer words first.
pub const WRAPPERS: [Wrapper; 92] = [
    wrapper(&["timeout"], Inner::After(1), &["-s", "--signal", "-k", "--kill-after"], true),
    wrapper(&["nice"], Inner::After(0), &["-n", "--adjustment"], true),
    wrapper(&["nohup"], Inner::After(0), &[], true),
    wrapper(&["time"], Inner::After(0), &["-f", "-o"], true),
    wrapper(&["stdbuf"], Inner::After(0), &["-i", "-o", "-e", "--input", "--output", "--error"], true),
    wrapper(&["command"], Inner::After(0), &[], true),
    wrapper(&["builtin"], Inner::After(0), &[], true),
    wrapper(&["noglob"], Inner::After(0), &[], true),
    wrapper(&["exec"], Inner::After(0), &["-a"], true),
    wrapper(
        &["xargs"],
        Inner::After(0),
        &[
            "-I",
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
        true,
    ),
    wrapper(&["env"], Inner::After(0), &["-u", "--unset", "-C", "--chdir", "-S", "--split-string"], true),
    wrapper(
        &["sudo"],
        Inner::After(0),
        &["-u", "--user", "-g", "--group", "-h", "--host", "-p", "--prompt", "-C", "-r", "-t", "-T", "-D", "-R", "-U"],
        false,
    ),
    wrapper(&["doas"], Inner::After(0), &["-u", "-C"], false),
    wrapper(&["run0"], Inner::After(0), &["-u", "--user"], false),
    wrapper(&["pkexec"], Inner::After(0), &["--user"], false),
    wrapper(&["setsid"], Inner::After(0), &[], false),
    wrapper(&["ionice"], Inner::After(0), &["-c", "-n", "--class", "--classdata"], false),
    wrapper(&["chrt"], Inner::After(1), &["-T", "-P", "-D"], false),
    wrapper(&["taskset"], Inner::After(1), &[], false),
    wrapper(&["numactl"], Inner::After(0), &["-m", "-N", "-C"], false),
    wrapper(&["flock"], Inner::After(1), &["-w", "-E", "--timeout", "--wait"], false),
    wrapper(&["unshare"], Inner::After(0), &["-S", "-G", "-R", "-w"], false),
    wrapper(&["nsenter"], Inner::After(0), &["-t", "--target", "-S", "-G"], false),
    wrapper(&["chroot"], Inner::After(1), &[], false),
    wrapper(&["bwrap"], Inner::After(0), &[], false),
    wrapper(&["firejail"], Inner::After(0), &[], false),
    wrapper(&["proot"], Inner::After(0), &["-r", "-b", "-w"], false),
    wrapper(&["fakeroot"], Inner::After(0), &["-s", "-i", "-l"], false),
    wrapper(&["strace"], Inner::After(0), &["-o", "-e", "-p", "-s", "-u", "-E"], false),
    wrapper(&["ltrace"], Inner::After(0), &["-o", "-e", "-p", "-s", "-u"], false),
    wrapper(&["gdb"], Inner::After(0), &["-x", "-ex", "-p"], false),
    wrapper(&["valgrind"], Inner::After(0), &[], false),
    wrapper(&["perf", "stat"], Inner::After(0), &["-e", "-o", "-r"], false),
    wrapper(&["perf", "record"], Inner::After(0), &["-e", "-o", "-F"], false),
    wrapper(&["hyperfine"], Inner::AllText, &["-w", "-r", "-p", "-c", "-n", "-L"], false),
    wrapper(&["watch"], Inner::AllText, &["-n", "--interval"], false),
    wrapper(&["entr"], Inner::After(0), &[], false),
    wrapper(&["parallel"], Inner::AllText, &["-j", "--jobs", "-a", "-I"], false),
    wrapper(&["busybox"], Inner::After(0), &[], false),
    wrapper(&["toybox"], Inner::After(0), &[], false),
    wrapper(&["script"], Inner::FlagText, &["-c", "--command"], false),
    wrapper(&["su"], Inner::FlagText, &["-c", "--command", "--session-command"], false),
    wrapper(&["runuser"], Inner::FlagText, &["-c", "--command"], false),
    wrapper(&["sg"], Inner::FlagText, &["-c"], false),
    wrapper(&["eval"], Inner::AllText, &[], true),
    wrapper(&["trap"], Inner::AllText, &[], false),
    wrapper(&["alias"], Inner::AllText, &[], false),
    wrapper(&["find"], Inner::FlagWords, &["-exec", "-execdir", "-ok", "-okdir"], false),
    wrapper(&["fd"], Inner::FlagWords, &["-x", "-X", "--exec", "--exec-batch"], false),
    wrapper(&["fdfind"], Inner::FlagWords, &["-x", "-X", "--exec", "--exec-batch"], false),
    wrapper(
        &["ssh"],
        Inner::Text(1),
        &[
            "-i", "-p", "-l", "-o", "-F", "-J", "-L", "-R", "-D", "-W", "-b", "-c", "-E", "-e", "-I", "-m", "-O", "-Q",
            "-S", "-w",
        ],
        false,
    ),
    wrapper(&["tmux", "new-session"], Inner::Text(0), &["-s", "-n", "-c", "-t"], false),
    wrapper(&["tmux", "new-window"], Inner::Text(0), &["-n", "-c", "-t"], false),
    wrapper(&["tmux", "new"], Inner::Text(0), &["-s", "-n", "-c", "-t"], false),
    wrapper(&["screen"], Inner::After(0), &["-S", "-c", "-t"], false),
    wrapper(&["docker", "exec"], Inner::After(1), DOCKER, false),
    wrapper(&["docker", "run"], Inner::After(1), DOCKER, false),
    wrapper(&["docker", "compose", "exec"], Inner::After(1), DOCKER, false),
    wrapper(&["docker", "compose", "run"], Inner::After(1), DOCKER, false),
    wrapper(&["docker-compose", "exec"], Inner::After(1), DOCKER, false),
    wrapper(&["docker-compose", "run"], Inner::After(1), DOCKER, false),
    wrapper(&["podman", "exec"], Inner::After(1), DOCKER, false),
    wrapper(&["podman", "run"], Inner::After(1), DOCKER, false),
    wrapper(&["kubectl", "exec"], Inner::After(1), &["-n", "--namespace", "-c", "--container", "--context"], false),
    wrapper(&["npx"], Inner::After(0), &["-p", "--package", "-w"], false),
    wrapper(&["bunx"], Inner::After(0), &[], false),
    wrapper(&["uvx"], Inner::After(0), &["--from", "--with", "-p"], false),
    wrapper(&["pipx", "run"], Inner::After(0), &["--spec"], false),
    wrapper(&["npm", "exec"], Inner::After(0), &["-p", "--package"], false),
    wrapper(&["npm", "x"], Inner::After(0), &["-p", "--package"], false),
    wrapper(&["pnpm", "exec"], Inner::After(0), &[], false),
    wrapper(&["pnpm", "dlx"], Inner::After(0), &["--package"], false),
    wrapper(&["yarn", "exec"], Inner::After(0), &[], false),
    wrapper(&["yarn", "dlx"], Inner::After(0), &["-p", "--package"], false),
    wrapper(&["uv", "run"], Inner::After(0), &["--with", "--python", "-p", "--project", "--directory"], false),
    wrapper(&["poetry", "run"], Inner::After(0), &[], false),
    wrapper(&["pipenv", "run"], Inner::After(0), &[], false),
    wrapper(&["rye", "run"], Inner::After(0), &[], false),
    wrapper(&["hatch", "run"], Inner::After(0), &[], false),
    wrapper(&["bundle", "exec"], Inner::After(0), &[], false),
    wrapper(&["rbenv", "exec"], Inner::After(0), &[], false),
    wrapper(&["devbox", "run"], Inner::After(0), &["-c", "-e"], false),
    wrapper(&["mise", "exec"], Inner::After(0), &[], false),
    wrapper(&["mise", "x"], Inner::After(0), &[], false),
    wrapper(&["asdf", "exec"], Inner::After(0), &[], false),
    wrapper(&["direnv", "exec"], Inner::After(1), &[], false),
    wrapper(&["nix-shell"], Inner::FlagText, NIX, false),
    wrapper(&["nix", "develop"], Inner::FlagWords, NIX, false),
    wrapper(&["nix", "shell"], Inner::FlagWords, NIX, false),
    wrapper(&["git", "submodule", "foreach"], Inner::AllText, &[], false),
    wrapper(&["git", "bisect", "run"], Inner::After(0), &[], false),
    wrapper(&["git", "rebase"], Inner::FlagText, &["-x", "--exec"], false),
];

/// `sh -c TEXT` and its relatives; the shell's own flags take no words.
pub const SHELL: Wrapper = wrapper(&["sh"], Inner::FlagText, SHELL_TEXT, true);

/// Interpreters with `-c` or `-e`: their text is no shell's, but may call one.
#[must_use]
pub fn inline_flags(program: &str) -> &'static [&'static str] {
    let plain = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    match plain {
        "python" | "pypy" => &["-c"],
        "node" | "nodejs" | "bun" => &["-e", "--eval", "-p", "--print"],
        "deno" => &["eval"],
        "ruby" | "perl" | "lua" | "Rscript" | "julia" | "osascript" => &["-e", "-E"],
        "php" => &["-r"],
        _ => &[],
    }
}
