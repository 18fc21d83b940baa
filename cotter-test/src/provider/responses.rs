//! The server side of OpenAI's Responses.
//!
//! Written from `developers.openai.com/api`: `/reference/resources/responses`,
//! `/docs/guides/streaming-responses`, `/docs/guides/reasoning`, `/docs/guides/function-calling` and
//! `/docs/guides/error-codes`.

use cotter::{
    history::message::{StopReason, Usage},
    model::ModelErrorKind,
};
use serde_json::{Value, json};

use super::{
    Keys, ReceivedRequest, ReplyEvents, SentReply, Turn, Wire,
    answer::{Part, Reply, Thought, chunks_of_seven, words},
    chat,
    check::{Field, Provider, RequestError, image_url},
    fake_signature, named_event,
};

const FIELDS: &[&str] = &[
    "model",
    "instructions",
    "input",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "store",
    "stream",
    "stream_options",
    "include",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "text",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "service_tier",
    "truncation",
    "temperature",
    "top_p",
    "top_logprobs",
    "previous_response_id",
    "conversation",
    "background",
    "safety_identifier",
    "user",
    "context_management",
    "moderation",
];
const INCLUDES: &[&str] = &[
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
    "message.input_image.image_url",
];
const LONGEST_ID: usize = 64;
const MIN_TOKENS: u64 = 16;

/// The dialect.
pub(super) struct Responses;

impl Wire for Responses {
    fn base(&self) -> &'static str {
        "/v1"
    }

    fn path(&self) -> &'static str {
        "/responses"
    }

    fn check_head(&self, request: &ReceivedRequest, keys: &Keys) -> Result<(), RequestError> {
        chat::check_bearer(request, keys)
    }

    fn check(
        &self,
        _: &ReceivedRequest,
        body: &Value,
        _: &[SentReply],
    ) -> Result<(), RequestError> {
        let root = Field::root(body, Provider::OpenAi);
        root.allow_keys(FIELDS)?;
        let model = root.require("model")?.str()?;
        root.get("instructions").map(|text| text.str()).transpose()?;
        for flag in ["store", "parallel_tool_calls"] {
            root.get(flag).map(|flag| flag.bool()).transpose()?;
        }
        root.get("prompt_cache_key").map(|key| key.max_chars(64)).transpose()?;
        if let Some(options) = root.get("stream_options") {
            options.allow_keys(&["include_obfuscation"])?;
        }
        for include in root.get("include").map_or(Ok(vec![]), |include| include.items())? {
            include.one_of(INCLUDES)?;
        }
        if let Some(max_tokens) = root.get("max_output_tokens") {
            let tokens = max_tokens.int()?;
            if tokens < MIN_TOKENS {
                return Err(RequestError::bad_request(format!(
                    "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= \
                     {MIN_TOKENS}, but got {tokens} instead."
                ))
                .with_code("integer_below_min_value")
                .with_param("max_output_tokens"));
            }
        }
        check_tools(&root)?;
        check_reasoning(&root, model)?;
        let input = root.require("input")?;
        if input.value.is_string() {
            return Ok(());
        }
        let items = input.items()?;
        let is_stored = root.get("store").is_none_or(|store| store.value == true);
        for item in &items {
            check_item(item, is_stored)?;
        }
        check_pairs(&items)?;
        check_order(&items)
    }

    fn reply(&self, reply: &Reply, turn: &Turn<'_>) -> ReplyEvents {
        let mut stream = StreamBuilder::of(turn);
        stream.push_event("response.created", json!({"response": stream.response("in_progress")}));
        stream.push_event(
            "response.in_progress",
            json!({"response": stream.response("in_progress")}),
        );
        let is_truncated = reply.stop() == StopReason::MaxTokens;
        for (index, part) in reply.parts.iter().enumerate() {
            let is_last = index + 1 == reply.parts.len();
            stream.part(part, if is_truncated && is_last { "incomplete" } else { "completed" });
        }
        let body = std::mem::take(&mut stream.events);
        stream.end(reply);
        ReplyEvents { body, end: stream.events }
    }

    fn refusal(&self, error: &RequestError) -> Value {
        chat::refusal(error)
    }

    fn failure(&self, status: u16) -> RequestError {
        chat::failure(status)
    }

    fn ping(&self) -> String {
        ": keep-alive\n\n".to_owned()
    }

    fn models(&self, names: &[String]) -> Value {
        chat::models(names)
    }
}

