//! Values of expressions, inputs and outputs: JSON with one addition, the taint of text.
//!
//! Text that came from outside (a ticket's title, a comment, a branch name, the web) is *tainted*. Taint survives
//! storage: the serde form of a tainted text is `{"$tainted": "..."}`, and a key of a map that starts with `$` gets a
//! further `$`, so that no map of a user can be mistaken for a mark. [`Value::to_json`] and [`Value::json_text`] are the
//! plain form for people and programs; they forget taint. Keys of maps carry no taint: what reads them as text asks the
//! static check of `orc-spec`, which knows whole roots as tainted.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Containers within containers that a value read from text may have; storage adds a few levels of its own, and JSON
/// readers stop at 128.
pub const MAX_DEPTH: usize = 64;

const TAINT_KEY: &str = "$tainted";

/// A value; maps are ordered by key, so that equal values have equal text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number; never money.
    Float(Finite),
    /// Text, with its taint.
    Text(Text),
    /// A list.
    List(Vec<Value>),
    /// Named values.
    Map(BTreeMap<String, Value>),
}

/// Text and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Text {
    /// The characters.
    pub text: String,
    /// True when any part of it came from outside.
    pub tainted: bool,
}

/// A floating-point number that is neither infinite nor "not a number", so that it has a JSON form.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Finite(f64);

impl Finite {
    /// Zero.
    pub const ZERO: Self = Self(0.0);

    /// `None` for infinities and "not a number".
    #[must_use]
    pub fn new(number: f64) -> Option<Self> {
        number.is_finite().then_some(Self(number))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// The number with the other sign.
    #[must_use]
    pub fn negated(self) -> Self {
        Self(self.0.copysign(if self.0.is_sign_negative() { 1.0 } else { -1.0 }))
    }
}

impl Text {
    /// Text of ours.
    #[must_use]
    pub fn trusted(text: impl Into<String>) -> Self {
        Self { text: text.into(), tainted: false }
    }

    /// Text from outside.
    #[must_use]
    pub fn tainted(text: impl Into<String>) -> Self {
        Self { text: text.into(), tainted: true }
    }
}

impl Value {
    /// Untainted text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text::trusted(text))
    }

