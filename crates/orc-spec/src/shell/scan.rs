//! Where in a shell script the next character stands: quotes, comments, here-documents, nesting, words of the command.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::str::Chars;

/// What surrounds a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unquoted,
    /// Double quotes, or a here-document that expands.
    Quoted,
    SingleQuoted,
    RawHeredoc,
    Arithmetic,
    Comment,
    /// Right after a `\`, a `$` or `${`.
    Escaped,
}

#[derive(Debug)]
enum Frame {
    /// Commands: the script itself, `$( )` with its open parentheses, or backticks.
    Commands {
        close: Close,
        words: Vec<String>,
        word: Option<String>,
    },
    /// `${ }`; within double quotes or not.
    Braces {
        quoted: bool,
    },
    Double,
    Single,
    /// `$'...'`
    Ansi,
    Arithmetic {
        open: usize,
    },
    Comment,
    Heredoc {
        heredoc: Heredoc,
        line: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    Never,
    Paren { open: usize },
    Backtick,
}

#[derive(Clone, Debug)]
struct Heredoc {
    delimiter: String,
    raw: bool,
    strip_tabs: bool,
}

pub(super) struct Scanner {
    frames: Vec<Frame>,
    heredocs: VecDeque<Heredoc>,
    /// A backslash stands right before.
    escaped: bool,
    /// A `$` or `${` stands right before.
    glued: bool,
}

type Input<'a> = Peekable<Chars<'a>>;

fn commands(close: Close) -> Frame {
    Frame::Commands { close, words: Vec::new(), word: None }
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self { frames: vec![commands(Close::Never)], heredocs: VecDeque::new(), escaped: false, glued: false }
    }

    pub(super) fn place(&self) -> Place {
        let place = self.frames.last().map_or(Place::Unquoted, |frame| match frame {
            Frame::Commands { .. } | Frame::Braces { quoted: false } => Place::Unquoted,
            Frame::Braces { quoted: true } | Frame::Double => Place::Quoted,
            Frame::Single | Frame::Ansi => Place::SingleQuoted,
            Frame::Arithmetic { .. } => Place::Arithmetic,
            Frame::Comment => Place::Comment,
            Frame::Heredoc { heredoc, .. } if heredoc.raw => Place::RawHeredoc,
            Frame::Heredoc { .. } => Place::Quoted,
        });
        if (self.escaped || self.glued) && matches!(place, Place::Unquoted | Place::Quoted) {
            Place::Escaped
        } else {
            place
        }
    }

    /// The program of the current command that would read the next word as code.
    pub(super) fn reevaluates(&self) -> Option<&str> {
        const INTERPRETERS: [&str; 10] =
            ["sh", "bash", "dash", "zsh", "ksh", "python", "python3", "perl", "ruby", "node"];
        let words = self.frames.iter().rev().find_map(|frame| match frame {
            Frame::Commands { words, .. } => Some(words),
            _ => None,
        })?;
        if words.iter().any(|word| word == "eval") {
            return Some("eval");
        }
        let (flag, earlier) = words.split_last()?;
        let takes_code = flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with(['c', 'e']);
        let program = earlier.iter().find(|word| {
            let name = word.rsplit('/').next().unwrap_or(word);
            INTERPRETERS.contains(&name)
        })?;
        takes_code.then_some(program.as_str())
    }

    /// The reference to a variable that stands for an expression.
    pub(super) fn feed_reference(&mut self) {
        self.escaped = false;
        self.glued = false;
        match self.frames.last_mut() {
            Some(Frame::Heredoc { line, .. }) => line.push('$'),
            Some(Frame::Comment) => {}
            _ => self.add_to_word('$'),
        }
    }

    pub(super) fn feed(&mut self, text: &str) {
        let mut input = text.chars().peekable();
        while let Some(char) = input.next() {
            self.glued = false;
            if std::mem::take(&mut self.escaped) {
                self.add_to_word(char);
            } else {
                self.step(char, &mut input);
            }
        }
    }

    fn step(&mut self, char: char, input: &mut Input<'_>) {
        match self.frames.last_mut() {
            Some(Frame::Single) => self.close_or_add(char, '\''),
            Some(Frame::Ansi) if char == '\\' => self.escaped = true,
            Some(Frame::Ansi) => self.close_or_add(char, '\''),
            Some(Frame::Comment) if char == '\n' => {
                self.frames.pop();
                self.newline();
            }
            Some(Frame::Comment) => {}
            Some(Frame::Heredoc { .. }) => self.heredoc(char),
            Some(Frame::Arithmetic { open }) => match (char, *open) {
                ('(', _) => *open += 1,
                (')', 0) => {
                    if input.peek() == Some(&')') {
                        input.next();
                    }
                    self.frames.pop();
                }
                (')', _) => *open -= 1,
                _ => {}
            },
            Some(Frame::Double) => self.double(char, input),
            Some(Frame::Braces { quoted }) => {
                let quoted = *quoted;
                match char {
                    '}' => {
                        self.frames.pop();
                    }
                    '\'' if !quoted => self.frames.push(Frame::Single),
                    '"' => self.frames.push(Frame::Double),
                    _ => self.expansion(char, input, quoted),
                }
            }
            Some(Frame::Commands { .. }) | None => self.command(char, input),
        }
    }

    fn close_or_add(&mut self, char: char, close: char) {
        if char == close {
            self.frames.pop();
        } else {
            self.add_to_word(char);
        }
    }

