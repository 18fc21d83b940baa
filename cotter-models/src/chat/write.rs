//! Messages as Chat Completions want them: a text or parts, calls beside the text, a message for each
//! result.
//!
//! There is no field for a result that is an error, so its text begins with the word. Results are
//! texts: their images follow in a message of the person's, after all results of the reply.

use cotter::message::{
    AssistantMessage, AssistantPart, Content, Part, ToolCall, ToolResultMessage,
};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{
    Returns,
    back::{Back, DETAILS, EXTRA, THINKING},
};
use crate::{body::put, conversation::Writer};

/// The longest id of a call that is taken from another provider.
const LONGEST_ID: usize = 40;

/// Messages in the making. What the person says is left open, so that messages that follow each other
/// in their role are one: many models are told in their template to expect no other.
#[derive(Clone, PartialEq)]
pub(super) struct Turns {
    model: SmolStr,
    returns: Returns,
    open: Open,
    /// Whether the last reply is this model's own.
    is_own: bool,
    /// Parts with the images of results, for the message after them.
    images: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
enum Open {
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

impl Turns {
    pub(super) fn new(model: SmolStr, returns: Returns, has_system: bool) -> Self {
        let open = if has_system { Open::System } else { Open::Start };
        Turns { model, returns, open, is_own: false, images: vec![] }
    }

    /// What closes the last message.
    pub(super) fn closing(&self) -> &'static str {
        match self.open {
            Open::Text => "\"}",
            Open::Parts => "]}",
            Open::Start | Open::System | Open::Closed => "",
        }
    }

