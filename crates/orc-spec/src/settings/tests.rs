mod confine;
mod providers;

use super::*;

fn workspace(text: &str) -> (PartialSettings, Vec<String>) {
    let file = SourceFile::new("orchestrator.yaml", text);
    let (settings, told) = PartialSettings::parse(&file, FileKind::Workspace);
    let told = told.iter().map(|problem| {
        let at = file.position(problem.span.start);
        format!("{}:{} {}; {}", at.line, at.column, problem.message, problem.help.as_deref().unwrap_or_default())
    });
    (settings, told.collect())
}

fn told_rows(settings: &Settings) -> Vec<String> {
    settings.rows().into_iter().map(|(key, value, origin)| format!("{key} {value} {origin}")).collect()
}

#[test]
fn a_file_says_what_it_says_and_where() {
    let (settings, told) =
        workspace("# ours\nslots: 8\ncancel_grace: 5s\npass_env: [PATH, CARGO_HOME]\nlog_limit: 64MiB\n");
    assert_eq!(told, [""; 0]);
    let settings = Settings::resolve(&[settings]);
    let at = |line| Origin::Workspace("orchestrator.yaml".to_owned(), line);
    assert_eq!(settings.slots, Setting { value: 8, origin: at(2) });
    assert_eq!(settings.cancel_grace, Setting { value: Millis::from_secs(5), origin: at(3) });
    assert_eq!(settings.pass_env.value, ["PATH", "CARGO_HOME"]);
    assert_eq!(settings.log_limit, Setting { value: 64 * 1024 * 1024, origin: at(5) });
    assert_eq!(settings.slots.origin.to_string(), "orchestrator.yaml:2");
}

#[test]
fn the_highest_origin_wins_whatever_the_order_of_layers() {
    let file = |kind, name: &str, text: &str| PartialSettings::parse(&SourceFile::new(name, text), kind).0;
    let mut flags = PartialSettings::default();
    flags.set_from_flag("cancel_grace", "3s").unwrap();
    flags.set_from_flag("slots", "3").unwrap();
    let variables = PartialSettings::from_variables(|name| match name {
        "ORC_SLOTS" | "ORC_CANCEL_GRACE" => None,
        "ORC_LOG_LIMIT" => Some("1 kB".to_owned()),
        _ => Some("A,B C".to_owned()),
    });
    let mut layers = vec![
        file(FileKind::Managed, "/etc/orchestrator/settings.yaml", "slots: 2\nretention: { runs: 30d }"),
        flags,
        variables.unwrap(),
        file(
            FileKind::Workspace,
            "orchestrator.yaml",
            "slots: 9\ncancel_grace: 9s\nlog_limit: 9\nretention: { runs: 1d, logs: 2h }",
        ),
    ];
    for _ in 0..layers.len() {
        layers.rotate_left(1);
        let settings = Settings::resolve(&layers);
        let rows = told_rows(&settings);
        let wanted = [
            "slots 2 /etc/orchestrator/settings.yaml:1",
            "cancel_grace 3s command line",
            "pass_env A B C environment ORC_PASS_ENV",
            "log_limit 1000B environment ORC_LOG_LIMIT",
            "people  default",
            "groups  default",
            "notifications  default",
            "retention.runs 30d /etc/orchestrator/settings.yaml:2",
            "retention.logs 2h orchestrator.yaml:4",
            "retention.events for ever default",
        ];
        assert_eq!(rows[..10], wanted);
    }
    let defaults = Settings::resolve(&[]);
    assert_eq!(defaults.slots, Setting { value: DEFAULT_SLOTS, origin: Origin::Default });
    assert!(defaults.rows().iter().all(|(_, _, origin)| origin.to_string() == "default"));
}

#[test]
fn a_size_is_shown_as_it_is_written() {
    for (bytes, text) in [(1000, "1000B"), (64 << 20, "64MiB"), (1536, "1536B"), (3 << 30, "3GiB")] {
        assert_eq!(size_text(bytes), text);
        assert_eq!(read::parse_size(text), Some(bytes));
    }
}

