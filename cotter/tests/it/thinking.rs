//! A streamed reply: text, thinking and the provider's signatures, in order. Checks the events, the stored
//! reply, and the next request.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use cotter::{
    Agent, Message,
    history::message::{AssistantPart, StopReason, Usage},
    model::{Delta, Model, ReplyStream, Request},
};
use cotter_test::{RecordingModel, ending, fresh, transcript};
use expect_test::{Expect, expect};
use futures_util::{StreamExt, stream};
use serde_json::json;
use smol_str::SmolStr;

use crate::kit::{files, to_the_end};

/// A model that sends exactly these pieces, one reply at a time; then only `ok`.
#[derive(Clone)]
struct Says(SmolStr, Arc<Mutex<VecDeque<Vec<Delta>>>>);

impl Says {
    fn new(replies: impl IntoIterator<Item = Vec<Delta>>) -> Self {
        Says("test/says".into(), Arc::new(Mutex::new(replies.into_iter().collect())))
    }
}

fn done() -> Delta {
    Delta::Done { stop_reason: StopReason::EndTurn, usage: Usage::default() }
}

impl Model for Says {
    fn name(&self) -> &SmolStr {
        &self.0
    }

    fn stream(&self, _: Request) -> ReplyStream {
        let pieces = self.1.lock().unwrap().pop_front();
        let pieces = pieces.unwrap_or_else(|| vec![text("ok"), done()]);
        Box::pin(stream::iter(pieces.into_iter().map(Ok)))
    }
}

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

fn thinks(text: &str) -> Delta {
    Delta::Thinking(text.into())
}

fn signed(signature: &str) -> Delta {
    Delta::Signature(signature.into())
}

