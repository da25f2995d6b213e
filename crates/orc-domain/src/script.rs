//! A scripted model: what it answers, turn by turn, to whoever it knows by the first words of a conversation.
//!
//! A script is a function of the request: the turn is the number of answers that the request already holds, so whoever
//! resumes or repeats a request is told the same again. The one thing that counts is [`Failure::times`].
//! `orc-spec` reads scripts, `orc-gateway` puts them into the words of a protocol.

use crate::model::Tokens;
use crate::price::matches;
use crate::time::Millis;

/// A scripted model: `models/NAME.yaml`.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The path of its file, for messages.
    pub file: String,
    /// Conversations that it knows; the first one that fits counts.
    pub tracks: Vec<Track>,
}

/// A conversation that it knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Its name in the file.
    pub name: String,
    /// Which conversation it is.
    pub fits: Fits,
    /// What it says, turn by turn; at least one.
    pub turns: Vec<Turn>,
    /// What becomes of requests beyond the last turn.
    pub beyond: Beyond,
}

/// By what a conversation is known; empty: any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fits {
    /// Names of models, with `*` for any characters.
    pub model: Option<String>,
    /// Each stands in the system text.
    pub system: Vec<String>,
    /// Each stands in the first message of the user.
    pub prompt: Vec<String>,
    /// Each is a tool that is offered.
    pub tools: Vec<String>,
}

/// What a request says of the conversation that it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The model that is asked.
    pub model: &'a str,
    /// The system text.
    pub system: &'a str,
    /// The text of the user's first message.
    pub prompt: &'a str,
    /// Names of the tools that are offered.
    pub tools: &'a [String],
}

impl Fits {
    /// Whether a conversation is the one that is meant.
    #[must_use]
    pub fn fit(&self, opening: Opening<'_>) -> bool {
        self.model.as_ref().is_none_or(|pattern| matches(pattern, opening.model))
            && self.system.iter().all(|text| opening.system.contains(text.as_str()))
            && self.prompt.iter().all(|text| opening.prompt.contains(text.as_str()))
            && self.tools.iter().all(|tool| opening.tools.contains(tool))
    }
}

/// What becomes of requests beyond the last turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beyond {
    /// They are refused.
    #[default]
    Error,
    /// The last turn is said again.
    Last,
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What fails before anything is said.
    pub failure: Option<Failure>,
    /// What is said; none where every request fails.
    pub answer: Option<Answer>,
    /// How long nothing comes at all.
    pub delay: Millis,
    /// How long nothing comes between two events of a stream.
    pub between: Millis,
    /// The connection is cut after so many events; of an answer that is no stream, in its middle.
    pub cut_after: Option<u32>,
}

/// What is said: first the thoughts, then the text, then the calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// What it thinks aloud.
    pub thinking: Option<String>,
    /// What it says.
    pub text: Option<String>,
    /// Tools that it calls.
    pub calls: Vec<Call>,
    /// Why it ends.
    pub stop: Stop,
    /// What it says that it used.
    pub figures: Figures,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Its input: a map, or a text that is passed on as it stands, whether it is JSON or not.
    pub input: serde_json::Value,
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// Everything is said.
    #[default]
    EndTurn,
    /// Tools are called.
    ToolUse,
    /// The limit of the output is reached.
    MaxTokens,
    /// It will not.
    Refusal,
}

impl Stop {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::EndTurn, Self::ToolUse, Self::MaxTokens, Self::Refusal];

    /// The word of `stop:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::Refusal => "refusal",
        }
    }
}

/// Figures of usage as they are written; what is not said follows from lengths, classes of caches and tools are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// It tells no usage at all.
    Untold,
    /// It tells usage.
    Told {
        /// Input that came from no cache.
        input: Option<u64>,
        /// Output without reasoning.
        output: Option<u64>,
        /// Reasoning.
        reasoning: Option<u64>,
        /// The other classes; those above are 0 here.
        others: Tokens,
    },
}

impl Default for Figures {
    fn default() -> Self {
        Self::Told { input: None, output: None, reasoning: None, others: Tokens::default() }
    }
}

/// How many bytes count as a token where figures follow from lengths.
pub const BYTES_PER_TOKEN: u64 = 4;

/// Tokens of so many bytes, rounded up.
#[must_use]
pub const fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

impl Answer {
    /// What it used for a request of so many bytes; `None`: it does not tell.
    #[must_use]
    pub fn tokens(&self, request_bytes: usize) -> Option<Tokens> {
        let Figures::Told { input, output, reasoning, others } = self.figures else { return None };
        let input_of = |call: &Call| match &call.input {
            serde_json::Value::String(text) => text.len(),
            value => value.to_string().len(),
        };
        let calls: usize = self.calls.iter().map(|call| call.name.len() + input_of(call)).sum();
        let said = calls + self.text.as_ref().map_or(0, String::len);
        Some(Tokens {
            input: input.unwrap_or_else(|| tokens_of(request_bytes)),
            output: output.unwrap_or_else(|| tokens_of(said).max(1)),
            reasoning: reasoning.unwrap_or_else(|| tokens_of(self.thinking.as_ref().map_or(0, String::len))),
            ..others
        })
    }
}

/// An error of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The status, from 400.
    pub status: u16,
    /// The provider's word for it; none: the usual one of the status.
    pub kind: Option<String>,
    /// What it says.
    pub message: String,
    /// What it says of when to try again.
    pub retry_after: Option<Millis>,
    /// So many requests fail, then the answer comes; none: all do.
    pub times: Option<u32>,
}

