//! Every kind of handler has the same state and the same utilities. P8, P11.

use std::{path::Path, sync::Arc, time::Duration};

use cotter::{
    Agent, AgentBuilder, At, Command, Controls, Cx, FnTool, Limits, ToolOutput, ToolSpec, Verdict,
    Workspace,
    agent::{
        controls::{Completion, ModelScope, SendTime},
        exec::ExecOptions,
        session::TaskAllowance,
    },
    history::message::Usage,
    hooks::{
        points::{self, ToolPre, TurnEndVerdict},
        ui::{Question, QuestionAnswer, Ui, UiFuture},
    },
    invoke::command::CommandCx,
    model::Thinking,
    named,
    permission::{
        Zone,
        facts::Facts,
        rule::{Rule, RuleKind},
    },
};
use cotter_test::{
    Diary, RecordingModel, ScriptedModel, Step, ending, fresh, probe, shown_event, spec, transcript,
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::kit::{everywhere, to_the_end, used};

/// The prompts and replies that reach every handler of [`everywhere`], once each.
const PROMPTS: [&str; 2] = ["/cmd", "go /dir /skill"];

fn calls_all() -> [Step; 2] {
    let sub = json!({"name": "sub", "prompt": "p"});
    [Step::call("tool", json!({})).and_call("invoke_subagent", sub), Step::text("done")]
}

/// P8: session state and context are equal for all handlers.
#[tokio::test]
async fn p8_every_handler_sees_the_same_state() {
    let diary = Diary::default();
    let writes = diary.clone();
    let act = move |who: &'static str, controls: Controls| {
        let (cx, counts) = (controls.cx().clone(), controls.counts());
        let tools: Vec<_> = controls.tools().specs().map(|spec| spec.name.to_string()).collect();
        writes.add(format!(
            "{who}: run {:?} step {} of {} in {}, {} {:?}, {} entries {} messages, {}, {:?}, ui {}",
            cx.run_id(),
            cx.step(),
            cx.agent_id(),
            cx.workspace().cwd().display(),
            controls.model().name(),
            controls.thinking_level(),
            counts.entries,
            counts.messages,
            tools.join(" "),
            controls.system_prompt(),
            cx.has_ui(),
        ));
        assert_eq!(controls.entries().len(), counts.entries);
        assert_eq!(controls.messages().len(), counts.messages);
        assert_eq!(controls.session().id(), cx.session_id());
        async {}
    };
    let builder = Agent::builder(ScriptedModel::new(calls_all()))
        .system_prompt("Be brief.")
        .workspace(Workspace::new(Path::new("/somewhere")));
    let agent = builder.extend(everywhere(act)).build().unwrap();
    let session = fresh(&agent).await;
    for prompt in PROMPTS {
        assert_eq!(ending(&session.prompt(prompt).await), "end_turn");
    }
    expect![[r#"
        command: run "" step 0 of main in /somewhere, test/scripted Off, 0 entries 0 messages, tool invoke_skill invoke_subagent, "Be brief.\n\n<resources>\nskills: skill\n</resources>", ui false
        directive: run "r1" step 0 of main in /somewhere, test/scripted Off, 0 entries 0 messages, tool invoke_skill invoke_subagent, "Be brief.\n\n<resources>\nskills: skill\n</resources>", ui false
        skill: run "r1" step 0 of main in /somewhere, test/scripted Off, 0 entries 0 messages, tool invoke_skill invoke_subagent, "Be brief.\n\n<resources>\nskills: skill\n</resources>", ui false
        point: run "r1" step 1 of main in /somewhere, test/scripted Off, 3 entries 3 messages, tool invoke_skill invoke_subagent, "Be brief.\n\n<resources>\nskills: skill\n</resources>", ui false
        tool: run "r1" step 1 of main in /somewhere, test/scripted Off, 3 entries 3 messages, tool invoke_skill invoke_subagent, "Be brief.\n\n<resources>\nskills: skill\n</resources>", ui false
        subagent: run "r1" step 1 of main in /somewhere, test/scripted Off, 4 entries 4 messages, tool invoke_skill invoke_subagent, "Be brief.\n\n<resources>\nskills: skill\n</resources>", ui false
    "#]].assert_eq(&diary.shown());
}

/// P8: every handler may set model and thinking level; the next request uses them.
#[tokio::test]
async fn p8_every_handler_sets_model_and_thinking() {
    let mut shown = String::new();
    for by in ["command", "directive", "skill", "point", "tool", "subagent"] {
        let other = RecordingModel::new(ScriptedModel::new(calls_all()).named("test/other"));
        let used = other.clone();
        let act = move |who: &'static str, controls: Controls| {
            let other = other.clone();
            async move {
                if who == by {
                    controls.set_thinking_level(Thinking::High).unwrap();
                    controls.set_model(other, ModelScope::Turn).unwrap();
                }
            }
        };
        let first = RecordingModel::new(ScriptedModel::new(calls_all()));
        let agent = Agent::builder(first.clone()).extend(everywhere(act)).build().unwrap();
        let session = fresh(&agent).await;
        for prompt in PROMPTS {
            assert_eq!(ending(&session.prompt(prompt).await), "end_turn", "{by}");
        }
        let thinking = |model: &RecordingModel<ScriptedModel>| {
            model.requests().iter().map(|request| request.thinking).collect::<Vec<_>>()
        };
        shown += &format!("{by}: first {:?}, other {:?}\n", thinking(&first), thinking(&used));
        assert_eq!(session.thinking_level(), "high");
    }
    expect![[r#"
        command: first [], other [High, High]
        directive: first [], other [High, High]
        skill: first [], other [High, High]
        point: first [Off], other [High, High]
        tool: first [Off], other [High, High]
        subagent: first [Off], other [High, High]
    "#]]
    .assert_eq(&shown);
}

/// P8: `complete` from every handler: it fires `model.pre` and `model.post`, and is no part of the
/// conversation.
#[tokio::test]
async fn p8_every_handler_may_complete_outside_the_conversation() {
    let diary = Diary::default();
    let (writes, asked) = (
        diary.clone(),
        RecordingModel::new(ScriptedModel::new((0..9).map(|n| {
            let usage = Usage { input_tokens: 10, output_tokens: n, ..Usage::default() };
            Step::text(format!("answer {n}")).and_usage(usage)
        }))),
    );
    let aside = asked.clone();
    let act = move |who: &'static str, controls: Controls| {
        let (diary, aside) = (writes.clone(), aside.clone());
        async move {
            let ask = Completion::new(format!("asks {who}")).with_system("Be wise.");
            let done = controls.complete(ask.with_model(aside).with_max_tokens(7)).await.unwrap();
            diary.add(format!("{who}: {} for {}", done.text, done.usage.total()));
        }
    };
    let (pre, post) = (diary.clone(), diary.clone());
    let builder = Agent::builder(ScriptedModel::new(calls_all()))
        .observe(points::ModelPre, move |event: &points::ModelPreEvent| {
            pre.add(format!("  pre {}", event.message_count));
        })
        .observe(points::ModelPost, move |event: &points::ModelPostEvent| {
            post.add(format!("  post {}", event.output_tokens));
        });
    let agent = builder.extend(everywhere(act)).build().unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt(PROMPTS[0]).await), "end_turn");
    let reply = session.prompt(PROMPTS[1]).await.unwrap();
    expect![[r#"
          pre 1
          post 0
        command: answer 0 for 10
          pre 1
          post 1
        directive: answer 1 for 11
          pre 1
          post 2
        skill: answer 2 for 12
          pre 2
          post 0
          pre 1
          post 3
        point: answer 3 for 13
          pre 1
          post 4
        tool: answer 4 for 14
          pre 1
          post 5
        subagent: answer 5 for 15
          pre 5
          post 0
    "#]]
    .assert_eq(&diary.shown());
    let request = &asked.requests()[0];
    assert_eq!((&*request.system, request.max_tokens), ("Be wise.", Some(7)));
    assert_eq!(request.tools.specs().count(), 0);
    assert_eq!(reply.usage.total(), 5 * 10 + 1 + 2 + 3 + 4 + 5, "what hooks asked is the run's");
    assert!(!transcript(&session).contains("answer"), "{}", transcript(&session));
}

/// A `bash` that runs nothing and returns its command.
fn fake_bash(data: Option<Value>) -> impl cotter::Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "cwd": {"type": "string"},
            "timeout_ms": {"type": "integer"}
        },
        "required": ["command"],
        "additionalProperties": false
    });
    let bash = FnTool::new(ToolSpec::new("bash", "for a test", schema), move |permit| {
        let mut data = data.clone();
        if let Some(data) = &mut data {
            data["stdout"] = permit.input().to_string().into();
        }
        async move { Ok(ToolOutput { content: "said".into(), render_data: data }) }
    });
    bash.with_facts(Facts::zone(Zone::Safe))
}

