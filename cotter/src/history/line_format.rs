//! Session lines as bytes: the only place that writes and parses them.
//!
//! The keys of an envelope have a fixed order: `type`, `id`, `parentId`, `timestamp`. A long file can thus
//! be indexed by position without parsing whole lines.

use std::{fmt::Display, io::Write};

use serde::Serialize;
use serde_json::{Map, Value};
use smol_str::SmolStr;

use crate::history::{
    entry::{Compaction, Entry, EntryBody, EntryKind, SessionHeader, Timestamp},
    ledger::{DecisionRow, HandlerRun, HashChain, Record},
    message::{
        AssistantMessage, AssistantPart, Content, ContentPart, Message, Rewrite, RewriteLog,
        StopReason, ToolCall, ToolResultMessage, Usage, UserMessage, UserMessageKind,
    },
    outcome::ToolErrorKind,
};

/// Writes one JSON object, key by key.
pub(crate) struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> ObjectWriter<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        ObjectWriter { out, first: true }
    }

    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(crate) fn put(&mut self, key: &str, value: impl Serialize) -> &mut Self {
        let out = self.key(key);
        let start = out.len();
        if serde_json::to_writer(&mut *out, &value).is_err() {
            out.truncate(start);
            out.extend_from_slice(b"null");
        }
        self
    }

    pub(crate) fn put_some(&mut self, key: &str, value: Option<impl Serialize>) -> &mut Self {
        if let Some(value) = value {
            self.put(key, value);
        }
        self
    }

    /// Writes a value whose text needs no escaping.
    pub(crate) fn put_plain(&mut self, key: &str, value: impl Display) -> &mut Self {
        let out = self.key(key);
        out.push(b'"');
        let _ = write!(out, "{value}");
        out.push(b'"');
        self
    }

    pub(crate) fn nested(
        &mut self,
        key: &str,
        fill: impl FnOnce(&mut ObjectWriter<'_>),
    ) -> &mut Self {
        write_object(self.key(key), fill);
        self
    }

    /// Writes a value with a function.
    pub(crate) fn put_with(&mut self, key: &str, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.key(key));
    }

    /// Writes the keys of another object into this one.
    pub(crate) fn put_fields(&mut self, value: &impl Serialize) {
        if let Ok(Value::Object(fields)) = serde_json::to_value(value) {
            for (key, value) in &fields {
                self.put(key, value);
            }
        }
    }

    pub(crate) fn list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Vec<u8>, T),
    ) -> &mut Self {
        let out = self.key(key);
        out.push(b'[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            each(out, item);
        }
        out.push(b']');
        self
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

pub(crate) fn write_object(out: &mut Vec<u8>, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
    let mut inner = ObjectWriter::new(out);
    fill(&mut inner);
    inner.end();
}

pub(crate) fn write_header(out: &mut Vec<u8>, header: &SessionHeader) {
    write_object(out, |line| {
        line.put("type", "session").put("v", header.v).put("id", &header.id);
        line.put("cwd", &header.cwd).put_plain("createdAt", header.created_at);
        line.put("parent", &header.parent);
    });
}

#[cfg(feature = "jsonl")]
pub(crate) fn read_header(line: &[u8]) -> Option<SessionHeader> {
    let value: Value = serde_json::from_slice(line).ok()?;
    (value["type"] == "session").then_some(())?;
    Some(SessionHeader {
        // Files of other systems name this key `version` and may omit it.
        v: value["v"].as_u64().unwrap_or(1),
        id: get_text(&value, "id")?,
        cwd: value["cwd"].as_str().unwrap_or_default().into(),
        created_at: parse_timestamp(&value["createdAt"])
            .or_else(|| parse_timestamp(&value["timestamp"]))
            .unwrap_or_default(),
        parent: get_text(&value, "parent"),
    })
}

pub(crate) fn write_entry(out: &mut Vec<u8>, entry: &Entry) {
    if let Some(raw) = entry.raw() {
        out.extend_from_slice(raw.bytes());
        return;
    }
    write_object(out, |line| {
        let kind = match entry.body() {
            EntryBody::Custom(fields) => {
                fields.get("type").and_then(Value::as_str).unwrap_or("custom")
            }
            _ => entry.kind().word(),
        };
        line.put("type", kind).put("id", entry.id()).put("parentId", entry.parent_id());
        let own_timestamp = match entry.body() {
            EntryBody::Custom(fields) => fields.get("timestamp"),
            _ => None,
        };
        match own_timestamp {
            Some(timestamp) => line.put("timestamp", timestamp),
            None => line.put_plain("timestamp", entry.timestamp()),
        };
        write_body(line, entry.body());
    });
}

fn write_body(line: &mut ObjectWriter<'_>, body: &EntryBody) {
    match body {
        EntryBody::Message(message) => {
            line.nested("message", |object| write_message(object, message));
        }
        EntryBody::Compaction(compaction) => {
            line.put("summary", compaction.message.text());
            line.put("firstKeptId", &compaction.first_kept);
            line.put("tokensBefore", compaction.tokens_before);
        }
        EntryBody::ModelChange(model) => _ = line.put("model", model),
        EntryBody::ThinkingLevel(level) => _ = line.put("thinkingLevel", level),
        EntryBody::Label { target, label } => _ = line.put("targetId", target).put("label", label),
        EntryBody::SessionInfo(name) => _ = line.put("name", name),
        EntryBody::SecretRead(path) => _ = line.put("path", path),
        EntryBody::Leaf(leaf) => _ = line.put("leafId", leaf),
        EntryBody::SkillActive { name, text } => _ = line.put("name", name).put("text", text),
        EntryBody::Custom(fields) => {
            let envelope = ["type", "id", "parentId", "timestamp"];
            for (key, value) in fields.iter().filter(|(key, _)| !envelope.contains(&key.as_str())) {
                let key = serde_json::to_string(key).unwrap_or_default();
                line.put(key.get(1..key.len() - 1).unwrap_or_default(), value);
            }
        }
        EntryBody::Unreadable => {}
    }
}

/// Writes a message as in a session file.
pub(crate) fn write_message(object: &mut ObjectWriter<'_>, message: &Message) {
    match message {
        Message::User(user) => write_user(object, user),
        Message::Assistant(assistant) => write_assistant(object, assistant),
        Message::ToolResult(result) => {
            object.put("role", "toolResult").put("toolCallId", &result.call_id);
            object.put("toolName", &result.tool_name);
            write_content(object, &result.content);
            object.put("is_error", result.error.is_some());
            object.put_some("errorKind", result.error.map(ToolErrorKind::as_str));
            object.put_some("renderData", result.render_data.as_ref());
        }
    }
}

fn write_user(object: &mut ObjectWriter<'_>, user: &UserMessage) {
    object.put("role", "user");
    write_content(object, &user.content);
    match user.kind {
        UserMessageKind::Typed => {}
        UserMessageKind::SkillInjection => _ = object.put("is_skill_injection", true),
        UserMessageKind::Compaction => _ = object.put("is_compaction", true),
        UserMessageKind::Note => _ = object.put("is_note", true),
    }
    if let Some(rewritten) = &user.rewritten {
        object.put("raw", &rewritten.raw);
        object.list("rewrites", &rewritten.rewrites, |out, rewrite| {
            write_object(out, |object| {
                object.put("by", &rewrite.by).put("text", &rewrite.text);
            });
        });
    }
}

fn write_assistant(object: &mut ObjectWriter<'_>, assistant: &AssistantMessage) {
    object.put("role", "assistant");
    object.list("content", &assistant.parts, |out, part| {
        write_object(out, |object| match part {
            AssistantPart::Text(text) => _ = object.put("type", "text").put("text", text),
            AssistantPart::Thinking { text, signature } => {
                object.put("type", "thinking").put("thinking", text);
                object.put_some("signature", signature.as_ref());
            }
            AssistantPart::ToolCall(call) => {
                object.put("type", "toolCall").put("id", &call.id);
                object.put("name", &call.name).put("input", &call.input);
            }
        });
    });
    object.put("model", &assistant.model).put("usage", assistant.usage);
    object.put("stopReason", assistant.stop_reason.as_str());
}

/// Converts content to JSON as in a session file.
pub(crate) fn content_to_json(content: &Content) -> Value {
    let mut out = vec![];
    write_object(&mut out, |object| write_content(object, content));
    let mut object: Value = serde_json::from_slice(&out).unwrap_or_default();
    object["content"].take()
}

fn write_content(object: &mut ObjectWriter<'_>, content: &Content) {
    match content {
        Content::Text(text) => _ = object.put("content", text),
        Content::Parts(parts) => {
            object.list("content", parts, |out, part| {
                write_object(out, |object| match part {
                    ContentPart::Text(text) => _ = object.put("type", "text").put("text", text),
                    ContentPart::Data(text) => _ = object.put("type", "data").put("text", text),
                    ContentPart::Image { media_type, data } => {
                        object.put("type", "image").put("mediaType", media_type).put("data", data);
                    }
                });
            });
        }
    }
}

pub(crate) fn write_record(out: &mut Vec<u8>, record: &Record, chain: &mut HashChain) {
    let start = out.len();
    write_object(out, |line| {
        line.put("type", record.kind());
        write_record_body(line, record);
    });
    out.pop();
    let hash = chain.link(&out[start..]).to_owned();
    let _ = write!(out, ",\"hash\":\"{hash}\"}}");
}

fn write_record_body(line: &mut ObjectWriter<'_>, record: &Record) {
    match record {
        Record::RunStart { run, at, model, agent } => {
            line.put("runId", run).put_plain("at", at).put("model", model).put("agentId", agent);
        }
        Record::RunEnd { run, at, reason, steps, usage, cost } => {
            line.put("runId", run).put_plain("at", at).put("reason", reason.as_str());
            line.put("steps", steps).put("usage", usage).put("costUsd", cost);
        }
        Record::Generation(table) => {
            line.put("generation", table.number);
            line.list("hooks", &table.hooks, |out, hook| {
                write_object(out, |object| {
                    object.put("id", hook.id).put("name", &hook.name).put("origin", &hook.origin);
                    object.put("point", hook.point).put("power", hook.power);
                    object.put_some("tools", hook.tools.as_ref());
                    object.put_some("async", hook.detached.then_some(true));
                    object.put_some("enabled", (!hook.enabled).then_some(false));
                });
            });
        }
        Record::Question(row) => {
            line.put("runId", &row.run)
                .put_plain("at", row.at)
                .put("step", row.step)
                .put("id", &row.id);
            line.put_plain("deadline", row.deadline);
            line.list("calls", &row.calls, |out, (call, asks)| {
                write_object(out, |object| _ = object.put("callId", call).put("asks", asks));
            });
        }
        Record::Answer(row) => {
            line.put("runId", &row.run)
                .put_plain("at", row.at)
                .put("id", &row.question)
                .put("by", &row.by);
            line.list("decisions", &row.decisions, |out, (call, is_yes, comment)| {
                write_object(out, |object| {
                    object.put("callId", call).put("answer", if *is_yes { "yes" } else { "no" });
                    object.put_some("words", comment.as_ref());
                });
            });
        }
        Record::Ledger(row) => write_decision(line, row),
        Record::Outcome(row) => {
            line.put("runId", &row.run).put_plain("at", row.at).put("callId", &row.call_id);
            line.put("outcome", row.outcome)
                .put_some("errorKind", row.error.map(ToolErrorKind::as_str));
            line.put("ms", row.ms);
            write_hook_runs(line, &row.ran);
        }
        Record::HooksRan(row) => {
            line.put("runId", &row.run).put_plain("at", row.at).put("step", row.step);
            line.put("point", row.point).put_some("callId", row.call_id.as_ref());
            line.put("generation", row.generation);
            write_hook_runs(line, &row.ran);
        }
    }
}

fn write_decision(line: &mut ObjectWriter<'_>, row: &DecisionRow) {
    line.put("runId", &row.run).put_plain("at", row.at).put("step", row.step);
    line.put("callId", &row.call_id).put_some("parentCallId", row.parent_call_id.as_ref());
    line.put("tool", &row.tool).put("input", &row.input);
    line.put("verdict", row.verdict).put("by", &row.by).put_some("reason", row.reason.as_ref());
    line.put_some("approvedBy", row.approved_by.as_ref()).put("zone", row.zone);
    if !row.rewrites.is_empty() {
        line.list("rewrites", &row.rewrites, |out, (by, before, after)| {
            write_object(out, |object| {
                object.put("by", by).put("before", before).put("after", after);
            });
        });
    }
    line.put("generation", row.generation);
    write_hook_runs(line, &row.ran);
}

fn write_hook_runs(line: &mut ObjectWriter<'_>, runs: &[HandlerRun]) {
    if !runs.is_empty() {
        line.list("ran", runs, |out, run| {
            write_object(out, |object| {
                object.put("hook", run.handler.0).put("verdict", run.word).put("ns", run.nanos);
                object
                    .put_some("reason", run.reason.as_ref())
                    .put_some("stderr", run.remark.as_ref());
            });
        });
    }
}

/// The maximum nesting of a value in a line. A reader accepts 128 levels, and the line itself uses some.
const MAX_LEVELS: usize = 100;

/// True if a value is nested so deeply that its line could not be read again.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    fn exceeds(value: &Value, levels: usize) -> bool {
        let deeper = |inner: &Value| levels == 0 || exceeds(inner, levels - 1);
        match value {
            Value::Array(items) => items.iter().any(deeper),
            Value::Object(fields) => fields.values().any(deeper),
            _ => false,
        }
    }
    exceeds(value, MAX_LEVELS)
}

