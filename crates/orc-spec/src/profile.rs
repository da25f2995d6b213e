//! An agent profile, `agents/NAME.md`: front matter and a system prompt, to a [`Profile`], or every reason why not.
//!
//! Three things can be wrong with a key: it does not exist, the part of the program that reads it is not built yet, or the
//! chosen adapter cannot honour it. Each is an error of its own, because a key that is accepted and ignored is a promise
//! that nobody keeps. Nothing here reads files: schemas that a profile names by path come through [`Texts`].

mod built_in;
mod front_matter;

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::json_schema::JsonSchema;
use orc_domain::permission::Permissions;
use orc_domain::profile::{Adapter, DEFAULT_MAX_MESSAGES, MAX_SILENCE, MIN_SILENCE, Mode, Profile};

use self::front_matter::Parts;
use crate::confine::{self, Owner};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::keys;
use crate::permissions::{self, Hands};
use crate::pipeline::{check_variable, is_identifier};
use crate::read::{self, Fields};
use crate::settings::Allowance;
use crate::shell::MAX_SCRIPT_BYTES;
use crate::source::{SourceFile, Span};
use crate::yaml::{self, Entry, Kind, Node};

/// The text of a file by its path from the repository's root, or why there is none.
pub type Texts<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// What came of a file.
#[derive(Clone, Debug)]
pub struct CompiledProfile {
    /// The profile, when there is no error.
    pub profile: Option<Profile>,
    /// Everything to say about the file, in order of place.
    pub diagnostics: Vec<Diagnostic>,
}

/// Compiles one file; `allowance` is what its box may ask for, when the settings are known. Pure: equal texts give equal results.
#[must_use]
pub fn compile_profile(file: &SourceFile, texts: Texts<'_>, allowance: Option<&Allowance>) -> CompiledProfile {
    compile_among(file, (None, None), texts, allowance)
}

/// Compiles all files of a folder, in the order given: beside what is wrong with each, names that stand twice.
#[must_use]
pub fn compile_profiles(files: &[SourceFile], texts: Texts<'_>, allowance: Option<&Allowance>) -> Vec<CompiledProfile> {
    let known: BTreeSet<String> = files.iter().map(name_of).collect();
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    let mut compile = |file| {
        // Names that differ in case only are one name on some file systems.
        let twin = match taken.entry(name_of(file).to_lowercase()) {
            std::collections::btree_map::Entry::Occupied(first) => Some(*first.get()),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(&file.name);
                None
            }
        };
        compile_among(file, (twin, Some(&known)), texts, allowance)
    };
    files.iter().map(&mut compile).collect()
}

/// The name that a file gives itself, as far as it can be read.
fn name_of(file: &SourceFile) -> String {
    let mut silent = Report::new("");
    let root = front_matter::split(&file.text, &mut silent).and_then(|parts| yaml::parse(&parts.yaml, &mut silent));
    let written = root.and_then(|root| match root.kind {
        Kind::Map(entries) => entries.into_iter().find(|entry| entry.key.text == "name"),
        _ => None,
    });
    match written.map(|entry| entry.value.kind) {
        Some(Kind::Scalar(scalar)) if !scalar.is_null() => scalar.text,
        _ => file.stem().to_owned(),
    }
}

/// `twin` is a file before that gives the same name, `known` are the names of all agents, where they are known.
fn compile_among(
    file: &SourceFile,
    (twin, known): (Option<&str>, Option<&BTreeSet<String>>),
    texts: Texts<'_>,
    allowance: Option<&Allowance>,
) -> CompiledProfile {
    let mut report = Report::new(&file.name);
    let profile = front_matter::split(&file.text, &mut report).and_then(|parts| {
        let root = if file.text[parts.place.range()].trim().is_empty() {
            Node { span: parts.end, kind: Kind::Map(Vec::new()) }
        } else {
            yaml::parse(&parts.yaml, &mut report)?
        };
        Draft { file, parts, texts, twin, known, allowance }.compile(&root, &mut report)
    });
    let profile = if report.has_errors() { None } else { profile };
    CompiledProfile { profile, diagnostics: report.finish() }
}

/// A file while it is compiled.
struct Draft<'a> {
    file: &'a SourceFile,
    parts: Parts<'a>,
    texts: Texts<'a>,
    twin: Option<&'a str>,
    known: Option<&'a BTreeSet<String>>,
    allowance: Option<&'a Allowance>,
}

