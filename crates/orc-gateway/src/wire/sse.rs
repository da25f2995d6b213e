//! Server-sent events out of bytes as they come, with a bound: an event beyond it is skipped and counted.
//!
//! Lines end with CR, LF or both. An event that no empty line ends counts at the end of the stream all the same: servers
//! leave that line away. A byte order mark is dropped by whoever looks at the first bytes. Nobody waits here for anything.

/// An event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// With data; lines of data are joined by LF.
    Data {
        /// Its name; empty where none is told.
        name: &'a str,
        /// Its data.
        data: &'a [u8],
    },
    /// One beyond the bound.
    Skipped {
        /// Its name, where that was told before it became too large.
        name: &'a str,
    },
}

/// The state between two pieces.
#[derive(Debug)]
pub(super) struct Events {
    bound: usize,
    line: Vec<u8>,
    line_is_empty: bool,
    after_cr: bool,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    is_over: bool,
}

impl Events {
    /// Keeps at most `bound` bytes of an event.
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound,
            line: Vec::new(),
            line_is_empty: true,
            after_cr: false,
            name: String::new(),
            data: Vec::new(),
            has_data: false,
            is_over: false,
        }
    }

    /// Hands every event that these bytes complete to `hear`.
    pub(super) fn feed(&mut self, mut bytes: &[u8], hear: &mut dyn FnMut(Event<'_>)) {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.keep(bytes);
                return;
            };
            self.keep(&bytes[..end]);
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(hear);
        }
    }

    /// The bytes are over.
    pub(super) fn end(&mut self, hear: &mut dyn FnMut(Event<'_>)) {
        self.end_line(hear);
        self.end_event(hear);
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.line_is_empty &= bytes.is_empty();
        if self.line.len() + self.data.len() + bytes.len() > self.bound {
            self.is_over = true;
            self.line = Vec::new();
            self.data = Vec::new();
        }
        if !self.is_over {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, hear: &mut dyn FnMut(Event<'_>)) {
        if std::mem::replace(&mut self.line_is_empty, true) {
            self.end_event(hear);
        } else if let Some(data) = field(&self.line, b"data") {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data);
        } else if let Some(name) = field(&self.line, b"event") {
            self.name = String::from_utf8_lossy(name).into_owned();
        }
        self.line.clear();
    }

    fn end_event(&mut self, hear: &mut dyn FnMut(Event<'_>)) {
        let has_data = std::mem::take(&mut self.has_data);
        if std::mem::take(&mut self.is_over) {
            hear(Event::Skipped { name: &self.name });
        } else if has_data {
            hear(Event::Data { name: &self.name, data: &self.data });
        }
        self.name.clear();
        self.data.clear();
    }
}

/// What a line says of a field.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    if rest.is_empty() {
        return Some(rest);
    }
    let value = rest.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heard(bound: usize, pieces: &[&[u8]]) -> Vec<(String, Option<String>)> {
        let mut all = Vec::new();
        let mut hear = |event: Event<'_>| {
            all.push(match event {
                Event::Data { name, data } => (name.to_owned(), Some(String::from_utf8_lossy(data).into_owned())),
                Event::Skipped { name } => (name.to_owned(), None),
            });
        };
        let mut events = Events::new(bound);
        for piece in pieces {
            events.feed(piece, &mut hear);
        }
        events.end(&mut hear);
        all
    }

    fn data(name: &str, data: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(data.to_owned()))
    }

    #[test]
    fn shapes_of_events() {
        for (text, wanted) in [
            ("data: a\n\n", vec![data("", "a")]),
            ("data:a\r\rdata:  b\r\r", vec![data("", "a"), data("", " b")]),
            ("event: x\r\ndata: 1\r\ndata: 2\r\n\r\n", vec![data("x", "1\n2")]),
            ("data\n\n", vec![data("", "")]),
            ("data:\ndata\n\n", vec![data("", "\n")]),
            (": ping\n\nid: 7\nretry: 9\n\n", vec![]),
            ("event: x\n\ndata: a\n\n", vec![data("", "a")]),
            ("event: a\nevent: b\ndata: c\n\n", vec![data("b", "c")]),
            ("datum: a\ndatas: b\n\n", vec![]),
            ("data: last", vec![data("", "last")]),
            ("data: last\n", vec![data("", "last")]),
            ("", vec![]),
            ("\n\r\n\r\r\n", vec![]),
            ("<html>\n<body>\n\n", vec![]),
        ] {
            assert_eq!(heard(100, &[text.as_bytes()]), wanted, "{text:?}");
        }
    }

    #[test]
    fn an_event_beyond_the_bound_is_skipped_and_the_next_one_is_not() {
        let long = "x".repeat(1000);
        let text = format!("event: long\ndata: {long}\ndata: more\n\nevent: short\ndata: y\n\n");
        assert_eq!(heard(100, &[text.as_bytes()]), [("long".to_owned(), None), data("short", "y")]);
        let many = format!("{}\ndata: y\n\n", "data: 0123456789\n".repeat(20));
        assert_eq!(heard(100, &[many.as_bytes()]), [(String::new(), None), data("", "y")]);
    }

    #[test]
    fn a_line_of_fifty_megabytes_is_not_kept() {
        let mut events = Events::new(1 << 20);
        let mut heard = 0;
        let piece = vec![b'x'; 64 << 10];
        events.feed(b"data: ", &mut |_| heard += 1);
        let mut most = 0;
        for _ in 0..800 {
            events.feed(&piece, &mut |_| heard += 1);
            most = most.max(events.line.capacity() + events.data.capacity());
        }
        assert!(most <= 2 << 20, "{most}");
        events.feed(b"\n\n", &mut |event| heard += usize::from(matches!(event, Event::Skipped { .. })));
        assert_eq!(heard, 1);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            lines in prop::collection::vec("(data: ?|event: ?|:|id: |)[a-z]{0,12}(\n|\r|\r\n)", 0..30),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let text = lines.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([text.len()]) {
                pieces.push(&text.as_bytes()[from..cut]);
                from = cut;
            }
            prop_assert_eq!(heard(40, &pieces), heard(40, &[text.as_bytes()]));
        }
    }
}
