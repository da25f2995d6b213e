use proptest::prelude::*;

use super::*;
use crate::expression::{Checked, Type};

/// Binds a script in which `@` stands for an expression. Gives the script with `<n>` for references that bring their
/// quotes and `n` for bare ones, or the codes of what was told.
fn bound(script: &str) -> Result<String, Vec<String>> {
    let (script, told) = bind_marks(script, &Shell::sh());
    let short = |script: Script| {
        let mut text = script.text;
        for at in 1..=script.bindings.len() {
            text = text
                .replace(&format!("\"${{ORC_EXPR_{at}}}\""), &format!("<{at}>"))
                .replace(&format!("${{ORC_EXPR_{at}}}"), &format!("{at}"));
        }
        text
    };
    script.map(short).ok_or(told)
}

fn bind_marks(script: &str, shell: &Shell) -> (Option<Script>, Vec<String>) {
    let checked = || Checked { expr: Expr::Status(orc_domain::expr::StatusFn::Always), ty: Type::Any, tainted: false };
    let mut pieces = Vec::new();
    for (at, text) in script.split('@').enumerate() {
        if at > 0 {
            pieces.push(Piece::Expr { checked: checked(), place: Span::new(at, at) });
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
    }
    let mut report = Report::new("f");
    let script = bind(pieces, shell, Span::new(0, 0), &mut report);
    (script, report.finish().into_iter().map(|problem| format!("{}", problem.code)).collect())
}

#[test]
fn references_bring_the_quotes_that_their_place_needs() {
    let cases = [
        ("echo @", "echo <1>"),
        ("echo \"a @ b\"", "echo \"a 1 b\""),
        ("x=@ y=\"@\"", "x=<1> y=<2>"),
        ("echo \"$(cat @)\" @", "echo \"$(cat <1>)\" <2>"),
        ("echo \"$(cat \"@\")@\"", "echo \"$(cat <1>)2\""),
        ("echo `cat @` \"`cat @`@\"", "echo `cat <1>` \"`cat <2>`3\""),
        ("echo ${x:-@} \"${x:-@}\"", "echo ${x:-<1>} \"${x:-2}\""),
        ("echo 'a' @ $'b\\'' @", "echo 'a' <1> $'b\\'' <2>"),
        ("# don't @\necho @", "# don't 1\necho <2>"),
        ("echo a#b' @'", "!"),
        ("echo \\' @", "echo \\' <1>"),
        ("echo \"\\\" @\"", "echo \"\\\" 1\""),
        ("cat <<END\n@ it's\nEND\necho @", "cat <<END\n1 it's\nEND\necho <2>"),
        ("cat <<-END\n\t@\n\tEND\necho @", "cat <<-END\n\t1\n\tEND\necho <2>"),
        ("cat <<A <<B\n@\nA\n@\nB\necho @", "cat <<A <<B\n1\nA\n2\nB\necho <3>"),
        ("cat <<< @", "cat <<< <1>"),
        ("cat <<'END'\nit's\nEND\necho @", "cat <<'END'\nit's\nEND\necho <1>"),
        ("echo $(( 1 + (2) )) @", "echo $(( 1 + (2) )) <1>"),
        ("(cd @; ls)", "(cd <1>; ls)"),
        ("a && b || c | d & @", "a && b || c | d & <1>"),
    ];
    for (script, wanted) in cases {
        let found =
            bound(script).unwrap_or_else(|told| if told == ["quoting"] { "!".to_owned() } else { panic!("{told:?}") });
        assert_eq!(found, wanted, "{script}");
    }
}

#[test]
fn places_where_no_variable_is_read_are_refused() {
    for script in [
        "echo '@'",
        "echo $'@'",
        "cat <<'END'\n@\nEND",
        "cat <<\"END\"\n@\nEND",
        "cat <<\\END\n@\nEND",
        "echo $((@ + 1))",
        "((x = @))",
        "echo \\@",
        "echo $@",
        "echo ${@}",
        "echo \"\\@\"",
        "cat <<END\n\\@\nEND",
    ] {
        assert_eq!(bound(script), Err(vec!["quoting".to_owned()]), "{script}");
    }
    let (script, told) = bind_marks("print(@)", &Shell::named("python").unwrap());
    assert_eq!((script, told), (None, vec!["quoting".to_owned()]));
}

#[test]
fn scripts_that_read_a_value_as_code_are_pointed_out() {
    let cases = [
        ("eval @", true),
        ("eval \"echo @\"", true),
        ("sh -c \"echo @\"", true),
        ("sh -c @", true),
        ("/bin/bash -ec \"@\"", true),
        ("env X=1 python3 -c \"print('@')\"", true),
        ("perl -e @", true),
        ("sh -c 'echo \"$1\"' _ @", false),
        ("echo eval; echo @", false),
        ("sh script.sh @", false),
        ("grep -c @", false),
        ("# eval\necho @", false),
    ];
    for (script, warned) in cases {
        let (script, told) = bind_marks(script, &Shell::sh());
        assert_eq!(told == ["reevaluated"], warned, "{script:?} {told:?}");
    }
}

/// What a shell makes of a bound script: the value arrives as one word, whatever it is.
#[test]
fn a_hostile_value_stays_a_value() {
    let (script, _) = bind_marks("printf '<%s>' @ \"a@b\" \"$(printf '<%s>' @)\"\ncat <<END\n@\nEND\n", &Shell::sh());
    let script = script.unwrap();
    let value = "zzz\";echo${IFS}\"hello\";# $(touch x) `id` 'q' * \\";
    #[expect(clippy::disallowed_methods, reason = "a test of what the real shell does; it ends by itself")]
    let mut command = std::process::Command::new("sh");
    command.args(["-eu", "-c", &script.text]).env_clear().env("PATH", "/usr/bin:/bin");
    for (name, _) in &script.bindings {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let wanted = format!("<{value}><a{value}b><<{value}>>{value}\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), wanted);
}

proptest! {
    #[test]
    fn the_scanner_never_panics_and_values_stay_outside(script in "[ -~\n\t@'\"`$(){}<\\\\]{0,80}") {
        let marks = script.matches('@').count();
        if let (Some(script), _) = bind_marks(&script, &Shell::sh()) {
            prop_assert_eq!(script.bindings.len(), marks);
            for (name, _) in &script.bindings {
                let reference = format!("${{{}}}", name);
                prop_assert!(script.text.contains(&reference), "{} in {}", reference, script.text);
            }
        }
    }
}
