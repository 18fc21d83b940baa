//! Anthropic's Messages: whole requests that a checking provider accepts, and recorded replies.

use std::sync::Arc;

use cotter::{
    Message,
    history::message::{Content, ContentPart, UserMessage, UserMessageKind},
    model::{Request, Thinking},
};
use cotter_models::Http;
use cotter_test::{Answer, Dialect, LocalProvider, ReceivedRequest};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::kit::{
    call, failed_result, fixture, hello, model_at, parts_of, picture, provider_at, reply,
    reply_deltas, request, result, text_part, thought, tools,
};

const ANTHROPIC: Dialect = Dialect::AnthropicMessages;
const OWN: &str = "anthropic/claude-opus-4-6";

/// Sends a request to a provider that refuses every invalid request.
async fn send_checked(model: &str, request: Request) -> ReceivedRequest {
    let provider = LocalProvider::start(ANTHROPIC, [Answer::text("Fine.")]);
    let model = provider_at(&provider).model(model, &Http::new());
    let text_part = reply_deltas(&model, request).await;
    assert_eq!(provider.refusals(), Vec::<String>::new(), "{text_part}");
    provider.requests().remove(0)
}

/// Compares a request as sent: one line per field, and one per block of a message.
async fn check_request(request: Request, expected: Expect) {
    let body = send_checked("claude-opus-4-6", request).await.json();
    let mut shown = String::new();
    for (key, value) in body.as_object().expect("a request is an object") {
        if key != "messages" {
            shown += &format!("{key}: {value}\n");
            continue;
        }
        for message in value.as_array().expect("messages are a list") {
            shown += &format!("{}\n", message["role"].as_str().expect("a role is a word"));
            for block in message["content"].as_array().expect("content is blocks") {
                shown += &format!("  {block}\n");
            }
        }
    }
    expected.assert_eq(&shown);
}

/// Compares the deltas of a recorded reply.
async fn check_reply(name: &str, expected: Expect) {
    let stream = fixture("anthropic", name);
    let provider = LocalProvider::start(ANTHROPIC, [Answer::events(stream)]);
    expected.assert_eq(&reply_deltas(&model_at(&provider), hello()).await);
}

#[tokio::test]
async fn text_request_has_a_cache_mark_and_a_token_limit() {
    check_request(
        hello(),
        expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"Hello?","cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
    "#]],
    )
    .await;
}

