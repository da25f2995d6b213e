//! Patterns of commands: `npm run test *`.
//!
//! For a grant the words of a command are joined by a letter that no word has, and the pattern must cover all of them. For
//! a deny flags have no order, may be bundled, shortened or long, may stand before a subcommand, and what may belong to a
//! flag may also be an operand.

use super::read::Complaint;
use crate::glob::{Glob, Token, fold};
use crate::programs::{self, flags, is_odd, looks, same_flags};
use crate::verdict::Verdict;
use crate::view::{Arg, Part, Shape};

/// Between words, where a command is one text.
const BETWEEN: char = '\u{1f}';
/// For what is not known in a word.
const SOMETHING: char = '\u{1e}';

/// How sure it is that a rule means a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meet {
    /// It does not.
    No,
    /// It may, when something is what is not known.
    Possible,
    /// It does.
    Certain,
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPattern {
    words: Vec<String>,
    /// Anything may follow.
    open: bool,
    /// A word ends in a wildcard that may go on over further words.
    whole: Glob,
}

impl CommandPattern {
    /// Reads one.
    pub(super) fn parse(text: &str, verdict: Verdict) -> Result<Self, Complaint> {
        let mut text = text.trim();
        let mut open = false;
        if let Some(rest) = text.strip_suffix(":*") {
            (text, open) = (rest, true);
        } else if text.contains(":*") && text != ":*" && !text.contains("://") {
            return Err(Complaint {
                what: format!("`:*` stands in the middle of `{text}`"),
                hint: "it means something only at the end; in the middle write `*`".to_owned(),
            });
        }
        while let Some(rest) = text.strip_suffix(" *") {
            (text, open) = (rest.trim_end(), true);
        }
        if text == "*" {
            (text, open) = ("", true);
        }
        if text.is_empty() && !open {
            return Err(Complaint {
                what: "no command stands in the parentheses".to_owned(),
                hint: "write `Bash(npm test *)`".to_owned(),
            });
        }
        let words = words(text);
        // Somebody who denies `git push` means all of it.
        let family = open || verdict != Verdict::Allow;
        let mut whole = Glob::default();
        for (at, word) in words.iter().enumerate() {
            if at > 0 {
                whole.push(Token::Is(BETWEEN));
            }
            whole.extend(&Glob::of_words(word));
        }
        Ok(Self { words, open: family, whole })
    }

    /// Its words.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Words at its start without a wildcard.
    #[must_use]
    pub fn known_words(&self) -> usize {
        self.words.iter().take_while(|word| !word.contains('*')).count()
    }

    /// Whether it covers any command.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether anything may follow its words.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// For a grant: whether it covers this command in every word.
    #[must_use]
    pub fn is(&self, part: &Part, inner_granted: bool) -> bool {
        let Some(first) = part.words.first().and_then(Arg::exact) else { return false };
        if is_odd(&first) {
            return false;
        }
        let starts = !part.inner.is_empty();
        let names_it = self.known_words() > part.own_words || self.is_exactly(part);
        if starts && !names_it && !inner_granted {
            return false;
        }
        let Some(rest) = joined(&part.words[1..]) else { return false };
        let name = part.program().unwrap_or_default();
        if (!starts || !inner_granted) && !self.names_what_turns(&name, part) {
            return false;
        }
        if self.is_any() {
            return true;
        }
        let covers = |first: &str, rest: &str| {
            let text = format!("{first}{rest}");
            self.whole.matches(&text) || (self.open && self.with_more().matches(&text))
        };
        let named = part.is_by_name();
        if covers(&first, &rest) || (named && covers(&name, &rest)) {
            return true;
        }
        let plain = without_globals(&name, &part.words[1..]).filter(|_| named);
        plain.and_then(joined).is_some_and(|rest| covers(&name, &rest))
    }

    fn is_exactly(&self, part: &Part) -> bool {
        !self.open && self.known_words() == self.words.len() && self.words.len() == part.words.len()
    }

    fn with_more(&self) -> Glob {
        let mut whole = self.whole.clone();
        whole.push(Token::Is(BETWEEN));
        whole.push(Token::Any);
        whole
    }

