//! Compaction: near the end of the window, forced, and after a request that does not fit; by the model, by
//! a hook, or refused.

use cotter::{
    Agent, Command, FnTool, HookCx, Message, Permit, Session, Skill,
    history::message::UserMessageKind,
    hooks::{
        events::EventKind,
        points::{
            Admission, CompactPost, CompactPostEvent, CompactPre, CompactPreChange, CompactPreEvent,
        },
    },
    invoke::command::{CommandCx, CommandResult},
    model::ModelErrorKind,
    named,
    permission::{Zone, facts::Facts},
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, ending, fresh, spec, transcript};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::kit::{Windowed, files, plain_lines, used};

fn windowed(window: u64, steps: impl IntoIterator<Item = Step>) -> Windowed {
    Windowed(RecordingModel::new(ScriptedModel::new(steps)), Some(window))
}

fn without_window(steps: impl IntoIterator<Item = Step>) -> Windowed {
    Windowed(RecordingModel::new(ScriptedModel::new(steps)), None)
}

fn text(text: &str, tokens: u64) -> Step {
    Step::text(text).and_usage(used(tokens))
}

/// Registers `/compact` as a hook and `/squeeze` as a command.
fn with_compacting(builder: cotter::AgentBuilder) -> cotter::AgentBuilder {
    let squeeze = |cx: CommandCx| async move {
        cx.controls.force_compaction().await.map(|()| CommandResult::Status("squeezed".into()))
    };
    builder
        .define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await })
        .define_command(Command::new("squeeze", squeeze))
}

/// Runs prompts and checks the requests, the stored messages and the compaction events.
async fn check(agent: &Agent, model: &Windowed, prompts: &[&str], expected: Expect) -> Session {
    let session = fresh(agent).await;
    let mut events = session.events();
    let mut shown = String::new();
    for prompt in prompts {
        let reply = session.prompt(*prompt).await;
        let said = reply.as_ref().map(|reply| reply.text()).unwrap_or_default();
        shown.push_str(&format!("{prompt} -> {} {said:?}\n", ending(&reply)));
    }
    while let Some(event) = futures_util::FutureExt::now_or_never(events.next()) {
        match &event.kind {
            EventKind::CompactionStart { trigger } => {
                shown.push_str(&format!("compaction_start {trigger}\n"))
            }
            EventKind::CompactionEnd { status } => {
                shown.push_str(&format!("compaction_end {status}\n"))
            }
            EventKind::UiRequest { text, .. } => shown.push_str(&format!("told: {text}\n")),
            _ => {}
        }
    }
    expected.assert_eq(&format!(
        "{shown}sent:\n{}stored:\n{}",
        model.0.shown(),
        transcript(&session)
    ));
    session
}

