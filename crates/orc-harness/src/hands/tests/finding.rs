//! `Glob` and `Grep` in a tree with ignored, hidden, binary and odd files.

use std::os::unix::fs::symlink;
use std::time::SystemTime;

use proptest::prelude::*;
use rustix::fs::{CWD, FileType};

use super::super::search::window;
use super::*;

fn tree() -> Ground {
    let ground = Ground::new();
    for (age, (name, text)) in [
        ("src/main.rs", "fn main() {\n    call();\n}\n"),
        ("src/deep/part.rs", "// call it\nfn part() {}\nfn other() {}\n"),
        ("web/app.ts", "call();\r\ncall();\r\n"),
        ("web/app.min.js", "call()\n"),
        (".github/flow.yml", "call: it\n"),
        (".env", "CALL=call\n"),
        ("logs/a.log", "call\n"),
        ("data.bin", "call\0call\n"),
        ("notes.txt", "nothing\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = ground.put(name, text);
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age as u64);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(when).unwrap();
    }
    std::fs::write(ground.at(".gitignore"), "*.log\nnode_modules/\n").unwrap();
    std::fs::create_dir_all(ground.at("node_modules/x")).unwrap();
    std::fs::write(ground.at("node_modules/x/index.js"), "call()\n").unwrap();
    std::fs::create_dir_all(ground.at(".git")).unwrap();
    std::fs::write(ground.at(".git/config.yml"), "call\n").unwrap();
    rustix::fs::mknodat(CWD, ground.at("pipe.rs"), FileType::Fifo, 0o600.into(), 0).unwrap();
    ground
}

