//! Calls, rules and policies, as they come.

use orc_policy::policy::{Boxed, Mode, Policy, Rules};
use orc_policy::verdict::{Source, Verdict};
use orc_policy::view::Call;
use proptest::prelude::*;
use serde_json::json;

/// What a box may hold.
pub(crate) const BOXES: &[Boxed] = &[Boxed::Nothing, Boxed::Commands, Boxed::Files];

/// Pieces of a shell's text, whole words and halves of forms.
const PIECES: &[&str] = &[
    "ls",
    "rm",
    "git",
    "push",
    "cat",
    "echo",
    "printf",
    "cd",
    "find",
    "npm",
    "test",
    "curl",
    "python3",
    "bash",
    "sh",
    "-c",
    "-rf",
    "-exec",
    "{}",
    "\\;",
    "+",
    "--",
    "-",
    "--force",
    "-n1",
    "build",
    "src/a.rs",
    ".env",
    "secrets/key",
    "~/.ssh/id",
    "/etc/passwd",
    "../x",
    "./run.sh",
    "//etc//x",
    "link/y",
    "*",
    "?",
    "[a]",
    "[",
    "]",
    "[!b]*",
    "{a,b}",
    "{1..3}",
    "{",
    "}",
    "(",
    ")",
    "((",
    "))",
    "[[",
    "]]",
    "&&",
    "||",
    "|",
    "|&",
    ";",
    ";;",
    ";&",
    "&",
    "\n",
    "\\\n",
    "\\",
    "#",
    "!",
    "'",
    "\"",
    "`",
    "$(",
    "$((",
    "$'",
    "$\"",
    "${x}",
    "${x:-",
    "${x@P}",
    "$x",
    "$HOME",
    "$",
    "$1",
    "$@",
    "x=1",
    "PATH=/tmp",
    "x=(",
    "x+=",
    "<",
    ">",
    ">>",
    ">|",
    "<>",
    "&>",
    "2>&1",
    "<&3",
    "<(",
    ">(",
    "<<EOF",
    "<<-'E'",
    "EOF",
    "<<<",
    "if",
    "then",
    "elif",
    "else",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "while",
    "until",
    "case",
    "esac",
    "select",
    "function",
    "f()",
    "time",
    "coproc",
    "sudo",
    "timeout",
];

/// More words that start others.
const STARTS: &[&str] = &[
    "sudo -u x",
    "timeout 5",
    "nice",
    "env A=b",
    "env -S",
    "xargs",
    "xargs -I{}",
    "eval",
    "exec",
    "command",
    "builtin",
    "nohup",
    "sh -c",
    "bash -lc",
    "find . -exec",
    "git -c alias.x='!",
    "npx",
    "docker exec c",
    "ssh h",
    "trap",
    "watch",
    "parallel",
    "busybox",
    "su -c",
];

/// Letters that are easily forgotten.
const LETTERS: &[char] = &[
    ' ',
    '\t',
    '\n',
    '\r',
    '\0',
    '\u{200b}',
    '\u{202e}',
    '\u{e9}',
    '\u{301}',
    '\u{130}',
    '\u{1f600}',
    '\u{7f}',
    '\u{1e}',
    '\u{1f}',
    'a',
    'Z',
    '0',
    '-',
    '.',
    '/',
    '~',
    '=',
    ':',
    ',',
    '%',
    '@',
];

/// A text that looks like one for a shell.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        12 => prop::sample::select(PIECES).prop_map(str::to_owned),
        3 => prop::sample::select(STARTS).prop_map(str::to_owned),
        2 => prop::collection::vec(prop::sample::select(LETTERS), 1..4).prop_map(String::from_iter),
        1 => any::<String>(),
    ];
    prop::collection::vec((piece, any::<bool>()), 0..24).prop_map(|pieces| {
        pieces.into_iter().fold(String::new(), |text, (piece, apart)| text + &piece + if apart { " " } else { "" })
    })
}

pub(crate) fn command() -> impl Strategy<Value = Call> {
    text().prop_map(|text| Call::new("Bash", json!({ "command": text })))
}

/// A command that most rules below are about.
fn plain() -> impl Strategy<Value = String> {
    let commands = prop::sample::select(&[
        "git status",
        "git push origin main",
        "rm -rf build",
        "npm test",
        "cat .env",
        "cat src/a.rs",
        "ls -la",
        "echo hi > out.txt",
        "find . -name x",
        "cp a b",
        "sed -i s/a/b/ f",
        "curl https://docs.rs",
        "python3 x.py",
        "cd src",
        "touch new",
        "mv a ../b",
        "tee .git/config",
        "$CMD x",
        "eval \"$X\"",
        "rm -rf /",
        "true",
    ]);
    let between = prop::sample::select(&[" && ", "; ", " | ", " || ", "\n", " & "]);
    prop::collection::vec((commands, between), 1..4).prop_map(|parts| {
        let mut text = String::new();
        for (at, (command, between)) in parts.iter().enumerate() {
            text.push_str(if at > 0 { between } else { "" });
            text.push_str(command);
        }
        text
    })
}