/// Parses an entry's line. A line that cannot be parsed gives `EntryBody::Unreadable`.
pub(crate) fn read_body(kind: EntryKind, line: &[u8]) -> (Timestamp, EntryBody) {
    let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(line) else {
        return (Timestamp::default(), EntryBody::Unreadable);
    };
    let timestamp = fields.get("timestamp").and_then(parse_timestamp).unwrap_or_default();
    let value = Value::Object(fields);
    let body = read_core_body(kind, &value).unwrap_or_else(|| match value {
        Value::Object(mut fields) if kind == EntryKind::Custom => {
            fields.shift_remove("id");
            fields.shift_remove("parentId");
            EntryBody::Custom(fields)
        }
        _ => EntryBody::Unreadable,
    });
    (timestamp, body)
}

fn read_core_body(kind: EntryKind, line: &Value) -> Option<EntryBody> {
    Some(match kind {
        EntryKind::Message => EntryBody::Message(read_message(&line["message"])?),
        EntryKind::Compaction => {
            let first =
                get_text(line, "firstKeptId").or_else(|| get_text(line, "firstKeptEntryId"));
            let tokens = line["tokensBefore"].as_u64().unwrap_or(0);
            let summary = line["summary"].as_str()?;
            EntryBody::Compaction(Box::new(Compaction::new(
                summary,
                first.unwrap_or_default(),
                tokens,
            )))
        }
        EntryKind::ModelChange => {
            EntryBody::ModelChange(get_text(line, "model").or_else(|| {
                let (provider, id) = (line["provider"].as_str()?, line["modelId"].as_str()?);
                Some(format!("{provider}/{id}").into())
            })?)
        }
        EntryKind::ThinkingLevel => EntryBody::ThinkingLevel(get_text(line, "thinkingLevel")?),
        EntryKind::Label => {
            let label = line["label"].as_str().map(str::to_owned);
            EntryBody::Label { target: get_text(line, "targetId")?, label }
        }
        EntryKind::SessionInfo => EntryBody::SessionInfo(line["name"].as_str().map(str::to_owned)),
        EntryKind::SecretRead => {
            EntryBody::SecretRead(line["path"].as_str().unwrap_or_default().into())
        }
        EntryKind::Leaf => EntryBody::Leaf(get_text(line, "leafId")),
        EntryKind::SkillActive => EntryBody::SkillActive {
            name: get_text(line, "name")?,
            text: line["text"].as_str().unwrap_or_default().into(),
        },
        EntryKind::Custom => return None,
    })
}

