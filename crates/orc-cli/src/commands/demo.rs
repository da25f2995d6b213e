//! `demo`: an agent mends a bug, in a repository that is made for it below the data directory and made anew each time.
//!
//! The repository is a workspace like any other, `pipelines/demo/` of our own; this command writes it, names the model, and
//! then is `run` there. It must never touch anything else, nor leave open whether a real model was asked.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use orc_domain::ids::InstanceId;
use orc_gateway::{Credential, ProviderKind};

use super::run::run as carry_out;
use crate::args::{DemoArgs, LimitArgs, RuleArgs, RunArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, invalid, unavailable};
use crate::hold::{self, of_data_dir};
use crate::host;
use crate::output::{Form, OutputArgs, say, text};

/// The model of the profile as it is written: a script.
const SCRIPTED: &str = "scripted";
/// Where the profile stands.
const PROFILE: &str = "agents/fixer.md";
/// The repository: paths and texts.
const FILES: [(&str, &str); 9] = [
    ("README.md", include_str!("../../../../pipelines/demo/README.md")),
    ("orchestrator.yaml", include_str!("../../../../pipelines/demo/orchestrator.yaml")),
    ("prices.yaml", include_str!("../../../../pipelines/demo/prices.yaml")),
    ("pipelines/demo.yaml", include_str!("../../../../pipelines/demo/pipelines/demo.yaml")),
    (PROFILE, include_str!("../../../../pipelines/demo/agents/fixer.md")),
    ("models/fixer.yaml", include_str!("../../../../pipelines/demo/models/fixer.yaml")),
    ("src/cart.sh", include_str!("../../../../pipelines/demo/src/cart.sh")),
    ("test.sh", include_str!("../../../../pipelines/demo/test.sh")),
    ("basket.txt", include_str!("../../../../pipelines/demo/basket.txt")),
];

pub(crate) async fn run(context: &Context, args: DemoArgs) -> CommandResult {
    // The holder answers calls of models, and knows the providers of its own workspace only.
    if context.data.is_held() {
        let who = hold::describe(context.data.holder().as_ref(), context);
        return Err(Failure::new(Exit::Refused, format!("{} is held by {who}", context.data.root().display()))
            .hint("wait for its end, or give the demonstration a place of its own: `orchestrator demo --data DIR`"));
    }
    context.data.make().map_err(of_data_dir)?;
    let root = context.data.root().join("demo");
    let model = args.model.unwrap_or_else(|| SCRIPTED.to_owned());
    write(&root, &model)?;
    let workspace = Context {
        cwd: root.clone(),
        root,
        data: context.data.clone(),
        data_origin: context.data_origin,
        opened: Mutex::default(),
    };
    let provider = provider_of(&workspace, &model)?;
    say(&beginning(&workspace.root, &model, provider.as_deref()));
    let run = RunArgs {
        rules: RuleArgs::default(),
        pipeline: "pipelines/demo.yaml".to_owned(),
        inputs: Vec::new(),
        dry_run: false,
        priority: 0,
        logs: true,
        limits: LimitArgs::default(),
        output: OutputArgs { output: Form::Table },
    };
    let exit = carry_out(&workspace, run).await?;
    text(&ending(&model, provider.as_deref()))?;
    Ok(exit)
}

fn beginning(root: &Path, model: &str, provider: Option<&str>) -> String {
    let who = match provider {
        None => "The model is a script: what it says was written beforehand, in models/fixer.yaml. Everything else is real: the\n\
                 agent's loop, its tools, the box that they work in, the test. `--model NAME` lets a real model do it."
            .to_owned(),
        Some(provider) => {
            format!("The model is a real one, `{model}` of the provider `{provider}`. It is shown files of this repository.")
        }
    };
    let root = root.display();
    format!("An agent mends a bug that a failing test shows, in a small repository made for it:\n  {root}\n{who}\n")
}

fn ending(model: &str, provider: Option<&str>) -> String {
    match provider {
        None => "\nThe model was a script, not a real one: nothing left this machine, and what it costs is invented (prices.yaml).\n"
            .to_owned(),
        Some(provider) => format!("\nThe model was a real one: `{model}` of the provider `{provider}`.\n"),
    }
}

/// Who answers calls of a model; `None`: nobody real. An error when its key is missing, before anything runs.
fn provider_of(workspace: &Context, model: &str) -> CommandResult<Option<String>> {
    let settings = workspace.settings(&LimitArgs::default())?;
    let shape = workspace.gateway_shape(&settings.models, InstanceId::from_uuid(uuid::Uuid::now_v7()))?;
    // The first that has it is asked.
    let Some(provider) = shape.providers.into_iter().find(|provider| provider.has_model(model)) else {
        return Err(invalid(format!("no provider has a model `{model}`")));
    };
    match provider.kind {
        ProviderKind::Made(_) => Ok(None),
        ProviderKind::Http(http) => match http.credential {
            Credential::Missing { hint } => {
                let what = format!("`{model}` is asked of the provider `{}`, which has no key: {hint}", provider.name);
                Err(unavailable(what).hint("without `--model` a script takes the place of the model, and needs no key"))
            }
            Credential::Key(_) | Credential::Needless => Ok(Some(provider.name)),
        },
    }
}

/// Makes the repository anew, with one commit, whose bytes are the same each time.
fn write(root: &Path, model: &str) -> CommandResult<()> {
    let failed = |error: std::io::Error| {
        unavailable(format!("cannot make the repository `{}`", root.display()))
            .because(error)
            .hint("name a directory that you may write with --data")
    };
    if root.exists() {
        std::fs::remove_dir_all(root).map_err(failed)?;
    }
    for (name, content) in FILES {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(root)).map_err(failed)?;
        // A quoted text of JSON is one of YAML.
        let named = serde_json::Value::from(model).to_string();
        let text = if name == PROFILE && model != SCRIPTED {
            content.replace(&format!("model: {SCRIPTED}\n"), &format!("model: {named}\n"))
        } else {
            content.to_owned()
        };
        std::fs::write(path, text).map_err(failed)?;
    }
    git(root, &["init", "--quiet", "--initial-branch=main", "--template="])?;
    git(root, &["add", "--all"])?;
    git(root, &["commit", "--quiet", "--message", "A basket, and a test that fails"])
}

/// One call of git, of which the settings of whoever calls us are no part.
#[expect(
    clippy::disallowed_methods,
    reason = "before anything is carried on; it works on files of ours and ends by itself"
)]
fn git(root: &Path, arguments: &[&str]) -> CommandResult<()> {
    let mut command = Command::new("git");
    command.current_dir(root).args(arguments).env_clear().stdin(Stdio::null());
    command.envs(host::variable("PATH").map(|path| ("PATH", path)));
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")]);
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "demo").env(format!("GIT_{who}_EMAIL"), "demo@localhost");
        command.env(format!("GIT_{who}_DATE"), "2026-01-01T00:00:00Z");
    }
    let words = arguments.first().unwrap_or(&"");
    let said = command.output().map_err(|error| {
        unavailable("cannot start git").because(error).hint("install it: `apt-get install git`, or your system's way")
    })?;
    if said.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
    Err(unavailable(format!("`git {words}` in `{}` failed: {why}", root.display())))
}
