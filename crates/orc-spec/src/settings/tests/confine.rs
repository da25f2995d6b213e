//! Boxes, copies, secrets and domains.

use super::*;

fn resolved(text: &str) -> Settings {
    let (settings, told) = workspace(text);
    assert_eq!(told, [""; 0], "{text}");
    Settings::resolve(&[settings])
}

fn of_layers(managed: &str, own: &str) -> Settings {
    let file = |kind, name: &str, text: &str| PartialSettings::parse(&SourceFile::new(name, text), kind).0;
    Settings::resolve(&[
        file(FileKind::Workspace, "orchestrator.yaml", own),
        file(FileKind::Managed, "/etc/orchestrator/orchestrator.yaml", managed),
    ])
}

#[test]
fn what_is_not_said_has_a_default() {
    let rows = told_rows(&Settings::resolve(&[]));
    let wanted = [
        "sandbox required default",
        "worktree.strategy auto default",
        "worktree.max_file_mb 1024 default",
        "secrets  default",
        "agents_domain agents.orchestrator.local default",
        "box.uid none default",
        "box.gid none default",
        "box.read all that is not hidden default",
        "box.write all that is not hidden default",
        "box.network all that is not hidden default",
        "box.env all that is not hidden default",
        "box.limits.processes 512 default",
        "box.limits.memory_mb 8192 default",
        "box.limits.disk_mb 10240 default",
        "box.limits.open_files 4096 default",
    ];
    assert_eq!(rows[10..10 + wanted.len()], wanted);
}

#[test]
fn everything_is_shown_with_its_place() {
    let settings = resolved(
        "sandbox: required\nworktree: { strategy: clone, max_file_mb: 0 }\nagents_domain: Agents.Example.COM\n\
         box:\n  uid: 4711\n  gid: 4712\n  read: [~/.rustup//, /opt]\n  write: []\n  network: [Example.com]\n  env: [LANG]\n  \
         limits:\n    processes: 64\n    memory_mb: 0\n    disk_mb: 1_000\n    open_files: 128\n\
         secrets:\n  TOKEN: { env: HOST_TOKEN }\n  KEY: { file: ~/.config/key }\n",
    );
    let rows = told_rows(&settings);
    let wanted = [
        "sandbox required orchestrator.yaml:1",
        "worktree.strategy clone orchestrator.yaml:2",
        "worktree.max_file_mb no bound orchestrator.yaml:2",
        "secrets KEY TOKEN orchestrator.yaml:16",
        "agents_domain agents.example.com orchestrator.yaml:3",
        "box.uid 4711 orchestrator.yaml:5",
        "box.gid 4712 orchestrator.yaml:6",
        "box.read /opt ~/.rustup orchestrator.yaml:7",
        "box.write nothing orchestrator.yaml:8",
        "box.network example.com orchestrator.yaml:9",
        "box.env LANG orchestrator.yaml:10",
        "box.limits.processes 64 orchestrator.yaml:12",
        "box.limits.memory_mb no bound orchestrator.yaml:13",
        "box.limits.disk_mb 1000 orchestrator.yaml:14",
        "box.limits.open_files 128 orchestrator.yaml:15",
    ];
    assert_eq!(rows[10..10 + wanted.len()], wanted);
    let source = |name: &str| settings.secrets.value[name].clone();
    assert_eq!(source("TOKEN"), SecretSource::Variable("HOST_TOKEN".to_owned()));
    assert_eq!(source("KEY"), SecretSource::File("~/.config/key".to_owned()));
}

#[test]
fn the_owner_of_the_machine_says_the_last_word() {
    let settings = of_layers(
        "box: { uid: 9, read: [/opt], limits: { processes: 9 } }",
        "box: { uid: 7, gid: 7, read: [/x], limits: { disk_mb: 7 } }",
    );
    // The group of another user is not taken over.
    assert_eq!((settings.boxes.uid.value, settings.boxes.gid.value), (Some(9), None));
    assert_eq!(settings.boxes.read.value, Some(BTreeSet::from(["/opt".to_owned()])));
    assert_eq!((settings.boxes.processes.value, settings.boxes.disk_mb.value), (9, 7));
}

