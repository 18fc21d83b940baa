//! Stored sessions: equal in memory and in files, a tree that only grows.

use std::sync::Arc;

use cotter::{
    Agent, Message, Session,
    history::{
        entry::Compaction,
        jsonl::JsonlStore,
        store::{MemoryStore, Store},
    },
    hooks::points::{
        SessionStart, SessionStartEvent, UserPromptSubmit, UserPromptSubmitChange,
        UserPromptSubmitEvent,
    },
    named,
    permission::Zone,
};
use cotter_test::{
    Diary, PersonAnswer, RecordingModel, ScriptedModel, ScriptedUi, Step, ending, fresh, probe,
    transcript,
};
use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::kit::{echo, files, plain_lines};

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("not an object: {other}"),
    }
}

/// A store that can be opened again after all of its users are dropped.
fn shared<S: Store + Clone>(store: &S) -> S {
    store.clone()
}

/// Runs a long session: notes, rewrites, a question, an extension's entry, a label, another branch, a
/// summary.
async fn live(agent: &Agent) -> Session {
    let session = fresh(agent).await;
    let _ = session.prompt("go").await;
    let custom = json!({"type": "stack_pop", "backToIndex": 5, "a \"key\"": [1, null]});
    let custom = session.save_entry(fields(custom)).unwrap();
    session.set_label(&custom, Some("here")).unwrap();
    session.set_name("a  long\nlife").unwrap();
    let _ = session.prompt("more").await;
    session.navigate(Some(&custom)).await.unwrap();
    let _ = session.prompt("another way").await;
    session.store_compaction(Compaction::new("what was", custom.clone(), 99)).await.unwrap();
    let _ = session.prompt("and on").await;
    session
}

fn builder(diary: &Diary) -> cotter::AgentBuilder {
    let calls = Step::call("echo", json!({"text": "é\n\"x\""})).and_call("risky", json!({"n": 1}));
    let script =
        [calls, Step::text("one"), Step::text("two"), Step::text("three"), Step::text("four")];
    let note = |_: &SessionStartEvent, cx: &cotter::Cx| cx.note("be brief");
    let louder = |prompt: &UserPromptSubmitEvent| {
        UserPromptSubmitChange::Prompt(prompt.prompt.to_uppercase())
    };
    Agent::builder(ScriptedModel::new(script))
        .ui(ScriptedUi::new([PersonAnswer::No("no".into())]))
        .tool(echo())
        .tool(probe("risky", Zone::External, diary))
        .observe(SessionStart, named("note", note))
        .transform(UserPromptSubmit, named("louder", louder))
}

