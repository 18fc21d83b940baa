//! The server side of Anthropic's Messages.
//!
//! Written from `platform.claude.com/docs/en`: `/api/messages`, `/api/errors`,
//! `/build-with-claude/streaming`, `/build-with-claude/thinking`, `/build-with-claude/prompt-caching`,
//! `/build-with-claude/preserved-thinking` and `/agents-and-tools/tool-use/handle-tool-calls`.

use cotter::{history::message::StopReason, model::ModelErrorKind};
use serde_json::{Map, Value, json};

use super::{
    Keys, ReceivedRequest, ReplyEvents, SentReply, Turn, Wire,
    answer::{Part, Reply, Thought, chunks_of_seven, words},
    check::{Field, Provider, RequestError},
    fake_signature, named_event,
};

const FIELDS: &[&str] = &[
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "cache_control",
    "stop_sequences",
    "stream",
    "metadata",
    "service_tier",
    "inference_geo",
    "container",
    "temperature",
    "top_p",
    "top_k",
];
const BETAS: &[&str] = &[
    "interleaved-thinking-2025-05-14",
    "thinking-binding-controls-2026-08-01",
    "thinking-display-updates-2026-08-18",
    "mid-conversation-output-config-2026-07-01",
];
/// The `thinking` types that models take, by name prefix; the longer prefix comes first.
const THINKING: &[(&str, &[&str])] = &[
    ("claude-fable-5", &["adaptive"]),
    ("claude-mythos-5", &["adaptive"]),
    ("claude-opus-5-5", &["adaptive"]),
    ("claude-sonnet-5-5", &["adaptive", "between_tools"]),
    ("claude-haiku-5-5", &["adaptive", "disabled"]),
    ("claude-opus-5", &["adaptive", "disabled"]),
    ("claude-sonnet-5", &["adaptive", "disabled"]),
    ("claude-opus-4-8", &["adaptive", "disabled"]),
    ("claude-opus-4-7", &["adaptive", "disabled"]),
    ("claude-opus-4-6", &["adaptive", "disabled", "enabled"]),
    ("claude-sonnet-4-6", &["adaptive", "disabled", "enabled"]),
    ("claude-opus-4-5", &["enabled", "disabled"]),
    ("claude-sonnet-4-5", &["enabled", "disabled"]),
    ("claude-haiku-4-5", &["enabled", "disabled"]),
];
const MAX_TOKENS: u64 = 128_000;
const MAX_MARKS: usize = 4;

/// The dialect.
pub(super) struct Messages;

