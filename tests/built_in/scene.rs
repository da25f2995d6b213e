//! A repository with an agent and its model, and what can be seen of their conversation afterwards.
#![expect(clippy::disallowed_methods, reason = "git is asked as a user does")]

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Running, Said, World, lines, until};

/// The model of every agent here. A million tokens of input cost 3 dollars, of output 15.
pub(crate) const MODEL: &str = "claude-sonnet-4-5";

/// One agent `worker`, one pipeline `p` with one step `work`.
pub(crate) struct Scene {
    pub(crate) world: World,
}

/// Where what agents do and what the test does meet.
pub(crate) struct Board(PathBuf);

impl Board {
    /// A pipe that commands wait at, with `read x < $BOARD/gate`.
    pub(crate) fn gate(&self) -> File {
        let path = self.0.join("gate");
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        File::options().read(true).write(true).open(path).unwrap()
    }

    /// What commands wrote down, with `echo ... >> $BOARD/journal`.
    pub(crate) fn journal(&self) -> Vec<String> {
        lines(self.0.join("journal"))
    }

    /// Waits until something is written down.
    pub(crate) fn until(&self, line: &str) {
        until(line, || self.journal().iter().any(|known| known == line));
    }
}

/// What a model was told came of a call.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) tool: String,
    pub(crate) text: String,
    pub(crate) failed: bool,
}

/// An answer that calls tools.
pub(crate) fn calls(each: &[(&str, Value)]) -> Value {
    let each: Vec<Value> = each.iter().map(|(name, input)| json!({ "name": name, "input": input })).collect();
    json!({ "tool_calls": each })
}

/// An answer that runs a command.
pub(crate) fn bash(command: &str) -> Value {
    calls(&[("Bash", json!({ "command": command }))])
}

/// An answer that says something.
pub(crate) fn says(text: &str) -> Value {
    json!({ "text": text })
}

impl Scene {
    /// A model that says this, turn by turn.
    pub(crate) fn new(turns: &[Value]) -> Self {
        Self::of(&json!({ "any": { "turns": turns } }))
    }

    /// A model with these tracks.
    pub(crate) fn of(tracks: &Value) -> Self {
        let scene = Self { world: World::new() };
        scene.settings(&scene.providers());
        scene.world.write("models/tests.yaml", &json!({ "tracks": tracks }).to_string());
        scene.agent("worker", "");
        scene.step("");
        scene
    }

    pub(crate) fn settings(&self, text: &str) {
        self.world.write("orchestrator.yaml", text);
    }

    /// Its script, which records all that it is asked.
    fn providers(&self) -> String {
        format!("providers: {{ scripted: {{ script: models/tests.yaml, record: {:?} }} }}\n", self.tapes())
    }

    /// A directory that the boxes of these agents may write to, as `$BOARD`; each has these further keys.
    pub(crate) fn board(&self, agents: &[(&str, &str)]) -> Board {
        let path = self.world.path().join("board");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let open = format!("box: {{ write: [{path:?}] }}\n");
        self.settings(&format!("{}{open}", self.providers()));
        for (name, keys) in agents {
            self.agent(name, &format!("{open}env: {{ BOARD: {path:?} }}\n{keys}"));
        }
        Board(path)
    }

    fn tapes(&self) -> PathBuf {
        self.world.path().join("tapes")
    }

    /// Writes a profile with these further keys.
    pub(crate) fn agent(&self, name: &str, keys: &str) {
        self.world.write(&format!("agents/{name}.md"), &format!("---\nmodel: {MODEL}\n{keys}---\nYou work.\n"));
    }

    /// Gives the step these further keys, each on a line of its own.
    pub(crate) fn step(&self, keys: &str) {
        let keys: String = keys.lines().map(|line| format!("    {line}\n")).collect();
        let step = format!("  work:\n    agent: worker\n    prompt: Do it.\n{keys}");
        self.world.write("pipelines/p.yaml", &format!("name: p\nsteps:\n{step}"));
    }

    pub(crate) fn start(&self) -> Running {
        self.world.commit();
        self.world.start(&["run", "p"])
    }

    /// Runs it to an end with this code.
    pub(crate) fn run(&self, code: i32) -> Said {
        self.world.commit();
        let said = self.world.run_to(code, &["run", "p"]);
        self.assert_valid();
        said
    }

    pub(crate) fn flow(&self) -> String {
        self.world.flow_of("p").unwrap()
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.world.data().join("conversations").join(self.flow().replace('_', "-")).join("work.jsonl")
    }

    /// The lines of the conversation's record.
    pub(crate) fn recorded(&self) -> Vec<Value> {
        lines(self.record()).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The questions that the loop asked, as they are recorded.
    pub(crate) fn asked(&self) -> Vec<Value> {
        let asked = self.recorded().into_iter().filter(|line| line["kind"] == "asked");
        asked.map(|line| line["question"].clone()).collect()
    }

    pub(crate) fn runs(&self) -> Vec<Value> {
        let runs = self.world.json(&["runs", "list", "--flow", &self.flow()])["runs"].as_array().unwrap().clone();
        let mut runs: Vec<Value> =
            runs.iter().map(|run| self.world.json(&["runs", "show", run["id"].as_str().unwrap()])).collect();
        runs.sort_by_key(|run| run["attempt"].as_u64());
        runs
    }

    /// What was told of its runs while they ran, line by line.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut events = Vec::new();
        for run in self.runs() {
            for line in lines(run["log"].as_str().unwrap()) {
                let line: Value = serde_json::from_str(&line).unwrap();
                events.extend(line["text"].as_str().and_then(|text| serde_json::from_str(text).ok()));
            }
        }
        events
    }