fn shown(parts: &[AssistantPart]) -> String {
    let shown = parts.iter().map(|part| match part {
        AssistantPart::Text(text) => format!("text {text:?}"),
        AssistantPart::Thinking { text, signature } => format!("thinking {text:?} {signature:?}"),
        part => format!("{part:?}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Checks the events and the stored form of one reply: equal in the session, in its file, and in the next
/// request.
async fn check(mut pieces: Vec<Delta>, expected: Expect) {
    pieces.push(done());
    let folder = tempfile::tempdir().unwrap();
    let model = RecordingModel::new(Says::new([pieces]));
    let agent = Agent::builder(model.clone()).store(files(folder.path())).build().unwrap();
    let session = fresh(&agent).await;
    let (events, reply) = to_the_end(session.prompt("go")).await;
    assert_eq!(ending(&reply), "end_turn");
    let told = |line: &&str| line.starts_with("text.") || line.starts_with("thinking.");
    let told: Vec<_> = events.lines().filter(told).collect();
    let parts = |message: Option<&Message>| match message {
        Some(Message::Assistant(reply)) => shown(&reply.parts),
        other => panic!("no reply: {other:?}"),
    };
    let kept = parts(session.messages().iter().nth(1));
    let id = session.id().clone();
    session.close().await;
    drop(session);
    let session = agent.session(&id).await.unwrap();
    assert_eq!(parts(session.messages().iter().nth(1)), kept, "opened again");
    assert_eq!(ending(&session.prompt("on").await), "end_turn");
    assert_eq!(parts(model.requests()[1].messages.iter().nth(1)), kept, "sent again");
    expected.assert_eq(&format!("{}\n{kept}\n", told.join("\n")));
}

#[tokio::test]
async fn a_signature_ends_the_thinking_it_signs() {
    check(
        vec![thinks("a"), thinks("b"), signed("s1"), text("so")],
        expect![[r#"
        thinking.start
        thinking.delta "a"
        thinking.delta "b"
        thinking.end
        text.start
        text.delta "so"
        text.end
        thinking "ab" Some("s1"), text "so"
    "#]],
    )
    .await;
}

#[tokio::test]
async fn two_thoughts_have_a_signature_each() {
    check(
        vec![thinks("a"), signed("s1"), thinks("b"), thinks("c"), signed("s2"), text("so")],
        expect![[r#"
            thinking.start
            thinking.delta "a"
            thinking.end
            thinking.start
            thinking.delta "b"
            thinking.delta "c"
            thinking.end
            text.start
            text.delta "so"
            text.end
            thinking "a" Some("s1"), thinking "bc" Some("s2"), text "so"
        "#]],
    )
    .await;
}

#[tokio::test]
async fn thinking_after_a_signature_is_a_new_thought() {
    check(
        vec![thinks("a"), signed("s1"), thinks("b"), text("so")],
        expect![[r#"
        thinking.start
        thinking.delta "a"
        thinking.end
        thinking.start
        thinking.delta "b"
        thinking.end
        text.start
        text.delta "so"
        text.end
        thinking "a" Some("s1"), thinking "b" None, text "so"
    "#]],
    )
    .await;
}

#[tokio::test]
async fn signature_without_text_is_hidden_thinking() {
    check(
        vec![signed("h1"), signed("h2"), text("so")],
        expect![[r#"
        text.start
        text.delta "so"
        text.end
        thinking "" Some("h1"), thinking "" Some("h2"), text "so"
    "#]],
    )
    .await;
    check(
        vec![text("so"), signed("h"), text("then")],
        expect![[r#"
        text.start
        text.delta "so"
        text.end
        text.start
        text.delta "then"
        text.end
        text "so", thinking "" Some("h"), text "then"
    "#]],
    )
    .await;
    check(
        vec![thinks("a"), text("so"), signed("h")],
        expect![[r#"
        thinking.start
        thinking.delta "a"
        thinking.end
        text.start
        text.delta "so"
        text.end
        thinking "a" None, text "so", thinking "" Some("h")
    "#]],
    )
    .await;
    check(
        vec![thinks("a"), signed("s"), signed("h"), thinks("b")],
        expect![[r#"
        thinking.start
        thinking.delta "a"
        thinking.end
        thinking.start
        thinking.delta "b"
        thinking.end
        thinking "a" Some("s"), thinking "" Some("h"), thinking "b" None
    "#]],
    )
    .await;
}

#[tokio::test]
async fn empty_signature_is_ignored() {
    check(
        vec![thinks("a"), signed(""), thinks("b"), text("so"), signed("")],
        expect![[r#"
            thinking.start
            thinking.delta "a"
            thinking.delta "b"
            thinking.end
            text.start
            text.delta "so"
            text.end
            thinking "ab" None, text "so"
        "#]],
    )
    .await;
}

#[tokio::test]
async fn empty_thinking_may_have_a_signature() {
    check(
        vec![thinks(""), signed("s"), text("so")],
        expect![[r#"
        thinking.start
        thinking.delta ""
        thinking.end
        text.start
        text.delta "so"
        text.end
        thinking "" Some("s"), text "so"
    "#]],
    )
    .await;
}

/// Calls stay in their position between thoughts.
#[tokio::test]
async fn thoughts_between_calls_keep_their_position() {
    let call = |id: &str| Delta::Call { id: id.into(), name: "none".into(), input: json!({}) };
    let called = Delta::Done { stop_reason: StopReason::ToolUse, usage: Usage::default() };
    let pieces = vec![
        thinks("a"),
        signed("s1"),
        call("c1"),
        signed("h"),
        call("c2"),
        thinks("b"),
        signed("s2"),
        called,
    ];
    let model = RecordingModel::new(Says::new([pieces]));
    let agent = Agent::builder(model.clone()).build().unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("go").await), "end_turn");
    let sent = model.requests().pop().unwrap();
    let Some(Message::Assistant(reply)) = sent.messages.iter().nth(1) else { panic!("no reply") };
    let parts = reply.parts.iter().map(|part| match part {
        AssistantPart::ToolCall(call) => format!("call {}", call.id),
        part => shown(std::slice::from_ref(part)),
    });
    expect![[r#"
        thinking "a" Some("s1")
        call c1
        thinking "" Some("h")
        call c2
        thinking "b" Some("s2")"#]]
    .assert_eq(&parts.collect::<Vec<_>>().join("\n"));
}

/// An aborted reply keeps its text and drops its thinking, because incomplete thinking has no signature.
#[tokio::test]
async fn aborted_reply_keeps_its_text_and_drops_its_thinking() {
    /// Sends its pieces and then hangs.
    struct Hangs(Says);
    impl Model for Hangs {
        fn name(&self) -> &SmolStr {
            self.0.name()
        }

        fn stream(&self, request: Request) -> ReplyStream {
            Box::pin(self.0.stream(request).chain(stream::pending()))
        }
    }
    let pieces = vec![thinks("a"), signed("s"), text("half a "), signed("h"), thinks("more")];
    let agent = Agent::builder(Hangs(Says::new([pieces]))).build().unwrap();
    let session = fresh(&agent).await;
    let mut run = session.prompt("go");
    while let Some(event) = run.next().await {
        if matches!(&event.kind, cotter::hooks::events::EventKind::ThinkingDelta { text } if text == "more")
        {
            session.abort();
        }
    }
    assert_eq!(ending(&run.reply().await), "aborted");
    expect![[r#"
        user: go
        assistant: half a 
    "#]]
    .assert_eq(&transcript(&session));
}
