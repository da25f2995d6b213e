use orc_domain::json_schema::JsonSchema;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}

fn verdict() -> Option<JsonSchema> {
    let schema =
        json!({ "type": "object", "required": ["verdict"], "properties": { "verdict": { "enum": ["pass", "fail"] } } });
    Some(JsonSchema::compile(&schema).unwrap())
}

fn heard(schema: Option<JsonSchema>, out: &[u8], err: &[u8]) -> (Box<CommandListener>, Vec<Finding>) {
    let mut listener = Box::new(CommandListener::new(schema));
    let pieces = [(Stream::Stdout, out, 1), (Stream::Stderr, err, 2)];
    let findings = pieces.into_iter().filter_map(|(stream, bytes, second)| listener.hear(stream, bytes, at(second)));
    let findings = findings.collect();
    (listener, findings)
}

fn result(schema: Option<JsonSchema>, out: &str, exit: Exit, stopped: Option<AgentStop>) -> AgentResult {
    heard(schema, out.as_bytes(), b"").0.finish(End { exit, stopped })
}

fn told(schema: Option<JsonSchema>, out: &str, exit: Exit, stopped: Option<AgentStop>) -> String {
    let AgentResult { outcome, stop, .. } = result(schema, out, exit, stopped);
    let family =
        if let AgentOutcome::Failed { family, .. } = &outcome { format!(" {family:?}") } else { String::new() };
    format!("{outcome}{family} [{}]", stop.map_or("-", AgentStop::word))
}

const OK: Exit = Exit::Code(0);
const PASS: &str = "{\"type\":\"output\",\"value\":{\"verdict\":\"pass\"}}\n";

#[test]
fn an_exit_with_code_0_is_no_delivery() {
    let cases = [
        ("", "not delivered: it ended well and submitted no output (`verdict`: is missing) [contract]"),
        (PASS, "delivered [no_tool_use]"),
        (PASS.trim_end(), "delivered [no_tool_use]"),
        (
            "All is fine, verdict: pass\n",
            "not delivered: it ended well and submitted no output (`verdict`: is missing) [contract]",
        ),
        (
            "{\"type\":\"output\",\"value\":{\"verdict\":\"maybe\"}}\n",
            "not delivered: its output does not fit the schema: `verdict`: value must be one of 'pass', 'fail' [contract]",
        ),
        (
            "{\"type\":\"output\"}\n",
            "not delivered: it ended well and submitted no output (`verdict`: is missing); an `output` event could not be \
             read: it has no `value` [contract]",
        ),
        (
            "{\"type\":\"output\",\"value\":{\"verd",
            "not delivered: it ended well and submitted no output (`verdict`: is missing); its last line is an event that is \
             cut off [contract]",
        ),
        (
            "{\"type\":\"stop\",\"reason\":\"max_turns\"}\n",
            "not delivered: it ended well and submitted no output (`verdict`: is missing) [max_turns]",
        ),
    ];
    for (out, wanted) in cases {
        assert_eq!(told(verdict(), out, OK, None), wanted, "{out}");
    }
    let long = format!("{{\"type\":\"output\",\"value\":\"{}\"}}\n", "x".repeat(MAX_LINE_BYTES));
    assert!(told(verdict(), &long, OK, None).contains("lines longer than 1048576 bytes were not read: 1"));
}

#[test]
fn without_a_schema_it_must_say_something() {
    let cases = [
        ("", "not delivered: it ended well and said nothing: neither a message nor an output [contract]"),
        (
            "\n \n{\"type\":\"progress\"}\n",
            "not delivered: it ended well and said nothing: neither a message nor an output [contract]",
        ),
        ("done\n", "delivered [no_tool_use]"),
        ("{\"type\":\"output\",\"value\":null}", "delivered [no_tool_use]"),
    ];
    for (out, wanted) in cases {
        assert_eq!(told(None, out, OK, None), wanted, "{out}");
    }
    let deep = format!("{{\"type\":\"output\",\"value\":{}{}}}", "[".repeat(70), "]".repeat(70));
    assert_eq!(told(None, &deep, OK, None), "not delivered: its output is nested deeper than 64 levels [contract]");
}

#[test]
fn the_last_word_counts_and_an_output_takes_it_back() {
    let error = "{\"type\":\"error\",\"family\":\"transientUpstream\",\"message\":\"503\"}\n";
    let ask = "{\"type\":\"ask\",\"text\":\"which branch?\"}\n";
    let blocked = "{\"type\":\"blocked\",\"why\":\"no key\"}\n";
    let cases = [
        (error.to_owned(), OK, "failed: 503 TransientUpstream [-]"),
        (format!("{PASS}{error}"), OK, "failed: 503 TransientUpstream [-]"),
        (format!("{error}{PASS}"), OK, "delivered [no_tool_use]"),
        (format!("{error}{PASS}"), Exit::Code(1), "failed: exit code 1 Unknown [-]"),
        (error.to_owned(), Exit::Code(3), "failed: 503 TransientUpstream [-]"),
        (ask.to_owned(), OK, "asks: which branch? [no_tool_use]"),
        (format!("{ask}{blocked}"), Exit::Code(1), "blocked: no key [no_tool_use]"),
        (format!("{blocked}{error}"), OK, "failed: 503 TransientUpstream [-]"),
        (format!("{ask}{PASS}"), OK, "delivered [no_tool_use]"),
        (format!("{PASS}hm\n"), Exit::Code(7), "failed: exit code 7: hm Unknown [-]"),
        (PASS.to_owned(), Exit::Signal(9), "failed: ended by signal 9 Unknown [-]"),
    ];
    for (out, exit, wanted) in cases {
        assert_eq!(told(verdict(), &out, exit, None), wanted, "{out} {exit:?}");
    }
    let (listener, _) = heard(None, ask.as_bytes(), b"");
    assert!(listener.says_blocked());
}

