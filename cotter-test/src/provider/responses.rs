//! OpenAI's Responses, from the side that answers.
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
    Keys, Received, Rendered, Told, Turn, Wire,
    answer::{Part, Reply, Thought, bits, words},
    chat,
    check::{House, Refused, Spot, image_url},
    named_event, seal,
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
const FEWEST_TOKENS: u64 = 16;

/// The dialect.
pub(super) struct Responses;

impl Wire for Responses {
    fn base(&self) -> &'static str {
        "/v1"
    }

    fn path(&self) -> &'static str {
        "/responses"
    }

    fn check_head(&self, request: &Received, keys: &Keys) -> Result<(), Refused> {
        chat::check_bearer(request, keys)
    }

    fn check(&self, _: &Received, body: &Value, _: &[Told]) -> Result<(), Refused> {
        let root = Spot::root(body, House::OpenAi);
        root.only(FIELDS)?;
        let model = root.need("model")?.str()?;
        root.get("instructions").map(|words| words.str()).transpose()?;
        for flag in ["store", "parallel_tool_calls"] {
            root.get(flag).map(|flag| flag.bool()).transpose()?;
        }
        root.get("prompt_cache_key").map(|key| key.short(64)).transpose()?;
        if let Some(options) = root.get("stream_options") {
            options.only(&["include_obfuscation"])?;
        }
        for include in root.get("include").map_or(Ok(vec![]), |include| include.items())? {
            include.one_of(INCLUDES)?;
        }
        if let Some(most) = root.get("max_output_tokens") {
            let tokens = most.int()?;
            if tokens < FEWEST_TOKENS {
                return Err(Refused::bad(format!(
                    "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= \
                     {FEWEST_TOKENS}, but got {tokens} instead."
                ))
                .with_code("integer_below_min_value")
                .with_param("max_output_tokens"));
            }
        }
        check_tools(&root)?;
        check_reasoning(&root, model)?;
        let input = root.need("input")?;
        if input.value.is_string() {
            return Ok(());
        }
        let items = input.items()?;
        let kept = root.get("store").is_none_or(|store| store.value == true);
        for item in &items {
            check_item(item, kept)?;
        }
        check_pairs(&items)?;
        check_order(&items)
    }

    fn reply(&self, reply: &Reply, turn: &Turn<'_>) -> Rendered {
        let mut telling = Telling::of(turn);
        telling.say("response.created", json!({"response": telling.response("in_progress")}));
        telling.say("response.in_progress", json!({"response": telling.response("in_progress")}));
        let is_cut = reply.stop() == StopReason::MaxTokens;
        for (index, part) in reply.parts.iter().enumerate() {
            let is_last = index + 1 == reply.parts.len();
            telling.part(part, if is_cut && is_last { "incomplete" } else { "completed" });
        }
        let said = std::mem::take(&mut telling.events);
        telling.end(reply);
        Rendered { said, end: telling.events }
    }

    fn refusal(&self, refused: &Refused) -> Value {
        chat::refusal(refused)
    }

    fn failure(&self, status: u16) -> Refused {
        chat::failure(status)
    }

    fn ping(&self) -> String {
        ": keep-alive\n\n".to_owned()
    }

    fn models(&self, names: &[String]) -> Value {
        chat::models(names)
    }
}

/// A stream in the making.
struct Telling<'r> {
    turn: &'r Turn<'r>,
    events: Vec<String>,
    /// How many events there were.
    count: usize,
    /// What the response consists of so far.
    output: Vec<Value>,
}

impl<'r> Telling<'r> {
    fn of(turn: &'r Turn<'r>) -> Self {
        Telling { turn, events: vec![], count: 0, output: vec![] }
    }

