//! Rules, as people write them: `Tool` and `Tool(specifier)`.
//!
//! A rule meets a part of a call in one of two ways. A deny or a question asks whether the part **could** be meant, a grant
//! whether it **is**, in every word. The two never share an answer.

mod command;
mod exact;
mod read;

use crate::glob::{Glob, fold};
use crate::path::{Around, PathOf, PathPattern};
use crate::verdict::{Source, Verdict};
use crate::view::{Access, Family, Part, Touch, View, effects};

pub use command::{CommandPattern, Meet};
pub use exact::exactly;
pub use read::{Complaint, EFFECTS, TOOLS};

/// What a rule means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A whole tool, all tools of a server, or all tools.
    Tool(Glob),
    /// Commands of a shell.
    Command(CommandPattern),
    /// Files that are read, and files that are changed.
    Reads(PathPattern),
    /// Files that are changed.
    Edits(PathPattern),
    /// Files outside of the copy.
    Outside(Option<PathPattern>),
    /// A host.
    Host(Glob),
    /// Agents that are started.
    Agent(Glob),
    /// A plain value at the top of the input of a tool.
    Value {
        /// The tool.
        tool: String,
        /// The name.
        name: String,
        /// The value.
        value: Glob,
    },
    /// Whatever has this effect.
    Effect(&'static str),
}

/// A rule with where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// As it was written.
    pub text: String,
    /// What it means.
    pub pattern: Pattern,
    /// Where.
    pub source: Source,
    /// The directory that `/` at the start of a path means.
    pub base: String,
}

/// Which part of a call a deny or a question meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// How sure it is.
    pub meet: Meet,
    /// The part, as people should see it.
    pub part: String,
    /// A search that has to leave something out, instead of not being made.
    pub excludes: bool,
}

