//! `Read`: lines, encodings, what is no text and what is no file.

use std::os::unix::fs::symlink;

use proptest::prelude::*;
use rustix::fs::{CWD, FileType};

use super::super::text::{Encoding, Text, cut};
use super::*;

fn utf16(text: &str, write: fn(u16) -> [u8; 2]) -> Vec<u8> {
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(write).collect()
}

#[test]
fn files_are_shown_with_numbers_and_what_is_special_about_them() {
    let ground = Ground::new();
    let rows: [(&str, Vec<u8>, &str); 11] = [
        ("plain", b"one\n\ttwo\n".to_vec(), "     1\tone\n     2\t\ttwo\n"),
        ("open", b"one\ntwo".to_vec(), "     1\tone\n     2\ttwo\n[no newline at the end of the file]"),
        ("empty", Vec::new(), "[`empty` is empty]"),
        ("blank", b"\n".to_vec(), "     1\t\n"),
        ("dos", b"one\r\ntwo\r\n".to_vec(), "[its lines end with CRLF]\n     1\tone\n     2\ttwo\n"),
        (
            "mixed",
            b"one\r\ntwo\n".to_vec(),
            "[some of its lines end with CRLF, others with LF]\n     1\tone\n     2\ttwo\n",
        ),
        ("mark", b"\xef\xbb\xbfone\n".to_vec(), "[UTF-8 with a byte order mark]\n     1\tone\n"),
        ("little", utf16("caf\u{e9}\n", u16::to_le_bytes), "[UTF-16, little-endian]\n     1\tcaf\u{e9}\n"),
        ("big", utf16("\u{1f600}\n", u16::to_be_bytes), "[UTF-16, big-endian]\n     1\t\u{1f600}\n"),
        (
            "latin",
            b"caf\xe9\n".to_vec(),
            "[not UTF-8: each byte is shown as the ISO-8859-1 character of its number]\n     1\tcaf\u{e9}\n",
        ),
        ("mac", b"one\rtwo".to_vec(), "     1\tone\rtwo\n[no newline at the end of the file]"),
    ];
    for (name, bytes, shown) in rows {
        ground.put(name, bytes);
        assert_eq!(ground.read(name), shown, "{name}");
    }
    assert_eq!(ground.seen.lock().unwrap().len(), 11);
}

#[test]
fn what_is_no_text_is_named_and_not_seen() {
    let ground = Ground::new();
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    let rows: [(&str, &[u8], &str); 7] = [
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0", "`a.png` is a PNG picture, 10 bytes"),
        ("a.pdf", b"%PDF-1.7\n", "a PDF document, 9 bytes"),
        ("prog", b"\x7fELF\x02\0", "an ELF program or library"),
        ("nul", b"some text\0and more", "binary data, 18 bytes"),
        ("noise", &[0xff, 0x01, 0x02, 0x03], "binary data"),
        ("half", b"\xff\xfea\0b", "binary data"),
        ("a.tar", &tar, "a tar archive"),
    ];
    for (name, bytes, kind) in rows {
        ground.put(name, bytes);
        let told = ground.read(name);
        assert!(told.contains(kind), "{name}: {told}");
    }
    assert!(ground.seen.lock().unwrap().is_empty());
    // What only begins like it is text.
    for text in ["BZh is a prefix\n", "ID3\n", "GIF89a\n"] {
        ground.put("text", text);
        assert_eq!(ground.read("text"), format!("     1\t{text}"));
    }
}

#[test]
fn parts_are_shown_and_the_rest_is_said() {
    let ground = Ground::new();
    ground.put("long", (1..=2_500).map(|line| format!("{line}\n")).collect::<String>());
    let whole = ground.read("long");
    assert_eq!(whole.lines().count(), 2_001);
    assert!(whole.ends_with("  2000\t2000\n[lines 1 to 2000 of 2500; the next is offset 2001]"));
    let part = |offset, limit| ground.good("Read", json!({ "file_path": "long", "offset": offset, "limit": limit }));
    assert_eq!(part(2, 1), "     2\t2\n[lines 2 to 2 of 2500; the next is offset 3]");
    assert_eq!(part(0, 0), "     1\t1\n[lines 1 to 1 of 2500; the next is offset 2]");
    assert_eq!(part(2_500, 9), "  2500\t2500\n");
    assert_eq!(part(2_501, 9), "[`long` has 2500 lines; there is nothing from line 2501 on]");
    assert_eq!(
        part(u64::MAX, u64::MAX),
        format!("[`long` has 2500 lines; there is nothing from line {} on]", u64::MAX)
    );
    ground.put("wide", format!("{}\nnext\n", "\u{e9}".repeat(2_001)));
    let told = ground.read("wide");
    assert!(told.contains(&format!("{} [cut: the line has 2001 characters]\n     2\tnext", "\u{e9}".repeat(2_000))));

    let bounded = Ground { bound: Some(1_000), ..Ground::new() };
    bounded.put("long", "0123456789\n".repeat(200));
    let told = bounded.read("long");
    assert!(told.len() <= 1_000 && told.contains("of 200; the next is offset"), "{told}");
    bounded.put("huge", vec![b'x'; 33 << 20]);
    assert!(bounded.bad("Read", json!({ "file_path": "huge" })).contains("Use Grep to find a place in it"));
}

