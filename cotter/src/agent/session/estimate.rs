//! estimate

use crate::{history::message_list::MessageList, run::compaction::message_tokens};

/// What summing up left of a conversation.
#[derive(Clone, Copy)]
pub(crate) enum SizeAfterCompaction {
    /// No provider has counted it yet.
    Unknown,
    /// So many tokens: it is near the end all the same.
    TooMuch(u64),
}

/// An estimate that is kept: one more turn costs what it adds.
#[derive(Clone, Default)]
pub(crate) struct TokenEstimate {
    of: MessageList,
    tokens: u64,
}

impl TokenEstimate {
    pub(crate) fn take(&mut self, messages: MessageList) -> u64 {
        if messages.after(&self.of).is_none() {
            *self = TokenEstimate::default();
        }
        let added = messages.after(&self.of).into_iter().flatten();
        let added = added.filter_map(|entry| entry.in_context()).map(message_tokens);
        self.tokens += added.sum::<u64>();
        self.of = messages;
        self.tokens
    }
}
