use proptest::prelude::*;

use super::*;

fn author(name: &str, email: &str) -> Result<String, IdentityError> {
    Author::new(name, email).map(|author| author.to_string())
}

#[test]
fn an_agent_is_known_by_its_id_and_called_by_its_name() {
    let workspace = WorkspaceId::default_workspace();
    let id = AgentId::of(workspace, "builder");
    assert_eq!(id, AgentId::of(workspace, "builder"));
    assert_ne!(id, AgentId::of(workspace, "reviewer"));
    assert!(id.to_string().starts_with("agent_"));
    let author = Author::agent("builder", id, DEFAULT_DOMAIN).unwrap();
    assert_eq!(author.name(), "builder (agent)");
    assert_eq!(author.email(), format!("{}@agents.orchestrator.local", id.file_name()));
    assert_eq!(author.environment()[0], ("GIT_AUTHOR_NAME", "builder (agent)".to_owned()));
    assert_eq!(
        Author::pipeline("nightly build", "agents.example.com").unwrap().to_string(),
        "nightly build (pipeline) <pipeline@agents.example.com>"
    );
    assert!(matches!(Author::agent("builder", id, "example.com>\nX: y"), Err(IdentityError::Email(_))));
}

#[test]
fn an_account_of_github_has_the_address_that_is_linked() {
    let cases = [
        (583_231, "octocat", Some("octocat <583231+octocat@users.noreply.github.com>")),
        (49_699_333, "dependabot[bot]", Some("dependabot[bot] <49699333+dependabot[bot]@users.noreply.github.com>")),
        (1, "mona_corp", Some("mona_corp <1+mona_corp@users.noreply.github.com>")),
        (1, "", None),
        (1, "[bot]", None),
        (1, "a b", None),
        (1, "a@b", None),
        (1, "a\nb", None),
        (1, "octöcat", None),
        (1, "a234567890123456789012345678901234567890", None),
    ];
    for (number, login, wanted) in cases {
        assert_eq!(Author::github(number, login).ok().map(|author| author.to_string()).as_deref(), wanted, "{login:?}");
    }
}

#[test]
fn a_name_is_kept_as_git_keeps_it_or_refused() {
    let good = "a@example.com";
    assert_eq!(author(" Jane Doe, Jr. ", good), Ok("Jane Doe, Jr <a@example.com>".to_owned()));
    assert_eq!(author("José 木村 👩‍💻", good), Ok("José 木村 👩‍💻 <a@example.com>".to_owned()));
    for bad in ["\n", "\r", "\0", "\u{b}", "\u{85}", "\u{2028}", "\u{2029}", "\u{202e}", "<", ">", "\u{1b}"] {
        let error = author(&format!("a{bad}b"), good).unwrap_err();
        assert_eq!(error, IdentityError::Character(bad.chars().next().unwrap()));
        assert!(!error.to_string().contains(bad), "{error}");
    }
    assert_eq!(author(" .;\n", good), Err(IdentityError::EmptyName));
    assert_eq!(author(&"é".repeat(101), good), Err(IdentityError::LongName));
    for bad in [
        "",
        "a",
        "a@",
        "@b.com",
        "a@b@c.com",
        "a b@c.com",
        "a@c.com\n",
        "<a@c.com>",
        "a@c.com>",
        "\"a\"@c.com",
        "a,b@c.com",
        "a@c..com",
        "a@1.2.3.4",
        "ä@c.com",
        ".a@c.com",
        "a.@c.com",
        "'a@c.com",
        "a@c.com.",
        "a@-c.com",
    ] {
        assert!(matches!(author("A", bad), Err(IdentityError::Email(_))), "{bad:?}");
    }
}

fn keys(message: &str) -> Vec<String> {
    parse_trailers(message).into_iter().map(|trailer| format!("{}={}", trailer.key, trailer.value)).collect()
}

#[test]
fn trailers_are_the_last_paragraph_and_not_the_first() {
    let cases: [(&str, &[&str]); 12] = [
        ("Title\n\nA: b\n", &["A=b"]),
        ("Title\n\nBody\n\nA: b\nC-d : e\n", &["A=b", "C-d=e"]),
        ("Title\n\nA: b\n c\n\td\n", &["A=b c d"]),
        ("A: b\n", &[]),
        ("A: b\nC: d\n", &[]),
        ("Title\n\nA: b\nno trailer\n", &[]),
        ("Title\n\nA: b\n\nBody\n", &[]),
        ("Title\n\nno trailer\nSigned-off-by: x\n", &["Signed-off-by=x"]),
        ("Title\n\na\nb\nc\nd\nSigned-off-by: x\n", &[]),
        ("Title\n\nA: b\n# a comment\n\n", &["A=b"]),
        ("Title\n\nA b: c\n", &[]),
        ("", &[]),
    ];
    for (message, wanted) in cases {
        assert_eq!(keys(message), wanted, "{message:?}");
    }
}

proptest! {
    #[test]
    fn what_is_built_reads_back_as_one_trailer(
        name in prop_oneof![".{0,30}", "[a-z\n\r<>:@ \u{85}\u{2028}]{0,12}"],
        email in prop_oneof![".{0,20}", "[a-z.+'\n<> @]{0,16}", "[a-z]{1,5}@[a-z]{1,5}\\.[a-z]{1,3}"],
    ) {
        if let Ok(author) = Author::new(&name, &email) {
            let line = author.co_authored_by();
            let read = parse_trailers(&format!("Title\n\nBody\n\n{line}\n"));
            prop_assert_eq!(read, [Trailer { key: "Co-Authored-By".to_owned(), value: author.to_string() }]);
            prop_assert_eq!(Author::new(author.name(), author.email()), Ok(author));
        }
    }

    #[test]
    fn an_agents_name_adds_nothing_beside_it(name in "\\PC{0,20}|.{0,20}|[a-z\n<>:]{0,12}") {
        let id = AgentId::of(WorkspaceId::default_workspace(), &name);
        if let Ok(author) = Author::agent(&name, id, DEFAULT_DOMAIN) {
            prop_assert_eq!(author.to_string().matches(['<', '>', '\n']).count(), 2);
            prop_assert!(author.name().ends_with(" (agent)"));
        }
    }

    #[test]
    fn no_message_makes_it_panic(message in ".{0,60}|[A-b: \t\n#-]{0,60}") {
        let _ = parse_trailers(&message);
    }
}
