//! The tree of a session's entries, its leaf, and the messages from the root to the leaf.

use std::{
    collections::{HashMap, HashSet, hash_map::RandomState},
    hash::BuildHasher,
    sync::Arc,
};

use smol_str::SmolStr;

use crate::history::{
    entry::{Entries, Entry, EntryBody, EntryKind},
    message::{AssistantMessage, Message},
    message_list::MessageList,
    store::EarlierEntries,
};

/// All entries, in the order in which they were written.
#[derive(Default)]
pub(crate) struct Tree {
    nodes: Vec<TreeNode>,
    leaf: Option<usize>,
    /// The messages for the model, kept up to date with the leaf.
    messages: MessageList,
    /// The entries from the root to the leaf. Built on first use, then kept up to date.
    path: Option<Entries>,
    /// Reads the entries before the first node, if they were not read yet.
    earlier: Option<EarlierEntries>,
    /// The nodes by id. Built on the first lookup.
    #[expect(clippy::box_collection, reason = "few sessions have it, and an idle one is small")]
    by_id: Option<Box<HashMap<SmolStr, usize>>>,
    /// The ids of the calls in the messages. Built on first use, then kept up to date.
    calls: Option<Box<CallIds>>,
}

/// Call ids, stored as hashes. After a false match, a new call only gets another id.
#[derive(Default)]
struct CallIds {
    state: RandomState,
    hashes: HashSet<u64>,
}

impl CallIds {
    fn add(&mut self, entry: &Entry) {
        if let Some(Message::Assistant(reply)) = entry.message() {
            let hashes = reply.calls().map(|call| self.state.hash_one(&call.id));
            self.hashes.extend(hashes);
        }
    }
}

struct TreeNode {
    entry: Arc<Entry>,
    parent: Option<usize>,
}

impl Tree {
    /// Builds the tree of a file's entries. An entry whose parent is missing or comes later (as in a cycle)
    /// is added after the current leaf and reported.
    pub(crate) fn load(entries: Vec<Arc<Entry>>, mut report: impl FnMut(String)) -> Self {
        let mut tree = Tree { nodes: Vec::with_capacity(entries.len()), ..Tree::default() };
        for entry in entries {
            let parent = match entry.parent_id() {
                None => None,
                Some(id) => match tree.nodes.last() {
                    Some(last) if last.entry.id() == id => Some(tree.nodes.len() - 1),
                    _ => {
                        let found = tree.find(id);
                        if found.is_none() {
                            report(format!(
                                "entry `{}`: its parent `{id}` is missing or comes later",
                                entry.id()
                            ));
                        }
                        found.or(tree.leaf)
                    }
                },
            };
            tree.add(entry, parent);
        }
        tree.rebuild();
        tree
    }

    /// Builds the tree of the end of a long session; `load_earlier` reads the rest.
    pub(crate) fn load_end(entries: Vec<Arc<Entry>>, earlier: Option<EarlierEntries>) -> Self {
        let mut tree = Tree { earlier, ..Tree::default() };
        for (index, entry) in entries.into_iter().enumerate() {
            tree.add(entry, index.checked_sub(1));
        }
        tree.rebuild();
        tree
    }

    /// Reads the entries that were skipped when the session was opened. Returns the diagnostics.
    pub(crate) fn load_earlier(&mut self) -> Vec<String> {
        let Some(earlier) = self.earlier.take() else { return vec![] };
        let (mut entries, mut diagnostics) = earlier();
        entries.extend(self.nodes.drain(..).map(|node| node.entry));
        *self = Tree::load(entries, |diagnostic| diagnostics.push(diagnostic));
        diagnostics
    }

    /// Adds an entry after the leaf.
    pub(crate) fn append(&mut self, entry: Arc<Entry>) {
        let (kind, parent) = (entry.kind(), self.leaf);
        if kind == EntryKind::Message {
            self.messages.push_entry(entry.clone());
            self.calls.iter_mut().for_each(|calls| calls.add(&entry));
        }
        if kind != EntryKind::Leaf
            && let Some(path) = &mut self.path
        {
            path.0.push(entry.clone());
        }
        self.add(entry, parent);
        if matches!(kind, EntryKind::Compaction | EntryKind::Leaf) {
            self.load_earlier();
            self.rebuild();
        }
    }

    pub(crate) fn messages(&self) -> &MessageList {
        &self.messages
    }

    /// True if a call in the messages has this id. A hash collision gives a false `true`.
    pub(crate) fn has_call(&mut self, id: &SmolStr) -> bool {
        let calls = self.calls.get_or_insert_with(|| {
            let mut calls = Box::<CallIds>::default();
            self.messages.entries().for_each(|entry| calls.add(entry));
            calls
        });
        calls.hashes.contains(&calls.state.hash_one(id))
    }

