//! Writes messages for Chat Completions: content as text or parts, calls beside the text, one
//! message per result.
//!
//! There is no field for a failed result, so its text begins with `Error:`. Results hold only text:
//! their images follow in a user message after all results of the reply.

use std::borrow::Cow;

use cotter::history::message::{
    AssistantMessage, AssistantPart, Content, ContentPart, ToolCall, ToolResultMessage,
};
use serde::Serialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{ReturnedParts, replay::ReplayItem};
use crate::{
    body::put,
    conversation::Writer,
    pictures::DataUrl,
    plain::{self, is_blank},
};

/// The longest call id that every server takes.
const LONGEST_ID: usize = 40;

/// The writer's state. A user message is left open, so that user messages in a row become one: many
/// models expect no two in a row.
#[derive(Clone, PartialEq)]
pub(super) struct ChatWriter {
    model: SmolStr,
    returns: ReturnedParts,
    open: OpenMessage,
    /// True if the last reply is this model's own.
    is_own: bool,
    /// Parts with the images of results, for the message after them.
    images: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
enum OpenMessage {
    /// Nothing is written yet.
    Start,
    /// Only the system prompt is written.
    System,
    /// No message is open.
    Closed,
    /// A user message with a text is open.
    Text,
    /// A user message with parts is open.
    Parts,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ChatPart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: Url<'a> },
}

#[derive(Serialize)]
struct Url<'a> {
    url: DataUrl<'a>,
}

#[derive(Serialize)]
#[serde(tag = "role", rename = "assistant")]
struct Reply<'a> {
    content: Option<String>,
    #[serde(flatten)]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallMessage<'a>>,
}

/// Thinking in the field in which it came.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Thinking {
    ReasoningContent(String),
    Reasoning(String),
    ReasoningDetails(Vec<Value>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct CallMessage<'a> {
    id: Cow<'a, str>,
    function: FunctionCall<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

#[derive(Serialize)]
#[serde(tag = "role", rename = "tool")]
struct ResultMessage<'a> {
    tool_call_id: &'a str,
    content: Cow<'a, str>,
}

impl ChatWriter {
    pub(super) fn new(model: SmolStr, returns: ReturnedParts, has_system: bool) -> Self {
        let open = if has_system { OpenMessage::System } else { OpenMessage::Start };
        ChatWriter { model, returns, open, is_own: false, images: vec![] }
    }

    /// The bytes that close the last message.
    pub(super) fn closing(&self) -> &'static str {
        match self.open {
            OpenMessage::Text => "\"}",
            OpenMessage::Parts => "]}",
            OpenMessage::Start | OpenMessage::System | OpenMessage::Closed => "",
        }
    }

    /// Closes the open message and begins the next.
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.closing().as_bytes());
        if self.open != OpenMessage::Start {
            out.push(b',');
        }
        self.open = OpenMessage::Closed;
    }

    fn write_text(&mut self, out: &mut Vec<u8>, text: &str) {
        match self.open {
            OpenMessage::Parts => return self.part(out, &ChatPart::Text { text }),
            OpenMessage::Text => {
                // The text continues the open string, so its opening quote is removed.
                out.extend_from_slice(br"\n\n");
                let at = out.len();
                put(out, text);
                out.remove(at);
            }
            OpenMessage::Start | OpenMessage::System | OpenMessage::Closed => {
                self.begin(out);
                out.extend_from_slice(br#"{"role":"user","content":"#);
                put(out, text);
                self.open = OpenMessage::Text;
            }
        }
        // Leave the string open: `closing` adds the quote.
        out.pop();
    }

    fn part(&mut self, out: &mut Vec<u8>, part: &ChatPart<'_>) {
        if self.open == OpenMessage::Parts {
            out.push(b',');
        } else {
            self.begin_parts(out);
        }
        put(out, part);
    }

    fn begin_parts(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        out.extend_from_slice(br#"{"role":"user","content":["#);
        self.open = OpenMessage::Parts;
    }

    /// A call id: unchanged for the model that made it, else in the form that all servers take.
    fn id<'a>(&self, id: &'a str) -> Cow<'a, str> {
        if self.is_own { Cow::Borrowed(id) } else { plain::id(id, LONGEST_ID) }
    }

    /// The parts of this model's own reply that are sent back with it.
    fn replay_items(&self, reply: &AssistantMessage) -> impl Iterator<Item = ReplayItem> {
        let own = reply.parts.iter().filter(|_| self.is_own);
        own.filter_map(|part| match part {
            AssistantPart::Thinking { signature, .. } => ReplayItem::parse(signature.as_deref()?),
            _ => None,
        })
    }

    fn calls<'a>(&self, reply: &'a AssistantMessage) -> Vec<CallMessage<'a>> {
        let mut calls = vec![];
        let mut extra_content = None;
        for part in &reply.parts {
            match part {
                AssistantPart::Thinking { signature: Some(signature), .. } if self.is_own => {
                    if let Some(ReplayItem::CallExtra(extra)) = ReplayItem::parse(signature) {
                        extra_content = Some(extra);
                    }
                }
                AssistantPart::ToolCall(call) => {
                    let needs_signature =
                        self.returns == ReturnedParts::Signatures && calls.is_empty();
                    let extra = extra_content
                        .take()
                        .or_else(|| needs_signature.then(placeholder_signature));
                    calls.push(self.call(call, extra));
                }
                _ => {}
            }
        }
        calls
    }

    fn call<'a>(&self, call: &'a ToolCall, extra_content: Option<Value>) -> CallMessage<'a> {
        // An input that could not be parsed got an error result, but servers want an object, so it
        // is wrapped.
        let arguments = match &*call.input {
            input @ Value::Object(_) => input.to_string(),
            other => json!({"unparsed": other}).to_string(),
        };
        let name = plain::name(&call.name);
        CallMessage {
            id: self.id(&call.id),
            function: FunctionCall { name, arguments },
            extra_content,
        }
    }

    /// The thinking to send back with a reply, if any.
    fn thinking(&self, reply: &AssistantMessage) -> Option<Thinking> {
        let mut field = None;
        let mut details = vec![];
        for item in self.replay_items(reply) {
            match item {
                ReplayItem::Thinking(name) => field = Some(name),
                ReplayItem::Details(Value::Array(more)) => details.extend(more),
                _ => {}
            }
        }
        if !details.is_empty() {
            return Some(Thinking::ReasoningDetails(details));
        }
        let is_required = self.returns == ReturnedParts::Thoughts;
        let field = field.filter(|_| is_required || reply.calls().next().is_some());
        let thoughts = || {
            let own = reply.parts.iter().filter(|_| self.is_own);
            own.filter_map(|part| match part {
                AssistantPart::Thinking { text, .. } => Some(text.as_str()),
                _ => None,
            })
        };
        match field {
            Some("reasoning") => Some(Thinking::Reasoning(thoughts().collect())),
            None if !is_required => None,
            _ => Some(Thinking::ReasoningContent(thoughts().collect())),
        }
    }
}

