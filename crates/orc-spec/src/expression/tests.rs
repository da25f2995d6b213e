use std::collections::BTreeMap;

use orc_domain::expr::{BinaryOp, Function, Root, Segment, StatusFn, UnaryOp};
use orc_domain::value::Finite;
use proptest::prelude::*;

use super::*;

fn any_names() -> Names<'static> {
    static NO_INPUTS: BTreeMap<String, Type> = BTreeMap::new();
    Names {
        place: "this test",
        inputs: &NO_INPUTS,
        only_inputs: false,
        steps: None,
        env: None,
        items: vec![Item { name: "item", ty: Type::Any, tainted: false }],
        matrix: None,
        status: true,
        has_ticket: true,
        has_event: true,
    }
}

fn checked(text: &str) -> Result<Checked, Vec<String>> {
    let names = any_names();
    let mut report = Report::new("f");
    let place = Place { exact: Some(0), whole: Span::new(0, text.len()) };
    let checked = Reader { source: text, names: &names }.expression(text, place, &mut report);
    let told = report.finish().into_iter().map(|problem| {
        format!(
            "{}..{} {}; {}",
            problem.span.start,
            problem.span.end,
            problem.message,
            problem.help.unwrap_or_default()
        )
    });
    checked.ok_or_else(|| told.collect())
}

fn expr(text: &str) -> Expr {
    checked(text).unwrap_or_else(|told| panic!("{text}: {told:?}")).expr
}

#[test]
fn operators_bind_as_readers_expect() {
    let cases = [
        ("item.a || item.b && item.c", "item.a || (item.b && item.c)"),
        ("item.a && item.b == item.c", "item.a && (item.b == item.c)"),
        ("item.a == item.b < item.c", "item.a == (item.b < item.c)"),
        ("item.a < item.b + 1 - 2", "item.a < ((item.b + 1) - 2)"),
        ("!item.a && item.b", "(!item.a) && item.b"),
        ("!item.a == item.b", "(!item.a) == item.b"),
        ("-item.a + 1", "(-item.a) + 1"),
        ("1 - 2 - 3", "(1 - 2) - 3"),
        ("(item.a || item.b) && item.c", "(item.a || item.b) && item.c"),
        ("item.x[item.n + 1].y", "item.x[item.n + 1].y"),
        ("item['a b'].c-d[\"e\"]", "item['a b'].c-d.e"),
        ("contains(item, 'x') && success()", "contains(item, 'x') && success()"),
        ("default(item.a, -1.5)", "default(item.a, -1.5)"),
        ("item == 'it''s' || item == \"a\\\"b\"", "(item == 'it''s') || (item == 'a\"b')"),
        ("item == 1.10", "item == 1.1"),
        ("item.true", "item.true"),
    ];
    for (text, wanted) in cases {
        assert_eq!(expr(text).to_string(), wanted, "{text}");
    }
}

