//! `providers:`, `prices:` and `unpriced:`: who answers calls of models, and what that costs.
//!
//! Nothing here is a key: settings say where one is found, and a value that stands in a file is refused.

use std::collections::BTreeSet;

use orc_domain::model::Protocol;
use orc_domain::suggest::closest;

use super::confine::{OriginOf, SecretSource, secret_source};
use super::{PartialSettings, Setting, highest};
use crate::diagnostic::{Code, Report};
use crate::keys;
use crate::pipeline::is_identifier;
use crate::read::{self, Fields};
use crate::source::{SourceFile, Span};
use crate::yaml::{self, Entry as Member, Kind, Node};

/// What a file is that settings name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOf {
    /// `script:` of a provider.
    Script,
    /// `cassette:` of a provider.
    Cassette,
    /// `prices:`.
    Prices,
}

/// A file that settings name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// What it is.
    pub of: FileOf,
    /// Its path, from the root of the repository.
    pub path: String,
    /// Where it is named.
    pub span: Span,
}

/// The files that settings name and that a start reads, as they stand in them; what is no path is left out.
#[must_use]
pub fn named_files(source: &SourceFile) -> Vec<NamedFile> {
    let mut report = Report::new(&source.name);
    let Some(Node { kind: Kind::Map(members), .. }) = yaml::parse(&source.text, &mut report) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut note = |of: FileOf, node: &Node| {
        if let Some(path) = file(node, "", &mut report) {
            found.push(NamedFile { of, path, span: node.span });
        }
    };
    for Member { key, value } in &members {
        match (key.text.as_str(), &value.kind) {
            ("prices", _) => note(FileOf::Prices, value),
            ("providers", Kind::Map(providers)) => {
                let keys = providers.iter().filter_map(|provider| match &provider.value.kind {
                    Kind::Map(keys) => Some(keys),
                    _ => None,
                });
                for Member { key, value } in keys.flatten() {
                    match key.text.as_str() {
                        "script" => note(FileOf::Script, value),
                        "cassette" => note(FileOf::Cassette, value),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// A provider that is there when nobody names it.
struct Known {
    name: &'static str,
    protocols: &'static [Protocol],
    base_url: &'static str,
    /// The variable of its key.
    variable: &'static str,
    /// Its models at that address: whoever asks for one finds the provider by its name.
    models: &'static str,
}

const KNOWN: [Known; 2] = [
    Known {
        name: "anthropic",
        protocols: &[Protocol::AnthropicMessages],
        base_url: "https://api.anthropic.com",
        variable: "ANTHROPIC_API_KEY",
        models: "claude-*",
    },
    Known {
        name: "openai",
        protocols: &[Protocol::OpenaiResponses, Protocol::OpenaiChat],
        base_url: "https://api.openai.com/v1",
        variable: "OPENAI_API_KEY",
        models: "*",
    },
];

/// Who answers calls of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name.
    pub name: String,
    /// How it talks.
    pub protocols: Vec<Protocol>,
    /// Its models; patterns.
    pub models: Vec<String>,
    /// What it is.
    pub kind: ProviderKind,
    /// A folder in which everything is recorded.
    pub record: Option<String>,
    /// Calls at once.
    pub concurrency: Option<u32>,
    /// Calls in a minute.
    pub requests: Option<u32>,
    /// Tokens in a minute.
    pub tokens: Option<u64>,
}

/// What a provider is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// A service.
    Http {
        /// Where it is.
        base_url: String,
        /// Where its key is found; none: it needs none.
        key: Option<SecretSource>,
    },
    /// A file with answers.
    Script {
        /// Which, from the root of the repository.
        file: String,
    },
    /// A file with recorded answers.
    Cassette {
        /// Which, from the root of the repository.
        file: String,
        /// Whether a request must be the recorded one.
        strict: bool,
    },
}

/// What becomes of calls of a model that nobody knows the price of, where no budget in money stands above them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unpriced {
    /// Their tokens are counted.
    #[default]
    TokensOnly,
    /// They are refused.
    Refuse,
}

impl Unpriced {
    /// The word of `unpriced:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::TokensOnly => "tokens_only",
            Self::Refuse => "refuse",
        }
    }
}

/// What one source says of models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialModels {
    /// `providers:`, in their order.
    pub providers: Option<Setting<Vec<Provider>>>,
    /// `prices:`.
    pub prices: Option<Setting<String>>,
    /// `unpriced:`.
    pub unpriced: Option<Setting<Unpriced>>,
}

/// Models of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Models {
    /// Who answers: the first that has protocol and model of a call; those that are always there stand last.
    pub providers: Setting<Vec<Provider>>,
    /// A file with prices over those that are known, from the root of the repository.
    pub prices: Setting<Option<String>>,
    /// What becomes of calls without a price.
    pub unpriced: Setting<Unpriced>,
}

