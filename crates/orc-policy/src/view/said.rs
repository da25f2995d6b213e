//! What `echo` and `printf` say: another command may read it as its text.

use crate::shell::Word;

/// What a command says, when all of it is known.
pub(super) fn said(words: &[Word]) -> Option<String> {
    let (program, rest) = words.split_first()?;
    let words: Vec<String> = rest.iter().map(Word::text).collect::<Option<_>>()?;
    match program.text()?.as_str() {
        "echo" => {
            let is_flag = |word: &&String| {
                word.strip_prefix('-')
                    .is_some_and(|flags| !flags.is_empty() && flags.chars().all(|flag| "neE".contains(flag)))
            };
            let flags = words.iter().take_while(is_flag).count();
            let text = words[flags..].join(" ");
            if words[..flags].iter().any(|flag| flag.contains('e')) { unescaped(&text) } else { Some(text) }
        }
        "printf" => {
            let (format, words) = words.split_first()?;
            formatted(format, words)
        }
        _ => None,
    }
}

/// A format with `%s`, `%b` and `%%`, as often as there are words for it.
fn formatted(format: &str, words: &[String]) -> Option<String> {
    let mut said = String::new();
    let mut left = words.iter();
    loop {
        let before = left.len();
        let mut parts = format.split('%');
        said.push_str(&unescaped(parts.next()?)?);
        // `%%` leaves an empty part between its two signs.
        let mut is_sign = false;
        for part in parts {
            if is_sign {
                said.push_str(&unescaped(part)?);
                is_sign = false;
                continue;
            }
            let mut letters = part.chars();
            match letters.next() {
                None => {
                    said.push('%');
                    is_sign = true;
                    continue;
                }
                Some('s') => said.push_str(left.next().map_or("", String::as_str)),
                Some('b') => said.push_str(&unescaped(left.next().map_or("", String::as_str))?),
                Some(_) => return None,
            }
            said.push_str(&unescaped(letters.as_str())?);
        }
        if left.len() == 0 || left.len() == before {
            return Some(said);
        }
    }
}

/// Text with its escapes done; none when there is one that is not known.
fn unescaped(text: &str) -> Option<String> {
    let mut said = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                'n' => said.push('\n'),
                't' => said.push('\t'),
                '\\' => said.push('\\'),
                _ => return None,
            },
            letter => said.push(letter),
        }
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_known_or_not() {
        for (words, expected) in [
            (&["echo", "rm", "-rf x"][..], Some("rm -rf x")),
            (&["echo", "-n", "-e", "a\\nb"], Some("a\nb")),
            (&["echo", "a\\nb"], Some("a\\nb")),
            (&["printf", "rm %s\\n", "a", "b"], Some("rm a\nrm b\n")),
            (&["printf", "%s\\n", "a\\nb"], Some("a\\nb\n")),
            (&["printf", "%b", "a\\nb"], Some("a\nb")),
            (&["printf", "100%%s"], Some("100%s")),
            (&["printf", "a", "b"], Some("a")),
            (&["printf", "%c", "rm"], None),
            (&["printf", "\\x72m"], None),
            (&["cat", "x"], None),
        ] {
            let words: Vec<Word> = words.iter().map(|word| Word::of(word)).collect();
            assert_eq!(said(&words).as_deref(), expected, "{words:?}");
        }
    }
}
