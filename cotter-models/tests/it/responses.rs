//! OpenAI's Responses: whole requests, recorded answers, and an agent between them.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread::{JoinHandle, spawn},
};

use cotter::{
    Agent, FnTool, Message, MessageList, Permit, ToolOutput, ToolSpec,
    history::{
        message::{AssistantPart, Content, ContentPart, Usage, UserMessage},
        outcome::ToolErrorKind,
    },
    model::{Delta, Model, Request, Thinking, tools::ToolList},
    permission::{Zone, facts::Facts},
};
use cotter_models::{ApiFormat, ApiKey, Http, HttpModel, Provider};
use cotter_test::transcript;
use expect_test::{Expect, expect};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::kit::{call, picture, reply, result_with, text_part};

/// A server that gives one answer per request, in order.
struct Line {
    url: String,
    requests: JoinHandle<Vec<String>>,
}

impl Line {
    fn new(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/v1/", listener.local_addr().expect("it is bound"));
        let requests = spawn(move || {
            let answer = |answer: String| {
                let (mut stream, _) = listener.accept().expect("somebody asks");
                let request = read_request(&mut stream);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                            connection: close\r\n\r\n";
                let _ = stream.write_all((head.to_owned() + &answer).as_bytes());
                request
            };
            answers.into_iter().map(answer).collect()
        });
        Line { url, requests }
    }

    fn model(&self, model: &str) -> HttpModel {
        let provider = Provider::built_in("openai-responses").expect("it is known");
        let provider = provider.with_base_url(&self.url).with_key(ApiKey::new("key"));
        provider.model(model, &Http::new())
    }

    /// The requests, head and body, after all answers were given.
    fn requests(self) -> Vec<String> {
        self.requests.join().expect("the server ran")
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let (mut request, mut piece) = (vec![], [0; 4096]);
    loop {
        let len = stream.read(&mut piece).expect("the line holds");
        request.extend_from_slice(&piece[..len]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let lower = head.to_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0) {
            return text;
        }
    }
}

/// A recorded answer. The first line of the file names the page it was written from.
fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/responses");
    let text = std::fs::read_to_string(format!("{folder}/{name}.sse")).expect("the file is there");
    assert!(text.starts_with(": "), "{name} names no page");
    text
}

fn model(name: &str) -> HttpModel {
    Provider::built_in("openai-responses").expect("it is known").model(name, &Http::new())
}

fn request(messages: impl IntoIterator<Item = Message>) -> Request {
    Request {
        system: "Be brief.".into(),
        messages: messages.into_iter().collect(),
        notes: 0,
        tools: Arc::default(),
        thinking: Thinking::Off,
        max_tokens: None,
    }
}

fn tools() -> Arc<ToolList> {
    let read = ToolSpec::new(
        "read",
        "Reads a file.",
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
    );
    Arc::new([read].into_iter().collect())
}

const OWN: &str = "openai-responses/gpt-6.1-sol";

fn thought(signature: Value) -> AssistantPart {
    AssistantPart::Thinking { text: "Hm.".into(), signature: Some(signature.to_string()) }
}

/// Compares a whole request, one line per item.
fn check_request(model: &HttpModel, request: &Request, expected: Expect) {
    expected.assert_eq(&shown_request(&model.body(request)));
}

fn shown_request(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).expect("a request is JSON");
    let fields = body.as_object().expect("a request is an object").iter();
    let shown = fields.map(|(key, value)| match (key.as_str(), value) {
        ("input", Value::Array(items)) => {
            let items = items.iter().map(|item| format!("  {item}\n"));
            format!("input:\n{}", items.collect::<String>())
        }
        (key, value) => format!("{key}: {value}\n"),
    });
    shown.collect()
}

/// Compares the deltas of an answer.
async fn check_answer(answer: impl Into<String>, expected: Expect) {
    expected.assert_eq(&answer_deltas(answer).await);
}

