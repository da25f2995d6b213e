//! `sandbox:`, `box:`, `worktree:`, `secrets:` and `agents_domain:`: how copies and boxes are made, and what pipelines and
//! agents may ask for at most.
//!
//! Nothing here is the value of a secret: settings say where one is found, and a value that stands in a file is refused.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::confine::BoxRules;
use orc_domain::confine::network::{Entry, Host};
use orc_domain::confine::paths;
use orc_domain::identity::DEFAULT_DOMAIN;
use orc_domain::suggest::closest;

use super::{Origin, PartialSettings, Setting, highest, highest_of};
use crate::confine::{self, Right};
use crate::diagnostic::{Code, Report};
use crate::keys;
use crate::pipeline::{check_variable, is_variable};
use crate::read::{self, Fields};
use crate::source::Span;
use crate::yaml::{Entry as Member, Kind, Node};

/// Whether steps need a box. There is one answer, which people read where they look for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Without one, nothing runs but what works in place.
    #[default]
    Required,
}

impl Sandbox {
    /// The word of `sandbox:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Required => "required",
        }
    }
}

/// How private copies are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The best that this machine can do, and a plain copy only after a person allowed it.
    #[default]
    Auto,
    /// A layer for changes over files that never change.
    Overlay,
    /// A snapshot of a btrfs subvolume.
    Btrfs,
    /// A plain copy.
    Clone,
}

impl Strategy {
    const ALL: [Self; 4] = [Self::Auto, Self::Overlay, Self::Btrfs, Self::Clone];

    /// The word of `strategy:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Overlay => "overlay",
            Self::Btrfs => "btrfs",
            Self::Clone => "clone",
        }
    }
}

/// Where a secret is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the host.
    Variable(String),
    /// A file, absolute or below `~/`; a line end at its end does not belong to the secret.
    File(String),
}

/// What may be asked for at most, in normal form; `None` is all that is not hidden.
pub type Ceiling = Setting<Option<BTreeSet<String>>>;

/// `box:` of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoxSettings {
    /// Number of the user that works in boxes; never 0.
    pub uid: Setting<Option<u32>>,
    /// Number of its group; never 0.
    pub gid: Setting<Option<u32>>,
    /// Paths that may be read.
    pub read: Ceiling,
    /// Paths that may be changed.
    pub write: Ceiling,
    /// Hosts.
    pub network: Ceiling,
    /// Variables of the host.
    pub env: Ceiling,
    /// Processes and threads of a box.
    pub processes: Setting<u32>,
    /// Its memory in MiB; 0 is no bound.
    pub memory_mb: Setting<u32>,
    /// MiB that it may write; 0 is no bound.
    pub disk_mb: Setting<u32>,
    /// Files that one process may have open.
    pub open_files: Setting<u32>,
}

/// Processes and threads of a box when nothing is said.
pub const DEFAULT_PROCESSES: u32 = 512;
/// MiB of memory of a box when nothing is said.
pub const DEFAULT_MEMORY_MB: u32 = 8192;
/// MiB that a box may write when nothing is said.
pub const DEFAULT_DISK_MB: u32 = 10_240;
/// Open files of a process when nothing is said.
pub const DEFAULT_OPEN_FILES: u32 = 4096;

/// MiB of the largest file that is kept of a copy when nothing is said: more than forges take (100 MiB at GitHub), and what
/// is made of it still takes seconds and not minutes.
const DEFAULT_MAX_FILE_MB: u32 = 1024;

/// What one source says of boxes and copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialConfinement {
    /// `sandbox:`.
    pub sandbox: Option<Setting<Sandbox>>,
    /// `worktree.strategy:`.
    pub strategy: Option<Setting<Strategy>>,
    /// `secrets:`, by name.
    pub secrets: Option<Setting<BTreeMap<String, SecretSource>>>,
    /// `agents_domain:`.
    pub agents_domain: Option<Setting<String>>,
    /// Numbers of `box:` and `box.limits:`, by key.
    numbers: BTreeMap<&'static str, Setting<u32>>,
    /// Lists of `box:`, by key.
    ceilings: BTreeMap<Right, Setting<BTreeSet<String>>>,
}

