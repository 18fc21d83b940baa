//! The local provider: refused requests and their messages, the form of its answers, and how they
//! fail.

use std::{
    fmt::Write as _,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
};

use cotter::{
    history::message::{StopReason, Usage},
    model::ModelErrorKind,
};
use cotter_test::{After, Answer, Cut, Dialect, LocalProvider};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

/// Sends a body with the headers of the dialect's clients.
fn post(provider: &LocalProvider, body: &Value, headers: &str) -> TcpStream {
    let path = match provider.dialect() {
        Dialect::AnthropicMessages => "/v1/messages",
        Dialect::OpenAiChat => "/v1/chat/completions",
        _ => "/v1/responses",
    };
    send(provider, "POST", path, headers, body.to_string().as_bytes())
}

fn send(
    provider: &LocalProvider,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> TcpStream {
    let mut stream = TcpStream::connect(provider.address()).expect("it listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nx-api-key: key\r\nanthropic-version: 2023-06-01\r\n\
         authorization: Bearer key\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).expect("it reads");
    stream
}

/// All bytes until the connection ended, and the error if it ended with one.
fn read_all(mut stream: TcpStream) -> String {
    let mut bytes = vec![];
    let end = stream.read_to_end(&mut bytes);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset) {
        text.push_str("(reset)");
    }
    text
}

/// The verdict on a request: `ok`, or the refusal.
fn verdict(provider: &LocalProvider, body: &Value, headers: &str) -> String {
    let answer = read_all(post(provider, body, headers));
    let (head, body) = answer.split_once("\r\n\r\n").expect("it answers");
    let status = head.split(' ').nth(1).expect("it has a status");
    match serde_json::from_str::<Value>(body) {
        Ok(refusal) => {
            let error = &refusal["error"];
            let kind = error["type"].as_str().expect("it says what kind");
            let more = ["code", "param"].map(|key| error[key].as_str().unwrap_or("-"));
            let message = error["message"].as_str().expect("it says why");
            format!("{status} {kind} {}\n    {message}", more.join(" "))
        }
        Err(_) => status.to_owned(),
    }
}

/// Compares the verdicts on a valid request with changes.
fn check(dialect: Dialect, good: &Value, changes: &[(&str, Value)], expected: Expect) {
    let provider = LocalProvider::start_with(dialect, |_| Answer::text("Fine."));
    assert_eq!(verdict(&provider, good, ""), "200");
    let mut table = String::new();
    for (path, change) in changes {
        let mut body = good.clone();
        match path.rsplit_once('/') {
            Some((place, key)) => {
                let place = body.pointer_mut(place).expect("the place is there");
                match (key.parse::<usize>(), change) {
                    (Ok(index), change) => place[index] = change.clone(),
                    (Err(_), Value::Null) => {
                        _ = place.as_object_mut().expect("an object").remove(key)
                    }
                    (Err(_), change) => place[key] = change.clone(),
                }
            }
            None => panic!("`{path}` is no place"),
        }
        let verdict = verdict(&provider, &body, "");
        writeln!(table, "{path} = {change}\n  {verdict}").expect("text takes text");
    }
    expected.assert_eq(&table);
}

fn anthropic() -> Value {
    json!({
        "model": "claude-opus-4-6",
        "max_tokens": 2048,
        "stream": true,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look."}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"},
                {"type": "text", "text": "And?"},
            ]},
        ],
    })
}

