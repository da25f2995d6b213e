//! Commands that start other ones: which words are whose.

use super::Arg;
use super::command::Reader;
use super::shape::{Shape, is_same};
use crate::glob::{Glob, Token};
use crate::programs::wrappers::{Inner, SHELL, WRAPPERS, Wrapper};
use crate::programs::{self, is_shell};

impl Reader {
    pub(super) fn wrapped(&mut self, place: usize, words: &[Arg], wrapper: Wrapper, layer: usize) {
        let leads = |word: &Arg| {
            let text = word.exact().unwrap_or_default();
            wrapper.flags.iter().any(|flag| is_same(wrapper.words[0], &text, flag))
        };
        let mut plain = wrapper.harmless;
        let at = match wrapper.inner {
            Inner::FlagText => {
                let Some(flag) = words.iter().skip(1).position(leads).map(|at| at + 1) else { return };
                let behind = words[flag].exact().and_then(|flag| Some(Arg::of(flag.split_once('=')?.1)));
                let mut at = flag + 1;
                // A shell reads all of its flags before the text.
                while wrapper == SHELL
                    && words.get(at).and_then(Arg::exact).is_some_and(|word| word.starts_with(['-', '+']))
                {
                    at += 1 + usize::from(words[at].exact().is_some_and(|word| word.ends_with(['o', 'O'])));
                }
                self.text_of(place, behind.as_ref().or_else(|| words.get(at)), layer);
                at
            }
            Inner::FlagWords => {
                let places: Vec<usize> = (1..words.len()).filter(|at| leads(&words[*at])).collect();
                for flag in places {
                    let inner =
                        words[flag + 1..].iter().take_while(|word| !matches!(word.exact().as_deref(), Some(";" | "+")));
                    let inner = inner.map(|word| filled(word, "{}", &found_below(words))).collect();
                    self.inner(place, inner, Vec::new(), layer);
                }
                words.len()
            }
            Inner::EachText | Inner::FirstText => {
                let most = if wrapper.inner == Inner::FirstText { 1 } else { words.len() };
                let plain = |word: &&Arg| word.glob.tokens().first() != Some(&Token::Is('-'));
                for word in words[1..].iter().filter(plain).take(most) {
                    let text = if wrapper.words == ["alias"] { behind_name(word) } else { word.clone() };
                    self.text_of(place, Some(&text), layer);
                }
                words.len()
            }
            Inner::AllText | Inner::Text(_) | Inner::After(_) => {
                let (behind, as_it_is) = self.behind(place, words, &wrapper, layer);
                plain &= as_it_is;
                behind
            }
        };
        let part = &mut self.parts[place];
        part.own_words = at;
        part.harmless = plain && part.opaque.is_none() && !part.inner.is_empty();
    }

