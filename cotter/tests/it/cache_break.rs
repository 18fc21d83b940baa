//! The cause and the position of a break of the provider's prompt cache, as `model.post` reports them. A
//! request that continues the last one reports nothing.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use cotter::{
    Agent, AgentBuilder, AgentConfig, Command, FnTool, Hook, Message, Origin, Owner, Registry,
    Session, Skill, Subagent, ToolSpec,
    agent::controls::ModelScope,
    history::{
        entry::Compaction,
        message::{UserMessage, UserMessageKind},
        message_list::MessageChange,
    },
    hooks::{
        events::EventKind,
        points::{
            CacheBreak, Context, ContextChange, ContextEvent, ModelPost, ModelPostEvent, ModelPre,
            each_message,
        },
    },
    invoke::command::CommandCx,
    model::{Model, ModelErrorKind, ReplyStream, Request, tools::ToolList},
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, ending, fresh, probe};
use expect_test::{Expect, expect};
use serde_json::json;
use smol_str::SmolStr;

use crate::kit::files;

/// A model whose request body is a text: tools, system prompt, messages, one line each.
#[derive(Clone)]
struct Plain(RecordingModel<ScriptedModel>);

fn body(request: &Request) -> String {
    let mut body = String::new();
    for ToolSpec { name, description, schema } in request.tools.specs() {
        body += &format!("tool {name}: {description} {schema}\n");
    }
    body += &format!("system: {}\n", request.system);
    for message in request.messages.iter() {
        let who = match message {
            Message::User(_) => "user",
            Message::Assistant(_) => "model",
            _ => "result",
        };
        body += &format!("{who}: {}\n", message.text());
    }
    body
}

impl Model for Plain {
    fn name(&self) -> &SmolStr {
        self.0.name()
    }

    fn stream(&self, request: Request) -> ReplyStream {
        self.0.stream(request)
    }

    fn break_at(&self, before: &Request, now: &Request) -> Option<u64> {
        let (before, now) = (body(before), body(now));
        let same = before.bytes().zip(now.bytes()).take_while(|(a, b)| a == b).count();
        (same < before.len()).then_some(same as u64)
    }
}

/// An agent on a `Plain` model, a session, and the report about each reply.
struct Watched {
    agent: Agent,
    session: Session,
    model: Plain,
    reports: Diary,
}