#[tokio::test]
async fn request_has_its_headers() {
    let request = send_checked("claude-opus-4-6", hello()).await;
    let shown = |(name, value): &(String, String)| match name.as_str() {
        "host" | "content-length" | "user-agent" => format!("{name}\n"),
        _ => format!("{name}: {value}\n"),
    };
    let head: String = request.headers.iter().map(shown).collect();
    let line = format!("{} {}\n{head}", request.method, request.path);
    expect![[r#"
        POST /v1/messages
        anthropic-version: 2023-06-01
        x-api-key: plain words of a local lab
        content-type: application/json
        accept: text/event-stream
        user-agent
        accept-encoding: gzip
        host
        content-length
    "#]]
    .assert_eq(&line);
}

#[tokio::test]
async fn tools_and_system_stand_before_messages() {
    let system = Arc::from("Be brief.");
    let request = Request { system, tools: tools(), max_tokens: Some(4096), ..hello() };
    check_request(request, expect![[r#"
        model: "claude-opus-4-6"
        tools: [{"name":"read","description":"Reads a file.","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}},{"name":"list","description":"Lists a folder.","input_schema":{"type":"object"}}]
        system: [{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]
        user
          {"type":"text","text":"Hello?","cache_control":{"type":"ephemeral"}}
        max_tokens: 4096
        stream: true
    "#]]).await;
}

#[tokio::test]
async fn consecutive_user_messages_are_one_turn() {
    let request = request([
        Message::user("One."),
        Message::user("Two."),
        reply(OWN, [text_part("Three.")]),
        reply(OWN, [text_part("Four.")]),
        Message::user("Five."),
    ]);
    check_request(
        request,
        expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"One."}
          {"type":"text","text":"Two.","cache_control":{"type":"ephemeral"}}
        assistant
          {"type":"text","text":"Three."}
          {"type":"text","text":"Four."}
        user
          {"type":"text","text":"Five.","cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
    "#]],
    )
    .await;
}

#[tokio::test]
async fn conversation_that_begins_with_a_reply_gets_a_user_turn() {
    let request = request([reply(OWN, [text_part("As I said.")]), Message::user("Yes?")]);
    check_request(
        request,
        expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"(The conversation goes on.)"}
        assistant
          {"type":"text","text":"As I said."}
        user
          {"type":"text","text":"Yes?","cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
    "#]],
    )
    .await;
}

#[tokio::test]
async fn calls_and_results_follow_each_other() {
    let calls = [
        text_part("I look."),
        call("toolu_1", "read", json!({"path": "a"})),
        call("toolu_2", "list", json!({})),
    ];
    let request = request([
        Message::user("Look."),
        reply(OWN, calls),
        result("toolu_1", "text of a"),
        failed_result("toolu_2", "no such folder"),
        Message::user("And?"),
    ]);
    check_request(
        request,
        expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"Look.","cache_control":{"type":"ephemeral"}}
        assistant
          {"type":"text","text":"I look."}
          {"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}}
          {"type":"tool_use","id":"toolu_2","name":"list","input":{}}
        user
          {"type":"tool_result","tool_use_id":"toolu_1","content":"text of a"}
          {"type":"tool_result","tool_use_id":"toolu_2","content":"no such folder","is_error":true}
          {"type":"text","text":"And?","cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
    "#]],
    )
    .await;
}

#[tokio::test]
async fn pictures_go_in_messages_and_in_results() {
    let words = |text: &str| ContentPart::Text(text.into());
    let prompt =
        Content::Parts(vec![words("What is this?"), picture(), ContentPart::data("and this")]);
    let request = request([
        Message::User(UserMessage::new(prompt)),
        reply(OWN, [call("toolu_1", "read", json!({"path": "a.png"}))]),
        result("toolu_1", vec![words("A picture:"), picture()]),
    ]);
    check_request(request, expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"What is this?"}
          {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}
          {"type":"text","text":"and this","cache_control":{"type":"ephemeral"}}
        assistant
          {"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a.png"}}
        user
          {"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"A picture:"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}],"cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
    "#]]).await;
}

#[tokio::test]
async fn picture_of_a_failed_result_follows_it() {
    let words = |text: &str| ContentPart::Text(text.into());
    let request = request([
        Message::user("Look."),
        reply(OWN, [call("toolu_1", "read", json!({})), call("toolu_2", "read", json!({}))]),
        failed_result("toolu_1", vec![words("The screen shows an error:"), picture()]),
        failed_result("toolu_2", vec![picture()]),
    ]);
    check_request(request, expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"Look.","cache_control":{"type":"ephemeral"}}
        assistant
          {"type":"tool_use","id":"toolu_1","name":"read","input":{}}
          {"type":"tool_use","id":"toolu_2","name":"read","input":{}}
        user
          {"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"The screen shows an error:"},{"type":"text","text":"(A picture of it follows.)"}],"is_error":true}
          {"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"(A picture of it follows.)"}],"is_error":true}
          {"type":"text","text":"What the failed call toolu_1 shows:"}
          {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}
          {"type":"text","text":"What the failed call toolu_2 shows:"}
          {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="},"cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
    "#]]).await;
}

#[tokio::test]
async fn blank_texts_are_left_out() {
    let blank = |parts: &[&str]| -> Content {
        parts.iter().map(|text| ContentPart::Text((*text).into())).collect::<Vec<_>>().into()
    };
    let request = Request {
        system: Arc::from(" \n"),
        ..request([
            Message::user("Look."),
            reply(OWN, [text_part("\n\n"), call("toolu_1", "list", json!({})), text_part(" ")]),
            result("toolu_1", ""),
            reply(OWN, [call("toolu_2", "list", json!({}))]),
            result("toolu_2", blank(&["", " ", "a"])),
            reply(OWN, [call("toolu_3", "list", json!({}))]),
            result("toolu_3", blank(&["", " "])),
            Message::user(""),
        ])
    };
    check_request(request, expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"Look."}
        assistant
          {"type":"tool_use","id":"toolu_1","name":"list","input":{}}
        user
          {"type":"tool_result","tool_use_id":"toolu_1"}
        assistant
          {"type":"tool_use","id":"toolu_2","name":"list","input":{}}
        user
          {"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"a"}],"cache_control":{"type":"ephemeral"}}
        assistant
          {"type":"tool_use","id":"toolu_3","name":"list","input":{}}
        user
          {"type":"tool_result","tool_use_id":"toolu_3"}
        max_tokens: 64000
        stream: true
    "#]]).await;
}

#[tokio::test]
async fn empty_reply_is_left_out() {
    let request = request([Message::user("One."), reply(OWN, []), Message::user("Two.")]);
    check_request(
        request,
        expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"One.","cache_control":{"type":"ephemeral"}}
          {"type":"text","text":"Two.","cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
    "#]],
    )
    .await;
}

#[tokio::test]
async fn every_call_has_one_result_and_stray_results_are_left_out() {
    let request = request([
        Message::user("Look."),
        result("toolu_0", "nobody asked"),
        reply(OWN, [call("toolu_1", "read", json!({})), call("toolu_2", "list", json!({}))]),
        result("toolu_2", "a"),
        result("toolu_2", "a again"),
        Message::user("And?"),
        result("toolu_1", "too late"),
        reply(OWN, [call("toolu_3", "list", json!({}))]),
    ]);
    check_request(request, expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"Look."}
        assistant
          {"type":"tool_use","id":"toolu_1","name":"read","input":{}}
          {"type":"tool_use","id":"toolu_2","name":"list","input":{}}
        user
          {"type":"tool_result","tool_use_id":"toolu_2","content":"a"}
          {"type":"tool_result","tool_use_id":"toolu_1","content":"The result of this call is lost.","is_error":true}
          {"type":"text","text":"And?"}
        assistant
          {"type":"tool_use","id":"toolu_3","name":"list","input":{}}
        user
          {"type":"tool_result","tool_use_id":"toolu_3","content":"The result of this call is lost.","is_error":true}
        max_tokens: 64000
        stream: true
    "#]]).await;
}

#[tokio::test]
async fn foreign_ids_and_names_get_allowed_characters() {
    let others = ["fc_1|call_2", "функция", "", "call_2"];
    let calls = others.map(|id| call(id, "functions.read", json!({})));
    let results = others.map(|id| result(id, format!("of {id}")));
    let all = [Message::user("Look."), reply("openai/gpt-4.1", calls)].into_iter().chain(results);
    check_request(request(all), expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"Look.","cache_control":{"type":"ephemeral"}}
        assistant
          {"type":"tool_use","id":"fc_1_call_2_47dd4306314871ef","name":"functions_read_8f4a7af4","input":{}}
          {"type":"tool_use","id":"________a40177b0c30e3d3e","name":"functions_read_8f4a7af4","input":{}}
          {"type":"tool_use","id":"_cbf29ce484222325","name":"functions_read_8f4a7af4","input":{}}
          {"type":"tool_use","id":"call_2","name":"functions_read_8f4a7af4","input":{}}
        user
          {"type":"tool_result","tool_use_id":"fc_1_call_2_47dd4306314871ef","content":"of fc_1|call_2"}
          {"type":"tool_result","tool_use_id":"________a40177b0c30e3d3e","content":"of функция"}
          {"type":"tool_result","tool_use_id":"_cbf29ce484222325","content":"of "}
          {"type":"tool_result","tool_use_id":"call_2","content":"of call_2","cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
    "#]]).await;
}

#[tokio::test]
async fn input_that_is_no_object_is_wrapped() {
    let calls = [
        call("toolu_1", "read", json!("{\"path\": \"a")),
        call("toolu_2", "read", json!([1])),
        call("toolu_3", "read", Value::Null),
    ];
    let results = ["toolu_1", "toolu_2", "toolu_3"].map(|id| failed_result(id, "no object"));
    let all = [Message::user("Look."), reply(OWN, calls)].into_iter().chain(results);
    check_request(request(all), expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"Look.","cache_control":{"type":"ephemeral"}}
        assistant
          {"type":"tool_use","id":"toolu_1","name":"read","input":{"unparsed":"{\"path\": \"a"}}
          {"type":"tool_use","id":"toolu_2","name":"read","input":{"unparsed":[1]}}
          {"type":"tool_use","id":"toolu_3","name":"read","input":{"unparsed":null}}
        user
          {"type":"tool_result","tool_use_id":"toolu_1","content":"no object","is_error":true}
          {"type":"tool_result","tool_use_id":"toolu_2","content":"no object","is_error":true}
          {"type":"tool_result","tool_use_id":"toolu_3","content":"no object","is_error":true,"cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
    "#]]).await;
}

#[tokio::test]
async fn thoughts_are_sent_back_unchanged() {
    let answer = Answer::thinking("Two files, then.")
        .and_hidden_thinking("nobody reads this")
        .and_text("I look.")
        .and_call("toolu_1", "echo", json!({}))
        .and_thinking("And the other.")
        .and_call("toolu_2", "echo", json!({}));
    let parts = parts_of(ANTHROPIC, answer).await;
    let request = Request {
        thinking: Thinking::Medium,
        ..request([
            Message::user("Look."),
            reply(OWN, parts),
            result("toolu_1", "1"),
            result("toolu_2", "2"),
        ])
    };
    check_request(request, expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"Look.","cache_control":{"type":"ephemeral"}}
        assistant
          {"type":"thinking","thinking":"Two files, then.","signature":"EqQBCgIYAhIM0652e44a1068984d=="}
          {"type":"redacted_thinking","data":"EmwKAhgBEgy8fd09d076461a96d==.nobody reads this"}
          {"type":"text","text":"I look."}
          {"type":"tool_use","id":"toolu_1","name":"echo","input":{}}
          {"type":"thinking","thinking":"And the other.","signature":"EqQBCgIYAhIMb0c91c19d53048e3=="}
          {"type":"tool_use","id":"toolu_2","name":"echo","input":{}}
        user
          {"type":"tool_result","tool_use_id":"toolu_1","content":"1"}
          {"type":"tool_result","tool_use_id":"toolu_2","content":"2","cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
        thinking: {"type":"adaptive","display":"summarized"}
        output_config: {"effort":"medium"}
    "#]]).await;
}

#[tokio::test]
async fn foreign_and_unsigned_thoughts_are_left_out() {
    let calls = |id: &str| call(id, "list", json!({}));
    let request = Request {
        thinking: Thinking::Medium,
        ..request([
            Message::user("Look."),
            reply("openai/gpt-5", [thought("Hm.", "sealed elsewhere"), calls("call_1")]),
            result("call_1", "a"),
            reply("anthropic/claude-opus-5", [thought("Hm.", "of a sibling"), text_part("So.")]),
            Message::user("And?"),
            reply(OWN, [thought("Broken off", None), text_part("Well")]),
            Message::user("Go on."),
        ])
    };
    check_request(
        request,
        expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"Look."}
        assistant
          {"type":"tool_use","id":"call_1","name":"list","input":{}}
        user
          {"type":"tool_result","tool_use_id":"call_1","content":"a"}
        assistant
          {"type":"text","text":"So."}
        user
          {"type":"text","text":"And?","cache_control":{"type":"ephemeral"}}
        assistant
          {"type":"text","text":"Well"}
        user
          {"type":"text","text":"Go on.","cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
        thinking: {"type":"adaptive","display":"summarized"}
        output_config: {"effort":"medium"}
    "#]],
    )
    .await;
}

#[tokio::test]
async fn thought_without_a_following_part_is_left_out() {
    let alone = parts_of(ANTHROPIC, Answer::thinking("Hm.")).await;
    let last = parts_of(ANTHROPIC, Answer::text("So.").and_thinking("Hm.")).await;
    let request = Request {
        thinking: Thinking::Medium,
        ..request([
            Message::user("Look."),
            reply(OWN, alone),
            Message::user("And?"),
            reply(OWN, last),
            Message::user("Go on."),
        ])
    };
    check_request(
        request,
        expect![[r#"
        model: "claude-opus-4-6"
        user
          {"type":"text","text":"Look."}
          {"type":"text","text":"And?","cache_control":{"type":"ephemeral"}}
        assistant
          {"type":"text","text":"So."}
        user
          {"type":"text","text":"Go on.","cache_control":{"type":"ephemeral"}}
        max_tokens: 64000
        stream: true
        thinking: {"type":"adaptive","display":"summarized"}
        output_config: {"effort":"medium"}
    "#]],
    )
    .await;
}

#[tokio::test]
async fn thinking_level_is_written_for_each_kind_of_model() {
    let models = [
        "claude-haiku-4-5",
        "claude-opus-4-6",
        "claude-opus-4-8",
        "claude-opus-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
        "claude-opus-5-5",
        "claude-fable-5",
        "nobody-knows-it",
    ];
    let levels =
        [Thinking::Off, Thinking::Minimal, Thinking::Low, Thinking::Medium, Thinking::High];
    let mut table = String::new();
    for model in models {
        table += &format!("{model}\n");
        for thinking in levels {
            let request = send_checked(model, Request { thinking, ..hello() }).await;
            let body = request.json();
            table += &format!("  {}: max_tokens {}", thinking.as_str(), body["max_tokens"]);
            for key in ["thinking", "output_config"] {
                table += &body.get(key).map(|value| format!(", {value}")).unwrap_or_default();
            }
            let beta = request.header("anthropic-beta");
            table += &beta.map(|beta| format!(", {beta}")).unwrap_or_default();
            table += "\n";
        }
    }
    expect![[r#"
        claude-haiku-4-5
          off: max_tokens 64000
          minimal: max_tokens 64000, {"type":"enabled","budget_tokens":1024}, interleaved-thinking-2025-05-14
          low: max_tokens 64000, {"type":"enabled","budget_tokens":4096}, interleaved-thinking-2025-05-14
          medium: max_tokens 64000, {"type":"enabled","budget_tokens":10240}, interleaved-thinking-2025-05-14
          high: max_tokens 64000, {"type":"enabled","budget_tokens":24576}, interleaved-thinking-2025-05-14
        claude-opus-4-6
          off: max_tokens 64000
          minimal: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"low"}
          low: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"low"}
          medium: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"medium"}
          high: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"high"}
        claude-opus-4-8
          off: max_tokens 64000
          minimal: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"low"}
          low: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"low"}
          medium: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"medium"}
          high: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"high"}
        claude-opus-5
          off: max_tokens 64000, {"type":"disabled"}
          minimal: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"low"}
          low: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"low"}
          medium: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"medium"}
          high: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"high"}
        claude-sonnet-5-5
          off: max_tokens 64000, {"type":"adaptive","display":"omitted","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"low"}, thinking-binding-controls-2026-08-01
          minimal: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"low"}, thinking-binding-controls-2026-08-01
          low: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"low"}, thinking-binding-controls-2026-08-01
          medium: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"medium"}, thinking-binding-controls-2026-08-01
          high: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"high"}, thinking-binding-controls-2026-08-01
        claude-haiku-5-5
          off: max_tokens 64000, {"type":"disabled"}
          minimal: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"low"}, thinking-binding-controls-2026-08-01
          low: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"low"}, thinking-binding-controls-2026-08-01
          medium: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"medium"}, thinking-binding-controls-2026-08-01
          high: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"high"}, thinking-binding-controls-2026-08-01
        claude-opus-5-5
          off: max_tokens 64000, {"type":"adaptive","display":"omitted","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"low"}, thinking-binding-controls-2026-08-01
          minimal: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"low"}, thinking-binding-controls-2026-08-01
          low: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"low"}, thinking-binding-controls-2026-08-01
          medium: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"medium"}, thinking-binding-controls-2026-08-01
          high: max_tokens 64000, {"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, {"effort":"high"}, thinking-binding-controls-2026-08-01
        claude-fable-5
          off: max_tokens 64000, {"type":"adaptive","display":"omitted"}, {"effort":"low"}
          minimal: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"low"}
          low: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"low"}
          medium: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"medium"}
          high: max_tokens 64000, {"type":"adaptive","display":"summarized"}, {"effort":"high"}
        nobody-knows-it
          off: max_tokens 32000
          minimal: max_tokens 32000, {"type":"adaptive","display":"summarized"}, {"effort":"low"}
          low: max_tokens 32000, {"type":"adaptive","display":"summarized"}, {"effort":"low"}
          medium: max_tokens 32000, {"type":"adaptive","display":"summarized"}, {"effort":"medium"}
          high: max_tokens 32000, {"type":"adaptive","display":"summarized"}, {"effort":"high"}
    "#]].assert_eq(&table);
}

