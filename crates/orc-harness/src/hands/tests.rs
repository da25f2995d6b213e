//! Tools on a floor of their own, in directories of their own.

mod editing;
mod finding;
mod pages;
mod reading;
mod shelling;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use orc_process::hands::{Floor, Group, Hands, Program, Running, Use, Used};
use orc_process::protocol::Failure;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use super::OwnHands;

/// A floor, the tools, and what a conversation remembers.
struct Ground {
    directory: TempDir,
    hands: OwnHands,
    cwd: PathBuf,
    env: BTreeMap<String, String>,
    bound: Option<usize>,
    until: OnceLock<Instant>,
    cancelled: AtomicBool,
    groups: Mutex<Vec<Group>>,
    progress: Mutex<Vec<String>>,
    seen: Mutex<BTreeMap<String, String>>,
}

impl Ground {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let cwd = root.join("copy");
        std::fs::create_dir(&cwd).unwrap();
        let temp = root.join("temp").to_str().unwrap().to_owned();
        let env = [("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()), ("ORC_TEMP", temp)];
        Self {
            directory,
            hands: OwnHands::new(),
            cwd,
            env: env.map(|(name, value)| (name.to_owned(), value)).into(),
            bound: None,
            until: OnceLock::new(),
            cancelled: AtomicBool::new(false),
            groups: Mutex::default(),
            progress: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.cwd.join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap()
    }

    /// A use, of which the conversation remembers what it saw.
    fn lift(&self, name: &str, input: Value) -> Used {
        let seen = self.seen.lock().unwrap().clone();
        let used = self.hands.lift(&Use { name: name.to_owned(), input, seen, without: Vec::new() }, self);
        self.seen.lock().unwrap().extend(used.seen.clone());
        used
    }

    fn good(&self, name: &str, input: Value) -> String {
        let used = self.lift(name, input);
        assert!(!used.failed, "{}", used.text);
        used.text
    }

    fn bad(&self, name: &str, input: Value) -> String {
        let used = self.lift(name, input);
        assert!(used.failed, "{}", used.text);
        used.text
    }

    fn read(&self, name: &str) -> String {
        self.good("Read", json!({ "file_path": name }))
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        for group in self.groups.lock().unwrap().iter() {
            group.end(false);
        }
    }
}

impl Floor for Ground {
    fn cwd(&self) -> &Path {
        &self.cwd
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    fn bound(&self) -> Option<usize> {
        self.bound
    }

    fn left(&self) -> Option<Duration> {
        self.until.get().map(|until| until.saturating_duration_since(Instant::now()))
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    fn progress(&self, text: &str) {
        self.progress.lock().unwrap().push(text.to_owned());
    }

    fn start(&self, program: Program<'_>) -> Result<Running, Failure> {
        let running = Running::start(program)?;
        self.groups.lock().unwrap().push(running.group());
        if self.is_cancelled() {
            running.group().end(false);
        }
        Ok(running)
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused_with_what_is_taken() {
    let ground = Ground::new();
    let rows = [
        ("Nothing", json!({}), "There is no tool `Nothing`. There are: Read, Write,"),
        ("Read", json!({}), "missing field `file_path`. It takes `file_path` (string), `limit` (integer, optional)"),
        ("Read", json!({ "file_path": 7 }), "invalid type: integer `7`, expected a string"),
        ("Read", json!({ "file_path": "x", "offset": -1 }), "`-1` is no whole number from 0 on"),
        ("Read", json!({ "file_path": "x", "limit": 2.5 }), "`2.5` is no whole number"),
        ("Read", json!({ "file_path": "x", "limit": 1e30 }), "too large"),
        ("Read", json!({ "file_path": "x/".repeat(100_000) }), "it is too long"),
        ("Read", json!({ "file_path": "x/".repeat(1_000) + "x" }), "There is no file `x/x/x/"),
        ("Read", json!({ "file_path": "~/x" }), "`~` stands for no directory here"),
        ("Write", json!({ "file_path": "~/x", "content": "" }), "`~` stands for no directory here"),
        ("Write", json!({ "file_path": "new/", "content": "" }), "names a directory, and there is none"),
        ("Read", json!([]), "The input of Read does not fit"),
        ("Read", json!({ "file_path": "" }), "names no file"),
        ("Read", json!({ "file_path": "a\u{0}b" }), "names no file"),
        ("Write", json!({ "file_path": "x" }), "missing field `content`"),
        ("Edit", json!({ "file_path": "x", "old_string": "a" }), "missing field `new_string`"),
        ("MultiEdit", json!({ "file_path": "x", "edits": [] }), "`edits` is empty"),
        ("MultiEdit", json!({ "file_path": "x", "edits": "[]" }), "expected a sequence"),
        (
            "Grep",
            json!({ "pattern": "x", "output_mode": "lines" }),
            "unknown variant `lines`, expected one of `content`",
        ),
        ("Grep", json!({ "pattern": "" }), "`pattern` is empty"),
        ("Glob", json!({ "pattern": "" }), "`pattern` is empty"),
        ("Glob", json!({ "pattern": "x".repeat(20_000) }), "`pattern` has 20000 bytes; a pattern has at most 10000"),
        ("Grep", json!({ "pattern": "x".repeat(20_000) }), "`pattern` has 20000 bytes"),
        ("Grep", json!({ "pattern": "x", "glob": "x".repeat(20_000) }), "`glob` has 20000 bytes"),
        ("BashOutput", json!({ "bash_id": "9", "filter": "x".repeat(20_000) }), "`filter` has 20000 bytes"),
        ("Bash", json!({ "command": " \n" }), "`command` is empty"),
        ("Bash", json!({ "command": "echo \u{0}" }), "holds a NUL"),
        ("BashOutput", json!({ "bash_id": "9" }), "There is no shell `9` in the background; none runs"),
        ("KillShell", json!({ "shell_id": "" }), "There is no shell `` in the background"),
        ("WebFetch", json!({ "url": "nowhere" }), "is no address"),
    ];
    for (name, input, why) in rows {
        let told = ground.bad(name, input.clone());
        assert!(told.contains(why), "{name} {input}: {told}");
    }
    // A pattern that is as long as it may be is soon understood.
    ground.put("a", "x\n");
    ground.good("Grep", json!({ "pattern": "x".repeat(10_000) }));
    // More than is asked for does not matter.
    ground.good("Read", json!({ "file_path": "a", "encoding": "utf-8" }));
    // Nor how a whole number is written, nor that something is named and left out.
    ground.good("Read", json!({ "file_path": "a", "offset": 1.0, "limit": null }));
}
