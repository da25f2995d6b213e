use std::path::PathBuf;
use std::sync::Mutex;

use orc_domain::agent::AgentStop;
use orc_domain::confine::{BoxRules, Violation};
use orc_domain::permission::{PermissionMode, Permissions};
use orc_domain::profile::{self, BuiltIn, Mode, Profile};
use orc_domain::time::{Millis, Timestamp};
use orc_ports::executor::{Limits, Secrets};
use orc_process::hands::{Use, Used};
use serde_json::json;

use super::*;
use crate::brain::{Brain, Kind, Settings, StopWord, Tool};
use crate::events::Stream;
use crate::place::{Bounds, PlaceError, Progress, Ran, Seen};
use crate::record::{Print, RECORD_VERSION};
use crate::talk::{Block, Ended, Offer, Said};

fn run_of(digit: char) -> RunId {
    format!("run_{}{digit}", "0".repeat(25)).parse().unwrap()
}

fn run() -> RunId {
    run_of('7')
}

fn outset() -> Outset {
    let profile = Profile {
        name: "worker".to_owned(),
        description: None,
        adapter: profile::Adapter::BuiltIn(BuiltIn::default()),
        role: None,
        mode: Mode::Work,
        silence_timeout: Millis::from_secs(60),
        max_concurrent: None,
        max_messages: 0,
        model: None,
        env: BTreeMap::new(),
        rules: BoxRules::default(),
        permissions: Permissions::default(),
        permission_mode: Some(PermissionMode::BypassPermissions),
        output: None,
        system_prompt: String::new(),
    };
    let place = tree::Place::Boxed { copy: None, rules: BoxRules::default() };
    Outset { place, env: BTreeMap::new(), profile, above: Vec::new(), rules: Vec::new() }
}

fn settings() -> Settings {
    let tool = |(name, kind): (&str, Kind)| {
        let schema = json!({ "type": "object" });
        Tool { offer: Offer { name: name.to_owned(), description: String::new(), schema }, kind }
    };
    let tools = [
        ("Read", Kind::Reads),
        ("Glob", Kind::Reads),
        ("WebFetch", Kind::Reads),
        ("BashOutput", Kind::Reads),
        ("Edit", Kind::Changes),
        ("Bash", Kind::Shell),
        ("Agent", Kind::Agent),
    ];
    Settings {
        model: "claude-first-4-6".to_owned(),
        fallbacks: Vec::new(),
        effort: None,
        max_turns: None,
        max_output: None,
        system: "You work.".to_owned(),
        tools: tools.map(tool).into(),
    }
}

/// A record that a real loop writes.
struct Written {
    brain: Brain,
    lines: Vec<Line>,
    stream: Stream,
    known: usize,
}

impl Written {
    fn new(outset: Option<Outset>) -> Self {
        let brain = Brain::new(settings()).unwrap();
        let mut written = Self { brain, lines: Vec::new(), stream: Stream::default(), known: 0 };
        written.line(Entry::Began { settings: Box::new(settings()) });
        written.line(Entry::Run { run: run(), outset: outset.map(Box::new) });
        written.hear(Heard::woken("Do it."));
        written
    }

    fn line(&mut self, entry: Entry) {
        let seq = self.lines.len() as u64 + 1;
        self.lines.push(Line { v: RECORD_VERSION, seq, at: Timestamp::from_millis(7), entry });
    }

    fn hear(&mut self, heard: Heard) {
        self.line(Entry::Heard { heard: heard.clone() });
        for act in self.brain.hear(heard) {
            match act {
                Act::Ask(question) => {
                    let print = Print::of(&question, self.known);
                    self.known = question.messages.len();
                    self.line(Entry::Asked { question: print });
                }
                Act::Tell(event) => drop(self.stream.push(&event)),
                Act::End(end) => {
                    let (stop, events) = (end.stop.map(|stop| stop.word().to_owned()), self.stream.digests().to_vec());
                    self.line(Entry::Ended { stop, events });
                }
                _ => {}
            }
        }
    }

