//! What can be said of a rule without looking at others.

use super::Kind;
use crate::programs::wrappers::WRAPPERS;
use crate::programs::{INTERPRETERS, NETWORK, OPERANDS, is_interpreter, looks};
use crate::rule::{CommandPattern, Complaint, Pattern, Rule, TOOLS};
use crate::verdict::Verdict;
use crate::view::is_known;

type Found = Vec<(Kind, Complaint)>;

fn add(found: &mut Found, kind: Kind, what: impl Into<String>, hint: impl Into<String>) {
    found.push((kind, Complaint { what: what.into(), hint: hint.into() }));
}

pub(super) fn findings(rule: &Rule, says: Verdict) -> Found {
    let mut found = Vec::new();
    let (tool, inside) = rule.text.split_once('(').unwrap_or((&rule.text, ""));
    let (tool, inside) = (tool.trim(), inside.strip_suffix(')').unwrap_or(inside).trim());
    unknown(&mut found, tool);
    let allows = says == Verdict::Allow;
    match &rule.pattern {
        Pattern::Tool(_) if allows => whole_tool(&mut found, tool),
        Pattern::Command(pattern) if allows => command(&mut found, pattern, inside),
        Pattern::Reads(_) | Pattern::Edits(_) => path(&mut found, tool, inside),
        Pattern::Host(_) => host(&mut found, inside, allows),
        _ => {}
    }
    found
}

fn unknown(found: &mut Found, tool: &str) {
    if tool.starts_with("mcp__") || tool.contains('*') || TOOLS.contains(&tool) || is_known(tool) {
        return;
    }
    let hint = match orc_domain::suggest::closest(tool, TOOLS) {
        Some(near) => format!("did you mean `{near}`?"),
        None if tool.starts_with("mcp") => "tools of servers are called `mcp__SERVER__TOOL`".to_owned(),
        None => format!("known are {}, and tools of servers as `mcp__SERVER__TOOL`", TOOLS.join(", ")),
    };
    add(found, Kind::Unknown, format!("there is no tool `{tool}`"), hint);
}

fn whole_tool(found: &mut Found, tool: &str) {
    let what = match tool {
        "*" => "it lets every call of every tool pass",
        "Bash" => "it lets every command pass",
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => "it lets every file be changed, also outside of the copy",
        "Read" | "Glob" | "Grep" | "LS" => "it lets every file be read, also outside of the copy",
        "WebFetch" => "it lets every host be reached",
        _ => return,
    };
    let hint = match tool {
        "Bash" => "name the commands, like `Bash(npm test *)`",
        "WebFetch" => "name the hosts, like `WebFetch(domain:docs.rs)`",
        "*" => "name the tools",
        _ => "name the files, like `Edit(src/**)`",
    };
    add(found, Kind::Broad, what, hint);
}

fn command(found: &mut Found, pattern: &CommandPattern, inside: &str) {
    let words = pattern.words();
    let Some(first) = words.first() else {
        return whole_tool(found, "Bash");
    };
    if words.iter().any(|word| matches!(word.as_str(), "&&" | "||" | ";" | "|" | "&")) {
        let hint = "write a rule for each command: all parts of a call must be granted";
        return add(found, Kind::Never, "a grant is for one command, and this one has several", hint);
    }
    if words.iter().any(|word| matches!(word.as_str(), ">" | ">>" | "<" | "2>" | "&>")) {
        let hint = "grant the command without it, and for the file that it writes write `Edit(PATH)`";
        return add(found, Kind::Never, "a redirect is no word of a command", hint);
    }
    if starts_others(words) && pattern.is_open() {
        let (what, hint) = if is_interpreter(first) {
            let what = format!("`{first}` runs any program that it is given");
            (what, "grant what it should run, like `Bash(python3 scripts/*)`")
        } else {
            let what = format!("`{}` runs any command that it is given", known(words));
            (what, "a command that is started has to be granted itself: grant that, or both in one rule")
        };
        add(found, Kind::Broad, what, hint);
    }
    glued(found, words, inside);
    if let Some(at) = words.iter().position(|word| word == "*").filter(|at| *at > 0) {
        let before = words[..at].join(" ");
        add(
            found,
            Kind::Broad,
            format!("`*` stands for any number of words: `{before} ANYTHING {}` is covered", words[at + 1..].join(" ")),
            "write the words that are meant",
        );
    }
    let more = MORE.iter().find(|(program, _)| program == first && words.len() == 1 && pattern.is_open());
    if let Some((_, more)) = more {
        let what = format!("it covers {more} as well");
        add(found, Kind::Broad, what, format!("name what it should do, like `Bash({first} status *)`"));
    }
}

/// Programs whose first word makes another program of them.
const MORE: [(&str, &str); 8] = [
    ("git", "`git push` and `git reset --hard`"),
    ("gh", "`gh pr merge` and `gh api`"),
    ("npm", "`npm publish` and `npm exec`"),
    ("cargo", "`cargo publish` and `cargo install`"),
    ("docker", "`docker run` of any image with any directory"),
    ("podman", "`podman run` of any image with any directory"),
    ("kubectl", "`kubectl delete` and `kubectl exec`"),
    ("aws", "whatever the account may do"),
];

/// Words before the first wildcard.
fn known(words: &[String]) -> String {
    words.iter().take_while(|word| !word.contains('*')).cloned().collect::<Vec<_>>().join(" ")
}

