//! The number of tokens of a conversation, as counted by a provider or estimated.

use std::sync::Arc;

use crate::{
    agent::session::Session,
    history::{
        entry::{Entry, EntryBody},
        message::{AssistantPart, Content, ContentPart, Message},
        message_list::MessageList,
    },
};

/// The number of messages that are searched for a counted reply.
const RECENT_MESSAGES: usize = 256;

/// The size of a conversation after its compaction.
#[derive(Clone, Copy)]
pub(crate) enum SizeAfterCompaction {
    /// No provider has counted it yet.
    Unknown,
    /// The number of tokens: the conversation is still near the limit.
    TooMuch(u64),
}

/// A cached estimate: a further turn costs only the estimate of its new messages.
#[derive(Clone, Default)]
pub(crate) struct TokenEstimate {
    messages: MessageList,
    tokens: u64,
}

impl TokenEstimate {
    pub(crate) fn update(&mut self, messages: MessageList) -> u64 {
        if messages.entries_after(&self.messages).is_none() {
            *self = TokenEstimate::default();
        }
        let added = messages.entries_after(&self.messages).into_iter().flatten();
        let added = added.filter_map(|entry| entry.context_message()).map(message_tokens);
        self.tokens += added.sum::<u64>();
        self.messages = messages;
        self.tokens
    }
}

impl Session {
    /// The tokens of the context: the provider's count of a recent reply plus an estimate of the later
    /// messages. Without such a count, an estimate of all messages.
    pub(crate) fn context_tokens(&self) -> u64 {
        let messages = self.messages();
        count_from_reply(&messages)
            .unwrap_or_else(|| self.state().overrides_mut().estimate(messages))
    }
}

/// The provider's count of the last reply plus an estimate of the later messages. A reply from before a
/// summary does not count. `None` if none of the last [`RECENT_MESSAGES`] messages has a count.
fn count_from_reply(messages: &MessageList) -> Option<u64> {
    let mut later_tokens = 0;
    for entry in messages.entries().rev().take(RECENT_MESSAGES) {
        match entry.context_message() {
            Some(Message::Assistant(reply))
                if reply.usage.total() > 0 && !is_before_summary(messages, entry) =>
            {
                return Some(reply.usage.total() + later_tokens);
            }
            Some(message) => later_tokens += message_tokens(message),
            None => {}
        }
    }
    None
}

/// True if an entry was kept beside a summary that was made after it.
fn is_before_summary(messages: &MessageList, entry: &Arc<Entry>) -> bool {
    let summary =
        messages.entries().next().filter(|first| matches!(first.body(), EntryBody::Compaction(_)));
    summary.is_some_and(|summary| entry.id().as_str() < summary.id().as_str())
}

/// Estimates the tokens of a message: about four bytes per token; a picture counts as a page of text.
pub(crate) fn message_tokens(message: &Message) -> u64 {
    let content_bytes = |content: &Content| match content {
        Content::Text(text) => text.len(),
        Content::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                ContentPart::Text(text) | ContentPart::Data(text) => text.len(),
                ContentPart::Image { .. } => 4800,
            })
            .sum(),
    };
    let bytes = match message {
        Message::User(user) => content_bytes(&user.content),
        Message::ToolResult(result) => content_bytes(&result.content),
        Message::Assistant(reply) => reply
            .parts
            .iter()
            .map(|part| match part {
                AssistantPart::Text(text) | AssistantPart::Thinking { text, .. } => text.len(),
                AssistantPart::ToolCall(call) => call.name.len() + call.input.to_string().len(),
            })
            .sum(),
    };
    (bytes as u64).div_ceil(4)
}
