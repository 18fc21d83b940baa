//! Writes messages for Responses: a flat list of items; a reply is one item per part.

use std::borrow::Cow;

use cotter::history::message::{
    AssistantMessage, AssistantPart, Content, ContentPart, ToolCall, ToolResultMessage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::{
    body::put,
    conversation::Writer,
    pictures::DataUrl,
    plain::{self, is_blank},
};

/// The longest call id the provider takes.
const LONGEST_ID: usize = 64;

/// The writer's state.
#[derive(Clone, PartialEq)]
pub(super) struct ResponsesWriter {
    model: SmolStr,
    is_begun: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: ItemContent<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    Reasoning {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The field is required; the provider reads only `encrypted_content`.
        summary: [(); 0],
        encrypted_content: String,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: ItemContent<'a>,
    },
}

/// Content: a text, or texts and pictures.
#[derive(Serialize)]
#[serde(untagged)]
enum ItemContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<InputPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputPart<'a> {
    InputText { text: &'a str },
    InputImage { image_url: DataUrl<'a>, detail: &'static str },
}

impl ResponsesWriter {
    pub(super) fn new(model: SmolStr) -> Self {
        ResponsesWriter { model, is_begun: false }
    }

    fn item(&mut self, out: &mut Vec<u8>, item: &Item<'_>) {
        if self.is_begun {
            out.push(b',');
        }
        put(out, item);
        self.is_begun = true;
    }
}

impl Writer for ResponsesWriter {
    fn user(&mut self, out: &mut Vec<u8>, content: &Content) {
        let content = match content {
            Content::Text(text) => ItemContent::Text(text.into()),
            Content::Parts(parts) => {
                ItemContent::Parts(parts.iter().filter_map(input_part).collect())
            }
        };
        let is_empty = match &content {
            ItemContent::Text(text) => is_blank(text),
            ItemContent::Parts(parts) => parts.is_empty(),
        };
        if !is_empty {
            self.item(out, &Item::Message { role: "user", content, phase: None });
        }
    }

    fn assistant(&mut self, out: &mut Vec<u8>, reply: &AssistantMessage) {
        let is_own = reply.model == self.model;
        let (mut thoughts, mut phase) = (vec![], None);
        for part in &reply.parts {
            let item = match part {
                AssistantPart::Thinking { signature: Some(signature), .. } if is_own => {
                    let data = SignedData::read(signature);
                    // A thought that is not encrypted cannot be sent back.
                    thoughts.extend(data.encrypted_content.map(|encrypted| (data.id, encrypted)));
                    phase = data.phase.or(phase);
                    continue;
                }
                // A plain string is taken by strict compatible servers too. Without an id it is
                // valid with or without its thoughts.
                AssistantPart::Text(text) if !is_blank(text) => Item::Message {
                    role: "assistant",
                    content: ItemContent::Text(text.into()),
                    phase: phase.take(),
                },
                AssistantPart::ToolCall(call) => function_call(call),
                _ => continue,
            };
            // Thoughts go before the item they led to: the provider refuses a thought that nothing
            // follows.
            for (id, encrypted_content) in thoughts.drain(..) {
                self.item(out, &Item::Reasoning { id, summary: [], encrypted_content });
            }
            self.item(out, &item);
        }
    }

    fn result(&mut self, out: &mut Vec<u8>, result: &ToolResultMessage) {
        let content = match result.error {
            Some(_) => Cow::Owned(error_content(&result.content)),
            None => Cow::Borrowed(&result.content),
        };
        let is_image = |part: &ContentPart| matches!(part, ContentPart::Image { .. });
        let output = match &*content {
            Content::Parts(parts) if parts.iter().any(is_image) => {
                ItemContent::Parts(parts.iter().filter_map(input_part).collect())
            }
            content => ItemContent::Text(content.text()),
        };
        let call_id = plain::id(&result.call_id, LONGEST_ID);
        self.item(out, &Item::FunctionCallOutput { call_id, output });
    }
}

/// The data in a signature: the fields that the provider wants back.
#[derive(Default, Deserialize)]
struct SignedData {
    id: Option<String>,
    /// The encrypted thought.
    encrypted_content: Option<String>,
    /// The phase of the text that follows.
    phase: Option<String>,
}

impl SignedData {
    fn read(signature: &str) -> Self {
        serde_json::from_str(signature).unwrap_or_default()
    }
}

/// The signature of a thought.
pub(super) fn thought_signature(id: Option<&str>, encrypted: Option<&str>) -> String {
    json!({"id": id, "encrypted_content": encrypted}).to_string()
}

/// The signature that holds the phase of the text after it.
pub(super) fn phase_signature(phase: &str) -> String {
    json!({"phase": phase}).to_string()
}

fn function_call(ToolCall { id, name, input }: &ToolCall) -> Item<'_> {
    // An input that could not be parsed got an error result, but some servers want an object, so it
    // is wrapped.
    let arguments = match &**input {
        input @ Value::Object(_) => input.to_string(),
        unparsed => json!({"unparsed": unparsed}).to_string(),
    };
    let name = plain::name(name);
    Item::FunctionCall { call_id: plain::id(id, LONGEST_ID), name, arguments }
}

/// The content of a failed result, beginning with `Error:`: there is no field for it.
fn error_content(content: &Content) -> Content {
    if content.text().starts_with("Error:") {
        return content.clone();
    }
    match content {
        Content::Text(text) => Content::Text(format!("Error: {text}")),
        Content::Parts(parts) => {
            let mut parts = parts.clone();
            match parts.first_mut() {
                Some(ContentPart::Text(text) | ContentPart::Data(text)) => {
                    text.insert_str(0, "Error: ")
                }
                _ => parts.insert(0, ContentPart::Text("Error:".into())),
            }
            Content::Parts(parts)
        }
    }
}

/// One part of a user message or result; `None` for blank texts.
fn input_part(part: &ContentPart) -> Option<InputPart<'_>> {
    match part {
        ContentPart::Image { media_type, data } => {
            Some(InputPart::InputImage { image_url: DataUrl { media_type, data }, detail: "auto" })
        }
        part => {
            let text = part.as_text().filter(|text| !is_blank(text))?;
            Some(InputPart::InputText { text })
        }
    }
}