impl Models {
    pub(super) fn resolve(layers: &[PartialSettings]) -> Self {
        let mut providers = highest(layers, |layer| layer.models.providers.as_ref(), Vec::new);
        for Known { name, protocols, base_url, variable, models } in KNOWN {
            if providers.value.iter().all(|provider| provider.name != name) {
                let key = Some(SecretSource::Variable(variable.to_owned()));
                let kind = ProviderKind::Http { base_url: base_url.to_owned(), key };
                providers.value.push(Provider {
                    name: name.to_owned(),
                    protocols: protocols.to_vec(),
                    models: vec![models.to_owned()],
                    kind,
                    record: None,
                    concurrency: None,
                    requests: None,
                    tokens: None,
                });
            }
        }
        let prices = super::highest_of(layers, |layer| layer.models.prices.as_ref());
        let prices = match prices {
            Some(Setting { value, origin }) => Setting { value: Some(value.clone()), origin: origin.clone() },
            None => Setting { value: None, origin: super::Origin::Default },
        };
        Self { providers, prices, unpriced: highest(layers, |layer| layer.models.unpriced.as_ref(), Unpriced::default) }
    }

    /// Names of the host's variables that hold keys of providers: no box may have one.
    #[must_use]
    pub fn key_variables(&self) -> BTreeSet<&str> {
        let named = self.providers.value.iter().filter_map(|provider| match &provider.kind {
            ProviderKind::Http { key: Some(SecretSource::Variable(name)), .. } => Some(name.as_str()),
            ProviderKind::Http { .. } | ProviderKind::Script { .. } | ProviderKind::Cassette { .. } => None,
        });
        named.chain(KNOWN.iter().map(|known| known.variable)).collect()
    }
}

impl PartialModels {
    pub(super) fn read(fields: &Fields<'_>, origin_of: OriginOf<'_>, report: &mut Report) -> Self {
        let origin = |key: &str| origin_of(fields, key);
        let providers = fields.get("providers").map(|node| providers(node, report));
        let prices = fields.get("prices").and_then(|node| file(node, "`prices`", report));
        let unpriced = fields.get("unpriced").and_then(|node| {
            let word = read::word(node, "`unpriced`", keys::UNPRICED, report)?;
            Some(if word == Unpriced::Refuse.word() { Unpriced::Refuse } else { Unpriced::TokensOnly })
        });
        Self {
            providers: providers.map(|value| Setting { value, origin: origin("providers") }),
            prices: prices.map(|value| Setting { value, origin: origin("prices") }),
            unpriced: unpriced.map(|value| Setting { value, origin: origin("unpriced") }),
        }
    }
}

fn providers(node: &Node, report: &mut Report) -> Vec<Provider> {
    let members = read::map(node, "`providers`", report).unwrap_or_default();
    let read = |Member { key, value }: &Member| {
        let named = is_identifier(&key.text);
        if !named {
            report
                .error(
                    Code::BadValue,
                    key.span,
                    format!("`{}` cannot be the name of a provider", read::excerpt(&key.text)),
                )
                .help("letters, digits, `_` and `-`, beginning with a letter: it stands in the ledger");
        }
        let provider = provider(&key.text, value, report)?;
        named.then_some(provider)
    };
    members.iter().filter_map(read).collect()
}

fn provider(name: &str, node: &Node, report: &mut Report) -> Option<Provider> {
    let fields = read::fields(node, &keys::PROVIDER, report)?;
    let known = KNOWN.iter().find(|known| known.name == name);
    let kind = kind(&fields, (node, name), known.map(|known| (known.base_url, known.variable)), report)?;
    let is_made = !matches!(kind, ProviderKind::Http { .. });
    let protocols = match fields.get("protocols") {
        Some(node) => protocols(node, report)?,
        None if is_made => Protocol::ALL.to_vec(),
        None => match known {
            Some(known) => known.protocols.to_vec(),
            None => {
                report
                    .error(Code::MissingKey, node.span, format!("the provider `{name}` does not say how it talks"))
                    .help("add `protocols: [openai-chat]`, or another of anthropic-messages, openai-responses, openai-chat");
                return None;
            }
        },
    };
    let models = match fields.get("models") {
        Some(node) => patterns(node, report)?,
        // Elsewhere other models may speak the same protocol.
        None if is_made || fields.get("base_url").is_some() => vec!["*".to_owned()],
        None => vec![known.map_or("*", |known| known.models).to_owned()],
    };
    let calls = |key: &str, report: &mut Report| {
        fields.get(key).and_then(|node| read::count(node, &format!("`{key}`"), keys::MAX_CALLS, report))
    };
    Some(Provider {
        name: name.to_owned(),
        protocols,
        models,
        kind,
        record: fields.get("record").and_then(|node| file(node, "`record`", report)),
        concurrency: calls("concurrency", report),
        requests: calls("requests_per_minute", report),
        tokens: fields.get("tokens_per_minute").and_then(|node| read::tally(node, "`tokens_per_minute`", report)),
    })
}

