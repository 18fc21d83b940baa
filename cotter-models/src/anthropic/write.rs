//! Writes messages for Anthropic: turns of content blocks, user and assistant alternating, results
//! first in the turn after their calls.

use std::borrow::Cow;

use cotter::history::message::{
    AssistantMessage, AssistantPart, Content, ContentPart, ToolCall, ToolResultMessage,
};
use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    body::put,
    conversation::Writer,
    plain::{self, is_blank},
};

/// The longest call id that is sent unchanged.
const LONGEST_ID: usize = 128;

/// The prefix of a signature that holds redacted thinking.
pub(super) const REDACTED: &str = "redacted:";

/// The writer's state. A turn is closed when the next role begins, so that messages in a row with
/// one role become one turn.
#[derive(Clone, PartialEq)]
pub(super) struct AnthropicWriter {
    model: SmolStr,
    open: Option<Role>,
    /// True if the last user turn has results.
    answers_calls: bool,
    /// True if the turn with the open calls began with a thought.
    began_with_thought: bool,
    /// Pictures of failed calls, in JSON. A result that is an error may hold only text, so its
    /// pictures follow after all results.
    pictures: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicBlock<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Input<'a>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<ToolResultContent<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "base64")]
struct Source<'a> {
    media_type: &'a str,
    data: &'a str,
}

/// The content of a result: a text, or blocks.
#[derive(Serialize)]
#[serde(untagged)]
enum ToolResultContent<'a> {
    Text(&'a str),
    Blocks(Vec<AnthropicBlock<'a>>),
}

/// The input of a call. An input that could not be parsed got an error result, but the provider
/// wants an object, so it is wrapped.
#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    Object(&'a Value),
    Other { unparsed: &'a Value },
}

impl AnthropicBlock<'_> {
    fn is_thought(&self) -> bool {
        matches!(self, AnthropicBlock::Thinking { .. } | AnthropicBlock::RedactedThinking { .. })
    }

    fn is_picture(&self) -> bool {
        matches!(self, AnthropicBlock::Image { .. })
    }
}

impl AnthropicWriter {
    pub(super) fn new(model: SmolStr) -> Self {
        AnthropicWriter {
            model,
            open: None,
            answers_calls: false,
            began_with_thought: false,
            pictures: vec![],
        }
    }

    /// The bytes that close the last turn.
    pub(super) fn closing(&self) -> &'static str {
        if self.open.is_some() { "]}" } else { "" }
    }

    /// True if a thinking budget may be set now. If the turn with the open calls began without a
    /// thought, the provider refuses thoughts until the calls are answered.
    pub(super) fn may_think(&self) -> bool {
        !self.answers_calls || self.began_with_thought
    }

    fn block(&mut self, out: &mut Vec<u8>, role: Role, block: &AnthropicBlock<'_>) {
        let is_next = self.open != Some(role);
        match role {
            Role::Assistant if is_next && !self.answers_calls => {
                self.began_with_thought = block.is_thought()
            }
            Role::Assistant => {}
            Role::User => {
                let answers_calls = matches!(block, AnthropicBlock::ToolResult { .. });
                self.answers_calls = answers_calls || (self.answers_calls && !is_next);
            }
        }
        self.begin(out, role);
        put(out, block);
    }

    /// Continues the open turn, or begins the next.
    fn begin(&mut self, out: &mut Vec<u8>, role: Role) {
        let between = match (self.open, role) {
            (Some(open), role) if open == role => ",",
            (None, Role::User) => r#"{"role":"user","content":["#,
            (None, Role::Assistant) => r#"{"role":"assistant","content":["#,
            (Some(_), Role::User) => r#"]},{"role":"user","content":["#,
            (Some(_), Role::Assistant) => r#"]},{"role":"assistant","content":["#,
        };
        out.extend_from_slice(between.as_bytes());
        self.open = Some(role);
    }

    /// A part of a reply as a block; `None` if the provider would refuse it.
    fn part<'a>(
        &self,
        reply: &AssistantMessage,
        part: &'a AssistantPart,
    ) -> Option<AnthropicBlock<'a>> {
        Some(match part {
            AssistantPart::Text(text) => return text_block(text),
            // The provider refuses thoughts of another model and unsigned ones.
            AssistantPart::Thinking { text, signature } => {
                let signature = signature.as_ref().filter(|_| reply.model == self.model)?;
                match signature.strip_prefix(REDACTED) {
                    Some(data) => AnthropicBlock::RedactedThinking { data },
                    None => AnthropicBlock::Thinking { thinking: text, signature },
                }
            }
            AssistantPart::ToolCall(ToolCall { id, name, input }) => AnthropicBlock::ToolUse {
                id: plain::id(id, LONGEST_ID),
                name: plain::name(name),
                input: match &**input {
                    input @ Value::Object(_) => Input::Object(input),
                    unparsed => Input::Other { unparsed },
                },
            },
            _ => return None,
        })
    }
}

