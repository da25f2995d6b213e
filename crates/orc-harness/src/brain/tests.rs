use orc_domain::permission::{Lasting, Scope};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::talk::{Ended, Offer};

fn tool(name: &str, kind: Kind) -> Tool {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    Tool { offer: Offer { name: name.to_owned(), description: String::new(), schema }, kind }
}

fn settings() -> Settings {
    Settings {
        model: "claude-first-4-6".to_owned(),
        fallbacks: vec!["gpt-second".to_owned()],
        effort: None,
        max_turns: None,
        max_output: None,
        system: "You work.".to_owned(),
        tools: vec![
            tool("Read", Kind::Reads),
            tool("Edit", Kind::Changes),
            tool("Bash", Kind::Shell),
            tool("Agent", Kind::Agent),
            tool("TodoWrite", Kind::Todo),
            tool("submit_output", Kind::Submit { wrapped: false }),
        ],
    }
}

fn brain() -> Brain {
    Brain::new(settings()).unwrap()
}

/// A brain that was woken.
fn woken() -> Brain {
    let mut brain = brain();
    brain.hear(Heard::woken("Do it."));
    brain
}

fn text(text: &str) -> Said {
    Said::Text { text: text.to_owned(), begins: false }
}

fn call(id: &str, name: &str) -> Said {
    let input = ToolInput::Json(json!({ "path": id }));
    Said::Block(Block::Call(ToolCall { id: id.to_owned(), name: name.to_owned(), input }))
}

fn said(brain: &mut Brain, pieces: Vec<Said>) -> Vec<Act> {
    brain.hear(Heard::Said { pieces })
}

fn result(brain: &mut Brain, call: &str, failed: bool) -> Vec<Act> {
    let (call, text) = (call.to_owned(), format!("result of {call}"));
    brain.hear(Heard::Result { call, text, failed, seen: BTreeMap::new() })
}

/// What acts do outside, in short.
fn short(acts: &[Act]) -> Vec<String> {
    let each = acts.iter().filter_map(|act| match act {
        Act::Ask(question) => Some(format!(
            "ask {} {} {}",
            question.model,
            question.max_output.unwrap_or(0),
            if question.stream { "stream" } else { "plain" }
        )),
        Act::HangUp => Some("hang up".to_owned()),
        Act::Use { call, .. } => Some(format!("use {}", call.id)),
        Act::Spawn { call, .. } => Some(format!("spawn {}", call.id)),
        Act::Cancel { call } => Some(format!("cancel {call}")),
        Act::Tell(Event::Error { family, message }) => Some(format!("{}: {message}", json!(family).as_str().unwrap())),
        Act::Tell(Event::Retracted) => Some("retracted".to_owned()),
        Act::Tell(_) => None,
        Act::End(End { stop }) => Some(format!("end {}", stop.map_or("failed", AgentStop::word))),
    });
    each.collect()
}

fn last_results(brain: &Brain) -> Vec<(String, String, bool)> {
    let last = brain.messages().iter().rev().find(|message| message.by == Speaker::User).unwrap();
    let each = last.blocks.iter().filter_map(|block| match block {
        Block::Result { call, text, failed } => Some((call.clone(), text.clone(), *failed)),
        _ => None,
    });
    each.collect()
}

#[test]
fn an_answer_without_calls_is_the_end() {
    let mut brain = brain();
    let acts = brain.hear(Heard::woken("Do it."));
    assert_eq!(short(&acts), ["ask claude-first-4-6 16384 stream"]);
    let acts = said(&mut brain, vec![text("Do"), text("ne."), Said::Used(Tokens::default()), Said::Ended(Ended::Said)]);
    assert_eq!(short(&acts), ["end no_tool_use"]);
    assert!(acts.contains(&Act::Tell(Event::Says { text: "Done.".to_owned() })));
    // A message later goes on in the same conversation.
    let acts = brain.hear(Heard::woken("And that?"));
    assert_eq!(short(&acts), ["ask claude-first-4-6 16384 stream"]);
    assert_eq!(brain.messages().len(), 3);
}

