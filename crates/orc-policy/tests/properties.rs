//! What must hold of every call, whatever it is: a rule more never lets more pass, a grant of a part never carries the whole,
//! and nothing that a shell makes the same turns a deny into a grant.
//!
//! `PROPTEST_CASES` says how many calls are tried.

#[path = "properties/calls.rs"]
mod calls;
#[path = "properties/disguise.rs"]
mod disguise;

use calls::{BOXES, call, command, modes, policy, rule, text};
use orc_policy::hook::{Posture, Said, heard};
use orc_policy::lint::{Written, lint};
use orc_policy::path::Around;
use orc_policy::policy::{Mode, Policy, Rules};
use orc_policy::rule::Rule;
use orc_policy::verdict::{Source, Verdict};
use orc_policy::view::{Call, View};
use proptest::prelude::*;
use serde_json::json;

/// The place of all calls here.
fn around() -> Around {
    let links = [("/srv/repo/link", "/etc"), ("/srv/repo/alias", "secrets"), ("/mnt/repo", "/srv/repo")];
    Around {
        cwd: "/srv/repo".to_owned(),
        home: "/home/dev".to_owned(),
        worktree: "/srv/repo".to_owned(),
        links: links.map(|(from, to)| (from.to_owned(), to.to_owned())).into(),
        shared: vec!["/srv/main".to_owned()],
    }
}

fn bash(text: &str) -> Call {
    Call::new("Bash", json!({ "command": text }))
}

/// Rules of a list; those that can't be read are none.
fn rules(deny: &[&str], ask: &[&str], allow: &[&str]) -> Rules {
    let mut rules = Rules::default();
    for (verdict, texts) in [(Verdict::Deny, deny), (Verdict::Ask, ask), (Verdict::Allow, allow)] {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        rules.add(verdict, &texts, Source::Project, "/srv/repo");
    }
    rules
}

