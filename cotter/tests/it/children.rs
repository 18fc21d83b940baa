//! Agents that work for a run. They may do no more than the run itself, and the run's ledger and budget
//! cover all their calls. G16, R4, L1, L21, S20, S27.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use cotter::{
    Agent, AgentBuilder, AgentConfig, At, Cx, FnTool, Limits, Subagent, Verdict,
    history::ledger,
    hooks::points::{
        self, SubagentEnd, SubagentEndEvent, SubagentStart, SubagentStartEvent, ToolPre,
        ToolPreEvent,
    },
    invoke::subagent::SubagentCx,
    named,
    permission::{
        Zone,
        facts::Facts,
        mode::Mode,
        rule::{Rule, RuleKind},
    },
};
use cotter_test::{
    Diary, PersonAnswer, RecordingModel, ScriptedModel, ScriptedUi, Step, ending, fresh, probe,
    spec, transcript,
};
use expect_test::{Expect, expect};
use serde_json::json;
use tokio::sync::Notify;

use crate::kit::{files, plain_lines, print_line, to_the_end, used, wait_for_kill};

/// The two ways to start a child: a registered agent, and an agent built in a handler.
const WAYS: [&str; 2] = ["agent", "child"];

fn with_sub(builder: AgentBuilder, way: &str, config: AgentConfig) -> AgentBuilder {
    if way == "agent" {
        return builder.define_mention(Subagent::agent(config));
    }
    builder.define_mention(Subagent::new("sub", move |cx: SubagentCx| {
        let child = cx.child().config(config.clone()).build();
        async move { Ok(child?.process_request(cx.prompt.as_str()).await?.text().into()) }
    }))
}

fn sub_call(prompt: &str) -> Step {
    Step::call("invoke_subagent", json!({"name": "sub", "prompt": prompt}))
}

/// Formats the decisions of a session: the call, its parent call, the verdict and the decider.
fn rows(agent: &Agent, id: &str) -> String {
    let mut text = String::new();
    for line in plain_lines(&**agent.store(), id) {
        let word = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
        if line["type"] == "ledger" {
            let (call, within, run) = (word("callId"), word("parentCallId"), word("runId"));
            let (tool, verdict, by) = (word("tool"), word("verdict"), word("by"));
            text += &format!("{run} {call} in {within}: {tool} {verdict} by {by}\n");
        }
    }
    let lines = agent.store().lines(id).unwrap();
    let checked = ledger::verify(id, lines.iter().map(Vec::as_slice));
    assert!(checked.is_ok(), "the chain breaks at line {checked:?}");
    text
}

/// Runs a subagent that calls `write` once under the parent's rules. Checks the rows, the executed calls
/// and the parent's result.
async fn check_refused(
    register: impl Fn(AgentBuilder) -> AgentBuilder,
    config: AgentConfig,
    expected: Expect,
) {
    let mut shown = vec![];
    for way in WAYS {
        let diary = Diary::default();
        let script = [
            sub_call("p"),
            Step::call("write", json!({})),
            Step::text("sub done"),
            Step::text("done"),
        ];
        let builder = register(Agent::builder(ScriptedModel::new(script)).tool(probe(
            "write",
            Zone::Workspace,
            &diary,
        )));
        let agent = with_sub(builder, way, config.clone()).build().unwrap();
        let session = fresh(&agent).await;
        assert_eq!(ending(&session.prompt("go").await), "end_turn");
        assert_eq!(diary.shown(), "", "{way}: it ran");
        shown.push(format!("{}{}", rows(&agent, session.id()), transcript(&session)));
    }
    assert_eq!(shown[0], shown[1], "both ways are the same");
    expected.assert_eq(&shown[0]);
}

