//! Takes a key out of what a provider answers, should it ever stand there: in bodies as they stream, and in texts.
//!
//! A key is replaced by as many stars as it has bytes, so that lengths that were told stay true. Only as much of a piece is
//! held back as could be the beginning of the key.

use bytes::Bytes;

/// Anything shorter is no key (local providers take any word) and would take words out of answers.
const LEAST: usize = 8;

/// Takes one key out of a stream of bytes.
#[derive(Clone)]
pub(crate) struct Redactor {
    key: Vec<u8>,
    held: Vec<u8>,
}

impl Redactor {
    pub(crate) fn new(key: &str) -> Self {
        let key = if key.len() < LEAST { "" } else { key };
        Self { key: key.as_bytes().to_vec(), held: Vec::new() }
    }

    /// A whole text without the key.
    pub(crate) fn text(&self, text: &str) -> String {
        if self.key.is_empty() {
            return text.to_owned();
        }
        let key = String::from_utf8_lossy(&self.key);
        text.replace(&*key, &"*".repeat(self.key.len()))
    }

    /// What of a stream may be passed on after its next piece.
    pub(crate) fn push(&mut self, piece: Bytes) -> Bytes {
        let Some(first) = self.key.first() else { return piece };
        if self.held.is_empty() && !piece.contains(first) {
            return piece;
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(&piece);
        self.mask(&mut all);
        let keep = self.begun(&all);
        self.held = all.split_off(all.len() - keep);
        all.into()
    }

    /// What was held back, at the end of a stream.
    pub(crate) fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held).into()
    }

    fn mask(&self, bytes: &mut [u8]) {
        let mut at = 0;
        while let Some(found) = self.find(&bytes[at..]) {
            let end = at + found + self.key.len();
            bytes[at + found..end].fill(b'*');
            at = end;
        }
    }

    fn find(&self, bytes: &[u8]) -> Option<usize> {
        bytes.windows(self.key.len()).position(|window| window == self.key)
    }

    /// How many of the last bytes are the beginning of the key.
    fn begun(&self, bytes: &[u8]) -> usize {
        let most = bytes.len().min(self.key.len() - 1);
        (1..=most).rev().find(|count| bytes.ends_with(&self.key[..*count])).unwrap_or(0)
    }
}

/// Masks words that show parts of a key between stars, as some providers do where they refuse one.
pub(crate) fn mask_hints(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | '-' | '_');
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.contains("**") {
            masked.extend(std::iter::repeat_n('*', word.len()));
        } else {
            masked.push_str(word);
        }
        let next = after.chars().next().map_or(0, char::len_utf8);
        masked.push_str(&after[..next]);
        rest = &after[next..];
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-sk-very-secret";

    fn passed(text: &str, cuts: &[usize]) -> String {
        let mut redactor = Redactor::new(KEY);
        let mut all = Vec::new();
        let mut from = 0;
        for cut in cuts.iter().copied().chain([text.len()]) {
            all.extend_from_slice(&redactor.push(Bytes::copy_from_slice(&text.as_bytes()[from..cut])));
            from = cut;
        }
        all.extend_from_slice(&redactor.finish());
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn a_key_is_found_however_its_stream_is_cut_and_lengths_stay() {
        let text = format!("s sk- sk-sk-sk-very {KEY}{KEY} sk-{KEY}, sk-sk-very-secre");
        let wanted = text.replace(KEY, &"*".repeat(KEY.len()));
        assert!(wanted.contains("sk-***") && wanted.len() == text.len());
        for one in 0..text.len() {
            for other in one..text.len() {
                assert_eq!(passed(&text, &[one, other]), wanted, "{one} {other}");
            }
        }
        let every: Vec<usize> = (0..text.len()).collect();
        assert_eq!(passed(&text, &every), wanted);
    }

    #[test]
    fn nothing_is_held_back_that_is_no_beginning_of_the_key() {
        let mut redactor = Redactor::new(KEY);
        assert_eq!(redactor.push(Bytes::from_static(b"data: s\n\n")), "data: s\n\n");
        assert_eq!(redactor.push(Bytes::from_static(b"data: sk")), "data: ");
        assert_eq!(redactor.push(Bytes::from_static(b"y\n")), "sky\n");
        assert_eq!(redactor.finish(), "");
    }

    #[test]
    fn a_word_that_is_no_key_stays() {
        let mut redactor = Redactor::new("ollama");
        assert_eq!(redactor.push(Bytes::from_static(b"ollama")), "ollama");
        assert_eq!(redactor.text("ollama"), "ollama");
    }

    #[test]
    fn parts_of_a_key_between_stars_are_masked() {
        assert_eq!(
            mask_hints("Incorrect API key provided: sk-ab***********wxyz. See ü **bold**"),
            "Incorrect API key provided: ********************. See ü ********"
        );
    }
}
