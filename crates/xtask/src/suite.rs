//! `cargo xtask test` and `cargo xtask setup`: everything the tests need, then the tests.

use anyhow::{Context, Result, bail};

use crate::command::{self, find_program};
use crate::postgres::{self, Postgres};

/// Where tests find a PostgreSQL server; set from outside, no server is started.
pub(crate) const POSTGRES: &str = "ORC_TEST_POSTGRES";

/// A tool that building or testing needs.
struct Tool {
    name: &'static str,
    /// Debian and Ubuntu call it so; nothing when cargo installs it.
    package: Option<&'static str>,
    found: fn() -> bool,
}

const TOOLS: [Tool; 4] = [
    Tool { name: "cc", package: Some("build-essential"), found: || find_program("cc").is_some() },
    Tool { name: "git", package: Some("git"), found: || find_program("git").is_some() },
    Tool { name: "PostgreSQL", package: Some("postgresql"), found: || postgres::find().is_some() },
    Tool { name: "cargo-nextest", package: None, found: || find_program("cargo-nextest").is_some() },
];

/// Runs all tests with `arguments` handed on to nextest.
///
/// # Errors
/// When a tool is missing (the message has the command that installs it), PostgreSQL does not start, or a test fails.
pub(crate) fn run(url: Option<String>, arguments: &[String]) -> Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !(tool.found)()).collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|tool| tool.name).collect();
        bail!("the tests need {}\nhint: install with: {}", names.join(", "), install_line(&missing));
    }
    let url = url.filter(|url| !url.is_empty());
    let server = match &url {
        Some(_) => None,
        None => Some(Postgres::start(&postgres::find().context("PostgreSQL is gone")?)?),
    };
    let url = url.or_else(|| server.as_ref().map(Postgres::url)).unwrap_or_default();
    let mut nextest = command::command(env!("CARGO"));
    nextest.args(["nextest", "run"]).args(arguments).env(POSTGRES, url);
    // Not `command::run`: nextest's own summary says everything, and is to stand last.
    if !nextest.status().context("cannot start cargo nextest")?.success() {
        bail!("not every test passed");
    }
    Ok(())
}

/// Installs what is missing.
///
/// # Errors
/// When an installer fails.
pub(crate) fn setup() -> Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !(tool.found)()).collect();
    if missing.is_empty() {
        println!("setup: everything is there");
        return Ok(());
    }
    let line = install_line(&missing);
    println!("setup: {line}");
    command::run(command::command("sh").args(["-ec", &line]))
}

/// One line for a shell that installs the tools.
fn install_line(missing: &[&Tool]) -> String {
    let packages: Vec<&str> = missing.iter().filter_map(|tool| tool.package).collect();
    let sudo = if find_program("sudo").is_some() { "sudo " } else { "" };
    let mut lines = Vec::new();
    if !packages.is_empty() {
        lines.push(format!("{sudo}apt-get update"));
        lines.push(format!("{sudo}apt-get install --yes --no-install-recommends {}", packages.join(" ")));
    }
    if missing.iter().any(|tool| tool.package.is_none()) {
        lines.push("cargo install --locked cargo-nextest".to_owned());
    }
    lines.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_installs_what_is_missing() {
        let all: Vec<&Tool> = TOOLS.iter().collect();
        let line = install_line(&all);
        assert!(line.ends_with("build-essential git postgresql && cargo install --locked cargo-nextest"), "{line}");
        assert_eq!(install_line(&all[3..]), "cargo install --locked cargo-nextest");
    }
}
