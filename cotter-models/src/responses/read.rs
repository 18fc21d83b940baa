//! OpenAI's events. Items come one after the other, each with a beginning and an end; what its end
//! says counts. Compatible servers leave out half of it, so every field may be missing, and unknown
//! events and items are passed over.

use std::borrow::Cow;

use cotter::{
    history::message::{StopReason, Usage},
    model::Delta,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::write::{signed_phase, signed_thought};
use crate::{
    adapter::{Out, ReadError, Reader},
    count::Count,
    failure::ProviderError,
    input,
};

/// What stands between two messages, or two parts of a thought.
const APART: &str = "\n\n";

/// An answer as it comes.
#[derive(Default)]
pub(super) struct ResponsesReader {
    item: UnderWay,
    has_text: bool,
    has_thought: bool,
    has_call: bool,
    /// Whether the end of some item was told.
    has_items: bool,
    is_refused: bool,
    /// Calls whose input cannot be parsed: cut off, if the reply was.
    halves: Vec<Delta>,
}

/// The item under way.
#[derive(Default)]
struct UnderWay {
    /// What its text is meant as, until there is some.
    phase: Option<String>,
    has_text: bool,
    /// Whose words its thoughts are in, and the number of the part the last were of.
    thought: Option<(Words, u64)>,
}

/// Some servers give both: what was given first is enough.
#[derive(Clone, Copy, PartialEq)]
enum Words {
    Summary,
    Own,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct OutputItem {
    delta: Option<String>,
    summary_index: Option<u64>,
    content_index: Option<u64>,
}

#[derive(Deserialize)]
struct OfItem {
    #[serde(default)]
    item: Value,
}

#[derive(Deserialize)]
struct ResponseEnd<'a> {
    #[serde(borrow)]
    response: Option<Ended<'a>>,
    /// Where some put what others have within the response.
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Ended<'a> {
    status: Option<String>,
    error: Option<Value>,
    incomplete_details: Option<IncompleteDetails>,
    /// All of it once more.
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
    input_tokens_details: Option<Cached>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cached {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

impl Reader for ResponsesReader {
    fn event(&mut self, name: Option<&str>, data: &str, out: &mut Out) -> Result<(), ReadError> {
        if data.trim().is_empty() || data.starts_with("[DONE]") {
            return Ok(());
        }
        // The answer repeats the request more than once: only what is needed of it is read.
        let Kind { kind } = serde_json::from_str(data)?;
        match kind.as_deref().or(name).unwrap_or_default() {
            "response.output_item.added" => {
                let OfItem { item } = serde_json::from_str(data)?;
                self.item = UnderWay { phase: phase(&item), ..UnderWay::default() };
            }
            "response.output_item.done" => {
                let OfItem { item } = serde_json::from_str(data)?;
                self.has_items = true;
                self.finish(&item, out)?;
            }
            "response.output_text.delta" => self.text(serde_json::from_str(data)?, out),
            "response.refusal.delta" => {
                self.is_refused = true;
                self.text(serde_json::from_str(data)?, out);
            }
            "response.reasoning_summary_text.delta" => {
                self.thought(Words::Summary, serde_json::from_str(data)?, out);
            }
            "response.reasoning_text.delta" => {
                self.thought(Words::Own, serde_json::from_str(data)?, out);
            }
            "error" | "response.error" => {
                return Err(ReadError::Said(ProviderError::read(&serde_json::from_str(data)?)));
            }
            "" => {
                let event: Value = serde_json::from_str(data)?;
                if event.get("error").is_some_and(|error| !error.is_null()) {
                    return Err(ReadError::Said(ProviderError::read(&event)));
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
    fn text(&mut self, piece: OutputItem, out: &mut Out) {
        let Some(text) = piece.delta.filter(|text| !text.is_empty()) else { return };
        if !self.item.has_text {
            if let Some(phase) = self.item.phase.take() {
                out.push_back(Delta::Signature(signed_phase(&phase)));
            }
            if self.has_text {
                out.push_back(Delta::Text(APART.into()));
            }
        }
        (self.item.has_text, self.has_text) = (true, true);
        out.push_back(Delta::Text(text));
    }

    fn thought(&mut self, words: Words, piece: OutputItem, out: &mut Out) {
        let Some(text) = piece.delta.filter(|text| !text.is_empty()) else { return };
        let part = piece.summary_index.or(piece.content_index).unwrap_or_default();
        match self.item.thought {
            Some((first, _)) if first != words => return,
            Some((_, last)) if last != part => out.push_back(Delta::Thinking(APART.into())),
            _ => {}
        }
        self.item.thought = Some((words, part));
        self.has_thought = true;
        out.push_back(Delta::Thinking(text));
    }

    /// An item is whole.
    fn finish(&mut self, item: &Value, out: &mut Out) -> Result<(), ReadError> {
        match kind(item) {
            "message" => self.message(item, out),
            "reasoning" => self.reasoning(item, out),
            "function_call" => self.call(item, out)?,
            _ => {}
        }
        self.item = UnderWay::default();
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
            self.text(OutputItem::of(text.into()), out);
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
            self.thought(Words::Summary, OutputItem::of(texts.join(APART)), out);
        }
        let sealed = item["encrypted_content"].as_str().filter(|sealed| !sealed.is_empty());
        // Even what cannot be sent back is signed: what comes next is another thought.
        if sealed.is_some() || self.item.thought.is_some() {
            self.has_thought = true;
            let id = item["id"].as_str().filter(|id| !id.is_empty());
            out.push_back(Delta::Signature(signed_thought(id, sealed)));
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
            whole => whole.clone(),
        };
        let is_half = input.is_string();
        let call = Delta::Call { id: id.into(), name: name.into(), input };
        if is_half {
            self.halves.push(call);
        } else {
            self.has_call = true;
            out.push_back(call);
        }
        Ok(())
    }

    fn end_with(
        &mut self,
        word: &str,
        ending: ResponseEnd<'_>,
        out: &mut Out,
    ) -> Result<(), ReadError> {
        let ended = ending.response.unwrap_or_default();
        let word = match ended.status.as_deref() {
            Some(status) if matches!(word, "completed" | "done") => status,
            _ => word,
        };
        if matches!(word, "failed" | "cancelled") {
            let error = ended.error.or(ending.error).unwrap_or_default();
            return Err(ReadError::Said(ProviderError::read(&error)));
        }
        if let Some(output) = ended.output.filter(|_| !self.has_items) {
            self.make_up(serde_json::from_str(output.get())?, out)?;
        }
        let is_cut = word == "incomplete";
        if !is_cut {
            self.has_call |= !self.halves.is_empty();
            out.extend(self.halves.drain(..));
        }
        let why = ended.incomplete_details.and_then(|cut| cut.reason);
        let stop_reason = match why.as_deref() {
            Some("content_filter") if is_cut => StopReason::Refusal,
            _ if is_cut => StopReason::MaxTokens,
            _ if self.has_call => StopReason::ToolUse,
            _ if self.is_refused => StopReason::Refusal,
            _ => StopReason::EndTurn,
        };
        out.push_back(Delta::Done { stop_reason, usage: usage(ended.usage) });
        Ok(())
    }

    /// Takes from the end what no item told before: calls, and whatever was not heard in pieces.
    fn make_up(&mut self, items: Option<Vec<Value>>, out: &mut Out) -> Result<(), ReadError> {
        let (has_text, has_thought) = (self.has_text, self.has_text || self.has_thought);
        self.item = UnderWay::default();
        for item in items.unwrap_or_default() {
            let is_heard = match kind(&item) {
                "message" => has_text,
                "reasoning" => has_thought,
                _ => false,
            };
            if !is_heard {
                self.finish(&item, out)?;
            }
        }
        Ok(())
    }
}

impl OutputItem {
    fn of(text: String) -> Self {
        OutputItem { delta: Some(text), summary_index: None, content_index: None }
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

/// What was read from the cache or written to it is counted in what was read.
fn usage(counted: Option<ResponsesUsage>) -> Usage {
    let Some(counted) = counted else { return Usage::default() };
    let cached = counted.input_tokens_details.unwrap_or_default();
    let (cache_read, cache_write) =
        (cached.cached_tokens.or_none(), cached.cache_write_tokens.or_none());
    let input = counted.input_tokens.or_none();
    Usage {
        input_tokens: input.saturating_sub(cache_read).saturating_sub(cache_write),
        output_tokens: counted.output_tokens.or_none(),
        cache_read,
        cache_write,
    }
}
