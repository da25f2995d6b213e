//! Commands of a shell's text: each as it is written, and what it starts.

use super::shape::{Shape, is_same};
use super::wrapped::wrapper;
use super::{Access, Arg, Part, Touch, View, danger, files, said};
use crate::glob::{Glob, Token};
use crate::path::Around;
use crate::programs::wrappers::inline_flags;
use crate::programs::{self, Operands, flags, is_interpreter, is_shell};
use crate::shell::{RedirectKind, Script, Simple, Word, parse};
use crate::verdict::Class;

/// Texts within texts, and wrappers within wrappers.
const MAX_LAYERS: usize = 16;
/// Commands of one call that are looked at one by one.
const MAX_PARTS: usize = 4_096;
/// Directories that a text may be in, before any is as good as another.
const MAX_DIRECTORIES: usize = 8;

/// Reads a text into a view.
pub(super) fn read(view: &mut View, text: &str, around: &Around) {
    let mut reader = Reader {
        around: around.clone(),
        cwds: vec![around.cwd.clone()],
        lost: false,
        moved: None,
        parts: Vec::new(),
        trouble: None,
    };
    reader.script(text, 0, true);
    if reader.parts.len() > MAX_PARTS {
        reader.trouble.get_or_insert_with(|| format!("it has more than {MAX_PARTS} commands"));
    }
    view.parts = reader.parts;
    if view.unread.is_none() {
        view.unread = reader.trouble;
    }
}

pub(super) struct Reader {
    /// With links that the text itself makes.
    around: Around,
    /// Directories that it may be in.
    cwds: Vec<String>,
    /// It may be in any other as well.
    lost: bool,
    /// Where the command before went to, in this shell; `None` inside is anywhere.
    moved: Option<Option<String>>,
    pub(super) parts: Vec<Part>,
    pub(super) trouble: Option<String>,
}

impl Reader {
    /// Reads a text; the places of its commands.
    pub(super) fn script(&mut self, text: &str, layer: usize, outer: bool) -> Vec<usize> {
        if layer > MAX_LAYERS {
            self.trouble.get_or_insert_with(|| format!("commands stand in commands more than {MAX_LAYERS} deep"));
            return Vec::new();
        }
        let script = parse(text);
        if let Some(trouble) = script.trouble {
            self.trouble.get_or_insert_with(|| trouble.to_string());
        }
        let letters: Vec<char> = text.chars().collect();
        let mut places = Vec::new();
        for simple in &script.commands {
            if self.parts.len() > MAX_PARTS {
                break;
            }
            self.enter(simple);
            let shown: String = letters.get(simple.span.0..simple.span.1).unwrap_or_default().iter().collect();
            let place = self.simple(&script, simple, layer);
            let part = &mut self.parts[place];
            part.outer = outer;
            part.shown = if shown.trim().is_empty() {
                part.words.iter().map(Arg::shown).collect::<Vec<_>>().join(" ")
            } else {
                shown.trim().to_owned()
            };
            self.leave(place, simple);
            places.push(place);
        }
        places
    }

    /// Where the next command may be.
    fn enter(&mut self, simple: &Simple) {
        match self.moved.take() {
            Some(Some(to)) if simple.after_success => self.cwds = vec![to],
            Some(Some(to)) if !self.cwds.contains(&to) => self.cwds.push(to),
            Some(Some(_)) => {}
            Some(None) => self.lost = true,
            None => {}
        }
        self.lost |= self.cwds.len() > MAX_DIRECTORIES;
    }

    /// `cd`, and links that are made.
    fn leave(&mut self, place: usize, simple: &Simple) {
        let part = &self.parts[place];
        let name = part.program().unwrap_or_default();
        let shape = Shape::of(&name, part.words.get(1..).unwrap_or_default());
        match name.as_str() {
            "cd" | "pushd" | "chdir" | "popd" => {
                let to = match shape.operands.first() {
                    None if name == "cd" => Some(self.around.home.clone()),
                    Some((word, _)) if self.cwds.len() == 1 && !self.lost => {
                        word.exact().filter(|text| text != "-").map(|text| {
                            let text = self.around.path_from(&self.cwds[0], &Glob::literal(&text), &text);
                            text.target.text().unwrap_or_default()
                        })
                    }
                    _ => None,
                };
                if to.is_none() || !simple.subshell {
                    self.moved = Some(to);
                } else if let Some(to) = to {
                    self.cwds.push(to);
                }
            }
            "ln" => self.linked(&shape),
            _ => {}
        }
    }

