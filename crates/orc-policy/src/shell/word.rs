//! Words: quotes, variables, substitutions, wildcards, braces.

use super::parse::Parser;
use super::{MAX_BRACES, Piece, Trouble, Word};
use crate::glob::Token;

type Done<T> = Result<T, Trouble>;

impl Parser {
    /// A word, if one begins here.
    pub(super) fn word(&mut self) -> Done<Option<Word>> {
        let from = self.at;
        let mut word = Word::default();
        while let Some(letter) = self.peek() {
            match letter {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' => break,
                '<' | '>' => {
                    if word.pieces.is_empty() && self.peek_at(1) == Some('(') {
                        self.at += 2;
                        self.nested(Self::until_parenthesis)?;
                        // The shell puts the name of a descriptor there.
                        word.add(crate::rule::DESCRIPTORS, true);
                        word.pieces.push(Piece::Wild(Token::Some));
                        continue;
                    }
                    break;
                }
                '(' => {
                    if !self.array(&word)? {
                        break;
                    }
                    word.pieces.push(Piece::Unknown(true));
                }
                _ => self.piece(letter, &mut word)?,
            }
        }
        Ok((self.at > from && !(word.pieces.is_empty())).then_some(word))
    }

    /// Elements of `NAME=(...)`; whether there is one. A pattern like `!(a|b)` is not looked into.
    fn array(&mut self, word: &Word) -> Done<bool> {
        match word.pieces.last() {
            Some(Piece::Text(text, false)) if text.ends_with('=') => {}
            Some(Piece::Wild(_)) => return Err(Trouble::Form("an extended pattern")),
            Some(Piece::Text(text, false)) if text.ends_with(['@', '+', '!']) => {
                return Err(Trouble::Form("an extended pattern"));
            }
            _ => return Ok(false),
        }
        self.at += 1;
        self.nested(|parser| {
            loop {
                parser.skip_lines()?;
                if parser.eat(')') {
                    return Ok(());
                }
                if parser.word()?.is_none() {
                    return Err(parser.unexpected("an array"));
                }
            }
        })?;
        Ok(true)
    }

    fn piece(&mut self, letter: char, word: &mut Word) -> Done<()> {
        match letter {
            '\'' => {
                self.at += 1;
                let text = self.raw_until('\'', "single quotes")?;
                word.add(&text, true);
            }
            '"' => {
                self.at += 1;
                self.double_quoted(word)?;
            }
            '\\' => {
                self.at += 1;
                let escaped = self.raw().unwrap_or('\\');
                word.add(&escaped.to_string(), true);
            }
            '$' => self.dollar(word, false)?,
            '`' => self.backtick(word, false)?,
            '~' if word.may_be_home() => {
                self.at += 1;
                let mut name = String::new();
                while let Some(letter) = self.peek() {
                    if !(letter.is_alphanumeric() || matches!(letter, '-' | '_' | '+' | '.')) {
                        break;
                    }
                    name.push(letter);
                    self.at += 1;
                }
                word.pieces.push(Piece::Home(name));
            }
            '*' | '?' => {
                self.at += 1;
                word.pieces.push(Piece::Wild(if letter == '*' { Token::Some } else { Token::One }));
            }
            '[' => self.set(word),
            '{' | '}' | ',' => {
                self.at += 1;
                word.pieces.push(Piece::Brace(letter));
            }
            _ => {
                self.at += 1;
                word.add(letter.encode_utf8(&mut [0; 4]), false);
            }
        }
        Ok(())
    }

    /// `[abc]` is one unknown character, `[` alone is itself.
    fn set(&mut self, word: &mut Word) {
        let rest = self.rest();
        let end = rest.iter().skip(2).take(64).position(|letter| *letter == ']').map(|at| at + 2);
        let inside = end.map(|end| &rest[1..end]);
        let is_set = inside.is_some_and(|inside| {
            !inside.iter().any(|letter| letter.is_whitespace() || "'\"\\$`;&|<>()/".contains(*letter))
        });
        if let (true, Some(end)) = (is_set, end) {
            self.at += end + 1;
            word.pieces.push(Piece::Wild(Token::One));
        } else {
            self.at += 1;
            word.add("[", false);
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> Done<()> {
        word.add("", true);
        loop {
            match self.peek().ok_or(Trouble::Unfinished("double quotes"))? {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    self.at += 1;
                    match self.peek_raw() {
                        Some(letter @ ('$' | '`' | '"' | '\\')) => {
                            self.at += 1;
                            word.add(letter.encode_utf8(&mut [0; 4]), true);
                        }
                        _ => word.add("\\", true),
                    }
                }
                '$' => self.dollar(word, true)?,
                '`' => self.backtick(word, true)?,
                letter => {
                    self.at += 1;
                    word.add(letter.encode_utf8(&mut [0; 4]), true);
                }
            }
        }
    }

    /// `$` and what is behind it.
    pub(super) fn dollar(&mut self, word: &mut Word, quoted: bool) -> Done<()> {
        self.at += 1;
        match self.peek() {
            Some('(') => {
                self.at += 1;
                self.nested(|parser| {
                    if parser.peek() == Some('(') && parser.arithmetic()? {
                        return Ok(());
                    }
                    parser.until_parenthesis()
                })?;
                word.pieces.push(Piece::Unknown(quoted));
            }
            Some('{') => {
                self.at += 1;
                self.nested(|parser| parser.parameter(word, quoted))?;
            }
            Some('[') => {
                self.at += 1;
                self.nested(|parser| parser.scan_until(']', quoted, "arithmetic"))?;
                word.pieces.push(Piece::Unknown(quoted));
            }
            Some('\'') if !quoted => {
                self.at += 1;
                let text = self.ansi_quoted()?;
                word.add(&text, true);
            }
            Some('"') if !quoted => {
                self.at += 1;
                self.double_quoted(word)?;
            }
            Some(letter) if letter == '_' || letter.is_ascii_alphabetic() => {
                let name = self.name();
                word.pieces.push(Piece::Variable(name, quoted));
            }
            Some('?' | '$' | '#' | '@' | '*' | '!' | '-' | '0'..='9') => {
                self.at += 1;
                word.pieces.push(Piece::Unknown(quoted));
            }
            _ => word.add("$", quoted),
        }
        Ok(())
    }

    /// Letters of a variable's name.
    pub(super) fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(letter) = self.peek() {
            if !(letter == '_' || letter.is_ascii_alphanumeric()) {
                break;
            }
            name.push(letter);
            self.at += 1;
        }
        name
    }