/// Says where the keys of a map stand.
pub(super) type OriginOf<'a> = &'a dyn Fn(&Fields<'_>, &str) -> Origin;

impl PartialConfinement {
    pub(super) fn read(fields: &Fields<'_>, origin_of: OriginOf<'_>, report: &mut Report) -> Self {
        let origin = |key: &str| origin_of(fields, key);
        let mut settings = Self::default();
        if let Some(node) = fields.get("sandbox") {
            settings.sandbox = sandbox(node, report).map(|value| Setting { value, origin: origin("sandbox") });
        }
        if let Some(node) = fields.get("secrets") {
            settings.secrets = Some(Setting { value: secrets(node, report), origin: origin("secrets") });
        }
        if let Some(node) = fields.get("agents_domain") {
            let value = domain(node, report);
            settings.agents_domain = value.map(|value| Setting { value, origin: origin("agents_domain") });
        }
        if let Some(fields) =
            fields.get("worktree").and_then(|node| read::fields(node, &keys::WORKTREE_SETTINGS, report))
        {
            settings.read_worktree(&fields, origin_of, report);
        }
        if let Some(fields) = fields.get("box").and_then(|node| read::fields(node, &keys::BOX_SETTINGS, report)) {
            settings.read_box(&fields, origin_of, report);
        }
        settings
    }

    fn read_box(&mut self, fields: &Fields<'_>, origin_of: OriginOf<'_>, report: &mut Report) {
        for key in ["uid", "gid"] {
            let Some(node) = fields.get(key) else { continue };
            if matches!(&node.kind, Kind::Scalar(scalar) if scalar.plain && scalar.text == "0") {
                let message = format!("`{key}: 0` is root, and nothing in a box is root");
                report
                    .error(Code::BadValue, node.span, message)
                    .help("name a user that owns nothing else; `orchestrator doctor --fix` makes one");
                continue;
            }
            self.number(key, read::count(node, &format!("`{key}`"), keys::MAX_ID, report), origin_of(fields, key));
        }
        if let (Some(entry), true) = (fields.entry("gid"), fields.lacks("uid")) {
            report
                .error(Code::Conflict, entry.key.span, "`gid` has a meaning beside `uid` only")
                .help("add `uid:` with the number of the user");
        }
        for right in [Right::Read, Right::Write, Right::Network, Right::Env] {
            if let Some(node) = fields.get(right.word()) {
                let value = confine::entries(node, right, report).into_iter().map(|entry| entry.text).collect();
                self.ceilings.insert(right, Setting { value, origin: origin_of(fields, right.word()) });
            }
        }
        let Some(fields) = fields.get("limits").and_then(|node| read::fields(node, &keys::BOX_LIMITS, report)) else {
            return;
        };
        let limits = [
            ("processes", 1..=keys::MAX_PROCESSES),
            ("memory_mb", 0..=keys::MAX_MEBIBYTES),
            ("disk_mb", 0..=keys::MAX_MEBIBYTES),
            ("open_files", 1..=keys::MAX_OPEN_FILES),
        ];
        for (key, range) in limits {
            if let Some(node) = fields.get(key) {
                let value = read::number_within(node, &format!("`{key}`"), range, report);
                self.number(key, value, origin_of(&fields, key));
            }
        }
    }

    fn read_worktree(&mut self, fields: &Fields<'_>, origin_of: OriginOf<'_>, report: &mut Report) {
        if let Some(node) = fields.get("strategy") {
            let word = read::word(node, "`strategy`", keys::STRATEGIES, report);
            let value = Strategy::ALL.into_iter().find(|strategy| Some(strategy.word()) == word);
            self.strategy = value.map(|value| Setting { value, origin: origin_of(fields, "strategy") });
        }
        if let Some(node) = fields.get("max_file_mb") {
            let value = read::number_within(node, "`max_file_mb`", 0..=keys::MAX_MEBIBYTES, report);
            self.number("max_file_mb", value, origin_of(fields, "max_file_mb"));
        }
    }

    /// MiB of the largest file that is kept of a copy.
    pub(super) fn max_file_mb(layers: &[PartialSettings]) -> Setting<u32> {
        highest(layers, |layer| layer.confinement.numbers.get("max_file_mb"), || DEFAULT_MAX_FILE_MB)
    }

    fn number(&mut self, key: &'static str, value: Option<u32>, origin: Origin) {
        if let Some(value) = value {
            self.numbers.insert(key, Setting { value, origin });
        }
    }
}

impl BoxSettings {
    pub(super) fn resolve(layers: &[PartialSettings]) -> Self {
        let number = |layer: &PartialSettings, key: &str| layer.confinement.numbers.get(key).cloned();
        let limit = |key: &str, default: u32| highest(layers, |layer| layer.confinement.numbers.get(key), || default);
        let ceiling =
            |right: Right| or_none(highest_of(layers, |layer| layer.confinement.ceilings.get(&right)).cloned());
        // A group belongs to the user that was named with it, never to one of another layer.
        let of_user = layers.iter().max_by_key(|layer| layer.confinement.numbers.get("uid").map(|uid| &uid.origin));
        let of_user = |key| or_none(of_user.and_then(|layer| number(layer, key)));
        Self {
            uid: of_user("uid"),
            gid: of_user("gid"),
            read: ceiling(Right::Read),
            write: ceiling(Right::Write),
            network: ceiling(Right::Network),
            env: ceiling(Right::Env),
            processes: limit("processes", DEFAULT_PROCESSES),
            memory_mb: limit("memory_mb", DEFAULT_MEMORY_MB),
            disk_mb: limit("disk_mb", DEFAULT_DISK_MB),
            open_files: limit("open_files", DEFAULT_OPEN_FILES),
        }
    }

    pub(super) fn rows(&self) -> Vec<(&'static str, String, &Origin)> {
        let id = |id: &Setting<Option<u32>>| id.value.map_or_else(|| "none".to_owned(), |id| id.to_string());
        let ceiling = |ceiling: &Ceiling| match &ceiling.value {
            None => "all that is not hidden".to_owned(),
            Some(entries) if entries.is_empty() => "nothing".to_owned(),
            Some(entries) => entries.iter().cloned().collect::<Vec<_>>().join(" "),
        };
        vec![
            ("box.uid", id(&self.uid), &self.uid.origin),
            ("box.gid", id(&self.gid), &self.gid.origin),
            ("box.read", ceiling(&self.read), &self.read.origin),
            ("box.write", ceiling(&self.write), &self.write.origin),
            ("box.network", ceiling(&self.network), &self.network.origin),
            ("box.env", ceiling(&self.env), &self.env.origin),
            ("box.limits.processes", bound(&self.processes), &self.processes.origin),
            ("box.limits.memory_mb", bound(&self.memory_mb), &self.memory_mb.origin),
            ("box.limits.disk_mb", bound(&self.disk_mb), &self.disk_mb.origin),
            ("box.limits.open_files", bound(&self.open_files), &self.open_files.origin),
        ]
    }
}

/// A bound as people read it.
pub(super) fn bound(limit: &Setting<u32>) -> String {
    match limit.value {
        0 => "no bound".to_owned(),
        limit => limit.to_string(),
    }
}

fn or_none<T>(setting: Option<Setting<T>>) -> Setting<Option<T>> {
    match setting {
        Some(Setting { value, origin }) => Setting { value: Some(value), origin },
        None => Setting { value: None, origin: Origin::Default },
    }
}

/// What boxes may be asked for, by the settings in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    ceilings: BTreeMap<Right, Ceiling>,
    secrets: BTreeSet<String>,
}

