//! Reads the chunks of a completion. Servers omit, repeat and move fields; each chunk is read by
//! what it contains.

use cotter::{
    history::message::{StopReason, Usage},
    model::Delta,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{
    calls::{self, Calls, Truncation},
    replay::{ReplayItem, THINKING},
};
use crate::{
    adapter::{Out, ReadError, Reader},
    count::Count,
    failure::ProviderError,
};

/// Finish reasons that mean the server failed. The request may succeed on a retry.
const FAILURE_REASONS: &[&str] =
    &["error", "abort", "network_error", "insufficient_system_resource"];

/// A reply while it is being read.
#[derive(Default)]
pub(super) struct ChatReader {
    calls: Calls,
    /// The field of the current thinking.
    thinking: Option<&'static str>,
    /// `reasoning_content` was present but empty. A provider may want the empty field back.
    has_empty_thinking: bool,
    details: Vec<Value>,
    extra: Option<Value>,
    is_refused: bool,
    finish_reason: Option<String>,
    usage: Usage,
}

#[derive(Deserialize)]
struct Chunk {
    object: Option<Value>,
    error: Option<Value>,
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    x_groq: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<ChunkDelta>,
    #[serde(default, deserialize_with = "text_or_none")]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct ChunkDelta {
    content: Option<Value>,
    #[serde(default, deserialize_with = "text_or_none")]
    refusal: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    reasoning_content: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    reasoning: Option<String>,
    reasoning_details: Option<Vec<Value>>,
    tool_calls: Option<Vec<calls::CallDelta>>,
    extra_content: Option<Value>,
}

/// Reads a text; any other value counts as missing.
fn text_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(text),
        _ => None,
    })
}

impl Reader for ChatReader {
    fn event(&mut self, name: Option<&str>, data: &str, out: &mut Out) -> Result<(), ReadError> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if data.starts_with("[DONE]") {
            self.close(out);
            return Ok(());
        }
        let chunk = match serde_json::from_str::<Chunk>(data) {
            Ok(chunk) if name != Some("error") && !chunk.is_error() => chunk,
            Ok(_) => return Err(provider_error(data)),
            Err(_) if name == Some("error") || data.starts_with('[') => {
                return Err(provider_error(data));
            }
            Err(cause) => return Err(cause.into()),
        };
        let usage = chunk.usage.or_else(|| chunk.x_groq?.get_mut("usage").map(Value::take));
        if let Some(usage) = usage.filter(Value::is_object) {
            self.usage = read_usage(&usage);
        }
        let Some(choice) = chunk.choices.and_then(|choices| choices.into_iter().next()) else {
            return Ok(());
        };
        self.add_delta(choice.delta.unwrap_or_default(), out);
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            check_finish_reason(&reason)?;
            self.finish_reason = Some(reason);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<(), ReadError> {
        // A finish reason is enough: some servers do not send `[DONE]`.
        if self.finish_reason.is_some() {
            self.close(out);
        }
        Ok(())
    }
}

impl ChatReader {
    fn add_delta(&mut self, delta: ChunkDelta, out: &mut Out) {
        self.add_thinking(&delta, out);
        for detail in delta.reasoning_details.unwrap_or_default() {
            self.add_detail(detail);
        }
        for text in texts(delta.content).chain(delta.refusal.clone()) {
            if !text.is_empty() {
                self.stop_thinking(out);
                out.push_back(Delta::Text(text));
            }
        }
        self.is_refused |= delta.refusal.is_some_and(|text| !text.is_empty());
        for call in delta.tool_calls.unwrap_or_default() {
            self.stop_thinking(out);
            self.calls.add(call);
        }
        self.extra = delta.extra_content.filter(Value::is_object).or(self.extra.take());
    }

    fn add_thinking(&mut self, delta: &ChunkDelta, out: &mut Out) {
        self.has_empty_thinking |= delta.reasoning_content.is_some();
        let fields = [&delta.reasoning_content, &delta.reasoning];
        let fields = THINKING.into_iter().zip(fields);
        let mut found = fields.filter_map(|(name, text)| Some((name, text.as_ref()?)));
        match found.find(|(_, text)| !text.is_empty()) {
            Some((name, text)) => {
                self.thinking = Some(name);
                out.push_back(Delta::Thinking(text.clone()));
            }
            None => {
                let details = delta.reasoning_details.iter().flatten();
                let text: String = details.filter_map(detail_text).collect();
                if !text.is_empty() {
                    out.push_back(Delta::Thinking(text));
                }
            }
        }
    }

    /// Ends the current thinking and records its field, so that it is sent back there. Not needed
    /// if the details are sent back.
    fn stop_thinking(&mut self, out: &mut Out) {
        let Some(field) = self.thinking.take() else { return };
        self.has_empty_thinking = false;
        if self.details.is_empty() {
            out.push_back(Delta::Signature(ReplayItem::Thinking(field).to_string()));
        }
    }

