//! Messages as Anthropic wants them: turns of content blocks, the person's and the model's by turns,
//! results first in the turn after their calls.

use cotter::message::{
    AssistantMessage, AssistantPart, Content, Part, ToolCall, ToolResultMessage,
};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::{body::put, conversation::Writer};

/// What marks a signature that stands for thinking the provider does not show.
pub(super) const REDACTED: &str = "redacted:";

/// Turns in the making. A turn is closed by whatever comes after it, so that messages that follow
/// each other in the same role are one.
#[derive(Clone, PartialEq)]
pub(super) struct Turns {
    model: SmolStr,
    open: Option<Role>,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    User,
    Assistant,
}

impl Turns {
    pub(super) fn new(model: SmolStr) -> Self {
        Turns { model, open: None }
    }

    /// What closes the last turn.
    pub(super) fn closing(&self) -> &'static str {
        if self.open.is_some() { "]}" } else { "" }
    }

    fn block(&mut self, out: &mut Vec<u8>, role: Role, block: &Value) {
        let between = match (self.open, role) {
            (Some(open), role) if open == role => ",",
            (None, Role::User) => r#"{"role":"user","content":["#,
            (None, Role::Assistant) => r#"{"role":"assistant","content":["#,
            (Some(_), Role::User) => r#"]},{"role":"user","content":["#,
            (Some(_), Role::Assistant) => r#"]},{"role":"assistant","content":["#,
        };
        out.extend_from_slice(between.as_bytes());
        put(out, block);
        self.open = Some(role);
    }
}

impl Writer for Turns {
    fn user(&mut self, out: &mut Vec<u8>, content: &Content) {
        for block in blocks(content) {
            self.block(out, Role::User, &block);
        }
    }

    fn assistant(&mut self, out: &mut Vec<u8>, reply: &AssistantMessage) {
        if self.open.is_none() {
            // The first turn is the person's.
            self.block(out, Role::User, &text("(The conversation goes on.)"));
        }
        let is_own = reply.model == self.model;
        for part in &reply.parts {
            let block = match part {
                AssistantPart::Text(words) if is_blank(words) => continue,
                AssistantPart::Text(words) => text(words),
                AssistantPart::Thinking { text, signature: Some(signature) } if is_own => {
                    match signature.strip_prefix(REDACTED) {
                        Some(data) => json!({"type": "redacted_thinking", "data": data}),
                        None => {
                            json!({"type": "thinking", "thinking": text, "signature": signature})
                        }
                    }
                }
                // What another model thought, or nobody signed, is refused.
                AssistantPart::Thinking { .. } => continue,
                AssistantPart::ToolCall(call) => tool_use(call),
                _ => continue,
            };
            self.block(out, Role::Assistant, &block);
        }
    }

    fn result(&mut self, out: &mut Vec<u8>, result: &ToolResultMessage) {
        let mut block = json!({
            "type": "tool_result",
            "tool_use_id": id(&result.call_id),
        });
        match &result.content {
            Content::Text(text) if is_blank(text) => {}
            Content::Text(text) => block["content"] = json!(text),
            content => block["content"] = blocks(content).collect(),
        }
        if result.error.is_some() {
            block["is_error"] = json!(true);
        }
        self.block(out, Role::User, &block);
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool_use(call: &ToolCall) -> Value {
    // What could not be parsed was answered with an error; an object is wanted all the same.
    let input = match &*call.input {
        input @ Value::Object(_) => input.clone(),
        other => json!({"unparsed": other}),
    };
    json!({"type": "tool_use", "id": id(&call.id), "name": call.name, "input": input})
}

/// An id of another provider's in letters this one takes. Calls and results are changed alike.
fn id(id: &str) -> String {
    let allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    id.chars().map(|char| if allowed(char) { char } else { '_' }).collect()
}

/// Content as blocks; blank texts are refused, so they are left out.
fn blocks(content: &Content) -> impl Iterator<Item = Value> {
    let whole = match content {
        Content::Text(words) => Some(words.as_str()),
        Content::Parts(_) => None,
    };
    let parts = match content {
        Content::Text(_) => &[],
        Content::Parts(parts) => parts.as_slice(),
    };
    let whole = whole.filter(|words| !is_blank(words)).map(text);
    whole.into_iter().chain(parts.iter().filter_map(|part| match part {
        Part::Image { media_type, data } => Some(json!({
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": data},
        })),
        part => part.as_text().filter(|words| !is_blank(words)).map(text),
    }))
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
