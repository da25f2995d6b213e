//! Values of expressions, inputs and outputs: JSON with one addition, the taint of text.
//!
//! Text that came from outside (a ticket's title, a comment, a branch name, the web) is *tainted*. Taint survives
//! storage: the serde form of a tainted text is `{"$tainted": "..."}`; [`Value::to_json`] is the plain form for people
//! and programs. A map whose only key is `$tainted` or starts with `$` is escaped with a further `$`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A value; maps are ordered by key, so that equal values have equal text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number; never money.
    Float(f64),
    /// Text, with its taint.
    Text(Text),
    /// A list.
    List(Vec<Value>),
    /// Named values.
    Map(BTreeMap<String, Value>),
}

/// Text and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The characters.
    pub text: String,
    /// True when any part of it came from outside.
    pub tainted: bool,
}
