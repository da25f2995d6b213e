//! Commands that start other ones: which words are whose.

use super::Arg;
use super::command::Reader;
use super::shape::{Shape, is_same};
use crate::programs::is_shell;
use crate::programs::wrappers::{Inner, SHELL, WRAPPERS, Wrapper};

impl Reader {
    pub(super) fn wrapped(&mut self, place: usize, words: &[Arg], wrapper: Wrapper, layer: usize) {
        let mut at = 1;
        let leads = |word: &Arg| {
            let text = word.exact().unwrap_or_default();
            wrapper.flags.iter().any(|flag| is_same(wrapper.words[0], &text, flag))
        };
        let mut plain = wrapper.harmless;
        match wrapper.inner {
            Inner::FlagText => {
                let Some(flag) = words.iter().skip(1).position(leads).map(|at| at + 1) else { return };
                let text = words.get(flag + 1).or_else(|| words.get(flag)).and_then(Arg::exact);
                self.text_of(place, text, layer);
                at = flag + 1;
            }
            Inner::FlagWords => {
                let places: Vec<usize> = (1..words.len()).filter(|at| leads(&words[*at])).collect();
                for flag in places {
                    let inner: Vec<Arg> = words[flag + 1..]
                        .iter()
                        .take_while(|word| !matches!(word.exact().as_deref(), Some(";" | "+")))
                        .cloned()
                        .collect();
                    self.inner(place, inner, Vec::new(), layer);
                }
                at = words.len();
            }
            Inner::AllText | Inner::Text(_) | Inner::After(_) => {
                // The words that lead to it, wherever flags stand between them.
                let mut lead = 1;
                while lead < wrapper.words.len() && at < words.len() {
                    lead += usize::from(words[at].exact().as_deref() == Some(wrapper.words[lead]));
                    at += 1;
                }
                let (skipped, set) = self.skip_flags((words, &mut at), &wrapper, place, layer);
                plain &= !skipped;
                let left = match wrapper.inner {
                    Inner::After(count) | Inner::Text(count) => {
                        plain &= words[at.min(words.len())..].iter().take(count).all(|word| word.exact().is_some());
                        at + count
                    }
                    _ => at,
                };
                at = left.min(words.len());
                let rest = words[at..].to_vec();
                if matches!(wrapper.inner, Inner::After(_)) {
                    self.inner(place, rest, set, layer);
                } else {
                    let text: Option<Vec<String>> = rest.iter().map(Arg::exact).collect();
                    if !rest.is_empty() {
                        self.text_of(place, text.map(|words| words.join(" ")), layer);
                    }
                }
            }
        }
        let part = &mut self.parts[place];
        part.own_words = at;
        part.harmless = plain && part.opaque.is_none() && !part.inner.is_empty();
    }

    /// Flags of a wrapper, and assignments of `env`; whether there was one that a harmless wrapper does not have.
    fn skip_flags(
        &mut self,
        (words, at): (&[Arg], &mut usize),
        wrapper: &Wrapper,
        place: usize,
        layer: usize,
    ) -> (bool, Vec<(String, Arg)>) {
        let mut odd = false;
        let mut set = Vec::new();
        let name = wrapper.words[0];
        while let Some(word) = words.get(*at) {
            let Some(text) = word.exact() else { break };
            if name == "env" && text.contains('=') && !text.starts_with('-') {
                let (variable, value) = text.split_once('=').unwrap_or_default();
                set.push((variable.to_owned(), Arg::of(value)));
                *at += 1;
                continue;
            }
            if text == "--" {
                *at += 1;
                break;
            }
            if !text.starts_with('-') || text == "-" {
                break;
            }
            *at += 1;
            odd |= matches!(name, "env" | "xargs" | "exec") || text == "-v" && name == "command";
            let takes = wrapper.flags.contains(&text.as_str()) && text != "-i"
                || matches!((name, text.as_str()), ("stdbuf", "-i"));
            if takes {
                if matches!(text.as_str(), "-S" | "--split-string") && name == "env" {
                    self.text_of(place, words.get(*at).and_then(Arg::exact), layer);
                }
                *at += 1;
            }
        }
        (odd, set)
    }

    fn inner(&mut self, place: usize, words: Vec<Arg>, set: Vec<(String, Arg)>, layer: usize) {
        if words.is_empty() {
            return;
        }
        let shown = words.iter().map(Arg::shown).collect::<Vec<_>>().join(" ");
        let inner = self.command(words, set, layer + 1);
        self.parts[inner].shown = shown;
        self.parts[place].inner.push(inner);
    }

    pub(super) fn text_of(&mut self, place: usize, text: Option<String>, layer: usize) {
        match text {
            Some(text) => {
                let inner = self.script(&text, layer + 1, false);
                self.parts[place].inner.extend(inner);
            }
            None => self.parts[place].opaque = Some("it runs text that is known only when it runs"),
        }
    }
}

/// The wrapper that a command is, if it is one.
pub(super) fn wrapper(name: &str, shape: &Shape) -> Option<Wrapper> {
    if is_shell(name) {
        return shape
            .flags
            .iter()
            .any(|flag| flag.exact().is_some_and(|flag| is_same(name, &flag, "-c")))
            .then_some(SHELL);
    }
    let behind: Vec<String> = shape.operands.iter().filter_map(|(word, _)| word.exact()).take(4).collect();
    let found = WRAPPERS.iter().filter(|wrapper| wrapper.words[0] == name).filter(|wrapper| {
        let mut left = behind.iter();
        wrapper.words[1..].iter().all(|word| left.any(|behind| behind == word))
    });
    found.max_by_key(|wrapper| wrapper.words.len()).copied()
}
