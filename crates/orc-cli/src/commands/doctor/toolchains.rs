//! Programs below the user's home, which boxes do not see unless a pipeline or an agent says so.

use std::path::Path;

use super::Finding;

/// A toolchain. All paths are below home.
struct Toolchain {
    /// Where its programs are.
    root: &'static str,
    /// What else they read.
    more: Option<&'static str>,
    /// The variable that says where it is, because home is another one in a box, and its value.
    variable: Option<(&'static str, &'static str)>,
}

const fn known(root: &'static str, variable: Option<(&'static str, &'static str)>) -> Toolchain {
    Toolchain { root, more: None, variable }
}

const KNOWN: [Toolchain; 12] = [
    Toolchain { more: Some(".rustup"), ..known(".cargo/bin", Some(("RUSTUP_HOME", ".rustup"))) },
    known(".nvm", Some(("NVM_DIR", ".nvm"))),
    known(".pyenv", Some(("PYENV_ROOT", ".pyenv"))),
    known(".rbenv", Some(("RBENV_ROOT", ".rbenv"))),
    known(".asdf", Some(("ASDF_DATA_DIR", ".asdf"))),
    known(".local/share/mise", Some(("MISE_DATA_DIR", ".local/share/mise"))),
    known(".sdkman", None),
    known(".volta", Some(("VOLTA_HOME", ".volta"))),
    known(".bun", None),
    known(".deno", None),
    known("go", Some(("GOPATH", "go"))),
    known(".local/bin", None),
];

/// What of `PATH` lies below home, with the lines that let boxes see it.
pub(super) fn look(home: &Path, path: &str) -> Finding {
    const NAME: &str = "toolchains";
    let (mut read, mut env): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let add = |list: &mut Vec<String>, entry: String| {
        if !list.contains(&entry) {
            list.push(entry);
        }
    };
    for directory in path.split(':').map(Path::new).filter(|directory| directory.is_dir()) {
        let Ok(below) = directory.strip_prefix(home) else { continue };
        // Home itself in PATH is nothing to give away.
        if below.as_os_str().is_empty() {
            continue;
        }
        let Some(Toolchain { root, more, variable }) = KNOWN.iter().find(|known| below.starts_with(known.root)) else {
            add(&mut read, format!("~/{}", below.display()));
            continue;
        };
        for part in [root].into_iter().chain(more).filter(|part| home.join(part).exists()) {
            add(&mut read, format!("~/{part}"));
        }
        if let Some((name, part)) = variable
            && home.join(part).exists()
        {
            add(&mut env, format!("{name}: {}", home.join(part).display()));
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
