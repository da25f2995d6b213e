//! Programs that try to get out of their box by what they leave behind: in their private copy, whose work the orchestrator
//! collects afterwards with git, in their outputs and artifacts, and in what they print.
//!
//! Each trial is two steps: one that plants something, and one that gets the result as everybody after it does and looks
//! whether it is what was really written. All of it is done twice, started by root and by an ordinary user. That nothing
//! of it had an effect outside is looked at from outside. What a program can try while it runs, without repositories, is
//! tried in `crates/orc-process/tests/attacks`.
#![expect(clippy::disallowed_methods, reason = "these tests start the program as a user does")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a world that cannot be made fails its test")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Who the ordinary user is, and who is in boxes that root starts. No machine has them.
const ORDINARY: u32 = 61_234;
const BOX: u32 = 61_235;
/// Text that no step may ever see, and no log may hold.
const CANARY: &str = "canary-7f31c02e";

/// Something that is left behind.
struct Trial {
    name: &'static str,
    /// Plants it. `$EVIL` is a program that leaves its mark wherever it can.
    plant: &'static str,
    /// Looks at the result; with its own start of what the planting step did.
    check: &'static str,
    /// What it planted is refused: its step fails, for this reason.
    refused: Option<&'static str>,
}

/// Before every script: `$EVIL` is made when it is asked for; `keeps FILE TEXT` is what must have been kept.
const PRELUDE: &str = r#"
set -eu
evil() {
    EVIL="$PWD/.git/evil"; { echo '#!/bin/sh'; echo "for one in '$OUTSIDE' '$REPO' '$REPO/.git' '$DATA' /tmp '$PWD' /orc/trees; do echo ran >\"\$one/hook-ran\"; done 2>/dev/null"
    echo 'cat 2>/dev/null || true'; } >"$EVIL"; chmod 755 "$EVIL"
}
keeps() { [ "$(cat "$1")" = "$2" ] || { echo "BREACH $1: $(cat "$1")"; exit 1; }; }
stranger() { [ ! -e canary ] || exit 1; ! git log --all --format= --name-only | grep -qx canary || exit 1; ! git cat-file -e "$SECRET" 2>/dev/null || exit 1; }
calm() { [ ! -e hook-ran ] || { echo "BREACH it ran"; exit 1; }; keeps first changed; [ -z "$(git status --porcelain)" ]; git fsck --strict >/dev/null 2>&1; }
"#;