#[test]
fn reads_run_beside_each_other_and_changes_alone() {
    let mut brain = woken();
    assert_eq!(short(&said(&mut brain, vec![text("Look."), call("a", "Read")])), ["use a"]);
    assert_eq!(short(&said(&mut brain, vec![call("b", "Read"), call("c", "Edit"), call("d", "Read")])), ["use b"]);
    assert!(short(&result(&mut brain, "b", false)).is_empty());
    assert!(short(&said(&mut brain, vec![Said::Ended(Ended::Calls)])).is_empty());
    assert_eq!(short(&result(&mut brain, "a", true)), ["use c"]);
    assert_eq!(short(&result(&mut brain, "c", false)), ["use d"]);
    assert_eq!(short(&result(&mut brain, "d", false)), ["ask claude-first-4-6 16384 stream"]);
    let order: Vec<String> = last_results(&brain).into_iter().map(|(call, ..)| call).collect();
    assert_eq!(order, ["a", "b", "c", "d"]);
    // A result that nobody asked for changes nothing.
    assert!(result(&mut brain, "a", false).is_empty());
}

#[test]
fn what_cannot_be_done_is_answered_at_once() {
    let mut brain = woken();
    let broken =
        |id: &str, input| Said::Block(Block::Call(ToolCall { id: id.to_owned(), name: "Read".to_owned(), input }));
    let pieces = vec![
        call("a", "Teleport"),
        broken("b", ToolInput::Broken("{\"path\": ".to_owned())),
        broken("c", ToolInput::Json(json!({ "path": 7 }))),
        broken("c", ToolInput::Json(json!({ "path": "x" }))),
        Said::Ended(Ended::Calls),
    ];
    assert_eq!(short(&said(&mut brain, pieces)), ["use c-2"]);
    assert_eq!(short(&result(&mut brain, "c-2", false)), ["ask claude-first-4-6 16384 stream"]);
    let results = last_results(&brain);
    for (at, words) in [(0, "no tool `Teleport`"), (1, "no JSON"), (2, "is not what it takes")] {
        assert!(results[at].2 && results[at].1.contains(words), "{:?}", results[at]);
    }
    assert!(results[0].1.contains("Read, Edit, Bash"), "{:?}", results[0]);
}

#[test]
fn a_shell_command_that_fails_keeps_what_follows_from_being_done() {
    let mut brain = woken();
    let pieces = vec![call("a", "Bash"), call("b", "Bash"), call("c", "Read"), Said::Ended(Ended::Calls)];
    assert_eq!(short(&said(&mut brain, pieces)), ["use a"]);
    assert_eq!(short(&result(&mut brain, "a", true)), ["ask claude-first-4-6 16384 stream"]);
    let results = last_results(&brain);
    assert!(results[1].1.starts_with("Not done") && results[2].1.starts_with("Not done"), "{results:?}");
    // Reads that fail keep nothing.
    let pieces = vec![call("d", "Read"), call("e", "Edit"), Said::Ended(Ended::Calls)];
    assert_eq!(short(&said(&mut brain, pieces)), ["use d"]);
    assert_eq!(short(&result(&mut brain, "d", true)), ["use e"]);
}

#[test]
fn an_answer_that_is_cut_gets_more_room_and_then_goes_on() {
    let mut brain = woken();
    let cut = |brain: &mut Brain| short(&said(brain, vec![text("a b c"), Said::Ended(Ended::OutputLimit)]));
    assert_eq!(cut(&mut brain), ["retracted", "ask claude-first-4-6 32768 stream"]);
    assert_eq!(cut(&mut brain), ["retracted", "ask claude-first-4-6 65536 stream"]);
    assert_eq!(cut(&mut brain), ["retracted", "ask claude-first-4-6 128000 stream"]);
    for _ in 0..3 {
        assert_eq!(cut(&mut brain), ["ask claude-first-4-6 128000 stream"]);
    }
    assert_eq!(brain.messages().len(), 7, "what was cut at the end is kept, and it is told to go on");
    assert_eq!(
        cut(&mut brain),
        ["unknown: its answers were cut at the limit of their length 4 times in a row", "end failed"]
    );
    let mut pinned = Brain::new(Settings { max_output: Some(4096), ..settings() }).unwrap();
    pinned.hear(Heard::woken("Do it."));
    assert_eq!(cut(&mut pinned), ["ask claude-first-4-6 4096 stream"], "what somebody pinned is not raised");
}

