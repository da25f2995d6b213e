//! Addresses, and what is no address.

use super::*;

#[test]
fn a_call_goes_where_the_programs_of_the_providers_would_send_it() {
    use Protocol::{AnthropicMessages as Messages, OpenaiChat as Chat, OpenaiResponses as Responses};
    for (base, protocol, want, query, wanted) in [
        (
            "https://api.anthropic.com",
            Messages,
            Want::Answer,
            "?beta=true",
            "https://api.anthropic.com/v1/messages?beta=true",
        ),
        (
            "https://api.anthropic.com/v1/",
            Messages,
            Want::Count,
            "",
            "https://api.anthropic.com/v1/messages/count_tokens",
        ),
        ("https://llm.example/anthropic", Messages, Want::Answer, "", "https://llm.example/anthropic/v1/messages"),
        (
            "https://api.anthropic.com/",
            Messages,
            Want::Models,
            "?limit=5",
            "https://api.anthropic.com/v1/models?limit=5",
        ),
        ("https://api.openai.com/v1", Responses, Want::Answer, "", "https://api.openai.com/v1/responses"),
        ("https://api.openai.com", Chat, Want::Answer, "", "https://api.openai.com/v1/chat/completions"),
        (
            "https://llm.example/v1beta/openai/",
            Chat,
            Want::Answer,
            "",
            "https://llm.example/v1beta/openai/chat/completions",
        ),
        ("http://127.0.0.1:11434/v1", Chat, Want::Models, "", "http://127.0.0.1:11434/v1/models"),
    ] {
        let base = parse_base(base).unwrap();
        assert_eq!(address(&base, protocol, want, query).as_str(), wanted);
    }
}

#[test]
fn what_is_no_address_is_said_without_what_may_be_a_key() {
    for (text, shown_as) in [
        ("api.openai.com/v1", "api.openai.com/v1"),
        ("ftp://api.openai.com", "ftp://api.openai.com"),
        ("https://user:sk-secret@api.openai.com/v1", "https://***@api.openai.com/v1"),
        ("https://api.openai.com/v1?key=sk-secret", "https://api.openai.com/v1"),
        ("", ""),
    ] {
        assert!(parse_base(text).is_err(), "{text}");
        assert_eq!(shown(text), shown_as);
    }
}

#[test]
fn this_machine_is_known_by_its_names() {
    for (url, wanted) in [
        ("http://127.0.0.1:1", true),
        ("http://127.9.9.9", true),
        ("http://[::1]:8080", true),
        ("http://localhost", true),
        ("http://a.localhost", true),
        ("http://10.0.0.1", false),
        ("https://localhost.example", false),
    ] {
        assert_eq!(is_this_machine(&Url::parse(url).unwrap()), wanted, "{url}");
    }
}