    /// The model calls these tools, each by its name with this as its command or file.
    fn calls(&mut self, each: &[(&str, &str)]) {
        let number = self.lines.len();
        let call = |(at, (name, input)): (usize, &(&str, &str))| {
            let key = if *name == "Bash" { "command" } else { "file_path" };
            let (id, input) = (format!("{number}-{at}"), ToolInput::Json(json!({ key: input })));
            Said::Block(Block::Call(ToolCall { id, name: (*name).to_owned(), input }))
        };
        let mut pieces: Vec<Said> = each.iter().enumerate().map(call).collect();
        pieces.push(Said::Ended(Ended::Calls));
        self.hear(Heard::Said { pieces });
    }

    /// What came of the call at a place among those called last.
    fn came(&mut self, at: usize, text: &str, failed: bool) {
        let last = self.lines.iter().rev().find_map(|line| match &line.entry {
            Entry::Heard { heard: Heard::Said { pieces } } => pieces.iter().filter_map(id_of).nth(at),
            _ => None,
        });
        let seen = BTreeMap::from([("/workspace/a".to_owned(), format!("then {text}"))]);
        self.hear(Heard::Result { call: last.unwrap(), text: text.to_owned(), failed, seen });
    }

    fn done(mut self) -> Vec<Line> {
        let text = Said::Text { text: "Done.".to_owned(), begins: true };
        self.hear(Heard::Said { pieces: vec![text, Said::Ended(Ended::Said)] });
        self.lines
    }
}

fn id_of(piece: &Said) -> Option<String> {
    match piece {
        Said::Block(Block::Call(call)) => Some(call.id.clone()),
        _ => None,
    }
}

type Uses = Vec<(String, BTreeMap<String, String>)>;

/// Says of each use what its command or file is; `fail:`, `break` and `wait` do what they say.
#[derive(Clone, Default)]
struct Saying {
    uses: Arc<Mutex<Uses>>,
}

impl Places for Saying {
    fn place(&self, _: Launch) -> Arc<dyn Place> {
        Arc::new(self.clone())
    }
}

impl Place for Saying {
    fn lift<'a>(
        &'a self,
        wanted: Use,
        _: Bounds,
        _: Progress,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<Used, PlaceError>> {
        async move {
            let text = ["command", "file_path"].into_iter().find_map(|key| wanted.input[key].as_str());
            // Of what its gate wants to know there is nothing to tell.
            let Some(text) = text.map(str::to_owned) else { return Ok(Used::default()) };
            self.uses.lock().unwrap().push((wanted.name, wanted.seen));
            match text.as_str() {
                "break" => return Err(PlaceError::Broken { why: "no box".to_owned() }),
                "wait" => cancel.cancelled().await,
                _ => {}
            }
            let seen = BTreeMap::from([("/workspace/a".to_owned(), format!("now {text}"))]);
            Ok(Used { failed: text.starts_with("fail:"), text, seen, ..Used::default() })
        }
        .boxed()
    }

    fn read<'a>(&'a self, _: PathBuf) -> BoxFuture<'a, Result<Seen, PlaceError>> {
        async { Ok(Seen::Nothing) }.boxed()
    }

    fn run<'a>(&'a self, _: &'a [&'a str]) -> BoxFuture<'a, Result<Ran, PlaceError>> {
        async { Ok(Ran { ok: false, stdout: String::new() }) }.boxed()
    }

    fn close<'a>(&'a self, _: bool) -> BoxFuture<'a, Vec<Violation>> {
        async { Vec::new() }.boxed()
    }
}

fn launch() -> Launch {
    Launch {
        run: run(),
        argv: Vec::new(),
        directory: "/workspace".into(),
        confinement: None,
        secrets: Secrets::default(),
        env: BTreeMap::new(),
        log: PathBuf::new(),
        output: PathBuf::new(),
        temp: PathBuf::new(),
        limits: Limits { log_bytes: 0, output_bytes: 0 },
        stdin: None,
        tap: None,
        host: None,
    }
}