    /// From plain JSON; all text is untainted. A whole number beyond 64 bits with sign becomes the nearest
    /// [`Value::Float`].
    #[must_use]
    pub fn from_json(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(truth) => Self::Bool(truth),
            serde_json::Value::Number(number) => number
                .as_i64()
                .map_or_else(|| number.as_f64().and_then(Finite::new).map_or(Self::Null, Self::Float), Self::Int),
            serde_json::Value::String(text) => Self::text(text),
            serde_json::Value::Array(items) => Self::List(items.into_iter().map(Self::from_json).collect()),
            serde_json::Value::Object(members) => {
                Self::Map(members.into_iter().map(|(key, member)| (key, Self::from_json(member))).collect())
            }
        }
    }

    /// From the text of a JSON document; `None` when it is not JSON or nested deeper than [`MAX_DEPTH`].
    #[must_use]
    pub fn parse_json(text: &str) -> Option<Self> {
        let value = Self::from_json(serde_json::from_str(text).ok()?);
        value.is_within(MAX_DEPTH).then_some(value)
    }

    /// From one value of a step's output file: JSON where it parses, else text. A number that would not print as it was
    /// written (`1.10`, `007` is no JSON, twenty digits) stays text, so that a version or an id is not rounded.
    #[must_use]
    pub fn parse_output(text: &str) -> Self {
        match Self::parse_json(text) {
            Some(Self::Float(number)) if plain_number(number) != text.trim() => Self::text(text),
            Some(value) => value,
            None => Self::text(text),
        }
    }

    /// As plain JSON, without taint.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(truth) => (*truth).into(),
            Self::Int(number) => (*number).into(),
            Self::Float(number) => number.0.into(),
            Self::Text(text) => text.text.clone().into(),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Map(members) => {
                serde_json::Value::Object(members.iter().map(|(key, value)| (key.clone(), value.to_json())).collect())
            }
        }
    }

    /// As compact plain JSON text, without taint.
    #[must_use]
    pub fn json_text(&self) -> String {
        self.to_json().to_string()
    }

    /// Bytes of [`Value::json_text`], without building it.
    #[must_use]
    pub fn json_len(&self) -> usize {
        let mut counter = ByteCounter(0);
        // Neither the counter nor a value can fail to serialize: keys are text and floats are finite.
        let written = serde_json::to_writer(&mut counter, &Plain(self));
        debug_assert!(written.is_ok(), "a value always has a JSON form");
        counter.0
    }

    /// What an expression inside text becomes: text as it is, nothing for null, numbers and truth values as written,
    /// containers as compact JSON. Tainted when any part of the value is.
    #[must_use]
    pub fn to_text(&self) -> Text {
        let text = match self {
            Self::Null => String::new(),
            Self::Text(text) => return text.clone(),
            Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::List(_) | Self::Map(_) => self.json_text(),
        };
        Text { text, tainted: self.is_tainted() }
    }

    /// True when any text in it is tainted.
    #[must_use]
    pub fn is_tainted(&self) -> bool {
        match self {
            Self::Text(text) => text.tainted,
            Self::List(items) => items.iter().any(Self::is_tainted),
            Self::Map(members) => members.values().any(Self::is_tainted),
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) => false,
        }
    }

    /// The same value with every text in it tainted.
    #[must_use]
    pub fn tainted(self) -> Self {
        match self {
            Self::Text(text) => Self::Text(Text { tainted: true, ..text }),
            Self::List(items) => Self::List(items.into_iter().map(Self::tainted).collect()),
            Self::Map(members) => Self::Map(members.into_iter().map(|(key, value)| (key, value.tainted())).collect()),
            other => other,
        }
    }

    /// The word for its type in messages.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    fn is_within(&self, depth: usize) -> bool {
        match self {
            Self::List(items) => depth > 0 && items.iter().all(|item| item.is_within(depth - 1)),
            Self::Map(members) => depth > 0 && members.values().all(|value| value.is_within(depth - 1)),
            _ => true,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text().text)
    }
}

fn plain_number(number: Finite) -> String {
    serde_json::Value::from(number.0).to_string()
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The plain form while it is written.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(truth) => serializer.serialize_bool(*truth),
            Value::Int(number) => serializer.serialize_i64(*number),
            Value::Float(number) => serializer.serialize_f64(number.0),
            Value::Text(text) => serializer.serialize_str(&text.text),
            Value::List(items) => serializer.collect_seq(items.iter().map(Plain)),
            Value::Map(members) => serializer.collect_map(members.iter().map(|(key, value)| (key, Plain(value)))),
        }
    }
}

/// Reads a value that may be missing: with `#[serde(default)]` a missing member is `None`, and `null` is a value.
pub(crate) fn deserialize_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) if text.tainted => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(TAINT_KEY, &text.text)?;
                map.end()
            }
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Map(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    if key.starts_with('$') {
                        map.serialize_entry(&format!("${key}"), value)?;
                    } else {
                        map.serialize_entry(key, value)?;
                    }
                }
                map.end()
            }
            plain => Plain(plain).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StoredForm)
    }
}

/// Reads the stored form; a mark that this version did not write is an error, not a key.
struct StoredForm;

