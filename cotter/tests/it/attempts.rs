//! One request and its attempts: retries by error kind, back-off, fallback models, notes that survive
//! retries and fallback.

use std::{
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use cotter::{
    Agent, AgentBuilder, Cx,
    history::message::{StopReason, Usage},
    hooks::points::{ModelPost, ModelPostEvent, ModelPre, ModelPreEvent},
    model::{Delta, Model, ModelError, ModelErrorKind, ReplyStream, Request},
    named,
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, ending, fresh, transcript};
use expect_test::{Expect, expect};
use futures_util::stream;
use smol_str::SmolStr;

use crate::kit::to_the_end;

/// Runs one prompt and checks its events, its duration and its end.
async fn check(builder: AgentBuilder, expected: Expect) {
    let agent = builder.build().unwrap();
    let session = fresh(&agent).await;
    let start = tokio::time::Instant::now();
    let (events, reply) = to_the_end(session.prompt("go")).await;
    let took = start.elapsed().as_millis();
    expected.assert_eq(&format!("{events}{took} ms, {}\n", ending(&reply)));
}

fn fails(kind: ModelErrorKind) -> Step {
    Step::error(kind)
}

/// L21: a temporary error is retried, each time after twice the delay. The streamed text is dropped.
#[tokio::test(start_paused = true)]
async fn l21_temporary_error_is_retried_and_its_stream_dropped() {
    let script = [
        Step::text("half a re").and_error(ModelErrorKind::Network, None),
        fails(ModelErrorKind::Overloaded),
        Step::text("whole"),
    ];
    check(
        Agent::builder(ScriptedModel::new(script)),
        expect![[r#"
        session.start
        message user: go
        text.start
        text.delta "half "
        text.delta "a "
        text.delta "re"
        text.end
        retry 1 network 500ms
        retry 2 overloaded 1000ms
        text.start
        text.delta "whole"
        text.end
        message assistant: whole
        model.post
        session.end end_turn
        1500 ms, end_turn
    "#]],
    )
    .await;
}

/// L21: the provider's `retry_after` is respected.
#[tokio::test(start_paused = true)]
async fn l21_retry_after_is_waited_for() {
    let wait = Some(Duration::from_secs(90));
    let limited = Step::default().and_error(ModelErrorKind::RateLimited, wait);
    check(
        Agent::builder(ScriptedModel::new([limited, Step::text("ok")])),
        expect![[r#"
        session.start
        message user: go
        retry 1 rate_limited 90000ms
        text.start
        text.delta "ok"
        text.end
        message assistant: ok
        model.post
        session.end end_turn
        90000 ms, end_turn
    "#]],
    )
    .await;
}

/// L21: a model that asks for too long a wait is not retried; the next model is asked.
#[tokio::test(start_paused = true)]
async fn l21_too_long_retry_after_goes_to_the_fallback_model() {
    let day = Some(Duration::from_secs(86_400));
    let limited = || Step::default().and_error(ModelErrorKind::RateLimited, day);
    check(
        Agent::builder(ScriptedModel::new([limited()]))
            .fallback(ScriptedModel::new([Step::text("ok")])),
        expect![[r#"
            session.start
            message user: go
            retry 1 rate_limited 0ms with test/scripted
            text.start
            text.delta "ok"
            text.end
            message assistant: ok
            model.post
            session.end end_turn
            0 ms, end_turn
        "#]],
    )
    .await;
    check(
        Agent::builder(ScriptedModel::new([limited()])),
        expect![[r#"
            session.start
            message user: go
            error rate_limited: the script says so
            session.end error
            0 ms, error: rate_limited: the script says so
        "#]],
    )
    .await;
}

/// A model whose first replies break off after their usage was reported.
struct Breaking {
    name: SmolStr,
    left: AtomicU32,
}

impl Model for Breaking {
    fn name(&self) -> &SmolStr {
        &self.name
    }

    fn stream(&self, _: Request) -> ReplyStream {
        let usage = Usage { input_tokens: 1000, ..Usage::default() };
        let breaks = self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        let last = match breaks {
            true => Err(ModelError::new(ModelErrorKind::Network, "it broke off")),
            false => Ok(Delta::Done { stop_reason: StopReason::EndTurn, usage }),
        };
        Box::pin(stream::iter([Ok(Delta::Usage(usage)), Ok(Delta::Text("well".into())), last]))
    }

    fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        Some(usage.input_tokens as f64 / 1000.0)
    }
}

/// L21: the usage of a reply that broke off counts, in totals and in the budget.
#[tokio::test(start_paused = true)]
async fn l21_usage_of_a_broken_reply_counts() {
    let breaking = |left| Breaking { name: "test/breaking".into(), left: AtomicU32::new(left) };
    let agent = Agent::builder(breaking(2)).build().unwrap();
    let reply = fresh(&agent).await.prompt("go").await.unwrap();
    assert_eq!((reply.usage.input_tokens, reply.cost_usd), (3000, Some(3.0)));

    let limited = Agent::builder(breaking(9)).limits(|limits| limits.max_budget_usd = Some(2.0));
    let agent = limited.build().unwrap();
    let (_, reply) = to_the_end(fresh(&agent).await.prompt("go")).await;
    assert_eq!(
        ending(&reply),
        "budget_exceeded: budget_exceeded: the run cost 2.0000 USD of 2.0000"
    );
}

#[tokio::test(start_paused = true)]
async fn l21_after_the_last_retry_the_run_fails() {
    let script = std::iter::repeat_n(fails(ModelErrorKind::Timeout), 9);
    let builder = Agent::builder(ScriptedModel::new(script)).limits(|limits| limits.retries = 2);
    check(
        builder,
        expect![[r#"
        session.start
        message user: go
        retry 1 timeout 500ms
        retry 2 timeout 1000ms
        error timeout: the script says so
        session.end error
        1500 ms, error: timeout: the script says so
    "#]],
    )
    .await;
}

/// L21: only temporary errors are retried.
#[tokio::test(start_paused = true)]
async fn l21_only_temporary_error_kinds_are_retried() {
    let mut shown = String::new();
    for word in ModelErrorKind::words() {
        let kind = ModelErrorKind::parse(word).unwrap();
        let model = ScriptedModel::new(std::iter::repeat_n(fails(kind), 9));
        let agent = Agent::builder(model.clone()).build().unwrap();
        let reply = fresh(&agent).await.prompt("go").await;
        shown += &format!("{word}: {} requests, {}\n", model.requests(), ending(&reply));
    }
    expect![[r#"
        auth: 1 requests, error: auth: the script says so
        rate_limited: 4 requests, error: rate_limited: the script says so
        overloaded: 4 requests, error: overloaded: the script says so
        context_overflow: 1 requests, error: context_overflow: the script says so
        bad_request: 1 requests, error: bad_request: the script says so
        network: 4 requests, error: network: the script says so
        timeout: 4 requests, error: timeout: the script says so
        cancelled: 1 requests, aborted
        other: 1 requests, error: other: the script says so
    "#]]
    .assert_eq(&shown);
}

/// L21: a model that failed for good is not asked again in the same run, but is asked in the next run.
#[tokio::test(start_paused = true)]
async fn l21_run_stays_with_the_fallback_model_that_answered() {
    let dead = || ScriptedModel::new(std::iter::repeat_n(fails(ModelErrorKind::Auth), 9));
    let dead = RecordingModel::new(dead().named("test/dead"));
    let call = || Step::call("missing", serde_json::json!({}));
    let steps = [call(), call(), Step::text("done"), Step::text("again")];
    let next = RecordingModel::new(ScriptedModel::new(steps).named("test/next"));
    let agent = Agent::builder(dead.clone()).fallback(next.clone()).build().unwrap();
    let session = fresh(&agent).await;
    session.prompt("go").await.unwrap();
    assert_eq!((dead.requests().len(), next.requests().len()), (1, 3));
    session.prompt("go").await.unwrap();
    assert_eq!((dead.requests().len(), next.requests().len()), (2, 4));
}

/// L21, L4: the next model replaces a model that does not answer, and `model.pre` sees every attempt.
#[tokio::test(start_paused = true)]
async fn l4_model_pre_fires_for_every_attempt_of_every_model() {
    let diary = Diary::default();
    let seen = {
        let diary = diary.clone();
        move |request: &ModelPreEvent| {
            diary.add(format!("{} {}", request.attempt, request.model));
        }
    };
    let first = ScriptedModel::new(std::iter::repeat_n(fails(ModelErrorKind::Overloaded), 2));
    let broken = ScriptedModel::new([Step::text("gar").and_error(ModelErrorKind::Auth, None)]);
    let builder = Agent::builder(first.named("test/first"))
        .fallback(broken.named("test/second"))
        .fallback(ScriptedModel::new([Step::text("at last")]).named("test/third"))
        .limits(|limits| limits.retries = 1)
        .observe(ModelPre, named("seen", seen));
    check(
        builder,
        expect![[r#"
            session.start
            message user: go
            hook model.pre seen observe seen
            retry 1 overloaded 500ms
            hook model.pre seen observe seen
            retry 2 overloaded 0ms with test/second
            hook model.pre seen observe seen
            text.start
            text.delta "gar"
            text.end
            retry 3 auth 0ms with test/third
            hook model.pre seen observe seen
            text.start
            text.delta "at "
            text.delta "last"
            text.end
            message assistant: at last
            model.post
            session.end end_turn
            500 ms, end_turn
        "#]],
    )
    .await;
    expect![[r#"
        1 test/first
        2 test/first
        3 test/second
        4 test/third
    "#]]
    .assert_eq(&diary.shown());
}

#[tokio::test(start_paused = true)]
async fn stream_that_ends_before_done_is_a_network_error() {
    struct Cut;
    impl cotter::model::Model for Cut {
        fn name(&self) -> &smol_str::SmolStr {
            const NAME: &smol_str::SmolStr = &smol_str::SmolStr::new_static("test/cut");
            NAME
        }
        fn stream(&self, _: cotter::model::Request) -> cotter::model::ReplyStream {
            let half = cotter::model::Delta::Text("half".into());
            Box::pin(futures_util::stream::iter([Ok(half)]))
        }
    }
    let builder = Agent::builder(Cut).fallback(ScriptedModel::new([Step::text("whole")]));
    check(
        builder.limits(|limits| limits.retries = 0),
        expect![[r#"
            session.start
            message user: go
            text.start
            text.delta "half"
            text.end
            retry 1 network 0ms with test/scripted
            text.start
            text.delta "whole"
            text.end
            message assistant: whole
            model.post
            session.end end_turn
            0 ms, end_turn
        "#]],
    )
    .await;
}

/// L9, L4: a note is part of the request it was made for, is sent again after a failure, and is delivered
/// once. It stays in history at that position.
#[tokio::test(start_paused = true)]
async fn l9_notes_are_kept_across_retries_and_delivered_once() {
    let model = RecordingModel::new(ScriptedModel::new([
        fails(ModelErrorKind::Overloaded),
        fails(ModelErrorKind::Overloaded),
        Step::text("one"),
        Step::text("two"),
    ]));
    let remark = |request: &ModelPreEvent, cx: &Cx| {
        if cx.run_id() == "r1" {
            cx.note(format!("attempt {}", request.attempt));
        }
    };
    let agent =
        Agent::builder(model.clone()).observe(ModelPre, named("remark", remark)).build().unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    let _ = session.prompt("again").await;
    expect![[r#"
        user: go
        note: <system-reminder>
        From hook "remark": attempt 1
        </system-reminder>
        --
        user: go
        note: <system-reminder>
        From hook "remark": attempt 1
        </system-reminder>
        <system-reminder>
        From hook "remark": attempt 2
        </system-reminder>
        --
        user: go
        note: <system-reminder>
        From hook "remark": attempt 1
        </system-reminder>
        <system-reminder>
        From hook "remark": attempt 2
        </system-reminder>
        <system-reminder>
        From hook "remark": attempt 3
        </system-reminder>
        --
        user: go
        note: <system-reminder>
        From hook "remark": attempt 1
        </system-reminder>
        <system-reminder>
        From hook "remark": attempt 2
        </system-reminder>
        <system-reminder>
        From hook "remark": attempt 3
        </system-reminder>
        assistant: one
        user: again
    "#]]
    .assert_eq(&model.shown());
    expect![[r#"
        user: go
        note: <system-reminder>
        From hook "remark": attempt 1
        </system-reminder>
        <system-reminder>
        From hook "remark": attempt 2
        </system-reminder>
        <system-reminder>
        From hook "remark": attempt 3
        </system-reminder>
        assistant: one
        user: again
        assistant: two
    "#]]
    .assert_eq(&transcript(&session));
}

/// L5: `model.post` reports usage and cost once per recorded reply and never for a failed attempt.
#[tokio::test(start_paused = true)]
async fn l5_model_post_fires_once_per_recorded_reply() {
    let diary = Diary::default();
    let meter = {
        let diary = diary.clone();
        move |replied: &ModelPostEvent| diary.add(serde_json::to_string(replied).unwrap())
    };
    let usage = Usage { input_tokens: 10, output_tokens: 5, cache_read: 3, cache_write: 1 };
    let script = [
        fails(ModelErrorKind::Network),
        Step::call("nothing", serde_json::json!({})).and_usage(usage),
        Step::text("done").and_usage(usage),
    ];
    let agent = Agent::builder(ScriptedModel::new(script).priced(0.25))
        .observe(ModelPost, named("meter", meter))
        .build()
        .unwrap();
    let reply = fresh(&agent).await.prompt("go").await.unwrap();
    assert_eq!((reply.steps, reply.usage.total(), reply.cost_usd), (2, 38, Some(0.5)));
    expect![[r#"
        {"model":"test/scripted","stopReason":"tool_use","inputTokens":10,"outputTokens":5,"cacheRead":3,"cacheWrite":1,"costUsd":0.25,"toolCallCount":1}
        {"model":"test/scripted","stopReason":"end_turn","inputTokens":10,"outputTokens":5,"cacheRead":3,"cacheWrite":1,"costUsd":0.25,"toolCallCount":0}
    "#]].assert_eq(&diary.shown());
}

/// L5: a paid reply is reported even if the run is aborted afterwards.
#[tokio::test]
async fn l5_model_post_fires_for_a_recorded_reply_of_an_aborted_run() {
    let diary = Diary::default();
    let meter = {
        let diary = diary.clone();
        move |replied: &ModelPostEvent| diary.add(replied.model.as_str())
    };
    let stop = |_: &ModelPostEvent, cx: &Cx| cx.cancel().cancel();
    let agent = Agent::builder(ScriptedModel::new([Step::text("done")]))
        .observe(ModelPost, named("stop", stop))
        .observe(ModelPost, named("meter", meter))
        .build()
        .unwrap();
    let _ = fresh(&agent).await.prompt("go").await;
    assert_eq!(diary.shown(), "test/scripted\n");
}

/// A truncated reply is continued three times, then the run ends.
#[tokio::test]
async fn truncated_reply_is_continued_three_times() {
    let cut = |text: &str| Step::text(text).and_stop(StopReason::MaxTokens);
    let model = ScriptedModel::new([cut("a"), cut("b"), cut("c"), cut("d"), cut("e")]);
    let agent = Agent::builder(model).build().unwrap();
    let session = fresh(&agent).await;
    let reply = session.prompt("go").await;
    let shown = format!("{}\n{}", ending(&reply), transcript(&session));
    expect![[r#"
        max_tokens: max_tokens: the reply did not fit into its length limit
        user: go
        assistant: a
        note: <system-reminder>
        Your reply was cut off at its length limit. Continue where it stopped.
        </system-reminder>
        assistant: b
        note: <system-reminder>
        Your reply was cut off at its length limit. Continue where it stopped.
        </system-reminder>
        assistant: c
        note: <system-reminder>
        Your reply was cut off at its length limit. Continue where it stopped.
        </system-reminder>
        assistant: d
    "#]]
    .assert_eq(&shown);

    let model = ScriptedModel::new([cut("a"), cut("b"), cut("c"), Step::text("d")]);
    let agent = Agent::builder(model).build().unwrap();
    assert_eq!(ending(&fresh(&agent).await.prompt("go").await), "end_turn");
}
