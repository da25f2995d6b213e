//! The output file of a step, `$ORC_OUTPUT`: what a program writes to hand values on.
//!
//! ```text
//! count=3                    JSON where it parses: a number, true, false, null, "text", a list, a map
//! version=1.10               text, because as a number it would lose its last digit (`Value::parse_output`)
//! title=Fix the door         text as it stands, blanks included
//! notes<<END                 text of several lines, never read as JSON, up to a line that is the delimiter alone
//! first line
//! second line
//! END
//! ```
//!
//! Blank lines are skipped, a carriage return before the newline is dropped, and a later line replaces an earlier one of
//! the same key, so that a script may refine what it said. Anything else is an error with its line: a value that is lost
//! quietly would be missed only by the step that needs it. Text that somebody else wrote needs a delimiter that he cannot
//! guess: whoever knows it can end the text and write keys of his own.

use std::collections::BTreeMap;

use crate::value::Value;

/// Longest piece of a bad line that a message repeats, in characters.
const EXCERPT: usize = 60;

/// What is wrong with an output file. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    /// Bytes that are no text.
    #[error("line {line} of the output file is not UTF-8")]
    Encoding {
        /// Where.
        line: usize,
    },
    /// Neither `key=value` nor `key<<DELIMITER`.
    #[error("line {line} of the output file is neither `key=value` nor `key<<DELIMITER`: `{text}`")]
    Form {
        /// Where.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// A key that no expression could name.
    #[error(
        "line {line} of the output file: `{key}` cannot be a key; \
         a key has letters, digits, `_` and `-`, begins with a letter or `_`, and no blank stands around it"
    )]
    Key {
        /// Where.
        line: usize,
        /// Its beginning.
        key: String,
    },
    /// `key<<` without a delimiter.
    #[error("line {line} of the output file: `{key}<<` needs a delimiter, such as `{key}<<END`")]
    Delimiter {
        /// Where.
        line: usize,
        /// Its key.
        key: String,
    },
    /// A text of several lines that does not end.
    #[error("line {line} of the output file: the text of `{key}` has no end; a line `{delimiter}` must follow")]
    Unterminated {
        /// Where it begins.
        line: usize,
        /// Its key.
        key: String,
        /// What is missing.
        delimiter: String,
    },
}

/// Reads an output file; the result is always a [`Value::Map`], and its text carries no taint yet.
///
/// # Errors
/// The first line that cannot be read; nothing of the file counts then.
pub fn parse_outputs(bytes: &[u8]) -> Result<Value, OutputError> {
    let mut values = BTreeMap::new();
    let mut lines = numbered_lines(bytes);
    while let Some((line, text)) = lines.next() {
        let text = text?;
        if text.trim().is_empty() {
            continue;
        }
        let (key, rest) = split_key(line, text)?;
        let value = match rest {
            Rest::Value(value) => Value::parse_output(value),
            Rest::Delimiter(delimiter) => {
                let missing = || OutputError::Unterminated { line, key: key.to_owned(), delimiter: excerpt(delimiter) };
                Value::text(parse_block(&mut lines, delimiter)?.ok_or_else(missing)?)
            }
        };
        values.insert(key.to_owned(), value);
    }
    Ok(Value::Map(values))
}

/// What follows a key.
enum Rest<'a> {
    Value(&'a str),
    Delimiter(&'a str),
}

/// The sign that comes first decides: `a=b<<c` is a value, `a<<b=c` a delimiter.
fn split_key(line: usize, text: &str) -> Result<(&str, Rest<'_>), OutputError> {
    let value = text.split_once('=');
    let block = text.split_once("<<");
    let (key, rest) = match (value, block) {
        (Some((key, _)), Some((block_key, delimiter))) if block_key.len() < key.len() => {
            (block_key, Rest::Delimiter(delimiter.trim()))
        }
        (Some((key, value)), _) => (key, Rest::Value(value)),
        (None, Some((key, delimiter))) => (key, Rest::Delimiter(delimiter.trim())),
        (None, None) => {
            return Err(OutputError::Form { line, text: excerpt(text) });
        }
    };
    if !is_key(key) {
        return Err(OutputError::Key { line, key: excerpt(key) });
    }
    if matches!(rest, Rest::Delimiter("")) {
        return Err(OutputError::Delimiter { line, key: excerpt(key) });
    }
    Ok((key, rest))
}

/// The lines before the delimiter; `None` when it does not come.
fn parse_block<'a>(
    lines: &mut impl Iterator<Item = (usize, Result<&'a str, OutputError>)>,
    delimiter: &str,
) -> Result<Option<String>, OutputError> {
    let mut block: Vec<&str> = Vec::new();
    for (_, text) in lines {
        let text = text?;
        if text == delimiter {
            return Ok(Some(block.join("\n")));
        }
        block.push(text);
    }
    Ok(None)
}

fn numbered_lines(bytes: &[u8]) -> impl Iterator<Item = (usize, Result<&str, OutputError>)> {
    bytes.split(|byte| *byte == b'\n').enumerate().map(|(index, line)| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = std::str::from_utf8(line).map_err(|_| OutputError::Encoding { line: index + 1 });
        (index + 1, text)
    })
}

