//! Programs that xtask starts: cargo, git, package installers. The only module here that may start one, beside
//! `postgres`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the repository: two folders above this crate.
pub(crate) fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root.pop();
    root
}

/// A command for a program of the development machine, with the repository's root as its working directory.
#[expect(clippy::disallowed_methods, reason = "xtask starts cargo, git and servers for tests; it is never shipped")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Runs a command with our own streams.
///
/// # Errors
/// When it can't be started or does not end with status 0; the message carries the command line.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot start {line}"))?;
    if !status.success() {
        bail!("{line} ended with {status}");
    }
    Ok(())
}

/// Runs a command and returns what it wrote to standard output.
///
/// # Errors
/// As [`run`], or when the output is not UTF-8; the message carries what it wrote to standard error.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let line = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot start {line}"))?;
    if !output.status.success() {
        bail!("{line} ended with {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{line} wrote something that is not UTF-8"))
}

/// The target directory, wherever cargo was told to put it.
pub(crate) fn target() -> Result<PathBuf> {
    let metadata = read(command("cargo").args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(target))
}

/// Finds a program in the folders of `PATH`.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "xtask looks for tools on the development machine")]
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| is_executable(program))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