    /// A link that the text makes leads where it says for all that comes behind.
    fn linked(&mut self, shape: &Shape) {
        let names: Vec<String> = shape.operands.iter().filter_map(|(word, _)| word.exact()).collect();
        let ([from, to], [cwd, ..]) = (names.as_slice(), self.cwds.as_slice()) else { return };
        let place = self.around.path_from(cwd, &Glob::literal(to), to).place.text().unwrap_or_default();
        // Into a directory that is there, or as the name itself: both.
        let base = from.rsplit('/').next().unwrap_or_default();
        self.around.links.insert(format!("{}/{base}", place.trim_end_matches('/')), from.clone());
        self.around.links.insert(place, from.clone());
    }

    fn arg(&self, word: &Word) -> Arg {
        let cwd = (self.cwds.len() == 1 && !self.lost).then(|| self.cwds[0].as_str());
        Arg::from_word(word, &self.around.home, cwd)
    }

    fn simple(&mut self, script: &Script, simple: &Simple, layer: usize) -> usize {
        let words: Vec<Arg> = simple.words.iter().map(|word| self.arg(word)).collect();
        let assigns: Vec<(String, Arg)> =
            simple.assigns.iter().map(|assign| (assign.name.clone(), self.arg(&assign.value))).collect();
        let mut redirects = Vec::new();
        for redirect in &simple.redirects {
            let access = match redirect.kind {
                RedirectKind::Read => &[Access::Read][..],
                RedirectKind::Write => &[Access::Write],
                RedirectKind::ReadWrite => &[Access::Read, Access::Write],
                RedirectKind::Here | RedirectKind::Descriptor => &[],
            };
            let arg = self.arg(&redirect.target);
            for access in access {
                redirects.extend(
                    self.touches(&arg, *access, true).into_iter().map(|touch| Touch { redirect: true, ..touch }),
                );
            }
        }
        let place = self.command(words, assigns, layer);
        self.parts[place].touches.splice(0..0, redirects);
        let is_function =
            self.parts[place].words.first().and_then(Arg::exact).is_some_and(|name| script.functions.contains(&name));
        self.parts[place].function = is_function;
        // What it starts reads the same.
        for place in place..self.parts.len() {
            self.input(script, simple, place, layer);
        }
        place
    }

    /// What a shell or an interpreter reads on its input.
    fn input(&mut self, script: &Script, simple: &Simple, place: usize, layer: usize) {
        let Some(name) = self.parts[place].program() else { return };
        if !is_interpreter(&name) {
            return;
        }
        let shape = Shape::of(&name, &self.parts[place].words[1..]);
        let has_script =
            shape.operands.iter().any(|(word, optional)| !optional && word.exact().as_deref() != Some("-"))
                || shape.has(&name, &["-c"]);
        let here = simple.redirects.iter().rev().find(|redirect| redirect.kind == RedirectKind::Here);
        let piped = simple.reads_from.and_then(|from| script.commands.get(from));
        if has_script && !shape.has(&name, &["-s"]) {
            return;
        }
        let fed = here.is_some()
            || piped.is_some()
            || simple.redirects.iter().any(|redirect| redirect.kind == RedirectKind::Read);
        if !fed {
            return;
        }
        let text = match (here, piped) {
            (Some(here), _) => here.target.text(),
            (None, Some(from)) => said::said(&from.words),
            (None, None) => None,
        };
        match text {
            Some(text) if is_shell(&name) => {
                let inner = self.script(&text, layer + 1, false);
                self.parts[place].inner.extend(inner);
                if here.is_none() {
                    self.parts[place].opaque = Some("a shell reads what another command says");
                }
            }
            _ => self.parts[place].opaque = Some("it runs what it reads"),
        }
    }

    /// One command, with what it starts.
    pub(super) fn command(&mut self, words: Vec<Arg>, assigns: Vec<(String, Arg)>, layer: usize) -> usize {
        let place = self.parts.len();
        let elsewhere = self.lost
            || self.cwds.iter().any(|cwd| {
                let cwd = self.around.path(cwd);
                !self.around.is_inside(&cwd)
            });
        self.parts.push(Part { words, assigns, elsewhere, own_words: 0, ..Part::default() });
        if layer > MAX_LAYERS {
            self.trouble.get_or_insert_with(|| format!("commands stand in commands more than {MAX_LAYERS} deep"));
            return place;
        }
        let Some(name) = self.parts[place].program() else {
            if !self.parts[place].words.is_empty() {
                self.parts[place].opaque = Some("which program it is is known only when it runs");
            }
            return place;
        };
        let words = self.parts[place].words.clone();
        let shape = Shape::of(&name, &words[1..]);
        let touches = self.operands(&name, &shape);
        self.parts[place].touches.extend(touches);
        self.parts[place].reaches = reaches(&name, &shape);
        self.parts[place].removal =
            danger::removal(&name, &shape, &words, &self.around, if self.lost { &[] } else { &self.cwds });
        if let Some(wrapper) = wrapper(&name, &shape) {
            self.wrapped(place, &words, wrapper, layer);
        } else if is_interpreter(&name) {
            let script = shape.operands.iter().find(|(_, optional)| !optional).map(|(word, _)| word);
            let inline = inline_flags(&name);
            let by_word = shape.subcommand().is_some_and(|word| inline.contains(&word.as_str()));
            self.parts[place].opaque = if by_word || shape.has(&name, inline) {
                Some("it runs text of a language that is not looked into")
            } else if script.is_some_and(|word| word.exact().is_none()) {
                Some("which script it runs is known only when it runs")
            } else {
                None
            };
        }
        if !programs::is_settled(&name) {
            self.perhaps(&words, layer);
        }
        if matches!(name.as_str(), "eval" | "source" | ".") && self.parts[place].inner.is_empty() {
            self.parts[place].opaque = Some("it runs what is known only when it runs");
        }
        self.git_alias(place, &name, &shape, layer);
        place
    }