/// A call of any tool.
pub(crate) fn call() -> impl Strategy<Value = Call> {
    let paths = prop::sample::select(&[
        "src/a.rs",
        ".env",
        "secrets/key",
        "/srv/repo/a",
        "link/passwd",
        "alias/key",
        "/mnt/repo/.env",
        "~/.ssh/id",
        "../x",
        "/etc/shadow",
        ".git/config",
        "/srv/main/a",
        "s\u{e9}cret",
        "",
        "/",
        ".",
    ]);
    let tools = prop::sample::select(&[
        "Read",
        "Write",
        "Edit",
        "Glob",
        "Grep",
        "NotebookEdit",
        "FileMention",
        "mcp__fs__read",
    ]);
    let hosts = prop::sample::select(&[
        "https://docs.rs/x",
        "http://EVIL.example.",
        "https://a.example.com@b.test/",
        "x",
        "",
        "http://[::1]/",
        "https://xn--bcher-kva.example",
    ]);
    prop_oneof![
        6 => plain().prop_map(|text| Call::new("Bash", json!({ "command": text }))),
        3 => command(),
        4 => (tools, paths).prop_map(|(tool, path)| Call::new(tool, json!({ "file_path": path, "path": path, "pattern": "x" }))),
        1 => hosts.prop_map(|url| Call::new("WebFetch", json!({ "url": url }))),
        1 => prop::sample::select(&["reviewer", "deployer"]).prop_map(|name| Call::new("Task", json!({ "subagent_type": name }))),
        1 => plain().prop_map(|text| {
            Call::new("CodeMode", json!({ "inner": [{ "tool": "Bash", "command": text }, { "tool": "Read", "path": ".env" }] }))
        }),
        1 => prop::sample::select(&["TodoWrite", "mcp__git__push", "other", "Bash"]).prop_map(|tool| Call::new(tool, json!({ "n": 1 }))),
    ]
}

/// A rule, mostly one that can be read.
pub(crate) fn rule() -> impl Strategy<Value = String> {
    let known = prop::sample::select(&[
        "*",
        "Bash",
        "Bash(*)",
        "Bash(git *)",
        "Bash(git push *)",
        "Bash(git push --force*)",
        "Bash(rm *)",
        "Bash(rm -rf /*)",
        "Bash(npm test:*)",
        "Bash(cat *)",
        "Bash(ls)",
        "Bash(echo *)",
        "Bash(find *)",
        "Bash(find * -delete)",
        "Bash(* x)",
        "Bash(curl * | sh)",
        "Bash(sudo *)",
        "Bash(python3 *)",
        "Bash(cd *)",
        "Bash(-c)",
        "Read",
        "Edit",
        "Write",
        "Read(.env)",
        "Read(**/.env*)",
        "Read(./secrets/**)",
        "Read(//etc/**)",
        "Read(~/.ssh/**)",
        "Edit(src/**)",
        "Edit(/src/**)",
        "Edit(//**)",
        "Read(./**)",
        "Write(out.txt)",
        "ExternalDirectory(*)",
        "Glob",
        "Grep(src)",
        "WebFetch",
        "WebFetch(domain:docs.rs)",
        "WebFetch(domain:*.example.com)",
        "WebFetch(domain:*)",
        "Agent",
        "Agent(reviewer)",
        "Agent(name:x)",
        "Effect(gitPush)",
        "Effect(fileDelete)",
        "Effect(networkEgress)",
        "Effect(processSpawn)",
        "mcp__git",
        "mcp__*__push",
        "mcp__git__*",
        "CodeMode",
        "Bash(run_in_background:true)",
        "TodoWrite",
    ]);
    prop_oneof![
        8 => known.prop_map(str::to_owned),
        1 => text().prop_map(|text| format!("Bash({text})")),
        1 => text().prop_map(|text| format!("Read({text})")),
    ]
}

pub(crate) fn modes() -> impl Strategy<Value = Mode> {
    prop::sample::select(&Mode::ALL)
}

pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    let list = || prop::collection::vec(rule(), 0..4);
    let source = prop::sample::select(&Source::ALL);
    (list(), list(), list(), source, modes(), prop::sample::select(BOXES), any::<bool>()).prop_map(
        |(deny, ask, allow, source, mode, boxed, trusted)| {
            let mut rules = Rules::default();
            for (verdict, texts) in [(Verdict::Deny, deny), (Verdict::Ask, ask), (Verdict::Allow, allow)] {
                rules.add(verdict, &texts, source, "/srv/repo");
            }
            Policy { rules, mode, boxed, trusted, ..Policy::default() }
        },
    )
}
