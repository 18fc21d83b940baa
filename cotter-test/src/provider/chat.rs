//! The server side of OpenAI's Chat Completions.
//!
//! Written from `developers.openai.com/api`: `/reference/resources/chat`, `/docs/guides/error-codes`,
//! `/docs/guides/function-calling`, `/docs/guides/images-vision` and `/docs/guides/prompt-caching`.
//! `reasoning_content` is from `api-docs.deepseek.com/guides/thinking_mode`: OpenAI shows no thinking
//! here.

use cotter::{
    history::message::{StopReason, Usage},
    model::ModelErrorKind,
};
use serde_json::{Value, json};

use super::{
    Keys, ReceivedRequest, ReplyEvents, SentReply, Turn, Wire,
    answer::{Part, Reply, Thought, chunks_of_seven, words},
    check::{Field, Provider, RequestError, image_url},
    plain_event,
};

const FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_completion_tokens",
    "max_tokens",
    "reasoning_effort",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "store",
    "metadata",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "n",
    "user",
    "safety_identifier",
    "service_tier",
    "response_format",
    "verbosity",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "modalities",
    "prediction",
    "web_search_options",
];
/// The effort words that models take, by name prefix; the longer prefix comes first.
const EFFORTS: &[(&str, &[&str])] = &[
    ("gpt-4", &[]),
    ("gpt-5-pro", &["high"]),
    ("gpt-5.1", &["none", "low", "medium", "high"]),
    ("gpt-5.2", &["none", "low", "medium", "high", "xhigh"]),
    ("gpt-5.4", &["none", "low", "medium", "high", "xhigh"]),
    ("gpt-5.5", &["none", "low", "medium", "high", "xhigh"]),
    ("gpt-5.6", &["none", "low", "medium", "high", "xhigh", "max"]),
    ("gpt-5", &["minimal", "low", "medium", "high"]),
    ("gpt-6-astra", &["low", "medium", "high", "xhigh", "max"]),
    ("gpt-6.1-sol", &["low", "medium", "high", "xhigh", "max"]),
    ("gpt-6", &["none", "low", "medium", "high", "xhigh", "max"]),
    ("o1", &["low", "medium", "high"]),
    ("o3", &["low", "medium", "high"]),
    ("o4", &["low", "medium", "high"]),
];
/// The models that refuse tools here while they think.
const NO_TOOLS_WHILE_THINKING: &[&str] = &["gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6"];
const LONGEST_ID: usize = 40;

/// The dialect.
pub(super) struct Chat;