    /// A flag that makes more of a program has to be named.
    fn names_what_turns(&self, name: &str, part: &Part) -> bool {
        if flags::turning(name).is_empty() || self.is_exactly(part) {
            return true;
        }
        let shape = Shape::of(name, &part.words[1..]);
        let written = shape.written();
        let named = |flag: &str| self.words.iter().any(|word| word == flag || word.split('=').next() == Some(flag));
        let plain: Vec<&str> = written.iter().map(String::as_str).filter(|flag| !named(flag)).collect();
        if looks::turned(name, shape.subcommand().as_deref(), &plain).is_some() {
            return false;
        }
        if name == "git" && !self.goes_nowhere_else(&shape) {
            return false;
        }
        // What may become a flag may become that one.
        !part.words[1..].iter().any(|word| word.may_be_flag() && word.exact().is_none() && (word.splits || word.wild))
    }

    /// `git -C DIR`: a grant of the subcommand is for the copy; one that names the flag is for what it names.
    fn goes_nowhere_else(&self, shape: &Shape) -> bool {
        let leaves = |value: &Arg| {
            value.exact().is_none_or(|path| path.starts_with(['/', '~']) || path.split('/').any(|part| part == ".."))
        };
        let named = self.words.iter().any(|word| word == "-C");
        named || !shape.values.iter().any(|(flag, value)| flag == "-C" && leaves(value))
    }

    /// For a deny or a question: whether it could mean this command.
    #[must_use]
    pub fn could_be(&self, part: &Part) -> Meet {
        let Some(first) = self.words.first() else {
            return if part.words.is_empty() && part.assigns.is_empty() && part.touches.is_empty() {
                Meet::No
            } else {
                Meet::Certain
            };
        };
        let Some(text) = part.words.first().and_then(Arg::exact) else {
            return if part.words.is_empty() { Meet::No } else { self.could_be_program(part, first) };
        };
        let name = text.rsplit('/').next().unwrap_or_default();
        let program = Glob::of_words(&fold(first));
        if !program.matches(&fold(name)) && !program.matches(&fold(&text)) {
            return Meet::No;
        }
        if self.words.len() == 1 && self.open {
            return Meet::Certain;
        }
        let shape = Shape::of(name, &part.words[1..]);
        let by_words = self.flags_could_be(name, &shape).min(self.operands_could_be(&shape));
        if by_words == Meet::Certain {
            return by_words;
        }
        let plain = joined(&part.words[1..]).is_some_and(|rest| {
            let text = format!("{name}{rest}");
            self.whole.matches(&text) || (self.open && self.with_more().matches(&text))
        });
        if plain { Meet::Certain } else { by_words }
    }

    /// For a deny or a question: whether a program that nothing is known about may start what it means, because its words say
    /// so.
    #[must_use]
    pub fn could_start(&self, part: &Part) -> Meet {
        let Some(first) = self.words.first().filter(|first| !first.starts_with('*')) else { return Meet::No };
        let unknown = || part.program().is_some_and(|name| !programs::is_settled(&name));
        let program = Glob::of_words(&fold(first));
        let named = |word: &Arg| {
            word.exact().is_some_and(|text| program.matches(&fold(text.rsplit('/').next().unwrap_or_default())))
        };
        let at = part.words.iter().skip(1).position(named).filter(|_| unknown());
        let starts = at.map(|at| Part { words: part.words[at + 1..].to_vec(), ..Part::default() });
        starts.map_or(Meet::No, |part| self.could_be(&part).min(Meet::Possible))
    }

    /// The name of the program is not known: what is known of it fits, or not.
    fn could_be_program(&self, part: &Part, first: &str) -> Meet {
        let fits = part.words[0].glob.meets(&Glob::of_words(first));
        if fits { Meet::Possible } else { Meet::No }
    }