fn read_message(value: &Value) -> Option<Message> {
    match value["role"].as_str()? {
        "user" => Some(Message::User(read_user(value)?)),
        "assistant" => Some(Message::Assistant(read_assistant(value))),
        "toolResult" => {
            let failed = value["is_error"].as_bool().or(value["isError"].as_bool()) == Some(true);
            let kind =
                value["errorKind"].as_str().map_or(ToolErrorKind::Failed, ToolErrorKind::parse);
            Some(Message::ToolResult(ToolResultMessage {
                call_id: get_text(value, "toolCallId")?,
                tool_name: get_text(value, "toolName").unwrap_or_default(),
                content: read_content(&value["content"])?,
                error: failed.then_some(kind),
                render_data: value.get("renderData").cloned(),
            }))
        }
        _ => None,
    }
}

fn read_user(value: &Value) -> Option<UserMessage> {
    let flag = |name: &str| value[name].as_bool() == Some(true);
    let kind = if flag("is_skill_injection") {
        UserMessageKind::SkillInjection
    } else if flag("is_compaction") {
        UserMessageKind::Compaction
    } else if flag("is_note") {
        UserMessageKind::Note
    } else {
        UserMessageKind::Typed
    };
    let rewritten = value["raw"].as_str().map(|raw| {
        let rewrites = value["rewrites"].as_array().into_iter().flatten();
        let read_rewrite = |value: &Value| {
            Some(Rewrite { by: get_text(value, "by")?, text: value["text"].as_str()?.into() })
        };
        Box::new(RewriteLog {
            raw: raw.into(),
            rewrites: rewrites.filter_map(read_rewrite).collect(),
        })
    });
    Some(UserMessage { content: read_content(&value["content"])?, kind, rewritten })
}