/// Whether nothing behind the words that start another program is said.
fn starts_others(words: &[String]) -> bool {
    let plain = words.iter().take_while(|word| !word.contains('*')).count();
    let leads = WRAPPERS
        .iter()
        .map(|wrapper| wrapper.words)
        .filter(|lead| plain >= lead.len() && words.iter().zip(*lead).all(|(word, lead)| word == lead));
    match leads.map(<[&str]>::len).max() {
        // `find` and `git` run others by flags that a grant has to name.
        Some(_) if matches!(words[0].as_str(), "find" | "fd" | "fdfind" | "git") => false,
        // What runs in a container is named behind the container.
        Some(lead) => words[lead..].iter().all(|word| word.starts_with('-') || word.starts_with('*')),
        None => is_interpreter(&words[0]) && words[1..].iter().all(|word| word.starts_with(['-', '*'])),
    }
}

/// `git diff*`: the wildcard goes on in the same word.
fn glued(found: &mut Found, words: &[String], inside: &str) {
    for (at, word) in words.iter().take(2).enumerate() {
        let Some(start) = word.strip_suffix('*').filter(|start| !start.is_empty()) else { continue };
        let plain = start.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
        if !plain || start.starts_with('-') {
            continue;
        }
        let more: Vec<&str> = match at {
            0 => programs_like(start),
            _ => SUBCOMMANDS
                .iter()
                .filter(|(program, _)| words[0] == *program)
                .flat_map(|(_, words)| *words)
                .filter(|word| word.starts_with(start) && **word != start)
                .copied()
                .collect(),
        };
        let before: String = words[..at].iter().map(|word| format!("{word} ")).collect();
        let what = match more.first() {
            Some(more) => format!("it also covers `{before}{more}`"),
            None if at == 0 => format!("it also covers every program whose name begins with `{start}`"),
            None => continue,
        };
        add(
            found,
            Kind::Broad,
            what,
            format!("write `Bash({})`", inside.replacen(word.as_str(), &format!("{start} *"), 1)),
        );
    }
}

fn programs_like(start: &str) -> Vec<&'static str> {
    let known = OPERANDS.iter().flat_map(|(_, programs)| programs.iter());
    let known = known.chain(&NETWORK).chain(&INTERPRETERS).chain(&looks::LOOKS);
    known.filter(|name| name.starts_with(start) && **name != start).copied().collect()
}

/// Words of programs that begin like others.
const SUBCOMMANDS: [(&str, &[&str]); 4] = [
    (
        "git",
        &[
            "difftool",
            "diff-tree",
            "checkout-index",
            "commit-tree",
            "commit-graph",
            "fetch-pack",
            "http-push",
            "log",
            "ls-remote",
            "mergetool",
            "merge-file",
            "pull",
            "push",
            "rebase",
            "remote",
            "reset",
            "restore",
            "rev-parse",
            "revert",
            "show-ref",
            "stash",
            "status",
            "switch",
            "submodule",
            "tag",
            "update-ref",
        ],
    ),
    ("npm", &["install-test", "publish", "run-script", "test", "unpublish", "update"]),
    ("cargo", &["install", "publish", "rustc", "test", "uninstall", "update"]),
    ("docker", &["run", "rm", "rmi", "push", "pull", "exec", "stop", "start"]),
];

fn path(found: &mut Found, tool: &str, inside: &str) {
    let (meant, all) = match tool {
        "Write" | "MultiEdit" | "NotebookEdit" => ("Edit", "every tool that changes files, and what commands change"),
        "Glob" | "Grep" | "LS" | "NotebookRead" => ("Read", "every tool that reads files, and what commands read"),
        _ => (tool, ""),
    };
    if !all.is_empty() {
        add(found, Kind::Broad, format!("it is about {all}"), format!("write `{meant}({inside})`, which says so"));
    }
    if inside.contains('\\') && !inside.contains('/') {
        add(
            found,
            Kind::Never,
            "parts of a path are apart by `/`",
            format!("write `{tool}({})`", inside.replace('\\', "/")),
        );
    }
    let top = inside.strip_prefix('/').filter(|rest| !rest.starts_with('/')).map(|rest| rest.split('/').next());
    if top.flatten().is_some_and(|top| TOP.contains(&top)) {
        add(
            found,
            Kind::Narrow,
            format!("`{inside}` begins at the directory of the file that it stands in, not at the root"),
            format!("write `{tool}(/{inside})` for the root of the machine"),
        );
    }
}

/// Directories at the root of machines.
const TOP: [&str; 17] = [
    "Applications",
    "Users",
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
    "var",
];

fn host(found: &mut Found, inside: &str, allows: bool) {
    let domain = inside.strip_prefix("domain:").unwrap_or(inside).trim();
    let port = domain.rsplit_once(':').filter(|(host, _)| !host.contains(':')).map(|(host, _)| host);
    if let Some(host) = port {
        let hint = format!("write `WebFetch(domain:{host})`");
        return add(found, Kind::Never, "a host stands alone: ports are not looked at", hint);
    }
    let Some(rest) = domain.strip_prefix('*').filter(|_| allows) else { return };
    match rest.strip_prefix('.') {
        Some(rest) if !rest.contains('.') => {
            add(found, Kind::Broad, format!("it covers every host below `{rest}`"), "name the host that is meant");
        }
        None if rest.is_empty() => add(found, Kind::Broad, "it covers every host", "name the hosts that are meant"),
        None => add(
            found,
            Kind::Broad,
            format!("it also covers `evil{rest}`"),
            format!("write `WebFetch(domain:*.{rest})`, and `WebFetch(domain:{rest})` for itself"),
        ),
        Some(_) => {}
    }
}
