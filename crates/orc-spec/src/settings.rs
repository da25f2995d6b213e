//! Settings: one file, environment variables and flags, in layers; each value remembers where it came from.
//!
//! Pure: texts come in as arguments and nothing here reads a file or the environment. Precedence, highest first: managed
//! file, command line, environment, the workspace's `orchestrator.yaml`, default.

mod confine;
mod notify;
mod people;
mod providers;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use orc_domain::time::Millis;

pub use self::confine::{
    Allowance, BoxSettings, Ceiling, DEFAULT_DISK_MB, DEFAULT_MEMORY_MB, DEFAULT_OPEN_FILES, DEFAULT_PROCESSES, Excess,
    PartialConfinement, Sandbox, SecretSource, Strategy,
};
pub use self::notify::{Address, Moment, Notification, Target};
pub use self::people::{Person, Role};
pub use self::providers::{FileOf, Models, NamedFile, PartialModels, Provider, ProviderKind, Unpriced, named_files};
pub use self::rules::{PartialRules, RuleFile, RuleSettings, rules_of_file};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::keys;
use crate::pipeline::is_variable;
use crate::read;
use crate::source::SourceFile;
use crate::yaml;

/// Bytes of output kept of one run when nothing is said.
pub const DEFAULT_LOG_LIMIT: u64 = 64 * 1024 * 1024;
/// Time between TERM and KILL when nothing is said.
pub const DEFAULT_CANCEL_GRACE: Millis = Millis::from_secs(10);
/// Commands at the same time when nothing is said.
pub const DEFAULT_SLOTS: u32 = 4;
/// Variables of the host that every step sees, if they are set: what programs need to find their tools and speak the
/// user's language. Everything else is dropped unless `pass_env` names it: a script must not find a token that somebody
/// exported for something else.
pub const ALWAYS_PASSED: [&str; 24] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "JAVA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
/// The variables that [`PartialSettings::from_variables`] reads, each with the key it sets.
pub const VARIABLES: [(&str, &str); 4] = [
    ("ORC_SLOTS", "slots"),
    ("ORC_CANCEL_GRACE", "cancel_grace"),
    ("ORC_PASS_ENV", "pass_env"),
    ("ORC_LOG_LIMIT", "log_limit"),
];

/// Where a value came from; a greater one wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nothing was said.
    Default,
    /// The workspace's file: its path and line.
    Workspace(String, usize),
    /// An environment variable.
    Environment(String),
    /// A flag.
    CommandLine,
    /// The file of the machine's owner: its path and line.
    Managed(String, usize),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Workspace(path, line) | Self::Managed(path, line) => write!(f, "{path}:{line}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

/// What one source says; `None` for what it does not mention.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialSettings {
    /// `slots:`.
    pub slots: Option<Setting<u32>>,
    /// `cancel_grace:`.
    pub cancel_grace: Option<Setting<Millis>>,
    /// `pass_env:`.
    pub pass_env: Option<Setting<Vec<String>>>,
    /// `log_limit:`, in bytes.
    pub log_limit: Option<Setting<u64>>,
    /// `people:`, by name.
    pub people: Option<Setting<BTreeMap<String, Person>>>,
    /// `groups:`, by name.
    pub groups: Option<Setting<BTreeMap<String, Vec<String>>>>,
    /// `notifications:`.
    pub notifications: Option<Setting<Vec<Notification>>>,
    /// `retention:`.
    pub retention: PartialRetention,
    /// `sandbox:`, `box:`, `worktree:`, `secrets:` and `agents_domain:`.
    pub confinement: PartialConfinement,
    /// `providers:`, `prices:` and `unpriced:`.
    pub models: PartialModels,
    /// `permissions:`.
    pub rules: PartialRules,
}

/// What one source says about how long things are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialRetention {
    /// `runs:`.
    pub runs: Option<Setting<Millis>>,
    /// `logs:`.
    pub logs: Option<Setting<Millis>>,
    /// `events:`.
    pub events: Option<Setting<Millis>>,
}

/// How long what is over is kept; `None` for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Flows with their steps, runs and logs.
    pub runs: Setting<Option<Millis>>,
    /// Logs of flows.
    pub logs: Setting<Option<Millis>>,
    /// Events of flows.
    pub events: Setting<Option<Millis>>,
}