fn read_assistant(value: &Value) -> AssistantMessage {
    let read_part = |part: &Value| {
        Some(match part["type"].as_str()? {
            "text" => AssistantPart::Text(part["text"].as_str()?.into()),
            "thinking" => AssistantPart::Thinking {
                text: part["thinking"].as_str()?.into(),
                signature: part["signature"].as_str().map(str::to_owned),
            },
            "toolCall" => AssistantPart::ToolCall(ToolCall {
                id: get_text(part, "id")?,
                name: get_text(part, "name")?,
                input: part.get("input").or(part.get("arguments"))?.clone().into(),
            }),
            _ => return None,
        })
    };
    let model = get_text(value, "model").unwrap_or_default();
    let usage = &value["usage"];
    AssistantMessage {
        parts: match &value["content"] {
            Value::String(text) => vec![AssistantPart::Text(text.clone())],
            content => content.as_array().into_iter().flatten().filter_map(read_part).collect(),
        },
        // Files of other systems store provider and model separately.
        model: match value["provider"].as_str() {
            Some(provider) => format!("{provider}/{model}").into(),
            None => model,
        },
        usage: Usage {
            input_tokens: usage["inputTokens"].as_u64().unwrap_or(0),
            output_tokens: usage["outputTokens"].as_u64().unwrap_or(0),
            cache_read: usage["cacheRead"].as_u64().unwrap_or(0),
            cache_write: usage["cacheWrite"].as_u64().unwrap_or(0),
        },
        stop_reason: StopReason::parse(value["stopReason"].as_str().unwrap_or("end_turn")),
    }
}

