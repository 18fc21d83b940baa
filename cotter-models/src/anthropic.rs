//! Anthropic's Messages dialect: the body and the headers of a request.
//!
//! Order of the body: tools, system prompt, messages. The provider's cache reads them in this
//! order. Cache marks stand at three places: the end of the system prompt, the message before this
//! request's notes, and the end of the previous request. The last one is needed because the
//! provider looks back only a limited number of blocks.

mod read;
mod write;

use bytes::Bytes;
use cotter::{
    Message,
    model::{Request, Thinking, tools::ToolList},
};
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use smol_str::SmolStr;

use self::{read::AnthropicReader, write::AnthropicWriter};
use crate::{
    adapter::{Dialect, Reader},
    body::{Body, put},
    catalog::{Effort, ModelFacts, ThinkingControl},
    conversation::{self, WrittenConversation},
    http::header,
    plain,
};

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// The reply limit if neither the caller nor the catalogue has one.
const DEFAULT_MAX_TOKENS: u64 = 32_000;
/// The highest default for the reply limit.
const MAX_DEFAULT_TOKENS: u64 = 64_000;

const BINDING: &str = "thinking-binding-controls-2026-08-01";
const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";

/// The dialect of one model.
pub(crate) struct Messages {
    /// `provider/model`. Replies of this model carry this name in the session.
    name: SmolStr,
    /// The provider's own name of the model.
    model: String,
    facts: ModelFacts,
    /// The cache key: everything that the cached bytes of messages and tools depend on.
    key: String,
}

impl Messages {
    pub(crate) fn new(name: SmolStr, model: &str, facts: ModelFacts) -> Self {
        let key = format!("anthropic {name}");
        Messages { name, model: model.to_owned(), facts, key }
    }

