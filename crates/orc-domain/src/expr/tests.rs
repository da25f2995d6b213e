use std::collections::BTreeMap;

use super::*;
use crate::value::{Finite, Text};

struct Flow;

impl Scope for Flow {
    fn resolve(&self, root: &Root, member: Option<&str>) -> Result<Value, EvalError> {
        let whole = match root {
            Root::Inputs => r#"{"area": "all", "count": 3, "ratio": 1.5, "flag": true, "none": null}"#,
            Root::Steps => r#"{"plan": {"outcome": "success", "output": {"parts": ["a", "b"], "text": "[1, 2]"}}}"#,
            Root::Item(_) => r#"["x", {"y": 1}]"#,
            Root::Ticket => r#"{"title": "rm -rf $(x)"}"#,
            _ => "null",
        };
        let whole = Value::parse_json(whole).unwrap();
        let whole = if *root == Root::Ticket { whole.tainted() } else { whole };
        match (whole, member) {
            (whole, None) => Ok(whole),
            (Value::Map(mut members), Some(name)) => members.remove(name).ok_or_else(|| EvalError::Missing {
                what: root.to_string(),
                member: name.to_owned(),
                hint: missing_hint(name, members.keys().map(String::as_str)),
            }),
            (other, Some(name)) => Err(EvalError::Type {
                what: format!("reading `{name}` of `{root}`"),
                wanted: "a map",
                found: other.type_name(),
            }),
        }
    }

    fn status(&self, function: StatusFn) -> bool {
        matches!(function, StatusFn::Always | StatusFn::Success)
    }
}

fn refer(root: Root, members: &[&str]) -> Expr {
    Expr::Ref { root, path: members.iter().map(|name| Segment::Member((*name).to_owned())).collect() }
}

fn lit(value: impl Into<serde_json::Value>) -> Expr {
    Expr::Literal(Value::from_json(value.into()))
}

fn binary(operator: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary(operator, Box::new(left), Box::new(right))
}

fn value(expr: &Expr) -> Value {
    eval(expr, &Flow).unwrap()
}

fn message(expr: &Expr) -> String {
    eval(expr, &Flow).unwrap_err().to_string()
}

#[test]
fn members_and_elements_are_read() {
    assert_eq!(value(&refer(Root::Inputs, &["area"])), Value::text("all"));
    assert_eq!(value(&refer(Root::Steps, &["plan", "outcome"])), Value::text("success"));
    let Expr::Ref { root, mut path } = refer(Root::Steps, &["plan", "output", "parts"]) else { unreachable!() };
    path.push(Segment::Index(Box::new(binary(BinaryOp::Subtract, lit(2), lit(1)))));
    assert_eq!(value(&Expr::Ref { root, path }), Value::text("b"));
    let by_name = Segment::Index(Box::new(lit("area")));
    assert_eq!(value(&Expr::Ref { root: Root::Inputs, path: vec![by_name] }), Value::text("all"));
    let second = Segment::Index(Box::new(lit(1)));
    let path = vec![second, Segment::Member("y".to_owned())];
    assert_eq!(value(&Expr::Ref { root: Root::Item("item".to_owned()), path }), Value::Int(1));
}

#[test]
fn what_is_missing_is_named_with_what_there_is() {
    assert_eq!(
        message(&refer(Root::Steps, &["plan", "output", "prats"])),
        "`steps.plan.output` has no `prats` (did you mean `parts`? it has: parts, text)"
    );
    assert_eq!(message(&refer(Root::Inputs, &["none", "x"])), "`inputs.none` has no `x` (it is null)");
    assert_eq!(message(&refer(Root::Inputs, &["area", "x"])), "reading `x` of `inputs.area` needs a map, not text");
    let Expr::Ref { root, mut path } = refer(Root::Steps, &["plan", "output", "parts"]) else { unreachable!() };
    path.push(Segment::Index(Box::new(lit(-1))));
    assert_eq!(
        message(&Expr::Ref { root, path }),
        "`steps.plan.output.parts` has no `[-1]` (it has 2 elements, counted from 0)"
    );
    let many: Vec<String> = (0..20).map(|number| format!("member{number}")).collect();
    assert!(missing_hint("x", many.iter().map(String::as_str)).ends_with("member9, ...)"));
    assert_eq!(missing_hint("x", []), " (it has nothing)");
}

#[test]
fn and_or_stop_early_and_take_booleans_only() {
    let missing = || refer(Root::Inputs, &["nothing"]);
    assert_eq!(value(&binary(BinaryOp::Or, lit(true), missing())), Value::Bool(true));
    assert_eq!(value(&binary(BinaryOp::And, lit(false), missing())), Value::Bool(false));
    assert!(eval(&binary(BinaryOp::And, lit(true), missing()), &Flow).is_err());
    assert_eq!(message(&binary(BinaryOp::And, lit(true), lit("yes"))), "`&&` needs a boolean, not text");
    assert_eq!(message(&Expr::Unary(UnaryOp::Not, Box::new(lit(0)))), "`!` needs a boolean, not a number");
    assert_eq!(value(&Expr::Status(StatusFn::Always)), Value::Bool(true));
    assert_eq!(value(&Expr::Status(StatusFn::Failure)), Value::Bool(false));
}

