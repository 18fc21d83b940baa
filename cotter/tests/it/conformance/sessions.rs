//! Sessions: the meaning of a file, the messages for the model, and the tree.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use cotter::{
    Agent, Message, Session,
    history::{
        entry::{Entry, EntryBody},
        jsonl::{JsonlStore, load},
        message::UserMessageKind,
        store::MemoryStore,
    },
    hooks::points::{Context, ContextChange, ContextEvent},
};
use cotter_test::{RecordingModel, ScriptedModel, Step};
use serde_json::{Map, Value, json};
use smol_str::SmolStr;
use tempfile::TempDir;

use super::kit::{assert_contains, shown};

/// A folder with one session file, and an agent that uses it.
struct Files {
    folder: TempDir,
    agent: Agent,
}

impl Files {
    fn new(contents: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("s.jsonl"), contents).expect("a file");
        let model = ScriptedModel::new([Step::text("answer")]);
        let agent = Agent::builder(model).store(JsonlStore::new(folder.path()));
        Files { agent: agent.build().expect("it builds"), folder }
    }

    fn with(entries: &[Value]) -> Self {
        let header = json!({"type": "session", "version": 3, "id": "s", "cwd": "/"});
        let lines = [&header].into_iter().chain(entries).map(|line| line.to_string() + "\n");
        Files::new(&lines.collect::<String>())
    }

    async fn open(&self) -> Session {
        self.agent.session("s").await.expect("it opens")
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("s.jsonl")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).expect("the file is there")
    }
}

fn entry(kind: &str, id: &str, parent: Option<&str>, fields: &Value) -> Value {
    let mut line = json!({"type": kind, "id": id, "parentId": parent});
    line["timestamp"] = json!("2025-01-01T00:00:00Z");
    for (key, value) in fields.as_object().into_iter().flatten() {
        line[key] = value.clone();
    }
    line
}

fn user(id: &str, parent: Option<&str>, text: &str) -> Value {
    entry("message", id, parent, &json!({"message": {"role": "user", "content": text}}))
}

fn assistant(id: &str, parent: Option<&str>, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    let mut message = json!({"role": "assistant", "content": content, "stopReason": "stop"});
    message["provider"] = json!("maker");
    message["model"] = json!("m-1");
    entry("message", id, parent, &json!({"message": message}))
}

async fn context(session: &Session) -> Vec<String> {
    session.messages().iter().map(shown).collect()
}

/// Opens a file of these entries and checks messages, thinking level and model.
async fn check(entries: &[Value], messages: &[&str], thinking: &str, model: Option<&str>) {
    let session = Files::with(entries).open().await;
    assert_eq!(context(&session).await, messages);
    assert_eq!(session.thinking_level(), thinking);
    assert_eq!(session.model().as_deref(), model);
}

/// Creates a session in memory with prompts `u1`, `u2`, … and replies `r1`, `r2`, …
async fn talk<const N: usize>() -> (Session, Vec<SmolStr>) {
    let mut n = 0;
    let replies = [(); N].map(|()| {
        n += 1;
        Step::text(format!("r{n}"))
    });
    let agent = Agent::builder(ScriptedModel::new(replies)).store(MemoryStore::new());
    let session = agent.build().expect("it builds").new_session().await.expect("memory");
    for n in 1..=N {
        session.prompt(format!("u{n}")).await.expect("the script has a reply");
    }
    let ids = session.entries().iter().map(|entry| entry.id().clone()).collect();
    (session, ids)
}

async fn leaf(session: &Session) -> Option<SmolStr> {
    session.entries().last().map(|entry| entry.id().clone())
}