impl<'de> Visitor<'de> for StoredForm {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        i64::try_from(number).map(Value::Int).map_err(|_| E::custom("a whole number beyond 64 bits with sign"))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Finite::new(number).map(Value::Float).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::text(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry::<String, Value>()? {
            if key == TAINT_KEY {
                let Value::Text(text) = value else {
                    return Err(de::Error::custom("`$tainted` marks something that is not text"));
                };
                return match entries.next_key::<String>()? {
                    None if members.is_empty() => Ok(Value::Text(Text { tainted: true, ..text })),
                    _ => Err(de::Error::custom("`$tainted` has neighbours")),
                };
            }
            let key = match key.strip_prefix('$') {
                Some(own) if own.starts_with('$') => own.to_owned(),
                Some(_) => return Err(de::Error::custom(format!("unknown mark `{key}`"))),
                None => key,
            };
            members.insert(key, value);
        }
        Ok(Value::Map(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_filter_map("finite", Finite::new).prop_map(Value::Float),
            (".{0,8}", any::<bool>()).prop_map(|(text, tainted)| Value::Text(Text { text, tainted })),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
                prop::collection::btree_map(r"\$?\$?(tainted|[a-z]{0,3})", inner, 0..4).prop_map(Value::Map),
            ]
        })
    }

    fn untaint(value: Value) -> Value {
        Value::from_json(value.to_json())
    }

    proptest! {
        #[test]
        fn storage_keeps_a_value_and_its_taint(value in any_value()) {
            let stored = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), value);
        }

        #[test]
        fn the_plain_form_keeps_everything_but_taint(value in any_value()) {
            let plain = untaint(value.clone());
            prop_assert!(!plain.is_tainted());
            prop_assert_eq!(plain.json_text(), value.json_text());
            prop_assert_eq!(value.json_len(), value.json_text().len());
            prop_assert_eq!(Value::parse_json(&value.json_text()), Some(plain));
        }

        #[test]
        fn marking_reaches_every_text(value in any_value()) {
            let has_text = untaint(value.clone()) != value.clone().tainted();
            prop_assert_eq!(value.clone().tainted().is_tainted(), has_text);
            prop_assert_eq!(untaint(value.clone().tainted()), untaint(value));
        }
    }

    #[test]
    fn the_stored_form_is_fixed() {
        let cases = [
            (Value::Text(Text::tainted("x")), r#"{"$tainted":"x"}"#),
            (Value::text("x"), r#""x""#),
            (Value::Map([("$tainted".to_owned(), Value::text("x"))].into()), r#"{"$$tainted":"x"}"#),
            (Value::Map([("a".to_owned(), Value::Int(1))].into()), r#"{"a":1}"#),
        ];
        for (value, stored) in cases {
            assert_eq!(serde_json::to_string(&value).unwrap(), stored);
            assert_eq!(serde_json::from_str::<Value>(stored).unwrap(), value);
        }
    }

    /// Without exact reading of floats this one comes back as its neighbour.
    #[test]
    fn a_float_survives_storage_to_its_last_bit() {
        let number = Value::Float(Finite::new(-6.568_695_189_784_567e143).unwrap());
        let stored = serde_json::to_string(&number).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), number);
    }

    #[test]
    fn a_mark_of_another_version_is_an_error() {
        for stored in
            [r#"{"$secret":"x"}"#, r#"{"$tainted":1}"#, r#"{"$tainted":"x","b":1}"#, r#"{"a":1,"$tainted":"x"}"#]
        {
            assert!(serde_json::from_str::<Value>(stored).is_err(), "{stored}");
        }
    }

    #[test]
    fn an_output_is_json_where_nothing_is_lost() {
        let cases = [
            ("3", Value::Int(3)),
            ("true", Value::Bool(true)),
            ("1.5", Value::Float(Finite::new(1.5).unwrap())),
            ("1.10", Value::text("1.10")),
            ("007", Value::text("007")),
            ("18446744073709551616", Value::text("18446744073709551616")),
            ("[1, \"a\"]", Value::List(vec![Value::Int(1), Value::text("a")])),
            ("\"quoted\"", Value::text("quoted")),
            ("plain words", Value::text("plain words")),
            ("NaN", Value::text("NaN")),
            ("", Value::text("")),
        ];
        for (text, wanted) in cases {
            assert_eq!(Value::parse_output(text), wanted, "{text}");
        }
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert_eq!(Value::parse_output(&deep), Value::text(deep));
    }

    #[test]
    fn text_form() {
        let cases = [
            (Value::Null, ""),
            (Value::Bool(true), "true"),
            (Value::Int(-3), "-3"),
            (Value::Float(Finite::new(2.0).unwrap()), "2.0"),
            (Value::text("a b"), "a b"),
            (Value::List(vec![Value::text("a"), Value::Null]), r#"["a",null]"#),
        ];
        for (value, text) in cases {
            assert_eq!(value.to_string(), text);
        }
        assert!(Value::List(vec![Value::Text(Text::tainted("x"))]).to_text().tainted);
    }
}
