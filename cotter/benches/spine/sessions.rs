//! Long sessions: opening them, and one more turn.

use std::path::Path;

use cotter::{
    Agent, AgentBuilder, Message, Session,
    history::{
        entry::Compaction, jsonl::JsonlStore, message_list::MessageChange, store::MemoryStore,
    },
    hooks::points::{Context, each_message},
};

use crate::{
    measure::{Goal, Table, time_once},
    turns::{InstantModel, runtime},
};

/// Writes a session file of `entries` messages of 200 bytes, in the format of this library.
fn write_session(folder: &Path, id: &str, entries: usize) {
    use std::fmt::Write;
    let mut text = format!(
        "{{\"type\":\"session\",\"v\":1,\"id\":\"{id}\",\"cwd\":\"/\",\"createdAt\":\"2026-01-01T00:00:00.000Z\",\"parent\":null}}\n"
    );
    let words = "word ".repeat(40);
    for n in 1..=entries {
        let parent = if n == 1 { "null".to_owned() } else { format!("\"{:08x}\"", n - 1) };
        let head = format!(
            "{{\"type\":\"message\",\"id\":\"{n:08x}\",\"parentId\":{parent},\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":"
        );
        let body = if n % 2 == 1 {
            format!("{{\"role\":\"user\",\"content\":\"{words}\"}}")
        } else {
            format!(
                "{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"{words}\"}}],\"model\":\"m\",\"usage\":{{\"inputTokens\":1,\"outputTokens\":1,\"cacheRead\":0,\"cacheWrite\":0}},\"stopReason\":\"end_turn\"}}"
            )
        };
        let _ = writeln!(text, "{head}{body}}}");
    }
    std::fs::write(folder.join(format!("{id}.jsonl")), text).expect("the session is written");
}

fn agent(folder: &Path) -> Agent {
    let builder = Agent::builder(InstantModel::with_text()).store(JsonlStore::new(folder));
    builder.build().expect("the agent builds")
}

pub(crate) fn measure(table: &mut Table) {
    let runtime = runtime();
    let folder = tempfile::tempdir().expect("a folder is made");
    let row = "open 100k entries and build context, JSON lines";
    if table.wants(row) {
        write_session(folder.path(), "long", 100_000);
        let agent = agent(folder.path());
        let path = folder.path().join("long.jsonl");
        let bare = time_once(25, || std::fs::read(&path).expect("it is read"));
        let open = time_once(25, || {
            let session = runtime.block_on(agent.session("long")).expect("it opens");
            assert_eq!(session.messages().len(), 100_000);
            session
        });
        table.add_beside(row, open, ("reading the file", bare), Goal::Nanos(30e6));
    }
    let row = "the same after a compaction";
    if table.wants(row) {
        write_session(folder.path(), "compacted", 100_000);
        let agent = agent(folder.path());
        let session = runtime.block_on(agent.session("compacted")).expect("it opens");
        let summary = Compaction::new("a summary", "0001869a".into(), 0);
        runtime.block_on(session.store_compaction(summary)).expect("it is stored");
        runtime.block_on(session.prompt("go on")).expect("it runs");
        drop(session);
        let open = time_once(25, || {
            let session = runtime.block_on(agent.session("compacted")).expect("it opens");
            assert!(session.messages().len() < 20);
            session
        });
        table.add(row, open, Goal::Nanos(5e6));
    }
    for entries in [1_000, 10_000, 100_000] {
        for kind in [SessionKind::Memory, SessionKind::File, SessionKind::Transformed] {
            measure_next_turn(table, entries, kind);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum SessionKind {
    Memory,
    File,
    /// In memory, with three context transforms: one keeps, one replaces, one drops messages.
    Transformed,
}

impl SessionKind {
    fn label(self) -> &'static str {
        match self {
            SessionKind::Memory => "memory",
            SessionKind::File => "JSON lines",
            SessionKind::Transformed => "three context transforms",
        }
    }
}

/// Adds three transforms that each look at every message once.
fn add_transforms(builder: AgentBuilder) -> AgentBuilder {
    let keeps = each_message(|_: &Message| MessageChange::Keep);
    let replaces = each_message(|message: &Message| match message {
        Message::User(user) if user.content.text().contains("hello") => {
            MessageChange::Replace(Message::user("hello to you"))
        }
        _ => MessageChange::Keep,
    });
    let drops = each_message(|message: &Message| {
        if message.text().is_empty() { MessageChange::Drop } else { MessageChange::Keep }
    });
    builder.transform(Context, keeps).transform(Context, replaces).transform(Context, drops)
}

/// Measures a turn on a session that already has many entries.
fn measure_next_turn(table: &mut Table, entries: usize, kind: SessionKind) {
    let row = format!("one more turn after {entries} entries, {}", kind.label());
    if !table.wants(&row) {
        return;
    }
    let runtime = runtime();
    let folder = tempfile::tempdir().expect("a folder is made");
    let session = if kind == SessionKind::File {
        write_session(folder.path(), "long", entries);
        runtime.block_on(agent(folder.path()).session("long")).expect("it opens")
    } else {
        let builder = Agent::builder(InstantModel::with_text()).store(MemoryStore::new());
        let builder =
            if kind == SessionKind::Transformed { add_transforms(builder) } else { builder };
        let agent = builder.build().expect("it builds");
        let session = runtime.block_on(agent.new_session()).expect("it is made");
        let text = "word ".repeat(40);
        for _ in 0..entries / 2 {
            runtime.block_on(session.prompt(text.as_str())).expect("it runs");
        }
        session
    };
    let turn = |session: &Session| assert!(runtime.block_on(session.prompt("hello")).is_ok());
    let median = time_once(400, || turn(&session));
    table.add(&row, median, Goal::Nanos(10_000.0));
}
