//! Reads OpenAI's events. Items come one after the other, each with a start and an end; the data at
//! the end is decisive. Compatible servers omit many fields, so every field may be missing. Unknown
//! events and items are skipped.

use std::borrow::Cow;

use cotter::{
    history::message::{StopReason, Usage},
    model::Delta,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::write::{phase_signature, thought_signature};
use crate::{
    adapter::{Out, ReadError, Reader},
    count::Count,
    failure::ProviderError,
    input,
};

/// The text between two messages, or between two parts of a thought.
const SEPARATOR: &str = "\n\n";

/// A reply while it is being read.
#[derive(Default)]
pub(super) struct ResponsesReader {
    item: OpenItem,
    has_text: bool,
    has_thought: bool,
    has_call: bool,
    /// True once the end of an item was received.
    has_items: bool,
    is_refused: bool,
    /// Calls with invalid input. If the reply was truncated they are incomplete and are dropped.
    unparsed_calls: Vec<Delta>,
}

/// The item that is being streamed.
#[derive(Default)]
struct OpenItem {
    /// The phase of its text, until the text begins.
    phase: Option<String>,
    has_text: bool,
    /// The kind of its thought, and the number of the last part.
    thought: Option<(ThoughtKind, u64)>,
}

/// The kind of a thought's text. Some servers send both; the first kind is used.
#[derive(Clone, Copy, PartialEq)]
enum ThoughtKind {
    Summary,
    Full,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct DeltaEvent {
    delta: Option<String>,
    summary_index: Option<u64>,
    content_index: Option<u64>,
}

#[derive(Deserialize)]
struct ItemEvent {
    #[serde(default)]
    item: Value,
}

#[derive(Deserialize)]
struct ResponseEnd<'a> {
    #[serde(borrow)]
    response: Option<FinalResponse<'a>>,
    /// Some servers put the error here instead of into the response.
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct FinalResponse<'a> {
    status: Option<String>,
    error: Option<Value>,
    incomplete_details: Option<IncompleteDetails>,
    /// All items again.
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    usage: Option<ResponsesUsage>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponsesUsage {
    input_tokens: Count,
    output_tokens: Count,
    input_tokens_details: Option<InputTokensDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputTokensDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

impl Reader for ResponsesReader {
    fn event(&mut self, name: Option<&str>, data: &str, out: &mut Out) -> Result<(), ReadError> {
        if data.trim().is_empty() || data.starts_with("[DONE]") {
            return Ok(());
        }
        // Events repeat the request; parse only the fields that are needed.
        let Kind { kind } = serde_json::from_str(data)?;
        match kind.as_deref().or(name).unwrap_or_default() {
            "response.output_item.added" => {
                let ItemEvent { item } = serde_json::from_str(data)?;
                self.item = OpenItem { phase: phase(&item), ..OpenItem::default() };
            }
            "response.output_item.done" => {
                let ItemEvent { item } = serde_json::from_str(data)?;
                self.has_items = true;
                self.finish(&item, out)?;
            }
            "response.output_text.delta" => self.text(serde_json::from_str(data)?, out),
            "response.refusal.delta" => {
                self.is_refused = true;
                self.text(serde_json::from_str(data)?, out);
            }
            "response.reasoning_summary_text.delta" => {
                self.thought(ThoughtKind::Summary, serde_json::from_str(data)?, out);
            }
            "response.reasoning_text.delta" => {
                self.thought(ThoughtKind::Full, serde_json::from_str(data)?, out);
            }
            "error" | "response.error" => {
                return Err(ReadError::Provider(ProviderError::read(&serde_json::from_str(data)?)));
            }
            "" => {
                let event: Value = serde_json::from_str(data)?;
                if event.get("error").is_some_and(|error| !error.is_null()) {
                    return Err(ReadError::Provider(ProviderError::read(&event)));
                }
            }
            kind => {
                if let Some(end) = kind.strip_prefix("response.").filter(|word| is_end(word)) {
                    self.end_with(end, serde_json::from_str(data)?, out)?;
                }
            }
        }
        Ok(())
    }
}

impl ResponsesReader {
    fn text(&mut self, piece: DeltaEvent, out: &mut Out) {
        let Some(text) = piece.delta.filter(|text| !text.is_empty()) else { return };
        if !self.item.has_text {
            if let Some(phase) = self.item.phase.take() {
                out.push_back(Delta::Signature(phase_signature(&phase)));
            }
            if self.has_text {
                out.push_back(Delta::Text(SEPARATOR.into()));
            }
        }
        (self.item.has_text, self.has_text) = (true, true);
        out.push_back(Delta::Text(text));
    }

    fn thought(&mut self, kind: ThoughtKind, piece: DeltaEvent, out: &mut Out) {
        let Some(text) = piece.delta.filter(|text| !text.is_empty()) else { return };
        let part = piece.summary_index.or(piece.content_index).unwrap_or_default();
        match self.item.thought {
            Some((first, _)) if first != kind => return,
            Some((_, last)) if last != part => out.push_back(Delta::Thinking(SEPARATOR.into())),
            _ => {}
        }
        self.item.thought = Some((kind, part));
        self.has_thought = true;
        out.push_back(Delta::Thinking(text));
    }

    /// Reads a complete item.
    fn finish(&mut self, item: &Value, out: &mut Out) -> Result<(), ReadError> {
        match kind(item) {
            "message" => self.message(item, out),
            "reasoning" => self.reasoning(item, out),
            "function_call" => self.call(item, out)?,
            _ => {}
        }
        self.item = OpenItem::default();
        Ok(())
    }

    fn message(&mut self, item: &Value, out: &mut Out) {
        let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        self.is_refused |= parts.iter().any(|part| kind(part) == "refusal");
        if self.item.has_text {
            return;
        }
        self.item.phase = phase(item);
        for part in parts {
            let text = part["text"].as_str().or(part["refusal"].as_str()).unwrap_or_default();
            self.text(DeltaEvent::of(text.into()), out);
        }
    }

    fn reasoning(&mut self, item: &Value, out: &mut Out) {
        if self.item.thought.is_none() {
            let texts = |key: &str| -> Vec<&str> {
                let parts = item[key].as_array().map(Vec::as_slice).unwrap_or_default();
                parts.iter().filter_map(|part| part["text"].as_str()).collect()
            };
            let summary = texts("summary");
            let texts = if summary.is_empty() { texts("content") } else { summary };
            self.thought(ThoughtKind::Summary, DeltaEvent::of(texts.join(SEPARATOR)), out);
        }
        let encrypted =
            item["encrypted_content"].as_str().filter(|encrypted| !encrypted.is_empty());
        // Sign it even if it cannot be sent back: the signature separates it from the next thought.
        if encrypted.is_some() || self.item.thought.is_some() {
            self.has_thought = true;
            let id = item["id"].as_str().filter(|id| !id.is_empty());
            out.push_back(Delta::Signature(thought_signature(id, encrypted)));
        }
    }

    fn call(&mut self, item: &Value, out: &mut Out) -> Result<(), ReadError> {
        if item["status"] == "incomplete" {
            return Ok(());
        }
        let Some(name) = item["name"].as_str() else {
            return Err(ReadError::Format("a call without a name".into()));
        };
        let id = item["call_id"].as_str().or(item["id"].as_str()).unwrap_or_default();
        let input = match &item["arguments"] {
            Value::Null => json!({}),
            Value::String(text) => input::parse(text.clone()),
            parsed => parsed.clone(),
        };
        let is_unparsed = input.is_string();
        let call = Delta::Call { id: id.into(), name: name.into(), input };
        if is_unparsed {
            self.unparsed_calls.push(call);
        } else {
            self.has_call = true;
            out.push_back(call);
        }
        Ok(())
    }

    fn end_with(
        &mut self,
        status: &str,
        ending: ResponseEnd<'_>,
        out: &mut Out,
    ) -> Result<(), ReadError> {
        let response = ending.response.unwrap_or_default();
        let status = match response.status.as_deref() {
            Some(in_response) if matches!(status, "completed" | "done") => in_response,
            _ => status,
        };
        if matches!(status, "failed" | "cancelled") {
            let error = response.error.or(ending.error).unwrap_or_default();
            return Err(ReadError::Provider(ProviderError::read(&error)));
        }
        if let Some(output) = response.output.filter(|_| !self.has_items) {
            self.read_final_items(serde_json::from_str(output.get())?, out)?;
        }
        let is_truncated = status == "incomplete";
        if !is_truncated {
            self.has_call |= !self.unparsed_calls.is_empty();
            out.extend(self.unparsed_calls.drain(..));
        }
        let reason = response.incomplete_details.and_then(|details| details.reason);
        let stop_reason = match reason.as_deref() {
            Some("content_filter") if is_truncated => StopReason::Refusal,
            _ if is_truncated => StopReason::MaxTokens,
            _ if self.has_call => StopReason::ToolUse,
            _ if self.is_refused => StopReason::Refusal,
            _ => StopReason::EndTurn,
        };
        out.push_back(Delta::Done { stop_reason, usage: usage(response.usage) });
        Ok(())
    }

    /// Reads items from the final response: calls, and texts and thoughts that were not streamed.
    fn read_final_items(
        &mut self,
        items: Option<Vec<Value>>,
        out: &mut Out,
    ) -> Result<(), ReadError> {
        let (has_text, has_thought) = (self.has_text, self.has_text || self.has_thought);
        self.item = OpenItem::default();
        for item in items.unwrap_or_default() {
            let was_streamed = match kind(&item) {
                "message" => has_text,
                "reasoning" => has_thought,
                _ => false,
            };
            if !was_streamed {
                self.finish(&item, out)?;
            }
        }
        Ok(())
    }
}

impl DeltaEvent {
    fn of(text: String) -> Self {
        DeltaEvent { delta: Some(text), summary_index: None, content_index: None }
    }
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or_default()
}

fn phase(item: &Value) -> Option<String> {
    item["phase"].as_str().map(str::to_owned)
}

fn is_end(word: &str) -> bool {
    matches!(word, "completed" | "done" | "incomplete" | "failed" | "cancelled")
}

/// Converts a usage: the server's input count includes cached tokens.
fn usage(usage: Option<ResponsesUsage>) -> Usage {
    let Some(usage) = usage else { return Usage::default() };
    let cached = usage.input_tokens_details.unwrap_or_default();
    let (cache_read, cache_write) =
        (cached.cached_tokens.or_zero(), cached.cache_write_tokens.or_zero());
    let input = usage.input_tokens.or_zero();
    Usage {
        input_tokens: input.saturating_sub(cache_read).saturating_sub(cache_write),
        output_tokens: usage.output_tokens.or_zero(),
        cache_read,
        cache_write,
    }
}
