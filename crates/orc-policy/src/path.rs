//! Paths of a call and patterns of rules, as text: nobody looks at a disk here. What links mean comes as an argument.
//!
//! A path has a **place**, where it stands as it was written, and a **target**, where it leads once links are followed.
//! A deny holds when either is covered; an allow needs both. Missing last parts are kept as they are.

use std::collections::BTreeMap;

use crate::glob::{Glob, Token, fold};
use crate::verdict::Verdict;

/// Links followed in one path at most, as in Linux.
const MAX_LINKS: usize = 40;

/// What is known about the files around a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// The working directory, absolute.
    pub cwd: String,
    /// The home of whoever runs it, absolute.
    pub home: String,
    /// The private copy that it works in, absolute.
    pub worktree: String,
    /// Links, and other names of a directory: where they lead, absolute.
    pub links: BTreeMap<String, String>,
    /// Checkouts that others work in: never written to.
    pub shared: Vec<String>,
}

/// A path of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathOf {
    /// As it was written.
    pub written: String,
    /// Where it stands, absolute.
    pub place: Glob,
    /// Where it leads, absolute.
    pub target: Glob,
    /// It is this one path, known as it stands.
    pub exact: bool,
    /// Something in it is known only when it runs, so it may be any path.
    pub unknown: bool,
}

impl PathOf {
    /// As people should see it: with where it leads, if that is elsewhere.
    #[must_use]
    pub fn shown(&self) -> String {
        match (self.place.text(), self.target.text()) {
            (Some(place), Some(target)) if place != target => format!("{place} (leads to {target})"),
            (Some(place), _) => place,
            _ => self.written.clone(),
        }
    }
}

impl Around {
    /// A path that is known as it stands.
    #[must_use]
    pub fn path(&self, written: &str) -> PathOf {
        self.path_from(&self.cwd, &self.home_in(written), written)
    }

    /// `~/x` of people, in the tools that take files.
    fn home_in(&self, written: &str) -> Glob {
        match written.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => Glob::literal(&format!("{}{rest}", self.home)),
            _ => Glob::literal(written),
        }
    }

    /// A path that may have wildcards, seen from a directory.
    #[must_use]
    pub fn path_from(&self, cwd: &str, path: &Glob, written: &str) -> PathOf {
        let start = path.tokens().first();
        let absolute = match start {
            Some(Token::Is('/')) => path.clone(),
            // What may begin with anything may be anywhere.
            Some(Token::Any) => {
                let any = Glob::any();
                return PathOf {
                    written: written.to_owned(),
                    place: any.clone(),
                    target: any,
                    exact: false,
                    unknown: true,
                };
            }
            _ => {
                let mut joined = Glob::literal(cwd.trim_end_matches('/'));
                joined.push(Token::Is('/'));
                joined.extend(path);
                joined
            }
        };
        match absolute.text() {
            Some(text) => {
                let place = normal(&text);
                let target = self.resolve(&text);
                PathOf {
                    written: written.to_owned(),
                    place: Glob::literal(&place),
                    target: Glob::literal(&target),
                    exact: true,
                    unknown: false,
                }
            }
            None => self.wild(&absolute, written),
        }
    }

    /// Links before the first wildcard are followed. What goes up behind one may be anywhere.
    fn wild(&self, absolute: &Glob, written: &str) -> PathOf {
        let start = absolute.start();
        let known = start.rfind('/').map_or("", |at| &start[..at]);
        let rest = Glob::default();
        let rest = absolute.tokens().iter().skip(known.chars().count()).fold(rest, |mut rest, token| {
            rest.push(*token);
            rest
        });
        let behind: Vec<_> = rest.tokens().windows(3).collect();
        let up = behind.iter().any(|tokens| **tokens == [Token::Is('/'), Token::Is('.'), Token::Is('.')]);
        let joined = |directory: String| {
            if up {
                return Glob::any();
            }
            let mut glob = Glob::literal(directory.trim_end_matches('/'));
            glob.extend(&rest);
            glob
        };
        let unknown = up || rest.tokens().contains(&Token::Any);
        PathOf {
            written: written.to_owned(),
            place: joined(normal(known)),
            target: joined(self.resolve(known)),
            exact: false,
            unknown,
        }
    }

    /// Follows links, part by part; a part that is not known is a plain name.
    #[must_use]
    pub fn resolve(&self, absolute: &str) -> String {
        let mut left: Vec<String> = absolute.split('/').rev().map(str::to_owned).collect();
        let mut path = String::new();
        let mut followed = 0;
        while let Some(part) = left.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    path.truncate(path.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let next = format!("{path}/{part}");
            match self.links.get(&next) {
                Some(target) if followed < MAX_LINKS => {
                    followed += 1;
                    if target.starts_with('/') {
                        path.clear();
                    }
                    left.extend(target.split('/').rev().map(str::to_owned));
                }
                _ => path = next,
            }
        }
        if path.is_empty() { "/".to_owned() } else { path }
    }

    /// Whether a path, or all that it may be, lies in the private copy.
    #[must_use]
    pub fn is_inside(&self, path: &PathOf) -> bool {
        path.exact && self.is_below(path, &self.worktree)
    }

    /// Whether both ends of an exact path are a directory or below it.
    #[must_use]
    pub fn is_below(&self, path: &PathOf, directory: &str) -> bool {
        let real = self.resolve(directory);
        let below = |path: &Glob, root: &str| path.text().is_some_and(|path| below(&path, root));
        (below(&path.place, directory) || below(&path.place, &real)) && below(&path.target, &real)
    }
}