    /// `${...}` behind the brace.
    fn parameter(&mut self, word: &mut Word, quoted: bool) -> Done<()> {
        if matches!(self.peek(), Some(' ' | '\t' | '\n' | '|')) {
            return Err(Trouble::Form("a substitution in braces"));
        }
        let name = self.name();
        if !name.is_empty() && self.eat('}') {
            word.pieces.push(Piece::Variable(name, quoted));
            return Ok(());
        }
        let from = self.at;
        self.scan_until('}', quoted, "a parameter")?;
        // The value is read as a prompt, which runs what stands in it.
        if self.text_between(from, self.at).ends_with("@P}") {
            return Err(Trouble::Form("a value that is read as a prompt"));
        }
        word.pieces.push(Piece::Unknown(quoted));
        Ok(())
    }

    /// Passes over text up to a closing letter; what runs in it is read. In double quotes a single quote is text, but not
    /// everywhere: there it is not guessed.
    fn scan_until(&mut self, end: char, quoted: bool, what: &'static str) -> Done<()> {
        let mut ignored = Word::default();
        loop {
            let letter = self.peek().ok_or(Trouble::Unfinished(what))?;
            if letter == end {
                self.at += 1;
                return Ok(());
            }
            ignored.pieces.clear();
            match letter {
                '\'' if quoted => return Err(Trouble::Form("a quote inside of a parameter")),
                '\'' | '"' | '\\' => self.piece(letter, &mut ignored)?,
                '$' => self.dollar(&mut ignored, quoted)?,
                '`' => self.backtick(&mut ignored, quoted)?,
                _ => self.at += 1,
            }
        }
    }

    /// `((...))`, from the second parenthesis on; whether it is that, and not a shell in a shell. The end is looked for in
    /// the text alone, once, so that nesting costs no more than its depth.
    pub(super) fn arithmetic(&mut self) -> Done<bool> {
        let Some(end) = self.arithmetic_end() else { return Ok(false) };
        self.at += 1;
        let mut ignored = Word::default();
        while self.at < end {
            ignored.pieces.clear();
            match self.peek_raw() {
                Some('$') => self.dollar(&mut ignored, false)?,
                Some('\'' | '"' | '`' | '\\' | '\n') => return Err(Trouble::Form("arithmetic with quotes in it")),
                _ => self.at += 1,
            }
        }
        if self.at != end {
            return Err(Trouble::Form("arithmetic that ends in a substitution"));
        }
        self.at += 2;
        Ok(true)
    }

