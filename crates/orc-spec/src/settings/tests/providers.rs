//! Providers of models, prices, and what has none.

use orc_domain::model::Protocol;

use super::*;

fn resolved(text: &str) -> Models {
    let (settings, told) = workspace(text);
    assert_eq!(told, [""; 0], "{text}");
    Settings::resolve(&[settings]).models
}

fn http(provider: &Provider) -> (&str, Option<SecretSource>) {
    match &provider.kind {
        ProviderKind::Http { base_url, key } => (base_url, key.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_known_is_there_without_being_named() {
    let models = resolved("slots: 1\n");
    let [anthropic, openai] = &models.providers.value[..] else { panic!("{models:?}") };
    let variable = |name: &str| Some(SecretSource::Variable(name.to_owned()));
    assert_eq!(http(anthropic), ("https://api.anthropic.com", variable("ANTHROPIC_API_KEY")));
    assert_eq!(http(openai), ("https://api.openai.com/v1", variable("OPENAI_API_KEY")));
    assert_eq!(anthropic.protocols, [Protocol::AnthropicMessages]);
    assert_eq!(openai.protocols, [Protocol::OpenaiResponses, Protocol::OpenaiChat]);
    // A model finds its provider by its name, whatever keys are there.
    assert_eq!(
        (anthropic.models.as_slice(), openai.models.as_slice()),
        (&["claude-*".to_owned()][..], &["*".to_owned()][..])
    );
    assert_eq!((models.prices.value, models.unpriced.value), (None, Unpriced::TokensOnly));
}

#[test]
fn files_that_settings_name_are_found_with_their_places() {
    let text = "prices: prices.yaml\nproviders:\n  a: { script: models/a.yaml }\n  b: { cassette: /tapes/b.jsonl }\n  c: { \
                base_url: 'https://x' }\n  d: { script: ../x }\n  e: 3\n";
    let found: Vec<(FileOf, String, usize)> = named_files(&SourceFile::new("orchestrator.yaml", text))
        .into_iter()
        .map(|file| (file.of, file.path, file.span.start))
        .collect();
    let wanted =
        [(FileOf::Prices, "prices.yaml"), (FileOf::Script, "models/a.yaml"), (FileOf::Cassette, "/tapes/b.jsonl")];
    assert_eq!(found, wanted.map(|(of, path)| (of, path.to_owned(), text.find(path).unwrap())));
    assert_eq!(named_files(&SourceFile::new("orchestrator.yaml", "a: [")), []);
}

#[test]
fn providers_keep_their_order_and_what_is_known_may_be_changed() {
    let models = resolved(
        "unpriced: refuse\nprices: prices.yaml\nproviders:\n\
         \x20 tests: { script: models/tests.yaml, models: ['claude-*'] }\n\
         \x20 anthropic: { key: { file: ~/.config/key }, concurrency: 4, requests_per_minute: 50, tokens_per_minute: 400_000, record: tapes }\n\
         \x20 local: { protocols: [openai-chat], base_url: 'http://127.0.0.1:11434/v1' }\n\
         \x20 tape: { cassette: tapes/one.jsonl, strict: true }\n",
    );
    let names: Vec<&str> = models.providers.value.iter().map(|provider| provider.name.as_str()).collect();
    assert_eq!(names, ["tests", "anthropic", "local", "tape", "openai"]);
    let [tests, anthropic, local, tape, _] = &models.providers.value[..] else { panic!("{names:?}") };
    assert_eq!(tests.kind, ProviderKind::Script { file: "models/tests.yaml".to_owned() });
    assert_eq!((tests.protocols.len(), tests.models.as_slice()), (3, &["claude-*".to_owned()][..]));
    let key = Some(SecretSource::File("~/.config/key".to_owned()));
    assert_eq!(http(anthropic), ("https://api.anthropic.com", key));
    assert_eq!((anthropic.concurrency, anthropic.requests, anthropic.tokens), (Some(4), Some(50), Some(400_000)));
    assert_eq!(anthropic.record.as_deref(), Some("tapes"));
    assert_eq!(
        (anthropic.models.as_slice(), local.models.as_slice()),
        (&["claude-*".to_owned()][..], &["*".to_owned()][..])
    );
    let elsewhere = resolved("providers: { anthropic: { base_url: 'https://models.example' } }\n");
    assert_eq!(elsewhere.providers.value[0].models, ["*"]);
    assert_eq!(http(local), ("http://127.0.0.1:11434/v1", None));
    assert_eq!(tape.kind, ProviderKind::Cassette { file: "tapes/one.jsonl".to_owned(), strict: true });
    assert_eq!((models.prices.value.as_deref(), models.unpriced.value), (Some("prices.yaml"), Unpriced::Refuse));
    let keys: Vec<&str> = models.key_variables().into_iter().collect();
    assert_eq!(keys, ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]);
    let own = resolved("providers: { openai: { key: { env: TEAM_KEY } } }\n");
    assert!(own.key_variables().contains("TEAM_KEY"));
}

#[test]
fn what_cannot_be_is_told_with_its_place() {
    let rows = [
        ("{ a: {} }", "the provider `a` does not say where it is; add `base_url: https://...`"),
        ("{ antropic: {} }", "the one that is known is called `anthropic`"),
        (
            "{ a: { base_url: https://x.example } }",
            "the provider `a` does not say how it talks; add `protocols: [openai-chat]`",
        ),
        (
            "{ a: { protocols: [openai], script: f } }",
            "`protocols` needs one of `anthropic-messages`, `openai-responses`, `openai-chat`",
        ),
        ("{ a: { protocols: [], script: f } }", "`protocols` is empty"),
        ("{ a: { script: f, cassette: g } }", "the provider `a` has `script` and `cassette`"),
        ("{ a: { script: f, key: { env: X } } }", "`key` has a meaning beside `base_url` only"),
        ("{ a: { script: f, strict: true } }", "`strict` has a meaning beside `cassette` only"),
        ("{ a: { script: ../f } }", "`script` needs a path"),
        ("{ a: { script: f, models: [] } }", "`models` names no model"),
        ("{ openai: { base_url: http://x.example/v1 } }", "`base_url` without encryption leads to another machine"),
        ("{ openai: { base_url: 'http://127.0.0.1.evil.example' } }", "without encryption leads to another machine"),
        ("{ openai: { base_url: 'https://user:pw@x.example' } }", "without user, query and blanks"),
        ("{ openai: { base_url: api.openai.com } }", "`base_url` needs an address, not `api.openai.com`"),
        ("{ openai: { key: sk-secret } }", "the value of a secret does not stand in a file of settings"),
        ("{ openai: { api_key: sk-secret } }", "a key does not stand in a file of settings"),
        ("{ 'a b': { script: f } }", "`a b` cannot be the name of a provider"),
        ("{ openai: { concurrency: 0 } }", "`concurrency` needs a whole number from 1 to 1000000, not 0"),
    ];
    for (providers, wanted) in rows {
        let (_, told) = workspace(&format!("providers: {providers}\n"));
        let told = told.join("\n");
        assert!(told.contains(wanted), "{providers}: {told}");
        assert!(!told.contains("sk-secret"), "a key is never repeated: {told}");
    }
}
