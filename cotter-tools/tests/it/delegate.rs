//! `delegate`: several subagents at once, under one policy, one budget and one depth. R11, S21.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cotter::{
    Agent, AgentBuilder, AgentConfig, FnTool, Limits, Permit, Subagent, ToolSpec, Verdict,
    history::message::Usage,
    hooks::points::{Admission, SubagentStart, SubagentStartEvent, ToolPre, ToolPreEvent},
    invoke::subagent::SubagentCx,
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{ScriptedModel, Step, shown_event, transcript};
use cotter_tools::agents::delegate::Delegate;
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

fn echo(name: &'static str) -> Subagent {
    Subagent::new(name, |cx: SubagentCx| async move {
        match cx.prompt.as_str() {
            "fail" => Err("it broke".into()),
            "panic" => panic!("it fell over"),
            prompt => Ok(format!("{} did {prompt}", cx.name).into()),
        }
    })
}

async fn run_delegate(input: Value, build: impl FnOnce(AgentBuilder) -> AgentBuilder) -> String {
    let model = ScriptedModel::new([Step::call("delegate", input), Step::text("done")]);
    let agent = build(Agent::builder(model).hook(Delegate)).build().unwrap();
    agent.process_request("go").await.unwrap();
    transcript(&agent.main_session().await.unwrap())
}

async fn check(tasks: Value, build: impl FnOnce(AgentBuilder) -> AgentBuilder, expected: Expect) {
    expected.assert_eq(&run_delegate(json!({"tasks": tasks}), build).await);
}

