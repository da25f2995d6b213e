//! Words of a command sorted into flags, what belongs to flags, and operands, as the program would.

use super::Arg;
use crate::programs::flags;

/// The words behind the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Flags as they are written, `--x=y` whole.
    pub flags: Vec<Arg>,
    /// The others in order; whether one may belong to the flag before it instead.
    pub operands: Vec<(Arg, bool)>,
    /// Words that belong to a flag, with that flag.
    pub values: Vec<(String, Arg)>,
}

impl Shape {
    /// Sorts words.
    #[must_use]
    pub fn of(program: &str, words: &[Arg]) -> Self {
        let mut shape = Self::default();
        let takes = flags::with_value(program);
        let mut only_operands = false;
        let mut before: Option<String> = None;
        for word in words {
            let text = word.exact();
            let is_flag = !only_operands && word.may_be_flag() && text.as_deref() != Some("-");
            if let Some(flag) = before.take() {
                if takes.contains(&flag.as_str()) {
                    shape.values.push((flag, word.clone()));
                    continue;
                }
                if !is_flag {
                    shape.values.push((flag, word.clone()));
                    shape.operands.push((word.clone(), true));
                    continue;
                }
            }
            if !is_flag {
                shape.operands.push((word.clone(), false));
                continue;
            }
            // What may be a flag or not is both.
            if !matches!(word.glob.tokens().first(), Some(crate::glob::Token::Is('-'))) {
                shape.operands.push((word.clone(), true));
                continue;
            }
            match text.as_deref() {
                Some("--") => only_operands = true,
                Some(flag) => match flag.split_once('=') {
                    Some((name, value)) => shape.values.push((name.to_owned(), Arg::of(value))),
                    None => {
                        before = Some(flag.to_owned());
                        // `-ofile`: the first letter of a bundle takes the rest.
                        let short: String = flag.chars().take(2).collect();
                        if flag.len() > 2 && !flag.starts_with("--") && takes.contains(&short.as_str()) {
                            shape.values.push((short.clone(), word.behind(2)));
                            before = None;
                        }
                    }
                },
                None => {}
            }
            shape.flags.push(word.clone());
        }
        shape
    }

    /// The known text of its flags.
    #[must_use]
    pub fn written(&self) -> Vec<String> {
        self.flags.iter().filter_map(Arg::exact).collect()
    }

    /// The first operand that is no value of a flag.
    #[must_use]
    pub fn subcommand(&self) -> Option<String> {
        self.operands.iter().find(|(_, optional)| !optional).and_then(|(word, _)| word.exact())
    }

    /// Whether one of these flags is there: also in a bundle, also shortened.
    #[must_use]
    pub fn has(&self, program: &str, names: &[&str]) -> bool {
        self.written().iter().any(|flag| names.iter().any(|name| is_same(program, flag, name)))
    }
}

/// Whether a flag as it is written is, or has in it, the flag of this name.
#[must_use]
pub(super) fn is_same(program: &str, written: &str, name: &str) -> bool {
    let plain = written.split_once('=').map_or(written, |(plain, _)| plain);
    if plain == name {
        return true;
    }
    if name.starts_with("--") {
        return plain.len() > 3 && plain.starts_with("--") && name.starts_with(plain);
    }
    let single =
        name.len() == 2 && written.starts_with('-') && !written.starts_with("--") && !flags::is_long_by_one(program);
    single && written[1..].contains(&name[1..])
}