#[test]
fn anthropic_requests_are_checked() {
    let mark = json!({"type": "ephemeral"});
    let marked = json!({"type": "text", "text": "x", "cache_control": mark});
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png",
                       "data": "iVBO"}});
    check(
        Dialect::AnthropicMessages,
        &anthropic(),
        &[
            ("/model", Value::Null),
            ("/max_tokens", Value::Null),
            ("/max_tokens", json!(200_000)),
            ("/temper", json!(1)),
            ("/system", json!(" ")),
            ("/tools/0/name", json!("read file")),
            ("/tools/0/input_schema", json!({})),
            ("/thinking", json!({"type": "enabled", "budget_tokens": 4096})),
            ("/thinking", json!({"type": "enabled", "budget_tokens": 1024})),
            ("/thinking", json!({"type": "between_tools"})),
            ("/thinking", json!({"type": "adaptive", "block_binding": {}})),
            ("/messages", json!([])),
            ("/messages/0/role", json!("assistant")),
            ("/messages/0/content/0/text", json!("")),
            ("/messages/0/content/0/text", json!("\n")),
            ("/messages/1/content/1/id", json!("toolu.1")),
            ("/messages/1/content/1/input", json!("a")),
            (
                "/messages/1/content/1",
                json!({"type": "thinking", "thinking": "a", "signature": "b"}),
            ),
            ("/messages/2/content/0/tool_use_id", json!("toolu_2")),
            ("/messages/2/content", json!([{"type": "text", "text": "And?"}])),
            ("/messages/2/content/1", json!({"type": "tool_result", "tool_use_id": "toolu_1"})),
            ("/messages/2/content/0/content", json!([image])),
            (
                "/messages/2/content/0",
                json!({"type": "tool_result", "tool_use_id": "toolu_1",
                                             "is_error": true, "content": [image]}),
            ),
            (
                "/messages/2/content/1",
                json!({"type": "image", "source": {"type": "base64",
                                             "media_type": "image/tiff", "data": "iVBO"}}),
            ),
            ("/messages/2/role", json!("assistant")),
            ("/messages/0/content", json!([marked, marked, marked, marked])),
        ],
        expect![[r#"
            /model = null
              400 invalid_request_error - -
                model: Field required
            /max_tokens = null
              400 invalid_request_error - -
                max_tokens: Field required
            /max_tokens = 200000
              400 invalid_request_error - -
                max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens for claude-opus-4-6
            /temper = 1
              400 invalid_request_error - -
                temper: Extra inputs are not permitted
            /system = " "
              400 invalid_request_error - -
                system: text content blocks must contain non-whitespace text
            /tools/0/name = "read file"
              400 invalid_request_error - -
                tools.0.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'
            /tools/0/input_schema = {}
              400 invalid_request_error - -
                tools.0.input_schema.type: Field required
            /thinking = {"type":"enabled","budget_tokens":4096}
              400 invalid_request_error - -
                `max_tokens` must be greater than `thinking.budget_tokens`.
            /thinking = {"type":"enabled","budget_tokens":1024}
              400 invalid_request_error - -
                Expected `thinking` or `redacted_thinking`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.
            /thinking = {"type":"between_tools"}
              400 invalid_request_error - -
                "thinking.type.between_tools" is not supported for this model.
            /thinking = {"type":"adaptive","block_binding":{}}
              400 invalid_request_error - -
                thinking.block_binding: Extra inputs are not permitted
            /messages = []
              400 invalid_request_error - -
                messages: at least one message is required
            /messages/0/role = "assistant"
              400 invalid_request_error - -
                messages: first message must use the "user" role
            /messages/0/content/0/text = ""
              400 invalid_request_error - -
                messages: text content blocks must be non-empty
            /messages/0/content/0/text = "\n"
              400 invalid_request_error - -
                messages: text content blocks must contain non-whitespace text
            /messages/1/content/1/id = "toolu.1"
              400 invalid_request_error - -
                messages.1.content.1.id: String should match pattern '^[a-zA-Z0-9_-]+$'
            /messages/1/content/1/input = "a"
              400 invalid_request_error - -
                messages.1.content.1.input: Input should be a valid object
            /messages/1/content/1 = {"type":"thinking","thinking":"a","signature":"b"}
              400 invalid_request_error - -
                messages.1.content.1: Invalid `signature` in `thinking` block
            /messages/2/content/0/tool_use_id = "toolu_2"
              400 invalid_request_error - -
                messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_2. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.
            /messages/2/content = [{"type":"text","text":"And?"}]
              400 invalid_request_error - -
                messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next message.
            /messages/2/content/1 = {"type":"tool_result","tool_use_id":"toolu_1"}
              400 invalid_request_error - -
                messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_1
            /messages/2/content/0/content = [{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}]
              200
            /messages/2/content/0 = {"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}]}
              400 invalid_request_error - -
                messages.2.content.0.tool_result: all content must be type "text" if "is_error" is true
            /messages/2/content/1 = {"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"iVBO"}}
              400 invalid_request_error - -
                messages.2.content.1.source.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif', 'image/webp'
            /messages/2/role = "assistant"
              400 invalid_request_error - -
                messages.2.content.0.type: Input should be 'text', 'tool_use', 'thinking', 'redacted_thinking'
            /messages/0/content = [{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]
              400 invalid_request_error - -
                A maximum of 4 blocks with cache_control may be provided. Found 5.
        "#]],
    );
}

#[test]
fn anthropic_heads_are_checked() {
    let provider = LocalProvider::start_with(Dialect::AnthropicMessages, |_| Answer::text("Fine."))
        .with_key("another");
    let refused = verdict(&provider, &anthropic(), "");
    expect![[r#"
        401 authentication_error - -
            invalid x-api-key"#]]
    .assert_eq(&refused);
    let provider = LocalProvider::start_with(Dialect::AnthropicMessages, |_| Answer::text("Fine."));
    let refused = verdict(&provider, &anthropic(), "anthropic-beta: surprise-2026-01-01\r\n");
    expect![[r#"
        400 invalid_request_error - -
            Unexpected value(s) `surprise-2026-01-01` for the `anthropic-beta` header."#]]
    .assert_eq(&refused);
}

fn chat() -> Value {
    json!({
        "model": "gpt-5.1",
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_completion_tokens": 2048,
        "reasoning_effort": "low",
        "tools": [{"type": "function", "function": {"name": "read", "description": "Reads.",
                   "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "Look."},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function",
                 "function": {"name": "read", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "1"},
        ],
    })
}

#[test]
fn chat_requests_are_checked() {
    let image = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}]);
    check(
        Dialect::OpenAiChat,
        &chat(),
        &[
            ("/model", Value::Null),
            ("/thinking", json!({})),
            ("/max_tokens", json!(10)),
            ("/reasoning_effort", json!("minimal")),
            ("/model", json!("gpt-5.6-terra")),
            ("/tools", json!([])),
            ("/tool_choice", json!("auto")),
            ("/tools/0/function/name", json!("read file")),
            ("/messages/1/content/1/image_url/url", json!("data:image/tiff;base64,iVBO")),
            ("/messages/2/tool_calls", json!([])),
            ("/messages/2/tool_calls/0/id", json!("call_0123456789012345678901234567890123456789")),
            ("/messages/2/tool_calls/0/function/arguments", json!({})),
            ("/messages/2", json!({"role": "assistant", "content": null})),
            ("/messages/3/content", image),
            ("/messages/3/tool_call_id", json!("call_2")),
            ("/messages/3", json!({"role": "user", "content": "And?"})),
        ],
        expect![[r#"
            /model = null
              400 invalid_request_error missing_required_parameter model
                Missing required parameter: 'model'.
            /thinking = {}
              400 invalid_request_error unknown_parameter thinking
                Unknown parameter: 'thinking'.
            /max_tokens = 10
              400 invalid_request_error unsupported_parameter max_tokens
                Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.
            /reasoning_effort = "minimal"
              400 invalid_request_error unsupported_value reasoning_effort
                Unsupported value: 'minimal' is not supported with the 'gpt-5.1' model. Supported values are: 'none', 'low', 'medium', 'high'.
            /model = "gpt-5.6-terra"
              400 invalid_request_error - reasoning_effort
                Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.
            /tools = []
              400 invalid_request_error empty_array tools
                Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.
            /tool_choice = "auto"
              200
            /tools/0/function/name = "read file"
              400 invalid_request_error invalid_value tools[0].function.name
                Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.
            /messages/1/content/1/image_url/url = "data:image/tiff;base64,iVBO"
              400 invalid_request_error - messages[1].content[1].image_url.url
                Invalid image data. Expected a base64-encoded data URL with an image MIME type of image/png, image/jpeg, image/gif or image/webp.
            /messages/2/tool_calls = []
              400 invalid_request_error empty_array -
                Invalid 'messages[2].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.
            /messages/2/tool_calls/0/id = "call_0123456789012345678901234567890123456789"
              400 invalid_request_error string_above_max_length messages[2].tool_calls[0].id
                Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 45 instead.
            /messages/2/tool_calls/0/function/arguments = {}
              400 invalid_request_error invalid_type messages[2].tool_calls[0].function.arguments
                Invalid type for 'messages[2].tool_calls[0].function.arguments': expected a string, but got an object instead.
            /messages/2 = {"role":"assistant","content":null}
              400 invalid_request_error - -
                Invalid value for 'messages[2].content': expected a string, got null.
            /messages/3/content = [{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}}]
              400 invalid_request_error - messages[3]
                Invalid 'messages[3]'. Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL.
            /messages/3/tool_call_id = "call_2"
              400 invalid_request_error - messages[3]
                Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.
            /messages/3 = {"role":"user","content":"And?"}
              400 invalid_request_error - messages
                An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1
        "#]],
    );
}

fn responses() -> Value {
    json!({
        "model": "gpt-5.6-sol",
        "stream": true,
        "store": false,
        "instructions": "Be brief.",
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "tools": [{"type": "function", "name": "read", "description": "Reads.", "strict": false,
                   "parameters": {"type": "object"}}],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
            {"type": "message", "role": "assistant",
             "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "1"},
        ],
    })
}

#[test]
fn responses_requests_are_checked() {
    let thought = |content: Value| json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": content});
    check(
        Dialect::OpenAiResponses,
        &responses(),
        &[
            ("/input", Value::Null),
            ("/messages", json!([])),
            ("/max_output_tokens", json!(8)),
            ("/include/0", json!("everything")),
            ("/reasoning/effort", json!("minimal")),
            ("/model", json!("gpt-4.1")),
            ("/tools/0/strict", json!(true)),
            ("/tools/0/name", json!("read file")),
            ("/input/0/content/0/type", json!("output_text")),
            ("/input/1/content/0/type", json!("input_text")),
            ("/input/1", thought(json!("gAAAAAB"))),
            ("/input/1", thought(Value::Null)),
            ("/input", json!([thought(json!("gAAAAABf5c60c1f8e5f9ad2=="))])),
            ("/input/2/call_id", json!("call_2")),
            ("/input/3", json!({"role": "user", "content": "And?"})),
            ("/input/2/id", json!("call_1")),
        ],
        expect![[r#"
            /input = null
              400 invalid_request_error missing_required_parameter input
                Missing required parameter: 'input'.
            /messages = []
              400 invalid_request_error unknown_parameter messages
                Unknown parameter: 'messages'.
            /max_output_tokens = 8
              400 invalid_request_error integer_below_min_value max_output_tokens
                Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 8 instead.
            /include/0 = "everything"
              400 invalid_request_error invalid_value include[0]
                Invalid value: 'everything'. Supported values are: 'reasoning.encrypted_content', 'message.output_text.logprobs', 'message.input_image.image_url'.
            /reasoning/effort = "minimal"
              400 invalid_request_error unsupported_value reasoning.effort
                Unsupported value: 'minimal' is not supported with the 'gpt-5.6-sol' model. Supported values are: 'none', 'low', 'medium', 'high', 'xhigh', 'max'.
            /model = "gpt-4.1"
              400 invalid_request_error unsupported_parameter reasoning.effort
                Unsupported parameter: 'reasoning.effort' is not supported with this model.
            /tools/0/strict = true
              400 invalid_request_error - tools[0].parameters
                Invalid schema for function 'read': In context=(), 'additionalProperties' is required to be supplied and to be false.
            /tools/0/name = "read file"
              400 invalid_request_error invalid_value tools[0].name
                Invalid 'tools[0].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.
            /input/0/content/0/type = "output_text"
              400 invalid_request_error invalid_value input[0].content[0].type
                Invalid value: 'output_text'. Supported values are: 'input_text', 'input_image', 'input_file'.
            /input/1/content/0/type = "input_text"
              400 invalid_request_error invalid_value input[1].content[0].type
                Invalid value: 'input_text'. Supported values are: 'output_text', 'refusal'.
            /input/1 = {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAAB"}
              400 invalid_request_error invalid_encrypted_content -
                The encrypted content gAAAAAB could not be verified. Reason: Encrypted content could not be decrypted or parsed.
            /input/1 = {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":null}
              400 invalid_request_error - input
                Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.
            /input = [{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAABf5c60c1f8e5f9ad2=="}]
              400 invalid_request_error - input
                Item 'rs_1' of type 'reasoning' was provided without its required following item.
            /input/2/call_id = "call_2"
              400 invalid_request_error - input
                No tool call found for function call output with call_id call_1.
            /input/3 = {"role":"user","content":"And?"}
              400 invalid_request_error - input
                No tool output found for function call call_1.
            /input/2/id = "call_1"
              400 invalid_request_error invalid_value input[2].id
                Invalid 'input[2].id': 'call_1'. Expected an ID that begins with 'fc'.
        "#]],
    );
}

#[test]
fn thinking_before_a_call_must_come_back() {
    let answers = || {
        let calls = Answer::thinking("Hm.").and_call("call_1", "read", json!({}));
        [calls, Answer::text("Fine.")]
    };
    let provider = LocalProvider::start(Dialect::AnthropicMessages, answers());
    let mut body = anthropic();
    body["thinking"] = json!({"type": "adaptive"});
    assert_eq!(verdict(&provider, &body, ""), "200");
    body["messages"][1]["content"][1]["id"] = json!("call_1");
    body["messages"][2]["content"][0]["tool_use_id"] = json!("call_1");
    expect![[r#"
        400 invalid_request_error - -
            messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response."#]].assert_eq(&verdict(&provider, &body, ""));

    let provider = LocalProvider::start(Dialect::OpenAiChat, answers());
    let mut body = chat();
    assert_eq!(verdict(&provider, &body, ""), "200");
    expect![[r#"
        400 invalid_request_error - -
            The `reasoning_content` in the thinking mode must be passed back to the API."#]]
    .assert_eq(&verdict(&provider, &body, ""));
    body["messages"][2]["reasoning_content"] = json!("Hm.");
    assert_eq!(verdict(&provider, &body, ""), "200");
}

#[test]
fn unknown_path_is_not_found() {
    for dialect in Dialect::ALL {
        let provider = LocalProvider::start(dialect, []);
        let answer = read_all(send(&provider, "POST", "/v2/complete", "", b"{}"));
        assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answer}");
    }
}

#[test]
fn exhausted_script_refuses_the_request() {
    let provider = LocalProvider::start(Dialect::OpenAiChat, [Answer::text("Fine.")]);
    assert_eq!(verdict(&provider, &chat(), ""), "200");
    expect![[r#"
        400 invalid_request_error - -
            the script has no answer for request 2"#]]
    .assert_eq(&verdict(&provider, &chat(), ""));
    assert_eq!(provider.refusals(), ["the script has no answer for request 2"]);
}

#[test]
fn models_are_listed() {
    let shown = |dialect: Dialect| {
        let provider = LocalProvider::start(dialect, []).with_models(["a", "b"]);
        let answer = read_all(send(&provider, "GET", "/v1/models?limit=1000", "", b""));
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).expect("it answers")
    };
    expect![[r#"{"data":[{"type":"model","id":"a","display_name":"a","created_at":"2026-07-24T00:00:00Z"},{"type":"model","id":"b","display_name":"b","created_at":"2026-07-24T00:00:00Z"}],"has_more":false,"first_id":"a","last_id":"b"}"#]].assert_eq(&shown(Dialect::AnthropicMessages));
    expect![[r#"{"object":"list","data":[{"id":"a","object":"model","created":1715367049,"owned_by":"system"},{"id":"b","object":"model","created":1715367049,"owned_by":"system"}]}"#]].assert_eq(&shown(Dialect::OpenAiChat));
}

/// The whole event stream of an answer, without chunk framing.
fn streamed(dialect: Dialect, answer: Answer) -> String {
    let provider = LocalProvider::start(dialect, [answer.and_pieces_of(usize::MAX)]);
    let good = match dialect {
        Dialect::AnthropicMessages => anthropic(),
        Dialect::OpenAiChat => chat(),
        _ => responses(),
    };
    let answer = read_all(post(&provider, &good, ""));
    assert_eq!(provider.refusals(), Vec::<String>::new());
    let (_, chunks) = answer.split_once("\r\n\r\n").expect("it answers");
    let (_, events) = chunks.split_once("\r\n").expect("a chunk has a size");
    events.split_once("\r\n0\r\n").map_or(events, |(events, _)| events).to_owned()
}

fn answer_with_everything() -> Answer {
    let usage = Usage { input_tokens: 7, output_tokens: 5, cache_read: 300, cache_write: 20 };
    Answer::thinking("Hm, well.")
        .and_text("I look.")
        .and_call("call_1", "read", json!({"path": "a"}))
        .and_call("call_2", "list", json!({}))
        .and_usage(usage)
}

#[test]
fn anthropic_replies_are_streamed() {
    expect![[r#"
        event: message_start
        data: {"type":"message_start","message":{"model":"claude-opus-4-6","id":"msg_000000000000000000000001","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}}}

        event: content_block_start
        data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm, "}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"well."}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM42ee3faaf1e1e470=="}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":0}

        event: content_block_start
        data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I "}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"look."}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":1}

        event: content_block_start
        data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"read","input":{}}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\""}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":":\"a\"}"}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":2}

        event: content_block_start
        data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"call_2","name":"list","input":{}}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":3}

        event: message_delta
        data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"stop_details":null},"usage":{"input_tokens":7,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":5}}

        event: message_stop
        data: {"type":"message_stop"}

    "#]].assert_eq(&streamed(Dialect::AnthropicMessages, answer_with_everything()));
}

#[test]
fn chat_replies_are_streamed() {
    expect![[r#"
        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":null,"refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"reasoning_content":"Hm, "},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"reasoning_content":"well."},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"I "},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"look."},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\""}}]},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":\"a\"}"}}]},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"list","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null,"obfuscation":"ZvY"}

        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[],"usage":{"prompt_tokens":327,"completion_tokens":5,"total_tokens":332,"prompt_tokens_details":{"cached_tokens":300,"cache_write_tokens":20,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}},"obfuscation":"ZvY"}

        data: [DONE]

    "#]].assert_eq(&streamed(Dialect::OpenAiChat, answer_with_everything()));
}

#[test]
fn responses_replies_are_streamed() {
    expect![[r#"
        event: response.created
        data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_00000000000000000000000000000001","object":"response","created_at":1759064126,"status":"in_progress","error":null,"incomplete_details":null,"instructions":"Be brief.","max_output_tokens":null,"model":"gpt-5.6-sol","output":[],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":"low","summary":"auto"},"service_tier":"default","store":false,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[{"type":"function","name":"read","description":"Reads.","strict":false,"parameters":{"type":"object"}}],"top_p":1.0,"truncation":"disabled","usage":null,"metadata":{}}}

        event: response.in_progress
        data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_00000000000000000000000000000001","object":"response","created_at":1759064126,"status":"in_progress","error":null,"incomplete_details":null,"instructions":"Be brief.","max_output_tokens":null,"model":"gpt-5.6-sol","output":[],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":"low","summary":"auto"},"service_tier":"default","store":false,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[{"type":"function","name":"read","description":"Reads.","strict":false,"parameters":{"type":"object"}}],"top_p":1.0,"truncation":"disabled","usage":null,"metadata":{}}}

        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"rs_00000000000000000000000100000000","type":"reasoning","encrypted_content":"gAAAAABb56ac8532263a384==","summary":[]}}

        event: response.reasoning_summary_part.added
        data: {"type":"response.reasoning_summary_part.added","sequence_number":3,"item_id":"rs_00000000000000000000000100000000","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}

        event: response.reasoning_summary_text.delta
        data: {"type":"response.reasoning_summary_text.delta","sequence_number":4,"item_id":"rs_00000000000000000000000100000000","output_index":0,"summary_index":0,"delta":"Hm, ","obfuscation":"8LmeBsRtk"}

        event: response.reasoning_summary_text.delta
        data: {"type":"response.reasoning_summary_text.delta","sequence_number":5,"item_id":"rs_00000000000000000000000100000000","output_index":0,"summary_index":0,"delta":"well.","obfuscation":"8LmeBsRtk"}

        event: response.reasoning_summary_text.done
        data: {"type":"response.reasoning_summary_text.done","sequence_number":6,"item_id":"rs_00000000000000000000000100000000","output_index":0,"summary_index":0,"text":"Hm, well."}

        event: response.reasoning_summary_part.done
        data: {"type":"response.reasoning_summary_part.done","sequence_number":7,"item_id":"rs_00000000000000000000000100000000","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"Hm, well."}}

        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":8,"output_index":0,"item":{"id":"rs_00000000000000000000000100000000","type":"reasoning","encrypted_content":"gAAAAABb56ac8532263a384==","summary":[{"type":"summary_text","text":"Hm, well."}]}}

        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":9,"output_index":1,"item":{"id":"msg_00000000000000000000000100000001","type":"message","status":"in_progress","content":[],"phase":"final_answer","role":"assistant"}}

        event: response.content_part.added
        data: {"type":"response.content_part.added","sequence_number":10,"item_id":"msg_00000000000000000000000100000001","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}}

        event: response.output_text.delta
        data: {"type":"response.output_text.delta","sequence_number":11,"item_id":"msg_00000000000000000000000100000001","output_index":1,"content_index":0,"delta":"I ","obfuscation":"8LmeBsRtk"}

        event: response.output_text.delta
        data: {"type":"response.output_text.delta","sequence_number":12,"item_id":"msg_00000000000000000000000100000001","output_index":1,"content_index":0,"delta":"look.","obfuscation":"8LmeBsRtk"}

        event: response.output_text.done
        data: {"type":"response.output_text.done","sequence_number":13,"item_id":"msg_00000000000000000000000100000001","output_index":1,"content_index":0,"text":"I look."}

        event: response.content_part.done
        data: {"type":"response.content_part.done","sequence_number":14,"item_id":"msg_00000000000000000000000100000001","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":"I look."}}

        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":15,"output_index":1,"item":{"id":"msg_00000000000000000000000100000001","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"I look."}],"phase":"final_answer","role":"assistant"}}

        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":16,"output_index":2,"item":{"id":"fc_00000000000000000000000100000002","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"read"}}

        event: response.function_call_arguments.delta
        data: {"type":"response.function_call_arguments.delta","sequence_number":17,"item_id":"fc_00000000000000000000000100000002","output_index":2,"delta":"{\"path\"","obfuscation":"8LmeBsRtk"}

        event: response.function_call_arguments.delta
        data: {"type":"response.function_call_arguments.delta","sequence_number":18,"item_id":"fc_00000000000000000000000100000002","output_index":2,"delta":":\"a\"}","obfuscation":"8LmeBsRtk"}

        event: response.function_call_arguments.done
        data: {"type":"response.function_call_arguments.done","sequence_number":19,"item_id":"fc_00000000000000000000000100000002","output_index":2,"arguments":"{\"path\":\"a\"}"}

        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":20,"output_index":2,"item":{"id":"fc_00000000000000000000000100000002","type":"function_call","status":"completed","arguments":"{\"path\":\"a\"}","call_id":"call_1","name":"read"}}

        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":21,"output_index":3,"item":{"id":"fc_00000000000000000000000100000003","type":"function_call","status":"in_progress","arguments":"","call_id":"call_2","name":"list"}}

        event: response.function_call_arguments.delta
        data: {"type":"response.function_call_arguments.delta","sequence_number":22,"item_id":"fc_00000000000000000000000100000003","output_index":3,"delta":"{}","obfuscation":"8LmeBsRtk"}

        event: response.function_call_arguments.done
        data: {"type":"response.function_call_arguments.done","sequence_number":23,"item_id":"fc_00000000000000000000000100000003","output_index":3,"arguments":"{}"}

        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":24,"output_index":3,"item":{"id":"fc_00000000000000000000000100000003","type":"function_call","status":"completed","arguments":"{}","call_id":"call_2","name":"list"}}

        event: response.completed
        data: {"type":"response.completed","sequence_number":25,"response":{"id":"resp_00000000000000000000000000000001","object":"response","created_at":1759064126,"status":"completed","error":null,"incomplete_details":null,"instructions":"Be brief.","max_output_tokens":null,"model":"gpt-5.6-sol","output":[{"id":"rs_00000000000000000000000100000000","type":"reasoning","encrypted_content":"gAAAAABb56ac8532263a384==","summary":[{"type":"summary_text","text":"Hm, well."}]},{"id":"msg_00000000000000000000000100000001","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"I look."}],"phase":"final_answer","role":"assistant"},{"id":"fc_00000000000000000000000100000002","type":"function_call","status":"completed","arguments":"{\"path\":\"a\"}","call_id":"call_1","name":"read"},{"id":"fc_00000000000000000000000100000003","type":"function_call","status":"completed","arguments":"{}","call_id":"call_2","name":"list"}],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":"low","summary":"auto"},"service_tier":"default","store":false,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[{"type":"function","name":"read","description":"Reads.","strict":false,"parameters":{"type":"object"}}],"top_p":1.0,"truncation":"disabled","usage":{"input_tokens":327,"input_tokens_details":{"cached_tokens":300,"cache_write_tokens":20},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":332},"metadata":{}}}

    "#]].assert_eq(&streamed(Dialect::OpenAiResponses, answer_with_everything()));
}