/// G16, S20: the parent's gate.
#[tokio::test]
async fn g16_a_subagents_call_is_refused_by_the_parents_gate() {
    let gate = |builder: AgentBuilder| {
        builder.gate(
            ToolPre,
            named("no-write", |call: &ToolPreEvent| match &*call.tool_name {
                "write" => Verdict::block("not today"),
                _ => Verdict::Pass,
            }),
        )
    };
    check_refused(
        gate,
        AgentConfig::new("sub"),
        expect![[r#"
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write block by no-write
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        assistant: done
    "#]],
    )
    .await;
}

/// G16, S20: the parent's floor: a deny rule, mode `plan`.
#[tokio::test]
async fn g16_a_subagents_call_is_refused_by_the_parents_floor() {
    let rule = |builder: AgentBuilder| {
        builder.rule(Rule::parse(RuleKind::Deny, "write").expect("it is a rule"))
    };
    check_refused(
        rule,
        AgentConfig::new("sub"),
        expect![[r#"
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write block by rule deny write
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        assistant: done
    "#]],
    )
    .await;
    let plan = |builder: AgentBuilder| builder.mode(Mode::Plan);
    check_refused(
        plan,
        AgentConfig::new("sub"),
        expect![[r#"
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write block by mode
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        assistant: done
    "#]],
    )
    .await;
}

/// C15: the restrictions in the subagent's own config: a tool, and everything that changes something.
#[tokio::test]
async fn c15_subagent_config_removes_tools_and_sets_mode_plan() {
    let same = |builder: AgentBuilder| builder;
    check_refused(
        same,
        AgentConfig::new("sub").without_tools(["wr*"]),
        expect![[r#"
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write block by scope
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        assistant: done
    "#]],
    )
    .await;
    check_refused(
        same,
        AgentConfig::new("sub").read_only(),
        expect![[r#"
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write block by mode
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        assistant: done
    "#]],
    )
    .await;
    // An invalid glob removes all tools.
    check_refused(
        same,
        AgentConfig::new("sub").without_tools(["["]),
        expect![[r#"
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write block by scope
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        assistant: done
    "#]],
    )
    .await;
}

/// G16, S20: the parent's scope, set on the agent, in its config or for the session. The subagent's own
/// config does not widen the scope.
#[tokio::test]
async fn g16_a_subagents_call_is_refused_by_the_parents_scope() {
    let wide = || AgentConfig::new("sub").with_tools(["*"]);
    let scope = |builder: AgentBuilder| builder.scope(["invoke_*"]);
    check_refused(
        scope,
        wide(),
        expect![[r#"
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write block by scope
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        assistant: done
    "#]],
    )
    .await;
    let config =
        |builder: AgentBuilder| builder.config(|config| config.tools = vec!["invoke_*".into()]);
    check_refused(
        config,
        wide(),
        expect![[r#"
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write block by scope
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        assistant: done
    "#]],
    )
    .await;
    let active = |builder: AgentBuilder| builder.observe(points::SessionStart, limit);
    check_refused(
        active,
        wide(),
        expect![[r#"
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write block by scope
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        assistant: done
    "#]],
    )
    .await;
    let own = AgentConfig::new("sub").with_tools(["other"]);
    check_refused(
        |builder| builder,
        own,
        expect![[r#"
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write block by scope
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        assistant: done
    "#]],
    )
    .await;
}

fn limit(_: &points::SessionStartEvent, cx: &Cx) {
    if cx.agent_id() == "main" {
        cx.controls().set_active_tools(["invoke_subagent"]);
    }
}

/// G16: the child's question goes to the parent's person, and a no is final.
#[tokio::test]
async fn g16_question_of_a_subagent_goes_to_the_parents_person() {
    for way in WAYS {
        let (diary, ui) = (
            Diary::default(),
            ScriptedUi::new([PersonAnswer::Yes, PersonAnswer::No("enough".into())]),
        );
        let script = [
            sub_call("p"),
            Step::call("risky", json!({"n": 1})),
            Step::call("risky", json!({"n": 2})),
            Step::text("sub done"),
            Step::text("done"),
        ];
        let builder = Agent::builder(ScriptedModel::new(script)).ui(ui.clone()).tool(probe(
            "risky",
            Zone::External,
            &diary,
        ));
        let agent = with_sub(builder, way, AgentConfig::new("sub")).build().unwrap();
        let session = fresh(&agent).await;
        assert_eq!(ending(&session.prompt("go").await), "end_turn");
        assert_eq!(diary.shown(), "risky {\"n\":1}\n");
        assert_eq!(ui.questions().len(), 2);
        expect![[r#"
            r1 c1.1 in -: invoke_subagent pass by zone
            r1/1 c2.1 in c1.1: risky pass by zone
            r1/1 c3.1 in c1.1: risky block by test
        "#]]
        .assert_eq(&rows(&agent, session.id()));
    }
}

/// G16, L6: an abort of the parent ends its children at any moment, and the end of each run is recorded.
#[tokio::test]
async fn g16_an_abort_of_the_parent_ends_the_children() {
    for way in WAYS {
        let (started, diary) = (Arc::new(Notify::new()), Diary::default());
        let (begins, ends) = (started.clone(), diary.clone());
        let hang = FnTool::new(spec("hang"), move |_| {
            let begins = begins.clone();
            async move {
                begins.notify_one();
                std::future::pending().await
            }
        });
        let script = [sub_call("one"), Step::call("hang", json!({}))];
        let builder = Agent::builder(ScriptedModel::new(script))
            .tool(hang.with_facts(Facts::zone(Zone::Safe)))
            .observe(SubagentEnd, move |ended: &SubagentEndEvent| {
                ends.add(format!("{} {}: {}", ended.name, ended.status, ended.text));
            });
        let agent = with_sub(builder, way, AgentConfig::new("sub")).build().unwrap();
        let session = fresh(&agent).await;
        let running = tokio::spawn(session.prompt("go"));
        started.notified().await;
        assert!(session.abort());
        assert_eq!(ending(&running.await.unwrap()), "aborted");
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let lines = plain_lines(&**agent.store(), session.id());
        let runs = |kind: &str| {
            let mut runs: Vec<_> = lines
                .iter()
                .filter(|line| line["type"] == kind)
                .map(|line| format!("{} {}", line["runId"], line["reason"]))
                .collect();
            runs.sort();
            runs
        };
        assert_eq!(runs("run.end"), [r#""r1" "aborted""#, r#""r1/1" "aborted""#], "{way}");
        assert_eq!(runs("run.start").len(), 2);
        assert_eq!(diary.lines().len(), 1, "told once: {}", diary.shown());
        rows(&agent, session.id());
        assert!(
            transcript(&session).contains("result c1.1 (cancelled)"),
            "{}",
            transcript(&session)
        );
    }
}

/// L1: `subagent.start` may refuse, and `subagent.end` fires for every end. A refused subagent does not
/// run.
#[tokio::test]
async fn l1_subagent_start_may_refuse_and_subagent_end_always_fires() {
    let diary = Diary::default();
    let (starts, ends) = (diary.clone(), diary.clone());
    let script = ["fine", "no", "burst"].map(sub_call).into_iter().chain([Step::text("done")]);
    let agent = Agent::builder(ScriptedModel::new(script))
        .define_mention(Subagent::new("sub", |cx: SubagentCx| async move {
            assert!(cx.prompt != "burst", "boo");
            Ok(format!("did {}", cx.prompt).into())
        }))
        .gate(
            SubagentStart,
            named("doorman", |event: &SubagentStartEvent| match &*event.prompt {
                "no" => points::Admission::Block("not now".into()),
                _ => points::Admission::Pass,
            }),
        )
        .observe(SubagentStart, move |event: &SubagentStartEvent| {
            starts.add(format!("start {} {} {}", event.call_id, event.name, event.prompt));
        })
        .observe(SubagentEnd, move |event: &SubagentEndEvent| {
            ends.add(format!("end {} {} {}", event.call_id, event.status, event.text));
        })
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("go").await), "end_turn");
    expect![[r#"
        start c1.1 sub fine
        end c1.1 success did fine
        start c3.1 sub burst
        end c3.1 error it panicked: boo
        --
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"fine"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"did fine"}}
        call c2.1: invoke_subagent {"name":"sub","prompt":"no"}
        result c2.1 (denied): {"status":"error","message":"Hook \"doorman\" blocked the action: not now. Adjust your approach; do not retry the exact same call.","data":null}
        call c3.1: invoke_subagent {"name":"sub","prompt":"burst"}
        result c3.1 (failed): {"status":"error","message":"it panicked: boo","data":null}
        assistant: done
    "#]].assert_eq(&format!("{}--\n{}", diary.shown(), transcript(&session)));
}

/// A tool that calls itself through the pipeline as often as it may.
fn deeper(diary: &Diary) -> impl cotter::Tool + use<> {
    let diary = diary.clone();
    FnTool::new(spec("deeper"), move |permit| {
        let diary = diary.clone();
        async move {
            diary.add(format!("in {}", permit.call_id()));
            match permit.cx().controls().run_tool("deeper", json!({})).await {
                Ok(output) => Ok(output),
                Err(error) => Ok(format!("{}: {}", error.kind.as_str(), error.message).into()),
            }
        }
    })
    .with_facts(Facts::zone(Zone::Safe))
}

/// G16: the depth limit of four covers agents that call agents, tools that call tools, and both.
#[tokio::test]
async fn g16_nesting_is_limited_to_depth_four() {
    let diary = Diary::default();
    let script = [Step::call("deeper", json!({})), Step::text("done")];
    let agent = Agent::builder(ScriptedModel::new(script)).tool(deeper(&diary)).build().unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("go").await), "end_turn");
    expect![[r#"
        in c1.1
        in c1.1/1
        in c1.1/1/2
        in c1.1/1/2/3
        in c1.1/1/2/3/4
        r1 c1.1 in -: deeper pass by zone
        r1 c1.1/1 in c1.1: deeper pass by zone
        r1 c1.1/1/2 in c1.1/1: deeper pass by zone
        r1 c1.1/1/2/3 in c1.1/1/2: deeper pass by zone
        r1 c1.1/1/2/3/4 in c1.1/1/2/3: deeper pass by zone
        user: go
        call c1.1: deeper {}
        result c1.1: denied: calls are nested too deep (the limit is 4)
        assistant: done
    "#]]
    .assert_eq(&format!("{}{}{}", diary.shown(), rows(&agent, session.id()), transcript(&session)));
    for way in WAYS {
        let script = (0..9).map(|_| sub_call("again")).chain((0..9).map(|_| Step::text("done")));
        let model = ScriptedModel::new(script);
        let builder =
            Agent::builder(model.clone()).limits(|limits: &mut Limits| limits.max_steps = Some(2));
        let agent = with_sub(builder, way, AgentConfig::new("sub")).build().unwrap();
        let session = fresh(&agent).await;
        let _ = session.prompt("go").await;
        let runs: Vec<_> = plain_lines(&**agent.store(), session.id())
            .iter()
            .filter(|line| line["type"] == "run.start")
            .map(|line| line["runId"].as_str().unwrap_or_default().to_owned())
            .collect();
        let deepest = runs.iter().map(|run| run.matches('/').count()).max();
        assert_eq!(deepest, Some(4), "{way}: {runs:?}");
    }
}

/// A hook that calls a tool is not asked about its own call.
#[tokio::test]
async fn g17_tool_pre_hook_is_not_asked_about_its_own_call() {
    let diary = Diary::default();
    let writes = diary.clone();
    let gate = move |at: At<ToolPre>| {
        let diary = writes.clone();
        async move {
            diary.add(format!("gate {}", at.call_id));
            let done = at.cx().controls().run_tool("look", json!({"by": "gate"})).await;
            diary.add(format!("done {}", done.is_ok()));
            Verdict::Pass
        }
    };
    let script = [Step::call("look", json!({})), Step::text("done")];
    let agent = Agent::builder(ScriptedModel::new(script))
        .tool(probe("look", Zone::Safe, &diary))
        .gate(ToolPre, named("gate", gate))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("go").await), "end_turn");
    expect![[r#"
        gate c1.1
        look {"by":"gate"}
        done true
        look {}
        r1 r1/1 in -: look pass by zone
        r1 c1.1 in -: look pass by zone
    "#]]
    .assert_eq(&format!("{}{}", diary.shown(), rows(&agent, session.id())));
}

/// L21: eight children run at once with a budget for a few requests. At most one request goes over the
/// budget. The usage of a child counts for the parent too.
async fn check_budget(limit: fn(&mut Limits), first: u64, each: u64) -> (String, u64) {
    let mut calls = Step::default();
    for n in 0..8 {
        calls = calls.and_call("invoke_subagent", json!({"name": "sub", "prompt": format!("{n}")}));
    }
    let wait = Duration::from_millis(10);
    let children = (0..40).map(|_| Step::text("sub done").and_usage(used(each)).and_delay(wait));
    let model =
        ScriptedModel::new([calls.and_usage(used(first))].into_iter().chain(children)).priced(1.0);
    let agent = Agent::builder(model.clone())
        .define_mention(Subagent::agent(AgentConfig::new("sub")))
        .limits(limit)
        .build()
        .unwrap();
    let reply = match fresh(&agent).await.prompt("go").await {
        Ok(reply) => reply,
        Err(error) => *error.reply,
    };
    let requests = model.requests() as u64;
    assert_eq!(reply.usage.total(), first + (requests - 1) * each, "what children used is counted");
    assert_eq!(reply.cost_usd, model.requests().try_into().ok().map(|n: u32| f64::from(n)));
    (ending(&Ok(reply)), requests)
}

#[tokio::test(start_paused = true)]
async fn l21_parallel_children_stay_within_the_parents_budget() {
    let tokens = |limits: &mut Limits| limits.max_tokens = Some(350);
    let usd = |limits: &mut Limits| limits.max_budget_usd = Some(3.5);
    assert_eq!(check_budget(tokens, 100, 100).await.1, 4, "the fourth goes over");
    assert_eq!(check_budget(usd, 100, 100).await.1, 4);
    assert_eq!(check_budget(tokens, 0, 400).await.1, 2, "nobody knows what a first one costs");
    let free = check_budget(|_| {}, 100, 100).await;
    assert_eq!(free, ("end_turn".to_owned(), 10));
}

/// A tool that awaits a run of its own session deadlocks, as documented. An abort frees both.
#[tokio::test]
async fn p8_abort_ends_a_tool_that_awaits_its_own_session() {
    let started = Arc::new(Notify::new());
    let begins = started.clone();
    let knot = FnTool::new(spec("knot"), move |permit| {
        let begins = begins.clone();
        async move {
            begins.notify_one();
            let session = permit.cx().controls().session().clone();
            let _ = session.prompt("and I?").await;
            Ok("never".into())
        }
    });
    let model = RecordingModel::new(ScriptedModel::new([
        Step::call("knot", json!({})),
        Step::text("hello"),
    ]));
    let agent =
        Agent::builder(model).tool(knot.with_facts(Facts::zone(Zone::Safe))).build().unwrap();
    let session = fresh(&agent).await;
    let running = tokio::spawn(session.prompt("go"));
    started.notified().await;
    session.abort();
    assert_eq!(ending(&running.await.unwrap()), "aborted");
    let (events, reply) = to_the_end(session.prompt("still there?")).await;
    assert_eq!(ending(&reply), "end_turn", "{events}");
    expect![[r#"
        user: go
        call c1.1: knot {}
        result c1.1 (cancelled): Cancelled while it ran.
        user: still there?
        assistant: hello
    "#]]
    .assert_eq(&transcript(&session));
}

/// The environment variable of the worker of the test below: its folder, and the moment to stop at.
const CRASH: &str = "COTTER_CHILD_CRASH";

fn crash_agent(home: &Path, doom: &'static str) -> AgentBuilder {
    let file = home.join("effects");
    let write = FnTool::new(spec("write"), move |permit| {
        let file = file.clone();
        async move {
            let mut file = OpenOptions::new().create(true).append(true).open(file).expect("a file");
            file.write_all(format!("{}\n", permit.call_id()).as_bytes()).expect("a line");
            if doom == "tool" || doom == "deep" {
                wait_for_kill();
            }
            Ok("written".into())
        }
    });
    let call = |name: &str| Step::call("invoke_subagent", json!({"name": name, "prompt": "p"}));
    let mut steps = vec![call("sub")];
    if doom == "deep" {
        steps.push(call("deep"));
    }
    steps.extend([Step::call("write", json!({})), Step::text("sub done"), Step::text("done")]);
    Agent::builder(ScriptedModel::new(steps))
        .store(files(home))
        .tool(write.with_facts(Facts::zone(Zone::Workspace)))
        .define_mention(Subagent::agent(AgentConfig::new("sub")))
        .define_mention(Subagent::agent(AgentConfig::new("deep")))
        .observe(points::ModelPre, move |_: &points::ModelPreEvent, cx: &Cx| {
            if doom == "model" && cx.agent_id() == "sub" && cx.step() == 2 {
                wait_for_kill();
            }
        })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().expect("a runtime starts").block_on(future)
}

const DOOMS: [&str; 3] = ["tool", "model", "deep"];

/// The worker that the test below starts and kills. Run directly, it finishes its work.
#[test]
fn subagent_worker_of_the_kill_test() {
    let told = env::var(CRASH).unwrap_or_default();
    let told = told.split_once(' ').map(|(doom, home)| (doom.to_owned(), home.to_owned()));
    // A worker that is killed could not remove a folder of its own.
    let folder = told.is_none().then(|| tempfile::tempdir().expect("there is room for a folder"));
    let (home, doom) = match (&told, &folder) {
        (Some((doom, home)), _) => (Path::new(home), *DOOMS.iter().find(|d| **d == *doom).unwrap()),
        (None, Some(folder)) => (folder.path(), ""),
        (None, None) => unreachable!("a worker without a folder of its own was told one"),
    };
    let agent = crash_agent(home, doom).build().expect("it is sound");
    block_on(async {
        let session = fresh(&agent).await;
        if told.is_some() {
            print_line(&format!("session {}", session.id()));
        }
        assert_eq!(ending(&session.prompt("go").await), "end_turn");
    });
    assert_eq!(fs::read_to_string(home.join("effects")).expect("it wrote"), "c2.1\n");
}

/// Starts a worker, kills it when it stops, and returns its session.
fn start_and_kill(home: &Path, doom: &str) -> String {
    let mut child = Command::new(env::current_exe().expect("a test has a binary"))
        .args(["--exact", "children::subagent_worker_of_the_kill_test"])
        .args(["--nocapture", "--test-threads=1"])
        .env(CRASH, format!("{doom} {}", home.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test binary starts");
    let out = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut session = None;
    for line in out.lines().map_while(Result::ok) {
        if let Some(id) = line.strip_prefix("session ") {
            session = Some(id.to_owned());
        }
        if line == "now" {
            break;
        }
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it is gone");
    session.expect("it named its session")
}

/// S26, G16: the process is killed while a subagent works. After reopening, every call has its result,
/// every nested run has its end, and nothing ran twice.
#[test]
fn s26_g16_session_continues_after_a_kill_during_a_subagent() {
    let mut shown = String::new();
    for doom in DOOMS {
        let home = tempfile::tempdir().expect("there is room for a folder");
        let id = start_and_kill(home.path(), doom);
        let agent = Agent::builder(ScriptedModel::new([Step::text("I see.")]))
            .store(files(home.path()))
            .build();
        let agent = agent.expect("it is sound");
        block_on(async {
            let session = agent.session(&id).await.expect("it opens");
            shown += &format!("# {doom}\n{}", transcript(&session));
            assert_eq!(ending(&session.prompt("go on").await), "end_turn");
        });
        shown += &rows(&agent, &id);
        for line in plain_lines(&**agent.store(), &id) {
            let kind = line["type"].as_str().unwrap_or_default();
            if kind.starts_with("run.") || kind == "outcome" {
                let word = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
                let of = [word("runId"), word("callId"), word("reason"), word("outcome")];
                shown += &format!("{kind} {}\n", of.join(" "));
            }
        }
        let effects = fs::read_to_string(home.path().join("effects")).expect("it wrote");
        assert_eq!(effects.lines().count(), 1, "{doom}: {effects}");
    }
    expect![[r##"
        # tool
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1 (unavailable): The outcome is unknown: the process ended while this call ran. It was not run again. Check before you repeat it.
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write pass by zone
        run.start r1 - - -
        run.start r1/1 - - -
        outcome r1/1 c2.1 - unknown
        outcome r1 c1.1 - unknown
        run.end r1/1 - crashed -
        run.end r1 - crashed -
        run.start r2 - - -
        run.end r2 - end_turn -
        # model
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1 (unavailable): The outcome is unknown: the process ended while this call ran. It was not run again. Check before you repeat it.
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: write pass by zone
        run.start r1 - - -
        run.start r1/1 - - -
        outcome r1/1 c2.1 - ok
        outcome r1 c1.1 - unknown
        run.end r1/1 - crashed -
        run.end r1 - crashed -
        run.start r2 - - -
        run.end r2 - end_turn -
        # deep
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1 (unavailable): The outcome is unknown: the process ended while this call ran. It was not run again. Check before you repeat it.
        r1 c1.1 in -: invoke_subagent pass by zone
        r1/1 c2.1 in c1.1: invoke_subagent pass by zone
        r1/1/1 c3.1 in c2.1: write pass by zone
        run.start r1 - - -
        run.start r1/1 - - -
        run.start r1/1/1 - - -
        outcome r1/1/1 c3.1 - unknown
        outcome r1/1 c2.1 - unknown
        outcome r1 c1.1 - unknown
        run.end r1/1/1 - crashed -
        run.end r1/1 - crashed -
        run.end r1 - crashed -
        run.start r2 - - -
        run.end r2 - end_turn -
    "##]].assert_eq(&shown);
}