/// Every setting with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Commands that may run at the same time, at least 1.
    pub slots: Setting<u32>,
    /// Time between asking a command to end and killing it.
    pub cancel_grace: Setting<Millis>,
    /// Environment variables of the host that steps see, if they are set, beside [`ALWAYS_PASSED`].
    pub pass_env: Setting<Vec<String>>,
    /// Bytes of output kept of one run.
    pub log_limit: Setting<u64>,
    /// People, by name.
    pub people: Setting<BTreeMap<String, Person>>,
    /// Names of the members of each group.
    pub groups: Setting<BTreeMap<String, Vec<String>>>,
    /// Where people are told of what needs them.
    pub notifications: Setting<Vec<Notification>>,
    /// How long what is over is kept.
    pub retention: Retention,
    /// Whether steps need a box.
    pub sandbox: Setting<Sandbox>,
    /// Who works in boxes, what may be asked for at most, and bounds.
    pub boxes: BoxSettings,
    /// How private copies are made.
    pub strategy: Setting<Strategy>,
    /// MiB of the largest file that is kept of one; 0 is no bound.
    pub max_file_mb: Setting<u32>,
    /// Where secrets are found, by the name that pipelines call them.
    pub secrets: Setting<BTreeMap<String, SecretSource>>,
    /// The domain of the addresses that agents commit with.
    pub agents_domain: Setting<String>,
    /// Who answers calls of models, and what that costs.
    pub models: Models,
    /// Rules for all agents.
    pub rules: RuleSettings,
}

/// A setting that cannot be read from a variable or a flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: `{text}` is not {wanted}")]
pub struct SettingError {
    /// The variable or flag.
    pub name: String,
    /// As given.
    pub text: String,
    /// What it takes.
    pub wanted: &'static str,
}

/// Which file a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// `orchestrator.yaml` of the workspace.
    Workspace,
    /// The file of the machine's owner.
    Managed,
}

impl Settings {
    /// The settings that the layers give together; for each key the layer with the highest [`Origin`] wins.
    #[must_use]
    pub fn resolve(layers: &[PartialSettings]) -> Self {
        Self {
            slots: highest(layers, |layer| layer.slots.as_ref(), || DEFAULT_SLOTS),
            cancel_grace: highest(layers, |layer| layer.cancel_grace.as_ref(), || DEFAULT_CANCEL_GRACE),
            pass_env: highest(layers, |layer| layer.pass_env.as_ref(), Vec::new),
            log_limit: highest(layers, |layer| layer.log_limit.as_ref(), || DEFAULT_LOG_LIMIT),
            people: highest(layers, |layer| layer.people.as_ref(), BTreeMap::new),
            groups: highest(layers, |layer| layer.groups.as_ref(), BTreeMap::new),
            notifications: highest(layers, |layer| layer.notifications.as_ref(), Vec::new),
            retention: Retention {
                runs: kept(layers, |layer| layer.retention.runs.as_ref()),
                logs: kept(layers, |layer| layer.retention.logs.as_ref()),
                events: kept(layers, |layer| layer.retention.events.as_ref()),
            },
            sandbox: highest(layers, |layer| layer.confinement.sandbox.as_ref(), Sandbox::default),
            boxes: BoxSettings::resolve(layers),
            strategy: highest(layers, |layer| layer.confinement.strategy.as_ref(), Strategy::default),
            max_file_mb: PartialConfinement::max_file_mb(layers),
            secrets: highest(layers, |layer| layer.confinement.secrets.as_ref(), BTreeMap::new),
            agents_domain: highest(
                layers,
                |layer| layer.confinement.agents_domain.as_ref(),
                || orc_domain::identity::DEFAULT_DOMAIN.to_owned(),
            ),
            models: Models::resolve(layers),
            rules: RuleSettings::resolve(layers),
        }
    }

    /// What boxes may be asked for.
    #[must_use]
    pub fn allowance(&self) -> Allowance {
        Allowance::of(&self.boxes, &self.secrets.value)
    }

