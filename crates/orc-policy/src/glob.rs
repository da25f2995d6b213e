//! Patterns of text, and what may meet what. A text that is known is a pattern without wildcards, so a path, a word with a
//! shell's wildcards and a rule are all the same kind of value and meet by one function.
//!
//! Time is bounded by the product of both lengths; nothing here recurses.

/// Tokens of a pattern at most: what is longer is not compared, it meets everything.
const MAX_TOKENS: usize = 8_192;

/// One token of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// This character.
    Is(char),
    /// One character, but `/`.
    One,
    /// Any characters, but `/`.
    Some,
    /// Any characters.
    Any,
}

/// Tokens in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glob {
    tokens: Vec<Token>,
}

impl Glob {
    /// A text as it is.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Self { tokens: text.chars().map(Token::Is).collect() }
    }

    /// Everything.
    #[must_use]
    pub fn any() -> Self {
        Self { tokens: vec![Token::Any] }
    }

    /// A pattern of words: `*` is any text, `\*` a star.
    #[must_use]
    pub fn of_words(text: &str) -> Self {
        let mut glob = Self::default();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '*' => glob.push(Token::Any),
                '\\' if matches!(letters.peek(), Some('*' | '\\')) => {
                    glob.push(Token::Is(letters.next().unwrap_or('\\')))
                }
                other => glob.push(Token::Is(other)),
            }
        }
        glob
    }

    /// A pattern of paths: `*` and `?` stop at `/`, `**` does not.
    #[must_use]
    pub fn of_path(text: &str) -> Self {
        let mut glob = Self::default();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '*' if letters.peek() == Some(&'*') => {
                    letters.next();
                    glob.push(Token::Any);
                }
                '*' => glob.push(Token::Some),
                '?' => glob.push(Token::One),
                '[' => {
                    // A set is read as any one character: it covers what the set covers.
                    let rest: String = letters.clone().collect();
                    match rest.char_indices().skip(1).find(|(_, letter)| *letter == ']') {
                        Some((at, _)) if !rest[..at].contains('/') => {
                            for _ in rest[..=at].chars() {
                                letters.next();
                            }
                            glob.push(Token::One);
                        }
                        _ => glob.push(Token::Is('[')),
                    }
                }
                '\\' if letters.peek().is_some() => glob.push(Token::Is(letters.next().unwrap_or('\\'))),
                other => glob.push(Token::Is(other)),
            }
        }
        glob
    }

    /// One more token.
    pub fn push(&mut self, token: Token) {
        let wide = |token: &Token| matches!(token, Token::Some | Token::Any);
        match self.tokens.last_mut() {
            Some(last) if wide(last) && wide(&token) => {
                if token == Token::Any {
                    *last = Token::Any;
                }
            }
            _ => self.tokens.push(token),
        }
    }

    /// The text of it, and then that of another.
    pub fn extend(&mut self, other: &Self) {
        for token in &other.tokens {
            self.push(*token);
        }
    }

    /// Its tokens.
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The one text that it is, if there are no wildcards in it.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        self.tokens
            .iter()
            .map(|token| match token {
                Token::Is(letter) => Some(*letter),
                _ => None,
            })
            .collect()
    }

    /// Whether there is nothing in it but what is known.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.tokens.iter().all(|token| matches!(token, Token::Is(_)))
    }

    /// The characters before the first wildcard.
    #[must_use]
    pub fn start(&self) -> String {
        self.tokens
            .iter()
            .map_while(|token| match token {
                Token::Is(letter) => Some(*letter),
                _ => None,
            })
            .collect()
    }

    /// In one form of letters: composed, and without case. What a deny compares.
    #[must_use]
    pub fn folded(&self) -> Self {
        let mut folded = Self::default();
        let mut known = String::new();
        for token in &self.tokens {
            match token {
                Token::Is(letter) => known.push(*letter),
                wild => {
                    folded.extend(&Self::literal(&fold(&known)));
                    known.clear();
                    folded.push(*wild);
                }
            }
        }
        folded.extend(&Self::literal(&fold(&known)));
        folded
    }

    /// Whether this text is one of those that it stands for.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        matches(&self.tokens, &text.chars().collect::<Vec<_>>())
    }

    /// Whether there is a text that both stand for.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        if self.tokens.len() > MAX_TOKENS || other.tokens.len() > MAX_TOKENS {
            return true;
        }
        meets(&self.tokens, &other.tokens)
    }
}

/// Composed letters without case; names that some file systems take for the same are the same.
#[must_use]
pub fn fold(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization as _;
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.nfc().flat_map(char::to_lowercase).nfc().collect()
}