impl Wire for Chat {
    fn base(&self) -> &'static str {
        "/v1"
    }

    fn path(&self) -> &'static str {
        "/chat/completions"
    }

    fn check_head(&self, request: &ReceivedRequest, keys: &Keys) -> Result<(), RequestError> {
        check_bearer(request, keys)
    }

    fn check(
        &self,
        _: &ReceivedRequest,
        body: &Value,
        sent: &[SentReply],
    ) -> Result<(), RequestError> {
        let root = Field::root(body, Provider::OpenAi);
        root.allow_keys(FIELDS)?;
        let model = root.require("model")?.str()?;
        let tools = check_tools(&root)?;
        check_thinking(&root, model, tools)?;
        if let Some(options) = root.get("stream_options") {
            options.allow_keys(&["include_usage", "include_obfuscation"])?;
        }
        for flag in ["store", "parallel_tool_calls"] {
            root.get(flag).map(|flag| flag.bool()).transpose()?;
        }
        root.get("prompt_cache_key").map(|key| key.max_chars(64)).transpose()?;
        let messages = root.require("messages")?.items()?;
        if messages.is_empty() {
            let message = "Invalid 'messages': empty array. Expected an array with minimum length \
                           1, but got an empty array instead.";
            return Err(RequestError::bad_request(message)
                .with_code("empty_array")
                .with_param("messages"));
        }
        for message in &messages {
            check_message(message, model, sent)?;
        }
        check_pairs(&messages)
    }

    fn reply(&self, reply: &Reply, turn: &Turn<'_>) -> ReplyEvents {
        let wants_usage = turn.request["stream_options"]["include_usage"] == true;
        let chunk_of = |choices: Value, usage: Value| {
            let mut chunk = json!({
                "id": format!("chatcmpl-{:08}", turn.number),
                "object": "chat.completion.chunk",
                "created": 1_782_321_900,
                "model": turn.model(),
                "service_tier": "default",
                "system_fingerprint": null,
                "choices": choices,
            });
            if wants_usage {
                chunk["usage"] = usage;
                chunk["obfuscation"] = json!("ZvY");
            }
            plain_event(&chunk)
        };
        let chunk = |delta: Value, finish: Value| {
            let choice =
                json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
            chunk_of(json!([choice]), Value::Null)
        };
        let calls = reply.calls().next().is_some();
        let content = if calls { Value::Null } else { json!("") };
        let first = json!({"role": "assistant", "content": content, "refusal": null});
        let mut body = vec![chunk(first, Value::Null)];
        body.extend(deltas(reply).into_iter().map(|delta| chunk(delta, Value::Null)));
        let end = match reply.error {
            Some(kind) => vec![plain_event(&json!({"error": error_object(kind)}))],
            None => {
                let finish = chunk(json!({}), json!(finish_reason(reply)));
                let usage = wants_usage.then(|| chunk_of(json!([]), usage(&reply.usage)));
                let done = "data: [DONE]\n\n".to_owned();
                [finish].into_iter().chain(usage).chain([done]).collect()
            }
        };
        ReplyEvents { body, end }
    }

    fn refusal(&self, error: &RequestError) -> Value {
        refusal(error)
    }

    fn failure(&self, status: u16) -> RequestError {
        failure(status)
    }

    fn ping(&self) -> String {
        ": keep-alive\n\n".to_owned()
    }

    fn models(&self, names: &[String]) -> Value {
        models(names)
    }
}

/// The error object of both OpenAI formats.
pub(super) fn refusal(error: &RequestError) -> Value {
    json!({"error": {
        "message": error.message,
        "type": error.kind,
        "param": error.param,
        "code": error.code,
    }})
}

/// The error for a status, in both OpenAI formats.
pub(super) fn failure(status: u16) -> RequestError {
    let (kind, code, message) = match status {
        401 => ("invalid_request_error", Some("invalid_api_key"), "Incorrect API key provided."),
        403 => ("invalid_request_error", Some("unsupported_country"), "Country not supported."),
        404 => ("invalid_request_error", Some("model_not_found"), "The model does not exist."),
        429 => ("requests", Some("rate_limit_exceeded"), "Rate limit reached for requests."),
        503 => (
            "service_unavailable_error",
            Some("server_is_overloaded"),
            "The server is overloaded. Please try again later.",
        ),
        500.. => ("server_error", None, "The server had an error while processing your request."),
        _ => ("invalid_request_error", None, "Error"),
    };
    RequestError { code, ..RequestError::new(status, kind, message) }
}

/// An error within a stream, in both OpenAI formats.
pub(super) fn error_object(kind: ModelErrorKind) -> Value {
    let (word, code, message) = match kind {
        ModelErrorKind::Auth => {
            ("invalid_request_error", Some("invalid_api_key"), "Incorrect API key provided.")
        }
        ModelErrorKind::RateLimited => (
            "tokens",
            Some("rate_limit_exceeded"),
            "Rate limit reached. Please try again in 11.054s.",
        ),
        ModelErrorKind::Overloaded => (
            "service_unavailable_error",
            Some("server_is_overloaded"),
            "The server is overloaded. Please try again later.",
        ),
        ModelErrorKind::ContextOverflow => (
            "invalid_request_error",
            Some("context_length_exceeded"),
            "Your input exceeds the context window of this model. Please adjust your input and try \
             again.",
        ),
        ModelErrorKind::BadRequest => ("invalid_request_error", None, "Invalid request."),
        _ => ("server_error", None, "The server had an error while processing your request."),
    };
    json!({"message": message, "type": word, "param": null, "code": code})
}

