//! Tests of the points: each fires where its row says, with its payload. Without handlers, a request is
//! unchanged.

use cotter::{
    Agent, AgentBuilder, At, HookCx, Subagent,
    hooks::points::{self, POINTS, Point},
    model::ModelErrorKind,
    permission::{
        Zone,
        rule::{Rule, RuleKind},
    },
};
use cotter_test::{
    Diary, PersonAnswer, RecordingModel, ScriptedModel, ScriptedUi, Step, fresh, probe,
};
use expect_test::expect;
use serde_json::json;

use crate::kit::{echo, every_point};

/// Registers an observer that writes down every event of a point, with its payload.
fn noting<P: Point>(diary: &Diary, builder: AgentBuilder, point: P) -> AgentBuilder {
    let diary = diary.clone();
    let note = move |at: At<P>| {
        let payload = serde_json::to_string::<P::Event>(&at).expect("events are plain data");
        diary.add(format!("{} {payload}", P::ID.name()));
        async {}
    };
    builder.observe(point, note)
}

/// L1: every point fires where its row says, with its payload.
#[tokio::test(start_paused = true)]
async fn l1_every_point_fires_with_its_payload() {
    let (diary, ran) = (Diary::default(), Diary::default());
    let calls = Step::call("risky", json!({"n": 1}))
        .and_call("no", json!({}))
        .and_call("invoke_subagent", json!({"name": "helper", "prompt": "help"}));
    let script =
        [calls, Step::text("done"), Step::text("a summary"), Step::error(ModelErrorKind::Auth)];
    let mut builder = Agent::builder(ScriptedModel::new(script).priced(0.5))
        .ui(ScriptedUi::new([PersonAnswer::Yes]))
        .define_mention(Subagent::new("helper", |_| async { Ok("helped".into()) }))
        .define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await })
        .tool(probe("risky", Zone::External, &ran))
        .tool(probe("no", Zone::Safe, &ran))
        .rule(Rule::parse(RuleKind::Deny, "no").unwrap());
    macro_rules! note {
        ($($point:ident)*) => { $( builder = noting(&diary, builder, points::$point); )* };
    }
    every_point!(note);
    let agent = builder.build().unwrap();
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    let _ = session.prompt("/compact again").await;
    session.close().await;
    let shown = diary.shown();
    let missing = |row: &&points::PointSpec| !shown.contains(&format!("{} ", row.name));
    assert_eq!(
        POINTS.iter().filter(missing).map(|row| row.name).collect::<Vec<_>>(),
        [""; 0],
        "not heard: a point must be in `every_point!` (kit.rs), and the session above must pass it"
    );
    expect![[r#"
        session.open {"how":"created"}
        session.start {"model":"test/scripted"}
        user.prompt.submit {"prompt":"go","rawPrompt":"go"}
        context {}
        model.pre {"model":"test/scripted","messageCount":1,"attempt":1}
        model.post {"model":"test/scripted","stopReason":"tool_use","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":0.5,"toolCallCount":3}
        tool.pre {"callId":"c1.1","toolName":"risky","toolInput":{"n":1},"facts":{"reads":[],"writes":[],"hosts":[],"commands":[],"zone":"external"}}
        tool.pre {"callId":"c1.3","toolName":"invoke_subagent","toolInput":{"name":"helper","prompt":"help"},"facts":{"reads":[],"writes":[],"hosts":[],"commands":[],"zone":"safe"}}
        permission.ask {"id":"r1.1","calls":[{"callId":"c1.1","name":"risky","preview":"risky {\"n\":1}","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}],"offer":["risky"]}]}
        tool.post {"callId":"c1.1","toolName":"risky","toolInput":{"n":1},"facts":{"reads":[],"writes":[],"hosts":[],"commands":[],"zone":"external"},"result":"risky ran","is_error":false,"outcome":"ok","durationMs":0}
        tool.refused {"callId":"c1.2","toolName":"no","toolInput":{},"by":"rule deny no","reason":"the rule `deny no` denies it"}
        subagent.start {"callId":"c1.3","name":"helper","prompt":"help"}
        subagent.end {"callId":"c1.3","name":"helper","status":"success","text":"helped"}
        tool.post {"callId":"c1.3","toolName":"invoke_subagent","toolInput":{"name":"helper","prompt":"help"},"facts":{"reads":[],"writes":[],"hosts":[],"commands":[],"zone":"safe"},"result":"{\"status\":\"success\",\"data\":{\"subagent\":\"helper\",\"content\":\"helped\"}}","is_error":false,"outcome":"ok","durationMs":0}
        context {}
        model.pre {"model":"test/scripted","messageCount":5,"attempt":1}
        model.post {"model":"test/scripted","stopReason":"end_turn","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":0.5,"toolCallCount":0}
        turn.end {"text":"done","goneOn":0}
        session.end {"reason":"end_turn"}
        session.start {"model":"test/scripted"}
        context {}
        compact.pre {"trigger":"forced","tokensBefore":55,"firstKeptId":""}
        model.pre {"model":"test/scripted","messageCount":1,"attempt":1}
        model.post {"model":"test/scripted","stopReason":"end_turn","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":0.5,"toolCallCount":0}
        compact.post {"trigger":"forced","tokensBefore":55,"firstKeptId":"","summary":"[Summary of the conversation so far]\n\na summary\n\n[End of the summary; the conversation goes on from here]"}
        user.prompt.submit {"prompt":"again","rawPrompt":"/compact again"}
        context {}
        model.pre {"model":"test/scripted","messageCount":2,"attempt":1}
        error {"code":"auth","message":"the script says so"}
        session.end {"reason":"error"}
        session.close {"runs":2}
    "#]].assert_eq(&shown);
}

/// L10: without registrations nothing is added: the request is system prompt, messages and tools.
#[tokio::test]
async fn l10_request_without_registrations_has_no_additions() {
    let call = Step::call("echo", json!({"text": "a"}));
    let model = RecordingModel::new(ScriptedModel::new([call, Step::text("done")]));
    let agent =
        Agent::builder(model.clone()).system_prompt("be good").tool(echo()).build().unwrap();
    let _ = fresh(&agent).await.prompt("go").await;
    for request in model.requests() {
        assert_eq!((&*request.system, request.notes), ("be good", 0));
        let tools: Vec<_> = request.tools.specs().map(|spec| spec.name.as_str()).collect();
        assert_eq!(tools, ["echo"]);
    }
    expect![[r#"
        user: go
        --
        user: go
        call c1.1: echo {"text":"a"}
        result c1.1: a
    "#]]
    .assert_eq(&model.shown());
}
