//! Messages as Responses wants them: a flat list of items, in which a reply is as many as it has
//! parts.

use std::borrow::Cow;

use cotter::message::{
    AssistantMessage, AssistantPart, Content, Part, ToolCall, ToolResultMessage,
};
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::{body::put, conversation::Writer};

/// The longest id of a call the provider takes.
const LONGEST_ID: usize = 64;
/// The longest name of a tool the provider takes.
const LONGEST_NAME: usize = 128;

/// Items in the making.
#[derive(Clone, PartialEq)]
pub(super) struct Items {
    model: SmolStr,
    is_begun: bool,
}

impl Items {
    pub(super) fn new(model: SmolStr) -> Self {
        Items { model, is_begun: false }
    }

    fn item(&mut self, out: &mut Vec<u8>, item: &Value) {
        if self.is_begun {
            out.push(b',');
        }
        put(out, item);
        self.is_begun = true;
    }
}

impl Writer for Items {
    fn user(&mut self, out: &mut Vec<u8>, content: &Content) {
        let content = match content {
            Content::Text(text) if is_blank(text) => return,
            Content::Text(text) => json!(text),
            Content::Parts(parts) => {
                let parts: Vec<_> = parts.iter().filter_map(part).collect();
                if parts.is_empty() {
                    return;
                }
                json!(parts)
            }
        };
        self.item(out, &json!({"type": "message", "role": "user", "content": content}));
    }

    fn assistant(&mut self, out: &mut Vec<u8>, reply: &AssistantMessage) {
        let is_own = reply.model == self.model;
        let (mut thoughts, mut phase) = (vec![], None);
        for part in &reply.parts {
            let item = match part {
                AssistantPart::Thinking { signature: Some(signature), .. } if is_own => {
                    match Signed::read(signature) {
                        Some(Signed::Reasoning { id, encrypted_content: Some(sealed) }) => {
                            thoughts.push(reasoning(id.as_deref(), &sealed));
                        }
                        Some(Signed::Phase { phase: named }) => phase = Some(named),
                        Some(Signed::Reasoning { .. }) | None => {}
                    }
                    continue;
                }
                AssistantPart::Text(words) if !is_blank(words) => message(words, phase.take()),
                AssistantPart::ToolCall(call) => function_call(call),
                _ => continue,
            };
            // Thoughts go with what came of them: one that nothing follows is refused.
            thoughts.drain(..).for_each(|thought| self.item(out, &thought));
            self.item(out, &item);
        }
    }

    fn result(&mut self, out: &mut Vec<u8>, result: &ToolResultMessage) {
        let content = match result.error {
            Some(_) => Cow::Owned(failed(&result.content)),
            None => Cow::Borrowed(&result.content),
        };
        let is_image = |part: &Part| matches!(part, Part::Image { .. });
        let output = match &*content {
            Content::Parts(parts) if parts.iter().any(is_image) => {
                parts.iter().filter_map(part).collect()
            }
            content => json!(content.text()),
        };
        let call_id = id(&result.call_id);
        let item = json!({"type": "function_call_output", "call_id": call_id, "output": output});
        self.item(out, &item);
    }
}

/// What stands in a signature: what the provider wants back and nobody else understands.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Signed {
    /// A thought under the provider's seal. Without it, nothing can be sent back.
    Reasoning { id: Option<String>, encrypted_content: Option<String> },
    /// What the text that follows was meant as.
    Phase { phase: String },
}

impl Signed {
    fn read(signature: &str) -> Option<Self> {
        serde_json::from_str(signature).ok()
    }
}

/// The signature of a thought.
pub(super) fn signed_thought(id: Option<&str>, sealed: Option<&str>) -> String {
    json!({"type": "reasoning", "id": id, "encrypted_content": sealed}).to_string()
}

/// The signature that says what the text after it was meant as.
pub(super) fn signed_phase(phase: &str) -> String {
    json!({"type": "phase", "phase": phase}).to_string()
}

fn reasoning(id: Option<&str>, sealed: &str) -> Value {
    let mut item = json!({"type": "reasoning"});
    if let Some(id) = id {
        item["id"] = json!(id);
    }
    // The list has to be there; the provider reads only what is sealed.
    item["summary"] = json!([]);
    item["encrypted_content"] = json!(sealed);
    item
}

/// A text of a model. As a plain string it is taken by those who know the format and by those who are
/// strict about it; without an id it can be sent whether or not its thoughts are.
fn message(text: &str, phase: Option<String>) -> Value {
    let mut item = json!({"type": "message", "role": "assistant", "content": text});
    if let Some(phase) = phase {
        item["phase"] = json!(phase);
    }
    item
}

fn function_call(call: &ToolCall) -> Value {
    // What could not be parsed was answered with an error; some want an object all the same.
    let arguments = match &*call.input {
        input @ Value::Object(_) => input.to_string(),
        other => json!({"unparsed": other}).to_string(),
    };
    let name: String = call.name.chars().map(allowed).take(LONGEST_NAME).collect();
    let name = if name.is_empty() { "_".into() } else { name };
    json!({"type": "function_call", "call_id": id(&call.id), "name": name, "arguments": arguments})
}

/// The content of a result that is an error: there is no other place to say so.
fn failed(content: &Content) -> Content {
    const MARK: &str = "Error:";
    if content.text().starts_with(MARK) {
        return content.clone();
    }
    match content {
        Content::Text(text) => Content::Text(format!("{MARK} {text}")),
        Content::Parts(parts) => {
            let mut parts = parts.clone();
            match parts.first_mut() {
                Some(Part::Text(text) | Part::Data(text)) => text.insert_str(0, "Error: "),
                _ => parts.insert(0, Part::Text(MARK.into())),
            }
            Content::Parts(parts)
        }
    }
}

/// One part of what is not the model's; blank texts say nothing and are left out.
fn part(part: &Part) -> Option<Value> {
    match part {
        Part::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{data}");
            Some(json!({"type": "input_image", "image_url": url, "detail": "auto"}))
        }
        part => {
            let text = part.as_text().filter(|text| !is_blank(text))?;
            Some(json!({"type": "input_text", "text": text}))
        }
    }
}

/// An id of another provider's in letters and a length this one takes. Calls and results are changed
/// alike, and what was two stays two.
fn id(id: &str) -> Cow<'_, str> {
    let fits = id.chars().all(|char| char == allowed(char)) && !id.is_empty();
    if fits && id.len() <= LONGEST_ID {
        return Cow::Borrowed(id);
    }
    let (mut begin, mark) = (String::new(), format!("_{:016x}", hash(id)));
    begin.extend(id.chars().map(allowed).take(LONGEST_ID - mark.len()));
    Cow::Owned(begin + &mark)
}

/// The letter, or what stands for it where only few may be used.
fn allowed(char: char) -> char {
    let is_allowed = char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if is_allowed { char } else { '_' }
}

/// FNV-1a: the same in every build, because what is made of it is sent again by whoever resumes.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