impl Rule {
    /// Reads a rule of a list.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, verdict: Verdict, source: Source, base: &str) -> Result<Self, Complaint> {
        let pattern = read::pattern(text.trim(), verdict)?;
        Ok(Self { text: text.trim().to_owned(), pattern, source, base: base.to_owned() })
    }

    /// What a rule about files covers, as a line of an ignore file at the root of the copy.
    #[must_use]
    pub fn ignore_line(&self, around: &Around) -> Option<String> {
        match &self.pattern {
            Pattern::Reads(pattern) | Pattern::Edits(pattern) => pattern.ignore_line(around, &self.base),
            _ => None,
        }
    }

    /// Whether it is about a whole tool.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(self.pattern, Pattern::Tool(_))
    }

    /// What of a call a deny or a question could mean.
    #[must_use]
    pub fn meets(&self, view: &View, around: &Around) -> Option<Met> {
        let whole = |meet: Meet| Some(Met { meet, part: view.shown(), excludes: false });
        match &self.pattern {
            Pattern::Tool(tool) => {
                let server = |name: &str| {
                    tool.text().is_some_and(|tool| tool.starts_with("mcp__") && name.starts_with(&format!("{tool}__")))
                };
                let named = tool.matches(&view.tool) || server(&view.tool);
                if named && !matches!(view.family, Family::Own | Family::Internal) {
                    return whole(Meet::Certain);
                }
                // A file is the same file whoever reads it.
                let reads = tool.text().as_deref() == Some("Read");
                let edits = matches!(tool.text().as_deref(), Some("Edit" | "Write"));
                let sure = |touch: &Touch| {
                    touch.certain && ((reads && touch.access == Access::Read) || (edits && touch.access.changes()))
                };
                view.all_touches().find(|touch| sure(touch)).map(|touch| met(Meet::Certain, touch))
            }
            Pattern::Command(pattern) => self.meets_commands(pattern, view),
            Pattern::Reads(pattern) => self.meets_paths(pattern, view, around, |touch| touch.access != Access::List),
            Pattern::Edits(pattern) => self.meets_paths(pattern, view, around, |touch| touch.access.changes()),
            Pattern::Outside(pattern) => {
                let touches = view.all_touches().filter(|touch| touch.certain || !touch.path.unknown);
                let mut outside = touches.filter(|touch| !around.is_inside(&touch.path) && !is_nothing(&touch.path));
                let covered = |touch: &&Touch| {
                    pattern.as_ref().is_none_or(|pattern| pattern.covers_some(&touch.path, around, &self.base))
                };
                outside.find(covered).map(|touch| met(sure(touch), touch))
            }
            Pattern::Host(host) => {
                let reaches =
                    view.all_reaches().find(|reach| reach.host.as_deref().is_none_or(|name| host.matches(name)))?;
                let meet = if reaches.host.is_some() { Meet::Certain } else { Meet::Possible };
                Some(Met {
                    meet,
                    part: format!("reach {}", reaches.host.as_deref().unwrap_or("any host")),
                    excludes: false,
                })
            }
            Pattern::Agent(agent) => {
                let name = view.scalars.get("subagent_type").map_or("", String::as_str);
                (view.family == Family::Agent && agent.matches(&fold(name))).then(|| whole(Meet::Certain))?
            }
            Pattern::Value { tool, name, value } => {
                let found = (view.tool == *tool).then(|| view.scalars.get(name)).flatten()?;
                value.matches(found).then(|| whole(Meet::Certain))?
            }
            Pattern::Effect(effect) => {
                view.effects(around).iter().any(|(found, _)| found == effect).then(|| whole(Meet::Certain))?
            }
        }
    }

    fn meets_commands(&self, pattern: &CommandPattern, view: &View) -> Option<Met> {
        if view.family != Family::Shell {
            return None;
        }
        let mut best: Option<Met> = None;
        for part in &view.parts {
            let mut meet = pattern.could_be(part);
            if meet == Meet::No {
                meet = pattern.could_start(part);
            } else if part.perhaps {
                meet = Meet::Possible;
            }
            if meet > best.as_ref().map_or(Meet::No, |met| met.meet) {
                best = Some(Met { meet, part: crate::view::safe(&part.shown), excludes: false });
            }
        }
        let text = view.text.as_deref().unwrap_or_default();
        // What could not be read is looked through, and a rule may be about more than one command.
        let scanned = view.unread.is_some() && pattern.stands_in(text);
        if best.as_ref().is_none_or(|met| met.meet < Meet::Certain) && (scanned || pattern.is_whole_text(text)) {
            return Some(Met { meet: Meet::Certain, part: view.shown(), excludes: false });
        }
        best
    }

    fn meets_paths(
        &self,
        pattern: &PathPattern,
        view: &View,
        around: &Around,
        about: impl Fn(&Touch) -> bool,
    ) -> Option<Met> {
        let mut best: Option<Met> = None;
        for touch in view.all_touches().filter(|touch| about(touch)) {
            if pattern.covers_some(&touch.path, around, &self.base) {
                let found = met(sure(touch), touch);
                if found.meet == Meet::Certain {
                    return Some(found);
                }
                best.get_or_insert(found);
            } else if touch.below
                && let Some(named) = pattern.covers_below(&touch.path, around, &self.base)
            {
                let search = view.family == Family::Looks;
                let meet = if search || named { Meet::Certain } else { Meet::Possible };
                best.get_or_insert(Met { excludes: search, ..met(meet, touch) });
            }
        }
        if best.is_none() && view.unread.is_some() {
            let name = pattern.name()?;
            let text = fold(view.text.as_deref().unwrap_or_default());
            return text.contains(&name).then(|| Met { meet: Meet::Certain, part: view.shown(), excludes: false });
        }
        best
    }

    /// Whether a grant covers the call as a whole: a tool, a page, an agent.
    #[must_use]
    pub fn grants_call(&self, view: &View, servers: &[String]) -> bool {
        match &self.pattern {
            Pattern::Tool(tool) => match tool.text() {
                Some(name) if name.starts_with("mcp__") => {
                    name == view.tool
                        || (view.tool.starts_with(&format!("{name}__")) && is_server(&name, &view.tool, servers))
                }
                Some(name) => name == view.tool,
                None if tool.tokens().len() == 1 => true,
                // A wildcard stands behind the whole name of a server, or it grants nothing.
                None => {
                    let start = tool.start();
                    let server = start
                        .strip_suffix("__")
                        .filter(|server| server.strip_prefix("mcp__").is_some_and(|name| !name.is_empty()));
                    tool.matches(&view.tool)
                        && (server.is_some_and(|server| is_server(server, &view.tool, servers))
                            || start.matches("__").count() >= 2
                                && is_server(&start[..start.rfind("__").unwrap_or(0)], &view.tool, servers))
                }
            },
            Pattern::Agent(agent) => {
                view.family == Family::Agent
                    && view.scalars.get("subagent_type").is_some_and(|name| agent.matches(&fold(name)))
            }
            _ => false,
        }
    }

    /// Whether a grant covers a file of the call.
    #[must_use]
    pub fn grants_touch(&self, touch: &Touch, around: &Around) -> bool {
        self.grants_end(touch, &touch.path.place, around) && self.grants_end(touch, &touch.path.target, around)
    }

    /// The same for one end of a path.
    #[must_use]
    pub fn grants_end(&self, touch: &Touch, end: &Glob, around: &Around) -> bool {
        match &self.pattern {
            Pattern::Reads(pattern) => {
                touch.path.exact && !touch.access.changes() && pattern.covers_text(end, around, &self.base)
            }
            Pattern::Edits(pattern) => touch.path.exact && pattern.covers_text(end, around, &self.base),
            _ => false,
        }
    }

    /// Whether a grant covers a host of the call.
    #[must_use]
    pub fn grants_host(&self, host: &str) -> bool {
        matches!(&self.pattern, Pattern::Host(pattern) if pattern.matches(host))
    }

    /// Whether a grant covers a command; whether everything that it starts is granted is said by the one who asks.
    #[must_use]
    pub fn grants_command(&self, part: &Part, inner_granted: bool) -> bool {
        match &self.pattern {
            Pattern::Command(pattern) => pattern.is(part, inner_granted),
            Pattern::Tool(tool) => tool.matches("Bash") && (tool.text().is_some() || tool.tokens().len() == 1),
            _ => false,
        }
    }
}