/// With one place to go back to: the last wildcard decides, as in any pattern without alternatives. `Some` does not pass a
/// `/`, so the last `Any` is remembered beside it.
fn matches(pattern: &[Token], text: &[char]) -> bool {
    let (mut at, mut here) = (0, 0);
    let mut any: Option<(usize, usize)> = None;
    let mut some: Option<(usize, usize)> = None;
    loop {
        let taken = match pattern.get(at) {
            Some(Token::Any) => {
                any = Some((at, here));
                some = None;
                at += 1;
                continue;
            }
            Some(Token::Some) => {
                some = Some((at, here));
                at += 1;
                continue;
            }
            Some(Token::One) => text.get(here).is_some_and(|letter| *letter != '/'),
            Some(Token::Is(letter)) => text.get(here) == Some(letter),
            None if here == text.len() => return true,
            None => false,
        };
        if taken {
            at += 1;
            here += 1;
            continue;
        }
        // Back to the nearest wildcard that can take one more.
        match (some, any) {
            (Some((star, from)), _) if text.get(from).is_some_and(|letter| *letter != '/') => {
                some = Some((star, from + 1));
                at = star + 1;
                here = from + 1;
            }
            (_, Some((star, from))) if from < text.len() => {
                any = Some((star, from + 1));
                some = None;
                at = star + 1;
                here = from + 1;
            }
            _ => return false,
        }
    }
}

/// Both patterns walk together; a row of the table is what may stand after the tokens of the first that were read.
fn meets(first: &[Token], second: &[Token]) -> bool {
    let width = second.len() + 1;
    // `row[j]`: the first `i` tokens of one and the first `j` of the other may have read the same text.
    let mut row = vec![false; width];
    row[0] = true;
    for j in 1..width {
        row[j] = row[j - 1] && is_wide(second[j - 1]);
    }
    for token in first {
        let mut next = vec![false; width];
        next[0] = row[0] && is_wide(*token);
        let mut alive = next[0];
        for j in 1..width {
            let other = second[j - 1];
            let met = if is_wide(*token) {
                row[j] || (next[j - 1] && may_read(*token, other))
            } else {
                row[j - 1] && may_be(*token, other)
            } || if is_wide(other) { next[j - 1] || (row[j] && may_read(other, *token)) } else { false };
            next[j] = met;
            alive |= met;
        }
        if !alive {
            return false;
        }
        row = next;
    }
    row[width - 1]
}

const fn is_wide(token: Token) -> bool {
    matches!(token, Token::Some | Token::Any)
}

/// Whether a wide token may read a character of the other.
const fn may_read(wide: Token, other: Token) -> bool {
    !matches!((wide, other), (Token::Some, Token::Is('/')))
}

/// Whether two narrow tokens, or one narrow and one wide, may be the same character.
fn may_be(one: Token, other: Token) -> bool {
    match (one, other) {
        (Token::Is(one), Token::Is(other)) => one == other,
        (Token::Is(letter), Token::One | Token::Some) | (Token::One | Token::Some, Token::Is(letter)) => letter != '/',
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_stop_at_slashes_and_words_do_not() {
        for (pattern, text, expected) in [
            ("src/*", "src/a", true),
            ("src/*", "src/a/b", false),
            ("src/**", "src/a/b", true),
            ("**/.env*", "a/b/.env.local", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("[ab]x", "bx", true),
            ("x[", "x[", true),
            ("*/b/*", "a/b/c", true),
            ("**/b/*c", "x/b/y/b/zc", true),
        ] {
            assert_eq!(Glob::of_path(pattern).matches(text), expected, "{pattern} {text}");
        }
        assert!(Glob::of_words("git * main").matches("git push origin/x main"));
        assert!(Glob::of_words("a\\*").matches("a*"));
        assert!(!Glob::of_words("a\\*").matches("ab"));
    }

    #[test]
    fn patterns_meet_where_a_text_fits_both() {
        for (one, other, expected) in [
            (".e*", ".env", true),
            ("*", ".env", true),
            ("a*c", "ab*", true),
            ("a*c", "b*", false),
            ("src/*", "src/a/b", false),
            ("src/**", "src/a/*", true),
            ("*/x", "a/b/x", false),
            ("**", "a/b", true),
        ] {
            assert_eq!(Glob::of_path(one).meets(&Glob::of_path(other)), expected, "{one} {other}");
            assert_eq!(Glob::of_path(other).meets(&Glob::of_path(one)), expected, "{other} {one}");
        }
    }

    #[test]
    fn letters_have_one_form() {
        assert_eq!(fold("se\u{301}cret"), fold("s\u{e9}cret"));
        assert_eq!(fold("SECRET"), "secret");
        assert_eq!(Glob::of_path("S*\u{c9}").folded(), Glob::of_path("s*\u{e9}"));
    }

    proptest! {
        #[test]
        fn what_matches_meets(pattern in "[ab/*?]{0,8}", text in "[ab/]{0,8}") {
            let pattern = Glob::of_path(&pattern);
            prop_assert_eq!(pattern.matches(&text), pattern.meets(&Glob::literal(&text)));
        }

        #[test]
        fn meeting_has_no_order(one in "[ab/*?]{0,7}", other in "[ab/*?]{0,7}") {
            let (one, other) = (Glob::of_path(&one), Glob::of_path(&other));
            prop_assert_eq!(one.meets(&other), other.meets(&one));
        }
    }
}
