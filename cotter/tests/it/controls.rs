//! `Controls`: each action that a handler can take beyond its answer, and its effect.

use std::{
    future::Future,
    sync::{Arc, Mutex},
};

use cotter::{
    Agent, Command, Controls, FnTool, HookCx, Message, Skill, ToolSpec, Verdict,
    agent::controls::{Completion, ModelScope, SendTime},
    history::message::{
        AssistantMessage, AssistantPart, StopReason, ToolCall, ToolResultMessage, Usage,
    },
    hooks::{
        points::{
            Context, ContextChange, ContextEvent, ModelPost, ModelPostEvent, ModelPre,
            ModelPreEvent, ToolPre, ToolPreEvent,
        },
        ui::{Question, QuestionAnswer, Ui, UiFuture},
    },
    invoke::{
        callable::BoxError,
        command::{CommandCx, CommandResult},
    },
    model::Thinking,
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, ending, fresh, probe, transcript};
use expect_test::expect;
use serde_json::json;

use crate::kit::{echo, records};

type Model = RecordingModel<ScriptedModel>;

fn model() -> Model {
    RecordingModel::new(ScriptedModel::new((0..32).map(|n| Step::text(format!("answer {n}")))))
}

/// Builds an agent whose hook `/do` runs `act` with its controls.
fn agent_with_action<F, Fut>(builder: cotter::AgentBuilder, act: F) -> Agent
where
    F: Fn(Controls) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    builder.define_hook("do", move |cx: HookCx| act(cx.controls)).build().unwrap()
}