    /// Adds a piece of `reasoning_details`. Consecutive pieces of one detail are joined.
    fn add_detail(&mut self, piece: Value) {
        let same = |last: &&mut Value| {
            let id = (&last["id"], &piece["id"]);
            let has_other_id = id.0.is_string() && id.1.is_string() && id.0 != id.1;
            last.is_object()
                && last["type"] == piece["type"]
                && last["index"] == piece["index"]
                && !has_other_id
        };
        let Some(last) = self.details.last_mut().filter(same) else {
            self.details.push(piece);
            return;
        };
        let Value::Object(piece) = piece else { return };
        for (name, value) in piece {
            match (&mut last[&name], value) {
                (Value::String(so_far), Value::String(more)) if is_streamed(&name) => {
                    so_far.push_str(&more);
                }
                (slot, value) if value != Value::Null && value != "" => *slot = value,
                _ => {}
            }
        }
    }

    fn close(&mut self, out: &mut Out) {
        self.stop_thinking(out);
        let ChatReader {
            calls,
            has_empty_thinking,
            details,
            extra,
            is_refused,
            finish_reason,
            usage,
            ..
        } = std::mem::take(self);
        let (truncation, stop_reason) = match finish_reason.as_deref() {
            Some("content_filter" | "sensitive") => (Truncation::No, StopReason::Refusal),
            _ if is_refused => (Truncation::No, StopReason::Refusal),
            Some("length" | "max_tokens" | "model_length" | "model_context_window_exceeded") => {
                (Truncation::AtLength, StopReason::MaxTokens)
            }
            // A reply with calls waits for results, whatever the finish reason says.
            _ if !calls.is_empty() => (Truncation::No, StopReason::ToolUse),
            _ => (Truncation::No, StopReason::EndTurn),
        };
        let thinking = ReplayItem::Thinking(THINKING[0]);
        let details = Some(details).filter(|details| !details.is_empty());
        let items = [
            Some(thinking).filter(|_| has_empty_thinking && !calls.is_empty() && details.is_none()),
            details.map(|details| ReplayItem::Details(details.into())),
            extra.map(ReplayItem::Extra),
        ];
        out.extend(items.into_iter().flatten().map(|item| Delta::Signature(item.to_string())));
        if stop_reason != StopReason::Refusal {
            calls.end(truncation, out);
        }
        out.push_back(Delta::Done { stop_reason, usage });
    }
}

impl Chunk {
    fn is_error(&self) -> bool {
        let has_error = match &self.error {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(fields)) => !fields.is_empty(),
            Some(_) => true,
        };
        has_error || self.object.as_ref().is_some_and(|object| object == "error")
    }
}

/// The error that a server sent instead of a chunk.
fn provider_error(data: &str) -> ReadError {
    let value = serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()));
    ReadError::Provider(ProviderError::read(&value))
}

/// Fails if the finish reason says that the server gave up.
fn check_finish_reason(reason: &str) -> Result<(), ReadError> {
    let lower = reason.to_ascii_lowercase();
    // `malformed…`: the model's call was invalid, and the server sends an empty reply without it.
    if FAILURE_REASONS.contains(&lower.as_str()) || lower.contains("malformed") {
        let message = format!("the reply broke off: {reason}");
        return Err(ReadError::Provider(ProviderError::read(
            &json!({"type": "server_error", "message": message}),
        )));
    }
    Ok(())
}

fn texts(content: Option<Value>) -> impl Iterator<Item = String> {
    let parts = match content {
        Some(Value::Array(parts)) => parts,
        Some(text) => vec![text],
        None => vec![],
    };
    parts.into_iter().filter_map(|part| match part {
        Value::String(text) => Some(text),
        mut part => match part.get_mut("text").map(Value::take) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
    })
}

/// The readable text of a detail.
fn detail_text(detail: &Value) -> Option<&str> {
    detail.get("text").or_else(|| detail.get("summary"))?.as_str()
}

fn is_streamed(name: &str) -> bool {
    matches!(name, "text" | "summary" | "data")
}

/// Converts a usage: cached tokens are not input, and thinking is output even if the server's
/// output count omits it.
fn read_usage(usage: &Value) -> Usage {
    let number = |path: &str| Count::of(usage.pointer(path)?).0;
    let input = number("/prompt_tokens").unwrap_or_default();
    let output = number("/completion_tokens").unwrap_or_default();
    let rest = number("/total_tokens").unwrap_or_default().saturating_sub(input);
    let cache_read = number("/prompt_tokens_details/cached_tokens")
        .or_else(|| number("/prompt_cache_hit_tokens"))
        .unwrap_or_default();
    let cache_write = number("/prompt_tokens_details/cache_write_tokens").unwrap_or_default();
    Usage {
        input_tokens: input.saturating_sub(cache_read).saturating_sub(cache_write),
        output_tokens: output.max(rest),
        cache_read,
        cache_write,
    }
}