const TRIALS: &[Trial] = &[
    Trial {
        name: "hooks",
        plant: r#"evil; for one in applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg \
            post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update \
            reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change; do mkdir -p .git/hooks; cp "$EVIL" ".git/hooks/$one"; done; echo changed >first"#,
        check: "calm",
        refused: None,
    },
    Trial {
        name: "huge",
        plant: r#"truncate -s 300M huge; echo x >small; ln huge 'odd & | \ name'; echo changed >first"#,
        check: "calm; keeps small x; [ ! -e huge ]",
        refused: None,
    },
    Trial {
        name: "hooks_path",
        plant: r#"evil; mkdir hooks; for one in pre-commit post-commit reference-transaction post-index-change post-checkout; do cp "$EVIL" hooks/$one; done
        git config core.hooksPath "$PWD/hooks"; echo changed >first"#,
        check: "calm",
        refused: None,
    },
    Trial {
        name: "monitor",
        plant: r#"evil; git config core.fsmonitor "$EVIL"; git config core.fsmonitorHookVersion 2; echo changed >first"#,
        check: "calm",
        refused: None,
    },
    Trial {
        name: "filters",
        plant: r#"evil; git config filter.evil.clean "$EVIL; echo filtered"; git config filter.evil.smudge "$EVIL"; git config filter.evil.process "$EVIL"
        git config filter.evil.required true; mkdir -p .git/info; echo '* filter=evil' >.git/info/attributes; echo '* filter=evil' >.gitattributes; echo changed >first"#,
        check: "calm; keeps .gitattributes '* filter=evil'",
        refused: None,
    },
    Trial {
        name: "drivers",
        plant: r#"evil; git config diff.external "$EVIL"; git config diff.evil.command "$EVIL"; git config diff.evil.textconv "$EVIL"
        git config merge.evil.driver "$EVIL"; git config merge.default evil; echo '* diff=evil merge=evil text=auto eol=crlf ident' >.gitattributes; echo changed >first"#,
        check: "[ ! -e hook-ran ]; [ \"$(tr -d '\\r' <first)\" = changed ]",
        refused: None,
    },
    Trial {
        name: "programs",
        plant: r#"evil; for one in core.pager core.editor core.sshCommand core.gitProxy core.askPass credential.helper gpg.program gpg.ssh.program \
            sequence.editor uploadpack.packObjectsHook trailer.x.command interactive.diffFilter core.alternateRefsCommand remote.origin.uploadpack \
            remote.origin.vcs pager.log pager.diff alias.commit alias.add alias.status; do git config "$one" "$EVIL"; done
        git config commit.gpgSign true; git config tag.gpgSign true; git config log.showSignature true; git config maintenance.auto true
        git config gc.auto 1; git config fetch.fsckObjects false; git config core.checkRoundtripEncoding x; echo changed >first"#,
        check: "calm",
        refused: None,
    },
    Trial {
        name: "includes",
        plant: r#"git config include.path "$OUTSIDE/config"; git config includeIf.gitdir:/.path "$OUTSIDE/config"
        git config core.attributesFile "$OUTSIDE/canary"; git config core.excludesFile "$OUTSIDE/canary"; git config commit.template "$OUTSIDE/canary"; echo changed >first"#,
        check: "calm",
        refused: None,
    },
    Trial {
        name: "worktree",
        plant: r#"echo changed >first; printf '[core]\n\tbare = true\n\tworktree = %s\n' "$OUTSIDE" >>.git/config"#,
        check: "calm; [ ! -e canary ]",
        refused: None,
    },
    Trial {
        name: "alternates",
        plant: r#"echo changed >first; echo "$OUTSIDE/repo/.git/objects" >.git/objects/info/alternates; echo "$REPO/.git/objects" >>.git/objects/info/alternates
        git update-ref refs/heads/theirs "$SECRET" || true; echo "$SECRET" >.git/refs/heads/stolen; echo "$SECRET" >.git/MERGE_HEAD"#,
        check: "keeps first changed; stranger",
        refused: None,
    },
    Trial {
        name: "head_outside",
        plant: r#"echo changed >first; echo "$OUTSIDE/repo/.git/objects" >.git/objects/info/alternates; echo "$SECRET" >.git/HEAD"#,
        check: "keeps first changed; stranger",
        refused: None,
    },
    Trial {
        name: "git_file",
        plant: r#"echo changed >first; mv .git away; echo "gitdir: $OUTSIDE/repo/.git" >.git; rm -rf away"#,
        check: "keeps first changed; stranger",
        refused: None,
    },
    Trial {
        name: "git_link",
        plant: r#"echo changed >first; rm -rf .git; ln -s "$REPO/.git" .git"#,
        check: "keeps first changed; [ -d .git ]",
        refused: None,
    },
    Trial {
        name: "objects_link",
        plant: r#"echo changed >first; mv .git/objects .git/away; ln -s "$OUTSIDE/repo/.git/objects" .git/objects; rm -rf .git/refs; ln -s "$OUTSIDE/repo/.git/refs" .git/refs"#,
        check: "keeps first changed; stranger",
        refused: None,
    },
    Trial {
        name: "git_removed",
        plant: "echo changed >first; rm -rf .git; git init -q .; git -c user.name=x -c user.email=x commit -q --allow-empty -m other",
        check: "keeps first changed",
        refused: None,
    },
    Trial {
        name: "nested",
        plant: r#"evil; echo changed >first; mkdir -p inner bare.git; (cd inner; git init -q .; git config core.fsmonitor "$EVIL"; mkdir -p .git/hooks; cp "$EVIL" .git/hooks/pre-commit; echo x >x)
        git init -q --bare bare.git; git --git-dir=bare.git config core.fsmonitor "$EVIL"; mkdir planted; cp -r bare.git/* planted/"#,
        check: "calm; [ ! -d inner/.git ]",
        refused: None,
    },
    Trial {
        name: "submodule",
        plant: r#"evil; echo changed >first; { echo '[submodule "x"]'; echo 'path = x'; echo 'url = ext::sh -c touch% /tmp/hook-ran'; echo "update = !$EVIL"; } >.gitmodules
        git config submodule.x.url "ext::$EVIL"; git config submodule.x.update "!$EVIL"; git config protocol.ext.allow always; git config submodule.recurse true
        git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,x; mkdir -p x .git/modules/x; echo 'gitdir: ../.git/modules/x' >x/.git
        git init -q --bare .git/modules/x; git --git-dir=.git/modules/x config core.fsmonitor "$EVIL"; git --git-dir=.git/modules/x config core.worktree "$OUTSIDE""#,
        check: "false",
        refused: Some("gitmodules"),
    },
    Trial {
        name: "gitlink",
        plant: r#"evil; echo changed >first; git config submodule.x.url "ext::$EVIL"; git config submodule.x.update "!$EVIL"; git config protocol.ext.allow always
        git config submodule.recurse true; git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,x; mkdir -p x .git/modules
        echo 'gitdir: ../.git/modules/x' >x/.git; git init -q --bare .git/modules/x; git --git-dir=.git/modules/x config core.fsmonitor "$EVIL"
        git --git-dir=.git/modules/x config core.bare false; git --git-dir=.git/modules/x config core.worktree "$OUTSIDE""#,
        check: "keeps first changed; [ ! -e hook-ran ]; [ ! -e x/canary ]",
        refused: None,
    },
    Trial {
        name: "pipes",
        plant: r#"echo changed >first; mkfifo pipe; mkfifo .gitattributes; mkdir deep; mkfifo deep/.gitignore deep/.gitattributes
        mknod socket p 2>/dev/null || true; ln -s pipe link; ln -s /dev/zero zero; ln -s /proc/self/mem memory"#,
        check: "calm; [ ! -e pipe ]; [ \"$(readlink zero)\" = /dev/zero ]",
        refused: None,
    },
    Trial {
        name: "pipes_in_git",
        plant: r#"echo changed >first; mkdir -p .git/info .git/objects/info; for one in HEAD config index packed-refs info/exclude info/attributes info/grafts shallow MERGE_HEAD refs/heads/pipe objects/info/alternates; do
            rm -rf ".git/$one"; mkfifo ".git/$one"; done"#,
        check: "keeps first changed; git fsck >/dev/null 2>&1",
        refused: None,
    },
    Trial {
        name: "pipes_in_objects",
        plant: r#"echo changed >first; git -c user.name=x -c user.email=x commit -qam one; for id in $(git rev-parse HEAD 'HEAD^{tree}' HEAD:first); do
            file=.git/objects/$(echo "$id" | cut -c 1-2)/$(echo "$id" | cut -c 3-); rm -f "$file"; mkfifo "$file"; done
        mkdir -p .git/objects/pack; mkfifo .git/objects/pack/pack-1111111111111111111111111111111111111111.idx .git/objects/info/commit-graph; touch .git/objects/pack/pack-1111111111111111111111111111111111111111.pack"#,
        check: "keeps first changed; git fsck >/dev/null 2>&1",
        refused: None,
    },
    Trial {
        name: "pipes_in_nested",
        plant: r#"echo changed >first; git init -q inner; echo kept >inner/file; for one in HEAD config index packed-refs; do rm -f inner/.git/$one; mkfifo inner/.git/$one; done
        mkdir -p planted/objects planted/refs; mkfifo planted/HEAD planted/config"#,
        check: "keeps first changed",
        refused: None,
    },
    Trial {
        name: "links_in_git",
        plant: r#"echo changed >first; mkdir -p .git/info; for one in HEAD config index packed-refs info/exclude info/attributes shallow refs/heads/link COMMIT_EDITMSG; do
            rm -rf ".git/$one"; ln -s "$OUTSIDE/canary" ".git/$one"; done; rm -rf .git/logs; ln -s "$OUTSIDE" .git/logs"#,
        check: "keeps first changed; stranger",
        refused: None,
    },
    Trial {
        name: "links_outside",
        plant: r#"echo changed >first; ln -s "$OUTSIDE" outside; ln -s "$OUTSIDE/canary" canary; ln -s "$DATA" data; rm -rf second; ln -s "$OUTSIDE" second"#,
        check: "calm; [ -L canary ]; [ ! -e canary ]; [ -L second ]; echo made 2>/dev/null >second/made && exit 1 || true",
        refused: None,
    },
    Trial {
        name: "names",
        plant: r#"echo changed >first; mkdir odd; cd odd; echo 1 >"$(printf 'new\nline')"; echo 2 >'-rf'; echo 3 >'a"b'; echo 4 >'$(touch hook-ran)'; echo 5 >'a;b'
        echo 6 >"$(printf 'tab\tend')"; echo 7 >"$(printf '\303\244')"; echo 8 >Case; echo 9 >case; echo 10 >':(top)x'; echo 11 >' '; echo 12 >'a\b'; echo 13 >"$(printf '\377')""#,
        check: r#"calm; cd odd; keeps "$(printf 'new\nline')" 1; keeps ./-rf 2; keeps 'a"b' 3; keeps '$(touch hook-ran)' 4; keeps Case 8; keeps case 9; keeps ':(top)x' 10; keeps ' ' 11; [ "$(ls -A | wc -l)" = 14 ]"#,
        refused: None,
    },
    Trial {
        name: "references",
        plant: r#"echo changed >first; git -c user.name=x -c user.email=x commit -qam one; id=$(git rev-parse HEAD); mkdir -p .git/refs/heads/deep
        echo "$id" >'.git/refs/heads/$(touch hook-ran)'; echo "$id" >.git/refs/heads/--upload-pack=x; echo "$id" >'.git/refs/heads/a b'; echo "ref: refs/../../../../outside" >.git/refs/heads/up
        echo "$id refs/heads/../../../../x" >>.git/packed-refs; mkdir -p .git/refs/replace; echo "$id" >".git/refs/replace/$(git rev-parse HEAD~0^)""#,
        check: "calm",
        refused: None,
    },
    Trial {
        name: "trees",
        plant: r#"echo changed >first; blob=$(echo evil | git hash-object -w --stdin); sub=$(printf '100755 blob %s\tpre-commit\n' "$blob" | git mktree)
        git=$(printf '040000 tree %s\thooks\n' "$sub" | git mktree)
        tree=$(printf '040000 tree %s\t.git\n100644 blob %s\tfirst\n' "$git" "$blob" | git mktree)
        up=$(printf '040000 tree %s\t..\n040000 tree %s\t.GIT\n' "$tree" "$git" | git mktree)
        for one in "$tree" "$up"; do commit=$(git -c user.name=x -c user.email=x commit-tree "$one" -p HEAD -m evil </dev/null); git update-ref "refs/heads/$one" "$commit"; done; git update-ref HEAD "$commit""#,
        check: "! cat .git/hooks/pre-commit 2>/dev/null | grep -q evil; [ ! -e ../first ]; keeps first changed",
        refused: None,
    },
    Trial {
        name: "closed",
        plant: "echo changed >first; mkdir closed; echo kept >closed/file; chmod 000 closed/file closed; chmod 000 second; chmod -R a-w .git",
        check: "keeps first changed; keeps closed/file kept",
        refused: None,
    },
    Trial {
        name: "many",
        plant: r#"echo changed >first; perl -e 'mkdir "many"; for (1 .. 2000) { open my $f, ">", "many/$_" or die; print $f "$_\n" }'
        perl -e 'my $d = 0; while ($d < 2200) { mkdir "d" or last; chdir "d" or last; $d++ } open my $f, ">", "deep"; '"#,
        check: "keeps first changed; [ \"$(ls many | wc -l)\" = 2000 ]",
        refused: None,
    },
    Trial {
        name: "others",
        plant: r#"echo changed >first; for one in "$DATA" "$OUTSIDE" "$REPO" "$REPO/.git/config" "$DATA/orchestrator.db" /root /home/"$USER"/.ssh; do ! ls "$one" 2>/dev/null || { echo "BREACH $one"; exit 1; }; done
        git worktree add -q "$OUTSIDE/added" 2>/dev/null || true; ! git clone -q "$OUTSIDE/repo" stolen 2>/dev/null || { echo BREACH; exit 1; }
        ! git push -q "$REPO" HEAD:refs/heads/pushed 2>/dev/null || { echo BREACH; exit 1; }; ! env | grep -q canary- || { echo BREACH; exit 1; }
        ! cat /proc/*/environ 2>/dev/null | grep -qa canary- || { echo BREACH; exit 1; }"#,
        check: "calm; [ -z \"$(find / -name hook-ran -not -path '/proc/*' 2>/dev/null)\" ]",
        refused: None,
    },
];