/// The event stream of a response, while it is built.
struct StreamBuilder<'r> {
    turn: &'r Turn<'r>,
    events: Vec<String>,
    /// The number of events so far.
    count: usize,
    /// The output items so far.
    output: Vec<Value>,
}

impl<'r> StreamBuilder<'r> {
    fn of(turn: &'r Turn<'r>) -> Self {
        StreamBuilder { turn, events: vec![], count: 0, output: vec![] }
    }

    fn push_event(&mut self, name: &str, fields: Value) {
        let mut data = json!({"type": name, "sequence_number": self.count});
        if let (Some(data), Value::Object(fields)) = (data.as_object_mut(), fields) {
            data.extend(fields);
        }
        let is_obfuscated = self.turn.request["stream_options"]["include_obfuscation"] != false;
        if is_obfuscated && name.ends_with(".delta") {
            data["obfuscation"] = json!("8LmeBsRtk");
        }
        self.events.push(named_event(name, &data));
        self.count += 1;
    }

    /// The response object in its current state.
    fn response(&self, status: &str) -> Value {
        let request = self.turn.request;
        json!({
            "id": format!("resp_{:032}", self.turn.number),
            "object": "response",
            "created_at": 1_759_064_126,
            "status": status,
            "error": null,
            "incomplete_details": null,
            "instructions": request["instructions"],
            "max_output_tokens": request["max_output_tokens"],
            "model": self.turn.model(),
            "output": self.output,
            "parallel_tool_calls": request.get("parallel_tool_calls").unwrap_or(&json!(true)),
            "previous_response_id": null,
            "reasoning": {
                "effort": request["reasoning"]["effort"],
                "summary": request["reasoning"]["summary"],
            },
            "service_tier": "default",
            "store": request.get("store").unwrap_or(&json!(true)),
            "temperature": 1.0,
            "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "tool_choice": "auto",
            "tools": request.get("tools").unwrap_or(&json!([])),
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": null,
            "metadata": {},
        })
    }

    fn part(&mut self, part: &Part, status: &str) {
        let index = self.output.len();
        let item = match part {
            Part::Text(text) => self.message(text, "output_text", "text", status),
            Part::Refusal(text) => self.message(text, "refusal", "refusal", status),
            Part::Thought(thought) => self.thought(thought),
            Part::Call { id, name, input } => self.call(id, name, input, status),
        };
        self.push_event("response.output_item.done", json!({"output_index": index, "item": item}));
        self.output.push(item);
    }

