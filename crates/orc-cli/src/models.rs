//! From the settings to the gateway: who answers calls of models, with which key, at which prices.
//!
//! Keys are read once, when somebody begins to carry flows on or starts a gateway; they go nowhere but to their provider,
//! and what is said about one is where it was found.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orc_domain::ids::InstanceId;
use orc_domain::price::PriceTable;
use orc_gateway::cassette::{Place, Player, Strictness};
use orc_gateway::provider::Provider;
use orc_gateway::{
    Credential, HttpShape, Key, ProviderKind, ProviderShape, RateLimits, Recording, Scripted, Shape, Times,
};
use orc_ports::executor::Secrets;
use orc_spec::SourceFile;
use orc_spec::diagnostic::Diagnostic;
use orc_spec::settings::{self, Models, SecretSource, Unpriced};

use crate::boxes::read_secret;
use crate::context::Context;
use crate::failure::{CommandResult, invalid};
use crate::host;
use crate::output::say;

impl Context {
    /// What a gateway of this workspace is made of.
    pub(crate) fn gateway_shape(&self, models: &Models, instance: InstanceId) -> CommandResult<Shape> {
        let secrets = Secrets::new(keys(models));
        let providers: CommandResult<Vec<ProviderShape>> =
            models.providers.value.iter().map(|provider| self.provider(provider, &secrets)).collect();
        Ok(Shape {
            providers: providers?,
            prices: self.prices(models)?,
            unpriced: match models.unpriced.value {
                Unpriced::TokensOnly => orc_gateway::Unpriced::TokensOnly,
                Unpriced::Refuse => orc_gateway::Unpriced::Refuse,
            },
            times: Times::default(),
            sockets: sockets(instance),
            instance,
        })
    }

    fn provider(&self, provider: &settings::Provider, secrets: &Secrets) -> CommandResult<ProviderShape> {
        let kind = match &provider.kind {
            settings::ProviderKind::Http { base_url, key } => {
                let credential = credential(key.as_ref(), base_url);
                ProviderKind::Http(HttpShape { base_url: base_url.clone(), credential })
            }
            settings::ProviderKind::Script { file } => ProviderKind::Made(self.scripted(file)?),
            settings::ProviderKind::Cassette { file, strict } => {
                let strictness = if *strict { Strictness::Strict } else { Strictness::Lenient };
                let player = Player::open(&self.root.join(file), strictness, secrets.clone());
                let unusable = |error| {
                    let hint = "`providers` of the settings names it; `orchestrator validate` shows where";
                    invalid(format!("the cassette `{file}` cannot be used")).because(error).hint(hint)
                };
                ProviderKind::Made(Arc::new(player.map_err(unusable)?))
            }
        };
        let record = provider
            .record
            .as_ref()
            .map(|folder| Recording { place: Place::Folder(self.root.join(folder)), secrets: secrets.clone() });
        Ok(ProviderShape {
            name: provider.name.clone(),
            protocols: provider.protocols.clone(),
            models: provider.models.clone(),
            limits: RateLimits {
                concurrency: provider.concurrency,
                requests: provider.requests,
                tokens: provider.tokens,
            },
            kind,
            record,
        })
    }

    fn scripted(&self, file: &str) -> CommandResult<Arc<dyn Provider>> {
        let source = self.named("providers", file)?;
        let compiled = orc_spec::compile_script(&source);
        tell(&source, &compiled.diagnostics);
        match compiled.script {
            Some(script) => Ok(Arc::new(Scripted::new(Arc::new(script)))),
            None => Err(invalid(format!("the scripted model `{file}` cannot be used: see the errors above"))),
        }
    }

    /// A file that settings name.
    fn named(&self, key: &str, file: &str) -> CommandResult<SourceFile> {
        let hint = format!("`{key}` of the settings names it; `orchestrator validate` shows where");
        self.source(&self.root.join(file)).map_err(|failure| failure.hint(hint))
    }

    /// Prices that are known, and those of the workspace over them.
    pub(crate) fn prices(&self, models: &Models) -> CommandResult<PriceTable> {
        let known = orc_spec::shipped_prices();
        let Some(file) = &models.prices.value else { return Ok(known) };
        let source = self.named("prices", file)?;
        let compiled = orc_spec::compile_prices(&source, &known);
        tell(&source, &compiled.diagnostics);
        compiled.table.ok_or_else(|| invalid(format!("the prices `{file}` cannot be used: see the errors above")))
    }
}

fn tell(source: &SourceFile, diagnostics: &[Diagnostic]) {
    let colour = host::colour(std::io::stderr().is_terminal());
    for diagnostic in diagnostics {
        say(&diagnostic.render(source, colour));
    }
}

/// Values of the keys of providers that can be read: no log may show one.
pub(crate) fn keys(models: &Models) -> Vec<String> {
    let sources = models.providers.value.iter().filter_map(|provider| match &provider.kind {
        settings::ProviderKind::Http { key, .. } => key.as_ref(),
        settings::ProviderKind::Script { .. } | settings::ProviderKind::Cassette { .. } => None,
    });
    sources.filter_map(|source| read_secret(&host::home(), source).ok()).collect()
}

/// A provider elsewhere is not shown the token of a gateway, which stays in a terminal easily.
fn credential(key: Option<&SecretSource>, base_url: &str) -> Credential {
    let Some(source) = key else { return Credential::Needless };
    match read_secret(&host::home(), source) {
        // What no header can hold is no key: whoever never calls a model must not fail for it.
        Ok(value) if value.chars().any(|letter| !letter.is_ascii_graphic()) => {
            let hint = format!("what is there has blanks or other characters that no key has; {}", place(source));
            Credential::Missing { hint }
        }
        Ok(value) if value.starts_with(orc_gateway::TOKEN_PREFIX) && base_url.starts_with("https://") => {
            let hint =
                format!("what is there is the token of a model gateway, not a key of a provider; {}", place(source));
            Credential::Missing { hint }
        }
        Ok(value) => Credential::Key(Key::new(value)),
        Err(why) => Credential::Missing { hint: format!("{why}; {}", place(source)) },
    }
}

fn place(source: &SecretSource) -> String {
    match source {
        SecretSource::Variable(name) => format!("set {name}, or name another place with `key:` of the provider"),
        SecretSource::File(path) => format!("put it into `{path}`, or name another place with `key:` of the provider"),
    }
}

/// Where the sockets of an instance are: short, because of the length that a socket's path may have, and of a name that nobody
/// can have guessed.
fn sockets(instance: InstanceId) -> PathBuf {
    let name = instance.to_string();
    Path::new("/tmp").join(format!(".orchestrator-{}", &name[name.len() - 12..]))
}