#[test]
fn a_stop_of_ours_decides_unless_it_said_that_it_was_done() {
    let term = Exit::Signal(15);
    let done = format!("{PASS}{{\"type\":\"stop\"}}\n");
    let cases = [
        (PASS, AgentStop::Silence, "failed: it said nothing for longer than it may SilentRun [silence]"),
        (PASS, AgentStop::Looping, "failed: it repeated itself: `` Unknown [looping]"),
        (PASS, AgentStop::Spend, "failed: it spent what it may BudgetExceeded [spend]"),
        (PASS, AgentStop::Abort, "cancelled [abort]"),
        (PASS, AgentStop::Takeover, "cancelled [takeover]"),
        (done.as_str(), AgentStop::Silence, "delivered [no_tool_use]"),
        (done.as_str(), AgentStop::NoToolUse, "delivered [no_tool_use]"),
        (
            "{\"type\":\"stop\"}\n",
            AgentStop::Silence,
            "not delivered: it ended well and submitted no output (`verdict`: is missing) [contract]",
        ),
    ];
    for (out, stopped, wanted) in cases {
        assert_eq!(told(verdict(), out, term, Some(stopped)), wanted, "{out} {stopped:?}");
    }
    assert_eq!(told(verdict(), &done, Exit::Code(1), None), "failed: exit code 1 Unknown [no_tool_use]");
    let kept = result(verdict(), PASS, term, Some(AgentStop::Spend)).output;
    assert_eq!(kept.unwrap().to_json(), json!({ "verdict": "pass" }), "what it delivered can be harvested");
}

#[test]
fn the_final_message_is_the_last_one_or_else_the_text() {
    let message = |out: &str| result(None, out, OK, None).message;
    assert_eq!(message("a\n\nb\r\nc").as_deref(), Some("a\n\nb\nc"));
    let told = "text\n{\"type\":\"message\",\"text\":\"one\"}\n{\"type\":\"message\",\"text\":\" two\\n\"}\nmore\n";
    assert_eq!(message(told).as_deref(), Some("two"));
    assert_eq!(message("\n \n"), None);
    let long = (0..100_000).map(|number| format!("line \u{e4} {number}\n")).collect::<String>();
    let kept = message(&long).unwrap();
    assert!(kept.starts_with("[...] ") && kept.ends_with(" 99999") && kept.len() <= MAX_MESSAGE_BYTES + 6);
    let huge = format!("{{\"type\":\"message\",\"text\":\"{}end\"}}", "\u{e4}".repeat(200_000));
    assert!(message(&huge).unwrap().ends_with("end"));
}

#[test]
fn usage_is_summed_and_what_is_unknown_counted() {
    let out = "{\"type\":\"usage\",\"input\":5,\"output\":1}\n{\"type\":\"usage\",\"input\":5,\"calls\":2,\"cost_usd_micros\":7}\n\
               {\"type\":\"usage\",\"input\":-5}\n{\"type\":\"pondering\"}\nhm\n";
    let AgentResult { usage, statistics, .. } = result(None, out, OK, None);
    assert_eq!((usage.input, usage.output, usage.calls, usage.cost.as_micros()), (10, 1, 3, 7));
    assert_eq!((statistics.lines, statistics.events, statistics.unknown), (5, 4, 2));
    assert_eq!((statistics.bytes, statistics.last_output_at), (out.len() as u64, Some(at(1))));
    assert_eq!(statistics.last_progress_at, None);
    let worked = result(None, "{\"type\":\"tool\",\"name\":\"Edit\",\"state\":\"finished\"}\n", OK, None).statistics;
    assert_eq!(worked.last_progress_at, Some(at(1)));
}