fn fields(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

pub(super) async fn an_empty_file_has_no_entries() {
    let loaded = load(vec![]);
    assert!(loaded.header.is_none() && loaded.entries.is_empty());
}

pub(super) async fn file_that_is_not_a_session_is_unchanged() {
    let files = Files::new("garbage\n");
    let error = files.agent.session("s").await.expect_err("it is no session");
    assert_contains(&error.to_string(), "s.jsonl:1: not a session");
    assert_eq!(files.text(), "garbage\n");
}

pub(super) async fn torn_line_loses_only_itself() {
    let files = Files::with(&[user("aaaaaaaa", None, "hi")]);
    let torn = files.text() + r#"{"type":"message","id":"bbbb"#;
    fs::write(files.path(), &torn).expect("it writes");
    let session = files.open().await;
    session.prompt("two").await.expect("a reply");
    let after = files.text();
    let added = after.strip_prefix(&torn).and_then(|rest| rest.strip_prefix('\n'));
    let mut lines = added.expect("the torn line stays and ends").lines();
    assert!(lines.all(|line| serde_json::from_str::<Value>(line).is_ok()), "{after}");
    assert_eq!(context(&session).await, ["user: hi", "user: two", "assistant: answer"]);
    let entries = session.entries();
    assert_eq!(entries[1].parent_id().map(SmolStr::as_str), Some("aaaaaaaa"));
    assert_eq!(session.diagnostics().len(), 1);
}

pub(super) async fn ids_from_elsewhere_stay() {
    let session =
        Files::with(&[user("abc12345", None, "a"), user("def67890", Some("abc12345"), "b")])
            .open()
            .await;
    let ids: Vec<_> = session.entries().iter().map(|entry| entry.id().clone()).collect();
    assert_eq!(ids, ["abc12345", "def67890"]);
}

pub(super) async fn a_long_file_with_two_compactions() {
    let id = |n: usize| format!("e{n}");
    let entries: Vec<Value> = (0..1002_usize)
        .map(|n| {
            let parent = n.checked_sub(1).map(id);
            let kept = match n {
                358 => Some(292),
                627 => Some(550),
                _ => None,
            };
            match kept {
                Some(kept) => {
                    let about =
                        json!({"summary": "S", "firstKeptEntryId": id(kept), "tokensBefore": 9});
                    entry("compaction", &id(n), parent.as_deref(), &about)
                }
                None if n % 2 == 0 => user(&id(n), parent.as_deref(), "u"),
                None => assistant(&id(n), parent.as_deref(), "a"),
            }
        })
        .collect();
    let session = Files::with(&entries).open().await;
    assert_eq!(session.entries().len(), 1002);
    let messages = session.messages();
    // The summary, the 77 messages that it kept, and the 374 after it.
    assert_eq!(messages.len(), 1 + 77 + 374);
    let first = messages.iter().next();
    assert!(matches!(first, Some(Message::User(user)) if user.kind == UserMessageKind::Compaction));
    assert_eq!(session.model().as_deref(), Some("maker/m-1"));
}

pub(super) async fn everything_is_stored_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = JsonlStore::new(folder.path());
    let agent = Agent::builder(ScriptedModel::new([Step::text("answer")])).store(store);
    let session = agent.build().expect("it builds").new_session().await.expect("a file");
    let path = folder.path().join(format!("{}.jsonl", session.id()));
    let types = || -> Vec<String> {
        let text = fs::read_to_string(&path).expect("the file is there");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        lines.map(|line: Value| line["type"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(types(), ["session"]);
    session.set_name("a name").expect("it is stored");
    assert_eq!(types(), ["session", "session_info"]);
    session.save_entry(fields(json!({"type": "mine"}))).expect("it is stored");
    assert_eq!(types(), ["session", "session_info", "mine"]);
    session.prompt("hi").await.expect("a reply");
    assert_eq!(types()[3..], ["run.start", "message", "message", "run.end"]);
}

pub(super) async fn the_last_label_counts() {
    let (session, ids) = talk::<1>().await;
    for label in [Some("first"), Some("second"), None] {
        session.set_label(&ids[0], label).expect("the entry is there");
        assert_eq!(session.label(&ids[0]).as_deref(), label);
    }
}

pub(super) async fn the_leaf_is_stored() {
    let files = Files::with(&[user("A", None, "a"), user("B", Some("A"), "b")]);
    let session = files.open().await;
    session.navigate(Some("A")).await.expect("the entry is there");
    assert_eq!(leaf(&session).await.as_deref(), Some("A"));
    drop(session);
    assert_eq!(leaf(&files.open().await).await.as_deref(), Some("A"));
}

pub(super) async fn a_name_is_one_line() {
    let (session, _) = talk::<1>().await;
    session.set_name("  a\nb  ").expect("it is stored");
    assert_eq!(session.name().as_deref(), Some("a b"));
    session.set_name("").expect("it is stored");
    assert_eq!(session.name(), None);
}

pub(super) async fn a_session_may_have_two_roots() {
    let files = Files::with(&[user("1", None, "1")]);
    let session = files.open().await;
    session.navigate(None).await.expect("before the first");
    session.prompt("2").await.expect("a reply");
    assert_eq!(context(&session).await, ["user: 2", "assistant: answer"]);
    assert_eq!(session.entries()[0].parent_id(), None);
}

pub(super) async fn a_cycle_of_parents_is_cut() {
    let session = Files::with(&[user("a", Some("b"), "a"), user("b", Some("a"), "b")]).open().await;
    assert_eq!(context(&session).await, ["user: a", "user: b"]);
    let told = session.diagnostics();
    assert_eq!(told, ["entry `a`: its parent `b` is missing or comes later"]);
}

pub(super) async fn a_plain_conversation() {
    let entries = [user("1", None, "hello"), assistant("2", Some("1"), "hi there")];
    check(&entries, &["user: hello", "assistant: hi there"], "off", Some("maker/m-1")).await;
}

pub(super) async fn a_thinking_level_is_read() {
    let level = entry("thinking_level_change", "2", Some("1"), &json!({"thinkingLevel": "high"}));
    let entries = [user("1", None, "hello"), level, assistant("3", Some("2"), "x")];
    check(&entries, &["user: hello", "assistant: x"], "high", Some("maker/m-1")).await;
}

fn model_change(id: &str, parent: &str) -> Value {
    let to = json!({"provider": "other", "modelId": "m-4"});
    entry("model_change", id, Some(parent), &to)
}

pub(super) async fn a_model_change_is_read() {
    let entries =
        [user("1", None, "hello"), assistant("2", Some("1"), "x"), model_change("3", "2")];
    check(&entries, &["user: hello", "assistant: x"], "off", Some("other/m-4")).await;
}

pub(super) async fn a_reply_after_a_model_change_counts() {
    let entries =
        [user("1", None, "hello"), model_change("2", "1"), assistant("3", Some("2"), "hi")];
    check(&entries, &["user: hello", "assistant: hi"], "off", Some("maker/m-1")).await;
}

fn leaf_at(id: &str, parent: &str, leaf: Option<&str>) -> Value {
    entry("leaf", id, Some(parent), &json!({"leafId": leaf}))
}

pub(super) async fn unknown_leaf_moves_nothing() {
    let lost = leaf_at("3", "2", Some("nonexistent"));
    let entries = [user("1", None, "hello"), assistant("2", Some("1"), "hi"), lost];
    check(&entries, &["user: hello", "assistant: hi"], "off", Some("maker/m-1")).await;
}

/// A line whose parent is missing loses only the link to the parent.
pub(super) async fn orphan_entry_is_stored_and_reported() {
    let entries = [user("1", None, "hello"), assistant("2", Some("missing"), "orphan")];
    let session = Files::with(&entries).open().await;
    assert_eq!(context(&session).await.last().map(String::as_str), Some("assistant: orphan"));
    assert_eq!(session.model().as_deref(), Some("maker/m-1"));
    let told = session.diagnostics();
    assert_eq!(told, ["entry `2`: its parent `missing` is missing or comes later"]);
}

pub(super) async fn a_leaf_before_the_first_entry() {
    check(&[user("1", None, "hello"), leaf_at("2", "1", None)], &[], "off", None).await;
}

pub(super) async fn custom_entries_are_no_messages() {
    let custom = entry("stack_pop", "2", Some("1"), &json!({"foo": 1}));
    let entries = [user("1", None, "a"), custom, user("3", Some("2"), "b")];
    check(&entries, &["user: a", "user: b"], "off", None).await;
}

pub(super) async fn a_compaction_may_keep_nothing() {
    let about = json!({"summary": "S", "firstKeptEntryId": "2", "tokensBefore": 1000});
    let summary = entry("compaction", "2", Some("1"), &about);
    let entries = [user("1", None, "1"), summary, user("3", Some("2"), "2")];
    check(&entries, &["user: S", "user: 2"], "off", None).await;
}

pub(super) async fn a_transform_edits_messages_by_entry() {
    let edits = |build: &ContextEvent| {
        let edited = build.messages.iter_with_ids().filter_map(|(entry, message)| {
            match entry.map(SmolStr::as_str) {
                Some("1") => None,
                Some("2") => Some(Message::user("NEW")),
                _ => Some(message.clone()),
            }
        });
        ContextChange::messages(edited)
    };
    let files = Files::with(&[user("1", None, "1"), assistant("2", Some("1"), "A")]);
    files.agent.transform(Context, edits).expect("the program may");
    let model = RecordingModel::new(ScriptedModel::new([Step::text("answer")]));
    files.agent.set_model(model.clone());
    let session = files.open().await;
    session.prompt("3").await.expect("a reply");
    let sent: Vec<_> = model.requests()[0].messages.iter().map(shown).collect();
    assert_eq!(sent, ["user: NEW", "user: 3"]);
    assert_eq!(context(&session).await[..2], ["user: 1", "assistant: A"]);
}

pub(super) async fn entries_after_the_leaf_are_not_sent() {
    let edit = entry("context_edit", "3", Some("2"), &json!({"targetId": "2"}));
    let entries =
        [user("1", None, "1"), assistant("2", Some("1"), "A"), edit, leaf_at("4", "3", Some("2"))];
    let session = Files::with(&entries).open().await;
    let is_custom = |entry: &Arc<Entry>| matches!(entry.body(), EntryBody::Custom(_));
    assert!(!session.entries().iter().any(is_custom));
    assert_eq!(context(&session).await, ["user: 1", "assistant: A"]);
}

pub(super) async fn navigating_to_before_a_prompt() {
    let (session, ids) = talk::<2>().await;
    let second = session.entries()[2].clone();
    session.navigate(second.parent_id().map(SmolStr::as_str)).await.expect("r1 is there");
    assert_eq!(leaf(&session).await.as_ref(), Some(&ids[1]));
    assert_eq!(context(&session).await, ["user: u1", "assistant: r1"]);
    // The abandoned prompt can be read and used again.
    assert_eq!(second.message().map(|message| message.text().into_owned()), Some("u2".into()));
}

pub(super) async fn a_summary_of_a_branch_left_behind() {
    let (session, ids) = talk::<2>().await;
    session.navigate(Some(&ids[1])).await.expect("r1 is there");
    let about = json!({"type": "branch_summary", "fromId": &*ids[3], "summary": "BR"});
    let summary = session.save_entry(fields(about)).expect("a type of our own");
    let label = session.set_label(&summary, Some("cp")).expect("the entry is there");
    let entries = session.entries();
    assert_eq!(entries[2].parent_id(), Some(&ids[1]));
    assert_eq!(entries[2].to_json()["fromId"], json!(&*ids[3]));
    assert_eq!(session.label(&summary).as_deref(), Some("cp"));
    assert_eq!(leaf(&session).await, Some(label));
    assert_eq!(context(&session).await, ["user: u1", "assistant: r1"]);
}

pub(super) async fn navigating_stores_the_leaf_alone() {
    let files = Files::with(&[user("A", None, "a"), user("B", Some("A"), "b")]);
    let session = files.open().await;
    let before = files.text();
    session.navigate(Some("A")).await.expect("the entry is there");
    let after = files.text();
    let added: Vec<Value> = after[before.len()..]
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(added.len(), 1);
    assert_eq!((&added[0]["type"], &added[0]["leafId"]), (&json!("leaf"), &json!("A")));
}

pub(super) async fn a_navigation_that_does_not_happen() {
    let (session, ids) = talk::<2>().await;
    let error = session.navigate(Some("nowhere")).await.expect_err("there is no such entry");
    assert_contains(&error.to_string(), "entry `nowhere` not found");
    assert_eq!(leaf(&session).await.as_ref(), ids.last());
    drop(session.navigate(Some(&ids[0])));
    assert_eq!(leaf(&session).await.as_ref(), ids.last());
}

pub(super) async fn navigating_to_the_leaf_stores_nothing() {
    let files = Files::with(&[user("A", None, "a"), user("B", Some("A"), "b")]);
    let session = files.open().await;
    let before = files.text();
    session.navigate(Some("B")).await.expect("it is there already");
    assert_eq!(files.text(), before);
}

pub(super) async fn navigating_waits_for_a_run() {
    let slow = Step::text("a b c").and_delay(Duration::from_millis(10));
    let agent =
        Agent::builder(ScriptedModel::new([Step::text("r1"), slow])).build().expect("it builds");
    let session = agent.main_session().await.expect("a session is made");
    session.prompt("u1").await.expect("a reply");
    let first = session.entries()[0].id().clone();
    session.prompt("u2").detach();
    // The run is in progress when the navigation starts.
    tokio::time::sleep(Duration::from_millis(5)).await;
    session.navigate(Some(&first)).await.expect("u1 is there");
    assert_eq!(context(&session).await, ["user: u1"]);
    let all = agent.store().lines(session.id()).expect("the session is kept");
    let said = |line: &Vec<u8>| String::from_utf8_lossy(line).contains("a b c");
    assert!(all.iter().any(said), "the run was not disturbed");
}

pub(super) async fn unknown_role_is_stored_and_not_sent() {
    let ran = json!({"message": {"role": "bashExecution", "command": "ls", "output": "a"}});
    let foreign = entry("message", "2", Some("1"), &ran);
    let files = Files::with(&[user("1", None, "a"), foreign.clone(), user("3", Some("2"), "b")]);
    let session = files.open().await;
    assert_eq!(context(&session).await, ["user: a", "user: b"]);
    assert_eq!(session.entries()[1].to_json(), foreign);
}
