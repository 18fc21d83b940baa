//! OpenAI's Responses dialect: the body of a request.
//!
//! Nothing is stored at the provider. Every request carries the whole conversation, with the
//! model's thoughts encrypted by the provider. Order of the body: instructions, tools, input. The
//! parts that change least come first, because the provider's cache reads from the start.

mod read;
mod write;

use bytes::Bytes;
use cotter::model::{Request, Thinking, tools::ToolList};
use serde_json::{Value, json};
use smol_str::SmolStr;

use self::{read::ResponsesReader, write::ResponsesWriter};
use crate::{
    adapter::{Dialect, Reader},
    body::{Body, put},
    catalog::{Effort, ModelFacts, ThinkingControl},
    conversation::{self, WrittenConversation},
    plain,
};

/// The lowest reply limit the provider takes.
const MIN_TOKENS: u32 = 16;

/// The dialect of one model.
pub(crate) struct Responses {
    /// `provider/model`. Replies of this model carry this name in the session.
    name: SmolStr,
    /// The provider's own name of the model.
    model: String,
    facts: ModelFacts,
    /// The cache key: everything that the cached bytes of messages and tools depend on.
    key: String,
}

impl Responses {
    pub(crate) fn new(name: SmolStr, model: &str, facts: ModelFacts) -> Self {
        let key = format!("responses {name}");
        Responses { name, model: model.to_owned(), facts, key }
    }

    /// The body before the conversation.
    fn head(&self, request: &Request) -> Body {
        let mut body = Body::default();
        body.text(r#"{"model":"#).json(&self.model);
        if !request.system.trim().is_empty() {
            body.text(r#","instructions":"#).json(&*request.system);
        }
        if !request.tools.is_empty() {
            let tools: &Bytes = request.tools.memoize(&self.key, |tools| tools_json(tools).into());
            body.text(r#","tools":"#).shared(tools.clone());
        }
        body.text(r#","input":["#);
        body
    }

    fn write(&self, request: &Request) -> WrittenConversation<ResponsesWriter> {
        conversation::write(&request.messages, &self.key, ResponsesWriter::new(self.name.clone()))
    }

    /// The effort word for a level.
    fn effort(&self, level: Thinking) -> Option<Effort> {
        let effort = self.facts.effort(level)?;
        // Few models take `minimal`; a model that is not in the catalogue gets `low`.
        let is_guess = self.facts.efforts.is_empty() && effort == Effort::Minimal;
        Some(if is_guess { Effort::Low } else { effort })
    }

    fn settings(&self, request: &Request) -> Value {
        let mut settings = json!({"store": false, "stream": true});
        if !request.tools.is_empty() {
            settings["parallel_tool_calls"] = json!(true);
        }
        if let Some(max_tokens) = request.max_tokens {
            settings["max_output_tokens"] = json!(max_tokens.max(MIN_TOKENS));
        }
        let effort = self.effort(request.thinking);
        if let Some(effort) = effort {
            settings["reasoning"] = json!({"effort": effort.as_str()});
            if request.thinking != Thinking::Off && effort != Effort::None {
                settings["reasoning"]["summary"] = json!("auto");
            }
        }
        // A model that cannot think refuses this field.
        let thinks = !matches!(
            self.facts.thinking_control,
            ThinkingControl::None | ThinkingControl::Unknown
        );
        if thinks || effort.is_some() {
            settings["include"] = json!(["reasoning.encrypted_content"]);
        }
        settings
    }
}

impl Dialect for Responses {
    fn path(&self) -> &'static str {
        "responses"
    }

    fn body(&self, request: &Request) -> Body {
        let mut body = self.prefix(request);
        let settings = self.settings(request).to_string();
        body.text("],").text(settings.trim_start_matches('{'));
        body
    }

    fn prefix(&self, request: &Request) -> Body {
        let mut body = self.head(request);
        self.write(request).pieces.into_iter().for_each(|piece| _ = body.shared(piece.bytes));
        body
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(ResponsesReader::default())
    }
}

fn tools_json(tools: &ToolList) -> Vec<u8> {
    // The default is strict: the provider would then rewrite the schema and enforce it.
    let tools = tools.specs().map(|spec| {
        json!({"type": "function", "name": plain::name(&spec.name), "description": spec.description,
               "strict": false, "parameters": spec.schema})
    });
    let mut out = vec![];
    put(&mut out, &tools.collect::<Vec<_>>());
    out
}