async fn answer_deltas(answer: impl Into<String>) -> String {
    let line = Line::new(vec![answer.into()]);
    let model = line.model("gpt-6.1-sol");
    let mut stream = model.stream(request([Message::user("Hello?")]));
    let mut shown = String::new();
    while let Some(delta) = stream.next().await {
        shown += &match delta {
            Ok(Delta::Text(text)) => format!("text {text:?}\n"),
            Ok(Delta::Thinking(text)) => format!("thinking {text:?}\n"),
            Ok(Delta::Signature(signature)) => format!("signature {signature}\n"),
            Ok(Delta::Call { id, name, input }) => format!("call {id:?} {name} {input}\n"),
            Ok(Delta::Done { stop_reason, usage }) => {
                let Usage { input_tokens, output_tokens, cache_read, cache_write } = usage;
                format!(
                    "{}: in {input_tokens}, out {output_tokens}, cache read {cache_read}, \
                     written {cache_write}\n",
                    stop_reason.as_str(),
                )
            }
            Ok(other) => format!("{other:?}\n"),
            Err(error) => match error.retry_after {
                Some(wait) => format!("{error} (wait {wait:?})\n"),
                None => format!("{error}\n"),
            },
        };
    }
    line.requests();
    shown
}

#[test]
fn stable_fields_come_first_in_a_request() {
    let mut request = request([Message::user("Hello?")]);
    request.tools = tools();
    request.max_tokens = Some(4096);
    request.thinking = Thinking::Medium;
    check_request(
        &model("gpt-6.1-sol"),
        &request,
        expect![[r#"
            model: "gpt-6.1-sol"
            instructions: "Be brief."
            tools: [{"type":"function","name":"read","description":"Reads a file.","strict":false,"parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}]
            input:
              {"type":"message","role":"user","content":"Hello?"}
            store: false
            stream: true
            parallel_tool_calls: true
            max_output_tokens: 4096
            reasoning: {"effort":"medium","summary":"auto"}
            include: ["reasoning.encrypted_content"]
        "#]],
    );
}

#[test]
fn model_without_thinking_gets_no_reasoning_fields() {
    let mut plain = request([Message::user("Hello?")]);
    plain.system = "".into();
    plain.thinking = Thinking::High;
    plain.max_tokens = Some(1);
    check_request(
        &model("gpt-4.1"),
        &plain,
        expect![[r#"
            model: "gpt-4.1"
            input:
              {"type":"message","role":"user","content":"Hello?"}
            store: false
            stream: true
            max_output_tokens: 16
        "#]],
    );
}

#[test]
fn thinking_level_is_the_nearest_effort_word() {
    let levels =
        [Thinking::Off, Thinking::Minimal, Thinking::Low, Thinking::Medium, Thinking::High];
    let mut shown = String::new();
    for name in ["gpt-6.1-sol", "gpt-6.1-terra", "gpt-5", "gpt-5-pro", "gpt-4.1", "nobody-knows"] {
        shown += &format!("{name}\n");
        for level in levels {
            let mut request = request([Message::user("Hello?")]);
            request.thinking = level;
            let body: Value = serde_json::from_slice(&model(name).body(&request)).expect("JSON");
            let (level, asked, sealed) = (level.as_str(), &body["reasoning"], &body["include"]);
            shown += &format!("  {level}: {asked} {sealed}\n");
        }
    }
    expect![[r#"
        gpt-6.1-sol
          off: {"effort":"low"} ["reasoning.encrypted_content"]
          minimal: {"effort":"low","summary":"auto"} ["reasoning.encrypted_content"]
          low: {"effort":"low","summary":"auto"} ["reasoning.encrypted_content"]
          medium: {"effort":"medium","summary":"auto"} ["reasoning.encrypted_content"]
          high: {"effort":"high","summary":"auto"} ["reasoning.encrypted_content"]
        gpt-6.1-terra
          off: {"effort":"none"} ["reasoning.encrypted_content"]
          minimal: {"effort":"none"} ["reasoning.encrypted_content"]
          low: {"effort":"low","summary":"auto"} ["reasoning.encrypted_content"]
          medium: {"effort":"medium","summary":"auto"} ["reasoning.encrypted_content"]
          high: {"effort":"high","summary":"auto"} ["reasoning.encrypted_content"]
        gpt-5
          off: {"effort":"minimal"} ["reasoning.encrypted_content"]
          minimal: {"effort":"minimal","summary":"auto"} ["reasoning.encrypted_content"]
          low: {"effort":"low","summary":"auto"} ["reasoning.encrypted_content"]
          medium: {"effort":"medium","summary":"auto"} ["reasoning.encrypted_content"]
          high: {"effort":"high","summary":"auto"} ["reasoning.encrypted_content"]
        gpt-5-pro
          off: {"effort":"high"} ["reasoning.encrypted_content"]
          minimal: {"effort":"high","summary":"auto"} ["reasoning.encrypted_content"]
          low: {"effort":"high","summary":"auto"} ["reasoning.encrypted_content"]
          medium: {"effort":"high","summary":"auto"} ["reasoning.encrypted_content"]
          high: {"effort":"high","summary":"auto"} ["reasoning.encrypted_content"]
        gpt-4.1
          off: null null
          minimal: null null
          low: null null
          medium: null null
          high: null null
        nobody-knows
          off: null null
          minimal: {"effort":"low","summary":"auto"} ["reasoning.encrypted_content"]
          low: {"effort":"low","summary":"auto"} ["reasoning.encrypted_content"]
          medium: {"effort":"medium","summary":"auto"} ["reasoning.encrypted_content"]
          high: {"effort":"high","summary":"auto"} ["reasoning.encrypted_content"]
    "#]]
    .assert_eq(&shown);
}

#[test]
fn a_conversation_is_a_list_of_items() {
    let messages = [
        Message::user("Hello?"),
        Message::User(UserMessage::new(Content::Parts(vec![
            ContentPart::Text("What is this?".into()),
            ContentPart::Text(" ".into()),
            picture(),
            ContentPart::data("a,b"),
        ]))),
        Message::user(" "),
        reply(OWN, [text_part("I'll look."), call("call_1", "read", json!({"path": "a.md"}))]),
        result_with("call_1", "hello\n", None),
        reply(
            OWN,
            [
                call("call_2", "read", json!({"path": "a.png"})),
                call("call_3", "read", json!({})),
                call("call_4", "read", json!("{\"path")),
                call("call_5", "functions.read it", json!({})),
            ],
        ),
        result_with("call_2", vec![ContentPart::Text("A picture:".into()), picture()], None),
        result_with("call_3", "no such file", Some(ToolErrorKind::Failed)),
        result_with("call_4", "Error: that is no object", Some(ToolErrorKind::InvalidArgs)),
        result_with("call_5", vec![picture()], Some(ToolErrorKind::Failed)),
        reply(OWN, [text_part("Done."), text_part(" ")]),
    ];
    check_request(
        &model("gpt-6.1-sol"),
        &request(messages),
        expect![[r#"
            model: "gpt-6.1-sol"
            instructions: "Be brief."
            input:
              {"type":"message","role":"user","content":"Hello?"}
              {"type":"message","role":"user","content":[{"type":"input_text","text":"What is this?"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"auto"},{"type":"input_text","text":"a,b"}]}
              {"type":"message","role":"assistant","content":"I'll look."}
              {"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\":\"a.md\"}"}
              {"type":"function_call_output","call_id":"call_1","output":"hello\n"}
              {"type":"function_call","call_id":"call_2","name":"read","arguments":"{\"path\":\"a.png\"}"}
              {"type":"function_call","call_id":"call_3","name":"read","arguments":"{}"}
              {"type":"function_call","call_id":"call_4","name":"read","arguments":"{\"unparsed\":\"{\\\"path\"}"}
              {"type":"function_call","call_id":"call_5","name":"functions_read_it_c23203e1","arguments":"{}"}
              {"type":"function_call_output","call_id":"call_2","output":[{"type":"input_text","text":"A picture:"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"auto"}]}
              {"type":"function_call_output","call_id":"call_3","output":"Error: no such file"}
              {"type":"function_call_output","call_id":"call_4","output":"Error: that is no object"}
              {"type":"function_call_output","call_id":"call_5","output":[{"type":"input_text","text":"Error:"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"auto"}]}
              {"type":"message","role":"assistant","content":"Done."}
            store: false
            stream: true
            reasoning: {"effort":"low"}
            include: ["reasoning.encrypted_content"]
        "#]],
    );
}

#[test]
fn thoughts_are_sent_back_to_their_model_with_the_next_item() {
    let sealed = |id: &str| thought(json!({"id": id, "encrypted_content": format!("sealed {id}")}));
    let phase = |word: &str| thought(json!({"phase": word}));
    let parts = || {
        [
            sealed("rs_1"),
            phase("commentary"),
            text_part("I'll look."),
            thought(json!({"id": "rs_2", "encrypted_content": null})),
            sealed("rs_3"),
            sealed("rs_4"),
            call("call_1", "read", json!({"path": "a.md"})),
        ]
    };
    let messages = [
        Message::user("Hello?"),
        reply(OWN, parts()),
        result_with("call_1", "hello", None),
        reply("openai-responses/gpt-5.5", parts()),
        result_with("call_1", "hello", None),
        // The reply was truncated.
        reply(OWN, [sealed("rs_5"), phase("final_answer"), text_part("")]),
        Message::user("Go on."),
        reply(OWN, [thought(json!("not ours")), phase("final_answer"), text_part("So:")]),
    ];
    check_request(
        &model("gpt-6.1-sol"),
        &request(messages),
        expect![[r#"
            model: "gpt-6.1-sol"
            instructions: "Be brief."
            input:
              {"type":"message","role":"user","content":"Hello?"}
              {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"sealed rs_1"}
              {"type":"message","role":"assistant","content":"I'll look.","phase":"commentary"}
              {"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"sealed rs_3"}
              {"type":"reasoning","id":"rs_4","summary":[],"encrypted_content":"sealed rs_4"}
              {"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\":\"a.md\"}"}
              {"type":"function_call_output","call_id":"call_1","output":"hello"}
              {"type":"message","role":"assistant","content":"I'll look."}
              {"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\":\"a.md\"}"}
              {"type":"function_call_output","call_id":"call_1","output":"hello"}
              {"type":"message","role":"user","content":"Go on."}
              {"type":"message","role":"assistant","content":"So:","phase":"final_answer"}
            store: false
            stream: true
            reasoning: {"effort":"low"}
            include: ["reasoning.encrypted_content"]
        "#]],
    );
}

#[test]
fn foreign_ids_are_shortened_and_stay_unique() {
    let long = |end: &str| "toolu_".repeat(12) + end;
    let messages = [
        reply(
            "anthropic/x",
            [
                call("call-1_A", "read", json!({})),
                call("a.b", "read", json!({})),
                call("a:b", "read", json!({})),
                call(&long("1"), "read", json!({})),
                call(&long("2"), "read", json!({})),
            ],
        ),
        result_with("call-1_A", "1", None),
        result_with("a.b", "2", None),
        result_with("a:b", "3", None),
        result_with(&long("1"), "4", None),
        result_with(&long("2"), "5", None),
    ];
    check_request(
        &model("gpt-6.1-sol"),
        &request(messages),
        expect![[r#"
            model: "gpt-6.1-sol"
            instructions: "Be brief."
            input:
              {"type":"function_call","call_id":"call-1_A","name":"read","arguments":"{}"}
              {"type":"function_call","call_id":"a_b_e61d99190466522c","name":"read","arguments":"{}"}
              {"type":"function_call","call_id":"a_b_e661911904a01160","name":"read","arguments":"{}"}
              {"type":"function_call","call_id":"toolu_toolu_toolu_toolu_toolu_toolu_toolu_toolu_7060f76fcf6d2e2c","name":"read","arguments":"{}"}
              {"type":"function_call","call_id":"toolu_toolu_toolu_toolu_toolu_toolu_toolu_toolu_7060fa6fcf6d3345","name":"read","arguments":"{}"}
              {"type":"function_call_output","call_id":"call-1_A","output":"1"}
              {"type":"function_call_output","call_id":"a_b_e61d99190466522c","output":"2"}
              {"type":"function_call_output","call_id":"a_b_e661911904a01160","output":"3"}
              {"type":"function_call_output","call_id":"toolu_toolu_toolu_toolu_toolu_toolu_toolu_toolu_7060f76fcf6d2e2c","output":"4"}
              {"type":"function_call_output","call_id":"toolu_toolu_toolu_toolu_toolu_toolu_toolu_toolu_7060fa6fcf6d3345","output":"5"}
            store: false
            stream: true
            reasoning: {"effort":"low"}
            include: ["reasoning.encrypted_content"]
        "#]],
    );
}

#[test]
fn next_request_begins_with_this_one() {
    let model = model("gpt-6.1-sol");
    let mut messages = MessageList::default();
    let mut sent: Option<(Request, Vec<u8>)> = None;
    for step in 0..70 {
        let id = format!("call_{step}");
        let sealed = thought(json!({"id": id, "encrypted_content": "sealed"}));
        if step == 0 {
            messages.push(Message::user("Begin."));
        } else {
            messages.push(reply(OWN, [sealed, call(&id, "read", json!({"path": id}))]));
            messages.push(result_with(&id, format!("line {step}"), None));
        }
        let mut now = request([]);
        (now.messages, now.tools) = (messages.clone(), tools());
        let body = model.body(&now);
        if let Some((before, prefix)) = sent {
            assert!(body.starts_with(&prefix), "step {step}");
            assert_eq!(model.break_at(&before, &now), None, "step {step}");
        }
        let settings = br#"],"store""#;
        let end = body.windows(settings.len()).rposition(|bytes| bytes == settings);
        sent = Some((now, body[..end.expect("settings come last")].to_vec()));
    }
}

#[test]
fn changed_prompt_breaks_at_its_byte() {
    let model = model("gpt-6.1-sol");
    let before = request([Message::user("Hello?")]);
    let now = Request { system: "Be long.".into(), ..before.clone() };
    let at = r#"{"model":"gpt-6.1-sol","instructions":"Be "#.len() as u64;
    assert_eq!(model.break_at(&before, &now), Some(at));
}

#[tokio::test]
async fn text_comes_in_pieces() {
    check_answer(
        fixture("text"),
        expect![[r#"
            text "Hello"
            text " th"
            text "ere."
            end_turn: in 51, out 5, cache read 1024, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn event_names_and_numbers_are_optional() {
    let whole = fixture("thinking");
    let bare: String = whole
        .lines()
        .filter(|line| !line.starts_with("event: "))
        .filter(|line| !line.contains(r#""type":"response.reasoning_summary_part.added""#))
        .map(|line| match line.strip_prefix("data: ") {
            Some(data) => {
                let mut event: Value = serde_json::from_str(data).expect("the file is good");
                let event = event.as_object_mut().expect("the file is good");
                event.shift_remove("sequence_number");
                event.shift_remove("output_index");
                format!("data:{}\r\n", Value::from(event.clone()))
            }
            None => format!("{line}\r\n"),
        })
        .collect();
    assert_eq!(answer_deltas(bare).await, answer_deltas(whole).await);
}

#[tokio::test]
async fn thoughts_texts_and_calls_come_in_order() {
    check_answer(
        fixture("thinking"),
        expect![[r#"
            thinking "**Plan**\n\nRead "
            thinking "it."
            thinking "\n\n"
            thinking "**Then**\n\nSay it."
            signature {"id":"rs_1","encrypted_content":"gAAAAone"}
            signature {"phase":"commentary"}
            text "I'll read"
            text " it."
            signature {"id":"rs_2","encrypted_content":"gAAAAtwo"}
            call "call_5dp" read {"path":"a.md"}
            tool_use: in 208, out 155, cache read 512, written 1280
        "#]],
    )
    .await;
}

#[tokio::test]
async fn parallel_calls_are_read() {
    check_answer(
        fixture("calls"),
        expect![[r#"
            signature {"id":"rs_1","encrypted_content":"gAAAAone"}
            call "call_a" read {"path":"a.md"}
            call "call_b" read {"path":"b.md"}
            call "call_c" list {}
            tool_use: in 75, out 155, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn two_messages_are_separated() {
    check_answer(
        fixture("two_messages"),
        expect![[r#"
            text "First."
            text "\n\n"
            text "Second."
            end_turn: in 10, out 4, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn refusal_has_its_stop_reason() {
    check_answer(
        fixture("refusal"),
        expect![[r#"
            text "I can't"
            text " help with that."
            refusal: in 30, out 8, cache read 0, written 0
        "#]],
    )
    .await;
    check_answer(
        fixture("filtered"),
        expect![[r#"
            text "Once"
            refusal: in 75, out 3, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn incomplete_call_is_dropped() {
    check_answer(
        fixture("cut"),
        expect![[r#"
            thinking "Long."
            signature {"id":"rs_1","encrypted_content":"gAAAAone"}
            max_tokens: in 75, out 16, cache read 0, written 0
        "#]],
    )
    .await;
    check_answer(
        fixture("unparsed_cut"),
        expect![[r#"
            max_tokens: in 10, out 4, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn invalid_json_input_stays_a_text() {
    check_answer(
        fixture("unparsed"),
        expect![[r#"
            call "call_a" read "{\"path\":"
            tool_use: in 10, out 4, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn errors_have_a_kind_and_come_once() {
    let mut shown = String::new();
    for name in ["rate_limited", "overflow", "quota", "overloaded", "error", "flagged"] {
        shown += &format!("{name}\n{}", answer_deltas(fixture(name)).await);
    }
    expect![[r#"
        rate_limited
        rate_limited: Rate limit reached for gpt-5.1 in organization org-AAA on tokens per min (TPM): Limit 30000, Used 22999, Requested 12528. Please try again in 11.054s. Visit https://platform.openai.com/account/rate-limits to learn more. (wait 11.054s)
        overflow
        context_overflow: Your input exceeds the context window of this model. Please adjust your input and try again.
        quota
        other: You exceeded your current quota, please check your plan and billing details.
        overloaded
        text "Hel"
        overloaded: Our servers are currently overloaded. Please try again later.
        error
        overloaded: The server had an error while processing your request.
        flagged
        bad_request: Invalid prompt: your prompt was flagged as potentially violating our usage policy.
    "#]].assert_eq(&shown);
}

#[tokio::test]
async fn errors_of_compatible_servers_are_read() {
    let mut shown = String::new();
    for event in [
        json!({"type": "response.failed", "error": {"message": "down", "code": "server_error"}}),
        json!({"type": "response.error", "error": {"message": "slow down", "code": "slow_down"}}),
        json!({"error": {"message": "too long: maximum context length is 8", "code": 400}}),
        json!({"type": "response.completed", "response": {"status": "failed", "error": null}}),
        json!({"type": "error", "error": null, "message": "bad", "code": "invalid_request_error"}),
    ] {
        shown += &answer_deltas(format!("data: {event}\n\n")).await;
    }
    expect![[r#"
        overloaded: down
        rate_limited: slow down
        context_overflow: too long: maximum context length is 8
        overloaded: the provider reported an error
        bad_request: bad
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn ollama_sends_thinking_unencrypted() {
    check_answer(
        fixture("ollama"),
        expect![[r#"
            thinking "The user\n"
            thinking "wants it."
            signature {"id":"rs_42","encrypted_content":"The user\nwants it."}
            call "call_x1" read {"path":"a.md"}
            tool_use: in 40, out 12, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn vllm_encrypts_nothing() {
    check_answer(
        fixture("vllm"),
        expect![[r#"
            thinking "We must "
            thinking "greet."
            signature {"id":"rs_9","encrypted_content":null}
            text "Hi."
            end_turn: in 4, out 14, cache read 64, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn items_that_were_not_streamed_are_read_from_the_end() {
    check_answer(
        fixture("at_the_end"),
        expect![[r#"
            thinking "Hm."
            signature {"id":"rs_1","encrypted_content":"sealed"}
            signature {"phase":"commentary"}
            text "Look:"
            call "call_1" read {"path":"a.md"}
            tool_use: in 0, out 0, cache read 0, written 0
        "#]],
    )
    .await;
    let pieces = json!({"type": "response.output_text.delta", "delta": "Look:"});
    let answer = fixture("at_the_end").replacen("\n\n", &format!("\n\ndata: {pieces}\n\n"), 1);
    check_answer(
        answer,
        expect![[r#"
            text "Look:"
            call "call_1" read {"path":"a.md"}
            tool_use: in 0, out 0, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn compatible_servers_differ() {
    let item = |item: Value| json!({"type": "response.output_item.done", "item": item});
    let end = json!({"type": "response.completed", "response": {"status": "in_progress"}});
    let mut shown = String::new();
    for events in [
        vec![
            json!({"type": "response.reasoning_text.delta", "delta": "Hm."}),
            json!({"type": "response.reasoning_summary_text.delta", "delta": "He says hm."}),
            item(json!({"type": "reasoning"})),
            item(json!({"type": "reasoning", "content": [{"text": "So."}, {"text": "Yes."}]})),
            item(json!({"type": "reasoning", "id": "", "summary": [], "encrypted_content": ""})),
            item(json!({"type": "message", "content": [{"text": "A"}, {"refusal": ""}]})),
            end.clone(),
        ],
        vec![item(json!({"type": "function_call", "name": "list", "arguments": {}})), end.clone()],
        vec![item(json!({"type": "function_call", "name": "list"})), end.clone()],
        vec![item(json!({"type": "function_call", "call_id": "call_1"})), end.clone()],
        vec![json!({"type": "response.incomplete"})],
        vec![
            json!({"type": "response.done", "response": {"status": "incomplete", "output": null}}),
        ],
        vec![json!({"type": "response.cancelled", "response": null})],
    ] {
        let events = events.iter().map(|event| format!("data: {event}\n\n"));
        shown += &format!("{}--\n", answer_deltas(events.collect::<String>()).await);
    }
    expect![[r#"
        thinking "Hm."
        signature {"id":null,"encrypted_content":null}
        thinking "So.\n\nYes."
        signature {"id":null,"encrypted_content":null}
        text "A"
        end_turn: in 0, out 0, cache read 0, written 0
        --
        call "" list {}
        tool_use: in 0, out 0, cache read 0, written 0
        --
        call "" list {}
        tool_use: in 0, out 0, cache read 0, written 0
        --
        network: cannot read the reply: a call without a name
        --
        max_tokens: in 0, out 0, cache read 0, written 0
        --
        max_tokens: in 0, out 0, cache read 0, written 0
        --
        overloaded: the provider reported an error
        --
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn answer_without_an_end_is_an_error() {
    let whole = fixture("text");
    let cut = whole.split_once("event: response.completed").expect("it ends").0;
    check_answer(
        cut.to_owned() + "data: [DONE]\n\n",
        expect![[r#"
            text "Hello"
            text " th"
            text "ere."
        "#]],
    )
    .await;
}

#[tokio::test]
async fn invalid_event_is_an_error_and_unknown_is_skipped() {
    check_answer(
        "data: {\"type\": \"response.out\n\n",
        expect![[r#"
            network: cannot read the reply: EOF while parsing a string at line 1 column 22
        "#]],
    )
    .await;
    let unknown = "data:\n\n\
                   data: {\"type\":\"response.queued\",\"delta\":{\"x\":1},\"item\":1}\n\n\
                   data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"compaction\"}}\n\n\
                   data: {}\n\n\
                   data: {\"type\":\"response.done\"}\n\n";
    check_answer(
        unknown,
        expect![[r#"
            end_turn: in 0, out 0, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn agent_sends_encrypted_thoughts_back() {
    let line = Line::new(["thinking", "final", "text"].map(fixture).to_vec());
    let spec = ToolSpec::new("read", "Reads a file.", json!({"type": "object"}));
    let read = FnTool::new(spec, |_: Permit| async { Ok(ToolOutput::from("hello")) });
    let agent = Agent::builder(line.model("gpt-6.1-sol"))
        .tool(read.with_facts(Facts::zone(Zone::Safe)))
        .build()
        .expect("the tool is good");
    let session = agent.main_session().await.expect("a session is made");
    session.prompt("What does a.md say?").await.expect("it runs");
    session.prompt("Thanks.").await.expect("it runs");
    expect![[r#"
        user: What does a.md say?
        thinking: **Plan**

        Read it.

        **Then**

        Say it.
        thinking: (hidden)
        assistant: I'll read it.
        thinking: (hidden)
        call call_5dp: read {"path":"a.md"}
        result call_5dp: hello
        thinking: (hidden)
        thinking: (hidden)
        assistant: It says hello.
        user: Thanks.
        assistant: Hello there.
    "#]]
    .assert_eq(&transcript(&session));
    let requests = line.requests();
    let head = requests[0].to_lowercase();
    assert!(head.starts_with("post /v1/responses http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nauthorization: bearer key\r\n"), "{head}");
    let last = requests[2].split_once("\r\n\r\n").expect("it has a body").1;
    expect![[r#"
        model: "gpt-6.1-sol"
        tools: [{"type":"function","name":"read","description":"Reads a file.","strict":false,"parameters":{"type":"object"}}]
        input:
          {"type":"message","role":"user","content":"What does a.md say?"}
          {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAone"}
          {"type":"message","role":"assistant","content":"I'll read it.","phase":"commentary"}
          {"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gAAAAtwo"}
          {"type":"function_call","call_id":"call_5dp","name":"read","arguments":"{\"path\":\"a.md\"}"}
          {"type":"function_call_output","call_id":"call_5dp","output":"hello"}
          {"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"gAAAAthree"}
          {"type":"message","role":"assistant","content":"It says hello.","phase":"final_answer"}
          {"type":"message","role":"user","content":"Thanks."}
        store: false
        stream: true
        parallel_tool_calls: true
        reasoning: {"effort":"low"}
        include: ["reasoning.encrypted_content"]
    "#]].assert_eq(&shown_request(last.as_bytes()));
}

#[test]
fn custom_provider_may_use_responses() {
    let lab = Provider::new("lab", ApiFormat::OpenAiResponses, "http://127.0.0.1:9/v1");
    let own =
        reply("lab/qwen3", [thought(json!({"encrypted_content": "plain"})), text_part("Hi.")]);
    let request = request([Message::user("Hello?"), own]);
    check_request(
        &lab.model("qwen3", &Http::new()),
        &request,
        expect![[r#"
            model: "qwen3"
            instructions: "Be brief."
            input:
              {"type":"message","role":"user","content":"Hello?"}
              {"type":"reasoning","summary":[],"encrypted_content":"plain"}
              {"type":"message","role":"assistant","content":"Hi."}
            store: false
            stream: true
        "#]],
    );
}
