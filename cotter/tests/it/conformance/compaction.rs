//! Compaction: when it is due, the position of the cut, the source of the summary, and the rest of the
//! session.

use std::sync::Arc;

use cotter::{
    Agent, AgentBuilder, Command, HookCx, Message, Session, Skill,
    history::{
        entry::{Compaction, EntryBody},
        message::{
            AssistantMessage, AssistantPart, Content, ContentPart, StopReason, ToolCall,
            ToolResultMessage, Usage,
        },
    },
    hooks::points::{
        Admission, CompactPost, CompactPostEvent, CompactPre, CompactPreChange, CompactPreEvent,
    },
    invoke::command::{CommandCx, CommandResult},
    named,
};
use cotter_test::{RecordingModel, ScriptedModel, Step, transcript};
use serde_json::json;

use super::kit::{Log, Played, Stage, assert_contains};
use crate::kit::Windowed;

/// An agent with a window and a command `compact`, which reports its error.
fn windowed<const N: usize>(
    window: u64,
    steps: [Step; N],
    build: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> (Agent, RecordingModel<ScriptedModel>) {
    let model = RecordingModel::new(ScriptedModel::new(steps));
    let agent = Agent::builder(Windowed(model.clone(), Some(window))).define_command(compact());
    (build(agent).build().expect("the case is well formed"), model)
}

fn compact() -> Command {
    Command::new("compact", |cx: CommandCx| async move {
        cx.controls.force_compaction().await.map(|()| CommandResult::Nothing)
    })
}

fn reply(parts: Vec<AssistantPart>, tokens: u64) -> Message {
    Message::Assistant(AssistantMessage {
        parts,
        model: "test/scripted".into(),
        usage: Usage { input_tokens: tokens, ..Usage::default() },
        stop_reason: StopReason::EndTurn,
    })
}

fn result(id: &str, content: Content) -> Message {
    Message::ToolResult(ToolResultMessage {
        call_id: id.into(),
        tool_name: "t".into(),
        content,
        error: None,
        render_data: None,
    })
}

fn tool_call(id: &str) -> AssistantPart {
    let input = Arc::new(json!({"x": 1}));
    AssistantPart::ToolCall(ToolCall { id: id.into(), name: "ab".into(), input })
}

/// Fills the main session with these messages through a command.
async fn filled_session(agent: &Agent, messages: Vec<Message>) -> Session {
    agent
        .define_command(Command::new("fill", move |cx: CommandCx| {
            for message in messages.clone() {
                cx.controls.append_message(message).expect("it is stored");
            }
            async {}
        }))
        .expect("the name is free");
    let session = agent.main_session().await.expect("a session is made");
    session.prompt("/fill").await.expect("it fills");
    session
}

/// Returns the estimated tokens of a context of one message.
async fn count_tokens(message: Message) -> u64 {
    count_all_tokens(vec![message]).await
}

async fn count_all_tokens(messages: Vec<Message>) -> u64 {
    let count = Command::new("count", |cx: CommandCx| async move {
        CommandResult::status(cx.controls.counts().context_tokens.to_string())
    });
    let (agent, _) = windowed(1000, [], |agent| agent.define_command(count));
    let session = filled_session(&agent, messages).await;
    session.prompt("/count").await.expect("it counts").text().parse().expect("a number")
}

pub(super) async fn all_tokens_of_a_reply_count() {
    let usage = Usage { input_tokens: 1000, output_tokens: 500, cache_read: 200, cache_write: 100 };
    let Message::Assistant(said) = reply(vec![AssistantPart::Text("a".into())], 0) else {
        unreachable!("it is a reply")
    };
    assert_eq!(count_tokens(Message::Assistant(AssistantMessage { usage, ..said })).await, 1800);
}

pub(super) async fn tokens_are_estimated() {
    let parts = vec![
        AssistantPart::Text("1234".into()),
        AssistantPart::Thinking { text: "12345678".into(), signature: None },
        tool_call("1"),
    ];
    let picture = ContentPart::Image { media_type: "i".into(), data: "x".into() };
    let Message::User(summary) = Compaction::new("12345678", "".into(), 0).message else {
        unreachable!("a summary stands in the person's place")
    };
    assert_eq!(count_tokens(Message::user("12345")).await, 2);
    assert_eq!(count_tokens(reply(parts, 0)).await, 6);
    let call = reply(vec![tool_call("1")], 0);
    let pair = vec![call.clone(), result("1", Content::Parts(vec![picture]))];
    assert_eq!(count_all_tokens(pair).await - count_tokens(call).await, 1200);
    assert_eq!(count_tokens(Message::User(summary)).await, 2);
}

/// True if a prompt triggers a compaction when the context has that many tokens with it.
async fn is_due(tokens: u64, compact_at: Option<f64>) -> bool {
    let steps = [Step::text("one"), Step::text("two")];
    let (agent, model) =
        windowed(100_000, steps, |agent| agent.limits(|limits| limits.compact_at = compact_at));
    let said = vec![AssistantPart::Text("a".into())];
    // Recent messages are kept after a summary, so an older message is needed.
    let older = Message::user("u".repeat(100_000));
    let session = filled_session(&agent, vec![older, reply(said, tokens - 1)]).await;
    session.prompt("q").await.expect("a reply");
    model.requests().len() == 2
}

pub(super) async fn compaction_is_due_above_the_threshold() {
    let mut due = vec![];
    for tokens in [95_000, 89_000, 90_000, 90_001] {
        due.push(is_due(tokens, Some(0.9)).await);
    }
    assert_eq!(due, [true, false, false, true]);
}

pub(super) async fn compaction_is_never_due_if_disabled() {
    assert!(!is_due(95_000, None).await);
}

/// Compacts two turns with a call each and checks the first kept entry. Each message has 100 tokens. A
/// quarter of the window is kept.
pub(super) async fn compaction_cuts_at_the_expected_entry(keep: u64, first_kept: usize) {
    let (agent, _) = windowed(keep * 4, [Step::text("SUM")], |agent| agent);
    let words = || "x".repeat(400);
    // A call has a name and an input, so its text is shorter by their length.
    let calling = |id: &str| {
        let text = "x".repeat(400 - r#"ab{"x":1}"#.len());
        reply(vec![AssistantPart::Text(text), tool_call(id)], 0)
    };
    let turn = |id: &str| [Message::user(words()), calling(id), result(id, words().into())];
    let session = filled_session(&agent, [turn("1"), turn("2")].concat()).await;
    session.prompt("/compact").await.expect("it is summed up");
    let entries = session.entries();
    let Some(EntryBody::Compaction(made)) = entries.last().map(|entry| entry.body()) else {
        panic!("{}", transcript(&session));
    };
    assert_eq!(made.first_kept, *entries[first_kept].id());
    assert_eq!(session.messages().len(), 1 + 6 - first_kept);
}

pub(super) async fn a_long_result_is_cut_for_the_summary() {
    let (agent, model) = windowed(100, [Step::text("SUM")], |agent| agent);
    let messages = vec![
        Message::user("u"),
        reply(vec![tool_call("1")], 0),
        result("1", "x".repeat(5000).into()),
        Message::user("y".repeat(400)),
    ];
    let session = filled_session(&agent, messages).await;
    session.prompt("/compact").await.expect("it is summed up");
    let asked =
        model.requests()[0].messages.iter().map(|m| m.text().into_owned()).collect::<String>();
    let cut = "x".repeat(4096);
    assert_eq!(
        asked,
        format!(
            "<conversation>\n[Person]: u\n\n[Call]: ab {{\"x\":1}}\n\n[Result]: {cut}\n\
             [… 904 more bytes]\n</conversation>\n\nSum it up."
        )
    );
}

/// Runs one turn, then `/compact`, on an agent with compaction hooks.
async fn compacted(build: impl FnOnce(AgentBuilder) -> AgentBuilder) -> (Played, Stage) {
    let steps = [Step::text("first"), Step::text("MODEL'S")];
    let stage = Stage::new(steps, |agent| {
        build(agent).define_hook("compact", |cx: HookCx| async move {
            cx.controls.force_compaction().await
        })
    });
    stage.say("hello").await;
    let played = stage.say("/compact").await;
    (played, stage)
}

/// Returns the transcript of a session whose first turn was compacted.
fn compacted_transcript(summary: &str) -> String {
    format!(
        "user: hello\nassistant: first\ncompaction: [Summary of the conversation so far]\n\n\
         {summary}\n\n[End of the summary; the conversation goes on from here]\n"
    )
}

pub(super) async fn refused_compaction_changes_nothing() {
    let log = Log::default();
    let seen = log.clone();
    let (played, stage) = compacted(|agent| {
        agent
            .gate(CompactPre, named("no", |_: &CompactPreEvent| Admission::Block("not now".into())))
            .gate(CompactPre, move |_: &CompactPreEvent| {
                seen.add("second");
                Admission::Pass
            })
    })
    .await;
    let told = played.reply.error.as_ref().map(|failed| failed.message.as_str());
    let refused = "hook \"compact\" failed: hook \"no\" refused the compaction: not now";
    assert_eq!(told, Some(refused));
    assert_eq!(played.transcript, "user: hello\nassistant: first\n");
    assert!(log.lines().is_empty());
    assert_eq!(stage.model.requests().len(), 1);
}

/// Checks the summary after transforms at `compact.pre`, each of which gives a summary, keeps it or fails.
pub(super) async fn compaction_makes_the_expected_summary(
    hooks: &[Result<Option<&'static str>, &'static str>],
    summary: &str,
    failed: &[&str],
) {
    let log = Log::default();
    let seen = log.clone();
    let (played, stage) = compacted(|agent| {
        let agent = hooks.iter().copied().enumerate().fold(agent, |agent, (index, says)| {
            let name = format!("hook-{index}");
            let says = move |_: &CompactPreEvent| {
                says.map(|says| {
                    says.map_or(CompactPreChange::Keep, |s| CompactPreChange::Summary(s.into()))
                })
            };
            agent.transform(CompactPre, named(&*name, says))
        });
        agent.observe(CompactPost, move |done: &CompactPostEvent| {
            seen.add(format!("{} by {}", done.trigger, done.by.as_deref().unwrap_or("the model")));
        })
    })
    .await;
    // The script has no reply for the prompt after it; the summary is stored all the same.
    assert_contains(&played.transcript, &compacted_transcript(summary));
    let by = hooks.iter().rposition(|says| matches!(says, Ok(Some(_))));
    let by = by.map_or("the model".into(), |index| format!("hook-{index}"));
    assert_eq!(log.lines(), [format!("forced by {by}")]);
    let failures = played.find_events(&["hook compact.pre"]);
    let failures: Vec<_> = failures.iter().filter(|line| line.ends_with(" failed")).collect();
    assert_eq!(failures, failed);
    let asked = stage.model.requests().iter().any(|r| r.system.starts_with("You sum up"));
    assert_eq!(asked, summary == "MODEL'S");
}

pub(super) async fn compaction_of_nothing_is_an_error() {
    let (agent, model) = windowed(1000, [], |agent| agent);
    let session = agent.main_session().await.expect("a session is made");
    let error = session.prompt("/compact").await.expect_err("it is empty");
    assert_eq!(error.message, "command \"/compact\" failed: there is nothing to compact");
    assert_eq!((session.entries().len(), model.requests().len()), (0, 0));
}

pub(super) async fn a_reply_from_before_a_summary_does_not_count() {
    let (agent, model) = windowed(200_000, [Step::text("ok")], |agent| agent);
    let said = vec![AssistantPart::Text("a".into())];
    let session = filled_session(&agent, vec![Message::user("u"), reply(said, 610_000)]).await;
    let kept = session.entries()[0].id().clone();
    session.store_compaction(Compaction::new("S", kept, 610_000)).await.expect("it is stored");
    session.prompt("q").await.expect("a reply");
    assert_eq!(model.shown(), "summary: S\nuser: u\nassistant: a\nuser: q\n");
}

pub(super) async fn a_forced_compaction_comes_before_the_prompt() {
    let log = Log::default();
    let seen = log.clone();
    let steps = [Step::text("first"), Step::text("SUMMARY"), Step::text("after")];
    let stage = Stage::new(steps, |agent| {
        agent.define_hook("compact", move |cx: HookCx| {
            seen.add(format!("{:?} {:?}", cx.raw_text, cx.parsed_text));
            async move { cx.controls.force_compaction().await }
        })
    });
    stage.say("hello").await;
    let played = stage.say("/compact next?").await;
    assert_eq!(
        played.transcript,
        compacted_transcript("SUMMARY") + "user: next?\nassistant: after\n"
    );
    assert_eq!(
        stage.model.shown(),
        "user: hello\n--\n\
         user: <conversation>\n[Person]: hello\n\n[Agent]: first\n</conversation>\n\nSum it up.\n--\n\
         summary: [Summary of the conversation so far]\n\nSUMMARY\n\n\
         [End of the summary; the conversation goes on from here]\nuser: next?\n"
    );
    assert_eq!(log.lines(), [r#""/compact next?" "next?""#]);
    assert_eq!(played.reply.text(), "after");
}

pub(super) async fn called_skills_survive_a_compaction() {
    let invoke = |name: &str| Step::call("invoke_skill", json!({"name": name}));
    let steps = [
        invoke("a"),
        invoke("b"),
        invoke("a"),
        Step::text("done"),
        Step::text("SUMMARY"),
        Step::text("after"),
    ];
    let stage = Stage::new(steps, |agent| {
        agent
            .define_skill(Skill::text("a", "A's text").expose_to_agent())
            .define_skill(Skill::text("b", "B's text").expose_to_agent())
            .define_command(compact())
    });
    stage.play().await;
    stage.say("/compact").await;
    let played = stage.say("q").await;
    let skills = "<skill name=\"b\">\nB's text\n</skill>\n\n<skill name=\"a\">\nA's text\n</skill>";
    assert_eq!(
        played.sent(6),
        [
            format!(
                "user: [Summary of the conversation so far]\n\nSUMMARY\n\n\
                 [End of the summary; the conversation goes on from here]\n\n{skills}"
            ),
            "user: q".into(),
        ]
    );
}