/// Why a script has nothing to say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Speechless {
    /// It does not know the conversation.
    #[error("no track of `{file}` fits: {why}")]
    Track {
        /// The path of its file.
        file: String,
        /// What was asked, in short.
        why: String,
    },
    /// The conversation goes on beyond it.
    #[error(
        "the track `{track}` of `{file}` has {}, and this is turn {turn}; `repeat: last` says the last one again",
        counted(*turns)
    )]
    Over {
        /// The path of its file.
        file: String,
        /// The track.
        track: String,
        /// How many it has.
        turns: usize,
        /// Which was asked for, from 1.
        turn: usize,
    },
}

impl Script {
    /// The track of a conversation and what it says after so many answers.
    ///
    /// # Errors
    /// No track fits, or it has no such turn.
    pub fn turn(&self, opening: Opening<'_>, answers: usize) -> Result<(&Track, &Turn), Speechless> {
        let Some(track) = self.tracks.iter().find(|track| track.fits.fit(opening)) else {
            return Err(Speechless::Track { file: self.file.clone(), why: summary(opening) });
        };
        let turn = match track.beyond {
            Beyond::Error => track.turns.get(answers),
            Beyond::Last => track.turns.get(answers).or(track.turns.last()),
        };
        turn.map(|turn| (track, turn)).ok_or_else(|| Speechless::Over {
            file: self.file.clone(),
            track: track.name.clone(),
            turns: track.turns.len(),
            turn: answers + 1,
        })
    }
}

fn counted(turns: usize) -> String {
    if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") }
}

/// What was asked, in a line: programs put much of their own around what their user said.
fn summary(opening: Opening<'_>) -> String {
    const WORDS: usize = 8;
    let words = |text: &str| -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [] => "empty".to_owned(),
            words if words.len() <= 2 * WORDS => format!("`{}`", words.join(" ")),
            words => format!("`{} … {}`", words[..WORDS].join(" "), words[words.len() - WORDS..].join(" ")),
        }
    };
    let tools = if opening.tools.is_empty() { "none".to_owned() } else { opening.tools.join(", ") };
    format!(
        "the model is `{}`, the first message {}, the system text {}, tools: {tools}",
        opening.model,
        words(opening.prompt),
        words(opening.system),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(text: &str) -> Turn {
        let answer = Some(Answer { text: Some(text.to_owned()), ..Answer::default() });
        Turn { failure: None, answer, delay: Millis::ZERO, between: Millis::ZERO, cut_after: None }
    }

    fn track(name: &str, fits: Fits, beyond: Beyond) -> Track {
        Track { name: name.to_owned(), fits, turns: vec![turn("one"), turn("two")], beyond }
    }

    fn opening<'a>(model: &'a str, system: &'a str, prompt: &'a str, tools: &'a [String]) -> Opening<'a> {
        Opening { model, system, prompt, tools }
    }

    #[test]
    fn the_first_track_that_fits_counts_and_the_turn_is_a_function_of_the_request() {
        let tools = [String::from("Bash"), String::from("Read")];
        let of = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let review = Fits { model: Some("m-*".to_owned()), system: of(&["review"]), ..Fits::default() };
        let write = Fits { prompt: of(&["write", "file"]), tools: of(&["Read"]), ..Fits::default() };
        let script = Script {
            file: "models/a.yaml".to_owned(),
            tracks: vec![track("review", review, Beyond::Error), track("write", write, Beyond::Last)],
        };
        let said = |opening, answers| {
            script.turn(opening, answers).map(|(track, turn)| {
                format!("{} {}", track.name, turn.answer.as_ref().and_then(|answer| answer.text.clone()).unwrap())
            })
        };
        assert_eq!(said(opening("m-1", "you review", "write a file", &tools), 0).unwrap(), "review one");
        assert_eq!(said(opening("m-1", "you review", "write a file", &tools), 1).unwrap(), "review two");
        assert_eq!(said(opening("x", "you review", "write a file", &tools), 0).unwrap(), "write one");
        assert_eq!(said(opening("x", "", "write a file", &tools), 9).unwrap(), "write two");
        assert_eq!(
            said(opening("m-1", "you review", "", &[]), 2).unwrap_err().to_string(),
            "the track `review` of `models/a.yaml` has 2 turns, and this is turn 3; `repeat: last` says the last one again"
        );
        assert_eq!(
            said(opening("x", "", "write\n a   file", &tools[..1]), 0).unwrap_err().to_string(),
            "no track of `models/a.yaml` fits: the model is `x`, the first message `write a file`, the system text empty, \
             tools: Bash"
        );
    }

    #[test]
    fn figures_that_are_not_told_follow_from_lengths() {
        let call = |input| Call { name: "Bash".to_owned(), input };
        let answer = Answer {
            thinking: Some("12345".to_owned()),
            text: Some("123".to_owned()),
            calls: vec![call(serde_json::json!({"a": 1})), call("raw".into())],
            ..Answer::default()
        };
        // 3 + (4 + 7) + (4 + 3) = 21 bytes said.
        let wanted = Tokens { input: 26, output: 6, reasoning: 2, ..Tokens::default() };
        assert_eq!(answer.tokens(101), Some(wanted));
        let others = Tokens { cache_read: 7, ..Tokens::default() };
        let told = Figures::Told { input: Some(1), output: Some(0), reasoning: None, others };
        let told = Answer { figures: told, ..answer.clone() }.tokens(101);
        assert_eq!(told, Some(Tokens { input: 1, output: 0, reasoning: 2, cache_read: 7, ..Tokens::default() }));
        assert_eq!(Answer { figures: Figures::Untold, ..answer }.tokens(101), None);
        assert_eq!(Answer::default().tokens(0).unwrap().output, 1);
    }
}