    fn flags_could_be(&self, name: &str, shape: &Shape) -> Meet {
        let mut sum = Meet::Certain;
        let unknown = shape.operands.iter().any(|(word, _)| word.may_be_flag() && word.exact().is_none());
        for wanted in self.words[1..].iter().filter(|word| word.starts_with('-') && word.len() > 1) {
            let there = shape.flags.iter().any(|flag| match flag.exact() {
                Some(flag) => flag_is(name, &flag, wanted, shape),
                None => flag.glob.meets(&Glob::of_words(wanted)),
            });
            let bundle = !there
                && is_bundle(name, wanted)
                && wanted[1..].chars().all(|letter| {
                    shape
                        .flags
                        .iter()
                        .filter_map(Arg::exact)
                        .any(|flag| flag_is(name, &flag, &format!("-{letter}"), shape))
                });
            if !there && !bundle {
                sum = sum.min(if unknown { Meet::Possible } else { Meet::No });
            }
        }
        sum
    }

    fn operands_could_be(&self, shape: &Shape) -> Meet {
        let wanted: Vec<&String> =
            self.words[1..].iter().filter(|word| !(word.starts_with('-') && word.len() > 1)).collect();
        let found: Vec<(&Arg, bool)> = shape.operands.iter().map(|(word, optional)| (word, *optional)).collect();
        // How sure it is that so many wanted words stand in the words so far; words of flags may be passed over.
        let mut row = vec![Meet::No; wanted.len() + 1];
        row[0] = Meet::Certain;
        pass(&mut row, &wanted);
        let mut best = row[wanted.len()];
        for (word, optional) in found {
            let mut next = vec![Meet::No; wanted.len() + 1];
            for at in 0..=wanted.len() {
                if row[at] == Meet::No {
                    continue;
                }
                if optional {
                    next[at] = next[at].max(row[at]);
                }
                let Some(wanted) = wanted.get(at) else { continue };
                if *wanted == "*" {
                    next[at] = next[at].max(row[at]);
                    continue;
                }
                let meet = word_is(word, wanted);
                next[at + 1] = next[at + 1].max(meet.min(row[at]));
                // A word with a wildcard at its end goes on as far as it likes.
                if wanted.ends_with('*') && meet != Meet::No {
                    next[at + 1] = next[at + 1].max(meet.min(row[at]));
                }
            }
            pass(&mut next, &wanted);
            row = next;
            if self.open || wanted.last().is_some_and(|last| last.ends_with('*')) {
                best = best.max(row[wanted.len()]);
            }
        }
        best.max(row[wanted.len()])
    }

    /// Whether a text that could not be read may have it: the name of the program stands in it as a word, and so do the
    /// other words that are known.
    #[must_use]
    pub fn stands_in(&self, text: &str) -> bool {
        let Some(first) = self.words.first() else { return true };
        let text = fold(&text.replace("\\\n", "").replace(['\'', '"', '\\'], ""));
        let apart = |letter: char| letter.is_whitespace() || ";&|()<>{}$`/=!,".contains(letter);
        let found: Vec<&str> = text.split(apart).filter(|word| !word.is_empty()).collect();
        let here = |wanted: &str| {
            let wanted = fold(wanted);
            let name = wanted.rsplit('/').next().unwrap_or_default();
            let glob = Glob::of_words(name);
            found.iter().any(|word| glob.matches(word))
        };
        here(first)
            && self.words[1..].iter().filter(|word| !word.starts_with('-') && *word != "*").all(|word| here(word))
    }

    /// Whether the text of a call is meant as a whole: a rule may be about a pipe.
    #[must_use]
    pub fn is_whole_text(&self, text: &str) -> bool {
        if !self.words.iter().any(|word| matches!(word.as_str(), "|" | "&&" | "||" | ";" | ">" | ">>" | "<" | "&")) {
            return false;
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(&BETWEEN.to_string());
        self.whole.matches(&text) || (self.open && self.with_more().matches(&text))
    }
}

/// Words of git without those before its subcommand that change nothing: the pager, and a directory; that one was looked at
/// by [`CommandPattern::goes_nowhere_else`].
fn without_globals<'a>(name: &str, mut words: &'a [Arg]) -> Option<&'a [Arg]> {
    let before = words.len();
    while name == "git" && !words.is_empty() {
        match words[0].exact()?.as_str() {
            "-C" => words = words.get(2..)?,
            "--no-pager" | "-P" | "--no-optional-locks" => words = &words[1..],
            _ => break,
        }
    }
    (words.len() < before).then_some(words)
}