#[tokio::test]
async fn g17_controls_read_and_add_messages_and_entries() {
    let diary = Diary::default();
    let told = diary.clone();
    let agent = agent_with_action(Agent::builder(model()), move |controls| {
        let texts: Vec<_> = controls.messages().iter().map(|m| m.text().into_owned()).collect();
        told.add(format!("{texts:?} {}", controls.entries().len()));
        async move {
            let first = controls.append_message(Message::user("added"))?;
            let fields = json!({"type": "mine", "n": 1}).as_object().unwrap().clone();
            let second = controls.save_entry(fields)?;
            assert!(first < second, "ids are promised in order");
            let core = json!({"type": "message"}).as_object().unwrap().clone();
            assert!(controls.save_entry(core).is_err());
            assert_eq!(controls.entries().len(), 2, "they wait for the prompt");
            Ok(())
        }
    });
    let session = fresh(&agent).await;
    session.prompt("one").await.unwrap();
    session.prompt("/do two").await.unwrap();
    assert_eq!(diary.shown(), "[\"one\", \"answer 0\"] 2\n");
    expect![[r#"
        user: one
        assistant: answer 0
        user: added
        {"type":"mine","n":1}
        user: two
        assistant: answer 1
    "#]]
    .assert_eq(&transcript(&session));
}

/// A command that has the session to itself stores at once.
#[tokio::test]
async fn g17_p8_message_added_by_a_command_is_stored_at_once() {
    let add = |cx: CommandCx| async move {
        let id = cx.controls.append_message(Message::user("added")).map_err(|e| e.to_string())?;
        Ok::<_, String>(CommandResult::Status(format!("{id} of {}", cx.controls.entries().len())))
    };
    let agent = Agent::builder(model()).define_command(Command::new("add", add)).build().unwrap();
    let session = fresh(&agent).await;
    assert_eq!(session.prompt("/add").await.unwrap().text(), "00000001 of 1");
    assert_eq!(transcript(&session), "user: added\n");
}

#[tokio::test]
async fn g17_p6_controls_rebuild_the_context() {
    let diary = Diary::default();
    let told = diary.clone();
    let shout = |build: &ContextEvent| {
        ContextChange::messages(
            build.messages.iter().map(|m| Message::user(m.text().to_uppercase())),
        )
    };
    let agent =
        agent_with_action(Agent::builder(model()).transform(Context, shout), move |controls| {
            let told = told.clone();
            async move {
                let built = controls.rebuild_context().await?;
                told.add(format!(
                    "{:?}",
                    built.iter().map(|m| m.text().into_owned()).collect::<Vec<_>>()
                ));
                Ok(())
            }
        });
    let session = fresh(&agent).await;
    session.prompt("one").await.unwrap();
    session.prompt("/do two").await.unwrap();
    assert_eq!(diary.shown(), "[\"ONE\", \"ANSWER 0\"]\n");
}

/// In a `context` handler `rebuild_context` is an error.
#[tokio::test]
async fn p6_rebuild_context_in_a_context_handler_is_an_error() {
    let diary = Diary::default();
    let told = diary.clone();
    let handler = move |at: cotter::At<Context>| {
        let told = told.clone();
        async move {
            told.add(at.cx().controls().rebuild_context().await.unwrap_err().to_string());
        }
    };
    let agent = Agent::builder(model()).observe(Context, handler).build().unwrap();
    agent.process_request("go").await.unwrap();
    assert_eq!(diary.shown(), "cannot rebuild the context while it is being built\n");
}

#[tokio::test]
async fn g17_controls_show_the_view_and_limit_tools_within_the_scope() {
    let diary = Diary::default();
    let model = model();
    let told = diary.clone();
    let builder = Agent::builder(model.clone())
        .system_prompt("Be good.")
        .tool(echo())
        .tool(probe("other", Zone::Safe, &diary))
        .tool(probe("hidden", Zone::Safe, &diary))
        .scope(["echo", "other"]);
    let agent = agent_with_action(builder, move |controls| {
        told.add(format!("{} {:?}", controls.system_prompt(), controls.tools()));
        controls.set_active_tools(["hidden", "echo", "nothing"]);
        told.add(format!("{:?}", controls.tools()));
        async { Ok(()) }
    });
    agent
        .define_hook("all", |cx: HookCx| async move { cx.controls.set_all_tools_active() })
        .unwrap();
    let session = fresh(&agent).await;
    session.prompt("/do a").await.unwrap();
    session.prompt("b").await.unwrap();
    session.prompt("/all c").await.unwrap();
    let other = fresh(&agent).await;
    other.prompt("another session").await.unwrap();
    let shown: Vec<_> =
        model.requests().iter().map(|request| format!("{:?}", request.tools)).collect();
    expect![[r#"
        Be good. {"echo", "other"}
        {"echo"}
        {"echo"}
        {"echo"}
        {"echo", "other"}
        {"echo", "other"}"#]]
    .assert_eq(&format!("{}{}", diary.shown(), shown.join("\n")));
}

#[tokio::test]
async fn g17_controls_define_and_undefine_names() {
    let model = model();
    let agent =
        agent_with_action(Agent::builder(model.clone()).tool(echo()), |controls| async move {
            let agent = controls.agent();
            agent.define_skill(Skill::text("late", "Late.").expose_to_agent())?;
            agent.undefine_tool("echo");
            Ok(())
        });
    agent.process_request("/do a").await.unwrap();
    let shown = format!("{:?}", model.requests()[0].tools);
    assert_eq!(shown, "{\"invoke_skill\"}", "from the next step on");
}

#[tokio::test]
async fn g17_g18_controls_set_model_and_thinking_level() {
    let (first, second) = (
        model(),
        RecordingModel::new(
            ScriptedModel::new((0..9).map(|_| Step::text("other"))).named("p/other"),
        ),
    );
    let other = second.clone();
    let agent = agent_with_action(Agent::builder(first.clone()), move |controls| {
        let other = other.clone();
        async move {
            assert_eq!(controls.thinking_level(), Thinking::Off);
            controls.set_thinking_level(Thinking::High)?;
            controls.set_model(other, ModelScope::Session)?;
            assert_eq!(
                (controls.model().name().as_str(), controls.thinking_level()),
                ("p/other", Thinking::High)
            );
            Ok(())
        }
    });
    let session = fresh(&agent).await;
    session.prompt("a").await.unwrap();
    session.prompt("/do b").await.unwrap();
    session.prompt("c").await.unwrap();
    fresh(&agent).await.prompt("another session").await.unwrap();
    let levels =
        |model: &Model| model.requests().iter().map(|r| r.thinking.as_str()).collect::<Vec<_>>();
    assert_eq!((levels(&first), levels(&second)), (vec!["off", "off"], vec!["high", "high"]));
    assert_eq!(
        (session.thinking_level().as_str(), session.model().unwrap().as_str()),
        ("high", "p/other")
    );
}

#[tokio::test]
async fn g17_p8_controls_report_usage_and_complete() {
    let usage = Usage { input_tokens: 10, output_tokens: 1, ..Usage::default() };
    let steps = (0..4).map(|n| Step::text(format!("answer {n}")).and_usage(usage));
    let model = RecordingModel::new(ScriptedModel::new(steps).priced(0.25));
    let diary = Diary::default();
    let (told, pre, post) = (diary.clone(), diary.clone(), diary.clone());
    let builder = Agent::builder(model.clone())
        .system_prompt("Main.")
        .observe(ModelPre, move |event: &ModelPreEvent| {
            pre.add(format!("pre {}", event.message_count))
        })
        .observe(ModelPost, move |event: &ModelPostEvent| {
            post.add(format!("post {}", event.input_tokens))
        });
    let agent = agent_with_action(builder, move |controls| {
        let told = told.clone();
        async move {
            let ask = Completion::new("aside").with_system("Briefly.").with_max_tokens(7);
            let done = controls.complete(ask).await?;
            told.add(format!("{} {}", done.text, done.usage.total()));
            let counts = controls.counts();
            told.add(format!(
                "{} {} {} {} {:?}",
                counts.messages,
                counts.entries,
                counts.context_tokens,
                counts.usage.total(),
                counts.cost_usd
            ));
            Ok(())
        }
    });
    let session = fresh(&agent).await;
    session.prompt("one").await.unwrap();
    let reply = session.prompt("/do two").await.unwrap();
    assert_eq!((reply.usage.total(), reply.cost_usd), (22, Some(0.5)), "it counts for the run");
    let aside = &model.requests()[1];
    assert_eq!(
        (&*aside.system, aside.max_tokens, aside.tools.is_empty()),
        ("Briefly.", Some(7), true)
    );
    assert!(!transcript(&session).contains("aside"));
    expect![[r#"
        pre 1
        post 10
        pre 1
        post 10
        answer 1 11
        2 2 11 11 Some(0.25)
        pre 3
        post 10
    "#]]
    .assert_eq(&diary.shown());
}

/// `complete` counts against the budget and ends with the run.
#[tokio::test]
async fn g17_l21_complete_uses_the_budget_and_the_cancel_token_of_the_run() {
    let usage = Usage { input_tokens: 100, ..Usage::default() };
    let diary = Diary::default();
    let told = diary.clone();
    let steps = [
        Step::text("a").and_usage(usage),
        Step::text("b").and_usage(usage),
        Step::text("c").and_hang(),
    ];
    let builder =
        Agent::builder(ScriptedModel::new(steps)).limits(|limits| limits.max_tokens = Some(150));
    let agent = agent_with_action(builder, move |controls| {
        let told = told.clone();
        async move {
            for _ in 0..3 {
                match controls.complete(Completion::new("x")).await {
                    Ok(done) => told.add(done.text),
                    Err(error) => told.add(error.code.as_str()),
                }
            }
            Ok(())
        }
    });
    let session = fresh(&agent).await;
    let reply = session.prompt("/do x").await;
    expect![[r#"
        a
        b
        budget_exceeded
        budget_exceeded: budget_exceeded: the run used 200 tokens of 150"#]]
    .assert_eq(&format!("{}{}", diary.shown(), ending(&reply)));
    let run = session.prompt("/do y");
    let cancel = run.cancel_token();
    let mut run = Box::pin(run);
    assert!(futures_util::FutureExt::now_or_never(&mut run).is_none(), "the model hangs");
    cancel.cancel();
    assert_eq!(ending(&run.await), "aborted");
}

/// Steering reaches the current run, a follow-up comes after it, and `now` replaces it.
#[tokio::test]
async fn g17_controls_send_now_steer_or_follow_up() {
    for (when, word) in
        [(SendTime::Steer, "steer"), (SendTime::FollowUp, "follow up"), (SendTime::Now, "now")]
    {
        let spec = ToolSpec::new("work", "Works.", json!({"type": "object"}));
        let work = FnTool::new(spec, move |permit| async move {
            permit.cx().controls().send(format!("/do {word}"), when);
            if when == SendTime::Now {
                std::future::pending::<()>().await;
            }
            Ok("worked".into())
        });
        let steps = [Step::call("work", json!({})), Step::text("one"), Step::text("two")];
        let builder = Agent::builder(ScriptedModel::new(steps))
            .tool(work.with_facts(Facts::zone(Zone::Safe)));
        let agent = agent_with_action(builder, |_| async { Err("it is not parsed".into()) });
        let session = fresh(&agent).await;
        let reply = session.prompt("go").await;
        tokio::task::yield_now().await;
        session.idle().await;
        let shown = format!("{}\n{}", ending(&reply), transcript(&session));
        match when {
            SendTime::Steer => expect![[r#"
                end_turn
                user: go
                call c1.1: work {}
                result c1.1: worked
                user: /do steer
                assistant: one
            "#]]
            .assert_eq(&shown),
            SendTime::FollowUp => expect![[r#"
                end_turn
                user: go
                call c1.1: work {}
                result c1.1: worked
                assistant: one
                user: /do follow up
                assistant: two
            "#]]
            .assert_eq(&shown),
            _ => expect![[r#"
                aborted
                user: go
                call c1.1: work {}
                result c1.1 (cancelled): Cancelled while it ran.
                user: /do now
                assistant: one
            "#]]
            .assert_eq(&shown),
        }
    }
}

#[tokio::test]
async fn g17_controls_make_a_session_and_subscribe_to_events() {
    let diary = Diary::default();
    let told = diary.clone();
    let agent = agent_with_action(Agent::builder(model()), move |controls| {
        let told = told.clone();
        async move {
            let mut events = controls.subscribe();
            let other = controls.new_session().await?;
            assert_ne!(other.id(), controls.session().id());
            other.prompt("elsewhere").await?;
            told.add(transcript(&other));
            tokio::spawn(async move {
                loop {
                    let event = events.next().await;
                    told.add(event.kind.name());
                    if event.kind.name() == "session.end" {
                        break;
                    }
                }
            });
            Ok(())
        }
    });
    let session = fresh(&agent).await;
    session.prompt("/do here").await.unwrap();
    while !diary.shown().contains("session.end") {
        tokio::task::yield_now().await;
    }
    expect![[r#"
        user: elsewhere
        assistant: answer 0

        session.open
        hook
        message
        text.start
        text.delta
        text.delta
        text.end
        message
        model.post
        session.end
        user: here
        assistant: answer 1
    "#]]
    .assert_eq(&format!("{}{}", diary.shown(), transcript(&session)));
}

#[tokio::test]
async fn g17_controls_abort_the_run() {
    let spec = ToolSpec::new("halt", "Halts.", json!({"type": "object"}));
    let halt = FnTool::new(spec, |permit| async move {
        permit.cx().controls().abort();
        std::future::pending().await
    });
    let agent = Agent::builder(ScriptedModel::new([Step::call("halt", json!({}))]))
        .tool(halt.with_facts(Facts::zone(Zone::Safe)))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("go").await), "aborted");
    expect![[r#"
        user: go
        call c1.1: halt {}
        result c1.1 (cancelled): Cancelled while it ran.
    "#]]
    .assert_eq(&transcript(&session));
}

/// A tool run by a handler goes through the whole pipeline: scope, schema, gates, floor, ledger.
#[tokio::test]
async fn g17_b1_controls_run_a_tool_through_the_pipeline() {
    let diary = Diary::default();
    let told = diary.clone();
    let gate = |call: &ToolPreEvent| match call.tool_input["text"] == "bad" {
        true => Verdict::block("not that"),
        false => Verdict::Pass,
    };
    let agent = Agent::builder(model())
        .tool(echo())
        .tool(probe("danger", Zone::External, &diary))
        .tool(probe("hidden", Zone::Safe, &diary))
        .scope(["echo", "danger"])
        .build()
        .unwrap();
    // The gate has another owner than the hook, because a hook's own gates are not asked about its calls.
    agent
        .extend(cotter::Owner::new(cotter::Origin::User, "rules"), |unit| {
            _ = unit.gate(ToolPre, named("picky", gate))
        })
        .unwrap();
    agent
        .define_hook("do", move |cx: HookCx| {
            let told = told.clone();
            async move {
                let calls = [
                    ("echo", json!({"text": "hi"})),
                    ("echo", json!({"text": "bad"})),
                    ("echo", json!(7)),
                    ("danger", json!({})),
                    ("hidden", json!({})),
                    ("ecco", json!({})),
                ];
                for (name, input) in calls {
                    match cx.controls.run_tool(name, input).await {
                        Ok(output) => told.add(format!("{name}: {}", output.content.text())),
                        Err(error) => {
                            told.add(format!("{name} {}: {}", error.kind.as_str(), error.message))
                        }
                    }
                }
            }
        })
        .unwrap();
    let session = fresh(&agent).await;
    session.prompt("/do x").await.unwrap();
    assert_eq!(transcript(&session), "user: x\nassistant: answer 0\n", "results are the caller's");
    expect![[r#"
        echo: hi
        echo denied: Hook "picky" blocked the action: not that. Adjust your approach; do not retry the exact same call.
        echo invalid_args: Invalid arguments for `echo`: not a JSON object; send complete arguments, smaller if they were cut off.
        danger denied: Permission denied for `danger`: zone `external` asks at level `standard`, and no person can be asked. Do not retry this exact call.
        hidden denied: The tool `hidden` is not available to this agent.
        ecco not_found: Unknown tool: ecco. Did you mean `echo`?
        run.start r1
        ledger r1/1 echo {"text":"hi"} pass zone
        outcome r1/1 ok
        ledger r1/2 echo {"text":"bad"} block picky not that
        ledger r1/3 echo 7 block schema Invalid arguments for `echo`: not a JSON object; send complete arguments, smaller if they were cut off.
        question r1.0.4 [{"callId":"r1/4","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1.0.4 nobody [{"callId":"r1/4","answer":"no","words":"no person can be asked"}]
        ledger r1/4 danger {} block nobody zone `external` asks at level `standard`, and no person can be asked
        ledger r1/5 hidden {} block scope The tool `hidden` is not available to this agent.
        ledger r1/6 ecco {} block scope Unknown tool: ecco. Did you mean `echo`?
        run.end r1 end_turn
    "#]].assert_eq(&format!(
        "{}{}",
        diary.shown(),
        records(&**agent.store(), session.id())
    ));
}

/// A child agent can work for a hook too.
#[tokio::test]
async fn g17_controls_start_a_child_for_a_hook() {
    let model = model();
    let diary = Diary::default();
    let told = diary.clone();
    let agent = agent_with_action(
        Agent::builder(model.clone()).system_prompt("Parent."),
        move |controls| {
            let told = told.clone();
            async move {
                let child = controls.child().id("helper").system_prompt("Child.").build()?;
                told.add(child.process_request("/do help me").await?.text());
                Ok(())
            }
        },
    );
    let session = fresh(&agent).await;
    session.prompt("one").await.unwrap();
    session.prompt("/do two").await.unwrap();
    let request = model.requests().remove(1);
    let texts: Vec<_> = request.messages.iter().map(|m| m.text().into_owned()).collect();
    assert_eq!(
        (&*request.system, texts, diary.shown().as_str()),
        ("Child.", vec!["/do help me".into()], "answer 1\n")
    );
}

/// A person who answers everything.
struct Obliging(Arc<Mutex<Vec<String>>>);

impl Ui for Obliging {
    fn present(&self) -> bool {
        true
    }

    fn ask(&self, _: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        Box::pin(async { None })
    }

    fn confirm(&self, _: &str) -> UiFuture<'_, bool> {
        Box::pin(async { true })
    }

    fn select<'a>(&'a self, title: &'a str, options: &'a [String]) -> UiFuture<'a, Option<usize>> {
        Box::pin(
            async move { Some(if title == "beyond" { options.len() } else { options.len() - 1 }) },
        )
    }

    fn input<'a>(&'a self, title: &'a str) -> UiFuture<'a, Option<String>> {
        Box::pin(async move { Some(format!("{title}: tulip")) })
    }

    fn notify(&self, text: &str) {
        self.0.lock().unwrap().push(text.into());
    }
}

#[tokio::test]
async fn g17_p11_controls_reach_the_person() {
    let ask = |diary: &Diary| {
        let told = diary.clone();
        move |controls: Controls| {
            let told = told.clone();
            async move {
                let (cx, options) = (controls.cx(), ["a".to_owned(), "b".to_owned()]);
                let answers = (
                    cx.has_ui(),
                    cx.confirm("sure?").await,
                    cx.select("which", &options).await,
                    cx.select("beyond", &options).await,
                    cx.input("word").await,
                );
                told.add(format!("{answers:?}"));
                cx.notify("done");
                Ok(())
            }
        }
    };
    let (diary, heard) = (Diary::default(), Arc::default());
    let there =
        agent_with_action(Agent::builder(model()).ui(Obliging(Arc::clone(&heard))), ask(&diary));
    there.process_request("/do x").await.unwrap();
    agent_with_action(Agent::builder(model()), ask(&diary)).process_request("/do x").await.unwrap();
    expect![[r#"
        (true, true, Some(1), None, Some("word: tulip"))
        (false, false, None, None, None)
    "#]]
    .assert_eq(&diary.shown());
    assert_eq!(*heard.lock().unwrap(), ["done"]);
}

/// A panic in completions gives an empty list and does not reach the caller.
#[test]
fn p1_panic_in_completions_gives_no_completions() {
    let command = |name: &'static str| Command::new(name, |_: CommandCx| async {});
    let agent = Agent::builder(model())
        .define_command(command("bad").completions(|_| panic!("no luck")))
        .define_command(command("good").completions(|typed| vec![format!("{typed}!")]))
        .build()
        .unwrap();
    assert_eq!(agent.complete_command("bad", "x"), [""; 0]);
    assert_eq!(agent.complete_command("good", "x"), ["x!"]);
    assert_eq!(agent.complete_command("none", "x"), [""; 0]);
}

fn replying(parts: Vec<AssistantPart>) -> Message {
    Message::Assistant(AssistantMessage {
        parts,
        model: "test/by-hand".into(),
        usage: Usage::default(),
        stop_reason: StopReason::EndTurn,
    })
}

fn calling(id: &str) -> Message {
    let input = Arc::new(json!({}));
    let call = ToolCall { id: id.into(), name: "t".into(), input };
    replying(vec![AssistantPart::ToolCall(call)])
}

fn answering(id: &str) -> Message {
    Message::ToolResult(ToolResultMessage {
        call_id: id.into(),
        tool_name: "t".into(),
        content: "done".into(),
        error: None,
        render_data: None,
    })
}

/// Every call has exactly one result, whatever messages are added by hand.
#[tokio::test]
async fn g17_added_messages_keep_calls_and_results_paired() {
    let said = || replying(vec![AssistantPart::Text("so it is".into())]);
    let added = move || {
        let user = || Message::user("and then?");
        [
            answering("a"),
            calling("a"),
            user(),
            said(),
            answering("b"),
            answering("a"),
            answering("a"),
            said(),
            user(),
            calling("b"),
        ]
    };
    let (by_command, by_hook) = (Diary::default(), Diary::default());
    let try_all = move |controls: &Controls, diary: &Diary| {
        for message in added() {
            let kind = match &message {
                Message::User(_) => "user",
                Message::Assistant(reply) if reply.calls().next().is_some() => "call",
                Message::Assistant(_) => "reply",
                _ => "result",
            };
            match controls.append_message(message) {
                Ok(_) => diary.add(format!("{kind}: taken")),
                Err(error) => diary.add(format!("{kind}: {error}")),
            }
        }
    };
    let (told, tries) = (by_command.clone(), try_all);
    let fill = Command::new("fill", move |cx: CommandCx| {
        tries(&cx.controls, &told);
        async {}
    });
    let (told, tries) = (by_hook.clone(), try_all);
    let agent = agent_with_action(Agent::builder(model()).define_command(fill), move |controls| {
        tries(&controls, &told);
        async { Ok(()) }
    });
    let session = fresh(&agent).await;
    let _ = session.prompt("/fill").await;
    let _ = session.prompt("/do go").await;
    expect![[r#"
        result: no call `a` waits for a result
        call: taken
        user: cannot add a message: call `a` has no result
        reply: cannot add a message: call `a` has no result
        result: no call `b` waits for a result
        result: taken
        result: no call `a` waits for a result
        reply: taken
        user: taken
        call: taken
        --
        result: cannot add a call or a result: a run is in progress
        call: cannot add a call or a result: a run is in progress
        user: taken
        reply: taken
        result: cannot add a call or a result: a run is in progress
        result: cannot add a call or a result: a run is in progress
        result: cannot add a call or a result: a run is in progress
        reply: taken
        user: taken
        call: cannot add a call or a result: a run is in progress
    "#]]
    .assert_eq(&format!("{}--\n{}", by_command.shown(), by_hook.shown()));
    expect![[r#"
        call a: t {}
        result a: done
        assistant: so it is
        user: and then?
        call b: t {}
        result b (unavailable): The result of this call is not on this branch of the session.
        user: and then?
        assistant: so it is
        assistant: so it is
        user: and then?
        user: go
        assistant: answer 0
    "#]]
    .assert_eq(&transcript(&session));
}