#[test]
fn a_stream_that_breaks_is_asked_for_in_one_piece_and_then_of_another_model() {
    let broken = || CallFailure::Broken { why: "cut".to_owned() };
    let fail = |brain: &mut Brain, failure| short(&brain.hear(Heard::Failed { failure }));
    let mut brain = woken();
    said(&mut brain, vec![text("Half a")]);
    assert_eq!(fail(&mut brain, broken()), ["retracted", "ask claude-first-4-6 16384 plain"]);
    assert_eq!(fail(&mut brain, broken()), ["ask gpt-second 16384 stream"]);
    assert_eq!(fail(&mut brain, broken()), ["ask gpt-second 16384 plain"]);
    assert_eq!(fail(&mut brain, broken()), ["transientUpstream: the answer broke off: cut", "end failed"]);
    assert_eq!(brain.messages().len(), 1);

    let mut brain = woken();
    let busy = CallFailure::Busy { why: "529".to_owned() };
    assert_eq!(fail(&mut brain, busy.clone()), ["ask gpt-second 16384 stream"]);
    assert_eq!(fail(&mut brain, busy)[1], "end failed");
    let mut brain = woken();
    let why = || "no".to_owned();
    assert_eq!(fail(&mut brain, CallFailure::Denied { why: why() }), ["budgetExceeded: refused: no", "end spend"]);
    let mut brain = woken();
    assert_eq!(fail(&mut brain, CallFailure::Overflow { why: why() })[1], "end prompt_too_long");
}

#[test]
fn what_began_before_a_stream_broke_is_not_begun_again() {
    let mut brain = woken();
    let pieces = vec![text("I edit."), call("a", "Edit"), call("b", "Edit"), text("And the")];
    assert_eq!(short(&said(&mut brain, pieces)), ["use a"]);
    assert!(short(&brain.hear(Heard::Failed { failure: CallFailure::Broken { why: "cut".to_owned() } })).is_empty());
    assert_eq!(short(&result(&mut brain, "a", false)), ["use b"]);
    assert_eq!(short(&result(&mut brain, "b", false)), ["ask claude-first-4-6 16384 stream"]);
    let model = &brain.messages()[1];
    assert_eq!(model.blocks.len(), 3, "the text behind the last call was half of something: {model:?}");
}

#[test]
fn letters_are_read_at_the_next_boundary() {
    let mut brain = woken();
    said(&mut brain, vec![text("I am")]);
    assert!(brain.hear(Heard::Letters { texts: vec!["Stop that.".to_owned()] }).is_empty());
    assert_eq!(
        short(&said(&mut brain, vec![text(" done."), Said::Ended(Ended::Said)])),
        ["ask claude-first-4-6 16384 stream"]
    );
    let last = brain.messages().last().unwrap();
    assert_eq!(last.blocks, [Block::Text { text: "Stop that.".to_owned() }]);
    // A run that is lost gives back what it had not read, and the next one is woken with it.
    let texts = vec!["Message msg_1: Stop that.".to_owned(), "Message msg_2: And this.".to_owned()];
    brain.hear(Heard::Letters { texts });
    brain.hear(Heard::Woken { text: "Message msg_1: Stop that.".to_owned(), messages: vec!["msg_1".to_owned()] });
    let told: Vec<&Block> = brain.messages().iter().skip(3).flat_map(|message| &message.blocks).collect();
    let texts =
        ["Message msg_1: Stop that.", "Message msg_2: And this."].map(|text| Block::Text { text: text.to_owned() });
    assert_eq!(told, texts.iter().collect::<Vec<_>>());
}

#[test]
fn who_is_asked_to_end_waits_for_what_runs() {
    let stop = || Heard::Stop { why: StopWord(AgentStop::Abort) };
    let mut brain = woken();
    said(&mut brain, vec![call("a", "Edit"), call("b", "Edit"), Said::Ended(Ended::Calls)]);
    assert_eq!(short(&brain.hear(stop())), ["cancel a"]);
    assert!(brain.hear(stop()).is_empty());
    assert_eq!(short(&result(&mut brain, "a", true)), ["end abort"]);
    assert_eq!(last_results(&brain).len(), 2);
    let mut brain = woken();
    said(&mut brain, vec![text("Ha")]);
    assert_eq!(short(&brain.hear(stop())), ["hang up", "end abort"]);
    assert_eq!(brain.messages().len(), 1);
}

