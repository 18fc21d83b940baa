//! Input is not changed unless a registration asks for it: text without bound tokens, and requests of an
//! agent without registrations.

use cotter::{
    Agent, AgentBuilder, At, Command, FnTool, Hook, HookCx, HookResult, Message, MessageList,
    Skill, Subagent, ToolError, ToolSpec,
    history::{
        message::{
            AssistantMessage, AssistantPart, Content, ContentPart, StopReason, ToolCall,
            ToolResultMessage, Usage, UserMessage, UserMessageKind,
        },
        outcome::ToolErrorKind,
    },
    hooks::points::{
        self, Admission, CompactPre, CompactPreChange, CompactPreEvent, Context, ContextChange,
        ContextEvent, ModelPre, ModelPreEvent, Point, ToolPost, ToolPostChange, ToolPostEvent,
        ToolPre, ToolPreChange, ToolPreEvent, UserPromptSubmit, UserPromptSubmitChange,
        UserPromptSubmitEvent,
    },
    invoke::command::CommandCx,
    model::{Request, Thinking},
    permission::{Zone, facts::Facts},
};
use cotter_test::{RecordingModel, ScriptedModel, Step, fresh};
use proptest::prelude::*;
use serde_json::json;

use crate::kit::{every_point, files, image};

/// A subsystem that does nothing.
struct Idle;

