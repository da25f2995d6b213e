//! Takes secrets out of output as it comes, in whatever pieces.
//!
//! What might be the beginning of a secret is held back until the next piece tells. Memory is bounded by the longest secret.

use orc_ports::executor::Secrets;

/// What stands in the place of a secret.
const MASK: &[u8] = b"***";

/// One stream of output.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    secrets: Secrets,
    held: Vec<u8>,
}

impl Redactor {
    pub(crate) const fn new(secrets: Secrets) -> Self {
        Self { secrets, held: Vec::new() }
    }

    /// Takes a piece; gives what can be shown of it and of what was held back.
    pub(crate) fn push<'a>(&mut self, bytes: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        if self.secrets.values().is_empty() {
            return bytes.into();
        }
        self.held.extend_from_slice(bytes);
        self.show(false).into()
    }

    /// What is still held back: the stream has ended, so nothing follows it.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.show(true)
    }

    fn show(&mut self, is_end: bool) -> Vec<u8> {
        let (mut shown, mut at) = (Vec::with_capacity(self.held.len()), 0);
        while at < self.held.len() {
            let rest = &self.held[at..];
            let may_become = |secret: &&String| secret.len() > rest.len() && secret.as_bytes().starts_with(rest);
            if !is_end && self.secrets.values().iter().any(|secret| may_become(&secret)) {
                break;
            }
            // The longest comes first, so that one that holds another goes as a whole.
            if let Some(secret) = self.secrets.values().iter().find(|secret| rest.starts_with(secret.as_bytes())) {
                shown.extend_from_slice(MASK);
                at += secret.len();
            } else {
                shown.push(rest[0]);
                at += 1;
            }
        }
        self.held.drain(..at);
        shown
    }
}

/// All of a text at once.
pub(crate) fn redact(secrets: &Secrets, bytes: Vec<u8>) -> Vec<u8> {
    let mut redactor = Redactor::new(secrets.clone());
    let mut shown = redactor.push(&bytes).into_owned();
    shown.extend(redactor.finish());
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secrets(values: &[&str]) -> Secrets {
        Secrets::new(values.iter().map(|value| (*value).to_owned()))
    }

    #[test]
    fn a_secret_goes_whole_and_nothing_else_does() {
        let secrets = secrets(&["hunter2", "hunter2-long", "", "é\n"]);
        let shown = |text: &str| String::from_utf8(redact(&secrets, text.as_bytes().to_vec())).unwrap();
        assert_eq!(shown("a hunter2-long b hunter2 c hunter hunter"), "a *** b *** c hunter hunter");
        assert_eq!(shown("hhunter2é\né"), "h******é");
        assert_eq!(String::from_utf8(redact(&Secrets::default(), b"hunter2".to_vec())).unwrap(), "hunter2");
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in "[ab]{0,60}", cuts in proptest::collection::vec(1_usize..7, 0..30)) {
            let secrets = secrets(&["abba", "ab", "bbb"]);
            let whole = redact(&secrets, text.as_bytes().to_vec());
            let (mut redactor, mut shown, mut rest) = (Redactor::new(secrets), Vec::new(), text.as_bytes());
            for cut in cuts {
                let (piece, later) = rest.split_at(cut.min(rest.len()));
                shown.extend_from_slice(&redactor.push(piece));
                rest = later;
            }
            shown.extend_from_slice(&redactor.push(rest));
            shown.extend(redactor.finish());
            prop_assert_eq!(shown, whole);
        }
    }
}
