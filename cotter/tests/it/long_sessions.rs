//! A long session that was compacted is opened from its end, and is the same as one read whole.

use cotter::{
    Agent,
    session::{Compaction, JsonlStore},
};
use cotter_test::{Scripted, Step, transcript};

fn agent(folder: &std::path::Path, replies: usize) -> Agent {
    let steps = (0..replies).map(|n| Step::text(format!("reply {n}")));
    Agent::builder(Scripted::new(steps)).store(JsonlStore::new(folder)).build().expect("it builds")
}

/// P10: what is read late is the same as what is read at once.
#[tokio::test]
async fn a_session_opened_from_its_end_has_all_of_its_history() {
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

    // A branch at the end is read whole, and ids go on from where they were.
    let session = reader.session(&id).await.unwrap();
    assert_eq!(session.messages().len(), 2);
    session.prompt("on a branch").await.unwrap();
    let last = session.entries().last().unwrap().id().clone();
    assert!(last > *entries.last().unwrap().id(), "{last}");
}