/// G19: a compaction is due above 80 % of the window; a quarter of the window is kept after the summary.
#[tokio::test]
async fn g19_compaction_runs_above_80_percent_of_the_window() {
    let model =
        windowed(100, [text("one", 79), text("two", 81), text("SUM", 5), text("three", 20)]);
    let agent = Agent::builder(model.clone()).build().unwrap();
    check(
        &agent,
        &model,
        &["a", "b", "c"],
        expect![[r#"
            a -> end_turn "one"
            b -> end_turn "two"
            c -> end_turn "three"
            compaction_start threshold
            compaction_end success
            sent:
            user: a
            --
            user: a
            assistant: one
            user: b
            --
            user: <conversation>
            [Person]: a

            [Agent]: one
            </conversation>

            Sum it up.
            --
            summary: [Summary of the conversation so far]

            SUM

            [End of the summary; the conversation goes on from here]
            user: b
            assistant: two
            user: c
            stored:
            user: a
            assistant: one
            user: b
            assistant: two
            user: c
            compaction: [Summary of the conversation so far]

            SUM

            [End of the summary; the conversation goes on from here]
            assistant: three
        "#]],
    )
    .await;
}

/// G19: a conversation that compaction cannot shorten is not compacted at every step, and the person is
/// told.
#[tokio::test]
async fn g19_compaction_is_not_repeated_if_it_cannot_shorten() {
    let call = |tokens| Step::call("ping", json!({})).and_usage(used(tokens));
    let steps = [text("one", 90), text("SUM", 5), call(91), call(95), call(130), text("SUM", 5)];
    let steps = steps.into_iter().chain([call(92), text("done", 93)]);
    let model = windowed(100, steps);
    let ping = FnTool::new(spec("ping"), |_: Permit| async { Ok("pong".into()) });
    let ping = ping.with_facts(Facts::zone(Zone::Safe));
    let agent = Agent::builder(model.clone()).tool(ping).build().unwrap();
    let session = fresh(&agent).await;
    let mut events = session.events();
    session.prompt("a").await.unwrap();
    session.prompt("b").await.unwrap();
    let mut shown = String::new();
    while let Some(event) = futures_util::FutureExt::now_or_never(events.next()) {
        match &event.kind {
            EventKind::CompactionStart { .. } => shown.push_str("summed up\n"),
            EventKind::UiRequest { text, .. } => shown.push_str(&format!("told: {text}\n")),
            EventKind::ModelPost(reply) => shown.push_str(&format!("{}\n", reply.input_tokens)),
            _ => {}
        }
    }
    expect![[r#"
        90
        summed up
        5
        91
        told: the context window is nearly full even after a compaction
        95
        130
        summed up
        5
        92
        told: the context window is nearly full even after a compaction
        93
    "#]]
    .assert_eq(&shown);
}

/// Below the threshold nothing happens. Without a window or a threshold there is never a compaction.
#[tokio::test]
async fn g19_no_compaction_below_the_threshold() {
    let quiet = [
        (windowed(100, [text("x", 79), text("y", 1)]), Some(0.8)),
        (without_window([text("x", 1_000_000), text("y", 1)]), Some(0.8)),
        (windowed(100, [text("x", 1_000_000), text("y", 1)]), None),
        (windowed(100, [text("x", 94), text("y", 1)]), Some(0.95)),
    ];
    for (model, share) in quiet {
        let agent = Agent::builder(model.clone())
            .limits(|limits| limits.compact_at = share)
            .build()
            .unwrap();
        agent.process_request("a").await.unwrap();
        agent.process_request("b").await.unwrap();
        assert_eq!(model.0.requests().len(), 2, "{share:?}");
    }
}

#[tokio::test]
async fn g19_g18_compaction_can_be_forced_from_a_hook() {
    let model = without_window([text("one", 10), text("SUM", 5), text("two", 4)]);
    let agent = with_compacting(Agent::builder(model.clone())).build().unwrap();
    check(
        &agent,
        &model,
        &["a", "/compact b"],
        expect![[r#"
        a -> end_turn "one"
        /compact b -> end_turn "two"
        compaction_start forced
        compaction_end success
        sent:
        user: a
        --
        user: <conversation>
        [Person]: a

        [Agent]: one
        </conversation>

        Sum it up.
        --
        summary: [Summary of the conversation so far]

        SUM

        [End of the summary; the conversation goes on from here]
        user: b
        stored:
        user: a
        assistant: one
        compaction: [Summary of the conversation so far]

        SUM

        [End of the summary; the conversation goes on from here]
        user: b
        assistant: two
    "#]],
    )
    .await;
}

#[tokio::test]
async fn g19_compaction_can_be_forced_from_a_command() {
    let model = without_window([text("one", 10), text("SUM", 5), text("two", 4)]);
    let agent = with_compacting(Agent::builder(model.clone())).build().unwrap();
    check(
        &agent,
        &model,
        &["a", "/squeeze", "b"],
        expect![[r#"
        a -> end_turn "one"
        /squeeze -> end_turn "squeezed"
        b -> end_turn "two"
        compaction_start forced
        compaction_end success
        sent:
        user: a
        --
        user: <conversation>
        [Person]: a

        [Agent]: one
        </conversation>

        Sum it up.
        --
        summary: [Summary of the conversation so far]

        SUM

        [End of the summary; the conversation goes on from here]
        user: b
        stored:
        user: a
        assistant: one
        compaction: [Summary of the conversation so far]

        SUM

        [End of the summary; the conversation goes on from here]
        user: b
        assistant: two
    "#]],
    )
    .await;
}

/// A compaction that a tool requests runs before the next request, and counts as forced.
#[tokio::test]
async fn g19_g17_compaction_requested_by_a_tool_runs_before_the_next_request() {
    let tool = FnTool::new(spec("tidy"), |permit| async move {
        permit
            .cx()
            .controls()
            .force_compaction()
            .await
            .map_err(|error| cotter::ToolError::failed(error.message))?;
        Ok("will do".into())
    });
    let model = without_window([
        text("one", 10),
        Step::call("tidy", json!({})),
        text("SUM", 5),
        text("two", 4),
    ]);
    let agent = Agent::builder(model.clone())
        .tool(tool.with_facts(Facts::zone(Zone::Safe)))
        .build()
        .unwrap();
    check(
        &agent,
        &model,
        &["a", "tidy up"],
        expect![[r#"
            a -> end_turn "one"
            tidy up -> end_turn "two"
            compaction_start forced
            compaction_end success
            sent:
            user: a
            --
            user: a
            assistant: one
            user: tidy up
            --
            user: <conversation>
            [Person]: a

            [Agent]: one

            [Person]: tidy up

            [Call]: tidy {}

            [Result]: will do
            </conversation>

            Sum it up.
            --
            summary: [Summary of the conversation so far]

            SUM

            [End of the summary; the conversation goes on from here]
            stored:
            user: a
            assistant: one
            user: tidy up
            call c2.1: tidy {}
            result c2.1: will do
            compaction: [Summary of the conversation so far]

            SUM

            [End of the summary; the conversation goes on from here]
            assistant: two
        "#]],
    )
    .await;
}

#[tokio::test]
async fn g19_compaction_of_an_empty_session_is_an_error() {
    let model = without_window([]);
    let agent = with_compacting(Agent::builder(model.clone())).build().unwrap();
    check(
        &agent,
        &model,
        &["/compact a", "/squeeze"],
        expect![[r#"
            /compact a -> error: hook: hook "compact" failed: there is nothing to compact ""
            /squeeze -> error: command: command "/squeeze" failed: there is nothing to compact ""
            compaction_start forced
            compaction_end failed
            compaction_start forced
            compaction_end failed
            sent:
            stored:
        "#]],
    )
    .await;
}

/// A request that does not fit is retried once after a compaction.
#[tokio::test]
async fn g19_l21_overflowing_request_is_compacted_and_retried_once() {
    let overflow = || Step::error(ModelErrorKind::ContextOverflow);
    let model = without_window([
        text(&"one ".repeat(30_000), 10),
        overflow(),
        text("SUM", 5),
        text("two", 4),
        overflow(),
        text("SUM 2", 5),
        overflow(),
    ]);
    let agent = Agent::builder(model.clone()).build().unwrap();
    let session = fresh(&agent).await;
    session.prompt("a").await.unwrap();
    assert_eq!(session.prompt("b").await.unwrap().text(), "two");
    assert_eq!(model.0.requests().len(), 4);
    let sent: Vec<_> =
        model.0.requests()[3].messages.iter().map(|m| m.text().into_owned()).collect();
    assert!(sent[0].contains("SUM") && sent.last().unwrap() == "b", "{sent:?}");
    session.prompt("c ".repeat(100_000)).await.unwrap_err();
    assert_eq!(model.0.requests().len(), 7);
}

#[tokio::test]
async fn p12_g19_compact_pre_gate_may_refuse() {
    let model = windowed(100, [text("one", 90), text("two", 90)]);
    let no = |_: &CompactPreEvent| Admission::Block("not today".into());
    let agent =
        with_compacting(Agent::builder(model.clone()).gate(CompactPre, named("keeper", no)))
            .build()
            .unwrap();
    check(&agent, &model, &["a", "b", "/squeeze", "/compact c"], expect![[r#"
        a -> end_turn "one"
        b -> end_turn "two"
        /squeeze -> error: command: command "/squeeze" failed: hook "keeper" refused the compaction: not today ""
        /compact c -> error: hook: hook "compact" failed: hook "keeper" refused the compaction: not today ""
        compaction_start threshold
        compaction_end refused
        told: hook "keeper" refused the compaction: not today
        compaction_start forced
        compaction_end refused
        compaction_start forced
        compaction_end refused
        sent:
        user: a
        --
        user: a
        assistant: one
        user: b
        stored:
        user: a
        assistant: one
        user: b
        assistant: two
    "#]]).await;
}

fn post(diary: &Diary) -> impl Fn(&CompactPostEvent) + Send + Sync + 'static + use<> {
    let diary = diary.clone();
    move |done| {
        diary.add(format!(
            "{} {} by {:?}: {:?}",
            done.trigger, done.tokens_before, done.by, done.summary
        ))
    }
}

#[tokio::test]
async fn p12_compact_pre_transform_may_give_the_summary() {
    let diary = Diary::default();
    let model = without_window([text("one", 10), text("two", 4)]);
    let ours = |event: &CompactPreEvent| {
        CompactPreChange::Summary(format!("ours of {} for {}", event.messages.len(), event.trigger))
    };
    let agent = with_compacting(
        Agent::builder(model.clone())
            .transform(CompactPre, named("ours", ours))
            .observe(CompactPost, post(&diary)),
    )
    .build()
    .unwrap();
    check(
        &agent,
        &model,
        &["a", "/compact b"],
        expect![[r#"
        a -> end_turn "one"
        /compact b -> end_turn "two"
        compaction_start forced
        compaction_end success
        sent:
        user: a
        --
        summary: [Summary of the conversation so far]

        ours of 2 for forced

        [End of the summary; the conversation goes on from here]
        user: b
        stored:
        user: a
        assistant: one
        compaction: [Summary of the conversation so far]

        ours of 2 for forced

        [End of the summary; the conversation goes on from here]
        user: b
        assistant: two
    "#]],
    )
    .await;
    expect![[r#"
        forced 10 by Some("ours"): "[Summary of the conversation so far]\n\nours of 2 for forced\n\n[End of the summary; the conversation goes on from here]"
    "#]].assert_eq(&diary.shown());
}

#[tokio::test(start_paused = true)]
async fn p12_failed_compact_pre_transform_leaves_the_summary_to_the_model() {
    for way in ["fails", "panics", "hangs"] {
        let diary = Diary::default();
        let model = without_window([text("one", 10), text("SUM", 5), text("two", 4)]);
        let broken = move |_: cotter::At<CompactPre>| async move {
            match way {
                "fails" => Err("no luck"),
                "panics" => panic!("no luck"),
                _ => Ok(std::future::pending::<CompactPreChange>().await),
            }
        };
        let agent = with_compacting(
            Agent::builder(model).transform(CompactPre, broken).observe(CompactPost, post(&diary)),
        )
        .build()
        .unwrap();
        agent.process_request("a").await.unwrap();
        assert_eq!(agent.process_request("/compact b").await.unwrap().text(), "two", "{way}");
        assert!(
            diary.shown().starts_with("forced 10 by None: \"[Summary")
                && diary.shown().contains("SUM"),
            "{way}: {}",
            diary.shown()
        );
    }
}

/// A summary that fails, is empty or is cancelled changes neither the session nor its counters.
#[tokio::test(start_paused = true)]
async fn g19_failed_compaction_changes_no_entries_and_no_counters() {
    let ways: [(&str, Vec<Step>); 3] = [
        ("fails", vec![Step::error(ModelErrorKind::BadRequest)]),
        ("is empty", vec![text("", 3)]),
        ("hangs", vec![Step::text("half a ").and_hang()]),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (way, steps) in ways {
        let again = [text("SUM", 5), text("after", 7)];
        let model = without_window([text("one", 10_000)].into_iter().chain(steps).chain(again));
        let agent = with_compacting(Agent::builder(model.clone()).store(files(folder.path())))
            .define_command(Command::new("count", |cx: CommandCx| async move {
                let counts = cx.controls.counts();
                CommandResult::Status(format!(
                    "{} {} {}",
                    counts.messages, counts.entries, counts.context_tokens
                ))
            }))
            .build()
            .unwrap();
        let session = fresh(&agent).await;
        session.prompt("a").await.unwrap();
        let entries = || -> Vec<_> {
            let lines = plain_lines(&**agent.store(), session.id());
            lines.into_iter().filter(|line| line.get("parentId").is_some()).collect()
        };
        let before = (entries(), session.prompt("/count").await.unwrap().text());
        assert_eq!(before.1, "2 2 10000");
        let mut events = session.events();
        let run = session.prompt("/compact b");
        let cancel = run.cancel_token();
        let reply = tokio::join!(run, async {
            // The run is cancelled after the compaction has started.
            if way == "hangs" {
                while !matches!(events.next().await.kind, EventKind::CompactionStart { .. }) {}
                tokio::task::yield_now().await;
                cancel.cancel();
            }
        })
        .0;
        let wanted = if way == "hangs" { "aborted" } else { "error: hook" };
        assert!(ending(&reply).starts_with(wanted), "{way}: {}", ending(&reply));
        let after = (entries(), session.prompt("/count").await.unwrap().text());
        assert_eq!(before, after, "{way}");
        assert_eq!(session.prompt("/compact b").await.unwrap().text(), "after", "{way}");
        let counted = session.prompt("/count").await.unwrap().text();
        assert_eq!(counted, "3 5 7", "{way}: summary, prompt and reply");
    }
}

/// History is kept: all entries are stored, and the model gets the summary, also after reopening.
#[tokio::test]
async fn g19_g22_compaction_keeps_history_and_marks_the_summary() {
    let folder = tempfile::tempdir().unwrap();
    let model = without_window([text("one", 1), text("SUM", 1), text("two", 1)]);
    let agent = with_compacting(Agent::builder(model).store(files(folder.path()))).build().unwrap();
    let session = fresh(&agent).await;
    session.prompt("a").await.unwrap();
    session.prompt("/compact b").await.unwrap();
    let (id, shown) = (session.id().clone(), transcript(&session));
    let messages =
        |session: &Session| -> Vec<Message> { session.messages().iter().cloned().collect() };
    let before = messages(&session);
    assert!(matches!(&before[0], Message::User(user) if user.kind == UserMessageKind::Compaction));
    assert_eq!(before.len(), 3);
    drop(session);
    let session = agent.session(&id).await.unwrap();
    assert_eq!((messages(&session), transcript(&session)), (before, shown.clone()));
    assert!(shown.starts_with("user: a\nassistant: one\ncompaction: "), "{shown}");
}

/// Active skills are attached to the summary again, the newest of each name, and to the next summary too.
#[tokio::test]
async fn g19_compaction_attaches_active_skills_again() {
    let model = without_window([
        text("1", 1),
        text("2", 1),
        text("SUM", 1),
        text("3", 1),
        text("SUM 2", 1),
        text("4", 1),
    ]);
    let agent = with_compacting(Agent::builder(model.clone()))
        .define_skill(Skill::new("tone", |cx| async move {
            Ok(format!("Tone: {}\n\n<skill name=\"fake\">", cx.parsed_text).into())
        }))
        .define_skill(Skill::text("other", "Other."))
        .build()
        .unwrap();
    check(
        &agent,
        &model,
        &["/tone a", "/other /tone b", "/compact c", "/compact d"],
        expect![[r#"
            /tone a -> end_turn "1"
            /other /tone b -> end_turn "2"
            /compact c -> end_turn "3"
            /compact d -> end_turn "4"
            compaction_start forced
            compaction_end success
            compaction_start forced
            compaction_end success
            sent:
            skill: <skill name="tone">
            Tone: a

            <skill name="fake">
            </skill>
            user: a
            --
            skill: <skill name="tone">
            Tone: a

            <skill name="fake">
            </skill>
            user: a
            assistant: 1
            skill: <skill name="other">
            Other.
            </skill>
            skill: <skill name="tone">
            Tone: b

            <skill name="fake">
            </skill>
            user: b
            --
            user: <conversation>
            [Person]: a

            [Agent]: 1

            [Person]: b

            [Agent]: 2
            </conversation>

            Sum it up.
            --
            summary: [Summary of the conversation so far]

            SUM

            [End of the summary; the conversation goes on from here]

            <skill name="other">
            Other.
            </skill>

            <skill name="tone">
            Tone: b

            <skill name="fake">
            </skill>
            user: c
            --
            user: <conversation>
            [Summary of the conversation so far]

            SUM

            [Person]: c

            [Agent]: 3
            </conversation>

            Sum it up.
            --
            summary: [Summary of the conversation so far]

            SUM 2

            [End of the summary; the conversation goes on from here]

            <skill name="other">
            Other.
            </skill>

            <skill name="tone">
            Tone: b

            <skill name="fake">
            </skill>
            user: d
            stored:
            skill: <skill name="tone">
            Tone: a

            <skill name="fake">
            </skill>
            user: a
            assistant: 1
            skill: <skill name="other">
            Other.
            </skill>
            skill: <skill name="tone">
            Tone: b

            <skill name="fake">
            </skill>
            user: b
            assistant: 2
            compaction: [Summary of the conversation so far]

            SUM

            [End of the summary; the conversation goes on from here]

            <skill name="other">
            Other.
            </skill>

            <skill name="tone">
            Tone: b

            <skill name="fake">
            </skill>
            user: c
            assistant: 3
            compaction: [Summary of the conversation so far]

            SUM 2

            [End of the summary; the conversation goes on from here]

            <skill name="other">
            Other.
            </skill>

            <skill name="tone">
            Tone: b

            <skill name="fake">
            </skill>
            user: d
            assistant: 4
        "#]],
    )
    .await;
}

/// A skill that exceeds the budget is left out whole.
#[tokio::test]
async fn g19_compaction_attaches_skills_within_a_budget() {
    let model = without_window([
        text("1", 1),
        text("2", 1),
        text(&"3".repeat(100_000), 1),
        text("SUM", 1),
        text("4", 1),
    ]);
    let agent = with_compacting(Agent::builder(model.clone()))
        .define_skill(Skill::text("small", "s"))
        .define_skill(Skill::text("large", "l".repeat(40 * 1024)))
        .define_skill(Skill::text("larger", "L".repeat(40 * 1024)))
        .build()
        .unwrap();
    for prompt in ["/small a", "/large b", "/larger c", "/compact d"] {
        agent.process_request(prompt).await.unwrap();
    }
    let summary =
        model.0.requests().pop().unwrap().messages.iter().next().unwrap().text().into_owned();
    let names: Vec<_> = ["small", "large", "larger"]
        .into_iter()
        .filter(|name| summary.contains(&format!("<skill name=\"{name}\">")))
        .collect();
    assert_eq!(names, ["small", "larger"]);
    assert!(summary.len() < 66 * 1024);
}

/// Messages that a `context` transform removed are not part of the summary's input.
#[tokio::test]
async fn p5_p7_g19_compaction_omits_messages_removed_by_context_transforms() {
    let model = without_window([text("one", 1), text("SUM", 1), text("two", 1)]);
    let hide = |build: &cotter::hooks::points::ContextEvent| {
        cotter::hooks::points::ContextChange::messages(
            build.messages.iter().filter(|m| !m.text().contains("secret")).cloned(),
        )
    };
    let agent = with_compacting(
        Agent::builder(model.clone()).transform(cotter::hooks::points::Context, hide),
    )
    .build()
    .unwrap();
    agent.process_request("the secret").await.unwrap();
    agent.process_request("/compact b").await.unwrap();
    let asked = model.0.requests()[1].messages.iter().next().unwrap().text().into_owned();
    assert!(!asked.contains("secret") && asked.contains("[Agent]: one"), "{asked}");
}

/// The usage of a compaction counts for the run.
#[tokio::test]
async fn g19_l21_usage_of_a_compaction_counts_for_the_run() {
    let model = without_window([text("one", 1), text("SUM", 10), text("two", 100)]);
    let agent = with_compacting(Agent::builder(model)).build().unwrap();
    agent.process_request("a").await.unwrap();
    assert_eq!(agent.process_request("/compact b").await.unwrap().usage.input_tokens, 110);
}