    /// The id of the current item.
    fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{:024}{:08}", self.turn.number, self.output.len())
    }

    /// A text or a refusal: the same events under different names.
    fn message(&mut self, text: &str, kind: &str, field: &str, status: &str) -> Value {
        let (id, index) = (self.id("msg"), self.output.len());
        let part = |text: &str| match kind {
            "output_text" => {
                json!({"type": kind, "annotations": [], "logprobs": [], "text": text})
            }
            _ => json!({"type": kind, field: text}),
        };
        let item = |status: &str, content: Vec<Value>| {
            json!({"id": id, "type": "message", "status": status, "content": content,
                   "phase": "final_answer", "role": "assistant"})
        };
        let started = item("in_progress", vec![]);
        self.push_event(
            "response.output_item.added",
            json!({"output_index": index, "item": started}),
        );
        let at = |more: Value| {
            let mut fields = json!({"item_id": id, "output_index": index, "content_index": 0});
            if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
                fields.extend(more);
            }
            fields
        };
        self.push_event("response.content_part.added", at(json!({"part": part("")})));
        for word in words(text) {
            self.push_event(&format!("response.{kind}.delta"), at(json!({"delta": word})));
        }
        self.push_event(&format!("response.{kind}.done"), at(json!({field: text})));
        self.push_event("response.content_part.done", at(json!({"part": part(text)})));
        item(status, vec![part(text)])
    }

    fn call(&mut self, call_id: &str, name: &str, input: &str, status: &str) -> Value {
        let (id, index) = (self.id("fc"), self.output.len());
        let item = |status: &str, input: &str| {
            json!({"id": id, "type": "function_call", "status": status, "arguments": input,
                   "call_id": call_id, "name": name})
        };
        let started = item("in_progress", "");
        self.push_event(
            "response.output_item.added",
            json!({"output_index": index, "item": started}),
        );
        for bit in chunks_of_seven(input) {
            let fields = json!({"item_id": id, "output_index": index, "delta": bit});
            self.push_event("response.function_call_arguments.delta", fields);
        }
        let fields = json!({"item_id": id, "output_index": index, "arguments": input});
        self.push_event("response.function_call_arguments.done", fields);
        item(status, input)
    }

    fn thought(&mut self, thought: &Thought) -> Value {
        let (id, index) = (self.id("rs"), self.output.len());
        let wants_summary = !self.turn.request["reasoning"]["summary"].is_null();
        let summary = match thought {
            Thought::Shown(text) if wants_summary => text.as_str(),
            _ => "",
        };
        let summary_part = |text: &str| json!({"type": "summary_text", "text": text});
        let item = |summary: Vec<Value>| {
            json!({"id": id, "type": "reasoning", "encrypted_content": encrypted(&id),
                   "summary": summary})
        };
        let started = item(vec![]);
        self.push_event(
            "response.output_item.added",
            json!({"output_index": index, "item": started}),
        );
        if summary.is_empty() {
            return item(vec![]);
        }
        let at = |more: Value| {
            let mut fields = json!({"item_id": id, "output_index": index, "summary_index": 0});
            if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
                fields.extend(more);
            }
            fields
        };
        self.push_event(
            "response.reasoning_summary_part.added",
            at(json!({"part": summary_part("")})),
        );
        for word in words(summary) {
            self.push_event("response.reasoning_summary_text.delta", at(json!({"delta": word})));
        }
        self.push_event("response.reasoning_summary_text.done", at(json!({"text": summary})));
        self.push_event(
            "response.reasoning_summary_part.done",
            at(json!({"part": summary_part(summary)})),
        );
        item(vec![summary_part(summary)])
    }

    fn end(&mut self, reply: &Reply) {
        if let Some(kind) = reply.error {
            let error = chat::error_object(kind);
            self.push_event("error", json!({"error": error}));
            let mut response = self.response("failed");
            response["error"] = json!({"code": error_code(kind), "message": error["message"]});
            return self.push_event("response.failed", json!({"response": response}));
        }
        let filtered = reply.stop() == StopReason::Refusal
            && !reply
                .parts
                .iter()
                .any(|part| matches!(part, Part::Refusal(text) if !text.is_empty()));
        let reason = match reply.stop() {
            StopReason::MaxTokens => Some("max_output_tokens"),
            _ if filtered => Some("content_filter"),
            _ => None,
        };
        let status = if reason.is_some() { "incomplete" } else { "completed" };
        let mut response = self.response(status);
        response["incomplete_details"] = reason.map_or(Value::Null, |why| json!({"reason": why}));
        response["usage"] = usage(&reply.usage);
        self.push_event(&format!("response.{status}"), json!({"response": response}));
    }
}

/// The error code of a failed response.
fn error_code(kind: ModelErrorKind) -> &'static str {
    match kind {
        ModelErrorKind::RateLimited => "rate_limit_exceeded",
        ModelErrorKind::Overloaded => "server_is_overloaded",
        ModelErrorKind::ContextOverflow => "context_length_exceeded",
        ModelErrorKind::BadRequest => "invalid_prompt",
        _ => "server_error",
    }
}

