//! Aborts at every moment: the run ends at once, every call in history has its result, and `session.end`
//! fires once with the true reason. L6, L21.

use std::time::Duration;

use cotter::{
    Agent, AgentBuilder, At, Cx, EndReason, Session, Verdict,
    hooks::{
        events::EventKind,
        points::{
            self, Admission, ModelPre, ModelPreEvent, SessionEnd, SessionEndEvent, SessionStart,
            SessionStartEvent, ToolPre, TurnEndVerdict, UserPromptSubmit,
        },
    },
    model::ModelErrorKind,
    named,
    permission::Zone,
};
use cotter_test::{
    Diary, PersonAnswer, ScriptedModel, ScriptedUi, Step, ending, fresh, nap, probe, transcript,
};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::kit::{echo, to_the_end};

/// Builds the agent and records every start and end of a run in the diary.
fn watched(builder: AgentBuilder, diary: &Diary) -> Agent {
    let (starts, ends) = (diary.clone(), diary.clone());
    let started =
        move |_: &SessionStartEvent, cx: &Cx| starts.add(format!("{} starts", cx.run_id()));
    let ended = move |ended: &SessionEndEvent, cx: &Cx| {
        ends.add(format!("{} ends: {}", cx.run_id(), ended.reason.as_str()));
    };
    builder
        .observe(SessionStart, named("started", started))
        .observe(SessionEnd, named("ended", ended))
        .build()
        .unwrap()
}

/// Aborts a run after a second, then checks that the next run works.
async fn check(builder: AgentBuilder, expected: Expect) {
    let diary = Diary::default();
    let agent = watched(builder, &diary);
    let session = fresh(&agent).await;
    let run = session.prompt("go");
    let cancel = run.cancel_token();
    let start = tokio::time::Instant::now();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    let _ = run.await;
    let took = start.elapsed().as_millis();
    let shown = format!("{}{took} ms\n{}", diary.shown(), transcript(&session));
    expected.assert_eq(&shown);
    assert_eq!(session.prompt("again").await.unwrap().text(), "as if nothing had been");
}

/// Creates the script of a run that is aborted at its first step, and of the run after it.
fn script(step: Step) -> ScriptedModel {
    ScriptedModel::new([step, Step::text("as if nothing had been")])
}