#[test]
fn files_are_found_by_their_paths_those_changed_last_first() {
    let ground = tree();
    symlink("src/main.rs", ground.at("alias.rs")).unwrap();
    symlink("src", ground.at("directory.rs")).unwrap();
    let rows = [
        ("**/*.rs", "alias.rs\nsrc/main.rs\nsrc/deep/part.rs\n"),
        ("*.ts", "web/app.ts\n"),
        ("src/*.rs", "src/main.rs\n"),
        ("./src/**", "src/main.rs\nsrc/deep/part.rs\n"),
        ("web/app.{ts,min.js}", "web/app.ts\nweb/app.min.js\n"),
        ("src/main.rs", "src/main.rs\n"),
        ("main.rs", "src/main.rs\n"),
        (".github/**", ".github/flow.yml\n"),
        ("**/.env", ".env\n"),
        ("**/*.yml", "No file fits `**/*.yml`; ignored and hidden files are not looked at."),
        ("*.log", "No file fits `*.log`; ignored and hidden files are not looked at."),
        ("none/*.rs", "No file fits `none/*.rs`; ignored and hidden files are not looked at."),
        ("node_modules/x/*.js", "node_modules/x/index.js\n"),
    ];
    for (pattern, found) in rows {
        assert_eq!(ground.good("Glob", json!({ "pattern": pattern })), found, "{pattern}");
    }
    let within = ground.good("Glob", json!({ "pattern": "*.rs", "path": "src/deep" }));
    assert_eq!(within, "src/deep/part.rs\n");
    let whole = format!("{}/src/*.rs", ground.cwd.display());
    assert_eq!(ground.good("Glob", json!({ "pattern": whole })), "src/main.rs\n");
    for (input, why) in [
        (json!({ "pattern": "a{b" }), "The pattern `a{b` cannot be read: unclosed alternate group"),
        (json!({ "pattern": "[z-a]" }), "invalid range"),
        (json!({ "pattern": "*", "path": "none" }), "There is no `none` to look in."),
        (json!({ "pattern": "*", "path": "pipe.rs" }), "`pipe.rs` is a named pipe"),
    ] {
        let told = ground.bad("Glob", input);
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn more_files_than_fit_are_said() {
    let ground = Ground { bound: Some(1_000), ..Ground::new() };
    for number in 0..300 {
        ground.put(&format!("many/file-{number:03}"), "x\n");
    }
    let told = ground.good("Glob", json!({ "pattern": "many/*" }));
    assert!(told.len() <= 1_000 && told.contains("changed last of 300; a narrower pattern"), "{told}");
    let told = ground.good("Grep", json!({ "pattern": "x" }));
    assert!(told.len() <= 1_000 && told.contains("[there is more: narrow it down"), "{told}");
}

#[test]
fn expressions_are_found_as_ripgrep_does() {
    let ground = tree();
    let left_out = "[1 binary files were left out: `data.bin`]\n";
    let rows = [
        (json!({ "pattern": "call" }), "src/deep/part.rs\nsrc/main.rs\nweb/app.min.js\nweb/app.ts\n"),
        (json!({ "pattern": "call\\(\\);$", "output_mode": "count" }), "src/main.rs:1\nweb/app.ts:2\n[3 in 2 files]\n"),
        (
            json!({ "pattern": "call", "output_mode": "content", "path": "src" }),
            "src/deep/part.rs:1:// call it\nsrc/main.rs:2:    call();\n",
        ),
        (
            json!({ "pattern": "call", "output_mode": "content", "-n": false, "type": "ts" }),
            "web/app.ts:call();\nweb/app.ts:call();\n",
        ),
        (
            json!({ "pattern": "part", "output_mode": "content", "-C": 1, "glob": "*.rs" }),
            "src/deep/part.rs-1-// call it\nsrc/deep/part.rs:2:fn part() {}\nsrc/deep/part.rs-3-fn other() {}\n",
        ),
        (
            json!({ "pattern": "call|other", "output_mode": "content", "-B": 0, "-A": 0, "glob": "src/**" }),
            "src/deep/part.rs:1:// call it\nsrc/deep/part.rs:3:fn other() {}\nsrc/main.rs:2:    call();\n",
        ),
        (json!({ "pattern": "CALL", "-i": true, "glob": "!*.{js,ts}" }), "src/deep/part.rs\nsrc/main.rs\n"),
        (json!({ "pattern": "call", "glob": ".github/**" }), ".github/flow.yml\n"),
        (json!({ "pattern": "call", "path": ".env" }), ".env\n"),
        (json!({ "pattern": "call", "path": "logs/a.log" }), "logs/a.log\n"),
        (json!({ "pattern": "call", "path": "node_modules" }), "node_modules/x/index.js\n"),
        (json!({ "pattern": "main.*call", "multiline": true, "type": "rust" }), "src/main.rs\n"),
        (json!({ "pattern": "main.*call", "type": "rust" }), "No match for `main.*call` in 2 files.\n"),
        (json!({ "pattern": "call", "glob": "*.log" }), "No match for `call` in 0 files.\n"),
        (json!({ "pattern": "nowhere at all" }), "No match for `nowhere at all` in 5 files.\n"),
    ];
    for (input, found) in rows {
        let told = ground.good("Grep", input.clone());
        assert_eq!(told.replace(left_out, ""), found, "{input}");
    }
    let told = ground.good("Grep", json!({ "pattern": "call", "path": "data.bin" }));
    assert_eq!(told, format!("No match for `call` in 0 files.\n{left_out}"));
    let told = ground.good("Grep", json!({ "pattern": "call", "head_limit": 2 }));
    assert!(told.starts_with("src/deep/part.rs\nsrc/main.rs\n[there is more: narrow it down"), "{told}");
    let over = json!({ "pattern": "fn main.*?call", "multiline": true, "output_mode": "content" });
    assert!(ground.good("Grep", over).starts_with("src/main.rs:1:fn main() {\nsrc/main.rs:2:    call();\n"));
}

#[test]
fn what_cannot_be_searched_says_why() {
    let ground = tree();
    let rows = [
        (json!({ "pattern": "(" }), "unclosed group"),
        (json!({ "pattern": "a\\nb" }), "To find line breaks set `multiline`."),
        (json!({ "pattern": "x", "glob": "{a" }), "`glob` cannot be read"),
        (json!({ "pattern": "x", "type": "rs" }), "There is no `type` `rs`. There are: "),
        (json!({ "pattern": "x", "type": "rs" }), "rust"),
        (json!({ "pattern": "x", "path": "nowhere" }), "There is no `nowhere` to look in."),
        (json!({ "pattern": "x", "path": "pipe.rs" }), "is a named pipe"),
        (json!({ "pattern": "(x{1000}){1000}{1000}" }), "cannot be read"),
    ];
    for (input, why) in rows {
        let told = ground.bad("Grep", input.clone());
        assert!(told.contains(why), "{input}: {told}");
    }
}

#[test]
fn encodings_and_long_lines_are_searched() {
    let ground = Ground::new();
    let wide: Vec<u8> =
        std::iter::once(0xfeff).chain("caf\u{e9} here\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    ground.put("wide", wide);
    ground.put("latin", b"caf\xe9 here\n");
    ground.put("min.js", format!("{}needle here{}\n", "x".repeat(5_000), "y".repeat(5_000)));
    let told = ground.good("Grep", json!({ "pattern": "here", "output_mode": "content" }));
    assert!(told.starts_with("latin:1:caf\u{fffd} here\nmin.js:1:... xxx"), "{told}");
    assert!(told.contains("xneedle hereyyy") && told.contains("yyy ...\nwide:1:caf\u{e9} here\n"), "{told}");
}

#[test]
fn a_search_that_is_cancelled_or_out_of_time_ends_and_says_so() {
    let ground = tree();
    ground.cancel();
    assert!(
        ground
            .good("Glob", json!({ "pattern": "**/*.rs" }))
            .contains("the time was over before all directories were seen")
    );
    assert!(
        ground.good("Grep", json!({ "pattern": "call" })).contains("the time was over before all files were searched")
    );
    let ground = tree();
    ground.until.set(Instant::now()).unwrap();
    let told = ground.good("Grep", json!({ "pattern": "call", "path": "src/main.rs", "output_mode": "content" }));
    assert!(told.contains("the time was over"), "{told}");
}

proptest! {
    #[test]
    fn no_pattern_panics(pattern in "[a-c*?\\[\\]{}!/.,\\\\^$()|+\u{e9}-]{0,12}", mode in 0_usize..3) {
        // Not all of the machine.
        let pattern = pattern.replace("..", "").trim_start_matches('/').to_owned();
        let ground = Ground::new();
        ground.put("a/b.c", "abc\n\u{e9}\n");
        let modes = ["content", "count", "files_with_matches"];
        ground.lift("Glob", json!({ "pattern": pattern }));
        ground.lift("Glob", json!({ "pattern": "*", "path": pattern }));
        ground.lift("Grep", json!({ "pattern": pattern, "output_mode": modes[mode] }));
        ground.lift("Grep", json!({ "pattern": "a", "glob": pattern, "type": pattern }));
    }

    #[test]
    fn a_window_has_the_place_and_is_short(line in "(\u{e9}|a|\u{1f600}| ){0,1500}", place in 0_usize..3_000) {
        let shown = window(&line, place);
        prop_assert!(shown.chars().count() <= 510);
        let at = line.floor_char_boundary(place);
        if let Some(one) = line[at..].chars().next() {
            prop_assert!(shown.contains(one));
        }
    }
}
