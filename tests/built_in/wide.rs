//! A repository with very many files: what an agent is told of it, and what its tools say, does not grow with it. With
//! `ORC_WIDE_FILES=200000` this takes minutes, so by itself it has fewer.
#![expect(clippy::disallowed_methods, reason = "git is asked as a user does")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::scene::{Scene, bash, calls, says};
use crate::support::{as_ann, git};

/// Files below `many/`, a thousand in each directory; `ORC_WIDE_FILES` says how many if it is set.
fn count() -> usize {
    std::env::var("ORC_WIDE_FILES").ok().map_or(10_000, |count| count.parse().unwrap())
}

/// Commits so many files on top of what is there, without writing them out.
fn commit(scene: &Scene, count: usize) {
    let head = git(&scene.world.repo(), &["rev-parse", "HEAD"]);
    let mut stream = String::from("blob\nmark :1\ndata 6\nplain\n\nblob\nmark :2\ndata 7\nneedle\n\n");
    let _ =
        write!(stream, "commit refs/heads/main\ncommitter Ann <ann@example.org> 1 +0000\ndata 4\nmany\nfrom {head}\n");
    for number in 0..count {
        let mark = if number % 1_000 == 7 { 2 } else { 1 };
        let _ = writeln!(stream, "M 100644 :{mark} many/{}/{number}.txt", number / 1_000);
    }
    let mut import = Command::new("git");
    import.args(["fast-import", "--quiet"]).current_dir(scene.world.repo()).stdin(Stdio::piped());
    let mut child = as_ann(&mut import).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_an_agent_hears_of_very_many_files_is_as_short_as_of_few() {
    let count = count();
    let scene = Scene::new(&[
        bash("rm -rf many/0 many/1; find many -type f | wc -l"),
        calls(&[("Glob", json!({ "pattern": "**/*.txt" })), ("Glob", json!({ "pattern": "**/9007.txt" }))]),
        calls(&[
            ("Grep", json!({ "pattern": "plain" })),
            ("Grep", json!({ "pattern": "needle", "output_mode": "count" })),
        ]),
        says("Many."),
    ]);
    scene.world.commit();
    commit(&scene, count);
    scene.world.run_to(0, &["run", "p"]);
    scene.assert_valid();
    let done = scene.results();
    assert_eq!(done[0].text.trim(), (count - 2_000).to_string());
    for done in &done {
        assert!(!done.failed && done.text.len() <= 30_000, "{} of {} bytes", done.tool, done.text.len());
    }
    assert!(done[2].text.contains("many/9/9007.txt"), "{done:?}");
    assert!(done[4].text.contains("many/9/9007.txt"), "{done:?}");
    let question = scene.questions().last().unwrap().to_string().len();
    assert!(question < 150_000, "{question}");
    let first = scene.questions()[0].to_string().len();
    assert!(first < 40_000, "{first}");
    assert!(done[1].text.contains(&format!(" of {};", count - 2_000)), "{done:?}");
    assert!(done[3].text.contains("there is more"), "{done:?}");
    scene.assert_replays();
}
