//! OpenAI's Chat Completions, as OpenAI speaks them and many others after it: what a request looks
//! like, and what differs from one to the other.
//!
//! Model, tools, then messages with the system prompt first: the order in which caches read them.
//! Caching needs no marks; whatever may change from request to request stands behind the messages.

mod back;
mod calls;
mod read;
mod write;

use bytes::Bytes;
use cotter::model::{Request, Thinking, tools::ToolList};
use reqwest::Url;
use serde_json::{Value, json};
use smol_str::SmolStr;

use self::{read::Chunks, write::ChatWriter};
use crate::{
    adapter::{Dialect, Reader},
    body::{Body, put},
    catalog::{ChatTools, Effort, Known, Thinks},
    conversation::{self, WrittenConversation},
    plain,
};

/// What differs between those who speak it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Flavour {
    /// The host it is known by, with all hosts below it.
    host: &'static str,
    /// The field for the most tokens of a reply.
    max_tokens: &'static str,
    /// Fields that are sent with every request.
    always: &'static [Field],
    /// Fields that are sent when nobody wants thinking, beside what the catalogue says.
    unthinking: &'static [Field],
    /// Fields that are sent for models of a maker.
    by_maker: &'static [(&'static str, Field)],
    returns: Returns,
}

/// A field of a request, and its value in JSON.
type Field = (&'static str, &'static str);

/// What a provider insists on hearing again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Returns {
    /// Nothing; what a model thought goes back where it called tools.
    AsItCame,
    /// What it thought, with every reply, even if it is nothing.
    Thoughts,
    /// A signature on the first call of every reply; there is a word for replies of others.
    Signatures,
}

