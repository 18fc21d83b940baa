//! OpenAI's Chat Completions, from the side that answers.
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
    Keys, Received, Rendered, Told, Turn, Wire,
    answer::{Part, Reply, Thought, bits, words},
    check::{House, Refused, Spot, image_url},
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
/// How hard models may be told to think; the longer beginning of a name stands first.
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
/// Those that take no tools here while they think.
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

    fn check_head(&self, request: &Received, keys: &Keys) -> Result<(), Refused> {
        check_bearer(request, keys)
    }

    fn check(&self, _: &Received, body: &Value, told: &[Told]) -> Result<(), Refused> {
        let root = Spot::root(body, House::OpenAi);
        root.only(FIELDS)?;
        let model = root.need("model")?.str()?;
        let tools = check_tools(&root)?;
        check_thinking(&root, model, tools)?;
        if let Some(options) = root.get("stream_options") {
            options.only(&["include_usage", "include_obfuscation"])?;
        }
        for flag in ["store", "parallel_tool_calls"] {
            root.get(flag).map(|flag| flag.bool()).transpose()?;
        }
        root.get("prompt_cache_key").map(|key| key.short(64)).transpose()?;
        let messages = root.need("messages")?.items()?;
        if messages.is_empty() {
            let message = "Invalid 'messages': empty array. Expected an array with minimum length \
                           1, but got an empty array instead.";
            return Err(Refused::bad(message).with_code("empty_array").with_param("messages"));
        }
        for message in &messages {
            check_message(message, model, told)?;
        }
        check_pairs(&messages)
    }

    fn reply(&self, reply: &Reply, turn: &Turn<'_>) -> Rendered {
        let counts = turn.request["stream_options"]["include_usage"] == true;
        let whole = |choices: Value, usage: Value| {
            let mut chunk = json!({
                "id": format!("chatcmpl-{:08}", turn.number),
                "object": "chat.completion.chunk",
                "created": 1_782_321_900,
                "model": turn.model(),
                "service_tier": "default",
                "system_fingerprint": null,
                "choices": choices,
            });
            if counts {
                chunk["usage"] = usage;
                chunk["obfuscation"] = json!("ZvY");
            }
            plain_event(&chunk)
        };
        let chunk = |delta: Value, finish: Value| {
            let choice =
                json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
            whole(json!([choice]), Value::Null)
        };
        let calls = reply.calls().next().is_some();
        let content = if calls { Value::Null } else { json!("") };
        let first = json!({"role": "assistant", "content": content, "refusal": null});
        let mut said = vec![chunk(first, Value::Null)];
        said.extend(deltas(reply).into_iter().map(|delta| chunk(delta, Value::Null)));
        let end = match reply.error {
            Some(kind) => vec![plain_event(&json!({"error": failed(kind)}))],
            None => {
                let finish = chunk(json!({}), json!(finish_reason(reply)));
                let usage = counts.then(|| whole(json!([]), usage(&reply.usage)));
                let done = "data: [DONE]\n\n".to_owned();
                [finish].into_iter().chain(usage).chain([done]).collect()
            }
        };
        Rendered { said, end }
    }

    fn refusal(&self, refused: &Refused) -> Value {
        refusal(refused)
    }

    fn failure(&self, status: u16) -> Refused {
        failure(status)
    }

    fn ping(&self) -> String {
        ": keep-alive\n\n".to_owned()
    }

    fn models(&self, names: &[String]) -> Value {
        models(names)
    }
}

/// The error object that both of OpenAI's formats have.
pub(super) fn refusal(refused: &Refused) -> Value {
    json!({"error": {
        "message": refused.message,
        "type": refused.kind,
        "param": refused.param,
        "code": refused.code,
    }})
}

/// What goes with a status in both of OpenAI's formats.
pub(super) fn failure(status: u16) -> Refused {
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
    Refused { code, ..Refused::new(status, kind, message) }
}

/// An error within a stream in both of OpenAI's formats.
pub(super) fn failed(kind: ModelErrorKind) -> Value {
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

/// A list of models in both of OpenAI's formats.
pub(super) fn models(names: &[String]) -> Value {
    let row = |name| json!({"id": name, "object": "model", "created": 1_715_367_049, "owned_by": "system"});
    json!({"object": "list", "data": names.iter().map(row).collect::<Vec<_>>()})
}

/// The key of a request in both of OpenAI's formats.
pub(super) fn check_bearer(request: &Received, keys: &Keys) -> Result<(), Refused> {
    let key = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    if keys.admit(key) {
        return Ok(());
    }
    let message = match key {
        Some(_) => "Incorrect API key provided.",
        None => "You didn't provide an API key.",
    };
    Err(Refused::new(401, "invalid_request_error", message).with_code("invalid_api_key"))
}

/// The pieces of a reply, each a delta.
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
                all.extend(bits(input).into_iter().map(
                    |bit| json!({"tool_calls": [{"index": calls, "function": {"arguments": bit}}]}),
                ));
                calls += 1;
            }
        }
    }
    all
}