impl Draft<'_> {
    fn compile(&self, root: &Node, report: &mut Report) -> Option<Profile> {
        let fields = read::fields(root, &keys::PROFILE, report)?;
        let name = self.name(&fields, root, report);
        let system_prompt = self.system_prompt(report);
        let kind = self.adapter(&fields, report);
        let adapter = kind.and_then(|kind| self.runs_it(kind, &fields, root, report));
        let description = fields.get("description").and_then(|node| read::text(node, "`description`", report));
        let role = fields.get("role").and_then(|node| line(node, "`role`", report));
        let mode = fields.get("mode").map_or(Some(Mode::default()), |node| mode(node, report));
        let silence = fields.get("silence_timeout").map(|node| silence(node, report));
        let max_concurrent = fields
            .get("max_concurrent")
            .and_then(|node| read::count(node, "`max_concurrent`", keys::MAX_SLOTS, report));
        let max_messages = fields
            .get("max_messages")
            .map(|node| read::number_within(node, "`max_messages`", 0..=keys::MAX_MESSAGES, report));
        let model = fields.get("model").and_then(|node| line(node, "`model`", report));
        let env = fields.get("env").map(|node| variables(node, report)).unwrap_or_default();
        let output = fields.get("output").and_then(|node| output_schema(node, self.texts, report));
        let rules = fields
            .get("box")
            .map(|node| confine::rules(node, Owner::Agent, self.allowance, report))
            .unwrap_or_default();
        let (permissions, permission_mode) = match &adapter {
            Some(Adapter::BuiltIn(agent)) => {
                let hands = Hands::of(agent, mode.unwrap_or_default());
                let mode = fields.get("permissionMode").and_then(|node| permissions::mode(node, report));
                (rules_of_calls(&fields, &hands, report), mode)
            }
            _ => (Permissions::default(), None),
        };
        let mode = mode?;
        Some(Profile {
            permission_mode,
            permissions,
            name: name?,
            description,
            adapter: adapter?,
            role,
            mode,
            silence_timeout: silence.unwrap_or_else(|| Some(mode.silence()))?,
            max_concurrent,
            max_messages: max_messages.unwrap_or(Some(DEFAULT_MAX_MESSAGES))?,
            model,
            env,
            rules,
            output,
            system_prompt,
        })
    }

    /// The name of the file, which `name:` may repeat.
    fn name(&self, fields: &Fields<'_>, root: &Node, report: &mut Report) -> Option<String> {
        let stem = self.file.stem();
        let written = fields.entry("name");
        let place = written.map_or_else(|| first_key(root), |entry| entry.value.span);
        if let Some(first) = self.twin {
            let message = format!("another agent has this name already: `{first}`");
            report
                .error(Code::DuplicateName, place, message)
                .help("give each agent a name of its own, also in lower case");
        }
        if !is_identifier(stem) {
            let message = format!("the name of this file, `{}`, cannot be the name of an agent", read::excerpt(stem));
            report
                .error(Code::BadValue, first_key(root), message)
                .help("letters, digits, `_` and `-`, beginning with a letter, at most 64, then `.md`");
            return None;
        }
        let Some(entry) = written else {
            return Some(stem.to_owned());
        };
        let name = read::text(&entry.value, "`name`", report)?;
        if name != stem {
            let message = format!("this agent is called `{}`, and its file `{stem}`", read::excerpt(&name));
            let help = if is_identifier(&name) {
                format!("rename the file to `{name}.md`, or write `name: {stem}`")
            } else {
                format!("write `name: {stem}`, or remove this key")
            };
            report.error(Code::BadValue, entry.value.span, message).help(help);
            return None;
        }
        Some(name)
    }

    /// The body; line ends of all systems are one.
    fn system_prompt(&self, report: &mut Report) -> String {
        let body = self.parts.body.replace("\r\n", "\n");
        if body.trim().is_empty() {
            report
                .warning(Code::FrontMatter, self.parts.end, "this agent has no system prompt: nothing stands below")
                .help("write below this line who the agent is and how it works");
        }
        if let Some(at) = self.parts.body.find('\0') {
            let start = self.file.text.len() - self.parts.body.len() + at;
            report.error(Code::BadValue, Span::new(start, start + 1), "a NUL character stands in the system prompt");
        }
        body.trim_matches('\n').to_owned()
    }

    /// What runs it, if that is available.
    fn adapter(&self, fields: &Fields<'_>, report: &mut Report) -> Option<Runner> {
        let Some(node) = fields.get("adapter") else {
            let Some(entry) = fields.entry("command") else {
                return fields.lacks("adapter").then_some(Runner::BuiltIn);
            };
            report
                .error(
                    Code::MissingKey,
                    entry.key.span,
                    "this profile names a program, and not that it is one that runs it",
                )
                .help("add `adapter: command`; without it the agent is the built-in one");
            return None;
        };
        match read::word(node, "`adapter`", keys::ADAPTERS, report)? {
            "built-in" => Some(Runner::BuiltIn),
            "command" => Some(Runner::Command),
            other => {
                report
                    .error(Code::NotAvailable, node.span, format!("`adapter: {other}` is not available yet"))
                    .help("`adapter: command` runs any program, one that drives this agent included");
                None
            }
        }
    }

    fn runs_it(&self, kind: Runner, fields: &Fields<'_>, root: &Node, report: &mut Report) -> Option<Adapter> {
        match kind {
            Runner::BuiltIn => built_in::read(fields, (root, self.known), report).map(Adapter::BuiltIn),
            Runner::Command => {
                refuse_unhonoured(root, report);
                if fields.lacks("command") {
                    report
                        .error(Code::MissingKey, first_key(root), "this profile does not say which program it is")
                        .help("add `command: [PROGRAM, ARGUMENT]`, or a script that `sh` reads");
                }
                let argv = fields.get("command").and_then(|node| command(node, report));
                Some(Adapter::Command { argv: argv? })
            }
        }
    }
}

