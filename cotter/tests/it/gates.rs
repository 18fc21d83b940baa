//! Tests of failing handlers: they return an error, panic, hang past their limit or answer after a cancel, at
//! every point that takes them. A gate blocks, an observer changes nothing, a transform ends as the point's
//! row says, and an answering handler gives no answer.

use std::{pin::Pin, sync::Arc, time::Duration};

use cotter::{
    Agent, AgentBuilder, At, Cx, HookCx, Subagent, ToolOutput, Verdict,
    hooks::{
        points::{
            self, Admission, ContextChange, POINTS, PermissionAnswer, Point, PointId,
            ToolPostChange, ToolPre, ToolPreChange, ToolPreEvent, TurnEndVerdict,
            UserPromptSubmitChange,
        },
        ui::{Question, QuestionAnswer, Ui, UiFuture},
    },
    model::ModelErrorKind,
    named,
    permission::{
        Zone,
        rule::{Rule, RuleKind},
    },
};
use cotter_test::{
    Diary, PersonAnswer, ScriptedModel, ScriptedUi, Step, ending, fresh, probe, transcript,
};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::kit::{every_point, to_the_end};

/// The way in which a handler fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ill {
    Errs,
    Panics,
    PanicsAtOnce,
    Hangs,
    /// Cancels the run, and answers only after that.
    AnswersAfterCancel,
}

const ILLS: [Ill; 5] =
    [Ill::Errs, Ill::Panics, Ill::PanicsAtOnce, Ill::Hangs, Ill::AnswersAfterCancel];

type Later<R> = Pin<Box<dyn Future<Output = Result<R, String>> + Send>>;

/// Makes a handler that fails; `late` is the answer it would have given.
fn failing_handler<P: Point, R: Send + 'static>(
    ill: Ill,
    late: fn() -> R,
) -> impl Fn(At<P>) -> Later<R> + Send + Sync + 'static {
    move |at: At<P>| {
        assert!(ill != Ill::PanicsAtOnce, "boo at once");
        Box::pin(async move {
            tokio::task::yield_now().await;
            match ill {
                Ill::Errs => Err("out of order".into()),
                Ill::Panics => panic!("boo"),
                Ill::Hangs => std::future::pending().await,
                Ill::PanicsAtOnce | Ill::AnswersAfterCancel => {
                    at.cx().cancel().cancel();
                    tokio::task::yield_now().await;
                    Ok(late())
                }
            }
        })
    }
}

/// Runs one call that a person approves; the tested handler may approve it too.
async fn check(register: impl Fn(AgentBuilder, Ill) -> AgentBuilder, expected: Expect) {
    let mut shown = String::new();
    for ill in ILLS {
        let diary = Diary::default();
        let script = [Step::call("risky", json!({})), Step::text("done"), Step::text("more")];
        let builder = Agent::builder(ScriptedModel::new(script))
            .ui(ScriptedUi::new([PersonAnswer::Yes]))
            .tool(probe("risky", Zone::External, &diary));
        let agent = register(builder, ill).build().unwrap();
        let session = fresh(&agent).await;
        let reply = session.prompt("go").await;
        shown += &format!("# {ill:?}: {}, {} ran\n", ending(&reply), diary.lines().len());
        shown += &transcript(&session);
    }
    expected.assert_eq(&shown);
}

