//! Messages as Chat Completions want them: a text or parts, calls beside the text, a message for each
//! result.
//!
//! There is no field for a result that is an error, so its text begins with the word. Results are
//! texts: their images follow in a message of the person's, after all results of the reply.

use std::borrow::Cow;

use cotter::history::message::{
    AssistantMessage, AssistantPart, Content, ContentPart, ToolCall, ToolResultMessage,
};
use serde::Serialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{Returns, back::ReplayItem};
use crate::{
    body::put,
    conversation::Writer,
    pictures::DataUrl,
    plain::{self, is_blank},
};

/// The longest id of a call that everybody takes.
const LONGEST_ID: usize = 40;

/// Messages in the making. What the person says is left open, so that messages that follow each other
/// in their role are one: many models are told to expect no other.
#[derive(Clone, PartialEq)]
pub(super) struct ChatWriter {
    model: SmolStr,
    returns: Returns,
    open: OpenMessage,
    /// Whether the last reply is this model's own.
    is_own: bool,
    /// Parts with the images of results, for the message after them.
    images: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
enum OpenMessage {
    /// Nothing was written yet.
    Start,
    /// Only the system prompt was.
    System,
    /// Nothing is open.
    Closed,
    /// A text of the person's.
    Text,
    /// A list of parts of the person's.
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

/// What a model thought, in the field it came in.
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
    pub(super) fn new(model: SmolStr, returns: Returns, has_system: bool) -> Self {
        let open = if has_system { OpenMessage::System } else { OpenMessage::Start };
        ChatWriter { model, returns, open, is_own: false, images: vec![] }
    }

    /// What closes the last message.
    pub(super) fn closing(&self) -> &'static str {
        match self.open {
            OpenMessage::Text => "\"}",
            OpenMessage::Parts => "]}",
            OpenMessage::Start | OpenMessage::System | OpenMessage::Closed => "",
        }
    }

    /// Goes on to another message.
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.closing().as_bytes());
        if self.open != OpenMessage::Start {
            out.push(b',');
        }
        self.open = OpenMessage::Closed;
    }

    fn say(&mut self, out: &mut Vec<u8>, words: &str) {
        match self.open {
            OpenMessage::Parts => return self.part(out, &ChatPart::Text { text: words }),
            OpenMessage::Text => {
                // The words go on within the text: their opening quote is one too many.
                out.extend_from_slice(br"\n\n");
                let at = out.len();
                put(out, words);
                out.remove(at);
            }
            OpenMessage::Start | OpenMessage::System | OpenMessage::Closed => {
                self.begin(out);
                out.extend_from_slice(br#"{"role":"user","content":"#);
                put(out, words);
                self.open = OpenMessage::Text;
            }
        }
        // The closing quote is for whoever closes the text.
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

    /// An id as it was given by the one who is spoken to, or as they take it of others.
    fn id<'a>(&self, id: &'a str) -> Cow<'a, str> {
        if self.is_own { Cow::Borrowed(id) } else { plain::id(id, LONGEST_ID) }
    }

    /// What goes back with a reply of this model.
    fn backs(&self, reply: &AssistantMessage) -> impl Iterator<Item = ReplayItem> {
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
                    let is_due = self.returns == Returns::Signatures && calls.is_empty();
                    let extra = extra_content.take().or_else(|| is_due.then(excuse));
                    calls.push(self.call(call, extra));
                }
                _ => {}
            }
        }
        calls
    }

    fn call<'a>(&self, call: &'a ToolCall, extra_content: Option<Value>) -> CallMessage<'a> {
        // What could not be parsed was answered with an error; an object is wanted all the same.
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

    /// What the model thought, where it is to hear it again.
    fn thinking(&self, reply: &AssistantMessage) -> Option<Thinking> {
        let mut field = None;
        let mut details = vec![];
        for back in self.backs(reply) {
            match back {
                ReplayItem::Thinking(name) => field = Some(name),
                ReplayItem::Details(Value::Array(more)) => details.extend(more),
                _ => {}
            }
        }
        if !details.is_empty() {
            return Some(Thinking::ReasoningDetails(details));
        }
        let must = self.returns == Returns::Thoughts;
        let field = field.filter(|_| must || reply.calls().next().is_some());
        let thoughts = || {
            let own = reply.parts.iter().filter(|_| self.is_own);
            own.filter_map(|part| match part {
                AssistantPart::Thinking { text, .. } => Some(text.as_str()),
                _ => None,
            })
        };
        match field {
            Some("reasoning") => Some(Thinking::Reasoning(thoughts().collect())),
            None if !must => None,
            _ => Some(Thinking::ReasoningContent(thoughts().collect())),
        }
    }
}

impl Writer for ChatWriter {
    fn user(&mut self, out: &mut Vec<u8>, content: &Content) {
        match content {
            Content::Text(words) if is_blank(words) => {}
            Content::Text(words) => self.say(out, words),
            Content::Parts(parts) => {
                let has_image = parts.iter().any(|part| image(part).is_some());
                for part in parts {
                    let words = part.as_text().filter(|words| !is_blank(words));
                    match (image(part), words) {
                        (Some(image), _) => self.part(out, &image),
                        (None, Some(text)) if has_image => self.part(out, &ChatPart::Text { text }),
                        (None, Some(words)) => self.say(out, words),
                        (None, None) => {}
                    }
                }
            }
        }
    }

    fn assistant(&mut self, out: &mut Vec<u8>, reply: &AssistantMessage) {
        self.is_own = reply.model == self.model;
        let said = Some(reply.text()).filter(|words| !is_blank(words));
        let tool_calls = self.calls(reply);
        if said.is_none() && tool_calls.is_empty() {
            return;
        }
        if matches!(self.open, OpenMessage::Start | OpenMessage::System) {
            // The first turn is the person's.
            self.say(out, "(The conversation goes on.)");
        }
        let thinking = self.thinking(reply);
        // DeepSeek takes no thinking without a text beside it; others take no text without words.
        let is_thinking = matches!(thinking, Some(Thinking::ReasoningContent(_)));
        let content = said.or_else(|| is_thinking.then(String::new));
        let extra_content = self.backs(reply).find_map(|back| match back {
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

/// What stands for the signature of a call that somebody else made.
fn excuse() -> Value {
    json!({"google": {"thought_signature": "skip_thought_signature_validator"}})
}