/// As many as `PROPTEST_CASES` says. What fails becomes a case or a row of a table, not a seed in a file.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_deny_more_never_lets_more_pass(policy in policy(), call in call(), deny in rule()) {
        let before = policy.judge(&call, &around()).verdict;
        let mut more = policy.clone();
        more.rules.add(Verdict::Deny, std::slice::from_ref(&deny), Source::Project, "/srv/repo");
        let after = more.judge(&call, &around());
        prop_assert!(after.verdict >= before, "{deny} under {policy:?}: {before} became {}: {}", after.verdict, after.reason());
    }

    #[test]
    fn a_question_more_never_lets_more_pass(policy in policy(), call in call(), ask in rule()) {
        let before = policy.judge(&call, &around()).verdict;
        let mut more = policy.clone();
        more.rules.add(Verdict::Ask, std::slice::from_ref(&ask), Source::Project, "/srv/repo");
        let after = more.judge(&call, &around());
        prop_assert!(after.verdict >= before, "{ask} under {policy:?}: {before} became {}: {}", after.verdict, after.reason());
    }

    #[test]
    fn a_deny_above_never_lets_more_pass(policy in policy(), call in call(), deny in rule()) {
        let before = policy.judge(&call, &around()).verdict;
        let mut more = policy.clone();
        let deny = Rule::parse(&deny, Verdict::Deny, Source::Profile, "/srv/repo").into_iter().collect();
        more.above.push(orc_policy::policy::Above { who: "lead".to_owned(), deny, ..Default::default() });
        prop_assert!(more.judge(&call, &around()).verdict >= before);
    }

    #[test]
    fn a_grant_of_a_part_never_carries_the_whole(
        granted in prop::sample::select(disguise::GRANTED),
        other in prop::sample::select(disguise::CHANGES),
        form in prop::sample::select(disguise::TOGETHER),
        open in any::<bool>(),
    ) {
        let (text, program) = granted;
        let allow = if open { format!("Bash({program} *)") } else { format!("Bash({text})") };
        let policy = Policy { rules: rules(&[], &[], &[&allow]), trusted: true, ..Policy::default() };
        let whole = form.replace("{A}", text).replace("{B}", other);
        let decision = policy.judge(&bash(&whole), &around());
        prop_assert!(decision.verdict > Verdict::Allow, "`{whole}` under {allow}: {}", decision.reason());
    }

    #[test]
    fn what_is_known_stays_denied_in_any_disguise(
        denied in prop::sample::select(disguise::DENIED),
        seeds in prop::collection::vec((0_usize..64, any::<u64>()), 0..4),
        mode in modes(),
        boxed in prop::sample::select(BOXES),
    ) {
        let (rule, text) = denied;
        let disguised = seeds.into_iter().fold(text.to_owned(), |text, (which, seed)| disguise::known(&text, which, seed));
        let policy = Policy { rules: rules(&[rule], &[], &["*", "Bash(*)", "Edit(//**)"]), mode, boxed, trusted: true, ..Policy::default() };
        let decision = policy.judge(&bash(&disguised), &around());
        prop_assert_eq!(decision.verdict, Verdict::Deny, "`{}` under {}: {}", disguised, rule, decision.reason());
    }

    #[test]
    fn what_is_not_known_is_never_granted_where_something_is_denied(
        denied in prop::sample::select(disguise::DENIED),
        form in prop::sample::select(disguise::UNKNOWN),
        seeds in prop::collection::vec((0_usize..64, any::<u64>()), 0..3),
        mode in modes(),
        boxed in prop::sample::select(BOXES),
    ) {
        let (rule, text) = denied;
        let hidden = disguise::hidden(form, text);
        let disguised = seeds.into_iter().fold(hidden, |text, (which, seed)| disguise::known(&text, which, seed));
        let policy = Policy { rules: rules(&[rule], &[], &["*", "Bash(*)", "Edit(//**)"]), mode, boxed, trusted: true, ..Policy::default() };
        let decision = policy.judge(&bash(&disguised), &around());
        prop_assert!(decision.verdict > Verdict::Allow, "`{disguised}` under {rule}: {}", decision.reason());
    }

    #[test]
    fn a_file_is_the_same_file_however_its_path_is_spelled(
        denied in prop::sample::select(disguise::FILES),
        seeds in prop::collection::vec(any::<u64>(), 0..5),
        tool in prop::sample::select(&["Read", "Edit", "Write", "NotebookEdit"]),
        mode in modes(),
    ) {
        let (rule, path) = denied;
        let path = seeds.into_iter().fold(path.to_owned(), |path, seed| disguise::spelled(&path, seed));
        let policy = Policy { rules: rules(&[rule], &[], &["*"]), mode, ..Policy::default() };
        let call = Call::new(tool, json!({ "file_path": path, "content": "" }));
        let decision = policy.judge(&call, &around());
        prop_assert_eq!(decision.verdict, Verdict::Deny, "{} under {}: {}", path, rule, decision.reason());
    }

    #[test]
    fn nothing_panics_and_everything_has_a_reason(
        policy in policy(), command in command(), other in call(), text in text(), rule in rule(), says in 0_usize..3,
    ) {
        for call in [&command, &other] {
            let view = View::of(call, &around());
            let decision = policy.judge_view(&view, &around());
            prop_assert!(!decision.reason().is_empty());
            let explained = policy.explain(&view, &around());
            prop_assert_eq!(explained.decision, decision);
            prop_assert_eq!(explained.commands.len(), view.parts.len());
        }
        let says = [Verdict::Allow, Verdict::Ask, Verdict::Deny][says];
        let written = [text.as_str(), rule.as_str()].map(|text| Written {
            says, text: text.to_owned(), source: Source::Project, base: "/srv/repo".to_owned(),
        });
        prop_assert!(lint(&written).iter().all(|found| !found.what.is_empty() && !found.hint.is_empty()));
        drop(Call::written(&text));
        drop(orc_policy::case::read(&text));
        let said = heard("PreToolUse", &Said { code: Some(0), output: text.as_bytes(), errors: b"" }, Posture::Block);
        let nothing = text.trim().is_empty();
        prop_assert!(nothing || said.verdict(false).is_none_or(|(verdict, _)| verdict > Verdict::Allow));
    }
}

#[test]
fn the_modes_of_the_properties_are_all_that_there_are() {
    assert_eq!(Mode::ALL.len(), 6);
    assert!(disguise::TOGETHER.iter().all(|form| form.contains("{A}") && form.contains("{B}")));
    assert!(disguise::UNKNOWN.iter().all(|form| form.contains("{D}") || form.contains("{Q}") || form.contains("{W}")));
}