#[test]
fn mistakes_are_told_at_their_place_with_an_answer() {
    let cases = [
        ("", "0..0 an expression is missing here"),
        ("1 +", "3..3 the expression ends too early"),
        ("(1", "2..2 `)` is missing"),
        ("item.", "5..5 a name is missing after `.`"),
        ("item[1", "6..6 `]` is missing"),
        ("1 2", "2..3 the expression should have ended"),
        ("item and item", "5..8 `and` cannot follow here; write `&&`"),
        ("item = 1", "5..6 `=` means nothing in an expression; write `==`"),
        ("item & item", "5..6 `&` means nothing in an expression; write `&&`"),
        ("$item", "0..1 `$` means nothing"),
        ("item ? 1 : 2", "5..6 `?` means nothing"),
        ("'abc", "0..4 this text is not closed; close it with '"),
        ("\"a\\q\"", "2..4 `\\q` means nothing in a text"),
        ("1x", "0..1 a number ends in letters"),
        ("99999999999999999999", "0..20 this number is too large"),
        ("format('x')", "0..6 there is no function `format`; write text with several"),
        ("startsWith('a', 'b')", "0..10 there is no function `startsWith`; did you mean `starts_with`?"),
        ("fromJSON('1')", "0..8 there is no function `fromJSON`; did you mean `from_json`?"),
        ("contians('a', 'b')", "0..8 there is no function `contians`; did you mean `contains`?"),
        ("length(1, 2)", "0..12 `length` takes 1 argument, not 2"),
        ("always(1)", "0..9 `always()` takes no arguments"),
        ("canceled()", "0..8 there is no function `canceled`; did you mean `cancelled`?"),
        ("tciket.title", "0..6 `tciket` is not a name that this test can read; did you mean `ticket`?"),
        ("github.ref", "0..6 `github` is not a name"),
        ("ticket.titel", "7..12 `ticket` has no `titel`"),
        (
            "flow.outcome == 'success'",
            "16..25 the outcome is never `success`; it is one of succeeded, failed, cancelled, budget_exhausted; did you mean `succeeded`?",
        ),
        ("1 == 'a'", "0..8 `==` is always false here"),
        ("1 != true", "0..9 `!=` is always true here"),
        ("1 < 'a'", "0..7 `<` compares two numbers or two texts, not a number with text"),
        ("!1", "1..2 `!` needs a boolean, not a number"),
        ("-'a'", "1..4 `-` needs a number, not text"),
        ("1 && true", "0..1 `&&` needs a boolean, not a number"),
        ("'a' + 1", "0..3 `+` needs numbers, not text; texts are joined by writing them side by side"),
        ("join('a', ',')", "5..8 `join` needs a list, not text"),
        ("contains('a', 1)", "14..15 `contains` needs text, because the first is text, not a number"),
        ("ticket.labels.x", "14..15 a list has no `x`; read an element by its position"),
        ("ticket.title.x", "13..14 text has no `x`"),
        ("ticket.title[0]", "13..14 text has no elements"),
        ("item[true]", "5..9 an index is a whole number or a name, not a boolean"),
    ];
    for (text, wanted) in cases {
        let told = checked(text).unwrap_err();
        assert!(told.len() == 1 && told[0].starts_with(wanted), "{text}: {told:?}");
    }
}

#[test]
fn several_type_errors_of_one_expression_are_told_at_once() {
    assert_eq!(checked("!1 && ticket.titel == 'x' || -'a' == 2").unwrap_err().len(), 3);
}

#[test]
fn taint_is_known_before_anything_runs() {
    let cases = [
        ("ticket.title", true),
        ("event.x.y", true),
        ("to_json(event)", true),
        ("default(item, ticket.body)", true),
        ("join(ticket.labels, ',')", true),
        ("ticket.title == 'x'", false),
        ("length(ticket.title)", false),
        ("item", false),
        ("'text'", false),
    ];
    for (text, tainted) in cases {
        assert_eq!(checked(text).unwrap().tainted, tainted, "{text}");
    }
}

#[test]
fn height_is_bounded_and_what_is_allowed_survives_storage() {
    let chain = |length: usize| vec!["item.a"; length].join(" && ");
    let nested = |depth: usize| format!("{}item{}", "item[".repeat(depth), "]".repeat(depth));
    let calls = |depth: usize| format!("{}item{}", "to_json(".repeat(depth), ")".repeat(depth));
    for text in [chain(parse::MAX_HEIGHT), nested(10), calls(15), format!("{}true", "!".repeat(20))] {
        let stored = serde_json::to_string(&expr(&text)).unwrap();
        // A stored pipeline has a few levels of its own around it.
        let wrapped = format!("{}{stored}{}", "[".repeat(20), "]".repeat(20));
        assert!(serde_json::from_str::<serde_json::Value>(&wrapped).is_ok(), "{text}");
        assert_eq!(serde_json::from_str::<Expr>(&stored).unwrap(), expr(&text));
    }
    for text in [chain(10_000), nested(10_000), calls(10_000), "!".repeat(10_000), "(".repeat(10_000), "-".repeat(100)]
    {
        let told = checked(&text).unwrap_err();
        assert!(told[0].contains("more than 32 levels deep"), "{told:?}");
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-z_][a-z0-9_]{0,5}"
}