fn is_key(key: &str) -> bool {
    key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && key.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-')
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(json: &str) -> Result<Value, OutputError> {
        Ok(Value::parse_json(json).unwrap())
    }

    #[test]
    fn output_files_that_are_right() {
        let cases: &[(&[u8], &str)] = &[
            (b"", "{}"),
            (b"\n\r\n  \n", "{}"),
            (b"a=1\nb=true\nc=null\nd=-2.5", r#"{"a":1,"b":true,"c":null,"d":-2.5}"#),
            (b"list=[1,\"x\"]\nmap={\"k\":[]}\n", r#"{"list":[1,"x"],"map":{"k":[]}}"#),
            (b"quoted=\"1.10\"\n", r#"{"quoted":"1.10"}"#),
            (b"title=Fix the door \n", r#"{"title":"Fix the door "}"#),
            (b"empty=\n", r#"{"empty":""}"#),
            (b"crlf=3\r\nnext=x\r\n", r#"{"crlf":3,"next":"x"}"#),
            (b"query=a=b<<c\n", r#"{"query":"a=b<<c"}"#),
            (b"broken=[1,\n", r#"{"broken":"[1,"}"#),
            (b"again=1\nagain=2\n", r#"{"again":2}"#),
            (b"_under-score9=x\n", r#"{"_under-score9":"x"}"#),
            (b"n<<END\none\n\n two=2 \nEND\nm=1\n", r#"{"n":"one\n\n two=2 ","m":1}"#),
            (b"n<<END\r\none\r\ntwo\r\nEND\r\n", r#"{"n":"one\ntwo"}"#),
            (b"n<<END\nEND", r#"{"n":""}"#),
            (b"n<<END\n42\nEND\n", r#"{"n":"42"}"#),
            (b"n<<E=F\nx\nE=F\n", r#"{"n":"x"}"#),
            (b"n<< END\nENDING\nEND\n", r#"{"n":"ENDING"}"#),
        ];
        for (file, wanted) in cases {
            assert_eq!(parse_outputs(file), outputs(wanted), "{}", String::from_utf8_lossy(file));
        }
    }

    #[test]
    fn versions_and_ids_are_never_rounded() {
        for text in
            ["1.10", "00123", "18446744073709551616", "1e5", "+1", "0x10", "-0", "1.0000000000000000001", "1e999"]
        {
            let wanted = Value::Map(BTreeMap::from([("v".to_owned(), Value::text(text))]));
            assert_eq!(parse_outputs(format!("v={text}\n").as_bytes()), Ok(wanted), "{text}");
        }
        let largest = Value::Map(BTreeMap::from([("v".to_owned(), Value::Int(i64::MAX))]));
        assert_eq!(parse_outputs(b"v=9223372036854775807"), Ok(largest));
    }

    #[test]
    fn output_files_that_are_wrong() {
        let form = |line, text: &str| OutputError::Form { line, text: text.to_owned() };
        let key = |line, key: &str| OutputError::Key { line, key: key.to_owned() };
        let cases: &[(&[u8], OutputError)] = &[
            (b"a=1\nno sign\n", form(2, "no sign")),
            (b"=1\n", key(1, "")),
            (b"\n\na b=1\n", key(3, "a b")),
            (b"a =1\n", key(1, "a ")),
            (b"9a=1\n", key(1, "9a")),
            (b"a.b=1\n", key(1, "a.b")),
            (b"\xc3\xa4=1\n", key(1, "\u{e4}")),
            (b"a=1\nb=\xff\n", OutputError::Encoding { line: 2 }),
            (b"b<<END\n\xff\nEND\n", OutputError::Encoding { line: 2 }),
            (b"a<<\nx\n", OutputError::Delimiter { line: 1, key: "a".to_owned() }),
            (
                b"a=1\nb<<END\nx\n END\n",
                OutputError::Unterminated { line: 2, key: "b".to_owned(), delimiter: "END".to_owned() },
            ),
        ];
        for (file, wanted) in cases {
            assert_eq!(parse_outputs(file), Err(wanted.clone()), "{}", String::from_utf8_lossy(file));
        }
        let long = parse_outputs("x".repeat(10_000).as_bytes()).unwrap_err().to_string();
        assert!(long.len() < 200, "{long}");
    }
}