    /// Names that an approval may be for: people and groups.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        self.people.value.keys().chain(self.groups.value.keys()).cloned().collect()
    }

    /// Key, value as text, and origin of each setting, for `config show --origin`.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String, &Origin)> {
        let names = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<_>>().join(" ");
        let kind = |notification: &Notification| match &notification.target {
            Target::Command(argv) => argv.first().cloned().unwrap_or_default(),
            Target::Webhook { .. } => "webhook".to_owned(),
        };
        let kept =
            |age: &Setting<Option<Millis>>| age.value.map_or_else(|| "for ever".to_owned(), |age| age.to_string());
        let Retention { runs, logs, events } = &self.retention;
        let mut rows = vec![
            ("slots", self.slots.value.to_string(), &self.slots.origin),
            ("cancel_grace", self.cancel_grace.value.to_string(), &self.cancel_grace.origin),
            ("pass_env", self.pass_env.value.join(" "), &self.pass_env.origin),
            ("log_limit", size_text(self.log_limit.value), &self.log_limit.origin),
            ("people", names(&mut self.people.value.keys()), &self.people.origin),
            ("groups", names(&mut self.groups.value.keys()), &self.groups.origin),
            (
                "notifications",
                self.notifications.value.iter().map(kind).collect::<Vec<_>>().join(" "),
                &self.notifications.origin,
            ),
            ("retention.runs", kept(runs), &runs.origin),
            ("retention.logs", kept(logs), &logs.origin),
            ("retention.events", kept(events), &events.origin),
            ("sandbox", self.sandbox.value.word().to_owned(), &self.sandbox.origin),
            ("worktree.strategy", self.strategy.value.word().to_owned(), &self.strategy.origin),
            ("worktree.max_file_mb", confine::bound(&self.max_file_mb), &self.max_file_mb.origin),
            ("secrets", names(&mut self.secrets.value.keys()), &self.secrets.origin),
            ("agents_domain", self.agents_domain.value.clone(), &self.agents_domain.origin),
        ];
        rows.extend(self.boxes.rows());
        rows.extend(self.rules.rows());
        rows.extend([
            (
                "providers",
                names(&mut self.models.providers.value.iter().map(|provider| &provider.name)),
                &self.models.providers.origin,
            ),
            ("prices", self.models.prices.value.clone().unwrap_or_default(), &self.models.prices.origin),
            ("unpriced", self.models.unpriced.value.word().to_owned(), &self.models.unpriced.origin),
        ]);
        rows
    }
}

/// Bytes in the largest unit that says them exactly, as a setting is written.
fn size_text(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let exact = units.iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    exact.map_or_else(|| format!("{bytes}B"), |(name, unit)| format!("{}{name}", bytes / unit))
}

fn kept(
    layers: &[PartialSettings],
    pick: impl Fn(&PartialSettings) -> Option<&Setting<Millis>>,
) -> Setting<Option<Millis>> {
    match highest_of(layers, pick) {
        Some(setting) => Setting { value: Some(setting.value), origin: setting.origin.clone() },
        None => Setting { value: None, origin: Origin::Default },
    }
}

fn highest<T: Clone>(
    layers: &[PartialSettings],
    pick: impl Fn(&PartialSettings) -> Option<&Setting<T>>,
    default: impl FnOnce() -> T,
) -> Setting<T> {
    highest_of(layers, pick).cloned().unwrap_or_else(|| Setting { value: default(), origin: Origin::Default })
}

fn highest_of<'a, T: 'a>(
    layers: &'a [PartialSettings],
    pick: impl Fn(&'a PartialSettings) -> Option<&'a Setting<T>>,
) -> Option<&'a Setting<T>> {
    layers.iter().filter_map(pick).max_by(|left, right| left.origin.cmp(&right.origin))
}

impl PartialSettings {
    /// Reads a settings file. An empty file says nothing. With any problem the result is what was understood; callers
    /// refuse to go on.
    #[must_use]
    pub fn parse(file: &SourceFile, kind: FileKind) -> (Self, Vec<Diagnostic>) {
        let mut report = Report::new(&file.name);
        let mut settings = Self::default();
        let is_blank = file.text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        if !is_blank && let Some(root) = yaml::parse(&file.text, &mut report) {
            settings.read(file, kind, &root, &mut report);
        }
        (settings, report.finish())
    }

