//! Calls that cannot be done, tools that go wrong, files that are not what they seem: the model is told, and goes on.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::scene::{Done, Scene, bash, calls, says};

/// What came of each call, in order, with whether it failed.
fn assert_told(done: &[Done], wanted: &[(bool, &str)]) {
    assert_eq!(done.len(), wanted.len(), "{done:#?}");
    for (done, (failed, text)) in done.iter().zip(wanted) {
        assert!(done.failed == *failed && done.text.contains(text), "`{text}` is not in {done:#?}");
    }
}

#[test]
fn calls_that_cannot_be_done_are_answered_with_what_is_wrong_and_the_others_are_done() {
    let scene = Scene::new(&[
        calls(&[
            ("functions.Launch", json!({})),
            ("Write", json!({ "file_path": "a", "content": "a" })),
            ("Edit", json!({ "file_path": "a", "old_string": "a", "new_string": "b" })),
            ("Agent", json!({ "subagent_type": "worker", "prompt": "Go." })),
            ("Read", json!("{\"file_path\": \"a")),
            ("Read", json!({})),
            ("Read", json!({ "file_path": 3, "offset": "x" })),
            ("Bash", json!({ "command": "echo done", "timeout": -1 })),
            // Many models name what they leave out.
            ("Bash", json!({ "command": "echo done", "timeout": null })),
        ]),
        says("So be it."),
    ]);
    scene.agent("worker", "tools: [Read, Write, Bash]\ndisallowedTools: [Write]\n");
    scene.run(0);
    let there_are = "There are: Read, Bash.";
    let wanted = [
        (true, there_are),
        (true, "There is no tool `Write` in this run."),
        (true, "There is no tool `Edit` in this run."),
        (true, "There is no tool `Agent` in this run."),
        (true, "The input of `Read` is no JSON: EOF while parsing a string"),
        (true, "file_path"),
        (true, "`file_path`: want string"),
        (true, "`timeout`"),
        (false, "done\n"),
    ];
    assert_told(&scene.results(), &wanted);
    let question = scene.questions()[0].clone();
    let names: Vec<&str> =
        question["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Read", "Bash"]);
    scene.assert_replays();
}

#[test]
fn what_follows_a_command_that_failed_is_not_done_and_reads_beside_it_are() {
    let scene = Scene::new(&[
        calls(&[
            ("Read", json!({ "file_path": "a.txt" })),
            ("Bash", json!({ "command": "echo before; exit 3" })),
            ("Bash", json!({ "command": "echo behind > behind" })),
            ("Read", json!({ "file_path": "a.txt" })),
        ]),
        says("I see."),
    ]);
    scene.world.write("a.txt", "text\n");
    scene.run(0);
    let behind = "Not done: `Bash` before it in the same answer failed.";
    assert_told(&scene.results(), &[(false, "text"), (true, "before\n[exit code 3]"), (true, behind), (true, behind)]);
}

#[test]
fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    let hang = json!({ "command": "(sleep 300; echo late > late) & echo begun; sleep 300", "timeout": 400 });
    let scene =
        Scene::new(&[calls(&[("Bash", hang)]), bash("ls; ps ax | grep -c '[s]leep' || true"), says("It hangs.")]);
    scene.run(0);
    let done = scene.results();
    assert!(done[0].failed && done[0].text.starts_with("begun\n[ended after 400 ms"), "{done:?}");
    assert!(!done[1].text.contains("late"), "{done:?}");
    scene.assert_replays();
}

#[test]
fn two_hundred_megabytes_of_output_reach_the_model_as_two_ends_and_the_path_of_the_whole() {
    let scene = Scene::new(&[
        bash("echo first; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last"),
        bash("wc -c < \"$(ls \"${ORC_TEMP:-/tmp}\"/output-*.txt)\""),
        says("Much."),
    ]);
    scene.run(0);
    let done = scene.results();
    let text = &done[0].text;
    assert!(!done[0].failed && text.len() <= 30_000, "{} bytes", text.len());
    assert!(text.starts_with("first\nxxx") && text.contains("last"), "{}", &text[text.len() - 300..]);
    assert!(text.contains("output-1.txt"), "{}", &text[text.len() - 300..]);
    assert_eq!(done[1].text.trim(), "200000012");
    // What is kept of it is bounded too.
    let record = std::fs::metadata(scene.record()).unwrap().len();
    assert!(record < 300_000, "{record}");
    scene.assert_replays();
}