/// Checks the result of each program, run by a tool of an agent.
async fn check_exec(
    build: impl FnOnce(AgentBuilder) -> AgentBuilder,
    programs: impl IntoIterator<Item = (&'static str, Vec<&'static str>, ExecOptions)>,
    expected: Expect,
) {
    let diary = Diary::default();
    let (writes, programs) = (diary.clone(), programs.into_iter().collect::<Vec<_>>());
    let tool = FnTool::new(spec("tool"), move |permit| {
        let (diary, programs) = (writes.clone(), programs.clone());
        async move {
            for (program, args, options) in programs {
                let done = permit.cx().controls().exec(program, args, options).await;
                diary.add(match done {
                    Ok(done) => format!("{done:?}"),
                    Err(error) => format!("{}: {}", error.kind.as_str(), error.message),
                });
            }
            Ok("tool ran".into())
        }
    });
    let model = ScriptedModel::new([Step::call("tool", json!({})), Step::text("done")]);
    let builder = Agent::builder(model).tool(tool.with_facts(Facts::zone(Zone::Safe)));
    let agent = build(builder).build().unwrap();
    assert_eq!(ending(&fresh(&agent).await.prompt("go").await), "end_turn");
    expected.assert_eq(&diary.shown());
}

fn failed_output() -> Value {
    json!({"stdout": "", "stderr": "oh", "exitCode": 3, "killed": false})
}