#[test]
fn endings_differ_by_dialect() {
    let last = |dialect: Dialect, answer: Answer| {
        let events = streamed(dialect, answer);
        let events: Vec<&str> = events.trim_end().split("\n\n").collect();
        let says_nothing = ["[DONE]", r#""choices":[]"#, "message_stop"];
        let tells = |event: &&&str| !says_nothing.iter().any(|words| event.contains(words));
        let event = events.iter().rev().find(tells).expect("there are events");
        let shown = event.split_once(r#""output":"#).map_or(*event, |(start, _)| start);
        format!("{shown}\n")
    };
    let mut table = String::new();
    for dialect in Dialect::ALL {
        table += &last(dialect, Answer::text("a").and_stop(StopReason::MaxTokens));
        table += &last(dialect, Answer::refusal("No."));
        table += &last(dialect, Answer::refusal(""));
        table += &last(dialect, Answer::text("a").and_error(ModelErrorKind::Overloaded));
    }
    expect![[r#"
        event: message_delta
        data: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null,"stop_details":null},"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":5}}
        event: message_delta
        data: {"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":"general_harms","explanation":"No."}},"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":5}}
        event: message_delta
        data: {"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":"general_harms","explanation":""}},"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":5}}
        event: error
        data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}
        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null,"obfuscation":"ZvY"}
        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null,"obfuscation":"ZvY"}
        data: {"id":"chatcmpl-00000001","object":"chat.completion.chunk","created":1782321900,"model":"gpt-5.1","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"content_filter"}],"usage":null,"obfuscation":"ZvY"}
        data: {"error":{"message":"The server is overloaded. Please try again later.","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}
        event: response.incomplete
        data: {"type":"response.incomplete","sequence_number":8,"response":{"id":"resp_00000000000000000000000000000001","object":"response","created_at":1759064126,"status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"instructions":"Be brief.","max_output_tokens":null,"model":"gpt-5.6-sol",
        event: response.completed
        data: {"type":"response.completed","sequence_number":8,"response":{"id":"resp_00000000000000000000000000000001","object":"response","created_at":1759064126,"status":"completed","error":null,"incomplete_details":null,"instructions":"Be brief.","max_output_tokens":null,"model":"gpt-5.6-sol",
        event: response.incomplete
        data: {"type":"response.incomplete","sequence_number":7,"response":{"id":"resp_00000000000000000000000000000001","object":"response","created_at":1759064126,"status":"incomplete","error":null,"incomplete_details":{"reason":"content_filter"},"instructions":"Be brief.","max_output_tokens":null,"model":"gpt-5.6-sol",
        event: response.failed
        data: {"type":"response.failed","sequence_number":9,"response":{"id":"resp_00000000000000000000000000000001","object":"response","created_at":1759064126,"status":"failed","error":{"code":"server_is_overloaded","message":"The server is overloaded. Please try again later."},"incomplete_details":null,"instructions":"Be brief.","max_output_tokens":null,"model":"gpt-5.6-sol",
    "#]].assert_eq(&table);
}

#[test]
fn answer_can_be_cut_anywhere() {
    let cut = |after: After, cut: Cut| {
        let answer = Answer::text("One two three.").and_cut(after, cut);
        let provider = LocalProvider::start(Dialect::OpenAiChat, [answer]);
        let answer = read_all(post(&provider, &chat(), ""));
        let end = if answer.ends_with("(reset)") { " (reset)" } else { "" };
        let head =
            if answer.starts_with("HTTP/1.1 200 OK\r\n") { "a head and" } else { "no head," };
        let events = answer.matches("data: ").count();
        format!("{cut:?} after {after:?}: {head} {events} events{end}\n")
    };
    let mut table = String::new();
    for how in [Cut::Close, Cut::Reset] {
        for after in [After::Nothing, After::Events(2), After::Bytes(3), After::Content] {
            table += &cut(after, how);
        }
    }
    expect![[r#"
        Close after Nothing: no head, 0 events
        Close after Events(2): a head and 2 events
        Close after Bytes(3): a head and 0 events
        Close after Content: a head and 4 events
        Reset after Nothing: no head, 0 events (reset)
        Reset after Events(2): a head and 2 events (reset)
        Reset after Bytes(3): a head and 0 events (reset)
        Reset after Content: a head and 4 events (reset)
    "#]]
    .assert_eq(&table);
}

#[test]
fn hanging_answer_continues_after_release() {
    let provider = LocalProvider::start(Dialect::OpenAiChat, [Answer::text("Well.").and_hang()]);
    let mut stream = post(&provider, &chat(), "");
    let mut first = [0; 2000];
    let mut so_far = String::new();
    while !so_far.contains("Well.") {
        let read = stream.read(&mut first).expect("it speaks");
        so_far.push_str(&String::from_utf8_lossy(&first[..read]));
    }
    assert!(!so_far.contains("[DONE]"), "{so_far}");
    provider.release();
    assert!(read_all(stream).contains("[DONE]"));
}

#[test]
fn closed_client_connection_is_noticed() {
    let provider = LocalProvider::start(Dialect::OpenAiChat, [Answer::hang()]);
    let stream = post(&provider, &chat(), "");
    provider.wait_received(1);
    drop(stream);
    provider.wait_closed(1);
    assert_eq!(provider.connections(), 1);
}

#[test]
fn chunked_bodies_and_consecutive_requests_are_read() {
    let provider = LocalProvider::start_with(Dialect::OpenAiChat, |_| Answer::status(500));
    let body = chat().to_string();
    let (one, two) = body.split_at(9);
    let mut stream = TcpStream::connect(provider.address()).expect("it listens");
    for end in ["", "connection: close\r\n"] {
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer key\r\n{end}\
             content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
             9\r\n{one}\r\n{:x};x=y\r\n{two}\r\n0\r\n\r\n",
            two.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
    }
    assert_eq!(read_all(stream).matches("HTTP/1.1 500").count(), 2);
    let bodies: Vec<_> = provider.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, [body.as_bytes(), body.as_bytes()]);
}
