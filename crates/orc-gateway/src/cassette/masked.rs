//! Known values are not kept: texts, and bodies in pieces, whose lengths stay as they came. Nor is what looks like the token
//! of a run, which a program that looks at its environment tells its model.

use std::collections::VecDeque;

use orc_ports::executor::Secrets;

use crate::token;

/// A text without known values.
pub(super) fn text(secrets: &Secrets, text: &str) -> String {
    let mut shown = text.as_bytes().to_vec();
    mask(secrets, text.as_bytes(), &mut shown);
    // Whole characters are replaced, so nothing is lost here.
    String::from_utf8(shown).unwrap_or_default()
}

/// Pieces without known values. A piece comes out once nothing in it can belong to a value any more.
#[derive(Debug)]
pub(super) struct Masker {
    secrets: Secrets,
    /// As it came: a value may be found that holds one that was found before.
    held: Vec<u8>,
    /// The same, masked.
    shown: Vec<u8>,
    lengths: VecDeque<usize>,
}

impl Masker {
    pub(super) const fn new(secrets: Secrets) -> Self {
        Self { secrets, held: Vec::new(), shown: Vec::new(), lengths: VecDeque::new() }
    }

    /// Takes a piece; gives those that are sure.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        self.held.extend_from_slice(piece);
        self.shown.extend_from_slice(piece);
        self.lengths.push_back(piece.len());
        mask(&self.secrets, &self.held, &mut self.shown);
        let begun = self.secrets.values().iter().map(|secret| begun(&self.held, secret.as_bytes())).max().unwrap_or(0);
        self.take(self.held.len() - begun.max(token_begun(&self.held)))
    }

    /// What was held back, at the end.
    pub(super) fn finish(&mut self) -> Vec<Vec<u8>> {
        self.take(self.held.len())
    }

    fn take(&mut self, sure: usize) -> Vec<Vec<u8>> {
        let (mut pieces, mut end) = (Vec::new(), 0);
        while let Some(length) = self.lengths.front().copied().filter(|length| end + length <= sure) {
            pieces.push(self.shown[end..end + length].to_vec());
            end += length;
            self.lengths.pop_front();
        }
        self.held.drain(..end);
        self.shown.drain(..end);
        pieces
    }
}

/// Puts stars over every value in `bytes`.
fn mask(secrets: &Secrets, bytes: &[u8], shown: &mut [u8]) {
    for secret in secrets.values().iter().map(String::as_bytes) {
        for (at, window) in bytes.windows(secret.len()).enumerate() {
            if window == secret {
                shown[at..at + secret.len()].fill(b'*');
            }
        }
    }
    for (at, window) in bytes.windows(token::BYTES).enumerate() {
        if token::could_begin(window) {
            shown[at..at + token::BYTES].fill(b'*');
        }
    }
}

/// How many of the last bytes could be the beginning of a token.
fn token_begun(bytes: &[u8]) -> usize {
    let most = bytes.len().min(token::BYTES - 1);
    (1..=most).rev().find(|count| token::could_begin(&bytes[bytes.len() - count..])).unwrap_or(0)
}

/// How many of the last bytes are the beginning of a value.
fn begun(bytes: &[u8], secret: &[u8]) -> usize {
    let most = bytes.len().min(secret.len() - 1);
    (1..=most).rev().find(|count| bytes.ends_with(&secret[..*count])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_though_nobody_named_them() {
        let token = format!("{}{}", token::TOKEN_PREFIX, "0af3".repeat(16));
        let whole = format!("KEY={token}, not sk-orc-0af3 and not sk-orc");
        let wanted = format!("KEY={}, not sk-orc-0af3 and not sk-orc", "*".repeat(token.len()));
        assert_eq!(text(&Secrets::default(), &whole), wanted);
        for cut in 0..whole.len() {
            let mut masker = Masker::new(Secrets::default());
            let mut pieces = masker.push(&whole.as_bytes()[..cut]);
            pieces.extend(masker.push(&whole.as_bytes()[cut..]));
            pieces.extend(masker.finish());
            assert_eq!(String::from_utf8(pieces.concat()).unwrap(), wanted, "{cut}");
        }
    }

    #[test]
    fn values_go_and_lengths_stay_wherever_the_pieces_are_cut() {
        let secrets = Secrets::new(["hunter2".to_owned(), "hunter2-long".to_owned()]);
        let whole = "a hunter2-long hunter2 hunter hunter2".as_bytes();
        let wanted = "a ************ ******* hunter *******";
        assert_eq!(text(&secrets, "a hunter2-long hunter2 hunter hunter2"), wanted);
        for one in 0..whole.len() {
            for other in one..whole.len() {
                let cut = [&whole[..one], &whole[one..other], &whole[other..]];
                let mut masker = Masker::new(secrets.clone());
                let mut pieces: Vec<Vec<u8>> = cut.iter().flat_map(|piece| masker.push(piece)).collect();
                pieces.extend(masker.finish());
                assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), cut.map(<[u8]>::len));
                assert_eq!(String::from_utf8(pieces.concat()).unwrap(), wanted, "{one} {other}");
            }
        }
    }
}