#[test]
fn mistakes_are_told_with_place_cause_and_advice() {
    let cases = [
        ("sandbox: no", "1:10 `sandbox` needs one of `required`, not `no`"),
        ("sandbox: requierd", "1:10 `sandbox` needs one of `required`, not `requierd`; did you mean `required`?"),
        (
            "sandbox: off",
            "1:10 `sandbox: off` is not available: private copies are made and read in boxes, and a rule about the \
             network, a secret or a limit would hold for nobody; write `worktree: in_place` on the steps",
        ),
        ("worktree: { strategy: reflink }", "1:23 `strategy` needs one of `auto`, `overlay`, `btrfs`, `clone`"),
        ("worktree: { from: fresh }", "1:13 `worktree` of the settings has no key `from`; it is a pipeline that says"),
        ("worktree: { max_file_mb: -1 }", "1:26 `max_file_mb` needs a whole number from 0"),
        ("worktree: clone", "1:11 `worktree` of the settings needs a map"),
        ("box: { uid: 0 }", "1:13 `uid: 0` is root, and nothing in a box is root; name a user"),
        ("box: { uid: 1, gid: 0 }", "1:21 `gid: 0` is root"),
        ("box: { uid: 4294967295 }", "1:13 `uid` needs a whole number from 1 to 4294967294"),
        ("box: { uid: nobody }", "1:13 `uid` needs a whole number"),
        ("box: { gid: 5 }", "1:8 `gid` has a meaning beside `uid` only; add `uid:`"),
        ("box: { user: a }", "1:8 `box` of the settings has no key `user`; write `uid:`"),
        ("box: { read: /opt }", "1:14 `read` needs a list; write `read: [/opt]`"),
        ("box: { read: [/] }", "1:15 `/` is the whole machine"),
        ("box: { write: [/etc] }", "1:16 `/etc` belongs to the system"),
        ("box: { network: [localhost/x] }", "1:18 `localhost/x` is not a host"),
        ("box: { env: [A B] }", "1:14 `A B` cannot be the name of an environment variable"),
        ("box: { processes: 9 }", "1:8 `box` of the settings has no key `processes`; write it within: `limits:"),
        ("box: { limits: { memory: 1 } }", "1:18 `limits` has no key `memory`; write `memory_mb:`"),
        ("box: { limits: { processes: 0 } }", "1:29 `processes` needs a whole number from 1"),
        ("box: { limits: { memory_mb: 8GiB } }", "1:29 `memory_mb` needs a whole number from 0"),
        ("agents_domain: a b", "1:16 `agents_domain` needs the name of a domain, not `a b`; write it as"),
        ("agents_domain: 10.0.0.1", "1:16 `agents_domain` needs the name of a domain"),
        ("agents_domain: \"x>\\n<y\"", "1:16 `agents_domain` needs the name of a domain"),
        ("secrets: [TOKEN]", "1:10 `secrets` needs a map"),
        ("secrets: { TOKEN: hunter2 }", "1:19 the value of a secret does not stand in a file of settings; say where"),
        ("secrets: { TOKEN: [hunter2] }", "1:19 the value of a secret does not stand in a file of settings; say where"),
        (
            "secrets: { TOKEN: { value: hunter2 } }",
            "1:21 a secret has no key `value`; a secret does not stand in a file",
        ),
        ("secrets: { TOKEN: { env: hunter-2 } }", "1:26 this cannot be the name of an environment variable"),
        ("secrets: { TOKEN: { file: hunter2 } }", "1:27 `file` needs a path that is absolute or below `~/`; a secret"),
        ("secrets: { TOKEN: { file: ../hunter2 } }", "1:27 `file` needs a path that is absolute"),
        ("secrets: { TOKEN: {} }", "1:19 this secret does not say where it is found"),
        ("secrets: { TOKEN: { env: A, file: /a } }", "1:35 a secret is found in one place"),
        ("secrets: { to-ken: { env: A } }", "1:12 `to-ken` cannot be the name of an environment variable"),
        ("secrets: { ORC_TOKEN: { env: A } }", "1:12 `ORC_TOKEN` begins with `ORC_`"),
    ];
    for (text, wanted) in cases {
        let told = workspace(text).1;
        assert!(told.len() == 1 && told[0].starts_with(wanted), "{text}: {told:#?}");
        assert!(!told[0].contains("hunter"), "what may be a secret is not repeated: {told:#?}");
    }
}
