//! What the name of a model tells about the requests that it takes. A name that is not known is taken for a model of a
//! compatible server, which knows the oldest form of everything.

/// The version of a model of Anthropic: `claude-opus-4-6` and `anthropic/claude-4.6-opus` are (4, 6), `claude-x` is (0, 0).
/// None: it is none of theirs.
pub(super) fn claude(model: &str) -> Option<(u32, u32)> {
    let name = &model[model.find("claude")?..];
    // Longer figures are days.
    let figure = |word: &str| if word.len() <= 2 { word.parse::<u32>().ok() } else { None };
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric()).map(figure).skip_while(Option::is_none);
    Some((words.next().flatten().unwrap_or(0), words.next().flatten().unwrap_or(0)))
}

/// Whether it decides itself how long it thinks, by an effort. From 4.7 on, a budget is refused; older ones know nothing
/// else. <https://platform.claude.com/docs/en/build-with-claude/thinking>, looked up 2026-12-01.
pub(super) fn thinks_by_effort(claude: Option<(u32, u32)>) -> bool {
    claude >= Some((4, 6))
}

/// Whether it takes its thoughts back only behind exactly what was there when it thought them, and always thinks by effort
/// where nothing is said. <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking>, looked up 2026-12-01.
pub(super) fn binds_thoughts(claude: Option<(u32, u32)>) -> bool {
    claude >= Some((5, 1))
}

/// The output limit for a protocol that demands one, where the question has none: the longest output of Anthropic's models.
/// <https://platform.claude.com/docs/en/about-claude/models/overview>, looked up 2026-12-01.
pub(super) fn most_output(claude: Option<(u32, u32)>) -> u32 {
    match claude {
        Some(version) if version >= (4, 6) => 128_000,
        Some((4, 5)) => 64_000,
        Some((3, minor)) if minor < 7 => 8_192,
        _ => 32_000,
    }
}

/// The longest output that a model may safely be asked for, in tokens; of one that is not known, what most models take.
pub(super) fn longest_output(model: &str) -> u32 {
    match claude(model) {
        Some(version) => most_output(Some(version)),
        None if thinks_at_openai(model) => 128_000,
        None => 16_384,
    }
}

/// Whether it is one of OpenAI's that think: those refuse `max_tokens`. Of `gpt-oss`, other servers answer.
pub(super) fn thinks_at_openai(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let figure = |rest: &str| rest.chars().next().and_then(|c| c.to_digit(10));
    name.strip_prefix("gpt-").and_then(figure).is_some_and(|major| major >= 5)
        || name.strip_prefix('o').and_then(figure).is_some()
}

/// Whether it is an older one of OpenAI's, which refuses to seal reasoning that it does not have.
pub(super) fn never_thinks(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["gpt-3", "gpt-4", "chatgpt-"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_names() {
        for (name, wanted) in [
            ("claude-opus-4-6", Some((4, 6))),
            ("claude-sonnet-4-5-20250929", Some((4, 5))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-opus-5", Some((5, 0))),
            ("claude-haiku-5-5", Some((5, 5))),
            ("claude-fable-5-1-20260801", Some((5, 1))),
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("claude-3-5-haiku-latest", Some((3, 5))),
            ("anthropic/claude-4.6-opus", Some((4, 6))),
            ("us.anthropic.claude-opus-4-6-v1:0", Some((4, 6))),
            ("claude-mythos-preview", Some((0, 0))),
            ("claude", Some((0, 0))),
            ("gpt-5", None),
            ("deepseek-chat", None),
            ("", None),
        ] {
            assert_eq!(claude(name), wanted, "{name}");
        }
    }

    #[test]
    fn what_versions_take() {
        let of = |name| {
            let version = claude(name);
            (thinks_by_effort(version), binds_thoughts(version), most_output(version))
        };
        assert_eq!(of("claude-opus-5-5"), (true, true, 128_000));
        assert_eq!(of("claude-opus-5"), (true, false, 128_000));
        assert_eq!(of("claude-sonnet-4-6"), (true, false, 128_000));
        assert_eq!(of("claude-haiku-4-5"), (false, false, 64_000));
        assert_eq!(of("claude-opus-4-1"), (false, false, 32_000));
        assert_eq!(of("claude-3-7-sonnet-latest"), (false, false, 32_000));
        assert_eq!(of("claude-3-5-haiku-latest"), (false, false, 8_192));
        assert_eq!(of("glm-5"), (false, false, 32_000));
    }

    #[test]
    fn models_of_openai() {
        for name in ["gpt-5", "gpt-5.4-mini", "gpt-6.2-sol", "o3", "o4-mini", "openai/gpt-5"] {
            assert!(thinks_at_openai(name) && !never_thinks(name), "{name}");
        }
        for name in ["gpt-4.1", "gpt-4o", "openai/gpt-4o-mini", "chatgpt-4o-latest", "gpt-3.5-turbo"] {
            assert!(!thinks_at_openai(name) && never_thinks(name), "{name}");
        }
        for name in ["gpt-oss-120b", "openai/gpt-oss-20b", "mistral-large", "olmo-3", "opus", "qwen3", ""] {
            assert!(!thinks_at_openai(name) && !never_thinks(name), "{name}");
        }
    }
}