    /// Goes on to another message.
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.closing().as_bytes());
        if self.open != Open::Start {
            out.push(b',');
        }
        self.open = Open::Closed;
    }

    fn say(&mut self, out: &mut Vec<u8>, words: &str) {
        match self.open {
            Open::Parts => self.part(out, &text(words)),
            Open::Text => {
                let mut more = vec![];
                put(&mut more, &format!("\n\n{words}"));
                out.extend_from_slice(&more[1..more.len() - 1]);
            }
            Open::Start | Open::System | Open::Closed => {
                self.begin(out);
                out.extend_from_slice(br#"{"role":"user","content":"#);
                put(out, words);
                // The closing quote is for whoever closes the text.
                out.pop();
                self.open = Open::Text;
            }
        }
    }

    fn part(&mut self, out: &mut Vec<u8>, part: &Value) {
        if self.open == Open::Parts {
            out.push(b',');
        } else {
            self.begin(out);
            out.extend_from_slice(br#"{"role":"user","content":["#);
            self.open = Open::Parts;
        }
        put(out, part);
    }

    /// An id as it was given by the one who is spoken to; another's, if it is too long, in short.
    fn id(&self, id: &SmolStr) -> SmolStr {
        match self.is_own || id.len() <= LONGEST_ID {
            true => id.clone(),
            false => smol_str::format_smolstr!("call_{:016x}", fnv(id)),
        }
    }

    fn calls(&self, reply: &AssistantMessage) -> Vec<Value> {
        let mut calls = vec![];
        let mut extra = None;
        for part in &reply.parts {
            match part {
                AssistantPart::Thinking { signature: Some(signature), .. } if self.is_own => {
                    if let Some(Back::CallExtra(value)) = Back::parse(signature) {
                        extra = Some(value);
                    }
                }
                AssistantPart::ToolCall(call) => {
                    let unsigned = self.returns == Returns::Signatures && calls.is_empty();
                    let excuse = unsigned.then(excuse);
                    calls.push(self.call(call, extra.take().or(excuse)));
                }
                _ => {}
            }
        }
        calls
    }

    fn call(&self, call: &ToolCall, extra: Option<Value>) -> Value {
        // What could not be parsed was answered with an error; an object is wanted all the same.
        let arguments = match &*call.input {
            input @ Value::Object(_) => input.to_string(),
            other => json!({"unparsed": other}).to_string(),
        };
        let function = json!({"name": call.name, "arguments": arguments});
        let mut call = json!({"id": self.id(&call.id), "type": "function", "function": function});
        if let Some(extra) = extra {
            call[EXTRA] = extra;
        }
        call
    }

    /// Puts what the model thought with its reply, where it is to hear it again.
    fn put_thinking(&self, message: &mut Value, reply: &AssistantMessage) {
        let (mut thoughts, mut field, mut details) = (String::new(), None, vec![]);
        for part in reply.parts.iter().filter(|_| self.is_own) {
            let AssistantPart::Thinking { text, signature } = part else { continue };
            thoughts.push_str(text);
            match signature.as_deref().and_then(Back::parse) {
                Some(Back::Thinking(name)) => field = Some(name),
                Some(Back::Details(Value::Array(more))) => details.extend(more),
                Some(Back::Extra(extra)) => message[EXTRA] = extra,
                _ => {}
            }
        }
        let must = self.returns == Returns::Thoughts;
        let has_calls = reply.calls().next().is_some();
        let field = field.filter(|_| has_calls || must).or(must.then_some(THINKING[0]));
        if !details.is_empty() {
            message[DETAILS] = details.into();
        } else if let Some(field) = field {
            message[field] = thoughts.into();
        } else {
            return;
        }
        if message["content"].is_null() {
            // Not everybody takes thinking without a text beside it.
            message["content"] = "".into();
        }
    }
}

impl Writer for Turns {
    fn user(&mut self, out: &mut Vec<u8>, content: &Content) {
        match content {
            Content::Text(words) if is_blank(words) => {}
            Content::Text(words) => self.say(out, words),
            Content::Parts(parts) => {
                let has_image = parts.iter().any(|part| matches!(part, Part::Image { .. }));
                for part in parts {
                    match (image(part), part.as_text()) {
                        (Some(image), _) => self.part(out, &image),
                        (None, Some(words)) if is_blank(words) => {}
                        (None, Some(words)) if has_image => self.part(out, &text(words)),
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
        let calls = self.calls(reply);
        if said.is_none() && calls.is_empty() {
            return;
        }
        if matches!(self.open, Open::Start | Open::System) {
            // The first turn is the person's.
            self.say(out, "(The conversation goes on.)");
        }
        let mut message = json!({"role": "assistant", "content": said});
        self.put_thinking(&mut message, reply);
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        self.begin(out);
        put(out, &message);
    }

    fn result(&mut self, out: &mut Vec<u8>, result: &ToolResultMessage) {
        let id = self.id(&result.call_id);
        let mut words = result.content.text().into_owned();
        if result.error.is_some() && !starts_with_error(&words) {
            words.insert_str(0, "Error: ");
        }
        let images: Vec<_> = match &result.content {
            Content::Text(_) => vec![],
            Content::Parts(parts) => parts.iter().filter_map(image).collect(),
        };
        if !images.is_empty() {
            let between = if words.is_empty() { "" } else { "\n" };
            words += &format!("{between}({} follow below)", count(images.len()));
            let label = format!("({} of the result of {id}:)", count(images.len()));
            for part in std::iter::once(text(&label)).chain(images) {
                if !self.images.is_empty() {
                    self.images.push(b',');
                }
                put(&mut self.images, &part);
            }
        }
        self.begin(out);
        put(out, &json!({"role": "tool", "tool_call_id": id, "content": words}));
    }

    fn results_end(&mut self, out: &mut Vec<u8>) {
        if self.images.is_empty() {
            return;
        }
        self.begin(out);
        out.extend_from_slice(br#"{"role":"user","content":["#);
        out.append(&mut self.images);
        self.open = Open::Parts;
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image(part: &Part) -> Option<Value> {
    let Part::Image { media_type, data } = part else { return None };
    let url = format!("data:{media_type};base64,{data}");
    Some(json!({"type": "image_url", "image_url": {"url": url}}))
}

fn count(images: usize) -> String {
    match images {
        1 => "1 image".into(),
        more => format!("{more} images"),
    }
}

/// What stands for the signature of a call that somebody else made.
fn excuse() -> Value {
    json!({"google": {"thought_signature": "skip_thought_signature_validator"}})
}

fn starts_with_error(words: &str) -> bool {
    let start = words.trim_start();
    start.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("error"))
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// The same for the same text, today and tomorrow.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
