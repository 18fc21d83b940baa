//! The messages between a person, the model and tools.

use std::{borrow::Cow, sync::Arc};

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::history::outcome::ToolErrorKind;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// From the person, or in the user role: a skill's text, a note, a summary.
    User(UserMessage),
    /// From the model.
    Assistant(AssistantMessage),
    /// The result of one tool call.
    ToolResult(ToolResultMessage),
}

impl Message {
    /// Creates a message that a person typed.
    pub fn user(text: impl Into<String>) -> Self {
        Message::User(UserMessage::new(Content::Text(text.into())))
    }

    /// The text of the message. For a reply, the text parts are joined.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Message::User(user) => user.content.text(),
            Message::Assistant(assistant) => Cow::Owned(assistant.text()),
            Message::ToolResult(result) => result.content.text(),
        }
    }
}

/// A message in the user role.
#[derive(Clone, Debug, PartialEq)]
pub struct UserMessage {
    /// The content.
    pub content: Content,
    /// The kind of the message.
    pub kind: UserMessageKind,
    /// The text as the person typed it and its rewrites, if a hook rewrote it.
    pub rewritten: Option<Box<RewriteLog>>,
}

impl UserMessage {
    /// Creates a message that a person typed.
    pub fn new(content: Content) -> Self {
        UserMessage { content, kind: UserMessageKind::Typed, rewritten: None }
    }

    /// Creates a message of the given kind.
    pub fn with_kind(content: Content, kind: UserMessageKind) -> Self {
        UserMessage { content, kind, rewritten: None }
    }
}

/// The kind of a message in the user role, for renderers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserMessageKind {
    /// Text that the person typed.
    Typed,
    /// Text from a skill: `is_skill_injection`.
    SkillInjection,
    /// The summary of the earlier conversation: `is_compaction`.
    Compaction,
    /// A note from hooks: `is_note`.
    Note,
}

/// The raw text of a prompt and the rewrites of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteLog {
    /// The text as the person typed it.
    pub raw: String,
    /// The rewrites, in order.
    pub rewrites: Vec<Rewrite>,
}

/// One rewrite of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// The hook's name.
    pub by: SmolStr,
    /// The text after the rewrite.
    pub text: String,
}

/// The content of a message or of a tool's output.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text only.
    Text(String),
    /// Text and other parts, in order.
    Parts(Vec<ContentPart>),
}

impl Content {
    /// The text; text parts are joined by newlines.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Content::Text(text) => Cow::Borrowed(text),
            Content::Parts(parts) => {
                let texts = parts.iter().filter_map(ContentPart::as_text);
                Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    /// True if the content is empty.
    pub fn is_empty(&self) -> bool {
        match self {
            Content::Text(text) => text.is_empty(),
            Content::Parts(parts) => parts.is_empty(),
        }
    }

    /// Applies `change` to every text.
    pub fn map_text(self, change: impl Fn(String) -> String) -> Self {
        match self {
            Content::Text(text) => Content::Text(change(text)),
            Content::Parts(parts) => Content::Parts(
                parts
                    .into_iter()
                    .map(|part| match part {
                        ContentPart::Text(text) => ContentPart::Text(change(text)),
                        ContentPart::Data(text) => ContentPart::Data(change(text)),
                        image @ ContentPart::Image { .. } => image,
                    })
                    .collect(),
            ),
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Content::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Content::Text(text.into())
    }
}

impl From<Vec<ContentPart>> for Content {
    fn from(parts: Vec<ContentPart>) -> Self {
        Content::Parts(parts)
    }
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentPart {
    /// Text. In a prompt, text that a person typed: `/name` in it is a directive.
    Text(String),
    /// Text that is data: piped in, pasted or attached. `/name` in it is not a directive.
    Data(String),
    /// A picture.
    Image {
        /// The media type: `image/png`.
        media_type: String,
        /// The bytes in base64.
        data: String,
    },
}

impl ContentPart {
    /// Creates a data part. `/name` in it is not a directive, and tags of notes in it are escaped.
    pub fn data(text: &str) -> Self {
        ContentPart::Data(crate::text::tags::escape(text))
    }

    /// Creates a picture from its bytes.
    pub fn picture(media_type: &str, bytes: &[u8]) -> Self {
        ContentPart::Image { media_type: media_type.into(), data: base64(bytes) }
    }

    /// The text, if the part is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            ContentPart::Text(text) | ContentPart::Data(text) => Some(text),
            ContentPart::Image { .. } => None,
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// A reply of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct AssistantMessage {
    /// Text, thinking and calls, in order.
    pub parts: Vec<AssistantPart>,
    /// The model that replied.
    pub model: SmolStr,
    /// The tokens used.
    pub usage: Usage,
    /// The reason why the reply ended.
    pub stop_reason: StopReason,
}

impl AssistantMessage {
    /// Joins the text parts.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            AssistantPart::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            AssistantPart::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

/// One part of a reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AssistantPart {
    /// Text for the person.
    Text(String),
    /// The model's thinking.
    Thinking {
        /// The text.
        text: String,
        /// The provider's signature over the text.
        signature: Option<String>,
    },
    /// A call of a tool.
    ToolCall(ToolCall),
}

/// A tool call by the model. The input is not validated; the pipeline checks it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: SmolStr,
    /// The tool's name.
    pub name: SmolStr,
    /// The input. A string in place of an object is the raw text that could not be parsed.
    pub input: Arc<Value>,
}

/// The result of one tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResultMessage {
    /// The id of the call.
    pub call_id: SmolStr,
    /// The tool's name.
    pub tool_name: SmolStr,
    /// The content for the model.
    pub content: Content,
    /// The kind of error, if the call failed.
    pub error: Option<ToolErrorKind>,
    /// Data that renderers show in place of the content. It is never sent to a provider.
    pub render_data: Option<Value>,
}

impl ToolResultMessage {
    /// Creates an error result for a call that returned no result.
    pub(crate) fn new_error(call: &ToolCall, kind: ToolErrorKind, message: &str) -> Self {
        ToolResultMessage {
            call_id: call.id.clone(),
            tool_name: call.name.clone(),
            content: Content::Text(message.into()),
            error: Some(kind),
            render_data: None,
        }
    }
}

/// The tokens of one reply or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

impl Usage {
    /// The sum of all four counts.
    pub fn total(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.output_tokens)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }
}

/// The reason why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model finished its reply.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    /// The reply reached the token limit.
    MaxTokens,
    /// The model refused.
    Refusal,
    /// The run was aborted during the reply.
    Aborted,
}

impl StopReason {
    /// The reason's word in files and events.
    pub fn as_str(self) -> &'static str {
        match self {
            StopReason::EndTurn => "end_turn",
            StopReason::ToolUse => "tool_use",
            StopReason::MaxTokens => "max_tokens",
            StopReason::Refusal => "refusal",
            StopReason::Aborted => "aborted",
        }
    }

    /// Parses a word. An unknown word, such as another system's, becomes `EndTurn`.
    pub fn parse(word: &str) -> Self {
        match word {
            "tool_use" | "toolUse" => StopReason::ToolUse,
            "max_tokens" | "length" => StopReason::MaxTokens,
            "refusal" => StopReason::Refusal,
            "aborted" => StopReason::Aborted,
            _ => StopReason::EndTurn,
        }
    }
}