fn read_content(value: &Value) -> Option<Content> {
    match value {
        Value::String(text) => Some(Content::Text(text.clone())),
        Value::Array(parts) => {
            let read_part = |part: &Value| {
                Some(match part["type"].as_str()? {
                    "text" => ContentPart::Text(part["text"].as_str()?.into()),
                    "data" => ContentPart::Data(part["text"].as_str()?.into()),
                    "image" => ContentPart::Image {
                        media_type: part["mediaType"]
                            .as_str()
                            .or(part["mimeType"].as_str())?
                            .into(),
                        data: part["data"].as_str()?.into(),
                    },
                    _ => return None,
                })
            };
            Some(Content::Parts(parts.iter().filter_map(read_part).collect()))
        }
        _ => None,
    }
}

fn get_text(value: &Value, key: &str) -> Option<SmolStr> {
    value.get(key)?.as_str().map(SmolStr::from)
}

/// Parses a time from a text or from milliseconds.
pub(crate) fn parse_timestamp(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => Timestamp::parse(text),
        Value::Number(number) => number.as_u64().map(Timestamp),
        _ => None,
    }
}

/// Checks the fields of an extension's own entry. It needs a type. The core's types and keys are reserved.
pub(crate) fn check_custom(fields: &Map<String, Value>) -> Result<(), String> {
    let kind = match fields.get("type") {
        Some(Value::String(kind)) if !kind.is_empty() => kind,
        _ => return Err("Entry must have type".into()),
    };
    let is_core = kind == "session" || EntryKind::parse(kind) != EntryKind::Custom;
    if is_core || Record::KINDS.contains(&kind.as_str()) {
        return Err(format!("entry type `{kind}` is reserved"));
    }
    if fields.values().any(is_too_deep) {
        return Err(format!(
            "entry of type `{kind}` is nested too deeply: at most {MAX_LEVELS} levels"
        ));
    }
    match ["id", "parentId"].into_iter().find(|key| fields.contains_key(*key)) {
        Some(key) => Err(format!("entry key `{key}` is reserved")),
        None => Ok(()),
    }
}
