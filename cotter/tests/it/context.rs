//! The context that the model gets: the point `context`, its handlers and their order; compaction and its
//! hooks. P5, P6, P7, P12, L1.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use cotter::{
    Agent, AgentBuilder, AgentConfig, At, Command, Cx, Message, MessageList, Origin, Owner,
    Subagent,
    history::{message::Usage, message_list::MessageChange},
    hooks::points::{
        Admission, CompactPost, CompactPostEvent, CompactPre, CompactPreChange, CompactPreEvent,
        Context, ContextChange, ContextEvent, TurnEnd, TurnEndEvent, TurnEndVerdict,
        UserPromptSubmit, UserPromptSubmitChange, UserPromptSubmitEvent, each_message,
    },
    invoke::command::CommandCx,
    model::ModelErrorKind,
    named,
    permission::Zone,
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, ending, fresh, probe, transcript};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::kit::{Windowed, files, to_the_end};

fn answering_model(n: usize) -> RecordingModel<ScriptedModel> {
    RecordingModel::new(ScriptedModel::new((1..=n).map(|n| Step::text(format!("answer {n}")))))
}

fn compact_command() -> Command {
    Command::new("compact", |cx: CommandCx| async move { cx.controls.force_compaction().await })
}

/// A transform that appends a message.
fn tag(tag: &'static str) -> impl Fn(&ContextEvent) -> ContextChange + Send + Sync + 'static {
    move |build: &ContextEvent| {
        let mut messages = build.messages.clone();
        messages.push(Message::user(tag));
        ContextChange::Messages(messages)
    }
}

/// P5: global handlers run before project handlers, in any order of registration. A project handler needs a
/// grant.
#[tokio::test]
async fn p5_context_handlers_chain_by_origin() {
    let model = answering_model(1);
    let agent = Agent::builder(model.clone()).build().unwrap();
    let project = Owner::new(Origin::Project, "p");
    let refused = agent
        .extend(project.clone(), |unit| _ = unit.transform(Context, named("p", tag("project"))));
    let refused = refused.unwrap_err().to_string();
    let owners = [
        (project.with_rewrite(), "project"),
        (Owner::new(Origin::User, "u"), "user"),
        (Owner::new(Origin::Operator, "o"), "operator"),
        (Owner::embedder(), "embedder"),
        (Owner::new(Origin::User, "u2"), "user, later"),
    ];
    for (owner, words) in owners {
        agent.extend(owner, |unit| _ = unit.transform(Context, tag(words))).unwrap();
    }
    agent.process_request("go").await.unwrap();
    expect![[r#"
        hook `p`: project (p) may not transform at `context`
        user: go
        user: embedder
        user: operator
        user: user
        user: user, later
        user: project
    "#]]
    .assert_eq(&format!("{refused}\n{}", model.shown()));
}

/// P5: a handler sees entries of every type and the messages. Each message, also a replacement, has the id
/// of its entry, and history does not change.
#[tokio::test]
async fn p5_context_handler_sees_entries_messages_and_their_ids() {
    let (model, diary) = (answering_model(2), Diary::default());
    let writes = diary.clone();
    let shape = |build: &ContextEvent| {
        let mut messages = MessageList::default();
        for (id, message) in build.messages.iter_with_ids() {
            match (id, message.text()) {
                (_, text) if text.contains("secret") => {}
                (Some(id), text) => messages.push_as(id, Message::user(text.to_uppercase())),
                (None, _) => {}
            }
        }
        messages.push(Message::user("made up"));
        ContextChange::Messages(messages)
    };
    let look = move |build: &ContextEvent| {
        for entry in build.entries().iter() {
            writes.add(format!("entry {} {}", entry.id(), entry.to_json()["type"]));
        }
        for (id, message) in build.messages.iter_with_ids() {
            writes.add(format!("{id:?} {}", message.text()));
        }
        ContextChange::Keep
    };
    let agent = Agent::builder(model.clone())
        .transform(Context, named("shape", shape))
        .transform(Context, named("look", look))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    session.save_entry(json!({"type": "todo"}).as_object().unwrap().clone()).unwrap();
    session.prompt("hello").await.unwrap();
    session.prompt("the secret").await.unwrap();
    expect![[r#"
        entry 00000001 "todo"
        entry 00000002 "message"
        Some("00000002") HELLO
        None made up
        entry 00000001 "todo"
        entry 00000002 "message"
        entry 00000003 "message"
        entry 00000004 "message"
        Some("00000002") HELLO
        Some("00000003") ANSWER 1
        None made up
        --
        {"type":"todo"}
        user: hello
        assistant: answer 1
        user: the secret
        assistant: answer 2
    "#]]
    .assert_eq(&format!("{}--\n{}", diary.shown(), transcript(&session)));
}

/// P6: from a command, `rebuild_context` builds as a request does and fires `context`. A handler's error
/// fails it.
#[tokio::test]
async fn p6_rebuild_context_builds_and_fires_context() {
    let (model, fired) = (answering_model(1), Arc::new(AtomicUsize::new(0)));
    let count = fired.clone();
    let rebuild = |cx: CommandCx| async move {
        let built = cx.controls.rebuild_context().await.map_err(|e| format!("{}: {e}", e.code))?;
        let texts: Vec<_> = built.iter().map(|message| message.text().into_owned()).collect();
        Ok::<_, String>(cotter::invoke::command::CommandResult::Status(texts.join(" | ")))
    };
    let agent = Agent::builder(model.clone())
        .define_command(Command::new("rebuild", rebuild))
        .transform(Context, move |build: &ContextEvent| {
            count.fetch_add(1, Ordering::SeqCst);
            tag("tagged")(build)
        })
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    session.prompt("hello").await.unwrap();
    assert_eq!(session.prompt("/rebuild").await.unwrap().text(), "hello | answer 1 | tagged");
    assert_eq!(fired.load(Ordering::SeqCst), 2);
    assert_eq!(transcript(&session), "user: hello\nassistant: answer 1\n");
    let burst = |_: &ContextEvent| -> ContextChange { panic!("boo") };
    agent.transform(Context, named("burst", burst)).unwrap();
    let failed = "context: hook \"burst\" failed to build the context: it panicked: boo";
    let reply = session.prompt("/rebuild").await;
    assert_eq!(ending(&reply), format!("error: command: command \"/rebuild\" failed: {failed}"));
    assert_eq!(ending(&session.prompt("again").await), format!("error: {failed}"));
}

/// P6: in a `context` handler `rebuild_context` is an error, and the build continues.
#[tokio::test]
async fn p6_rebuild_context_in_a_context_handler_has_an_error_code() {
    let diary = Diary::default();
    let writes = diary.clone();
    let knot = move |at: At<Context>| {
        let diary = writes.clone();
        async move {
            let error = at.cx().controls().rebuild_context().await.unwrap_err();
            diary.add(format!("{}: {error}", error.code));
            ContextChange::Keep
        }
    };
    let agent = Agent::builder(answering_model(1)).transform(Context, knot).build().unwrap();
    assert_eq!(agent.process_request("go").await.unwrap().text(), "answer 1");
    assert_eq!(diary.shown(), "context: cannot rebuild the context while it is being built\n");
}

/// P7: `context` fires for every request and attempt, after a compaction, and for the first request of a
/// reopened session.
#[tokio::test(start_paused = true)]
async fn p7_context_fires_on_every_build() {
    let home = tempfile::tempdir().expect("there is room for a folder");
    let diary = Diary::default();
    let builder = |script: Vec<Step>, writes: Diary| {
        Agent::builder(ScriptedModel::new(script))
            .store(files(home.path()))
            .tool(probe("look", Zone::Safe, &Diary::default()))
            .define_command(compact_command())
            .observe(Context, move |build: &ContextEvent, cx: &Cx| {
                let first = build.messages.iter().next().map(|message| message.text().into_owned());
                let first = first.unwrap_or_default().lines().next().unwrap_or_default().to_owned();
                let (count, all) = (build.messages.len(), build.entries().len());
                writes.add(format!("{:?} {}: {count} of {all}, {first}", cx.run_id(), cx.step()));
            })
    };
    let script = vec![
        Step::call("look", json!({})),
        Step::error(ModelErrorKind::Overloaded),
        Step::text("done"),
        Step::text("a summary"),
        Step::text("after"),
    ];
    let agent = builder(script, diary.clone()).build().unwrap();
    let session = fresh(&agent).await;
    for prompt in ["go", "/compact", "and now?"] {
        assert_eq!(ending(&session.prompt(prompt).await), "end_turn");
    }
    let id = session.id().clone();
    drop((session, agent));
    diary.add("opened again");
    let agent = builder(vec![Step::text("still")], diary.clone()).build().unwrap();
    let session = agent.session(&id).await.unwrap();
    assert_eq!(ending(&session.prompt("there?").await), "end_turn");
    expect![[r#"
        "r1" 1: 1 of 1, go
        "r1" 2: 3 of 3, go
        "r1" 2: 3 of 3, go
        "" 0: 4 of 4, go
        "r2" 1: 2 of 6, [Summary of the conversation so far]
        opened again
        "r3" 1: 4 of 8, [Summary of the conversation so far]
    "#]]
    .assert_eq(&diary.shown());
}

/// P5, P7: the change to a message is cached, and stays right after a compaction, a move or a fork, and
/// with several sessions in turn.
#[tokio::test]
async fn p5_p7_each_message_transform_is_cached_and_stays_correct() {
    let (model, asked) = (answering_model(40), Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    let change = each_message(move |message: &Message| {
        count.fetch_add(1, Ordering::SeqCst);
        match message.text() {
            text if text.contains("drop") => MessageChange::Drop,
            text if text.contains("loud") => {
                MessageChange::Replace(Message::user(text.to_uppercase()))
            }
            _ => MessageChange::Keep,
        }
    });
    let agent = Agent::builder(model.clone())
        .transform(Context, change)
        .transform(CompactPre, |_: &CompactPreEvent| CompactPreChange::Summary("the sum".into()))
        .define_command(compact_command())
        .build()
        .unwrap();
    let mut shown = String::new();
    let mut look = |what: &str| {
        let request = model.requests().pop().expect("there was one");
        let texts: Vec<_> = request.messages.iter().map(|m| m.text().replace('\n', " ")).collect();
        shown += &format!("{what}: {}\n", texts.join(" | "));
    };
    let (one, two) = (fresh(&agent).await, fresh(&agent).await);
    for n in 0..3 {
        one.prompt(format!("one {n}")).await.unwrap();
        two.prompt(format!("two loud {n}")).await.unwrap();
    }
    look("two");
    let so_far = asked.swap(0, Ordering::SeqCst);
    assert_eq!(so_far, 2 * (1 + 2 + 2), "a prompt and the reply before it, once each");
    let here = one.entries().iter().nth(1).map(|entry| entry.id().clone());
    one.prompt("drop this").await.unwrap();
    one.prompt("after the drop").await.unwrap();
    look("dropped");
    one.navigate(here.as_deref()).await.unwrap();
    one.prompt("loud on another branch").await.unwrap();
    look("moved");
    let fork = one.fork().await.unwrap();
    fork.prompt("drop in the fork").await.unwrap();
    look("forked");
    one.prompt("on the old one").await.unwrap();
    look("not forked");
    assert_eq!(ending(&one.prompt("/compact").await), "end_turn");
    one.prompt("loud after").await.unwrap();
    look("compacted");
    expect![[r#"
        two: TWO LOUD 0 | answer 2 | TWO LOUD 1 | answer 4 | TWO LOUD 2
        dropped: one 0 | answer 1 | one 1 | answer 3 | one 2 | answer 5 | answer 7
        moved: one 0 | answer 1 | LOUD ON ANOTHER BRANCH
        forked: one 0 | answer 1 | LOUD ON ANOTHER BRANCH | answer 9
        not forked: one 0 | answer 1 | LOUD ON ANOTHER BRANCH | answer 9 | on the old one
        compacted: [Summary of the conversation so far]  the sum  [End of the summary; the conversation goes on from here] | LOUD AFTER
    "#]].assert_eq(&shown);
}

/// P5: a child has its own messages; the cached changes of the session's messages stay.
#[tokio::test]
async fn p5_each_message_cache_survives_a_child_run() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let change = each_message(move |_: &Message| {
        count.fetch_add(1, Ordering::SeqCst);
        MessageChange::Keep
    });
    let call = || Step::call("invoke_subagent", json!({"name": "aide", "prompt": "p"}));
    let turn = || [call(), Step::text("from the aide"), Step::text("done")];
    let agent = Agent::builder(ScriptedModel::new((0..4).flat_map(|_| turn())))
        .transform(Context, change)
        .define_mention(Subagent::agent(AgentConfig::new("aide")))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let mut each = vec![];
    for n in 0..4 {
        session.prompt(format!("turn {n}")).await.unwrap();
        each.push(asked.swap(0, Ordering::SeqCst));
    }
    assert_eq!(each, [4, 5, 5, 5], "what came since, and the aide's prompt");
}

/// P5: messages that handlers remove are not in the summary's request, and do not come back.
#[tokio::test]
async fn p5_p12_summary_request_omits_messages_removed_by_handlers() {
    let model = answering_model(4);
    let hush = each_message(|message: &Message| match message.text().contains("tulip") {
        true => MessageChange::Drop,
        false => MessageChange::Keep,
    });
    let agent = Agent::builder(model.clone())
        .transform(Context, hush)
        .define_command(compact_command())
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    for prompt in ["the password is tulip", "hello", "/compact", "go on"] {
        assert_eq!(ending(&session.prompt(prompt).await), "end_turn");
    }
    assert!(!model.shown().contains("tulip"), "{}", model.shown());
    expect![[r#"
        user: the password is tulip
        assistant: answer 1
        user: hello
        assistant: answer 2
        compaction: [Summary of the conversation so far]

        answer 3

        [End of the summary; the conversation goes on from here]
        user: go on
        assistant: answer 4
    "#]]
    .assert_eq(&transcript(&session));
}

/// Compacts a conversation of two turns by a command and checks the result.
async fn check_compaction(register: impl FnOnce(AgentBuilder) -> AgentBuilder, expected: Expect) {
    let (model, diary) = (answering_model(5), Diary::default());
    let writes = diary.clone();
    let builder = Agent::builder(model.clone()).define_command(compact_command()).observe(
        CompactPost,
        move |event: &CompactPostEvent| {
            let summary = event.summary.replace('\n', " ");
            writes.add(format!("{} by {:?}: {summary}", event.trigger, event.by));
        },
    );
    let agent = register(builder).build().unwrap();
    let session = fresh(&agent).await;
    session.prompt("one").await.unwrap();
    session.prompt("two").await.unwrap();
    let compacted = session.prompt("/compact").await;
    let requests = model.requests().len();
    session.prompt("three").await.unwrap();
    let sent = model.shown().rsplit("--\n").next().unwrap_or_default().to_owned();
    expected.assert_eq(&format!(
        "{} after {requests} requests\n{}{sent}--\n{}",
        ending(&compacted),
        diary.shown(),
        transcript(&session)
    ));
}

/// P12, L1: a hook supplies the summary, so the model is not asked for one.
#[tokio::test]
async fn p12_l1_compact_pre_may_give_the_summary() {
    let give = |event: &CompactPreEvent| {
        CompactPreChange::Summary(format!("{} messages, {}", event.messages.len(), event.trigger))
    };
    check_compaction(|builder| builder.transform(CompactPre, named("mine", give)), expect![[r#"
        end_turn after 2 requests
        forced by Some("mine"): [Summary of the conversation so far]  4 messages, forced  [End of the summary; the conversation goes on from here]
        summary: [Summary of the conversation so far]

        4 messages, forced

        [End of the summary; the conversation goes on from here]
        user: three
        --
        user: one
        assistant: answer 1
        user: two
        assistant: answer 2
        compaction: [Summary of the conversation so far]

        4 messages, forced

        [End of the summary; the conversation goes on from here]
        user: three
        assistant: answer 3
    "#]]).await;
}

/// P12, L1: a hook refuses the compaction, and nothing changes.
#[tokio::test]
async fn p12_l1_compact_pre_may_refuse() {
    let gate = |_: &CompactPreEvent| Admission::Block("not while we count".into());
    check_compaction(|builder| builder.gate(CompactPre, named("counter", gate)), expect![[r#"
        error: command: command "/compact" failed: hook "counter" refused the compaction: not while we count after 2 requests
        user: one
        assistant: answer 1
        user: two
        assistant: answer 2
        user: three
        --
        user: one
        assistant: answer 1
        user: two
        assistant: answer 2
        user: three
        assistant: answer 3
    "#]]).await;
    let stop = |_: &CompactPreEvent| CompactPreChange::Block("no".into());
    check_compaction(|builder| builder.transform(CompactPre, named("stop", stop)), expect![[r#"
        error: command: command "/compact" failed: hook "stop" refused the compaction: no after 2 requests
        user: one
        assistant: answer 1
        user: two
        assistant: answer 2
        user: three
        --
        user: one
        assistant: answer 1
        user: two
        assistant: answer 2
        user: three
        assistant: answer 3
    "#]]).await;
}

/// P12: if a hook fails, the built-in summary is used.
#[tokio::test]
async fn p12_failed_summary_hook_uses_the_builtin_summary() {
    let burst = |_: &CompactPreEvent| -> CompactPreChange { panic!("boo") };
    check_compaction(|builder| builder.transform(CompactPre, burst), expect![[r#"
        end_turn after 3 requests
        forced by None: [Summary of the conversation so far]  answer 3  [End of the summary; the conversation goes on from here]
        summary: [Summary of the conversation so far]

        answer 3

        [End of the summary; the conversation goes on from here]
        user: three
        --
        user: one
        assistant: answer 1
        user: two
        assistant: answer 2
        compaction: [Summary of the conversation so far]

        answer 3

        [End of the summary; the conversation goes on from here]
        user: three
        assistant: answer 4
    "#]]).await;
}

/// P7, P12: a compaction near the end of the window and one after an overflow run the same hooks.
#[tokio::test]
async fn p7_p12_threshold_and_overflow_use_the_same_compaction() {
    let full = Usage { input_tokens: 900, ..Usage::default() };
    let script = [
        Step::text("one").and_usage(full),
        Step::text("two"),
        Step::error(ModelErrorKind::ContextOverflow),
        Step::text("three"),
    ];
    let model = Windowed(RecordingModel::new(ScriptedModel::new(script)), Some(1000));
    let diary = Diary::default();
    let writes = diary.clone();
    let long = "words ".repeat(100);
    let agent = Agent::builder(model.clone())
        .transform(CompactPre, move |event: &CompactPreEvent| {
            writes.add(format!(
                "{} {} of {}",
                event.trigger,
                event.messages.len(),
                event.tokens_before
            ));
            CompactPreChange::Summary("the sum".into())
        })
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let mut shown = String::new();
    for prompt in ["first", "second", "third"] {
        let (events, reply) = to_the_end(session.prompt(format!("{prompt} {long}"))).await;
        let told = events.lines().filter(|line| line.starts_with("compaction"));
        shown += &format!("{}: {}\n", ending(&reply), told.collect::<Vec<_>>().join(" "));
    }
    expect![[r#"
        end_turn: 
        end_turn: compaction_start compaction_end
        end_turn: compaction_start compaction_end
        threshold 2 of 1052
        overflow 2 of 331
    "#]]
    .assert_eq(&format!("{shown}{}", diary.shown()));
    let last = model.0.requests().pop().expect("there was one");
    let sent: Vec<_> = last
        .messages
        .iter()
        .map(|message| message.text().chars().take(12).collect::<String>())
        .collect();
    assert_eq!(sent, ["[Summary of ", "two", "third words "], "the request that was tried again");
}

/// L1: `user.prompt.submit` rewrites, refuses and observes. The typed text is kept too.
#[tokio::test]
async fn l1_user_prompt_submit_rewrites_refuses_and_observes() {
    let (model, diary) = (answering_model(2), Diary::default());
    let writes = diary.clone();
    let agent = Agent::builder(model.clone())
        .transform(
            UserPromptSubmit,
            named("polite", |event: &UserPromptSubmitEvent| {
                UserPromptSubmitChange::Prompt(format!("{}, please", event.prompt))
            }),
        )
        .transform(
            UserPromptSubmit,
            named("shout", |event: &UserPromptSubmitEvent| {
                match event.raw_prompt.contains("quiet") {
                    true => UserPromptSubmitChange::Keep,
                    false => UserPromptSubmitChange::Prompt(event.prompt.to_uppercase()),
                }
            }),
        )
        .gate(
            UserPromptSubmit,
            named("guard", |event: &UserPromptSubmitEvent| match event.prompt.contains("NO") {
                true => Admission::Block("not that".into()),
                false => Admission::Pass,
            }),
        )
        .observe(UserPromptSubmit, move |event: &UserPromptSubmitEvent| {
            writes.add(format!("{:?} was {:?}", event.prompt, event.raw_prompt));
        })
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    for prompt in ["hello", "say no", "quiet now"] {
        diary.add(ending(&session.prompt(prompt).await));
    }
    for entry in session.entries().iter() {
        if let Some(Message::User(user)) = entry.message() {
            diary.add(format!("{:?}", user.rewritten));
        }
    }
    expect![[r#"
        "HELLO, PLEASE" was "hello"
        end_turn
        blocked: blocked: hook "guard" refused the prompt: not that
        "quiet now, please" was "quiet now"
        end_turn
        Some(RewriteLog { raw: "hello", rewrites: [Rewrite { by: "polite", text: "hello, please" }, Rewrite { by: "shout", text: "HELLO, PLEASE" }] })
        Some(RewriteLog { raw: "quiet now", rewrites: [Rewrite { by: "polite", text: "quiet now, please" }] })
        --
        user: HELLO, PLEASE
        assistant: answer 1
        user: quiet now, please
        assistant: answer 2
    "#]].assert_eq(&format!("{}--\n{}", diary.shown(), transcript(&session)));
}

/// L1: `turn.end` continues the run with a reason, at most eight times in a row.
#[tokio::test]
async fn l1_turn_end_gate_continues_the_run_at_most_eight_times() {
    let model = answering_model(30);
    let more =
        |event: &TurnEndEvent| TurnEndVerdict::GoOn(format!("{} so far", event.continued_in_row));
    let agent = Agent::builder(model.clone()).gate(TurnEnd, named("more", more)).build().unwrap();
    let session = fresh(&agent).await;
    let reply = session.prompt("go").await.unwrap();
    assert_eq!((reply.reason.as_str(), reply.steps), ("end_turn", 9));
    expect![[r#"
        user: go
        assistant: answer 1
        note: <system-reminder>
        Hook "more" asks you to continue: 0 so far
        </system-reminder>
        assistant: answer 2
        note: <system-reminder>
        Hook "more" asks you to continue: 1 so far
        </system-reminder>"#]]
    .assert_eq(&transcript(&session).lines().take(9).collect::<Vec<_>>().join("\n"));
}