#[test]
fn who_is_paused_ends_its_turn_first() {
    let pause = || Heard::Stop { why: StopWord(AgentStop::Paused) };
    let mut brain = woken();
    said(&mut brain, vec![call("a", "Edit")]);
    assert!(brain.hear(pause()).is_empty());
    said(&mut brain, vec![call("b", "Read"), Said::Ended(Ended::Calls)]);
    assert_eq!(short(&result(&mut brain, "a", false)), ["use b"]);
    assert_eq!(short(&result(&mut brain, "b", false)), ["end paused"]);
    let acts = brain.hear(Heard::woken("Go on."));
    assert_eq!(short(&acts), ["ask claude-first-4-6 16384 stream"]);
    // Whoever is done is done.
    assert!(brain.hear(pause()).is_empty());
    assert_eq!(short(&said(&mut brain, vec![text("Done."), Said::Ended(Ended::Said)])), ["end no_tool_use"]);
    // Whoever is to end at once does.
    let mut brain = woken();
    brain.hear(pause());
    assert_eq!(short(&brain.hear(Heard::Stop { why: StopWord(AgentStop::Abort) })), ["hang up", "end abort"]);
}

#[test]
fn what_is_submitted_is_checked_and_ends_the_run() {
    let mut settings = settings();
    settings.tools[5].offer.schema = json!({ "type": "object", "required": ["verdict"] });
    let mut brain = Brain::new(settings).unwrap();
    brain.hear(Heard::woken("Do it."));
    let submit = |id: &str, input| {
        let call = ToolCall { id: id.to_owned(), name: "submit_output".to_owned(), input: ToolInput::Json(input) };
        vec![Said::Block(Block::Call(call)), Said::Ended(Ended::Calls)]
    };
    assert_eq!(short(&said(&mut brain, submit("a", json!({})))), ["ask claude-first-4-6 16384 stream"]);
    assert!(last_results(&brain)[0].1.contains("verdict"));
    let acts = said(&mut brain, submit("b", json!({ "verdict": "pass" })));
    assert_eq!(short(&acts), ["end no_tool_use"]);
    assert!(acts.contains(&Act::Tell(Event::Output { value: json!({ "verdict": "pass" }) })));
    assert_eq!(brain.output(), Some(&json!({ "verdict": "pass" })));
}

#[test]
fn turns_are_counted_and_repetition_ends_it() {
    let mut brain = Brain::new(Settings { max_turns: Some(2), ..settings() }).unwrap();
    brain.hear(Heard::woken("Do it."));
    for (id, wanted) in [("a", "ask claude-first-4-6 16384 stream"), ("b", "end max_turns")] {
        said(&mut brain, vec![call(id, "Read"), Said::Ended(Ended::Calls)]);
        assert_eq!(short(&result(&mut brain, id, false)).last().unwrap(), wanted);
    }
    let mut brain = woken();
    let same = ToolCall { id: "x".to_owned(), name: "Read".to_owned(), input: ToolInput::Json(json!({})) };
    let mut ended = None;
    for turn in 0..20 {
        let acts = said(&mut brain, vec![Said::Block(Block::Call(same.clone())), Said::Ended(Ended::Calls)]);
        let Some(id) = short(&acts).into_iter().find_map(|act| act.strip_prefix("use ").map(str::to_owned)) else {
            break;
        };
        let heard = Heard::Result { call: id, text: "same".to_owned(), failed: false, seen: BTreeMap::new() };
        if let Some(last) = short(&brain.hear(heard)).last().filter(|last| last.starts_with("end")) {
            ended = Some((turn, last.clone()));
            break;
        }
    }
    assert_eq!(ended, Some((11, "end looping".to_owned())));
}

/// What a provider takes: results follow their calls, all of them, in order, and nothing else has any.
fn assert_valid(messages: &[Message]) {
    let mut open: Vec<&String> = Vec::new();
    for message in messages {
        assert!(!message.blocks.is_empty(), "{messages:?}");
        let results: Vec<&String> = message
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Result { call, .. } => Some(call),
                _ => None,
            })
            .collect();
        assert_eq!(results, open, "{messages:?}");
        open = message
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Call(call) => Some(&call.id),
                _ => None,
            })
            .collect();
        assert!(open.is_empty() || message.by == Speaker::Model, "{messages:?}");
    }
    assert!(open.is_empty(), "{messages:?}");
}

