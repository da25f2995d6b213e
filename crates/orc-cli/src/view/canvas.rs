//! Lines on a terminal that are drawn again in place.
//!
//! Lines are written over, never cleared as a screen: a terminal may keep a screen that is cleared among the lines that
//! can be scrolled back to, and would keep every drawing. A drawing is one write, so that no half of it is seen.

use std::io::Write;
use std::os::fd::AsFd;

/// A place on a terminal.
#[derive(Debug)]
pub(crate) struct Canvas<S> {
    stream: S,
    drawn_lines: usize,
}

impl<S: Write + AsFd> Canvas<S> {
    /// Where the cursor stands now.
    pub(crate) const fn new(stream: S) -> Self {
        Self { stream, drawn_lines: 0 }
    }

    /// Lines that can be drawn: what is higher than the terminal cannot be written over.
    pub(crate) fn room(&self) -> usize {
        self.size().1.saturating_sub(2).max(1)
    }

    /// Draws `lines` over what was drawn before.
    pub(crate) fn draw(&mut self, lines: &[impl AsRef<str>]) -> std::io::Result<()> {
        let (width, _) = self.size();
        let mut frame = up(self.drawn_lines);
        for line in lines {
            // A line that wraps would make the next drawing write over too little.
            frame.push_str(&cut(line.as_ref(), width));
            frame.push_str("\x1b[K\n");
        }
        frame.push_str("\x1b[J");
        self.drawn_lines = lines.len();
        self.stream.write_all(frame.as_bytes()).and_then(|()| self.stream.flush())
    }

    /// Somebody typed lines below what was drawn.
    pub(crate) const fn typed(&mut self, lines: usize) {
        self.drawn_lines += lines;
    }

    /// Removes what was drawn.
    pub(crate) fn wipe(&mut self) -> std::io::Result<()> {
        let lines = std::mem::take(&mut self.drawn_lines);
        let frame = format!("{}{}{}", up(lines), "\x1b[K\n".repeat(lines), up(lines));
        self.stream.write_all(frame.as_bytes()).and_then(|()| self.stream.flush())
    }

    /// Columns and lines.
    fn size(&self) -> (usize, usize) {
        match rustix::termios::tcgetwinsize(&self.stream) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }
}

/// Moves the cursor up.
fn up(lines: usize) -> String {
    // Zero would be read as one.
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A") }
}

/// The first `width` characters that show; escape sequences do not count.
fn cut(line: &str, width: usize) -> String {
    let (mut shown, mut escape, mut kept) = (0, false, String::with_capacity(line.len()));
    for c in line.chars() {
        match (escape, c) {
            (false, '\x1b') => escape = true,
            (true, 'm') => escape = false,
            (true, _) => {}
            (false, _) if c.is_control() => continue,
            (false, _) => {
                shown += 1;
                if shown > width.saturating_sub(1) {
                    break;
                }
            }
        }
        kept.push(c);
    }
    if kept.contains('\x1b') { kept + "\x1b[0m" } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_written_over_by_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("terminal");
        let mut canvas = Canvas::new(std::fs::File::create(&path).unwrap());
        assert_eq!(canvas.room(), 22, "of a stream whose size nobody knows");
        canvas.draw(&["one", "two"]).unwrap();
        canvas.draw(&["three"]).unwrap();
        canvas.wipe().unwrap();
        let drawn = std::fs::read_to_string(path).unwrap();
        let wanted = ["one\x1b[K\ntwo\x1b[K\n\x1b[J", "\x1b[2Athree\x1b[K\n\x1b[J", "\x1b[1A\x1b[K\n\x1b[1A"];
        assert_eq!(drawn, wanted.concat());
    }

    #[test]
    fn a_line_is_cut_to_what_shows() {
        assert_eq!(cut("abcdef", 4), "abc");
        assert_eq!(cut("\x1b[32m✓\x1b[0m abc", 4), "\x1b[32m✓\x1b[0m a\x1b[0m");
        assert_eq!(cut("evil\rtext\x07", 80), "eviltext");
    }
}
