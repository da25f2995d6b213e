//! `cargo xtask test` and `cargo xtask setup`: everything that building, boxes and tests need, then the tests.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command::{self, find_program};
use crate::postgres::{self, Postgres};
use crate::programs;

/// Where tests find a PostgreSQL server; set from outside, no server is started.
pub(crate) const POSTGRES: &str = "ORC_TEST_POSTGRES";

/// A tool that building, boxes or tests need.
struct Tool {
    name: &'static str,
    /// Debian and Ubuntu call it so; nothing when cargo installs it.
    package: Option<&'static str>,
    found: fn() -> bool,
}

/// What building and running need come first.
const TOOLS: [Tool; 8] = [
    Tool { name: "cc", package: Some("build-essential"), found: || find_program("cc").is_some() },
    Tool { name: "git", package: Some("git"), found: || find_program("git").is_some() },
    Tool { name: "bubblewrap", package: Some("bubblewrap"), found: || find_program("bwrap").is_some() },
    Tool { name: "PostgreSQL", package: Some("postgresql"), found: || postgres::find().is_some() },
    Tool { name: "btrfs", package: Some("btrfs-progs"), found: || is_installed("mkfs.btrfs") },
    Tool { name: "git-lfs", package: Some("git-lfs"), found: || find_program("git-lfs").is_some() },
    Tool {
        name: "npm",
        package: Some("nodejs npm"),
        found: || ["node", "npm"].iter().all(|name| find_program(name).is_some()),
    },
    Tool { name: "cargo-nextest", package: None, found: || find_program("cargo-nextest").is_some() },
];
/// How many of them running needs.
const TO_RUN: usize = 3;

/// Programs for root are not in everybody's `PATH`.
fn is_installed(name: &str) -> bool {
    find_program(name).is_some() || ["/usr/sbin", "/sbin"].iter().any(|folder| Path::new(folder).join(name).exists())
}

/// Runs all tests with `arguments` handed on to nextest.
///
/// # Errors
/// When a tool is missing (the message has the command that installs it), PostgreSQL does not start, or a test fails.
pub(crate) fn run(url: Option<String>, arguments: &[String]) -> Result<()> {
    ensure(&TOOLS)?;
    programs::ensure()?;
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
    let (tools, programs) = (ensure(&TOOLS)?, programs::ensure()?);
    if !tools && !programs {
        println!("setup: everything is there");
    }
    Ok(())
}

/// Installs what building and running need and is missing.
///
/// # Errors
/// When an installer fails.
pub(crate) fn ensure_runnable() -> Result<()> {
    ensure(&TOOLS[..TO_RUN]).map(drop)
}

/// Installs tools that are missing, if this user may: as root, or with a `sudo` that asks nothing. True when there were any.
fn ensure(tools: &[Tool]) -> Result<bool> {
    let missing: Vec<&Tool> = tools.iter().filter(|tool| !(tool.found)()).collect();
    if missing.is_empty() {
        return Ok(false);
    }
    let line = install_line(&missing);
    let may = |line: &str| command::command("sh").args(["-c", line]).status().is_ok_and(|status| status.success());
    let needs_root = missing.iter().any(|tool| tool.package.is_some());
    if needs_root && !may("test $(id -u) = 0 || sudo -n true 2>/dev/null") {
        let names: Vec<&str> = missing.iter().map(|tool| tool.name).collect();
        bail!("this needs {}\nhint: install with: {line}", names.join(", "));
    }
    println!("setup: {line}");
    command::run(command::command("sh").args(["-ec", &line]))?;
    Ok(true)
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
        let packages = "build-essential git bubblewrap postgresql btrfs-progs git-lfs nodejs npm";
        assert!(line.ends_with(&format!("{packages} && cargo install --locked cargo-nextest")), "{line}");
        assert_eq!(install_line(&all[7..]), "cargo install --locked cargo-nextest");
        let to_run: Vec<&str> = TOOLS[..TO_RUN].iter().map(|tool| tool.name).collect();
        assert_eq!(to_run, ["cc", "git", "bubblewrap"]);
    }
}
