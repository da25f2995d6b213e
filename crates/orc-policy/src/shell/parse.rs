//! Lists, pipes and compound commands. What is read is laid into one list of simple commands as it comes.

use std::collections::BTreeSet;

use super::here::Pending;
use super::{Assign, MAX_DEPTH, Piece, Redirect, RedirectKind, Script, Simple, Trouble, Word};

type Done<T> = Result<T, Trouble>;

/// Reads a text.
#[must_use]
pub fn parse(text: &str) -> Script {
    let mut parser = Parser::new(text, 0);
    let trouble = parser.whole().err();
    Script { commands: parser.commands, functions: parser.functions, trouble }
}

/// Where the reader is, and what it found.
pub(super) struct Parser {
    pub(super) letters: Vec<char>,
    pub(super) at: usize,
    pub(super) depth: usize,
    subshells: usize,
    pub(super) commands: Vec<Simple>,
    pub(super) functions: BTreeSet<String>,
    pub(super) pending: Vec<Pending>,
}

impl Parser {
    pub(super) fn new(text: &str, depth: usize) -> Self {
        Self {
            letters: text.chars().collect(),
            at: 0,
            depth,
            subshells: depth,
            commands: Vec::new(),
            functions: BTreeSet::new(),
            pending: Vec::new(),
        }
    }

    fn whole(&mut self) -> Done<()> {
        self.list(&[])?;
        match self.peek() {
            None => Ok(()),
            Some(letter) => Err(Trouble::Unexpected(letter)),
        }
    }

    /// A script inside of this one that was written as text.
    pub(super) fn inner(&mut self, text: &str) -> Done<()> {
        if self.depth + 1 > MAX_DEPTH {
            return Err(Trouble::Deep);
        }
        let mut inner = Parser::new(text, self.depth + 1);
        let read = inner.whole();
        self.take(inner);
        read
    }

    fn take(&mut self, inner: Self) {
        let from = self.commands.len();
        self.functions.extend(inner.functions);
        self.commands.extend(inner.commands.into_iter().map(|mut command| {
            command.reads_from = command.reads_from.map(|at| at + from);
            command.subshell = true;
            command.span = (self.at, self.at);
            command
        }));
    }