/// P10: a session is equal, line by line, in every store and after reopening.
#[tokio::test]
async fn p10_memory_store_and_file_store_have_equal_lines() {
    let (folder, diary) = (tempfile::tempdir().unwrap(), Diary::default());
    let memory = MemoryStore::new();
    let in_memory = builder(&diary).store(shared(&memory)).build().unwrap();
    let in_files = builder(&diary).store(files(folder.path())).build().unwrap();
    let (kept, filed) = (live(&in_memory).await, live(&in_files).await);
    let shown = transcript(&kept);
    assert_eq!(transcript(&filed), shown);
    let ids = (kept.id().clone(), filed.id().clone());
    assert_eq!(plain_lines(&memory, &ids.0), plain_lines(&files(folder.path()), &ids.1));
    drop((in_memory, in_files, kept, filed));
    let again = builder(&diary).store(memory).build().unwrap().session(&ids.0).await.unwrap();
    let from_file = builder(&diary).store(files(folder.path())).build().unwrap();
    let from_file = from_file.session(&ids.1).await.unwrap();
    for session in [&again, &from_file] {
        assert_eq!(transcript(session), shown, "opened again");
        assert_eq!(session.diagnostics(), Vec::<String>::new());
    }
    let messages =
        |messages: cotter::MessageList| messages.iter().cloned().collect::<Vec<Message>>();
    assert_eq!(messages(again.messages()), messages(from_file.messages()));
    expect![[r#"
        user: GO
        note: <system-reminder>
        From hook "note": be brief
        </system-reminder>
        call c1.1: echo {"text":"é\n\"x\""}
        call c1.2: risky {"n":1}
        result c1.1: é
        "x"
        result c1.2 (denied): Permission denied for `risky`: no. Do not retry this exact call.
        assistant: one
        {"type":"stack_pop","backToIndex":5,"a \"key\"":[1,null]}
        user: ANOTHER WAY
        note: <system-reminder>
        From hook "note": be brief
        </system-reminder>
        assistant: three
        compaction: what was
        user: AND ON
        note: <system-reminder>
        From hook "note": be brief
        </system-reminder>
        assistant: four
    "#]]
    .assert_eq(&shown);
}

/// P10: leaf, labels, names and custom entries survive reopening; a fork is independent.
#[tokio::test]
async fn p10_leaf_labels_and_entries_survive_and_a_fork_is_independent() {
    let (folder, diary) = (tempfile::tempdir().unwrap(), Diary::default());
    let agent = builder(&diary).store(files(folder.path())).build().unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    let entries = session.entries();
    let first = entries[1].id().clone();
    session.set_label(&first, Some("start")).unwrap();
    session.navigate(Some(&first)).await.unwrap();
    session.save_entry(fields(json!({"type": "mark"}))).unwrap();
    let here = transcript(&session);
    let id = session.id().clone();
    drop((session, agent));

    let agent = builder(&diary).store(files(folder.path())).build().unwrap();
    let session = agent.session(&id).await.unwrap();
    assert_eq!(transcript(&session), here);
    assert_eq!(session.label(&first), None, "it was set on the branch that was left");
    session.set_name("mine").unwrap();
    let fork = session.fork().await.unwrap();
    fork.save_entry(fields(json!({"type": "in_the_fork"}))).unwrap();
    session.save_entry(fields(json!({"type": "in_the_first"}))).unwrap();
    let shape = |entries: Vec<Arc<cotter::history::entry::Entry>>| {
        let kind = |entry: &Arc<cotter::history::entry::Entry>| {
            format!("{} {}", entry.id(), entry.to_json()["type"].as_str().unwrap())
        };
        entries.iter().map(kind).collect::<Vec<_>>().join("\n") + "\n"
    };
    expect![[r#"
        00000001 message
        00000002 message
        00000009 mark
        0000000a session_info
        0000000b in_the_first
    "#]]
    .assert_eq(&shape(session.entries().into_iter().collect()));
    expect![[r#"
        00000001 message
        00000002 message
        00000009 mark
        0000000a session_info
        0000000b in_the_fork
    "#]]
    .assert_eq(&shape(fork.entries().into_iter().collect()));
    let header = &agent.store().lines(fork.id()).unwrap()[0];
    let header: Value = serde_json::from_slice(header).unwrap();
    assert_eq!(header["parent"], id.as_str());
    assert_eq!(fork.name().as_deref(), Some("mine"));
}

#[tokio::test]
async fn custom_entry_with_a_core_type_is_refused() {
    let agent = Agent::builder(ScriptedModel::new([])).build().unwrap();
    let session = fresh(&agent).await;
    let mut shown = String::new();
    for entry in [
        json!({}),
        json!({"type": ""}),
        json!({"type": 1}),
        json!({"type": "message"}),
        json!({"type": "ledger"}),
        json!({"type": "session"}),
        json!({"type": "mine", "id": "1"}),
        json!({"type": "mine", "parentId": null}),
    ] {
        let error = session.save_entry(fields(entry.clone())).unwrap_err();
        shown += &format!("{entry}: {error}\n");
    }
    expect![[r#"
        {}: Entry must have type
        {"type":""}: Entry must have type
        {"type":1}: Entry must have type
        {"type":"message"}: entry type `message` is reserved
        {"type":"ledger"}: entry type `ledger` is reserved
        {"type":"session"}: entry type `session` is reserved
        {"type":"mine","id":"1"}: entry key `id` is reserved
        {"type":"mine","parentId":null}: entry key `parentId` is reserved
    "#]]
    .assert_eq(&shown);
    assert!(session.entries().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    /// P10: an extension's fields come back unchanged, whatever their names.
    #[test]
    fn p10_custom_entries_are_read_back_unchanged(
        kind in "\\PC{1,12}", keys in prop::collection::vec((".{0,6}", ".{0,12}"), 0..6)
    ) {
        let core = ["type", "id", "parentId", "timestamp"];
        let mut entry = Map::new();
        entry.insert("type".into(), json!(format!("x{kind}")));
        for (key, value) in keys.into_iter().filter(|(key, _)| !core.contains(&key.as_str())) {
            entry.insert(key, json!(value));
        }
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let agent = || Agent::builder(ScriptedModel::new([])).store(files(folder.path())).build().unwrap();
            let session = fresh(&agent()).await;
            let own = session.save_entry(entry.clone()).unwrap();
            let id = session.id().clone();
            drop(session);
            let session = agent().session(&id).await.unwrap();
            assert_eq!(session.diagnostics(), Vec::<String>::new());
            let entries = session.entries();
            let entries: Vec<_> = entries.into_iter().collect();
            let [kept] = &entries[..] else { panic!("one entry, not {entries:?}") };
            let mut json = fields(kept.to_json());
            assert_eq!(json.shift_remove("id"), Some(json!(own)));
            json.shift_remove("parentId");
            json.shift_remove("timestamp");
            assert_eq!(json, entry);
        });
    }
}

/// Every call has one result, even if a person moved the leaf between calls and their results.
#[tokio::test]
async fn prompt_after_a_move_into_a_step_finds_its_calls_closed() {
    let calls = Step::call("echo", json!({"text": "a"})).and_call("echo", json!({"text": "b"}));
    let model =
        RecordingModel::new(ScriptedModel::new([calls, Step::text("done"), Step::text("again")]));
    let agent = Agent::builder(model.clone()).tool(echo()).build().unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    let entries = session.entries();
    session.navigate(Some(entries[2].id())).await.unwrap();
    assert_eq!(ending(&session.prompt("and now?").await), "end_turn");
    let last = model.shown();
    expect![[r#"
        user: go
        call c1.1: echo {"text":"a"}
        call c1.2: echo {"text":"b"}
        result c1.1: a
        result c1.2 (unavailable): The result of this call is not on this branch of the session.
        user: and now?
    "#]]
    .assert_eq(last.rsplit("--\n").next().unwrap());
}

/// P10: one writer at a time, even within one process.
#[tokio::test]
async fn p10_a_second_writer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let agent = || {
        Agent::builder(ScriptedModel::new([Step::text("hi")]))
            .store(files(folder.path()))
            .build()
            .unwrap()
    };
    let session = fresh(&agent()).await;
    let id = session.id().clone();
    let error = agent().session(&id).await.expect_err("it is in use");
    assert!(error.to_string().ends_with("is in use by another process"), "{error}");
    assert_eq!(ending(&session.prompt("go").await), "end_turn", "the first goes on");
    drop(session);
    assert_eq!(transcript(&agent().session(&id).await.unwrap()), "user: go\nassistant: hi\n");

    let memory = MemoryStore::new();
    let agent = || Agent::builder(ScriptedModel::new([])).store(memory.clone()).build().unwrap();
    let session = fresh(&agent()).await;
    assert!(agent().session(session.id()).await.is_err());
    let id = session.id().clone();
    drop(session);
    assert!(agent().session(&id).await.is_ok());
}

/// S28: only their owner can read the session files.
#[tokio::test]
async fn s28_session_files_and_their_folder_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let store = JsonlStore::new(folder.path().join("deep/er"));
    let agent = Agent::builder(ScriptedModel::new([])).store(store).build().unwrap();
    let session = fresh(&agent).await;
    let file = folder.path().join(format!("deep/er/{}.jsonl", session.id()));
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folders = [folder.path().join("deep"), folder.path().join("deep/er")];
    assert_eq!((mode(&file), folders.map(|folder| mode(&folder))), (0o600, [0o700, 0o700]));
}

/// S29, S28: one function makes every foreign byte visible, one redactor removes secrets.
#[test]
fn s29_s28_shown_text_is_escaped_and_exported_text_is_redacted() {
    use cotter::text::{redact::Redactor, show, show_line};
    let foreign = "a\u{1b}[2J\u{202e}b\u{200b}c\u{e0041}\u{9b}d\r\n\te";
    assert_eq!(show(foreign), "a\\u{1b}[2J\\u{202e}b\\u{200b}c\\u{e0041}\\u{9b}d\\u{d}\n\te");
    assert_eq!(show_line("a\nb\t\u{7f}"), "a\\nb\\t\\u{7f}");
    let redactor = Redactor::new().with_secret("DB_PASSWORD", "hunter2hunter2");
    let leaving = "connect with hunter2hunter2 now";
    assert_eq!(redactor.redact(leaving), "connect with [redacted DB_PASSWORD] now");
}

/// P10: after a full disk no line is stored twice, and the ledger is in order.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn p10_incomplete_append_is_truncated() {
    use std::process::Command;
    const INSIDE: &str = "COTTER_TEST_SMALL_DISK";
    let Ok(folder) = std::env::var(INSIDE) else {
        // A separate process, because the limit of four kilobytes per file applies to a whole process.
        let folder = tempfile::tempdir().unwrap();
        let shell = "trap '' XFSZ; ulimit -S -f 8; exec \"$0\" \"$@\"";
        let name = "stores::p10_incomplete_append_is_truncated";
        let inside = Command::new("sh")
            .args(["-c", shell])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&inside.stderr);
        assert!(inside.status.success(), "{said}");
        return;
    };
    let calls = || {
        (0..6).fold(Step::call("echo", json!({"text": "x".repeat(300)})), |step, _| {
            step.and_call("echo", json!({"text": "x".repeat(300)}))
        })
    };
    let agent = Agent::builder(ScriptedModel::new([calls(), calls(), Step::text("done")]))
        .store(files(std::path::Path::new(&folder)))
        .tool(crate::kit::echo())
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let failed = session.prompt("go").await.unwrap_err().to_string();
    assert!(failed.contains("File too large"), "{failed}");
    let pid = std::process::id().to_string();
    let more = ["--pid", &pid, "--fsize=unlimited"];
    assert!(Command::new("prlimit").args(more).status().unwrap().success());
    session.prompt("again").await.unwrap();
    let lines = agent.store().lines(session.id()).unwrap();
    let rows = cotter::history::ledger::verify(session.id(), lines.iter().map(Vec::as_slice));
    assert!(rows.is_ok(), "{rows:?}");
    let id =
        |line: &Vec<u8>| serde_json::from_slice::<serde_json::Value>(line).unwrap()["id"].clone();
    let ids: Vec<_> = lines.iter().map(id).filter(|id| !id.is_null()).collect();
    let distinct: std::collections::HashSet<_> = ids.iter().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), ids.len());
}