    /// `git -c alias.x='!rm y' x`.
    fn git_alias(&mut self, place: usize, name: &str, shape: &Shape, layer: usize) {
        if name != "git" {
            return;
        }
        for (flag, value) in &shape.values {
            let Some((key, value)) = value.exact().filter(|_| flag == "-c").and_then(|text| {
                let (key, value) = text.split_once('=')?;
                Some((key.to_lowercase(), value.to_owned()))
            }) else {
                continue;
            };
            let command = value.strip_prefix('!').map(str::to_owned);
            let text = match command {
                Some(text) => text,
                None if key.starts_with("alias.") => format!("git {value}"),
                None => value,
            };
            let inner = self.script(&text, layer + 1, false);
            self.parts[place].inner.extend(inner);
            self.parts[place].harmless = false;
        }
    }

    /// Files that operands and flags name.
    fn operands(&self, name: &str, shape: &Shape) -> Vec<Touch> {
        let words: Vec<(&Arg, bool)> = shape.operands.iter().map(|(word, optional)| (word, *optional)).collect();
        let scripted = shape.has(name, &["-e", "--regexp", "--expression", "-f", "--file"]);
        let mut touches = Vec::new();
        // What becomes several words may become none.
        let sure = words.iter().rposition(|(word, _)| !word.splits).unwrap_or(0);
        for (at, (word, optional)) in words.iter().enumerate() {
            let place =
                Place { at, last: at > 0 && at >= sure, end: at + 1 == words.len(), scripted, optional: *optional };
            for access in accesses(name, place) {
                touches.extend(self.touches(word, *access, !optional));
            }
            if programs::operands(name) == Operands::Unknown {
                candidates(word).iter().for_each(|word| touches.extend(self.touches(word, Access::Read, false)));
            }
        }
        let mut more = |word: &Arg, access| touches.extend(self.touches(word, access, true));
        if name == "find" && shape.has(name, &["-delete"]) {
            words.iter().filter(|(_, optional)| !optional).for_each(|(word, _)| more(word, Access::Delete));
        }
        if name == "sed" && shape.has(name, &["-i", "--in-place"]) {
            words.iter().skip(usize::from(!scripted)).for_each(|(word, _)| more(word, Access::Write));
        }
        touches.extend(self.values(name, shape));
        if programs::reads_below(name, |names| shape.has(name, names)) {
            if !touches.iter().any(|touch| touch.access == Access::Read) {
                touches.extend(self.touches(&Arg::of("."), Access::Read, true));
            }
            touches.iter_mut().filter(|touch| touch.access == Access::Read).for_each(|touch| touch.below = true);
        }
        touches
    }

    /// Files that flags name.
    fn values(&self, name: &str, shape: &Shape) -> Vec<Touch> {
        let mut touches = Vec::new();
        for (flag, value) in &shape.values {
            let rows = flags::paths(name).iter().map(|row| row.split_at(1)).filter(|(_, row)| is_same(name, flag, row));
            let known: Vec<Access> =
                rows.map(|(sign, _)| if sign == "<" { Access::Read } else { Access::Write }).collect();
            known.iter().for_each(|access| touches.extend(self.touches(value, *access, true)));
            if known.is_empty() && programs::operands(name) == Operands::Unknown && !is_message(name, flag) {
                candidates(value).iter().for_each(|word| touches.extend(self.touches(word, Access::Read, false)));
            }
        }
        touches
    }