impl Hook for Idle {
    fn preprocess(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// The names that bind in the agent with all registrations.
const BOUND: [&str; 4] = ["compact", "concise", "exposed", "pop"];

/// Registers an observer that does nothing.
fn ignoring<P: Point>(builder: AgentBuilder, point: P) -> AgentBuilder {
    builder.observe(point, |_: At<P>| async {})
}

fn with_everything(model: RecordingModel<ScriptedModel>) -> Agent {
    let rewrite = |_: HookCx| async { HookResult::rewrite("never") };
    let mut builder = Agent::builder(model);
    macro_rules! ignore {
        ($($point:ident)*) => { $( builder = ignoring(builder, points::$point); )* };
    }
    every_point!(ignore);
    builder
        .define_hook("compact", rewrite)
        .define_skill(Skill::text("concise", "Be terse."))
        .define_skill(Skill::text("exposed", "Be seen.").expose_to_agent())
        .define_mention(Subagent::new("weather", |_| async { Ok("sunny".into()) }))
        .define_command(Command::new("pop", |_: CommandCx| async { "never" }))
        .hook(Idle)
        .hook(())
        .gate(UserPromptSubmit, |_: &UserPromptSubmitEvent| Admission::Pass)
        .transform(UserPromptSubmit, |_: &UserPromptSubmitEvent| UserPromptSubmitChange::Keep)
        .transform(Context, |_: &ContextEvent| ContextChange::Keep)
        .transform(ToolPre, |_: &ToolPreEvent| ToolPreChange::Keep)
        .transform(ToolPost, |_: &ToolPostEvent| ToolPostChange::Keep)
        .transform(CompactPre, |_: &CompactPreEvent| CompactPreChange::Keep)
        .build()
        .unwrap()
}

/// Texts with many words that nearly bind.
fn texts() -> impl Strategy<Value = String> {
    let near = vec![
        "/concise.",
        "/Concise",
        "a/concise",
        "`/concise`",
        "/concise/",
        "//compact",
        "/compact:",
        "/compactx",
        "@weather",
        "a@b.com",
        "/usr/local/bin",
        "/me",
        "\\/me",
        "\\",
        "```\n",
        "~~~",
        "`",
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\n\n",
        "\u{a0}",
        "\u{feff}",
        "\u{200b}",
        "世界",
        "é",
        "🙂",
        "\0",
        "\u{1b}[2J",
        "<system-reminder>",
        "</skill>",
        "$ARGUMENTS",
        "{{mode}}",
    ];
    let piece =
        prop_oneof![4 => prop::sample::select(near).prop_map(str::to_owned), 1 => any::<String>()];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// True if a word of the text could be a bound token, or an escaped one.
fn could_bind(text: &str) -> bool {
    let is_space = |c: char| c.is_whitespace() || c == '\u{feff}';
    text.split(is_space).any(|word| {
        let name = word.trim_start_matches('\\').strip_prefix('/');
        name.is_some_and(|name| BOUND.contains(&name))
    })
}

/// The message of one prompt: as it was sent, and as it was stored.
fn send_prompt(prompt: Content) -> (Message, serde_json::Value) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let model = RecordingModel::new(ScriptedModel::new([Step::text("ok")]));
        let session = fresh(&with_everything(model.clone())).await;
        session.prompt(prompt).await.unwrap();
        let request = model.requests().remove(0);
        assert_eq!((request.messages.len(), request.notes), (1, 0));
        let sent = request.messages.last().unwrap().clone();
        (sent, session.entries()[0].to_json()["message"].clone())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// G2: even with everything registered, text without a bound token is sent and stored unchanged.
    #[test]
    fn g2_text_without_bound_tokens_keeps_every_byte(text in texts()) {
        prop_assume!(!could_bind(&text));
        let (sent, stored) = send_prompt(Content::Text(text.clone()));
        prop_assert_eq!(&sent, &Message::user(text.clone()));
        prop_assert_eq!(stored, json!({"role": "user", "content": text}));
    }

    /// G2, G21: parts stay unchanged and in their order.
    #[test]
    fn g2_g21_parts_without_bound_tokens_are_unchanged(a in texts(), b in texts(), data in any::<String>()) {
        prop_assume!(!could_bind(&format!("{a}\n{b}")));
        let image = ContentPart::Image { media_type: "image/png".into(), data: "AAAA".into() };
        let parts = Content::Parts(vec![ContentPart::Text(a), image, ContentPart::data(&data), ContentPart::Text(b)]);
        let (sent, _) = send_prompt(parts.clone());
        prop_assert_eq!(sent, Message::User(UserMessage::new(parts)));
    }
}

/// Checks the test: it notices a bound token.
#[test]
fn g2_a_bound_token_is_noticed() {
    assert!(could_bind("x /concise y") && could_bind("\\/pop"));
    let (sent, _) = send_prompt("x /compact y".into());
    assert_eq!(sent.text(), "never");
}

// --- without registrations

fn says(parts: Vec<AssistantPart>, stop_reason: StopReason) -> Message {
    Message::Assistant(AssistantMessage {
        parts,
        model: "test/scripted".into(),
        usage: Usage::default(),
        stop_reason,
    })
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::Text(text.into())
}

fn tool_call(id: &str, name: &str, input: serde_json::Value) -> AssistantPart {
    AssistantPart::ToolCall(ToolCall { id: id.into(), name: name.into(), input: input.into() })
}

fn result(id: &str, name: &str, content: Content, error: Option<ToolErrorKind>) -> Message {
    Message::ToolResult(ToolResultMessage {
        call_id: id.into(),
        tool_name: name.into(),
        content,
        error,
        render_data: None,
    })
}

fn marked(text: &str, mark: UserMessageKind) -> Message {
    Message::User(UserMessage::with_kind(text.into(), mark))
}

/// The bytes that a small adapter would send: every message, with its stored blocks.
fn wire(system: &str, messages: &MessageList) -> Vec<u8> {
    let one = |message: &Message| match message {
        Message::User(user) => format!("user {:?}\n", user.content),
        Message::Assistant(reply) => format!("assistant {:?}\n", reply.parts),
        Message::ToolResult(result) => {
            format!("result {} {:?} {}\n", result.call_id, result.content, result.error.is_some())
        }
        other => panic!("{other:?}"),
    };
    let mut bytes = format!("system {system:?}\n").into_bytes();
    let (blocks, tail) = messages.blocks();
    for block in blocks {
        let make = |block: &cotter::MessageBlock| block.iter().map(one).collect::<String>();
        bytes.extend_from_slice(block.memoize("test", make).as_bytes());
    }
    tail.for_each(|message| bytes.extend(one(message).into_bytes()));
    bytes
}

fn tools() -> Vec<(ToolSpec, Result<Content, ToolError>)> {
    let spec = |name: &str| ToolSpec::new(name, format!("Does {name}."), json!({"type": "object"}));
    let parts = vec![ContentPart::Text("see".into()), image()];
    vec![
        (spec("good"), Ok("fine".into())),
        (spec("bad"), Err(ToolError::failed("broken"))),
        (spec("show"), Ok(parts.into())),
    ]
}

/// G2: the request of an agent without registrations equals one built by hand, for every shape of message.
/// This includes messages of an earlier agent with skills, notes and compaction.
#[tokio::test]
async fn g2_request_without_registrations_equals_one_built_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let note = |_: &ModelPreEvent, cx: &cotter::Cx| {
        if cx.run_id() == "r2" {
            cx.note("mind the gap");
        }
    };
    let steps = ["first", "SUM", "second"].map(Step::text);
    let earlier = Agent::builder(ScriptedModel::new(steps))
        .store(files(folder.path()))
        .define_skill(Skill::text("s", "Be terse."))
        .define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await })
        .observe(ModelPre, cotter::named("gap", note))
        .build()
        .unwrap();
    let session = fresh(&earlier).await;
    session.prompt("one").await.unwrap();
    session.prompt("/compact /s two").await.unwrap();
    let id = session.id().clone();
    let notes = session
        .messages()
        .iter()
        .filter(|m| matches!(m, Message::User(user) if user.kind == UserMessageKind::Note))
        .count();
    assert_eq!(notes, 1);
    drop((session, earlier));

    let calls = Step::text("Let me see.")
        .and_thinking("hm")
        .and_call("good", json!({"a": [1, "ü"]}))
        .and_call("bad", json!({}))
        .and_call("show", json!({}));
    let many = (0..40).map(|n| Step::text(format!("answer {n}")));
    let model = RecordingModel::new(ScriptedModel::new(
        [calls, Step::text("done")].into_iter().chain(many),
    ));
    let mut builder =
        Agent::builder(model.clone()).store(files(folder.path())).system_prompt("Be good.\n");
    for (spec, answer) in tools() {
        let tool = FnTool::new(spec, move |_| {
            let answer = answer.clone();
            async move { answer.map(Into::into) }
        });
        builder = builder.tool(tool.with_facts(Facts::zone(Zone::Safe)));
    }
    let agent = builder.build().unwrap();
    let session = agent.session(&id).await.unwrap();
    let parts =
        vec![ContentPart::Text("look /s @x".into()), image(), ContentPart::data("/compact <b>")];
    session.prompt(parts.clone()).await.unwrap();
    for n in 0..40 {
        session.prompt(format!("question {n}  ")).await.unwrap();
    }

    let mut wanted = vec![
        marked(
            "[Summary of the conversation so far]\n\nSUM\n\n[End of the summary; the conversation goes on from here]",
            UserMessageKind::Compaction,
        ),
        marked("<skill name=\"s\">\nBe terse.\n</skill>", UserMessageKind::SkillInjection),
        Message::User(UserMessage {
            rewritten: Some(Box::new(cotter::history::message::RewriteLog {
                raw: "/compact /s two".into(),
                rewrites: vec![],
            })),
            ..UserMessage::new("two".into())
        }),
        marked(
            "<system-reminder>\nFrom hook \"gap\": mind the gap\n</system-reminder>",
            UserMessageKind::Note,
        ),
        says(vec![text("second")], StopReason::EndTurn),
        Message::User(UserMessage::new(parts.into())),
        says(
            vec![
                AssistantPart::Thinking { text: "hm".into(), signature: None },
                text("Let me see."),
                tool_call("c1.1", "good", json!({"a": [1, "ü"]})),
                tool_call("c1.2", "bad", json!({})),
                tool_call("c1.3", "show", json!({})),
            ],
            StopReason::ToolUse,
        ),
        result("c1.1", "good", "fine".into(), None),
        result("c1.2", "bad", "broken".into(), Some(ToolErrorKind::Failed)),
        result("c1.3", "show", vec![ContentPart::Text("see".into()), image()].into(), None),
        says(vec![text("done")], StopReason::EndTurn),
    ];
    for n in 0..40 {
        wanted.push(Message::user(format!("question {n}  ")));
        wanted.push(says(vec![text(&format!("answer {n}"))], StopReason::EndTurn));
    }
    wanted.pop();

    let requests = model.requests();
    let last = requests.last().unwrap();
    for (index, (sent, wanted)) in last.messages.iter().zip(&wanted).enumerate() {
        assert_eq!(sent, wanted, "message {index}");
    }
    assert_eq!(last.messages.len(), wanted.len());
    let specs: Vec<_> = tools().into_iter().map(|(spec, _)| spec).collect();
    for Request { system, tools, notes, thinking, max_tokens, .. } in &requests {
        assert_eq!(
            (&**system, *notes, *thinking, *max_tokens),
            ("Be good.\n", 0, Thinking::Off, None)
        );
        assert_eq!(tools.specs().cloned().collect::<Vec<_>>(), specs);
    }
    // Byte for byte, for every request: each is a prefix of the last.
    for request in &requests {
        let by_hand: MessageList = wanted[..request.messages.len()].iter().cloned().collect();
        let (sent, direct) =
            (wire(&request.system, &request.messages), wire("Be good.\n", &by_hand));
        assert!(
            sent == direct,
            "{}\n{}",
            String::from_utf8_lossy(&sent),
            String::from_utf8_lossy(&direct)
        );
        assert!(wire(&request.system, &request.messages) == sent, "kept bytes are the same bytes");
    }
    assert!(last.messages.blocks().0.len() == 1, "a block was full");
}