#[tokio::test]
async fn r11_delegate_answers_in_task_order_and_continues_after_a_failed_task() {
    let tasks = json!([
        {"agent": "a", "prompt": "one"},
        {"agent": "b", "prompt": "fail"},
        {"agent": "nobody", "prompt": "x"},
        {"agent": "a", "prompt": "panic"},
        {"agent": "b", "prompt": "five"},
    ]);
    let both = |agent: AgentBuilder| agent.define_mention(echo("a")).define_mention(echo("b"));
    check(tasks, both, expect![[r#"
        user: go
        call c1.1: delegate {"tasks":[{"agent":"a","prompt":"one"},{"agent":"b","prompt":"fail"},{"agent":"nobody","prompt":"x"},{"agent":"a","prompt":"panic"},{"agent":"b","prompt":"five"}]}
        result c1.1: {"status":"success","data":[{"task":1,"agent":"a","status":"success","content":"a did one"},{"task":2,"agent":"b","status":"error","message":"it broke"},{"task":3,"agent":"nobody","status":"error","message":"Subagent \"nobody\" is not registered. Use one of: a, b."},{"task":4,"agent":"a","status":"error","message":"it panicked: it fell over"},{"task":5,"agent":"b","status":"success","content":"b did five"}]}
        assistant: done
    "#]]).await;
}

#[tokio::test]
async fn r11_delegate_fails_if_every_task_fails() {
    let tasks = json!([{"prompt": "fail"}, {"prompt": "fail"}]);
    check(tasks, |agent| agent.define_mention(echo("a")), expect![[r#"
        user: go
        call c1.1: delegate {"tasks":[{"prompt":"fail"},{"prompt":"fail"}]}
        result c1.1 (failed): {"status":"error","message":"no task succeeded","data":[{"task":1,"agent":"a","status":"error","message":"it broke"},{"task":2,"agent":"a","status":"error","message":"it broke"}]}
        assistant: done
    "#]]).await;
}

#[tokio::test]
async fn r11_delegate_without_a_name_uses_the_only_subagent_or_general() {
    let tasks = || json!([{"prompt": "one"}]);
    check(tasks(), |agent| agent.define_mention(echo("only")), expect![[r#"
        user: go
        call c1.1: delegate {"tasks":[{"prompt":"one"}]}
        result c1.1: {"status":"success","data":[{"task":1,"agent":"only","status":"success","content":"only did one"}]}
        assistant: done
    "#]]).await;
    let general =
        |agent: AgentBuilder| agent.define_mention(echo("a")).define_mention(echo("general"));
    check(tasks(), general, expect![[r#"
        user: go
        call c1.1: delegate {"tasks":[{"prompt":"one"}]}
        result c1.1: {"status":"success","data":[{"task":1,"agent":"general","status":"success","content":"general did one"}]}
        assistant: done
    "#]]).await;
    let several = |agent: AgentBuilder| agent.define_mention(echo("a")).define_mention(echo("b"));
    check(
        tasks(),
        several,
        expect![[r#"
        user: go
        call c1.1: delegate {"tasks":[{"prompt":"one"}]}
        result c1.1 (invalid_args): task 1 names no agent. Use one of: a, b.
        assistant: done
    "#]],
    )
    .await;
}

/// CT-027, and other invalid task lists.
#[tokio::test]
async fn r11_ct_027_delegate_refuses_invalid_task_lists() {
    let mut shown = String::new();
    let many: Vec<_> = (0..33).map(|_| json!({"prompt": "p"})).collect();
    for tasks in [json!([]), json!([{"prompt": " "}]), json!([{"agent": "a"}]), json!(many)] {
        let all =
            run_delegate(json!({"tasks": tasks}), |agent| agent.define_mention(echo("a"))).await;
        shown += all.lines().find(|line| line.starts_with("result")).unwrap();
        shown += "\n";
    }
    expect![[r#"
        result c1.1 (invalid_args): no tasks provided
        result c1.1 (invalid_args): task 1 has an empty prompt
        result c1.1 (invalid_args): Invalid arguments for `delegate`: /tasks/0: "prompt" is a required property.
        result c1.1 (invalid_args): Invalid arguments for `delegate`: /tasks: [{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"},{"prompt":"p"….
    "#]].assert_eq(&shown);
}

#[tokio::test]
async fn r11_delegate_without_subagents_fails() {
    check(
        json!([{"prompt": "one"}]),
        |agent| agent,
        expect![[r#"
        user: go
        call c1.1: delegate {"tasks":[{"prompt":"one"}]}
        result c1.1 (unavailable): there are no subagents here to give a task to
        assistant: done
    "#]],
    )
    .await;
    // An agent that may not call `invoke_subagent` may not delegate either.
    let scoped = |agent: AgentBuilder| agent.define_mention(echo("a")).scope(["delegate"]);
    check(
        json!([{"prompt": "one"}]),
        scoped,
        expect![[r#"
        user: go
        call c1.1: delegate {"tasks":[{"prompt":"one"}]}
        result c1.1 (unavailable): there are no subagents here to give a task to
        assistant: done
    "#]],
    )
    .await;
}

/// Eight at once and no more: the first eight wait for each other, and the ninth begins when one is done.
#[tokio::test]
async fn r11_delegate_runs_eight_tasks_at_once() {
    let (together, most) = (Arc::new(Barrier::new(8)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (Arc::new(AtomicUsize::new(0)), most.clone());
    let work = move |_: SubagentCx| {
        let (together, now, peak) = (together.clone(), now.clone(), peak.clone());
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            together.wait().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok("met".into())
        }
    };
    let tasks: Vec<_> = (0..32).map(|n| json!({"prompt": n.to_string()})).collect();
    let shown = run_delegate(json!({"tasks": tasks}), |agent| {
        agent.define_mention(Subagent::new("w", work))
    })
    .await;
    assert_eq!(shown.matches("\"content\":\"met\"").count(), 32);
    assert_eq!(most.load(Ordering::SeqCst), 8);
}

fn probe(zone: Zone) -> impl cotter::Tool {
    let spec = ToolSpec::new("write", "Writes.", json!({"type": "object"}));
    FnTool::new(spec, |_: Permit| async { Ok("written".into()) }).with_facts(Facts::zone(zone))
}

/// An agent that gives two tasks away: one of them to a subagent that may not start, the other to one
/// that may not write.
fn gated() -> Agent {
    let model = ScriptedModel::new([
        Step::call(
            "delegate",
            json!({"tasks": [{"agent": "a", "prompt": "p"}, {"agent": "b", "prompt": "q"}]}),
        ),
        Step::call("write", json!({})),
        Step::text("could not"),
        Step::text("done"),
    ]);
    Agent::builder(model)
        .define_mention(Subagent::agent(AgentConfig::new("a")))
        .define_mention(Subagent::agent(AgentConfig::new("b")))
        .tool(probe(Zone::Workspace))
        .gate(
            ToolPre,
            named("no-write", |call: &ToolPreEvent| match &*call.tool_name {
                "write" => Verdict::block("not today"),
                _ => Verdict::Pass,
            }),
        )
        .gate(
            SubagentStart,
            named("no-b", |started: &SubagentStartEvent| match &*started.name {
                "b" => Admission::Block("b sleeps".into()),
                _ => Admission::Pass,
            }),
        )
        .hook(Delegate)
        .build()
        .unwrap()
}

/// One policy: gates on subagents and on calls hold for those that work on a task; every decision is in
/// the parent's ledger, and every event says which call it belongs to.
#[tokio::test]
async fn r11_gates_and_rules_apply_to_delegated_tasks_and_events_name_their_call() {
    let agent = gated();
    let session = agent.main_session().await.unwrap();
    let mut run = session.prompt("go");
    let mut events = String::new();
    while let Some(event) = run.next().await {
        if event.parent_call_id.is_some() && !event.kind.name().starts_with("hook") {
            let parent = event.parent_call_id.as_deref().unwrap_or_default();
            events += &format!("{} {parent}: {}\n", event.agent_id, shown_event(&event));
        }
    }
    run.reply().await.unwrap();
    expect![[r#"
        main c1.1: tool.call c1.1/1 invoke_subagent {"name":"a","prompt":"p"}
        main c1.1/1: subagent.start
        a c1.1/1: session.start
        a c1.1/1: message user: p
        a c1.1/1: message call c2.1: write {}
        a c1.1/1: model.post
        a c1.1/1: tool.refused c2.1 no-write: not today
        a c1.1/1: message result c2.1 (denied): Hook "no-write" blocked the action: not today. Adjust your approach; do not retry the exact same call.
        a c1.1/1: text.start
        a c1.1/1: text.delta "could "
        a c1.1/1: text.delta "not"
        a c1.1/1: text.end
        a c1.1/1: message assistant: could not
        a c1.1/1: model.post
        a c1.1/1: session.end end_turn
        main c1.1: tool.call c1.1/3 invoke_subagent {"name":"b","prompt":"q"}
        main c1.1: tool.result c1.1/3 (denied) "{\"status\":\"error\",\"message\":\"Hook \\\"no-b\\\" blocked the action: b sleeps. Adjust your approach; do not retry the exact same call.\",\"data\":null}"
        main c1.1/1: subagent.end
        main c1.1: tool.result c1.1/1 "{\"status\":\"success\",\"data\":{\"subagent\":\"a\",\"content\":\"could not\"}}"
        --
        user: go
        call c1.1: delegate {"tasks":[{"agent":"a","prompt":"p"},{"agent":"b","prompt":"q"}]}
        result c1.1: {"status":"success","data":[{"task":1,"agent":"a","status":"success","content":"could not"},{"task":2,"agent":"b","status":"error","message":"Hook \"no-b\" blocked the action: b sleeps. Adjust your approach; do not retry the exact same call."}]}
        assistant: done
    "#]].assert_eq(&format!("{events}--\n{}", transcript(&session)));
    let lines = agent.store().lines(session.id()).unwrap();
    let rows = lines.iter().map(|line| serde_json::from_slice::<Value>(line).unwrap());
    let rows: Vec<_> = rows
        .filter(|row| row["type"] == "ledger")
        .map(|row| format!("{} {} {} by {}", row["callId"], row["tool"], row["verdict"], row["by"]))
        .collect();
    expect![[r#"
        "c1.1" "delegate" "pass" by "zone"
        "c1.1/1" "invoke_subagent" "pass" by "zone"
        "c2.1" "write" "block" by "no-write"
        "c1.1/3" "invoke_subagent" "pass" by "zone""#]]
    .assert_eq(&rows.join("\n"));
}

/// Depth ends where it does for other children.
#[tokio::test]
async fn r11_delegate_depth_is_limited_to_four() {
    let again = || Step::call("delegate", json!({"tasks": [{"prompt": "deeper"}]}));
    let model = ScriptedModel::new([
        again(),
        again(),
        again(),
        Step::text("third says no"),
        Step::text("second"),
        Step::text("first"),
    ]);
    let agent = Agent::builder(model)
        .define_mention(Subagent::agent(AgentConfig::new("a")))
        .hook(Delegate)
        .build()
        .unwrap();
    let session = agent.main_session().await.unwrap();
    let mut run = session.prompt("go");
    let mut results = String::new();
    while let Some(event) = run.next().await {
        if event.kind.name() == "tool.result" {
            results += &format!("{}\n", shown_event(&event));
        }
    }
    run.reply().await.unwrap();
    expect![[r#"
        tool.result c3.1 (failed) "{\"status\":\"error\",\"message\":\"no task succeeded\",\"data\":[{\"task\":1,\"agent\":\"a\",\"status\":\"error\",\"message\":\"calls are nested too deep (the limit is 4)\"}]}"
        tool.result c2.1/1 "{\"status\":\"success\",\"data\":{\"subagent\":\"a\",\"content\":\"third says no\"}}"
        tool.result c2.1 "{\"status\":\"success\",\"data\":[{\"task\":1,\"agent\":\"a\",\"status\":\"success\",\"content\":\"third says no\"}]}"
        tool.result c1.1/1 "{\"status\":\"success\",\"data\":{\"subagent\":\"a\",\"content\":\"second\"}}"
        tool.result c1.1 "{\"status\":\"success\",\"data\":[{\"task\":1,\"agent\":\"a\",\"status\":\"success\",\"content\":\"second\"}]}"
    "#]].assert_eq(&results);
}

/// An abort ends all tasks and drops what they hold.
#[tokio::test]
async fn r11_abort_ends_every_delegated_task() {
    struct Gone(Arc<AtomicUsize>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (gone, started) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counts, begins) = (gone.clone(), started.clone());
    let work = move |_: SubagentCx| {
        let (held, begins) = (Gone(counts.clone()), begins.clone());
        async move {
            begins.notify_one();
            std::future::pending::<()>().await;
            drop(held);
            Ok("never".into())
        }
    };
    let tasks: Vec<_> = (0..3).map(|n| json!({"prompt": n.to_string()})).collect();
    let model = ScriptedModel::new([Step::call("delegate", json!({"tasks": tasks}))]);
    let agent = Agent::builder(model)
        .define_mention(Subagent::new("w", work))
        .hook(Delegate)
        .build()
        .unwrap();
    let session = agent.main_session().await.unwrap();
    let run = session.prompt("go");
    let abort = async {
        started.notified().await;
        session.abort();
    };
    let (reply, ()) = tokio::join!(run, abort);
    assert_eq!(reply.unwrap().reason.as_str(), "aborted");
    assert_eq!(gone.load(Ordering::SeqCst), 3);
    expect![[r#"
        user: go
        call c1.1: delegate {"tasks":[{"prompt":"0"},{"prompt":"1"},{"prompt":"2"}]}
        result c1.1 (cancelled): Cancelled while it ran.
    "#]]
    .assert_eq(&transcript(&session));
}

fn used(tokens: u64) -> Usage {
    Usage { input_tokens: tokens, ..Usage::default() }
}

/// A run that delegates to agents which never stop by themselves: what each came to, how the run ended,
/// and how many requests were made. Every reply costs a dollar and ten tokens.
async fn spend(tasks: Value, limit: fn(&mut Limits)) -> String {
    let again = || Step::call("write", json!({}));
    let steps = [Step::call("delegate", json!({"tasks": tasks}))];
    let steps = steps.into_iter().chain((0..200).map(|_| again()));
    let wait = Duration::from_millis(10);
    let steps = steps.map(|step| step.and_usage(used(10)).and_delay(wait));
    let model = ScriptedModel::new(steps).priced(1.0);
    let agent = Agent::builder(model.clone())
        .define_mention(Subagent::agent(AgentConfig::new("a")))
        .tool(probe(Zone::Safe))
        .hook(Delegate)
        .limits(|limits| {
            limits.max_steps = Some(30);
            limit(limits);
        })
        .build()
        .unwrap();
    let session = agent.main_session().await.unwrap();
    let mut run = session.prompt("go");
    let mut results = String::new();
    while let Some(event) = run.next().await {
        if event.kind.name() == "tool.result" && event.agent_id == "main" {
            results += &format!("{}\n", shown_event(&event));
        }
    }
    let reply = match run.reply().await {
        Ok(reply) => reply,
        Err(error) => *error.reply,
    };
    let (reason, cost) = (reply.reason.as_str(), reply.cost_usd.unwrap());
    let of_main =
        results.lines().filter(|line| line.contains("delegate") || line.contains("c1.1 "));
    let of_main: Vec<_> = of_main.collect();
    format!("{}\n{reason} after {cost} USD, {} requests\n", of_main.join("\n"), model.requests())
}

/// L21: the remaining budget is split into equal shares, one of them for the parent. No task spends more than
/// its share, so all together stay within the budget.
#[tokio::test(start_paused = true)]
async fn l21_delegate_shares_the_remaining_budget_equally() {
    let two = || json!([{"prompt": "p"}, {"prompt": "q"}]);
    let usd = |limits: &mut Limits| limits.max_budget_usd = Some(13.0);
    expect![[r#"
        tool.result c1.1 (failed) "{\"status\":\"error\",\"message\":\"no task succeeded\",\"data\":[{\"task\":1,\"agent\":\"a\",\"status\":\"error\",\"message\":\"the task cost 4.0000 USD of 4.0000\"},{\"task\":2,\"agent\":\"a\",\"status\":\"error\",\"message\":\"the task cost 4.0000 USD of 4.0000\"}]}"
        budget_exceeded after 13 USD, 13 requests
    "#]].assert_eq(&spend(two(), usd).await);
    let tokens = |limits: &mut Limits| limits.max_tokens = Some(130);
    expect![[r#"
        tool.result c1.1 (failed) "{\"status\":\"error\",\"message\":\"no task succeeded\",\"data\":[{\"task\":1,\"agent\":\"a\",\"status\":\"error\",\"message\":\"the task used 40 tokens of 40\"},{\"task\":2,\"agent\":\"a\",\"status\":\"error\",\"message\":\"the task used 40 tokens of 40\"}]}"
        budget_exceeded after 13 USD, 13 requests
    "#]].assert_eq(&spend(two(), tokens).await);
}

#[tokio::test(start_paused = true)]
async fn l21_delegated_task_gets_the_budget_it_names() {
    let named = json!([{"prompt": "p", "max_budget_usd": 2}, {"prompt": "q", "max_turns": 3}]);
    let usd = |limits: &mut Limits| limits.max_budget_usd = Some(13.0);
    expect![[r#"
        tool.result c1.1 (failed) "{\"status\":\"error\",\"message\":\"no task succeeded\",\"data\":[{\"task\":1,\"agent\":\"a\",\"status\":\"error\",\"message\":\"the task cost 2.0000 USD of 2.0000\"},{\"task\":2,\"agent\":\"a\",\"status\":\"error\",\"message\":\"the run reached its limit of 3 steps\"}]}"
        budget_exceeded after 13 USD, 13 requests
    "#]].assert_eq(&spend(named.clone(), usd).await);
    expect![[r#"
        tool.result c1.1 (failed) "{\"status\":\"error\",\"message\":\"no task succeeded\",\"data\":[{\"task\":1,\"agent\":\"a\",\"status\":\"error\",\"message\":\"the task cost 2.0000 USD of 2.0000\"},{\"task\":2,\"agent\":\"a\",\"status\":\"error\",\"message\":\"the run reached its limit of 3 steps\"}]}"
        max_turns after 35 USD, 35 requests
    "#]].assert_eq(&spend(named, |_| {}).await);
}

#[tokio::test(start_paused = true)]
async fn l21_delegate_refuses_budgets_above_the_remaining_sum() {
    let usd = |limits: &mut Limits| limits.max_budget_usd = Some(13.0);
    let greedy =
        json!([{"prompt": "p", "max_budget_usd": 8}, {"prompt": "q", "max_budget_usd": 8}]);
    expect![[r#"
        tool.result c1.1 (unavailable) "the tasks need 16.0000 USD, but only 12.0000 USD are left"
        budget_exceeded after 13 USD, 13 requests
    "#]]
    .assert_eq(&spend(greedy, usd).await);
}