/// What runs an agent, as a profile says it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runner {
    BuiltIn,
    Command,
}

/// Rules of `permissions:`, and those that `tools:` and `disallowedTools:` say of parts of tools.
fn rules_of_calls(fields: &Fields<'_>, hands: &Hands, report: &mut Report) -> Permissions {
    let node = fields.get("permissions");
    let said = node.map(|node| permissions::permissions(node, &keys::PERMISSIONS, hands, report));
    let mut said = said.unwrap_or_default();
    let of_tools = permissions::of_tools(fields, hands, report);
    said.allow.extend(of_tools.allow);
    said.deny.extend(of_tools.deny);
    said
}

/// Keys that `adapter: command` cannot honour.
fn refuse_unhonoured(root: &Node, report: &mut Report) {
    let Kind::Map(entries) = &root.kind else {
        return;
    };
    for Entry { key, .. } in entries {
        if let Some(advice) = keys::PROFILE.key(&key.text).and_then(keys::unhonoured) {
            let message = format!("`adapter: command` cannot honour `{}`", key.text);
            report.error(Code::NotHonoured, key.span, message).help(advice);
        }
    }
}

/// A program with its arguments, or a script.
fn command(node: &Node, report: &mut Report) -> Option<Vec<String>> {
    const WANTED: &str = "a program with its arguments as a list, or a script";
    if let Some(span) = read::find_expression(node) {
        refuse_expression(span, report);
        return None;
    }
    let argv = match &node.kind {
        Kind::List(items) => {
            let argv = items.iter().map(|item| read::text(item, "`command`", report));
            argv.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>()?
        }
        _ => ["sh", "-eu", "-c"]
            .map(str::to_owned)
            .into_iter()
            .chain([read::scalar(node, "`command`", WANTED, report)?.text.clone()])
            .collect(),
    };
    if argv.iter().any(|part| part.contains('\0')) {
        report.error(Code::BadValue, node.span, "a NUL character cannot stand in a command");
        return None;
    }
    if argv.iter().any(|part| part.len() > MAX_SCRIPT_BYTES) {
        refuse_length(node.span, "a part of a command", report);
        return None;
    }
    let is_script = matches!(node.kind, Kind::Scalar(_));
    let program = if is_script { argv.last() } else { argv.first() };
    if program.is_none_or(|program| program.trim().is_empty()) {
        report.error(Code::BadValue, node.span, "no program is named").help("write `command: [PROGRAM, ARGUMENT]`");
        return None;
    }
    Some(argv)
}

/// The system would refuse to start the program.
fn refuse_length(span: Span, what: &str, report: &mut Report) {
    report
        .error(Code::Limit, span, format!("{what} has at most {MAX_SCRIPT_BYTES} bytes"))
        .help("put it into a file of the repository and name the file");
}

