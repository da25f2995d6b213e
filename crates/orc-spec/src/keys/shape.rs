//! What keys take: the shapes of values, each described once for the reference; the JSON Schema is made from the same.

use super::Table;

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Text as it is.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number from 1 to the given one; `_` between digits is allowed.
    Count(u32),
    /// A length of time with its unit: `30s`, `1h30m`.
    Duration,
    /// A number of bytes, alone or with a unit: `64MiB`.
    Size,
    /// One of some words.
    Words(&'static [&'static str]),
    /// A list of some words.
    WordList(&'static [&'static str]),
    /// A name, or a list of names.
    NameOrNames,
    /// An expression that gives true or false, with or without `${{ }}`.
    Condition,
    /// An expression that gives a list, with or without `${{ }}`, or the list itself.
    List,
    /// A map of environment variables; values are texts with expressions.
    Env,
    /// A list of names of environment variables.
    EnvNames,
    /// A shell script with expressions.
    Script,
    /// `sh`, `bash`, `python`, or a program with its arguments.
    Shell,
    /// Any value without expressions.
    Value,
    /// Any value as it stands: nothing in it is an expression.
    Literal,
    /// Text with expressions.
    Template,
    /// A map of names of the user's choice to texts with expressions.
    Templates,
    /// A map of names of the user's choice to expressions, with or without `${{ }}`.
    Expressions,
    /// A map of names of the user's choice to lists of names.
    NameLists,
    /// Lists of values by name, with `include` and `exclude`.
    Matrix,
    /// A whole number, at least 1, however large; `_` between digits is allowed.
    Tally,
    /// A whole number between two others.
    Integer(i16, i16),
    /// Dollars.
    Money,
    /// Dollars for a million tokens or for one use; 0 is a price too.
    Price,
    /// A day.
    Date,
    /// One of several shapes.
    Either(&'static [Self]),
    /// A list, each of whose values has a shape.
    ListOf(&'static Self),
    /// Steps by name.
    Steps,
    /// The program with its arguments as a list.
    Argv,
    /// A map with the keys of a table.
    Table(&'static Table),
    /// A map of names of the user's choice to maps with the keys of a table.
    Named(&'static Table),
    /// A map of names of models, with `*`, to a map with the keys of a table or a list of such maps.
    Patterns(&'static Table),
    /// The program with its arguments as a list, or a script.
    Command,
    /// A whole number from 0 to the given one.
    CountOrZero(u32),
    /// A map of environment variables; values are texts without expressions.
    Variables,
    /// A JSON Schema, or the path of one.
    Schema,
    /// The inner shape, and only for the built-in agent; with what to do instead for another.
    BuiltIn(&'static Shape, &'static str),
    /// Any value, because the part of the program that reads it is not built yet.
    Later,
}

impl Shape {
    /// In words, for people.
    #[must_use]
    pub fn words(self) -> String {
        let words = match self {
            Self::Text => "text",
            Self::Bool => "`true` or `false`",
            Self::Count(most) => return format!("a whole number from 1 to {most}"),
            Self::CountOrZero(most) => return format!("a whole number from 0 to {most}"),
            Self::Integer(least, most) => return format!("a whole number from {least} to {most}"),
            Self::Tally => "a whole number: `5_000_000`",
            Self::Money => "dollars: `20.00`",
            Self::Price => "dollars: `0.30`, `0`",
            Self::Date => "a day: `2026-12-24`",
            Self::Duration => "a length of time: `30s`, `1h30m`",
            Self::Size => "a number of bytes: `64MiB`",
            Self::Words(words) => return listed(words.iter().map(|word| format!("`{word}`")), ", "),
            Self::WordList(words) => {
                return format!("a list of {}", listed(words.iter().map(|word| format!("`{word}`")), ", "));
            }
            Self::NameOrNames => "a name, or a list of names",
            Self::NameLists => "a map of names to lists of names",
            Self::Condition => "an expression that gives true or false",
            Self::List => "a list, or an expression that gives one",
            Self::Matrix => "a map of lists of values, with `include` and `exclude`",
            Self::Env => "a map of variables to texts with expressions",
            Self::EnvNames => "a list of names of variables",
            Self::Variables => "a map of variables to texts without expressions",
            Self::Script => "a script with expressions",
            Self::Shell => "`sh`, `bash`, `python`, or a program with its arguments",
            Self::Command => "a program with its arguments as a list, or a script",
            Self::Argv => "a program with its arguments as a list",
            Self::Value => "any value without expressions",
            Self::Literal => "any value, as it stands",
            Self::Template => "text with expressions",
            Self::Templates => "a map of names to texts with expressions",
            Self::Expressions => "a map of names to expressions",
            Self::Schema => "a JSON Schema, or the path of a JSON file",
            Self::Either(shapes) => return listed(shapes.iter().map(|shape| shape.words()), ", or "),
            Self::Table(table) => return format!("the keys of {}", table.name),
            Self::Named(table) => return format!("a map of names to {}", table.name),
            Self::Patterns(table) => {
                return format!("a map of names of models, with `*`, to {} or a list of them", table.name);
            }
            Self::ListOf(Self::Table(table)) => return format!("a list of maps with the keys of {}", table.name),
            Self::ListOf(shape) => return format!("a list, each {}", shape.words()),
            Self::Steps => "a map of names to a step",
            Self::BuiltIn(shape, _) => return shape.words(),
            Self::Later => "not available yet",
        };
        words.to_owned()
    }
}

fn listed(parts: impl Iterator<Item = String>, between: &str) -> String {
    parts.collect::<Vec<_>>().join(between)
}