/// Something that is asked for and not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The key of `box:`.
    pub key: &'static str,
    /// Its entry.
    pub entry: String,
    /// Why not, one line; names the setting.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Excess {
    pub(crate) fn tell(self, place: Span, report: &mut Report) {
        report.error(Code::NotAllowed, place, self.message).help(self.help);
    }
}

impl Allowance {
    pub(super) fn of(boxes: &BoxSettings, secrets: &BTreeMap<String, SecretSource>) -> Self {
        let ceilings = [
            (Right::Read, &boxes.read),
            (Right::Write, &boxes.write),
            (Right::Network, &boxes.network),
            (Right::Env, &boxes.env),
        ];
        Self {
            ceilings: ceilings.into_iter().map(|(right, ceiling)| (right, ceiling.clone())).collect(),
            secrets: secrets.keys().cloned().collect(),
        }
    }

    /// Everything of these rules that is not allowed. The compiler says it at its place; this is for rules that were
    /// compiled before, under other settings.
    #[must_use]
    pub fn excess(&self, rules: &BoxRules) -> Vec<Excess> {
        let entries = Right::ALL.into_iter().flat_map(|right| right.of(rules).iter().map(move |entry| (right, entry)));
        entries.filter_map(|(right, entry)| self.judge(right, entry)).collect()
    }

    pub(crate) fn judge(&self, right: Right, entry: &str) -> Option<Excess> {
        let excess =
            |message: String, help: String| Some(Excess { key: right.word(), entry: entry.to_owned(), message, help });
        if right == Right::Secrets {
            if self.secrets.contains(entry) {
                return None;
            }
            let help = match closest(entry, self.secrets.iter().map(String::as_str)) {
                Some(close) => format!("did you mean `{close}`?"),
                None => {
                    format!("say where it is found, in orchestrator.yaml: `secrets: {{ {entry}: {{ env: NAME }} }}`")
                }
            };
            return excess(format!("the settings have no secret `{entry}`"), help);
        }
        let Setting { value: Some(most), origin } = self.ceilings.get(&right)? else {
            return None;
        };
        // What may be changed may be read.
        let writable = self.ceilings.get(&Right::Write).and_then(|ceiling| ceiling.value.as_ref());
        let more = writable.filter(|_| right == Right::Read).into_iter().flatten();
        if most.iter().chain(more).any(|allowed| covers(right, allowed, entry)) {
            return None;
        }
        let allowed = match most.iter().map(|allowed| format!("`{allowed}`")).collect::<Vec<_>>() {
            none if none.is_empty() => "nothing".to_owned(),
            some => some.join(", "),
        };
        let message = format!("`{entry}` is more than the setting `box.{}` allows", right.word());
        excess(message, format!("{origin} allows {allowed}; remove the entry, or ask whoever owns the settings"))
    }
}

