//! The messages of a request. The list is shared: a clone copies a few pointers, also in a long session.
//!
//! Full blocks of 64 messages never change, so an adapter may cache bytes per block. Only the last, growing
//! block is ever copied.

use std::{any::Any, fmt, sync::Arc};

use smol_str::SmolStr;

use crate::history::{
    chunked_vec::{Chunk, ChunkedVec},
    entry::Entry,
    message::{Message, ToolResultMessage},
};

/// A list of messages that is cheap to clone and to extend.
#[derive(Clone, Default)]
pub struct MessageList(ChunkedVec<MessageItem>);

/// A block of 64 messages that never changes.
pub type MessageBlock = Chunk<MessageItem>;

impl MessageBlock {
    /// The messages of the block.
    pub fn iter(&self) -> impl Iterator<Item = &Message> {
        self.items().iter().filter_map(MessageItem::message)
    }

    /// Returns a value that an adapter derives from this block. The value is computed on first use and
    /// cached. The key must name every other input of the value, because several models may share a
    /// conversation.
    pub fn memoize<T: Any + Send + Sync>(
        &self,
        key: &str,
        make: impl FnOnce(&MessageBlock) -> T,
    ) -> &T {
        self.get_or_make(key, || make(self))
    }
}

/// The change to one message of a list.
#[derive(Debug)]
#[non_exhaustive]
pub enum MessageChange {
    /// The message stays.
    Keep,
    /// This message replaces the old one.
    Replace(Message),
    /// The message is removed.
    Drop,
}

/// One message and its entry.
#[doc(hidden)]
#[derive(Clone)]
pub struct MessageItem(Arc<Entry>);

impl MessageItem {
    fn message(&self) -> Option<&Message> {
        self.0.context_message()
    }

    fn is_same_entry(&self, other: &MessageItem) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// True if both messages are equal for a model. The kind of a user message, the usage and the render
    /// data are ignored.
    fn reads_same_as(&self, other: &MessageItem) -> bool {
        self.is_same_entry(other)
            || match (self.message(), other.message()) {
                (Some(Message::User(ours)), Some(Message::User(theirs))) => {
                    ours.content == theirs.content
                }
                (Some(Message::Assistant(ours)), Some(Message::Assistant(theirs))) => {
                    (&ours.model, &ours.parts) == (&theirs.model, &theirs.parts)
                }
                (Some(Message::ToolResult(ours)), Some(Message::ToolResult(theirs))) => {
                    let identity =
                        |result: &ToolResultMessage| (result.call_id.clone(), result.error);
                    identity(ours) == identity(theirs) && ours.content == theirs.content
                }
                (ours, theirs) => ours.is_none() && theirs.is_none(),
            }
    }
}

impl MessageList {
    /// The number of messages.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The messages, oldest first. An unreadable message is skipped.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.0.iter().filter_map(MessageItem::message)
    }

    /// The messages, each with the id of its entry.
    pub fn iter_with_ids(&self) -> impl DoubleEndedIterator<Item = (Option<&SmolStr>, &Message)> {
        self.0.iter().filter_map(|item| Some((item.0.stored_id(), item.message()?)))
    }

    /// The last message.
    pub fn last(&self) -> Option<&Message> {
        self.iter().next_back()
    }

    /// The full blocks and the messages after them, for adapters that cache bytes per block.
    pub fn blocks(&self) -> (&[Arc<MessageBlock>], impl Iterator<Item = &Message>) {
        let (blocks, tail) = self.0.blocks();
        (blocks, tail.iter().filter_map(MessageItem::message))
    }

    /// Adds a message that is not part of the session.
    pub fn push(&mut self, message: Message) {
        self.push_entry(Arc::new(Entry::unstored(message)));
    }

    /// Adds a message that replaces the message of an entry and has the entry's id.
    pub fn push_as(&mut self, entry_id: &SmolStr, message: Message) {
        self.push_entry(Arc::new(Entry::in_place_of(entry_id, message)));
    }

    /// Returns the list after a change to each message. `change` receives the entry's id and the message. A
    /// kept or replaced message keeps its id; a kept message is shared, not copied.
    pub fn map_messages(
        &self,
        mut change: impl FnMut(Option<&SmolStr>, &Message) -> MessageChange,
    ) -> MessageList {
        let mut all = MessageList::default();
        self.entries().for_each(|entry| all.push_changed(entry, &mut change));
        all
    }

    pub(crate) fn push_changed(
        &mut self,
        entry: &Arc<Entry>,
        mut change: impl FnMut(Option<&SmolStr>, &Message) -> MessageChange,
    ) {
        let Some(message) = entry.context_message() else { return };
        match change(entry.stored_id(), message) {
            MessageChange::Keep => self.push_entry(entry.clone()),
            MessageChange::Replace(message) => self.push_as(entry.id(), message),
            MessageChange::Drop => {}
        }
    }

    pub(crate) fn push_entry(&mut self, entry: Arc<Entry>) {
        self.0.push(MessageItem(entry));
    }

    /// The entries of the messages.
    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.0.iter().map(|item| &item.0)
    }

    /// The entries after `earlier`, if this list continues it; otherwise `None`.
    pub(crate) fn entries_after<'a>(
        &'a self,
        earlier: &MessageList,
    ) -> Option<impl Iterator<Item = &'a Arc<Entry>>> {
        let after = self.0.items_after(&earlier.0, MessageItem::is_same_entry)?;
        Some(after.map(|item| &item.0))
    }

    /// The index of the first message at which `later` differs; `None` if `later` begins with all of this
    /// list.
    pub(crate) fn first_difference(&self, later: &MessageList) -> Option<usize> {
        let same = self.0.count_same_start(&later.0, MessageItem::reads_same_as);
        (same < self.len()).then_some(same)
    }
}

impl FromIterator<Message> for MessageList {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        let mut all = MessageList::default();
        messages.into_iter().for_each(|message| all.push(message));
        all
    }
}

impl fmt::Debug for MessageList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages", self.len())
    }
}
