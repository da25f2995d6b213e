//! Fan-out of a step: `foreach:` over a list, `matrix:` over combinations, and what stands beside them.

use orc_domain::expr::Expr;
use orc_domain::graph::{Elements, Fan, MAX_ELEMENTS, MAX_ITEM_BYTES};
use orc_domain::value::Value;

use super::matrix;
use super::step::{Draft, is_variable};
use super::view::View;
use crate::diagnostic::{Code, Report};
use crate::expression::{Checked, ROOTS, Taint, Type};
use crate::keys;
use crate::read::{self, Fields};
use crate::yaml::{Entry, Node};

/// A fan-out, and what expressions of its elements can read.
pub(super) struct FanDraft {
    pub(super) fan: Fan,
    /// The element of a `foreach`: its name, type and taint.
    pub(super) item: Option<(String, Type, Taint)>,
    /// The combination of a `matrix`.
    pub(super) matrix: Option<Type>,
}

impl Draft<'_> {
    /// `foreach:` or `matrix:` and their companions.
    pub(super) fn fan(&self, view: &View<'_>, report: &mut Report) -> Option<FanDraft> {
        let fields = self.fields.as_ref()?;
        let (foreach, matrix) = (fields.entry("foreach"), fields.entry("matrix"));
        refuse_companions(fields, foreach.is_some(), matrix.is_some(), report);
        let limit = fields.get("limit").and_then(|node| read::count(node, "`limit`", keys::MAX_SLOTS, report));
        let fail_fast = fields.get("fail_fast").and_then(|node| read::boolean(node, "`fail_fast`", report));
        let fan = |elements| Fan { elements, limit, fail_fast: fail_fast.unwrap_or(false) };
        if let (Some(foreach), Some(matrix)) = (foreach, matrix) {
            report
                .error(Code::Conflict, matrix.key.span, "a step has `foreach` or `matrix`, not both")
                .label(foreach.key.span, "the other one is here")
                .help("put one of them into another pipeline, and call that with `pipeline:`");
        }
        if let Some(entry) = foreach {
            let binding = self.binding(fields, entry, view, report);
            let list = self.list(&entry.value, view, report);
            let ty = if let Type::List(item) = &list.ty { (**item).clone() } else { Type::Any };
            let elements = Elements::List { list: list.expr, binding: binding.clone() };
            return Some(FanDraft { fan: fan(elements), item: Some((binding, ty, list.tainted)), matrix: None });
        }
        let entry = matrix?;
        if view.names("`matrix`", false).matrix.is_some() {
            report
                .error(
                    Code::Conflict,
                    entry.key.span,
                    "`matrix` is the combination of the `repeat` around this already",
                )
                .help("write `foreach:` with a list and a name of its own");
        }
        // Cells that cannot be read still make it a fan-out.
        let cells = matrix::cells(&entry.value, report).unwrap_or_default();
        let ty = if cells.is_empty() { Type::Any } else { matrix::cell_type(&cells) };
        Some(FanDraft { fan: fan(Elements::Matrix(cells)), item: None, matrix: Some(ty) })
    }

    fn list(&self, node: &Node, view: &View<'_>, report: &mut Report) -> Checked {
        let names = view.names("`foreach`", false);
        // A list that cannot be read still gives its element a name, so that the script is checked.
        let list = view.reader(&names).list(node, report).unwrap_or(Checked {
            expr: Expr::Literal(Value::Null),
            ty: Type::Any,
            tainted: false,
        });
        check_elements(&list.expr, node, report);
        list
    }

    fn binding(&self, fields: &Fields<'_>, foreach: &Entry, view: &View<'_>, report: &mut Report) -> String {
        let binding = fields.get("as").and_then(|node| binding(node, report)).unwrap_or_else(|| "item".to_owned());
        if view.names("`foreach`", false).items.iter().any(|item| item.name == binding) {
            let place = fields.get("as").map_or(foreach.key.span, |node| node.span);
            let message = format!("`{binding}` is the element of the `repeat` around this already");
            report.error(Code::Conflict, place, message).help("give one of them another name with `as:`");
        }
        binding
    }
}

fn refuse_companions(fields: &Fields<'_>, foreach: bool, matrix: bool, report: &mut Report) {
    let companions = [("as", foreach, "`foreach`"), ("limit", foreach || matrix, "`foreach` and `matrix`")];
    for (name, has_meaning, beside) in companions.into_iter().chain([("fail_fast", foreach || matrix, companions[1].2)])
    {
        if let (Some(entry), false) = (fields.entry(name), has_meaning) {
            report
                .error(Code::Conflict, entry.key.span, format!("`{name}` has a meaning beside {beside} only"))
                .help("add `foreach:` with a list, or remove this key");
        }
    }
}

/// `as:`.
fn binding(node: &Node, report: &mut Report) -> Option<String> {
    let name = read::text(node, "`as`", report)?;
    let (problem, help) = if !is_variable(&name) {
        ("is no name", "letters, digits and `_`, beginning with a letter; a hyphen would be a minus")
    } else if ROOTS.contains(&name.as_str()) || matches!(name.as_str(), "true" | "false" | "null") {
        ("has a meaning of its own in expressions", "choose another name")
    } else {
        return Some(name);
    };
    report.error(Code::BadValue, node.span, format!("`{}` {problem}", read::excerpt(&name))).help(help);
    None
}

fn check_elements(list: &Expr, node: &Node, report: &mut Report) {
    let Expr::Literal(Value::List(items)) = list else {
        return;
    };
    if items.len() > MAX_ELEMENTS {
        let message = format!("this list has {} elements, a fan-out takes {MAX_ELEMENTS}", items.len());
        report.error(Code::Limit, node.span, message).help("split it over several steps, or over flows");
    }
    if let Some(size) = items.iter().map(Value::json_len).find(|size| *size > MAX_ITEM_BYTES) {
        let message = format!("an element of this list has {size} bytes, a fan-out takes {MAX_ITEM_BYTES}");
        report.error(Code::Limit, node.span, message).help("put it into a file and list the names of files");
    }
}