#[test]
fn equality_never_fails_and_never_converts() {
    let null = serde_json::Value::Null;
    let cases = [
        (lit(1), lit(1.0), true),
        (lit(9_007_199_254_740_993_i64), lit(9_007_199_254_740_992.0), false),
        (lit(1), lit("1"), false),
        (lit(true), lit("true"), false),
        (lit(null.clone()), lit(null.clone()), true),
        (lit(null), lit(false), false),
        (lit(vec![1, 2]), lit(vec![1.0, 2.0]), true),
        (lit(serde_json::json!({"a": 1})), lit(serde_json::json!({"a": 1.0})), true),
        (lit(serde_json::json!({"a": 1})), lit(serde_json::json!({"b": 1})), false),
        (refer(Root::Ticket, &["title"]), lit("rm -rf $(x)"), true),
    ];
    for (left, right, equal) in cases {
        assert_eq!(
            value(&binary(BinaryOp::Equal, left.clone(), right.clone())),
            Value::Bool(equal),
            "{left} == {right}"
        );
        assert_eq!(value(&binary(BinaryOp::NotEqual, left, right)), Value::Bool(!equal));
    }
}

#[test]
fn order_is_for_numbers_and_texts() {
    let cases = [
        (lit(1), BinaryOp::Less, lit(1.5), true),
        (lit(-1), BinaryOp::Less, lit(-0.5), true),
        (lit(i64::MAX), BinaryOp::Less, lit(1e300), true),
        (lit(i64::MIN), BinaryOp::Greater, lit(-1e300), true),
        (lit(2.5), BinaryOp::GreaterOrEqual, lit(2), true),
        (lit("a"), BinaryOp::LessOrEqual, lit("b"), true),
        (lit("b"), BinaryOp::Less, lit("a"), false),
    ];
    for (left, operator, right, wanted) in cases {
        assert_eq!(value(&binary(operator, left, right)), Value::Bool(wanted));
    }
    assert_eq!(message(&binary(BinaryOp::Less, lit(1), lit("2"))), "`<` needs two numbers or two texts, not text");
    assert_eq!(
        message(&binary(BinaryOp::Less, lit(true), lit(1))),
        "`<` needs two numbers or two texts, not a boolean"
    );
}

#[test]
fn numbers_that_do_not_fit_are_errors() {
    assert_eq!(value(&binary(BinaryOp::Add, lit(1), lit(2))), Value::Int(3));
    assert_eq!(value(&binary(BinaryOp::Add, lit(1), lit(0.5))), Value::Float(Finite::new(1.5).unwrap()));
    assert_eq!(message(&binary(BinaryOp::Add, lit(i64::MAX), lit(1))), "`+` is out of range");
    assert_eq!(message(&binary(BinaryOp::Subtract, lit(-1.7e308), lit(1.7e308))), "`-` is out of range");
    assert_eq!(message(&Expr::Unary(UnaryOp::Negate, Box::new(lit(i64::MIN)))), "`-` is out of range");
    assert_eq!(message(&binary(BinaryOp::Add, lit("a"), lit(1))), "`+` needs two numbers, not text");
}

