//! Tests of whole runs of the loop, compared as transcripts.

use cotter::{
    Agent, Cx, FnTool, Permit, ToolSpec, Verdict,
    hooks::points::{ToolPre, ToolPreEvent},
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{PersonAnswer, ScriptedModel, ScriptedUi, Step, transcript};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::kit::echo;

async fn check(agent: Agent, prompts: &[&str], expected: Expect) {
    for prompt in prompts {
        let _ = agent.process_request(*prompt).await;
    }
    expected.assert_eq(&transcript(&agent.main_session().await.expect("a session is made")));
}

#[tokio::test]
async fn a_prompt_gets_a_reply() {
    let agent = Agent::builder(ScriptedModel::new([Step::text("hello there")])).build().unwrap();
    check(
        agent,
        &["hi"],
        expect![[r#"
        user: hi
        assistant: hello there
    "#]],
    )
    .await;
}

#[tokio::test]
async fn call_runs_and_its_result_is_sent_to_the_model() {
    let script = ScriptedModel::new([Step::call("echo", json!({"text":"a"})), Step::text("done")]);
    let agent = Agent::builder(script).tool(echo()).build().unwrap();
    check(
        agent,
        &["go"],
        expect![[r#"
        user: go
        call c1.1: echo {"text":"a"}
        result c1.1: a
        assistant: done
    "#]],
    )
    .await;
}

fn no_a(call: &ToolPreEvent) -> Verdict {
    if call.tool_input["text"] == "a" { Verdict::block("no a here") } else { Verdict::Pass }
}

#[tokio::test]
async fn refusal_reason_of_a_gate_reaches_the_model() {
    let script = ScriptedModel::new([Step::call("echo", json!({"text":"a"})), Step::text("done")]);
    let agent = Agent::builder(script).tool(echo()).gate(ToolPre, no_a).build().unwrap();
    check(agent, &["go"], expect![[r#"
        user: go
        call c1.1: echo {"text":"a"}
        result c1.1 (denied): Hook "no_a" blocked the action: no a here. Adjust your approach; do not retry the exact same call.
        assistant: done
    "#]]).await;
}

#[tokio::test]
async fn note_of_a_tool_names_the_tool() {
    let spec = ToolSpec::new("tide", "knows the tide", json!({"type":"object"}));
    let speaks = FnTool::new(spec, |permit: Permit| async move {
        permit.cx().note("it turns at noon");
        Ok("high".into())
    });
    let script = ScriptedModel::new([Step::call("tide", json!({})), Step::text("done")]);
    let agent = Agent::builder(script).tool(speaks.with_facts(Facts::zone(Zone::Safe)));
    check(
        agent.build().unwrap(),
        &["go"],
        expect![[r#"
        user: go
        call c1.1: tide {}
        result c1.1: high
        note: <system-reminder>
        From the tool "tide": it turns at noon
        </system-reminder>
        assistant: done
    "#]],
    )
    .await;
}

#[tokio::test]
async fn note_of_a_gate_that_is_asked_twice_is_sent_once() {
    let spec = ToolSpec::new("push", "pushes", json!({"type":"object"}));
    let push = FnTool::new(spec, |_| async { Ok("pushed".into()) });
    let warns = |_: &ToolPreEvent, cx: &Cx| {
        cx.note("it is Friday");
        Verdict::Pass
    };
    let script = ScriptedModel::new([Step::call("push", json!({})), Step::text("done")]);
    let agent = Agent::builder(script).tool(push).gate(ToolPre, named("friday", warns));
    check(
        agent.ui(ScriptedUi::new([PersonAnswer::Yes])).build().unwrap(),
        &["go"],
        expect![[r#"
        user: go
        call c1.1: push {}
        result c1.1: pushed
        note: <system-reminder>
        From hook "friday": it is Friday
        </system-reminder>
        assistant: done
    "#]],
    )
    .await;
}

#[tokio::test]
async fn agent_without_a_workspace_reads_no_file() {
    let script = ScriptedModel::new([
        Step::call("read", json!({"path":"/etc/hostname"})),
        Step::text("done"),
    ]);
    let agent = Agent::builder(script).tool(cotter::builtin::Read::default()).build().unwrap();
    check(
        agent,
        &["go"],
        expect![[r#"
            user: go
            call c1.1: read {"path":"/etc/hostname"}
            result c1.1 (denied): Hook "project-roots" blocked the action: /etc/hostname is outside the project. Adjust your approach; do not retry the exact same call.
            assistant: done
        "#]],
    )
    .await;
}