impl Wire for Messages {
    fn base(&self) -> &'static str {
        ""
    }

    fn path(&self) -> &'static str {
        "/v1/messages"
    }

    fn check_head(&self, request: &ReceivedRequest, keys: &Keys) -> Result<(), RequestError> {
        let key = request.header("x-api-key");
        if !keys.accepts(key) {
            let message =
                if key.is_none() { "x-api-key header is required" } else { "invalid x-api-key" };
            return Err(RequestError::new(401, "authentication_error", message));
        }
        match request.header("anthropic-version") {
            Some("2023-06-01") => {}
            Some(other) => {
                let message = format!("anthropic-version: \"{other}\" is not a valid version");
                return Err(RequestError::bad_request(message));
            }
            None => return Err(RequestError::bad_request("anthropic-version: header is required")),
        }
        let betas = request.header("anthropic-beta").unwrap_or_default().split(',');
        let mut betas = betas.map(str::trim).filter(|beta| !beta.is_empty());
        match betas.find(|beta| !BETAS.contains(beta)) {
            Some(beta) => Err(RequestError::bad_request(format!(
                "Unexpected value(s) `{beta}` for the `anthropic-beta` header."
            ))),
            None => Ok(()),
        }
    }

    fn check(
        &self,
        request: &ReceivedRequest,
        body: &Value,
        sent: &[SentReply],
    ) -> Result<(), RequestError> {
        let root = Field::root(body, Provider::Anthropic);
        root.allow_keys(FIELDS)?;
        let model = root.require("model")?.str()?;
        let max_tokens = root.require("max_tokens")?;
        match max_tokens.int()? {
            0 => return Err(max_tokens.refuse("Input should be greater than or equal to 1")),
            tokens if tokens > MAX_TOKENS => {
                return Err(RequestError::bad_request(format!(
                    "max_tokens: {tokens} > {MAX_TOKENS}, which is the maximum allowed number of \
                     output tokens for {model}"
                )));
            }
            _ => {}
        }
        let mut marks = Marks::default();
        if let Some(system) = root.get("system") {
            check_system(&system, &mut marks)?;
        }
        if let Some(tools) = root.get("tools") {
            check_tools(&tools, &mut marks)?;
        }
        check_thinking(request, &root, model)?;
        if let Some(mark) = root.get("cache_control") {
            marks.add(&mark)?;
        }
        let messages = root.require("messages")?;
        let turns = check_messages(&messages, &mut marks)?;
        check_pairs(&turns)?;
        check_thoughts(&turns, &root, model, sent)?;
        marks.check()
    }

    fn reply(&self, reply: &Reply, turn: &Turn<'_>) -> ReplyEvents {
        let shows_thinking = turn.request["thinking"]["display"] != "omitted";
        let usage = reply.usage;
        let mut end_usage = json!({
            "input_tokens": usage.input_tokens,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
        });
        let mut start_usage = end_usage.clone();
        start_usage["cache_creation"] =
            json!({"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0});
        start_usage["output_tokens"] = json!(1);
        start_usage["service_tier"] = json!("standard");
        end_usage["output_tokens"] = json!(usage.output_tokens);
        let message = json!({
            "model": turn.model(),
            "id": format!("msg_{:024}", turn.number),
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": start_usage,
        });
        let mut body = vec![event("message_start", json!({"message": message}))];
        let blocks = reply.parts.iter().filter_map(|part| block(part, shows_thinking));
        for (index, (begin, deltas)) in blocks.enumerate() {
            body.push(event(
                "content_block_start",
                json!({"index": index, "content_block": begin}),
            ));
            for delta in deltas {
                body.push(event("content_block_delta", json!({"index": index, "delta": delta})));
            }
            body.push(event("content_block_stop", json!({"index": index})));
        }
        let end = match reply.error {
            Some(kind) => vec![error_event(kind)],
            None => vec![
                event("message_delta", json!({"delta": message_delta(reply), "usage": end_usage})),
                event("message_stop", json!({})),
            ],
        };
        ReplyEvents { body, end }
    }

    fn refusal(&self, error: &RequestError) -> Value {
        json!({
            "type": "error",
            "error": {"type": error.kind, "message": error.message},
            "request_id": "req_000000000000000000000001",
        })
    }

    fn failure(&self, status: u16) -> RequestError {
        let (kind, message) = match status {
            401 => ("authentication_error", "invalid x-api-key"),
            402 => ("billing_error", "There is an issue with your billing."),
            403 => ("permission_error", "Your API key does not have permission for this."),
            404 => ("not_found_error", "model: unknown"),
            409 => ("conflict_error", "The resource was changed by another request."),
            413 => ("request_too_large", "Request exceeds the maximum size"),
            429 => ("rate_limit_error", "This request would exceed your rate limit."),
            504 => ("timeout_error", "The request timed out."),
            529 => ("overloaded_error", "Overloaded"),
            500.. => ("api_error", "Internal server error"),
            _ => ("invalid_request_error", "Error"),
        };
        RequestError::new(status, kind, message)
    }

    fn ping(&self) -> String {
        event("ping", json!({}))
    }

    fn models(&self, names: &[String]) -> Value {
        let data = names.iter().map(|name| {
            json!({"type": "model", "id": name, "display_name": name,
                   "created_at": "2026-07-24T00:00:00Z"})
        });
        json!({
            "data": data.collect::<Vec<_>>(),
            "has_more": false,
            "first_id": names.first(),
            "last_id": names.last(),
        })
    }
}

/// An event whose data repeats its name.
fn event(name: &str, fields: Value) -> String {
    let mut data = Map::from_iter([("type".to_owned(), json!(name))]);
    if let Value::Object(fields) = fields {
        data.extend(fields);
    }
    named_event(name, &Value::Object(data))
}

/// The start of a block, and its deltas.
fn block(part: &Part, shows_thinking: bool) -> Option<(Value, Vec<Value>)> {
    Some(match part {
        Part::Text(text) => (
            json!({"type": "text", "text": ""}),
            words(text).map(|word| json!({"type": "text_delta", "text": word})).collect(),
        ),
        Part::Thought(Thought::Shown(text)) => {
            let text = if shows_thinking { text } else { "" };
            let pieces =
                words(text).map(|word| json!({"type": "thinking_delta", "thinking": word}));
            let signed = json!({"type": "signature_delta", "signature": signature(text)});
            (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                pieces.chain([signed]).collect(),
            )
        }
        Part::Thought(Thought::Hidden(data)) => {
            (json!({"type": "redacted_thinking", "data": redacted(data)}), vec![])
        }
        Part::Call { id, name, input } => {
            let input = if input == "{}" { "" } else { input };
            let pieces = [String::new()].into_iter().chain(chunks_of_seven(input));
            let piece = |json| json!({"type": "input_json_delta", "partial_json": json});
            (
                json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                pieces.map(piece).collect(),
            )
        }
        // A refusal is part of the final event, not a block.
        Part::Refusal(_) => return None,
    })
}

fn signature(thinking: &str) -> String {
    fake_signature("EqQBCgIYAhIM", thinking)
}

/// Encrypted thinking with a signature in it.
fn redacted(data: &str) -> String {
    format!("{}.{data}", fake_signature("EmwKAhgBEgy", data))
}

fn message_delta(reply: &Reply) -> Value {
    let reason = match reply.stop() {
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refusal => "refusal",
        _ => "end_turn",
    };
    let explanation = reply.parts.iter().find_map(|part| match part {
        Part::Refusal(text) => Some(text),
        _ => None,
    });
    let details = (reason == "refusal").then(
        || json!({"type": "refusal", "category": "general_harms", "explanation": explanation}),
    );
    json!({"stop_reason": reason, "stop_sequence": null, "stop_details": details})
}

fn error_event(kind: ModelErrorKind) -> String {
    let (word, message) = match kind {
        ModelErrorKind::Auth => ("authentication_error", "invalid x-api-key"),
        ModelErrorKind::RateLimited => ("rate_limit_error", "Rate limited"),
        ModelErrorKind::Overloaded => ("overloaded_error", "Overloaded"),
        ModelErrorKind::ContextOverflow => {
            ("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum")
        }
        ModelErrorKind::BadRequest => ("invalid_request_error", "Invalid request"),
        ModelErrorKind::Timeout => ("timeout_error", "Timed out"),
        _ => ("api_error", "Internal server error"),
    };
    event("error", json!({"error": {"type": word, "message": message}}))
}

/// The number of cache marks.
#[derive(Default)]
struct Marks(usize);

impl Marks {
    fn add(&mut self, mark: &Field<'_>) -> Result<(), RequestError> {
        mark.allow_keys(&["type", "ttl"])?;
        mark.require("type")?.one_of(&["ephemeral"])?;
        mark.get("ttl").map(|ttl| ttl.one_of(&["5m", "1h"])).transpose()?;
        self.0 += 1;
        Ok(())
    }

    fn add_of(&mut self, block: &Field<'_>) -> Result<(), RequestError> {
        block.get("cache_control").map_or(Ok(()), |mark| self.add(&mark))
    }

    fn check(&self) -> Result<(), RequestError> {
        if self.0 <= MAX_MARKS {
            return Ok(());
        }
        Err(RequestError::bad_request(format!(
            "A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {}.",
            self.0
        )))
    }
}

fn check_system(system: &Field<'_>, marks: &mut Marks) -> Result<(), RequestError> {
    if let Some(text) = system.value.as_str() {
        return check_text(text, "system");
    }
    for block in system.items()? {
        block.allow_keys(&["type", "text", "cache_control"])?;
        block.require("type")?.one_of(&["text"])?;
        check_text(block.require("text")?.str()?, "system")?;
        marks.add_of(&block)?;
    }
    Ok(())
}

fn check_text(text: &str, path: &str) -> Result<(), RequestError> {
    match text {
        "" => {
            Err(RequestError::bad_request(format!("{path}: text content blocks must be non-empty")))
        }
        text if text.trim().is_empty() => Err(RequestError::bad_request(format!(
            "{path}: text content blocks must contain non-whitespace text"
        ))),
        _ => Ok(()),
    }
}

fn check_tools(tools: &Field<'_>, marks: &mut Marks) -> Result<(), RequestError> {
    let mut names = vec![];
    for tool in tools.items()? {
        tool.allow_keys(&[
            "name",
            "description",
            "input_schema",
            "cache_control",
            "strict",
            "eager_input_streaming",
            "defer_loading",
            "input_examples",
            "type",
        ])?;
        let name = tool.require("name")?.name(64)?;
        if names.contains(&name) {
            return Err(RequestError::bad_request("tools: Tool names must be unique."));
        }
        names.push(name);
        tool.get("description").map(|text| text.str()).transpose()?;
        tool.require("input_schema")?.require("type")?.one_of(&["object"])?;
        marks.add_of(&tool)?;
    }
    Ok(())
}

fn check_thinking(
    request: &ReceivedRequest,
    root: &Field<'_>,
    model: &str,
) -> Result<(), RequestError> {
    let has_beta =
        |name: &str| request.header("anthropic-beta").is_some_and(|betas| betas.contains(name));
    let effort = match root.get("output_config") {
        Some(config) => {
            config.allow_keys(&["effort", "format"])?;
            let words = ["low", "medium", "high", "xhigh", "max"];
            config.get("effort").map(|effort| effort.one_of(&words)).transpose()?
        }
        None => None,
    };
    let has_no_effort = ["claude-sonnet-4-5", "claude-haiku-4-5"];
    if effort.is_some() && has_no_effort.iter().any(|name| model.starts_with(name)) {
        return Err(RequestError::bad_request("This model does not support the effort parameter."));
    }
    let Some(thinking) = root.get("thinking") else { return Ok(()) };
    let kinds = ["adaptive", "between_tools", "disabled", "enabled"];
    let kind = thinking.require("type")?.one_of(&kinds)?;
    let supported = THINKING.iter().find(|(name, _)| model.starts_with(name));
    if supported.is_some_and(|(_, kinds)| !kinds.contains(&kind)) {
        return Err(RequestError::bad_request(format!(
            "\"thinking.type.{kind}\" is not supported for this model."
        )));
    }
    if ["between_tools", "disabled"].contains(&kind) {
        thinking.allow_keys(&["type"])?;
        if effort.is_some_and(|effort| ["xhigh", "max"].contains(&effort)) {
            let message = format!("effort above \"high\" needs thinking, which is {kind}");
            return Err(RequestError::bad_request(message));
        }
        return Ok(());
    }
    if kind == "enabled" {
        thinking.allow_keys(&["type", "budget_tokens", "display"])?;
        let budget = thinking.require("budget_tokens")?;
        let tokens = budget.int()?;
        if tokens < 1024 {
            return Err(budget.refuse("Input should be greater than or equal to 1024"));
        }
        let max_tokens = root.require("max_tokens")?.int()?;
        if tokens >= max_tokens && !has_beta("interleaved-thinking-2025-05-14") {
            return Err(RequestError::bad_request(
                "`max_tokens` must be greater than `thinking.budget_tokens`.",
            ));
        }
    } else {
        thinking.allow_keys(&["type", "display", "block_binding"])?;
    }
    if let Some(display) = thinking.get("display") {
        display.one_of(&["summarized", "omitted", "updates"])?;
    }
    match thinking.get("block_binding") {
        Some(binding) if has_beta("thinking-binding-controls-2026-08-01") => {
            binding.allow_keys(&["prefix_mismatch_behavior"])?;
            binding.require("prefix_mismatch_behavior")?.one_of(&["error", "drop_block"])?;
            Ok(())
        }
        Some(binding) => Err(binding.refuse("Extra inputs are not permitted")),
        None => Ok(()),
    }
}

/// One turn: consecutive messages with the same role.
struct MessageTurn<'v> {
    role: &'v str,
    blocks: Vec<Field<'v>>,
}

