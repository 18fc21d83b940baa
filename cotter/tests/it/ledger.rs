//! Tests of the ledger. B1: every decision is on record before its tool starts, and explains itself. Without
//! a row, no tool runs.

use std::sync::{Arc, Mutex};

use cotter::{
    Agent, FnTool, Permit, Verdict,
    history::{jsonl::JsonlStore, ledger::verify, store::MemoryStore},
    hooks::points::{
        Error, RunFailure, SessionEnd, SessionEndEvent, SessionStart, SessionStartEvent, ToolPre,
        ToolPreEvent,
    },
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{
    Diary, Fault, FaultyStore, PersonAnswer, ScriptedModel, ScriptedUi, Step, ending, fresh, probe,
    spec, transcript,
};
use expect_test::expect;
use serde_json::{Value, json};

use crate::kit::{Moment, Spy, plain_lines, to_the_end};

/// B1, S26: the row is stored before the tool starts, and synced to disk if the call changes anything.
#[tokio::test]
async fn b1_s26_ledger_row_is_stored_before_the_tool_starts() {
    let store = MemoryStore::new();
    let last = Arc::new(Mutex::new(None));
    let spy = {
        let last = last.clone();
        Spy::new(store.clone(), move |moment| *last.lock().unwrap() = Some(moment))
    };
    let diary = Diary::default();
    let looking = |name: &'static str, zone: Zone| {
        let (store, last, diary) = (store.clone(), last.clone(), diary.clone());
        let look = move |permit: Permit| {
            let rows = plain_lines(&store, permit.cx().session_id());
            let own = |row: &&Value| {
                row["type"] == "ledger" && row["callId"] == permit.call_id().as_str()
            };
            let verdicts: Vec<_> = rows.iter().filter(own).map(|row| &row["verdict"]).collect();
            let moment: Option<Moment> = *last.lock().unwrap();
            diary.add(format!("{name}: rows {verdicts:?}, {moment:?}"));
            async { Ok("ok".into()) }
        };
        FnTool::new(spec(name), look).with_facts(Facts::zone(zone))
    };
    let calls = Step::call("look", json!({})).and_call("write", json!({}));
    let agent = Agent::builder(ScriptedModel::new([calls, Step::text("done")]))
        .store(spy)
        .tool(looking("look", Zone::Safe))
        .tool(looking("write", Zone::Workspace))
        .build()
        .unwrap();
    let _ = fresh(&agent).await.prompt("go").await;
    expect![[r#"
        look: rows [String("pass")], Some(Appended)
        write: rows [String("pass")], Some(Synced)
    "#]]
    .assert_eq(&diary.shown());
}

/// B1: after a failed append no tool runs, and the run ends with an error.
#[tokio::test]
async fn b1_no_tool_runs_if_the_ledger_row_cannot_be_stored() {
    let mut shown = String::new();
    for nth in 1..=6 {
        let (ran, end) = with_fault(Fault::Append(nth)).await;
        shown += &format!("append {nth} fails: {ran:?}, {end}\n");
    }
    for nth in 1..=3 {
        let (ran, end) = with_fault(Fault::Sync(nth)).await;
        shown += &format!("sync {nth} fails: {ran:?}, {end}\n");
    }
    expect![[r#"
        append 1 fails: [], error: store: the disk is full
        append 2 fails: [], error: store: the disk is full
        append 3 fails: ["look {}"], error: store: the disk is full
        append 4 fails: ["look {}", "write {}"], error: store: the disk is full
        append 5 fails: ["look {}", "write {}"], error: store: the disk is full
        append 6 fails: ["look {}", "write {}", "look {}"], error: store: the disk is full
        sync 1 fails: ["look {}"], error: store: the disk does not answer
        sync 2 fails: ["look {}", "write {}", "look {}"], error: store: the disk does not answer
        sync 3 fails: ["look {}", "write {}", "look {}", "write {}"], end_turn
    "#]]
    .assert_eq(&shown);
}

/// Runs two steps, each with a call that reads and a call that writes. Returns the calls that ran, and the
/// end.
async fn with_fault(fault: Fault) -> (Vec<String>, String) {
    let diary = Diary::default();
    let calls = || Step::call("look", json!({})).and_call("write", json!({}));
    let agent = Agent::builder(ScriptedModel::new([calls(), calls(), Step::text("done")]))
        .store(FaultyStore::new(MemoryStore::new(), fault))
        .tool(probe("look", Zone::Safe, &diary))
        .tool(probe("write", Zone::Workspace, &diary))
        .build()
        .unwrap();
    let reply = fresh(&agent).await.prompt("go").await;
    (diary.lines(), ending(&reply))
}

/// L6: a run whose store fails still has one `session.end` for each `session.start`.
#[tokio::test]
async fn l6_session_end_fires_once_per_start_despite_store_errors() {
    let mut shown = String::new();
    for nth in 1..=5 {
        let diary = Diary::default();
        let (starts, fails, ends) = (diary.clone(), diary.clone(), diary.clone());
        let calls = || Step::call("write", json!({}));
        let agent = Agent::builder(ScriptedModel::new([calls(), calls(), Step::text("done")]))
            .store(FaultyStore::new(MemoryStore::new(), Fault::Append(nth)))
            .tool(probe("write", Zone::Workspace, &Diary::default()))
            .observe(
                SessionStart,
                named("starts", move |_: &SessionStartEvent| starts.add("start")),
            )
            .observe(
                Error,
                named("fails", move |failed: &RunFailure| fails.add(failed.code.as_str())),
            )
            .observe(
                SessionEnd,
                named("ends", move |ended: &SessionEndEvent| {
                    ends.add(ended.reason.as_str());
                }),
            )
            .build()
            .unwrap();
        let (events, _) = to_the_end(fresh(&agent).await.prompt("go")).await;
        let last = events.lines().last().unwrap_or_default().to_owned();
        shown += &format!("append {nth} fails: {}; {last}\n", diary.lines().join(", "));
    }
    expect![[r#"
        append 1 fails: ; session.end error
        append 2 fails: start, store, error; session.end error
        append 3 fails: start, store, error; session.end error
        append 4 fails: start, store, error; session.end error
        append 5 fails: start, store, error; session.end error
    "#]]
    .assert_eq(&shown);
}

/// S26: a call that ran when the store failed is never reported as cancelled.
#[tokio::test]
async fn s26_call_that_ran_keeps_its_result_after_a_store_error() {
    let mut shown = String::new();
    for nth in 3..=7 {
        let diary = Diary::default();
        let calls = Step::call("write", json!({"n": 1})).and_call("write", json!({"n": 2}));
        let agent = Agent::builder(ScriptedModel::new([calls]))
            .store(FaultyStore::new(MemoryStore::new(), Fault::Append(nth)))
            .tool(probe("write", Zone::Workspace, &diary))
            .build()
            .unwrap();
        let session = fresh(&agent).await;
        let _listening = session.events();
        let _ = session.prompt("go").await;
        let results = transcript(&session);
        let results: Vec<_> = results.lines().filter(|line| line.starts_with("result")).collect();
        shown += &format!("append {nth} fails: {:?}\n{}\n", diary.lines(), results.join("\n"));
    }
    expect![[r#"
        append 3 fails: []
        result c1.1 (cancelled): Cancelled: the run ended before this call started.
        result c1.2 (cancelled): Cancelled: the run ended before this call started.
        append 4 fails: []
        result c1.1 (cancelled): Cancelled: the run ended before this call started.
        result c1.2 (cancelled): Cancelled: the run ended before this call started.
        append 5 fails: ["write {\"n\":1}"]
        result c1.1: write ran
        result c1.2 (cancelled): Cancelled: the run ended before this call started.
        append 6 fails: ["write {\"n\":1}"]
        result c1.1: write ran
        result c1.2 (cancelled): Cancelled: the run ended before this call started.
        append 7 fails: ["write {\"n\":1}"]
        result c1.1: write ran
        result c1.2 (cancelled): Cancelled: the run ended before this call started.
    "#]]
    .assert_eq(&shown);
}

/// B1: a row names the hooks that were asked, and a table of the session has the name of every number.
#[tokio::test]
async fn b1_every_hook_named_in_a_ledger_row_is_in_the_hook_table() {
    let diary = Diary::default();
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("risky", json!({})), Step::text("done")]))
            .ui(ScriptedUi::new([PersonAnswer::Yes]))
            .tool(probe("risky", Zone::External, &diary))
            .gate(ToolPre, named("first", |_: &ToolPreEvent| Verdict::ask("sure?")))
            .build()
            .unwrap();
    // Registered while the person is asked: this gate is asked when the gates run again.
    let late = agent.clone();
    agent
        .gate(
            cotter::hooks::points::PermissionAsk,
            named("meanwhile", move |_: &cotter::hooks::ui::Question| {
                late.gate(ToolPre, named("late", |_: &ToolPreEvent| Verdict::Pass)).unwrap();
                cotter::hooks::points::Admission::Pass
            }),
        )
        .unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    let lines = plain_lines(&**agent.store(), session.id());
    let hooks = lines.iter().filter(|line| line["type"] == "generation");
    let hooks: Vec<_> = hooks.flat_map(|line| line["hooks"].as_array().unwrap()).collect();
    let name = |id: &Value| {
        let hook = hooks.iter().find(|hook| hook["id"] == *id);
        hook.unwrap_or_else(|| panic!("hook {id} stands in no table: {hooks:?}"))["name"].clone()
    };
    let row = lines.iter().find(|line| line["type"] == "ledger").unwrap();
    let ran: Vec<_> = row["ran"].as_array().unwrap().iter().map(|ran| name(&ran["hook"])).collect();
    // The gates run before the question, and again after the answer with the registry of that time. Passes of
    // kernel gates are not recorded.
    assert_eq!(ran, ["first", "first", "late"]);
    assert_eq!(row["approvedBy"], "test");
}

/// S27: rows are chained; a changed, missing or moved row is found.
#[tokio::test]
async fn s27_changed_ledger_does_not_verify() {
    let folder = tempfile::tempdir().unwrap();
    let diary = Diary::default();
    let calls = || Step::call("write", json!({"n": 1})).and_call("write", json!({"n": 2}));
    let agent =
        Agent::builder(ScriptedModel::new([calls(), Step::text("done"), calls(), Step::text("x")]))
            .store(JsonlStore::new(folder.path()))
            .tool(probe("write", Zone::Workspace, &diary))
            .build()
            .unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    let _ = session.prompt("go").await;
    let id = session.id().clone();
    let good = agent.store().lines(&id).unwrap();
    let check = |lines: &[Vec<u8>]| verify(&id, lines.iter().map(Vec::as_slice));
    let chained = |line: &[u8]| {
        let kinds = ["run.", "ledger", "outcome", "generation", "question", "answer"];
        let text = String::from_utf8_lossy(line).into_owned();
        kinds.iter().any(|kind| text.starts_with(&format!("{{\"type\":\"{kind}")))
    };
    let rows: Vec<_> = (0..good.len()).filter(|index| chained(&good[*index])).collect();
    assert_eq!(check(&good), Ok(rows.len()));
    let last = *rows.last().unwrap();
    for row in rows.iter().copied() {
        let mut changed = good.clone();
        let at = changed[row].len() / 2;
        changed[row][at] ^= 1;
        assert!(check(&changed).is_err(), "row {row} was changed");
        let mut without = good.clone();
        without.remove(row);
        // A missing end is only found with a copy of the last hash elsewhere.
        assert_eq!(check(&without).is_ok(), row == last, "row {row} is missing");
    }
    let mut moved = good.clone();
    moved.swap(last, rows[rows.len() - 2]);
    assert!(check(&moved).is_err(), "rows were swapped");
    assert_eq!(verify("another", good.iter().map(Vec::as_slice)), Err(2), "of another session");
}

/// S26: a call is asked, answered, started and finished, in this order and on record.
#[tokio::test]
async fn s26_records_of_a_call_are_question_answer_row_and_outcome() {
    let diary = Diary::default();
    let agent =
        Agent::builder(ScriptedModel::new([Step::call("risky", json!({})), Step::text("done")]))
            .ui(ScriptedUi::new([PersonAnswer::Yes]))
            .tool(probe("risky", Zone::External, &diary))
            .build()
            .unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    expect![[r#"
        run.start r1
        question r1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.1 test [{"callId":"c1.1","answer":"yes"}]
        ledger c1.1 risky {} pass zone test
        outcome c1.1 ok
        run.end r1 end_turn
    "#]].assert_eq(&crate::kit::records(&**agent.store(), session.id()));
    expect![[r#"
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
    "#]]
    .assert_eq(&transcript(&session));
}