    fn read(&mut self, file: &SourceFile, kind: FileKind, root: &yaml::Node, report: &mut Report) {
        let Some(fields) = read::fields(root, &keys::SETTINGS, report) else {
            return;
        };
        let origin_of = |fields: &read::Fields<'_>, key: &str| {
            let start = fields.entry(key).map_or(0, |entry| entry.key.span.start);
            let line = file.position(start).line;
            match kind {
                FileKind::Workspace => Origin::Workspace(file.name.clone(), line),
                FileKind::Managed => Origin::Managed(file.name.clone(), line),
            }
        };
        let origin = |key: &str| origin_of(&fields, key);
        if let Some(node) = fields.get("retention")
            && let Some(fields) = read::fields(node, &keys::RETENTION, report)
        {
            let mut age = |key: &str| {
                let value = read::duration(fields.get(key)?, &format!("`{key}`"), report)?;
                Some(Setting { value, origin: origin_of(&fields, key) })
            };
            self.retention = PartialRetention { runs: age("runs"), logs: age("logs"), events: age("events") };
        }
        self.confinement = PartialConfinement::read(&fields, &origin_of, report);
        self.models = PartialModels::read(&fields, &origin_of, report);
        self.rules = PartialRules::read(&fields, &origin_of, report);
        self.slots = fields
            .get("slots")
            .and_then(|node| read::count(node, "`slots`", keys::MAX_SLOTS, report))
            .map(|value| Setting { value, origin: origin("slots") });
        self.cancel_grace = fields
            .get("cancel_grace")
            .and_then(|node| read::duration(node, "`cancel_grace`", report))
            .map(|value| Setting { value, origin: origin("cancel_grace") });
        self.log_limit = fields
            .get("log_limit")
            .and_then(|node| read::size(node, "`log_limit`", report))
            .map(|value| Setting { value, origin: origin("log_limit") });
        self.pass_env = fields
            .get("pass_env")
            .map(|node| pass_env(node, report))
            .map(|value| Setting { value, origin: origin("pass_env") });
        self.people = fields
            .get("people")
            .map(|node| people::people(node, report))
            .map(|value| Setting { value, origin: origin("people") });
        let people = self.people.as_ref().map(|people| &people.value);
        self.groups = fields
            .get("groups")
            .map(|node| people::groups(node, people, report))
            .map(|value| Setting { value, origin: origin("groups") });
        self.notifications = fields
            .get("notifications")
            .map(|node| notify::notifications(node, report))
            .map(|value| Setting { value, origin: origin("notifications") });
    }

    /// Reads the variables of [`VARIABLES`]; `lookup` gives the value of one, if it is set.
    ///
    /// # Errors
    /// Every [`SettingError`] at once.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<SettingError>> {
        let mut settings = Self::default();
        let mut errors = Vec::new();
        for (name, key) in VARIABLES {
            if let Some(text) = lookup(name)
                && let Err(wanted) = settings.set(key, &text, &Origin::Environment(name.to_owned()))
            {
                errors.push(SettingError { name: name.to_owned(), text, wanted });
            }
        }
        if errors.is_empty() { Ok(settings) } else { Err(errors) }
    }

    /// Sets one key from the text of a flag.
    ///
    /// # Errors
    /// [`SettingError`] when the key does not take the text; an unknown key takes none.
    pub fn set_from_flag(&mut self, key: &str, text: &str) -> Result<(), SettingError> {
        self.set(key, text, &Origin::CommandLine).map_err(|wanted| SettingError {
            name: format!("--{}", key.replace('_', "-")),
            text: text.to_owned(),
            wanted,
        })
    }

    fn set(&mut self, key: &str, text: &str, origin: &Origin) -> Result<(), &'static str> {
        let origin = origin.clone();
        match key {
            "slots" => {
                let slots = text.trim().parse().ok().filter(|slots| (1..=keys::MAX_SLOTS).contains(slots));
                let value = slots.ok_or("a whole number from 1 to 10000")?;
                self.slots = Some(Setting { value, origin });
            }
            "cancel_grace" => {
                let grace = Millis::parse(text).filter(|grace| *grace != Millis::ZERO);
                let value = grace.ok_or("a length of time such as `10s`")?;
                self.cancel_grace = Some(Setting { value, origin });
            }
            "pass_env" => {
                let value: Vec<String> =
                    text.split([' ', ',']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
                if !value.iter().all(|name| is_variable(name)) {
                    return Err("names of environment variables with blanks between them");
                }
                self.pass_env = Some(Setting { value, origin });
            }
            "log_limit" => {
                let value = read::parse_size(text).ok_or("a number of bytes such as `64MiB`")?;
                self.log_limit = Some(Setting { value, origin });
            }
            _ => return Err("a value for a key that exists"),
        }
        Ok(())
    }
}

fn pass_env(node: &yaml::Node, report: &mut Report) -> Vec<String> {
    let mut names = Vec::new();
    if matches!(&node.kind, yaml::Kind::Scalar(scalar) if !scalar.is_null()) {
        read::wrong_type(node, "`pass_env`", "a list of names", report);
        return names;
    }
    for name in read::names(node, "`pass_env`", report) {
        if is_variable(&name.text) {
            names.push(name.text);
            continue;
        }
        let message = format!("`{}` cannot be the name of an environment variable", read::excerpt(&name.text));
        let problem = report.error(Code::BadValue, name.span, message);
        if name.text.contains('=') {
            problem.help("only the name: the value is the host's; for values of your own, write `env:` in a pipeline");
        } else {
            problem.help("letters, digits and `_`, beginning with a letter or `_`");
        }
    }
    names
}

#[cfg(test)]
mod tests;
