//! The settings in force: layers from the machine's owner, the command line, the environment and the workspace's file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, IsTerminal as _};
use std::path::Path;

use orc_domain::principal::Principal;
use orc_domain::request::Standing;
use orc_domain::time::Millis;
use orc_runtime::retention::{Keep, Retention};
use orc_runtime::{Known, Shape, Standings};
use orc_spec::SourceFile;
use orc_spec::diagnostic::Severity;
use orc_spec::settings::{FileKind, Origin, PartialSettings, Person, Role, Setting, SettingError, Settings};

use crate::args::LimitArgs;
use crate::context::Context;
use crate::failure::{CommandResult, invalid, unavailable};
use crate::host;
use crate::output::say;

/// The file of the machine's owner.
pub(crate) const MANAGED: &str = "/etc/orchestrator/orchestrator.yaml";
/// The workspace's file, beside `pipelines/`.
pub(crate) const WORKSPACE: &str = "orchestrator.yaml";

impl Context {
    /// Reads every layer. A mistake in any of them ends the command: a setting that is not understood must not be guessed.
    pub(crate) fn settings(&self, limits: &LimitArgs) -> CommandResult<Settings> {
        let workspace = self.root.join(WORKSPACE);
        let layers = [
            read_file(Path::new(MANAGED), MANAGED, FileKind::Managed)?,
            of_flags(limits)?,
            PartialSettings::from_variables(host::variable).map_err(|errors| of_errors(&errors))?,
            read_file(&workspace, WORKSPACE, FileKind::Workspace)?,
        ];
        let mut settings = Settings::resolve(&layers);
        if settings.slots.origin == Origin::Default {
            settings.slots.value = settings.slots.value.max(host::cores());
        }
        Ok(settings)
    }

    /// Names of people and groups, for who checks files.
    pub(crate) fn names(&self) -> Option<BTreeSet<String>> {
        Some(self.known_settings()?.names())
    }

    /// What files say, for who checks other files by it: settings with mistakes, which are told elsewhere, leave it open.
    pub(crate) fn known_settings(&self) -> Option<Settings> {
        let read = |path: &Path, name: &str, kind| {
            let text = match std::fs::read_to_string(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Some(PartialSettings::default()),
                text => text.ok()?,
            };
            let (partial, diagnostics) = PartialSettings::parse(&SourceFile::new(name, text), kind);
            diagnostics.iter().all(|problem| problem.severity != Severity::Error).then_some(partial)
        };
        let managed = read(Path::new(MANAGED), MANAGED, FileKind::Managed)?;
        let workspace = read(&self.root.join(WORKSPACE), WORKSPACE, FileKind::Workspace)?;
        Some(Settings::resolve(&[managed, workspace]))
    }

    /// The settings of an instance that carries flows on.
    pub(crate) fn shape(&self, command: &str, limits: &LimitArgs) -> CommandResult<Shape> {
        let settings = self.settings(limits)?;
        Ok(Shape {
            slots: settings.slots.value,
            grace: settings.cancel_grace.value,
            log_bytes: settings.log_limit.value,
            host_env: host::passed_variables(&settings.pass_env.value),
            command: command.to_owned(),
            retention: self.retention(&settings),
            boxes: self.box_shape(&settings),
            standing: standings(settings.people.value, settings.groups.value),
        })
    }
}

/// What somebody is, by the settings. A user of this machine that they do not name has the role admin.
fn standings(people: BTreeMap<String, Person>, groups: BTreeMap<String, Vec<String>>) -> Standings {
    Standings::new(move |who| {
        let is = |person: &Person| match who {
            Principal::Os(uid) => person.os == Some(*uid),
            Principal::Github(id) => person.github == Some(*id),
            Principal::Person(_) | Principal::Token(_) | Principal::Agent(_) | Principal::System => false,
        };
        let known = people.iter().find(|(name, person)| is(person) || *who == Principal::Person((*name).clone()));
        let Some((name, person)) = known else {
            let admin = matches!(who, Principal::Os(_));
            let standing = Standing { names: BTreeSet::new(), admin };
            return Known { who: who.clone(), standing, operates: admin };
        };
        let member = groups.iter().filter(|(_, members)| members.contains(name)).map(|(group, _)| group.clone());
        let names = member.chain([name.clone()]).collect();
        let standing = Standing { names, admin: person.role >= Role::Approve };
        Known { who: Principal::Person(name.clone()), standing, operates: person.role >= Role::Operate }
    })
}

impl Context {
    /// How long what is over is kept. The file of a workspace speaks only for flows of that workspace: others may share the
    /// data directory.
    pub(crate) fn retention(&self, settings: &Settings) -> Retention {
        let keep = |age: &Setting<Option<Millis>>| {
            let only = matches!(age.origin, Origin::Workspace(..)).then(|| self.root.display().to_string());
            age.value.map(|age| Keep { age, only })
        };
        let kept = &settings.retention;
        Retention { runs: keep(&kept.runs), logs: keep(&kept.logs), events: keep(&kept.events) }
    }
}

fn read_file(path: &Path, name: &str, kind: FileKind) -> CommandResult<PartialSettings> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(PartialSettings::default()),
        Err(error) => return Err(unavailable(format!("cannot read the settings `{name}`")).because(error)),
    };
    let source = SourceFile::new(name, text);
    let (partial, diagnostics) = PartialSettings::parse(&source, kind);
    let colour = host::colour(std::io::stderr().is_terminal());
    for diagnostic in &diagnostics {
        say(&diagnostic.render(&source, colour));
    }
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return Err(invalid(format!("the settings `{name}` cannot be used: see the errors above")));
    }
    Ok(partial)
}

fn of_flags(limits: &LimitArgs) -> CommandResult<PartialSettings> {
    let mut partial = PartialSettings::default();
    let flags = [("slots", &limits.slots), ("cancel_grace", &limits.cancel_grace)];
    for (key, text) in flags {
        if let Some(text) = text {
            partial.set_from_flag(key, text).map_err(|error| of_errors(&[error]))?;
        }
    }
    Ok(partial)
}

fn of_errors(errors: &[SettingError]) -> crate::failure::Failure {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    invalid(lines.join("\n  "))
}
