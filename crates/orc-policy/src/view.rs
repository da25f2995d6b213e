//! One view of a call, whatever tool it is: which commands it runs and which files and hosts it touches. Rules meet these,
//! so a file is the same file whether a tool, a redirect, `cp` or an address of a web page names it.
//!
//! What is not known for certain is marked, never left out: a deny may look at it, a grant may not.

pub mod arg;
mod command;
mod danger;
mod files;
mod said;
mod shape;
mod wrapped;
mod written;

use std::collections::BTreeMap;

use serde_json::Value;

pub use arg::Arg;
pub use danger::effects;
pub use shape::Shape;

use crate::path::{Around, PathOf};
use crate::verdict::Class;

/// Letters of a command that a grant looks at, at most. A longer one is for people to read.
pub const MAX_GRANTED: usize = 10_000;
/// Bytes of a command that are read as a shell would, at most. Of a longer one the text is looked through.
pub const MAX_READ: usize = 16 * 1024;

/// A call as an agent makes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// Its input.
    pub input: Value,
}

impl Call {
    /// A call.
    #[must_use]
    pub fn new(tool: &str, input: Value) -> Self {
        Self { tool: tool.to_owned(), input }
    }
}

/// What something does with a file or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It reads it.
    Read,
    /// It looks at its name, or goes there.
    List,
    /// It makes or changes it.
    Write,
    /// It removes it.
    Delete,
    /// It runs it.
    Execute,
}

impl Access {
    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "look at",
            Self::Write => "write",
            Self::Delete => "remove",
            Self::Execute => "run",
        }
    }

    /// Whether the file is another one afterwards.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Delete)
    }
}

/// A file that is touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// How.
    pub access: Access,
    /// Which.
    pub path: PathOf,
    /// It is touched for certain. An unknown program may read what it is told of, or not.
    pub certain: bool,
    /// A redirect of the shell does it, not the command.
    pub redirect: bool,
    /// Everything below it, too.
    pub below: bool,
}

/// A host that is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Its name, in lower case; `None` is any.
    pub host: Option<String>,
}

/// A command, as it is written or as another one starts it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Its words; the first names the program.
    pub words: Vec<Arg>,
    /// What is set for it.
    pub assigns: Vec<(String, Arg)>,
    /// Files that it touches, redirects first.
    pub touches: Vec<Touch>,
    /// Hosts that it reaches.
    pub reaches: Vec<Reach>,
    /// Commands that it starts, by their place in the view.
    pub inner: Vec<usize>,
    /// It starts something that cannot be known.
    pub opaque: Option<&'static str>,
    /// It adds nothing to what it starts.
    pub harmless: bool,
    /// Its own words before those of the command that it starts.
    pub own_words: usize,
    /// It is written in the call, not started by another.
    pub outer: bool,
    /// It may be no command, but words of a program that nothing is known about.
    pub perhaps: bool,
    /// It may run in a directory outside of the copy, or in one that is not known.
    pub elsewhere: bool,
    /// It names a function that the same text defines.
    pub function: bool,
    /// It removes what nobody wants removed.
    pub removal: Option<String>,
    /// As people should see it.
    pub shown: String,
}

/// What kind of tool it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// It reads files: `Read`, `Glob`, `Grep`.
    Looks,
    /// It changes files.
    Edits,
    /// A shell.
    Shell,
    /// It fetches pages.
    Web,
    /// It starts agents.
    Agent,
    /// It runs other tools.
    Nested,
    /// It belongs to a server.
    Server,
    /// It changes nothing outside of the run.
    Own,
    /// Our own call of git, with its environment cleared.
    Internal,
    /// Nothing is known about it.
    Other,
}

/// A call, read.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The tool's name, in its one spelling.
    pub tool: String,
    /// What kind of tool it is.
    pub family: Family,
    /// Commands, those that are written and those that they start.
    pub parts: Vec<Part>,
    /// Files that the tool itself touches.
    pub touches: Vec<Touch>,
    /// Hosts that the tool itself reaches.
    pub reaches: Vec<Reach>,
    /// Calls inside of it.
    pub nested: Vec<Self>,
    /// Plain values at the top of its input.
    pub scalars: BTreeMap<String, String>,
    /// Why it could not be read to its end.
    pub unread: Option<String>,
    /// The text of a command.
    pub text: Option<String>,
    /// Longer than a grant looks at.
    pub long: bool,
}

/// A tool's name in its one spelling.
#[must_use]
pub fn tool_name(name: &str) -> &str {
    match name {
        "Task" => "Agent",
        "FileMention" => "Read",
        "LS" => "Glob",
        other => other,
    }
}

