//! What is read of a text, and that reading ends.

use proptest::prelude::*;

use super::{Piece, RedirectKind, Script, Word, parse};

/// Words of every command, `?` for what is unknown, `~` for homes, `*` for wildcards.
fn shown(script: &Script) -> Vec<String> {
    let word = |word: &Word| {
        let text: String = word
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text, _) => text.clone(),
                Piece::Wild(_) => "*".to_owned(),
                Piece::Home(name) => format!("~{name}"),
                Piece::Variable(name, _) => format!("${name}"),
                Piece::Unknown(_) => "?".to_owned(),
                Piece::Brace(letter) => letter.to_string(),
            })
            .collect();
        text
    };
    script
        .commands
        .iter()
        .map(|command| {
            let mut parts: Vec<String> =
                command.assigns.iter().map(|assign| format!("{}={}", assign.name, word(&assign.value))).collect();
            parts.extend(command.words.iter().map(word));
            parts.extend(command.redirects.iter().map(|redirect| {
                let sign = match redirect.kind {
                    RedirectKind::Read => "<",
                    RedirectKind::Write => ">",
                    RedirectKind::ReadWrite => "<>",
                    RedirectKind::Here => "<<",
                    RedirectKind::Descriptor => "&",
                };
                format!("{sign}{}", word(&redirect.target))
            }));
            parts.join(" ")
        })
        .collect()
}

