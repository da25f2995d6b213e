//! When what a tool says now is what it said then. Whoever does the same twice does it at another time: points in time,
//! durations, names of temporary files and the id of the instance count as equal, whatever they are, and `Glob` lists what was changed last first, so
//! that its lines count in any order. Nothing else does: a commit that is made anew has another id, and that is told.

use std::sync::LazyLock;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;

/// What differs from one time to the other, and what stands for it in a comparison. In this order.
const VARYING: [(&str, &str); 7] = [
    // `2026-12-01`, `2026-12-01T14:13:50.123Z`, `2026-12-01 14:13:50 +0000`
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?", "<time>"),
    // `Tue Dec  1 14:13:50 UTC 2026`, `Tue Dec 1 14:13:50 2026 +0000`, `Dec  1 14:13` and `Dec  1  2025` of `ls -l`
    (
        r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +)?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2},? +(?:\d\d:\d\d(?::\d\d)?|\d{4})(?: +[A-Z]{3,4})?(?: +\d{4}\b)?(?: +[+-]\d{4})?",
        "<time>",
    ),
    // `Tue, 1 Dec 2026 14:13:50 +0000`
    (
        r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +)?\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4}(?: \d\d:\d\d(?::\d\d)?(?: (?:[A-Z]{3,4}|[+-]\d{4}))?)?",
        "<time>",
    ),
    // `14:13:50`
    (r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
    // `0m0.012s`, `1.5 ms`, `in 3 seconds`
    (r"\b(?:\d+m\d+(?:[.,]\d+)?s|\d+(?:[.,]\d+)? ?(?:ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?))\b", "<duration>"),
    // `/tmp/tmp.AbCdEf1234`, `/tmp/.tmpAbCdEf`, `/orc/temp/tmpabcd1234`
    (r"(?:/[\w.-]+)+/\.?tmp[\w.-]{6,}", "<temporary file>"),
    // `ORC_INSTANCE`: whoever looks is another process.
    (r"\binst_[0-9a-z]{26}\b", "<instance>"),
];

#[expect(clippy::expect_used, reason = "the patterns are constants, and a test compiles them")]
static RULES: LazyLock<Vec<(RegexMatcher, &str)>> = LazyLock::new(|| {
    let compile = |(pattern, instead)| (RegexMatcher::new(pattern).expect("a pattern of ours"), instead);
    VARYING.map(compile).into()
});

/// What of two results of a tool shows that they differ: the lines from the first one on that is another; none: they do not.
pub(super) fn difference(tool: &str, then: &str, now: &str) -> Option<(String, String)> {
    let (then, now) = (lines(tool, then), lines(tool, now));
    let same = then.iter().zip(&now).take_while(|(then, now)| then.0 == now.0).count();
    if same == then.len() && same == now.len() {
        return None;
    }
    let from = |lines: &[(String, &str)]| lines[same..].iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
    Some((from(&then), from(&now)))
}

/// Each line as it is compared, and as it is.
fn lines<'a>(tool: &str, text: &'a str) -> Vec<(String, &'a str)> {
    let mut lines: Vec<_> = text.split('\n').map(|line| (lasting(line), line)).collect();
    if tool == "Glob" {
        lines.sort();
    }
    lines
}

/// A line without what varies.
fn lasting(line: &str) -> String {
    RULES.iter().fold(line.to_owned(), |line, (rule, instead)| {
        let mut replaced = Vec::new();
        let done = rule.replace(line.as_bytes(), &mut replaced, |_, into| {
            into.extend_from_slice(instead.as_bytes());
            true
        });
        match (done, String::from_utf8(replaced)) {
            (Ok(()), Ok(replaced)) => replaced,
            _ => line,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_durations_and_names_that_are_made_up_count_as_equal() {
        let equal = [
            ("Tue Dec  1 14:13:50 UTC 2026", "Wed Jan 13 09:00:01 UTC 2027"),
            ("Date:   Tue Dec 1 14:13:50 2026 +0000", "Date:   Thu Dec 3 04:13:50 2026 +0100"),
            ("Tue, 1 Dec 2026 14:13:50 +0000", "Thu, 03 Dec 2026 04:13:50 +0000"),
            ("at 2026-12-01T14:13:50.123Z", "at 2027-01-13T09:00:01.5Z"),
            ("-rw-r--r-- 1 orc orc 12 Dec  1 14:13 a.txt", "-rw-r--r-- 1 orc orc 12 Jan 13  2025 a.txt"),
            ("ok: 12 passed in 0.02s", "ok: 12 passed in 3 seconds"),
            ("real\t0m0.012s", "real\t1m2.5s"),
            ("took 11.5 ms (14:13:50)", "took 9 µs (9:00:01)"),
            ("ORC_INSTANCE=inst_01m8s1gv52e9kvagy9mwaj9tb2", "ORC_INSTANCE=inst_01m8s1gryje598w3nys1pbqr6w"),
            ("/tmp/tmp.AbCdEf1234", "/tmp/tmp.0123456789"),
            ("open /orc/temp/.tmpAbCdEf/x: no", "open /orc/temp/.tmp012345/x: no"),
        ];
        for (then, now) in equal {
            assert_eq!(difference("Bash", then, now), None, "{then} | {now}: {} | {}", lasting(then), lasting(now));
        }
        let others = [
            ("123456789", "123456780"),
            ("3 files", "4 files"),
            ("exit code 1", "exit code 2"),
            ("[main 1234abc] work", "[main 1234abd] work"),
            ("-rw-r--r-- 1 orc orc 12 Dec  1 14:13 a.txt", "-rw-r--r-- 1 orc orc 13 Dec  1 14:13 a.txt"),
            ("/tmp/one.txt", "/tmp/two.txt"),
            ("1.5 s of 3 parts", "1.5 s of 4 parts"),
            ("a\nb", "a"),
            ("a", "a\n"),
            ("b\na", "a\nb"),
        ];
        for (then, now) in others {
            assert!(difference("Bash", then, now).is_some(), "{then} | {now}");
        }
    }

    #[test]
    fn what_differs_is_shown_from_its_first_line_on_as_it_is() {
        let shown = difference("Bash", "one 0.1s\ntwo\nthree 1s", "one 0.2s\n2\nthree 4s").unwrap();
        assert_eq!(shown, ("two\nthree 1s".to_owned(), "2\nthree 4s".to_owned()));
        assert_eq!(difference("Bash", "one\ntwo", "one").unwrap(), ("two".to_owned(), String::new()));
        assert_eq!(difference("Glob", "b\na", "a\nb"), None);
        assert_eq!(difference("Glob", "b\na", "c\na").unwrap(), ("b".to_owned(), "c".to_owned()));
    }
}