/// A list of models, in both OpenAI formats.
pub(super) fn models(names: &[String]) -> Value {
    let row = |name| json!({"id": name, "object": "model", "created": 1_715_367_049, "owned_by": "system"});
    json!({"object": "list", "data": names.iter().map(row).collect::<Vec<_>>()})
}

/// Checks the key of a request, in both OpenAI formats.
pub(super) fn check_bearer(request: &ReceivedRequest, keys: &Keys) -> Result<(), RequestError> {
    let key = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    if keys.accepts(key) {
        return Ok(());
    }
    let message = match key {
        Some(_) => "Incorrect API key provided.",
        None => "You didn't provide an API key.",
    };
    Err(RequestError::new(401, "invalid_request_error", message).with_code("invalid_api_key"))
}

/// The deltas of a reply.
fn deltas(reply: &Reply) -> Vec<Value> {
    let mut all = vec![];
    let mut calls = 0;
    for part in &reply.parts {
        match part {
            Part::Text(text) => all.extend(words(text).map(|word| json!({"content": word}))),
            Part::Refusal(text) => all.extend(words(text).map(|word| json!({"refusal": word}))),
            Part::Thought(Thought::Shown(text)) => {
                all.extend(words(text).map(|word| json!({"reasoning_content": word})));
            }
            Part::Thought(Thought::Hidden(_)) => {}
            Part::Call { id, name, input } => {
                let function = json!({"name": name, "arguments": ""});
                let begin =
                    json!({"index": calls, "id": id, "type": "function", "function": function});
                all.push(json!({"tool_calls": [begin]}));
                all.extend(chunks_of_seven(input).into_iter().map(
                    |bit| json!({"tool_calls": [{"index": calls, "function": {"arguments": bit}}]}),
                ));
                calls += 1;
            }
        }
    }
    all
}

fn finish_reason(reply: &Reply) -> &'static str {
    let has_text =
        reply.parts.iter().any(|part| matches!(part, Part::Refusal(text) if !text.is_empty()));
    match reply.stop() {
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal if !has_text => "content_filter",
        _ => "stop",
    }
}

fn usage(usage: &Usage) -> Value {
    let prompt = usage.input_tokens + usage.cache_read + usage.cache_write;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    })
}

/// Checks the tools; true if there are any.
fn check_tools(root: &Field<'_>) -> Result<bool, RequestError> {
    let Some(tools) = root.get("tools") else {
        return match ["parallel_tool_calls", "tool_choice"].iter().find_map(|key| root.get(key)) {
            Some(field) => Err(field.refuse(format!(
                "Invalid value for '{0}': '{0}' is only allowed when 'tools' are specified.",
                field.path
            ))),
            None => Ok(false),
        };
    };
    let tools = tools.items()?;
    if tools.is_empty() {
        let message = "Invalid 'tools': empty array. Expected an array with minimum length 1, but got \
                       an empty array instead.";
        return Err(RequestError::bad_request(message)
            .with_code("empty_array")
            .with_param("tools"));
    }
    for tool in tools {
        tool.allow_keys(&["type", "function"])?;
        tool.require("type")?.one_of(&["function"])?;
        let function = tool.require("function")?;
        function.allow_keys(&["name", "description", "parameters", "strict"])?;
        let name = function.require("name")?;
        name.name(usize::MAX)?;
        name.max_chars(64)?;
        function.get("description").map(|text| text.str()).transpose()?;
        function.get("parameters").map(|schema| schema.object()).transpose()?;
        function.get("strict").map(|strict| strict.bool()).transpose()?;
    }
    Ok(true)
}