    fn double(&mut self, char: char, input: &mut Input<'_>) {
        if char == '"' {
            self.frames.pop();
        } else {
            self.expansion(char, input, true);
        }
    }

    /// What expands both outside and inside of double quotes.
    fn expansion(&mut self, char: char, input: &mut Input<'_>, quoted: bool) {
        match (char, input.peek()) {
            ('\\', _) => self.escaped = true,
            ('`', _) => self.frames.push(commands(Close::Backtick)),
            ('$', Some('(')) => {
                input.next();
                self.begin_word();
                if input.peek() == Some(&'(') {
                    input.next();
                    self.frames.push(Frame::Arithmetic { open: 0 });
                } else {
                    self.frames.push(commands(Close::Paren { open: 0 }));
                }
            }
            ('$', Some('{')) => {
                input.next();
                self.begin_word();
                self.frames.push(Frame::Braces { quoted });
                self.glued = true;
            }
            ('$', None) => self.glued = true,
            _ => self.add_to_word(char),
        }
    }

    fn command(&mut self, char: char, input: &mut Input<'_>) {
        let at_word_start = matches!(self.frames.last(), Some(Frame::Commands { word: None, .. }));
        match char {
            '\n' => self.newline(),
            ' ' | '\t' | '\r' => self.end_word(),
            '#' if at_word_start => self.frames.push(Frame::Comment),
            '\'' => self.open_quote(Frame::Single),
            '"' => self.open_quote(Frame::Double),
            '$' if input.peek() == Some(&'\'') => {
                input.next();
                self.open_quote(Frame::Ansi);
            }
            '`' if self.closes_backtick() => {
                self.frames.pop();
            }
            '(' if at_word_start && input.peek() == Some(&'(') => {
                input.next();
                self.frames.push(Frame::Arithmetic { open: 0 });
            }
            '<' if input.peek() == Some(&'<') => {
                input.next();
                self.redirection(input);
            }
            '(' | ')' => {
                self.end_command();
                self.parenthesis(char);
            }
            ';' | '&' | '|' => self.end_command(),
            _ => self.expansion(char, input, false),
        }
    }

    fn closes_backtick(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::Commands { close: Close::Backtick, .. }))
    }

    fn parenthesis(&mut self, char: char) {
        let Some(Frame::Commands { close: Close::Paren { open }, .. }) = self.frames.last_mut() else {
            return;
        };
        match (char, *open) {
            ('(', _) => *open += 1,
            (_, 0) => {
                self.frames.pop();
            }
            _ => *open -= 1,
        }
    }

    /// After `<<`: a here-string, or the delimiter of a here-document.
    fn redirection(&mut self, input: &mut Input<'_>) {
        if input.peek() == Some(&'<') {
            input.next();
            return;
        }
        let strip_tabs = input.next_if_eq(&'-').is_some();
        while input.next_if(|char| matches!(char, ' ' | '\t')).is_some() {}
        let mut heredoc = Heredoc { delimiter: String::new(), raw: false, strip_tabs };
        let mut quote = None;
        while let Some(char) = input.next_if(|char| {
            quote.is_some() || !(char.is_whitespace() || matches!(char, ';' | '&' | '|' | '<' | '>' | '(' | ')'))
        }) {
            match (quote, char) {
                (None, '\'' | '"') => {
                    quote = Some(char);
                    heredoc.raw = true;
                }
                (Some(open), _) if open == char => quote = None,
                (None, '\\') => heredoc.raw = true,
                _ => heredoc.delimiter.push(char),
            }
        }
        self.heredocs.push_back(heredoc);
    }

    fn newline(&mut self) {
        self.end_command();
        if let Some(heredoc) = self.heredocs.pop_front() {
            self.frames.push(Frame::Heredoc { heredoc, line: String::new() });
        }
    }

    fn heredoc(&mut self, char: char) {
        let Some(Frame::Heredoc { heredoc, line }) = self.frames.last_mut() else {
            return;
        };
        if char != '\n' {
            line.push(char);
            self.glued = matches!(char, '\\' | '$');
            return;
        }
        let written = if heredoc.strip_tabs { line.trim_start_matches('\t') } else { line.as_str() };
        if written == heredoc.delimiter {
            self.frames.pop();
            if let Some(next) = self.heredocs.pop_front() {
                self.frames.push(Frame::Heredoc { heredoc: next, line: String::new() });
            }
        } else {
            line.clear();
        }
    }

    fn open_quote(&mut self, frame: Frame) {
        self.begin_word();
        self.frames.push(frame);
    }

    fn begin_word(&mut self) {
        if let Some(Frame::Commands { word, .. }) = self.frames.last_mut() {
            word.get_or_insert_default();
        }
    }

    /// Adds to the current word of the innermost command.
    fn add_to_word(&mut self, char: char) {
        let innermost = self.frames.iter_mut().rev().find_map(|frame| match frame {
            Frame::Commands { word, .. } => Some(word),
            _ => None,
        });
        if let Some(word) = innermost {
            word.get_or_insert_default().push(char);
        }
    }

    fn end_word(&mut self) {
        if let Some(Frame::Commands { words, word, .. }) = self.frames.last_mut() {
            words.extend(word.take());
        }
    }

    fn end_command(&mut self) {
        if let Some(Frame::Commands { words, word, .. }) = self.frames.last_mut() {
            words.clear();
            *word = None;
        }
    }
}