#[test]
fn what_is_no_file_is_refused_without_waiting_for_it() {
    let ground = Ground::new();
    ground.put("sub/Makefile", "x");
    ground.put("sub/notes.md", "x");
    rustix::fs::mknodat(CWD, ground.at("pipe"), FileType::Fifo, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(ground.at("socket")).unwrap();
    symlink("turn", ground.at("turn")).unwrap();
    symlink("nowhere/x", ground.at("gone")).unwrap();
    let rows = [
        ("sub", "`sub` is a directory. Use Glob"),
        ("pipe", "`pipe` is a named pipe, not a file"),
        ("socket", "`socket` is a socket"),
        ("/dev/null", "`/dev/null` is a device"),
        ("/dev/tty", "`/dev/tty` is a device"),
        ("none", "There is no file `none`. Use Glob to find it."),
        ("sub/makefile", "There is `Makefile` beside it."),
        ("sub/notes.txt", "There is `notes.md` beside it."),
        ("sub/notes.md/x", "a part of the path is a file"),
        ("turn", "its links lead in a circle"),
        ("gone", "There is no file `nowhere/x`. `gone` is, or leads through, a link to it."),
    ];
    for (path, why) in rows {
        for name in ["Read", "Edit", "Write"] {
            if name == "Write" && why.starts_with("There is") {
                continue;
            }
            let input = json!({ "file_path": path, "content": "", "old_string": "x", "new_string": "y" });
            let told = ground.bad(name, input);
            assert!(told.contains(why), "{name} {path}: {told}");
        }
    }
}

#[test]
fn links_are_said() {
    let ground = Ground::new();
    let target = ground.put("real/file", "text\n");
    let outside = ground.directory.path().canonicalize().unwrap().join("outside");
    std::fs::write(&outside, "secret\n").unwrap();
    symlink("real", ground.at("way")).unwrap();
    symlink(&outside, ground.at("away")).unwrap();
    assert_eq!(ground.read("way/file"), "[`way/file` leads through a link to `real/file`]\n     1\ttext\n");
    assert!(ground.read("away").starts_with(&format!("[`away` leads through a link to `{}`]", outside.display())));
    let seen: Vec<_> = ground.seen.lock().unwrap().keys().cloned().collect();
    assert_eq!(seen, [target.to_str().unwrap(), outside.to_str().unwrap()]);
    // By any name of the same file.
    assert_eq!(ground.read("./way/../real/./file").lines().count(), 1);
}

proptest! {
    #[test]
    fn what_is_decoded_is_encoded_to_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), mark in 0_usize..4) {
        let marks: [&[u8]; 4] = [b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];
        let bytes = [marks[mark], bytes.as_slice()].concat();
        if let Ok(text) = Text::decode(&bytes) {
            prop_assert_eq!(text.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn text_goes_through_every_encoding(text in "[\\x01-\\x7f\u{e9}\u{4e2d}\u{1f600}]{0,50}") {
        for encoding in [Encoding::Utf8, Encoding::Utf8Mark, Encoding::Utf16Little, Encoding::Utf16Big] {
            let bytes = encoding.encode(&text).unwrap();
            if let Ok(read) = Text::decode(&bytes) {
                prop_assert_eq!(read.encode().unwrap(), bytes);
            }
        }
    }

    #[test]
    fn a_cut_is_at_most_as_long_and_a_beginning(text in ".{0,60}", most in 0_usize..70) {
        let (start, length) = cut(&text, most);
        prop_assert!(text.starts_with(start) && start.chars().count() <= most);
        prop_assert_eq!(length.is_some(), text.chars().count() > most);
    }
}
