//! Files as text: encodings, line endings, and what is no text at all.
//!
//! Decoding loses nothing: what is encoded again without a change is the same bytes. Text is matched and shown with `\n` at
//! the ends of lines, whatever ends them in the file; places in it are led back to places in the file, so that an edit
//! changes nothing beside itself.

/// How the characters of a file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Utf8Mark,
    Utf16Little,
    Utf16Big,
    /// What is nothing of the above: each byte is the character of its number.
    Latin1,
}

impl Encoding {
    /// A remark about it, if it is not what is expected.
    pub(super) fn remark(self) -> Option<&'static str> {
        match self {
            Self::Utf8 => None,
            Self::Utf8Mark => Some("UTF-8 with a byte order mark"),
            Self::Utf16Little => Some("UTF-16, little-endian"),
            Self::Utf16Big => Some("UTF-16, big-endian"),
            Self::Latin1 => Some("not UTF-8: each byte is shown as the ISO-8859-1 character of its number"),
        }
    }

    /// Bytes of a text; the character that cannot be written, if there is one.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        Ok(match self {
            Self::Utf8 => text.as_bytes().to_vec(),
            Self::Utf8Mark => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            Self::Utf16Little => units(text).flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Big => units(text).flat_map(u16::to_be_bytes).collect(),
            Self::Latin1 => text.chars().map(|one| u8::try_from(one).map_err(|_| one)).collect::<Result<_, _>>()?,
        })
    }
}

fn units(text: &str) -> impl Iterator<Item = u16> + '_ {
    std::iter::once(0xfeff).chain(text.encode_utf16())
}

/// A file as text.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) encoding: Encoding,
    /// As it is in the file, decoded, without a byte order mark.
    raw: String,
    /// With `\n` for each `\r\n`; none: there is no `\r\n`.
    normal: Option<String>,
    /// Places of those in `normal`, in order.
    breaks: Vec<usize>,
}

/// What is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Binary {
    /// What it seems to be.
    pub(super) kind: &'static str,
}

impl Text {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Binary> {
        let (encoding, raw) = match bytes {
            [0xef, 0xbb, 0xbf, rest @ ..] => (Encoding::Utf8Mark, std::str::from_utf8(rest).ok().map(str::to_owned)),
            [0xff, 0xfe, rest @ ..] => (Encoding::Utf16Little, from_units(rest, u16::from_le_bytes)),
            [0xfe, 0xff, rest @ ..] => (Encoding::Utf16Big, from_units(rest, u16::from_be_bytes)),
            _ => (Encoding::Utf8, std::str::from_utf8(bytes).ok().map(str::to_owned)),
        };
        if let Some(kind) = known_kind(bytes) {
            return Err(Binary { kind });
        }
        match raw {
            Some(raw) if !raw.contains('\0') => Ok(Self::new(encoding, raw)),
            Some(_) => Err(Binary { kind: "binary data" }),
            None if is_binary(bytes) => Err(Binary { kind: "binary data" }),
            None => Ok(Self::new(Encoding::Latin1, bytes.iter().map(|byte| char::from(*byte)).collect())),
        }
    }

