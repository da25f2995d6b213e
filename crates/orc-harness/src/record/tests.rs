use super::*;
use crate::talk::{Block, Ended, Speaker};

fn at() -> Timestamp {
    Timestamp::from_millis(7)
}

fn text(text: &str) -> Said {
    Said::Text { text: text.to_owned(), begins: false }
}

#[test]
fn what_a_crash_left_at_the_end_goes_and_the_rest_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b.jsonl");
    let (mut record, lines) = Record::open(&path).unwrap();
    assert_eq!(lines, []);
    record.hear(at(), &Heard::woken("Do it.")).unwrap();
    for piece in [text("Do"), Said::CallBegins { name: "x".to_owned() }, text("ne."), Said::Ended(Ended::Said)] {
        record.hear(at(), &Heard::Said { pieces: vec![piece] }).unwrap();
    }
    record.append(at(), Entry::Ended { stop: None, events: vec!["e".to_owned()] }).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let known = read(&path).unwrap();
    let said = Heard::Said { pieces: vec![text("Done."), Said::Ended(Ended::Said)] };
    assert_eq!(known[1].entry, Entry::Heard { heard: said });
    assert_eq!(known.iter().map(|line| line.seq).collect::<Vec<_>>(), [1, 2, 3]);
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').map(|at| at + 1).collect();
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let (mut record, lines) = Record::open(&path).unwrap();
        let complete = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(lines, known[..complete], "cut at {cut}");
        record.append(at(), Entry::Ended { stop: None, events: vec!["e".to_owned()] }).unwrap();
        assert_eq!(read(&path).unwrap().len(), complete + 1, "cut at {cut}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.jsonl");
    std::fs::write(&path, "{\"v\":1,\"seq\":1,\"at\":7,\"kind\":\"ended\",\"events\":[]}\n{]\n").unwrap();
    assert!(read(&path).unwrap_err().to_string().starts_with("line 2 of the record"));
    std::fs::write(&path, "{\"v\":2,\"seq\":1,\"at\":7,\"kind\":\"ended\",\"events\":[]}\n").unwrap();
    assert!(read(&path).unwrap_err().to_string().ends_with("version 2 is not 1"));
}

#[test]
fn a_difference_is_named() {
    let message = |text: &str| Message { by: Speaker::User, blocks: vec![Block::Text { text: text.to_owned() }] };
    let question = |texts: &[&str]| Question {
        model: "m".to_owned(),
        system: "s".to_owned(),
        tools: Vec::new(),
        messages: texts.iter().map(|text| message(text)).collect(),
        max_output: None,
        effort: None,
        stream: true,
    };
    let (one, other) = (question(&["a", "b", "c"]), question(&["a", "x", "c"]));
    let difference =
        |one: &Question, other: &Question| Print::of(one, 1).difference(&Print::of(other, 1), 1, &other.messages);
    assert_eq!(difference(&one, &one), None);
    assert_eq!(difference(&one, &other).unwrap(), "message 2 differs: text `x`");
    assert_eq!(difference(&one, &question(&["a", "b"])).unwrap(), "message 3 differs: one has more messages");
    let system = Question { system: "t".to_owned(), ..one.clone() };
    assert_eq!(difference(&one, &system).unwrap(), "the system text differs");
}