fn family(tool: &str) -> Family {
    match tool {
        "Read" | "Glob" | "Grep" | "NotebookRead" => Family::Looks,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Family::Edits,
        "Bash" => Family::Shell,
        "WebFetch" => Family::Web,
        "Agent" => Family::Agent,
        "CodeMode" => Family::Nested,
        "TodoWrite" | "BashOutput" | "KillShell" | "submit_output" | "report_blocked" | "report_progress"
        | "ask_person" => Family::Own,
        "InternalGit" => Family::Internal,
        name if name.starts_with("mcp__") => Family::Server,
        _ => Family::Other,
    }
}

/// Whether it is a tool that is known by this name, whatever may be said about it.
#[must_use]
pub fn is_known(tool: &str) -> bool {
    family(tool_name(tool)) != Family::Other || matches!(tool, "spawn_agent" | "create_ticket" | "update_ticket")
}

impl View {
    /// Reads a call.
    #[must_use]
    pub fn of(call: &Call, around: &Around) -> Self {
        let tool = tool_name(&call.tool).to_owned();
        let mut view = Self {
            family: family(&tool),
            tool,
            parts: Vec::new(),
            touches: Vec::new(),
            reaches: Vec::new(),
            nested: Vec::new(),
            scalars: scalars(&call.input),
            unread: None,
            text: None,
            long: false,
        };
        match view.family {
            Family::Shell => view.shell(&call.input, around),
            Family::Looks | Family::Edits => files::read(&mut view, &call.input, around),
            Family::Web => files::web(&mut view, &call.input),
            Family::Server | Family::Other => files::named(&mut view, &call.input, around),
            Family::Nested => view.inner_calls(&call.input, around),
            Family::Agent | Family::Own | Family::Internal => {}
        }
        view
    }

    fn shell(&mut self, input: &Value, around: &Around) {
        let Some(text) = input.get("command").and_then(Value::as_str) else {
            self.unread = Some("it has no `command`".to_owned());
            return;
        };
        self.text = Some(text.to_owned());
        self.long = text.chars().count() > MAX_GRANTED;
        if text.len() > MAX_READ {
            self.unread = Some(format!("it is longer than {MAX_READ} bytes"));
            return;
        }
        if text.contains('\0') {
            self.unread = Some("it has a NUL in it".to_owned());
        }
        command::read(self, text, around);
    }

    fn inner_calls(&mut self, input: &Value, around: &Around) {
        let Some(calls) = input.get("inner").and_then(Value::as_array) else {
            self.unread = Some("the calls in it can't be read".to_owned());
            return;
        };
        for inner in calls {
            let Some(tool) = inner.get("tool").and_then(Value::as_str) else {
                self.unread = Some("a call in it names no tool".to_owned());
                continue;
            };
            let input = inner.get("input").unwrap_or(inner);
            if tool == "CodeMode" {
                self.unread = Some("a call in it has calls of its own".to_owned());
                continue;
            }
            self.nested.push(Self::of(&Call::new(tool, input.clone()), around));
        }
    }

    /// What it does at most.
    #[must_use]
    pub fn class(&self) -> Class {
        let own = match self.family {
            Family::Looks | Family::Own | Family::Internal => Class::Read,
            Family::Edits => Class::Edit,
            Family::Shell if self.parts.is_empty() && self.unread.is_none() => Class::Read,
            Family::Shell if self.unread.is_none() => Class::Read,
            Family::Shell | Family::Agent | Family::Nested | Family::Other => Class::Run,
            Family::Web | Family::Server => Class::Network,
        };
        let parts = self.parts.iter().map(Part::class);
        let nested = self.nested.iter().map(Self::class);
        parts.chain(nested).fold(own, Class::max)
    }

    /// The call in a line, as people should see it: nothing in it hides, and nothing is left out.
    #[must_use]
    pub fn shown(&self) -> String {
        match (&self.text, self.touches.first()) {
            (Some(text), _) => format!("{}({})", self.tool, safe(text)),
            (None, Some(touch)) => format!("{}({})", self.tool, safe(&touch.path.shown())),
            (None, None) => {
                let words: Vec<String> =
                    self.scalars.iter().map(|(name, value)| format!("{name}: {}", safe(value))).collect();
                if words.is_empty() { self.tool.clone() } else { format!("{}({})", self.tool, words.join(", ")) }
            }
        }
    }
}

/// Text with everything visible: letters without a width, turned order, controls and ends of lines are written out.
#[must_use]
pub fn safe(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == ' ' || !crate::programs::is_odd(letter.encode_utf8(&mut [0; 4])) {
            shown.push(letter);
        } else {
            shown.extend(letter.escape_default());
        }
    }
    shown
}

fn scalars(input: &Value) -> BTreeMap<String, String> {
    let Some(input) = input.as_object() else { return BTreeMap::new() };
    let scalar = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Some((name.clone(), text.clone())),
        Value::Bool(value) => Some((name.clone(), value.to_string())),
        Value::Number(value) => Some((name.clone(), value.to_string())),
        _ => None,
    };
    input.iter().filter_map(scalar).collect()
}