#[test]
fn files_that_are_no_plain_text_are_shown_for_what_they_are_and_edits_keep_the_rest() {
    let read = |name: &str| ("Read", json!({ "file_path": name }));
    let edit = |name: &str| ("Edit", json!({ "file_path": name, "old_string": "two", "new_string": "2" }));
    let utf16: Vec<u8> =
        std::iter::once(0xFEFF_u16).chain("one\r\ntwo\r\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let scene = Scene::new(&[
        calls(&[
            read("picture.png"),
            read("wide.txt"),
            read("crlf.txt"),
            read("open.txt"),
            read("empty.txt"),
            read("."),
        ]),
        calls(&[edit("wide.txt"), edit("crlf.txt"), edit("open.txt"), edit("picture.png")]),
        says("Edited."),
    ]);
    let write = |name: &str, bytes: &[u8]| std::fs::write(scene.world.repo().join(name), bytes).unwrap();
    write("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe\0");
    write("wide.txt", &utf16);
    write("crlf.txt", b"one\r\ntwo\r\n");
    write("open.txt", b"one\ntwo");
    write("empty.txt", b"");
    scene.world.write(".gitattributes", "* -text\n");
    scene.run(0);
    let wanted = [
        (false, "is a PNG picture, 19 bytes"),
        (false, "2\ttwo"),
        (false, "2\ttwo"),
        (false, "2\ttwo"),
        (false, "empty"),
        (true, "directory"),
        (false, "wide.txt"),
        (false, "crlf.txt"),
        (false, "open.txt"),
        (true, "picture.png"),
    ];
    assert_told(&scene.results(), &wanted);
    let wide: Vec<u8> =
        std::iter::once(0xFEFF_u16).chain("one\r\n2\r\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(scene.made("wide.txt"), wide);
    assert_eq!(scene.made("crlf.txt"), b"one\r\n2\r\n");
    assert_eq!(scene.made("open.txt"), b"one\n2");
    scene.assert_replays();
}

#[test]
fn links_out_of_the_copy_lead_nowhere_and_links_within_say_where_they_lead() {
    let scene = Scene::new(&[
        calls(&[
            ("Read", json!({ "file_path": "AGENTS.md" })),
            ("Read", json!({ "file_path": "within" })),
            ("Read", json!({ "file_path": "out/secret.txt" })),
            ("Read", json!({ "file_path": "round" })),
            ("Write", json!({ "file_path": "AGENTS.md", "content": "mine now\n" })),
            ("Grep", json!({ "pattern": "hunter2", "output_mode": "content" })),
            ("Bash", json!({ "command": "cat AGENTS.md out/secret.txt; true" })),
        ]),
        says("Nothing there."),
    ]);
    let outside = scene.world.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.txt"), "the password is hunter2\n").unwrap();
    let repo = scene.world.repo();
    symlink(outside.join("secret.txt"), repo.join("AGENTS.md")).unwrap();
    symlink(&outside, repo.join("out")).unwrap();
    symlink("round", repo.join("round")).unwrap();
    scene.world.write("a.txt", "plain\n");
    symlink("a.txt", repo.join("within")).unwrap();
    scene.run(0);
    let done = scene.results();
    let failed: Vec<bool> = done.iter().map(|done| done.failed).collect();
    assert_eq!(failed[..4], [true, false, true, true], "{done:#?}");
    assert!(done[1].text.contains("plain"), "{done:#?}");
    assert!(!scene.told().replace("\"pattern\":\"hunter2\"", "").contains("the password is"), "{done:#?}");
    assert_eq!(std::fs::read_to_string(outside.join("secret.txt")).unwrap(), "the password is hunter2\n");
    assert!(!done[5].text.contains("password") && !done[6].text.contains("password"), "{done:#?}");
}

