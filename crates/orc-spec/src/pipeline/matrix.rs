//! `matrix:` to its combinations, which are known when the pipeline is compiled.
//!
//! As on GitHub Actions: all combinations of the axes, the last axis fastest; `exclude` takes away those that have all of
//! its values; then each map of `include` is added to every combination of axes whose own values it does not change, and
//! where there is none, it is a combination of its own. Values that an `include` added may be changed by a later one.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::graph::MAX_ELEMENTS;
use orc_domain::path::StepPath;
use orc_domain::value::Value;

use super::inputs::is_identifier;
use crate::diagnostic::{Code, Report};
use crate::expression::Type;
use crate::read;
use crate::yaml::{Entry, Kind, Node};

/// Combinations before `exclude`, so that no file keeps the compiler busy.
const MAX_PRODUCT: usize = 100_000;
/// Bytes of the values of one combination in the name of its step, which is in logs and names of files.
const MAX_NAME: usize = 200;

type Cell = BTreeMap<String, Value>;

/// What is written.
#[derive(Default)]
struct Matrix<'a> {
    axes: Vec<(&'a str, Vec<Value>)>,
    include: Vec<(Cell, &'a Node)>,
    exclude: Vec<(Cell, &'a Node)>,
}

/// The combinations, at least one; `None` when there is a mistake, which is reported.
pub(super) fn cells(node: &Node, report: &mut Report) -> Option<Vec<Cell>> {
    const FOREACH: &str = "for a list that is known only when the flow runs, write `foreach:`";
    if let Some(span) = read::find_expression(node) {
        let message = "a matrix is written out: an expression cannot stand in it";
        report.error(Code::Expression, span, message).help(FOREACH);
        return None;
    }
    let matrix = read_matrix(node, report)?;
    let product = matrix.axes.iter().map(|(_, values)| values.len()).fold(1_usize, usize::saturating_mul);
    let too_many = |count: usize, report: &mut Report| {
        let message = format!("this matrix has {count} combinations, a step takes {MAX_ELEMENTS}");
        report.error(Code::Limit, node.span, message).help("leave some out, or split it over several steps");
    };
    if product > MAX_PRODUCT {
        too_many(product, report);
        return None;
    }
    let mut cells = product_of(&matrix.axes);
    exclude(&matrix, &mut cells, report);
    include(&matrix, &mut cells);
    if cells.len() > MAX_ELEMENTS {
        too_many(cells.len(), report);
        return None;
    }
    if cells.is_empty() {
        let message = "this matrix has no combination, so the step would never run";
        report.error(Code::BadValue, node.span, message).help("give each axis a value: `matrix: { os: [linux] }`");
        return None;
    }
    has_names(&cells, node, report).then_some(cells)
}

/// What an expression can read of a combination.
pub(super) fn cell_type(cells: &[Cell]) -> Type {
    let names: BTreeSet<&String> = cells.iter().flat_map(BTreeMap::keys).collect();
    let type_of = |name: &String| {
        // Where a combination lacks it, nothing can be promised.
        let types = cells.iter().map(|cell| cell.get(name).map_or(Type::Null, Type::of_value));
        Type::of_all(types)
    };
    Type::Object { fields: names.into_iter().map(|name| (name.clone(), type_of(name))).collect(), open: false }
}

fn read_matrix<'a>(node: &'a Node, report: &mut Report) -> Option<Matrix<'a>> {
    let mut matrix = Matrix::default();
    let mut sound = true;
    for Entry { key, value } in read::map(node, "`matrix`", report)? {
        match key.text.as_str() {
            "include" => matrix.include = maps(value, "`include`", &mut sound, report),
            "exclude" => matrix.exclude = maps(value, "`exclude`", &mut sound, report),
            name if !is_identifier(name) => {
                let message = format!("`{}` cannot be the name of an axis", read::excerpt(name));
                report
                    .error(Code::BadValue, key.span, message)
                    .help("letters, digits, `_` and `-`, beginning with a letter");
                sound = false;
            }
            name => match axis(name, value, report) {
                Some(values) => matrix.axes.push((name, values)),
                None => sound = false,
            },
        }
    }
    sound.then_some(matrix)
}