fn finish_reason(reply: &Reply) -> &'static str {
    let has_words =
        reply.parts.iter().any(|part| matches!(part, Part::Refusal(words) if !words.is_empty()));
    match reply.stop() {
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal if !has_words => "content_filter",
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

/// Whether there are tools.
fn check_tools(root: &Spot<'_>) -> Result<bool, Refused> {
    let Some(tools) = root.get("tools") else {
        return match ["parallel_tool_calls", "tool_choice"].iter().find_map(|key| root.get(key)) {
            Some(spot) => Err(spot.refuse(format!(
                "Invalid value for '{0}': '{0}' is only allowed when 'tools' are specified.",
                spot.path
            ))),
            None => Ok(false),
        };
    };
    let tools = tools.items()?;
    if tools.is_empty() {
        let message = "Invalid 'tools': empty array. Expected an array with minimum length 1, but got \
                       an empty array instead.";
        return Err(Refused::bad(message).with_code("empty_array").with_param("tools"));
    }
    for tool in tools {
        tool.only(&["type", "function"])?;
        tool.need("type")?.one_of(&["function"])?;
        let function = tool.need("function")?;
        function.only(&["name", "description", "parameters", "strict"])?;
        let name = function.need("name")?;
        name.name(usize::MAX)?;
        name.short(64)?;
        function.get("description").map(|words| words.str()).transpose()?;
        function.get("parameters").map(|schema| schema.object()).transpose()?;
        function.get("strict").map(|strict| strict.bool()).transpose()?;
    }
    Ok(true)
}

fn check_thinking(root: &Spot<'_>, model: &str, has_tools: bool) -> Result<(), Refused> {
    let known = efforts(model);
    let thinks = known.is_some_and(|efforts| !efforts.is_empty());
    if thinks && root.get("max_tokens").is_some() {
        return Err(Refused::bad(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
             'max_completion_tokens' instead.",
        )
        .with_code("unsupported_parameter")
        .with_param("max_tokens"));
    }
    for key in ["max_tokens", "max_completion_tokens"] {
        match root.get(key).map(|most| most.int()).transpose()? {
            Some(0) => {
                let message = format!("Invalid '{key}': integer below minimum value.");
                return Err(Refused::bad(message).with_param(key));
            }
            _ => continue,
        }
    }
    let effort = root.get("reasoning_effort");
    if let Some(effort) = &effort {
        check_effort(effort, model)?;
    }
    let is_off = effort.is_some_and(|effort| effort.value == "none");
    let is_barred = NO_TOOLS_WHILE_THINKING.iter().any(|name| model.starts_with(name));
    if has_tools && is_barred && !is_off {
        return Err(Refused::bad(format!(
            "Function tools with reasoning_effort are not supported for {model} in \
             /v1/chat/completions. To use function tools, use /v1/responses or set \
             reasoning_effort to 'none'."
        ))
        .with_param("reasoning_effort"));
    }
    Ok(())
}

/// The words for how hard a model may think, where it is known.
pub(super) fn efforts(model: &str) -> Option<&'static [&'static str]> {
    EFFORTS.iter().find(|(name, _)| model.starts_with(name)).map(|(_, efforts)| *efforts)
}

/// A word for how hard to think, in both of OpenAI's formats.
pub(super) fn check_effort(effort: &Spot<'_>, model: &str) -> Result<(), Refused> {
    let all = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    let word = effort.one_of(&all)?;
    match efforts(model) {
        Some([]) => Err(Refused::bad(format!(
            "Unsupported parameter: '{}' is not supported with this model.",
            effort.path
        ))
        .with_code("unsupported_parameter")
        .with_param(effort.path.clone())),
        Some(known) if !known.contains(&word) => {
            let known = known.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>();
            Err(Refused::bad(format!(
                "Unsupported value: '{word}' is not supported with the '{model}' model. Supported \
                 values are: {}.",
                known.join(", ")
            ))
            .with_code("unsupported_value")
            .with_param(effort.path.clone()))
        }
        _ => Ok(()),
    }
}

