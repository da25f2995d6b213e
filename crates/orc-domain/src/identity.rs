//! Who made a commit and who asked for it, as git writes both down: `NAME <ADDRESS>`, and a line at a message's end.
//!
//! What holds: an [`Author`] is one line that git keeps as it is, so what was said is what `git log` shows, and its
//! `Co-Authored-By:` reads back as exactly one trailer with exactly its value. Names come from people and forges; one that
//! could end its line, or pass for an address, is refused and never mended.
//!
//! What it must never do: give a commit of an agent the name of a person.

use std::fmt;

use crate::confine::network::Host;
use crate::ids::{AgentId, WorkspaceId};

/// The domain of agents' addresses when the settings name none.
pub const DEFAULT_DOMAIN: &str = "agents.orchestrator.local";
/// Where GitHub links an account by its number, whatever it is called by then.
const GITHUB_DOMAIN: &str = "users.noreply.github.com";
/// What a forge's interface and `git log` show on a line.
const NAME_CHARS: usize = 100;
/// RFC 5321, 4.5.3.1.
const EMAIL_BYTES: usize = 254;
/// RFC 5321, 4.5.3.1.
const LOCAL_BYTES: usize = 64;
const CO_AUTHOR: &str = "Co-Authored-By";
/// Beginnings of lines that git takes as a sign that a paragraph is trailers, though not every line is one.
const WRITTEN_BY_GIT: [&str; 2] = ["Signed-off-by: ", "(cherry picked from commit "];

/// A name and an address that git keeps as they are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Author {
    name: String,
    email: String,
}

/// Why there is no such author.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IdentityError {
    /// Nothing is left of the name that git would keep.
    #[error("the name of an author is empty, or has only characters that git drops")]
    EmptyName,
    /// Too long for a line.
    #[error("the name of an author is longer than {NAME_CHARS} characters")]
    LongName,
    /// It would end the line, pass for an address, or be shown in another order than it is written.
    #[error("the name of an author has the character U+{:04X}, which may not be in one", u32::from(*.0))]
    Character(char),
    /// Not an address.
    #[error("`{}` is not an address of the form NAME@DOMAIN", .0.escape_debug())]
    Email(String),
    /// Not a login.
    #[error("`{}` is not a login of GitHub", .0.escape_debug())]
    Login(String),
}

impl AgentId {
    /// The agent of this name; the same for as long as workspace and name stay.
    #[must_use]
    pub fn of(workspace: WorkspaceId, name: &str) -> Self {
        Self::derived(workspace.uuid(), &format!("agent {name}"))
    }
}

impl Author {
    /// What git would make of both; it drops blanks and some punctuation at the ends of a name.
    ///
    /// # Errors
    /// When the name is empty or too long, has a character that may not be in it, or the address is none.
    pub fn new(name: &str, email: &str) -> Result<Self, IdentityError> {
        let is_dropped = |c: char| c.is_whitespace() || matches!(c, '.' | ',' | ':' | ';' | '"' | '\\' | '\'');
        let name = name.trim_matches(is_dropped);
        if name.is_empty() {
            return Err(IdentityError::EmptyName);
        }
        if let Some(bad) = name.chars().find(|c| !may_be_in_name(*c)) {
            return Err(IdentityError::Character(bad));
        }
        if name.chars().count() > NAME_CHARS {
            return Err(IdentityError::LongName);
        }
        if !is_email(email) {
            return Err(IdentityError::Email(email.chars().take(NAME_CHARS).collect()));
        }
        Ok(Self { name: name.to_owned(), email: email.to_owned() })
    }

    /// `NAME (agent) <agent-ID@DOMAIN>`: the address has the id, because names change.
    ///
    /// # Errors
    /// As [`Author::new`].
    pub fn agent(name: &str, id: AgentId, domain: &str) -> Result<Self, IdentityError> {
        Self::kind(name, "agent", &id.file_name(), domain)
    }

    /// `NAME (pipeline) <pipeline@DOMAIN>`: of commits that a `run:` step makes.
    ///
    /// # Errors
    /// As [`Author::new`].
    pub fn pipeline(name: &str, domain: &str) -> Result<Self, IdentityError> {
        Self::kind(name, "pipeline", "pipeline", domain)
    }

    /// Says what it is in the name, after the length of the rest was judged.
    fn kind(name: &str, kind: &str, local: &str, domain: &str) -> Result<Self, IdentityError> {
        let plain = Self::new(name, &format!("{local}@{domain}"))?;
        Ok(Self { name: format!("{} ({kind})", plain.name), ..plain })
    }

