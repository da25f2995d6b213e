//! An answer on its way: pieces become blocks.

use orc_domain::model::Tokens;

use super::Event;
use crate::talk::{Block, Said, ToolCall};

/// What came of an answer so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    blocks: Vec<Block>,
    /// The last block is a text that may still grow.
    grows: bool,
    used: Option<Tokens>,
}

impl Answer {
    /// Takes a piece in that is no end; gives a call that is whole now, under the id `own`, and tells what is whole.
    pub(super) fn take(&mut self, piece: Said, own: String, tell: &mut impl FnMut(Event)) -> Option<ToolCall> {
        match piece {
            Said::Text { text, begins } => {
                match self.blocks.last_mut() {
                    Some(Block::Text { text: known }) if self.grows && !begins => known.push_str(&text),
                    _ => {
                        self.rest(tell);
                        self.blocks.push(Block::Text { text });
                        self.grows = true;
                    }
                }
                None
            }
            Said::Thinking { .. } | Said::CallBegins { .. } => None,
            Said::Block(Block::Call(call)) => {
                self.rest(tell);
                let call = ToolCall { id: own, ..call };
                self.blocks.push(Block::Call(call.clone()));
                Some(call)
            }
            Said::Block(block) => {
                self.rest(tell);
                if let Block::Thought { text, .. } = &block
                    && !text.is_empty()
                {
                    tell(Event::Thought { text: text.clone() });
                }
                self.blocks.push(block);
                None
            }
            Said::Used(tokens) => {
                self.used = Some(tokens);
                None
            }
            Said::Ended(_) => None,
        }
    }

    /// The text that grew is whole.
    pub(super) fn rest(&mut self, tell: &mut impl FnMut(Event)) {
        if std::mem::take(&mut self.grows)
            && let Some(Block::Text { text }) = self.blocks.last()
            && !text.trim().is_empty()
        {
            tell(Event::Says { text: text.clone() });
        }
    }

    pub(super) const fn used(&self) -> Option<Tokens> {
        self.used
    }

    /// Whether it says or calls anything.
    pub(super) fn says_something(&self) -> bool {
        self.blocks.iter().any(|block| match block {
            Block::Text { text } => !text.trim().is_empty(),
            Block::Call(_) => true,
            Block::Thought { .. } | Block::Result { .. } => false,
        })
    }

    /// Its blocks, as they go into the conversation: without texts that say nothing.
    pub(super) fn into_blocks(self) -> Vec<Block> {
        let says = |block: &Block| !matches!(block, Block::Text { text } if text.trim().is_empty());
        self.blocks.into_iter().filter(says).collect()
    }

    /// The same of an answer that broke off: what is behind its last call may be half of something.
    pub(super) fn into_whole_blocks(mut self) -> Vec<Block> {
        let last = self.blocks.iter().rposition(|block| matches!(block, Block::Call(_)));
        self.blocks.truncate(last.map_or(0, |at| at + 1));
        self.into_blocks()
    }

    /// Its words.
    pub(super) fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
