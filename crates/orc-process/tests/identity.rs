//! Authors and trailers as the real git takes them.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use orc_domain::identity::{Author, DEFAULT_DOMAIN, parse_trailers};
use orc_domain::ids::{AgentId, WorkspaceId};
use proptest::prelude::*;

/// What git prints, without any configuration.
#[expect(clippy::disallowed_methods, reason = "a program of somebody else that a test compares with, waited for here")]
fn git(arguments: &[&str], variables: &[(&str, String)], input: &str) -> io::Result<String> {
    let mut child = Command::new("git")
        .args(arguments)
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // Dropping the pipe is the end of its input, which fits into the pipe.
    child.stdin.take().map_or(Ok(()), |mut pipe| pipe.write_all(input.as_bytes()))?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("git {arguments:?}: {}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

fn trailers_of_git(message: &str) -> io::Result<Vec<String>> {
    let told = git(&["interpret-trailers", "--parse", "--no-divider"], &[], message)?;
    Ok(told.lines().map(str::to_owned).collect())
}

fn trailers_of_ours(message: &str) -> Vec<String> {
    parse_trailers(message).into_iter().map(|trailer| format!("{}: {}", trailer.key, trailer.value)).collect()
}

#[test]
fn git_takes_an_author_as_it_was_said() {
    let agent = AgentId::of(WorkspaceId::default_workspace(), "builder");
    let authors = [
        Author::agent("builder", agent, DEFAULT_DOMAIN),
        Author::agent("José 木村 👩‍💻", agent, DEFAULT_DOMAIN),
        Author::pipeline("nightly, build.", "agents.example.com"),
        Author::github(49_699_333, "dependabot[bot]"),
        Author::new(" 'Jane \"JD\" Doe', Jr. ", "o'brien+x@example.com"),
        Author::new("a:b", "{x}!#$%&*/=?^`|~@example.com"),
    ];
    for author in authors {
        let author = author.unwrap();
        for which in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
            let told = git(&["var", which], &author.environment(), "").unwrap();
            assert!(told.starts_with(&format!("{author} ")), "{told} for {author}");
        }
        let line = author.co_authored_by();
        let told = trailers_of_git(&format!("Title\n\nBody\n\n{line}\n")).unwrap();
        assert_eq!(told, [line]);
    }
}

proptest! {
    // Each asks git once or twice.
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn git_reads_what_is_built_as_one_trailer(name in "[a-zé \n\r\t:<>#.,'\"\\\\(-]{0,12}|\\PC{0,12}") {
        if let Ok(author) = Author::new(&name, "a@example.com") {
            let line = author.co_authored_by();
            let message = format!("Title\n\nBody\n\n{line}\n");
            prop_assert_eq!(trailers_of_git(&message).unwrap(), [line]);
            let told = git(&["var", "GIT_AUTHOR_IDENT"], &author.environment(), "").unwrap();
            prop_assert!(told.starts_with(&format!("{author} ")), "{} for {}", told, author);
        }
    }

    #[test]
    fn messages_have_the_trailers_that_git_finds(lines in prop::collection::vec(
        prop::sample::select(vec![
            "", " ", "Title", "words and more", "Key: value", "Other-Key : value  ", " goes on", "\tgoes on: too", "# said aside",
            "No key: value", "Signed-off-by: A <a@b.c>", "(cherry picked from commit 1234)", "Empty:", ": value", "---", "Key=value",
        ]),
        0..9,
    )) {
        let message: String = lines.iter().map(|line| format!("{line}\n")).collect();
        prop_assert_eq!(trailers_of_ours(&message), trailers_of_git(&message).unwrap(), "{:?}", message);
    }
}