#[test]
fn mistakes_are_told_all_at_once() {
    let text = "slotz: 3\nslots: 0\ncancel_grace: 10\npass_env: PATH\nlog_limit: 64 megs\ngithub: {}\nslots: 2\n";
    let wanted = [
        "1:1 the settings file has no key `slotz`; did you mean `slots`?",
        "2:8 `slots` needs a whole number from 1 to 10000, not 0; ",
        "3:15 `cancel_grace` needs a length of time such as `30s` or `1h30m`, not `10`; add the unit: `10s` or `10m`",
        "4:11 `pass_env` needs a list of names, not `PATH`; ",
        "5:12 `log_limit` needs a number of bytes such as `64MiB` or `1_000_000`, not `64 megs`; the units are B, kB, MB, GB, KiB, MiB and GiB",
        "6:1 `github` is not available yet; ",
        "7:1 the key `slots` stands here a second time; keep one of them; which one YAML readers use differs",
    ];
    assert_eq!(workspace(text).1, wanted);
    let (_, told) = workspace("pass_env: [A=1, 'x y']\n");
    assert!(told[0].contains("only the name"), "{told:?}");
    assert_eq!(told.len(), 2);
}

#[test]
fn keys_of_later_versions_are_refused() {
    for key in keys::SETTINGS.keys.iter().filter(|key| !key.is_available()) {
        let (settings, told) = workspace(&format!("{}: {{ x: 1 }}\n", key.name));
        assert_eq!(told, [format!("1:1 `{}` is not available yet; ", key.name)]);
        assert_eq!(settings, PartialSettings::default());
    }
}

#[test]
fn ages_that_cannot_be_read_are_told_with_their_place() {
    let (settings, told) = workspace("retention:\n  runs: 30\n  log: 3d\n  flows: 1d\n  events: 0s\n");
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].starts_with("2:9 ") && told[1].contains("did you mean `logs`"), "{told:?}");
    assert!(told[2].contains("write `runs:`") && told[3].starts_with("5:11 "), "{told:?}");
    assert_eq!(settings.retention, PartialRetention::default());
    let nothing = workspace("retention: {}\n");
    assert_eq!(nothing.0, PartialSettings::default());
}

#[test]
fn an_empty_file_says_nothing() {
    for text in ["", "\n", "# slots: 3\n"] {
        assert_eq!(workspace(text), (PartialSettings::default(), Vec::new()));
    }
}

#[test]
fn variables_and_flags_that_cannot_be_read_are_errors() {
    let errors = PartialSettings::from_variables(|_| Some("-1".to_owned())).unwrap_err();
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(told[0], "ORC_SLOTS: `-1` is not a whole number from 1 to 10000");
    assert_eq!(told.len(), 4);
    let mut flags = PartialSettings::default();
    let error = flags.set_from_flag("log_limit", "0").unwrap_err();
    assert_eq!(error.to_string(), "--log-limit: `0` is not a number of bytes such as `64MiB`");
    assert!(flags.set_from_flag("slotz", "1").is_err());
}

#[test]
fn every_variable_sets_a_key_that_exists() {
    for (variable, key) in VARIABLES {
        assert!(keys::SETTINGS.key(key).is_some_and(keys::Key::is_available), "{variable}");
    }
}

