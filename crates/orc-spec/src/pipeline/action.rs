//! What a step does: the key that says it, and what stands beside it, to an [`Action`].

use std::collections::BTreeMap;

use orc_domain::action::{Action, AgentAction, RepeatAction, RunAction};
use orc_domain::expr::Template;
use orc_domain::graph::StartFrom;
use orc_domain::permission::Permissions;
use orc_domain::profile::{Adapter, Mode, Profile};
use orc_domain::suggest::closest;

use super::child::Library;
use super::step::{Ahead, Draft, index};
use super::view::{Stand, View};
use crate::diagnostic::{Code, Report};
use crate::expression::{Reader, Taint, Type};
use crate::keys;
use crate::permissions::{self, Hands};
use crate::profile::{Texts, output_schema};
use crate::read;
use crate::shell::{self, Shell};
use crate::yaml::{Kind, Node};

impl Draft<'_> {
    /// What it does; `env` are the variables that it can read. `None` when that is missing or wrong, which was reported.
    pub(super) fn action(&self, view: &View<'_>, env: BTreeMap<&str, Taint>, report: &mut Report) -> Option<Action> {
        match self.kind? {
            "run" => {
                let mut names = view.names("this script", true);
                names.env = Some(env);
                self.script(&view.reader(&names), report).map(Action::Run)
            }
            "agent" => {
                let mut names = view.names("`prompt`", true);
                names.env = Some(env);
                self.agent(view, &view.reader(&names), report).map(Action::Agent)
            }
            "repeat" => self.repeat(view, report).map(Action::Repeat),
            "pipeline" => self.child(view, report).map(Action::Pipeline),
            "approval" => self.approval(view, report).map(Action::Approval),
            "wait" => self.wait(view, report).map(Action::Wait),
            _ => None,
        }
    }

    fn script(&self, reader: &Reader<'_>, report: &mut Report) -> Option<RunAction> {
        let shell = match self.field("shell") {
            Some(node) => Shell::read(node, report),
            None => Some(Shell::sh()),
        };
        if let Some(entry) = self.fields.as_ref().and_then(|fields| fields.entry("output")) {
            report
                .error(Code::NotAvailable, entry.key.span, "`output` beside `run` is not available yet")
                .help("a script writes `key=value` lines to the file `$ORC_OUTPUT`");
        }
        let node = self.field("run")?;
        let scalar = read::scalar(node, "`run`", "a script", report)?;
        if scalar.text.trim().is_empty() {
            report
                .error(Code::BadValue, node.span, "this script is empty")
                .help("a step that does nothing is `run: ':'`");
            return None;
        }
        let pieces = reader.pieces(scalar, node.span, report);
        let shell = shell?;
        let script = shell::bind(pieces?, &shell, node.span, report)?;
        Some(RunAction { script: script.text, shell: shell.argv, bindings: script.bindings })
    }

    /// The profiles that it names, as far as there are such.
    pub(super) fn profiles<'p>(
        &self,
        agents: &'p BTreeMap<String, Profile>,
    ) -> impl Iterator<Item = (&'p String, &'p Profile)> {
        let resolves = self.field("on_conflict").and_then(|node| match &node.kind {
            Kind::Map(entries) => entries.iter().find(|entry| entry.key.text == "agent"),
            _ => None,
        });
        let resolver = resolves.and_then(|entry| match &entry.value.kind {
            Kind::Scalar(scalar) => agents.get_key_value(&scalar.text),
            _ => None,
        });
        self.profile(agents).into_iter().chain(resolver)
    }

    /// The profile that it names, if there is such a one.
    fn profile<'p>(&self, agents: &'p BTreeMap<String, Profile>) -> Option<(&'p String, &'p Profile)> {
        match &self.field("agent")?.kind {
            Kind::Scalar(scalar) => agents.get_key_value(&scalar.text),
            _ => None,
        }
    }

    /// The schema of an agent's output: that of the step, else that of the profile.
    pub(super) fn schema_ahead(
        &self,
        agents: &BTreeMap<String, Profile>,
        texts: Texts<'_>,
        report: &mut Report,
    ) -> Ahead {
        if self.kind != Some("agent") {
            return Ahead::Nothing;
        }
        let schema = match self.field("output") {
            Some(node) => output_schema(node, texts, report),
            None => self.profile(agents).and_then(|(_, profile)| profile.output.clone()),
        };
        schema.map_or(Ahead::Nothing, Ahead::Schema)
    }

    /// What holds for its agent, if calls of that are judged.
    fn permissions(&self, profile: Option<&Profile>, report: &mut Report) -> Permissions {
        let Some(node) = self.field("permissions") else { return Permissions::default() };
        if profile.is_some_and(|profile| !matches!(profile.adapter, Adapter::BuiltIn(_))) {
            let message = "no call of this agent is judged: it is a program of its own";
            report.error(Code::NotHonoured, node.span, message).help("what bounds it is `box:`; remove this key");
        }
        permissions::permissions(node, &keys::PERMISSIONS_ABOVE, &Hands::any(), report)
    }

    fn agent(&self, view: &View<'_>, reader: &Reader<'_>, report: &mut Report) -> Option<AgentAction> {
        let name = self.field("agent").and_then(|node| agent_name(node, view.shared.library, report));
        let Some(node) = self.field("prompt") else {
            if self.fields.as_ref().is_some_and(|fields| fields.lacks("prompt")) {
                report
                    .error(Code::MissingKey, self.key.span, format!("`{}` does not say what is asked", self.key.text))
                    .help("add `prompt:`");
            }
            return None;
        };
        let profile = self.profile(view.shared.library.agents).map(|(_, profile)| profile);
        if let (Some(entry), Some(model)) = (self.field("agent"), profile.and_then(|profile| profile.model.as_ref()))
            && self.from(&view.shared.trees) == StartFrom::InPlace
        {
            report
                .error(
                    Code::Conflict,
                    entry.span,
                    format!("this agent calls the model `{model}`, and a step in your own checkout has no box"),
                )
                .help("remove `worktree: in_place`: without a box nothing keeps a program from other ways to a model");
        }
        let prompt = prompt(node, profile, reader, report);
        let schema = match (&self.ahead, self.field("output")) {
            (Ahead::Schema(schema), Some(_)) => Some(schema.clone()),
            _ => None,
        };
        let permissions = self.permissions(profile, report);
        Some(AgentAction { agent: name?, prompt: prompt?, schema, permissions })
    }

    fn repeat(&self, view: &View<'_>, report: &mut Report) -> Option<RepeatAction> {
        let fields = self.repeat.as_ref()?;
        for (name, advice) in [
            ("max", "say how many rounds there may be: `max: 3`"),
            ("steps", "say what is repeated: `steps: { test: { run: make test } }`"),
        ] {
            if fields.lacks(name) {
                let message = format!("the `repeat` of `{}` has no `{name}`", self.key.text);
                report.error(Code::MissingKey, self.key.span, message).help(advice);
            }
        }
        let most = orc_domain::action::MAX_ROUNDS;
        let max = fields.get("max").and_then(|node| read::count(node, "`max`", most, report));
        let until = fields.get("until").map(|node| {
            let view = View::new(view.shared, Stand::Until(view.at()?));
            let names = view.names("`until`", true);
            view.reader(&names).condition(node, "`until`", report)
        });
        let body = self.body.clone()?;
        Some(RepeatAction {
            first: index(body.start),
            count: u32::try_from(body.len()).unwrap_or(u32::MAX),
            max: max?,
            until: match until {
                Some(until) => Some(until?),
                None => None,
            },
        })
    }

    /// The type of its `output`, of a fan-out that of an element.
    pub(super) fn output_type(&self, drafts: &[(&str, Type)]) -> Type {
        match (&self.ahead, self.kind) {
            (Ahead::Schema(schema), _) => Type::of_schema(schema),
            (Ahead::Child(child), _) => child.outputs.clone(),
            (Ahead::Nothing, Some("repeat")) => Type::Object {
                fields: drafts.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect(),
                open: false,
            },
            (Ahead::Nothing, _) => Type::Any,
        }
    }
}