    pub(super) fn new(encoding: Encoding, raw: String) -> Self {
        if !raw.contains("\r\n") {
            return Self { encoding, raw, normal: None, breaks: Vec::new() };
        }
        let (mut normal, mut breaks) = (String::with_capacity(raw.len()), Vec::new());
        let mut pieces = raw.split("\r\n");
        normal.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            breaks.push(normal.len());
            normal.push('\n');
            normal.push_str(piece);
        }
        Self { encoding, raw, normal: Some(normal), breaks }
    }

    /// With `\n` at the ends of lines.
    pub(super) fn normal(&self) -> &str {
        self.normal.as_ref().unwrap_or(&self.raw)
    }

    /// What most of its lines end with.
    pub(super) fn ending(&self) -> &'static str {
        if self.breaks.len() * 2 > self.normal().matches('\n').count() { "\r\n" } else { "\n" }
    }

    /// A remark about its line endings, if they are not what is expected.
    pub(super) fn ending_remark(&self) -> Option<&'static str> {
        match self.breaks.len() {
            0 => None,
            some if some == self.normal().matches('\n').count() => Some("its lines end with CRLF"),
            _ => Some("some of its lines end with CRLF, others with LF"),
        }
    }

    /// The text with `new` at places of [`Text::normal`], which come in order and do not overlap. New line ends are like most
    /// others.
    pub(super) fn replace(&self, places: &[std::ops::Range<usize>], new: &str) -> Self {
        let new = with_ending(new, self.ending());
        let mut raw = String::with_capacity(self.raw.len() + new.len());
        let mut at = 0;
        for place in places {
            raw.push_str(&self.raw[at..self.raw_place(place.start)]);
            raw.push_str(&new);
            at = self.raw_place(place.end);
        }
        raw.push_str(&self.raw[at..]);
        Self::new(self.encoding, raw)
    }

    /// A place of [`Text::normal`] in what is in the file: before a whole `\r\n`, never within.
    fn raw_place(&self, place: usize) -> usize {
        place + self.breaks.partition_point(|one| *one < place)
    }

    /// Its bytes; the character that its encoding does not have, if there is one.
    pub(super) fn encode(&self) -> Result<Vec<u8>, char> {
        self.encoding.encode(&self.raw)
    }
}

/// A text with all its lines ending in the same way.
pub(super) fn with_ending(text: &str, ending: &str) -> String {
    let normal = text.replace("\r\n", "\n");
    if ending == "\n" { normal } else { normal.replace('\n', ending) }
}

fn from_units(bytes: &[u8], read: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    char::decode_utf16(pairs.iter().map(|pair| read(*pair))).collect::<Result<_, _>>().ok()
}

/// Whether what is not UTF-8 is not text in any other way either.
fn is_binary(bytes: &[u8]) -> bool {
    let control = bytes.iter().filter(|byte| matches!(byte, 0..=6 | 14..=26 | 28..=31 | 127)).count();
    bytes.contains(&0) || control * 20 > bytes.len()
}

/// First bytes of files that are no text, or are not to be read as such, by their formats' own descriptions.
const KINDS: [(&[u8], &str); 24] = [
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF87a", "a GIF picture"),
    (b"GIF89a", "a GIF picture"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or a document, a jar, a wheel)"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program or library"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    (b"\0asm", "a WebAssembly module"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"wOFF", "a WOFF font"),
    (b"wOF2", "a WOFF2 font"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"!<arch>\n", "an archive of object files"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"\x93NUMPY", "a NumPy array"),
];

/// What a file seems to be by its first bytes, if that is known and no text. What is UTF-8 and has no NUL is text even so,
/// except for documents that only begin like it.
pub(super) fn known_kind(bytes: &[u8]) -> Option<&'static str> {
    let kind = KINDS.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, kind)| *kind).or_else(|| {
        match (bytes.get(..4), bytes.get(8..12), bytes.get(4..8), bytes.get(257..262)) {
            (Some(b"RIFF"), Some(b"WEBP"), ..) => Some("a WebP picture"),
            (Some(b"RIFF"), Some(b"WAVE"), ..) => Some("WAVE audio"),
            (_, _, Some(b"ftyp"), _) => Some("MP4 media"),
            (.., Some(b"ustar")) => Some("a tar archive"),
            _ => None,
        }
    })?;
    let is_text = !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() && !bytes.starts_with(b"%PDF-");
    (!is_text).then_some(kind)
}

/// The first characters of a text, at most so many, and how many there are if that is more.
pub(super) fn cut(text: &str, most: usize) -> (&str, Option<usize>) {
    match text.char_indices().nth(most) {
        Some((place, _)) => (&text[..place], Some(text.chars().count())),
        None => (text, None),
    }
}