/// A machine: a repository, what lies beside it, and the program as somebody started it.
struct Machine {
    dir: tempfile::TempDir,
    user: u32,
    program: PathBuf,
}

impl Machine {
    fn new(user: u32) -> Self {
        let dir = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
        let root = rustix::process::geteuid().is_root();
        assert!(root || user != 0, "this test starts the program as root: run it with sudo, or in a container");
        let program = dir.path().join("orchestrator");
        fs::copy(env!("CARGO_BIN_EXE_orchestrator"), &program).unwrap();
        let user = if root { user } else { rustix::process::geteuid().as_raw() };
        let machine = Self { dir, user, program };
        for name in ["repo", "repo/pipelines", "outside", "outside/repo", "home", "data"] {
            fs::create_dir(machine.path(name)).unwrap();
            machine.own(&machine.path(name));
        }
        fs::set_permissions(machine.path("outside"), fs::Permissions::from_mode(0o777)).unwrap();
        machine.write("outside/canary", CANARY);
        machine.write("outside/config", &format!("[user]\n\tname = {CANARY}\n"));
        machine.write("outside/repo/canary", CANARY);
        machine.write("repo/first", "first");
        machine.write("repo/second", "second");
        for repository in ["outside/repo", "repo"] {
            let script = "git init -q -b main . && git add . && git -c user.name=x -c user.email=x@x.invalid commit -q -m one && git repack -q";
            machine.shell(&machine.path(repository), script);
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn own(&self, path: &Path) {
        chown(path, Some(self.user), Some(self.user)).unwrap();
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.own(&self.path(name));
    }

    /// A command as this user, with nothing of our environment.
    fn command(&self, program: &Path, directory: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(directory).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.path("home")).env("ORC_DATA", self.path("data")).env("TOLD", CANARY);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if rustix::process::geteuid().is_root() && self.user != 0 {
            command.uid(self.user).gid(self.user);
        }
        command
    }

    fn shell(&self, directory: &Path, script: &str) -> String {
        let output = self.command(Path::new("sh"), directory).args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs the program; its exit code, output and error output.
    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(&self.program, &self.path("repo")).args(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn json(&self, args: &[&str]) -> Value {
        let (_, out, err) = self.run(&[args, &["--output", "json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}\n{out}\n{err}"))
    }

    /// Commits a pipeline.
    fn pipeline(&self, name: &str, text: &str) {
        self.write(&format!("repo/pipelines/{name}.yaml"), text);
        let commit = "git add . && git -c user.name=x -c user.email=x@x.invalid commit -q -m two";
        self.shell(&self.path("repo"), commit);
    }

    /// How each step of a flow ended.
    fn ends(&self, flow: &str) -> BTreeMap<String, String> {
        let word = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        let shown = self.json(&["flows", "show", flow]);
        shown["steps"].as_array().unwrap().iter().map(|step| (word(&step["path"]), word(&step["outcome"]))).collect()
    }

    /// The only flow there is.
    fn flow(&self) -> Option<String> {
        let (_, out, _) = self.run(&["flows", "list", "--output", "json"]);
        let flows: Value = serde_json::from_str(&out).ok()?;
        Some(flows["flows"][0]["id"].as_str()?.to_owned())
    }

    fn settings(&self, more: &str) {
        // An ordinary user has no overlays; what copies are made of is not what is tried here.
        let (strategy, boxes) = if self.user == 0 {
            ("overlay", format!("\n  uid: {BOX}\n  gid: {BOX}"))
        } else {
            ("clone", String::new())
        };
        self.write(
            "repo/orchestrator.yaml",
            &format!("worktree: {{ strategy: {strategy}, max_file_mb: 64 }}\nbox:{boxes}\n  limits: {{ processes: 200, disk_mb: 400 }}\n{more}"),
        );
    }

    fn outside(&self) -> BTreeMap<PathBuf, (u32, u64, Vec<u8>)> {
        let mut files = BTreeMap::new();
        for root in ["outside", "repo", "home"] {
            look(&self.path(root), &mut files);
        }
        files
    }

    /// All lines of the logs of a flow, and everything that is told of it.
    fn told(&self, flow: &str) -> String {
        let (_, logs, _) = self.run(&["logs", flow]);
        let (_, status, _) = self.run(&["flows", "show", flow, "--output", "json"]);
        logs + &status
    }
}

fn look(path: &Path, into: &mut BTreeMap<PathBuf, (u32, u64, Vec<u8>)>) {
    let found = fs::symlink_metadata(path).unwrap();
    let content = if found.is_file() { fs::read(path).unwrap() } else { Vec::new() };
    into.insert(path.to_owned(), (found.mode(), found.ino(), content));
    if found.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            look(&entry.unwrap().path(), into);
        }
    }
}

/// Files of this name anywhere below a directory; links are not followed.
fn find(path: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_name() == name {
            found.push(entry.path());
        }
        if entry.file_type().unwrap().is_dir() {
            found.extend(find(&entry.path(), name));
        }
    }
    found
}

fn indented(script: &str) -> String {
    script.lines().map(|line| format!("      {line}\n")).collect()
}

fn trials(machine: &Machine, secret: &str) -> String {
    let known = format!(
        "    env: {{ OUTSIDE: '{}', REPO: '{}', DATA: '{}', SECRET: '{secret}' }}\n",
        machine.path("outside").display(),
        machine.path("repo").display(),
        machine.path("data").display()
    );
    let mut text = "name: trials\nsteps:\n".to_owned();
    for Trial { name, plant, check, .. } in TRIALS {
        let plant = indented(&format!("{PRELUDE}{plant}"));
        let check = indented(&format!("{PRELUDE}{check}"));
        text += &format!(
            "  plant_{name}:\n{known}    run: |\n{plant}  check_{name}:\n    needs: [plant_{name}]\n{known}    run: |\n{check}"
        );
    }
    text
}

fn check_what_is_planted(user: u32) {
    let machine = Machine::new(user);
    let secret = machine.shell(&machine.path("outside/repo"), "git rev-parse HEAD");
    machine.settings("");
    machine.pipeline("trials", &trials(&machine, &secret));
    let before = machine.outside();
    let (_, out, err) = machine.run(&["run", "trials"]);

    let flow = machine.flow().unwrap_or_else(|| panic!("no flow\n{out}\n{err}"));
    let shown = machine.json(&["flows", "show", &flow]);
    let told = machine.told(&flow);
    let mut wrong = Vec::new();
    for step in shown["steps"].as_array().unwrap() {
        let path = step["path"].as_str().unwrap();
        let refused =
            TRIALS.iter().find(|trial| path.ends_with(&format!("_{}", trial.name))).and_then(|trial| trial.refused);
        let expected = match refused {
            None => step["outcome"] == "succeeded",
            Some(_) if path.starts_with("check_") => step["outcome"] == "skipped",
            Some(why) => step["outcome"] == "failed" && step.to_string().contains(why),
        };
        if !expected {
            wrong.push(format!("{path} ended {} ({})", step["outcome"], step["failure"]));
        }
    }
    assert_eq!(shown["steps"].as_array().unwrap().len(), 2 * TRIALS.len());
    wrong.extend(told.lines().filter(|line| line.contains("BREACH")).map(str::to_owned));
    for name in ["`huge`", r"`odd & | \ name`"] {
        if !told.lines().any(|line| line.contains(name) && line.contains("300 MiB, more than")) {
            wrong.push(format!("no log says that {name} was not kept"));
        }
    }
    if told.contains(CANARY) {
        wrong.push("somebody saw what nobody may see".to_owned());
    }
    let after = machine.outside();
    wrong.extend(
        after
            .iter()
            .filter(|(path, file)| before.get(*path) != Some(file))
            .map(|(path, _)| format!("{} changed", path.display())),
    );
    wrong.extend(
        before.keys().filter(|path| !after.contains_key(*path)).map(|path| format!("{} is gone", path.display())),
    );
    for repository in fs::read_dir(machine.path("data/worktrees/repositories")).unwrap().flatten() {
        let asked = format!("git cat-file -e {secret} 2>/dev/null && echo known || echo unknown");
        if machine.shell(&repository.path(), &asked) == "known" {
            wrong.push(format!("{} has what no step may reach", repository.path().display()));
        }
    }
    // In the copies, of which this is no part, in what is saved of them, or on the machine.
    wrong.extend(
        find(machine.dir.path(), "hook-ran")
            .into_iter()
            .map(|path| format!("a planted program ran: {}", path.display())),
    );
    assert!(
        wrong.is_empty(),
        "{}\n{out}\n{err}\n{}",
        wrong.join("\n"),
        told.lines().take(200).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn what_is_planted_in_a_copy_has_no_effect_when_root_starts_it() {
    check_what_is_planted(0);
}

#[test]
fn what_is_planted_in_a_copy_has_no_effect_when_an_ordinary_user_starts_it() {
    check_what_is_planted(ORDINARY);
}

/// Steps that try to get something out by what they print, leave and name.
fn leaks(machine: &Machine) -> String {
    let (canary, mark) = (machine.path("outside/canary"), machine.path("mark"));
    format!(
        r#"name: leaks
steps:
  secret:
    box: {{ secrets: [TOKEN] }}
    run: |
      echo "told $TOKEN"; echo "told $TOKEN" >&2; echo "x=$TOKEN" >>"$ORC_OUTPUT"; echo kept >first
  none:
    run: |
      [ -z "${{TOKEN:-}}" ] && [ -z "${{TOLD:-}}" ] && ! cat /proc/*/environ 2>/dev/null | grep -qa canary-
  leak:
    run: |
      ln -s '{canary}' leak
    artifacts: {{ leak: leak }}
  output:
    run: |
      ln -s '{canary}' "$ORC_OUTPUT"
  stays:
    run: |
      env -i setsid perl -e '$SIG{{$_}} = "IGNORE" for keys %SIG; sleep 1000 while 1; # {mark}' >/dev/null 2>&1 &
"#,
        canary = canary.display(),
        mark = mark.display(),
    )
}

fn check_leaks(user: u32) {
    let machine = Machine::new(user);
    machine.settings("secrets: { TOKEN: { env: TOLD } }\n");
    machine.pipeline("leaks", &leaks(&machine));
    let before = machine.outside();
    let (_, out, err) = machine.run(&["run", "leaks"]);
    let flow = machine.flow().unwrap_or_else(|| panic!("no flow\n{out}\n{err}"));
    let told = machine.told(&flow);
    let ends = machine.ends(&flow);
    let expected = [
        ("secret", "succeeded"),
        ("none", "succeeded"),
        ("leak", "failed"),
        ("output", "failed"),
        ("stays", "succeeded"),
    ];
    assert_eq!(ends, expected.map(|(step, end)| (step.to_owned(), end.to_owned())).into(), "{out}\n{err}\n{told}");
    let status = machine.json(&["status"]).to_string();
    for text in [&told, &status, &out, &err] {
        assert!(!text.contains(CANARY), "somebody saw what nobody may see:\n{text}");
    }
    assert!(told.contains("told ***"), "{told}");
    // Nowhere in what the program keeps: neither rows, nor logs, nor artifacts, nor outputs.
    let mut kept = BTreeMap::new();
    look(&machine.path("data"), &mut kept);
    let holds = |content: &[u8]| content.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
    let leaks = kept.iter().filter(|(_, (_, _, content))| holds(content)).map(|(path, _)| path.display().to_string());
    assert_eq!(leaks.collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(machine.outside(), before);
    assert_eq!(processes_with(&machine.path("mark").display().to_string()), Vec::<String>::new());
}

/// Steps that try what boxes refuse where it can be seen.
fn refused() -> String {
    // `keyctl` has another number on each kind of machine.
    let keyctl = if cfg!(target_arch = "aarch64") { 219 } else { 250 };
    format!(
        r#"name: refused
steps:
  keys:
    run: |
      perl -e 'exit(syscall({keyctl}, 0, -3, 1) < 0 ? 0 : 1)'
  asks:
    box: {{ network: [allowed.invalid] }}
    run: |
      perl -e 'use Socket; socket(my $socket, AF_INET, SOCK_STREAM, 0) or die; my ($port) = $ENV{{HTTPS_PROXY}} =~ /(\d+)$/;
      connect($socket, pack_sockaddr_in($port, inet_aton("127.0.0.1"))) or die $!;
      syswrite $socket, "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n"; sysread $socket, my $said, 4096;
      exit($said =~ /^HTTP.1.1 403/ ? 0 : 1)'
  calm:
    run: "true"
"#
    )
}

fn check_what_is_told(user: u32) {
    let machine = Machine::new(user);
    machine.settings("");
    machine.pipeline("refused", &refused());
    let (_, out, err) = machine.run(&["run", "refused"]);
    let flow = machine.flow().unwrap_or_else(|| panic!("no flow\n{out}\n{err}"));
    let told = machine.told(&flow);
    let all = ["asks", "calm", "keys"].map(|step| (step.to_owned(), "succeeded".to_owned()));
    assert_eq!(machine.ends(&flow), all.into(), "{out}\n{err}\n{told}");
    // Whoever reads the log of the step finds it too.
    for what in ["keyctl", "169.254.169.254"] {
        let lines = told.lines().filter(|line| line.contains("SandboxViolation") && line.contains(what));
        assert_eq!(lines.count(), 1, "{what}: {told}");
    }
    let document = machine.json(&["incidents"]);
    let incidents = document["incidents"].as_array().unwrap();
    for (step, what) in [("keys", Some("keyctl")), ("asks", Some("169.254.169.254")), ("calm", None)] {
        let of: Vec<&Value> = incidents.iter().filter(|incident| incident["step"] == step).collect();
        assert_eq!(of.len(), usize::from(what.is_some()), "{step}: {document:#}");
        if let (Some(what), Some(incident)) = (what, of.first()) {
            assert!(incident["kind"] == "sandbox_violation" && incident.to_string().contains(what), "{document:#}");
        }
    }
}

/// Processes whose command line has this text.
fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let has =
        |path: &PathBuf| fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(text));
    entries.filter(has).map(|path| path.display().to_string()).collect()
}

#[test]
fn nothing_leaks_when_root_starts_it() {
    check_leaks(0);
}

#[test]
fn nothing_leaks_when_an_ordinary_user_starts_it() {
    check_leaks(ORDINARY);
}

#[test]
fn what_boxes_refuse_is_told_when_root_starts_it() {
    check_what_is_told(0);
}

#[test]
fn what_boxes_refuse_is_told_when_an_ordinary_user_starts_it() {
    check_what_is_told(ORDINARY);
}
