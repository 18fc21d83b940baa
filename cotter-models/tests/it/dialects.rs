//! Behaviour that is equal for all dialects, through a real agent. Each check runs once per dialect
//! and expects equal results.

use std::{fmt::Write, time::Duration};

use cotter::{
    AgentBuilder, Cx, FnTool, Message, Reply, Run, RunError, Session, ToolSpec,
    history::{
        jsonl::JsonlStore,
        message::{AssistantPart, Content, ContentPart, StopReason, UserMessage},
        message_list::MessageChange,
    },
    hooks::{
        events::EventKind,
        points::{Context, ContextChange, ContextEvent, ModelPre, ModelPreEvent},
    },
    model::{Delta, Model, ModelErrorKind, Request, Thinking},
    permission::{Zone, facts::Facts},
};
use cotter_test::{
    After, Answer, Cut, Dialect, LocalProvider, ReceivedRequest, shown_event, transcript,
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::time::timeout;

use crate::kit::{
    Thoughtful, agent_of, call, deltas, hello, model_at, parts_of, picture, reply, reply_deltas,
    request, result,
};

async fn session_of(builder: AgentBuilder) -> Session {
    let agent = builder.limits(|limits| limits.backoff = Duration::from_millis(1)).build();
    agent.expect("its tools are good").main_session().await.expect("a session is made")
}

/// Runs a prompt against these answers in every dialect. Compares the session as text, equal for
/// all, and checks that no request was refused.
async fn check(prompt: impl Into<Content>, answers: impl Fn() -> Vec<Answer>, expected: Expect) {
    let prompt = prompt.into();
    let mut alike = Alike::default();
    for dialect in Dialect::ALL {
        let provider = LocalProvider::start(dialect, answers());
        let session = session_of(agent_of(Thoughtful(model_at(&provider)))).await;
        let ended = match session.prompt(prompt.clone()).await {
            Ok(reply) => format!("{}\n", reply.reason.as_str()),
            Err(error) => format!("error: {error}\n"),
        };
        alike.add(&provider, transcript_without_thinking(&session) + &ended);
    }
    alike.check(expected);
}

/// The results by dialect.
#[derive(Default)]
struct Alike(Vec<(Dialect, String)>);

impl Alike {
    fn add(&mut self, provider: &LocalProvider, text: String) {
        assert_eq!(provider.refusals(), Vec::<String>::new(), "{:?}", provider.dialect());
        self.0.push((provider.dialect(), text));
    }

    /// Checks that all results are equal to `expected`.
    fn check(self, expected: Expect) {
        for (dialect, text) in &self.0 {
            assert_eq!(*text, self.0[0].1, "{dialect:?} is not like {:?}", self.0[0].0);
        }
        expected.assert_eq(&self.0[0].1);
    }
}

/// A session as text, without hidden thinking.
fn transcript_without_thinking(session: &Session) -> String {
    transcript(session).replace("thinking: (hidden)\n", "")
}

/// A run's events as text, with text deltas joined, and the result of the run.
async fn run_events(mut run: Run) -> (String, Result<Reply, RunError>) {
    let mut run_events = String::new();
    while let Some(event) = run.next().await {
        if let EventKind::TextDelta { .. } | EventKind::Retry { .. } = event.kind {
            let _ = writeln!(run_events, "{}", shown_event(&event));
        }
    }
    (run_events, run.await)
}

#[tokio::test]
async fn text_reply_reads_alike_in_every_dialect() {
    check(
        "Hello?",
        || vec![Answer::text("Grüß dich, 🦀!")],
        expect![[r#"
        user: Hello?
        assistant: Grüß dich, 🦀!
        end_turn
    "#]],
    )
    .await;
}

#[tokio::test]
async fn call_and_result_read_alike_in_every_dialect() {
    let answers = || {
        vec![
            Answer::text("I ask.").and_call("call_1", "echo", json!({"text": "zwölf \"Uhr\""})),
            Answer::text("It said twelve."),
        ]
    };
    check(
        "What time is it?",
        answers,
        expect![[r#"
        user: What time is it?
        assistant: I ask.
        call call_1: echo {"text":"zwölf \"Uhr\""}
        result call_1: zwölf "Uhr"
        assistant: It said twelve.
        end_turn
    "#]],
    )
    .await;
}

#[tokio::test]
async fn parallel_calls_read_alike_in_every_dialect() {
    let answers = || {
        vec![
            Answer::call("call_1", "echo", json!({"text": "one"}))
                .and_call("call_2", "echo", json!({}))
                .and_call("call_3", "show", json!({})),
            Answer::text("Done."),
        ]
    };
    check(
        "Go.",
        answers,
        expect![[r#"
        user: Go.
        call call_1: echo {"text":"one"}
        call call_2: echo {}
        call call_3: show {}
        result call_1: one
        result call_2: nothing
        result call_3: A picture:
        assistant: Done.
        end_turn
    "#]],
    )
    .await;
}

#[tokio::test]
async fn unparsable_call_gets_an_error_and_the_run_continues() {
    let answers = || {
        vec![
            Answer::reply().and_broken_call("call_1", "echo", "{\"text\": \"on"),
            Answer::call("call_2", "nobody.has\tit", json!({})),
            Answer::text("Done."),
        ]
    };
    check("Go.", answers, expect![[r#"
        user: Go.
        call call_1: echo "{\"text\": \"on"
        result call_1 (invalid_args): Invalid arguments for `echo`: not a JSON object; send complete arguments, smaller if they were cut off.
        call call_2: nobody.has	it {}
        result call_2 (not_found): Unknown tool: nobody.has\tit. There are: echo, show.
        assistant: Done.
        end_turn
    "#]]).await;
}

#[tokio::test]
async fn thinking_between_calls_is_sent_back() {
    let answers = || {
        vec![
            Answer::thinking("First one, then two.").and_call(
                "call_1",
                "echo",
                json!({"text": "one"}),
            ),
            Answer::thinking("Now two.").and_text("And").and_call(
                "call_2",
                "echo",
                json!({"text": "two"}),
            ),
            Answer::thinking("That was all.").and_text("Done."),
            Answer::text("Yes."),
        ]
    };
    let mut alike = Alike::default();
    for dialect in Dialect::ALL {
        let provider = LocalProvider::start(dialect, answers());
        let session = session_of(agent_of(Thoughtful(model_at(&provider)))).await;
        session.prompt("Go.").await.expect("it runs");
        session.prompt("Is it done?").await.expect("it runs");
        alike.add(&provider, transcript_without_thinking(&session));
    }
    alike.check(expect![[r#"
        user: Go.
        thinking: First one, then two.
        call call_1: echo {"text":"one"}
        result call_1: one
        thinking: Now two.
        assistant: And
        call call_2: echo {"text":"two"}
        result call_2: two
        thinking: That was all.
        assistant: Done.
        user: Is it done?
        assistant: Yes.
    "#]]);
}

#[tokio::test]
async fn thoughts_unknown_to_the_provider_are_left_out() {
    for dialect in [Dialect::AnthropicMessages, Dialect::OpenAiResponses] {
        let answer = Answer::thinking("Hm.").and_call("call_1", "echo", json!({}));
        let mut parts = parts_of(dialect, answer).await;
        for part in &mut parts {
            if let AssistantPart::Thinking { signature: Some(signature), .. } = part {
                *signature = signature.replace("==", "=");
            }
        }
        let provider =
            LocalProvider::start(dialect, [Answer::text("Fine."), Answer::text("Fine.")]);
        let model = model_at(&provider);
        let asked = || Request {
            thinking: Thinking::High,
            ..request([
                Message::user("Go."),
                reply(model.name(), parts.clone()),
                result("call_1", "nothing"),
            ])
        };
        let first = deltas(&model, asked()).await;
        let error = first[0].as_ref().expect_err("they are refused");
        assert_eq!((error.kind.is_temporary(), error.retry_after), (true, Some(Duration::ZERO)));
        for _ in 0..2 {
            let text_part = reply_deltas(&model, asked()).await;
            assert!(text_part.contains("text \"Fine.\"\n"), "{dialect:?} {text_part}");
        }
        assert_eq!(provider.refusals().len(), 1);
    }
}

#[tokio::test]
async fn g21_pictures_are_sent_in_every_dialect() {
    let answers = || {
        let calls = Answer::call("call_1", "show", json!({}));
        [calls.and_call("call_2", "echo", json!({"text": "a"})), Answer::text("A picture.")]
    };
    let mut alike = Alike::default();
    for dialect in Dialect::ALL {
        let provider = LocalProvider::start(dialect, answers());
        let session = session_of(agent_of(model_at(&provider))).await;
        let prompt = vec![ContentPart::Text("What is this?".into()), picture()];
        session.prompt(prompt).await.expect("it runs");
        let sent = provider.requests().into_iter().map(|sent| {
            let body = String::from_utf8(sent.body).expect("a request is text");
            body.matches("iVBORw0KGgo=").count()
        });
        assert_eq!(sent.collect::<Vec<_>>(), [1, 2], "pictures of each request to {dialect:?}");
        alike.add(&provider, transcript_without_thinking(&session));
    }
    alike.check(expect![[r#"
        user: What is this?
        call call_1: show {}
        call call_2: echo {"text":"a"}
        result call_1: A picture:
        result call_2: a
        assistant: A picture.
    "#]]);
}

#[tokio::test]
async fn unsupported_pictures_are_replaced_by_text() {
    let of =
        |kind: &str, data: &str| ContentPart::Image { media_type: kind.into(), data: data.into() };
    let unseen = || vec![of("image/tiff", "SUkq"), of("image/png", ""), of("image/JPG", "/9j/")];
    for dialect in Dialect::ALL {
        let provider = LocalProvider::start(dialect, [Answer::text("Fine.")]);
        let model = model_at(&provider);
        let messages = [
            Message::User(UserMessage::new(unseen().into())),
            reply("else/where", [call("call_1", "read", json!({}))]),
            result("call_1", unseen()),
        ];
        reply_deltas(&model, request(messages)).await;
        assert_eq!(provider.refusals(), Vec::<String>::new(), "{dialect:?}");
        let body = String::from_utf8(provider.requests().remove(0).body).expect("it is text");
        let count = |words: &str| body.matches(words).count();
        assert_eq!((count("models cannot see"), count("image/jpeg"), count("/9j/")), (4, 2, 2));
    }
}

#[tokio::test]
async fn tools_of_any_name_can_be_called() {
    let mut alike = Alike::default();
    for dialect in Dialect::ALL {
        let provider = LocalProvider::start_with(dialect, |request| {
            let body = request.json();
            let tools = body["tools"].as_array().expect("there are tools");
            let names = tools.iter().map(|tool| match &tool["function"] {
                Value::Null => &tool["name"],
                function => &function["name"],
            });
            let shown = names.filter_map(Value::as_str).find(|name| name.starts_with("notes"));
            match String::from_utf8_lossy(&request.body).contains("It is noted.") {
                true => Answer::text("Done."),
                false => Answer::call("call_1", shown.expect("it is shown"), json!({})),
            }
        });
        let spec = ToolSpec::new("notes.add", "Notes it.", json!({"type": "object"}));
        let tool = FnTool::new(spec, |_| async { Ok("It is noted.".into()) });
        let builder = agent_of(model_at(&provider)).tool(tool.with_facts(Facts::zone(Zone::Safe)));
        let session = session_of(builder).await;
        session.prompt("Note it.").await.expect("it runs");
        alike.add(&provider, transcript_without_thinking(&session));
    }
    alike.check(expect![[r#"
        user: Note it.
        call call_1: notes.add {}
        result call_1: It is noted.
        assistant: Done.
    "#]]);
}

#[tokio::test]
async fn refusal_reads_alike_in_every_dialect() {
    check(
        "Go.",
        || vec![Answer::text("No.").and_stop(StopReason::Refusal)],
        expect![[r#"
        user: Go.
        assistant: No.
        refusal
    "#]],
    )
    .await;
}

#[tokio::test]
async fn long_reply_is_read_whole_in_every_dialect() {
    let words: String = (0..20_000).map(|n| format!("w{n} ")).collect();
    for dialect in Dialect::ALL {
        let provider = LocalProvider::start(dialect, [Answer::text(words.as_str())]);
        let text_part = deltas(&model_at(&provider), hello()).await;
        let texts = text_part.into_iter().filter_map(|delta| match delta {
            Ok(Delta::Text(text)) => Some(text),
            _ => None,
        });
        let texts: Vec<String> = texts.collect();
        assert_eq!((texts.len(), texts.concat()), (20_000, words.clone()), "{dialect:?}");
    }
}

#[tokio::test]
async fn l21_abort_closes_the_connection_and_keeps_the_text() {
    let mut alike = Alike::default();
    for dialect in Dialect::ALL {
        let answer = Answer::text("One two").and_hang();
        let provider = LocalProvider::start(dialect, [answer, Answer::text("I was at two.")]);
        let session = session_of(agent_of(model_at(&provider))).await;
        let mut run = session.prompt("Count.");
        let mut pieces = 0;
        while pieces < 2 {
            let event = run.next().await.expect("it speaks");
            pieces += usize::from(matches!(event.kind, EventKind::TextDelta { .. }));
        }
        run.abort();
        let reply = run.await.expect("an abort is no failure");
        assert_eq!(reply.reason.as_str(), "aborted");
        timeout(Duration::from_secs(20), provider.closed(1)).await.expect("it was closed");
        session.prompt("Where were you?").await.expect("it runs");
        alike.add(&provider, transcript_without_thinking(&session));
    }
    alike.check(expect![[r#"
        user: Count.
        assistant: One two
        user: Where were you?
        assistant: I was at two.
    "#]]);
}

#[tokio::test]
async fn l21_abort_within_a_call_drops_the_call() {
    let mut alike = Alike::default();
    for dialect in Dialect::ALL {
        let answer = Answer::text("I").and_call("call_1", "echo", json!({"text": "a long text"}));
        let events = 5;
        let answer = answer.and_cut(After::Events(events), Cut::Hang);
        let provider = LocalProvider::start(dialect, [answer, Answer::text("Fine.")]);
        let session = session_of(agent_of(model_at(&provider))).await;
        let mut run = session.prompt("Go.");
        while !matches!(run.next().await.expect("it speaks").kind, EventKind::TextDelta { .. }) {}
        drop(run);
        timeout(Duration::from_secs(20), provider.closed(1)).await.expect("it was closed");
        session.idle().await;
        session.prompt("And?").await.expect("it runs");
        alike.add(&provider, transcript_without_thinking(&session));
    }
    alike.check(expect![[r#"
        user: Go.
        assistant: I
        user: And?
        assistant: Fine.
    "#]]);
}

#[tokio::test]
async fn l21_dropped_stream_is_retried() {
    let mut alike = Alike::default();
    for dialect in Dialect::ALL {
        for cut in [Cut::Reset, Cut::Close] {
            let drops = Answer::text("I was about to").and_cut(After::Content, cut);
            let provider = LocalProvider::start(dialect, [drops, Answer::text("Done.")]);
            let session = session_of(agent_of(model_at(&provider))).await;
            let reply = session.prompt("Go.").await.expect("it runs");
            assert_eq!(reply.text(), "Done.");
            let bodies: Vec<_> = provider.requests().into_iter().map(|sent| sent.body).collect();
            assert_eq!(bodies.len(), 2);
            assert_eq!(bodies[0], bodies[1], "the same request is sent again");
            alike.add(&provider, transcript_without_thinking(&session));
        }
    }
    alike.check(expect![[r#"
        user: Go.
        assistant: Done.
    "#]]);
}

#[tokio::test]
async fn l21_temporary_error_is_retried_after_a_wait() {
    let mut alike = Alike::default();
    for dialect in Dialect::ALL {
        let answers = [
            Answer::status(429).and_header("retry-after-ms", "20"),
            Answer::status(503).and_header("retry-after", "0.01"),
            Answer::text("I was").and_error(ModelErrorKind::Overloaded),
            Answer::text("Done."),
        ];
        let provider = LocalProvider::start(dialect, answers);
        let session = session_of(agent_of(model_at(&provider))).await;
        let (run_events, reply) = run_events(session.prompt("Go.")).await;
        assert_eq!(reply.expect("it runs").text(), "Done.");
        alike.add(&provider, run_events);
    }
    alike.check(expect![[r#"
        retry 1 rate_limited 20ms
        retry 2 overloaded 10ms
        text.delta "I "
        text.delta "was"
        retry 3 overloaded 4ms
        text.delta "Done."
    "#]]);
}

#[tokio::test]
async fn l21_fallback_model_takes_over() {
    for (first, second) in [
        (Dialect::AnthropicMessages, Dialect::OpenAiChat),
        (Dialect::OpenAiChat, Dialect::OpenAiResponses),
        (Dialect::OpenAiResponses, Dialect::AnthropicMessages),
    ] {
        let calls = Answer::thinking("Hm.").and_call("toolu_01", "echo", json!({"text": "one"}));
        let tired = [calls, Answer::status(401)];
        let (tired, fresh) = (
            LocalProvider::start(first, tired),
            LocalProvider::start(second, [Answer::text("I take over.")]),
        );
        let model = Thoughtful(model_at(&tired));
        let builder = agent_of(model).fallback(Thoughtful(model_at(&fresh)));
        let session = session_of(builder).await;
        let reply = session.prompt("Go.").await.expect("somebody answers");
        assert_eq!(reply.text(), "I take over.");
        assert_eq!(fresh.refusals(), Vec::<String>::new(), "{first:?} to {second:?}");
    }
}

/// The steps of a tool loop: two calls each, sometimes with a thought, and a text at the end.
fn steps(count: usize) -> impl FnMut(&ReceivedRequest) -> Answer + Send + 'static {
    let mut step = 0;
    move |_| {
        step += 1;
        if step > count {
            return Answer::text(format!("Done after {count}."));
        }
        let answer = match step % 3 {
            0 => Answer::thinking(format!("Step {step}.")),
            1 => Answer::text(format!("Step {step}:")),
            _ => Answer::reply(),
        };
        answer
            .and_call(format!("call_{step}_a"), "echo", json!({"text": format!("{step} a")}))
            .and_call(format!("call_{step}_b"), "echo", json!({"text": format!("{step} ö")}))
    }
}

/// A request as a provider's cache sees it: without cache marks.
fn without_marks(body: &[u8]) -> String {
    let body = String::from_utf8(body.to_vec()).expect("a request is text");
    body.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

/// Checks that every request begins with all bytes of the one before it.
fn check_prefixes(provider: &LocalProvider, prompt_end: &str) {
    let bodies: Vec<_> = provider.requests().iter().map(|sent| without_marks(&sent.body)).collect();
    let (_, tail) = bodies[0].rsplit_once(prompt_end).expect("the prompt is sent");
    for (index, pair) in bodies.windows(2).enumerate() {
        let [before, after] = pair else { unreachable!("windows of two") };
        let same = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
        let left = &before[same..];
        assert!(
            tail.ends_with(left),
            "{:?}: request {} breaks the prefix of {} at byte {same}, before {left:?}",
            provider.dialect(),
            index + 2,
            index + 1,
        );
        assert!(after.len() > before.len());
    }
}

async fn check_long_run(hooked: impl Fn(AgentBuilder) -> AgentBuilder) {
    for dialect in Dialect::ALL {
        let provider = LocalProvider::start_with(dialect, steps(25));
        let session = session_of(hooked(agent_of(Thoughtful(model_at(&provider))))).await;
        let reply = session.prompt("Go, step by step.").await.expect("it runs");
        assert_eq!(reply.text(), "Done after 25.");
        assert_eq!(provider.refusals(), Vec::<String>::new(), "{dialect:?}");
        assert_eq!(provider.requests().len(), 26);
        // More than one block of messages.
        assert!(session.messages().len() > 64, "{}", session.messages().len());
        check_prefixes(&provider, "step by step.");
    }
}

#[tokio::test]
async fn long_run_never_breaks_the_prefix() {
    check_long_run(|builder| builder).await;
}

#[tokio::test]
#[should_panic(expected = "breaks the prefix of 1 at byte")]
async fn broken_prefix_is_detected() {
    let hurries = |build: &ContextEvent| {
        let words = format!("Go, {} of them, step by step.", build.messages.len());
        ContextChange::Messages(build.messages.map_messages(|_, message| match message {
            Message::User(_) => MessageChange::Replace(Message::user(words.as_str())),
            _ => MessageChange::Keep,
        }))
    };
    check_long_run(|builder| builder.transform(Context, hurries)).await;
}

#[tokio::test]
async fn notes_never_break_the_prefix() {
    check_long_run(|builder| {
        builder.observe(ModelPre, |_: &ModelPreEvent, cx: &Cx| cx.note("Mind the gap."))
    })
    .await;
}

#[tokio::test]
async fn resumed_session_sends_the_same_bytes() {
    for dialect in Dialect::ALL {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let provider = LocalProvider::start_with(dialect, steps(25));
        let opened = |id: Option<SmolStr>| {
            let store = JsonlStore::new(folder.path().join("sessions"));
            let builder = agent_of(Thoughtful(model_at(&provider))).store(store);
            async move {
                let agent = builder.build().expect("its tools are good");
                match id {
                    Some(id) => agent.session(&id).await.expect("it is there"),
                    None => agent.new_session().await.expect("it is made"),
                }
            }
        };
        let session = opened(None).await;
        session.prompt("Go, step by step.").await.expect("it runs");
        let id = session.id().clone();
        session.close().await;
        drop(session);
        let session = opened(Some(id)).await;
        session.prompt("And now?").await.expect("it runs");
        assert_eq!(provider.refusals(), Vec::<String>::new(), "{dialect:?}");
        assert_eq!(provider.requests().len(), 27);
        check_prefixes(&provider, "step by step.");
    }
}
