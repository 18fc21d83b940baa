//! When a run ends by itself: steps, money, tokens, refusal, gates that send the model on.

use cotter::{
    Agent, AgentBuilder,
    message::{StopReason, Usage},
    named,
    points::{self, RunFailed, SessionEnded, TurnEnd, TurnEnding, TurnVerdict},
};
use cotter_test::{Scripted, Step};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::kit::{Diary, echo, fresh, to_the_end};

/// A model that never stops by itself.
fn endless() -> Scripted {
    let usage = Usage { input_tokens: 60, output_tokens: 40, ..Usage::default() };
    let call = || Step::call("echo", json!({"text": "on and on"})).and_usage(usage);
    Scripted::new(std::iter::repeat_with(call).take(50))
}

/// The last events of a run, and what `error` and `session.end` were told.
async fn check(builder: AgentBuilder, expected: Expect) {
    let diary = Diary::default();
    let (failures, ends) = (diary.clone(), diary.clone());
    let failed = move |failed: &RunFailed| failures.add(format!("error hook: {}", failed.code));
    let ended =
        move |ended: &SessionEnded| ends.add(format!("end hook: {}", ended.reason.as_str()));
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
async fn l21_l6_a_run_takes_as_many_steps_as_it_may() {
    let builder = Agent::builder(endless()).limits(|limits| limits.max_steps = Some(3));
    check(
        builder,
        expect![[r#"
            session.start
            error max_turns: the run took as many steps as it may: 3
            session.end max_turns
            error hook: max_turns
            end hook: max_turns
            steps 3, tokens 300, cost None
        "#]],
    )
    .await;
}

#[tokio::test]
async fn l21_a_run_stops_when_its_money_is_spent() {
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
async fn l21_a_price_nobody_knows_ends_a_run_that_has_a_budget() {
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

#[tokio::test]
async fn l21_a_run_stops_when_its_tokens_are_used_up() {
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
async fn l6_a_refusal_is_an_end_of_its_own() {
    let refusal = Step::text("I will not").and_stop(StopReason::Refusal);
    check(
        Agent::builder(Scripted::new([refusal])),
        expect![[r#"
        session.start
        session.end refusal
        end hook: refusal
        steps 1, tokens 0, cost None
    "#]],
    )
    .await;
}

/// A gate at `turn.end` may send the model on, eight times in a row.
#[tokio::test]
async fn a_gate_sends_the_model_on_at_most_eight_times() {
    let diary = Diary::default();
    let pushy = {
        let diary = diary.clone();
        move |ending: &TurnEnding| {
            diary.add(format!("{} {}", ending.gone_on, ending.text));
            TurnVerdict::GoOn("there is more".into())
        }
    };
    let script = (1..=20).map(|n| Step::text(format!("reply {n}")));
    let builder = Agent::builder(Scripted::new(script)).on(TurnEnd, named("pushy", pushy));
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