fn any_expr() -> impl Strategy<Value = Expr> {
    let literal = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-1_000_000_i64..1_000_000).prop_map(Value::Int),
        (0.001_f64..1e30).prop_filter_map("finite", Finite::new).prop_map(Value::Float),
        "[ -~äß]{0,6}".prop_map(Value::text),
    ]
    .prop_map(Expr::Literal);
    let reference = (prop::collection::vec(name().prop_map(Segment::Member), 0..3))
        .prop_map(|path| Expr::Ref { root: Root::Item("item".to_owned()), path });
    let status = prop_oneof![Just(StatusFn::Always), Just(StatusFn::Skipped)].prop_map(Expr::Status);
    prop_oneof![literal, reference, status].prop_recursive(4, 24, 3, |inner| {
        let operators = [BinaryOp::Or, BinaryOp::And, BinaryOp::Equal, BinaryOp::NotEqual, BinaryOp::Less];
        let more =
            [BinaryOp::LessOrEqual, BinaryOp::Greater, BinaryOp::GreaterOrEqual, BinaryOp::Add, BinaryOp::Subtract];
        let operator = prop::sample::select([operators, more].concat());
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            (operator, pair.clone()).prop_map(|(op, (left, right))| Expr::Binary(op, Box::new(left), Box::new(right))),
            inner.clone().prop_map(|operand| Expr::Unary(UnaryOp::Not, Box::new(operand))),
            pair.prop_map(|(left, right)| Expr::Call(Function::Default, vec![left, right])),
            inner
                .prop_filter("a name would be a member", |index| !matches!(index, Expr::Literal(Value::Text(_))))
                .prop_map(|index| Expr::Ref {
                    root: Root::Item("item".to_owned()),
                    path: vec![Segment::Index(Box::new(index))]
                }),
        ]
    })
}

/// The tree alone, without names and types.
fn bare(ast: &parse::Ast) -> Expr {
    use parse::{AstKind, AstSegment};
    match &ast.kind {
        AstKind::Literal(value) => Expr::Literal(value.clone()),
        AstKind::Status(function) => Expr::Status(*function),
        AstKind::Unary(operator, operand) => Expr::Unary(*operator, Box::new(bare(operand))),
        AstKind::Binary(operator, left, right) => Expr::Binary(*operator, Box::new(bare(left)), Box::new(bare(right))),
        AstKind::Call(function, arguments) => Expr::Call(*function, arguments.iter().map(bare).collect()),
        AstKind::Ref { root, path } => {
            let path = path.iter().map(|segment| match segment {
                AstSegment::Member(name, _) => Segment::Member(name.clone()),
                AstSegment::Index(index) => Segment::Index(Box::new(bare(index))),
            });
            Expr::Ref { root: Root::Item(root.clone()), path: path.collect() }
        }
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(expr in any_expr()) {
        let text = expr.to_string();
        let ast = parse::parse(&text);
        prop_assert!(ast.is_ok(), "{}: {:?}", text, ast);
        prop_assert_eq!(bare(&ast.unwrap()), expr);
    }

    #[test]
    fn the_parser_never_panics(text in ".{0,60}") {
        let _ = checked(&text);
        let _ = token::end_of_expression(&text);
    }

    #[test]
    fn the_parser_never_panics_on_its_own_words(
        words in prop::collection::vec(prop::sample::select(vec![
            "item", ".", "a", "[", "]", "(", ")", "'x'", "\"", "'", "&&", "||", "!", "-", "==", "<", "1", "1.5e3", ",",
            "contains", "always", "${{", "}}", " ", "\\", "steps", "ticket", "null",
        ]), 0..30)
    ) {
        let _ = checked(&words.concat());
    }

    #[test]
    fn places_of_problems_lie_within_the_text(text in "[ -~é]{0,40}") {
        if let Err(error) = parse::parse(&text) {
            prop_assert!(error.span.start <= error.span.end && error.span.end <= text.len());
            prop_assert!(text.is_char_boundary(error.span.start) && text.is_char_boundary(error.span.end));
        }
    }
}
