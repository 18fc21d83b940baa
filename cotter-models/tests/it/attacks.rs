//! Odd and hostile cases. For any server response and any session content, requests stay valid,
//! replies are read or refused, and time and memory stay bounded.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::Arc,
    time::Duration,
};

use cotter::{
    Message, MessageList,
    history::message::{AssistantPart, Content, ContentPart},
    model::{Delta, Model, Request, Thinking},
    text::redact::Redactor,
};
use cotter_models::{ApiFormat, ApiKey, Http, HttpModel, Player, Provider, Recorder, Tape};
use cotter_test::{Answer, Dialect, LocalProvider};
use expect_test::{Expect, expect};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use crate::kit::{
    agent_of, call, deltas, failed_result, hello, model_at, model_over, picture, reply,
    reply_deltas, request, result, text_part, thought, tools,
};

/// One model per dialect and flavour. Nothing is sent to them.
fn models() -> Vec<HttpModel> {
    let ready = |name: &str| Provider::built_in(name).expect("it is known");
    let thinks_aloud = Provider::new("deep", ApiFormat::OpenAiChat, "https://api.deepseek.com");
    let lab = Provider::new("lab", ApiFormat::OpenAiChat, "http://127.0.0.1:1/v1");
    let all = [
        (ready("anthropic"), "claude-opus-4-6"),
        (ready("openai-responses"), "gpt-5.6-sol"),
        (ready("gemini"), "gemini-3.8-flash"),
        (thinks_aloud, "m"),
        (lab, "m"),
    ];
    let model = |(provider, name): (Provider, &str)| {
        provider.with_key(ApiKey::new("key")).model(name, &Http::new())
    };
    all.into_iter().map(model).collect()
}

/// A piece of a generated conversation, valid or not.
#[derive(Clone, Debug)]
enum Bit {
    User(u8),
    /// Calls with repeated ids; how many of them are answered, and if at once.
    Reply {
        model: u8,
        thinks: u8,
        says: u8,
        calls: Vec<u8>,
    },
    Result {
        id: u8,
        kind: u8,
    },
}

fn bits() -> impl Strategy<Value = Vec<Bit>> {
    let user = (0..6u8).prop_map(Bit::User);
    let reply = (0..8u8, 0..6u8, 0..3u8, vec(0..5u8, 0..4))
        .prop_map(|(model, thinks, says, calls)| Bit::Reply { model, thinks, says, calls });
    let result = (0..5u8, 0..6u8).prop_map(|(id, kind)| Bit::Result { id, kind });
    vec(prop_oneof![1 => user, 2 => reply, 4 => result], 1..220)
}

fn id(n: u8) -> String {
    // The last id is longer than any provider takes and has forbidden characters.
    if n == 4 { format!("call|{}", "x".repeat(200)) } else { format!("call_{n}") }
}

fn content(kind: u8) -> Content {
    match kind {
        0 => Content::Text(String::new()),
        1 => Content::Parts(vec![ContentPart::Text("Seen.".into()), picture()]),
        2 => Content::Parts(vec![picture(), picture()]),
        3 => Content::Parts(vec![]),
        4 => Content::Parts(vec![
            ContentPart::Text(" ".into()),
            ContentPart::Text("\"\\\u{1}é".into()),
        ]),
        _ => Content::Text("Words.".into()),
    }
}

