//! OpenAI's Chat Completions: whole requests, recorded replies of many servers, and an agent
//! between the two.

use std::{path::Path, sync::Arc};

use cotter::{
    Agent, FnTool, Message, Permit, ToolOutput, ToolSpec,
    history::{
        message::{AssistantPart, Content, ContentPart, Usage},
        outcome::ToolErrorKind,
    },
    model::{Delta, Model, Request, Thinking, tools::ToolList},
    permission::{Zone, facts::Facts},
};
use cotter_models::{ApiFormat, ApiKey, Http, HttpModel, Provider};
use cotter_test::{Answer, Dialect, LocalProvider, transcript};
use expect_test::{Expect, expect};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::kit::{call, reply, result_with, text_part};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/chat");

/// A model behind a local provider.
fn model_at(provider: &LocalProvider, model: &str) -> HttpModel {
    let lab = Provider::new("lab", ApiFormat::OpenAiChat, provider.url());
    lab.with_key(ApiKey::new("a key")).model(model, &Http::new())
}

/// A recorded reply of a server. Its first line names the page it was written from.
fn fixture(name: &str) -> String {
    let path = Path::new(FIXTURES).join(name).with_extension("sse");
    let text = std::fs::read_to_string(path).expect("a fixture");
    assert!(text.starts_with(": https://"), "{name} does not name its page");
    text
}

/// The deltas of a model for a server's answer, one per line.
async fn shown_reply(answer: Answer) -> String {
    let provider = LocalProvider::start(Dialect::OpenAiChat, [answer]);
    let mut stream = model_at(&provider, "m").stream(request(&[Message::user("Hello")]));
    let mut shown = String::new();
    while let Some(delta) = stream.next().await {
        shown += &match delta {
            Ok(Delta::Text(text)) => format!("text {text:?}"),
            Ok(Delta::Thinking(text)) => format!("thinking {text:?}"),
            Ok(Delta::Signature(signature)) => format!("signature {signature}"),
            Ok(Delta::Call { id, name, input }) => format!("call {id:?} {name} {input}"),
            Ok(Delta::Done { stop_reason, usage }) => {
                let Usage { input_tokens, output_tokens, cache_read, cache_write } = usage;
                format!(
                    "done {}: {input_tokens} in, {output_tokens} out, {cache_read} read, \
                     {cache_write} written",
                    stop_reason.as_str()
                )
            }
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("error {error} {:?}", error.retry_after),
        };
        shown.push('\n');
    }
    shown
}

async fn check_reply(name: &str, expected: Expect) {
    expected.assert_eq(&shown_reply(Answer::events(fixture(name))).await);
}

fn model(provider: &str, url: &str, model: &str) -> HttpModel {
    Provider::new(provider, ApiFormat::OpenAiChat, url).model(model, &Http::new())
}

fn request(messages: &[Message]) -> Request {
    Request {
        system: "Be brief.".into(),
        messages: messages.iter().cloned().collect(),
        notes: 0,
        tools: Arc::default(),
        thinking: Thinking::Off,
        max_tokens: None,
    }
}

fn tools() -> Arc<ToolList> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    Arc::new([ToolSpec::new("read", "Reads a file.", schema)].into_iter().collect())
}

fn thinking(text: &str, signature: &str) -> AssistantPart {
    AssistantPart::Thinking { text: text.into(), signature: Some(signature.into()) }
}

fn image(data: &str) -> ContentPart {
    ContentPart::Image { media_type: "image/png".into(), data: data.into() }
}

/// The whole body, one message per line.
fn shown(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).expect("it is JSON");
    let mut lines = String::new();
    for (name, value) in body.as_object().expect("an object") {
        match value.as_array() {
            Some(items) => {
                lines += &format!("{name}:\n");
                items.iter().for_each(|item| lines += &format!("  {item}\n"));
            }
            None => lines += &format!("{name}: {value}\n"),
        }
    }
    lines
}

fn check_request(model: &HttpModel, request: &Request, expected: Expect) {
    expected.assert_eq(&shown(&model.body(request)));
}

/// Compares only the messages of a request.
fn check_messages(model: &HttpModel, messages: &[Message], expected: Expect) {
    let request = Request { system: "".into(), ..request(messages) };
    let body: Value = serde_json::from_slice(&model.body(&request)).expect("it is JSON");
    let messages = body["messages"].as_array().expect("a list").iter();
    expected.assert_eq(&messages.map(|message| format!("{message}\n")).collect::<String>());
}

const LAB: &str = "http://127.0.0.1:8000/v1";

