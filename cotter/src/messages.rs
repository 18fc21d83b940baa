//! The messages of a request, shared: cloning them copies a few pointers, however long the session.
//!
//! Full blocks of 64 are shared for good, so an adapter may keep the bytes it made of a block; only
//! the last, growing block is ever copied.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use smol_str::SmolStr;

use crate::{
    message::Message,
    session::{Body, Entry},
};

const BLOCK: usize = 64;

/// A list of messages that is cheap to clone and to extend.
#[derive(Clone, Default)]
pub struct Messages {
    /// Every block is full.
    blocks: Arc<Vec<Arc<Block>>>,
    /// Shorter than a block.
    tail: Arc<Vec<Item>>,
}

/// Sixty-four messages that will never change.
pub struct Block {
    items: Vec<Item>,
    wire: OnceLock<Box<[u8]>>,
}

impl Block {
    /// The messages of the block.
    pub fn iter(&self) -> impl Iterator<Item = &Message> {
        self.items.iter().filter_map(Item::message)
    }

    /// The bytes an adapter made of this block, made on first use and kept.
    pub fn wire(&self, make: impl FnOnce(&Block) -> Box<[u8]>) -> &[u8] {
        self.wire.get_or_init(|| make(self))
    }
}

/// One message and the entry it came from.
#[derive(Clone)]
pub(crate) struct Item(Arc<Entry>);

impl Item {
    fn message(&self) -> Option<&Message> {
        match self.0.body() {
            Body::Message(message) => Some(message),
            Body::Compaction(compaction) => Some(&compaction.message),
            _ => None,
        }
    }
}

impl Messages {
    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.blocks.len() * BLOCK + self.tail.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.blocks.is_empty()
    }

    /// The messages, oldest first. One that can no longer be read is left out.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.items().filter_map(Item::message)
    }

    /// The messages with the id of the entry each came from.
    pub fn sourced(&self) -> impl DoubleEndedIterator<Item = (Option<&SmolStr>, &Message)> {
        self.items().filter_map(|item| Some((item.0.stored_id(), item.message()?)))
    }

    /// The last message.
    pub fn last(&self) -> Option<&Message> {
        self.iter().next_back()
    }

    /// The full blocks and the messages after them, for adapters that keep bytes per block.
    pub fn blocks(&self) -> (&[Arc<Block>], impl Iterator<Item = &Message>) {
        (&self.blocks, self.tail.iter().filter_map(Item::message))
    }

    /// Adds a message that is not part of the session.
    pub fn push(&mut self, message: Message) {
        self.push_entry(Arc::new(Entry::unstored(message)));
    }

    pub(crate) fn push_entry(&mut self, entry: Arc<Entry>) {
        let tail = Arc::make_mut(&mut self.tail);
        tail.push(Item(entry));
        if tail.len() == BLOCK {
            let items = std::mem::take(tail);
            let block = Block { items, wire: OnceLock::new() };
            Arc::make_mut(&mut self.blocks).push(Arc::new(block));
        }
    }

    fn items(&self) -> impl DoubleEndedIterator<Item = &Item> {
        self.blocks.iter().flat_map(|block| &block.items).chain(self.tail.iter())
    }
}

impl FromIterator<Message> for Messages {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        let mut all = Messages::default();
        messages.into_iter().for_each(|message| all.push(message));
        all
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_what_it_had_while_the_original_grows() {
        let mut messages = Messages::default();
        let mut clones = vec![];
        for n in 0..200 {
            clones.push(messages.clone());
            messages.push(Message::user(n.to_string()));
        }
        for (n, clone) in clones.iter().enumerate() {
            assert_eq!(clone.len(), n);
            let texts: Vec<_> = clone.iter().map(|m| m.text().into_owned()).collect();
            assert_eq!(texts, (0..n).map(|n| n.to_string()).collect::<Vec<_>>());
        }
        assert!(Arc::ptr_eq(&messages.blocks[0], &clones[199].blocks[0]));
    }
}
