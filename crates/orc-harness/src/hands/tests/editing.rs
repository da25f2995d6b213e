//! `Edit`, `MultiEdit` and `Write`: what they change, what they refuse, and that they change nothing else.

use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;

use super::super::text::{Encoding, Text};
use super::*;

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "file_path": path, "old_string": old, "new_string": new })
}

#[test]
fn an_edit_changes_one_place_and_nothing_else() {
    let rows: [(&[u8], &str, &str, &[u8]); 10] = [
        (b"a\nb\nc\n", "b", "B", b"a\nB\nc\n"),
        (b"a\nb\nc", "c", "C", b"a\nb\nC"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b\r\n", "B\r\n", b"a\r\nB\r\nc\r\n"),
        (b"a\r\nb\r\nc\nd\r\n", "b\nc\nd", "x\ny", b"a\r\nx\r\ny\r\n"),
        (b"a\nb\r\nc\nd\n", "a\nb", "x\ny", b"x\ny\r\nc\nd\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"\xff\xfea\0\n\0", "a", "\u{e9}", b"\xff\xfe\xe9\0\n\0"),
        (b"caf\xe9 \xa4\n", "caf\u{e9}", "th\u{e9}", b"th\xe9 \xa4\n"),
        (b"a\n", "a\n", "", b""),
    ];
    for (before, old, new, after) in rows {
        let ground = Ground::new();
        ground.put("file", before);
        std::fs::set_permissions(ground.at("file"), PermissionsExt::from_mode(0o754)).unwrap();
        ground.read("file");
        let told = ground.good("Edit", edit("file", old, new));
        assert!(told.starts_with("Changed `file`:"), "{told}");
        assert_eq!(ground.bytes("file"), after, "{old} -> {new}");
        assert_eq!(std::fs::metadata(ground.at("file")).unwrap().permissions().mode() & 0o7777, 0o754);
        assert_eq!(std::fs::read_dir(&ground.cwd).unwrap().count(), 1, "nothing is left beside it");
        // What it made is seen.
        ground.good("Write", json!({ "file_path": "file", "content": "whole\n" }));
    }
}

#[test]
fn an_edit_that_does_not_fit_changes_nothing_and_says_what_helps() {
    let text = "fn one() {\n    let value = 1;\n}\nfn two() {\n    let value = 2;\n}\n";
    let rows = [
        ("fn", "x", "`old_string` is there 2 times, from lines 1, 4."),
        ("fn one", "fn one", "are the same"),
        ("", "x", "only makes new ones"),
        ("    2\tx", "x", "is not in the file"),
        ("     1\tfn one() {\n     2\t    let value = 1;", "x", "It is without the line numbers"),
        (
            "\tlet value = 2;",
            "x",
            "From line 5 on there is the same but for spaces, tabs or line breaks:\n    let value = 2;",
        ),
        ("fn  one()\n{ let value = 1;", "x", "From line 1 on there is the same but for spaces"),
        ("    let valeu = 2;", "x", "The nearest to its first line is line 5:\n    let value = 2;"),
        ("quite another thing", "x", "Nothing in it is like it. Read the file again."),
        ("\n\n\n\n", "x", "Nothing in it is like it."),
    ];
    let ground = Ground::new();
    ground.put("file", text);
    ground.read("file");
    for (old, new, why) in rows {
        let told = ground.bad("Edit", edit("file", old, new));
        assert!(told.contains(why), "{old:?}: {told}");
        assert_eq!(ground.bytes("file"), text.as_bytes());
    }
    let told = ground.bad("Edit", edit("none", "x", "y"));
    assert!(told.contains("There is no file `none`"), "{told}");
}

#[test]
fn every_place_is_replaced_when_asked_for_and_the_diff_is_short() {
    let ground = Ground::new();
    ground.put("file", "old x\n".repeat(300));
    ground.read("file");
    let all = json!({ "file_path": "file", "old_string": "old", "new_string": "new", "replace_all": true });
    let told = ground.good("Edit", all);
    assert!(told.starts_with("Changed `file`: 300 lines added, 300 removed.\n@@ -1,300 +1,300 @@\n-old x\n"), "{told}");
    assert!(told.ends_with("[the rest of the diff is not shown]") && told.lines().count() < 90, "{told}");
    assert_eq!(ground.bytes("file"), "new x\n".repeat(300).as_bytes());
    ground.put("near", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    ground.read("near");
    let told = ground.good("Edit", edit("near", "5", "five"));
    assert_eq!(told, "Changed `near`: 1 line added, 1 removed.\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

#[test]
fn many_edits_are_all_made_or_none() {
    let ground = Ground::new();
    ground.put("file", "a\nb\nc\n");
    ground.read("file");
    let edits = |edits: &[(&str, &str)]| {
        let edits: Vec<_> = edits.iter().map(|(old, new)| json!({ "old_string": old, "new_string": new })).collect();
        json!({ "file_path": "file", "edits": edits })
    };
    let told = ground.bad("MultiEdit", edits(&[("a", "A"), ("none", "x"), ("c", "C")]));
    assert!(told.starts_with("`file` is unchanged: edit 2 of 3: `old_string` is not in the file."), "{told}");
    let told = ground.bad("MultiEdit", edits(&[("a", "b"), ("b", "x")]));
    assert!(told.contains("edit 2 of 2: `old_string` is there 2 times"), "{told}");
    assert_eq!(ground.bytes("file"), b"a\nb\nc\n");
    ground.good("MultiEdit", edits(&[("a", "x"), ("x\nb", "y"), ("c", "C")]));
    assert_eq!(ground.bytes("file"), b"y\nC\n");
}

#[test]
fn only_what_was_seen_as_it_is_may_be_changed() {
    let ground = Ground::new();
    ground.put("file", "a\n");
    ground.put("picture", b"\x89PNG\r\n\x1a\n\0");
    let write = |path: &str| json!({ "file_path": path, "content": "mine\n" });
    for told in [ground.bad("Edit", edit("file", "a", "b")), ground.bad("Write", write("file"))] {
        assert_eq!(told, "`file` was not read in this conversation. Read it first.");
    }
    ground.read("file");
    ground.put("file", "somebody else\n");
    for told in [ground.bad("Edit", edit("file", "a", "b")), ground.bad("Write", write("file"))] {
        assert!(told.starts_with("`file` was changed since it was read. Read it again"), "{told}");
    }
    assert_eq!(ground.bytes("file"), b"somebody else\n");
    ground.read("picture");
    assert!(ground.bad("Write", write("picture")).contains("remove it in Bash first"));
    assert_eq!(ground.bytes("picture").len(), 9);
    // The same content again is the same file.
    ground.read("file");
    ground.put("file", "somebody else\n");
    ground.good("Write", write("file"));
    assert_eq!(ground.bytes("file"), b"mine\n");
}

#[test]
fn files_are_made_with_their_directories() {
    let ground = Ground::new();
    assert_eq!(
        ground.good("Write", json!({ "file_path": "new/deep/file", "content": "a\nb" })),
        "Made `new/deep/file`: 2 lines, 3 bytes."
    );
    assert_eq!(ground.bytes("new/deep/file"), b"a\nb");
    ground.good("Edit", edit("other", "", "text\n"));
    assert_eq!(ground.bytes("other"), b"text\n");
    assert!(ground.bad("Edit", edit("other", "", "again")).contains("only makes new ones"));
    // Both are seen now.
    ground.good("Edit", edit("other", "text", "more"));
    ground.good("Edit", edit("new/deep/file", "b", "c"));
    assert!(
        ground.bad("Write", json!({ "file_path": "other/x", "content": "" })).contains("a part of the path is a file")
    );
    let told = ground.bad("Write", json!({ "file_path": "/proc/none", "content": "" }));
    assert!(told.contains("`/proc/none` cannot be written"), "{told}");
}

#[test]
fn a_whole_new_text_keeps_encoding_and_line_endings_where_it_can() {
    let rows: [(&[u8], &str, &[u8]); 4] = [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"\xef\xbb\xbfa\n", "x\n", b"\xef\xbb\xbfx\n"),
        (b"caf\xe9\n", "th\u{e9}\n", b"th\xe9\n"),
        (b"caf\xe9\n", "\u{20ac}\n", "\u{20ac}\n".as_bytes()),
    ];
    for (before, content, after) in rows {
        let ground = Ground::new();
        ground.put("file", before);
        ground.read("file");
        ground.good("Write", json!({ "file_path": "file", "content": content }));
        assert_eq!(ground.bytes("file"), after);
    }
    let ground = Ground::new();
    ground.put("file", b"caf\xe9\n");
    ground.read("file");
    let told = ground.bad("Edit", edit("file", "caf", "\u{20ac}"));
    assert!(told.contains("`\u{20ac}` cannot be written in its encoding (not UTF-8"), "{told}");
    assert_eq!(ground.bytes("file"), b"caf\xe9\n");
    assert!(
        ground
            .good("Write", json!({ "file_path": "file", "content": "caf\u{e9}\n" }))
            .contains("was like that already")
    );
}

#[test]
fn nothing_is_written_through_a_link_without_saying_so() {
    let ground = Ground::new();
    ground.put("real", "a\n");
    let outside = ground.directory.path().canonicalize().unwrap().join("outside");
    std::fs::write(&outside, "theirs\n").unwrap();
    symlink("real", ground.at("link")).unwrap();
    symlink(&outside, ground.at("away")).unwrap();
    symlink("none", ground.at("gone")).unwrap();
    let told = ground.bad("Edit", edit("link", "a", "b"));
    assert_eq!(told, "`link` leads through a link to `real`, which was not read in this conversation. Read it first.");
    let told = ground.bad("Write", json!({ "file_path": "away", "content": "" }));
    assert!(told.contains(&format!("`away` leads through a link to `{}`", outside.display())), "{told}");
    let told = ground.bad("Write", json!({ "file_path": "gone", "content": "" }));
    assert!(told.contains("a link to `none`, which does not exist. To make that, write `none`."), "{told}");
    ground.read("real");
    // What was seen was another file than what the link leads to now.
    std::fs::remove_file(ground.at("link")).unwrap();
    symlink("real", ground.at("link")).unwrap();
    let told = ground.good("Edit", edit("link", "a", "b"));
    assert!(told.starts_with("[`link` leads through a link to `real`]\nChanged `real`:"), "{told}");
    assert_eq!(ground.bytes("real"), b"b\n");
    assert!(std::fs::symlink_metadata(ground.at("link")).unwrap().is_symlink());
    std::fs::remove_file(ground.at("link")).unwrap();
    symlink(&outside, ground.at("link")).unwrap();
    assert!(ground.bad("Edit", edit("link", "theirs", "mine")).contains("was not read"));
    assert_eq!(std::fs::read(&outside).unwrap(), b"theirs\n");
}

proptest! {
    /// What is not in the place that is replaced stays, byte for byte, whatever ends its lines.
    #[test]
    fn a_replacement_keeps_everything_else(
        before in "[ab\r\n\u{e9}]{0,30}", old in "[ab\r\n]{1,3}", new in "[xy\n]{0,3}", after in "[ab\r\n\u{e9}]{0,30}",
    ) {
        let text = Text::new(Encoding::Utf8, format!("{before}{old}{after}"));
        let wanted = old.replace("\r\n", "\n");
        for (place, _) in text.normal().match_indices(&wanted) {
            let changed = text.replace(std::slice::from_ref(&(place..place + wanted.len())), &new);
            let (start, end) = (&text.normal()[..place], &text.normal()[place + wanted.len()..]);
            let bare = |text: &str| text.replace('\r', "");
            prop_assert_eq!(bare(changed.normal()), bare(&format!("{start}{new}{end}")));
            let ends = |text: &str| text.matches('\r').count();
            let made = if text.ending() == "\n" { 0 } else { new.matches('\n').count() };
            let there = ends(&old) + ends(&before) + ends(&after);
            let bytes = String::from_utf8(changed.encode().unwrap()).unwrap();
            prop_assert!(ends(&bytes) <= there + made);
        }
    }

    #[test]
    fn no_edit_panics(text in "(\\PC|[\r\n\t]){0,80}", old in "(\\PC|[\r\n\t]){0,10}", new in "(\\PC|[\r\n\t]){0,10}", all: bool) {
        let ground = Ground::new();
        ground.put("file", &text);
        ground.lift("Read", json!({ "file_path": "file" }));
        let before = ground.bytes("file");
        let used = ground.lift("Edit", json!({ "file_path": "file", "old_string": old, "new_string": new, "replace_all": all }));
        prop_assert_eq!(used.failed, ground.bytes("file") == before);
    }
}

#[test]
fn edits_that_would_grow_without_end_are_refused_before_they_do() {
    let ground = Ground::new();
    ground.put("a", "aaaa\n");
    ground.read("a");
    let edit = |old: &str, new: &str| json!({ "old_string": old, "new_string": new, "replace_all": true });
    let doubled: Vec<Value> = (0..60).map(|_| edit("a", "aa")).collect();
    let told = ground.bad("MultiEdit", json!({ "file_path": "a", "edits": doubled }));
    assert!(told.contains("of 60: the file would have") && told.contains("bytes; at most"), "{told}");
    let long = edit("a", &"b".repeat(20_000_000));
    let told = ground.bad("MultiEdit", json!({ "file_path": "a", "edits": [long] }));
    assert!(told.contains("the file would have 80000001 bytes"), "{told}");
    assert_eq!(ground.bytes("a"), b"aaaa\n");
}
