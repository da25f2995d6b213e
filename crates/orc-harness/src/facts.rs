//! Looks at the place of a run, through its tools: the brain opens nothing there itself. A link from a memory file to
//! somewhere else reads nothing, because what the tools may not open they do not.

use std::path::Path;

use orc_domain::time::Timestamp;

use crate::context::{Facts, GitFacts};
use crate::place::{Place, PlaceError, Seen};

/// Memory files, the widest first.
const MEMORY: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "CLAUDE.local.md"];

/// What is to be looked at.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) directory: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) at: Timestamp,
    pub(crate) git: bool,
    pub(crate) memory: bool,
}

/// Looks.
pub(crate) async fn gather(place: &dyn Place, wanted: Wanted) -> Result<Facts, PlaceError> {
    let Wanted { directory, hosts, at, git, memory } = wanted;
    let mut facts = Facts { directory: directory.clone(), date: date_of(at), hosts, ..Facts::default() };
    if memory {
        let mut seen = Vec::new();
        for name in MEMORY {
            let bytes = match place.read(Path::new(&directory).join(name)).await? {
                Seen::Nothing => continue,
                Seen::File(bytes) => bytes,
                Seen::Unread(why) => {
                    let told = format!("[This file is there and was not read here: {why}. Look into it yourself.]");
                    facts.memory.push((name.to_owned(), told));
                    continue;
                }
            };
            // Often one is a copy of the other.
            if bytes.iter().all(u8::is_ascii_whitespace) || seen.contains(&bytes) {
                continue;
            }
            facts.memory.push((name.to_owned(), String::from_utf8_lossy(&bytes).into_owned()));
            seen.push(bytes);
        }
    }
    if git {
        facts.git = look_at_git(place).await?;
    }
    Ok(facts)
}

/// Several questions, but a start of one program each: they are asked at once.
async fn look_at_git(place: &dyn Place) -> Result<Option<GitFacts>, PlaceError> {
    let say = |argv: &'static [&'static str]| async move {
        let ran = place.run(argv).await?;
        Ok::<_, PlaceError>(ran.ok.then(|| ran.stdout.trim_end().to_owned()))
    };
    let (branch, main, name, status, commits) = futures_util::future::try_join5(
        say(&["git", "rev-parse", "--abbrev-ref", "HEAD"]),
        say(&["git", "symbolic-ref", "--short", "refs/remotes/origin/HEAD"]),
        say(&["git", "config", "user.name"]),
        say(&["git", "status", "--short"]),
        say(&["git", "log", "-5", "--format=%h %s"]),
    )
    .await?;
    let Some(branch) = branch else { return Ok(None) };
    let branch = if branch == "HEAD" { "none (a private copy of a commit)".to_owned() } else { branch };
    Ok(Some(GitFacts {
        branch,
        main,
        user: name.unwrap_or_else(|| "nobody yet".to_owned()),
        // What git did not say in time is not clean.
        status: status.unwrap_or_else(|| "not known: git did not say it in time".to_owned()),
        commits: commits.unwrap_or_default(),
    }))
}

/// `YYYY-MM-DD` in UTC.
fn date_of(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}