/// L1: a failing gate on the prompt refuses the prompt.
#[tokio::test(start_paused = true)]
async fn l1_failed_gate_at_user_prompt_submit_refuses_the_prompt() {
    let gate = |builder: AgentBuilder, ill| {
        builder
            .gate(points::UserPromptSubmit, named("sick", failing_handler(ill, || Admission::Pass)))
    };
    check(gate, expect![[r##"
        # Errs: blocked: blocked: hook "sick" refused the prompt: out of order, 0 ran
        # Panics: blocked: blocked: hook "sick" refused the prompt: it panicked: boo, 0 ran
        # PanicsAtOnce: blocked: blocked: hook "sick" refused the prompt: it panicked: boo at once, 0 ran
        # Hangs: blocked: blocked: hook "sick" refused the prompt: the hook timed out after 5s, 0 ran
        # AnswersAfterCancel: aborted, 0 ran
    "##]]).await;
}

/// L2, L10: a failing gate on a call blocks it, and the model is told why.
#[tokio::test(start_paused = true)]
async fn l2_failed_gate_at_tool_pre_blocks_the_call() {
    let gate = |builder: AgentBuilder, ill| {
        builder.gate(ToolPre, named("sick", failing_handler(ill, || Verdict::Pass)))
    };
    check(gate, expect![[r##"
        # Errs: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Hook "sick" blocked the action: out of order. Adjust your approach; do not retry the exact same call.
        assistant: done
        # Panics: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Hook "sick" blocked the action: it panicked: boo. Adjust your approach; do not retry the exact same call.
        assistant: done
        # PanicsAtOnce: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Hook "sick" blocked the action: it panicked: boo at once. Adjust your approach; do not retry the exact same call.
        assistant: done
        # Hangs: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Hook "sick" blocked the action: the hook timed out after 5s. Adjust your approach; do not retry the exact same call.
        assistant: done
        # AnswersAfterCancel: aborted, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (cancelled): Cancelled: the run ended before this call started.
    "##]]).await;
}

#[tokio::test(start_paused = true)]
async fn failed_gate_at_permission_ask_refuses_the_call() {
    let gate = |builder: AgentBuilder, ill| {
        builder.gate(points::PermissionAsk, named("sick", failing_handler(ill, || Admission::Pass)))
    };
    check(gate, expect![[r#"
        # Errs: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Permission denied for `risky`: out of order. Do not retry this exact call.
        assistant: done
        # Panics: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Permission denied for `risky`: it panicked: boo. Do not retry this exact call.
        assistant: done
        # PanicsAtOnce: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Permission denied for `risky`: it panicked: boo at once. Do not retry this exact call.
        assistant: done
        # Hangs: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Permission denied for `risky`: the hook timed out after 5s. Do not retry this exact call.
        assistant: done
        # AnswersAfterCancel: aborted, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Permission denied for `risky`: the run was cancelled before the hook answered. Do not retry this exact call.
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn failed_gate_at_turn_end_lets_the_model_stop() {
    let gate = |builder: AgentBuilder, ill| {
        let late = || TurnEndVerdict::GoOn("you are not done".into());
        builder.gate(points::TurnEnd, named("sick", failing_handler(ill, late)))
    };
    check(
        gate,
        expect![[r#"
        # Errs: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
        # Panics: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
        # PanicsAtOnce: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
        # Hangs: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
        # AnswersAfterCancel: aborted, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn failed_transform_at_user_prompt_submit_refuses_the_turn() {
    let transform = |builder: AgentBuilder, ill| {
        let late = || UserPromptSubmitChange::Prompt("late".into());
        builder.transform(points::UserPromptSubmit, named("sick", failing_handler(ill, late)))
    };
    check(transform, expect![[r##"
        # Errs: blocked: blocked: hook "sick" refused the prompt: out of order, 0 ran
        # Panics: blocked: blocked: hook "sick" refused the prompt: it panicked: boo, 0 ran
        # PanicsAtOnce: blocked: blocked: hook "sick" refused the prompt: it panicked: boo at once, 0 ran
        # Hangs: blocked: blocked: hook "sick" refused the prompt: the hook timed out after 5s, 0 ran
        # AnswersAfterCancel: aborted, 0 ran
    "##]]).await;
}

#[tokio::test(start_paused = true)]
async fn failed_transform_at_context_ends_the_run_and_is_named() {
    let transform = |builder: AgentBuilder, ill| {
        builder
            .transform(points::Context, named("sick", failing_handler(ill, || ContextChange::Keep)))
    };
    check(transform, expect![[r##"
        # Errs: error: context: hook "sick" failed to build the context: out of order, 0 ran
        user: go
        # Panics: error: context: hook "sick" failed to build the context: it panicked: boo, 0 ran
        user: go
        # PanicsAtOnce: error: context: hook "sick" failed to build the context: it panicked: boo at once, 0 ran
        user: go
        # Hangs: error: context: hook "sick" failed to build the context: the hook timed out after 5s, 0 ran
        user: go
        # AnswersAfterCancel: aborted, 0 ran
        user: go
    "##]]).await;
}

/// L11: a failing rewrite does not let the original call through.
#[tokio::test(start_paused = true)]
async fn l11_failed_transform_at_tool_pre_refuses_the_call() {
    let transform = |builder: AgentBuilder, ill| {
        builder.transform(ToolPre, named("sick", failing_handler(ill, || ToolPreChange::Keep)))
    };
    check(transform, expect![[r##"
        # Errs: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Hook "sick" blocked the action: out of order. Adjust your approach; do not retry the exact same call.
        assistant: done
        # Panics: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Hook "sick" blocked the action: it panicked: boo. Adjust your approach; do not retry the exact same call.
        assistant: done
        # PanicsAtOnce: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Hook "sick" blocked the action: it panicked: boo at once. Adjust your approach; do not retry the exact same call.
        assistant: done
        # Hangs: end_turn, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Hook "sick" blocked the action: the hook timed out after 5s. Adjust your approach; do not retry the exact same call.
        assistant: done
        # AnswersAfterCancel: aborted, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (cancelled): Cancelled: the run ended before this call started.
    "##]]).await;
}

/// L3, L11: the tool ran, but its result is withheld.
#[tokio::test(start_paused = true)]
async fn l3_failed_transform_at_tool_post_withholds_the_result() {
    let transform = |builder: AgentBuilder, ill| {
        let late = || ToolPostChange::Result(Ok(ToolOutput::from("late")));
        builder.transform(points::ToolPost, named("sick", failing_handler(ill, late)))
    };
    check(transform, expect![[r#"
        # Errs: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1 (unavailable): the tool ran, but its result is withheld: out of order
        assistant: done
        # Panics: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1 (unavailable): the tool ran, but its result is withheld: it panicked: boo
        assistant: done
        # PanicsAtOnce: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1 (unavailable): the tool ran, but its result is withheld: it panicked: boo at once
        assistant: done
        # Hangs: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1 (unavailable): the tool ran, but its result is withheld: the hook timed out after 60s
        assistant: done
        # AnswersAfterCancel: aborted, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1: late
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn failed_answer_hook_leaves_the_question_to_the_person() {
    let answer = |builder: AgentBuilder, ill| {
        builder.answer(
            points::PermissionAsk,
            named("sick", failing_handler(ill, || PermissionAnswer::Yes)),
        )
    };
    check(answer, expect![[r#"
        # Errs: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
        # Panics: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
        # PanicsAtOnce: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
        # Hangs: end_turn, 1 ran
        user: go
        call c1.1: risky {}
        result c1.1: risky ran
        assistant: done
        # AnswersAfterCancel: aborted, 0 ran
        user: go
        call c1.1: risky {}
        result c1.1 (denied): Permission denied for `risky`: zone `external` asks at level `standard`, and the run was aborted. Do not retry this exact call.
    "#]]).await;
}

/// A plain function that fails has the same effect as an `async` one.
#[tokio::test]
async fn l10_a_plain_gate_that_errs_or_panics_blocks() {
    fn errs(_: &ToolPreEvent) -> Result<Verdict, String> {
        Err("out of order".into())
    }
    fn panics(_: &ToolPreEvent) -> Verdict {
        panic!("boo")
    }
    let diary = Diary::default();
    let calls = Step::call("a", json!({})).and_call("b", json!({}));
    let agent = Agent::builder(ScriptedModel::new([calls, Step::text("done")]))
        .tool(probe("a", Zone::Safe, &diary))
        .tool(probe("b", Zone::Safe, &diary))
        .gate(ToolPre, named("errs", errs).tools(["a"]))
        .gate(ToolPre, named("panics", panics).tools(["b"]))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    assert_eq!(diary.shown(), "");
    expect![[r#"
        user: go
        call c1.1: a {}
        call c1.2: b {}
        result c1.1 (denied): Hook "errs" blocked the action: out of order. Adjust your approach; do not retry the exact same call.
        result c1.2 (denied): Hook "panics" blocked the action: it panicked: boo. Adjust your approach; do not retry the exact same call.
        assistant: done
    "#]].assert_eq(&transcript(&session));
}

/// LM-017, L10: a handler that starts after a cancel is not called, and counts as a block.
#[tokio::test]
async fn l10_gate_after_a_cancel_is_not_called() {
    let diary = Diary::default();
    let second = {
        let diary = diary.clone();
        move |_: &ToolPreEvent| {
            diary.add("the second gate was called");
            Verdict::Pass
        }
    };
    let first = |_: &ToolPreEvent, cx: &Cx| {
        cx.cancel().cancel();
        Verdict::Pass
    };
    let agent = Agent::builder(ScriptedModel::new([Step::call("a", json!({}))]))
        .tool(probe("a", Zone::Safe, &diary))
        .gate(ToolPre, named("first", first))
        .gate(ToolPre, named("second", second))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let reply = session.prompt("go").await;
    assert_eq!((ending(&reply).as_str(), diary.shown().as_str()), ("aborted", ""));
    expect![[r#"
        user: go
        call c1.1: a {}
        result c1.1 (cancelled): Cancelled: the run ended before this call started.
    "#]]
    .assert_eq(&transcript(&session));
}

/// A gate with the default limit of 5 s that waits an hour for a person is not late. A gate that works that
/// long is late.
#[tokio::test(start_paused = true)]
async fn time_limit_of_a_gate_pauses_while_it_waits_for_a_person() {
    struct Thinker;
    impl Ui for Thinker {
        fn present(&self) -> bool {
            true
        }
        fn ask(&self, _: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
            Box::pin(async { None })
        }
        fn confirm(&self, _: &str) -> UiFuture<'_, bool> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                true
            })
        }
    }
    async fn asks(at: At<ToolPre>) -> Verdict {
        let yes = at.cx().confirm("sure?").await;
        if at.tool_name == "b" {
            tokio::time::sleep(Duration::from_secs(6)).await;
        }
        if yes { Verdict::Pass } else { Verdict::block("not sure") }
    }
    let diary = Diary::default();
    let calls = Step::call("a", json!({})).and_call("b", json!({}));
    let agent = Agent::builder(ScriptedModel::new([calls, Step::text("done")]))
        .ui(Thinker)
        .tool(probe("a", Zone::Safe, &diary))
        .tool(probe("b", Zone::Safe, &diary))
        .gate(ToolPre, asks)
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    expect![[r#"
        user: go
        call c1.1: a {}
        call c1.2: b {}
        result c1.1: a ran
        result c1.2 (denied): Hook "asks" blocked the action: the hook timed out after 5s. Adjust your approach; do not retry the exact same call.
        assistant: done
    "#]].assert_eq(&transcript(&session));
}

/// A detached observer may take any time, because the run does not wait for it.
#[tokio::test(start_paused = true)]
async fn detached_observer_does_not_delay_the_run_and_its_notes_come_later() {
    async fn slow(at: At<points::SessionStart>) {
        tokio::time::sleep(Duration::from_secs(2)).await;
        at.cx().note("late news");
    }
    let agent = Agent::builder(ScriptedModel::new([Step::text("one"), Step::text("two")]))
        .observe(points::SessionStart, named("slow", slow).detached())
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let before = tokio::time::Instant::now();
    let _ = session.prompt("go").await;
    assert!(before.elapsed().is_zero(), "nobody waited");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let _ = session.prompt("again").await;
    expect![[r#"
        user: go
        assistant: one
        user: again
        note: <system-reminder>
        From hook "slow": late news
        </system-reminder>
        assistant: two
    "#]]
    .assert_eq(&transcript(&session));
}

/// Registers a failing observer at a point given as a value.
fn observe(builder: AgentBuilder, point: PointId, ill: Option<Ill>) -> AgentBuilder {
    macro_rules! at {
        ($($point:ident)*) => {
            match (point, ill) {
                $( (PointId::$point, Some(ill)) => {
                    builder.observe(points::$point, named("sick", failing_handler(ill, || ())))
                }
                (PointId::$point, None) => {
                    let cancels = |at: At<points::$point>| async move { at.cx().cancel().cancel() };
                    builder.observe(points::$point, named("sick", cancels))
                } )*
                (other, _) => panic!("`{other}` is not in `every_point!` (kit.rs)"),
            }
        };
    }
    every_point!(at)
}

/// The points that fire outside the runs of a session; this test does not listen there.
const OUTSIDE_RUNS: [PointId; 2] = [PointId::SessionOpen, PointId::SessionClose];

/// Runs a session that passes every point: a call that runs, a call with a question, a refused call, a
/// subagent, a successful run, a compaction, and a failed run.
async fn grand_tour(register: impl FnOnce(AgentBuilder) -> AgentBuilder) -> (String, String) {
    let diary = Diary::default();
    let calls = Step::call("free", json!({}))
        .and_call("risky", json!({}))
        .and_call("no", json!({}))
        .and_call("invoke_subagent", json!({"name": "helper", "prompt": "help"}));
    let script =
        [calls, Step::text("done"), Step::text("a summary"), Step::error(ModelErrorKind::Auth)];
    let builder = Agent::builder(ScriptedModel::new(script))
        .define_mention(Subagent::new("helper", |_| async { Ok("helped".into()) }))
        .define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await })
        .ui(ScriptedUi::new([PersonAnswer::Yes]))
        .tool(probe("free", Zone::Safe, &diary))
        .tool(probe("risky", Zone::External, &diary))
        .tool(probe("no", Zone::Safe, &diary))
        .rule(Rule::parse(RuleKind::Deny, "no").unwrap());
    let agent = register(builder).build().unwrap();
    let session = fresh(&agent).await;
    let (first, reply) = to_the_end(session.prompt("go")).await;
    let (second, again) = to_the_end(session.prompt("/compact again")).await;
    session.close().await;
    let shown = format!("{}\n{}\n{}", ending(&reply), ending(&again), transcript(&session));
    (shown + &diary.shown(), first + &second)
}

/// L10, L20: no observer changes the conversation, and its failure is reported.
#[tokio::test(start_paused = true)]
async fn l10_failed_observer_changes_nothing_at_any_point() {
    let (well, _) = grand_tour(|builder| builder).await;
    for row in POINTS {
        for ill in [Ill::Errs, Ill::Panics, Ill::PanicsAtOnce, Ill::Hangs] {
            let (sick, events) = grand_tour(|builder| observe(builder, row.id, Some(ill))).await;
            assert_eq!(sick, well, "{} {ill:?}", row.name);
            if !OUTSIDE_RUNS.contains(&row.id) {
                let word = match ill {
                    Ill::Errs => "failed",
                    Ill::Hangs => "timed_out",
                    _ => "panicked",
                };
                let told = format!("hook {} sick observe {word}\n", row.name);
                assert!(
                    events.contains(&told),
                    "{} {ill:?}: `grand_tour` must pass every point; one that fires outside a run \
                     is named in `OUTSIDE_RUNS`\n{events}",
                    row.name
                );
            }
        }
    }
}

/// LM-017: an observer that aborts the run and answers late changes no more than one that only aborts it.
#[tokio::test(start_paused = true)]
async fn observer_that_ends_after_a_cancel_changes_nothing_more() {
    for row in POINTS {
        let ill = Some(Ill::AnswersAfterCancel);
        let (prompt, _) = grand_tour(|builder| observe(builder, row.id, None)).await;
        let (late, _) = grand_tour(|builder| observe(builder, row.id, ill)).await;
        assert_eq!(late, prompt, "{}", row.name);
    }
}