/// A stand-in for encrypted thinking.
fn encrypted(id: &str) -> String {
    fake_signature("gAAAAAB", id)
}

fn usage(usage: &Usage) -> Value {
    let input = usage.input_tokens + usage.cache_read + usage.cache_write;
    json!({
        "input_tokens": input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + usage.output_tokens,
    })
}

fn check_tools(root: &Field<'_>) -> Result<(), RequestError> {
    for tool in root.get("tools").map_or(Ok(vec![]), |tools| tools.items())? {
        tool.allow_keys(&["type", "name", "description", "parameters", "strict"])?;
        tool.require("type")?.one_of(&["function"])?;
        let name = tool.require("name")?;
        name.name(usize::MAX)?;
        name.max_chars(128)?;
        tool.get("description").map(|text| text.str()).transpose()?;
        let schema = tool.require("parameters")?;
        schema.object()?;
        tool.get("strict").map(|strict| strict.bool()).transpose()?;
        let is_closed = schema.value["additionalProperties"] == false;
        if tool.value["strict"] == true && !is_closed {
            return Err(schema.refuse(format!(
                "Invalid schema for function '{}': In context=(), 'additionalProperties' is required \
                 to be supplied and to be false.",
                tool.value["name"].as_str().unwrap_or_default()
            )));
        }
    }
    Ok(())
}

fn check_reasoning(root: &Field<'_>, model: &str) -> Result<(), RequestError> {
    let cannot_think = chat::efforts(model).is_some_and(<[&str]>::is_empty);
    let Some(reasoning) = root.get("reasoning") else { return Ok(()) };
    if cannot_think {
        return Err(RequestError::bad_request(
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        )
        .with_code("unsupported_parameter")
        .with_param("reasoning.effort"));
    }
    reasoning.allow_keys(&["effort", "summary", "context", "mode", "generate_summary"])?;
    reasoning.get("effort").map(|effort| chat::check_effort(&effort, model)).transpose()?;
    let kinds = ["auto", "concise", "detailed"];
    reasoning.get("summary").map(|summary| summary.one_of(&kinds)).transpose()?;
    Ok(())
}

fn check_item(item: &Field<'_>, is_stored: bool) -> Result<(), RequestError> {
    let kinds = ["message", "reasoning", "function_call", "function_call_output"];
    let kind = item.get("type").map_or(Ok("message"), |kind| kind.one_of(&kinds))?;
    match kind {
        "message" => check_message(item),
        "function_call" => {
            item.allow_keys(&[
                "type",
                "id",
                "call_id",
                "name",
                "arguments",
                "status",
                "namespace",
            ])?;
            item.require("call_id")?.max_chars(LONGEST_ID)?;
            let name = item.require("name")?;
            name.name(usize::MAX)?;
            name.max_chars(128)?;
            item.require("arguments")?.str()?;
            check_id(item, "fc")
        }
        "function_call_output" => {
            item.allow_keys(&["type", "id", "call_id", "output", "status"])?;
            item.require("call_id")?.max_chars(LONGEST_ID)?;
            let output = item.require("output")?;
            if output.value.is_string() {
                return Ok(());
            }
            output.items()?.iter().try_for_each(|part| check_part(part, "user"))
        }
        _ => check_thought(item, is_stored),
    }
}

fn check_id(item: &Field<'_>, prefix: &str) -> Result<(), RequestError> {
    let Some(id) = item.get("id") else { return Ok(()) };
    let text = id.max_chars(LONGEST_ID)?;
    if text.starts_with(&format!("{prefix}_")) {
        return Ok(());
    }
    Err(RequestError::bad_request(format!(
        "Invalid '{}': '{text}'. Expected an ID that begins with '{prefix}'.",
        id.path
    ))
    .with_code("invalid_value")
    .with_param(id.path))
}

fn check_message(item: &Field<'_>) -> Result<(), RequestError> {
    item.allow_keys(&["type", "role", "content", "id", "status", "phase"])?;
    let role = item.require("role")?.one_of(&["user", "assistant", "system", "developer"])?;
    check_id(item, "msg")?;
    if let Some(phase) = item.get("phase") {
        phase.one_of(&["commentary", "final_answer"])?;
    }
    let content = item.require("content")?;
    if content.value.is_string() {
        return Ok(());
    }
    content.items()?.iter().try_for_each(|part| check_part(part, role))
}