    pub(crate) fn leaf_id(&self) -> Option<&SmolStr> {
        self.leaf.map(|index| self.nodes[index].entry.id())
    }

    pub(crate) fn get(&mut self, id: &str) -> Option<&Arc<Entry>> {
        self.find(id).map(|index| &self.nodes[index].entry)
    }

    /// The entries from the leaf to the root.
    pub(crate) fn iter_to_root(&self) -> impl Iterator<Item = &Arc<Entry>> {
        // A parent always has a lower index than its child, so the iteration ends.
        std::iter::successors(self.leaf, |index| self.nodes[*index].parent)
            .map(|index| &self.nodes[index].entry)
    }

    /// The entries from the root to the leaf.
    pub(crate) fn path(&mut self) -> Entries {
        if self.path.is_none() {
            let mut path: Vec<_> = self.iter_to_root().cloned().collect();
            path.reverse();
            self.path = Some(path.into_iter().collect());
        }
        self.path.clone().unwrap_or_default()
    }

    /// The label of an entry, if it has one on this branch.
    pub(crate) fn label(&self, id: &str) -> Option<String> {
        let labels = self.iter_to_root().filter(|entry| entry.kind() == EntryKind::Label);
        labels
            .filter_map(|entry| match entry.body() {
                EntryBody::Label { target, label } if target == id => Some(label.clone()),
                _ => None,
            })
            .next()
            .flatten()
    }

    /// Returns the value from the last entry for which `read` returns one.
    pub(crate) fn find_last<T>(&self, read: impl Fn(&Entry) -> Option<T>) -> Option<T> {
        self.iter_to_root().find_map(|entry| read(entry))
    }

    /// The last reply on this branch.
    pub(crate) fn last_reply(&self) -> Option<(&Arc<Entry>, &AssistantMessage)> {
        self.iter_to_root().find_map(|entry| match entry.message() {
            Some(Message::Assistant(assistant)) => Some((entry, assistant)),
            _ => None,
        })
    }

    /// The entries on every branch whose line cannot be parsed. Parses every line.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = &SmolStr> {
        let entries = self.nodes.iter().map(|node| &node.entry);
        entries
            .filter(|entry| matches!(entry.body(), EntryBody::Unreadable))
            .map(|entry| entry.id())
    }

    fn add(&mut self, entry: Arc<Entry>, parent: Option<usize>) {
        let index = self.nodes.len();
        let id = entry.id().clone();
        self.leaf = match entry.kind() {
            EntryKind::Leaf => match entry.body() {
                EntryBody::Leaf(Some(leaf)) => self.find(leaf).or(self.leaf),
                EntryBody::Leaf(None) => None,
                _ => self.leaf,
            },
            _ => Some(index),
        };
        self.nodes.push(TreeNode { entry, parent });
        if let Some(by_id) = &mut self.by_id {
            by_id.entry(id).or_insert(index);
        }
    }

    fn find(&mut self, id: &str) -> Option<usize> {
        let nodes = &self.nodes;
        let by_id = self.by_id.get_or_insert_with(|| {
            let mut by_id = Box::new(HashMap::with_capacity(nodes.len()));
            for (index, node) in nodes.iter().enumerate() {
                by_id.entry(node.entry.id().clone()).or_insert(index);
            }
            by_id
        });
        by_id.get(id).copied()
    }

    /// Rebuilds the messages from the last compaction on, or all of them.
    fn rebuild(&mut self) {
        (self.path, self.calls) = (None, None);
        let mut messages = vec![];
        let mut first_kept: Option<SmolStr> = None;
        let mut summary = None;
        let mut reached = false;
        for entry in self.iter_to_root() {
            match entry.kind() {
                EntryKind::Message => messages.push(entry.clone()),
                EntryKind::Compaction if summary.is_none() => {
                    if let EntryBody::Compaction(compaction) = entry.body() {
                        first_kept = Some(compaction.first_kept.clone());
                        summary = Some((entry.clone(), messages.len()));
                    }
                }
                _ => {}
            }
            reached = first_kept.as_ref() == Some(entry.id());
            if reached {
                break;
            }
        }
        self.messages = MessageList::default();
        if let Some((entry, count_after_summary)) = summary {
            if !reached {
                // If the first kept entry is not on this branch, no entry before the summary is kept.
                messages.truncate(count_after_summary);
            }
            self.messages.push_entry(entry);
        }
        for entry in messages.into_iter().rev() {
            self.messages.push_entry(entry);
        }
    }
}