#[test]
fn an_answer_with_very_many_calls_gets_all_of_its_results_in_order() {
    let each: Vec<(&str, Value)> =
        (0..200).map(|number| ("Read", json!({ "file_path": format!("f/{number}") }))).collect();
    let scene = Scene::new(&[calls(&each), says("All read.")]);
    for number in 0..200 {
        scene.world.write(&format!("f/{number}"), &format!("this is {number}\n"));
    }
    scene.run(0);
    let done = scene.results();
    assert_eq!(done.len(), 200);
    for (number, done) in done.iter().enumerate() {
        assert!(done.text.ends_with(&format!("this is {number}\n")), "{done:?}");
    }
    scene.assert_replays();
}

#[test]
fn a_shell_in_the_background_is_heard_ended_and_gone_with_its_run() {
    let begin = json!({ "command": "echo up; while :; do sleep 0.05; echo tick; done", "run_in_background": true });
    let scene = Scene::new(&[
        calls(&[("Bash", begin.clone())]),
        bash("sleep 0.3"),
        calls(&[("BashOutput", json!({ "bash_id": "1" }))]),
        calls(&[("KillShell", json!({ "shell_id": "1" }))]),
        calls(&[("BashOutput", json!({ "bash_id": "1" })), ("BashOutput", json!({ "bash_id": "7" }))]),
        // This one is left running.
        calls(&[("Bash", begin)]),
        says("Enough."),
    ]);
    scene.run(0);
    let done = scene.results();
    assert!(done[0].text.contains("as `1`"), "{done:#?}");
    assert!(done[2].text.starts_with("up\ntick\n") && done[2].text.ends_with("[it runs]"), "{done:#?}");
    assert!(!done[3].failed && done[4].text.contains("it has ended"), "{done:#?}");
    assert!(done[5].failed && done[5].text.contains("There is no shell `7`"), "{done:#?}");
    scene.assert_replays();
}

#[test]
fn results_that_are_too_long_together_go_to_files_and_the_model_gets_the_paths() {
    let each: Vec<(&str, Value)> =
        (0..10).map(|number| ("Read", json!({ "file_path": format!("f/{number}") }))).collect();
    let scene = Scene::new(&[
        calls(&each),
        bash(
            "for file in ${ORC_TEMP:-/tmp}/output-*.txt; do tail -n 1 \"$file\"; done; echo; ls ${ORC_TEMP:-/tmp} | wc -l",
        ),
        calls(&each[..2]),
        says("Too much."),
    ]);
    for number in 0..10 {
        let lines: String = (0..1_000).map(|line| format!("line {line} of {number} {}\n", "x".repeat(40))).collect();
        scene.world.write(&format!("f/{number}"), &format!("{lines}last of {number}"));
    }
    scene.run(0);
    let done = scene.results();
    let (whole, kept): (Vec<_>, Vec<_>) = done[..10].iter().partition(|done| done.text.contains("last of"));
    assert_eq!((whole.len(), kept.len()), (3, 7), "{kept:#?}");
    for done in kept {
        assert!(!done.failed && done.text.len() < 1_500, "{done:?}");
        assert!(done.text.contains("     1\tline 0 of") && done.text.contains("; all of it is in /orc/temp/output-"));
    }
    assert!(done[10].text.ends_with("\n7\n"), "{done:?}");
    assert_eq!(done[10].text.matches("no newline at the end").count(), 7, "{done:?}");
    // A turn later there is room again.
    assert!(done[11..13].iter().all(|done| done.text.contains("last of")));
    scene.assert_replays();
}

#[test]
fn a_memory_file_that_is_too_long_to_be_read_is_not_passed_over_in_silence() {
    let scene = Scene::new(&[says("Seen.")]);
    scene.world.write("AGENTS.md", &"a rule\n".repeat(50_000));
    scene.world.write("CLAUDE.md", "another rule\n");
    scene.run(0);
    let told = scene.told();
    assert!(told.contains("From `AGENTS.md`") && told.contains("another rule"), "{told}");
    assert!(
        told.contains("there and was not read here: `/workspace/AGENTS.md`: it is longer than 262144 bytes"),
        "{told}"
    );
    // Nothing is asked for nothing.
    let said = scene.world.run_to(2, &["ask", "worker", " "]);
    assert!(said.err.contains("the question is empty"), "{}", said.err);
}