fn check_thinking(root: &Field<'_>, model: &str, has_tools: bool) -> Result<(), RequestError> {
    let thinks = efforts(model).is_some_and(|efforts| !efforts.is_empty());
    if thinks && root.get("max_tokens").is_some() {
        return Err(RequestError::bad_request(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
             'max_completion_tokens' instead.",
        )
        .with_code("unsupported_parameter")
        .with_param("max_tokens"));
    }
    for key in ["max_tokens", "max_completion_tokens"] {
        match root.get(key).map(|limit| limit.int()).transpose()? {
            Some(0) => {
                let message = format!("Invalid '{key}': integer below minimum value.");
                return Err(RequestError::bad_request(message).with_param(key));
            }
            _ => continue,
        }
    }
    let effort = root.get("reasoning_effort");
    if let Some(effort) = &effort {
        check_effort(effort, model)?;
    }
    let is_off = effort.is_some_and(|effort| effort.value == "none");
    let refuses_tools = NO_TOOLS_WHILE_THINKING.iter().any(|name| model.starts_with(name));
    if has_tools && refuses_tools && !is_off {
        return Err(RequestError::bad_request(format!(
            "Function tools with reasoning_effort are not supported for {model} in \
             /v1/chat/completions. To use function tools, use /v1/responses or set \
             reasoning_effort to 'none'."
        ))
        .with_param("reasoning_effort"));
    }
    Ok(())
}

/// The effort words of a model, if it is known.
pub(super) fn efforts(model: &str) -> Option<&'static [&'static str]> {
    EFFORTS.iter().find(|(name, _)| model.starts_with(name)).map(|(_, efforts)| *efforts)
}

/// Checks an effort word, in both OpenAI formats.
pub(super) fn check_effort(effort: &Field<'_>, model: &str) -> Result<(), RequestError> {
    let all = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    let word = effort.one_of(&all)?;
    match efforts(model) {
        Some([]) => Err(RequestError::bad_request(format!(
            "Unsupported parameter: '{}' is not supported with this model.",
            effort.path
        ))
        .with_code("unsupported_parameter")
        .with_param(effort.path.clone())),
        Some(supported) if !supported.contains(&word) => {
            let supported = supported.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>();
            Err(RequestError::bad_request(format!(
                "Unsupported value: '{word}' is not supported with the '{model}' model. Supported \
                 values are: {}.",
                supported.join(", ")
            ))
            .with_code("unsupported_value")
            .with_param(effort.path.clone()))
        }
        _ => Ok(()),
    }
}

fn check_message(message: &Field<'_>, model: &str, sent: &[SentReply]) -> Result<(), RequestError> {
    let roles = ["system", "developer", "user", "assistant", "tool"];
    match message.require("role")?.one_of(&roles)? {
        "assistant" => check_reply(message, model, sent),
        "tool" => {
            message.allow_keys(&["role", "content", "tool_call_id"])?;
            message.require("tool_call_id")?.max_chars(LONGEST_ID)?;
            check_content(&message.require("content")?, "tool")
        }
        role => {
            message.allow_keys(&["role", "content", "name"])?;
            check_content(&message.require("content")?, role)
        }
    }
}

fn check_content(content: &Field<'_>, role: &str) -> Result<(), RequestError> {
    if content.value.is_string() {
        return Ok(());
    }
    for part in content.items()? {
        match part.require("type")?.str()? {
            "text" => {
                part.allow_keys(&["type", "text", "prompt_cache_breakpoint"])?;
                part.require("text")?.str()?;
            }
            "refusal" if role == "assistant" => {
                part.allow_keys(&["type", "refusal"])?;
                part.require("refusal")?.str()?;
            }
            "image_url" if role == "user" => {
                part.allow_keys(&["type", "image_url", "prompt_cache_breakpoint"])?;
                let image = part.require("image_url")?;
                image.allow_keys(&["url", "detail"])?;
                image
                    .get("detail")
                    .map(|detail| detail.one_of(&["auto", "low", "high"]))
                    .transpose()?;
                image_url(&image.require("url")?)?;
            }
            "image_url" => {
                let (message, _) = content.path.split_once('.').unwrap_or((&content.path, ""));
                return Err(RequestError::bad_request(format!(
                    "Invalid '{message}'. Image URLs are only allowed for messages with role 'user', \
                     but this message with role '{role}' contains an image URL."
                ))
                .with_param(message));
            }
            _ => {
                part.require("type")?.one_of(&["text", "image_url", "input_audio", "file"])?;
            }
        }
    }
    Ok(())
}