#[tokio::test(start_paused = true)]
async fn l6_abort_while_text_streams_keeps_the_text() {
    let step = Step::text("one two three").and_delay(Duration::from_millis(400));
    check(
        Agent::builder(script(step)),
        expect![[r#"
        r1 starts
        r1 ends: aborted
        1000 ms
        user: go
        assistant: one two 
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn l6_abort_before_the_first_delta_stores_no_reply() {
    let step = Step::text("late").and_delay(Duration::from_secs(9));
    check(
        Agent::builder(script(step)),
        expect![[r#"
        r1 starts
        r1 ends: aborted
        1000 ms
        user: go
    "#]],
    )
    .await;
}

/// A call without its end is not stored. The text before it is stored.
#[tokio::test(start_paused = true)]
async fn l6_abort_while_calls_stream_stores_no_call() {
    let step = Step::text("let me see").and_call("echo", json!({})).and_hang();
    check(
        Agent::builder(script(step)).tool(echo()),
        expect![[r#"
        r1 starts
        r1 ends: aborted
        1000 ms
        user: go
        assistant: let me see
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn l6_abort_while_a_tool_runs_gives_every_call_a_result() {
    let step = Step::call("nap", json!({"ms": 9000}))
        .and_call("nap", json!({"ms": 100}))
        .and_call("write", json!({}));
    let diary = Diary::default();
    let builder = Agent::builder(script(step)).tool(nap(&diary));
    check(
        builder.tool(probe("write", Zone::Workspace, &diary)),
        expect![[r#"
        r1 starts
        r1 ends: aborted
        1000 ms
        user: go
        call c1.1: nap {"ms":9000}
        call c1.2: nap {"ms":100}
        call c1.3: write {}
        result c1.1 (cancelled): Cancelled while it ran.
        result c1.2: c1.2 rested
        result c1.3 (cancelled): Cancelled: the run ended before this call started.
    "#]],
    )
    .await;
    expect![[r#"
        c1.1 starts
        c1.2 starts
        c1.2 ends
    "#]]
    .assert_eq(&diary.shown());
}

#[tokio::test(start_paused = true)]
async fn l6_abort_during_a_gate_does_not_run_the_call() {
    async fn slow(_: At<ToolPre>) -> Verdict {
        tokio::time::sleep(Duration::from_secs(4)).await;
        Verdict::Pass
    }
    let step = Step::call("echo", json!({}));
    check(
        Agent::builder(script(step)).tool(echo()).gate(ToolPre, slow),
        expect![[r#"
        r1 starts
        r1 ends: aborted
        1000 ms
        user: go
        call c1.1: echo {}
        result c1.1 (cancelled): Cancelled: the run ended before this call started.
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn l6_abort_during_a_question_refuses_the_call() {
    let diary = Diary::default();
    let builder = Agent::builder(script(Step::call("risky", json!({}))))
        .ui(ScriptedUi::new([PersonAnswer::Silence]))
        .tool(probe("risky", Zone::External, &diary));
    check(builder, expect![[r#"
        r1 starts
        r1 ends: aborted
        1000 ms
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Permission denied for `risky`: zone `external` asks at level `standard`, and the run was aborted. Do not retry this exact call.
    "#]]).await;
    assert_eq!(diary.shown(), "");
}

#[tokio::test(start_paused = true)]
async fn l6_abort_ends_the_wait_for_a_retry() {
    let wait = Some(Duration::from_secs(600));
    let step = Step::default().and_error(ModelErrorKind::RateLimited, wait);
    check(
        Agent::builder(script(step)),
        expect![[r#"
        r1 starts
        r1 ends: aborted
        1000 ms
        user: go
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn l6_abort_during_a_prompt_gate_does_not_store_the_prompt() {
    async fn slow(at: At<UserPromptSubmit>) -> Admission {
        if at.prompt == "go" {
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
        Admission::Pass
    }
    let model = ScriptedModel::new([Step::text("as if nothing had been")]);
    check(
        Agent::builder(model).gate(UserPromptSubmit, slow),
        expect![[r#"
        r1 starts
        r1 ends: aborted
        1000 ms
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn l6_abort_during_a_turn_end_gate_ends_the_run() {
    async fn slow(at: At<points::TurnEnd>) -> TurnEndVerdict {
        if at.text == "done" {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        TurnEndVerdict::Stop
    }
    check(
        Agent::builder(script(Step::text("done"))).gate(points::TurnEnd, slow),
        expect![[r#"
        r1 starts
        r1 ends: aborted
        1000 ms
        user: go
        assistant: done
    "#]],
    )
    .await;
}

/// An abort directly before the request sends no request to the model.
#[tokio::test]
async fn l6_abort_before_the_request_stores_no_reply() {
    let model = ScriptedModel::new([Step::text("unheard")]);
    let stop = |_: &ModelPreEvent, cx: &Cx| cx.cancel().cancel();
    let diary = Diary::default();
    let agent = watched(Agent::builder(model).observe(ModelPre, named("stop", stop)), &diary);
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("go").await), "aborted");
    assert_eq!(transcript(&session), "user: go\n");
    assert_eq!(diary.shown(), "r1 starts\nr1 ends: aborted\n");
}

/// A run that is aborted before it is awaited still has one start and one end, and no gate is called.
#[tokio::test]
async fn l6_run_aborted_before_it_starts_has_a_start_and_an_end() {
    let (diary, gate) = (Diary::default(), Diary::default());
    let called = gate.clone();
    let seen = move |_: &points::UserPromptSubmitEvent| {
        called.add("called");
        Admission::Pass
    };
    let model = ScriptedModel::new([Step::text("unheard")]);
    let agent = watched(Agent::builder(model.clone()).gate(UserPromptSubmit, seen), &diary);
    let session = fresh(&agent).await;
    let run = session.prompt("go");
    run.abort();
    assert_eq!(ending(&run.await), "aborted");
    assert_eq!(diary.shown(), "r1 starts\nr1 ends: aborted\n");
    assert_eq!((gate.shown().as_str(), model.requests()), ("", 0), "LM-017: not called");
}

/// Drops a run after its first delta. The runtime ends the dropped run properly.
async fn dropped_after_the_first_delta() {
    let diary = Diary::default();
    let agent = watched(Agent::builder(script(Step::text("one two").and_hang())), &diary);
    let session = fresh(&agent).await;
    let mut run = session.prompt("go");
    while let Some(event) = run.next().await {
        if matches!(event.kind, EventKind::TextDelta { .. }) {
            break;
        }
    }
    drop(run);
    // The next run starts after the dropped run has ended.
    assert_eq!(session.prompt("again").await.unwrap().reason, EndReason::EndTurn);
    assert_eq!(diary.shown(), "r1 starts\nr1 ends: aborted\nr2 starts\nr2 ends: end_turn\n");
    let kept = transcript(&session);
    assert!(kept.starts_with("user: go\nassistant: one "), "{kept}");
}

#[tokio::test(flavor = "current_thread")]
async fn l6_a_dropped_run_ends_as_aborted_on_one_thread() {
    dropped_after_the_first_delta().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l6_a_dropped_run_ends_as_aborted_on_many_threads() {
    for _ in 0..50 {
        dropped_after_the_first_delta().await;
    }
}

#[tokio::test]
async fn run_that_is_never_awaited_stores_nothing() {
    let diary = Diary::default();
    let agent = watched(Agent::builder(ScriptedModel::new([Step::text("hello")])), &diary);
    let session = fresh(&agent).await;
    drop(session.prompt("never mind"));
    for _ in 0..9 {
        tokio::task::yield_now().await;
    }
    assert_eq!(session.prompt("hi").await.unwrap().text(), "hello");
    assert_eq!(transcript(&session), "user: hi\nassistant: hello\n");
    assert_eq!(diary.shown(), "r1 starts\nr1 ends: end_turn\n");
}

#[tokio::test]
async fn detached_run_continues_without_its_caller() {
    let diary = Diary::default();
    let step = Step::text("by myself").and_delay(Duration::from_millis(1));
    let agent = watched(Agent::builder(ScriptedModel::new([step])), &diary);
    let session = fresh(&agent).await;
    let mut events = session.events();
    session.prompt("go").detach();
    while !matches!(events.next().await.kind, EventKind::SessionEnd { .. }) {}
    assert_eq!(transcript(&session), "user: go\nassistant: by myself\n");
    assert_eq!(diary.shown(), "r1 starts\nr1 ends: end_turn\n");
}

/// Starts two runs at once. They run one after the other, each with its own events.
async fn two_at_once(session: &Session) -> (String, String) {
    let (first, second) =
        tokio::join!(to_the_end(session.prompt("a")), to_the_end(session.prompt("b")));
    (first.0, second.0)
}

#[tokio::test]
async fn concurrent_prompts_on_one_session_run_in_turn() {
    let diary = Diary::default();
    let reply = |text: &str| Step::text(text).and_delay(Duration::from_millis(1));
    let agent = watched(Agent::builder(ScriptedModel::new([reply("one"), reply("two")])), &diary);
    let session = fresh(&agent).await;
    let (first, second) = two_at_once(&session).await;
    expect![[r#"
        session.start
        hook session.start started observe seen
        message user: a
        text.start
        text.delta "one"
        text.end
        message assistant: one
        model.post
        hook session.end ended observe seen
        session.end end_turn
        --
        session.start
        hook session.start started observe seen
        message user: b
        text.start
        text.delta "two"
        text.end
        message assistant: two
        model.post
        hook session.end ended observe seen
        session.end end_turn
    "#]]
    .assert_eq(&format!("{first}--\n{second}"));
    expect![[r#"
        user: a
        assistant: one
        user: b
        assistant: two
    "#]]
    .assert_eq(&transcript(&session));
    assert_eq!(diary.shown(), "r1 starts\nr1 ends: end_turn\nr2 starts\nr2 ends: end_turn\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_from_many_threads_have_paired_starts_and_ends() {
    let diary = Diary::default();
    let call = || Step::call("echo", json!({"text": "x"}));
    let script = (0..40).flat_map(|_| [call(), Step::text("done")]);
    let agent = watched(Agent::builder(ScriptedModel::new(script)).tool(echo()), &diary);
    let session = fresh(&agent).await;
    let runs: Vec<_> = (0..40)
        .map(|n| {
            tokio::spawn({
                let run = session.prompt(format!("{n}"));
                async move { run.await.map(|reply| reply.reason) }
            })
        })
        .collect();
    for run in runs {
        assert_eq!(run.await.unwrap().unwrap(), EndReason::EndTurn);
    }
    let pairs = (1..=40).map(|n| format!("r{n} starts\nr{n} ends: end_turn\n"));
    assert_eq!(diary.shown(), pairs.collect::<String>());
    let shown = transcript(&session);
    for turn in shown.split("user: ").skip(1) {
        let lines: Vec<_> = turn.lines().skip(1).map(|line| line.split(' ').next()).collect();
        assert_eq!(lines, [Some("call"), Some("result"), Some("assistant:")], "{turn}");
    }
}
