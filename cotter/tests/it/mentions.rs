//! Tests of subagents: called by the model through `invoke_subagent`, or directly by a leading `@name`.

use std::sync::Arc;

use cotter::{
    Agent, AgentConfig, FnTool, HookCx, HookResult, Message, Skill, Subagent,
    history::message::{Content, ContentPart, Usage},
    hooks::points::{
        Admission, SubagentEnd, SubagentEndEvent, SubagentStart, SubagentStartEvent,
        UserPromptSubmit, UserPromptSubmitChange, UserPromptSubmitEvent,
    },
    invoke::subagent::{MentionMode, SubagentCx},
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, ending, fresh, spec, transcript};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use crate::kit::{records, to_the_end};

type Model = RecordingModel<ScriptedModel>;

fn model(steps: impl IntoIterator<Item = Step>) -> Model {
    RecordingModel::new(ScriptedModel::new(steps))
}

fn call(name: &str, prompt: &str) -> Value {
    json!({"name": name, "prompt": prompt})
}

fn with_subagents(builder: cotter::AgentBuilder) -> Agent {
    let image = || ContentPart::Image { media_type: "image/png".into(), data: "AAAA".into() };
    let parts = move |_| async move {
        Ok(Content::Parts(vec![
            ContentPart::Text("a".into()),
            image(),
            ContentPart::Text("b".into()),
        ]))
    };
    let echo = |cx: SubagentCx| async move {
        assert!(!cx.cancel().is_cancelled());
        Ok(format!("{} heard {:?}", cx.name, cx.prompt).into())
    };
    builder
        .define_mention(Subagent::new("echo", echo).description("Says\nit again."))
        .define_mention(Subagent::new("parts", parts))
        .define_mention(Subagent::new("none", |_| async { Ok(vec![].into()) }))
        .define_mention(Subagent::new("fail", |_| async { Err("no luck".into()) }))
        .define_mention(Subagent::new("panic", |_| async { panic!("no luck") }))
        .build()
        .unwrap()
}

/// Checks the result that the model gets for one call of `invoke_subagent`.
async fn check_call(input: Value, expected: Expect) {
    let agent = with_subagents(Agent::builder(model([
        Step::call("invoke_subagent", input),
        Step::text("ok"),
    ])));
    let session = fresh(&agent).await;
    session.prompt("go").await.unwrap();
    let result = session.messages().iter().find_map(|message| match message {
        Message::ToolResult(result) => Some(result.clone()),
        _ => None,
    });
    let result = result.unwrap();
    let kind = result.error.map_or("ok", |kind| kind.as_str());
    let shown = result.render_data.map_or(String::new(), |data| format!("\nshown: {data}"));
    expected.assert_eq(&format!("{kind}: {}{shown}", result.content.text()));
}

