//! Programs below the user's home, which boxes do not see unless a pipeline or an agent says so.

use std::path::Path;

use super::Finding;

/// Toolchains by the directory of their programs below home: what else they read, and the variable that says where they
/// are, because home is another one in a box.
const KNOWN: &[(&str, &[&str], &[(&str, &str)])] = &[
    (".cargo/bin", &[".rustup"], &[("RUSTUP_HOME", ".rustup")]),
    (".nvm", &[], &[("NVM_DIR", ".nvm")]),
    (".pyenv", &[], &[("PYENV_ROOT", ".pyenv")]),
    (".rbenv", &[], &[("RBENV_ROOT", ".rbenv")]),
    (".asdf", &[], &[("ASDF_DATA_DIR", ".asdf")]),
    (".local/share/mise", &[], &[("MISE_DATA_DIR", ".local/share/mise")]),
    (".sdkman", &[], &[]),
    (".volta", &[], &[("VOLTA_HOME", ".volta")]),
    (".bun", &[], &[]),
    (".deno", &[], &[]),
    ("go", &[], &[("GOPATH", "go")]),
    (".local/bin", &[], &[]),
];

/// What of `PATH` lies below home, with the lines that let boxes see it.
pub(super) fn look(home: &Path, path: &str) -> Finding {
    const NAME: &str = "toolchains";
    let (mut read, mut env): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let add = |read: &mut Vec<String>, entry: String| {
        if !read.contains(&entry) {
            read.push(entry);
        }
    };
    for directory in path.split(':').map(Path::new).filter(|directory| directory.is_dir()) {
        let Ok(below) = directory.strip_prefix(home) else { continue };
        // Home itself in PATH is nothing to give away.
        if below.as_os_str().is_empty() {
            continue;
        }
        let Some((root, more, variables)) = KNOWN.iter().find(|(root, ..)| below.starts_with(root)) else {
            add(&mut read, format!("~/{}", below.display()));
            continue;
        };
        for part in [root].into_iter().chain(more.iter()).filter(|part| home.join(part).exists()) {
            add(&mut read, format!("~/{part}"));
        }
        for (name, part) in variables.iter().filter(|(_, part)| home.join(part).exists()) {
            let line = format!("{name}: {}", home.join(part).display());
            if !env.contains(&line) {
                env.push(line);
            }
        }
    }
    if read.is_empty() {
        return Finding::ok(NAME, "none in PATH below home: boxes see all of it");
    }
    let lines = format!("box: {{ read: [{}] }}", read.join(", "));
    let lines = if env.is_empty() { lines } else { format!("{lines}   env: {{ {} }}", env.join(", ")) };
    let what = format!("below home, so that no box sees them unless it is said: {}", read.join(", "));
    Finding { hint: Some(format!("in a pipeline, a step or an agent: {lines}")), ..Finding::ok(NAME, what) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_home_is_named_with_the_lines_to_write() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path).display().to_string();
        for made in [".cargo/bin", ".rustup", ".nvm/versions/node/v20/bin", "bin", "unused"] {
            std::fs::create_dir_all(home.path().join(made)).unwrap();
        }
        let path = [
            "/usr/bin",
            &at(".cargo/bin"),
            &at(".nvm/versions/node/v20/bin"),
            &at("bin"),
            &at("missing"),
            &at(""),
            &at(".cargo/bin"),
        ]
        .join(":");
        let found = look(home.path(), &path);
        let hint = found.hint.unwrap();
        assert!(hint.contains("box: { read: [~/.cargo/bin, ~/.rustup, ~/.nvm, ~/bin] }"), "{hint}");
        assert!(hint.contains(&format!("RUSTUP_HOME: {}", at(".rustup"))), "{hint}");
        assert!(!hint.contains("unused") && !hint.contains("missing"), "{hint}");
        let none = look(home.path(), "/usr/bin:/bin");
        assert!(none.hint.is_none(), "{none:?}");
    }
}