fn message(bit: &Bit, names: &[String]) -> Message {
    match bit {
        Bit::User(kind) => {
            Message::User(cotter::history::message::UserMessage::new(content(*kind)))
        }
        Bit::Result { id: n, kind: 5 } => failed_result(&id(*n), "It broke."),
        Bit::Result { id: n, kind } => result(&id(*n), content(*kind)),
        Bit::Reply { model, thinks, says, calls } => {
            let name = names.get(usize::from(*model)).map_or("somebody/else", String::as_str);
            let signature = match thinks {
                1 => Some("opaque"),
                2 => Some(r#"{"id":"rs_1","encrypted_content":"sealed"}"#),
                3 => Some("reasoning_content"),
                4 => Some(r#"tool_calls.extra_content {"google":{"thought_signature":"S"}}"#),
                _ => None,
            };
            let thought = AssistantPart::Thinking {
                text: "Hm.".into(),
                signature: signature.map(str::to_owned),
            };
            let mut parts: Vec<_> = Some(thought).filter(|_| *thinks > 0).into_iter().collect();
            parts.extend((*says > 0).then(|| text_part(if *says == 1 { "  " } else { "So." })));
            let mut seen = vec![];
            for n in calls {
                if !seen.contains(n) {
                    seen.push(*n);
                    parts.push(call(&id(*n), "read", json!({"n": n})));
                }
            }
            reply(name, parts)
        }
    }
}

fn with(messages: MessageList, system: &str, notes: usize) -> Request {
    let mut request = request([]);
    request.messages = messages;
    request.system = system.into();
    request.notes = notes;
    request.tools = tools();
    request.thinking = Thinking::Low;
    request
}

fn copied(messages: &MessageList) -> MessageList {
    messages.iter().cloned().collect()
}

/// The number of occurrences of a key in a JSON value.
fn count(value: &Value, key: &str) -> usize {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| usize::from(name == key) + count(value, key)).sum()
        }
        Value::Array(all) => all.iter().map(|value| count(value, key)).sum(),
        _ => 0,
    }
}

/// The calls and results of a body, in order, for every dialect.
fn calls_and_results(body: &Value) -> Vec<(bool, String)> {
    let mut all = vec![];
    let text = |value: &Value| value.as_str().expect("an id is a text").to_owned();
    let list = body.get("messages").or(body.get("input")).and_then(Value::as_array);
    for item in list.expect("a conversation") {
        for call in item["tool_calls"].as_array().into_iter().flatten() {
            all.push((true, text(&call["id"])));
        }
        if item["role"] == "tool" {
            all.push((false, text(&item["tool_call_id"])));
        }
        match item["type"].as_str() {
            Some("function_call") => all.push((true, text(&item["call_id"]))),
            Some("function_call_output") => all.push((false, text(&item["call_id"]))),
            _ => {}
        }
        for block in item["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("tool_use") => all.push((true, text(&block["id"]))),
                Some("tool_result") => all.push((false, text(&block["tool_use_id"]))),
                _ => {}
            }
        }
    }
    all
}

fn check_paired(body: &Value) {
    let mut open: Vec<String> = vec![];
    let mut answering = false;
    for (is_call, id) in calls_and_results(body) {
        if is_call {
            assert!(!answering || open.is_empty(), "a call before the results of those before it");
            answering = false;
            assert!(!open.contains(&id), "two calls of one id");
            open.push(id);
        } else {
            answering = true;
            let at = open.iter().position(|known| *known == id).expect("a result of no call");
            open.remove(at);
        }
    }
    assert!(open.is_empty(), "calls without results");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn cached_message_bytes_equal_fresh_ones(
        bits in bits(),
        stops in vec(any::<prop::sample::Index>(), 3),
        notes in 0..2usize,
    ) {
        let models = models();
        let names: Vec<String> = models.iter().map(|model| model.name().to_string()).collect();
        let mut stops: Vec<_> = stops.iter().map(|stop| stop.index(bits.len())).collect();
        stops.push(bits.len() - 1);
        let mut messages = MessageList::default();
        let mut seen: Vec<MessageList> = vec![];
        for (at, bit) in bits.iter().enumerate() {
            messages.push(message(bit, &names));
            if stops.contains(&at) {
                seen.push(messages.clone());
            }
        }
        for messages in &seen {
            for model in &models {
                for system in ["", "Be brief."] {
                    let kept = model.body(&with(messages.clone(), system, notes));
                    let anew = model.body(&with(copied(messages), system, notes));
                    prop_assert_eq!(
                        String::from_utf8_lossy(&kept), String::from_utf8_lossy(&anew)
                    );
                    let body: Value = serde_json::from_slice(&kept).expect("it is JSON");
                    check_paired(&body);
                    prop_assert!(count(&body, "cache_control") <= 4);
                }
            }
        }
    }

    /// Compares the reported break with the first differing byte.
    #[test]
    fn break_is_at_the_first_differing_byte(
        bits in bits(),
        more in vec(0..6u8, 0..3),
        changed in any::<prop::sample::Index>(),
    ) {
        let models = models();
        let names: Vec<String> = models.iter().map(|model| model.name().to_string()).collect();
        let mut before: Vec<_> = bits.iter().map(|bit| message(bit, &names)).collect();
        // Every call is answered, as the loop guarantees: an open call could still get its result.
        before.push(Message::user("So?"));
        let mut now = before.clone();
        now.extend(more.iter().map(|kind| message(&Bit::User(*kind), &names)));
        let before: MessageList = before.into_iter().collect();
        let grown: MessageList = now.iter().cloned().collect();
        now[changed.index(before.len())] = Message::user("Something else.");
        let other: MessageList = now.into_iter().collect();
        for model in &models {
            let old = with(before.clone(), "Be brief.", 0);
            prop_assert_eq!(model.break_at(&old, &with(grown.clone(), "Be brief.", 0)), None);
            let new = with(other.clone(), "Be brief.", 0);
            let found = model.break_at(&old, &new);
            let bare = |request: &Request| {
                let body = String::from_utf8(model.body(request)).expect("it is text");
                body.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
            };
            let (old, new) = (bare(&old), bare(&new));
            let same = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
            if let Some(found) = found {
                prop_assert_eq!(found, same as u64);
            } else {
                prop_assert!(new.len() >= same);
            }
        }
    }
}