impl Watched {
    async fn new(make: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Self {
        Watched::scripted((0..40).map(|_| Step::text("ok")), make).await
    }

    async fn scripted(
        script: impl IntoIterator<Item = Step>,
        make: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Self {
        let model = Plain(RecordingModel::new(ScriptedModel::new(script)));
        let reports = Diary::default();
        let builder = make(Agent::builder(model.clone()).system_prompt("Be brief."));
        let (requests, writes) = (model.0.clone(), reports.clone());
        let builder = builder.observe(ModelPost, move |reply: &ModelPostEvent| {
            let Some(CacheBreak { by, part, byte }) = &reply.cache_break else {
                return writes.add("as before");
            };
            let sent = requests.requests().last().map(body).unwrap_or_default();
            let at = byte.map(|byte| byte as usize).filter(|at| sent.is_char_boundary(*at));
            let rest = |at: usize| sent[at..].chars().take(24).collect::<String>();
            writes.add(format!("{part} by {by}, at {:?}", at.map(rest)));
        });
        let agent = builder.build().unwrap();
        let session = fresh(&agent).await;
        Watched { agent, session, model, reports }
    }

    async fn say(&self, text: &str) {
        self.reports.add(format!("> {text}"));
        assert_eq!(ending(&self.session.prompt(text).await), "end_turn");
    }

    fn check(&self, expected: Expect) {
        expected.assert_eq(&self.reports.shown());
    }
}

fn user() -> Owner {
    Owner::new(Origin::User, "settings")
}

fn tool(name: &'static str, description: &str) -> impl cotter::Tool {
    let spec = ToolSpec::new(name, description, json!({"type": "object"}));
    FnTool::new(spec, |_| async { Ok("done".into()) }).with_facts(Facts::zone(Zone::Safe))
}

fn exposed(name: &'static str) -> Skill {
    Skill::text(name, "text").description(format!("about {name}")).expose_to_agent()
}

/// B0: a tool that is added, removed or changed is reported with its owner.
#[tokio::test]
async fn b0_cache_break_by_a_tool_names_its_owner() {
    let all = Watched::new(|builder| builder.tool(tool("alpha", "first"))).await;
    all.say("one").await;
    all.agent.tool(tool("beta", "second")).unwrap();
    all.say("the program adds one").await;
    all.agent.extend(user(), |unit| _ = unit.tool(tool("gamma", "third"))).unwrap();
    all.say("a file adds one").await;
    let again =
        |words: &'static str| move |unit: &mut Registry| _ = unit.tool(tool("gamma", words));
    let _ = all.agent.reload(user(), false, again("other words")).unwrap();
    all.say("the file changes its own").await;
    assert!(all.agent.undefine_tool("alpha"));
    all.say("the program drops its first").await;
    assert!(all.agent.unload(&user()));
    all.say("the file is gone").await;
    all.say("nothing happens").await;
    all.check(expect![[r#"
        > one
        as before
        > the program adds one
        tools by embedder (program), at Some("tool beta: second {\"type")
        > a file adds one
        tools by user (settings), at Some("tool gamma: third {\"type")
        > the file changes its own
        tools by user (settings), at Some("other words {\"type\":\"obj")
        > the program drops its first
        tools by embedder (program), at Some("beta: second {\"type\":\"ob")
        > the file is gone
        tools by user (settings), at Some("system: Be brief.\nuser: ")
        > nothing happens
        as before
    "#]]);
}

/// B0: the entries of the built-in list tools belong to their owners, not to the kernel. This includes the
/// first and the last entry, with which the tool itself is added and removed.
#[tokio::test]
async fn b0_cache_break_by_a_skill_or_subagent_names_its_owner() {
    let all = Watched::new(|builder| builder.tool(tool("alpha", "first"))).await;
    all.say("one").await;
    all.agent.define_skill(Skill::text("hidden", "for people only")).unwrap();
    all.say("a skill the model is not shown").await;
    all.agent.extend(user(), |unit| _ = unit.define_skill(exposed("terse"))).unwrap();
    all.say("the first skill").await;
    all.agent.define_skill(exposed("kind")).unwrap();
    all.say("another").await;
    all.agent.define_mention(Subagent::new("sub", |_| async { Ok("did".into()) })).unwrap();
    all.say("the first subagent").await;
    let project = Owner::new(Origin::Project, "agents");
    let other = Subagent::new("other", |_| async { Ok("did".into()) });
    all.agent.extend(project.clone(), |unit| _ = unit.define_mention(other)).unwrap();
    all.say("another subagent").await;
    all.agent.register_agent(AgentConfig::new("third")).await.unwrap();
    all.say("an agent").await;
    assert!(all.agent.unload(&project));
    all.say("a subagent goes").await;
    assert!(all.agent.undefine_skill("kind"));
    all.say("a skill goes").await;
    assert!(all.agent.unload(&user()));
    all.say("the last skill goes").await;
    all.check(expect![[r#"
        > one
        as before
        > a skill the model is not shown
        as before
        > the first skill
        tools by user (settings), at Some("tool invoke_skill: Calls")
        > another
        tools by embedder (program), at Some("kind: about kind\n- terse")
        > the first subagent
        tools by embedder (program), at Some("tool invoke_subagent: Gi")
        > another subagent
        tools by project (agents), at Some("\n- other {\"type\":\"object")
        > an agent
        tools by embedder (program), at Some("third\n- other {\"type\":\"o")
        > a subagent goes
        tools by project (agents), at Some(" {\"type\":\"object\",\"prope")
        > a skill goes
        tools by embedder (program), at Some("terse: about terse {\"typ")
        > the last skill goes
        tools by user (settings), at Some("ubagent: Gives a task to")
    "#]]);
}

/// B0: without a tool for skills, the model sees only their names, in the system prompt.
#[tokio::test]
async fn b0_cache_break_by_a_listed_skill_is_at_the_list() {
    let all = Watched::new(|builder| builder.scope(["none"]).define_skill(exposed("terse"))).await;
    all.say("one").await;
    all.agent.extend(user(), |unit| _ = unit.define_skill(exposed("kind"))).unwrap();
    all.say("another").await;
    let reworded = |unit: &mut Registry| _ = unit.define_skill(exposed("kind").description("new"));
    let _ = all.agent.reload(user(), true, reworded).unwrap();
    all.say("its description, which is not shown").await;
    all.check(expect![[r#"
        > one
        as before
        > another
        system by user (settings), at Some(", kind\n</resources>\nuser")
        > its description, which is not shown
        as before
    "#]]);
}

/// A subsystem with text for the system prompt.
struct Slate;

impl Hook for Slate {
    fn system_prompt(&self) -> Option<String> {
        Some("There is a slate.".into())
    }
}

/// B0: a hook's text in the system prompt belongs to the hook.
#[tokio::test]
async fn b0_cache_break_by_system_prompt_text_names_the_hook() {
    let all = Watched::new(|builder| builder).await;
    all.say("one").await;
    all.agent.hook(Slate).await.unwrap();
    all.say("a hook with words").await;
    all.agent.hook(()).await.unwrap();
    all.say("a hook without").await;
    all.check(expect![[r#"
        > one
        as before
        > a hook with words
        system by Slate, at Some("\nThere is a slate.\nuser:")
        > a hook without
        as before
    "#]]);
}

/// A command that limits the tools to its arguments, or removes the limit.
fn only() -> Command {
    Command::new("only", |cx: CommandCx| async move {
        match cx.args.is_empty() {
            true => cx.controls.set_all_tools_active(),
            false => cx.controls.set_active_tools(cx.args),
        }
    })
}

/// B0: a limit on a session's tools is reported with the owner of the limit, not with the owner of a tool.
#[tokio::test]
async fn b0_cache_break_by_limited_tools_names_the_owner_of_the_limit() {
    let all = Watched::new(|builder| {
        builder
            .tool(tool("alpha", "first"))
            .tool(tool("beta", "second"))
            .define_skill(exposed("terse"))
    })
    .await;
    all.agent.extend(user(), |unit| _ = unit.define_command(only())).unwrap();
    all.say("one").await;
    for command in ["/only alpha invoke_skill", "/only alpha", "/only alpha", "/only beta", "/only"]
    {
        assert_eq!(ending(&all.session.prompt(command).await), "end_turn");
        all.say(command.trim_start_matches('/')).await;
    }
    assert_eq!(ending(&all.session.prompt("/only beta").await), "end_turn");
    assert!(all.agent.undefine_tool("alpha"));
    all.say("limited again, and another is dropped").await;
    assert!(all.agent.undefine_tool("beta"));
    all.say("the one that was left is dropped").await;
    all.agent.hook(Slate).await.unwrap();
    all.say("and a hook has words").await;
    all.check(expect![[r#"
        > one
        as before
        > only alpha invoke_skill
        tools by user (settings), at Some("invoke_skill: Calls for ")
        > only alpha
        tools by user (settings), at Some("system: Be brief.\n\n<reso")
        > only alpha
        as before
        > only beta
        tools by user (settings), at Some("beta: second {\"type\":\"ob")
        > only
        tools by user (settings), at Some("alpha: first {\"type\":\"ob")
        > limited again, and another is dropped
        tools by user (settings), at Some("beta: second {\"type\":\"ob")
        > the one that was left is dropped
        tools by embedder (program), at Some("system: Be brief.\n\n<reso")
        > and a hook has words
        system by Slate, at Some("There is a slate.\n\n<reso")
    "#]]);
}

/// Registers a context transform that changes each message by its text.
fn rewriting(
    name: &'static str,
    from: &'static str,
    to: Option<&'static str>,
    after: usize,
) -> impl Fn(AgentBuilder) -> AgentBuilder {
    move |builder| {
        let change = move |build: &ContextEvent| {
            if build.messages.len() < after {
                return ContextChange::Keep;
            }
            ContextChange::Messages(build.messages.map_messages(|_, message| match (message, to) {
                (Message::User(user), _) if user.content.text() != from => MessageChange::Keep,
                (Message::User(_), Some(to)) => MessageChange::Replace(Message::user(to)),
                (Message::User(_), None) => MessageChange::Drop,
                _ => MessageChange::Keep,
            }))
        };
        builder.transform(Context, named(name, change))
    }
}

/// B0: of several context transforms, only the one that changes an earlier message is reported.
#[tokio::test]
async fn b0_cache_break_by_a_context_transform_names_it() {
    let always = each_message(|message: &Message| match message.text().contains("zero") {
        true => MessageChange::Drop,
        false => MessageChange::Keep,
    });
    let all = Watched::new(|builder| {
        let builder = builder.transform(Context, named("always", always));
        let builder = rewriting("same", "none", Some("never"), 0)(builder);
        let builder = rewriting("late", "two", Some("2"), 8)(builder);
        let builder = rewriting("early", "one", None, 10)(builder);
        rewriting("again", "none", Some("never"), 0)(builder)
    })
    .await;
    for text in ["zero", "one", "two", "three", "four", "five", "six"] {
        all.say(text).await;
    }
    all.check(expect![[r#"
        > zero
        as before
        > one
        as before
        > two
        as before
        > three
        as before
        > four
        messages by late, at Some("2\nmodel: ok\nuser: three\n")
        > five
        messages by early, at Some("model: ok\nuser: 2\nmodel:")
        > six
        as before
    "#]]);
}

/// B0: of two changes at once, the one at the earlier position is reported.
#[tokio::test]
async fn b0_cache_break_by_two_transforms_names_the_earlier_change() {
    let mut reports = String::new();
    for order in [["late", "early"], ["early", "late"]] {
        let all = Watched::new(|mut builder| {
            for name in order {
                let (from, to) = if name == "late" { ("two", Some("2")) } else { ("one", None) };
                builder = rewriting(name, from, to, 6)(builder);
            }
            builder
        })
        .await;
        for text in ["one", "two", "three", "four", "five"] {
            all.say(text).await;
        }
        reports += &all.reports.shown();
    }
    expect![[r#"
        > one
        as before
        > two
        as before
        > three
        as before
        > four
        messages by early, at Some("model: ok\nuser: 2\nmodel:")
        > five
        as before
        > one
        as before
        > two
        as before
        > three
        as before
        > four
        messages by early, at Some("model: ok\nuser: 2\nmodel:")
        > five
        as before
    "#]]
    .assert_eq(&reports);
}

/// B0: a transform that appends its own text to every request moves the text each time.
#[tokio::test]
async fn b0_cache_break_by_appended_text_names_its_transform() {
    let remind = |build: &ContextEvent| {
        let mut messages = build.messages.clone();
        messages.push(Message::user("be kind"));
        ContextChange::Messages(messages)
    };
    let all = Watched::new(|builder| {
        let builder = rewriting("quiet", "none", Some("never"), 0)(builder);
        let builder = builder.transform(Context, named("remind", remind));
        rewriting("quiet too", "none", Some("never"), 0)(builder)
    })
    .await;
    all.say("one").await;
    all.say("two").await;
    let hook = all.agent.hooks().into_iter().find(|hook| hook.name == "remind").unwrap();
    assert!(all.agent.set_enabled(hook.id, false));
    all.say("it is off").await;
    all.say("nothing happens").await;
    assert!(all.agent.set_enabled(hook.id, true));
    all.say("it is on").await;
    all.say("and moves").await;
    all.check(expect![[r#"
        > one
        as before
        > two
        messages by remind, at Some("model: ok\nuser: two\nuser")
        > it is off
        messages by remind, at Some("model: ok\nuser: it is of")
        > nothing happens
        as before
        > it is on
        as before
        > and moves
        messages by remind, at Some("model: ok\nuser: and move")
    "#]]);
}

/// B0: data that is not sent may change: the mark of a message, its cost, its render data.
#[tokio::test]
async fn b0_change_of_unsent_data_is_no_cache_break() {
    let marked = |build: &ContextEvent| {
        let changed = build.messages.map_messages(|_, message| match message {
            Message::User(user) if build.messages.len() > 4 => {
                let content = user.content.clone();
                let marked = UserMessage::with_kind(content, UserMessageKind::SkillInjection);
                MessageChange::Replace(Message::User(marked))
            }
            Message::Assistant(reply) if build.messages.len() > 2 => {
                let mut reply = reply.clone();
                reply.usage.input_tokens += 1;
                MessageChange::Replace(Message::Assistant(reply))
            }
            _ => MessageChange::Keep,
        });
        ContextChange::Messages(changed)
    };
    let all = Watched::new(|builder| builder.transform(Context, named("marks", marked))).await;
    for text in ["one", "two", "three", "four"] {
        all.say(text).await;
    }
    all.check(expect![[r#"
        > one
        as before
        > two
        as before
        > three
        as before
        > four
        as before
    "#]]);
}

/// B0: a compaction and a move of the leaf are reported.
#[tokio::test]
async fn b0_cache_break_by_a_compaction_or_a_move_is_named() {
    let all = Watched::new(|builder| {
        let drops = each_message(|message: &Message| match message.text().contains("drop") {
            true => MessageChange::Drop,
            false => MessageChange::Keep,
        });
        builder
            .transform(Context, named("drops", drops))
            .define_command(Command::new("compact", |cx: CommandCx| async move {
                cx.controls.force_compaction().await
            }))
    })
    .await;
    all.say("drop this").await;
    all.say("two").await;
    let second = all.session.entries().last().unwrap().id().clone();
    all.say("three").await;
    all.session.navigate(Some(&second)).await.unwrap();
    all.say("from there, something else").await;
    let leaf = all.session.entries().last().unwrap().id().clone();
    all.session.navigate(Some(&leaf)).await.unwrap();
    all.say("a move to where it is").await;
    all.reports.add("> /compact");
    assert_eq!(ending(&all.session.prompt("/compact").await), "end_turn");
    all.say("after it").await;
    let summary = Compaction::new("another summary", leaf, 7);
    all.session.store_compaction(summary).await.unwrap();
    all.say("and another").await;
    all.session.navigate(Some(&second)).await.unwrap();
    all.say("before both").await;
    all.check(expect![[r#"
        > drop this
        as before
        > two
        as before
        > three
        as before
        > from there, something else
        messages by session, at Some("from there, something el")
        > a move to where it is
        as before
        > /compact
        as before
        > after it
        messages by compaction, at Some("user: [Summary of the co")
        > and another
        messages by compaction, at Some("another summary\nmodel: o")
        > before both
        messages by session, at Some("model: ok\nuser: two\nmode")
    "#]]);
}

/// B0: notes are part of the sent messages, with one attempt or with three.
#[tokio::test(start_paused = true)]
async fn b0_notes_and_retries_are_no_cache_break() {
    let fails = || Step::error(ModelErrorKind::Overloaded);
    let script = [
        Step::text("ok"),
        fails(),
        Step::text("half").and_error(ModelErrorKind::Network, None),
        Step::call("probe", json!({})),
        fails(),
        Step::text("ok"),
        Step::text("ok"),
    ];
    let all = Watched::scripted(script, |builder| {
        let attempts = Mutex::new(0);
        builder.tool(probe("probe", Zone::Safe, &Diary::default())).observe(
            ModelPre,
            move |_: &cotter::hooks::points::ModelPreEvent, cx: &cotter::Cx| {
                let mut attempts = attempts.lock().unwrap();
                *attempts += 1;
                cx.note(format!("attempt {attempts}"));
            },
        )
    })
    .await;
    all.say("one").await;
    all.say("two").await;
    all.say("three").await;
    all.check(expect![[r#"
        > one
        as before
        > two
        as before
        as before
        > three
        as before
    "#]]);
    let last = all.model.0.requests().pop().unwrap();
    let noted = last.messages.iter().filter(|message| {
        matches!(message, Message::User(UserMessage { kind: UserMessageKind::Note, .. }))
    });
    assert_eq!(noted.count(), 4, "every reply had notes");
}

/// B0: turns that only append report nothing: tools, thinking, a skill, steering.
#[tokio::test]
async fn b0_turns_that_only_append_are_no_cache_break() {
    let script = (0..12).map(|n| match n % 3 {
        0 => Step::text("ok").and_thinking("hm"),
        1 => Step::call("probe", json!({})).and_call("invoke_skill", json!({"name": "terse"})),
        _ => Step::text("so"),
    });
    let all = Watched::scripted(script, |builder| {
        builder.tool(probe("probe", Zone::Safe, &Diary::default())).define_skill(exposed("terse"))
    })
    .await;
    all.say("one").await;
    all.say("two /terse").await;
    all.agent.observe(ModelPre, |_: &cotter::hooks::points::ModelPreEvent| ()).unwrap();
    all.say("a hook that changes nothing").await;
    all.agent.define_command(only()).unwrap();
    all.say("a command").await;
    all.check(expect![[r#"
        > one
        as before
        > two /terse
        as before
        as before
        > a hook that changes nothing
        as before
        > a command
        as before
        as before
    "#]]);
}

/// B0: another model has its own cache, and the cache of a reopened session may be cold.
#[tokio::test]
async fn b0_other_model_and_reopened_session_are_no_cache_break() {
    let folder = tempfile::tempdir().unwrap();
    let other = RecordingModel::new(ScriptedModel::new([Step::text("ok")]).named("test/other"));
    let set = Command::new("other", move |cx: CommandCx| {
        let other = other.clone();
        async move { cx.controls.set_model(other, ModelScope::Turn) }
    });
    let mut all =
        Watched::new(|builder| builder.store(files(folder.path())).define_command(set)).await;
    all.say("one").await;
    assert_eq!(ending(&all.session.prompt("/other").await), "end_turn");
    all.agent.tool(tool("alpha", "first")).unwrap();
    all.say("another model").await;
    all.say("and back").await;
    let id = all.session.id().clone();
    all.session.close().await;
    drop(std::mem::replace(&mut all.session, fresh(&all.agent).await));
    all.agent.tool(tool("beta", "second")).unwrap();
    all.say("a session of its own").await;
    all.session = all.agent.session(&id).await.unwrap();
    all.agent.tool(tool("gamma", "third")).unwrap();
    all.say("opened again").await;
    all.agent.tool(tool("delta", "fourth")).unwrap();
    all.say("and another tool").await;
    all.check(expect![[r#"
        > one
        as before
        > another model
        as before
        > and back
        tools by embedder (program), at Some("tool alpha: first {\"type")
        > a session of its own
        as before
        > opened again
        as before
        > and another tool
        tools by embedder (program), at Some("tool delta: fourth {\"typ")
    "#]]);
}

/// B0: the JSON key is `cacheBreak`, for hooks and for listeners. It is absent if the request continues the
/// last one.
#[tokio::test]
async fn b0_cache_break_has_its_json_key() {
    let payloads = Diary::default();
    let writes = payloads.clone();
    let agent = Agent::builder(Plain(RecordingModel::new(ScriptedModel::new([
        Step::text("ok"),
        Step::text("ok"),
    ]))))
    .observe(ModelPost, move |reply: &ModelPostEvent| {
        writes.add(serde_json::to_string(reply).unwrap());
    })
    .build()
    .unwrap();
    let session = fresh(&agent).await;
    let mut reports = String::new();
    for prompt in ["one", "two"] {
        let mut run = session.prompt(prompt);
        while let Some(event) = run.next().await {
            if matches!(event.kind, EventKind::ModelPost(_)) {
                let event: serde_json::Value = serde_json::from_str(&event.to_json()).unwrap();
                reports += &format!("{}: {}\n", event["type"], event["cacheBreak"]);
            }
        }
        agent.tool(tool("alpha", "first")).ok();
    }
    expect![[r#"
        "model.post": null
        "model.post": {"by":"embedder (program)","part":"tools","byte":0}
        {"model":"test/scripted","stopReason":"end_turn","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":null,"toolCallCount":0}
        {"model":"test/scripted","stopReason":"end_turn","inputTokens":0,"outputTokens":0,"cacheRead":0,"cacheWrite":0,"costUsd":null,"toolCallCount":0,"cacheBreak":{"by":"embedder (program)","part":"tools","byte":0}}
    "#]].assert_eq(&format!("{reports}{}", payloads.shown()));
}

/// B0: without an offset from the model, `byte` is `None`.
#[tokio::test]
async fn b0_cache_break_without_an_offset_has_no_byte() {
    let model = ScriptedModel::new([Step::text("ok"), Step::text("ok")]);
    let reports = Diary::default();
    let writes = reports.clone();
    let agent = Agent::builder(model)
        .observe(ModelPost, move |reply: &ModelPostEvent| {
            writes.add(format!("{:?}", reply.cache_break))
        })
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    session.prompt("one").await.unwrap();
    agent.tool(tool("alpha", "first")).unwrap();
    session.prompt("two").await.unwrap();
    expect![[r#"
        None
        Some(CacheBreak { by: "embedder (program)", part: "tools", byte: None })
    "#]]
    .assert_eq(&reports.shown());
}

/// Weak references to the tools of every request.
type Shown = Arc<Mutex<Vec<Weak<ToolList>>>>;

/// A model that keeps nothing of a request alive.
struct Forgetful(ScriptedModel, Shown);

impl Model for Forgetful {
    fn name(&self) -> &SmolStr {
        self.0.name()
    }

    fn stream(&self, request: Request) -> ReplyStream {
        self.1.lock().unwrap().push(Arc::downgrade(&request.tools));
        self.0.stream(request)
    }
}

/// Returns the cache report of the next reply's event.
async fn next_report(events: &mut cotter::hooks::events::EventStream) -> String {
    let report = async {
        loop {
            if let EventKind::ModelPost(reply) = &events.next().await.kind {
                return format!("{:?}", reply.cache_break);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(5), report).await.expect("no report in 5 s")
}

/// B0: without a listener nothing is remembered, and nothing is reported later.
#[tokio::test]
async fn b0_without_a_listener_no_request_is_remembered() {
    let shown = Shown::default();
    let model = ScriptedModel::new((0..9).map(|_| Step::text("ok")));
    let agent = Agent::builder(Forgetful(model, shown.clone()))
        .tool(probe("zero", Zone::Safe, &Diary::default()))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let alive = || shown.lock().unwrap().iter().map(|tools| tools.upgrade().is_some()).collect();
    let mut seen: Vec<(&str, Vec<bool>)> = vec![];
    let ask = async |text| {
        session.prompt(text).await.unwrap();
    };
    ask("nobody listens").await;
    agent.tool(tool("one", "1")).unwrap();
    ask("nobody listens").await;
    seen.push(("nobody", alive()));
    let reports = Diary::default();
    let writes = reports.clone();
    let hook = agent
        .observe(ModelPost, move |reply: &ModelPostEvent| {
            writes.add(format!("{:?}", reply.cache_break))
        })
        .unwrap();
    ask("somebody does").await;
    agent.tool(tool("two", "2")).unwrap();
    ask("and hears of it").await;
    agent.tool(tool("three", "3")).unwrap();
    seen.push(("somebody", alive()));
    assert!(agent.remove(hook));
    ask("nobody listens").await;
    agent.tool(tool("four", "4")).unwrap();
    ask("nobody listens").await;
    seen.push(("nobody again", alive()));
    let mut events = session.events();
    ask("a listener hears of nothing that was before").await;
    reports.add(next_report(&mut events).await);
    agent.tool(tool("five", "5")).unwrap();
    ask("and of what is new").await;
    reports.add(next_report(&mut events).await);
    let shown: String = seen.iter().map(|(when, alive)| format!("{when}: {alive:?}\n")).collect();
    expect![[r#"
        nobody: [false, true]
        somebody: [false, false, false, true]
        nobody again: [false, false, false, false, false, true]
        None
        Some(CacheBreak { by: "embedder (program)", part: "tools", byte: None })
        None
        Some(CacheBreak { by: "embedder (program)", part: "tools", byte: None })
    "#]]
    .assert_eq(&format!("{shown}{}", reports.shown()));
}

/// B0: a listener that starts during a reply gets that reply too.
#[tokio::test(start_paused = true)]
async fn b0_listener_that_starts_during_a_reply_gets_it() {
    let slow = Step::text("o k").and_delay(Duration::from_secs(1));
    let agent = Agent::builder(ScriptedModel::new([slow])).build().unwrap();
    let session = fresh(&agent).await;
    let run = tokio::spawn(session.prompt("one").into_future());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut events = session.events();
    assert_eq!(ending(&run.await.unwrap()), "end_turn");
    assert_eq!(next_report(&mut events).await, "None");
}
