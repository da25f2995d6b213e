use super::*;

/// The warning about this rule in the list of this verdict, of an agent with these tools.
fn told(hands: &Hands, verdict: Verdict, text: &str) -> String {
    let mut report = Report::new("agents/coder.md");
    assert_eq!(rule(text, verdict, (Span::new(0, 1), "`list`", hands), &mut report).as_deref(), Some(text));
    assert!(!report.has_errors());
    let said = report.finish().into_iter();
    said.map(|problem| format!("{}; {}", problem.message, problem.help.unwrap_or_default())).collect()
}

fn agent(tools: &[&str], workers: &[&str]) -> BuiltIn {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    BuiltIn { tools: Some(names(tools).into_iter().collect()), workers: names(workers), ..BuiltIn::default() }
}

#[test]
fn a_rule_about_nothing_that_the_agent_can_do_is_told_of() {
    use Verdict::{Allow, Ask, Deny};
    let nothing = "could be about";
    for (tools, verdict, rule, wanted) in [
        (&["Read"][..], Allow, "Bash(npm test *)", nothing),
        (&["Read"], Deny, "Bash", nothing),
        (&["Read"], Deny, "Edit(src/**)", nothing),
        (&["Read"], Ask, "Write", nothing),
        (&["Read"], Deny, "WebFetch(domain:example.com)", nothing),
        (&["Read"], Deny, "Bash(timeout:5)", nothing),
        (&["WebFetch"], Deny, "Read(.env)", nothing),
        (&["Agent"], Allow, "Agent(reviewer)", nothing),
        (&["Bash"], Deny, "Raed", "did you mean `Read`?"),
        (&["Bash"], Deny, "mcp__git__push", nothing),
        (&["Bash", "TodoWrite"], Deny, "TodoWrite", "disallowedTools: [TodoWrite]"),
        (&["Bash"], Deny, "Bash(rm *)", ""),
        (&["Bash"], Deny, "Read(.env)", ""),
        (&["Bash"], Deny, "Read", ""),
        (&["Bash"], Ask, "Edit(src/**)", ""),
        (&["Bash"], Deny, "WebFetch(domain:example.com)", ""),
        (&["Edit"], Deny, "Write", ""),
        (&["Grep"], Deny, "Read(.env)", ""),
        (&["Glob"], Ask, "LS", ""),
        (&["TodoWrite"], Allow, "TodoWrite", ""),
        (&["Read"], Deny, "Effect(gitPush)", ""),
        (&["Read"], Ask, "ExternalDirectory(*)", ""),
        (&["Read"], Deny, "*", ""),
    ] {
        let said = told(&Hands::of(&agent(tools, &[]), Mode::Work), verdict, rule);
        assert!(said.contains(wanted) && said.is_empty() == wanted.is_empty(), "{tools:?} {rule}: {said}");
    }
}

#[test]
fn modes_and_workers_change_what_a_rule_can_be_about() {
    let editor = agent(&["Read", "Edit"], &[]);
    assert_eq!(told(&Hands::of(&editor, Mode::Work), Verdict::Ask, "Edit(src/**)"), "");
    assert_ne!(told(&Hands::of(&editor, Mode::Review), Verdict::Ask, "Edit(src/**)"), "");
    // A deny holds for those that it starts, a grant and a question do not.
    let lead = Hands::of(&agent(&["Agent"], &["coder"]), Mode::Work);
    assert_eq!(told(&lead, Verdict::Deny, "Bash(rm *)"), "");
    assert_eq!(told(&lead, Verdict::Allow, "Agent(coder)"), "");
    assert_ne!(told(&lead, Verdict::Allow, "Bash(npm test *)"), "");
    assert_ne!(told(&lead, Verdict::Ask, "Bash(rm *)"), "");
    assert_ne!(told(&lead, Verdict::Deny, "Raed"), "");
}

#[test]
fn every_tool_is_known_by_what_it_does() {
    let named = LOOKS.into_iter().chain(CHANGES).chain(UNJUDGED).chain(["Bash", "WebFetch", "Agent"]);
    assert_eq!(named.collect::<BTreeSet<_>>(), Hands::any().own);
}
