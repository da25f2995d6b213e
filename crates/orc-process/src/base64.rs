//! RFC 4648, section 4, with padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= group.len() { char::from(ALPHABET[index as usize]) } else { '=' });
        }
    }
    text
}

/// `None` for what `encode` does not make.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.as_bytes().chunks(4) {
        let kept = group.iter().position(|byte| *byte == b'=').unwrap_or(group.len());
        let mut bits = 0_u32;
        for byte in group.iter().take(kept) {
            let value = ALPHABET.iter().position(|known| known == byte)?;
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        bits <<= 6 * (4 - kept);
        bytes.extend_from_slice(&bits.to_be_bytes()[1..kept.max(1)]);
    }
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn of_every_remainder() {
        let cases: [(&[u8], &str); 6] = [
            (b"", ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe\xfd", "//79"),
        ];
        for (bytes, text) in cases {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Some(bytes));
        }
        for broken in ["Z", "Zg", "Zg=", "Zm9v=", "Zh==", "====", "Z===", "Zm9*", "\u{e4}\u{e4}"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
