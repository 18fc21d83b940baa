//! Anthropic's Messages: what a request looks like, and what its head carries.
//!
//! Tools, then the system prompt, then messages: the order in which the provider's cache reads them.
//! Marks stand at the end of the system prompt, before this request's notes, and where the request
//! before this one ended: the provider looks back only so far.

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
    catalog::{Effort, Known, Thinks},
    conversation::{self, WrittenConversation},
    http::header,
    plain,
};

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// The most tokens of a reply, where neither the caller nor the catalogue says.
const MAX_TOKENS: u64 = 32_000;
/// A longer reply has to be asked for.
const LONGEST: u64 = 64_000;

const BINDING: &str = "thinking-binding-controls-2026-08-01";
const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";

/// The dialect of one model.
pub(crate) struct Messages {
    /// `provider/model`: what replies of this model are signed with in the session.
    name: SmolStr,
    /// The provider's own name for it.
    model: String,
    known: Known,
    /// Everything that what is kept with messages and tools depends on.
    key: String,
}

impl Messages {
    pub(crate) fn new(name: SmolStr, model: &str, known: Known) -> Self {
        let key = format!("anthropic {name}");
        Messages { name, model: model.to_owned(), known, key }
    }

    /// Everything before the conversation.
    fn head(&self, request: &Request, mark: &str) -> Body {
        let mut body = Body::default();
        body.text(r#"{"model":"#).json(&self.model);
        if !request.tools.is_empty() {
            let tools: &Bytes = request.tools.keep(&self.key, |tools| tools_json(tools).into());
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

    /// How the model is told how hard to think: what it may do, and the word for how hard.
    fn thinking(
        &self,
        request: &Request,
        may_think: impl FnOnce() -> bool,
    ) -> (Option<Value>, Option<&'static str>) {
        let is_off = request.thinking == Thinking::Off;
        let adaptive = || {
            let display = if is_off { "omitted" } else { "summarized" };
            let mut adaptive = json!({"type": "adaptive", "display": display});
            if self.known.is_bound {
                adaptive["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
            }
            adaptive
        };
        match (self.known.thinks, is_off) {
            (Thinks::Disabled, true) => (Some(json!({"type": "disabled"})), None),
            (Thinks::Always, true) => (Some(adaptive()), Some("low")),
            (_, true) | (Thinks::None | Thinks::Effort, _) => (None, None),
            (Thinks::Budget, false) => {
                let budget = budget(request.thinking);
                let enabled = || json!({"type": "enabled", "budget_tokens": budget});
                (may_think().then(enabled), None)
            }
            (_, false) => {
                let effort = self.known.effort(request.thinking).map(|effort| match effort {
                    Effort::None | Effort::Minimal => Effort::Low,
                    effort => effort,
                });
                (Some(adaptive()), effort.map(Effort::as_str))
            }
        }
    }

    fn settings(&self, request: &Request, turns: &AnthropicWriter) -> Value {
        let usual = self.known.max_output.map_or(MAX_TOKENS, |most| most.min(LONGEST));
        let max_tokens = request.max_tokens.map_or(usual, u64::from);
        let mut settings = json!({"max_tokens": max_tokens, "stream": true});
        let (thinking, effort) = self.thinking(request, || turns.may_think());
        if let Some(thinking) = thinking {
            if let Some(budget) = thinking["budget_tokens"].as_u64() {
                // It counts against the reply, which needs room beside it.
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
            // Hooks, compaction and new tools change what stands before a thought; it is then left out
            // instead of being an error.
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
                // The mark goes inside the last part, before what closes it.
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

/// Where marks go, in order: the ends of the message before this request's notes, and of the last one
/// that the request before this one had.
fn marks(request: &Request, written: &WrittenConversation<AnthropicWriter>) -> Vec<(usize, usize)> {
    let can_bear = |message: &Message| !matches!(message, Message::Assistant(_));
    let newest = request.notes;
    let mut older = request.messages.iter().rev().enumerate().skip(newest + 1);
    let reply = older.by_ref().find(|(_, message)| !can_bear(message));
    let before = reply.and_then(|_| older.find(|(_, message)| can_bear(message)));
    let is_markable = |back: &usize| request.messages.iter().rev().nth(*back).is_some_and(can_bear);
    let marked = before.map(|(back, _)| back).into_iter().chain(Some(newest).filter(is_markable));
    marked.filter_map(|back| written.end_of(back)).collect()
}

/// How many tokens a model that counts them may think.
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
