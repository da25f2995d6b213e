//! Bytes in any pieces to lines, within a fixed memory.

/// Longest line that is kept; a longer one is counted and dropped. Real agent programs write lines of up to 1.05 MB, which
/// hold whole tool results; none of ours does.
pub(crate) const MAX_LINE_BYTES: usize = 1024 * 1024;

/// A line without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// Its length.
    Overlong(u64),
}

/// Splits one stream. LF, CR and CR LF end a line, so that a progress display that only returns is lines too.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The beginning of the unfinished line, empty when that is too long.
    kept: Vec<u8>,
    /// Its length so far.
    length: u64,
    /// The last byte was a CR, so a LF that follows belongs to it.
    after_return: bool,
}

impl Lines {
    /// Takes bytes; tells every line that ends in them.
    pub(crate) fn push(&mut self, bytes: &[u8], mut tell: impl FnMut(Line<'_>)) {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.keep(rest);
                return;
            };
            if self.length == 0 && end <= MAX_LINE_BYTES {
                tell(Line::Whole(&rest[..end]));
            } else {
                self.keep(&rest[..end]);
                self.tell(&mut tell);
            }
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
        }
    }

    /// Tells the line that has no end, if there is one; the stream is over.
    pub(crate) fn finish(&mut self, mut tell: impl FnMut(Line<'_>)) {
        if self.length > 0 {
            self.tell(&mut tell);
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        self.length = self.length.saturating_add(piece.len() as u64);
        if self.length <= MAX_LINE_BYTES as u64 {
            self.kept.extend_from_slice(piece);
        } else {
            self.kept = Vec::new();
        }
    }

    fn tell(&mut self, tell: &mut impl FnMut(Line<'_>)) {
        tell(if self.length <= MAX_LINE_BYTES as u64 { Line::Whole(&self.kept) } else { Line::Overlong(self.length) });
        self.kept.clear();
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut told = Vec::new();
        let mut tell = |line: Line<'_>| {
            told.push(match line {
                Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                Line::Overlong(bytes) => format!("{bytes} bytes"),
            });
        };
        pieces.iter().for_each(|piece| lines.push(piece, &mut tell));
        lines.finish(&mut tell);
        told
    }

    #[test]
    fn every_end_of_a_line_is_one() {
        assert_eq!(told(&[b"a\nb\r\nc\rd"]), ["a", "b", "c", "d"]);
        assert_eq!(told(&[b"a\r", b"\nb\n\n", b"\r\n", b"\r\r"]), ["a", "b", "", "", "", ""]);
        assert_eq!(told(&[b"", b"\n"]), [""]);
        assert_eq!(told(&[b""]), [""; 0]);
        assert_eq!(told(&[b"\r"]), [""]);
        assert_eq!(told(&[b"a", b"", b"b"]), ["ab"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_counted_and_the_next_one_read() {
        let most = vec![b'x'; MAX_LINE_BYTES];
        assert_eq!(told(&[&most, b"\nok"])[1], "ok");
        assert_eq!(told(&[&most, b"\n"])[0].len(), MAX_LINE_BYTES);
        assert_eq!(told(&[&most, b"y\nok\n"]), ["1048577 bytes", "ok"]);
        assert_eq!(told(&[&most, &most, &most]), ["3145728 bytes"]);
        let whole = [most.as_slice(), b"y\n"].concat();
        assert_eq!(told(&[&whole]), ["1048577 bytes"]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 100_000];
        for _ in 0..1000 {
            lines.push(&piece, |_| panic!("no line ends"));
            assert!(lines.kept.capacity() <= 2 * MAX_LINE_BYTES);
        }
    }
}