const USAGE: Field = ("stream_options", r#"{"include_usage":true}"#);

/// Everybody of whom nothing else is known: Ollama, llama.cpp, vLLM, LM Studio, and so on.
const PLAIN: Flavour = Flavour {
    host: "",
    max_tokens: "max_tokens",
    always: &[USAGE],
    unthinking: &[],
    by_maker: &[],
    returns: Returns::AsItCame,
};

const OPENAI: &str = "api.openai.com";

const FLAVOURS: &[Flavour] = &[
    Flavour {
        host: OPENAI,
        max_tokens: "max_completion_tokens",
        always: &[USAGE, ("store", "false")],
        ..PLAIN
    },
    Flavour {
        host: "openrouter.ai",
        // It counts unasked.
        always: &[],
        // The others there cache by themselves.
        by_maker: &[("anthropic/", ("cache_control", r#"{"type":"ephemeral"}"#))],
        ..PLAIN
    },
    Flavour { host: "generativelanguage.googleapis.com", returns: Returns::Signatures, ..PLAIN },
    Flavour {
        host: "api.deepseek.com",
        unthinking: &[("thinking", r#"{"type":"disabled"}"#)],
        returns: Returns::Thoughts,
        ..PLAIN
    },
];

impl Flavour {
    /// Who answers at an address.
    fn at(url: &str) -> &'static Flavour {
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let is_at = |flavour: &&Flavour| {
            let above = host.strip_suffix(flavour.host);
            above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
        };
        FLAVOURS.iter().find(is_at).unwrap_or(&PLAIN)
    }
}

/// Whether it is OpenAI itself who answers at an address.
pub(crate) fn is_openai(url: &str) -> bool {
    Flavour::at(url).host == OPENAI
}

/// The dialect of one model.
pub(crate) struct Completions {
    /// `provider/model`: what replies of this model are signed with in the session.
    name: SmolStr,
    /// The provider's own name for it.
    model: String,
    known: Known,
    flavour: &'static Flavour,
    /// Everything that what is kept with messages and tools depends on.
    key: String,
}

impl Completions {
    pub(crate) fn new(name: SmolStr, model: &str, base_url: &str, known: Known) -> Self {
        let flavour = Flavour::at(base_url);
        let key = format!("chat {} {name}", flavour.host);
        Completions { name, model: model.to_owned(), known, flavour, key }
    }

    /// Everything before the conversation.
    fn head(&self, request: &Request) -> Body {
        let mut body = Body::default();
        body.text(r#"{"model":"#).json(&self.model);
        if !request.tools.is_empty() {
            let tools: &Bytes = request.tools.keep(&self.key, |tools| tools_json(tools).into());
            body.text(r#","tools":"#).shared(tools.clone());
        }
        body.text(r#","messages":["#);
        if has_system(request) {
            body.text(r#"{"role":"system","content":"#).json(&*request.system).text("}");
        }
        body
    }

    fn write(&self, request: &Request) -> WrittenConversation<ChatWriter> {
        let returns = match self.flavour.returns {
            // Those before the third generation sign nothing and ask for nothing.
            Returns::Signatures if is_unsigned(&self.model) => Returns::AsItCame,
            returns => returns,
        };
        let turns = ChatWriter::new(self.name.clone(), returns, has_system(request));
        conversation::write(&request.messages, &self.key, turns)
    }

    fn settings(&self, request: &Request) -> Value {
        let mut settings = json!({"stream": true});
        let flavour = self.flavour;
        let unthinking = match request.thinking {
            Thinking::Off => flavour.unthinking,
            _ => &[],
        };
        let makers = flavour.by_maker.iter().filter(|(maker, _)| self.model.starts_with(maker));
        let fields = flavour.always.iter().chain(unthinking);
        for (name, value) in fields.chain(makers.map(|(_, field)| field)) {
            settings[*name] = serde_json::from_str(value).unwrap_or_default();
        }
        if let Some(most) = request.max_tokens {
            // Those that think refuse the older word, wherever they are reached.
            let thinks = self.known.thinks == Thinks::Effort;
            let field = if thinks { "max_completion_tokens" } else { flavour.max_tokens };
            settings[field] = json!(most);
        }
        if let Some(effort) = self.effort(request) {
            settings["reasoning_effort"] = json!(effort.as_str());
        }
        settings
    }

    fn effort(&self, request: &Request) -> Option<Effort> {
        let has_tools = !request.tools.is_empty();
        if has_tools && self.known.chat_tools == ChatTools::WithoutThinking {
            // Said aloud: left out, it thinks by default, and then refuses its tools.
            return Some(Effort::None);
        }
        let effort = self.known.effort(request.thinking)?;
        // Few take the lowest word; one nobody knows of is not asked to.
        let is_guess = self.known.efforts.is_empty() && effort == Effort::Minimal;
        Some(if is_guess { Effort::Low } else { effort })
    }
}

impl Dialect for Completions {
    fn path(&self) -> &'static str {
        "chat/completions"
    }

    fn body(&self, request: &Request) -> Body {
        let mut body = self.head(request);
        let written = self.write(request);
        written.pieces.into_iter().for_each(|piece| _ = body.shared(piece.bytes));
        body.text(written.writer.closing()).text("],");
        body.text(self.settings(request).to_string().trim_start_matches('{'));
        body
    }

    fn prefix(&self, request: &Request) -> Body {
        let mut body = self.head(request);
        self.write(request).pieces.into_iter().for_each(|piece| _ = body.shared(piece.bytes));
        body
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Chunks::default())
    }
}

fn has_system(request: &Request) -> bool {
    !request.system.trim().is_empty()
}

fn is_unsigned(model: &str) -> bool {
    let name = model.strip_prefix("models/").unwrap_or(model);
    name.starts_with("gemini-1") || name.starts_with("gemini-2")
}

fn tools_json(tools: &ToolList) -> Vec<u8> {
    let tools = tools.specs().map(|spec| {
        json!({"type": "function", "function": {
            "name": plain::name(&spec.name), "description": spec.description, "parameters": spec.schema,
        }})
    });
    let mut out = vec![];
    put(&mut out, &tools.collect::<Vec<_>>());
    out
}

#[cfg(test)]
mod tests {
    use super::Flavour;

    #[test]
    fn an_address_tells_who_answers() {
        let cases = [
            ("https://api.openai.com/v1", "api.openai.com"),
            ("https://eu.api.openai.com/v1/", "api.openai.com"),
            ("https://user:word@API.OpenAI.com:443/v1?x=y", "api.openai.com"),
            ("https://openrouter.ai/api/v1", "openrouter.ai"),
            (
                "https://generativelanguage.googleapis.com/v1beta/openai",
                "generativelanguage.googleapis.com",
            ),
            ("https://api.deepseek.com", "api.deepseek.com"),
            ("https://myapi.openai.com/v1", ""),
            ("https://api.openai.com.example.org/v1", ""),
            ("http://127.0.0.1:11434/v1", ""),
            ("http://localhost:8000/api.openai.com", ""),
            ("", ""),
        ];
        for (url, host) in cases {
            assert_eq!(Flavour::at(url).host, host, "{url}");
        }
    }
}