fn check_messages<'v>(
    messages: &Field<'v>,
    marks: &mut Marks,
) -> Result<Vec<MessageTurn<'v>>, RequestError> {
    let mut turns: Vec<MessageTurn<'v>> = vec![];
    for message in messages.items()? {
        message.allow_keys(&["role", "content"])?;
        let role = message.require("role")?.one_of(&["user", "assistant"])?;
        let content = message.require("content")?;
        let blocks = if content.value.is_string() {
            check_text(content.str()?, "messages")?;
            vec![]
        } else {
            content.items()?
        };
        if blocks.is_empty() && !content.value.is_string() {
            return Err(RequestError::bad_request(format!(
                "{}: all messages must have non-empty content except for the optional final \
                 assistant message",
                message.path
            )));
        }
        for block in &blocks {
            check_block(block, role, marks)?;
        }
        match turns.last_mut() {
            Some(turn) if turn.role == role => turn.blocks.extend(blocks),
            _ => turns.push(MessageTurn { role, blocks }),
        }
    }
    match (turns.first(), turns.last()) {
        (None, _) => Err(RequestError::bad_request("messages: at least one message is required")),
        (Some(first), _) if first.role != "user" => {
            Err(RequestError::bad_request("messages: first message must use the \"user\" role"))
        }
        (_, Some(last)) if last.role != "user" => Err(RequestError::bad_request(
            "This model does not support assistant message prefill. The conversation must end with \
             a user message.",
        )),
        _ => Ok(turns),
    }
}