    /// An account of GitHub with the address by which GitHub links it.
    ///
    /// # Errors
    /// When it is not a login: letters, digits, `-` and `_`, at most 39, and `[bot]` after the name of an app.
    pub fn github(number: u64, login: &str) -> Result<Self, IdentityError> {
        let bare = login.strip_suffix("[bot]").unwrap_or(login);
        let is_login = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if bare.is_empty() || bare.len() > 39 || !bare.bytes().all(is_login) {
            return Err(IdentityError::Login(login.chars().take(NAME_CHARS).collect()));
        }
        Self::new(login, &format!("{number}+{login}@{GITHUB_DOMAIN}"))
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address, without brackets.
    #[must_use]
    pub fn email(&self) -> &str {
        &self.email
    }

    /// The trailer that names it as one who asked: a line without its end.
    #[must_use]
    pub fn co_authored_by(&self) -> String {
        format!("{CO_AUTHOR}: {self}")
    }

    /// The variables by which git makes it author and committer.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("GIT_AUTHOR_NAME", self.name.clone()),
            ("GIT_AUTHOR_EMAIL", self.email.clone()),
            ("GIT_COMMITTER_NAME", self.name.clone()),
            ("GIT_COMMITTER_EMAIL", self.email.clone()),
        ]
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <{}>", self.name, self.email)
    }
}

/// Not: what ends a line anywhere, what encloses an address, what changes the direction of text that follows it.
fn may_be_in_name(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '<' | '>' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{feff}')
        && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// One `@`, a domain, and before it printable ASCII without what encloses, quotes or separates addresses.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let is_local = |byte: u8| {
        byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>' | b'(' | b')' | b',' | b';' | b':' | b'\\' | b'"' | b'@')
    };
    // Git drops these at the ends of an address too.
    let is_kept = !local.starts_with(['.', '\'']) && !local.ends_with('.');
    let is_domain = matches!(Host::parse(domain), Ok(Host::Name(name)) if name == domain.to_ascii_lowercase());
    (1..=LOCAL_BYTES).contains(&local.len())
        && text.len() <= EMAIL_BYTES
        && local.bytes().all(is_local)
        && is_kept
        && is_domain
}

/// A line `KEY: VALUE` at the end of a message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Trailer {
    /// As it is written; compared without regard to case.
    pub key: String,
    /// On one line, whatever it was on.
    pub value: String,
}

/// The trailers of a commit's message, as `git interpret-trailers --parse --no-divider` reads them: those of the last
/// paragraph, if it is not the first, and if all its lines are trailers, or a quarter of them and git wrote one.
#[must_use]
pub fn parse_trailers(message: &str) -> Vec<Trailer> {
    let lines: Vec<&str> = message.lines().collect();
    let is_blank = |line: &&str| line.trim().is_empty();
    let Some(end) = lines.iter().rposition(|line| !is_blank(line) && !is_comment(line)) else { return Vec::new() };
    let Some(blank) = lines[..end].iter().rposition(is_blank) else { return Vec::new() };
    let paragraph = &lines[blank + 1..=end];
    if is_trailers(paragraph) { fold(paragraph) } else { Vec::new() }
}

fn is_comment(line: &str) -> bool {
    line.starts_with('#')
}

fn is_trailers(paragraph: &[&str]) -> bool {
    let (mut trailers, mut others, mut written_by_git) = (0_usize, 0_usize, false);
    // Lines that go on what is above them count as that does.
    let mut above_is_trailer = false;
    for line in paragraph {
        if is_comment(line) {
            above_is_trailer = false;
            continue;
        }
        let by_git = WRITTEN_BY_GIT.iter().any(|start| line.starts_with(start));
        let goes_on = line.starts_with([' ', '\t']);
        if by_git || (!goes_on && split(line).is_some()) {
            trailers += 1;
            written_by_git |= by_git;
            above_is_trailer = true;
        } else if !(goes_on && above_is_trailer) {
            others += 1;
            above_is_trailer = false;
        }
    }
    trailers > 0 && (others == 0 || (written_by_git && trailers * 3 >= others))
}

fn fold(paragraph: &[&str]) -> Vec<Trailer> {
    let mut trailers: Vec<(&str, String)> = Vec::new();
    let mut above_is_trailer = false;
    for line in paragraph {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = trailers.last_mut().filter(|_| above_is_trailer) {
                value.push(' ');
                value.push_str(line.trim_start());
            }
        } else {
            let split = split(line);
            above_is_trailer = split.is_some();
            trailers.extend(split.map(|(key, value)| (key, value.to_owned())));
        }
    }
    let trim = |(key, value): (&str, String)| Trailer { key: key.to_owned(), value: value.trim().to_owned() };
    trailers.into_iter().map(trim).collect()
}

/// Letters, digits and `-`, perhaps blanks, a colon, and the value.
fn split(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim_end_matches([' ', '\t']);
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (!key.is_empty() && key.bytes().all(is_key)).then_some((key, value))
}

#[cfg(test)]
mod tests;