fn check_part(part: &Field<'_>, role: &str) -> Result<(), RequestError> {
    let kinds: &[&str] = match role {
        "assistant" => &["output_text", "refusal"],
        _ => &["input_text", "input_image", "input_file"],
    };
    match part.require("type")?.one_of(kinds)? {
        "input_text" => {
            part.allow_keys(&["type", "text", "prompt_cache_breakpoint"])?;
            part.require("text")?.str().map(drop)
        }
        "output_text" => {
            part.allow_keys(&["type", "text", "annotations", "logprobs"])?;
            part.require("text")?.str().map(drop)
        }
        "refusal" => {
            part.allow_keys(&["type", "refusal"])?;
            part.require("refusal")?.str().map(drop)
        }
        "input_image" => {
            part.allow_keys(&[
                "type",
                "image_url",
                "detail",
                "file_id",
                "prompt_cache_breakpoint",
            ])?;
            let kinds = ["auto", "low", "high", "original"];
            part.get("detail").map(|detail| detail.one_of(&kinds)).transpose()?;
            image_url(&part.require("image_url")?)
        }
        _ => Ok(()),
    }
}

fn check_thought(item: &Field<'_>, is_stored: bool) -> Result<(), RequestError> {
    item.allow_keys(&["type", "id", "summary", "content", "encrypted_content", "status"])?;
    let id = item.require("id")?.str()?;
    check_id(item, "rs")?;
    for part in item.require("summary")?.items()? {
        part.allow_keys(&["type", "text"])?;
        part.require("type")?.one_of(&["summary_text"])?;
        part.require("text")?.str()?;
    }
    let Some(content) = item.get("encrypted_content") else {
        if is_stored {
            return Ok(());
        }
        return Err(RequestError::bad_request(format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try \
             again with `store` set to true, or remove this item from your input."
        ))
        .with_param("input"));
    };
    if content.str()? == encrypted(id) {
        return Ok(());
    }
    Err(RequestError::bad_request(format!(
        "The encrypted content {} could not be verified. Reason: Encrypted content could not be \
         decrypted or parsed.",
        content.str()?
    ))
    .with_code("invalid_encrypted_content"))
}

/// Checks that every call has an output after it, and every output a call before it.
fn check_pairs(items: &[Field<'_>]) -> Result<(), RequestError> {
    let mut open: Vec<&str> = vec![];
    let refuse = |message: String| Err(RequestError::bad_request(message).with_param("input"));
    for item in items {
        let id = item.value["call_id"].as_str().unwrap_or_default();
        match item.value["type"].as_str() {
            Some("function_call") => open.push(id),
            Some("function_call_output") => match open.iter().position(|call| *call == id) {
                Some(at) => _ = open.remove(at),
                None => {
                    let message = "No tool call found for function call output with call_id";
                    return refuse(format!("{message} {id}."));
                }
            },
            _ => {}
        }
    }
    match open.first() {
        Some(id) => refuse(format!("No tool output found for function call {id}.")),
        None => Ok(()),
    }
}

/// Checks that every thought stands before the item it led to.
fn check_order(items: &[Field<'_>]) -> Result<(), RequestError> {
    for (at, item) in items.iter().enumerate() {
        if item.value["type"] != "reasoning" {
            continue;
        }
        let next = items[at + 1..].iter().find(|item| item.value["type"] != "reasoning");
        let has_following_item = next.is_some_and(|next| {
            next.value["type"] == "function_call" || next.value["role"] == "assistant"
        });
        if !has_following_item {
            return Err(RequestError::bad_request(format!(
                "Item '{}' of type 'reasoning' was provided without its required following item.",
                item.value["id"].as_str().unwrap_or_default()
            ))
            .with_param("input"));
        }
    }
    Ok(())
}