fn check_block(block: &Field<'_>, role: &str, marks: &mut Marks) -> Result<(), RequestError> {
    let kinds: &[&str] = match role {
        "user" => &["text", "image", "tool_result"],
        _ => &["text", "tool_use", "thinking", "redacted_thinking"],
    };
    match block.require("type")?.one_of(kinds)? {
        "text" => {
            block.allow_keys(&["type", "text", "cache_control", "citations"])?;
            check_text(block.require("text")?.str()?, "messages")?;
        }
        "image" => check_image(block)?,
        "tool_use" => {
            block.allow_keys(&["type", "id", "name", "input", "cache_control"])?;
            block.require("id")?.name(usize::MAX)?;
            block.require("name")?.name(200)?;
            block.require("input")?.object()?;
        }
        "tool_result" => check_result(block)?,
        // Thinking blocks take no cache marks.
        "thinking" => {
            block.allow_keys(&["type", "thinking", "signature"])?;
            let thinking = block.require("thinking")?.str()?;
            if block.require("signature")?.str()? != signature(thinking) {
                return Err(block.refuse("Invalid `signature` in `thinking` block"));
            }
        }
        _ => {
            block.allow_keys(&["type", "data"])?;
            let data = block.require("data")?.str()?;
            let is_ours = data.split_once('.').is_some_and(|(_, own)| redacted(own) == data);
            if !is_ours {
                return Err(block.refuse("Invalid `data` in `redacted_thinking` block"));
            }
        }
    }
    marks.add_of(block)
}