fn covers(right: Right, allowed: &str, entry: &str) -> bool {
    match right {
        Right::Read | Right::Write => paths::covers(allowed, entry),
        Right::Network => {
            let parsed = |text: &str| text.parse::<Entry>().ok();
            parsed(allowed).zip(parsed(entry)).is_some_and(|(allowed, entry)| allowed.covers(&entry))
        }
        Right::Cache | Right::Env | Right::Secrets => allowed == entry,
    }
}

/// Whoever reads `off` wants no box for a step; for that there is a word of the step, which everybody sees beside it.
fn sandbox(node: &Node, report: &mut Report) -> Option<Sandbox> {
    if matches!(&node.kind, Kind::Scalar(scalar) if scalar.text == "off") {
        let message = "`sandbox: off` is not available: private copies are made and read in boxes, and a rule about the \
                       network, a secret or a limit would hold for nobody";
        let help = "write `worktree: in_place` on the steps that are to run without a box, in your own checkout";
        report.error(Code::NotAvailable, node.span, message).help(help);
        return None;
    }
    read::word(node, "`sandbox`", keys::SANDBOXES, report).map(|_| Sandbox::Required)
}

fn secrets(node: &Node, report: &mut Report) -> BTreeMap<String, SecretSource> {
    let members = read::map(node, "`secrets`", report).unwrap_or_default();
    let read = |Member { key, value }: &Member| {
        let named = check_variable(key, report);
        let source = secret_source(value, report)?;
        named.then(|| (key.text.clone(), source))
    };
    members.iter().filter_map(read).collect()
}

/// Where a secret is found. What stands there instead may be the secret itself, so it is not repeated.
pub(super) fn secret_source(node: &Node, report: &mut Report) -> Option<SecretSource> {
    const HELP: &str =
        "say where it is found: `{ env: NAME }` of the host, or `{ file: PATH }` outside of the repository";
    let Kind::Map(_) = &node.kind else {
        if node.kind != Kind::Broken {
            report
                .error(Code::BadValue, node.span, "the value of a secret does not stand in a file of settings")
                .help(HELP);
        }
        return None;
    };
    let fields = read::fields(node, &keys::SECRET, report)?;
    match (fields.get("env"), fields.get("file")) {
        (Some(node), None) => {
            let name = read::text(node, "`env`", report)?;
            if is_variable(&name) {
                return Some(SecretSource::Variable(name));
            }
            report
                .error(Code::BadValue, node.span, "this cannot be the name of an environment variable")
                .help("letters, digits and `_`, beginning with a letter or `_`: not the value, but where it stands");
        }
        (None, Some(node)) => {
            let path = read::text(node, "`file`", report)?;
            let is_path = path.starts_with('/') || path.strip_prefix("~/").is_some_and(|rest| !rest.is_empty());
            if is_path && !path.chars().any(char::is_control) {
                return Some(SecretSource::File(path));
            }
            report
                .error(Code::BadValue, node.span, "`file` needs a path that is absolute or below `~/`")
                .help("a secret stands outside of the repository: `/etc/orchestrator/token`, `~/.config/token`");
        }
        (Some(_), Some(second)) => {
            report
                .error(Code::Conflict, second.span, "a secret is found in one place: `env` or `file`")
                .help("remove one of them");
        }
        (None, None) => {
            if !fields.has_unknown() {
                report.error(Code::MissingKey, node.span, "this secret does not say where it is found").help(HELP);
            }
        }
    }
    None
}

/// The domain of agents' addresses, in lower case.
fn domain(node: &Node, report: &mut Report) -> Option<String> {
    let text = read::text(node, "`agents_domain`", report)?;
    match Host::parse(&text) {
        Ok(Host::Name(name)) => return Some(name),
        Ok(Host::Address(_)) | Err(_) => {}
    }
    let message = format!("`agents_domain` needs the name of a domain, not `{}`", read::excerpt(&text));
    report.error(Code::BadValue, node.span, message).help(format!("write it as `{DEFAULT_DOMAIN}`"));
    None
}