impl Writer for AnthropicWriter {
    fn user(&mut self, out: &mut Vec<u8>, content: &Content) {
        for block in blocks(content) {
            self.block(out, Role::User, &block);
        }
    }

    fn assistant(&mut self, out: &mut Vec<u8>, reply: &AssistantMessage) {
        if self.open.is_none() {
            // The first turn must be the user's.
            self.block(
                out,
                Role::User,
                &AnthropicBlock::Text { text: "(The conversation goes on.)" },
            );
        }
        let blocks: Vec<_> = reply.parts.iter().filter_map(|part| self.part(reply, part)).collect();
        // The provider refuses a reply that ends with a thought.
        let end = blocks.iter().rposition(|block| !block.is_thought()).map_or(0, |last| last + 1);
        for block in &blocks[..end] {
            self.block(out, Role::Assistant, block);
        }
    }

    fn result(&mut self, out: &mut Vec<u8>, result: &ToolResultMessage) {
        let tool_use_id = plain::id(&result.call_id, LONGEST_ID);
        let is_error = result.error.is_some();
        let content = match &result.content {
            Content::Text(text) => (!is_blank(text)).then_some(ToolResultContent::Text(text)),
            content => {
                let (pictures, mut all): (Vec<_>, Vec<_>) =
                    blocks(content).into_iter().partition(|block| is_error && block.is_picture());
                if !pictures.is_empty() {
                    let caption = format!("What the failed call {tool_use_id} shows:");
                    let caption = AnthropicBlock::Text { text: &caption };
                    let with_caption = [&caption].into_iter().chain(&pictures);
                    self.pictures.extend(with_caption.map(json_of));
                    all.push(AnthropicBlock::Text { text: "(A picture of it follows.)" });
                }
                Some(all).filter(|all| !all.is_empty()).map(ToolResultContent::Blocks)
            }
        };
        self.block(out, Role::User, &AnthropicBlock::ToolResult { tool_use_id, content, is_error });
    }

    fn results_end(&mut self, out: &mut Vec<u8>) {
        for picture in std::mem::take(&mut self.pictures) {
            self.begin(out, Role::User);
            out.extend_from_slice(&picture);
        }
    }
}

fn json_of(block: &AnthropicBlock<'_>) -> Vec<u8> {
    let mut json = vec![];
    put(&mut json, block);
    json
}

/// The blocks of a content.
fn blocks(content: &Content) -> Vec<AnthropicBlock<'_>> {
    match content {
        Content::Text(text) => text_block(text).into_iter().collect(),
        Content::Parts(parts) => parts
            .iter()
            .filter_map(|part| match part {
                ContentPart::Image { media_type, data } => {
                    Some(AnthropicBlock::Image { source: Source { media_type, data } })
                }
                part => part.as_text().and_then(text_block),
            })
            .collect(),
    }
}

/// A text block; `None` if blank, since the provider refuses blank texts.
fn text_block(text: &str) -> Option<AnthropicBlock<'_>> {
    (!is_blank(text)).then_some(AnthropicBlock::Text { text })
}