fn check_image(block: &Field<'_>) -> Result<(), RequestError> {
    block.allow_keys(&["type", "source", "cache_control"])?;
    let source = block.require("source")?;
    if source.require("type")?.one_of(&["base64", "url"])? == "url" {
        source.allow_keys(&["type", "url"])?;
        return source.require("url")?.str().map(drop);
    }
    source.allow_keys(&["type", "media_type", "data"])?;
    let kinds = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    source.require("media_type")?.one_of(&kinds)?;
    source.require("data")?.base64()
}

fn check_result(block: &Field<'_>) -> Result<(), RequestError> {
    block.allow_keys(&["type", "tool_use_id", "content", "is_error", "cache_control"])?;
    block.require("tool_use_id")?.name(usize::MAX)?;
    let is_error = block.get("is_error").map(|flag| flag.bool()).transpose()?.unwrap_or(false);
    let Some(content) = block.get("content").filter(|content| !content.value.is_string()) else {
        return Ok(());
    };
    for part in content.items()? {
        match part.require("type")?.one_of(&["text", "image"])? {
            "text" => {
                part.allow_keys(&["type", "text"])?;
                check_text(part.require("text")?.str()?, "messages")?;
            }
            _ if is_error => {
                let message = "all content must be type \"text\" if \"is_error\" is true";
                return Err(RequestError::bad_request(format!(
                    "{}.tool_result: {message}",
                    block.path
                )));
            }
            _ => check_image(&part)?,
        }
    }
    Ok(())
}

/// Checks that the results of all calls stand at the start of the next turn, and that every result
/// has a call.
fn check_pairs(turns: &[MessageTurn<'_>]) -> Result<(), RequestError> {
    let pairs = |turn: Option<&MessageTurn<'_>>, kind: &str, id: &str| -> Vec<(String, String)> {
        let blocks = turn.into_iter().flat_map(|turn| &turn.blocks);
        let blocks = blocks.filter(|block| block.value["type"] == kind);
        let pair = |block: &Field<'_>| {
            (block.value[id].as_str().unwrap_or_default().to_owned(), block.path.clone())
        };
        blocks.map(pair).collect()
    };
    let mut ids = vec![];
    for (index, turn) in turns.iter().enumerate() {
        let calls = pairs(Some(turn), "tool_use", "id");
        for (id, path) in &calls {
            if ids.contains(id) {
                let message = format!("{path}: `tool_use` ids must be unique");
                return Err(RequestError::bad_request(message));
            }
            ids.push(id.clone());
        }
        let previous = index.checked_sub(1).and_then(|previous| turns.get(previous));
        let open_calls = pairs(previous, "tool_use", "id");
        let results = pairs(Some(turn), "tool_result", "tool_use_id");
        for (at, (id, path)) in results.iter().enumerate() {
            if !open_calls.iter().any(|(call, _)| call == id) {
                return Err(RequestError::bad_request(format!(
                    "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                     `tool_result` block must have a corresponding `tool_use` block in the previous \
                     message."
                )));
            }
            if results[..at].iter().any(|(earlier, _)| earlier == id) {
                return Err(RequestError::bad_request(format!(
                    "{path}: each tool_use must have a single result. Found multiple `tool_result` \
                     blocks with id: {id}"
                )));
            }
        }
        let leading = turn.blocks.iter().take_while(|block| block.value["type"] == "tool_result");
        let is_complete = leading.count() == results.len() && results.len() == open_calls.len();
        if !is_complete {
            let open = open_calls.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(", ");
            return Err(RequestError::bad_request(format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately \
                 after: {open}. Each `tool_use` block must have a corresponding `tool_result` block \
                 in the next message.",
                index.saturating_sub(1)
            )));
        }
    }
    Ok(())
}