fn check_reply(message: &Field<'_>, model: &str, sent: &[SentReply]) -> Result<(), RequestError> {
    message.allow_keys(&[
        "role",
        "content",
        "refusal",
        "name",
        "tool_calls",
        "reasoning_content",
    ])?;
    let mut ids = vec![];
    if let Some(calls) = message.get("tool_calls") {
        let calls = calls.items()?;
        if calls.is_empty() {
            return Err(RequestError::bad_request(format!(
                "Invalid '{}.tool_calls': empty array. Expected an array with minimum length 1, but \
                 got an empty array instead.",
                message.path
            ))
            .with_code("empty_array"));
        }
        for call in calls {
            call.allow_keys(&["id", "type", "function"])?;
            call.require("type")?.one_of(&["function"])?;
            ids.push(call.require("id")?.max_chars(LONGEST_ID)?);
            let function = call.require("function")?;
            function.allow_keys(&["name", "arguments"])?;
            let name = function.require("name")?;
            name.name(usize::MAX)?;
            name.max_chars(64)?;
            function.require("arguments")?.str()?;
        }
    }
    match message.get("content") {
        Some(content) => check_content(&content, "assistant")?,
        None if ids.is_empty() && message.get("refusal").is_none() => {
            return Err(RequestError::bad_request(format!(
                "Invalid value for '{}.content': expected a string, got null.",
                message.path
            )));
        }
        None => {}
    }
    check_thought(message, model, &ids, sent)
}

/// Checks that thinking before a call comes back with the call.
fn check_thought(
    message: &Field<'_>,
    model: &str,
    ids: &[&str],
    sent: &[SentReply],
) -> Result<(), RequestError> {
    let earlier = sent.iter().rev().find(|sent| {
        sent.model == model && sent.calls.iter().any(|call| ids.contains(&call.as_str()))
    });
    let thought: String = earlier.map_or(String::new(), |earlier| {
        let shown = earlier.thoughts.iter().map(|thought| match thought {
            Thought::Shown(text) => text.as_str(),
            Thought::Hidden(_) => "",
        });
        shown.collect()
    });
    let returned = message.get("reasoning_content").map(|returned| returned.str()).transpose()?;
    if thought.is_empty() || returned == Some(thought.as_str()) {
        return Ok(());
    }
    Err(RequestError::bad_request(
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    ))
}

/// Checks that every call has its result right after its message, and that every result has a call.
fn check_pairs(messages: &[Field<'_>]) -> Result<(), RequestError> {
    let mut open: Vec<&str> = vec![];
    let missing_results = |open: &[&str]| {
        RequestError::bad_request(format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to \
             each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
            open.join(", ")
        ))
        .with_param("messages")
    };
    for message in messages {
        if message.value["role"] == "tool" {
            let id = message.value["tool_call_id"].as_str().unwrap_or_default();
            let Some(at) = open.iter().position(|call| *call == id) else {
                return Err(message.refuse(
                    "Invalid parameter: messages with role 'tool' must be a response to a \
                     preceding message with 'tool_calls'.",
                ));
            };
            open.remove(at);
            continue;
        }
        if !open.is_empty() {
            return Err(missing_results(&open));
        }
        let calls = message.value["tool_calls"].as_array().into_iter().flatten();
        open = calls.filter_map(|call| call["id"].as_str()).collect();
    }
    if open.is_empty() { Ok(()) } else { Err(missing_results(&open)) }
}