#[tokio::test]
async fn g16_invoke_subagent_result_has_a_fixed_shape() {
    check_call(call("echo", "Oban \"pier\""), expect![[r#"ok: {"status":"success","data":{"subagent":"echo","content":"echo heard \"Oban \\\"pier\\\"\""}}"#]]).await;
    check_call(call("parts", ""), expect![[r#"
        ok: {"status":"success","data":{"subagent":"parts","content":"a\nb"}}
        shown: {"subagent":"parts","parts":[{"type":"text","text":"a"},{"type":"image","mediaType":"image/png","data":"AAAA"},{"type":"text","text":"b"}]}"#]]).await;
    check_call(call("none", ""), expect![[r#"
        ok: {"status":"success","data":{"subagent":"none","content":"[subagent produced no text content]"}}
        shown: {"subagent":"none","parts":[]}"#]]).await;
}

#[tokio::test]
async fn g16_unknown_or_failed_subagent_is_an_error_of_the_same_shape() {
    check_call(call("nobody", "x"), expect![[r#"not_found: {"status":"error","message":"Subagent \"nobody\" is not registered. Use one of: echo, parts, none, fail, panic.","data":null}"#]]).await;
    check_call(
        call("fail", "x"),
        expect![[r#"failed: {"status":"error","message":"no luck","data":null}"#]],
    )
    .await;
    check_call(
        call("panic", "x"),
        expect![[r#"failed: {"status":"error","message":"it panicked: no luck","data":null}"#]],
    )
    .await;
    check_call(json!({"name": "echo"}), expect![[r#"invalid_args: Invalid arguments for `invoke_subagent`: "prompt" is a required property."#]]).await;
}

#[tokio::test]
async fn g16_invoke_subagent_exists_while_subagents_are_defined() {
    let model = model((0..9).map(|_| Step::text("ok")));
    let agent = Agent::builder(model.clone()).tool_prefix("glove_").build().unwrap();
    let session = fresh(&agent).await;
    let mut shown = String::new();
    let mut ask = async |what: &str| {
        session.prompt("go").await.unwrap();
        let tools = model.requests().pop().unwrap().tools;
        shown.push_str(&format!("== {what}\n"));
        shown.extend(
            tools
                .specs()
                .map(|spec| format!("{}: {}\n{}\n", spec.name, spec.description, spec.schema)),
        );
    };
    let hi = |_| async { Ok(Content::from("hi")) };
    ask("none").await;
    agent.define_mention(Subagent::new("a", hi).description("Does\n A.")).unwrap();
    ask("one").await;
    agent.register_agent(AgentConfig::new("b").with_description("Does B.")).await.unwrap();
    ask("two").await;
    assert!(agent.undefine_mention("a"));
    assert!(agent.unregister_agent("b").await);
    ask("none again").await;
    expect![[r#"
        == none
        == one
        glove_invoke_subagent: Gives a task to a subagent and returns its answer. The subagent sees nothing of this conversation but the prompt, so put all it needs into it. When a person writes @name, the subagent of that name is meant. Subagents:
        - a: Does A.
        {"type":"object","properties":{"name":{"type":"string","description":"The subagent's name."},"prompt":{"type":"string","description":"The whole task, in words."}},"required":["name","prompt"],"additionalProperties":false}
        == two
        glove_invoke_subagent: Gives a task to a subagent and returns its answer. The subagent sees nothing of this conversation but the prompt, so put all it needs into it. When a person writes @name, the subagent of that name is meant. Subagents:
        - a: Does A.
        - b: Does B.
        {"type":"object","properties":{"name":{"type":"string","description":"The subagent's name."},"prompt":{"type":"string","description":"The whole task, in words."}},"required":["name","prompt"],"additionalProperties":false}
        == none again
    "#]].assert_eq(&shown);
}

/// G4: `@name` reaches the model unchanged, at any position in the text.
#[tokio::test]
async fn g4_mentions_reach_the_model_verbatim() {
    let texts =
        ["@echo hello", "  @echo  hello", "mail a@b.com, @echo and @nobody", "@echo\n/x", "@@echo"];
    let model = model(texts.map(|_| Step::text("ok")));
    let agent = with_subagents(Agent::builder(model.clone()));
    for text in texts {
        agent.process_request(text).await.unwrap();
        let sent = model.requests().pop().unwrap().messages.last().unwrap().text().into_owned();
        assert_eq!(sent, text);
    }
}

/// Checks the effect of a prompt in the mode in which a leading mention calls the subagent directly.
async fn check_dispatch(prompt: &str, expected: Expect) {
    let model = model([Step::text("the model")]);
    let polite = |prompt: &UserPromptSubmitEvent| match prompt.prompt.contains("secret") {
        true => UserPromptSubmitChange::Prompt(prompt.prompt.replace("secret", "[gone]")),
        false => UserPromptSubmitChange::Keep,
    };
    let builder = Agent::builder(model.clone())
        .mention_mode(MentionMode::Dispatch)
        .transform(UserPromptSubmit, named("redact", polite))
        .define_hook("upper", |cx: HookCx| async move {
            HookResult::rewrite(cx.parsed_text.to_uppercase())
        })
        .define_hook("shout", |cx: HookCx| async move { HookResult::rewrite(cx.parsed_text + "!") })
        .define_hook("stop", |_: HookCx| async { HookResult::short_circuit("stopped") })
        .define_skill(Skill::text("concise", "Be terse."));
    let session = fresh(&with_subagents(builder)).await;
    let reply = session.prompt(prompt).await;
    let said = reply.as_ref().map(|reply| reply.text()).unwrap_or_default();
    expected.assert_eq(&format!("{} -> {said}\n{}", ending(&reply), transcript(&session)));
}

#[tokio::test]
async fn g4_leading_mention_calls_the_subagent_in_dispatch_mode() {
    check_dispatch("@echo  When is\nhigh water?", expect![[r#"
        short_circuit -> echo heard "When is\nhigh water?"
        user: @echo  When is
        high water?
        call mention_r1: invoke_subagent {"name":"echo","prompt":"When is\nhigh water?"}
        result mention_r1: {"status":"success","data":{"subagent":"echo","content":"echo heard \"When is\\nhigh water?\""}}
        assistant: echo heard "When is\nhigh water?"
    "#]]).await;
    check_dispatch(
        "@fail x",
        expect![[r#"
        short_circuit -> no luck
        user: @fail x
        call mention_r1: invoke_subagent {"name":"fail","prompt":"x"}
        result mention_r1 (failed): {"status":"error","message":"no luck","data":null}
        assistant: no luck
    "#]],
    )
    .await;
}

#[tokio::test]
async fn g4_mention_within_the_text_does_not_call() {
    check_dispatch(
        "ask @echo about it",
        expect![[r#"
        end_turn -> the model
        user: ask @echo about it
        assistant: the model
    "#]],
    )
    .await;
    check_dispatch(
        "@nobody x",
        expect![[r#"
        end_turn -> the model
        user: @nobody x
        assistant: the model
    "#]],
    )
    .await;
    check_dispatch(
        "@echo: x",
        expect![[r#"
        end_turn -> the model
        user: @echo: x
        assistant: the model
    "#]],
    )
    .await;
}

/// A called subagent gets the prompt as it is stored: without tokens, after every rewrite.
#[tokio::test]
async fn g4_called_subagent_gets_the_prompt_after_hooks() {
    check_dispatch("@echo /shout what is /concise this", expect![[r#"
        short_circuit -> echo heard "what is this!"
        skill: <skill name="concise">
        Be terse.
        </skill>
        user: @echo what is this!
        call mention_r1: invoke_subagent {"name":"echo","prompt":"what is this!"}
        result mention_r1: {"status":"success","data":{"subagent":"echo","content":"echo heard \"what is this!\""}}
        assistant: echo heard "what is this!"
    "#]]).await;
    check_dispatch(
        "/shout @echo hello",
        expect![[r#"
            short_circuit -> echo heard "hello!"
            user: @echo hello!
            call mention_r1: invoke_subagent {"name":"echo","prompt":"hello!"}
            result mention_r1: {"status":"success","data":{"subagent":"echo","content":"echo heard \"hello!\""}}
            assistant: echo heard "hello!"
        "#]],
    )
    .await;
    check_dispatch("@echo the secret is tulip", expect![[r#"
        short_circuit -> echo heard "the [gone] is tulip"
        user: @echo the [gone] is tulip
        call mention_r1: invoke_subagent {"name":"echo","prompt":"the [gone] is tulip"}
        result mention_r1: {"status":"success","data":{"subagent":"echo","content":"echo heard \"the [gone] is tulip\""}}
        assistant: echo heard "the [gone] is tulip"
    "#]]).await;
    check_dispatch("@echo /upper x", expect![[r#"
        short_circuit -> echo heard "@ECHO X"
        user: @ECHO X
        call mention_r1: invoke_subagent {"name":"echo","prompt":"@ECHO X"}
        result mention_r1: {"status":"success","data":{"subagent":"echo","content":"echo heard \"@ECHO X\""}}
        assistant: echo heard "@ECHO X"
    "#]]).await;
    check_dispatch(
        "@echo /stop x",
        expect![[r#"
        short_circuit -> stopped
        user: @echo x
        assistant: stopped
    "#]],
    )
    .await;
}

/// A subagent sees only its prompt, not the conversation; its model has its own system prompt.
#[tokio::test]
async fn g16_a_subagent_sees_only_its_prompt() {
    let model = model([
        Step::text("noted"),
        Step::call("invoke_subagent", call("sub", "/stop: what is 2+2? @echo")),
        Step::text("4"),
        Step::text("four"),
    ]);
    let agent = with_subagents(
        Agent::builder(model.clone())
            .system_prompt("Parent.")
            .define_hook("stop", |_: HookCx| async { HookResult::short_circuit("stopped") }),
    );
    agent.register_agent(AgentConfig::new("sub").with_system_prompt("Child.")).await.unwrap();
    let session = fresh(&agent).await;
    session.prompt("my secret is tulip").await.unwrap();
    session.prompt("go").await.unwrap();
    let child = model.requests().remove(2);
    let texts: Vec<_> = child.messages.iter().map(|m| m.text().into_owned()).collect();
    assert_eq!((&*child.system, texts), ("Child.", vec!["/stop: what is 2+2? @echo".to_owned()]));
    expect![[r#"
        user: my secret is tulip
        assistant: noted
        user: go
        call c2.1: invoke_subagent {"name":"sub","prompt":"/stop: what is 2+2? @echo"}
        result c2.1: {"status":"success","data":{"subagent":"sub","content":"4"}}
        assistant: four
    "#]]
    .assert_eq(&transcript(&session));
}

/// Several subagents run concurrently: each waits for all.
#[tokio::test]
async fn g16_subagents_run_concurrently() {
    let all = Arc::new(Barrier::new(20));
    let wait = move |cx: SubagentCx| {
        let all = all.clone();
        async move {
            all.wait().await;
            Ok(Content::from(cx.prompt))
        }
    };
    let step = (0..20).fold(Step::default(), |step, n| {
        step.and_call("invoke_subagent", call("wait", &n.to_string()))
    });
    let agent = Agent::builder(model([step, Step::text("ok")]))
        .define_mention(Subagent::new("wait", wait))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    session.prompt("go").await.unwrap();
    let results: Vec<_> = session
        .messages()
        .iter()
        .filter_map(|message| match message {
            Message::ToolResult(result) => {
                let shaped: Value = serde_json::from_str(&result.content.text()).unwrap();
                Some(shaped["data"]["content"].as_str().unwrap().to_owned())
            }
            _ => None,
        })
        .collect();
    assert_eq!(results, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// Nothing is retried: a failing subagent is called once.
#[tokio::test]
async fn g16_failed_subagent_is_not_retried() {
    let diary = Diary::default();
    let fail = {
        let diary = diary.clone();
        move |_| {
            diary.add("called");
            async { Err("no luck".into()) }
        }
    };
    let steps = [Step::call("invoke_subagent", call("fail", "x")), Step::text("ok")];
    let agent =
        Agent::builder(model(steps)).define_mention(Subagent::new("fail", fail)).build().unwrap();
    agent.process_request("go").await.unwrap();
    assert_eq!(diary.shown(), "called\n");
}

/// `child()` builds an agent under the parent's policy, ledger and budget.
#[tokio::test]
async fn g16_child_shares_policy_ledger_and_budget_of_its_parent() {
    let diary = Diary::default();
    let tool = {
        let diary = diary.clone();
        FnTool::new(spec("danger"), move |_| {
            diary.add("ran");
            async { Ok("done".into()) }
        })
        .with_facts(Facts::zone(Zone::External))
    };
    let usage = Usage { input_tokens: 10, ..Usage::default() };
    let inner = model([
        Step::call("danger", json!({})).and_usage(usage),
        Step::text("could not").and_usage(usage),
    ]);
    let work = {
        let inner = inner.clone();
        move |cx: SubagentCx| {
            let child = cx.child().id("worker").system_prompt("Work.").model(inner.clone()).build();
            async move { Ok(child?.process_request(cx.prompt).await?.text().into()) }
        }
    };
    let steps =
        [Step::call("invoke_subagent", call("work", "x")), Step::text("ok").and_usage(usage)];
    let agent = Agent::builder(model(steps))
        .tool(tool)
        .define_mention(Subagent::new("work", work))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let reply = session.prompt("go").await.unwrap();
    assert_eq!(diary.shown(), "", "nobody could be asked");
    assert_eq!(reply.usage.input_tokens, 30, "the child's tokens are the parent's");
    expect![[r#"
        user: go
        call c1.1: invoke_subagent {"name":"work","prompt":"x"}
        result c1.1: {"status":"success","data":{"subagent":"work","content":"could not"}}
        assistant: ok
        run.start r1
        ledger c1.1 invoke_subagent {"name":"work","prompt":"x"} pass zone
        run.start r1/1
        question r1/1.1 [{"callId":"c1.1","asks":[{"by":"zone","reason":"zone `external` asks at level `standard`"}]}]
        answer r1/1.1 nobody [{"callId":"c1.1","answer":"no","words":"no person can be asked"}]
        ledger c1.1 danger {} block nobody zone `external` asks at level `standard`, and no person can be asked
        run.end r1/1 end_turn
        outcome c1.1 ok
        run.end r1 end_turn
    "#]].assert_eq(&format!(
        "{}{}",
        transcript(&session),
        records(&**agent.store(), session.id())
    ));
}

/// A gate at `subagent.start` refuses; both points and both stream events report the same.
#[tokio::test]
async fn g16_l20_subagent_has_start_and_end_points_and_events() {
    let diary = Diary::default();
    let gate = |started: &SubagentStartEvent| match started.prompt.contains("rm") {
        true => Admission::Block("too risky".into()),
        false => Admission::Pass,
    };
    let ended = {
        let diary = diary.clone();
        move |ended: &SubagentEndEvent| {
            diary.add(format!("{} {}: {}", ended.name, ended.status, ended.text))
        }
    };
    let step = Step::call("invoke_subagent", call("echo", "rm -rf"))
        .and_call("invoke_subagent", call("echo", "ls"))
        .and_call("invoke_subagent", call("fail", "ls"));
    let agent = with_subagents(
        Agent::builder(model([step, Step::text("ok")]))
            .gate(SubagentStart, named("careful", gate))
            .observe(SubagentEnd, ended),
    );
    let session = fresh(&agent).await;
    let (events, _) = to_the_end(session.prompt("go")).await;
    let told: String = events
        .lines()
        .filter(|line| line.starts_with("subagent"))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut ends = diary.lines();
    ends.sort();
    expect![[r#"
        subagent.start
        subagent.start
        subagent.end
        subagent.end
        echo success: echo heard "ls"
        fail error: no luck
        user: go
        call c1.1: invoke_subagent {"name":"echo","prompt":"rm -rf"}
        call c1.2: invoke_subagent {"name":"echo","prompt":"ls"}
        call c1.3: invoke_subagent {"name":"fail","prompt":"ls"}
        result c1.1 (denied): {"status":"error","message":"Hook \"careful\" blocked the action: too risky. Adjust your approach; do not retry the exact same call.","data":null}
        result c1.2: {"status":"success","data":{"subagent":"echo","content":"echo heard \"ls\""}}
        result c1.3 (failed): {"status":"error","message":"no luck","data":null}
        assistant: ok
    "#]].assert_eq(&format!("{told}{}\n{}", ends.join("\n"), transcript(&session)));
}

/// An abort ends subagents; their calls have results, and `subagent.end` fires.
#[tokio::test]
async fn g16_abort_ends_subagents() {
    let (diary, waits) = (Diary::default(), Arc::new(Notify::new()));
    let hang = {
        let (waits, diary) = (waits.clone(), diary.clone());
        move |cx: SubagentCx| {
            let (waits, diary) = (waits.clone(), diary.clone());
            async move {
                waits.notify_one();
                cx.cancel().cancelled().await;
                diary.add("saw the cancel");
                std::future::pending().await
            }
        }
    };
    let ended = {
        let diary = diary.clone();
        move |ended: &SubagentEndEvent| diary.add(format!("{} {}", ended.name, ended.status))
    };
    let agent = Agent::builder(model([Step::call("invoke_subagent", call("hang", "x"))]))
        .define_mention(Subagent::new("hang", hang))
        .observe(SubagentEnd, ended)
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let run = session.prompt("go");
    let cancel = run.cancel_token();
    let (reply, ()) = tokio::join!(run, async {
        waits.notified().await;
        cancel.cancel();
    });
    assert_eq!(ending(&reply), "aborted");
    session.idle().await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(diary.lines().contains(&"hang error".to_owned()), "{}", diary.shown());
    expect![[r#"
        user: go
        call c1.1: invoke_subagent {"name":"hang","prompt":"x"}
        result c1.1 (cancelled): Cancelled while it ran.
    "#]]
    .assert_eq(&transcript(&session));
}

/// G4: data parts of a prompt belong to the task, and a long answer reaches the person whole.
#[tokio::test]
async fn g4_subagent_called_by_mention_gets_data_and_returns_long_answers() {
    let long = "word ".repeat(40_000);
    let answer = long.clone();
    let diary = Diary::default();
    let asked = diary.clone();
    let work = move |cx: SubagentCx| {
        asked.add(cx.prompt);
        let answer = answer.clone();
        async move { Ok(answer.into()) }
    };
    let agent = Agent::builder(ScriptedModel::new([]))
        .mention_mode(MentionMode::Dispatch)
        .define_mention(Subagent::new("reader", work))
        .build()
        .unwrap();
    let parts =
        vec![ContentPart::Text("@reader sum it up".into()), ContentPart::data("@other /x 1,2,3")];
    let reply = agent.process_request(parts).await.unwrap();
    assert_eq!(reply.text(), long);
    assert_eq!(diary.shown(), "sum it up\n@other /x 1,2,3\n");
}