fn kind(
    fields: &Fields<'_>,
    (node, name): (&Node, &str),
    known: Option<(&str, &str)>,
    report: &mut Report,
) -> Option<ProviderKind> {
    let places: Vec<&str> =
        ["base_url", "script", "cassette"].into_iter().filter(|key| fields.get(key).is_some()).collect();
    if let [first, second, ..] = places[..] {
        let span = fields.entry(second).map_or(node.span, |entry| entry.key.span);
        report
            .error(Code::Conflict, span, format!("the provider `{name}` has `{first}` and `{second}`"))
            .help("it is a service, a script or a cassette: keep one of them, and give the other a name of its own");
        return None;
    }
    for (key, needs) in [("key", "base_url"), ("strict", "cassette")] {
        let fits = places.contains(&needs) || (places.is_empty() && needs == "base_url");
        if let Some(entry) = fields.entry(key)
            && !fits
        {
            report
                .error(Code::Conflict, entry.key.span, format!("`{key}` has a meaning beside `{needs}` only"))
                .help("remove this key");
        }
    }
    if let Some(node) = fields.get("script") {
        return Some(ProviderKind::Script { file: file(node, "`script`", report)? });
    }
    if let Some(node) = fields.get("cassette") {
        let strict = fields.get("strict").and_then(|node| read::boolean(node, "`strict`", report)).unwrap_or(false);
        return Some(ProviderKind::Cassette { file: file(node, "`cassette`", report)?, strict });
    }
    let base_url = match (fields.get("base_url"), known) {
        (Some(node), _) => address(node, report)?,
        (None, Some((base_url, _))) => base_url.to_owned(),
        (None, None) => {
            if !fields.has_unknown() {
                let near = closest(name, KNOWN.iter().map(|known| known.name));
                let hint = near.map_or_else(String::new, |near| format!("; the one that is known is called `{near}`"));
                report
                    .error(Code::MissingKey, node.span, format!("the provider `{name}` does not say where it is"))
                    .help(format!("add `base_url: https://...`, `script: FILE` or `cassette: FILE`{hint}"));
            }
            return None;
        }
    };
    let key = match fields.get("key") {
        Some(node) => Some(secret_source(node, report)?),
        None => known.map(|(_, variable)| SecretSource::Variable(variable.to_owned())),
    };
    Some(ProviderKind::Http { base_url, key })
}

/// An address without credentials. What is not on this machine is reached with encryption: a key goes there.
fn address(node: &Node, report: &mut Report) -> Option<String> {
    let text = read::text(node, "`base_url`", report)?;
    let host = |rest: &str| rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned();
    let here = |host: &str| {
        let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
        matches!(name, "localhost" | "127.0.0.1" | "[::1]")
    };
    let is_good = |rest: &str| {
        let host = host(rest);
        !host.is_empty() && !host.contains('@') && !rest.contains(['?', '#']) && !rest.contains(char::is_whitespace)
    };
    let (message, help) = if let Some(rest) = text.strip_prefix("https://") {
        if is_good(rest) {
            return Some(text);
        }
        (
            "`base_url` needs an address without user, query and blanks".to_owned(),
            "write `https://HOST/PATH`; a key is named by `key:`",
        )
    } else if let Some(rest) = text.strip_prefix("http://") {
        if is_good(rest) && here(&host(rest)) {
            return Some(text);
        }
        let help = "write `https://`; without encryption only a provider on this machine is spoken to (localhost, 127.0.0.1, [::1])";
        ("`base_url` without encryption leads to another machine".to_owned(), help)
    } else {
        (format!("`base_url` needs an address, not `{}`", read::excerpt(&text)), "write `https://HOST/PATH`")
    };
    report.error(Code::BadValue, node.span, message).help(help);
    None
}

fn protocols(node: &Node, report: &mut Report) -> Option<Vec<Protocol>> {
    let Kind::List(items) = &node.kind else {
        read::wrong_type(node, "`protocols`", "a list such as `[anthropic-messages]`", report);
        return None;
    };
    let words: Option<Vec<Protocol>> = items
        .iter()
        .map(|item| {
            let word = read::word(item, "`protocols`", keys::PROTOCOLS, report)?;
            Protocol::ALL.into_iter().find(|protocol| protocol.word() == word)
        })
        .collect();
    let words = words?;
    if words.is_empty() {
        report.error(Code::BadValue, node.span, "`protocols` is empty").help("name at least one");
        return None;
    }
    Some(words)
}

fn patterns(node: &Node, report: &mut Report) -> Option<Vec<String>> {
    let Kind::List(items) = &node.kind else {
        read::wrong_type(node, "`models`", "a list such as `[claude-*]`", report);
        return None;
    };
    let texts: Option<Vec<String>> = items.iter().map(|item| read::text(item, "`models`", report)).collect();
    let texts = texts?;
    if texts.is_empty() || texts.iter().any(|text| text.trim().is_empty()) {
        report
            .error(Code::BadValue, node.span, "`models` names no model")
            .help("leave it out for all models, or name at least one");
        return None;
    }
    Some(texts)
}

/// A file or folder of the repository.
fn file(node: &Node, what: &str, report: &mut Report) -> Option<String> {
    let text = read::text(node, what, report)?;
    let stays = !text.is_empty() && !text.chars().any(char::is_control) && text.split('/').all(|part| part != "..");
    if stays {
        return Some(text);
    }
    report
        .error(Code::BadValue, node.span, format!("{what} needs a path"))
        .help("write it from the root of the repository, without `..`, or absolute");
    None
}