#[test]
fn functions() {
    let parts = || refer(Root::Steps, &["plan", "output", "parts"]);
    let cases = [
        (Expr::Call(Function::Contains, vec![parts(), lit("b")]), Value::Bool(true)),
        (Expr::Call(Function::Contains, vec![lit("abc"), lit("bc")]), Value::Bool(true)),
        (Expr::Call(Function::StartsWith, vec![lit("abc"), lit("ab")]), Value::Bool(true)),
        (Expr::Call(Function::EndsWith, vec![lit("abc"), lit("ab")]), Value::Bool(false)),
        (Expr::Call(Function::Join, vec![parts(), lit(", ")]), Value::text("a, b")),
        (Expr::Call(Function::Length, vec![parts()]), Value::Int(2)),
        (Expr::Call(Function::Length, vec![lit("dü")]), Value::Int(2)),
        (Expr::Call(Function::ToJson, vec![parts()]), Value::text(r#"["a","b"]"#)),
        (
            Expr::Call(Function::FromJson, vec![refer(Root::Steps, &["plan", "output", "text"])]),
            Value::List(vec![Value::Int(1), Value::Int(2)]),
        ),
        (Expr::Call(Function::Default, vec![refer(Root::Inputs, &["nothing"]), lit(1)]), Value::Int(1)),
        (Expr::Call(Function::Default, vec![refer(Root::Inputs, &["none"]), lit(1)]), Value::Int(1)),
        (Expr::Call(Function::Default, vec![refer(Root::Inputs, &["none", "x"]), lit(1)]), Value::Int(1)),
        (Expr::Call(Function::Default, vec![refer(Root::Inputs, &["count"]), lit(1)]), Value::Int(3)),
    ];
    for (expr, wanted) in cases {
        assert_eq!(value(&expr), wanted, "{expr}");
    }
    let two_missing = refer(Root::Steps, &["plan", "nothing", "x"]);
    assert!(message(&Expr::Call(Function::Default, vec![two_missing, lit(1)])).starts_with("`steps.plan` has no"));
    assert_eq!(
        message(&Expr::Call(Function::FromJson, vec![lit("{")])),
        "`from_json` needs a JSON document, not text that is none"
    );
    assert_eq!(message(&Expr::Call(Function::Length, vec![])), "`length` does not take 0 arguments");
    assert_eq!(
        message(&Expr::Call(Function::Length, vec![lit(1)])),
        "`length` needs a list, a map or text, not a number"
    );
}

#[test]
fn a_template_keeps_the_type_of_its_only_expression() {
    let count = || TemplatePart::Expr(refer(Root::Inputs, &["count"]));
    assert_eq!(Template { parts: vec![count()] }.render(&Flow).unwrap(), Value::Int(3));
    let text = Template { parts: vec![TemplatePart::Literal("n=".to_owned()), count(), count()] };
    assert_eq!(text.render(&Flow).unwrap(), Value::text("n=33"));
    assert_eq!(Template { parts: vec![] }.render(&Flow).unwrap(), Value::text(""));
    assert_eq!(Template::literal("x").render(&Flow).unwrap(), Value::text("x"));
    assert_eq!(text.to_string(), "n=${{ inputs.count }}${{ inputs.count }}");
}

#[test]
fn taint_follows_text_into_text() {
    let title = || refer(Root::Ticket, &["title"]);
    let template = Template { parts: vec![TemplatePart::Literal("fix: ".to_owned()), TemplatePart::Expr(title())] };
    assert_eq!(template.render(&Flow).unwrap(), Value::Text(Text::tainted("fix: rm -rf $(x)")));
    for expr in [
        Expr::Call(Function::ToJson, vec![title()]),
        Expr::Call(Function::FromJson, vec![Expr::Call(Function::ToJson, vec![title()])]),
        Expr::Call(Function::Join, vec![lit(vec!["a", "b"]), title()]),
        Expr::Call(Function::Default, vec![title(), lit("x")]),
    ] {
        assert!(value(&expr).is_tainted(), "{expr}");
    }
    assert!(!value(&binary(BinaryOp::Equal, title(), title())).is_tainted());
}

#[test]
fn text_has_a_largest_size() {
    struct Big;
    impl Scope for Big {
        fn resolve(&self, _: &Root, _: Option<&str>) -> Result<Value, EvalError> {
            Ok(Value::text("x".repeat(MAX_TEXT_BYTES / 2 + 1)))
        }
        fn status(&self, _: StatusFn) -> bool {
            false
        }
    }
    let half = || TemplatePart::Expr(refer(Root::Flow, &["x"]));
    assert!(Template { parts: vec![half(), TemplatePart::Literal("y".to_owned())] }.render(&Big).is_ok());
    let error = Template { parts: vec![half(), half()] }.render(&Big).unwrap_err();
    assert_eq!(error.to_string(), "the text would be larger than 1048576 bytes");
}

#[test]
fn references_are_found_wherever_they_stand() {
    let inner = refer(Root::Item("part".to_owned()), &["index"]);
    let list = Expr::Ref {
        root: Root::Steps,
        path: vec![Segment::Member("plan".to_owned()), Segment::Index(Box::new(inner))],
    };
    let expr = binary(
        BinaryOp::And,
        Expr::Unary(UnaryOp::Not, Box::new(Expr::Status(StatusFn::Failure))),
        Expr::Call(Function::Contains, vec![list, refer(Root::Env, &["X"])]),
    );
    let found: Vec<(String, Option<&str>)> =
        expr.references().iter().map(|reference| (reference.root.to_string(), reference.member())).collect();
    let wanted = [("steps", Some("plan")), ("part", Some("index")), ("env", Some("X"))];
    assert_eq!(found, wanted.map(|(root, member)| (root.to_owned(), member)));
    assert!(expr.uses_status());
    assert_eq!(expr.roots().len(), 3);
    assert_eq!(expr.to_string(), "(!failure()) && contains(steps.plan[part.index], env.X)");
}

#[test]
fn an_expression_survives_storage() {
    let expr = binary(
        BinaryOp::Or,
        Expr::Literal(Value::Text(Text::tainted("x"))),
        Expr::Literal(Value::Map(BTreeMap::from([("$a".to_owned(), Value::Null)]))),
    );
    let stored = serde_json::to_string(&expr).unwrap();
    assert_eq!(serde_json::from_str::<Expr>(&stored).unwrap(), expr);
}