fn axis(name: &str, node: &Node, report: &mut Report) -> Option<Vec<Value>> {
    match &node.kind {
        Kind::List(items) if items.is_empty() => {
            let message = format!("the axis `{name}` has no value, so the step would never run");
            report.error(Code::BadValue, node.span, message).help("give it a value, or remove it");
            None
        }
        Kind::List(items) => items.iter().map(read::value).collect(),
        Kind::Scalar(scalar) if !scalar.is_null() => {
            let message = format!("the axis `{name}` needs a list of values, not `{}`", read::excerpt(&scalar.text));
            report.error(Code::WrongType, node.span, message).help(format!("write `{name}: [{}]`", scalar.text));
            None
        }
        _ => {
            read::wrong_type(node, &format!("the axis `{name}`"), "a list of values", report);
            None
        }
    }
}

/// A list of maps of values.
fn maps<'a>(node: &'a Node, what: &str, sound: &mut bool, report: &mut Report) -> Vec<(Cell, &'a Node)> {
    const WANTED: &str = "a list of maps of values";
    let Kind::List(items) = &node.kind else {
        read::wrong_type(node, what, WANTED, report);
        *sound = false;
        return Vec::new();
    };
    let mut read = |item: &'a Node| match read::value(item) {
        Some(Value::Map(cell)) if !cell.is_empty() => Some((cell, item)),
        _ => {
            read::wrong_type(item, &format!("an entry of {what}"), "a map of values", report);
            *sound = false;
            None
        }
    };
    items.iter().filter_map(&mut read).collect()
}

fn product_of(axes: &[(&str, Vec<Value>)]) -> Vec<Cell> {
    if axes.is_empty() {
        return Vec::new();
    }
    axes.iter().fold(vec![Cell::new()], |cells, (name, values)| {
        let with = |cell: &Cell, value: &Value| {
            let mut cell = cell.clone();
            cell.insert((*name).to_owned(), value.clone());
            cell
        };
        cells.iter().flat_map(|cell| values.iter().map(|value| with(cell, value)).collect::<Vec<_>>()).collect()
    })
}

fn exclude(matrix: &Matrix<'_>, cells: &mut Vec<Cell>, report: &mut Report) {
    for (gone, node) in &matrix.exclude {
        let axes = matrix.axes.iter().map(|(name, _)| *name);
        if let Some(unknown) = gone.keys().find(|name| axes.clone().all(|axis| axis != name.as_str())) {
            let message = format!("`exclude` names `{}`, which is no axis of this matrix", read::excerpt(unknown));
            report.error(Code::UnknownName, node.span, message).did_you_mean(unknown, axes);
            continue;
        }
        let before = cells.len();
        cells.retain(|cell| gone.iter().any(|(name, value)| cell.get(name) != Some(value)));
        if cells.len() == before {
            report
                .warning(Code::NeverProduced, node.span, "this entry of `exclude` takes no combination away")
                .help("its values must be those of the axes, numbers as numbers and texts as texts");
        }
    }
}

fn include(matrix: &Matrix<'_>, cells: &mut Vec<Cell>) {
    let originals = cells.len();
    for (more, _) in &matrix.include {
        let mut added = false;
        for cell in cells.iter_mut().take(originals) {
            let keeps =
                |(name, _): &(&str, Vec<Value>)| more.get(*name).is_none_or(|value| cell.get(*name) == Some(value));
            if matrix.axes.iter().all(keeps) {
                cell.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
                added = true;
            }
        }
        if !added {
            cells.push(more.clone());
        }
    }
}

/// Whether the name of each combination is its own and not too long.
fn has_names(cells: &[Cell], node: &Node, report: &mut Report) -> bool {
    let mut names = BTreeSet::new();
    for cell in cells {
        let values = cell.iter().map(|(axis, value)| (axis.as_str(), value.to_text().text));
        let name = StepPath::root("").cell(values);
        if name.as_str().len() > MAX_NAME {
            let message = format!("a combination of this matrix is longer than {MAX_NAME} bytes, and it names a step");
            report.error(Code::Limit, node.span, message).help("give the values short names, and look the rest up");
            return false;
        }
        let shown = name.as_str().to_owned();
        if !names.insert(shown) {
            let message = format!("this matrix has the combination `{}` twice", name.as_str());
            report
                .error(Code::BadValue, node.span, message)
                .help("remove the value or the `include` that stands twice");
            return false;
        }
    }
    true
}