/// Words that may be nothing are passed over.
fn pass(row: &mut [Meet], wanted: &[&String]) {
    for (at, wanted) in wanted.iter().enumerate() {
        if *wanted == "*" {
            row[at + 1] = row[at + 1].max(row[at]);
        }
    }
}

fn word_is(word: &Arg, wanted: &str) -> Meet {
    let glob = Glob::of_words(wanted);
    match word.exact() {
        Some(text) if glob.matches(&text) => Meet::Certain,
        Some(_) => Meet::No,
        None if word.glob.meets(&glob) => Meet::Possible,
        None => Meet::No,
    }
}

/// Whether a flag as it is written is, or has in it, the one that is wanted; the wanted one may have a wildcard.
fn flag_is(name: &str, flag: &str, wanted: &str, shape: &Shape) -> bool {
    if wanted.contains('*') {
        let glob = Glob::of_words(wanted);
        let start = wanted.trim_end_matches('*');
        let bundled = is_bundle(name, flag) && flag[1..].chars().any(|letter| glob.matches(&format!("-{letter}")));
        return glob.matches(flag)
            || bundled
            || (!start.contains('*') && shortened(flag, start))
            || long_of(name, start).iter().any(|long| shortened(flag, long));
    }
    let same = |wanted: &str| flag == wanted || flag.split('=').next() == Some(wanted) || shortened(flag, wanted);
    if same(wanted) {
        return true;
    }
    let in_bundle = wanted.len() == 2 && is_bundle(name, flag) && flag[1..].contains(&wanted[1..]);
    in_bundle
        || long_of(name, wanted).iter().any(|other| {
            let all = other.split(' ').all(|part| {
                shape.written().iter().any(|flag| {
                    flag == part
                        || shortened(flag, part)
                        || (part.len() == 2 && is_bundle(name, flag) && flag[1..].contains(&part[1..]))
                })
            });
            same(other)
                || (other.contains(' ') && all)
                || (other.len() == 2 && is_bundle(name, flag) && flag[1..].contains(&other[1..]))
        })
}

/// Other spellings of a flag.
fn long_of(name: &str, wanted: &str) -> Vec<&'static str> {
    let groups = same_flags(name).iter().filter(|group| group.contains(&wanted));
    groups.flat_map(|group| group.iter().copied()).filter(|other| *other != wanted).collect()
}

/// `--forc` is `--force`, where a program takes the start of a word.
fn shortened(flag: &str, wanted: &str) -> bool {
    let plain = flag.split('=').next().unwrap_or_default();
    plain.len() > 3 && plain.starts_with("--") && wanted.starts_with(plain)
}

/// `-rf`: letters that are flags of their own.
fn is_bundle(name: &str, flag: &str) -> bool {
    let letters = flag.strip_prefix('-').filter(|rest| !rest.starts_with('-') && !rest.is_empty());
    letters.is_some_and(|letters| letters.len() <= 8 && letters.chars().all(|letter| letter.is_ascii_alphanumeric()))
        && !flags::is_long_by_one(name)
}

/// Words as one text, each with its separator before it. `None` when a word has one of the letters that stand for others.
fn joined(words: &[Arg]) -> Option<String> {
    let mut text = String::new();
    for word in words {
        text.push(BETWEEN);
        let known = word.exact();
        if known.is_some_and(|known| known.contains([BETWEEN, SOMETHING])) {
            return None;
        }
        match word.exact() {
            Some(known) => text.push_str(&known),
            None => {
                let start = word.glob.start();
                if start.contains([BETWEEN, SOMETHING]) {
                    return None;
                }
                text.push_str(&start);
                text.push(SOMETHING);
            }
        }
    }
    Some(text)
}

/// Words of a pattern: apart by blanks, but for those in quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut any) = (String::new(), None, false);
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                any = true;
            }
            (None, letter) if letter.is_whitespace() => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            (_, letter) => word.push(letter),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}