#[test]
fn stable_fields_come_first_in_a_request() {
    let messages = [
        Message::user("What is in a?"),
        reply("lab/m", [text_part("I look."), call("call_1", "read", json!({"path": "a"}))]),
        result_with("call_1", "nothing", None),
    ];
    let request = Request { tools: tools(), ..request(&messages) };
    check_request(
        &model("lab", LAB, "m"),
        &request,
        expect![[r#"
        model: "m"
        tools:
          {"type":"function","function":{"name":"read","description":"Reads a file.","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}
        messages:
          {"role":"system","content":"Be brief."}
          {"role":"user","content":"What is in a?"}
          {"role":"assistant","content":"I look.","tool_calls":[{"type":"function","id":"call_1","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]}
          {"role":"tool","tool_call_id":"call_1","content":"nothing"}
        stream: true
        stream_options: {"include_usage":true}
    "#]],
    );
}

/// The settings behind the messages.
fn settings(model: &HttpModel, request: &Request) -> String {
    let body = String::from_utf8(model.body(request)).expect("it is text");
    let (_, settings) = body.rsplit_once(r#"}],""#).expect("messages, and something behind them");
    format!("{}: {{\"{settings}\n", model.name())
}

/// Models of all kinds of servers.
fn models() -> Vec<HttpModel> {
    let ready = |provider: &str, name: &str| {
        Provider::built_in(provider).expect("it is known").model(name, &Http::new())
    };
    let elsewhere = Provider::built_in("openai").expect("it is known").with_base_url(LAB);
    vec![
        ready("openai", "gpt-4o"),
        ready("openai", "gpt-5"),
        ready("openai", "gpt-5.1"),
        ready("openai", "gpt-5.6"),
        ready("openai", "someday"),
        elsewhere.model("o3", &Http::new()),
        elsewhere.model("gpt-5.6", &Http::new()),
        ready("gemini", "gemini-2.5-pro"),
        ready("gemini", "gemini-3.8-flash"),
        ready("openrouter", "anthropic/claude-sonnet-4.6"),
        ready("openrouter", "openai/gpt-5.2"),
        ready("ollama", "qwen3"),
        model("deepseek", "https://api.deepseek.com", "deepseek-v4-pro"),
        model("lab", LAB, "m"),
    ]
}

fn check_settings(request: &Request, expected: Expect) {
    let shown: String = models().iter().map(|model| settings(model, request)).collect();
    expected.assert_eq(&shown);
}

#[test]
fn settings_differ_between_servers() {
    let hello = request(&[Message::user("Hello")]);
    check_settings(
        &hello,
        expect![[r#"
            openai/gpt-4o: {"stream":true,"stream_options":{"include_usage":true},"store":false}
            openai/gpt-5: {"stream":true,"stream_options":{"include_usage":true},"store":false,"reasoning_effort":"minimal"}
            openai/gpt-5.1: {"stream":true,"stream_options":{"include_usage":true},"store":false,"reasoning_effort":"none"}
            openai/gpt-5.6: {"store":false,"stream":true,"reasoning":{"effort":"none"},"include":["reasoning.encrypted_content"]}
            openai/someday: {"stream":true,"stream_options":{"include_usage":true},"store":false}
            openai/o3: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"low"}
            openai/gpt-5.6: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"none"}
            gemini/gemini-2.5-pro: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"low"}
            gemini/gemini-3.8-flash: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"low"}
            openrouter/anthropic/claude-sonnet-4.6: {"stream":true,"cache_control":{"type":"ephemeral"}}
            openrouter/openai/gpt-5.2: {"stream":true}
            ollama/qwen3: {"stream":true,"stream_options":{"include_usage":true}}
            deepseek/deepseek-v4-pro: {"stream":true,"stream_options":{"include_usage":true},"thinking":{"type":"disabled"}}
            lab/m: {"stream":true,"stream_options":{"include_usage":true}}
        "#]],
    );
    let limited = Request { thinking: Thinking::Minimal, max_tokens: Some(100), ..hello.clone() };
    check_settings(
        &limited,
        expect![[r#"
            openai/gpt-4o: {"stream":true,"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":100}
            openai/gpt-5: {"stream":true,"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":100,"reasoning_effort":"minimal"}
            openai/gpt-5.1: {"stream":true,"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":100,"reasoning_effort":"none"}
            openai/gpt-5.6: {"store":false,"stream":true,"max_output_tokens":100,"reasoning":{"effort":"none"},"include":["reasoning.encrypted_content"]}
            openai/someday: {"stream":true,"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":100,"reasoning_effort":"low"}
            openai/o3: {"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":100,"reasoning_effort":"low"}
            openai/gpt-5.6: {"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":100,"reasoning_effort":"none"}
            gemini/gemini-2.5-pro: {"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":100,"reasoning_effort":"low"}
            gemini/gemini-3.8-flash: {"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":100,"reasoning_effort":"low"}
            openrouter/anthropic/claude-sonnet-4.6: {"stream":true,"cache_control":{"type":"ephemeral"},"max_tokens":100,"reasoning_effort":"low"}
            openrouter/openai/gpt-5.2: {"stream":true,"max_tokens":100,"reasoning_effort":"low"}
            ollama/qwen3: {"stream":true,"stream_options":{"include_usage":true},"max_tokens":100,"reasoning_effort":"low"}
            deepseek/deepseek-v4-pro: {"stream":true,"stream_options":{"include_usage":true},"max_tokens":100,"reasoning_effort":"low"}
            lab/m: {"stream":true,"stream_options":{"include_usage":true},"max_tokens":100,"reasoning_effort":"low"}
        "#]],
    );
    check_settings(
        &Request { thinking: Thinking::High, tools: tools(), ..hello },
        expect![[r#"
            openai/gpt-4o: {"stream":true,"stream_options":{"include_usage":true},"store":false}
            openai/gpt-5: {"stream":true,"stream_options":{"include_usage":true},"store":false,"reasoning_effort":"high"}
            openai/gpt-5.1: {"stream":true,"stream_options":{"include_usage":true},"store":false,"reasoning_effort":"high"}
            openai/gpt-5.6: {"store":false,"stream":true,"parallel_tool_calls":true,"reasoning":{"effort":"high","summary":"auto"},"include":["reasoning.encrypted_content"]}
            openai/someday: {"stream":true,"stream_options":{"include_usage":true},"store":false,"reasoning_effort":"high"}
            openai/o3: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high"}
            openai/gpt-5.6: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"none"}
            gemini/gemini-2.5-pro: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high"}
            gemini/gemini-3.8-flash: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high"}
            openrouter/anthropic/claude-sonnet-4.6: {"stream":true,"cache_control":{"type":"ephemeral"},"reasoning_effort":"high"}
            openrouter/openai/gpt-5.2: {"stream":true,"reasoning_effort":"high"}
            ollama/qwen3: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high"}
            deepseek/deepseek-v4-pro: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high"}
            lab/m: {"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high"}
        "#]],
    );
}

#[test]
fn consecutive_user_messages_are_one_message() {
    let parts = |parts: &[ContentPart]| {
        Message::User(cotter::history::message::UserMessage::new(Content::Parts(parts.to_vec())))
    };
    let data = || ContentPart::Data("1,2\n\"3\"".into());
    check_messages(
        &model("lab", LAB, "m"),
        &[
            Message::user("one"),
            Message::user("  \n"),
            Message::user("a \"second\" line\nand ünï ✓"),
            parts(&[ContentPart::Text("typed".into()), data()]),
            reply("lab/m", [text_part("Yes.")]),
            parts(&[ContentPart::Text("see".into()), ContentPart::Text(" ".into()), image("AAAA")]),
            Message::user("and say"),
            parts(&[data(), image("BBBB"), image("CCCC")]),
            reply("lab/m", [text_part("Yes.")]),
            Message::user("text"),
            parts(&[image("DDDD")]),
        ],
        expect![[r#"
            {"role":"user","content":"one\n\na \"second\" line\nand ünï ✓\n\ntyped\n\n1,2\n\"3\""}
            {"role":"assistant","content":"Yes."}
            {"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"and say"},{"type":"text","text":"1,2\n\"3\""},{"type":"image_url","image_url":{"url":"data:image/png;base64,BBBB"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,CCCC"}}]}
            {"role":"assistant","content":"Yes."}
            {"role":"user","content":"text"}
            {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,DDDD"}}]}
        "#]],
    );
}

#[test]
fn reply_has_text_and_calls_and_follows_a_user_message() {
    check_messages(
        &model("lab", LAB, "m"),
        &[
            reply("lab/m", [text_part("Hello"), text_part(", you.")]),
            reply("lab/m", [thinking("Nothing but thoughts.", "reasoning")]),
            reply("lab/m", [text_part(" \n")]),
            Message::user("Go on."),
            reply(
                "lab/m",
                [
                    call("call_1", "read", json!({"path": "ä"})),
                    text_part("Both."),
                    call("call_2", "read", json!("{path")),
                    call("call_3", "functions.read!", json!({})),
                ],
            ),
            result_with("call_2", "two", None),
            result_with("call_1", "one", None),
            Message::user("And?"),
        ],
        expect![[r#"
            {"role":"user","content":"(The conversation goes on.)"}
            {"role":"assistant","content":"Hello, you."}
            {"role":"user","content":"Go on."}
            {"role":"assistant","content":"Both.","tool_calls":[{"type":"function","id":"call_1","function":{"name":"read","arguments":"{\"path\":\"ä\"}"}},{"type":"function","id":"call_2","function":{"name":"read","arguments":"{\"unparsed\":\"{path\"}"}},{"type":"function","id":"call_3","function":{"name":"functions_read__7b8eb7ef","arguments":"{}"}}]}
            {"role":"tool","tool_call_id":"call_2","content":"two"}
            {"role":"tool","tool_call_id":"call_1","content":"one"}
            {"role":"tool","tool_call_id":"call_3","content":"Error: The result of this call is lost."}
            {"role":"user","content":"And?"}
        "#]],
    );
}

#[test]
fn result_is_text_with_its_images_below() {
    let many = vec![
        ContentPart::Text("both".into()),
        image("BBBB"),
        ContentPart::Data("d".into()),
        image("CCCC"),
    ];
    check_messages(
        &model("lab", LAB, "m"),
        &[
            Message::user("Look."),
            reply("lab/m", ["1", "2", "3", "4", "5"].map(|id| call(id, "read", json!({})))),
            result_with("1", vec![image("AAAA")], None),
            result_with("2", "no such file", Some(ToolErrorKind::NotFound)),
            result_with("3", many, Some(ToolErrorKind::Failed)),
            result_with("4", "Error: gone", Some(ToolErrorKind::Failed)),
            result_with("5", "", None),
            Message::user("(a note)"),
            reply("lab/m", [call("6", "read", json!({}))]),
            result_with("6", vec![image("DDDD")], None),
            reply("lab/m", [text_part("Seen.")]),
        ],
        expect![[r#"
            {"role":"user","content":"Look."}
            {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"1","function":{"name":"read","arguments":"{}"}},{"type":"function","id":"2","function":{"name":"read","arguments":"{}"}},{"type":"function","id":"3","function":{"name":"read","arguments":"{}"}},{"type":"function","id":"4","function":{"name":"read","arguments":"{}"}},{"type":"function","id":"5","function":{"name":"read","arguments":"{}"}}]}
            {"role":"tool","tool_call_id":"1","content":"(1 image, attached below)"}
            {"role":"tool","tool_call_id":"2","content":"Error: no such file"}
            {"role":"tool","tool_call_id":"3","content":"Error: both\nd\n(2 images, attached below)"}
            {"role":"tool","tool_call_id":"4","content":"Error: gone"}
            {"role":"tool","tool_call_id":"5","content":""}
            {"role":"user","content":[{"type":"text","text":"(1 image from the result of `read`, 1)"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"(2 images from the result of `read`, 3)"},{"type":"image_url","image_url":{"url":"data:image/png;base64,BBBB"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,CCCC"}},{"type":"text","text":"(a note)"}]}
            {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"6","function":{"name":"read","arguments":"{}"}}]}
            {"role":"tool","tool_call_id":"6","content":"(1 image, attached below)"}
            {"role":"user","content":[{"type":"text","text":"(1 image from the result of `read`, 6)"},{"type":"image_url","image_url":{"url":"data:image/png;base64,DDDD"}}]}
            {"role":"assistant","content":"Seen."}
        "#]],
    );
}

#[test]
fn foreign_ids_are_shortened_and_own_ids_stay() {
    let long = "toolu|".repeat(8);
    let turn = |model: &str| {
        [reply(model, [call(&long, "read", json!({}))]), result_with(&long, "x", None)]
    };
    let messages: Vec<_> =
        [Message::user("Go")].into_iter().chain(turn("lab/m")).chain(turn("other/m")).collect();
    check_messages(
        &model("lab", LAB, "m"),
        &messages,
        expect![[r#"
        {"role":"user","content":"Go"}
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"toolu|toolu|toolu|toolu|toolu|toolu|toolu|toolu|","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"toolu|toolu|toolu|toolu|toolu|toolu|toolu|toolu|","content":"x"}
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"toolu_toolu_toolu_toolu_a3c6cf01fc970035","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"toolu_toolu_toolu_toolu_a3c6cf01fc970035","content":"x"}
    "#]],
    );
}

/// A conversation with replies of `by`, with every kind of replay item.
fn thoughtful(by: &str) -> Vec<Message> {
    let signed = r#"tool_calls.extra_content {"google":{"thought_signature":"S1"}}"#;
    let beside = r#"extra_content {"google":{"thought_signature":"S2"}}"#;
    let details = r#"reasoning_details [{"type":"reasoning.text","text":"Hm.","index":0}]"#;
    let more = r#"reasoning_details [{"type":"reasoning.encrypted","data":"x","index":1}]"#;
    let read = |id: &str| call(id, "read", json!({}));
    vec![
        Message::user("Go"),
        reply(by, [thinking("First", "reasoning_content"), read("1")]),
        result_with("1", "x", None),
        reply(
            by,
            [
                thinking("Then", "reasoning"),
                text_part("So."),
                thinking(".", "reasoning"),
                read("2"),
            ],
        ),
        result_with("2", "x", None),
        reply(by, [thinking("", "reasoning_content"), read("3")]),
        result_with("3", "x", None),
        reply(by, [thinking("Hm.", details), text_part("So."), thinking("", more), read("4")]),
        result_with("4", "x", None),
        reply(by, [thinking("", signed), read("5"), read("6")]),
        result_with("5", "x", None),
        result_with("6", "x", None),
        reply(by, [thinking("Last", "reasoning_content"), text_part("Done.")]),
        Message::user("Go"),
        reply(by, [text_part("Done."), thinking("", beside), thinking("x", "of somebody else")]),
        Message::user("Go"),
    ]
}

#[test]
fn replay_items_are_sent_back() {
    check_messages(
        &model("lab", LAB, "m"),
        &thoughtful("lab/m"),
        expect![[r#"
        {"role":"user","content":"Go"}
        {"role":"assistant","content":"","reasoning_content":"First","tool_calls":[{"type":"function","id":"1","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"1","content":"x"}
        {"role":"assistant","content":"So.","reasoning":"Then.","tool_calls":[{"type":"function","id":"2","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"2","content":"x"}
        {"role":"assistant","content":"","reasoning_content":"","tool_calls":[{"type":"function","id":"3","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"3","content":"x"}
        {"role":"assistant","content":"So.","reasoning_details":[{"type":"reasoning.text","text":"Hm.","index":0},{"type":"reasoning.encrypted","data":"x","index":1}],"tool_calls":[{"type":"function","id":"4","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"4","content":"x"}
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"5","function":{"name":"read","arguments":"{}"},"extra_content":{"google":{"thought_signature":"S1"}}},{"type":"function","id":"6","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"5","content":"x"}
        {"role":"tool","tool_call_id":"6","content":"x"}
        {"role":"assistant","content":"Done."}
        {"role":"user","content":"Go"}
        {"role":"assistant","content":"Done.","extra_content":{"google":{"thought_signature":"S2"}}}
        {"role":"user","content":"Go"}
    "#]],
    );
}

#[test]
fn thoughts_of_another_model_are_not_sent() {
    check_messages(
        &model("lab", LAB, "m"),
        &thoughtful("lab/other"),
        expect![[r#"
        {"role":"user","content":"Go"}
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"1","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"1","content":"x"}
        {"role":"assistant","content":"So.","tool_calls":[{"type":"function","id":"2","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"2","content":"x"}
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"3","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"3","content":"x"}
        {"role":"assistant","content":"So.","tool_calls":[{"type":"function","id":"4","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"4","content":"x"}
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"5","function":{"name":"read","arguments":"{}"}},{"type":"function","id":"6","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"5","content":"x"}
        {"role":"tool","tool_call_id":"6","content":"x"}
        {"role":"assistant","content":"Done."}
        {"role":"user","content":"Go"}
        {"role":"assistant","content":"Done."}
        {"role":"user","content":"Go"}
    "#]],
    );
}

#[test]
fn deepseek_gets_every_thought_back_even_empty() {
    let deepseek = model("deepseek", "https://api.deepseek.com/v1", "v4");
    let own = thoughtful("deepseek/v4");
    check_messages(
        &deepseek,
        &own,
        expect![[r#"
        {"role":"user","content":"Go"}
        {"role":"assistant","content":"","reasoning_content":"First","tool_calls":[{"type":"function","id":"1","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"1","content":"x"}
        {"role":"assistant","content":"So.","reasoning":"Then.","tool_calls":[{"type":"function","id":"2","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"2","content":"x"}
        {"role":"assistant","content":"","reasoning_content":"","tool_calls":[{"type":"function","id":"3","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"3","content":"x"}
        {"role":"assistant","content":"So.","reasoning_details":[{"type":"reasoning.text","text":"Hm.","index":0},{"type":"reasoning.encrypted","data":"x","index":1}],"tool_calls":[{"type":"function","id":"4","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"4","content":"x"}
        {"role":"assistant","content":"","reasoning_content":"","tool_calls":[{"type":"function","id":"5","function":{"name":"read","arguments":"{}"},"extra_content":{"google":{"thought_signature":"S1"}}},{"type":"function","id":"6","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"5","content":"x"}
        {"role":"tool","tool_call_id":"6","content":"x"}
        {"role":"assistant","content":"Done.","reasoning_content":"Last"}
        {"role":"user","content":"Go"}
        {"role":"assistant","content":"Done.","reasoning_content":"x","extra_content":{"google":{"thought_signature":"S2"}}}
        {"role":"user","content":"Go"}
    "#]],
    );
    check_messages(
        &deepseek,
        &thoughtful("lab/other")[..3],
        expect![[r#"
        {"role":"user","content":"Go"}
        {"role":"assistant","content":"","reasoning_content":"","tool_calls":[{"type":"function","id":"1","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"1","content":"x"}
    "#]],
    );
}

#[test]
fn gemini_gets_a_placeholder_for_foreign_signatures() {
    let url = "https://generativelanguage.googleapis.com/v1beta/openai/";
    let messages = |by: &str| {
        let all = thoughtful(by);
        [&all[..3], &all[9..12]].concat()
    };
    let gemini = |name: &str| model("gemini", url, name);
    let own = messages("gemini/gemini-3.8-flash");
    check_messages(
        &gemini("gemini-3.8-flash"),
        &own,
        expect![[r#"
        {"role":"user","content":"Go"}
        {"role":"assistant","content":"","reasoning_content":"First","tool_calls":[{"type":"function","id":"1","function":{"name":"read","arguments":"{}"},"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}}]}
        {"role":"tool","tool_call_id":"1","content":"x"}
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"5","function":{"name":"read","arguments":"{}"},"extra_content":{"google":{"thought_signature":"S1"}}},{"type":"function","id":"6","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"5","content":"x"}
        {"role":"tool","tool_call_id":"6","content":"x"}
    "#]],
    );
    check_messages(
        &gemini("gemini-2.5-pro"),
        &messages("lab/other"),
        expect![[r#"
        {"role":"user","content":"Go"}
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"1","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"1","content":"x"}
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"5","function":{"name":"read","arguments":"{}"}},{"type":"function","id":"6","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"5","content":"x"}
        {"role":"tool","tool_call_id":"6","content":"x"}
    "#]],
    );
}

/// Nine rounds of `thoughtful` with images in results: several blocks, with block ends at any
/// message.
fn long(by: &str) -> Vec<Message> {
    let round = |n: usize| {
        let ids = ["a", "b", "c"].map(|id| format!("{id}{n}"));
        let calls = ids.each_ref().map(|id| call(id, "read", json!({})));
        let results = ids.map(|id| result_with(&id, vec![image(&format!("AAA{n}"))], None));
        thoughtful(by).into_iter().chain([reply(by, calls)]).chain(results).collect::<Vec<_>>()
    };
    (0..9).flat_map(round).collect()
}

#[test]
fn next_request_begins_with_this_one() {
    let model = model("lab", LAB, "m");
    let messages = long("lab/m");
    let at = |count: usize| Request { tools: tools(), ..request(&messages[..count]) };
    let last = at(messages.len());
    for count in 1..messages.len() {
        // No request ends between calls and their results, nor right after a reply.
        let is_open = matches!(messages[count], Message::ToolResult(_));
        if is_open || matches!(messages[count - 1], Message::Assistant(_)) {
            continue;
        }
        assert_eq!(model.break_at(&at(count), &last), None, "{count}");
    }
    let other = Request { system: "Be long.".into(), ..at(5) };
    let broken = model.break_at(&at(5), &other).expect("the system prompt is another");
    let body = String::from_utf8(model.body(&other)).expect("it is text");
    assert_eq!(body.find("long."), usize::try_from(broken).ok());
}

#[test]
fn cached_bytes_equal_fresh_bytes() {
    let messages = long("lab/m");
    let kept = request(&messages);
    let same = |name: &str, request: &Request| {
        let model = model("lab", LAB, name);
        let fresh = Request { messages: messages.iter().cloned().collect(), ..request.clone() };
        assert_eq!(shown(&model.body(request)), shown(&model.body(&fresh)));
    };
    // Write it several times, with different writers and different messages before it.
    for name in ["m", "m", "other", "m"] {
        same(name, &kept);
        same(name, &Request { system: "".into(), ..kept.clone() });
    }
}

#[tokio::test]
async fn openai_calls_two_tools_at_once() {
    check_reply(
        "openai-parallel-calls",
        expect![[r#"
        call "call_eh" add {"a":2,"b":3}
        call "call_fB" multiply {"a":2,"b":3}
        done tool_use: 186 in, 50 out, 1920 read, 0 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn openai_text_reply_with_cached_tokens() {
    check_reply(
        "openai-text",
        expect![[r#"
        text "Hello"
        text ", you – ✓"
        done end_turn: 76 in, 12 out, 1024 read, 1900 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn openai_refusal_has_stop_reason_refusal() {
    check_reply(
        "openai-refusal",
        expect![[r#"
        text "I'm sorry,"
        text " I can't."
        done refusal: 0 in, 0 out, 0 read, 0 written
    "#]],
    )
    .await;
    check_reply(
        "openai-content-filter",
        expect![[r#"
        text "Well"
        done refusal: 0 in, 0 out, 0 read, 0 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn incomplete_call_is_dropped() {
    check_reply(
        "openai-length",
        expect![[r#"
        text "Both:"
        call "call_1" add {"a":2,"b":3}
        done max_tokens: 10 in, 20 out, 0 read, 0 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn reply_without_an_end_is_an_error() {
    check_reply(
        "openai-truncated",
        expect![[r#"
        text "Hel"
    "#]],
    )
    .await;
    check_reply(
        "ollama-lost-error",
        expect![[r#"
        text "Hel"
    "#]],
    )
    .await;
}

#[tokio::test]
async fn error_in_the_middle_of_a_stream_follows_the_text() {
    check_reply("openai-error", expect![[r#"
        text "Hel"
        error overloaded: The server had an error while processing your request. Sorry about that! None
    "#]]).await;
    check_reply(
        "llama-cpp-error",
        expect![[r#"
        text "Once"
        error context_overflow: Context size has been exceeded. None
    "#]],
    )
    .await;
    check_reply(
        "vllm-error",
        expect![[r#"
        text "Hel"
        error overloaded: Internal server error None
    "#]],
    )
    .await;
    check_reply("lm-studio-error", expect![[r#"
        error context_overflow: Input does not fit in context length. The input has 31430 tokens, but the context length only supports 30000 tokens. None
    "#]]).await;
    check_reply(
        "gemini-error",
        expect![[r#"
        error rate_limited: You exceeded your current quota. Some(37s)
    "#]],
    )
    .await;
    check_reply("openrouter-error", expect![[r#"
        text "Hel"
        error context_overflow: Provider returned error: prompt is too long: 210000 tokens > 200000 maximum None
    "#]]).await;
    check_reply(
        "openrouter-no-credit",
        expect![[r#"
        error other: Insufficient credits None
    "#]],
    )
    .await;
}

#[tokio::test]
async fn reply_that_its_server_gave_up_is_an_error() {
    check_reply(
        "deepseek-busy",
        expect![[r#"
        text "Hel"
        error overloaded: the reply broke off: insufficient_system_resource None
    "#]],
    )
    .await;
    check_reply(
        "gemini-malformed",
        expect![[r#"
        error overloaded: the reply broke off: function_call_filter: MALFORMED_FUNCTION_CALL None
    "#]],
    )
    .await;
}

#[tokio::test]
async fn gemini_sends_no_index_and_signs_the_first_call() {
    check_reply(
        "gemini-parallel-calls",
        expect![[r#"
        signature tool_calls.extra_content {"google":{"thought_signature":"EjQKMgEM"}}
        call "function-call-1" add {"a":2,"b":3}
        call "function-call-2" multiply {"b":3,"a":2}
        call "function-call-3" now {}
        done tool_use: 100 in, 72 out, 0 read, 0 written
    "#]],
    )
    .await;
    check_reply(
        "gemini-text",
        expect![[r#"
        text "It is"
        text " late."
        signature extra_content {"google":{"thought_signature":"EoQE"}}
        done end_turn: 10 in, 3 out, 0 read, 0 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn ollama_sends_one_index_for_all_calls() {
    check_reply(
        "ollama",
        expect![[r#"
        thinking "Two"
        thinking " things."
        signature reasoning
        call "call_a1" add {"a":2,"b":3}
        call "call_b2" multiply {"a":2,"b":3}
        call "call_c3" now {}
        done tool_use: 120 in, 40 out, 0 read, 0 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn llama_cpp_thinks_and_calls() {
    check_reply(
        "llama-cpp",
        expect![[r#"
        thinking "We"
        thinking " need it."
        signature reasoning_content
        call "1wNpqrejg1FCTjf6xq8JRCGKgWZO74AL" weather {"location":"Florence"}
        done tool_use: 1 in, 42 out, 138 read, 0 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn vllm_ends_within_a_delta() {
    check_reply(
        "vllm",
        expect![[r#"
        thinking "Hm"
        thinking "."
        signature reasoning
        text "I look."
        call "chatcmpl-tool-1a" weather {"location":"Florence"}
        done tool_use: 200 in, 30 out, 0 read, 0 written
    "#]],
    )
    .await;
    check_reply(
        "vllm-cut-call",
        expect![[r#"
        call "chatcmpl-tool-1a" weather "{\"location\": \"Flo"
        done tool_use: 0 in, 0 out, 0 read, 0 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn openrouter_reasoning_details_are_kept() {
    check_reply("openrouter-claude", expect![[r#"
        thinking "The user asks"
        thinking " for the weather."
        text "I look it up."
        signature reasoning_details [{"type":"reasoning.text","text":"The user asks for the weather.","format":"anthropic-claude-v1","index":0,"signature":"Eq0ECkgI"}]
        call "toolu_bdrk_01" weather {"location":"Florence"}
        done tool_use: 107 in, 143 out, 2000 read, 500 written
    "#]]).await;
    check_reply("openrouter-gemini", expect![[r#"
        signature reasoning_details [{"type":"reasoning.encrypted","data":"EjQK","format":"google-gemini-v1","id":"tool_add_kZ","index":0},{"type":"reasoning.encrypted","data":"MgEM","format":"google-gemini-v1","id":"tool_mul_7P","index":0}]
        call "tool_add_kZ" add {"a":2,"b":3}
        call "tool_mul_7P" multiply {"a":2,"b":3}
        done tool_use: 157 in, 32 out, 0 read, 0 written
    "#]]).await;
}

#[tokio::test]
async fn deepseek_thinks_before_it_calls() {
    check_reply(
        "deepseek",
        expect![[r#"
        thinking "The date"
        thinking " first."
        signature reasoning_content
        text "Let me see."
        call "call_00_x" now {}
        done tool_use: 44 in, 40 out, 256 read, 0 written
    "#]],
    )
    .await;
    check_reply(
        "deepseek-no-thoughts",
        expect![[r#"
        signature reasoning_content
        call "call_00_y" now {}
        done tool_use: 44 in, 40 out, 256 read, 0 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn xai_counts_thinking_separately() {
    check_reply(
        "xai",
        expect![[r#"
        thinking "First"
        thinking ","
        signature reasoning_content
        call "call_45048949" weather {"location":"Florence"}
        done tool_use: 1 in, 340 out, 287 read, 0 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn groq_sends_usage_in_its_own_field() {
    check_reply(
        "groq",
        expect![[r#"
        text "Hello"
        done end_turn: 20 in, 5 out, 0 read, 0 written
    "#]],
    )
    .await;
}

#[tokio::test]
async fn all_line_endings_and_prefixes_are_read() {
    let plain = fixture("lm-studio");
    let same = [
        plain.replace('\n', "\r\n"),
        plain.replace("data:", "data: "),
        plain.clone() + "data: [DONE] \n\n",
        plain.replace("data:", "\n: a word between\n\nid: 7\ndata:"),
        format!("\u{feff}{plain}"),
        format!("data:\n\n{plain}"),
    ];
    let heard = shown_reply(Answer::events(plain)).await;
    expect![[r#"
        text "Hel"
        text "lo"
        done end_turn: 0 in, 0 out, 0 read, 0 written
    "#]]
    .assert_eq(&heard);
    for other in same {
        assert_eq!(shown_reply(Answer::events(other.clone())).await, heard, "{other}");
    }
}

#[tokio::test]
async fn chunks_may_have_any_size() {
    for file in std::fs::read_dir(FIXTURES).expect("fixtures") {
        let name = file.expect("a file").file_name().into_string().expect("a plain name");
        let whole = Answer::events(fixture(&name));
        let heard = shown_reply(whole.clone()).await;
        for sizes in [vec![1], vec![7, 1, 64, 3]] {
            assert_eq!(shown_reply(whole.clone().and_pieces(sizes)).await, heard, "{name}");
        }
        assert_eq!(shown_reply(whole.and_gzip()).await, heard, "{name}");
    }
}

/// An agent with tools for the weather, for adding and for multiplying.
fn agent(model: HttpModel) -> Agent {
    let tool = |name: &str| {
        let spec = ToolSpec::new(name, "", json!({"type": "object"}));
        let tool = FnTool::new(spec, |permit: Permit| async move {
            Ok(ToolOutput::from(format!("seen: {}", permit.input())))
        });
        tool.with_facts(Facts::zone(Zone::Safe))
    };
    let builder = Agent::builder(model).tool(tool("weather")).tool(tool("add"));
    builder.tool(tool("multiply")).tool(tool("now")).build().expect("the tools are good")
}

#[tokio::test]
async fn agent_runs_calls_and_sends_thoughts_back() {
    let answers = ["openrouter-claude", "gemini-parallel-calls", "deepseek", "openai-text"];
    let answers = answers.map(|name| Answer::events(fixture(name)));
    let provider = LocalProvider::start(Dialect::OpenAiChat, answers).unchecked();
    let session = agent(model_at(&provider, "m")).main_session().await.expect("a session is made");
    session.prompt("Do it all.").await.expect("it runs");
    expect![[r#"
        user: Do it all.
        thinking: The user asks for the weather.
        assistant: I look it up.
        thinking: (hidden)
        call toolu_bdrk_01: weather {"location":"Florence"}
        result toolu_bdrk_01: seen: {"location":"Florence"}
        thinking: (hidden)
        call function-call-1: add {"a":2,"b":3}
        call function-call-2: multiply {"b":3,"a":2}
        call function-call-3: now {}
        result function-call-1: seen: {"a":2,"b":3}
        result function-call-2: seen: {"b":3,"a":2}
        result function-call-3: seen: {}
        thinking: The date first.
        assistant: Let me see.
        call call_00_x: now {}
        result call_00_x: seen: {}
        assistant: Hello, you – ✓
    "#]]
    .assert_eq(&transcript(&session));
    let asked = provider.requests().pop().expect("it was asked");
    let names = ["authorization", "content-type", "accept"];
    let head = names.map(|name| format!("{name}: {}", asked.header(name).unwrap_or_default()));
    expect![[r#"
        POST /v1/chat/completions
        authorization: Bearer a key
        content-type: application/json
        accept: text/event-stream"#]]
    .assert_eq(&format!("{} {}\n{}", asked.method, asked.path, head.join("\n")));
    expect![[r#"
        model: "m"
        tools:
          {"type":"function","function":{"name":"weather","description":"","parameters":{"type":"object"}}}
          {"type":"function","function":{"name":"add","description":"","parameters":{"type":"object"}}}
          {"type":"function","function":{"name":"multiply","description":"","parameters":{"type":"object"}}}
          {"type":"function","function":{"name":"now","description":"","parameters":{"type":"object"}}}
        messages:
          {"role":"user","content":"Do it all."}
          {"role":"assistant","content":"I look it up.","reasoning_details":[{"type":"reasoning.text","text":"The user asks for the weather.","format":"anthropic-claude-v1","index":0,"signature":"Eq0ECkgI"}],"tool_calls":[{"type":"function","id":"toolu_bdrk_01","function":{"name":"weather","arguments":"{\"location\":\"Florence\"}"}}]}
          {"role":"tool","tool_call_id":"toolu_bdrk_01","content":"seen: {\"location\":\"Florence\"}"}
          {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"function-call-1","function":{"name":"add","arguments":"{\"a\":2,\"b\":3}"},"extra_content":{"google":{"thought_signature":"EjQKMgEM"}}},{"type":"function","id":"function-call-2","function":{"name":"multiply","arguments":"{\"b\":3,\"a\":2}"}},{"type":"function","id":"function-call-3","function":{"name":"now","arguments":"{}"}}]}
          {"role":"tool","tool_call_id":"function-call-1","content":"seen: {\"a\":2,\"b\":3}"}
          {"role":"tool","tool_call_id":"function-call-2","content":"seen: {\"b\":3,\"a\":2}"}
          {"role":"tool","tool_call_id":"function-call-3","content":"seen: {}"}
          {"role":"assistant","content":"Let me see.","reasoning_content":"The date first.","tool_calls":[{"type":"function","id":"call_00_x","function":{"name":"now","arguments":"{}"}}]}
          {"role":"tool","tool_call_id":"call_00_x","content":"seen: {}"}
        stream: true
        stream_options: {"include_usage":true}
    "#]].assert_eq(&shown(&asked.body));
}

#[tokio::test]
async fn refused_signatures_are_left_out() {
    // As on https://github.com/massgen/MassGen/issues/665: an upstream error that is passed on.
    let raw = json!({"error": {"code": 400, "message": "Corrupted thought signature.",
                               "status": "INVALID_ARGUMENT"}});
    let refusal = json!({"error": {"code": 400, "message": "Provider returned error",
                                   "metadata": {"raw": raw.to_string()}}});
    let answers = [
        Answer::events(fixture("openrouter-gemini")),
        Answer::status(400).and_body(refusal.to_string()),
        Answer::text("Seen."),
    ];
    let provider = LocalProvider::start(Dialect::OpenAiChat, answers).unchecked();
    let session = agent(model_at(&provider, "m")).main_session().await.expect("a session is made");
    let reply = session.prompt("Add and multiply.").await.expect("it runs");
    assert_eq!(reply.text(), "Seen.");
    let asked = provider.requests();
    let sent = |at: usize| asked[at].json()["messages"][1].to_string();
    expect![[r#"
        {"role":"assistant","content":null,"reasoning_details":[{"type":"reasoning.encrypted","data":"EjQK","format":"google-gemini-v1","id":"tool_add_kZ","index":0},{"type":"reasoning.encrypted","data":"MgEM","format":"google-gemini-v1","id":"tool_mul_7P","index":0}],"tool_calls":[{"type":"function","id":"tool_add_kZ","function":{"name":"add","arguments":"{\"a\":2,\"b\":3}"}},{"type":"function","id":"tool_mul_7P","function":{"name":"multiply","arguments":"{\"a\":2,\"b\":3}"}}]}
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"tool_add_kZ","function":{"name":"add","arguments":"{\"a\":2,\"b\":3}"}},{"type":"function","id":"tool_mul_7P","function":{"name":"multiply","arguments":"{\"a\":2,\"b\":3}"}}]}"#]].assert_eq(&[sent(1), sent(2)].join("\n"));
}

#[tokio::test]
async fn twenty_steps_keep_the_sent_prefix() {
    let step = |n: usize| {
        let input = json!({"location": format!("place {n}")});
        Answer::thinking("I look.").and_text("So.").and_call(format!("call_{n}"), "weather", input)
    };
    let answers = (0..20).map(step).chain([Answer::text("Seen.")]);
    let provider = LocalProvider::start(Dialect::OpenAiChat, answers);
    let session = agent(model_at(&provider, "m")).main_session().await.expect("a session is made");
    session.prompt("Look twenty times.").await.expect("it runs");
    assert_eq!(provider.refusals(), Vec::<String>::new());
    let asked = provider.requests();
    let bodies: Vec<_> = asked.iter().map(|it| String::from_utf8_lossy(&it.body)).collect();
    assert_eq!(bodies.len(), 21);
    for pair in bodies.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let (sent, _) = before.rsplit_once("\"}],\"stream\":").expect("messages, then the rest");
        assert!(after.starts_with(sent), "{before}\n{after}");
        assert!(after.len() > before.len());
    }
}
