//! A page of HTML as readable text: headings, lists, links and code as Markdown has them, nothing of what is not read.
//!
//! Only tokens are looked at, never a tree: the time it takes grows with the length of the page and not with its nesting.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use url::Url;

/// Most bytes of the text of a page.
const MOST_BYTES: usize = 8 << 20;
/// Longest address of a link that is shown.
const MOST_LINK: usize = 500;
/// Lists within lists that are told apart.
const MOST_LISTS: usize = 16;

/// The text of a page that is at `url`.
pub(in crate::hands) fn to_text(html: &str, url: &Url) -> String {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let sink = Sink { url: url.clone(), writing: RefCell::default() };
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    while !input.is_empty() {
        // It stops at whatever a browser would have to look at.
        let _ = tokenizer.feed(&input);
    }
    tokenizer.end();
    let text = tokenizer.sink.writing.take().text;
    text.trim().to_owned()
}

struct Sink {
    url: Url,
    writing: RefCell<Writing>,
}

/// The text so far.
#[derive(Default)]
struct Writing {
    text: String,
    /// Line breaks that come before the next word.
    breaks: usize,
    /// A space comes before the next word.
    space: bool,
    /// What is left out, and how often it is within itself.
    skipping: Option<(String, usize)>,
    /// Within so many `pre`.
    verbatim: usize,
    /// Lists, the innermost last: numbers, if they have any.
    lists: Vec<Option<u32>>,
    /// Where the text of a link begins, and where it leads.
    link: Option<(usize, String)>,
    /// Cells of the row so far.
    cells: usize,
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut writing = self.writing.borrow_mut();
        match token {
            Token::CharacterTokens(text) => writing.words(&text),
            Token::TagToken(tag) => {
                let raw = raw_kind(&tag);
                writing.tag(&tag, &self.url);
                if let Some(raw) = raw {
                    return TokenSinkResult::RawData(raw);
                }
            }
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

/// How what follows is read: not as tags.
fn raw_kind(tag: &Tag) -> Option<RawKind> {
    if tag.kind != TagKind::StartTag {
        return None;
    }
    match &*tag.name {
        "script" => Some(RawKind::ScriptData),
        "style" | "iframe" | "noembed" | "noframes" | "xmp" => Some(RawKind::Rawtext),
        "title" | "textarea" => Some(RawKind::Rcdata),
        _ => None,
    }
}

impl Writing {
    fn push(&mut self, text: &str) {
        if self.text.len() + text.len() <= MOST_BYTES {
            self.text.push_str(text);
        }
    }

    /// What is before the next word.
    fn settle(&mut self) {
        let breaks = std::mem::take(&mut self.breaks);
        let space = std::mem::take(&mut self.space);
        if self.text.is_empty() {
            return;
        }
        if breaks > 0 {
            self.push(&"\n".repeat(breaks));
        } else if space && !self.text.ends_with([' ', '\n']) {
            self.push(" ");
        }
    }

    fn break_line(&mut self, lines: usize) {
        self.breaks = self.breaks.max(lines);
    }

    fn words(&mut self, text: &str) {
        if self.skipping.is_some() {
            return;
        }
        if self.verbatim > 0 {
            self.settle();
            self.push(text);
            return;
        }
        self.space |= text.starts_with(char::is_whitespace);
        for (at, word) in text.split_whitespace().enumerate() {
            self.space |= at > 0;
            self.settle();
            self.push(word);
        }
        self.space |= text.ends_with(char::is_whitespace);
    }

    fn mark(&mut self, text: &str) {
        self.settle();
        self.push(text);
    }

    fn tag(&mut self, tag: &Tag, url: &Url) {
        let is_start = tag.kind == TagKind::StartTag;
        let name = &*tag.name;
        if let Some((skipped, depth)) = &mut self.skipping {
            if skipped == name {
                *depth = if is_start { *depth + 1 } else { *depth - 1 };
            }
            if self.skipping.as_ref().is_some_and(|(_, depth)| *depth == 0) {
                self.skipping = None;
            }
            return;
        }
        match name {
            "script" | "style" | "template" | "svg" | "math" | "iframe" | "noembed" | "noframes" | "textarea"
            | "select"
                if is_start && !tag.self_closing =>
            {
                self.skipping = Some((name.to_owned(), 1));
            }
            "title" => self.break_line(2),
            "br" => self.break_line(1),
            "hr" => {
                self.break_line(2);
                self.mark("---");
                self.break_line(2);
            }
            "a" => self.anchor(is_start, tag, url),
            "img" => {
                if let Some(words) = attribute(tag, "alt").filter(|words| !words.trim().is_empty()) {
                    self.mark(&format!("[{}]", words.trim()));
                }
            }
            "code" if self.verbatim == 0 => {
                if is_start {
                    self.settle();
                }
                self.push("`");
            }
            "pre" => self.fence(is_start),
            "ul" | "ol" => self.list(is_start, name == "ol"),
            "li" if is_start => self.item(),
            "td" | "th" if is_start => {
                if self.cells > 0 {
                    self.mark(" | ");
                }
                self.cells += 1;
            }
            "tr" => {
                self.cells = 0;
                self.break_line(1);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.break_line(2);
                if is_start {
                    let depth = name.as_bytes().get(1).map_or(1, |digit| usize::from(digit - b'0'));
                    self.mark(&format!("{} ", "#".repeat(depth)));
                }
            }
            "p" | "table" | "blockquote" | "dl" | "figure" | "section" | "article" | "main" | "header" | "footer"
            | "nav" | "aside" | "form" | "fieldset" | "details" => self.break_line(2),
            "div" | "dt" | "dd" | "li" | "summary" | "address" | "figcaption" | "option" | "legend" | "caption"
            | "body" => {
                self.break_line(1);
            }
            _ => {}
        }
    }

    fn anchor(&mut self, is_start: bool, tag: &Tag, url: &Url) {
        // One that was not closed ends where the next begins.
        if let Some((begin, target)) = self.link.take() {
            if self.text.len() == begin && self.text.ends_with('[') {
                self.text.pop();
            } else {
                self.push(&format!("]({target})"));
            }
        }
        let target = attribute(tag, "href").filter(|target| is_start && !target.starts_with('#'));
        let target = target.and_then(|target| url.join(target).ok());
        let target = target.filter(|target| matches!(target.scheme(), "http" | "https"));
        if let Some(target) = target.filter(|target| target.as_str().len() <= MOST_LINK)
            && self.text.len() < MOST_BYTES
        {
            self.mark("[");
            self.link = Some((self.text.len(), target.to_string()));
        }
    }

    fn fence(&mut self, is_start: bool) {
        if is_start {
            self.break_line(2);
            self.mark("```\n");
            self.verbatim += 1;
        } else if self.verbatim > 0 {
            self.verbatim -= 1;
            if !self.text.ends_with('\n') {
                self.push("\n");
            }
            self.push("```");
            self.break_line(2);
        }
    }

    fn list(&mut self, is_start: bool, has_numbers: bool) {
        self.break_line(if self.lists.len() > 1 || is_start && !self.lists.is_empty() { 1 } else { 2 });
        if !is_start {
            self.lists.pop();
        } else if self.lists.len() < MOST_LISTS {
            self.lists.push(has_numbers.then_some(0));
        }
    }

    fn item(&mut self) {
        self.break_line(1);
        let indent = "  ".repeat(self.lists.len().saturating_sub(1));
        let sign = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number = number.saturating_add(1);
                format!("{number}.")
            }
            _ => "*".to_owned(),
        };
        self.mark(&format!("{indent}{sign} "));
    }
}

fn attribute<'a>(tag: &'a Tag, name: &str) -> Option<&'a str> {
    tag.attrs.iter().find(|attribute| &*attribute.name.local == name).map(|attribute| &*attribute.value)
}
