//! Dry runs of hooks: a point is fired at the loaded hooks, and nothing else happens.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use cotter::{
    Agent, AgentBuilder, At, Cx, FnTool, Permit, Tool, ToolOutput, ToolSpec, Verdict, Workspace,
    hooks::{
        external::{ExternalHook, ExternalHookSpec, HookAnswer, HookFuture, HookRequest},
        points::{
            Context, ContextEvent, ModelPre, ModelPreEvent, POINTS, PointId, ToolPost,
            ToolPostEvent, ToolPre, ToolPreChange, ToolPreEvent, UserPromptSubmit,
            UserPromptSubmitEvent,
        },
    },
    named,
    permission::facts::Facts,
    pipeline::dry_run::{DryRun, DryRunReport},
    tool::ToolFuture,
};
use cotter_test::{ScriptedModel, Step};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

/// A tool with known facts.
struct Send(ToolSpec);

impl Tool for Send {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effects(&self, input: &Value, _: &Workspace) -> Facts {
        Facts::reads([format!("/{}", input["to"].as_str().unwrap_or("nowhere")).into()])
    }

    fn run(&self, _: Permit) -> ToolFuture<'_> {
        Box::pin(async { Ok(ToolOutput::from("sent")) })
    }
}

fn builder() -> AgentBuilder {
    let spec = ToolSpec::new("send", "Sends.", json!({"type": "object"}));
    Agent::builder(ScriptedModel::new([Step::text("Done.")])).tool(Send(spec))
}

fn send(to: &str) -> DryRun {
    DryRun::at(PointId::ToolPre).with_call("send", json!({"to": to}))
}

fn shown(tried: &DryRunReport) -> String {
    let DryRunReport { verdict, reason, decided_by, input, text, notes, notices, hooks, .. } =
        tried;
    let mut out = format!("{verdict} {reason:?} by {decided_by:?}, {input}, {text:?}\n");
    notes.iter().for_each(|note| out += &format!("note {}: {}\n", note.owner, note.text));
    notices.iter().for_each(|words| out += &format!("notice: {words}\n"));
    for hook in hooks {
        let matched = if hook.matched { "" } else { ", did not match" };
        let reason = hook.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let power = hook.power.as_str();
        out +=
            &format!("{} ({}) {power} {}{matched}{reason}\n", hook.name, hook.origin, hook.verdict);
    }
    out
}

async fn check(agent: &Agent, trial: DryRun, expected: Expect) {
    expected.assert_eq(&shown(&agent.try_hooks(trial).await));
}

