//! Reads Anthropic's events. Blocks come one after the other, each with a start and an end. Unknown
//! events, blocks and deltas are skipped.

use cotter::{
    history::message::{StopReason, Usage},
    model::Delta,
};
use serde::Deserialize;
use serde_json::Value;

use super::write::REDACTED;
use crate::{
    adapter::{Out, ReadError, Reader},
    count::Count,
    failure::ProviderError,
    input,
};

/// A reply while it is being read.
#[derive(Default)]
pub(super) struct AnthropicReader {
    usage: Usage,
    stop_reason: Option<StopReason>,
    call: Option<OpenCall>,
    signature: String,
    /// True once the reply has text.
    has_text: bool,
}

/// A call whose input is still incomplete.
struct OpenCall {
    id: String,
    name: String,
    input: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: MessageHead,
    },
    ContentBlockStart {
        content_block: BlockStart,
    },
    ContentBlockDelta {
        delta: BlockDelta,
    },
    ContentBlockStop,
    MessageDelta {
        delta: MessageDelta,
        usage: Option<AnthropicUsage>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct MessageHead {
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockStart {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockDelta {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct MessageDelta {
    stop_reason: Option<String>,
    stop_details: Option<StopDetails>,
}

/// The explanation of a refusal.
#[derive(Deserialize)]
struct StopDetails {
    explanation: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnthropicUsage {
    input_tokens: Count,
    output_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
}

impl Reader for AnthropicReader {
    fn event(&mut self, _: Option<&str>, data: &str, out: &mut Out) -> Result<(), ReadError> {
        match serde_json::from_str(data)? {
            Event::MessageStart { message } => {
                self.count(message.usage);
                if self.usage != Usage::default() {
                    out.push_back(Delta::Usage(self.usage));
                }
            }
            Event::ContentBlockStart { content_block } => self.begin_block(content_block, out),
            Event::ContentBlockDelta { delta } => self.add_delta(delta, out),
            Event::ContentBlockStop => self.finish_block(out),
            Event::MessageDelta { delta, usage } => {
                self.count(usage);
                self.stop_reason =
                    delta.stop_reason.as_deref().map(stop_reason).or(self.stop_reason);
                let explanation = delta.stop_details.and_then(|details| details.explanation);
                // A refusal may come before any text; its explanation is then the text.
                out.extend(explanation.filter(|_| !self.has_text).map(Delta::Text));
            }
            Event::MessageStop => {
                self.finish_block(out);
                let stop_reason = self.stop_reason.unwrap_or(StopReason::EndTurn);
                out.push_back(Delta::Done { stop_reason, usage: self.usage });
            }
            Event::Error { error } => return Err(ReadError::Provider(ProviderError::read(&error))),
            Event::Unknown => {}
        }
        Ok(())
    }
}

impl AnthropicReader {
    /// Counts are totals so far: the newest one replaces the older.
    fn count(&mut self, usage: Option<AnthropicUsage>) {
        let Some(usage) = usage else { return };
        let newest = |total: &mut u64, Count(count)| *total = count.unwrap_or(*total);
        newest(&mut self.usage.input_tokens, usage.input_tokens);
        newest(&mut self.usage.output_tokens, usage.output_tokens);
        newest(&mut self.usage.cache_write, usage.cache_creation_input_tokens);
        newest(&mut self.usage.cache_read, usage.cache_read_input_tokens);
    }

    fn begin_block(&mut self, block: BlockStart, out: &mut Out) {
        // Not every server sends the end of a block.
        self.finish_block(out);
        match block {
            BlockStart::Text { text } if !text.is_empty() => out.push_back(Delta::Text(text)),
            BlockStart::Thinking { thinking, signature } => {
                self.signature = signature;
                if !thinking.is_empty() {
                    out.push_back(Delta::Thinking(thinking));
                }
            }
            BlockStart::RedactedThinking { data } => self.signature = format!("{REDACTED}{data}"),
            BlockStart::ToolUse { id, name, input } => {
                let complete = input.as_object().filter(|input| !input.is_empty());
                let input = complete.map(|_| input.to_string()).unwrap_or_default();
                self.call = Some(OpenCall { id, name, input });
            }
            BlockStart::Text { .. } | BlockStart::Unknown => {}
        }
    }

    fn add_delta(&mut self, delta: BlockDelta, out: &mut Out) {
        match delta {
            BlockDelta::TextDelta { text } => {
                self.has_text |= !text.is_empty();
                out.push_back(Delta::Text(text));
            }
            BlockDelta::ThinkingDelta { thinking } => out.push_back(Delta::Thinking(thinking)),
            BlockDelta::SignatureDelta { signature } => self.signature.push_str(&signature),
            BlockDelta::InputJsonDelta { partial_json } => {
                self.call.iter_mut().for_each(|call| call.input.push_str(&partial_json));
            }
            BlockDelta::Unknown => {}
        }
    }

    fn finish_block(&mut self, out: &mut Out) {
        if !self.signature.is_empty() {
            out.push_back(Delta::Signature(std::mem::take(&mut self.signature)));
        }
        if let Some(OpenCall { id, name, input }) = self.call.take() {
            let input = input::parse(input);
            out.push_back(Delta::Call { id: id.into(), name: name.into(), input });
        }
    }
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}