/// What an agent is asked.
pub(super) fn prompt(
    node: &Node,
    profile: Option<&Profile>,
    reader: &Reader<'_>,
    report: &mut Report,
) -> Option<Template> {
    read::scalar(node, "`prompt`", "text", report)?;
    let (prompt, tainted) = reader.template(node, "`prompt`", report)?;
    if tainted && profile.is_some_and(|profile| profile.mode == Mode::Work) {
        report
            .warning(Code::Tainted, node.span, "text from outside reaches an agent that does more than read")
            .help("it is fenced and marked as data, which asks the agent and does not bind it; let one that only reads look first");
    }
    Some(prompt)
}

/// The name of an agent that there is.
pub(super) fn agent_name(node: &Node, library: &Library<'_>, report: &mut Report) -> Option<String> {
    let name = read::text(node, "`agent`", report)?;
    if library.agents.contains_key(&name) {
        return Some(name);
    }
    if library.broken_agents.contains(&name) {
        report
            .error(Code::BadValue, node.span, format!("the profile of the agent `{name}` has mistakes"))
            .help("what is wrong is said at its own place");
        return None;
    }
    let known = library.agents.keys().chain(library.broken_agents).map(String::as_str);
    let problem = report.error(Code::UnknownName, node.span, format!("there is no agent `{}`", read::excerpt(&name)));
    match closest(&name, known.clone()) {
        Some(close) => problem.help(format!("did you mean `{close}`?")),
        None if known.clone().next().is_none() => problem.help("write its profile: `agents/NAME.md`"),
        None => problem.help(format!("the agents are {}", known.collect::<Vec<_>>().join(", "))),
    };
    None
}

#[cfg(test)]
mod tests {
    use crate::keys;

    #[test]
    fn every_kind_that_is_a_key_is_built() {
        let available =
            keys::STEP_KINDS.iter().filter(|kind| keys::STEP.key(kind).is_some_and(keys::Key::is_available));
        let mut available: Vec<&str> = available.copied().collect();
        available.sort_unstable();
        assert_eq!(available, ["agent", "approval", "pipeline", "repeat", "run", "wait"]);
    }
}
