//! Tests of long sessions: a compacted session is opened from its end and equals one that is read whole. The
//! cached blocks of adapters stay correct.

use std::{cell::Cell, collections::HashSet, sync::Arc};

use cotter::{
    Agent, Message, MessageList,
    history::{entry::Compaction, jsonl::JsonlStore, message_list::MessageChange},
};
use cotter_test::{ScriptedModel, Step, transcript};
use proptest::prelude::*;

fn agent(folder: &std::path::Path, replies: usize) -> Agent {
    let steps = (0..replies).map(|n| Step::text(format!("reply {n}")));
    Agent::builder(ScriptedModel::new(steps))
        .store(JsonlStore::new(folder))
        .build()
        .expect("it builds")
}

/// P10: entries that are read on demand equal entries that are read at once.
#[tokio::test]
async fn session_read_from_its_end_has_the_whole_history() {
    let folder = tempfile::tempdir().unwrap();
    let writer = agent(folder.path(), 203);
    let session = writer.new_session().await.unwrap();
    let long = "x".repeat(10_000);
    for n in 0..200 {
        session.prompt(format!("{n} {long}").as_str()).await.unwrap();
    }
    let entries = session.entries();
    let kept = entries[entries.len() - 4].id().clone();
    session.set_label(entries[2].id(), Some("early")).unwrap();
    session.store_compaction(Compaction::new("two hundred turns", kept, 0)).await.unwrap();
    session.prompt("after").await.unwrap();
    let (before, id) = (transcript(&session), session.id().clone());
    let path = JsonlStore::new(folder.path()).path(&id).unwrap();
    assert!(
        std::fs::metadata(&path).unwrap().len() > 2 << 20,
        "long enough to be opened by its end"
    );
    drop(session);

    let reader = agent(folder.path(), 2);
    let session = reader.session(&id).await.unwrap();
    let messages = session.messages();
    let texts: Vec<_> =
        messages.iter().map(|m| m.text().chars().take(20).collect::<String>()).collect();
    assert_eq!(
        texts,
        [
            "two hundred turns",
            "198 xxxxxxxxxxxxxxxx",
            "reply 198",
            "199 xxxxxxxxxxxxxxxx",
            "reply 199",
            "after",
            "reply 200"
        ]
    );
    session.prompt("more").await.unwrap();
    assert_eq!(transcript(&session), format!("{before}user: more\nassistant: reply 0\n"));
    assert_eq!(session.label(entries[2].id()).as_deref(), Some("early"));
    session.navigate(Some(entries[1].id())).await.unwrap();
    assert_eq!(session.messages().len(), 2);
    drop(session);

    // A branch at the end is read whole, and ids continue from the last one.
    let session = reader.session(&id).await.unwrap();
    assert_eq!(session.messages().len(), 2);
    session.prompt("on a branch").await.unwrap();
    let last = session.entries().last().unwrap().id().clone();
    assert!(last > *entries.last().unwrap().id(), "{last}");
}

/// Renders messages like an adapter that caches bytes; the result also depends on the key.
fn rendered<'m>(messages: impl Iterator<Item = &'m Message>, key: &str) -> String {
    messages.map(|message| format!("{key}:{} ", message.text())).collect()
}

/// A change of a list of messages.
#[derive(Clone, Debug)]
enum Change {
    Push(usize),
    /// Continues on a separate list.
    Branch,
    /// A transform that drops and replaces messages.
    Shape(usize),
    /// An adapter renders the list, for one of the models.
    Ask(&'static str),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        6 => (1..90usize).prop_map(Change::Push),
        1 => Just(Change::Branch),
        1 => (2..7usize).prop_map(Change::Shape),
        3 => proptest::sample::select(vec!["a", "b", "c"]).prop_map(Change::Ask),
    ];
    proptest::collection::vec(change, 1..24)
}

proptest! {
    /// After any changes, the cached value of each block equals a new one, and each block is rendered once
    /// per key.
    #[test]
    fn cached_block_values_equal_fresh_ones(changes in changes()) {
        let (mut lists, mut n) = (vec![MessageList::default()], 0);
        let (made, mut asked) = (Cell::new(0), HashSet::new());
        let mut ask = |messages: &MessageList, key: &'static str| {
            let (blocks, tail) = messages.blocks();
            let mut all = String::new();
            for block in blocks {
                asked.insert((Arc::as_ptr(block), key));
                all += block.memoize(key, |block| {
                    made.set(made.get() + 1);
                    rendered(block.iter(), key)
                });
                let length: &usize = block.memoize(key, |block| block.iter().count());
                prop_assert_eq!(*length, 64);
            }
            all += &rendered(tail, key);
            prop_assert_eq!(all, rendered(messages.iter(), key));
            prop_assert_eq!(made.get(), asked.len());
            Ok(())
        };
        for change in changes {
            let list = lists.last_mut().expect("there is one");
            match change {
                Change::Push(count) => (0..count).for_each(|_| {
                    n += 1;
                    list.push(Message::user(format!("m{n}")));
                }),
                Change::Branch => {
                    let branch = list.clone();
                    lists.push(branch);
                }
                Change::Shape(every) => {
                    let mut at = 0;
                    let shaped = list.map_messages(|_, message| {
                        at += 1;
                        match at % every {
                            0 => MessageChange::Drop,
                            1 => MessageChange::Replace(Message::user(format!("({})", message.text()))),
                            _ => MessageChange::Keep,
                        }
                    });
                    lists.push(shaped);
                }
                Change::Ask(key) => ask(list, key)?,
            }
        }
        for (list, key) in lists.iter().flat_map(|list| ["a", "b"].map(|key| (list, key))) {
            ask(list, key)?;
        }
    }
}