fn check_message(message: &Spot<'_>, model: &str, told: &[Told]) -> Result<(), Refused> {
    let roles = ["system", "developer", "user", "assistant", "tool"];
    match message.need("role")?.one_of(&roles)? {
        "assistant" => check_reply(message, model, told),
        "tool" => {
            message.only(&["role", "content", "tool_call_id"])?;
            message.need("tool_call_id")?.short(LONGEST_ID)?;
            check_content(&message.need("content")?, "tool")
        }
        role => {
            message.only(&["role", "content", "name"])?;
            check_content(&message.need("content")?, role)
        }
    }
}

fn check_content(content: &Spot<'_>, role: &str) -> Result<(), Refused> {
    if content.value.is_string() {
        return Ok(());
    }
    for part in content.items()? {
        match part.need("type")?.str()? {
            "text" => {
                part.only(&["type", "text", "prompt_cache_breakpoint"])?;
                part.need("text")?.str()?;
            }
            "refusal" if role == "assistant" => {
                part.only(&["type", "refusal"])?;
                part.need("refusal")?.str()?;
            }
            "image_url" if role == "user" => {
                part.only(&["type", "image_url", "prompt_cache_breakpoint"])?;
                let image = part.need("image_url")?;
                image.only(&["url", "detail"])?;
                image.get("detail").map(|it| it.one_of(&["auto", "low", "high"])).transpose()?;
                image_url(&image.need("url")?)?;
            }
            "image_url" => {
                let (message, _) = content.path.split_once('.').unwrap_or((&content.path, ""));
                return Err(Refused::bad(format!(
                    "Invalid '{message}'. Image URLs are only allowed for messages with role 'user', \
                     but this message with role '{role}' contains an image URL."
                ))
                .with_param(message));
            }
            _ => {
                part.need("type")?.one_of(&["text", "image_url", "input_audio", "file"])?;
            }
        }
    }
    Ok(())
}

fn check_reply(message: &Spot<'_>, model: &str, told: &[Told]) -> Result<(), Refused> {
    message.only(&["role", "content", "refusal", "name", "tool_calls", "reasoning_content"])?;
    let mut ids = vec![];
    if let Some(calls) = message.get("tool_calls") {
        let calls = calls.items()?;
        if calls.is_empty() {
            return Err(Refused::bad(format!(
                "Invalid '{}.tool_calls': empty array. Expected an array with minimum length 1, but \
                 got an empty array instead.",
                message.path
            ))
            .with_code("empty_array"));
        }
        for call in calls {
            call.only(&["id", "type", "function"])?;
            call.need("type")?.one_of(&["function"])?;
            ids.push(call.need("id")?.short(LONGEST_ID)?);
            let function = call.need("function")?;
            function.only(&["name", "arguments"])?;
            let name = function.need("name")?;
            name.name(usize::MAX)?;
            name.short(64)?;
            function.need("arguments")?.str()?;
        }
    }
    match message.get("content") {
        Some(content) => check_content(&content, "assistant")?,
        None if ids.is_empty() && message.get("refusal").is_none() => {
            return Err(Refused::bad(format!(
                "Invalid value for '{}.content': expected a string, got null.",
                message.path
            )));
        }
        None => {}
    }
    check_thought(message, model, &ids, told)
}

/// What was thought before a call comes back with it.
fn check_thought(
    message: &Spot<'_>,
    model: &str,
    ids: &[&str],
    told: &[Told],
) -> Result<(), Refused> {
    let said = told.iter().rev().find(|told| {
        told.model == model && told.calls.iter().any(|call| ids.contains(&call.as_str()))
    });
    let thought: String = said.map_or(String::new(), |said| {
        let shown = said.thoughts.iter().map(|thought| match thought {
            Thought::Shown(text) => text.as_str(),
            Thought::Hidden(_) => "",
        });
        shown.collect()
    });
    let back = message.get("reasoning_content").map(|back| back.str()).transpose()?;
    if thought.is_empty() || back == Some(thought.as_str()) {
        return Ok(());
    }
    Err(Refused::bad(
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    ))
}

/// Every call is answered right after the message that made it, and no answer is anybody else's.
fn check_pairs(messages: &[Spot<'_>]) -> Result<(), Refused> {
    let mut open: Vec<&str> = vec![];
    let left = |open: &[&str]| {
        Refused::bad(format!(
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
            return Err(left(&open));
        }
        let calls = message.value["tool_calls"].as_array().into_iter().flatten();
        open = calls.filter_map(|call| call["id"].as_str()).collect();
    }
    if open.is_empty() { Ok(()) } else { Err(left(&open)) }
}