#[test]
fn every_command_is_found() {
    for (text, expected) in [
        ("", vec![]),
        ("# nothing", vec![]),
        ("ls -la; npm publish", vec!["ls -la", "npm publish"]),
        ("a && b || c & d |& e", vec!["a", "b", "c", "d", "e"]),
        ("git \\\npush origin", vec!["git push origin"]),
        ("g\\\nit push", vec!["git push"]),
        ("r''m -rf \"a b\"", vec!["rm -rf a b"]),
        ("$'r\\x6d' x", vec!["rm x"]),
        ("echo $(rm a) `rm b`", vec!["rm a", "rm b", "echo ? ?"]),
        ("echo \"$(rm \"a b\")\"", vec!["rm a b", "echo ?"]),
        ("(rm x) > y", vec!["rm x", ">y"]),
        ("{ cat foo; }", vec!["cat foo"]),
        ("! { ls > /x; }", vec!["ls >/x"]),
        ("if a; then b; elif c; then d; else e; fi", vec!["a", "b", "c", "d", "e"]),
        ("while a\ndo b\ndone < f", vec!["a", "b", "<f"]),
        ("until a; do b; done", vec!["a", "b"]),
        ("for f in *.png $(ls); do rm \"$f\"; done", vec!["ls", "rm $f"]),
        ("for f\ndo rm x\ndone", vec!["rm x"]),
        ("for ((i=0; i<$(a); i++)); do rm x; done", vec!["a", "rm x"]),
        ("case x in a|b) rm a;; (c) rm b;; *) ;; esac", vec!["rm a", "rm b"]),
        ("case $x in a) rm a ;; esac; ls", vec!["rm a", "ls"]),
        ("while case x in x) true;; esac do rm a; done", vec!["true", "rm a"]),
        ("f() { rm x; }; f", vec!["rm x", "f"]),
        ("function f { rm x; }", vec!["rm x"]),
        ("coproc N { rm x; }", vec!["rm x"]),
        ("coproc rm x", vec!["rm x"]),
        ("time -p ! rm x", vec!["rm x"]),
        ("[[ -f a && $(rm x) < b ]] && ls", vec!["rm x", "[[ -f a ? b", "ls"]),
        ("((a < $(rm x)))", vec!["rm x"]),
        ("$((rm x; ls) )", vec!["rm x", "ls", "?"]),
        ("echo $((1 + (2))) a", vec!["echo ? a"]),
        ("echo ${x:-$(rm a)}", vec!["rm a", "echo ?"]),
        ("cat <<EOF; rm b\na $(rm a)\nEOF\nls", vec!["cat <<a $(rm a)\n?", "rm b", "rm a", "ls"]),
        ("cat <<'EOF'\nrm x $(y)\nEOF", vec!["cat <<rm x $(y)\n"]),
        ("cat <<-A <<'B'\n\tx\n\tA\ny\nB\nls", vec!["cat <<x\n <<y\n", "ls"]),
        ("cat <<E | rm x\nbody\nE", vec!["cat <<body\n", "rm x"]),
        ("cat <<E\n`rm x`\nE", vec!["cat <<`rm x`\n?", "rm x"]),
        ("cat <(rm a) >(rm b)", vec!["rm a", "rm b", "cat /dev/fd/* /dev/fd/*"]),
        ("a >& $(rm x)", vec!["rm x", "a >?"]),
        ("a 2>&1 >/dev/null <&3 &>b >|c <>d <<<e", vec!["a &1 >/dev/null &3 >b >c <>d <<e"]),
        ("A=1 B=$(rm x) c", vec!["rm x", "A=1 B=? c"]),
        ("a=(x $(rm y)) b", vec!["rm y", "a=? b"]),
        ("echo a{b,c}d {1..3} {x} {}", vec!["echo abd acd ? {x} {}"]),
        ("cat ~/a ~root/b a~ x=~/c", vec!["cat ~/a ~root/b a~ x=~/c"]),
        ("nix eval .#foo # rm x", vec!["nix eval .#foo"]),
        ("echo a#b '#c'", vec!["echo a#b #c"]),
        ("a=b", vec!["a=b"]),
        ("\"if\" x", vec!["if x"]),
        ("echo if then", vec!["echo if then"]),
        ("ls\r\nrm x", vec!["ls\r", "rm x"]),
    ] {
        let script = parse(text);
        assert_eq!(script.trouble, None, "{text}");
        assert_eq!(shown(&script), expected, "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_trouble_and_what_came_before_counts() {
    for (text, before) in [
        ("rm x; echo 'a", vec!["rm x"]),
        ("rm x; echo \"a", vec!["rm x"]),
        ("rm x; (ls", vec!["rm x", "ls"]),
        ("rm x )", vec!["rm x"]),
        ("rm x; ${ ls; }", vec!["rm x"]),
        ("rm x; echo \"${a:-'}\"; rm y; echo \"'}\"", vec!["rm x"]),
        ("rm x; ls !(a|b)", vec!["rm x"]),
        ("rm x; ls *(a)", vec!["rm x"]),
        ("rm x; echo ${a@P}", vec!["rm x"]),
        ("rm x; fi", vec!["rm x"]),
        ("rm x; | ls", vec!["rm x"]),
        ("rm x; if a; then b", vec!["rm x", "a", "b"]),
        ("rm x; $'\\xff'", vec!["rm x"]),
        ("rm x; a() b", vec!["rm x"]),
        ("rm x; cat <<$(a)", vec!["rm x", "a"]),
    ] {
        let script = parse(text);
        assert!(script.trouble.is_some(), "{text}: {:?}", shown(&script));
        assert_eq!(shown(&script), before, "{text}");
    }
}

#[test]
fn shells_of_their_own_and_order_are_known() {
    let script = parse("cd a && (b) && c; d | e; f &");
    let flags: Vec<_> =
        script.commands.iter().map(|command| (command.after_success, command.subshell, command.reads_from)).collect();
    assert_eq!(
        flags,
        [
            (false, false, None),
            (true, true, None),
            (true, false, None),
            (false, true, None),
            (false, true, Some(3)),
            (false, true, None),
        ]
    );
}

#[test]
fn deep_and_wide_texts_end() {
    for (open, close) in [
        ("(", ")"),
        ("$(", ")"),
        ("((", "))"),
        ("$((", "))"),
        ("{ ", ";}"),
        ("\"$(", ")\""),
        ("if ", ";then a;fi"),
        ("${a:-", "}"),
    ] {
        let text = format!("{}a{}", open.repeat(5_000), close.repeat(5_000));
        // So many parentheses are arithmetic.
        assert!(parse(&text).trouble.is_some() || open.ends_with('('), "{open}");
        let _ = parse(&open.repeat(8_000));
    }
    let many = "a;".repeat(20_000);
    assert_eq!(parse(&many).commands.len(), 20_000);
    assert_eq!(parse(&"{a,b}".repeat(40)).commands[0].words.len(), 1);
}

proptest! {
    #[test]
    fn nothing_panics(text in r#"([a-c $`'"(){}<>|&;\\\n*?\[\]=#~!,.-]|EOF|<<|\$\(|if|fi|do|done|case|esac|in){0,40}"#) {
        let _ = parse(&text);
    }

    #[test]
    fn a_quoted_text_is_one_word(text in "[^']{0,20}") {
        let script = parse(&format!("echo '{text}'"));
        prop_assert_eq!(script.trouble, None);
        prop_assert_eq!(script.commands[0].words[1].text().unwrap(), text);
    }
}