    /// Everything that models were asked, as it was sent, in order.
    pub(crate) fn questions(&self) -> Vec<Value> {
        let Ok(tapes) = std::fs::read_dir(self.tapes()) else { return Vec::new() };
        let mut tapes: Vec<PathBuf> = tapes.map(|tape| tape.unwrap().path()).collect();
        // Those of runs that came later were written to later.
        tapes.sort_by_key(|tape| std::fs::metadata(tape).unwrap().modified().unwrap());
        let lines = tapes.iter().flat_map(lines);
        // The last line is cut where everything died.
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        lines.map(|mut line| line["request"]["body"].take()).filter(Value::is_object).collect()
    }

    /// Each question is one that a provider takes.
    pub(crate) fn assert_valid(&self) {
        for question in self.questions() {
            if let Err(why) = check(&question) {
                panic!("{why}\n{:#}", question["messages"]);
            }
        }
    }

    /// What came of all calls, as the model was told last.
    pub(crate) fn results(&self) -> Vec<Done> {
        results(self.questions().last().unwrap())
    }

    /// The texts of the user in the last question.
    pub(crate) fn told(&self) -> String {
        self.questions().last().unwrap()["messages"].to_string()
    }

    /// What a run was woken by, run by run.
    pub(crate) fn wakes(&self) -> Vec<String> {
        let talk = self.world.json(&["conversations", "show", &self.flow()]);
        let entries = talk["conversations"][0]["entries"].as_array().unwrap().clone();
        entries.iter().filter_map(|entry| entry["wake_reason"].as_str().map(str::to_owned)).collect()
    }

    /// A file of the result, as bytes.
    pub(crate) fn made(&self, path: &str) -> Vec<u8> {
        let made = self.world.json(&["flows", "show", &self.flow()])["made"][0].clone();
        let (store, commit) = (made["store"].as_str().unwrap(), made["commit"].as_str().unwrap());
        let mut show = std::process::Command::new("git");
        let shown = show.args(["show", &format!("{commit}:{path}")]).current_dir(store).output().unwrap();
        assert!(shown.status.success(), "{path} was not made");
        shown.stdout
    }

    /// Money in millionths of a dollar and calls, by agent.
    pub(crate) fn costs(&self) -> BTreeMap<String, (u64, u64)> {
        let costs = self.world.json(&["costs", "--by", "agent"]);
        let each = costs["lines"].as_array().unwrap().iter().map(|line| {
            let figure = |name: &str| line[name].as_u64().unwrap();
            (line["agent"].as_str().unwrap().to_owned(), (figure("calls"), figure("cost_usd_micros")))
        });
        each.collect()
    }

    /// Every run goes as it was recorded.
    pub(crate) fn assert_replays(&self) {
        for run in self.runs() {
            let said = self.world.run(&["replay", run["id"].as_str().unwrap()]);
            assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
        }
    }
}

/// What came of all calls of a question.
pub(crate) fn results(question: &Value) -> Vec<Done> {
    let blocks = || question["messages"].as_array().unwrap().iter().flat_map(blocks);
    let name = |id: &Value| {
        let call = blocks().find(|block| block["type"] == "tool_use" && block["id"] == *id).unwrap();
        call["name"].as_str().unwrap().to_owned()
    };
    let results = blocks().filter(|block| block["type"] == "tool_result");
    let done = |block: Value| Done {
        tool: name(&block["tool_use_id"]),
        text: block["content"].as_str().unwrap().to_owned(),
        failed: block["is_error"] == true,
    };
    results.map(done).collect()
}

fn blocks(message: &Value) -> Vec<Value> {
    match &message["content"] {
        Value::Array(blocks) => blocks.clone(),
        text => vec![json!({ "type": "text", "text": text })],
    }
}

/// Why the provider would refuse it: speakers take turns, each call is followed by its one result, no text is empty, and
/// tools have names that tools may have.
pub(crate) fn check(question: &Value) -> Result<(), String> {
    let messages = question["messages"].as_array().ok_or("no messages")?;
    let (mut open, mut ids): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (at, message) in messages.iter().enumerate() {
        let wanted = if at % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != wanted {
            return Err(format!("message {at} is not by the {wanted}"));
        }
        let blocks = blocks(message);
        let of = |kind: &str, key: &str| -> Vec<String> {
            let fits = blocks.iter().filter(|block| block["type"] == kind);
            fits.map(|block| block[key].as_str().unwrap_or_default().to_owned()).collect()
        };
        let results = of("tool_result", "tool_use_id");
        if results != open {
            return Err(format!("message {at} answers {results:?}, and {open:?} are open"));
        }
        if blocks.iter().skip(results.len()).any(|block| block["type"] == "tool_result") {
            return Err(format!("message {at} says something before its results"));
        }
        let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_".contains(one);
        if of("tool_use", "name").iter().any(|name| !(1..=64).contains(&name.len()) || !name.chars().all(is_plain)) {
            return Err(format!("message {at} calls a tool by a name that no tool can have"));
        }
        if blocks.is_empty() || of("text", "text").iter().any(|text| text.trim().is_empty()) {
            return Err(format!("message {at} says nothing"));
        }
        open = of("tool_use", "id");
        if open.iter().any(|id| ids.contains(id)) {
            return Err(format!("message {at} uses an id again"));
        }
        ids.extend(open.clone());
    }
    if messages.len() % 2 == 1 && open.is_empty() { Ok(()) } else { Err("the model has the last word".to_owned()) }
}