fn again(lines: &[Line], outset: &Outset) -> Result<(Vec<Call>, Uses), ToolsError> {
    let said = Saying::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let calls = runtime.block_on(use_again(lines, run(), outset, (launch(), &said)))?;
    let uses = std::mem::take(&mut *said.uses.lock().unwrap());
    Ok((calls, uses))
}

fn came(calls: &[Call]) -> Vec<&Came> {
    calls.iter().map(|call| &call.came).collect()
}

fn differs((then_failed, then): (bool, &str), (now_failed, now): (bool, &str)) -> Came {
    let side = |failed, text: &str| Side { failed, text: text.to_owned() };
    Came::Differs { then: side(then_failed, then), now: side(now_failed, now) }
}

#[test]
fn each_result_is_held_against_the_recorded_one_whatever_their_order() {
    let mut written = Written::new(Some(outset()));
    written.calls(&[("Read", "one"), ("Read", "two"), ("Glob", "b\na"), ("Bash", "echo same\n123 in 2s")]);
    written.came(2, "a\nb", false);
    written.came(1, "2", false);
    written.came(0, "one", false);
    written.came(3, "echo same\n124 in 1s", false);
    written.calls(&[("Bash", "fail: x")]);
    written.came(0, "fail: x", false);
    let (calls, _) = again(&written.done(), &outset()).unwrap();
    let wanted = [
        Came::Same,
        differs((false, "2"), (false, "two")),
        Came::Same,
        differs((false, "124 in 1s"), (false, "123 in 2s")),
        differs((false, "fail: x"), (true, "fail: x")),
    ];
    assert_eq!(came(&calls), wanted.iter().collect::<Vec<_>>());
    // It asks, three begin, three are done in the order that is recorded, one begins and is done.
    let events: Vec<_> = calls.iter().map(|call| call.event.unwrap()).collect();
    assert_eq!(events, [7, 6, 5, 9, 12]);
    assert_eq!((calls[0].tool.as_str(), calls[0].input.as_str()), ("Read", r#"{"file_path":"one"}"#));
}

#[test]
fn what_changes_files_knows_what_was_seen_now() {
    let mut written = Written::new(Some(outset()));
    for (name, file) in [("Edit", "first"), ("Read", "one"), ("Edit", "second")] {
        written.calls(&[(name, file)]);
        written.came(0, file, false);
    }
    let (_, uses) = again(&written.done(), &outset()).unwrap();
    let seen = |stamp: &str| BTreeMap::from([("/workspace/a".to_owned(), stamp.to_owned())]);
    let wanted = [("Edit", BTreeMap::new()), ("Read", BTreeMap::new()), ("Edit", seen("now one"))];
    assert_eq!(uses, wanted.map(|(name, seen)| (name.to_owned(), seen)));
}

#[test]
fn results_of_one_answer_are_bounded_together_as_they_were() {
    let text = "x".repeat(30_000);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fit = |room: &Room| runtime.block_on(room.fit(&Saying::default(), text.clone()));
    let mut written = Written::new(Some(outset()));
    for _ in 0..2 {
        let (room, number) = (Room::default(), 7);
        written.calls(&vec![("Read", text.as_str()); number]);
        // The one that was done last found no room.
        for at in (0..number).rev() {
            written.came(at, &fit(&room), false);
        }
    }
    let lines = written.done();
    assert!(lines.iter().any(|line| format!("{line:?}").contains("bytes are left out here")));
    let (calls, _) = again(&lines, &outset()).unwrap();
    assert_eq!(came(&calls), [&Came::Same; 14]);
}

#[test]
fn what_is_chance_is_left_out_with_its_reason() {
    let mut written = Written::new(Some(outset()));
    written.calls(&[("WebFetch", "page"), ("BashOutput", "now")]);
    written.came(0, "another page", false);
    written.came(1, "then", false);
    written.calls(&[("Bash", "wait")]);
    written.hear(Heard::Stop { why: StopWord(AgentStop::Abort) });
    written.came(0, "[cancelled]", true);
    let (calls, uses) = again(&written.lines, &outset()).unwrap();
    let wanted = [NETWORK, HAPPENS, ENDED].map(|why| Came::LeftOut { why });
    assert_eq!(came(&calls), wanted.iter().collect::<Vec<_>>());
    assert_eq!(uses.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["BashOutput", "Bash"]);
    // It was killed in the middle.
    let mut written = Written::new(Some(outset()));
    written.calls(&[("Bash", "echo one")]);
    assert_eq!(came(&again(&written.lines, &outset()).unwrap().0), [&Came::LeftOut { why: UNKNOWN }]);
}

#[test]
fn what_may_not_be_done_is_not_done_whatever_is_recorded() {
    let mut written = Written::new(Some(outset()));
    for command in ["git push", "echo one"] {
        written.calls(&[("Bash", command)]);
        written.came(0, command, false);
    }
    let mut strict = outset();
    strict.profile.permissions.deny = vec!["Bash(git push *)".to_owned()];
    let (calls, uses) = again(&written.done(), &strict).unwrap();
    let Came::Differs { then, now } = &calls[0].came else { panic!("{calls:?}") };
    assert_eq!((then.text.as_str(), then.failed, now.failed), ("git push", false, true));
    assert!(now.text.contains("denied"), "{}", now.text);
    assert_eq!((&calls[1].came, uses.len()), (&Came::Same, 1), "{uses:?}");
    strict.profile.permissions.deny = vec!["Bash(".to_owned()];
    let why = again(&Written::new(None).lines, &strict).unwrap_err().to_string();
    assert!(why.starts_with("its calls cannot be judged: the rule `Bash(`"), "{why}");
}

#[test]
fn a_run_whose_tools_cannot_be_used_again_is_refused_before_anything_is_done() {
    let plain = |outset| {
        let mut written = Written::new(outset);
        written.calls(&[("Bash", "echo one")]);
        written.came(0, "one", false);
        written.done()
    };
    let start = start_of(&plain(Some(outset())), run()).unwrap();
    assert_eq!(start, Start { outset: outset(), told: vec!["Do it.".to_owned()] });
    let mut agents = Written::new(Some(outset()));
    let spawn = ToolInput::Json(json!({ "subagent_type": "helper", "prompt": "Help." }));
    let call = ToolCall { id: "a".to_owned(), name: "Agent".to_owned(), input: spawn };
    agents.hear(Heard::Said { pieces: vec![Said::Block(Block::Call(call)), Said::Ended(Ended::Calls)] });
    // The same conversation, in which another run was before.
    let mut later = plain(Some(outset()));
    let other = Entry::Run { run: run_of('8'), outset: Some(Box::new(outset())) };
    later.insert(1, Line { entry: other, ..later[1].clone() });
    later.swap(2, 3);
    let mut changed = plain(Some(outset()));
    for line in &mut changed {
        if let Entry::Heard { heard: Heard::Result { text, .. } } = &mut line.entry {
            "another".clone_into(text);
        }
    }
    let refused = [
        (agents.lines, "it started the agent `helper`"),
        (later, "it went on in an older conversation"),
        (plain(None), "its record does not say where it began"),
        (changed, "question 2 is not the recorded one"),
    ];
    for (lines, wanted) in refused {
        let why = start_of(&lines, run()).unwrap_err().to_string();
        assert!(why.starts_with(wanted), "{why}");
    }
}

#[test]
fn a_place_that_breaks_is_no_difference() {
    let mut written = Written::new(Some(outset()));
    written.calls(&[("Bash", "break")]);
    written.came(0, "break", false);
    let why = again(&written.done(), &outset()).unwrap_err().to_string();
    assert_eq!(why, "the place where its tools are used again cannot be used: no box");
}

#[test]
fn texts_are_cut_where_they_are_too_long() {
    assert_eq!(cut("äöü", 3), "äöü");
    assert_eq!(cut("äöü", 1), "ä[... 4 bytes more]");
}