#[test]
fn a_loop_is_found_once_wherever_it_is() {
    let found = |out: String, err: String| heard(None, out.as_bytes(), err.as_bytes()).1;
    let again = |line: &str, times: u32| format!("{line}\n").repeat(times as usize);
    let looping = |what: &str| [Finding::Looping { what: what.to_owned() }];
    assert_eq!(found(again("same", MAX_REPEATS - 1), String::new()), []);
    assert_eq!(found(again("same", 3 * MAX_REPEATS), String::new()), looping("same"));
    assert_eq!(found(String::new(), again("same", MAX_REPEATS)), looping("same"));
    assert_eq!(found(again("a\nb", MAX_REPEATS), String::new()), looping("b"));
    let tool = "{\"type\":\"tool\",\"name\":\"Read\"}";
    assert_eq!(found(again(tool, MAX_REPEATS), String::new()), looping(tool));
    for life in ["{\"type\":\"progress\"}", "{\"type\":\"tool\",\"name\":\"Bash\",\"state\":\"progress\"}"] {
        assert_eq!(found(again(life, 9999), String::new()), [], "it is alive and says so");
    }
    let reads = (0..9999).map(|file| format!("{{\"type\":\"tool\",\"name\":\"Read\",\"input\":{file}}}\n"));
    assert_eq!(found(reads.collect(), String::new()), [], "the same tool with another input is no repetition");
    assert_eq!(found("\n".repeat(9999), String::new()), []);
    let (listener, _) = heard(None, again("same", 150).as_bytes(), b"");
    assert_eq!(listener.statistics().repeats, 150);
    let result = listener.finish(End { exit: Exit::Signal(15), stopped: Some(AgentStop::Looping) });
    assert_eq!(result.outcome.to_string(), "failed: it repeated itself: `same`");
}

#[test]
fn a_program_that_is_done_is_told_of_once() {
    let (mut listener, findings) = heard(None, b"{\"type\":\"stop\"}\n{\"type\":\"stop\"}\n", b"");
    assert_eq!(findings, [Finding::Done]);
    assert_eq!(listener.hear(Stream::Stdout, b"{\"type\":\"stop\"}\n", at(3)), None);
}

#[test]
fn the_reason_of_a_failure_is_the_last_line_of_each_output() {
    let (listener, _) = heard(None, b"out\n", b"warning\nE: \x1b[31mno key\x1b[0m\n\n");
    let result = listener.finish(End { exit: Exit::Code(2), stopped: None });
    assert_eq!(result.outcome.to_string(), "failed: exit code 2: out; E: \u{fffd}[31mno key\u{fffd}[0m");
    let (listener, _) = heard(None, b"", b"E\n");
    let result = listener.finish(End { exit: Exit::Code(2), stopped: None });
    assert_eq!(result.outcome.to_string(), "failed: exit code 2: E");
}

#[test]
fn a_flood_takes_no_memory() {
    let mut listener = Box::new(CommandListener::new(None));
    let piece: Vec<u8> = (0..1_000_000_u32).map(|byte| b'a' + u8::try_from(byte % 23).unwrap()).collect();
    for _ in 0..50 {
        listener.hear(Stream::Stdout, &piece, at(1));
        listener.hear(Stream::Stderr, b"{\"type\":\"output\",\"value\":1}\n", at(1));
    }
    listener.hear(Stream::Stdout, b"\n", at(1));
    let result = listener.finish(End { exit: OK, stopped: None });
    assert_eq!((result.statistics.overlong, result.statistics.lines, result.output), (1, 51, None));
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let words: &[&[u8]] = &[
        b"\n",
        b"\r",
        b"\r\n",
        b"\0",
        b"\xff",
        b"\xc3",
        b"\xa4",
        b"a",
        b"{",
        b"}",
        b"\"",
        b"{\"type\":",
        b"\"message\",\"text\":\"hi\"}",
        b"{\"type\":\"output\",\"value\":{\"verdict\":\"pass\"}}",
        b"{\"type\":\"stop\"}",
        b"{\"type\":\"usage\",\"input\":1}",
        b"{\"type\":\"ask\",\"text\":\"?\"}",
        b"{\"type\":\"error\"}",
        b"same\n",
    ];
    let one =
        prop_oneof![prop::sample::select(words).prop_map(<[u8]>::to_vec), prop::collection::vec(any::<u8>(), 0..4)];
    prop::collection::vec(one, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Whatever the bytes and however they are cut, the result is the same, and nothing panics.
    #[test]
    fn any_pieces_give_the_same_result(bytes in pieces(), cuts in prop::collection::vec(0..200_usize, 0..20), code in 0..2) {
        let end = End { exit: Exit::Code(code), stopped: None };
        let (listener, _) = heard(verdict(), &bytes, b"");
        let whole = listener.finish(end);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut listener = Box::new(CommandListener::new(verdict()));
        for cut in cuts.windows(2) {
            listener.hear(Stream::Stdout, &bytes[cut[0]..cut[1]], at(1));
        }
        prop_assert_eq!(listener.finish(end), whole);
    }

    /// A delivery always has its evidence.
    #[test]
    fn nothing_is_delivered_without_evidence(bytes in pieces(), code in 0..2, stopped in 0..4_usize) {
        let stopped = [None, Some(AgentStop::Silence), Some(AgentStop::Abort), Some(AgentStop::NoToolUse)][stopped];
        let result = heard(verdict(), &bytes, b"").0.finish(End { exit: Exit::Code(code), stopped });
        if result.outcome == AgentOutcome::Delivered {
            prop_assert_eq!(result.output.unwrap().to_json(), json!({ "verdict": "pass" }));
        }
    }
}
