//! Anthropic's Messages, from the side that answers.
//!
//! Written from `platform.claude.com/docs/en`: `/api/messages`, `/api/errors`,
//! `/build-with-claude/streaming`, `/build-with-claude/thinking`, `/build-with-claude/prompt-caching`,
//! `/build-with-claude/preserved-thinking` and `/agents-and-tools/tool-use/handle-tool-calls`.

use cotter::{history::message::StopReason, model::ModelErrorKind};
use serde_json::{Map, Value, json};

use super::{
    Keys, Received, Rendered, Told, Turn, Wire,
    answer::{Part, Reply, Thought, bits, words},
    check::{House, Refused, Spot},
    named_event, seal,
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
/// The ways in which models may be told to think; the longer beginning of a name stands first.
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
const MOST_TOKENS: u64 = 128_000;
const MOST_MARKS: usize = 4;

/// The dialect.
pub(super) struct Messages;

impl Wire for Messages {
    fn base(&self) -> &'static str {
        ""
    }

    fn path(&self) -> &'static str {
        "/v1/messages"
    }

    fn check_head(&self, request: &Received, keys: &Keys) -> Result<(), Refused> {
        let key = request.header("x-api-key");
        if !keys.admit(key) {
            let message =
                if key.is_none() { "x-api-key header is required" } else { "invalid x-api-key" };
            return Err(Refused::new(401, "authentication_error", message));
        }
        match request.header("anthropic-version") {
            Some("2023-06-01") => {}
            Some(other) => {
                let message = format!("anthropic-version: \"{other}\" is not a valid version");
                return Err(Refused::bad(message));
            }
            None => return Err(Refused::bad("anthropic-version: header is required")),
        }
        let betas = request.header("anthropic-beta").unwrap_or_default().split(',');
        let mut betas = betas.map(str::trim).filter(|beta| !beta.is_empty());
        match betas.find(|beta| !BETAS.contains(beta)) {
            Some(beta) => Err(Refused::bad(format!(
                "Unexpected value(s) `{beta}` for the `anthropic-beta` header."
            ))),
            None => Ok(()),
        }
    }

    fn check(&self, request: &Received, body: &Value, told: &[Told]) -> Result<(), Refused> {
        let root = Spot::root(body, House::Anthropic);
        root.only(FIELDS)?;
        let model = root.need("model")?.str()?;
        let most = root.need("max_tokens")?;
        match most.int()? {
            0 => return Err(most.refuse("Input should be greater than or equal to 1")),
            tokens if tokens > MOST_TOKENS => {
                return Err(Refused::bad(format!(
                    "max_tokens: {tokens} > {MOST_TOKENS}, which is the maximum allowed number of \
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
        let messages = root.need("messages")?;
        let turns = check_messages(&messages, &mut marks)?;
        check_pairs(&turns)?;
        check_thoughts(&turns, &root, model, told)?;
        marks.check()
    }

    fn reply(&self, reply: &Reply, turn: &Turn<'_>) -> Rendered {
        let shows = turn.request["thinking"]["display"] != "omitted";
        let usage = reply.usage;
        let mut counted = json!({
            "input_tokens": usage.input_tokens,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
        });
        let mut begun = counted.clone();
        begun["cache_creation"] =
            json!({"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0});
        begun["output_tokens"] = json!(1);
        begun["service_tier"] = json!("standard");
        counted["output_tokens"] = json!(usage.output_tokens);
        let message = json!({
            "model": turn.model(),
            "id": format!("msg_{:024}", turn.number),
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": begun,
        });
        let mut said = vec![event("message_start", json!({"message": message}))];
        let blocks = reply.parts.iter().filter_map(|part| block(part, shows));
        for (index, (begin, deltas)) in blocks.enumerate() {
            said.push(event(
                "content_block_start",
                json!({"index": index, "content_block": begin}),
            ));
            for delta in deltas {
                said.push(event("content_block_delta", json!({"index": index, "delta": delta})));
            }
            said.push(event("content_block_stop", json!({"index": index})));
        }
        let end = match reply.error {
            Some(kind) => vec![failed(kind)],
            None => vec![
                event("message_delta", json!({"delta": ending(reply), "usage": counted})),
                event("message_stop", json!({})),
            ],
        };
        Rendered { said, end }
    }

    fn refusal(&self, refused: &Refused) -> Value {
        json!({
            "type": "error",
            "error": {"type": refused.kind, "message": refused.message},
            "request_id": "req_000000000000000000000001",
        })
    }

    fn failure(&self, status: u16) -> Refused {
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
        Refused::new(status, kind, message)
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

/// An event whose data begins with its name.
fn event(name: &str, fields: Value) -> String {
    let mut data = Map::from_iter([("type".to_owned(), json!(name))]);
    if let Value::Object(fields) = fields {
        data.extend(fields);
    }
    named_event(name, &Value::Object(data))
}

/// How a block begins, and its deltas.
fn block(part: &Part, shows: bool) -> Option<(Value, Vec<Value>)> {
    Some(match part {
        Part::Text(text) => (
            json!({"type": "text", "text": ""}),
            words(text).map(|word| json!({"type": "text_delta", "text": word})).collect(),
        ),
        Part::Thought(Thought::Shown(text)) => {
            let text = if shows { text } else { "" };
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
            let pieces = [String::new()].into_iter().chain(bits(input));
            let piece = |json| json!({"type": "input_json_delta", "partial_json": json});
            (
                json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                pieces.map(piece).collect(),
            )
        }
        // It is told in the end, not in a block.
        Part::Refusal(_) => return None,
    })
}

fn signature(thinking: &str) -> String {
    seal("EqQBCgIYAhIM", thinking)
}

/// What hidden thinking looks like, with its own seal.
fn redacted(data: &str) -> String {
    format!("{}.{data}", seal("EmwKAhgBEgy", data))
}

fn ending(reply: &Reply) -> Value {
    let reason = match reply.stop() {
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refusal => "refusal",
        _ => "end_turn",
    };
    let explanation = reply.parts.iter().find_map(|part| match part {
        Part::Refusal(words) => Some(words),
        _ => None,
    });
    let details = (reason == "refusal").then(
        || json!({"type": "refusal", "category": "general_harms", "explanation": explanation}),
    );
    json!({"stop_reason": reason, "stop_sequence": null, "stop_details": details})
}

fn failed(kind: ModelErrorKind) -> String {
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

/// Cache marks, counted.
#[derive(Default)]
struct Marks(usize);

impl Marks {
    fn add(&mut self, mark: &Spot<'_>) -> Result<(), Refused> {
        mark.only(&["type", "ttl"])?;
        mark.need("type")?.one_of(&["ephemeral"])?;
        mark.get("ttl").map(|ttl| ttl.one_of(&["5m", "1h"])).transpose()?;
        self.0 += 1;
        Ok(())
    }

    fn of(&mut self, block: &Spot<'_>) -> Result<(), Refused> {
        block.get("cache_control").map_or(Ok(()), |mark| self.add(&mark))
    }

    fn check(&self) -> Result<(), Refused> {
        if self.0 <= MOST_MARKS {
            return Ok(());
        }
        Err(Refused::bad(format!(
            "A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {}.",
            self.0
        )))
    }
}

fn check_system(system: &Spot<'_>, marks: &mut Marks) -> Result<(), Refused> {
    if let Some(text) = system.value.as_str() {
        return check_text(text, "system");
    }
    for block in system.items()? {
        block.only(&["type", "text", "cache_control"])?;
        block.need("type")?.one_of(&["text"])?;
        check_text(block.need("text")?.str()?, "system")?;
        marks.of(&block)?;
    }
    Ok(())
}

fn check_text(text: &str, place: &str) -> Result<(), Refused> {
    match text {
        "" => Err(Refused::bad(format!("{place}: text content blocks must be non-empty"))),
        text if text.trim().is_empty() => Err(Refused::bad(format!(
            "{place}: text content blocks must contain non-whitespace text"
        ))),
        _ => Ok(()),
    }
}

fn check_tools(tools: &Spot<'_>, marks: &mut Marks) -> Result<(), Refused> {
    let mut names = vec![];
    for tool in tools.items()? {
        tool.only(&[
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
        let name = tool.need("name")?.name(64)?;
        if names.contains(&name) {
            return Err(Refused::bad("tools: Tool names must be unique."));
        }
        names.push(name);
        tool.get("description").map(|words| words.str()).transpose()?;
        tool.need("input_schema")?.need("type")?.one_of(&["object"])?;
        marks.of(&tool)?;
    }
    Ok(())
}

fn check_thinking(request: &Received, root: &Spot<'_>, model: &str) -> Result<(), Refused> {
    let has_beta =
        |name: &str| request.header("anthropic-beta").is_some_and(|betas| betas.contains(name));
    let effort = match root.get("output_config") {
        Some(config) => {
            config.only(&["effort", "format"])?;
            let words = ["low", "medium", "high", "xhigh", "max"];
            config.get("effort").map(|effort| effort.one_of(&words)).transpose()?
        }
        None => None,
    };
    let has_no_effort = ["claude-sonnet-4-5", "claude-haiku-4-5"];
    if effort.is_some() && has_no_effort.iter().any(|name| model.starts_with(name)) {
        return Err(Refused::bad("This model does not support the effort parameter."));
    }
    let Some(thinking) = root.get("thinking") else { return Ok(()) };
    let kinds = ["adaptive", "between_tools", "disabled", "enabled"];
    let kind = thinking.need("type")?.one_of(&kinds)?;
    let known = THINKING.iter().find(|(name, _)| model.starts_with(name));
    if known.is_some_and(|(_, kinds)| !kinds.contains(&kind)) {
        return Err(Refused::bad(format!(
            "\"thinking.type.{kind}\" is not supported for this model."
        )));
    }
    if ["between_tools", "disabled"].contains(&kind) {
        thinking.only(&["type"])?;
        if effort.is_some_and(|effort| ["xhigh", "max"].contains(&effort)) {
            let message = format!("effort above \"high\" needs thinking, which is {kind}");
            return Err(Refused::bad(message));
        }
        return Ok(());
    }
    if kind == "enabled" {
        thinking.only(&["type", "budget_tokens", "display"])?;
        let budget = thinking.need("budget_tokens")?;
        let tokens = budget.int()?;
        if tokens < 1024 {
            return Err(budget.refuse("Input should be greater than or equal to 1024"));
        }
        let most = root.need("max_tokens")?.int()?;
        if tokens >= most && !has_beta("interleaved-thinking-2025-05-14") {
            return Err(Refused::bad(
                "`max_tokens` must be greater than `thinking.budget_tokens`.",
            ));
        }
    } else {
        thinking.only(&["type", "display", "block_binding"])?;
    }
    if let Some(display) = thinking.get("display") {
        display.one_of(&["summarized", "omitted", "updates"])?;
    }
    match thinking.get("block_binding") {
        Some(binding) if has_beta("thinking-binding-controls-2026-08-01") => {
            binding.only(&["prefix_mismatch_behavior"])?;
            binding.need("prefix_mismatch_behavior")?.one_of(&["error", "drop_block"])?;
            Ok(())
        }
        Some(binding) => Err(binding.refuse("Extra inputs are not permitted")),
        None => Ok(()),
    }
}

/// Messages of one role in a row are one turn.
struct Turns<'v> {
    role: &'v str,
    blocks: Vec<Spot<'v>>,
}

fn check_messages<'v>(messages: &Spot<'v>, marks: &mut Marks) -> Result<Vec<Turns<'v>>, Refused> {
    let mut turns: Vec<Turns<'v>> = vec![];
    for message in messages.items()? {
        message.only(&["role", "content"])?;
        let role = message.need("role")?.one_of(&["user", "assistant"])?;
        let content = message.need("content")?;
        let blocks = if content.value.is_string() {
            check_text(content.str()?, "messages")?;
            vec![]
        } else {
            content.items()?
        };
        if blocks.is_empty() && !content.value.is_string() {
            return Err(Refused::bad(format!(
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
            _ => turns.push(Turns { role, blocks }),
        }
    }
    match (turns.first(), turns.last()) {
        (None, _) => Err(Refused::bad("messages: at least one message is required")),
        (Some(first), _) if first.role != "user" => {
            Err(Refused::bad("messages: first message must use the \"user\" role"))
        }
        (_, Some(last)) if last.role != "user" => Err(Refused::bad(
            "This model does not support assistant message prefill. The conversation must end with \
             a user message.",
        )),
        _ => Ok(turns),
    }
}

fn check_block(block: &Spot<'_>, role: &str, marks: &mut Marks) -> Result<(), Refused> {
    let kinds: &[&str] = match role {
        "user" => &["text", "image", "tool_result"],
        _ => &["text", "tool_use", "thinking", "redacted_thinking"],
    };
    match block.need("type")?.one_of(kinds)? {
        "text" => {
            block.only(&["type", "text", "cache_control", "citations"])?;
            check_text(block.need("text")?.str()?, "messages")?;
        }
        "image" => check_image(block)?,
        "tool_use" => {
            block.only(&["type", "id", "name", "input", "cache_control"])?;
            block.need("id")?.name(usize::MAX)?;
            block.need("name")?.name(200)?;
            block.need("input")?.object()?;
        }
        "tool_result" => check_result(block)?,
        // No marks on what was thought.
        "thinking" => {
            block.only(&["type", "thinking", "signature"])?;
            let thinking = block.need("thinking")?.str()?;
            if block.need("signature")?.str()? != signature(thinking) {
                return Err(block.refuse("Invalid `signature` in `thinking` block"));
            }
        }
        _ => {
            block.only(&["type", "data"])?;
            let data = block.need("data")?.str()?;
            let is_ours = data.split_once('.').is_some_and(|(_, own)| redacted(own) == data);
            if !is_ours {
                return Err(block.refuse("Invalid `data` in `redacted_thinking` block"));
            }
        }
    }
    marks.of(block)
}

fn check_image(block: &Spot<'_>) -> Result<(), Refused> {
    block.only(&["type", "source", "cache_control"])?;
    let source = block.need("source")?;
    if source.need("type")?.one_of(&["base64", "url"])? == "url" {
        source.only(&["type", "url"])?;
        return source.need("url")?.str().map(drop);
    }
    source.only(&["type", "media_type", "data"])?;
    let kinds = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    source.need("media_type")?.one_of(&kinds)?;
    source.need("data")?.base64()
}

fn check_result(block: &Spot<'_>) -> Result<(), Refused> {
    block.only(&["type", "tool_use_id", "content", "is_error", "cache_control"])?;
    block.need("tool_use_id")?.name(usize::MAX)?;
    let is_error = block.get("is_error").map(|flag| flag.bool()).transpose()?.unwrap_or(false);
    let Some(content) = block.get("content").filter(|content| !content.value.is_string()) else {
        return Ok(());
    };
    for part in content.items()? {
        match part.need("type")?.one_of(&["text", "image"])? {
            "text" => {
                part.only(&["type", "text"])?;
                check_text(part.need("text")?.str()?, "messages")?;
            }
            _ if is_error => {
                let message = "all content must be type \"text\" if \"is_error\" is true";
                return Err(Refused::bad(format!("{}.tool_result: {message}", block.path)));
            }
            _ => check_image(&part)?,
        }
    }
    Ok(())
}

/// Every call has its result at the beginning of the turn that follows, and no result is anybody
/// else's.
fn check_pairs(turns: &[Turns<'_>]) -> Result<(), Refused> {
    let of = |turn: Option<&Turns<'_>>, kind: &str, id: &str| -> Vec<(String, String)> {
        let blocks = turn.into_iter().flat_map(|turn| &turn.blocks);
        let blocks = blocks.filter(|block| block.value["type"] == kind);
        let pair = |block: &Spot<'_>| {
            (block.value[id].as_str().unwrap_or_default().to_owned(), block.path.clone())
        };
        blocks.map(pair).collect()
    };
    let mut seen = vec![];
    for (index, turn) in turns.iter().enumerate() {
        let calls = of(Some(turn), "tool_use", "id");
        for (id, path) in &calls {
            if seen.contains(id) {
                let message = format!("{path}: `tool_use` ids must be unique");
                return Err(Refused::bad(message));
            }
            seen.push(id.clone());
        }
        let before = index.checked_sub(1).and_then(|before| turns.get(before));
        let asked = of(before, "tool_use", "id");
        let results = of(Some(turn), "tool_result", "tool_use_id");
        for (at, (id, path)) in results.iter().enumerate() {
            if !asked.iter().any(|(call, _)| call == id) {
                return Err(Refused::bad(format!(
                    "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                     `tool_result` block must have a corresponding `tool_use` block in the previous \
                     message."
                )));
            }
            if results[..at].iter().any(|(earlier, _)| earlier == id) {
                return Err(Refused::bad(format!(
                    "{path}: each tool_use must have a single result. Found multiple `tool_result` \
                     blocks with id: {id}"
                )));
            }
        }
        let leading = turn.blocks.iter().take_while(|block| block.value["type"] == "tool_result");
        let is_whole = leading.count() == results.len() && results.len() == asked.len();
        if !is_whole {
            let open = asked.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(", ");
            return Err(Refused::bad(format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately \
                 after: {open}. Each `tool_use` block must have a corresponding `tool_result` block \
                 in the next message.",
                index.saturating_sub(1)
            )));
        }
    }
    Ok(())
}

/// What was thought comes before something that was said, and comes back as it was while its calls are
/// being answered.
fn check_thoughts(
    turns: &[Turns<'_>],
    root: &Spot<'_>,
    model: &str,
    told: &[Told],
) -> Result<(), Refused> {
    let is_thought = |block: &&Spot<'_>| {
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
    let said = told.iter().rev().find(|told| {
        told.model == model && told.calls.iter().any(|call| calls.contains(&call.as_str()))
    });
    let thinks = root.get("thinking").is_some_and(|thinking| thinking.value["type"] != "disabled");
    let (Some(said), true) = (said, thinks) else { return Ok(()) };
    let thoughts: Vec<&Spot<'_>> = last.blocks.iter().filter(is_thought).collect();
    let is_same = |block: &Spot<'_>, thought: &Thought| match thought {
        Thought::Shown(text) => {
            let back = block.value["thinking"].as_str();
            back == Some(text) || back == Some("")
        }
        Thought::Hidden(data) => block.value["data"] == redacted(data),
    };
    let same = thoughts.len() == said.thoughts.len()
        && thoughts.iter().zip(&said.thoughts).all(|(block, thought)| is_same(block, thought));
    if same {
        return Ok(());
    }
    Err(last.blocks.first().map_or_else(
        || Refused::bad("messages: the latest assistant message is empty"),
        |first| {
            first.refuse(
                "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
                 modified. These blocks must remain as they were in the original response.",
            )
        },
    ))
}

/// A model with a budget that is between its calls has begun them with a thought.
fn check_begins_with_thought(turns: &[Turns<'_>], root: &Spot<'_>) -> Result<(), Refused> {
    let has = |turn: &Turns<'_>, kind: &str| turn.blocks.iter().any(|it| it.value["type"] == kind);
    let is_prompt = |turn: &Turns<'_>| turn.role == "user" && !has(turn, "tool_result");
    let has_budget = root.get("thinking").is_some_and(|it| it.value["type"] == "enabled");
    let prompt = turns.iter().rposition(is_prompt).map_or(0, |at| at + 1);
    let under_way: Vec<_> =
        turns[prompt..].iter().filter(|turn| turn.role == "assistant").collect();
    let (Some(first), Some(last)) = (under_way.first(), under_way.last()) else { return Ok(()) };
    let begins = |turn: &Turns<'_>| {
        let first = turn.blocks.first().and_then(|block| block.value["type"].as_str());
        first.is_some_and(|kind| ["thinking", "redacted_thinking"].contains(&kind))
    };
    if !has_budget || begins(first) || begins(last) {
        return Ok(());
    }
    Err(Refused::bad(
        "Expected `thinking` or `redacted_thinking`. When `thinking` is enabled, a final `assistant` \
         message must start with a thinking block.",
    ))
}