#[tokio::test]
async fn c2_dry_run_gates_see_the_rewritten_input_and_its_facts() {
    let moved = |_: &ToolPreEvent| ToolPreChange::Input(json!({"to": "etc"}));
    let gate = |call: &ToolPreEvent| Verdict::ask(format!("it reads {:?}", call.facts.reads));
    let other = named("other", |_: &ToolPreEvent| Verdict::Pass).tools(["x*"]);
    let agent = builder()
        .transform(ToolPre, named("moved", moved))
        .gate(ToolPre, named("gate", gate))
        .gate(ToolPre, other)
        .build()
        .unwrap();
    check(
        &agent,
        send("tmp"),
        expect![[r#"
        ask "it reads [\"/etc\"]" by "gate", {"to":"etc"}, None
        moved (embedder) transform replace
        gate (embedder) gate ask: it reads ["/etc"]
        other (embedder) gate pass, did not match
    "#]],
    )
    .await;
    let unknown = DryRun::at(PointId::ToolPre).with_call("xyz", json!({}));
    check(
        &agent,
        unknown,
        expect![[r#"
        ask "it reads []" by "gate", {"to":"etc"}, None
        moved (embedder) transform replace
        gate (embedder) gate ask: it reads []
        other (embedder) gate pass
    "#]],
    )
    .await;
}

#[tokio::test]
async fn dry_run_ends_at_a_transform_that_answers() {
    let cached = |_: &ToolPreEvent| ToolPreChange::Answer(ToolOutput::from("from the cache"));
    let gate = |_: &ToolPreEvent| Verdict::Pass;
    let agent = builder()
        .transform(ToolPre, named("cached", cached))
        .gate(ToolPre, named("gate", gate))
        .build()
        .unwrap();
    check(
        &agent,
        send("tmp"),
        expect![[r#"
        answer "" by "cached", {"to":"tmp"}, Some("from the cache")
        cached (embedder) transform answer
        gate (embedder) gate not reached
    "#]],
    )
    .await;
}

/// A hook may use tools and agents in a run; in a dry run nothing runs.
#[tokio::test]
async fn dry_run_hooks_cannot_run_tools_or_agents() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let spec = ToolSpec::new("count", "Counts.", json!({"type": "object"}));
    let tool = FnTool::new(spec, move |_: Permit| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(ToolOutput::from("counted")) }
    });
    let busy = async |call: At<ToolPre>| {
        let cx = call.cx();
        let ran = cx.controls().run_tool("count", json!({})).await;
        let child = cx.child().build();
        let told = format!(
            "dry: {}; {}; {}",
            cx.is_dry_run(),
            ran.unwrap_err(),
            child.err().map(|error| error.to_string()).unwrap_or_default()
        );
        cx.notify("I was busy.");
        Verdict::block(told)
    };
    let agent = builder().tool(tool).gate(ToolPre, named("busy", busy)).build().unwrap();
    check(&agent, send("tmp"), expect![[r#"
        block "dry: true; cannot run a tool in a dry run; cannot build a child agent in a dry run" by "busy", {"to":"tmp"}, None
        notice: I was busy.
        busy (embedder) gate block: dry: true; cannot run a tool in a dry run; cannot build a child agent in a dry run
    "#]]).await;
    assert_eq!(sent.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn dry_run_awaits_detached_hooks_and_reports_failures() {
    let alone = async |ran: At<ToolPost>| {
        tokio::task::yield_now().await;
        ran.cx().note(format!("it said {}", ran.result));
    };
    let broken = |_: &ToolPostEvent| -> () { panic!("ouch") };
    let agent = builder()
        .observe(ToolPost, named("alone", alone).detached())
        .observe(ToolPost, named("broken", broken))
        .build()
        .unwrap();
    let trial = DryRun::at(PointId::ToolPost).with_call("send", json!({})).with_result("sent");
    check(
        &agent,
        trial,
        expect![[r#"
        pass "" by "", {}, Some("sent")
        note alone: From hook "alone": it said sent
        alone (embedder) observe seen
        broken (embedder) observe panicked: it panicked: ouch
    "#]],
    )
    .await;
}

/// Every point can be tried; a point without gates passes.
#[tokio::test]
async fn dry_run_works_at_every_point() {
    let heard = |_: &ModelPreEvent, cx: &Cx| cx.note("heard");
    let seen =
        |prompt: &UserPromptSubmitEvent, cx: &Cx| cx.note(format!("typed: {}", prompt.prompt));
    let built =
        |build: &ContextEvent, cx: &Cx| cx.note(format!("{} messages", build.messages.len()));
    let agent = builder()
        .observe(ModelPre, named("heard", heard))
        .observe(UserPromptSubmit, named("seen", seen))
        .observe(Context, named("built", built))
        .build()
        .unwrap();
    let mut rows = String::new();
    for row in POINTS {
        let trial = DryRun::at(row.id).with_prompt("hello");
        let tried = agent.try_hooks(trial).await;
        assert_eq!(tried.verdict, "pass", "{}", row.name);
        let notes: Vec<_> = tried.notes.iter().map(|note| note.text.as_str()).collect();
        rows += format!("{} {}", row.name, notes.join("; ")).trim_end();
        rows.push('\n');
    }
    expect![[r#"
        session.open
        session.start
        user.prompt.submit From hook "seen": typed: hello
        context From hook "built": 0 messages
        model.pre From hook "heard": heard
        model.post
        tool.pre
        permission.ask
        tool.post
        tool.refused
        compact.pre
        compact.post
        subagent.start
        subagent.end
        turn.end
        error
        session.end
        session.close
    "#]]
    .assert_eq(&rows);
    let session = agent.new_session().await.unwrap();
    assert_eq!(session.entries().len(), 0);
    session.prompt("go").await.unwrap();
    let texts: Vec<_> =
        session.messages().iter().map(|message| message.text().into_owned()).collect();
    let expected = "typed: go";
    assert!(texts.iter().any(|text| text.contains(expected)), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("hello")), "what was tried is told to nobody");
}

/// An in-process hook adds no record, unless it fails; a failure is recorded at every point.
#[tokio::test]
async fn l9_failed_observer_is_recorded() {
    let fine = |_: &ModelPreEvent| {};
    let broken = |_: &ModelPreEvent| Err::<(), _>(std::io::Error::other("no meter"));
    let agent = builder()
        .observe(ModelPre, named("fine", fine))
        .observe(ModelPre, named("broken", broken))
        .build()
        .unwrap();
    let session = agent.new_session().await.unwrap();
    session.prompt("go").await.unwrap();
    let lines = agent.store().lines(session.id()).unwrap();
    cotter::history::ledger::verify(session.id(), lines.iter().map(Vec::as_slice)).unwrap();
    let rows = lines.iter().map(|line| serde_json::from_slice::<Value>(line).unwrap());
    let rows = rows.filter(|row| row["type"] == "hooks.ran").map(|row| {
        let ran = row["ran"].as_array().unwrap().iter();
        let said = ran.map(|ran| format!("{} {}", ran["verdict"], ran["reason"]));
        format!("{} {}\n", row["point"], said.collect::<Vec<_>>().join(", "))
    });
    expect![[r#"
        "model.pre" "failed" "no meter"
    "#]]
    .assert_eq(&rows.collect::<String>());
}

/// An external hook that answers when the test says so.
struct Slow(Arc<tokio::sync::Notify>);

impl ExternalHook for Slow {
    fn ask(&self, asked: HookRequest) -> HookFuture {
        let answer = self.0.clone();
        Box::pin(async move {
            answer.notified().await;
            asked.cx.remark("  took my time\n");
            Ok(HookAnswer::default())
        })
    }
}

/// A detached hook is recorded when it ends, even after the end of the run.
#[tokio::test]
async fn l9_detached_hook_is_recorded_when_it_ends() {
    let release = Arc::new(tokio::sync::Notify::new());
    let hook = Arc::new(Slow(release.clone()));
    let mut declared = ExternalHookSpec::default();
    (declared.name, declared.detached) = (Some("slow".into()), true);
    let agent = builder()
        .extend(|unit| _ = unit.register_external(PointId::SessionStart, declared, hook))
        .build()
        .unwrap();
    let session = agent.new_session().await.unwrap();
    session.prompt("go").await.unwrap();
    let ran = || {
        let lines = agent.store().lines(session.id()).unwrap();
        let rows = lines.iter().map(|line| serde_json::from_slice::<Value>(line).unwrap());
        rows.filter(|row| row["type"] == "hooks.ran").collect::<Vec<_>>()
    };
    assert_eq!(ran(), [Value::Null; 0]);
    release.notify_one();
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
        if !ran().is_empty() {
            break;
        }
    }
    let rows = ran();
    let row = rows.first().expect("it is stored at once: nobody else will");
    let said = &row["ran"][0];
    let shown = json!([row["runId"], row["point"], said["verdict"], said["stderr"]]);
    expect![[r#"["r1","session.start","seen","took my time"]"#]].assert_eq(&shown.to_string());
}