    /// One level deeper.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Done<T>) -> Done<T> {
        if self.depth + 1 > MAX_DEPTH {
            return Err(Trouble::Deep);
        }
        self.depth += 1;
        self.subshells += 1;
        let read = read(self);
        self.depth -= 1;
        self.subshells -= 1;
        read
    }

    /// The same, in this shell.
    fn grouped(&mut self, read: impl FnOnce(&mut Self) -> Done<()>) -> Done<()> {
        self.nested(|parser| {
            parser.subshells -= 1;
            let read = read(parser);
            parser.subshells += 1;
            read
        })
    }

    /// A list up to `)`.
    pub(super) fn until_parenthesis(&mut self) -> Done<()> {
        self.list(&[])?;
        if self.eat(')') { Ok(()) } else { Err(self.unexpected("parentheses")) }
    }

    /// Commands up to one of these words, which is not read, up to `)`, or to the end.
    fn list(&mut self, until: &[&str]) -> Done<()> {
        let mut after_success = false;
        loop {
            self.skip_lines()?;
            if matches!(self.peek(), None | Some(')'))
                || self.peek_reserved().is_some_and(|word| until.contains(&word.as_str()))
            {
                return Ok(());
            }
            if self.peek() == Some(';') && self.peek_at(1) == Some(';') {
                return Ok(());
            }
            let from = self.commands.len();
            self.pipeline(after_success)?;
            self.skip_blank();
            after_success = false;
            match (self.peek(), self.peek_at(1)) {
                (Some('&'), Some('&')) => {
                    self.at += 2;
                    after_success = true;
                }
                (Some('|'), Some('|')) => self.at += 2,
                (Some('&'), _) => {
                    self.at += 1;
                    for command in &mut self.commands[from..] {
                        command.subshell = true;
                    }
                }
                (Some(';'), Some(';')) => return Ok(()),
                (Some(';'), _) => self.at += 1,
                (Some('\n'), _) => {}
                (None | Some(')'), _) => return Ok(()),
                _ if self.peek_reserved().is_some_and(|word| until.contains(&word.as_str())) => return Ok(()),
                (Some(letter), _) => return Err(Trouble::Unexpected(letter)),
            }
        }
    }

    fn pipeline(&mut self, after_success: bool) -> Done<()> {
        loop {
            self.skip_blank();
            match self.peek_reserved().as_deref() {
                Some("!") => self.at += 1,
                Some("time") => {
                    self.reserved();
                    self.skip_blank();
                    while self.peek_reserved().as_deref().is_some_and(|word| matches!(word, "-p" | "--")) {
                        self.reserved();
                        self.skip_blank();
                    }
                }
                _ => break,
            }
        }
        let first = self.commands.len();
        let mut reads_from = None;
        loop {
            let from = self.commands.len();
            self.command()?;
            if let Some(command) = self.commands.get_mut(from) {
                command.after_success = after_success && from == first;
            }
            if reads_from.is_some() {
                for command in &mut self.commands[from..] {
                    command.reads_from = command.reads_from.or(reads_from);
                    command.subshell = true;
                }
            }
            self.skip_blank();
            let width = match (self.peek(), self.peek_at(1)) {
                (Some('|'), Some('|')) | (None, _) => 0,
                (Some('|'), Some('&')) => 2,
                (Some('|'), _) => 1,
                _ => 0,
            };
            if width == 0 {
                return Ok(());
            }
            self.at += width;
            self.skip_lines()?;
            reads_from = self.commands.len().checked_sub(1).or(reads_from);
            for command in &mut self.commands[first..] {
                command.subshell = true;
            }
            if matches!(self.peek(), None | Some('|' | ';' | '&' | ')')) {
                return Err(self.unexpected("a pipe"));
            }
        }
    }

    fn command(&mut self) -> Done<()> {
        self.skip_blank();
        let from = self.commands.len();
        let compound = match self.peek() {
            Some('(') => {
                self.at += 1;
                self.nested(|parser| {
                    if parser.peek() == Some('(') && parser.arithmetic()? {
                        return Ok(());
                    }
                    parser.until_parenthesis()
                })?;
                true
            }
            _ => self.compound()?,
        };
        if compound { self.redirects_of(from) } else { self.simple() }
    }

    /// A command that begins with a reserved word, if it does.
    fn compound(&mut self) -> Done<bool> {
        let Some(word) = self.peek_reserved() else { return Ok(false) };
        match word.as_str() {
            "{" => {
                self.reserved();
                self.grouped(|parser| {
                    parser.list(&["}"])?;
                    parser.expect("}")
                })?;
            }
            "if" => {
                self.reserved();
                self.grouped(Self::branches)?;
            }
            "while" | "until" => {
                self.reserved();
                self.grouped(|parser| {
                    parser.list(&["do"])?;
                    parser.body()
                })?;
            }
            "for" | "select" => {
                self.reserved();
                self.grouped(Self::each)?;
            }
            "case" => {
                self.reserved();
                self.grouped(Self::cases)?;
            }
            "[[" => {
                self.reserved();
                self.grouped(Self::conditional)?;
            }
            "function" => {
                self.reserved();
                self.skip_blank();
                let name =
                    self.word()?.and_then(|word| word.text()).ok_or(Trouble::Form("a function without a name"))?;
                self.skip_blank();
                if self.eat('(') {
                    self.skip_blank();
                    if !self.eat(')') {
                        return Err(self.unexpected("a function"));
                    }
                }
                self.function(name)?;
            }
            "coproc" => {
                self.reserved();
                self.skip_blank();
                let from = self.at;
                let name = self.word()?;
                self.skip_blank();
                let named =
                    name.is_some() && (self.peek() == Some('(') || self.peek_reserved().as_deref() == Some("{"));
                if !named {
                    self.at = from;
                }
                self.nested(Self::command)?;
            }
            "then" | "elif" | "else" | "fi" | "do" | "done" | "esac" | "}" => {
                return Err(Trouble::Form("a reserved word without its beginning"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn branches(&mut self) -> Done<()> {
        self.list(&["then"])?;
        self.expect("then")?;
        loop {
            self.list(&["elif", "else", "fi"])?;
            match self.reserved().as_deref() {
                Some("elif") => {
                    self.list(&["then"])?;
                    self.expect("then")?;
                }
                Some("else") => {}
                Some("fi") => return Ok(()),
                _ => return Err(self.unexpected("`if`")),
            }
        }
    }

    fn body(&mut self) -> Done<()> {
        self.skip_lines()?;
        if self.eat(';') {
            self.skip_lines()?;
        }
        self.expect("do")?;
        self.list(&["done"])?;
        self.expect("done")
    }

    fn each(&mut self) -> Done<()> {
        self.skip_blank();
        if self.peek() == Some('(') && self.peek_at(1) == Some('(') {
            self.at += 1;
            if !self.arithmetic()? {
                return Err(self.unexpected("`for`"));
            }
        } else {
            self.word()?.ok_or_else(|| self.unexpected("`for`"))?;
            self.skip_lines()?;
            if self.peek_reserved().as_deref() == Some("in") {
                self.reserved();
                loop {
                    self.skip_blank();
                    if self.word()?.is_none() {
                        break;
                    }
                }
            }
        }
        self.skip_blank();
        self.eat(';');
        self.skip_lines()?;
        if self.peek_reserved().as_deref() == Some("{") {
            return self.compound().map(|_| ());
        }
        self.body()
    }

    fn cases(&mut self) -> Done<()> {
        self.skip_blank();
        self.word()?.ok_or_else(|| self.unexpected("`case`"))?;
        self.skip_lines()?;
        self.expect("in")?;
        loop {
            self.skip_lines()?;
            if self.peek_reserved().as_deref() == Some("esac") {
                self.reserved();
                return Ok(());
            }
            self.eat('(');
            loop {
                self.skip_blank();
                self.word()?.ok_or_else(|| self.unexpected("`case`"))?;
                self.skip_blank();
                if !self.eat('|') {
                    break;
                }
            }
            if !self.eat(')') {
                return Err(self.unexpected("`case`"));
            }
            self.list(&["esac"])?;
            if self.peek() == Some(';') {
                self.at += 2;
                self.eat('&');
            }
        }
    }

    /// `[[ ... ]]`: a command of its own that runs nothing but what is substituted in it.
    fn conditional(&mut self) -> Done<()> {
        let mut words = vec![Word::of("[[")];
        let from = self.at;
        loop {
            self.skip_lines()?;
            match self.word()? {
                Some(word) if word.plain() == Some("]]") => break,
                Some(word) => words.push(word),
                None if self.peek().is_some() => self.at += 1,
                None => return Err(Trouble::Unfinished("`[[`")),
            }
        }
        self.push(Simple { words, span: (from, self.at), ..Simple::default() });
        Ok(())
    }

    fn function(&mut self, name: String) -> Done<()> {
        self.functions.insert(name);
        self.skip_lines()?;
        let compound = match self.peek() {
            Some('(') => true,
            _ => self.peek_reserved().is_some_and(|word| {
                matches!(word.as_str(), "{" | "if" | "for" | "while" | "until" | "case" | "[[" | "select")
            }),
        };
        if !compound {
            return Err(self.unexpected("a function"));
        }
        self.nested(Self::command)
    }

    /// Redirects behind a compound command: they stand as a command of their own, for they act once.
    fn redirects_of(&mut self, from: usize) -> Done<()> {
        let mut redirects = Vec::new();
        let start = self.at;
        loop {
            self.skip_blank();
            match self.redirect(redirects.len())? {
                Some(redirect) => redirects.push(redirect),
                None => break,
            }
        }
        if !redirects.is_empty() || self.commands.len() == from {
            self.push(Simple { redirects, span: (start, self.at), ..Simple::default() });
        }
        Ok(())
    }

    fn simple(&mut self) -> Done<()> {
        let mut simple = Simple { span: (self.at, self.at), ..Simple::default() };
        loop {
            self.skip_blank();
            if let Some(redirect) = self.redirect(simple.redirects.len())? {
                simple.redirects.push(redirect);
                continue;
            }
            let Some(word) = self.word()? else { break };
            match assign(&word) {
                Some(assign) if simple.words.is_empty() => simple.assigns.push(assign),
                _ => simple.words.extend(word.expanded()),
            }
            simple.span.1 = self.at;
            let is_name = simple.words.len() == 1 && simple.assigns.is_empty() && simple.redirects.is_empty();
            if is_name && self.peek_blank() == Some('(') {
                let name = simple.words[0].text().ok_or(Trouble::Unexpected('('))?;
                self.skip_blank();
                self.at += 1;
                self.skip_blank();
                if !self.eat(')') {
                    return Err(self.unexpected("a function"));
                }
                return self.function(name);
            }
        }
        if simple.words.is_empty() && simple.assigns.is_empty() && simple.redirects.is_empty() {
            return Err(self.unexpected("a command"));
        }
        simple.span.1 = self.at;
        self.push(simple);
        Ok(())
    }

    fn push(&mut self, mut simple: Simple) {
        simple.subshell |= self.subshells > 0;
        let place = self.commands.len();
        for pending in &mut self.pending {
            pending.settle(place);
        }
        self.commands.push(simple);
    }

    fn redirect(&mut self, index: usize) -> Done<Option<Redirect>> {
        let digits = self.rest().iter().take_while(|letter| letter.is_ascii_digit()).count();
        let first = self.peek_at(digits);
        let both = digits == 0 && first == Some('&') && self.peek_at(1) == Some('>');
        if !both && !matches!(first, Some('<' | '>')) {
            return Ok(None);
        }
        if matches!(first, Some('<' | '>')) && digits == 0 && self.peek_at(1) == Some('(') {
            return Ok(None);
        }
        self.at += digits;
        let rest: String = self.rest().iter().take(3).collect();
        let operators = ["<<<", "<<-", "&>>", "<<", "<>", "<&", ">&", ">>", ">|", "&>", "<", ">"];
        let operator = operators.into_iter().find(|operator| rest.starts_with(operator)).unwrap_or(">");
        self.at += operator.len();
        self.skip_blank();
        let mut target = self.word()?.ok_or_else(|| self.unexpected("a redirect"))?;
        if target.expanded().len() > 1 {
            target = Word { pieces: vec![Piece::Unknown(false)] };
        } else {
            target = target.expanded().pop().unwrap_or_default();
        }
        let kind = match operator {
            "<" => RedirectKind::Read,
            "<>" => RedirectKind::ReadWrite,
            "<<<" => RedirectKind::Here,
            "<<" | "<<-" => {
                self.pending.push(Pending::new(&target, operator == "<<-", index)?);
                RedirectKind::Here
            }
            "<&" | ">&" if is_descriptor(&target) => RedirectKind::Descriptor,
            "<&" => RedirectKind::Read,
            _ => RedirectKind::Write,
        };
        Ok(Some(Redirect { kind, target }))
    }
}

fn is_descriptor(word: &Word) -> bool {
    word.text().is_some_and(|text| {
        let digits = text.strip_suffix('-').unwrap_or(&text);
        digits.chars().all(|letter| letter.is_ascii_digit())
    })
}

/// `NAME=value`, `NAME+=value`, `NAME[...]=value`.
fn assign(word: &Word) -> Option<Assign> {
    let Some(Piece::Text(text, false)) = word.pieces.first() else { return None };
    let (name, value) = text.split_once('=')?;
    let plain = name.strip_suffix('+').unwrap_or(name);
    let plain = plain.split_once('[').map_or(plain, |(plain, _)| plain);
    let is_name = plain.starts_with(|letter: char| letter == '_' || letter.is_ascii_alphabetic())
        && plain.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric());
    if !is_name {
        return None;
    }
    let mut pieces = Vec::new();
    if !value.is_empty() {
        pieces.push(Piece::Text(value.to_owned(), false));
    }
    pieces.extend(word.pieces[1..].iter().cloned());
    Some(Assign { name: plain.to_owned(), value: Word { pieces } })
}