/// Checks that no reply ends with a thought, and that the thoughts of open calls come back
/// unchanged.
fn check_thoughts(
    turns: &[MessageTurn<'_>],
    root: &Field<'_>,
    model: &str,
    sent: &[SentReply],
) -> Result<(), RequestError> {
    let is_thought = |block: &&Field<'_>| {
        ["thinking", "redacted_thinking"].contains(&block.value["type"].as_str().unwrap_or(""))
    };
    let mut replies = turns.iter().filter(|turn| turn.role == "assistant");
    let mut ends = replies.clone().filter_map(|turn| turn.blocks.last());
    if let Some(end) = ends.find(is_thought) {
        return Err(end.refuse("The final block in an assistant message cannot be `thinking`."));
    }
    check_begins_with_thought(turns, root)?;
    let Some(last) = replies.next_back() else { return Ok(()) };
    let calls = last.blocks.iter().filter_map(|block| block.value["id"].as_str());
    let calls: Vec<&str> = calls.collect();
    let earlier = sent.iter().rev().find(|sent| {
        sent.model == model && sent.calls.iter().any(|call| calls.contains(&call.as_str()))
    });
    let thinks = root.get("thinking").is_some_and(|thinking| thinking.value["type"] != "disabled");
    let (Some(earlier), true) = (earlier, thinks) else { return Ok(()) };
    let thoughts: Vec<&Field<'_>> = last.blocks.iter().filter(is_thought).collect();
    let is_equal = |block: &Field<'_>, thought: &Thought| match thought {
        Thought::Shown(text) => {
            let back = block.value["thinking"].as_str();
            back == Some(text) || back == Some("")
        }
        Thought::Hidden(data) => block.value["data"] == redacted(data),
    };
    let all_equal = thoughts.len() == earlier.thoughts.len()
        && thoughts.iter().zip(&earlier.thoughts).all(|(block, thought)| is_equal(block, thought));
    if all_equal {
        return Ok(());
    }
    Err(last.blocks.first().map_or_else(
        || RequestError::bad_request("messages: the latest assistant message is empty"),
        |first| {
            first.refuse(
                "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
                 modified. These blocks must remain as they were in the original response.",
            )
        },
    ))
}

/// With a thinking budget, checks that the turn with the open calls begins with a thought.
fn check_begins_with_thought(
    turns: &[MessageTurn<'_>],
    root: &Field<'_>,
) -> Result<(), RequestError> {
    let has = |turn: &MessageTurn<'_>, kind: &str| {
        turn.blocks.iter().any(|block| block.value["type"] == kind)
    };
    let is_prompt = |turn: &MessageTurn<'_>| turn.role == "user" && !has(turn, "tool_result");
    let has_budget = root.get("thinking").is_some_and(|field| field.value["type"] == "enabled");
    let prompt = turns.iter().rposition(is_prompt).map_or(0, |at| at + 1);
    let current: Vec<_> = turns[prompt..].iter().filter(|turn| turn.role == "assistant").collect();
    let (Some(first), Some(last)) = (current.first(), current.last()) else { return Ok(()) };
    let begins_with_thought = |turn: &MessageTurn<'_>| {
        let first = turn.blocks.first().and_then(|block| block.value["type"].as_str());
        first.is_some_and(|kind| ["thinking", "redacted_thinking"].contains(&kind))
    };
    if !has_budget || begins_with_thought(first) || begins_with_thought(last) {
        return Ok(());
    }
    Err(RequestError::bad_request(
        "Expected `thinking` or `redacted_thinking`. When `thinking` is enabled, a final `assistant` \
         message must start with a thinking block.",
    ))
}