fn refuse_expression(span: Span, report: &mut Report) {
    report
        .error(Code::BadValue, span, "an expression cannot stand in a profile, which belongs to no flow")
        .help("what a flow knows reaches the agent in the prompt of the step, and as variables in `env:` of the step");
}

/// One line that fits a table.
fn line(node: &Node, what: &str, report: &mut Report) -> Option<String> {
    let text = read::text(node, what, report)?;
    if text.trim().is_empty() || text.chars().count() > 100 || text.chars().any(char::is_control) {
        report.error(Code::BadValue, node.span, format!("{what} is one line of 1 to 100 characters"));
        return None;
    }
    Some(text)
}

fn mode(node: &Node, report: &mut Report) -> Option<Mode> {
    if let Kind::Scalar(scalar) = &node.kind
        && scalar.text == "goal"
    {
        report.error(Code::NotAvailable, node.span, "`mode: goal` is not available yet");
        return None;
    }
    let word = read::word(node, "`mode`", keys::MODES, report)?;
    Mode::ALL.into_iter().find(|mode| mode.word() == word)
}

fn silence(node: &Node, report: &mut Report) -> Option<orc_domain::time::Millis> {
    let limit = read::duration(node, "`silence_timeout`", report)?;
    if (MIN_SILENCE..=MAX_SILENCE).contains(&limit) {
        return Some(limit);
    }
    report
        .error(Code::BadValue, node.span, format!("`silence_timeout` goes from 1m to 240m, and this is {limit}"))
        .help("the longest time of a whole run is `timeout:` of the step");
    None
}

fn variables(node: &Node, report: &mut Report) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for Entry { key, value } in read::map(node, "`env`", report).unwrap_or_default() {
        if !check_variable(key, report) {
            continue;
        }
        if let Some(span) = read::find_expression(value) {
            refuse_expression(span, report);
        } else if let Some(text) = read::text(value, &format!("`{}`", key.text), report) {
            if text.contains('\0') {
                report.error(Code::BadValue, value.span, "a NUL character cannot stand in an environment variable");
            }
            if key.text.len() + 1 + text.len() > MAX_SCRIPT_BYTES {
                refuse_length(value.span, "a variable", report);
            }
            variables.insert(key.text.clone(), text);
        }
    }
    variables
}

/// `output: { schema: ... }`: a JSON Schema that compiles.
pub(crate) fn output_schema(node: &Node, texts: Texts<'_>, report: &mut Report) -> Option<serde_json::Value> {
    let fields = read::fields(node, &keys::OUTPUT, report)?;
    let Some(schema) = fields.get("schema") else {
        if fields.lacks("schema") {
            report
                .error(Code::MissingKey, first_key(node), "`output` has no `schema`")
                .help("write `output: { schema: schemas/NAME.json }`, or the JSON Schema itself");
        }
        return None;
    };
    let json = match &schema.kind {
        Kind::Map(_) => read::value(schema)?.to_json(),
        _ => read_schema(schema, texts, report)?,
    };
    if let Err(error) = JsonSchema::compile(&json) {
        report.error(Code::BadValue, schema.span, format!("this schema cannot be used: {error}"));
        return None;
    }
    Some(json)
}

/// A schema from the file that a path names.
fn read_schema(node: &Node, texts: Texts<'_>, report: &mut Report) -> Option<serde_json::Value> {
    let path = &read::scalar(node, "`schema`", "a JSON Schema or the path of one", report)?.text;
    let is_inside = !path.starts_with('/') && path.split('/').all(|part| !part.is_empty() && part != "..");
    if !is_inside {
        report
            .error(Code::BadValue, node.span, format!("`{}` is not a path within the repository", read::excerpt(path)))
            .help("write the path from the repository's root: `schemas/NAME.json`");
        return None;
    }
    let text = match texts(path) {
        Ok(text) => text,
        Err(why) => {
            report
                .error(Code::BadValue, node.span, format!("cannot read the schema `{path}`: {why}"))
                .help("the path counts from the repository's root");
            return None;
        }
    };
    match serde_json::from_str(&text) {
        Ok(json) => Some(json),
        Err(error) => {
            report.error(Code::BadValue, node.span, format!("the schema `{path}` is not JSON: {error}"));
            None
        }
    }
}

/// For what is missing from a whole map.
fn first_key(node: &Node) -> Span {
    match &node.kind {
        Kind::Map(entries) => entries.first().map_or(node.span, |entry| entry.key.span),
        _ => node.span,
    }
}

#[cfg(test)]
mod tests;