    /// Where its `))` stands.
    fn arithmetic_end(&self) -> Option<usize> {
        let mut depth = 0_u32;
        for (at, letter) in self.rest().iter().enumerate() {
            match letter {
                '(' => depth += 1,
                ')' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return (self.rest().get(at + 1) == Some(&')')).then_some(self.at + at);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Text in backquotes is a script of its own, without its escapes.
    pub(super) fn backtick(&mut self, word: &mut Word, quoted: bool) -> Done<()> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.raw().ok_or(Trouble::Unfinished("backquotes"))? {
                '`' => break,
                '\\' => match self.raw().ok_or(Trouble::Unfinished("backquotes"))? {
                    letter @ ('`' | '\\' | '$') => text.push(letter),
                    '"' if quoted => text.push('"'),
                    letter => text.extend(['\\', letter]),
                },
                letter => text.push(letter),
            }
        }
        self.inner(&text)?;
        word.pieces.push(Piece::Unknown(quoted));
        Ok(())
    }

    fn ansi_quoted(&mut self) -> Done<String> {
        const OPEN: Trouble = Trouble::Unfinished("quotes");
        let mut text = String::new();
        loop {
            match self.raw().ok_or(OPEN)? {
                '\'' => return Ok(text),
                '\\' => {
                    let letter = self.raw().ok_or(OPEN)?;
                    match letter {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' => text.push('\r'),
                        'a' => text.push('\u{7}'),
                        'b' => text.push('\u{8}'),
                        'e' | 'E' => text.push('\u{1b}'),
                        'f' => text.push('\u{c}'),
                        'v' => text.push('\u{b}'),
                        'x' => self.code(16, 2, &mut text)?,
                        'u' => self.code(16, 4, &mut text)?,
                        'U' => self.code(16, 8, &mut text)?,
                        '0'..='7' => {
                            self.at -= 1;
                            self.code(8, 3, &mut text)?;
                        }
                        'c' => return Err(Trouble::Form("a control character by its letter")),
                        '\\' | '\'' | '"' | '?' => text.push(letter),
                        other => text.extend(['\\', other]),
                    }
                }
                letter => text.push(letter),
            }
        }
    }

    /// A character by its number. One that ends text, or is none, is not guessed.
    fn code(&mut self, radix: u32, digits: usize, text: &mut String) -> Done<()> {
        let mut number = 0_u32;
        for _ in 0..digits {
            let Some(digit) = self.peek_raw().and_then(|letter| letter.to_digit(radix)) else { break };
            number = number.wrapping_mul(radix).wrapping_add(digit);
            self.at += 1;
        }
        // Two hexadecimal digits are a byte, and bytes above 127 are parts of characters.
        let known = char::from_u32(number).filter(|letter| *letter != '\0' && (digits > 3 || number < 0x80));
        text.push(known.ok_or(Trouble::Form("a character by its number"))?);
        Ok(())
    }
}

impl Word {
    fn add(&mut self, text: &str, quoted: bool) {
        match self.pieces.last_mut() {
            Some(Piece::Text(before, was)) if *was == quoted => before.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned(), quoted)),
        }
    }

    /// Whether `~` stands where it means somebody's home: at the start, and behind `=` or `:` of an assignment.
    fn may_be_home(&self) -> bool {
        match self.pieces.last() {
            None => true,
            Some(Piece::Text(text, false)) => text.ends_with(['=', ':']),
            Some(_) => false,
        }
    }

    /// Braces expanded: `a{b,c}` is two words. What is too much, or a range, is unknown.
    #[must_use]
    pub fn expanded(&self) -> Vec<Self> {
        if !self.pieces.iter().any(|piece| matches!(piece, Piece::Brace('{'))) {
            return vec![self.clone().without_braces()];
        }
        let mut words = vec![self.clone()];
        let mut done: Vec<Self> = Vec::new();
        while let Some(word) = words.pop() {
            match word.alternatives() {
                None => done.push(word.without_braces()),
                Some(alternatives) => words.extend(alternatives.into_iter().rev()),
            }
            if words.len() + done.len() > MAX_BRACES {
                return vec![Self { pieces: vec![Piece::Unknown(false)] }];
            }
        }
        done
    }

    /// The words of its first pair of braces that means several.
    fn alternatives(&self) -> Option<Vec<Self>> {
        for (open, _) in self.pieces.iter().enumerate().filter(|(_, piece)| matches!(piece, Piece::Brace('{'))) {
            let (mut depth, mut commas) = (0_u32, Vec::new());
            for (at, piece) in self.pieces.iter().enumerate().skip(open) {
                match piece {
                    Piece::Brace('{') => depth += 1,
                    Piece::Brace(',') if depth == 1 => commas.push(at),
                    Piece::Brace('}') => {
                        depth -= 1;
                        if depth == 0 {
                            if let Some(parts) = self.parts(open, &commas, at) {
                                return Some(parts);
                            }
                            break;
                        }
                    }
                    _ => {}
                }
            }
        }
        None
    }

    fn parts(&self, open: usize, commas: &[usize], close: usize) -> Option<Vec<Self>> {
        let with =
            |middle: &[Piece]| Self { pieces: [&self.pieces[..open], middle, &self.pieces[close + 1..]].concat() };
        if commas.is_empty() {
            let inside = Self { pieces: self.pieces[open + 1..close].to_vec() };
            let is_range = inside.plain().is_some_and(|text| text.contains(".."));
            return is_range.then(|| vec![with(&[Piece::Unknown(true)])]);
        }
        let mut from = open + 1;
        let mut parts = Vec::new();
        for end in commas.iter().copied().chain([close]) {
            parts.push(with(&self.pieces[from..end]));
            from = end + 1;
        }
        Some(parts)
    }

    fn without_braces(self) -> Self {
        let mut word = Self::default();
        for piece in self.pieces {
            match piece {
                Piece::Brace(letter) => word.add(letter.encode_utf8(&mut [0; 4]), false),
                Piece::Text(text, quoted) => word.add(&text, quoted),
                other => word.pieces.push(other),
            }
        }
        word
    }
}
