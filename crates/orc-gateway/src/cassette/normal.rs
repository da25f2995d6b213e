//! Texts without what changes from run to run: ids, dates, times, paths, long numbers.
//!
//! It may leave out too much: a track is known by all that stays. It must never leave out a whole word of language.

/// Fewer characters than this may be a word.
const ID: usize = 16;
/// Hexadecimal digits of a short id; the short names of commits have seven.
const SHORT_ID: usize = 6;
/// Decimals of a time that was measured.
const DECIMALS: usize = 4;
/// Digits of a time in seconds, milliseconds and so on.
const LONG_NUMBER: usize = 9;

/// A text with `<id>`, `<date>`, `<time>`, `<path>` and `<number>` in their places.
pub(super) fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let (taken, word) = if let Some(length) = path(before, rest) {
            (length, Some("<path>"))
        } else if first.is_ascii_alphanumeric() {
            word(rest)
        } else {
            (first.len_utf8(), None)
        };
        normal.push_str(word.unwrap_or(&rest[..taken]));
        before = rest[..taken].chars().next_back().unwrap_or(' ');
        rest = &rest[taken..];
    }
    normal
}

/// The length of an absolute path of two names or more. What follows a name, a `.` or a `:` is part of something else: a
/// relative path, an address.
fn path(before: char, rest: &str) -> Option<usize> {
    if before.is_alphanumeric() || matches!(before, '.' | ':' | '/' | '<' | '_' | '-' | '*') {
        return None;
    }
    let bare = rest.strip_prefix('~').unwrap_or(rest);
    if !bare.starts_with('/') {
        return None;
    }
    let is_in = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.' | '+' | '@' | '%' | '~');
    let end = rest.find(|c| !is_in(c)).unwrap_or(rest.len());
    let end = rest[..end].trim_end_matches('.').len();
    let names = rest[..end].split('/').skip(1).filter(|name| !name.is_empty()).count();
    if names >= 2 { Some(end) } else { None }
}

/// How much of the text is one word, and what stands in its place.
fn word(rest: &str) -> (usize, Option<&'static str>) {
    if let Some(length) = uuid(rest) {
        return (length, Some("<id>"));
    }
    if let Some(length) = date(rest) {
        return (length, Some("<date>"));
    }
    if let Some(length) = time(rest) {
        return (length, Some("<time>"));
    }
    if let Some(length) = decimal(rest) {
        return (length, Some("<number>"));
    }
    let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let word = &rest[..length];
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_hash = length >= SHORT_ID && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let replaced = match () {
        () if digits == length && length >= LONG_NUMBER => Some("<number>"),
        () if digits > 0 && digits < length && (length >= ID || is_hash) => Some("<id>"),
        () => None,
    };
    (length, replaced)
}

fn uuid(rest: &str) -> Option<usize> {
    const LENGTH: usize = 36;
    let text = rest.get(..LENGTH)?;
    let fits = text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    fits.then_some(LENGTH).filter(|_| ends(&rest[LENGTH..]))
}

/// `2026-12-01`, and a time after it where one stands.
fn date(rest: &str) -> Option<usize> {
    let length = shape(rest, "dddd-dd-dd")?;
    let after = &rest[length..];
    let clock = after.strip_prefix(['T', ' ']).and_then(clock);
    match clock {
        Some(clock) => Some(length + 1 + clock),
        None => ends(after).then_some(length),
    }
}

/// `0.0125`.
fn decimal(rest: &str) -> Option<usize> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let whole = digits(rest);
    let decimals = digits(rest[whole..].strip_prefix('.')?);
    let length = whole + 1 + decimals;
    (whole > 0 && decimals >= DECIMALS && ends(&rest[length..])).then_some(length)
}

fn time(rest: &str) -> Option<usize> {
    clock(rest).filter(|length| ends(&rest[*length..]))
}

/// `10:20`, `10:20:30`, `10:20:30.123Z`, `10:20:30+02:00`.
fn clock(rest: &str) -> Option<usize> {
    let Some(seconds) = shape(rest, "dd:dd:dd") else { return shape(rest, "dd:dd") };
    let fraction = rest[seconds..].strip_prefix('.').map_or(0, |after| {
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        if digits > 0 { digits + 1 } else { 0 }
    });
    let so_far = seconds + fraction;
    let after = &rest[so_far..];
    let zone = match after.chars().next() {
        Some('Z') => 1,
        Some('+' | '-') => shape(&after[1..], "dd:dd").map_or(0, |length| length + 1),
        _ => 0,
    };
    Some(so_far + zone)
}

/// The length of `shape`, in which `d` stands for a digit, when the text begins so.
fn shape(text: &str, shape: &str) -> Option<usize> {
    let begin = text.as_bytes().get(..shape.len())?;
    let fits = begin.iter().zip(shape.bytes()).all(|(byte, wanted)| match wanted {
        b'd' => byte.is_ascii_digit(),
        other => *byte == other,
    });
    fits.then_some(shape.len())
}

/// Whether a word ends here.
fn ends(after: &str) -> bool {
    !after.starts_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn what_changes_from_run_to_run_is_left_out_and_words_stay() {
        for (text, wanted) in [
            ("Write a file, deadbeef facade 42 sha256 claude-3-5-haiku-20241022", ""),
            ("see https://example.org/a/b?c=/d and src/a/b.rs, /help or and/or", ""),
            ("cwd /tmp/tmp.aZ1/w, home ~/x/y. `/usr/bin/env`", "cwd <path>, home <path>. `<path>`"),
            ("<cwd>/tmp/a b</cwd>", ""),
            ("id 301b2576-5663-4cb7-85b1-6fff4c918ff3 toolu_01ABCdefGHIjkl2345", "id <id> toolu_<id>"),
            ("run_01h455vb4pex5vsknk084sn02q", "run_<id>"),
            ("commit 80b659c of 2026-12-01", "commit <id> of <date>"),
            ("at 2026-12-01T10:20:30.123Z, 2026-12-01 10:20:30+02:00, 10:20", "at <date>, <date>, <time>"),
            ("Chunk ID: 3de485\nWall time: 0.0125 seconds", "Chunk ID: <id>\nWall time: <number> seconds"),
            ("version 2.1.332 of 0.171.0, 3.14", ""),
            ("1796000000 and 12345678", "<number> and 12345678"),
            ("ünïcode 10:20ü", "ünïcode <time>ü"),
            ("", ""),
        ] {
            let wanted = if wanted.is_empty() { text } else { wanted };
            let wanted = wanted.replace("<cwd>/tmp/a b", "<cwd><path> b");
            assert_eq!(normal(text), wanted);
        }
    }
}
