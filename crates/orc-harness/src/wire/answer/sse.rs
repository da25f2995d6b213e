//! Server-sent events out of bytes as they come.
//!
//! Lines end with CR, LF or both; comments and fields that nobody needs are left out. An event that no empty line ends counts at
//! the end all the same: servers leave that line away. A byte order mark is dropped by whoever looks at the first bytes.

/// More than [`Events::new`] allows came without an end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The state between two pieces.
#[derive(Debug)]
pub(super) struct Events {
    most: usize,
    line: Vec<u8>,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    name: String,
    data: Option<Vec<u8>>,
}

impl Events {
    /// Keeps at most `most` bytes of an event.
    pub(super) const fn new(most: usize) -> Self {
        Self { most, line: Vec::new(), after_cr: false, name: String::new(), data: None }
    }

    /// The events that these bytes complete: their names (empty where none is told) and their data, lines joined by LF. With
    /// [`TooLong`], those before it are told all the same.
    pub(super) fn feed(&mut self, bytes: &[u8], hear: &mut dyn FnMut(&str, &[u8])) -> Result<(), TooLong> {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let after_cr = std::mem::take(&mut self.after_cr);
            match piece.split_last() {
                Some((b'\n', [])) if after_cr => {}
                Some((end @ (b'\n' | b'\r'), text)) => {
                    self.keep(text)?;
                    self.after_cr = *end == b'\r';
                    self.end_line(hear);
                }
                _ => self.keep(piece)?,
            }
        }
        Ok(())
    }

    /// The bytes are over.
    pub(super) fn end(&mut self, hear: &mut dyn FnMut(&str, &[u8])) {
        self.end_line(hear);
        self.end_event(hear);
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + self.data.as_ref().map_or(0, Vec::len) + bytes.len() > self.most {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, hear: &mut dyn FnMut(&str, &[u8])) {
        let line = std::mem::take(&mut self.line);
        let text = line.as_slice();
        if text.is_empty() {
            return self.end_event(hear);
        }
        let (name, value) = match text.iter().position(|byte| *byte == b':') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            _ => {}
        }
    }

    fn end_event(&mut self, hear: &mut dyn FnMut(&str, &[u8])) {
        let name = std::mem::take(&mut self.name);
        if let Some(data) = self.data.take() {
            hear(&name, &data);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heard(most: usize, pieces: &[&[u8]]) -> (Vec<(String, String)>, bool) {
        let mut all = Vec::new();
        let mut hear =
            |name: &str, data: &[u8]| all.push((name.to_owned(), String::from_utf8_lossy(data).into_owned()));
        let mut events = Events::new(most);
        let fed = pieces.iter().all(|piece| events.feed(piece, &mut hear).is_ok());
        if fed {
            events.end(&mut hear);
        }
        (all, fed)
    }

    #[test]
    fn shapes_of_events() {
        let one = |name: &str, data: &str| (name.to_owned(), data.to_owned());
        for (text, wanted) in [
            ("data: a\n\n", vec![one("", "a")]),
            ("data:a\r\rdata:  b\r\r", vec![one("", "a"), one("", " b")]),
            ("event: x\r\ndata: 1\r\ndata: 2\r\n\r\n", vec![one("x", "1\n2")]),
            ("data\ndata:\n\n", vec![one("", "\n")]),
            (": ping\n\nid: 7\nretry: 9\n\n", vec![]),
            ("event: x\n\ndata: a:b\n\n", vec![one("", "a:b")]),
            ("data: last", vec![one("", "last")]),
            ("data: last\r", vec![one("", "last")]),
            ("datas: a\n\n<html>\n", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(heard(100, &[text.as_bytes()]), (wanted, true), "{text:?}");
        }
    }

    #[test]
    fn what_is_too_long_ends_it_wherever_it_is_cut() {
        let text = format!("data: a\n\ndata: {}\n\n", "x".repeat(30));
        assert_eq!(heard(36, &[text.as_bytes()]).0.len(), 2);
        let (whole, by_byte) = (vec![text.as_bytes()], text.as_bytes().chunks(1).collect::<Vec<_>>());
        for pieces in [whole, by_byte] {
            assert_eq!(heard(35, &pieces), (vec![(String::new(), "a".to_owned())], false));
        }
        let many = "data: 0123456789\n".repeat(20);
        assert_eq!(heard(100, &[many.as_bytes()]), (vec![], false));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            lines in prop::collection::vec("(data: ?|event: ?|:|id: |)[a-z]{0,12}(\n|\r|\r\n)", 0..30),
            size in 1..9_usize,
        ) {
            let text = lines.concat();
            let pieces: Vec<_> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(heard(60, &pieces), heard(60, &[text.as_bytes()]));
        }
    }
}
