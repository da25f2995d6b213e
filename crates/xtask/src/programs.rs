//! Real agent programs from npm, which tests run in boxes against scripted models. Pinned, and below the repository's own
//! `target`, whatever cargo's is: they are large, and no build changes them.
//!
//! Their install scripts do not run: what runs is the native program that npm picks for this machine, found through a link
//! in `bin`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::command;

/// Where they lie, below the root of the repository. Tests look here.
const DIRECTORY: &str = "target/agent-programs";

struct Program {
    name: &'static str,
    package: &'static str,
    /// The one that is described in docs/reference/agent-programs.md.
    version: &'static str,
    /// Where npm may put the native program, below `node_modules`; `CPU` and `ARCH` stand for this machine's.
    native: &'static [&'static str],
}

const PROGRAMS: [Program; 2] = [
    Program {
        name: "claude",
        package: "@anthropic-ai/claude-code",
        version: "2.1.332",
        native: &["@anthropic-ai/claude-code-linux-CPU/claude", "@anthropic-ai/claude-code-linux-CPU-musl/claude"],
    },
    Program {
        name: "codex",
        package: "@openai/codex",
        version: "0.171.0",
        native: &["@openai/codex-linux-CPU/vendor/ARCH-unknown-linux-musl/bin/codex"],
    },
];

/// Installs those that are missing or have another version; true when there were any. Needs npm.
///
/// # Errors
/// When npm fails, or installs nothing that runs here.
pub(crate) fn ensure() -> Result<bool> {
    let directory = command::root().join(DIRECTORY);
    if PROGRAMS.iter().all(|program| program.is_linked(&directory)) {
        return Ok(false);
    }
    let made = fs::create_dir_all(directory.join("bin"));
    made.with_context(|| format!("cannot make `{}`", directory.display()))?;
    let wanted: Value = PROGRAMS.iter().map(|program| (program.package.to_owned(), json!(program.version))).collect();
    let manifest = directory.join("package.json");
    fs::write(&manifest, json!({ "private": true, "dependencies": wanted }).to_string())
        .with_context(|| format!("cannot write `{}`", manifest.display()))?;
    let names: Vec<String> =
        PROGRAMS.iter().map(|program| format!("{}@{}", program.package, program.version)).collect();
    println!("setup: npm install {} (in {DIRECTORY})", names.join(" "));
    let quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
    command::run(command::command("npm").arg("install").args(quiet).current_dir(&directory))
        .context("the agent programs that tests run cannot be installed")?;
    PROGRAMS.iter().try_for_each(|program| program.link(&directory))?;
    Ok(true)
}

impl Program {
    /// Whether its link leads to a program of the right version.
    fn is_linked(&self, directory: &Path) -> bool {
        let manifest = fs::read(directory.join("node_modules").join(self.package).join("package.json"));
        let manifest = manifest.ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let is_right = manifest.is_some_and(|manifest| manifest["version"] == self.version);
        is_right && directory.join("bin").join(self.name).is_file()
    }

    fn link(&self, directory: &Path) -> Result<()> {
        let Some(native) = self.natives().into_iter().find(|native| directory.join(native).is_file()) else {
            let looked = self.natives().iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
            bail!(
                "npm installed no {} for this machine (looked for {looked})\nhint: remove `{DIRECTORY}` and try again",
                self.name
            );
        };
        let link = directory.join("bin").join(self.name);
        let removed = fs::remove_file(&link);
        removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
        let linked = std::os::unix::fs::symlink(Path::new("..").join(native), &link);
        linked.with_context(|| format!("cannot make the link `{}`", link.display()))
    }

    fn natives(&self) -> Vec<PathBuf> {
        let arch = std::env::consts::ARCH;
        let cpu = if arch == "aarch64" { "arm64" } else { "x64" };
        let places = self.native.iter().map(|place| place.replace("CPU", cpu).replace("ARCH", arch));
        places.map(|place| Path::new("node_modules").join(place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_there_when_its_link_leads_to_the_right_version() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        let [program, _] = &PROGRAMS;
        let native = directory.join(&program.natives()[0]);
        let package = directory.join("node_modules").join(program.package);
        for made in [native.parent().unwrap(), &package, &directory.join("bin")] {
            fs::create_dir_all(made).unwrap();
        }
        let error = program.link(directory).unwrap_err().to_string();
        assert!(error.contains("no claude for this machine") && error.contains("hint: "), "{error}");
        fs::write(&native, "").unwrap();
        for _ in 0..2 {
            program.link(directory).unwrap();
        }
        assert!(!program.is_linked(directory));
        fs::write(package.join("package.json"), r#"{"version":"2.0.0"}"#).unwrap();
        assert!(!program.is_linked(directory));
        fs::write(package.join("package.json"), format!(r#"{{"version":"{}"}}"#, program.version)).unwrap();
        assert!(program.is_linked(directory));
        fs::remove_file(native).unwrap();
        assert!(!program.is_linked(directory));
    }
}