    /// What stands behind a wrapper's own words; where it begins, and whether the wrapper adds nothing to it.
    fn behind(&mut self, place: usize, words: &[Arg], wrapper: &Wrapper, layer: usize) -> (usize, bool) {
        // The words that lead to it, wherever flags stand between them.
        let mut at = 1;
        let mut lead = 1;
        while lead < wrapper.words.len() && at < words.len() {
            lead += usize::from(words[at].exact().as_deref() == Some(wrapper.words[lead]));
            at += 1;
        }
        let (skipped, set) = self.skip_flags((words, &mut at), wrapper, place, layer);
        let mut plain = !skipped;
        let left = match wrapper.inner {
            Inner::After(count) | Inner::Text(count) => {
                plain &= words[at.min(words.len())..].iter().take(count).all(|word| word.exact().is_some());
                at + count
            }
            _ => at,
        };
        at = left.min(words.len());
        let mut rest = words[at..].to_vec();
        if wrapper.words == ["xargs"] {
            given(&mut rest, &words[1..at]);
        }
        if matches!(wrapper.inner, Inner::After(_)) {
            self.inner(place, rest, set, layer);
        } else {
            let mut text = Arg::default();
            for (at, word) in rest.iter().enumerate() {
                if at > 0 {
                    text.glob.push(Token::Is(' '));
                }
                text.glob.extend(&word.glob);
                text.wild |= word.exact().is_none();
            }
            if !rest.is_empty() {
                self.text_of(place, Some(&text), layer);
            }
        }
        (at, plain)
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
                    self.text_of(place, words.get(*at), layer);
                }
                *at += 1;
            }
        }
        (odd, set)
    }

    /// Words behind a program that nothing is known about may be a command that it starts. A deny looks at that; it says
    /// nothing of a grant.
    pub(super) fn perhaps(&mut self, words: &[Arg], layer: usize) {
        let known = |word: &Arg| {
            word.exact().is_some_and(|text| programs::is_program(text.rsplit('/').next().unwrap_or_default()))
        };
        let Some(at) = (1..words.len()).find(|at| known(&words[*at])) else { return };
        let from = self.command(words[at..].to_vec(), Vec::new(), layer + 1);
        for part in &mut self.parts[from..] {
            part.perhaps = true;
            if part.shown.is_empty() {
                part.shown = part.words.iter().map(Arg::shown).collect::<Vec<_>>().join(" ");
            }
            for touch in &mut part.touches {
                touch.certain = false;
                touch.path.unknown = true;
            }
        }
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

    /// Text that a shell reads. What is known of it is looked at, also when not all is.
    fn text_of(&mut self, place: usize, text: Option<&Arg>, layer: usize) {
        if let Some(text) = text {
            let inner = self.script(&text.shown(), layer + 1, false);
            self.parts[place].inner.extend(inner);
        }
        if text.and_then(Arg::exact).is_none() {
            self.parts[place].opaque = Some("it runs text that is known only when it runs");
        }
    }
}

/// Words that `xargs` puts behind a command, or in the place of a word of it.
fn given(words: &mut Vec<Arg>, flags: &[Arg]) {
    if words.is_empty() {
        return;
    }
    let known: Vec<String> = flags.iter().filter_map(Arg::exact).collect();
    let mark = known.iter().enumerate().find_map(|(at, flag)| match flag.as_str() {
        "-I" => known.get(at + 1).cloned(),
        "-i" | "--replace" => Some("{}".to_owned()),
        flag => flag.strip_prefix("--replace=").or_else(|| flag.strip_prefix("-I")).map(str::to_owned),
    });
    let unknown = Arg { glob: Glob::any(), splits: mark.is_none(), ..Arg::default() };
    match mark.filter(|mark| !mark.is_empty()) {
        Some(mark) => words.iter_mut().for_each(|word| *word = filled(word, &mark, &unknown)),
        None => words.push(unknown),
    }
}

/// `NAME=text` without its name.
fn behind_name(word: &Arg) -> Arg {
    let at = word.glob.tokens().iter().position(|token| *token == Token::Is('='));
    at.map_or_else(|| word.clone(), |at| word.behind(at + 1))
}

/// What `find` puts in the place of `{}`.
fn found_below(words: &[Arg]) -> Arg {
    let mut from = words[1..].iter().take_while(|word| !word.may_be_flag());
    let mut glob = match (from.next().map(Arg::exact), from.next()) {
        (Some(Some(directory)), None) => Glob::literal(directory.trim_end_matches('/')),
        (None, _) => Glob::literal("."),
        _ => return Arg { glob: Glob::any(), ..Arg::default() },
    };
    glob.push(Token::Is('/'));
    glob.push(Token::Any);
    Arg { glob, ..Arg::default() }
}

/// A word with something in the place of a mark.
fn filled(word: &Arg, mark: &str, by: &Arg) -> Arg {
    let Some(text) = word.exact().filter(|text| text.contains(mark)) else { return word.clone() };
    let mut glob = Glob::default();
    for (at, part) in text.split(mark).enumerate() {
        if at > 0 {
            glob.extend(&by.glob);
        }
        glob.extend(&Glob::literal(part));
    }
    Arg { glob, splits: by.splits, ..Arg::default() }
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