#[test]
fn people_groups_and_notifications() {
    let (settings, told) = workspace(
        "people:\n  alice: { os: 1000, github: 123, role: admin }\n  bob: { github: 5_000 }\n\
         groups: { maintainers: [bob, alice, bob], nobody: [] }\n\
         notifications:\n- command: [notify, 1]\n- { webhook: env:HOOK, secret: env:HOOK_SECRET, on: [flow_failed] }\n\
         - { webhook: \"https://example.com/x\" }\n",
    );
    assert_eq!(told, [""; 0]);
    let settings = Settings::resolve(&[settings]);
    let person = |os, github, role| Person { os, github, role };
    assert_eq!(settings.people.value["alice"], person(Some(1000), Some(123), Role::Admin));
    assert_eq!(settings.people.value["bob"], person(None, Some(5000), Role::Read));
    assert_eq!(settings.groups.value["maintainers"], ["bob", "alice"]);
    assert_eq!(settings.names().into_iter().collect::<Vec<_>>(), ["alice", "bob", "maintainers", "nobody"]);
    let usual = BTreeSet::from([Moment::Request, Moment::Incident]);
    let webhook = |url, secret: Option<&str>| Target::Webhook { url, secret: secret.map(str::to_owned) };
    let wanted = [
        (Target::Command(vec!["notify".to_owned(), "1".to_owned()]), usual.clone()),
        (webhook(Address::Variable("HOOK".to_owned()), Some("HOOK_SECRET")), BTreeSet::from([Moment::FlowFailed])),
        (webhook(Address::Url("https://example.com/x".to_owned()), None), usual),
    ];
    assert_eq!(settings.notifications.value, wanted.map(|(target, on)| Notification { target, on }));
    let rows = told_rows(&settings);
    assert_eq!(
        rows[4..7],
        [
            "people alice bob orchestrator.yaml:1",
            "groups maintainers nobody orchestrator.yaml:4",
            "notifications notify webhook webhook orchestrator.yaml:5",
        ]
    );
}

#[test]
fn people_groups_and_notifications_that_cannot_be() {
    let cases = [
        ("people: { a: {} }", "1:11 nothing says how `a` is recognised"),
        ("people: { a: { os: x } }", "1:20 `os` needs a whole number"),
        ("people: { a: { github: 0 } }", "1:24 `github` needs a whole number"),
        ("people: { a: { os: 0, role: owner } }", "1:29 `role` needs one of"),
        ("people: { a b: { os: 0 } }", "1:11 `a b` cannot be the name of a person"),
        ("people: { a: { os: 0 }, b: { os: 0 } }", "1:25 `a` and `b` have the same account: `os: 0`"),
        ("people: [alice]", "1:9 `people` needs a map"),
        ("people: { a: { uid: 1, os: 1 } }", "1:16 a person has no key `uid`; write `os:`"),
        (
            "people: { alice: { os: 0 } }\ngroups: { g: [alcie] }",
            "2:15 there is no person `alcie`; did you mean `alice`?",
        ),
        ("people: { alice: { os: 0 } }\ngroups: { alice: [alice] }", "2:11 `alice` is a person already"),
        ("groups: { g: { alice: 1 } }", "1:14 the group `g` needs a list of people"),
        ("notifications: { command: [x] }", "1:16 `notifications` needs a list"),
        ("notifications: [{ command: x }]", "1:28 `command` needs a program with its arguments as a list"),
        ("notifications: [{ command: [] }]", "1:28 `command` needs a program"),
        ("notifications: [{}]", "1:17 this notification does not say where it goes"),
        ("notifications: [{ webhook: example.com }]", "1:28 `webhook` needs an address"),
        ("notifications: [{ webhook: \"env:A B\" }]", "1:28 this cannot be the name"),
        (
            "notifications: [{ webhook: \"https://x\", secret: hunter2 }]",
            "1:49 a secret does not stand in a file; put it",
        ),
        ("notifications: [{ command: [x], secret: env:A }]", "1:33 `secret` has a meaning beside `webhook` only"),
        ("notifications: [{ command: [x], webhook: env:A }]", "1:42 a notification has `command` or `webhook`"),
        ("notifications: [{ command: [x], on: [requests] }]", "1:38 `on` needs one of `request`"),
        ("notifications: [{ url: env:A }]", "1:19 a notification has no key `url`; write `webhook:`"),
    ];
    for (text, wanted) in cases {
        let told = workspace(text).1;
        assert!(told.len() == 1 && told[0].starts_with(wanted), "{text}: {told:?}");
    }
    assert!(!workspace("notifications: [{ webhook: \"https://x\", secret: hunter2 }]").1[0].contains("hunter2"));
    // Whoever stands in a group may be a person of the machine's file.
    assert_eq!(workspace("groups: { g: [alice] }").1, [""; 0]);
}
