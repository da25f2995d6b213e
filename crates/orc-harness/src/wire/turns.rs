//! What all protocols want of a conversation: speakers take turns, results come first, and nothing is empty.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::talk::{Block, Message, Speaker, ToolInput};

/// Characters of a name that every provider takes.
const LONGEST_NAME: usize = 64;

/// What one speaker says until the other one does.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) by: Speaker,
    /// Never none. No text is blank; of a user, results come first; of a model, the last one is no thought, since providers
    /// refuse one that nothing follows.
    pub(super) blocks: Vec<&'a Block>,
}

impl Turn<'_> {
    /// The texts in it, with an empty line between them.
    pub(super) fn text(&self) -> String {
        let text = |block: &&Block| if let Block::Text { text } = block { Some(text.clone()) } else { None };
        self.blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n\n")
    }
}

/// The turns of a conversation, with those thoughts that `wants` them.
pub(super) fn turns<'a>(messages: &'a [Message], wants: impl Fn(&Block) -> bool) -> Vec<Turn<'a>> {
    let says = |block: &&Block| match block {
        Block::Text { text } => !text.trim().is_empty(),
        Block::Thought { .. } => wants(block),
        Block::Call(_) | Block::Result { .. } => true,
    };
    let said = messages.iter().map(|message| (message.by, message.blocks.iter().filter(says).collect()));
    let mut turns = joined(said.map(|(by, blocks)| Turn { by, blocks }));
    for turn in turns.iter_mut().filter(|turn| turn.by == Speaker::Model) {
        let last = turn.blocks.iter().rposition(|block| !matches!(block, Block::Thought { .. }));
        turn.blocks.truncate(last.map_or(0, |at| at + 1));
    }
    // Where that left nothing of a turn, those around it meet.
    let mut turns = joined(turns.into_iter());
    for turn in turns.iter_mut().filter(|turn| turn.by == Speaker::User) {
        turn.blocks.sort_by_key(|block| !matches!(block, Block::Result { .. }));
    }
    turns
}

/// The same without turns that say nothing.
fn joined<'a>(turns: impl Iterator<Item = Turn<'a>>) -> Vec<Turn<'a>> {
    let mut all: Vec<Turn<'a>> = Vec::new();
    for turn in turns.filter(|turn| !turn.blocks.is_empty()) {
        match all.last_mut() {
            Some(last) if last.by == turn.by => last.blocks.extend(turn.blocks),
            _ => all.push(turn),
        }
    }
    all
}

/// The input of a call as the object that providers want: what is none, or no JSON, stands in one.
pub(super) fn object(input: &ToolInput) -> Value {
    match input {
        ToolInput::Json(value) if value.is_object() => value.clone(),
        ToolInput::Json(value) => json!({ "input": value }),
        ToolInput::Broken(text) => json!({ "not_json": text }),
    }
}

/// The name of a tool that was called, in a form that every model takes: a name that a model made up may have characters or a
/// length that its provider refuses in a history.
pub(super) fn plain_name(name: &str) -> String {
    let plain = |one: char| if one.is_ascii_alphanumeric() || one == '-' { one } else { '_' };
    if name.is_empty() { "unknown".to_owned() } else { name.chars().take(LONGEST_NAME).map(plain).collect() }
}

/// The id of a call in a form that every model takes: ids of one provider may have characters or a length that another one
/// refuses.
pub(super) fn plain_id(id: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=64).contains(&id.len()) && id.chars().all(is_plain) {
        return id.to_owned();
    }
    let hash = Sha256::digest(id.as_bytes());
    hash.iter().take(12).fold("call_".to_owned(), |all, byte| format!("{all}{byte:02x}"))
}