/// P8: each argument is one word, whatever it contains, and a program that fails is no error.
#[tokio::test]
async fn p8_exec_runs_a_program_through_bash() {
    let plain = ExecOptions::default;
    let programs = [
        ("git", vec!["log", "-n", "3", "--format=%h"], plain()),
        ("echo", vec!["a b", "", "$(rm x)", "it's", "*", "a;b", "x\ny", "~", "\u{e9}"], plain()),
        ("if", vec!["then"], plain()),
        ("A=b", vec!["c"], plain()),
        (
            "./run.sh",
            vec![],
            plain().with_cwd("/some where").with_timeout(Duration::from_micros(1500)),
        ),
        ("true", vec!["a\0b"], plain()),
        ("", vec![], plain()),
    ];
    check_exec(|agent| agent.tool(fake_bash(Some(failed_output()))), programs, expect![[r#"
        ExecResult { stdout: "{\"command\":\"git log -n 3 '--format=%h'\"}", stderr: "oh", code: Some(3), killed: false }
        ExecResult { stdout: "{\"command\":\"echo 'a b' '' '$(rm x)' 'it'\\\\''s' '*' 'a;b' 'x\\ny' '~' 'é'\"}", stderr: "oh", code: Some(3), killed: false }
        ExecResult { stdout: "{\"command\":\"'if' then\"}", stderr: "oh", code: Some(3), killed: false }
        ExecResult { stdout: "{\"command\":\"'A=b' c\"}", stderr: "oh", code: Some(3), killed: false }
        ExecResult { stdout: "{\"command\":\"./run.sh\",\"cwd\":\"/some where\",\"timeout_ms\":1}", stderr: "oh", code: Some(3), killed: false }
        invalid_args: the argument "a\0b" contains a zero byte
        invalid_args: the name of the program is empty
    "#]]).await;
}

/// P8: a program is decided like `bash`, by the same gates, and recorded within the call that it is made
/// from.
#[tokio::test]
async fn p8_exec_is_decided_like_bash() {
    let ls = || [("ls", vec![], ExecOptions::default())];
    let refused = |agent: AgentBuilder| {
        agent
            .tool(fake_bash(Some(failed_output())))
            .rule(Rule::parse(RuleKind::Deny, "bash").unwrap())
    };
    check_exec(
        refused,
        ls(),
        expect![[r#"
        denied: Denied: the rule `deny bash` denies it. Do not retry this exact call.
    "#]],
    )
    .await;
    check_exec(
        |agent| agent,
        ls(),
        expect![[r#"
            unavailable: cannot run a program: the tool `bash` is not available
        "#]],
    )
    .await;
    check_exec(
        |agent| agent.tool(fake_bash(Some(failed_output()))).scope(["tool"]),
        ls(),
        expect![[r#"
            unavailable: cannot run a program: the tool `bash` is not available
        "#]],
    )
    .await;
    check_exec(
        |agent| agent.tool(fake_bash(None)),
        ls(),
        expect![[r#"
            failed: the tool `bash` returned no result of the program
        "#]],
    )
    .await;
    let ended = json!({"stdout": "", "stderr": "", "exitCode": null, "killed": true});
    check_exec(
        |agent| agent.tool(fake_bash(Some(ended))),
        ls(),
        expect![[r#"
            ExecResult { stdout: "{\"command\":\"ls\"}", stderr: "", code: None, killed: true }
        "#]],
    )
    .await;
}

/// P8, L21: a reserved amount is available for its task only, and the rest returns to the run.
#[tokio::test]
async fn p8_reserved_budget_is_spent_by_its_task_only() {
    let steps = (0..20).map(|n| {
        let step = if n == 0 { Step::call("tool", json!({})) } else { Step::text("aside") };
        step.and_usage(used(10))
    });
    let model = ScriptedModel::new(steps).priced(1.0);
    let diary = Diary::default();
    let writes = diary.clone();
    let tool = FnTool::new(spec("tool"), move |permit| {
        let diary = writes.clone();
        async move {
            let ask = async |who: &str, controls: &Controls| {
                let done = controls.complete(Completion::new("and you?")).await;
                diary.add(format!("{who}: {}", done.map_or_else(|e| e.message, |done| done.text)));
            };
            let controls = permit.cx().controls();
            let wants = |usd: f64| [TaskAllowance::default().with_max_budget_usd(usd)];
            // Five of six dollars are left: two are reserved, then two of the rest for another task.
            let first = controls.reserve(&wants(2.0)).unwrap().remove(0);
            let paid = controls.with_budget_share(&first);
            let second = controls.reserve(&wants(2.0)).unwrap().remove(0);
            diary.add(controls.reserve(&wants(2.0)).unwrap_err().message);
            ask("the rest", &controls).await;
            ask("the rest", &controls).await;
            ask("first", &paid).await;
            // A reservation within a reservation.
            diary.add(paid.reserve(&wants(1.5)).unwrap_err().message);
            let part = paid.reserve(&wants(1.0)).unwrap().remove(0);
            ask("first", &paid).await;
            ask("part", &paid.with_budget_share(&part)).await;
            ask("part", &paid.with_budget_share(&part)).await;
            drop(part);
            ask("first", &paid).await;
            drop(first);
            drop(second);
            ask("what came back", &controls).await;
            ask("what came back", &controls).await;
            ask("what came back", &controls).await;
            Ok("tool ran".into())
        }
    });
    let agent = Agent::builder(model.clone())
        .tool(tool.with_facts(Facts::zone(Zone::Safe)))
        .limits(|limits: &mut Limits| limits.max_budget_usd = Some(6.0))
        .build()
        .unwrap();
    let reply = fresh(&agent).await.prompt("go").await;
    expect![[r#"
        the tasks need 2.0000 USD, but only 1.0000 USD are left
        the rest: aside
        the rest: the run cost 2.0000 USD of 6.0000, and 4.0000 USD are reserved
        first: aside
        the tasks need 1.5000 USD, but only 1.0000 USD are left
        first: the task cost 1.0000 USD of 2.0000, and 1.0000 USD are reserved
        part: aside
        part: the task cost 2.0000 USD of 2.0000
        first: the task cost 2.0000 USD of 2.0000
        what came back: aside
        what came back: aside
        what came back: the run cost 6.0000 USD of 6.0000
        budget_exceeded: budget_exceeded: the run cost 6.0000 USD of 6.0000
    "#]]
    .assert_eq(&format!("{}{}\n", diary.shown(), ending(&reply)));
    assert_eq!(model.requests(), 6, "no more than there was");
}

/// P8, L21: a handler's requests count against the run's budget, and are refused once it is used up.
#[tokio::test]
async fn p8_complete_counts_against_the_budget() {
    let steps = [
        Step::call("tool", json!({})).and_usage(used(10)),
        Step::text("aside").and_usage(used(90)),
        Step::text("never").and_usage(used(10)),
    ];
    let model = ScriptedModel::new(steps);
    let diary = Diary::default();
    let writes = diary.clone();
    let tool = FnTool::new(spec("tool"), move |permit| {
        let diary = writes.clone();
        async move {
            for _ in 0..2 {
                let done = permit.cx().controls().complete(Completion::new("and you?")).await;
                diary.add(format!(
                    "{:?}",
                    done.map(|done| done.text).map_err(|e| (e.code, e.message))
                ));
            }
            Ok("tool ran".into())
        }
    });
    let agent = Agent::builder(model.clone())
        .tool(tool.with_facts(Facts::zone(Zone::Safe)))
        .limits(|limits: &mut Limits| limits.max_tokens = Some(100))
        .build()
        .unwrap();
    let reply = fresh(&agent).await.prompt("go").await;
    expect![[r#"
        Ok("aside")
        Err(("budget_exceeded", "the run used 100 tokens of 100"))
        budget_exceeded: budget_exceeded: the run used 100 tokens of 100
    "#]]
    .assert_eq(&format!("{}{}\n", diary.shown(), ending(&reply)));
    assert_eq!(model.requests(), 2);
}

/// P8: a handler that asks a model just before its run does, under a budget for one request only, does not
/// wait for itself.
#[tokio::test]
async fn p8_complete_within_a_request_does_not_wait_for_that_request() {
    macro_rules! at {
        ($point:ident) => {{
            let script = [Step::call("tool", json!({})), Step::text("said"), Step::text("said")];
            let model = ScriptedModel::new(script.map(|step| step.and_usage(used(60))));
            let ask = |at: At<points::$point>| async move {
                // Sixty of a hundred tokens are spent, and a reply uses sixty.
                if at.cx().controls().counts().usage.total() == 60 {
                    let _ = at.cx().controls().complete(Completion::new("and you?")).await;
                }
            };
            let agent = Agent::builder(model.clone())
                .observe(points::$point, ask)
                .tool(probe("tool", Zone::Safe, &Diary::default()))
                .limits(|limits: &mut Limits| limits.max_tokens = Some(100))
                .build()
                .unwrap();
            let session = fresh(&agent).await;
            let run = tokio::time::timeout(Duration::from_secs(5), session.prompt("go"));
            let reply = run.await.expect(concat!(stringify!($point), " waits for itself"));
            format!("{}: {}, {} requests\n", stringify!($point), ending(&reply), model.requests())
        }};
    }
    let shown = [at!(Context), at!(ModelPre), at!(ModelPost), at!(ToolPre), at!(ToolPost)];
    expect![[r#"
        Context: budget_exceeded: budget_exceeded: the run used 120 tokens of 100, 2 requests
        ModelPre: budget_exceeded: budget_exceeded: the run used 120 tokens of 100, 2 requests
        ModelPost: budget_exceeded: budget_exceeded: the run used 120 tokens of 100, 2 requests
        ToolPre: budget_exceeded: budget_exceeded: the run used 120 tokens of 100, 2 requests
        ToolPost: budget_exceeded: budget_exceeded: the run used 120 tokens of 100, 2 requests
    "#]]
    .assert_eq(&shown.concat());
}

/// P8: a handler whose request fires its own point is nested only to a limited depth.
#[tokio::test]
async fn p8_handler_that_fires_its_own_point_ends_at_the_depth_limit() {
    let diary = Diary::default();
    let (pre, ctx, cmp) = (diary.clone(), diary.clone(), diary.clone());
    let agent = Agent::builder(ScriptedModel::new((0..50).map(|_| Step::text("said"))))
        .observe(points::ModelPre, move |at: At<points::ModelPre>| {
            let diary = pre.clone();
            async move {
                if let Err(error) = at.cx().controls().complete(Completion::new("and you?")).await {
                    diary.add(format!("model.pre: {}: {error}", error.code));
                }
            }
        })
        .observe(points::CompactPre, move |at: At<points::CompactPre>| {
            let diary = cmp.clone();
            async move {
                if let Err(error) = at.cx().controls().force_compaction().await {
                    diary.add(format!("compact.pre: {}: {error}", error.code));
                }
            }
        })
        .observe(points::Context, move |at: At<points::Context>| {
            let diary = ctx.clone();
            async move {
                if let Err(error) = at.cx().controls().rebuild_context().await {
                    diary.add(format!("context: {}: {error}", error.code));
                }
            }
        })
        .define_command(Command::new("compact", |cx: CommandCx| async move {
            cx.controls.force_compaction().await
        }))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("go").await), "end_turn");
    diary.add("--");
    let compacted = ending(&session.prompt("/compact").await);
    let mut lines = diary.lines();
    lines.dedup();
    expect![[r#"
        context: context: cannot rebuild the context while it is being built
        model.pre: nested: hooks are nested too deep (the limit is 4)
        --
        context: context: cannot rebuild the context while it is being built
        context: nested: hooks are nested too deep (the limit is 4)
        compact.pre: nested: hooks are nested too deep (the limit is 4)
        model.pre: nested: hooks are nested too deep (the limit is 4)
        end_turn
    "#]]
    .assert_eq(&format!("{}\n{compacted}\n", lines.join("\n")));
}

/// P8: the handler's clock stops while it waits for a model; an abort ends both.
#[tokio::test(start_paused = true)]
async fn p8_time_limit_pauses_during_a_question_and_an_abort_ends_it() {
    for (delay, expected) in [(600, "end_turn"), (100_000, "aborted")] {
        let slow = ScriptedModel::new([Step::text("yes").and_delay(Duration::from_secs(delay))]);
        let diary = Diary::default();
        let gate = move |at: At<ToolPre>| {
            let slow = slow.clone();
            async move {
                let ask = Completion::new("may it?").with_model(slow);
                match at.cx().controls().complete(ask).await {
                    Ok(done) if done.text == "yes" => Ok(Verdict::Pass),
                    Ok(done) => Ok(Verdict::block(done.text)),
                    Err(error) => Err(error),
                }
            }
        };
        let script = [Step::call("write", json!({})), Step::text("done")];
        let agent = Agent::builder(ScriptedModel::new(script))
            .tool(probe("write", Zone::Workspace, &diary))
            .gate(ToolPre, named("judge", gate))
            .build()
            .unwrap();
        let session = fresh(&agent).await;
        let run = session.prompt("go");
        let cancel = run.cancel_token();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(50_000)).await;
            cancel.cancel();
        });
        assert_eq!(ending(&run.await), expected);
        assert_eq!(diary.lines().len(), usize::from(expected == "end_turn"));
    }
}

/// A person who answers everything.
struct Here(Diary);

impl Ui for Here {
    fn present(&self) -> bool {
        true
    }

    fn ask(&self, _: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        Box::pin(async { None })
    }

    fn confirm(&self, text: &str) -> UiFuture<'_, bool> {
        self.0.add(format!("confirm {text}"));
        Box::pin(async { true })
    }

    fn select<'a>(&'a self, title: &'a str, options: &'a [String]) -> UiFuture<'a, Option<usize>> {
        self.0.add(format!("select {title} of {}", options.len()));
        // An index beyond the options is no choice.
        Box::pin(async move { Some(options.len() - usize::from(title == "in range")) })
    }

    fn input<'a>(&'a self, title: &'a str) -> UiFuture<'a, Option<String>> {
        self.0.add(format!("input {title}"));
        Box::pin(async { Some("typed".into()) })
    }

    fn notify(&self, text: &str) {
        self.0.add(format!("notify {text}"));
    }
}

async fn ask_all(cx: &Cx) -> String {
    let options = ["a".to_owned(), "b".to_owned()];
    cx.notify("hello");
    format!(
        "ui {}, confirm {}, select {:?} {:?}, input {:?}",
        cx.has_ui(),
        cx.confirm("sure?").await,
        cx.select("in range", &options).await,
        cx.select("beyond", &options).await,
        cx.input("name?").await
    )
}

/// P11: without a person there is no ui, no choice, no text, and the answer is no; a message is an event.
/// With a person, every handler can ask.
#[tokio::test]
async fn p11_p8_every_handler_reaches_the_person_or_gets_no_answer() {
    for there in [false, true] {
        let (diary, person) = (Diary::default(), Diary::default());
        let writes = diary.clone();
        let act = move |who: &'static str, controls: Controls| {
            let diary = writes.clone();
            async move { diary.add(format!("{who}: {}", ask_all(controls.cx()).await)) }
        };
        let mut builder = Agent::builder(ScriptedModel::new(calls_all()));
        if there {
            builder = builder.ui(Here(person.clone()));
        }
        let agent = builder.extend(everywhere(act)).build().unwrap();
        let session = fresh(&agent).await;
        let mut listening = session.events();
        assert_eq!(ending(&session.prompt(PROMPTS[0]).await), "end_turn");
        let (events, reply) = to_the_end(session.prompt(PROMPTS[1])).await;
        assert_eq!(ending(&reply), "end_turn");
        let told = events.lines().filter(|line| line.starts_with("ui.request")).count();
        assert_eq!(told, 5, "{events}");
        let first = listening.next().await;
        assert_eq!(shown_event(&first), "session.open");
        assert!(shown_event(&*listening.next().await).starts_with("ui.request"), "commands too");
        match there {
            false => expect![[r#"
                command: ui false, confirm false, select None None, input None
                directive: ui false, confirm false, select None None, input None
                skill: ui false, confirm false, select None None, input None
                point: ui false, confirm false, select None None, input None
                tool: ui false, confirm false, select None None, input None
                subagent: ui false, confirm false, select None None, input None
            "#]]
            .assert_eq(&diary.shown()),
            true => expect![[r#"
                command: ui true, confirm true, select Some(1) None, input Some("typed")
                directive: ui true, confirm true, select Some(1) None, input Some("typed")
                skill: ui true, confirm true, select Some(1) None, input Some("typed")
                point: ui true, confirm true, select Some(1) None, input Some("typed")
                tool: ui true, confirm true, select Some(1) None, input Some("typed")
                subagent: ui true, confirm true, select Some(1) None, input Some("typed")
            "#]]
            .assert_eq(&diary.shown()),
        }
        assert_eq!(person.lines().len(), if there { 5 * 6 } else { 0 });
    }
}

/// P8, G17: a text that a `turn.end` hook sends to the model is not lost.
#[tokio::test]
async fn p8_a_text_sent_as_the_run_ends_reaches_the_model() {
    for when in [SendTime::Steer, SendTime::FollowUp] {
        let model = RecordingModel::new(ScriptedModel::new([Step::text("one"), Step::text("two")]));
        let send = move |ending: &points::TurnEndEvent, cx: &Cx| {
            if ending.text == "one" {
                cx.controls().send("and then?", when);
            }
            TurnEndVerdict::Stop
        };
        let agent = Agent::builder(model.clone()).gate(points::TurnEnd, send).build().unwrap();
        let session = fresh(&agent).await;
        assert_eq!(ending(&session.prompt("go").await), "end_turn");
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        session.idle().await;
        expect![[r#"
            user: go
            assistant: one
            user: and then?
            assistant: two
        "#]]
        .assert_eq(&transcript(&session));
    }
}