/// Whether a path is a directory or below it.
#[must_use]
pub fn below(path: &str, directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Without `.`, `..` and doubled `/`, as text.
#[must_use]
pub fn normal(absolute: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in absolute.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Where a pattern of a rule begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    /// `//x`.
    Root,
    /// `~/x`.
    Home,
    /// `/x`: the directory of the file that the rule stands in.
    Source,
    /// `./x` and `a/x`.
    Worktree,
    /// `**/x`, and `x` of a deny.
    Anywhere,
}

/// A pattern of paths, as rules write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    anchor: Anchor,
    /// Without its anchor, without a `/` or `/**` at its end.
    rest: String,
    /// It covers what is below: it ended so, or is everything.
    below: bool,
    /// `./` or `/` stood before it: it is meant from the root, also by a deny.
    rooted: bool,
}

impl PathPattern {
    /// Reads one.
    ///
    /// # Errors
    /// Why it can't be one.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a path is missing between the parentheses".to_owned());
        }
        if text.contains('\0') {
            return Err("a path can't have a NUL in it".to_owned());
        }
        let (anchor, rest, rooted) = if let Some(rest) = text.strip_prefix("//") {
            (Anchor::Root, rest, true)
        } else if text == "~" {
            (Anchor::Home, "", true)
        } else if let Some(rest) = text.strip_prefix("~/") {
            (Anchor::Home, rest, true)
        } else if let Some(rest) = text.strip_prefix('/') {
            (Anchor::Source, rest, true)
        } else if let Some(rest) = text.strip_prefix("**/") {
            (Anchor::Anywhere, rest, false)
        } else if let Some(rest) = text.strip_prefix("./") {
            (Anchor::Worktree, rest, true)
        } else {
            (Anchor::Worktree, text, false)
        };
        if text.starts_with('~') && anchor != Anchor::Home {
            return Err(format!("`{text}`: homes of others can't be named; write the whole path as `//home/...`"));
        }
        let mut rest = rest;
        let mut below = matches!(rest, "*" | "**" | "" | ".");
        while let Some(shorter) = rest.strip_suffix("/**").or_else(|| rest.strip_suffix('/')) {
            rest = shorter;
            below = true;
        }
        if matches!(rest, "*" | "**" | ".") {
            rest = "";
        }
        Ok(Self { anchor, rest: rest.to_owned(), below, rooted })
    }

    fn root<'a>(&self, around: &'a Around, base: &'a str) -> &'a str {
        match self.anchor {
            Anchor::Root | Anchor::Anywhere => "",
            Anchor::Home => around.home.trim_end_matches('/'),
            Anchor::Source => base.trim_end_matches('/'),
            Anchor::Worktree => around.worktree.trim_end_matches('/'),
        }
    }

    /// Everything that a deny or a question covers, as patterns of absolute paths: the path itself, and what is below it.
    fn wide(&self, around: &Around, base: &str) -> (Glob, Glob) {
        let anywhere = self.anchor == Anchor::Anywhere || (self.anchor == Anchor::Worktree && !self.rooted);
        let root = if anywhere { "" } else { self.root(around, base) };
        let mut glob = Glob::literal(root);
        if !self.rest.is_empty() {
            if anywhere {
                glob.push(Token::Any);
            }
            glob.push(Token::Is('/'));
            glob.extend(&Glob::of_path(&self.rest));
        }
        let mut inside = glob.clone();
        inside.push(Token::Is('/'));
        inside.push(Token::Any);
        (glob, inside)
    }

    /// Whether a deny, or a question, covers this path or anything that it may be.
    #[must_use]
    pub fn covers_some(&self, path: &PathOf, around: &Around, base: &str) -> bool {
        // A name that stands in the text of both must stand in the path as well: most rules end here.
        let (glob, inside) = self.wide(around, base);
        let (glob, inside) = (glob.folded(), inside.folded());
        [&path.place, &path.target].into_iter().any(|path| {
            let path = path.folded();
            match path.text() {
                Some(text) => glob.matches(&text) || inside.matches(&text),
                None => glob.meets(&path) || inside.meets(&path),
            }
        })
    }

    /// Whether a deny covers something below a directory, though not the directory: a search has to leave it out. `Some` of
    /// whether it is there for certain, by its name, and not only if there is such a name.
    #[must_use]
    pub fn covers_below(&self, directory: &PathOf, around: &Around, base: &str) -> Option<bool> {
        let (glob, _) = self.wide(around, base);
        let glob = glob.folded();
        let found = [&directory.place, &directory.target].into_iter().any(|directory| {
            let mut directory = directory.folded();
            directory.push(Token::Is('/'));
            directory.push(Token::Any);
            glob.meets(&directory)
        });
        found.then(|| glob.tokens().first() != Some(&Token::Any))
    }

    /// Paths that it covers, with wildcards filled in: none is covered by a pattern that does not cover all of them.
    #[must_use]
    pub fn samples(&self, around: &Around, base: &str, says: Verdict) -> Vec<Glob> {
        let (glob, inside) = if says == Verdict::Allow { self.granted(around, base) } else { self.wide(around, base) };
        let both = [Some(glob), Some(inside).filter(|_| self.below || says > Verdict::Allow)];
        let fill = |glob: &Glob, any: &str| {
            let mut text = String::new();
            for token in glob.tokens() {
                match token {
                    Token::Is(letter) => text.push(*letter),
                    Token::One | Token::Some => text.push('\u{2}'),
                    Token::Any => text.push_str(any),
                }
            }
            Glob::literal(&normal(&text))
        };
        let filled = |glob: &Glob| ["", "\u{2}", "/\u{2}/\u{2}/"].map(|any| fill(glob, any));
        both.iter().flatten().flat_map(filled).collect()
    }

    /// What an allow covers, and what is below it.
    fn granted(&self, around: &Around, base: &str) -> (Glob, Glob) {
        let anywhere = self.anchor == Anchor::Anywhere;
        let mut glob =
            Glob::literal(if anywhere { around.worktree.trim_end_matches('/') } else { self.root(around, base) });
        if !self.rest.is_empty() {
            if anywhere {
                glob.push(Token::Any);
            }
            glob.push(Token::Is('/'));
            glob.extend(&Glob::of_path(&self.rest));
        }
        let mut inside = glob.clone();
        inside.push(Token::Is('/'));
        inside.push(Token::Any);
        (glob, inside)
    }

    /// Whether an allow covers this one path, at its place and where it leads.
    #[must_use]
    pub fn covers(&self, path: &PathOf, around: &Around, base: &str) -> bool {
        [&path.place, &path.target].into_iter().all(|path| self.covers_text(path, around, base))
    }

    /// The same for one end of it.
    #[must_use]
    pub fn covers_text(&self, path: &Glob, around: &Around, base: &str) -> bool {
        let Some(path) = path.text() else { return false };
        let root = match self.anchor {
            Anchor::Anywhere => around.worktree.trim_end_matches('/'),
            _ => self.root(around, base),
        };
        let Some(rest) =
            path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/').or(rest.is_empty().then_some("")))
        else {
            return false;
        };
        if self.rest.is_empty() {
            return self.below || rest.is_empty();
        }
        let matches = |pattern: &str| Glob::of_path(pattern).matches(rest);
        let anywhere = self.anchor == Anchor::Anywhere;
        matches(&self.rest)
            || (self.below && matches(&format!("{}/**", self.rest)))
            || (anywhere
                && (matches(&format!("**/{}", self.rest)) || (self.below && matches(&format!("**/{}/**", self.rest)))))
    }

    /// What it covers, as a line of an ignore file at the root of the copy; none when it lies outside of that.
    #[must_use]
    pub fn ignore_line(&self, around: &Around, base: &str) -> Option<String> {
        if self.rest.is_empty() {
            return Some("/**".to_owned());
        }
        if self.anchor == Anchor::Anywhere || (self.anchor == Anchor::Worktree && !self.rooted) {
            return Some(format!("**/{}", self.rest));
        }
        let whole = format!("{}/{}", self.root(around, base), self.rest);
        let inside = whole.strip_prefix(around.worktree.trim_end_matches('/'))?;
        inside.starts_with('/').then(|| inside.to_owned())
    }

    /// The first name in it that has no wildcard, folded: a path that is covered has it, too.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let plain = |part: &&str| !part.is_empty() && !part.contains(['*', '?', '[', '\\']);
        self.rest.split('/').filter(plain).max_by_key(|part| part.len()).map(fold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> Around {
        let links = [("/w/link", "/etc/passwd"), ("/w/dir", "../out"), ("/w/loop", "/w/loop"), ("/mnt/w", "/w")];
        Around {
            cwd: "/w".to_owned(),
            home: "/home/dev".to_owned(),
            worktree: "/w".to_owned(),
            links: links.map(|(from, to)| (from.to_owned(), to.to_owned())).into(),
            shared: Vec::new(),
        }
    }

    #[test]
    fn paths_are_followed() {
        let around = around();
        for (path, place, target) in [
            ("a/../b", "/w/b", "/w/b"),
            ("link", "/w/link", "/etc/passwd"),
            ("dir/x", "/w/dir/x", "/out/x"),
            ("dir/../x", "/w/x", "/x"),
            ("/mnt/w/link", "/mnt/w/link", "/etc/passwd"),
            ("~/x", "/home/dev/x", "/home/dev/x"),
            ("../../..", "/", "/"),
            ("loop", "/w/loop", "/w/loop"),
        ] {
            let found = around.path(path);
            assert_eq!(
                (found.place.text(), found.target.text()),
                (Some(place.to_owned()), Some(target.to_owned())),
                "{path}"
            );
        }
    }

    #[test]
    fn a_deny_covers_what_could_be_meant_and_an_allow_only_what_is() {
        let around = around();
        for (pattern, path, deny, allow) in [
            ("src/**", "src/a", true, true),
            ("src/**", "a/src/x", true, false),
            ("src/**", "src", true, true),
            ("./src/**", "a/src/x", false, false),
            (".env", "a/.env", true, false),
            (".env", ".env", true, true),
            (".env", ".ENV", true, false),
            ("**/.env*", "a/b/.env.local", true, true),
            ("**/.env*", "/x/.env", true, false),
            ("~/.aws/", "~/.aws/credentials", true, true),
            ("//etc/passwd", "link", true, false),
            ("./**", "link", true, false),
            ("*", "a/b", true, true),
            ("docs", "docs/a", true, false),
            ("docs/", "docs/a", true, true),
            ("se\u{301}c", "s\u{e9}c", true, false),
        ] {
            let pattern_of = PathPattern::parse(pattern).unwrap();
            let path_of = around.path(path);
            assert_eq!(pattern_of.covers_some(&path_of, &around, "/w"), deny, "deny {pattern} {path}");
            assert_eq!(pattern_of.covers(&path_of, &around, "/w"), allow, "allow {pattern} {path}");
        }
        let secrets = PathPattern::parse("./secrets/**").unwrap();
        assert_eq!(secrets.covers_below(&around.path("."), &around, "/w"), Some(true));
        assert_eq!(secrets.covers_below(&around.path("src"), &around, "/w"), None);
        assert_eq!(PathPattern::parse(".env").unwrap().covers_below(&around.path("src"), &around, "/w"), Some(false));
    }

    #[test]
    fn wildcards_of_a_shell_meet_patterns() {
        let around = around();
        let env = PathPattern::parse(".env").unwrap();
        for (path, met) in [(".e*", true), ("a*", false), ("a/../.e?v", true), ("*/../x", true)] {
            let glob = Glob::of_path(path);
            assert_eq!(env.covers_some(&around.path_from("/w", &glob, path), &around, "/w"), met, "{path}");
        }
    }
}
