//! Tests of the limits that end a run: steps, money, tokens, refusal, gates that make the model continue.

use cotter::{
    Agent, AgentBuilder, FnTool, HookCx, Subagent,
    agent::controls::Completion,
    history::message::{StopReason, Usage},
    hooks::points::{self, RunFailure, SessionEndEvent, TurnEnd, TurnEndEvent, TurnEndVerdict},
    invoke::subagent::SubagentCx,
    model::ModelErrorKind,
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{Diary, ScriptedModel, Step, ending, fresh, spec, transcript};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::kit::{echo, to_the_end};

/// A model that never stops by itself.
fn endless() -> ScriptedModel {
    let usage = Usage { input_tokens: 60, output_tokens: 40, ..Usage::default() };
    let call = || Step::call("echo", json!({"text": "on and on"})).and_usage(usage);
    ScriptedModel::new(std::iter::repeat_with(call).take(50))
}

/// Checks the last events of a run, and the events of `error` and `session.end`.
async fn check(builder: AgentBuilder, expected: Expect) {
    let diary = Diary::default();
    let (failures, ends) = (diary.clone(), diary.clone());
    let failed = move |failed: &RunFailure| failures.add(format!("error hook: {}", failed.code));
    let ended =
        move |ended: &SessionEndEvent| ends.add(format!("end hook: {}", ended.reason.as_str()));
    let agent = builder
        .tool(echo())
        .observe(points::Error, named("failed", failed))
        .observe(points::SessionEnd, named("ended", ended))
        .build()
        .unwrap();
    let (events, reply) = to_the_end(fresh(&agent).await.prompt("go")).await;
    let told = |line: &&str| line.starts_with("error") || line.starts_with("session.");
    let told: String = events.lines().filter(told).map(|line| format!("{line}\n")).collect();
    let reply = reply.unwrap();
    let shown = format!(
        "{told}{}steps {}, tokens {}, cost {:?}\n",
        diary.shown(),
        reply.steps,
        reply.usage.total(),
        reply.cost_usd
    );
    expected.assert_eq(&shown);
}

/// L21, L6: `error` comes just before `session.end`, also for a limit.
#[tokio::test]
async fn l21_l6_run_ends_at_max_steps() {
    let builder = Agent::builder(endless()).limits(|limits| limits.max_steps = Some(3));
    check(
        builder,
        expect![[r#"
            session.start
            error max_turns: the run reached its limit of 3 steps
            session.end max_turns
            error hook: max_turns
            end hook: max_turns
            steps 3, tokens 300, cost None
        "#]],
    )
    .await;
}

#[tokio::test]
async fn l21_run_ends_when_its_budget_is_spent() {
    let builder = Agent::builder(endless().priced(0.4));
    check(
        builder.limits(|limits| limits.max_budget_usd = Some(1.0)),
        expect![[r#"
        session.start
        error budget_exceeded: the run cost 1.2000 USD of 1.0000
        session.end budget_exceeded
        error hook: budget_exceeded
        end hook: budget_exceeded
        steps 3, tokens 300, cost Some(1.2000000000000002)
    "#]],
    )
    .await;
}

#[tokio::test]
async fn l21_run_with_a_budget_ends_at_an_unknown_price() {
    let builder = Agent::builder(endless());
    check(
        builder.limits(|limits| limits.max_budget_usd = Some(1.0)),
        expect![[r#"
        session.start
        error budget_exceeded: the price of `test/scripted` is not known, so the budget cannot be kept
        session.end budget_exceeded
        error hook: budget_exceeded
        end hook: budget_exceeded
        steps 1, tokens 0, cost Some(0.0)
    "#]],
    )
    .await;
}

/// L21: a fallback model without a price gets no request.
#[tokio::test]
async fn l21_fallback_model_without_a_price_gets_no_request() {
    let broken = ScriptedModel::new([Step::error(ModelErrorKind::Auth)]).priced(0.1);
    let spare = ScriptedModel::new([Step::text("hello")]).named("test/spare");
    let builder = Agent::builder(broken).fallback(spare.clone());
    check(
        builder.limits(|limits| limits.max_budget_usd = Some(1.0)),
        expect![[r#"
        session.start
        error budget_exceeded: the price of `test/spare` is not known, so the budget cannot be kept
        session.end budget_exceeded
        error hook: budget_exceeded
        end hook: budget_exceeded
        steps 1, tokens 0, cost Some(0.0)
    "#]],
    )
    .await;
    assert_eq!(spare.requests(), 0);
    let broken = ScriptedModel::new([Step::error(ModelErrorKind::Auth)]).priced(0.1);
    check(
        Agent::builder(broken).fallback(spare).limits(|limits| limits.max_tokens = Some(100)),
        expect![[r#"
            session.start
            session.end end_turn
            end hook: end_turn
            steps 1, tokens 0, cost None
        "#]],
    )
    .await;
}

/// L21: a child spends its parent's budget. A child without a price gets no request, and its parent
/// continues.
#[tokio::test]
async fn l21_child_model_without_a_price_gets_no_request() {
    let helper = ScriptedModel::new([Step::text("hello")]).named("test/helper");
    let asked = helper.clone();
    let mention = Subagent::new("helper", move |cx: SubagentCx| {
        let helper = helper.clone();
        async move {
            let child = cx.child().model(helper).build()?;
            let reply = child.process_request(cx.prompt.as_str()).await?;
            Ok(format!("{}: {:?}", reply.reason.as_str(), reply.error).into())
        }
    });
    let call = Step::call("invoke_subagent", json!({"name": "helper", "prompt": "p"}));
    let model = ScriptedModel::new([call, Step::text("done")]).priced(0.1);
    let agent = Agent::builder(model)
        .define_mention(mention)
        .limits(|limits| limits.max_budget_usd = Some(1.0))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let reply = session.prompt("go").await.unwrap();
    assert_eq!((asked.requests(), reply.cost_usd), (0, Some(0.2)));
    expect![[r#"
        user: go
        call c1.1: invoke_subagent {"name":"helper","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"helper","content":"budget_exceeded: Some(RunFailure { code: \"budget_exceeded\", message: \"the price of `test/helper` is not known, so the budget cannot be kept\" })"}}
        assistant: done
    "#]].assert_eq(&transcript(&session));
}

/// L21, P8: a model without a price that a handler asks outside the conversation gets no request either.
#[tokio::test]
async fn l21_p8_complete_with_an_unpriced_model_sends_no_request() {
    let other = ScriptedModel::new([Step::text("hello")]).named("test/other");
    let asked = other.clone();
    let ask = FnTool::new(spec("ask"), move |permit| {
        let ask = Completion::new("and you?").with_model(other.clone());
        async move {
            let done = permit.cx().controls().complete(ask).await;
            Ok(format!("{:?}", done.map_err(|error| (error.code, error.message))).into())
        }
    });
    let model = ScriptedModel::new([Step::call("ask", json!({})), Step::text("done")]).priced(0.1);
    let agent = Agent::builder(model)
        .tool(ask.with_facts(Facts::zone(Zone::Safe)))
        .limits(|limits| limits.max_budget_usd = Some(1.0))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    session.prompt("go").await.unwrap();
    assert_eq!(asked.requests(), 0);
    expect![[r#"
        user: go
        call c1.1: ask {}
        result c1.1: Err(("budget_exceeded", "the price of `test/other` is not known, so the budget cannot be kept"))
        assistant: done
    "#]].assert_eq(&transcript(&session));
}

/// L21: a summary counts against the budget. If its model has no price, the run ends before it spends an
/// unknown amount.
#[tokio::test]
async fn l21_a_compaction_without_a_price_ends_the_run() {
    let fails = || Step::error(ModelErrorKind::Auth);
    let model = ScriptedModel::new([Step::text("first"), fails(), fails()]).priced(0.1);
    let spare = ScriptedModel::new([Step::text("a summary")]).named("test/spare");
    let shrink = |cx: HookCx| async move { cx.controls.force_compaction().await };
    let agent = Agent::builder(model)
        .fallback(spare.clone())
        .define_hook("shrink", shrink)
        .limits(|limits| limits.max_budget_usd = Some(1.0))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    session.prompt("one").await.unwrap();
    let ended = ending(&session.prompt("/shrink two").await);
    let later = ending(&session.prompt("three").await);
    assert_eq!(spare.requests(), 0);
    expect![[r#"
        error: hook: hook "shrink" failed: the price of `test/spare` is not known, so the budget cannot be kept
        budget_exceeded: budget_exceeded: the price of `test/spare` is not known, so the budget cannot be kept
        user: one
        assistant: first
        user: three
    "#]].assert_eq(&format!("{ended}\n{later}\n{}", transcript(&session)));
}

/// L21: a price that is negative or not a finite number counts as unknown.
#[tokio::test]
async fn l21_invalid_price_counts_as_unknown() {
    let mut shown = String::new();
    for price in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
        let agent = Agent::builder(endless().priced(price))
            .tool(echo())
            .limits(|limits| (limits.max_budget_usd, limits.max_steps) = (Some(1.0), Some(2)))
            .build()
            .unwrap();
        let reply = fresh(&agent).await.prompt("go").await;
        shown += &format!("{price}: {}\n", ending(&reply));
    }
    expect![[r#"
        NaN: budget_exceeded: budget_exceeded: the price of a reply is not known, so the budget cannot be kept
        inf: budget_exceeded: budget_exceeded: the price of a reply is not known, so the budget cannot be kept
        -1: budget_exceeded: budget_exceeded: the price of a reply is not known, so the budget cannot be kept
        0: max_turns: max_turns: the run reached its limit of 2 steps
    "#]].assert_eq(&shown);
}

#[tokio::test]
async fn l21_run_ends_at_max_tokens() {
    let builder = Agent::builder(endless());
    check(
        builder.limits(|limits| limits.max_tokens = Some(250)),
        expect![[r#"
        session.start
        error budget_exceeded: the run used 300 tokens of 250
        session.end budget_exceeded
        error hook: budget_exceeded
        end hook: budget_exceeded
        steps 3, tokens 300, cost None
    "#]],
    )
    .await;
}

#[tokio::test]
async fn l6_refusal_is_its_own_end_reason() {
    let refusal = Step::text("I will not").and_stop(StopReason::Refusal);
    check(
        Agent::builder(ScriptedModel::new([refusal])),
        expect![[r#"
        session.start
        session.end refusal
        end hook: refusal
        steps 1, tokens 0, cost None
    "#]],
    )
    .await;
}

/// A gate at `turn.end` may make the model continue, at most eight times in a row.
#[tokio::test]
async fn turn_end_gate_continues_the_model_at_most_eight_times() {
    let diary = Diary::default();
    let pushy = {
        let diary = diary.clone();
        move |ending: &TurnEndEvent| {
            diary.add(format!("{} {}", ending.continued_in_row, ending.text));
            TurnEndVerdict::GoOn("there is more".into())
        }
    };
    let script = (1..=20).map(|n| Step::text(format!("reply {n}")));
    let builder = Agent::builder(ScriptedModel::new(script)).gate(TurnEnd, named("pushy", pushy));
    check(
        builder,
        expect![[r#"
        session.start
        session.end end_turn
        end hook: end_turn
        steps 9, tokens 0, cost None
    "#]],
    )
    .await;
    assert_eq!(diary.lines().len(), 9);
    assert_eq!(diary.lines().last().unwrap(), "8 reply 9");
}