fn a_piece() -> impl Strategy<Value = Said> {
    prop_oneof![
        "[a-c ]{0,3}".prop_map(|text| Said::Text { text, begins: false }),
        ("[ab]", prop_oneof![Just("Read"), Just("Edit"), Just("Bash"), Just("Agent"), Just("TodoWrite"), Just("None")])
            .prop_map(|(id, name)| call(&id, name)),
        prop_oneof![Just(Ended::Said), Just(Ended::Calls), Just(Ended::OutputLimit), Just(Ended::Refused)]
            .prop_map(Said::Ended),
    ]
}

#[derive(Clone, Debug)]
enum Move {
    Say(Vec<Said>),
    /// The result of the so-manieth call that runs.
    Finish(usize, bool),
    Fail,
    Letter,
    Stop,
    Wake,
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        5 => prop::collection::vec(a_piece(), 0..4).prop_map(Move::Say),
        5 => (0_usize..4, any::<bool>()).prop_map(|(which, failed)| Move::Finish(which, failed)),
        1 => Just(Move::Fail),
        1 => Just(Move::Letter),
        1 => Just(Move::Stop),
        1 => Just(Move::Wake),
    ]
}

fn asked(id: &str) -> AskedCall {
    let subject = orc_domain::ids::ContentHash::of(id.as_bytes());
    AskedCall { id: id.to_owned(), tool: "Bash".to_owned(), subject, lasting: Lasting::Once }
}

fn asks(brain: &mut Brain, call: &str, about: &str, below: bool) -> Vec<Act> {
    brain.hear(Heard::Asked { call: call.to_owned(), asked: asked(about), text: format!("may {about}?"), below })
}

fn answers(brain: &mut Brain, about: &str, granted: bool) -> Vec<Act> {
    let answer = CallAnswer { call: asked(about), granted, scope: Scope::Call };
    brain.hear(Heard::Answered { answer, text: format!("no to {about}") })
}

#[test]
fn a_call_that_is_asked_about_ends_the_run_and_is_made_once_by_the_next() {
    let mut brain = woken();
    let calls = vec![call("r", "Read"), call("b", "Bash"), call("e", "Edit"), Said::Ended(Ended::Calls)];
    assert_eq!(short(&said(&mut brain, calls)), ["use r"]);
    assert_eq!(short(&result(&mut brain, "r", false)), ["use b"]);
    let acts = asks(&mut brain, "b", "b", false);
    assert_eq!(short(&acts), ["end permission"]);
    assert!(acts.contains(&Act::Tell(Event::Permission { asked: asked("b"), text: "may b?".to_owned() })));
    assert_eq!(brain.asks(), Some(&asked("b")));
    assert!(answers(&mut brain, "other", true).is_empty(), "an answer to something else");
    let acts = answers(&mut brain, "b", true);
    assert_eq!(short(&acts), ["use b"]);
    let granted = acts.iter().find_map(|act| match act {
        Act::Use { answer, .. } => answer.clone(),
        _ => None,
    });
    assert_eq!(granted, Some(CallAnswer { call: asked("b"), granted: true, scope: Scope::Call }));
    assert!(answers(&mut brain, "b", true).is_empty(), "a second answer");
    assert_eq!(short(&result(&mut brain, "b", false)), ["use e"]);
    assert_eq!(short(&result(&mut brain, "e", false)), ["ask claude-first-4-6 16384 stream"]);
    let results: Vec<_> = last_results(&brain).into_iter().map(|(call, _, failed)| (call, failed)).collect();
    assert_eq!(results, [("r".to_owned(), false), ("b".to_owned(), false), ("e".to_owned(), false)]);
}

#[test]
fn a_no_is_a_result_and_the_agent_goes_on() {
    let mut brain = woken();
    said(&mut brain, vec![call("e", "Edit"), call("f", "Edit"), Said::Ended(Ended::Calls)]);
    assert_eq!(short(&asks(&mut brain, "e", "e", false)), ["end permission"]);
    assert_eq!(short(&answers(&mut brain, "e", false)), ["use f"]);
    result(&mut brain, "f", false);
    assert_eq!(last_results(&brain)[0], ("e".to_owned(), "no to e".to_owned(), true));
}

