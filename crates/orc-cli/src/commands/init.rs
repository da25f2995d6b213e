//! `init`: a working example in a repository. Never replaces a file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use crate::args::InitArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, unavailable};
use crate::layers::WORKSPACE;
use crate::output;

/// What is written: path and text.
const FILES: [(&str, &str); 2] =
    [("pipelines/hello.yaml", include_str!("init/hello.yaml")), (WORKSPACE, include_str!("init/orchestrator.yaml"))];

pub(crate) fn run(context: &Context, args: &InitArgs) -> CommandResult {
    let given = args.directory.as_deref().unwrap_or(Path::new(""));
    let directory = context.cwd.join(given);
    let mut text = String::new();
    for (name, content) in FILES {
        let word = if write(&directory, name, content)? { "wrote" } else { "kept " };
        let note = if word == "kept " { " (it was there already)" } else { "" };
        text.push_str(&format!("{word} {}{note}\n", given.join(name).display()));
    }
    let in_git = directory.ancestors().any(|above| above.join(".git").exists());
    if !in_git {
        text.push_str(
            "note: this is no git repository, and steps work in private copies of what is committed to one\n",
        );
    }
    let enter = if given.as_os_str().is_empty() { String::new() } else { format!("  cd {}\n", given.display()) };
    text.push_str("\nnext:\n");
    text.push_str(&enter);
    // Steps work in private copies of what is committed, so even in a repository this comes first.
    text.push_str(if in_git {
        "  git add . && git commit -m 'A first pipeline'\n"
    } else {
        "  git init && git add . && git commit -m 'A first pipeline'\n"
    });
    text.push_str("  orchestrator validate     checks every file and tells every mistake\n");
    text.push_str("  orchestrator run hello    runs the example\n");
    text.push_str("  orchestrator status       says what happened\n");
    output::text(&text)?;
    Ok(Exit::Success)
}

/// Writes a file that is not there. False when it was.
fn write(directory: &Path, name: &str, content: &str) -> CommandResult<bool> {
    let path = directory.join(name);
    let failed = |error: std::io::Error| {
        unavailable(format!("cannot write `{}`", path.display()))
            .because(error)
            .hint("name a directory that you may write: `orchestrator init DIRECTORY`")
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => file.write_all(content.as_bytes()).map(|()| true).map_err(failed),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}