    fn say(&mut self, name: &str, fields: Value) {
        let mut data = json!({"type": name, "sequence_number": self.count});
        if let (Some(data), Value::Object(fields)) = (data.as_object_mut(), fields) {
            data.extend(fields);
        }
        let hides = self.turn.request["stream_options"]["include_obfuscation"] != false;
        if hides && name.ends_with(".delta") {
            data["obfuscation"] = json!("8LmeBsRtk");
        }
        self.events.push(named_event(name, &data));
        self.count += 1;
    }

    /// The whole response as it stands.
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
        self.say("response.output_item.done", json!({"output_index": index, "item": item}));
        self.output.push(item);
    }

    /// The id of the item in the making.
    fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{:024}{:08}", self.turn.number, self.output.len())
    }

    /// Text, or words of refusal: the same events under other names.
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
        let begun = item("in_progress", vec![]);
        self.say("response.output_item.added", json!({"output_index": index, "item": begun}));
        let at = |more: Value| {
            let mut fields = json!({"item_id": id, "output_index": index, "content_index": 0});
            if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
                fields.extend(more);
            }
            fields
        };
        self.say("response.content_part.added", at(json!({"part": part("")})));
        for word in words(text) {
            self.say(&format!("response.{kind}.delta"), at(json!({"delta": word})));
        }
        self.say(&format!("response.{kind}.done"), at(json!({field: text})));
        self.say("response.content_part.done", at(json!({"part": part(text)})));
        item(status, vec![part(text)])
    }

    fn call(&mut self, call_id: &str, name: &str, input: &str, status: &str) -> Value {
        let (id, index) = (self.id("fc"), self.output.len());
        let item = |status: &str, input: &str| {
            json!({"id": id, "type": "function_call", "status": status, "arguments": input,
                   "call_id": call_id, "name": name})
        };
        let begun = item("in_progress", "");
        self.say("response.output_item.added", json!({"output_index": index, "item": begun}));
        for bit in bits(input) {
            let fields = json!({"item_id": id, "output_index": index, "delta": bit});
            self.say("response.function_call_arguments.delta", fields);
        }
        let fields = json!({"item_id": id, "output_index": index, "arguments": input});
        self.say("response.function_call_arguments.done", fields);
        item(status, input)
    }

    fn thought(&mut self, thought: &Thought) -> Value {
        let (id, index) = (self.id("rs"), self.output.len());
        let wants = !self.turn.request["reasoning"]["summary"].is_null();
        let summary = match thought {
            Thought::Shown(text) if wants => text.as_str(),
            _ => "",
        };
        let whole = |text: &str| json!({"type": "summary_text", "text": text});
        let item = |summary: Vec<Value>| {
            json!({"id": id, "type": "reasoning", "encrypted_content": encrypted(&id),
                   "summary": summary})
        };
        let begun = item(vec![]);
        self.say("response.output_item.added", json!({"output_index": index, "item": begun}));
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
        self.say("response.reasoning_summary_part.added", at(json!({"part": whole("")})));
        for word in words(summary) {
            self.say("response.reasoning_summary_text.delta", at(json!({"delta": word})));
        }
        self.say("response.reasoning_summary_text.done", at(json!({"text": summary})));
        self.say("response.reasoning_summary_part.done", at(json!({"part": whole(summary)})));
        item(vec![whole(summary)])
    }

    fn end(&mut self, reply: &Reply) {
        if let Some(kind) = reply.error {
            let error = chat::failed(kind);
            self.say("error", json!({"error": error}));
            let mut response = self.response("failed");
            response["error"] = json!({"code": word(kind), "message": error["message"]});
            return self.say("response.failed", json!({"response": response}));
        }
        let filtered = reply.stop() == StopReason::Refusal
            && !reply
                .parts
                .iter()
                .any(|part| matches!(part, Part::Refusal(words) if !words.is_empty()));
        let reason = match reply.stop() {
            StopReason::MaxTokens => Some("max_output_tokens"),
            _ if filtered => Some("content_filter"),
            _ => None,
        };
        let status = if reason.is_some() { "incomplete" } else { "completed" };
        let mut response = self.response(status);
        response["incomplete_details"] = reason.map_or(Value::Null, |why| json!({"reason": why}));
        response["usage"] = usage(&reply.usage);
        self.say(&format!("response.{status}"), json!({"response": response}));
    }
}