/// Whether a tool belongs to this server, where several are known whose names begin alike.
fn is_server(server: &str, tool: &str, servers: &[String]) -> bool {
    let name = server.strip_prefix("mcp__").unwrap_or(server);
    let of =
        servers.iter().filter(|server| tool.starts_with(&format!("mcp__{server}__"))).max_by_key(|server| server.len());
    of.is_none_or(|of| of == name)
}

fn sure(touch: &Touch) -> Meet {
    if touch.path.unknown { Meet::Possible } else { Meet::Certain }
}

fn met(meet: Meet, touch: &Touch) -> Met {
    let part = format!("{} {}", touch.access.word(), crate::view::safe(&touch.path.shown()));
    Met { meet, part, excludes: false }
}

/// Where the descriptors of a process have names.
pub(crate) const DESCRIPTORS: &str = "/dev/fd/";

/// What is written there is gone, and what is read there is nothing. So is the pipe to a command in `<(...)`: what that does
/// is looked at by itself.
#[must_use]
pub fn is_nothing(path: &PathOf) -> bool {
    match path.place.text() {
        Some(text) => NOTHING.contains(&text.as_str()),
        None => {
            let (start, tokens) = (path.place.start(), path.place.tokens());
            start == DESCRIPTORS && tokens.len() == DESCRIPTORS.len() + 1
        }
    }
}

const NOTHING: [&str; 9] = [
    "/dev/null",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/tty",
    "/dev/zero",
    "/dev/fd/0",
    "/dev/fd/1",
    "/dev/fd/2",
];

impl View {
    /// Files that it and its commands touch.
    pub fn all_touches(&self) -> impl Iterator<Item = &Touch> {
        self.touches.iter().chain(self.parts.iter().flat_map(|part| &part.touches))
    }

    /// Hosts that it and its commands reach.
    pub fn all_reaches(&self) -> impl Iterator<Item = &crate::view::Reach> {
        self.reaches.iter().chain(self.parts.iter().flat_map(|part| &part.reaches))
    }

    /// Its effects, each with the part that has it.
    #[must_use]
    pub fn effects(&self, around: &Around) -> Vec<(&'static str, String)> {
        let mut found: Vec<(&'static str, String)> = Vec::new();
        for part in &self.parts {
            let Some(name) = part.program() else { continue };
            let shape = crate::view::Shape::of(&name, &part.words[1..]);
            found.extend(effects(&name, &shape).into_iter().map(|effect| (effect, part.shown.clone())));
        }
        for touch in self.all_touches() {
            let shown = || touch.path.shown();
            if touch.access == Access::Delete {
                found.push(("fileDelete", shown()));
            }
            if touch.access.changes() && !around.is_inside(&touch.path) && !is_nothing(&touch.path) {
                found.push(("fileWriteOutside", shown()));
            }
            if touch.access.changes() && crate::floor::protected(&touch.path).is_some() {
                found.push(("settingsWrite", shown()));
            }
            if touch.access == Access::Read && crate::floor::secret(&touch.path) {
                found.push(("secretAccess", shown()));
            }
        }
        let own: &[&str] = match (self.family, self.tool.as_str()) {
            (Family::Web, _) => &["networkEgress"],
            (Family::Agent, _) | (_, "spawn_agent") => &["agentSpawn"],
            (_, "create_ticket" | "update_ticket") => &["ticketWrite"],
            _ => &[],
        };
        found.extend(own.iter().map(|effect| (*effect, self.shown())));
        found
    }
}
