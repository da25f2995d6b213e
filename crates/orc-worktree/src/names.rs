//! Names of directories and references, made from what a flow calls things.
//!
//! Distinct things keep distinct names, every name is valid both as one component of a path and as one of a reference,
//! and none is longer than a file system takes. What a name stood for is read from manifests, never from the name.

use std::path::{Path, PathBuf};

use orc_domain::path::StepPath;
use orc_domain::tree::Repository;
use orc_ports::worktrees::Conversation;
use sha2::{Digest, Sha256};

/// Longest name that is kept as it is; the rest of what a file system takes (255) is for endings.
const LONGEST: usize = 160;

/// The first 16 hexadecimal digits of the SHA-256 of a text.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Copies to a new file, which is then on disk; the SHA-256 of what was copied.
pub(crate) fn copy_hashed(from: &mut impl std::io::Read, to: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::create_new(to)?;
    let mut hash = Sha256::new();
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut bytes)?;
        if count == 0 {
            break;
        }
        let read = bytes.get(..count).unwrap_or_default();
        hash.update(read);
        std::io::Write::write_all(&mut file, read)?;
    }
    file.sync_all()?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A step as one component of a path and of a reference. A dot is encoded too: git refuses `..`, `.lock` and others.
pub(crate) fn step(path: &StepPath) -> String {
    let name = path.file_name().replace('.', "%2e");
    if name.len() <= LONGEST {
        return name;
    }
    // The names are ASCII, so that any cut is between characters.
    format!("{}%{}", name.get(..LONGEST - 17).unwrap_or_default(), digest(path.as_str()))
}

/// `<flow>/<step>`: below `copies/` and below `refs/orc/`.
pub(crate) fn conversation(conversation: &Conversation) -> String {
    format!("{}/{}", conversation.flow.file_name(), step(&conversation.path))
}

/// The prefix of all references of a conversation, without a slash at its end.
pub(crate) fn references(of: &Conversation) -> String {
    format!("refs/orc/{}", conversation(of))
}

/// What a ground for a commit is called. The branch is part of it, since `HEAD` of a copy names it.
pub(crate) fn ground(repository: &Repository, commit: &str) -> String {
    repository.branch.as_ref().map_or_else(|| commit.to_owned(), |branch| format!("{commit}-{}", digest(branch)))
}

/// Where each repository of a copy is mounted in the box.
pub(crate) fn places(repositories: &[Repository]) -> Vec<PathBuf> {
    let root = Path::new(crate::WORK);
    if repositories.len() == 1 {
        return vec![root.to_owned()];
    }
    let mut names: Vec<String> = Vec::new();
    for repository in repositories {
        let last = Path::new(&repository.source).file_name().map(|name| name.to_string_lossy().into_owned());
        let plain: String = last
            .unwrap_or_default()
            .trim_end_matches(".git")
            .chars()
            .map(|letter| if letter.is_alphanumeric() || "._-".contains(letter) { letter } else { '-' })
            .collect();
        let plain = if plain.trim_matches('.').is_empty() { "repository".to_owned() } else { plain };
        let mut name = plain.clone();
        let mut number = 1;
        while names.contains(&name) {
            number += 1;
            name = format!("{plain}-{number}");
        }
        names.push(name);
    }
    names.iter().map(|name| root.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_valid_in_references_and_stay_distinct() {
        let path = |text: &str| text.parse::<StepPath>().unwrap();
        assert_eq!(step(&path("edit[3]")), "edit%5b3%5d");
        assert_eq!(step(&path("build{v=1..2}")), "build%7bv%3d1%2e%2e2%7d");
        let long = |end: char| path(&format!("a{{x={}{end}}}", "y".repeat(900)));
        assert!(step(&long('1')).len() <= LONGEST);
        assert_ne!(step(&long('1')), step(&long('2')));
    }

    #[test]
    fn several_repositories_have_places_of_their_own() {
        let repository = |source: &str| Repository {
            path: ".".to_owned(),
            source: source.to_owned(),
            branch: None,
            commit: "a".repeat(40).parse().unwrap(),
        };
        let one = [repository("/x/app")];
        assert_eq!(places(&one), [Path::new(crate::WORK)]);
        let many = ["/x/app", "/y/app", "/z/app.git", "/z/a b", "/"].map(repository);
        let names: Vec<String> =
            places(&many).iter().map(|p| p.file_name().unwrap().to_str().unwrap().into()).collect();
        assert_eq!(names, ["app", "app-2", "app-3", "a-b", "repository"]);
    }
}