impl Writer for ChatWriter {
    fn user(&mut self, out: &mut Vec<u8>, content: &Content) {
        match content {
            Content::Text(text) if is_blank(text) => {}
            Content::Text(text) => self.write_text(out, text),
            Content::Parts(parts) => {
                let has_image = parts.iter().any(|part| image(part).is_some());
                for part in parts {
                    let text = part.as_text().filter(|text| !is_blank(text));
                    match (image(part), text) {
                        (Some(image), _) => self.part(out, &image),
                        (None, Some(text)) if has_image => self.part(out, &ChatPart::Text { text }),
                        (None, Some(text)) => self.write_text(out, text),
                        (None, None) => {}
                    }
                }
            }
        }
    }

    fn assistant(&mut self, out: &mut Vec<u8>, reply: &AssistantMessage) {
        self.is_own = reply.model == self.model;
        let text = Some(reply.text()).filter(|text| !is_blank(text));
        let tool_calls = self.calls(reply);
        if text.is_none() && tool_calls.is_empty() {
            return;
        }
        if matches!(self.open, OpenMessage::Start | OpenMessage::System) {
            // The first turn must be the user's.
            self.write_text(out, "(The conversation goes on.)");
        }
        let thinking = self.thinking(reply);
        // DeepSeek wants a text beside thinking, even an empty one; other servers refuse an empty
        // text.
        let is_thinking = matches!(thinking, Some(Thinking::ReasoningContent(_)));
        let content = text.or_else(|| is_thinking.then(String::new));
        let extra_content = self.replay_items(reply).find_map(|item| match item {
            ReplayItem::Extra(extra) => Some(extra),
            _ => None,
        });
        self.begin(out);
        put(out, &Reply { content, thinking, extra_content, tool_calls });
    }

    fn result(&mut self, out: &mut Vec<u8>, result: &ToolResultMessage) {
        let id = self.id(&result.call_id);
        let mut content = result.content.text();
        if result.error.is_some() && !content.starts_with("Error:") {
            content.to_mut().insert_str(0, "Error: ");
        }
        let images: Vec<_> = match &result.content {
            Content::Text(_) => vec![],
            Content::Parts(parts) => parts.iter().filter_map(image).collect(),
        };
        if !images.is_empty() {
            let count = match images.len() {
                1 => "1 image".to_owned(),
                more => format!("{more} images"),
            };
            let between = if content.is_empty() { "" } else { "\n" };
            content.to_mut().push_str(&format!("{between}({count}, attached below)"));
            let label = format!("({count} from the result of `{}`, {id})", result.tool_name);
            for block in std::iter::once(ChatPart::Text { text: &label }).chain(images) {
                if !self.images.is_empty() {
                    self.images.push(b',');
                }
                put(&mut self.images, &block);
            }
        }
        self.begin(out);
        put(out, &ResultMessage { tool_call_id: &id, content });
    }

    fn results_end(&mut self, out: &mut Vec<u8>) {
        if !self.images.is_empty() {
            self.begin_parts(out);
            out.append(&mut self.images);
        }
    }
}

fn image(part: &ContentPart) -> Option<ChatPart<'_>> {
    let ContentPart::Image { media_type, data } = part else { return None };
    Some(ChatPart::ImageUrl { image_url: Url { url: DataUrl { media_type, data } } })
}

/// The placeholder signature for a call of another model.
fn placeholder_signature() -> Value {
    json!({"google": {"thought_signature": "skip_thought_signature_validator"}})
}