#[tokio::test]
async fn a_budget_leaves_room_for_a_reply() {
    let levels = [(Thinking::Minimal, 100), (Thinking::High, 8000), (Thinking::Low, 60_000)];
    let mut table = String::new();
    for (thinking, max_tokens) in levels {
        let request = Request { thinking, max_tokens: Some(max_tokens), ..hello() };
        let body = send_checked("claude-haiku-4-5", request).await.json();
        table += &format!("{max_tokens}: {} {}\n", body["max_tokens"], body["thinking"]);
    }
    expect![[r#"
        100: 2048 {"type":"enabled","budget_tokens":1024}
        8000: 25600 {"type":"enabled","budget_tokens":24576}
        60000: 60000 {"type":"enabled","budget_tokens":4096}
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn no_budget_between_calls_that_began_without_a_thought() {
    let own = "anthropic/claude-haiku-4-5";
    let thinks = Answer::thinking("Hm.").and_call("toolu_1", "echo", json!({}));
    let thinks = || parts_of(ANTHROPIC, thinks.clone());
    let calls = |id: &str| call(id, "echo", json!({}));
    let prompt = || Message::user("Go.");
    let done = || result("toolu_1", "1");
    let conversations = [
        ("a prompt", vec![prompt()]),
        ("calls after a thought", vec![prompt(), reply(own, thinks().await), done()]),
        (
            "calls after a thought, then calls without",
            vec![
                prompt(),
                reply(own, thinks().await),
                done(),
                reply(own, [calls("toolu_2")]),
                result("toolu_2", "2"),
            ],
        ),
        ("calls without a thought", vec![prompt(), reply(own, [calls("toolu_1")]), done()]),
        ("calls of another model", vec![prompt(), reply("else/where", thinks().await), done()]),
        (
            "calls that were broken off",
            vec![prompt(), reply(own, [calls("toolu_1")]), done(), Message::user("And?")],
        ),
        (
            "calls that led to an answer",
            vec![
                prompt(),
                reply(own, [calls("toolu_1")]),
                done(),
                reply(own, [text_part("So.")]),
                Message::user("And?"),
            ],
        ),
    ];
    let mut table = String::new();
    for (name, messages) in conversations {
        let request = Request { thinking: Thinking::Low, ..request(messages) };
        let request = send_checked("claude-haiku-4-5", request).await;
        let beta = request.header("anthropic-beta").unwrap_or("-");
        table += &format!("{name}: {} {beta}\n", request.json()["thinking"]);
    }
    expect![[r#"
        a prompt: {"type":"enabled","budget_tokens":4096} interleaved-thinking-2025-05-14
        calls after a thought: {"type":"enabled","budget_tokens":4096} interleaved-thinking-2025-05-14
        calls after a thought, then calls without: {"type":"enabled","budget_tokens":4096} interleaved-thinking-2025-05-14
        calls without a thought: null -
        calls of another model: null -
        calls that were broken off: null -
        calls that led to an answer: {"type":"enabled","budget_tokens":4096} interleaved-thinking-2025-05-14
    "#]].assert_eq(&table);
}

/// The positions of the cache marks of a request, each with the end of the text before it.
fn marks(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let parts: Vec<&str> = body.split(r#","cache_control":{"type":"ephemeral"}"#).collect();
    let ends = parts[..parts.len() - 1].iter().map(|part| {
        let last = part.rsplit('"').find(|word| word.len() > 2 && !word.contains(':'));
        format!("{}\n", last.unwrap_or_default())
    });
    ends.collect()
}

async fn check_marks(request: Request, expected: Expect) {
    let request = Request { system: Arc::from("the system prompt"), ..request };
    expected.assert_eq(&marks(&send_checked("claude-opus-4-6", request).await.body));
}

fn note(text: &str) -> Message {
    Message::User(UserMessage::with_kind(Content::Text(text.into()), UserMessageKind::Note))
}

#[tokio::test]
async fn cache_marks_stand_before_notes_and_at_the_previous_end() {
    check_marks(
        hello(),
        expect![[r#"
        the system prompt
        Hello?
    "#]],
    )
    .await;
    let step =
        |id: &str| [reply(OWN, [call(id, "read", json!({}))]), result(id, format!("result {id}"))];
    let run = || [Message::user("the prompt")].into_iter().chain(step("toolu_1"));
    check_marks(
        request(run()),
        expect![[r#"
        the system prompt
        the prompt
        result toolu_1
    "#]],
    )
    .await;
    check_marks(
        request(run().chain(step("toolu_2"))),
        expect![[r#"
        the system prompt
        result toolu_1
        result toolu_2
    "#]],
    )
    .await;
    let noted = run().chain(step("toolu_2")).chain([note("a note")]);
    check_marks(
        Request { notes: 1, ..request(noted) },
        expect![[r#"
        the system prompt
        result toolu_1
        result toolu_2
    "#]],
    )
    .await;
    let old_note = run().chain([note("an old note")]).chain(step("toolu_2"));
    check_marks(
        request(old_note),
        expect![[r#"
        the system prompt
        an old note
        result toolu_2
    "#]],
    )
    .await;
    let only_notes = [note("one note"), note("two notes")];
    check_marks(
        Request { notes: 2, ..request(only_notes) },
        expect![[r#"
        the system prompt
    "#]],
    )
    .await;
}

#[tokio::test]
async fn text_reply_is_read() {
    check_reply(
        "text",
        expect![[r#"
            counted 136
            text "Grüß "
            text "dich, "
            text "🦀"
            text "!\n"
            end_turn: in 135, out 15, cache read 0, written 0
        "#]],
    )
    .await;
    check_reply(
        "empty",
        expect![[r#"
            counted 136
            end_turn: in 135, out 2, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn reply_with_calls_is_read() {
    check_reply(
        "tool_call",
        expect![[r#"
            counted 136
            text "I look."
            text " Wait."
            call "toolu_01T1x1fJ34qAmk2tNTrN7Up6" read {"path":"src/läb.rs","lines":[1,2]}
            tool_use: in 135, out 89, cache read 0, written 0
        "#]],
    )
    .await;
    check_reply(
        "parallel_calls",
        expect![[r#"
            counted 136
            call "toolu_01A" read {"path":"a"}
            call "toolu_01B" list {}
            call "toolu_01C" read {"path":"b"}
            tool_use: in 135, out 40, cache read 0, written 0
        "#]],
    )
    .await;
    check_reply(
        "empty_input",
        expect![[r#"
            counted 136
            call "toolu_01A" list {}
            tool_use: in 135, out 9, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn reply_with_thinking_is_read() {
    check_reply(
        "thinking",
        expect![[r#"
            counted 136
            thinking "Two files, "
            thinking "so two reads."
            signature EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds
            text "I look."
            call "toolu_01A" read {"path":"a"}
            thinking "And then?"
            signature EqQBsecond
            call "toolu_01B" read {"path":"b"}
            tool_use: in 135, out 50, cache read 0, written 0
        "#]],
    )
    .await;
    check_reply(
        "thinking_omitted",
        expect![[r#"
            counted 136
            signature EosnCkYICxIMMb3LzNrMu
            text "Yes."
            end_turn: in 135, out 30, cache read 0, written 0
        "#]],
    )
    .await;
    check_reply(
        "redacted_thinking",
        expect![[r#"
            counted 136
            signature redacted:EmwKAhgBEgy3va3pzix/LafPsn4a
            text "Yes."
            end_turn: in 135, out 30, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn refused_reply_has_stop_reason_refusal() {
    check_reply(
        "refusal",
        expect![[r#"
            counted 413
            text "The request was declined."
            refusal: in 412, out 0, cache read 0, written 0
        "#]],
    )
    .await;
    check_reply(
        "refusal_midway",
        expect![[r#"
            counted 413
            text "First you"
            refusal: in 412, out 3, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn reply_cut_at_the_token_limit_has_stop_reason_max_tokens() {
    check_reply(
        "max_tokens",
        expect![[r#"
            counted 136
            text "And so on and"
            max_tokens: in 135, out 4096, cache read 0, written 0
        "#]],
    )
    .await;
    check_reply(
        "max_tokens_in_a_call",
        expect![[r#"
            counted 136
            call "toolu_01A" write "{\"path\":\"a\",\"text\":\"once upon"
            max_tokens: in 135, out 4096, cache read 0, written 0
        "#]],
    )
    .await;
    check_reply(
        "context_window",
        expect![[r#"
            counted 199001
            text "And so"
            max_tokens: in 199000, out 1000, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn truncated_reply_is_a_network_error() {
    check_reply(
        "error",
        expect![[r#"
            counted 136
            text "I was"
            overloaded: Overloaded
        "#]],
    )
    .await;
    check_reply(
        "broken_off",
        expect![[r#"
            counted 136
            text "I was"
        "#]],
    )
    .await;
}

#[tokio::test]
async fn stream_error_has_an_error_kind() {
    let kinds = [
        ("overloaded_error", "Overloaded"),
        ("api_error", "Internal server error"),
        ("rate_limit_error", "Slow down."),
        ("timeout_error", "Too slow."),
        ("authentication_error", "Who?"),
        ("permission_error", "No."),
        ("billing_error", "Pay."),
        ("not_found_error", "model: x"),
        ("invalid_request_error", "No."),
        ("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
        ("request_too_large", "Too large."),
        ("moon_error", "Full."),
    ];
    let mut table = String::new();
    for (kind, message) in kinds {
        let error = json!({"type": "error", "error": {"type": kind, "message": message}});
        let stream = format!("event: error\ndata: {error}\n\n");
        let provider = LocalProvider::start(ANTHROPIC, [Answer::events(stream)]);
        table += &reply_deltas(&model_at(&provider), hello()).await;
    }
    expect![[r#"
        overloaded: Overloaded
        overloaded: Internal server error
        rate_limited: Slow down.
        timeout: Too slow.
        auth: Who?
        auth: No.
        other: Pay.
        bad_request: model: x
        bad_request: No.
        context_overflow: prompt is too long: 208310 tokens > 200000 maximum
        context_overflow: Too large.
        overloaded: Full.
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn last_usage_counts() {
    check_reply(
        "usage",
        expect![[r#"
            counted 188356
            text "Yes."
            end_turn: in 50, out 393, cache read 190000, written 248
        "#]],
    )
    .await;
    check_reply(
        "no_usage",
        expect![[r#"
            text "Yes."
            end_turn: in 0, out 0, cache read 0, written 0
        "#]],
    )
    .await;
}

#[tokio::test]
async fn unknown_events_are_skipped() {
    check_reply(
        "unknown",
        expect![[r#"
            counted 136
            text "Be"
            text "gun."
            end_turn: in 135, out 8, cache read 0, written 0
        "#]],
    )
    .await;
}