    /// The body before the first message.
    fn head(&self, request: &Request, mark: &str) -> Body {
        let mut body = Body::default();
        body.text(r#"{"model":"#).json(&self.model);
        if !request.tools.is_empty() {
            let tools: &Bytes = request.tools.memoize(&self.key, |tools| tools_json(tools).into());
            body.text(r#","tools":"#).shared(tools.clone());
        }
        if !request.system.trim().is_empty() {
            body.text(r#","system":[{"type":"text","text":"#).json(&*request.system);
            body.text(mark).text("}]");
        }
        body.text(r#","messages":["#);
        body
    }

    fn write(&self, request: &Request) -> WrittenConversation<AnthropicWriter> {
        conversation::write(&request.messages, &self.key, AnthropicWriter::new(self.name.clone()))
    }

    /// The `thinking` setting and the effort word for this request.
    fn thinking(
        &self,
        request: &Request,
        may_think: impl FnOnce() -> bool,
    ) -> (Option<Value>, Option<&'static str>) {
        let is_off = request.thinking == Thinking::Off;
        let adaptive = || {
            let display = if is_off { "omitted" } else { "summarized" };
            let mut adaptive = json!({"type": "adaptive", "display": display});
            if self.facts.is_bound {
                adaptive["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
            }
            adaptive
        };
        match (self.facts.thinking_control, is_off) {
            (ThinkingControl::Disabled, true) => (Some(json!({"type": "disabled"})), None),
            (ThinkingControl::Always, true) => (Some(adaptive()), Some("low")),
            (_, true) | (ThinkingControl::None | ThinkingControl::Effort, _) => (None, None),
            (ThinkingControl::Budget, false) => {
                let budget = budget(request.thinking);
                let enabled = || json!({"type": "enabled", "budget_tokens": budget});
                (may_think().then(enabled), None)
            }
            (_, false) => {
                let effort = self.facts.effort(request.thinking).map(|effort| match effort {
                    Effort::None | Effort::Minimal => Effort::Low,
                    effort => effort,
                });
                (Some(adaptive()), effort.map(Effort::as_str))
            }
        }
    }

    fn settings(&self, request: &Request, writer: &AnthropicWriter) -> Value {
        let default =
            self.facts.max_output.map_or(DEFAULT_MAX_TOKENS, |max| max.min(MAX_DEFAULT_TOKENS));
        let max_tokens = request.max_tokens.map_or(default, u64::from);
        let mut settings = json!({"max_tokens": max_tokens, "stream": true});
        let (thinking, effort) = self.thinking(request, || writer.may_think());
        if let Some(thinking) = thinking {
            if let Some(budget) = thinking["budget_tokens"].as_u64() {
                // The thinking budget counts against the reply limit, so the reply gets room beside
                // it.
                settings["max_tokens"] = json!(max_tokens.max(budget + 1024));
            }
            settings["thinking"] = thinking;
        }
        if let Some(effort) = effort {
            settings["output_config"] = json!({"effort": effort});
        }
        settings
    }
}

impl Dialect for Messages {
    fn path(&self) -> &'static str {
        "v1/messages"
    }

    fn headers(&self, headers: &mut HeaderMap, request: &Request) {
        let (thinking, _) = self.thinking(request, || self.write(request).writer.may_think());
        let beta = match thinking {
            // Hooks, compaction and new tools change the messages before a thought. With this flag
            // the provider then drops the thought instead of failing the request.
            Some(thinking) if !thinking["block_binding"].is_null() => BINDING,
            Some(thinking) if !thinking["budget_tokens"].is_null() => INTERLEAVED,
            _ => return,
        };
        header(headers, "anthropic-beta", HeaderValue::from_static(beta));
    }

    fn body(&self, request: &Request) -> Body {
        let written = self.write(request);
        let marks = marks(request, &written);
        let mut body = self.head(request, MARK);
        for (index, piece) in written.pieces.iter().enumerate() {
            let mut start = 0;
            for (_, end) in marks.iter().filter(|(piece, _)| *piece == index) {
                // The mark goes inside the last part, before its closing brace.
                body.shared(piece.bytes.slice(start..end - 1)).text(MARK);
                start = end - 1;
            }
            body.shared(piece.bytes.slice(start..));
        }
        body.text(written.writer.closing()).text("]");
        let settings = self.settings(request, &written.writer).to_string();
        body.text(",").text(settings.trim_start_matches('{'));
        body
    }

    fn prefix(&self, request: &Request) -> Body {
        let mut body = self.head(request, "");
        self.write(request).pieces.iter().for_each(|piece| _ = body.shared(piece.bytes.clone()));
        body
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(AnthropicReader::default())
    }
}

/// The positions of the cache marks, in order: the end of the last message of the previous request,
/// and the end of the message before this request's notes.
fn marks(request: &Request, written: &WrittenConversation<AnthropicWriter>) -> Vec<(usize, usize)> {
    let can_carry_mark = |message: &Message| !matches!(message, Message::Assistant(_));
    let newest = request.notes;
    let mut older = request.messages.iter().rev().enumerate().skip(newest + 1);
    let reply = older.by_ref().find(|(_, message)| !can_carry_mark(message));
    let previous_end = reply.and_then(|_| older.find(|(_, message)| can_carry_mark(message)));
    let is_markable =
        |back: &usize| request.messages.iter().rev().nth(*back).is_some_and(can_carry_mark);
    let marked =
        previous_end.map(|(back, _)| back).into_iter().chain(Some(newest).filter(is_markable));
    marked.filter_map(|back| written.end_of(back)).collect()
}

/// The thinking budget in tokens, for models that take one.
fn budget(level: Thinking) -> u64 {
    match level {
        Thinking::Off | Thinking::Minimal => 1024,
        Thinking::Low => 4096,
        Thinking::Medium => 10_240,
        _ => 24_576,
    }
}

fn tools_json(tools: &ToolList) -> Vec<u8> {
    let tools = tools.specs().map(|spec| {
        json!({"name": plain::name(&spec.name), "description": spec.description, "input_schema": spec.schema})
    });
    let mut out = vec![];
    put(&mut out, &tools.collect::<Vec<_>>());
    out
}
