//! The parts of a request that are judged, and nothing else of it: one shape for all three protocols.
//!
//! Whatever is not judged is skipped while it is read. A key that is judged and stands twice in its map is an error: known
//! readers take the last one, and nobody promises that all do. A value of an unexpected kind is [`Part::Other`], never an
//! error: providers judge their requests themselves.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value of a request.
#[derive(Debug, Default)]
pub(super) enum Part<'a> {
    /// Absent, or `null`.
    #[default]
    Absent,
    /// A text.
    Text(Cow<'a, str>),
    /// A whole number that is not negative.
    Figure(u64),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<Part<'a>>),
    /// A map.
    Map(Box<Node<'a>>),
    /// Any other value.
    Other,
}

/// What is judged of a map, wherever in a request it stands.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Node<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Part<'a>,
    #[serde(borrow)]
    pub(super) role: Part<'a>,
    #[serde(borrow)]
    pub(super) name: Part<'a>,
    #[serde(borrow)]
    pub(super) text: Part<'a>,
    #[serde(borrow)]
    pub(super) content: Part<'a>,
    #[serde(borrow)]
    pub(super) output: Part<'a>,
    #[serde(borrow)]
    pub(super) source: Part<'a>,
    #[serde(borrow)]
    pub(super) media_type: Part<'a>,
    #[serde(borrow)]
    pub(super) url: Part<'a>,
    #[serde(borrow)]
    pub(super) image_url: Part<'a>,
    #[serde(borrow)]
    pub(super) file: Part<'a>,
    #[serde(borrow)]
    pub(super) file_id: Part<'a>,
    #[serde(borrow)]
    pub(super) file_url: Part<'a>,
    #[serde(borrow)]
    pub(super) file_data: Part<'a>,
    #[serde(borrow)]
    pub(super) encrypted_content: Part<'a>,
    #[serde(borrow)]
    pub(super) function: Part<'a>,
    #[serde(borrow)]
    pub(super) environment: Part<'a>,
    #[serde(borrow)]
    pub(super) max_uses: Part<'a>,
    #[serde(borrow)]
    pub(super) budget_tokens: Part<'a>,
}

impl<'a> Part<'a> {
    pub(super) fn is_there(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn as_map(&self) -> Option<&Node<'a>> {
        if let Self::Map(node) = self { Some(node) } else { None }
    }

    /// The maps in it: those of a list, or itself.
    pub(super) fn maps(&self) -> impl Iterator<Item = &Node<'a>> {
        let list = if let Self::List(parts) = self { parts.as_slice() } else { std::slice::from_ref(self) };
        list.iter().filter_map(Part::as_map)
    }

    /// All text in it, one piece a line: itself, or `text` of the maps in it.
    pub(super) fn add_text(&self, all: &mut String) {
        let mut add = |text: &str| {
            if !all.is_empty() {
                all.push('\n');
            }
            all.push_str(text);
        };
        if let Some(text) = self.as_text() {
            add(text);
        }
        for text in self.maps().filter_map(|node| node.text.as_text()) {
            add(text);
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Part<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E: Error>(self) -> Result<Part<'de>, E> {
                Ok(Part::Absent)
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<Part<'de>, E> {
                Ok(Part::Flag(flag))
            }

            fn visit_u64<E: Error>(self, figure: u64) -> Result<Part<'de>, E> {
                Ok(Part::Figure(figure))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Part<'de>, E> {
                Ok(Part::Other)
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Part<'de>, E> {
                Ok(Part::Other)
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Part<'de>, E> {
                Ok(Part::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Part<'de>, E> {
                Ok(Part::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Part<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = list.next_element()? {
                    parts.push(part);
                }
                Ok(Part::List(parts))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Part<'de>, A::Error> {
                Node::deserialize(MapAccessDeserializer::new(map)).map(|node| Part::Map(Box::new(node)))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