    /// A word as a path, seen from every directory that it may be in.
    fn touches(&self, word: &Arg, access: Access, certain: bool) -> Vec<Touch> {
        let shown = word.shown();
        let absolute = matches!(word.glob.tokens().first(), Some(Token::Is('/')));
        let mut touches: Vec<Touch> = Vec::new();
        for cwd in &self.cwds {
            let mut path = self.around.path_from(cwd, &word.glob, &shown);
            path.exact &= !word.splits && !word.wild && !word.soft;
            path.unknown |= word.splits && word.is_unknown();
            if !touches.iter().any(|touch| touch.path.place == path.place) {
                touches.push(Touch { access, path, certain, redirect: false, below: false });
            }
            if absolute {
                return touches;
            }
        }
        if self.lost {
            let any = Glob::any();
            let path =
                crate::path::PathOf { written: shown, place: any.clone(), target: any, exact: false, unknown: true };
            touches.push(Touch { access, path, certain, redirect: false, below: false });
        }
        touches
    }
}

/// Where an operand stands.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    /// It may be the last one, and is not the first.
    last: bool,
    /// It is the last one as it is written.
    end: bool,
    /// A flag has the pattern or the script, so no operand is one.
    scripted: bool,
    /// It may belong to the flag before it.
    optional: bool,
}

/// What a program does with an operand.
fn accesses(name: &str, place: Place) -> &'static [Access] {
    match programs::operands(name) {
        Operands::Text | Operands::Unknown => &[],
        Operands::Reads if LISTS.contains(&name) => {
            if name == "find" && place.optional {
                &[]
            } else {
                &[Access::List]
            }
        }
        Operands::PatternThenReads if place.at == 0 && !place.scripted => &[],
        Operands::ModeThenWrites if place.at == 0 => &[],
        Operands::Writes | Operands::ModeThenWrites => &[Access::Write],
        Operands::Deletes => &[Access::Delete],
        Operands::Copies | Operands::Moves if place.last && place.end => &[Access::Write],
        Operands::Copies | Operands::Moves if place.last => &[Access::Read, Access::Write],
        Operands::Moves => &[Access::Read, Access::Delete],
        Operands::Links | Operands::ReadsThenWrites if place.at > 0 => &[Access::Write],
        Operands::Reads
        | Operands::PatternThenReads
        | Operands::Copies
        | Operands::Links
        | Operands::ReadsThenWrites => &[Access::Read],
        Operands::Directory => &[Access::List],
    }
}

/// Programs that look at names, and at nothing that is in a file.
const LISTS: [&str; 13] =
    ["ls", "dir", "vdir", "tree", "du", "df", "find", "test", "[", "[[", "stat", "realpath", "readlink"];

/// `-m TEXT` of programs that keep what people write.
fn is_message(name: &str, flag: &str) -> bool {
    matches!(name, "git" | "gh" | "jj" | "hg")
        && matches!(flag, "-m" | "--message" | "--body" | "--title" | "-b" | "-t" | "--author" | "--date")
}

/// What a word of an unknown program may name: itself, what is behind `=`, and behind `@`.
fn candidates(word: &Arg) -> Vec<Arg> {
    let mut found = vec![word.clone()];
    if let Some(text) = word.exact() {
        let plain = text.len() < 4_096 && !text.contains('\n');
        if !plain {
            return Vec::new();
        }
        for sign in ['=', '@'] {
            if let Some((_, rest)) = text.rsplit_once(sign).filter(|(_, rest)| !rest.is_empty()) {
                found.push(Arg::of(rest));
            }
        }
    }
    found
}

fn reaches(name: &str, shape: &Shape) -> Vec<super::Reach> {
    if !programs::is_network(name) {
        return Vec::new();
    }
    let words = shape.operands.iter().map(|(word, _)| word).filter(|word| {
        // An address, or a machine before a path.
        word.exact().is_none_or(|text| {
            text.contains("://") || text.contains('.') || text.contains('@') || matches!(name, "ssh" | "nc" | "ping")
        })
    });
    words.map(|word| super::Reach { host: word.exact().as_deref().and_then(files::host) }).collect()
}

impl Part {
    /// The program's name without its directory, when it is known.
    #[must_use]
    pub fn program(&self) -> Option<String> {
        let text = self.words.first()?.exact()?;
        Some(text.rsplit('/').next().unwrap_or_default().to_owned())
    }

    /// Whether the program is what its name says: it is called by its name, or from a directory of the system.
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        let Some(text) = self.words.first().and_then(Arg::exact) else { return false };
        text.rsplit_once('/').is_none_or(|(directory, _)| programs::TRUSTED.contains(&directory))
    }

    /// What it does at most, alone.
    #[must_use]
    pub fn class(&self) -> Class {
        let Some(name) = self.program() else {
            let writes = self.touches.iter().any(|touch| touch.access.changes());
            return if !self.words.is_empty() {
                Class::Run
            } else if writes {
                Class::Edit
            } else {
                Class::Read
            };
        };
        let shape = Shape::of(&name, &self.words[1..]);
        let effects = super::danger::class(&name, &shape);
        let writes = self.touches.iter().any(|touch| touch.access.changes());
        if writes { effects.max(Class::Edit) } else { effects }
    }
}