#[test]
fn tools_of_one_model_are_not_those_of_another() {
    let shared: Arc<_> = tools();
    let mut bodies = vec![];
    for model in models() {
        let mut one = with([Message::user("Hello?")].into_iter().collect(), "", 0);
        one.tools = shared.clone();
        let kept = model.body(&one);
        one.tools = tools();
        assert_eq!(kept, model.body(&one));
        bodies.push(kept);
    }
    assert_ne!(bodies[0], bodies[1]);
}

/// Compares the deltas of a stream of Anthropic's events.
async fn check_events(events: &[Value], expected: Expect) {
    let stream: String = events
        .iter()
        .map(|event| {
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a name"))
        })
        .collect();
    let provider = LocalProvider::start(Dialect::AnthropicMessages, [Answer::events(stream)]);
    expected.assert_eq(&reply_deltas(&model_at(&provider), hello()).await);
}

fn tool_use(id: &str) -> Value {
    json!({"type": "content_block_start", "index": 0,
           "content_block": {"type": "tool_use", "id": id, "name": "read", "input": {}}})
}

fn input(json: &str) -> Value {
    json!({"type": "content_block_delta", "index": 0,
           "delta": {"type": "input_json_delta", "partial_json": json}})
}

#[tokio::test]
async fn call_without_an_end_event_is_read() {
    let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}});
    let ending = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}});
    check_events(
        &[
            start,
            tool_use("a"),
            input("{\"n\":1}"),
            tool_use("b"),
            input("{\"n\":2}"),
            ending,
            json!({"type": "message_stop"}),
        ],
        expect![[r#"
            counted 1
            call "a" read {"n":1}
            call "b" read {"n":2}
            tool_use: in 1, out 2, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn invalid_token_counts_do_not_fail_a_reply() {
    let odd = [json!(-1), json!(12.0), json!(1e30), json!("7"), json!(null), json!(u64::MAX)];
    let mut table = String::new();
    for odd in odd {
        let usage = json!({"input_tokens": odd, "output_tokens": odd});
        let anthropic = [
            json!({"type": "message_start", "message": {"usage": usage}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Well."}}),
            json!({"type": "message_stop"}),
        ];
        let responses = [
            json!({"type": "response.output_text.delta", "delta": "Well."}),
            json!({"type": "response.completed", "response": {"status": "completed", "usage": usage}}),
        ];
        let chat = [json!({"choices": [{"delta": {"content": "Well."}, "finish_reason": "stop"}],
                   "usage": {"prompt_tokens": odd, "completion_tokens": odd}})];
        for dialect in Dialect::ALL {
            let events: &[Value] = match dialect {
                Dialect::AnthropicMessages => &anthropic,
                Dialect::OpenAiResponses => &responses,
                _ => &chat,
            };
            let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            let provider = LocalProvider::start(dialect, [Answer::events(stream)]);
            table += &format!(
                "{odd} {dialect:?}:\n{}",
                reply_deltas(&model_at(&provider), hello()).await
            );
        }
    }
    expect![[r#"
        -1 AnthropicMessages:
        text "Well."
        end_turn: in 0, out 0, cache read 0, written 0
        -1 OpenAiChat:
        text "Well."
        end_turn: in 0, out 0, cache read 0, written 0
        -1 OpenAiResponses:
        text "Well."
        end_turn: in 0, out 0, cache read 0, written 0
        12.0 AnthropicMessages:
        counted 24
        text "Well."
        end_turn: in 12, out 12, cache read 0, written 0
        12.0 OpenAiChat:
        text "Well."
        end_turn: in 12, out 12, cache read 0, written 0
        12.0 OpenAiResponses:
        text "Well."
        end_turn: in 12, out 12, cache read 0, written 0
        1e+30 AnthropicMessages:
        counted 18446744073709551615
        text "Well."
        end_turn: in 18446744073709551615, out 18446744073709551615, cache read 0, written 0
        1e+30 OpenAiChat:
        text "Well."
        end_turn: in 18446744073709551615, out 18446744073709551615, cache read 0, written 0
        1e+30 OpenAiResponses:
        text "Well."
        end_turn: in 18446744073709551615, out 18446744073709551615, cache read 0, written 0
        "7" AnthropicMessages:
        text "Well."
        end_turn: in 0, out 0, cache read 0, written 0
        "7" OpenAiChat:
        text "Well."
        end_turn: in 0, out 0, cache read 0, written 0
        "7" OpenAiResponses:
        text "Well."
        end_turn: in 0, out 0, cache read 0, written 0
        null AnthropicMessages:
        text "Well."
        end_turn: in 0, out 0, cache read 0, written 0
        null OpenAiChat:
        text "Well."
        end_turn: in 0, out 0, cache read 0, written 0
        null OpenAiResponses:
        text "Well."
        end_turn: in 0, out 0, cache read 0, written 0
        18446744073709551615 AnthropicMessages:
        counted 18446744073709551615
        text "Well."
        end_turn: in 18446744073709551615, out 18446744073709551615, cache read 0, written 0
        18446744073709551615 OpenAiChat:
        text "Well."
        end_turn: in 18446744073709551615, out 18446744073709551615, cache read 0, written 0
        18446744073709551615 OpenAiResponses:
        text "Well."
        end_turn: in 18446744073709551615, out 18446744073709551615, cache read 0, written 0
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn two_requests_refused_at_once_both_retry_without_thoughts() {
    let words = "messages.1.content.0: Invalid `signature` in `thinking` block";
    let refusal =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}});
    let provider = LocalProvider::start_with(Dialect::AnthropicMessages, move |request| {
        match String::from_utf8_lossy(&request.body).contains("\"thinking\":\"Hm.\"") {
            true => Answer::status(400).and_body(refusal.to_string()),
            false => Answer::text("Well."),
        }
    })
    .unchecked();
    let model = model_at(&provider);
    let asked = || {
        request([
            Message::user("Hello?"),
            reply(model.name(), [thought("Hm.", "sealed elsewhere"), text_part("Yes?")]),
            Message::user("Well?"),
        ])
    };
    let (one, other) = tokio::join!(deltas(&model, asked()), deltas(&model, asked()));
    for text_part in [one, other] {
        let error = text_part[0].as_ref().expect_err("it is refused");
        assert!(error.kind.is_temporary(), "{error}");
    }
    assert!(reply_deltas(&model, asked()).await.contains("text \"Well.\""));
}

#[tokio::test]
async fn a_wait_may_be_spelled_in_minutes_and_hours() {
    let mut table = String::new();
    for wait in [
        "6m0s",
        "1m30.5s",
        "1h2m3s",
        "20ms",
        "59s",
        "7 minutes",
        "soon",
        "",
        "9",
        "99999999999999999999h",
    ] {
        let body = json!({"error": {"code": "rate_limit_exceeded", "message": format!("Please try again in {wait}.")}});
        let provider = LocalProvider::start(
            Dialect::OpenAiResponses,
            [Answer::status(429).and_body(body.to_string())],
        );
        let text_part = deltas(&model_at(&provider), hello()).await;
        table += &format!(
            "{wait}: {:?}\n",
            text_part[0].as_ref().expect_err("429 is a failure").retry_after
        );
    }
    expect![[r#"
        6m0s: Some(360s)
        1m30.5s: Some(90.5s)
        1h2m3s: Some(3723s)
        20ms: Some(20ms)
        59s: Some(59s)
        7 minutes: Some(420s)
        soon: None
        : None
        9: None
        99999999999999999999h: None
    "#]]
    .assert_eq(&table);
}

/// A server that answers one connection by hand.
fn serve_by_hand(serve: impl FnOnce(std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it has an address"));
    std::thread::spawn(move || {
        if let Ok((stream, _)) = listener.accept() {
            serve(stream);
        }
    });
    url
}

fn head(stream: &mut std::net::TcpStream) {
    let (mut seen, mut byte) = (vec![], [0]);
    while !seen.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        seen.push(byte[0]);
    }
}

fn model_by_hand(url: &str, http: &Http) -> HttpModel {
    Provider::new("lab", ApiFormat::AnthropicMessages, url).model("m", http)
}

#[tokio::test]
async fn answer_before_the_request_ends_is_read() {
    let url = serve_by_hand(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(
            b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        );
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let model = model_by_hand(&url, &Http::new());
    let text_part = reply_deltas(&model, request([Message::user("x".repeat(20 << 20))])).await;
    expect![[r#"
        context_overflow: the provider answered 413
    "#]]
    .assert_eq(&text_part);
}

#[tokio::test]
async fn interim_responses_are_skipped() {
    let url = serve_by_hand(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 529 Overloaded\r\ncontent-length: 0\r\n\r\n");
    });
    let text_part = reply_deltas(&model_by_hand(&url, &Http::new()), hello()).await;
    expect![[r#"
        overloaded: the provider answered 529
    "#]]
    .assert_eq(&text_part);
}

#[tokio::test]
async fn slow_error_body_is_not_awaited() {
    let url = serve_by_hand(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 500 Broken\r\ncontent-length: 60000\r\n\r\nIt broke");
        while stream.write_all(b".").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let model = model_by_hand(&url, &Http::new().with_idle_timeout(Duration::from_secs(2)));
    let text_part =
        tokio::time::timeout(Duration::from_secs(30), reply_deltas(&model, hello())).await;
    let text_part = text_part.expect("it is given up");
    assert!(
        text_part.starts_with("overloaded: the provider answered 500: It broke"),
        "{text_part}"
    );
}

#[tokio::test]
async fn invalid_gzip_is_a_network_error() {
    let url = serve_by_hand(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\nnot compressed at all");
    });
    let text_part = reply_deltas(&model_by_hand(&url, &Http::new()), hello()).await;
    expect![[r#"
        network: the answer broke off: Invalid gzip header
    "#]]
    .assert_eq(&text_part);
}

#[tokio::test]
async fn s28_proxy_password_is_in_no_error() {
    for proxy in [
        "http://me:hushhush@127.0.0.1:1",
        "http://me:hushhush@:99999999",
        "https://me:hushhush@127.0.0.1:1",
        "http://me:hush hush@x y/",
    ] {
        let http = Http::new().with_proxy(proxy, "");
        let model = Provider::new("lab", ApiFormat::AnthropicMessages, "http://x.invalid")
            .model("m", &http);
        let text_part = reply_deltas(&model, hello()).await;
        assert!(!text_part.contains("hush"), "{text_part}");
    }
}

#[tokio::test]
async fn call_in_many_deltas_is_parsed_in_linear_time() {
    let pieces = 20_000;
    let piece = |words: &str| json!({"choices": [{"delta": {"tool_calls": [{"function": {"name": "write", "arguments": words}}]}}]});
    let mut stream = format!("data: {}\n\n", piece("{\"text\":\""));
    for _ in 0..pieces {
        stream += &format!("data: {}\n\n", piece("words "));
    }
    stream += &format!("data: {}\n\ndata: [DONE]\n\n", piece("\"}"));
    let provider =
        LocalProvider::start(Dialect::OpenAiChat, [Answer::events(stream).and_pieces_of(65536)]);
    let text_part = deltas(&model_at(&provider), hello()).await;
    let Some(Ok(Delta::Call { input, .. })) = text_part.first() else {
        panic!("no call: {text_part:?}")
    };
    assert_eq!(input["text"].as_str().map(str::len), Some(pieces * 6));
}

/// Compares the outcome of a run of many steps with a budget.
async fn check_budget(usage: cotter::history::message::Usage, expected: Expect) {
    let mut table = String::new();
    for dialect in [Dialect::AnthropicMessages, Dialect::OpenAiResponses] {
        let mut step = 0;
        let provider = LocalProvider::start_with(dialect, move |_| {
            step += 1;
            Answer::call(format!("call_{step}"), "echo", json!({})).and_usage(usage)
        });
        let limited = agent_of(model_at(&provider)).limits(|limits| {
            limits.max_budget_usd = Some(0.01);
            limits.max_steps = Some(5);
        });
        let session = limited.build().expect("it is an agent").main_session().await;
        let ended = session.expect("a session is made").prompt("Go.").await.expect("it runs");
        let why = ended.error.map(|failed_result| failed_result.message);
        let (steps, cost) = (ended.steps, ended.cost_usd);
        table += &format!("{dialect:?}: {steps} steps, {cost:?} USD, {why:?}\n");
    }
    expected.assert_eq(&table);
}

#[tokio::test]
async fn reply_without_usage_is_not_free() {
    check_budget(Default::default(), expect![[r#"
        AnthropicMessages: 1 steps, None USD, Some("the price of a reply is not known, so the budget cannot be kept")
        OpenAiResponses: 1 steps, None USD, Some("the price of a reply is not known, so the budget cannot be kept")
    "#]]).await;
}

/// A local server restarts its call ids in every reply, but the fallback model refuses repeated
/// ids.
#[tokio::test]
async fn repeated_ids_are_unique_for_the_fallback_model() {
    for dialect in [Dialect::AnthropicMessages, Dialect::OpenAiResponses] {
        let again = || Answer::call("call_0", "echo", json!({"text": "Well."}));
        let answers = [again(), again(), Answer::status(401)];
        let first = LocalProvider::start(Dialect::OpenAiChat, answers);
        let next = LocalProvider::start(dialect, [Answer::text("Seen twice.")]);
        let agent = agent_of(model_at(&first)).fallback(model_at(&next)).build();
        let session = agent.expect("it is an agent").main_session().await.expect("it is made");
        let reply = session.prompt("Say it twice.").await.expect("it runs");
        assert_eq!(next.refusals(), Vec::<String>::new());
        assert_eq!(reply.text(), "Seen twice.", "{dialect:?}");
    }
}

/// One secret has a quote and a backslash, which JSON within JSON escapes differently; the other
/// begins like the end of an escape.
#[tokio::test]
async fn s28_cassette_has_no_secret_in_any_spelling() {
    let folder = tempfile::tempdir().expect("there is a folder for it");
    for (number, (secret, text_part)) in [
        (r#"hu"sh\hush"#, r#"It is hu"sh\hush, all of it."#),
        ("notoday", "Not now.\notoday, maybe."),
        ("notoday", "Never: notoday."),
    ]
    .into_iter()
    .enumerate()
    {
        let redactor = || Redactor::new().with_secret("WORD", secret);
        let path = folder.path().join(number.to_string());
        let provider = LocalProvider::start(Dialect::AnthropicMessages, [Answer::text(text_part)]);
        let recorder = Recorder::create(&path, redactor()).expect("it is a new file");
        let http = Http::new().with_tape(Tape::Record(recorder));
        let asked = || request([Message::user(format!("Say: {text_part}"))]);
        let heard_then = reply_deltas(&model_over(&provider, &http), asked()).await;
        let text = std::fs::read_to_string(&path).expect("it was written");
        assert!(!text.contains("hush") && !text.contains(" notoday"), "{text}");
        let player = Player::open(&path, redactor()).expect("it can be played");
        let http = Http::new().with_tape(Tape::Play(player));
        let heard_now = reply_deltas(&model_over(&provider, &http), asked()).await;
        assert_eq!(heard_now.lines().last(), heard_then.lines().last(), "{heard_now}");
    }
}