#[test]
fn what_runs_beside_it_comes_to_its_end_and_one_is_asked_about_at_a_time() {
    let mut brain = woken();
    said(&mut brain, vec![call("a", "Agent"), call("b", "Agent"), call("c", "Agent"), Said::Ended(Ended::Calls)]);
    assert!(short(&asks(&mut brain, "a", "inner", true)).is_empty());
    assert!(short(&asks(&mut brain, "b", "other", true)).is_empty());
    assert_eq!(short(&result(&mut brain, "c", false)), ["end permission"]);
    // A no to a call of an agent below is for that agent, and the other asks again.
    assert_eq!(short(&answers(&mut brain, "inner", false)), ["spawn a", "spawn b"]);
    assert!(short(&result(&mut brain, "a", false)).is_empty());
    assert_eq!(short(&asks(&mut brain, "b", "other", true)), ["end permission"]);
}

#[test]
fn whoever_is_woken_by_something_else_hears_that_nobody_answered() {
    let mut brain = woken();
    said(&mut brain, vec![call("e", "Edit"), call("f", "Edit"), Said::Ended(Ended::Calls)]);
    asks(&mut brain, "e", "e", false);
    brain.hear(Heard::woken("Go on."));
    let results = last_results(&brain);
    assert!(results[0].1.contains("nobody said"), "{results:?}");
    assert!(results[1].1.contains("before this began"), "{results:?}");
    assert_eq!(brain.asks(), None);
}

#[test]
fn a_run_that_is_to_end_asks_nobody() {
    let mut brain = woken();
    said(&mut brain, vec![call("e", "Edit"), call("f", "Edit"), Said::Ended(Ended::Calls)]);
    assert_eq!(short(&brain.hear(Heard::Stop { why: StopWord(AgentStop::Abort) })), ["cancel e"]);
    assert_eq!(short(&asks(&mut brain, "e", "e", false)), ["end abort"]);
}

proptest! {
    /// Whatever happens in whatever order, with a crash and a new start anywhere: every question is one that a provider
    /// takes, no call begins twice, and the same hearing gives the same acts.
    #[test]
    fn whatever_is_heard_the_history_is_valid(moves in prop::collection::vec(a_move(), 1..40)) {
        let (mut brain, mut heard, mut running) = (brain(), Vec::new(), Vec::<String>::new());
        let mut begun = BTreeSet::new();
        let mut all = Vec::new();
        let first = Heard::woken("Do it.");
        for step in std::iter::once(None).chain(moves.into_iter().map(Some)) {
            let next = match step {
                None => first.clone(),
                Some(Move::Say(pieces)) => Heard::Said { pieces },
                Some(Move::Finish(which, failed)) => {
                    let Some(call) = running.get(which % running.len().max(1)).cloned() else { continue };
                    running.retain(|known| *known != call);
                    Heard::Result { text: format!("of {call}"), call, failed, seen: BTreeMap::new() }
                }
                Some(Move::Fail) => Heard::Failed { failure: CallFailure::Broken { why: "cut".to_owned() } },
                Some(Move::Letter) => Heard::Letters { texts: vec!["news".to_owned()] },
                Some(Move::Stop) => Heard::Stop { why: StopWord(AgentStop::Abort) },
                Some(Move::Wake) => {
                    running.clear();
                    Heard::woken("Again.")
                }
            };
            heard.push(next.clone());
            let acts = brain.hear(next);
            for act in &acts {
                match act {
                    Act::Ask(question) => assert_valid(&question.messages),
                    Act::Use { call, .. } | Act::Spawn { call, .. } => {
                        prop_assert!(begun.insert(call.id.clone()), "{} began twice", call.id);
                        running.push(call.id.clone());
                    }
                    _ => {}
                }
            }
            all.extend(acts);
        }
        let mut again = self::brain();
        let repeated: Vec<Act> = heard.into_iter().flat_map(|heard| again.hear(heard)).collect();
        prop_assert_eq!(all, repeated);
    }
}
