//! What a program shows as its key: 256 random bits, worth nothing but calls of its run.

use std::hint::black_box;

/// What every token begins with: some programs want a key that looks like one of their provider.
pub const TOKEN_PREFIX: &str = "sk-orc-";

/// Hexadecimal digits after that.
const DIGITS: usize = 64;
/// Bytes of every token.
pub(crate) const BYTES: usize = TOKEN_PREFIX.len() + DIGITS;

/// Whether so many bytes could be the beginning of a token; of [`BYTES`] bytes, whether they could be one.
pub(crate) fn could_begin(bytes: &[u8]) -> bool {
    let prefix = TOKEN_PREFIX.as_bytes();
    let fits = |(at, byte): (usize, &u8)| match prefix.get(at) {
        Some(wanted) => byte == wanted,
        None => byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'),
    };
    bytes.len() <= BYTES && bytes.iter().enumerate().all(fits)
}

/// A token. It is never shown, but to the run that it is for.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// A fresh one; none when the system has no random bits.
    pub(crate) fn draw() -> Option<Self> {
        let mut bytes = [0_u8; DIGITS / 2];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        Some(Self(std::iter::once(TOKEN_PREFIX.to_owned()).chain(digits).collect()))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether a text is it; how long that takes says nothing about where it differs.
    pub(crate) fn is(&self, text: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), text.as_bytes());
        let differs = ours.iter().zip(theirs).fold(0, |differs, (one, other)| black_box(differs | (one ^ other)));
        ours.len() == theirs.len() && differs == 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_token_is_itself_alone_and_has_256_bits() {
        let token = Token::draw().unwrap();
        let text = token.expose().to_owned();
        assert!(text.len() == BYTES && could_begin(text.as_bytes()) && !could_begin(b"sk-ant-"), "{text}");
        assert_eq!(text.len(), "sk-orc-".len() + 64);
        assert!(token.is(&text) && !token.is("") && !token.is(&text[1..]) && !token.is(&format!("{text}0")));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] ^= 1;
            assert!(!token.is(std::str::from_utf8(&other).unwrap()));
        }
        let drawn: BTreeSet<String> = (0..100).map(|_| Token::draw().unwrap().expose().to_owned()).collect();
        assert_eq!(drawn.len(), 100);
    }
}