/// The word of a response that failed.
fn word(kind: ModelErrorKind) -> &'static str {
    match kind {
        ModelErrorKind::RateLimited => "rate_limit_exceeded",
        ModelErrorKind::Overloaded => "server_is_overloaded",
        ModelErrorKind::ContextOverflow => "context_length_exceeded",
        ModelErrorKind::BadRequest => "invalid_prompt",
        _ => "server_error",
    }
}

/// What only the provider can read of its thinking.
fn encrypted(id: &str) -> String {
    seal("gAAAAAB", id)
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

fn check_tools(root: &Spot<'_>) -> Result<(), Refused> {
    for tool in root.get("tools").map_or(Ok(vec![]), |tools| tools.items())? {
        tool.only(&["type", "name", "description", "parameters", "strict"])?;
        tool.need("type")?.one_of(&["function"])?;
        let name = tool.need("name")?;
        name.name(usize::MAX)?;
        name.short(128)?;
        tool.get("description").map(|words| words.str()).transpose()?;
        let schema = tool.need("parameters")?;
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

fn check_reasoning(root: &Spot<'_>, model: &str) -> Result<(), Refused> {
    let never_thinks = chat::efforts(model).is_some_and(<[&str]>::is_empty);
    let Some(reasoning) = root.get("reasoning") else { return Ok(()) };
    if never_thinks {
        return Err(Refused::bad(
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        )
        .with_code("unsupported_parameter")
        .with_param("reasoning.effort"));
    }
    reasoning.only(&["effort", "summary", "context", "mode", "generate_summary"])?;
    reasoning.get("effort").map(|effort| chat::check_effort(&effort, model)).transpose()?;
    let kinds = ["auto", "concise", "detailed"];
    reasoning.get("summary").map(|summary| summary.one_of(&kinds)).transpose()?;
    Ok(())
}

fn check_item(item: &Spot<'_>, is_kept: bool) -> Result<(), Refused> {
    let kinds = ["message", "reasoning", "function_call", "function_call_output"];
    let kind = item.get("type").map_or(Ok("message"), |kind| kind.one_of(&kinds))?;
    match kind {
        "message" => check_message(item),
        "function_call" => {
            item.only(&["type", "id", "call_id", "name", "arguments", "status", "namespace"])?;
            item.need("call_id")?.short(LONGEST_ID)?;
            let name = item.need("name")?;
            name.name(usize::MAX)?;
            name.short(128)?;
            item.need("arguments")?.str()?;
            check_id(item, "fc")
        }
        "function_call_output" => {
            item.only(&["type", "id", "call_id", "output", "status"])?;
            item.need("call_id")?.short(LONGEST_ID)?;
            let output = item.need("output")?;
            if output.value.is_string() {
                return Ok(());
            }
            output.items()?.iter().try_for_each(|part| check_part(part, "user"))
        }
        _ => check_thought(item, is_kept),
    }
}

fn check_id(item: &Spot<'_>, prefix: &str) -> Result<(), Refused> {
    let Some(id) = item.get("id") else { return Ok(()) };
    let word = id.short(LONGEST_ID)?;
    if word.starts_with(&format!("{prefix}_")) {
        return Ok(());
    }
    Err(Refused::bad(format!(
        "Invalid '{}': '{word}'. Expected an ID that begins with '{prefix}'.",
        id.path
    ))
    .with_code("invalid_value")
    .with_param(id.path))
}

fn check_message(item: &Spot<'_>) -> Result<(), Refused> {
    item.only(&["type", "role", "content", "id", "status", "phase"])?;
    let role = item.need("role")?.one_of(&["user", "assistant", "system", "developer"])?;
    check_id(item, "msg")?;
    if let Some(phase) = item.get("phase") {
        phase.one_of(&["commentary", "final_answer"])?;
    }
    let content = item.need("content")?;
    if content.value.is_string() {
        return Ok(());
    }
    content.items()?.iter().try_for_each(|part| check_part(part, role))
}

fn check_part(part: &Spot<'_>, role: &str) -> Result<(), Refused> {
    let kinds: &[&str] = match role {
        "assistant" => &["output_text", "refusal"],
        _ => &["input_text", "input_image", "input_file"],
    };
    match part.need("type")?.one_of(kinds)? {
        "input_text" => {
            part.only(&["type", "text", "prompt_cache_breakpoint"])?;
            part.need("text")?.str().map(drop)
        }
        "output_text" => {
            part.only(&["type", "text", "annotations", "logprobs"])?;
            part.need("text")?.str().map(drop)
        }
        "refusal" => {
            part.only(&["type", "refusal"])?;
            part.need("refusal")?.str().map(drop)
        }
        "input_image" => {
            part.only(&["type", "image_url", "detail", "file_id", "prompt_cache_breakpoint"])?;
            let kinds = ["auto", "low", "high", "original"];
            part.get("detail").map(|detail| detail.one_of(&kinds)).transpose()?;
            image_url(&part.need("image_url")?)
        }
        _ => Ok(()),
    }
}

fn check_thought(item: &Spot<'_>, is_kept: bool) -> Result<(), Refused> {
    item.only(&["type", "id", "summary", "content", "encrypted_content", "status"])?;
    let id = item.need("id")?.str()?;
    check_id(item, "rs")?;
    for part in item.need("summary")?.items()? {
        part.only(&["type", "text"])?;
        part.need("type")?.one_of(&["summary_text"])?;
        part.need("text")?.str()?;
    }
    let Some(content) = item.get("encrypted_content") else {
        if is_kept {
            return Ok(());
        }
        return Err(Refused::bad(format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try \
             again with `store` set to true, or remove this item from your input."
        ))
        .with_param("input"));
    };
    if content.str()? == encrypted(id) {
        return Ok(());
    }
    Err(Refused::bad(format!(
        "The encrypted content {} could not be verified. Reason: Encrypted content could not be \
         decrypted or parsed.",
        content.str()?
    ))
    .with_code("invalid_encrypted_content"))
}

/// Every call has an output after it, every output a call before it.
fn check_pairs(items: &[Spot<'_>]) -> Result<(), Refused> {
    let mut open: Vec<&str> = vec![];
    let refused = |message: String| Err(Refused::bad(message).with_param("input"));
    for item in items {
        let id = item.value["call_id"].as_str().unwrap_or_default();
        match item.value["type"].as_str() {
            Some("function_call") => open.push(id),
            Some("function_call_output") => match open.iter().position(|call| *call == id) {
                Some(at) => _ = open.remove(at),
                None => {
                    let message = "No tool call found for function call output with call_id";
                    return refused(format!("{message} {id}."));
                }
            },
            _ => {}
        }
    }
    match open.first() {
        Some(id) => refused(format!("No tool output found for function call {id}.")),
        None => Ok(()),
    }
}

/// What was thought stands before what it led to.
fn check_order(items: &[Spot<'_>]) -> Result<(), Refused> {
    for (at, item) in items.iter().enumerate() {
        if item.value["type"] != "reasoning" {
            continue;
        }
        let next = items[at + 1..].iter().find(|item| item.value["type"] != "reasoning");
        let is_led_to = next.is_some_and(|next| {
            next.value["type"] == "function_call" || next.value["role"] == "assistant"
        });
        if !is_led_to {
            return Err(Refused::bad(format!(
                "Item '{}' of type 'reasoning' was provided without its required following item.",
                item.value["id"].as_str().unwrap_or_default()
            ))
            .with_param("input"));
        }
    }
    Ok(())
}
